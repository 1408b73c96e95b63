import warnings

import numpy as np
import pandas as pd
import pytest
from clinic import said
from mixed_tables import AWFUL, MIXED, every_code

import synthdp
from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.schema import LEARN, Categorical, Datetime, Identifier, Integer, Schema

CODEC = Codec(MIXED)


@pytest.fixture
def frame():
    return CODEC.decode(every_code(CODEC.sizes, 60), np.random.default_rng(0)).astype(object)


def problems(frame, schema=MIXED, **keys):
    return said(lambda: schema.validate(frame, **keys))


def test_a_path_in_place_of_a_frame_is_refused_with_what_reads_it():
    assert problems("table.csv") == (
        "expected a pandas DataFrame, got str; synthdp.read(path, schema) reads a file as one"
    )


def test_a_good_table_comes_back_in_schema_order(frame):
    shuffled = frame[frame.columns[::-1]]
    pd.testing.assert_frame_equal(MIXED.validate(shuffled), frame)
    pd.testing.assert_frame_equal(MIXED.validate(shuffled, "clamp"), frame)


def test_every_problem_of_the_table_in_one_message(frame):
    frame.loc[:2, "code"] = "CANARY"
    frame.loc[3, "age"] = "CANARY"
    frame.loc[4:5, "few"] = 666
    frame.loc[6, "few"] = 1.5
    frame.loc[7, "real"] = None
    frame.loc[8, "outcome"] = "CANARY"
    frame.loc[9, "admitted"] = "31/12/2020"
    frame.loc[10, "admitted"] = "1066-10-14"
    frame.loc[11, "patient"] = None
    frame.loc[12, "money"] = "3.10"
    frame.loc[13, "score"] = 37
    said = problems(frame)
    for part in (
        "column 'code': some values are not one of the declared categories",
        "column 'age': some values are not numbers",
        "column 'few': some values are outside the declared bounds [0, 5]",
        "column 'few': some values are not whole",
        "column 'score': some values are not multiples of the declared step 5",
        "column 'real': some values are missing, which the schema does not allow",
        "column 'outcome': some values are not true or false",
        "column 'admitted': some values are not dates or times",
        "column 'admitted': some values are outside the declared bounds [2020-01-01, 2021-12-31]",
        "column 'patient': some values are missing in the unit column",
        "column 'money': some values are numbers that are stored as text",
    ):
        assert part in said
    for cell in ("CANARY", "666", "1066", "31/12", "3.10", "37"):
        assert cell not in said
    frame.loc[3:11, "code"] = "CANARY"
    assert problems(frame) == said  # which tells no count


def test_clamp_lets_content_pass_and_structure_not(frame):
    for name in MIXED.names:
        frame[name] = (AWFUL * 2)[: len(frame)]
    assert list(MIXED.validate(frame, "clamp").columns) == list(MIXED.names)
    assert "missing columns: 'age'" in problems(frame.drop(columns="age"), invalid="clamp")


def test_structure(frame):
    assert "missing columns: 'age', 'few' (add them" in problems(frame.drop(columns=["few", "age"]))
    assert "does not know: 'extra' (drop them from the file" in problems(frame.assign(extra=1))
    assert "duplicate columns: 'age'" in problems(pd.concat([frame, frame["age"]], axis=1))
    renamed = problems(frame.rename(columns={"age": "Age"}).assign(extra=1))
    assert "does not know: 'Age' (perhaps 'age'), 'extra' (drop them from the file" in renamed
    both = problems(frame.drop(columns="age").assign(extra=1))
    assert "missing columns" in both
    assert "does not know" in both
    assert "DataFrame" in problems(frame.to_dict())
    assert "error or clamp" in problems(frame, invalid="ignore")


def test_without_a_header_no_cell_is_named(frame):
    said = problems(frame.set_axis([f"secret{place}" for place in range(frame.shape[1])], axis=1))
    assert "header row" in said
    assert "secret" not in said


def test_learned_items_are_not_checked():
    schema = Schema(
        columns=(
            Categorical(name="c", categories=LEARN),
            Integer(name="i", bounds=LEARN),
            Datetime(name="d", bounds=LEARN),
        )
    )
    frame = pd.DataFrame({"c": ["anything", 3], "i": [1, 10**9], "d": ["1066-10-14", "2020-01-01"]})
    assert schema.validate(frame).shape == (2, 3)
    said = problems(frame.assign(i=["x", None], c=[None, "a"]), schema)
    assert "'i': some values are not numbers" in said
    assert "'i': some values are missing" in said
    assert "'c': some values are missing" in said


def test_numbers_that_are_stored_as_text_are_called_so():
    """They read as numbers, so "not numbers" would send somebody looking for other cells."""
    schema = Schema(columns=(Integer(name="i", bounds=(0, 99)),))
    said = problems(pd.DataFrame({"i": ["7", "12"]}), schema)
    assert "'i': some values are numbers that are stored as text" in said
    assert "pandas.to_numeric" in said
    assert "not numbers" not in said
    assert "'i': some values are not numbers" in problems(pd.DataFrame({"i": ["7", "seven"]}), schema)


def test_a_category_for_the_unknown_takes_them():
    schema = Schema(columns=(Categorical(name="c", categories=("a", "rest"), other="rest"),))
    assert len(schema.validate(pd.DataFrame({"c": ["a", "never seen"]}))) == 2


def test_other_identifiers_may_be_missing():
    schema = Schema(columns=(Identifier(name="record"), Integer(name="i", bounds=(0, 9))))
    assert len(schema.validate(pd.DataFrame({"record": [None, "x"], "i": [1, 2]}))) == 2


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_ordinary(frame, rows):
    assert len(MIXED.validate(frame.iloc[:rows])) == rows


def test_a_frame_in_the_coding_of_its_file_is_refused_with_the_way_to_read_it(tmp_path):
    reading = {
        "separator": ";",
        "decimal": ",",
        "columns": {"born": {"date": "dd.mm.yyyy"}, "ill": {"words": ["Nein", "Ja"]}},
    }
    columns = {
        "born": {"kind": "datetime", "bounds": ["1900-01-01", "2030-01-01"]},
        "dose": {"kind": "continuous", "bounds": [0, 9]},
        "ill": {"kind": "boolean"},
    }
    schema = Schema.from_dict({"declared_by": "test", "columns": columns, "reading": reading})
    path = tmp_path / "a.csv"
    path.write_text("born;dose;ill\n31.12.1970;1,5;Ja\n01.02.1980;2;Nein\n")
    with pytest.raises(
        BadInput,
        match=r"cells of 'born', 'dose', 'ill' are written in the way that .*: synthdp\.read\(path, schema\) reads",
    ):
        schema.validate(pd.read_csv(path, sep=";"))
    frame = synthdp.read(path, schema)
    assert len(schema.validate(frame)) == 2
    synthdp.write([frame], tmp_path / "b.csv", schema)
    assert (tmp_path / "b.csv").read_text().split() == ["born;dose;ill", "31.12.1970;1,5;Ja", "01.02.1980;2,0;Nein"]
    assert synthdp.write(frame, tmp_path / "c.csv", schema) == 2
    assert (tmp_path / "c.csv").read_text() == (tmp_path / "b.csv").read_text()
    with pytest.raises(BadInput, match="lacks columns of the schema: 'dose'"):
        synthdp.write(frame.drop(columns="dose"), tmp_path / "d.csv", schema)
    path.write_text("born;dose;ill\n12/31/1970;1.5;Oui\n")
    with pytest.raises(BadInput) as caught:
        schema.validate(synthdp.read(path, schema))
    for part in (
        "'born': some values are not dates written dd.mm.yyyy, as reading says",
        "'dose': some values are not numbers written 1234,5, as reading says",
        "'ill': some values are not 'Nein' or 'Ja', as reading says",
    ):
        assert part in str(caught.value)
    for other in ("1234.5", "2020-01-31", "yes/no"):
        assert other not in str(caught.value), "no form that the file does not have"


@pytest.mark.parametrize(
    ("zone", "resolution", "warned"),
    [("Europe/Berlin", "day", True), ("Europe/Berlin", "hour", False), ("UTC", "day", False), (None, "day", False)],
)
@pytest.mark.parametrize("arrow", [False, True])
def test_days_of_another_time_zone_are_warned_of_since_they_are_taken_in_utc(zone, resolution, warned, arrow):
    """A midnight in Berlin became the day before, and nothing said so."""
    schema = Schema(columns=(Datetime(name="day", bounds=("2020-01-01", "2020-12-31"), resolution=resolution),))
    days = pd.Series(pd.to_datetime(["2020-03-05", "2020-07-01"]), name="day").dt.tz_localize(zone)
    frame = days.convert_dtypes(dtype_backend="pyarrow").to_frame() if arrow else days.to_frame()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        schema.validate(frame)
    assert [str(each.message).split(":")[0] for each in said] == ["column 'day'"] * warned
    if warned:
        assert "midnight in Europe/Berlin may fall on another day" in str(said[0].message)
