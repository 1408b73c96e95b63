"""From scores of runs with and without a record to a verdict: thresholds from tuning runs, bounds from test runs apart.

A threshold chosen on the runs that it is judged by would find leaks that are not there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from synthdp.errors import BadInput
from synthdp.evaluate.audit.region import Claim, Region, clopper_pearson, region

Scores = NDArray[np.float64]  # one per run; higher says "with the record"
TUNED_ERROR = 0.05  # at which tuning weighs a threshold; the verdict has an error of its own
TUNED_SHARE = 0.3  # the Gaussian threshold's rates count as those of so many of the tuning runs


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Where to cut: for the Gaussian bound, for few false positives, for few false negatives. Judged together."""

    gaussian: float
    few_false_positives: float
    few_false_negatives: float

    @property
    def all(self) -> tuple[float, ...]:
        """Each threshold once."""
        return tuple(dict.fromkeys((self.gaussian, self.few_false_positives, self.few_false_negatives)))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What test runs say. `epsilon` and `mu` are lower bounds that hold with probability 1 - `error`, each on its own;
    `contradicted` is wrong of a true claim with probability at most `gate_error`.
    """

    epsilon: float
    mu: float
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
    best = [float(cuts[np.argmax(promise)]) for promise in promises]
    return Thresholds(gaussian=best[0], few_false_positives=best[1], few_false_negatives=best[2])


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
    cuts = thresholds.all
    regions = [_at(cut, without, with_, error / len(cuts)) for cut in cuts]
    gates = [_at(cut, without, with_, gate_error / len(cuts)) for cut in cuts]
    return Verdict(
        epsilon=max(found.epsilon(delta) for found in regions),
        mu=_at(thresholds.gaussian, without, with_, error).mu,
        error=error,
        contradicted=any(claim.contradicted(found) for found in gates),
        gate_error=gate_error,
        runs=min(len(without), len(with_)),
    )


def _at(cut: float, without: Scores, with_: Scores, error: float) -> Region:
    return region(int((without > cut).sum()), len(without), int((with_ <= cut).sum()), len(with_), error)
