"""What `evaluate` costs on 32,561 synthetic rows of Adult: `make bench-evaluate` -> reports/bench_evaluate.{json,md}.

    SYNTHDP_DATA=/path/to/data python recipes/bench_evaluate.py [--only quick paper] [--jobs 2]

Two settings, each in a process of its own: `quick` as `synthdp evaluate evaluate=quick` judges, and `paper`, all twelve models
with three seeds; both with every metric, every attack and intervals. The synthetic rows are of a rehearsal of `independent` at
epsilon 1, seed 0: what is measured does not depend on how good they are. Seconds of a model are those of its thread; of all
else, those of the process between two steps.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from record import provenance, write

ROWS = 32_561
TARGETS = {"quick": 40.0, "paper": 360.0}  # seconds of wall time on two cores
SEEDS = {"quick": 1, "paper": 3}
SHOWN = 12
LIBRARY = "the library's defaults"  # what `about.limits` says of a model that is as it comes


class Clock:
    """Seconds by part: told of steps by `evaluate`, of models by their own threads."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._label, self._start = "", 0.0

    def __call__(self, *told: Any) -> None:
        """The end of one step and the start of the next."""
        label, now = told[-1], time.process_time()
        if self._label and "trained on" not in self._label:
            self.add(self._label, now - self._start)
        self._label, self._start = label, now

    def add(self, label: str, seconds: float) -> None:
        self.parts[label] = self.parts.get(label, 0.0) + seconds

    def timed(self, runs: Callable[..., Any]) -> Callable[..., Any]:
        """`Court.runs`, with the seconds of its thread added to the model's."""

        def watched(court: Any, arm: str, model: Any, jobs: int) -> Any:
            start = time.thread_time()
            try:
                return runs(court, arm, model, jobs)
            finally:
                self.add(f"model: {model.label}", time.thread_time() - start)

        return watched


def judge(preset: str, jobs: int) -> dict[str, Any]:
    """One evaluation in this process: wall and processor seconds, and the parts that took longest."""
    from synthdp import Budget, Synthesizer
    from synthdp.evaluate import evaluate, utility
    from synthdp.sets import named

    chosen = named.load("adult")
    synthesizer = Synthesizer("independent", schema=chosen.schema, budget=Budget(epsilon=1.0, delta=1e-5))
    made = synthesizer.fit(chosen.train, seed=0).sample(ROWS, seed=0)
    clock, claim = Clock(), {"epsilon": 1.0, "delta": 1e-5, "unit": "record"}
    utility.Court.runs = clock.timed(utility.Court.runs)  # type: ignore[method-assign]
    start = time.perf_counter(), time.process_time()
    result = evaluate(
        made,
        chosen.train,
        chosen.test,
        chosen.schema,
        models=preset,
        seeds=SEEDS[preset],
        claim=claim,
        jobs=jobs,
        progress=clock,
    )
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    return {
        "preset": preset,
        "jobs": jobs,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "target_seconds": TARGETS[preset],
        "rows": result["about"]["rows"],
        "models": list(result["about"]["models"].values()),
        "seeds": SEEDS[preset],
        "bootstrap": result["about"]["bootstrap"],
        "limits": {
            result["about"]["models"].get(name, name): note for name, note in result["about"]["limits"].items() if note
        },
        "not_computed": result["not_computed"],
        "parts_cpu_seconds": dict(sorted(clock.parts.items(), key=lambda part: -part[1])),
    }


def alone(preset: str, jobs: int) -> dict[str, Any]:
    """`judge` in a fresh process."""
    command = [sys.executable, str(Path(__file__)), "--here", preset, "--jobs", str(jobs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def xgboost() -> str:
    """Which distribution gave XGBoost."""
    for name in ("xgboost-cpu", "xgboost"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "XGBoost is not installed"


def text(results: list[dict[str, Any]], seen: dict[str, Any], load: float) -> str:
    """The report, in words."""
    lines = [
        "| preset | models | seeds | wall | target | processor seconds |",
        "|---|---|---|---|---|---|",
        *(
            f"| {r['preset']} | {len(r['models'])} | {r['seeds']} | {r['wall_seconds']:.0f} s | {r['target_seconds']:.0f} s | "
            f"{r['cpu_seconds']:.0f} |"
            for r in results
        ),
    ]
    slow = []
    for r in results:
        parts = list(r["parts_cpu_seconds"].items())[:SHOWN]
        slow += [f"\n## Where the time goes: {r['preset']}\n", "| part | processor seconds |", "|---|---|"]
        slow += [f"| {name} | {seconds:.1f} |" for name, seconds in parts]
    limits = {name: note for r in results for name, note in r["limits"].items() if note != LIBRARY}
    cuts = "\n".join(f"- {name}: {note}" for name, note in limits.items())
    rows = results[0]["rows"]
    return f"""# What evaluating costs

{rows["synthetic"]:,} synthetic rows of Adult against {rows["train"]:,} training and {rows["test"]:,} test rows: three arms of every \
model, all metrics of fidelity, all attacks, {results[0]["bootstrap"]} bootstrap draws. {results[0]["jobs"]} threads on \
{seen["cores"]} cores; the load of the machine was {load:.1f} before the first run (another job's share of the processor \
lengthens the wall time, hardly the processor seconds).

{chr(10).join(lines)}
{chr(10).join(slow)}

What is not as the libraries make it or does not see every row, most of it for time; `about.limits` of every evaluation says
so, and every page:

{cuts}

{xgboost()}, scikit-learn {seen["versions"]["scikit-learn"]}, Python {seen["python"]}, {seen["processor"]}, commit \
{seen["commit"] or "unknown"}{" with uncommitted changes" if seen["uncommitted_changes"] else ""}. Written by \
`recipes/bench_evaluate.py`.
"""


def main() -> None:
    """Measure both presets, print the seconds, write the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--jobs", type=int, default=2, help="threads of an evaluation")
    parser.add_argument("--here", choices=list(TARGETS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(judge(options.here, options.jobs)))
        return
    load = os.getloadavg()[0]
    results = []
    for preset in options.only:
        results.append(alone(preset, options.jobs))
        last = results[-1]
        print(f"{preset}: {last['wall_seconds']:.1f} s of wall, {last['cpu_seconds']:.1f} s of processor", flush=True)
    seen = provenance()
    config = {"rows": ROWS, "generator": "independent", "epsilon": 1.0, "xgboost": xgboost(), "load_before": load}
    write("bench_evaluate", {"config": config, "results": results, "provenance": seen}, text(results, seen, load))


if __name__ == "__main__":
    main()
