"""What the PATE recipes share: fits by case and seed, every epsilon that there is to report, and the table."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from record import REPORTS, provenance, spread
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from synthdp import Budget, Schema
from synthdp.accounting import pate as figures
from synthdp.pate import PATE
from synthdp.pate.code_features import feature_map
from synthdp.schema.codec import Codec
from synthdp.seal.replay import Recorder

DELTA = 1e-5
ENOUGH = 1e3  # of epsilon, where the aggregator has its noise and the cost is what is asked for
MEASURED = (
    "accuracy", "label_accuracy", "teacher_accuracy", "epsilon", "epsilon_moments", "epsilon_data_dependent", "seconds",
    "cpu_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One row: an aggregator with its own noise (`epsilon` None) or one that is solved for `epsilon`."""

    label: str
    aggregator: Any
    epsilon: float | None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Sensitive records, public ones (their labels serve to judge the votes, and are kept from the fit), and test records."""

    sensitive: pd.DataFrame
    public: pd.DataFrame
    test: pd.DataFrame
    schema: Schema
    target: str


class Remembered:
    """A student that learns equal training sets once: cases whose noisy labels are the same have the same student."""

    def __init__(self, student: Any) -> None:
        self.student = student
        self.seen: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """As the student's."""
        return str(self.student.name)

    def learn(self, training: Any, seed: int) -> Any:
        """From memory, where the training set is known."""
        key = (training.rows.tobytes(), training.targets.tobytes(), len(training.pool), seed)
        if key not in self.seen:
            self.seen.clear()
            self.seen[key] = self.student.learn(training, seed)
        return self.seen[key]

    def restore(self, width: int, classes: int, tensors: Any) -> Any:
        """As the student's."""
        return self.student.restore(width, classes, tensors)


class Once(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once to the same records with the same chances: the cases of a seed share their teachers."""

    fitted: ClassVar[dict[Any, Any]] = {}

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, rows: Any, labels: Any) -> "Once":
        """From memory, where it was done."""
        key = (rows.tobytes(), labels.tobytes(), str(self.estimator.get_params()))
        if key not in self.fitted:
            self.fitted[key] = clone(self.estimator).fit(rows, labels)
        self.model_ = self.fitted[key]
        self.classes_ = self.model_.classes_
        return self

    def predict(self, rows: Any) -> Any:
        """As the classifier's."""
        return self.model_.predict(rows)


def fit_all(
    cases: Sequence[Case],
    pate: PATE,
    data: Data,
    seeds: Iterable[int],
    keep: Path | None = None,
    known: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """A row per case, over all seeds; seeds are the outer loop, so that equal training sets follow each other.

    `keep` is a scratch file of finished fits, from which a recipe that was stopped goes on; without it, `known` has those that need
    not be run anew.
    """
    kept: dict[str, Any] = json.loads(keep.read_text()) if keep is not None and keep.exists() else dict(known or {})
    for seed in seeds:
        Once.fitted.clear()
        for case in cases:
            name = f"{case.label}/{seed}"
            if name not in kept:
                kept[name] = {**one(case, pate, data, seed), "commit": provenance()["commit"]}
                print(case.label, kept[name], flush=True)
                if keep is not None:
                    keep.write_text(json.dumps(kept))
    return [row(case, [kept[f"{case.label}/{seed}"] for seed in seeds]) for case in cases]


def reported(name: str) -> dict[str, Any]:
    """The fits of reports/NAME.json, for `fit_all`; none where there is no such report."""
    path = REPORTS / f"{name}.json"
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    return {
        f"{row['case']}/{run['seed']}": {"commit": report["commit"], **run}
        for row in report["rows"]
        for run in row["runs"]
    }


def row(case: Case, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """A case over its seeds."""
    return {
        "case": case.label,
        "delta": DELTA,
        "seeds": [run["seed"] for run in runs],
        "aggregator": runs[0]["aggregator"],
        "queries": runs[0]["queries"],
        **{name: spread([run[name] for run in runs]) for name in MEASURED},
        "runs": runs,
    }


def one(case: Case, pate: PATE, data: Data, seed: int) -> dict[str, Any]:
    """One fit, a rehearsal: its exact votes are recorded for the internal, data-dependent figure."""
    start, cpu = time.perf_counter(), time.process_time()
    settings = replace(pate, aggregator=case.aggregator, **case.settings)
    recorder = Recorder()
    made = settings.fit(
        data.sensitive,
        schema=data.schema,
        target=data.target,
        public=data.public.drop(columns=data.target),
        budget=Budget(case.epsilon or ENOUGH, DELTA),
        seed=seed,
        recorder=recorder,
    )
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    votes = np.concatenate([bounded for _, bounded, _ in recorder.asked])
    places = made.answers.places
    truth = np.searchsorted(
        made.classes, data.public[data.target].astype(str).to_numpy()[places], sorter=np.argsort(made.classes)
    )
    truth = np.argsort(made.classes)[truth]
    said = made.statement.settings["aggregator"]
    return {
        "seed": seed,
        "queries": len(votes),
        "accuracy": float((made.predict(data.test) == data.test[data.target].to_numpy()).mean()),
        "label_accuracy": float((made.answers.targets.argmax(1) == truth).mean()),
        "teacher_accuracy": float(votes[np.arange(len(truth)), truth].sum() / votes.sum()),
        "epsilon": made.statement.epsilon,
        "epsilon_by_accountant": dict(made.statement.epsilons),
        **data_dependent(votes, said),
        "aggregator": said,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def data_dependent(votes: Any, aggregator: dict[str, Any]) -> dict[str, float]:
    """The papers' own figures: the bound whatever the votes are (moments, or Renyi), and the one for these votes: INTERNAL."""
    queries = len(votes)
    if aggregator["name"] == "LNMax":
        free = figures.lnmax.independent(aggregator["gamma"], queries, DELTA)
        internal = figures.lnmax.dependent(votes, aggregator["gamma"], DELTA)
    else:
        free = figures.gnmax.independent(aggregator["sigma"], queries, DELTA)
        internal = figures.gnmax.dependent(votes, aggregator["sigma"], DELTA)
    return {"epsilon_moments": free.epsilon, "epsilon_data_dependent": internal.epsilon}


def ceiling(pate: PATE, estimator: Any, data: Data, seeds: Iterable[int]) -> dict[str, Any]:
    """Accuracy of the classifier on all sensitive records themselves, without privacy, in the same features."""
    codec = Codec(data.schema)
    place = codec.names.index(data.target)
    mapped = feature_map(pate.features, codec, data.target)
    train, test = (codec.encode(frame) for frame in (data.sensitive, data.test))
    found = []
    for seed in seeds:
        model = clone(estimator).set_params(random_state=seed).fit(mapped(train), train[:, place])
        found.append(float((model.predict(mapped(test)) == test[:, place]).mean()))
    return spread(found)


def table(result: dict[str, Any], title: str, words: str) -> str:
    """The floors and the cases as Markdown."""
    floors = [
        (label, shown(value, 3) if isinstance(value, dict) else f"{value:.3f}")
        for label, value in (
            ("the most frequent class", result.get("most_frequent")),
            ("the student on all sensitive records, no privacy", result.get("non_private")),
        )
        if value is not None
    ]
    lines = [
        f"# {title}",
        "",
        words,
        "",
        "| case | queries | epsilon (stated) | by the paper's bound | data-dependent (internal) | student, accuracy | noisy labels | one "
        "teacher | CPU seconds | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(f"| {label} | - | - | - | - | {accuracy} | - | - | - | - |" for label, accuracy in floors),
    ]
    for row in result["rows"]:
        cells = [
            shown(row["epsilon"], 2),
            shown(row["epsilon_moments"], 2),
            shown(row["epsilon_data_dependent"], 2),
            *(shown(row[name], 3) for name in ("accuracy", "label_accuracy", "teacher_accuracy")),
            shown(row["cpu_seconds"], 0),
        ]
        lines.append(f"| {row['case']} | {row['queries']} | {' | '.join(cells)} | {len(row['seeds'])} |")
    commits = sorted({run.get("commit", result["commit"]) for row in result["rows"] for run in row["runs"]})
    machine = f"{result['processor']}, {result['cores']} cores; commit {', '.join(commits)}"
    return "\n".join(
        [
            *lines,
            "",
            "The stated epsilon holds whatever the votes are, by the tightest accountant; the paper's bound is the moments "
            "accountant without looking at the votes (GNMax: Renyi, 2018). The data-dependent epsilon is what the papers "
            "report: it is itself a function of the records, so it is no promise that may be published; here it is of a "
            "public data set. Noisy labels and one teacher: the share of them that is right, on the queries asked. "
            "Mean ± standard deviation over the seeds of the fit; one seed is a partition, the teachers, the "
            "queries, the noise and the student. The cases of a seed share partition and teachers, which are trained for the "
            "first of them only, as is a student that would learn the very labels of the case above it: the CPU seconds "
            "of the others do not hold that.",
            "",
            f"delta {DELTA:g}; unit: one record; {machine}.",
            "",
        ]
    )


def shown(figure: dict[str, Any], digits: int) -> str:
    """Mean ± standard deviation; without it where it is 0."""
    spread_of = f" ± {figure['sd']:.{digits}f}" if figure["sd"] > 0 else ""
    return f"{figure['mean']:.{digits}f}{spread_of}"
