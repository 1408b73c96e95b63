"""What broad tables do to correlations of numbers: mixture without and with them, and AIM.

    SYNTHDP_DATA=/path/to/data OMP_NUM_THREADS=1 python recipes/correlations.py [--data stroke meps ...] [--epsilons 1]

Writes reports/correlations.{json,md}; the report is made of everything that the scratch file holds, so that it can be run in parts;
without a scratch file it goes on from the report. A trial is one seeded fit, as many synthetic rows as there are training rows, and
three models that learn from them and are scored on the real test rows.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import trials
from judging import DISTANCES, METRICS, MODELS, NUMBER_METRICS, judged
from record import HOME, provenance, write
from trials import Figures, Trial, shown

from synthdp.evaluate.tables import Axis, Table, table_of
from synthdp.schema.codec import Codec
from synthdp.sets.named import Named

if TYPE_CHECKING:
    import pandas as pd

EPSILONS, DELTA = (0.3, 1.0, 3.0), 1e-5
# Whether the share of the broad tables, their groups and their weight were chosen on the table; the rest of mixture was chosen on
# adult and others before.
DATA = {
    "stroke": False, "meps": False, "covid_testing": False, "randhie": False, "noshow": False, "nist_acs": False,
    "creditcard_sample": False, "adult": True, "support2": True,
}  # fmt: skip
MAKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mixture without broad tables": ("mixture", {"broad_share": 0.0}),
    "mixture": ("mixture", {}),
    "mixture on declared bins alone": ("mixture", {"cells": 0}),
    "aim": ("aim", {}),
}
BINNED = "pairs_in_declared_bins"
SHOWN = ("pearson", "spearman", "means", "tvd_1way", "tvd_2way", BINNED, "tvd_3way")


def fitted(trial: Trial, chosen: Named, axes: Sequence[Axis], limit: float | None) -> tuple[Table, Figures]:
    """As in `judging`, and how far every two columns are from the training rows in the declared bins."""
    frame, figures = trials.rows_of(trial, chosen, limit=limit)
    return table_of(frame, tuple(axes), "synthetic"), {**figures, BINNED: in_declared_bins(frame, chosen)}


def in_declared_bins(frame: "pd.DataFrame", chosen: Named) -> float:
    """Mean total variation distance of pairs of coded columns from the training rows."""
    codec = Codec(chosen.schema)
    made, real = (codec.encode(each) for each in (frame, chosen.train))
    found = []
    for a, b in combinations(range(len(codec.sizes)), 2):
        wide = codec.sizes[a] * codec.sizes[b]
        shares = [
            np.bincount(each[:, a] * codec.sizes[b] + each[:, b], minlength=wide) / len(each) for each in (made, real)
        ]
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def groups_of(data: str, seeds: int) -> dict[tuple[str, float | None], list[Trial]]:
    """(report's name, epsilon) -> the same trial over the seeds."""
    found: dict[tuple[str, float | None], list[Trial]] = {}
    for epsilon in EPSILONS:
        for label, (name, settings) in MAKERS.items():
            made = {"generator": name, "settings": settings, "epsilon": epsilon, "delta": DELTA}
            found[label, epsilon] = [Trial(data=data, label=label, seed=seed, **made) for seed in range(seeds)]
    return found


def section(data: str, groups: dict[tuple[str, float | None], list[Trial]], known: dict[str, Figures]) -> Figures:
    """What the report holds of one table."""
    figures = (*METRICS, *NUMBER_METRICS, *DISTANCES, BINNED, "fit_cpu_seconds")
    rows = trials.rows(groups, known, figures)
    used = DATA[data]
    return {"data": data, "used_in_choosing": used, "rows": rows, "broken": trials.broken(groups, known)}


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA), metavar="NAME")
    parser.add_argument("--only", nargs="*", default=list(MAKERS), choices=list(MAKERS), metavar="LABEL")
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS, help="run these now; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind that the report asks for")
    parser.add_argument("--run-seeds", type=int, nargs="*", default=None, help="run these seeds now; default: all")
    parser.add_argument("--scratch", type=Path, default=HOME / "outputs" / "correlations.json")
    given = parser.parse_args()
    groups = {data: groups_of(data, given.seeds) for data in DATA}
    trials.begin(given.scratch, "correlations", groups)
    wanted = [trial for data in given.data for group in groups[data].values() for trial in group]
    wanted = [trial for trial in wanted if given.run_seeds is None or trial.seed in given.run_seeds]
    wanted = [trial for trial in wanted if trial.label in given.only and trial.epsilon in given.epsilons]
    known = trials.kept(wanted, partial(judged, maker=fitted), given.scratch)
    sections = [part for data in DATA if (part := section(data, groups[data], known))["rows"]]
    result = {"delta": DELTA, "models": list(MODELS), "tables": sections, **provenance()}
    write("correlations", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "# Correlations of numbers: mixture without and with broad tables, and AIM",
        "",
        "Pearson and rank correlation: mean absolute error over pairs of numeric columns, against the training rows. Means: in "
        "standard deviations of the training rows. TVD: mean total variation distance from the training rows. AUROC, or R2 of a "
        f"numeric target: train on synthetic, test on real; mean over {', '.join(result['models'])}. Delta "
        f"{result['delta']:g}; mean ± standard deviation over the seeds of the fit; each generator with its defaults, seeded "
        "rehearsals. Written by `recipes/correlations.py`. The settings of the broad tables were chosen on made-up tables, and on "
        "the tables that say so. Pairs in declared bins: the 2-way TVD in the schema's bins, instead of 20 bins of equal width. Rows of "
        "`mixture` are of later code than those of its two variants: since then it fits large tables of noise as independent, and smooths "
        "parts of bins. Both were chosen on made-up tables; but a form of the first that was dropped had been run on seven of these "
        "tables, and both were run on some before they were kept.",
        "",
        "| data | epsilon | generator | Pearson | rank correlation | means | 1-way TVD | 2-way TVD | pairs in declared bins "
        "| 3-way TVD | AUROC or R2 | fit, CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for table in result["tables"]:
        name = table["data"] + (" (used in choosing)" if table["used_in_choosing"] else "")
        for row in table["rows"]:
            score = shown(row, "auroc" if "auroc" in row else "r2", 3)
            cells = [*(shown(row, figure, 4) for figure in SHOWN), score, shown(row, "fit_cpu_seconds", 1)]
            lines.append("| " + " | ".join([name, f"{row['epsilon']:g}", row["generator"], *cells]) + " |")
    lines += beside_aim(result["tables"])
    runs = [row for table in result["tables"] for row in table["rows"]]
    commits = sorted({commit for row in runs for commit in row["commits"]})
    machines = sorted({run["processor"] for row in runs for run in row["runs"]})
    present = {(table["data"], row["epsilon"]) for table in result["tables"] for row in table["rows"]}
    missing = [f"{data} at {epsilon:g}" for data in DATA for epsilon in EPSILONS if (data, epsilon) not in present]
    lacking = [f"Not run: {', '.join(missing)}."] if missing else []
    return "\n".join([*lines, "", *lacking, f"{', '.join(machines)}; commits {', '.join(commits)}.", ""])


COMPARED = (
    ("auroc", "AUROC", 1),
    ("r2", "R2", 1),
    ("tvd_2way", "2-way TVD", -1),
    ("pearson", "Pearson", -1),
    ("spearman", "rank correlation", -1),
)


def beside_aim(tables: list[dict[str, Any]]) -> list[str]:
    """In how many cells of (table, epsilon, measure) mixture is as good as AIM, and which are lost."""
    found = {False: list[str | None](), True: list[str | None]()}
    for table in tables:
        rows = {(row["generator"], row["epsilon"]): row for row in table["rows"]}
        for epsilon in EPSILONS:
            ours, theirs = rows.get(("mixture", epsilon)), rows.get(("aim", epsilon))
            for figure, name, sign in COMPARED if ours and theirs else ():
                if figure not in ours or figure not in theirs:
                    continue
                behind = sign * (theirs[figure]["mean"] - ours[figure]["mean"])
                lost = behind > max(ours[figure]["sd"] or 0.0, theirs[figure]["sd"] or 0.0)
                said = f"{table['data']} at {epsilon:g}, {name}: {shown(ours, figure, 3)} beside {shown(theirs, figure, 3)}"
                found[table["used_in_choosing"]].append(said if lost else None)
    lines = [
        "",
        "## mixture beside AIM",
        "",
        "A cell is a table, an epsilon and a measure: AUROC (or R2), 2-way TVD, errors of Pearson and rank correlations. `mixture` is as "
        "good as `aim` where it is better, or behind by no more than the larger of the two standard deviations.",
        "",
    ]
    for used, cells in found.items():
        lost = [said for said in cells if said is not None]
        what = "used in choosing" if used else "on which nothing was chosen here"
        lines.append(
            f"- Tables {what}: {len(cells) - len(lost)} of {len(cells)} cells."
            + (f" Behind: {'; '.join(lost)}." if lost else "")
        )
    return lines


if __name__ == "__main__":
    main()
