"""MNIST by DP-SGD: the classifiers of PyVacy (Waites 2019), with privacy and without.

    SYNTHDP_DATA=/path/to/data python recipes/trainer_mnist.py [--choose] [--seeds 3] [--networks MLP ...] [--keep FILE]

Writes reports/trainer_mnist.{json,md}: accuracy on the 10,000 test pictures of a network 784-1000-10 and of a small convolutional one,
each at epsilon 3, delta 1e-5 (the goal is 95 %) and without privacy (the goal is 98 %). A seed is that of first weights and noise, so
that all of these are rehearsals. `--keep` is a scratch file of finished runs: a run that was stopped goes on from there.

`--curves` trains the first of them at three noise levels and draws its accuracy after every epoch (trainer_mnist.png).

`--choose` tries the settings of `TRIALS`: it trains on the first 50,000 training pictures and scores on the other 10,000. To be cheap it
takes an eighth of the batch with an eighth of the noise multiplier, which puts the same noise on the mean gradient. Test pictures scored
no trial, but what the first choice reached on them made further trials follow: so they had a say in the MLP's settings.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record import HOME, REPORTS, provenance, spread, write
from torch import nn

from synthdp import Budget, PrivateTrainer, accounting
from synthdp.ledger.events import Entry, Gaussian, Sampled
from synthdp.sets import named
from synthdp.trainer import array_schema
from synthdp.trainer.training import Descent

DELTA, GOALS = 1e-5, {3.0: 0.95, math.inf: 0.98}
PICTURES = 60_000  # for training
ACCOUNTANTS = ("pld", "rdp", "moments")  # ours, and what the same plan costs by others; PyVacy's 3.0 is by moments
HELD, PART = 10_000, 8  # training pictures that trials are scored on; which part of batch and noise they take
TRIED = 1  # seeds of a trial
LEVELS = (8.0, 2.0, 0.5)  # epsilons of the curves: those of figure 3 of Abadi et al. 2016
Settings = dict[str, Any]
Pictures = tuple[Any, Any]
Run = dict[str, Any]


def mlp() -> nn.Module:
    """784-1000-10."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


def convolutional() -> nn.Module:
    """Two convolutions, each with a maximum over neighbours, and one linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )


MLP, CONVOLUTIONAL = "MLP 784-1000-10", "convolutional"
NETWORKS = {MLP: mlp, CONVOLUTIONAL: convolutional}
OPEN: Settings = {
    "optimizer": "momentum", "learning_rate": 0.1, "learning_rate_end": 0.0, "clip": 1e3, "batch": 128, "epochs": 10,
}  # fmt: skip
BASE: dict[str, Settings] = {
    MLP: {"optimizer": "sgd", "learning_rate_end": 0.0, "batch": 1024, "epochs": 20},
    CONVOLUTIONAL: {"optimizer": "sgd", "learning_rate_end": 0.0, "batch": 512, "epochs": 10},
}
TRIALS: dict[str, list[Settings]] = {
    MLP: [
        {"learning_rate": 4.0, "clip": 1.0},
        {"learning_rate": 8.0, "clip": 1.0},
        {"learning_rate": 12.0, "clip": 1.0},
        {"learning_rate": 16.0, "clip": 0.25},
        {"learning_rate": 8.0, "clip": 1.0, "batch": 2048, "epochs": 40},
        {"learning_rate": 8.0, "clip": 1.0, "epochs": 40},
        {"learning_rate": 4.0, "clip": 2.0},
        {"learning_rate": 2.0, "clip": 1.0, "batch": 256, "epochs": 60},
    ],
    CONVOLUTIONAL: [{"learning_rate": rate, "clip": 1.0} for rate in (1.0, 2.0, 4.0)],
}
PRIVATE: dict[str, Settings] = {  # the best of the trials
    MLP: {**BASE[MLP], "learning_rate": 8.0, "clip": 1.0, "batch": 2048, "epochs": 40},
    CONVOLUTIONAL: {**BASE[CONVOLUTIONAL], "learning_rate": 4.0, "clip": 1.0},
}
CURVED: Settings = {**BASE[MLP], "learning_rate": 8.0, "clip": 1.0}


def pictures(part: str) -> Pictures:
    """(n, 28, 28) uint8 and their digits, of `train` or `test`."""
    with np.load(named.folder() / "mnist" / "mnist.npz", allow_pickle=False) as held:
        return held[f"x_{part}"], held[f"y_{part}"].astype(np.int64)


def trainer_of(network: str, epsilon: float, seed: int, units: int, settings: Settings) -> PrivateTrainer:
    """The network with the first weights of this seed, and how it is trained on `units` pictures."""
    torch.manual_seed(seed)
    schema = array_schema((28, 28), classes=10, units=units)
    return PrivateTrainer(NETWORKS[network](), schema=schema, budget=Budget(epsilon, DELTA), **settings)


def one(network: str, epsilon: float, seed: int, settings: Settings, train: Pictures, judge: Pictures) -> Run:
    """Accuracy, cost and what was promised of one training."""
    start, cpu = time.perf_counter(), time.process_time()
    trainer = trainer_of(network, epsilon, seed, len(train[0]), settings)
    trained = trainer.fit(train, seed=seed)
    return {
        "accuracy": float((trained.outputs(judge[0]).argmax(1) == judge[1]).mean()),
        "epsilon_spent": None if math.isinf(epsilon) else trained.statement.epsilon,
        "noise": trainer.noise,
        "steps": trainer.training.steps,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "commit": provenance()["commit"],
    }


def tried(network: str, change: Settings, seed: int, train: Pictures) -> Run:
    """One trial: of a training at epsilon 3, with a part of its batch and noise, on a part of its pictures."""
    (x, y), settings = train, {**BASE[network], **change}
    noise = trainer_of(network, 3.0, seed, len(x), settings).noise / PART
    smaller = {**settings, "batch": settings["batch"] // PART, "epochs": settings["epochs"] / PART}
    planned = trainer_of(network, math.inf, seed, len(x) - HELD, smaller)
    epsilon = accounting.best(planned.training.plan(planned.schema, noise), DELTA)[1]
    return one(network, epsilon, seed, smaller, (x[:-HELD], y[:-HELD]), (x[-HELD:], y[-HELD:]))


@contextmanager
def watched(seen: Callable[[nn.Module], None]) -> Iterator[None]:
    """Show the module after each step of a fit. It is made of noisy gradients alone, so that whoever sees it sees an answer."""
    follow = Descent.follow

    def told(self: Descent, sums: Any, divisor: float, rate: float) -> float:
        length = follow(self, sums, divisor, rate)
        seen(self.module)
        return length

    Descent.follow = told  # type: ignore[method-assign]
    try:
        yield
    finally:
        Descent.follow = follow  # type: ignore[method-assign]


def curve(epsilon: float, seed: int, train: Pictures, test: Pictures) -> Run:
    """One training of the first network, and its accuracy after every epoch."""
    found, steps = list[float](), 0
    each = len(train[0]) / CURVED["batch"]
    rows, digits = torch.from_numpy(test[0]).float().div(255).unsqueeze(1), torch.from_numpy(test[1])

    def seen(module: nn.Module) -> None:
        nonlocal steps
        steps += 1
        if steps >= round((len(found) + 1) * each):
            with torch.no_grad():
                found.append(float((module(rows).argmax(1) == digits).double().mean()))

    with watched(seen):
        run = one(MLP, epsilon, seed, CURVED, train, test)
    return {**run, "curve": found}


class Kept:
    """The runs of a scratch file, by what was run."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self.runs = path, json.loads(path.read_text()) if path.exists() else recalled()

    def run(self, key: str, work: Callable[[], Run]) -> None:
        """Unless it was done before."""
        if key not in self.runs:
            self.runs[key] = work()
            print(key, self.runs[key], flush=True)
            self._path.write_text(json.dumps(self.runs, indent=1))


def recalled() -> dict[str, Run]:
    """The runs that the report as committed holds."""
    path = REPORTS / "trainer_mnist.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    runs: dict[str, Run] = {}
    for row in report.get("rows", ()):
        epsilon = math.inf if row["epsilon"] is None else row["epsilon"]
        columns = row["seeds"], row["accuracy"]["values"], row["cpu_seconds"]["values"]
        for place, (seed, accuracy, seconds) in enumerate(zip(*columns, strict=True)):
            key = key_of(row["network"], row["settings"], epsilon, seed)
            shared = {name: row[name] for name in ("epsilon_spent", "noise", "steps")}
            commit = row["run_commits"][place] if "run_commits" in row else row["commits"][0]
            runs[key] = {"accuracy": accuracy, "cpu_seconds": seconds, "commit": commit, **shared}
    for trial in report.get("trials", ()):
        for seed, accuracy, commit in zip(trial["seeds"], trial["accuracy"]["values"], trial["commits"], strict=True):
            runs[key_of(trial["network"], trial["change"], "trial", seed)] = {"accuracy": accuracy, "commit": commit}
    for level in report.get("curves", ()):
        for run in level["runs"]:
            runs[key_of(MLP, level["settings"], f"curve {level['epsilon']:g}", run["seed"])] = run
    return runs


def key_of(network: str, settings: Settings, goal: float | str, seed: int) -> str:
    """A run's name in the scratch file: other settings are other runs."""
    return f"{network}/{json.dumps(settings, sort_keys=True)}/{goal}/{seed}"


def settings_of(network: str, epsilon: float) -> Settings:
    """How it is trained."""
    return OPEN if math.isinf(epsilon) else PRIVATE[network]


def main() -> None:
    """Run what is asked for and lacks, and write the report of all that has run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true", help="run the trials of settings before")
    parser.add_argument("--curves", action="store_true", help="run those of three noise levels too")
    parser.add_argument("--seeds", type=int, default=3, help="0: none, the report is written anew")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(GOALS))
    parser.add_argument(
        "--keep", type=Path, default=HOME / "outputs" / "trainer_mnist.json", help="scratch file of runs"
    )
    arguments = parser.parse_args()
    origin, kept, train, test = provenance(), Kept(arguments.keep), pictures("train"), pictures("test")
    if arguments.choose:
        for network in arguments.networks:
            for seed in range(TRIED):
                for change in TRIALS[network]:
                    kept.run(key_of(network, change, "trial", seed), partial(tried, network, change, seed, train))
    for seed in range(arguments.seeds):
        for network in arguments.networks:
            for epsilon in arguments.epsilons:
                settings = settings_of(network, epsilon)
                work = partial(one, network, epsilon, seed, settings, train, test)
                kept.run(key_of(network, settings, epsilon, seed), work)
        for epsilon in LEVELS if arguments.curves else ():
            kept.run(key_of(MLP, CURVED, f"curve {epsilon:g}", seed), partial(curve, epsilon, seed, train, test))
    rows = [row for network in NETWORKS for epsilon in GOALS if (row := together(network, epsilon, kept.runs))]
    trials = [
        trial
        for network, changes in TRIALS.items()
        for change in changes
        if (trial := trials_of(network, change, kept.runs))
    ]
    curves = [level for epsilon in LEVELS if (level := curves_of(epsilon, kept.runs))]
    result = {"data": "mnist", "delta": DELTA, "rows": rows, "trials": trials, "curves": curves, **origin}
    write("trainer_mnist", result, page(result))
    if curves:
        picture(curves)


def together(network: str, epsilon: float, runs: dict[str, Run]) -> dict[str, Any] | None:
    """One row of the report: a mean over the seeds that have run."""
    settings = settings_of(network, epsilon)
    found = {seed: runs[key] for seed in range(100) if (key := key_of(network, settings, epsilon, seed)) in runs}
    if not found:
        return None
    one_of = next(iter(found.values()))
    return {
        "network": network,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "goal": GOALS[epsilon],
        "settings": settings,
        "seeds": list(found),
        "accuracy": spread([run["accuracy"] for run in found.values()]),
        **{key: one_of[key] for key in ("epsilon_spent", "noise", "steps")},
        "epsilon_by": by_accountant(settings, one_of["noise"], one_of["steps"]) if one_of["noise"] else None,
        "cpu_seconds": spread([run["cpu_seconds"] for run in found.values()]),
        "commits": sorted({run["commit"] for run in found.values()}),
        "run_commits": [run["commit"] for run in found.values()],
    }


def by_accountant(settings: Settings, noise: float, steps: int) -> dict[str, float]:
    """Epsilon of the same training by each accountant."""
    plan = (Entry(Sampled(settings["batch"] / PICTURES, (Gaussian(noise),)), steps),)
    return {name: accounting.epsilon(plan, DELTA, name) for name in ACCOUNTANTS}


def trials_of(network: str, change: Settings, runs: dict[str, Run]) -> dict[str, Any] | None:
    """One row of the table of trials."""
    found = {seed: runs[key] for seed in range(TRIED) if (key := key_of(network, change, "trial", seed)) in runs}
    if not found:
        return None
    return {
        "network": network,
        "change": change,
        "seeds": list(found),
        "accuracy": spread([run["accuracy"] for run in found.values()]),
        "commits": [run["commit"] for run in found.values()],
    }


def curves_of(epsilon: float, runs: dict[str, Run]) -> dict[str, Any] | None:
    """A noise level: the accuracy in the end over the seeds that have run, and the runs with their curves."""
    keys = {seed: key_of(MLP, CURVED, f"curve {epsilon:g}", seed) for seed in range(100)}
    found = [{**runs[key], "seed": seed} for seed, key in keys.items() if key in runs]
    if not found:
        return None
    return {
        "epsilon": epsilon,
        "settings": CURVED,
        "accuracy": spread([run["accuracy"] for run in found]),
        **{key: found[0][key] for key in ("epsilon_spent", "noise", "steps")},
        "runs": found,
    }


def picture(curves: list[dict[str, Any]]) -> None:
    """Accuracy by epoch: the mean over seeds, and the range between them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, box = plt.subplots(figsize=(6, 3.6))
    for level in curves:
        lines = np.array([run["curve"] for run in level["runs"]])
        epochs = np.arange(1, lines.shape[1] + 1)
        box.plot(epochs, lines.mean(0), label=f"epsilon {level['epsilon']:g} (noise {level['noise']:.2f})")
        box.fill_between(epochs, lines.min(0), lines.max(0), alpha=0.25)
    box.set(xlabel="epoch", ylabel="accuracy on test pictures", xticks=range(0, lines.shape[1] + 1, 5))
    box.legend()
    figure.tight_layout()
    figure.savefig(REPORTS / "trainer_mnist.png", dpi=110)
    plt.close(figure)


def page(result: dict[str, Any]) -> str:
    """The tables as Markdown."""
    lines = [
        "# MNIST by DP-SGD",
        "",
        "PyVacy's two classifiers (Waites 2019) are trained by `synthdp.PrivateTrainer` on 60,000 pictures, with delta "
        f"{DELTA:g}. Accuracy is measured on the 10,000 test pictures: the mean ± the standard deviation over the seeds of first weights "
        "and noise. The networks see the pixels, with no features, principal axes or weights from public data. Epsilon is the statement's, "
        "here by PLD. PyVacy computes its epsilon of 3.0 by the moments accountant, by which the same trainings cost more: two columns "
        "have their epsilon by other accountants. Written by `recipes/trainer_mnist.py`.",
        "",
        "| network | epsilon | by RDP | by moments | accuracy | seeds | goal | noise | steps | CPU minutes | settings |",
        "|" + "---|" * 11,
    ]
    for row in result["rows"]:
        found, epsilon = row["accuracy"], "none" if row["epsilon"] is None else f"{row['epsilon_spent']:.3f}"
        others = ["none" if row["epsilon_by"] is None else f"{row['epsilon_by'][name]:.2f}" for name in ACCOUNTANTS[1:]]
        spread_of = f" ± {found['sd']:.2%}" if found["n"] > 1 else ""
        lines.append(
            f"| {row['network']} | {epsilon} | {' | '.join(others)} | {found['mean']:.2%}{spread_of} | {found['n']} | {row['goal']:.0%} "
            f"| {row['noise']:.3f} | {row['steps']:,} | {row['cpu_seconds']['mean'] / 60:.1f} | {told(row['settings'])} |"
        )
    missed = [row for row in result["rows"] if row["accuracy"]["mean"] < row["goal"]]
    lacking = [name for name in NETWORKS if name not in {row["network"] for row in result["rows"]}]
    lines += ["", f"Goals that are not reached: {len(missed)} of {len(result['rows'])}."]
    lines += [f"Not run yet: {', '.join(lacking)}."] if lacking else []
    if result["trials"]:
        lines += [
            "",
            "## How the settings with privacy were chosen",
            "",
            "Each trial was trained on the first 50,000 training pictures and scored on the other 10,000, as at epsilon 3, but with "
            f"{1 / PART:g} of the batch and noise multiplier: the noise on the mean gradient is the same. In earnest, a choice made on "
            "sensitive records costs budget of its own.",
            "",
            "The MLP was trained twice with the best of the trials. In the first, the best was batches of 1,024 for 20 epochs at a rate of "
            "8, which reached 94.88 ± 0.19 % on the test pictures (three seeds), short of the goal. Further trials followed, with larger "
            "batches, more epochs or another clip; the table above has the best of all. So test pictures scored no trial, but they decided "
            "that the MLP's trials went on.",
            "",
            "| network | optimiser | batch | epochs | learning rate, falling to 0 | clip | accuracy, pictures held out | seeds |",
            "|" + "---|" * 8,
            *(_tried(trial) for trial in result["trials"]),
        ]
    commits = {commit for row in result["rows"] for commit in row["commits"]}
    if result["curves"]:
        lines += ["", "## Accuracy by epoch", "", *_curves(result["curves"])]
        commits |= {run["commit"] for level in result["curves"] for run in level["runs"]}
    return "\n".join(
        [*lines, "", f"{result['processor']}, {result['cores']} cores; commit {', '.join(sorted(commits))}.", ""]
    )


def _curves(curves: list[dict[str, Any]]) -> list[str]:
    """What the picture shows, in numbers."""
    marks = [epoch for epoch in (1, 2, 5, 10, 20, 40) if epoch <= len(curves[0]["runs"][0]["curve"])]
    lines = [
        f"{MLP} at other budgets, with {told(CURVED)}. Abadi et al. (2016, figure 3) show 97, 95 and 90 % at "
        "epsilon 8, 2 and 0.5, for a network of 1,000 hidden units on 60 principal axes. Each row is one budget, spent by the last epoch; "
        "where there are several seeds, mean ± standard deviation.",
        "",
        "| epsilon | noise | steps | " + " | ".join(f"after epoch {epoch}" for epoch in marks) + " | seeds |",
        "|" + "---|" * (4 + len(marks)),
    ]
    for level in curves:
        cells = [spread([run["curve"][epoch - 1] for run in level["runs"]]) for epoch in marks]
        shown = " | ".join(f"{cell['mean']:.2%}" + f" ± {cell['sd']:.2%}" * (cell["n"] > 1) for cell in cells)
        lines.append(
            f"| {level['epsilon']:g} | {level['noise']:.3f} | {level['steps']:,} | {shown} | {len(level['runs'])} |"
        )
    lacking = [f"{epsilon:g}" for epsilon in LEVELS if epsilon not in {level["epsilon"] for level in curves}]
    lines += ["", f"Not run: epsilon {', '.join(lacking)}."] if lacking else []
    return [*lines, "", "![Accuracy by epoch](trainer_mnist.png)"]


def _tried(trial: dict[str, Any]) -> str:
    settings, found = {**BASE[trial["network"]], **trial["change"]}, trial["accuracy"]
    clip = f"{settings['clip']:g}" + (", adaptive" if settings.get("clipping") == "adaptive" else "")
    spread_of = f" ± {found['sd']:.2%}" if found["n"] > 1 else ""
    return (
        f"| {trial['network']} | {settings['optimizer']} | {settings['batch']} | {settings['epochs']:g} | "
        f"{settings['learning_rate']:g} | {clip} | {found['mean']:.2%}{spread_of} | {found['n']} |"
    )


def told(settings: Settings) -> str:
    """Settings in words."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


if __name__ == "__main__":
    main()
