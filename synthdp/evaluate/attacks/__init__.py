"""Attacks on a release by someone who has only its synthetic rows, each against its baseline. Internal: real records are read.

Every attack is one `Attack`, in a file by its kind and in the table `ATTACKS`. Each asks whether records that were used (training
rows) fare worse than records that were not (held-out rows), which takes for granted that rows were dealt to the two at
random. Sizes (every draw comes from a fixed stream): 2,000 records of either side are attacked at most, against 50,000 synthetic
rows and 10,000 reference rows; what looks at the whole release takes 20,000 real rows of either side. An attack's intervals
hold together at 95 %, so that attacks on a release that knows nothing raise a false alarm in at most 2.5 % of cases each;
of seven, some one does in up to 16 % of harmless releases, of ten (with those on histories) in up to 22 %.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from synthdp.evaluate.attacks import closeness, membership, partial_knowledge, singling_out
from synthdp.evaluate.attacks.bounds import claim_of
from synthdp.evaluate.attacks.case import (
    MIN_ROWS,
    MOST_ATTACKED,
    MOST_REAL,
    MOST_REFERENCE,
    MOST_SYNTHETIC,
    Attack,
    case_of,
    entry,
    one_per_unit,
    refusal,
    secrets_of,
    too_few,
)
from synthdp.evaluate.tables import Codes, Table

__all__ = ["NAMES", "NAMES_OF_PEOPLE", "Attack", "run"]


ATTACKS = {  # in the order of the report
    "membership_distance": membership.DISTANCE,
    "membership_density": membership.DENSITY_RATIO,
    "attribute": partial_knowledge.ATTRIBUTE,
    "singling_out": singling_out.SINGLING_OUT,
    "linkability": partial_knowledge.LINKABILITY,
    "closeness": closeness.CLOSENESS,
    "copies": closeness.COPIES,
}
HISTORIES = {  # the same, where a record is a person (`attacks.whole_histories`)
    "membership_history": replace(
        membership.DISTANCE,
        title="Membership, by nearest history",
        question="Does a close synthetic history give away that a person was used?",
    ),
    "membership_history_density": replace(
        membership.DENSITY_RATIO,
        title="Membership, by density of histories",
        question="Are synthetic histories denser around people who were used than the population is?",
    ),
    "attribute_history": replace(
        partial_knowledge.ATTRIBUTE,
        title="Attribute, from a history",
        question="Is the last value of a target guessed better, from the rest of the history, for people who were used?",
    ),
}
OF_PEOPLE = " Here a record, or row, is a person: the person's columns, and a summary of the whole history."
# What was kept small for time, for `about.limits`.
LIMITS = {
    "attacks": (
        f"at most {MOST_ATTACKED:,} records of either side ({MOST_REAL:,} where the attack uses the whole release) against at most "
        f"{MOST_SYNTHETIC:,} synthetic and {MOST_REFERENCE:,} reference rows, drawn at random"
    )
}
NAMES: tuple[str, ...] = tuple(ATTACKS)
NAMES_OF_PEOPLE: tuple[str, ...] = tuple(HISTORIES)


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
    of_people: bool = False,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Every attack on synthetic rows s made from real rows t, with held-out real rows v as control.

    targets, sensitive: the columns whose values are guessed; without any, the first three that have classes. claim:
    {"epsilon", "delta", "unit", "relation", "curve"} of the release, from which each figure's bound follows. step is told of each
    attack before it runs (len(NAMES) times). units: `unit_codes` of the patients of t and of v; one record of each
    is then attacked, as a guarantee for patients and independent records need it. of_people: the rows are whole histories
    (`attacks.whole_histories.of_people`), and the attacks those of `HISTORIES`.

    Returns the attacks, each {"id", "title", "question", "verdict", "text", "figures", "source"} with verdict "pass",
    "concern" or "not computed", and those that could not be made as {"metric", "reason"}. No text holds a record's value. Raises
    BadInput for a claim, column or units that cannot be.
    """
    promised, secrets = claim_of(claim), secrets_of(t.axes, targets, sensitive)
    if units is not None:
        keep, rest = one_per_unit(units, t.rows, v.rows)
        t, v = t.take(keep), v.take(rest)
    reason = too_few(units, v.rows, 2 * MIN_ROWS) or refusal(s, t, v)
    case = None if reason else case_of(s, t, v, secrets=secrets, claim=promised, jobs=jobs)
    results: list[dict[str, Any]] = []
    lacking: list[dict[str, str]] = []
    for name, method in (HISTORIES if of_people else ATTACKS).items():
        step(f"attack: {method.title}")
        outcome = method.attack(case) if case is not None else str(reason)
        told, reasons = entry(name, method, outcome, promised, by_unit=units is not None)
        told["text"] += OF_PEOPLE * (of_people and not reasons)
        results.append(told)
        lacking += reasons
    return results, lacking
