"""Attacks on a release by someone who has only its synthetic rows, each against its baseline. Internal: real records are read.

Every attack is one `Attack`, in a file by its kind and in the table `ATTACKS`. Each asks whether records that were used (training
rows) fare worse than records that were not (held-out rows), which takes for granted that rows were dealt to the two at
random. Sizes (every draw comes from a fixed stream): 2,000 records of either side are attacked at most, against 50,000 synthetic
rows and 10,000 reference rows; what looks at the whole release takes 20,000 real rows of either side. An attack's intervals
hold together at 95 %, so that attacks on a release that knows nothing raise a false alarm in at most 2.5 % of cases each;
of seven, some one does in up to 16 % of harmless releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.attacks import closeness, membership, partial_knowledge, singling_out
from synthdp.evaluate.attacks.bounds import claim_of, entry
from synthdp.evaluate.attacks.case import (
    MIN_ROWS,
    MOST_ATTACKED,
    MOST_REAL,
    MOST_REFERENCE,
    MOST_SYNTHETIC,
    Attack,
    Codes,
    Lacking,
    case_of,
    one_per_unit,
    refusal,
    secrets_of,
    too_few,
    unit_codes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from synthdp.evaluate.tables import Table

__all__ = ["NAMES", "Attack", "run", "unit_codes"]


ATTACKS = {  # in the order of the report
    "membership_distance": membership.DISTANCE,
    "membership_density": membership.DENSITY_RATIO,
    "attribute": partial_knowledge.ATTRIBUTE,
    "singling_out": singling_out.SINGLING_OUT,
    "linkability": partial_knowledge.LINKABILITY,
    "closeness": closeness.CLOSENESS,
    "copies": closeness.COPIES,
}
# What was kept small for time, for `about.limits`.
LIMITS = {
    "attacks": (
        f"at most {MOST_ATTACKED:,} records of either side ({MOST_REAL:,} where the attack uses the whole release) against at most "
        f"{MOST_SYNTHETIC:,} synthetic and {MOST_REFERENCE:,} reference rows, drawn at random"
    )
}
NAMES: tuple[str, ...] = tuple(ATTACKS)


def run(
    s: Table,
    t: Table,
    v: Table,
    *,
    targets: Sequence[str] = (),
    claim: Mapping[str, Any] | None = None,
    step: Callable[[str], None] = lambda _: None,
    jobs: int = 1,
    sensitive: Sequence[str] = (),
    units: Codes | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Every attack on synthetic rows s made from real rows t, with held-out real rows v as control.

    targets, sensitive: the columns whose values are guessed; without any, the first three that have classes. claim:
    {"epsilon", "delta", "unit"} of the release, from which each figure's bound follows. step is told of each attack
    before it runs (len(NAMES) times). units: `unit_codes` of the patients of t and of v; one record of each
    is then attacked, as a guarantee for patients and independent records need it.

    Returns the attacks, each {"id", "title", "question", "verdict", "text", "figures", "source"} with verdict "pass",
    "concern" or "not computed", and those that could not be made as {"metric", "reason"}. No text holds a record's value. Raises
    BadInput for a claim, column or units that cannot be.
    """
    promised, secrets = claim_of(claim), secrets_of(t.axes, targets, sensitive)
    if units is not None:
        t, v = one_per_unit(t, v, units)
    reason = too_few(units, v.rows, 2 * MIN_ROWS) or refusal(s, t, v)
    case = None if reason else case_of(s, t, v, secrets=secrets, claim=promised, jobs=jobs)
    results, lacking = [], []
    for name, method in ATTACKS.items():
        step(f"attack: {method.title}")
        outcome = method.attack(case) if case is not None else Lacking(reason=str(reason))
        if isinstance(outcome, Lacking):
            lacking.append({"metric": f"attacks.{name}", "reason": outcome.reason})
            told: dict[str, Any] = {"verdict": "not computed", "text": f"{outcome.reason}.", "figures": []}
        else:
            told = entry(outcome, promised, by_unit=units is not None)
        results.append(
            {"id": name, "title": method.title, "question": method.question, **told, "source": method.source}
        )
    return results, lacking
