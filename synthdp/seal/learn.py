"""What a schema leaves to be learned: its price as a plan, and the purchase through the seal."""

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from synthdp import accounting
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan, Threshold, scoped
from synthdp.schema import cells, linked_tables
from synthdp.schema.columns import LEARN, Categorical, Column, Continuous, Datetime, Integer, Numeric, iso, microseconds
from synthdp.schema.learned import (
    BESIDE,
    MONTHS,
    POWERS,
    SIGNED_POWERS,
    clear,
    cuts,
    fine_edges,
    least_clear,
    occupied,
    reaching,
    spikes,
    tightened,
    together,
    warn_of_outside,
    widened,
    with_atoms,
)
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal.questions import Question
from synthdp.seal.records import Countable, Records, within

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.noise.noise import Noise


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

    def noised(self, bounded: float, noise: "Noise") -> float:
        """The noisy number, at least 1."""
        return max(1.0, float(noise.added(np.array([bounded]), self.noise)[0]))

    def movement(self, one: float, other: float) -> float:
        """The difference."""
        return abs(one - other)


# ---- The categories of a column, bought: those that enough units hold.


@dataclass(frozen=True)
class Domain:
    """Every category whose noisy number of units passes a threshold; with a `tree` every node, of which a record has one a level.

    A unit adds one to at most `categories` counts: L2 sensitivity sqrt(categories). A category of one unit alone has a count
    of one and passes 1 + deviation * z with probability 1 - Phi(z), which is set so that any of the unit's `categories` passes
    with a probability of at most `delta` (Korolova et al. 2009; Wilkins et al. 2024). Where the tree's codes are declared all its
    nodes are counted, also those that nobody has: no delta, a choice for use alone (`passed`), and the answer is all counts. They are
    weighed before noise is added (`Tree.weights`): along a chain the squares of the weights add up to at most its levels, so the
    sensitivity is the same.

    Codes below visits, which have declared trees, lie in `places` columns of every record: `column 1` and so on. However many codes a unit
    has, it adds a vector of L2 norm at most sqrt(categories): a longer one is shortened to that, in whole millionths. All levels are
    counted alike: with lists of 100,000 codes the weights above would hide the coarsest level, which nothing can replace.
    """

    column: str
    noise: float
    delta: float
    categories: int
    tree: Tree | None = None
    places: int = field(default=0, metadata={"later": True})

    @property
    def public(self) -> bool:
        """Whether all that can be named is public; then exact values are arrays, and a sum over units."""
        return self.tree is not None and self.tree.declared

    additive = public

    @property
    def events(self) -> Sequence[Event]:
        """A Gaussian, or a thresholded one that carries its own delta."""
        if self.public:
            return [Gaussian(self.noise)]
        return [Threshold(self.noise, self.delta, self.categories)]

    @property
    def sensitivity(self) -> float:
        """sqrt(categories)."""
        return math.sqrt(self.categories)

    @property
    def threshold(self) -> float:
        """What a noisy count must exceed: half a step more than for a Gaussian that is not rounded to a grid. Of a public tree what surely
        stands clear at its most exact level."""
        deviation = self.deviation
        if self.public:
            return max(0.5, CLEAR * float(self.deviations.min()))
        import torch

        from synthdp.noise import gaussian

        each = -math.expm1(math.log1p(-self.delta) / self.categories)
        step = gaussian.Grid.of(deviation, torch.float64).step if deviation > 0 else 0.0
        return 1.0 - deviation * float(ndtri(each)) + step / 2

    def bounded(self, records: Records) -> "dict[str, float] | Numbers":
        """Units per category; a category counts once for a unit. Of a public tree (nodes,), weighed."""
        if not self.places:
            within(records, self.categories // (1 if self.tree is None else self.tree.levels))
        pairs: set[tuple[int, str]] = set()
        for name in [f"{self.column} {place + 1}" for place in range(self.places)] or [self.column]:
            texts = cells.texts(records.column(name))
            pairs |= {(int(unit), text) for unit, text in zip(records.owner, texts, strict=True) if text is not None}
        counts: dict[str, float] = {}
        if self.tree is not None:
            chains = {text: self.tree.chain(text) for _, text in pairs}
            pairs = {(unit, node) for unit, text in pairs for node in chains[text]}
            counts = dict.fromkeys(self.tree.nodes, 0.0)
            if self.places:
                return self._shortened(pairs, records.units, self.tree)
        for _, value in pairs:
            if not self.public or value in counts:
                counts[value] = counts.get(value, 0.0) + 1.0
        return counts if not self.public else np.array(list(counts.values())) * self.weights

    def _shortened(self, pairs: set[tuple[int, str]], units: int, tree: Tree) -> "Numbers":
        """Units per node, where each one's vector is at most as long as the sensitivity. All sums are of whole numbers, so that no order
        and nobody else has a say in what a unit adds."""
        place = {node: at for at, node in enumerate(tree.nodes)}
        held = np.array([(unit, place[node]) for unit, node in pairs if node in place], np.int64).reshape(-1, 2)
        unit, node = held[:, 0], held[:, 1]
        length = np.maximum(np.bincount(unit, minlength=units), 1)  # squared
        shares = np.floor(np.minimum(1.0, np.sqrt(self.categories * (1 - 1e-9) / length)) * MILLION)
        return np.bincount(node, weights=shares[unit], minlength=len(place)) / MILLION

    def noised(self, bounded: "Mapping[str, float] | Numbers", noise: "Noise") -> "tuple[str, ...] | Numbers":
        """The categories that passed, in alphabetical order, so that the order says nothing; of a public tree all counts (nodes,)."""
        if isinstance(bounded, np.ndarray):
            return noise.added(bounded, self.deviation) / self.weights
        names = sorted(bounded)
        noisy = noise.added(np.array([bounded[name] for name in names], dtype=np.float64), self.deviation)
        return self._over(names, noisy)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each count, which of a public tree is weighed."""
        return self.noise * self.sensitivity

    @property
    def weights(self) -> "Numbers":
        """What a public tree's counts are multiplied by before noise is added, (nodes,)."""
        if self.tree is None or self.places:
            return np.ones(0 if self.tree is None else len(self.tree.nodes))
        return self.tree.weights

    @property
    def deviations(self) -> "Numbers":
        """Standard deviations of a public tree's counts, (nodes,)."""
        return self.deviation / self.weights

    def passed(self, answer: "tuple[str, ...] | Numbers") -> tuple[str, ...]:
        """The categories, or nodes, that the answer keeps. Of a public tree as many as are clear of the noise while it would lift no
        more than FALSE of them, were all nodes empty (Benjamini & Hochberg 1995): where many codes are frequent, one needs less to be
        told apart than where few are."""
        if isinstance(answer, tuple):
            return answer
        names = () if self.tree is None else self.tree.nodes
        if self.noise <= 0:
            return self._over(names, answer)
        chances = ndtr(-answer / self.deviations)
        ranked = np.sort(chances)
        enough = np.flatnonzero(ranked <= FALSE * np.arange(1, len(ranked) + 1) / len(ranked))
        most = ranked[enough[-1]] if len(enough) else -1.0
        return tuple(name for name, chance in zip(names, chances, strict=True) if chance <= most)

    def _over(self, names: Sequence[str], noisy: "Numbers") -> tuple[str, ...]:
        least = self.threshold if self.noise > 0 else 0.0
        return tuple(name for name, count in zip(names, noisy, strict=True) if count > least)

    def movement(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        """L2 distance over the categories of both."""
        if isinstance(one, np.ndarray):
            return float(np.linalg.norm(one - other))
        names = sorted({*one, *other})
        return float(np.linalg.norm([one.get(name, 0.0) - other.get(name, 0.0) for name in names]))


# ---- Noisy counts of a numeric column on a public grid: what bounds and quantiles are bought from.


Numbers = NDArray[np.float64]

MOST = 0.9  # share of the records in one cell, from which on a column counts as tiny


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

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or not all(low < high for low, high in pairwise(self.edges)):
            raise BadInput(f"column {self.column!r}: a grid needs at least two edges, in increasing order")

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

    def noised(self, bounded: Numbers, noise: "Noise") -> Numbers:
        """The noisy counts."""
        return noise.added(bounded, self.deviation)

    def movement(self, one: Numbers, other: Numbers) -> float:
        """L2 distance."""
        return float(np.linalg.norm(one - other))


def numbers(column: "pd.Series[Any]", *, dates: bool) -> Numbers:
    """A raw column as float64, each cell read on its own; dates as microseconds since 1970; NaN for what is neither."""
    read = cells.instants(column) if dates else cells.numbers(column)
    return np.where(read.missing | (read.wrong if dates else False), np.nan, read.cells.astype(np.float64))


MILLION = float(1 << 20)
CLEAR = 3.0  # deviations above which a node of a public tree is surely kept
FALSE = 0.2  # of the nodes that are kept, noise alone may have lifted so many; tried on made-up tables of 2,000 to 14,000 codes
SHARE = 0.2  # of epsilon, for all that is learned together
TREES = 0.5  # of epsilon instead where codes have a tree; chosen on made-up tables (recipes/code_trees.py)
LINKED_TREES = 0.4  # where they are codes of linked tables
DELTA_SHARE = 0.1  # of delta, for all thresholds together
SPIKE = 0.1  # of the records in one cell of the grid: its ends are ends of bins; tried on made-up columns, where 0.06 to 0.13 did alike
Ask = Callable[[Question[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Purchase:
    """The noise and the threshold's delta that every bought item of one fit shares."""

    noise: float
    delta: float


NOTHING = Purchase(0.0, 0.0)  # where the schema declares all


def purchase(schema: Schema, budget: Budget, unit: str) -> Purchase:
    """The least noise at which all that is to learn costs at most SHARE of epsilon; fixed before any answer is seen."""
    if not schema.learned and schema.units != LEARN:
        return NOTHING
    unknown = [c for c, _ in linked_tables.once(schema) if isinstance(c, Categorical) and c.categories == LEARN]
    thresholds = sum(column.tree is None or not column.tree.declared for column in unknown)
    delta = DELTA_SHARE * budget.delta / max(1, thresholds)
    trees = LINKED_TREES if schema.tables else TREES
    share = trees if any(column.tree is not None for column in unknown) else SHARE
    part = Budget(budget.epsilon * share, budget.delta, budget.relation)

    def plan(noise: float) -> Plan:
        return scoped(prices(schema, Purchase(noise, delta)), relation=budget.relation, unit=unit)

    return Purchase(accounting.calibrate(plan, part), delta)


def prices(schema: Schema, terms: Purchase) -> Plan:
    """The events that `resolve` will book, in its order."""
    entries: list[Entry] = []
    if schema.units == LEARN:
        entries.append(Entry(Gaussian(terms.noise)))
    for column, places in linked_tables.once(schema):
        if isinstance(column, Categorical) and column.categories == LEARN:
            entries += map(Entry, _domain(column, places or schema.max_records_per_unit, terms, places).events)
        elif isinstance(column, Numeric):
            entries += [Entry(Gaussian(terms.noise))] * grids(column)
    return tuple(entries)


def least(column: Column, places: int, most: int, terms: Purchase) -> float:
    """How many units must share a category, or a cell of the coarse grid, for it to stand clear of the noise. 0: nothing to find."""
    if isinstance(column, Categorical) and column.categories == LEARN and terms.noise > 0:
        return _domain(column, places or most, terms, places).threshold
    if isinstance(column, Numeric) and column.bounds == LEARN:
        return least_clear(len(_coarse(column)) - 1, terms.noise)
    return 0.0


def _domain(column: Categorical, most: int, terms: Purchase, places: int) -> Domain:
    """What buys the categories of a column of which a unit has at most so many records, or adds as much as so many codes do."""
    levels = 1 if column.tree is None else column.tree.levels
    return Domain(column.name, terms.noise, terms.delta, most * levels, column.tree, places)


def _coarse(column: Numeric) -> tuple[float, ...]:
    """The public grid on which bounds are looked for."""
    return MONTHS if isinstance(column, Datetime) else SIGNED_POWERS


def grids(column: Numeric) -> int:
    """How many grids a numeric column needs: a coarse one for bounds, a fine one for bins (and to tighten bounds)."""
    return 2 if column.bounds == LEARN else int(column.bins == LEARN)


def resolve(schema: Schema, terms: Purchase, ask: Ask) -> Schema:
    """The schema with every `learn` item bought. Total: whatever the noisy answers say, a usable schema comes back."""
    resolved = schema
    if schema.units == LEARN:
        resolved = dataclasses.replace(schema, units=max(1, round(ask(Size(terms.noise)))))
    units = float(resolved.units) if isinstance(resolved.units, int) else math.inf
    for column, places in linked_tables.once(schema):
        items = _bought(column, places, schema.max_records_per_unit, units, terms, ask)
        if items:
            resolved = resolved.with_learned(column.name, **items)
    return resolved


def _bought(column: Column, places: int, most: int, units: float, terms: Purchase, ask: Ask) -> dict[str, Any]:
    if isinstance(column, Categorical) and column.categories == LEARN:
        question = _domain(column, places or most, terms, places)
        found = question.passed(ask(question))
        if not found:
            warnings.warn(
                f"column {column.name!r}: at this budget noise hides every category; declare the categories in the schema",
                stacklevel=2,
            )
        return {"categories": found if column.tree is None else column.tree.used(found)}
    if isinstance(column, Numeric) and grids(column):
        return _bought_number(column, most, units, terms, ask)
    return {}


def _bought_number(column: Numeric, most: int, units: float, terms: Purchase, ask: Ask) -> dict[str, Any]:
    dates, integers = isinstance(column, Datetime), isinstance(column, Integer)
    atoms = () if isinstance(column, Datetime) else column.atoms
    bounds_too = column.bounds == LEARN
    grid: tuple[float, ...] = ()
    if bounds_too:
        grid = _coarse(column)
        coarse, parts, mass, records = _looked_for(column, grid, atoms, most, terms, ask)
    else:
        records, mass = units, np.ones(1)
        parts = tuple(float(microseconds(end)) if dates else float(end) for end in column.bounds)
    edges = fine_edges(parts, mass, records, terms.noise * most, integers=integers)
    zero = not dates and not atoms and parts[0] <= 0 <= parts[-1]
    wider = tuple(sorted({*edges, *grid[:1], *grid[-1:]}))  # what lies outside learned bounds has cells of its own
    fine = _counted(column, wider, (0.0,) if zero else atoms, most, terms, ask)
    inside = slice(wider.index(edges[0]), wider.index(edges[-1]))
    outside = float(fine.others[: inside.start].sum()), float(fine.others[inside.stop :].sum())
    fine = dataclasses.replace(fine, others=fine.others[inside], atoms=fine.atoms[inside])
    items: dict[str, Any] = {}
    counts = fine.others
    if zero:
        whole, found = counts + fine.atoms, float(fine.atoms.sum())
        if found > max(least_clear(len(counts), fine.deviation), SPIKE * float(whole.sum())):
            items["atoms"] = (0,)
        else:
            counts = whole
    if bounds_too:
        _warn_of_tiny(column, edges, counts, max(MOST * records, least_clear(len(counts), fine.deviation)))
        low, high = tightened(edges, counts, fine.deviation, records)
        reached, held = edges, counts
        if not dates:
            reached, held = reaching(grid, coarse, edges, counts, outside, fine.deviation)
        low = reached[0] if reached[0] < edges[0] else low
        high = reached[-1] if reached[-1] > edges[-1] else high
        warn_of_outside(column, edges, counts, outside, fine.deviation, (low, high))
        edges, counts = reached, held
        counts = counts * [low <= edge < high for edge in edges[:-1]]
        if high - integers <= low or (records == 0 and max(-low, high) < 1):  # one clear cell at 0 never widens to 1
            warnings.warn(
                f"column {column.name!r}: only {0.0 if low <= 0 <= high else low:g} stands clear of the noise, so synthetic records will "
                "hold almost nothing else; declare the bounds in the schema",
                stacklevel=2,
            )
        # a cell of integers ends before its upper edge
        items["bounds"] = (low, max(low, high - 1) if integers else high)
    if column.bins == LEARN or (bounds_too and column.bins is None):
        cut = sorted({*cuts(edges, counts, fine.deviation), *spikes(edges, counts, fine.deviation, SPIKE)})
        items["bins"] = [float(round(edge)) for edge in cut] if integers else cut
    return items


def _looked_for(
    column: Numeric, grid: tuple[float, ...], atoms: Sequence[float], most: int, terms: Purchase, ask: Ask
) -> tuple[Numbers, tuple[float, ...], Numbers, float]:
    """The noisy counts of the coarse grid, declared atoms apart, and where a column's values lie on it: the edges of its cells, about how
    many records each holds, and how many there are in all; for dates only the two ends."""
    dates = isinstance(column, Datetime)
    coarse = _counted(column, grid, atoms or (() if dates else (0.0,)), most, terms, ask)
    deviation, others = coarse.deviation, coarse.others
    seen = counts = others if atoms else others + coarse.atoms
    if not len(clear(seen, deviation)) and len(clear(coarse.atoms, deviation)):
        seen = coarse.atoms  # only atoms stand clear of the noise
    cells = together(seen, deviation)
    if len(cells) == 0:
        warnings.warn(
            f"column {column.name!r}: at this budget noise hides the bounds; declare them in the schema", stacklevel=2
        )
    elif cells[0] == 0 or cells[-1] == len(seen) - 1:
        first, last = (iso(int(end)) if dates else f"{end:g}" for end in (grid[0], grid[-1]))
        warnings.warn(
            f"column {column.name!r}: bounds are looked for from {first} to {last}, and many values lie at one of these limits "
            "or beyond it, where they count as the limit; declare the bounds in the schema",
            stacklevel=2,
        )
    low, high = widened(grid, *occupied(grid, seen, deviation), seen, deviation)
    records = float(others[together(others, deviation)].sum())
    if dates:
        return counts, (low, high), np.ones(1), records
    inside = slice(grid.index(low), grid.index(high))
    mass = np.where(others > BESIDE * deviation, others, 0.0)[inside]
    return counts, grid[inside.start : inside.stop + 1], mass, records


def _warn_of_tiny(column: Numeric, edges: tuple[float, ...], counts: Numbers, enough: float) -> None:
    full = int(np.argmax(counts))
    low, high = edges[full : full + 2]
    exact = isinstance(column, Continuous) and column.decimals is None
    if exact and counts[full] > enough and max(-low, high) <= POWERS[0]:
        warnings.warn(
            f"column {column.name!r}: most values lie within {high - low:.1g} of each other near 0, too close for learned bounds to tell "
            "them apart; declare the bounds in the schema",
            stacklevel=2,
        )


def _least(column: Numeric) -> float:
    """The least difference between two values of a column: of dates a microsecond."""
    if isinstance(column, Continuous):
        return float(np.finfo(np.float64).tiny) if column.decimals is None else 10.0**-column.decimals
    return float(column.step) if isinstance(column, Integer) else 1.0


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """Noisy counts (cells,) of the atoms and of all other values in each cell. A count that is the sum of several answers has more noise
    than `deviation`."""

    others: Numbers
    atoms: Numbers
    deviation: float


def _counted(
    column: Numeric, edges: tuple[float, ...], atoms: Sequence[float], most: int, terms: Purchase, ask: Ask
) -> _Counts:
    grid, owner, atomic = with_atoms(edges, atoms, _least(column))
    question = Grid(column.name, grid, terms.noise, most, isinstance(column, Datetime))
    answer: Numbers = ask(question)
    others, of_atoms = (np.bincount(owner, answer * kind, len(edges) - 1) for kind in (~atomic, atomic))
    return _Counts(others=others.astype(np.float64), atoms=of_atoms.astype(np.float64), deviation=question.deviation)
