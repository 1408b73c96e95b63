import numpy as np
import pytest
from scipy.stats import binom, binomtest
from sklearn.metrics import roc_auc_score

from synthdp.evaluate.attacks.bounds import auroc, auroc_interval, difference, proportion


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (10, 10), (480, 1000)])
def test_proportion_is_clopper_and_pearson(count, trials):
    expected = binomtest(count, trials).proportion_ci(0.95, method="exact")
    assert proportion(count, trials, 0.05) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("trials", "p"), [(40, 0.02), (40, 0.5), (150, 0.2), (150, 0.9)])
def test_difference_covers(trials, p):
    """Exactly, over all pairs of counts: two equal rates are told apart, upwards, in at most 2.5 % of cases."""
    counts = np.arange(trials + 1)
    chance = binom.pmf(counts, trials, p)
    keep = counts[chance > 1e-7]
    wrong = sum(chance[a] * chance[b] for a in keep for b in keep if difference((a, trials), (b, trials), 0.05)[0] > 0)
    assert wrong <= 0.025 + 1e-5


def test_difference_of_extremes():
    assert difference((50, 50), (0, 50), 0.05)[0] > 0.85
    low, high = difference((0, 50), (0, 50), 0.05)
    assert low < 0 < high


def test_auroc_with_ties():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 8, 60).astype(float), rng.integers(0, 6, 60).astype(float)
    truth = np.repeat([1, 0], 60)
    expected = roc_auc_score(truth, np.concatenate([inside, outside]))
    assert auroc(inside, outside) == pytest.approx(expected)
    low, high = auroc_interval(inside, outside, rng, 0.05)
    assert low < expected < high
    # The bootstrap's width against Hanley & McNeil 1982.
    a, n = expected, 60
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    se = np.sqrt((a * (1 - a) + (n - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / n**2)
    assert (high - low) / (2 * 1.96) == pytest.approx(se, rel=0.25)
