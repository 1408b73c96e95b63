import json

import numpy as np
from scipy.stats import binom

from synthdp.evaluate.attacks import NAMES, bounds, membership


def draws(seed, rows=120):
    return np.random.default_rng(seed).normal(size=(rows, 12)).astype(np.float32)


def test_copied_vectors_are_caught():
    train = draws(1)
    (found,), lacking = membership.of_vectors(train, train, draws(2), claim={"epsilon": 0.1, "delta": 0})
    assert lacking == []
    assert found["id"] in NAMES  # the page knows it by the same name
    assert found["verdict"] == "concern"
    assert found["figures"][0]["value"] == 1
    json.dumps(found, allow_nan=False)


def test_independent_vectors_pass_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(bounds, "RESAMPLES", 200)
    runs = 25
    alarms = sum(
        membership.of_vectors(draws((seed, 1)), draws((seed, 2)), draws((seed, 3)))[0][0]["verdict"] == "concern"
        for seed in range(runs)
    )
    assert alarms <= binom.ppf(0.9999, runs, 0.025)


def test_too_few_vectors_are_not_computed():
    for parts in (
        (draws(1, 0), draws(2), draws(3)),
        (draws(1), draws(2, 1), draws(3)),
        (draws(1), draws(2), draws(3, 5)),
    ):
        (found,), (lacking,) = membership.of_vectors(*parts)
        assert (found["verdict"], lacking["metric"]) == ("not computed", "attacks.membership_distance")
