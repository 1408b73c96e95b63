"""The exact epsilon of Gaussian mechanisms that are not sampled (Balle & Wang 2018, theorem 8), without cancellation."""

import math

import numpy as np

RELATIVE_TOLERANCE = 1e-12
LOG_ALLOWANCE = 1e-10  # the formula itself is good to about 1e-11 of delta (checked with 60 digits)


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), for mu = sensitivity / deviation > 0.

    With a = epsilon/mu - mu/2, b = a + mu and R(t) = Phi(-t) / phi(t) (Mills' ratio) it is phi(a) (R(a) - R(b)), because
    e^epsilon phi(b) = phi(a): neither term overflows nor underflows before the logarithm is taken.
    """
    from scipy.special import erfcx, log_ndtr

    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # Mills' ratio overflows near -37; here the first term is 1 to 1e-88 and the second is what is subtracted
    if a < -20:
        lost = math.exp(min(0.0, epsilon + float(log_ndtr(-b)))) + math.exp(float(log_ndtr(a)))
        return math.log1p(-lost) if lost < 1 else 0.0  # lost in rounding: delta is taken to be 1
    difference = float(erfcx(a / math.sqrt(2)) - erfcx(b / math.sqrt(2))) if mu > 0.01 else _mills_integral(a, b)
    return math.log(difference / 2) - a * a / 2 if difference > 0 else -math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Least epsilon with delta(epsilon) <= delta, rounded up by about 1e-11 of itself; 0 at mu 0, inf at mu inf."""
    if mu == 0:
        return 0.0
    if math.isinf(mu) or math.isinf(mu * mu):
        return math.inf
    target = math.log(delta) - LOG_ALLOWANCE
    if gaussian_log_delta(mu, 0.0) <= target:
        return 0.0
    low, high = 0.0, mu
    while gaussian_log_delta(mu, high) > target:
        low, high = high, 2 * high
    while high - low > RELATIVE_TOLERANCE * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gaussian_log_delta(mu, middle) > target else (low, middle)
    return high


def _mills_integral(a: float, b: float) -> float:
    """erfcx(a / sqrt 2) - erfcx(b / sqrt 2) for close arguments, as an integral of the derivative: no cancellation."""
    from scipy.special import erfcx

    nodes, weights = np.polynomial.legendre.leggauss(6)
    t = (a + b) / 2 + (b - a) / 2 * nodes
    slope = math.sqrt(2 / math.pi) - t * erfcx(t / math.sqrt(2))  # -d/dt erfcx(t / sqrt 2)
    return float((b - a) / 2 * np.dot(weights, slope))


# ---- Renyi divergence of Gaussian noise that is scaled to a smooth sensitivity, which neighbours do not share.
#
# Between neighbours the value moves by at most the lesser of S and S', and S' / S lies within e^-beta and e^beta (Nissim,
# Raskhodnikova & Smith 2007, definition 2.1). What is compared are N(0, 1) and N(t, r^2), in units of S noise: at order a, with
# v = a r^2 + 1 - a > 0, the divergence is a t^2 / (2 v) + (a log r - 1/2 log v) / (a - 1) (Gil, Alajaji & Linder 2013, table 2).
#
# Both terms are largest at r = e^-beta. The first has t at most r below r = 1 and at most 1 above: r^2 / v and 1 / v both fall in
# r. The second is 0 at r = 1 and rises on either side, by more below: its slope in log r^2, but for a common factor, is
# w / (1 - a w) at e^-c and w / (1 + (a - 1) w) at e^c, with w = 1 - e^-c. Where two units change (replace_one), r goes down to
# e^(-2 beta) and the value moves by at most S + S': (1 + r)^2 / v falls as well.


Array = np.ndarray


def divergence(noise: float, beta: float, orders: Array, moves: int = 1) -> Array:
    """The divergence at each order (orders,); inf from order 1 / (1 - e^(-2 moves beta)) on. `moves`: 1 or 2 units change."""
    r = np.exp(-moves * beta)
    shift = r if moves == 1 else 1 + r
    v = 1 + orders * np.expm1(-2 * moves * beta)
    known = v > 0
    v = np.where(known, v, 1.0)
    by_value = orders * (shift / noise) ** 2 / (2 * v)
    by_scale = np.maximum(-orders * moves * beta - np.log(v) / 2, 0.0) / (orders - 1)
    return np.where(known, by_value + by_scale, np.inf)
