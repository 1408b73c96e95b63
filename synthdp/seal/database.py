"""Records that stay in a database: bounded per unit and encoded there, once; questions get counts of them and nothing else.

One statement makes the table of codes, so that all questions see one snapshot (law 18). It holds, for every kept record, its
codes, its number within its unit and how many of the unit were kept; no unit's name. The database never sorts, joins or groups by a
name either, but by its keyed hash: what does not fit in its memory it writes to disk.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal.records import lots
from synthdp.tables import coded, csv_cells, source

if TYPE_CHECKING:
    import ibis

Cliques = Sequence[tuple[int, ...]]
Groupings = Sequence["NDArray[np.int64] | None"] | None
Table = NDArray[np.float64]

PLACE, KEPT, UNIT, CELL, COUNT = "place", "kept", "unit", "cell", "number"
ALONE = ("duckdb",)  # asked for one clique at a time: it needs no more to keep its threads busy
TOGETHER = 64  # cliques in a question to the others: each question costs a start, and a shuffle in Spark
MOST_CELLS = 2**62  # of all tables of one question to a database


@dataclass(frozen=True, eq=False)
class CountedTable:
    """The store behind the door for records in a database; `records.Records` answers the same questions from memory."""

    table: source.Opened
    cells: "ibis.Table"
    schema: Schema
    max_records: int
    key: bytes = field(repr=False)
    sizes: tuple[int, ...] = ()
    codes: "ibis.Table | None" = field(default=None, repr=False)
    _grouped: dict[bytes, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, table: source.Opened, schema: Schema, key: bytes) -> "CountedTable":
        """The store of an opened table, which must stay open while questions are asked."""
        coded.check(schema, table.expression, text=table.text)
        most = schema.max_records_per_unit if schema.unit else 1
        return cls(table, csv_cells.typed(table, schema), schema, most, lots(key))

    @property
    def units(self) -> int:
        """How many units there are."""
        if self.codes is not None:
            ones = self.codes.filter(self.codes[PLACE] == 0) if self.schema.unit else self.codes
            return self._number(ones.count())
        found = self._number(self.cells.count() if self.schema.unit is None else self._unit().nunique())
        self.table.check_unchanged()
        return found

    def encoded_by(self, codec: Codec) -> "CountedTable":
        """The table with its codes, in its database."""
        coded.check_codes(codec)
        unit = {} if self.schema.unit is None else {UNIT: self._unit()}
        codes = coded.coded(self.cells, codec, text=self.table.text, **unit)
        kept = self.table.keep(self._bounded(codes) if unit else codes)
        self.table.check_unchanged()
        return replace(self, codes=kept, sizes=codec.sizes)

    def counts(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Table]:
        """The exact number of records of every cell, one array per clique with one axis per column: see `Records.counts`."""
        table, shapes = self._asked(cliques, sizes, groups)
        flat = [np.zeros(math.prod(shape)) for shape in shapes]
        for number, cell, count in self._cells(table, cliques, shapes, []):
            flat[number][cell] = count
        return [each.reshape(shape) for each, shape in zip(flat, shapes, strict=True)]

    def weights(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Table]:
        """The same where every unit weighs one: its records share its weight."""
        table, shapes = self._asked(cliques, sizes, groups)
        flat = [np.zeros(math.prod(shape)) for shape in shapes]
        if self.schema.unit is None:
            return self.counts(cliques, sizes, groups)
        widened = [(*shape, self.max_records + 1) for shape in shapes]
        for number, cell, count in self._cells(table, cliques, widened, [KEPT]):
            np.add.at(flat[number], cell // (self.max_records + 1), count / (cell % (self.max_records + 1)))
        return [each.reshape(shape) for each, shape in zip(flat, shapes, strict=True)]

    def _asked(
        self, cliques: Cliques, sizes: Sequence[int], groups: Groupings
    ) -> tuple["ibis.Table", list[tuple[int, ...]]]:
        """The table to count in, and the shapes of what comes out."""
        if self.codes is None:
            raise BadInput("the schema still has items to learn: call resolve() before asking about encoded records")
        wide = list(sizes)
        for column, group in enumerate(groups or ()):
            wide[column] = wide[column] if group is None else int(group.max(initial=0)) + 1
        shapes = [tuple(wide[column] for column in clique) for clique in cliques]
        if sum(math.prod(shape) for shape in shapes) > MOST_CELLS // (self.max_records + 1):
            raise BadInput("a table with so many cells cannot be counted: ask for fewer columns together")
        return (self.codes if groups is None else self._regrouped(self.codes, groups)), shapes

    def _regrouped(self, codes: "ibis.Table", groups: Sequence[Any]) -> "ibis.Table":
        """The codes by their groups, computed once for all questions that group alike."""
        name = b"|".join(b"" if group is None else group.tobytes() for group in groups)
        if name not in self._grouped:
            for old in self._grouped.values():
                self.table.drop(old)
            self._grouped.clear()
            made = {
                coded.place(number): coded.narrow(
                    coded.regrouped(codes[coded.place(number)], group), int(group.max(initial=0)) + 1
                )
                for number, group in enumerate(groups)
                if group is not None
            }
            self._grouped[name] = self.table.keep(codes.mutate(**made))
        return self._grouped[name]

    def _cells(
        self, table: "ibis.Table", cliques: Cliques, shapes: Sequence[tuple[int, ...]], beside: list[str]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
        """(number of a clique, its cells that hold records, how many each): a group-by in the database."""
        import ibis

        together = 1 if self.table.engine in ALONE else TOGETHER
        for start in range(0, len(cliques), together):
            part, asked, ends = range(start, min(start + together, len(cliques))), [], [0]
            for number in part:  # the cells of all cliques are numbered in one row
                names = [*(coded.place(column) for column in cliques[number]), *beside]
                cell: Any = ibis.literal(0).cast("int64")
                for name, size in zip(names, shapes[number], strict=True):
                    cell = cell * size + table[name].cast("int64")
                asked.append(cell + ends[-1])
                ends.append(ends[-1] + math.prod(shapes[number]))
            every = asked[0] if len(asked) == 1 else ibis.array(asked).unnest()
            counted = table.select(every.name(CELL)).group_by(CELL).aggregate(**{COUNT: lambda t: t.count()})
            found = self.table.rows(counted)
            cells, counts = np.asarray(found[CELL], np.int64), np.asarray(found[COUNT], np.float64)
            which = np.searchsorted(ends, cells, side="right") - 1
            for place, number in enumerate(part):
                mine = which == place
                yield number, cells[mine] - ends[place], counts[mine]

    def _bounded(self, codes: "ibis.Table") -> "ibis.Table":
        """At most `max_records` records of a unit: those whose keyed lot is lowest.

        A lot is the hash of the unit (its keyed hash), the record's codes and, among a unit's records of equal codes, a number. Records of
        equal codes are alike, so which of them has which number changes nothing: what is kept depends on that unit and the key alone.
        """
        import ibis

        names = [name for name in codes.columns if name != UNIT]
        alike = ibis.row_number().over(ibis.window(group_by=[UNIT, *names], order_by=names))
        numbered = codes.mutate(alike=alike)
        parts: list[Any] = [numbered[UNIT], *(numbered[name].cast("string") for name in (*names, "alike"))]
        lot = coded.md5(ibis.literal("/").join(parts))
        drawn = numbered.mutate(lot=lot)
        order = [drawn.lot, *(drawn[name] for name in (*names, "alike"))]
        ranked = drawn.mutate(
            **{
                PLACE: ibis.row_number().over(ibis.window(group_by=UNIT, order_by=order)),
                KEPT: drawn.count().over(ibis.window(group_by=UNIT)),
            }
        )
        kept = ranked.filter(ranked[PLACE] < self.max_records)
        least = ibis.least(kept[KEPT], self.max_records).cast("int32")
        return kept.select(*names, **{PLACE: kept[PLACE].cast("int32"), KEPT: least})

    def _unit(self) -> Any:
        """A keyed hash of the unit's name; records whose unit is missing count as one unit."""
        import ibis

        name: Any = self.cells[str(self.schema.unit)].cast("string").fill_null("")
        return coded.md5(ibis.literal("/").join([ibis.literal(self.key.hex()), name]))

    def _number(self, expression: Any) -> int:
        (row,) = self.table.rows(expression.name(COUNT).as_table()).to_pylist()
        return int(row[COUNT])
