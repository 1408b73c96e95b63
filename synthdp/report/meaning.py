"""What an (epsilon, delta) guarantee leaves an attacker, whoever they are and whatever else they know.

The attacker tries to tell whether one unit's records were used (for replace_one: which of two versions). A curve is
a set of (delta, epsilon) points that all hold; each bounds the attacker, and the least bound counts.
"""

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


def detection(points: Iterable[tuple[float, float]], false_alarms: float) -> float:
    """The most that the true positive rate can be at a given false positive rate.

    One point gives min(1, e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)) at rate a (Kairouz et al. 2015).
    """
    return min((_detection(delta, epsilon, false_alarms) for delta, epsilon in points), default=1.0)


def _advantage(delta: float, epsilon: float) -> float:
    pure = math.tanh(epsilon / 2)
    return min(1.0, pure + delta * (1 - pure))


def _detection(delta: float, epsilon: float, false_alarms: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    least_missed = math.exp(-epsilon) * max(0.0, 1 - delta - false_alarms)
    below = delta + false_alarms * math.exp(epsilon) if epsilon < 700 else math.inf
    return min(1.0, 1 - least_missed, below)
