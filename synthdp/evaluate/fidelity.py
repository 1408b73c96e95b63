"""Total variation distance of low-way marginals in fixed public cells."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Axis, Table

BINS = 20
TRIPLES = 64
# Larger joint tables are counted over the cells that occur, which needs a sort instead of memory.
DENSE_CELLS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Cells:
    """codes: (rows, columns) int64, column j below sizes[j]; the last code of each column is the missing value."""

    codes: NDArray[np.int64]
    sizes: tuple[int, ...]


def cells_of(table: Table) -> Cells:
    """Categories as they are; numbers in 20 bins of equal width over the declared bounds (fewer for an integer of
    fewer values; values outside go to the end bins). Nothing depends on the rows."""
    codes = np.empty(table.values.shape, dtype=np.int64)
    sizes = []
    for i, axis in enumerate(table.axes):
        column = table.values[:, i]
        missing = np.isnan(column)
        size = cell_count(axis)
        codes[:, i] = np.where(missing, size, _cell(np.where(missing, axis.low, column), axis, size))
        sizes.append(size + 1)
    return Cells(codes=codes, sizes=tuple(sizes))


def cell_count(axis: Axis) -> int:
    """How many cells a column has, the missing value apart."""
    if axis.kind != "number":
        return len(axis.levels) + (axis.kind == "category")
    return min(BINS, int(axis.high - axis.low) + 1) if axis.whole else BINS


def cell_edges(axis: Axis) -> NDArray[np.float64]:
    """(cells + 1,): the edges of a number's cells. An integer of few values has a cell around each value."""
    size = cell_count(axis)
    if axis.whole and size == int(axis.high - axis.low) + 1:
        return np.arange(size + 1, dtype=np.float64) + (axis.low - 0.5)
    return np.linspace(axis.low, axis.high, size + 1)


def _cell(column: NDArray[np.float64], axis: Axis, size: int) -> NDArray[np.int64]:
    if axis.kind != "number":
        return column.astype(np.int64)
    edges = cell_edges(axis)
    return np.clip(np.searchsorted(edges[1:-1], column, side="right"), 0, size - 1).astype(np.int64)


def distance(left: Cells, right: Cells, columns: Sequence[int]) -> float:
    """Total variation distance, in [0, 1], of the joint marginal of columns: half the L1 distance of the shares."""
    a, b = (_joint(cells, columns) for cells in (left, right))
    size = int(np.prod([float(left.sizes[c]) for c in columns]))
    if size > DENSE_CELLS:
        both, place = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, size = place[: len(a)], place[len(a) :], len(both)
    shares = np.bincount(a, minlength=size) / len(a) - np.bincount(b, minlength=size) / len(b)
    return float(0.5 * np.abs(shares).sum())


def _joint(cells: Cells, columns: Sequence[int]) -> NDArray[np.int64]:
    joint = cells.codes[:, columns[0]]
    for column in columns[1:]:
        joint = joint * cells.sizes[column] + cells.codes[:, column]
    return joint


def sets_of(columns: int, ways: int, target: int | None) -> list[tuple[int, ...]]:
    """The column sets of one order: all of them; of triples 64 drawn at random (a fixed draw), with the target."""
    if ways < 3:
        return list(combinations(range(columns), ways))
    if target is None:
        every: list[tuple[int, ...]] = list(combinations(range(columns), 3))
    else:
        every = [(a, b, target) for a, b in combinations([c for c in range(columns) if c != target], 2)]
    if len(every) <= TRIPLES:
        return every
    chosen = np.random.default_rng(0).choice(len(every), size=TRIPLES, replace=False)
    return [every[i] for i in sorted(chosen)]


def total_variation(synthetic: Table, train: Table, test: Table, target: str | None) -> dict[str, Any]:
    """tvd_1way, tvd_2way and tvd_3way of the synthetic against the real training rows.

    Each {"mean", "sd", "n", "max"} over the column sets and "floor", the same of the held-out real rows as if they
    were synthetic: what sampling alone costs. Also "columns" (1-way) and "matrix" (2-way, columns x columns).
    """
    s, t, v = cells_of(synthetic), cells_of(train), cells_of(test)
    names, result = [axis.name for axis in train.axes], {}
    for ways in (1, 2, 3):
        sets = sets_of(len(names), ways, None if target is None else names.index(target))
        if not sets:
            continue
        values = [distance(s, t, columns) for columns in sets]
        entry = over_sets(values)
        entry["floor"] = over_sets([distance(v, t, columns) for columns in sets])
        if ways == 1:
            entry["columns"] = dict(zip(names, values, strict=True))
        if ways == 2:
            entry["names"], entry["matrix"] = names, _square(len(names), sets, values)
        result[f"tvd_{ways}way"] = entry
    return result


def over_sets(values: Sequence[float]) -> dict[str, Any]:
    """Mean, spread, number and worst over column sets."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "sd": spread, "n": len(values), "max": float(np.max(values))}


def no_rows(synthetic: Table, train: Table, test: Table) -> str | None:
    """Why nothing can be compared, where one of the sets is empty."""
    for role, table in (("synthetic", synthetic), ("real training", train), ("real test", test)):
        if not table.rows:
            return f"there are no {role} rows"
    return None


def _square(size: int, pairs: Sequence[tuple[int, ...]], values: Sequence[float]) -> list[list[float]]:
    out = np.zeros((size, size))
    for (a, b), value in zip(pairs, values, strict=True):
        out[a, b] = out[b, a] = value
    return [[float(x) for x in row] for row in out]
