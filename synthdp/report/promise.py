"""What a statement promises, worked out for its readers: whom it protects, from what, and whether it may be shared.

An (epsilon, delta) guarantee bounds every attacker, whatever else they know. The attacker tries to tell whether one unit's
records were used (for replace_one: which of two versions). A curve is a set of (delta, epsilon) points that all hold; each
bounds the attacker, and the least bound counts.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from synthdp.ledger.events import RECORD
from synthdp.report import words
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


def unit(statement: Statement) -> Unit:
    """The unit of privacy: a record, or all records of one patient."""
    if statement.unit == RECORD:
        return Unit(one="record", theirs="a record", patient=False)
    return Unit(one="patient", theirs="a patient’s records", patient=True)


def attack(statement: Statement) -> dict[str, Any]:
    """Bounds on any attacker, from every point of the curve that holds and the promised pair."""
    curve = points(statement)
    right = accuracy(curve)
    return {
        "accuracy": right,
        "advantage": advantage(curve),
        "weak": right >= WEAK,
        "detection": [(rate, detection(curve, rate)) for rate in FALSE_ALARMS],
        "priors": [prior_row(curve, statement.epsilon, prior) for prior in PRIORS],
    }


def points(statement: Statement) -> list[tuple[float, float]]:
    """All (delta, epsilon) that hold: the curve and the promised pair."""
    return [*statement.curve, (statement.delta, statement.epsilon)]


def prior_row(curve: list[tuple[float, float]], epsilon: float, prior: float) -> dict[str, float]:
    """What an attacker who believes `prior` beforehand may believe afterwards, and how often they may be right."""
    low, high = belief(epsilon, prior)
    return {
        "prior": prior,
        "low": low,
        "high": high,
        "guessing": max(prior, 1 - prior),
        "accuracy": accuracy_at(curve, prior),
    }


def factor(epsilon: float) -> str:
    """e^epsilon rounded up, or that it is beyond meaning."""
    return words.upper(math.exp(epsilon), 3) if epsilon < math.log(1e6) else "more than a million"


def loose_delta(statement: Statement) -> bool:
    """Delta is no promise where it is not below one over the declared number of units."""
    units = statement.declared.get("units")
    return isinstance(units, int) and statement.delta * units >= 1


@dataclass(frozen=True)
class Answer:
    """The first screen's answer to "can I share it": a word or two, the reason, and whether it is a warning."""

    short: str
    text: str
    bad: bool = True


def sharing(statement: Statement) -> Answer:
    """Whether what the statement belongs to may be shared, as far as its guarantee goes."""
    if math.isinf(statement.epsilon):
        return Answer("No.", "Nothing limits what these data reveal. Treat them, and the model, like the real records.")
    if statement.rehearsal:
        seed = "whoever learns its seed can remove the noise. Fit again without a seed to release."
        return Answer("No.", f"This is a rehearsal: {seed}")
    if seen := read_off(statement.columns):
        remedy = "Replace them by publicly known facts, or by `learn`, and fit again."
        return Answer("Not like this.", f"{seen} {remedy}")
    if loose_delta(statement):
        large = "Delta is so large that somebody’s data could be published unchanged. Fit again with a smaller delta."
        return Answer("Not like this.", large)
    if attack(statement)["weak"]:
        return Answer(
            "Only with people whom you would trust with the records.",
            "The guarantee is weak: it would not stop a determined attacker. It does not justify open publication.",
        )
    return Answer("Yes, within the limits of the guarantee.", _terms(statement), bad=False)


def _terms(statement: Statement) -> str:
    first = f"The guarantee covers the model, these data and everything made from them, for each {unit(statement).one}."
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
        ("Processes that held records", words.number(statement.declared.get("processes", 1))),
    ]


def advantage(points: Iterable[tuple[float, float]]) -> float:
    """The most that true positive rate minus false positive rate can be, in [0, 1].

    One point gives (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): where the two lines of the trade-off region meet (Kairouz,
    Oh & Viswanath 2015, theorem 2.1). Written with tanh, so that a large epsilon does not overflow.
    """
    return min((_advantage(delta, epsilon) for delta, epsilon in points), default=1.0)


def accuracy(points: Iterable[tuple[float, float]]) -> float:
    """The best rate of right answers where both cases are equally likely beforehand; 1/2 is guessing."""
    return (1 + advantage(points)) / 2


def accuracy_at(points: Iterable[tuple[float, float]], prior: float) -> float:
    """The best rate of right answers where the unit was used with probability `prior` beforehand; to 12 decimals.

    Bayes risk over the trade-off region (Kairouz et al. 2015, theorem 2.1; Dong, Roth & Su 2022, section 2): the largest
    prior * TPR + (1 - prior) * (1 - FPR) under all lines of all points. It is piecewise linear, so a corner attains it.
    At prior 1/2 it is `accuracy`; it is never below max(prior, 1 - prior), which guessing reaches.
    """
    lines = _lines(points)
    crossings = (
        (above - low) / (steep - flat)
        for (steep, low), (flat, above) in itertools.permutations(lines, 2)
        if steep > flat and 0 <= above - low <= steep - flat
    )
    best = max(
        prior * min(slope * rate + start for slope, start in lines) + (1 - prior) * (1 - rate)
        for rate in {0.0, 1.0, *crossings}
    )
    return round(min(1.0, best), 12)


def belief(epsilon: float, prior: float) -> tuple[float, float]:
    """The least and the most that a belief of `prior` can become: its odds change by a factor of e^epsilon at most.

    But for a failure of probability delta: what is seen is made from an outcome that either gives everything away (with
    probability delta) or changes the odds by exactly this factor (Kairouz et al. 2015, theorem 2.1).
    """
    return _belief(-epsilon, prior), _belief(epsilon, prior)


def detection(points: Iterable[tuple[float, float]], false_alarms: float) -> float:
    """The most that the true positive rate can be at a given false positive rate.

    One point gives min(1, e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)) at rate a (Kairouz et al. 2015).
    """
    return min((_detection(delta, epsilon, false_alarms) for delta, epsilon in points), default=1.0)


def _belief(shift: float, prior: float) -> float:
    if prior in (0.0, 1.0):
        return prior
    logit = math.log(prior / (1 - prior)) + shift
    return math.exp(min(0.0, logit)) / (1 + math.exp(-abs(logit)))


def _lines(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (slope, intercept) of every line above the trade-off region: TPR as a function of FPR."""
    lines = [(0.0, 1.0)]
    for delta, epsilon in points:
        if math.isfinite(epsilon):
            lines.append((math.exp(-epsilon), 1 - math.exp(-epsilon) * (1 - delta)))
        if epsilon < 700:  # beyond, e^epsilon is no float64 and the line bounds nothing
            lines.append((math.exp(epsilon), delta))
    return lines


def _advantage(delta: float, epsilon: float) -> float:
    pure = math.tanh(epsilon / 2)
    return min(1.0, pure + delta * (1 - pure))


def _detection(delta: float, epsilon: float, false_alarms: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    least_missed = math.exp(-epsilon) * max(0.0, 1 - delta - false_alarms)
    below = delta + false_alarms * math.exp(epsilon) if epsilon < 700 else math.inf
    return min(1.0, 1 - least_missed, below)
