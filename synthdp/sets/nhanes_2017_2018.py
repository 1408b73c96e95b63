"""NHANES 2017-2018 (CDC/NCHS): 8,366 people, 198 columns of questionnaires, diet, examination and blood.

A wide and sparse table: most questions are asked of some ages only. Which cells are answers is read off the public schema:
what lies beyond its bounds (777 refused, 999 not known, ...) is missing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from synthdp.schema.columns import LEARN, Boolean, Categorical, Continuous, Integer, Ordinal
from synthdp.sets import named
from synthdp.sets.files import Wanted

if TYPE_CHECKING:
    from synthdp.schema.columns import Column
    from synthdp.schema.schema import Schema

SUMMARY = (
    "8,366 people, 198 columns of questionnaires, diet, examination and blood: general health (wide, 46 % missing)"
)
SOURCE = (
    "National Health and Nutrition Examination Survey 2017-2018 (CDC/NCHS), public domain; this table: the Python package "
    "nhanes 0.5.1, as a Parquet file"
)
UNIT = None
TABLE = Wanted(
    "nhanes_2017_2018",
    {"nhanes_2017_2018.parquet": "9f24bc790f27eb9fafd9d2cf7a068680b16eb032e1ecf602f16969f2dcc0d9c2"},
    SOURCE,
)
ZERO = 1e-70  # the file's zeros are 5.4e-79, as its SAS transport format wrote them
BEDTIME = "UsualSleepTimeOnWeekdaysOrWorkdays"
CLOCK = (BEDTIME, "UsualWakeTimeOnWeekdaysOrWorkdays")
NOON = 12.0
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The people, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder), named.schema_of("nhanes_2017_2018"))


def typed(raw: pd.DataFrame, schema: "Schema") -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Boxes and flags as true or false, clock times as hours, numbers beyond the public bounds as missing."""
    raw = raw.assign(**{name: _hours(raw[name], NOON if name == BEDTIME else 0.0) for name in CLOCK})
    frame, beyond = {}, 0
    for column in schema.columns:
        frame[column.name], lost = _typed(raw[column.name], column)
        beyond += lost
    notes = (
        f"{beyond} answers beyond the public bounds (refused, not known, never) are missing values",
        "boxes that were ticked or left empty are true or false; clock times are hours; bedtimes are hours after noon",
    )
    return pd.DataFrame(frame), None, notes


def _typed(series: "pd.Series[Any]", column: "Column") -> tuple["pd.Series[Any]", int]:
    """The column as its kind, and how many numbers lay beyond its bounds."""
    if isinstance(column, Boolean):
        ticked = series.notna()
        return (series.abs().gt(ZERO).astype("boolean").mask(~ticked) if column.missing else ticked), 0
    if isinstance(column, Integer | Continuous) and column.bounds != LEARN:
        numbers, (low, high) = series.mask(series.abs() < ZERO, 0.0), column.bounds
        beyond = (numbers < low) | (numbers > high)
        if isinstance(column, Continuous):
            return numbers.mask(beyond).round(column.decimals or 0), int(beyond.sum())
        return numbers.mask(beyond).astype("Int64" if column.missing else "int64"), int(beyond.sum())
    words = series.astype("Int64").astype("str") if series.dtype.kind == "f" else series.astype("str")
    if not isinstance(column, Categorical | Ordinal):
        return words, 0
    known = words.isin(column.categories)
    return words.where(known), int((series.notna() & ~known).sum())


def _hours(series: "pd.Series[Any]", start: float) -> "pd.Series[Any]":
    """Hours from `start` to what the file writes as b'23:30'."""
    clock = series.str.extract(r"(\d\d):(\d\d)").astype("float64")
    return (clock[0] + clock[1] / 60 - start) % 24
