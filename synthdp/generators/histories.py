"""Histories: units, and their records one after another, each drawn given the unit and what came before.

The records of a unit follow one another by the schema's `order`. Noisy tables are asked of a unit's columns and its number of
records, of each column of a record with what may predict it (the unit, the record's place, the gap, earlier records, and the columns
drawn already), and of the target with pairs of these. For every column a conditional distribution is fitted to its
tables, by least squares or likelihood (`marginals/conditional_fit.py`) or, of a column of few codes, by a mixed model
(`marginals/mixed_model_fit.py`), over histories that the model itself has drawn; these are drawn anew and the fits
repeated, so that in the end the tables of the drawn histories agree with the noisy ones as far as noise
lets them. Chains of conditionals, a column given those before it, from tables of a few columns at a time, are as
old as Chow & Liu 1968; the method here is our own.

A number in a row below records, such as a laboratory value, means little without the row's code. The noisy table of codes and numbers says
in which fifth of its code's numbers each one lies. This level is asked about like any other column, also as it was at the unit's last
record with that code, and is drawn first; the number is then drawn from its code's numbers in that level.

A unit's records weigh at most `clip` in a table if they are alike, however many there are, and more if they lie in different cells
(`HistoryTables`). Drawn units are weighed in the same way, so that the weights do not distort what is fitted.
"""

import functools
import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, check_tensors, silent
from synthdp.generators.marginals import mixed_model_fit, number_shapes
from synthdp.generators.marginals.conditional_fit import LEAST_ORDERED, Conditional, Whole
from synthdp.generators.marginals.history_fit import STEPS, HistoryFit, NoisyTables
from synthdp.generators.marginals.history_model import MOST_BY, HistoryModel
from synthdp.generators.parts.setting_checks import changed
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, number, option, positive, whole
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Boolean, Categorical, Column, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.history_view import ALIKE, BROAD, GAP, MANY, WEEK, WEEKDAY, View
from synthdp.schema.linked_tables import Table, modelled
from synthdp.schema.number_levels import LEVEL, LEVELS, ascend, starts_of
from synthdp.schema.rows_below import AGAIN, HAD, HAD_LAST, PREVIOUS, ROW, ROWS, SO_FAR, Below
from synthdp.schema.schema import Schema
from synthdp.seal import HistoryTables

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

Array = NDArray[np.float64]
Clique = tuple[str, ...]
NUMBERS, OF_LEVELS = " numbers", " levels"  # of a table below visits
# A table of codes by codes of the previous visit, or of other tables at the same one, is left out if its noise is so many times the mean
# number of units in a cell. A drug that is given for one diagnosis has a cell far above the mean.
HIDDEN, HIDDEN_AT_ONCE = 20.0, 200.0
BROAD_SHARE = 0.02  # of what is spent on tables of records, for every two of their columns that stand in order
MOST_BROAD = 0.1
# Tables of two such columns are left out if the units are fewer than so many deviations of the noise of a cell, of broad tables, or times
# the root of their cells, of others: there noise alone would look like a rank correlation of 0.25 in nine cells, or of 0.5.
HIDDEN_BROADLY, HIDDEN_IN_ORDER = 12.0, 2.0
# Of pairs of columns of which at most one stands in order, the tables of at most `MOST_RELATED`, in which the relation stands out most from
# the noise, are asked once more, those of a column in order in few broad places of it.
RELATED, RELATED_SHARE, MOST_RELATED = "related", 0.02, 6  # each costs this share of what is spent on tables of records
# Deviations of a sum of squares that the strongest possible relation of two columns must stand above the noise.
LEAST_CLEAR = 2.0
NUMBERS_SHARE, LEVELS_SHARE = 0.2, 0.35  # of what is spent on a table below visits, where it has numbers


@dataclass(frozen=True, kw_only=True)
class HistoriesSettings:
    """Settings of histories."""

    name: ClassVar[str] = "histories"
    traits: ClassVar[Traits] = Traits(kinds=("histories",), counted=True)

    unit_share: float = option(0.15, "share of the precision spent on tables of a unit, in (0, 1)", fraction())
    target_share: float = option(
        0.3,
        "share of the precision spent on tables of the target with one column; applies if there is a target",
        fraction(),
    )
    pair_share: float = option(
        0.25,
        "share of the precision spent on tables of the target with two or three columns; applies if there is a target",
        fraction(),
    )
    pairs: int = option(12, "number of columns that predict the target together with its previous value", whole(0))
    number_share: float = option(
        0.1,
        "share of the precision spent on the table of the target with the class of the number of records, taken before other shares; "
        "applies if there is a target",
        fraction(),
    )
    row_share: float = option(
        0.4,
        "share of the precision spent on tables of rows below visits, taken before other shares; applies if there are any",
        fraction(),
    )
    clip: float = option(
        1.5,
        "bound on what a unit adds to the tables, in records: if a unit's records are all alike, together they weigh at most as much as "
        "this many, however many there are",
        number("[0.001, 1000]"),
    )
    spread: float = option(
        0.25,
        "expected size of a parameter: the smaller it is, the more noisy cells are drawn towards the rest",
        positive(100),
    )
    rounds: int = option(3, "how often histories are drawn and fitted", whole(1, 100))
    iterations: int = option(120, "steps of L-BFGS in each fit; codes in groups take half as many", whole())

    def __post_init__(self) -> None:
        check(self)
        if self.unit_share + self.target_share + self.pair_share >= 1:
            raise BadInput(
                "the sum of generator.unit_share, generator.target_share and generator.pair_share must be below 1, so that something is "
                "left for the tables of records"
            )

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The schema says whose a record is and in which order records stand; what only a target would make read is left out without."""
        history_view.check(schema)
        if not schema.tables[2:] and self.row_share != type(self).row_share:
            raise BadInput("generator.row_share applies if the schema has tables below visits: leave it out")
        of_target = () if _target(schema) else ("target_share", "pair_share", "pairs", "number_share")
        for name in changed(self, of_target):
            raise BadInput(
                f"generator.{name} applies if one of a record's own columns is a target: declare one, or leave {name} out"
            )

    def plan(self, schema: Schema, noise: float) -> Plan:
        """A Gaussian each for the tables of units, of records, of related columns of these once more, of the target, of the target by the
        number of records, of the target with two or three columns, and of the rows of each table below visits; where these have numbers,
        one more for numbers by code and one for their levels; and for broad tables."""
        return merged(Entry(Gaussian(each)) for each in self.noises(schema, noise).values())

    def noises(self, schema: Schema, noise: float) -> dict[str, float]:
        """Noises of what is asked; their precisions, 1 / noise^2, add up to that of `noise`."""
        shares, related = self._shares(schema, noise), self._related(schema, noise)
        if related:
            part = RELATED_SHARE * min(len(related), MOST_RELATED) * shares["records"]
            shares |= {RELATED: part, "records": shares["records"] - part}
        return {name: noise / math.sqrt(share) for name, share in shares.items()}

    def _shares(self, schema: Schema, noise: float) -> dict[str, float]:
        """The share of the precision that each question has, before some tables of records are asked once more."""
        shares = {"units": self.unit_share, "records": 0.0}
        if _target(schema):
            shares |= {"target": self.target_share} | ({"pairs": self.pair_share} if self.pairs else {})
        shares["records"] = 1 - sum(shares.values())
        if _target(schema):
            shares = {name: share * (1 - self.number_share) for name, share in shares.items()}
            shares["numbers"] = self.number_share
        below = schema.tables[2:]
        if below:
            shares = {name: share * (1 - self.row_share) for name, share in shares.items()}
            for table in below:
                parts = {ROWS: 1.0}
                if _has_numbers(schema, table):
                    parts = {ROWS: 1 - NUMBERS_SHARE - LEVELS_SHARE, NUMBERS: NUMBERS_SHARE, OF_LEVELS: LEVELS_SHARE}
                shares |= {table.name + name: self.row_share / len(below) * part for name, part in parts.items()}
        pairs = math.comb(len(_ordered(schema)), 2)
        if pairs:
            part = min(BROAD_SHARE * pairs, MOST_BROAD) * shares["records"]
            deviation = noise / math.sqrt(part) * self._most(schema) * math.sqrt(pairs)
            if not isinstance(schema.units, int) or schema.units >= HIDDEN_BROADLY * deviation:
                shares |= {BROAD: part, "records": shares["records"] - part}
        return shares

    def _related(self, schema: Schema, noise: float) -> list[Clique]:
        """The pairs of columns of a record, one of them at least without an order, whose relation could stand out of the noise in a table
        that is asked once more, by public facts alone."""
        sizes = _unordered(schema)
        deviation = noise / math.sqrt(RELATED_SHARE * self._shares(schema, noise)["records"]) * self._most(schema)
        in_order = [name for name in _ordered(schema) if name != _target(schema)]
        pairs = [*combinations(sizes, 2), *product(sizes, in_order)]
        sizes |= dict.fromkeys(in_order, LEAST_ORDERED)  # places of it, at least
        return [pair for pair in pairs if not _drowns(sizes[pair[0]], sizes[pair[1]], deviation, schema.units)]

    def _most(self, schema: Schema) -> float:
        """The largest weight of a unit's records in a table of records."""
        return min(self.clip, float(schema.max_records_per_unit))

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Units, records, target, pairs; then rounds of drawing and fitting."""
        progress(0, STEPS, {})  # counting takes a while
        noise = data.commit(lambda z: self.plan(data.declared, z))
        noises = self.noises(data.declared, noise)
        schema = data.resolve()
        view = View.of(data.codec)
        rng = np.random.default_rng(seed)
        of_unit: list[Clique] = [*combinations(view.of_unit, 2)] or [view.of_unit]
        of_unit += [(each, name) for name in view.ending for each in view.before_end]
        units = NoisyTables.of(data, HistoryTables(view, tuple(of_unit), noises["units"]))
        clip = self._most(schema)
        drawn_columns = [name for name in view.drawn if name != view.target and view.of_row(name) is None]
        when = [view.order, *([WEEKDAY] if view.period else [])]
        asked: list[Clique] = [(name,) for name in (*drawn_columns, *when)]
        cliques: dict[str, list[Clique]] = {name: view.cliques(name) for name in view.drawn}
        asked += sorted(((*each, name) for name in drawn_columns for each in cliques[name]), key=len)
        pairs_in_order = [*combinations([name for name in view.own if name in _ordered(data.declared)], 2)]
        if BROAD not in noises and isinstance(data.declared.units, int):
            deviation = noises["records"] * clip * math.sqrt(len(asked))
            for one, other in pairs_in_order:
                cells = view.sizes[one] * view.sizes[other]
                if (one, other) in asked and data.declared.units < HIDDEN_IN_ORDER * deviation * math.sqrt(cells):
                    asked.remove((one, other))
                    cliques[other].remove((one,))
        clear, unordered = [*map(set, self._related(data.declared, noise))], _unordered(data.declared)
        related = [pair for pair in combinations(view.own, 2) if {*pair} in clear]
        for one, other in combinations([name for name in view.own if name in unordered], 2):
            if (one, other) not in related:
                asked.remove((one, other))
                cliques[other].remove((one,))
        records = NoisyTables.of(data, HistoryTables(view, tuple(asked), noises["records"], clip))
        answers = [records]
        if view.target is not None:
            beside: list[Clique] = [(view.target,), *((each, view.target) for each in view.before(view.target))]
            target = NoisyTables.of(data, HistoryTables(view, tuple(beside), noises["target"], clip))
            answers.append(target)
            pairs = _pairs(view, target, self.pairs) if self.pairs else []
            if pairs:
                cliques[view.target] += pairs
                question = HistoryTables(view, tuple((*pair, view.target) for pair in pairs), noises["pairs"], clip)
                answers.append(NoisyTables.of(data, question))
            cliques[view.target].append((MANY,))
            question = HistoryTables(view, ((MANY, view.target),), noises["numbers"], clip)
            answers.append(NoisyTables.of(data, question))
        levels, shares = dict[str, Whole](), dict[str, Array]()
        for below in view.below:
            numbers, of_levels = [name for name, _ in below.leveled], set(below.levels)
            told: list[Clique] = [(name,) for name in below.columns if name not in numbers]
            told += [(*each, name) for name in below.drawn for each in view.cliques(name)]
            for_levels = tuple(clique for clique in told if of_levels & set(clique))
            for_numbers = tuple(clique for clique in told if clique[-1] in numbers)
            plain = tuple(clique for clique in told if clique not in {*for_levels, *for_numbers})
            plain += ((below.table + AGAIN, below.code),)
            most = min(self.clip, float(schema.max_records_per_unit * below.places))
            deviation = noises[below.table + ROWS] * most * math.sqrt(len(plain))
            hidden = _hidden(view, below, plain, deviation, schema.units)
            plain = tuple(clique for clique in plain if clique not in hidden)
            cliques[below.code] = [each for each in cliques[below.code] if (*each, below.code) not in hidden]
            asking = functools.partial(HistoryTables, view, clip=most, rows=below.table)
            answers.append(NoisyTables.of(data, asking(plain, noises[below.table + ROWS])))
            if numbers:
                answers.append(NoisyTables.of(data, asking(for_numbers, noises[below.table + NUMBERS])))
                for name in numbers:
                    shares[name] = _shares(answers[-1], below, name, data.codec.numeric(f"{name} 1").grid())
                found = {LEVEL + name: starts_of(shares[name], end) for name, end in below.leveled}
                starts = tuple((name, tuple(map(tuple, each.tolist()))) for name, each in found.items())
                answers.append(NoisyTables.of(data, asking(for_levels, noises[below.table + OF_LEVELS], levels=starts)))
                levels |= found
        others = _others(data.declared, schema, view)
        fitting = HistoryFit(
            codec=Codec(schema),
            view=view,
            cliques=cliques,
            answers=answers,
            others=others,
            levels=levels,
            shares=shares,
            spread=self.spread,
            rounds=self.rounds,
            iterations=self.iterations,
            progress=progress,
        )
        in_order = [name for name in view.own if name in _ordered(data.declared)]
        if in_order and (BROAD in noises or related):
            deviation = (
                noises[BROAD] * math.sqrt(len(pairs_in_order))
                if BROAD in noises
                else noises[RELATED] * math.sqrt(min(len(related), MOST_RELATED))
            )
            fitting.broad = fitting.places(in_order, deviation * clip)
        broad = tuple((name, tuple(each.tolist())) for name, each in fitting.broad.items())
        if BROAD in noises:
            asked = [(BROAD + one, BROAD + other) for one, other in pairs_in_order]
            answers.append(NoisyTables.of(data, HistoryTables(view, tuple(asked), noises[BROAD], clip, broad=broad)))
        if related:
            by_clearness = sorted(related, key=lambda pair: -fitting.clearness(pair, records))[:MOST_RELATED]
            again = tuple(tuple(BROAD + name if name in in_order else name for name in pair) for pair in by_clearness)
            held = tuple(each for each in broad if any(BROAD + each[0] in pair for pair in again))
            answers.append(NoisyTables.of(data, HistoryTables(view, again, noises[RELATED], clip, broad=held)))
        fitting.units(units, rng)
        return fitting.records(rng)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """Conditionals of every column that is drawn."""
        return restored(schema, tensors)


def _has_numbers(schema: Schema, table: Table) -> bool:
    """Whether a table below visits has numbers beside its code."""
    columns = [column for _, column in modelled(schema, table)]
    return any(isinstance(column, Integer | Continuous) for column in columns[1:])


def _own(schema: Schema) -> list[Column]:
    """The columns of a record itself, without those of its unit, of rows below it, and the order."""
    below, others = tuple(f"{table.name}." for table in schema.tables[2:]), (*schema.per_unit, schema.order)
    return [column for column in schema.modelled if column.name not in others and not column.name.startswith(below)]


def _ordered(schema: Schema) -> list[str]:
    """The columns of a record that stand in order, numbers of rows below it among them."""
    found = [column.name for column in _own(schema) if isinstance(column, Ordinal | Integer | Continuous | Datetime)]
    return [*found, *(table.name + ROWS for table in schema.tables[2:])]


def _unordered(schema: Schema) -> dict[str, int | None]:
    """The columns of a record without an order, but for its first target, of which more is asked, and how many codes each has; None where
    that is not known before the fit."""
    found: dict[str, int | None] = {}
    for column in _own(schema):
        if column.name == _target(schema):
            continue
        if isinstance(column, Boolean):
            found[column.name] = 2 + column.missing
        elif isinstance(column, Categorical):
            known = column.categories != LEARN and column.tree is None
            found[column.name] = len(column.categories) + column.missing if known else None
    return {name: size for name, size in found.items() if size != 1}


def _drowns(one: int | None, other: int | None, deviation: float, units: int | str | None) -> bool:
    """Whether noise of this deviation would hide even the strongest relation of two columns with so many codes: each code of one goes with
    a code of the other, and as many units have each. Squared differences from no relation then add up to units^2 (k - 1) / k^2."""
    if not isinstance(units, int) or one is None or other is None:
        return False
    fewer, freedom = min(one, other), (one - 1) * (other - 1)
    return units**2 * (fewer - 1) / fewer**2 < LEAST_CLEAR * math.sqrt(2 * freedom) * deviation**2


def _target(schema: Schema) -> str | None:
    """The first target that is a record's own."""
    return next((name for name in schema.targets if name not in (*schema.per_unit, schema.order)), None)


def _hidden(
    view: View, below: Below, cliques: tuple[Clique, ...], deviation: float, units: int | str | None
) -> set[Clique]:
    """The tables of a row's code by codes of the previous record, or of other tables, with so many cells that noise of this deviation would
    hide their counts. Leaving them out lowers the noise of the rest. The choice depends on public facts alone: the schema, its units and
    the noise."""
    if not isinstance(units, int):
        return set()
    codes = {start + each.predictor for each in view.below for start in ("", PREVIOUS)}
    by_codes = [clique for clique in cliques if clique[0] in codes and clique[1:] == (below.code,)]
    most = {clique: HIDDEN if clique[0].startswith(PREVIOUS) else HIDDEN_AT_ONCE for clique in by_codes}
    cells = {clique: math.prod(view.sizes[each] for each in clique) for clique in by_codes}
    return {clique for clique in by_codes if cells[clique] * max(deviation, 1.0) > most[clique] * units}


def _shares(asked: NoisyTables, below: Below, name: str, edges: Array) -> Array:
    """(codes, codes of numbers): how often each code has each number, as the noisy table says."""
    held = None if name in below.optional else -1  # the last code: a missing cell
    found = number_shapes.shares(asked.tables[below.code, name][: below.none, :held], asked.deviation, edges)
    return found if held is None else np.pad(found, ((0, 0), (0, 1)))


def _pairs(view: View, asked: NoisyTables, most: int) -> list[Clique]:
    """The previous target with the gap, with what is as before, with both, and with each of the columns that tell most of the target. A
    pair with which the tables would be too large for the mixed model is left out. If no pair fits, all stay, since the target is then
    fitted by maximum entropy."""
    target = str(view.target)
    previous, told = PREVIOUS + target, {}
    for name in view.before(target):
        table = asked.tables[name, target]
        held = np.maximum(table.sum(1, keepdims=True), asked.deviation)
        share = np.clip(table.sum(0) / max(1.0, table.sum()), 0, 1)
        gained = (table - held * share) ** 2 / held - asked.deviation**2 / held
        told[name] = float(gained.sum())  # of a column that tells nothing, about 0: its noise is taken off
    fixed = [name for name in (GAP, ALIKE) if name in told]
    best = sorted((name for name in told if name not in (previous, *fixed)), key=lambda name: -told[name])
    found: list[Clique] = [(previous, name) for name in (*fixed, *best)]
    if ALIKE in told:
        found.insert(2, (previous, ALIKE, GAP))
    singles, kept = [*((name,) for name in told), (MANY,)], list[Clique]()
    for pair in found:
        if len(kept) < most and mixed_model_fit.suits([*singles, *kept, pair], view.sizes, view.sizes[target]):
            kept.append(pair)
    return kept or found[:most]


def _others(declared: Schema, resolved: Schema, view: View) -> dict[str, int]:
    """The code of `other` in each column whose categories were learned."""
    found = {}
    for name in (*view.unit, *view.drawn):
        held = name if view.of_row(name) is None else f"{name} 1"
        if held not in declared.names:  # such as a number of rows
            continue
        before, column = declared.column(held), resolved.column(held)
        if isinstance(before, Categorical) and isinstance(column, Categorical) and before.categories == LEARN:
            found[name] = column.categories.index(str(column.other))
    return found


def restored(schema: Schema, tensors: Tensors) -> HistoryModel:
    """The model that `tensors` hold. Raises `BadInput` if names, shapes or values do not fit the schema."""
    view = View.of(Codec(schema))
    sizes = view.sizes
    names = list(sizes)
    shapes: dict[str, tuple[int, ...]] = {"seasons": (sizes[view.order],), "days": (WEEK,)}
    found: dict[str, dict[str, Conditional]] = {"unit": {}, "record": {}}
    levels, drawn_of_record = _levels_of(view, tensors), view.drawn
    shapes |= {f"levels.{place}": starts.shape for place, starts in enumerate(levels.values())}
    if not levels:  # older models
        drawn_of_record = tuple(name for name in view.drawn if not any(name in each.levels for each in view.below))
    ended = f"unit.{len(view.of_unit)}" in tensors  # not in older models
    drawn_of_unit = view.of_unit + (view.ending if ended else ())
    for kind, drawn_columns in (("unit", drawn_of_unit), ("record", drawn_of_record)):
        for place, name in enumerate(drawn_columns):
            key = f"{kind}.{place}"
            by: Any = tensors.get(f"{key}.by", np.zeros((0, MOST_BY)))
            if by.ndim != 2 or by.shape[1] != MOST_BY or not np.isin(by, np.arange(-1, len(names))).all():
                raise BadInput("the model's columns do not fit its schema; the release was altered")
            cliques = tuple(tuple(names[int(i)] for i in row if i >= 0) for row in by)
            cells = sum(math.prod(sizes[each] for each in clique) for clique in cliques) or 1
            allowed = view.of_unit[:place] if kind == "unit" else view.before(name, leveled=bool(levels))
            allowed = view.before_end if name in view.ending else allowed
            if kind == "record" and name == view.target:
                allowed = (*allowed, MANY)
            of = view.of_row(name)
            if of is not None:
                allowed = (*allowed, of.table + ROW)  # only in older models, whose rows had an order
            by_code = of is None or LEVEL + name not in levels or cliques[:1] == ((of.code,),)  # which tells its levels
            if not by_code or any(not clique or not set(clique) <= set(allowed) for clique in cliques):
                raise BadInput("the model's columns do not fit its schema; the release was altered")
            shapes |= {key: (cells, sizes[name]), f"{key}.alone": (sizes[name],), f"{key}.by": by.shape}
            gains, may = {}, dict[str, tuple[str, int]]()  # by kind of gain: its column, and its sign
            if kind == "record" and (PREVIOUS + name,) in cliques and name not in view.alike:
                may["stay"] = (PREVIOUS + name, 1)
            if of is not None and name == of.code:
                may |= {
                    "last": (of.table + HAD_LAST, 0),
                    "again": (of.table + HAD, 0),
                    "repeat": (of.table + SO_FAR, -1),
                }
            for what, (column, sign) in may.items():
                if f"{key}.{what}" in tensors:
                    shapes[f"{key}.{what}"] = (sizes[name],)
                    gains[column] = np.asarray(tensors[f"{key}.{what}"], np.float64)
                    if (sign * gains[column] < 0).any():
                        raise BadInput("the model's gains do not fit its schema; the release was altered")
            alone, theta = (np.asarray(tensors.get(each, np.zeros(0)), np.float64) for each in (f"{key}.alone", key))
            by_cause = of is not None and name == of.code and f"{key}.by_cause" in tensors  # older models have none
            shapes |= {f"{key}.by_cause": (1,)} if by_cause else {}
            found[kind][name] = Conditional(alone, cliques, theta, gains, by_cause)
    check_tensors(tensors, shapes)
    if any((tensors[name] != 1).any() for name in shapes if name.endswith(".by_cause")):
        raise BadInput("what the model's rows owe their codes to does not fit its schema; the release was altered")
    seasons, days = (np.asarray(tensors[name], np.float64) for name in ("seasons", "days"))
    if min(seasons.min(), days.min()) <= 0:
        raise BadInput("the model's shares do not fit its schema; the release was altered")
    return HistoryModel(schema, found["unit"], found["record"], seasons, days, levels)


def _levels_of(view: View, tensors: Tensors) -> dict[str, Whole]:
    """The starts of all levels; none for an older model, which does not draw numbers by levels."""
    found: dict[str, Whole] = {}
    if not any(name.startswith("levels.") for name in tensors):
        return found
    for below in view.below:
        for name, end in below.leveled:
            starts = np.asarray(tensors.get(f"levels.{len(found)}", np.zeros(0)))
            if starts.shape != (below.none, LEVELS) or starts.dtype.kind not in "fiu" or not ascend(starts, end):
                raise BadInput("the levels of the model do not fit its schema; the release was altered")
            found[LEVEL + name] = starts.astype(np.int64)
    return found


GENERATOR = HistoriesSettings
