"""The internal page on images: every figure of evaluation.json in words, plots, tables and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from synthdp.errors import closed
from synthdp.evaluate import evaluation_plots, figures
from synthdp.evaluate.answers import Answer, Ask, shareable
from synthdp.evaluate.findings import NOT_COMPUTED, UNTOLD, Verdict, graded
from synthdp.evaluate.images.image_utility import METRIC_LABELS, METRICS

# ---- Figures of the page on images, drawn in the manner of the tables' page.


MOST_CLASSES = 20


def share_plot(name: str, labels: Sequence[str], real: Sequence[float], made: Sequence[float], key: str) -> str:
    """Bars per class in the schema's order, at most 20: real training records above synthetic ones."""
    shown = slice(MOST_CLASSES)
    with evaluation_plots.plotted((3.6, 0.7 + 0.24 * max(len(labels[shown]), 4)), key) as (figure, element):
        evaluation_plots.bars(figure.add_subplot(), labels[shown], real[shown], made[shown])
    alt = f"{closed(f'Shares of the classes of {name}')} {evaluation_plots.largest_difference(labels, real, made, 'records')}"
    return element(alt)


def intensity_plot(real: Sequence[float], made: Sequence[float]) -> str:
    """Shares of grey levels, both roots taken, since most medical pictures are mostly black."""
    edges = np.linspace(0, 256, len(real) + 1)
    with evaluation_plots.plotted((3.6, 2.2), "intensities") as (figure, element):
        axes = figure.add_subplot()
        axes.stairs(np.sqrt(real), edges, fill=True, color=evaluation_plots.REAL, alpha=0.55)
        axes.stairs(np.sqrt(made), edges, color=evaluation_plots.SYNTHETIC, linewidth=1.6)
        top = max(*real, *made)
        marks = [mark for mark in (0.01, 0.1, 0.3, 0.6, 1.0) if mark <= top * 1.2] or [top]
        axes.set_yticks(np.sqrt([0.0, *marks]), ["0 %", *(f"{100 * mark:.3g} %" for mark in marks)])
        axes.set_ylim(0, np.sqrt(top * 1.1))
        axes.set(xlim=(0, 256), xlabel="pixel value (0 black, 255 white)")
        axes.set_xticks([0, 64, 128, 192, 255])
    levels = [f"values from {low:.0f} to {high - 1:.0f}" for low, high in pairwise(edges)]
    alt = f"Shares of pixel values. {evaluation_plots.largest_difference(levels, real, made, 'pixels')}"
    return element(alt)


def nearness_plot(found: Mapping[str, Any], label: str, key: str) -> str:
    """Quantiles of the distance to the nearest training record: a box from 25 to 75 %, a line from 5 to 95 %."""
    rows = (
        ("real held-out", found["test"], evaluation_plots.REAL),
        ("synthetic", found["synthetic"], evaluation_plots.SYNTHETIC),
    )
    with evaluation_plots.plotted((4.6, 1.5), key) as (figure, element):
        axes = figure.add_subplot()
        for place, (_, entry, colour) in enumerate(rows):
            q = entry["quantiles"]
            axes.hlines(place, q["0.05"], q["0.95"], color=colour, linewidth=2)
            axes.barh(place, q["0.75"] - q["0.25"], left=q["0.25"], height=0.44, color=colour, alpha=0.8)
            axes.vlines(q["0.5"], place - 0.22, place + 0.22, color=evaluation_plots.INK, linewidth=1.2)
        axes.set_yticks(range(2), [name for name, _, _ in rows])
        axes.set(ylim=(1.5, -0.5), xlabel=label)
        axes.set_xlim(left=0)
        axes.tick_params(axis="y", length=0)
    medians = ", ".join(f"{name} {entry['quantiles']['0.5']:.3g}" for name, entry, _ in rows)
    return element(f"{label}; medians: {medians}.")


STAMP = "Internal: shows real pictures and contains statistics of real records. Do not release"
PLOTTED = ("accuracy", "balanced_accuracy")
PAGE = "This page must not be shared: it shows real pictures and exact statistics of real records."
COPIED, NEARER = Verdict("Training records are copied"), Verdict("Nearer to training than to held-out records")
FIDELITY = {
    "fid": "Fréchet distance, FID (0 is best)",
    "kid": "Kernel distance, KID (0 is best; ± is the standard deviation over subsets)",
    "precision": "Precision: synthetic pictures that lie among the real ones",
    "recall": "Recall: real pictures that lie among the synthetic ones",
    "density": "Density: how deep synthetic pictures lie among the real ones (1 for equal sets)",
    "coverage": "Coverage: real pictures with a synthetic one near them",
    "tvd_1way": "Classes and other columns (total variation distance)",
    "tvd_2way": "Pairs of columns beside the image (total variation distance)",
    "tvd_3way": "Triples of columns with the target (total variation distance)",
    "intensities": "Pixel values in 32 bins (total variation distance)",
    "mean_pictures": "Mean pictures of the classes (root mean square, 0 to 1)",
}
SPACES = {"pixels": "distance in pixels (Euclidean, values 0 to 255)", "features": "distance in features (Euclidean)"}


def context(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the template `images.html` needs besides stamp, title and filters."""
    found, names, attacks = result["fidelity"], result["about"]["models"], result.get("attacks") or []
    return {
        "contents": _contents(result),
        "targets": [_target(i, name, entry, names) for i, (name, entry) in enumerate(result["targets"].items())],
        "metrics": [METRIC_LABELS[metric] for metric in METRICS],
        "fidelity": [(label, found[key]) for key, label in FIDELITY.items() if key in found],
        "features": found.get("features"),
        "cloud_rows": {key: found[key]["rows"] for key in ("fid", "kid", "coverage") if key in found},
        "shares": _shares(result),
        "columns": [
            (name, found["tvd_1way"]["columns"][name], evaluation_plots.marginal_plot(name, entry, f"column{i}"))
            for i, (name, entry) in enumerate(result["columns"].items())
        ],
        "neighbours": result["neighbours"],
        "nearness": [
            nearness_plot(result["neighbours"][space], label, f"near-{space}")
            for space, label in SPACES.items()
            if space in result["neighbours"]
        ],
        "pictures": result["pictures"],
        "attacks": attacks,
        "attack_plot": evaluation_plots.attack_plot(attacks),
        "claim": result["about"].get("claim"),
    }


def asks(result: Mapping[str, Any]) -> list[Ask]:
    """The two questions of a steward with their answers. Attacks and nearest neighbours together: the worse of the two leads."""
    names = result["about"]["models"]
    uses = [useful(target, entry, names) for target, entry in result["targets"].items()]
    answers, beside, share = [*uses, faithful(result["fidelity"])], near(result["neighbours"]), shareable(result)
    if not share.bad and beside.verdict in (COPIED, NEARER):
        verdict = Verdict("Not before you understand the nearest pictures below")
        share = replace(share, verdict=verdict, bad=True, good=False)
    found, page = share.answers
    return [
        Ask("Can I use it?", answers[0].verdict, bad=False, good=None, answers=answers),
        replace(share, answers=[found, beside, replace(page, text=PAGE)]),
    ]


def _items(**figures: float) -> list[dict[str, Any]]:
    return [{"label": label, "value": value} for label, value in figures.items()]


def _contents(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Anchors and headings of the sections that the page has."""
    parts = (
        ("pictures", "Pictures", result["pictures"].get("classes")),
        *((f"target{i}", f"Utility: predicting {name}", True) for i, name in enumerate(result["targets"])),
        ("fidelity", "Fidelity", result["fidelity"]),
        ("shares", "Shares of classes and pixel values", _shares(result)),
        ("neighbours", "Nearest training records", result["neighbours"]),
        ("attacks", "Attacks: could someone be found?", result.get("attacks")),
        ("not-computed", "What was not computed, and why", result["not_computed"]),
        ("about", "About this page", True),
    )
    return [(anchor, label) for anchor, label, shown in parts if shown]


def _target(place: int, name: str, entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "key": f"target{place}",
        "entry": entry,
        "groups": figures.by_arm(entry, names, METRICS, "pictures"),
        "plots": [
            evaluation_plots.utility_plot(
                entry, metric, METRIC_LABELS[metric], names, f"target{place}-{metric}", records="pictures"
            )
            for metric in PLOTTED
        ],
        "recall": _recall(entry, names),
    }


def _recall(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Per class (at most 20, the worst under synthetic training first where there are more) the recall of every model
    and arm: {"models", "rows": [(class, [real, synthetic, real, ...])], "all": number of classes}."""
    models = list(entry["trtr"])
    classes = [name for name in entry["classes"] if name in entry["floors"]["majority"]["recall"]]

    def cell(arm: str, model: str, name: str) -> Any:
        return entry[arm].get(model, {}).get("recall", {}).get(name)

    def worst(name: str) -> float:
        return min((cell("tstr", m, name)["mean"] for m in models if cell("tstr", m, name)), default=0.0)

    shown = sorted(classes, key=worst)[:MOST_CLASSES] if len(classes) > MOST_CLASSES else classes
    rows = [(name, [cell(arm, model, name) for model in models for arm in ("trtr", "tstr")]) for name in shown]
    return {"models": [names[model] for model in models], "rows": rows, "all": len(classes)}


def _shares(result: Mapping[str, Any]) -> list[tuple[str, float, str]]:
    found = [
        (
            name,
            entry["mean"],
            share_plot(name, entry["labels"], entry["train"], entry["synthetic"], f"share{i}"),
        )
        for i, (name, entry) in enumerate(result["shares"].items())
    ]
    if "intensities" in result["fidelity"]:
        entry = result["fidelity"]["intensities"]
        plot = intensity_plot(entry["train"], entry["synthetic"])
        found.append(("Pixel values", entry["mean"], plot))
    return found


def cloud(entry: Mapping[str, Any]) -> str:
    """A measure of two sets as the table prints it: with the spread over subsets where it has one."""
    return (
        f"{entry['mean']:.3f} \u00b1 {entry['sd']:.3f}"
        if "sd" in entry and "n" not in entry
        else f"{entry['mean']:.3f}"
    )


# ---- What the figures say, in a sentence or two each: the first screen, and what a terminal shows.


# A ceiling closer to the majority class than this says nothing about the synthetic pictures.
LEAST_SIGNAL = 0.02
GRADES = (  # the least share that synthetic pictures keep of what real ones offer, and the verdict
    (0.98, Verdict("Nearly as useful as real pictures", good=True)),
    (0.9, Verdict("Useful, with a visible loss", good=True)),
    (0.6, Verdict("Partly useful: {lost} % of the signal is lost", bad=True)),
    (0.1, Verdict("Hardly useful", bad=True)),
    (float("-inf"), Verdict("Not useful: hardly better than always predicting the majority class", bad=True)),
)
STANDARD_ERRORS = 3.0  # from 0.5: beyond, the share of pictures that are nearer to training records is no accident


def useful(target: str, entry: Mapping[str, Any], names: Mapping[str, str]) -> Answer:
    """By balanced accuracy of the best model on real records (the CNN, as a rule), which a rare class cannot flatter."""
    question = f"Is it useful for predicting {target}?"
    metric = "balanced_accuracy"
    shared = [model for model in entry["trtr"] if model in entry["tstr"]]
    if not shared:
        return Answer(question, NOT_COMPUTED)
    best = max(shared, key=lambda model: entry["trtr"][model][metric]["mean"])
    made, ceiling = (entry[arm][best][metric]["mean"] for arm in ("tstr", "trtr"))
    floor = entry["floors"]["majority"][metric]["mean"]
    figures = _items(synthetic=made, real=ceiling, **{"majority class": floor})
    text = (
        f"The {_inside(names[best])}, the best model here on real records, reaches a balanced accuracy of {made:.3f} on real held-out "
        f"pictures when trained on synthetic ones, and {ceiling:.3f} when trained on real ones (the ceiling)."
    )
    if ceiling - floor < LEAST_SIGNAL:
        text += " Real pictures hardly predict this label either, so it does not test the synthetic ones."
        return Answer(question, UNTOLD, text, figures)
    kept = (made - floor) / (ceiling - floor)
    text += f" That keeps {100 * max(kept, 0):.0f} % of what real pictures offer above the majority class."
    return Answer(question, graded(kept, GRADES), text, figures)


def faithful(found: Mapping[str, Any]) -> Answer:
    """The same on how far the synthetic pictures cover the real ones, and lie among them."""
    question = "Do they look like the real ones?"
    if "fid" not in found and "coverage" not in found:
        return Answer(question, NOT_COMPUTED)
    figures, parts, verdict = [], [], Verdict("See the figures below")
    if "fid" in found:
        figures += _items(**{"FID (features below)": found["fid"]["mean"]})
        parts.append(
            f"The Fréchet distance to the real training pictures is {found['fid']['mean']:.2f}; real held-out pictures "
            f"are {found['fid']['floor']['mean']:.2f} away (the floor)."
        )
    if "coverage" in found:
        inside, covered = found["precision"], found["coverage"]
        figures += _items(precision=inside["mean"], coverage=covered["mean"])
        parts.append(
            f"{100 * inside['mean']:.0f} % of the synthetic pictures lie among the real ones "
            f"({100 * inside['floor']['mean']:.0f} % of held-out real pictures do), and "
            f"{100 * covered['mean']:.0f} % of the real ones have a synthetic picture near them "
            f"({100 * covered['floor']['mean']:.0f} %)."
        )
        verdict = _closeness(
            inside["mean"] / max(inside["floor"]["mean"], 1e-9), covered["mean"] / max(covered["floor"]["mean"], 1e-9)
        )
    return Answer(question, verdict, " ".join(parts), figures)


def _closeness(inside: float, covered: float) -> Verdict:
    """inside, covered: precision and coverage as parts of what held-out real pictures reach."""
    if min(inside, covered) >= 0.95:
        return Verdict("As close as real pictures are to each other", good=True)
    if min(inside, covered) >= 0.75:
        return Verdict("Close to the real pictures", good=True)
    if inside >= 0.75:
        return Verdict("Plausible, but part of the variety is missing")
    if min(inside, covered) >= 0.3:
        return Verdict("Recognisable, with visible differences", bad=True)
    return Verdict("Far from the real pictures", bad=True)


def near(found: Mapping[str, Any]) -> Answer:
    """The same on nearness to the training records."""
    question = "Do they lie too near the training records?"
    if "pixels" not in found:
        return Answer(question, NOT_COMPUTED)
    share = found["pixels"]["closer_to_train"]
    copied, rows = found["copies"]["synthetic"], found["pixels"]["rows"]
    figures = _items(**{"nearer to training": share["mean"]})
    text = (
        f"{100 * share['mean']:.0f} % of {rows['synthetic']:,} synthetic pictures are nearer to a training record than to a "
        f"held-out one (without copying, 50 % would be; ± {100 * share['standard_error']:.1f} % is one standard error). Exact "
        f"copies of training records: {copied:,} (among held-out real pictures: {found['copies']['test']:,}). This is an "
        "inspection, not a proof: the guarantee is in the statement of the release."
    )
    if copied > found["copies"]["test"]:
        return Answer(question, COPIED, text, figures)
    if share["mean"] - 0.5 > STANDARD_ERRORS * max(share["standard_error"], 1e-9):
        # Real MNIST digits of the training writers are at 0.57: its test writers are others.
        text += " More than 50 % is a sign of copying, or of training and held-out records that come from different populations."
        return Answer(question, NEARER, text, figures)
    return Answer(question, Verdict("No nearer than chance"), text, figures)


def headline(result: Mapping[str, Any]) -> list[str]:
    """The figures that matter, a line each, for the command line: utility beside its ceiling, likeness beside its floor."""
    names, found, lines = result["about"]["models"], result["fidelity"], []
    for target, entry in result["targets"].items():
        floor = entry["floors"]["majority"]["accuracy"]["mean"]
        for model, scores in entry["tstr"].items():
            made, ceiling = scores["accuracy"]["mean"], entry["trtr"][model]["accuracy"]["mean"]
            lines.append(
                f"accuracy            {made:.3f} on {target}, {_inside(names[model])}, trained on synthetic pictures; "
                f"on real ones {ceiling:.3f}; majority class {floor:.3f}"
            )
    lines += [
        f"not computed        {figures.lacked(item['metric'])}: {item['reason']}" for item in result["not_computed"]
    ]
    if "fid" in found:
        lines.append(
            f"FID                 {found['fid']['mean']:.2f}; real held-out pictures {found['fid']['floor']['mean']:.2f} "
            "(on features learned here, not Inception's)"
        )
    copied = result["neighbours"].get("copies", {}).get("synthetic", 0)
    if copied:
        lines.append(f"copies              {copied} synthetic pictures equal a training record")
    if result.get("attacks"):
        lines.append(f"attacks             {shareable(result).answers[0].verdict.words}")
    return lines


def _inside(name: str) -> str:
    """A model's name inside a sentence."""
    return name if name.isupper() else name.lower()
