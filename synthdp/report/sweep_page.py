"""compare.json, compare.html and compare.svg: a comparison for machines, for people, and as a figure alone."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synthdp import pages
from synthdp.report import plots, words
from synthdp.report.statement import plain
from synthdp.report.sweep import LABELS, STAMP, settings, verdict

TEMPLATES = Path(__file__).parent / "templates"
ABOUT = 6  # columns that say what a release is
MOST_COLUMNS = 10  # of a table, so that none is cut at 1,280 pixels
OVER = {
    "runs": (
        "Where a point has several releases, the interval is Student's t over them: it reflects the noise of the fits, but not the "
        "sampling error of the held-out rows."
    ),
    "evaluation": (
        "Where a point has one release, the interval comes from its evaluation: it reflects the held-out rows, the synthetic samples and "
        "the seeds of the models, but not the noise of the fit."
    ),
    "seeds": (
        "Where a point has one release, the interval is Student's t over the seeds of the models: it reflects neither the noise of the "
        "fit nor the sampling error of the held-out rows."
    ),
}


def write(found: Mapping[str, Any], out: Path) -> None:
    """Write the three files of `sweep.comparison` into the folder `out`, each whole or not at all; older ones are replaced."""
    texts = {
        "compare.json": json.dumps(plain(found), indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        "compare.html": html(found),
    }
    if found["panels"]:
        texts["compare.svg"] = plots.together(found["panels"])
    else:
        (out / "compare.svg").unlink(missing_ok=True)
    pages.write(out, texts)


def html(found: Mapping[str, Any]) -> str:
    """The page as text: one file, nothing is loaded. Names are other people's words, so everything is escaped."""
    from markupsafe import Markup

    environment = pages.environment(
        TEMPLATES, filters={"number": words.number, "between": between, "sortable": sortable}
    )
    panels = [
        {**panel, "plot": Markup(plots.panel(panel, f"panel{place}"))}  # noqa: S704 - plots.py escapes what it is given
        for place, panel in enumerate(found["panels"])
    ]
    kinds = {point["over"] for panel in found["panels"] for line in panel["lines"] for point in line["points"]}
    return environment.get_template("compare.html.j2").render(
        title="Privacy and utility of a sweep",
        stamp=STAMP,
        policy=pages.policy(pages.SORT),
        sort=Markup(pages.SORT),  # noqa: S704 - our own script
        about=found["about"],
        stopped=found["stopped"],
        answers=[*answers(found)],
        panels=panels,
        over=" ".join(text for kind, text in OVER.items() if kind in kinds),
        runs=found["runs"],
        tables=_parts(columns(found)),
        not_compared=found["not_compared"],
        not_computed=_not_computed(found["runs"]),
    )


def answers(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first screen: what serves best, and what the sweep cost."""
    told = [best(panel) for panel in found["panels"] if panel["id"].startswith("utility-")]
    spent = found["cost"]
    bad = spent["epsilon"] is None or math.isinf(spent["epsilon"])
    cost = {"question": "What did the whole sweep cost?", "verdict": verdict(spent), "text": spent["words"], "bad": bad}
    return [*told, cost]


def best(panel: Mapping[str, Any]) -> dict[str, Any]:
    """Which generator leads at each epsilon, and whether the intervals tell it from the next."""
    at: dict[float, list[tuple[float, str, Any]]] = {}
    for line in panel["lines"]:
        for point in line["points"]:
            at.setdefault(point["epsilon"], []).append((point["mean"], line["label"], point["interval"]))
    leaders, parts, doubts = [], [], list[bool]()
    for epsilon, ranked in sorted(at.items()):
        ranked.sort(key=lambda entry: entry[:2], reverse=True)
        mean, name, interval = ranked[0]
        leaders.append(name)
        close = [other for value, other, own in ranked[1:] if not _apart(mean, interval, value, own)]
        doubts.append(bool(close))
        over = ", ".join([*close[:-2], " and ".join(close[-2:])])
        doubt = f" (its lead over {over} may be chance)" if close else ""
        parts.append(f"at epsilon {words.number(epsilon)}, {name} with {mean:.3f}{doubt}")
    ceiling = next((entry["mean"] for entry in panel["references"] if entry["kind"] == "ceiling"), None)
    real = "" if ceiling is None else f" Models trained on real rows reach {ceiling:.3f}."
    target = panel["title"].removeprefix("Utility: ")
    text = f"By mean {panel['label']}: {'; '.join(parts)}.{real}" if parts else "No release could be scored."
    return {
        "question": f"Which generator serves best for {target}?",
        "verdict": _leader(leaders, doubts),
        "text": text,
        "bad": False,
    }


def _leader(leaders: Sequence[str], doubts: Sequence[bool]) -> str:
    """The first screen's answer from the leader at each epsilon, and whether its lead may be chance."""
    if not leaders:
        return "Not computed"
    if len(set(leaders)) > 1:
        return "No generator leads by more than chance could explain" if all(doubts) else "It depends on epsilon"
    if len(leaders) > 1:
        lead = f"{leaders[0]} leads at every epsilon"
        return f"{lead}, but at some of them its lead may be chance" if any(doubts) else lead
    return f"{leaders[0]} leads, but its lead may be chance" if doubts[0] else leaders[0]


def between(point: Mapping[str, Any]) -> str:
    return "-" if point["interval"] is None else f"{point['interval'][0]:.4f} to {point['interval'][1]:.4f}"


def _apart(mean: float, interval: Any, other: float, own: Any) -> bool:
    """Whether two intervals lie apart; a figure without an interval tells nothing."""
    if interval is None or own is None:
        return False
    return bool(interval[0] > own[1] if mean >= other else own[0] > interval[1])


Column = tuple[str, bool, list[tuple[str, float | None]]]
"""Of a table of releases: its title, whether it holds numbers, and of each release the text and the number that it is sorted by."""


def columns(found: Mapping[str, Any]) -> list[Column]:
    """The columns of the table of releases: what each is, what it guarantees, and every figure that any of them has."""
    rows = found["runs"]
    targets = list(dict.fromkeys(target for row in rows for target in row["utility"]))
    figures: list[tuple[str, list[float | None]]] = []
    for target in targets:
        scores = [row["utility"].get(target, {}) for row in rows]
        ending = f", {target}" if len(targets) > 1 else ""
        figures += [
            (f"{label}{ending}", [each[metric]["mean"] if metric in each else None for each in scores])
            for metric, label in LABELS.items()
        ]
    figures += [(label, [row["fidelity"].get(metric) for row in rows]) for metric, label in LABELS.items()]
    return [
        ("Release", False, [(row["run"], None) for row in rows]),
        ("Generator", False, [(row["generator"], None) for row in rows]),
        ("Settings that differ", False, [(settings(row["settings"]), None) for row in rows]),
        ("Epsilon", True, [(words.upper(row["epsilon"]), row["epsilon"]) for row in rows]),
        ("Delta", True, [(words.scientific(row["delta"]), row["delta"]) for row in rows]),
        ("Unit", False, [(row["unit"], None) for row in rows]),
        *(
            (title, True, [("-" if value is None else f"{value:.4f}", value) for value in values])
            for title, values in figures
            if any(value is not None for value in values)
        ),
    ]


def sortable(value: float) -> str:
    """A number as the sorting script reads it."""
    return "Infinity" if math.isinf(value) else repr(float(value))


def _parts(shown: Sequence[Column]) -> list[tuple[str, list[Column]]]:
    """The columns as tables that fit a page: what each release is, and its figures, a few at a time."""
    if len(shown) <= MOST_COLUMNS:
        return [("Every release", list(shown))]
    rest, size = shown[ABOUT:], MOST_COLUMNS - 1
    groups = [rest[start : start + size] for start in range(0, len(rest), size)]
    parts = [("Every release", list(shown[:ABOUT]))]
    for number, group in enumerate(groups, 1):
        which = f", {number} of {len(groups)}" if len(groups) > 1 else ""
        parts.append((f"Figures of every release{which}", [shown[0], *group]))
    return parts


def _not_computed(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Each reason once, with the releases that it is about."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for item in row["not_computed"]:
            found.setdefault(f"{item.get('words', item['metric'])}: {item['reason']}", []).append(row["run"])
    return [(reason, ["all releases"] if len(names) == len(rows) else names) for reason, names in found.items()]
