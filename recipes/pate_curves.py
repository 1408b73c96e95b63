"""MNIST, figures 2 and 3 of the PATE paper (Papernot et al. 2017): how much noise a vote bears, and how clear votes are.

    SYNTHDP_DATA=/path/to/data python recipes/pate_curves.py

Writes reports/pate_curves.{json,md,png}: accuracy of noisy labels for gamma from 0.01 to 1 (Laplace noise of scale 1 / gamma on each
count), and the gap between the two most frequent votes over the number of teachers, for 10, 100 and 250 teachers. The votes are exact:
all of this is internal, of a public data set.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pate_mnist
from numpy.typing import NDArray
from pate_runs import DELTA
from record import HOME, REPORTS, provenance, spread, write
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from synthdp import Budget
from synthdp.pate import PATE, GNMax
from synthdp.seal.replay import Recorder

TEACHERS, QUERIES, DRAWS = (10, 100, 250), 1000, 50
GAMMAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.3, 0.5, 1.0)


def votes(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exact votes (queries, classes) of so many teachers on public images, and the true digits (queries,)."""
    sensitive, public, _ = pate_mnist.frames()
    pate = PATE(
        teachers=count,
        teacher=SVC(C=10),
        queries=QUERIES,
        aggregator=GNMax(1e-3),  # what is released here goes nowhere
        student=LogisticRegression(max_iter=5),
        features=pate_mnist.shown_strokes,
    )
    recorder = Recorder()
    made = pate.fit(
        sensitive,
        schema=pate_mnist.schema(),
        target="label",
        public=public.drop(columns="label"),
        budget=Budget(math.inf, DELTA),
        seed=seed,
        recorder=recorder,
    )
    truth = public["label"].astype(int).to_numpy()[made.answers.places]
    return np.concatenate([bounded for _, bounded, _ in recorder.asked]), truth


def curves(counts: NDArray[np.int64], truth: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """Accuracies of noisy labels by gamma, over `DRAWS` draws of all, and what the votes are like."""
    stream, ordered = np.random.default_rng(seed), np.sort(counts, axis=1)
    accuracy = {
        f"{gamma:g}": float(
            np.mean([(counts + stream.laplace(0, 1 / gamma, counts.shape)).argmax(1) == truth for _ in range(DRAWS)])
        )
        for gamma in GAMMAS
    }
    return {
        "accuracy": accuracy,
        "without_noise": float((counts.argmax(1) == truth).mean()),
        "gap": spread([float(each) for each in (ordered[:, -1] - ordered[:, -2]) / counts.sum(1)]) | {"values": []},
        "teacher": float(counts[np.arange(len(truth)), truth].sum() / counts.sum()),
    }


def main() -> None:
    """Ask the ensembles that the scratch file lacks, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=HOME / "outputs" / "pate_curves.json")
    arguments = parser.parse_args()
    arguments.keep.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(arguments.keep.read_text()) if arguments.keep.exists() else {}
    origin = provenance()
    for count in TEACHERS:
        if str(count) not in found:
            found[str(count)] = curves(*votes(count, arguments.seed), arguments.seed)
            print(count, found[str(count)], flush=True)
            arguments.keep.write_text(json.dumps(found))
    result = {"data": "mnist", "queries": QUERIES, "draws": DRAWS, "seed": arguments.seed, "ensembles": found, **origin}
    write("pate_curves", result, page(result))
    picture(found)


def picture(found: dict[str, Any]) -> None:
    """Figures 2 and 3 of the paper."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for count, each in found.items():
        left.semilogx(
            GAMMAS, [each["accuracy"][f"{gamma:g}"] for gamma in GAMMAS], marker="o", label=f"{count} teachers"
        )
    left.set(xlabel="gamma per label", ylabel="accuracy of noisy labels")
    left.legend()
    right.bar(list(found), [each["gap"]["mean"] for each in found.values()])
    right.set(xlabel="teachers", ylabel="gap of votes over teachers")
    figure.tight_layout()
    figure.savefig(REPORTS / "pate_curves.png", dpi=110)
    plt.close(figure)


def page(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "# MNIST: how much noise votes bear, and how clear they are",
        "",
        f"Figures 2 and 3 of Papernot et al. 2017, of exact votes on {result['queries']:,} public images: share of right labels with "
        f"Laplace noise of scale 1 / gamma on each count ({result['draws']} draws), and the gap between the two most frequent votes over "
        "the number of teachers (mean over queries). Teachers are those of [pate_mnist](pate_mnist.md); one partition "
        f"(seed {result['seed']}). "
        "The paper prints curves, no numbers. Written by `recipes/pate_curves.py`.",
        "",
        "| teachers | one teacher | no noise | gap | " + " | ".join(f"gamma {gamma:g}" for gamma in GAMMAS) + " |",
        "|" + "---|" * (4 + len(GAMMAS)),
    ]
    for count, each in result["ensembles"].items():
        cells = [each["teacher"], each["without_noise"], each["gap"]["mean"], *each["accuracy"].values()]
        lines.append(f"| {count} | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    end = f"{result['processor']}; commit {result['commit']}."
    return "\n".join([*lines, "", "![Accuracy by gamma, and gaps](pate_curves.png)", "", end, ""])


if __name__ == "__main__":
    main()
