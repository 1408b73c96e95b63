"""Claimed against measured epsilon, for every question at the sealed door and every generator: `make audit` ->
reports/audit.{json,md,png}, and the tables of PRIVACY.md.

Each row is an attack on a neighbouring pair, through the production path (laws 27 and 45), and the same attack where half of the claimed
noise is drawn: what it finds there is its power. Rows are kept in outputs/audit.jsonl as they come, so that a run that was stopped goes
on; those of another commit of synthdp/ or of the attacks are made anew. `--minutes N` shares so much time out among the rows of
generators: the cheapest first, so that what they leave goes to the others; each row says how many fits it had of those that are asked
for, and one that could not have enough says "not run". `--only TEXT` makes the rows whose names hold it and writes no report; `--again
TEXT` puts them in place of the committed report's, which says of which commit they are, and `--lacking` adds those that it does not have;
`--quick` takes few runs, to see that all of it works. Exit status 3: a claim is contradicted.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import audit_page
import numpy as np
import pandas as pd
import readme
import record
import torch
import white_box
from repeated_answers import NUMBERS, Choices, Grids, Numbers, Selections, Thresholds, Votes
from trained_weights import Trainings
from vector_canaries import KINDS, Vectors, audit_in_one_run
from white_box import Attack

from synthdp import Budget, Schema, selecting
from synthdp.audit import black_box, one_run, plant, worst_pairs
from synthdp.audit.claims import Audit
from synthdp.generators import Traits
from synthdp.ledger.events import Entry, Plan, Relation
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive

DELTA, EPSILON = 1e-5, 4.0
ERROR = 0.05  # of each bound that is shown
GATE = 1e-3  # of all verdicts of this report together
AUDITS = 250  # at most so many rows, among which it is shared: another row leaves the others as they are
HALF = 0.5
CASES = {images: worst_pairs.cases(images=images) for images in (False, True)}
ATTACKS = tuple(
    f"recipes/{name}.py" for name in ("repeated_answers", "trained_weights", "vector_canaries", "white_box")
)
KEPT = record.HOME / "outputs" / "audit.jsonl"
CANARIES, UNITS, STEPS = 1000, 2000, 100  # of a fit that is audited in one run
BESIDE = 5  # units that share a canary's category: enough that noise seldom takes a count below zero
REPLICAS = 10_000  # a side, at the door
QUICK = 50
LEAST, LEAST_TUNING, MOST_TUNING = 50, 80, 300  # fits a side: judged, and of the adversary's own
SPARED = 0.3  # of a row's share of the time, where another row is of the same generator

Row = dict[str, Any]
Found = Audit | one_run.OneRun
Run = Callable[[float, float, int], Found]  # gate error, share of the claimed noise that is drawn, runs a side
WAYS = {  # of asking a vector question; column of the summary -> how
    "one unit more": {"noise": 1.0},
    "another unit": {"noise": 2.0, "relation": "replace_one"},
    "units of 4 records": {"noise": 1.0, "records": 4},
    "4 records, another unit": {"noise": 2.0, "records": 4, "relation": "replace_one"},
    "samples": {"noise": 0.8, "rate": 0.3, "steps": 3},
    "40 loops": {"noise": 1.4, "rate": 0.1, "phases": 39, "alone": 1, "supposed": "coins"},
    "stopped and resumed": {"noise": 2.0, "rate": 0.5, "steps": 4, "stopped": 1, "supposed": "coins"},
    "under a cap": {"noise": 2.0, "steps": 3, "capped": True},
    "selected among 5": {"noise": 2.0, "selected": 5.0},
}
MORE = (  # of one question alone
    Vectors(noise=3.73),
    Vectors(noise=0.7, rate=0.1, steps=10),
    Vectors(noise=1.5, rate=0.3, steps=2, records=4, relation="replace_one"),
    Vectors(noise=1.5, rate=0.3, phases=2, steps=8),
    Vectors(noise=1.5, rate=0.3, phases=2, steps=8, supposed="coins"),
    Vectors(noise=1.0, rate=0.05, phases=50, supposed="coins"),
    Vectors(question="tables", noise=0.9, rate=0.1, steps=16, stopped=14, supposed="coins"),
    Vectors(question="tables", noise=1.4, steps=2, capped=True, stopped=12),
)
LOOPS = "two loops"
OTHER = (  # ways of asking what has no coordinates: beside one unit more
    ("one unit more", 1.0, {}),
    ("another unit", 2.0, {"relation": "replace_one"}),
    ("units of 4 records", 1.0, {"records": 4}),
    ("4 records, another unit", 2.0, {"records": 4, "relation": "replace_one"}),
)
TWICE = (LOOPS, math.sqrt(2), {"phases": 2})  # as precise together as once outside of loops
SAMPLED = (("samples", {"noise": 0.7, "rate": 0.5}), (LOOPS, {"noise": 1.0, "rate": 0.5, "phases": 2, "coins": True}))


def votes(aggregator: str, noise: float, *, once: bool = False, **settings: Any) -> dict[str, Attack]:
    """An aggregator in every way; `once`: a run in two loops has twice as many answers, elsewhere as many."""
    ways = (*OTHER, (LOOPS, math.sqrt(2) if once else 1.0, {"phases": 2}))
    return {way: Votes(aggregator=aggregator, noise=noise * factor, **settings, **more) for way, factor, more in ways}


def numbers(question: str) -> dict[str, Attack]:
    """A number in every way; the size does not tell one unit from another in its place."""
    ways = [way for way in OTHER if question != "size" or "relation" not in way[2]]
    of_all = {way: Numbers(question=question, noise=factor, **more) for way, factor, more in ways}
    return of_all | {way: Numbers(question=question, **settings) for way, settings in SAMPLED}


DRAWS: dict[str, dict[str, Attack]] = {
    "choice": {
        "one unit more": Choices(epsilon=1.0),
        "another unit": Choices(epsilon=1.0, relation="replace_one"),
        "units of 4 records": Choices(epsilon=1.0, records=4),
        "4 records, another unit": Choices(epsilon=1.0, records=4, relation="replace_one"),
        "under a cap": Choices(epsilon=1.0, capped=True),
        LOOPS: Choices(epsilon=1.0, phases=2),
    },
    **{f"votes, {name}": votes(name, noise) for name, noise in {"LNMax": 4.0, "GNMax": 3.5, "Counts": 3.5}.items()},
    "votes, Shares": votes("Shares", 1.0, once=True),
    "votes, Shares by ranks": votes("ranks", 1.0, once=True),
    "votes, Shares by margins": votes("margins", 1.0, once=True),
    "votes, Confident": votes("Confident", 3.5),
    "votes, Interactive": votes("Interactive", 3.5),
    "thresholds": {
        **{way: Thresholds(noise=factor, delta=1e-6, **more) for way, factor, more in (*OTHER, TWICE)},
        "a tree of learned codes": Thresholds(noise=1.0, delta=1e-6, codes="learned"),
        "a tree of public codes": Thresholds(noise=1.0, delta=1e-6, codes="public", records=4),
    },
    "grid": {**{way: Grids(noise=factor, **more) for way, factor, more in (*OTHER, TWICE)}},
    **{question: numbers(question) for question in NUMBERS},
    "best of several runs": {"selected among 5": Selections(noise=2.0, mean=5.0)},
}
TRAININGS: dict[Relation, str] = {"add_remove": "Poisson samples", "replace_one": "another unit, samples of fixed size"}
SETTINGS = ("dpgan:gradients", "kernel_teachers:votes")  # their worst case is small already
SLOW_DRAWS = {  # runs a side of what is asked one by one
    "choice": 800,
    "size": 3000,
    "distance": 3000,
    "best of several runs": 500,
    **dict.fromkeys((each for each in NUMBERS if each.startswith("gradient")), 800),
    **dict.fromkeys(("votes, Shares", "votes, Shares by ranks", "votes, Shares by margins"), 800),
}


@dataclass(frozen=True, kw_only=True)
class Selected:
    """The best of several runs of a generator (`select=private`), as a generator that releases the best one's model."""

    offer: selecting.Offer
    name: ClassVar[str] = "independent, select=private"
    traits: ClassVar[Traits] = Traits()

    def validate(self, schema: Schema, budget: Budget) -> None:
        """The offer was made of this schema and budget."""

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One selection."""
        return (Entry(self.offer.at(noise)[0]),)

    def fit(self, data: Sensitive, *, seed: int | None = None, **_: Any) -> Any:
        """The best run's model."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        return selecting.best(data, self.offer, noise, seed)[1]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One row, of `runs` replicas or fits a side. Where a budget of time may thin it, `seconds` says how long one fit takes, and
    `weight` how much of the time it is worth."""

    part: str  # "door", "generator" or "one run"
    what: str
    how: str
    run: Run
    runs: int = 1
    seconds: Callable[[], float] | None = None
    weight: float = 1.0

    @property
    def name(self) -> str:
        """Of the row."""
        return f"{self.part}: {self.what}, {self.how}"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all rows of a run have in common."""

    commit: str  # the last that touches synthdp/ or the attacks
    uncommitted: bool
    gate_error: float  # of each row
    quick: bool


@dataclass(frozen=True, kw_only=True)
class Job:
    """A row to make, by its name: what it runs cannot be sent to another process. Without `runs` it is said not to be run."""

    name: str
    terms: Terms
    runs: int


def main() -> None:
    """Make the rows that are missing, and write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="rows whose names hold this text; no report is written")
    parser.add_argument("--again", default="", help="as --only, and the report has these rows in place of its own")
    parser.add_argument("--lacking", action="store_true", help="rows that the report does not have; it gets them")
    parser.add_argument("--workers", type=int, help="processes; default: one per core")
    parser.add_argument("--minutes", type=float, help="at most so long, in one process: fewer fits of each generator")
    chosen = parser.parse_args()
    ends = None if chosen.minutes is None else time.monotonic() + 60 * chosen.minutes
    provenance = {**record.provenance(*ATTACKS), "synthdp": commit_of("synthdp", *ATTACKS)}
    tasks = list(everything())
    if len(tasks) > AUDITS:
        raise ValueError(
            f"{len(tasks)} rows, but their error is shared among {AUDITS}: raise AUDITS, which remakes them all"
        )
    terms = Terms(
        commit=provenance["synthdp"],
        uncommitted=provenance["uncommitted_changes"],
        gate_error=GATE / AUDITS,
        quick=chosen.quick,
    )
    before = json.loads((record.REPORTS / "audit.json").read_text(encoding="utf-8"))
    there = {row["name"] for row in before["rows"]} if chosen.lacking else set()
    named = chosen.only or chosen.again
    rows = made([task for task in tasks if named in task.name and task.name not in there], terms, chosen.workers, ends)
    if chosen.again or chosen.lacking:
        held = {row["name"]: row for row in (*before["rows"], *rows)}
        rows, provenance = [held[task.name] for task in tasks if task.name in held], before["provenance"]
    if not chosen.only:
        config = {
            "delta": DELTA,
            "epsilon": EPSILON,
            "error": ERROR,
            "gate_error": GATE,
            "audits": len(tasks),
            "shared_among": AUDITS,
        }
        config |= {"quick": chosen.quick, "limited": chosen.minutes is not None}
        result = {"config": config, "rows": rows, "provenance": provenance}
        record.write("audit", result, audit_page.report(result, [*WAYS, LOOPS], questions()))
        audit_page.plot(rows, EPSILON).savefig(record.REPORTS / "audit.png", dpi=150)
        readme.main()
    if any(row["verdict"] == "contradicted" for row in rows):
        sys.exit(3)


def commit_of(*code: str) -> str:
    """The last commit that touches one of these folders or files."""
    words = ["git", "log", "-1", "--format=%H", "--", *code]
    return subprocess.run(words, cwd=record.HOME, capture_output=True, text=True, check=True).stdout.strip()


def everything() -> Iterator[Task]:
    """All rows."""
    for question in KINDS:
        for way, settings in WAYS.items():
            if KINDS[question].ordered and "rate" in settings:
                continue
            yield at_door(question, way, Vectors(question=question, **settings))
    for attack in MORE:
        yield at_door(attack.question, attack.name.removeprefix(f"{attack.question}, "), attack)
    for what, ways in DRAWS.items():
        for way, attack in ways.items():
            yield at_door(what, way, attack, SLOW_DRAWS.get(what, REPLICAS))
    for images in (False, True):
        for name, case in CASES[images].items():
            yield of_generator(name, case.pair, "its own", images=images)
    for name in CASES[False]:
        if name.partition(":")[0] in worst_pairs.SMALL and name not in SETTINGS:
            row = of_generator(name, worst_pairs.worst_case, "4 x (0, 0, 0) and (1, 1, 1)", images=False)
            yield replace(row, weight=SPARED)
    yield of_selection()
    for relation, how in TRAININGS.items():
        yield of_trainer(Trainings(budget=Budget(EPSILON, DELTA, relation)), how)
    for attack in (Vectors(noise=1.0), Vectors(noise=0.8, rate=0.3, steps=3)):
        yield Task(part="one run", what="gradient", how=f"{CANARIES} canaries, {attack.name}", run=in_one_run(attack))
    how = f"{CANARIES} canaries, a category for each"
    yield Task(part="one run", what="independent", how=how, run=in_one_column)
    how = f"{CANARIES} canaries, drawn records"
    yield Task(part="one run", what="dpgan", how=how, run=in_one_fit("dpgan"))


def questions() -> list[str]:
    """What is asked at the door."""
    return [task.what for task in everything() if task.part == "door"]


def at_door(what: str, how: str, attack: Attack, runs: int = REPLICAS) -> Task:
    """White box, replicas side by side."""
    return Task(part="door", what=what, how=how, run=by_scores(attack), runs=runs)


def by_scores(attack: Attack) -> Run:
    """An attack that gives each run a score."""

    def run(gate_error: float, share: float, runs: int) -> Audit:
        return white_box.audit(
            attack,
            DELTA,
            runs=runs,
            tuning_runs=max(QUICK, runs // 5),
            error=ERROR,
            gate_error=gate_error,
            drawn=None if share == 1 else attack.halved(),
        )

    return run


def of_trainer(attack: Trainings, how: str) -> Task:
    """Black box, training by training, judged by the weight that leaves."""

    def seconds() -> float:
        start = time.monotonic()
        attack.sides(3)
        return (time.monotonic() - start) / 6

    return Task(part="generator", what="PrivateTrainer", how=how, run=by_scores(attack), runs=1000, seconds=seconds)


def of_generator(name: str, pair: Callable[[], worst_pairs.Pair], how: str, *, images: bool) -> Task:
    """Black box, fit by fit."""
    runs = 200 if CASES[images][name].slow else 1000
    what = f"{name} (images)" if images else name
    return in_many_fits(what, how, lambda: worst_pairs.made(name, images=images), pair, runs)


def of_selection() -> Task:
    """Black box of a selection: a run of three on average."""

    def selected() -> Selected:
        offer = selecting.offered(["independent"], worst_pairs.rare().schema, Budget(EPSILON, DELTA), mean_runs=3.0)
        return Selected(offer=offer)

    return in_many_fits(Selected.name, "its own", selected, worst_pairs.rare, 1000)


def in_many_fits(
    what: str, how: str, generator: Callable[[], Any], pair: Callable[[], worst_pairs.Pair], runs: int
) -> Task:
    """So many fits a side, judged by the model alone."""
    budget = Budget(EPSILON, DELTA)

    def run(gate_error: float, share: float, runs: int) -> Audit:
        return black_box.audit(
            generator(),
            budget,
            runs=runs,
            tuning_runs=tuning_of(runs),
            pair=pair(),
            share=share,
            error=ERROR,
            gate_error=gate_error,
            workers=1,
        )

    def seconds() -> float:
        made, chosen = generator(), pair()
        noise = worst_pairs.generators.afford(lambda z: made.plan(chosen.schema, z), chosen.schema, budget)
        job = black_box.Fits(generator=made, pair=chosen, inside=True, budget=budget, noise=noise, runs=3)
        black_box.fits(replace(job, runs=1))  # the first of a process takes longer
        start = time.monotonic()
        black_box.fits(job)
        return (time.monotonic() - start) / job.runs

    return Task(part="generator", what=what, how=how, run=run, runs=runs, seconds=seconds)


def tuning_of(runs: int) -> int:
    """Fits a side by which the adversary prepares for so many that are judged."""
    return min(MOST_TUNING, max(LEAST_TUNING, 3 * runs // 10)) if runs >= LEAST else 10


def in_one_run(attack: Vectors) -> Run:
    """Guesses about many canaries of one run at the door."""

    def run(gate_error: float, share: float, runs: int) -> one_run.OneRun:  # noqa: ARG001
        drawn = None if share == 1 else attack.halved()
        return audit_in_one_run(attack, CANARIES, DELTA, error=ERROR, gate_error=gate_error, drawn=drawn)

    return run


def in_one_column(gate_error: float, share: float, runs: int) -> one_run.OneRun:  # noqa: ARG001
    """Guesses about canaries that each have a category of their own, beside `BESIDE` others, by the shares that a fit learned."""
    names = [f"c{place}" for place in range(CANARIES)]
    included = np.random.default_rng().random(CANARIES) < HALF
    held = np.repeat(np.array(names), BESIDE + included)
    column = {"kind": "categorical", "categories": names}
    schema = Schema.from_dict({"units": BESIDE * CANARIES, "columns": {"who": column}})
    generator = worst_pairs.generators.make("independent", {})
    model = generator.fit(sealed(generator, pd.DataFrame({"who": held}), schema, share), seed=0)
    scores = black_box.features(model)
    return one_run.verdict(scores, included, EPSILON, DELTA, error=ERROR, gate_error=gate_error)


def sealed(generator: Any, table: pd.DataFrame, schema: Schema, share: float) -> Sensitive:
    """A table behind the door, where so large a share of the noise that the budget asks for is drawn."""
    noise = Account(Budget(EPSILON, DELTA)).commit(lambda z: generator.plan(schema, z))
    budget = Budget(EPSILON if share == 1 else float("inf"), DELTA)
    return Sensitive(table, schema, Account(budget, Ledger(), noise=noise * share))


def in_one_fit(name: str) -> Run:
    """Guesses about planted canaries of an ordinary fit of a made-up table, from records that it draws."""

    def run(gate_error: float, share: float, runs: int) -> one_run.OneRun:  # noqa: ARG001
        rng = np.random.default_rng(7)
        columns = {f"x{place}": {"kind": "categorical", "categories": list("abcdef")} for place in range(8)}
        schema = Schema.from_dict({"units": UNITS, "columns": columns})
        shares = [0.5, 0.3, 0.1, 0.05, 0.03, 0.02]
        frame = pd.DataFrame({column: rng.choice(list("abcdef"), UNITS, p=shares) for column in columns})
        table, canaries = plant(frame, schema, CANARIES)
        generator = worst_pairs.generators.make(name, {"steps": STEPS} if name == "dpgan" else {})
        model = generator.fit(sealed(generator, table, schema, share), seed=0)
        return one_run.audit_model(model, canaries, EPSILON, DELTA, error=ERROR, gate_error=gate_error)

    return run


def made(tasks: list[Task], terms: Terms, workers: int | None, ends: float | None = None) -> list[Row]:
    """The rows, those that were kept and those that are made now: several at a time, or one by one until `ends`."""
    kept = {} if terms.uncommitted else kept_rows(terms)
    missing = [task for task in tasks if task.name not in kept]
    if ends is None or terms.quick:
        jobs = [Job(name=task.name, terms=terms, runs=quickly(task) if terms.quick else task.runs) for task in missing]
        found = black_box.each(make_one, jobs, workers)
    else:
        found = one_by_one(missing, terms, ends)
    kept |= {row["name"]: row for row in found}
    return [kept[task.name] for task in tasks]


def quickly(task: Task) -> int:
    """Runs that show that a row can be made."""
    return min(task.runs, QUICK if task.seconds is None else 5)


def one_by_one(tasks: list[Task], terms: Terms, ends: float) -> list[Row]:
    """What cannot be thinned first, then by how long all fits of a row would take; each is given its share of the time that is left."""
    torch.set_num_threads(1)
    cost = {task.name: 0.0 if task.seconds is None else task.seconds() for task in tasks}
    order = sorted(tasks, key=lambda task: cost[task.name] * task.runs / task.weight)
    rows = []
    for place, task in enumerate(order):
        runs = task.runs
        if cost[task.name]:
            given = (ends - time.monotonic()) * task.weight / sum(other.weight for other in order[place:])
            runs = affordable(runs, given / cost[task.name])
        rows.append(make_one(Job(name=task.name, terms=terms, runs=runs)))
    return rows


def affordable(most: int, fits: float) -> int:
    """Fits a side that are judged, at most `most`, of so many in all: on both sides, at all of the noise and at half of it; 0 where
    they are too few."""
    return max((runs for runs in range(LEAST, most + 1) if 4 * (runs + tuning_of(runs)) <= fits), default=0)


def make_one(job: Job) -> Row:
    """One row, kept at once."""
    torch.set_num_threads(1)
    (task,) = (each for each in everything() if each.name == job.name)
    terms, start = job.terms, (time.monotonic(), time.process_time())
    if not job.runs:
        return {**facts(task), "verdict": "not run", "why": "too little of the time was left for it"}
    found = row(task, *(task.run(terms.gate_error, share, job.runs) for share in (1.0, HALF)))
    found |= {"seconds": time.monotonic() - start[0], "cpu_seconds": time.process_time() - start[1]}
    found |= {"synthdp": terms.commit, "gate_error": terms.gate_error, "quick": terms.quick}
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, allow_nan=False) + "\n")
    print(f"{found['cpu_seconds']:7.1f} s  {told(found)}", flush=True)
    return found


def kept_rows(terms: Terms) -> dict[str, Row]:
    """Those of this very code and these terms."""
    if not KEPT.exists():
        return {}
    rows = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
    asked = {"synthdp": terms.commit, "gate_error": terms.gate_error, "quick": terms.quick}
    return {each["name"]: each for each in rows if all(each[name] == value for name, value in asked.items())}


def row(task: Task, found: Found, half: Found) -> Row:
    """Plain values: every figure with its estimator, its error and its delta."""
    return {
        **facts(task),
        "delta": DELTA,
        "claimed": found.epsilon if isinstance(found, Audit) else found.claimed,
        "found": largest(found),
        "at_half_the_noise": largest(half),
        "verdict": found.word,
        "figures": figures(found),
        "figures_at_half_the_noise": figures(half),
        **runs_of(found),
    }


def facts(task: Task) -> Row:
    """What a row is of."""
    return {"name": task.name, "part": task.part, "what": task.what, "how": task.how, "asked": task.runs}


def runs_of(found: Found) -> Row:
    """How much was looked at."""
    if isinstance(found, Audit):
        return {"runs": found.verdict.runs, "tuning_runs": found.tuning_runs}
    return {"runs": 1, "canaries": found.canaries, "guesses": found.guesses, "correct": found.correct}


def largest(found: Found) -> float:
    """The largest bound that is valid."""
    return found.found if isinstance(found, Audit) else found.epsilon


def figures(found: Found) -> list[Row]:
    """Bounds, and an estimate."""
    if not isinstance(found, Audit):
        return [{"estimator": "one-run bound", "epsilon": found.epsilon, "error": ERROR, "delta": DELTA}]
    (middle, *errors), valid = found.estimate, found.claim.mu is not None
    of = {
        "Clopper-Pearson bound": {"epsilon": found.verdict.epsilon, "error": ERROR, "valid": True},
        "Gaussian-DP bound": {"epsilon": found.gaussian_epsilon, "error": ERROR, "valid": valid},
        "Gaussian-DP point estimate": {"epsilon": middle, "one standard error": errors, "valid": valid},
    }
    return [{"estimator": name, "delta": DELTA, **figure} for name, figure in of.items()]


def told(found: Row) -> str:
    """A row in a line."""
    half = found["at_half_the_noise"]
    return f"{found['name']}: {found['found']:.2f} of {found['claimed']:.2f}, {half:.2f} at half the noise: {found['verdict']}"


if __name__ == "__main__":
    main()
