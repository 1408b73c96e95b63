"""Bootstrap draws against scikit-learn draw by draw, and intervals against what they promise."""

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from synthdp.evaluate import scores


def drawn(classes, rows=90, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    chances = rng.dirichlet(np.ones(classes), rows) + 0.5 * np.eye(classes)[truth]
    return truth, np.round(chances / chances.sum(axis=1, keepdims=True), 1)  # rounded: many ties


def rows_of(weights):
    return np.repeat(np.arange(len(weights)), weights.astype(int))


def test_binary_draws_are_the_scores_of_the_drawn_rows():
    truth, chances = drawn(2)
    again = scores.resamples(len(truth), 20, 2, None)
    found = scores.class_draws(truth, chances, 1, again)
    assert set(found) == set(scores.METRICS)
    for b in range(again.shape[1]):
        rows = rows_of(again[:, b])
        assert len(rows) == len(truth)
        y, p = truth[rows], chances[rows]
        assert found["auroc"][b] == pytest.approx(roc_auc_score(y, p[:, 1]), rel=1e-6)
        assert found["auprc"][b] == pytest.approx(average_precision_score(y, p[:, 1]), rel=1e-6)
        assert found["f1"][b] == pytest.approx(f1_score(y, p.argmax(axis=1)), rel=1e-6)
        for metric, value in scores.score(y, p, 1).items():
            assert found[metric][b] == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_many_classes_draws_are_the_macro_scores_of_the_drawn_rows():
    truth, chances = drawn(4)
    again = scores.resamples(len(truth), 10, 4, None)
    found = scores.class_draws(truth, chances, None, again)
    for b in range(again.shape[1]):
        rows = rows_of(again[:, b])
        for metric, value in scores.score(truth[rows], chances[rows], None).items():
            assert found[metric][b] == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_number_draws_are_the_errors_of_the_drawn_rows():
    rng = np.random.default_rng(1)
    truth = 18_000 + rng.normal(size=80)  # dates: large numbers of small spread
    guess = truth + 0.3 * rng.normal(size=80)
    again = scores.resamples(80, 10, 1, None)
    found = scores.number_draws(truth, guess, again)
    for b in range(10):
        rows = rows_of(again[:, b])
        y, p = truth[rows], guess[rows]
        assert found["rmse"][b] == pytest.approx(root_mean_squared_error(y, p), rel=1e-5)
        assert found["mae"][b] == pytest.approx(mean_absolute_error(y, p), rel=1e-5)
        assert found["r2"][b] == pytest.approx(r2_score(y, p), rel=1e-5)
    assert scores.errors(truth, guess)["r2"] == pytest.approx(r2_score(truth, guess))


def test_patients_are_drawn_with_all_their_rows():
    units = np.repeat(np.arange(10), 3)
    weights = scores.resamples(30, 50, 2, units)
    assert (weights.reshape(10, 3, 50) == weights[::3][:, None]).all()
    assert (weights.sum(axis=0) == 30).all()


def test_a_draw_without_one_class_is_no_number_and_left_out():
    truth, chances = np.array([1] + [0] * 19), np.column_stack([np.full(20, 0.5)] * 2)
    again = scores.resamples(20, 200, 2, None)
    draws = scores.class_draws(truth, chances, 1, again)["auroc"]
    lost = again[0] == 0
    assert np.isnan(draws[lost]).all()
    assert (draws[~lost] == 0.5).all()
    assert scores.interval(draws, [0.5]) == (0.5, 0.5)
    assert scores.interval(np.where(np.arange(200) < 60, draws, np.nan), [0.5]) is None


@pytest.mark.heavy
def test_the_interval_covers_the_true_auroc():
    """Scores of two normals one apart have AUROC Phi(1 / sqrt(2)) = 0.7602; 95 % of intervals hold it. 400 tables; a
    true rate of 0.95 falls below 0.90 with probability 3e-5."""
    rng, held = np.random.default_rng(2), 0
    for _ in range(400):
        truth = (np.arange(150) < 60).astype(np.int64)
        value = rng.normal(size=150) + truth
        chance = 1 / (1 + np.exp(-value))
        again = rng.multinomial(150, np.full(150, 1 / 150), 100).T.astype(np.float32)
        draws, _ = scores.rankings(truth == 1, chance, again)
        low, high = scores.interval(draws, [roc_auc_score(truth, chance)], (0.0, 1.0))
        held += low <= 0.76025 <= high
    assert 0.90 <= held / 400 <= 0.99


def test_the_interval_covers_the_mean_over_synthetic_samples():
    """Units that vary more than the test rows do: three of them, whose spread is hardly known, still cover."""
    rng, held = np.random.default_rng(3), 0
    for _ in range(1000):
        rows, units = 0.01 * rng.normal(), 0.05 * rng.normal(size=3)
        low, high = scores.interval(rows + units.mean() + 0.01 * rng.normal(size=200), list(rows + units))
        held += low <= 0.0 <= high
    assert 0.92 <= held / 1000 <= 0.98


def test_no_draws_no_interval():
    truth, chances = drawn(2)
    again = scores.resamples(len(truth), 0, 2, None)
    draws = scores.class_draws(truth, chances, 1, again)
    assert all(scores.interval(each, [0.5]) is None for each in draws.values())
    assert scores.resamples(0, 5, 2, None).shape == (0, 5)


def test_the_interval_stays_within_what_a_metric_can_be():
    draws = np.random.default_rng(4).normal(0.99, 0.05, 200)
    low, high = scores.interval(draws, [0.99], scores.RANGES["auroc"])
    assert low < 0.95
    assert high == 1.0
