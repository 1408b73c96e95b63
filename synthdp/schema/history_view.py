"""What is counted of a unit's records in their order: columns that say what came before, and grids for numbers and gaps.

All of it follows from the schema, so it is public; the cells of one unit follow from that unit's records alone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import linked_tables
from synthdp.schema.columns import MICROSECONDS, Boolean, Datetime
from synthdp.schema.number_levels import LEVEL, LEVELS
from synthdp.schema.rows_below import AGAIN, EXACT_GAPS, HERE, LAST, MOST_GAPS, PREVIOUS, ROWS, Below, Cells, grid
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec

Whole = NDArray[np.int64]

NUMBER, PLACE, LEFT, FIRST, GAP = "number of records", "place", "records left", "first", "gap"
PACE, WEEKDAY, ALIKE, MANY, AFTER = "pace", "weekday", "as before", "many or few", "after"
IN_WORDS = {GAP: "time since the last", PACE: "time left for each"}  # what people read where tables are told
EARLIER = "earlier "
BROAD = "broad "  # a column whose codes are taken together
LONGEST = 2  # times max_records_per_unit: the most records that a drawn unit has
MOST_RECORDS = 10_000  # max_records_per_unit
MOST_LEFT = 2  # from which on records to come are no longer counted
MOST_EARLIER = 3  # from which on earlier records are no longer counted
LEAST_ALIKE, MOST_ALIKE = 3, 2  # codes of columns that are told apart by whether they are as before; so many columns
MOST_TOGETHER = 1000  # cells of two columns that tell a third one together
MOST_OF_UNIT, PAIRS_OF_UNIT = 64, 2  # cells of two columns of a unit that tell numbers of rows together; so many pairs
TOLD = 4  # columns whose earlier values are counted where the schema has no target
UNIT_WEIGHT = 1 << 20
MOST_PAIRED = 32  # records of a unit that are compared with one another
DAY, WEEK, THURSDAY = 86_400_000_000, 7, 3  # microseconds; the first day of 1970, counted from Monday


@dataclass(frozen=True)
class View:
    """The columns of a history and their numbers of codes, by the resolved schema.

    `unit` are the coded columns of the unit and `own` those of each record but for `order`, its targets last. Beside them stand:
    `number of records`; `place`, a record's place in its history; `records left`, how many follow it, 2 for more; `first`, the order
    column's code, or one more for later records;
    `gap` to the previous record, 0 for the first; `pace`, the gap by which the records that are left would reach the order column's upper
    bound; `weekday`; `previous c`, one more where there is none; `earlier c`, how many
    earlier records have a value of a target, from 0 to 3 or more; and `as before`, which of the columns `alike` are as they were in the
    record before (bits, one more where there is none); and `many or few`, the class of the unit's number of records. Where no record is
    after a date of the unit, such as death, `after` is the time from its last record to that date (of several, the one in the first rule),
    0 where either is missing.
    Of each table in `below`, `own` has the number of rows, `t rows`; its columns have as many codes of a record as it has rows, in an array
    (records, places) with -1 beyond them; a record without rows has one code, that of none. A row has its place, `t row`, the code of
    the row before it, `t last`, and `t again`: whether the unit's last record has the row's code, only earlier ones do, or a row before
    it in its own record. `numbers` and `gaps` are the least values of their codes; numbers begin at 1, and of linked tables, where a unit
    may have no record, at 0.
    """

    order: str
    unit: tuple[str, ...]
    own: tuple[str, ...]
    target: str | None
    told: tuple[str, ...]  # columns whose earlier values are counted
    numbers: tuple[int, ...]
    gaps: tuple[int, ...]
    last: int  # the order column's upper bound, a point of its grid
    period: int  # microseconds per step of the order column, 0 where it is no date
    codes: tuple[tuple[str, int], ...]  # of the coded columns
    since: tuple[str, ...] = ()  # dates of the unit that no record is before, by rules that are kept
    until: tuple[str, ...] = ()  # and that none is after
    below: tuple[Below, ...] = ()
    aims: int = 0  # how many of `own` are targets
    ends: tuple[str, ...] = ()  # further dates of the unit that rows below visits are not before or not after
    # Microseconds per step of the first date in `until`.
    ending_period: int = field(default=0, metadata={"later": True})

    @classmethod
    def of(cls, codec: "Codec") -> "View":
        """Raises `BadInput` where the schema does not say in which order records stand, or ties their columns."""
        schema = codec.schema
        check(schema)
        codes = dict(zip(codec.names, codec.sizes, strict=True))
        order = str(schema.order)
        below = tuple(Below.of(codec, table) for table in schema.tables[2:])
        placed = {f"{name} {at + 1}" for each in below for name in each.columns for at in range(each.places)}
        own = [name for name in codes if name not in (*schema.per_unit, *placed) and name != order]
        own += [each.table + ROWS for each in below]
        targets = [name for name in schema.targets if name in own]
        alike = _alike([name for name in own if name not in targets], codes)
        own = [*alike, *(name for name in own if name not in alike)]
        flags = [name for name in own if name in codes and isinstance(schema.column(name), Boolean)]
        told = [name for name in targets if codes[name] <= TOLD] or ([] if targets else flags[:TOLD])
        column, most = schema.column(order), schema.max_records_per_unit
        low, high = codec.numeric(order).span
        kept = [schema.rules[place] for place in schema.settled().honoured or ()]
        limits = [linked_tables.limit(schema, rule) for rule in kept] if schema.tables else []
        ends = dict.fromkeys(other for each in below for _, _, other in each.orders if other in schema.per_unit)
        until = [limit[0] for limit in limits if limit is not None and not limit[1]]
        ending = schema.column(until[0]) if until else None
        return cls(
            order=order,
            unit=tuple(name for name in codes if name in schema.per_unit),
            own=(*(name for name in own if name not in targets), *reversed(targets)),
            target=targets[0] if targets else None,
            told=tuple(told),
            numbers=tuple(range(0 if schema.tables else 1, most + 2)),
            gaps=grid(0, EXACT_GAPS, max(1, high - low), MOST_GAPS),
            last=high,
            period=MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 0,
            codes=tuple(codes.items()),
            since=tuple(limit[0] for limit in limits if limit is not None and limit[1]),
            until=tuple(until),
            below=below,
            aims=len(targets),
            ends=tuple(ends),
            ending_period=MICROSECONDS[ending.resolution] if isinstance(ending, Datetime) else 0,
        )

    @cached_property  # every draw of every column asks for them
    def sizes(self) -> dict[str, int]:
        """Codes of every column."""
        codes = dict(self.codes)
        codes |= {each.table + ROWS: each.places + 1 for each in self.below}
        sizes = {name: codes[name] for name in (*self.unit, *self.own)}
        sizes |= {
            NUMBER: len(self.numbers),
            PLACE: len(self.numbers) - self.numbers.index(1),
            LEFT: MOST_LEFT + 1,
            GAP: len(self.gaps) + 1,
            self.order: codes[self.order],
        }
        sizes |= {PACE: len(self.gaps) + 1, FIRST: codes[self.order] + 1, PREVIOUS + self.order: codes[self.order] + 1}
        sizes |= {WEEKDAY: WEEK} if self.period else {}
        sizes |= {PREVIOUS + name: codes[name] + 1 for name in self.own}
        for each in self.below:
            sizes |= each.sizes(codes)
        sizes |= {f"{EARLIER}{name} {code}": MOST_EARLIER + 1 for name, code in self.counted}
        sizes |= {ALIKE: 2 ** len(self.alike) + 1} if self.alike else {}
        sizes |= {MANY: len(self.classes)}  # new columns stand last: models know columns by their places
        for name in (name for each in self.below for name in each.levels):
            sizes |= {name: LEVELS + 1, PREVIOUS + name: LEVELS + 2}
        sizes |= {
            start + each.predictor: each.no_predictor + 1
            for each in self.below
            for start in ("", PREVIOUS)
            if each.groups
        }
        sizes |= {each.table + AGAIN: HERE + 1 for each in self.below}
        return sizes | {name: len(self.gaps) + 1 for name in self.ending}

    @property
    def classes(self) -> tuple[int, ...]:
        """The least numbers of records of the classes of units: 1, 2, 3, 5, 9 and so on up to half of those that count, then more than
        count."""
        most = self.numbers[-1] - 1
        found = [2**power + 1 for power in range(1, most.bit_length()) if 2**power + 1 <= most / 2]
        return tuple(dict.fromkeys((1, *([2] if most > 1 else []), *found, most + 1)))

    def many(self, numbers: Whole) -> Whole:
        """The classes of units, by the codes of their numbers of records."""
        found: Whole = np.searchsorted(self.classes, self.numbers, side="right") - 1
        return np.maximum(found, 0)[numbers]

    @property
    def alike(self) -> list[str]:
        """The columns of a record, targets apart, that have the most codes."""
        return _alike(self.own[: len(self.own) - self.aims], dict(self.codes))

    def as_before(self, cells: Cells) -> dict[str, Whole]:
        """The codes of `as before`."""
        if not self.alike:
            return {}
        found = sum((cells[name] == cells[PREVIOUS + name]) << place for place, name in enumerate(self.alike))
        return {ALIKE: np.where(cells[PLACE] > 0, found, self.sizes[ALIKE] - 1)}

    def excluded(self, name: str, cells: Cells) -> NDArray[np.bool_] | None:
        """(records, codes): what a column cannot be, as `as before` says that it stays or changes; None where that says nothing."""
        if name not in self.alike:
            return None
        same = (cells[ALIKE] >> self.alike.index(name)) & 1 == 1
        before = cells[PREVIOUS + name][:, None] == np.arange(self.sizes[name])
        found: NDArray[np.bool_] = (before != same[:, None]) & (cells[PLACE] > 0)[:, None]
        return found

    @property
    def counted(self) -> list[tuple[str, int]]:
        """Columns and codes whose earlier records are counted."""
        codes = dict(self.codes)
        return [(name, code) for name in self.told for code in range(1, codes[name])]

    @property
    def targets(self) -> tuple[str, ...]:
        """Those of a record's own columns that are drawn last."""
        return self.own[len(self.own) - self.aims :]

    @property
    def of_unit(self) -> tuple[str, ...]:
        """What is drawn of a unit, in order."""
        return (*self.unit, NUMBER)

    @property
    def ending(self) -> tuple[str, ...]:
        """`after`, where a date of the unit ends its records. It is drawn of a unit last."""
        return (AFTER,) if self.until else ()

    @property
    def before_end(self) -> tuple[str, ...]:
        """What predicts `after`: that date, and the number of records."""
        return (*self.until[:1], NUMBER)

    @property
    def drawn(self) -> tuple[str, ...]:
        """What is drawn of a record, in order: `first` of the first one, `gap` and `as before` of all others; rows below it before its
        targets."""
        first = self.own[: len(self.own) - self.aims]
        return (
            FIRST,
            GAP,
            *([ALIKE] if self.alike else []),
            *first,
            *(name for each in self.below for name in each.drawn),
            *self.targets,
        )

    @property
    def placed_dates(self) -> list[str]:
        """The dates below records, by the names of their places."""
        return [f"{name} {at + 1}" for each in self.below for name, _ in each.starts for at in range(each.places)]

    def of_row(self, name: str) -> Below | None:
        """The table below visits that has a column or a level; None for a column of a record."""
        return next((each for each in self.below if name in each.drawn), None)

    def before(self, name: str, *, leveled: bool = True) -> tuple[str, ...]:
        """What predicts a drawn column: the unit, the record's place, how many follow it, what this record has so far, and of the records
        before it the targets and the column itself; all columns predict a target. Without `leveled`: as in models without levels."""
        if name == FIRST:
            return self.of_unit
        below = self.of_row(name)
        if below is not None:
            return self._before_row(below if leveled else replace(below, leveled=()), name)
        past = [PREVIOUS + each for each in self.own if name in (each, self.target) or each in self.told]
        past += [f"{EARLIER}{each} {code}" for each, code in self.counted]
        past = [*self.of_unit, PLACE, LEFT, *past]
        if name == GAP:
            return tuple(dict.fromkeys((*past, PREVIOUS + self.order, PACE, *(PREVIOUS + each for each in self.alike))))
        if name == ALIKE:
            held = [each for each in past if each not in self.unit]
            return tuple(dict.fromkeys((*held, GAP, *(PREVIOUS + each for each in self.alike))))
        here = [GAP, *([ALIKE] if self.alike else []), self.order, *([WEEKDAY] if self.period else [])]
        here += [PREVIOUS + each.predictor for each in self.below if name == each.table + ROWS and each.related]
        if name == self.target:
            here += [code for each in self.below for code in (each.code, PREVIOUS + each.code)]
        return (*past, *here, *self.own[: self.own.index(name)])

    def cliques(self, name: str) -> list[tuple[str, ...]]:
        """What predicts a drawn column, in tables of one or two. Whether the columns `alike` stay as they were is also predicted by the gap
        together with what they were; numbers of rows, by two columns of the unit together, such as sex and age; and a number's level, by
        each column for each code, where these are not too many."""
        sizes, before = self.sizes, self.before(name)
        found: list[tuple[str, ...]] = [(each,) for each in before]
        if name == ALIKE:
            pairs = [(GAP, PREVIOUS + each) for each in self.alike]
            return [*found, *(pair for pair in pairs if sizes[GAP] * sizes[pair[1]] <= MOST_TOGETHER)]
        if any(name == each.table + ROWS for each in self.below):
            return found + self._pairs_of_unit()
        below = self.of_row(name)
        if below is None or name not in below.levels:
            return found
        code, own = below.code, PREVIOUS + name
        few = [each for each in before if each != code and sizes[code] * sizes[each] <= MOST_TOGETHER]
        return [*((each,) for each in before if each not in few or each == own), *((code, each) for each in few)]

    def _pairs_of_unit(self) -> list[tuple[str, ...]]:
        """The pairs of the unit's columns with the most cells, if these are not too many."""
        sizes = dict(self.codes)
        found: list[tuple[str, ...]] = [*combinations(self.unit, 2)]
        few = [pair for pair in found if math.prod(sizes[each] for each in pair) <= MOST_OF_UNIT]
        return sorted(few, key=lambda pair: -math.prod(sizes[each] for each in pair))[:PAIRS_OF_UNIT]

    def _before_row(self, below: Below, name: str) -> tuple[str, ...]:
        """What predicts a column of a row: a code, by the unit, the record, the rows before it, the previous record's codes, those of both
        records in tables before it, and how many rows tables after it have; another column, by the row's code, the unit, the record, what
        it was last at that code, and columns before it. All this predicts a number's level; level, code and categories before it, the
        number."""
        record = [each for each in self.own[: len(self.own) - self.aims] if not each.endswith(ROWS)]
        if name != below.code:
            own = below.columns[: below.columns.index(name.removeprefix(LEVEL))]
            plain = [each for each in own if LEVEL + each not in below.levels]
            levels = [LEVEL + each for each in own if LEVEL + each in below.levels]
            if LEVEL + name in below.levels:
                return tuple(each for each in plain if each not in dict(below.starts))
            return (*(plain if name in below.levels else own), *levels, PREVIOUS + name, *self.unit, *record)
        at = [each.table for each in self.below].index(below.table)
        later = self.below[at + 1 :]
        place = (below.table + ROWS, *(each.table + ROWS for each in later))
        if not below.related:
            return (*self.of_unit, self.order, *record, *place)
        others = [start + each.predictor for each in self.below[:at] if each.related for start in ("", PREVIOUS)]
        return (*self.of_unit, self.order, *record, *place, below.table + LAST, PREVIOUS + below.predictor, *others)

    def apart(self, cliques: Iterable[Sequence[str]]) -> dict[tuple[str, ...], int]:
        """By which columns two records lie in different cells of tables, as far as a unit's weight may tell, and of how many tables; by
        none where a column has several codes of a record. Targets and columns made from them are left out:
        otherwise units whose outcomes differ would weigh more than others, and a model that knows too little of what a unit's records have
        in common would not make up for it. Taking several cells for one only makes a norm larger."""
        several = {
            start + name for each in self.below for name in (*each.columns, each.predictor) for start in ("", PREVIOUS)
        }
        told = {start + name for name in self.targets for start in ("", PREVIOUS, BROAD)}
        told |= {f"{EARLIER}{name} {code}" for name, code in self.counted if name in self.targets}
        found: Counter[tuple[str, ...]] = Counter()
        for clique in cliques:
            found[() if several & set(clique) else tuple(sorted(set(clique) - told))] += 1
        return dict(found)

    def number(self, count: Whole) -> Whole:
        """Codes of numbers of records."""
        found: Whole = np.searchsorted(self.numbers, count, side="right") - 1
        return found

    def place(self, place: Whole) -> Whole:
        """Codes of places, counted from 0."""
        return self.number(place + 1) - self.numbers.index(1)

    def cells(
        self, coded: NDArray[Any], points: Whole, owner: Whole, dates: Mapping[str, tuple[Whole, NDArray[np.bool_]]]
    ) -> dict[str, NDArray[Any]]:
        """The columns of every record, (records,) each: of records in order, unit by unit (`owner` ascends), with their codes and their
        order column's points. `dates` are the points of dates below records by their places' names, and of the date that ends records,
        and where they are missing."""
        names = [name for name, _ in self.codes]
        found: dict[str, NDArray[Any]] = {
            name: coded[:, names.index(name)].astype(np.int32)
            for name in (*self.unit, *self.own, self.order)
            if name in names
        }
        found |= self.bags(coded, points, dates)
        starts = np.searchsorted(owner, owner, side="left")
        place, number = np.arange(len(owner)) - starts, np.bincount(owner, minlength=1)[owner]
        sizes, later = self.sizes, place > 0
        for name in self.unit:  # the unit's first record tells
            found[name] = found[name][starts]
        before = np.maximum(np.arange(len(owner)) - 1, 0)
        for name in (*self.own, self.order):
            found[PREVIOUS + name] = np.where(later, found[name][before], sizes[PREVIOUS + name] - 1)
        for each in self.below:
            found |= each.before(found, before, later)
        for name, code in self.counted:
            held = found[name] == code
            so_far = np.cumsum(held) - held
            found[f"{EARLIER}{name} {code}"] = np.minimum(so_far - so_far[starts], MOST_EARLIER)
        found |= {NUMBER: self.number(number), PLACE: self.place(place)}
        found[MANY] = self.many(found[NUMBER])
        found[LEFT] = np.minimum(number - place - 1, MOST_LEFT)
        found[FIRST] = np.where(later, sizes[FIRST] - 1, found[self.order])
        found[GAP] = np.where(later, self.gap(points - points[before]), 0)
        found[PACE] = np.where(later, self.pace(points[before], number - place), 0)
        found |= self.calendar(points) | self.as_before(found)
        if self.until:
            ends, gone = dates[self.until[0]]
            found[AFTER] = np.where(gone, 0, self.gap(self.steps(ends) - points[starts + number - 1]))[starts]
        return {name: values.astype(np.int32, copy=False) for name, values in found.items()}

    def bags(
        self, coded: NDArray[Any], points: Whole, dates: Mapping[str, tuple[Whole, NDArray[np.bool_]]]
    ) -> dict[str, Whole]:
        """The columns of the rows below records, and how many there are: see `cells`."""
        found: dict[str, Whole] = {}
        for each in self.below:
            found |= each.bags(coded, [name for name, _ in self.codes], points * self.period, dates)
        return found

    def told_apart(self, coded: NDArray[Any], bags: Mapping[str, Whole]) -> list[str]:
        """A text for each record, the same for records of which the same is counted: the codes of the unit and the record, then those of
        the rows below it."""
        names, plain = [name for name, _ in self.codes], (*self.unit, *self.own, self.order)
        columns = [names.index(name) for name in plain if name in names]
        found = [",".join(map(str, row)) for row in coded[:, columns].tolist()]
        for each in self.below:
            found = [f"{text}|{rows}" for text, rows in zip(found, each.texts(bags), strict=True)]
        return found

    def gap(self, steps: Whole) -> Whole:
        """Codes of gaps to the previous record."""
        found: Whole = np.searchsorted(self.gaps, np.maximum(steps, 0), side="right")
        return found

    def steps(self, ends: Whole) -> Whole:
        """Points of the date that ends records, on the order column's grid."""
        return ends * self.ending_period // self.period

    def pace(self, before: Whole, left: Whole) -> Whole:
        """Codes of the gaps by which so many records, this one among them, would reach the upper bound from the previous one."""
        return self.gap((self.last - before) // np.maximum(left, 1))

    def calendar(self, points: Whole) -> dict[str, Whole]:
        """The day of the week, where the order column is a date."""
        return {WEEKDAY: (points * self.period // DAY + THURSDAY) % WEEK} if self.period else {}


def check(schema: Schema) -> None:
    """Raise `BadInput` where a schema does not tell how records follow one another."""
    hindered = hindrance(schema)
    if hindered:
        raise BadInput(hindered)


def hindrance(schema: Schema) -> str:
    """Why records of a schema have no histories; empty where they have. A fit of another generator goes on without."""
    if schema.unit is None or schema.order is None:
        return "histories needs unit and order in the schema, which tell whose a record is and what came before it"
    if schema.image is not None:
        return "histories learns tables, and the schema has a column of images: use a generator of images"
    if not [column for column in schema.modelled if column.name not in (*schema.per_unit, schema.order)]:
        return "histories needs a column that is neither order nor per_unit; use generator=mixture without it"
    if schema.max_records_per_unit > MOST_RECORDS:  # each number has a code of its own
        return f"histories counts at most {MOST_RECORDS:,} records of a unit: lower max_records_per_unit"
    if schema.rules and not schema.tables and schema.settled().honoured:
        return "histories keeps no rules by construction: give honoured: [] in the schema, and evaluate counts how often they break"
    made = {NUMBER, PLACE, LEFT, FIRST, GAP, PACE, WEEKDAY, ALIKE, MANY}
    taken = [name for name in schema.names if name in made or name.startswith((PREVIOUS, EARLIER, BROAD))]
    return f"column {taken[0]!r} has a name that histories gives to one of its own: rename it" if taken else ""


def check_counted(schema: Schema, engine: str) -> None:
    """Raise `BadInput` where histories cannot be counted in a database."""
    if engine == "pyspark":
        raise BadInput(
            "histories are counted in DuckDB and PostgreSQL. Spark cannot read linked tables at one moment, so it is refused: read the "
            "tables into memory, or copy them to one of these databases"
        )
    order = schema.column(str(schema.order))
    if not isinstance(order, Datetime):
        raise BadInput(
            f"histories can be counted in a database only if order is a date, but column {order.name!r} is {order.kind}: read "
            "the tables into memory (data.engine=memory; in Python, fit their frames)"
        )


def _alike(columns: Sequence[str], codes: Mapping[str, int]) -> list[str]:
    """Those of the columns that have the most codes: whether they are as before is told apart."""
    found = [name for name in columns if codes.get(name, 0) >= LEAST_ALIKE]
    return sorted(found, key=lambda name: -codes[name])[:MOST_ALIKE]


def cell(cells: Cells, clique: Sequence[str], sizes: Mapping[str, int]) -> Whole:
    """Which cell of a clique's table each record lies in, (records,); (records, places) where a column has several codes of a record, -1
    where it has none. Raises `ValueError` for two such columns."""
    held = [cells[name] for name in clique]
    if sum(values.ndim == 2 for values in held) > 1:
        raise ValueError("one column of a table may have several codes of a record")
    several = any(values.ndim == 2 for values in held)
    found, gone = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    for name, values in zip(clique, held, strict=True):
        each = values[:, None] if several and values.ndim == 1 else values
        found = found * sizes[name] + each
        if several:
            gone = gone | (each < 0)
    return np.where(gone, -1, found) if several else found


def broadly(cells: Cells, broad: Mapping[str, Whole]) -> dict[str, Whole]:
    """`broad c` of each of these columns, by the place of each code."""
    return {BROAD + name: places[cells[name]] for name, places in broad.items()}


def broad_sizes(broad: Mapping[str, Whole]) -> dict[str, int]:
    """How many places each `broad c` has."""
    return {BROAD + name: int(places.max()) + 1 for name, places in broad.items()}


def squares(cells: Cells, owner: Whole, count: Whole, apart: Mapping[tuple[str, ...], int]) -> Whole:
    """(units,): the largest that the squared L2 norm can be of what each unit's records add to some tables, where every record counts 1 in
    each of them: see `View.apart`. `cells` are those of records unit by unit, `owner` says whose each is and `count` how many a unit has.

    The squares of a table are the number of pairs of a unit's records, of one record with itself too, that lie in the same cell. Of units
    with more than `MOST_PAIRED` records every pair is taken to lie in one cell; of all others at least half of the pairs of different
    records. So most weights are told by the number of records alone, which a model knows; only units whose records are more alike weigh
    less.
    """
    number, tables = count.astype(np.int64), sum(apart.values())
    found: Whole = apart.get((), 0) * number**2 + (tables - apart.get((), 0)) * number
    few = number <= MOST_PAIRED
    names = dict.fromkeys(name for clique in apart for name in clique)
    for after in range(1, min(MOST_PAIRED, int(number.max(initial=0))) if names else 1):
        first = np.flatnonzero((owner[after:] == owner[:-after]) & few[owner[after:]])
        same = {name: cells[name][first] == cells[name][first + after] for name in names}
        pairs = np.zeros(len(first), np.int64)
        for clique, often in apart.items():
            if clique:
                pairs += often * np.logical_and.reduce([same[name] for name in clique])
        np.add.at(found, owner[first], 2 * pairs)
    return np.where(few, np.maximum(found, tables * number * (number + 1) // 2), tables * number**2)


def row_squares(codes: Whole, owner: Whole, units: int) -> tuple[Whole, Whole]:
    """(units,) each: the largest possible squared L2 norm of what a unit's rows below records add to a table, if every row counts 1. The
    first is for a table that holds the rows' code. Rows of different `codes` lie in different cells there, so it is the sum over codes of
    the squared number of rows. The second is for any other table, where all rows may lie in one cell. `owner` is each row's unit."""
    every, size = np.bincount(owner, minlength=units), int(codes.max(initial=0)) + 1
    pairs, number = np.unique(owner.astype(np.int64) * size + codes, return_counts=True)
    alike = np.zeros(units, np.int64)
    np.add.at(alike, pairs // size, number**2)
    return alike, every**2


def largest(clip: float, tables: int) -> int:
    """The square of the largest norm of a unit in so many tables, clip * sqrt(tables), in millionths (2^-20), rounded down."""
    return math.floor(Fraction(clip) ** 2 * tables * UNIT_WEIGHT**2)


def weights(squared: Whole, most: int) -> Whole:
    """What each record of a unit weighs, in millionths (2^-20), if the squared norm of its unweighted records is `squared`: at most 1, and
    no more than makes the weighted norm `largest` at most; the roots of whole numbers, rounded down."""
    norms, place = np.unique(squared, return_inverse=True)
    found = [min(UNIT_WEIGHT, math.isqrt(most // max(1, int(each)))) for each in norms]
    return np.array(found, np.int64)[place].reshape(squared.shape)
