"""Train on synthetic, test on real, alone: what a recipe asks of many releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.how import check
from synthdp.evaluate.images import image_classifiers, image_utility, pictures
from synthdp.evaluate.images.image_run import target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from synthdp.schema.schema import Schema


def accuracies(
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    *,
    seeds: int = 1,
    models: Sequence[str] = image_classifiers.MODELS,
    target: str | None = None,
) -> dict[str, float]:
    """Accuracy on the real test records per model (lr, mlp, cnn) trained on the synthetic ones: the mean over seeds
    0, 1, ..., seeds - 1.

    target: the column to predict, by default the schema's first. The same figures as `evaluate`'s tstr. Raises
    BadInput where the frames do not fit the schema, or hold too few records with a known label.
    """
    chosen = image_classifiers.classifiers(models)
    check("seeds", seeds, 1)
    if target is None and not schema.targets:
        raise BadInput("target: the schema declares none; name the column to predict")
    axes = pictures.axes_of(schema, test)
    axis = target_of(target if target is not None else schema.targets[0], axes, schema)
    made = pictures.pictures_of(synthetic, schema, axes, "synthetic")
    real = pictures.pictures_of(test, schema, axes, "real test")
    reason = image_utility.refusal(axis, real, real)
    if reason is not None:
        raise BadInput(f"target {axis.name!r}: {reason}")
    work = image_utility.task(axis, made, real, real)
    if work.synthetic.rows < image_utility.MIN_ROWS:
        raise BadInput(
            f"target {axis.name!r}: {work.synthetic.rows} synthetic records have a known label; "
            f"at least {image_utility.MIN_ROWS} are needed"
        )
    return {
        model.id: float(
            np.mean(
                [run["accuracy"] for run in image_utility.runs(model, work.synthetic, work.test, work.classes, seeds)]
            )
        )
        for model in chosen
    }
