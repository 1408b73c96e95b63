"""The PATE-GAN paper's evaluation (Jordon, Yoon & van der Schaar 2019, section 5): train on synthetic, test on real.

    SYNTHDP_DATA=/path/to/data python recipes/pategan_paper.py

Four of its tables (two of them in part) and Spambase, twelve predictive models, epsilon 1. Writes
reports/pategan_paper.{json,md}; `--only GENERATOR ...` runs these alone, and the report is made of everything that the
scratch file holds; without a scratch file it goes on from the report. No setting is tuned to a table.
"""

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import predictive_models
import trials
from record import HOME, provenance, write
from trials import REAL, Trial, shown

from synthdp.sets import named

EPSILON, DELTA = 1.0, 1e-5
DATA = ("epileptic_seizure", "cervical_cancer", "spambase", "isolet_part", "creditcard_sample")
# Label, generator, settings: each generator with its defaults.
GENERATORS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("real training rows", REAL, {}),
    ("independent", "independent", {}),
    ("dpgan", "dpgan", {}),
    ("dpgan from label x column", "dpgan", {"start": "label"}),
    ("kernel_teachers", "kernel_teachers", {}),
    ("pategan", "pategan", {}),
    ("pategan from label x column", "pategan", {"start": "label"}),
    ("pategan_original", "pategan_original", {}),
    ("mixture", "mixture", {}),
)
SCRATCH = HOME / "outputs" / "pategan_paper.json"
FIGURES = ("auroc", "auprc", "fit_seconds", "fit_cpu_seconds", "fit_peak_mib", "epsilon_spent")


def one(trial: Trial) -> dict[str, Any]:
    """Twelve models trained on one table; the mean over them."""
    chosen = named.load(trial.data)
    frame, figures = trials.rows_of(trial, chosen)
    work = predictive_models.tables(chosen.schema, frame, chosen.train, chosen.test)
    by_model = predictive_models.scores(work.synthetic, work, seed=trial.seed)
    means = {
        metric: statistics.fmean(reached[metric] for reached in by_model.values())
        for metric in predictive_models.METRICS
    }
    share = float((work.synthetic[1] == work.positive).mean())
    return {**figures, **means, "positive_share": share, "by_model": by_model, "xgboost": predictive_models.library()}


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=SCRATCH)
    parser.add_argument("--only", nargs="*", default=None, help="generators to run (or real); default: all")
    parser.add_argument("--data", nargs="*", default=list(DATA), help="data sets to run; default: all")
    parser.add_argument("--forget", default=None, help="a generator whose kept trials are run anew")
    arguments = parser.parse_args()
    groups = {
        (data, label): [
            Trial(
                data=data, label=label, generator=generator, settings=settings, seed=seed,
                epsilon=None if generator == REAL else EPSILON, delta=None if generator == REAL else DELTA,
            )
            for seed in range(arguments.seeds)
        ]
        for label, generator, settings in GENERATORS
        for data in DATA
    }  # fmt: skip
    if not arguments.scratch.exists():
        trials.save(trials.recalled(_held(trials.report_of("pategan_paper")), groups), arguments.scratch)
    if arguments.forget:
        print(trials.forget(arguments.forget, arguments.scratch), "trials forgotten")
    wanted = [
        trial
        for group in groups.values()
        for trial in group
        if trial.data in arguments.data and (arguments.only is None or trial.generator in arguments.only)
    ]
    known = trials.kept(wanted, one, arguments.scratch)
    rows = {place: trials.together(group, known, FIGURES) for place, group in groups.items()}
    tables = [
        {
            **about(data),
            "generators": {label: rows[data, label] for label, _, _ in GENERATORS if rows[data, label] is not None},
        }
        for data in DATA
    ]
    result = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "settings": {label: settings for label, _, settings in GENERATORS},
        "tables": tables,
    }
    write("pategan_paper", {**result, **provenance()}, page({**result, **provenance()}))


def _held(report: dict[str, Any]) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    for table in report.get("tables", ()):
        for label, row in table["generators"].items():
            yield (table["data"], label), row["runs"]


def about(data: str) -> dict[str, Any]:
    """Sizes of a table: public, or of the test rows, which these figures are about anyhow."""
    chosen = named.load(data)
    target = chosen.schema.targets[0]
    return {
        "data": data,
        "target": target,
        "train": len(chosen.train),
        "test": len(chosen.test),
        "test_positive": int(chosen.test[target].sum()),
        "columns": len(chosen.schema.modelled),
    }


def page(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    tables = result["tables"]
    labels = [label for label, _, _ in GENERATORS if any(label in table["generators"] for table in tables)]
    fitted = [label for label in labels if label != GENERATORS[0][0]]
    lacking = [label for label, _, _ in GENERATORS if label not in labels]
    runs = [run for table in tables for row in table["generators"].values() for run in row["runs"]]
    commits = sorted({commit for table in tables for row in table["generators"].values() for commit in row["commits"]})
    seeds = ", ".join(str(seed) for seed in sorted({run["seed"] for run in runs}))
    machines = ", ".join(sorted({run["processor"] for run in runs}))
    lines = [
        "# The tables of the PATE-GAN paper at epsilon 1",
        "",
        "Predictive models are trained on synthetic rows and tested on real ones. Each figure is the mean over the twelve models of "
        "Jordon, Yoon & van der Schaar (2019), section 5; for XGBoost it takes "
        f"{', '.join(sorted({run['xgboost'] for run in runs}))}. Each generator has its default settings, and none was tuned to a table. "
        "A figure is the mean ± the standard deviation over the seeds of the fit; for real rows, over the seeds of the models.",
        "",
        "Bounds and bins are declared by hand, from documentation or as wide round numbers (conf/schemas). The splits are ours (a fixed "
        "public hash holds out a fifth), and so are the models' settings (recipes/predictive_models.py). Two tables are parts of the "
        "published ones (isolet_part, creditcard_sample), and spambase is not among the paper's. So compare these figures with each "
        "other, and not with published ones. Written by `recipes/pategan_paper.py`.",
        "",
        "| table | target | training rows | test rows | of them positive | columns |",
        "|---|---|---|---|---|---|",
        *(
            f"| {t['data']} | {t['target']} | {t['train']} | {t['test']} | {t['test_positive']} | {t['columns']} |"
            for t in tables
        ),
        *section(tables, "AUROC", "auroc", labels, 3),
        *section(tables, "AUPRC", "auprc", labels, 3),
        *section(tables, "Seconds of a fit", "fit_seconds", fitted, 0),
        *section(tables, "Peak memory of a fit, MiB", "fit_peak_mib", fitted, 0),
        *([] if not lacking else ["", f"Not run: {', '.join(lacking)}."]),
        "",
        f"delta {result['delta']:g}; unit: one record; seeds {seeds}; one thread of {machines}, other work beside it; "
        f"commits {', '.join(commits)}.",
        "",
    ]
    return "\n".join(lines)


def section(tables: list[dict[str, Any]], title: str, figure: str, labels: list[str], digits: int) -> list[str]:
    """One figure, a line per table and a column per generator."""
    lines = ["", f"## {title}", "", f"| table | {' | '.join(labels)} |", "|---" * (1 + len(labels)) + "|"]
    for table in tables:
        rows = [table["generators"].get(label) for label in labels]
        cells = " | ".join(shown(row, figure, digits) for row in rows)
        lines.append(f"| {table['data']} | {cells} |")
    return lines


if __name__ == "__main__":
    main()
