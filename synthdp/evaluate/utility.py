"""Train on synthetic, test on real (TSTR), beside train on real (TRTR) and the floors; Esteban et al. 2017."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.classifiers import Classifier, chances
from synthdp.evaluate.floors import independent, majority
from synthdp.evaluate.scores import METRICS, score, summaries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Axis, Table

# Below so many rows with a known target, a fit or a score is an accident.
MIN_ROWS = 10
ARMS = ("tstr", "trtr", "independent")
# Each floor's draws have a stream of their own, whatever else uses the seed.
FLOOR_STREAM = 7


@dataclass(frozen=True, kw_only=True)
class Task:
    """One target: features and labels of the three tables, rows with a missing or undeclared label left out."""

    target: str
    classes: tuple[str, ...]
    positive: int | None
    synthetic: tuple[Table, NDArray[np.int64]]
    train: tuple[Table, NDArray[np.int64]]
    test: tuple[Table, NDArray[np.int64]]


def refusal(axis: Axis, tables: Sequence[Table]) -> str | None:
    """Why a target cannot be scored at all, or None. tables: synthetic, train, test."""
    if not axis.is_classes:
        return "the target is a number; only targets with classes are scored so far"
    if len(axis.levels) < 2:
        return "the target has one class"
    if len(axis.levels) > tables[1].rows:
        return "the target has more classes than there are training rows"
    if len(tables[0].axes) < 2:
        return "there is no column to predict the target from"
    for role, table in zip(("real training", "real test"), tables[1:], strict=True):
        labels = _labels(table, axis)[1]
        if len(labels) < MIN_ROWS:
            return f"{len(labels)} {role} rows have a known target; at least {MIN_ROWS} are needed"
        if len(np.unique(labels)) < 2:
            return f"the {role} rows hold one class of the target"
    return None


def task(axis: Axis, synthetic: Table, train: Table, test: Table) -> Task:
    """A target's task; the classes are those that occur in the real training or test rows."""
    parts = [_labels(table, axis) for table in (synthetic, train, test)]
    real = np.concatenate([parts[1][1], parts[2][1]])
    occur = np.unique(real)
    place = np.full(len(axis.levels), -1)
    place[occur] = np.arange(len(occur))
    (s, ys), (t, yt), (v, yv) = [(table, place[labels]) for table, labels in parts]
    s, ys = s.take(ys >= 0), ys[ys >= 0]  # a class that no real row has cannot be scored
    return Task(
        target=axis.name,
        classes=tuple(axis.levels[code] for code in occur),
        positive=_positive(axis, yt) if len(occur) == 2 else None,
        synthetic=(s, ys),
        train=(t, yt),
        test=(v, yv),
    )


def shortfalls(work: Task) -> list[dict[str, str]]:
    """What the synthetic rows lack for a full score, as entries of `not_computed`."""
    labels, metric = work.synthetic[1], f"tstr.{work.target}"
    if len(labels) < MIN_ROWS:
        reason = f"{len(labels)} synthetic rows have a known target; at least {MIN_ROWS} are needed"
        return [{"metric": metric, "reason": reason}]
    lacking = len(work.classes) - len(np.unique(labels))
    if not lacking:
        return []
    reason = (
        f"the synthetic rows lack {lacking} of the {len(work.classes)} classes; "
        "models trained on them give these classes probability 0 and are scored so"
    )
    return [{"metric": f"{metric}.absent_classes", "reason": reason}]


def judge(
    work: Task, models: Sequence[Classifier], seeds: int, jobs: int, step: Callable[[str], None]
) -> dict[str, Any]:
    """One target's entry of the JSON form; step is told of every arm and classifier before it runs.

    The sd of a summary is the spread over seeds (the classifier's own and, for the independent floor, the
    resampling); a classifier without a random part is fitted once where its training rows are the same.
    """
    arms: dict[str, dict[str, Any]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for model in models:
            step(f"{work.target}: {ARM_LABELS[arm]}, {model.label.lower()}")
            if arm == "tstr" and len(work.synthetic[1]) < MIN_ROWS:
                continue
            arms[arm][model.id] = summaries(_runs(work, arm, model, seeds, jobs))
    truth, classes = work.test[1], len(work.classes)
    constant = score(truth, majority(work.train[1], len(truth), classes), work.positive)
    return {
        "tstr": arms["tstr"],
        "trtr": arms["trtr"],
        "floors": {"independent": arms["independent"], "majority": summaries([constant])},
        "average": {arm: _average(arms[arm], models) for arm in ARMS if arms[arm]},
        "classes": list(work.classes),
        "positive": None if work.positive is None else work.classes[work.positive],
        "rows": {"synthetic": len(work.synthetic[1]), "train": len(work.train[1]), "test": len(truth)},
    }


ARM_LABELS = {"tstr": "trained on synthetic", "trtr": "trained on real", "independent": "floor without relations"}


def _runs(work: Task, arm: str, model: Classifier, seeds: int, jobs: int) -> list[dict[str, float]]:
    truth = work.test[1]
    runs: list[dict[str, float]] = []
    for seed in range(seeds):
        if runs and not model.seeded and arm != "independent":
            runs.append(runs[0])
            continue
        table, labels = work.synthetic if arm == "tstr" else work.train
        if arm == "independent":
            rng = np.random.default_rng((FLOOR_STREAM, seed))
            table, labels = independent(table, rng), rng.choice(labels, size=len(labels))
        guess = chances(model, table, labels, work.test[0], len(work.classes), seed=seed, jobs=jobs)
        runs.append(score(truth, guess, work.positive))
    return runs


def _average(arm: dict[str, Any], models: Sequence[Classifier]) -> dict[str, dict[str, Any]]:
    """The mean over classifiers, per seed first, so that its sd is the spread over seeds."""
    shared = [m for m in METRICS if all(m in arm[model.id] for model in models)]
    seeds = range(len(arm[models[0].id][shared[0]]["values"]))
    return summaries(
        [{m: float(np.mean([arm[model.id][m]["values"][seed] for model in models])) for m in shared} for seed in seeds]
    )


def _labels(table: Table, axis: Axis) -> tuple[Table, NDArray[np.int64]]:
    column = table.column(axis.name)
    keep = column < len(axis.levels)  # False for NaN too
    return table.without(axis.name).take(keep), column[keep].astype(np.int64)


def _positive(axis: Axis, labels: NDArray[np.int64]) -> int:
    """The class that auprc and f1 of a binary target are about: True, else the rarer one (a tie: the later one)."""
    if axis.levels == ("False", "True"):
        return 1
    counts = np.bincount(labels, minlength=2)
    return 0 if counts[0] < counts[1] else 1
