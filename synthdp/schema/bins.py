"""The bins of a numeric column: which code a value gets, and which values a code stands for."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.columns import MICROSECONDS, Continuous, Datetime, Numeric, microseconds

BINS = 32  # equal-width bins of a column that declares none
Values = NDArray[Any]  # float64 without a grid, int64 on one


@dataclass(frozen=True, kw_only=True, eq=False)
class Bins:
    """Codes 0 .. count - 1 are the intervals edges[i] <= x < edges[i + 1], then comes one code per atom (ascending).

    With a `step` the column lives on a grid: integers (step 1, or as declared), fixed decimals (step 10^-d), instants (step in
    microseconds). Edges and atoms then count steps (int64), and the last edge is one above the last point. Without a step they
    are numbers, and the last interval holds its upper edge. No interval is without a value of its own.
    """

    edges: Values
    atoms: Values
    count: int
    scale: float | None  # grid points per unit; None: no grid
    period: int  # microseconds per grid point of a datetime, else 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.count + len(self.atoms)

    def points(self, values: Values) -> Values:
        """Numbers, infinite ones too (datetimes: int64 microseconds), as points of the grid (int64), or as they are without one; out of
        bounds goes to the ends."""
        points: Values
        if self.scale is None:
            points = np.clip(values, self.edges[0], self.edges[-1])
        elif self.period > 1:
            points = np.clip(values // self.period, self.edges[0], self.edges[-1] - 1)
        else:
            ends = self.edges[0] / self.scale, (self.edges[-1] - 1) / self.scale
            points = np.rint(np.clip(values, *ends) * self.scale).astype(np.int64)
        return points

    def codes(self, points: Values) -> NDArray[np.int32]:
        """Codes of points."""
        codes = np.searchsorted(self.edges[1:-1], points, side="right")
        if len(self.atoms):
            place = np.minimum(np.searchsorted(self.atoms, points), len(self.atoms) - 1)
            codes = np.where(self.atoms[place] == points, self.count + place, codes)
        return codes.astype(np.int32)

    def values(self, points: Values) -> Values:
        """What points stand for."""
        if self.scale is not None and self.scale < 1:  # whole numbers in steps
            return points * round(1 / self.scale)
        return points * self.period if self.scale is None or self.scale == 1.0 else points / self.scale

    def lowest(self, codes: NDArray[np.int32]) -> Values:
        """The least point of each code, which on a grid is above the atoms that its interval begins with."""
        least = self.edges[: self.count].copy()
        for atom in self.atoms if self.scale is not None else ():
            least += least == atom
        return np.append(least, self.atoms)[codes]

    def draw(self, codes: NDArray[np.int32], rng: np.random.Generator, most: Values | None = None) -> Values:
        """One point per code, uniform within its interval, and at most `most` (rows,) where the interval has such a point; every point
        has its code again."""
        draws = rng.random(len(codes))
        atomic = codes >= self.count
        inside = np.where(atomic, 0, codes)
        lower, upper = self.edges[inside], self.edges[inside + 1]
        if most is not None:
            upper = self._up_to(lower, upper, most)
        points = self._reals(lower, upper, draws) if self.scale is None else self._grid(lower, upper, draws)
        if len(self.atoms):
            points = np.where(atomic, self.atoms[np.where(atomic, codes - self.count, 0)], points)
        return points

    def _up_to(self, lower: Values, upper: Values, most: Values) -> Values:
        if self.scale is None:
            return np.where((lower <= most) & (most < upper), np.nextafter(most, np.inf), upper)
        cut = np.minimum(upper, most + 1)
        room = cut - lower - (np.searchsorted(self.atoms, cut) - np.searchsorted(self.atoms, lower))
        return np.where((cut > lower) & (room > 0), cut, upper)

    def _grid(self, lower: Values, upper: Values, draws: NDArray[np.float64]) -> Values:
        taken = np.searchsorted(self.atoms, upper) - np.searchsorted(self.atoms, lower)
        room = np.maximum(upper - lower - taken, 1)
        points: Values = lower + np.minimum((draws * room).astype(np.int64), room - 1)
        for atom in self.atoms:  # step over the atoms, which have codes of their own
            points = points + ((lower <= atom) & (points >= atom))
        return points

    def _reals(self, lower: Values, upper: Values, draws: NDArray[np.float64]) -> Values:
        last = upper == self.edges[-1]
        highest = np.where(last, upper, np.nextafter(upper, -np.inf))
        points: Values = np.minimum(lower + draws * (upper - lower), highest)
        for _ in self.atoms:
            atomic = np.isin(points, self.atoms)
            points = np.where(atomic, np.nextafter(points, np.where(points < highest, np.inf, -np.inf)), points)
        return points


def top(bins: Bins) -> Any:
    """The largest point."""
    return bins.edges[-1] if bins.scale is None else bins.edges[-1] - 1


def bins_of(column: Numeric, cells: int = 0) -> Bins:
    """The bins that a declared column asks for, cut further into about `cells` of equal width in all; `BadInput` where an item is
    still to be learned."""
    if isinstance(column.bounds, str) or isinstance(column.bins, str):
        raise BadInput(
            f"column {column.name!r}: bounds or bins are still marked learn; declare them, or let a fit buy them"
        )
    if isinstance(column, Continuous) and column.decimals is None:
        return _real_bins(column, cells)
    period = MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 1
    scale = 10.0 ** (column.decimals or 0) if isinstance(column, Continuous) else 1.0 / getattr(column, "step", 1)
    low, high = (_steps(end, scale, period) for end in column.bounds)
    first, last = math.ceil(low), math.floor(high)
    if isinstance(column.bins, tuple):
        inner = [_steps(edge, scale, period) for edge in column.bins]
        starts = sorted({first, *(math.ceil(edge) for edge in inner if low < edge < high)})
    else:
        points = last - first + 1
        count = min(BINS if column.bins is None else column.bins, points)
        starts = _even(first, points, count)
    starts = sorted({*starts, *_even(first, last - first + 1, min(cells, last - first + 1))})
    atoms = [] if isinstance(column, Datetime) else sorted(round(atom * scale) for atom in column.atoms)
    edges = np.array([*starts, last + 1], dtype=np.int64)
    room = np.diff(edges) - np.diff(np.searchsorted(np.array(atoms, dtype=np.int64), edges))
    kept = [int(edge) for edge, free in zip(edges, room, strict=False) if free > 0]
    return Bins(
        edges=np.array([first, *kept[1:], last + 1], dtype=np.int64),
        atoms=np.array(atoms, dtype=np.int64),
        count=len(kept),
        scale=scale,
        period=period,
    )


def _even(first: int, points: int, count: int) -> list[int]:
    return [first + index * points // count for index in range(count)]


def _real_bins(column: Continuous, cells: int) -> Bins:
    low, high = (float(end) for end in column.bounds)
    if isinstance(column.bins, tuple):
        edges = np.unique([low, *column.bins, high])
    else:
        edges = np.unique(np.linspace(low, high, (BINS if column.bins is None else int(column.bins)) + 1))
    if cells:
        edges = np.union1d(edges, np.linspace(low, high, cells + 1))
    constant = low == high
    return Bins(
        edges=np.array([low, high]) if constant else edges,
        atoms=np.array(sorted(column.atoms), dtype=np.float64),
        count=int(not column.atoms) if constant else len(edges) - 1,
        scale=None,
        period=1,
    )


def _steps(value: float | str, scale: float, period: int) -> float:
    """A bound or edge in steps of the grid; of instants and of steps above 1, any part of a step counts as half of one.
    Products are rounded so that 0.07 * 100 is 7."""
    if isinstance(value, str) or scale < 1:
        exact = microseconds(value) if isinstance(value, str) else value
        whole, rest = divmod(exact, period if isinstance(value, str) else round(1 / scale))
        return whole + 0.5 if rest else whole
    return round(value * scale, 6) if scale != 1.0 else value
