"""One target as a task: features and labels of synthetic, training and test rows, and why a target cannot be one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.tables import Axis, Table

Rows = TypeVar("Rows", bound=Table)

# Below so many rows with a known target, a fit or a score is an accident.
MIN_ROWS = 10


@dataclass(frozen=True, kw_only=True)
class Task(Generic[Rows]):
    """One target: features and labels of the tables, rows with a missing or undeclared label left out.

    Labels are class codes (rows,) int64, or the numbers of a numeric target, float64; then classes is empty. samples:
    one (table, labels) per synthetic sample. units: codes of the test rows' patients, where records belong to patients.
    """

    target: str
    classes: tuple[str, ...]
    positive: int | None
    samples: tuple[tuple[Rows, NDArray[Any]], ...]
    train: tuple[Rows, NDArray[Any]]
    test: tuple[Rows, NDArray[Any]]
    units: NDArray[np.int64] | None = None

    @property
    def synthetic(self) -> tuple[Rows, NDArray[Any]]:
        """The first synthetic sample."""
        return self.samples[0]

    @property
    def is_number(self) -> bool:
        return not self.classes


def refusal(axis: Axis, train: Table, test: Table) -> str | None:
    """Why a target cannot be scored at all, or None."""
    if axis.is_classes and len(axis.levels) < 2:
        return "the target has one class"
    if axis.is_classes and len(axis.levels) > train.rows:
        return "the target has more classes than there are training rows"
    for role, table in (("real training", train), ("real test", test)):
        labels = _labels(table, axis)[1]
        if len(labels) < MIN_ROWS:
            return f"{len(labels)} {role} rows have a known target; at least {MIN_ROWS} are needed"
        if len(np.unique(labels)) < 2:
            return f"the {role} rows hold one {'class' if axis.is_classes else 'value'} of the target"
    return None


def task(
    axis: Axis, synthetic: Rows | Sequence[Rows], train: Rows, test: Rows, units: NDArray[np.int64] | None = None
) -> Task[Rows]:
    """A target's task; the classes are those that occur in the real training or test rows. units: a code per test row."""
    drawn = [synthetic] if isinstance(synthetic, Table) else list(synthetic)
    parts = [_labels(table, axis) for table in (*drawn, train, test)]
    if units is not None:
        units = np.unique(units[_known(test, axis)], return_inverse=True)[1].astype(np.int64)
    classes: tuple[str, ...] = ()
    if axis.is_classes:
        occur = np.unique(np.concatenate([parts[-2][1], parts[-1][1]]))
        place = np.full(len(axis.levels), -1)
        place[occur] = np.arange(len(occur))
        parts = [(table, place[labels]) for table, labels in parts]
        # A class that no real row has cannot be scored.
        parts = [(table.take(labels >= 0), labels[labels >= 0]) for table, labels in parts]
        classes = tuple(axis.levels[code] for code in occur)
    return Task(
        target=axis.name,
        classes=classes,
        positive=_positive(axis, parts[-2][1]) if len(classes) == 2 else None,
        samples=tuple(parts[:-2]),
        train=parts[-2],
        test=parts[-1],
        units=units,
    )


def shortfalls(work: Task[Any]) -> list[dict[str, str]]:
    """What the synthetic rows lack for a full score, as entries of `not_computed`."""
    fewest, metric = min(len(labels) for _, labels in work.samples), f"tstr.{work.target}"
    if fewest < MIN_ROWS:
        return [
            {"metric": metric, "reason": f"{fewest} synthetic rows have a known target; at least {MIN_ROWS} are needed"}
        ]
    if work.is_number:
        return []
    lacking = max(len(work.classes) - len(np.unique(labels)) for _, labels in work.samples)
    if not lacking:
        return []
    reason = (
        f"the synthetic rows lack {lacking} of the {len(work.classes)} classes; "
        "models trained on them give these classes probability 0 and are scored so"
    )
    return [{"metric": f"{metric}.absent_classes", "reason": reason}]


def _known(table: Table, axis: Axis) -> NDArray[np.bool_]:
    column = table.column(axis.name)
    return column < len(axis.levels) if axis.is_classes else np.isfinite(column)  # a comparison with NaN is False


def _labels(table: Rows, axis: Axis) -> tuple[Rows, NDArray[Any]]:
    keep = _known(table, axis)
    column = table.column(axis.name)[keep]
    return table.without(axis.name).take(keep), column.astype(np.int64) if axis.is_classes else column


def _positive(axis: Axis, labels: NDArray[np.int64]) -> int:
    """The class that auprc and f1 of a binary target are about: True, else the rarer one (a tie: the later one)."""
    if axis.levels == ("False", "True"):
        return 1
    counts = np.bincount(labels, minlength=2)
    return 0 if counts[0] < counts[1] else 1
