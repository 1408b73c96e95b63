"""Train on synthetic images, test on real ones (TSTR), beside train on real (TRTR) and the majority class."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from synthdp.evaluate import tasks
from synthdp.evaluate.images.image_classifiers import Classifier, Fitted, fitted
from synthdp.evaluate.images.pictures import Pictures
from synthdp.evaluate.scores import summary
from synthdp.evaluate.tables import Axis
from synthdp.evaluate.tasks import MIN_ROWS, Task

# ---- Scores of predicted class probabilities for images: every class counts, and each class's recall is told.


METRICS = ("accuracy", "balanced_accuracy", "auroc")
METRIC_LABELS = {"accuracy": "Accuracy", "balanced_accuracy": "Balanced accuracy", "auroc": "AUROC"}


def score(truth: NDArray[np.int64], chances: NDArray[np.float64], classes: Sequence[str]) -> dict[str, Any]:
    """accuracy, balanced_accuracy (mean recall), auroc (each class against the rest, averaged) and recall per class.

    truth: (rows,), at least one; chances: (rows, classes). Classes that truth lacks have no recall and no part in the
    means; auroc is left out where truth holds one class.
    """
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


Labelled = tuple[Pictures, NDArray[np.int64]]  # and each one's place in the task's classes
ARMS = ("tstr", "trtr")
ARM_LABELS = {"tstr": "trained on synthetic", "trtr": "trained on real"}


def refusal(axis: Axis, train: Pictures, test: Pictures) -> str | None:
    """Why a target cannot be scored at all, or None."""
    if not axis.is_classes:
        return "the target is a number; only targets with classes are scored so far"
    return tasks.refusal(axis, train, test)


def judge(
    work: Task[Pictures],
    models: Sequence[Classifier],
    seeds: int,
    step: Callable[[str], None],
    known: Fitted | None = None,
) -> dict[str, Any]:
    """One target's entry of the JSON form; step is told of every arm and classifier before it runs.

    known: the CNN of seed 0 on the real training records, if it is there already.

    The sd of a summary is the spread over seeds; a classifier without a random part is fitted once.
    """
    arms: dict[str, dict[str, Any]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for model in models:
            step(f"{work.target}: {ARM_LABELS[arm]}, {model.label}")
            part = work.synthetic if arm == "tstr" else work.train
            if len(part[1]) >= MIN_ROWS:
                first = known if (arm, model.id) == ("trtr", "cnn") else None
                arms[arm][model.id] = summaries(runs(model, part, work.test, work.classes, seeds, first))
    truth = work.test[1]
    constant = np.zeros((len(truth), len(work.classes)))
    constant[:, np.bincount(work.train[1], minlength=len(work.classes)).argmax()] = 1.0
    return {
        "tstr": arms["tstr"],
        "trtr": arms["trtr"],
        "floors": {"majority": summaries([score(truth, constant, work.classes)])},
        "average": {arm: _average(arms[arm]) for arm in ARMS if arms[arm]},
        "classes": list(work.classes),
        "rows": {"synthetic": len(work.synthetic[1]), "train": len(work.train[1]), "test": len(truth)},
    }


def runs(
    model: Classifier, train: Labelled, test: Labelled, classes: Sequence[str], seeds: int, first: Fitted | None = None
) -> list[dict[str, Any]]:
    """A score per seed 0, 1, ..., seeds - 1; first: the fit of seed 0, if it is there already."""
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        if found and not model.seeded:
            found.append(found[0])
            continue
        fit = first if seed == 0 and first else fitted(model, train[0].pixels, train[1], len(classes), seed)
        found.append(score(test[1], fit.chances(test[0].pixels), classes))
    return found


def _average(arm: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The mean over classifiers, per seed first, so that its sd is the spread over seeds."""
    shared = [metric for metric in METRICS if all(metric in scores for scores in arm.values())]
    return {
        metric: summary(np.mean([scores[metric]["values"] for scores in arm.values()], axis=0).tolist())
        for metric in shared
    }
