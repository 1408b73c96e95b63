import numpy as np
import pandas as pd
import pytest

from synthdp.evaluate import association
from synthdp.evaluate.tables import Axis, Table, axes_of, table_of
from synthdp.schema.schema import Categorical, Continuous, Datetime, Integer, Ordinal, Schema

SCHEMA = Schema(
    columns=(
        Continuous(name="x", bounds=(0, 10), missing=True),
        Integer(name="k", bounds=(0, 6)),
        Datetime(name="day", bounds=("2020-01-01", "2020-12-31")),
        Categorical(name="c", categories=("a", "b", "d"), missing=True),
        Ordinal(name="o", categories=("I", "II", "III"), missing=True),
    )
)


def frame(rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": np.where(rng.random(rows) < 0.2, np.nan, rng.uniform(-1, 11, rows)),
            "k": rng.integers(0, 7, rows),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D"),
            "c": rng.choice(np.array(["a", "b", "d", "odd", None], dtype=object), rows),
            "o": rng.choice(np.array(["I", "II", "III", None], dtype=object), rows),
        }
    )


def tables(*frames):
    axes = axes_of(SCHEMA, frames[0])
    return [table_of(f, axes, "synthetic") for f in frames]


def slowly(query, table):
    """The share, row by row and from the conditions' meaning."""
    hits = 0
    for row in list(table.values):
        inside = True
        for condition in query:
            value, axis = row[condition.column], table.axes[condition.column]
            if np.isnan(value):
                inside = False
            elif axis.kind == "category":
                inside &= value < len(axis.levels) and condition.among[int(value)]
            else:
                inside &= condition.low <= value <= condition.high
        hits += inside
    return hits / table.rows


def test_shares_against_a_loop():
    s, t, v = tables(frame(60, 1), frame(80, 2), frame(70, 3))
    chosen = association.draw(t.axes, association.QUERIES)
    entry, reason = association.range_error(s, t, v)
    assert reason is None
    assert entry["n"] == len(chosen) == association.QUERIES
    some = chosen[:60]
    assert association.shares(some, s) == pytest.approx([slowly(query, s) for query in some])
    errors = np.abs(association.shares(chosen, s) - association.shares(chosen, t))
    assert (entry["mean"], entry["max"]) == (pytest.approx(errors.mean()), pytest.approx(errors.max()))
    assert abs(entry["worst"]["synthetic"] - entry["worst"]["train"]) == pytest.approx(entry["max"])


def test_queries_are_a_fixed_public_draw():
    few, many = tables(frame(5, 1), frame(500, 9))
    chosen = association.draw(few.axes, 1000)
    assert chosen == association.draw(many.axes, 1000)
    assert {len(query) for query in chosen} == {1, 2, 3}
    assert all(len({condition.column for condition in query}) == len(query) for query in chosen)
    for condition in (condition for query in chosen for condition in query):
        axis = few.axes[condition.column]
        if axis.kind == "category":
            assert any(condition.among)
            assert not all(condition.among)
            assert len(condition.among) == len(axis.levels)
        else:
            low, high = (0, len(axis.levels) - 1) if axis.levels else (axis.low, axis.high)
            assert low <= condition.low <= condition.high <= high
    wholes = [c.low for query in chosen for c in query if few.axes[c.column].name == "k"]
    assert set(wholes) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}


def test_the_mean_share_of_uniform_rows():
    """A range between two uniform draws holds a third of uniform rows; one condition a query, so the mean share is 1/3."""
    axis = (Axis(name="x", kind="number", low=0.0, high=1.0),)
    rows = Table(axes=axis, values=((np.arange(2000) + 0.5) / 2000)[:, None])
    shares = association.shares(association.draw(axis, 4000), rows)
    # The width of such a range has variance 1/18.
    assert abs(shares.mean() - 1 / 3) < 5 * np.sqrt(1 / 18 / 4000)


def test_equal_rows_have_no_error_and_words_are_plain():
    s, t = tables(frame(40, 1), frame(40, 1))
    entry, _ = association.range_error(s, t, t)
    assert (entry["mean"], entry["max"], entry["floor"]["max"]) == (0.0, 0.0, 0.0)
    words = {
        c.column: c.text(t.axes[c.column]) for query in association.draw(t.axes, association.QUERIES) for c in query
    }
    assert words[2].startswith("day from 2020-")
    assert words[3].startswith("c in {")
    assert words[4].startswith("o from I")


def test_a_single_category_can_still_be_asked_for():
    axes = (Axis(name="c", kind="category", levels=("a",)),)
    assert {condition.among for query in association.draw(axes, 20) for condition in query} == {(True,)}


def test_no_domain():
    nothing = Table(axes=(Axis(name="c", kind="category"),), values=np.full((3, 1), np.nan))
    assert association.range_error(nothing, nothing, nothing) == (None, "no column has a domain to draw ranges from")
