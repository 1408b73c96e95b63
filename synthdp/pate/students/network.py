"""A network as a student: supervised, on hard or soft noisy labels."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators.parts.setting_checks import refuse_ignored
from synthdp.generators.parts.table_networks import draw_weights
from synthdp.generators.parts.training_state import kept_of, rebuilt
from synthdp.options import check, not_negative, number, option, positive, several, whole
from synthdp.pate.students import Learned, Probabilities, Tensors, TrainingSet

# ---- Layers and losses that the torch students share.


class WeightNorm(nn.Module):
    """A dense layer y = g (v / |v|) x + b, one gain per output (Salimans & Kingma 2016)."""

    def __init__(self, width: int, out: int, generator: torch.Generator | None, scale: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(out, width, generator=generator) * 0.05)
        self.gain = nn.Parameter(torch.full((out,), float(scale)))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, width) -> (rows, out)."""
        # The gain goes to the outputs: they are fewer than the weights.
        out: Tensor = functional.linear(rows, self.direction) * (self.gain / self.direction.norm(dim=1)) + self.bias
        return out

    @torch.no_grad()
    def settle(self, rows: Tensor) -> Tensor:
        """Set gain and bias so that the outputs on public `rows` have mean 0 and deviation 1; returns those outputs."""
        out = self(rows)
        deviation, mean = torch.std_mean(out, 0)
        scale = 1 / deviation.clamp_min(1e-6) if len(rows) > 1 else torch.ones_like(mean)
        self.gain.mul_(scale)
        self.bias.sub_(mean).mul_(scale)
        settled: Tensor = (out - mean) * scale
        return settled


def disturbed(rows: Tensor, deviation: float, generator: torch.Generator | None) -> Tensor:
    """The rows with normal noise of that deviation, as while training."""
    return rows if deviation == 0 else rows + deviation * torch.randn(rows.shape, generator=generator)


def dense(sizes: Sequence[int], generator: torch.Generator | None) -> nn.ModuleList:
    """Plain layers of these widths, initialised from `generator` (He et al. 2015)."""
    layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
    for layer, inputs in zip(layers, sizes, strict=False):
        draw_weights(layer, (2 / inputs) ** 0.5, generator)
    return layers


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of - sum_k target_k log softmax(logits)_k, scalar; linear in the targets."""
    return -(targets * logits.log_softmax(1)).sum(1).mean()


DIVERGED = "the student diverged, so it is only its starting point; lower its learning rate, and relearn at no charge"
CHUNK = 4096  # rows at a time when predicting


@dataclass(frozen=True, kw_only=True)
class Network:
    """A torch network that minimises the cross entropy with the noisy labels (Adam).

    A `module` of your own starts from the weights that it has. A layer in it that draws by itself, such as dropout, draws from
    torch's own stream, which no seed here reaches.
    """

    hidden: tuple[int, ...] = option((128, 128), "widths of the hidden layers of an MLP", several(whole()))
    picture: tuple[int, ...] = option(
        (),
        "height, width and channels of a picture, which all of a row is: convolutions in the MLP's place",
        several(whole()),
    )
    channels: tuple[int, ...] = option(
        (16, 32), "with picture: channels of the convolutions, each of stride 2", several(whole(), 1)
    )
    module: nn.Module | None = option(None, "takes the MLP's place: (rows, width) -> (rows, classes) logits")
    steps: int = option(1000, "training steps", whole())
    batch: int = option(100, "rows per step", whole())
    learning_rate: float = option(1e-3, "learning rate of Adam", positive())
    weight_decay: float = option(1e-4, "weight decay of Adam", not_negative())
    smoothing: float = option(0.0, "share of the uniform distribution in each label", number("[0, 1)"))
    noise: float = option(0.0, "standard deviation of the noise on the inputs", not_negative())

    name: ClassVar[str] = "network"

    def __post_init__(self) -> None:
        check(self, "student.")
        refuse_ignored(
            self,
            ("hidden",) if self.picture else ("channels",),
            "a picture" if self.picture else "no picture",
            "student.",
        )

    def learn(self, training: TrainingSet, seed: int) -> Learned:
        """See `Student`."""
        generator = torch.Generator().manual_seed(seed)
        network = self._network(training.rows.shape[1], training.classes, generator)
        rows, targets = torch.from_numpy(training.rows), torch.from_numpy(training.targets)
        targets = targets * (1 - self.smoothing) + self.smoothing / training.classes
        optimizer = torch.optim.AdamW(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / self.steps)
        first = copy.deepcopy(network)
        network.train()
        for chosen in batches(len(rows), self.batch, self.steps, generator):
            optimizer.zero_grad()
            loss = cross_entropy(network(disturbed(rows[chosen], self.noise, generator)), targets[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        return Trained(kept_of(network, first, DIVERGED).eval(), training.classes)

    def restore(self, width: int, classes: int, tensors: Tensors) -> Learned:
        """See `Student`."""
        made = load(lambda generator: self._network(width, classes, generator), self.hidden, tensors)
        return Trained(made, classes)

    def _network(self, width: int, classes: int, generator: torch.Generator | None) -> nn.Module:
        if self.module is not None:
            return copy.deepcopy(self.module)
        if self.picture:
            return Convolutions(width, self.picture, self.channels, classes, generator)
        return MLP(width, self.hidden, classes, generator)


class MLP(nn.Module):
    """Dense layers with rectifiers, (rows, width) -> (rows, classes) logits."""

    def __init__(self, width: int, hidden: tuple[int, ...], classes: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layers = dense((width, *hidden, classes), generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits."""
        for place, layer in enumerate(self.layers):
            rows = layer(rows.relu() if place else rows)
        return rows


class Convolutions(nn.Module):
    """Convolutions of stride 2 with rectifiers, then one dense layer: (rows, height x width x channels) -> (rows, classes) logits."""

    def __init__(
        self,
        width: int,
        picture: Sequence[int],
        channels: Sequence[int],
        classes: int,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        if len(picture) != 3 or math.prod(picture) != width:
            raise BadInput(
                f"convolutions see one picture and nothing beside it, but a row has {width} entries and the picture is of the shape "
                f"{tuple(picture)}: take a network or a forest, or leave the other columns out"
            )
        self._shape = tuple(picture)
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairwise([picture[2], *channels]))
        sides = [-(-side // 2 ** len(channels)) for side in picture[:2]]
        self.out = dense((math.prod(sides) * channels[-1], classes), generator)[0]
        for layer, inputs in zip(self.layers, [picture[2], *channels], strict=False):
            draw_weights(layer, (2 / (9 * inputs)) ** 0.5, generator)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits."""
        found = rows.view(-1, *self._shape).permute(0, 3, 1, 2)
        for layer in self.layers:
            found = layer(found).relu()
        logits: Tensor = self.out(found.flatten(1))
        return logits


@dataclass(frozen=True, eq=False)
class Trained:
    """A network that has learned."""

    network: nn.Module
    classes: int

    @torch.no_grad()
    def probabilities(self, rows: NDArray[np.float32]) -> Probabilities:
        """See `Learned`."""
        parts = [self.network(part).double().softmax(1) for part in torch.split(torch.from_numpy(rows), CHUNK)]
        found: Any = torch.cat(parts).numpy() if len(rows) else np.zeros((0, self.classes))
        if found.shape != (len(rows), self.classes):
            raise BadInput(f"the student's module must return (rows, {self.classes}) logits, got {found.shape}")
        return np.asarray(found, np.float64)

    def tensors(self) -> Tensors:
        """Parameters and buffers."""
        return {key: value.detach().numpy().copy() for key, value in self.network.state_dict().items()}


def load(make: Callable[[torch.Generator | None], nn.Module], hidden: tuple[int, ...], tensors: Tensors) -> nn.Module:
    """The network that `make` makes, with these parameters; raises `BadInput` where names, shapes or numbers do not fit."""
    if len(hidden) > len(tensors):  # before so many layers are made
        raise BadInput("the student has fewer layers than its settings give; the release was altered")
    return rebuilt(make, tensors).eval()


def batches(rows: int, size: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """`steps` index sets of min(size, rows) rows, each epoch in a new order; every step goes on where the last one ended."""
    size = min(size, rows)
    if size == 0:
        return
    order = torch.randperm(rows, generator=generator)
    start = 0
    for _ in range(steps):
        if start + size > rows:
            order, start = torch.randperm(rows, generator=generator), 0
        yield order[start : start + size]
        start += size
