"""Files in the coding that a schema's `reading` declares: read cell by cell, alike in memory and in a database, and written back."""

import codecs
import dataclasses
import gzip

import awkward
import numpy as np
import pandas as pd
import pytest
from mixed_tables import every_code
from sweeps import heavy

from synthdp import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.date_formats import DateFormat
from synthdp.schema.file_coding import Reading
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.split import split
from synthdp.tables import source, table_check

COLUMNS = {
    "row": {"kind": "identifier"},
    "born": {"kind": "datetime", "bounds": ["1930-01-01", "2025-12-31"], "missing": True},
    "seen": {"kind": "datetime", "bounds": ["2020-01-01", "2025-12-31"], "resolution": "minute", "missing": True},
    "from": {"kind": "datetime", "bounds": ["1930-01-01", "2025-12-31"], "missing": True},
    "creatinine": {"kind": "continuous", "bounds": [0, 20], "decimals": 2, "missing": True},
    "point": {"kind": "continuous", "bounds": [0, 20], "missing": True},
    "visits": {"kind": "integer", "bounds": [0, 50], "missing": True},
    "cost": {"kind": "continuous", "bounds": [-5000, 2000000], "decimals": 2, "missing": True},
    "share": {"kind": "integer", "bounds": [0, 100], "missing": True},
    "smoker": {"kind": "boolean", "missing": True},
    "dead": {"kind": "boolean", "missing": True},
    "positive": {"kind": "boolean"},
    "sex": {"kind": "categorical", "categories": [1, 2], "missing": True},
    "ward": {"kind": "categorical", "categories": ["Chirurgie", "Gyn\u00e4kologie", "=x", "NA"], "missing": True},
    "grade": {"kind": "ordinal", "categories": ["I", "II"], "missing": True},
    "drug": {"kind": "categorical", "categories": ["none", "=statin", "'=x", "2"], "missing": True},
    "note": {"kind": "ignore"},
}
READING = {
    "encoding": "cp1252", "separator": ";", "decimal": ",", "strip": True, "missing": ["NA", "k. A."],
    "columns": {
        "born": {"date": "d.m.yyyy"}, "seen": {"date": "dd.mm.yyyy HH:MM"}, "from": {"date": "ddmmmyy", "latest": 2025},
        "creatinine": {"missing": [".", -9], "places": 2}, "point": {"decimal": "."}, "smoker": {"words": ["Nein", "Ja"]},
        "cost": {"thousands": ".", "suffix": " \u20ac", "places": 2}, "share": {"suffix": "%", "missing": [-9]},
        "dead": {"words": ["0,0", "1,0"]}, "positive": {"words": ["-", "+"]}, "sex": {"missing": [9]},
        "drug": {"labels": {1: "none", 2: "=statin", "x": "'=x", 4: "2"}, "missing": [9]},
    },
}  # fmt: skip


def schema(**changes):
    values = {"declared_by": "the tests", "columns": COLUMNS, "reading": {**READING, **changes}}
    return Schema.from_dict(values)


CELLS = {
    "born": [
        "3.4.2020",
        "03.04.2020",
        "2020-04-03",
        "31.2.2020",
        "",
        " 1.1.1931 ",
        "NA",
        "x",
        "1.1.20",
        "0.0.0000",
        "20200403",
    ],
    "seen": ["03.04.2020 10:11", "03.04.2020", "03.04.2020 25:00", "03.04.2020 10:11:12", "k. A.", ""],
    "from": ["03APR20", "03apr30", "01XXX20", "1JAN20", "", "31DEC25", "31DEC26"],
    "creatinine": [
        "1,5",
        "1.5",
        "1,50",
        "-9",
        "-9,0",
        ".",
        "",
        " 2,25\u00a0",
        "1,2,3",
        "7",
        "1e1",
        "NA",
        "nan",
        ",5",
        "inf",
    ],
    "point": ["1.5", "1,5", "", "-9", "k. A.", "5"],
    "visits": ["1", "1,0", "1.0", "01", "x", "", "NA", "-9", "60"],
    "cost": [
        "1.234,50 \u20ac",
        "1234,50\u20ac",
        "1.234.567,00 \u20ac ",
        "-1.234 \u20ac",
        "12.34 \u20ac",
        "1.2345 \u20ac",
        "0,5",
        "\u20ac",
        "5 $",
        "1234.567 \u20ac",
        "12 \u20ac",
        "",
        "NA",
    ],
    "share": ["45%", "45 %", "45", "%", "-9", "100%", "0 %", "1.000%", "x%", "1,0 %", ""],
    "smoker": ["Ja", "ja", "NEIN", "Nein ", "j", "yes", "1", "", "x", "NA", "'Ja"],
    "dead": ["0,0", "1,0", "1", "01", "0", "1.0", "", "2", "Ja"],
    "positive": ["+", "-", "'+", "'-", "", "x", "1"],
    "sex": ["1", "1,0", "2.0", "02", "9", "9,0", "", "NA", "3", "x"],
    "ward": ["Chirurgie", " Chirurgie", "Gyn\u00e4kologie", "=x", "'=x", "NA", "k. A.", "", "unknown"],
    "grade": ["I", "II", "NA", "", "i", "III"],
    "drug": [
        "1",
        "1,0",
        "01",
        " 2",
        "2.0",
        "x",
        "X",
        "4",
        "none",
        "=statin",
        "'=statin",
        "'=x",
        "''=x",
        "9",
        "",
        "NA",
        "5",
        "é",
    ],
    "note": ["free; text", 'with "quotes"\nand lines', ""],
}


def awful(path, encoding="cp1252", rows=240):
    rng = np.random.default_rng(0)
    frame = {"row": [str(row) for row in range(rows)]}
    for name, cells in CELLS.items():
        frame[name] = [cells[row % len(cells)] if row < 60 else cells[rng.integers(len(cells))] for row in range(rows)]
    pd.DataFrame(frame).to_csv(path, sep=";", index=False, encoding=encoding, lineterminator="\r\n")
    return path


@pytest.mark.heavy  # twenty seconds of DuckDB; test_any_cell.py has the same for a column at a time
def test_every_cell_has_one_code_in_memory_and_in_the_database(tmp_path):
    there = schema(encoding="utf-8-sig")
    path = awful(tmp_path / "t.csv", "utf-8-sig")
    frame, codec = record_files.read(path, there), Codec(there)
    with source.opened(source.csv(path), there.reading) as opened:
        found = awkward.codes_in(opened, there)
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}
    assert "note" not in frame
    with pytest.raises(BadInput) as here:
        there.validate(frame)
    with pytest.raises(BadInput) as in_database, table_check.validated(there, source.csv(path), "error"):
        pass
    assert str(in_database.value) == str(here.value)


def test_a_suffix_without_a_number_is_refused_as_no_number_and_not_taken_for_an_empty_cell(tmp_path):
    there = Schema.from_dict(
        {
            "columns": {"share": {"kind": "integer", "bounds": [0, 100], "missing": True}},
            "reading": {"columns": {"share": {"suffix": "%"}}},
        }
    )
    (tmp_path / "t.csv").write_text('share\n5%\n""\n%\n')
    with pytest.raises(BadInput, match="share") as here:
        there.validate(record_files.read(tmp_path / "t.csv", there))
    with pytest.raises(BadInput) as in_database, table_check.validated(there, source.csv(tmp_path / "t.csv"), "error"):
        pass
    assert str(in_database.value) == str(here.value)


def test_what_a_cell_says(tmp_path):
    path = awful(tmp_path / "t.csv")
    found = record_files.read(path, schema())
    codec = Codec(schema())
    alone = []
    for row in range(30):  # a cell's meaning depends on no other cell
        lines = pd.read_csv(path, sep=";", dtype=str, encoding="cp1252", keep_default_na=False).iloc[[row]]
        lines.to_csv(tmp_path / "one.csv", sep=";", index=False, encoding="cp1252")
        alone.append(codec.encode(record_files.read(tmp_path / "one.csv", schema()))[0])
    np.testing.assert_array_equal(np.array(alone), codec.encode(found)[:30])
    names = {name: place for place, name in enumerate(codec.names)}
    smoker, sex = (np.array(alone)[:, names[name]][: len(CELLS[name])].tolist() for name in ("smoker", "sex"))
    assert smoker == [1, 1, 0, 0, 2, 1, 1, 2, 2, 2, 2]
    assert sex == [0, 0, 1, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("encoding", ["cp1252", heavy("utf-8"), heavy("utf-8-sig"), "utf-16"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
def test_what_is_written_is_read_and_looks_alike(tmp_path, encoding, name):
    whole = schema(encoding=encoding)
    codec = Codec(whole)
    codes = every_code(codec.sizes, 200)
    frame = codec.decode(codes, np.random.default_rng(0))
    record_files.write([frame[:50], frame[50:]], tmp_path / name, whole)
    back = record_files.read(tmp_path / name, whole)
    whole.validate(back)
    np.testing.assert_array_equal(codec.encode(back), codes)
    plain = pd.read_csv(
        tmp_path / name, sep="\t" if name.endswith("tsv") else ";", decimal=",", encoding=encoding, dtype=str
    )
    assert list(plain.columns) == [column for column in COLUMNS if column != "note"]
    assert set(plain["smoker"].dropna()) == {"Ja", "Nein"}
    assert set(plain["dead"].dropna()) == {"0,0", "1,0"}
    assert set(plain["sex"]) == {"1", "2", "9"}
    assert plain["creatinine"].str.fullmatch(r"[0-9]+,[0-9]{2}|\.").all()
    assert plain["born"].dropna().str.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}").all()
    assert plain["seen"].dropna().str.fullmatch(r"[0-9]{2}\.[0-9]{2}\.[0-9]{4} [0-9]{2}:[0-9]{2}").all()


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_utf_16_of_either_order_is_read_by_its_mark_and_split_or_refused(tmp_path, order, name):
    """`split` took a file without the mark for UTF-8, and tore its lines."""
    columns = {"who": {"kind": "identifier"}, "town": {"kind": "categorical", "categories": ["Köln", "Gießen"]}}
    facts = {"name": "t", "declared_by": "the tests", "unit": "who", "max_records_per_unit": 1}
    plain = Schema.from_dict({**facts, "columns": columns})
    declared = dataclasses.replace(plain, reading=Reading(encoding="utf-16"))
    text = "who,town\r\n" + "".join(f"p{row},{'Köln' if row % 3 else 'Gießen'}\r\n" for row in range(60))
    path, how = tmp_path / name, {"share": 0.4, "out": tmp_path / "parts", "key": tmp_path / "key"}

    def written(mark):
        data = mark + text.encode(f"utf-16-{order}")
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)

    written({"le": codecs.BOM_UTF16_LE, "be": codecs.BOM_UTF16_BE}[order])
    parts = [record_files.read(part, declared) for part in split(path, declared, **how)]
    assert min(map(len, parts)) > 5
    assert sorted(map(tuple, pd.concat(parts).to_numpy())) == sorted(
        map(tuple, record_files.read(path, declared).to_numpy())
    )
    with pytest.raises(BadInput, match="found the byte order mark of UTF-16; write encoding: utf-16 under reading"):
        record_files.read(path, plain)
    written(b"")
    for schema in (plain, declared):
        with pytest.raises(BadInput, match="UTF-16 without a byte order mark is not read"):
            record_files.read(path, schema)
        with pytest.raises(BadInput, match="UTF-16 without a byte order mark is not read"):
            split(path, schema, **how)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with pytest.raises(BadInput, match="expected UTF-16 text with its byte order mark"):
        record_files.read(path, declared)


def test_the_database_refuses_encodings_by_name(tmp_path):
    path = awful(tmp_path / "t.csv")
    with (
        pytest.raises(BadInput, match="reading says cp1252"),
        table_check.validated(schema(), source.csv(path), "error"),
    ):
        pass


def test_codes_of_missing_values_in_other_tables_than_csv_are_refused_in_a_database(tmp_path):
    frame = pd.DataFrame({"n": [1, -9]})
    frame.to_parquet(tmp_path / "t.parquet")
    there = Schema.from_dict(
        {"columns": {"n": {"kind": "integer", "bounds": [0, 9], "missing": True}}, "reading": {"missing": [-9]}}
    )
    with (
        pytest.raises(BadInput, match="codes for missing"),
        table_check.validated(there, source.parquet(tmp_path / "t.parquet"), "error"),
    ):
        pass


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({"encoding": "latin-9"}, "encoding must be"),
        ({"separator": "x"}, "separator must be"),
        ({"separator": []}, "separator must be"),
        ({"decimals": ","}, "unknown key 'decimals'"),
        ({"missing": ["=1"]}, "codes must not begin"),
        ({"missing": {"a": 1}}, "must be a list"),
        ({"columns": {"brn": {"date": "dd.mm.yyyy"}}}, "'brn' is not one of its columns; did you mean 'born'"),
        ({"columns": {"born": {"date": "TODO"}}}, "'born': date is still TODO"),
        ({"columns": {"born": {"date": "dd.mm"}}}, "one year, one month and one day"),
        ({"columns": {"born": {"date": "dd.mm.yy"}}}, "latest"),
        ({"columns": {"born": {"date": "dd.mm.yyyy HH:SS"}}}, "minutes follow hours"),
        ({"columns": {"seen": {"date": "dd.mm.yyyy"}}}, "cannot hold the declared resolution, minute"),
        ({"columns": {"sex": {"date": "dd.mm.yyyy"}}}, "date belongs to columns of kind datetime"),
        ({"columns": {"sex": {"words": ["a", "b"]}}}, "words belong to columns of kind boolean"),
        ({"columns": {"positive": {"missing": ["9"]}}}, "set missing: true"),
        ({"columns": {"smoker": {"words": ["a", "A"]}}}, "words must be two texts that differ"),
        ({"columns": {"smoker": {"missing": ["yes"]}}}, "code that says true or false"),
        ({"columns": {"smoker": {"pattern": "P#"}}}, "pattern belongs to columns of kind identifier"),
        ({"columns": {"row": {"pattern": "P#-#"}}}, "one run of #"),
        ({"columns": {"smoker": {"words": "ab"}}}, "words must be two texts"),
        ({"columns": {"smoker": {"places": 2}}}, "places belong to columns of kind integer or continuous"),
        ({"columns": {"smoker": {"suffix": "%"}}}, "suffix belongs to columns of kind integer or continuous"),
        ({"columns": {"creatinine": {"suffix": "5"}}}, "suffix must be text without digits or signs"),
        ({"columns": {"creatinine": {"suffix": "e"}}}, "suffix must be text without digits or signs"),
        ({"columns": {"creatinine": {"thousands": ";"}}}, "thousands must be a point, a comma"),
        ({"columns": {"creatinine": {"thousands": ","}}}, "cannot stand both between thousands and before decimals"),
        ({"columns": {"creatinine": {"places": 1}}}, "declare decimals: 1 in columns too"),
        ({"columns": {"ward": {"labels": ["a"]}}}, "labels must map codes to categories"),
        ({"columns": {"ward": {"labels": {1: True}}}}, "labels must map codes to categories"),
        ({"columns": {"ward": {"labels": {"=1": "a"}}}}, "labels: no code may begin"),
        ({"columns": {"sex": {"labels": {1: "a"}}}}, "labels belong to columns of kind categorical"),
        ({"columns": {"ward": {"labels": {9: "NA"}, "missing": [9]}}}, "'9' has a label and is a code for missing"),
        ({"sheet": 3}, "sheet must be the name"),
    ],
)
def test_what_no_reading_may_say(reading, message):
    with pytest.raises(BadInput, match=message):
        schema(**{"columns": {}, **reading})


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({"columns": {"sex": {"missing": ["01"]}}}, "'sex': '01' is a value that the column may have and a code"),
        ({"columns": {"grade": {"labels": {1: "I"}}}}, "no code for the category 'II'"),
        ({"missing": [7]}, "'creatinine': '7' is a value that the column may have and a code"),
        ({"columns": {"born": {"missing": ["1900-01-01"]}}}, "'born': '1900-01-01' is a value"),
        (
            {"columns": {"born": {"date": "d/m/yy", "latest": 2024}}},
            "'born': d/m/yy with latest: 2024 means the years 1925 to",
        ),
        ({"encoding": "cp1252", "columns": {}, "missing": []}, "category 'Gyn\u00e4kologie \u2265' cannot be written"),
    ],
)
def test_what_a_reading_may_not_say_of_what_is_declared(reading, message):
    columns = {
        **COLUMNS,
        "ward": {
            "kind": "categorical",
            "categories": ["Gyn\u00e4kologie" + " \u2265" * (not reading.get("missing", 1))],
        },
    }
    values = {"declared_by": "the tests", "columns": columns, "reading": reading}
    with pytest.raises(BadInput, match=message):
        Schema.from_dict(values).check_declared()


@pytest.mark.parametrize("code", ["", "n", "learn", "NA"])
def test_any_code_for_missing_values_goes_with_categories_that_are_learned(code):
    """But for the category of all values that are not kept: what is learned may be anything."""
    columns = {**COLUMNS, "ward": {"kind": "categorical", "categories": "learn", "missing": True, "other": "rest"}}
    values = {"declared_by": "the tests", "columns": columns, "reading": {"missing": [code, "-"]}}
    Schema.from_dict(values).check_declared()
    values["reading"] = {"columns": {"ward": {"missing": [code, "rest"]}}}
    with pytest.raises(BadInput, match="'ward': 'rest' is a value that the column may have and a code for missing"):
        Schema.from_dict(values).check_declared()


def test_a_reading_is_kept_with_its_schema(tmp_path):
    whole = schema(review=True)
    whole.save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == whole
    assert hash(whole) == hash(Schema.load(tmp_path / "schema.yaml"))
    with pytest.raises(BadInput, match="'reading' was guessed, and is marked"):
        whole.check_declared()


@pytest.mark.parametrize(
    ("form", "text", "iso"),
    [
        ("dd.mm.yyyy", "03.04.2020", "2020-04-03"),
        ("m/d/yyyy", "4/3/2020", "2020-04-03"),
        ("ddmmmyyyy", "03APR2020", "2020-04-03"),
        ("yyyy-mm-dd HH:MM:SS", "2020-04-03 01:02:03", "2020-04-03T01:02:03"),
        ("yyyymmddTHH", "20200403T05", "2020-04-03T05:00:00"),
        ("dd/mm/yyyy HHhMM", "03/04/2020 05h07", "2020-04-03T05:07:00"),
    ],
)
def test_formats_of_dates(form, text, iso):
    assert DateFormat(form).iso(text) == iso
    assert DateFormat(form).write(iso) == text
    assert DateFormat(form).iso(f"{text} ") is None


def test_years_of_two_digits_end_with_the_latest():
    short = DateFormat("dd.mm.yy", 2025)
    assert [short.iso(f"01.02.{year}") for year in ("25", "26", "00", "99")] == [
        "2025-02-01", "1926-02-01", "2000-02-01", "1999-02-01",
    ]  # fmt: skip


def test_a_reading_without_anything_is_the_plain_one():
    assert Reading() == Reading.from_dict({})
    assert all(Reading().of(column).is_plain for column in schema().columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [("1,2\n3\n", "line 3: expected 2 cells"), ('1,2\n3,"CANARY\n', "line 3: a quote is opened and not closed")],
)
def test_the_database_tells_the_line_before_anything_is_charged(tmp_path, rows, message):
    (tmp_path / "t.csv").write_text("n,m\n" + rows)
    there = Schema.from_dict(
        {"columns": {name: {"kind": "integer", "bounds": [0, 9], "missing": True} for name in "nm"}}
    )
    with (
        pytest.raises(BadInput, match=message) as caught,
        table_check.validated(there, source.csv(tmp_path / "t.csv"), "clamp"),
    ):
        pass
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_fresh_identifiers_have_the_declared_pattern(tmp_path, name):
    whole = schema(columns={"row": {"pattern": "P###-x"}})
    frame = Codec(whole).decode(every_code(Codec(whole).sizes, 1200), np.random.default_rng(0))
    record_files.write([frame], tmp_path / name, whole)
    back = record_files.read(tmp_path / name, whole)
    assert back["row"].iloc[[0, 998, 1199]].tolist() == ["P001-x", "P999-x", "P1200-x"]
