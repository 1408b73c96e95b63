"""Other spellings of a category, and a total as the last row: a draft and a check tell the steward, and show no cell."""

import linked_clinic
import numpy as np
import pandas as pd
import pytest

from synthdp import BadInput, Budget, Schema, Synthesizer
from synthdp.generators.independent import Independent
from synthdp.schema import odd_cells
from synthdp.schema.table_review import review, review_tables

SEX = ["male"] * 5 + ["Male ", "M"] + ["female"] * 5 + ["f"]


def schema(**sex):
    columns = {"sex": {"kind": "categorical", **sex}, "age": {"kind": "integer", "bounds": [0, 99]}}
    return Schema.from_dict({"name": "people", "declared_by": "the tests", "units": 13, "columns": columns})


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (SEX, [5, 6, 12]),
        (["a", "A", "A"], [0]),
        (["Köln", "köln", "Köln", None], [1]),
        (["A", "B", "C"], []),
        (["A", "A00", "B"], []),  # codes are no words
        (["m", "mono", "multi"], []),  # it could be either
        (["K", "K", "Krea", "Na"], []),  # each may be a code
        (["m", "m", "male", "f", "female", "unknown"], [0, 1, 3]),  # as most words do
        ([1, 2, 1], []),
    ],
)
def test_rarer_spellings_are_found(cells, odd):
    assert odd_cells.respelled(pd.Series(cells)).tolist() == odd


@pytest.mark.parametrize(
    ("names", "odd"),
    [
        (["P-00127", "p127", "P-00127"], [1]),
        (["943 476", "943476", "94-3476"], [1, 2]),
        (["0127", "127", "127"], [0]),
        ([127.0, "127.0", "127"], [1]),
        (["12-3", "1-23", "1-230"], []),  # two numbers in one
        (["a01b1", "a1b01", "P1", "Q1", "A.1.0"], []),
        (["--", "-", "", None], []),
        ([3, 30, 300], []),
    ],
)
def test_rarer_spellings_of_a_name_are_found(names, odd):
    assert odd_cells.renamed(pd.Series(names, dtype=object)).tolist() == odd


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("Summe", True),
        ("Total:", True),
        ("GESAMT", True),
        ("Eindtotaal", True),
        ("RAZEM", True),
        ("P3", False),
        (None, False),
    ],
)
def test_a_total_is_found_at_the_end(last, found):
    assert odd_cells.ends_in_total(pd.DataFrame({"id": ["P1", "P2", last], "n": [1, 2, 3]})) == found


def test_a_category_that_is_called_total_is_none():
    assert not odd_cells.ends_in_total(pd.DataFrame({"knee": ["total", "partial", "total"]}))
    assert not odd_cells.ends_in_total(pd.DataFrame({"knee": ["total"]}))


@pytest.mark.parametrize(
    ("sex", "counts_as"),
    [
        ({"categories": "learn"}, "a category of its own"),
        ({"categories": ["male", "female", "unknown"], "other": "unknown"}, "'unknown'"),
    ],
)
def test_a_check_names_rows_and_shows_no_cell(sex, counts_as):
    frame = pd.DataFrame({"sex": SEX, "age": range(13)})
    (found,) = (each for each in review(schema(**sex), frame, frame) if each.what == odd_cells.RESPELLED)
    assert (found.column, found.rows, found.count) == ("sex", (6, 7, 13), 3)
    assert counts_as in found.remedy
    assert "Male" not in found.what + found.remedy


@pytest.mark.parametrize(("cell", "said"), [("M", True), (" m ", False), ("q", False)])
def test_a_check_says_that_an_undeclared_value_is_a_declared_one_in_other_capitals(cell, said):
    frame = pd.DataFrame({"sex": ["m", cell, "f"], "age": [1, 2, 3]})
    (found,) = (each for each in review(schema(categories=["m", "f"]), frame, frame) if each.refused)
    assert ("differ from a declared category only in capitals or" in found.remedy) is said


def test_declared_spellings_are_no_finding():
    frame = pd.DataFrame({"sex": ["m", "M", "m"], "age": [1, 2, 3]})
    found = review(schema(categories=["m", "M", "x"], other="x"), frame, frame)
    assert odd_cells.RESPELLED not in {each.what for each in found}


def test_columns_with_other_spellings_are_named_in_one_line():
    frame = pd.DataFrame({"sex": SEX, "age": range(13), "partner": SEX[::-1]})
    (said,) = odd_cells.told(frame)
    assert said.startswith("columns 'sex', 'partner': some values seem")


def test_a_draft_says_both(tmp_path, monkeypatch, output_of):
    monkeypatch.chdir(tmp_path)
    people = [f"P{place};{cell.strip()};{place}" for place, cell in enumerate(SEX)]
    (tmp_path / "people.csv").write_text("\n".join(["patient;sex;age", *people, "Summe;;78", ""]))
    said = output_of("schema", "path=people.csv", "out=people.yaml").out
    assert "column 'sex': some values seem to be other spellings" in said
    assert "the last row seems to be a total" in said


def test_a_draft_names_columns_of_one_value_and_not_the_value(tmp_path, monkeypatch, output_of):
    """They cost a part of the budget, and nothing said so. That is said to the steward, and stands in no file."""
    monkeypatch.chdir(tmp_path)
    line = "SECRET,826,{0},,{1}\n"
    rows = (line.format(row % 3, "Y" if row % 2 else "") for row in range(40))
    (tmp_path / "t.csv").write_text("hospital,country,stage,empty,consent\n" + "".join(rows))
    said = output_of("schema", "path=t.csv", "out=t.yaml").out
    assert "look at   columns 'hospital', 'country': the same value in every record" in said
    assert said.count("look at   ") == 1
    assert "SECRET" not in said + (tmp_path / "t.yaml").read_text()
    assert "same value" not in (tmp_path / "t.yaml").read_text()


@pytest.mark.parametrize("head", ["case;days", "admitted;days"])
def test_a_draft_says_of_a_total_that_stands_in_a_column_of_numbers_or_dates(head, tmp_path, monkeypatch, output_of):
    monkeypatch.chdir(tmp_path)
    first = "7000{:02}" if head.startswith("case") else "{:02}.01.2025"
    rows = [f"{first.format(place)};{place % 5}" for place in range(1, 32)]
    (tmp_path / "cases.csv").write_text("\n".join([head, *rows, "Summe;62", ""]))
    said = output_of("schema", "path=cases.csv", "out=cases.yaml").out
    assert said.count("look at   ") == 1
    assert "look at   the last row seems to be a total" in said


def test_a_program_may_write_a_schema_with_numbers_of_numpy():
    columns = {
        "age": {"kind": "integer", "bounds": np.array([0, 99])},
        "ill": {"kind": "boolean", "missing": np.bool_(True)},
    }
    values = {"name": "people", "declared_by": "the tests", "units": np.int64(13), "columns": columns}
    plain = {**columns, "age": {"kind": "integer", "bounds": (0, 99)}, "ill": {"kind": "boolean", "missing": True}}
    assert Schema.from_dict(values) == Schema.from_dict({**values, "units": 13, "columns": plain})


@pytest.mark.parametrize(("made", "got"), [(Independent, "the class Independent"), (5, "int"), ({}, "dict")])
def test_what_is_no_generator_is_refused(made, got):
    with pytest.raises(BadInput, match=f"generator must be a name, .* got {got}"):
        Synthesizer(made, schema=schema(categories=["male"]), budget=Budget(1.0, 1e-6))


def test_a_missing_text_is_not_the_category_that_learned_ones_get():
    values = schema(categories="learn", missing=True).to_dict()
    with pytest.raises(BadInput, match="'other' is a value that the column may have and a code for missing values"):
        Schema.from_dict({**values, "reading": {"columns": {"sex": {"missing": ["other"]}}}}).check_reading()


def test_a_check_finds_patients_in_two_spellings():
    columns = {"patient": {"kind": "identifier"}, "age": {"kind": "integer", "bounds": [0, 99]}}
    of = Schema.from_dict(
        {
            "name": "people",
            "declared_by": "the tests",
            "unit": "patient",
            "units": 2,
            "columns": columns,
            "max_records_per_unit": 2,
        }
    )
    frame = pd.DataFrame({"patient": ["P-01", "P-02", "p1", "P-01"], "age": range(4)})
    (found,) = (each for each in review(of, frame, frame) if each.what == odd_cells.RENAMED)
    assert (found.column, found.rows, found.count) == ("patient", (3,), 1)
    assert "protects such a patient less" in found.remedy
    right = frame.assign(patient=["P-01", "P-02", "P-01", "P-01"])
    assert not [each for each in review(of, right, right) if each.what == odd_cells.RENAMED]


def test_a_check_of_linked_tables_finds_people_in_two_spellings():
    of = linked_clinic.schema()
    frames = linked_clinic.clinic(8)
    assert not [each for each in review_tables(of, frames, frames) if each.what == odd_cells.RENAMED]
    people = frames["person"].copy()
    people["person_id"] = ["A-7", "a7", *people["person_id"].iloc[2:]]
    frames = {**frames, "person": people}
    (found,) = (each for each in review_tables(of, frames, frames) if each.what == odd_cells.RENAMED)
    assert found.column == "person.person_id"


def test_a_column_that_is_there_under_two_names_is_told():
    codes = pd.Series([("I21.0", "K35.2", "J45.9", None)[row % 4] for row in range(40)])
    few = [row % 2 for row in range(40)]
    frame = pd.DataFrame(
        {"diagnosis": codes, "age": [20 + row for row in range(40)], "code": codes, "a": few, "b": few}
    )
    (said,) = odd_cells.told(frame)
    assert said == "column 'code': the same as column 'diagnosis' in every row; leave one of them out (kind: ignore)"
    assert not [*odd_cells.told(frame.assign(code=codes.where(codes.index < 39, "I21.0")))]
    kinds = {name: {"kind": "categorical", "categories": "learn", "missing": True} for name in frame}
    made = Schema.from_dict({"name": "x", "declared_by": "the tests", "units": 40, "columns": kinds})
    found = [each for each in review(made, frame, frame) if "the same as" in each.what]
    assert [(each.column, each.what, each.refused) for each in found] == [
        ("code", "the same as column 'diagnosis' in every row", False)
    ]
