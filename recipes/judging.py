"""How recipes judge a table: the mean over three models of what they learn from it, and its distance from the training rows."""

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import trials
from trials import REAL, Figures, Trial

from synthdp.errors import BadInput
from synthdp.evaluate.association import of_numbers
from synthdp.evaluate.estimators import chances, classifiers, guesses, regressors
from synthdp.evaluate.fidelity import total_variation
from synthdp.evaluate.scores import errors, score
from synthdp.evaluate.tables import Axis, Table, axes_of, table_of
from synthdp.evaluate.tasks import Task, task
from synthdp.evaluate.utility import independent, majority, middle
from synthdp.generators.parts.gan_model import NetworkModel, label_place, network
from synthdp.generators.parts.table_networks import random
from synthdp.schema.codec import Codec
from synthdp.sets import named
from synthdp.sets.named import Named

if TYPE_CHECKING:
    import pandas as pd

MODELS = ("hgb", "lr", "rf")
METRICS = ("auroc", "auprc", "accuracy")
NUMBER_METRICS = ("r2", "rmse", "mae")  # of a numeric target
DISTANCES = ("tvd_1way", "tvd_2way", "tvd_3way", "pearson", "spearman", "means")
UNTRAINED = "untrained"  # in the place of a generator: its network as it is drawn, which no record has touched
# In the place of a generator: what the figures are compared with.
COUNTED, HELD_OUT, COLUMNS, MAJORITY = "counted", "held_out", "columns", "majority"
REFERENCES = {
    REAL: "real training rows (ceiling)",
    COUNTED: "real training rows, bounded per unit as in a fit",
    HELD_OUT: "real test rows in their place (floor of TVD)",
    COLUMNS: "real columns without relations (floor)",
    MAJORITY: "always the majority class (floor)",
}
DRAWN = (COUNTED, COLUMNS)  # anew for each seed
FLOOR_STREAM = 7  # of the draws behind the floor, as in `synthdp evaluate`
# What makes a trial's table: (trial, data, axes, limit in seconds of CPU) -> table, what it cost.
Maker = Callable[[Trial, Named, Sequence[Axis], float | None], tuple[Table, Figures]]


def references(data: str, seeds: int) -> dict[tuple[str, float | None], list[Trial]]:
    """(report's name, None) -> the trials of what figures of this data set are compared with."""
    found: dict[tuple[str, float | None], list[Trial]] = {}
    for name, label in REFERENCES.items():
        if name != COUNTED or named.schema_of(data).unit is not None:
            repeats = range(seeds) if name in DRAWN else (0,)
            found[label, None] = [Trial(data=data, label=label, generator=name, seed=seed) for seed in repeats]
    return found


def counted(chosen: Named, seed: int) -> "pd.DataFrame":
    """Of each unit's training rows as many as a fit reads, drawn at random."""
    mixed = chosen.train.sample(frac=1, random_state=seed)
    kept: pd.DataFrame = mixed.groupby(chosen.schema.unit).head(chosen.schema.max_records_per_unit)
    return kept


def fitted(trial: Trial, chosen: Named, axes: Sequence[Axis], limit: float | None) -> tuple[Table, Figures]:
    """The table of one of our generators, or the real training rows."""
    frame, figures = trials.rows_of(trial, chosen, limit=limit)
    return table_of(frame, tuple(axes), "synthetic"), figures


def untrained(
    settings: Any, trial: Trial, chosen: Named, axes: Sequence[Axis], limit: float | None
) -> tuple[Table, Figures]:
    """The table of the generator network of these settings with its first random weights, of evenly drawn labels; others as `fitted`."""
    if trial.generator != UNTRAINED:
        return fitted(trial, chosen, axes, limit)
    sizes, label = Codec(chosen.schema).sizes, label_place(None, chosen.schema)
    labels = 1 if label is None else sizes[label]
    even = torch.full((labels,), 1 / labels)
    model = NetworkModel(
        chosen.schema, network(settings, sizes, label, random(trial.seed)), even, label, settings.latent
    )
    return table_of(model.sample(len(chosen.train), seed=trial.seed), tuple(axes), "synthetic"), {}


def judged(
    trial: Trial, maker: Maker = fitted, limit: float | None = None, load: Callable[[str], Named] = named.load
) -> Figures:
    """One table and its judgement; a fit that is refused, or stopped for its time, is kept with its reason."""
    chosen = load(trial.data)
    axes = axes_of(chosen.schema, chosen.train)
    train, test = table_of(chosen.train, axes, "training"), table_of(chosen.test, axes, "test")
    target = next(axis for axis in axes if axis.name == chosen.schema.targets[0])
    if trial.generator == HELD_OUT:
        return distances(test, train, test, target.name)
    if trial.generator == MAJORITY:
        return floor(task(target, train, train, test))
    if trial.generator == COLUMNS:
        made, figures = independent(train, np.random.default_rng((FLOOR_STREAM, trial.seed))), {}
    elif trial.generator == COUNTED:
        made, figures = table_of(counted(chosen, trial.seed), axes, "training"), {}
    else:
        try:
            made, figures = maker(trial, chosen, axes, limit)
        except (BadInput, TimeoutError) as error:
            return {"broken": str(error)}
    return {**figures, **utility(task(target, made, train, test)), **distances(made, train, test, target.name)}


def floor(work: Task) -> Figures:
    """The scores of always telling the majority class, or the mean of a numeric target."""
    rows = len(work.test[1])
    if work.is_number:
        return errors(work.test[1], middle(work.train[1], rows))
    return score(work.test[1], majority(work.train[1], rows, len(work.classes)), work.positive)


def utility(work: Task) -> Figures:
    """The mean of each metric over the models, and each model's AUROC; of a numeric target, R2."""
    if work.is_number:
        by_model = {
            model.id: errors(work.test[1], guesses(model, *work.synthetic, work.test[0], seed=0, jobs=1))
            for model in regressors(classifiers(MODELS))
        }
    else:
        by_model = {
            model.id: score(
                work.test[1],
                chances(model, *work.synthetic, work.test[0], len(work.classes), seed=0, jobs=1),
                work.positive,
            )
            for model in classifiers(MODELS)
        }
    metrics = NUMBER_METRICS if work.is_number else METRICS
    means = {metric: statistics.fmean(found[metric] for found in by_model.values()) for metric in metrics}
    return {**means, f"{metrics[0]}_by_model": {name: found[metrics[0]] for name, found in by_model.items()}}


def distances(made: Table, train: Table, test: Table, target: str) -> dict[str, Any]:
    """Mean total variation distances against the training rows, and errors of correlations and means where there are numbers."""
    numbers, _ = of_numbers(made, train, test)
    found = total_variation(made, train, test, target) | (numbers or {})
    return {name: found[name]["mean"] for name in DISTANCES if name in found}
