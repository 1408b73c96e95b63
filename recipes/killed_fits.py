"""Fits that are killed at a random moment, and what stands afterwards: `make killed-fits` -> reports/killed_fits.{json,md}.

Question: does a fit that is killed lose anything that was paid for, leave half a release, or burn a budget? Every generator is fitted
by `synthdp fit` on an embedded data set and killed (SIGKILL, the whole process). The moment is drawn uniformly from the
time that such a fit takes after its ledger begins or, in every fifth fit, from all of its time. In a quarter of the trials the fit that
resumes it is killed as well. Then it is resumed until it ends. No data
folder is needed. Budget: 30 CPU minutes for 200 kills.
"""

import argparse
import dataclasses
import importlib
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import record

from synthdp import BadInput, generators, load, verify
from synthdp.budgets import AccountFile
from synthdp.cli import run
from synthdp.testing.made_up import SMALL

EPSILON, DELTA = 1.0, 1e-5
FREE, AGAIN, ANEW, DONE, NOTHING = (
    "went on at no further charge",
    "went on, steps charged again",
    "planned anew under its cap",
    "was finished",
    "nothing was charged",
)
OUTCOMES = (FREE, AGAIN, ANEW, DONE, NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A generator with the settings of its contract tests, which take a second or so, and the data it is fitted to."""

    generator: str
    data: str
    overrides: tuple[str, ...]

    def arguments(self, home: Path) -> list[str]:
        """Of `synthdp fit`, but for `resume`."""
        return [
            "fit",
            f"data={self.data}",
            f"generator={self.generator}",
            *self.overrides,
            f"budget.epsilon={EPSILON}",
            f"budget.delta={DELTA}",
            f"account.path={home / 'account'}",
            f"out={home / 'run'}",
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """What became of one fit."""

    generator: str
    data: str
    moments: tuple[float, ...]  # of the kills, as shares of the time in question
    outcome: str
    charged: int  # fits in the account at the end
    problem: str | None  # what must not be


def warm() -> None:
    """Import in this process what every forked one would take seconds for."""
    for name in (
        "hydra",
        "torch._dynamo",
        "dp_accounting.pld.privacy_loss_distribution",
        "pandas",
        "duckdb",
        "sklearn.datasets",
        "linearmodels.datasets",
    ):
        importlib.import_module(name)


def kinds() -> list[Kind]:
    """Every generator of synthdp, on tables and on pictures where it takes them."""
    found = []
    for name in generators.names():
        for data, given in (("meps", generators.TABLE), ("digits", generators.IMAGES)):
            if given in generators.find(name).traits.kinds:
                settings = SMALL[given].get(name, {})
                overrides = tuple(f"generator.{key}={json.dumps(value)}" for key, value in settings.items())
                found.append(Kind(generator=name, data=data, overrides=overrides))
    return found


def started(arguments: Sequence[str], home: Path) -> int:
    """A forked process that runs the command; what it says goes to a file."""
    child = os.fork()
    if child:
        return child
    said = os.open(home / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    status = 70
    try:
        status = run(list(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ended(child: int) -> int:
    """The exit status, -9 where it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(arguments: Sequence[str], home: Path, after: float, *, begun: bool) -> int:
    """The exit status of a command that is killed after so many seconds, if it has not ended by then: of its own or, with `begun`,
    of those after its ledger began."""
    child = started(arguments, home)
    until = math.inf if begun else time.monotonic() + after
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if math.isinf(until) and ledger_of(home).exists():
            until = time.monotonic() + after
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def ledger_of(home: Path) -> Path:
    """Where a fit that goes on writes."""
    return home / "run" / "internal" / "ledger.new.jsonl"


def half(home: Path) -> str | None:
    """What is wrong with the release, if there is one."""
    folder = home / "run" / "release"
    if not folder.exists():
        return None
    try:
        load(folder)
    except BadInput as error:
        return f"half a release: {error}"
    return None


def entered(home: Path) -> int:
    """How many fits the account holds."""
    found = AccountFile(path=home / "account").read()
    return 0 if found is None else len(found.fits)


def trial(kind: Kind, seconds: float, charged: float, plain: Any, draw: random.Random) -> Trial:
    """Kill a fit, once or twice, and resume it until it ends."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        moments = [draw.random() for _ in range(2 if draw.random() < 0.25 else 1)]
        arguments, resumed = kind.arguments(home), ["resume=true"]
        begun = draw.random() < 0.8
        finished = killed(arguments, home, moments[0] * (charged if begun else seconds), begun=begun) == 0
        problem = half(home)
        outcome = DONE if finished else None
        for moment in moments[1:]:
            if outcome is None and entered(home):
                killed([*arguments, *resumed], home, moment * seconds, begun=False)
                problem = problem or half(home)
        if outcome is None:
            status = ended(started([*arguments, *resumed], home))
            said = (home / "said.txt").read_text(errors="replace").strip().splitlines()
            if status and (home / "run" / "release").exists() and "finished" in said[-1]:
                outcome = DONE
            elif status and not entered(home):
                outcome = NOTHING
                if ended(started(arguments, home)):
                    problem = problem or "a fit that charged nothing stands in the way of the next"
            elif status:
                outcome, problem = "refused", problem or said[-1]
        if problem is None:
            problem = half(home) or _checked(home)
        if outcome is None:
            outcome = _compared(home, plain)
        return Trial(
            generator=kind.generator,
            data=kind.data,
            moments=tuple(moments),
            outcome=outcome,
            charged=entered(home),
            problem=problem,
        )


def _checked(home: Path) -> str | None:
    """What is wrong with the end."""
    try:
        said = verify(home / "run" / "release").statement
    except BadInput as error:
        return f"no release: {error}"
    if said.epsilon > EPSILON:
        return f"epsilon {said.epsilon}"
    if (number := entered(home)) != 1:
        return f"{number} fits in the account"
    return None


def _compared(home: Path, plain: Any) -> str:
    ledger = load(home / "run" / "release").ledger
    if ledger.entries() == plain:
        return FREE
    capped = any(type(entry.event).__name__ == "Capped" for entry in ledger.entries())
    return ANEW if capped and not any(type(entry.event).__name__ == "Capped" for entry in plain) else AGAIN


def measured(kind: Kind) -> tuple[float, float, Any]:
    """Seconds of a fit that nobody stops, the part of them after its ledger began, and its ledger."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        at = time.monotonic()
        child, charged = started(kind.arguments(home), home), math.inf
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            if math.isinf(charged) and ledger_of(home).exists():
                charged = time.monotonic()
            time.sleep(0.001)
        if done[1]:
            raise RuntimeError(f"{kind.generator}: {(home / 'said.txt').read_text()}")
        end = time.monotonic()
        return end - at, end - charged, load(home / "run" / "release").ledger.entries()


def main(argv: Sequence[str] | None = None) -> None:
    """The kills, and the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    draw = random.Random(options.seed)  # noqa: S311 - moments of kills
    warm()
    every = kinds()
    told = {}
    for kind in every:
        told[kind] = measured(kind)
        print(kind.generator, kind.data, f"{told[kind][0]:.2f} s, {told[kind][1]:.2f} s of them charged", flush=True)
    trials: list[Trial] = []
    while sum(len(each.moments) for each in trials) < options.kills:
        kind = every[len(trials) % len(every)]
        trials.append(trial(kind, *told[kind], draw))
        print(trials[-1], flush=True)
    used = sum(os.times()[:4])
    record.write(
        "killed_fits",
        {
            "provenance": record.provenance(),
            "seed": options.seed,
            "cpu_seconds": used,
            "seconds_of_a_fit": {f"{kind.generator}, {kind.data}": times[:2] for kind, times in told.items()},
            "trials": [dataclasses.asdict(each) for each in trials],
        },
        page(trials, options.seed, used),
    )


def page(trials: Sequence[Trial], seed: int, used: float) -> str:
    """The report."""
    kills = sum(len(each.moments) for each in trials)
    problems = [each for each in trials if each.problem]
    outcomes = [*OUTCOMES, *sorted({each.outcome for each in trials} - set(OUTCOMES))]
    rows = []
    for name in dict.fromkeys((each.generator, each.data) for each in trials):
        of = [each for each in trials if (each.generator, each.data) == name]
        counts = Counter(each.outcome for each in of)
        rows.append(f"| {', '.join(name)} | {len(of)} | {' | '.join(str(counts[outcome]) for outcome in outcomes)} |")
    twice = sum(each.charged > 1 for each in trials)
    said = [f"- {each.generator}, {each.data}: {each.problem}" for each in problems] or ["- none"]
    return "\n".join(
        [
            "# Fits that are killed",
            "",
            "<!-- written by recipes/killed_fits.py -->",
            "",
            f"{kills} times `kill -9`, at moments drawn with seed {seed}, in {len(trials)} fits at epsilon {EPSILON:g}; "
            f"{used / 60:.0f} CPU minutes. Each was resumed until it ended. {twice} were charged twice, {len(problems)} left a problem.",
            "",
            f"| generator | fits | {' | '.join(outcomes)} |",
            f"|---|{'---|' * (1 + len(outcomes))}",
            *rows,
            "",
            "A problem is half a release, an epsilon above the budget, a fit that stands twice in the account, or a fit that was "
            "charged and cannot go on. Problems:",
            "",
            *said,
            "",
        ]
    )


if __name__ == "__main__":
    main()
