"""Files of Stata (.dta), SPSS (.sav, .zsav) and SAS (.sas7bdat, .xpt): typed columns, whose codes may have labels."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pandas.api import types

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import EXACT, Categorical, Integer, Ordinal, in_numbers
from synthdp.schema.schema import Schema
from synthdp.tables import foreign

Labels = Mapping[str, Iterable[tuple[str, str]]]  # of columns: codes and what they stand for
CUT = 100  # bytes of a label from which on a file may have cut it off; SPSS keeps 120
NAMES = {
    ".dta": (r"[^\W\d]\w{0,31}", "letters, digits and _, at most 32 of them"),
    ".sav": (r"[^\W\d][\w.$#@]{0,63}", "letters, digits and ._$#@, at most 64 of them"),
    ".zsav": (r"[^\W\d][\w.$#@]{0,63}", "letters, digits and ._$#@, at most 64 of them"),
    ".xpt": (r"[A-Za-z_][A-Za-z0-9_]{0,31}", "letters, digits and _, at most 32 of them"),
}
INT32 = (-(2**31) + 1, 2**31 - 100)  # Stata's long; its largest numbers are its missing values


def frame(table: pa.Table) -> pd.DataFrame:
    """A frame whose whole numbers stay whole where cells are missing: two long patient numbers are not to become one."""
    found: pd.DataFrame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return found


def labelled(records: pd.DataFrame, facts: Mapping[str, Any], path: Path, schema: Schema) -> pd.DataFrame:
    """The records with labels for codes where the schema's categories are labels and its reading does not say what the codes are. Raises
    `BadInput` where it does, and the file says otherwise."""
    reading = schema.reading
    for column in schema.columns:
        told = dict(facts["labels"].get(column.name, ()))
        if column.name not in records or not told or not isinstance(column, Categorical | Ordinal):
            continue
        known = {} if reading is None else dict(reading.coding(column.name).labels)
        if any(code in known and not _same(known[code], label) for code, label in told.items()):
            raise BadInput(
                f"{path}: column {column.name!r}: its value labels differ from the schema's reading; correct them there, or in the file"
            )
        if not known:
            records = records.assign(**{column.name: _labelled(records[column.name], told, column.categories)})
    return records


def whole_numbers(records: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The records with whole numbers in columns that are declared so: SPSS and SAS store all numbers as floats, Stata many."""
    for column in schema.columns:
        name = column.name
        if (
            name in records
            and (isinstance(column, Integer) or in_numbers(column))
            and types.is_float_dtype(records[name].dtype)
        ):
            held = records[name].dropna()
            if ((held == held.round()) & (held.abs() < EXACT)).all():
                records = records.assign(**{name: records[name].astype("Int64")})
    return records


def _same(declared: str, label: str) -> bool:
    cut = len(label.encode()) >= CUT
    return declared.startswith(label) if cut else declared == label


def _labelled(series: "pd.Series[Any]", told: Mapping[str, str], known: Any) -> "pd.Series[Any]":
    def label(text: str | None) -> str | None:
        if text is None or text not in told or (known != "learn" and (text in known or told[text] not in known)):
            return text
        return told[text]

    return pd.Series([label(text) for text in cells.texts(series)], dtype="str", index=series.index)


def check_names(path: Path, ending: str, names: Iterable[str]) -> None:
    """Raises `BadInput` where the format does not know such names, or cannot be written."""
    if ending not in NAMES:
        raise BadInput(f"{path}: {ending} files can be read but not written; write .xpt, which SAS reads")
    form, rule = NAMES[ending]
    odd = next((name for name in names if not re.fullmatch(form, name)), None)
    if odd is not None:
        raise BadInput(
            f"{path}: column {odd!r}: names in {ending} files have {rule}; write a .csv, .xlsx or .parquet file"
        )


def write(
    records: pd.DataFrame,
    part: Path,
    path: Path,
    ending: str,
    labels: Labels,
    titles: Mapping[str, str] | None = None,
    missing: Mapping[str, Iterable[tuple[str, str]]] | None = None,
    extended: Mapping[str, Mapping[int, str]] | None = None,
) -> int:
    """Write a frame of numbers, texts, truth values (as 0 and 1) and instants, and return its number of records. `titles` are labels
    of columns; `missing` from which code to which one a value of SPSS is missing; `extended` which rows of a column hold which of Stata's
    missing values `.a` to `.z`."""
    check_names(path, ending, records.columns)
    try:
        import pyreadstat
    except ImportError as error:
        raise foreign.lacking(ending, str(error.name)) from None
    made = records.assign(**{name: _stored(records[name], ending) for name in records.columns})
    options: dict[str, Any] = {"column_labels": dict(titles)} if titles else {}
    if ending != ".xpt":
        options["variable_value_labels"] = {
            name: _values(made[name], pairs) for name, pairs in labels.items() if name in made
        }
    writer = {".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}.get(ending, pyreadstat.write_sav)
    if missing and ending in (".sav", ".zsav"):
        options["missing_ranges"] = {name: _ranges(made[name], ends) for name, ends in missing.items() if name in made}
    letters = {
        name: found for name, found in (extended or {}).items() if found and types.is_numeric_dtype(made[name].dtype)
    }
    for name, found in letters.items():
        cells_of = made[name].astype(object).where(made[name].notna(), None).tolist()
        for row, letter in found.items():
            cells_of[row] = letter
        made[name] = cells_of
    if letters:
        options["missing_user_values"] = {name: sorted(set(found.values())) for name, found in letters.items()}
    if ending == ".zsav":
        options["compress"] = True
    try:
        writer(made, str(part), **options)
    except (pyreadstat.PyreadstatError, pyreadstat.ReadstatError) as error:
        raise BadInput(
            f"{path}: cannot be written as a {ending} file ({type(error).__name__}); write a .csv, .xlsx or .parquet file"
        ) from None
    return len(records)


def _stored(series: "pd.Series[Any]", ending: str) -> "pd.Series[Any]":
    """A column in a type that these files have."""
    coded = isinstance(series.dtype, pd.CategoricalDtype) and types.is_integer_dtype(series.cat.categories.dtype)
    if types.is_bool_dtype(series.dtype) or coded:
        series = series.astype("Int64")
    if types.is_integer_dtype(series.dtype):
        fits = ending == ".dta" and series.dropna().between(*INT32).all()
        return (
            series.astype("Int32" if series.isna().any() else "int32")
            if fits
            else series.astype("Float64").astype("float64")
        )
    if types.is_datetime64_any_dtype(series.dtype):
        days = (series.dropna() == series.dropna().dt.normalize()).all()
        return series.dt.date.where(series.notna(), None).astype(object) if days else series
    if types.is_float_dtype(series.dtype):
        return series.astype("float64")
    return series.astype(object).where(series.notna(), None).map(str, na_action="ignore")


def _values(series: "pd.Series[Any]", pairs: Iterable[tuple[str, str]]) -> dict[Any, str]:
    """Labels by the codes as the column has them."""
    numeric = types.is_numeric_dtype(series.dtype)
    return {
        _number(code) if numeric else code: label for code, label in pairs if not numeric or _number(code) is not None
    }


def _ranges(series: "pd.Series[Any]", ends: Iterable[tuple[str, str]]) -> list[Any]:
    """Codes for missing values as the column has them."""
    if not types.is_numeric_dtype(series.dtype):
        return [low for low, _ in ends]
    return [{"lo": _number(low), "hi": _number(high)} for low, high in ends]


def _number(code: str) -> int | float | None:
    found = cells.number(code)
    return None if found is None else int(found) if found.is_integer() else found
