"""Distances between two clouds of features: Frechet (FID, Heusel et al. 2017) and kernel (KID, Binkowski et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUBSETS, MOST_IN_SUBSET, LEAST_IN_SUBSET = 50, 1_000, 10


def frechet(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) of the two sets' means and covariances; 0 is best.

    left, right: (rows, dimensions), at least two rows each. (C1 C2)^(1/2) has the eigenvalues of the symmetric
    (R C2 R)^(1/2), R = C1^(1/2), which stay real where C1 or C2 is singular. Of fewer rows than dimensions the value is
    defined but far from that of the distributions: the caller refuses.
    """
    gap = left.mean(axis=0) - right.mean(axis=0)
    first, second = (np.atleast_2d(np.cov(part, rowvar=False)) for part in (left, right))
    values, vectors = np.linalg.eigh(first)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    product = root @ second @ root
    shared = np.sqrt(np.clip(np.linalg.eigvalsh((product + product.T) / 2), 0.0, None)).sum()
    found = float(gap @ gap + np.trace(first) + np.trace(second) - 2 * shared)
    return max(found, 0.0)  # rounding may go below


def kernel(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Unbiased squared maximum mean discrepancy with the kernel (x.y / dimensions + 1)^3: Binkowski et al., section 4.

    left, right: (rows, dimensions), at least two rows each. Its expectation is 0 for equal distributions, so it may be
    negative.
    """
    n, m, size = len(left), len(right), left.shape[1]
    own = (left @ left.T / size + 1) ** 3
    other = (right @ right.T / size + 1) ** 3
    cross = (left @ right.T / size + 1) ** 3
    within = (own.sum() - np.trace(own)) / (n * (n - 1)) + (other.sum() - np.trace(other)) / (m * (m - 1))
    return float(within - 2 * cross.mean())


def kernel_over_subsets(
    left: NDArray[np.float64], right: NDArray[np.float64], rng: np.random.Generator
) -> tuple[list[float], int]:
    """`kernel` on 50 pairs of subsets, and their size: half of the smaller set, at most 1,000 rows.

    A subset is drawn without replacement; half, so that two subsets of one set differ.
    """
    size = min(MOST_IN_SUBSET, len(left) // 2, len(right) // 2)
    found = []
    for _ in range(SUBSETS):
        a, b = (part[rng.choice(len(part), size=size, replace=False)] for part in (left, right))
        found.append(kernel(a, b))
    return found, size
