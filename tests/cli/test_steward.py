"""What a steward forgot or typed wrongly is refused, or told, before it costs anything: from public facts alone."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from clinic import make_frame, make_schema, refused
from sweeps import heavy

from synthdp import BadInput, Budget, Schema, generators, load
from synthdp.cli import compose, fits, run


@pytest.fixture
def files(tmp_path):
    make_frame(60).to_csv(tmp_path / "clinic.csv", index=False)
    make_schema().save(tmp_path / "schema.yaml")
    return tmp_path


def words(files, command="fit", *more):
    source = [f"data.path={files / 'clinic.csv'}", f"data.schema={files / 'schema.yaml'}"]
    return [command, *source, "generator=independent", f"out={files / 'run'}", *more]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "out=x"], "data.path=FILE with data.schema=FILE.yaml"),
        heavy((["fit", "data.schema={schema}", "out=x"], "data.path=FILE is missing")),
        heavy((["fit", "data.path={csv}", "out=x"], "data.schema=FILE.yaml is missing")),
        (["budget"], "data.path=FILE"),
        heavy((["evaluate", "synthetic={csv}", "out=x"], "data.train=FILE")),
        (
            ["evaluate", "synthetic={csv}", "data.test={csv}", "data.schema={schema}", "out=x"],
            "data.train=FILE is missing",
        ),
        heavy(
            (
                ["evaluate", "synthetic={csv}", "data.train={csv}", "data.schema={schema}", "out=x"],
                "data.test=FILE is missing",
            )
        ),
    ],
)
def test_no_data_set_is_fitted_that_nobody_named(words, said, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    known = {"csv": files / "clinic.csv", "schema": files / "schema.yaml"}
    error = refused(capsys, *[word.format(**known) for word in words])
    assert said in error
    assert "meps" not in error
    assert not (files / "x").exists()


def test_how_many_records_of_a_patient_count_is_asked_for_not_taken_as_one(files, capsys):
    declared = {**make_schema().to_dict(), "unit": "patient"}
    del declared["max_records_per_unit"]
    (files / "schema.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    for command in ("fit", "plan"):
        error = refused(capsys, *words(files, command))
        assert "max_records_per_unit is missing" in error
        assert "1 keeps one record of each patient" in error
    assert not (files / "clinic.csv.account").exists()


def test_clamp_is_offered_for_what_it_mends_and_says_what_it_does(files, capsys):
    frame = make_frame(60)
    frame.loc[0, "age"] = 444
    frame.to_csv(files / "clinic.csv", index=False)
    error = refused(capsys, *words(files))
    assert "column 'age': some values are outside the declared bounds" in error
    assert "invalid=clamp" in error
    assert "becomes the nearest bound" in error

    frame["dose"] = frame["dose"].map(lambda dose: f"{dose:.2f}".replace(".", ","))
    frame["ill"] = frame["ill"].map({True: "ja", False: "nein"})
    frame.to_csv(files / "clinic.csv", index=False, sep=",")
    error = refused(capsys, *words(files))
    assert "clamp" not in error  # it would make every dose the lower bound
    assert "1234.5" in error
    assert "yes/no" in error


def test_a_fit_that_clamps_says_so_first_and_in_its_statement(files, output_of):
    frame = make_frame(60)
    frame.loc[0, "age"] = 444
    frame.to_csv(files / "clinic.csv", index=False)
    assert output_of(*words(files, "fit", "invalid=clamp")).out.startswith("clamped    ")
    clamped = load(files / "run" / "release").statement
    assert clamped.declared["invalid"] == "clamp"
    assert any("invalid=clamp" in line for line in clamped.not_covered)
    make_frame(60).to_csv(files / "clinic.csv", index=False)
    plain = [*words(files)[:-1], "account=none", f"out={files / 'plain'}"]
    assert "clamped" not in output_of(*plain).out
    assert "invalid" not in load(files / "plain" / "release").statement.declared


def learning(files, units):
    """Twelve columns of which nothing was declared."""
    columns = {f"code{place}": {"kind": "categorical", "categories": "learn"} for place in range(6)}
    columns |= {f"value{place}": {"kind": "continuous", "bounds": "learn"} for place in range(6)}
    declared = {"name": "all", "declared_by": "us", "units": units, "columns": columns}
    (files / "schema.yaml").write_text(yaml.safe_dump(declared))


def test_learning_that_noise_would_hide_is_refused_before_the_charge(files, capsys):
    """From public facts: the records of these fits are not even there."""
    (files / "clinic.csv").unlink()
    learning(files, units=700)
    for command in ("fit", "plan"):
        error = refused(capsys, *words(files, command))
        assert "noise would hide what is to be learned of 'code0'" in error
        assert "of the 700 units" in error
    assert "'code0'" not in refused(capsys, *words(files, "fit", "budget.epsilon=10"))
    learning(files, units=70_000)
    assert "'code0'" not in refused(capsys, *words(files))


@pytest.mark.heavy
def test_how_many_records_learning_needs_is_told_by_plan_and_by_check(files, capsys, output_of):
    """Even if the number of units must itself be learned. What `plan` says does not depend on how many records there are."""
    learning(files, units="learn")
    said = output_of(*words(files, "plan", "account=none")).out
    (line,) = (line for line in said.splitlines() if line.startswith("needs      more than about "))
    most = int(line.split()[4].replace(",", ""))
    assert "12 columns at this budget. Declare bounds and categories" in line
    assert f"fewer than about {(most + 1) // 2:,} records share" in said
    (files / "clinic.csv").unlink()
    fewer = most - 100  # buying the number of units costs as well
    learning(files, units=fewer)
    assert f"of the {fewer:,} units share it" in refused(capsys, *words(files, "plan", "account=none"))
    learning(files, units=most + 10)
    said = output_of(*words(files, "plan", "account=none")).out
    assert "needs " not in said
    assert "learned    code0" in said
    for rows, told in ((most - 10, True), (most + 10, False)):
        learning(files, units="learn")
        cells = {f"code{place}": ["a"] * rows for place in range(6)}
        cells |= {f"value{place}": [1.5] * rows for place in range(6)}
        pd.DataFrame(cells).to_csv(files / "clinic.csv", index=False)
        assert run(["check", f"data.path={files / 'clinic.csv'}", f"data.schema={files / 'schema.yaml'}"]) == 0
        assert ("the table is too small" in capsys.readouterr().out) == told


def test_what_learning_hides_is_told_in_units_by_the_name_of_their_column():
    columns = {"Nr pacjenta": {"kind": "identifier"}, "code": {"kind": "categorical", "categories": "learn"}}
    declared = {
        "name": "t",
        "declared_by": "us",
        "unit": "Nr pacjenta",
        "max_records_per_unit": 1,
        "units": "learn",
        "columns": columns,
    }
    said = fits.foretold(Schema.from_dict(declared), Budget(1.0, 1e-6))
    assert "units of 'Nr pacjenta' share; numbers beyond" in said[0]
    assert "units of 'Nr pacjenta'; rarer ones of code become one category for all others" in said[1]
    assert "units of 'Nr pacjenta': with fewer" in said[2]
    least = next(iter(generators.findable(Schema.from_dict(declared), Budget(1.0, 1e-6)).values()))
    assert f"ten equally common ones need about {10 * least:,.0f} units" in said[1]
    known = Schema.from_dict(declared | {"units": 500})
    (least,) = generators.findable(known, Budget(1.0, 1e-6)).values()
    assert f"and 500 show at most {int(500 / least)} of them" in fits.foretold(known, Budget(1.0, 1e-6))[1]


def test_plan_names_the_columns_that_need_the_most_records_where_their_number_is_not_declared(files, capsys):
    columns = {
        name: {"kind": "categorical", "categories": [f"{place}" for place in range(size)]}
        for name, size in (("ward", 4), ("drug", 40))
    }
    declared = {"name": "t", "declared_by": "us", "units": "learn", "columns": columns}
    (files / "schema.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    assert run(words(files, "plan", "account=none", "generator=independent")) == 0
    said = capsys.readouterr().out
    clear = int(re.search(r"a count below (\d+) cannot be told", said)[1])
    (line,) = (line for line in said.splitlines() if line.startswith("units "))
    assert f"noise hides a column's typical category or bin: drug {40 * clear:,}, ward {4 * clear:,}" in line


def test_what_learning_can_find_is_told_before_the_charge(files, output_of):
    declared = make_schema(columns={"sex": {"kind": "categorical", "categories": "learn"}}).to_dict()
    (files / "schema.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    make_frame(400).to_csv(files / "clinic.csv", index=False)
    assert output_of(*words(files)).out.startswith("learned    sex: noise hides")


def test_a_fit_says_between_which_bounds_it_found_values(files, capsys):
    declared = make_schema(columns={"weight": {"kind": "continuous", "bounds": "learn", "decimals": 1}}).to_dict()
    (files / "schema.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
    make_frame(400).assign(weight=[60.5 + row % 40 for row in range(400)]).to_csv(files / "clinic.csv", index=False)
    assert run(words(files, "fit", "budget.epsilon=10")) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("bounds     learned: "))
    low, high = load(files / "run" / "release").schema.column("weight").bounds
    assert line == f"bounds     learned: weight {low:g} to {high:g}"


@pytest.mark.heavy
def test_declared_codes_under_a_tree_are_not_better_declared(files, output_of):
    """They are: what is bought is which of them are kept."""
    tree = {"kind": "categorical", "categories": ["f", "m"], "tree": {"prefix": [1]}, "other": "rest"}
    learnt = {"kind": "continuous", "bounds": "learn"}
    for columns, told in (({"sex": tree, "weight": learnt}, "learned    weight: "), ({"sex": tree}, None)):
        facts = make_schema(columns=columns).to_dict()
        (files / "schema.yaml").write_text(yaml.safe_dump({**facts, "units": 10_000}, sort_keys=False))
        said = output_of(*words(files, "plan", "account=none")).out
        assert ("learned    " in said) == (told is not None)
        assert told is None or told in said
        before = fits.foretold(Schema.load(files / "schema.yaml"), Budget(1.0, 1e-5))
        assert [line for line in before if line.startswith("learned    sex")] == []
        assert bool(before) == (told is not None)


def test_records_that_were_fitted_are_not_held_out(files, capsys):
    source = [f"data.train={files / 'clinic.csv'}", f"data.schema={files / 'schema.yaml'}"]
    judge = ["evaluate", f"synthetic={files / 'clinic.csv'}", *source, f"out={files / 'judged'}"]
    (files / "link.csv").symlink_to(files / "clinic.csv")
    for test in ("clinic.csv", "link.csv"):
        assert "data.test is the same file as data.train" in refused(capsys, *[*judge, f"data.test={files / test}"])


def test_misspelt_columns_to_judge_by_are_refused_at_once(files, capsys):
    make_frame(50, seed=1).to_csv(files / "test.csv", index=False)
    known = [
        f"data.train={files / 'clinic.csv'}",
        f"data.test={files / 'test.csv'}",
        f"data.schema={files / 'schema.yaml'}",
    ]
    judge = ["evaluate", f"synthetic={files / 'clinic.csv'}", *known, f"out={files / 'judged'}"]
    assert "did you mean 'sex'" in refused(capsys, *[*judge, "evaluate.subgroups=[Sex]"])
    assert "evaluate.targets 'il'" in refused(capsys, *[*judge, "evaluate.targets=[il]"])
    assert not (files / "judged").exists()


@pytest.mark.heavy
def test_a_file_without_a_header_is_doubted(files, output_of):
    (files / "bare.csv").write_text("17,2020-01-31,Yes,flu\n18,2020-02-01,No,flu\n")
    error = output_of("schema", f"path={files / 'bare.csv'}", f"out={files / 'draft.yaml'}").err
    assert "is the first line a header? 3 of 4 names" in error
    assert "flu" not in error
    assert output_of("schema", f"path={files / 'clinic.csv'}", f"out={files / 'other.yaml'}").err == ""
    pd.DataFrame({"nan": [1.5, 2.5], "17": [3, 4]}).to_parquet(files / "t.parquet")  # which names its columns
    assert output_of("schema", f"path={files / 't.parquet'}", f"out={files / 'typed.yaml'}").err == ""


@pytest.mark.parametrize(
    ("above", "why"),
    [
        ("Report of 2025\nby the clinic\n", "It names one column"),
        ("by;Meier;ward\non;Friday;1\n", "Numbers begin only"),
    ],
)
def test_lines_above_the_header_of_a_file_are_doubted(files, output_of, above, why):
    """They were drafted as the header and the first records, and nothing was said."""
    records = "".join(f"P{row};{20 + row % 9};{'mw'[row % 2]}\n" for row in range(90))
    (files / "bare.csv").write_text(above + "patient;age;sex\n" + records)
    error = output_of("schema", f"path={files / 'bare.csv'}", f"out={files / 'draft.yaml'}").err
    assert f"is the first line a header? {why}" in error
    assert "Meier" not in error
    (files / "bare.csv").write_text("patient;age;sex\n" + records)
    assert output_of("schema", f"path={files / 'bare.csv'}", f"out={files / 'other.yaml'}").err == ""


def test_a_file_of_words_without_a_header_is_doubted(files, output_of):
    """The words of the first record became the names of columns, which are public, and nothing was said."""
    draft = ["schema", f"path={files / 'bare.csv'}", f"out={files / 'draft.yaml'}", "force=true"]
    records = "".join(f"Patient {row};{'mw'[row % 2]};{('E11', 'I10')[row // 2 % 2]}\n" for row in range(40))
    (files / "bare.csv").write_text(records)
    assert "is the first line a header? 2 of 3 names of columns are among the cells" in output_of(*draft).err
    (files / "bare.csv").write_text("name;sex;code\n" + records)
    assert "header" not in output_of(*draft).err


def test_split_says_what_declared_units_are_meant_for_and_not_what_the_table_holds(files, output_of):
    made = replace(make_schema(), units=200)  # for 60 records
    made.save(files / "schema.yaml")
    words = ["split", f"path={files / 'clinic.csv'}", f"schema={files / 'schema.yaml'}", f"out={files / 'parts'}"]
    assert "declares 200 units, a number meant for the whole table. A fit" in output_of(*words).out


def test_a_folder_of_tables_among_other_files_is_told_from_pictures(tmp_path, capsys):
    for name in ("a.csv", "b.csv", "notes.txt"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    assert "A folder of linked tables must hold nothing else" in refused(capsys, *["schema", f"path={tmp_path}"])


@pytest.mark.heavy
def test_a_large_epsilon_is_told_before_the_fit(files, capsys, output_of):
    assert output_of(*words(files, "fit", "budget.epsilon=12")).err.startswith("synthdp: warning: epsilon 12 is large")
    assert run(words(files, "plan", "budget.epsilon=12", "quiet=true")) == 0
    assert capsys.readouterr().err.startswith("synthdp: warning: epsilon 12 is large")


@pytest.mark.parametrize(
    "where",
    ['{"Age (years)": [70, 80]}', "{Größe in m: [1, 2], sex: F}", "{sex: F, age: [65, 80]}", r"{Age\ \(years\): 3}"],
)
def test_names_of_columns_may_hold_anything_in_a_condition(where):
    (config,) = compose.compose("sample", ["release=r", "rows=1", "out=o.csv", f"where={where}"])
    first = next(iter(config["options"].where))
    assert first in ("Age (years)", "Größe in m", "sex")
    with pytest.raises(BadInput, match="where"):
        compose.compose("sample", ["release=r", "rows=1", "out=o.csv", "where={sex: [F"])


@pytest.mark.parametrize(
    ("survival", "expected"),
    [
        ('["p.Décès", {"s.Durée": ">= 20"}]', ["p.Décès", {"s.Durée": ">= 20"}]),
        ("[p.Date de décès, {d.Code CIM: [I50, I48]}]", ["p.Date de décès", {"d.Code CIM": ["I50", "I48"]}]),
        ('[person.death,{lab.test: K, lab.value: ">= 6"}]', ["person.death", {"lab.test": "K", "lab.value": ">= 6"}]),
        ('["d\'entrée $1", {"à": 1}]', ["d'entrée $1", {"à": 1}]),
    ],
)
def test_names_of_columns_may_hold_anything_in_an_event(survival, expected):
    words = ["synthetic=s", "data.train=t", "data.test=v", "data.schema=y", "out=o"]
    (config,) = compose.compose("evaluate", [*words, f"evaluate.survival={survival}"])
    assert list(config["evaluate"].survival) == expected
    with pytest.raises(BadInput, match="close every bracket"):
        compose.compose("evaluate", [*words, 'evaluate.survival=["Décès"'])
