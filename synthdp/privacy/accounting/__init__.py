"""Accounting: epsilon as a pure function of a ledger's events and delta (McMahan & Andrew 2018, section 5).

    ledger -> charges (checked, canonical, order-free) -> one accountant's theorem -> epsilon

Nothing here reads records or keeps state; a statement can be recomputed years later, and with a tighter theorem.
"""

import contextlib
import math
import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Protocol, cast

from synthdp.errors import BadInput
from synthdp.privacy.accounting import accountants
from synthdp.privacy.accounting.charges import Charges, Unproven, charges, combined
from synthdp.privacy.accounting.search import calibrate_to, most_steps
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import Entry, Ledger, Plan

__all__ = [
    "ACCOUNTANTS",
    "Charges",
    "Unproven",
    "best",
    "calibrate",
    "calibrate_steps",
    "combined",
    "curve",
    "epsilon",
    "epsilons",
    "provenance",
    "refusals",
]

ACCOUNTANTS: tuple[str, ...] = tuple(sorted(module.name for module in pkgutil.iter_modules(accountants.__path__)))

QUICK = "rdp"  # answers in milliseconds, a little high: where the search for the noise begins

Entries = Ledger | Iterable[Entry]


class Accountant(Protocol):
    """What a file in `accountants/` offers."""

    def epsilon(self, charges: Charges, delta: float) -> float: ...

    def provenance(self) -> dict[str, Any]: ...


def epsilon(ledger: Entries, delta: float, accountant: str = "pld") -> float:
    """The least epsilon that this accountant can prove at `delta`; 0 for no events, inf where nothing finite holds.

    Raises `BadInput` for impossible arguments and `Unproven` for an event, sampler or relation without a proof.
    """
    return _bound(_accountant(accountant), charges(ledger), delta)


def epsilons(ledger: Entries, delta: float) -> dict[str, float]:
    """Epsilon by every accountant that has a proof for these events; `refusals` says why the others are missing."""
    found: dict[str, float] = {}
    charged = charges(ledger)
    for name in ACCOUNTANTS:
        try:
            found[name] = _bound(_accountant(name), charged, delta)
        except Unproven:
            continue
    return found


def refusals(ledger: Entries) -> dict[str, str]:
    """Accountant -> why it has no proof for these events."""
    found: dict[str, str] = {}
    charged = charges(ledger)
    for name in ACCOUNTANTS:
        try:
            _accountant(name).epsilon(charged, 0.5)
        except Unproven as refusal:
            found[name] = str(refusal)
    return found


def best(ledger: Entries, delta: float) -> tuple[str, float]:
    """The least valid bound and the accountant that has it (no accountant is always the tightest, GUARANTEE 3).

    Raises `Unproven`, with every accountant's reason, where none has a proof.
    """
    entries = ledger.entries() if isinstance(ledger, Ledger) else tuple(ledger)
    found = epsilons(entries, delta)
    if not found:
        reasons = "; ".join(refusals(entries).values())
        raise Unproven(f"no accountant has a proof for these events: {reasons}")
    name = min(found, key=lambda key: (found[key], key != "pld", key))
    return name, found[name]


def curve(ledger: Entries, deltas: Iterable[float], accountant: str = "pld") -> list[tuple[float, float]]:
    """(delta, epsilon) for each delta, in the order given."""
    charged = charges(ledger)
    return [(delta, _bound(_accountant(accountant), charged, delta)) for delta in deltas]


def calibrate(plan: Callable[[float], Plan], budget: Budget, accountant: str = "pld") -> float:
    """The least noise whose plan keeps the budget: never above it, and within 0.1 % of it for continuous noise.

    `plan(noise)` lists everything that the fit will ask; events in it that do not depend on the noise are the fixed part.
    Returns 0.0 where `budget.epsilon` is inf. Raises `BadInput` where the fixed part alone overspends, and says what it costs.

    Adaptivity (GUARANTEE 11): the noise may be calibrated on what earlier events left only if all later parameters are fixed
    before any answer is seen, that is if the plan given here is the whole fit. A fit that chooses parameters from answers
    runs under a cap and books the cap.
    """
    if math.isinf(budget.epsilon):
        return 0.0
    start: float | None = None
    if accountant != QUICK:
        with contextlib.suppress(BadInput):  # no proof, or too dear by this accountant alone
            start = calibrate_to(_spent(plan, budget, QUICK), budget.epsilon)
    return calibrate_to(_spent(plan, budget, accountant), budget.epsilon, start)


def calibrate_steps(plan: Callable[[int], Plan], budget: Budget, accountant: str = "pld") -> int:
    """The most steps whose plan keeps the budget: one more would exceed it. Raises `BadInput` where 0 steps already do."""
    if math.isinf(budget.epsilon):
        raise BadInput("budget.epsilon is inf: any number of steps keeps it; give the steps instead")
    found = _accountant(accountant)
    return most_steps(lambda steps: _bound(found, _planned(plan(steps), budget), budget.delta), budget.epsilon)


def provenance() -> dict[str, Any]:
    """Per accountant: versions and grid, as a statement records them (GUARANTEE 34)."""
    return {name: _accountant(name).provenance() for name in ACCOUNTANTS}


def _accountant(name: str) -> Accountant:
    if name not in ACCOUNTANTS:
        raise BadInput(f"accountant must be one of {', '.join(ACCOUNTANTS)}, got {name!r}")
    return cast("Accountant", import_module(f"{accountants.__name__}.{name}"))


def _bound(accountant: Accountant, charged: Charges, delta: float) -> float:
    """Apply a theorem to what the events' own deltas leave (GUARANTEE 10)."""
    if not 0 < delta < 1:
        raise BadInput(f"delta must lie strictly between 0 and 1, got {delta}")
    left = delta - charged.own_delta
    if left <= 0:
        return math.inf
    found = float(accountant.epsilon(charged, left)) if charged.entries else 0.0
    if math.isnan(found) or found < 0:
        raise ArithmeticError(f"an accountant returned {found}; please report the ledger")
    return found


def _spent(plan: Callable[[float], Plan], budget: Budget, accountant: str) -> Callable[[float], float]:
    """Epsilon of the plan as a function of its noise."""
    found = _accountant(accountant)
    return lambda noise: _bound(found, _planned(plan(noise), budget), budget.delta)


def _planned(plan: Plan, budget: Budget) -> Charges:
    relations = {entry.event.relation for entry in plan if entry.count}
    if relations - {budget.relation}:
        raise BadInput(
            f"the plan's events are under {', '.join(sorted(relations))}, the budget under {budget.relation}"
        )
    return charges(plan)
