"""Schemas and awful frames that several tests share."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from synthdp.schema.schema import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal, Schema

MIXED = Schema(
    name="mixed",
    unit="patient",
    max_records_per_unit=3,
    units=1000,
    targets=("outcome",),
    declared_by="the tests",
    notes=("a note",),
    columns=(
        Identifier(name="patient"),
        Categorical(name="code", categories=("No", "Yes", "01", "?", "=1+1"), missing=True),
        Categorical(name="site", categories=("a", "b", "rest"), other="rest"),
        Ordinal(name="grade", categories=("low", "middle", "high")),
        Boolean(name="outcome"),
        Boolean(name="smoker", missing=True),
        Integer(name="age", bounds=(0, 99), atoms=(0, 40), missing=True),
        Integer(name="few", bounds=(0, 5), atoms=(3, 0)),
        Integer(name="constant", bounds=(7, 7)),
        Integer(name="all_atoms", bounds=(1, 2), atoms=(1, 2)),
        Integer(name="edged", bounds=(-10, 10), bins=(-10, 0, 2.5, 10)),
        Integer(name="score", bounds=(-17, 100), step=5, atoms=(0,), missing=True),
        Continuous(name="real", bounds=(-1, 1), atoms=(0.0, 1.0)),
        Continuous(name="money", bounds=(0.005, 3.14), decimals=2, atoms=(1.5,), missing=True),
        Continuous(name="share", bounds=(0, 1), bins=(0.25, 0.5)),
        Continuous(name="whole", bounds=(0, 1000), decimals=0, bins=7),
        Continuous(name="single", bounds=(2.5, 2.5)),
        Datetime(name="admitted", bounds=("2020-01-01", "2021-12-31"), missing=True),
        Datetime(name="stamp", bounds=("1620-01-01", "2021-12-31T12:00:00"), resolution="microsecond"),
        Datetime(name="hour", bounds=("2020-01-01", "2020-01-02"), resolution="hour", bins=("2020-01-01T06:00",)),
    ),
)

AWFUL: tuple[Any, ...] = (
    None, pd.NA, pd.NaT, float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 10**400, -(10**400), 0, 3.5, True,
    np.True_, "", "?", "01", "yes", "TRUE", "1_0", "nan", "2020-06-01", "2020-06-01T00:00:00+02:00", "9999-99-99",
    b"bytes", [1], {"a": 1}, object, 1 + 2j, Decimal("2.5"), Decimal("NaN"), np.float32(0.5), np.int8(3),
    dt.date(2020, 6, 1), dt.datetime(2020, 6, 1, tzinfo=dt.UTC), dt.datetime.max, pd.Timestamp("1700-01-01"),
    np.datetime64("2020-06-01"), np.datetime64("NaT"), dt.timedelta(days=1), "=1+1", "\x00", "\ud800",
)  # fmt: skip


def every_code(sizes: tuple[int, ...], rows: int = 4000) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Codes (rows, columns) in which each column takes each of its values about equally often."""
    return np.stack([np.arange(rows) % size for size in sizes], axis=1).astype(np.int32)
