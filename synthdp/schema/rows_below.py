"""Rows below a unit's records, such as the diagnoses of a visit: what is counted of each, and how they are laid out beside their record.

All of this follows from the schema, so it is public; the cells of one unit follow from that unit's rows alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.schema import linked_tables
from synthdp.schema.columns import MICROSECONDS, Categorical, Continuous, Datetime, Integer
from synthdp.schema.number_levels import LEVEL, earlier, level, level_before

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec
    from synthdp.schema.schema import Schema

Cells = Mapping[str, NDArray[Any]]
Whole = NDArray[np.int64]
PREVIOUS = "previous "  # a column as it was in the record before
EXACT_GAPS, MOST_GAPS = 8, 20  # gaps of up to so many steps are told apart; about how many codes longer ones have
ROWS, ROW, LAST, SO_FAR = " rows", " row", " last", " so far"  # of a table below visits
AGAIN = " again"  # of a row: whether its code is new, was in the owner's last record, was only in earlier ones, or is already in this one
NEW, AT_LAST, LONG_AGO, HERE = range(4)  # codes of `AGAIN`
# Of a row: codes of the owner's last record, and of earlier ones alone, that its own lacks so far.
HAD_LAST, HAD = " had last", " had"
GROUP = " group"  # of a table below visits: the group of a row's code, by which others are predicted where there are many codes
MOST_RELATED = 256  # codes of a table below visits: of more, relations to one another are counted only by groups
MOST_GROUPS = 128  # of codes


@dataclass(frozen=True)
class Below:
    """A table below visits, of which `places` rows of a visit count. The column `code` says what a row is, and `none` is its code for a row
    that is not there; `further` are the other columns. Of a date the gap to the visit's order column is counted, in steps of `periods`
    microseconds; `starts` are the least gaps of its codes. A missing value of an `optional` column has the last code. `leveled` are the
    numbers, each with how many of its codes stand in order: these codes fall into levels, and all others (atoms and missing cells) are one
    level more."""

    table: str
    code: str
    none: int
    further: tuple[str, ...]
    places: int
    optional: tuple[str, ...]
    starts: tuple[tuple[str, tuple[int, ...]], ...]
    periods: tuple[tuple[str, int], ...]
    orders: tuple[tuple[str, bool, str], ...]  # a date, whether it is not before (else not after) another, and that one
    leveled: tuple[tuple[str, int], ...]
    # Of each code and of none; empty where codes are few enough to predict others themselves.
    groups: tuple[int, ...] = field(default=(), metadata={"later": True})

    @classmethod
    def of(cls, codec: "Codec", table: linked_tables.Table) -> "Below":
        """The table as the resolved schema has it."""
        schema = codec.schema
        names = [f"{table.name}.{name}" for name in linked_tables.learned_of(schema, table)]
        flipped = [(order.right, order.op == "<=", order.left) for order in table.orders]
        orders = [*((order.left, order.op == ">=", order.right) for order in table.orders), *flipped]
        orders = [each for each in orders if each[0] in names]
        starts, periods = {}, {}
        for name in names[1:]:
            column = schema.column(f"{name} 1")
            if not isinstance(column, Datetime):
                continue
            order = schema.column(str(schema.order))
            visits = MICROSECONDS[order.resolution] if isinstance(order, Datetime) else 0
            period = MICROSECONDS[column.resolution]
            (low, high), (first, last) = codec.numeric(f"{name} 1").span, codec.numeric(str(schema.order)).span
            since = (name, True, schema.order) in orders
            until = (name, False, schema.order) in orders
            later = grid(0, EXACT_GAPS, 0 if until else max(0, high - first * visits // period), MOST_GAPS)
            most = 0 if since else max(0, last * visits // period - low)
            ends = grid(1, EXACT_GAPS, most, MOST_GAPS)[1:] if most else ()
            starts[name] = (
                *reversed([-each for each in dict.fromkeys((*(end - 1 for end in ends), most)) if each]),
                *later,
            )
            periods[name] = period
        kind = schema.column(f"{names[0]} 1")
        groups: tuple[int, ...] = ()
        if isinstance(kind, Categorical) and kind.tree is not None and len(kind.categories) > MOST_RELATED:
            found = kind.tree.groups(tuple(kind.categories), MOST_GROUPS)
            groups = (*found, max(found) + 1) if max(found) < MOST_GROUPS else ()
        return cls(
            table=table.name,
            code=names[0],
            none=codec.sizes[codec.names.index(f"{names[0]} 1")] - 1,
            further=tuple(names[1:]),
            places=int(table.max_rows or 0),
            optional=tuple(f"{table.name}.{name}" for name in table.optional),
            starts=tuple(starts.items()),
            periods=tuple(periods.items()),
            orders=tuple(orders),
            leveled=tuple(
                (name, _in_order(codec, f"{name} 1")) for name in names[1:] if _is_number(schema, f"{name} 1")
            ),
            groups=groups,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the code first."""
        return (self.code, *self.further)

    @property
    def levels(self) -> tuple[str, ...]:
        """The columns that say in which part of its code's numbers a number lies."""
        return tuple(LEVEL + name for name, _ in self.leveled)

    @property
    def drawn(self) -> tuple[str, ...]:
        """What is drawn of a row, in order: a number's level before the number."""
        return tuple(
            each for name in self.columns for each in (LEVEL + name, name) if each in (*self.columns, *self.levels)
        )

    @property
    def related(self) -> bool:
        """Whether there are few enough codes, or groups of them, for tables of pairs of them."""
        return self.none <= MOST_RELATED or bool(self.groups)

    @property
    def predictor(self) -> str:
        """The column of a record's codes by which others are predicted."""
        return self.table + GROUP if self.groups else self.code

    def grouped(self, codes: Whole) -> Whole:
        """What stands for codes in the column `predictor`; -1 stays."""
        return np.where(codes < 0, -1, np.array(self.groups)[codes]) if self.groups else codes

    @property
    def no_predictor(self) -> int:
        """What stands in the column `predictor` for none."""
        return self.groups[-1] if self.groups else self.none

    def gap(self, name: str, points: Whole, gone: NDArray[np.bool_], visits: Whole) -> Whole:
        """Codes of the gaps from visits, in microseconds of their order column, to a date's points; `gone` says which dates are missing."""
        starts, gap = np.array(dict(self.starts)[name]), points - visits // dict(self.periods)[name]
        found: Whole = np.searchsorted(starts, np.maximum(gap, starts[0]), side="right") - 1
        return np.where(gone, len(starts), found)

    def sizes(self, codes: Mapping[str, int]) -> dict[str, int]:
        """How many codes each column of a row has; `codes` says how many the coded columns have."""
        sizes = {
            self.code: self.none + 1,
            PREVIOUS + self.code: self.none + 1,
            self.table + LAST: self.no_predictor + 1,
        }
        sizes |= {self.table + ROW: self.places}
        dates = {name: len(starts) + 1 for name, starts in self.starts}
        sizes |= {name: dates.get(name) or codes[f"{name} 1"] for name in self.further}
        return sizes | {PREVIOUS + name: sizes[name] + 1 for name in self.further}

    def bags(
        self,
        coded: NDArray[Any],
        names: list[str],
        visits: Whole,
        dates: Mapping[str, tuple[Whole, NDArray[np.bool_]]],
    ) -> dict[str, Whole]:
        """The columns of the rows below records, (records, places) each, and how many rows each record has. Rows of a declared code come
        first, without gaps."""
        every = range(1, self.places + 1)
        codes = np.stack([coded[:, names.index(f"{self.code} {at}")] for at in every], 1).astype(np.int32)
        order = np.argsort(codes >= self.none, axis=1, kind="stable")
        codes = np.take_along_axis(codes, order, 1)
        there = codes < self.none
        found = {self.table + ROWS: there.sum(1), self.code: np.where(there, codes, -1)}
        found[self.code][:, 0] = codes[:, 0]
        for name in self.further:
            if name in dict(self.starts):
                held = [self.gap(name, *dates[f"{name} {at}"], visits) for at in every]
            else:
                held = [coded[:, names.index(f"{name} {at}")] for at in every]
            values = np.take_along_axis(np.stack(held, 1), order, 1)
            found[name] = np.where(there, values, -1).astype(np.int32)
        return found

    def before(self, bags: Cells, previous: Whole, later: NDArray[np.bool_]) -> dict[str, Whole]:
        """The columns of the rows below each record's previous one: `previous` (records,) says which that is, `later` which records have
        one."""
        found = {}
        for name in self.columns:
            held = np.where(later[:, None], bags[name][previous], -1)
            held[:, 0] = np.where(later, held[:, 0], self.none if name == self.code else -1)
            found[PREVIOUS + name] = held
        found[PREVIOUS + self.predictor], found[self.predictor] = (
            self.grouped(each) for each in (found[PREVIOUS + self.code], bags[self.code])
        )
        return found

    def texts(self, bags: Cells) -> list[str]:
        """For each record, the codes of the rows below it as one text."""
        held = np.stack([bags[name] for name in self.columns], 2)
        rows = ([",".join(map(str, row)) for row in each if 0 <= row[0] < self.none] for each in held.tolist())
        return ["".join(f"{row};" for row in each) for each in rows]

    def rows(
        self,
        cells: Cells,
        sizes: Mapping[str, int],
        names: Iterable[str],
        levels: Mapping[str, Whole] | None = None,
        owner: Whole | None = None,
    ) -> tuple[dict[str, Whole], Whole]:
        """The columns `names` of every row, (rows,) each, from the columns of its record, and which record that is; `sizes` are
        `View.sizes`. `t so far` are the codes of the rows before it in its record, (rows, places). Levels need `levels`, where they
        start (see `number_levels.level`). A previous level is that of the first row with the same code in the owner's last earlier
        record that has one, so it also needs `owner`, the owner of each record, as does `t again`."""
        codes = cells[self.code]
        record, place = np.nonzero((codes >= 0) & (codes < self.none))
        found: dict[str, Whole] = {}
        for name in names:
            if name in self.columns:
                found[name] = cells[name][record, place]
            elif name == self.table + ROW:
                found[name] = place
            elif name == self.table + LAST:
                before = np.where(place > 0, codes[record, np.maximum(place - 1, 0)], self.none)
                found[name] = self.grouped(before)
            elif name == self.table + SO_FAR:
                found[name] = np.where(np.arange(self.places) < place[:, None], codes[record], -1)
            elif name == self.table + AGAIN:
                found[name] = _again(_known(owner)[record], record, codes[record, place])
            elif name.removeprefix(PREVIOUS) in self.further:
                found[name] = self.before_at(cells, sizes, name, record, codes[record, place])
            elif levels is not None and name.removeprefix(PREVIOUS) in levels:
                own, code = name.removeprefix(PREVIOUS), codes[record, place]
                values = cells[own.removeprefix(LEVEL)][record, place]
                found[name] = level(levels[own], code, values)
                if name != own:
                    found[name] = level_before(found[name], _known(owner)[record], record, code)
            else:
                found[name] = cells[name][record]
        return found, record

    def before_at(self, cells: Cells, sizes: Mapping[str, int], name: str, record: Whole, code: Whole) -> Whole:
        """What a value was in the previous record, in its first row with this code; the last code where there is none."""
        same = cells[PREVIOUS + self.code][record] == code[:, None]
        held = cells[name][record, same.argmax(1)]
        return np.where(same.any(1), held, sizes[name] - 1)


def _known(owner: Whole | None) -> Whole:
    if owner is None:
        raise ValueError("columns that look back need `owner`, the owner of each record")
    return owner


def _again(owner: Whole, record: Whole, code: Whole) -> Whole:
    """(rows,): see `AGAIN`. The records of an owner follow one another, and the rows of a record."""
    before = earlier(owner, record, code)
    found: Whole = np.where(before < 0, NEW, np.where(record[before] == record - 1, AT_LAST, LONG_AGO))
    first = np.unique(record.astype(np.int64) * (int(code.max(initial=0)) + 1) + code, return_index=True)[1]
    here = np.ones(len(code), np.bool_)
    here[first] = False
    return np.where(here, HERE, found)


@dataclass
class Had:
    """The codes that units have had so far, (units, codes), with -1 beyond them."""

    held: Whole

    @classmethod
    def nothing(cls, units: int) -> "Had":
        """Of units that had none."""
        return cls(np.full((units, 1), -1))

    def keep(self, units: Whole, codes: Whole) -> None:
        """Add `codes` (units, places), with -1 where there is none, of these units; no unit comes twice."""
        for each in codes.T:
            new = np.flatnonzero((each >= 0) & (self.held[units] != each[:, None]).all(1))
            place = (self.held[units[new]] >= 0).sum(1)
            if place.max(initial=0) == self.held.shape[1]:
                self.held = np.pad(self.held, ((0, 0), (0, self.held.shape[1])), constant_values=-1)
            self.held[units[new], place] = each[new]


def besides(codes: Whole, others: Whole) -> Whole:
    """`codes` (rows, places) that are not among a row's `others`, with -1 in place of those that are."""
    found = codes.copy()
    for each in others.T:
        found[found == each[:, None]] = -1
    return found


def _is_number(schema: "Schema", name: str) -> bool:
    return isinstance(schema.column(name), Integer | Continuous)


def _in_order(codec: "Codec", name: str) -> int:
    """How many of a number's codes stand in order; the last code of a row's column is that of a missing cell."""
    return codec.sizes[codec.names.index(name)] - len(codec.atoms(name)) - 1


def grid(first: int, exact: int, last: int, most: int) -> tuple[int, ...]:
    """Whole numbers from `first`: each up to `exact`, then about `most` at growing distances up to `last`."""
    found = list(range(first, min(exact, last) + 1))
    growth = max(1.25, (last / max(1, exact)) ** (1 / most))
    step = float(max(1, exact))
    while step * growth < last:
        step = max(step * growth, step + 1)
        if step <= last:
            found.append(int(step))
    return tuple(found)
