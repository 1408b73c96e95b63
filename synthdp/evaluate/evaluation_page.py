"""The internal page: evaluation.json, and evaluation.html (and .pdf) with every figure of it in words, plots and tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.evaluate import figures
from synthdp.pages import SORT, policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

STAMP = "Internal: contains statistics of real records: do not release"
HOME = Path(__file__).parent
# Beyond so many small multiples a page is not read; the columns that are furthest off are shown.
MOST_COLUMNS = 60
# Two heat maps of more columns than this stand below each other, so that their names can be read.
SIDE_BY_SIDE = 24


def write(
    result: Mapping[str, Any], out: Path | str, *, title: str | None = None, pdf: bool = False
) -> tuple[Path, ...]:
    """Write evaluation.json and evaluation.html into the folder out (made if need be); returns both paths.

    pdf: print the page to evaluation.pdf too, whose path comes third; it needs a browser of the Chromium family
    (`synthdp.pages.pdf`), and BadInput is raised before anything is written where there is none.

    The JSON is the result and "answers", what the page's first screen says. The page is one file: no network, one small
    script that sorts its tables. Each file appears whole or not at all.
    """
    if pdf:
        from synthdp.pages.pdf import check

        check()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    whole = {**result, "answers": answers(result)}
    texts = {
        folder / "evaluation.json": json.dumps(whole, indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        folder / "evaluation.html": html(result, title=title),
    }
    for path, text in texts.items():
        draft = path.with_name(f".{path.name}.part")
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    if pdf:
        from synthdp.pages.pdf import write_pdf

        return (*texts, write_pdf(texts[folder / "evaluation.html"], folder / "evaluation.pdf"))
    return tuple(texts)


def answers(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the first screen says: the questions, verdicts, figures and sentences of `words.asks`."""
    if result.get("kind") == "images":
        from synthdp.evaluate.images.image_page import asks as image_asks

        return image_asks(result)
    from synthdp.evaluate.findings import asks

    return asks(result)


def html(result: Mapping[str, Any], *, title: str | None = None) -> str:
    """The page as text; also of a result of schema_version 1, whose page lacks what it lacks."""
    from markupsafe import Markup

    name = result["about"]["data"]
    if result.get("kind") == "images":
        from synthdp.evaluate.images.image_page import STAMP as IMAGE_STAMP
        from synthdp.evaluate.images.image_page import cloud, context

        default, template, stamp, found = "images", "images.html", IMAGE_STAMP, context(result)
    else:
        default, template, stamp, found = "data", "evaluation.html", STAMP, _context(result)
    environment = _environment()
    if template == "images.html":
        environment.filters["cloud"] = cloud
    return environment.get_template(template).render(
        stamp=stamp,
        title=title or f"Evaluation of synthetic {f'{name} {default}' if name else default}",
        about=result["about"],
        asks=answers(result),
        not_computed=result["not_computed"],
        script=SORT,
        policy=policy(SORT) + ("; img-src data:" if template == "images.html" else ""),
        svg=Markup,  # for our own plots only: texts in them are escaped where they are made
        **found,
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([HOME / "templates", HOME / "images" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(figures, name) for name in ("figure", "small", "percent", "exact")}
    return environment


def _context(result: Mapping[str, Any]) -> dict[str, Any]:
    from synthdp.evaluate import curves, sections
    from synthdp.evaluate.evaluation_plots import WORST_HEAT

    found, attacks = result["fidelity"], result.get("attacks") or []
    shown = {
        "targets": sections.targets(result),
        "subgroups": sections.subgroups(result),
        "fidelity": sections.fidelity(found),
        "rules": found.get("rules") or [],
        "attacks": attacks,
        "each_column": sections.each_column(found),
        "heats": _heats(found),
    }
    lines = any(found.get(name, {}).get("curve") for name in ("alpha_precision", "beta_recall"))
    return {
        **shown,
        "contents": _contents(shown, result["not_computed"]),
        "claim": result["about"].get("claim"),
        "worst_query": found.get("range_queries", {}).get("worst"),
        "notes": [
            (result["about"]["models"].get(model, model), note)
            for model, note in result["about"].get("limits", {}).items()
            if note
        ],
        "attack_plot": curves.attack_plot(attacks, "attacks-plot"),
        "manifold": curves.manifold_plot(found, "manifold") if lines else None,
        "columns": _columns(result),
        "wide": result["about"]["columns"] > SIDE_BY_SIDE,
        "most_columns": MOST_COLUMNS,
        "worst_heat": WORST_HEAT,
        "glossary": sections.glossary(result),
    }


def _contents(shown: Mapping[str, Any], not_computed: list[Any]) -> list[tuple[str, str]]:
    labels = {
        "subgroups": ("subgroups", "Subgroups: for whom does it fail?"),
        "fidelity": ("fidelity", "Fidelity"),
        "rules": ("rules", "Rules"),
        "attacks": ("attacks", "Attacks: could someone be found?"),
        "each_column": ("columns", "Columns"),
        "heats": ("pairs", "Pairs of columns"),
    }
    first = [(target["key"], f"Utility: predicting {target['name']}") for target in shown["targets"]]
    middle = [place for key, place in labels.items() if shown[key]]
    last = [("not-computed", "What was not computed, and why")] if not_computed else []
    return [*first, *middle, *last, ("about", "About this page")]


def _columns(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    from synthdp.evaluate.evaluation_plots import marginal_plot

    columns = result.get("columns", {})
    distances = result["fidelity"].get("tvd_1way", {}).get("columns", {})
    worst_first = sorted(columns, key=lambda name: -distances[name])[:MOST_COLUMNS]
    return [
        {"name": name, "distance": distances[name], "plot": marginal_plot(name, columns[name], f"column{i}")}
        for i, name in enumerate(worst_first)
    ]


def _heats(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    import numpy as np

    from synthdp.evaluate.evaluation_plots import heat_map

    result = []
    if "tvd_2way" in found:
        entry, label = found["tvd_2way"], "Total variation distance of pairs"
        note = "Strong cells are pairs whose joint distribution the synthetic rows miss. 0 is best, 1 is worst."
        result.append((label, note, heat_map(entry["names"], entry["matrix"], label, "pairs-plot", signed=False)))
    if "correlation_difference" in found:
        entry, label = found["correlation_difference"], "Association, synthetic minus real"
        note = "Amber: weaker or more negative in the synthetic rows. Teal: stronger or more positive."
        change = (np.array(entry["synthetic"]) - np.array(entry["train"])).tolist()
        result.append((label, note, heat_map(entry["names"], change, label, "associations", signed=True)))
    return result
