"""Excel workbooks (.xlsx): one sheet, whose first row is the header. Numbers, dates and truth values are what they are.

Text cells are read, and written, as the schema's `reading` says, as those of a CSV file are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal, in_numbers
from synthdp.schema.file_coding import PLAIN, SPACE, Coded
from synthdp.schema.schema import Schema
from synthdp.tables import csvfile, foreign
from synthdp.tables.foreign_parser import BLANK, DAY, INSTANT, NUMBER, TEXT, TRUTH

MOST_ROWS = 1_048_575  # of a sheet, below its header
MOST_LETTERS = 32_767  # of a cell
FIRST_DAY = date(1900, 3, 1)  # before it, Excel's calendar has a day that never was


@dataclass(frozen=True)
class Sheet:
    """The cells of a sheet: of each column the texts, null where they are blank, and what each cell is (`foreign_parser`). `lines`: the row
    of each record; `others`: further sheets that hold something; `covers`: those of them that come before it and hold no table;
    `larger`: those that have more rows; `odd`: why each further sheet holds none, if no sheet does; `titles`: rows above the header that
    are no records; `merged`: columns with merged cells."""

    name: str
    names: list[str]
    texts: list[pa.ChunkedArray]
    kinds: list[NDArray[np.int8]]
    lines: NDArray[np.int64]
    others: list[str]
    titles: int = 0
    merged: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    larger: tuple[str, ...] = ()
    odd: dict[str, str] = field(default_factory=dict)


def opened(path: Path, wanted: str | None) -> Sheet:
    """The sheet of that name, by default the first one that is visible and holds a table. Raises `BadInput`."""
    found = foreign.parsed(path, foreign.XLSX, wanted)
    facts, table = found.facts, found.table
    places = range(len(facts["names"]))
    return Sheet(
        name=facts["sheet"],
        names=facts["names"],
        texts=[table.column(str(place)) for place in places],
        kinds=[table.column(f"k{place}").to_numpy() for place in places],
        lines=table.column("line").to_numpy(),
        others=facts["others"],
        titles=facts["titles"],
        merged=tuple(facts["merged"]),
        covers=tuple(facts["covers"]),
        larger=tuple(facts["larger"]),
        odd=facts["odd"],
    )


def declared(path: Path, schema: Schema) -> Sheet:
    """The sheet that the schema names, or the only one: which of several is read must not hang on a record. Raises `BadInput`."""
    sheet = opened(path, (schema.reading or PLAIN).sheet)
    if sheet.others:
        names = ", ".join(map(repr, [sheet.name, *sheet.others]))
        raise BadInput(f"{path}: several sheets hold cells ({names}); name one in the schema, as sheet under reading")
    return sheet


def read(path: Path, schema: Schema | None) -> pd.DataFrame:
    """See `record_files.read`."""
    reading = PLAIN if schema is None or schema.reading is None else schema.reading
    sheet = opened(path, None) if schema is None else declared(path, schema)
    names = csvfile.names_of(path, [name.strip(SPACE) if reading.strip else name for name in sheet.names], schema)
    columns = {column.name: column for column in schema.columns} if schema else {}
    left_out = {column.name for column in schema.ignored} if schema else set()
    made = {}
    for place, name in enumerate(names):
        if name in columns:
            plain = plain_texts(sheet.texts[place], sheet.kinds[place], reading.of(columns[name]))
            if isinstance(columns[name], Categorical | Ordinal | Identifier):
                word = pa.scalar(None if isinstance(columns[name], Identifier) else cells.UNREADABLE, pa.string())
                plain = pc.if_else(_too_long(sheet.texts[place], sheet.kinds[place]), word, plain)
            made[name] = csvfile.typed(_harmless(plain, columns[name]), PLAIN.of(columns[name]))
        elif name not in left_out:
            made[name] = csvfile.guessed(sheet.texts[place])
    return pd.DataFrame(made)


def _too_long(texts: pa.ChunkedArray, kinds: NDArray[np.int8]) -> pa.ChunkedArray:
    """Which cells hold a number that may stand for several: a workbook's numbers are floats."""
    numbers = pc.cast(pc.if_else(pa.array(kinds == NUMBER), texts, "0"), pa.float64())
    return pc.greater(pc.abs(numbers), cells.longest(np.dtype(np.float64)))


def plain_texts(texts: pa.ChunkedArray, kinds: NDArray[np.int8], coded: Coded) -> pa.ChunkedArray:
    """The cells in the plain coding, null where they are missing. Typed ones have neither a sign before decimals nor a format of dates."""
    if coded.is_plain:
        return texts
    typed = coded.of_number()
    typed = replace(typed, coding=replace(typed.coding, date=None, latest=None))
    written = csvfile.plain_texts(texts, coded)
    return pc.if_else(pa.array(kinds == TEXT), written, csvfile.plain_texts(texts, typed))


def _harmless(texts: pa.ChunkedArray, column: Any) -> pa.ChunkedArray:
    """Texts as a CSV file has them, which `csvfile.typed` reads: here = at the start of a text is no formula."""
    if not isinstance(column, Categorical | Ordinal):
        return texts
    encoded = texts.combine_chunks().dictionary_encode()
    safe = [csvfile.neutral(text) for text in encoded.dictionary.to_pylist()]
    return pa.chunked_array([pc.take(pa.array(safe, pa.string()), encoded.indices)])


def write(chunks: "Iterable[pd.DataFrame]", part: Path, schema: Schema, path: Path) -> int:
    """See `record_files.write`."""
    reading = schema.reading or PLAIN
    coded = [reading.of(column) for column in schema.columns]
    parts = ([_cells(chunk, each) for each in coded] for chunk in chunks)
    return write_cells(parts, part, path, list(schema.names), reading.sheet)


Cells = tuple[list[str | None], NDArray[Any]]


def write_cells(
    parts: Iterable[list[Cells]], part: Path, path: Path, names: list[str], sheet: str | None = None
) -> int:
    """Write cells, column by column in each part, into a workbook of one sheet, and return the number of rows."""
    try:
        import xlsxwriter
    except ImportError as error:
        raise foreign.lacking(foreign.XLSX, str(error.name)) from None
    rows = 0
    with xlsxwriter.Workbook(str(part), {"constant_memory": True, "tmpdir": str(part.parent)}) as book:
        book.set_properties({"created": datetime(2000, 1, 1)})  # the same records make the same file
        days = {
            DAY: book.add_format({"num_format": "yyyy-mm-dd"}),
            INSTANT: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        }
        table = book.add_worksheet(sheet or "Sheet1")
        for place, name in enumerate(names):
            table.write_string(0, place, name)
        for columns in parts:
            for row in zip(*(zip(texts, kinds.tolist(), strict=True) for texts, kinds in columns), strict=True):
                rows += 1
                if rows > MOST_ROWS:
                    raise BadInput(
                        f"{path}: a sheet holds at most {MOST_ROWS:,} records; write a .csv or .parquet file"
                    )
                for place, (text, kind) in enumerate(row):
                    _put(table, (rows, place), text, kind, days, path)
    return rows


def _put(table: Any, at: tuple[int, int], text: str | None, kind: int, days: dict[int, Any], path: Path) -> None:
    if kind == BLANK or not text:
        return
    if kind == NUMBER:
        table.write_number(*at, float(text))
    elif kind == TRUTH:
        table.write_boolean(*at, text == "true")
    elif kind in days and (moment := datetime.fromisoformat(text)).date() >= FIRST_DAY and not moment.microsecond:
        table.write_datetime(*at, moment, days[kind])
    elif len(text) > MOST_LETTERS:
        raise BadInput(
            f"{path}: an Excel cell holds at most {MOST_LETTERS:,} characters; write a .csv or .parquet file"
        )
    else:
        table.write_string(*at, text)


def _cells(chunk: pd.DataFrame, coded: Coded) -> Cells:
    """The cells of a column, and what they are: text where the real file has them as text."""
    as_text = any(
        key is not None
        for key in (coded.coding.decimal, coded.coding.thousands, coded.coding.suffix, coded.coding.time)
    )
    typed = coded if as_text else replace(coded, reading=replace(coded.reading, decimal="."))
    texts = [csvfile.restored(text) for text in csvfile.written(chunk, typed, {})]
    kinds = np.fromiter((_kind(coded, text, as_text=as_text) for text in texts), np.int8, len(texts))
    gone = chunk[coded.column.name].isna().to_numpy()
    absent = NUMBER if _is_number(coded.absent) else TEXT if coded.absent else BLANK
    return list(texts), np.where(gone, absent, kinds)


def _kind(coded: Coded, text: str, *, as_text: bool) -> int:
    column = coded.column
    if isinstance(column, Datetime):
        return TEXT if coded.date is not None else INSTANT if len(text) > len("2020-01-31") else DAY
    if isinstance(column, Integer | Continuous):
        return TEXT if as_text or text in coded.numbers else NUMBER
    if isinstance(column, Boolean) and not coded.words:
        return TRUTH
    counted = coded.coding.pattern == "#"
    return NUMBER if (counted or coded.words or coded.labels or in_numbers(column)) and _is_number(text) else TEXT


def _is_number(text: str) -> bool:
    """Whether a code is one that Excel would hold as a number."""
    return csvfile.PLAIN_NUMBER.fullmatch(text) is not None and str(int(float(text))) == text
