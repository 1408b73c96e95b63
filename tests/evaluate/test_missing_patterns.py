import numpy as np
import pytest

from synthdp.evaluate.fidelity import patterns
from synthdp.evaluate.tables import Axis, Table


def table(mask):
    mask = np.asarray(mask, dtype=bool)
    axes = tuple(Axis(name=f"c{i}", kind="number") for i in range(mask.shape[1]))
    return Table(axes=axes, values=np.where(mask, np.nan, 1.0))


def test_by_hand():
    t = table([[0, 0], [0, 0], [1, 1], [1, 1]])  # missing together
    s = table([[0, 1], [0, 1], [1, 0], [1, 0]])  # the same shares, never together
    entry, reason = patterns(s, t, t)
    assert reason is None
    assert (entry["mean"], entry["max"], entry["n"], entry["floor"]["mean"]) == (1.0, 1.0, 1, 0.0)
    assert entry["columns"] == {"c0": 0.0, "c1": 0.0}
    entry, _ = patterns(table([[0, 0], [0, 0], [0, 0], [1, 1]]), t, s)
    assert entry["mean"] == 0.25
    assert entry["columns"] == {"c0": 0.25, "c1": 0.25}
    assert entry["shares"]["c0"] == [0.25, 0.5, 0.5]
    assert entry["floor"]["mean"] == 1.0


def test_against_counting():
    rng = np.random.default_rng(0)
    s, t, v = (
        rng.random((n, 11)) < p for n, p in ((70, 0.1), (50, 0.2), (60, 0.15))
    )  # more columns than a byte has bits
    left, right = ([tuple(row) for row in mask] for mask in (s, t))
    expected = 0.5 * sum(abs(left.count(p) / 70 - right.count(p) / 50) for p in {*left, *right})
    entry, _ = patterns(table(s), table(t), table(v))
    assert entry["mean"] == pytest.approx(expected)
    assert entry["columns"]["c3"] == pytest.approx(abs(s[:, 3].mean() - t[:, 3].mean()))


def test_nothing_missing_is_no_difference():
    full = table(np.zeros((3, 2)))
    entry, reason = patterns(full, full, full)
    assert (entry["mean"], entry["columns"], reason) == (0.0, {}, None)
