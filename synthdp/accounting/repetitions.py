"""How often a selection runs: the truncated negative binomial distribution (Papernot & Steinke 2022, definition 1).

P(K = k), for k = 1, 2, ..., is proportional to (1 - gamma)^k eta (eta + 1) ... (eta + k - 1) / k!; shape eta 1 is geometric, 0
(by the limit) logarithmic. gamma in (0, 1] is the probability at which it halts; a smaller one means more runs.
"""

import math
from functools import lru_cache

BISECTIONS = 200  # halvings of the logarithm of gamma, which end at neighbouring floats
LEAST = 1e-300  # a chance below which a tail is not followed any further: no uniform of 53 bits lies in it


def mean_of(gamma: float, shape: float) -> float:
    """The mean of K at this gamma."""
    if gamma == 1 or shape == 1:
        return 1 / gamma
    odds = (1 - gamma) / gamma
    return odds / -math.log(gamma) if shape == 0 else shape * odds / -math.expm1(shape * math.log(gamma))


@lru_cache(maxsize=64)
def halting(mean: float, shape: float) -> float:
    """The gamma that gives this mean, 1 or more; where no float does, the next lower one (more runs, never cheaper)."""
    if mean == 1 or shape == 1:
        return 1 / mean
    low, high = math.log(LEAST), 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if mean_of(math.exp(middle), shape) < mean else (middle, high)
    return math.exp(low)


def runs(uniform: float, mean: float, shape: float) -> int:
    """K as a function of a uniform in [0, 1): the inverse of its distribution function."""
    gamma = halting(mean, shape)
    if gamma == 1:
        return 1
    first = 1 / -math.log(gamma) if shape == 0 else shape / math.expm1(-shape * math.log(gamma))
    count, chance = 1, first * (1 - gamma)
    below = chance
    while below <= uniform and chance > LEAST:
        chance *= (1 - gamma) * (count + shape) / (count + 1)
        count += 1
        below += chance
    return count
