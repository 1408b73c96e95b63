"""PATE-GAN as published and as we changed it: an epsilon table, and an ablation of every change; train on synthetic, test on real.

    SYNTHDP_DATA=/path/to/data python recipes/pategan.py

Adult and the tables of recipes/pategan_paper.py. Writes reports/pategan.{json,md}, from everything that the scratch file holds or,
without one, that the report holds; what is lacking stands there by name. `--data`, `--only` and `--seeds` run a part. The
defaults of `pategan_original` were chosen on made-up boolean tables, those of `pategan` were set by hand. While they were developed, both
were also scored on Adult's test rows (5,000 training rows, one seed each); no default was changed after that, but Adult is not a table
left out. `--rows` takes so many training
rows of each table, to develop with: such figures go to another report.
"""

import argparse
import dataclasses
import math
import statistics
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trials
from judging import DISTANCES, METRICS, MODELS, UNTRAINED, judged, untrained
from record import HOME, provenance, write
from trials import Figures, Trial, alike, shown

from synthdp import Budget, Synthesizer
from synthdp.accounting import calibrate
from synthdp.evaluate.tables import Axis, Table, table_of
from synthdp.generators.pategan import PATEGAN
from synthdp.generators.pategan_original import PATEGANOriginal
from synthdp.sets import named

ADULT, DELTA = "adult", 1e-5
DATA = (ADULT, "epileptic_seizure", "cervical_cancer", "spambase", "isolet_part", "creditcard_sample")
EPSILONS = (1.0, 3.0, math.inf, 10.0, 0.1)  # in the order in which they are run
ALONE = {"tables": 0.99, "rounds": 1, "queries": 1, "steps": 1}
LABEL = {"start": "label"}
# Label, generator, settings, at each epsilon of each table.
GENERATORS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("pategan", "pategan", {}),
    ("its start alone", "pategan", ALONE),
    ("pategan, start=label", "pategan", LABEL),
    ("start=label alone", "pategan", {**LABEL, **ALONE}),
    ("pategan, start=none", "pategan", {"start": "none"}),
    ("pategan_original", "pategan_original", {}),
    ("mixture", "mixture", {}),
)
# Change, and settings that take it back to the paper's value while all others stay; all but the last with start=label. On Adult alone.
ABLATION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nothing: all changes, with start=label", LABEL),
    ("answers=votes", {**LABEL, "answers": "votes"}),
    ("answers=ranks", {**LABEL, "answers": "ranks"}),
    ("replay=1: answers of the round alone", {**LABEL, "replay": 1}),
    ("one teacher for a thousand records", {**LABEL, "teachers": 33, "teacher_batch": 64, "teacher_steps": 5}),
    ("units=0: single columns in the hidden layer", {**LABEL, "units": 0}),
    ("start=none", {"start": "none"}),
)
ABLATED_AT = (1.0, 3.0, math.inf)
# Label, settings of `pategan_original` on Adult, epsilons: is it few labels or small teachers that leave it at chance? By default a finite
# epsilon means both. 33 is the paper's number of teachers for Adult, 651 the default where there is noise; 198 rounds are 126,720 labels.
THOUSAND = "pategan_original, teachers of 1,000 records"
SIZES: tuple[tuple[str, dict[str, Any], tuple[float, ...]], ...] = (
    ("pategan_original", {}, (1.0, 3.0, 10.0, math.inf)),
    (THOUSAND, {"teachers": 33}, (1.0, 3.0, 10.0)),
    ("pategan_original, teachers of 50 records", {"teachers": 651}, (math.inf,)),
    (f"{THOUSAND}, as many labels as epsilon 10 buys by default", {"teachers": 33, "rounds": 198}, (math.inf,)),
)
FEW, OTHERS = 5000, 8000  # of Adult's training rows: those that the paper's game is watched on, and those that judge it
WATCHED = "adult, part of the training rows"
ROUNDS, SEEDS = 250, 3
FORMER = {"teacher_decay": 0.0, "teacher_steps": 3, "student_steps": 3, "queries": 16, "generator_rate": 2e-3}
# Change, settings: `pategan_original` without noise, on `FEW` rows of Adult.
WATCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nothing: 10 teachers of 500 records, 5 x 128 labels a round", {}),
    ("no decay of the teachers' weights", {"teacher_decay": 0.0}),
    ("100 teachers of 50 records", {"teachers": 100}),
    ("100 teachers of 50 records, no decay", {"teachers": 100, "teacher_decay": 0.0}),
    ("no decay, 100 teachers, and 3 x 16 labels, 3 teacher steps, two thirds of the rate", {"teachers": 100, **FORMER}),
    ("120 rounds of 5 x 128 labels: 76,800 in all", {"rounds": 120}),
    ("60 rounds of 5 x 128 labels: 38,400 in all", {"rounds": 60}),
    ("30 rounds of 5 x 128 labels: 19,200 in all", {"rounds": 30}),
    ("30 rounds of 5 x 33 labels: 4,950 in all, as epsilon 1 buys on all rows of Adult", {"rounds": 30, "queries": 33}),
    ("30 rounds of 5 x 8 labels: 1,200 in all", {"rounds": 30, "queries": 8}),
    ("100 teachers, 30 rounds of 5 x 8 labels", {"teachers": 100, "rounds": 30, "queries": 8}),
)
# The same on whole tables, where teachers' weights decay as they do by default, and faster.
ELSEWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nothing", {}),
    ("teacher_decay=0.1", {"teacher_decay": 0.1}),
    ("teacher_decay=0.3", {"teacher_decay": 0.3}),
)
WATCHED_ELSEWHERE = ("spambase", "cervical_cancer")
SCRATCH = HOME / "outputs" / "pategan.json"
FIGURES = (*METRICS, *DISTANCES, "fit_seconds", "fit_cpu_seconds", "fit_peak_mib", "epsilon_spent")

Groups = dict[tuple[str, str, str, float | None], list[Trial]]  # section, data, label, epsilon


def chosen_of(data: str) -> named.Named:
    """The table, or a part of it: `data` is "name" or "name:rows"."""
    name, _, rows = data.partition(":")
    return named.load(name) if not rows else part(named.load(name), int(rows))


def part(whole: named.Named, rows: int) -> named.Named:
    """So many of the training rows; the schema says so."""
    train = whole.train.sample(rows, random_state=0).reset_index(drop=True)
    return dataclasses.replace(whole, train=train, schema=dataclasses.replace(whole.schema, units=rows))


def one(trial: Trial) -> dict[str, Any]:
    """One table and its judgement; the evaluation's own seed is 0, the spread is over fits."""
    figures = judged(trial, partial(untrained, PATEGAN()), load=chosen_of)
    if math.isinf(figures.get("epsilon_spent", 0.0)):
        figures.pop("epsilon_spent")  # JSON has no infinity
    return figures


def watched(trial: Trial) -> dict[str, Any]:
    """A fit without noise: the share of generated rows that teachers took for real, in each quarter of the game, and what came of it."""
    said = []

    def seen(step: int, steps: int, figures: Any) -> None:
        said.append((min(3, 4 * (step - 1) // steps), figures["labelled real"]))

    def played(trial: Trial, chosen: named.Named, axes: Sequence[Axis], limit: float | None) -> tuple[Table, Figures]:  # noqa: ARG001
        start = time.process_time()
        settings = {"rounds": ROUNDS, **trial.settings}
        made = Synthesizer(trial.generator, schema=chosen.schema, budget=Budget(math.inf, DELTA), **settings)
        release = made.fit(chosen.train, seed=trial.seed, progress=seen)
        quarters = [statistics.fmean(share for place, share in said if place == quarter) for quarter in range(4)]
        figures = {"labelled_real": quarters, "fit_cpu_seconds": time.process_time() - start}
        return table_of(release.sample(len(chosen.train), seed=trial.seed), tuple(axes), "synthetic"), figures

    return judged(trial, played, load=watched_on)


def watched_on(data: str) -> named.Named:
    """Of Adult `FEW` of the training rows are fitted, and `OTHERS` of them judge; of other tables all, and the test rows."""
    if data != WATCHED:
        return named.load(data)
    whole = named.load(ADULT)
    mixed = whole.train.sample(FEW + OTHERS, random_state=0)
    train, others = mixed[:FEW].reset_index(drop=True), mixed[FEW:].reset_index(drop=True)
    return dataclasses.replace(whole, train=train, test=others, schema=dataclasses.replace(whole.schema, units=FEW))


def watches(seeds: int) -> dict[tuple[str, str], list[Trial]]:
    """The trials of `watched`, by data and label."""
    asked = [(WATCHED, *each) for each in WATCHES]
    asked += [(data, *each) for data in WATCHED_ELSEWHERE for each in ELSEWHERE]
    return {
        (data, label): alike(
            seeds, data=data, label=label, generator="pategan_original", settings=settings, epsilon=math.inf
        )
        for data, label, settings in asked
    }


def groups_of(seeds: int, rows: int | None) -> Groups:
    """All trials of the report, by section, data, label and epsilon."""
    ending = "" if rows is None else f":{rows}"

    def each(data: str, label: str, generator: str, settings: dict[str, Any], epsilon: float) -> list[Trial]:
        about = {"label": label, "generator": generator, "settings": settings, "epsilon": epsilon, "delta": DELTA}
        return alike(seeds, data=data + ending, **about)

    found: Groups = {}
    for epsilon in ABLATED_AT:
        for label, settings in ABLATION:
            found["ablation", ADULT, label, epsilon] = each(ADULT, label, "pategan", settings, epsilon)
    for label, settings, epsilons in SIZES:
        for epsilon in epsilons:
            found["sizes", ADULT, label, epsilon] = each(ADULT, label, "pategan_original", settings, epsilon)
    for data in DATA:
        found["epsilon", data, "untrained generator", None] = alike(
            seeds, data=data + ending, label="untrained generator", generator=UNTRAINED
        )
        for epsilon in EPSILONS:
            for label, generator, settings in GENERATORS:
                found["epsilon", data, label, epsilon] = each(data, label, generator, settings, epsilon)
    return found


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds to run; the report has all that were ever run")
    parser.add_argument("--rows", type=int, default=None, help="training rows to take; default: all")
    parser.add_argument("--scratch", type=Path, default=SCRATCH)
    parser.add_argument("--data", nargs="*", default=list(DATA), help="data sets to run; default: all")
    parser.add_argument(
        "--only", nargs="*", default=None, help="labels to run; default: all. Without any: write the report"
    )
    parser.add_argument("--epsilon", nargs="*", type=float, default=None, help="epsilons to run; default: all")
    parser.add_argument("--forget", default=None, help="a generator whose kept trials are run anew")
    parser.add_argument(
        "--watch",
        nargs="*",
        type=int,
        default=(),
        help="the seeds of which the game of the paper is watched, where it was not yet",
    )
    arguments = parser.parse_args()
    name = "pategan" if arguments.rows is None else f"pategan_{arguments.rows}_rows"
    seeds = max(SEEDS, arguments.seeds)
    groups, looks = groups_of(seeds, arguments.rows), watches(seeds)
    if not arguments.scratch.exists():
        rows = trials.report_of(name).get("rows", ())
        held = (((row["section"], row["data"], row["generator"], _number(row["epsilon"])), row["runs"]) for row in rows)
        watched_rows = trials.report_of(name).get("watched", ())
        seen = (((row.get("data", WATCHED), row["generator"]), row["runs"]) for row in watched_rows)
        known = trials.recalled((each for each in held if each[0] in groups), groups)
        trials.save(known | trials.recalled((each for each in seen if each[0] in looks), looks), arguments.scratch)
    if arguments.forget:
        print(trials.forget(arguments.forget, arguments.scratch), "trials forgotten")
    wanted = [
        trial
        for (_, data, label, epsilon), group in groups.items()
        for trial in group
        if trial.seed < arguments.seeds
        and data in arguments.data
        and (arguments.only is None or label in arguments.only)
        and (arguments.epsilon is None or epsilon is None or epsilon in arguments.epsilon)
    ]
    wanted.sort(key=lambda trial: trial.seed)  # one seed of everything before the second
    trials.kept(wanted, one, arguments.scratch, special=(UNTRAINED,))
    looked = [
        trial
        for (data, _), group in looks.items()
        for trial in group
        if trial.seed in arguments.watch and data.partition(",")[0] in arguments.data
    ]
    known = trials.kept(sorted(looked, key=lambda trial: trial.seed), watched, arguments.scratch)
    rows = [
        {
            "section": section,
            "data": data,
            "generator": label,
            "epsilon": _plain(epsilon),
            "settings": group[0].settings,
            **(bought(group[0]) if section == "sizes" else {}),
            **row,
        }
        for (section, data, label, epsilon), group in groups.items()
        if (row := trials.together(group, known, FIGURES)) is not None
    ]
    result = {
        "delta": DELTA,
        "training_rows": arguments.rows,
        "models": list(MODELS),
        "rows": rows,
        "lacking": lacking(groups, known),
        "watched": [
            {"data": data, "generator": label, "settings": group[0].settings, **row}
            for (data, label), group in looks.items()
            if (row := trials.together(group, known, (*METRICS, *DISTANCES, "fit_cpu_seconds"))) is not None
        ],
        **provenance(),
    }
    write(name, result, page(result))


def bought(trial: Trial) -> dict[str, float]:
    """What `pategan_original` asks: teachers, the scale of the noise on their votes, labels."""
    schema, settings = chosen_of(trial.data).schema, PATEGANOriginal(**trial.settings)
    noise = calibrate(lambda multiplier: settings.plan(schema, multiplier), Budget(trial.epsilon or 0.0, DELTA))
    teachers, labels = settings.teachers_of(schema, noise), math.prod(settings.student_steps_at(schema, noise))
    return {"teachers": teachers, "scale": 2 * noise, "labels": labels}


def lacking(groups: Groups, known: dict[str, Any]) -> list[dict[str, Any]]:
    """Every group that is not whole, and how many of its seeds there are."""
    found = []
    for (section, data, label, epsilon), group in groups.items():
        there = sum("broken" not in known.get(trial.key, {"broken": "not run"}) for trial in group)
        if there < len(group):
            about = {"section": section, "data": data, "generator": label, "epsilon": _plain(epsilon)}
            found.append({**about, "seeds": there, "seeds_wanted": len(group)})
    return found


def _plain(epsilon: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if epsilon is not None and math.isinf(epsilon) else epsilon


def _number(epsilon: float | str | None) -> float | None:
    return None if epsilon is None else float(epsilon)


def page(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    some = result["training_rows"]
    lines = [
        "# PATE-GAN: the paper's algorithm, and ours",
        "",
        "Predictive models are trained on synthetic rows and tested on real ones; AUROC, AUPRC and accuracy are means over "
        f"{', '.join(result['models'])}. Total variation distances (TVD) are taken from the training rows"
        f"{'' if some is None else f', of which there were {some:,}'}. Each figure is the mean ± the standard deviation over the seeds of "
        "the fit. Three rows show what a figure has to beat. The untrained generator is the network as it is drawn, which no record has "
        "touched. `its start alone` spends 99 % of the precision on it, with one query and one step: by default the fit of `mixture` "
        "in the declared bins. `start=label alone` does the same with the noisy tables of label and column. The start was chosen on "
        "made-up tables (not reported), after Adult had been fitted from both starts. Written by `recipes/pategan.py`.",
        "",
        "## By epsilon",
        "",
        "| table | generator | epsilon | AUROC | AUPRC | accuracy | 1-way TVD | 2-way TVD | fit, CPU seconds | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *_rows(result, "epsilon"),
        "",
        "## What each change does",
        "",
        "`pategan` differs from the paper's algorithm by several changes. Each row but the first takes one of them back to the paper's "
        "value. All but the last use `start=label`, which is no longer the default.",
        "",
        "| table | taken back | epsilon | AUROC | AUPRC | accuracy | 1-way TVD | 2-way TVD | fit, CPU seconds | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *_rows(result, "ablation"),
        "",
        *_sized([row for row in result["rows"] if row["section"] == "sizes"]),
    ]
    if result["watched"]:
        lines += ["", "## When the paper's algorithm learns", "", *_watched(result["watched"])]
    if result["lacking"]:
        lines += ["", "## Not run", "", *_not_run(result)]
    commits = sorted({commit for row in result["rows"] for commit in row["commits"]})
    machines = sorted({run["processor"] for row in result["rows"] for run in row["runs"]})
    end = f"delta {DELTA:g}; unit: one record; one thread of {', '.join(machines)}; commits {', '.join(commits)}."
    return "\n".join([*lines, "", end, ""])


def _sized(rows: list[dict[str, Any]]) -> list[str]:
    """The paper's algorithm at both sizes of its teachers, and what it asked."""
    return [
        "## The paper's algorithm: its labels, and the size of its teachers",
        "",
        "By default `pategan_original` takes teachers of a thousand records without noise, and of as few as 50 where there is noise. "
        "Larger teachers are fewer, so the noise drowns their votes sooner and the budget buys fewer labels. The rows take the two apart "
        "on Adult.",
        "",
        "| what | epsilon | teachers | scale of the noise | labels | AUROC | 1-way TVD | 2-way TVD | fit, CPU seconds | seeds |",
        "|" + "---|" * 10,
        *(
            f"| {row['generator']} | {row['epsilon']} | {row['teachers']} | {row['scale']:.1f} | {row['labels']:,} "
            f"| {shown(row, 'auroc', 3)} | {shown(row, 'tvd_1way', 3)} | {shown(row, 'tvd_2way', 3)} "
            f"| {shown(row, 'fit_cpu_seconds', 0)} | {len(row['seeds'])} |"
            for row in rows
        ),
    ]


def _watched(rows: list[dict[str, Any]]) -> list[str]:
    """How often teachers take a generated row for real, and what comes of it."""
    there = {(row["data"], row["generator"]) for row in rows}
    lacking = [", ".join(place) for place in watches(1) if place not in there]
    return [
        f"`pategan_original` without noise on {FEW:,} training rows of Adult, {ROUNDS} rounds "
        f"where no other number stands; judged on {OTHERS:,} other training rows. Other tables are fitted whole and judged on their "
        "test rows. The share of generated rows that the majority of teachers takes for real, in each quarter of the game: where it is "
        "zero, the student sees one class alone.",
        "",
        "| table | what differs | labelled real, by seed | AUROC | 1-way TVD | 2-way TVD | fit, CPU seconds | seeds |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['data'].partition(',')[0]} | {row['generator']} | {'; '.join(_quarters(run) for run in row['runs'])} "
            f"| {shown(row, 'auroc', 3)} | {shown(row, 'tvd_1way', 3)} | {shown(row, 'tvd_2way', 3)} "
            f"| {shown(row, 'fit_cpu_seconds', 0)} | {len(row['seeds'])} |"
            for row in rows
        ),
        *(["", f"Not run: {'; '.join(lacking)}."] if lacking else []),
    ]


def _quarters(run: dict[str, Any]) -> str:
    return " ".join(f"{share:.3f}" for share in run["labelled_real"])


def _not_run(result: dict[str, Any]) -> list[str]:
    """A line for each table, or for each generator of a table that was run in part."""
    there = {row["data"] for row in result["rows"]}
    lines = [f"- {data}: all of it" for data in DATA if data not in there]
    partly: dict[tuple[str, str, str], list[str]] = {}
    for each in result["lacking"]:
        if each["data"] in there:
            epsilon = "" if each["epsilon"] is None else f"at {each['epsilon']}: "
            key = each["section"], each["data"], each["generator"]
            partly.setdefault(key, []).append(
                f"{epsilon}{each['seeds_wanted'] - each['seeds']} of {each['seeds_wanted']} seeds"
            )
    return [
        *(f"- {data}, {section}: {label} ({'; '.join(said)})" for (section, data, label), said in partly.items()),
        *lines,
    ]


def _rows(result: dict[str, Any], section: str) -> list[str]:
    lines = []
    for row in result["rows"]:
        if row["section"] == section:
            cells = [shown(row, name, 4 if name in DISTANCES else 3) for name in (*METRICS, *DISTANCES[:2])]
            epsilon = "-" if row["epsilon"] is None else row["epsilon"]
            seconds = shown(row, "fit_cpu_seconds", 0)
            lines.append(
                f"| {row['data']} | {row['generator']} | {epsilon} | {' | '.join(cells)} | {seconds} | {len(row['seeds'])} |"
            )
    return lines


if __name__ == "__main__":
    main()
