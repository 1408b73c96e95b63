"""What a schema leaves to be learned: its price as a plan, and the purchase through the seal."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from synthdp import accounting
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan, Threshold, scoped
from synthdp.noise import gaussian
from synthdp.noise.noise import Noise
from synthdp.schema import cells
from synthdp.schema.columns import LEARN, Categorical, Column, Datetime, Integer, Numeric, microseconds
from synthdp.schema.schema import Schema
from synthdp.seal.questions import Question
from synthdp.seal.records import Countable, Records, within

if TYPE_CHECKING:
    import pandas as pd


# ---- How many units there are, bought.


@dataclass(frozen=True)
class Size:
    """The number of units plus N(0, noise^2): one unit moves it by one."""

    additive: ClassVar[bool] = True  # a sum over units
    counted: ClassVar[bool] = True  # asks for counts alone
    noise: float

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """One unit more or less."""
        return 1.0

    def bounded(self, records: Countable) -> float:
        """The exact number."""
        return float(records.units)

    def noised(self, bounded: float, noise: Noise) -> float:
        """The noisy number, at least 1."""
        return max(1.0, float(noise.added(np.array([bounded]), self.noise)[0]))

    def movement(self, one: float, other: float) -> float:
        """The difference."""
        return abs(one - other)


# ---- The categories of a column, bought: those that enough units hold.


@dataclass(frozen=True)
class Domain:
    """Every category whose noisy number of units passes a threshold.

    A unit adds one to at most `categories` counts: L2 sensitivity sqrt(categories). A category of one unit alone has a count
    of one and passes 1 + deviation * z with probability 1 - Phi(z), which is set so that any of the unit's `categories` passes
    with a probability of at most `delta` (Korolova et al. 2009; Wilkins et al. 2024).
    """

    column: str
    noise: float
    delta: float
    categories: int

    @property
    def events(self) -> Sequence[Event]:
        """A thresholded Gaussian that carries its own delta."""
        return [Threshold(self.noise, self.delta, self.categories)]

    @property
    def sensitivity(self) -> float:
        """sqrt(categories)."""
        return math.sqrt(self.categories)

    @property
    def threshold(self) -> float:
        """What a noisy count must exceed: half a step more than for a Gaussian that is not rounded to a grid."""
        each = -math.expm1(math.log1p(-self.delta) / self.categories)
        deviation = self.noise * self.sensitivity
        step = gaussian.Grid.of(deviation, torch.float64).step if deviation > 0 else 0.0
        return 1.0 + deviation * float(norm.isf(each)) + step / 2

    def bounded(self, records: Records) -> dict[str, float]:
        """Units per category; a category counts once for a unit."""
        within(records, self.categories)
        texts = cells.texts(records.column(self.column))
        pairs = {(int(unit), text) for unit, text in zip(records.owner, texts, strict=True) if text is not None}
        counts: dict[str, float] = {}
        for _, value in pairs:
            counts[value] = counts.get(value, 0.0) + 1.0
        return counts

    def noised(self, bounded: Mapping[str, float], noise: Noise) -> tuple[str, ...]:
        """The categories that passed, in alphabetical order, so that the order says nothing."""
        names = sorted(bounded)
        counts = np.array([bounded[name] for name in names], dtype=np.float64)
        noisy = noise.added(counts, self.noise * self.sensitivity)
        least = self.threshold if self.noise > 0 else 0.0
        return tuple(name for name, count in zip(names, noisy, strict=True) if count > least)

    def movement(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        """L2 distance over the categories of both."""
        names = sorted({*one, *other})
        return float(np.linalg.norm([one.get(name, 0.0) - other.get(name, 0.0) for name in names]))


# ---- Noisy counts of a numeric column on a public grid: what bounds and quantiles are bought from.


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

    With no such cell, the grid's own ends: an answer is due whatever the records are, and the fullest cell would be noise.
    """
    found = clear(counts, deviation)
    if len(found) == 0:
        return float(edges[0]), float(edges[-1])
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


SHARE = 0.2  # of epsilon, for all that is learned together
DELTA_SHARE = 0.1  # of delta, for all thresholds together
BINS = 32  # quantile bins of a column whose bins are learned
MONTHS = tuple(
    float(microseconds(datetime(year, month, 1))) for year in range(1900, 2101) for month in range(1, 13)
)  # the public grid on which bounds of dates are looked for

Ask = Callable[[Question[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Purchase:
    """The noise and the threshold's delta that every bought item of one fit shares."""

    noise: float
    delta: float


class Asks(Protocol):
    """The sealed door, as far as buying needs it."""

    def ask(self, question: Question[Any]) -> Any: ...


def purchase(schema: Schema, budget: Budget, unit: str) -> Purchase:
    """The least noise at which all that is to learn costs at most SHARE of epsilon; fixed before any answer is seen."""
    thresholds = sum(isinstance(column, Categorical) and column.categories == LEARN for column in schema.columns)
    delta = DELTA_SHARE * budget.delta / max(1, thresholds)
    if not schema.learned and schema.units != LEARN:
        return Purchase(0.0, delta)
    part = Budget(budget.epsilon * SHARE, budget.delta, budget.relation)

    def plan(noise: float) -> Plan:
        return scoped(prices(schema, Purchase(noise, delta)), relation=budget.relation, unit=unit)

    return Purchase(accounting.calibrate(plan, part), delta)


def prices(schema: Schema, terms: Purchase) -> Plan:
    """The events that `resolve` will book, in its order."""
    entries: list[Entry] = []
    if schema.units == LEARN:
        entries.append(Entry(Gaussian(terms.noise)))
    for column in schema.columns:
        if isinstance(column, Categorical) and column.categories == LEARN:
            entries.append(Entry(Threshold(terms.noise, terms.delta, schema.max_records_per_unit)))
        elif isinstance(column, Numeric):
            entries += [Entry(Gaussian(terms.noise))] * grids(column)
    return tuple(entries)


def least(column: Column, most: int, terms: Purchase) -> float:
    """How many units must share a category, or a cell of the coarse grid, for it to stand clear of the noise. 0: nothing to find."""
    if isinstance(column, Categorical) and column.categories == LEARN and terms.noise > 0:
        return Domain(column.name, terms.noise, terms.delta, most).threshold
    if isinstance(column, Numeric) and column.bounds == LEARN:
        return _threshold(len(_coarse(column)) - 1, terms.noise)
    return 0.0


def _coarse(column: Numeric) -> tuple[float, ...]:
    """The public grid on which bounds are looked for."""
    return MONTHS if isinstance(column, Datetime) else SIGNED_POWERS


def grids(column: Numeric) -> int:
    """How many grids a numeric column needs: a coarse one for bounds, a fine one for bins (and to tighten bounds)."""
    return 2 if column.bounds == LEARN else int(column.bins == LEARN)


def resolve(schema: Schema, terms: Purchase, data: Asks) -> Schema:
    """The schema with every `learn` item bought. Total: whatever the noisy answers say, a usable schema comes back."""
    resolved = schema
    if schema.units == LEARN:
        resolved = dataclasses.replace(schema, units=max(1, round(data.ask(Size(terms.noise)))))
    for column in schema.columns:
        items = _bought(column, schema.max_records_per_unit, terms, data.ask)
        if items:
            resolved = resolved.with_learned(column.name, **items)
    return resolved


def _bought(column: Column, most: int, terms: Purchase, ask: Ask) -> dict[str, Any]:
    if isinstance(column, Categorical) and column.categories == LEARN:
        found = ask(Domain(column.name, terms.noise, terms.delta, most))
        if not found:
            warnings.warn(
                f"column {column.name!r}: at this budget noise hides every category; declare the categories in the schema",
                stacklevel=2,
            )
        return {"categories": found}
    if isinstance(column, Numeric) and grids(column):
        return _bought_number(column, most, terms, ask)
    return {}


def _bought_number(column: Numeric, most: int, terms: Purchase, ask: Ask) -> dict[str, Any]:
    dates, integers = isinstance(column, Datetime), isinstance(column, Integer)
    bounds_too = column.bounds == LEARN
    if bounds_too:
        coarse = Grid(column.name, _coarse(column), terms.noise, most, dates)
        seen: Numbers = ask(coarse)
        cells = clear(seen, coarse.deviation)
        if len(cells) == 0:
            warnings.warn(
                f"column {column.name!r}: at this budget noise hides the bounds; declare them in the schema",
                stacklevel=2,
            )
        low, high = occupied(coarse.edges, seen, coarse.deviation)
        low, high = widened(coarse.edges, low, high, seen, coarse.deviation)
        records = float(seen[cells].sum())
    else:
        low, high = (microseconds(end) if dates else float(end) for end in column.bounds)
    if integers:
        low, high = math.floor(low), math.ceil(high)
    fine = Grid(column.name, fine_edges(low, high, integers=integers), terms.noise, most, dates)
    counts: Numbers = ask(fine)
    items: dict[str, Any] = {}
    if bounds_too:
        low, high = tightened(fine.edges, counts, fine.deviation, records)
        counts = counts * [low <= edge < high for edge in fine.edges[:-1]]
        items["bounds"] = (
            low,
            max(low, high - 1) if integers else high,
        )  # a cell of integers ends before its upper edge
    if column.bins == LEARN or (bounds_too and column.bins is None):
        shares = [place / BINS for place in range(1, BINS)]
        edges = quantiles(fine.edges, counts, shares)
        items["bins"] = [float(round(edge)) for edge in edges] if integers else edges
    return items
