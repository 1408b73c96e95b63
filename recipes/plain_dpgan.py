"""MNIST by PyVacy's plain DP-GAN (Waites 2019): linear layers, no start, at epsilon 0.3, 1, 8 and infinity, beside the one that starts
from class Gaussians.

    SYNTHDP_DATA=/path/to/data python recipes/plain_dpgan.py [--seeds 1]

Writes reports/plain_dpgan.{json,md,png}. The paper shows pictures and prints no figure; beside them stand the accuracies on real test
pictures of classifiers that learn from 10,000 synthetic ones. `--choose` tries how the plain one should train, without noise, on four
fifths of the training pictures of USPS and by the accuracies on the last fifth: no picture of MNIST chose anything.
"""

import argparse
import dataclasses
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import HOME, REPORTS, provenance, spread, write

from synthdp import Budget, Synthesizer
from synthdp.evaluate.images import accuracies
from synthdp.evaluate.images.samples import sheet
from synthdp.sets import named

DELTA, ROWS, EACH = 1e-5, 10_000, 2  # pictures that classifiers learn from, and of each class in the figure
EPSILONS = (0.3, 1.0, 8.0, math.inf)
MODELS = ("lr", "mlp")
WAITES: dict[str, Any] = {"start": "none", "architecture": "mlp", "hidden": (512, 256)}
CHOSEN: dict[str, Any] = {"steps": 2000, "generator_every": 1, "fake_batch": 128, "penalty": 1.0}
# On USPS, with batches of 128 and no limit on passes; the defaults are 300 steps, a generator step in 5, 256 generated records and a
# penalty of 0.1.
TRIALS: tuple[dict[str, Any], ...] = (
    {},
    {"steps": 1000, "generator_every": 1, "penalty": 3.0},
    {"steps": 1500, "generator_every": 1, "fake_batch": 128},
    {"steps": 2000, "generator_every": 1},
    {"steps": 2000, "generator_every": 1, "penalty": 1.0},
    CHOSEN,  # a point less than the one before at three fifths of its cost
)
WAYS: dict[str, dict[str, Any]] = {
    "plain (MLP, start=none)": {**WAITES, **CHOSEN, "batch": 600},
    "from class Gaussians": {},
}


def one(settings: dict[str, Any], epsilon: float, seed: int, chosen: Any) -> tuple[dict[str, Any], Any]:
    """Accuracies and cost of one fit, and its pictures."""
    start = time.process_time()
    budget = Budget(epsilon, DELTA)
    release = Synthesizer("dpgan_images", schema=chosen.schema, budget=budget, **settings).fit(chosen.train, seed=seed)
    seconds, frame = time.process_time() - start, release.sample(ROWS, seed=seed)
    found = accuracies(frame, chosen.test, chosen.schema, models=MODELS)
    figures = {name: found[name] for name in MODELS}
    return {**figures, "fit_cpu_seconds": seconds, "seed": seed, "commit": provenance()["commit"]}, frame


def tried(settings: dict[str, Any]) -> dict[str, Any]:
    """One trial without noise: accuracies on pictures of USPS that it did not see."""
    whole = named.load("usps")
    mixed = whole.train.sample(frac=1, random_state=0).reset_index(drop=True)
    cut = len(mixed) * 4 // 5
    train, held = mixed[:cut].reset_index(drop=True), mixed[cut:].reset_index(drop=True)
    schema = dataclasses.replace(whole.schema, units=cut)
    start, budget = time.process_time(), Budget(math.inf, DELTA)
    every = {**WAITES, "batch": 128, "passes": 10**6, **settings}
    release = Synthesizer("dpgan_images", schema=schema, budget=budget, **every).fit(train, seed=0)
    seconds = time.process_time() - start
    found = accuracies(release.sample(5000, seed=0), held, schema, models=MODELS)
    return {**{name: found[name] for name in MODELS}, "fit_cpu_seconds": seconds, "commit": provenance()["commit"]}


def main() -> None:
    """Run what the scratch file, or without one the report, lacks, and write the report; the figure is of seed 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--choose", action="store_true", help="run the trials of settings before")
    parser.add_argument("--keep", type=Path, default=HOME / "outputs" / "plain_dpgan.json")
    arguments = parser.parse_args()
    arguments.keep.parent.mkdir(parents=True, exist_ok=True)
    runs = json.loads(arguments.keep.read_text()) if arguments.keep.exists() else recalled()
    chosen, origin = named.load("mnist"), provenance()
    for settings in TRIALS if arguments.choose else ():
        if trial_of(settings) not in runs:
            runs[trial_of(settings)] = tried(settings)
            print(settings, runs[trial_of(settings)], flush=True)
            arguments.keep.write_text(json.dumps(runs))
    for seed in range(arguments.seeds):
        for way, settings in WAYS.items():
            for epsilon in EPSILONS:
                key = f"{way}/{epsilon:g}/{seed}"
                if key not in runs:
                    runs[key], frame = one(settings, epsilon, seed, chosen)
                    if seed == 0:
                        np.savez(cells_of(arguments.keep, way, epsilon), cells=np.stack(cells(frame)))
                    print(key, runs[key], flush=True)
                    arguments.keep.write_text(json.dumps(runs))
    rows = [row for way in WAYS for epsilon in EPSILONS if (row := together(way, epsilon, runs))]
    told = {way: {name: str(value) for name, value in settings.items()} for way, settings in WAYS.items()}
    trials = [{"settings": settings, **runs[key]} for settings in TRIALS if (key := trial_of(settings)) in runs]
    result = {"data": "mnist", "delta": DELTA, "rows": rows, "settings": told, "trials": trials, **origin}
    write("plain_dpgan", result, page(result))
    if all(cells_of(arguments.keep, way, epsilon).exists() for way in WAYS for epsilon in EPSILONS):
        picture(arguments.keep)


def recalled() -> dict[str, Any]:
    """What the report holds, where the scratch file is gone; its picture stays."""
    report = REPORTS / "plain_dpgan.json"
    held = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"rows": (), "trials": ()}
    runs: dict[str, Any] = {}
    for row in held["rows"]:
        epsilon = math.inf if row["epsilon"] is None else row["epsilon"]
        for seed, commit in enumerate(row["commits"]):
            found = {name: row[name]["values"][seed] for name in (*MODELS, "fit_cpu_seconds")}
            runs[f"{row['generator']}/{epsilon:g}/{seed}"] = {**found, "seed": seed, "commit": commit}
    for trial in held["trials"]:
        runs[trial_of(trial["settings"])] = {name: value for name, value in trial.items() if name != "settings"}
    return runs


def together(way: str, epsilon: float, runs: dict[str, Any]) -> dict[str, Any] | None:
    """One row of the report: a mean over the seeds that have run."""
    found = [runs[key] for seed in range(100) if (key := f"{way}/{epsilon:g}/{seed}") in runs]
    if not found:
        return None
    figures = {name: spread([run[name] for run in found]) for name in (*MODELS, "fit_cpu_seconds")}
    commits = [run["commit"] for run in found]
    return {"generator": way, "epsilon": _plain(epsilon), **figures, "commits": commits}


def _plain(epsilon: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(epsilon) else epsilon


def trial_of(settings: dict[str, Any]) -> str:
    """A trial's name in the scratch file."""
    return f"trial/{json.dumps(settings, sort_keys=True)}"


def cells_of(keep: Path, way: str, epsilon: float) -> Path:
    """Where a fit's pictures for the figure are kept."""
    return keep.with_name(f"plain_dpgan_{list(WAYS).index(way)}_{epsilon:g}.npz")


def cells(frame: Any) -> list[Any]:
    """`EACH` times a picture of every class, in order."""
    classes = [frame.loc[frame["digit"] == digit, "image"].head(EACH) for digit in frame["digit"].cat.categories]
    return [pictures.iloc[place] for place in range(EACH) for pictures in classes if place < len(pictures)]


def picture(keep: Path) -> None:
    """A column of sheets for each way, one for each epsilon: a digit stands below itself."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, boxes = plt.subplots(len(EPSILONS), len(WAYS), figsize=(4.6 * len(WAYS), 1.3 * len(EPSILONS)))
    for line, epsilon in zip(boxes, EPSILONS, strict=True):
        for box, way in zip(line, WAYS, strict=True):
            box.axis("off")
            box.set_title(f"{way}, epsilon {'infinite' if math.isinf(epsilon) else f'{epsilon:g}'}", fontsize=9)
            if cells_of(keep, way, epsilon).exists():
                shown = list(np.load(cells_of(keep, way, epsilon), allow_pickle=False)["cells"])
                box.imshow(plt.imread(io.BytesIO(sheet(shown, 10))), cmap="gray", interpolation="nearest")
    figure.tight_layout()
    figure.savefig(REPORTS / "plain_dpgan.png", dpi=110)
    plt.close(figure)


def page(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    plain = " ".join(f"{name}={value}" for name, value in result["settings"][next(iter(WAYS))].items())
    lines = [
        "# MNIST: PyVacy's plain DP-GAN",
        "",
        f"The plain DP-GAN is `dpgan_images` with {plain}: the networks of Waites (2019), but told which digit to draw. Beside it stands "
        f"`dpgan_images` with its defaults, which starts from class Gaussians. Delta is {DELTA:g}. Logistic regression and an MLP learn "
        f"from {ROWS:,} synthetic pictures; the table has their accuracy, in percent, on the 10,000 real test pictures. The paper shows "
        "pictures and prints no figure. Written by `recipes/plain_dpgan.py`.",
        "",
        "| generator | epsilon | logistic regression | MLP | fit, CPU seconds | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        shares = [_told(row[name], 100, 1) for name in MODELS]
        epsilon = "infinite" if row["epsilon"] is None else f"{row['epsilon']:g}"
        cost = _told(row["fit_cpu_seconds"], 1, 0)
        lines.append(f"| {row['generator']} | {epsilon} | {' | '.join(shares)} | {cost} | {row['lr']['n']} |")
    there = {(row["generator"], row["epsilon"]) for row in result["rows"]}
    lacking = [f"{way} at {epsilon:g}" for way in WAYS for epsilon in EPSILONS if (way, _plain(epsilon)) not in there]
    lines += ["", f"Not run: {', '.join(lacking)}."] if lacking else []
    lines += ["", "![Generated digits](plain_dpgan.png)"]
    if result["trials"]:
        lines += [
            "",
            "## How long it trains",
            "",
            "Tried without noise on USPS, by classifiers that learn from 5,000 synthetic pictures and are scored on a fifth of the "
            "training pictures, which the fit did not see (seed 0, batches of 128). The first row has the generator's default steps.",
            "",
            "| settings | logistic regression | MLP | fit, CPU seconds |",
            "|---|---|---|---|",
            *(
                f"| {', '.join(f'{name}={value}' for name, value in trial['settings'].items()) or 'the defaults'} | "
                f"{' | '.join(f'{100 * trial[name]:.1f}' for name in MODELS)} | {trial['fit_cpu_seconds']:.0f} |"
                for trial in result["trials"]
            ),
        ]
    commits = {commit for row in result["rows"] for commit in row["commits"]}
    commits |= {trial["commit"] for trial in result["trials"]}
    end = f"{result['processor']}, {result['cores']} cores; commits {', '.join(sorted(commits))}."
    return "\n".join([*lines, "", end, ""])


def _told(found: dict[str, Any], factor: float, digits: int) -> str:
    spread_of = f" ± {factor * found['sd']:.{digits}f}" if found["n"] > 1 else ""
    return f"{factor * found['mean']:.{digits}f}{spread_of}"


if __name__ == "__main__":
    main()
