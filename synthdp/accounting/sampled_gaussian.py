"""Log-moments of a Poisson-sampled Gaussian from their definition: sums and integrals of positive terms.

At order l: log E_Q[(P / Q)^(l + 1)] with Q = N(0, noise^2) and P = (1 - rate) Q + rate N(1, noise^2).
"""

import math
from functools import lru_cache

import numpy as np

Array = np.ndarray

SUMMED = 256  # orders l below this are summed
MOST_POINTS = 20_000  # of the integral at a real order
ROUND_UP = 1 + 1e-10  # relative error of a sum or an integral of positive terms, with room


@lru_cache(maxsize=64)
def at_integers(rate: float, noise: float) -> Array:
    """Log-moments at l = 0 ... SUMMED - 1, from the binomial expansion of (P / Q)^(l + 1).

    E_Q[(N(1) / Q)^k] = exp((k^2 - k) / (2 noise^2)), and the binomial weights add up to 1, so the moment is 1 plus a sum of
    positive terms over k >= 2: no cancellation, however small the rate.
    """
    from scipy.special import gammaln

    a = np.arange(1.0, SUMMED + 1)[:, None]
    k = np.arange(2.0, SUMMED + 1)[None, :]
    exponent = (k * k - k) / (2 * noise * noise)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1) + k * math.log(rate) + (a - k) * math.log1p(-rate)
        terms = np.where(k <= a, weight + exponent + np.log(-np.expm1(-exponent)), -np.inf)
    found: Array = np.logaddexp(0.0, np.logaddexp.reduce(terms, axis=1)) * ROUND_UP
    return found


def at_real(rate: float, noise: float, order: float) -> float:
    """The same at a real l, inf where that is too dear.

    The moment is 1 + E_Q[(1 + w)^(l + 1) - 1 - (l + 1) w] with w = rate (N(1) / Q - 1), of mean 0: the integrand is
    non-negative. It has no singularity within pi noise^2 of the real line, so that the trapezoidal rule's error falls
    exponentially in 1 / step.
    """
    if order >= SUMMED:
        return math.inf
    a, step = order + 1, min(noise / 12, noise * noise / 2)
    ends = -12 * noise - 1, a + 12 * noise + 1
    points = math.ceil((ends[1] - ends[0]) / step)
    if points > MOST_POINTS:
        return math.inf
    z = ends[0] + step * np.arange(points + 1)
    x = (2 * z - 1) / (2 * noise * noise)
    log_q = -z * z / (2 * noise * noise) - math.log(noise * math.sqrt(2 * math.pi))
    log_p = np.logaddexp(math.log1p(-rate), math.log(rate) + x)  # log(1 + w)
    excess = _excess(a, log_p, np.log(rate) + x, rate * np.expm1(np.minimum(x, 700.0)))
    return float(np.logaddexp(0.0, np.logaddexp.reduce(excess + log_q) + math.log(step))) * ROUND_UP


def _excess(a: float, log_p: Array, log_w: Array, w: Array) -> Array:
    """log((1 + w)^a - 1 - a w) from log(1 + w), log(w) where w is large, and w: no cancellation, no overflow."""
    near, far = np.abs(a * w) < 1e-3, a * log_p > 50
    u = np.where(near, w, 0.0)
    series = a * (a - 1) / 2 * u * u * (1 + (a - 2) / 3 * u * (1 + (a - 3) / 4 * u * (1 + (a - 4) / 5 * u)))
    middle = ~near & ~far
    plain = np.expm1(np.where(middle, a * log_p, 0.0)) - a * np.where(middle, w, 0.0)
    with np.errstate(divide="ignore"):
        large = a * log_p + np.log1p(-np.exp(np.where(far, math.log(a) + log_w - a * log_p, -1.0)))
        found: Array = np.where(far, large, np.log(np.maximum(np.where(near, series, plain), 0.0)))
    return found
