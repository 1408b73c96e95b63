"""Every generator keeps the rules that the codec honours: exactly no record breaks one, whatever was learned."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from clinic import contracts, kind_of, make_frame, make_schema, quick
from sweeps import sweep

from synthdp import Budget, Synthesizer, accounting, load
from synthdp.audit import worst_pairs
from synthdp.ledger.events import scoped
from synthdp.ledger.ledger import Ledger
from synthdp.schema.rule_rows import broken
from synthdp.schema.tied_columns import ties
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder

NAMES = contracts()
BUDGET = Budget(2.0, 1e-5)
MANY = ("independent", "mixture", "classgauss")
RULES = [
    "seen <= left",
    {"never": {"sex": "female", "stage": "III"}},
    {"together": ["stage", "ward"], "allowed": [["I", "a"], ["II", "a"], ["II", "b"], ["III", "c"]]},
    "since < age",
]
COLUMNS = {
    "left": {"kind": "datetime", "bounds": ["2020-01-01", "2021-06-30"], "missing": True},
    "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
    "since": {"kind": "integer", "bounds": [0, 90]},
}


def schema_of(**more):
    return make_schema(columns=COLUMNS, rules=RULES, **more)


def frame_of(rows, seed=0):
    """Records that keep the rules; the longer since, the likelier ill."""
    rng = np.random.default_rng(seed)
    frame = make_frame(rows, seed)
    frame["left"] = frame["seen"] + pd.to_timedelta(rng.geometric(0.1, rows), unit="D")
    frame.loc[rng.random(rows) < 0.1, "left"] = pd.NaT
    women = (frame["sex"] == "female") & (frame["stage"] == "III")
    frame.loc[women, "stage"] = "I"
    second = np.where(rng.random(rows) < 0.5, "a", "b")
    frame["ward"] = np.select(
        [frame["stage"] == "I", frame["stage"] == "II", frame["stage"] == "III"], ["a", second, "c"], "a"
    )
    frame["age"] = frame["age"].clip(1)
    frame["since"] = np.minimum((frame["age"] - 1) * np.where(frame["ill"], 0.9, 0.2), 90).astype(int)
    return frame


@functools.lru_cache
def usual(name):
    """For most the cheapest settings that there are: what was learned does not matter here."""
    cheap = worst_pairs.SMALL.get(name)
    chosen = quick(name) if cheap is None or name in MANY else kind_of(name)(**cheap)
    return Synthesizer(chosen, schema=schema_of(), budget=BUDGET).fit(frame_of(500), seed=3)


@pytest.mark.heavy
@pytest.mark.parametrize("name", sweep(NAMES, MANY.__contains__))
def test_no_record_breaks_an_honoured_rule(name):
    release = usual(name)
    schema = release.schema
    assert schema.honoured == (0, 1, 2, 3)
    made = release.sample(20_000 if name in MANY else 3_000, seed=1)
    schema.validate(made)
    assert [int(broken(rule, made, schema).sum()) for rule in schema.rules] == [0, 0, 0, 0]
    if name in MANY:
        assert set(made["stage"].dropna()) == {"I", "II", "III"}
        assert set(made["ward"]) == {"a", "b", "c"}


def run(name, frame, schema, recorder=None):
    account = Account(BUDGET, Ledger(), unit=schema.unit or "record")
    data = Sensitive(frame, schema, account, seed=5, recorder=recorder)
    model = quick(name).fit(data, seed=5)
    return account.ledger.entries(), model


@pytest.mark.parametrize("name", sweep(MANY, lambda name: name == "mixture"))
def test_the_ledger_is_the_plan_and_the_budget_is_used(name):
    schema = schema_of()
    ledgers = {run(name, frame_of(rows), schema)[0] for rows in (0, 1, 30, 31)}
    noise = accounting.calibrate(lambda z: quick(name).plan(schema, z), BUDGET)
    assert ledgers == {scoped(quick(name).plan(schema, noise), relation="add_remove", unit="record")}
    assert 0.95 * BUDGET.epsilon <= usual(name).statement.epsilon <= BUDGET.epsilon


@pytest.mark.parametrize("name", sweep(MANY, lambda name: name == "mixture"))
@pytest.mark.parametrize("unit", [None, "patient"])
def test_replay_with_a_record_that_breaks_every_rule(name, unit):
    """Law 12 on codes of several columns: one more unit moves every answer by its sensitivity at most."""
    schema = schema_of(**({"unit": unit, "max_records_per_unit": 2} if unit else {}))
    whole = frame_of(60).astype(object)
    odd = {"patient": "p-new", "age": math.nan, "since": math.inf, "sex": "female", "stage": "III", "ward": "?"}
    whole = pd.concat([whole, whole.iloc[-1:].assign(left="1900-01-01", seen="2020-06-01", **odd)], ignore_index=True)
    first = Recorder()
    ledger, model = run(name, whole.iloc[:-1], schema, first)
    second = Recorder(of=first)
    again, same = run(name, whole, schema, second)
    assert again == ledger
    for one, other in zip(model.tensors().values(), same.tensors().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(moved <= sensitivity * (1 + 1e-9) for moved, sensitivity in second.movements)
    assert max(moved for moved, _ in second.movements) > 0


@pytest.mark.parametrize("name", MANY)
def test_saved_and_loaded(name, tmp_path):
    usual(name).save(tmp_path / "release")
    back = load(tmp_path / "release")
    assert back.schema == usual(name).schema
    pd.testing.assert_frame_equal(back.sample(40, seed=2), usual(name).sample(40, seed=2))


def test_a_release_of_before_still_loads(tmp_path):
    """Its schema has rules and does not say that any is honoured: its codes are those of the columns by themselves."""
    old = Synthesizer("independent", schema=schema_of(honoured=[]), budget=BUDGET).fit(frame_of(300), seed=3)
    old.save(tmp_path / "release")
    file = tmp_path / "release" / "release.json"
    text = file.read_text()
    assert text.count('"honoured": [],') == 1
    file.write_text(text.replace('"honoured": [],', "").replace('"format": 2', '"format": 1'))
    (tmp_path / "release" / "manifest.json").unlink()
    back = load(tmp_path / "release")
    assert ties(back.schema).honoured == ()
    pd.testing.assert_frame_equal(back.sample(30, seed=1), old.sample(30, seed=1))
    assert broken(back.schema.rules[0], back.sample(2000, seed=1), back.schema).any()


@pytest.mark.heavy
def test_gaps_and_combinations_are_learned():
    """At a large budget the mixture has the stays and the wards of the records."""
    frame = frame_of(4000)
    synthesizer = Synthesizer("mixture", schema=schema_of(), budget=Budget(1e6, 1e-5), components=60)
    made = synthesizer.fit(frame, seed=0).sample(4000, seed=1)
    stays = [(rows["left"] - rows["seen"]).dt.days.mean() for rows in (frame, made)]
    assert abs(stays[0] - stays[1]) < 1.5  # of 10 days; standard error 0.2
    for stage, ward in (("I", "a"), ("II", "b"), ("III", "c")):
        shares = [((rows["stage"] == stage) & (rows["ward"] == ward)).mean() for rows in (frame, made)]
        assert abs(shares[0] - shares[1]) < 0.04


@pytest.mark.parametrize("name", ["independent", "mixture"])
def test_conditions_and_rules_together(name):
    made = usual(name).sample(2000, where={"stage": ["II", "III"], "sex": "male", "left": None}, seed=4)
    assert set(made["stage"]) <= {"II", "III"}
    assert (made["sex"] == "male").all()
    assert made["left"].isna().all()
    every = usual(name).sample(60_000, seed=5)
    kept = every[every["stage"].isin(["II", "III"]) & (every["sex"] == "male") & every["left"].isna()]
    shares = [(rows["ward"] == "c").mean() for rows in (kept, made)]
    assert abs(shares[0] - shares[1]) < 6 * np.sqrt(0.25 / len(made) + 0.25 / len(kept))
