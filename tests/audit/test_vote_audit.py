"""Black-box audits of votes (law 27): two teachers, a record more, and all that an attacker is told are labels."""

import math

import numpy as np
import pandas as pd
from gate import DELTA, GATE_ERROR
from sklearn.neighbors import KNeighborsClassifier

from synthdp import Budget, Schema
from synthdp.auditing.claims import claim_of
from synthdp.evaluate.audit import judge, tune
from synthdp.privacy.account import Account
from synthdp.privacy.events import Entry, merged
from synthdp.privacy.noise import Noise
from synthdp.privacy.questions.votes import GNMax, LNMax
from synthdp.privacy.sensitive import Sensitive
from synthdp.privacy.teachers import Estimators

RUNS, TUNING, ASKED = 3000, 1000, 6  # a run is the answer to ASKED queries, through the production path
SCHEMA = Schema.from_dict(
    {
        "name": "pair",
        "declared_by": "the tests",
        "units": 4,
        "columns": {"x": {"kind": "boolean"}, "y": {"kind": "boolean"}},
    }
)
WITHOUT = pd.DataFrame({"x": [False] * 4, "y": [False] * 4})
WITH = pd.concat([WITHOUT, pd.DataFrame({"x": [True], "y": [True]})], ignore_index=True)


def ones(frame, aggregator, runs):
    """How many of each run's labels are 1. Asked where the record more lies, its teacher changes its mind, and no other."""
    data = Sensitive(frame, SCHEMA, Account(Budget(math.inf, DELTA)))
    data.commit(lambda _: merged(Entry(event) for event in aggregator.events(runs * ASKED)), Budget(math.inf, DELTA))
    nearest = Estimators(estimator=KNeighborsClassifier(1), features=lambda codes: codes[:, :1], target="y")
    teachers = data.partition(2, nearest)
    teachers.train()
    return teachers.ask(np.tile([[1, 0]], (runs * ASKED, 1)), aggregator).reshape(runs, ASKED).sum(1).astype(float)


def audited(aggregator):
    """(epsilon claimed for a run, verdict)."""
    claimed, claim = claim_of(merged(Entry(event) for event in aggregator.events(ASKED)), DELTA)
    (tuned, without), (tuned_with, with_) = (
        np.split(ones(frame, aggregator, TUNING + RUNS), [TUNING]) for frame in (WITHOUT, WITH)
    )
    cuts = tune(tuned, tuned_with, DELTA, RUNS)
    return claimed, judge(cuts, without, with_, claim, delta=DELTA, gate_error=GATE_ERROR)


def test_lnmax_keeps_its_claim():
    claimed, found = audited(LNMax(0.5))
    assert not found.contradicted
    assert 0.5 < found.epsilon <= claimed


def test_gnmax_keeps_its_claim():
    claimed, found = audited(GNMax(2.5))
    assert not found.contradicted
    assert 0.5 < found.epsilon <= claimed


def test_too_little_noise_is_found(monkeypatch):
    plain = Noise.added_laplace, Noise.added
    monkeypatch.setattr(Noise, "added_laplace", lambda own, counts, scale: plain[0](own, counts, scale / 4))
    monkeypatch.setattr(Noise, "added", lambda own, values, deviation: plain[1](own, values, deviation / 4))
    for aggregator in (LNMax(0.5), GNMax(2.5)):
        assert audited(aggregator)[1].contradicted
