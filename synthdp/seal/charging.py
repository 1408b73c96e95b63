"""What may be charged: a cap, the plan that was committed under it, and the ledger that books it."""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache

from synthdp import accounting
from synthdp.accounting import caps
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Capped, Entry, Event, Plan, Revealed, Sampled, merged, scoped, scoped_event
from synthdp.ledger.ledger import Ledger

MOST_LOST = 2.0  # times the noise of a new fit: what a fit may be left with by answers that were lost

Enter = Callable[[Plan, Budget], None]


def nowhere(plan: Plan, budget: Budget) -> None:
    """A plan is entered into no account of a data set."""


def nothing() -> None:
    """Nothing is written beside a ledger."""


class Account:
    """What one fit may spend, and the ledger that it writes.

    A plan is committed once, before the first answer, so that every privacy parameter is fixed beforehand and exact
    accounting of the plan is valid (law 11); what it does not hold is refused. Charges are durable before they return.
    A ledger that holds charges already belongs to a fit that was stopped: they count.

    `noise` was found earlier for this very plan: it is checked, not searched again. `enter` is given the whole plan, and records
    that are handed out beside it, before they are authorised; it may refuse by raising `BadInput`. `begin` writes
    what stands beside the ledger, after the ledger is begun and so belongs to no other fit.
    """

    def __init__(
        self,
        cap: Budget,
        ledger: Ledger | None = None,
        *,
        unit: str = "record",
        noise: float | None = None,
        enter: Enter = nowhere,
    ) -> None:
        self.cap = cap
        self.ledger = Ledger() if ledger is None else ledger
        self.unit = unit
        self._noise = noise
        self._enter = enter
        self._plan: Plan | None = None
        self._left: Counter[Event] = Counter()
        self._reserved: Counter[Event] = Counter()  # of a block that is open
        self._unasked: Counter[Event] = Counter()  # charged by the part that was stopped, which gave no answer for it
        self._entered = False
        self.begin: Callable[[], None] = nothing

    def commit(self, plan: Callable[[float], Plan]) -> float:
        """Solve `plan` for the least noise that keeps the cap, authorise it, and return the noise.

        Raises `BadInput` where the plan cannot be afforded, or a plan was committed before.
        """
        if self._plan is not None:
            raise BadInput("a plan has been committed already; a fit commits one plan, before its first question")
        noise, self._plan = self._solved(plan)
        self._left = counted(self._plan) - counted(self.ledger.booked())
        return noise

    def enter(self) -> None:
        """Begin the ledger, and enter the plan in the account of the data set: before the first charge, and in this order, so that a
        fit that is stopped between the two has a ledger to go on with. A plan that is refused leaves no ledger behind."""
        if self._entered or self._plan is None:
            return
        fresh = not self.ledger.begun
        if fresh:
            self.ledger.begin(caps.cap_of(self.plan, self.cap))
        self.begin()
        try:
            self._enter(self.ledger.entries() if self.ledger.replanned else self.plan, self.cap)
        except BadInput:  # a Ctrl-C may come once the account is charged, and then the fit goes on by this ledger
            if fresh:
                self.ledger.discard()
            raise
        self._entered = True

    def most(self, plan: Callable[[int], Plan]) -> int:
        """The most repetitions whose plan keeps the cap, beside lost answers of an earlier start: for a plan of fixed noise,
        before it is committed. A fit that is resumed from a checkpoint keeps the number that it found at first."""
        lost = self.ledger.booked()
        if lost:
            return caps.most(lambda count: (*lost, *self.scoped(plan(count))), self._cap_for(lost))
        return accounting.calibrate_steps(lambda count: self.scoped(plan(count)), self.cap)

    def _solved(self, plan: Callable[[float], Plan]) -> tuple[float, Plan]:
        """The noise, and all that the ledger will hold in the end.

        With a noise found earlier the charges of the ledger are part of this plan, or were lost before it was made, and count
        beside it. Else they are lost answers of an earlier start. Someone may have seen figures made of them, so the plan made
        anew is an adaptive one: it runs under the cap that the ledger's first line fixed, which every lost answer counts
        towards and which is then charged whole (law 11).
        """
        if self._noise is not None:
            whole = merged(self.scoped(plan(self._noise)))
            self.ledger.mend(whole)
            beyond = counted(self.ledger.booked()) - counted(whole)
            whole = (*(Entry(event, count) for event, count in beyond.items()), *whole)
            self._unasked = counted(self.ledger.unasked)
            _check(self.ledger.entries() if self.ledger.replanned else whole, self._noise, self.cap)
            return self._noise, whole
        first = _least_noise(lambda z: self.scoped(plan(z)), self.cap)
        self.ledger.mend(merged(self.scoped(plan(first))))
        lost = self.ledger.booked()
        if not lost:
            return first, merged(self.scoped(plan(first)))
        cap = self._cap_for(lost)
        try:
            noise = caps.least_noise(lambda z: (*lost, *self.scoped(plan(z))), cap)
        except BadInput:
            noise = math.inf
        _check_lost(noise, first)
        self.ledger.replan()
        return noise, (*lost, *merged(self.scoped(plan(noise))))

    def _cap_for(self, lost: Plan) -> Capped:
        if self.ledger.cap is None:
            number = sum(entry.count for entry in lost)
            raise BadInput(
                f"the answers to {number} questions of the stopped fit are lost, and it cannot be planned anew, because no cap "
                "that a filter can keep was fixed before they were asked. Start a new fit, which is charged in addition"
            )
        return self.ledger.cap

    def scoped(self, plan: Plan) -> Plan:
        """The plan said for this account's relation and unit."""
        return scoped(plan, relation=self.cap.relation, unit=self.unit)

    def scoped_event(self, event: Event) -> Event:
        """The event said for this account's relation and unit."""
        return scoped_event(event, relation=self.cap.relation, unit=self.unit)

    @property
    def plan(self) -> Plan:
        """What was committed; empty before."""
        return self._plan or ()

    def left(self, event: Event) -> int:
        """How many repetitions of an event the committed plan still holds."""
        return self._left[self.scoped_event(event)]

    @property
    def unasked_samples(self) -> int:
        """Samples that were charged and not drawn by the part of this fit that was stopped."""
        return sum(count for event, count in self._unasked.items() if isinstance(event, Sampled))

    def blocked(self, event: Event, count: int = 1) -> bool:
        """Whether an open block of a loop holds it."""
        return self._reserved[self.scoped_event(event)] >= count

    @property
    def looping(self) -> bool:
        """Whether a block of a loop is open."""
        return bool(self._reserved)

    def book(self, event: Event, count: int = 1) -> None:
        """Charge before the answer: from an open block if there is one, else as a line of its own."""
        event = self.scoped_event(event)
        if self._reserved[event] >= count:
            self._reserved[event] -= count
        else:
            self._charge(event, count)

    def _charge(self, event: Event, count: int) -> None:
        """A line in the ledger, but for what the part that was stopped had charged and gave no answer for."""
        self.enter()
        again = min(count, self._unasked[event])
        self._unasked[event] -= again
        if count > again:
            self._authorise(event, count - again)
            self.ledger.append(event, count - again)

    @contextmanager
    def charged(self, event: Event, count: int) -> Iterator[None]:
        """Charge a block with one durable line; whatever happens in it, all of it stays charged."""
        event = self.scoped_event(event)
        if self._reserved[event]:
            raise BadInput("a block of this event is open already")
        self._charge(event, count)
        self.ledger.asking("block")
        self._reserved[event] = count
        try:
            yield
        finally:
            del self._reserved[event]

    def settle(self) -> None:
        """Charge what the committed plan holds and the fit did not ask, so that the ledger is the plan (law 11)."""
        self.enter()
        for event in dict.fromkeys(entry.event for entry in self.plan):
            rest = self._left.pop(event, 0)
            if rest:
                self.ledger.append(event, rest)

    def _authorise(self, event: Event, count: int) -> None:
        if isinstance(event, Revealed):  # in no plan, so the data set's account hears of it now
            self._enter((Entry(event, count),), replace(self.cap, epsilon=math.inf))
            return
        if self._left[event] < count:
            raise BadInput(
                f"{event} x {count} is not in the committed plan, or is used up; what is left of the plan is "
                f"{dict(+self._left) or 'nothing'}. Commit a plan of all questions, with their noise, before you ask the first one"
            )
        self._left[event] -= count


def counted(plan: Plan) -> Counter[Event]:
    """How often a plan holds each event. Of two such counts, `one - other` is what one holds beyond the other."""
    found: Counter[Event] = Counter()
    for entry in plan:
        found[entry.event] += entry.count
    return found


def _check_lost(noise: float, first: float) -> None:
    """What is left must be worth a fit."""
    if noise > MOST_LOST * first:
        times = (
            f"the noise would be {noise / first:.0f} times that of a new fit"
            if math.isfinite(noise)
            else "no question can be asked"
        )
        raise BadInput(
            f"answers of the stopped fit are lost but stay charged, and with the rest of its budget {times}. "
            "Start a new fit, which is charged in addition"
        )
    if noise > 1.01 * first:
        warnings.warn(
            f"some answers of the stopped fit are lost but stay charged: the resumed fit has {noise / first:.2f} times the noise "
            "of a new one",
            UserWarning,
            stacklevel=2,
        )


def _least_noise(plan: Callable[[float], Plan], budget: Budget) -> float:
    """By pld, the tightest as a rule; where pld has no proof by rdp (a zCDP or Renyi cap), or by that of its own sampler."""
    for accountant in ("pld", "rdp"):
        with suppress(accounting.Unproven):
            return accounting.calibrate(plan, budget, accountant)
    return accounting.calibrate(plan, budget, "analytic_moments")


@lru_cache(maxsize=16)  # an audit makes thousands of fits of one plan
def _check(plan: Plan, noise: float, budget: Budget) -> None:
    if noise == 0 and math.isinf(budget.epsilon):
        return
    _, found = accounting.best(plan, budget.delta)
    if found > budget.epsilon:
        raise BadInput(f"with noise {noise:g} the plan costs epsilon {found:g}, above the budget of {budget.epsilon:g}")
