"""Rows that lie in several cells of one table, and owe their code to one of them: a drug lies in the cells of all diagnoses of its visit.

P(y | x_1, ..., x_n) is proportional to P(y) times the mean of exp(theta[x_k, y]) over k, a mixture (Jacobs, Jordan, Nowlan & Hinton 1991):
what one diagnosis makes likely stays likely whatever else the visit has. With the exponential of the mean of theta, each further
diagnosis would weaken it.

The noisy table counts a row in all its cells alike. The probabilities of the fit so far say how many of a cell's rows owe their code to
that cell (Dempster, Laird & Rubin 1977), and `theta` is fitted to this share of the table. Repeated fits settle where the drawn table
agrees with the noisy one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LEAST = 1e-12  # rows of a cell and a code: no share is taken of fewer
LEAST_LACKING, MOST_LACKING = 0.01, 100.0  # the rows that a cell should have, divided by those that it has
FURTHER = 1.5  # power of that factor: above 1, fits settle sooner (Salakhutdinov & Roweis 2003)
IN_RANGE = 600.0  # logarithms of numbers that float64 holds beside each other


def shares(found: Whole) -> Array:
    """(rows, places): the weights of the cells in which each row lies, equal and 1 together; -1 is no cell."""
    there = found >= 0
    weighed: Array = there / np.maximum(there.sum(1, keepdims=True), 1)
    return weighed


def change(found: Whole, theta: Array, by_cause: bool) -> Array:
    """(rows, codes): by how much the cells `found` (rows, places) change the logarithms of probabilities; 0 for a row in no cell."""
    values, most = _powers(theta) if by_cause else (theta, np.zeros(theta.shape[1]))
    total = np.zeros((len(found), theta.shape[1]))
    for place, share in zip(found.T, shares(found).T, strict=True):
        there = np.flatnonzero(place >= 0)
        total[there] += values[place[there]] * share[there, None]
    if not by_cause:
        return total
    nothing = (found < 0).all(1, keepdims=True)
    return np.log(np.where(nothing, 1.0, total)) + np.where(nothing, 0.0, most)


def _powers(theta: Array) -> tuple[Array, Array]:
    """exp(theta - m), and m (codes,), which keeps them in range: 0 where they are. A cell that is so much rarer than another is nearly
    none."""
    most = np.maximum(theta.max(0, initial=-np.inf) - IN_RANGE, 0.0)
    return np.exp(np.maximum(theta - most, -IN_RANGE)), most


@dataclass(frozen=True)
class Mixture:
    """The parts of `theta`, one for each table; with each, the weights of its cells in each row, as (rows, cells) and as (cells, rows), and
    (rows, 1), which is 1 for rows in none of its cells."""

    parts: Sequence[tuple[slice, "csr_matrix", "csr_matrix", Array]]

    @classmethod
    def of(cls, rows: "csr_matrix", parts: Sequence[slice]) -> "Mixture":
        """`rows` (rows, cells of all tables) has the weights; `parts` are these tables' slices of the cells."""
        columns, found = rows.tocsc(), []
        for part in parts:
            own = columns[:, part].tocsr()
            found.append((part, own, own.T.tocsr(), (own.getnnz(1) == 0)[:, None].astype(np.float64)))
        return cls(found)

    def others(self, rows: "csr_matrix") -> "csr_matrix":
        """`rows` without the cells of these parts."""
        from scipy.sparse import diags

        kept = np.ones(rows.shape[1])
        for part, *_ in self.parts:
            kept[part] = 0.0
        found: csr_matrix = (rows @ diags(kept)).tocsr()
        found.eliminate_zeros()
        return found

    def add(self, logits: Array, theta: Array) -> list[tuple[Array, Array]]:
        """Add to `logits` (rows, codes), in place, what the cells change. For each part, returns exp(theta) (cells, codes), scaled by code,
        and its means over the cells of each row (rows, codes)."""
        found = []
        for part, rows, _, nothing in self.parts:
            powers, most = _powers(theta[part])
            mean = rows @ powers + nothing
            logits += np.log(mean)
            if most.any():
                logits += most * (1 - nothing)
            found.append((powers, mean))
        return found

    def owed(self, chances: Array, means: Sequence[tuple[Array, Array]], into: Array) -> None:
        """Put into `into` (cells, codes) how many rows owe their code to each cell, by weighted `chances` (rows, codes)."""
        for (part, _, columns, _), (powers, mean) in zip(self.parts, means, strict=True):
            into[part] = powers * (columns @ (chances / mean))

    def owed_of(
        self, table: Array, noise: Array, spread: Array, chances: Array, means: Sequence[tuple[Array, Array]]
    ) -> Array:
        """The table (cells, codes), in which these parts hold only what is owed to their cells. Each row owes its code once, so that rows
        can have these counts: a fit to others would never end. A cell's distance from the table counts only as far as `noise` (cells, 1)
        does not explain it, given the expected `spread` of parameters: otherwise noise in rare codes would take rows from frequent ones."""
        found, whole = table.copy(), np.maximum(chances.sum(1, keepdims=True), LEAST)
        for (part, rows, columns, _), (powers, mean) in zip(self.parts, means, strict=True):
            there = np.maximum(columns @ chances, LEAST)
            expected = (there * spread[part]) ** 2
            clear = expected / (expected + noise[part] ** 2 + LEAST)
            lacking = np.clip(1 + clear * (table[part] / there - 1), LEAST_LACKING, MOST_LACKING)
            held, each = powers * lacking**FURTHER, chances / mean
            once = (each * (rows @ held)).sum(1, keepdims=True) / whole
            found[part] = held * (columns @ (each / np.maximum(once, LEAST)))
        return found
