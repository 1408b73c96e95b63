"""`evaluate`: every metric over one set of tables, in the frozen JSON form (schema_version 2)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.evaluate.steps import Progress, Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from synthdp.data.schema import Schema
    from synthdp.evaluate.estimators import Model
    from synthdp.evaluate.reading import Parts
    from synthdp.evaluate.tables import Axis

SCHEMA_VERSION = 2
BOOTSTRAP = 200


def evaluate(
    synthetic: pd.DataFrame | Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    *,
    targets: Sequence[str] | None = None,
    models: str | Sequence[str] | None = None,
    seeds: int = 3,
    bootstrap: int = BOOTSTRAP,
    subgroups: Sequence[str] = (),
    attacks: bool = True,
    claim: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge synthetic rows against the real rows they were made from (train) and held-out real rows (test).

    synthetic: a frame, or several samples of one release; utility is judged on each, the rest on the first.
    targets: columns to predict, by default the schema's: classes, or numbers. models: ids of `classifiers.CLASSIFIERS`
    or a set of them: `default` (where None), `quick` or `paper`; a numeric target has the regressors of these ids.
    seeds: repetitions. bootstrap: draws of the test rows behind each interval of 95 %; 0 gives none. subgroups: columns
    whose groups are scored apart. attacks: whether to attack the synthetic rows. claim: {"epsilon", "delta", "unit"} of
    the release, for the bound beside each attack. jobs: threads, by default every core.

    The result has the keys schema_version, targets, fidelity, columns, attacks, not_computed (a metric that the rows
    cannot define is absent and listed there with its reason; no figure is ever NaN) and about. A column that synthetic
    rows lack, or hold in a form that cannot be read, is listed there and left out of all metrics. It holds exact
    statistics of real records: internal, outside epsilon. Raises BadInput where the real frames do not fit the schema.

    Records with an image (schema.image) are judged by `images.evaluate`, which has a form of its own (kind "images"),
    takes one sample and knows neither intervals nor groups; its models are lr, mlp and cnn, all by default, lr in `quick`.
    """
    import pandas as pd

    samples = [synthetic] if isinstance(synthetic, pd.DataFrame) else list(synthetic)
    _check(samples, seeds, bootstrap, jobs)
    jobs = jobs or os.cpu_count() or 1
    if schema.image is not None:
        from synthdp.evaluate.pictured import pictured

        return pictured(samples, train, test, schema, targets, models, seeds, subgroups, claim, jobs, progress)
    from synthdp.evaluate import classifiers, faithfulness, reading, utility

    chosen = classifiers.classifiers(models)
    parts = reading.parts_of(samples, train, test, schema)
    log = list(parts.log)
    wanted = _targets(schema, schema.targets if targets is None else targets, parts, log)
    here = _present(chosen, log if wanted else [])
    plans = [(axis, _models(axis, here)) for axis in wanted]
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "targets": {}, "fidelity": {}, "not_computed": log}
    fits = sum(len(utility.ARMS) * len(run) for _, run in plans)
    tell = Steps(progress, fits + faithfulness.steps(seeds) + (_attack_steps() if attacks else 0))

    faithfulness.judge(parts.three, (samples[0], train, test), schema, wanted, seeds, jobs, tell, result)
    for axis, run in plans:
        _judge_target(axis, run, parts, seeds, jobs, bootstrap, subgroups, tell, result)
    if not wanted:
        log.append({"metric": "utility", "reason": "no target is declared in the schema or given"})
    if attacks:
        _attack(parts, [axis.name for axis in wanted], subgroups, claim, jobs, tell, result)
    tell.finish()
    result["about"] = _about(schema, parts, here, plans, seeds, bootstrap, claim)
    return result


def _check(samples: Sequence[Any], seeds: object, bootstrap: object, jobs: object) -> None:
    if not samples:
        raise BadInput("synthetic: no sample is given; give a frame or a list of frames.")
    for name, value, least in (
        ("seeds", seeds, 1),
        ("bootstrap", bootstrap, 0),
        ("jobs", 1 if jobs is None else jobs, 1),
    ):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BadInput(f"{name}: {value!r}; give a whole number of at least {least}.")


def _targets(schema: Schema, names: Sequence[str], parts: Parts, log: list[dict[str, str]]) -> list[Axis]:
    """The axes of the targets; one that the synthetic rows lack is logged."""
    lost = {entry["metric"].removeprefix("columns.") for entry in parts.log}
    wanted = []
    for name in dict.fromkeys(names):
        if name in lost:
            reason = "the synthetic rows lack the target, or hold it in a form that cannot be read"
            log.append({"metric": f"utility.{name}", "reason": reason})
        else:
            wanted.append(_target(name, parts.axes, schema))
    return wanted


def _target(name: str, axes: tuple[Axis, ...], schema: Schema) -> Axis:
    for axis in axes:
        if axis.name == name:
            return axis
    column = schema.column(name, "targets")  # raises for a name that the schema does not know
    raise BadInput(f"targets: {name!r} is a column of kind {column.kind}, which nothing can predict; name another.")


def _present(chosen: Sequence[Model], log: list[dict[str, str]]) -> tuple[Model, ...]:
    """Those of the models whose library is installed; the others are logged."""
    from synthdp.evaluate.classifiers import absent

    reasons = {model.id: absent(model) for model in chosen}
    log += [{"metric": f"utility.{name}", "reason": reason} for name, reason in reasons.items() if reason]
    return tuple(model for model in chosen if reasons[model.id] is None)


def _models(axis: Axis, chosen: tuple[Model, ...]) -> tuple[Model, ...]:
    from synthdp.evaluate.regressors import regressors

    return chosen if axis.is_classes else regressors(chosen)


def _judge_target(
    axis: Axis,
    run: tuple[Model, ...],
    parts: Parts,
    seeds: int,
    jobs: int,
    bootstrap: int,
    subgroups: Sequence[str],
    tell: Steps,
    result: dict[str, Any],
) -> None:
    from synthdp.evaluate import utility

    log = result["not_computed"]
    reason = utility.refusal(axis, (parts.fewest, parts.train, parts.test))
    if not run:
        reason = "none of the chosen models can predict it; name hgb, lr or rf"
    if reason is not None:
        log.append({"metric": f"utility.{axis.name}", "reason": reason})
        tell.skip(len(utility.ARMS) * len(run))
        return
    units = None if parts.units is None else parts.units[1]
    work = utility.task(axis, parts.samples, parts.train, parts.test, units)
    log += utility.shortfalls(work)
    entry, lacking = utility.judge(work, run, seeds, jobs, tell, draws=bootstrap, columns=subgroups)
    result["targets"][axis.name] = entry
    log += lacking


def _attack_steps() -> int:
    from synthdp.evaluate import attacks

    return len(attacks.NAMES)


def _attack(
    parts: Parts,
    targets: Sequence[str],
    sensitive: Sequence[str],
    claim: Mapping[str, Any] | None,
    jobs: int,
    tell: Steps,
    result: dict[str, Any],
) -> None:
    from synthdp.evaluate import attacks

    s, t, v = parts.three
    known = {axis.name for axis in parts.axes}
    result["attacks"], lacking = attacks.run(
        s,
        t,
        v,
        targets=targets,
        claim=claim,
        step=tell,
        jobs=jobs,
        sensitive=[name for name in sensitive if name in known],
        units=parts.units,
    )
    result["not_computed"] += lacking


def _about(
    schema: Schema,
    parts: Parts,
    chosen: tuple[Model, ...],
    plans: Sequence[tuple[Axis, tuple[Model, ...]]],
    seeds: int,
    bootstrap: int,
    claim: Mapping[str, Any] | None,
) -> dict[str, Any]:
    import numpy
    import sklearn

    from synthdp import __version__

    labels = {model.id: model.label for _, run in plans for model in run} | {model.id: model.label for model in chosen}
    numeric = [axis for axis, _ in plans if not axis.is_classes]
    about: dict[str, Any] = {
        "data": schema.name,
        "rows": dict(zip(("synthetic", "train", "test"), (part.rows for part in parts.three), strict=True)),
        "columns": len(parts.axes),
        "samples": len(parts.samples),
        "seeds": list(range(seeds)),
        "bootstrap": bootstrap,
        "models": labels,
        "limits": {model.id: model.note for model in chosen},
        "versions": {"synthdp": __version__, "scikit-learn": sklearn.__version__, "numpy": numpy.__version__},
    }
    if numeric:
        from synthdp.evaluate.regressors import regressors

        about["regressors"] = {model.id: model.label for model in regressors(chosen)}
        about["regressor_limits"] = {model.id: model.note for model in regressors(chosen)}
    if claim is not None:
        about["claim"] = plain(claim)
    return about


def plain(claim: Mapping[str, Any]) -> dict[str, Any]:
    """A claim as JSON can hold it: an infinite epsilon is None."""
    epsilon = claim.get("epsilon")
    finite = isinstance(epsilon, int | float) and epsilon < float("inf")
    return {"epsilon": epsilon if finite else None, "delta": claim.get("delta"), "unit": claim.get("unit", "record")}
