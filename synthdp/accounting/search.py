"""Solving a monotone epsilon for the noise or for the steps."""

import math
from collections.abc import Callable

from synthdp.errors import BadInput

MOST_NOISE = 1e7
LEAST_NOISE = 1e-4
MOST_STEPS = 10**9
CLOSE = 1e-3  # relative distance from the target at which the search may stop
NARROW = 1e-9  # relative width of the bracket at which it must


def calibrate_to(spent: Callable[[float], float], target: float, start: float | None = None) -> float:
    """The least noise, up to `CLOSE`, with `spent(noise) <= target`; `spent` falls in the noise.

    Every returned noise was itself evaluated: it keeps the target whatever the shape of `spent` between the points.
    `start` is a guess, best a little too large: where `spent` is slow, it saves most of the search.
    """
    low, high, at_low, at_high = _bracket(spent, target) if start is None else _near(spent, target, start)
    while at_high < (1 - CLOSE) * target and high - low > NARROW * high:
        middle = _between(low, high, at_low, at_high, target)
        at_middle = spent(middle)
        if at_middle <= target:
            stuck = high / middle < 1 + (high / low - 1) / 8
            high, at_high = middle, at_middle
        else:
            stuck = middle / low < 1 + (high / low - 1) / 8
            low, at_low = middle, at_middle
        if stuck and at_high < (1 - CLOSE) * target:  # one end hardly moves: halve
            middle = math.sqrt(low * high)
            at_middle = spent(middle)
            low, high, at_low, at_high = (
                (low, middle, at_low, at_middle) if at_middle <= target else (middle, high, at_middle, at_high)
            )
    return high


def most_rate(spent: Callable[[float], float], target: float, start: float | None = None) -> float:
    """The largest sampling rate, up to `CLOSE`, with `spent(rate) <= target`; `spent` rises in the rate. 1 where that keeps it.

    `start` is a guess, best a little too small.
    """
    if spent(1.0) <= target:
        return 1.0
    _fixed(spent(0.0), target)
    if start is None and spent(1 / MOST_NOISE) > target:
        raise BadInput(f"no rate above {1 / MOST_NOISE:g} keeps the budget; choose more noise or fewer steps")
    found = calibrate_to(lambda inverse: spent(min(1.0, 1 / inverse)), target, None if start is None else 1 / start)
    return min(1.0, 1 / found)


def most_steps(spent: Callable[[int], float], target: float) -> int:
    """The largest number of steps with `spent(steps) <= target`; `spent` rises in the steps."""
    fixed = _fixed(spent(0), target)
    low, high, at_low, at_high = 0, 1, fixed, spent(1)
    while at_high <= target:
        low, at_low, high = high, at_high, 4 * high
        if high > MOST_STEPS:
            raise BadInput(f"more than {low} steps keep the budget, so it does not limit the steps; give them instead")
        at_high = spent(high)
    guess = True
    while high - low > 1:
        share = 0.5
        if guess and 0 < at_low < at_high < math.inf:  # epsilon is close to a power of the steps
            share = math.log(target / at_low) / math.log(at_high / at_low)
        middle = int(low * (high / low) ** share) if low and guess else (low + high) // 2
        wide = high - low
        for step in (middle, middle + max(1, wide // 64)) if guess else (middle,):
            if low < step < high:
                at_step = spent(step)
                low, high, at_low, at_high = (
                    (step, high, at_step, at_high) if at_step <= target else (low, step, at_low, at_step)
                )
        guess = high - low <= wide // 2 or not guess
    return low


def _fixed(spent: float, target: float) -> float:
    """What a plan costs without any noise, rate or step to choose; raises `BadInput` where that overspends."""
    if spent > target:
        raise BadInput(
            f"the fixed part of the plan alone costs epsilon {spent:.4g}, above the budget's {target:g}; raise it"
        )
    return spent


def _bracket(spent: Callable[[float], float], target: float) -> tuple[float, float, float, float]:
    """Noises that overspend and keep the target, with what they spend."""
    high = 1.0
    at_high = spent(high)
    low, at_low = high, at_high
    while at_high > target:
        if high >= MOST_NOISE:
            raise BadInput(
                f"the fixed part of the plan (the part that does not depend on the noise) alone costs epsilon {at_high:.4g}, above "
                f"the budget's {target:g}; raise the budget, declare what is bought now, or ask fewer questions with a fixed noise"
            )
        low, at_low = high, at_high
        high = min(high * (4 if high < 100 else 100), MOST_NOISE)
        at_high = spent(high)
    while at_low <= target:
        if low <= LEAST_NOISE:
            return low, low, at_low, at_low
        high, at_high = low, at_low
        low = max(low / 2, LEAST_NOISE)
        at_low = spent(low)
    return low, high, at_low, at_high


def _near(spent: Callable[[float], float], target: float, start: float) -> tuple[float, float, float, float]:
    """As `_bracket`, by steps from `start` that assume epsilon to be about proportional to 1 / noise."""
    at_start = spent(start)
    low = high = start
    at_low = at_high = at_start
    reach = 1.01
    while at_low <= target and low > LEAST_NOISE:
        high, at_high = low, at_low
        low = max(low * min(max(at_low / target, 0.25), 1.0) / reach, LEAST_NOISE)
        at_low, reach = spent(low), reach * reach
    while at_high > target:
        if high >= MOST_NOISE:
            return _bracket(spent, target)
        low, at_low = high, at_high
        high = min(high * min(max(at_high / target, 1.0), 4.0) * reach, MOST_NOISE)
        at_high, reach = spent(high), reach * reach
    return low, high, at_low, at_high


def _between(low: float, high: float, at_low: float, at_high: float, target: float) -> float:
    """Where the line through the ends, on logarithmic axes, meets a value just below the target."""
    aim = target * (1 - CLOSE / 2)
    if math.isfinite(at_low) and 0 < at_high < aim < at_low:
        share = math.log(at_low / aim) / math.log(at_low / at_high)
        share = min(max(share, 0.01), 0.99)
    else:
        share = 0.5
    return low * math.exp(share * math.log(high / low))
