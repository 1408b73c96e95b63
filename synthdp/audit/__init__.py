"""Audits: what an attacker measures against what was claimed. Pure statistics and canaries; what runs fits is elsewhere.

Every bound here is a *lower* bound on epsilon that holds with a stated confidence. A bound far below the
claim says only that this attack was weak; a bound above the claim shows that the claim is wrong.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from synthdp.audit.canaries import Canaries, hold_out, plant
from synthdp.errors import BadInput
from synthdp.evaluate.error_region import Claim, Region, clopper_pearson, region

__all__ = [
    "Canaries",
    "Claim",
    "Region",
    "Verdict",
    "clopper_pearson",
    "hold_out",
    "judge",
    "plant",
    "region",
    "tune",
    "word",
]


Scores = NDArray[np.float64]  # one per run; higher says "with the record"
TUNED_ERROR = 0.05  # at which tuning weighs a threshold; the verdict has an error of its own
TUNED_SHARE = 0.3  # the Gaussian threshold's rates count as those of so many of the tuning runs
# Where to cut: for the Gaussian bound, for few false positives, for few false negatives. Judged together.
Thresholds = tuple[float, float, float]
LEAST_FOUND = 0.05  # of the claim: an attack that finds less would not have noticed a claim that is false


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What test runs say. `epsilon` and `mu` are lower bounds that hold with probability 1 - `error`, each on its own;
    `contradicted` is wrong of a true claim with probability at most `gate_error`. `mu_estimate` is mu by the rates themselves, of the
    standard error `mu_error`: a point estimate, no bound.
    """

    epsilon: float
    mu: float
    mu_estimate: float
    mu_error: float
    error: float
    contradicted: bool
    gate_error: float
    runs: int


def tune(without: Scores, with_: Scores, delta: float, runs: int) -> Thresholds:
    """The thresholds that promise most for `runs` test runs a side, by the rates among these tuning runs.

    The best of many noisy rates promises more than it keeps, most of all far out, where few runs are seen: the Gaussian bound, best
    cut in the middle, trusts its rates as those of `TUNED_SHARE` of the tuning runs; the others live far out and trust all.
    """
    tuned = min(len(without), len(with_))
    if not tuned:
        raise BadInput("tuning needs runs of both sides")
    values = np.unique(np.concatenate([without, with_]))
    cuts = np.append((values[1:] + values[:-1]) / 2, values[-1]) if len(values) > 1 else values
    positive = 1 - np.searchsorted(np.sort(without), cuts, side="right") / len(without)
    negative = np.searchsorted(np.sort(with_), cuts, side="right") / len(with_)

    def bounds(trusted: int) -> tuple[Scores, Scores]:
        weight = min(runs, trusted)
        return tuple(clopper_pearson(rate * weight, weight, TUNED_ERROR / 2) for rate in (positive, negative))

    a, b = bounds(max(1, round(TUNED_SHARE * tuned)))
    promises = [-ndtri(a) - ndtri(b)]
    a, b = bounds(tuned)
    with np.errstate(divide="ignore"):
        promises += [np.log(np.maximum(1 - delta - one, 0)) - np.log(other) for one, other in ((b, a), (a, b))]
    gaussian, few_false_positives, few_false_negatives = (float(cuts[np.argmax(promise)]) for promise in promises)
    return gaussian, few_false_positives, few_false_negatives


def judge(
    thresholds: Thresholds,
    without: Scores,
    with_: Scores,
    claim: Claim,
    *,
    delta: float,
    error: float = 0.05,
    gate_error: float = 1e-3,
) -> Verdict:
    """Bounds at `delta` and whether the claim is contradicted, each with its error shared among the thresholds.

    The Gaussian bound has a threshold of its own and needs no sharing. Raises `BadInput` without runs.
    """
    gaussian, cuts = thresholds[0], dict.fromkeys(thresholds)
    regions = [_at(cut, without, with_, error / len(cuts)) for cut in cuts]
    gates = [_at(cut, without, with_, gate_error / len(cuts)) for cut in cuts]
    estimate, deviation = _estimated(gaussian, without, with_)
    return Verdict(
        epsilon=max(found.epsilon(delta) for found in regions),
        mu=_at(gaussian, without, with_, error).mu,
        mu_estimate=estimate,
        mu_error=deviation,
        error=error,
        contradicted=any(claim.contradicted(found) for found in gates),
        gate_error=gate_error,
        runs=min(len(without), len(with_)),
    )


def word(found: float, claimed: float, *, contradicted: bool) -> str:
    """The verdict in a word. "no power": the attack found next to nothing, so it does not support the claim either."""
    if contradicted:
        return "contradicted"
    return "stands" if found > 0 and found >= LEAST_FOUND * claimed else "no power"


def _estimated(cut: float, without: Scores, with_: Scores) -> tuple[float, float]:
    """mu by the rates at a threshold, and its standard error by the delta method; half a run is added to either end of a rate."""
    total, variance = 0.0, 0.0
    for errors, runs in ((int((without > cut).sum()), len(without)), (int((with_ <= cut).sum()), len(with_))):
        rate = (errors + 0.5) / (runs + 1)
        quantile = float(ndtri(rate))
        total -= quantile
        variance += rate * (1 - rate) / runs / (math.exp(-(quantile**2) / 2) / math.sqrt(2 * math.pi)) ** 2
    return total, math.sqrt(variance)


def _at(cut: float, without: Scores, with_: Scores, error: float) -> Region:
    return region(int((without > cut).sum()), len(without), int((with_ <= cut).sum()), len(with_), error)
