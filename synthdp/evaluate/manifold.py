"""alpha-precision and beta-recall (Alaa, van Breugel, Saveliev & van der Schaar 2022, "How faithful is your synthetic data?").

Is a synthetic row where real ones typically are (precision), and is there a synthetic row for every kind of real one
(recall)? Both for the alpha (beta) most typical share of rows, over all shares.

The embedding, where the paper trains a network on each table: numbers and ordinals standardised by the training rows (cut at
10 deviations), an indicator for each of a column's 30 most frequent categories, one for the others and one for missing
values. Of this the first 32 principal components of the training rows, and as one more coordinate the length of what they
leave out, so that no distance to the centre is lost. Deterministic, and the same for every judge of the same training rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from synthdp.evaluate.features import Features
from synthdp.evaluate.tables import Table

Array = NDArray[np.float64]


COMPONENTS = 32
NEIGHBOURS = 5
MIN_ROWS = 30
# Distances between all pairs of rows: more would only sharpen figures that are read to two digits.
MOST_ROWS = 5_000
LEVELS = np.linspace(0.0, 1.0, 21)
STREAM = 19
BLOCK = 500
# Rows that are equal in two sets differ by rounding errors once they are embedded.
SLACK = 1e-9


def precision_recall(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """{"alpha_precision", "beta_recall"}: each {"mean", "curve", "floor": {"mean", "curve"}, "rows"}; or None and the reason.

    curve: [[level, share], ...] for levels 0, 0.05, ... 1. alpha-precision at alpha: share of synthetic rows within the
    ball around the real centre that holds the share alpha of the real training rows. beta-recall at beta: share of
    training rows whose nearest synthetic row is within the distance of their 5th nearest training row and among the
    beta most central synthetic ones. (The paper takes the nearest of the beta most central ones. Then the most central
    of all near rows decides, and real test rows of Adult come to 0.69.) Both are about the level itself where the two
    have one distribution. mean: 1 - 2 x the area between curve and diagonal, 1 is best, 0 worst (the paper's integrated
    figures). floor: the same of the real test rows as if they were synthetic.

    Equally many rows of each set, at most 5,000, by a fixed draw. Where rows are at one and the same distance, they are
    counted as if in random order, which the paper's continuous embedding need not say.
    """
    rows = min(synthetic.rows, train.rows, test.rows, MOST_ROWS)
    if rows < MIN_ROWS:
        return None, f"the smallest of the three sets has {rows} rows; at least {MIN_ROWS} are needed"
    rng = np.random.default_rng(STREAM)
    s, t, v = (x.take(np.sort(rng.choice(x.rows, size=rows, replace=False))) for x in (synthetic, train, test))
    a, b, c = embed(t, (s, t, v))
    if not np.ptp(b, axis=0).any():
        return None, "no column varies in the real training rows"
    reach = radii(b, NEIGHBOURS)
    judged = {"synthetic": (precision(a, b), recall(a, b, reach)), "floor": (precision(c, b), recall(c, b, reach))}
    result = {}
    for i, name in enumerate(("alpha_precision", "beta_recall")):
        entry, floor = (_summary(judged[role][i]) for role in ("synthetic", "floor"))
        result[name] = {**entry, "floor": floor, "rows": rows}
    return result, None


def embed(train: Table, tables: tuple[Table, ...]) -> list[Array]:
    """Each table's rows as (rows, at most 33) coordinates around the centre of the training rows; see the module."""
    features = Features.fit(train)
    basis = features.dense(train)
    centre = basis.mean(axis=0)
    basis = basis - centre
    values, vectors = np.linalg.eigh(basis.T @ basis)
    kept = vectors[:, np.argsort(values)[::-1][:COMPONENTS]]
    found: list[Array] = []
    for table in tables:
        wide = features.dense(table) - centre
        narrow = wide @ kept
        rest = np.linalg.norm(wide - narrow @ kept.T, axis=1)
        found.append(np.column_stack([narrow, rest]))
    return found


def precision(other: Array, real: Array) -> Array:
    """(levels,): share of other rows in the ball that holds each share of the real ones; both embedded."""
    centre = real.mean(axis=0)
    return _reached(*_ranks(_lengths(other - centre), _lengths(real - centre)))


def recall(other: Array, real: Array, reach: Array) -> Array:
    """(levels,): share of real rows whose nearest other row is within reach (rows,) and among the most central share."""
    central = _lengths(other - other.mean(axis=0))
    nearest, apart = np.hstack([(block.argmin(axis=1), block.min(axis=1)) for _, block in distances(real, other)])
    covered = apart <= reach + SLACK
    return _reached(*_ranks(central[nearest[covered].astype(np.int64)], central)) * float(covered.mean())


def radii(points: Array, k: int) -> Array:
    """(rows,): the distance from each point to its k-th nearest other point; more than k points."""
    # Place 0 is the point itself.
    return np.concatenate([np.partition(block, k, axis=1)[:, k] for _, block in distances(points, points)])


def distances(left: Array, right: Array) -> Iterator[tuple[slice, Array]]:
    """At most 500 rows and their Euclidean distances to all right ones; from differences, so that equal rows are at 0."""
    for start in range(0, len(left), BLOCK):
        rows = slice(start, start + BLOCK)
        yield rows, cdist(left[rows], right)


def _summary(curve: Array) -> dict[str, Any]:
    gap = np.abs(curve - LEVELS)
    area = float(np.sum((gap[1:] + gap[:-1]) / 2 * np.diff(LEVELS)))
    return {"mean": 1 - 2 * area, "curve": [[float(x), float(y)] for x, y in zip(LEVELS, curve, strict=True)]}


def _ranks(lengths: Array, among: Array) -> tuple[Array, Array]:
    """(rows,) twice: the shares of `among` that are below each length, and not above it."""
    order = np.sort(among)
    below = np.searchsorted(order, lengths, side="left")
    return below / len(order), np.searchsorted(order, lengths, side="right") / len(order)


def _reached(low: Array, high: Array) -> Array:
    """(levels,): mean over rows of the chance that a rank drawn evenly between low and high is at most the level."""
    if not len(low):
        return np.zeros(len(LEVELS))
    tied = high > low
    width = np.where(tied, high - low, 1.0)
    # A level of 0.3 and a rank of 3 / 10 are the same, whatever their last bits say.
    beyond = [(np.where(tied, np.clip((level - low) / width, 0.0, 1.0), level > low + 1e-9)) for level in LEVELS]
    return np.array([float(reached.mean()) for reached in beyond])


def _lengths(rows: Array) -> Array:
    """Rounded, so that equal rows are at equal distances."""
    lengths: Array = np.round(np.linalg.norm(rows, axis=1), 9)
    return lengths
