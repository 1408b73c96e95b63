"""Bought items enter the schema here. Total: whatever a noisy answer says becomes a column that holds together."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.columns import (
    EXACT,
    LEARN,
    MICROSECONDS,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Integer,
    Numeric,
    iso,
    microseconds,
)

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

OTHER = "other"
CELLS = 512  # of the fine grid that quantiles are read from
FALSE_CELLS = 0.005  # at most this chance that noise alone lifts any empty cell above the threshold; bounds out there lose all detail
BESIDE = 3.0  # deviations: the next one to `NEXT` cells beyond the bounds belong within them if their sum exceeds its noise so far
NEXT = 3
FEW = 0.02  # of the records: what the ends of learned bounds may leave out
BLOCKS = 32  # of the fine grid, whose sums stand clear of the noise where single cells do not

Numbers = NDArray[np.float64]

FIRST, LAST = microseconds("0001-01-02"), microseconds("9999-12-30")


def supposed(schema: "Schema") -> "Schema":
    """The schema with something made up in the place of what is to be learned, for checks that hold whatever is learned."""
    for column in schema.columns:
        if isinstance(column, Categorical) and column.categories == LEARN:
            known = () if column.tree is None else column.tree.coarsest
            schema = schema.with_learned(column.name, categories=known or ("a", "b"))
        elif isinstance(column, Integer | Continuous | Datetime):
            bounds = {"bounds": (0, 1)} if column.bounds == LEARN else {}
            bins = {"bins": ()} if column.bins == LEARN else {}
            schema = schema.with_learned(column.name, **bounds, **bins) if bounds or bins else schema
    return schema


UNITS = "the number of units"


def asked_for(bought: Iterable[tuple[str, Iterable[str]]], *, units: bool) -> list[str]:
    """What each question that buys is asked for, in the order in which they are asked: the number of units, then column by column what
    of it (`bought`: its items) was left to learn. Bounds take two grids, bins alone take one."""
    names = [UNITS] if units else []
    for name, items in bought:
        names += [name] * (2 if "bounds" in items else int("categories" in items or "bins" in items))
    return names


def settle(column: Column, items: Mapping[str, Any]) -> Column:
    """The column with the learned `items` (categories, bounds, bins, atoms).

    Categories: a declared `other`, else the category "other", takes what the answer left out. Bounds: put in order,
    widened outward to the column's grid and to hold the atoms. Bins: edges put in order, clipped to the bounds. Atoms: taken unchanged.
    Datetimes take numbers: microseconds since 1970-01-01 UTC.
    """
    if isinstance(column, Categorical) and set(items) == {"categories"}:
        other = OTHER if column.other is None else column.other
        listed = tuple(dict.fromkeys(str(category) for category in items["categories"]))
        return replace(column, other=other, categories=listed if other in listed else (*listed, other))
    atoms = () if isinstance(column, Datetime) else ("atoms",)
    if isinstance(column, Integer | Continuous | Datetime) and items and set(items) <= {"bounds", "bins", *atoms}:
        if "atoms" in items and not isinstance(column, Datetime):
            column = replace(column, atoms=tuple(items["atoms"]))
        if "bounds" in items:
            # Edges that wait for their bounds would be refused.
            bins = None if "bins" in items or isinstance(column.bins, tuple) else column.bins
            column = replace(column, bins=bins)
            column = _bounded(column, [0.0 if math.isnan(end) else float(end) for end in items["bounds"]])
        return _binned(column, items["bins"]) if "bins" in items else column
    raise BadInput(f"column {column.name!r} ({column.kind}): cannot learn {', '.join(items) or 'nothing'}")


def _bounded(column: Numeric, ends: list[float]) -> Numeric:
    low, high = min(ends), max(ends)
    if isinstance(column, Datetime):
        step = MICROSECONDS[column.resolution]
        low, high = (min(max(end, FIRST), LAST) for end in (low, high))
        return replace(column, bounds=(iso(math.floor(low / step) * step), iso(math.ceil(high / step) * step)))
    low, high = min(low, *column.atoms, high), max(high, *column.atoms, low)
    if isinstance(column, Integer):
        low, high = max(low, -EXACT), min(high, EXACT)
        low, high = math.floor(min(low, EXACT)), math.ceil(max(high, -EXACT))
        step = column.step  # outward, but within what floats count
        return replace(
            column, bounds=(max(low // step, -(EXACT // step)) * step, min(-(-high // step), EXACT // step) * step)
        )
    limit = 1e307 if column.decimals is None else EXACT / 4 / 10.0**column.decimals
    low, high = (min(max(end, -limit), limit) for end in (low, high))
    if column.decimals is not None:
        scale = 10.0**column.decimals
        low, high = math.floor(round(low * scale, 6)) / scale, math.ceil(round(high * scale, 6)) / scale
    return replace(column, bounds=(low, high))


def _binned(column: Numeric, edges: Iterable[float]) -> Numeric:
    if isinstance(column.bounds, str):
        raise BadInput(
            f"column {column.name!r}: its bins cannot be learned before its bounds; declare the bounds, or mark both learn"
        )
    if isinstance(column, Datetime):
        first, last = (microseconds(end) for end in column.bounds)
        instants = sorted({round(edge) for edge in edges if first < edge < last})
        return replace(column, bins=tuple(iso(edge) for edge in instants if first < edge < last) or 1)
    low, high = column.bounds
    return replace(column, bins=tuple(sorted({float(edge) for edge in edges if low < edge < high})) or 1)


# ---- Bounds and quantiles, read off noisy counts of a numeric column on a public grid.


def clear(counts: Numbers, deviation: float) -> NDArray[np.intp]:
    """The cells whose noisy count stands clear of the noise."""
    return np.flatnonzero(counts > max(0.5, least_clear(len(counts), deviation)))


def least_clear(cells: int, deviation: float) -> float:
    """What a noisy count must exceed so that noise alone lifts any of so many empty cells with a probability of at most FALSE_CELLS."""
    return deviation * math.sqrt(2 * math.log(cells / FALSE_CELLS))


def widened(edges: Sequence[float], low: float, high: float, counts: Numbers, deviation: float) -> tuple[float, float]:
    """One cell more at either end, not across zero, where a cell that the noise hides may hold more than FEW of the records."""
    if least_clear(len(counts), deviation) <= FEW * float(counts[clear(counts, deviation)].sum()):
        return low, high
    below, above = edges.index(low), edges.index(high)
    return edges[max(0, below - 1)] if low != 0 else low, edges[min(len(edges) - 1, above + 1)] if high != 0 else high


def occupied(edges: Sequence[float], counts: Numbers, deviation: float) -> tuple[float, float]:
    """From the lowest to the highest edge of the cells whose noisy count stands clear of the noise, extended over the tails beside them.

    With no such cell, the grid's own ends: an answer is due whatever the records are, and the fullest cell would be noise.
    `BESIDE`, `NEXT` and `FALSE_CELLS` were chosen on made-up columns.
    """
    found = clear(counts, deviation)
    if len(found) == 0:
        return float(edges[0]), float(edges[-1])
    low, high = int(found[0]), int(found[-1]) + 1
    return float(edges[low - _tail(counts[:low][::-1], deviation)]), float(
        edges[high + _tail(counts[high:], deviation)]
    )


def _tail(counts: Numbers, deviation: float) -> int:
    """How many of these cells, from the first one on, still belong to the tail of what lies just before them."""
    upto = 0
    while True:
        sums = np.cumsum(counts[upto : upto + NEXT])
        full = np.flatnonzero(sums > np.maximum(0.5, BESIDE * deviation * np.sqrt(np.arange(1, len(sums) + 1))))
        if not len(full):
            return upto
        upto += int(full[0]) + 1


def fine_edges(low: float, high: float, *, integers: bool) -> tuple[float, ...]:
    """The edges of at most CELLS equal cells over [low, high]; on whole numbers where the values are integers."""
    if integers:
        step = max(1, math.ceil((high - low + 1) / CELLS))
        edges = np.arange(low, high + 1 + step, step, dtype=np.float64)
        return tuple(float(edge) for edge in edges)
    return tuple(float(edge) for edge in np.linspace(low, high, CELLS + 1))


def around_zero(edges: Sequence[float], step: float) -> tuple[tuple[float, ...], slice | None]:
    """The edges of a fine grid with a cell of its own for 0, and the slice of new cells that replace the old one. The cell starts at 0
    and ends at `step`, the least number above 0 that the column can hold, or earlier at the old cell's end, so it holds only zeros. The
    slice is None if 0 lies outside [first edge, last edge), or if the cell around it is at most `step` wide."""
    place = int(np.searchsorted(np.asarray(edges), 0.0, side="right")) - 1
    if not edges[0] <= 0 < edges[-1] or edges[place + 1] - edges[place] <= step:
        return tuple(edges), None
    inside = [0.0] if edges[place] < 0 else []
    inside += [step] if step < edges[place + 1] else []
    return (*edges[: place + 1], *inside, *edges[place + 1 :]), slice(place, place + 1 + len(inside))


def tightened(edges: Sequence[float], counts: Numbers, deviation: float, records: float) -> tuple[float, float]:
    """As `occupied`, on blocks of cells: the ends of a fine grid's mass, to within a block.

    Where a block with FEW of the (about so many) `records` would not stand clear, the grid's own ends: what is left out then
    would be cut off.
    """
    size = math.ceil(len(counts) / BLOCKS)
    if least_clear(BLOCKS, deviation * math.sqrt(size)) > FEW * records:
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


def spikes(edges: Sequence[float], counts: Numbers, deviation: float, least: float) -> list[float]:
    """Both edges of each cell that holds at least the share `least` of the noisy counts and stands clear of the noise. As edges of bins
    they keep a value that many records share apart from its surroundings; quantiles alone may leave it in a wide bin."""
    full = clear(counts, deviation)
    full = full[counts[full] >= least * counts.sum()]
    return sorted({float(edges[place]) for cell in full for place in (cell, cell + 1)})
