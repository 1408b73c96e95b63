"""Train on synthetic, test on real (TSTR), beside train on real (TRTR) and the floors; Esteban et al. 2017."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate import subgroups
from synthdp.evaluate.estimators import QUIET, Model, chances, guesses, limited
from synthdp.evaluate.scores import (
    LEAST,
    LEVEL,
    LOWER_IS_BETTER,
    METRICS,
    NUMBER_METRICS,
    RANGES,
    Weights,
    auroc_draws,
    class_draws,
    errors,
    interval,
    number_draws,
    resamples,
    score,
    summary,
    sums,
)
from synthdp.evaluate.scores import MIN_ROWS as LEAST_ROWS
from synthdp.evaluate.scores import curve as calibration_curve
from synthdp.evaluate.subgroups import Group
from synthdp.evaluate.tables import Table
from synthdp.evaluate.tasks import MIN_ROWS, Task

# ---- What a synthetic set must beat: columns without relations, and the answer that never looks.


def independent(train: Table, rng: np.random.Generator) -> Table:
    """As many rows as train, each column resampled on its own: exact one-way marginals and no relation at all."""
    draws = rng.integers(0, train.rows, size=train.values.shape)
    return Table(axes=train.axes, values=np.take_along_axis(train.values, draws, axis=0))


def majority(labels: NDArray[np.int64], rows: int, classes: int) -> NDArray[np.float64]:
    """(rows, classes): probability 1 for the most frequent class of labels (training rows), whatever the record."""
    out = np.zeros((rows, classes))
    out[:, np.bincount(labels, minlength=classes).argmax()] = 1.0
    return out


def middle(values: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """(rows,): the mean of values (training rows), whatever the record: the floor of a numeric target."""
    return np.full(rows, float(values.mean()))


# ---- One model trained on one set of rows and scored on the real test rows, with everything that its predictions tell.


# Each floor's draws have a stream of their own, whatever else uses the seed.
FLOOR_STREAM = 7
Run = tuple[int, int]  # synthetic sample (0 for real rows), seed


@dataclass(frozen=True, kw_only=True)
class Trial:
    """scores: metric -> value. draws: metric -> (draws,) over test rows. curve: calibration sums of a binary target.
    groups: (column, level) -> value and draws of the groups' metric."""

    scores: dict[str, float]
    draws: dict[str, NDArray[np.float64]]
    curve: NDArray[np.float64] | None
    groups: dict[tuple[str, str], tuple[float, NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True)
class TrialSetup:
    """What every trial of a task shares: the task, its bootstrap draws and its groups."""

    work: Task[Table]
    again: Weights
    groups: tuple[Group, ...]
    seeds: int

    def runs(self, arm: str, model: Model) -> dict[Run, Trial]:
        """The trials of one model in one arm: synthetic samples x seeds, or seeds where it trains on real rows; in one thread.

        A model without a random part is fitted once where its training rows are the same. Raises ValueError where the
        model has no answer for these rows.
        """
        found: dict[Run, Trial] = {}
        for sample in range(len(self.work.samples) if arm == "tstr" else 1):
            for seed in range(self.seeds):
                if seed and not model.seeded and arm != "independent":
                    found[sample, seed] = found[sample, 0]
                    continue
                found[sample, seed] = self.judge(self._predict(arm, model, sample, seed))
        return found

    def judge(self, guess: NDArray[np.float64]) -> Trial:
        """Predictions for the test rows, (rows, classes) or (rows,) of a number, as a trial."""
        work, truth = self.work, self.work.test[1]
        if work.is_number:
            scores, draws = errors(truth, guess), number_draws(truth, guess, self.again)
        else:
            scores = score(truth, guess, work.positive)
            draws = class_draws(truth, guess, work.positive, self.again)
        within = {
            (group.column, level.name): self._within(truth[level.inside], guess[level.inside], level.inside)
            for group in self.groups
            for level in group.levels
            if level.reason is None
        }
        curve = None if work.positive is None else sums(truth == work.positive, guess[:, work.positive])
        return Trial(scores=scores, draws=draws, curve=curve, groups=within)

    def _within(
        self, truth: NDArray[Any], guess: NDArray[np.float64], rows: NDArray[np.bool_]
    ) -> tuple[float, NDArray[np.float64]]:
        """auroc (or rmse) of some rows, and its draws; the rows as they are go along as one more draw."""
        again = np.column_stack([np.ones(len(truth), dtype=np.float32), self.again[rows]])
        positive = self.work.positive
        number = self.work.is_number
        found = number_draws(truth, guess, again)["rmse"] if number else auroc_draws(truth, guess, positive, again)
        return float(found[0]), found[1:]

    def _predict(self, arm: str, model: Model, sample: int, seed: int) -> NDArray[np.float64]:
        work = self.work
        table, labels = work.samples[sample] if arm == "tstr" else work.train
        if arm == "independent":
            rng = np.random.default_rng((FLOOR_STREAM, seed))
            table, labels = independent(table, rng), rng.choice(labels, size=len(labels))
        if work.is_number:
            return guesses(model, table, labels, work.test[0], seed=seed, jobs=1)
        return chances(model, table, labels, work.test[0], len(work.classes), seed=seed, jobs=1)


# ---- Do synthetic rows choose the same model as real ones? Kendall's tau between the models' scores, and the regret.


# Two models agree or do not: that is a coin.
MIN_MODELS = 3
STREAM = 11  # of the runs that a draw takes


def ranks(
    metric: str,
    tstr: Mapping[str, Mapping[str, Any]],
    trtr: Mapping[str, Mapping[str, Any]],
    arms: Mapping[str, Mapping[str, Mapping[Run, Trial]]] | None = None,
) -> tuple[dict[str, Any] | None, str | None]:
    """The entry `ranks` of a target, or why there is none. tstr, trtr: model -> metric -> summary.

    kendall: tau-b (Kendall 1945). regret: what the model that synthetic rows put first scores less, on real rows, than
    the one that real rows put first, never below 0. pairs: how many pairs of models are compared. Their intervals, of the
    trials in arms, are percentiles over draws of test rows and of runs; a draw without an order is left out.
    """
    shared = [name for name in tstr if name in trtr and metric in tstr[name] and metric in trtr[name]]
    if len(shared) < MIN_MODELS:
        few = {0: "no model was", 1: "only one model was"}.get(len(shared), f"only {len(shared)} models were")
        return None, f"{few} scored on both synthetic and real training rows; an order needs at least {MIN_MODELS}"
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    made, real = (np.array([sign * arm[name][metric]["mean"] for name in shared]) for arm in (tstr, trtr))
    tau = kendall(made, real)
    if tau is None:
        return None, "all models score the same"
    found: dict[str, Any] = {
        "metric": metric,
        "kendall": tau,
        "pairs": len(shared) * (len(shared) - 1) // 2,
        "best_synthetic": shared[int(made.argmax())],
        "best_real": shared[int(real.argmax())],
        "regret": regret(made, real),
    }
    if arms is not None:
        made, real = (sign * _draws(metric, {name: arms[arm][name] for name in shared}) for arm in ("tstr", "trtr"))
        known = np.isfinite(made + real).all(axis=0)
        pairs = [(kendall(a, b), regret(a, b)) for a, b in zip(made.T[known], real.T[known], strict=True)]
        values = np.array([pair for pair in pairs if pair[0] is not None], dtype=np.float64)
        if len(values) >= max(LEAST, made.shape[1] / 2):
            low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            found |= {
                "kendall_interval": [float(low[0]), float(high[0])],
                "regret_interval": [float(low[1]), float(high[1])],
            }
    return found, None


def _draws(metric: str, models: Mapping[str, Mapping[Run, Trial]]) -> NDArray[np.float64]:
    """(models, draws): scores on drawn test rows, the mean over drawn runs. Runs are drawn as a whole: synthetic samples where
    there are several, else seeds; all models have the same ones."""
    runs = sorted(next(iter(models.values())))
    whole = len({sample for sample, _ in runs}) > 1
    units = np.unique([sample if whole else seed for sample, seed in runs], return_inverse=True)[1]
    # (models, runs, draws)
    scores = np.array([[trials[run].draws[metric] for run in runs] for trials in models.values()], dtype=np.float64)
    count, draws = int(units.max()) + 1, scores.shape[2]
    rng = np.random.default_rng(STREAM)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=draws)[:, units].T.astype(np.float64)
    mean: NDArray[np.float64] = (scores * (weights / weights.sum(axis=0))).sum(axis=1)
    return mean


def regret(made: NDArray[np.float64], real: NDArray[np.float64]) -> float:
    """By how much the best of real is better than what made puts first."""
    return float(real.max() - real[int(made.argmax())])


def kendall(left: NDArray[np.float64], right: NDArray[np.float64]) -> float | None:
    """Kendall's tau-b; None where one side has only ties."""
    pairs = np.triu_indices(len(left), 1)
    a, b = (np.sign(side[:, None] - side)[pairs] for side in (left, right))
    ties = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / ties) if ties > 0 else None


ARMS = ("tstr", "trtr", "independent")
ARM_LABELS = {
    "tstr": "trained on synthetic",
    "trtr": "trained on real",
    "independent": "trained on unrelated columns (floor)",
}
DRAWS = 200
Arms = dict[str, dict[str, "dict[Run, Trial]"]]


def judge(
    work: Task[Table],
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
    setup = TrialSetup(work=work, again=again, groups=groups, seeds=seeds)
    arms: Arms = {arm: {} for arm in ARMS}
    for arm, model, found in _all(setup, models, jobs, step):
        if isinstance(found, str):
            log.append({"metric": f"{arm}.{work.target}.{model.id}", "reason": found})
        elif found:
            arms[arm][model.id] = found
    told = {arm: {name: _told([trials], work) for name, trials in arms[arm].items()} for arm in ARMS}
    labels, rows = work.train[1], len(work.test[1])
    constant = setup.judge(middle(labels, rows) if work.is_number else majority(labels, rows, len(work.classes)))
    entry = {
        "kind": "number" if work.is_number else "classes",
        "tstr": told["tstr"],
        "trtr": told["trtr"],
        "floors": {
            "independent": told["independent"],
            "mean" if work.is_number else "majority": _told([{(0, 0): constant}], work),
        },
        "average": _averages(arms, work),
        "classes": list(work.classes),
        "positive": None if work.positive is None else work.classes[work.positive],
        "rows": {"synthetic": len(work.synthetic[1]), "train": len(work.train[1]), "test": len(work.test[1])},
    }
    log += _beyond(entry, arms, setup)
    return entry, log


def _beyond(entry: dict[str, Any], arms: Arms, setup: TrialSetup) -> list[dict[str, str]]:
    """Ranks, calibration curves and groups, added to the entry where they can be; the others with their reasons."""
    work, log = setup.work, []
    agreement, reason = ranks(subgroups.metric_of(work), entry["tstr"], entry["trtr"], arms)
    if agreement is not None:
        entry["ranks"] = agreement
    else:
        log.append({"metric": f"ranks.{work.target}", "reason": str(reason)})
    if work.positive is not None:
        parts = {arm: [t.curve for trials in arms[arm].values() for t in trials.values()] for arm in ("tstr", "trtr")}
        entry["calibration"] = {
            arm: calibration_curve([part for part in each if part is not None]) for arm, each in parts.items() if each
        }
    if setup.groups:
        shared = {name for name in arms["tstr"] if name in arms["trtr"]}
        both = {arm: {name: trials for name, trials in arms[arm].items() if name in shared} for arm in ("tstr", "trtr")}
        entry["subgroups"] = {group.column: subgroups.entry(group, work, both) for group in setup.groups}
    return log


def _all(
    setup: TrialSetup, models: Sequence[Model], jobs: int, step: Callable[[str], None]
) -> Iterator[tuple[str, Model, dict[Run, Trial] | str]]:
    """(arm, model, its trials or why there are none), in a fixed order; jobs of them run at a time, each in one thread: more
    than there are cores wait for each other."""
    few = min(len(labels) for _, labels in setup.work.samples) < MIN_ROWS
    todo = [(arm, model) for arm in ARMS for model in models]

    def run(arm: str, model: Model) -> dict[Run, Trial] | str:
        if arm == "tstr" and few:
            return {}
        try:
            return setup.runs(arm, model)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            return f"the model failed on these rows ({type(error).__name__})"

    # Quiet around all of them: libraries that save and restore the warning filters must find the same in every thread.
    with QUIET, limited(1, "blas"), ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(run, arm, model) for arm, model in todo]
        try:
            for (arm, model), future in zip(todo, waiting, strict=True):
                step(f"{setup.work.target}: {ARM_LABELS[arm]}, {model.label.lower()}")
                yield arm, model, future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _averages(arms: Arms, work: Task[Table]) -> dict[str, dict[str, dict[str, Any]]]:
    """Per arm the mean over the models that every arm has, per run first, so that its sd is the spread over runs."""
    present = [set(found) for found in arms.values() if found]
    shared = [name for name in next((a for a in arms.values() if a), {}) if all(name in names for names in present)]
    return {arm: _told([arms[arm][name] for name in shared], work) for arm in ARMS if arms[arm] and shared}


def _told(models: Sequence[Mapping[Run, Trial]], work: Task[Table]) -> dict[str, dict[str, Any]]:
    """metric -> summary of the mean over models: a value per run, an interval over test rows and runs. Metrics that a run lacks are left
    out."""
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
