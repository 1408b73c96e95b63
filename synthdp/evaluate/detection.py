"""Can a classifier tell synthetic from held-out real rows? The classifier two-sample test (Lopez-Paz & Oquab 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.classifiers import CLASSIFIERS, chances
from synthdp.evaluate.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDS = 3
# Per side: more rows only sharpen a figure that is read to two digits.
MOST_ROWS = 5_000
MIN_ROWS = 30


def detection_auc(left: Table, right: Table, seed: int, jobs: int) -> float:
    """Cross-validated AUROC of gradient boosting telling left (1) from right (0): 0.5 is best, 1 worst.

    Equally many rows of both, drawn without replacement; the mean over folds that the seed draws.
    """
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng((11, seed))
    rows = min(left.rows, right.rows, MOST_ROWS)
    parts = [table.values[rng.choice(table.rows, size=rows, replace=False)] for table in (left, right)]
    both = Table(axes=left.axes, values=np.concatenate(parts))
    labels = np.repeat(np.array([1, 0]), rows)
    fold = np.concatenate([_folds(rows, rng), _folds(rows, rng)])
    found = []
    for k in range(FOLDS):
        inside, outside = both.take(fold != k), both.take(fold == k)
        guess = chances(CLASSIFIERS["hgb"], inside, labels[fold != k], outside, 2, seed=seed, jobs=jobs)
        found.append(roc_auc_score(labels[fold == k], guess[:, 1]))
    return float(np.mean(found))


def _folds(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(rows,): a fold each, sizes as equal as can be, so that both sides are balanced in every fold."""
    return rng.permutation(np.arange(rows) % FOLDS)
