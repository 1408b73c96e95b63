"""CSV files. Every cell is read as text first, so that one odd cell cannot change what the others are.

A schema's `reading` says how a file is written: its cells are brought to the plain coding first, and written ones from it last.
"""

import codecs
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from synthdp.errors import BadInput
from synthdp.files import atomic, limits
from synthdp.schema import cells
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Integer,
    Ordinal,
    in_numbers,
    spoken,
)
from synthdp.schema.file_coding import FORMULA, NEWLINES, PLAIN, SPACE, Coded, Reading
from synthdp.schema.schema import Schema
from synthdp.tables import csv_lines

# ---- Text that a spreadsheet would run as a formula (CSV injection): harmless on the way out, restored on the way in.


MARK = "'"
PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def neutral(text: str) -> str:
    """The text with a mark before it if it begins with = + - @ TAB CR or NUL; plain numbers are harmless and stay.

    Text that begins with marks and then one of these gets one more, so that `restored` is exact.
    """
    return MARK + text if FORMULA.match(text) and not PLAIN_NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """The inverse of `neutral`."""
    return text[1:] if text.startswith(MARK) and neutral(text[1:]) == text else text


ABSENT = ("", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL", "NaT")  # besides "", only where not a category
HEADER_BYTES = 1 << 20
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
TAB = "\t"
NO_COLUMN = "(after the last separator)"  # what stands for a name where a header ends with a separator
AFTER_THE_LAST = "holds something after the last separator, where the header has no name"
LEADING_ZERO = r"^-?0[0-9]"
NUMBER = rf"^{cells.NUMBER}$"  # Arrow's casts to whole numbers read hexadecimal, to others not


def read(path: Path, schema: Schema | None) -> pd.DataFrame:
    """See `sources.read`."""
    reading = PLAIN if schema is None or schema.reading is None else schema.reading
    names, delimiter = header(path, None if schema is None else schema.reading)
    plain = names_of(path, names, schema)
    if schema is not None and len(plain) == 1 < len(schema.names) and max(map(plain[0].count, ",;\t|")) > 0:
        raise BadInput(
            f"{path}: line 1: expected {'tabs' if delimiter == TAB else repr(delimiter)} between the names of the columns, found none; "
            "correct separator under reading, or the ending of the file's name"
        )
    if path.name.lower().endswith(".gz"):
        limits.check_unpacked(path)
    table = texts(path, names, delimiter, reading.encoding)
    declared = {column.name: column for column in schema.columns} if schema else {}
    left_out = {column.name for column in schema.ignored} if schema else set()
    ours = neutralised(path)
    made = {
        name: typed(table.column(place), reading.of(declared[name]), neutralised=ours)
        if name in declared
        else guessed(table.column(place))
        for place, name in enumerate(plain)
        if name not in left_out
    }
    return pd.DataFrame(made)


def names_of(path: Path, names: list[str], schema: Schema | None) -> list[str]:
    """The names of the columns. Raises `BadInput` where one has none, or two have the same."""
    plain = [_plain_name(name, schema) for name in (names[:-1] if names[-1:] == [NO_COLUMN] else names)]
    if "" in plain:
        place = plain.index("") + 1
        if names[-1] == NO_COLUMN and not any(plain[place:]):
            raise BadInput(
                f"{path}: column {place} has no name in the header, nor has any after it; delete the empty columns at the right of the "
                "table, or delete titles above the header"
            )
        raise BadInput(
            f"{path}: column {place} has no name in the header; name it, save the table without its index, or delete "
            "titles above the header"
        )
    repeated = next((name for name, times in Counter(plain).items() if times > 1), None)
    if repeated is None:
        return plain
    if schema is not None and not set(plain) & {column.name for column in schema.columns}:
        raise BadInput(f"{path}: no column of the schema is in the first row; is the header row missing?")
    *places, last = (str(place) for place, name in enumerate(plain, 1) if name == repeated)
    raise BadInput(  # without the name: where the header is missing, it is a cell
        f"{path}: columns {', '.join(places)} and {last} of the header have the same name; keep one of each. If the first row is a record, "
        "add a header above it"
    )


def write(chunks: "Iterable[pd.DataFrame]", path: Path, schema: Schema) -> int:
    """See `sources.write`. The listing is there before the file, and that of an older file goes after it: whenever the machine
    stops, the identifiers of the file that is there are read as they were written."""
    with ExitStack() as stack:
        out: Any = stack.enter_context(stack.enter_context(atomic.file(path)).open("wb"))
        if path.name.lower().endswith(".gz"):
            out = stack.enter_context(gzip.GzipFile(fileobj=out, mode="wb", mtime=0))
        rows, found = stream(chunks, out, schema, path)
        if found:
            _list_neutralised(found, path)
    if not found:
        listing(path).unlink(missing_ok=True)
    return rows


def stream(chunks: "Iterable[pd.DataFrame]", out: Any, schema: Schema, path: Path) -> tuple[int, dict[str, set[str]]]:
    """Write to an open file, whose kind `path` names; the number of records, and the texts of each column that were neutralised."""
    if schema.reading is not None:
        return _write_coded(chunks, out, schema, path, schema.reading)
    found: dict[str, set[str]] = {}
    rows = 0
    header = [_neutralised(name, "", found) for name in schema.names]
    types = pa.schema([(name, _csv_type(column)) for name, column in zip(header, schema.columns, strict=True)])
    options = pacsv.WriteOptions(delimiter=separator(path, None) or ",")
    with pacsv.CSVWriter(out, types, write_options=options) as writer:
        for chunk in chunks:
            arrays = [_cells(chunk[column.name], column, found) for column in schema.columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=types))
            rows += len(chunk)
    return rows, found


def listing(path: Path) -> Path:
    """Where the neutralised texts of a CSV file are listed."""
    return path.with_name(path.name + ".neutralised.json")


def neutralised(path: Path) -> bool:
    """Whether texts of a CSV file were neutralised when it was written: a listing of them then stands beside it. In a file of someone else
    =A and '=A may be two people, so identifiers are taken as they are."""
    return listing(path).exists()


def _write_coded(
    chunks: "Iterable[pd.DataFrame]", out: Any, schema: Schema, path: Path, reading: Reading
) -> tuple[int, dict[str, set[str]]]:
    """The same in the file's own coding."""
    found: dict[str, set[str]] = {}
    rows, coded = 0, [reading.of(column) for column in schema.columns]
    text = io.TextIOWrapper(out, encoding=reading.encoding, newline="")
    writer = csv.writer(text, delimiter=separator(path, reading) or ",", lineterminator=NEWLINES[reading.newline])
    try:
        writer.writerow([_neutralised(name, "", found) for name in schema.names])
        for chunk in chunks:
            writer.writerows(zip(*(written(chunk, each, found) for each in coded), strict=True))
            rows += len(chunk)
        text.flush()
    except UnicodeEncodeError:
        raise BadInput(
            f"{path}: not written, since some text of the records cannot be written in {csv_lines.NAMES[reading.encoding]}, the encoding "
            "of the schema's reading; declare utf-8 there, or write a .parquet file"
        ) from None
    finally:
        text.detach()
    return rows, found


def written(chunk: pd.DataFrame, coded: Coded, found: dict[str, set[str]]) -> list[str]:
    """The cells of a column in the file's coding; the texts that were neutralised go into `found`."""
    return _written(_cells(_named(chunk, coded), coded.column, found), coded, found)


def _named(chunk: pd.DataFrame, coded: Coded) -> "pd.Series[Any]":
    series = chunk[coded.column.name]
    if coded.labels:
        return series.astype(object).map(coded.code, na_action="ignore")
    return series if coded.coding.pattern is None else series.map(coded.named, na_action="ignore")


def _written(array: pa.Array, coded: Coded, found: dict[str, set[str]]) -> list[str]:
    """Plain cells as the file has them."""
    column, absent = coded.column, coded.absent
    encoded = array.dictionary_encode()
    values = encoded.dictionary
    if isinstance(column, Boolean):
        words = coded.coding.words or ("false", "true")
        texts = [_neutralised(words[value], column.name, found) for value in values.to_pylist()]
    elif isinstance(column, Datetime):
        stamps = [value.isoformat() if value is not None else "" for value in values.to_pylist()]
        texts = [stamp.replace("T", " ") if coded.date is None else coded.date.write(stamp) for stamp in stamps]
    elif isinstance(column, Integer | Continuous):
        texts = [_number_written(value, coded) for value in values.to_pylist()]
    else:
        texts = [str(value) for value in values.to_pylist()]
    if coded.coding.width is not None:
        texts = [text.ljust(coded.coding.width) for text in texts]
    places = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)
    return cast("list[str]", np.array([*texts, absent], dtype=object)[places].tolist())


def _number_written(value: float, coded: Coded) -> str:
    if (text := coded.text_of.get(float(value))) is not None:
        return text
    places = coded.coding.places
    return coded.number(repr(value) if places is None else f"{value:.{places}f}")


def separator(path: Path, reading: Reading | None) -> str | None:
    """What separates the cells of a file: a tab where its name says so, else what is declared; None where that is nowhere said."""
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return TAB
    return None if reading is None else reading.separator


def header(path: Path, reading: Reading | None = None) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter: the declared one, else the one of , ; TAB that is most frequent in it. A line that
    ends with a delimiter has `NO_COLUMN` for a last name: it stands for no column, and its cells must be blank."""
    encoding = "utf-8-sig" if reading is None or reading.encoding == "utf-8" else reading.encoding
    try:
        with csv_lines.opened(path) as file:
            read = file.read(HEADER_BYTES)
    except limits.BROKEN:
        raise BadInput(f"{path}: is not a complete gzip file") from None
    if encoding in csv_lines.ONE_BYTE and read.startswith(codecs.BOM_UTF8):
        raise BadInput(
            f"{path}: line 1: expected {csv_lines.NAMES[encoding]} text, found the byte order mark of UTF-8; write "
            "encoding: utf-8-sig under reading"
        )
    marked = read.startswith(UTF_16)
    if marked and encoding != "utf-16":
        raise BadInput(
            f"{path}: line 1: expected {csv_lines.NAMES[encoding]} text, found the byte order mark of UTF-16; write encoding: utf-16 "
            "under reading"
        )
    if not marked and b"\0" in read[:4]:
        raise BadInput(
            f"{path}: line 1: UTF-16 without a byte order mark is not read; save the file with the mark, or as UTF-8"
        )
    if not marked and read and encoding == "utf-16":
        raise BadInput(
            f"{path}: line 1: expected UTF-16 text with its byte order mark; correct encoding: under reading, or save the file "
            "with the mark"
        )
    start = read.decode(encoding, errors="ignore")
    line = start.lstrip("\r\n").split("\n", 1)[0]
    if not line.strip():
        raise BadInput(f"{path}: the file is empty, expected a header line")
    delimiter = separator(path, reading) or max(",;\t", key=line.count)
    try:
        names = next(csv.reader(io.StringIO(start.lstrip("\r\n"), newline=""), delimiter=delimiter))
    except (csv.Error, StopIteration):
        raise BadInput(f"{path}: the header line cannot be read as CSV") from None
    limits.check_width(path, len(names))
    if len(names) > 1 and not names[-1].strip(SPACE):
        names[-1] = NO_COLUMN
    return [name.strip(SPACE) for name in names] if reading is not None and reading.strip else names, delimiter


def texts(path: Path, names: list[str], delimiter: str, encoding: str = "utf-8") -> pa.Table:
    """The cells as text, null where they are blank; columns are named by their places. Raises `BadInput` with the number of a line
    that is not as the header, opens a quote and does not close it, is not of the encoding, or holds something after the last separator
    where the header does not."""
    places = [str(place) for place in range(len(names))]
    try:
        with csv_lines.opened(path) as file:
            table = pacsv.read_csv(
                cast("Any", Blocks(file, encoding)),
                read_options=pacsv.ReadOptions(
                    column_names=places, skip_rows=0, skip_rows_after_names=1, block_size=4 * csv_lines.MOST_LINE
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=len(names) > 1
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(places, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
    except (pa.ArrowInvalid, UnicodeDecodeError, *limits.BROKEN) as error:
        long = "straddl" in str(error)  # Arrow's own words may hold cells: none of them is repeated
        csv_lines.check(path, encoding, delimiter, len(names))
        why = "a row is longer than a MiB" if long else "it cannot be read as CSV"
        raise BadInput(f"{path}: {why}; is a quote left open, or in the middle of a cell?") from None
    if _longest(table) > csv_lines.MOST_LINE:
        csv_lines.check(path, encoding, delimiter, len(names))
        raise BadInput(f"{path}: a row is longer than a MiB; is a quote left open?")
    if csv_lines.held(path, b'"'):  # Arrow reads on to the end where one is left open
        for _ in csv_lines.records(path, encoding, delimiter):
            pass
    if names[-1] != NO_COLUMN:
        return table
    held = pc.fill_null(pc.utf8_trim(table.column(-1), characters=SPACE), "")
    if (first := pc.index(pc.equal(held, ""), pa.scalar(value=False)).as_py()) >= 0:
        line = csv_lines.line_of(path, encoding, delimiter, first)
        raise BadInput(
            f"{path}: line {line}: {AFTER_THE_LAST}; name this column in the header, or delete titles above the header"
        )
    return table.remove_column(len(names) - 1)


def _longest(table: pa.Table) -> int:
    """The length of the longest row, its cells and what separates them: told by no other row. Arrow refuses rows by where they are among
    others, but none of up to a MiB in blocks of four: quotes make a row three times as long at most."""
    held = pa.scalar(table.num_columns, pa.int64())
    for column in table.columns:
        held = pc.add(held, pc.fill_null(pc.binary_length(column), 0))
    return int(pc.max(held).as_py() or 0) if table.num_rows else 0


class Blocks:
    """A file as UTF-8, a block at a time; no block ends between a CR and its LF. Arrow takes an LF that begins a block for the end of a
    line, even within quotes, and drops it. Otherwise the length of all earlier records would decide where that happens."""

    closed = False  # Arrow asks

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._rest = file, b""
        utf8 = encoding.startswith("utf-8")  # Arrow knows its byte order mark
        self._decoder = None if utf8 else codecs.getincrementaldecoder(encoding)("strict")

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        more = True
        while more and len(self._rest) <= size:
            raw = self._file.read(size)
            more = bool(raw)
            self._rest += raw if self._decoder is None else self._decoder.decode(raw, not more).encode()
        if not more and self._rest and not self._rest.endswith((b"\n", b"\r")):
            self._rest += b"\n"  # Arrow refuses a header whose line does not end
        cut = size - (size > 1 and self._rest[size - 1 : size + 1] == b"\r\n")
        block, self._rest = self._rest[:cut], self._rest[cut:]
        return block


def _plain_name(name: str, schema: Schema | None) -> str:
    return restored(name) if schema is not None and restored(name) in schema.names else name


def typed(array: pa.ChunkedArray, coded: Coded, *, neutralised: bool = False) -> "pd.Series[Any]":
    """The cells of a declared column, from text as the file has it; identifiers are restored where they were `neutralised`."""
    column = coded.column
    if not coded.is_plain:
        array = plain_texts(array, coded)
    if isinstance(column, Identifier) and not neutralised:
        return _frame_text(_without_marks(array, ABSENT[:1]))
    if isinstance(column, Categorical | Ordinal | Identifier):
        return _texts(array, column)
    array = _without_marks(array, ABSENT)
    if isinstance(column, Integer | Continuous):
        return _numbers(array, pa.int64() if isinstance(column, Integer) else pa.float64())
    return _converted(array, *((_truth, "boolean") if isinstance(column, Boolean) else (_instant, "datetime64[us]")))


def plain_texts(array: pa.ChunkedArray, coded: Coded) -> pa.ChunkedArray:
    """The cells in the plain coding, null where they are missing."""
    encoded = array.combine_chunks().dictionary_encode()
    found = encoded.dictionary.to_pylist()
    texts = [coded.plain(restored(text) if coded.words or coded.labels else text) for text in found]
    return pa.chunked_array([pc.take(pa.array(texts, pa.string()), encoded.indices)])


def guessed(array: pa.ChunkedArray, *, text: bool = False) -> "pd.Series[Any]":
    """Numbers where every cell is one and none has a leading zero (a code); text otherwise, or if it is asked for."""
    array = _without_marks(array, ABSENT)
    if text or array.null_count == len(array) or _holds(array, LEADING_ZERO) or not _are_numbers(array):
        return _frame_text(array)
    for kind in (pa.int64(), pa.float64()):
        try:
            return _pandas_numbers(pc.cast(array, kind))
        except pa.ArrowInvalid:
            continue
    return _frame_text(array)


def known_and_marks(column: Any) -> tuple[tuple[str, ...], list[str]]:
    """The texts that a label may be, where they are declared, and the marks of absence, none of which is one of them."""
    known = () if isinstance(column, Identifier) or column.categories == "learn" else spoken(column)
    marks = ABSENT if known and column.missing else ABSENT[:1]
    return known, [mark for mark in marks if mark not in known]


def meant(text: str, known: Collection[str]) -> str:
    """What a label stands for; a file of someone else may hold a category that only looks like one made harmless."""
    return text if text in known and restored(text) not in known else restored(text)


def _texts(array: pa.ChunkedArray, column: Any) -> "pd.Series[Any]":
    known, marks = known_and_marks(column)
    encoded = _without_marks(array, marks).combine_chunks().dictionary_encode()
    spelled = [meant(text, known) for text in encoded.dictionary.to_pylist()]
    if in_numbers(column):
        spelled = [cells.whole(text) for text in spelled]
    return _frame_text(pc.take(pa.array(spelled, pa.string()), encoded.indices))


def _numbers(array: pa.ChunkedArray, kind: pa.DataType) -> "pd.Series[Any]":
    for wanted in dict.fromkeys((kind, pa.float64()) if _are_numbers(array) else ()):
        try:
            return _pandas_numbers(pc.cast(array, wanted))
        except pa.ArrowInvalid:
            continue
    return pd.Series([_number(text) for text in array.to_pylist()], dtype=object)


def _holds(array: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(array, pattern)).as_py())


def _are_numbers(array: pa.ChunkedArray) -> bool:
    return pc.all(pc.match_substring_regex(array, NUMBER)).as_py() is not False


def _number(text: str | None) -> float | str | None:
    if text is None:
        return None
    found = cells.number(text)
    return text if found is None else found


def _pandas_numbers(array: pa.ChunkedArray) -> "pd.Series[Any]":
    if array.null_count and pa.types.is_integer(array.type):
        mask = np.asarray(pc.is_null(array))
        return pd.Series(pd.arrays.IntegerArray(np.asarray(pc.fill_null(array, 0)), mask))
    return pd.Series(array.to_numpy())


def _converted(array: pa.ChunkedArray, convert: Any, dtype: str) -> "pd.Series[Any]":
    """The cells as `dtype` if all can be converted, else as the text that they are."""
    encoded = array.combine_chunks().dictionary_encode()
    values = [convert(text) for text in encoded.dictionary.to_pylist()]
    if any(value is None for value in values):
        return _frame_text(array)
    if dtype == "boolean" and not array.null_count:
        dtype = "bool"
    places = np.asarray(pc.fill_null(encoded.indices, len(values)))
    return pd.Series([*values, None], dtype=object).take(places).reset_index(drop=True).astype(dtype)  # type: ignore[call-overload,no-any-return]


def _truth(text: str) -> bool | None:
    found = cells.TRUTHS.get(cells.truth(text))
    return None if found is None else bool(found)


def _instant(text: str) -> Any:
    found = cells.instant(text)
    return None if found is None else np.datetime64(found, "us")


def _without_marks(array: pa.ChunkedArray, marks: Iterable[str]) -> pa.ChunkedArray:
    found = pc.is_in(array, value_set=pa.array(list(marks), pa.string()))
    return pc.if_else(found, pa.scalar(None, pa.string()), array)


def _frame_text(array: Any) -> "pd.Series[Any]":
    return pd.Series(array.to_pylist(), dtype="str")


def _csv_type(column: Column) -> pa.DataType:
    if isinstance(column, Boolean):
        return pa.bool_()
    if isinstance(column, Datetime):
        unit = {"day": None, "microsecond": "us"}.get(column.resolution, "s")
        return pa.date32() if unit is None else pa.timestamp(unit)
    if in_numbers(column):
        return pa.int64()
    return {"integer": pa.int64(), "continuous": pa.float64()}.get(column.kind, pa.string())


def _cells(series: "pd.Series[Any]", column: Column, found: dict[str, set[str]]) -> pa.Array:
    if isinstance(column, Categorical | Ordinal | Identifier) and not in_numbers(column):
        encoded = pa.array(series.astype(object), pa.string(), from_pandas=True).dictionary_encode()
        texts = [_neutralised(text, column.name, found) for text in encoded.dictionary.to_pylist()]
        return pc.take(pa.array(texts, pa.string()), encoded.indices)
    return pa.array(series, from_pandas=True).cast(_csv_type(column), safe=not isinstance(column, Datetime))


def _neutralised(text: str, column: str, found: dict[str, set[str]]) -> str:
    safe = neutral(text)
    if safe != text:
        found.setdefault(column, set()).add(text)
    return safe


def _list_neutralised(found: dict[str, set[str]], path: Path) -> None:
    content = {
        "file": path.name,
        "mark": MARK,
        "header": sorted(found.get("", ())),
        "columns": {column: sorted(texts) for column, texts in found.items() if column},
    }
    atomic.write(listing(path), json.dumps(content, indent=2, ensure_ascii=True) + "\n")
