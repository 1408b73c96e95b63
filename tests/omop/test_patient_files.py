"""Synthea's CSV export and MIMIC-III, from the draft to synthetic tables, on made-up people."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from linked_clinic import clinic

from synthdp import Schema
from synthdp.cli import run
from synthdp.errors import BadInput
from synthdp.omop import cdm_store, patient_files
from synthdp.tables import csvfile

SHIFT = pd.DateOffset(years=100)


def synthea(people):
    """By the names of its columns, letters in capitals, times in UTC."""
    person, visit, diagnosis = clinic(people, seed=1).values()
    visit = visit.assign(end=visit["start"] + pd.to_timedelta(np.arange(len(visit)) % 4, "D"))
    whole = diagnosis.merge(visit, on="visit_id")
    of_visit = {
        "START": whole["start"],
        "PATIENT": whole["person_id"],
        "ENCOUNTER": whole["visit_id"],
        "CODE": whole["code"],
    }
    values = pd.Series(["7.5", "Never smoker", "9"] * len(visit)).iloc[: len(visit)]
    return {
        "patients": pd.DataFrame(
            {
                "Id": person["person_id"],
                "BIRTHDATE": person["birth"],
                "DEATHDATE": person["death"],
                "GENDER": person["sex"],
            }
        ).assign(RACE="white", ETHNICITY="hispanic"),
        "encounters": pd.DataFrame(
            {
                "Id": visit["visit_id"],
                "START": visit["start"].dt.strftime("%Y-%m-%dT16:17:47Z"),
                "STOP": visit["end"].dt.strftime("%Y-%m-%dT02:00:00Z"),
                "PATIENT": visit["person_id"],
                "ENCOUNTERCLASS": np.where(visit["ward"] == "a", "inpatient", "wellness"),
            }
        ),
        "conditions": pd.DataFrame(of_visit),
        "observations": pd.DataFrame(
            {
                "DATE": visit["start"],
                "PATIENT": visit["person_id"],
                "ENCOUNTER": visit["visit_id"],
                "CODE": "8302-2",
                "VALUE": values,
            }
        ),
    }


def mimic3(people):
    """With numbers as keys, dates of the next century, and codes without a dot."""
    person, visit, diagnosis = clinic(people, seed=1).values()
    patient = visit["person_id"].str.slice(1).astype(int)
    admitted, hadm = visit["start"] + SHIFT, visit["visit_id"].str.slice(1).astype(int) + 100_000
    whole = diagnosis.assign(hadm_id=diagnosis["visit_id"].str.slice(1).astype(int) + 100_000)
    whole = whole.assign(subject_id=whole["visit_id"].map(dict(zip(visit["visit_id"], patient, strict=True))))
    codes = whole["code"].map({"E11": "25000", "I10": "4019", "J45": "49390", "K21": "53081"})
    return {
        "PATIENTS": pd.DataFrame(
            {
                "SUBJECT_ID": person["person_id"].str.slice(1).astype(int),
                "GENDER": person["sex"],
                "DOB": person["birth"] + SHIFT,
                "DOD": person["death"] + SHIFT,
            }
        ),
        "ADMISSIONS": pd.DataFrame(
            {
                "SUBJECT_ID": patient,
                "HADM_ID": hadm,
                "ADMITTIME": admitted + pd.Timedelta("21h"),
                "DISCHTIME": admitted + pd.to_timedelta(np.arange(len(visit)) % 4, "D"),
                "ADMISSION_TYPE": np.where(visit["ward"] == "a", "EMERGENCY", "URGENT"),
                "HOSPITAL_EXPIRE_FLAG": visit["no_show"].astype(int),
            }
        ),
        "DIAGNOSES_ICD": pd.DataFrame(
            {"SUBJECT_ID": whole["subject_id"], "HADM_ID": whole["hadm_id"], "ICD9_CODE": codes.to_numpy()}
        ),
    }


MADE = {"synthea": synthea, "mimic3": mimic3}
CODES = {"synthea": "[E11, I10, J45, K21]", "mimic3": '["25000", "25001", "4019", "49390", "53081"]'}


@pytest.fixture(params=MADE)
def kind(request, tmp_path, monkeypatch):
    """A folder `records` of the format, and an answered schema."""
    monkeypatch.chdir(tmp_path)
    Path("records").mkdir()
    for name, frame in MADE[request.param](120).items():
        frame.to_csv(f"records/{name}.csv", index=False)
    text = patient_files.draft(request.param, "records").replace("units: learn", "units: 120")
    text = re.sub(", review: true", "", text).replace("declared_by:", "declared_by: the tests")
    first, rest = text.split("  condition:", 1)
    rest = rest.replace("[TODO]", CODES[request.param], 1).replace("[TODO]", "[8302-2]")
    value = "value: {kind: ignore}  # question: in which range, for all codes? "
    rest = rest.replace(value + "{kind: continuous, bounds: [0, 500]", "value: {kind: continuous, bounds: [0, 10]")
    text = f"{first}  condition:{rest}".replace("[2014-01-01, 2025-12-31]", "[2020-01-01, 2025-12-31]")
    Path("schema.yaml").write_text(text, encoding="utf-8")
    return request.param


@pytest.mark.heavy
def test_from_the_draft_to_synthetic_tables(kind, output_of):
    data = (f"data.format={kind}", "data.path=records", "data.schema=schema.yaml")
    drafted = output_of("schema", *data[:2], "out=draft.yaml").out
    assert f"next       synthdp check data.format={kind} data.path=records" in drafted
    assert not Path("internal").exists(), "no look at records is noted"
    found = output_of("check", *data).out
    assert "next       synthdp plan data.path=records" in found
    assert "left out" not in found, "the files have names of their own"
    fit = ("generator=histories", "generator.rounds=1", "generator.iterations=3", "seed=1", "account=none", "out=run")
    output_of("fit", *data, *fit, "budget.epsilon=100", "budget.delta=1e-5")
    output_of("sample", "release=run/release", "rows=40", "out=synthetic", "seed=1")
    schema = Schema.load("schema.yaml")
    made = {table.name: pd.read_csv(f"synthetic/{table.name}.csv", dtype=str) for table in schema.tables}
    assert len(made["person"]) == 40
    assert len(made["condition"]) > 20
    assert set(made["condition"]["visit_id"]) <= set(made["visit"]["visit_id"])
    if kind == "mimic3":
        assert {"25000", "4019"} & set(made["condition"]["code"]), "codes are text"
        learned = made["visit"]["start"].str[:3].isin(["211", "212"])
        assert learned.mean() > 0.6, "of the bounds, from 2100 to 2220, these are a sixth; all records are there"
    apart = {}
    for part, rest in (("train", range(4)), ("test", (4,))):
        Path(part).mkdir()
        for name, frame in MADE[kind](120).items():
            of_person = {"patients": "Id", "PATIENTS": "SUBJECT_ID"}.get(
                name, "PATIENT" if kind == "synthea" else "SUBJECT_ID"
            )
            number = frame[of_person].astype(str).str.extract(r"(\d+)", expand=False).astype(int)
            frame[(number % 5).isin(rest)].to_csv(f"{part}/{name}.csv", index=False)
        apart[part] = f"data.{part}={part}"
    judge = (
        "evaluate",
        data[0],
        data[2],
        *apart.values(),
        "synthetic=synthetic",
        "release=run/release",
        "evaluate=quick",
    )
    said = output_of(*judge, "out=judged").out
    assert "condition per visit" in said
    assert "next       synthdp report release=run/release" in said
    output_of("report", "release=run/release", "out=report")


def test_what_is_read_is_what_the_files_say(kind):
    schema = Schema.load("schema.yaml")
    frames = patient_files.read(kind, "records", schema)
    person, visit, diagnosis = clinic(120, seed=1).values()
    shift = pd.DateOffset(years=100 * (kind == "mimic3"))
    assert [str(each) for each in frames["person"]["birth"]] == [str(each + shift) for each in person["birth"]]
    assert frames["person"]["death"].isna().tolist() == person["death"].isna().tolist()
    assert frames["visit"]["days"].tolist() == (np.arange(len(visit)) % 4).tolist()
    assert frames["visit"]["start"].dt.normalize().tolist() == (visit["start"] + shift).tolist()
    assert len(frames["condition"]) == len(diagnosis)
    schema.validate_tables(frames)
    if kind == "synthea":
        assert frames["measurement"]["value"].tolist()[:3] == [7.5, pytest.approx(float("nan"), nan_ok=True), 9.0]
    else:
        assert frames["visit"]["hospital_expire_flag"].tolist() == visit["no_show"].tolist()


def test_a_split_is_files_of_linked_tables(kind, capsys, output_of):
    found = output_of("split", f"data.format={kind}", "data.path=records", "data.schema=schema.yaml", "out=parts").out
    assert "next       synthdp fit data.path=parts/train" in found
    assert (
        "next       synthdp plan data.path=parts/train"
        in output_of("check", "data.path=parts/train", "data.schema=schema.yaml").out
    )
    people = [set(pd.read_csv(f"parts/{part}/person.csv", dtype=str)["person_id"]) for part in ("train", "held_out")]
    assert len(people[0] | people[1]) == 120
    assert not people[0] & people[1]


def test_one_missing_key_cuts_nobody_s_links(kind):
    """In Parquet it makes floats of a column, whose text would be another one's."""
    if kind == "mimic3":
        frames = {name: frame.convert_dtypes() for name, frame in mimic3(120).items()}
        schema, expected = Schema.load("schema.yaml"), patient_files.read(kind, "records", Schema.load("schema.yaml"))
        Path("packed").mkdir()
        for name, frame in frames.items():
            floats = {"HADM_ID": "float64"} if name == "DIAGNOSES_ICD" else {}
            frame.astype(floats).to_parquet(f"packed/{name}.parquet")
        found = patient_files.read(kind, "packed", schema)
        assert found["condition"]["visit_id"].tolist() == expected["condition"]["visit_id"].tolist()


def test_what_is_no_table_or_column_of_the_format_is_refused(kind, capsys):
    made = Path("schema.yaml").read_text(encoding="utf-8")
    for changed, said in (
        (made.replace("  condition:", "  allergy:"), "has no table 'allergy'"),
        (made.replace("sex:", "shoe_size:"), "patients with a column 'shoe_size'"),
    ):
        Path("own.yaml").write_text(changed, encoding="utf-8")
        with pytest.raises(BadInput, match=said):
            patient_files.read(kind, "records", Schema.load("own.yaml"))
    own = f"categories: {{file: records/{'conditions' if kind == 'synthea' else 'DIAGNOSES_ICD'}.csv, column: "
    own += "CODE}" if kind == "synthea" else "ICD9_CODE}"
    Path("own.yaml").write_text(made.replace(f"categories: {CODES[kind]}", own), encoding="utf-8")
    for words, said in (
        (("schema", f"format={kind}", "vocabulary=x"), "vocabulary= belongs to format=omop"),
        (("schema", f"format={kind}", "sheet=x"), "does not go with format="),
        (
            ("plan", f"data.format={kind}", "data.path=records", "data.table=x", "data.schema=schema.yaml"),
            "leave them out",
        ),
        (
            ("plan", f"data.format={kind}", "data.path=records", "data.schema=own.yaml"),
            "takes its categories from the records",
        ),
        (("sample", "release=run/release", "rows=2", f"format={kind}", "out=x"), "format"),
    ):
        assert run(list(words)) != 0
        assert said in capsys.readouterr().err


def test_a_cell_after_the_separator_that_ends_a_header_is_refused_and_a_column_of_that_name_is_read(tmp_path):
    path, connection = tmp_path / "person.csv", duckdb.connect()
    path.write_text("person_id,gender_concept_id,\n1,8507,\n2,8532, \n")
    assert cdm_store._view(connection, path, "person") == ("person_id", "gender_concept_id")
    path.write_text("person_id,gender_concept_id,\n1,8507,\n2,8532,lost\n")
    with pytest.raises(BadInput, match="a row holds something after the last separator"):
        cdm_store._view(connection, path, "again")
    named = ["a", csvfile.NO_COLUMN, "b"]
    assert csvfile.names_of(path, named, None) == named
