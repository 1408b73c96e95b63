"""Histories that are counted in DuckDB and PostgreSQL: the cells of `history_records.Histories`, by group-by statements.

Records are weighed there, in whole numbers, and only the sums of cells leave the database: the tables are those in memory, to the last
digit.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import BROAD, MOST_PAIRED, UNIT_WEIGHT, View, broad_sizes, hindrance
from synthdp.schema.number_levels import LEVEL
from synthdp.schema.rows_below import AGAIN, AT_LAST, HERE, LAST, LONG_AGO, NEW, PREVIOUS, ROW
from synthdp.schema.schema import Schema
from synthdp.seal.database import ALONE, MOST_CELLS, TOGETHER, CountedTable
from synthdp.seal.history_statements import Making, keyed, label, over
from synthdp.seal.records import lots
from synthdp.tables import coded, source

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OrderedTable(CountedTable):
    """The store behind the door for records in a database whose schema has an order, of one table or of linked ones. Of one table it
    answers what `CountedTable` does, too, and each kind of table is made at the first question that needs it."""

    codec: Codec | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, table: source.Opened, schema: Schema, key: bytes) -> "OrderedTable":
        """See `CountedTable.of`."""
        if not schema.tables:
            found = super().of(table, schema, key)
            return cls(found.table, found.cells, schema, found.max_records, found.key)
        coded.check_linked(schema, table.tables)
        return cls(table, table.expression, schema, schema.max_records_per_unit, lots(key))

    @property
    def units(self) -> int:
        """How many units there are."""
        if not self.schema.tables:
            return super().units
        (people, *_) = self.schema.tables
        cells = self.table.tables[people.name]
        return self._number(keyed(cells[str(people.key)], self.key).nunique())

    def encoded_by(self, codec: Codec) -> CountedTable:
        """The table with what its codes are made by. Those of linked tables, which only histories can be asked about, are made now."""
        coded.check_codes(codec)
        if hindrance(codec.schema):
            return super().encoded_by(codec)
        found = replace(self, codec=codec, _made={})
        if self.schema.tables:
            found._make(codec)
        return found

    @property
    def histories(self) -> "CountedHistories | None":
        """What is counted of histories."""
        if self.codec is None:
            return None
        if "histories" not in self._made:
            self._make(self.codec)
        found: CountedHistories = self._made["histories"]
        return found

    def _make(self, codec: Codec) -> None:
        view, unit = View.of(codec), None if self.schema.tables else self._unit().cast("uuid")
        kept = Making(self.table, self.cells, unit, self.key, codec, view).kept()
        self._made["histories"] = CountedHistories(view, self.table, **kept)
        self.table.check_unchanged()

    def _asked(self, cliques: Any, sizes: Sequence[int], groups: Any) -> Any:
        if self.codec is None or self.codes is not None:
            return super()._asked(cliques, sizes, groups)
        if self.schema.tables:
            raise BadInput("linked tables have no table of records: ask for tables of their histories")
        if "records" not in self._made:
            self._made["records"] = super().encoded_by(self.codec)
        return self._made["records"]._asked(cliques, sizes, groups)


@dataclass(frozen=True, eq=False)
class CountedHistories:
    """Temporary tables: of `units` what is drawn of them; `records` that count, with `rid`, that of the record before (`prev`), whose each
    is, its place, and how many of the unit count (`kept`); and `below` them their rows, also those of records that do not count. `names`
    are the columns there, `columns` those of `records`."""

    view: View
    table: source.Opened
    names: Mapping[str, str]
    columns: Collection[str]
    units: str
    records: str
    below: Mapping[str, str]
    broad: Mapping[str, int] = field(
        default_factory=dict
    )  # columns whose codes are taken together, and how many places they have

    def tables(
        self,
        cliques: Sequence[tuple[str, ...]],
        clip: float | None,
        rows: str,
        levels: Mapping[str, Whole],
        broad: Mapping[str, Whole],
    ) -> list[Whole]:
        """See `Histories.tables`."""
        if broad:
            kept, taken = self._broadly(broad)
            found = taken.tables(cliques, clip, rows, levels, {})
            self.table.drop(kept)
            return found
        sizes = self.sizes
        found = [np.zeros([sizes[name] for name in clique], np.int64) for clique in cliques]
        weighed = None if clip is None else self.table.keep(self.table.sql(self._weighed(cliques, clip, rows)))
        looked = levels or any(rows + AGAIN in clique for clique in cliques)
        back = self.table.keep(self.table.sql(self._looked_back(rows, levels))) if looked else None
        items = self.below.get(rows, "") if back is None else label(back)
        asked = [self._asked(clique, None if weighed is None else label(weighed), items, rows) for clique in cliques]
        for number, cell, count in self._counted(asked):
            found[number].flat[cell] = count
        for kept in (weighed, back):
            if kept is not None:  # none named would be all
                self.table.drop(kept)
        return found

    @property
    def sizes(self) -> dict[str, int]:
        """Codes of every column."""
        return {**self.view.sizes, **self.broad}

    def _broadly(self, broad: Mapping[str, Whole]) -> tuple[Any, "CountedHistories"]:
        """A table of the records with `broad c` of these columns, and the same histories with it."""
        named, made = {BROAD + name: f"b{place}" for place, name in enumerate(broad)}, []
        for name, places in broad.items():
            cases = " ".join(f"WHEN {code} THEN {place}" for code, place in enumerate(places.tolist()))
            made.append(f"CAST(CASE {self.names[name]} {cases} END AS smallint) AS {named[BROAD + name]}")
        kept = self.table.keep(self.table.sql(f"SELECT *, {', '.join(made)} FROM {self.records}"))
        names, columns = {**self.names, **named}, (*self.columns, *named.values())
        return kept, replace(self, names=names, columns=columns, records=label(kept), broad=broad_sizes(broad))

    def _weighed(self, cliques: Sequence[tuple[str, ...]], clip: float, rows: str) -> str:
        """What is counted of the records, and the weight of each one, or of each of its `rows` in tables with their code and in others.
        This is `history_view.weights`, exact in whole numbers: the floating-point root is a first guess, off by one at most."""
        most = history_view.largest(clip, 1 if rows else len(cliques))
        wide = "hugeint" if self.table.engine == "duckdb" else "numeric"
        held, squared = self._rows_squared(rows) if rows else self._squared(cliques)
        columns = dict.fromkeys(
            name
            for clique in cliques
            for name in (self.names.get(each) for each in clique)
            if name is not None and name in self.columns
        )
        largest, one = f"CAST('{most}' AS {wide})", f"CAST(1 AS {wide})"
        roots = [
            f"least(CAST(floor(sqrt(CAST({most} AS double precision) / {name}_norm)) AS bigint), {UNIT_WEIGHT}) AS {name}_root"
            for name in squared
        ]
        weights = [
            f"CAST(CASE WHEN {one} * {name}_root * {name}_root * {name}_norm > {largest} THEN {name}_root - 1 "
            f"WHEN {name}_root < {UNIT_WEIGHT} AND {one} * ({name}_root + 1) * ({name}_root + 1) * {name}_norm <= {largest} "
            f"THEN {name}_root + 1 ELSE {name}_root END AS integer) AS {name}"
            for name in squared
        ]
        inner = ", ".join(f"h.{name}" for name in ("rid", "prev", *columns))
        norms = ", ".join(f"CAST({norm} AS bigint) AS {name}_norm" for name, norm in squared.items())
        return (
            f"SELECT {', '.join(('rid', 'prev', *columns, *weights))} FROM (SELECT *, {', '.join(roots)} FROM "
            f"(SELECT {inner}, {norms} FROM {held}) AS s) AS t"
        )

    def _rows_squared(self, rows: str) -> tuple[str, dict[str, str]]:
        """The records that have rows, and `history_view.row_squares` of their units."""
        code = self.names[next(each.code for each in self.view.below if each.table == rows)]
        joined = f"{self.records} AS a JOIN {self.below[rows]} AS b ON b.rid = a.rid"
        alike = f"SELECT a.whose, count(*) AS n FROM {joined} GROUP BY a.whose, b.{code}"
        each = f"SELECT whose, sum(n * n) AS alike, sum(n) * sum(n) AS every FROM ({alike}) AS s GROUP BY whose"
        held = f"{self.records} AS h JOIN ({each}) AS r ON r.whose = h.whose"
        return held, {"weight": "r.every", "by_code": "r.alike"}

    def _squared(self, cliques: Sequence[tuple[str, ...]]) -> tuple[str, dict[str, str]]:
        """The records, and `history_view.squares` of their units."""
        apart = self.view.apart(cliques)
        same_cell = apart.pop((), 0)
        names = dict.fromkeys(self.names[name] for clique in apart for name in clique)
        same = ", ".join(f"CAST(a.{name} = b.{name} AS integer) AS {name}" for name in names)
        pairs = " + ".join(f"{often}*{'*'.join(self.names[name] for name in each)}" for each, often in apart.items())
        kept = "CAST(h.kept AS bigint)"  # products of narrow numbers overflow
        norm, held = f"{len(cliques)} * {kept} * {kept}", f"{self.records} AS h"
        if apart:
            two = f"{self.records} AS a JOIN {self.records} AS b ON b.whose = a.whose AND b.place > a.place"
            inner = f"SELECT a.whose, {same} FROM {two} WHERE a.kept <= {MOST_PAIRED}"
            held += f" LEFT JOIN (SELECT whose, sum({pairs}) AS pairs FROM ({inner}) AS s GROUP BY whose) AS p ON p.whose = h.whose"
            few = f"{same_cell} * {kept} * {kept} + {len(cliques) - same_cell} * {kept} + 2 * coalesce(p.pairs, 0)"
            least = over(self.table, f"{len(cliques)} * {kept} * ({kept} + 1)", "2")
            norm = f"CASE WHEN h.kept <= {MOST_PAIRED} THEN greatest({few}, {least}) ELSE {norm} END"
        return held, {"weight": norm}

    def _asked(self, clique: tuple[str, ...], weighed: str | None, items: str, rows: str) -> tuple[str, str, str, int]:
        """Where a clique is counted, the number of its cell there, what is added to it, and how many cells there are. `items` has the
        rows of records; several codes of a record share its weight."""
        view, sizes, weight = self.view, self.sizes, "1"
        where = f"{self.units} AS h"
        if weighed is not None:
            where, weight = f"{weighed} AS h", "h.weight"
        if rows:
            where = f"{items} AS k JOIN {where} ON h.rid = k.rid"
            code = next(each.code for each in view.below if each.table == rows)
            weight = "h.by_code" if code in clique else weight
        columns: list[str] = []
        several = False
        for name in clique:
            of = view.of_row(name.removeprefix(PREVIOUS))
            column, before = self.names.get(name.removeprefix(PREVIOUS), ""), name.startswith(PREVIOUS)
            if rows and name in (
                rows + ROW,
                rows + LAST,
                rows + AGAIN,
                *(() if of is None or of.table != rows else of.columns),
            ):
                columns.append(f"k.{self.names[name]}")
            elif of is None:
                columns.append(f"h.{self.names[name]}")
            elif name.removeprefix(PREVIOUS) in of.levels:
                columns.append(f"k.{self.names[name]}")
            elif rows == of.table and before and name != PREVIOUS + of.code:
                code = self.names[of.code]
                first = f" LEFT JOIN {self.below[rows]} AS p ON p.rid = h.prev AND p.{code} = k.{code} AND p.nth = 1"
                where += "" if first in where else first
                columns.append(f"coalesce(p.{column}, {sizes[name] - 1})")
            elif several:
                raise ValueError("one column of a table may have several codes of a record")
            else:
                outer = "LEFT JOIN" if column == self.names[of.code] else "JOIN"
                where += f" {outer} {self.below[of.table]} AS b ON b.rid = {'h.prev' if before else 'h.rid'}"
                columns.append(f"coalesce(b.{column}, {of.none})")
                several, weight = True, over(self.table, weight, "coalesce(b.n, 1)")
        cells = math.prod(sizes[name] for name in clique)
        if cells > MOST_CELLS // TOGETHER:
            raise BadInput("a table with so many cells cannot be counted: ask for fewer columns together")
        places = zip(columns, (sizes[name] for name in clique), strict=True)
        cell = reduce(lambda found, place: f"({found}) * {place[1]} + {place[0]}", places, "CAST(0 AS bigint)")
        return where, cell, weight, cells

    def _looked_back(self, rows: str, levels: Mapping[str, Whole]) -> str:
        """The rows with `rows again`, their levels, and the levels in the first row of the same code in the last record that has one: see
        `number_levels.earlier`."""
        below = next(each for each in self.view.below if each.table == rows)
        code, numbers = self.names[below.code], {name: self.names[name.removeprefix(LEVEL)] for name in levels}
        before = [f"lag(b.{each}) OVER w AS {each}" for each in numbers.values()]
        ordered = f"PARTITION BY r.whose, b.{code} ORDER BY r.place"
        records = "lag(r.place) OVER w AS before, r.place AS here"
        last = (
            f"SELECT {', '.join(['b.rid', f'b.{code}', records, *before])} FROM {self.below[rows]} AS b "
            f"JOIN {self.records} AS r ON r.rid = b.rid "
            f"WHERE b.nth = 1 WINDOW w AS ({ordered})"
        )
        before_it = f"WHEN l.before IS NULL THEN {NEW} WHEN l.before = l.here - 1 THEN {AT_LAST} ELSE {LONG_AGO}"
        again = f"CASE WHEN k.nth > 1 THEN {HERE} {before_it} END"
        made = [f"CAST({again} AS smallint) AS {self.names[rows + AGAIN]}"]
        for name, each in numbers.items():
            own, earlier = (_level(levels[name], f"k.{code}", f"{place}.{each}") for place in "kl")
            none = self.view.sizes[PREVIOUS + name] - 1
            made += [f"{own} AS {self.names[name]}", f"coalesce({earlier}, {none}) AS {self.names[PREVIOUS + name]}"]
        return (
            f"SELECT k.*, {', '.join(made)} FROM {self.below[rows]} AS k "
            f"LEFT JOIN ({last}) AS l ON l.rid = k.rid AND l.{code} = k.{code}"
        )

    def _counted(self, asked: Sequence[tuple[str, str, str, int]]) -> Iterator[tuple[int, Whole, Whole]]:
        """(number of a clique, its cells that hold records, how much these weigh): group-by statements, of several cliques where a start
        is dear."""
        alike = defaultdict(list)
        for number, (where, _, weight, _) in enumerate(asked):
            alike[where, weight].append(number)
        together = 1 if self.table.engine in ALONE else TOGETHER
        for (where, weight), numbers in alike.items():
            for start in range(0, len(numbers), together):
                part, ends = numbers[start : start + together], [0]
                for number in part:
                    ends.append(ends[-1] + asked[number][3])
                cells = [f"{asked[number][1]} + {end}" for number, end in zip(part, ends, strict=False)]
                every = cells[0] if len(part) == 1 else f"unnest(ARRAY[{', '.join(cells)}])"
                text = (
                    f"SELECT cell, CAST(sum(weight) AS bigint) AS number FROM (SELECT {every} AS cell, "
                    f"CAST({weight} AS bigint) AS weight FROM {where}) AS s GROUP BY cell"
                )
                found = self.table.rows(self.table.sql(text, cell="int64", number="int64"))
                cell, count = (np.asarray(found[name], np.int64) for name in ("cell", "number"))
                which = np.searchsorted(ends, cell, side="right") - 1
                for place, number in enumerate(part):
                    yield number, cell[which == place] - ends[place], count[which == place]


def _level(starts: Whole, code: str, value: str) -> str:
    """`number_levels.level`; null where the value is."""
    parts = (f"(ARRAY[{', '.join(map(str, each))}])[{code} + 1]" for each in starts.T.tolist())
    return " + ".join(f"CAST({value} >= {part} AS integer)" for part in parts)
