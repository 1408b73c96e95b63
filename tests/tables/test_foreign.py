"""Excel, Stata, SPSS and SAS files: what was written is read, real ones are drafted and split, broken ones are refused in a line."""

import datetime
import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import said
from mixed_tables import MIXED, every_code
from sweeps import heavy

import synthdp
from synthdp.cli import run
from synthdp.cli.real_records import reviewed
from synthdp.cli.settings import Data
from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.schema import cells, yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.file_coding import Coding
from synthdp.schema.schema import Schema
from synthdp.sets import dictionary, record_files
from synthdp.sets.draft import draft
from synthdp.sets.split import split
from synthdp.tables import excel, foreign
from synthdp.tables import foreign_parser as parsing

xlsxwriter = pytest.importorskip("xlsxwriter", reason="needs the extra formats")
pytest.importorskip("python_calamine", reason="needs the extra formats")
pyreadstat = pytest.importorskip("pyreadstat", reason="needs the extra formats")

WRITTEN = (".xlsx", ".dta", ".sav", ".zsav", ".xpt")
CODEC = Codec(MIXED)
CODES = every_code(CODEC.sizes, 60)
CLINIC = Schema.from_dict(
    {
        "declared_by": "the tests",
        "unit": "patient",
        "max_records_per_unit": 2,
        "reading": {
            "columns": {
                "patient": {"pattern": "P#####"},
                "sex": {"labels": {1: "male", 2: "female"}},
                "severity": {"labels": {1: "mild", 2: "severe"}},
                "smoker": {"words": [0, 1]},
                "score": {"missing": [-9]},
            }
        },
        "columns": {
            "patient": {"kind": "identifier"},
            "sex": {"kind": "categorical", "categories": ["male", "female"], "missing": True},
            "severity": {"kind": "ordinal", "categories": ["mild", "severe"]},
            "smoker": {"kind": "boolean", "missing": True},
            "score": {"kind": "integer", "bounds": [0, 20], "missing": True},
            "creatinine": {"kind": "continuous", "bounds": [0, 10], "decimals": 2},
            "admitted": {"kind": "datetime", "bounds": ["2020-01-01", "2025-12-31"], "missing": True},
        },
    }
)


@pytest.fixture(autouse=True)
def inside(request, monkeypatch):
    """Parses in this process, which takes a tenth of the time; tests that use `apart` start the parser's own."""
    if "apart" in request.fixturenames:
        return

    def parsed(path, ending, sheet=None):
        try:
            table = (
                parsing.workbook(str(path), sheet or "", 100)
                if ending == ".xlsx"
                else parsing.statistics(str(path), ending, coded=sheet == "coded")
            )
        except parsing.RefusedError as refused:
            raise BadInput(f"{path}: {refused}") from None
        return foreign.Parsed(table)

    monkeypatch.setattr(foreign, "parsed", parsed)


@pytest.fixture
def apart():
    """The parser in a process of its own."""


@pytest.mark.parametrize("ending", WRITTEN)
def test_what_was_written_is_read(tmp_path, ending):
    frame = CODEC.decode(CODES, np.random.default_rng(0))
    path = tmp_path / f"t{ending}"
    assert record_files.write(iter([frame[:20], frame[20:20], frame[20:]]), path, MIXED) == 60
    back = record_files.read(path, MIXED)
    MIXED.validate(back)
    np.testing.assert_array_equal(CODEC.encode(back), CODES)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", WRITTEN)
def test_the_coding_of_the_input_is_kept(tmp_path, ending):
    codec = Codec(CLINIC)
    codes = every_code(codec.sizes, 40)
    path = tmp_path / f"t{ending}"
    record_files.write([codec.decode(codes, np.random.default_rng(0))], path, CLINIC)
    np.testing.assert_array_equal(codec.encode(record_files.read(path, CLINIC)), codes)
    raw = record_files.read(path)
    assert set(raw["sex"].dropna()) == set(raw["severity"].dropna()) == {1, 2}
    assert set(raw["smoker"].dropna()) == {0, 1}
    assert -9 in set(raw["score"])
    assert not raw["score"].isna().any()
    assert raw["patient"].iloc[0] == "P00001"
    if ending in (".dta", ".sav"):
        labels = foreign.parsed(path, ending).facts["labels"]
        assert labels == {"sex": [["1", "male"], ["2", "female"]], "severity": [["1", "mild"], ["2", "severe"]]}


@pytest.mark.parametrize("ending", WRITTEN)
def test_no_records_are_a_table_too(tmp_path, ending):
    record_files.write([], tmp_path / f"t{ending}", CLINIC)
    assert len(record_files.read(tmp_path / f"t{ending}", CLINIC)) == 0


def patients(rows=80):
    rng = np.random.default_rng(1)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D")
    return pd.DataFrame(
        {
            "patient": [f"P{number:04d}" for number in rng.integers(0, 40, rows)],
            "sex": rng.choice([1.0, 2.0], rows),
            "severity": rng.choice([1.0, 2.0, 9.0], rows),
            "age": rng.integers(18, 95, rows).astype(float),
            "admitted": days.date,
        }
    )


LABELS = {"sex": {1: "male", 2: "female", 3: "diverse"}, "severity": {1: "mild", 2: "severe", 9: "refused"}}


def spss(path, frame, missing=9):
    pyreadstat.write_sav(
        frame,
        path,
        variable_value_labels=LABELS,
        missing_ranges={"severity": [missing]},
        column_labels={"severity": "Severity at admission"},
        variable_measure={"severity": "ordinal"},
    )


def spss_range(path, frame):
    spss(path, frame, {"lo": 8, "hi": 99})


def stata(path, frame):
    codes = frame.assign(severity=[("a" if code == 9 else int(code)) for code in frame["severity"]])
    labels = {**LABELS, "severity": {1: "mild", 2: "severe", "a": "refused"}}
    pyreadstat.write_dta(
        codes.astype({"severity": object}), path, variable_value_labels=labels, missing_user_values={"severity": ["a"]}
    )


@pytest.mark.parametrize(
    ("ending", "write", "kind"),
    [(".sav", spss, "ordinal"), (".sav", spss_range, "ordinal"), (".dta", stata, "categorical")],
)
def test_labels_are_categories_and_declared_missing_codes_are_missing(tmp_path, ending, write, kind):
    frame, path = patients(), tmp_path / f"t{ending}"
    write(path, frame)
    found = record_files.look(path)
    text = draft(found.frame, path, found=found).schema
    assert "a program made these of the cells" in text, "such labels are no public knowledge"
    told = dictionary.schema_text(path)
    assert "a program made value labels of the cells" in told
    assert yamlfile.parse(told, "told")["columns"]["severity"]["categories"] == ["mild", "severe"]
    drafted = yamlfile.parse(text, "draft")
    columns = drafted["columns"]
    assert columns["sex"]["categories"] == ["male", "female", "diverse"]
    assert (columns["severity"]["kind"], columns["severity"]["categories"]) == (kind, ["mild", "severe"])
    assert (columns["admitted"]["kind"], columns["admitted"]["resolution"]) == ("datetime", "day")
    assert drafted["reading"]["columns"]["severity"]["labels"] == {"1": "mild", "2": "severe"}
    read = record_files.read(path, Schema.from_dict(drafted))
    expected = frame["severity"].map({1: "mild", 2: "severe"})
    assert read["severity"].fillna("?").tolist() == expected.fillna("?").tolist()
    assert read["sex"].tolist() == frame["sex"].map(LABELS["sex"]).tolist()
    assert pd.to_datetime(read["admitted"]).dt.date.tolist() == frame["admitted"].tolist()


def test_a_file_whose_labels_are_not_the_declared_ones_is_refused(tmp_path):
    spss(tmp_path / "t.sav", patients())
    values = {"sex": {"kind": "categorical", "categories": ["male", "female"], "missing": True}}
    ignored = {name: {"kind": "ignore"} for name in ("patient", "severity", "age", "admitted")}
    swapped = {"columns": {"sex": {"labels": {1: "female", 2: "male"}}}}
    schema = Schema.from_dict({"columns": {**values, **ignored}, "reading": swapped})
    assert "value labels differ" in said(record_files.read, tmp_path / "t.sav", schema)
    unlabelled = Schema.from_dict({"columns": {**values, **ignored}})
    assert set(record_files.read(tmp_path / "t.sav", unlabelled)["sex"]) == {"male", "female"}


STATA_DATES = {
    "%td": 21915,
    "%tdDD.NN.CCYY": 21915,
    "%tc": 21915 * 86_400_000,
    "%tm": 720,
    "%tq": 240,
    "%tw": 60 * 52,
    "%ty": 2020,
}


@pytest.mark.parametrize("form", STATA_DATES)
def test_every_kind_of_date_of_stata(tmp_path, form):
    frame = pd.DataFrame({"seen": [float(STATA_DATES[form]), np.nan]})
    pyreadstat.write_dta(frame, tmp_path / "t.dta", variable_format={"seen": form})
    read = record_files.read(tmp_path / "t.dta")["seen"]
    assert read.iloc[0] == pd.Timestamp("2020-01-01")
    assert read.isna().tolist() == [False, True]


def test_times_of_day_of_stata_stay_numbers(tmp_path):
    pyreadstat.write_dta(
        pd.DataFrame({"at": [36_610_000.0]}), tmp_path / "t.dta", variable_format={"at": "%tcHH:MM:SS"}
    )
    assert record_files.read(tmp_path / "t.dta")["at"].tolist() == [36_610_000.0]


@pytest.mark.parametrize("form", ["DATE11", "ADATE10", "EDATE10", "SDATE10", "DATETIME20", "MOYR8"])
def test_dates_of_spss(tmp_path, form):
    seconds = (pd.Timestamp("2020-01-01") - pd.Timestamp("1582-10-14")).total_seconds()
    frame = pd.DataFrame({"seen": [seconds, 9e99]})
    pyreadstat.write_sav(frame, tmp_path / "t.sav", variable_format={"seen": form})
    read = record_files.read(tmp_path / "t.sav")["seen"]
    assert read.iloc[0] == pd.Timestamp("2020-01-01")
    assert read.iloc[1].year == 9999  # no day of the calendar: the nearest one


def workbook(path, rows, **sheets):
    with xlsxwriter.Workbook(str(path)) as book:
        day = book.add_format({"num_format": "dd.mm.yyyy"})
        for name, cells in {"Export": rows, **sheets}.items():
            sheet = book.add_worksheet(name)
            for place, row in enumerate(cells):
                for column, cell in enumerate(row):
                    if isinstance(cell, datetime.date):
                        sheet.write_datetime(place, column, cell, day)
                    elif isinstance(cell, str):
                        sheet.write_string(place, column, cell)
                    elif cell is not None:
                        sheet.write(place, column, cell)
            sheet.write_blank(900, 12, None, day)  # a format far below the table, as hand-made sheets have
    return path


def test_a_workbook_s_number_that_may_be_several_keys_or_codes_is_none(tmp_path):
    schema = Schema.from_dict(
        {
            "columns": {
                "patient": {"kind": "identifier"},
                "code": {"kind": "categorical", "categories": [str(2**53), "5"]},
                "x": {"kind": "continuous", "bounds": [0, 1e18]},
            },
            "unit": "patient",
            "max_records_per_unit": 1,
            "declared_by": "test",
        }
    )
    rows = [["patient", "code", "x"], [1e17, 5, 1e17], ["1e17", 2**53, 2], [2**53 - 1, str(2**53), 3], [7, 5, 2**53]]
    frame = record_files.read(workbook(tmp_path / "t.xlsx", rows), schema)
    assert cells.keys(frame["patient"]) == ["", "1e17", "9007199254740991.0", "7"]
    assert cells.texts(frame["code"]) == ["5", cells.UNREADABLE, str(2**53), "5"]
    assert frame["x"].tolist() == [1e17, 2, 3, 2**53]
    with pytest.raises(BadInput, match=r"'patient': some values are missing.*'code': some values are not one of"):
        schema.validate(frame)


UGLY = [
    ["patient", "sex ", "age", "creatinine", "admitted", "born", "code"],
    ["P1", " m", 44, "1,5", datetime.date(2024, 2, 29), "31.01.1950", "007"],
    ["P2", "w ", "k. A.", 2.25, datetime.date(2024, 3, 1), "01.12.1961", 12],
    [None] * 7,
    ["P3", "w", -9, "0,75", None, "15.06.1970", "A1"],
    ["P4", "m", 61, 1, datetime.date(2023, 1, 31), "", "=1+1"],
]


@pytest.mark.parametrize("texts", [["-99"], ["-99", "."]])
def test_a_code_for_missing_values_that_is_text_among_numbers_is_found(tmp_path, texts):
    rows = [["height"], *([1 + place / 100] for place in range(50, 90)), *([text] for text in texts)]
    found = record_files.look(workbook(tmp_path / "t.xlsx", rows))
    assert set(texts) <= set(dict(found.reading.columns)["height"].missing)
    assert found.frame["height"].min() == 1.5


@pytest.mark.parametrize("titles", [[["Export of 2025"]], [["Clinic"], [None], ["of May"]]])
def test_titles_above_the_header_are_skipped_and_told(tmp_path, titles):
    path = workbook(tmp_path / "t.xlsx", [*titles, *UGLY])
    found = record_files.look(path)
    rows = "row 1 is" if len(titles) == 1 else "rows 1 to 3 are"
    assert f"{rows} taken as titles above the header" in found.mind
    plain = record_files.look(workbook(tmp_path / "u.xlsx", UGLY))
    pd.testing.assert_frame_equal(found.frame, plain.frame)
    assert not any("titles" in text for text in plain.mind)


def test_columns_with_merged_cells_are_told_since_all_but_the_first_cell_are_blank(tmp_path):
    """A title is often merged as well, and nothing is lost by that."""
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet("Export")
        sheet.merge_range(0, 1, 0, 3, "Clinic")
        sheet.write_row(2, 1, ["patient", "ward", "sex"])
        for row in range(3, 9):
            sheet.write_row(row, 1, [f"P{row}", None if row in (5, 6) else "a", "f"])
        sheet.merge_range(4, 2, 6, 2, "b")
    found = record_files.look(tmp_path / "t.xlsx")
    (told,) = [text for text in found.mind if "merged" in text]
    assert told.startswith("cells are merged in 'ward': only the first cell of a merged range holds its value")
    assert found.frame["ward"].isna().sum() == 2
    assert not any("merged" in text for text in record_files.look(workbook(tmp_path / "u.xlsx", UGLY)).mind)


def test_a_sheet_that_is_no_table_is_named_with_the_reason(tmp_path):
    wide = [["a", "b"], ["1", "2", "3"]]
    path = workbook(tmp_path / "t.xlsx", [["Clinic"]], Data=wide, Dates=[["a", 1], ["x", 2]], Empty=[["a", "b"], ["x"]])
    assert record_files.look(path).mind[:4] == (
        "the sheets 'Data', 'Dates', 'Empty' are left out; sheet= names another one",
        "the sheet 'Data' was not taken for a table: its header in row 1 has fewer names than a row has cells",
        "the sheet 'Dates' was not taken for a table: row 1 is no header of several names",
        "the sheet 'Empty' was not taken for a table: no record is below its header",
    )


@pytest.mark.parametrize(
    "cover", [[["Export of 2025"], [None], ["for the ethics board"]], [["Clinic"], ["Date", 45000]]]
)
def test_a_cover_sheet_is_passed_over_and_the_sheet_that_was_taken_is_named(tmp_path, cover):
    path = workbook(tmp_path / "t.xlsx", cover, Data=UGLY, Legend=[["x", "y"], ["1", "2"]])
    found = record_files.look(path)
    assert found.reading.sheet == "Data"
    assert any("the sheet 'Data' is taken, since 'Export' before it holds no table" in text for text in found.mind)
    assert any("'Export', 'Legend' are left out; sheet= names another one" in text for text in found.mind)
    plain = record_files.look(workbook(tmp_path / "u.xlsx", UGLY))
    pd.testing.assert_frame_equal(found.frame, plain.frame)
    assert record_files.look(path, "Legend").reading.sheet == "Legend"


def test_a_sheet_with_more_rows_than_the_one_taken_is_named(tmp_path):
    """A cover of several names and values looks like a table."""
    facts = [["What", "Value"], ["made by", "the clinic"], ["on", "a Friday"]]
    path = workbook(tmp_path / "t.xlsx", facts, Data=[["a", "b"]] + [["x", "y"]] * 9, Notes=[["a", "b"], ["x", "y"]])
    (told,) = (text for text in record_files.look(path).mind if "left out" in text)
    assert told == (
        "the sheets 'Data', 'Notes' are left out; sheet= names another one; more rows than in the one taken: 'Data'"
    )


def test_a_fit_reads_no_sheet_of_several_that_the_schema_does_not_name(tmp_path):
    columns = {name: {"kind": "integer", "bounds": [0, 9]} for name in "xy"}
    rows = [["x", "y"], [1, 2], [3, 4]]
    path = workbook(tmp_path / "t.xlsx", rows, Other=[["x", "y"], [5, 6]])
    unnamed = Schema.from_dict({"columns": columns})
    with pytest.raises(BadInput, match=r"several sheets hold cells \('Export', 'Other'\); name one in the schema"):
        record_files.read(path, unnamed)
    with pytest.raises(BadInput, match="several sheets hold cells"):
        split(path, unnamed, share=0.2, out=tmp_path / "sides", key=tmp_path / "key")
    named = Schema.from_dict({"columns": columns, "reading": {"sheet": "Other"}})
    assert record_files.read(path, named)["x"].tolist() == [5]
    pd.testing.assert_frame_equal(
        record_files.read(workbook(tmp_path / "u.xlsx", rows), unnamed),
        pd.DataFrame({"x": [1, 3], "y": [2, 4]}),
        check_dtype=False,
    )


@pytest.mark.parametrize("first", [["Export", "2025"], ["Export", 2025]])
def test_a_title_of_several_cells_is_refused_with_what_to_do(tmp_path, first):
    path = workbook(tmp_path / "t.xlsx", [first, *UGLY])
    assert "delete titles above the header" in said(record_files.look, path)


def test_a_folder_of_workbooks_is_one_table(tmp_path):
    folder = tmp_path / "exports"
    folder.mkdir()
    path = workbook(folder / "may.xlsx", UGLY)
    found = record_files.look(path)
    text = draft(found.frame, path, found=found).schema
    (tmp_path / "s.yaml").write_text(text)
    schema = Schema.load(tmp_path / "s.yaml")
    one = record_files.read(path, schema)
    workbook(folder / "june.xlsx", [["a title"], *UGLY])
    (folder / "~$may.xlsx").write_bytes(b"the lock of an open workbook")
    _, read = reviewed(Data(path=str(folder), schema=str(tmp_path / "s.yaml")))
    pd.testing.assert_frame_equal(read, pd.concat([one, one], ignore_index=True))
    (folder / "august.csv").write_text("x\na\n")
    assert record_files.workbooks(folder) == []


def test_a_sheet_that_the_schema_does_not_name_is_called_as_spreadsheets_call_it(tmp_path):
    schema = Schema.from_dict({"columns": {"x": {"kind": "boolean"}}})
    record_files.write([pd.DataFrame({"x": [True]})], tmp_path / "made.xlsx", schema)
    assert excel.opened(tmp_path / "made.xlsx", None).name == "Sheet1"


def test_a_table_of_one_column_has_no_titles(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["x"], ["a"], ["b"]])
    assert record_files.read(path)["x"].tolist() == ["a", "b"]


def test_an_ugly_workbook_is_drafted_and_read_by_its_draft(tmp_path):
    path = workbook(tmp_path / "t.xlsx", UGLY, Legend=[["x"], ["y"]])
    found = record_files.look(path)
    assert any("'Legend'" in text for text in found.mind)
    drafted = yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")
    assert {name: column["kind"] for name, column in drafted["columns"].items()} == {
        "patient": "identifier", "sex": "categorical", "age": "integer", "creatinine": "continuous", "admitted": "datetime",
        "born": "datetime", "code": "categorical",
    }  # fmt: skip
    reading = drafted["reading"]
    assert (reading["sheet"], reading["strip"]) == ("Export", True)
    assert reading["columns"]["born"] == {"date": "dd.mm.yyyy"}
    read = record_files.read(path, Schema.from_dict(drafted))
    assert read["creatinine"].tolist() == [1.5, 2.25, 0.75, 1.0]
    assert read["age"].isna().tolist() == [False, True, True, False]
    assert read["sex"].tolist() == ["m", "w", "w", "m"]
    assert read["code"].tolist() == ["007", "12", "A1", "=1+1"]
    assert pd.to_datetime(read["admitted"]).dt.strftime("%Y-%m-%d").tolist()[:2] == ["2024-02-29", "2024-03-01"]
    assert list(record_files.look(path, "Legend").frame) == ["x"]
    assert "'Legend'" in said(record_files.look, path, "Legende")


def test_text_in_a_workbook_is_no_formula(tmp_path):
    texts = ["=1+1", "@x", "+a", "'=x", "a\nb", " a", "é", "-1"]
    schema = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": texts}}})
    record_files.write([pd.DataFrame({"c": texts})], tmp_path / "t.xlsx", schema)
    assert record_files.read(tmp_path / "t.xlsx", schema)["c"].tolist() == texts
    with zipfile.ZipFile(tmp_path / "t.xlsx") as packed:
        assert b"<f>" not in packed.read("xl/worksheets/sheet1.xml")


@pytest.mark.heavy
@pytest.mark.parametrize("ending", [".xlsx", ".sav"])
def test_the_parser_in_its_own_process_says_the_same(tmp_path, apart, ending):
    frame = CODEC.decode(CODES, np.random.default_rng(0))
    record_files.write([frame], tmp_path / f"t{ending}", MIXED)
    np.testing.assert_array_equal(CODEC.encode(record_files.read(tmp_path / f"t{ending}", MIXED)), CODES)


@pytest.mark.parametrize("ending", [".xlsx", ".sav", ".dta"])
def test_a_split_keeps_types_and_labels_and_patients_together(tmp_path, ending):
    path, frame = tmp_path / f"t{ending}", patients()
    if ending == ".xlsx":
        rows = [list(frame), *frame.itertuples(index=False)]
        workbook(path, rows)
    else:
        (spss if ending == ".sav" else stata)(path, frame)
    found = record_files.look(path)
    values = yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")
    schema = Schema.from_dict({**values, "unit": "patient", "max_records_per_unit": 3})
    (tmp_path / "key").write_bytes(bytes(range(32)))  # a drawn key holds nearly nobody out now and then
    parts = [
        record_files.read(part, schema) for part in split(path, schema, share=0.3, out=tmp_path, key=tmp_path / "key")
    ]
    assert all(len(part) > 5 for part in parts)
    assert not set(parts[0]["patient"]) & set(parts[1]["patient"])
    whole = record_files.read(path, schema)
    both = pd.concat(parts).sort_values(list(whole)).reset_index(drop=True)
    pd.testing.assert_frame_equal(both, whole.sort_values(list(whole)).reset_index(drop=True), check_dtype=False)


def test_codes_and_labels_of_columns_of_spss_outlive_a_split_and_a_release(tmp_path):
    path = tmp_path / "t.sav"
    spss(path, patients())
    found = record_files.look(path)
    values = yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")
    assert values["reading"]["columns"]["severity"]["title"] == "Severity at admission"
    schema = Schema.from_dict({**values, "unit": "patient", "max_records_per_unit": 3})
    real = pyreadstat.read_sav(path, user_missing=True)
    parts = [
        pyreadstat.read_sav(part, user_missing=True)
        for part in split(path, schema, share=0.3, out=tmp_path, key=tmp_path / "key")
    ]
    held = pd.concat([frame for frame, _ in parts])["severity"]
    assert held.value_counts().to_dict() == real[0]["severity"].value_counts().to_dict()
    for _, meta in parts:
        assert meta.missing_ranges == real[1].missing_ranges
        assert meta.column_names_to_labels == real[1].column_names_to_labels
    read = record_files.read(path, schema)
    record_files.write([read], tmp_path / "made.sav", schema)
    made = pyreadstat.read_sav(tmp_path / "made.sav", metadataonly=True)[1]
    assert made.column_names_to_labels["severity"] == "Severity at admission"
    with pytest.raises(BadInput, match="title must be text"):
        Coding(title="two\nlines")


def test_extended_missing_values_of_stata_outlive_a_split(tmp_path):
    frame = pd.DataFrame({"patient": [f"p{n}" for n in range(60)], "age": np.arange(60), "dose": np.arange(60) / 4})
    frame = frame.astype({"age": object, "dose": object})
    frame.loc[::7, "age"], frame.loc[1::5, "dose"], frame.loc[3::20, "dose"] = "a", "b", "z"
    frame.loc[4, "dose"] = None
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(frame, path, missing_user_values={"age": ["a"], "dose": ["b", "z"]})
    schema = Schema.from_dict(
        {
            "unit": "patient",
            "max_records_per_unit": 1,
            "columns": {
                "patient": {"kind": "identifier"},
                "age": {"kind": "integer", "bounds": [0, 99], "missing": True},
                "dose": {"kind": "continuous", "bounds": [0, 99], "missing": True},
            },
        }
    )
    (tmp_path / "key").write_bytes(bytes(range(32)))
    parts = split(path, schema, share=0.3, out=tmp_path, key=tmp_path / "key")
    read = [pyreadstat.read_dta(part, user_missing=True)[0] for part in parts]
    assert all(len(part) > 5 for part in read)
    both = pd.concat(read).set_index("patient").loc[frame["patient"]]
    real = pyreadstat.read_dta(path, user_missing=True)[0].set_index("patient")
    for name in ("age", "dose"):
        assert both[name].fillna("none").tolist() == real[name].fillna("none").tolist()
    assert record_files.read(parts[0], schema)["age"].isna().any()


def test_without_the_extra_one_line_names_it(tmp_path, monkeypatch, apart):
    program = tmp_path / "foreign_parser.py"
    text = Path(foreign.__file__).with_name("foreign_parser.py").read_text()
    program.write_text(text.replace("import python_calamine  #", "import no_such_module  #"))
    workbook(tmp_path / "t.xlsx", UGLY)
    monkeypatch.setattr(foreign, "PROGRAM", program)
    assert "pip install 'synthdp[formats]'" in said(record_files.read, tmp_path / "t.xlsx")


def test_names_that_a_format_does_not_know(tmp_path):
    schema = Schema.from_dict({"columns": {"blood pressure": {"kind": "boolean"}}})
    for ending in (".dta", ".sav", ".xpt"):
        assert "'blood pressure'" in said(record_files.write, [], tmp_path / f"t{ending}", schema)
    assert "write .xpt" in said(record_files.write, [], tmp_path / "t.sas7bdat", schema)
    assert list(tmp_path.iterdir()) == []


def far_apart(path):
    """Two cells in the two far corners: read as a rectangle they are 17 billion."""
    workbook(path, [["a"], [1]])
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    corner = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    parts[sheet] = parts[sheet].replace(b"</sheetData>", corner)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in parts.items():
            packed.writestr(name, data)


def bomb(path):
    """A sheet that unpacks to 600 MiB of cells."""
    workbook(path, [["a"], [1]])
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    rows = b"".join(b"<row><c><v>1</v></c></row>" for _ in range(40_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in parts.items():
            if name != "xl/worksheets/sheet1.xml":
                packed.writestr(name, data)
        with packed.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            start, end = parts["xl/worksheets/sheet1.xml"].split(b"</sheetData>")
            sheet.write(start)
            for _ in range(200):
                sheet.write(rows)
            sheet.write(b"</sheetData>" + end)


@pytest.mark.heavy
@pytest.mark.parametrize("make", [far_apart, bomb])
def test_workbooks_that_unpack_to_far_more_than_they_are(tmp_path, monkeypatch, make, apart):
    monkeypatch.setattr(limits, "FREE", 1 << 27)
    make(tmp_path / "t.xlsx")
    assert "unpacks to over" in said(record_files.read, tmp_path / "t.xlsx")


@pytest.mark.heavy
def test_one_record_s_long_text_keeps_no_file_from_being_read(tmp_path, monkeypatch, apart):
    monkeypatch.setattr(limits, "FREE", 1 << 27)
    frame = pd.DataFrame({"note": [*["a", "", "b"] * 2_000, "x" * 30_000]})
    frame.to_stata(tmp_path / "t.dta", write_index=False, version=118, convert_strl=["note"])
    read = record_files.read(tmp_path / "t.dta")["note"]
    assert read.str.len().fillna(0).tolist() == [1, 0, 1] * 2_000 + [30_000]


@pytest.mark.parametrize("ending", [".xlsx", ".dta", ".sas7bdat"])
def test_what_is_of_another_format_is_refused_in_a_line(tmp_path, ending, apart):
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"PK\x03\x04 patient;sex\nCANARY;m\n" * 40)
    assert "CANARY" not in said(record_files.read, path)
    path.write_bytes(b"")
    assert "empty" in said(record_files.read, path)


@pytest.mark.parametrize("name", ["sample", heavy("sample_bincompressed")])
def test_what_sas_itself_wrote_is_drafted_checked_and_read(tmp_path, monkeypatch, capsys, name):
    """Nobody else writes .sas7bdat: see tests/tables/sas/README.md."""
    monkeypatch.chdir(tmp_path)
    Path("t.sas7bdat").write_bytes(
        gzip.decompress((Path(__file__).parent / "sas" / f"{name}.sas7bdat.gz").read_bytes())
    )
    assert run(["schema", "path=t.sas7bdat", "out=t.yaml"]) == 0
    drafted = {key: value["kind"] for key, value in yamlfile.load(Path("t.yaml"))["columns"].items()}
    assert drafted == {
        "mychar": "categorical", "mynum": "continuous", "mydate": "datetime", "dtime": "datetime", "mylabl": "integer",
        "myord": "integer", "mytime": "integer",
    }  # fmt: skip
    dates = {"kind": "datetime", "bounds": ["1500-01-01", "2020-01-01"], "missing": True}
    schema = Schema.from_dict(
        {
            "declared_by": "the tests",
            "columns": {
                "mychar": {"kind": "categorical", "categories": [*"abcde"]},
                "mynum": {"kind": "continuous", "bounds": [-2000, 2000], "decimals": 1},
                "mydate": dates,
                "dtime": {**dates, "resolution": "second"},
                "mylabl": {"kind": "integer", "bounds": [1, 2]},
                "myord": {"kind": "integer", "bounds": [1, 3]},
                "mytime": {"kind": "integer", "bounds": [0, 86_399], "missing": True},  # seconds since midnight
            },
        }
    )
    schema.save(Path("t.yaml"))
    capsys.readouterr()
    assert run(["check", "data.path=t.sas7bdat", "data.schema=t.yaml", "out=found.json"]) == 0
    assert [each for each in json.loads(Path("found.json").read_text())["findings"] if each.get("refused")] == []
    read = synthdp.read("t.sas7bdat", schema)
    assert read["mychar"].tolist() == [*"abcde"]
    assert read["mynum"].tolist() == [1.1, 1.2, -1000.3, -1.4, 1000.3]
    assert read["mydate"].iloc[3] == pd.Timestamp("1583-01-01")
    assert read["dtime"].iloc[0] == pd.Timestamp("2018-05-06 10:10:10")
    assert read["mytime"].tolist()[:2] == [36_610, 83_410]
    assert read.loc[4, ["mydate", "dtime", "mytime"]].isna().all()


@pytest.mark.parametrize("ending", [".xlsx", ".dta", ".sav"])
def test_half_a_file_is_refused(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    record_files.write([CODEC.decode(CODES, np.random.default_rng(0))], path, MIXED)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "cannot be read" in said(record_files.read, path)
