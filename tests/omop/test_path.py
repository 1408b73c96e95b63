"""From a hospital's CDM to a synthetic one on the command line; what is read, written and refused on the way."""

import contextlib
import json
import math
import re
import shlex
import shutil
from datetime import date
from pathlib import Path

import databases
import duckdb
import numpy as np
import omop_hospital
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sweeps import heavy

from synthdp import Budget, Schema, Synthesizer
from synthdp.cli import run
from synthdp.errors import BadInput
from synthdp.generators.histories import HistoriesSettings
from synthdp.omop import cdm, cdm_draft, cdm_files, cdm_store, cdm_tables
from synthdp.omop.cdm_store import Cdm
from synthdp.omop.quality_checks import checked
from synthdp.schema.codec import Codec
from synthdp.schema.linked_tables import column_of
from synthdp.schema.table_review import review_tables
from synthdp.seal.history_records import ordered

DATA = ("data.format=omop", "data.path=cdm", "data.schema=schema.yaml")
SOON = ("generator=histories", "generator.rounds=1", "generator.iterations=5", "seed=1")
# So much that noise does not decide whether the synthetic CDM passes its checks: at epsilon 3, by chance, a drug in twelve has no concept.
FIT = ("fit", *DATA, *SOON, "budget.epsilon=30", "budget.delta=1e-5")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """A CDM, its vocabulary, and an answered schema."""
    folder = tmp_path_factory.mktemp("omop")
    omop_hospital.write(folder)
    lists = cdm_draft.concept_lists(str(folder / "vocabulary"), folder / "schema.concepts")
    drafted = cdm_draft.draft(str(folder / "cdm"), lists, cdm_draft.version_of(str(folder / "vocabulary")))
    (folder / "schema.yaml").write_text(omop_hospital.answered(drafted), encoding="utf-8")
    return folder


@pytest.fixture
def place(hospital, tmp_path, monkeypatch):
    for name in ("cdm", "vocabulary", "schema.yaml", "schema.concepts"):
        (tmp_path / name).symlink_to(hospital / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.heavy
def test_a_visit_without_an_end_gets_a_remedy_that_a_cdm_allows(place, capsys, output_of):
    """`missing: true`, the remedy elsewhere, is refused for the days of a visit."""
    for name in ("cdm", "vocabulary"):
        (place / name).unlink()
    omop_hospital.write(place)
    name = next(path for path in (place / "cdm").iterdir() if path.name.lower() == "visit_occurrence.csv")
    visits = pd.read_csv(name, dtype=str)
    visits.loc[0, ["visit_end_date", "visit_end_datetime"]] = None
    visits.loc[1, ["visit_start_date", "visit_end_date"]] = ["2021-05-05", "2021-05-01"]
    visits.to_csv(name, index=False)
    run(["check", *DATA])
    said = capsys.readouterr().out
    assert "'visit_occurrence.visit_days': some visits have no end" in said
    assert "invalid=clamp, which counts their days as the lower bound" in said
    assert "A visit that ends before it starts has a negative number of days" in said
    schema = (place / "schema.yaml").read_text()
    (place / "schema.yaml").unlink()
    assert "visit_days:" in schema
    (place / "schema.yaml").write_text(re.sub("(visit_days:.*\n( +)kind: integer)", "\\1\n\\2missing: true", schema))
    assert (
        "must be an integer without missing cells: every visit of a CDM needs a visit_end_date"
        in output_of("check", *DATA, status=2).err
    )


@pytest.mark.heavy
def test_a_cdm_is_fitted_and_a_synthetic_one_passes_its_checks(place, capsys, output_of):
    drafted = output_of("schema", *DATA[:2], "data.vocabulary=vocabulary", "out=draft.yaml").out
    assert "next       synthdp check data.format=omop data.path=cdm" in drafted
    assert "no record was read" in drafted
    assert not Path("internal").exists(), "so no look at records is noted, after which the schema would count as edited"
    with pytest.raises(BadInput, match=r"'condition_occurrence.condition_concept_id', 'procedure_occurrence"):
        Schema.load("draft.yaml").check_declared()
    found = output_of("check", *DATA, "data.vocabulary=vocabulary").out
    assert " 0 failed, 0 not run" in found
    assert "'measurement.visit_occurrence_id': some rows have no key of visit_occurrence, and count for nobody" in found
    assert "a key that is not in visit_occurrence" not in found, "which is told of keys that lead nowhere"
    assert "tables that are left out, since the schema does not describe them: drug_era" in found
    output_of(*FIT, "account=none", "out=run", "data.vocabulary=vocabulary")
    told = json.loads((place / "run" / "release" / "release.json").read_text(encoding="utf-8"))["statement"]
    version = "OMOP CDM: concepts are from the vocabularies, version made up"
    assert told["declared"]["tables"][-2:] == [version, cdm.NOTE]
    assert Schema.load("draft.yaml").notes == (version,)
    sample = ("sample", "release=run/release", "rows=200", "format=omop", "seed=1", "vocabulary=vocabulary")
    output_of(*sample, "out=synthetic")
    output_of(*sample, "out=women", "where={person.gender_concept_id: 8532}")
    assert set(pd.read_csv("women/person.csv")["gender_concept_id"]) == {8532}
    found = output_of("check", "data.format=omop", "data.path=synthetic", "data.vocabulary=vocabulary").out
    assert " 0 failed, 0 not run" in found
    assert "no row to apply to" in found
    output_of(*sample, "out=packed/*.parquet")
    output_of(*sample, "out=packed/*.parquet", "force=true")
    output_of(*sample, "out=made.duckdb")
    output_of(*sample, "out=made.duckdb", "force=true")
    omop_hospital.made_up_omop.write(
        {name: omop_hospital.tables(20)[name] for name in (*cdm.RECORDS, "cdm_source")}, place / "own"
    )
    shutil.copytree("own", "half")
    shutil.copy("synthetic/cdm_source.csv", "half")
    shutil.copytree("synthetic", "mixed")
    pd.read_csv("own/person.csv").to_parquet("mixed/person.parquet")
    shutil.copytree("synthetic", "death")  # a table of which no row can say whose it is
    shutil.copy("own/death.csv", "death")
    for name, more in (
        ("schema", "CREATE SCHEMA cdm"),
        ("other", "SELECT 1"),
        ("row", "UPDATE {} SET person_source_value = 7"),
        ("death", "DROP TABLE death; CREATE TABLE death AS SELECT 1 AS person_id"),
    ):
        shutil.copy("made.duckdb", f"{name}.duckdb")
        with duckdb.connect(f"{name}.duckdb") as database:
            database.execute(more.format("person"))
            if name in ("schema", "other"):
                database.execute(
                    f"CREATE TABLE {'cdm.person' if name == 'schema' else 'notes'} AS SELECT 1 AS person_id"
                )
    for out in ("own", "half", "mixed", "death", "schema.duckdb", "other.duckdb", "row.duckdb", "death.duckdb"):
        kept = {path: path.read_bytes() for path in (*Path(out).glob("*"), Path(out)) if path.is_file()}
        assert run([*sample, f"out={out}", "force=true"]) != 0
        assert "synthetic CDM that synthdp wrote; choose another name" in capsys.readouterr().err, out
        assert kept == {path: path.read_bytes() for path in kept}
    for out in ("postgresql://nobody@nowhere/cdm", "duckdb:///made.duckdb"):  # the first names no schema
        assert run([*sample, f"out={out}"]) != 0
        assert "a CDM is written to a folder" in capsys.readouterr().err
    assert "genders" not in output_of(*sample, "out=a%62.duckdb").out
    assert "genders    not compared" in output_of(*sample[:-1], "out=plain").out
    names = (*cdm.RECORDS, "cdm_source")
    assert len(Cdm("a%62.duckdb").fields()) == len(names)
    assert b"synthetic" in pq.read_schema("packed/death.parquet").metadata
    frames = {name: pd.read_csv(f"synthetic/{name}.csv") for name in names}
    with duckdb.connect("made.duckdb", read_only=True) as database:
        for name, frame in frames.items():
            kept = pd.read_parquet(f"packed/{name}.parquet")
            assert list(frame.columns) == list(kept.columns) == [field.name for field in cdm.tables()[name]]
            assert len(frame) == len(kept) == database.table(name).shape[0]
        types = dict(
            database.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'person'"
            ).fetchall()
        )
        comments = database.execute("SELECT comment FROM duckdb_tables()").fetchall()
    assert (types["person_id"], types["birth_datetime"], types["person_source_value"]) == (
        "INTEGER",
        "TIMESTAMP",
        "VARCHAR",
    )
    assert all("synthetic: made by synthdp, epsilon" in comment for (comment,) in comments)
    about = frames["cdm_source"].iloc[0]
    assert about["source_description"].startswith("synthetic: made by synthdp, epsilon 29.9")
    assert "per person_id" in about["source_description"]
    assert about["vocabulary_version"] == "made up"
    assert set(frames["person"]["person_source_value"]) == {"synthetic"}
    assert frames["person"]["person_id"].tolist() == list(range(1, 201))
    visit, period = frames["visit_occurrence"], frames["observation_period"].set_index("person_id")
    assert (visit["visit_start_date"] >= visit["person_id"].map(period["observation_period_start_date"])).all()
    assert (visit["visit_end_date"] <= visit["person_id"].map(period["observation_period_end_date"])).all()
    below = frames["measurement"].merge(visit, on="visit_occurrence_id")
    assert (below["measurement_date"] == below["visit_start_date"]).all()
    assert (below["person_id_x"] == below["person_id_y"]).all()
    read = cdm_tables.read("synthetic", Schema.load("schema.yaml"))
    assert len(read["person"]) == 200
    Schema.load("schema.yaml").validate_tables(read)


ODD = """\
concept_id,concept_name,domain_id,standard_concept,invalid_reason
1,top,Condition,S,
2,one,Condition,S,
3,other,Condition,S,
4,small,Condition,S,
5,of two,Condition,S,
6,of one,Condition,S,
7,of other,Condition,S,
8,old,Condition,,
9,of old,Condition,S,
10,a drug,Drug,S,
2000000001,own,Condition,S,
"""


def test_concepts_roll_up_to_standard_ones_of_their_domain_with_one_parent_each(tmp_path):
    """Of two that lie above one, the one with fewer below; none of the same rank, none that is not standard, and none of a hospital."""
    above = {1: range(2, 8), 2: (4, 5, 6), 3: (4, 5, 7), 4: (5,), 8: (9,), 10: (4,), 2000000001: (9,)}
    pairs = [(each, each) for each in range(1, 11)] + [(one, each) for one, below in above.items() for each in below]
    names = ["ancestor_concept_id", "descendant_concept_id"]
    pd.DataFrame(pairs, columns=names).to_csv(tmp_path / "concept_ancestor.csv", index=False)
    (tmp_path / "concept.csv").write_text(ODD, encoding="utf-8")
    assert cdm_draft.version_of(str(tmp_path)) is None, "it has no table vocabulary"
    lists = cdm_draft.concept_lists(str(tmp_path), tmp_path / "lists")
    assert lists["condition_concept_id"] == cdm_draft.Listed("lists/condition_concept_id.csv", rolls_up=True, number=8)
    assert lists["drug_concept_id"] == cdm_draft.Listed("lists/drug_concept_id.csv", rolls_up=False, number=1)
    found = pd.read_csv(tmp_path / "lists" / "condition_concept_id.csv").set_index("concept_id")["parent"]
    assert found.dropna().astype(int).to_dict() == {2: 1, 3: 1, 4: 2, 5: 4, 6: 2, 7: 3}
    assert found.index.tolist() == [1, 2, 3, 4, 5, 6, 7, 9]
    (tmp_path / "concept_ancestor.csv").unlink()
    flat = cdm_draft.concept_lists(str(tmp_path), tmp_path / "flat")
    assert not any(each.rolls_up for each in flat.values())
    listed = pd.read_csv(tmp_path / "flat" / "condition_concept_id.csv")
    assert listed["parent"].isna().all()
    assert listed["concept_id"].tolist() == [0, *found.index], "no matching concept, which is never below another one"
    assert "tree:" not in cdm_draft.draft(None, flat)
    assert cdm_draft.draft(None, lists).count("other: 0  # what noise hides") == 1


def test_no_man_is_pregnant_by_a_rule_of_the_draft(place):
    women, men = (
        f"{{file: schema.concepts/condition_concept_id.csv, column: only_{each}}}" for each in ("women", "men")
    )
    text = Path("schema.yaml").read_text(encoding="utf-8")
    field = "condition_occurrence.condition_concept_id"
    assert f"  - {{if: {{{field}: {women}}}, then: {{person.gender_concept_id: 8532}}}}\n" in text
    assert f"  - {{if: {{{field}: {men}}}, then: {{person.gender_concept_id: 8507}}}}\n" in text
    kept = {rule.text for rule in Schema.load("schema.yaml").rules_apart()[0]}
    assert len([each for each in kept if "then person.gender_concept_id" in each]) == 3


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_synthetic_man_is_pregnant(place):
    schema = Schema.load("schema.yaml")
    frames = cdm_tables.read("cdm", schema)
    settings = HistoriesSettings(rounds=1, iterations=5)
    made = Synthesizer(settings, schema=schema, budget=Budget(6, 1e-5)).fit(frames, seed=1).sample_tables(1000, seed=2)
    rows = made["condition_occurrence"].merge(made["person"][["person_id", "gender_concept_id"]], on="person_id")
    pregnant = rows["condition_concept_id"].astype(int).isin([omop_hospital.made_up_omop.PREGNANCY, 444094])
    prostate = rows["condition_concept_id"].astype(int).isin([omop_hospital.made_up_omop.PROSTATE, 4090861])
    assert {*rows["gender_concept_id"][pregnant].astype(int)} == {8532}
    assert {*rows["gender_concept_id"][prostate].astype(int)} == {8507}


def test_a_concept_that_is_deleted_from_a_list_leaves_the_rule(place, hospital):
    Path("schema.concepts").unlink()
    shutil.copytree(hospital / "schema.concepts", "schema.concepts")
    path = Path("schema.concepts/condition_concept_id.csv")
    listed = pd.read_csv(path, dtype="str")
    listed[listed["only_men"] != "4090861"].to_csv(path, index=False)
    (rule,) = (each for each in Schema.load("schema.yaml").tables[2].rules if "8507" in each.text)
    assert rule.given[0].constants == (str(omop_hospital.made_up_omop.PROSTATE),)


def test_rolled_up_concepts_say_what_becomes_of_the_rest_and_do_not_lie_in_the_cdm(place, capsys):
    made = Path("schema.yaml").read_text(encoding="utf-8")
    tree = "tree: {file: schema.concepts/drug_concept_id.csv, column: concept_id, parent: parent}"
    assert tree in made
    Path("own.yaml").write_text(made.replace(tree, tree.replace("schema.concepts/", "cdm/")), encoding="utf-8")
    (place / "cdm" / "drug_concept_id.csv").write_bytes(Path("schema.concepts/drug_concept_id.csv").read_bytes())
    words = ["plan", *DATA[:2], "data.schema=own.yaml", *SOON[:1], "budget.epsilon=3", "account=none"]
    assert run(words) != 0
    assert "drug_exposure.drug_concept_id' takes its categories from the records" in capsys.readouterr().err
    (place / "cdm" / "drug_concept_id.csv").unlink()
    silent = "".join(f"{line}\n" for line in made.splitlines() if "other: 0  #" not in line)
    Path("own.yaml").write_text(silent, encoding="utf-8")
    assert run(words) != 0
    assert "becomes the text 'other', which is not a concept: say other: 0" in capsys.readouterr().err


def test_a_concept_that_a_list_without_a_tree_lacks_becomes_no_matching_concept(place):
    schema = Schema.load("schema.yaml")
    frames = {name: frame.astype(object) for name, frame in cdm_tables.read("cdm", schema).items()}
    frames["measurement"].loc[:2, "measurement_concept_id"] = ["0", "2000000123", "77"]
    column = column_of(schema, "measurement.measurement_concept_id")
    assert (column.tree, column.other) == (None, "0")
    told = [
        each for each in review_tables(schema, frames, frames) if each.column == "measurement.measurement_concept_id"
    ]
    assert [(each.count, "count as '0'" in each.what) for each in told] == [(2, True)]


def test_the_draft_asks_how_old_anybody_may_be_and_says_how_unknown_kinds_of_visits_are_declared():
    """Noise makes up people of 110 where nobody is so old, and nearly every CDM has visits with the concept 0."""
    drafted = cdm_draft.draft(None)
    assert "# question: how old may anybody be?" in drafted.split("birth_datetime:")[1].split("bins:")[0]
    listed = "categories: [" + ", ".join(map(str, cdm.VISITS))
    assert listed in drafted
    kinds = drafted.split("      visit_concept_id:")[1].split("review: true")[0]
    answered = kinds.replace("42898160]", "42898160, 0]").replace("        # other: 0", "        other: 0")
    declared = yaml.safe_load(f"visit_concept_id:{answered}")["visit_concept_id"]
    assert (declared["categories"][-1], declared["other"]) == (0, 0)


def test_the_draft_proposes_a_rule_that_keeps_an_outpatient_visit_within_its_day(place):
    text = Path("schema.yaml").read_text(encoding="utf-8")
    proposed = (
        "  # - {if: {visit_occurrence.visit_concept_id: [9202, 581477]}, then: {visit_occurrence.visit_days: '< 1'}}\n"
    )
    assert proposed in text
    assert not [rule for rule in Schema.load("schema.yaml").rules if "visit_days" in rule.text]
    Path("own.yaml").write_text(text.replace(proposed, proposed.replace("# - ", "- ")), encoding="utf-8")
    kept, _ = Schema.load("own.yaml").rules_apart()
    assert [rule.text for rule in kept if "visit_days" in rule.text], (
        "by construction: 1 is an edge of the draft's bins"
    )


def test_without_a_vocabulary_source_codes_roll_up_as_the_page_says(place):
    page = (Path(__file__).parents[2] / "docs" / "omop.md").read_text(encoding="utf-8")
    block = page.split("### Without a vocabulary")[1].split("```")[1].removeprefix("text\n")
    first, rest = Path("schema.yaml").read_text(encoding="utf-8").split("  condition_occurrence:\n", 1)
    rest = rest[rest.index("  procedure_occurrence:") :]
    Path("codes.yaml").write_text(first + block + rest, encoding="utf-8")
    Path("icd10.csv").write_text("code\nE10.1\nE11.9\nI50.1\n", encoding="utf-8")
    shutil.copytree("cdm", "codes")
    rows = pd.read_csv("codes/condition_occurrence.csv")
    codes = np.array(["E10.1", "E11.9", "I50.1", "Z99"])[rows["condition_occurrence_id"] % 4]
    rows.assign(condition_source_value=codes).to_csv("codes/condition_occurrence.csv", index=False)
    schema = Schema.load("codes.yaml")
    cdm.check(schema)
    frames = schema.validate_tables(cdm_tables.read("codes", schema), "clamp")
    column = column_of(schema, "condition_occurrence.condition_source_value")
    assert column.tree.chain("E10.1") == ("E10.1", "E10", "E")
    told = cdm_files.Told(name="x", guarantee="none", day=date(2026, 1, 1))
    frames["condition_occurrence"] = frames["condition_occurrence"].assign(condition_concept_id="0")
    cdm_files.write([frames], schema, "written", told)
    written = pd.read_csv("written/condition_occurrence.csv")
    assert written["condition_source_value"].tolist() == codes.tolist()
    assert set(written["condition_concept_id"]) == {0}


def test_lists_that_were_edited_are_not_written_anew_unasked(place, capsys, output_of):
    words = ["schema", *DATA[:2], "data.vocabulary=vocabulary", "out=draft.yaml"]
    output_of(*words)
    Path("draft.yaml").unlink()
    Path("draft.concepts/drug_concept_id.csv").write_text("concept_id,concept_name,parent\n1,a,\n", encoding="utf-8")
    assert run(words) != 0
    assert "draft.concepts exists and is not empty" in capsys.readouterr().err
    assert not Path("draft.yaml").exists()
    output_of(*words, "force=true")
    assert len(pd.read_csv("draft.concepts/drug_concept_id.csv")) == 4


@pytest.mark.heavy
def test_dates_below_visits_are_learned_where_the_schema_lists_them(place):
    """As days after the visit's start; an end is not before its start, nobody is treated after death, and periods hold all of it."""
    tables, rng = omop_hospital.tables(300), np.random.default_rng(1)
    drug = tables["drug_exposure"]
    start = pd.to_datetime(drug["drug_exposure_start_date"]) + pd.to_timedelta(rng.choice([0, 2], len(drug)), "D")
    died = pd.to_datetime(drug["person_id"].map(tables["death"].set_index("person_id")["death_date"]))
    start = start.where(~(start > died), died)
    end = start + pd.to_timedelta(rng.choice([0, 30], len(drug)), "D")
    tables["drug_exposure"] = drug.assign(
        drug_exposure_start_date=start, drug_exposure_end_date=end.where(~(end > died), died)
    )
    omop_hospital.made_up_omop.write(tables, place / "moved")
    drafted = Path("schema.yaml").read_text(encoding="utf-8")
    for each in ("start", "end"):
        asked = f"drug_exposure_{each}_date: {{kind: ignore}}  # question: to be learned? "
        assert asked in drafted
        drafted = drafted.replace(asked, f"drug_exposure_{each}_date: ")
    years = "resolution: day, bounds: [2021-01-01, 2024-12-31]"
    drafted = drafted.replace(years, years.replace("2024-12-31", "2025-03-01"))
    rules = ("drug_exposure.drug_exposure_start_date >=", "drug_exposure.drug_exposure_end_date >=")
    assert all(f"  # - {rule}" in drafted for rule in rules)
    for rule in rules:
        drafted = drafted.replace(f"  # - {rule}", f"  - {rule}")
    Path("own.yaml").write_text(drafted, encoding="utf-8")
    schema = cdm.noted(Schema.load("own.yaml"))
    frames = schema.validate_tables(cdm_tables.read("moved", schema), "clamp")
    made = HistoriesSettings(rounds=1, iterations=10)
    release = Synthesizer(made, schema=schema, budget=Budget(math.inf, 1e-5)).fit(frames, seed=1, invalid="clamp")
    told = cdm_files.Told(name="x", guarantee="none", day=date(2026, 1, 1))
    rows = cdm_files.write(release.stream_tables(300, seed=1), schema, "made", told)
    assert rows["drug_exposure"] > 50
    whole = {name: pd.read_csv(f"made/{name}.csv") for name in ("drug_exposure", "visit_occurrence", "person", "death")}
    drug = whole["drug_exposure"].merge(whole["visit_occurrence"], on=["visit_occurrence_id", "person_id"])
    drug = drug.merge(whole["death"], on="person_id", how="left")
    days = {name: pd.to_datetime(drug[name]) for name in drug if name.endswith("_date")}
    first, last = days["drug_exposure_start_date"], days["drug_exposure_end_date"]
    late = (first - days["visit_start_date"]).dt.days
    assert late.min() >= 0
    assert 0.3 < (late == 2).mean() < 0.7
    assert 0.3 < (last - first).dt.days.between(15, 45).mean() < 0.7
    assert (last >= first).all()
    assert not (last > days["death_date"]).any()
    assert (drug["drug_exposure_end_datetime"].str[:10] == drug["drug_exposure_end_date"]).all()
    period = pd.read_csv("made/observation_period.csv").set_index("person_id")
    ends = pd.to_datetime(drug["person_id"].map(period["observation_period_end_date"]))
    assert (last <= ends).all()
    assert (last > days["visit_end_date"]).any(), "there is something to hold"
    assert not [each for each in checked("made") if each.status == "failed"]
    condition = pd.read_csv("made/condition_occurrence.csv").merge(whole["visit_occurrence"], on="visit_occurrence_id")
    assert (condition["condition_start_date"] == condition["visit_start_date"]).all(), "not listed"
    assert condition["condition_end_date"].isna().all()


def test_dates_below_visits_keep_their_order_whatever_was_drawn():
    """Near the visit, within life, ends after starts; what was not drawn is the first day, or empty where the model allows it."""
    rng = np.random.default_rng(1)
    day, number = np.datetime64("2022-01-01"), 500
    start = day + rng.integers(0, 300, number)
    end, born = start + rng.integers(0, 9, number), start - rng.integers(0, 40, number)
    died = np.where(rng.random(number) < 0.5, start + rng.integers(0, 40, number), np.datetime64("NaT"))
    drawn = [
        np.where(rng.random(number) < 0.1, np.datetime64("NaT"), start + rng.integers(-60, 60, number)) for _ in "ab"
    ]
    rows = pd.DataFrame(dict(zip(("drug_exposure_start_date", "drug_exposure_end_date"), drawn, strict=True)))
    found = cdm_files._dates("drug_exposure", rows, start, end, born, died)
    first, last = found["drug_exposure_start_date"], found["drug_exposure_end_date"]
    assert list(found) == ["drug_exposure_start_date", "drug_exposure_end_date"]
    assert (first >= np.minimum(start, np.maximum(born, start - 7))).all()
    assert (first <= end + 7).all()
    assert (last >= first).all()
    assert not (last > died).any()
    inside = ~(drawn[0] < np.maximum(born, start - 7)) & ~(drawn[0] > np.fmin(died, end + 7)) & ~np.isnat(drawn[0])
    assert (first[inside] == drawn[0][inside]).all()
    assert (first[np.isnat(drawn[0])] == start[np.isnat(drawn[0])]).all()
    none = cdm_files._dates("condition_occurrence", pd.DataFrame(index=rows.index), start, end, born, died)
    assert list(none) == ["condition_start_date"]
    assert (none["condition_start_date"] == start).all()


def test_a_date_below_visits_is_no_time_and_none_of_a_month(place):
    made = Path("schema.yaml").read_text(encoding="utf-8")
    for asked, said in (
        (
            "condition_start_datetime: {kind: datetime, bounds: [2021-01-01, 2025-01-01]}",
            "'condition_start_date': list that",
        ),
        (
            "condition_start_date: {kind: datetime, bounds: [2021-01-01, 2025-01-01], resolution: second}",
            "must be a datetime with resolution: day",
        ),
    ):
        text = re.sub(r"condition_start_date: \{kind: ignore\}.*", asked, made)
        Path("own.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match=said):
            cdm.check(Schema.load("own.yaml"))


def test_split_makes_two_cdms_of_different_people(place, output_of):
    output_of("split", "data.format=omop", "data.path=cdm", "data.schema=schema.yaml", "out=parts", "share=0.3")
    people = []
    for part in ("train", "held_out"):
        tables = {name: pd.read_csv(f"parts/{part}/{name}.csv") for name in cdm.RECORDS}
        people.append(set(tables["person"]["person_id"]))
        assert all(set(table["person_id"]) <= people[-1] for table in tables.values())
    whole = {name: pd.read_csv(f"cdm/{name}.csv") for name in cdm.RECORDS}
    assert not people[0] & people[1]
    assert people[0] | people[1] == set(whole["person"]["person_id"])
    rows = sum(len(pd.read_csv(f"parts/{part}/measurement.csv")) for part in ("train", "held_out"))
    assert rows == len(whole["measurement"])


@pytest.mark.heavy
def test_wherever_a_cdm_lies_the_same_is_read(place):
    """Letters in capitals, Parquet whose missing keys made floats of all, a DuckDB file and its schema."""
    schema = Schema.load("schema.yaml")
    expected = cdm_tables.read("cdm", schema)
    (place / "LOUD").mkdir()
    (place / "packed").mkdir()
    with duckdb.connect("hospital.duckdb") as database:
        database.execute("CREATE SCHEMA Cdm")
        for name, frame in omop_hospital.tables().items():
            loud = frame.rename(columns=str.upper).to_csv(index=False)
            (place / "LOUD" / f"{name.upper()}.CSV").write_text(loud, encoding="utf-8")
            floats = {column: "float64" for column in ("visit_occurrence_id",) if column in frame}
            frame.astype(floats).to_parquet(f"packed/{name}.parquet")
            database.from_df(frame).create(f"Cdm.{name.upper()}")
    for where in ("LOUD", "packed", "hospital.duckdb#Cdm", "hospital.duckdb#cdm", "duckdb:///hospital.duckdb#Cdm"):
        found = cdm_tables.read(where, schema)
        for name, frame in expected.items():
            pd.testing.assert_frame_equal(found[name], frame, check_dtype=False)
    assert not [each for each in checked("hospital.duckdb#Cdm") if each.status == "failed"]


def test_dates_of_birth_and_death_are_made_as_the_dashboard_makes_them(tmp_path):
    person = {"person_id": [1, 2, 3], "gender_concept_id": 8507, "year_of_birth": [1950, 1960, 1970]}
    person |= {
        "month_of_birth": [None, 7, 8],
        "day_of_birth": None,
        "birth_datetime": [None, None, "1971-02-03 08:00:00"],
    }
    pd.DataFrame(person).to_csv(tmp_path / "person.csv", index=False)
    visit = {"visit_occurrence_id": [1], "person_id": 1, "visit_concept_id": 9201, "visit_start_date": "2020-02-28"}
    pd.DataFrame({**visit, "visit_end_date": "2020-03-01"}).to_csv(tmp_path / "visit_occurrence.csv", index=False)
    pd.DataFrame({"person_id": [2, 2], "death_date": ["2020-05-01", "2020-04-01"]}).to_csv(
        tmp_path / "death.csv", index=False
    )
    drafted = omop_hospital.answered(cdm_draft.draft(str(tmp_path)))
    year = "      year_of_birth: {kind: integer, bounds: [1900, 2020]}\n      gender_concept_id:"
    drafted = drafted.replace("      gender_concept_id:", year, 1)
    (tmp_path / "schema.yaml").write_text(drafted, encoding="utf-8")
    found = cdm_tables.read(str(tmp_path), Schema.load(tmp_path / "schema.yaml"))
    assert found["person"]["birth_datetime"].tolist() == ["1950-01-01", "1960-07-01", "1971-02-03"]
    assert found["person"]["death_date"].isna().tolist() == [True, False, True]
    assert found["person"]["death_date"][1] == "2020-04-01"
    assert found["visit_occurrence"]["visit_days"].tolist() == [2]
    assert found["person"]["year_of_birth"].tolist() == [1950, 1960, 1970], "numbers, and no text"


@pytest.mark.heavy
def test_concepts_are_public_and_a_hospital_s_own_are_declared(place, capsys):
    assert run(["schema", *DATA[:2], "data.vocabulary=cdm", "out=x.yaml"]) != 0
    assert "lies in the CDM itself" in capsys.readouterr().err
    cdm = [
        Path("cdm").resolve(),
        "./cdm/.",
        "cdm.duckdb",
        "./cdm.duckdb#main",
        f"duckdb:///{Path('cdm.duckdb').resolve()}",
    ]
    with duckdb.connect("cdm.duckdb") as connection:
        connection.execute("CREATE TABLE person AS SELECT 1 AS person_id")
    with duckdb.connect("views.duckdb") as connection:
        connection.execute("CREATE VIEW concept AS SELECT * FROM read_csv('cdm/drug_exposure.csv')")
    assert run([*FIT, "account=none", "out=run", "data.vocabulary=views.duckdb"]) != 0
    assert "concept is a view, which may show what lies in the CDM" in capsys.readouterr().err
    Path("linked").mkdir()
    Path("linked/concept.csv").hardlink_to("cdm/drug_exposure.csv")
    for its in (*cdm, "linked"):
        for words in ([*FIT, "account=none", "out=run"], ["schema", *DATA[:2], "out=x.yaml"]):
            assert run([*words, f"data.vocabulary={its}"]) != 0
            assert "lies in the CDM itself" in capsys.readouterr().err, its
    assert "1900000041" not in Path("schema.concepts/condition_concept_id.csv").read_text(), "it is not standard"
    made = Path("schema.yaml").read_text(encoding="utf-8")
    flat = (line for line in made.splitlines() if not line.lstrip().startswith(("tree:", "other: 0 ")))
    made = "".join(f"{line}\n" for line in flat)
    own = made.replace("categories: {file: schema.concepts/drug", "categories: {file: cdm/drug")
    Path("own.yaml").write_text(own.replace("column: concept_id", "column: drug_concept_id"), encoding="utf-8")
    words = [word.replace("=schema.yaml", "=own.yaml") for word in FIT]
    Path("own.yaml").write_text(
        made.replace(
            "schema.concepts/drug_concept_id.csv, column: concept_id", "cdm/drug_exposure.csv, column: drug_concept_id"
        ),
        encoding="utf-8",
    )
    assert run([*words, "account=none", "out=run"]) != 0
    assert "takes its categories from the records" in capsys.readouterr().err
    listed = "{file: schema.concepts/drug_concept_id.csv, column: concept_id}"
    for codes, said in (
        ("[1900000022, 123]", "1 declared concepts are not in vocabulary, such as 123"),
        ("[1900000022, 2000000123]", None),
    ):
        Path("own.yaml").write_text(made.replace(listed, codes), encoding="utf-8")
        status = run(
            [
                "plan",
                *DATA[:2],
                "data.schema=own.yaml",
                *SOON[:1],
                "data.vocabulary=vocabulary",
                "budget.epsilon=3",
                "account=none",
            ]
        )
        assert (status == 0) == (said is None)
        assert (said or "") in capsys.readouterr().err
    frames = {name: frame.astype(object) for name, frame in cdm_tables.read("cdm", Schema.load("schema.yaml")).items()}
    frames["drug_exposure"].loc[:2, "drug_concept_id"] = "2000000123"
    told = [
        each for each in cdm_tables.findings("cdm", Schema.load("schema.yaml"), frames) if "hospital's own" in each.what
    ]
    assert [(each.column, each.count) for each in told] == [("drug_exposure.drug_concept_id", 3)]


REFUSED = {
    "a table": ((*FIT, "data.table=person", "account=none", "out=run"), "leave them out"),
    "a vocabulary without a cdm": (
        ("check", "data.path=cdm", "data.vocabulary=vocabulary", "data.schema=schema.yaml"),
        "belongs to data.format=omop",
    ),
    "no cdm": (
        ("check", "data.format=omop", "data.path=schema.yaml"),
        "schema.yaml is neither a folder nor a DuckDB file. Name a folder",
    ),
    "nothing": (("check", "data.format=omop", "data.path=nowhere#cdm"), "nowhere#cdm does not exist. Name a folder"),
    "another schema": (("plan", *DATA[:2], "data.schema=other.yaml", "account=none"), "no field of OMOP CDM 5.4"),
    "a file": (("sample", "release=run/release", "rows=2", "format=omop", "out=x.csv"), "run/release: no such folder"),
    "a list without a file": (("schema", "format=omop", "vocabulary=vocabulary"), "needs out=FILE"),
    "a sheet": (("schema", "format=omop", "sheet=x"), "leave it out"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_offered_is_refused_by_name(place, capsys, words, said):
    made = Path("schema.yaml").read_text(encoding="utf-8")
    Path("other.yaml").write_text(
        made.replace("visit_concept_id:", "ward: {kind: boolean}\n      visit_concept_id:", 1), encoding="utf-8"
    )
    assert run(list(words)) != 0
    assert said in capsys.readouterr().err


def test_a_schema_of_a_cdm_without_what_it_requires_is_refused():
    made = {
        "unit": "person_id",
        "units": 10,
        "tables": {
            "person": {
                "key": "person_id",
                "columns": {"gender_concept_id": {"kind": "categorical", "categories": [8507, 8532]}},
            },
            "visit_occurrence": {
                "parent": "person",
                "key": "visit_occurrence_id",
                "order": "visit_start_date",
                "max_rows": 2,
                "columns": {"visit_start_date": {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"]}},
            },
        },
    }
    with pytest.raises(BadInput, match="needs the column 'birth_datetime'"):
        cdm.check(Schema.from_dict(made))
    made["tables"]["person"]["reading"] = {"separator": ";"}
    with pytest.raises(BadInput, match="table 'person': a CDM is read and written as OMOP prescribes"):
        cdm.check(Schema.from_dict(made))


def test_the_kept_form_is_whole():
    tables = cdm.tables()
    assert {*cdm.RECORDS, "cdm_source", "concept", "concept_ancestor"} <= set(tables)
    for name, fields in tables.items():
        names = [field.name for field in fields]
        assert len(set(names)) == len(names)
        for field in fields:
            assert field.type.partition("(")[0] in ("integer", "float", "date", "datetime", "varchar"), field
            assert not field.until or field.until in names, field
            assert not (field.domain or field.concept_class or field.standard) or field.refers == "concept", field
        assert name in ("death", "cdm_source", "concept_ancestor") or sum(field.key for field in fields) == 1
    required = [field.name for field in tables["visit_occurrence"] if field.required]
    assert required == [
        "visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_end_date", "visit_type_concept_id",
    ]  # fmt: skip


KINDS = {"integer": "bigint", "float": "numeric", "date": "date", "datetime": "timestamp"}


def to_postgres(connection, tables, schema, kinds=KINDS):
    """Tables of text as those of a schema, with the model's types or as text."""
    connection.execute(f"CREATE SCHEMA {schema}")
    for name, table in tables.items():
        fields = {f.name: kinds.get(f.type, "varchar") for f in cdm.tables()[name] if f.name in table.column_names}
        connection.execute(f"CREATE TABLE {schema}.{name} ({', '.join(f'{f} {kind}' for f, kind in fields.items())})")
        with connection.cursor().copy(f"COPY {schema}.{name} FROM STDIN") as copy:
            for row in table.select(list(fields)).to_pylist():
                copy.write_row(list(row.values()))


@pytest.mark.heavy
def test_the_whole_path_on_postgresql(place, capsys, output_of, monkeypatch):
    """From the draft to a synthetic CDM that is checked where it was written, and judged."""
    import psycopg

    with databases.postgres() as server:
        place = {"host": str(server), "user": databases.USER, "dbname": "postgres"}
        tables = Cdm("cdm").texts(dict.fromkeys(cdm.tables()))
        with psycopg.connect(**place, autocommit=True) as connection:
            to_postgres(connection, tables, "hospital")
        address = f"postgresql://{databases.USER}@/postgres?host={server}"
        expected = cdm_tables.read("cdm", Schema.load("schema.yaml"))
        monkeypatch.setattr(cdm_store, "PART", 1_000)
        found = cdm_tables.read(f"{address}#hospital", Schema.load("schema.yaml"))
        for name, frame in expected.items():
            pd.testing.assert_frame_equal(found[name].astype(object), frame.astype(object), check_dtype=False)
        data = ("data.format=omop", f"data.path={address}#hospital")
        assert (
            " 0 failed, 0 not run"
            in output_of("check", *data, "data.schema=schema.yaml", "data.vocabulary=vocabulary").out
        )
        output_of("schema", *data, "out=drafted.yaml")
        output_of("split", *data, "data.schema=schema.yaml", "out=parts")
        people = [len(pd.read_parquet(f"parts/{part}/person.parquet")) for part in ("train", "held_out")]
        assert sum(people) == 300
        fit = ["fit", *data, "data.schema=schema.yaml", *SOON, "budget.epsilon=3", "out=run"]
        assert run(fit) != 0
        assert "a database has no folder for the account" in capsys.readouterr().err
        output_of(*fit, "account=hospital.account")
        sample = ["sample", "release=run/release", "rows=250", "format=omop", "vocabulary=vocabulary"]
        assert run([*sample, f"out={address}#hospital"]) != 0
        assert "holds tables" in capsys.readouterr().err
        assert run([*sample, f"out={address}#hospital", "force=true"]) != 0
        assert "no unchanged synthetic CDM" in capsys.readouterr().err
        output_of(*sample, "seed=1", f"out={address}#synthetic")
        output_of(*sample, "seed=2", f"out={address}#synthetic", "force=true")
        output_of(*sample, "seed=2", "out=synthetic")
        here, there = (Cdm(each).texts(dict.fromkeys(cdm.RECORDS)) for each in ("synthetic", f"{address}#synthetic"))
        for name, table in here.items():
            for field in table.column_names:
                cells = [
                    [cell and cell[:19] for cell in each[name].column(field).to_pylist()] for each in (here, there)
                ]
                assert cells[0] == cells[1], field
        found = checked(f"{address}#synthetic", "vocabulary")
        assert found == checked("synthetic", "vocabulary")
        wrong = {each.name for each in found if each.status in ("failed", "not run")}
        assert wrong <= {"standardConceptRecordCompleteness"}, (
            "of 300 people noise may hide more than one row in twenty"
        )
        run(["check", "data.format=omop", f"data.path={address}#synthetic", "data.vocabulary=vocabulary"])
        assert f"{len(found):,} checks by the rules" in capsys.readouterr().out
        output_of(
            "evaluate",
            "data.format=omop",
            "data.train=parts/train",
            "data.test=parts/held_out",
            "data.schema=schema.yaml",
            f"synthetic={address}#synthetic",
            "release=run/release",
            "evaluate.seeds=1",
            "out=evaluation",
        )
        output_of("report", "release=run/release", "out=report")
        with psycopg.connect(**place, autocommit=True) as connection:
            connection.execute("UPDATE synthetic.person SET person_source_value = 'A. Person' WHERE person_id = 1")
        assert run([*sample, f"out={address}#synthetic", "force=true"]) != 0
        assert "no unchanged synthetic CDM" in capsys.readouterr().err


@pytest.mark.heavy
def test_the_page_s_commands_on_postgresql_run_as_they_stand_there(place, capsys, output_of):
    """By somebody who may only read the hospital, and by somebody who may only create schemas elsewhere."""
    import psycopg

    page = (Path(__file__).parents[2] / "docs" / "omop.md").read_text(encoding="utf-8")
    commands = page.split("## From PostgreSQL to PostgreSQL")[1].split("```")[1].splitlines()[1:]
    assert {line.split()[1] for line in commands} == {
        "schema", "check", "plan", "split", "fit", "sample", "evaluate", "report",
    }  # fmt: skip
    for name in ("schema.yaml", "schema.concepts"):
        Path(name).unlink()
    with databases.postgres() as server:
        own = {"host": str(server), "user": databases.USER, "autocommit": True}
        with psycopg.connect(**own, dbname="postgres") as connection:
            for query in ("DATABASE hospital", "DATABASE sharing", "ROLE reader LOGIN", "ROLE writer LOGIN"):
                connection.execute(f"CREATE {query}")
            connection.execute("GRANT CREATE ON DATABASE sharing TO writer")
        with psycopg.connect(**own, dbname="hospital") as connection:
            to_postgres(connection, Cdm("cdm").texts(dict.fromkeys(cdm.tables())), "cdm")
            connection.execute("GRANT USAGE ON SCHEMA cdm TO reader")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA cdm TO reader")
        for line in commands:
            _, command, *words = shlex.split(re.sub(r"@db/(\w+)", rf"@/\1?host={server}", line))
            words += {"fit": SOON[1:], "sample": SOON[3:], "evaluate": ["evaluate.seeds=1"]}.get(command, [])
            if command == "check" and "sharing" in line:  # few people: the page says what may fail
                status, told = run([command, *words]), capsys.readouterr().out
                lacking = re.findall(r"^failed +(\w+)", told, re.MULTILINE)
                assert set(lacking) <= {"standardConceptRecordCompleteness"}
                assert status == (2 if lacking else 0)
            else:
                told = output_of(command, *words).out
            if command == "check":
                assert " 0 not run" in told
            if command == "schema":
                drafted = Path("schema.yaml").read_text(encoding="utf-8")
                Path("schema.yaml").write_text(omop_hospital.answered(drafted), encoding="utf-8")
        unreadable = f"data.path=postgresql://reader@/sharing?host={server}#synthetic"
        assert run(["check", "data.format=omop", unreadable]) != 0
        assert "holds no table of a CDM that can be read" in capsys.readouterr().err


@pytest.mark.heavy
def test_postgresql_counts_rows_as_duckdb_does(place):
    """With the model's types and as text, of cells that break every rule."""
    import psycopg

    whole = Cdm("cdm").texts(dict.fromkeys(cdm.tables()))
    odd = {name: table.to_pandas() for name, table in whole.items()}
    rng = np.random.default_rng(0)
    texts = {
        "integer": ["x", "7.0", " 12 ", "1e3", "", "-3", "+4", "99999999999999999999", "9223372036854775807"],
        "float": ["", "-1e5", "x", ".5", "1e9", "12,5", "inf", "-Infinity", "nan"],
        "date": [
            "2021-02-29",
            "2020-02-29",
            "2021-13-01",
            "1800-01-01",
            "20210301",
            "2090-05-05",
            "",
            "2021-03-04 10:11",
        ],
        "datetime": ["2021-02-29 10:00", "2021-03-01T10:00:61", "2021-03-01T10:00:00.5", "1800-01-01", "x"],
    }
    for name, frame in odd.items():
        for field in cdm.tables()[name]:
            if field.name not in frame or len(frame) < 5:
                continue
            cells = texts.get(field.type, ["", "x" * 80, " y "])
            rows = rng.choice(len(frame), min(len(frame), 9), replace=False)
            frame.loc[rows, field.name] = rng.choice(np.array(cells, object), len(rows))
    Path("odd").mkdir()
    for name, frame in odd.items():
        frame.to_csv(f"odd/{name}.csv", index=False)
    with databases.postgres() as server:
        with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres", autocommit=True) as connection:
            to_postgres(connection, whole, "hospital")
            to_postgres(connection, {name: pa.table(frame) for name, frame in odd.items()}, "odd", kinds={})
            to_postgres(connection, {name: table for name, table in whole.items() if name != "death"}, "lacking")
        address = f"postgresql://{databases.USER}@/postgres?host={server}"
        assert checked(f"{address}#hospital", "vocabulary") == checked("cdm", "vocabulary")
        assert checked(f"{address}#hospital") == checked("cdm")
        here, there = checked("odd", "vocabulary"), checked(f"{address}#odd", "vocabulary")
        assert there == here
        assert {each.name for each in here if each.status == "failed"} >= {
            "cdmDatatype",
            "isForeignKey",
            "isPrimaryKey",
        }
        shutil.copytree("cdm", "lacking")  # other tests read the hospital's own folder
        Path("lacking/death.csv").unlink()
        assert checked(f"{address}#lacking") == checked("lacking")


def test_what_is_counted_does_not_depend_on_how_frames_hold_texts(place):
    declared = Schema.load("schema.yaml")
    frames = cdm_tables.read("cdm", declared)
    plain = {name: frame.astype(object).where(frame.notna(), None) for name, frame in frames.items()}
    assert {str(kind) for kind in frames["measurement"].dtypes} == {"str", "category"}
    resolved = declared
    for name, item in declared.learned:
        resolved = resolved.with_learned(name, **{item: column_of(declared, name).tree.codes})
    codec = Codec(resolved)
    one, other = (ordered(each, declared, bytes(32)).encoded_by(codec) for each in (frames, plain))
    assert (one.codes == other.codes).all()
    assert (one.keys == other.keys).all()
    for name, cells in other.histories.cells.items():
        assert (one.histories.cells[name] == cells).all(), name
    assert (one.histories.owner == other.histories.owner).all()


def test_a_cell_is_the_same_number_whoever_else_is_there():
    large = ["9007199254740993", "9007199254740995", "7"]
    for another in ("1", "1.5", None, "no number", "-1", "18446744073709551615", "1" + "0" * 30):
        alone = cdm_tables.numbers(pd.Series(large, dtype=object)).tolist()
        beside = cdm_tables.numbers(pd.Series([*large, another], dtype=object)).tolist()
        assert alone == beside[:3]


def test_a_key_is_the_same_text_whoever_else_is_there():
    keys = [1e15, 7.0, 9007199254740991.0, 9007199254740992.0, -1e16]  # the last two may be those of several people
    for another in (1.5, None, float("nan"), float("inf"), -1e300):
        alone = cdm_store._clean("person", pa.table({"person_id": pa.array(keys)}))
        beside = cdm_store._clean("person", pa.table({"person_id": pa.array([*keys, another], pa.float64())}))
        assert alone["person_id"].to_pylist() == beside["person_id"].to_pylist()[:5]
        assert alone["person_id"].to_pylist() == ["1000000000000000", "7", "9007199254740991", None, None]


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("engine", ["files", "duckdb", heavy("postgresql")])
def test_a_float_that_may_be_several_keys_is_none_wherever_it_is_stored(tmp_path, kind, engine):
    least = 2 ** (53 if kind == "float64" else 24)
    frame = pd.DataFrame(
        {"person_id": [least - 1, least, -4 * least, 7, 1.5, np.nan, np.inf], "source": 1e17}, dtype=kind
    )
    frame["subject_id"] = frame["person_id"]
    words, column = {"float64": "DOUBLE PRECISION", "float32": "REAL"}, list(frame)
    table = f"CREATE TABLE person ({', '.join(f'{name} {words[kind]}' for name in column)})"
    wanted = {"person": ("person_id", "subject_id")}
    with contextlib.ExitStack() as stack:
        where = str(tmp_path)
        if engine == "files":
            frame.to_parquet(tmp_path / "person.parquet")
        elif engine == "duckdb":
            where = str(tmp_path / "t.duckdb")
            with duckdb.connect(where) as database:
                database.execute(table)
                database.execute("INSERT INTO person FROM frame")
        else:
            import psycopg

            server = stack.enter_context(databases.postgres())
            where = f"postgresql://{databases.USER}@/postgres?host={server}"
            with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
                connection.execute(table)
                for row in frame.itertuples(index=False):
                    connection.execute("INSERT INTO person VALUES (%s, %s, %s)", [float(each) for each in row])
        found = Cdm(where).texts(wanted, ("subject_id",))["person"]
    for name in wanted["person"]:
        assert found[name].to_pylist() == [str(least - 1), None, None, "7", "1.5", None, None]


def test_cells_that_are_no_text_are_refused_by_their_field(tmp_path):
    for values in (pa.array([[1], [2]]), pa.array([b"a", b"\xff"])):
        pq.write_table(pa.table({"person_id": [1, 2], "race_source_value": values}), tmp_path / "person.parquet")
        with pytest.raises(BadInput, match=r"^person.race_source_value: is stored as (list|binary)"):
            Cdm(str(tmp_path)).texts({"person": None})


@pytest.mark.heavy
def test_a_file_has_one_account_which_knows_its_content_by_whatever_name(place, capsys, output_of):
    with duckdb.connect("cdm.duckdb") as database:
        for path in Path("cdm").glob("*.csv"):
            database.from_csv_auto(str(path), all_varchar=True).create(path.stem)
    for path in ("cdm.duckdb", "cdm.duckdb#main"):
        output_of(*FIT, f"data.path={path}", "budget.epsilon=5", f"out=run{len(path)}")
    assert "by 2 fits" in output_of("budget", "account=cdm.duckdb.account").out
    with duckdb.connect("cdm.duckdb") as database:
        database.execute("DELETE FROM drug_exposure")
    assert run([*FIT, "data.path=duckdb:///cdm.duckdb", "account=cdm.duckdb.account", "out=url"]) == 2
    assert "belongs to another table" in capsys.readouterr().err
