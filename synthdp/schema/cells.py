"""Cells read one by one: what each says does not depend on any other cell, nor on the frame's dtype.

Missing is None, NaN, NaT and pd.NA, and nothing else. Total: a cell of a wrong type is NaN or unknown, never an error.
Text is a number or an instant where it fits `NUMBER` or `INSTANT`, whoever reads it: a database reads by the same patterns (`csv_cells`),
and no version of Python decides.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema.columns import EXACT, Boolean, Column, in_numbers, microseconds

Series: TypeAlias = "pd.Series[Any]"


Mask = NDArray[np.bool_]
UNKNOWN, MISSING = -1, -2
UNREADABLE = "\x00unreadable"  # text of an object that has none, and of a number that may stand for several
SPACE = r"[ \t\n\r\f\v]*"
NUMBER = (
    rf"{SPACE}[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    rf"|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN]){SPACE}"
)
YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?"
ZONE = r"Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
INSTANT = rf"{YEAR}(?:-[0-9]{{2}}-[0-9]{{2}}|[0-9]{{4}})(?:[T ]{TIME}(?:{ZONE})?)?"  # of ISO 8601, what files hold
_NUMBER, _INSTANT = re.compile(NUMBER), re.compile(INSTANT)
NUMERIC = (int, float, np.integer, np.floating, np.bool_, Decimal)
COMPLEX = (complex, np.complexfloating)
TIMES = {"s": 1_000_000, "ms": 1_000, "us": 1}  # microseconds of NumPy's units
LAST = 2**63 - 1
TRUTHS = {**dict.fromkeys(("true", "yes", "t", "y", "1"), 1), **dict.fromkeys(("false", "no", "f", "n", "0"), 0)}
WHOLE = r"[+-]?[0-9]+(?:\.0*)?"  # a whole number, also as 1.0, 01 or +1
_WHOLE = re.compile(WHOLE)


class Read(NamedTuple):
    """The cells of a column as numbers; which are missing, and which of a wrong kind (and may have a value still)."""

    cells: NDArray[Any]
    missing: Mask
    wrong: Mask


def numbers(series: Series) -> Read:
    """Values float64, NaN where missing or not a number; text that reads as a number is wrong, but has its value."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return _of_categories(numbers, series)
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Read(values, np.isnan(values), np.zeros(len(values), np.bool_))
    cells = _objects(series)
    values = np.fromiter((_number(cell) for cell in cells), np.float64, len(cells))
    missing = _missing(cells)
    wrong = np.fromiter((not _is_numeric(cell) for cell in cells), np.bool_, len(cells))
    return Read(values, missing, wrong & ~missing)


def instants(series: Series) -> Read:
    """Values int64, microseconds since 1970-01-01 UTC (0 where missing or wrong); text must fit `INSTANT`."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return _of_categories(instants, series)
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        stamps = series.to_numpy()
        gone = np.isnat(stamps)
        return Read(np.where(gone, 0, _stamped(stamps)), gone, np.zeros(len(stamps), np.bool_))
    cells = _objects(series)
    found = [_instant(cell) for cell in cells]
    missing = _missing(cells)
    wrong = np.fromiter((instant is None for instant in found), np.bool_, len(found)) & ~missing
    return Read(np.array([instant or 0 for instant in found], dtype=np.int64), missing, wrong)


def _of_categories(read: Callable[[Series], Read], series: Series) -> Read:
    """Each category is read once, and as an object, whatever others there are beside it."""
    places = series.cat.codes.to_numpy()
    held = read(pd.Series([*series.cat.categories, None], dtype=object))
    return Read(*(values[places] for values in held))


def labels(series: Series, table: Mapping[str, int], spelling: Callable[[str], str] | None = None) -> NDArray[np.int64]:
    """The number that `table` gives to each cell's text, UNKNOWN or MISSING. `spelling` brings texts to the table's first."""

    most = longest(series.dtype)

    def number(cell: Any) -> int:
        key = text(cell, most)
        return MISSING if key is None else table.get(key if spelling is None else spelling(key), UNKNOWN)

    if isinstance(series.dtype, pd.CategoricalDtype):
        places = np.array([number(category) for category in series.cat.categories] + [MISSING], dtype=np.int64)
        return places[series.cat.codes.to_numpy()]
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        plain = series.to_numpy()
        codes, uniques = pd.factorize(plain.astype(np.float64) if plain.dtype.kind == "f" else plain)
        places = np.array([number(unique) for unique in uniques] + [MISSING], dtype=np.int64)
        return places[codes]
    if isinstance(series.dtype, pd.Int64Dtype | pd.UInt64Dtype):
        whole, held = pd.factorize(cast("Any", series.array))
        return np.array([number(each) for each in held] + [MISSING], dtype=np.int64)[whole]
    cells = _objects(series)
    if spelling is not None:
        return np.fromiter((number(cell) for cell in cells), np.int64, len(cells))
    found = (table.get(cell, UNKNOWN) if type(cell) is str else number(cell) for cell in cells)
    return np.fromiter(found, np.int64, len(cells))


def whole(text: str) -> str:
    """A whole number in its plain spelling (1 for 1.0, 01 and +1); any other text as it is."""
    if not _WHOLE.fullmatch(text):
        return text
    digits = text.lstrip("+-").partition(".")[0].lstrip("0") or "0"
    return f"-{digits}" if text.startswith("-") and digits != "0" else digits


def truth(text: str) -> str:
    """A text in the spelling of `TRUTHS`."""
    return whole(text.lower())


def spelling(column: Column) -> Callable[[str], str] | None:
    """How the texts of a label column are brought to the spelling of its table; None where they are taken as they are."""
    return truth if isinstance(column, Boolean) else whole if in_numbers(column) else None


def in_floats(dtype: Any) -> bool:
    """Whether a column, or the categories that it refers to, are floating-point numbers: one cell can make all others so."""
    held = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    return bool(pd.api.types.is_float_dtype(held) or pd.api.types.is_complex_dtype(held))


def longest(dtype: Any) -> float:
    """The largest whole number that a type, read as float64, tells from its neighbours: a larger float may stand for several."""
    held = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    plain = getattr(held, "numpy_dtype", held)
    floats = isinstance(plain, np.dtype) and plain.kind in "fc"
    most = np.finfo(np.float64).nmant
    return float(2.0 ** (min(most, np.finfo(plain).nmant if floats else most) + 1) - 1)


def missing(series: Series) -> Mask:
    """Which cells are missing."""
    return _missing(_objects(series))


def texts(series: Series, most: float | None = None) -> list[str | None]:
    """The text of each cell as categories see it, None where missing; what buys categories must read cells so. `most`: see `text`."""
    most = longest(series.dtype) if most is None else most
    if isinstance(series.dtype, pd.CategoricalDtype):
        held = np.array([*(text(cell, most) for cell in series.cat.categories), None], object)
        return cast("list[str | None]", held[series.cat.codes.to_numpy()].tolist())
    return [text(cell, most) for cell in _objects(series)]


def keys(series: Series) -> list[str]:
    """The text by which each cell names a unit or a row, empty where it names none."""
    return ["" if text is None or text == UNREADABLE else text for text in texts(series)]


def numbered(texts: Iterable[str | None]) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """A number for each text in the order of first ones, -1 where it is missing, and the texts. The gap at the end keeps pandas from taking
    texts that no encoding holds for others: in an array of nothing but text half a character is one with its spelling in Python."""
    codes, held = pd.factorize(np.array([*texts, None], object))
    return codes[:-1], held


def text(cell: Any, most: float = EXACT - 1) -> str | None:
    """A cell as a category's text: whole numbers without a point (NaN in a column makes floats of integers), and UNREADABLE for a float
    above `most`, which may stand for several whole numbers.

    NumPy's numbers, instants and durations have the text that they have in a column of their own type: whether a frame has such a
    column, or one of objects, may be another cell's doing."""
    if isinstance(cell, str):
        return str(cell)
    cell = _real(cell)
    if _is_missing(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    try:
        if isinstance(cell, float | np.floating):
            most = most if isinstance(cell, float) else min(most, longest(cell.dtype))
            value = float(cell)
            if abs(value) > most:
                return UNREADABLE
            return str(int(value)) if value.is_integer() else str(value)
        if isinstance(cell, np.datetime64):
            return str(pd.Timestamp(cell))
        if isinstance(cell, timedelta | np.timedelta64):
            return str(pd.Timedelta(cell))
        return str(cell)
    except Exception:
        return UNREADABLE


def table_of(categories: tuple[str, ...]) -> dict[str, int]:
    """Category -> code, with the other spellings that a frame's dtype may give to the same cell (1.0 for 1, True)."""
    table = {category: code for code, category in enumerate(categories)}
    for category, code in tuple(table.items()):
        if category.lower() in ("true", "false"):
            table.setdefault(category.capitalize(), code)
        elif category.endswith(".0") and category[:-2].lstrip("-").isdecimal():
            table.setdefault(category[:-2], code)
    return table


def _objects(series: Series) -> NDArray[np.object_]:
    nested = isinstance(series.dtype, pd.ArrowDtype) and series.dtype.type in (list, dict)
    if nested:  # a gap in one would make floats of the numbers in all others
        return _one_by_one(series)
    try:
        cells: NDArray[np.object_] = series.astype(object).to_numpy()
    except Exception:  # an instant that its time zone carries beyond the last
        return _one_by_one(series)
    held = isinstance(series.dtype, np.dtype) and series.dtype.kind in "Oc"
    if held and any(isinstance(cell, COMPLEX) for cell in cells if type(cell) is not str):
        made = np.empty(len(cells), object)
        made[:] = [_real(cell) for cell in cells]
        return made
    return cells


def _real(cell: Any) -> Any:
    """A complex number without an imaginary part as a real one: a single complex cell makes all others of its column complex."""
    return cell.real if isinstance(cell, COMPLEX) and not cell.imag else cell


def _one_by_one(series: Series) -> NDArray[np.object_]:
    """The cells, UNREADABLE where pandas has no object for one."""
    cells = np.full(len(series), UNREADABLE, np.object_)
    for place in range(len(series)):
        with suppress(Exception):
            cells[place] = series.array[place]
    return cells


def _missing(cells: NDArray[np.object_]) -> Mask:
    return np.fromiter((_is_missing(cell) for cell in cells), np.bool_, len(cells))


def _is_missing(cell: Any) -> bool:
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, np.datetime64 | np.timedelta64) and bool(np.isnat(cell))


def _is_numeric(cell: Any) -> bool:
    return isinstance(cell, NUMERIC) and not isinstance(cell, np.timedelta64)  # which NumPy counts among the integers


def number(text: str) -> float | None:
    """What a text says as a number; None where it is none."""
    return float(text) if _NUMBER.fullmatch(text) else None


def instant(text: str) -> int | None:
    """What a text says as an instant, in microseconds since 1970-01-01 UTC (cut off, not rounded); None where it is none."""
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return microseconds(text)
    except ValueError:  # no day of the calendar
        return None


def _number(cell: Any) -> float:
    if isinstance(cell, str):
        found = number(cell)
        return float("nan") if found is None else found
    if not _is_numeric(cell):
        return float("nan")
    try:
        return float(cell)
    except OverflowError:  # an integer beyond float64
        return float("inf") if isinstance(cell, int) and cell > 0 else float("-inf")
    except ValueError:  # a signalling NaN
        return float("nan")


def _instant(cell: Any) -> int | None:
    if isinstance(cell, str):
        return instant(cell)
    if _is_missing(cell):
        return None
    if isinstance(cell, pd.Timestamp):
        cell = cell.to_datetime64()
    if isinstance(cell, np.datetime64):
        return int(_stamped(np.array([cell]))[0])
    try:
        return microseconds(cell) if isinstance(cell, date) else None
    except Exception:  # a time zone may be anybody's code
        return None


def _stamped(stamps: NDArray[Any]) -> NDArray[np.int64]:
    """Microseconds since 1970-01-01 of NumPy's instants; the nearest that there are where those are out of range."""
    unit = np.datetime_data(stamps.dtype)[0]
    if unit == "ns":
        return stamps.astype(np.int64) // 1_000
    if unit not in TIMES:
        unit = "s" if unit in ("Y", "M", "W", "D", "h", "m", "generic") else "us"
    if unit != np.datetime_data(stamps.dtype)[0]:
        stamps = stamps.astype(f"datetime64[{unit}]")
    most = LAST // TIMES[unit]
    return np.clip(stamps.astype(np.int64), -most, most) * TIMES[unit]
