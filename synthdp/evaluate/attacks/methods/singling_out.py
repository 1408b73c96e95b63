"""Singling out: predicates that are true of exactly one synthetic row; how often are they true of exactly one real one?

The idea of Giomi et al. 2023, section 4.1, after Cohen & Nissim 2020, in an implementation of its own. Any predicate of weight
w is true of exactly one of n records with probability n w (1 - w)^(n - 1), at best 37 %: the base rate. What counts is how much
oftener training records are singled out than as many held-out ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.attacks.case import MIN_ROWS, Case, Figure, Found, Lacking
from synthdp.evaluate.attacks.predicates import Predicate, multivariate, univariate
from synthdp.evaluate.attacks.rates import difference

if TYPE_CHECKING:
    from collections.abc import Iterable

TITLE = "Singling out"
QUESTION = "Do the synthetic rows describe single training records?"
SOURCE = "Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023; Cohen & Nissim, PNAS 2020"
ORDER = 4
ERROR = 0.05
PREDICATES = 1_000


@dataclass(frozen=True, kw_only=True)
class Counts:
    """predicates tried; how many are true of exactly one training and of exactly one held-out record; matches: held-out
    records that satisfy a predicate, on average."""

    predicates: int
    training: int
    held_out: int
    matches: float


def attack(case: Case) -> Found | Lacking:
    """One column and several, each: the share of predicates that single out a training minus that of a held-out record."""
    made = case.synthetic
    kinds = {
        "one column": univariate(made, PREDICATES, case.stream("univariate")),
        "several columns": multivariate(made, PREDICATES, case.stream("multivariate")),
    }
    counts = {kind: counted(case, predicates) for kind, predicates in kinds.items()}
    usable = {kind: found for kind, found in counts.items() if found.predicates >= MIN_ROWS}
    if not usable:
        return Lacking(reason=f"fewer than {MIN_ROWS} predicates hold for exactly one synthetic row")
    figures = tuple(_figure(case, kind, found, ERROR / len(usable)) for kind, found in usable.items())
    expected = base_rate(case.train.rows, made.rows)
    shares = "; ".join(
        f"on {kind} {100 * found.training / found.predicates:.1f} % and {100 * found.held_out / found.predicates:.1f} % "
        f"of {found.predicates:,}"
        for kind, found in usable.items()
    )
    text = (
        f"Predicates true of one synthetic row alone, and of exactly one of {case.train.rows:,} training and of as many held-out "
        f"records: {shares}. Predicates as rare as these succeed by chance at {100 * expected:.1f} %."
    )
    return Found(figures=figures, text=text)


def counted(case: Case, predicates: Iterable[Predicate]) -> Counts:
    """Successes on training and on held-out records. A predicate that shares a record with an earlier one is left out:
    successes are then independent, as the interval has it."""
    rows = case.train.rows
    pooled = np.concatenate([case.train.values, case.test.values])
    seen: set[int] = set()
    tried = training = held_out = matches = 0
    for predicate in predicates:
        found = predicate.matches(pooled)
        if not seen.isdisjoint(found.tolist()):
            continue
        seen.update(found.tolist())
        ours = int((found < rows).sum())
        theirs = len(found) - ours
        tried, matches = tried + 1, matches + theirs
        training, held_out = training + (ours == 1), held_out + (theirs == 1)
    return Counts(predicates=tried, training=training, held_out=held_out, matches=matches / max(tried, 1))


def base_rate(records: int, synthetic: int) -> float:
    """Chance that a predicate true of a share 1 / synthetic of all people is true of exactly one of `records`."""
    weight = 1 / synthetic
    return float(records * weight * (1 - weight) ** (records - 1))


def _figure(case: Case, kind: str, found: Counts, error: float) -> Figure:
    bound, fresh = None, found.held_out / found.predicates
    if case.claim is not None:
        bound = max(0.0, case.claim.isolation(case.train.rows, found.matches) - fresh)
    return Figure(
        label=f"{kind}: singled out training minus held-out records",
        value=found.training / found.predicates - fresh,
        interval=difference((found.training, found.predicates), (found.held_out, found.predicates), error),
        baseline=0.0,
        bound=bound,
    )
