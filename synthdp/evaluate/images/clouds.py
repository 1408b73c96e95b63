"""Every comparison of two clouds of features, with its floor: real test records in the place of the synthetic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.images import coverage, image_distances
from synthdp.evaluate.images.pictures import drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLOUD_STREAM = 23
COVERAGE = ("precision", "recall", "density", "coverage")
LEAST_FOR_BALLS = 4 * coverage.K


def compare(
    synthetic: NDArray[np.float64], train: NDArray[np.float64], test: NDArray[np.float64]
) -> tuple[dict[str, Any], list[dict[str, str]]]:
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


def _fid(
    made: NDArray[np.float64], held: NDArray[np.float64], train: NDArray[np.float64], _: np.random.Generator
) -> tuple[dict[str, Any], str]:
    fewest, size = min(len(made), len(train)), train.shape[1]
    if fewest <= size:
        return {}, f"a covariance of {size} features needs more than {size} records a set; the smallest has {fewest}"
    entry = {"mean": image_distances.frechet(made, train), "floor": {"mean": image_distances.frechet(held, train)}}
    return {"fid": {**entry, "rows": {"synthetic": len(made), "train": len(train)}}}, ""


def _kid(
    made: NDArray[np.float64], held: NDArray[np.float64], train: NDArray[np.float64], rng: np.random.Generator
) -> tuple[dict[str, Any], str]:
    fewest, least = min(len(made), len(train)), 2 * image_distances.LEAST_IN_SUBSET
    if fewest < least:
        return {}, f"at least {least} records a set are needed; the smallest has {fewest}"
    values, size = image_distances.kernel_over_subsets(made, train, rng)
    floor, _ = image_distances.kernel_over_subsets(held, train, rng)
    entry = {**_spread(values), "floor": _spread(floor)}
    return {"kid": {**entry, "subsets": image_distances.SUBSETS, "rows": size}}, ""


def _coverage(
    made: NDArray[np.float64], held: NDArray[np.float64], train: NDArray[np.float64], rng: np.random.Generator
) -> tuple[dict[str, Any], str]:
    rows = min(len(made), len(train), coverage.MOST_ROWS)
    if rows < LEAST_FOR_BALLS:
        return {}, f"at least {LEAST_FOR_BALLS} records a set are needed; the smallest has {rows}"
    real = train[drawn(len(train), rows, rng)]
    values, floor = (coverage.judge(real, part[drawn(len(part), rows, rng)]) for part in (made, held))
    return {
        metric: {"mean": values[metric], "floor": {"mean": floor[metric]}, "k": coverage.K, "rows": rows}
        for metric in COVERAGE
    }, ""


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1))}
