"""Scores of predicted class probabilities and of predicted numbers, how several runs are summed up, and intervals of 95 %.

For the intervals, held-out rows are drawn again with replacement (patients, where records belong to patients). Predictions are
kept, and every model of a target sees the same draws: Efron & Tibshirani 1993, sections 6 and 8. Synthetic samples and seeds vary by
their own spread.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

Array = NDArray[np.float64]

# ---- Do predicted probabilities come true? The curve and the expected calibration error (Naeini, Cooper & Hauskrecht 2015;
# Guo et al. 2017), over equally wide bins.


BINS = 10


def bins(chance: Array) -> NDArray[np.int64]:
    """(rows,): the bin of each probability, 0 to BINS - 1."""
    return np.clip((chance * BINS).astype(np.int64), 0, BINS - 1)


def sums(hit: NDArray[np.bool_], chance: Array) -> Array:
    """(3, BINS): rows, sum of probabilities and number of hits in each bin. Sums of several models add up."""
    place = bins(chance)
    return np.stack([np.bincount(place, weights=w, minlength=BINS) for w in (np.ones(len(hit)), chance, hit)])


def ece(hit: NDArray[np.bool_], chance: Array) -> float:
    """Mean over rows of |share of hits - mean probability| of the row's bin."""
    rows, predicted, observed = sums(hit, chance)
    return float(np.abs(observed - predicted).sum() / max(rows.sum(), 1.0))


def curve(parts: Sequence[Array]) -> list[dict[str, Any]]:
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
    **dict.fromkeys(METRICS, (0.0, 1.0)),
    "rmse": (0.0, np.inf),
    "mae": (0.0, np.inf),
    "r2": (-np.inf, 1.0),
}


def score(truth: NDArray[np.int64], chances: Array, positive: int | None) -> dict[str, float]:
    """auroc, auprc, accuracy, f1, brier and ece of chances (rows, classes) against truth (rows,), class codes.

    positive: the class that a binary target's auprc, f1, brier and ece are about; None for more classes, where each
    class that occurs in truth is taken against the rest and the classes' figures are averaged (macro). A score that
    truth cannot define (one class only) is left out.
    """
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


def errors(truth: Array, guess: Array) -> dict[str, float]:
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


LEVEL = 0.95
STREAM = 23
# A class, or a whole table, of fewer rows tells nothing of its own uncertainty.
MIN_ROWS = 5
# Above so many weights (rows x draws x classes) fewer draws are made, but not below LEAST.
MOST_WORK, LEAST = 60_000_000, 50


Weights = NDArray[np.float32]  # (rows, draws): how often each test row is in each draw


def resamples(rows: int, draws: int, classes: int, units: NDArray[np.int64] | None) -> Weights:
    """draws with replacement of the rows, or of the units (codes from 0, one per row) with all their rows."""
    if rows:
        draws = min(draws, max(LEAST, MOST_WORK // (rows * max(classes, 1))))
    rng = np.random.default_rng((STREAM, rows))
    groups = int(units.max()) + 1 if units is not None and rows else rows
    weights = np.empty((groups, draws), dtype=np.float32)
    for b in range(draws):
        weights[:, b] = np.bincount(rng.integers(0, groups, groups), minlength=groups) if groups else 0
    return weights if units is None or not rows else weights[units]


def class_draws(truth: NDArray[np.int64], chances: Array, positive: int | None, W: Weights) -> dict[str, Array]:
    """metric -> (draws,): `scores.score` of each draw; NaN where a draw does not define it (never in a result)."""
    guess = chances.argmax(axis=1)
    size = np.maximum(W.sum(axis=0, dtype=np.float64), 1.0)
    found = {"accuracy": _total(W, guess == truth) / size}
    classes = [positive] if positive is not None else [int(c) for c in np.unique(truth)]
    parts: dict[str, list[Array]] = {m: [] for m in ("auroc", "auprc", "f1", "brier", "ece")}
    for c in classes:
        hit, chance, called = truth == c, chances[:, c], guess == c
        auroc, auprc = rankings(hit, chance, W)
        true, both = _total(W, hit & called), _total(W, hit) + _total(W, called)
        parts["auroc"].append(auroc)
        parts["auprc"].append(auprc)
        parts["f1"].append(2 * true / np.maximum(both, 1.0))
        parts["brier"].append(_total(W, (chance - hit) ** 2) / size)
        inside = np.zeros((len(truth), BINS), dtype=np.float32)
        inside[np.arange(len(truth)), bins(chance)] = hit - chance
        parts["ece"].append(np.abs(W.T @ inside).sum(axis=1, dtype=np.float64) / size)
    return found | {metric: _mean(each) for metric, each in parts.items()}


def auroc_draws(truth: NDArray[np.int64], chances: Array, positive: int | None, W: Weights) -> Array:
    """(draws,): `class_draws` of auroc alone."""
    classes = [positive] if positive is not None else [int(c) for c in np.unique(truth)]
    return _mean([rankings(truth == c, chances[:, c], W)[0] for c in classes])


def rankings(hit: NDArray[np.bool_], chance: Array, weights: Weights) -> tuple[Array, Array]:
    """(draws,) of AUROC and of average precision, ties as scikit-learn takes them; NaN where one class is not drawn."""
    order = np.argsort(-chance, kind="stable")
    sorted_chance = chance[order]
    starts = np.flatnonzero(np.r_[True, sorted_chance[1:] != sorted_chance[:-1]])
    W = weights[order]
    # Counts below 2^24 are exact in float32.
    hits = np.add.reduceat(W * hit[order, None], starts, axis=0)
    every = np.add.reduceat(W, starts, axis=0)
    above, seen = hits.cumsum(axis=0), every.cumsum(axis=0)
    positives, negatives = above[-1].astype(np.float64), (seen[-1] - above[-1]).astype(np.float64)
    wins = np.einsum("gb,gb->b", every - hits, above - 0.5 * hits, dtype=np.float64, casting="same_kind")
    with np.errstate(divide="ignore", invalid="ignore"):
        auroc = wins / (positives * negatives)
        precision = np.einsum("gb,gb->b", hits, above / np.maximum(seen, 1.0), dtype=np.float64, casting="same_kind")
        auprc = np.where(negatives > 0, precision / positives, np.nan)
    return np.where(np.isfinite(auroc), auroc, np.nan), np.where(positives > 0, auprc, np.nan)


def number_draws(truth: Array, guess: Array, W: Weights) -> dict[str, Array]:
    """metric -> (draws,): `scores.errors` of each draw; NaN where a draw does not define it."""
    off, centre = guess - truth, truth - truth.mean()
    size = np.maximum(W.sum(axis=0, dtype=np.float64), 1.0)
    square = _total(W, off**2) / size
    spread = _total(W, centre**2) / size - (_total(W, centre) / size) ** 2
    varies = spread > 1e-6 * float((centre**2).mean())
    r2 = np.where(varies, 1 - square / np.where(varies, spread, 1.0), np.nan)
    return {"rmse": np.sqrt(square), "mae": _total(W, np.abs(off)) / size, "r2": r2}


def interval(
    draws: Array, units: Sequence[float], bounds: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[float, float] | None:
    """[low, high] about the mean of units: its variance is that of draws (of the mean over units) over test rows, plus
    the units' own over their number; degrees of freedom by Satterthwaite, for two or three units tell their spread badly.

    units: one value per synthetic sample, or per seed where there is one sample. None where too few draws define it.
    """
    known = draws[np.isfinite(draws)]
    if len(known) < max(LEAST, len(draws) / 2):
        return None
    of_rows, count = float(known.var(ddof=1)), len(units)
    of_units = float(np.var(units, ddof=1)) / count if count > 1 else 0.0
    share = of_units / (of_rows + of_units) if of_units > 0 else 0.0
    freedom = (count - 1) / share**2 if share > 1e-3 else np.inf
    reach = float(student.ppf(0.5 + LEVEL / 2, freedom)) * float(np.sqrt(of_rows + of_units))
    middle = float(np.mean(units))
    return max(bounds[0], middle - reach), min(bounds[1], middle + reach)


def _total(weights: NDArray[np.float32], values: NDArray[Any]) -> Array:
    return (values.astype(np.float32) @ weights).astype(np.float64)


def _mean(each: list[Array]) -> Array:
    """(draws,): the mean over the classes that a draw defines."""
    stack = np.stack(each)
    known = np.isfinite(stack)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, stack, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
