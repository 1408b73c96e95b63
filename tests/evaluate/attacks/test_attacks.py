import json
import math
from collections import Counter

import numpy as np
import pytest
from attack_tables import AXES, LEVELS, population, table
from scipy.stats import binom

from synthdp.errors import BadInput
from synthdp.evaluate import attacks
from synthdp.evaluate.attacks import bounds
from synthdp.evaluate.attacks.case import case_of, secrets_of
from synthdp.evaluate.tables import Axis, Table

CLAIM = {"epsilon": 0.1, "delta": 1e-6, "unit": "record"}
KEYS = {"id", "title", "question", "verdict", "text", "figures", "source"}
FIGURE = {"label", "value", "interval", "baseline", "bound", "better"}


@pytest.fixture(scope="module")
def copied():
    train, test = population(200, 1), population(400, 2)
    return {x["id"]: x for x in attacks.run(train, train, test, targets=["code"], claim=CLAIM)[0]}


# Attack -> figure -> what a generator that copies its training rows reaches at least (at most, for ratios).
CAUGHT = {
    "membership_distance": {"AUROC": 0.99, "advantage": 0.98, "members among": 0.99},
    "membership_density": {"AUROC": 0.95, "advantage": 0.8, "members among": 0.99},
    "attribute": {"code": 0.8},
    "singling_out": {"one column": 0.5, "several columns": 0.9},
    "linkability": {"share linked": 0.8},
    "closeness": {"synthetic rows nearer": 0.99, "5th percentile of DCR": 0.0, "5th percentile of NNDR": 0.0},
    "copies": {"share copied": 0.99},
}


def test_every_attack_has_a_copying_generator_to_catch():
    assert set(attacks.NAMES) == set(CAUGHT)


@pytest.mark.parametrize("name", CAUGHT)
def test_copies_are_caught(copied, name):
    found = copied[name]
    assert found["verdict"] == "concern"
    assert "more than" in found["text"]  # than epsilon 0.1 allows
    for start, least in CAUGHT[name].items():
        (figure,) = [f for f in found["figures"] if f["label"].startswith(start)]
        if figure["better"] == "higher":
            assert figure["value"] <= least
        else:
            assert figure["value"] >= least
            assert figure["interval"][0] > figure["bound"] > figure["baseline"]


@pytest.mark.heavy
def test_false_alarms_are_as_rare_as_stated(monkeypatch):
    """Independent rows of the same distribution: each attack alarms in at most 2.5 % of cases, over 30 of them."""
    monkeypatch.setattr(bounds, "RESAMPLES", 200)
    alarms = Counter()
    for seed in range(30):
        parts = population(80, (seed, 1)), population(80, (seed, 2)), population(160, (seed, 3))
        found, lacking = attacks.run(*parts, targets=["site", "weight"])
        assert not lacking
        alarms.update(x["id"] for x in found if x["verdict"] == "concern")
    assert max(alarms.values(), default=0) <= binom.ppf(0.9999, 30, 0.025), alarms
    assert sum(alarms.values()) <= binom.ppf(0.9999, 30 * len(attacks.NAMES), 0.025), alarms


def test_a_few_copied_records_are_found():
    """A tenth of the rows copied, the rest honest: averages hide it, the surest 5 % and the copies do not."""
    train, test, fresh = population(400, 7), population(800, 8), population(400, 9)
    made = Table(axes=AXES, values=np.concatenate([train.values[:40], fresh.values[40:]]))
    found = {x["id"]: x["verdict"] for x in attacks.run(made, train, test)[0]}
    assert found["membership_distance"] == found["copies"] == "concern"


def test_form_and_plain_types():
    told = []
    parts = population(60, 1), population(60, 2), population(70, 3)
    found, lacking = attacks.run(*parts, targets=["site"], claim=CLAIM, step=told.append, jobs=2)
    assert lacking == []
    assert [x["id"] for x in found] == list(attacks.NAMES)
    assert len(told) == len(found)
    json.dumps(found, allow_nan=False)
    for entry in found:
        assert set(entry) == KEYS
        assert entry["verdict"] in ("pass", "concern")
        assert entry["figures"]
        for figure in entry["figures"]:
            assert set(figure) == FIGURE
            low, high = figure["interval"]
            assert low <= figure["value"] <= high or figure["better"] == "higher" or "AUROC" in figure["label"]
            assert figure["bound"] is None or -1e-9 <= figure["bound"] <= 1


def test_the_same_in_every_run_and_on_any_number_of_threads():
    parts = population(80, 1), population(80, 2), population(90, 3)
    assert attacks.run(*parts, jobs=1) == attacks.run(*parts, jobs=3)


def test_no_value_of_a_record_is_told(copied):
    """Level names, and numbers of real rows that no count could be, are in no text."""
    text = json.dumps([[x["text"], [f["label"] for f in x["figures"]]] for x in copied.values()])
    assert not [level for level in LEVELS if level in text]
    train = population(200, 1)
    for column in ("weight", "lab"):
        for value in train.column(column):
            assert math.isnan(value) or f"{value:.4g}" not in text


WHOLE = population(120, 4)
ONE = Axis(name="x", kind="number", low=0, high=1)
AWKWARD = {
    "no synthetic rows": (WHOLE.take(np.arange(0)), WHOLE, WHOLE),
    "one synthetic row": (WHOLE.take(np.arange(1)), WHOLE, WHOLE),
    "no training rows": (WHOLE, WHOLE.take(np.arange(0)), WHOLE),
    "one training row": (WHOLE, WHOLE.take(np.arange(1)), WHOLE),
    "no test rows": (WHOLE, WHOLE, WHOLE.take(np.arange(0))),
    "one test row": (WHOLE, WHOLE, WHOLE.take(np.arange(1))),
    "no column": (Table(axes=(), values=np.empty((100, 0))),) * 3,
    "all missing": (Table(axes=AXES, values=np.full((100, 6), np.nan)),) * 3,
    "constant": (Table(axes=AXES, values=np.ones((100, 6))),) * 3,
}


@pytest.mark.parametrize("parts", AWKWARD.values(), ids=list(AWKWARD))
def test_awkward_tables_are_not_computed_with_a_reason(parts):
    found, lacking = attacks.run(*parts)
    assert {x["verdict"] for x in found} == {"not computed"}
    assert [x["metric"] for x in lacking] == [f"attacks.{name}" for name in attacks.NAMES]
    assert all(len(x["reason"]) > 10 for x in lacking)


def test_one_column():
    rng = np.random.default_rng(0)
    found, lacking = attacks.run(*(table([ONE], rng.random(100)) for _ in range(3)))
    json.dumps(found, allow_nan=False)
    assert {x["metric"] for x in lacking} == {"attacks.attribute", "attacks.linkability"}
    assert {x["verdict"] for x in found} == {"pass", "not computed"}


CATEGORY = Axis(name="c", kind="category", levels=("a", "b"))
STRANGE = {
    "synthetic rows all alike": (Table(axes=AXES, values=np.ones((100, 6))), population(100, 5), population(100, 6)),
    "synthetic rows all missing": (
        Table(axes=AXES, values=np.full((100, 6), np.nan)),
        population(100, 5),
        population(100, 6),
    ),
    "few distinct rows": tuple(
        table([CATEGORY, CATEGORY], *np.random.default_rng(i).integers(0, 2, (2, 90))) for i in range(3)
    ),
    "numbers beyond all bounds": tuple(
        table([ONE, CATEGORY], 1e12 * np.random.default_rng(i).normal(size=90), np.arange(90) % 2) for i in range(3)
    ),
    "a secret that is mostly missing": tuple(
        table([CATEGORY, ONE], np.where(np.arange(90) < 9, 1.0, np.nan), np.random.default_rng(i).random(90))
        for i in range(3)
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("parts", STRANGE.values(), ids=list(STRANGE))
def test_strange_tables_give_no_nan_and_no_alarm(parts):
    found, lacking = attacks.run(*parts, claim=CLAIM)
    json.dumps(found, allow_nan=False)
    assert "concern" not in {x["verdict"] for x in found}
    assert {f"attacks.{x['id']}" for x in found if x["verdict"] == "not computed"} == {x["metric"] for x in lacking}


def test_who_is_attacked():
    synthetic, train, test = population(50, 1), population(500, 2), population(300, 3)
    case = case_of(synthetic, train, test, secrets=(), claim=None, jobs=1)
    assert case.members.rows == case.outsiders.rows == case.reference.rows == 150
    assert case.train.rows == case.test.rows == 300
    held = [row.tobytes() for part in (case.outsiders, case.reference) for row in part.values]
    assert len(set(held)) == 300  # no reference row is attacked
    assert {row.tobytes() for row in case.members.values} <= {row.tobytes() for row in train.values}


def test_which_columns_are_guessed():
    assert secrets_of(AXES, ["lab"], ["code", "lab"]) == ("lab", "code")
    assert secrets_of(AXES, [], []) == ("site", "stage", "code")
    with pytest.raises(BadInput, match="nowhere"):
        secrets_of(AXES, [], ["nowhere"])


@pytest.mark.heavy
def test_words_of_verdicts(copied):
    train, test = population(200, 1), population(400, 2)
    free = attacks.run(train, train, test, claim=None)[0][0]
    assert "There is no guarantee" in free["text"]
    assert {f["bound"] for f in free["figures"]} == {None}
    wide = attacks.run(train, train, test, claim={"epsilon": 50, "delta": 0, "unit": "patient_id"})[0][0]
    assert wide["verdict"] == "concern"
    assert "within what (epsilon 50, delta 0) per patient_id allows" in wide["text"]
    assert "Single records were attacked, not patients" in wide["text"]
    honest = attacks.run(population(200, 3), train, test, claim=CLAIM)[0][0]
    assert "A pass proves nothing" in honest["text"]
