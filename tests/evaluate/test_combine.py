"""Combining rules: against the formulas by hand, and coverage by simulation."""

import doctest
import math
import sys
import warnings

import numpy as np
import pytest
from scipy.stats import binomtest, t

from synthdp.errors import BadInput
from synthdp.evaluate import combine

ROWS, SYNTHETIC, SETS, RUNS = 100, 400, 20, 4000
NOISE = 2.0 / ROWS  # variance of the noise that the released mean carries, twice that of sampling


def released(rng):
    """(RUNS,) noisy means of ROWS real rows of N(0, 1)."""
    return rng.normal(0, math.sqrt(1 / ROWS), RUNS) + rng.normal(0, math.sqrt(NOISE), RUNS)


def analysed(rng, means):
    """Mean and its squared standard error in synthetic sets of N(means, 1); (SETS, RUNS) each."""
    spread = rng.chisquare(SYNTHETIC - 1, means.shape) / (SYNTHETIC - 1)
    return rng.normal(means, math.sqrt(1 / SYNTHETIC)), spread / SYNTHETIC


def of_the_posterior(rng):
    """Every set draws a mean of its own from the posterior (flat prior) that knows the noise."""
    means = released(rng) + rng.normal(0, math.sqrt(1 / ROWS + NOISE), (SETS, RUNS))
    return analysed(rng, means)


def of_one_model(rng):
    """Every set is a sample of the one model whose mean was released."""
    return analysed(rng, np.broadcast_to(released(rng), (SETS, RUNS)))


def covered(answer, level=0.95):
    low, high = answer.interval(level)
    return int(((low <= 0) & (high >= 0)).sum())


def within_error(hits, level):
    return binomtest(hits, RUNS, level).pvalue > 1e-3


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_draws_of_the_posterior_cover(level):
    q, u = of_the_posterior(np.random.default_rng(1))
    answer = combine(q, u, synthetic_rows=SYNTHETIC, rows=ROWS)
    assert within_error(covered(answer, level), level)


def test_samples_of_one_model_do_not_cover_by_that_rule():
    q, u = of_one_model(np.random.default_rng(2))
    with pytest.warns(UserWarning, match="one fitted model"):
        naive = combine(q, u, synthetic_rows=SYNTHETIC, rows=ROWS)
    assert covered(naive) < 0.85 * RUNS
    # What covers at all are degrees of freedom near 0, where t has no bound; the variance itself is a small part of the truth.
    assert naive.estimate.var() == pytest.approx(1 / ROWS + NOISE + 1 / SYNTHETIC / SETS, rel=0.1)
    positive = naive.degrees_of_freedom < np.inf
    assert np.median(naive.variance[positive]) < 0.1 * naive.estimate.var()
    assert np.mean(np.abs(naive.estimate) <= 1.96 * naive.standard_error) < 0.6
    each = math.sqrt(1 / SYNTHETIC) * 1.96  # the interval of a single set, taken for real rows
    assert np.mean(np.abs(q[0]) <= each) < 0.6


def test_samples_of_one_model_cover_where_the_noise_is_known():
    q, u = of_one_model(np.random.default_rng(3))
    sizes = {"sets": "one_model", "synthetic_rows": SYNTHETIC, "rows": ROWS}
    assert within_error(covered(combine(q, u, noise_variance=NOISE, **sizes)), 0.95)
    assert covered(combine(q, u, noise_variance=0, **sizes)) < 0.85 * RUNS


def test_the_formulas_by_hand():
    q, u = [4.9, 5.2, 5.4, 4.6, 5.1], [0.01, 0.012, 0.011, 0.009, 0.01]
    mean, within = sum(q) / 5, sum(u) / 5
    between = sum((each - mean) ** 2 for each in q) / 4
    answer = combine(q, u)
    total = 1.2 * between - within
    assert answer.estimate == pytest.approx(mean)
    assert answer.variance == pytest.approx(total)
    assert answer.standard_error == pytest.approx(math.sqrt(total))
    freedom = 4 * (1 - within / (1.2 * between)) ** 2
    assert answer.degrees_of_freedom == pytest.approx(freedom)
    low, high = answer.interval(0.9)
    assert high - mean == mean - low == pytest.approx(t.ppf(0.95, freedom) * math.sqrt(total))
    plug_in = combine(q, u, sets="one_model", synthetic_rows=300, rows=100, noise_variance=0.5)
    assert plug_in.variance == pytest.approx(within * (3 + 1 / 5) + 0.5)
    assert plug_in.degrees_of_freedom == math.inf


def test_the_example_of_the_documentation_runs():
    done = doctest.testmod(sys.modules["synthdp.evaluate.combine"])
    assert done.attempted >= 4
    assert done.failed == 0


def test_vectors_are_combined_number_by_number():
    rng = np.random.default_rng(4)
    q, u = rng.normal(size=(6, 3)), rng.uniform(0.01, 0.02, (6, 3))
    whole = combine(q, u)
    for place in range(3):
        one = combine(q[:, place], u[:, place])
        for name in ("estimate", "variance", "degrees_of_freedom", "between", "within"):
            assert getattr(whole, name)[place] == pytest.approx(float(getattr(one, name)))
        assert one.interval()[0].shape == ()
        assert whole.interval()[1][place] == pytest.approx(float(one.interval()[1]))


def test_a_negative_variance_is_refused_or_replaced():
    q, u = np.array([[1.0, 1.0], [1.01, 3.0], [0.99, 2.0]]), np.full((3, 2), 0.1)
    with pytest.raises(BadInput, match="1 of 2 numbers"):
        combine(q, u)
    answer = combine(q, u, synthetic_rows=50, rows=100)
    assert answer.variance[0] == pytest.approx(0.05)
    assert answer.degrees_of_freedom[0] == math.inf
    assert answer.variance[1] == pytest.approx(4 / 3 - 0.1)


def test_equal_estimates_are_no_division_by_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(UserWarning, match="one fitted model"):
            answer = combine([1.0, 1.0], [0.1, 0.1], synthetic_rows=10, rows=10)
    assert answer.variance == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (([1.0], [0.1]), "two or more"),
        (([1.0, 2.0], [0.1, 0.0]), "positive"),
        (([1.0, math.nan], [0.1, 0.1]), "finite"),
        (([1.0, 2.0], [0.1, 0.1, 0.1]), "shapes"),
        ((["a", "b"], [0.1, 0.1]), "numbers"),
        (([], []), "shapes"),
    ],
)
def test_bad_estimates_are_named(given, named):
    with pytest.raises(BadInput, match=named):
        combine(*given)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sets": "plain"}, "posterior, one_model"),
        ({"sets": "one_model"}, "no valid interval"),
        ({"sets": "one_model", "rows": 10, "synthetic_rows": 10}, "noise_variance"),
        ({"sets": "one_model", "rows": 10, "synthetic_rows": 10, "noise_variance": -1.0}, "0 or more"),
        ({"rows": 10}, "both"),
        ({"rows": 10, "synthetic_rows": 0}, "greater than 0"),
        ({"noise_variance": 0.1}, "one_model"),
    ],
)
def test_bad_options_are_named(options, named):
    with pytest.raises(BadInput, match=named):
        combine([1.0, 2.0, 4.0], [0.1, 0.1, 0.1], **options)
    with pytest.raises(BadInput, match="level"):
        combine([1.0, 2.0, 4.0], [0.1, 0.1, 0.1]).interval(1.0)
