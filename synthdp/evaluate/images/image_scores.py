"""Scores of predicted class probabilities for images: every class counts, and each class's recall is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.scores import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

METRICS = ("accuracy", "balanced_accuracy", "auroc")
METRIC_LABELS = {"accuracy": "Accuracy", "balanced_accuracy": "Balanced accuracy", "auroc": "AUROC"}


def score(truth: NDArray[np.int64], chances: NDArray[np.float64], classes: Sequence[str]) -> dict[str, Any]:
    """accuracy, balanced_accuracy (mean recall), auroc (each class against the rest, averaged) and recall per class.

    truth: (rows,), at least one; chances: (rows, classes). Classes that truth lacks have no recall and no part in the
    means; auroc is left out where truth holds one class.
    """
    from sklearn.metrics import roc_auc_score

    hits = chances.argmax(axis=1) == truth
    occur = [int(c) for c in np.unique(truth)]
    recall = {classes[c]: float(hits[truth == c].mean()) for c in occur}
    result: dict[str, Any] = {
        "accuracy": float(hits.mean()),
        "balanced_accuracy": float(np.mean(list(recall.values()))),
        "recall": recall,
    }
    if len(occur) > 1:
        result["auroc"] = float(np.mean([roc_auc_score(truth == c, chances[:, c]) for c in occur]))
    return result


def summaries(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One summary per metric over the runs (seeds), and under "recall" one per class."""
    found: dict[str, Any] = {
        metric: summary([run[metric] for run in runs]) for metric in METRICS if all(metric in run for run in runs)
    }
    return {**found, "recall": {name: summary([run["recall"][name] for run in runs]) for name in runs[0]["recall"]}}
