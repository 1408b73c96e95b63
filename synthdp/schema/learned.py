"""Bought items enter the schema here. Total: whatever a noisy answer says becomes a column that holds together."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.columns import (
    EXACT,
    FAR,
    LEARN,
    MICROSECONDS,
    OTHER,
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

CELLS = 512  # of the fine grid that quantiles are read from, at most
FEWEST = 4  # cells of the fine grid in each interval of the coarse one, at least
EACH = 2.0  # records in a cell of the fine grid, in deviations of its noise: the noise of many cells adds up
FALSE_CELLS = 0.005  # at most this chance that noise alone lifts any empty cell above the threshold; bounds out there lose all detail
BESIDE = 3.0  # deviations: the next one to `NEXT` cells beyond the bounds belong within them if their sum exceeds its noise so far
NEXT = 3
REST = 1.5  # deviations: bounds that move to reach values outside them stop where no more may be left; chosen on made-up columns
RUNS = (2, 3, 4, 5, 6)  # cells of the coarse grid that are looked at together
# The same of months: a cell of numbers is twice as wide as the one before it, but many months in a row may hold a few records each.
# Both were chosen on made-up columns.
NEXT_MONTHS = 24
RUNS_OF_MONTHS = (*RUNS, 12, 24, 48, 96, 192, 384, 768)
FEW = 0.02  # of the records: where the noise may hide so many in one cell or block, learned bounds are wide
FEWEST_BINS, MOST_BINS = 8, 32  # quantile bins of a column whose bins are learned; smaller ones are added at both ends
CLEAR_TAIL = 2.0  # an end gets a smaller bin if that would hold more records than so many deviations of the noise
LEAST_END = 2.0**-11  # of the records: no smaller bin is looked for
BLOCKS = 32  # of the fine grid, whose sums stand clear of the noise where single cells do not

Numbers = NDArray[np.float64]

# The public grids on which bounds are looked for, of numbers and of dates.
POWERS = tuple(2.0**power for power in range(-9, 41))
SIGNED_POWERS = (*(-edge for edge in reversed(POWERS)), 0.0, *POWERS)  # no cell straddles zero
MONTHS = tuple(float(microseconds(datetime(year, month, 1))) for year in range(1900, 2101) for month in range(1, 13))

CENTURY = 99  # years from the first to the last one that two digits can mean
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


def unfound(low: float | str, high: float | str, decimals: int | None = None) -> bool:
    """Whether these learned bounds are the ends of the public grid, which remain if noise hides all records. With `decimals` the ends of
    what floats hold exactly may be nearer; where years have two digits, the century that they can mean remains instead."""
    if isinstance(low, str) and isinstance(high, str) and int(high[:4]) - int(low[:4]) == CENTURY:
        return low[4:10] == "-01-01" and high[4:10] == "-12-31"
    ends = MONTHS if isinstance(low, str) else SIGNED_POWERS
    first, last = (float(microseconds(end) if isinstance(end, str) else end) for end in (low, high))
    most = ends[-1] if decimals is None else min(ends[-1], math.floor(EXACT / 4) / 10.0**decimals)
    return first <= max(ends[0], -most) and last >= most


UNITS = "the number of units"


def asked_for(bought: Iterable[tuple[str, Iterable[str]]], *, units: bool) -> list[str]:
    """What each question that buys is asked for, in the order in which they are asked: the number of units, then column by column what
    of it (`bought`: its items) was left to learn. Bounds take two grids, bins alone take one."""
    names = [UNITS] if units else []
    for name, items in bought:
        names += [name] * (2 if "bounds" in items else int("categories" in items or "bins" in items))
    return names


def settle(column: Column, items: Mapping[str, Any], within: tuple[float, float] = (-math.inf, math.inf)) -> Column:
    """The column with the learned `items` (categories, bounds, bins, atoms).

    Categories: a declared `other`, else the category "other", takes what the answer left out. Bounds: put in order, cut to `within`,
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
            ends = [0.0 if math.isnan(end) else float(end) for end in items["bounds"]]
            column = _bounded(column, [min(max(end, within[0]), within[1]) for end in ends])
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
    limit = FAR if column.decimals is None else EXACT / 4 / 10.0**column.decimals
    low, high = (min(max(end, -limit), limit) for end in (low, high))
    if column.decimals is not None:
        scale = 10.0**column.decimals
        low, high = math.floor(round(low * scale, 6)) / scale, math.ceil(round(high * scale, 6)) / scale
        low, high = min(low, *column.atoms, high), max(high, *column.atoms, low)  # 3 * 0.1 is above 0.3
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
    found = together(counts, deviation)
    if len(found) == 0:
        return float(edges[0]), float(edges[-1])
    low, high = int(found[0]), int(found[-1]) + 1
    most = NEXT_MONTHS if _months(counts) else NEXT
    low, high = low - _tail(counts[:low][::-1], deviation, most), high + _tail(counts[high:], deviation, most)
    return float(edges[low]), float(edges[high])


def _months(counts: Numbers) -> bool:
    return len(counts) == len(MONTHS) - 1


def together(counts: Numbers, deviation: float) -> NDArray[np.intp]:
    """The cells that stand clear of the noise, each by itself or as part of a run of cells whose sum does. A run finds a few
    records spread over several cells, such as the hours of the few patients in intensive care, or dates of birth."""
    found = set(clear(counts, deviation).tolist())
    widths = RUNS_OF_MONTHS if _months(counts) else RUNS
    least = least_clear((1 + len(widths)) * len(counts), deviation)
    while True:
        left = np.where(np.isin(np.arange(len(counts)), list(found)), -math.inf, counts)
        runs = {width: np.lib.stride_tricks.sliding_window_view(left, width).sum(1) for width in widths}
        best = max(runs, key=lambda width: float(runs[width].max()) / math.sqrt(width))
        if runs[best].max() <= max(0.5, least * math.sqrt(best)):
            return np.array(sorted(found), np.intp)
        start = int(np.argmax(runs[best]))
        held = start + np.flatnonzero(left[start : start + best] > deviation)
        found |= set(range(int(held[0]), int(held[-1]) + 1))


def _tail(counts: Numbers, deviation: float, most: int) -> int:
    """How many of these cells, from the first one on, still belong to the tail of what lies just before them: it goes on while the sum of
    the next 1, 2, ... or `most` cells exceeds its noise."""
    upto = 0
    while True:
        sums = np.cumsum(counts[upto : upto + most])
        full = np.flatnonzero(sums > np.maximum(0.5, BESIDE * deviation * np.sqrt(np.arange(1, len(sums) + 1))))
        if not len(full):
            return upto
        upto += int(full[0]) + 1


def fine_edges(
    parts: Sequence[float], mass: Numbers, records: float, deviation: float, *, integers: bool
) -> tuple[float, ...]:
    """The edges of the fine grid over the intervals between `parts`. Cells are shared out in proportion to `mass`, at least `FEWEST` to an
    interval, so that a long tail takes few. A cell holds about `EACH` deviations' worth of records; there are about `CELLS` at most.
    Edges of integers are rounded down to whole numbers, so there may be fewer. Both were chosen on made-up columns."""
    cells = min(CELLS, max(BLOCKS, records / (EACH * deviation) if deviation > 0 else CELLS))
    held = np.clip(mass, 0.0, None)
    shares = held / held.sum() if held.sum() > 0 else np.full(len(held), 1 / len(held))
    found = [parts[-1]]
    for low, high, share in zip(parts[:-1], parts[1:], shares, strict=True):
        found += np.linspace(low, high, max(FEWEST, round(cells * share)), endpoint=False).tolist()
    if integers:
        found = [math.floor(edge) for edge in found]
        return tuple(float(edge) for edge in sorted({*found, max(found) + 1}))
    low, high = float(parts[0]), max(float(parts[-1]), math.nextafter(parts[0], math.inf))
    inner = _short([edge for edge in found if low < edge < high], high - low)
    return (low, *sorted({edge for edge in inner if low < edge < high}), high)


def _short(edges: Iterable[float], width: float) -> list[float]:
    """Edges rounded to about six digits of the range's width, since people read them."""
    digits = 5 - math.floor(math.log10(width)) if width > 0 else 0
    return [round(edge, digits) for edge in edges]


def with_atoms(
    edges: Sequence[float], atoms: Iterable[float], step: float
) -> tuple[tuple[float, ...], NDArray[np.intp], NDArray[np.bool_]]:
    """A grid in which each atom has a cell of its own: the new edges; for each new cell the index of the old cell that contains it; and
    whether it is an atom's. `step` is the least difference between two values of the column. An atom's cell ends halfway to the next
    value, or with the old cell if that ends within a step. The grid is extended to hold atoms outside it."""
    points = set(edges)
    for atom in atoms:
        above = min((edge for edge in edges if edge > atom), default=math.inf)
        end = max(atom + step / 2, math.nextafter(atom, math.inf))
        points |= {atom, above if above - atom <= step else min(end, above)}
    found = np.array(sorted(points))
    owner = np.clip(np.searchsorted(np.asarray(edges), found[:-1], side="right") - 1, 0, len(edges) - 2)
    return tuple(found.tolist()), owner, np.isin(found[:-1], list(atoms))


def tightened(edges: Sequence[float], counts: Numbers, deviation: float, records: float) -> tuple[float, float]:
    """Learned bounds, tightened to where the fine grid's records lie (`_mass`). If noise could hide a block with the share FEW of the
    records (about `records` in all), the grid's ends stay, so that nothing is cut off."""
    size = math.ceil(len(counts) / BLOCKS)
    if least_clear(BLOCKS, deviation * math.sqrt(size)) > FEW * records:
        return float(edges[0]), float(edges[-1])
    return _mass(edges, counts, deviation)


def _mass(edges: Sequence[float], counts: Numbers, deviation: float) -> tuple[float, float]:
    """From the lowest to the highest block of cells that stands clear, extended over the tails beside them, cell by cell."""
    size = math.ceil(len(counts) / BLOCKS)
    starts = np.arange(0, len(counts), size)
    found = clear(np.add.reduceat(counts, starts), deviation * math.sqrt(size))
    if len(found) == 0:
        return float(edges[0]), float(edges[-1])
    low, high = int(starts[found[0]]), min(int(starts[found[-1]]) + size, len(counts))
    below, above = (_tail(side, deviation, len(counts)) for side in (counts[:low][::-1], counts[high:]))
    return float(edges[low - below]), float(edges[high + above])


def reaching(
    grid: Sequence[float],
    coarse: Numbers,
    edges: tuple[float, ...],
    counts: Numbers,
    outside: tuple[float, float],
    deviation: float,
) -> tuple[tuple[float, ...], Numbers]:
    """The fine grid's edges and counts, with those cells of the coarse grid added at either end that the records `outside` it (below,
    above) reach. A column spread over many cells stands clear of the noise in few of them, but not those records together."""
    start = int(np.searchsorted(grid, edges[0]))
    stop = int(np.searchsorted(grid, edges[-1], side="right")) - 1  # the fine grid of integers ends one later
    few = FEW * float(counts.sum())
    below = _next(coarse[:start][::-1], grid[1 : start + 1][::-1], outside[0], deviation, few)
    above = _next(coarse[stop:], grid[stop:-1], outside[1], deviation, few)
    reached = (*grid[start - len(below) : start], *edges, *grid[stop + 1 : stop + 1 + len(above)])
    return reached, np.concatenate([below[::-1], counts, above])


def _next(cells: Numbers, edges: Sequence[float], outside: float, deviation: float, few: float) -> Numbers:
    """How the records outside fill the next cells, outwards from `edges`: so many cells that the rest are few or may be noise. Zero
    is crossed only if the rest stands clear of the noise."""
    left, upto = outside, 0
    while upto < len(cells):
        enough = REST if upto and edges[upto] != 0 else BESIDE
        if left <= max(0.5, few, enough * deviation * math.sqrt(upto + 1)):
            break
        left -= float(cells[upto])
        upto += 1
    found = nearest_counts(cells[:upto], outside) if upto else cells[:0]
    return found[: 1 + int(np.flatnonzero(found)[-1])] if upto else found


def warn_of_outside(
    column: Numeric,
    edges: Sequence[float],
    counts: Numbers,
    outside: tuple[float, float],
    deviation: float,
    bounds: tuple[float, float],
) -> None:
    """Says what share of the records lies outside the range that stood clear of the noise, where it does not look like noise itself."""
    total = float(counts.sum()) + sum(outside)
    if max(outside) <= max(least_clear(2, deviation), FEW * total):
        return
    share = min(1.0, sum(max(0.0, side) for side in outside) / max(outside[0], outside[1], total))
    if isinstance(column, Datetime):
        first, last = (iso(int(end)) for end in (edges[0], edges[-1]))
        where = f"before {first} or after {last}"
        then = "Noise hides where exactly, so the model learns these two days instead"
    else:
        ends = [*edges[:: len(edges) - 1], *bounds] - np.array([0, 1, 0, 1]) * isinstance(column, Integer)
        where = "below {:g} or above {:g}".format(*ends[:2])
        then = "The bounds were widened to {:g} and {:g}, but noise hides how far these values reach, and some may be cut off"
        then = then.format(*ends[2:])
    warnings.warn(
        f"column {column.name!r}: about {share:.0%} of the values lie {where}. {then}; declare the bounds in the schema",
        stacklevel=2,
    )


def nearest_counts(counts: Numbers, total: float) -> Numbers:
    """The non-negative numbers with the sum `total` that are nearest to noisy counts: projection onto the simplex (Duchi et al. 2008)."""
    ranked = np.sort(counts, axis=None)[::-1]
    over = (np.cumsum(ranked) - total) / np.arange(1, ranked.size + 1)
    found: Numbers = np.maximum(counts - over[np.flatnonzero(ranked > over)[-1]], 0.0)
    return found


def cuts(edges: Sequence[float], counts: Numbers, deviation: float) -> list[float]:
    """Edges of bins with about the same number of records in each, from noisy counts of a fine grid. Towards both ends bins get half as
    many records each time, while these exceed the noise, since values are drawn from anywhere in a bin. The outermost cells with
    records give edges, too. `CLEAR_TAIL` was chosen on made-up columns."""
    total, ends = float(counts.sum()), _mass(edges, counts, deviation)
    bins = _bins(total, deviation)
    counts = nearest_counts(counts, total) if total > 0 else np.ones(len(counts))
    held = np.flatnonzero(counts)
    shares = [place / bins for place in range(1, bins)]
    end = 0.5 / bins
    while end > LEAST_END and end * total > CLEAR_TAIL * deviation:
        shares += [end, 1 - end]
        end /= 2
    found = _short(quantiles(edges, counts, shares), edges[-1] - edges[0])
    return sorted({edges[held[0]], edges[held[-1] + 1], *ends, *found})


def _bins(records: float, deviation: float) -> int:
    """How many bins to ask for: so many that a cell of a table of two such columns holds, on average, one noise deviation of records."""
    if deviation <= 0:
        return MOST_BINS
    return min(MOST_BINS, max(FEWEST_BINS, int(math.sqrt(max(0.0, records) / deviation))))


def quantiles(edges: Sequence[float], counts: Numbers, shares: Sequence[float]) -> list[float]:
    """Where the distribution function of these counts first reaches each share, by linear interpolation inside a cell."""
    mass = np.concatenate([[0.0], np.cumsum(counts)])
    return [float(value) for value in np.interp(np.asarray(shares) * mass[-1], mass, np.asarray(edges))]


def spikes(edges: Sequence[float], counts: Numbers, deviation: float, least: float) -> list[float]:
    """Both edges of each cell that holds at least the share `least` of the noisy counts and stands clear of the noise. As edges of bins
    they keep a value that many records share apart from its surroundings; quantiles alone may leave it in a wide bin."""
    full = clear(counts, deviation)
    full = full[counts[full] >= least * counts.sum()]
    return sorted({float(edges[place]) for cell in full for place in (cell, cell + 1)})
