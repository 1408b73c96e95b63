"""The steward's pre-check of a table before it is sealed. Its outcome is outside epsilon and stays in the hospital."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from synthdp.data import cells
from synthdp.data.coders import is_picture
from synthdp.data.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Image,
    Integer,
    microseconds,
)
from synthdp.data.schema import Schema
from synthdp.errors import BadInput

if TYPE_CHECKING:
    Series = pd.Series[Any]


def check(schema: Schema, frame: pd.DataFrame, invalid: str) -> pd.DataFrame:
    """See `Schema.validate`."""
    if invalid not in ("error", "clamp"):
        raise BadInput(f"invalid must be error or clamp, got {invalid!r}")
    if not isinstance(frame, pd.DataFrame):
        raise BadInput(f"expected a pandas DataFrame, got {type(frame).__name__}")
    problems = list(_structure(schema, frame))
    if not problems and invalid == "error":
        problems = [problem for column in schema.columns for problem in _content(schema, column, frame[column.name])]
    if problems:
        raise BadInput("the table does not fit the schema: " + "; ".join(problems))
    return frame[list(schema.names)]


def _structure(schema: Schema, frame: pd.DataFrame) -> Iterator[str]:
    held = list(frame.columns)
    if not set(held) & set(schema.names):
        # Without a header row the names would be a record's values: do not repeat them.
        yield "none of the schema's columns is in it (is the header row missing?)"
        return
    lacking = [name for name in schema.names if name not in held]
    if lacking:
        yield f"missing columns: {_listed(lacking)} (add them, or take them out of the schema)"
    extra = [name for name in dict.fromkeys(held) if name not in schema.names]
    if extra:
        yield f"columns that the schema does not know: {_listed(extra)} (drop them, or declare them in the schema)"
    repeated = [name for name in dict.fromkeys(held) if held.count(name) > 1]
    if repeated:
        yield f"duplicate columns: {_listed(repeated)} (keep one of each)"


def _content(schema: Schema, column: Column, series: "Series") -> Iterator[str]:
    where = f"column {column.name!r}"
    if isinstance(column, Identifier):
        absent = int(series.isna().sum()) if column.name == schema.unit else 0
        if absent:
            yield f"{where}: {_values(absent)} missing in the unit column (whose records are they?)"
        return
    if isinstance(column, Image):
        shape = " x ".join(map(str, column.shape))
        absent = int(sum(cell is None or cell is pd.NA or isinstance(cell, float) for cell in series))
        wrong = int(sum(not is_picture(cell, column.shape) for cell in series)) - absent
        for rule, count in (("missing", absent), (f"not uint8 arrays of {shape}", wrong)):
            if count:
                yield f"{where}: {_values(count)} {rule}"
        return
    counted = _numeric if isinstance(column, Integer | Continuous | Datetime) else _labelled
    counts = counted(column, series)  # type: ignore[arg-type]
    for rule, count in counts.items():
        if count:
            yield f"{where}: {_values(count)} {rule}"


def _labelled(column: Any, series: "Series") -> dict[str, int]:
    if isinstance(column, Boolean):
        found = cells.labels(series, cells.TRUTHS, lower=True)
        unknown = "not true or false"
    elif isinstance(column, Categorical) and column.categories == "learn":
        found = np.where(series.isna().to_numpy(), cells.MISSING, 0)
        unknown = ""
    else:
        found = cells.labels(series, cells.table_of(column.categories))
        unknown = "not one of the declared categories"
    odd = 0 if getattr(column, "other", None) is not None else int((found == cells.UNKNOWN).sum())
    return {unknown: odd, **_absent(column, int((found == cells.MISSING).sum()))}


def _numeric(column: Integer | Continuous | Datetime, series: "Series") -> dict[str, int]:
    dates = isinstance(column, Datetime)
    read = cells.instants(series) if dates else cells.numbers(series)
    kind = "not ISO 8601 dates or times" if dates else "not numbers"
    usable = ~read.missing & ~read.wrong
    values = read.cells[usable]
    counts = {kind: int(read.wrong.sum()), **_absent(column, int(read.missing.sum()))}
    if isinstance(column, Integer):
        counts["not whole"] = int((np.isfinite(values) & (values != np.rint(values))).sum())
    if not isinstance(column.bounds, str):
        low, high = (microseconds(end) for end in column.bounds) if isinstance(column, Datetime) else column.bounds
        rule = f"outside the declared bounds [{column.bounds[0]}, {column.bounds[1]}]"
        counts[rule] = int(((values < low) | (values > high)).sum())
    return counts


def _absent(column: Any, count: int) -> dict[str, int]:
    return {"missing, where the schema does not allow it (missing: true would)": 0 if column.missing else count}


def _values(count: int) -> str:
    return "1 value is" if count == 1 else f"{count} values are"


def _listed(names: list[Any]) -> str:
    return ", ".join(repr(name) for name in names)
