"""What synthetic histories keep of a made-up hospital whose dynamics are known (made_up_hospital.py), one by one, and what a fit costs.

`histories` at epsilon 1 and 3 per patient with its defaults, three seeds, beside another hospital made up from another seed. Each figure is
a contrast that is zero where the dependence is lost; "kept" is the synthetic one as a share of the real one. Then one fit of more patients
at epsilon 1. Run: OMP_NUM_THREADS=1 python recipes/known_dynamics.py (no data needed; about half an hour of CPU). `--peers` adds what
generators of other houses keep, where `recipes/peers/install.py` was run, to a report that is there.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import made_up_hospital
import pandas as pd
import record
import trials
from peers import bridge

from synthdp import Budget, NotEntered, Synthesizer

PATIENTS, EPSILONS, SEEDS, DELTA = 100_000, (1.0, 3.0), (0, 1, 2), 1e-7
SIZES = (100_000, 1_000_000)
# Generator -> settings, epsilon, what the report calls it. One seed.
PEERS: dict[str, tuple[dict[str, Any], float, str]] = {
    "mostly_histories": ({"minutes": 3}, 1.0, "MOSTLY AI's engine, epsilon 1 claimed, three CPU minutes"),
    "sdv_par": ({"units": 1_000}, 0.0, "SDV's PAR on 1,000 of the patients, no guarantee"),
}
LIMIT = 600.0  # seconds of CPU of a peer's fit
KEPT, LOST = 0.8, 0.3  # shares from which on a dependence is called kept, and below which lost


def contrasts(stays: pd.DataFrame) -> dict[str, float]:
    """Each known dependence as one number."""
    found = stays.reset_index(drop=True)
    found["admitted"] = pd.to_datetime(found["admitted"])
    held = {name: found[name].astype(str).isin(("True", "1")) for name in FLAGS}
    found = found.assign(**held)
    of_one = found.groupby("patient", sort=False)
    last, before, ill = (of_one["readmitted"].shift(back) for back in (1, 2, 0))
    wound, later = of_one["wound"].shift(1), of_one.cumcount() > 0
    gap = of_one["admitted"].diff().dt.days
    month, number = found["admitted"].dt.month, of_one["patient"].transform("size")
    diabetic_before = of_one["diabetic"].shift(1)
    stays_ill = of_one["diabetic"].cumsum()

    def differ(what: Any, one: Any, other: Any) -> float:
        return float(what[one].mean() - what[other].mean())

    flag = {name: found[name].astype(float) for name in FLAGS}
    yes, no = last.eq(True), last.eq(False)
    return {
        "winter and summer: urgent": differ(flag["urgent"], month.isin((12, 1, 2)), month.isin((6, 7, 8))),
        "old and young: days": differ(found["days"].astype(float), found["age"] >= 80, found["age"] < 40),
        "old and young: geriatrics": differ(
            found["ward"].eq("geriatrics").astype(float), found["age"] >= 80, found["age"] < 40
        ),
        "old and young: stays of a patient": differ(
            number.astype(float), ~later & (found["age"] >= 80), ~later & (found["age"] < 40)
        ),
        "urgent and planned: surgery": differ(
            found["ward"].eq("surgery").astype(float), found["urgent"], ~found["urgent"]
        ),
        "surgery and other wards: open wound": differ(
            flag["wound"], found["ward"].eq("surgery"), found["ward"].ne("surgery")
        ),
        "open wound at the last stay: open wound": differ(flag["wound"], wound.eq(True), wound.eq(False)),
        "readmitted last time: readmitted": differ(flag["readmitted"], yes, no),
        "readmitted the time before: readmitted": differ(
            flag["readmitted"], no & before.eq(True), no & before.eq(False)
        ),
        "open wound: readmitted": differ(flag["readmitted"], found["wound"], ~found["wound"]),
        "open wound after a readmission: readmitted, beyond both alone": differ(
            flag["readmitted"], yes & found["wound"], yes & ~found["wound"]
        )
        - differ(flag["readmitted"], no & found["wound"], no & ~found["wound"]),
        "readmitted last time: the next stay within 30 days": differ(
            (gap <= 40).astype(float)[later], yes[later], no[later]
        ),
        "diabetic at the last stay: diabetic": differ(
            flag["diabetic"], diabetic_before.eq(True), diabetic_before.eq(False)
        ),
        "third stay as a diabetic and the first: insulin": differ(
            flag["insulin"], ill.notna() & found["diabetic"] & (stays_ill >= 3), found["diabetic"] & (stays_ill == 1)
        ),
    }


FLAGS = ("urgent", "wound", "diabetic", "insulin", "readmitted")


def one(patients: int, epsilon: float, seed: int, *, drawn: bool) -> dict[str, Any]:
    """A fit, its cost, and what its sample keeps."""
    stays = made_up_hospital.stays(patients, 0)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotEntered)
        fitted = Synthesizer("histories", schema=made_up_hospital.schema(patients), budget=Budget(epsilon, DELTA)).fit(
            stays, seed=seed
        )
    result = {
        "patients": patients,
        "stays": len(stays),
        "epsilon": epsilon,
        "seed": seed,
        "seconds": time.process_time() - start,
        "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return result | ({"contrasts": contrasts(fitted.sample(len(stays), seed=seed))} if drawn else {})


def of_peer(generator: str) -> dict[str, Any]:
    """What a peer's sample keeps, and what its fit cost."""
    settings, epsilon, _ = PEERS[generator]
    asked = {"data": "made_up_hospital", "label": generator, "generator": generator, "settings": settings}
    trial = trials.Trial(**asked, epsilon=epsilon, delta=DELTA, seed=0)
    stays, told = made_up_hospital.stays(PATIENTS, 0), made_up_hospital.schema(PATIENTS)
    sample, costs = bridge.histories(trial, stays, told, LIMIT)
    found = contrasts(sample.sort_values([told.unit, told.order], kind="stable"))
    held = {name: None if math.isnan(value) else value for name, value in found.items()}  # of no rows there is no mean
    return {"generator": generator, "contrasts": held, **costs, "commit": record.provenance()["commit"]}


def alone(*words: str) -> dict[str, Any]:
    """One fit in a process of its own, whose memory is its own."""
    done = subprocess.run([sys.executable, __file__, "--one", *words], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def page(
    rows: list[dict[str, Any]],
    costs: list[dict[str, Any]],
    real: dict[str, float],
    another: dict[str, float],
    provenance: dict[str, Any],
    peers: list[dict[str, Any]],
) -> str:
    """The report."""
    columns = " | ".join(f"epsilon {each:g} | kept" for each in EPSILONS)
    columns += "".join(f" | {PEERS[each['generator']][2]} | kept" for each in peers)
    lines = [
        f"# Known dynamics: what synthetic histories keep of a made-up hospital\n\n{PATIENTS:,} patients, epsilon per patient at delta "
        f"{DELTA:g}, {len(SEEDS)} seeds, mean ± standard deviation.\n",
        f"| dependence (difference of means or shares) | real | another hospital | {columns} |",
        f"|{'---|' * (3 + 2 * len(EPSILONS) + 2 * len(peers))}",
    ]
    for name, value in real.items():
        cells = []
        for epsilon in EPSILONS:
            found = record.spread([row["contrasts"][name] for row in rows if row["epsilon"] == epsilon])
            cells += [f"{found['mean']:.3f} ± {found['sd']:.3f}", kept(found["mean"] / value)]
        for each in peers:
            reached = each["contrasts"][name]
            cells += ["-", "-"] if reached is None else [f"{reached:.3f}", kept(reached / value)]
        lines.append(f"| {name} | {value:.3f} | {another[name]:.3f} | {' | '.join(cells)} |")
    lines += [
        f"\nA dependence is called kept from {KEPT:.0%} of the real difference on, and lost below {LOST:.0%}.\n",
        "## What a fit costs\n",
        "| patients | stays | CPU seconds | most memory, MiB |",
        "|---|---|---|---|",
        *(
            f"| {each['patients']:,} | {each['stays']:,} | {each['seconds']:.0f} | {each['mebibytes']:.0f} |"
            for each in costs
        ),
        "\nOne fit each, in memory, with the making of the records.",
    ]
    if peers:
        lines.append("\n## Generators of other houses\n")
    for each in peers:
        said = f"; its accountant says epsilon {each['epsilon_spent']:.2f}" if each["epsilon_spent"] else ""
        lines.append(
            f"- {PEERS[each['generator']][2]}, seed 0: a fit of {each['fit_cpu_seconds']:.0f} CPU seconds and at most "
            f"{each['fit_peak_mib']:.0f} MiB{said}."
        )
    lines += [f"\n{each}" for each in bridge.facts(each["generator"] for each in peers)]
    commits = sorted({(each["commit"] or "unknown")[:7] for each in (provenance, *peers)})
    lines.append(f"\nCode of commit {', '.join(commits)}, on {provenance['processor']}.")
    return "\n".join(lines) + "\n"


def kept(share: float) -> str:
    """A share of the real difference, and what we call it."""
    return f"{share:.0%}, {'kept' if share >= KEPT else 'lost' if share < LOST else 'in part'}"


def main() -> None:
    """Fit, count, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--one", nargs=4, metavar=("PATIENTS", "EPSILON", "SEED", "DRAWN"))
    parser.add_argument("--peers", action="store_true", help="run the peers alone")
    given = parser.parse_args()
    if given.one:
        patients, epsilon, seed, drawn = given.one
        print(json.dumps(one(int(patients), float(epsilon), int(seed), drawn=drawn == "yes")))
        return
    result = trials.report_of("known_dynamics")
    if given.peers:
        result["peers"] = [of_peer(generator) for generator in PEERS if bridge.present(generator)]
    else:
        real, another = (contrasts(made_up_hospital.stays(PATIENTS, seed)) for seed in (0, 999))
        rows = [alone(str(PATIENTS), str(epsilon), str(seed), "yes") for epsilon in EPSILONS for seed in SEEDS]
        costs = [alone(str(patients), "1", "0", "no") for patients in SIZES]
        result |= {"rows": rows, "costs": costs, "real": real, "another": another, "provenance": record.provenance()}
    result.setdefault("peers", [])
    record.write("known_dynamics", result, page(**result))


if __name__ == "__main__":
    main()
