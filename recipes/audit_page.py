"""The page and the picture of `audit.py`: what was found of what is claimed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Row = dict[str, Any]
NOT_RUN = "not run"
COLUMNS = {  # estimator -> its column
    "Clopper-Pearson bound": "Clopper-Pearson bound",
    "Gaussian-DP bound": "Gaussian bound",
    "Gaussian-DP point estimate": "point estimate",
}
CLAIM = "#b03a2e"
SERIES = (("found", "found", "o", "#1f5f8b"), ("at_half_the_noise", "at half the noise", "x", "#8b6f1f"))

INTRODUCTION = """# Audits: claimed against measured epsilon

Every epsilon is at delta {delta:g}. A bound is a lower bound on the true epsilon, each with {confidence:.0%} confidence. The
Clopper-Pearson bound goes by the rates of the attack's two errors and is always valid. The Gaussian bound is valid where the claim is
Gaussian DP (unsampled Gaussian noise); elsewhere it is a diagnostic, in brackets. "Found" is the larger of the valid bounds. The point
estimate, in brackets with one standard error to either side, is Gaussian too and bounds nothing.

An attack that reaches a true claim passes it with its {confidence:.0%} bound one time in twenty. The verdict therefore goes by bounds
that hold for all {audits} rows together but for a chance of {gate_error:g}, shared among {shared_among}: "contradicted"
fails the build. "No power" means that the attack found less than a twentieth of the claim, and so says nothing for it. Each attack
was also run where half of the claimed noise is drawn: what it finds there is its power. A row that says "not run" is no evidence at all."""

AT_DOOR = """Found, of claimed. The adversary chooses records and questions and sees every answer. Of loops and of a fit that was
resumed they hold it as likely that coins are drawn twice as that they are not. Two things cannot be found by any number of runs like
these: what sampling hides in tails of very small probability, and, of another unit, the part of the sensitivity that the pair does
not use. In tables, grids and moments its cells do not. Of teachers and microbatches two may change, and here one does, since the
units' names are hashed with a key that nobody knows. A stop, a cap and a selection are the door's doing, whatever is asked: they
are attacked with questions of many coordinates, of which one run makes thousands of replicas, and with choices under a cap, as `aim`
asks them."""

NO_ROW = {
    "Reveal": "the records themselves, which are revealed at an infinite epsilon"
}  # questions without a row at the door
NOT_ASKED = {  # (questions, way of asking): why there is no such row
    ("size", "another unit"): "it is the same on both sides",
    ("size", "4 records, another unit"): "the same",
    ("choice", "samples"): "no accountant has a proof for it",
    ("history tables, linked tables", "samples"): "histories are of all units",
    ("history tables, linked tables", "loops"): "loops are of samples",
    ("votes", "samples"): "teachers answer for all of their records or not at all",
    ("thresholds, grid", "samples"): "they are asked of cells, before these are coded, and samples are drawn of codes",
    ("best of several runs", "another unit"): "its runs ask for the size",
    (
        "best of several runs",
        "units of 4 records",
    ): "its runs ask for the size, to which a unit is one whatever it holds",
    ("best of several runs", "4 records, another unit"): "the same",
    ("best of several runs", "samples"): "a run may ask for samples, a selection is of all units",
    ("best of several runs", "loops"): "a selection is charged as a whole",
}
UNASKED = "Not asked:\n\n{reasons}"
WITHOUT = "Not attacked, since there is nothing to find out: {questions}."
LATER = "**Not in this report, which was made before they had a row**: {questions}."

FEWER = """The time for this report was limited: all rows together took {minutes:.0f} CPU minutes of one core. Some generators therefore
had fewer fits a side than are asked for ("250 of 1000"): their bounds are looser, and just as valid."""

OF_GENERATORS = """Many small fits on both sides of a worst-case pair at epsilon {epsilon:g}. The attack sees the model alone: Fisher's
discriminant of its arrays, learned from rehearsals in which both sides have the same noise. Of `PrivateTrainer`, which trains through
its public class, it sees the weight that leaves."""

WEAK = {  # rows without power, or that find less where half of the noise is drawn: why
    "door: votes, Shares by margins, another unit": "by the luck of thresholds from 160 runs; other runs found 0.99, and 3.27 at half",
    "generator: dpgan_images (images), its own": "its start takes one Gaussian a class above a noise of 1.5 and several below: at half "
    "of the noise it asks for clusters, and a linear score does not follow them",
    "generator: kernel_teachers_images (images), its own": "the same start, and 200 fits a side",
    "generator: mixture, 4 x (0, 0, 0) and (1, 1, 1)": "most noisy counts of four records are cut off at zero",
    "generator: pategan, 4 x (0, 0, 0) and (1, 1, 1)": "most of the start's counts of four records are cut off at zero",
    "generator: pategan_original, 4 x (0, 0, 0) and (1, 1, 1)": "two models leave, by the label of one generated row, and that hardly "
    "depends on the record: of sixty pairs of fits with the same noise eight differed",
    "generator: kernel_teachers:votes, its own": "Adam keeps little of a gradient but its signs, so that few different models leave",
    "one run: dpgan, 1000 canaries, drawn records": "a canary moves a discriminator that does not leave, and a hundred steps of noise "
    "hide what the generator learned of it",
}
BECAUSE = "Rows without power, or that find less at half of the noise:\n\n{reasons}"

IN_ONE_RUN = "Guesses about many canaries of one run (Steinke, Nasr & Jagielski 2023): cheap, and much weaker."


def report(result: Mapping[str, Any], ways: Sequence[str], asked: Iterable[str] = ()) -> str:
    """Markdown: what was found by question and by generator, and then every row. `asked` are the questions that have a row by now."""
    config, rows, provenance = result["config"], result["rows"], result["provenance"]
    at_door, of_generators, once = (
        [row for row in rows if row["part"] == part] for part in ("door", "generator", "one run")
    )
    lacking = list(dict.fromkeys(what for what in asked if what not in {row["what"] for row in at_door}))
    seconds = sum(row.get("cpu_seconds", 0.0) for row in rows)
    changed = ", with changes that are not committed" if provenance["uncommitted_changes"] else ""
    parts = [
        INTRODUCTION.format(confidence=1 - config["error"], **{"shared_among": config["audits"], **config}),
        "## At the door",
        AT_DOOR,
        matrix(at_door, ways),
        UNASKED.format(reasons="\n".join(f"- {what}, {way}: {why}" for (what, way), why in NOT_ASKED.items())),
        WITHOUT.format(questions=", ".join(f"{words} (`{name}`)" for name, words in NO_ROW.items())),
        *([LATER.format(questions=", ".join(lacking))] if lacking else []),
        "## Generators",
        OF_GENERATORS.format(**config),
        *([FEWER.format(minutes=seconds / 60)] if config["limited"] else []),
        table(of_generators, ("generator", "pair", "fits a side")),
        "## In one run",
        IN_ONE_RUN,
        table_once(once),
        *because(rows),
        "## Every row at the door",
        table(at_door, ("question", "how", "replicas a side")),
        "![claimed against measured](audit.png)",
        f"{seconds / 60:.0f} CPU minutes on {provenance['processor']}, {provenance['cores']} cores. The code is that of commit "
        f"{provenance['synthdp']}, the last that touches synthdp/ or the attacks beside `recipes/audit.py`{changed}.",
        *again(rows, provenance["synthdp"]),
    ]
    return "\n\n".join(parts) + "\n"


def again(rows: Iterable[Row], commit: str) -> list[str]:
    """Which rows are of another commit."""
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.get("synthdp", commit) != commit:
            others.setdefault(row["synthdp"], []).append(row["name"])
    return [f"Made again at commit {other}: {'; '.join(names)}." for other, names in others.items()]


def because(rows: Iterable[Row]) -> list[str]:
    """Why attacks are weak that are."""
    weak = [
        row["name"]
        for row in rows
        if row["verdict"] == "no power" or row.get("at_half_the_noise", 1) < row.get("found", 0)
    ]
    reasons = "\n".join(f"- {name}: {WEAK.get(name, 'not looked into yet')}" for name in weak)
    return [BECAUSE.format(reasons=reasons)] if weak else []


def matrix(rows: Sequence[Row], ways: Sequence[str]) -> str:
    """Questions by ways of asking them."""
    cells = {(row["what"], row["how"]): cell(row) for row in rows}
    questions = dict.fromkeys(row["what"] for row in rows)
    return lines(("question", *ways), ((what, *(cells.get((what, way), "") for way in ways)) for what in questions))


def cell(row: Row) -> str:
    """What was found, and where it is not that the claim stands, the verdict and what is found at half the noise."""
    if row["verdict"] == NOT_RUN:
        return f"**{NOT_RUN}**"
    words = f"{row['found']:.1f} of {row['claimed']:.1f}"
    half = f"{row['at_half_the_noise']:.1f} at half the noise"
    return words if row["verdict"] == "stands" else f"**{words}: {row['verdict']}**, {half}"


def table(rows: Sequence[Row], heads: tuple[str, str, str]) -> str:
    """One line a row, with every estimator's figure."""
    return lines(
        (*heads, "claimed", *COLUMNS.values(), "found at half the noise", "verdict"),
        (
            (row["what"], row["how"], runs(row), *figures(row, COLUMNS), *ends(row))
            if row["verdict"] != NOT_RUN
            else (row["what"], row["how"], f"0 of {row['asked']}", *[""] * 5, f"**{NOT_RUN}**: {row['why']}")
            for row in rows
        ),
    )


def runs(row: Row) -> str:
    """A side, and how many are asked for where they are more."""
    return str(row["runs"]) if row["runs"] >= row["asked"] else f"{row['runs']} of {row['asked']}"


def table_once(rows: Sequence[Row]) -> str:
    """The same of one-run audits."""
    return lines(
        ("mechanism", "how", "guesses right", "claimed", "one-run bound", "found at half the noise", "verdict"),
        (
            (
                row["what"],
                row["how"],
                f"{row['correct']} of {row['guesses']}",
                *figures(row, ["one-run bound"]),
                *ends(row),
            )
            for row in rows
        ),
    )


def figures(row: Row, estimators: Iterable[str]) -> list[str]:
    """The claim, and a figure of each estimator."""
    held = {figure["estimator"]: figure for figure in row["figures"]}
    return [f"{row['claimed']:.2f}", *(said(held[estimator]) for estimator in estimators)]


def ends(row: Row) -> tuple[str, str]:
    """The last two cells."""
    return f"{row['at_half_the_noise']:.2f}", row["verdict"] if row["verdict"] == "stands" else f"**{row['verdict']}**"


def said(figure: Row) -> str:
    """A figure, in brackets where it is a diagnostic."""
    errors = figure.get("one standard error")
    words = f"{figure['epsilon']:.2f}" + ("" if errors is None else f" [{errors[0]:.2f}, {errors[1]:.2f}]")
    return words if figure.get("valid", True) else f"({words})"


def lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def plot(rows: Sequence[Row], epsilon: float) -> Figure:
    """Found at all of the claimed noise and at half of it; no true claim lies far below what was found at all of it."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    made = [row for row in rows if row["verdict"] != NOT_RUN]
    of_door(left, [row for row in made if row["part"] == "door"])
    of_generators(right, [row for row in made if row["part"] == "generator"], epsilon)
    for axes in (left, right):
        axes.legend(fontsize=7, frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("epsilon found (lower bound, 95 % confidence)")
    figure.suptitle("Claimed against measured epsilon, delta 1e-5", fontsize=11)
    return figure


def of_door(axes: Axes, rows: Sequence[Row]) -> None:
    """Against the claim."""
    claimed = [row["claimed"] for row in rows]
    for key, label, marker, colour in SERIES:
        axes.scatter(claimed, [row[key] for row in rows], marker=marker, color=colour, label=label, s=26)
    most = 1.05 * max(claimed, default=1.0)
    axes.plot([0, most], [0, most], color=CLAIM, linewidth=1.2, label="the claim")
    axes.set(title="at the door", xlabel="claimed epsilon", xlim=(0, most))


def of_generators(axes: Axes, rows: Sequence[Row], epsilon: float) -> None:
    """Side by side, with the point estimates."""
    places = np.arange(len(rows))
    for key, label, marker, colour in SERIES:
        axes.scatter(places, [row[key] for row in rows], marker=marker, color=colour, label=label, s=26)
    for place, row in zip(places, rows, strict=True):
        (estimate,) = (figure for figure in row["figures"] if figure["estimator"] == "Gaussian-DP point estimate")
        axes.plot([place, place], estimate["one standard error"], color=SERIES[0][3], alpha=0.5, linewidth=1.5)
    axes.axhline(epsilon, color=CLAIM, linewidth=1.2, label="the claim")
    axes.set(title="generators (bars: point estimate, one standard error)")
    axes.set_xticks(places, [f"{row['what']}, {row['how']}" for row in rows], rotation=90, fontsize=6)
