import numpy as np
import pytest
from attack_tables import AXES, population, table

from synthdp.evaluate.attacks import distances
from synthdp.evaluate.tables import Axis


def gower(a, b, axes, widths):
    """Column by column in plain Python."""
    total = 0.0
    for axis, x, y, width in zip(axes, a, b, widths, strict=True):
        if np.isnan(x) or np.isnan(y):
            total += float(np.isnan(x) != np.isnan(y))
        elif axis.kind == "category":
            total += float(x != y)
        else:
            total += min(abs(x - y) / width, 1.0)
    return total / len(axes)


@pytest.mark.parametrize("block", [1, 64, 1 << 17])
@pytest.mark.parametrize("jobs", [1, 2])
def test_against_a_loop(block, jobs, monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", block)
    left, right = population(23, 1), population(31, 2)
    widths = [distances.width(axis, column) for axis, column in zip(AXES, right.values.T, strict=True)]
    every = np.array([[gower(a, b, AXES, widths) for b in right.values] for a in left.values])
    of, among = distances.points(left, right), distances.points(right, right)
    place, gap = distances.nearest(of, among, jobs)
    np.testing.assert_allclose(gap, every.min(axis=1), atol=1e-6)
    np.testing.assert_allclose(every[np.arange(23), place], every.min(axis=1), atol=1e-6)
    np.testing.assert_array_equal(distances.paired(of, among, place), gap)
    again, two = distances.two_nearest(of, among, jobs)
    np.testing.assert_array_equal(again, place)
    np.testing.assert_allclose(two, np.sort(every, axis=1)[:, :2], atol=1e-6)
    found = distances.log_density(of, among, 0.05, jobs)
    np.testing.assert_allclose(found, np.log(np.exp(-every / 0.05).mean(axis=1)), atol=1e-3)


def test_equal_rows_are_at_no_distance_and_far_ones_have_a_density():
    rows = population(50, 3)
    of = distances.points(rows, rows)
    assert (distances.nearest(of, of)[1] == 0).all()
    assert np.isfinite(distances.log_density(of, of.take(np.array([0])), 1e-6)).all()


def test_widths():
    number = Axis(name="x", kind="number", low=0, high=50)
    assert distances.width(number, np.linspace(0, 1, 101)) == pytest.approx(0.9)
    assert distances.width(number, np.full(9, 3.0)) == 50  # nothing varies: the declared bounds
    assert distances.width(number, np.full(9, np.nan)) == 50
    assert distances.width(Axis(name="x", kind="number", low=1, high=1), np.ones(3)) == 1
    assert distances.width(Axis(name="o", kind="ordinal", levels=("a", "b", "c")), np.zeros(3)) == 2


def test_missing_numbers_are_one_value():
    axis = Axis(name="x", kind="number", low=0, high=1)
    rows = table([axis], [np.nan, 0.0, 1.0])
    found = distances.points(rows, rows)
    assert distances.nearest(found.take(np.array([0])), found)[1][0] == 0
    assert distances.nearest(found.take(np.array([0])), found.take(np.array([1, 2])))[1][0] == 1
