"""Columns as features, learned on the rows that a classifier trains on and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from synthdp.evaluate.tables import Axis, Table

# HistGradientBoosting takes at most 255 categories a column; the rarest beyond these share one code.
MOST_CODES = 250
# Scaled numbers are cut here: a training column that is almost constant must not blow up the real rows' features.
CUT = 10.0


@dataclass(frozen=True, kw_only=True)
class Features:
    """Fitted preprocessing; `codes` for trees and `one_hot` for everything that needs a scaled vector."""

    axes: tuple[Axis, ...]
    medians: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    ranks: tuple[NDArray[np.int64], ...]  # per column: level -> place by frequency in the training rows

    @classmethod
    def fit(cls, table: Table) -> Features:
        medians, means, scales, ranks = [], [], [], []
        for axis, column in zip(table.axes, table.values.T, strict=True):
            known = column[~np.isnan(column)]
            medians.append(float(np.median(known)) if len(known) else 0.0)
            means.append(float(known.mean()) if len(known) else 0.0)
            deviation = float(known.std()) if len(known) else 0.0
            scales.append(deviation if deviation > 0 else 1.0)
            width = len(axis.levels) + 1 if axis.kind == "category" else 0
            counts = np.bincount(known.astype(np.int64), minlength=width)[:width] if width else np.zeros(0)
            ranks.append(np.argsort(np.argsort(-counts, kind="stable"), kind="stable"))
        return cls(
            axes=table.axes, medians=tuple(medians), means=tuple(means), scales=tuple(scales), ranks=tuple(ranks)
        )

    @property
    def nominal(self) -> NDArray[np.bool_]:
        """(columns,): which columns of `codes` have no order."""
        return np.array([axis.kind == "category" for axis in self.axes], dtype=bool)

    def codes(self, table: Table) -> NDArray[np.float64]:
        """(rows, columns): numbers and codes as they are, categories by falling frequency; NaN where missing."""
        out = table.values.copy()
        for i, axis in enumerate(self.axes):
            if axis.kind == "category":
                known = ~np.isnan(out[:, i])
                out[known, i] = np.minimum(self.ranks[i][out[known, i].astype(np.int64)], MOST_CODES)
        return out

    def one_hot(self, table: Table) -> csr_matrix:
        """(rows, width): one column per declared category; scaled numbers with the median and a flag where missing."""
        from scipy.sparse import csr_matrix

        rows, columns, values, width = [], [], [], 0
        every = np.arange(table.rows)
        for i, axis in enumerate(self.axes):
            column, missing = table.values[:, i], np.isnan(table.values[:, i])
            if axis.kind == "category":
                rows.append(every)
                columns.append(width + np.where(missing, len(axis.levels) + 1, column).astype(np.int64))
                values.append(np.ones(table.rows))
                width += len(axis.levels) + 2
            else:
                filled = np.where(missing, self.medians[i], column)
                rows += [every, every[missing]]
                columns += [np.full(table.rows, width), np.full(int(missing.sum()), width + 1)]
                values += [np.clip((filled - self.means[i]) / self.scales[i], -CUT, CUT), np.ones(int(missing.sum()))]
                width += 2
        if not rows:
            return csr_matrix((table.rows, 0))
        place = (np.concatenate(rows), np.concatenate(columns))
        return csr_matrix((np.concatenate(values), place), shape=(table.rows, width))
