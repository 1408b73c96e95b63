"""Train on synthetic images, test on real ones (TSTR), beside train on real (TRTR) and the majority class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from synthdp.evaluate.images.image_classifiers import Classifier, Fitted, fitted
from synthdp.evaluate.images.pictures import Pictures
from synthdp.evaluate.scores import summary
from synthdp.evaluate.tables import Axis

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


# Below so many pictures with a known label, a fit or a score is an accident.
MIN_ROWS = 10
ARMS = ("tstr", "trtr")
ARM_LABELS = {"tstr": "trained on synthetic", "trtr": "trained on real"}


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """pixels (rows, height, width, channels) and labels (rows,), places in a task's classes."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]

    @property
    def rows(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One target: pictures with a known label of the three sets; classes are those of real training or test records."""

    target: str
    classes: tuple[str, ...]
    synthetic: Labelled
    train: Labelled
    test: Labelled


def refusal(axis: Axis, train: Pictures, test: Pictures) -> str | None:
    """Why a target cannot be scored at all, or None."""
    if not axis.is_classes:
        return "the target is a number; only targets with classes are scored so far"
    if len(axis.levels) < 2:
        return "the target has one class"
    if len(axis.levels) > train.rows:
        return "the target has more classes than there are training records"
    for role, part in (("real training", train), ("real test", test)):
        labels = part.labels(axis)
        known = labels[labels >= 0]
        if len(known) < MIN_ROWS:
            return f"{len(known)} {role} records have a known label; at least {MIN_ROWS} are needed"
        if len(np.unique(known)) < 2:
            return f"the {role} records have only one class of the target"
    return None


def task(axis: Axis, synthetic: Pictures, train: Pictures, test: Pictures) -> Task:
    """A target's task; records whose label is missing, undeclared or of a class that no real record has are left out."""
    parts = [(part.pixels, part.labels(axis)) for part in (synthetic, train, test)]
    real = np.concatenate([parts[1][1], parts[2][1]])
    occur = np.unique(real[real >= 0])
    place = np.full(len(axis.levels) + 1, -1)  # the label -1 reads the last entry
    place[occur] = np.arange(len(occur))
    found = [(pixels, place[labels]) for pixels, labels in parts]
    s, t, v = (Labelled(pixels=pixels[labels >= 0], labels=labels[labels >= 0]) for pixels, labels in found)
    classes = tuple(axis.levels[code] for code in occur)
    return Task(target=axis.name, classes=classes, synthetic=s, train=t, test=v)


def shortfalls(work: Task) -> list[dict[str, str]]:
    """What the synthetic records lack for a full score, as entries of `not_computed`."""
    metric = f"tstr.{work.target}"
    if work.synthetic.rows < MIN_ROWS:
        reason = f"{work.synthetic.rows} synthetic records have a known label; at least {MIN_ROWS} are needed"
        return [{"metric": metric, "reason": reason}]
    lacking = len(work.classes) - len(np.unique(work.synthetic.labels))
    if not lacking:
        return []
    reason = (
        f"the synthetic records lack {lacking} of the {len(work.classes)} classes; models trained on them are scored with "
        "probability 0 for these classes"
    )
    return [{"metric": f"{metric}.absent_classes", "reason": reason}]


def judge(
    work: Task,
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
            if part.rows >= MIN_ROWS:
                first = known if (arm, model.id) == ("trtr", "cnn") else None
                arms[arm][model.id] = summaries(runs(model, part, work.test, work.classes, seeds, first))
    constant = np.zeros((work.test.rows, len(work.classes)))
    constant[:, np.bincount(work.train.labels, minlength=len(work.classes)).argmax()] = 1.0
    return {
        "tstr": arms["tstr"],
        "trtr": arms["trtr"],
        "floors": {"majority": summaries([score(work.test.labels, constant, work.classes)])},
        "average": {arm: _average(arms[arm]) for arm in ARMS if arms[arm]},
        "classes": list(work.classes),
        "rows": {"synthetic": work.synthetic.rows, "train": work.train.rows, "test": work.test.rows},
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
        fit = first if seed == 0 and first else fitted(model, train.pixels, train.labels, len(classes), seed)
        found.append(score(test.labels, fit.chances(test.pixels), classes))
    return found


def _average(arm: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The mean over classifiers, per seed first, so that its sd is the spread over seeds."""
    shared = [metric for metric in METRICS if all(metric in scores for scores in arm.values())]
    return {
        metric: summary(np.mean([scores[metric]["values"] for scores in arm.values()], axis=0).tolist())
        for metric in shared
    }
