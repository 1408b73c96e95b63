"""Times of day: whole numbers since midnight to a model, and written as the file writes them."""

from datetime import time

import awkward
import numpy as np
import pandas as pd
import pytest

from synthdp import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.draft import draft
from synthdp.tables import source

CELLS = ["08:35", "8:05", "23:59", "00:00", "", "k. A.", "07:10:00"]
READ = [515, 485, 1439, 0, np.nan, np.nan, 430]


def schema(form="HH:MM", column=None, **coding):
    at = {"kind": "integer", "bounds": [0, 1439], "missing": True} if column is None else column
    reading = {"separator": ";", "columns": {"at": {"time": form, "missing": ["k. A."], **coding}}}
    return Schema.from_dict(
        {
            "declared_by": "the tests",
            "columns": {"row": {"kind": "identifier"}, "at": at, "ill": {"kind": "boolean"}},
            "reading": reading,
        }
    )


@pytest.fixture
def file(tmp_path):
    (tmp_path / "t.csv").write_text(
        "row;at;ill\n" + "".join(f"{row};{cell};true\n" for row, cell in enumerate(CELLS)), encoding="utf-8"
    )
    return tmp_path / "t.csv"


def test_a_time_is_minutes_since_midnight_in_memory_and_in_a_database(file):
    frame, codec = record_files.read(file, schema()), Codec(schema())
    np.testing.assert_array_equal(frame["at"].to_numpy(float, na_value=np.nan), READ)
    schema().validate(frame)
    with source.opened(source.csv(file), schema().reading) as opened:
        found = awkward.codes_in(opened, schema())
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}


@pytest.mark.parametrize("cell", ["24:00", "08:60", "8.35", "0835", "08:35:10", "morning"])
def test_what_is_no_time_of_its_format_is_refused_in_both_engines(tmp_path, cell):
    path = tmp_path / "t.csv"
    path.write_text(f"row;at;ill\n0;{cell};true\n1;08:35;true\n", encoding="utf-8")
    frame, codec = record_files.read(path, schema()), Codec(schema())
    with pytest.raises(BadInput, match="'at': some values are not times of day written HH:MM"):
        schema().validate(frame)
    with source.opened(source.csv(path), schema().reading) as opened:
        found = awkward.codes_in(opened, schema())
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx", "parquet", "sav", "dta"])
@pytest.mark.parametrize(
    ("form", "texts"),
    [
        ("HH:MM", ["08:35", "00:00"]),
        ("H:MM", ["8:35", "0:00"]),
        ("HHhMM", ["08h35", "00h00"]),
        ("HhMM", ["8h35", "0h00"]),
        ("HH:MM:SS", ["08:35:09", "23:59:59"]),
    ],
)
def test_synthetic_records_have_times_again(tmp_path, ending, form, texts):
    declared = schema(form, {"kind": "integer", "bounds": [0, 86_399 if form[-1] == "S" else 1439], "missing": True})
    numbers = [515, 0] if form[-1] == "M" else [30_909, 86_399]
    path = tmp_path / f"made.{ending}"
    record_files.write(
        [pd.DataFrame({"row": ["a", "b", "c"], "at": pd.array([*numbers, None], "Int64"), "ill": True})], path, declared
    )
    np.testing.assert_array_equal(
        record_files.read(path, declared)["at"].to_numpy(float, na_value=np.nan), [*numbers, np.nan]
    )
    read = {"csv": lambda path: pd.read_csv(path, sep=";"), "parquet": pd.read_parquet}
    if ending in read:
        assert read[ending](path)["at"].tolist() == [*texts, "k. A."]


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
@pytest.mark.parametrize("times", [["08:30", "23:59"], ["08:30:00", "23:59:01"], ["8:05", "17:20"], ["8h05", "17h20"]])
def test_a_draft_keeps_times_of_day_and_their_bounds_are_the_day(tmp_path, ending, times):
    frame = pd.DataFrame({"at": [*times, None] * 40, "x": np.arange(120) % 7})
    path = tmp_path / f"t.{ending}"
    {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[ending](path, index=False)
    found = record_files.look(path)
    made = draft(found.frame, path, found=found)
    drafted = Schema.from_dict(yamlfile.parse(made.schema, "draft"))
    seconds = times[0].count(":") > 1
    assert (drafted.column("at").kind, drafted.column("at").bounds) == ("integer", (0, 86_399 if seconds else 1439))
    forms = {"08:30": "HH:MM", "08:30:00": "HH:MM:SS", "8:05": "H:MM", "8h05": "HhMM"}
    assert drafted.reading.coding("at").time == forms[times[0]]
    assert "since midnight" in made.schema
    assert "at" not in made.seen.partition("columns:")[2]
    read = record_files.read(path, drafted)
    drafted.validate(read)
    assert read["at"].notna().sum() == 80


def test_times_of_a_parquet_file_that_has_them_as_such_and_of_a_frame(tmp_path):
    frame = pd.DataFrame({"at": [time(8, 30), time(23, 59, 1)] * 40, "x": range(80)})
    frame.to_parquet(tmp_path / "t.parquet")
    found = record_files.look(tmp_path / "t.parquet")
    drafted = Schema.from_dict(yamlfile.parse(draft(found.frame, "t.parquet", found=found).schema, "draft"))
    assert drafted.reading.coding("at").time == "HH:MM:SS"
    assert record_files.read(tmp_path / "t.parquet", drafted)["at"].tolist() == [30_600, 86_341] * 40
    with pytest.warns(UserWarning, match="'at': .*since midnight"):
        made = Schema.draft(frame)
    assert made.column("at").bounds == (0, 86_399)


@pytest.mark.parametrize(
    ("form", "column", "coding", "message"),
    [
        (
            "HH:MM",
            {"kind": "continuous", "bounds": [0, 1439], "missing": True},
            {},
            "time belongs to columns of kind integer",
        ),
        (
            "HH:MM",
            {"kind": "integer", "bounds": [0, 2400], "missing": True},
            {},
            "times of day written as HH:MM count from 0 to 1439",
        ),
        ("HH:MM", None, {"suffix": " Uhr"}, "a time of day has no"),
        ("hh:mm", None, {}, "time must be 'HH:MM' or"),
    ],
)
def test_what_contradicts_itself_is_refused(form, column, coding, message):
    with pytest.raises(BadInput, match=message):
        schema(form, column, **coding).check_declared()
