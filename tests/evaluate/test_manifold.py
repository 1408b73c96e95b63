import numpy as np
import pytest

from synthdp.evaluate import manifold
from synthdp.evaluate.tables import Axis, Table


def number_table(values):
    values = np.asarray(values, dtype=float).reshape(len(values), -1)
    axes = tuple(Axis(name=f"x{i}", kind="number") for i in range(values.shape[1]))
    return Table(axes=axes, values=values)


def brute(other, real, neighbours=manifold.NEIGHBOURS):
    """Both curves by loops, for rows without ties."""
    centre, own = real.mean(axis=0), other.mean(axis=0)
    far = sorted(np.linalg.norm(r - centre) for r in real)
    inside = [sum(x < np.linalg.norm(o - centre) for x in far) for o in other]
    precision = [np.mean([k < level * len(real) - 1e-9 for k in inside]) for level in manifold.LEVELS]
    ranks = np.argsort(np.argsort([np.linalg.norm(o - own) for o in other]))
    covered = []
    for r in real:
        radius = sorted(np.linalg.norm(r - x) for x in real)[neighbours]
        apart = [np.linalg.norm(r - o) for o in other]
        covered.append(ranks[int(np.argmin(apart))] if min(apart) <= radius else np.inf)
    recall = [np.mean([k < level * len(other) - 1e-9 for k in covered]) for level in manifold.LEVELS]
    return np.array(precision), np.array(recall)


def test_curves_against_loops():
    rng = np.random.default_rng(0)
    # As many rows that each level is a whole number of them: no row is half inside.
    real, other = rng.normal(size=(60, 3)), rng.normal(0.4, 1.3, size=(80, 3))
    precision, recall = brute(other, real)
    assert manifold.precision(other, real) == pytest.approx(precision)
    assert manifold.recall(other, real, manifold.radii(real, manifold.NEIGHBOURS)) == pytest.approx(recall)


def test_embedding_keeps_distances_to_the_centre():
    rng = np.random.default_rng(1)
    axes = tuple(Axis(name=f"c{i}", kind="category", levels=tuple("abcdefghijklm")) for i in range(4))
    t, s = (Table(axes=axes, values=rng.integers(0, k, (200, 4)).astype(float)) for k in (9, 13))
    b, a = manifold.embed(t, (t, s))
    assert b.shape[1] == manifold.COMPONENTS + 1
    frequencies = [np.bincount(column.astype(int), minlength=13) / 200 for column in t.values.T]
    for row, embedded in zip(s.values[:20], a[:20], strict=True):
        expected = 0.0
        for value, share in zip(row, frequencies, strict=True):
            hit = np.zeros(13)
            hit[int(value)] = 1.0
            expected += ((hit - share) ** 2).sum()
        assert (embedded**2).sum() == pytest.approx(expected)


def test_what_each_figure_sees():
    rng = np.random.default_rng(2)
    t, v, same = (number_table(rng.normal(size=(1500, 2))) for _ in range(3))
    centre_only = number_table(0.3 * rng.normal(size=(1500, 2)))  # typical rows only: precise in a way, no variety
    far = number_table(rng.normal(8.0, 1.0, size=(1500, 2)))
    alike, narrow, off = (manifold.precision_recall(x, t, v)[0] for x in (same, centre_only, far))
    for name in ("alpha_precision", "beta_recall"):
        assert alike[name]["mean"] > 0.9
        assert alike[name]["floor"]["mean"] > 0.9
        assert abs(alike[name]["mean"] - alike[name]["floor"]["mean"]) < 0.06
        assert off[name]["mean"] < 0.1
        assert alike[name]["curve"][0] == [0.0, 0.0]
        assert len(alike[name]["curve"]) == 21
    assert narrow["alpha_precision"]["curve"][10][1] > 0.95  # nearly all within the ball of half the real rows
    assert narrow["beta_recall"]["curve"][-1][1] < 0.6  # but most real rows have nobody near


def test_rows_with_many_ties_are_judged_as_if_in_random_order():
    """One binary column: the same shares give the diagonal, though all rows sit at two distances from the centre."""
    axes = (Axis(name="c", kind="category", levels=("a", "b")),)
    t = Table(axes=axes, values=np.repeat([0.0, 1.0], [70, 30])[:, None])
    entry, _ = manifold.precision_recall(t, t, t)
    for name in ("alpha_precision", "beta_recall"):
        assert entry[name]["mean"] == pytest.approx(1.0)
        assert [y for _, y in entry[name]["curve"]] == pytest.approx([x for x, _ in entry[name]["curve"]])
    # All synthetic rows "b", the rarer: beyond the 70 % ball, where they rise from 0 to 1 evenly; 30 % of real rows are covered.
    s = Table(axes=axes, values=np.ones((100, 1)))
    found, _ = manifold.precision_recall(s, t, t)
    assert found["alpha_precision"]["curve"][17] == [pytest.approx(0.85), pytest.approx(0.5)]
    assert found["beta_recall"]["curve"][-1][1] == pytest.approx(0.3)


def test_what_is_not_computed():
    rng = np.random.default_rng(3)
    few, t = number_table(rng.normal(size=29)), number_table(rng.normal(size=50))
    assert manifold.precision_recall(few, t, t)[0] is None
    constant = number_table(np.ones(50))
    assert manifold.precision_recall(t, constant, t) == (None, "no column varies in the real training rows")
