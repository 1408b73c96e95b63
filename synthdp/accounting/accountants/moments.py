"""The moments accountant (Abadi et al. 2016): log-moments of the privacy loss add up, and theorem 2's tail bound ends them.

alpha(l) = log E[exp(l loss)], at integer orders l as in the paper, then at the best real order (Waites 2019: the bound is
unimodal in l, since alpha is convex with alpha(0) = 0). It is Renyi accounting at order l + 1 with the conversion of Mironov
2017; the moments of a sampled Gaussian are computed here from their definition, a second source beside `rdp`. `rdp` converts
more tightly, but on a fixed grid of orders, so neither is always below the other.
"""

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from synthdp.accounting.charges import Charges, Unproven, contributions
from synthdp.accounting.sampled_gaussian import ROUND_UP, SUMMED, at_integers, at_real
from synthdp.accounting.smooth_gaussian import divergence
from synthdp.ledger.events import Capped, Choice, Event, Gaussian, Laplace, Revealed, Sampled, SmoothGaussian

Array = np.ndarray
Moment = Callable[[Array], Array]  # orders l > 0, real -> log-moments; inf where none is known

INTEGERS = np.array([*range(1, SUMMED), *(2**power for power in range(8, 41))], dtype=float)
LEAST_ORDER = 1e-3
PLACES = 9  # of a search step: real orders tried at once
NARROW = 1e-4  # relative width at which the search for the best real order ends
LEAST_NOISE, MOST_NOISE = 0.05, 1e100  # outside, sampling is not used: it hardly helps, or squares overflow


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta: the least (alpha(l) + log(1 / delta)) / l over integer and real orders l."""
    moments = [(rule(entry.event), entry.count) for entry in charges.entries if not isinstance(entry.event, Revealed)]
    if charges.unbounded:
        return math.inf

    def bound(orders: Array) -> Array:
        with np.errstate(over="ignore"):
            whole: Array = sum((count * moment(orders) for moment, count in moments), np.zeros(len(orders)))
        found: Array = (whole - math.log(delta)) / orders
        return found

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


def integer_epsilon(charges: Charges, delta: float) -> float:
    """The same at integer orders only, up to 32: what Abadi et al. 2016 computed (section 3.2). Never below `epsilon`."""
    orders = np.arange(1.0, 33.0)
    whole = sum((entry.count * rule(entry.event)(orders) for entry in charges.entries), np.zeros(32))
    return max(0.0, float(np.min((whole - math.log(delta)) / orders)))


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
    if len(event.queries) != 1 or not isinstance(event.queries[0], Gaussian):
        names = ", ".join(type(query).__name__ for query in event.queries)
        raise Unproven(f"moments has no proof for a sample that is asked: {names}; only joint Gaussian queries are")
    noise, rate = event.queries[0].noise, event.rate
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
