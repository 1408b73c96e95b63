"""Singling out: predicates that are true of exactly one synthetic row; how often are they true of exactly one real one?

The idea of Giomi et al. 2023, section 4.1, after Cohen & Nissim 2020, in an implementation of its own. Any predicate of weight
w is true of exactly one of n records with probability n w (1 - w)^(n - 1), at best 37 %: the base rate. What counts is how much
oftener training records are singled out than as many held-out ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.attacks.case import MIN_ROWS, Attack, Case, Figure, Found, stream
from synthdp.evaluate.tables import Table

# ---- Predicates that single out one synthetic row, as an attacker would write them who saw nothing else.
#
# Univariate: a value that one synthetic row has alone, or being beyond the smallest or largest one. Multivariate: what one
# synthetic row is in several columns, a number as at least or at most its value (the side away from the median).


Sign = Literal["equal", "least", "most", "missing"]
# Synthetic rows that are tried for each predicate that is wanted.
TRIES = 3


@dataclass(frozen=True, kw_only=True)
class Predicate:
    """A conjunction of (column, sign, value): value itself, at least it, at most it, or missing."""

    terms: tuple[tuple[int, Sign, float], ...]

    def matches(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Which of the rows (rows, columns) satisfy every term."""
        rows = np.arange(len(values))
        for column, sign, value in self.terms:
            found = values[rows, column]
            rows = rows[_holds(found, sign, value)]
            if not len(rows):
                break
        return rows


def univariate(table: Table, most: int, rng: np.random.Generator) -> list[Predicate]:
    """At most `most` of the single-column predicates that hold for one row of table, drawn without replacement."""
    terms: list[tuple[int, Sign, float]] = []
    for column, (axis, values) in enumerate(zip(table.axes, table.values.T, strict=True)):
        known = values[~np.isnan(values)]
        levels, counts = np.unique(known, return_counts=True)
        alone = levels[counts == 1]
        signs: list[Sign] = ["equal"] * len(alone)
        if axis.kind != "category" and len(alone):
            if alone[0] == levels[0]:
                signs[0] = "most"
            if alone[-1] == levels[-1] and len(levels) > 1:
                signs[-1] = "least"
        terms += [(column, sign, float(value)) for sign, value in zip(signs, alone, strict=True)]
        if len(known) == len(values) - 1:
            terms.append((column, "missing", 0.0))
    chosen = rng.permutation(len(terms))[:most]
    return [Predicate(terms=(terms[i],)) for i in chosen]


def multivariate(table: Table, most: int, rng: np.random.Generator) -> list[Predicate]:
    """At most `most` predicates of two or more columns, each from one row of table and true of no other row."""
    found: list[Predicate] = []
    if len(table.axes) < 2:
        return found
    middle = [float(np.median(x[~np.isnan(x)])) if (~np.isnan(x)).any() else 0.0 for x in table.values.T]
    for row in rng.permutation(table.rows)[: TRIES * most]:
        size = int(rng.integers(2, len(table.axes) + 1))
        columns = rng.permutation(len(table.axes))[:size]
        predicate = Predicate(terms=tuple(_term(table, int(row), int(column), middle) for column in columns))
        if len(predicate.matches(table.values)) == 1:
            found.append(predicate)
        if len(found) == most:
            break
    return found


def _term(table: Table, row: int, column: int, middle: list[float]) -> tuple[int, Sign, float]:
    value = float(table.values[row, column])
    if np.isnan(value):
        return column, "missing", 0.0
    if table.axes[column].kind == "category":
        return column, "equal", value
    return column, "least" if value >= middle[column] else "most", value


def _holds(found: NDArray[np.float64], sign: Sign, value: float) -> NDArray[np.bool_]:
    if sign == "missing":
        return np.isnan(found)
    if sign == "equal":
        return np.asarray(found == value)
    return np.asarray(found >= value if sign == "least" else found <= value)  # False for NaN


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


def singling_out(case: Case) -> Found | str:
    """One column and several, each: the share of predicates that single out a training minus that of a held-out record."""
    made = case.synthetic
    kinds = {
        "one column": univariate(made, PREDICATES, stream("univariate")),
        "several columns": multivariate(made, PREDICATES, stream("multivariate")),
    }
    counts = {kind: counted(case, predicates) for kind, predicates in kinds.items()}
    usable = {kind: found for kind, found in counts.items() if found.predicates >= MIN_ROWS}
    if not usable:
        return f"fewer than {MIN_ROWS} predicates hold for exactly one synthetic row"
    figures = tuple(_figure(case, kind, found, ERROR / len(usable)) for kind, found in usable.items())
    expected = base_rate(case.train.rows, made.rows)
    shares = "; ".join(
        f"on {kind} {100 * found.training / found.predicates:.1f} % and {100 * found.held_out / found.predicates:.1f} % "
        f"of {found.predicates:,}"
        for kind, found in usable.items()
    )
    text = (
        "Predicates that hold for exactly one synthetic row were tested: the shares that also hold for exactly one of "
        f"{case.train.rows:,} training records, and for exactly one of as many held-out records, are {shares}. Predicates as rare "
        f"as these succeed by chance in {100 * expected:.1f} % of cases."
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
    tried, label = found.predicates, f"{kind}: share singled out, training minus held-out records"
    figure = case.gap(label, (found.training, tried), (found.held_out, tried), error)
    if case.claim is None:
        return figure
    return replace(
        figure, bound=max(0.0, case.claim.isolation(case.train.rows, found.matches) - found.held_out / tried)
    )


SINGLING_OUT = Attack(
    title="Singling out",
    question="Do the synthetic rows describe single training records?",
    source="Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023; Cohen & Nissim, PNAS 2020",
    attack=singling_out,
)
