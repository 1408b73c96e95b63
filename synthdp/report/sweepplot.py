"""Privacy-utility curves as SVG: a line per generator against epsilon on a logarithmic axis, infinity at its right end."""

import io
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from synthdp.report.statement_plots import FAINT, INK, inline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours in mid tones that hold on white and on black; each line has a marker and a dash of its own too. The lengths
# have no common divisor: lines of one colour have different markers.
COLOURS = ("#1b8a9a", "#c9701d", "#8a6fd1", "#4a9a4a", "#d0568a", "#a08a1c", "#5b86c9", "#8d7b6c", "#b3413c", "#6b7a90")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h", "<", ">")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))
REFERENCES: dict[str, Any] = {
    "ceiling": (0, (6, 2)),
    "bounded": (0, (6, 2, 1, 2)),
    "floor": (0, (1.5, 1.5)),
    "majority": (0, (1, 3)),
}
LONG = 34  # letters of a label, from which on a legend has a column less
PLAIN = {INK: "#1c2530", FAINT: "#d9dfe6"}  # in a file of its own, on white
STEP = 0.5  # decades between the largest finite epsilon and infinity
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.parse_math": False,
}


def panel(values: Mapping[str, Any], key: str) -> str:
    """One panel of a comparison as an SVG element for a page; `key` is unique in the page."""

    def draw(figure: "Figure") -> None:
        _draw(figure.add_subplot(), values)
        _legend(figure, [values])

    return inline(_saved(draw, (5.2, 4.4), key), f"{key}-plot", escape(values["title"]), escape(spoken(values)))


def together(panels: Sequence[Mapping[str, Any]]) -> str:
    """All panels side by side as an SVG file of its own, on white."""

    def draw(figure: "Figure") -> None:
        for axes, values in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, values)
            axes.set_title(values["title"], fontsize=9.5, loc="left", color=INK)
        _legend(figure, panels)

    text = _saved(draw, (4.6 * len(panels), 4.4), "compare", face="#ffffff")
    for marker, colour in PLAIN.items():
        text = text.replace(marker, colour)
    said = escape(" ".join(f"{values['title']}. {spoken(values)}" for values in panels))
    start = text.index(">", text.index("<svg ")) + 1
    return f"{text[:start]}<title>Privacy-utility curves</title><desc>{said}</desc>{text[start:]}"


def spoken(values: Mapping[str, Any]) -> str:
    """What the panel shows, in words: every point with its interval, and the horizontal lines."""
    parts = []
    for line in values["lines"]:
        points = ", ".join(f"{_figure(point)} at {_epsilon(point['epsilon'])}" for point in line["points"])
        parts.append(f"{line['label']}: {points}")
    parts += [f"{reference['label']}: {reference['mean']:.3f}" for reference in values["references"]]
    return f"{values['label']} against epsilon, {values['better']} is better. {'; '.join(parts)}."


def _figure(point: Mapping[str, Any]) -> str:
    if point["interval"] is None:
        return f"{point['mean']:.3f}"
    low, high = point["interval"]
    return f"{point['mean']:.3f} ({low:.3f} to {high:.3f})"


def _epsilon(value: float) -> str:
    return "infinite epsilon" if math.isinf(value) else f"epsilon {value:g}"


def _draw(axes: "Axes", values: Mapping[str, Any]) -> None:
    finite = sorted({p["epsilon"] for line in values["lines"] for p in line["points"] if math.isfinite(p["epsilon"])})
    infinite = any(math.isinf(p["epsilon"]) for line in values["lines"] for p in line["points"])
    last = (finite[-1] if finite else 1.0) * 10**STEP
    names = sorted({line["label"] for line in values["lines"]})
    for line in values["lines"]:
        place = names.index(line["label"])
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        shift = 1 + 0.03 * (place - (len(names) - 1) / 2)  # a factor: intervals of several lines stay apart
        points = [(shift * (last if math.isinf(p["epsilon"]) else p["epsilon"]), p) for p in line["points"]]
        x, y = [at for at, _ in points], [p["mean"] for _, p in points]
        dash = DASHES[place % len(DASHES)]
        axes.plot(x, y, color=colour, linestyle=dash, marker=marker, markersize=5, linewidth=1.5, label=line["label"])
        for at, point in points:
            if point["interval"] is not None:
                axes.vlines(at, *point["interval"], color=colour, linewidth=1.2, alpha=0.8)
            axes.scatter([at] * point["n"], point["values"], color=colour, s=7, alpha=0.45, linewidths=0)
    for reference in values["references"]:
        axes.axhline(
            reference["mean"],
            color=INK,
            linewidth=0.9,
            linestyle=REFERENCES[reference["kind"]],
            label=reference["label"],
        )
    _axes(axes, values, finite, last if infinite else None)


def _axes(axes: "Axes", values: Mapping[str, Any], finite: Sequence[float], infinity: float | None) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.set_xscale("log")
    ticks = [*finite, *([] if infinity is None else [infinity])] or [1.0]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{tick:g}" for tick in ticks if tick != infinity] + ([] if infinity is None else ["∞"]))
    axes.set_xlim(min(ticks) / 1.35, max(ticks) * 1.35)
    if infinity is not None and finite:
        axes.axvline(infinity / 10 ** (STEP / 2), color=FAINT, linewidth=0.8)
    low, high = _range(values)
    axes.set_ylim(low, high)
    axes.set_xlabel("epsilon", color=INK)
    axes.set_ylabel(f"{values['label']} ({values['better']} is better)", color=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.tick_params(colors=INK, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(INK)


def _range(values: Mapping[str, Any]) -> tuple[float, float]:
    """All means, single figures and lines, and as much of the intervals as adds half of that at either end."""
    points = [point for line in values["lines"] for point in line["points"]]
    seen = [*(v for p in points for v in (p["mean"], *p["values"])), *(r["mean"] for r in values["references"])]
    low, high = min(seen), max(seen)
    room = max(high - low, 0.02) / 2
    ends = [end for point in points if point["interval"] is not None for end in point["interval"]]
    low, high = max(low - room, min([low, *ends])), min(high + room, max([high, *ends]))
    edge = 0.06 * max(high - low, 0.02)
    return low - edge, high + edge


def _legend(figure: "Figure", panels: Sequence[Mapping[str, Any]]) -> None:
    handles: dict[str, Any] = {}
    for axes in figure.axes[: len(panels)]:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = 2 if len(panels) == 1 else 4 - (max(map(len, handles), default=0) > LONG)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower left", ncols=columns, fontsize=8.5, frameon=False,
        labelcolor=INK, handlelength=2.6,
    )  # fmt: skip


def _saved(draw: Any, size: tuple[float, float], key: str, face: str = "none") -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "svg.hashsalt": key}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.StringIO()
        nothing: dict[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", facecolor=face, transparent=face == "none", metadata=nothing)
    return buffer.getvalue()
