"""A database's columns as the codec's codes: expressions that a database computes, equal to `Codec.encode` cell for cell.

Labels are looked up among the spellings that the codec knows; numbers and instants are compared with the public steps of their bins
(`steps`). What cannot be made equal is refused, by the column's type, before anything is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from synthdp.errors import BadInput, about
from synthdp.schema import cells
from synthdp.schema.bins import Bins, bins_of
from synthdp.schema.check import UNFIT
from synthdp.schema.codec import Codec
from synthdp.schema.columns import (
    EXACT,
    LEARN,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Image,
    Integer,
    Ordinal,
    microseconds,
)
from synthdp.schema.linked_tables import keys_of, of_table
from synthdp.schema.schema import Schema
from synthdp.tables import csv_cells, csvfile

if TYPE_CHECKING:
    import ibis
    from ibis import Value


# ---- Codes of a numeric column as steps: from which number on which code holds. What a database can compare, and nothing to round.


Numbers = NDArray[Any]  # float64, or int64 microseconds of a datetime


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The code of x is codes[i], i the number of `starts` (ascending) that are at most y = x * scale.

    Equal to `Bins.encode` for every number, infinite ones too (datetimes: int64 microseconds up to 2^53, scale 1): rounding half to even
    and clipping are in the starts, so that y, one product of doubles, is all that is computed.
    """

    starts: Numbers
    codes: NDArray[np.int64]  # one more than starts
    scale: float


def steps_of(bins: Bins, *, dates: bool = False) -> Steps:
    """The steps of a column's bins and atoms; those of `dates` are whole microseconds, without rounding."""
    inner = bins.edges[1:-1]
    if dates:
        return _merged(inner * bins.period, np.arange(len(inner) + 1), 1.0)
    first, last = bins.edges[0], bins.edges[-1] - (bins.scale is not None)
    start, after = (_rounded_to, _rounded_beyond) if bins.scale is not None else (float, _next)
    starts = np.array([start(edge) for edge in inner], np.float64)
    marks = {point: int(np.searchsorted(starts, point, side="right")) for point in (-math.inf, *starts)}
    for place, atom in enumerate(bins.atoms):
        low = -math.inf if atom <= first else start(atom)
        high = math.inf if atom >= last else after(atom)
        if high < math.inf:
            marks.setdefault(high, int(np.searchsorted(starts, high, side="right")))
        marks[low] = bins.count + place
    ordered = sorted(marks)
    return _merged(np.array(ordered[1:], np.float64), np.array([marks[point] for point in ordered]), bins.scale or 1.0)


def _merged(starts: Numbers, codes: NDArray[Any], scale: float) -> Steps:
    """Steps that change nothing are left out."""
    kept = np.flatnonzero(codes[1:] != codes[:-1])
    return Steps(starts=starts[kept], codes=np.append(codes[:1], codes[kept + 1]).astype(np.int64), scale=scale)


def _rounded_to(point: int) -> float:
    """The least double that rounds (half to even) to `point` or more. Beyond 2^52 there are no halves, and the difference rounds
    to a whole number: to `point` where that is even, else to the one below it."""
    half = float(point) - 0.5
    return half if point % 2 == 0 else _next(half)


def _rounded_beyond(point: int) -> float:
    """The least double that rounds to more than `point`."""
    return _rounded_to(int(point) + 1)


def _next(value: float) -> float:
    return math.nextafter(float(value), math.inf)


# ruff: noqa: PD003 - Ibis has isnull, and no isna


FEW = 64  # spellings that are compared one after the other; more are looked up in a table of their own
DIGITS = 15  # of a decimal that every engine turns into the nearest double by itself
LEAST = 1e-300  # smaller cells are as good as 0: no step lies between
MOST_DIGITS = 300  # of a decimal that is surely in the range of doubles
# 309 digits; 323 zeros: PostgreSQL counts no further than 255 at once.
HUGE, TINY = (r"^-?([0-9]{103}){3}", r"^-?0?[.](0{19}){17}")
EPOCH = datetime(1970, 1, 1)
DAY = timedelta(days=1)
NANOSECONDS = 9  # decimals of a second
OLDEST, NEWEST = datetime(1677, 9, 22), datetime(2262, 4, 11)  # days that 64 bits of nanoseconds hold


@dataclass(frozen=True, kw_only=True)
class Spelled:
    """What the cells of a label column may be, and the code of each; of what is none of them, and of a missing one."""

    codes: Mapping[Any, int]
    unknown: int
    absent: int


def place(number: int) -> str:
    """The name of a column of codes."""
    return f"c{number}"


def coded(table: "ibis.Table", codec: Codec, *, text: bool, **beside: "Value") -> "ibis.Table":
    """The codes of every modelled column, named by `place`, and the columns `beside`. `text`: cells are those of a CSV file, as
    `csv_cells.typed` reads them."""
    lookups = []
    made: dict[str, Any] = {}
    for number, column in enumerate(codec.schema.modelled):
        cell = table[column.name]
        code, lookup = _code(column, cell, number, codec.cells, text=text)
        made[place(number)] = narrow(code, codec.sizes[number])
        lookups += lookup
    chosen = table.select(**{f"x{number}": cell for number, (cell, _) in enumerate(lookups)}, **made, **beside)
    for number, (_, spelled) in enumerate(lookups):
        chosen = _looked_up(chosen, number, spelled)
    return chosen.select(*made, *beside)


def narrow(code: "Value", size: int) -> "Value":
    """A code below `size` in few bytes."""
    return code.cast("int8" if size <= 2**7 else "int16" if size <= 2**15 else "int32")


def check(schema: Schema, table: "ibis.Table", *, text: bool) -> None:
    """Refuse what is not in the table, and what is not stored as it can be read. Public facts only."""
    problems, folded = list(schema.column_problems(table.columns)), [name.lower() for name in table.columns]
    problems += [
        f"column {name!r} is there twice but for case" for name in table.columns if folded.count(name.lower()) > 1
    ]
    if problems:
        raise BadInput(f"{UNFIT}: {'; '.join(problems)}")
    check_declared(schema)
    check_codes(Codec(schema))
    if not text and schema.reading is not None:
        for column in schema.columns:
            coded = schema.reading.of(column)
            odd = any(cells.TRUTHS.get(word) != (plain == "true") for word, plain in coded.words.items())
            if coded.missing or odd or coded.labels:
                raise BadInput(
                    f"column {column.name!r}: codes for missing values, labels and words for truth values (reading) are read from CSV "
                    "files in a database; read the table into memory (data.engine=memory; in Python, fit its frame), or give a view "
                    "that has replaced them"
                )
    for column in schema.columns:
        if not isinstance(column, Identifier) or column.name == schema.unit:
            _check_type(column, table[column.name].type(), text=text)


def check_declared(schema: Schema) -> None:
    """Refuse a schema that leaves something to learn about a table in a database."""
    lacking: dict[str, list[str]] = {}
    for name, item in schema.learned:
        lacking.setdefault(name, []).append(item)
        tree = getattr(schema.column(name), "tree", None)
        if tree is not None and tree.declared:
            raise BadInput(
                f"column {name!r}: which codes of a tree are kept is learned from records in memory; read the table into memory "
                "(data.engine=memory; in Python, fit its frame), or leave the tree out"
            )
    if lacking:
        named = ", ".join(f"{name!r} ({' and '.join(items)})" for name, items in lacking.items())
        raise BadInput(
            f"left to learn, which needs the records in memory: {named}; declare these, or read the table into memory "
            "(data.engine=memory; in Python, fit its frame)"
        )


def check_linked(schema: Schema, tables: "Mapping[str, ibis.Table]") -> None:
    """The same of linked tables, and of their keys."""
    if set(tables) != {each.name for each in schema.tables}:
        raise BadInput(f"the schema links the tables {', '.join(each.name for each in schema.tables)}: give these")
    for each in schema.tables:
        table = tables[each.name]
        with about(f"table {each.name!r}"):
            check(of_table(schema, each), table, text=False)
            for key in keys_of(schema, each):
                _check_type(Identifier(name=key), table[key].type(), text=False)


def check_codes(codec: Codec) -> None:
    """Refuse a schema whose codes are not those of its columns one by one, and codes that only their tree tells."""
    treed = next((column.name for column in codec.schema.modelled if getattr(column, "tree", None) is not None), None)
    if treed is not None:
        raise BadInput(f"column {treed!r}: codes under a tree are read in memory only: load the table into memory")
    if codec.schema.coded != codec.schema.modelled:
        raise BadInput(
            "the schema's rules code several columns together, which is done in memory only: load the table into memory, or leave "
            "the rules out"
        )


def cells_of(table: "ibis.Table", column: Column) -> tuple["Value", "Value"]:
    """A numeric column as comparable numbers (float64, dates or instants), and whether a cell is missing or unreadable."""
    cell = table[column.name]
    return (cell, cell.isnull()) if isinstance(column, Datetime) else _number(cell)


def stepped(column: Column, cell: "Value", steps: Steps) -> "Value":
    """The code of a cell that is none of the missing ones."""
    if isinstance(column, Datetime):
        return _tree(cell, list(_moments(cell, steps)), [int(code) for code in steps.codes])
    if steps.scale != 1.0:  # PostgreSQL raises where a product is too large or too small
        import ibis

        cell = ibis.ifelse(cell.abs() < LEAST, 0.0, cell).clip(-2.0 * EXACT, 2.0 * EXACT) * steps.scale
    return _tree(cell, [real(start) for start in steps.starts], [int(code) for code in steps.codes])


def regrouped(code: "Value", groups: np.ndarray) -> "Value":
    """Codes by the group that a public map gives them."""
    starts = np.flatnonzero(np.diff(groups)) + 1
    return _tree(code, [int(start) for start in starts], [int(groups[0]), *(int(groups[start]) for start in starts)])


def _code(column: Column, cell: "Value", number: int, finer: int, *, text: bool) -> tuple["Value", list[Any]]:
    import ibis

    if isinstance(column, Categorical | Ordinal | Boolean):
        found_as = spelled_of(column, cell.type(), text=text)
        read = csv_cells.spelled(column, cell)
        if read.type().is_floating():  # a literal would be rounded to a narrower type
            read = read.cast("float64")
        if len(found_as.codes) > FEW:
            return ibis.null("int32"), [(read, (number, found_as))]
        found = ibis.literal(found_as.unknown)
        if found_as.codes:
            read, keys = exact(read, list(found_as.codes), text=text)
            codes = found_as.codes.values()
            found = ibis.cases(
                *((read == key, code) for key, code in zip(keys, codes, strict=True)), else_=found_as.unknown
            )
        return ibis.ifelse(_gone(cell), found_as.absent, found), []
    absent = int(
        Codec(Schema(columns=(column,)), finer).encode(pd.DataFrame({column.name: [None]}, dtype=object))[0, 0]
    )
    read, gone = (cell, cell.isnull()) if isinstance(column, Datetime) else _number(cell)
    steps = steps_of(bins_of(column, finer), dates=isinstance(column, Datetime))  # type: ignore[arg-type]
    return ibis.ifelse(gone, absent, stepped(column, read, steps)), []


def _looked_up(table: "ibis.Table", number: int, wanted: tuple[int, Spelled]) -> "ibis.Table":
    import ibis

    column, spelled = wanted
    spellings = ibis.memtable(pa.table({"spelling": list(spelled.codes), "found": list(spelled.codes.values())}))
    cell, spelling = table[f"x{number}"], spellings.spelling
    if cell.type().is_string():  # a record that met two spellings would count twice
        told = _told_apart(table.get_backend().name) or md5
        cell, spelling = told(cell), told(spelling)
    joined = table.left_join(spellings, cell == spelling)
    code = ibis.ifelse(_gone(joined[f"x{number}"]), spelled.absent, ibis.coalesce(joined.found, spelled.unknown))
    return joined.mutate(**{place(column): narrow(code, len(spelled.codes) + 2)}).drop("spelling", "found")


def exact(read: "Value", keys: list[Any], *, text: bool) -> tuple["Value", list[Any]]:
    """A cell and the keys that it is compared with, in a form that distinguishes texts that a column's collation takes for equal.
    `text`: the cell is from a CSV file, which has no collation."""
    import ibis

    told = None if text or not read.type().is_string() else _told_apart(read.get_backend().name)
    return (read, keys) if told is None else (told(read), [told(ibis.literal(key)) for key in keys])


def _told_apart(engine: str) -> "Callable[[Value], Value] | None":
    """The engine's function for the bytes of a text, since a collation such as NOCASE may hold different texts to be equal."""
    import ibis

    @ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
    def encode(text: str) -> bytes: ...  # type: ignore[empty-body]

    @ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
    def textsend(text: str) -> bytes: ...  # type: ignore[empty-body]

    # PostgreSQL has no bytes of an enum, which Ibis takes for text: appending nothing makes it one.
    return {"duckdb": encode, "postgres": lambda cell: textsend(cell.concat(""))}.get(engine)


def md5(text: "Value") -> "Value":
    """32 hexadecimal digits, alike in every engine."""
    import ibis

    @ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
    def md5(text: str) -> str: ...  # type: ignore[empty-body]

    return md5(text)


def spelled_of(column: Categorical | Ordinal | Boolean, kind: Any, *, text: bool) -> Spelled:
    """The spellings of a label column whose cells are of the type `kind`, and what the codec makes of them."""
    keys = list(cells.TRUTHS if isinstance(column, Boolean) else cells.table_of(tuple(column.categories)))
    spellings: list[Any]
    if kind.is_boolean():
        spellings = [True, False]
    elif kind.is_integer():
        least = 0 if kind.is_unsigned_integer() else -(2**63)
        spellings = [int(key) for key in keys if _is_whole(key) and least <= int(key) < 2**63]
    elif kind.is_floating():
        most = longest(kind)
        spellings = [value for value in map(_float, keys) if cells.text(value, most) in keys]
    else:
        spellings = csv_cells.spellings(keys) if text and not isinstance(column, Boolean) else keys
    labelled = text and not isinstance(column, Boolean)
    meant = [csvfile.meant(each, column.categories) if labelled else each for each in spellings]  # type: ignore[union-attr]
    codec = Codec(Schema(columns=(column,)))
    asked = pd.Series([*meant, cells.UNREADABLE, None], dtype=object)
    codes = [int(code) for code in codec.encode(pd.DataFrame({column.name: asked}))[:, 0]]
    return Spelled(codes=dict(zip(spellings, codes, strict=False)), unknown=codes[-2], absent=codes[-1])


def longest(kind: Any) -> float:
    """The same as `cells.longest`, for a database's floats."""
    return cells.longest(np.dtype(np.float32 if kind.is_float32() else np.float64))


def _gone(cell: "Value") -> "Value":
    return cell.isnull() | cell.isnan() if cell.type().is_floating() else cell.isnull()


def _number(cell: "Value") -> tuple["Value", "Value"]:
    """A cell as float64, the nearest one, and whether it is missing."""
    import ibis

    kind = cell.type()
    if kind.is_boolean():  # PostgreSQL does not cast it
        cell = ibis.cases((cell, 1), (~cell, 0))
    if kind.is_decimal() and (kind.precision is None or max(kind.precision, kind.scale or 0) > DIGITS):
        cell = cell.cast("string")
        if kind.precision is None or max(kind.precision, kind.scale or 0) > MOST_DIGITS:
            cell = _in_range(cell)
    cell = cell.cast("float64")
    return cell, _gone(cell)


def _in_range(text: "Value") -> "Value":
    """A decimal of any length as text that a float64 can hold: PostgreSQL raises where one is too large or too small, and a fit
    that is charged must not fail by what a record holds."""
    import ibis

    endless = ibis.ifelse(text.startswith("-"), "-Infinity", "Infinity")
    return ibis.cases((text.re_search(HUGE), endless), (text.re_search(TINY), "0"), else_=text)


def _moments(cell: "Value", steps: Steps) -> Iterator[Any]:
    """The starts (microseconds) in the cell's own type: dates, or instants with or without a zone."""
    for start in steps.starts:
        moment = EPOCH + timedelta(microseconds=int(start))
        yield instant(
            cell, datetime.combine(day_from(moment), datetime.min.time()) if cell.type().is_date() else moment
        )


def instant(cell: "Value", moment: datetime) -> Any:
    """A public instant (UTC) to compare a cell with: a date, or an instant with or without a zone."""
    import ibis

    kind = cell.type()
    if kind.is_date():
        return ibis.literal(moment.date())
    if kind.scale == NANOSECONDS:
        moment = min(max(moment, OLDEST), NEWEST)
    return ibis.literal(moment.replace(tzinfo=UTC) if kind.timezone else moment)


def real(value: float) -> Any:
    """A public number to compare a float64 with: the same double in every engine."""
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")


def day_from(moment: datetime) -> date:
    """The first day that begins at `moment` or after it; the last day of all has none after it, and is beyond any bounds then."""
    day = moment.date()
    return day if moment == datetime.combine(day, datetime.min.time()) or day == date.max else day + DAY


def _tree(cell: "Value", starts: list[Any], codes: list[int]) -> "Value":
    """codes[number of starts that are at most the cell], by halving."""
    import ibis

    if not starts:
        return ibis.literal(codes[0])
    half = len(starts) // 2
    above = _tree(cell, starts[half + 1 :], codes[half + 1 :])
    return ibis.ifelse(cell >= starts[half], above, _tree(cell, starts[:half], codes[: half + 1]))


def _check_type(column: Column, kind: Any, *, text: bool) -> None:
    for fault in _faults_of_type(column, kind, text=text):
        raise BadInput(f"column {column.name!r}{fault}")


def _faults_of_type(column: Column, kind: Any, *, text: bool) -> Iterator[str]:
    where = f" is declared {column.kind} and stored as {kind}"
    if isinstance(column, Image):
        yield ": pictures are not read from a database; load them into memory"
    if isinstance(column, Datetime):
        if not text and not (kind.is_date() or kind.is_timestamp()):
            yield f"{where}: cast it to a date or timestamp in the database, for example in a view"
        far = column.bounds != LEARN and max(abs(microseconds(end)) for end in column.bounds) > EXACT
        if far and column.resolution == "microsecond":
            yield ": microseconds that far from 1970 are not exact; declare resolution: second"
    elif isinstance(column, Integer | Continuous):
        if not text and not (kind.is_integer() or kind.is_floating() or kind.is_boolean() or kind.is_decimal()):
            yield f"{where}: cast it to a number in the database, for example in a view"
    elif isinstance(column, Identifier):
        if not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
            yield f"{where}: units must be text or whole numbers; cast the column in the database, for example in a view"
    elif not (kind.is_string() or kind.is_integer() or kind.is_floating() or kind.is_boolean()):
        yield f"{where}: cast it to text in the database, for example in a view"
    if kind.is_floating() and kind.is_float16():
        yield f"{where}: cast it to a wider number in the database, for example in a view"


def _is_whole(key: str) -> bool:
    return key.removeprefix("-").isdecimal() and str(int(key)) == key


def _float(key: str) -> float:
    try:
        return float(key)
    except ValueError:
        return math.nan
