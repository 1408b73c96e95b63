"""A Bayesian network over groups of codes: what generators that choose relations leave, whatever they fitted in between."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """`order` names every column once; `parents[j]` are columns before j in it; `tables[j]` is P(j | parents), one axis for each
    parent and the last for j."""

    order: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[Array, ...]

    def draw(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Groups, (rows, columns): ancestral sampling."""
        found = np.zeros((rows, len(self.order)), np.int64)
        for column in self.order:
            table = self.tables[column]
            flat = np.zeros(rows, np.int64)
            for parent, size in zip(self.parents[column], table.shape[:-1], strict=True):
                flat = flat * size + found[:, parent]
            ends = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
            ends = ends / ends[:, -1:] + np.arange(len(ends))[:, None]
            lots = np.searchsorted(ends.ravel(), flat + rng.random(rows), side="right") - flat * table.shape[-1]
            found[:, column] = np.clip(lots, 0, table.shape[-1] - 1)
        return found


def conditional(table: Array, otherwise: Array) -> Array:
    """P(last axis | the others) from a table of 0 or more; `otherwise` where the others have no mass."""
    mass = table.sum(-1, keepdims=True)
    found: Array = np.where(mass > 0, table / np.where(mass > 0, mass, 1.0), otherwise)
    return found


def nearest(counts: Array, total: float) -> Array:
    """The distribution nearest to noisy counts over a number of records: Euclidean projection onto the simplex (Duchi et al. 2008)."""
    flat = np.sort(counts.ravel() / total)[::-1]
    over = (np.cumsum(flat) - 1) / np.arange(1, flat.size + 1)
    found: Array = np.maximum(counts / total - over[np.flatnonzero(flat > over)[-1]], 0.0)
    return found


def cells(sizes: tuple[int, ...], clique: tuple[int, ...]) -> int:
    """Cells of a table of these columns."""
    return math.prod(sizes[column] for column in clique)
