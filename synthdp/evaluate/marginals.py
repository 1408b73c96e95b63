"""One-way marginals in the cells of the total variation distance: the figures behind the page's small multiples."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.fidelity import cell_count, cell_edges, cells_of

if TYPE_CHECKING:
    from synthdp.evaluate.tables import Axis, Table

# More categories than this do not fit a small plot: the rest, by frequency in the training rows, is one cell.
MOST_SHOWN = 20
MISSING, UNKNOWN, REST = "(missing)", "(undeclared)", "(all others)"


def columns(synthetic: Table, train: Table, test: Table) -> dict[str, dict[str, Any]]:
    """Per column {"kind", "labels", "synthetic", "train", "test"}: shares of rows per cell, each set summing to 1.

    Numbers have "edges" too, one more than their cells; a last cell for missing or undeclared values is there only
    where a row of any set is in it.
    """
    parts = {"synthetic": cells_of(synthetic), "train": cells_of(train), "test": cells_of(test)}
    result: dict[str, dict[str, Any]] = {}
    for i, axis in enumerate(train.axes):
        size = parts["train"].sizes[i]
        shares = {
            role: np.bincount(cells.codes[:, i], minlength=size) / len(cells.codes) for role, cells in parts.items()
        }
        result[axis.name] = _column(axis, shares)
    return result


def _column(axis: Axis, shares: dict[str, np.ndarray[Any, np.dtype[np.float64]]]) -> dict[str, Any]:
    regular = cell_count(axis) if axis.kind == "number" else len(axis.levels)
    labels = _labels(axis, regular)
    extra = [cell for cell in range(regular, len(labels)) if any(share[cell] > 0 for share in shares.values())]
    keep = [*range(regular), *extra]
    rest: list[int] = []
    if axis.kind == "category":
        keep = sorted(keep, key=lambda cell: (cell in extra, -shares["train"][cell], cell))
        regulars = [cell for cell in keep if cell not in extra]
        rest = regulars[MOST_SHOWN:]
        keep = [cell for cell in keep if cell not in set(rest)]
    entry: dict[str, Any] = {"kind": "datetime" if axis.date else axis.kind, "labels": [labels[cell] for cell in keep]}
    if rest:
        entry["labels"].append(REST)
    for role, share in shares.items():
        tail = [float(share[rest].sum())] if rest else []
        entry[role] = [float(share[cell]) for cell in keep] + tail
    if axis.kind == "number":
        entry["edges"] = [float(edge) for edge in cell_edges(axis)]
    return entry


def _labels(axis: Axis, regular: int) -> list[str]:
    if axis.kind == "category":
        return [*axis.levels, UNKNOWN, MISSING]
    if axis.kind == "ordinal":
        return [*axis.levels, MISSING]
    edges = cell_edges(axis)
    if axis.date:
        days = [str(np.datetime64(0, "D") + np.timedelta64(int(edge), "D")) for edge in edges]
        return [*(f"{a} to {b}" for a, b in pairwise(days)), MISSING]
    if axis.whole and regular == int(axis.high - axis.low) + 1:
        return [*(f"{axis.low + k:.0f}" for k in range(regular)), MISSING]
    return [*(f"{_plain(a)} to {_plain(b)}" for a, b in pairwise(edges)), MISSING]


def _plain(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 or number == round(number) else f"{number:.4g}"
