"""The statement's answer to each hazard that NIST SP 800-226 lists for claims of differential privacy.

Near, Darais, Lefkovitz & Howarth, "Guidelines for Evaluating Differential Privacy Guarantees", NIST SP 800-226 (2025),
doi:10.6028/NIST.SP.800-226: the "differential privacy pyramid" from the parameters at its top down to the collection of
the data. Each answer is read off the statement's own fields; where they do not tell, the answer says so.
"""

import math
from dataclasses import dataclass
from typing import Literal

from synthdp.errors import closed
from synthdp.ledger.events import Capped, Revealed, Threshold
from synthdp.report import fitness_words, promise, words
from synthdp.report.statement import CLASSIFIER, Statement, read_off

SIDE_CHANNELS = (
    "Epsilon does not cover what an observer of the machine could see while the fit ran. The release answers no questions, so "
    "afterwards there is nothing to time."
)
SECURITY = (
    "Noise does not protect a stored file. The release contains no row of the records, but the fit’s folder internal/, its "
    "checkpoints and the evaluation must stay with the steward."
)
COLLECTION = "The records were collected and kept as they are; differential privacy begins only with what is published."
Finding = Literal["answered", "weak point", "left to the steward"]


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """A hazard, what was found here, and why."""

    name: str
    finding: Finding
    text: str


def hazards(statement: Statement) -> list[Hazard]:
    """All of them, from the top of the pyramid to its base."""
    makers = (_epsilon, _delta, _unit, _relation, _composition, _mechanism, _public, _utility, _implementation)
    return [
        *(make(statement) for make in makers),
        _hazard("Side channels: time, memory, error messages", SIDE_CHANNELS, outside=True),
        _query_model(statement),
        _trust(statement),
        _hazard("Security of, and access to, the records", SECURITY, outside=True),
        _hazard("Exposure when the data were collected", COLLECTION, outside=True),
    ]


def _hazard(name: str, text: str, *, weak: bool = False, outside: bool = False) -> Hazard:
    return Hazard(
        name=name, finding="weak point" if weak else "left to the steward" if outside else "answered", text=text
    )


def _epsilon(s: Statement) -> Hazard:
    name = "Epsilon too large to mean anything"
    if math.isinf(s.epsilon):
        return _hazard(name, "Epsilon is infinite: there is no guarantee.", weak=True)
    attack = promise.attack(s)
    text = (
        f"Epsilon is {words.upper(s.epsilon)}, computed from the questions that were asked; the budget granted was "
        f"{words.number(s.budget.epsilon)}. At even odds no attacker is right in more than {words.percent(attack['accuracy'])} of "
        f"cases. No number is safe for every use; this page calls a guarantee weak from {words.percent(promise.WEAK)} on."
    )
    return _hazard(name, text, weak=attack["weak"])


def _delta(s: Statement) -> Hazard:
    name = "Delta: a failure that may reveal somebody’s whole record"
    units = s.declared.get("units")
    start = f"Delta is {words.scientific(s.delta)}"
    if isinstance(units, int) and units > 0:
        text = (
            f"{start}, at most {words.upper(s.delta * units, 2)} / N, where N = {words.grouped(units)} is the declared number of "
            "units. It must be well below 1 / N."
        )
        return _hazard(name, text, weak=promise.loose_delta(s))
    return _hazard(name, f"{start}. The number of units is not declared, so judge it against the number you know.")


def _unit(s: Statement) -> Hazard:
    name = "Unit of privacy smaller than a person"
    if s.declared.get("tables"):
        told = ". ".join(map(str, s.declared["tables"]))
        text = (
            f"All rows of one {s.unit} in all tables are protected together. {told}. A person with two values of {s.unit}, or a family, is "
            "protected less."
        )
        return _hazard(name, text)
    if promise.unit(s).patient:
        rows = words.number(s.max_records_per_unit)
        text = (
            f"All rows with one {s.unit} are protected together; at most {rows} of them count. A person with two values of "
            f"{s.unit}, or a family, is protected less."
        )
        return _hazard(name, text)
    return _hazard(
        name,
        "One row is protected, not one person: somebody with several rows is protected less than the figures say. If nobody has more "
        "than one row, the two are the same; the statement cannot know whether that is so.",
        outside=True,
    )


def _relation(s: Statement) -> Hazard:
    name = "Neighbouring relation: comparing figures that cannot be compared"
    if s.relation == "add_remove":
        known = "was learned through noise" if s.declared.get("units") == "learned" else "is not declared"
        if isinstance(s.declared.get("units"), int):
            known = "was declared, so it is not hidden"
        text = (
            f"add_remove (unbounded): the guarantee hides whether a unit is in the table. The number of units {known}."
        )
    elif s.relation == "replace_one":
        text = "replace_one (bounded): the guarantee hides the values of a unit; the number of units counts as public."
    else:
        text = f"{s.relation}."
    return _hazard(name, f"{text} Compare epsilon only with figures of the same unit, relation and delta.")


def _composition(s: Statement) -> Hazard:
    name = "Other fits and other releases of the same records"
    if s.account is None:
        return _hazard(
            name,
            "This fit was entered in no account. What other fits of the same records spent adds to its cost and is not known here.",
            weak=True,
        )
    head = "" if s.account.head_checked else " It was not checked whether the latest entries had been removed from it."
    if s.account.cap is None:
        return _hazard(
            name,
            f"The fit was entered in the account of its data set. The account has no cap, so the sum over all fits may grow.{head}",
            outside=True,
        )
    cap = s.account.cap
    text = (
        "The fit was entered in the account of its data set. The account refuses fits that would bring the sum above epsilon "
        f"{words.number(cap.epsilon)}, delta {words.scientific(cap.delta)}.{head} It does not count statistics that are published "
        "without differential privacy."
    )
    return _hazard(name, text)


def _mechanism(s: Statement) -> Hazard:
    name = "Algorithm whose proof does not fit it"
    kinds = {type(entry.event) for entry in s.events}
    if Revealed in kinds:
        return _hazard(name, "The records were handed out without noise.", weak=True)
    counted = sum(entry.count for entry in s.events)
    text = (
        f"The fit asked {words.grouped(counted)} question{'' if counted == 1 else 's'}, each charged before it was answered. The "
        f"contribution of each unit was bounded before noise was added. The claim comes from the accountant {s.accountant}, whose "
        "theorem covers every question."
    )
    if Capped in kinds:
        text += " Questions that were chosen after seeing answers ran under an allowance, which is counted in full."
    if Threshold in kinds:
        text += " Lists of categories spent a part of delta, which is counted."
    brought = s.provenance.get("generator")
    text += (
        " The generator is part of synthdp; that it learns from noisy answers alone is tested by replay, and its functions are trusted to "
        "treat each record on its own."
        if brought is None
        else f" The generator comes from the package {brought['package']}, version {brought['version']}, and is trusted code."
    )
    audit = s.declared.get("audit")
    return _hazard(name, f"{text} {audit}" if audit else f"{text} This fit itself was not audited.")


def _public(s: Statement) -> Hazard:
    name = "Facts taken as public that are not"
    found = promise.bought(s)
    text = (
        f"Declared public: the names and kinds of {len(s.columns)} columns, and their other facts that were not learned. Declared by: "
        f"{closed(str(s.declared.get('by')))} The guarantee does not hide these facts; if they were read off the records, it is "
        "void for them."
    )
    seen = read_off(s.columns)
    text += f" {seen}" if seen else ""
    if found:
        names = ", ".join(found[:8]) + (" and others" if len(found) > 8 else "")
        text += f" Facts of {names} were not declared, but learned with a part of the budget."
    return _hazard(name, text, weak=bool(seen), outside=True)


def _utility(s: Statement) -> Hazard:
    targets = s.declared.get("targets") or []
    aim = (
        f"The data were made for predicting {', '.join(map(str, targets))}; they may serve other uses less well."
        if targets
        else "The schema names no use."
    )
    units = "patients" if promise.unit(s).patient else "records"
    figures = "No budget was spent on figures of fitness, so this page makes no claim about it."
    if s.fitness is not None:
        figures = fitness_words.sentence(s.fitness)
    return _hazard(
        "Utility and bias: noise hurts small groups most",
        f"{aim} {figures} Noise drowns whatever only a few {units} share, and bias in the records passes to the data. Ask the "
        "steward for a comparison before you rely on the data.",
        outside=True,
    )


def _implementation(s: Statement) -> Hazard:
    name = "Implementation: floating point and random numbers"
    return _hazard(name, f"Source of the noise: {s.noise_source}.", weak=s.rehearsal)


def _query_model(s: Statement) -> Hazard:
    use = "asking it about any number of records" if s.generator == CLASSIFIER else "drawing any number of rows from it"
    return _hazard(
        "Query model",
        f"Nobody outside can ask the records anything: one model was trained, and {use} costs no further budget.",
    )


def _trust(s: Statement) -> Hazard:
    processes = s.declared.get("processes", 1)
    held = "One process" if processes == 1 else f"{processes} processes that trust each other"
    return _hazard(
        "Trust model",
        f"Central: whoever holds the records is trusted and adds the noise. {held} held them. The guarantee protects against those who "
        "see the release, not against the steward.",
        outside=processes != 1,
    )
