"""How near synthetic pictures lie to the training records, beside held-out real ones: what copying would show.

A small distance is not a breach and a large one not a guarantee, which only the ledger gives. This is an inspection.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from synthdp.evaluate.images.pictures import drawn

MOST_ROWS = 1_000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def nearest(points: NDArray[Any], among: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(rows,) places in among of each point's nearest neighbour (Euclidean) and the distances to them.

    points, among: (rows, dimensions), any number type; among is not empty. Neighbours are found with dot products in float32; the
    distance to each one found is computed from the difference, in float64.
    """
    place = pairwise_distances_argmin(points.astype(np.float32), among.astype(np.float32))
    apart = points.astype(np.float64) - among[place].astype(np.float64)
    return place, np.sqrt((apart * apart).sum(axis=1))


def distances(
    synthetic: NDArray[Any], train: NDArray[Any], test: NDArray[Any], rng: np.random.Generator
) -> dict[str, Any]:
    """Distances to the nearest training record, per picture, of synthetic and of held-out real ones; and the share of
    synthetic pictures that are nearer to training than to test records; equally many of both are taken.

    (rows, dimensions) each, none empty. The share is 0.5 on average where the synthetic pictures know no more of the
    training records than of the population; ties count half. Its standard error allows for pictures that share their
    nearest real record: they stand or fall together.
    """
    made, held = (part[drawn(len(part), MOST_ROWS, rng)] for part in (synthetic, test))
    rows = min(len(train), len(test))
    near_train, to_train = nearest(made, train[drawn(len(train), rows, rng)])
    near_test, to_test = nearest(made, test[drawn(len(test), rows, rng)])
    nearer = (to_train < to_test) + 0.5 * (to_train == to_test)
    owner = np.where(to_train < to_test, near_train, rows + near_test)
    return {
        "synthetic": _summary(nearest(made, train)[1]),
        "test": _summary(nearest(held, train)[1]),
        "closer_to_train": {"mean": float(nearer.mean()), "standard_error": _clustered(nearer, owner)},
        "rows": {"synthetic": len(made), "test": len(held), "train": len(train), "share": rows},
    }


def copies(pixels: NDArray[np.uint8], train: NDArray[np.uint8]) -> int:
    """How many pictures equal a training record in every pixel."""
    known = {row.tobytes() for row in train}
    return sum(row.tobytes() in known for row in pixels)


def distinct(pixels: NDArray[np.uint8]) -> int:
    """How many different pictures there are."""
    return len({row.tobytes() for row in pixels})


def _clustered(values: NDArray[np.float64], owner: NDArray[np.int64]) -> float:
    """Standard error of the mean of values (rows,) whose clusters are named by owner: Liang & Zeger 1986."""
    sums = np.bincount(owner, weights=values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))


def _summary(found: NDArray[np.float64]) -> dict[str, Any]:
    levels = np.quantile(found, QUANTILES)
    return {
        "quantiles": {f"{q:g}": float(level) for q, level in zip(QUANTILES, levels, strict=True)},
        "mean": float(found.mean()),
    }
