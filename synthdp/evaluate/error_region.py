"""The region of (false positive, false negative) rates that runs leave possible, and what it says of a claim.

Differential privacy is a bound on tests (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015): whoever tells "with the
record" from "without" at false positive rate a and false negative rate b has a + e^epsilon b >= 1 - delta and
e^epsilon a + b >= 1 - delta. Rates that are small with confidence therefore bound epsilon from below.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from synthdp.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Region:
    """Upper bounds on both rates at one threshold; together they hold with the confidence they were made at."""

    false_positive: float
    false_negative: float

    def epsilon(self, delta: float) -> float:
        """The least epsilon that a mechanism of these rates can have at `delta`; 0 where they exclude none."""
        a, b = self.false_positive, self.false_negative
        return max(_log_ratio(1 - delta - a, b), _log_ratio(1 - delta - b, a), 0.0)

    @property
    def mu(self) -> float:
        """The least mu of Gaussian DP (Dong, Roth & Su 2022) with these rates: z(1 - a) - z(b) (Nasr et al. 2023,
        arXiv 2302.07956, section 4). Valid for mechanisms whose trade-off curve is Gaussian, a diagnostic elsewhere.
        """
        return max(0.0, float(-ndtri(self.false_positive) - ndtri(self.false_negative)))


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is promised: a curve of (delta, epsilon) pairs that all hold; `mu` where it is exactly Gaussian DP."""

    curve: tuple[tuple[float, float], ...]
    mu: float | None = None

    def __post_init__(self) -> None:
        if not self.curve or any(not (0 < delta < 1 and epsilon >= 0) for delta, epsilon in self.curve):
            raise BadInput("a claim needs pairs (delta, epsilon) with delta in (0, 1) and epsilon of 0 or more")

    def contradicted(self, found: Region) -> bool:
        """Whether the whole region lies below the claimed trade-off curve: no mechanism that keeps the claim is in it."""
        if self.mu is not None and found.mu > self.mu:
            return True
        return any(found.epsilon(delta) > epsilon for delta, epsilon in self.curve)


def region(false_positives: int, without: int, false_negatives: int, with_: int, error: float) -> Region:
    """The region of counts out of runs `without` and `with_` the record; the true rates lie in it but for `error`."""
    return Region(
        false_positive=float(clopper_pearson(false_positives, without, error / 2)),
        false_negative=float(clopper_pearson(false_negatives, with_, error / 2)),
    )


def clopper_pearson(count: Any, trials: float, error: float) -> Any:
    """Upper bound on a binomial rate (Clopper & Pearson 1934): below the truth with probability at most `error`.

    `count` is a number or an array of them.
    """
    if not 0 < error < 1:
        raise BadInput(f"error must lie strictly between 0 and 1, got {error}")
    counts = np.asarray(count, np.float64)
    if trials <= 0 or (counts < 0).any() or (counts > trials).any():
        raise BadInput("counts must lie between 0 and the number of runs, which must be 1 or more")
    return np.where(counts >= trials, 1.0, betaincinv(counts + 1, np.maximum(trials - counts, 1e-9), 1 - error))


def _log_ratio(numerator: float, denominator: float) -> float:
    if numerator <= 0:
        return -math.inf
    return math.inf if denominator <= 0 else math.log(numerator / denominator)
