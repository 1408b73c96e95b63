"""Where a row lies in several cells of one table, as a drug does in those of all diagnoses of its visit, and owes its code to one of them.

P(y | x_1, ..., x_n) is proportional to the mean of exp(theta[x_k, y]) over k, a mixture (Jacobs, Jordan, Nowlan & Hinton 1991): what one
diagnosis makes likely stays so whatever else the visit has. With the exponential of the mean, each further diagnosis would weaken it.

The noisy table counts a row in all its cells alike. How many of a cell's rows owe their code to it, the chances so far say (Dempster,
Laird & Rubin 1977), and this share of the table is what `theta` is fitted to. Fits that follow one another settle where the tables agree.
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
LEAST = 1e-12  # rows of a cell and a code, of which a share is taken
IN_RANGE = 600.0  # logarithms of numbers that float64 holds beside each other


def shares(found: Whole) -> Array:
    """(rows, places): what each place of rows that lie in several cells weighs; -1 is none."""
    there = found >= 0
    weighed: Array = there / np.maximum(there.sum(1, keepdims=True), 1)
    return weighed


def change(found: Whole, theta: Array, by_cause: bool) -> Array:
    """(rows, codes): what the cells `found` (rows, places) change logarithms of chances by; a row of no cell, by nothing."""
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
    """Parts of `theta`, each of one table, and how much each row lies in their cells: (rows, cells), (cells, rows), and (rows, 1) of what
    is in none."""

    parts: Sequence[tuple[slice, "csr_matrix", "csr_matrix", Array]]

    @classmethod
    def of(cls, rows: "csr_matrix", parts: Sequence[slice]) -> "Mixture":
        """`rows` (rows, cells of all tables)."""
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
        """Add to `logits` (rows, codes), in place, what the cells change; of each part its powers (cells, codes) and their means
        (rows, codes)."""
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

    def owed_of(self, table: Array, chances: Array, means: Sequence[tuple[Array, Array]]) -> Array:
        """The table (cells, codes), of these parts only what is owed to its cells."""
        found = table.copy()
        self.owed(chances, means, found)
        for part, _, columns, _ in self.parts:
            found[part] *= table[part] / np.maximum(columns @ chances, LEAST)
        return found
