"""The moments accountant (Abadi et al. 2016): log-moments of the privacy loss add up, and theorem 2's tail bound ends them.

alpha(l) = log E[exp(l loss)], at integer orders l as in the paper, then at the best real order (Waites 2019: the bound is
unimodal in l, since alpha is convex with alpha(0) = 0). It is Renyi accounting at order l + 1 with the conversion of Mironov
2017; the moments of a sampled Gaussian are computed here from their definition, a second source beside `rdp`. `rdp` converts
more tightly, but on a fixed grid of orders, so neither is always below the other.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from synthdp.accounting.analytic_gaussian import divergence
from synthdp.accounting.charges import Charges, Unproven, contributions, joint_gaussian
from synthdp.ledger.events import Capped, Choice, Event, Gaussian, Laplace, Revealed, Sampled, SmoothGaussian

# ---- Log-moments of a Poisson-sampled Gaussian from their definition: sums and integrals of positive terms.
#
# At order l: log E_Q[(P / Q)^(l + 1)] with Q = N(0, noise^2) and P = (1 - rate) Q + rate N(1, noise^2).


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


Moment = Callable[[Array], Array]  # orders l > 0, real -> log-moments; inf where none is known

INTEGERS = np.array([*range(1, SUMMED), *(2**power for power in range(8, 41))], dtype=float)
LEAST_ORDER = 1e-3
PLACES = 9  # of a search step: real orders tried at once
NARROW = 1e-4  # relative width at which the search for the best real order ends
LEAST_NOISE, MOST_NOISE = 0.05, 1e100  # outside, sampling is not used: it hardly helps, or squares overflow


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta: the least (alpha(l) + log(1 / delta)) / l over integer and real orders l."""
    if charges.unbounded:
        return math.inf
    bound = bounds(charges, delta)
    found = bound(INTEGERS)
    best = int(np.argmin(found))
    least = float(found[best])
    low = INTEGERS[best - 1] if best else LEAST_ORDER
    high = INTEGERS[min(best + 1, len(INTEGERS) - 1)]
    while high > low * (1 + NARROW):
        orders = np.geomspace(low, high, PLACES)
        found = bound(orders)
        place = int(np.argmin(found))
        least = min(least, float(found[place]))
        low, high = orders[max(place - 1, 0)], orders[min(place + 1, PLACES - 1)]
    return max(0.0, least)


def bounds(charges: Charges, delta: float) -> Moment:
    """The bound on epsilon at this delta that each order l > 0 gives."""
    moments = [(rule(entry.event), entry.count) for entry in charges.entries if not isinstance(entry.event, Revealed)]

    def bound(orders: Array) -> Array:
        with np.errstate(over="ignore"):
            whole: Array = sum((count * moment(orders) for moment, count in moments), np.zeros(len(orders)))
        found: Array = (whole - math.log(delta)) / orders
        return found

    return bound


def bounds_at(charges: Charges, delta: float, orders: Sequence[int]) -> Array:
    """The bound on epsilon that each Renyi order above 1 gives, (orders,): the log-moment's order is one less."""
    if charges.unbounded:
        return np.full(len(orders), math.inf)
    return bounds(charges, delta)(np.array(orders, dtype=float) - 1)


def provenance() -> dict[str, Any]:
    """What decides the last digits: the orders."""
    return {
        "orders": {"integers_up_to": SUMMED, "greatest": float(INTEGERS[-1]), "least_real": LEAST_ORDER},
        "conversion": "Abadi et al. 2016, theorem 2",
    }


@singledispatch
def rule(event: Event) -> Moment:
    """The log-moments of one event; raises `Unproven` where no bound is known."""
    raise Unproven(
        f"moments has no proof for the event {type(event).__name__}; register one with `moments.rule.register`"
    )


@rule.register
def _(event: Gaussian) -> Moment:
    mu = contributions(event) / event.noise
    return lambda orders: orders * (orders + 1) * (mu * mu / 2)


@rule.register
def _(event: Laplace) -> Moment:
    """Mironov 2017, proposition 6; for small losses l (l + 1) / 2 times loss^2 (Bun & Steinke 2016, proposition 3.3)."""
    loss = contributions(event) / event.noise

    def moment(orders: Array) -> Array:
        a = orders + 1
        exact = np.logaddexp(np.log(a) + orders * loss, np.log(orders) - a * loss) - np.log(2 * a - 1)
        return _pure(orders, loss, np.maximum(exact, 0.0) + 1e-14 * (1 + a * loss))

    return moment


@rule.register
def _(event: Choice) -> Moment:
    """Randomised response has the largest moments of all that is epsilon-DP: cosh((l + 1/2) e) / cosh(e / 2)."""

    def moment(orders: Array) -> Array:
        exact = _log_cosh((orders + 0.5) * event.epsilon) - _log_cosh(np.array(event.epsilon / 2))
        return _pure(orders, event.epsilon, exact)

    return moment


@rule.register
def _(event: SmoothGaussian) -> Moment:
    moves = int(contributions(event))
    return lambda orders: orders * divergence(event.noise, event.beta, orders + 1, moves)


@rule.register
def _(event: Capped) -> Moment:
    """What the filter bounded; a divergence rises with its order l + 1, so that the one that was bounded bounds all below."""
    if event.filter == "zcdp":
        return lambda orders: orders * (orders + 1) * event.bound
    return lambda orders: np.where(orders + 1 <= event.order * ROUND_UP, orders * event.bound, math.inf)


@rule.register
def _(event: Sampled) -> Moment:
    """E_Q[(P / Q)^(l + 1)] for Q = N(0, noise^2), P = (1 - rate) Q + rate N(1, noise^2), which is the larger of both directions
    (Mironov, Talwar & Zhang 2019, theorem 5)."""
    if (event.sampler, event.relation) != ("poisson", "add_remove"):
        raise Unproven(f"moments has no proof for the sampler {event.sampler!r} under {event.relation}")
    noise, rate = joint_gaussian(event, "moments"), event.rate
    unsampled = rule(event.queries[0])
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        return unsampled

    def moment(orders: Array) -> Array:
        whole = np.array_equal(orders, np.floor(orders))
        summed = at_integers(rate, noise)
        if whole:
            small = orders < SUMMED
            found = np.where(small, summed[np.where(small, orders, 1).astype(int)], math.inf)
        else:
            found = np.array([at_real(rate, noise, float(order)) for order in orders])
        return np.minimum(found, unsampled(orders))

    return moment


def _pure(orders: Array, loss: float, exact: Array) -> Array:
    """The least of three bounds on an epsilon-DP event's log-moment."""
    least: Array = np.minimum(exact, np.minimum(orders * loss, orders * (orders + 1) * (loss * loss / 2)))
    return least


def _log_cosh(x: Array) -> Array:
    found: Array = np.where(
        x < 1, np.log1p(2 * np.sinh(np.minimum(x, 1.0) / 2) ** 2), np.logaddexp(x, -x) - math.log(2)
    )
    return found
