"""Types of columns in Parquet files and databases, by the names that a schema's `reading` has for them (`Coding.stored`)."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from synthdp.schema.columns import LEARN, in_numbers
from synthdp.schema.file_coding import is_stored
from synthdp.tables import database_url

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.file_coding import Coded

NANOSECONDS = 1678, 2261  # the years that are whole in 64 bits of them
FRESH = 32  # bits that hold the number of any fresh identifier


def named(types: pa.Schema) -> dict[str, str]:
    """The type of each column that is not the usual one of its kind: 64 bits, microseconds, no time zone."""
    found = {}
    for field in types:
        kind = field.type
        if pa.types.is_date(kind):
            found[field.name] = "date"
        elif pa.types.is_timestamp(kind) and kind.tz is None and kind.unit != "us":
            found[field.name] = f"timestamp_{kind.unit}"
        elif (pa.types.is_integer(kind) and kind.bit_width < 64) or kind == pa.float32():
            found[field.name] = "float32" if kind == pa.float32() else str(kind)
        elif pa.types.is_decimal(kind):
            found[field.name] = f"decimal({kind.precision}, {kind.scale})"
        elif database_url.DECIMAL in (field.metadata or {}):
            found[field.name] = field.metadata[database_url.DECIMAL].decode()
    return {name: kind for name, kind in found.items() if is_stored(kind)}


def fitting(coded: "Coded", usual: pa.DataType) -> pa.DataType:
    """The type that a column is stored as; the usual one where that cannot hold its dates, its codes or its fresh identifiers."""
    column, kind = coded.column, _arrow(str(coded.coding.stored))
    whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if pa.types.is_timestamp(usual):
        narrow = pa.types.is_timestamp(kind) and kind.unit == "ns"
        first, last = NANOSECONDS
        ends = getattr(column, "bounds", LEARN)
        held = ends != LEARN and all(first <= int(str(end)[:4]) <= last for end in ends)
        return kind if held or not narrow else usual
    if usual == pa.float64():
        return kind if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else usual
    if usual != pa.int64() or not whole:
        return usual
    if column.kind == "identifier":
        return kind if pa.types.is_integer(kind) and kind.bit_width >= FRESH else usual
    codes = [
        *coded.labels,
        *(coded.coding.words or ()),
        *(getattr(column, "categories", ()) if in_numbers(column) else ()),
    ]
    low, high = _ends(kind)
    return kind if all(low <= float(code) <= high for code in codes) else usual


def within(series: "pd.Series[Any]", kind: pa.DataType) -> Any:
    """Numbers that a type holds, the nearest of them where noise has drawn one beyond: what is stored so never is. Of a decimal type
    exact ones, None where they are missing."""
    import pandas as pd

    if pa.types.is_decimal(kind) or (pa.types.is_integer(kind) and kind.bit_width < pa.int64().bit_width):
        series = series.clip(*_ends(kind))
    if not pa.types.is_decimal(kind):
        return series
    cells = zip(series, series.isna(), strict=True)
    exact = [None if gone else Decimal(f"{cell:.{kind.scale}f}") for cell, gone in cells]
    return pd.Series(exact, index=series.index, dtype=object)


def _arrow(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        return pa.decimal128(*map(int, name[len("decimal(") : -1].split(",")))
    if name.startswith("timestamp_"):
        return pa.timestamp(name.removeprefix("timestamp_"))
    return pa.date32() if name == "date" else getattr(pa, name)()


def _ends(kind: pa.DataType) -> tuple[float, float]:
    """The least and the largest number of a type of whole numbers, or a decimal one."""
    if pa.types.is_decimal(kind):
        most = 10.0 ** (kind.precision - kind.scale) - 1
        return -most, most
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
