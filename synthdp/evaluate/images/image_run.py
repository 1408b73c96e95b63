"""`evaluate` for records with an image: every metric over one set of frames, in the frozen JSON form, kind images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import NDArray

from synthdp import __version__
from synthdp.errors import BadInput
from synthdp.evaluate import fidelity
from synthdp.evaluate.attacks.membership import of_vectors
from synthdp.evaluate.fidelity import columns
from synthdp.evaluate.images import clouds, image_classifiers, image_utility, neighbours, pictures, samples
from synthdp.evaluate.images.clouds import Features
from synthdp.evaluate.images.image_classifiers import MODELS, Classifier, Fitted
from synthdp.evaluate.images.samples import Parts
from synthdp.evaluate.judging_options import JudgingOptions, Progress, Steps
from synthdp.evaluate.tables import Axis, Codes, target_of, units_of
from synthdp.evaluate.tasks import MIN_ROWS, shortfalls, task
from synthdp.schema.schema import Schema

SCHEMA_VERSION = 2
SHOWN_STREAM, NEAR_STREAM = 17, 19
ROLES = ("synthetic", "real training", "real test")


def evaluate(
    samples: Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    how: JudgingOptions,
    progress: Progress | None,
) -> dict[str, Any]:
    """Judge synthetic images against the real ones they were made from (train) and held-out real ones (test), with at most
    `how.threads` threads.

    `how.models` names classifiers or a set of them (`quick`, `paper`). The result has the keys schema_version,
    kind ("images"), targets, fidelity, neighbours, shares, columns, pictures (strips as PNG), attacks, not_computed (a
    metric that the records cannot define is absent and listed there with its reason; no figure is ever NaN) and about.
    It holds real pictures and exact statistics: internal, outside epsilon. Raises BadInput where the frames do not fit
    the schema, and for more than one sample.
    """
    if len(samples) > 1:
        raise BadInput(
            f"{len(samples)} synthetic samples of images were given, but pictures are judged one sample at a time. Give one frame; "
            "on the command line leave evaluate.samples at 1, and evaluate further samples in separate runs."
        )
    chosen = image_classifiers.classifiers(how.models)
    axes = pictures.axes_of(schema, train)
    s, t, v = (
        pictures.pictures_of(frame, schema, axes, role)
        for frame, role in zip((samples[0], train, test), ROLES, strict=True)
    )
    parts = (s, t, v)
    wanted = [target_of(name, axes, schema) for name in (schema.targets if how.targets is None else how.targets)]
    log: list[dict[str, str]] = []
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "images", "targets": {}, "fidelity": {}}
    result |= {"neighbours": {}, "shares": {}, "columns": {}, "not_computed": log}
    result["pictures"] = {"target": None, "classes": []}
    tell = Steps(progress, len(wanted) * len(image_utility.ARMS) * len(chosen) + 4 + how.attacks)

    with image_classifiers.threads(how.threads):
        tell("marginals")
        empty = [role for role, part in zip(ROLES, parts, strict=True) if not part.rows]
        if empty:
            log.append({"metric": "fidelity", "reason": f"there are no {empty[0]} records"})
        else:
            _marginals(axes, wanted, parts, result)
        tell("feature network")
        target, ceiling, space = _space(wanted, parts)
        if empty:
            tell.skip(2)
        else:
            _clouds(space, parts, tell, result)
        for axis in wanted:
            known = ceiling if axis.name == target else None
            _judge_target(axis, parts, chosen, how.seeds, tell, result, known)
        if not wanted:
            log.append({"metric": "utility", "reason": "no target is declared in the schema or given"})
        if how.attacks:
            tell("attack: membership")
            _attack(parts, units_of(train, test, schema.unit), how.claim, result)
        tell.finish()
    reason = "groups are scored for tables only"
    log += [{"metric": f"subgroups.{name}", "reason": reason} for name in dict.fromkeys(how.subgroups)]
    result["about"] = _about(schema, parts, chosen, how.seeds) | how.told
    return result


def _marginals(axes: Sequence[Axis], wanted: Sequence[Axis], parts: Parts, result: dict[str, Any]) -> None:
    """Columns beside the image as in tables; intensities and mean pictures; the samples that the page shows."""
    first = next((axis for axis in wanted if axis.is_classes), None)
    s, t, v = parts
    if axes:
        name = None if first is None else first.name
        result["fidelity"] |= fidelity.total_variation(s, t, v, name)
        result["shares"] = {axis.name: samples.class_shares(axis, parts) for axis in axes if axis.is_classes}
        numbers = {axis.name for axis in axes if not axis.is_classes}
        result["columns"] = {key: entry for key, entry in columns(s, t, v).items() if key in numbers}
    result["fidelity"]["intensities"] = samples.intensities(parts)
    means = samples.mean_pictures(first, parts)
    if means:
        result["fidelity"]["mean_pictures"] = means
    else:
        reason = "no class of the target is in all of the synthetic, training and test records"
        result["not_computed"].append({"metric": "mean_pictures", "reason": reason})
    rng = np.random.default_rng(SHOWN_STREAM)
    shown = samples.by_class(first, parts[0], parts[1], rng)
    result["pictures"] |= {"target": None if first is None else first.name, "classes": shown}


def _space(wanted: Sequence[Axis], parts: Parts) -> tuple[str | None, Fitted | None, Features | None]:
    """The features in which the sets are compared, with the target and the CNN that they come from, if any."""
    s, t, v = parts
    for axis in wanted:
        if image_utility.refusal(axis, t, v) is not None:
            continue
        work = task(axis, s, t, v)
        cnn = image_classifiers.CLASSIFIERS["cnn"]
        ceiling = image_classifiers.fitted(cnn, work.train[0].pixels, work.train[1], len(work.classes), 0)
        found = clouds.of_classifier(axis.name, ceiling, t.pixels)
        if found is not None:
            return axis.name, ceiling, found
    return None, None, clouds.of_pixels(t.pixels) if t.rows > 1 else None


def _clouds(space: Features | None, parts: Parts, tell: Steps, result: dict[str, Any]) -> None:
    s, t, v = (part.pixels for part in parts)
    log = result["not_computed"]
    tell("distances and coverage")
    mapped: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None = None
    if space is None or space.scale == 0:
        reason = "the real training records do not vary in the features by which they would be compared"
        log += [{"metric": metric, "reason": reason} for metric in ("fid", "kid", *clouds.COVERAGE)]
    else:
        mapped = (space(s), space(t), space(v))
        result["fidelity"]["features"] = space.words
        found, lacking = clouds.compare(*mapped)
        result["fidelity"] |= found
        log += lacking
    tell("nearest neighbours")
    rng = np.random.default_rng(NEAR_STREAM)
    near: dict[str, Any] = {"pixels": neighbours.distances(_flat(s), _flat(t), _flat(v), rng)}
    shown = result["pictures"]
    shown["near_pixels"] = samples.beside_neighbours(s, t, _flat, rng)
    if mapped is not None and space is not None:
        near["features"] = neighbours.distances(*mapped, rng)
        shown["near_features"] = samples.beside_neighbours(s, t, space, rng)
    near["copies"] = {"synthetic": neighbours.copies(s, t), "test": neighbours.copies(v, t)}
    near["distinct"] = {"synthetic": neighbours.distinct(s), "train": neighbours.distinct(t)}
    result["neighbours"] = near


def _attack(parts: Parts, units: Codes | None, claim: Mapping[str, Any] | None, result: dict[str, Any]) -> None:
    """By pixels: the features are learned from the training records, which alone moves the attack's AUROC on a release that
    knows nothing (by 0.03 to 0.05 on 599 digits of 8 x 8)."""
    s, t, v = (_flat(part.pixels) for part in parts)
    result["attacks"], lacking = of_vectors(s, t, v, claim=claim, units=units)
    result["not_computed"] += lacking


def _flat(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    small = pictures.shrunk(pixels, image_classifiers.FLAT_SIDE)
    return small.reshape(len(small), int(np.prod(small.shape[1:])))


def _judge_target(
    axis: Axis,
    parts: Parts,
    chosen: tuple[Classifier, ...],
    seeds: int,
    tell: Steps,
    result: dict[str, Any],
    known: Fitted | None,
) -> None:
    log = result["not_computed"]
    reason = image_utility.refusal(axis, parts[1], parts[2])
    if reason is not None:
        log.append({"metric": f"utility.{axis.name}", "reason": reason})
        tell.skip(len(image_utility.ARMS) * len(chosen))
        return
    work = task(axis, *parts)
    log += shortfalls(work)
    result["targets"][axis.name] = image_utility.judge(work, chosen, seeds, tell, known)


def _about(schema: Schema, parts: Parts, chosen: tuple[Classifier, ...], seeds: int) -> dict[str, Any]:
    import torch

    column = schema.image
    versions = {"synthdp": __version__, "torch": torch.__version__}
    return {
        "data": schema.name,
        "rows": dict(zip(("synthetic", "train", "test"), (part.rows for part in parts), strict=True)),
        "image": None if column is None else [column.height, column.width, column.channels],
        "training_rows_at_most": image_classifiers.most_rows(parts[0].pixels.shape[1:]),
        "seeds": list(range(seeds)),
        "models": {model.id: model.label for model in chosen},
        "versions": {**versions, "scikit-learn": sklearn.__version__, "numpy": np.__version__},
    }


# ---- Train on synthetic, test on real, alone: what a recipe asks of many releases.


def accuracies(
    synthetic: pd.DataFrame, test: pd.DataFrame, schema: Schema, *, seeds: int = 1, models: Sequence[str] = MODELS
) -> dict[str, float]:
    """Accuracy on the real test records per model (lr, mlp, cnn) trained on the synthetic ones: the mean over seeds
    0, 1, ..., seeds - 1.

    The column that is predicted is the schema's first target. The same figures as `evaluate`'s tstr. Raises
    BadInput where the frames do not fit the schema, or hold too few records with a known label.
    """
    chosen = image_classifiers.classifiers(models)
    if not schema.targets:
        raise BadInput("target: the schema declares none")
    axes = pictures.axes_of(schema, test)
    axis = target_of(schema.targets[0], axes, schema)
    made = pictures.pictures_of(synthetic, schema, axes, "synthetic")
    real = pictures.pictures_of(test, schema, axes, "real test")
    reason = image_utility.refusal(axis, real, real)
    if reason is not None:
        raise BadInput(f"target {axis.name!r}: {reason}")
    work = task(axis, made, real, real)
    if len(work.synthetic[1]) < MIN_ROWS:
        raise BadInput(f"target {axis.name!r}: {shortfalls(work)[0]['reason']}")
    return {
        model.id: float(
            np.mean(
                [run["accuracy"] for run in image_utility.runs(model, work.synthetic, work.test, work.classes, seeds)]
            )
        )
        for model in chosen
    }
