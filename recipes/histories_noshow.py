"""Histories of patients who do or do not come to their appointments: how well synthetic ones keep what follows what.

`histories` at epsilon 1 and 3 per patient, six seeds, beside `mixture` at the same guarantee, which knows no order and learns from one
appointment of each patient, and beside real records. 20 % of the patients are held out. Each fit has a process of its own, and its row is
kept in outputs/, so that a run that was stopped goes on; rows of another commit are made anew, or recalled from the report where `--only`
names other generators. Peers' rows are made where `recipes/peers/install.py` was run.
Run: python recipes/histories_noshow.py [--only GENERATOR ...] (about an hour and a half of CPU; needs the data set noshow).
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import time
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import record
from peers import bridge
from trials import Trial, report_of

from synthdp import Budget, NotEntered, Schema, Synthesizer
from synthdp.accounting import calibrate
from synthdp.errors import BadInput
from synthdp.evaluate import history_fidelity
from synthdp.generators.histories import HistoriesSettings
from synthdp.ledger.events import Entry, Gaussian, merged
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import PLACE, View
from synthdp.schema.rows_below import PREVIOUS
from synthdp.sets import named

EPSILONS, SEEDS, DELTA, RECORDS = (1.0, 3.0), (0, 1, 2), 1e-5, 10
OF_HISTORIES = (*SEEDS, 3, 4, 5)  # six, since what was asked lies within the spread of three
FOLD = 4  # times as many patients, drawn from the same fit
NOISELESS = 1e6  # an epsilon at which there is hardly any noise
MANY_RECORDS = 2 * RECORDS  # no drawn patient has more
GENERATORS, SHUFFLED = ("histories", "mixture"), "real records, dealt at random"
ALONE, OF_TARGET = (
    "histories, noise in the target's tables alone",
    {"target_share": 0.52, "pair_share": 0.43, "number_share": 0.05},
)
# Peers' generator, and epsilon (0: no guarantee), with its settings, what the report calls it, and its seeds.
PEERS: dict[tuple[str, float], tuple[dict[str, Any], str, tuple[int, ...]]] = {
    ("mostly_histories", 1.0): (
        {"minutes": 3},
        "MOSTLY AI's engine, epsilon 1 claimed, half an epoch in three CPU minutes",
        (0,),
    ),
    ("sdv_par", 0.0): ({"units": 1_000}, "SDV's PAR on 1,000 of the patients, no guarantee", (0,)),
}
LIMIT = 480.0  # seconds of CPU of a peer's fit
KEPT = record.HOME / "outputs" / "histories_noshow.jsonl"
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


def singly(sample: pd.DataFrame, train: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """Mean TVD of columns alone and of two at a time, from the training records: of the table of appointments without their order."""
    codec = Codec(schema)
    made, real = (codec.encode(frame).astype(np.int64) for frame in (sample, train))

    def apart(places: tuple[int, ...]) -> float:
        sizes = [codec.sizes[place] for place in places]
        shares = [
            np.bincount(
                np.ravel_multi_index(tuple(codes[:, place] for place in places), sizes), minlength=np.prod(sizes)
            )
            / len(codes)
            for codes in (made, real)
        ]
        return float(np.abs(shares[0] - shares[1]).sum() / 2)

    return {
        name: float(np.mean([apart(places) for places in combinations(range(len(codec.sizes)), many)]))
        for name, many in (("columns", 1), ("pairs", 2))
    }


def one(generator: str, epsilon: float, seed: int) -> dict[str, Any]:
    """A fit, a sample of as many records, and what they are worth."""
    chosen = named.load("noshow")
    schema, train, test = schema_of(chosen.schema), chosen.train, chosen.test
    start, costs, larger = time.process_time(), dict[str, Any](), None
    if generator == SHUFFLED:
        sample = train.sample(frac=1, random_state=seed, ignore_index=True)
    elif bridge.peer_of(generator):
        settings = PEERS[generator, epsilon][0]
        asked = {"data": "noshow", "generator": generator, "settings": settings, "epsilon": epsilon, "delta": DELTA}
        sample, costs = bridge.histories(Trial(label=generator, seed=seed, **asked), train, schema, LIMIT)
    else:
        declared = chosen.schema if generator == "mixture" else schema
        settings_of = target_alone(epsilon) if generator == ALONE else generator
        budget = Budget(NOISELESS if generator == ALONE else epsilon, DELTA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotEntered)
            release = Synthesizer(settings_of, schema=declared, budget=budget).fit(train, seed=seed)
        sample = release.sample(len(train), seed=seed)
    seconds = costs["fit_cpu_seconds"] if costs else time.process_time() - start
    if generator == "histories" and epsilon in EPSILONS:
        larger = release.sample(FOLD * len(train), seed=seed)
    if generator in (SHUFFLED, "mixture"):
        sample = apart(sample, train, seed)

    def measure(sample: pd.DataFrame) -> tuple[dict[str, Any], dict[str, float]]:
        found = history_fidelity.judge(sample, train, test, schema)
        told, moved = found["told"][TARGET], found["transitions"][TARGET]
        if moved is None:
            raise BadInput(f"{generator} made one record of each patient: there is no history to judge")
        figures = {
            "all": told["tstr"]["all"],
            "later": told["tstr"]["later"],
            "transitions": moved["tvd"],
            "records": found["records_per_unit"]["tvd"],
            "gaps": found["gaps"]["tvd"],
            **singly(sample, train, schema),
        }
        return found, figures

    found, figures = measure(sample)
    told, moved = found["told"][TARGET], found["transitions"][TARGET]
    return {
        "generator": generator,
        "epsilon": epsilon,
        "seed": seed,
        "seconds": seconds,
        **figures,
        **({} if larger is None else {"larger": measure(larger)[1]}),
        **{name: costs[name] for name in ("epsilon_spent", "fit_peak_mib") if name in costs},
        "real": {
            "all": told["trtr"]["all"],
            "later": told["trtr"]["later"],
            "transitions": moved["real"],
            "records": found["records_per_unit"]["real"],
            "gaps": found["gaps"]["real"],
            **singly(test, train, schema),
        },
        "without": told["without"],
    }


def target_alone(epsilon: float) -> HistoriesSettings:
    """Settings by which the target's tables have as much noise at an epsilon of `NOISELESS` as if all of `epsilon` were spent on them."""

    def noise(budget: float) -> float:
        return calibrate(lambda each: merged([Entry(Gaussian(each))]), Budget(budget, DELTA))

    part = (noise(NOISELESS) / noise(epsilon)) ** 2
    return HistoriesSettings(**{name: share * part for name, share in OF_TARGET.items()})


def few() -> dict[str, float]:
    """How many patients have very many appointments, their share of later ones, and the TVD by which (last, this) of the training records
    moves without them."""
    chosen = named.load("noshow")
    schema, frame = schema_of(chosen.schema), chosen.train
    view = View.of(Codec(schema))

    def table(some: pd.DataFrame) -> tuple[Any, int]:
        cells = history_fidelity.cells(some, schema, view)
        later = cells[PLACE] > 0
        place = cells[PREVIOUS + TARGET][later] * view.sizes[TARGET] + cells[TARGET][later]
        return np.bincount(place, minlength=view.sizes[TARGET] ** 2) / later.sum(), int(later.sum())

    number = frame.groupby(schema.unit)[schema.unit].transform("size")
    (every, later), (rest, others) = table(frame), table(frame[number <= MANY_RECORDS])
    return {
        "patients": frame.loc[number > MANY_RECORDS, schema.unit].nunique(),
        "share": 1 - others / later,
        "tvd": float(np.abs(every - rest).sum() / 2),
    }


def alone(generator: str, epsilon: float, seed: int, provenance: dict[str, Any]) -> dict[str, Any]:
    """A row, kept from an earlier run of this commit or made in a process of its own."""
    wanted = {"commit": provenance["commit"], "generator": generator, "epsilon": epsilon, "seed": seed}
    kept = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()] if KEPT.exists() else []
    for row in kept:
        if all(row.get(name) == value for name, value in wanted.items()) and not provenance["uncommitted_changes"]:
            return dict(row)
    words = ["--one", generator, str(epsilon), str(seed)]
    done = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True)
    row = {**json.loads(done.stdout.splitlines()[-1]), "commit": provenance["commit"]}
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    return row


SAID = {
    "all": "AUROC",
    "later": "at later appointments",
    "transitions": "TVD of (last, this)",
    "records": "of records per patient",
}
FIGURES = ("all", "later", "transitions", "records", "gaps", "columns", "pairs")


PAGE = """# Histories: appointments that patients keep or miss

{what} {seeds} seeds, and {more} of `histories` at the epsilons asked; mean ± standard deviation, at delta {delta:g} per patient; at most
{most} appointments of a patient count.

| | AUROC, all | AUROC, later ones | TVD of (last, this) | TVD of records per patient | TVD of gaps | TVD of a column | of two columns |
|---|---|---|---|---|---|---|---|
{rows}

- AUROC: gradient boosting tells a missed appointment from the appointment and the patient's past; it is trained on synthetic records
  and tested on real ones of held-out patients.
- TVD: total variation distance from the training records; that of real records is the held-out patients'. The last two columns are of the
  table of appointments without their order: of each column with the patient's, and of each two of them.
- Two floors: real records that were dealt to patients at random, so that appointments are independent of each other, and `mixture`,
  which knows no order. It learns from one appointment of each patient, and its records are also dealt to patients at random. Both floors
  use the real patients' numbers of records, which nothing protects, so they are no way to release.
- {fold} times as many patients drawn: of the same fits. To draw more costs nothing of the guarantee; whoever trains on synthetic records
  may.
- `histories` with hardly any noise (epsilon {noiseless:,.0f}) shows what it loses all the same, and so about the most that its
  tables and its fit can reach at any epsilon.
- Noise in the target's tables alone: as much as if all of the precision of that epsilon were spent on them, and hardly any in the
  others. This is about the most that any division of the budget can reach with these tables.
- {people:.0f} patients have more than {many} appointments, and {part:.1f} % of the later ones. Leaving them out moves (last, this) of the
  training records by a TVD of {moved:.4f}. At these epsilons so few people can hardly show in the tables.
- Used in choosing: where `histories` lost what tells a missed appointment was looked for on these patients, and forms of its fit were
  tried on them, the held-out ones included. Its shares, its clip and its numbers of tables were not. That too many appointments lay on
  the last days was seen on the training records; the mend follows from the tables' noise, and was tried on them and on made-up clinics.
  That few patients with very many
  appointments have many of the later ones was seen on them, too; how that is counted was chosen on made-up clinics, and so was the rule
  by which a patient weighs.
- A fit of `histories` takes {seconds:.0f} CPU seconds (median), with its sample.
{asked}
{peers}
Code of commit {commit}, on {processor}.
"""


def report(rows: list[dict[str, Any]], few_patients: dict[str, float], provenance: dict[str, Any]) -> str:
    """The page."""
    real, without = rows[0]["real"], rows[0]["without"]

    def line(what: str, values: dict[str, Any]) -> str:
        cells = [values.get(name) for name in FIGURES]
        said = ["" if cell is None else cell if isinstance(cell, str) else f"{cell:.4f}" for cell in cells]
        return f"| {what} | {' | '.join(said)} |"

    def of(generator: str, epsilon: float, larger: bool = False) -> dict[str, dict[str, Any]]:
        chosen = [row for row in rows if (row["generator"], row["epsilon"]) == (generator, epsilon)]
        chosen = [row["larger"] for row in chosen] if larger else chosen
        return {name: record.spread([row[name] for row in chosen]) for name in FIGURES} if chosen else {}

    lines = [line("real records", real), line("real records, predicted without their past", without)]
    named_rows = [
        (f"`{generator}`, epsilon {each:g}", of(generator, each)) for generator in GENERATORS for each in EPSILONS
    ]
    named_rows[len(EPSILONS) : len(EPSILONS)] = [
        (f"`histories`, epsilon {each:g}, {FOLD} times as many patients drawn", of("histories", each, larger=True))
        for each in EPSILONS
    ]
    named_rows.append(("`histories`, hardly any noise", of("histories", NOISELESS)))
    named_rows.append(
        (f"`histories`, noise of epsilon {EPSILONS[0]:g} in the target's tables alone", of(ALONE, EPSILONS[0]))
    )
    named_rows += [(what, of(*place)) for place, (_, what, _) in PEERS.items() if of(*place)]
    for what, figures in ((SHUFFLED, of(SHUFFLED, 0.0)), *named_rows):
        means = {name: f"{each['mean']:.4f}" for name, each in figures.items()}
        spreads = {name: f" ± {each['sd']:.4f}" if each["n"] > 1 else " (n = 1)" for name, each in figures.items()}
        lines.append(line(what, {name: means[name] + spreads[name] for name in figures}))
    asked = []
    for epsilon, bars in ASKED.items():
        reached = {name: each["mean"] for name, each in of("histories", epsilon).items()}
        said = []
        for name, bar in bars.items():
            above = name in ("all", "later")
            done = reached[name] >= bar if above else reached[name] <= bar
            said.append(
                f"{SAID[name]} {'at least' if above else 'at most'} {bar:g} ({'reached' if done else 'not reached'})"
            )
        asked.append(f"- Asked of `histories` at epsilon {epsilon:g}: {'; '.join(said)}.")
    named_few = {"people": few_patients["patients"], "part": 100 * few_patients["share"], "moved": few_patients["tvd"]}
    seconds = [row["seconds"] for row in rows if row["generator"] == "histories"]
    return PAGE.format(
        what=(__doc__ or "").strip().splitlines()[0],
        seeds=len(SEEDS),
        more=len(OF_HISTORIES),
        delta=DELTA,
        most=RECORDS,
        rows="\n".join(lines),
        asked="\n".join(asked),
        many=MANY_RECORDS,
        fold=FOLD,
        noiseless=NOISELESS,
        **named_few,
        seconds=np.median(seconds),
        peers=_peers(rows),
        commit=", ".join(sorted({(row["commit"] or "unknown")[:7] for row in rows})),
        processor=provenance["processor"],
    )


def _peers(rows: list[dict[str, Any]]) -> str:
    """What the peers' rows are, and what is not so of what the peers claim."""
    of_peers = [row for row in rows if (row["generator"], row["epsilon"]) in PEERS]
    said = [
        f"- {PEERS[row['generator'], row['epsilon']][1]}, seed {row['seed']}: a fit of {row['seconds']:.0f} CPU seconds and at most "
        f"{row['fit_peak_mib']:.0f} MiB"
        + (f"; its accountant says epsilon {row['epsilon_spent']:.2f}." if row["epsilon"] else ".")
        for row in of_peers
    ]
    made = {(row["generator"], row["epsilon"]) for row in of_peers}
    said += [f"- Not run: {what}." for place, (_, what, _) in PEERS.items() if place not in made]
    return "\n".join([*said, *(f"\n{each}" for each in bridge.facts(row["generator"] for row in of_peers)), ""])


def main() -> None:
    """Fit, judge, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--one", nargs=3, metavar=("GENERATOR", "EPSILON", "SEED"))
    parser.add_argument("--only", nargs="*", default=None, help="generators to run; the report's other rows stay")
    arguments = parser.parse_args()
    given, only = arguments.one, arguments.only
    if given:
        print(json.dumps(one(given[0], float(given[1]), int(given[2]))))
        return
    provenance = record.provenance()
    seeds_of = {"histories": OF_HISTORIES}
    wanted = [
        (each, epsilon, seed) for each in GENERATORS for epsilon in EPSILONS for seed in seeds_of.get(each, SEEDS)
    ]
    wanted += [(SHUFFLED, 0.0, seed) for seed in SEEDS]
    wanted += [each for seed in SEEDS for each in (("histories", NOISELESS, seed), (ALONE, EPSILONS[0], seed))]
    wanted += [(*place, seed) for place, (_, _, seeds) in PEERS.items() for seed in seeds]
    held = {
        (row["generator"], row["epsilon"], row["seed"]): row for row in report_of("histories_noshow").get("rows", ())
    }
    rows = []
    for each in wanted:
        absent = bridge.peer_of(each[0]) is not None and not bridge.present(each[0])
        if absent or (only is not None and each[0] not in only):
            rows += [held[each]] if each in held else []
        else:
            rows.append(alone(*each, provenance))
    result = {
        "rows": rows,
        "asked": {f"{epsilon:g}": figures for epsilon, figures in ASKED.items()},
        "few": few(),
        "provenance": provenance,
    }
    record.write("histories_noshow", result, report(rows, result["few"], provenance))


if __name__ == "__main__":
    main()
