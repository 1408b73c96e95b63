"""Kendall's tau and the regret by hand and against scipy; calibration by hand."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from synthdp.evaluate import calibration
from synthdp.evaluate.ranks import kendall, ranks
from synthdp.evaluate.scores import summary


def arm(metric="auroc", **means):
    return {name: {metric: summary([value])} for name, value in means.items()}


def test_kendall_against_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        left, right = rng.integers(0, 5, (2, 9)).astype(float)  # with ties
        assert kendall(left, right) == pytest.approx(kendalltau(left, right).statistic)
    assert kendall(np.ones(4), np.arange(4.0)) is None


def test_the_model_that_synthetic_rows_choose():
    found, reason = ranks("auroc", arm(lr=0.8, rf=0.7, hgb=0.6), arm(lr=0.85, rf=0.9, hgb=0.7))
    assert reason is None
    assert found == {
        "metric": "auroc",
        "kendall": pytest.approx(1 / 3),
        "pairs": 3,
        "best_synthetic": "lr",
        "best_real": "rf",
        "regret": pytest.approx(0.05),
    }


def test_of_errors_the_least_is_best():
    found, _ = ranks("rmse", arm("rmse", lr=3.0, rf=2.0, hgb=1.0), arm("rmse", lr=1.0, rf=2.0, hgb=3.0))
    assert (found["best_synthetic"], found["best_real"], found["regret"]) == ("hgb", "lr", 2.0)
    assert found["kendall"] == -1.0


def test_too_few_models_or_only_ties_have_a_reason():
    assert ranks("auroc", arm(lr=0.8, rf=0.7), arm(lr=0.8, rf=0.7)) == (
        None, "only 2 models were scored on both synthetic and real training rows; an order needs at least 3",
    )  # fmt: skip
    assert ranks("auroc", arm(lr=0.8), arm(lr=0.8))[1].startswith("only one model was scored on both")
    assert ranks("auroc", {}, arm(lr=0.8))[1].startswith("no model was scored on both")
    same = arm(lr=0.5, rf=0.5, hgb=0.5)
    assert ranks("auroc", same, same) == (None, "all models score the same")


def test_the_calibration_error_by_hand():
    hit = np.array([True, False, True, True])
    chance = np.array([0.05, 0.05, 0.95, 1.0])  # bins 0 and 9: |1 - 0.1| / 4 + |2 - 1.95| / 4
    assert calibration.ece(hit, chance) == pytest.approx((0.9 + 0.05) / 4)
    curve = calibration.curve([calibration.sums(hit, chance)] * 2)
    assert curve == [
        {"predicted": pytest.approx(0.05), "observed": 0.5, "rows": 2.0},
        {"predicted": pytest.approx(0.975), "observed": 1.0, "rows": 2.0},
    ]


def test_true_probabilities_are_calibrated_and_overconfident_ones_are_not():
    rng = np.random.default_rng(1)
    chance = rng.random(20_000)
    hit = rng.random(20_000) < chance
    assert calibration.ece(hit, chance) < 0.02
    assert calibration.ece(hit, np.clip(2 * chance - 0.5, 0, 1)) > 0.1
    for point in calibration.curve([calibration.sums(hit, chance)]):
        assert point["observed"] == pytest.approx(point["predicted"], abs=0.06)
