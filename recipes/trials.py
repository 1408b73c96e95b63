"""Fits that are counted once: each (data set, generator, settings, epsilon, seed) runs in a process of its own and is kept.

A recipe that is stopped, or that a generator was added to, runs only what its scratch file lacks; where there is none, what its
report lacks. Neither knows the code: after a change that matters, take the generator's trials out of it with `forget`.
"""

import json
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from record import REPORTS, provenance, spread

from synthdp import Budget, Synthesizer
from synthdp.generators import names

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.sets.named import Named

Figures = dict[str, Any]
REAL = "real"  # in the place of a generator: the real training rows


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One fit, or none of `generator` real. `label` is the report's name for it."""

    data: str
    label: str
    generator: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    seed: int = 0

    @property
    def key(self) -> str:
        """What the scratch file knows it by: all but the label."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "label"}, sort_keys=True)


def alike(seeds: int, **about: Any) -> list[Trial]:
    """The same trial over so many seeds."""
    return [Trial(seed=seed, **about) for seed in range(seeds)]


def rows_of(
    trial: Trial, chosen: "Named", keep: Path | None = None, limit: float | None = None
) -> tuple["pd.DataFrame", Figures]:
    """As many rows as the training part has, synthetic or real, and what they cost: seconds, epsilon. The release is written
    to the folder `keep`. Raises `TimeoutError` where a fit takes more than `limit` seconds of CPU."""
    if trial.generator == REAL or trial.epsilon is None or trial.delta is None:
        return chosen.train, {}
    start, cpu = time.perf_counter(), time.process_time()
    budget = Budget(trial.epsilon, trial.delta)
    made = Synthesizer(trial.generator, schema=chosen.schema, budget=budget, **trial.settings)
    with at_most(limit):
        release = made.fit(chosen.train, seed=trial.seed)
    figures = {
        "epsilon_spent": release.statement.epsilon,
        "fit_seconds": time.perf_counter() - start,
        "fit_cpu_seconds": time.process_time() - cpu,
        "fit_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if keep is not None:
        release.save(keep, force=True)
    return release.sample(len(chosen.train), seed=trial.seed), figures


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` once this process has used so many seconds of CPU; where it does not listen (compiled code), the
    system ends it after twice as many. Of the main thread only."""
    if seconds is None:
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(too_long(seconds))

    before = signal.signal(signal.SIGPROF, late)
    allowed, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + 2 * seconds) + 1, most))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, most))
        signal.signal(signal.SIGPROF, before)


def too_long(seconds: float) -> str:
    """How a report says that a fit was stopped."""
    return f"the fit took more than {seconds / 60:g} minutes of CPU and was stopped"


def kept(
    trials: Iterable[Trial], run: Callable[[Trial], Figures], scratch: Path, special: Iterable[str] = ()
) -> dict[str, Figures]:
    """key -> figures of every trial whose generator is there; runs those that the scratch file lacks, one at a time.

    `special`: names in the place of a generator that `run` knows by itself.
    A process that the system ends (memory) is kept as {"broken": why}; an error of a fit is the recipe's.
    """
    known = json.loads(scratch.read_text(encoding="utf-8")) if scratch.exists() else {}
    origin = provenance()
    present = {REAL, *special, *names()}
    for trial in trials:
        if trial.generator not in present:
            print(f"left out: there is no generator {trial.generator} yet", flush=True)
        elif trial.key not in known:
            known[trial.key] = {**_apart(trial, run), "seed": trial.seed, **origin}
            save(known, scratch)
            print(trial.data, trial.label, trial.epsilon, trial.seed, _short(known[trial.key]), flush=True)
    return known


def recalled(
    held: Iterable[tuple[Any, Iterable[Figures]]], groups: Mapping[Any, Iterable[Trial]]
) -> dict[str, Figures]:
    """key -> figures of the trials that a report holds: (place, runs) of its rows, where `groups` has the trials of a place."""
    found = {}
    for place, runs in held:
        by_seed = {trial.seed: trial.key for trial in groups[place]}
        found |= {by_seed[run["seed"]]: run for run in runs}
    return found


def held(report: Figures) -> Iterator[tuple[tuple[str, float | None], list[Figures]]]:
    """((generator, epsilon), runs) of a report's `rows`, and of its `broken` fits."""
    for row in report.get("rows", ()):
        yield (row["generator"], row["epsilon"]), row["runs"]
    for lost in report.get("broken", ()):
        yield (lost["generator"], lost["epsilon"]), [{"broken": lost["reason"], "seed": lost["seed"]}]


def begin(scratch: Path, name: str, groups: Mapping[Any, Any]) -> None:
    """Where there is no scratch file, begin one with what the report holds; where it has several tables, `groups` are by table."""
    if not scratch.exists():
        report = report_of(name)
        known = recalled(held(report), groups)
        for table in report.get("tables", ()):
            known |= recalled(held(table), groups[table["data"]])
        save(known, scratch)


def report_of(name: str) -> Figures:
    """reports/NAME.json as it is committed; empty where there is none."""
    path = REPORTS / f"{name}.json"
    found: Figures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def forget(
    generator: str, scratch: Path, data: Iterable[str] | None = None, epsilons: Iterable[float] | None = None
) -> int:
    """Take a generator's trials out of the scratch file, all or those of some data sets and epsilons; how many there were."""
    known = json.loads(scratch.read_text(encoding="utf-8")) if scratch.exists() else {}
    asked = {"generator": {generator}, "data": data and {*data}, "epsilon": epsilons and {*epsilons}}
    left = {
        key: figures
        for key, figures in known.items()
        if not all(allowed is None or json.loads(key)[name] in allowed for name, allowed in asked.items())
    }
    save(left, scratch)
    return len(known) - len(left)


def together(trials: Iterable[Trial], known: Mapping[str, Figures], figures: Iterable[str]) -> Figures | None:
    """Mean and spread over the seeds of alike trials, as many as have run; None where none has."""
    wanted = list(trials)
    runs = [known[trial.key] for trial in wanted if "broken" not in known.get(trial.key, {"broken": "not run"})]
    if not runs:
        return None
    shared = {name: spread([run[name] for run in runs]) for name in figures if all(name in run for run in runs)}
    return {
        **shared,
        "seeds": [run["seed"] for run in runs],
        "seeds_wanted": len(wanted),
        "commits": sorted({str(run["commit"]) + "+" * run["uncommitted_changes"] for run in runs}),
        "runs": runs,
    }


def rows(
    groups: Mapping[tuple[str, float | None], list[Trial]],
    known: Mapping[str, Figures],
    figures: Iterable[str],
    *,
    settings: bool = False,
) -> list[Figures]:
    """The rows of a report: of each group that has run the generator, epsilon, perhaps its settings, and the figures."""
    wanted = list(figures)
    return [
        {"generator": label, "epsilon": epsilon, **({"settings": group[0].settings} if settings else {}), **row}
        for (label, epsilon), group in groups.items()
        if (row := together(group, known, wanted)) is not None
    ]


def broken(groups: Mapping[tuple[str, float | None], Iterable[Trial]], known: Mapping[str, Figures]) -> list[Figures]:
    """The fits that were stopped or refused, with the reason."""
    return [
        {"generator": trial.label, "epsilon": trial.epsilon, "seed": trial.seed, "reason": known[trial.key]["broken"]}
        for group in groups.values()
        for trial in group
        if "broken" in known.get(trial.key, {})
    ]


def shown(row: Figures | None, name: str, digits: int) -> str:
    """Mean ± standard deviation, the number of seeds where it is less than was wanted; a dash where there is no figure."""
    if row is None or name not in row:
        return "-"
    figure, short = row[name], len(row["seeds"]) < row["seeds_wanted"]
    said = f"{figure['mean']:.{digits}f}" + (f" ± {figure['sd']:.{digits}f}" if figure["n"] > 1 else "")
    return f"{said} (n = {figure['n']})" if short else said


def _apart(trial: Trial, run: Callable[[Trial], Figures]) -> Figures:
    """A process of its own: its peak of memory is that of this trial alone."""
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
            return pool.submit(run, trial).result()
    except BrokenProcessPool:
        return {"broken": "the process was ended from outside, for its memory or its time"}


def save(known: Mapping[str, Figures], scratch: Path) -> None:
    """Write the scratch file, whole."""
    scratch.parent.mkdir(parents=True, exist_ok=True)
    whole = scratch.with_suffix(".new")
    whole.write_text(json.dumps(known, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    whole.replace(scratch)


def _short(figures: Figures) -> Figures:
    return {name: round(value, 4) for name, value in figures.items() if isinstance(value, float)}
