"""Noisy counts of a numeric column on a public grid: what bounds and quantiles are bought from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.schema import cells
from synthdp.seal.records import Records, within

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]

POWERS = tuple(2.0**power for power in range(-10, 41))
SIGNED_POWERS = (*(-edge for edge in reversed(POWERS[1:])), 0.0, *POWERS[1:])  # no cell straddles zero
CELLS = 512  # of the fine grid that quantiles are read from
FALSE_CELLS = 0.05  # chance that noise alone lifts an empty cell above the threshold
FEW = 0.02  # of the records: what the ends of learned bounds may leave out
BLOCKS = 32  # of the fine grid, whose sums stand clear of the noise where single cells do not


@dataclass(frozen=True)
class Grid:
    """Counts of the cells between `edges` (ascending), plus Gaussian noise on each.

    A unit of at most R records moves the counts by at most R in L2, all of them in one cell. Values outside the edges count
    in the first or last cell; what is not a finite number counts nowhere.
    """

    additive: ClassVar[bool] = True  # a sum over units
    column: str
    edges: tuple[float, ...]
    noise: float
    max_records: int
    dates: bool = False

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """R."""
        return float(self.max_records)

    @property
    def deviation(self) -> float:
        """Standard deviation of each cell."""
        return self.noise * self.max_records

    def bounded(self, records: Records) -> Numbers:
        """The exact counts, (cells,)."""
        within(records, self.max_records)
        values = numbers(records.column(self.column), dates=self.dates)
        values = values[np.isfinite(values)]
        places = np.searchsorted(np.asarray(self.edges), values, side="right") - 1
        last = len(self.edges) - 2
        return np.bincount(np.clip(places, 0, last), minlength=last + 1).astype(np.float64)

    def noised(self, bounded: Numbers, noise: Noise) -> Numbers:
        """The noisy counts."""
        return noise.added(bounded, self.deviation)

    def movement(self, one: Numbers, other: Numbers) -> float:
        """L2 distance."""
        return float(np.linalg.norm(one - other))


def numbers(column: "pd.Series[Any]", *, dates: bool) -> Numbers:
    """A raw column as float64, each cell read on its own; dates as microseconds since 1970; NaN for what is neither."""
    read = cells.instants(column) if dates else cells.numbers(column)
    return np.where(read.missing | (read.wrong if dates else False), np.nan, read.cells.astype(np.float64))


def clear(counts: Numbers, deviation: float) -> NDArray[np.intp]:
    """The cells whose noisy count stands clear of the noise."""
    return np.flatnonzero(counts > max(0.5, _threshold(len(counts), deviation)))


def _threshold(cells: int, deviation: float) -> float:
    return deviation * math.sqrt(2 * math.log(cells / FALSE_CELLS))


def widened(edges: Sequence[float], low: float, high: float, counts: Numbers, deviation: float) -> tuple[float, float]:
    """One cell more at either end, not across zero, where a cell that the noise hides may hold more than FEW of the records."""
    if _threshold(len(counts), deviation) <= FEW * float(counts[clear(counts, deviation)].sum()):
        return low, high
    below, above = edges.index(low), edges.index(high)
    return edges[max(0, below - 1)] if low != 0 else low, edges[min(len(edges) - 1, above + 1)] if high != 0 else high


def occupied(edges: Sequence[float], counts: Numbers, deviation: float) -> tuple[float, float]:
    """From the lowest edge to the highest edge of the cells whose noisy count stands clear of the noise.

    With no such cell, the fullest one: an answer is due whatever the records are.
    """
    found = clear(counts, deviation)
    if len(found) == 0:
        found = np.array([int(np.argmax(counts))])
    return float(edges[found[0]]), float(edges[found[-1] + 1])


def fine_edges(low: float, high: float, *, integers: bool) -> tuple[float, ...]:
    """The edges of at most CELLS equal cells over [low, high]; on whole numbers where the values are integers."""
    if integers:
        step = max(1, math.ceil((high - low + 1) / CELLS))
        edges = np.arange(low, high + 1 + step, step, dtype=np.float64)
        return tuple(float(edge) for edge in edges)
    return tuple(float(edge) for edge in np.linspace(low, high, CELLS + 1))


def tightened(edges: Sequence[float], counts: Numbers, deviation: float, records: float) -> tuple[float, float]:
    """As `occupied`, on blocks of cells: the ends of a fine grid's mass, to within a block.

    Where a block with FEW of the (about so many) `records` would not stand clear, the grid's own ends: what is left out then
    would be cut off.
    """
    size = math.ceil(len(counts) / BLOCKS)
    if _threshold(BLOCKS, deviation * math.sqrt(size)) > FEW * records:
        return float(edges[0]), float(edges[-1])
    starts = np.arange(0, len(counts), size)
    block_edges = [*(float(edges[int(start)]) for start in starts), edges[-1]]
    return occupied(block_edges, np.add.reduceat(counts, starts), deviation * math.sqrt(size))


def quantiles(edges: Sequence[float], counts: Numbers, shares: Sequence[float]) -> list[float]:
    """Where the noisy distribution function first reaches each share, by linear interpolation inside a cell."""
    mass = np.clip(np.concatenate([[0.0], np.maximum.accumulate(np.cumsum(counts))]), 0, None)
    if mass[-1] <= 0:
        mass = np.linspace(0.0, 1.0, len(edges))
    return [float(value) for value in np.interp(np.asarray(shares) * mass[-1], mass, np.asarray(edges))]
