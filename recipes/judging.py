"""How recipes judge a table: the mean over three models of what they learn from it, and its distance from the training rows."""

import statistics
from typing import Any

from synthdp.evaluate.classifiers import chances, classifiers
from synthdp.evaluate.fidelity import total_variation
from synthdp.evaluate.scores import score
from synthdp.evaluate.tables import Table
from synthdp.evaluate.tasks import Task

MODELS = ("hgb", "lr", "rf")
METRICS = ("auroc", "auprc", "accuracy")
DISTANCES = ("tvd_1way", "tvd_2way", "tvd_3way")


def utility(work: Task) -> dict[str, Any]:
    """The mean of each metric over the models, and each model's AUROC."""
    by_model = {
        model.id: score(
            work.test[1],
            chances(model, *work.synthetic, work.test[0], len(work.classes), seed=0, jobs=1),
            work.positive,
        )
        for model in classifiers(MODELS)
    }
    means = {metric: statistics.fmean(found[metric] for found in by_model.values()) for metric in METRICS}
    return {**means, "auroc_by_model": {name: found["auroc"] for name, found in by_model.items()}}


def distances(made: Table, train: Table, test: Table, target: str) -> dict[str, float]:
    """Mean total variation distances against the training rows."""
    found = total_variation(made, train, test, target)
    return {name: found[name]["mean"] for name in DISTANCES}
