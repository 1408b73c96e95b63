"""Scores of predicted class probabilities and of predicted numbers, and how several runs are summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# ---- Do predicted probabilities come true? The curve and the expected calibration error (Naeini, Cooper & Hauskrecht 2015;
# Guo et al. 2017), over equally wide bins.


BINS = 10


def bins(chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """(rows,): the bin of each probability, 0 to BINS - 1."""
    found: NDArray[np.int64] = np.clip((chance * BINS).astype(np.int64), 0, BINS - 1)
    return found


def sums(hit: NDArray[np.bool_], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, BINS): rows, sum of probabilities and number of hits in each bin. Sums of several models add up."""
    place = bins(chance)
    return np.stack([np.bincount(place, weights=w, minlength=BINS) for w in (np.ones(len(hit)), chance, hit)])


def ece(hit: NDArray[np.bool_], chance: NDArray[np.float64]) -> float:
    """Mean over rows of |share of hits - mean probability| of the row's bin."""
    rows, predicted, observed = sums(hit, chance)
    return float(np.abs(observed - predicted).sum() / max(rows.sum(), 1.0))


def curve(parts: Sequence[NDArray[np.float64]]) -> list[dict[str, Any]]:
    """The calibration curve of pooled predictions, a point per bin that holds any: mean probability, share of hits, and
    the rows in it per model (a mean over models and runs). parts: `sums` of each."""
    rows, predicted, observed = np.sum(parts, axis=0)
    return [
        {
            "predicted": float(predicted[i] / rows[i]),
            "observed": float(observed[i] / rows[i]),
            "rows": float(rows[i] / len(parts)),
        }
        for i in range(BINS)
        if rows[i] > 0
    ]


METRICS = ("auroc", "auprc", "accuracy", "f1", "brier", "ece")
NUMBER_METRICS = ("rmse", "mae", "r2")
METRIC_LABELS = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "accuracy": "Accuracy",
    "f1": "F1",
    "brier": "Brier score",
    "ece": "Calibration error",
    "rmse": "RMSE",
    "mae": "Mean absolute error",
    "r2": "R²",
}
LOWER_IS_BETTER = frozenset({"brier", "ece", "rmse", "mae"})
# What a metric can be at all: no interval reaches beyond.
RANGES = {
    "auroc": (0.0, 1.0),
    "auprc": (0.0, 1.0),
    "accuracy": (0.0, 1.0),
    "f1": (0.0, 1.0),
    "brier": (0.0, 1.0),
    "ece": (0.0, 1.0),
    "rmse": (0.0, np.inf),
    "mae": (0.0, np.inf),
    "r2": (-np.inf, 1.0),
}


def score(truth: NDArray[np.int64], chances: NDArray[np.float64], positive: int | None) -> dict[str, float]:
    """auroc, auprc, accuracy, f1, brier and ece of chances (rows, classes) against truth (rows,), class codes.

    positive: the class that a binary target's auprc, f1, brier and ece are about; None for more classes, where each
    class that occurs in truth is taken against the rest and the classes' figures are averaged (macro). A score that
    truth cannot define (one class only) is left out.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    guess = chances.argmax(axis=1)
    result = {"accuracy": float((guess == truth).mean())}
    occur = np.unique(truth)
    classes = [positive] if positive is not None else [int(c) for c in occur]
    each = [(truth == c, chances[:, c]) for c in classes]
    if positive is not None:
        result["f1"] = float(f1_score(truth == positive, guess == positive, zero_division=0.0))
    else:
        result["f1"] = float(f1_score(truth, guess, labels=classes, average="macro", zero_division=0.0))
    if len(occur) > 1:
        result["auroc"] = float(np.mean([roc_auc_score(hit, chance) for hit, chance in each]))
        result["auprc"] = float(np.mean([average_precision_score(hit, chance) for hit, chance in each]))
    result["brier"] = float(np.mean([((chance - hit) ** 2).mean() for hit, chance in each]))
    result["ece"] = float(np.mean([ece(hit, chance) for hit, chance in each]))
    return {metric: result[metric] for metric in METRICS if metric in result}


def errors(truth: NDArray[np.float64], guess: NDArray[np.float64]) -> dict[str, float]:
    """rmse, mae (units of the column) and r2 of predicted numbers; r2 is left out where truth does not vary."""
    off = guess - truth
    result = {"rmse": float(np.sqrt((off**2).mean())), "mae": float(np.abs(off).mean())}
    spread = float(((truth - truth.mean()) ** 2).mean())
    if spread > 0:
        result["r2"] = 1.0 - float((off**2).mean()) / spread
    return result


def summary(values: Sequence[float], interval: tuple[float, float] | None = None) -> dict[str, Any]:
    """{"mean", "sd", "n", "values"} and, where given, "interval" [low, high]; sd has n - 1 below the line, and is 0
    for one value."""
    numbers = [float(value) for value in values]
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    found: dict[str, Any] = {"mean": float(np.mean(numbers)), "sd": spread, "n": len(numbers), "values": numbers}
    if interval is not None:
        found["interval"] = [float(bound) for bound in interval]
    return found
