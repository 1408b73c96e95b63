"""Histories of patients who do or do not come to their appointments: how well synthetic ones keep what follows what.

`histories` at epsilon 1 and 3 per patient, three seeds, beside `mixture` at the same guarantee, which knows no order, and beside real
records. 20 % of the patients are held out. Run: python recipes/histories_noshow.py (about ten CPU minutes; needs the data set noshow).
"""

import dataclasses
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import record

from synthdp import Budget, NotEntered, Schema, Synthesizer
from synthdp.evaluate import history_fidelity
from synthdp.sets import named

EPSILONS, SEEDS, DELTA, RECORDS = (1.0, 3.0), (0, 1, 2), 1e-5, 10
OF_PATIENTS = ("Gender", "Age", "Neighbourhood", "Scholarship", "Hipertension", "Diabetes", "Alcoholism", "Handcap")
TARGET = "No-show"
ASKED = {
    1.0: {"all": 0.738, "later": 0.750, "transitions": 0.010, "records": 0.02},
    3.0: {"all": 0.743, "later": 0.757, "transitions": 0.006, "records": 0.01},
}


def schema_of(schema: Schema) -> Schema:
    """The set's own, with the order of appointments."""
    return dataclasses.replace(schema, order="AppointmentDay", per_unit=OF_PATIENTS, max_records_per_unit=RECORDS)


def apart(frame: pd.DataFrame, like: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Records of a model that knows no order, dealt to patients with as many records as the real ones have."""
    rng = np.random.default_rng(seed)
    number = rng.permutation(like["PatientId"].value_counts().to_numpy())
    owner = np.repeat(np.arange(len(number)), number)
    return frame.assign(PatientId=[f"S{each}" for each in owner[: len(frame)]])


def one(
    generator: str, epsilon: float, seed: int, schema: Schema, train: pd.DataFrame, test: pd.DataFrame
) -> dict[str, Any]:
    """A fit, a sample of as many records, and what they are worth."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotEntered)
        release = Synthesizer(generator, schema=schema, budget=Budget(epsilon, DELTA)).fit(train, seed=seed)
    seconds = time.process_time() - start
    sample = release.sample(len(train), seed=seed)
    if generator != "histories":
        sample = apart(sample, train, seed)
    found = history_fidelity.judge(sample, train, test, schema)
    told, moved = found["told"][TARGET], found["transitions"][TARGET]
    return {
        "generator": generator,
        "epsilon": epsilon,
        "seed": seed,
        "seconds": seconds,
        "all": told["tstr"]["all"],
        "later": told["tstr"]["later"],
        "transitions": moved["tvd"],
        "records": found["records_per_unit"]["tvd"],
        "gaps": found["gaps"]["tvd"],
        "real": {
            "all": told["trtr"]["all"],
            "later": told["trtr"]["later"],
            "transitions": moved["real"],
            "records": found["records_per_unit"]["real"],
            "gaps": found["gaps"]["real"],
        },
        "without": told["without"],
    }


FIGURES = ("all", "later", "transitions", "records", "gaps")


PAGE = """# Histories: appointments that patients keep or miss

{what} {seeds} seeds, mean ± standard deviation, at delta {delta:g} per patient; at most {most} appointments of a patient count.

| | AUROC, all appointments | AUROC, later ones | TVD of (last, this) | TVD of records per patient | TVD of gaps |
|---|---|---|---|---|---|
{rows}

- AUROC: gradient boosting tells a missed appointment from the appointment and the patient's past; it is trained on synthetic records
  and tested on real ones of held-out patients.
- TVD: total variation distance from the training records; that of real records is the held-out patients'.
- `mixture` knows no order and gives every record to a patient of its own. Here its records are dealt to patients at random, with the
  numbers of records of the real patients, which nothing protects: a floor, and no way to release.
- A fit of `histories` takes {seconds:.0f} CPU seconds (median).

Code of commit {commit}, on {processor}.
"""


def report(rows: list[dict[str, Any]], provenance: dict[str, Any]) -> str:
    """The page."""
    real, without = rows[0]["real"], rows[0]["without"]

    def line(what: str, values: dict[str, Any]) -> str:
        cells = [values.get(name) for name in FIGURES]
        said = ["" if cell is None else cell if isinstance(cell, str) else f"{cell:.4f}" for cell in cells]
        return f"| {what} | {' | '.join(said)} |"

    lines = [line("real records", real), line("real records, told without their past", without)]
    for generator in ("histories", "mixture"):
        for epsilon in EPSILONS:
            chosen = [row for row in rows if (row["generator"], row["epsilon"]) == (generator, epsilon)]
            if not chosen:
                continue
            figures = {name: record.spread([row[name] for row in chosen]) for name in FIGURES}
            lines.append(
                line(
                    f"`{generator}`, epsilon {epsilon:g}",
                    {name: f"{each['mean']:.4f} ± {each['sd']:.4f}" for name, each in figures.items()},
                )
            )
    seconds = [row["seconds"] for row in rows if row["generator"] == "histories"]
    return PAGE.format(
        what=__doc__.strip().splitlines()[0],
        seeds=len(SEEDS),
        delta=DELTA,
        most=RECORDS,
        rows="\n".join(lines),
        seconds=np.median(seconds),
        commit=(provenance["commit"] or "unknown")[:7],
        processor=provenance["processor"],
    )


def main() -> None:
    """Fit, judge, write."""
    chosen = named.load("noshow")
    schema = schema_of(chosen.schema)
    rows = [
        one(generator, epsilon, seed, schema, chosen.train, chosen.test)
        for generator in ("histories", "mixture")
        for epsilon in EPSILONS
        for seed in SEEDS
    ]
    provenance = record.provenance()
    result = {
        "rows": rows,
        "asked": {f"{epsilon:g}": figures for epsilon, figures in ASKED.items()},
        "provenance": provenance,
    }
    record.write("histories_noshow", result, report(rows, provenance))


if __name__ == "__main__":
    main()
