"""Does the synthetic cloud lie in the real one, and cover it? Balls around each record to its k-th nearest neighbour.

Precision and recall: Kynkaanniemi et al. 2019, equations 1 and 2. Density and coverage: Naeem et al. 2020, equations 2
and 3. Distances are computed from differences, not from products, so that equal records are at distance 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

K = 5
MOST_ROWS = 5_000
BLOCK = 500


def radii(points: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """(rows,): the distance from each point to its k-th nearest other point; more than k points."""
    found = [
        np.partition(block, k, axis=1)[:, k] for block in _distances(points, points)
    ]  # place 0 is the point itself
    return np.concatenate(found)


def judge(real: NDArray[np.float64], made: NDArray[np.float64], k: int = K) -> dict[str, float]:
    """precision, recall, density and coverage of made (M, dimensions) against real (N, dimensions), both longer than k.

    All are shares but density, which is 1 on average for equal distributions and may be larger.
    """
    real_radii, made_radii = radii(real, k), radii(made, k)
    balls = np.zeros(len(made), dtype=np.int64)  # real balls that hold each made record
    recalled, covered = [], []
    for start, block in zip(range(0, len(real), BLOCK), _distances(real, made), strict=True):
        inside = block <= real_radii[start : start + BLOCK, None]
        balls += inside.sum(axis=0)
        covered.append(inside.any(axis=1))
        recalled.append((block <= made_radii).any(axis=1))
    return {
        "precision": float((balls > 0).mean()),
        "recall": float(np.concatenate(recalled).mean()),
        "density": float(balls.mean() / k),
        "coverage": float(np.concatenate(covered).mean()),
    }


def _distances(left: NDArray[np.float64], right: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Blocks of at most 500 rows of the matrix of Euclidean distances."""
    from scipy.spatial.distance import cdist

    for start in range(0, len(left), BLOCK):
        yield cdist(left[start : start + BLOCK], right)
