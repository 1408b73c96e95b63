"""What was read off the records stands in no release: from a draft to a page, and who declares what on the way."""

import json
import re
import stat
import warnings

import numpy as np
import pandas as pd
import pytest
from sweeps import heavy

from synthdp import PATE, BadInput, Budget, Schema, Synthesizer, load
from synthdp.cli import run
from synthdp.report.statement import NOBODY
from synthdp.schema.schema import Categorical, Integer
from synthdp.selecting import select

RARE, EXTREME = "Fabry disease", 987654.25
BUDGET = Budget(epsilon=0.1, delta=1e-6)


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """A CSV file in which one patient has a rare diagnosis, and one an extreme bill."""
    rng, rows = np.random.default_rng(0), 600
    frame = pd.DataFrame(
        {
            "patient": [f"p{row}" for row in range(rows)],
            "age": rng.integers(20, 90, rows),
            "bill": np.round(rng.lognormal(5, 1, rows), 2),
            "diagnosis": rng.choice(["asthma", "flu"], rows).astype(object),
            "ill": rng.choice(["yes", "no"], rows),
        }
    )
    frame.loc[3, "diagnosis"], frame.loc[5, "bill"] = RARE, EXTREME
    path = tmp_path_factory.mktemp("ward") / "patients.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def draft(patients, tmp_path):
    path = tmp_path / "schema.yaml"
    assert run(["schema", f"path={patients}", f"out={path}"]) == 0
    return path


def edited(path, *, reviewed=True, declared=True, **entries):
    """The steward's work on a draft; `entries` are lines in the place of a column's."""
    text = path.read_text()
    if reviewed:
        text = re.sub(r"\n *review: true[^\n]*", "", text)
    if declared:
        text = re.sub(r"\ndeclared_by:[^\n]*", "\ndeclared_by: A. Meier, data protection, May 2026", text)
    for name, entry in entries.items():
        text = re.sub(rf"\n  {name}:\n(    [^\n]*\n)+", f"\n  {name}: {entry}\n", text)
    path.write_text(text)
    return path


def fit(patients, schema, out, *more):
    words = ["generator=mixture", "budget.epsilon=0.1", "budget.delta=1e-6", f"out={out}", f"account={out}.account"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the command line shows them
        return run(["fit", f"data.path={patients}", f"data.schema={schema}", *words, *more])


def test_what_was_seen_is_in_a_file_of_the_stewards_own(patients, draft, capsys):
    assert run(["schema", f"path={patients}", f"out={draft}", "force=true"]) == 0
    seen = draft.with_name("schema.seen.internal.yaml")
    assert stat.S_IMODE(seen.stat().st_mode) == 0o600
    assert RARE in seen.read_text()
    assert str(seen) in capsys.readouterr().out
    for cell in (RARE, "asthma", "987654", "1000000", "20, 90"):
        assert cell not in draft.read_text()


def test_what_was_seen_before_is_not_written_over_unasked(patients, draft, output_of):
    draft.unlink()
    assert "schema.seen.internal.yaml exists" in output_of("schema", f"path={patients}", f"out={draft}", status=2).err
    assert run(["schema", f"path={patients}", f"out={draft}", "force=true"]) == 0


@pytest.mark.parametrize(
    ("done", "says", "silent"),
    [
        ({"reviewed": False, "declared": False}, ["'patient', 'age'", "declared_by"], "Traceback"),
        heavy(({"declared": False}, ["nobody declares it", 'declared_by: "A. Meier'], "review")),
        ({"reviewed": False}, ["delete its line `review: true`"], "declared_by"),
    ],
)
def test_a_schema_with_review_marks_or_nobodys_declaration_is_not_fitted(
    patients, draft, tmp_path, capsys, done, says, silent
):
    edited(draft, **done)
    capsys.readouterr()
    assert fit(patients, draft, tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert all(words in error for words in says)
    assert silent not in error
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "run.account").exists()


@pytest.mark.parametrize("done", [{"declared": False}, {"reviewed": False}])
def test_nor_in_python(patients, draft, tmp_path, done):
    schema, frame = Schema.load(edited(draft, **done)), pd.read_csv(patients)
    kept = {"ledger": tmp_path / "ledger.jsonl", "account": tmp_path / "account"}
    fits = (
        lambda: Synthesizer("mixture", schema=schema, budget=BUDGET).fit(frame, **kept),
        lambda: Synthesizer("mixture", schema=schema, budget=BUDGET).fit(frame, seed=1, **kept),
        lambda: select(["independent"], frame, schema, BUDGET, **kept),
        lambda: PATE().fit(frame, schema=schema, target="ill", public=frame.drop(columns="ill"), budget=BUDGET, **kept),
    )
    for each in fits:
        with pytest.raises(BadInput, match=r"^schema: (.* were guessed|nobody)"):
            each()
    assert not any(path.exists() for path in kept.values())


@pytest.mark.heavy
def test_a_draft_that_is_declared_releases_no_patients_cell(patients, draft, tmp_path, capsys):
    out = tmp_path / "run"
    assert fit(patients, edited(draft), out, "budget.epsilon=3") == 0, capsys.readouterr().err
    assert run(["report", f"release={out / 'release'}", f"out={tmp_path / 'page'}"]) == 0
    assert run(["sample", f"release={out / 'release'}", "rows=50", f"out={tmp_path / 'made.csv'}"]) == 0
    left = [draft, *(out / "release").iterdir(), *(tmp_path / "page").iterdir(), tmp_path / "made.csv"]
    left += (out / "internal").glob("ledger*")
    assert len(left) == 9
    for path in left:
        content = path.read_bytes()
        for cell in (RARE, "Fabry", "987654"):
            assert cell.encode() not in content, path
    statement = load(out / "release").statement
    assert statement.epsilon <= 3
    assert statement.declared["by"] == "A. Meier, data protection, May 2026"
    assert statement.declared["units"] == "learned"
    assert {name for column in statement.columns for name in column["bought"]} >= {"bounds", "categories"}
    page = (tmp_path / "page" / "statement.html").read_text()
    assert "A. Meier, data protection, May 2026" in page
    assert "read off the records at no charge" not in page


def test_a_table_too_small_for_what_is_left_to_learn_is_refused_before_a_charge(patients, draft, tmp_path, capsys):
    """As it is where `units` is declared. Nearly all of these columns would become noise."""
    edited(draft)
    assert fit(patients, draft, tmp_path / "run") == 2
    told = capsys.readouterr().err
    assert "noise would hide what is to be learned of 'age', 'bill', 'diagnosis'" in told
    assert "600" not in told
    assert not (tmp_path / "run.account").exists()
    schema, frame = Schema.load(draft), pd.read_csv(patients)
    made = Synthesizer("independent", schema=schema, budget=BUDGET)
    for refused in (
        lambda: made.fit(frame, account=tmp_path / "run.account"),
        lambda: select(["independent"], frame, schema, BUDGET, account=tmp_path / "run.account"),
    ):
        with pytest.raises(BadInput, match="noise would hide what is to be learned"):
            refused()
        assert not (tmp_path / "run.account").exists()
    with pytest.warns(UserWarning, match="noise hides"):
        made.fit(frame, seed=0, invalid="clamp")


def test_what_was_read_off_the_records_is_said_on_the_page_and_is_not_to_be_shared(patients, draft, tmp_path, capsys):
    diagnosis = f"{{kind: categorical, categories: [asthma, flu, {RARE}], observed: true}}"
    edited(draft, age="{kind: integer, bounds: [0, 120]}", diagnosis=diagnosis)
    assert fit(patients, draft, tmp_path / "run", "budget.epsilon=1", "generator=independent") == 0
    assert "Facts of diagnosis were read off the records" in capsys.readouterr().err
    release = load(tmp_path / "run" / "release")
    assert release.schema.column("diagnosis").observed
    assert any("Facts of diagnosis were read off" in text for text in release.statement.not_covered)
    assert run(["report", f"release={tmp_path / 'run' / 'release'}", f"out={tmp_path / 'page'}"]) == 0
    page = " ".join(re.sub("<[^>]*>", " ", (tmp_path / "page" / "statement.html").read_text()).split())
    answer = page[page.index("Can I share it?") : page.index("Who is protected")]
    assert "Not like this." in answer
    assert "Facts of diagnosis were read off the records" in answer
    assert "or by `learn`, and fit again" in answer
    assert "Nothing about the table was learned" not in page


def test_a_schema_that_a_program_writes_down_is_declared_by_it(tmp_path):
    schema = Schema(columns=(Categorical(name="a", categories=("x", "y")), Integer(name="b", bounds=(0, 9))))
    frame = pd.DataFrame({"a": ["x", "y"] * 50, "b": [1, 2] * 50})
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame)
    assert release.statement.declared["by"] == "the calling program"
    release.save(tmp_path / "release")
    assert load(tmp_path / "release").schema.declared_by == "the calling program"
    assert Schema.from_dict({"columns": {"a": {"kind": "boolean"}}}).declared_by is None
    with pytest.raises(BadInput, match="nobody declares"):
        Schema(columns=schema.columns, declared_by=" ").check_declared()


def test_a_release_whose_schema_nobody_declared_still_opens(tmp_path):
    """As earlier versions made them."""
    schema = Schema(columns=(Categorical(name="a", categories=("x", "y")),))
    frame = pd.DataFrame({"a": ["x", "y"] * 50})
    Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame).save(tmp_path / "release")
    text = json.loads((tmp_path / "release" / "release.json").read_text())
    del text["schema"]["declared_by"]
    text |= {
        "format": 1,
        "statement": {**text["statement"], "declared": {**text["statement"]["declared"], "by": NOBODY}},
    }
    (tmp_path / "release" / "release.json").write_text(json.dumps(text))
    (tmp_path / "release" / "manifest.json").unlink()
    release = load(tmp_path / "release")
    assert release.schema.declared_by is None
    assert len(release.sample(3)) == 3


def test_a_draft_of_an_earlier_version_is_not_taken_for_a_schema(tmp_path):
    path = tmp_path / "old.yaml"
    path.write_text(
        "# DRAFT, READ OFF THE DATA in patients.csv.\ndeclared_by: A. Meier\n"
        "columns:\n  diagnosis:\n    kind: categorical\n    categories: [flu, Fabry]  # REVIEW: list all that may occur\n"
    )
    with pytest.raises(BadInput, match=r"old.yaml: lines marked # REVIEW: were read off the records"):
        Schema.load(path)


@pytest.mark.parametrize("mark", ["review", "observed"])
def test_marks_are_facts_of_a_column(tmp_path, mark):
    values = {"declared_by": "us", "columns": {"a": {"kind": "integer", "bounds": [0, 9], mark: True}}}
    schema = Schema.from_dict(values)
    assert schema.to_dict()["columns"]["a"] == values["columns"]["a"]
    schema.save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == schema
    with pytest.raises(BadInput, match=f"column 'a': {mark} must be true or false"):
        Schema.from_dict({"columns": {"a": {"kind": "boolean", mark: "yes"}}})
