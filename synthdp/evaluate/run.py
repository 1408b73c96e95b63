"""`evaluate`: every metric over one set of tables, in the frozen JSON form (schema_version 2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import NDArray

from synthdp import __version__
from synthdp.errors import BadInput
from synthdp.evaluate import (
    association,
    attacks,
    courses,
    faithfulness,
    fidelity,
    findings,
    history_fidelity,
    images,
    numbers_by_code,
    survival,
    tasks,
    utility,
)
from synthdp.evaluate.attacks import whole_histories
from synthdp.evaluate.courses import Histories
from synthdp.evaluate.estimators import Model, absent, classifiers, regressors
from synthdp.evaluate.judging_options import JudgingOptions, Progress, Steps
from synthdp.evaluate.survival import Event
from synthdp.evaluate.tables import Axis, Parts, Table, clamped, parts_of, target_of, unit_codes
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Datetime
from synthdp.schema.joined_tables import Joined
from synthdp.schema.linked_tables import once
from synthdp.schema.schema import Schema

SCHEMA_VERSION = 2
ROLES = ("synthetic", "train", "test")


def evaluate(
    synthetic: pd.DataFrame | Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Judge synthetic rows against the real rows they were made from (train) and held-out real rows (test).

    synthetic: a frame, or several samples of one release; utility is judged on each, the rest on the first.
    options: those of `JudgingOptions`, which the command line has too: models, seeds, targets, bootstrap, subgroups, survival, attacks;
    and claim ({"epsilon", "delta", "unit", "relation", "curve"} of the release, for the bound beside each attack; curve: further
    (delta, epsilon) that hold; clamped: whether its fit took cells that cannot be read as missing, as is then done here) and jobs
    (threads). A target may be classes or numbers; a numeric one is judged by the regressors with the
    models' ids.

    The result has the keys schema_version, targets, fidelity, columns, attacks, histories (where the schema has an order: see
    `history_fidelity`, `courses` and `survival`), not_computed (a metric that the rows
    cannot define is absent and listed there with its reason; no figure is ever NaN) and about. A column that synthetic
    rows lack, or hold in a form that cannot be read, is listed there and left out of all metrics. It holds exact
    statistics of real records: internal, outside epsilon. Raises BadInput where the real frames do not fit the schema.

    Records with an image (schema.image) are judged by `images.evaluate`, which has a form of its own (kind "images"),
    takes one sample and knows neither intervals nor groups; its models are lr, mlp and cnn, all by default, lr in `quick`.
    """
    if schema.tables:
        raise BadInput(
            "the schema describes linked tables: synthdp.evaluate.evaluate_tables(tables, train, test, schema) judges them"
        )
    samples = [synthetic] if isinstance(synthetic, pd.DataFrame) else list(synthetic)
    if not samples:
        raise BadInput("synthetic: the list of samples is empty; give a frame or a list of frames.")
    how = JudgingOptions.of(options)
    if schema.image is not None:
        return images.evaluate(samples, train, test, schema, how, progress)
    return judge(samples, train, test, schema, how, progress)


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """One evaluation of tables while it runs: what is judged, how, and what was found so far."""

    parts: Parts
    how: JudgingOptions
    tell: Steps
    result: dict[str, Any]
    sets: dict[str, Histories] | None  # of a schema with an order, whose columns for that synthetic rows have

    def lack(self, metric: str, reason: str) -> None:
        self.result["not_computed"].append({"metric": metric, "reason": reason})


def judge(
    samples: Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    how: JudgingOptions,
    progress: Progress | None,
    linked: tuple[Schema, Sequence[Joined]] | None = None,
) -> dict[str, Any]:
    """`evaluate`, of tables. `linked`: the rows are visits of linked tables of that schema, which are joined (synthetic, train, test)."""
    whole = schema if linked is None else linked[0]
    events = survival.events_of(how.survival, whole)
    chosen = classifiers(how.models)
    given = (train, test)
    if how.claim is not None and how.claim.get("clamped"):
        train, test = (clamped(frame, schema) for frame in given)
    parts = parts_of(samples, train, test, faithfulness.as_kept(schema, samples), given)
    log = list(parts.log)
    wanted = _targets(schema, schema.targets if how.targets is None else how.targets, parts, log)
    here = _present(chosen, log if wanted else [])
    plans = [(axis, here if axis.is_classes else regressors(here)) for axis in wanted]
    fits = sum(len(utility.ARMS) * len(run) for _, run in plans)
    frames = (samples[0], train, test)
    sets = None if schema.order is None else _sets(frames, schema, parts, linked)
    named = (*attacks.NAMES, *(attacks.NAMES_OF_PEOPLE if sets else ()))
    total = fits + faithfulness.steps(how.seeds) + (len(named) if how.attacks else 0)
    result: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "targets": {}, "fidelity": {}, "not_computed": log}
    hearing = Hearing(parts=parts, how=how, tell=Steps(progress, total), result=result, sets=sets)

    faithfulness.judge(parts.three, frames, schema, wanted, how.seeds, how.threads, hearing.tell, result)
    if apart := result["fidelity"].get("correlation_difference"):
        apart |= beyond_chance(apart, parts.three, frames, whole)
    owners = owners_of(frames, whole)
    if calendar := calendars(parts.three, owners, whole):
        result["fidelity"]["calendar"] = calendar
    if whole.tables:
        each = zip(frames, parts.three, owners.values(), strict=True)
        visits = dict(zip(ROLES, map(numbers_by_code.Visits._make, each), strict=True))
        result["fidelity"]["numbers_by_code"] = numbers_by_code.related(visits, whole)
    for name, each in result["fidelity"].get("numbers", {}).items():
        if form := faithfulness.time_of_day(whole, name):
            each["time"] = form
        rows = {role: table.column(name) for role, table in zip(ROLES, parts.three, strict=True)}
        known = {role: (held[~np.isnan(held)], owners[role][~np.isnan(held)]) for role, held in rows.items()}
        if shift := association.shift(known):
            each["shift"] = shift
    for axis, run in plans:
        _judge_target(hearing, axis, run)
    if not wanted:
        hearing.lack("utility", "no target is declared in the schema or given")
    if schema.order is not None:
        _histories(hearing, frames, schema, whole, events)
    if how.attacks:
        _attack(hearing, [axis.name for axis in wanted])
        if sets is not None:
            _attack_people(hearing, sets, whole, [axis.name for axis in wanted])
    hearing.tell.finish()
    result["about"] = _about(hearing, schema, here, plans)
    return result


def beyond_chance(
    apart: Mapping[str, Any], three: tuple[Table, Table, Table], frames: Sequence[pd.DataFrame], schema: Schema
) -> dict[str, list[list[str]]]:
    """Of the pairs of columns in `association.difference` of these tables, which a page can name, those that synthetic rows `invented`,
    and those that were lost `by_chance`, as far as anyone can tell."""
    tables = dict(zip(ROLES, map(association.ranked, association.alike(*three)), strict=True))
    owners = owners_of(frames, schema)
    below = {column.name for column, places in once(schema) if places} if schema.tables else set()
    told = [
        ((one, other), {role: apart[role][i][j] for role in ROLES})
        for i, other in enumerate(apart["names"])
        for j, one in enumerate(apart["names"][:i])
        if findings.pair_in_words(one, other, below) is not None
    ]

    def rows(pair: tuple[str, str], role: str) -> association.Rows:
        first, second = map(tables[role].index, pair)
        return association.pair_of(tables[role], first, second, owners[role])

    return {
        "invented": [[*pair] for pair in association.invented(told, rows)],
        "by_chance": [[*pair] for pair in association.by_chance(told, rows)],
    }


def owners_of(frames: Sequence[pd.DataFrame], schema: Schema) -> dict[str, NDArray[np.int64]]:
    """(rows,) whose each row of a set is; each somebody else's where no column tells."""
    return {
        role: unit_codes(frame, frame.iloc[:0], str(schema.unit))[0] if schema.unit in frame else np.arange(len(frame))
        for role, frame in zip(ROLES, frames, strict=True)
    }


def calendars(three: Sequence[Table], owners: Mapping[str, NDArray[np.int64]], schema: Schema) -> list[dict[str, Any]]:
    """`fidelity.calendar` of the dates of rows; those of people count once."""
    found: list[dict[str, Any]] = []
    for axis in three[0].axes:
        column = schema.column(axis.name) if axis.date else None
        if isinstance(column, Datetime):
            dates = {role: (table.column(axis.name), owners[role]) for role, table in zip(ROLES, three, strict=True)}
            if axis.name in schema.per_unit:
                once_each = {role: np.unique(owner, return_index=True)[1] for role, (_, owner) in dates.items()}
                dates = {role: (days[once_each[role]], owner[once_each[role]]) for role, (days, owner) in dates.items()}
            found += fidelity.calendar(axis.name, dates, hours=column.resolution != "day")
    return found


def _targets(schema: Schema, names: Sequence[str], parts: Parts, log: list[dict[str, str]]) -> list[Axis]:
    """The axes of the targets; one that the synthetic rows lack is logged."""
    lost = {entry["metric"].removeprefix("columns.") for entry in parts.log}
    wanted = []
    for name in dict.fromkeys(names):
        if name in lost:
            reason = "the synthetic rows lack the target, or have it in a form that cannot be read"
            log.append({"metric": f"utility.{name}", "reason": reason})
        else:
            wanted.append(target_of(name, parts.axes, schema))
    return wanted


def _present(chosen: Sequence[Model], log: list[dict[str, str]]) -> tuple[Model, ...]:
    """Those of the models whose library is installed; the others are logged."""
    reasons = {model.id: absent(model) for model in chosen}
    log += [{"metric": f"utility.{name}", "reason": reason} for name, reason in reasons.items() if reason]
    return tuple(model for model in chosen if reasons[model.id] is None)


def _judge_target(hearing: Hearing, axis: Axis, run: tuple[Model, ...]) -> None:
    parts, how, result = hearing.parts, hearing.how, hearing.result
    reason = tasks.refusal(axis, parts.train, parts.test)
    if len(parts.axes) < 2:
        reason = "there is no column to predict the target from"
    if not run:
        reason = "none of the chosen models can predict it; name hgb, lr or rf"
    if reason is not None:
        hearing.lack(f"utility.{axis.name}", reason)
        hearing.tell.skip(len(utility.ARMS) * len(run))
        return
    units = None if parts.units is None else parts.units[1]
    work = tasks.task(axis, parts.samples, parts.train, parts.test, units)
    entry, lacking = utility.judge(
        work, run, how.seeds, how.threads, hearing.tell, draws=how.bootstrap, columns=how.subgroups
    )
    result["targets"][axis.name] = entry
    result["not_computed"] += [*tasks.shortfalls(work), *lacking]


def _sets(
    frames: tuple[pd.DataFrame, ...], schema: Schema, parts: Parts, linked: tuple[Schema, Sequence[Joined]] | None
) -> dict[str, Histories] | None:
    """The three sets as histories; None where synthetic rows do not say whose they are or in which order they stand."""
    if schema.order not in [axis.name for axis in parts.axes] or any(schema.unit not in frame for frame in frames):
        return None
    whole = schema if linked is None else linked[0]
    rows = [(each.frame, each.there) for each in linked[1]] if linked else []
    rows = rows or [(frame, np.ones(len(frame), np.bool_)) for frame in frames]
    roles = {"synthetic": "synthetic", "train": "real training", "test": "real test"}
    return {
        name: Histories.of(frame, there, whole, parts.axes, role)
        for (name, role), (frame, there) in zip(roles.items(), rows, strict=True)
    }


def _histories(
    hearing: Hearing,
    frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    schema: Schema,
    whole: Schema,
    events: Sequence[Event],
) -> None:
    lacking = [name for name in schema.names if name not in frames[0]]
    if lacking:
        hearing.lack("histories", f"the synthetic rows lack {lacking[0]!r}")
        return
    seen = history_fidelity.as_seen(schema, frames[0], frames[1]).counting()
    found, codes = history_fidelity.judge(*frames, seen), Codec(seen)
    for name in schema.targets:
        if name not in (*schema.per_unit, schema.order, *found["told"]):
            two = codes.sizes[codes.names.index(name)] == 2
            few = f"a set of rows has fewer than {history_fidelity.LEAST_RECORDS} records of one of its classes"
            reason = few if two else "it does not have exactly two values, or may be missing"
            hearing.lack(f"histories.told.{name}", f"{name!r} is not predicted from the past: {reason}")
    if hearing.sets is not None:
        types = courses.Types.of(whole, hearing.parts.axes)
        if types is None:
            hearing.lack(
                "histories.types",
                "visits have no categorical, ordinal or boolean column that could tell their types apart",
            )
        found |= courses.judge(hearing.sets, whole, types)
        if found["onward"] is None:
            reason = "in one of the sets of rows nobody has two records, or no column of a record varies"
            hearing.lack("histories.onward", reason)
        found["survival"], lost = survival.judge(hearing.sets, events, whole)
        hearing.result["not_computed"] += lost
    hearing.result["histories"] = found


def _attack(hearing: Hearing, targets: Sequence[str]) -> None:
    parts, how = hearing.parts, hearing.how
    known = {axis.name for axis in parts.axes}
    hearing.result["attacks"], lacking = attacks.run(
        *parts.three,
        targets=targets,
        claim=how.claim,
        step=hearing.tell,
        jobs=how.threads,
        sensitive=[name for name in how.subgroups if name in known],
        units=parts.units,
    )
    hearing.result["not_computed"] += lacking


def _attack_people(hearing: Hearing, sets: Mapping[str, Histories], schema: Schema, targets: Sequence[str]) -> None:
    how = hearing.how
    made, train, test = (whole_histories.of_people(each, schema) for each in sets.values())
    found, lacking = attacks.run(
        made,
        train,
        test,
        targets=whole_histories.secrets(made, targets),
        claim=how.claim,
        step=hearing.tell,
        jobs=how.threads,
        units=unit_codes(sets["train"].names, sets["test"].names, str(schema.unit)),
        of_people=True,
    )
    hearing.result["attacks"] += found
    hearing.result["not_computed"] += lacking


def _about(
    hearing: Hearing, schema: Schema, chosen: tuple[Model, ...], plans: Sequence[tuple[Axis, tuple[Model, ...]]]
) -> dict[str, Any]:
    parts, how = hearing.parts, hearing.how
    further = faithfulness.limits() | (attacks.LIMITS if how.attacks else {})
    about: dict[str, Any] = {
        "data": schema.name,
        "rows": dict(zip(("synthetic", "train", "test"), (part.rows for part in parts.three), strict=True)),
        "columns": len(parts.axes),
        "samples": len(parts.samples),
        "seeds": list(range(how.seeds)),
        "bootstrap": how.bootstrap,
        "models": {model.id: model.label for run in (*(run for _, run in plans), chosen) for model in run},
        "limits": {model.id: model.note for model in chosen} | further,
        "versions": {"synthdp": __version__, "scikit-learn": sklearn.__version__, "numpy": np.__version__},
    }
    if parts.overlap is not None:
        about["overlap"] = parts.overlap
    if not all(axis.is_classes for axis, _ in plans):
        about["regressors"] = {model.id: model.label for model in regressors(chosen)}
        about["regressor_limits"] = {model.id: model.note for model in regressors(chosen)}
    return about | how.told
