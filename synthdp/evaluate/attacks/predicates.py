"""Predicates that single out one synthetic row, as an attacker would write them who saw nothing else.

Univariate: a value that one synthetic row has alone, or being beyond the smallest or largest one. Multivariate: what one
synthetic row is in several columns, a number as at least or at most its value (the side away from the median).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table

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
