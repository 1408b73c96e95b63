"""Correlations and means of numbers against scipy and plain means."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from synthdp.evaluate.association import of_numbers
from synthdp.evaluate.tables import Axis, Table

AXES = (
    Axis(name="x", kind="number"),
    Axis(name="y", kind="number"),
    Axis(name="z", kind="category", levels=("a", "b")),
)


def table(rows, slope, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    x = np.exp(rng.normal(size=rows))
    y = slope * x + rng.normal(size=rows) + shift
    return Table(axes=AXES, values=np.stack([x, y, rng.integers(0, 2, rows)], 1))


def test_correlations_and_means_are_those_of_scipy():
    made, real, held = table(300, 0.2, 1, 2.0), table(400, 1.0, 2), table(200, 1.0, 3)
    found, reason = of_numbers(made, real, held)
    assert reason is None
    for name, judge in (("pearson", pearsonr), ("spearman", spearmanr)):
        r = [float(judge(each.values[:, 0], each.values[:, 1]).statistic) for each in (made, real, held)]
        assert found[name]["mean"] == pytest.approx(abs(r[0] - r[1]))
        assert found[name]["floor"]["mean"] == pytest.approx(abs(r[2] - r[1]))
    off = abs(made.values[:, 1].mean() - real.values[:, 1].mean()) / real.values[:, 1].std()
    assert found["means"]["columns"]["y"] == pytest.approx(off)


def test_missing_values_are_left_out_pair_by_pair():
    made, real = table(300, 0.2, 1), table(400, 1.0, 2)
    made.values[:50, 0] = np.nan
    known = made.values[50:]
    found, _ = of_numbers(made, real, real)
    wanted = pearsonr(known[:, 0], known[:, 1]).statistic - pearsonr(real.values[:, 0], real.values[:, 1]).statistic
    assert found["pearson"]["mean"] == pytest.approx(abs(wanted))
    assert found["means"]["floor"]["max"] < 1e-12


def test_constant_columns_are_left_out():
    real = table(50, 1.0)
    real.values[:, 0] = 3.0
    assert of_numbers(real, real, real) == (None, "fewer than two numeric columns vary in the real training rows")
