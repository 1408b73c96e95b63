"""The statements that make the tables of histories in DuckDB and PostgreSQL.

They say what `schema.joined_tables`, `schema.history_view` and `schema.rows_below` say in memory, in whole numbers: which rows belong
together, which of a unit's records count, and what came before each. The records are read in one transaction, into temporary tables of
codes, dates within their declared bounds and keyed hashes of names (law 18); all other tables are made of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from synthdp.schema.codec import Codec
from synthdp.schema.columns import MICROSECONDS, Datetime, Ignored, microseconds
from synthdp.schema.history_view import (
    AFTER,
    ALIKE,
    DAY,
    EARLIER,
    FIRST,
    GAP,
    LEFT,
    MANY,
    MOST_EARLIER,
    MOST_LEFT,
    NUMBER,
    PACE,
    PLACE,
    THURSDAY,
    WEEK,
    WEEKDAY,
    View,
)
from synthdp.schema.linked_tables import Table as LinkedTable
from synthdp.schema.linked_tables import ends, held
from synthdp.schema.rows_below import LAST, PREVIOUS, ROW, ROWS, Below
from synthdp.schema.schema import Schema
from synthdp.tables import coded, source

if TYPE_CHECKING:
    import ibis

DIGITS = "0123456789abcdef"
WINDOW = 8  # of these say where the records of a unit that count begin, as in memory


@dataclass(frozen=True, eq=False)
class Making:
    """The tables of histories, step by step: of `cells`, those of one table, or of the linked tables of `table`. `unit` is the keyed hash
    of a record's unit in the one table; in linked ones names are hashed here, under `key`."""

    table: source.Opened
    cells: "ibis.Table"
    unit: Any
    key: bytes
    codec: Codec
    view: View

    def kept(self) -> "dict[str, Any]":
        """The tables of `CountedHistories`, by its fields; what they are made of is dropped."""
        with self.table.moment():
            people, records, items = self._read()
        chosen = [self._keep(self._chosen(each, items[each.table])) for each in self.view.below]
        linked = None if people is None else self._keep(self._people(people))
        every = self._keep(self._every(records, linked))
        below = {
            each.table: self._keep(self._below(each, every, rows))
            for each, rows in zip(self.view.below, chosen, strict=True)
        }
        told = self._told(every, below)
        found = {"records": self._keep(self._records(told)), "units": self._keep(self._units(told, every, linked))}
        made_of = (people, records, *items.values(), linked, every, *chosen)
        self.table.drop(*(each for each in made_of if each is not None))
        names = {name: f"h{place}" for name, place in self._places.items()}
        below_names = {name: label(each) for name, each in below.items()}
        columns = found["records"].columns
        return {
            "names": names,
            "columns": columns,
            "below": below_names,
            **{name: label(each) for name, each in found.items()},
        }

    # ---- What is read of the source: codes, dates, keyed names.

    def _read(self) -> "tuple[Any, Any, dict[str, Any]]":
        schema = self.codec.schema
        if not schema.tables:
            names = {name: name for name, _ in self.view.codes}
            return None, self._coded(self.cells, names, unit=self.unit), {}
        people, visits, *items = schema.tables
        cells = self.table.tables
        first = cells[people.name]
        unit = keyed(first[str(people.key)], self.key)
        found = self._coded(first, self._named(people), unit=unit)
        second = cells[visits.name]
        keys = {"unit": keyed(second[str(people.key)], self.key)}
        if visits.key is not None:
            keys["visit"] = keyed(second[visits.key], self.key)
        records = self._coded(second, self._named(visits), **keys)
        return found, records, {each.name: self._items(each, visits, cells[each.name]) for each in items}

    def _items(self, table: LinkedTable, visits: LinkedTable, cells: "ibis.Table") -> Any:
        names = {f"{whole} 1": own for whole, own in self._whole(table).items()}
        keys = {"visit": keyed(cells[str(visits.key)], self.key)}
        if table.with_unit:
            keys["unit"] = keyed(cells[str(self.codec.schema.unit)], self.key)
        first = cells[next(iter(names.values()))]
        there = ~(first.isnull() | first.isnan() if first.type().is_floating() else first.isnull())
        return self._coded(cells.filter(there), names, **keys)

    def _named(self, table: LinkedTable) -> dict[str, str]:
        return {f"{table.name}.{name}": name for name in self._whole(table).values()}

    def _whole(self, table: LinkedTable) -> dict[str, str]:
        """The names of a table's columns there by those in the view."""
        held_there = held(self.codec.schema, table)
        return {f"{table.name}.{name}": name for name, column in held_there if not isinstance(column, Ignored)}

    def _coded(self, cells: "ibis.Table", names: Mapping[str, str], **keys: Any) -> Any:
        """The codes of columns, the points of dates that count exactly, and the keys. The columns have short names meanwhile: PostgreSQL
        cuts long ones off."""
        schema, text = self.codec.schema, self.table.text
        columns = tuple(replace(schema.column(name), name=f"v{place}") for place, name in enumerate(names))
        inner = cells.select(
            **{column.name: cells[own] for column, own in zip(columns, names.values(), strict=True)}, **keys
        )
        gaps = [column for name, column in zip(names, columns, strict=True) if self._is_point(name)]
        beside = {key: inner[key] for key in keys}
        beside |= {f"moment{place}": _within(column, inner[column.name]) for place, column in enumerate(gaps)}
        return self.table.keep(coded.coded(inner, Codec(Schema(columns=columns)), text=text, **beside))

    def _is_point(self, name: str) -> bool:
        return name in (self.view.order, *self.view.placed_dates, *self._ends)

    @cached_property
    def _ends(self) -> list[str]:
        return ends(self.codec.schema)

    # ---- Statements.

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.view.sizes)}

    @cached_property
    def _own(self) -> list[str]:
        return [name for name in self.view.own if name in dict(self.view.codes)]

    def _keep(self, text: str) -> "ibis.Table":
        return self.table.keep(self.table.sql(text))

    def _floor(self, value: str, period: int) -> str:
        rest = f"((({value}) % {period}) + {period}) % {period}"
        return value if period == 1 else over(self.table, f"({value}) - ({rest})", str(period))

    def _point(self, moment: str, name: str, kind: Any, absent: int) -> str:
        """A date as a point of its grid, as `Bins.points`."""
        first, last = self.codec.numeric(name).span
        column = self.codec.schema.column(name)
        period = MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 1
        if self.table.engine != "duckdb":
            micros = f"CAST(extract(epoch FROM {moment}) * 1000000 AS bigint)"
        elif getattr(kind, "scale", None) == coded.NANOSECONDS:
            micros = self._floor(f"epoch_ns({moment})", 1000)
        else:
            micros = f"epoch_us({moment})"
        point = f"least(greatest({self._floor(micros, period)}, {first}), {last})"
        return f"CASE WHEN {moment} IS NULL THEN {absent} ELSE {point} END"

    def _people(self, people: "ibis.Table") -> str:
        """Each person once: of several rows the one whose keyed hash is lowest."""
        codes = {name: f"c{place}" for place, name in enumerate(self.view.unit)}
        points, dates = [], {}
        for place, name in enumerate(name for name in self.view.unit if name in self._ends):
            moment, (first, _) = f"moment{place}", self.codec.numeric(name).span
            absent = first - getattr(self.codec.schema.column(name), "missing", False)
            points.append(f"{self._point(moment, name, people[moment].type(), absent)} AS d{place}")
            dates[name] = f"d{place}"
        drawn = f"md5({_hex('unit')} || '/' || {_text(list((codes | dates).values()))})"
        ending = [f"{dates[name]} AS ending" for name in self.view.until[:1]]
        kept = ", ".join(["unit", _as(codes.values(), [f"h{self._places[name]}" for name in codes]), *ending])
        inner = f"SELECT {', '.join(['*', *points])} FROM {label(people)} WHERE unit IS NOT NULL"
        ranked = f"row_number() OVER (PARTITION BY unit ORDER BY CAST({drawn} AS uuid)) AS drawn"
        return f"SELECT {kept} FROM (SELECT *, {ranked} FROM ({inner}) AS s) AS t WHERE drawn = 1"

    def _chosen(self, below: Below, items: "ibis.Table") -> str:
        """At most so many rows under each key, in the order of their hashes."""
        keys = [key for key in ("visit", "unit") if key in items.columns]
        columns = {name: f"c{place}" for place, name in enumerate(below.columns)}
        dates = [name for name in below.columns if name in dict(below.starts)]
        points = []
        for place, name in enumerate(dates):
            first, _ = self.codec.numeric(f"{name} 1").span
            moment = f"moment{place}"
            points.append(f"{self._point(moment, f'{name} 1', items[moment].type(), first - 1)} AS d{place}")
            columns[name] = f"d{place}"
        inner = f"SELECT {', '.join(['*', *points])} FROM {label(items)}"
        names = "".join(f"{_hex(key)} || '/' || " for key in keys)
        drawn = f"md5({names}{_text(list(columns.values()))})"
        by, named = ", ".join(keys), [f"h{self._places[name]}" for name in columns]
        ranked = f"row_number() OVER (PARTITION BY {by} ORDER BY CAST({drawn} AS uuid)) AS drawn"
        within = f"PARTITION BY {by} ORDER BY drawn"
        return (
            f"SELECT {by}, {_as(columns.values(), named)}, "
            f"row_number() OVER ({within}) - 1 AS place, count(*) OVER (PARTITION BY {by}) AS n "
            f"FROM (SELECT *, {ranked} FROM ({inner}) AS s) AS t WHERE drawn <= {below.places} AND c0 < {below.none}"
        )

    def _every(self, records: "ibis.Table", linked: "ibis.Table | None") -> str:
        """All records of somebody, numbered, with their points; `alike` are those of one unit and time."""
        view, places = self.view, self._places
        names = [*([] if linked is not None else view.unit), *self._own, view.order]
        of_table = [name for name in dict(view.codes) if name in names]
        columns = [f"v.c{place} AS h{places[name]}" for place, name in enumerate(of_table)]
        columns += [f"u.h{places[name]}" for name in view.unit if linked is not None]
        visit = ["v.visit"] if "visit" in records.columns else []
        first, _ = self.codec.numeric(view.order).span
        point = f"{self._point('v.moment0', view.order, records['moment0'].type(), first)} AS point"
        where = f"{label(records)} AS v" + ("" if linked is None else f" JOIN {label(linked)} AS u ON u.unit = v.unit")
        inner = f"SELECT v.unit, {', '.join([*visit, point, *columns])} FROM {where}"
        beside = "row_number() OVER () AS rid, count(*) OVER (PARTITION BY unit, point) AS alike"
        return f"SELECT *, {beside} FROM ({inner}) AS s"

    def _below(self, below: Below, every: "ibis.Table", chosen: "ibis.Table") -> str:
        """The rows of each record: their columns, place and number; `nth` counts those of one code."""
        places, starts, columns = self._places, dict(below.starts), []
        for name in below.columns:
            column = f"h{places[name]}"
            if name in starts:
                first, _ = self.codec.numeric(f"{name} 1").span
                code = f"greatest({_steps(f'g{places[name]}', starts[name])}, 1) - 1"
                columns.append(
                    _narrow(f"CASE WHEN {column} < {first} THEN {len(starts[name])} ELSE {code} END", 2, column)
                )
            else:
                columns.append(column)
        on = "j.visit = e.visit" + (" AND j.unit = e.unit" if "unit" in chosen.columns else "")
        gaps = [
            f"j.h{places[name]} - {self._floor(f'e.point * {self.view.period}', dict(below.periods)[name])} AS g{places[name]}"
            for name in starts
        ]
        own = [f"j.h{places[name]}" for name in below.columns]
        inner = f"SELECT {', '.join(['e.rid', 'j.place', 'j.n', *own, *gaps])} FROM {label(every)} AS e JOIN {label(chosen)} AS j ON {on}"
        code, size = f"h{places[below.code]}", self.view.sizes[below.code]
        last = f"coalesce(lag({code}) OVER (PARTITION BY rid ORDER BY place), {below.none})"
        beside = [
            _narrow("n", below.places, "n"),
            _narrow("place", below.places, f"h{places[below.table + ROW]}"),
            _narrow(last, size, f"h{places[below.table + LAST]}"),
            f"row_number() OVER (PARTITION BY rid, {code} ORDER BY place) AS nth",
        ]
        return f"SELECT {', '.join(['rid', *columns, *beside])} FROM ({inner}) AS s"

    def _told(self, every: "ibis.Table", below: Mapping[str, "ibis.Table"]) -> str:
        """All records, with their numbers of rows, and what decides the order of those of one time: a hash of all that is counted of
        them."""
        places, view = self._places, self.view
        plain = [f"e.h{places[name]}" for name in (*view.unit, *self._own, view.order)]
        text, where, numbers = _text(plain), f"{label(every)} AS e", []
        for place, each in enumerate(view.below):
            rows, row = label(below[each.table]), f"h{places[each.table + ROW]}"
            content = _text([f"r.h{places[name]}" for name in each.columns])
            where += (
                f" LEFT JOIN (SELECT rid, max(n) AS n FROM {rows} GROUP BY rid) AS n{place} ON n{place}.rid = e.rid"
            )
            where += (
                f" LEFT JOIN (SELECT r.rid, string_agg({content} || ';', '' ORDER BY r.{row}) AS text FROM {rows} AS r "
                f"JOIN {label(every)} AS a ON a.rid = r.rid WHERE a.alike > 1 GROUP BY r.rid) AS t{place} ON t{place}.rid = e.rid"
            )
            numbers.append(f"coalesce(n{place}.n, 0) AS h{places[each.table + ROWS]}")
            text += f" || '|' || coalesce(t{place}.text, '')"
        lot = f"CASE WHEN e.alike > 1 THEN CAST(md5({_hex('e.unit')} || '/' || {text}) AS uuid) END AS lot"
        return f"SELECT {', '.join(['e.*', *numbers, lot])} FROM {where}"

    def _records(self, told: str) -> str:
        """The records that count, with all their columns: `View.cells` says what these are."""
        view, places, sizes, most = self.view, self._places, self.view.sizes, self.codec.schema.max_records_per_unit
        first, own = view.numbers[0], [*view.own, view.order]
        ordered = "PARTITION BY unit ORDER BY point, lot, rid"
        inner = ["rid", "unit", "point", *(f"h{places[name]}" for name in own)]
        inner += [f"first_value(h{places[name]}) OVER w AS h{places[name]}" for name in view.unit]
        inner += ["row_number() OVER w - 1 AS place", "count(*) OVER (PARTITION BY unit) AS number"]
        inner += ["lag(rid) OVER w AS prev", "lag(point) OVER w AS before", "first_value(rid) OVER w AS whose"]
        inner += [f"lag(h{places[name]}) OVER w AS h{places[PREVIOUS + name]}" for name in own]
        for name, code in view.counted:
            held_before = f"sum(CASE WHEN h{places[name]} = {code} THEN 1 ELSE 0 END) OVER"
            frame = f"({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
            inner.append(f"{held_before} {frame} AS h{places[f'{EARLIER}{name} {code}']}")
        walked = f"SELECT {', '.join(inner)} FROM ({told}) AS s WINDOW w AS ({ordered})"
        between = [
            "greatest(point - before, 0) AS steps",
            f"{over(self.table, f'{view.last} - before', 'number - place')} AS left_steps",
            f"CASE WHEN number > {most} THEN {_number(_hex('unit'))} % greatest(number - {most} + 1, 1) ELSE 0 END AS start",
        ]
        same = [
            f"CASE WHEN h{places[name]} = h{places[PREVIOUS + name]} THEN {1 << bit} ELSE 0 END"
            for bit, name in enumerate(view.alike)
        ]
        days = self._floor(f"point * {view.period}", DAY)
        made = {
            **{name: f"h{places[name]}" for name in (*view.unit, *own)},
            **{PREVIOUS + name: f"coalesce(h{places[PREVIOUS + name]}, {sizes[PREVIOUS + name] - 1})" for name in own},
            **{
                f"{EARLIER}{name} {code}": f"least(coalesce(h{places[f'{EARLIER}{name} {code}']}, 0), {MOST_EARLIER})"
                for name, code in view.counted
            },
            NUMBER: f"least(number, {most + 1}) - {first}",
            MANY: f"{_steps('number', view.classes)} - 1",
            PLACE: f"least(place + 1, {most + 1}) - 1",
            LEFT: f"least(number - place - 1, {MOST_LEFT})",
            FIRST: f"CASE WHEN place > 0 THEN {sizes[FIRST] - 1} ELSE h{places[view.order]} END",
            GAP: f"CASE WHEN place > 0 THEN {_steps('steps', view.gaps)} ELSE 0 END",
            PACE: f"CASE WHEN place > 0 THEN {_steps('left_steps', view.gaps)} ELSE 0 END",
            WEEKDAY: f"((({days}) + {THURSDAY}) % {WEEK} + {WEEK}) % {WEEK}",
            ALIKE: f"CASE WHEN place > 0 THEN {' + '.join(same)} ELSE {sizes.get(ALIKE, 1) - 1} END",
        }
        columns = [_narrow(made[name], sizes[name], f"h{places[name]}") for name in sizes if name in made]
        kept = _narrow(f"least(number, {most})", most, "kept")
        every = ", ".join(["rid", "prev", "whose", "place", kept, *columns])
        return (
            f"SELECT {every} FROM (SELECT *, {', '.join(between)} FROM ({walked}) AS s) AS t "
            f"WHERE place >= start AND place < start + {most}"
        )

    def _units(self, told: str, every: "ibis.Table", linked: "ibis.Table | None") -> str:
        """What is counted of units: their columns, as their first record tells them, and their numbers of records."""
        view, places, most = self.view, self._places, self.codec.schema.max_records_per_unit
        number = _narrow(f"least(coalesce(number, 0), {most + 1}) - {view.numbers[0]}", most, f"h{places[NUMBER]}")
        columns = ", ".join([*(f"h{places[name]}" for name in view.unit), number])
        if linked is not None:
            for name in view.until[:1]:
                first, _ = self.codec.numeric(name).span
                steps = f"greatest({self._floor(f'ending * {view.ending_period}', view.period)} - last, 0)"
                after = f"CASE WHEN number > 0 AND ending >= {first} THEN {_steps(steps, view.gaps)} ELSE 0 END"
                columns += f", {_narrow(after, view.sizes[AFTER], f'h{places[AFTER]}')}"
            numbers = f"SELECT unit AS whose, count(*) AS number, max(point) AS last FROM {label(every)} GROUP BY unit"
            return f"SELECT {columns} FROM {label(linked)} AS u LEFT JOIN ({numbers}) AS n ON n.whose = u.unit"
        ranked = "row_number() OVER (PARTITION BY unit ORDER BY point, lot, rid) AS place"
        inner = f"SELECT *, {ranked}, count(*) OVER (PARTITION BY unit) AS number FROM ({told}) AS s"
        return f"SELECT {columns} FROM ({inner}) AS t WHERE place = 1"


def keyed(cell: Any, key: bytes) -> Any:
    """The keyed hash of a name as `joined_tables.lot` has it; null where there is none, which links to nothing."""
    import ibis

    text = cell.cast("string")
    drawn = coded.md5(ibis.literal("/").join([ibis.literal(key.hex()), text])).cast("uuid")
    return ibis.cases((cell.isnull() | (text == ""), ibis.null("uuid")), else_=drawn)


def _within(column: Any, cell: Any) -> Any:
    """A date within its bounds, as far as its type has them: endless ones are no number of microseconds. Of days the first one is kept that
    begins after the bounds, since the last instant within them is of the day before."""
    import ibis

    first, last = (coded.EPOCH + timedelta(microseconds=microseconds(end)) for end in column.bounds)
    if cell.type().is_date():
        last = datetime.combine(coded.day_from(last), datetime.min.time())
    low, high = coded.instant(cell, first), coded.instant(cell, last)
    return ibis.cases((cell < low, low), (cell > high, high), else_=cell)


def over(table: source.Opened, dividend: str, divisor: str) -> str:
    """Division of whole numbers that leaves no rest, or of such as are not negative."""
    return f"({dividend}) {'//' if table.engine == 'duckdb' else '/'} ({divisor})"


def label(table: "ibis.Table") -> str:
    """A table as statements name it."""
    return f'"{str(table.get_name()).rpartition(".")[2]}"'


def _hex(uuid: str) -> str:
    return f"replace(CAST({uuid} AS varchar), '-', '')"


def _number(digits: str) -> str:
    """The first hexadecimal digits as a whole number."""
    each = (
        f"CAST(strpos('{DIGITS}', substr({digits}, {place + 1}, 1)) - 1 AS bigint) * {16 ** (WINDOW - 1 - place)}"
        for place in range(WINDOW)
    )
    return f"({' + '.join(each)})"


def _text(columns: Sequence[str]) -> str:
    return " || ',' || ".join(f"CAST({column} AS varchar)" for column in columns)


def _as(columns: Any, names: Sequence[str]) -> str:
    return ", ".join(f"{column} AS {name}" for column, name in zip(columns, names, strict=True))


def _narrow(value: str, size: int, name: str) -> str:
    return f"CAST({value} AS {'smallint' if size < 2**15 else 'integer'}) AS {name}"


def _steps(value: str, starts: Sequence[int], before: int = 0) -> str:
    """How many of `starts`, which ascend, are at most the value, by halving."""
    if not starts:
        return str(before)
    half = len(starts) // 2
    below, above = _steps(value, starts[:half], before), _steps(value, starts[half + 1 :], before + half + 1)
    return f"CASE WHEN {value} >= {starts[half]} THEN {above} ELSE {below} END"
