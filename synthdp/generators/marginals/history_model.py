"""A model of histories: conditionals of a unit's columns and of a record's, and what is drawn of them (`histories`)."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import Tensors
from synthdp.generators.marginals.conditional_fit import CHANCES, Conditional, Whole, drawn, softmax
from synthdp.generators.marginals.history_times import (
    POINTS,
    PointShares,
    Spans,
    draw_after,
    draw_date,
    draw_first,
    draw_gap,
)
from synthdp.generators.marginals.staying import LEAST_CHANCE
from synthdp.schema import linked_tables
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import (
    AFTER,
    ALIKE,
    EARLIER,
    FIRST,
    GAP,
    LEFT,
    LONGEST,
    MANY,
    MOST_LEFT,
    NUMBER,
    PACE,
    PLACE,
    View,
)
from synthdp.schema.linked_tables import Table
from synthdp.schema.number_levels import LEVEL, LEVELS, Last, held_levels, levels_of
from synthdp.schema.rows_below import HAD, HAD_LAST, LAST, PREVIOUS, ROW, ROWS, SO_FAR, Below, Had, besides
from synthdp.schema.schema import Schema
from synthdp.schema.structural_zeros import Zeros
from synthdp.schema.where import People
from synthdp.schema.where import people as condition

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
MOST_UNITS = 50_000  # drawn while a model is fitted
BATCH = 100_000  # rows drawn at a time
MOST_BY = 3  # columns that tell one together
LEAST_TRIED, MOST_TRIED = 1_000, 1_000  # people drawn at a time, and for each that a condition asks for
MOST_EMPTY = 20  # how often people are drawn anew for whose records there is no time, before they are taken


@dataclass(frozen=True)
class HistoryModel:
    """Conditionals of a unit's columns and of a record's, in the order in which they are drawn. Where records lie: how often one that
    follows another lies in each of the order column's codes, and any on each day of the week, as multiples of an even share. `levels`: see
    `number_levels.level`; older models have none."""

    schema: Schema
    of_unit: dict[str, Conditional]
    of_record: dict[str, Conditional]
    seasons: Array
    days: Array
    levels: Mapping[str, Whole] = field(default_factory=dict)

    @cached_property
    def codec(self) -> Codec:
        """The public codec of the schema."""
        return Codec(self.schema)

    @cached_property
    def view(self) -> View:
        """The columns of a history."""
        return View.of(self.codec)

    @cached_property
    def zeros(self) -> Zeros:
        """The codes that rules exclude."""
        return Zeros.of(self.schema, self.view)

    def _draw(
        self, conditional: Conditional, name: str, cells: Mapping[str, Whole], rows: int, rng: np.random.Generator
    ) -> Whole:
        """A code of a column for each row, given the columns drawn before; none that rules exclude."""
        return conditional.draw(cells, self.view.sizes, rows, rng, functools.partial(self.zeros.closed, name))

    def factors(self, name: str, cells: Mapping[str, Whole], rows: int) -> Array | None:
        """(records, codes): factors on the chances of codes, 0 for those that a record cannot have by rules or by whether the column stays
        as before; None if all are 1. Rules come first: if they exclude its code, a column that should stay changes. One that should change
        may stay, since fewer codes are left to change to: its code keeps as much of its chance as rules took from all codes."""
        stays, zeros = self.view.excluded(name, cells), self.zeros.closed(name, cells, rows)
        if zeros is None:
            return None if stays is None else (~stays).astype(np.float64)
        open_ = (~zeros).astype(np.float64)
        if stays is None:
            return open_
        taken = zeros @ softmax(self.of_record[name].margin[None, :])[0]
        changes = stays.sum(1) == 1  # all codes but one are left
        found = open_ * np.where(stays, np.where(changes, taken, 0.0)[:, None], 1.0)
        return np.where(found.any(1, keepdims=True), found, open_)

    @cached_property
    def in_levels(self) -> dict[str, Whole]:
        """Of each column of levels (codes, values): the level of every value of its number, by the row's code."""
        sizes = self.view.sizes
        return {name: levels_of(starts, sizes[name.removeprefix(LEVEL)]) for name, starts in self.levels.items()}

    def held_levels(self, name: str) -> NDArray[np.bool_]:
        """(codes, levels): whether any numbers of a code lie in a level, as far as the model knows this number."""
        in_levels, conditional = self.in_levels[LEVEL + name], self.of_record[name]
        return held_levels(in_levels, softmax(conditional.margin + conditional.theta[: len(in_levels)]))

    def point_shares(self) -> PointShares | None:
        """How often records lie on each point, if there are not too many points."""
        return PointShares.of(self.view, self.codec, self.seasons, self.days)

    def people(self, units: int, rng: np.random.Generator) -> dict[str, Whole]:
        """The columns of `units` units."""
        view, found = self.view, dict[str, Whole]()
        for name in view.of_unit:
            found[name] = self._draw(self.of_unit[name], name, found, units, rng)
        if view.until and AFTER in self.of_unit:
            found[AFTER] = draw_after(self.of_unit[AFTER], view, self.codec, found, rng)
        return found

    def histories(
        self,
        units: int,
        rng: np.random.Generator,
        people: Mapping[str, Whole] | None = None,
        spans: Spans | None = None,
    ) -> tuple[dict[str, Whole], Whole, Whole]:
        """The columns of every record of `units` units, unit by unit; whose a record is; and its point of the order column's grid. A unit
        for whose records there is no time has none."""
        view, codec = self.view, self.codec
        sizes, order = view.sizes, codec.numeric(view.order)
        people = self.people(units, rng) if people is None else people
        people = {**people, MANY: view.many(people[NUMBER])}
        spans = Spans.of(view, codec, people, rng) if spans is None else spans
        if spans.empty.any():
            people = {**people, NUMBER: np.where(spans.empty, 0, people[NUMBER])}
        most = self.schema.max_records_per_unit * LONGEST
        edges = np.array([*view.numbers, most + 1])
        number = rng.integers(edges[people[NUMBER]], edges[people[NUMBER] + 1])
        alive, place = np.flatnonzero(number > 0), 0
        parts: list[dict[str, Whole]] = []
        owners: list[Whole] = []
        drawn_points: list[Whole] = []
        past = {PREVIOUS + name: np.full(units, sizes[PREVIOUS + name] - 1) for name in (*view.own, view.order)}
        past |= {f"{EARLIER}{name} {code}": np.zeros(units, np.int64) for name, code in view.counted}
        for below in view.below:
            for name in below.columns:
                past[PREVIOUS + name] = np.full((units, below.places), -1, np.int32)
            past[PREVIOUS + below.code][:, 0] = below.none
            past[PREVIOUS + below.predictor] = below.grouped(past[PREVIOUS + below.code])
        last = {name: Last() for name in self.levels}
        had = {each.table: Had.nothing(units) for each in view.below}
        points, on_points = np.zeros(units, np.int64), self.point_shares()
        # The first points of units whose last one is known.
        begun = np.maximum(spans.low, spans.high - self._lengths(np.where(spans.ended, number - 1, 0), rng))
        while len(alive) or not parts:
            cells = {name: values[alive] for name, values in (*people.items(), *past.items())}
            cells[PLACE] = np.full(len(alive), int(view.place(np.array([place]))[0]))
            left = number[alive] - place - 1
            cells[LEFT] = np.minimum(left, MOST_LEFT)
            if place == 0:
                cells[FIRST], points[alive] = draw_first(
                    self.of_record[FIRST], view, codec, on_points, spans, alive, cells, left, rng
                )
                points[alive] = np.where(spans.ended[alive], begun[alive], points[alive])
                cells[FIRST] = np.where(spans.ended[alive], order.coded(points[alive]), cells[FIRST])
                cells[GAP] = cells[PACE] = np.zeros(len(alive), np.int64)
            else:
                cells[FIRST] = np.full(len(alive), sizes[FIRST] - 1)
                cells[PACE] = view.pace(points[alive], left + 1)
                steps = draw_gap(
                    self.of_record[GAP], view, on_points, points[alive], spans.high[alive], cells, left, rng
                )
                steps = np.where(spans.ended[alive] & (left == 0), spans.high[alive] - points[alive], steps)
                points[alive] += steps
                cells[GAP] = view.gap(steps)
            cells[view.order] = np.asarray(order.coded(points[alive]), np.int64)
            cells |= view.calendar(points[alive])
            if view.alike:
                cells[ALIKE] = (
                    self._draw(self.of_record[ALIKE], ALIKE, cells, len(alive), rng)
                    if place
                    else np.full(len(alive), sizes[ALIKE] - 1)
                )
            for name in view.own:
                if name in view.targets[:1]:
                    self._below(cells, points[alive], alive, spans, last, had, rng)
                factors = self.factors(name, cells, len(alive))
                if factors is None:
                    cells[name] = self._draw(self.of_record[name], name, cells, len(alive), rng)
                else:
                    closed = self.zeros.closed(name, cells, len(alive))
                    chances = np.maximum(self.of_record[name].chances(cells, sizes, len(alive), closed), LEAST_CHANCE)
                    cells[name] = drawn(chances * factors, rng)
            if not view.targets:
                self._below(cells, points[alive], alive, spans, last, had, rng)
            parts.append(cells)
            owners.append(alive)
            drawn_points.append(points[alive])
            for name in (
                *view.own,
                view.order,
                *(name for each in view.below for name in (*each.columns, each.predictor)),
            ):
                past[PREVIOUS + name][alive] = cells[name]
            for name, code in view.counted:
                held = past[f"{EARLIER}{name} {code}"]
                held[alive] = np.minimum(held[alive] + (cells[name] == code), sizes[f"{EARLIER}{name} {code}"] - 1)
            place += 1
            alive = alive[number[alive] > place]
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        owner = np.concatenate(owners)
        rank = np.argsort(owner, kind="stable")  # a unit's records stay in their order
        return {name: values[rank] for name, values in whole.items()}, owner[rank], np.concatenate(drawn_points)[rank]

    def _lengths(self, gaps: Whole, rng: np.random.Generator) -> Whole:
        """(units,): the steps that so many `gaps` of each unit take together, each drawn from the shares of all gaps."""
        starts, last = np.array(self.view.gaps), self.codec.numeric(self.view.order).span
        ends = np.array([*self.view.gaps[1:], max(last[1] - last[0], self.view.gaps[-1]) + 1])
        shares = softmax(self.of_record[GAP].margin[None, 1:])[0]
        codes = rng.choice(len(starts), int(np.maximum(gaps, 0).sum()), p=shares / shares.sum())
        found, owner = np.zeros(len(gaps), np.int64), np.repeat(np.arange(len(gaps)), np.maximum(gaps, 0))
        np.add.at(found, owner, rng.integers(starts[codes], ends[codes]))
        return found

    def _below(
        self,
        cells: dict[str, Whole],
        points: Whole,
        units: Whole,
        spans: Spans,
        last: Mapping[str, Last],
        had: Mapping[str, Had],
        rng: np.random.Generator,
    ) -> None:
        """Draw the rows below records into `cells`, (records, places) each, and the points of their dates. A row is left out where there is
        no time for its dates."""
        view, codec, sizes = self.view, self.codec, self.view.sizes
        for below in view.below:
            shape = (len(points), below.places)
            for name in below.columns:
                cells[name] = np.full(shape, -1, np.int32)
            for name, _ in below.starts:
                cells[POINTS + name] = np.zeros(shape, np.int64)
            at_last = cells[PREVIOUS + below.code].copy()
            long_ago = besides(had[below.table].held[units], at_last)
            for place in range(below.places):
                chosen = np.flatnonzero(cells[below.table + ROWS] > place)
                row = {name: values[chosen] for name, values in cells.items()}
                row[below.table + ROW] = np.full(len(chosen), place)
                row[below.table + SO_FAR] = so_far = row[below.code][:, :place]
                # Rows have no order, so all rows so far count as the row before; in older models, only that row itself.
                first = 0 if self.of_record[below.code].by_cause else max(0, place - 1)
                row[below.table + LAST] = (
                    below.grouped(so_far[:, first:]) if place else np.full(len(chosen), below.no_predictor)
                )
                row[below.table + HAD_LAST], row[below.table + HAD] = at_last[chosen], long_ago[chosen]
                row[below.code] = self._draw(self.of_record[below.code], below.code, row, len(chosen), rng)
                cells[below.code][chosen, place] = row[below.code]
                for known in (at_last, long_ago):
                    known[chosen] = besides(known[chosen], row[below.code][:, None])
                for name in below.further:
                    before = below.before_at(row, sizes, PREVIOUS + name, np.arange(len(chosen)), row[below.code])
                    given = row | {PREVIOUS + name: before}
                    if name in dict(below.starts):
                        conditional, at, unit = self.of_record[name], points[chosen], units[chosen]
                        low, high = spans.of_date(view, codec, below, name, given, at, unit)
                        row[name], row[POINTS + name] = draw_date(
                            conditional, view, below, name, given, at, low, high, rng
                        )
                        cells[POINTS + name][chosen, place] = row[POINTS + name]
                    elif LEVEL + name in self.levels:
                        before = last[LEVEL + name].find(units[chosen] * below.none + row[below.code])
                        given[PREVIOUS + LEVEL + name] = np.where(before < 0, LEVELS + 1, before)
                        row[LEVEL + name], row[name] = self._number(below, name, given, len(chosen), rng)
                    else:
                        row[name] = self._draw(self.of_record[name], name, given, len(chosen), rng)
                    cells[name][chosen, place] = row[name]
            self._packed(cells, below)
            cells[below.predictor] = below.grouped(cells[below.code])
            had[below.table].keep(units, np.where(cells[below.code] < below.none, cells[below.code], -1))
            if any(name in self.levels for name in below.levels):
                found, record = below.rows(cells, sizes, [below.code, *below.levels], self.levels)
                keys, first = np.unique(units[record] * below.none + found[below.code], return_index=True)
                for name in below.levels:
                    last[name].keep(keys, found[name][first])

    def _number(
        self, below: Below, name: str, row: dict[str, Whole], rows: int, rng: np.random.Generator
    ) -> tuple[Whole, Whole]:
        """The levels of numbers, and the numbers' codes within them."""
        level, sizes = LEVEL + name, self.view.sizes
        levels, numbers = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        in_levels, there, step = self.in_levels[level], self.held_levels(name), max(1, CHANCES // sizes[name])
        for start in range(0, rows, step):
            some = slice(start, start + step)
            part = {each: values[some] for each, values in row.items()}
            codes = part[below.code]
            closed, held = self.zeros.closed(name, part, len(codes)), there[codes]
            if closed is not None:  # a level is drawn only if rules leave one of its numbers
                left = [((in_levels[codes] == each) & ~closed).any(1) for each in range(held.shape[1])]
                held = held & np.stack(left, 1)
                held = np.where(held.any(1, keepdims=True), held, np.stack(left, 1))
            chances = np.maximum(self.of_record[level].probabilities(part, sizes), LEAST_CHANCE)
            levels[some] = part[level] = drawn(np.where(held, chances, 0), rng)
            chances = np.maximum(self.of_record[name].probabilities(part, sizes), LEAST_CHANCE)
            chances = np.where(in_levels[codes] == part[level][:, None], chances, 0)
            numbers[some] = drawn(chances if closed is None else np.where(closed, 0, chances), rng)
        return levels, numbers

    def _packed(self, cells: dict[str, Whole], below: Below) -> None:
        """Leave out rows without a time for a date, move the others together, and count them."""
        held = cells[below.code] >= 0
        for name, _ in below.starts:
            held &= cells[name] >= 0
        order = np.argsort(~held, axis=1, kind="stable")
        for name in (*below.columns, *(POINTS + name for name, _ in below.starts)):
            moved = np.where(held, cells[name], -1)
            cells[name] = np.take_along_axis(moved, order, 1)
        cells[below.table + ROWS] = held.sum(1)
        cells[below.code][:, 0] = np.where(held.any(1), cells[below.code][:, 0], below.none)

    def _placed(self, cells: Mapping[str, Whole], names: Iterable[str]) -> Whole:
        """Codes as the codec has them, (rows, columns): rows below records in their places."""
        view, codec, found = self.view, self.codec, dict[str, Whole]()
        for below in view.below:
            there = (cells[below.code] >= 0) & (cells[below.code] < below.none)
            for name in below.columns:
                for at in range(below.places):
                    place, codes = f"{name} {at + 1}", cells[name][:, at]
                    last = codec.sizes[codec.names.index(place)] - 1
                    held = there[:, at]
                    if name in dict(below.starts):
                        held = held & (codes < view.sizes[name] - 1)
                        codes = codec.numeric(place).coded(cells[POINTS + name][:, at])
                    found[place] = np.where(held, codes, last)
        return np.stack([found[name] if name in found else cells[name] for name in names], 1)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """`rows` records, whole histories one after another; that of the last unit ends where the rows do. Units are named from
        `first_row` on. There are fewer records if, again and again, no unit has any."""
        import pandas as pd

        rng = np.random.default_rng(seed)
        parts: list[pd.DataFrame] = []
        left, units, empty = rows, 0, 0
        while (left > 0 and empty < MOST_EMPTY) or not parts:
            frame, count = self._frame(min(left, BATCH), rng, first_row + units)
            parts.append(frame)
            left, units, empty = left - len(frame), units + count, 0 if len(frame) else empty + 1
        return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)

    def _frame(self, most: int, rng: np.random.Generator, first_unit: int) -> "tuple[pd.DataFrame, int]":
        """Some records, at most so many, and the number of units that they are of."""
        view, codec = self.view, self.codec
        cells, owner, points = self.histories(most // 2 + 1, rng)  # some have several: what is lacking is drawn next
        cells, owner = {name: values[:most] for name, values in cells.items()}, owner[:most]
        codes = self._placed(cells, codec.names) if most else np.zeros((0, len(codec.names)), np.int32)
        frame = codec.decode(codes, rng)
        starts = np.searchsorted(owner, owner, side="left")
        for name in view.unit:  # one value for all records of a unit
            frame[name] = frame[name].take(starts).array
        none = np.zeros(len(owner), np.bool_)
        frame[view.order] = codec.numeric(view.order).cells(points[:most], none)
        if self.schema.unit is not None:
            frame[self.schema.unit] = [f"S{first_unit + unit + 1:09d}" for unit in owner]
        return frame.astype({self.schema.unit: "str"}), int(owner[-1]) + 1 if len(owner) else 0

    def sample_tables(
        self, people: int, *, where: Mapping[str, Any] | None = None, seed: int | None = None, first_row: int = 0
    ) -> "dict[str, pd.DataFrame]":
        """Linked tables of so many people, with fresh keys that link their rows; people are named from `first_row` on. Under a condition
        people are drawn until so many satisfy it, before their histories are."""
        import pandas as pd

        rng = np.random.default_rng(seed)
        wanted = None if where is None else condition(where, self.codec, self.view.unit)
        starts = range(0, max(people, 1), MOST_UNITS)
        parts = [self._tables(min(MOST_UNITS, people - start), rng, first_row + start, wanted) for start in starts]
        return {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}

    def _people(self, people: dict[str, Whole], rng: np.random.Generator) -> "tuple[Spans, pd.DataFrame]":
        """When records of these people may lie, and a frame that has their columns among others."""
        codec = self.codec
        spans = Spans.of(self.view, codec, people, rng)
        codes = np.zeros((len(people[NUMBER]), len(codec.names)), np.int32)
        for name in self.view.unit:
            codes[:, codec.names.index(name)] = people[name]
        whole = codec.decode(codes, rng)
        for name, points in spans.points.items():  # by which the visits are drawn
            if name == AFTER:
                continue
            coder = codec.numeric(name)
            whole[name] = coder.cells(points, coder.known(people[name].astype(np.int32))[1])
        return spans, whole

    def _chosen(
        self, units: int, rng: np.random.Generator, wanted: People | None
    ) -> "tuple[dict[str, Whole], Spans, pd.DataFrame]":
        """So many of the people whom the model draws: those for whose records there is time, such as between birth and death, as long as
        these are not hard to find, and those that are wanted."""
        import pandas as pd

        found: list[dict[str, Whole]] = []
        frames: list[pd.DataFrame] = []
        count = tried = turn = 0
        while count < units:
            if wanted is not None and tried >= MOST_TRIED * max(units, LEAST_TRIED):
                raise BadInput(
                    f"where: only {count} of {tried} people that the model drew satisfy the condition, but {units} were asked for; widen it"
                )
            people = self.people(units - count if wanted is None else max(units, LEAST_TRIED), rng)
            turn, tried = turn + 1, tried + len(people[NUMBER])
            if wanted is not None:
                there = np.logical_and.reduce([codes[people[name]] for name, codes in wanted.codes.items()])
                people = {name: codes[there] for name, codes in people.items()}
            spans, whole = self._people(people, rng)
            people |= {POINTS + name: points for name, points in spans.points.items()}
            holds = np.full(len(whole), True) if wanted is None else wanted.holds(whole)
            timely = ~spans.empty | (turn > MOST_EMPTY)
            chosen = np.flatnonzero(holds & timely)[: units - count]
            count += len(chosen)
            found.append({name: values[chosen] for name, values in people.items()})
            frames.append(whole.iloc[chosen])
        people = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        spans = Spans.of(self.view, self.codec, people, rng)
        return {name: people[name] for name in self.view.of_unit}, spans, pd.concat(frames, ignore_index=True)

    def _tables(
        self, units: int, rng: np.random.Generator, first: int, wanted: People | None
    ) -> "dict[str, pd.DataFrame]":
        import pandas as pd

        schema, view, codec = self.schema, self.view, self.codec
        asked = max(units, 1)
        people, spans, whole = self._chosen(asked, rng, wanted)
        cells, owner, points = self.histories(asked, rng, people, spans)
        nothing = np.zeros(len(owner), np.int64)  # of rows below visits, which are made apart
        rows = codec.decode(np.stack([cells.get(name, nothing) for name in codec.names], 1), rng)
        rows[view.order] = codec.numeric(view.order).cells(points, np.zeros(len(owner), np.bool_))
        of_person = np.array([f"S{first + unit + 1:09d}" for unit in range(len(whole))], object)
        place = np.arange(len(owner)) - np.searchsorted(owner, owner, side="left")
        of_visit = np.array([f"{of_person[unit]}-{at + 1:02d}" for unit, at in zip(owner, place, strict=True)], object)
        root, visit, *items = schema.tables
        keys: dict[str | None, Any] = {root.key: of_person}
        found = {root.name: _table(schema, root, keys, whole).iloc[:units]}
        kept = owner < units
        keys = {visit.key: of_visit[kept], root.key: of_person[owner[kept]]}
        found[visit.name] = _table(schema, visit, keys, rows[kept])
        for table in items:
            below = {name: values[kept] for name, values in cells.items()}
            found[table.name] = _below(self, table, keys, below, rng)
        return {name: pd.DataFrame(frame).reset_index(drop=True) for name, frame in found.items()}

    def unrelated(self) -> list[tuple[str, str, bool]]:
        """Pairs of columns of a visit, or of codes below visits, that no table relates; true if the second column's codes are those of the
        previous visit, false if both are of one visit."""
        found = [
            (name, other, False)
            for place, name in enumerate(self.view.own)
            for other in self.view.own[:place]
            if (other,) not in self.of_record[name].cliques
        ]
        for place, below in enumerate(self.view.below):
            told = {name for clique in self.of_record[below.code].cliques for name in clique}
            for other in self.view.below[: place + 1]:
                pairs = [(PREVIOUS, True), *([("", False)] if other != below else [])]
                found += [
                    (below.code, other.code, earlier) for start, earlier in pairs if start + other.predictor not in told
                ]
            if below.table + LAST not in told and below.places > 1:
                found.append((below.code, below.code, False))
        return found

    def tensors(self) -> Tensors:
        """Parameters, and which columns tell which: by their places among all, -1 where a clique has fewer."""
        names = list(self.view.sizes)
        arrays: Tensors = {"seasons": self.seasons, "days": self.days}
        arrays |= {f"levels.{place}": starts.astype(np.float64) for place, starts in enumerate(self.levels.values())}
        for kind, conditionals in (("unit", self.of_unit), ("record", self.of_record)):
            for place, conditional in enumerate(conditionals.values()):
                arrays |= {f"{kind}.{place}": conditional.theta, f"{kind}.{place}.alone": conditional.margin}
                for column, gains in conditional.gains.items():
                    ends = {HAD_LAST: "last", HAD: "again", SO_FAR: "repeat"}
                    what = next((kind for end, kind in ends.items() if column.endswith(end)), "stay")
                    arrays[f"{kind}.{place}.{what}"] = gains
                if conditional.by_cause:
                    arrays[f"{kind}.{place}.by_cause"] = np.ones(1)
                told = [[names.index(name) for name in clique] for clique in conditional.cliques]
                arrays[f"{kind}.{place}.by"] = np.array(
                    [[*each, -1, -1][:MOST_BY] for each in told], np.float64
                ).reshape(-1, MOST_BY)
        return arrays


def _table(schema: Schema, table: Table, keys: Mapping[str | None, Any], rows: "pd.DataFrame") -> "pd.DataFrame":
    """A table of people or visits: its keys, and its columns of the joined rows."""
    import pandas as pd

    made = {key: pd.array(keys[key], dtype="str") for key in linked_tables.keys_of(schema, table)}
    made |= {name: rows[column.name].array for name, column in linked_tables.modelled(schema, table)}
    return pd.DataFrame({name: made[name] for name in linked_tables.placed(table, made)})


def _below(
    model: HistoryModel,
    table: Table,
    of_visits: Mapping[str | None, Any],
    cells: Mapping[str, Whole],
    rng: np.random.Generator,
) -> "pd.DataFrame":
    """A table below visits: its rows, visit by visit."""
    import pandas as pd

    schema, view = model.schema, model.view
    below = next(each for each in view.below if each.table == table.name)
    dates = [name for name, _ in below.starts]
    found, visit = below.rows(cells, view.sizes, below.columns)
    there = (cells[below.code] >= 0) & (cells[below.code] < below.none)
    codec = Codec(linked_tables.of_table(schema, table))
    short = {name: name.partition(".")[2] for name in below.columns}
    codes = np.zeros((len(visit), len(codec.names)), np.int32)
    for name in below.columns:
        if name not in dates:
            codes[:, codec.names.index(short[name])] = found[name]
    rows = codec.decode(codes, rng)
    for name in dates:
        gone = found[name] >= view.sizes[name] - 1
        rows[short[name]] = codec.numeric(short[name]).cells(cells[POINTS + name][there], gone)
    made: dict[str, Any] = {}
    for key in linked_tables.keys_of(schema, table):
        if key == table.key:
            rank = np.arange(len(visit)) - np.searchsorted(visit, visit, side="left")
            of_visit = of_visits[schema.tables[1].key][visit]
            made[key] = pd.array([f"{each}-{at + 1:02d}" for each, at in zip(of_visit, rank, strict=True)], dtype="str")
        else:
            made[key] = pd.array(of_visits[key][visit], dtype="str")
    made |= {name: rows[name].array for name in short.values()}
    return pd.DataFrame({name: made[name] for name in linked_tables.placed(table, made)})
