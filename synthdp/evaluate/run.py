"""`evaluate`: every metric over one set of tables, in the frozen JSON form (schema_version 1)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.evaluate.steps import Progress, Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from synthdp.data.schema import Schema
    from synthdp.evaluate.classifiers import Classifier
    from synthdp.evaluate.tables import Axis, Table

SCHEMA_VERSION = 1
MODELS = ("hgb", "lr", "rf")


def evaluate(
    synthetic: pd.DataFrame,
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    *,
    targets: Sequence[str] | None = None,
    models: Sequence[str] = MODELS,
    seeds: int = 3,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge synthetic rows against the real rows they were made from (train) and held-out real rows (test).

    targets: columns to predict, by default the schema's. models: ids of `classifiers.CLASSIFIERS`. jobs: threads, by
    default every core. The result has the keys schema_version, targets, fidelity, not_computed (a metric that the rows
    cannot define is absent and listed there with its reason; no figure is ever NaN) and about. It holds exact
    statistics of real records: internal, outside epsilon. Raises BadInput where the frames do not fit the schema.

    Records with an image (schema.image) are judged by `images.evaluate`, which has a form of its own (kind "images");
    its models are lr, mlp and cnn, all of them where models is left at the tables' default.
    """
    if schema.image is not None:
        from synthdp.evaluate import images

        names = images.MODELS if tuple(models) == MODELS else models
        return images.evaluate(
            synthetic, train, test, schema, targets=targets, models=names, seeds=seeds, progress=progress
        )
    from synthdp.evaluate import association, classifiers, fidelity, marginals, tables, utility

    chosen = classifiers.classifiers(models)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise BadInput(f"seeds: {seeds!r}; give a whole number of at least 1.")
    axes = tables.axes_of(schema, train)
    s, t, v = (
        tables.table_of(frame, axes, role)
        for frame, role in ((synthetic, "synthetic"), (train, "real training"), (test, "real test"))
    )
    wanted = [_target(name, axes, schema) for name in (schema.targets if targets is None else targets)]
    log: list[dict[str, str]] = []
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "targets": {}, "fidelity": {}, "not_computed": log}
    jobs = jobs or os.cpu_count() or 1
    tell = Steps(progress, len(wanted) * len(utility.ARMS) * len(chosen) + 2 + 2 * seeds)

    empty = [role for role, x in (("synthetic", s), ("real training", t), ("real test", v)) if not x.rows]
    tell("marginals")
    if empty:
        log.append({"metric": "fidelity", "reason": f"there are no {empty[0]} rows"})
    else:
        first = next((axis.name for axis in wanted if axis.is_classes), None)
        result["fidelity"] |= fidelity.total_variation(s, t, v, first)
        result["columns"] = marginals.columns(s, t, v)
        _note_marginals(result["fidelity"], log)
    tell("associations")
    found = None if empty else association.difference(s, t, v)
    if found is not None:
        result["fidelity"]["correlation_difference"] = found
    elif not empty:
        reason = "fewer than two columns vary in the real training rows"
        log.append({"metric": "correlation_difference", "reason": reason})
    result["fidelity"] |= _detection(s, t, v, seeds, jobs, tell, log)
    for axis in wanted:
        _judge_target(axis, (s, t, v), chosen, seeds, jobs, tell, result)
    if not wanted:
        log.append({"metric": "utility", "reason": "no target is declared in the schema or given"})
    tell.finish()
    result["about"] = _about(schema, (s, t, v), chosen, seeds)
    return result


def _judge_target(
    axis: Axis,
    parts: tuple[Table, Table, Table],
    chosen: tuple[Classifier, ...],
    seeds: int,
    jobs: int,
    tell: Steps,
    result: dict[str, Any],
) -> None:
    from synthdp.evaluate import utility

    log = result["not_computed"]
    reason = utility.refusal(axis, parts)
    if reason is not None:
        log.append({"metric": f"utility.{axis.name}", "reason": reason})
        tell.skip(len(utility.ARMS) * len(chosen))
        return
    work = utility.task(axis, *parts)
    log += utility.shortfalls(work)
    result["targets"][axis.name] = utility.judge(work, chosen, seeds, jobs, tell)


def _detection(
    s: Table, t: Table, v: Table, seeds: int, jobs: int, tell: Steps, log: list[dict[str, str]]
) -> dict[str, Any]:
    from synthdp.evaluate.detection import MIN_ROWS, detection_auc
    from synthdp.evaluate.scores import summary

    fewest = min(s.rows, t.rows, v.rows)
    if fewest < MIN_ROWS:
        reason = f"the smallest of the three sets has {fewest} rows; at least {MIN_ROWS} are needed"
        log.append({"metric": "detection_auc", "reason": reason})
        tell.skip(2 * seeds)
        return {}
    found: dict[str, list[float]] = {"synthetic": [], "training": []}
    for name, table in (("synthetic", s), ("training", t)):
        for seed in range(seeds):
            tell(f"detection of {name} rows among test rows")
            found[name].append(detection_auc(table, v, seed, jobs))
    return {"detection_auc": {**summary(found["synthetic"]), "floor": summary(found["training"])}}


def _note_marginals(found: dict[str, Any], log: list[dict[str, str]]) -> None:
    lacking = [ways for ways in (2, 3) if f"tvd_{ways}way" not in found]
    log += [{"metric": f"tvd_{ways}way", "reason": f"there are fewer than {ways} columns"} for ways in lacking]


def _target(name: str, axes: tuple[Axis, ...], schema: Schema) -> Axis:
    for axis in axes:
        if axis.name == name:
            return axis
    column = schema.column(name, "targets")  # raises for a name that the schema does not know
    raise BadInput(f"targets: {name!r} is a column of kind {column.kind}, which nothing can predict; name another.")


def _about(
    schema: Schema, parts: tuple[Table, Table, Table], chosen: tuple[Classifier, ...], seeds: int
) -> dict[str, Any]:
    import numpy
    import sklearn

    from synthdp import __version__

    return {
        "data": schema.name,
        "rows": dict(zip(("synthetic", "train", "test"), (part.rows for part in parts), strict=True)),
        "columns": len(parts[0].axes),
        "seeds": list(range(seeds)),
        "models": {model.id: model.label for model in chosen},
        "versions": {"synthdp": __version__, "scikit-learn": sklearn.__version__, "numpy": numpy.__version__},
    }
