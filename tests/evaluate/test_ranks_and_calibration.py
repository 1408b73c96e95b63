"""Kendall's tau and the regret by hand and against scipy; calibration by hand."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from synthdp.evaluate import scores as calibration
from synthdp.evaluate.scores import summary
from synthdp.evaluate.utility import Trial, kendall, ranks


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


def tried(value, draws):
    return Trial(scores={"auroc": value}, draws={"auroc": draws}, curve=None, groups={})


def trials(noise, values, runs=((0, 0), (0, 1)), draws=200):
    """model -> run -> trial: every model's score moves by itself with the test rows, by `noise`."""
    rng = np.random.default_rng(0)
    found = {
        name: {run: tried(value, value + noise * rng.normal(size=draws)) for run in runs}
        for name, value in values.items()
    }
    return found, {name: {"auroc": summary([value])} for name, value in values.items()}


def test_the_interval_says_how_sure_an_order_is():
    values = {"lr": 0.6, "rf": 0.7, "hgb": 0.8, "mlp": 0.9}
    sure, unsure = (trials(noise, values) for noise in (1e-4, 1.0))
    found, _ = ranks("auroc", sure[1], sure[1], {"tstr": sure[0], "trtr": sure[0]})
    assert (found["kendall_interval"], found["regret_interval"]) == ([1.0, 1.0], [0.0, 0.0])
    other = trials(1.0, values, runs=((0, 0), (1, 0), (2, 0)))
    found, _ = ranks("auroc", other[1], unsure[1], {"tstr": other[0], "trtr": unsure[0]})
    assert found["kendall_interval"][0] < -0.5
    assert found["kendall_interval"][1] > 0.5
    assert found["regret_interval"][0] == 0.0
    assert found["regret_interval"][1] > 1.0


def test_runs_that_differ_widen_the_interval_of_an_order():
    names = ("lr", "rf", "hgb")
    alike = {(0, seed): tried(0.5, np.full(100, 0.5)) for seed in range(4)}
    scores = {"lr": (0.9, 0.1, 0.9, 0.1), "rf": (0.5, 0.5, 0.5, 0.5), "hgb": (0.45, 0.55, 0.45, 0.56)}
    moving = {
        name: {run: tried(value, np.full(100, value)) for run, value in zip(alike, scores[name], strict=True)}
        for name in names
    }
    still = trials(0.0, {"lr": 0.9, "rf": 0.7, "hgb": 0.5}, runs=tuple(alike), draws=100)
    means = {name: {"auroc": summary(scores[name])} for name in names}
    found, _ = ranks("auroc", means, still[1], {"tstr": moving, "trtr": still[0]})
    assert found["kendall_interval"][0] < 0 < found["kendall_interval"][1]


def test_without_enough_draws_there_is_no_interval():
    some, means = trials(0.1, {"lr": 0.6, "rf": 0.7, "hgb": 0.8}, draws=0)
    found, reason = ranks("auroc", means, means, {"tstr": some, "trtr": some})
    assert (found["kendall"], reason) == (1.0, None)
    assert "kendall_interval" not in found


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
