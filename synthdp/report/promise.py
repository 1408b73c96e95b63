"""What a statement promises, worked out for its readers: whom it protects, from what, and whether it may be shared."""

import math
from dataclasses import dataclass
from typing import Any

from synthdp.ledger.events import RECORD
from synthdp.report import meaning, words
from synthdp.report.statement import Statement, read_off
from synthdp.schema import learned

FALSE_ALARMS = (0.001, 0.01, 0.1, 0.5)
PRIORS = (0.01, 0.1, 0.5, 0.9)
WEAK = 0.9  # an attacker who may be right this often is called a weak guarantee


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Whom the guarantee protects, as words in a sentence."""

    one: str  # "patient"
    theirs: str  # "a patient’s records"
    patient: bool

    @property
    def were(self) -> str:
        """The verb after `theirs`."""
        return "were" if self.patient else "was"


def unit(statement: Statement) -> Unit:
    """The unit of privacy: a record, or all records of one patient."""
    if statement.unit == RECORD:
        return Unit(one="record", theirs="a record", patient=False)
    return Unit(one="patient", theirs="a patient’s records", patient=True)


def attack(statement: Statement) -> dict[str, Any]:
    """Bounds on any attacker, from every point of the curve that holds and the promised pair."""
    curve = points(statement)
    accuracy = meaning.accuracy(curve)
    return {
        "accuracy": accuracy,
        "advantage": meaning.advantage(curve),
        "weak": accuracy >= WEAK,
        "detection": [(rate, meaning.detection(curve, rate)) for rate in FALSE_ALARMS],
        "priors": [prior_row(curve, statement.epsilon, prior) for prior in PRIORS],
    }


def points(statement: Statement) -> list[tuple[float, float]]:
    """All (delta, epsilon) that hold: the curve and the promised pair."""
    return [*statement.curve, (statement.delta, statement.epsilon)]


def prior_row(curve: list[tuple[float, float]], epsilon: float, prior: float) -> dict[str, float]:
    """What an attacker who believes `prior` beforehand may believe afterwards, and how often they may be right."""
    low, high = meaning.belief(epsilon, prior)
    return {
        "prior": prior,
        "low": low,
        "high": high,
        "guessing": max(prior, 1 - prior),
        "accuracy": meaning.accuracy_at(curve, prior),
    }


def factor(epsilon: float) -> str:
    """e^epsilon rounded up, or that it is beyond meaning."""
    return words.upper(math.exp(epsilon), 3) if epsilon < math.log(1e6) else "more than a million"


def loose_delta(statement: Statement) -> bool:
    """Delta is no promise where it is not below one over the declared number of units."""
    units = statement.declared.get("units")
    return isinstance(units, int) and statement.delta * units >= 1


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The first screen's answer to "can I share it": a word or two, the reason, and whether it is a warning."""

    short: str
    text: str
    bad: bool


def sharing(statement: Statement) -> Answer:
    """Whether what the statement belongs to may be shared, as far as its guarantee goes."""
    whose = unit(statement)
    if math.isinf(statement.epsilon):
        return Answer(
            short="No.",
            text="Nothing limits what these data reveal. Treat them, and the model, like the real records.",
            bad=True,
        )
    if statement.rehearsal:
        return Answer(
            short="No.",
            text="This is a rehearsal: whoever learns its seed can remove the noise. Fit again without a seed to release.",
            bad=True,
        )
    if seen := read_off(statement.columns):
        remedy = "Replace them by publicly known facts, or by `learn`, and fit again."
        return Answer(short="Not like this.", text=f"{seen} {remedy}", bad=True)
    if loose_delta(statement):
        return Answer(
            short="Not like this.",
            text="Delta is so large that somebody’s data could be published unchanged. Fit again with a smaller delta.",
            bad=True,
        )
    if attack(statement)["weak"]:
        return Answer(
            short="Only with people whom you would trust with the records.",
            text="The guarantee is weak: it would not stop a determined attacker. It does not justify open publication.",
            bad=True,
        )
    return Answer(short="Yes, within the limits of the guarantee.", text=_terms(statement, whose), bad=False)


def _terms(statement: Statement, whose: Unit) -> str:
    first = f"The guarantee covers the model, these data and everything made from them, for each {whose.one}."
    if statement.account is None:
        return (
            f"{first} Other releases from the same records add to what is revealed, and no account keeps count of them."
        )
    return f"{first} Other releases from the same records add to what is revealed; the steward’s account keeps count of them."


def bought(statement: Statement) -> list[str]:
    """Names of what was learned from the records with budget, rather than declared."""
    names = [str(column["name"]) for column in statement.columns if column["bought"]]
    return names + ([learned.UNITS] if statement.declared.get("units") == "learned" else [])


def asked_for(statement: Statement) -> list[str]:
    """What each question that bought something was asked for, in the order of the ledger."""
    bought = [(str(column["name"]), column["bought"]) for column in statement.columns]
    return learned.asked_for(bought, units=statement.declared.get("units") == "learned")


def lineage(statement: Statement) -> list[tuple[str, str]]:
    """Where the release comes from, as (term, text), from the statement's own fields."""
    about = statement.provenance
    return [
        ("Records", statement.declared.get("name") or "the schema gives them no name"),
        ("Their public facts declared by", str(statement.declared.get("by"))),
        ("Made by", f"{statement.generator}, synthdp {about.get('synthdp', 'of an unknown version')}"),
        ("Entered in an account", "no" if statement.account is None else "yes"),
        (
            "Processes that held records",
            words.number(statement.declared.get("processes", 1)),
        ),
    ]
