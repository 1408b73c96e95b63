"""How far the records' tables lie from those of a candidate: one noisy number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.norms import MARGIN
from synthdp.seal.records import Countable

MOST_UNITS = 2**30  # rounding of sums of so many stays far below what `MARGIN` leaves


@dataclass(frozen=True)
class Distance:
    """The mean over cliques of the L1 distance between the records' table and an expected one, plus N(0, noise^2).

    Every unit weighs one: its records share its weight. A unit more or less then moves each table by 1 in L1, the distance to
    any fixed table by at most 1 (triangle inequality), and so their mean, which is taken times `MARGIN` to leave room for
    rounding. Divided by twice the public number of units it is about the mean total variation distance. `expected` holds an
    array per clique, one axis per column, in numbers of units.
    """

    counted: ClassVar[bool] = True  # asks for counts alone
    cliques: tuple[tuple[int, ...], ...]  # columns of the code table
    sizes: tuple[int, ...]  # codes per column
    expected: tuple[NDArray[np.float64], ...]
    noise: float
    groups: tuple[NDArray[np.int64] | None, ...] | None = None  # what a column is counted by, as in `Marginals`

    def __post_init__(self) -> None:
        if not self.cliques or len(self.cliques) != len(self.expected):
            raise BadInput("a distance needs one expected table for each clique, and one clique or more")
        for clique, table in zip(self.cliques, self.expected, strict=True):
            if table.shape != self._shape(clique) or not np.isfinite(table).all():
                raise BadInput(
                    f"the expected table of columns {clique} must be finite and of shape {self._shape(clique)}"
                )
            if np.abs(table).sum() > MOST_UNITS:
                raise BadInput(
                    f"an expected table holds more than {MOST_UNITS:,} units: distances to it are rounded by too much"
                )

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """1, however many records a unit has."""
        return 1.0

    def bounded(self, records: Countable) -> float:
        """The exact distance."""
        counted = records.weights(self.cliques, self.sizes, self.groups)
        apart = [float(np.abs(found - table).sum()) for found, table in zip(counted, self.expected, strict=True)]
        return MARGIN * math.fsum(apart) / len(apart)

    def noised(self, bounded: float, noise: Noise) -> float:
        """The noisy distance."""
        return float(noise.added(np.array([bounded]), self.noise)[0])

    def movement(self, one: float, other: float) -> float:
        """How far it moved."""
        return abs(one - other)

    def _shape(self, clique: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._size(column) for column in clique)

    def _size(self, column: int) -> int:
        group = None if self.groups is None else self.groups[column]
        return self.sizes[column] if group is None else int(group.max(initial=0)) + 1
