"""Accounting: epsilon as a pure function of a ledger's events and delta (McMahan & Andrew 2018, section 5).

    ledger -> charges (checked, canonical, order-free) -> one accountant's theorem -> epsilon

Nothing here reads records or keeps state; a statement can be recomputed years later, and with a tighter theorem.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, cast

from synthdp.accounting import accountants as files
from synthdp.accounting.charges import Charges, Unproven, charges, combined
from synthdp.accounting.search import calibrate_to, most_rate, most_steps
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Plan, Sampled

__all__ = [
    "ACCOUNTANTS",
    "CLAIMING",
    "COMPARED",
    "Charges",
    "Unproven",
    "answers",
    "best",
    "by_order",
    "calibrate",
    "calibrate_rate",
    "calibrate_steps",
    "combined",
    "curve",
    "epsilon",
    "epsilons",
    "group_epsilon",
    "provenance",
]

CLAIMING = ("pld", "rdp", "analytic_moments")  # whose bound may be the claim (law 42)
COMPARED = ("moments", "strong", "naive")  # older theorems, shown beside the claim; they never lower it
ACCOUNTANTS = CLAIMING + COMPARED

ORDERS = tuple(range(2, 65))  # of `by_order`

Entries = Iterable[Entry]  # a plan or a ledger
Theorem = Callable[[Charges, float], float]  # an accountant's epsilon at delta
Cost = Callable[[Any], float]  # epsilon, as a function of the unknown


class Accountant(Protocol):
    """What a file in `accountants/` offers."""

    def epsilon(self, charges: Charges, delta: float) -> float: ...

    def provenance(self) -> dict[str, Any]: ...


def epsilon(ledger: Entries, delta: float, accountant: str = "pld") -> float:
    """The least epsilon that this accountant can prove at `delta`; 0 for no events, inf where nothing finite holds.

    Raises `BadInput` for impossible arguments and `Unproven` for an event, sampler or relation without a proof.
    """
    return _bound(_accountant(accountant).epsilon, charges(ledger), delta)


def epsilons(ledger: Entries, delta: float) -> dict[str, float]:
    """Epsilon by every accountant that has a proof for these events; `answers` also says why the others have none."""
    return answers(ledger, delta)[0]


def answers(
    ledger: Entries, delta: float, k: int = 1, accountants: Sequence[str] = ACCOUNTANTS
) -> tuple[dict[str, float], dict[str, str]]:
    """Epsilon (for k units of one person, see `group_epsilon`) by every accountant that has a proof, and why others have none."""
    return _answers(charges(ledger), delta, k, accountants)


def _answers(
    charged: Charges, delta: float, k: int, accountants: Sequence[str]
) -> tuple[dict[str, float], dict[str, str]]:
    found: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name in accountants:
        try:
            found[name] = _group(_accountant(name), charged, delta, k)
        except Unproven as refusal:
            refused[name] = str(refusal)
    return found, refused


def best(ledger: Entries, delta: float, k: int = 1) -> tuple[str, float]:
    """The claim: the least bound of the `CLAIMING` accountants that have a proof for these events, and whose it is. No
    accountant is always the tightest (law 3). `analytic_moments` counts for its own sampler only, without replacement.

    `k` units of one person: see `group_epsilon`. Raises `Unproven`, with each accountant's reason, where none has a proof.
    """
    charged = charges(ledger)
    names = [name for name in CLAIMING if name != "analytic_moments" or _without_replacement(charged)]
    found, refused = _answers(charged, delta, k, names)
    if not found:
        raise Unproven(f"no accountant has a proof for these events: {'; '.join(refused.values())}")
    name = min(found, key=lambda each: (found[each], names.index(each)))  # others ask rdp where they say the same
    return name, found[name]


def group_epsilon(ledger: Entries, delta: float, k: int, accountant: str = "best") -> float:
    """Epsilon for all k units of one person at once, by one accountant or as `best` claims it; never k epsilon at the same
    delta, which does not hold (`groups.py` says which theorems do).

    Raises `BadInput` for impossible arguments, `Unproven` where no accountant asked has a proof.
    """
    if accountant != "best":
        return _group(_accountant(accountant), charges(ledger), delta, k)
    return best(ledger, delta, k)[1]


def curve(ledger: Entries, deltas: Iterable[float], accountant: str = "pld") -> list[tuple[float, float]]:
    """(delta, epsilon) for each delta, in the order given."""
    charged = charges(ledger)
    return [(delta, _bound(_accountant(accountant).epsilon, charged, delta)) for delta in deltas]


def by_order(ledger: Entries, delta: float) -> dict[str, list[tuple[int, float]]]:
    """(order, epsilon) for each of `ORDERS`, by `moments` and by `rdp`, as far as these have a proof; inf where an order has none.

    Orders are Renyi's: that of a log-moment is one less. The figure 3 of Waites 2019 (PyVacy).
    """
    charged, found = charges(ledger), {}
    for name in ("moments", "rdp"):
        with contextlib.suppress(Unproven):
            found[name] = [
                (order, float(value))
                for order, value in zip(
                    ORDERS, cast("Any", _accountant(name)).bounds_at(charged, delta, ORDERS), strict=True
                )
            ]
    return found


def calibrate(
    plan: Callable[[float], Plan], budget: Budget, accountant: str = "pld", *, spent: Iterable[Entry] = ()
) -> float:
    """The least noise whose plan keeps the budget: never above it, and within 0.1 % of it for continuous noise.

    `plan(noise)` lists everything that the fit will ask; events in it that do not depend on the noise are the fixed part, and
    so are `spent`, events of earlier fits that are booked already. The plan may turn the number into several noises.
    Returns 0.0 where `budget.epsilon` is inf. Raises `BadInput` where the fixed part alone overspends,
    and says what it costs.

    Adaptivity (law 11): the noise may be calibrated on what earlier events left only if all later parameters are fixed
    before any answer is seen, that is if the plan given here is the whole fit. A fit that chooses parameters from answers
    runs under a cap and books the cap.
    """
    if math.isinf(budget.epsilon):
        return 0.0
    cost = _cost(plan, budget, spent)
    start = _guess(lambda rough: calibrate_to(rough, budget.epsilon), cost)
    return calibrate_to(cost(_accountant(accountant).epsilon), budget.epsilon, start)


def calibrate_rate(
    plan: Callable[[float], Plan], budget: Budget, accountant: str = "pld", *, spent: Iterable[Entry] = ()
) -> float:
    """The largest sampling rate whose `plan(rate)` keeps the budget, within 0.1 % of it; 1.0 where no sampling is needed.
    Raises `BadInput` where rate 0 or every rate above 1e-7 overspends. `spent` as in `calibrate`."""
    if math.isinf(budget.epsilon):
        return 1.0
    cost = _cost(plan, budget, spent)
    start = _guess(lambda rough: most_rate(rough, budget.epsilon), cost)
    return most_rate(cost(_accountant(accountant).epsilon), budget.epsilon, start)


def calibrate_steps(
    plan: Callable[[int], Plan], budget: Budget, accountant: str = "pld", *, spent: Iterable[Entry] = ()
) -> int:
    """The most steps whose plan keeps the budget: one more would exceed it. Raises `BadInput` where 0 steps already do.
    `spent` as in `calibrate`."""
    if math.isinf(budget.epsilon):
        raise BadInput("budget.epsilon is inf, which any number of steps keeps; give the steps instead")
    return most_steps(_cost(plan, budget, spent)(_accountant(accountant).epsilon), budget.epsilon)


def provenance() -> dict[str, Any]:
    """Per accountant: versions and grid, as a statement records them (law 34)."""
    return {name: _accountant(name).provenance() for name in ACCOUNTANTS}


def _accountant(name: str) -> Accountant:
    if name not in ACCOUNTANTS:
        raise BadInput(f"accountant must be one of {', '.join(ACCOUNTANTS)}, got {name!r}")
    return cast("Accountant", import_module(f"{files.__name__}.{name}"))


def _without_replacement(charged: Charges) -> bool:
    return any(
        isinstance(entry.event, Sampled) and entry.event.sampler == "without_replacement" for entry in charged.entries
    )


@lru_cache(maxsize=1024)  # a plan is solved before anything is opened, and once more where it is committed
def _bound(theorem: Theorem, charged: Charges, delta: float) -> float:
    """Apply a theorem to what the events' own deltas leave (law 10)."""
    if not 0 < delta < 1:
        raise BadInput(f"delta must lie strictly between 0 and 1, got {delta}")
    left = delta - charged.own_delta
    if left <= 0:
        return math.inf
    found = float(theorem(charged, left)) if charged.entries else 0.0
    if math.isnan(found) or found < 0:
        raise ArithmeticError(
            f"an accountant returned {found}, which is a fault of synthdp; please report it with the ledger"
        )
    return found


def _group(accountant: Accountant, charged: Charges, delta: float, k: int) -> float:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise BadInput(f"group must be a whole number of units, 1 or more, got {k!r}")
    if k == 1 or not charged.entries:
        return _bound(accountant.epsilon, charged, delta)
    from synthdp.accounting import groups

    least = groups.from_profile(lambda own: _bound(accountant.epsilon, charged, own), delta, k)
    with contextlib.suppress(Unproven):
        least = min(least, _bound(accountant.epsilon, groups.moved(charged, k), delta))
    return least


def _cost(plan: Callable[[Any], Plan], budget: Budget, spent: Iterable[Entry]) -> Callable[[Theorem], Cost]:
    """For each theorem: epsilon of the plan and of what was spent before, as a function of the unknown."""
    booked = tuple(spent)

    def by(theorem: Theorem) -> Cost:
        return lambda value: _bound(theorem, _planned((*booked, *plan(value)), budget), budget.delta)

    return by


def _guess(solve: Callable[[Cost], float], cost: Callable[[Theorem], Cost]) -> float | None:
    """Roughly the answer, near which the search begins, in a fraction of its time; None if there is none."""
    from synthdp.accounting.accountants import rdp

    with contextlib.suppress(BadInput):  # no proof, or too dear by this rough bound alone
        return solve(cost(rdp.rough))
    return None


def _planned(plan: Plan, budget: Budget) -> Charges:
    relations = {entry.event.relation for entry in plan if entry.count}
    if relations - {budget.relation}:
        raise BadInput(
            f"the plan's events have the relation {', '.join(sorted(relations))}, but the budget has {budget.relation}; use one "
            "for both"
        )
    return charges(plan)
