"""Epsilon against steps or orders, a line per accountant: figure 2 of Abadi et al. 2016 and figure 3 of Waites 2019, for any mechanism."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

COLOURS = {
    "naive": "#9a6a00",
    "strong": "#c1442d",
    "moments": "#2a6f97",
    "rdp": "#5a8f3c",
    "pld": "#1b1b1b",
    "analytic_moments": "#7b4fa3",
}
OTHERS = ("#00798c", "#d1495b", "#66a182", "#8d96a3")
LINES = {"naive": ":", "strong": "--"}
FAR = 3.0  # ratio of the largest to the least last value above which the axis is logarithmic


def save(path: Path, lines: Mapping[str, Sequence[tuple[int, float]]], title: str, across: str = "steps") -> None:
    """Draw accountant -> (steps or orders, epsilon) points into a .png, .pdf or .svg file; what is infinite is left out.

    `across` names what the points run over; the legend shows each line's last value or, over orders, its least.

    The axis of epsilon is logarithmic where the lines lie far apart. The same input gives the same file.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    shown = {name: [(n, e) for n, e in points if math.isfinite(e) and e > 0] for name, points in lines.items()}
    shown = {name: points for name, points in shown.items() if points}
    with mpl.rc_context({"svg.hashsalt": "synthdp", "font.family": "sans-serif", "font.size": 10}):
        figure = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for number, (name, points) in enumerate(sorted(shown.items(), key=lambda item: -item[1][-1][1])):
            colour = COLOURS.get(name, OTHERS[number % len(OTHERS)])
            label = f"{name}: {(points[-1] if across == 'steps' else min(points, key=lambda point: point[1]))[1]:.4g}"
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=LINES.get(name, "-"), label=label)
        last = [points[-1][1] for points in shown.values()]
        if last and (across != "steps" or max(last) > FAR * min(last)):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel(across)
        axes.set_ylabel("epsilon")
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(color="#dddddd", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if shown:
            axes.legend(
                title="at the last step" if across == "steps" else "least", frameon=False, fontsize=9, title_fontsize=9
            )
        figure.savefig(path, metadata=_METADATA[path.suffix.lower()])


_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    ".svg": {"Date": None, "Creator": None},
}
FORMATS = tuple(_METADATA)
