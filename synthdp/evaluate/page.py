"""The internal page: evaluation.json, and evaluation.html with every figure of it in words, plots and tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.evaluate.scores import METRIC_LABELS, METRICS
from synthdp.evaluate.words import faithful, useful

if TYPE_CHECKING:
    from collections.abc import Mapping

STAMP = "Internal: contains statistics of real records. Do not release."
PLOTTED = ("auroc", "auprc")
# Beyond so many small multiples a page is not read; the columns that are furthest off are shown.
MOST_COLUMNS = 60
# Two heat maps of more columns than this stand below each other, so that their names can be read.
SIDE_BY_SIDE = 24
FIDELITY = {
    "tvd_1way": "Single columns (total variation distance)",
    "tvd_2way": "Pairs of columns (total variation distance)",
    "tvd_3way": "Triples with the target (total variation distance)",
    "correlation_difference": "Associations of pairs (mean absolute difference)",
    "detection_auc": "Detection of synthetic rows (AUROC, 0.5 is best)",
}


def write(result: Mapping[str, Any], out: Path | str, *, title: str | None = None) -> tuple[Path, Path]:
    """Write evaluation.json and evaluation.html into the folder out (made if need be); returns both paths.

    The page is one file: no script, no network. Each file appears whole or not at all.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        folder / "evaluation.json": json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        folder / "evaluation.html": html(result, title=title),
    }
    for path, text in texts.items():
        draft = path.with_name(f".{path.name}.part")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    data, page = texts
    return data, page


def html(result: Mapping[str, Any], *, title: str | None = None) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from synthdp.evaluate.plots import WORST_HEAT

    home = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader([home / "templates", home / "images" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = lambda value: figure(value)
    name = result["about"]["data"]
    if result.get("kind") == "images":
        from synthdp.evaluate.images.page import STAMP as IMAGE_STAMP
        from synthdp.evaluate.images.page import cloud, context

        environment.filters["cloud"] = cloud
        return environment.get_template("images.html").render(
            stamp=IMAGE_STAMP,
            title=title or (f"Evaluation of synthetic {name} images" if name else "Evaluation of synthetic images"),
            svg=Markup,
            **context(result),
        )
    return environment.get_template("evaluation.html").render(
        stamp=STAMP,
        title=title or (f"Evaluation of synthetic {name} data" if name else "Evaluation of synthetic data"),
        about=result["about"],
        useful=[useful(target, entry) for target, entry in result["targets"].items()],
        faithful=faithful(result["fidelity"]),
        targets=[_target(place, name, entry, result) for place, (name, entry) in enumerate(result["targets"].items())],
        fidelity=_fidelity(result["fidelity"]),
        columns=_columns(result),
        heats=_heats(result["fidelity"]),
        wide=result["about"]["columns"] > SIDE_BY_SIDE,
        most_columns=MOST_COLUMNS,
        worst_heat=WORST_HEAT,
        metrics=[METRIC_LABELS[metric] for metric in METRICS],
        not_computed=result["not_computed"],
        svg=Markup,  # for our own plots only: texts in them are escaped where they are made
    )


def figure(value: Mapping[str, Any] | None) -> str:
    """A summary as the tables print it: mean, and the spread where there is one."""
    if value is None:
        return "not computed"
    if value.get("n", 1) < 2 or "values" not in value:
        return f"{value['mean']:.3f}"
    return f"{value['mean']:.3f} \u00b1 {value['sd']:.3f}"


def _target(place: int, name: str, entry: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    from synthdp.evaluate.plots import utility_plot

    names = result["about"]["models"]
    arms = (
        ("Trained on real rows (ceiling)", entry["trtr"], "trtr"),
        ("Trained on synthetic rows", entry["tstr"], "tstr"),
        ("Floor: columns without relations", entry["floors"]["independent"], "independent"),
    )
    groups = []
    for label, arm, key in arms:
        rows = [(names[model], [scores.get(metric) for metric in METRICS]) for model, scores in arm.items()]
        if key in entry["average"]:
            rows.append(("Mean of these", [entry["average"][key].get(metric) for metric in METRICS]))
        groups.append((label, rows))
    constant = [entry["floors"]["majority"].get(metric) for metric in METRICS]
    groups.append(("Floor: always the majority class", [("No model", constant)]))
    plots = [
        utility_plot(dict(entry), metric, METRIC_LABELS[metric], names, f"target{place}-{metric}")
        for metric in PLOTTED
        if any(metric in scores for scores in entry["trtr"].values())
    ]
    return {"name": name, "entry": entry, "groups": [group for group in groups if group[1]], "plots": plots}


def _fidelity(found: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], str]]:
    return [
        (label, found[key], f"{found[key]['max']:.3f}" if "max" in found[key] else "")
        for key, label in FIDELITY.items()
        if key in found
    ]


def _columns(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    from synthdp.evaluate.plots import marginal_plot

    columns = result.get("columns", {})
    distances = result["fidelity"].get("tvd_1way", {}).get("columns", {})
    worst_first = sorted(columns, key=lambda name: -distances[name])[:MOST_COLUMNS]
    return [
        {"name": name, "distance": distances[name], "plot": marginal_plot(name, columns[name], f"column{i}")}
        for i, name in enumerate(worst_first)
    ]


def _heats(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    import numpy as np

    from synthdp.evaluate.plots import heat_map

    result = []
    if "tvd_2way" in found:
        entry, label = found["tvd_2way"], "Total variation distance of pairs"
        note = "Strong cells are pairs whose joint distribution the synthetic rows miss. 0 is best, 1 is worst."
        result.append((label, note, heat_map(entry["names"], entry["matrix"], label, "pairs", signed=False)))
    if "correlation_difference" in found:
        entry, label = found["correlation_difference"], "Association, synthetic minus real"
        note = "Amber: weaker or more negative in the synthetic rows. Teal: stronger or more positive."
        change = (np.array(entry["synthetic"]) - np.array(entry["train"])).tolist()
        result.append((label, note, heat_map(entry["names"], change, label, "associations", signed=True)))
    return result
