"""What stays from visit to visit: columns that are mostly as they were, and diagnoses that come again, in synthetic histories.

`histories` with its defaults on made-up hospitals, beside another one that is made up in the same way from another seed. Made-up clinics of
this kind, with other codes and shares, were looked at while the generator was developed. Run:
OMP_NUM_THREADS=1 python recipes/what_stays.py (no data needed; about ten minutes of CPU).
"""

import time
from typing import Any

import numpy as np
import pandas as pd
from record import provenance, spread, write

from synthdp import Budget, Schema, Synthesizer

DELTA, SEEDS = 1e-5, (0, 1, 2)
FITS = ((3_000, 1.0), (3_000, 3.0), (20_000, 1.0), (20_000, 3.0))  # people, epsilon
STAYS = {"ward": (14, 0.4), "insurer": (9, 0.96), "region": (11, 0.99), "class": (8, 0.85), "room": (12, 0.0)}
ORDERED = "class"
DIAGNOSES, CHRONIC = 50, 20  # of which the last ones are chronic
FIGURES = {**{name: f"as before: {name}" for name in STAYS}, "chronic": "again: chronic", "acute": "again: acute"}


def hospital(people: int, seed: int) -> dict[str, pd.DataFrame]:
    """People, visits and diagnoses; of the diagnoses of a visit some are those of the last one."""
    facts, rng = np.random.default_rng(2027), np.random.default_rng(seed)
    shares = {name: facts.dirichlet(np.full(codes, 1.5)) for name, (codes, _) in STAYS.items()}
    common, again = facts.dirichlet(np.full(DIAGNOSES, 0.7)), np.full(DIAGNOSES, 0.1)
    again[-CHRONIC:] = facts.uniform(0.6, 0.95, CHRONIC)
    persons, visits, rows = [], [], []
    for person in range(people):
        name, day = f"P{person}", pd.Timestamp("2022-01-01") + pd.Timedelta(days=int(rng.integers(600)))
        persons.append((name, "mf"[int(rng.integers(2))], int(rng.integers(18, 96))))
        held, had = dict.fromkeys(STAYS, -1), list[int]()
        for number in range(1 + min(7, rng.poisson(1.5))):
            day += pd.Timedelta(days=int(rng.choice([1, 3, 14, 60])) if number else 0)
            for column, (codes, kept) in STAYS.items():
                if not number or rng.random() >= kept:
                    held[column] = int(rng.choice(codes, p=shares[column]))
            fresh = rng.choice(DIAGNOSES, rng.poisson(1.2), p=common).tolist()
            had = list(dict.fromkeys([*(each for each in had if rng.random() < again[each]), *fresh]))[:6]
            visits.append((name, f"{name}-{number}", day, *(f"{column} {code}" for column, code in held.items())))
            rows += [(f"{name}-{number}", f"D{each:02d}") for each in had]
    return {
        "person": pd.DataFrame(persons, columns=["person_id", "sex", "age"]),
        "visit": pd.DataFrame(visits, columns=["person_id", "visit_id", "day", *STAYS]),
        "diagnosis": pd.DataFrame(rows, columns=["visit_id", "code"]),
    }


def schema(people: int) -> Schema:
    """The tables as somebody would declare them who knows the codes."""
    visit: dict[str, Any] = {
        "day": {"kind": "datetime", "bounds": ["2022-01-01", "2025-12-31"], "resolution": "day", "bins": 16}
    }
    for name, (codes, _) in STAYS.items():
        kind = "ordinal" if name == ORDERED else "categorical"
        visit[name] = {"kind": kind, "categories": [f"{name} {code}" for code in range(codes)]}
    person = {
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
        "age": {"kind": "integer", "bounds": [18, 96], "bins": 12},
    }
    code = {"kind": "categorical", "categories": [f"D{each:02d}" for each in range(DIAGNOSES)]}
    tables = {
        "person": {"key": "person_id", "columns": person},
        "visit": {"parent": "person", "key": "visit_id", "order": "day", "max_rows": 6, "columns": visit},
        "diagnosis": {"parent": "visit", "max_rows": 6, "columns": {"code": code}},
    }
    return Schema.from_dict({"declared_by": "made up", "unit": "person_id", "units": people, "tables": tables})


def told(tables: dict[str, pd.DataFrame]) -> dict[str, float]:
    """How often each column of a visit is as it was before, and a diagnosis of one visit stands in the next one, too."""
    visits = tables["visit"].sort_values(["person_id", "day", "visit_id"], kind="stable")
    found = {}
    for name in STAYS:
        last = visits.groupby("person_id")[name].shift()
        found[name] = float((last == visits[name])[last.notna()].mean())
    had = tables["diagnosis"].drop_duplicates()
    following = visits.assign(next=visits.groupby("person_id").visit_id.shift(-1))[["visit_id", "next"]]
    pairs = had.merge(following[following.next.notna()], on="visit_id")
    again = pairs.merge(had, left_on=["next", "code"], right_on=["visit_id", "code"], how="left").visit_id_y.notna()
    chronic = pairs.code.str[1:].astype(int) >= DIAGNOSES - CHRONIC
    return {**found, "chronic": float(again[chronic].mean()), "acute": float(again[~chronic].mean())}


def main() -> None:
    """Run all fits and write the report."""
    rows: list[dict[str, Any]] = []
    for people, epsilon in FITS:
        real, runs = hospital(people, seed=people), []
        for seed in SEEDS:
            start = time.process_time()
            made = Synthesizer("histories", schema=schema(people), budget=Budget(epsilon, DELTA)).fit(real, seed=seed)
            cpu = time.process_time() - start
            runs.append({**told(made.sample_tables(people, seed=seed)), "cpu": cpu})
            print(people, epsilon, seed, {name: round(value, 3) for name, value in runs[-1].items()}, flush=True)
        found = {name: spread([run[name] for run in runs]) for name in runs[0]}
        another = told(hospital(people, seed=people + 1))
        rows.append(
            {"people": people, "epsilon": epsilon, "real": told(real), "another": another, "found": found, "runs": runs}
        )
    result = {"delta": DELTA, "rows": rows, **provenance()}
    write("what_stays", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The report as Markdown."""
    columns = "; ".join(
        f"{name}: {codes} codes" + (" in order" if name == ORDERED else "") for name, (codes, _) in STAYS.items()
    )
    lines = [
        "# What stays from visit to visit",
        "",
        f"A made-up hospital: people, up to eight visits each, up to six diagnoses per visit. Of the {DIAGNOSES} diagnoses {CHRONIC} are "
        f"chronic. The columns of a visit keep their last value more or less often ({columns}). `histories` with its defaults, delta "
        f"{result['delta']:g} per person. A figure is the share of visits whose column has its last value, or of a visit's diagnoses "
        "that the next visit has, too. *Another* is a second hospital made up in the same way. Mean ± standard deviation over "
        f"{len(SEEDS)} seeds of the fit. Clinics of this kind, with other codes and shares, were looked at while the generator was "
        "developed.",
        "",
        f"| people | epsilon | | {' | '.join(FIGURES.values())} | CPU seconds |",
        "|---|---|---|" + "---|" * (len(FIGURES) + 1),
    ]
    for row in result["rows"]:
        people = f"| {row['people']:,} |"
        made = [f"{row['found'][name]['mean']:.2f} ± {row['found'][name]['sd']:.2f}" for name in FIGURES]
        seconds = row["found"]["cpu"]
        lines.append(
            f"{people} {row['epsilon']:g} | synthetic | {' | '.join(made)} | {seconds['mean']:.0f} ± {seconds['sd']:.0f} |"
        )
        lines += [
            f"{people} | {name} | {' | '.join(f'{row[name][each]:.2f}' for each in FIGURES)} | - |"
            for name in ("real", "another")
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
