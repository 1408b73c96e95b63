"""Rates of success with their intervals; every interval is two-sided and holds with confidence 1 - error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.error_region import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RESAMPLES = 1_000
Interval = tuple[float, float]


def proportion(count: float, trials: float, error: float) -> Interval:
    """Of a binomial rate (Clopper & Pearson 1934). A trials number that is not whole is an effective one."""
    low = 1.0 - float(clopper_pearson(trials - count, trials, error / 2))
    return low, float(clopper_pearson(count, trials, error / 2))


def difference(first: tuple[float, float], second: tuple[float, float], error: float) -> Interval:
    """Of the first rate minus the second, both (count, trials) and independent.

    Newcombe 1998 (Statistics in Medicine 17, method 10: limits squared and added), with Clopper-Pearson limits.
    """
    a, b = first[0] / first[1], second[0] / second[1]
    (a_low, a_high), (b_low, b_high) = proportion(*first, error), proportion(*second, error)
    gap = a - b
    low, high = np.hypot(a - a_low, b_high - b), np.hypot(a_high - a, b - b_low)
    return float(max(-1.0, gap - low)), float(min(1.0, gap + high))


def auroc(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    """The chance that a member scores above a non-member; ties count half."""
    codes, own = _ranked(inside, outside)
    return _area(codes[:own], codes[own:], int(codes.max()) + 1)


def auroc_interval(
    inside: NDArray[np.float64], outside: NDArray[np.float64], rng: np.random.Generator, error: float
) -> Interval:
    """Percentile bootstrap over members and over non-members (Efron & Tibshirani 1993, chapter 13)."""
    codes, own = _ranked(inside, outside)
    members, others, size = codes[:own], codes[own:], int(codes.max()) + 1

    def one() -> float:
        return _area(rng.choice(members, len(members)), rng.choice(others, len(others)), size)

    return percentiles(one, error)


def percentiles(one: Callable[[], float], error: float) -> Interval:
    """The percentile interval of 1,000 draws of a resampled figure."""
    found = np.quantile([one() for _ in range(RESAMPLES)], [error / 2, 1 - error / 2])
    return float(found[0]), float(found[1])


def _ranked(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    codes = np.unique(np.concatenate([inside, outside]), return_inverse=True)[1]
    return codes, len(inside)


def _area(members: NDArray[np.int64], others: NDArray[np.int64], size: int) -> float:
    below = np.bincount(others, minlength=size)
    wins = np.cumsum(below) - 0.5 * below
    return float(wins[members].mean() / len(others))
