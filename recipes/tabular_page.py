"""The report of `recipes/tabular.py`: one page, one figure."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judging import DISTANCES, HELD_OUT, REFERENCES
from trials import REAL, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
BESIDE, COMPARED = "Beside peers at epsilon 1", ("mixture", "aim", "mst")
RUN_ON = ("adult", "meps", "diabetes130")  # the tables for the peers
OURS, PAPERS = "mixture", ("aim", "dpmm aim", "dpmm aim, 30 x 250")
SAME = 0.0005  # figures that agree to three decimals are as good as each other
# One colour per generator (Okabe & Ito in mid tones); a peer has the colour of ours, open and dashed, dotted at other settings.
COLOURS = {
    "mixture": "#c9701d", "aim": "#1b8a9a", "mst": "#8a6fd1", "privbayes": "#4a9a4a", "independent": "#8d7b6c",
    "dpgan": "#d0568a", "kernel_teachers": "#a08a1c", "dpmerf": "#5b86c9", "classgauss": "#333333",
}  # fmt: skip
MARKERS = dict(zip(COLOURS, "osD^vPX*h", strict=True))
PEER = "dpmm "  # of those peers that were measured at several epsilons, and so are in the figure
REAL_ROWS = "real rows"
ACROSS = 5  # tables in a row of the figure


def metric_of(table: Mapping[str, Any]) -> str:
    """AUROC, or R2 where the target is a number."""
    return "r2" if any("r2" in row for row in table["rows"]) else "auroc"


def page(result: Mapping[str, Any]) -> str:
    """The whole report as Markdown."""
    lines = [
        "# Tables: every generator, ten data sets",
        "",
        f"Train on synthetic, test on real; mean over {', '.join(result['models'])} (gradient boosting, linear model, random "
        "forest): AUROC (macro where there are more than two classes), or R2 of a numeric target. Total variation distance (TVD) of "
        "1-, 2- and 3-way marginals against the training rows. Mean ± standard deviation over the seeds of the fit, each "
        "generator with its defaults; seeded rehearsals; "
        f"delta {result['delta']:g}. A fit of more than {result['minutes']:g} minutes of CPU was stopped. "
        "Written by `recipes/tabular.py`.",
        "",
        "![AUROC and 2-way TVD at each epsilon](tabular.png)",
        "",
        *_against(result),
        *_beside(result),
    ]
    for table in result["tables"]:
        lines += _section(table)
    runs = [run for table in result["tables"] for row in table["rows"] for run in row["runs"]]
    commits = sorted({f"{run['commit'][:10]}{'+' * run['uncommitted_changes']}" for run in runs})
    machines = sorted({run["processor"] for run in runs})
    return "\n".join([*lines, f"{', '.join(machines)}; commits {', '.join(commits)}.", ""])


def _against(result: Mapping[str, Any]) -> list[str]:
    """Ours beside each AIM at epsilon 1: which figures are as good, and how many times cheaper the fit."""
    lines = [
        "## mixture beside AIM at epsilon 1",
        "",
        f"Ours / theirs; **bold**: as good or better (a difference below {SAME:g} is none).",
        "",
        "| data | AIM | AUROC or R2 | 1-way TVD | 2-way TVD | 3-way TVD | Pearson | rank correlation | means "
        "| CPU seconds | times faster |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    start = len(lines)
    for table in result["tables"]:
        rows = {row["generator"]: row for row in table["rows"] if row["epsilon"] == 1.0}
        metric = metric_of(table)
        for name in PAPERS if OURS in rows else ():
            if name in rows:
                pair = rows[OURS], rows[name]
                cells = [_pair(*pair, metric, 3, 1), *(_pair(*pair, distance, 4, -1) for distance in DISTANCES)]
                ours, theirs = (row["fit_cpu_seconds"]["mean"] for row in pair)
                cells += [f"{ours:.1f} / {theirs:.1f}", f"{theirs / ours:.1f}"]
                lines.append("| " + " | ".join([table["data"], name, *cells]) + " |")
    return [*lines, ""] if len(lines) > start else []


def _beside(result: Mapping[str, Any]) -> list[str]:
    """Ours beside the peers at epsilon 1, and what is not so of what they claim."""
    lines = [
        f"## {BESIDE}",
        "",
        "Each in an environment of its own (`recipes/peers`). A peer protects records: of each unit one record, drawn at random, went to "
        "it, so that the guarantee that it claims is per unit.",
        "",
        "| data | generator | AUROC or R2 | AUPRC | 2-way TVD | 3-way TVD | Pearson | rank correlation | fit, CPU seconds | peak MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    start, lacking = len(lines), []
    for table in result["tables"]:
        rows = [
            row for row in table["rows"] if row["epsilon"] == 1.0 and row["generator"] in (*COMPARED, *result["peers"])
        ]
        made = {row["generator"] for row in rows}
        lacking += [
            f"{name} on {table['data']}" for name in result["peers"] if table["data"] in RUN_ON and name not in made
        ]
        if made.isdisjoint(result["peers"]):
            continue
        for row in rows:
            cells = [shown(row, metric_of(table), 3), shown(row, "auprc", 3)]
            cells += [shown(row, name, 4) for name in ("tvd_2way", "tvd_3way", "pearson", "spearman")]
            cells += [shown(row, "fit_cpu_seconds", 1), shown(row, "fit_peak_mib", 0)]
            lines.append("| " + " | ".join([table["data"], row["generator"], *cells]) + " |")
    said = [part for facts in result["facts"] for part in ("", facts)]
    not_run = ["", f"Not run, or stopped (see the table's section): {', '.join(lacking)}."] if lacking else []
    return [*lines, *not_run, *said, ""] if len(lines) > start else []


def _pair(ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str, digits: int, better: int) -> str:
    if name not in ours or name not in theirs:  # a report of older runs
        return "-"
    a, b = ours[name]["mean"], theirs[name]["mean"]
    said = f"{a:.{digits}f} / {b:.{digits}f}"
    return f"**{said}**" if better * (a - b) > -SAME else said


def _section(table: Mapping[str, Any]) -> list[str]:
    metric = metric_of(table)
    lines = [
        f"## {table['data']}",
        "",
        f"Target {table['target']}; {table['columns']} columns; about {table['units']:,} training units of privacy "
        f"({table['unit']}).",
        "",
        f"| generator | epsilon | {'R2' if metric == 'r2' else 'AUROC'} | 1-way TVD | 2-way TVD | 3-way TVD | Pearson | rank "
        "correlation | means | fit, CPU seconds | peak MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table["rows"]:
        cells = [shown(row, metric, 3), *(shown(row, name, 4) for name in DISTANCES)]
        cells += [shown(row, "fit_cpu_seconds", 1), shown(row, "fit_peak_mib", 0)]
        epsilon = "-" if row["epsilon"] is None else f"{row['epsilon']:g}"
        lines.append("| " + " | ".join([row["generator"], epsilon, *cells]) + " |")
    reasons: dict[tuple[str, str], list[float]] = {}
    for lost in table["broken"]:
        reasons.setdefault((lost["generator"], lost["reason"]), []).append(lost["epsilon"])
    lines += [""] if reasons else []
    lines += [f"- {name} at {_listed(dict.fromkeys(at))}: {reason}." for (name, reason), at in reasons.items()]
    missing: dict[str, list[float]] = {}
    for each in table["not_run"]:
        missing.setdefault(each["generator"], []).append(each["epsilon"])
    said = [name + (f" at {_listed(at)}" if len(at) < len(EPSILONS) else "") for name, at in missing.items()]
    return [*lines, *(["", f"Not run: {'; '.join(said)}."] if said else []), ""]


def _listed(epsilons: Iterable[float]) -> str:
    return ", ".join(f"{epsilon:g}" for epsilon in epsilons)


def figure(result: Mapping[str, Any], path: Path) -> None:
    """Utility above, 2-way TVD below, a column per table; written to `path`."""
    from matplotlib.figure import Figure

    tables = result["tables"]
    across = min(ACROSS, len(tables))
    blocks = -(-len(tables) // across)
    sheet = Figure(figsize=(3.0 * across + 0.4, 4.9 * blocks + 0.9), dpi=130, layout="constrained")
    grid = sheet.subplots(2 * blocks, across, squeeze=False)
    for place in range(blocks * across):
        column, row = place % across, 2 * (place // across)
        if place >= len(tables):
            for axes in (grid[row][column], grid[row + 1][column]):
                axes.set_visible(False)
            continue
        table, metric = tables[place], metric_of(tables[place])
        _panel(grid[row][column], table, metric, "R2" if metric == "r2" else "AUROC", REAL)
        grid[row][column].set_title(table["data"], fontsize=9, loc="left")
        _panel(grid[row + 1][column], table, "tvd_2way", "2-way TVD", HELD_OUT)
        grid[row + 1][column].set_xlabel("epsilon", fontsize=8)
    handles = {}
    for axes in sheet.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = _ordered(handles)
    sheet.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=across + 1,
        fontsize=8,
        frameon=False,
    )
    sheet.savefig(path)


def _ordered(names: Iterable[str]) -> list[str]:
    """Ours in the colours' order, then the peers, then what real rows reach."""
    place = {name: number for number, name in enumerate(COLOURS)}
    return sorted(names, key=lambda name: (name == REAL_ROWS, name.startswith(PEER), place.get(_method(name), 0)))


def _method(label: str) -> str:
    """The generator whose colour a label has."""
    return label.removeprefix(PEER).split(",")[0]


def _panel(axes: "Axes", table: Mapping[str, Any], metric: str, label: str, reference: str) -> None:
    """One metric against epsilon: a line per generator, and what real rows reach."""
    rows = [
        row
        for row in table["rows"]
        if metric in row and (row["epsilon"] is None or _method(row["generator"]) in COLOURS)
    ]
    for name in dict.fromkeys(row["generator"] for row in rows if row["epsilon"] is not None):
        points = sorted((row["epsilon"], row[metric]["mean"]) for row in rows if row["generator"] == name)
        peer, method = name.startswith(PEER), _method(name)
        style = {"linestyle": ":" if "," in name else "--", "markerfacecolor": "white"} if peer else {}
        style |= {"color": COLOURS[method], "marker": MARKERS[method]}
        axes.plot(*zip(*points, strict=True), label=name, markersize=5, linewidth=1.3, zorder=3, **style)
    for row in rows:
        if row["generator"] == REFERENCES[reference]:
            axes.axhline(row[metric]["mean"], color="#1c2530", linewidth=1, linestyle=":", label=REAL_ROWS, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(EPSILONS[0] / 1.3, EPSILONS[-1] * 1.3)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    if metric == "r2":
        axes.set_ylim(bottom=max(axes.get_ylim()[0], -0.5))  # below, a model says less than the mean does
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="#d9dfe6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
