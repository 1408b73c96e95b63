# ruff: noqa: E501 - a table is read in lines
"""A typed table in which every column is as awkward as its type allows, its schema, and its codes in a database."""

import datetime as dt
import math
from decimal import Decimal
from itertools import cycle, islice

import numpy as np
import pyarrow as pa

from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.tables import coded, csv_cells

LETTERS = tuple(f"k{number}" for number in range(70))  # more than are compared one after the other
DAY = dt.date(2020, 6, 15)


def near(*values):
    """The doubles on either side too."""
    return [
        each for value in values for each in (math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf))
    ]


REALS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 1e30, 2.0**53, 0.5, 1.5, 2.5, 3.5, -0.5,
         *near(-1, 1, 0.07, 0.25, 0.505, 3.14, 0.005, 2.0, 7.0, 99.0, 99.5, 40.0, 39.5)]  # fmt: skip
WHOLE = [None, 0, 1, 2, 3, 4, 5, 6, 7, 39, 40, 41, 98, 99, 100, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
SMALL = [None, 0, 1, 2, -1, 7, 127, -128]
TEXTS = [
    None,
    "",
    "No",
    "Yes",
    "01",
    "1",
    "?",
    "=1+1",
    "'=1+1",
    "a",
    "A",
    "a ",
    "rest",
    "low",
    "'; drop table t; --",
    "é",
    "e\u0301",
]
TRUTHS = [None, "true", "TRUE", "False", "yes", "nO", "t", "y", "F", "n", "1", "0", "2", "", "maybe", "1.0", "ye\u017f"]
DATES = [
    None,
    dt.date(1, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(2019, 12, 31),
    dt.date(2020, 1, 1),
    DAY,
    dt.date(2021, 12, 31),
    dt.date(9999, 12, 31),
]
MOMENTS = [None if each is None else dt.datetime.combine(each, time) for each in DATES[2:-1] for time in (dt.time(), dt.time(6), dt.time(5, 59, 59, 999_999), dt.time(23, 59, 59, 999_999))]  # fmt: skip
MOMENTS += [None, dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)]
NUMBERS = [
    None,
    Decimal("0.00"),
    Decimal("0.07"),
    Decimal("-3.14"),
    Decimal("3.15"),
    Decimal("2.50"),
    Decimal("99999999.99"),
]
LONG = [
    None,
    Decimal("0.505"),
    Decimal("0.5049999999999999999999"),
    Decimal("0.07"),
    Decimal("123456789012345.678"),
    Decimal(1),
    Decimal("-0.995"),
]

COLUMNS = {  # name: (column, Arrow type, cells)
    "code": (Categorical(name="code", categories=("No", "Yes", "01", "?", "=1+1"), missing=True), pa.string(), TEXTS),
    "site": (Categorical(name="site", categories=("a", "b", "rest"), other="rest"), pa.string(), TEXTS),
    "letters": (Categorical(name="letters", categories=LETTERS, missing=True), pa.string(), [None, "", "K1", *LETTERS]),
    "grade": (Ordinal(name="grade", categories=("low", "middle", "é")), pa.string(), TEXTS),
    "stage": (Ordinal(name="stage", categories=("1", "2", "03", "-1", "7.0")), pa.int16(), SMALL),
    "dose": (Categorical(name="dose", categories=("0.5", "1.0", "inf", "0", "2.50"), missing=True), pa.float64(), REALS),
    "flag": (Categorical(name="flag", categories=("True", "no")), pa.bool_(), [None, True, False]),
    "flags": (Categorical(name="flags", categories=("false", "true"), missing=True), pa.bool_(), [None, True, False]),
    "outcome": (Boolean(name="outcome"), pa.bool_(), [None, True, False]),
    "smoker": (Boolean(name="smoker", missing=True), pa.string(), TRUTHS),
    "bit": (Boolean(name="bit", missing=True), pa.int8(), SMALL),
    "half": (Boolean(name="half"), pa.float32(), [None, math.nan, 0.0, -0.0, 1.0, 0.5, math.inf]),
    "age": (Integer(name="age", bounds=(0, 99), atoms=(0, 40), missing=True), pa.int64(), WHOLE),
    "years": (Integer(name="years", bounds=(0, 99), atoms=(0, 99)), pa.float64(), REALS),
    "few": (Integer(name="few", bounds=(0, 5), atoms=(3, 0)), pa.int8(), SMALL),
    "more": (Integer(name="more", bounds=(0, 5), missing=True), pa.uint64(), [None, 0, 5, 6, 2**64 - 1]),
    "constant": (Integer(name="constant", bounds=(7, 7)), pa.int32(), SMALL),
    "atoms": (Integer(name="atoms", bounds=(1, 2), atoms=(1, 2)), pa.bool_(), [None, True, False]),
    "edged": (Integer(name="edged", bounds=(-10, 10), bins=(-10, 0, 2.5, 10)), pa.decimal128(10, 2), NUMBERS),
    "score": (Integer(name="score", bounds=(-17, 100), step=5, atoms=(0,), missing=True), pa.int64(), [*WHOLE, -20, -13, -12, 35, 37, 38, 97]),
    "scored": (Integer(name="scored", bounds=(-17, 100), step=3), pa.float64(), REALS),
    "wide": (Integer(name="wide", bounds=(-(2**53), 2**53), atoms=(2**53,)), pa.int64(), WHOLE),
    "real": (Continuous(name="real", bounds=(-1, 1), atoms=(0.0, 1.0)), pa.float64(), REALS),
    "narrow": (Continuous(name="narrow", bounds=(-1, 1), missing=True), pa.float32(), [None, math.nan, 0.1, -1.0, 1.0, 1e30]),
    "money": (Continuous(name="money", bounds=(0.005, 3.14), decimals=2, atoms=(1.5,), missing=True), pa.float64(), REALS),
    "tiny": (Continuous(name="tiny", bounds=(0, 1), decimals=15, bins=7), pa.float64(), REALS),
    "share": (Continuous(name="share", bounds=(0, 1), bins=(0.25, 0.505)), pa.decimal128(38, 22), LONG),
    "whole": (Continuous(name="whole", bounds=(0, 1000), decimals=0, bins=7), pa.int32(), SMALL),
    "admitted": (Datetime(name="admitted", bounds=("2020-01-01", "2021-12-31"), missing=True), pa.date32(), DATES),
    "visit": (Datetime(name="visit", bounds=("2020-01-01", "2020-12-31"), resolution="hour", bins=("2020-06-15T06:00",)), pa.date32(), DATES),
    "stamp": (Datetime(name="stamp", bounds=("1969-12-31T06:00", "2021-12-31T12:00:00"), resolution="microsecond"), pa.timestamp("us"), MOMENTS),
    "second": (Datetime(name="second", bounds=("1969-12-31T23:59:59", "2021-12-31"), resolution="second", bins=9), pa.timestamp("ns"), MOMENTS),
    "zoned": (Datetime(name="zoned", bounds=("2020-01-01", "2021-12-31"), missing=True, bins=5), pa.timestamp("us", tz="Europe/Berlin"), MOMENTS),
}  # fmt: skip
SCHEMA = Schema(columns=(Identifier(name="row"), *(column for column, _, _ in COLUMNS.values())))


def table(rows=400, seed=0, names=tuple(COLUMNS)):
    """`rows` records; each column goes through its cells in an order of its own."""
    rng = np.random.default_rng(seed)
    arrays = {"row": pa.array(range(rows), pa.int64())}
    for name in names:
        _, kind, given = COLUMNS[name]
        arrays[name] = pa.array([given[place] for place in islice(cycle(rng.permutation(len(given))), rows)], kind)
    return pa.table(arrays)


def schema_of(names):
    return Schema(columns=(Identifier(name="row"), *(COLUMNS[name][0] for name in names)))


def codes_in(opened, schema):
    """Codes (rows, columns) as the database gives them, in the order of the column `row`."""
    codec = Codec(schema)
    coded.check(schema, opened.expression, text=opened.text)
    cells = csv_cells.typed(opened, schema)
    expression = coded.coded(cells, codec, text=opened.text, row=cells["row"].cast("int64"))
    found = opened.rows(expression.order_by("row"))
    return np.stack([np.asarray(found[coded.place(number)]) for number in range(len(codec.names))], axis=1)


def differing(found, expected, codec, frame):
    """Which cells differ, for a message."""
    return {
        name: list(frame[name][found[:, place] != expected[:, place]])[:5]
        for place, name in enumerate(codec.names)
        if (found[:, place] != expected[:, place]).any()
    }
