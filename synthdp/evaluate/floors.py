"""What a synthetic set must beat: columns without relations, and the answer that never looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def independent(train: Table, rng: np.random.Generator) -> Table:
    """As many rows as train, each column resampled on its own: exact one-way marginals and no relation at all."""
    draws = rng.integers(0, train.rows, size=train.values.shape)
    return Table(axes=train.axes, values=np.take_along_axis(train.values, draws, axis=0))


def majority(labels: NDArray[np.int64], rows: int, classes: int) -> NDArray[np.float64]:
    """(rows, classes): probability 1 for the most frequent class of labels (training rows), whatever the record."""
    out = np.zeros((rows, classes))
    out[:, np.bincount(labels, minlength=classes).argmax()] = 1.0
    return out


def middle(values: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """(rows,): the mean of values (training rows), whatever the record: the floor of a numeric target."""
    return np.full(rows, float(values.mean()))
