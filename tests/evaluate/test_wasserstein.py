import numpy as np
import pytest

from synthdp.evaluate.fidelity import wasserstein
from synthdp.evaluate.tables import Axis, Table

X = Axis(name="x", kind="number", low=0.0, high=200.0)


def table(*columns, axes=(X,)):
    return Table(axes=axes, values=np.column_stack([np.asarray(c, dtype=float) for c in columns]))


def test_units_are_the_inner_range_of_the_training_rows():
    real = table(np.arange(101.0))  # its 5 to 95 % range is 90
    entry, reason = wasserstein(table(np.arange(101.0) + 9), real, table(np.arange(101.0) - 18))
    assert reason is None
    assert (entry["mean"], entry["max"], entry["n"]) == (pytest.approx(0.1), pytest.approx(0.1), 1)
    assert entry["floor"]["mean"] == pytest.approx(0.2)
    assert entry["scales"] == {"x": "5 to 95 % range"}


def test_units_where_the_inner_range_is_nothing():
    rare = np.repeat([0.0, 50.0], [99, 1])
    entry, _ = wasserstein(table(np.zeros(9)), table(rare), table(rare))
    assert entry["columns"] == {"x": pytest.approx(0.5 / 50)}
    assert entry["scales"] == {"x": "range"}
    entry, _ = wasserstein(table([10.0, 20.0]), table([5.0, 5.0]), table([5.0]))
    assert entry["columns"] == {"x": pytest.approx(10 / 200)}
    assert entry["scales"] == {"x": "declared bounds"}


def test_missing_values_stand_apart():
    real = table(np.arange(101.0))
    with_gaps = table(np.concatenate([np.arange(101.0), np.full(50, np.nan)]))
    assert wasserstein(with_gaps, real, real)[0]["mean"] == 0.0


def test_what_is_left_out_is_named():
    axes = (X, Axis(name="y", kind="number"), Axis(name="c", kind="category", levels=("a", "b")))
    gone = np.full(4, np.nan)
    s, t = table(range(4), gone, gone, axes=axes), table(range(4), range(4), gone, axes=axes)
    entry, reason = wasserstein(s, t, t)
    assert entry["columns"] == {"x": 0.0, "y": 1.0}, (
        "a column that synthetic rows lost is as far off as the data spread"
    )
    assert reason is None
    assert wasserstein(t, s, t)[1].endswith(": y")
    assert wasserstein(table(gone), table(gone), table(gone)) == (
        None,
        "columns without known values, or without any spread even in their declared bounds: x",
    )
    nominal = table(gone, axes=axes[2:])
    assert wasserstein(nominal, nominal, nominal) == (None, "there is no numeric column")
