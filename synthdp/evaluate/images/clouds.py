"""Does the synthetic cloud lie in the real one, and cover it? Balls around each record to its k-th nearest neighbour.

Precision and recall: Kynkaanniemi et al. 2019, equations 1 and 2. Density and coverage: Naeem et al. 2020, equations 2
and 3. Distances are computed from differences, not from products, so that equal records are at distance 0.

The space in which clouds are compared is learned here, from the real training records, and never downloaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.images.image_classifiers import CNN_SIDE, ROWS_STREAM, Fitted, threads
from synthdp.evaluate.images.pictures import drawn, shrunk
from synthdp.evaluate.manifold import distances, radii

Array = NDArray[np.float64]

K = 5
MOST_ROWS = 5_000


def judge(real: Array, made: Array, k: int = K) -> dict[str, float]:
    """precision, recall, density and coverage of made (M, dimensions) against real (N, dimensions), both longer than k.

    All are shares but density, which is 1 on average for equal distributions and may be larger.
    """
    real_radii, made_radii = radii(real, k), radii(made, k)
    balls = np.zeros(len(made), dtype=np.int64)  # real balls that hold each made record
    recalled, covered = [], []
    for rows, block in distances(real, made):
        inside = block <= real_radii[rows, None]
        balls += inside.sum(axis=0)
        covered.append(inside.any(axis=1))
        recalled.append((block <= made_radii).any(axis=1))
    return {
        "precision": float((balls > 0).mean()),
        "recall": float(np.concatenate(recalled).mean()),
        "density": float(balls.mean() / k),
        "coverage": float(np.concatenate(covered).mean()),
    }


# ---- Distances between two clouds of features: Frechet (FID, Heusel et al. 2017) and kernel (KID, Binkowski et al. 2018).


SUBSETS, MOST_IN_SUBSET, LEAST_IN_SUBSET = 50, 1_000, 10


def frechet(left: Array, right: Array) -> float:
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


def kernel(left: Array, right: Array) -> float:
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


def kernel_over_subsets(left: Array, right: Array, rng: np.random.Generator) -> tuple[list[float], int]:
    """`kernel` on 50 pairs of subsets, and their size: half of the smaller set, at most 1,000 rows.

    A subset is drawn without replacement; half, so that two subsets of one set differ.
    """
    size = min(MOST_IN_SUBSET, len(left) // 2, len(right) // 2)
    found = []
    for _ in range(SUBSETS):
        a, b = (part[rng.choice(len(part), size=size, replace=False)] for part in (left, right))
        found.append(kernel(a, b))
    return found, size


# ---- Every comparison of two clouds of features, with its floor: real test records in the place of the synthetic ones.


CLOUD_STREAM = 23
COVERAGE = ("precision", "recall", "density", "coverage")
LEAST_FOR_BALLS = 4 * K


def compare(synthetic: Array, train: Array, test: Array) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """fid, kid, precision, recall, density and coverage against the training records; what could not be computed, why.

    (rows, dimensions) each, none empty. Synthetic and test records are taken equally many, since the bias of these
    measures depends on the number; which is told under "rows".
    """
    rng = np.random.default_rng(CLOUD_STREAM)
    rows = min(len(synthetic), len(test))
    made, held = (part[drawn(len(part), rows, rng)] for part in (synthetic, test))
    found: dict[str, Any] = {}
    log: list[dict[str, str]] = []
    for metrics, compute in ((("fid",), _fid), (("kid",), _kid), (COVERAGE, _coverage)):
        entry, reason = compute(made, held, train, rng)
        found |= entry
        log += [{"metric": metric, "reason": reason} for metric in metrics if reason]
    return found, log


def _fid(made: Array, held: Array, train: Array, _: np.random.Generator) -> tuple[dict[str, Any], str]:
    fewest, size = min(len(made), len(train)), train.shape[1]
    if fewest <= size:
        return (
            {},
            f"a covariance of {size} features needs more than {size} records in each set; the smallest has {fewest}",
        )
    entry = {"mean": frechet(made, train), "floor": {"mean": frechet(held, train)}}
    return {"fid": {**entry, "rows": {"synthetic": len(made), "train": len(train)}}}, ""


def _kid(made: Array, held: Array, train: Array, rng: np.random.Generator) -> tuple[dict[str, Any], str]:
    fewest, least = min(len(made), len(train)), 2 * LEAST_IN_SUBSET
    if fewest < least:
        return {}, f"each set needs at least {least} records; the smallest has {fewest}"
    values, size = kernel_over_subsets(made, train, rng)
    floor, _ = kernel_over_subsets(held, train, rng)
    entry = {**_spread(values), "floor": _spread(floor)}
    return {"kid": {**entry, "subsets": SUBSETS, "rows": size}}, ""


def _coverage(made: Array, held: Array, train: Array, rng: np.random.Generator) -> tuple[dict[str, Any], str]:
    rows = min(len(made), len(train), MOST_ROWS)
    if rows < LEAST_FOR_BALLS:
        return {}, f"each set needs at least {LEAST_FOR_BALLS} records; the smallest has {rows}"
    real = train[drawn(len(train), rows, rng)]
    values, floor = (judge(real, part[drawn(len(part), rows, rng)]) for part in (made, held))
    return {
        metric: {"mean": values[metric], "floor": {"mean": floor[metric]}, "k": K, "rows": rows} for metric in COVERAGE
    }, ""


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}


COMPONENTS = 64
PIXEL_SIDE = 16  # pictures are averaged down to it before their components are sought


@dataclass(frozen=True, kw_only=True)
class Features:
    """words: which features these are, for the reader. map: pixels (rows, h, w, c) -> (rows, dimensions), unscaled.

    centre and scale come from the real training records: one number for all dimensions, so that the mean variance is 1
    and distances of different data sets can be read side by side. scale is 0 where these records do not vary.
    """

    words: str
    map: Callable[[NDArray[np.uint8]], Array]
    centre: Array
    scale: float

    def __call__(self, pixels: NDArray[np.uint8]) -> Array:
        """(rows, dimensions). Only where scale is not 0."""
        with threads():
            return (self.map(pixels) - self.centre) / self.scale


def of_classifier(target: str, ceiling: Fitted, train: NDArray[np.uint8]) -> Features | None:
    """The penultimate layer of the evaluation's CNN, trained (seed 0) on the real training records to tell the target's
    classes apart; None where it has seen one class only."""
    from synthdp.evaluate.images import feature_networks

    network = ceiling.learnt.network if ceiling.learnt is not None else None
    if network is None:
        return None
    words = (
        f"penultimate layer ({feature_networks.FEATURES} units) of the evaluation's CNN, trained on the real training records to "
        f"predict {target}; they are internal, and not comparable with figures on other features such as Inception's"
    )
    return _scaled(words, lambda x: feature_networks.features(network, shrunk(x, CNN_SIDE)), train)


def of_pixels(train: NDArray[np.uint8]) -> Features:
    """Principal components of the real training pixels, where there is no target to train a network on."""
    x = _flat(train[drawn(len(train), 10_000, np.random.default_rng((ROWS_STREAM, 0)))])
    mean = x.mean(axis=0)
    _, vectors = np.linalg.eigh((x - mean).T @ (x - mean))
    kept = vectors[:, ::-1][:, :COMPONENTS]
    words = (
        f"first {kept.shape[1]} principal components of the pixels of the real training records (there is no target)"
    )
    return _scaled(words, lambda pixels: (_flat(pixels) - mean) @ kept, train)


def _scaled(words: str, map: Callable[[NDArray[np.uint8]], Array], train: NDArray[np.uint8]) -> Features:
    with threads():
        found = map(train)
    variance = float(found.var(axis=0).mean())
    return Features(words=words, map=map, centre=found.mean(axis=0), scale=variance**0.5 if variance > 1e-12 else 0.0)


def _flat(pixels: NDArray[np.uint8]) -> Array:
    return shrunk(pixels, PIXEL_SIDE).reshape(len(pixels), -1) / 255.0
