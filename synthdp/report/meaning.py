"""What an (epsilon, delta) guarantee leaves an attacker, whoever they are and whatever else they know.

The attacker tries to tell whether one unit's records were used (for replace_one: which of two versions). A curve is
a set of (delta, epsilon) points that all hold; each bounds the attacker, and the least bound counts.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

Curve = Sequence[tuple[float, float]]


def advantage(points: Iterable[tuple[float, float]]) -> float:
    """The most that true positive rate minus false positive rate can be, in [0, 1].

    One point gives (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): where the two lines of the trade-off region meet (Kairouz,
    Oh & Viswanath 2015, theorem 2.1). Written with tanh, so that a large epsilon does not overflow.
    """
    return min((_advantage(delta, epsilon) for delta, epsilon in points), default=1.0)


def accuracy(points: Iterable[tuple[float, float]]) -> float:
    """The best rate of right answers where both cases are equally likely beforehand; 1/2 is guessing."""
    return (1 + advantage(points)) / 2


def accuracy_at(points: Iterable[tuple[float, float]], prior: float) -> float:
    """The best rate of right answers where the unit was used with probability `prior` beforehand; to 12 decimals.

    Bayes risk over the trade-off region (Kairouz et al. 2015, theorem 2.1; Dong, Roth & Su 2022, section 2): the largest
    prior * TPR + (1 - prior) * (1 - FPR) under all lines of all points. It is piecewise linear, so a corner attains it.
    At prior 1/2 it is `accuracy`; it is never below max(prior, 1 - prior), which guessing reaches.
    """
    lines = _lines(points)
    crossings = (
        (above - low) / (steep - flat)
        for (steep, low), (flat, above) in itertools.permutations(lines, 2)
        if steep > flat and 0 <= above - low <= steep - flat
    )
    best = max(
        prior * min(slope * rate + start for slope, start in lines) + (1 - prior) * (1 - rate)
        for rate in {0.0, 1.0, *crossings}
    )
    return round(min(1.0, best), 12)


def belief(epsilon: float, prior: float) -> tuple[float, float]:
    """The least and the most that a belief of `prior` can become: its odds change by a factor of e^epsilon at most.

    But for a failure of probability delta: what is seen is made from an outcome that either gives everything away (with
    probability delta) or changes the odds by exactly this factor (Kairouz et al. 2015, theorem 2.1).
    """
    return _belief(-epsilon, prior), _belief(epsilon, prior)


def detection(points: Iterable[tuple[float, float]], false_alarms: float) -> float:
    """The most that the true positive rate can be at a given false positive rate.

    One point gives min(1, e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)) at rate a (Kairouz et al. 2015).
    """
    return min((_detection(delta, epsilon, false_alarms) for delta, epsilon in points), default=1.0)


def _belief(shift: float, prior: float) -> float:
    if prior in (0.0, 1.0):
        return prior
    logit = math.log(prior / (1 - prior)) + shift
    return math.exp(min(0.0, logit)) / (1 + math.exp(-abs(logit)))


def _lines(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (slope, intercept) of every line above the trade-off region: TPR as a function of FPR."""
    lines = [(0.0, 1.0)]
    for delta, epsilon in points:
        if math.isfinite(epsilon):
            lines.append((math.exp(-epsilon), 1 - math.exp(-epsilon) * (1 - delta)))
        if epsilon < 700:  # beyond, e^epsilon is no float64 and the line bounds nothing
            lines.append((math.exp(epsilon), delta))
    return lines


def _advantage(delta: float, epsilon: float) -> float:
    pure = math.tanh(epsilon / 2)
    return min(1.0, pure + delta * (1 - pure))


def _detection(delta: float, epsilon: float, false_alarms: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    least_missed = math.exp(-epsilon) * max(0.0, 1 - delta - false_alarms)
    below = delta + false_alarms * math.exp(epsilon) if epsilon < 700 else math.inf
    return min(1.0, 1 - least_missed, below)
