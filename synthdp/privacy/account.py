"""What may be charged: a cap, the plan that was committed under it, and the ledger that books it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from synthdp.errors import BadInput
from synthdp.privacy import accounting
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import Event, Ledger, Plan, Revealed, merged, scoped, scoped_event


class Account:
    """The budget of one data set, and the ledger that its fits write.

    A plan is committed once, before the first answer, so that every privacy parameter is fixed beforehand and exact
    accounting of the plan is valid (GUARANTEE 11); what it does not hold is refused. Charges are durable before they return.
    """

    def __init__(self, cap: Budget, ledger: Ledger | None = None, *, unit: str = "record") -> None:
        self.cap = cap
        self.ledger = Ledger() if ledger is None else ledger
        self.unit = unit
        self._plan: Plan | None = None
        self._left: Counter[Event] = Counter()
        self._reserved: Counter[Event] = Counter()

    def commit(self, plan: Callable[[float], Plan], budget: Budget) -> float:
        """Solve `plan` for the least noise that keeps `budget`, authorise it, and return the noise.

        Raises `BadInput` where the budget exceeds the cap, the plan cannot be afforded, or a plan was committed before.
        """
        if self._plan is not None:
            raise BadInput("a plan was committed already; one fit commits one plan, before its first question")
        if budget.epsilon > self.cap.epsilon or budget.delta > self.cap.delta or budget.relation != self.cap.relation:
            raise BadInput(f"the budget {budget} is not within the account's cap {self.cap}")
        noise = accounting.calibrate(lambda z: self.scoped(plan(z)), budget)
        self._plan = merged(self.scoped(plan(noise)))
        for entry in self._plan:
            self._left[entry.event] += entry.count
        return noise

    def scoped(self, plan: Plan) -> Plan:
        """The plan said for this account's relation and unit."""
        return scoped(plan, relation=self.cap.relation, unit=self.unit)

    @property
    def plan(self) -> Plan:
        """What was committed; empty before."""
        return self._plan or ()

    def book(self, event: Event, count: int = 1) -> None:
        """Charge before the answer: from an open block if there is one, else as a line of its own."""
        event = scoped_event(event, relation=self.cap.relation, unit=self.unit)
        if self._reserved[event] >= count:
            self._reserved[event] -= count
            return
        self._authorise(event, count)
        self.ledger.append(event, count)

    @contextmanager
    def reserve(self, event: Event, count: int) -> Iterator[None]:
        """Charge a whole block with one durable line. After a crash all of it stays charged; an exception (Ctrl-C) gives
        back what was not asked, since no model comes of that fit. A block that ends well stays charged whole: when to
        stop may have been an answer's doing.
        """
        event = scoped_event(event, relation=self.cap.relation, unit=self.unit)
        if self._reserved[event]:
            raise BadInput("a block of this event is open already")
        self._authorise(event, count)
        line = self.ledger.append(event, count)
        self._reserved[event] = count
        try:
            yield
        except BaseException:
            self.ledger.unused(line, self._reserved.pop(event))
            raise
        del self._reserved[event]

    def settle(self) -> None:
        """Charge what the committed plan holds and the fit did not ask, so that the ledger is the plan (GUARANTEE 11)."""
        for entry in self.plan:
            rest = self._left.pop(entry.event, 0)
            if rest:
                self.ledger.append(entry.event, rest)

    def _authorise(self, event: Event, count: int) -> None:
        if isinstance(event, Revealed):
            return
        if self._left[event] < count:
            raise BadInput(
                f"{type(event).__name__} x {count} is not in the committed plan (or is used up): "
                "commit a plan that holds every question before the first one is asked"
            )
        self._left[event] -= count
