"""Under `clamp` no cell refuses: whatever stands in it has a code, and the same one in every engine."""

import csv
import datetime as dt
import logging
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal

import awkward
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixed_tables import AWFUL, MIXED
from sweeps import heavy

from synthdp import BadInput, Budget, Synthesizer
from synthdp.schema import cells
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.file_coding import Reading
from synthdp.schema.schema import Schema
from synthdp.seal.database import CountedTable
from synthdp.seal.learn import Domain
from synthdp.seal.records import seal
from synthdp.sets import record_files
from synthdp.tables import csv_cells, table_check
from synthdp.tables import source as tables

# fmt: off
DIGITS = ["\u0663", "\uff13", "\u0967\u0968", "\u0663.\u0665", "1\u0663", "\u00bd", "\u00b2", "\u2167", "\U0001d7d9"]
SPACES = [
    " 1", "1 ", "\t1\t", "1\n", "\n1", "\r1", "1\r\n2", "\x0b1\x0c", "\x1c1", "1\x85", "\u00a01", "1\u2003", "\ufeff1", "\u200b1",
    "1 2",
]
NUMBERS = [
    "0", "-0", "+5", "5.", ".5", "-.5", "1.5.5", "1,5", "1_0", "1__0", "0x1F", "0b1", "0x", "1e", "e1", "--1", "+-1", "-", "+", ".",
    "\u22121", "9" * 45, "-" + "9" * 45, "9" * 400, "9" * 5000, "0." + "0" * 400 + "1", "1e400", "-1e400", "1e-400",
    "1e99999999999999999999", "007", "9007199254740993", "inf", "+Inf", "-INFINITY", "infinit", "\u221e", "\u0131nf", "\u0130NF",
    "nan", "-nan", "NAN", "nan(1)",
]
TEXTS = [
    "", " ", "a", "A", " a", "a ", "'=a", "=a", "''=a", "@x", "'", '"', '""', 'a"b', "a,b", "a;b", "a\tb", "a\nb", "a\x00b", "\x00",
    "\\", "\\n", "NA", "N/A", "<NA>", "null", "NULL", "NaT", "None", "\u00e9", "e\u0301", "\u00df", "\U0001f600", "\ufeff",
    "x" * 5000, "%s", "{}", "'; drop table t; --",
]
TRUTHS = ["true", "TRUE", "tRuE", "T", "y", "ye\u017f", "no", "\u212a", "\u0130", "1", "2", "1.0"]
DATES = [
    "20200601", "2020-06-01", "202006", "2020-06", "2020-W10-1", "2020-W10", "2020W101", "2020-153", "2020153",
    "\uff12\uff10\uff12\uff10-06-01", "\u0662\u0660\u0662\u0660-\u0660\u0666-\u0660\u0661", "0000-01-01", "00000101", "0001-01-01",
    "-0001-01-01", "9999-12-31", "10000-01-01", "290000-01-01", "2021-02-29", "20210229", "2020-02-30", "2020-13-01", "2020-00-10",
    "2020/06/01", "01.06.2020", "June 1, 2020", "2020-6-1", " 2020-06-01", "2020-06-01 ", "2020-06-01\n", "2020-06-01 (BC)",
    "today", "now", "epoch", "infinity", "-infinity", "12:00", "T12:00",
]
TIMES = [
    "00:00", "23:59:59", "24:00", "23:59:60", "23:60", "1:00", "00", "0000", "000000", "00:00:00.1", "00:00:00,1",
    "05:59:59.9999999", "00:00:00.123456789012", "00:00:00.", "00:00Z", "00:00:00Z", "00:00z", "00:00 Z", "00:00 UTC",
    "00:00 Europe/Berlin", "00:00+02:00", "00:00-0230", "00:00+02", "00:00+2", "00:00-00:00", "00:00+23:59", "00:00+24:00",
    "00:00+02:60", "00:00+00:00:30", "06:00:00.5-01:30",
]
# fmt: on
MOMENTS = [f"{day}{mark}{time}" for day, mark in (("2020-06-01", "T"), ("20200601", " ")) for time in TIMES]
MOMENTS += ["2020-06-01x00:00", "2020-06-01Z", "2020-06-01+02:00", "20200601T120000", "1969-12-31T23:59:59.9999999"]
MOMENTS += ["0001-01-01T00:00+02:00", "9999-12-31T23:00-02:00"]  # outside the calendar, in UTC
CELLS = [*DIGITS, *SPACES, *NUMBERS, *TEXTS, *TRUTHS, *DATES, *MOMENTS]

LABELS = (
    Categorical(name="code", categories=("No", "1", "01", "=a", "NA", "\u00e9"), missing=True),
    Categorical(name="site", categories=("a", "b", "rest"), other="rest"),
    Categorical(name="marked", categories=("a", "'=a", "=a")),
    Categorical(name="whole", categories=(0, 1, 2), missing=True),
    Categorical(name="many", categories=("a", "1", *(f"k{place}" for place in range(70))), missing=True),
    Ordinal(name="grade", categories=("low", "1.0", "true")),
    Boolean(name="outcome"),
    Boolean(name="smoker", missing=True),
)
VALUES = (
    Integer(name="age", bounds=(0, 99), atoms=(0, 40), missing=True),
    Integer(name="wide", bounds=(-(2**53), 2**53)),
    Continuous(name="real", bounds=(-10, 10.5)),
    Continuous(name="huge", bounds=(0, 1e306), missing=True),
    Continuous(name="money", bounds=(0.005, 3.14), decimals=2, atoms=(1.5,)),
    Datetime(name="day", bounds=("2020-05-29", "2020-06-04"), missing=True),
    Datetime(name="ever", bounds=("0001-01-01", "9999-12-31"), resolution="second"),
    Datetime(name="hour", bounds=("2020-05-31T12:00", "2020-06-01T12:00"), resolution="hour", bins=24),
    Datetime(
        name="instant", bounds=("2020-05-31T21:00", "2020-06-01T09:00"), resolution="microsecond", missing=True, bins=48
    ),
)
SCHEMA = Schema(columns=(Identifier(name="row"), *LABELS, *VALUES))
CODEC = Codec(SCHEMA)


def every_cell(schema=SCHEMA):
    """A record for each cell, which stands in all of its columns."""
    return pd.DataFrame({"row": [str(row) for row in range(len(CELLS))]} | dict.fromkeys(schema.names[1:], CELLS))


def written(path, schema=SCHEMA):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        lines.writerow(schema.names)
        lines.writerows(every_cell(schema).to_numpy(object))
    return path


def codes_there(source, schema=SCHEMA):
    with tables.opened(source) as opened:
        table_check.validate(schema, opened, "clamp")
        return awkward.codes_in(opened, schema)


def test_a_csv_cell_has_one_code_in_memory_and_in_the_database(tmp_path):
    path = written(tmp_path / "cells.csv")
    frame = SCHEMA.validate(record_files.read(path, schema=SCHEMA), "clamp")
    assert awkward.differing(codes_there(tables.csv(path)), CODEC.encode(frame), CODEC, every_cell()) == {}


def assert_one_code_each(path, columns):
    """Of what stands in a Parquet file, read into memory and counted in the database."""
    schema = Schema(columns=(Identifier(name="row"), *columns))
    codec, frame = Codec(schema), schema.validate(record_files.read(path, schema=schema), "clamp")
    assert awkward.differing(codes_there(tables.parquet(path), schema), codec.encode(frame), codec, frame) == {}


def test_text_in_parquet_has_one_code_in_memory_and_in_the_database(tmp_path):
    every_cell(Schema(columns=(Identifier(name="row"), *LABELS))).to_parquet(tmp_path / "cells.parquet", index=False)
    assert_one_code_each(tmp_path / "cells.parquet", LABELS)


@pytest.mark.parametrize("reading", [None, Reading(decimal=","), Reading(strip=True)], ids=["plain", "commas", "strip"])
def test_truth_values_are_1_and_0_in_a_column_of_numbers_though_one_is_missing(tmp_path, reading):
    schema = Schema(columns=(Integer(name="n", bounds=(0, 1), missing=True),), reading=reading)
    for cells_of in ([True, False], [True, False, None]):
        pq.write_table(pa.table({"n": pa.array(cells_of)}), tmp_path / "truths.parquet")
        frame = schema.validate(record_files.read(tmp_path / "truths.parquet", schema), "clamp")
        assert Codec(schema).encode(frame)[:, 0].tolist() == [1, 0, 2][: len(cells_of)]


DAYS = pa.array([None, 0, 18_414, -719_162, -719_163, 2_932_896, 2_932_897, 10**8, -(10**8)], pa.int32()).cast(
    pa.date32()
)
MOST = ["1678-01-01", "1969-12-31T23:59:59.999999999", "2020-06-01T05:59:59.999999999", "2262-01-01", "NaT"]


@pytest.mark.parametrize(
    "held",
    [DAYS, DAYS.cast(pa.date64()), pa.array(np.array(MOST, "datetime64[ns]"))],
    ids=["days beyond the calendar", "and in milliseconds", "nanoseconds, which reach less far than bounds may"],
)
def test_days_and_instants_in_parquet_have_one_code_in_memory_and_in_the_database(tmp_path, held):
    columns = [column for column in VALUES if isinstance(column, Datetime)]
    record = {"row": pa.array(range(len(held)), pa.int64()), **{column.name: held for column in columns}}
    pq.write_table(pa.table(record), tmp_path / "held.parquet")
    assert_one_code_each(tmp_path / "held.parquet", columns)


@pytest.mark.parametrize("kind", [pa.decimal256(50, 0), pa.duration("s")], ids=str)
def test_what_the_database_takes_for_something_else_is_refused_by_its_type(tmp_path, kind):
    schema = Schema(columns=(Identifier(name="row"), Integer(name="n", bounds=(0, 9))))
    held = pa.table({"row": pa.array([1]), "n": pa.array([5], kind)})
    pq.write_table(held, tmp_path / "odd.parquet")
    with pytest.raises(BadInput, match=r"'n' is stored as .* cast it"):
        codes_there(tables.parquet(tmp_path / "odd.parquet"), schema)


def test_text_that_is_no_utf_8_is_refused_before_a_record_is_looked_at(tmp_path):
    schema = Schema(
        columns=(Identifier(name="row"), Categorical(name="c", categories=("a", "b"), missing=True, other="b"))
    )
    ends, letters = pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")
    held = pa.table({"row": pa.array([1, 2]), "c": pa.Array.from_buffers(pa.string(), 2, [None, ends, letters])})
    pq.write_table(held, tmp_path / "odd.parquet")
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        record_files.read(tmp_path / "odd.parquet", schema=schema)
    with tables.opened(tables.parquet(tmp_path / "odd.parquet")) as opened, pytest.raises(BadInput):
        table_check.validate(schema, opened, "clamp")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_of_any_unit_go_to_the_nearest_bound(unit):
    ends = [-(2**63) + 1, 2**63 - 1, -(2**63)]
    frame = pd.DataFrame({"d": pd.Series(np.array(ends, f"datetime64[{unit}]"))})
    first, last = ("1700-01-01", "2200-01-01")
    codec = Codec(Schema(columns=(Datetime(name="d", bounds=(first, last), missing=True),)))
    assert codec.encode(frame)[:, 0].tolist() == [0, 31, 32]


NOON = 43_200 * 10**6
ODD = {  # cells that Python has no word for, and one that stands beside them
    "24:00": (pa.time64("us"), NOON, [2 * NOON]),
    "24:00 in milliseconds": (pa.time32("ms"), NOON // 1_000, [2 * NOON // 1_000]),
    "a nanosecond": (pa.time64("ns"), NOON * 1_000, [1, 2 * NOON * 1_000, 2 * NOON * 1_000 - 1]),
    "instants in a list": (pa.list_(pa.timestamp("us")), [NOON], [[2**62], [-(2**62), None]]),
    "days in a list": (pa.list_(pa.date32()), [7], [[2**30]]),
    "days in a structure": (pa.struct([("a", pa.date32())]), {"a": 7}, [{"a": -(2**30)}]),
}


@pytest.mark.parametrize(("kind", "plain", "odd"), ODD.values(), ids=ODD)
def test_a_cell_that_python_has_no_word_for_keeps_no_other_from_being_read(tmp_path, kind, plain, odd):
    texts = {}
    for name, more in (("alone", []), ("beside", odd)):
        numbers = [plain, None, *more]
        held = (
            pa.array(numbers, kind)
            if pa.types.is_nested(kind)
            else pa.array(numbers, pa.int64()).cast(PHYSICAL[kind]).view(kind)
        )
        pq.write_table(pa.table({"c": held}), tmp_path / f"{name}.parquet")
        texts[name] = cells.texts(record_files.read(tmp_path / f"{name}.parquet")["c"])
    assert texts["beside"][:2] == texts["alone"]


PHYSICAL = {pa.time32("ms"): pa.int32(), pa.time64("us"): pa.int64(), pa.time64("ns"): pa.int64()}


GAPS = {  # cells of one person, and what another one's may hold
    "list": (pa.list_(pa.int64()), [1, 2], [[None], None]),
    "structure": (pa.struct([("a", pa.int64())]), {"a": 1}, [{"a": None}, None]),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)], [[("a", None)], None]),
}


@pytest.mark.parametrize("case", GAPS)
def test_what_a_list_holds_is_read_alike_whatever_another_one_lacks(tmp_path, case):
    """pandas makes floats of the numbers in all cells where one lacks a number: categories and units would be others."""
    kind, mine, others = GAPS[case]
    schema = Schema(columns=(Categorical(name="c", categories="learn", missing=True), Boolean(name="b")))
    read = set()
    for cells_of in ([mine], *([mine, other] for other in others)):
        record = {"c": pa.array(cells_of, kind), "b": pa.array([True] * len(cells_of))}
        pq.write_table(pa.table(record), tmp_path / "nested.parquet")
        read.add(cells.texts(record_files.read(tmp_path / "nested.parquet", schema)["c"])[0])
        read.add(cells.texts(pd.Series(pd.arrays.ArrowExtensionArray(record["c"])))[0])
    assert read == {str(mine)}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_a_code_that_its_float_does_not_tell_from_its_neighbours_is_no_category(tmp_path, kind):
    """Two of SNOMED's long codes would become one, in memory as in the database."""
    least = 2 ** (53 if kind == pa.float64() else 24)
    codes = Categorical(name="code", categories=(str(least - 1), str(least), "rest"), other="rest", missing=True)
    learned = Categorical(name="code", categories="learn", missing=True)
    schema, path = Schema(columns=(Identifier(name="row"), codes)), tmp_path / "codes.parquet"
    stripped, learning = (
        replace(schema, reading=Reading(strip=True)),
        replace(schema, columns=(schema.columns[0], learned)),
    )
    for values, code, rule in (
        ([least - 1, None], 3, None),
        ([least - 1, least], 2, "'code': some values are numbers so long that"),
        ([-float(least)], 2, "'code': some values are numbers so long that"),
    ):
        pq.write_table(pa.table({"row": ["0", "1"][: len(values)], "code": pa.array(values, kind)}), path)
        assert_one_code_each(path, (codes,))
        frame = record_files.read(path, schema)
        assert Codec(schema).encode(schema.validate(frame, "clamp"))[-1, 0] == code
        assert set(cells.texts(record_files.read(path, stripped)["code"])) <= {str(least - 1), cells.UNREADABLE, None}
        for expected, given in ((schema, frame), (schema, frame.astype({"code": "category"})), (learning, frame)):
            with nullcontext() if rule is None else pytest.raises(BadInput, match=rule):
                expected.validate(given)
        with (
            tables.opened(tables.parquet(path)) as opened,
            nullcontext() if rule is None else pytest.raises(BadInput, match=rule),
        ):
            table_check.validate(schema, opened, "error")


def test_long_numbers_are_values_whatever_reading_says(tmp_path):
    pq.write_table(pa.table({"x": [1e17, -9.0, 1.5]}), tmp_path / "x.parquet")
    schema = Schema(columns=(Continuous(name="x", bounds=(0, 1e18), missing=True),), reading=Reading(missing=("-9",)))
    assert record_files.read(tmp_path / "x.parquet", schema)["x"].fillna(0).tolist() == [1e17, 0, 1.5]
    assert record_files.look(tmp_path / "x.parquet").frame["x"].dropna().tolist() == [1e17, 1.5]  # -9 looks like a code


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "+05:30"])
@pytest.mark.parametrize("arrow", [False, True])
def test_an_instant_that_its_zone_carries_beyond_the_last_is_no_error(unit, zone, arrow):
    """Its words would tell it, and it would stop a fit under `clamp`, in a column that is declared as text too."""
    stamps = np.array([0, 2**63 - 1], f"datetime64[{unit}]")
    held = pd.Series(stamps).dt.tz_localize("UTC").dt.tz_convert(zone)
    if arrow:
        held = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(stamps).cast(pa.timestamp(unit, zone))))
    first = cells.texts(held.iloc[:1])
    assert cells.texts(held) == [*first, cells.UNREADABLE]
    assert cells.labels(held, {first[0]: 7}).tolist() == [7, cells.UNKNOWN]
    assert np.isnan(cells.numbers(held).cells).all()
    assert cells.instants(held).cells[0] == 0
    assert not cells.missing(held).any()


class Wordless:
    """A cell that cannot be written, compared or hashed."""

    __hash__ = None

    def __str__(self):
        raise RuntimeError

    __repr__ = __eq__ = __str__


class Uncertain(float):
    """A number that cannot be compared."""

    def __int__(self):
        raise RuntimeError


class Nowhere(dt.tzinfo):
    def utcoffset(self, _):
        raise RuntimeError


def alone(cell):
    held = np.empty(1, object)
    held[0] = cell
    return held


# fmt: off
OBJECTS = [
    *AWFUL, 10**5000, -(10**5000), Decimal("sNaN"), Decimal("1E+999999"), Decimal("-Infinity"), np.str_("a"), np.bytes_(b"a"),
    np.array(5), np.zeros((2, 2)), set(), (), pd.Interval(0, 1), pd.Period("2020-01"), pd.Timedelta(1), np.timedelta64(5, "D"),
    np.timedelta64("NaT"), np.datetime64(2**62, "Y"), np.datetime64("0000-01-01"), np.datetime64("2020", "Y"), np.datetime64(5, "ns"),
    np.datetime64(2**62, "s"), dt.datetime.min, dt.time(12), dt.date.max, dt.date.min, pd.Timestamp.max, pd.Timestamp.min,
    dt.datetime(2020, 6, 1, tzinfo=Nowhere()), dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=23))),
    dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=23))), pd.Timestamp("2020-06-01", tz="Europe/Berlin"),
    np.longdouble("1e4000"), np.uint64(2**64 - 1), np.void(b"ab"), bytearray(b"x"), memoryview(b"x"), slice(1), Ellipsis, print,
    Wordless(), Uncertain(2.0), "2020-06-01\udc00", pd.Series([1]), pd.DataFrame(),
]
# fmt: on


def objects(schema):
    held = np.concatenate([alone(cell) for cell in (*OBJECTS, *CELLS)])
    return pd.DataFrame({name: pd.Series(held, dtype=object) for name in schema.names})


def test_any_object_has_a_code_whatever_stands_beside_it():
    together = CODEC.encode(SCHEMA.validate(objects(SCHEMA), "clamp"))
    for row, cell in enumerate(OBJECTS):
        frame = pd.DataFrame({name: pd.Series(alone(cell), dtype=object) for name in SCHEMA.names})
        assert CODEC.encode(SCHEMA.validate(frame, "clamp")).tolist() == [together[row].tolist()], type(cell)


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (np.array([1.1, 2, 3], np.float16), pd.NaT),
        (np.array([1.1, 2, 3], np.float32), pd.NA),
        (np.array([1.1, 2, 3], np.longdouble), "x"),
        (np.array([1, 2.5, 1j], np.complex128), pd.NA),
        (np.array([1, 2.5, 1j], np.complex64), "x"),
        (np.array(["2020-01-05", "2020-06-06"], "datetime64[D]"), "x"),
        (np.array(["2020-01-05T10:00:00.5", "2020-06-06"], "datetime64[ns]"), "x"),
        (np.array([1, 3600], "timedelta64[s]"), "x"),
        (np.array([dt.timedelta(seconds=1), dt.timedelta(days=2)], object), "x"),
    ],
    ids=lambda cells: str(getattr(cells, "dtype", "other")),
)
def test_a_scalar_has_one_code_in_a_column_of_its_type_and_among_objects(own, other):
    """pandas makes a column of a type out of scalars of that type, and one of objects as soon as somebody has another cell."""
    alone, beside = pd.Series(list(own)), pd.Series([*own, other])
    assert alone.dtype != object, "a column of their own type"
    assert beside.dtype == object
    texts = cells.texts(alone)
    assert cells.texts(beside)[: len(own)] == texts
    assert cells.keys(beside)[: len(own)] == cells.keys(alone)
    named = Categorical(name="named", categories=tuple(dict.fromkeys(map(str, texts))), missing=True)
    columns = [replace(column, name=f"{place}") for place, column in enumerate((named, *LABELS, *VALUES))]
    codec = Codec(Schema(columns=tuple(columns)))
    one, other_one = (codec.encode(pd.DataFrame(dict.fromkeys(codec.names, each))) for each in (alone, beside))
    assert len(set(one[:, 0].tolist())) == len(texts), "each has a category of its own"
    np.testing.assert_array_equal(other_one[: len(own)], one)


def test_one_cell_more_moves_what_is_bought_of_scalars_of_numpy_by_no_more_than_the_sensitivity():
    """Forty people share a category. One more, whose cell is missing in its own way, must not give it another name."""
    column = Categorical(name="dose", categories="learn", missing=True)
    schema, question = Schema(columns=(column,)), Domain("dose", 1.0, 1e-5, 1)
    shared = [np.float32(1.1)] * 40
    fewer, more = (seal(pd.DataFrame({"dose": each}), schema, bytes(32)) for each in (shared, [*shared, pd.NA]))
    assert question.movement(question.bounded(fewer), question.bounded(more)) == 0


def test_a_frame_of_any_objects_is_refused_in_one_line_and_not_otherwise():
    with pytest.raises(BadInput, match=r"^the table does not fit the schema: [^\n]*$"):
        MIXED.validate(objects(MIXED))


@pytest.mark.parametrize(
    ("made", "unit"),
    [
        ("objects", None),
        ("objects", "row"),
        ("csv", "row"),
        heavy(("csv there", None)),
        ("csv there", "row"),
        ("parquet there", "row"),
    ],
)
def test_a_fit_refuses_no_cell(tmp_path, capsys, caplog, recwarn, made, unit):
    caplog.set_level(logging.DEBUG)
    labels = made == "parquet there"
    one_of_a_kind = {column.kind: column for column in (LABELS if labels else LABELS + VALUES)}.values()
    columns = (Identifier(name="row"), *one_of_a_kind)
    schema = Schema(columns=columns, unit=unit, max_records_per_unit=1 if unit is None else 2)
    path = tmp_path / ("cells.parquet" if labels else "cells.csv")
    if labels:
        every_cell(schema).to_parquet(path, index=False)
    elif made != "objects":
        written(path, schema)
    given = {
        "objects": lambda: objects(schema),
        "csv": lambda: record_files.read(path, schema=schema),
        "csv there": lambda: tables.csv(path),
        "parquet there": lambda: tables.parquet(path),
    }[made]()
    synthesizer = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-6))
    release = synthesizer.fit(given, invalid="clamp", account=tmp_path / "account")
    schema.validate(release.sample(5))
    said, warned = capsys.readouterr(), [each for each in recwarn if not issubclass(each.category, DeprecationWarning)]
    assert (said.out, said.err, caplog.text, warned) == ("", "", "", [])


def test_every_way_to_write_an_instant_is_read_in_both_engines():
    """What is not read here is missing or the lower bound: two engines that read nothing would agree too."""
    read = {
        "2020-06-01": "2020-06-01",
        "20200601": "2020-06-01",
        "2020-06-01T06:30": "2020-06-01T06:30",
        "20200601 06:30:01": "2020-06-01T06:30:01",
        "2020-06-01T06:30:01.5Z": "2020-06-01T06:30:01.5",
        "2020-06-01T06:30:01.1234569": "2020-06-01T06:30:01.123456",
        "2020-06-01T06:30+02:00": "2020-06-01T04:30",
        "2020-06-01T06:30-0230": "2020-06-01T09:00",
        "2020-06-01T06:30+02": "2020-06-01T04:30",
    }
    found = cells.instants(pd.Series(list(read), dtype=object))
    assert not found.missing.any()
    assert found.cells.tolist() == [np.datetime64(text, "us").astype(int) for text in read.values()]
    for text in (
        "2020-W10-1",
        "2020-06-01T24:00",
        "2020-06-01T06",
        "20200601T063000",
        "\uff12\uff10\uff12\uff10-06-01",
    ):
        assert cells.instants(pd.Series([text], dtype=object)).wrong.all()


def test_a_row_that_no_reader_holds_is_refused_as_such(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("row,code\n0,No\n1," + "x" * 3_000_000 + "\n")
    with pytest.raises(BadInput, match="a row is longer than a MiB"):
        record_files.read(path, schema=SCHEMA)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_record_s_length_changes_how_another_s_line_break_is_read(tmp_path, encoding):
    # Arrow reads blocks of a MiB, and drops an LF at the start of one after a CR at the end of the one before, within quotes too.
    columns = {"code": {"kind": "categorical", "categories": ["aa\r\nbb", "aa\rbb", "c"]}, "note": {"kind": "ignore"}}
    schema = Schema.from_dict({"columns": columns, "reading": {"encoding": encoding}})
    first, row, rows = "c,zzzzzzzzzzzzz\r\n", '"aa\r\nbb",zzzzz\r\n', (1 << 20) // 16
    path = tmp_path / "table.csv"
    path.write_bytes(f"code,note\r\n{first}{row * rows}".encode(encoding))
    assert record_files.read(path, schema)["code"].value_counts().to_dict() == {"aa\r\nbb": rows, "c": 1}


@pytest.mark.parametrize("after", [1, -3])
def test_lines_within_quotes_are_no_records_wherever_they_are_in_a_file(tmp_path, after):
    # DuckDB scans 8,000,000 bytes at once: it took the first of these records for two thousand, and refused the second.
    code = {"kind": "categorical", "categories": ["a", "b", "c"]}
    schema = Schema.from_dict({"columns": {"code": code, "note": {"kind": "ignore"}}})
    path, start = tmp_path / "table.csv", "code,note\n" + f"a,{'x' * 997}\n" * 7999
    start += f"a,{'x' * (8_000_000 + after - len(start) - 3)}\n"
    path.write_text(start + '"\n' + "c,c\n" * 2000 + 'd",b\n' + "b,b\n" * 1000)
    with tables.opened(tables.csv(path)) as opened:
        counted = CountedTable.of(opened, schema, bytes(32)).encoded_by(Codec(schema)).counts([(0,)], (3,))[0]
    assert counted.tolist() == [8001, 1000, 0]


def rows_there(path, schema):
    """The rows of a file as the database's engine reads them, sorted."""
    with tables.opened(tables.csv(path)) as opened, tables.asking():
        table = opened.expression.to_pyarrow()
    return sorted(zip(*(table.column(name).to_pylist() for name in schema.names), strict=True))


ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}


@pytest.mark.parametrize(
    ("own", "ordinary"), [("LF", "CRLF"), ("CRLF", "LF"), ("CR", "LF"), ("CR", "CRLF"), ("LF", "CR")]
)
@pytest.mark.parametrize("quoted", [False, True], ids=["plain", "quoted"])
@pytest.mark.parametrize("place", [heavy(0), 2, heavy(5)])
def test_a_row_that_ends_in_its_own_way_is_read_as_the_others(tmp_path, own, ordinary, quoted, place):
    """One record of many would have kept DuckDB from reading the file, which the other engine reads."""
    names = {"kind": "categorical", "categories": ["x", "y"]}
    schema = Schema.from_dict({"columns": {"pid": {"kind": "identifier"}, "b": names}})
    rows = [f"p{row},x" for row in range(5)] + ['"p,5\n""a""",y' if quoted else "p5,y"]
    lines = [line + ENDS[own if at == place else ordinary] for at, line in enumerate(["pid,b", *rows])]
    path = tmp_path / "table.csv"
    path.write_bytes("".join(lines).encode())
    expected = sorted([(f"p{row}", "x") for row in range(5)] + [('p,5\n"a"' if quoted else "p5", "y")])
    assert sorted(record_files.read(path, schema).itertuples(index=False, name=None)) == expected
    assert rows_there(path, schema) == expected


@pytest.mark.parametrize("row", ["p1,x,x", "p1", '"p"1,x', ' "p1",x', '"p1" ,x', '"p1\n" ,x', '"p1,x'])
def test_a_row_that_the_database_would_read_in_its_own_way_is_refused_by_its_line(tmp_path, row):
    """Where lines end in several ways DuckDB is lenient: it drops cells and text that it did not expect."""
    path = tmp_path / "table.csv"
    path.write_bytes(f"pid,b\r\np0,x\n{row}\r\np2,y\n".encode())
    with pytest.raises(BadInput, match=r"table\.csv: line [34]: .*expected"), tables.opened(tables.csv(path)):
        pass


def test_lines_of_a_file_of_one_column_end_alike_in_the_database(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"b\r\nx\ny\r\n")
    with pytest.raises(BadInput, match="only if all of its lines end alike"), tables.opened(tables.csv(path)):
        pass


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("name", ["t.csv", heavy("t.xlsx"), "t.parquet", "t.csv of ours"])
def test_two_names_are_two_people_though_one_looks_like_the_other_made_harmless(tmp_path, name, strip):
    """A file of someone else holds =A and '=A as two people. In one that was written here, the list beside it tells that ''=A is '=A."""
    names = ["=A", "'=A", "''=A", "A", "'A"]
    columns = {"pid": {"kind": "identifier"}, "b": {"kind": "categorical", "categories": ["x"]}}
    schema = Schema.from_dict(
        {"unit": "pid", "max_records_per_unit": 1, "columns": columns, "reading": {"strip": strip}}
    )
    path, frame = tmp_path / name.split(" ")[0], pd.DataFrame({"pid": names, "b": "x"})
    if name == "t.csv":
        frame.to_csv(path, index=False)
    else:
        record_files.write([frame], path, schema)
    assert record_files.read(path, schema)["pid"].tolist() == names
    if path.suffix != ".xlsx":
        with tables.opened(tables.files(path)) as opened:
            counted = CountedTable.of(opened, schema, bytes(32))
            assert counted.units == len(names)
            if path.suffix == ".csv":
                found = csv_cells.typed(opened, schema).select("pid", csv_cells.written("pid")).distinct()
                assert sorted(found.to_pyarrow().column(0).to_pylist()) == sorted(names)


def test_files_of_which_some_were_made_harmless_are_refused(tmp_path):
    """=A, whose records lie in both, would be two people."""
    schema = Schema(columns=(Identifier(name="pid"), Boolean(name="b")), unit="pid", max_records_per_unit=1)
    ours, theirs = (tmp_path / name for name in ("a.csv", "b.csv"))
    record_files.write([pd.DataFrame({"pid": ["=A", "B"], "b": True})], ours, schema)
    theirs.write_text("pid,b\n=A,true\n")
    with pytest.raises(BadInput, match="one person could count as two"), tables.opened(tables.csv(tmp_path)):
        pass
    record_files.write([pd.DataFrame({"pid": ["=A"], "b": True})], theirs, schema, force=True)
    with tables.opened(tables.csv(tmp_path)) as opened:
        assert CountedTable.of(opened, schema, bytes(32)).units == 2


@pytest.mark.parametrize("letters", [1_000_000, 1_300_000])
@pytest.mark.parametrize("before", [0, heavy(900_000)], ids=["at the start", "at the end of a block"])
def test_a_long_row_is_read_or_refused_by_its_own_length_wherever_it_is(tmp_path, letters, before):
    schema, path = Schema(columns=(Categorical(name="x", categories=("a", "b"), other="b"),)), tmp_path / "rows.csv"
    path.write_text("x\n" + "a\n" * (before // 2) + "y" * letters + "\n" + "a\n" * 300_000)
    if letters > 1 << 20:
        for read in (lambda: record_files.read(path, schema), lambda: tables.check_lines(tables.csv(path), None)):
            with pytest.raises(BadInput, match=f"line {2 + before // 2}: a row is longer than a MiB"):
                read()
    else:
        assert len(record_files.read(path, schema)) == 300_001 + before // 2
