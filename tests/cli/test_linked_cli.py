"""Linked tables on the command line: a folder with a file for each goes in, and comes out."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import databases
import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from linked_clinic import DECLARED, LAB, clinic, declared, labs, schema, with_labs
from sweeps import heavy, sweep

from synthdp import Budget, Schema, Synthesizer, load
from synthdp.cli import fits, run
from synthdp.errors import BadInput
from synthdp.ledger.ledger import Ledger
from synthdp.planning import planned
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.joined_tables import joined
from synthdp.sets import record_files
from synthdp.sets.dialect import Found
from synthdp.sets.draft import draft_tables
from synthdp.sets.split import side_of, split_linked
from synthdp.tables import database_url

DATA = ("data.path=tables", "data.schema=clinic.yaml")
FIT = ("fit", *DATA, "budget.epsilon=3", "budget.delta=1e-5", "generator.rounds=1", "generator.iterations=10", "seed=1")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema(units=120).save(tmp_path / "clinic.yaml")
    (tmp_path / "tables").mkdir()
    for name, frame in clinic(120, seed=2).items():
        frame.to_csv(tmp_path / "tables" / f"{name}.csv", index=False)
    return tmp_path


def read(folder):
    return {name: pd.read_csv(f"{folder}/{name}.csv") for name in ("person", "visit", "diagnosis")}


@pytest.mark.heavy
@pytest.mark.parametrize("path", ["tables", "postgresql://me@host/name#public"])
def test_a_plan_leads_to_a_split(place, output_of, path):
    words = [
        "plan",
        f"data.path={path}",
        "data.schema=clinic.yaml",
        "budget.epsilon=3",
        "budget.delta=1e-5",
        "account=none",
    ]
    line = next(line for line in output_of(*words).out.splitlines() if line.startswith("next       synthdp split"))
    assert f"path={path}" in line.replace("'", "")


def test_a_plan_says_of_each_question_what_it_asks_for(place, capsys):
    assert run(["plan", *DATA, "generator=histories", "budget.epsilon=3", "budget.delta=1e-5", "account=none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    asked = [line for line in lines if line.startswith("question")]
    assert len(asked) > 3
    drowned = next(line for line in lines if line.startswith("drowned") and " tables have " in line)
    assert drowned.count(" cells)") == 3, "of many tables a line names the worst"
    assert re.search(r" and \d+ more\. Declare fewer categories", drowned)
    assert all(" for " in line or " to learn " in line for line in asked)
    assert any(" of each person_id" in line for line in asked)
    assert any(" of rows of diagnosis" in line for line in asked)
    assert any(re.search(r"tables     \d+ of records, .* and noise moves each count by about", line) for line in lines)
    assert not any(re.search(r"with noise|\bpace\b|\bgap\b", line) for line in [*asked, drowned]), (
        "one scale, in plain words"
    )


@pytest.mark.filterwarnings("default:synthetic records may break")
def test_a_plan_names_the_rules_that_are_only_counted(place, output_of):
    """Only the fit named them, when the account was already to be charged."""
    rules = ["visit.start >= person.birth", {"never": {"person.sex": "M", "visit.ward": "a"}}]
    counted = {"never": {"person.birth": "< 1990-05-07", "diagnosis.code": "J45"}}  # no edge of the bins
    asked = ["plan", *DATA, "generator=histories", "budget.epsilon=3", "budget.delta=1e-5", "account=none"]
    schema(units=120, rules=rules).save(place / "clinic.yaml")
    assert "may break" not in output_of(*asked).err
    schema(units=120, rules=[*rules, counted]).save(place / "clinic.yaml")
    told = output_of(*asked).err
    assert "may break these rules" in told
    assert (
        "never person.birth < 1990-05-07 and diagnosis.code = J45 (person.birth has no edge of its bins there)" in told
    )


def test_an_unknown_column_of_a_rule_is_looked_for_in_other_tables(place, capsys):
    rules = "[{never: {person.sex: M, visit.code: J44}}]"
    path = place / "clinic.yaml"
    path.write_text(re.sub(r"^rules:.*(\n[ -].*)*", f"rules: {rules}", path.read_text(), flags=re.MULTILINE))
    assert run(["check", *DATA]) == 2
    assert "'visit.code' is not one of the columns; did you mean 'diagnosis.code'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "midnight"),
    [("visit.start <= person.birth", True), ({"never": {"diagnosis.code": ["J45", "I10"]}}, False)],
)
def test_a_check_speaks_of_midnight_only_where_a_rule_compares_dates(place, capsys, rule, midnight):
    schema(units=120, rules=[rule]).save(place / "clinic.yaml")
    run(["check", *DATA])
    told = capsys.readouterr().out
    assert "break the rule" in told
    assert ("a day counts as its midnight" in told) == midnight
    assert re.search(r"some rows of (visit|diagnosis) break the rule .* \(rows [0-9]+, [0-9]+", told)


def test_a_fit_says_which_tables_noise_will_hide_before_it_is_charged(place, capsys, monkeypatch):
    """Only `plan` said so, and a steward who skipped it learned it of no page. Made-up records show the tables, at no charge."""
    words = [*DATA, "generator=histories", "budget.epsilon=3", "budget.delta=1e-5"]
    assert run(["plan", *words, "account=none"]) == 0
    planned_lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("drowned")]
    assert planned_lines

    def stopped(*_, **__):
        raise BadInput("stopped before the first question")

    monkeypatch.setattr(fits, "fitted", stopped)
    assert run(["fit", *words, "account=new.account", "out=run"]) == 2
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("drowned")] == planned_lines
    assert not Path("new.account").exists()
    assert run(["fit", *words, "account=new.account", "out=run", "budget.epsilon=1e6"]) == 2
    assert "drowned" not in capsys.readouterr().out


def test_equal_questions_are_told_apart():
    """Two tables below visits whose questions hold the same noise: each line of the plan names its own."""
    values = declared(units=120)
    values["tables"] |= {"lab": LAB, "test": LAB}
    made = Synthesizer("histories", schema=Schema.from_dict(values), budget=Budget(3.0, 1e-5))
    parts = [part for part in planned(made).parts if any(" of rows of " in each for each in part.histories)]
    assert len(parts) > 1
    assert all(len(part.histories) <= part.count for part in parts)
    assert {each.split()[-1] for part in parts for each in part.histories} == {"diagnosis", "lab", "test"}


def test_a_draft_lists_rules_that_may_hold_as_comments(place, capsys):
    frames = read("tables")
    frames["person"].rename(columns={"birth": "born on"}).to_csv("tables/person.csv", index=False)
    assert run(["schema", "path=tables", "out=drafted.yaml"]) == 0
    text = Path("drafted.yaml").read_text(encoding="utf-8")
    assert Schema.load("drafted.yaml").rules == ()
    rule = "visit.start >= person.born on"
    assert f"#   - {rule}  # if born on is before all visits" in text
    kept = [line for line in text.splitlines() if not line.startswith("#   - ") or rule in line]
    Path("drafted.yaml").write_text(
        "\n".join(
            line.removeprefix("# ") if line.startswith(("# rules:", "#   - ")) else line for line in kept
        ).replace("categories: [TODO]", "categories: [a]"),
        encoding="utf-8",
    )
    assert [each.text for each in Schema.load("drafted.yaml").rules] == [rule]


@pytest.mark.parametrize("name", ["death", "DOD", "deceased_on", "Sterbedatum", "Tod", "verstorben am"])
def test_a_drafted_rule_about_a_death_is_the_right_way_round(place, name):
    read("tables")["person"].rename(columns={"death": name}).to_csv("tables/person.csv", index=False)
    assert run(["schema", "path=tables", "out=drafted.yaml"]) == 0
    text = Path("drafted.yaml").read_text(encoding="utf-8")
    assert f"#   - visit.start <= person.{name}  # if {name} is after all visits" in text
    assert "#   - visit.start >= person.birth  # if birth is before all visits" in text


def test_a_draft_takes_sodium_among_tests_for_a_code(place):
    """What a row below visits is, is never missing: NA is one of its codes, and not a missing value."""
    people = pd.read_csv("tables/person.csv")
    visits = pd.read_csv("tables/visit.csv")
    labs = pd.DataFrame(
        {"visit_id": visits.visit_id, "test": ["NA", "K"] * (len(visits) // 2) + ["K"] * (len(visits) % 2)}
    )
    labs["value"] = [140.5, 4.1] * (len(visits) // 2) + [4.1] * (len(visits) % 2)
    (place / "ward").mkdir()
    for name, frame in {"person": people, "visit": visits, "labs": labs}.items():
        frame.to_csv(place / "ward" / f"{name}.csv", index=False)
    assert run(["schema", "path=ward", "out=draft.yaml"]) == 0
    drafted = yamlfile.load(place / "draft.yaml")["tables"]["labs"]
    assert "missing" not in drafted["columns"]["test"]
    assert "missing" not in drafted.get("reading", {}).get("columns", {}).get("test", {})


def test_a_folder_is_checked_fitted_and_sampled(place, capsys, output_of):
    with open("tables/visit.csv", "a") as file:
        file.write("V99999,nobody,2021-01-01,a,True\n")
    Path("tables/lab.csv").write_text("person_id,result\n1,2\n")
    said = output_of("check", *DATA).out
    assert " (row " in said
    assert " (record" not in said, "tables hold rows"
    Path("tables/lab.csv").unlink()
    assert "since the schema does not describe them: lab" in said
    assert "'visit.person_id': some rows have a key that is not in person, and count for nobody" in said
    assert "nobody," not in said, "no cell is shown"
    person = pd.read_csv("tables/person.csv")
    person.assign(person_id="0" + person["person_id"].astype(str)).to_csv("tables/person.csv", index=False)
    said = output_of("check", *DATA, status=2)
    assert "write keys alike in both files, with the same leading zeros and no .0 at the end" in said.out
    assert "hardly any key in 'visit.person_id' is in the table above: a fit would accept these rows" in said.err
    person.to_csv("tables/person.csv", index=False)
    assert run([*FIT, "account=clinic.account", "out=run"]) == 0, capsys.readouterr().err
    assert "out=synthetic\n" in capsys.readouterr().out
    assert run(["sample", "release=run/release", "rows=50", "seed=1", "out=synthetic"]) == 0
    person, visit, diagnosis = read("synthetic").values()
    assert len(person) == 50
    assert visit["person_id"].isin(person["person_id"]).all()
    assert diagnosis["visit_id"].isin(visit["visit_id"]).all()
    assert run(["sample", "release=run/release", "rows=50", "seed=1", "out=packed/*.parquet"]) == 0
    packed = pd.read_parquet("packed/visit.parquet")
    assert packed["visit_id"].tolist() == visit["visit_id"].tolist()
    assert run(["verify", "release=run/release"]) == 0
    assert run(["report", "release=run/release", "out=report"]) == 0
    page = (place / "report" / "statement.html").read_text(encoding="utf-8")
    assert "All rows of one person_id in all tables are protected together" in page
    assert "counts once for each of them" in page
    capsys.readouterr()
    (place / "other").mkdir()
    for name, frame in clinic(120, seed=3).items():
        frame.to_csv(place / "other" / f"{name}.csv", index=False)
    other = [word.replace("=tables", "=other") for word in FIT]
    assert run([*other, "account=clinic.account", "out=run2"]) != 0, "the account is of other people"
    assert "account" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.parametrize("linked", [0, 0.05, 0.2])
def test_check_is_loud_where_nearly_all_keys_lead_nowhere_and_never_says_that_a_fit_refuses_them(place, capsys, linked):
    """If a program stored keys as numbers, each one ends in `.0`: a fit accepts the table, and learns hardly anything from it."""
    diagnosis = read("tables")["diagnosis"]
    lost = diagnosis["visit_id"].where(diagnosis.index < linked * len(diagnosis), diagnosis["visit_id"] + ".0")
    diagnosis.assign(visit_id=lost).to_csv("tables/diagnosis.csv", index=False)
    assert run(["check", *DATA]) == (0 if linked == 0.2 else 2)
    said = capsys.readouterr()
    share = {0: "all", 0.05: "nearly all", 0.2: "some"}[linked]
    assert f"'diagnosis.visit_id': {share} rows have a key that is not in visit, and count for nobody" in said.out
    assert ("hardly any key in 'diagnosis.visit_id' is in the table above" in said.err) == (linked < 0.2)
    assert "refuse" not in said.err
    assert "no cell is as declared" not in said.err
    assert run([*FIT, "account=none", "out=run"]) == 0, capsys.readouterr().err


def test_rows_of_other_patients_beside_all_of_these_are_no_error(place, capsys):
    """As where one table is of the whole hospital."""
    diagnosis = read("tables")["diagnosis"]
    others = pd.concat([diagnosis.assign(visit_id=f"other {turn} " + diagnosis["visit_id"]) for turn in range(12)])
    pd.concat([diagnosis, others]).to_csv("tables/diagnosis.csv", index=False)
    assert run(["check", *DATA]) == 0, capsys.readouterr().err


def test_check_names_columns_of_linked_tables_that_are_never_empty(place, output_of):
    told = "missing: true allows empty cells, but there are none in visit.ward\n"
    assert told in output_of("check", *DATA).out
    visits = read("tables")["visit"]
    visits.assign(ward=[None, *visits["ward"][1:]]).to_csv("tables/visit.csv", index=False)
    assert told not in output_of("check", *DATA).out


@pytest.mark.heavy
def test_check_names_a_table_that_has_no_rows(place, output_of):
    read("tables")["diagnosis"][:0].to_csv("tables/diagnosis.csv", index=False)
    assert "check      the table diagnosis has no rows" in output_of("check", *DATA).out
    assert run([*FIT, "account=none", "out=run"]) == 0, "as check says"


def test_split_keeps_all_rows_of_a_person_together(place, capsys):
    whole = read("tables")
    shared = whole["visit"].copy()
    shared.loc[len(shared)] = [shared["visit_id"][0], shared["person_id"].iloc[-1], "2021-01-01", "a", False]
    shared.to_csv("tables/visit.csv", index=False)
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts", "share=0.3"]) == 0, capsys.readouterr().err
    parts = [read(f"parts/{part}") for part in ("train", "held_out")]
    people = [set(part["person"]["person_id"]) for part in parts]
    assert all(people)
    assert not people[0] & people[1]
    assert people[0] | people[1] == set(whole["person"]["person_id"])
    for part, held in zip(parts, people, strict=True):
        assert set(part["visit"]["person_id"]) <= held
        assert len(part["visit"]) == shared["person_id"].isin(held).sum()
        expected = whole["diagnosis"]["visit_id"].isin(part["visit"]["visit_id"]).sum()
        assert len(part["diagnosis"]) == expected


AS_WRITTEN = {
    "columns": {
        "start": {"kind": "datetime", "bounds": ["2020-01-01", "2024-01-01"]},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
        "value": {"kind": "continuous", "bounds": [0, 500], "missing": True},
        "letter": {"kind": "ignore"},
    },
    "reading": {
        "separator": ";",
        "encoding": "cp1252",
        "newline": "crlf",
        "decimal": ",",
        "strip": True,
        "columns": {"start": {"date": "dd.mm.yyyy"}, "value": {"missing": ["n.a.", "?"]}},
    },
}


def test_split_keeps_every_line_of_linked_tables_as_it_was(place, capsys):
    """Whole numbers became `193,0`, marks for missing values one of them, and spaces were gone."""
    tables = {"visit": AS_WRITTEN, "diagnosis": {"reading": {"encoding": "utf-8-sig"}}}
    schema(targets=None, tables=tables).save("clinic.yaml")
    visit, diagnosis = read("tables")["visit"], Path("tables/diagnosis.csv")
    cells = ["193", "193,0", "n.a.", "?", "", " 7,50 "]
    rows = [
        f'{key};{person}; 03.0{each % 9 + 1}.2021;a ;{cells[each % 6]};"schön;\r\n""neu"""'
        for each, (key, person) in enumerate(zip(visit["visit_id"], visit["person_id"], strict=True))
    ]
    lines = [row + "\r\n" for row in rows[:-1]] + ["\r\n", rows[-1]]  # a blank line, and a last one without its end
    lines[0] = rows[0][:-1] + "x" * 200_000 + '"\r\n'
    header = "visit_id;person_id;start;ward;value;letter\r\n"
    Path("tables/visit.csv").write_bytes((header + "".join(lines)).encode("cp1252"))
    diagnosis.write_bytes(b"\xef\xbb\xbf" + diagnosis.read_bytes().replace(b"visit_id", b'"visit_id"', 1))
    person = Path("tables/person.csv").read_bytes()
    Path("tables/person.csv").unlink()
    with gzip.open("tables/person.csv.gz", "wb") as file:
        file.write(person)
    words = ["split", "path=tables", "schema=clinic.yaml", "share=0.3"]
    assert run([*words, "out=new/parts", "key=split.key"]) == 0, capsys.readouterr().err
    sides = [Path(f"new/parts/{part}") for part in ("train", "held_out")]
    people = [set(pd.read_csv(side / "person.csv.gz")["person_id"]) for side in sides]
    assert all(people)
    of = {row.split(";")[0]: row.split(";")[1] for row in rows}
    for side, held in zip(sides, people, strict=True):
        kept = [line for line in lines if line.strip() and line.split(";")[1] in held]
        assert (side / "visit.csv").read_bytes() == (header + "".join(kept)).encode("cp1252")
        top, *below = diagnosis.read_bytes().splitlines(keepends=True)
        kept = [line for line in below if of[line.decode().split(",")[0]] in held]
        assert (side / "diagnosis.csv").read_bytes() == top + b"".join(kept)
        first, *further = person.splitlines(keepends=True)
        with gzip.open(side / "person.csv.gz") as file:
            assert file.read() == first + b"".join(line for line in further if line.decode().split(",")[0] in held)
    assert run([*words, "out=later", "key=split.key"]) == 0
    assert Path("later/train/visit.csv").read_bytes() == (sides[0] / "visit.csv").read_bytes()
    assert run(["check", "data.path=new/parts/train", "data.schema=clinic.yaml"]) == 0, capsys.readouterr().err


def test_split_keeps_the_types_of_linked_parquet_files(place):
    columns = {"no_show": {"kind": "boolean"}, "stay": {"kind": "integer", "bounds": [0, 99], "missing": True}}
    columns |= {"start": AS_WRITTEN["columns"]["start"], "letter": {"kind": "ignore"}}
    schema(tables={"visit": {"columns": columns}}).save("clinic.yaml")
    visit = pa.Table.from_pandas(read("tables")["visit"].drop(columns="ward"))
    visit = visit.set_column(2, "start", visit["start"].cast(pa.timestamp("s")).cast(pa.date32()))
    visit = visit.append_column("stay", pa.array([None, 3] * (len(visit) // 2) + [5] * (len(visit) % 2), pa.int16()))
    visit = visit.append_column("letter", pa.array(["text"] * len(visit)).dictionary_encode())
    pq.write_table(visit, "tables/visit.parquet")
    Path("tables/visit.csv").unlink()
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts"]) == 0
    parts = [pq.read_table(f"parts/{part}/visit.parquet") for part in ("train", "held_out")]
    assert [part.schema for part in parts] == [visit.schema] * 2
    both = pa.concat_tables(parts).sort_by("visit_id")
    assert both.equals(visit.sort_by("visit_id"))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_split_takes_visits_of_which_there_are_none(place, capsys, ending):
    for name, frame in clinic(40, seed=3).items():
        Path(f"tables/{name}.csv").unlink()
        frame = frame if name == "person" else frame[:0]
        if ending == ".csv":
            frame.to_csv(f"tables/{name}.csv", index=False)
        else:
            frame.to_parquet(f"tables/{name}.parquet")
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts"]) == 0, capsys.readouterr().err
    read = pd.read_csv if ending == ".csv" else pd.read_parquet
    assert [len(read(f"parts/train/{name}{ending}")) for name in ("visit", "diagnosis")] == [0, 0]
    assert len(read(f"parts/train/person{ending}")) + len(read(f"parts/held_out/person{ending}")) == 40
    empty = {name: frame[:0] for name, frame in clinic(2).items()}
    split_linked(empty, schema(), side_of(0.2, place / "parts" / "split.key"), place / "new" / "parts", ".parquet")
    assert len(pd.read_parquet("new/parts/train/visit.parquet")) == 0


def test_split_names_the_table_that_lacks_its_key(place, capsys):
    pd.read_csv("tables/diagnosis.csv").rename(columns={"visit_id": "id"}).to_csv("tables/diagnosis.csv", index=False)
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts"]) == 2
    assert "tables/diagnosis.csv: the column 'visit_id', which links the tables" in capsys.readouterr().err
    assert not Path("parts").exists()


def coded(frames, schema):
    """All cells of linked tables, as a fit has them."""
    whole = joined(schema.validate_tables(frames), schema)
    return Codec(schema).encode(whole.frame[whole.there])


@pytest.mark.heavy
def test_a_database_holds_what_a_folder_does(place, capsys, output_of):
    described = Schema.load("clinic.yaml")
    with duckdb.connect("clinic.duckdb") as database:
        database.execute("CREATE SCHEMA ward")
        for name in ("person", "visit", "diagnosis"):
            database.read_csv(f"tables/{name}.csv").create(f"ward.{name}")
    data = ["data.path=duckdb:///clinic.duckdb#ward", "data.schema=clinic.yaml"]
    found = record_files.tables_from_database(database_url.address(data[0].removeprefix("data.path=")), described)
    assert (coded(found, described) == coded(record_files.read_tables("tables", described), described)).all()
    output_of("check", *data)
    assert run(["split", f"path={data[0].removeprefix('data.path=')}", "schema=clinic.yaml", "out=parts"]) == 0
    people = [pd.read_parquet(f"parts/{side}/person.parquet")["person_id"] for side in ("train", "held_out")]
    assert sorted(pd.concat(people)) == sorted(read("tables")["person"]["person_id"])
    assert capsys.readouterr().err == ""
    fit = ["fit", *FIT[2:], data[0], "out=run"]
    assert "give account=FILE" in output_of(*fit, status=2).err
    assert run([*fit, "account=clinic.account"]) == 0
    assert run(["fit", *FIT[2:], *data, "data.engine=memory", "account=none", "out=read"]) == 0
    counted, held = (load(f"{out}/release").sample_tables(60, seed=1) for out in ("run", "read"))
    for name, frame in counted.items():
        pd.testing.assert_frame_equal(frame, held[name])
    assert run(["fit", *FIT[2:], "data.path=duckdb:///clinic.duckdb#main", "account=none", "out=other"]) == 2
    assert "has no table 'person' that can be read" in capsys.readouterr().err


@pytest.mark.heavy
def test_tables_of_postgresql_are_read_at_one_moment(place):
    import psycopg

    described = Schema.load("clinic.yaml")
    with databases.postgres() as server:
        told = {"host": str(server), "user": databases.USER, "dbname": "postgres", "autocommit": True}
        with psycopg.connect(**told) as connection:
            for name in ("person", "visit", "diagnosis"):
                with open(f"tables/{name}.csv") as file:
                    columns = ", ".join(f"{each} varchar" for each in next(file).strip().split(","))
                    connection.execute(f"CREATE TABLE {name} ({columns})")
                    with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
                        copy.write(file.read())
            address = database_url.address(f"postgresql://{databases.USER}@/postgres?host={server}#public")
            found = record_files.tables_from_database(address, described)
            assert (coded(found, described) == coded(record_files.read_tables("tables", described), described)).all()
            with database_url._snapshot(address.url) as moment:
                before = moment.table("person").count().execute()
                connection.execute("DELETE FROM person")
                assert moment.table("person").to_pyarrow().num_rows == before == 120


REFUSED = {
    "another generator": ((*FIT[:5], "generator=mixture", "out=run", "account=none"), "mixture learns one table"),
    "a database that is not there": (
        (*FIT, "data.path=duckdb:///x.db", "data.table=t", "out=run", "account=none"),
        "no such database",
    ),
    "duckdb": ((*FIT, "data.engine=duckdb", "out=run", "account=none"), "leave data.engine=duckdb out"),
    "canaries": ((*FIT, "audit.canaries=5", "out=run", "account=none"), "canaries are planted into one table"),
    "fitness": ((*FIT, "fitness=0.1", "out=run", "account=none"), "fitness"),
    "answers": (
        (*FIT, "answers=true", "out=run", "account=none"),
        "one table's columns: leave it out for linked tables",
    ),
    "pate": (
        ("pate", *DATA, "public=tables/visit.csv", "budget.epsilon=3", "budget.delta=1e-5", "out=run", "account=none"),
        "pate takes one table, and the schema describes linked ones",
    ),
    "one file": ((*FIT, "data.path=tables/visit.csv", "out=run", "account=none"), "read from a folder"),
    "a folder of other files": ((*FIT, "data.path=.", "out=run", "account=none"), "no file of the table 'person'"),
    "split of a database that is not there": (
        ("split", "path=duckdb:///x.db#t", "schema=clinic.yaml", "out=parts"),
        "no such database",
    ),
}


@pytest.mark.heavy
def test_a_file_in_other_capitals_is_named(place, output_of):
    os.rename("tables/diagnosis.csv", "tables/Diagnosis.CSV")
    said = output_of("check", *DATA, status=2).err
    assert "tables: has no file of the table 'diagnosis'" in said
    assert "Capitals count: rename Diagnosis.CSV, or the table in the schema" in said


@pytest.mark.parametrize("case", sweep(REFUSED, ["one file", "answers", "another generator", "pate"].__contains__))
def test_what_is_not_offered_is_refused_by_name_before_any_charge(place, capsys, case):
    words, said = REFUSED[case]
    assert run(list(words)) != 0
    assert said in capsys.readouterr().err
    assert not list(place.rglob("*.jsonl"))


def test_what_a_curve_leads_to_is_refused_before_anything_is_judged(place, capsys):
    shutil.copytree("tables", "held_out")
    files = ("synthetic=tables", "data.train=tables", "data.test=held_out", "data.schema=clinic.yaml", "out=page")
    assert run(["evaluate", *files, "evaluate.survival=[person.death,{diagnosis.code: E1}]"]) != 0
    assert "evaluate.survival: column 'diagnosis.code'" in capsys.readouterr().err
    assert not list((place / "page").glob("*"))


@pytest.mark.heavy
def test_a_fit_of_linked_tables_goes_on_after_kill_9(place, capsys):
    """What was asked is charged once, the tables are read again, and the people that come out are those of a fit that was not killed."""
    labs_too = labs(clinic(120, seed=2), seed=2)
    labs_too["lab"].to_csv("tables/lab.csv", index=False)
    with_labs(units=120).save(place / "clinic.yaml")
    fit = [*FIT[:-2], "generator.iterations=300", "seed=1", "account=clinic.account"]
    environment, answers = {**os.environ, "OMP_NUM_THREADS": "1"}, place / "run/internal/checkpoint.safetensors.answers"
    words = [sys.executable, "-W", "ignore", "-m", "synthdp", *fit, "out=run"]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if answers.exists() and answers.read_bytes().count(rb"\"line\": ") >= 4:  # two answers, and two marks
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        said = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, said
    charged = sum(entry.count for entry in Ledger.read(place / "run/internal/ledger.new.jsonl").entries())
    assert charged > 0
    assert not (place / "run/release").exists()
    assert run([*fit, "out=run"]) != 0
    assert "resume=true with the same arguments" in capsys.readouterr().err
    assert run([*fit, "out=run", "resume=true"]) == 0, capsys.readouterr().err
    assert run([*fit[:-1], "account=none", "out=whole"]) == 0
    ledgers = [load(place / name / "release").ledger.entries() for name in ("run", "whole")]
    assert ledgers[0] == ledgers[1]
    assert sum(entry.count for entry in ledgers[0]) >= charged, (
        "killed amid its questions, or while it learned from them"
    )
    for name in ("run", "whole"):
        assert run(["sample", f"release={name}/release", "rows=60", "seed=3", f"out=made_{name}"]) == 0
    for file in ("person", "visit", "diagnosis", "lab"):
        assert (place / f"made_run/{file}.csv").read_bytes() == (place / f"made_whole/{file}.csv").read_bytes()
    capsys.readouterr()
    assert run(["budget", "account=clinic.account", "format=json"]) == 0
    assert [each["state"] for each in json.loads(capsys.readouterr().out)["fits"]] == ["finished"]


@pytest.mark.heavy
def test_a_release_of_linked_tables_is_written_to_a_folder_of_its_own(place, capsys, output_of):
    output_of(*FIT, "account=none", "out=run")
    for words, said in (
        (("out=people.csv",), "need a folder"),
        (("out=-",), "need a folder"),
        (("out=x/*.zip",), "tables are written as"),
        (("out=new", "where={visit.ward: a}"), "is not a column of people"),
        (("out=women", "where={person.sex: F}"), None),
        (("out=women", "where={person.sex: F}", "force=true"), None),
        (("out=women/*.parquet", "where={person.sex: F}", "force=true"), None),
        (("out=women", "where={person.sex: F}", "force=true"), None),
        (("out=tables", "force=true"), "holds the records that were fitted"),
    ):
        status = run(["sample", "release=run/release", "rows=5", *words])
        assert (status == 0) == (said is None)
        assert said is None or said in capsys.readouterr().err
    assert len(read("tables")["person"]) == 120
    assert set(read("women")["person"]["sex"]) == {"F"}
    assert sorted(path.name for path in (place / "women").glob("[!.]*")) == ["diagnosis.csv", "person.csv", "visit.csv"]
    (place / "women" / "notes.txt").write_text("x")
    assert run(["sample", "release=run/release", "rows=5", "out=women", "force=true"]) != 0
    assert "notes.txt" in capsys.readouterr().err


def test_force_replaces_no_linked_tables_but_those_that_were_written(tmp_path):
    """Whatever files had the tables' names were replaced, such as a later export of the hospital."""
    own, made = schema(units=20), tmp_path / "made"
    record_files.write_tables(clinic(20), made, own)
    record_files.write_tables(clinic(30), made, own, ".parquet", force=True)
    record_files.write_tables(clinic(40), made, own, force=True)
    assert len(read(made)["person"]) == 40
    for change in ("changed", "more", "fewer", "unlisted"):
        theirs = tmp_path / change
        shutil.copytree(made, theirs)
        if change == "changed":
            (theirs / "visit.csv").write_text((theirs / "visit.csv").read_text().replace("a", "b", 1))
        elif change == "more":
            (theirs / "visit.csv.gz").write_bytes(b"x")
        else:
            (theirs / {"fewer": "visit.csv", "unlisted": ".written.sha256"}[change]).unlink()
        before = {path.name: path.read_bytes() for path in theirs.iterdir()}
        with pytest.raises(BadInput, match="does not fit its files; choose another folder, or remove it"):
            record_files.write_tables(clinic(20), theirs, own, force=True)
        assert {path.name: path.read_bytes() for path in theirs.iterdir()} == before


@pytest.mark.heavy
def test_a_release_of_linked_tables_is_written_into_a_database(place, capsys, output_of):
    """All tables or none, beside others that stay, and never in place of real ones; and what was written is read back."""
    with duckdb.connect("real.db") as database:
        for name in ("person", "visit", "diagnosis"):
            database.read_csv(f"tables/{name}.csv").create(name)
    real = "duckdb:///real.db#main"
    assert run(["fit", *FIT[2:], f"data.path={real}", "data.engine=memory", "account=none", "out=run"]) == 0
    with duckdb.connect("made.db") as database:
        database.execute("CREATE TABLE notes (x INT); CREATE TABLE visit (x INT)")
    words = ["sample", "release=run/release", "rows=25", "seed=3", "out=duckdb:///made.db#main"]
    capsys.readouterr()
    assert "the table visit exists" in output_of(*words, status=2).err
    with duckdb.connect("made.db") as database:
        assert sorted(database.sql("SHOW TABLES").fetchall()) == [("notes",), ("visit",)], "none of them was left"
    assert "25 synthetic people in duckdb:///made.db#main: 25 rows in person, " in output_of(*words, "force=true").out
    described, address = Schema.load("clinic.yaml"), database_url.address("duckdb:///made.db#main")
    found, drawn = record_files.tables_from_database(address, described), load("run/release").sample_tables(25, seed=3)
    assert (coded(found, described) == coded(drawn, described)).all()
    with duckdb.connect("made.db") as database:
        assert ("notes",) in database.sql("SHOW TABLES").fetchall()
    assert "holds the records that were fitted" in output_of(*words[:4], f"out={real}", "force=true", status=2).err
    with duckdb.connect("real.db") as database:
        assert database.sql("SELECT count(*) FROM person").fetchone() == (120,)
    assert "#" in output_of(*words[:4], "out=duckdb:///made.db", status=2).err
    with duckdb.connect("viewed.db") as database:
        database.execute("CREATE VIEW visit AS SELECT 1 AS x")
    assert run([*words[:4], "out=duckdb:///viewed.db#main", "force=true"]) == 2
    assert "no view has a table's name" in capsys.readouterr().err
    with duckdb.connect("viewed.db") as database:
        assert database.sql("SHOW TABLES").fetchall() == [("visit",)], "none of them was left"


@pytest.mark.heavy
def test_linked_tables_of_a_database_are_judged(place, capsys):
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts"]) == 0
    with duckdb.connect("made.db") as database:
        for name in ("person", "visit", "diagnosis"):
            database.read_csv(f"parts/train/{name}.csv").create(name)
    test = ["data.train=parts/train", "data.test=parts/held_out", "data.schema=clinic.yaml", "evaluate.attacks=false"]
    assert run(["evaluate", "synthetic=duckdb:///made.db#main", *test, "out=judged"]) == 0, capsys.readouterr().err


@pytest.mark.heavy
def test_a_schema_that_was_edited_after_a_look_is_said_to_be_so(place, capsys):
    assert run(["check", *DATA]) == 0
    schema(units=130, tables={"visit": {"max_rows": 2}}).save(place / "clinic.yaml")
    assert run([*FIT, "account=none", "out=run"]) == 0
    said = json.loads((place / "run" / "release" / "release.json").read_text())["statement"]["declared"]
    assert said["edited_after"] == ["a check"]
    assert "at most 2 that follow one another" in said["tables"][1]


def test_codes_are_not_taken_from_the_tables_themselves(place, capsys):
    codes = {"kind": "categorical", "categories": {"file": "tables/diagnosis.csv", "column": "code"}}
    made = declared(tables={"diagnosis": {"columns": {"code": codes}}})
    (place / "clinic.yaml").write_text(json.dumps(made), encoding="utf-8")
    assert run([*FIT, "account=none", "out=run"]) != 0
    assert "takes its categories from the records" in capsys.readouterr().err


@pytest.mark.heavy
def test_a_draft_links_tables_by_the_names_of_their_keys(place, capsys, output_of):
    assert run(["schema", "path=tables", "out=draft.yaml"]) == 0, capsys.readouterr().err
    text = (place / "draft.yaml").read_text(encoding="utf-8")
    drafted = Schema.load("draft.yaml")
    people, visits, items = drafted.tables
    assert (people.name, people.key) == ("person", "person_id")
    assert (visits.name, visits.key, visits.parent, visits.order) == ("visit", "visit_id", "person", "start")
    assert (items.name, items.key, items.parent) == ("diagnosis", None, "visit")
    assert drafted.column("diagnosis.code 1").categories == ("TODO",)
    assert drafted.column("visit.ward").categories == "learn"
    for cell in ("E11", "J45", "P0001"):
        assert cell not in text, "no cell is in a draft"
    with pytest.raises(BadInput, match="marked for review"):
        drafted.check_declared()
    assert oct((place / "draft.seen.internal.yaml").stat().st_mode)[-3:] == "600"
    capsys.readouterr()
    assert output_of("schema", "path=tables").out == text
    done = re.sub("^ +review: true.*\n", "", text, flags=re.MULTILINE).replace("[TODO]", "[E11, I10, J45, K21]")
    done = done.replace("declared_by:  #", "declared_by: the tests  #")
    (place / "draft.yaml").write_text(done, encoding="utf-8")
    fit = [word.replace("clinic.yaml", "draft.yaml").replace("epsilon=3", "epsilon=inf") for word in FIT]
    assert run([*fit, "account=none", "out=run"]) == 0, capsys.readouterr().err
    said = json.loads((place / "run" / "release" / "release.json").read_text())["statement"]["declared"]
    assert said["edited_after"] == ["a draft"]


def test_a_draft_keeps_the_place_of_keys_and_says_what_names_of_columns_suggest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tables").mkdir()
    files = {
        "patient": "patientnr;geboren;overleden;zgon\n1;1950-01-01;2024-01-02;\n2;1960-01-01;;2024-01-02\n",
        "opname": "opnamenr;patientnr;start\n7;1;2023-01-01\n8;2;2023-01-02\n",
        "diagnose": "opnamenr;icd10\n7;I10\n8;E11.9\n",
    }
    for name, text in files.items():
        Path("tables", f"{name}.csv").write_text(text, encoding="utf-8")
    assert run(["schema", "path=tables", "out=draft.yaml"]) == 0
    text = Path("draft.yaml").read_text(encoding="utf-8")
    *_, codes = Schema.load("draft.yaml").tables
    below = text.partition("  diagnose:\n")[2]
    assert codes.parent == "opname"
    assert below.index("opnamenr: {kind") < below.index("icd10:")  # as in the file
    assert "tree: {prefix: [1, 3]}" in below
    for rule in ("start <= patient.overleden", "start <= patient.zgon", "start >= patient.geboren"):
        assert f"#   - opname.{rule}" in text


PEOPLE, STAYS = ["PatNr", "Geburt"], ["FallNr", "PatNr", "Aufnahme", "StationNr"]
NAMED = {  # columns of tables, and the parent and the key of each; none where names do not tell
    "the beginning of a plural": (
        {"patienten": PEOPLE, "faelle": STAYS, "labor": ["FallNr", "Test", "StationNr"]},
        {"patienten": (None, "PatNr"), "faelle": ("patienten", "FallNr"), "labor": ("faelle", None)},
    ),
    "an abbreviation": (
        {"Pat": ["Patienten-ID"], "Fälle": ["Fall_Nr", "Patienten-ID"], "Diagnosen": ["Fall_Nr", "Patienten-ID"]},
        {"Pat": (None, "Patienten-ID"), "Fälle": ("Pat", "Fall_Nr"), "Diagnosen": ("Fälle", None)},
    ),
    "a whole name first": (
        {"visit": ["visit_id", "person_id"], "visit_notes": ["visit_id"], "person": ["person_id"]},
        {"person": (None, "person_id"), "visit": ("person", "visit_id"), "visit_notes": ("visit", None)},
    ),
    "id first, as in French": (
        {"patients": ["id_patient"], "sejours": ["id_sejour", "id_patient"], "biologie": ["id_sejour", "id_patient"]},
        {"patients": (None, "id_patient"), "sejours": ("patients", "id_sejour"), "biologie": ("sejours", None)},
    ),
    "plurals in Italian": (
        {"pazienti": ["id_paziente"], "ricoveri": ["RICOVERO_ID", "id_paziente"], "esami": ["RICOVERO_ID", "ESAME"]},
        {"pazienti": (None, "id_paziente"), "ricoveri": ("pazienti", "RICOVERO_ID"), "esami": ("ricoveri", None)},
    ),
    "id first, with a capital": (
        {"patient": ["idPatient"], "sejour": ["idSejour", "idPatient"], "idee": ["idSejour", "idee"]},
        {"patient": (None, "idPatient"), "sejour": ("patient", "idSejour"), "idee": ("sejour", None)},
    ),
    "another name below people": (
        {"patienten": PEOPLE, "aufenthalte": STAYS, "diagnosen": ["FallNr", "Kode"]},
        {"patienten": (None, "PatNr"), "aufenthalte": ("patienten", "FallNr"), "diagnosen": ("aufenthalte", None)},
    ),
    "a column of people and visits": (
        {"patienten": [*PEOPLE, "PraxisNr"], "termine": ["PatNr", "PraxisNr"]},
        {"patienten": (None, "PatNr"), "termine": ("patienten", None)},
    ),
    "two tables below people": (
        {"patienten": PEOPLE, "aufenthalte": STAYS, "labor": [*STAYS], "diagnosen": ["FallNr"]},
        None,
    ),
    "two columns of visits": (
        {"patienten": PEOPLE, "aufenthalte": STAYS, "labor": ["FallNr", "Test", "StationNr"]},
        None,
    ),
    "keys called as no key is, in tables of their name": (
        {"IPP": ["IPP", "Sexe"], "nda": ["NDA", "IPP", "Unité"], "diagnostics": ["NDA", "Unité"]},
        {"IPP": (None, "IPP"), "nda": ("IPP", "NDA"), "diagnostics": ("nda", None)},
    ),
    "a column called as its table is, which is no key": (
        {
            "person": ["person_id"],
            "visit": ["person_id", "visit_id"],
            "drug": ["visit_id", "drug"],
            "order": ["visit_id", "drug"],
        },
        {
            "person": (None, "person_id"),
            "visit": ("person", "visit_id"),
            "drug": ("visit", None),
            "order": ("visit", None),
        },
    ),
    "keys called as no key is, by the shape": (
        {
            "patients": ["IPP"],
            "séjours": ["NDA", "IPP"],
            "labo": ["NDA", "Unité"],
            "actes": ["NDA", "Unité"],
        },
        {
            "patients": (None, "IPP"),
            "séjours": ("patients", "NDA"),
            "labo": ("séjours", None),
            "actes": ("séjours", None),
        },
    ),
    "keys called as no key is, and another column in the same tables": (
        {"patients": ["IPP"], "séjours": ["NDA", "IPP", "UF"], "labo": ["NDA", "UF"], "actes": ["NDA", "UF"]},
        None,
    ),
    "keys called as no key is, and either end may be the people": (
        {"patients": ["IPP"], "séjours": ["NDA", "IPP"], "actes": ["NDA"]},
        None,
    ),
    "a state's number of a person": (
        {
            "patient": ["Personnummer", "Kön"],
            "besök": ["BesökId", "Personnummer"],
            "labsvar": ["BesökId", "Personnummer"],
        },
        {"patient": (None, "Personnummer"), "besök": ("patient", "BesökId"), "labsvar": ("besök", None)},
    ),
    "a state's number of a person, in a table of any name": (
        {"stamdata": ["CPR"], "kontakter": ["CPR", "KontaktNr"], "prøver": ["KontaktNr"]},
        {"stamdata": (None, "CPR"), "kontakter": ("stamdata", "KontaktNr"), "prøver": ("kontakter", None)},
    ),
    "a state's number of a person, and visits without a key": (
        {"potilaat": ["Henkilötunnus"], "käynnit": ["Henkilötunnus", "Osasto"]},
        {"potilaat": (None, "Henkilötunnus"), "käynnit": ("potilaat", None)},
    ),
    "another name": ({"stamm": PEOPLE, "faelle": STAYS}, None),
    "two tables of one beginning": ({"patienten": PEOPLE, "patientenadressen": PEOPLE, "faelle": STAYS}, None),
    "two keys of one beginning": ({"patienten": [*PEOPLE, "PatID"], "faelle": [*STAYS, "PatID"]}, None),
    "two letters": ({"patienten": ["PaNr"], "faelle": ["FallNr", "PaNr"]}, None),
}


@pytest.mark.parametrize("case", NAMED)
def test_a_draft_links_files_whose_names_begin_as_their_keys_do(case):
    columns, expected = NAMED[case]
    cells = {name: pd.DataFrame({each: ["1", "2"] for each in names}, dtype="str") for name, names in columns.items()}
    found = {name: Found(frame=frame.assign(code=["a", "b"]), reading=None) for name, frame in cells.items()}
    if expected is None:
        with pytest.raises(BadInput, match="do not tell how the tables are linked"):
            draft_tables(found, "tables")
        return
    made = yamlfile.parse(draft_tables(found, "tables").schema, "draft")["tables"]
    assert {name: (table.get("parent"), table.get("key")) for name, table in made.items()} == expected


def test_a_draft_that_finds_no_links_says_which_files_to_rename():
    columns = {"stamm": ["pid"], "aufenthalte": ["fallnr", "pid"], "diagnosen": ["fallnr", "pid"]}
    cells = {name: pd.DataFrame({each: ["1", "2"] for each in names}, dtype="str") for name, names in columns.items()}
    found = {name: Found(frame=frame.assign(code=["a", "b"]), reading=None) for name, frame in cells.items()}
    with pytest.raises(BadInput) as refusal:
        draft_tables(found, "tables")
    assert "Of aufenthalte and diagnosen, rename the one with one row for each fallnr to fall." in str(refusal.value)
    assert "Of stamm and aufenthalte and diagnosen, rename the one with one row for each pid to p." in str(
        refusal.value
    )
    columns = {"patients": ["IPP"], "séjours": ["NDA", "IPP"], "actes": ["NDA", "IPP"]}
    plain = {name: pd.DataFrame({each: ["1", "2"] for each in names}, dtype="str") for name, names in columns.items()}
    with pytest.raises(
        BadInput, match=r"one row for each IPP to IPP\. .*Of séjours and actes, rename the one .* to NDA\."
    ):
        draft_tables(
            {name: Found(frame=frame.assign(c=["a", "b"]), reading=None) for name, frame in plain.items()}, "t"
        )
    renamed = {"p": found["stamm"], "fall": found["aufenthalte"], "diagnosen": found["diagnosen"]}
    made = yamlfile.parse(draft_tables(renamed, "tables").schema, "draft")["tables"]
    assert {name: table.get("parent") for name, table in made.items()} == {"p": None, "fall": "p", "diagnosen": "fall"}


@pytest.mark.parametrize("kept", [heavy("main"), "wards"])
def test_tables_of_a_database_are_drafted_as_a_folder_is(place, capsys, kept):
    with duckdb.connect("clinic.duckdb") as database:
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {kept}")
        database.execute(f"USE {kept}")
        for name, frame in clinic(60, seed=2).items():
            database.from_df(frame).create(name)
    assert run(["schema", f"path=duckdb:///clinic.duckdb#{kept}", "out=draft.yaml"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert f"duckdb:///clinic.duckdb#{kept}" in said, "where check finds them"
    drafted = Schema.load("draft.yaml")
    assert [(table.name, table.parent) for table in drafted.tables] == [
        ("person", None),
        ("visit", "person"),
        ("diagnosis", "visit"),
    ]
    assert drafted.tables[1].order == "start"
    assert drafted.name == "clinic", "a release shows it"
    assert run(["schema", f"path=duckdb:///clinic.duckdb#{kept}.visit", "out=one.yaml"]) == 0, capsys.readouterr().err
    assert not Schema.load("one.yaml").tables


def test_a_draft_of_tables_of_a_database_says_how_columns_are_stored(place, capsys):
    with duckdb.connect("clinic.duckdb") as database:
        for name, frame in clinic(60, seed=2).items():
            database.from_df(frame).create(name)
        database.execute("ALTER TABLE visit ALTER start TYPE DATE")
    assert run(["schema", "path=duckdb:///clinic.duckdb#main", "out=draft.yaml"]) == 0, capsys.readouterr().err
    reading = yamlfile.parse(Path("draft.yaml").read_text(), "draft")["tables"]["visit"]["reading"]
    assert reading["columns"]["start"] == {"stored": "date"}, "synthetic records are stored so too"


def test_a_draft_says_how_to_leave_a_table_out(place, capsys):
    with duckdb.connect("clinic.duckdb") as database:
        for name, frame in clinic(60, seed=2).items():
            database.from_df(frame).create(name)
        database.execute("CREATE VIEW women AS SELECT * FROM person WHERE sex = 'F'")
    assert run(["schema", "path=duckdb:///clinic.duckdb#main", "out=draft.yaml"]) == 2
    assert "found visit, women" in (said := capsys.readouterr().err)
    assert "create views of them" in said
    with duckdb.connect("clinic.duckdb") as database:
        database.execute("CREATE SCHEMA wanted")
        for name in ("person", "visit", "diagnosis"):
            database.execute(f"CREATE VIEW wanted.{name} AS FROM main.{name}")
    assert run(["schema", "path=duckdb:///clinic.duckdb#wanted", "out=draft.yaml"]) == 0, capsys.readouterr().err
    assert [table.name for table in Schema.load("draft.yaml").tables] == ["person", "visit", "diagnosis"]


def test_a_draft_of_tables_whose_names_tell_no_tree_is_refused(place, capsys):
    whole = read("tables")
    whole["visit"].rename(columns={"person_id": "who"}).to_csv("tables/visit.csv", index=False)
    assert run(["schema", "path=tables", "out=draft.yaml"]) != 0
    said = capsys.readouterr().err
    assert "Tables without a parent are person, visit" in said
    assert "It is enough to rename the files" in said
    assert "in a database, create views with such names in a schema of their own" in said
    assert not (place / "draft.yaml").exists()


GERMAN = {"sep": ";", "decimal": ",", "encoding": "cp1252", "date_format": "%d.%m.%Y", "index": False}


def export(folder, people=200):
    """The clinic as a German program exports it: keys are whole numbers, visits say Ja and Nein."""
    folder.mkdir()
    frames = labs(clinic(people, seed=2), seed=2)
    for frame in frames.values():
        for key in {"person_id", "visit_id"} & set(frame):
            frame[key] = frame[key].str[1:].astype(int) + 1
    frames["visit"]["ward"] = frames["visit"]["ward"].map({"a": "Innere", "b": "Ambulanz für Ältere"})
    frames["visit"]["no_show"] = frames["visit"]["no_show"].map({True: "Ja", False: "Nein"})
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", **GERMAN)
    return frames


def reviewed(text):
    """The draft as a steward leaves it: facts that are public, and no marks."""
    facts = yamlfile.parse(text, "draft")
    known = declared(tables={"lab": LAB})["tables"]
    for name, table in facts["tables"].items():
        table.get("reading", {}).pop("review", None)
        for column, fact in table["columns"].items():
            fact.pop("review", None)
            fact |= known[name]["columns"].get(column, {})
            if "missing" not in known[name]["columns"].get(column, {}):
                fact.pop("missing", None)
    facts["tables"]["visit"]["columns"]["ward"]["categories"] = ["Innere", "Ambulanz für Ältere"]
    return Schema.from_dict(
        {**facts, "declared_by": "the tests", "units": 200, "rules": DECLARED["rules"], "targets": ["visit.no_show"]}
    )


@pytest.mark.heavy
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_tables_come_back_in_the_coding_of_their_files(tmp_path, monkeypatch, capsys, ending):
    """From the draft to synthetic files that the program which wrote the real ones opens, with the same types and linked keys."""
    monkeypatch.chdir(tmp_path)
    frames = export(tmp_path / "tables")
    if ending == ".parquet":
        shutil.rmtree("tables")
        (tmp_path / "tables").mkdir()
        for name, frame in frames.items():
            days = {column: pa.date32() for column in ("birth", "death", "start", "taken") if column in frame}
            held = pa.Table.from_pandas(frame, preserve_index=False)
            types = [pa.field(field.name, days.get(field.name, field.type)) for field in held.schema]
            pq.write_table(held.cast(pa.schema(types)), f"tables/{name}.parquet")
    assert run(["schema", "path=tables", "out=draft.yaml"]) == 0, capsys.readouterr().err
    reviewed((tmp_path / "draft.yaml").read_text(encoding="utf-8")).save("clinic.yaml")
    assert run(["check", *DATA]) == 0, capsys.readouterr().err
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts", "share=0.3"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run([*FIT, "account=none", "out=run"]) == 0, capsys.readouterr().err
    led = "out=synthetic" if ending == ".csv" else "'out=synthetic/*.parquet'"
    assert f"{led}\n" in capsys.readouterr().out
    said = run(["sample", "release=run/release", "rows=150", "seed=1", f"out=synthetic/*{ending}"])
    assert said == 0, capsys.readouterr().err
    made = {}
    for name in frames:
        files = [f"{folder}/{name}{ending}" for folder in ("tables", "parts/train", "synthetic")]
        if ending == ".parquet":
            held = [pq.read_schema(file) for file in files]
            types = [{field.name: str(field.type).removeprefix("large_") for field in each} for each in held]
            made[name] = pq.read_table(files[-1]).to_pandas()
        else:
            words = {key: GERMAN[key] for key in ("sep", "decimal", "encoding")}
            read_back = [pd.read_csv(file, **words) for file in files]
            types = [dict(frame.dtypes) for frame in read_back]
            made[name] = read_back[-1]
        assert types[0] == types[1] == types[2]
    assert set(made["visit"]["no_show"]) == {"Ja", "Nein"}
    assert set(made["visit"]["ward"].dropna()) == {"Innere", "Ambulanz für Ältere"}
    assert made["visit"]["visit_id"].is_unique
    assert set(made["visit"]["person_id"]) <= set(made["person"]["person_id"])
    assert set(made["diagnosis"]["visit_id"]) | set(made["lab"]["visit_id"]) <= set(made["visit"]["visit_id"])


@pytest.mark.heavy
def test_rows_that_do_not_say_what_they_are_have_the_remedy_that_a_schema_allows(place, output_of):
    """missing: true is refused for the column that says what a row is, so nobody may be told to write it."""
    with open("tables/diagnosis.csv", "a") as file:
        file.write("V00001,\n")
    said = output_of("check", *DATA, status=2).out
    assert "column 'diagnosis.code': some values are missing, though the column says what a row is" in said
    assert "take these rows out, as invalid=clamp does" in said
    said = output_of("fit", *DATA, "generator=histories", "out=fit", "account=none", status=2).err
    assert "column 'code': some values are missing, though the column says what a row is (leave such rows out)" in said
    assert "missing: true" not in said


@pytest.mark.heavy
def test_rows_of_several_columns_go_from_check_to_report(place, capsys, monkeypatch):
    """As a steward would: check, split, fit, sample, evaluate, report, with laboratory values below visits."""
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 200)
    with_labs(units=200).save(place / "clinic.yaml")
    for name, frame in labs(clinic(200, seed=2), seed=2).items():
        frame.to_csv(place / "tables" / f"{name}.csv", index=False)
    assert run(["check", *DATA]) == 0, capsys.readouterr().err
    assert run(["split", "path=tables", "schema=clinic.yaml", "out=parts", "share=0.3"]) == 0, capsys.readouterr().err
    parts = [f"data.{part}=parts/{folder}" for part, folder in (("train", "train"), ("test", "held_out"))]
    fit = ["data.path=parts/train" if word == "data.path=tables" else word for word in FIT]
    assert run([*fit, "account=clinic.account", "out=run"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["sample", "release=run/release", "rows=150", "seed=1", "out=synthetic"]) == 0
    led = "synthdp evaluate synthetic=synthetic release=run/release data.train=parts/train data.test=parts/held_out"
    assert f"next       {led} data.schema=clinic.yaml out=run/evaluation\n" in capsys.readouterr().out
    quick = ["evaluate.models=[lr]", "evaluate.seeds=1", "evaluate.attacks=false", "evaluate.bootstrap=20"]
    words = ["evaluate", "synthetic=synthetic", "release=run/release", *parts, "data.schema=clinic.yaml", "out=page"]
    assert run([*words, *quick]) == 0, capsys.readouterr().err
    page = (place / "page" / "evaluation.html").read_text(encoding="utf-8")
    for name in ("lab per visit", "lab.taken", "lab.test, value"):
        assert name in page
    assert run(["report", "release=run/release", "out=report"]) == 0
    said = json.loads((place / "run" / "release" / "release.json").read_text())["statement"]["declared"]
    assert "lab.taken >= visit.start" in said["rules"]["kept"]
    assert pd.read_csv("synthetic/lab.csv").columns.tolist() == ["visit_id", "test", "value", "taken", "urgent"]


def test_a_draft_takes_the_codes_of_tests_for_what_a_row_is_not_the_units_of_their_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tables").mkdir()
    files = {
        "pazienti": "id_paziente,sesso\n1,F\n2,M\n",
        "ricoveri": "id_ricovero,id_paziente,ingresso\n7,1,2023-01-01\n8,2,2023-01-02\n",
        "misure": "id_ricovero,ora,unita,codice,valore\n7,2023-01-01,bpm,220045,80\n8,2023-01-02,mmHg,220179,120\n",
        "farmaci": "id_ricovero,item,atc,via\n7,5,N01AX10,ev\n8,7,A10AB01,sc\n",
    }
    for name, text in files.items():
        Path("tables", f"{name}.csv").write_text(text, encoding="utf-8")
    assert run(["schema", "path=tables", "out=draft.yaml"]) == 0
    tables = {table.name: table for table in Schema.load("draft.yaml").tables}
    assert tables["misure"].parent == tables["farmaci"].parent == "ricoveri"
    text = Path("draft.yaml").read_text(encoding="utf-8")
    below = text.partition("  misure:\n")[2]
    first = below[below.index("columns:\n      ") :]
    assert first.index("codice:\n        kind: categorical") < first.index("ora:") < first.index("unita:")
    assert "categories: [TODO]" in first[: first.index("ora:")]
    drugs = text.partition("  farmaci:\n")[2]
    assert drugs.index("  atc:") < drugs.index("  item:") < drugs.index("  via:"), "codes in letters go before"


def test_a_draft_proposes_no_rule_that_rows_of_the_same_day_break(place, capsys):
    """Visits by the minute, deaths and tests by the day: a rule between them counted every row of the same day as breaking it."""
    people, visits = (pd.read_csv(f"tables/{name}.csv") for name in ("person", "visit"))
    visits["start"] = visits["start"].str.slice(0, 10) + " 10:41"
    taken = pd.DataFrame({"visit_id": visits.visit_id, "test": "K", "taken": visits["start"].str.slice(0, 10)})
    taken["given"] = visits["start"]
    (place / "ward").mkdir()
    for name, frame in {"person": people, "visit": visits, "labs": taken}.items():
        frame.to_csv(place / "ward" / f"{name}.csv", index=False)
    assert run(["schema", "path=ward", "out=draft.yaml"]) == 0
    text = Path("draft.yaml").read_text(encoding="utf-8")
    proposed = [line.split("  # ")[0] for line in text.splitlines() if line.startswith("#   - ")]
    assert proposed == ["#   - visit.start >= person.birth", "#   - labs.given >= visit.start"]
    assert (
        "# Not proposed: visit.start <= person.death. person.death is recorded by day and visit.start by minute" in text
    )
    assert "# Not proposed: labs.taken >= visit.start. " in text
    assert text.count("rules: [labs.given >= visit.start]") == 1
    assert "rules: [labs.taken" not in text


def test_a_rule_below_visits_by_which_a_time_is_no_later_than_a_day_is_told(place, capsys):
    start = {"kind": "datetime", "bounds": ["2020-01-01", "2023-12-31"], "resolution": "minute"}
    visit = {"columns": {**declared()["tables"]["visit"]["columns"], "start": start}}
    with_labs(units=120, tables={"visit": visit}).save(place / "clinic.yaml")
    frames = clinic(120, seed=2)
    for name, frame in labs(frames).items():
        frame.to_csv(place / "tables" / f"{name}.csv", index=False)
    run(["check", *DATA])
    told = capsys.readouterr().out
    assert "rule       'lab.taken >= visit.start': a day in 'lab.taken' counts as its midnight" in told
