"""What comes before a fit: `check`, `plan`, `split`."""

import dataclasses
import gzip
import json
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from sweeps import heavy

from synthdp import Budget, Synthesizer
from synthdp.cli import looks, run
from synthdp.errors import BadInput
from synthdp.planning import ROWS, made_up, planned
from synthdp.schema.schema import Schema
from synthdp.schema.table_review import review

COLUMNS = {
    "patient": {"kind": "identifier"},
    "sex": {"kind": "categorical", "categories": ["f", "m"]},
    "age": {"kind": "integer", "bounds": [0, 99], "bins": [20, 40, 60, 80]},
    "code": {"kind": "categorical", "categories": [f"c{i}" for i in range(300)]},
    "ill": {"kind": "boolean"},
}
FACTS = {"unit": "patient", "max_records_per_unit": 2, "units": 60, "targets": ["ill"], "declared_by": "test"}


def records(rows=180, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": [f"p{i // 3}" for i in range(rows)],
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(0, 99, rows),
            "code": rng.choice([f"c{i}" for i in range(5)], rows),
            "ill": rng.choice(["yes", "no"], rows),
        }
    )


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump({**FACTS, "columns": COLUMNS}, sort_keys=False))
    records().to_csv(tmp_path / "a.csv", index=False)
    return tmp_path


DATA = ("data.path=a.csv", "data.schema=schema.yaml")


def findings(capsys, *words):
    status = run(["check", *DATA, "out=report.json", "force=true", *words])
    capsys.readouterr()
    with open("report.json") as file:
        told = json.load(file)["findings"]
    assert status == (2 if any(found.get("refused") for found in told) else 0)
    return {(found["column"], found["what"]): found for found in told}


def test_check_names_records_and_remedies_and_no_cell_unless_asked(place, capsys):
    frame = records().astype({"age": object})
    frame.loc[[4, 7], "sex"] = "unknown-sex"
    frame.loc[9, "age"] = 512
    frame["ill"] = frame["sex"].map({"f": "yes", "m": "no"}).fillna("no")
    frame.to_csv(place / "a.csv", index=False)
    found = findings(capsys)
    assert found["sex", "some values are not one of the declared categories"]["rows"] == [5, 8]
    assert found["age", "some values are outside the declared bounds [0, 99]"]["rows"] == [10]
    assert "look it up outside" in found["age", "some values are outside the declared bounds [0, 99]"]["remedy"]
    assert any(column == "sex" and what.startswith("gives away 'ill'") for column, what in found)
    (dropped,) = (each for (column, what), each in found.items() if "max_records_per_unit: 2" in what)
    assert dropped["count"] == 60
    text = json.dumps(json.loads((place / "report.json").read_text())["findings"])
    assert "unknown-sex" not in text
    assert "512" not in text
    assert (
        findings(capsys, "values=true")["sex", "some values are not one of the declared categories"]["cells"]
        == ["unknown-sex"] * 2
    )
    assert (place / "report.json").stat().st_mode & 0o077 == 0


def test_check_tells_which_records_lie_between_the_declared_steps(place, capsys):
    facts = {**FACTS, "columns": {**COLUMNS, "barthel": {"kind": "integer", "bounds": [0, 100], "step": 5}}}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    frame = records().assign(barthel=35)
    frame.loc[[4, 7], "barthel"] = [37, 99]
    frame.to_csv(place / "a.csv", index=False)
    found = findings(capsys)["barthel", "some values are not multiples of the declared step 5"]
    assert found["rows"] == [5, 8]
    assert "declare another step" in found["remedy"]


def test_check_says_which_way_the_units_are_off_and_never_how_many(place, output_of):
    facts = {**FACTS, "units": 500, "columns": COLUMNS}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    said = output_of("check", *DATA).out
    assert "clearly fewer units than `units:` declares" in said
    assert "60" not in said.replace("60 records", "")  # records beyond the cap may be counted


def test_check_tells_which_records_break_a_rule_that_a_fit_would_impose(place, capsys):
    columns = {**COLUMNS, "later": {"kind": "integer", "bounds": [0, 99], "bins": [20, 40, 60, 80]}}
    facts = {**FACTS, "columns": columns, "rules": ["age <= later", {"never": {"sex": "f", "ill": True}}]}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    frame = records().assign(later=98)
    frame.loc[[2, 5], ["age", "later"]] = [50, 49]
    frame["ill"] = "no"
    frame.to_csv(place / "a.csv", index=False)
    found = {what: each for (_, what), each in findings(capsys).items() if "rule" in what}
    ((what, each),) = found.items()
    assert "'age <= later', which synthetic records are made to keep" in what
    assert each["rows"] == [3, 6]
    assert each["count"] == 2
    assert "correct them, or take the rule out" in each["remedy"]
    assert "midnight" not in each["remedy"], "the rule compares numbers"


@pytest.mark.heavy
def test_check_shows_cells_as_the_file_has_them_and_says_where_zeros_would_be_lost(place, capsys):
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"] |= {
        "born": {"kind": "datetime", "bounds": ["1900-01-01", "2030-01-01"]},
        "zip": {"kind": "integer", "bounds": [0, 99_999]},
        "dose": {"kind": "continuous", "bounds": [0, 9]},
    }
    facts["reading"] = {"decimal": ",", "columns": {"born": {"date": "dd.mm.yyyy"}}}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    frame = records().assign(born="31.12.1970", zip="10115", dose="0,5")
    frame.loc[1, ["born", "dose"]] = ["12/31/1970", "0.5"]
    frame.to_csv("a.csv", index=False)
    assert not [what for _, what in findings(capsys) if "zeros" in what]
    frame.loc[2, "zip"] = "01067"
    frame.to_csv("a.csv", index=False)
    found = findings(capsys, "values=true")
    assert found["born", "some values are not dates written dd.mm.yyyy, as reading says"]["cells"] == ["12/31/1970"]
    mixed = found["born", "some values are not dates written dd.mm.yyyy, as reading says"]["remedy"]
    assert mixed.endswith("if the file mixes several, write all its dates alike")
    assert found["dose", "some values are not numbers written 1234,5, as reading says"]["cells"] == ["0.5"]
    assert (
        "categorical"
        in found["zip", "some values have leading zeros, which numbers in synthetic records lack"]["remedy"]
    )


def test_check_shows_a_blank_cell_as_one_and_what_takes_space_away(place, capsys):
    frame = records()
    frame.loc[[1, 2], "sex"] = [None, f" {frame['sex'][2]} "]
    frame.to_csv("a.csv", index=False)
    found = findings(capsys, "values=true")
    assert [each["cells"] for (_, what), each in found.items() if "missing" in what] == [[""]]
    unknown = found["sex", "some values are not one of the declared categories"]
    assert unknown["remedy"].endswith("some have space around them, which strip: true under reading removes")
    frame.assign(sex="?").to_csv("a.csv", index=False)
    unknown = findings(capsys)["sex", "some values are not one of the declared categories"]
    assert "strip" not in unknown["remedy"]


@pytest.mark.heavy
def test_check_says_where_a_time_of_day_is_left_out(place, capsys):
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    seen = {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"]}
    days = [f"2020-03-{day:02d}" for day in range(1, 29)]
    for resolution, at, told in (("day", "T07:30", True), ("day", "", False), ("minute", "T07:30", False)):
        facts["columns"]["seen"] = seen | {"resolution": resolution}
        (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
        frame = records()
        frame["seen"] = [days[row % 28] + (at if row % 2 else "") for row in range(len(frame))]
        frame.to_csv("a.csv", index=False)
        found = findings(capsys)
        what = ("seen", "some values have a time of day, which resolution: day drops")
        assert (what in found) == told, (resolution, at)
        if told:
            assert found[what]["count"] == len(frame) // 2
            assert found[what]["rows"][:3] == [2, 4, 6]
            assert "finer resolution" in found[what]["remedy"]


def test_check_says_where_each_record_is_protected_by_itself(place, output_of):
    assert "protected by itself" not in output_of("check", *DATA).err
    facts = {key: value for key, value in FACTS.items() if key not in ("unit", "max_records_per_unit")}
    (place / "schema.yaml").write_text(yaml.safe_dump({**facts, "columns": COLUMNS}, sort_keys=False))
    assert "each record is protected by itself" in output_of("check", *DATA).err


def test_check_finds_ids_that_repeat_and_a_column_that_is_lost(place, output_of):
    facts = {key: value for key, value in FACTS.items() if key not in ("unit", "max_records_per_unit", "units")}
    (place / "schema.yaml").write_text(yaml.safe_dump({**facts, "columns": COLUMNS}, sort_keys=False))
    assert "declare unit: patient and max_records_per_unit" in output_of("check", *DATA).out
    records().assign(age="12,5").to_csv(place / "a.csv", index=False)
    assert "no cell can be read as declared in 'age'" in output_of("check", *DATA, status=2).err


def test_check_finds_a_column_that_is_lost_although_some_of_its_cells_are_missing(place, output_of):
    """A code for missing values is as declared whatever else the column holds, and unknown categories count as `other`."""
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"] |= {
        "lab": {"kind": "continuous", "bounds": [0, 20], "missing": True},
        "ward": {"kind": "categorical", "categories": ["a", "b", "other"], "other": "other", "missing": True},
    }
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    frame = records().assign(lab="3,7", ward="A")
    frame.loc[::4, ["lab", "ward"]] = None
    frame.to_csv("a.csv", index=False)
    said = output_of("check", *DATA, status=2)
    assert "no cell can be read as declared in 'lab', 'ward'" in said.err
    assert (
        "column 'ward': some values are not one of the declared categories, and count as 'other' (records" in said.out
    )
    frame.loc[1, ["lab", "ward"]] = ["3.7", "a"]
    frame.to_csv("a.csv", index=False)
    assert "no cell is as declared" not in output_of("check", *DATA, status=2).err


@pytest.mark.heavy
def test_check_proposes_other_bins_only_where_most_cells_are_read(place, capsys):
    """With the wrong decimal sign whole numbers alone were read, and for these few it was told to choose other bins."""
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"]["crp"] = {"kind": "continuous", "bounds": [0, 500], "bins": [50, 100]}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    one = ("crp", "all records lie in one of its bins")
    for cells, told in ((["7", "3,5", "120,5"], False), (["7", "3.5", "12.5"], True), (["7", "-9", "-8"], False)):
        records().assign(crp=[cells[min(row % 9, 2)] for row in range(180)]).to_csv("a.csv", index=False)
        assert (one in findings(capsys)) is told


def test_check_says_that_a_fit_would_refuse_and_leads_no_further(place, output_of):
    said = output_of("check", *DATA).out
    assert "next       synthdp plan" in said
    assert "refused" not in said
    records().assign(age=[512, *records()["age"][1:]]).to_csv("a.csv", index=False)
    said = output_of("check", *DATA, status=2)
    assert "column 'age'" in said.out
    assert "next " not in said.out
    assert "a fit would refuse the records as they are" in said.err


def test_check_refuses_a_form_of_dates_that_contradicts_the_bounds_as_a_fit_does(place, output_of):
    born = {"kind": "datetime", "bounds": ["1900-01-01", "2025-12-31"]}
    reading = {"columns": {"born": {"date": "dd/mm/yy", "latest": 2010}}}
    facts = {**FACTS, "reading": reading, "columns": {**COLUMNS, "born": born}}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    records().assign(born="01/02/70").to_csv("a.csv", index=False)
    for command in ("check", "plan"):
        said = output_of(command, *DATA, status=2)
        assert "means the years 1911 to 2010, and the declared bounds lie beyond" in said.err
        assert "next " not in said.out


@pytest.mark.heavy
def test_check_says_which_columns_may_be_empty_and_never_are(place, capsys):
    columns = {**COLUMNS, "sex": {**COLUMNS["sex"], "missing": True}, "age": {**COLUMNS["age"], "missing": True}}
    (place / "schema.yaml").write_text(yaml.safe_dump({**FACTS, "columns": columns}, sort_keys=False))
    told = "missing: true allows empty cells, but there are none in "
    assert ("", f"{told}sex, age") in findings(capsys)
    records().assign(age=[None, *records()["age"][1:]]).to_csv("a.csv", index=False)
    assert ("", f"{told}sex") in findings(capsys)
    records()[:0].to_csv("a.csv", index=False)
    assert not any(told in what for _, what in findings(capsys))


def test_check_of_a_table_without_records(place, output_of):
    records()[:0].to_csv("a.csv", index=False)
    said = output_of("check", *DATA).out
    assert "clearly fewer units" in said
    assert "the table has no records" in said


def test_check_recommends_nothing_that_the_schema_refuses(place):
    """An ordinal has no `other` and is never learned, edges of bins need declared bounds, and no cell of the order column is missing."""
    columns = {
        "patient": {"kind": "identifier"},
        "age": {"kind": "integer", "bounds": [0, 99], "bins": [20, 40]},
        "grade": {"kind": "ordinal", "categories": ["low", "high"]},
        "visit": {"kind": "integer", "bounds": [0, 9]},
    }
    facts = {**FACTS, "targets": [], "order": "visit", "columns": columns}
    frame = pd.DataFrame(
        {
            "patient": ["a", "a", "a"],
            "age": [20, 200, 3],
            "grade": ["low", "none", "high"],
            "visit": pd.array([1, None, 2], dtype="Int64"),
        }
    )
    schema = Schema.from_dict(facts)
    told = {(each.column, each.what): each.remedy for each in review(schema, frame, frame)}
    assert "`" not in told["grade", "some values are not one of the declared categories"]
    assert "learn" not in told["age", "some values are outside the declared bounds [0, 99]"]
    missing = "some values are missing, though the column says what follows what (leave such records out)"
    assert told["visit", missing] == "correct the cells, or take these records out"
    with pytest.raises(BadInput, match="column 'visit': ") as refusal:
        schema.validate(frame)
    assert "missing: true" not in str(refusal.value)
    (capped,) = [remedy for (_, what), remedy in told.items() if "max_records_per_unit" in what]
    assert "With histories it adds no noise from generator.clip on" in capped
    assert capped.endswith("With other generators each answer holds more noise")
    flat = Schema.from_dict({**facts, "order": None})
    (capped,) = [each.remedy for each in review(flat, frame, frame) if "max_records_per_unit" in each.what]
    assert capped == "a larger number uses more records, and each answer holds more noise"
    noise = [
        max(table.noise for table in planned(Synthesizer("independent", schema=one, budget=Budget(1.0, 1e-5))).tables)
        for one in (flat, dataclasses.replace(flat, max_records_per_unit=8))
    ]
    assert noise[1] == pytest.approx(4 * noise[0])


@pytest.mark.heavy
def test_check_tells_of_columns_whose_values_are_better_not_bought(place, capsys):
    frame = records()
    rng = np.random.default_rng(7)
    frame["plz"] = rng.choice(["01067", "10115", "80331"], len(frame))
    frame["crp"] = [f"{value:.1f}".replace(".", ",") for value in rng.gamma(2.0, 9.0, len(frame))]
    frame["empty"] = None
    frame.to_csv("a.csv", index=False)
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"] |= {
        name: {"kind": "categorical", "categories": "learn", "missing": True} for name in ("plz", "crp", "empty")
    }
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    found = {column: each["remedy"] for (column, _), each in findings(capsys).items()}
    assert 'such as other: "99999"' in found["plz"]
    assert "declare it continuous" in found["crp"]
    assert found["empty"] == "leave it out by kind: ignore"
    facts["columns"]["plz"]["other"] = "0"
    del facts["columns"]["crp"], facts["columns"]["empty"]
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    frame.drop(columns=["crp", "empty"]).to_csv("a.csv", index=False)
    assert "plz" not in {column for column, _ in findings(capsys)}
    facts["columns"]["plz"]["tree"] = {"prefix": [1, 3]}  # now 0 is what 01067 begins with
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    assert [what for column, what in findings(capsys) if column == "plz"] == [
        "has an `other` with which codes in the records begin, or which is a code above them, so that both become one category"
    ]
    facts["columns"]["plz"]["other"] = "99999"
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    assert "plz" not in {column for column, _ in findings(capsys)}


def test_check_tells_of_dates_that_would_be_lost_as_another_kind(place, capsys):
    """Where dates are written in several ways, a draft takes the column for an identifier."""
    frame, days = records(), pd.date_range("2020-01-01", periods=180)
    written = days.strftime("%d.%m.%Y").where(np.arange(180) % 9 > 0, days.strftime("%Y-%m-%d"))
    frame.assign(seen=written, told=written, number=days.strftime("%Y%m%d")).to_csv("a.csv", index=False)
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"] |= {"seen": {"kind": "identifier"}, "number": {"kind": "identifier"}}
    facts["columns"]["told"] = {"kind": "categorical", "categories": "learn"}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    found = findings(capsys)
    assert found["seen", "holds dates for the most part, and an identifier is made anew for every record"]
    told = "holds dates for the most part, and each of them would be learned as a category; most would be lost"
    assert "declare it datetime" in found["told", told]["remedy"]
    assert "number" not in {column for column, _ in found}, "eight digits may be anything"


@pytest.mark.parametrize("generator", [heavy("independent"), "mixture", heavy("aim"), "dpgan"])
def test_a_plan_reads_no_record_and_charges_nothing(place, output_of, generator):
    (place / "a.csv").unlink()
    said = output_of("plan", *DATA, f"generator={generator}", "budget.delta=1e-5", "account=own.account", "out=run").out
    assert f"plan       {generator}: noise" in said
    assert "account    own.account: new, with this fit as its first entry" in said
    assert "next       synthdp split path=a.csv schema=schema.yaml out=parts" in said
    assert sorted(path.name for path in place.iterdir()) == ["schema.yaml"]


def test_a_new_account_beside_others_is_told(place, output_of):
    """Somebody corrected her file under a new name, and epsilon did not add up: the same patients were in two accounts."""
    shutil.copy("a.csv", "b.csv")
    told = "accounts   a new account would be made beside a.csv.account. If the same people are in these records, give account=FILE"
    fit = ("fit", "data.schema=schema.yaml", "generator=independent", "budget.delta=1e-5")
    plan = ("plan", *fit[1:])
    assert "accounts  " not in output_of(*fit, "data.path=a.csv", "out=first").out
    assert "accounts  " not in output_of(*plan, "data.path=a.csv", "out=second").out, "it adds to its own account"
    assert told in output_of(*plan, "data.path=b.csv", "out=second").out
    same = ("data.path=b.csv", "account=a.csv.account", "account.add_version=true", "out=second")
    assert "accounts  " not in output_of(*fit, *same).out
    records(seed=1).to_csv("c.csv", index=False)
    assert told in output_of(*fit, "data.path=c.csv", "out=third").out


def test_a_plan_tells_how_many_pairs_noise_hides(place, output_of):
    said = output_of("plan", *DATA, "generator=mixture", "budget.epsilon=0.1", "budget.delta=1e-5", "out=run").out
    assert re.search(
        r"^hidden     noise is likely to hide how about \d+ of \d+ pairs of columns go together", said, re.M
    )
    assert "hidden  " not in output_of("plan", *DATA, "budget.epsilon=1e4", "budget.delta=1e-5", "out=run").out


def test_a_plan_is_that_of_the_fit_and_tells_noise_in_records():
    schema = Schema.from_dict({**FACTS, "columns": COLUMNS})
    budget = Budget(1.0, 1e-5)
    found = planned(Synthesizer("independent", schema=schema, budget=budget))
    release = Synthesizer("independent", schema=schema, budget=budget).fit(records(), seed=1, invalid="clamp")
    assert release.statement.epsilon == pytest.approx(found.epsilon, rel=1e-12)
    (entry,) = release.ledger.entries()
    assert entry.event.noise == found.noise
    assert {table.columns for table in found.tables} == {("sex",), ("age",), ("code",), ("ill",)}
    for table in found.tables:
        assert table.noise == pytest.approx(found.noise * 2 * math.sqrt(4))  # R records of a unit, four tables
        assert table.clear == math.ceil(2 * table.noise)
    drowned = {table.columns[0] for table in found.tables if table.drowned}
    assert "code" in drowned  # 60 units in 300 cells


def test_a_plan_says_what_each_purchase_is_for(place, capsys):
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    facts["columns"]["sex"]["categories"] = facts["columns"]["code"]["categories"] = "learn"
    (place / "schema.yaml").write_text(yaml.safe_dump(facts))
    assert run(["plan", *DATA, "generator=independent", "budget.epsilon=9", "budget.delta=1e-5", "account=none"]) == 0
    said = capsys.readouterr().out
    assert "asked 2 times to learn code, sex: epsilon" in said
    assert re.search("question   Gaussian with noise [0-9.]+, asked once for 4 tables of one column: epsilon", said)


def test_a_plan_says_in_words_what_is_asked_under_a_limit(place, output_of):
    """The name of the event stood there: Capped, asked once."""
    said = output_of("plan", *DATA, "generator=aim", "budget.epsilon=9", "budget.delta=1e-5", "account=none").out
    assert "Capped" not in said
    assert re.search(
        "question   as many as a limit allows, each chosen by the answers to those before it: epsilon [89][0-9.]* for all",
        said,
    )


def test_a_plan_beyond_the_budget_is_refused(place, capsys):
    assert run(["plan", *DATA, "generator=dpgan", "budget.epsilon=1e-9", "budget.delta=1e-12", "account=none"]) == 2
    assert "budget" in capsys.readouterr().err


@pytest.mark.filterwarnings("default:budget.delta")
def test_a_plan_warns_of_a_delta_that_promises_nothing(place, output_of):
    """As the fit does, when the budget has been agreed on."""
    words = ["plan", *DATA, "generator=independent", "account=none"]
    assert "budget.delta=0.02 is not below 1 / units = 1.7e-02" in output_of(*words, "budget.delta=0.02").err
    assert "not below" not in output_of(*words, "budget.delta=1e-5").err


def test_a_plan_with_time_makes_the_whole_fit(place, output_of):
    words = ["plan", *DATA, "generator=independent", "budget.delta=1e-5", "account=none", "time=true", "format=json"]
    found = json.loads(output_of(*words).out)
    assert found["seconds"] > 0
    assert found["megabytes"] >= 0


def test_a_rehearsal_of_fewer_units_than_are_declared_says_so(place, output_of, monkeypatch):
    words = ["plan", *DATA, "generator=independent", "budget.delta=1e-5", "account=none", "time=true"]
    for most, told in ((10**6, False), (30, True)):
        monkeypatch.setattr("synthdp.planning.MOST_ROWS", most)
        said = output_of(*words).out
        assert ("made-up records of 30 units" in said) == told
        assert ("; more units may take longer" in said) == told


def test_made_up_records_fit_any_schema():
    schema = Schema.from_dict({**FACTS, "columns": {**COLUMNS, "lab": {"kind": "continuous", "bounds": "learn"}}})
    assert len(made_up(schema)) == ROWS


def test_made_up_units_have_several_records_where_these_have_an_order():
    """With one record each, nothing followed anything, and the rehearsal of a fit of histories was over too soon."""
    seen = {"kind": "integer", "bounds": [0, 99]}
    schema = Schema.from_dict(
        {**FACTS, "max_records_per_unit": 6, "order": "seen", "columns": {**COLUMNS, "seen": seen}}
    )
    number = made_up(schema, 400)["patient"].value_counts()
    assert len(number) == 400
    assert set(number) == {1, 2, 3, 4, 5, 6}
    assert (number == 1).sum() > (number == 6).sum()


@pytest.mark.parametrize("name", ["a.csv", heavy("a.csv.gz"), heavy("a.parquet")])
def test_split_keeps_patients_together_and_every_row_as_it_was(place, capsys, name):
    frame = records(900)
    frame["note"] = ['two\nlines, "quoted"'] * 900
    if name == "a.parquet":
        frame.to_parquet(place / name)
    else:
        frame.to_csv(place / name, index=False)
    words = ["split", f"path={name}", "schema=schema.yaml", "out=parts"]
    assert run(words) == 0
    ending = name.removeprefix("a")
    read = pd.read_parquet if ending == ".parquet" else pd.read_csv
    train, held = (read(place / "parts" / f"{part}{ending}") for part in ("train", "held_out"))
    assert not set(train["patient"]) & set(held["patient"])
    both = pd.concat([train, held]).sort_values(list(frame), ignore_index=True)
    pd.testing.assert_frame_equal(both, frame.sort_values(list(frame), ignore_index=True))
    assert 0.08 < held["patient"].nunique() / 300 < 0.35  # 60 expected of 300, five deviations
    said = capsys.readouterr().out
    assert "about 20% held out" in said
    assert "schema_train.yaml is a copy with units: 48. Use it for the fit" in said
    assert Schema.load("schema_train.yaml") == dataclasses.replace(Schema.load("schema.yaml"), units=48)
    assert f"synthdp fit data.path=parts/train{ending} data.schema=schema_train.yaml" in said, "both name one schema"
    if name == "a.csv":
        lines = (place / name).read_bytes()
        assert sum(len((place / "parts" / f"{part}.csv").read_bytes()) for part in ("train", "held_out")) == len(
            lines
        ) + len(lines.split(b"\n", 1)[0] + b"\n")
    if name == "a.csv.gz":
        with gzip.open(place / "parts" / "train.csv.gz") as file:
            assert file.readline().startswith(b"patient,sex")
    again = ["split", f"path={name}", "schema=schema.yaml", "out=later", "key=parts/split.key"]
    assert run(again) == 0
    assert set(read(place / "later" / f"held_out{ending}")["patient"]) == set(held["patient"])


def test_split_says_what_stays_together(place, capsys):
    schema = {**FACTS, "columns": COLUMNS}
    assert run(["split", "path=a.csv", "schema=schema.yaml", "out=parts"]) == 0
    assert "split      all records of one patient together, about 20% held out" in capsys.readouterr().out
    apart = {key: value for key, value in schema.items() if key not in ("unit", "max_records_per_unit")}
    (place / "apart.yaml").write_text(yaml.safe_dump(apart, sort_keys=False))
    assert run(["split", "path=a.csv", "schema=apart.yaml", "out=apart"]) == 0
    assert "split      each record by itself, about 20% held out" in capsys.readouterr().out


@pytest.mark.heavy
def test_the_schema_that_split_copies_keeps_its_lines_and_knows_of_the_looks_before(place, capsys, output_of):
    """The log of looks goes by the file's name, so a copy under another name once counted as not edited after a look."""
    words = ["split", "path=a.csv", "schema=schema.yaml"]
    text = (place / "schema.yaml").read_text().replace("units: 60", "units: 60  # annual report")
    (place / "schema.yaml").write_text(f"# by hand\n{text}")
    assert run(["check", *DATA]) == 0
    assert run([*words, "out=parts"]) == 0
    copy, log = place / "schema_train.yaml", place / "internal" / "schema_train.looks.json"
    assert copy.read_text() == f"# by hand\n{text}".replace("units: 60  #", "units: 48  #")
    assert log.stat().st_mode & 0o077 == 0
    assert looks.edited_after(copy, Schema.load(copy)) == (), "who splits edits nothing"
    assert "schema_train.yaml is a copy with units: 48" in output_of(*words, "out=again", "key=parts/split.key").out
    assert len(json.loads(log.read_text())) == 1, "noted once"
    copy.write_text(copy.read_text().replace("units: 48", "units: 50"))
    assert looks.edited_after(copy, Schema.load(copy)) == (looks.CHECK,)
    capsys.readouterr()
    said = output_of(*words, "out=third", "key=parts/split.key").out
    assert "schema_train.yaml is there already, and is not schema.yaml with units: 48" in said
    assert "next" not in said, "no fit by a copy that is wrong"
    assert "units: 50" in copy.read_text(), "what is there stays"


def test_a_damaged_log_of_looks_is_named_and_the_split_stands(place, capsys, output_of):
    """Without its log a copy would count as never edited."""
    assert run(["check", *DATA]) == 0
    (place / "internal" / "schema.looks.json").write_text("[")
    capsys.readouterr()
    said = output_of("split", "path=a.csv", "schema=schema.yaml", "out=parts").out
    assert "the log of drafts and checks of schema.yaml cannot be carried over to schema_train.yaml" in said
    assert not (place / "schema_train.yaml").exists()
    assert "next" not in said


def test_a_schema_that_split_cannot_copy_is_to_be_copied_by_hand(place, capsys):
    (place / "schema.yaml").write_text(json.dumps(yaml.safe_load((place / "schema.yaml").read_text())))
    assert run(["check", *DATA]) == 0
    assert run(["split", "path=a.csv", "schema=schema.yaml", "out=parts"]) == 0
    assert "copy the schema to schema_train.yaml, and write units: 48 there, before the fit" in capsys.readouterr().out
    copy, text = place / "schema_train.yaml", (place / "schema.yaml").read_text()
    for change, told in (('"units": 60', '"units": 48'), ()), (("[0, 99]", "[0, 98]"), (looks.CHECK,)):
        text = text.replace(*change)
        copy.write_text(text)
        assert looks.edited_after(copy, Schema.load(copy)) == told


@pytest.mark.parametrize(
    ("more", "proposed"),
    [({}, False), ({"order": "seen"}, True), ({"order": "seen", "rules": ["seen <= later"]}, False)],
)
def test_split_proposes_a_generator_that_takes_the_schema(place, capsys, more, proposed):
    day = {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"]}
    facts = {**FACTS, **more, "columns": {**COLUMNS, "seen": day, "later": day}}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    records().assign(seen="2020-02-03", later="2020-02-04").to_csv(place / "a.csv", index=False)
    assert run(["split", "path=a.csv", "schema=schema.yaml", "out=parts"]) == 0
    (following,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next")]
    assert ("generator=histories" in following) == proposed


def test_split_names_the_account_that_plan_names(place, capsys):
    assert run(["plan", *DATA, "generator=independent", "out=run"]) == 0
    (account,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("account"))
    assert run(["split", "path=a.csv", "schema=schema.yaml", "out=parts"]) == 0
    (following,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next")]
    assert account.split()[1].rstrip(":") == str((place / "a.csv.account").resolve())
    assert " account=a.csv.account " in following, "as it would be named from here"


def test_a_split_that_fails_leaves_nothing(place, capsys):
    words = ["split", "schema=schema.yaml", "out=parts"]
    assert run([*words, "path=nothing.csv"]) == 2
    assert not (place / "parts").exists()
    (place / "own.key").write_bytes(b"k" * 32)
    assert run([*words, "path=nothing.csv", "key=own.key"]) == 2
    assert (place / "own.key").exists()
    assert run([*words, "path=a.csv"]) == 0


@pytest.mark.parametrize(("words", "says"), [(("share=1",), "between 0 and 1"), (("schema=none.yaml",), "none.yaml")])
def test_split_refuses(place, output_of, words, says):
    given = {"path": "a.csv", "schema": "schema.yaml", "out": "parts"} | dict(word.split("=") for word in words)
    assert says in output_of("split", *(f"{key}={value}" for key, value in given.items()), status=2).err


FIT = (
    "fit",
    *DATA,
    "out=run",
    "budget.epsilon=5",
    "budget.delta=1e-3",
    "generator=independent",
    "force=true",
    "seed=1",
)


def edited(place, change):
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    change(facts)
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))


@pytest.mark.heavy
def test_a_schema_that_was_edited_after_a_look_is_said_to_be_so(place, output_of):
    assert run(["check", *DATA]) == 0
    edited(place, lambda facts: facts.update(declared_by="somebody else", name="a name"))
    assert "edited " not in output_of(*FIT).err, "who declares it is no fact of the records"
    edited(place, lambda facts: facts["columns"]["age"].update(bounds=[0, 98]))
    assert "were edited after a check of the records" in output_of(*FIT).err
    told = json.loads((place / "run/release/release.json").read_text())["statement"]
    assert told["declared"]["edited_after"] == ["a check"]
    assert any("edited after a check" in line for line in told["not_covered"])
    log = place / "internal/schema.looks.json"
    assert log.stat().st_mode & 0o077 == 0
    assert set(json.loads(log.read_text())[0]) == {"look", "schema", "when"}
    log.write_text("[5]")
    assert "not a log of drafts and checks" in output_of(*FIT, status=2).err


@pytest.mark.heavy
def test_categories_are_not_taken_from_the_records_themselves(place, output_of):
    """A list of codes is public; the column of the records would publish a code that one patient alone has."""
    records().assign(chapter=records()["code"].str[:1]).to_csv(place / "a.csv", index=False)
    (place / "codes.csv").hardlink_to(place / "a.csv")
    (place / "linked.csv").symlink_to("a.csv")
    own = [{"categories": {"file": file, "column": "code"}} for file in ("./a.csv", "codes.csv", "linked.csv")]
    own.append({"categories": "learn", "tree": {"file": "a.csv", "column": "code", "parent": "chapter"}})
    for says in own:
        edited(place, lambda facts, says=says: facts["columns"]["code"].update(says))
        for path in ("a.csv", f"../{place.name[:-1]}*/a.csv", "../**/a.csv"):
            assert "takes its categories from the records" in output_of(*FIT, f"data.path={path}", status=2).err, path
        assert not (place / "run").exists()


def test_what_the_schema_alone_must_be_corrected_for_is_refused_before_a_look(place, capsys):
    coding = {"columns": {"age": {"numbers": {"<1": 0.5}}}}
    edited(place, lambda facts: facts.update(reading=coding))
    assert run(["check", *DATA]) == 2
    assert "declare atoms: [0.5] in columns too" in capsys.readouterr().err
    assert not (place / "internal").exists()


def test_of_several_checks_the_one_that_showed_most_is_told(tmp_path):
    one, other = (Schema.from_dict({"units": n, "columns": {"a": {"kind": "boolean"}}}) for n in (10, 20))
    for kind in (looks.DRAFT, looks.CHECK, looks.VALUES, looks.CHECK):
        looks.keep(tmp_path / "s.yaml", kind, one)
    assert looks.edited_after(tmp_path / "s.yaml", other) == (looks.DRAFT, looks.VALUES)
    assert looks.edited_after(tmp_path / "s.yaml", one) == ()


def test_a_column_called_review_has_facts_as_any_other():
    def about(low, **marks):
        columns = {"review": {"kind": "integer", "bounds": [low, 10], **marks}, "a": {"kind": "boolean"}}
        return looks.digest(Schema.from_dict({"units": 10, "columns": columns}))

    assert about(0) != about(3)
    assert about(0) == about(0, review=True)


@pytest.mark.filterwarnings("ignore:column 'age'. about .* of the values lie below 8")  # as they do
def test_a_draft_that_was_confirmed_was_not_edited_and_one_that_was_completed_was(place, output_of):
    assert run(["schema", "path=a.csv", "out=schema.yaml", "force=true"]) == 0

    def confirmed(facts):
        facts["declared_by"] = "test"
        for column in facts["columns"].values():
            column.pop("review", None)
        facts.get("reading", {}).pop("review", None)

    edited(place, confirmed)
    assert "edited " not in output_of(*FIT).err
    edited(place, lambda facts: facts["columns"]["age"].update(bounds=[0, 110]))
    assert "were edited after a draft of the records" in output_of(*FIT).err


def test_a_fit_that_is_refused_points_to_check(place, output_of):
    records().assign(age=512).to_csv(place / "a.csv", index=False)
    assert "synthdp check lists the records" in output_of(*FIT, status=2).err
    edited(place, lambda facts: facts["columns"]["age"].update(review=True))
    assert "synthdp check shows, at no charge" in output_of(*FIT, status=2).err


@pytest.mark.heavy
def test_the_statement_lists_how_files_are_written_and_what_was_left_out(place):
    facts = {**FACTS, "reading": {"separator": ";", "decimal": ","}, "columns": {**COLUMNS, "note": {"kind": "ignore"}}}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    records().assign(note="x").to_csv(place / "a.csv", index=False, sep=";")
    assert run([*FIT]) == 0
    assert run(["report", "release=run/release", "out=page"]) == 0
    declared = json.loads((place / "page/statement.json").read_text())["declared"]
    assert declared["ignored"] == ["note"]
    assert declared["reading"] == {"separator": ";", "decimal": ","}
    page = (place / "page/statement.html").read_text()
    assert "Columns left out" in page
    assert "separator \u201c;\u201d" in page


def test_a_draft_with_something_left_open_is_written_and_says_so(place, capsys, output_of):
    (place / "t.csv").write_text("day;n\n" + "".join(f"0{row % 9 + 1}.0{row % 8 + 1}.20;{row}\n" for row in range(60)))
    told = output_of("schema", "path=t.csv", "out=s.yaml").out
    assert "s.yaml: replace TODO under reading ('day'), go through its review marks" in told
    assert run(["check", "data.path=t.csv", "data.schema=s.yaml"]) == 2
    assert "reading: column 'day': date is still TODO" in capsys.readouterr().err
    (log,) = json.loads((place / "internal" / "s.looks.json").read_text())
    assert log["look"] == looks.DRAFT


def declared(place, **columns):
    rules = ["seen <= admitted"] if "seen" in columns else []
    facts = {**FACTS, "columns": {**COLUMNS, **columns}, "rules": rules}
    (place / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))


@pytest.mark.heavy
def test_a_rule_by_which_a_time_is_no_later_than_a_day_is_told_before_a_fit(place, output_of):
    day = {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"]}
    declared(place, admitted=day, seen={**day, "resolution": "minute"})
    records().assign(admitted="2020-02-03", seen="2020-02-03 10:00").to_csv(place / "a.csv", index=False)
    usual = ("generator=independent", "budget.epsilon=1", "account=none", "out=o")
    for words in (("check", *DATA), ("plan", *DATA, *usual), ("fit", *DATA, *usual, "invalid=clamp")):
        told = output_of(*words).out
        assert (
            "rule       'seen <= admitted': a day in 'admitted' counts as its midnight, so a time in 'seen' on" in told
        )
    declared(place, admitted=day, seen=day)
    assert "midnight" not in output_of("plan", *DATA, *usual).out
    declared(place, admitted={**day, "resolution": "minute"}, seen=day)  # midnight is no later than any time of its day
    assert "midnight" not in output_of("plan", *DATA, *usual).out


@pytest.mark.filterwarnings("default:synthetic records may break")
def test_rules_that_no_record_can_keep_are_told_before_a_fit(place, output_of):
    """They were accepted in silence."""
    day = {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"]}
    never = {"kind": "integer", "bounds": [0, 5]}
    declared(place, admitted=day, seen=day, stay=never)
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    sex, *_ = facts["columns"]["sex"]["categories"]
    facts["rules"] = ["seen < admitted", "seen >= admitted", "stay > 5"]
    facts["rules"] += [{"if": {"sex": sex}, "then": {"stay": each}} for each in (1, 2)]
    (place / "schema.yaml").write_text(yaml.safe_dump(facts))
    records().assign(admitted="2020-02-03", seen="2020-02-01", stay=1).to_csv(place / "a.csv", index=False)
    usual = ("generator=independent", "budget.epsilon=9", "budget.delta=1e-5", "account=none")
    for words in (("check", *DATA), ("plan", *DATA, *usual)):
        said = output_of(*words).out.splitlines()
        told = [line for line in said if line.startswith("rule ")]
        assert words[0] != "check" or said[-1].startswith("open       no record can keep the declared rules: correct")
        assert not any("synthdp plan" in line for line in said), "it does not send the steward on"
        assert told == [
            "rule       'stay > 5': no record with values in these columns can keep it within the declared bounds and categories. Correct "
            "the rule, or what is declared of the columns",
            "rule       'seen < admitted' and 'seen >= admitted': no record with values in these columns can keep them together within the "
            "declared bounds and categories. Correct one of them, or what is declared of the columns",
            f"rule       'if sex = {sex} then stay = 1' and 'if sex = {sex} then stay = 2': no record with values in these columns where "
            f"sex = {sex} can keep them together within the declared bounds and categories. Correct one of them, or what is declared of "
            "the columns",
        ]


def test_columns_that_a_rule_makes_one_are_told_before_a_fit(place, output_of):
    """ "never men in obstetrics" cost the relation of height and sex, and nothing said so."""
    ward = {"kind": "categorical", "categories": ["a", "b", "c"]}
    declared(place, ward=ward, low={"kind": "integer", "bounds": [0, 5]}, high={"kind": "integer", "bounds": [0, 5]})
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    sex, *others = facts["columns"]["sex"]["categories"]
    facts["rules"] = ["low <= high", {"never": {"sex": sex, "ward": "c"}}]
    (place / "schema.yaml").write_text(yaml.safe_dump(facts))
    records().assign(ward="a", low=1, high=2).to_csv(place / "a.csv", index=False)
    usual = ("generator=independent", "budget.epsilon=9", "budget.delta=1e-5", "account=none", "out=o")
    told = (
        f"tied       sex, ward: learned as one column of {3 * len(others) + 2} combinations, so that no synthetic record breaks "
        f"'never sex = {sex} and ward = c'. In more cells, noise more easily hides how each of them goes with other columns. With "
        "honoured: [0] in the schema they are learned apart, and evaluate counts the records that break a rule, which may be many"
    )
    for words in (("plan", *DATA, *usual), ("fit", *DATA, *usual)):
        assert [line for line in output_of(*words).out.splitlines() if line.startswith("tied")] == [told]
    (place / "schema.yaml").write_text(yaml.safe_dump({**facts, "honoured": [0]}))
    assert "\ntied" not in output_of("plan", *DATA, *usual).out


@pytest.mark.heavy
def test_a_column_of_one_declared_value_is_told_before_a_fit(place, output_of):
    plain, usual = {"kind": "categorical", "categories": ["K"]}, ("generator=independent", "account=none", "out=o")
    stay = {"kind": "integer", "bounds": [3, 3]}
    declared(place, site=plain, stay=stay, open={**plain, "missing": True}, two={**plain, "categories": ["K", "L"]})
    records().assign(site="K", stay=3, open="K", two="K").to_csv(place / "a.csv", index=False)
    for words in (("plan", *DATA, *usual), ("fit", *DATA, *usual)):
        assert "constant   site, stay: with only one declared value" in output_of(*words).out


@pytest.mark.heavy
def test_plan_says_where_noise_alone_fills_bins_that_hold_nobody(place, capsys):
    stay = {"kind": "integer", "bounds": [0, 3000]}
    declared(place, stay=stay, marked={**stay, "bins": [5, 10, 100]})
    assert run(["plan", *DATA, "generator=independent", "budget.epsilon=1", "account=none", "out=o"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("spread"))
    assert 5 < int(re.match(r"spread     stay: noise alone puts up to (\d+)% of synthetic", line)[1]) < 100
    facts = yaml.safe_load((place / "schema.yaml").read_text())
    (place / "schema.yaml").write_text(yaml.safe_dump({**facts, "units": 100_000}, sort_keys=False))
    assert run(["plan", *DATA, "generator=independent", "budget.epsilon=1", "account=none", "out=o"]) == 0
    assert "spread" not in capsys.readouterr().out


def test_plan_names_the_columns_that_rules_tie(place):
    schema = Schema.from_dict(
        {**FACTS, "columns": COLUMNS, "targets": [], "rules": [{"never": {"sex": "f", "ill": True}}], "honoured": [0]}
    )
    found = planned(Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-6)))
    assert {table.columns for table in found.tables} == {("sex", "ill"), ("age",), ("code",)}
