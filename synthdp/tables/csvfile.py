"""CSV files. Every cell is read as text first, so that one odd cell cannot change what the others are."""

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from synthdp.errors import BadInput
from synthdp.files import limits
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
)
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from pandas import DataFrame, Series


# ---- Text that a spreadsheet would run as a formula (CSV injection): harmless on the way out, restored on the way in.


MARK = "'"
DANGER = re.compile(r"'*[=+\-@\t\r\x00]")
PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def neutral(text: str) -> str:
    """The text with a mark before it if it begins with = + - @ TAB CR or NUL; plain numbers are harmless and stay.

    Text that begins with marks and then one of these gets one more, so that `restored` is exact.
    """
    return MARK + text if DANGER.match(text) and not PLAIN_NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """The inverse of `neutral`."""
    return text[1:] if text.startswith(MARK) and neutral(text[1:]) == text else text


ABSENT = ("", "NA", "N/A", "<NA>", "NaN", "nan", "null", "NULL", "NaT")  # besides "", only where not a category
HEADER_BYTES = 1 << 20
LEADING_ZERO = r"^-?0[0-9]"
NUMBER = rf"^{cells.NUMBER}$"  # Arrow's casts to whole numbers read hexadecimal, to others not


def read(path: Path, schema: Schema | None) -> "DataFrame":
    """See `sources.read`."""
    import pandas as pd

    names, delimiter = header(path)
    plain = [_plain_name(name, schema) for name in names]
    if "" in plain:
        place = plain.index("") + 1
        raise BadInput(
            f"{path}: column {place} has no name in the header; name it, or save the table without its index"
        )
    repeated = sorted(name for name, times in Counter(plain).items() if times > 1)
    if repeated and schema is not None and not set(plain) & {column.name for column in schema.columns}:
        raise BadInput(f"{path}: no column of the schema is in the first row; is the header row missing?")
    if repeated:
        raise BadInput(f"{path}: duplicate columns {', '.join(map(repr, repeated))} in the header; keep one of each")
    if path.name.lower().endswith(".gz"):
        limits.check_unpacked(path)
    table = _table(path, names, delimiter)
    declared = {column.name: column for column in schema.columns} if schema else {}
    made = {
        name: _typed(table.column(place), declared[name]) if name in declared else _guessed(table.column(place))
        for place, name in enumerate(plain)
    }
    return pd.DataFrame(made, columns=plain)


def write(chunks: "Iterable[DataFrame]", part: Path, schema: Schema, path: Path) -> int:
    """See `sources.write`. `part` is the file under its temporary name; the listing stands beside `path`."""
    found: dict[str, set[str]] = {}
    rows = 0
    header = [_neutralised(name, "", found) for name in schema.names]
    types = pa.schema([(name, _csv_type(column)) for name, column in zip(header, schema.columns, strict=True)])
    packed = "gzip" if path.name.lower().endswith(".gz") else None
    with pa.output_stream(part, compression=packed) as out, pacsv.CSVWriter(out, types) as writer:
        for chunk in chunks:
            arrays = [_cells(chunk[column.name], column, found) for column in schema.columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=types))
            rows += len(chunk)
    _list_neutralised(found, path)
    return rows


def listing(path: Path) -> Path:
    """Where the neutralised texts of a CSV file are listed."""
    return path.with_name(path.name + ".neutralised.json")


def header(path: Path) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter: the one of , ; TAB that is most frequent in it."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            start = file.read(HEADER_BYTES).decode("utf-8-sig", errors="ignore")
    except limits.BROKEN:
        raise BadInput(f"{path}: is not a whole gzip file") from None
    line = start.lstrip("\r\n").split("\n", 1)[0]
    if not line.strip():
        raise BadInput(f"{path}: the file is empty, expected a header line")
    delimiter = max(",;\t", key=line.count)
    try:
        names = next(csv.reader(io.StringIO(start.lstrip("\r\n"), newline=""), delimiter=delimiter))
    except (csv.Error, StopIteration):
        raise BadInput(f"{path}: the header line cannot be read as CSV") from None
    limits.check_width(path, len(names))
    return names, delimiter


def _table(path: Path, names: list[str], delimiter: str) -> pa.Table:
    places = [str(place) for place in range(len(names))]
    try:
        return pacsv.read_csv(
            path,
            read_options=pacsv.ReadOptions(column_names=places, skip_rows=0, skip_rows_after_names=1),
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
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        # Arrow's own words may hold cells: keep the kind of fault and the row's number only.
        text = str(error)
        if "UTF8" in text or "UTF-8" in text:
            raise BadInput(f"{path}: is not UTF-8 text; save it as CSV UTF-8") from None
        if "straddl" in text:
            raise BadInput(f"{path}: a row is longer than a MiB; is a quote left open?") from None
        row = re.search(r"Row #(\d+)", text)
        place = f"row {row[1]}" if row else "a row"
        raise BadInput(f"{path}: {place} has not as many cells as the header, which has {len(names)}") from None


def _plain_name(name: str, schema: Schema | None) -> str:
    return restored(name) if schema is not None and restored(name) in schema.names else name


def _typed(array: pa.ChunkedArray, column: Column) -> "Series[Any]":
    if isinstance(column, Categorical | Ordinal | Identifier):
        return _texts(array, column)
    array = _without_marks(array, ABSENT)
    if isinstance(column, Integer | Continuous):
        return _numbers(array, pa.int64() if isinstance(column, Integer) else pa.float64())
    return _converted(array, *((_truth, "boolean") if isinstance(column, Boolean) else (_instant, "datetime64[us]")))


def _guessed(array: pa.ChunkedArray) -> "Series[Any]":
    """Numbers where every cell is one and none has a leading zero (a code); text otherwise."""
    array = _without_marks(array, ABSENT)
    if array.null_count == len(array) or _holds(array, LEADING_ZERO) or not _are_numbers(array):
        return _frame_text(array)
    for kind in (pa.int64(), pa.float64()):
        try:
            return _pandas_numbers(pc.cast(array, kind))
        except pa.ArrowInvalid:
            continue
    return _frame_text(array)


def _texts(array: pa.ChunkedArray, column: Any) -> "Series[Any]":
    known = () if isinstance(column, Identifier) or column.categories == "learn" else tuple(column.categories)
    may_lack = isinstance(column, Categorical | Ordinal) and column.missing and known
    array = _without_marks(array, [mark for mark in (ABSENT if may_lack else ABSENT[:1]) if mark not in known])
    encoded = array.combine_chunks().dictionary_encode()
    # A file of someone else may hold a category that only looks like one of ours made harmless.
    texts = [
        text if text in known and restored(text) not in known else restored(text)
        for text in encoded.dictionary.to_pylist()
    ]
    if in_numbers(column):
        texts = [cells.whole(text) for text in texts]
    return _frame_text(pc.take(pa.array(texts, pa.string()), encoded.indices))


def _numbers(array: pa.ChunkedArray, kind: pa.DataType) -> "Series[Any]":
    import pandas as pd

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


def _pandas_numbers(array: pa.ChunkedArray) -> "Series[Any]":
    import pandas as pd

    if array.null_count and pa.types.is_integer(array.type):
        mask = np.asarray(pc.is_null(array))
        return pd.Series(pd.arrays.IntegerArray(np.asarray(pc.fill_null(array, 0)), mask))
    return pd.Series(array.to_numpy())


def _converted(array: pa.ChunkedArray, convert: Any, dtype: str) -> "Series[Any]":
    """The cells as `dtype` if all can be converted, else as the text that they are."""
    import pandas as pd

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


def _frame_text(array: Any) -> "Series[Any]":
    import pandas as pd

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


def _cells(series: "Series[Any]", column: Column, found: dict[str, set[str]]) -> pa.Array:
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
    if not found:
        listing(path).unlink(missing_ok=True)
        return
    content = {
        "file": path.name,
        "mark": MARK,
        "header": sorted(found.get("", ())),
        "columns": {column: sorted(texts) for column, texts in found.items() if column},
    }
    part = listing(path).with_name(f".{listing(path).name}.part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
    part.replace(listing(path))
