"""The fit of histories. In turns, the model so far draws histories, and its conditionals are fitted, over these, to the noisy tables.

Drawn units are weighed as the questions weigh real ones, so that the weights do not distort what is fitted.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthdp.generators import Progress
from synthdp.generators.marginals import mixed_model_fit, number_shapes
from synthdp.generators.marginals.conditional_fit import (
    CLOSED,
    LEAST_ORDERED,
    Conditional,
    Slopes,
    Whole,
    clearness,
    fit,
    halfway,
    softmax,
)
from synthdp.generators.marginals.history_model import MOST_UNITS, HistoryModel
from synthdp.generators.marginals.history_times import (
    LEAST_SHARE,
    Spans,
    adjust_shares,
    draw_after,
    first_offsets,
    gap_offsets,
    never_after,
)
from synthdp.generators.marginals.staying import LEAST_CHANCE, as_before, repeats
from synthdp.generators.marginals.trends import Along
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Continuous, Datetime, Integer, Ordinal
from synthdp.schema.history_view import (
    ALIKE,
    BROAD,
    EARLIER,
    FIRST,
    GAP,
    LEFT,
    MANY,
    MOST_EARLIER,
    NUMBER,
    PACE,
    PLACE,
    UNIT_WEIGHT,
    WEEK,
    WEEKDAY,
    View,
)
from synthdp.schema.learned import nearest_counts
from synthdp.schema.number_levels import LEVEL, LEVELS
from synthdp.schema.rows_below import AGAIN, HAD, HAD_LAST, HERE, LAST, PREVIOUS, ROWS, SO_FAR, Below, Had, besides
from synthdp.schema.structural_zeros import Zeros
from synthdp.seal import HistoryTables

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

Array = NDArray[np.float64]
Clique = tuple[str, ...]
Tables = dict[Clique, Array]
CHANCES = 6_000_000  # of codes of rows below visits that a fit looks at; if there are more, it takes some of the rows
BY_CODE = 4.0  # times `spread`: what codes and numbers of a visit's rows tell of them; tried on a made-up hospital
OF_ROWS = 2.0  # times `spread`, for every other effect on these rows; tried on random hospitals
ADJUSTED = 3  # how often the shares of codes are adjusted at the end
ADJUSTMENT = 0.8  # how far each time
CHANCE_ROWS = 30.0  # added to a code's drawn rows and to the wanted ones, so that chance in a few rows moves little
SETTLED = 4  # how often each later round fits days and gaps in turns at its start, and the target at its end
LEAST_DEVIATION = 1e-3  # of tables without noise, in which only rounding is left
STEPS = 1000  # of progress
DRAW = 600.0  # nanoseconds to draw a cell of a record
FEW = 5000  # records that take as long as what every draw costs besides
# So many units are drawn at least, or as many as there are. More of them only as long as chance in a cell of theirs is not this many times
# below the noise of the tables: at a tiny epsilon noise alone may tell of millions, over which a fit would take hours.
ENOUGH_UNITS, CHANCE_BELOW = 1_000, 10.0
BROAD_CLEAR, MOST_PLACES = 4.0, 8  # see `places`
CLEAR = 3.0  # deviations of noise that `other` must stand above, where categories are learned


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Noisy tables by clique, the deviation of a cell, and how units were weighed: see `HistoryTables`."""

    tables: Tables
    deviation: float
    clip: float | None = None
    rows: str = ""

    @classmethod
    def of(cls, data: "Sensitive", question: HistoryTables) -> "NoisyTables":
        """Ask the question, and keep its answer."""
        answer = data.ask(question)
        tables = dict(zip(question.cliques, answer, strict=True))
        return cls(tables, max(question.deviation, LEAST_DEVIATION), question.clip, question.rows)

    def weights(self, view: View, cells: Mapping[str, Whole], owner: Whole, count: Whole) -> Array:
        """(records,): what each of these records weighs by the rule of the question."""
        squares = history_view.squares(cells, owner, count, view.apart(self.tables))
        most = history_view.largest(float(self.clip or 0), len(self.tables))
        found: Array = history_view.weights(squares, most)[owner] / UNIT_WEIGHT
        return found

    def row_weights(self, codes: Whole, owner: Whole, units: int) -> tuple[Array, Array]:
        """(rows,) each: what each of these rows below records weighs, in tables that hold their `codes` and in others."""
        most = history_view.largest(float(self.clip or 0), 1)
        by_code, others = (
            history_view.weights(each, most)[owner] / UNIT_WEIGHT
            for each in history_view.row_squares(codes, owner, units)
        )
        return by_code, others

    @property
    def total(self) -> float:
        """The noisy number of what was counted."""
        return max(1.0, float(np.mean([table.sum() for table in self.tables.values()])))


@dataclass
class HistoryFit:
    """A model in the making: in turns, it draws histories, and is fitted over these to the noisy tables."""

    codec: Codec
    view: View
    cliques: Mapping[str, Sequence[Clique]]
    answers: Sequence[NoisyTables]
    others: Mapping[str, int]
    levels: Mapping[str, Whole]
    shares: Mapping[str, Array]
    spread: float
    rounds: int
    iterations: int
    progress: Progress
    variances: dict[str, dict[int, Array]] = field(default_factory=dict)
    spreads: dict[str, dict[Clique, float]] = field(default_factory=dict)
    trends: dict[str, Along] = field(default_factory=dict)
    broad: dict[str, Whole] = field(default_factory=dict)

    @cached_property
    def zeros(self) -> Zeros:
        """The codes that rules exclude."""
        return Zeros.of(self.codec.schema, self.view)

    def units(self, asked: NoisyTables, rng: np.random.Generator) -> None:
        """Fit the conditionals of a unit's columns, each given those before it, and draw units from them."""
        view, sizes = self.view, self.view.sizes
        self.of_unit: dict[str, Conditional] = {}
        self.total = asked.total
        enough = max(ENOUGH_UNITS, (CHANCE_BELOW * asked.total / asked.deviation) ** 2)
        self.number = int(min(MOST_UNITS, max(1.0, asked.total), enough))
        self.people: dict[str, Whole] = {}
        self.alone = {name: self._alone([asked], name) for name in (*view.of_unit, *view.ending)}
        weights = np.full(self.number, self.total / self.number)

        def fitted(name: str, before: Sequence[str], offset: Array | None = None) -> Conditional:
            cliques = [(each,) for each in before]
            tables = [_told(asked.tables, each, name) for each in before]
            return self._fitted(
                name, self.people, weights, cliques, tables, [asked.deviation] * len(before), None, offset
            )

        for place, name in enumerate(view.of_unit):
            self.of_unit[name] = fitted(name, view.of_unit[:place]) if place else _by_itself(self.alone[name])
            closed = functools.partial(self.zeros.closed, name)
            self.people[name] = self.of_unit[name].draw(self.people, sizes, self.number, rng, closed)
        for name in view.ending:
            never = never_after(view, self.codec, self.people)
            offset = np.where(never[:, None] == (np.arange(sizes[name]) > 0), CLOSED, 0.0)
            self.of_unit[name] = fitted(name, view.before_end, offset)
            self.people[name] = draw_after(self.of_unit[name], view, self.codec, self.people, rng)

    def records(self, rng: np.random.Generator) -> "HistoryModel":
        """Fit the columns of a record in rounds. In the first round each column is fitted before the next one is drawn from it. Later
        rounds move columns halfway to their new fit. Going the whole way would never settle where a column depends much on its previous
        value: if too many drawn records follow one value, the fit makes up for that, and then too few follow it."""
        view = self.view
        self.alone |= {name: self._alone([self._alike(name)], name) for name in view.drawn}
        held = {name: _by_itself(self.alone[name]) for name in view.drawn}
        held |= {name: self._by_code(below, name) for below in view.below for name, _ in below.leveled}
        days = np.ones(WEEK)
        if view.period:
            asked = next(each for each in self.answers if any(WEEKDAY in clique for clique in each.tables))
            days = np.exp(self._alone([asked], WEEKDAY)) * WEEK
        self.model = model = HistoryModel(
            self.codec.schema, self.of_unit, held, np.ones(view.sizes[view.order]), days, self.levels
        )
        whole: dict[str, Conditional] = {}
        schedule, done, work = list(self._schedule()), 0.0, 0.0
        for turn, name, drawing in schedule:
            if drawing:
                cells, weights = self._draw(rng)
            work = work or sum(self._work(*each) for each in schedule)  # once it is known how many records are drawn
            if turn == self.rounds:
                self._adjust_codes(cells)
                continue
            before = whole.get(name, model.of_record[name])
            found = self._conditional(name, cells, weights, before)
            whole[name] = halfway(before, found) if turn > 0 and name in view.own else found
            model.of_record[name] = self._narrow(whole[name])
            done += self._work(turn, name, drawing)
            self.progress(round(STEPS * done / work), STEPS, {})
        return model

    def _schedule(self) -> Iterator[tuple[int, str, bool]]:
        """What is fitted, in order: the round, the column, and whether histories are drawn first."""
        view = self.view
        for turn in range(self.rounds):
            yield from [(turn, GAP, True)] * (SETTLED if turn else 0)
            for place, name in enumerate(view.drawn):
                times = SETTLED if turn and name == view.target else 1
                yield from [(turn, name, turn == 0 or place == 0 or name == view.target)] * times
        if view.below:
            yield from [(self.rounds, view.below[0].code, True)] * ADJUSTED

    def _work(self, turn: int, name: str, drawing: bool) -> float:
        """About how long a part of the schedule takes, in nanoseconds on one machine. Only the ratios matter: they make progress even."""
        rows, cliques, sizes = len(self.owner), self._cliques(name), self.sizes
        drawn = DRAW * (rows + FEW) * len(self.view.drawn) if drawing else 0.0
        if turn == self.rounds:
            return drawn
        if self._few(name, cliques):
            return drawn + mixed_model_fit.work(rows, cliques, sizes, sizes[name], again=turn > 0)
        return drawn + self._iterations(name) * rows * len(cliques) * sizes[name]

    def _few(self, name: str, cliques: Sequence[Clique]) -> bool:
        """Whether the mixed model predicts a column: not codes of rows, since it knows nothing of codes that recur."""
        return not any(name == each.code for each in self.view.below) and mixed_model_fit.suits(
            cliques, self.sizes, self.sizes[name]
        )

    def _iterations(self, name: str) -> int:
        """Steps of a fit: half as many for codes of rows in groups, which have by far the most parameters and gain nothing from more."""
        grouped = any(name == each.code and each.groups for each in self.view.below)
        return -(-self.iterations // 2) if grouped else self.iterations

    def _draw(self, rng: np.random.Generator) -> tuple[dict[str, Whole], Array]:
        """Draw histories from the model so far: their cells, and what each record weighs. The shares of days then move nearer to those of
        the tables."""
        self.spans = Spans.of(self.view, self.codec, self.people, rng)
        drawn_histories = self.model.histories(self.number, rng, self.people, self.spans)
        cells, weights, self.before = self._weighed(*drawn_histories)
        self._adjust_days(cells)
        return cells, weights

    def _adjust_days(self, cells: Mapping[str, Whole]) -> None:
        """Change shares so that the number of records on each day is what all tables of records, taken together, say. This is done for
        records that follow others, by codes of the order column, and for all records, by days of the week."""
        view, later = self.view, cells[PLACE] > 0
        for name, share, moved in (
            (view.order, self.model.seasons, later),
            (WEEKDAY, self.model.days, np.full_like(later, True)),
        ):
            if name not in cells:
                continue
            lacking, here, precision = np.zeros(len(share)), np.zeros(len(share)), 0.0
            for asked, weights in zip(self._of_records, self.weights, strict=True):
                if not any(name in clique for clique in asked.tables):
                    continue
                wanted, deviation = _counts([asked], name)
                drawn_here = np.bincount(cells[name], weights, len(share))
                clear = 1 / deviation**2
                lacking += clear * (wanted - drawn_here)
                here += clear * np.bincount(cells[name][moved], weights[moved], len(share))
                precision += clear
            adjust_shares(share, lacking / precision, here / precision, 1 / math.sqrt(precision))

    def _along(self, name: str) -> Along:
        """The columns of the unit and the record along which the codes of this column have trends."""
        columns = {each: self.ordered[each] for each in (*self.view.unit, *self.view.own) if each in self.ordered}
        return self.trends.setdefault(name, Along(columns, self.spread))

    def _adjust_codes(self, cells: Mapping[str, Whole]) -> None:
        """Change how common each code of a row is, so that drawn rows have the shares that the tables say. Each fit has these shares over
        the rows that were drawn before it; but what a row's code depends on, such as the codes before it, is drawn anew."""
        for below in self.view.below:
            name, size = below.code, self.view.sizes[below.code]
            rows, record = below.rows(cells, self.view.sizes, [name])
            weights, _ = self._asked(name).row_weights(rows[name], self.owner[record], self.number)
            every = len(record)
            held = np.bincount(rows[name], weights * every / max(float(weights.sum()), LEAST_SHARE), size)
            wanted = every * softmax(self.alone[name][None, :])[0]
            change = ADJUSTMENT * np.log((wanted + CHANCE_ROWS) / (held + CHANCE_ROWS))
            found = self.model.of_record[name]
            self.model.of_record[name] = replace(found, margin=found.margin + change)

    @cached_property
    def ordered(self) -> dict[str, tuple[int, int]]:
        """For columns with codes that stand in order: these codes, [first, end)."""
        view, codec, sizes = self.view, self.codec, self.view.sizes
        found = {name: (0, sizes[name]) for name in (NUMBER, PLACE, LEFT, MANY)} | {FIRST: (0, sizes[FIRST] - 1)}
        found |= {name: (1, sizes[name]) for name in (GAP, PACE, *view.ending)}
        found |= {f"{EARLIER}{name} {code}": (0, MOST_EARLIER + 1) for name, code in view.counted}
        found |= {name: (0, LEVELS) for each in view.below for name in each.levels}
        for name in (*view.unit, view.order, *view.own):
            if name not in codec.names:  # a number of rows
                found[name] = (0, sizes[name])
                continue
            column = codec.schema.column(name)
            if isinstance(column, (Ordinal, Integer, Continuous, Datetime)):
                found[name] = (0, sizes[name] - len(codec.atoms(name)) - column.missing)
        return found | {PREVIOUS + name: codes for name, codes in found.items() if PREVIOUS + name in sizes}

    @cached_property
    def slopes(self) -> Slopes:
        """The slopes of the unit's and the record's columns, and of levels, with one another and with their own previous values. Numbers,
        places and gaps of records have none: they say much the same as one another, so noise would give them large slopes that cancel."""
        told = {*self.view.unit, *self.view.own, *(name for each in self.view.below for name in each.levels)}
        ordered = {name: codes for name, codes in self.ordered.items() if name.removeprefix(PREVIOUS) in told}
        return Slopes(ordered | self._broad_ordered, tuple(self.levels))

    @property
    def sizes(self) -> dict[str, int]:
        """Codes of every column, and places of the broad ones."""
        return self.view.sizes | history_view.broad_sizes(self.broad)

    @property
    def _broad_ordered(self) -> dict[str, tuple[int, int]]:
        found = {}
        for name, places in self.broad.items():
            _, end = self.ordered[name]
            found[BROAD + name] = (0, int(places[:end].max(initial=-1)) + 1)
        return found

    def _thinned(self, name: str) -> float:
        """The root of the mean number of codes in a place."""
        return math.sqrt(len(self.broad[name]) / (self.broad[name].max() + 1))

    def _cliques(self, name: str) -> list[Clique]:
        """What predicts a drawn column, the broad columns before it last."""
        found = list(self.cliques[name])
        pairs = {clique for each in self.answers for clique in each.tables}
        return found + [(BROAD + each,) for each in self.view.own if (BROAD + each, BROAD + name) in pairs]

    def _narrow(self, found: Conditional) -> Conditional:
        """The same conditional without broad columns: what a place changes, each of its codes does."""
        sizes, ends = self.sizes, [0]
        for clique in found.cliques:
            ends.append(ends[-1] + math.prod(sizes[name] for name in clique))
        parts = {
            clique: found.theta[first:end] for clique, first, end in zip(found.cliques, ends, ends[1:], strict=False)
        }
        cliques = tuple(clique for clique in parts if not clique[0].startswith(BROAD))
        for (name, *_), part in list(parts.items())[len(cliques) :]:
            held = name.removeprefix(BROAD)
            parts[held,] = parts[held,] + part[self.broad[held]]
        theta = np.concatenate([parts[clique] for clique in cliques]) if cliques else found.theta
        return replace(found, cliques=cliques, theta=theta)

    def places(self, names: Sequence[str], deviation: float) -> dict[str, Whole]:
        """A place for each code of these columns: of codes that stand in order as many places, with about as many records each, as leave a
        cell of two columns `BROAD_CLEAR` deviations, from 3, which have a slope, to `MOST_PLACES`; one more for all other codes."""
        most = math.sqrt(self.answers[0].total / max(BROAD_CLEAR * deviation, LEAST_DEVIATION))
        count = int(np.clip(most, LEAST_ORDERED, MOST_PLACES))
        found = {}
        for name in names:
            (first, end), shares = self.ordered[name], np.exp(self._alone([self._asked(name)], name))
            end = end if end > first else len(self.codec.atoms(name))  # values that are all atoms ascend, too
            upto = np.cumsum(shares[first:end])
            middle = (upto - shares[first:end] / 2) / upto[-1]
            places = np.full(len(shares), count)
            places[first:end] = np.minimum(middle * count, count - 1).astype(np.int64)
            found[name] = np.unique(places, return_inverse=True)[1].astype(np.int64)
        return found

    def clearness(self, pair: Clique, asked: NoisyTables) -> float:
        """By how many deviations of its noise the relation of two columns stands out, of a column with places in these."""
        table, thinned = asked.tables[pair], 1.0
        for axis, name in enumerate(pair):
            if name in self.broad:
                table, thinned = _in_places(table, self.broad[name], axis), thinned * self._thinned(name)
        return clearness(table, asked.deviation * thinned)

    def _broadly(
        self, clique: Clique, name: str, table: Array, deviation: float, cells: Mapping[str, Whole], weights: Array
    ) -> tuple[Array, float]:
        """A noisy table of a column in order and one without, and its deviation; if it was asked again in places of the former, what both
        answers say of each place, spread over its codes by their shares."""
        pairs = ((BROAD + clique[0], name), (clique[0], BROAD + name)) if len(clique) == 1 else ()
        for asked, those in zip(self._of_records, self.weights, strict=True):
            for axis, pair in enumerate(pairs):
                if pair not in asked.tables:
                    continue
                held = name if axis else clique[0]
                places, shares = self.broad[held], np.exp(self.alone[held])
                again = self._reweighed(asked.tables[pair], cells, weights, those, pair[:1], pair[1])
                as_much = max(float(weights.sum()), LEAST_SHARE) / max(float(those.sum()), LEAST_SHARE)
                one, other = np.bincount(places) * deviation**2, (as_much * asked.deviation) ** 2
                part = (one / (one + other)).reshape((1, -1) if axis else (-1, 1))
                both = (1 - part) * _in_places(table, places, axis) + part * as_much * again
                share = shares / np.bincount(places, weights=shares)[places]
                spread = both.take(places, axis) * (share if axis else share[:, None])
                return spread, math.sqrt(float(np.mean(one * other / (one + other)))) / self._thinned(held)
        return table, deviation

    @property
    def _of_records(self) -> list[NoisyTables]:
        return [each for each in self.answers if not each.rows]

    def _alone(self, answers: Sequence[NoisyTables], name: str) -> Array:
        return _alone(answers, name, self.view, self._in_order(name), self.others.get(name))

    def _in_order(self, name: str) -> tuple[slice, Array]:
        """The codes of a column that stand in order, and how wide each of them is."""
        below, codec = self.view.of_row(name), self.codec
        starts = {} if below is None else dict(below.starts)
        first, end = (0, len(starts[name])) if name in starts else self.ordered.get(name, (0, 0))
        end -= name in (NUMBER, MANY)  # whose last code stands for all larger numbers, and may be a peak of its own
        widths = np.ones(end - first)
        if name in codec.names and isinstance(codec.schema.column(name), Integer | Continuous | Datetime):
            widths = number_shapes.even_widths(codec.numeric(name).grid())[: end - first]
        return slice(first, end), widths

    def _weighed(self, cells: dict[str, Whole], owner: Whole, points: Whole) -> tuple[dict[str, Whole], Array, Whole]:
        """The drawn records that count, chosen as for real units; what each weighs in tables of records; and the order column's point of
        the record before it, if any. `self.weights` keeps what they weigh in each question of records."""
        number = np.bincount(owner, minlength=self.number)
        starts, most = np.cumsum(number) - number, self.codec.schema.max_records_per_unit
        place = np.arange(len(owner)) - starts[owner]
        first = (np.arange(self.number) * 2654435761 % (1 << 32)) % np.maximum(1, number - most + 1)
        counts = (place >= first[owner]) & (place < first[owner] + most)
        self.owner, self.left = owner[counts], (number[owner] - place - 1)[counts]
        cells = {name: values[counts] for name, values in cells.items()}
        cells |= history_view.broadly(cells, self.broad)
        scale = self.total / self.number
        count = np.minimum(number, most)
        self.weights = [each.weights(self.view, cells, self.owner, count) * scale for each in self._of_records]
        return cells, self.weights[0], np.roll(points, 1)[counts]

    def _asked(self, name: str) -> NoisyTables:
        """The first answer with tables of what tells a drawn column, which stands last in them."""
        return next(each for each in self.answers if any(clique[-1] == name for clique in each.tables))

    def _alike(self, name: str) -> NoisyTables:
        """The answer of `_asked`; for a column of rows, only its tables that hold the rows' code, if there are any: rows weigh less in
        the others."""
        found, below = self._asked(name), self.view.of_row(name)
        if below is None:
            return found
        tables = {clique: each for clique, each in found.tables.items() if below.code in clique}
        return replace(found, tables=tables) if any(name in clique for clique in tables) else found

    def _conditional(self, name: str, cells: dict[str, Whole], weights: Array, start: Conditional) -> Conditional:
        size = self.view.sizes[name]
        cliques = self._cliques(name)
        tables, deviations = [], []
        first, below = self._asked(name), self.view.of_row(name)
        if below is None:
            weights = others = self.weights[self._of_records.index(first)]
        else:
            cells, weights, others = self._rows(first, cells, below, name, cliques)
        for clique in cliques:
            to = BROAD + name if clique[0].startswith(BROAD) else name
            asked, *more_asked = [each for each in self.answers if (*clique, to) in each.tables]
            deviation, scale = asked.deviation, 1.0
            table = asked.tables[(*clique, to)].reshape(-1, self.sizes[to]).copy()
            if below is None and asked is not first:
                others = self.weights[self._of_records.index(asked)]
                table = self._reweighed(table, cells, weights, others, clique, to)
                if to != name:  # spread over the codes of each place
                    places = self.broad[name]
                    table, scale = (table / np.bincount(places))[:, places], 1 / self._thinned(name)
            elif below is not None and below.code not in (*clique, name):  # rows weigh less there
                scale = max(float(weights.sum()), LEAST_SHARE) / max(float(others.sum()), LEAST_SHARE)
                table = scale * self._reweighed(table, cells, weights, others, clique, name)
            elif below is not None and clique == (below.table + LAST,) and not below.groups:
                # Either of two rows comes first equally often.
                table[: below.none, : below.none] += table[: below.none, : below.none].T.copy()
                table[: below.none, : below.none] /= 2
            for each in more_asked:
                those = self.weights[self._of_records.index(each)]
                more = self._reweighed(each.tables[(*clique, to)], cells, weights, those, clique, to)
                as_much = max(float(weights.sum()), LEAST_SHARE) / max(float(those.sum()), LEAST_SHARE)
                precisions = deviation**-2, (as_much * each.deviation) ** -2
                table = np.average([table, as_much * more], axis=0, weights=precisions)
                deviation = 1 / math.sqrt(sum(precisions))
            if below is None:
                table, deviation = self._broadly(clique, name, table, deviation, cells, weights)
            tables.append(table)
            deviations.append(deviation * scale)
        if name not in (FIRST, GAP, ALIKE):
            if name in self.shares and below is not None:
                return self._number(name, below, cells, weights, tables, deviations, start)
            offset: Array | None = None
            factors = self.model.factors(name, cells, len(weights)) if name in self.view.alike else None
            if factors is not None:
                offset = np.log(factors, where=factors > 0, out=np.full(factors.shape, CLOSED))
            if name in self.levels and below is not None:
                there = np.pad(self.model.held_levels(name.removeprefix(LEVEL)), ((0, 1), (0, 0)))
                tables = [
                    np.where(there.repeat(len(table) // len(there), 0), table, 0) if clique[0] == below.code else table
                    for clique, table in zip(cliques, tables, strict=True)
                ]
                offset = np.where(there[cells[below.code]], 0.0, CLOSED)
            gains, again = None, None if below is None else self._again(first, below, name)
            if below is not None and again is not None:
                here = again[1][HERE]
                gains = {below.table + SO_FAR: self._rarer(below, cells, weights, here, first.deviation, start)}
            of_row = below is not None
            return self._fitted(
                name, cells, weights, cliques, tables, deviations, start, offset, below=of_row, gains=gains, again=again
            )
        there = cells[PLACE] == 0 if name == FIRST else cells[PLACE] > 0
        rows = {each: values[there] for each, values in cells.items()}
        if name == ALIKE:
            for table in tables:
                table[:, -1] = 0.0
            return self._fitted(name, rows, weights[there], cliques, tables, deviations, start)
        if name == FIRST:  # the last code says that this is not a first record
            offset = np.zeros((there.sum(), size))
            offset[:, -1] = CLOSED
            owner, spans = self.owner[there], self.spans
            offset[:, :-1] = first_offsets(
                self.model.point_shares(), size - 1, spans.low[owner], spans.high[owner], self.left[there]
            )
            offset[:, :-1][spans.closed(owner)] = CLOSED
            told = spans.ended[owner]
        else:
            high = self.spans.high[self.owner[there]]
            offset = gap_offsets(self.model.point_shares(), self.view.gaps, self.before[there], high, self.left[there])
            told = self.spans.ended[self.owner[there]] & (self.left[there] == 0)
        offset[told] = CLOSED  # the end of the history leaves these one code
        offset[told, cells[name][there][told]] = 0.0
        tables = [np.where((offset <= CLOSED).all(0), 0.0, table) for table in tables]
        return self._fitted(name, rows, weights[there], cliques, tables, deviations, start, offset)

    def _again(self, asked: NoisyTables, below: Below, name: str) -> tuple[tuple[str, ...], Array, float] | None:
        """What shows how often codes of rows recur: the columns that say what a unit had, their table and its deviation."""
        table = asked.tables.get((below.table + AGAIN, name))
        return None if table is None else ((below.table + HAD_LAST, below.table + HAD), table, asked.deviation)

    def _had(self, cells: Mapping[str, Whole], below: Below) -> Whole:
        """(records, codes): the codes that the owner of each record had before, but for those of its last record."""
        codes, last = cells[below.code], cells[PREVIOUS + below.code]
        starts = np.searchsorted(self.owner, self.owner, side="left")
        place, had = np.arange(len(self.owner)) - starts, Had.nothing(self.number)
        found = np.full((len(self.owner), 1), -1)
        for each in range(int(place.max(initial=0)) + 1):
            here = np.flatnonzero(place == each)
            known = besides(had.held[self.owner[here]], last[here])
            found = np.pad(found, ((0, 0), (0, known.shape[1] - found.shape[1])), constant_values=-1)
            found[here] = known
            had.keep(self.owner[here], np.where(codes[here] < below.none, codes[here], -1))
        return found

    def _rarer(
        self,
        below: Below,
        cells: Mapping[str, Whole],
        weights: Array,
        repeated: Array,
        deviation: float,
        start: Conditional,
    ) -> Array:
        """(codes,): logarithms of how much rarer a code is if the visit already has it; `repeated` (codes,) are rows of such codes."""
        so_far, codes = below.table + SO_FAR, len(start.margin)
        plain = replace(start, gains={column: gains for column, gains in start.gains.items() if column != so_far})
        rows, had = as_before(cells[so_far], codes)
        some, place = np.unique(rows, return_inverse=True)
        chances = plain.probabilities({each: values[some] for each, values in cells.items()}, self.view.sizes)
        often = np.bincount(had, weights[rows] * chances[place, had], codes)
        factor = repeats(often.astype(np.float64), repeated, deviation)
        return np.full(codes, math.log(factor))

    def _by_code(self, below: Below, name: str) -> Conditional:
        """The conditional of numbers given their codes, from the shares of each code; no row has the code `none`."""
        alone, shares = self.alone[name], self.shares[name]
        held = np.where(alone > CLOSED, np.log(np.maximum(shares, LEAST_CHANCE)) - alone, 0.0)
        return Conditional(alone, ((below.code,),), np.pad(held, ((0, 1), (0, 0)), constant_values=CLOSED))

    def _number(
        self,
        name: str,
        below: Below,
        cells: Mapping[str, Whole],
        weights: Array,
        tables: list[Array],
        deviations: list[float],
        start: Conditional,
    ) -> Conditional:
        """The conditional of a number given its level: its code's numbers, which categories before it in the row make likelier or rarer."""
        by_code, (code, *others), alone = self._by_code(below, name), self.cliques[name], self.alone[name]
        if not others:
            return by_code
        known = Conditional(alone, start.cliques[1:], start.theta[below.none + 1 :])
        codes, level = cells[below.code], LEVEL + name
        inside = self.model.in_levels[level][codes] == cells[level][:, None]
        offset = np.where(inside, by_code.theta[codes], CLOSED)
        told = self._fitted(name, cells, weights, others, tables[1:], deviations[1:], known, offset, below=True)
        return Conditional(alone, (code, *others), np.concatenate([by_code.theta, told.theta]))

    def _reweighed(
        self,
        table: Array,
        cells: Mapping[str, Whole],
        wanted: Array,
        had: Array,
        clique: Clique,
        name: str,
    ) -> Array:
        """A table as if its question weighed records by `wanted` in place of `had`: the drawn records show how much the shares of its cells
        differ."""
        place = history_view.cell(cells, (*clique, name), self.sizes)
        place = place[:, None] if place.ndim == 1 else place
        there, several = place >= 0, np.maximum((place >= 0).sum(1, keepdims=True), 1)
        shares = []
        for each in (wanted, had):
            shared = np.broadcast_to(each[:, None] / several, place.shape)[there]
            counts = np.bincount(place[there], weights=shared, minlength=table.size).reshape(table.shape)
            shares.append(counts / np.maximum(counts.sum(1, keepdims=True), LEAST_SHARE))
        found: Array = table + np.maximum(table.sum(1, keepdims=True), 0) * (shares[0] - shares[1])
        return found

    def _rows(
        self, asked: NoisyTables, cells: Mapping[str, Whole], below: Below, name: str, cliques: Sequence[Clique]
    ) -> tuple[dict[str, Whole], Array, Array]:
        """Rows below drawn records, and what each weighs in tables with the rows' code and in those without it; if there are very many,
        evenly spaced ones of them."""
        names = dict.fromkeys((name, *(each for clique in cliques for each in clique), *self.zeros.others(name)))
        if self._again(asked, below, name) is not None:
            names |= dict.fromkeys([below.table + HAD_LAST, below.table + HAD, below.table + SO_FAR])
            counts = np.diff(self.owner, prepend=-1) == 0  # the record before; else a code of it is new in the table
            at_last = np.where(counts[:, None], cells[PREVIOUS + name], -1)
            cells = {**cells, below.table + HAD_LAST: at_last, below.table + HAD: self._had(cells, below)}
        found, record = below.rows(cells, self.view.sizes, [below.code, *below.levels, *names], self.levels, self.owner)
        if below.table + SO_FAR in found:
            so_far = found[below.table + SO_FAR]
            for each in (below.table + HAD_LAST, below.table + HAD):
                found[each] = besides(found[each], so_far)
            if below.table + LAST in found:  # rows have no order: what is known of the row before holds for all so far
                first = found[below.table + LAST] == below.no_predictor
                found[below.table + LAST] = np.where(
                    first[:, None] & (np.arange(below.places) == 0), below.no_predictor, below.grouped(so_far)
                )
        step = max(1, -(-len(record) * self.view.sizes[name] // CHANCES))
        scale = step * self.total / self.number
        by_code, others = asked.row_weights(found[below.code], self.owner[record], self.number)
        return {each: values[::step] for each, values in found.items()}, by_code[::step] * scale, others[::step] * scale

    def _fitted(
        self,
        name: str,
        cells: Mapping[str, Whole],
        weights: Array,
        cliques: Sequence[Clique],
        tables: list[Array],
        deviations: list[float],
        start: Conditional | None,
        offset: Array | None = None,
        *,
        below: bool = False,
        gains: Mapping[str, Array] | None = None,
        again: tuple[tuple[str, ...], Array, float] | None = None,
    ) -> Conditional:
        alone, closed = self.alone[name], self.zeros.closed(name, cells, len(weights))
        zeros: Array | None = None if closed is None else np.where(closed, CLOSED, 0.0)
        before = "" if name in (FIRST, GAP, ALIKE, *self.view.alike) else PREVIOUS + name
        if offset is None and self._few(name, cliques):
            return mixed_model_fit.fit(
                cells,
                weights,
                cliques,
                self.sizes,
                tables,
                deviations,
                alone,
                ordered=self.ordered | self._broad_ordered,
                spread=self.spread,
                iterations=self.iterations,
                start=start,
                variances=self.variances.setdefault(name, {}),
                offset=zeros,
                before=before if len(alone) > 2 else "",  # on made-up hospitals, two codes stayed worse with it
            )
        if offset is not None and zeros is not None:  # if the two together close all codes, rules alone count
            both = np.where(zeros <= CLOSED, CLOSED, offset)
            zeros = np.where((both <= CLOSED).all(1, keepdims=True), zeros, both)
        strong = [
            (each,)
            for below in self.view.below
            for each in (below.code, below.predictor, below.table + ROWS, below.table + LAST)
        ]
        of_code = any(name == each.code for each in self.view.below)
        likelihood = below or name in (FIRST, GAP, *self.view.ending) or (before,) in cliques or not any(deviations)
        return fit(
            cells,
            weights,
            cliques,
            self.sizes,
            tables,
            deviations,
            alone,
            spread=[
                self.spread * (BY_CODE if clique in strong or name in self.levels else OF_ROWS)
                if below
                else self.spread * (self._thinned(name) if clique[0].startswith(BROAD) else 1.0)
                for clique in cliques
            ],
            iterations=self._iterations(name),
            start=start,
            offset=offset if zeros is None else zeros,
            slopes=None if (below and name not in self.levels) or name in (FIRST, GAP) else self.slopes,
            name=name,
            before=before,
            gains=gains,
            # On made-up clinics, least squares told what stays, first records and gaps less well.
            spreads=None if likelihood else self.spreads.setdefault(name, {}),
            along=self._along(name) if of_code or (name in self.view.own and name not in self.ordered) else None,
            again=again,
            of_rows=below,
            by_cause=of_code,
            together=self.broad.get(name),
            related=self._related() if name in self.view.own else (),
        )

    def _related(self) -> set[Clique]:
        """The columns that may go closely with one of a record: those of the record, and those of its unit that have no trend."""
        return {
            (each,) for each in (*self.view.own, *self.view.unit) if each in self.view.own or each not in self.ordered
        }


def _alone(
    answers: Sequence[NoisyTables], name: str, view: View, in_order: tuple[slice, Array], other: int | None = None
) -> Array:
    """(codes,): logarithms of the shares of a column's codes, as all tables that hold it say. Two codes are never drawn: the one of records
    that have no such column, and the one of missing cells in a column below visits that allows none.

    Codes that stand in order have few peaks, wherever noise explains the rest. Most codes of a gap are empty, and so are most of a person's
    date that few have, such as death: the noise above zero would add up over them. So their counts are the non-negative ones with the same
    sum that are nearest to the noisy ones.

    Learned categories are those whose counts stood clear of the noise. `other`, the code of all the rest, must do so too: below `CLEAR`
    deviations it counts as empty. Otherwise noise would fill it even if hardly any record belongs there.
    """
    counts, deviation = _counts(answers, name)
    below = view.of_row(name)
    if other is not None and counts[other] < CLEAR * deviation:
        counts[other] = 0.0
    codes, widths = in_order
    counts[codes] = number_shapes.smoothed(counts[codes], widths, deviation)
    partly = name in view.unit and codes.start < codes.stop < len(counts)  # some people have no value
    if name in (GAP, *view.ending) or partly or (below is not None and name in dict(below.starts)):
        counts = nearest_counts(counts, max(float(counts.sum()), deviation))
    counts = np.clip(counts, 1.0, None)
    logs: Array = np.log(counts / counts.sum())
    logs[{FIRST: [-1], GAP: [0], ALIKE: [-1]}.get(name, [])] = CLOSED
    if below is not None and name.removeprefix(LEVEL) not in below.optional:
        held = name.removeprefix(LEVEL)
        if name == held or view.sizes[held] - dict(below.leveled)[held] == 1:  # nothing stands apart but missing cells
            logs[-1] = CLOSED
    return logs


def _in_places(table: Array, places: Whole, axis: int) -> Array:
    """Sums of a table over the codes of each place, along an axis."""
    sums = np.zeros((places.max() + 1, table.shape[1 - axis]))
    np.add.at(sums, places, table.T if axis else table)
    return sums.T if axis else sums


def _counts(answers: Sequence[NoisyTables], name: str) -> tuple[Array, float]:
    """(codes,): counts of a column's codes, the mean of what all tables that hold it say, weighted by precision; and their deviation."""
    found, precision = np.zeros(()), 0.0
    for asked in answers:
        for clique, table in asked.tables.items():
            if name in clique:
                each = table.sum(tuple(axis for axis, other in enumerate(clique) if other != name))
                clear = len(each) / (table.size * asked.deviation**2)
                found, precision = found + clear * each, precision + clear
    counts: Array = found / precision
    return counts, 1 / math.sqrt(precision)


def _by_itself(alone: Array) -> Conditional:
    return Conditional(alone, (), np.zeros((1, len(alone))))


def _told(tables: Tables, before: str, name: str) -> Array:
    """The table (codes of `before`, codes of `name`), in whichever order it was asked."""
    return tables[before, name] if (before, name) in tables else tables[name, before].T
