"""Group privacy: epsilon for all k units (records) of one person at once, from a ledger that protects single units.

Two ways, each valid for its events; an accountant reports the less. What never holds is k epsilon at the same delta.

1. The event with k units moved: a Gaussian or Laplace of k times the sensitivity, a k epsilon choice, k^2 rho (Bun & Steinke
   2016, proposition 1.9); for Gaussians of a Poisson sample the mixture of Gaussians in which each of the k units takes part
   by a coin of its own (Ganesh 2024, arXiv 2401.10294, theorem 3.1), which `pld` composes.
2. From the whole profile: what is (epsilon, d)-DP for one unit is (k epsilon, d (1 + e^epsilon + ... + e^((k-1) epsilon)))-DP
   for k (Vadhan 2017, lemma 2.2), at the d that makes the second number the delta asked for. It holds for every event.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from synthdp.accounting.accountants import pld
from synthdp.accounting.charges import Charges, Unproven
from synthdp.ledger.events import Capped, Choice, Entry, Event, Gaussian, Laplace, Revealed, Sampled

# ---- The privacy loss of a mixture of Gaussians: N(0, noise^2) against P = sum over j of chances[j] N(j, noise^2).
#
# dp-accounting has this pair too (its figures are those of the tests), but inverts the loss point by point; the grids of a
# composition over thousands of steps need hundreds of thousands of points, so it is done here on whole arrays.


Array = np.ndarray

TAIL = 1e-22  # of the upper distribution's mass, beyond the grid's ends: counted as an infinite loss
WIDTHS = 12.0  # standard deviations beyond the outermost means that the search for the ends covers
GUESSES = 4096  # points of the table from which Newton's method starts
NEWTON_STEPS = 4


class Mixture:
    """The pair of distributions, with `chances` of 0, 1, 2 ... units in the sample (they add up to 1)."""

    def __init__(self, noise: float, chances: Array) -> None:
        self._noise = noise
        self._chances = chances
        self._means = np.arange(float(len(chances)))
        with np.errstate(divide="ignore"):
            self._log_chances = np.log(chances)
        self._lowest = -WIDTHS * noise
        self._highest = self._tail()

    @property
    def greatest_loss(self) -> float:
        """The loss where the upper distribution's tail is cut."""
        return float(self._loss(np.array([self._highest]))[0])

    def distribution(self, grid: float) -> Any:
        """dp-accounting's PrivacyLossDistribution on this grid, by connecting the dots: never below the true loss."""
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

        return PrivacyLossDistribution(self._mass(grid, self.removed), self._mass(grid, self.added))

    def removed(self, epsilons: Array) -> Array:
        """delta(epsilon) of P against N(0, noise^2): the larger data set is the true one."""
        from scipy.special import ndtr

        found: Array = -np.expm1(np.minimum(epsilons, 0.0))
        inside = epsilons > self._log_chances[0]
        t = self._inverse(epsilons[inside])
        upper = sum(p * ndtr((j - t) / self._noise) for j, p in zip(self._means, self._chances, strict=True))
        found[inside] = upper - np.exp(epsilons[inside]) * ndtr(-t / self._noise)
        return found

    def added(self, epsilons: Array) -> Array:
        """delta(epsilon) of N(0, noise^2) against P: the smaller data set is the true one."""
        from scipy.special import ndtr

        found = np.zeros(len(epsilons))
        inside = epsilons < -self._log_chances[0]
        t = self._inverse(-epsilons[inside])
        lower = sum(p * ndtr((t - j) / self._noise) for j, p in zip(self._means, self._chances, strict=True))
        found[inside] = ndtr(t / self._noise) - np.exp(epsilons[inside]) * lower
        return found

    def _mass(self, grid: float, deltas: Any) -> Any:
        from dp_accounting.pld import pld_pmf

        ends = self._loss(np.array([self._lowest, self._highest]))
        low, high = math.floor(ends[0] / grid), math.ceil(ends[1] / grid)
        if deltas == self.added:
            low, high = -high, -low
        found = np.clip(deltas(np.arange(low, high + 1) * grid), 0.0, 1.0)
        falling = np.maximum.accumulate(found[::-1])[::-1]  # it is, but for round-off
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, falling)

    def _loss(self, z: Array) -> Array:
        """log(P(z) / Q(z)): rises and is convex in z."""
        return self._loss_and_slope(z)[0]

    def _loss_and_slope(self, z: Array) -> tuple[Array, Array]:
        variance = self._noise * self._noise
        highest = np.full(len(z), -np.inf)
        exponents = []
        for j, log_p in zip(self._means, self._log_chances, strict=True):
            exponents.append(log_p + j * (2 * z - j) / (2 * variance))
            highest = np.maximum(highest, exponents[-1])
        weights = [np.exp(exponent - highest) for exponent in exponents]
        total = np.add.reduce(weights)
        slope = sum(j * weight for j, weight in zip(self._means, weights, strict=True)) / (variance * total)
        return highest + np.log(total), slope

    def _inverse(self, losses: Array) -> Array:
        """Where the loss has these values. Its own error enters delta in second order only: there the derivative is 0."""
        table = np.linspace(self._lowest - self._noise, self._highest + self._noise, GUESSES)
        z: Array = np.interp(losses, self._loss(table), table)
        for _ in range(NEWTON_STEPS):
            loss, slope = self._loss_and_slope(z)
            z = np.clip(z + (losses - loss) / np.maximum(slope, 1e-300), table[0], table[-1])
        return z

    def _tail(self) -> float:
        """The least point above which both distributions have at most TAIL of their mass."""
        from scipy.special import ndtr

        low, high = 0.0, float(self._means[-1]) + WIDTHS * self._noise
        while high - low > 1e-3 * self._noise:
            middle = (low + high) / 2
            above = float(np.dot(self._chances, ndtr((self._means - middle) / self._noise)))
            low, high = (low, middle) if above <= TAIL else (middle, high)
        return high


LEAST_DELTA = 1e-300
CLOSE = 1e-7  # relative change of log d at which the search for it ends
BELOW = 1e-5  # how far below the limit of the search d is taken, so that it surely keeps delta


@dataclass(frozen=True)
class Together(Event):
    """A Gaussian query of a Poisson sample, `units` of which belong to one person: N(0, noise^2) against
    N(j, noise^2) with j ~ Binomial(units, rate). Made from a `Sampled`; it stands in no ledger."""

    rate: float
    noise: float
    units: int


def from_profile(bound: Callable[[float], float], delta: float, k: int) -> float:
    """The second way: the least k epsilon(d) with d (e^(k epsilon) - 1) / (e^epsilon - 1) <= delta; inf where there is none.

    `bound` is epsilon as a function of delta, and falls. d -> delta / sum(e^(i epsilon(d))) rises, so that iterating it from
    delta / k falls to the largest solution.
    """
    log_d = math.log(delta / k)
    while log_d > math.log(LEAST_DELTA):
        following = math.log(delta) - _log_sum(bound(math.exp(log_d)), k)
        if math.isinf(following):
            return math.inf
        if log_d - following < CLOSE * -following:
            log_d = following - BELOW
            each = bound(math.exp(log_d))
            if log_d + _log_sum(each, k) <= math.log(delta):
                return k * each
        else:
            log_d = following
    return math.inf


def moved(charged: Charges, k: int) -> Charges:
    """The first way: the ledger with k units moved at once; raises `Unproven` for an event without such a form."""
    if charged.own_delta:
        raise Unproven("a threshold's delta holds for one unit; no form for k units is known")
    return Charges(entries=tuple(Entry(form(entry.event, k), entry.count) for entry in charged.entries), own_delta=0.0)


@singledispatch
def form(event: Event, k: int) -> Event:  # noqa: ARG001
    """The event with k units moved at once; raises `Unproven` where none is known."""
    raise Unproven(f"no form for k units is known of the event {type(event).__name__}")


@form.register(Gaussian)
@form.register(Laplace)
def _(event: Gaussian | Laplace, k: int) -> Event:
    return dataclasses.replace(event, noise=event.noise / k)


@form.register
def _(event: Choice, k: int) -> Event:
    return dataclasses.replace(event, epsilon=k * event.epsilon)


@form.register
def _(event: Capped, k: int) -> Event:
    if event.filter != "zcdp":
        raise Unproven(f"no form for k units is known of a cap by {event.filter}")
    return dataclasses.replace(event, bound=k * k * event.bound)


@form.register
def _(event: Revealed, k: int) -> Event:  # noqa: ARG001
    return event


@form.register
def _(event: Sampled, k: int) -> Event:
    query = event.queries[0] if len(event.queries) == 1 else None
    if (event.sampler, event.relation) != ("poisson", "add_remove") or not isinstance(query, Gaussian):
        raise Unproven(f"no form for k units is known of the sampler {event.sampler!r} under {event.relation}")
    return Together(event.rate, query.noise, k, relation=event.relation, unit=event.unit)


@pld.rule.register
def _(event: Together) -> pld.Loss:
    return mixture(event).distribution


@pld.reach.register
def _(event: Together) -> float:
    return mixture(event).greatest_loss


def mixture(event: Together) -> Mixture:
    """Its privacy loss. A sum of vectors is dominated by the case in which all point the same way (Choquette-Choo, Ganesh,
    Steinke & Thakurta 2023, corollary 4.7)."""
    from scipy.stats import binom

    chances = binom.pmf(np.arange(event.units + 1), event.units, event.rate)
    chances[0] += 1 - math.fsum(chances)  # round-off
    return Mixture(event.noise, chances)


@pld.stand_in.register
def _(event: Together) -> Event:
    """All k units, whenever one is in the sample: it loses more."""
    all_of_them = Gaussian(event.noise / event.units)
    return Sampled(-math.expm1(event.units * math.log1p(-event.rate)), (all_of_them,))


def _log_sum(each: float, k: int) -> float:
    """log(1 + e^x + ... + e^((k - 1) x))."""
    if each * k < 1e-9 or math.isinf(each):
        return math.log(k) + each * (k - 1)
    return math.log(-math.expm1(-k * each)) - math.log(-math.expm1(-each)) + (k - 1) * each
