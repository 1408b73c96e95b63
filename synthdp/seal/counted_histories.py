"""Histories that are counted in DuckDB and PostgreSQL: the cells of `history_records.Histories`, by group-by statements.

Only how many records have the same cell and the same weight leaves the database. These whole numbers are weighed and summed here, so that
the tables are those in memory, to the last digit.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import LAST, PREVIOUS, ROW, View, hindrance
from synthdp.schema.schema import Schema
from synthdp.seal.database import ALONE, MOST_CELLS, TOGETHER, CountedTable
from synthdp.seal.history_statements import Making, keyed
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
        self._made["histories"] = CountedHistories(view, self.table, self.max_records, **kept)
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
    """Temporary tables: of `units` what is drawn of them; `records` that count, with `rid`, that of the record before (`prev`), and how
    many of the unit count (`kept`); and `below` them their rows, also those of records that do not count. `names` are the columns there."""

    view: View
    table: source.Opened
    most: int
    names: Mapping[str, str]
    units: str
    records: str
    below: Mapping[str, str]

    def tables(self, cliques: Sequence[tuple[str, ...]], clip: float | None, rows: str) -> list[Whole]:
        """See `Histories.tables`."""
        weights = np.ones(1, np.int64) if clip is None else history_view.weights(np.arange(self.most + 1), clip)
        asked = [self._asked(clique, clip is not None, rows) for clique in cliques]
        sizes = self.view.sizes
        found = [np.zeros([sizes[name] for name in clique], np.int64) for clique in cliques]
        for number, cell, count in self._counted(asked):
            *_, shape = asked[number]
            *_, kept, rows_there, several = places = np.unravel_index(cell, shape)
            share = weights[kept] // np.maximum(rows_there, 1) // np.maximum(several, 1)
            np.add.at(found[number], places[:-3], share * count)
        return found

    def _asked(self, clique: tuple[str, ...], weighed: bool, rows: str) -> tuple[str, str, tuple[int, ...]]:
        """Where a clique is counted, the number of its cell there, and the shape that numbers cells: the clique's columns, how many
        records of the unit count, and how many rows share a record's weight, twice."""
        view, sizes, kept, here, several = self.view, self.view.sizes, "0", "0", "0"
        where = f"{self.units} AS h"
        if weighed:
            where, kept = f"{self.records} AS h", "h.kept"
        if rows:
            where, here = f"{self.below[rows]} AS k JOIN {where} ON h.rid = k.rid", "k.n"
        columns = []
        for name in clique:
            of = view.of_row(name.removeprefix(PREVIOUS))
            column, before = self.names.get(name.removeprefix(PREVIOUS), ""), name.startswith(PREVIOUS)
            if rows and name in (rows + ROW, rows + LAST, *(() if of is None or of.table != rows else of.columns)):
                columns.append(f"k.{self.names[name]}")
            elif of is None:
                columns.append(f"h.{self.names[name]}")
            elif rows == of.table and before and name != PREVIOUS + of.code:
                code = self.names[of.code]
                where += f" LEFT JOIN {self.below[rows]} AS p ON p.rid = h.prev AND p.{code} = k.{code} AND p.nth = 1"
                columns.append(f"coalesce(p.{column}, {sizes[name] - 1})")
            elif several != "0":
                raise ValueError("one column of a table may have several codes of a record")
            else:
                outer = "LEFT JOIN" if column == self.names[of.code] else "JOIN"
                where += f" {outer} {self.below[of.table]} AS b ON b.rid = {'h.prev' if before else 'h.rid'}"
                columns.append(f"coalesce(b.{column}, {of.none})")
                several = "coalesce(b.n, 1)"
        most = 1 + max((each.places for each in view.below), default=0)
        shape = (*(sizes[name] for name in clique), self.most + 1, most, most)
        if np.prod([float(each) for each in shape]) > MOST_CELLS // TOGETHER:
            raise BadInput("a table with so many cells cannot be counted: ask for fewer columns together")
        places = zip((*columns, kept, here, several), shape, strict=True)
        cell = reduce(lambda found, place: f"({found}) * {place[1]} + {place[0]}", places, "CAST(0 AS bigint)")
        return where, cell, shape

    def _counted(self, asked: Sequence[tuple[str, str, tuple[int, ...]]]) -> Iterator[tuple[int, Whole, Whole]]:
        """(number of a clique, its cells that hold records, how many each): group-by statements, of several cliques where a start is
        dear."""
        alike = defaultdict(list)
        for number, (where, _, _) in enumerate(asked):
            alike[where].append(number)
        together = 1 if self.table.engine in ALONE else TOGETHER
        for where, numbers in alike.items():
            for start in range(0, len(numbers), together):
                part, ends = numbers[start : start + together], [0]
                for number in part:
                    ends.append(ends[-1] + int(np.prod(asked[number][2])))
                cells = [f"{asked[number][1]} + {end}" for number, end in zip(part, ends, strict=False)]
                every = cells[0] if len(part) == 1 else f"unnest(ARRAY[{', '.join(cells)}])"
                text = f"SELECT cell, count(*) AS number FROM (SELECT {every} AS cell FROM {where}) AS s GROUP BY cell"
                found = self.table.rows(self.table.sql(text, cell="int64", number="int64"))
                cell, count = (np.asarray(found[name], np.int64) for name in ("cell", "number"))
                which = np.searchsorted(ends, cell, side="right") - 1
                for place, number in enumerate(part):
                    yield number, cell[which == place] - ends[place], count[which == place]
