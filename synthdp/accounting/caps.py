"""Privacy filters: adaptive queries that stop before a bound that was fixed beforehand (law 11).

The analyst chooses each event after seeing the answers to all earlier ones. What every event would add is known before its
answer, so a filter refuses the first event that would pass the bound. The whole bound is charged as one `Capped`, whatever
was spent: an adaptive ledger is never accounted below its cap.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from synthdp import accounting
from synthdp.accounting.charges import (
    CAP_ALLOWANCE,
    Unproven,
    canonical,
    charges,
    check,
    check_count,
    contributions,
    own_delta,
)
from synthdp.accounting.search import calibrate_to, most_steps
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Capped, Choice, Entry, Event, Gaussian, Laplace, Plan, Revealed, Sampled

PRICED_BY = {"gaussian": "pld", "zcdp": "rdp", "renyi": "rdp"}  # the tightest accountant of each filter's cap
PRECISION = 1e-12  # relative, of the largest bound


class Filter:
    """Adds up what adaptively chosen events cost and refuses what would pass `event.bound` (or `event.delta`).

    The unit is the filter's own: "gaussian", (distance of the means)^2, that is 1 / noise^2 under add_remove and 4 / noise^2
    under replace_one, up to bound^2; "zcdp", rho; "renyi", the Renyi divergence at `event.order`. It says nothing of the
    records, only of the parameters that were asked for. One filter is one block; it is not safe to share between threads.
    """

    def __init__(self, event: Capped) -> None:
        check(event)
        self.event = event
        self._limit = event.bound * event.bound if event.filter == "gaussian" else event.bound
        self._spent = Fraction(0)
        self._delta = Fraction(0)

    @property
    def spent(self) -> float:
        """What was admitted so far, in the filter's unit."""
        return float(self._spent)

    @property
    def left(self) -> float:
        """What may still be spent, in the filter's unit; inf for an infinite bound."""
        return max(0.0, self._limit if math.isinf(self._limit) else float(Fraction(self._limit) - self._spent))

    def admits(self, event: Event, count: int = 1) -> bool:
        """Whether `count` repetitions stay within the bound. Raises `Unproven` for an event that this filter cannot take and
        `BadInput` for an impossible one."""
        if math.isinf(self._limit):
            return True
        added = self._added(event, count)
        return added is not None and (
            self._spent + added <= _ceiling(self._limit)
            and self._delta + self._claimed(event, count) <= _ceiling(self.event.delta)
        )

    def spend(self, event: Event, count: int = 1) -> None:
        """Add them. Raises `BadInput` where they would pass the bound; then nothing is spent."""
        if not self.admits(event, count):
            raise BadInput(
                f"{type(event).__name__} x {count} would exceed the cap ({self.event.filter}): {self.left:.6g} of "
                f"{self._limit:.6g} is left, and {float(Fraction(self.event.delta) - self._delta):.3g} of its delta; ask with more "
                "noise, or stop"
            )
        if math.isfinite(self._limit):
            self._spent += self._added(event, count) or 0
            self._delta += self._claimed(event, count)

    def spend_all(self, events: Iterable[Event]) -> None:
        """Add the events of one question, all or none. Raises as `spend` does."""
        before = self._spent, self._delta
        try:
            for event in events:
                self.spend(event)
        except BadInput:  # the question is refused as a whole, so nothing of it will be answered
            self._spent, self._delta = before
            raise

    def _added(self, event: Event, count: int) -> Fraction | None:
        """None where it is infinite."""
        check_count(Entry(event, count))
        check(event)
        if (event.relation, event.unit) != (self.event.relation, self.event.unit):
            raise Unproven(
                f"the cap is for {self.event.relation} of one {self.event.unit}, but the event is for {event.relation} of one "
                f"{event.unit}; use the same for both"
            )
        if isinstance(event, Capped):
            raise Unproven("there is no proof for a cap inside a cap; spend the inner events one by one")
        each = math.fsum(_COST[self.event.filter](form, self.event.order) for form in canonical(event) if count)
        return Fraction(each) * count if math.isfinite(each) else None

    @staticmethod
    def _claimed(event: Event, count: int) -> Fraction:
        return Fraction(own_delta(event)) * count


@functools.lru_cache(maxsize=64)
def largest(filter: str, budget: Budget, order: float = 0.0, *, delta: float = 0.0) -> Capped:
    """The cap with the largest bound that costs at most `budget`; inf for an infinite epsilon.

    `delta` is set aside for thresholds inside. "renyi" needs an `order`, fixed beforehand. Raises `BadInput` where no positive bound
    keeps the budget.
    """
    cap = Capped(filter=filter, bound=0.0, order=order, delta=delta, relation=budget.relation)
    check(cap)
    if math.isinf(budget.epsilon):
        return replace(cap, bound=math.inf)

    def cost(bound: float) -> float:
        return accounting.epsilon([Entry(replace(cap, bound=bound))], budget.delta, PRICED_BY[filter])

    low, high = 0.0, 1e-9
    while cost(high) <= budget.epsilon:
        low, high = high, 4 * high
    if low == 0.0:
        raise BadInput(
            f"no {filter} cap costs as little as epsilon {budget.epsilon:g} at delta {budget.delta:g} "
            f"({delta:g} of it for thresholds); raise epsilon or delta, or choose another order"
        )
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) <= budget.epsilon else (low, middle)
    return replace(cap, bound=low)


def cap_of(plan: Plan, budget: Budget) -> Capped | None:
    """The cap under which this plan may be made anew where answers to its questions were lost: fixed before the first answer,
    it costs at most the budget. None where no filter takes the plan's events, or nothing bounds them.

    Unsampled Gaussians get what the plan itself spends, which the filter adds up without loss; others the Renyi filter, at
    the order that converts the plan to the least epsilon.
    """
    from synthdp.accounting.accountants import rdp

    try:
        charged = charges(plan)
        if math.isinf(budget.epsilon) or charged.unbounded or not charged.entries:
            return None
        unit = plan[0].event.unit
        if all(isinstance(entry.event, Gaussian) for entry in charged.entries):
            squared = _total("gaussian", 0.0, plan)
            bound, own = math.sqrt(squared), charged.own_delta
            return Capped(filter="gaussian", bound=bound, delta=own, relation=budget.relation, unit=unit)
        order = rdp.best_order(charged, budget.delta - charged.own_delta)
        _total("renyi", order, plan)  # `Unproven` where the filter cannot take an event
        return replace(largest("renyi", budget, order, delta=charged.own_delta), unit=unit)
    except BadInput:  # `Unproven`, or no bound costs as little as the budget
        return None


def least_noise(plan: Callable[[float], Plan], cap: Capped) -> float:
    """The least noise at which the filter admits all of `plan(noise)`, within 0.1 % of the cap. Raises `BadInput` where none is."""
    return calibrate_to(lambda noise: _price(plan(noise), cap), 1.0)


def most(plan: Callable[[int], Plan], cap: Capped) -> int:
    """The largest number of repetitions that the filter admits. Raises `BadInput` if it does not admit 0."""
    return most_steps(lambda count: _price(plan(count), cap), 1.0)


def _price(plan: Plan, cap: Capped) -> float:
    """What a plan spends of the cap, as a share; inf where its thresholds claim more than the cap's delta."""
    filtered, delta = Filter(cap), math.fsum(entry.count * own_delta(entry.event) for entry in plan)
    if delta > cap.delta * (1 + CAP_ALLOWANCE):
        return math.inf
    return _total(cap.filter, cap.order, plan) / filtered.left


def _total(filter: str, order: float, plan: Plan) -> float:
    return math.fsum(
        entry.count * _COST[filter](form, order) for entry in plan if entry.count for form in canonical(entry.event)
    )


def _ceiling(limit: float) -> Fraction:
    """The limit and half of what its cap is charged beyond it; the other half covers the round-off of single costs."""
    return Fraction(limit) * (1 + Fraction(CAP_ALLOWANCE) / 2)


def _gaussian(event: Event, order: float) -> float:  # noqa: ARG001
    """(distance of the means)^2 (Smith & Thakurta 2022, theorem 4)."""
    if isinstance(event, Revealed):
        return math.inf
    if not isinstance(event, Gaussian):
        raise Unproven(
            f"the filter gaussian takes unsampled Gaussians only, not {type(event).__name__}; zcdp takes more"
        )
    return _squared(contributions(event) / event.noise)


def _zcdp(event: Event, order: float) -> float:  # noqa: ARG001
    """rho (Bun & Steinke 2016: Gaussian, proposition 1.6; pure epsilon, proposition 3.3). The exponential mechanism has bounded
    range: epsilon^2 / 8 (Cesar & Rogers 2021, with Durfee & Rogers 2019)."""
    if isinstance(event, Revealed):
        return math.inf
    if isinstance(event, Gaussian | Laplace):
        return _squared(contributions(event) / event.noise) / 2
    if isinstance(event, Choice):
        return _squared(event.epsilon) / 8
    hint = "; renyi takes sampled Gaussians" if isinstance(event, Sampled) else ""
    raise Unproven(f"the filter zcdp has no proof for the event {type(event).__name__}{hint}")


def _renyi(event: Event, order: float) -> float:
    """The divergence at `order`, or at the next higher order for which rdp has it."""
    from synthdp.accounting.accountants.rdp import WIDE_ORDERS, rule

    if isinstance(event, Revealed):
        return math.inf
    place = next((place for place, known in enumerate(WIDE_ORDERS) if known >= order), None)
    found = math.inf if place is None else float(rule(event)[place])
    return min(found, order * _zcdp(event, order)) if isinstance(event, Choice) else found


def _squared(value: float) -> float:
    return value * value


_COST: dict[str, Callable[[Event, float], float]] = {"gaussian": _gaussian, "zcdp": _zcdp, "renyi": _renyi}
