"""Advanced ("strong") composition of (epsilon, delta)-DP events that differ (Kairouz, Oh & Viswanath 2015, theorem 3.5).

It is never worse than Dwork, Rothblum & Vadhan 2010 (whose k epsilon (e^epsilon - 1) is here k epsilon tanh(epsilon / 2)) and
holds basic composition as a special case. The share of delta that pays for composing is chosen from a fixed list.
"""

import math
from collections.abc import Iterable
from typing import Any

from synthdp.accounting.accountants import naive
from synthdp.accounting.charges import Charges

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)  # of delta, for composing; any is valid, and the least epsilon is taken


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta."""
    singles = naive.unbounded_or(charges)
    if singles is None:
        return math.inf
    apart = sum(count for single, count in singles if not single.pure)
    least = naive.epsilon(charges, delta)
    for share in SHARES if apart else (1.0,):
        each = delta * (1 - share) / apart if apart else 0.0
        least = min(least, composed([(single.epsilon(each), count) for single, count in singles], share * delta))
    return least


def composed(epsilons: Iterable[tuple[float, int]], slack: float) -> float:
    """The three bounds of the theorem for (epsilon, count) pairs at delta `slack`; the events' own deltas come on top.

    The theorem's delta, 1 - (1 - slack) prod(1 - delta_i), is at most slack + sum delta_i, which is what is charged.
    """
    pairs = list(epsilons)
    total = math.fsum(count * each for each, count in pairs)
    squares = math.fsum(count * each * each for each, count in pairs)
    if not math.isfinite(squares) or squares == 0:
        return total
    drift = math.fsum(count * each * math.tanh(each / 2) for each, count in pairs)
    by_variance = math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / slack))
    return min(total, drift + min(by_variance, math.sqrt(2 * squares * -math.log(slack))))


def provenance() -> dict[str, Any]:
    """The list of shares decides the last digits."""
    return {"composition": "Kairouz, Oh & Viswanath 2015, theorem 3.5", "shares": list(SHARES), "events": "as naive"}
