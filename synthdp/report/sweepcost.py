"""What a whole sweep cost: the events of all its fits put one after another, and accounted as one ledger.

Composition is over the union of the ledgers (law 26: failed, repeated and tuning runs are charged), never a sum of epsilons
at an unchanged delta. It holds as it stands where the runs were fixed before the first answer was seen, as `--multirun`
fixes them (law 11).
"""

import math
from collections.abc import Sequence
from typing import Any

from synthdp import accounting
from synthdp.accounting.charges import charges
from synthdp.errors import BadInput
from synthdp.ledger.events import RECORD, Plan
from synthdp.report.statement import Statement
from synthdp.report.words import scientific, upper

FREE = "Tuning on public data, or on made-up data as a rehearsal, costs nothing."


def cost(statements: Sequence[Statement], others: Sequence[Plan] = (), unreadable: int = 0) -> dict[str, Any]:
    """{"runs", "rehearsals", "others", "unreadable", "epsilon", "delta", "accountant", "unit", "relation", "added", "reason"}.

    `others` are the events of fits that left a ledger and no release that can be read: stopped, replaced or broken ones; of
    `unreadable` ledgers nothing is known but that they are there. `epsilon` is the least that an accountant proves of all the
    events together at `delta`, the largest of the runs' own; where the events claim as much delta for themselves (law 10), at
    the sum of the runs' deltas. `added` is basic composition: (sum of epsilons, sum of deltas) of the releases. Rehearsals are
    counted apart: no epsilon holds for them. Where nothing can be said epsilon is None, and `reason` tells why.
    """
    counted = [said for said in statements if not said.rehearsal]
    found: dict[str, Any] = {
        "runs": len(counted),
        "rehearsals": len(statements) - len(counted),
        "others": len(others),
        "unreadable": unreadable,
        "unit": sorted({said.unit for said in counted}),
        "relation": sorted({said.relation for said in counted}),
        "added": [math.fsum(said.epsilon for said in counted), math.fsum(said.delta for said in counted)],
        "epsilon": None,
        "delta": None,
        "accountant": None,
        "reason": None,
    }
    if unreadable:
        return {**found, "reason": f"{_ledgers(unreadable)} cannot be read, and what was charged in it is not known"}
    events = tuple(entry for plan in (*(said.events for said in counted), *others) for entry in plan)
    if not events:
        return {**found, "epsilon": 0.0}
    deltas = [said.delta for said in counted or statements]
    try:
        claimed = charges(events).own_delta
        delta = max(deltas) if claimed < max(deltas) else math.fsum(deltas)
        accountant, epsilon = accounting.best(events, delta)
    except BadInput as error:  # mixed units or relations, or events that no accountant knows together
        return {**found, "reason": str(error)}
    return {**found, "epsilon": epsilon, "delta": delta, "accountant": accountant}


def told(found: dict[str, Any]) -> str:
    """The cost in words."""
    return " ".join((*_sum(found), *_apart(found), FREE))


def verdict(found: dict[str, Any]) -> str:
    """The cost in a few words."""
    if found["epsilon"] is None:
        return "It cannot be said"
    if not found["runs"] and not found["others"]:
        return "Nothing that counts: rehearsals only" if found["rehearsals"] else "Nothing"
    if found["epsilon"] == 0.0:
        return "Nothing"
    if math.isinf(found["epsilon"]):
        return "No guarantee: epsilon is infinite"
    return f"Epsilon {upper(found['epsilon'])} at delta {scientific(found['delta'])}"


def _sum(found: dict[str, Any]) -> list[str]:
    fits = _fits(found["runs"] + found["others"])
    if found["epsilon"] is None:
        return [f"What the whole sweep cost cannot be said: {found['reason']}."]
    if not found["runs"] and not found["others"]:
        return ["The whole sweep cost nothing that an epsilon could say."] if found["rehearsals"] else []
    if found["epsilon"] == 0.0:
        return [f"The whole sweep cost epsilon 0: {fits}, and nothing was asked of the records."]
    if math.isinf(found["epsilon"]):
        return [
            f"The whole sweep cost an infinite epsilon: at least one of {fits} has no guarantee, and nothing bounds what all "
            "of them together reveal."
        ]
    per = " or ".join("record" if unit == RECORD else f"unit of {unit}" for unit in found["unit"]) or "unit"
    said = (
        f"The whole sweep cost epsilon {upper(found['epsilon'])} at delta {scientific(found['delta'])} per {per}: {fits}, "
        f"composed over all their events ({found['accountant']})."
    )
    plural = found["runs"] > 1
    epsilon, delta = found["added"]
    added = f" Their own epsilons and deltas add up to {upper(epsilon)} and {scientific(delta)}." if plural else ""
    fixed = (
        " It holds where the runs were fixed before the first answer was seen, as --multirun does." if plural else ""
    )
    return [said + added + fixed]


def _apart(found: dict[str, Any]) -> list[str]:
    said = []
    if found["others"]:
        said.append(
            f"{_fits(found['others']).capitalize()} that stopped, {'were' if found['others'] > 1 else 'was'} replaced or cannot be "
            "read counted too (even if a rehearsal: a ledger does not tell)."
        )
    if found["rehearsals"]:
        said.append(
            f"{found['rehearsals']} rehearsal{'s are' if found['rehearsals'] > 1 else ' is'} not in the sum: seeded noise can be "
            "taken away, so no epsilon holds; keep what they made inside."
        )
    return said


def _fits(number: int) -> str:
    return f"{number} fit{'' if number == 1 else 's'}"


def _ledgers(number: int) -> str:
    return "a ledger" if number == 1 else f"one of {number} ledgers"
