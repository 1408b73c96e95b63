"""The two networks of a tabular GAN on one-hot blocks, one block of logits per column, and the draws around them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators.parts.devices import moved
from synthdp.options import whole

WIDTH = whole(most=16_384)  # of a layer
SLOPE = 0.2


class Blocks:
    """Where each column's one-hot block lies in a row of `width` entries."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.width = sum(sizes)
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        self.starts = torch.tensor(starts, dtype=torch.int64)
        self._starts = {self.starts.device: self.starts}
        self.slices = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]

    def one_hot(self, codes: Tensor) -> Tensor:
        """(rows, columns) codes -> (rows, width) zeros and ones."""
        if codes.device not in self._starts:
            self._starts[codes.device] = self.starts.to(codes.device)
        rows = torch.zeros(len(codes), self.width, device=codes.device)
        return rows.scatter_(1, codes.long() + self._starts[codes.device], 1.0)

    def draw(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """One category per column, (rows, columns) codes: the Gumbel-max trick."""
        noisy = logits + moved(gumbel(logits.shape, generator), logits.device)
        return torch.stack([noisy[:, block].argmax(1) for block in self.slices], 1)

    def soft_draw(self, logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
        """One-hot draws forward, softmax gradients backward (straight-through Gumbel; Jang, Gu & Poole 2017)."""
        noisy = logits + moved(gumbel(logits.shape, generator), logits.device)
        # Unlike that of slices, the backward pass of a split writes every entry once.
        blocks = torch.split(noisy, list(self.sizes), 1)
        soft = torch.cat([torch.softmax(block / temperature, 1) for block in blocks], 1)
        codes = torch.stack([block.argmax(1) for block in blocks], 1)
        return self.one_hot(codes) + soft - soft.detach()

    def probabilities(self, logits: Tensor) -> Tensor:
        """Softmax in every block, (rows, width)."""
        return torch.cat([torch.softmax(block, 1) for block in torch.split(logits, list(self.sizes), 1)], 1)


def gumbel(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise, on the CPU."""
    return -torch.empty(tuple(shape)).exponential_(generator=generator).clamp_min_(1e-30).log_()


class Scorer(nn.Module, ABC):
    """A discriminator whose layers tell each row's gradient by what goes into and comes out of them."""

    layers: nn.ModuleList

    @abstractmethod
    def passed(self, rows: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Scores (rows,), and what went into and came out of each layer."""

    def squares(self, layer: Any, x: Tensor, gradient: Tensor) -> Tensor:  # noqa: ARG002
        """Squared norm of each row's gradient of weight and bias, (rows,): here of linear layers."""
        return (x.square().sum(1) + 1) * gradient.square().sum(1)

    def forward(self, rows: Tensor) -> Tensor:
        """Scores."""
        return self.passed(rows)[0]

    def layer_squares(self, rows: Tensor) -> Tensor:
        """Squared norms of the gradient of each row's score, by layer, (layers, rows)."""
        scores, inputs, outputs = self.passed(rows)
        gradients = torch.autograd.grad(scores.sum(), outputs)
        triples = zip(self.known(), inputs, gradients, strict=True)
        return torch.stack([self.squares(*each) for each in triples]).detach()

    def layer_parameters(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer, in the order of `layer_squares`."""
        return [list(layer.parameters()) for layer in self.known()]

    def known(self) -> list[Any]:
        """The layers."""
        return list(self.layers)


@torch.no_grad()
def draw_weights(layer: Any, deviation: float, generator: torch.Generator | None) -> None:
    """Weights of this deviation around 0, and biases of 0 if there are any."""
    layer.weight.normal_(0, deviation, generator=generator)
    if layer.bias is not None:
        layer.bias.zero_()


class Discriminator(Scorer):
    """An MLP from one-hot rows to one score, (rows, width) -> (rows,).

    Inputs and hidden activations are centred by means over *generated* rows (public): records then share less of their
    gradient, and the clip bounds what tells them apart.
    """

    def __init__(self, width: int, hidden: Sequence[int], columns: int, generator: torch.Generator) -> None:
        super().__init__()
        sizes = [width, *hidden, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        for place, size in enumerate(sizes[:-1]):
            self.register_buffer(f"centre{place}", torch.zeros(size))
        for place, layer in enumerate(self.known()):
            fan = columns if place == 0 else layer.in_features  # a one-hot row has `columns` ones
            draw_weights(layer, (0.1 if place == len(hidden) else 1.0) * fan**-0.5, generator)

    def passed(self, rows: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Scores, and what went into and came out of each layer."""
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        for place, layer in enumerate(self.known()):
            if outputs:
                rows = functional.leaky_relu(outputs[-1], SLOPE)
            inputs.append(rows - self.get_buffer(f"centre{place}"))
            outputs.append(layer(inputs[-1]))
        return outputs[-1].squeeze(1), inputs, outputs

    @torch.no_grad()
    def recentre(self, rows: Tensor, share: float, *others: "Discriminator") -> None:
        """Move the centres towards the means over generated `rows`, of `others` alike; all scores stay what they are."""
        for place, layer in enumerate(self.known()):
            centre = self.get_buffer(f"centre{place}")
            step = share * (rows.mean(0) - centre)
            for network in (self, *others):
                own = network.known()[place]
                own.bias.add_(own.weight @ step)
                network.get_buffer(f"centre{place}").add_(step)
            rows = functional.leaky_relu(layer(rows - centre), SLOPE)


class Network(nn.Module):
    """The generator's MLP: latent values and a one-hot label -> logits of every column, with a bias table per label.

    With `components` it retouches a mixture: the first latent value says which component of the label's a row is of, whose
    logarithms of probabilities, `logs` (components, width), are added to the logits; `ends` (labels, components) are cumulated
    chances of a label's components. The MLP also sees the component's probabilities.
    """

    def __init__(
        self,
        latent: int,
        labels: int,
        hidden: Sequence[int],
        width: int,
        generator: torch.Generator | None,
        components: int = 0,
    ) -> None:
        super().__init__()
        self.components = components
        if components:
            self.register_buffer("logs", torch.zeros(components, width))
            self.register_buffer("ends", torch.ones(labels, components))
        sizes = [latent + labels + (width if components else 0), *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.out = nn.Linear(sizes[-1], width, bias=False)
        self.bias = nn.Parameter(torch.zeros(labels, width))
        for layer, inputs in zip(self.layers, sizes, strict=False):
            draw_weights(layer, (2 / inputs) ** 0.5, generator)
        draw_weights(self.out, 0.3 * self.out.in_features**-0.5, generator)

    def forward(self, latent: Tensor, label: Tensor) -> Tensor:
        """(rows, latent), (rows, labels) -> (rows, width) logits."""
        hidden = torch.cat([latent, label], 1)
        logs = self.mixed(latent, label) if self.components else None
        if logs is not None:
            hidden = torch.cat([hidden, logs.exp()], 1)
        for layer in self.layers:
            hidden = functional.leaky_relu(layer(hidden), SLOPE / 2)
        logits: Tensor = self.out(hidden) + label @ self.bias
        return logits if logs is None else logits + logs

    def mixed(self, latent: Tensor, label: Tensor) -> Tensor:
        """The logarithms of each row's component, (rows, width)."""
        ends = self.get_buffer("ends")[label.argmax(1)]
        chance = torch.special.ndtr(latent[:, :1])  # uniform
        component = torch.searchsorted(ends, chance, right=True).squeeze(1).clamp_max(self.components - 1)
        return self.get_buffer("logs")[component]

    @torch.no_grad()
    def begin(self, logs: Tensor, ends: Tensor) -> None:
        """Draw from this mixture, which the MLP leaves as it is until it has learnt."""
        self.get_buffer("logs").copy_(logs)
        self.get_buffer("ends").copy_(ends)
        self.out.weight.zero_()


def draw_latent(rows: int, latent: int, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(rows, latent) standard normals and (rows, labels) one-hot labels drawn from `labels`, all on the CPU."""
    drawn = (
        torch.multinomial(labels, rows, replacement=True, generator=generator)
        if rows
        else torch.zeros(0, dtype=torch.int64)
    )
    return torch.randn(rows, latent, generator=generator), functional.one_hot(drawn, len(labels)).float()


def with_label(codes: Tensor, label: Tensor, place: int | None) -> Tensor:
    """The codes with the label's own column set to the label."""
    if place is not None:
        codes[:, place] = label.argmax(1)
    return codes


def nearest_distribution(values: Tensor) -> Tensor:
    """Euclidean projection onto the probability simplex (Duchi et al. 2008), after scaling to a sum of about 1."""
    total = values.clamp_min(0).sum()
    scaled = values / total if total > 0 else torch.full_like(values, 1 / len(values))
    ordered, _ = scaled.sort(descending=True)
    sums = ordered.cumsum(0) - 1
    count = torch.arange(1, len(values) + 1)
    last = int((ordered - sums / count > 0).sum())
    return (scaled - sums[last - 1] / last).clamp_min(0)


@torch.no_grad()
def average(kept: nn.Module, moving: nn.Module, decay: float, step: int) -> None:
    """Exponential average of the parameters; it forgets faster in the first steps."""
    share = max(1 - decay, 1 / (step + 2))
    for mean, value in zip(kept.parameters(), moving.parameters(), strict=True):
        mean.lerp_(value, share)


def random(seed: int | None) -> torch.Generator:
    """A stream of its own: seeded, or from the operating system."""
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator
