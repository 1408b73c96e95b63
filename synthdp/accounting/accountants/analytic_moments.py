"""Fixed-size samples without replacement, one unit replaced: Wang, Balle & Kasiviswanathan 2019 (analytical moments).

A sample of exactly rate * n of n units, n public. Both neighbours have n units, so a sum in the sample moves by two
contributions: `noise` is said for one (Gaussian(noise, replace_one)), and the theorem's noise is half of it. Events that are
not sampled cost what `rdp` says; a Poisson sample is another mechanism and refused.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from synthdp.accounting.accountants import rdp
from synthdp.accounting.charges import Charges, Unproven, contributions, joint_gaussian
from synthdp.ledger.events import Event, Revealed, Sampled

Array = np.ndarray

GREATEST = 256  # integer order up to which the theorem's sum is evaluated; beyond, the unsampled divergence stands in
MOST_POINTS = 20_000  # of the integral for one difference; noises that need more do without differences
LEAST_NOISE = 0.025  # below it sampling is not used: it hardly lowers epsilon
MOST_NOISE = 1e100  # above it, squares overflow
ROUND_UP = 1 + 1e-10  # relative error of sums and integrals of positive terms, with room


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta, by the conversion of `rdp`."""
    total = np.zeros(len(rdp.WIDE_ORDERS))
    for entry in charges.entries:
        if not isinstance(entry.event, Revealed):
            total = total + entry.count * divergence(entry.event)
    return math.inf if charges.unbounded else rdp.converted(total, delta)


def provenance() -> dict[str, Any]:
    """What decides the last digits: the orders."""
    return {
        "theorem": "Wang, Balle & Kasiviswanathan 2019, theorem 27; real orders by corollary 10",
        "orders": {"summed_up_to": GREATEST, "others": "as rdp"},
        "conversion": "as rdp",
    }


def divergence(event: Event) -> Array:
    """Renyi divergence of one event at each of `rdp.WIDE_ORDERS`; raises `Unproven` where no bound is known."""
    if not isinstance(event, Sampled):
        return rdp.rule(event)
    if (event.sampler, event.relation) != ("without_replacement", "replace_one"):
        raise Unproven(
            f"analytic_moments has no proof for the sampler {event.sampler!r} under {event.relation}; "
            "only 'without_replacement' under replace_one is accounted"
        )
    return _sampled(event.rate, joint_gaussian(event, "analytic_moments") / contributions(event))


@lru_cache(maxsize=256)
def _sampled(rate: float, noise: float) -> Array:
    orders = np.array(rdp.WIDE_ORDERS)
    mu = 1 / noise
    unsampled = orders * (mu * mu / 2)
    if noise < LEAST_NOISE:
        return unsampled
    # (order - 1) times the divergence is convex in the order and 0 at order 1 (corollary 10): chords are above it.
    chords = np.interp(
        orders - 1, np.arange(GREATEST), np.concatenate([[0.0], log_moments(rate, noise)]), right=math.inf
    )
    # Both data sets' outputs are mixtures over the same places, so sampling never adds divergence (quasi-convexity).
    least: Array = np.minimum(unsampled, chords / (orders - 1))
    return least


def log_moments(rate: float, noise: float) -> Array:
    """log(1 + sum over j of C(a, j) rate^j T_j) at orders a = 2 ... GREATEST, with T_j of the theorem for a Gaussian:

    T_2 = min(4 (e^R(2) - 1), 2 e^R(2)), T_j = min(4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2))), 2 e^((j-1) R(j))),
    R(j) = j / (2 noise^2), B(l) = E_Q[(P / Q - 1)^l]. `noise` is the deviation over what replacing one unit moves.
    """
    from scipy.special import gammaln

    a = np.arange(2.0, GREATEST + 1)[:, None]
    j = np.arange(2.0, GREATEST + 1)[None, :]
    by_divergence = math.log(2) + j * (j - 1) / (2 * noise * noise)
    even = np.concatenate([[0.0], differences(noise)])  # log B(2 m) at place m
    by_difference = math.log(4) + (even[(j // 2).astype(int)] + even[((j + 1) // 2).astype(int)]) / 2
    terms = np.minimum(by_divergence, by_difference)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = gammaln(a + 1) - gammaln(j + 1) - gammaln(a - j + 1) + j * math.log(rate)
        whole = np.logaddexp.reduce(np.where(j <= a, weight + terms, -np.inf), axis=1)
    found: Array = np.logaddexp(0.0, whole) * ROUND_UP
    return found


def differences(noise: float) -> Array:
    """log B(l) at l = 2, 4 ... GREATEST: the l-th forward difference of the moments at 0, here as an integral of a positive
    function (alternating sums lose every digit for large noise). inf where it is too dear; then it would not help either.
    """
    step, lengths = noise / 12, np.arange(2.0, GREATEST + 1, 2)
    found = np.full(len(lengths), math.inf)
    if (GREATEST + 2) / step + 24 * 12 > MOST_POINTS or noise > MOST_NOISE:
        return found
    z = np.arange(-12 * noise - 1, GREATEST + 12 * noise + 1, step)
    x = (2 * z - 1) / (2 * noise * noise)
    with np.errstate(divide="ignore"):  # log |e^x - 1|
        ratio = np.where(
            x > 1, x + np.log1p(-np.exp(-np.maximum(x, 1.0))), np.log(np.abs(np.expm1(np.minimum(x, 1.0))))
        )
    log_q = -z * z / (2 * noise * noise) - math.log(noise * math.sqrt(2 * math.pi)) + math.log(step)
    for place, length in enumerate(lengths):
        found[place] = np.logaddexp.reduce(length * ratio + log_q)
    return found + ROUND_UP - 1
