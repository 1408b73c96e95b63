import numpy as np
import pytest

from synthdp.evaluate import detection
from synthdp.evaluate.tables import Axis, Table

AXES = (Axis(name="c", kind="category", levels=("a", "b", "d")), Axis(name="x", kind="number"))


REPEATS = 40


def normal_table(rng, rows):
    return Table(axes=AXES, values=np.column_stack([rng.integers(0, 3, rows), rng.normal(size=rows)]))


def only(codes):
    return Table(axes=AXES[:1], values=np.asarray(codes, dtype=float)[:, None])


def test_one_category_in_closed_form():
    """With one categorical column the model is saturated: the propensity in a cell is the share of synthetic rows there."""
    left, right = np.repeat([0, 1, 2], [30, 50, 20]), np.repeat([0, 1, np.nan], [60, 20, 20])
    expected = (90 * (30 / 90 - 0.5) ** 2 + 70 * (50 / 70 - 0.5) ** 2 + 40 * 0.25) / 200
    value, effects = detection.propensity_error(only(left), only(right))
    assert effects == 3  # a, b, d and missing, one of which the others explain
    assert value == pytest.approx(expected, abs=1e-4)  # cells of one side only have no finite coefficient
    left, right = np.repeat([0, 1], [30, 50]), np.repeat([0, 1], [60, 20])
    expected = (90 * (30 / 90 - 0.5) ** 2 + 70 * (50 / 70 - 0.5) ** 2) / 160
    value, effects = detection.propensity_error(only(left), only(right))
    assert (value, effects) == (pytest.approx(expected, rel=1e-5), 1)


def test_its_null_expectation_by_simulation():
    """Rows drawn with the training rows' own means (a bootstrap of them) have ratio 1; independent ones 1 / (1 - c)."""
    rng = np.random.default_rng(0)
    for share, rows in ((0.5, (400, 400)), (0.25, (150, 450))):
        ratios = {"right model": [], "new rows": []}
        for _ in range(REPEATS):
            real = normal_table(rng, rows[1])
            again, new = real.take(rng.integers(0, rows[1], rows[0])), normal_table(rng, rows[0])
            for name, other in (("right model", again), ("new rows", new)):
                value, effects = detection.propensity_error(other, real)
                assert effects == 3
                ratios[name].append(value / detection.null_expectation(effects, sum(rows), share))
        # 3 parameters: a ratio has about chi-squared(3) / 3, of deviation sqrt(2 / 3); 4 standard errors of the mean.
        for name, expected in (("right model", 1.0), ("new rows", 1 / (1 - share))):
            assert abs(np.mean(ratios[name]) - expected) < 4 * expected * np.sqrt(2 / 3 / REPEATS), (share, name)


def test_entry():
    rng = np.random.default_rng(1)
    t, v = normal_table(rng, 500), normal_table(rng, 400)
    off = Table(axes=AXES, values=normal_table(rng, 600).values + np.array([0.0, 1.0]))
    entry, reason = detection.pmse(off, t, v)
    assert reason is None
    assert (entry["n"], len(entry["values"]), entry["parameters"]) == (3, 3, 3.0)
    assert entry["ratio"] > 20 > 8 > entry["floor"]["ratio"]
    assert entry["ratio"] == pytest.approx(entry["mean"] / detection.null_expectation(3, 800, 0.5))
    assert "logistic" in entry["model"]


def test_what_is_not_computed():
    rng = np.random.default_rng(2)
    few, t = normal_table(rng, 20), normal_table(rng, 100)
    assert detection.pmse(few, t, t) == (None, "the smallest of the three sets has 20 rows; at least 30 are needed")
    same = only(np.zeros(50))
    assert detection.pmse(same, same, same) == (None, "no column varies")
    axes = tuple(Axis(name=f"x{i}", kind="number") for i in range(40))
    wide = [Table(axes=axes, values=rng.normal(size=(50, 40))) for _ in range(3)]
    assert detection.pmse(*wide) == (None, "50 rows on each side are too few for a propensity model with 40 parameters")
