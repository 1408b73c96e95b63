"""Schemas from data dictionaries and lists of codes, without a look at any record."""

import json

import pandas as pd
import pytest
from dictionaries import CSVW, FRICTIONLESS, REDCAP

from synthdp.cli import run
from synthdp.errors import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.dictionary import schema_text


def drafted(path):
    return yamlfile.parse(schema_text(path), str(path))


def test_redcap(tmp_path):
    (tmp_path / "d.csv").write_text(REDCAP)
    found = drafted(tmp_path / "d.csv")
    columns = {
        name: {key: item for key, item in column.items() if key != "review"}
        for name, column in found["columns"].items()
    }
    done = {"kind": "categorical", "categories": ["Incomplete", "Unverified", "Complete"], "missing": True}
    assert columns == {
        "record_id": {"kind": "identifier"},
        "name": {"kind": "ignore"},
        "sex": {"kind": "categorical", "categories": ["Male", "Female", "Diverse, other"]},
        "age": {"kind": "integer", "bounds": [18, 110]},
        "birth": {"kind": "datetime", "bounds": "learn", "resolution": "day", "missing": True},
        "demographics_complete": done,
        "symptoms___0": {"kind": "boolean"},
        "symptoms____9": {"kind": "boolean"},
        "smoker": {"kind": "boolean", "missing": True},
        "crea": {"kind": "continuous", "bounds": [0.0, 20.0], "decimals": 2, "missing": True},
        "weight": {"kind": "continuous", "bounds": [0.5, 300.0], "decimals": 1, "missing": True},
        "arrived": {"kind": "integer", "bounds": [0, 1439], "missing": True},
        "seen": {"kind": "datetime", "bounds": "learn", "resolution": "second", "missing": True},
        "comments": {"kind": "ignore"},
        "baseline_complete": done,
    }
    schema = Schema.from_dict(found)
    with pytest.raises(BadInput, match="guessed"):
        schema.check_declared()
    header = ",".join(found["columns"])
    row = '1,A,3,44,1980-02-01,2,1,0,1,1.25,"7,5",09:30,2024-01-01 10:11:12,x,0'
    (tmp_path / "raw.csv").write_text(f"{header}\n{row}\n")
    read = schema.validate(record_files.read(tmp_path / "raw.csv", schema))
    assert read["sex"].tolist() == ["Diverse, other"]
    assert read["symptoms___0"].tolist() == [True]
    assert read[["weight", "arrived"]].to_numpy().tolist() == [[7.5, 570]]
    record_files.write([read], tmp_path / "out.csv", schema)
    assert pd.read_csv(tmp_path / "out.csv")["sex"].tolist() == [3]
    assert pd.read_csv(tmp_path / "out.csv")[["weight", "arrived"]].to_numpy().tolist() == [["7,5", "09:30"]]
    assert "# Left out (kind: ignore), since" in schema_text(tmp_path / "d.csv")
    assert "how they are written: 'name', 'comments'.\n" in schema_text(tmp_path / "d.csv")


@pytest.mark.parametrize("wrapped", [False, True])
def test_frictionless(tmp_path, wrapped):
    (tmp_path / "d.json").write_text(json.dumps({"resources": [{"schema": FRICTIONLESS}]} if wrapped else FRICTIONLESS))
    found = drafted(tmp_path / "d.json")
    kinds = {name: column["kind"] for name, column in found["columns"].items()}
    assert list(kinds.values()) == [
        "identifier",
        "categorical",
        "ordinal",
        "integer",
        "datetime",
        "continuous",
        "boolean",
        "ignore",
    ]
    assert found["columns"]["stage"] == {"kind": "ordinal", "categories": ["I", "II"], "review": True}
    assert found["reading"] == {
        "missing": ["NA"],
        "review": True,
        "columns": {
            "sex": {"labels": {"1": "male", "2": "female"}},
            "seen": {"date": "dd.mm.yyyy"},
            "x": {"decimal": ","},
            "ok": {"words": ["nein", "ja"]},
        },
    }


def test_columns_that_are_called_like_codes_are_better_declared(tmp_path):
    fields = [{"name": "icd_code", "type": "string"}, {"name": "ward", "type": "string"}]
    (tmp_path / "d.json").write_text(json.dumps({"fields": fields}))
    said = [line for line in schema_text(tmp_path / "d.json").splitlines() if "names suggest codes" in line]
    assert said == ["# Columns whose names suggest codes of a public list: 'icd_code'."]


def test_csvw(tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(CSVW))
    found = drafted(tmp_path / "d.json")
    assert list(found["columns"]) == ["Patient", "age", "Aufnahme", "ok", "w"]
    assert found["columns"]["age"] == {"kind": "integer", "bounds": [0, 120], "review": True}
    assert (found["reading"]["separator"], found["reading"]["encoding"]) == (";", "cp1252")
    coded = found["reading"]["columns"]
    assert coded == {
        "Aufnahme": {"missing": ["-"], "date": "dd.mm.yyyy"},
        "ok": {"words": ["N", "J"]},
        "w": {"decimal": ","},
    }


def test_labels_of_spss_without_its_records(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat", reason="needs the extra formats")
    frame = pd.DataFrame(
        {"patient": ["CANARY"], "sex": [7.0], "pain": [7.0], "seen": pd.to_datetime(["2031-05-06"]).date}
    )
    pyreadstat.write_sav(
        frame,
        tmp_path / "d.sav",
        variable_value_labels={"sex": {1: "m", 2: "f"}, "pain": {0: "none", 10: "worst"}},
        variable_measure={"sex": "nominal", "pain": "scale"},
    )
    text = schema_text(tmp_path / "d.sav")
    assert not {"CANARY", "2031", "7"} & set(text.replace("'", " ").split())
    columns = yamlfile.parse(text, "draft")["columns"]
    assert [column["kind"] for column in columns.values()] == ["identifier", "categorical", "continuous", "datetime"]
    assert columns["sex"]["categories"] == ["m", "f"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("d.csv", "a,b\n1,2\n", "no dictionary of REDCap"),
        ("d.csv", "", "has no header"),
        ("d.csv", REDCAP.replace("1, Male | 2, <b>Female</b> | 3, Diverse, other", ""), "has no choices"),
        ("d.json", "[1]", "neither"),
        ("d.json", '{"fields": [1]}', "mapping with a name"),
        ("d.json", '{"fields": []}', "names no columns"),
        ("d.json", "{", "JSON"),
        ("d.txt", "x", "a dictionary is"),
    ],
)
def test_what_is_no_dictionary(tmp_path, capsys, name, text, says):
    (tmp_path / name).write_text(text)
    assert run(["schema", f"dictionary={tmp_path / name}"]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


def test_a_dictionary_takes_the_place_of_records(tmp_path, capsys):
    (tmp_path / "d.csv").write_text(REDCAP)
    assert run(["schema", f"dictionary={tmp_path / 'd.csv'}", f"out={tmp_path / 's.yaml'}"]) == 0
    assert Schema.load(tmp_path / "s.yaml").unit is None
    assert not (tmp_path / "s.seen.internal.yaml").exists()
    assert run(["schema"]) == 2
    assert run(["schema", "path=x.csv", "dictionary=y.csv"]) == 2


def listing(folder, text, column="code"):
    (folder / "icd10.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "s.yaml").write_text(
        f"columns:\n  diagnosis: {{kind: categorical, categories: {{file: icd10.csv, column: {column}}}}}\n"
    )
    return Schema.load(folder / "s.yaml")


def test_categories_from_a_list_of_codes(tmp_path):
    schema = listing(tmp_path, "code;title\nA00.0;Cholera\nA00.1;\nA00.0;again\n;none\n")
    assert schema.columns[0].categories == ("A00.0", "A00.1")
    assert schema.to_dict()["columns"]["diagnosis"]["categories"] == ["A00.0", "A00.1"]  # a release has them itself
    assert listing(tmp_path, "code\nGanz\xe4hnlich\n".encode("cp1252")).columns[0].categories == ("Ganzähnlich",)


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("a\n1\n", "code", "has no column 'code'"),
        ("code\n", "code", "is empty: complete the file"),
        ("code,t\n1,2\n", "[a]", "must be a list"),
    ],
)
def test_a_list_of_codes_that_is_none(tmp_path, text, column, says):
    with pytest.raises(BadInput, match=says):
        listing(tmp_path, text, column)


def test_a_rule_on_an_empty_list_is_refused_and_not_left_out(tmp_path):
    """It would exclude nothing, and nobody would notice."""
    (tmp_path / "icd10.csv").write_text("code,only_women\nO80,\n")
    (tmp_path / "s.yaml").write_text(
        "rules: [{never: {sex: M, code: {file: icd10.csv, column: only_women}}}]\n"
        "columns:\n  sex: {kind: categorical, categories: [F, M]}\n"
        "  code: {kind: categorical, categories: {file: icd10.csv, column: code}}\n"
    )
    with pytest.raises(
        BadInput, match=r"rule on column 'code': column 'only_women' of \S+ is empty: .* or leave the entry out"
    ):
        Schema.load(tmp_path / "s.yaml")


def test_a_list_of_codes_that_is_not_there(tmp_path):
    listing(tmp_path, "code\n1\n")
    (tmp_path / "icd10.csv").unlink()
    with pytest.raises(BadInput, match="no such file"):
        Schema.load(tmp_path / "s.yaml")
