"""Columns in a declared order, such as admission <= discharge, by what the codec codes: the larger one as its gap to the smaller.

The larger column b has a code for b - a, where a is the largest of the columns that must not exceed it, rounded up to b's grid;
where those are missing, a is b's lower bound. Gaps lie in a public range, that of the bounds. Encoding is total: a record that breaks
the rule has gap 0. Decoding draws a, then the gap, each where it leaves room for what comes above it, and cuts at b's upper
bound what has no room. So every decoded record keeps every rule, and every code of a record that does is decoded to itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.schema.bins import BINS, Bins, Values, bins_of, top
from synthdp.schema.columns import Column, Continuous, Datetime, Integer, Numeric

Mask = NDArray[np.bool_]
# Of the first bin of equal width, split twice each: short gaps are the most frequent, and a day matters there.
OCTAVES = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Gap:
    """A column that is coded as its gap. `bases`: the columns below it, and whether it must exceed them."""

    bases: tuple[tuple[str, bool], ...]
    column: Integer | Continuous  # of gaps, in steps of the own grid
    bins: Bins


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaps:
    """All columns that such rules tie, lower ones first; `own` has their bins, `gaps` the larger columns of the rules."""

    order: tuple[str, ...]
    own: Mapping[str, Bins]
    gaps: Mapping[str, Gap]

    def encode(self, points: Mapping[str, Values], gone: Mapping[str, Mask]) -> dict[str, NDArray[np.int32]]:
        """Codes of every larger column; `points` (rows,) of each tied column on its own grid, `gone` where it is missing."""
        codes: dict[str, NDArray[np.int32]] = {}
        found = dict(points)
        for name in self.order:
            if name in self.gaps:
                base = self._base(name, found, gone)
                found[name] = np.maximum(found[name], np.minimum(base, top(self.own[name])))
                bins = self.gaps[name].bins
                codes[name] = bins.codes(bins.points(np.maximum(found[name] - base, 0)))
        return codes

    def decode(
        self, codes: Mapping[str, NDArray[np.int32]], gone: Mapping[str, Mask], rng: np.random.Generator
    ) -> dict[str, Values]:
        """Points of every tied column; anything where it is missing, whose code must be of a bin all the same."""
        limits, wishes = self._room(codes, gone, wish=False), self._room(codes, gone, wish=True)
        found: dict[str, Values] = {}
        for name in self.order:
            if name not in self.gaps:
                drawn = self.own[name].draw(codes[name], rng, wishes[name])
                found[name] = np.minimum(drawn, limits[name])
                continue
            base, bins = self._base(name, found, gone), self.gaps[name].bins
            gap = bins.draw(codes[name], rng, wishes[name] - base)
            if bins.scale is None:
                gap = _settled(base, gap, codes[name], bins)
            found[name] = np.minimum(base + gap, limits[name])
        return found

    def _base(self, name: str, found: Mapping[str, Values], gone: Mapping[str, Mask]) -> Values:
        """The least point of a column that its rules leave."""
        own = self.own[name]
        base = np.full(len(gone[name]), own.edges[0])
        for below, strict in self.gaps[name].bases:
            least = least_above(own, self.own[below].values(found[below]), strict=strict)
            base = np.where(gone[below], base, np.maximum(base, least))
        return base

    def _room(
        self, codes: Mapping[str, NDArray[np.int32]], gone: Mapping[str, Mask], *, wish: bool
    ) -> dict[str, Values]:
        """The largest point of each column that leaves room for those above it, with the least gaps of their codes where it is a
        wish; it may be out of bounds then."""
        room = {name: np.full(len(gone[name]), top(self.own[name])) for name in self.order}
        for name in reversed(self.order):
            if name not in self.gaps:
                continue
            most = room[name] - (self.gaps[name].bins.lowest(codes[name]) if wish else 0)
            for lower, strict in self.gaps[name].bases:
                cut = most_below(self.own[lower], self.own[name].values(most), strict=strict)
                room[lower] = np.where(gone[name], room[lower], np.minimum(room[lower], cut))
        return room


def tied(columns: Mapping[str, Numeric], edges: Iterable[tuple[str, str, bool]]) -> Gaps | None:
    """The columns tied by edges (lower, larger, strict). None where they contradict each other or the bounds: a circle, or no
    record that keeps them all."""
    bases: dict[str, list[tuple[str, bool]]] = {}
    for lower, larger, strict in edges:
        bases.setdefault(larger, []).append((lower, strict))
    names = dict.fromkeys(name for larger, below in bases.items() for name in (*(each for each, _ in below), larger))
    order: list[str] = []
    while len(order) < len(names):
        ready = [n for n in names if n not in order and all(each in order for each, _ in bases.get(n, ()))]
        if not ready:
            return None
        order += ready
    own = {name: bins_of(columns[name]) for name in order}
    gaps: dict[str, Gap] = {}
    least = {name: own[name].edges[:1] for name in order}
    for name in order:
        for each, strict in bases.get(name, ()):
            least[name] = np.maximum(least[name], least_above(own[name], own[each].values(least[each]), strict=strict))
        if least[name][0] > top(own[name]):
            return None
        if name in bases:
            free = any(columns[each].missing for each, _ in bases[name])
            first = own[name].edges[0] if free else least[name][0]
            column = _column(columns[name], own[name], top(own[name]) - first)
            gaps[name] = Gap(bases=tuple(bases[name]), column=column, bins=bins_of(column))
    return Gaps(order=tuple(order), own=own, gaps=gaps)


def least_above(bins: Bins, values: Values, *, strict: bool) -> Values:
    """The least point whose value is at least (or, if strict, above) each value; at most one beyond the largest."""
    if bins.scale is None:
        return np.nextafter(values, np.inf) if strict else values.astype(np.float64)
    steps = -(-values // bins.period) if _whole(bins, values) else np.ceil(_scaled(bins, values))
    points: Values = np.clip(steps, bins.edges[0] - 1, top(bins)).astype(np.int64)
    made = bins.values(points)
    return points + ((made <= values) if strict else (made < values))


def most_below(bins: Bins, values: Values, *, strict: bool) -> Values:
    """The largest point whose value is at most (or, if strict, under) each value; at least one under the least."""
    if bins.scale is None:
        return np.nextafter(values, -np.inf) if strict else values.astype(np.float64)
    steps = values // bins.period if _whole(bins, values) else np.floor(_scaled(bins, values))
    points: Values = np.clip(steps, bins.edges[0], top(bins) + 1).astype(np.int64)
    made = bins.values(points)
    return points - ((made >= values) if strict else (made > values))


def _whole(bins: Bins, values: Values) -> bool:
    return values.dtype.kind == "i" and bins.scale == 1.0


def _scaled(bins: Bins, values: Values) -> Values:
    """In steps of the grid, so that 0.07 * 100 is 7; what rounding moved is put right by comparing the values."""
    with np.errstate(over="ignore"):
        return np.round(values * (bins.scale or 1.0), 6)


def _settled(base: Values, gap: Values, codes: NDArray[np.int32], bins: Bins) -> Values:
    """Gaps that are still of their code when they are read off the rounded sum; else the middle of the bin."""
    moved = bins.codes(bins.points(base + gap - base)) != codes
    inside = np.where(moved & (codes < bins.count), codes, 0)
    middle = (bins.edges[inside] + bins.edges[inside + 1]) / 2
    return np.where(moved & (codes < bins.count), middle, gap)


def _column(column: Numeric, own: Bins, widest: Any) -> Integer | Continuous:
    """Gaps from 0, which has a code of its own, in bins of equal width, the first of which is split at half octaves."""
    whole = own.scale is not None
    room = widest + 1 if whole else widest
    edges = {index * room / BINS for index in range(1, BINS)}
    edges |= {room / BINS * 2.0**-octave * part for octave in range(OCTAVES) for part in (1, 0.75)}
    rounded = {float(np.ceil(edge)) if whole else edge for edge in edges}
    inner = tuple(sorted(edge for edge in rounded if 0 < edge <= widest)) or None
    shared: dict[str, Any] = {"name": column.name, "missing": column.missing, "bins": inner, "atoms": (0,)}
    if whole:
        return Integer(bounds=(0, int(widest)), **shared)
    return Continuous(bounds=(0.0, float(widest)), **shared)


def numeric(column: Column) -> bool:
    """Whether such rules can tie it: its bounds and bins are declared."""
    return isinstance(column, Integer | Continuous | Datetime) and "learn" not in (column.bounds, column.bins)
