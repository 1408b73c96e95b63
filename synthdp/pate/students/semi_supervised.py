"""PATE-G's student: a semi-supervised GAN with feature matching (Salimans et al. 2016, sections 3.1 and 5; used by Papernot
et al. 2017, section 2.3).

The discriminator tells K classes from each other and all of them from what the generator makes. It learns the classes from the
labelled queries, "real" from all public records, "fake" from the generator; the generator matches the mean of its last hidden
layer over public records. No private record comes near, so the student may be trained as long as one likes.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from synthdp.generators.parts.table_networks import draw_weights
from synthdp.generators.parts.training_state import kept_of
from synthdp.options import check, not_negative, number, option, positive, several, whole
from synthdp.pate.students import Learned, Tensors, TrainingSet
from synthdp.pate.students.network import DIVERGED, Trained, WeightNorm, batches, cross_entropy, disturbed, load

BETAS = (0.5, 0.999)


@dataclass(frozen=True, kw_only=True)
class SemiSupervised:
    """Layers and noise as published for MNIST, but for a narrower first layer, a smaller learning rate and fewer `steps` (the
    paper trains 300 epochs), which suit a CPU.

    Inputs are taken to lie in [0, 1]: the generator ends in a sigmoid. Noise is added to the discriminator's inputs
    and hidden layers while it learns.
    """

    hidden: tuple[int, ...] = option((500, 250, 250, 250), "widths of the discriminator's layers", several(whole(), 1))
    generator_hidden: tuple[int, ...] = option((500, 500), "widths of the generator's layers", several(whole()))
    latent: int = option(100, "latent values per row", whole())
    steps: int = option(6000, "training steps", whole())
    batch: int = option(100, "rows per step", whole())
    learning_rate: float = option(1e-3, "learning rate of Adam", positive())
    noise: float = option(0.3, "standard deviation of the noise on the discriminator's inputs", not_negative())
    hidden_noise: float = option(0.5, "the same on its hidden layers", not_negative())
    average: float = option(0.999, "decay of the moving average of its weights, which predicts", number("[0, 1)"))

    name: ClassVar[str] = "semi_supervised"

    def __post_init__(self) -> None:
        check(self, "student.")

    def learn(self, training: TrainingSet, seed: int) -> Learned:
        """See `Student`."""
        stream = torch.Generator().manual_seed(seed)
        game = Game(self, torch.from_numpy(training.rows), torch.from_numpy(training.targets), stream)
        pool = torch.from_numpy(training.pool)
        if len(pool) == 0 or len(training.rows) == 0:
            return Trained(game.mean.eval(), training.classes)
        game.discriminator.settle(pool[: 5 * self.batch])
        game.mean.load_state_dict(game.discriminator.state_dict())
        seen = batches(len(pool), self.batch, self.steps, stream)
        labelled = batches(len(training.rows), self.batch, self.steps, stream)
        first = Discriminator(
            training.rows.shape[1], self.hidden, training.classes, torch.Generator().manual_seed(0), self
        )
        first.load_state_dict(game.mean.state_dict())
        for step, (one, other) in enumerate(zip(seen, labelled, strict=True)):
            game.step(step, pool[one], other)
        return Trained(kept_of(game.mean, first, DIVERGED).eval(), training.classes)

    def restore(self, width: int, classes: int, tensors: Tensors) -> Learned:
        """See `Student`."""
        made = load(lambda stream: Discriminator(width, self.hidden, classes, stream, self), self.hidden, tensors)
        return Trained(made, classes)


class Discriminator(nn.Module):
    """(rows, width) -> (rows, K) logits; the fake class has logit 0 (Salimans et al. 2016, section 5)."""

    def __init__(
        self, width: int, hidden: tuple[int, ...], classes: int, stream: torch.Generator | None, student: SemiSupervised
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(WeightNorm(a, b, stream) for a, b in pairwise((width, *hidden)))
        self.out = WeightNorm(hidden[-1], classes, stream, 0.1)
        self._stream = stream
        self._deviations = (student.noise, student.hidden_noise)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.out(self.activations(rows))
        return logits

    def activations(self, rows: Tensor) -> Tensor:
        """The last hidden layer, (rows, hidden[-1]): what the generator matches."""
        for place, layer in enumerate(self.layers):
            if self.training:
                rows = disturbed(rows, self._deviations[place > 0], self._stream)
            rows = layer(rows).relu()
        return rows

    @torch.no_grad()
    def settle(self, rows: Tensor) -> None:
        """Initialise gains and biases on public rows (Salimans & Kingma 2016)."""
        for layer in self.layers:
            if isinstance(layer, WeightNorm):
                rows = layer.settle(rows).relu()


class GeneratorNetwork(nn.Module):
    """The generator: (rows, latent) -> (rows, width) in (0, 1), softplus layers normalised over the batch."""

    def __init__(self, latent: int, hidden: tuple[int, ...], width: int, stream: torch.Generator) -> None:
        super().__init__()
        sizes = (latent, *hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in hidden)
        self.out = WeightNorm(sizes[-1], width, stream)
        for layer in self.layers:
            draw_weights(layer, 0.05, stream)

    def forward(self, latent: Tensor) -> Tensor:
        """Records."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            latent = functional.softplus(norm(layer(latent)))
        made: Tensor = self.out(latent).sigmoid()
        return made


class Game:
    """Both networks and their optimisers; `step` updates each once."""

    def __init__(self, student: SemiSupervised, rows: Tensor, targets: Tensor, stream: torch.Generator) -> None:
        width, classes = rows.shape[1], targets.shape[1]
        self._student, self._rows, self._targets, self._stream = student, rows, targets, stream
        self.discriminator = Discriminator(width, student.hidden, classes, stream, student)
        self.mean = Discriminator(width, student.hidden, classes, stream, student)
        self._generator = GeneratorNetwork(student.latent, student.generator_hidden, width, stream)
        self._of_discriminator, self._of_generator = (
            torch.optim.Adam(network.parameters(), student.learning_rate, betas=BETAS, fused=True)
            for network in (self.discriminator, self._generator)
        )

    def step(self, step: int, seen: Tensor, labelled: Tensor) -> None:
        """`seen` are public records (rows, width), `labelled` places of answered queries."""
        self._rate(step)
        fake = self._generator(torch.randn(len(seen), self._student.latent, generator=self._stream))
        self._update(
            self.discriminator, self._of_discriminator, self._discriminator_loss(seen, fake.detach(), labelled)
        )
        with torch.no_grad():
            aim = self.discriminator.activations(seen).mean(0)
        matched = (self.discriminator.activations(fake).mean(0) - aim).square().mean()
        self._update(self._generator, self._of_generator, matched)
        self._follow(step)

    def _discriminator_loss(self, seen: Tensor, fake: Tensor, labelled: Tensor) -> Tensor:
        together = torch.cat([self._rows[labelled], seen, fake])
        known, real, made = self.discriminator(together).split([len(labelled), len(seen), len(fake)])
        real, made = real.logsumexp(1), made.logsumexp(1)
        # log D = z - softplus(z) and log(1 - D) = - softplus(z), z the log of the summed class scores
        unsupervised = (functional.softplus(real) - real).mean() + functional.softplus(made).mean()
        loss: Tensor = cross_entropy(known, self._targets[labelled]) + unsupervised / 2
        return loss

    def _update(self, network: nn.Module, optimizer: Optimizer, loss: Tensor) -> None:
        parameters = list(network.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()

    def _rate(self, step: int) -> None:
        share = min(1.0, 3 * (1 - step / self._student.steps))  # falls over the last third, as published
        for optimizer in (self._of_discriminator, self._of_generator):
            for group in optimizer.param_groups:
                group["lr"] = self._student.learning_rate * share

    @torch.no_grad()
    def _follow(self, step: int) -> None:
        share = max(1 - self._student.average, 1 / (step + 1))
        for mean, value in zip(self.mean.parameters(), self.discriminator.parameters(), strict=True):
            mean.lerp_(value, share)
