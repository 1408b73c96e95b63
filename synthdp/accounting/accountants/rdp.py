"""Renyi accounting (Mironov 2017; Poisson sampling: Mironov, Talwar & Zhang 2019), over dp-accounting's RdpAccountant.

dp-accounting gives the Renyi divergence of one event; counts are applied here, and so is the neighbouring relation, which
its RDP accountant ignores for Gaussians (noise 2, replace_one: it prints 2.1657, true is 4.3772).
"""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from synthdp.accounting.analytic_gaussian import divergence
from synthdp.accounting.charges import Charges, Unproven, contributions, joint_gaussian
from synthdp.accounting.charges import charges as charges_of
from synthdp.accounting.repetitions import halting
from synthdp.ledger.events import Capped, Choice, Event, Gaussian, Laplace, Sampled, Selection, SmoothGaussian

Array = np.ndarray
# Down to 1.001 for huge losses (a grid from 1.25 turned 7,801 into 5,907,982) and up to 2^20 for tiny ones; fractional orders
# below 11, where their series converges; from 1.1 to 63 they are dp-accounting's own, so that its published figures come out.
ORDERS: tuple[float, ...] = (
    *(1.001, 1.002, 1.003, 1.005, 1.007, 1.01, 1.015, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.09),
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(11, 64)),
    *(float(round(64 * 2 ** (x / 2))) for x in range(11)),
)
WIDE_ORDERS: tuple[float, ...] = (*ORDERS, *(float(2**x) for x in range(12, 41)))
# Whole orders, each of which takes little time.
FEW_ORDERS = tuple(map(float, (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)))
LEAST_NOISE, MOST_NOISE = 1e-100, 1e100  # outside, dp-accounting's squares overflow; sampling is not used there
ROUND_OFF = 1e-14  # absolute error of a logarithm of a moment, per unit of order


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta."""
    return converted(divergences(charges), delta)


def rough(charges: Charges, delta: float) -> float:
    """A larger upper bound in a fiftieth of the time: sampled Gaussians at `FEW_ORDERS` alone. Under replace_one no such bound is
    known: there a sample counts as one at twice the rate, so the result is a guess."""
    total = np.zeros(len(WIDE_ORDERS))
    for entry in charges.entries:
        event = entry.event
        if isinstance(event, Sampled) and len(event.queries) == 1 and isinstance(event.queries[0], Gaussian):
            rate = event.rate if event.relation == "add_remove" else min(1.0, 2 * event.rate)
            total = total + entry.count * _sampled_gaussian(rate, event.queries[0].noise, FEW_ORDERS)
        else:
            total = total + entry.count * rule(event)
    return math.inf if charges.unbounded else converted(total, delta)


def converted(total: Array, delta: float) -> float:
    """From divergences at `WIDE_ORDERS` to epsilon at delta: Canonne, Kamath & Steinke 2020, proposition 12."""
    orders = np.array(WIDE_ORDERS)
    return _least(total, orders, delta, _correction(orders))


def best_order(charges: Charges, delta: float) -> float:
    """The order whose divergence converts to the least epsilon at delta."""
    return WIDE_ORDERS[int(np.argmin(bounds(charges, delta)))]


def bounds(charges: Charges, delta: float) -> Array:
    """The bound on epsilon at this delta that each of `WIDE_ORDERS` gives, (orders,)."""
    orders = np.array(WIDE_ORDERS)
    found: Array = divergences(charges) - math.log(delta) / (orders - 1) + _correction(orders)
    return found


def bounds_at(charges: Charges, delta: float, orders: Sequence[int]) -> Array:
    """The same at some of these orders."""
    return bounds(charges, delta)[[WIDE_ORDERS.index(order) for order in orders]]


def divergences(charges: Charges) -> Array:
    """Renyi divergence of the whole ledger at each of `WIDE_ORDERS`; inf where no bound is known at that order."""
    total = np.zeros(len(WIDE_ORDERS))
    for entry in charges.entries:
        total = total + (math.inf if charges.unbounded else entry.count * rule(entry.event))
    return total


def provenance() -> dict[str, Any]:
    """What decides the last digits: dp-accounting's version and the orders."""
    from importlib.metadata import version

    return {
        "dp_accounting": version("dp-accounting"),
        "orders": {"count": len(WIDE_ORDERS), "least": WIDE_ORDERS[0], "greatest": WIDE_ORDERS[-1]},
        "conversion": "Canonne, Kamath & Steinke 2020, proposition 12",
    }


def _correction(orders: Array) -> Array:
    found: Array = np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
    return found


def _least(total: Array, orders: Array, delta: float, correction: Array) -> float:
    if not total.any():
        return 0.0
    # Total variation is at most sqrt(1 - e^-divergence) (Bretagnolle & Huber 1979): where that is below delta, epsilon is 0.
    if bool((-np.expm1(-total) <= delta**2).any()):
        return 0.0
    return max(0.0, float(np.min(total - math.log(delta) / (orders - 1) + correction)))


@singledispatch
def rule(event: Event) -> Array:
    """Renyi divergence of one event at each of `WIDE_ORDERS`; raises `Unproven` where no bound is known."""
    raise Unproven(f"rdp has no proof for the event {type(event).__name__}; register one with `rdp.rule.register`")


@rule.register
def _(event: Gaussian) -> Array:
    mu = contributions(event) / event.noise
    return np.array(WIDE_ORDERS) * (mu * mu / 2)


@rule.register
def _(event: Laplace) -> Array:
    return _laplace(event.noise / contributions(event))


@rule.register
def _(event: Choice) -> Array:
    """The losses of the exponential mechanism lie within a range of e (Durfee & Rogers 2019), whence a e^2 / 8 (Cesar & Rogers
    2021), or what any pure mechanism has."""
    bound: Array = np.minimum(np.array(WIDE_ORDERS) * (event.epsilon * event.epsilon / 8), pure(event.epsilon))
    return bound


def pure(epsilon: float) -> Array:
    """Randomised response dominates every epsilon-DP mechanism: sinh(a e) - sinh((a - 1) e) over sinh(e), in logarithms."""
    a, e = np.array(WIDE_ORDERS), epsilon
    # e^(a e) p + e^(-a e) (1 - p) with p = 1 / (1 + e^e), the Q-mass of the likelier outcome.
    log_q = -np.logaddexp(0.0, e)
    exact = (np.logaddexp(a * e + log_q, -a * e + e + log_q) + ROUND_OFF * (1 + a * e)) / (a - 1)
    # Bun & Steinke 2016, proposition 3.3: free of the cancellation that `exact` has for tiny epsilon
    small = a * e * e / 2
    bound: Array = np.minimum(small, e)
    return np.where((a - 1) * e > 1e-6, np.minimum(bound, np.maximum(exact, 0.0)), bound)


@rule.register
def _(event: SmoothGaussian) -> Array:
    return divergence(event.noise, event.beta, np.array(WIDE_ORDERS), int(contributions(event)))


@rule.register
def _(event: Capped) -> Array:
    """What the filter bounded (Feldman & Zrnic 2021, theorem 3.3); a divergence rises with its order, so that the one that
    was bounded bounds all below it. ("gaussian" is a Gaussian in the canonical form.)"""
    orders = np.array(WIDE_ORDERS)
    if event.filter == "zcdp":
        return orders * event.bound
    return np.where(orders <= event.order, event.bound, math.inf)


@rule.register
def _(event: Selection) -> Array:
    """Papernot & Steinke 2022, theorem 2, whose minimum is taken over `WIDE_ORDERS`. Which candidate a run draws is part of
    what it shows, so that its divergence is at most the largest; one that is bounded at an order bounds all below it.

    The formula of dp-accounting's `RepeatAndSelectDpEvent`, for events of every kind and relation (a test compares)."""
    orders = np.array(WIDE_ORDERS)
    each = np.max([divergences(charges_of(plan)) for plan in event.candidates], axis=0)
    chosen = (1 + event.shape) * np.min((1 - 1 / orders) * each - math.log(halting(event.mean, event.shape)) / orders)
    bound = each + math.log(event.mean) / (orders - 1) + chosen
    rising: Array = np.minimum.accumulate(bound[::-1])[::-1]
    return rising


@rule.register
def _(event: Sampled) -> Array:
    if event.sampler != "poisson":
        raise Unproven(f"rdp has no proof for the sampler {event.sampler!r}; only 'poisson' is accounted")
    if event.relation != "add_remove":
        raise Unproven("rdp has no proof for Poisson sampling under replace_one; pld has")
    return _sampled_gaussian(event.rate, joint_gaussian(event, "rdp"))


@lru_cache(maxsize=256)
def _laplace(noise: float) -> Array:
    from dp_accounting import LaplaceDpEvent

    bound: Array = np.maximum(_divergence(LaplaceDpEvent(noise)), 0.0) + ROUND_OFF / noise
    return bound


@lru_cache(maxsize=256)
def _sampled_gaussian(rate: float, noise: float, orders: tuple[float, ...] = ORDERS) -> Array:
    """At other orders the unsampled bound stands in: beyond `ORDERS` a whole order costs one term per unit of order."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent

    mu = 1 / noise
    bound: Array = np.array(WIDE_ORDERS) * (mu * mu / 2)
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        return bound
    sampled = _divergence(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), orders)
    # Near order 1 and for tiny rates the series' value is lost in round-off, down to 0: what it may have lost is added.
    known = np.array(orders)
    sampled = np.where(sampled >= 0, sampled, math.inf) + ROUND_OFF * (1 + known) / (known - 1)
    places = np.searchsorted(WIDE_ORDERS, orders)
    bound[places] = np.minimum(bound[places], sampled)
    return bound


def _divergence(event: Any, orders: tuple[float, ...] = WIDE_ORDERS) -> Array:
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(orders))
    with _quiet(), np.errstate(all="ignore"):
        accountant.compose(event)
    return np.asarray(accountant.rdp, dtype=float)


@contextmanager
def _quiet() -> Iterator[None]:
    """dp-accounting warns about every order at which its series does not converge; that order is inf and just unused."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
