"""Noisy contingency tables over the declared domain."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.seal.clipping import MARGIN
from synthdp.seal.records import Countable, shape_of, within

if TYPE_CHECKING:
    from synthdp.noise.noise import Noise

Table = NDArray[np.float64]
Grouping = NDArray[np.int64]


class StackedTables(ABC):
    """Tables of which a unit moves the stacked vector by at most `sensitivity` in L2, and N(0, deviation^2) noise in every cell."""

    additive: ClassVar[bool] = True  # a sum over units
    counted: ClassVar[bool] = True  # asks for counts alone
    noise: float

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Of all tables together."""

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all tables together."""
        return [Gaussian(self.noise)]

    @property
    def deviation(self) -> float:
        """Standard deviation of each cell."""
        return self.noise * self.sensitivity

    def noised(self, bounded: list[Table], noise: "Noise") -> list[Table]:
        """The noisy counts."""
        found = noise.added(np.concatenate([np.zeros(0), *(table.ravel() for table in bounded)]), self.deviation)
        parts = np.split(found, np.cumsum([table.size for table in bounded]))
        return [part.reshape(table.shape) for table, part in zip(bounded, parts, strict=False)]

    def movement(self, one: list[Table], other: list[Table]) -> float:
        """L2 distance of the stacked tables."""
        return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)))


@dataclass(frozen=True)
class Marginals(StackedTables):
    """One table per clique, every cell of the declared domain plus N(0, deviation^2) noise.

    A unit of at most R records adds at most R to the cells of each of the m tables, so the stacked vector moves by at most
    R * sqrt(m) in L2 (law 18), and deviation = noise * R * sqrt(m).

    `groups[j]`, where there is one, is what column j is counted by: a public map (codes of the column,) -> 0 .. groups - 1,
    such as the bins that earlier noisy answers asked for. Counting by groups adds cells up, which moves no unit further.
    """

    cliques: tuple[tuple[int, ...], ...]  # columns of the code table
    sizes: tuple[int, ...]  # codes per column
    noise: float
    max_records: int
    groups: tuple[Grouping | None, ...] | None = None

    def __post_init__(self) -> None:
        _check_groups(self.sizes, self.groups)

    @property
    def sensitivity(self) -> float:
        """R * sqrt(m)."""
        return self.max_records * math.sqrt(len(self.cliques))

    def bounded(self, records: Countable) -> list[Table]:
        """The exact counts, one array per clique with one axis per column."""
        within(records, self.max_records)
        return records.counts(self.cliques, self.sizes, self.groups)


def _check_groups(sizes: tuple[int, ...], groups: tuple[Grouping | None, ...] | None) -> None:
    for size, group in zip(sizes, groups or (), strict=groups is not None):
        if group is not None and (group.shape != (size,) or group.min(initial=0) < 0):
            raise BadInput(f"a grouping must give each of a column's {size} codes a group of 0 or more")


# ---- How far the records' tables lie from those of a candidate: one noisy number.


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
    of_counts: ClassVar[bool] = True  # a function of the counts of all records
    cliques: tuple[tuple[int, ...], ...]  # columns of the code table
    sizes: tuple[int, ...]  # codes per column
    expected: tuple[NDArray[np.float64], ...]
    noise: float
    groups: tuple[NDArray[np.int64] | None, ...] | None = None  # what a column is counted by, as in `Marginals`

    def __post_init__(self) -> None:
        _check_groups(self.sizes, self.groups)
        if not self.cliques or len(self.cliques) != len(self.expected):
            raise BadInput("a distance needs at least one clique, and one expected table for each clique")
        for clique, table in zip(self.cliques, self.expected, strict=True):
            shape = shape_of(clique, self.sizes, self.groups)
            if table.shape != shape or not np.isfinite(table).all():
                raise BadInput(f"the expected table of columns {clique} must be finite and have shape {shape}")
            if np.abs(table).sum() > MOST_UNITS:
                raise BadInput(
                    f"an expected table counts more than {MOST_UNITS:,} units, so distances to it would be rounded too coarsely"
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

    def noised(self, bounded: float, noise: "Noise") -> float:
        """The noisy distance."""
        return float(noise.added(np.array([bounded]), self.noise)[0])

    def movement(self, one: float, other: float) -> float:
        """How far it moved."""
        return abs(one - other)
