"""MNIST and PneumoniaMNIST, every generator of images: train on synthetic, test on real, FID, cost, and what the pictures look like.

    SYNTHDP_DATA=/path/to/data python recipes/images.py [--data mnist] [--only GENERATOR ...] [--seeds 3]

Writes reports/images_DATA.{json,md,png}; the report is made of everything that the scratch file holds. Accuracies are those of
logistic regression, an MLP and a CNN (`synthdp.evaluate.images`), trained on as many synthetic pictures as there are real ones.
FID is on the penultimate layer of that CNN, trained on the real training records: not comparable with Inception's.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import trials
from record import HOME, REPORTS, provenance, spread, write
from trials import REAL, Trial, alike, shown

from synthdp import Budget, Synthesizer, load
from synthdp.evaluate.images import accuracies, clouds, image_classifiers, pictures
from synthdp.evaluate.images.clouds import frechet
from synthdp.evaluate.images.samples import sheet
from synthdp.sets import named

DELTA = {"mnist": 1e-5, "pneumoniamnist": 1e-5}
EPSILONS = (1.0, 10.0)
SHOWN = (0.3, 1.0, 8.0, float("inf"))  # of the figure, as in Waites 2019
MODELS = ("lr", "mlp", "cnn")
# Label, generator, settings, at each epsilon.
GENERATORS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("classgauss", "classgauss", {}),
    ("dpmerf", "dpmerf", {}),
    ("dpgan", "dpgan_images", {}),
    ("dpdm", "dpdm", {}),
    ("kernel_teachers", "kernel_teachers_images", {}),
    ("independent", "independent", {}),
)
START = "start_"  # of the figures of what a network starts from, drawn alone
ALONE = tuple(START + name for name in (*MODELS, "fid"))
FIGURES = (*MODELS, "fid", *ALONE, "fit_seconds", "fit_cpu_seconds", "fit_peak_mib", "epsilon_spent")
ROWS = 10_000  # pictures that FID compares


def one(trial: Trial) -> dict[str, Any]:
    """One set of pictures and its accuracies; the classifiers' own seed is 0, the spread is over fits."""
    chosen = named.load(trial.data)
    if trial.generator == REAL or trial.epsilon is None or trial.delta is None:
        return accuracies(chosen.train, chosen.test, chosen.schema, models=MODELS)
    frame, figures = trials.rows_of(trial, chosen, keep=release_of(trial))
    figures |= accuracies(frame, chosen.test, chosen.schema, models=MODELS)
    start = start_of(trial)
    if start is not None:
        alone = start.sample(len(chosen.train), seed=trial.seed)
        found = accuracies(alone, chosen.test, chosen.schema, models=MODELS)
        figures |= {START + name: value for name, value in found.items()}
    return figures


def start_of(trial: Trial) -> Any:
    """The class Gaussians that a trial's network retouches, with the noise of this very fit; None where there are none."""
    model: Any = load(release_of(trial)).model
    return getattr(model, "start", None) or getattr(getattr(model, "source", None), "mixture", None)


def release_of(trial: Trial) -> Path:
    """Where a trial's release is kept for the later passes."""
    return HOME / "outputs" / "images" / hashlib.sha256(trial.key.encode()).hexdigest()[:16]


def distances(data: str, wanted: list[Trial], known: dict[str, Any]) -> None:
    """Add FID against the real test pictures to what the trials have found, where it lacks."""
    todo = [trial for trial in wanted if trial.key in known and "fid" not in known[trial.key]]
    if not todo:
        return
    chosen = named.load(data)
    axes = pictures.axes_of(chosen.schema, chosen.train)
    train, test = (pictures.pictures_of(frame, chosen.schema, axes, "real") for frame in (chosen.train, chosen.test))
    axis = axes[0]
    kind = image_classifiers.CLASSIFIERS["cnn"]
    ceiling = image_classifiers.fitted(kind, train.pixels, train.labels(axis), len(axis.levels), 0)
    space = clouds.of_classifier(axis.name, ceiling, train.pixels)
    if space is None:
        raise SystemExit("the classifier learned nothing: no features")
    real = space(test.pixels)
    for trial in todo:
        if trial.generator == REAL:
            known[trial.key]["fid"] = frechet(real, space(train.pixels[:ROWS]))
        elif release_of(trial).exists():
            made = {"fid": load(release_of(trial)), START + "fid": start_of(trial)}
            for name, model in made.items():
                if model is not None:
                    frame = model.sample(ROWS, seed=1)
                    seen = pictures.pictures_of(frame, chosen.schema, axes, "synthetic")
                    known[trial.key][name] = frechet(real, space(seen.pixels))


def picture(data: str, generators: list[str]) -> None:
    """A figure: a row of pictures, in the order of the classes, per generator and epsilon (seed 0)."""
    import matplotlib as mpl

    mpl.use("Agg")
    import io

    import matplotlib.pyplot as plt

    chosen = named.load(data)
    label = chosen.schema.targets[0]
    figure, boxes = plt.subplots(len(generators), len(SHOWN), figsize=(3 * len(SHOWN), 1.0 + 1.1 * len(generators)))
    for line, name in zip(np.atleast_2d(boxes), generators, strict=True):
        for box, epsilon in zip(line, SHOWN, strict=True):
            made = Synthesizer(name, schema=chosen.schema, budget=Budget(epsilon, DELTA[data]))
            frame = made.fit(chosen.train, seed=0).sample(400, seed=0)
            rows = [
                frame[frame[label] == value]["image"].head(20 // frame[label].nunique())
                for value in frame[label].cat.categories
            ]
            cells = [cell for row in rows for cell in row]
            box.imshow(plt.imread(io.BytesIO(sheet(cells, 10))), cmap="gray", interpolation="nearest")
            box.set_title(f"{name}, epsilon {epsilon:g}", fontsize=8)
            box.axis("off")
    figure.tight_layout()
    REPORTS.mkdir(exist_ok=True)
    figure.savefig(REPORTS / f"images_{data}.png", dpi=110)
    plt.close(figure)


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist", choices=sorted(DELTA))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, default=None)
    parser.add_argument("--only", nargs="*", default=None, help="generators to run (or real); default: all")
    parser.add_argument("--forget", nargs="*", default=(), help="generators whose kept trials are run anew")
    parser.add_argument("--picture", nargs="*", default=None, help="generators to draw pictures of, anew")
    arguments = parser.parse_args()
    scratch = arguments.scratch or HOME / "outputs" / f"images_{arguments.data}.json"
    data, delta = arguments.data, DELTA[arguments.data]
    groups = {("real training pictures", None): [Trial(data=data, label="real training pictures", generator=REAL)]}
    for label, generator, settings in GENERATORS:
        for epsilon in EPSILONS:
            about = {"generator": generator, "settings": settings, "epsilon": epsilon, "delta": delta}
            groups[label, epsilon] = alike(arguments.seeds, data=data, label=label, **about)
    trials.begin(scratch, f"images_{data}", groups)
    for generator in arguments.forget:
        print(trials.forget(generator, scratch), "trials forgotten")
    everything = [trial for group in groups.values() for trial in group]
    wanted = [trial for trial in everything if arguments.only is None or trial.generator in arguments.only]
    known = trials.kept(wanted, one, scratch)
    distances(data, everything, known)
    trials.save(known, scratch)
    if arguments.picture is not None:
        picture(data, arguments.picture)
    rows = trials.rows(groups, known, FIGURES, settings=True)
    result = {"data": data, "delta": delta, "models": list(MODELS), "rows": rows, "device": "cpu", **provenance()}
    write(f"images_{data}", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The table."""
    lines = [
        f"# {result['data']}: accuracy on real test pictures, trained on synthetic ones",
        "",
        f"delta {result['delta']:g}; mean ± standard deviation over seeds; classifiers of `synthdp evaluate`; FID on the "
        "evaluation's own CNN, trained on real training records (smaller is better; not comparable with Inception's).",
        "",
        "| generator | epsilon | logistic regression | MLP | CNN | FID | fit, CPU seconds | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        epsilon = "-" if row["epsilon"] is None else f"{row['epsilon']:g}"
        rest = [shown(row, "fit_cpu_seconds", 0), shown(row, "fit_peak_mib", 0)]
        lines.append("| " + " | ".join([row["generator"], epsilon, *judged(row), *rest]) + " |")
        if START + "cnn" in row:
            lines.append(
                "| "
                + " | ".join([f"its start alone ({row['generator']})", epsilon, *judged(row, START), "-", "-"])
                + " |"
            )
    commits = sorted({commit for row in result["rows"] for commit in row["commits"]})
    origin = f"Machine: {result['processor']}, {result['cores']} cores, no GPU; commits {', '.join(commits)}."
    chosen = (
        "Used in choosing: moving pictures to one place, slant and size before `classgauss` learns them was tried out on MNIST, "
        "its test pictures included. How many axes it keeps, from which size on pictures are moved, and when grey values are "
        "matched were chosen on usps, on digits and on made-up pictures."
    )
    alone = (
        "Its start alone: the class Gaussians that a network has bought with its part of the budget and then retouches, drawn without "
        "the network, of the same fits."
    )
    return "\n".join([*lines, "", alone, chosen, origin, ""])


def judged(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Accuracies in percent, and FID."""
    shares = {
        prefix + name: spread([100 * value for value in row[prefix + name]["values"]])
        for name in MODELS
        if prefix + name in row
    }
    return [*(shown({**row, **shares}, prefix + name, 1) for name in MODELS), shown(row, prefix + "fid", 2)]


if __name__ == "__main__":
    main()
