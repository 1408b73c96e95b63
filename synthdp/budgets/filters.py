"""What fits add up to, and when one more is too much: filters that hold when each fit is chosen after seeing the earlier ones.

A steward looks at a release before asking for the next, so the fits' budgets are chosen from answers: fully adaptive
composition, where the usual theorems do not hold (Rogers, Roth, Ullman & Vadhan 2016). Every filter here adds up two numbers per
fit and keeps each sum within a limit that is fixed beforehand; fits that run at the same time are covered too (Haney et al.
2023: valid filters for (epsilon, delta)-DP and for one Renyi order extend to concurrent composition).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan
from synthdp.options import option

FilterName = Literal["additive", "renyi"]
FILTERS: tuple[str, ...] = get_args(FilterName)


@dataclass(frozen=True, kw_only=True)
class Cap:
    """What all fits of one data set may spend together: epsilon > 0 and finite, delta in (0, 1). Raises `BadInput` otherwise."""

    epsilon: float = option(1.0, "all fits together: epsilon")
    delta: float = option(1e-6, "all fits together: delta")

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise BadInput(f"account.cap.epsilon must be greater than 0 and finite, got {self.epsilon}")
        if not 0 < self.delta < 1:
            raise BadInput(f"account.cap.delta must lie strictly between 0 and 1, got {self.delta}")


@dataclass(frozen=True, kw_only=True)
class Entered:
    """What a statement says of the account that a fit was entered in: nothing of the data, of people or of places.

    `cap` is what all fits of the account may spend together, as it stood then; `order` is that of the filter renyi.
    """

    filter: FilterName
    order: float | None
    cap: Cap | None
    head_checked: bool

    def __post_init__(self) -> None:
        typed = isinstance(self.head_checked, bool) and isinstance(self.order, float | None)
        if self.filter not in FILTERS or not typed:
            raise BadInput("a statement's account has a filter that is not known, or a field of the wrong form")


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one fit adds: `loss` (epsilon, or a Renyi divergence) and `delta`."""

    loss: float
    delta: float

    def above(self, other: "Price") -> "Price":
        """What this costs more than `other`, in each number."""
        return Price(loss=left(other.loss, self.loss), delta=left(other.delta, self.delta))


def total(prices: Iterable[Price]) -> Price:
    """Both sums. The numbers count as they are written (0.1 is one tenth), so ten times 0.1 is 1 and nothing is lost."""
    every = list(prices)
    return Price(loss=_sum(price.loss for price in every), delta=_sum(price.delta for price in every))


@dataclass(frozen=True)
class Additive:
    """The fits' own epsilons and deltas add up (Rogers et al. 2016, section 3: basic composition is a valid filter and, with
    no cap fixed beforehand, a valid odometer). It needs no more of a fit than its promise, so it holds for every generator.
    """

    name: FilterName = "additive"
    order: None = None

    def price(self, plan: Plan, budget: Budget) -> Price:  # noqa: ARG002
        """The budget: a fit's plan never costs more."""
        return Price(loss=budget.epsilon, delta=budget.delta)

    def limit(self, cap: Cap) -> Price:
        """The cap itself."""
        return Price(loss=cap.epsilon, delta=cap.delta)


@dataclass(frozen=True)
class Renyi:
    """Renyi divergences at one order, fixed with the account, add up to a bound that is fixed too (Feldman & Zrnic 2021,
    theorem 4.3 for the filter; Canonne, Kamath & Steinke 2020, proposition 12 for epsilon).

    Half of the cap's delta is for that conversion and half for what thresholds in the plans claim for themselves. What holds
    for all fits together is the cap, however little of it is spent: a smaller epsilon from the sum so far would be a bound
    chosen after the fact (law 11).
    """

    order: float
    name: FilterName = "renyi"

    @classmethod
    def of(cls, cap: Cap) -> "Renyi":
        """The order at which Gaussian fits, whose divergence grows in proportion to the order, get the most out of the cap."""
        from synthdp.accounting.accountants.rdp import ORDERS

        return cls(max(ORDERS, key=lambda order: cls(order).limit(cap).loss / order))

    def price(self, plan: Plan, budget: Budget) -> Price:
        """The plan's divergence at the order; raises `Unproven` for an event without a bound there."""
        from synthdp.accounting.accountants import rdp
        from synthdp.accounting.charges import charges

        if math.isinf(budget.epsilon):
            return Price(loss=math.inf, delta=budget.delta)
        if self.order not in rdp.WIDE_ORDERS:
            raise BadInput(
                f"the account adds up Renyi divergences of order {self.order:g}, which this version of synthdp does not compute"
            )
        found = charges(plan)
        place = rdp.WIDE_ORDERS.index(self.order)
        return Price(loss=float(rdp.divergences(found)[place]), delta=found.own_delta)

    def limit(self, cap: Cap) -> Price:
        """The divergence whose epsilon at half of delta is the cap's, and the other half of delta."""
        return Price(loss=cap.epsilon - self._added(cap.delta / 2), delta=cap.delta / 2)

    def _added(self, delta: float) -> float:
        a = self.order
        return math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)


Filter = Additive | Renyi  # how an account composes its fits: what a fit adds, and what keeps all fits within the cap


def made(name: FilterName, order: float | None, cap: Cap | None) -> Filter:
    """The filter of an account that is opened with this cap (`order` None), or of one that has its order already."""
    if name == "additive":
        return Additive()
    if name != "renyi":
        raise BadInput(f"account.filter must be one of {', '.join(FILTERS)}, got {name!r}")
    if order is not None:
        return Renyi(order)
    if cap is None:
        raise BadInput(
            "account.filter=renyi needs account.cap.epsilon and account.cap.delta: its order is fixed by the cap"
        )
    found = Renyi.of(cap)
    if found.limit(cap).loss <= 0:
        raise BadInput(
            f"account.filter=renyi cannot keep epsilon {cap.epsilon:g} at delta {cap.delta:g}: take a larger delta, or "
            "account.filter=additive"
        )
    return found


def within(spent: Price, limit: Price) -> bool:
    """Whether both sums keep their limit."""
    return spent.loss <= limit.loss and spent.delta <= limit.delta


def left(spent: float, limit: float) -> float:
    """The difference of two numbers as they are written; 0 where nothing is left."""
    if math.isinf(spent) or math.isinf(limit):
        return 0.0 if math.isinf(spent) else math.inf
    return max(0.0, float(Fraction(repr(limit)) - Fraction(repr(spent))))


def _sum(numbers: Iterable[Any]) -> float:
    values = [float(number) for number in numbers]
    return math.inf if math.inf in values else float(sum((Fraction(repr(value)) for value in values), Fraction(0)))
