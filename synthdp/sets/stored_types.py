"""Types of columns in Parquet files and databases, by the names that a schema's `reading` has for them (`Coding.stored`)."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from synthdp.schema import cells
from synthdp.schema.columns import LEARN, MICROSECONDS, Column, Continuous, Integer, in_numbers
from synthdp.schema.file_coding import Coded, is_stored
from synthdp.tables import database_url

NANOSECONDS = 1678, 2261  # the years that are whole in 64 bits of them
GRAINS = {"s": 1_000_000, "ms": 1_000}  # microseconds
EXACT = Context(prec=400)  # digits of any bound
LARGEST = float(np.finfo(np.float32).max)
FRESH = 32  # bits that hold the number of any fresh identifier


def facts(types: pa.Schema) -> dict[str, dict[str, str]]:
    """What a draft says of columns by their types. `stored`: the type of each that is not the usual one of its kind (64 bits, microseconds,
    no time zone). `left_out`: of each whose cells no kind can hold. `lost`: of each whose cells a kind can hold, but that synthetic files
    store as another type, with what they store."""
    found: dict[str, dict[str, str]] = {"stored": {}, "left_out": {}, "lost": {}}
    beyond = pa.types.is_nested, _is_binary, pa.types.is_duration, pa.types.is_interval
    for field in types:
        name, kind, stored = field.name, field.type, ""
        if any(test(kind) for test in beyond):
            found["left_out"][name] = _name(kind)
        elif pa.types.is_time(kind):
            found["lost"][name] = f"{_name(kind)}; synthetic files hold text such as 08:30:00"
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            found["lost"][name] = (
                f"timestamp in the zone {kind.tz}; synthetic files hold the time in UTC, without a zone"
            )
        elif pa.types.is_timestamp(kind) and kind.unit != "us":
            stored = f"timestamp_{kind.unit}"
        elif pa.types.is_date(kind):
            stored = "date"
        elif (pa.types.is_integer(kind) and kind.bit_width < 64) or kind == pa.float32():
            stored = "float32" if kind == pa.float32() else str(kind)
        elif pa.types.is_decimal(kind):
            stored = f"decimal({kind.precision}, {kind.scale})"
        elif database_url.DECIMAL in (field.metadata or {}):
            stored = field.metadata[database_url.DECIMAL].decode()
        if is_stored(stored):
            found["stored"][name] = stored
    return found


def _is_binary(kind: pa.DataType) -> bool:
    tests = pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view
    return any(test(kind) for test in tests)


def _name(kind: pa.DataType) -> str:
    """Without the types that it is made of: the fields of a structure would fill lines."""
    return str(kind).partition("<")[0].partition("[")[0]


def fitting(coded: Coded, usual: pa.DataType) -> pa.DataType:
    """The type that a column is stored as; the usual one where that cannot hold its dates, its codes, that of a missing value among them,
    any number within its bounds, or its fresh identifiers."""
    column, kind = coded.column, _arrow(str(coded.coding.stored))
    whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if pa.types.is_timestamp(usual):
        return kind if _holds_dates(column, kind) else usual
    if usual == pa.float64():
        real = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        return kind if real and _holds_numbers(coded, kind) else usual
    if usual != pa.int64() or not whole:
        return usual
    if column.kind == "identifier":
        return kind if pa.types.is_integer(kind) and kind.bit_width >= FRESH else usual
    return kind if _holds_numbers(coded, kind) else usual


def _holds_dates(column: Any, kind: pa.DataType) -> bool:
    if not pa.types.is_timestamp(kind):
        return True
    if kind.unit != "ns":
        return MICROSECONDS[column.resolution] % GRAINS[kind.unit] == 0
    (first, last), ends = NANOSECONDS, getattr(column, "bounds", LEARN)
    return ends != LEARN and all(first <= int(str(end)[:4]) <= last for end in ends)


def _holds_numbers(coded: Coded, kind: pa.DataType) -> bool:
    column, bounds = coded.column, _bounds(coded.column)
    codes = [
        *coded.labels,
        *(coded.coding.words or ()),
        *(getattr(column, "categories", ()) if in_numbers(column) else ()),
    ]
    absent = cells.number(coded.absent) if isinstance(column, Integer | Continuous) and column.missing else None
    codes += [] if absent is None or np.isnan(absent) else [absent]
    low, high = _ends(kind)
    least, most = (low, high) if bounds is None else _inside(bounds, kind)
    return least <= most and all(low <= float(code) <= high for code in codes)


def within(series: "pd.Series[Any]", kind: pa.DataType, column: Column | None = None) -> Any:
    """Numbers that a type holds, the nearest of them where noise has drawn one beyond: what is stored so never is. Rounding takes none out
    of its column's bounds. Of a decimal type exact ones, None where they are missing."""
    if pa.types.is_integer(kind) and kind.bit_width < pa.int64().bit_width:
        return series.clip(*_ends(kind))
    if kind != pa.float32() and not pa.types.is_decimal(kind):
        return series
    bounds, whole = _bounds(column), pd.api.types.is_integer_dtype(series.dtype)
    ends = _ends(kind, whole=whole)
    never = np.zeros(len(series), np.bool_)
    inside = never if bounds is None else series.between(*bounds).fillna(value=False).to_numpy(np.bool_)
    near = ends if bounds is None else _inside(bounds, kind, whole=whole)
    if kind == pa.float32():
        found = series.clip(*ends).astype("float32")
        return found.clip(*near).where(inside, found)
    exact: list[Decimal | None] = []
    for cell, gone, close in zip(series, series.isna(), inside, strict=True):
        low, high = near if close else ends
        exact.append(None if gone else max(low, min(high, Decimal(f"{cell:.{kind.scale}f}"))))
    return pd.Series(exact, index=series.index, dtype=object)


def _bounds(column: Column | None) -> Any:
    """The bounds of a column of numbers, None where they are not known."""
    bounds = column.bounds if isinstance(column, Integer | Continuous) else LEARN
    return None if bounds == LEARN else bounds


def _arrow(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        return pa.decimal128(*map(int, name[len("decimal(") : -1].split(",")))
    if name.startswith("timestamp_"):
        return pa.timestamp(name.removeprefix("timestamp_"))
    return pa.date32() if name == "date" else getattr(pa, name)()


def _ends(kind: pa.DataType, *, whole: bool = False) -> tuple[Any, Any]:
    """The least and the largest number of a type, of a decimal one also the `whole` ones."""
    if pa.types.is_decimal(kind):
        scale = 0 if whole else kind.scale
        most = Decimal((0, (9,) * (kind.precision - kind.scale + scale), -scale))
        return -most, most
    if kind == pa.float32():
        return -LARGEST, LARGEST
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _inside(bounds: tuple[float, float], kind: pa.DataType, *, whole: bool = False) -> tuple[Any, Any]:
    """The least and the largest number of a type that lie within bounds."""
    low, high = _ends(kind, whole=whole)
    least, most = bounds
    if pa.types.is_decimal(kind):
        step = Decimal((0, (1,), 0 if whole else -kind.scale))
        found = (
            Decimal(str(least)).quantize(step, ROUND_CEILING, EXACT),
            Decimal(str(most)).quantize(step, ROUND_FLOOR, EXACT),
        )
        return max(low, found[0]), min(high, found[1])
    least, most = max(low, least), min(high, most)
    if kind != pa.float32():
        return least, most
    near, far = np.float32(least), np.float32(most)
    near = near if float(near) >= least else np.nextafter(near, np.float32(np.inf))
    far = far if float(far) <= most else np.nextafter(far, np.float32(-np.inf))
    return float(near), float(far)
