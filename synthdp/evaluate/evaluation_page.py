"""The internal page: evaluation.json, and evaluation.html (and .pdf) with every figure of it in words, plots and tables."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from synthdp import pages
from synthdp.errors import closed
from synthdp.evaluate import answers, figures, findings
from synthdp.evaluate.evaluation_plots import WORST_HEAT, calibration_plot, heat_map, marginal_plot, utility_plot
from synthdp.evaluate.fidelity import REST, UNKNOWN, clock, plain
from synthdp.evaluate.images.image_page import STAMP as IMAGE_STAMP
from synthdp.evaluate.images.image_page import asks as image_asks
from synthdp.evaluate.images.image_page import cloud, context
from synthdp.evaluate.scores import LOWER_IS_BETTER, METRIC_LABELS

# ---- The sections of the internal page on tables, each from its part of the result; a part that is absent makes none.


ORDER = ("auroc", "auprc", "accuracy", "f1", "brier", "ece", "r2", "rmse", "mae")
PLOTTED = ("auroc", "auprc", "r2")
FIDELITY = {
    "tvd_1way": ("Single columns (total variation distance)", "0"),
    "tvd_2way": ("Pairs of columns (total variation distance)", "0"),
    "tvd_3way": ("Triples with the target (total variation distance)", "0"),
    "wasserstein": ("Numeric columns (Wasserstein distance, as a fraction of the 5 to 95 % range)", "0"),
    "correlation_difference": ("Associations of pairs (mean absolute difference)", "0"),
    "pearson": ("Pearson correlations of numbers (mean absolute difference)", "0"),
    "spearman": ("Rank correlations of numbers (mean absolute difference)", "0"),
    "means": ("Means of numbers (mean absolute difference, in standard deviations)", "0"),
    "missingness": ("Patterns of missing values (total variation distance)", "0"),
    "range_queries": ("Random range queries (mean absolute error of a share)", "0"),
    "detection_auc": ("Detection of synthetic rows (AUROC)", "0.5"),
    "pmse": ("Propensity score (pMSE)", "as the floor"),
    "alpha_precision": ("Alpha-precision: synthetic rows inside the real support", "1"),
    "beta_recall": ("Beta-recall: real rows that synthetic ones cover", "1"),
}
PER_COLUMN = {
    "tvd_1way": "Total variation",
    "wasserstein": "Wasserstein",
    "missingness": "Missing: difference of shares",
}
GLOSSARY = {
    "auroc": "the chance that a model ranks a random positive row above a random negative one; 0.5 is guessing, 1 is perfect.",
    "auprc": "the average precision; guessing gives the share of the class.",
    "f1": "the harmonic mean of precision and recall.",
    "brier": "the mean squared error of the predicted probabilities; 0 is perfect.",
    "ece": "expected calibration error: the mean distance of predicted probabilities from observed shares.",
    "r2": "the share of a number's variance that a model explains; 0 is reached by always predicting the mean.",
    "rmse": "root mean squared error.",
    "mae": "mean absolute error.",
    "tvd_1way": "the share of rows that would have to move to another cell for the two distributions to be equal.",
    "wasserstein": "how far values would have to be moved on average, as a fraction of the real range from the 5th to the 95th percentile.",
    "correlation_difference": (
        "the measure is Spearman's rank correlation for two numbers, Cramer's V for two categories, and the correlation ratio for a "
        "category and a number."
    ),
    "detection_auc": "how well gradient boosting tells synthetic from real held-out rows.",
    "pmse": "the mean squared distance of a propensity score from the share of synthetic rows (Snoke et al. 2018).",
    "alpha_precision": (
        "for balls that contain a growing share of the real (for beta-recall: synthetic) rows, whether the other rows fall into them "
        "equally often (Alaa et al. 2022)."
    ),
}


def targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    about = result["about"]
    names = {"number": {**about["models"], **about.get("regressors", {})}}
    return [
        _target(f"target{i}", name, entry, names.get(entry["kind"], about["models"]))
        for i, (name, entry) in enumerate(result["targets"].items())
    ]


def _target(key: str, name: str, entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = metrics(entry)
    groups = figures.by_arm(entry, names, found)
    cells = [value for _, rows in groups for _, values in rows for value in values if value]
    calibration = entry.get("calibration")
    return {
        "name": name,
        "key": key,
        "entry": entry,
        "number": entry.get("kind") == "number",
        "metrics": [METRIC_LABELS[metric] + (" \u2193" if metric in LOWER_IS_BETTER else "") for metric in found],
        "arrows": bool(LOWER_IS_BETTER & set(found)),
        "intervals": any(value.get("interval") is not None for value in cells),
        "groups": groups,
        "plots": [
            utility_plot(entry, metric, METRIC_LABELS[metric], names, f"{key}-{metric}")
            for metric in PLOTTED
            if any(metric in scores for scores in entry["trtr"].values())
        ],
        "ranks": _ranks(entry["ranks"], names) if entry.get("ranks") else None,
        "calibration": calibration_plot(calibration, name, f"{key}-calibration") if calibration else None,
    }


def metrics(entry: Mapping[str, Any]) -> list[str]:
    """The metrics of a target in the page's order."""
    arms = [entry["tstr"], entry["trtr"], entry["floors"]["independent"]]
    constants = [scores for floor, scores in entry["floors"].items() if floor != "independent"]
    present = {metric for scores in [*(s for arm in arms for s in arm.values()), *constants] for metric in scores}
    return [metric for metric in ORDER if metric in present]


def _ranks(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    def model(key: str) -> str:
        return names.get(found[key], found[key])

    label = METRIC_LABELS[found["metric"]]
    same = found["best_synthetic"] == found["best_real"]
    choice = (
        f"Both rank {model('best_real')} first by {label}."
        if same
        else f"By {label}, synthetic rows rank {model('best_synthetic')} first, real rows {model('best_real')}."
    )
    text = (
        f"{choice} Kendall's tau compares the two orders of the models: 1 is the same order, 0 no relation, -1 the reverse. Regret "
        "is the score on real rows that is lost by choosing the model on synthetic rows."
    )
    labels = {"kendall": "Kendall\u2019s tau", "pairs": "pairs of models", "regret": f"regret ({label})"}
    figures = [
        {"label": text, "value": found[key], "interval": found.get(f"{key}_interval")}
        for key, text in labels.items()
        if found.get(key) is not None
    ]
    return {"text": text, "figures": figures}


def subgroups(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "title": f"{target} by {column}",
            "column": column,
            "metric": METRIC_LABELS[group["metric"]],
            "text": answers.group_text(target, column, group),
            "levels": [_level(level, group["worst"]) for level in group["levels"]],
        }
        for target, entry in result["targets"].items()
        for column, group in entry.get("subgroups", {}).items()
    ]


def _level(level: Mapping[str, Any], worst: str | None) -> dict[str, Any]:
    if "reason" in level:
        return {**level, "tstr": None, "trtr": None, "gap": None, "worst": False}
    by_chance = level.get("gap_interval") is not None and not findings.clear(level)
    return {**level, "reason": None, "gap": findings.gap_of(level), "worst": level["level"] == worst and not by_chance}


def fidelity(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per measure: {"label", "best", "value", "floor" or None, "worst" or None}."""
    rows = []
    for key, (label, best) in FIDELITY.items():
        entry = found.get(key)
        if entry is None:
            continue
        floor, worst = entry.get("floor"), entry.get("max")
        rows.append({"label": label, "best": best, "value": entry, "floor": floor, "worst": worst})
        if entry.get("ratio") is not None:
            label, floor = "pMSE as a multiple of its expectation by chance", (floor or {}).get("ratio")
            rows.append({"label": label, "best": best, "value": entry["ratio"], "floor": floor, "worst": None})
    return rows


def each_column(found: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any] | None:
    """{"labels", "rows": [(column, values, constant)]}, the furthest off first; None where no measure is per column. constant: whether
    synthetic rows have a single category where real ones have several; another table says so of numbers."""
    measures = {key: found[key]["columns"] for key in PER_COLUMN if found.get(key, {}).get("columns")}
    if not measures:
        return None
    first = next(iter(measures.values()))
    names = sorted({name for values in measures.values() for name in values}, key=lambda n: (-first.get(n, 0.0), n))
    rows = [
        (name, [values.get(name) for values in measures.values()], _one_category(columns.get(name))) for name in names
    ]
    return {"labels": [PER_COLUMN[key] for key in measures], "rows": rows}


def _one_category(column: Mapping[str, Any] | None) -> bool:
    if column is None or column["kind"] not in ("category", "ordinal") or max(column["train"]) == 1.0:
        return False
    return any(
        share == 1.0 and label not in (REST, UNKNOWN)
        for label, share in zip(column["labels"], column["synthetic"], strict=True)
    )


def numbers(found: Mapping[str, Any]) -> list[tuple[str, list[str], float, bool]]:
    """Column, quantiles and mean as "real / synthetic", the share of synthetic values outside the real range, and whether synthetic rows
    have a single value; such columns come first, then the largest shares."""
    rows = []
    for name, each in (found.get("numbers") or {}).items():
        said = partial(clock, form=each["time"]) if "time" in each else plain
        pairs = [f"{said(real)} / {said(made)}" for real, made in zip(each["real"], each["synthetic"], strict=True)]
        rows.append((name, pairs, each["beyond"], each["constant"]))
    return sorted(rows, key=lambda row: (not row[3], -row[2]))


def by_code(linked: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], list[tuple[Mapping[str, Any], list[str]]]]]:
    """Each number column below visits, and its codes with their quantiles as "real / synthetic", the farthest off first."""
    from synthdp.evaluate.numbers_by_code import QUANTILES, said

    few = ["too few"] * len(QUANTILES)

    def pairs(column: Mapping[str, Any], code: Mapping[str, Any]) -> list[str]:
        real, made = (said(column, code, which) or few for which in ("train", "synthetic"))
        return [" / ".join(pair) for pair in zip(real, made, strict=True)]

    return [
        (
            column,
            [
                (code, pairs(column, code))
                for code in sorted(column["codes"], key=lambda code: -(code["distance"] or 0))
            ],
        )
        for column in linked.get("numbers", ())
    ]


def glossary(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The terms that this page uses, with their meaning."""
    used = {metric for entry in result["targets"].values() for metric in metrics(entry)} | set(result["fidelity"])
    names = {
        "tvd_1way": "Total variation distance",
        "wasserstein": "Wasserstein distance",
        "correlation_difference": "Association",
        "detection_auc": "Detection",
        "pmse": "pMSE",
        "alpha_precision": "Alpha-precision and beta-recall",
    }
    names = {key: label for key, (label, _) in FIDELITY.items()} | METRIC_LABELS | names
    return [(names[key], meaning) for key, meaning in GLOSSARY.items() if key in used]


STAMP = "Internal: contains statistics of real records. Do not release"
HOME = Path(__file__).parent
# Beyond so many small multiples a page is not read; the columns that are furthest off are shown.
MOST_COLUMNS = 60
MOST_LOST = 10  # associations in a table; as many that are invented
# Two heat maps of more columns than this stand below each other, so that their names can be read.
SIDE_BY_SIDE = 24


def write(result: Mapping[str, Any], out: Path | str, *, pdf: bool = False) -> tuple[Path, ...]:
    """Write evaluation.json and evaluation.html into the folder out (made if need be); returns both paths.

    pdf: print the page to evaluation.pdf too, whose path comes third; it needs a browser of the Chromium family
    (`synthdp.pages.pdf`), and BadInput is raised before anything is written where there is none.

    The JSON is the result, "answers", what the page's first screen says, and, of tables, "associations", all that were "lost" and
    "invented". The page is one file: no network, one small
    script that sorts its tables. Each file appears whole or not at all.
    """
    whole = {**result, "answers": first_screen(result)}
    if result.get("kind") != "images":
        whole["associations"] = {
            kind: [{"pair": each.what, "real": each.real, "synthetic": each.synthetic} for each in found]
            for kind, found in _associations(result).items()
        }
    texts = {
        "evaluation.json": json.dumps(whole, indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        "evaluation.html": html(result),
    }
    return pages.write(Path(out), texts, "evaluation.html" if pdf else None)


def _associations(result: Mapping[str, Any]) -> dict[str, list[findings.Finding]]:
    parts = result["fidelity"], result.get("histories"), result.get("linked")
    return {"lost": findings.lost_associations(*parts), "invented": findings.invented_associations(*parts)}


def first_screen(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The two questions of a steward, "Can I use it?" and "Can I share it?", each {"question", "verdict", "bad", "good",
    "answers": [{"question", "verdict", "figures": [{"label", "value", "interval"?}], "text"}]}."""
    return [ask.to_json() for ask in _asks(result)]


def _asks(result: Mapping[str, Any]) -> list[answers.Ask]:
    return image_asks(result) if result.get("kind") == "images" else answers.asks(result)


def html(result: Mapping[str, Any]) -> str:
    """The page as text."""
    name = result["about"]["data"]
    if result.get("kind") == "images":
        default, template, stamp, found = "images", "images.html", IMAGE_STAMP, context(result)
    else:
        default, template, stamp, found = "data", "evaluation.html", STAMP, _context(result)
    filters = {each: getattr(figures, each) for each in ("figure", "small", "percent", "exact", "lacked")}
    filters |= {"closed": closed, "decides": findings.decides, "far_off": findings.far_off}
    if template == "images.html":
        filters["cloud"] = cloud
    environment = pages.environment(HOME / "templates", HOME / "images" / "templates", filters=filters)
    return environment.get_template(template).render(
        stamp=stamp,
        title=f"Evaluation of synthetic {f'{name} {default}' if name else default}",
        about=result["about"],
        overlapping=answers.overlapping(result),
        asks=_asks(result),
        not_computed=result["not_computed"],
        script=pages.SORT,
        policy=pages.policy(pages.SORT) + ("; img-src data:" if template == "images.html" else ""),
        svg=Markup,  # for our own plots only: texts in them are escaped where they are made
        **found,
    )


def _context(result: Mapping[str, Any]) -> dict[str, Any]:
    from synthdp.evaluate import evaluation_plots, history_plots

    found, attacks = result["fidelity"], result.get("attacks") or []
    leading = [attack for attack in attacks if attack["id"] not in findings.APPENDIX]
    shown = {
        "targets": targets(result),
        "subgroups": subgroups(result),
        "fidelity": fidelity(found),
        "code_levels": found.get("code_levels") or {},
        "rules": found.get("rules") or [],
        "histories": history_plots.part(result.get("histories") or {}),
        "linked": result.get("linked") or {},
        "by_code": by_code(result.get("linked") or {}),
        "attacks": leading,
        "appendix": [attack for attack in attacks if attack["id"] in findings.APPENDIX],
        "each_column": each_column(found, result.get("columns") or {}),
        "numbers": numbers(found),
        "calendar": found.get("calendar") or [],
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
        "attack_plot": evaluation_plots.attack_plot(leading),
        "sentence": answers.in_a_sentence(result),
        "associations": _associations(result),
        "most_lost": MOST_LOST,
        "manifold": evaluation_plots.manifold_plot(found) if lines else None,
        "columns": _columns(result),
        "wide": result["about"]["columns"] > SIDE_BY_SIDE,
        "most_columns": MOST_COLUMNS,
        "worst_heat": WORST_HEAT,
        "glossary": glossary(result),
    }


def _contents(shown: Mapping[str, Any], not_computed: list[Any]) -> list[tuple[str, str]]:
    labels = {
        "subgroups": ("subgroups", "Subgroups: for whom does it fail?"),
        "fidelity": ("fidelity", "Fidelity"),
        "code_levels": ("codes", "Codes by level"),
        "rules": ("rules", "Rules"),
        "histories": ("histories", "Histories: what follows what"),
        "linked": ("linked", "Linked tables: people, and what belongs to them"),
        "attacks": ("attacks", "Attacks: could someone be found?"),
        "each_column": ("columns", "Columns"),
        "heats": ("pairs", "Pairs of columns"),
        "appendix": ("appendix", "Appendix: distances to the closest records"),
    }
    first = [(target["key"], f"Utility: predicting {target['name']}") for target in shown["targets"]]
    middle = [place for key, place in labels.items() if shown[key]]
    last = [("not-computed", "What was not computed, and why")] if not_computed else []
    return [*first, *middle, *last, ("about", "About this page")]


def _columns(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = result.get("columns", {})
    distances = result["fidelity"].get("tvd_1way", {}).get("columns", {})
    worst_first = sorted(columns, key=lambda name: -distances[name])[:MOST_COLUMNS]
    return [
        {"name": name, "distance": distances[name], "plot": marginal_plot(name, columns[name], f"column{i}")}
        for i, name in enumerate(worst_first)
    ]


def _heats(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    result = []
    if "tvd_2way" in found:
        entry, label = found["tvd_2way"], "Total variation distance of pairs"
        note = (
            "Strongly coloured cells are pairs whose joint distribution the synthetic rows miss. 0 is best, 1 is worst."
        )
        result.append((label, note, heat_map(entry["names"], entry["matrix"], label, "pairs-plot", signed=False)))
    if "correlation_difference" in found:
        entry, label = found["correlation_difference"], "Associations that were lost, or are not there in the records"
        note = "Amber: weaker than among real rows, or of the other sign. Violet: stronger than among real rows."
        change = np.vectorize(figures.kept)(np.array(entry["train"]), np.array(entry["synthetic"])).tolist()
        result.append((label, note, heat_map(entry["names"], change, label, "associations", signed=True)))
    return result
