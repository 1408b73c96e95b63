"""Made-up tables that are hard in one way each, and what every generator makes of them at epsilon 1.

    OMP_NUM_THREADS=1 python recipes/stress.py [--data parity ...] [--only mixture aim ...] [--minutes 3]

Writes reports/stress.{json,md}; the report is made of everything that the scratch file holds, so that it can be run in parts; without
a scratch file it goes on from the report. A trial is as in recipes/tabular.py: one seeded fit with the generator's defaults, as many
synthetic rows as there are training rows, and three models that learn from them and are scored on test rows. `mixture` and `aim` have
three seeds, the others one. No folder of data is needed.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import trials
from compare_generators import of_tables
from judging import DISTANCES, METRICS, MODELS, REFERENCES, fitted, judged
from record import HOME, provenance, write
from trials import REAL, Figures, Trial, shown

from synthdp.schema.schema import Schema
from synthdp.sets.named import Named

EPSILON, DELTA = 1.0, 1e-5
SEEDS = {"mixture": 3, "aim": 3}  # of the others one
# Label -> settings of mixture, on the tables where they matter.
WITHOUT: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "mixture without triples": ({"triple_share": 0.0}, ("parity of two", "parity of three")),
    "mixture on declared bins alone": ({"cells": 0}, ("structural", "nearly equal", "heaped")),
}
FLAG: dict[str, Any] = {"kind": "boolean"}


def number(low: float, high: float, bins: int, decimals: int | None = None) -> dict[str, Any]:
    """A declared column of numbers; whole ones without `decimals`."""
    kind = {"kind": "integer"} if decimals is None else {"kind": "continuous", "decimals": decimals}
    return {**kind, "bounds": [low, high], "bins": bins}


def named(frame: pd.DataFrame, columns: dict[str, Any], target: str) -> Named:
    """Two thirds of the rows to learn from, one third to test on."""
    rows = 2 * len(frame) // 3
    facts = {"declared_by": "recipes/stress.py", "units": rows, "targets": [target], "columns": columns}
    train, test = (part.reset_index(drop=True) for part in (frame.iloc[:rows], frame.iloc[rows:]))
    return Named(schema=Schema.from_dict(facts), train=train, test=test, notes=("made up",))


def parity(rng: np.random.Generator, of: int) -> Named:
    """Eight fair bits; the label is the parity of the first `of` in 19 of 20 records."""
    bits = rng.random((30_000, 8)) < 0.5
    frame = pd.DataFrame(bits, columns=[f"bit{place}" for place in range(8)])
    frame["odd"] = (bits[:, :of].sum(1) % 2 == 1) ^ (rng.random(len(frame)) < 0.05)
    return named(frame, dict.fromkeys(frame, FLAG), "odd")


def structural(rng: np.random.Generator) -> Named:
    """Age and sex lead to weight, these to blood pressure, all to a drug, and pressure, drug and their product to a stroke."""
    rows = 15_000
    age, female = rng.uniform(20, 90, rows), rng.random(rows) < 0.5
    weight = 70 + 0.1 * (age - 55) - 12 * female + 11 * rng.normal(size=rows)
    pressure = 125 + 0.5 * (age - 55) + 0.4 * (weight - 70) + 12 * rng.normal(size=rows)
    drug = rng.random(rows) < 1 / (1 + np.exp(-(pressure - 140) / 8))
    risk = -2 + 0.05 * (pressure - 125) * np.where(drug, -0.4, 1) + 0.04 * (age - 55)
    frame = pd.DataFrame(
        {
            "age": age.astype(int), "female": female, "weight": weight.round(1).clip(30, 150),
            "pressure": pressure.round().clip(60, 240).astype(int), "drug": drug,
            "stroke": rng.random(rows) < 1 / (1 + np.exp(-risk)),
        }
    )  # fmt: skip
    columns = {
        "age": number(20, 90, 14), "female": FLAG, "weight": number(30, 150, 16, 1), "pressure": number(60, 240, 18),
        "drug": FLAG, "stroke": FLAG,
    }  # fmt: skip
    return named(frame, columns, "stroke")


def nearly_equal(rng: np.random.Generator) -> Named:
    """Two laboratory values with a correlation of .99, the decile group of the first, and four flags; all hang on illness."""
    rows = 9_000
    ill = rng.random(rows) < 0.3
    first = rng.gamma(4, 12, rows) * np.where(ill, 1.5, 1)
    second = first * 1.1 + 4 * rng.normal(size=rows)
    frame = pd.DataFrame({"first": first.clip(0, 300).round(1), "second": second.clip(0, 300).round(1)})
    frame["decile"] = pd.qcut(first, 10, labels=False).astype(int)
    for place in range(4):
        frame[f"flag{place}"] = rng.random(rows) < np.where(ill, 0.4 + 0.1 * place, 0.3)
    columns = {"first": number(0, 300, 20, 1), "second": number(0, 300, 20, 1)}
    columns["decile"] = {"kind": "ordinal", "categories": list(range(10))}
    frame["ill"] = ill
    return named(frame, columns | {name: FLAG for name in frame if name not in columns}, "ill")


def heaped(rng: np.random.Generator) -> Named:
    """Blood pressures of which half are rounded to a multiple of ten: a systolic one of 120 is a seventh of all rows."""
    rows = 15_000
    age = rng.uniform(20, 90, rows)
    frame = pd.DataFrame({"age": age.astype(int)})
    for name, middle, slope in (("systolic", 126, 0.4), ("diastolic", 80, 0.1)):
        value = middle + slope * (age - 55) + 11 * rng.normal(size=rows)
        frame[name] = (
            np.where(rng.random(rows) < 0.5, np.rint(value / 10) * 10, np.rint(value)).clip(30, 240).astype(int)
        )
    frame["smoker"] = rng.random(rows) < 0.3
    frame["ill"] = rng.random(rows) < 1 / (1 + np.exp(-(frame["systolic"] - 140) / 10 - 0.8 * frame["smoker"]))
    columns = {"age": number(20, 90, 14), "systolic": number(30, 240, 21), "diastolic": number(30, 240, 21)}
    return named(frame, columns | {"smoker": FLAG, "ill": FLAG}, "ill")


def rare(rng: np.random.Generator) -> Named:
    """A label that one record in 100 has, known by two codes among thirty and by age."""
    rows = 30_000
    ill = rng.random(rows) < 0.01
    frame = pd.DataFrame({"age": np.clip(rng.normal(np.where(ill, 70, 50), 12), 18, 95).astype(int)})
    for place in range(6):
        codes = rng.integers(0, 30, rows)
        frame[f"code{place}"] = np.where(ill & (place < 2) & (rng.random(rows) < 0.6), 3, codes)
    columns: dict[str, Any] = {"age": number(18, 95, 11)}
    columns |= {f"code{place}": {"kind": "categorical", "categories": list(range(30))} for place in range(6)}
    frame["ill"] = ill
    return named(frame, columns | {"ill": FLAG}, "ill")


def wide(rng: np.random.Generator) -> Named:
    """200 columns: 199 of four categories, of which each follows the one before it in half of the rows, and a label that hangs on five."""
    rows, frame = 15_000, {}
    last = rng.integers(0, 4, rows)
    score = np.zeros(rows)
    for place in range(199):
        last = np.where(rng.random(rows) < 0.5, last, rng.integers(0, 4, rows))
        frame[f"c{place}"] = np.array(list("abcd"))[last]
        score += (last - 1.5) * (place % 40 == 0)
    made = pd.DataFrame(frame)
    made["label"] = score + rng.normal(size=rows) > 0
    columns: dict[str, Any] = {name: {"kind": "categorical", "categories": list("abcd")} for name in frame}
    return named(made, columns | {"label": FLAG}, "label")


TABLES: dict[str, tuple[str, Callable[[np.random.Generator], Named]]] = {
    "parity of two": ("label = parity of two of eight bits, 20,000 rows", partial(parity, of=2)),
    "parity of three": ("label = parity of three of eight bits, 20,000 rows", partial(parity, of=3)),
    "structural": ("a small structural model of six columns, 10,000 rows", structural),
    "nearly equal": ("two nearly equal values, their decile group and four flags, 6,000 rows", nearly_equal),
    "heaped": ("pressures that people round to tens, 10,000 rows", heaped),
    "rare": ("a label that one record in 100 has, codes of thirty values, 20,000 rows", rare),
    "wide": ("200 columns, each related to the one before, 10,000 rows", wide),
}  # fmt: skip


def table(name: str) -> Named:
    """The table of this name, always the same."""
    return TABLES[name][1](np.random.default_rng((71, list(TABLES).index(name))))


def one(trial: Trial, limit: float | None = None) -> Figures:
    """A trial. Warnings about columns that a generator leaves out are not shown: the figures tell."""
    warnings.simplefilter("ignore")
    return judged(trial, fitted, limit, table)


def groups_of(data: str) -> dict[tuple[str, float | None], list[Trial]]:
    """(report's name, epsilon) -> the same trial over the seeds."""
    found: dict[tuple[str, float | None], list[Trial]] = {
        (REFERENCES[REAL], None): [Trial(data=data, label=REFERENCES[REAL], generator=REAL)]
    }
    makers: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in of_tables()}
    makers |= {label: ("mixture", settings) for label, (settings, where) in WITHOUT.items() if data in where}
    for label, (name, settings) in sorted(makers.items()):
        made = {"generator": name, "settings": settings, "epsilon": EPSILON, "delta": DELTA}
        found[label, EPSILON] = [Trial(data=data, label=label, seed=seed, **made) for seed in range(SEEDS.get(name, 1))]
    return found


def section(data: str, groups: dict[tuple[str, float | None], list[Trial]], known: dict[str, Figures]) -> Figures:
    """What the report holds of one table."""
    rows = trials.rows(groups, known, (*METRICS, *DISTANCES, "fit_cpu_seconds"))
    lacking = [label for (label, _), group in groups.items() if not any(trial.key in known for trial in group)]
    broken = trials.broken(groups, known)
    return {"data": data, "about": TABLES[data][0], "rows": rows, "broken": broken, "not_run": lacking}


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=list(TABLES), choices=list(TABLES), metavar="NAME")
    parser.add_argument("--only", nargs="*", default=None, help="generators to run now; default: all")
    parser.add_argument("--minutes", type=float, default=3, help="of CPU that one fit may take")
    parser.add_argument("--forget", nargs="*", default=(), help="generators whose kept trials are run anew")
    parser.add_argument("--scratch", type=Path, default=HOME / "outputs" / "stress.json")
    given = parser.parse_args()
    groups = {data: groups_of(data) for data in TABLES}
    trials.begin(given.scratch, "stress", groups)
    for name in given.forget:
        print(trials.forget(name, given.scratch), "trials forgotten")
    wanted = [trial for data in given.data for group in groups[data].values() for trial in group]
    wanted = [trial for trial in wanted if given.only is None or trial.generator in (REAL, *given.only)]
    known = trials.kept(wanted, partial(one, limit=60 * given.minutes), given.scratch)
    sections = [section(data, groups[data], known) for data in TABLES]
    result = {"delta": DELTA, "models": list(MODELS), "minutes": given.minutes, "tables": sections, **provenance()}
    write("stress", result, page(result))


def page(result: Figures) -> str:
    """The report as Markdown."""
    lines = [
        "# Made-up tables that are hard in one way each",
        "",
        f"Epsilon {EPSILON:g}, delta {result['delta']:g}; each generator with its defaults, seeded rehearsals; mean ± standard deviation "
        "over three fits of `mixture` and `aim`, one fit of the others. Train on synthetic, test on real: mean over "
        f"{', '.join(result['models'])}. Total variation distance (TVD), errors of correlations and of means (in standard "
        f"deviations) against the training rows. A fit of more than {result['minutes']:g} minutes of CPU was stopped. Written by "
        "`recipes/stress.py`. Used in choosing: the weight of triples in `mixture` was tried on parities like "
        "these, and how it fits large tables that hold noise, and draws parts of bins, on the structural, nearly equal, heaped and rare "
        "tables; where `pategan` starts, on another draw of the structural table.",
        "",
    ]
    for part in result["tables"]:
        lines += [f"## {part['data'].capitalize()}", "", f"{part['about'][0].upper()}{part['about'][1:]}.", ""]
        names = [name for name in DISTANCES if any(name in row for row in part["rows"])]
        titles = {"pearson": "Pearson", "spearman": "rank correlation", "means": "means"}
        heads = ["AUROC", "AUPRC", *(titles.get(name, f"{name[4:5]}-way TVD") for name in names), "fit, CPU seconds"]
        lines += [f"| generator | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for row in part["rows"]:
            cells = [shown(row, name, 3) for name in METRICS[:2]] + [shown(row, name, 4) for name in names]
            lines.append("| " + " | ".join([row["generator"], *cells, shown(row, "fit_cpu_seconds", 1)]) + " |")
        lost = {(each["generator"], each["reason"]) for each in part["broken"]}
        lines += ["", *(f"- {name}: {reason}." for name, reason in sorted(lost))] if lost else []
        lines += ["", f"Not run: {', '.join(part['not_run'])}."] if part["not_run"] else []
        lines.append("")
    runs = [run for part in result["tables"] for row in part["rows"] for run in row["runs"]]
    commits = sorted({f"{run['commit'][:10]}{'+' * run['uncommitted_changes']}" for run in runs})
    machines = sorted({run["processor"] for run in runs})
    return "\n".join([*lines, f"{', '.join(machines)}; commits {', '.join(commits)}.", ""])


if __name__ == "__main__":
    main()
