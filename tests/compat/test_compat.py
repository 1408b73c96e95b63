"""What an earlier version wrote stays readable: releases, classifiers, ledgers, accounts, checkpoints, canaries and schemas.

Each folder `formatN` holds what the code of one commit wrote. Its `expected.json` names the commit and records every fact that
must be read back. A folder is never written again: where a test here fails, mend the reader. A further format gets a further
folder.

`make.py` made them. It need not run on later code, so nothing here imports it; it imports this file, so that both tell a fact
in the same form.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import make_schema
from sklearn.linear_model import LogisticRegression

from synthdp import BadInput, Budget, Schema, Synthesizer, accounting, cli, generators, load, pate
from synthdp.budgets import AccountFile
from synthdp.ledger.events import to_json
from synthdp.ledger.ledger import Ledger

HERE = Path(__file__).parent
FORMATS = sorted(folder for folder in HERE.glob("format*") if folder.is_dir())
DELTA = 1e-5
ROWS = 1000  # sampled here; `make.py` sampled four times as many
CLOSE = 0.08  # at least 4.5 standard deviations of the difference of two such means of numbers within [0, 1]
PROMISES = ("epsilon", "delta", "relation", "unit", "max_records_per_unit", "accountant")
ORIGINS = ("generator", "rehearsal", "release_id")


# What is recorded of each artefact, as plain JSON.


def plain(value):
    """Lists for tuples, as JSON has them."""
    return json.loads(json.dumps(value))


def told_statement(said):
    """What a statement promises, and what is special about its fit."""
    return plain(
        {name: getattr(said, name) for name in (*PROMISES, *ORIGINS)}
        | {
            "budget": asdict(said.budget),
            "bought": [column["name"] for column in said.columns if column["bought"]],
            "account": said.account and asdict(said.account),
            "fitness": said.fitness and said.fitness.to_json(),
        }
    )


def told_entries(entries):
    return plain([{"event": to_json(entry.event), "count": entry.count} for entry in entries])


def told_standing(standing):
    """What an account says of itself and of its fits; `resumable` are the ledgers of fits that did not finish."""
    fits = [
        {"number": fit.number, "state": fit.state, "by": fit.by, "budget": fit.budget, "price": asdict(fit.price)}
        | {"generator": fit.body["generator"], "rehearsal": fit.body["rehearsal"]}
        for fit in standing.fits
    ]
    ledgers = {fit.body["ledger"] for fit in standing.fits if fit.body["ledger"] is not None}
    return plain(
        {
            "filter": standing.filter.name,
            "order": standing.filter.order,
            "cap": standing.cap and asdict(standing.cap),
            "spent": asdict(standing.spent),
            "left": standing.left and asdict(standing.left),
            "neighbours": standing.neighbours,
            "versions": len(standing.fingerprints),
            "changes": [change["kind"] for change in standing.changes],
            "resumable": {ledger: standing.unfinished(ledger) for ledger in sorted(ledgers)},
            "fits": fits,
        }
    )


def portrait(frame, schema):
    """Means within [0, 1]: the share of each category and of missing cells, and where numbers lie between their bounds."""
    found = {}
    for name, column in schema.to_dict()["columns"].items():
        cells, kind = frame[name], column["kind"]
        if kind == "image":
            pixels = np.stack(cells).reshape(len(cells), -1) / 255
            found |= {f"{name} {part}": half.mean() for part, half in enumerate(np.array_split(pixels, 2, axis=1))}
        elif kind in ("categorical", "ordinal"):
            found |= {f"{name} {value}": (cells.astype(object) == value).mean() for value in column["categories"]}
        elif kind == "boolean":
            found[name] = (cells.astype(object) == True).mean()  # noqa: E712 - cells may be missing
        elif kind != "identifier":
            low, high = column["bounds"]
            if kind == "datetime":
                cells, low, high = pd.to_datetime(cells), pd.Timestamp(low), pd.Timestamp(high)
            found[name] = ((cells - low) / (high - low)).mean() if cells.notna().any() else 0.0
        if column.get("missing"):
            found[f"{name} missing"] = cells.isna().mean()
    return {name: round(float(value), 3) for name, value in found.items()}


def records(path):
    """The frame of a made-up table, or of pictures."""
    if path.suffix == ".csv":
        return pd.read_csv(path)
    arrays = np.load(path)
    return pd.DataFrame({name: pd.Series(list(arrays[name])) for name in arrays})


# What must be read back.

EXPECTED = {folder: json.loads((folder / "expected.json").read_text(encoding="utf-8")) for folder in FORMATS}


def each(kind):
    """For every artefact of a kind, of every format."""
    found = [
        pytest.param(folder, name, id=f"{folder.name}-{name}") for folder in FORMATS for name in EXPECTED[folder][kind]
    ]
    return pytest.mark.parametrize(("folder", "name"), found)


def holds(found, expected):
    """Whether all that is expected is found; what is read may say more than it did then."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(key in found and holds(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(holds, found, expected))
    return found == expected


def tolerance(provenance, accountant):
    """1e-9 with the versions and the grid that were recorded, else 1e-3 (law 34)."""
    return 1e-9 if plain(accounting.provenance()[accountant]) == provenance[accountant] else 1e-3


def check_statement(path, said, ledger, expected):
    """The statement says what was recorded and what its file says, and its events cost the epsilon that it claims."""
    assert holds(told_statement(said), expected)
    written = json.loads(path.read_text(encoding="utf-8"))["statement"]
    for name in ("not_covered", "noise_source", "declared", "columns"):
        assert holds(plain(getattr(said, name)), written[name]), name
    assert told_entries(ledger.entries()) == told_entries(said.events)
    close = tolerance(said.provenance, said.accountant)
    assert said.recompute() == pytest.approx(expected["epsilon"], abs=close)


@pytest.mark.parametrize("folder", FORMATS, ids=lambda folder: folder.name)
def test_every_artefact_has_its_facts(folder):
    for kind in ("releases", "classifiers", "ledgers", "accounts", "checkpoints", "canaries", "schemas"):
        assert {path.stem for path in (folder / kind).iterdir()} == set(EXPECTED[folder][kind]) != set(), kind


@pytest.mark.heavy
@each("releases")
def test_a_release_is_what_it_was(folder, name):
    """It loads and claims what it claimed, its events cost the same epsilon, and it samples the same distribution."""
    expected = EXPECTED[folder]["releases"][name]
    release = load(folder / "releases" / name)
    check_statement(
        folder / "releases" / name / "release.json", release.statement, release.ledger, expected["statement"]
    )
    frame = release.sample(ROWS, seed=1)
    assert len(frame) == ROWS
    release.schema.validate(frame, "error")
    assert portrait(frame, release.schema) == pytest.approx(expected["sample"], abs=CLOSE)


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("pategan", "pategan", "kernel_teachers"),
        ("pategan-original", "pategan", "pategan_original"),
        ("images-pategan", "pategan", "kernel_teachers_images"),
        ("images-dpgan", "dpgan", "dpgan_images"),
        ("images-dpgan-conv", "dpgan", "dpgan_images"),
        ("images-dpgan-mlp", "dpgan", "dpgan_images"),
    ],
)
def test_a_generator_that_was_renamed_is_found_by_its_settings(name, then, now, tmp_path):
    """It is saved again as the generator that its statement names."""
    release = load(HERE / "format1" / "releases" / name)
    assert (release.generator.name, release.statement.generator) == (now, then)
    release.save(tmp_path / "release")
    again = load(tmp_path / "release")
    assert again.generator == release.generator
    assert again.sample(20, seed=1).equals(release.sample(20, seed=1))


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("pategan", {"start": "none", "tables": 0.5}, {"start": "none"}),
        ("pategan", {"start": "label", "tables": 0.5}, {"start": "label", "tables": 0.5}),
        ("dpgan", {"start": "none", "tables": 0.25}, {"start": "none"}),
        ("dpgan", {"start": None}, {"start": "label"}),
        ("kernel_teachers", {"start": None}, {"start": "label"}),
        ("pategan", {"mode": "shares", "start": None}, {"start": "label"}),
    ],
)
def test_older_defaults_of_a_start_are_what_they_were(name, then, now):
    found = generators.renamed(name, then, make_schema())
    assert found[1] == now
    assert generators.make(*found).start == now["start"]


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("kernel_teachers", {"witness_weight": 2.0}, {"student_weight": 2.0}),
        ("kernel_teachers_images", {"witness_weight": 2.0}, {"student_weight": 2.0}),
        ("pategan", {"mode": "shares", "witness_weight": 2.0}, {"student_weight": 2.0}),
        ("pategan", {"mode": "original", "witness_weight": 1.0}, {}),
    ],
)
def test_a_setting_that_was_renamed_is_found_by_its_old_name(name, then, now):
    found = generators.renamed(name, then, make_schema())
    assert found[1] == now
    made = generators.make(*found)
    assert {setting: getattr(made, setting) for setting in now} == now


@each("classifiers")
def test_a_classifier_is_what_it_was(folder, name):
    expected = EXPECTED[folder]["classifiers"][name]
    student = None if expected["stored"] else pate.Estimator(LogisticRegression())
    classifier = pate.load(folder / "classifiers" / name, student=student)
    check_statement(
        folder / "classifiers" / name / "release.json", classifier.statement, classifier.ledger, expected["statement"]
    )
    frame = records(folder / "tables" / expected["table"])
    found = classifier.predict_proba(frame.head(len(expected["probabilities"])))
    np.testing.assert_allclose(found, expected["probabilities"], atol=0.01)


@each("ledgers")
def test_a_ledger_says_what_was_charged(folder, name):
    expected = EXPECTED[folder]["ledgers"][name]
    ledger = Ledger.read(folder / "ledgers" / f"{name}.jsonl")
    assert holds(told_entries(ledger.entries()), expected["entries"])
    assert (sorted(ledger.resumed), ledger.kept) == (expected["resumed"], expected["kept"])
    assert expected["head"] in (ledger.head, None)
    for accountant, epsilon in expected["epsilons"].items():
        close = tolerance(EXPECTED[folder]["accounting"], accountant)
        assert accounting.epsilon(ledger, DELTA, accountant) == pytest.approx(epsilon, abs=close)


@each("accounts")
def test_an_account_counts_on(folder, name, tmp_path):
    """Its totals are unchanged, it refuses another table and too large a budget, and a further fit is entered."""
    expected = EXPECTED[folder]["accounts"][name]
    path = Path(shutil.copy(folder / "accounts" / f"{name}.account", tmp_path))
    table = folder / "tables" / expected["table"]
    account = AccountFile(path=path, head=expected["head"], source=table if expected["by_file"] else None)
    before = account.read()
    assert before.head == expected["head"]
    assert holds(told_standing(before), expected["standing"])

    schema, frame = Schema.load(folder / "schemas" / f"{expected['schema']}.yaml"), records(table)
    fit = Synthesizer("independent", schema=schema, budget=Budget(0.25, 1e-8)).fit
    with pytest.raises(BadInput, match="another table"):
        AccountFile(path=path).check_table(lambda _: "another")
    if before.left is not None:
        with pytest.raises(BadInput, match="is left"):
            Synthesizer("independent", schema=schema, budget=Budget(100.0, 1e-8)).fit(frame, account=account)
    assert account.read().hashes == before.hashes, "what is refused leaves no trace"

    statement = fit(frame, account=account).statement
    assert statement.account.head_checked
    after = account.read()
    assert after.hashes[: len(before.hashes)] == before.hashes
    assert after.spent.loss > before.spent.loss or before.spent.loss == np.inf
    assert holds(told_standing(after)["fits"][:-1], expected["standing"]["fits"])
    assert after.fits[-1].state == "finished"


@pytest.mark.heavy
@each("checkpoints")
def test_a_stopped_fit_goes_on_or_is_refused_in_one_line(folder, name, tmp_path):
    """Which of the two is not promised, since a checkpoint belongs to the version that wrote it. Its ledger counts in both cases."""
    expected = EXPECTED[folder]["checkpoints"][name]
    shutil.copytree(folder / "checkpoints" / name, tmp_path, dirs_exist_ok=True)
    bound = expected["account"]
    account = bound and shutil.copy(folder / "accounts" / f"{bound}.account", tmp_path)
    budget = Budget(**expected["budget"])
    schema = Schema.load(folder / "schemas" / f"{expected['schema']}.yaml")
    called_now = generators.renamed(expected["generator"], expected["settings"], schema)
    synthesizer = Synthesizer(generators.make(*called_now), schema=schema, budget=budget)
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.safetensors", "account": account}
    release, refusal = None, ""
    try:
        release = synthesizer.fit(records(folder / "tables" / expected["table"]), **files, resume=True)
    except BadInput as error:
        refusal = str(error)
    if release is None:
        assert str(files["checkpoint"]) in refusal
        assert "\n" not in refusal
    else:
        assert not bound, "where its account lies is part of which fit it is"
        assert 0 < release.statement.epsilon <= budget.epsilon
    charged = told_entries(Ledger.read(tmp_path / "ledger.jsonl").entries())
    for entry in expected["entries"]:
        assert sum(other["count"] for other in charged if other["event"] == entry["event"]) >= entry["count"]


@each("canaries")
def test_canaries_belong_to_their_release(folder, name, capsys):
    expected = EXPECTED[folder]["canaries"][name]
    files = [f"release={folder / 'releases' / expected['release']}", f"canaries={folder / 'canaries' / name}.json"]
    assert cli.run(["audit", *files, "rows=1000", "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["canaries"], found["claimed"]) == (expected["number"], expected["claimed"])


@each("schemas")
def test_a_schema_says_what_it_said(folder, name):
    """But a draft that was not reviewed: what it read off the records may not be fitted (law 39)."""
    if name == "draft" and folder.name == "format1":
        with pytest.raises(BadInput, match="draft of an earlier version"):
            Schema.load(folder / "schemas" / f"{name}.yaml")
        return
    schema = Schema.load(folder / "schemas" / f"{name}.yaml")
    assert holds(plain(schema.to_dict()), EXPECTED[folder]["schemas"][name])


def test_a_default_of_before_stays_what_it_was():
    """None stood for the start at tables of the label, before dpgan started at a mixture."""
    assert load(HERE / "format1" / "releases" / "dpgan").generator.start == "label"
