"""Train on synthetic, test on real (TSTR), beside train on real (TRTR) and the floors; Esteban et al. 2017."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate import calibration, subgroups
from synthdp.evaluate.floors import majority, middle
from synthdp.evaluate.intervals import MIN_ROWS as LEAST_ROWS
from synthdp.evaluate.intervals import interval, resamples
from synthdp.evaluate.quiet import QUIET
from synthdp.evaluate.ranks import ranks
from synthdp.evaluate.scores import METRICS, NUMBER_METRICS, RANGES, summary
from synthdp.evaluate.tasks import MIN_ROWS, Task, refusal, shortfalls, task
from synthdp.evaluate.trials import Court

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from synthdp.evaluate.estimators import Model
    from synthdp.evaluate.trials import Run, Trial

__all__ = ["ARMS", "MIN_ROWS", "Task", "judge", "refusal", "shortfalls", "task"]

ARMS = ("tstr", "trtr", "independent")
ARM_LABELS = {"tstr": "trained on synthetic", "trtr": "trained on real", "independent": "floor without relations"}
DRAWS = 200
Arms = dict[str, dict[str, "dict[Run, Trial]"]]


def judge(
    work: Task,
    models: Sequence[Model],
    seeds: int,
    jobs: int,
    step: Callable[[str], None],
    *,
    draws: int = DRAWS,
    columns: Sequence[str] = (),
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """One target's entry of the JSON form and what could not be computed; step is told of every arm and model.

    models: classifiers, or the regressors of a numeric target. draws: bootstrap draws of the test rows, 0 for no
    intervals. columns: those whose groups are scored apart. The sd of a summary is the spread over runs: synthetic
    samples x seeds (the model's own and, for the independent floor, the resampling). jobs: models that run at a time.
    """
    groups, log = subgroups.groups(columns, work)
    again = resamples(len(work.test[1]), draws, len(work.classes), work.units)
    court = Court(work=work, again=again, groups=groups, seeds=seeds)
    arms: Arms = {arm: {} for arm in ARMS}
    for arm, model, found in _all(court, models, jobs, step):
        if isinstance(found, str):
            log.append({"metric": f"{arm}.{work.target}.{model.id}", "reason": found})
        elif found:
            arms[arm][model.id] = found
    told = {arm: {name: _summaries(trials, work) for name, trials in arms[arm].items()} for arm in ARMS}
    constant = court.judge(middle(work.train[1], len(work.test[1])) if work.is_number else _majority(work))
    entry = {
        "kind": "number" if work.is_number else "classes",
        "tstr": told["tstr"],
        "trtr": told["trtr"],
        "floors": {
            "independent": told["independent"],
            "mean" if work.is_number else "majority": _summaries({(0, 0): constant}, work),
        },
        "average": _averages(arms, work),
        "classes": list(work.classes),
        "positive": None if work.positive is None else work.classes[work.positive],
        "rows": {"synthetic": len(work.synthetic[1]), "train": len(work.train[1]), "test": len(work.test[1])},
    }
    log += _beyond(entry, arms, court)
    return entry, log


def _beyond(entry: dict[str, Any], arms: Arms, court: Court) -> list[dict[str, str]]:
    """Ranks, calibration curves and groups, added to the entry where they can be; the others with their reasons."""
    work, log = court.work, []
    agreement, reason = ranks(subgroups.metric_of(work), entry["tstr"], entry["trtr"], arms)
    if agreement is not None:
        entry["ranks"] = agreement
    else:
        log.append({"metric": f"ranks.{work.target}", "reason": str(reason)})
    if work.positive is not None:
        parts = {arm: [t.curve for trials in arms[arm].values() for t in trials.values()] for arm in ("tstr", "trtr")}
        entry["calibration"] = {
            arm: calibration.curve([part for part in each if part is not None]) for arm, each in parts.items() if each
        }
    if court.groups:
        shared = {name for name in arms["tstr"] if name in arms["trtr"]}
        both = {arm: {name: trials for name, trials in arms[arm].items() if name in shared} for arm in ("tstr", "trtr")}
        entry["subgroups"] = {group.column: subgroups.entry(group, work, both) for group in court.groups}
    return log


def _all(
    court: Court, models: Sequence[Model], jobs: int, step: Callable[[str], None]
) -> Iterator[tuple[str, Model, dict[Run, Trial] | str]]:
    """(arm, model, its trials or why there are none), in a fixed order; jobs of them run at a time, each in one thread: more
    than there are cores wait for each other."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    few = min(len(labels) for _, labels in court.work.samples) < MIN_ROWS
    todo = [(arm, model) for arm in ARMS for model in models]

    def run(arm: str, model: Model) -> dict[Run, Trial] | str:
        if arm == "tstr" and few:
            return {}
        try:
            return court.runs(arm, model)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            return f"the model has no answer for these rows ({type(error).__name__})"

    # Quiet around all of them: libraries that save and restore the warning filters must find the same in every thread.
    with QUIET, threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(run, arm, model) for arm, model in todo]
        try:
            for (arm, model), future in zip(todo, waiting, strict=True):
                step(f"{court.work.target}: {ARM_LABELS[arm]}, {model.label.lower()}")
                yield arm, model, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _majority(work: Task) -> Any:
    return majority(work.train[1], len(work.test[1]), len(work.classes))


def _summaries(trials: Mapping[Run, Trial], work: Task) -> dict[str, dict[str, Any]]:
    """One summary per metric over the runs, with its interval; metrics that a run lacks are left out."""
    return _told([trials], work)


def _averages(arms: Arms, work: Task) -> dict[str, dict[str, dict[str, Any]]]:
    """Per arm the mean over the models that every arm has, per run first, so that its sd is the spread over runs."""
    present = [set(found) for found in arms.values() if found]
    shared = [name for name in next((a for a in arms.values() if a), {}) if all(name in names for names in present)]
    return {arm: _told([arms[arm][name] for name in shared], work) for arm in ARMS if arms[arm] and shared}


def _told(models: Sequence[Mapping[Run, Trial]], work: Task) -> dict[str, dict[str, Any]]:
    """metric -> summary of the mean over models: a value per run, an interval over test rows and runs."""
    every = [trial for trials in models for trial in trials.values()]
    smallest = LEAST_ROWS
    if work.positive is not None:
        smallest = int((work.test[1] == work.positive).sum())
        smallest = min(smallest, len(work.test[1]) - smallest)
    result = {}
    for metric in NUMBER_METRICS if work.is_number else METRICS:
        if not all(metric in trial.scores for trial in every):
            continue
        per_run = {run: float(np.mean([trials[run].scores[metric] for trials in models])) for run in models[0]}
        draws = np.mean([trial.draws[metric] for trial in every], axis=0)
        bounds = interval(draws, subgroups.units_of(per_run), RANGES[metric]) if smallest >= LEAST_ROWS else None
        result[metric] = summary(list(per_run.values()), bounds)
    return result
