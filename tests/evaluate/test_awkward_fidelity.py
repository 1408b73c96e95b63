"""Every fidelity metric on tables that are hardly tables: a dict of finite numbers or a reason, never NaN, never a crash."""

import math

import numpy as np
import pytest

from synthdp.evaluate import association, detection, fidelity, manifold
from synthdp.evaluate.tables import Axis, Table

AXES = (
    Axis(name="x", kind="number", low=0.0, high=10.0),
    Axis(name="day", kind="number", low=18000.0, high=18300.0, date=True),
    Axis(name="c", kind="category", levels=("a", "b")),
    Axis(name="o", kind="ordinal", levels=("I", "II", "III")),
)
RNG = np.random.default_rng(0)
FULL = np.column_stack(
    [RNG.uniform(0, 10, 60), RNG.integers(18000, 18300, 60), RNG.integers(0, 3, 60), RNG.integers(0, 3, 60)]
)
TABLES = {
    "ordinary": FULL,
    "no rows": FULL[:0],
    "one row": FULL[:1],
    "constant": np.repeat(FULL[:1], 60, axis=0),
    "all missing": np.full((60, 4), np.nan),
    "one column missing": np.where(np.arange(4) == 0, np.nan, FULL),
    "out of bounds": FULL + np.array([1e12, 1e6, 0, 0]),
}
# Each against itself and, on either side, against the ordinary one.
PAIRS = sorted({pair for name in TABLES for pair in ((name, name), (name, "ordinary"), ("ordinary", name))})
METRICS = {
    "wasserstein": fidelity.wasserstein,
    "missingness": fidelity.patterns,
    "range_queries": association.range_error,
    "numbers": association.of_numbers,
    "pmse": detection.pmse,
    "manifold": manifold.precision_recall,
    "correlation": lambda s, t, v: (association.difference(s, t, v), "constant"),
}


def numbers(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner)
    elif not isinstance(value, str):
        yield value


@pytest.mark.heavy
@pytest.mark.parametrize("metric", METRICS)
def test_no_table_is_too_awkward(metric, monkeypatch):
    monkeypatch.setattr(association, "QUERIES", 100)
    for names in PAIRS:
        s, t = (Table(axes=AXES, values=TABLES[name]) for name in names)
        for v in (Table(axes=AXES, values=FULL), Table(axes=AXES, values=FULL[:0]), s):
            empty = fidelity.no_rows(s, t, v)
            found, reason = METRICS[metric](s, t, v) if empty is None else (None, empty)
            if found is None:
                assert reason, names
                assert "\n" not in reason
                continue
            assert all(type(x) in (int, float) and math.isfinite(x) for x in numbers(found)), names


@pytest.mark.parametrize("metric", METRICS)
def test_no_column_at_all(metric):
    t = Table(axes=(), values=np.zeros((40, 0)))
    found, reason = METRICS[metric](t, t, t)
    assert found is None or found["mean"] == 0.0
    assert found is not None or reason


@pytest.mark.parametrize("metric", METRICS)
def test_equal_tables_are_equal(metric):
    t = Table(axes=AXES, values=FULL)
    found, _ = METRICS[metric](t, t, t)
    if metric == "manifold":
        assert found["alpha_precision"]["mean"] == pytest.approx(1.0, abs=1e-9)
        assert found["beta_recall"]["mean"] == pytest.approx(1.0, abs=1e-9)
    else:
        parts = [found[name] for name in ("pearson", "spearman", "means")] if metric == "numbers" else [found]
        for part in parts:
            assert part["mean"] == pytest.approx(0.0, abs=1e-9)
            assert part["floor"]["mean"] == pytest.approx(0.0, abs=1e-9)


def test_the_reason_names_the_empty_set():
    full, none = (Table(axes=AXES, values=TABLES[name]) for name in ("ordinary", "no rows"))
    assert fidelity.no_rows(none, full, full) == "there are no synthetic rows"
    assert fidelity.no_rows(full, none, full) == "there are no real training rows"
    assert fidelity.no_rows(full, full, none) == "there are no real test rows"
    assert fidelity.no_rows(full, full, full) is None
