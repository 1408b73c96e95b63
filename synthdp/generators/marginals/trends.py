"""How common each code is along columns that stand in order, such as diagnoses along age.

Each cell of a table of codes by age says little, and noise hides what most of them say: no code of pregnancy in each of six decades is six
small numbers that might as well be noise. Together they say much. So each code has a line and a curve along the column (a polynomial of
degree 2; Agresti 2013, section 10.4, has lines alone), beside one parameter for each cell.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals.staying import LEAST_TOLD

Array = NDArray[np.float64]
Clique = tuple[str, ...]
Key = tuple[Clique, int]
DEGREE = 2
LEAST_ALONG = 4  # codes of a column along which there are trends
LEAST_MASS = 1e-9  # of a code of that column


@dataclass(frozen=True)
class Along:
    """Columns along which codes have trends, with their codes [first, end) that stand in order, and how large a trend is expected to be:
    as large as an earlier fit has `found` those of its clique and degree, or `spread` at first. Each fit puts its own there."""

    columns: Mapping[str, tuple[int, int]]
    spread: float
    found: dict[Key, float] = field(default_factory=dict)

    def expected(self, keys: Sequence[Key]) -> Array:
        """(trends, 1)."""
        return np.array([self.found.get(key, self.spread) for key in keys]).reshape(-1, 1)


@dataclass(frozen=True)
class Trends:
    """`keys` are the clique and the degree of each trend. `basis` (cells of all cliques end to end, trends) are polynomials that are
    orthogonal, of mean 0 and of variance 1 over the drawn rows, and `share` (cells, 1) is each cell's part of its clique's rows. `told`,
    `penalty` and `scale` (trends, codes) are those of parameters, as in `conditional_fit.fit`."""

    keys: tuple[Key, ...]
    basis: Array
    share: Array
    told: Array
    penalty: Array
    scale: Array

    @classmethod
    def of(
        cls,
        along: Along | None,
        cliques: Sequence[Clique],
        lengths: Sequence[int],
        mass: Array,
        told: Array,
        noise: Array,
    ) -> "Trends":
        """Trends in each clique of one column that `along` has. `mass` (cells, 1) are the drawn rows in each cell, `told` (cells, codes) is
        the variance of counts there, and `noise` (cells, 1) the deviation of their noise."""
        keys, columns, share, start = list[Key](), list[Array](), np.zeros_like(mass), 0
        for clique, length in zip(cliques, lengths, strict=True):
            first, end = along.columns.get(clique[0], (0, 0)) if along and len(clique) == 1 else (0, 0)
            if end - first >= LEAST_ALONG:
                cells = slice(start + first, start + end)
                held = np.maximum(mass[cells, 0], LEAST_MASS)
                share[cells, 0] = held = held / held.sum()
                for degree, values in enumerate(_polynomials(held), 1):
                    keys.append((clique, degree))
                    columns.append(np.zeros(len(mass)))
                    columns[-1][cells] = values
            start += length
        basis = np.stack(columns, 1) if columns else np.zeros((len(mass), 0))
        squared = basis.T**2
        of_trends, expected = squared @ told, along.expected(keys) if along else np.ones((0, 1))
        penalty = (1 + squared @ noise**2 / np.maximum(of_trends, LEAST_TOLD)) / expected**2
        return cls(tuple(keys), basis, share, of_trends, penalty, 1 / np.sqrt(penalty + 3 * of_trends))

    def within(self, theta: Array) -> Array:
        """(trends, codes): the parameters that come nearest to changes (cells, codes)."""
        return self.basis.T @ (self.share * theta)


def _polynomials(share: Array) -> list[Array]:
    """Orthogonal polynomials of ranks, (codes,) each: of mean 0 and variance 1 where each code has this share."""
    ranks, found = np.cumsum(share) - share / 2, [np.ones(len(share))]
    for degree in range(1, DEGREE + 1):
        values: Array = ranks**degree
        for each in found:
            values = values - float(share @ (values * each)) * each
        found.append(values / math.sqrt(max(float(share @ values**2), LEAST_MASS)))
    return found[1:]
