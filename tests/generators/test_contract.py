"""One contract suite: all generators x all laws. A generator that is added is found and judged here."""

import dataclasses
import functools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from clinic import contracts, kind_of, make_frame, make_schema, quick, reseal
from sweeps import heavy, lone, sweep

from synthdp import BadInput, Budget, Synthesizer, accounting, load, verify
from synthdp.ledger.events import Entry, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder

NAMES = contracts()
BUDGET = Budget(epsilon=1.0, delta=1e-5)
CANARY = "canary-7f3a91c2d4e5b6a798"


def fitted(name, frame, schema, budget=BUDGET, seed=3):
    return Synthesizer(quick(name), schema=schema, budget=budget).fit(frame, seed=seed)


@functools.lru_cache
def usual(name):
    """One release for all tests that look at an ordinary one; nothing in it changes."""
    return fitted(name, make_frame(400), make_schema())


def least_noise(name, schema, budget):
    """By pld, or by rdp where pld has no proof (a plan that is a zCDP cap)."""
    try:
        return accounting.calibrate(lambda z: quick(name).plan(schema, z), budget)
    except accounting.Unproven:
        return accounting.calibrate(lambda z: quick(name).plan(schema, z), budget, "rdp")


def run(name, frame, schema, recorder=None, seed=5, budget=BUDGET):
    account = Account(budget, Ledger(), unit=schema.unit or "record")
    data = Sensitive(frame, schema, account, seed=seed, recorder=recorder)
    model = quick(name).fit(data, schema, budget, seed=seed)
    return account.ledger.entries(), model


@pytest.fixture(params=sweep(NAMES, lone))
def name(request):
    return request.param


@pytest.mark.parametrize("epsilon", [0.5, heavy(3.0)])
def test_the_budget_is_kept_and_nearly_used(name, frame, schema, epsilon):
    statement = fitted(name, frame, schema, Budget(epsilon, 1e-5)).statement
    assert 0.95 * epsilon <= statement.epsilon <= epsilon


def test_the_ledger_is_the_plan_whatever_the_records_are(name, schema):
    budget = BUDGET
    ledgers = []
    for rows in (0, 1, 40, 41):
        ledger, _ = run(name, make_frame(rows), schema)
        ledgers.append(ledger)
    assert len(set(ledgers)) == 1
    noise = least_noise(name, schema, budget)
    assert ledgers[0] == scoped(quick(name).plan(schema, noise), relation="add_remove", unit="record")


@pytest.mark.parametrize("unit", [None, "patient"])
def test_replay(name, unit):
    """Law 12: the answers of a run on D, fed to a run on D plus one unit: same questions, bounded movement."""
    changes = {"unit": unit, "max_records_per_unit": 2} if unit else {}
    schema = make_schema(**changes)
    whole = make_frame(60, repeats=3)
    extra = {"age": math.nan, "dose": math.inf, "sex": CANARY, "stage": None, "ill": None, "seen": pd.NaT}
    whole = pd.concat([whole, whole.iloc[-3:].assign(patient="p-new", **extra)], ignore_index=True)
    fewer = whole.iloc[:-3] if unit else whole.iloc[:-1]
    first = Recorder()
    ledger, model = run(name, fewer, schema, first)
    second = Recorder(of=first)
    again, same = run(name, whole, schema, second)
    assert again == ledger
    # Law 14, and more: given the answers, nothing of the model depends on the records (the fake half included).
    for one, other in zip(model.tensors().values(), same.tensors().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(second.movements) == len(first.asked) > 0
    for moved, sensitivity in second.movements:
        assert moved <= sensitivity * (1 + 1e-9)
    assert max(moved for moved, _ in second.movements) > 0


def test_frames_have_the_schemas_columns_dtypes_and_values(name, schema):
    release = usual(name)
    sample = release.sample(700, seed=1)
    assert list(sample.columns) == list(schema.names)
    assert len(sample) == 700
    schema.validate(sample, "error")
    assert sample["patient"].is_unique
    assert list(sample["sex"].cat.categories) == ["female", "male"]
    assert sample["stage"].cat.ordered
    assert sample["age"].dtype == "int64"
    assert sample["dose"].isna().any()
    assert not sample["age"].isna().any()
    assert len(release.sample(0)) == 0
    assert len(release.sample(1)) == 1


def test_the_same_seed_gives_the_same_frame(name, frame, schema):
    release, again = usual(name), fitted(name, frame, schema)
    pd.testing.assert_frame_equal(release.sample(50, seed=9), again.sample(50, seed=9))
    assert not release.sample(50, seed=9).equals(release.sample(50, seed=10))
    assert not release.sample(50).equals(release.sample(50))


def test_without_a_seed_two_fits_differ_and_are_no_rehearsal(name, frame, schema):
    one, other = (fitted(name, frame, schema, seed=None) for _ in range(2))
    assert not one.statement.rehearsal
    assert fitted(name, frame, schema, seed=1).statement.rehearsal
    tensors = zip(one.model.tensors().values(), other.model.tensors().values(), strict=True)
    assert any(not np.array_equal(a, b) for a, b in tensors)


def test_saved_and_loaded_it_gives_the_same_frame(name, tmp_path):
    release = usual(name)
    release.save(tmp_path / "release")
    back = load(tmp_path / "release")
    pd.testing.assert_frame_equal(release.sample(60, seed=2), back.sample(60, seed=2))
    assert back.statement == release.statement
    assert back.statement.recompute() == pytest.approx(release.statement.epsilon, abs=1e-9)
    assert {"epsilon", "columns", "not_covered", "settings"} <= set(verify(tmp_path / "release").checked)
    assert sorted(file.name for file in (tmp_path / "release").iterdir()) == [
        "ledger.jsonl",
        "manifest.json",
        "model.safetensors",
        "release.json",
    ]


def test_an_altered_release_is_refused(name, tmp_path):
    usual(name).save(tmp_path / "release")
    ledger = tmp_path / "release" / "ledger.jsonl"
    text = ledger.read_text()
    ledger.write_text(re.sub('"(noise|bound)":', r'"\1":1', text, count=1))
    with pytest.raises(BadInput, match=r"'ledger\.jsonl' is not the file"):
        load(tmp_path / "release")
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="altered"):
        load(tmp_path / "release")
    ledger.write_text(text)
    description = json.loads((tmp_path / "release" / "release.json").read_text())
    description["schema"]["columns"]["sex"]["categories"].append("x")
    sex = next(column for column in description["statement"]["columns"] if column["name"] == "sex")
    sex["declared"]["categories"].append("x")
    (tmp_path / "release" / "release.json").write_text(json.dumps(description))
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="model"):
        load(tmp_path / "release")


def test_a_release_that_claims_too_little_is_refused(name, tmp_path):
    usual(name).save(tmp_path / "release")
    file = tmp_path / "release" / "release.json"
    description = json.loads(file.read_text())
    description["statement"]["epsilon"] = description["statement"]["epsilons"][
        description["statement"]["accountant"]
    ] = 0.01
    file.write_text(json.dumps(description))
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="statement's epsilons does not match what the ledger's events cost"):
        verify(tmp_path / "release")


def test_the_release_holds_no_rows(name, frame, schema, tmp_path):
    """Canaries in identifiers and in an undeclared category, and the rows' own bytes, are nowhere in the release."""
    marked = frame.copy()
    marked["patient"] = [f"{CANARY}-{row}" for row in range(len(marked))]
    marked["sex"] = marked["sex"].astype(object)
    marked.loc[3, "sex"] = CANARY
    release = Synthesizer(quick(name), schema=schema, budget=BUDGET).fit(marked, seed=3, invalid="clamp")
    release.save(tmp_path / "release")
    content = b"".join(file.read_bytes() for file in (tmp_path / "release").iterdir())
    assert CANARY.encode() not in content
    codes = Codec(schema).encode(marked)
    for dtype in (np.int32, np.int64, np.uint8, np.float32, np.float64):
        for row in codes[:20].astype(dtype):
            assert row.tobytes() not in content


@pytest.mark.parametrize("rows", [0, 1])
def test_zero_and_one_record_fit_like_any_other_number(name, rows, schema):
    release = fitted(name, make_frame(rows), schema)
    assert release.statement.epsilon <= 1.0
    schema.validate(release.sample(20, seed=1), "error")


def test_an_infinite_budget_recovers_the_marginals(name, schema):
    frame = make_frame(1500)
    generator = quick(name, **getattr(kind_of(name), "marginals_settings", {}))
    release = Synthesizer(generator, schema=schema, budget=Budget(math.inf, 1e-5)).fit(frame, seed=0)
    assert release.statement.epsilon == math.inf
    real, fake = frame, release.sample(4000, seed=1)
    for column in ("sex", "ill", "stage"):
        expected = real[column].value_counts(normalize=True)
        found = fake[column].astype(object).value_counts(normalize=True)
        assert float((expected - found.reindex(expected.index, fill_value=0.0)).abs().sum()) / 2 < 0.08


def test_too_small_a_budget_is_refused_with_nothing_charged(name, frame, tmp_path):
    learn = {"sex": {"kind": "categorical", "categories": "learn"}}
    schema = make_schema(columns=learn)
    ledger = tmp_path / "ledger.jsonl"
    synthesizer = Synthesizer(quick(name), schema=schema, budget=Budget(1e-9, 1e-300))
    try:
        synthesizer.fit(frame, seed=0, ledger=ledger)
    except BadInput:
        assert not ledger.exists()
    else:
        assert accounting.epsilon(Ledger.read(ledger), 1e-300) <= 1e-9


def test_settings_are_frozen_keyword_only_and_documented(name):
    kind = kind_of(name)
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.name == name.partition(":")[0]
    for field in dataclasses.fields(kind):
        assert field.kw_only, field.name
        assert field.metadata.get("help"), f"setting {field.name} has no help"


def test_a_release_is_printed_in_one_line(name):
    said = repr(usual(name))
    assert len(said) < 140
    assert kind_of(name).name in said
    assert "rehearsal" in said


def test_unknown_settings_are_refused_by_name(name, schema, budget):
    with pytest.raises(BadInput, match="no_such_setting"):
        Synthesizer(kind_of(name).name, schema=schema, budget=budget, no_such_setting=1)


def test_plans_read_no_data_and_count_the_same_twice(name, schema):
    plan = quick(name).plan(schema, 2.0)
    assert plan == quick(name).plan(schema, 2.0)
    assert all(isinstance(entry, Entry) for entry in plan)
