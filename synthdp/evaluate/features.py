"""Columns as features, learned on the rows that a classifier trains on and on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from synthdp.evaluate.tables import Axis, Table

# HistGradientBoosting takes at most 255 categories a column; the rarest beyond these share one code.
MOST_CODES = 250
# Scaled numbers are cut here: a training column that is almost constant must not blow up the real rows' features.
CUT = 10.0
# A full matrix keeps so many categories a column: diagnosis codes would ask for gigabytes.
MOST_DENSE = 30
Form = Literal["codes", "filled", "one_hot", "dense"]


@dataclass(frozen=True, kw_only=True)
class Features:
    """Fitted preprocessing; `codes` for trees and `one_hot` for everything that needs a scaled vector."""

    axes: tuple[Axis, ...]
    medians: tuple[float, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    ranks: tuple[NDArray[np.int64], ...]  # per column: level -> place by frequency in the training rows
    empty: tuple[bool, ...]  # per column: no training row has a value

    @classmethod
    def fit(cls, table: Table) -> Features:
        medians, means, scales, ranks, empty = [], [], [], [], []
        for axis, column in zip(table.axes, table.values.T, strict=True):
            known = column[~np.isnan(column)]
            empty.append(not len(known))
            known = known if len(known) else np.zeros(1)
            medians.append(float(np.median(known)))
            means.append(float(known.mean()))
            scales.append(float(known.std()) or 1.0)
            width = len(axis.levels) + 1 if axis.kind == "category" else 0
            counts = np.bincount(known.astype(np.int64), minlength=width)[:width] if width else np.zeros(0)
            ranks.append(np.argsort(np.argsort(-counts, kind="stable"), kind="stable"))
        return cls(
            axes=table.axes,
            medians=tuple(medians),
            means=tuple(means),
            scales=tuple(scales),
            ranks=tuple(ranks),
            empty=tuple(empty),
        )

    @property
    def nominal(self) -> NDArray[np.bool_]:
        """(columns,): which columns of `codes` have no order."""
        return np.array([axis.kind == "category" for axis in self.axes], dtype=bool)

    def codes(self, table: Table) -> NDArray[np.float64]:
        """(rows, columns): numbers and codes as they are, categories by falling frequency; NaN where missing.

        A column without a value in the training rows is 0: HistGradientBoosting finds no bins for it.
        """
        out = table.values.copy()
        for i, axis in enumerate(self.axes):
            if axis.kind == "category":
                known = ~np.isnan(out[:, i])
                out[known, i] = np.minimum(self.ranks[i][out[known, i].astype(np.int64)], MOST_CODES)
            if self.empty[i]:
                out[:, i] = 0.0
        return out

    def encode(self, table: Table, form: Form) -> Any:
        """(rows, width) in the form that a model wants, made by the method with the name of that form."""
        return getattr(self, form)(table)

    def filled(self, table: Table) -> NDArray[np.float64]:
        """`codes` for trees that take no NaN: a missing value lies below everything that is declared."""
        out = self.codes(table)
        for i, axis in enumerate(self.axes):
            below = -1.0 if axis.kind != "number" else axis.low - (axis.high - axis.low) - 1.0
            out[np.isnan(out[:, i]), i] = below
        return out

    def dense(self, table: Table) -> NDArray[np.float64]:
        """`one_hot` as a full matrix, where a column's categories beyond its MOST_DENSE most frequent ones share one."""
        parts = []
        for i, axis in enumerate(self.axes):
            column, missing = table.values[:, i], np.isnan(table.values[:, i])
            if axis.kind == "category":
                width = min(len(axis.levels), MOST_DENSE) + 1
                place = np.minimum(self.ranks[i][np.where(missing, 0, column).astype(np.int64)], width - 1)
                hit = np.zeros((table.rows, width + 1))
                hit[np.arange(table.rows), np.where(missing, width, place)] = 1.0
                parts.append(hit)
            else:
                parts.append(np.column_stack([self._scaled(i, column), missing]))
        return np.concatenate(parts, axis=1) if parts else np.zeros((table.rows, 0))

    def one_hot(self, table: Table) -> csr_matrix:
        """(rows, width): one column per declared category; scaled numbers with the median and a flag where missing."""
        from scipy.sparse import csr_matrix, hstack

        parts = [csr_matrix((table.rows, 0))]
        for i, axis in enumerate(self.axes):
            column, missing = table.values[:, i], np.isnan(table.values[:, i])
            if axis.kind == "category":
                width = len(axis.levels) + 2
                place = np.where(missing, width - 1, column).astype(np.int64)
                hit = (np.ones(table.rows), (np.arange(table.rows), place))
                parts.append(csr_matrix(hit, shape=(table.rows, width)))
            else:
                parts.append(csr_matrix(np.column_stack([self._scaled(i, column), missing])))
        return hstack(parts, format="csr")

    def _scaled(self, i: int, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """The i-th column, of numbers or ordinals, in deviations of the training rows; missing values are their median."""
        filled = np.where(np.isnan(column), self.medians[i], column)
        return np.clip((filled - self.means[i]) / self.scales[i], -CUT, CUT)
