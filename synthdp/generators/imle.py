"""Implicit maximum likelihood (IMLE; Li & Malik 2018) from noisy sums: every record draws the nearest generated row towards itself.

Of each record only a few random projections count, which are public coins. In a round the generator makes rows, each record is
counted at the nearest of them, and two things are asked of every row together: how many records n_j are nearest to it, and the
sum s_j of their projections. With these the objective of the paper needs no record: where record x is nearest to row g_j,
the sum of |P x - P g_j|^2 is the sum over rows of n_j |P g_j|^2 - 2 s_j . P g_j, and something that does not depend on the
network. Whatever number of steps follows, a round costs one Gaussian.

A row is the distribution of each column, given latent values. The squared distance to the mean of one-hot records is least at their
shares (Brier 1950), so categories are drawn from these distributions. Rows are moved to where records are, but nothing in the
objective says how often they should be there: this generator is for comparison.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.parts.gan_model import NetworkModel, network, restored
from synthdp.generators.parts.record_vectors import Array, Vectors
from synthdp.generators.parts.table_networks import WIDTH, Blocks, Network, random
from synthdp.generators.rongauss import random_axes
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan
from synthdp.options import check, option, positive, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import GroupSums, Sensitive

GRID = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class IMLE:
    """Settings of implicit maximum likelihood."""

    name: ClassVar[str] = "imle"
    traits: ClassVar[Traits] = Traits()

    rounds: int = option(100, "how often records are asked for their nearest generated rows", whole())
    generated: int = option(20, "generated rows in a round, which records choose from", whole())
    dimensions: int = option(
        64, "random projections of a record; all of the space if that is smaller", whole(most=1000)
    )
    steps: int = option(20, "training steps in a round, which read no record", whole())
    hidden: tuple[int, ...] = option((128, 128), "widths of the network's hidden layers", several(WIDTH, 1))
    latent: int = option(16, "latent values per row", WIDTH)
    learning_rate: float = option(1e-3, "learning rate of Adam; it falls to zero along a cosine", positive(100))

    def __post_init__(self) -> None:
        check(self)

    def validate(self, schema: Schema, budget: Budget) -> None:
        """Whatever the schema: there is nothing to refuse."""

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One Gaussian a round."""
        return (Entry(Gaussian(noise), self.rounds),)

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Round after round: draw rows, ask, train."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        vectors, generator = Vectors(data.codec, None), random(seed)
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        axes = random_axes(vectors.width, min(self.dimensions, vectors.width), rng)
        projection = on_grid(axes / vectors.bound)
        blocks, made = Blocks(data.codec.sizes), network(self, data.codec.sizes, None, generator)
        training = _Training(self, made, blocks, torch.from_numpy(projection).float())
        for turn in range(self.rounds):
            latent = torch.randn(self.generated, self.latent, generator=generator)
            with torch.no_grad():
                places = on_grid(training.projected(latent).double().numpy())
            question = Nearest(vectors, projection, places).question(noise)
            answer = torch.from_numpy(data.ask(question)).float()
            distance = training.run(latent, answer[:, 0], answer[:, 1:])
            progress(turn + 1, self.rounds, {"distance": distance})
        return NetworkModel(schema, made, torch.ones(1), None, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The weights."""
        return restored(self, schema, tensors, None)


def on_grid(values: Array) -> Array:
    """The nearest multiples of `GRID`. Products and sums of few of them are exact, in whatever order they are added: so which
    row is nearest to a record cannot depend, by rounding, on the records beside it."""
    return np.rint(values / GRID) * GRID


@dataclass(frozen=True)
class Nearest:
    """Which generated row a record is nearest to, and what it adds there: a one, and its projections, of L2 norm about 1 at most.
    `projection` and `places` are on the grid."""

    vectors: Vectors
    projection: Array  # (dimensions, width)
    places: Array  # (generated rows, dimensions)

    def question(self, noise: float) -> GroupSums:
        """Counts and sums of all generated rows: each record is in one group."""
        count, dimension = self.places.shape
        return GroupSums(self.told, dimension + 1, math.sqrt(2), noise, self.group, count)

    def told(self, codes: NDArray[Any]) -> Array:
        """(rows, 1 + dimensions)."""
        return np.hstack([np.ones((len(codes), 1)), self._projected(codes)])

    def group(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """(rows,) places of generated rows."""
        apart = np.square(self.places).sum(1) - 2 * self._projected(codes) @ self.places.T
        found: NDArray[np.int64] = apart.argmin(1)
        return found

    def _projected(self, codes: NDArray[Any]) -> Array:
        return self.vectors.of(codes) @ self.projection.T


class _Training:
    """The network, and Adam over all rounds."""

    def __init__(self, settings: IMLE, made: Network, blocks: Blocks, projection: Tensor) -> None:
        self._network, self._blocks, self._projection = made, blocks, projection
        self._label = torch.ones(settings.generated, 1)
        self._steps = settings.steps
        self._optimizer = torch.optim.Adam(made.parameters(), settings.learning_rate)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, settings.rounds * settings.steps)

    def projected(self, latent: Tensor) -> Tensor:
        """Projections of the rows that latent values make, (rows, dimensions)."""
        return self._blocks.probabilities(self._network(latent, self._label)) @ self._projection.T

    def run(self, latent: Tensor, counts: Tensor, sums: Tensor) -> float:
        """The steps of a round; the objective at its end, for each record, up to a constant."""
        counts = counts.clamp_min(0.0)
        total = counts.sum().clamp_min(1.0)
        loss = torch.zeros(())
        for _ in range(self._steps):
            rows = self.projected(latent)
            loss = ((counts[:, None] * rows - 2 * sums) * rows).sum() / total
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._schedule.step()
        return loss.item()


GENERATOR = IMLE
