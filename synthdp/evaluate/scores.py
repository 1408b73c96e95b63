"""Scores of predicted class probabilities, and how several seeds are summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

METRICS = ("auroc", "auprc", "accuracy", "f1")
METRIC_LABELS = {"auroc": "AUROC", "auprc": "AUPRC", "accuracy": "Accuracy", "f1": "F1"}


def score(truth: NDArray[np.int64], chances: NDArray[np.float64], positive: int | None) -> dict[str, float]:
    """auroc, auprc, accuracy and f1 of chances (rows, classes) against truth (rows,), class codes.

    positive: the class that a binary target's auprc and f1 are about; None for more classes, where each class that
    occurs in truth is taken against the rest and the classes' figures are averaged (macro). A score that truth cannot
    define (one class only) is left out.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    guess = chances.argmax(axis=1)
    result = {"accuracy": float((guess == truth).mean())}
    occur = np.unique(truth)
    classes = [positive] if positive is not None else [int(c) for c in occur]
    if positive is not None:
        result["f1"] = float(f1_score(truth == positive, guess == positive, zero_division=0.0))
    else:
        result["f1"] = float(f1_score(truth, guess, labels=classes, average="macro", zero_division=0.0))
    if len(occur) > 1:
        each = [(truth == c, chances[:, c]) for c in classes]
        result["auroc"] = float(np.mean([roc_auc_score(hit, chance) for hit, chance in each]))
        result["auprc"] = float(np.mean([average_precision_score(hit, chance) for hit, chance in each]))
    return {metric: result[metric] for metric in METRICS if metric in result}


def summary(values: Sequence[float]) -> dict[str, Any]:
    """{"mean", "sd", "n", "values"}; sd has n - 1 below the line, and is 0 for one value."""
    numbers = [float(value) for value in values]
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    return {"mean": float(np.mean(numbers)), "sd": spread, "n": len(numbers), "values": numbers}


def summaries(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """One summary per metric over the runs (seeds); metrics that a run lacks are left out."""
    return {metric: summary([run[metric] for run in runs]) for metric in METRICS if all(metric in run for run in runs)}
