"""The plots of the statement, of a sweep and of accountants: SVG text to stand inside a page, and files of a figure."""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp import pages
from synthdp.report import promise
from synthdp.report.words import percent, scientific

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Colours that stand for the page's own: matplotlib writes them, the page's style decides, in light and in dark.
INK, FAINT, ACCENT = "#010203", "#040506", "#070809"
VARIABLES = {INK: "var(--ink)", FAINT: "var(--line)", ACCENT: "var(--accent)"}


def epsilon_curve(points: Sequence[tuple[float, float]], delta: float, epsilon: float) -> str:
    """Epsilon against delta (log scale), the promised pair marked; empty where fewer than two points are finite.

    `points` are (delta, epsilon). The text stays text, so that it can be searched, selected and read out.
    """
    least = dict(sorted([*points, (delta, epsilon)], reverse=True))  # of two epsilons at one delta, the smaller stays
    shown = sorted((d, e) for d, e in least.items() if math.isfinite(e))
    if len(shown) < 2 or not math.isfinite(epsilon):
        return ""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    with plotted() as (axes, text):
        axes.plot(*zip(*shown, strict=True), color=ACCENT, marker="o", markersize=3.2, linewidth=1.6)
        axes.plot(
            [delta], [least[delta]], color=ACCENT, marker="o", markersize=9, markerfacecolor="none", markeredgewidth=1.8
        )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=7))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scientific(value, plain_from=0.01)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("delta", color=INK)
        axes.set_ylabel("epsilon", color=INK)
    title = "Epsilon for each delta"
    first, last = (f"{e:.3g} at delta {scientific(d)}" for d, e in (shown[0], shown[-1]))
    told = f"A falling line: epsilon goes from {first} to {last}. The promised pair has a ring."
    return inline(text.getvalue(), "curve", title, told)


def trade_off(points: Sequence[tuple[float, float]]) -> str:
    """The most that any attacker can find (TPR) for each rate of false alarms (FPR), beside guessing.

    `points` are (delta, epsilon); empty where none of them is finite.
    """
    if not any(math.isfinite(epsilon) for _, epsilon in points):
        return ""
    rates = [*(step / 1000 for step in range(50)), *(step / 100 for step in range(5, 101))]
    most = [promise.detection(points, rate) for rate in rates]
    with plotted() as (axes, text):
        axes.plot(rates, most, color=ACCENT, linewidth=1.6, label="any attack, at most")
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle=(0, (3, 3)), label="guessing")
        axes.legend(loc="lower right", frameon=False, labelcolor=INK)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("false alarms", color=INK)
        axes.set_ylabel("found", color=INK)
    told = "A rising curve above the diagonal of guessing: " + "; ".join(
        f"at {percent(rate)} false alarms at most {percent(promise.detection(points, rate))} are found"
        for rate in (0.01, 0.1, 0.5)
    )
    return inline(text.getvalue(), "tradeoff", "What any attacker can find", f"{told}.")


@contextmanager
def plotted() -> Iterator[tuple[Any, io.StringIO]]:
    """Axes in the page's style to draw on; at the end of the block the text buffer holds the SVG."""
    with pages.drawing((5.0, 3.1), {**STYLE, "svg.hashsalt": "synthdp", "font.size": 10}) as (figure, text):
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.115, 0.165, 0.86, 0.805))
        yield axes, text
        _styled(axes)


def _styled(axes: Any, lines: str = "both") -> None:
    """Faint lines across, at the ticks of these axes, and a frame that is its lower side alone."""
    axes.grid(axis=lines, color=FAINT, linewidth=0.6)
    axes.tick_params(colors=INK, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(INK)


def inline(svg: str, name: str, title: str, description: str) -> str:
    """A matplotlib SVG made ready for HTML: no prolog, the page's colours and font, title and description.

    `title` and `description` must be fixed words, since they are not escaped; `name` is unique in the page.
    """
    body = svg[svg.index("<svg ") :]
    opening, rest = body.split(">", 1)
    width, height = (attribute(opening, key) for key in ("width", "height"))
    view = attribute(opening, "viewBox")
    labels = f'role="img" aria-labelledby="{name}-title {name}-text"'
    sizes = f'width="{width.removesuffix("pt")}" height="{height.removesuffix("pt")}"'
    opening = f'<svg class="plot" {labels} viewBox="{view}" {sizes} xmlns:xlink="http://www.w3.org/1999/xlink"'
    rest = rest.replace("*{stroke-linejoin", ".plot *{stroke-linejoin").replace("'sans-serif'", "var(--sans)")
    for before in (' id="', "url(#", 'href="#'):  # two plots of a page must not share an id
        rest = rest.replace(before, f"{before}{name}-")
    for colour, variable in VARIABLES.items():
        rest = rest.replace(colour, variable)
    head = f'<title id="{name}-title">{title}</title><desc id="{name}-text">{description}</desc>'
    return f"{opening}>{head}{rest.strip()}"


def attribute(tag: str, name: str) -> str:
    """The value of an attribute in an opening tag."""
    return tag.split(f' {name}="', 1)[1].split('"', 1)[0]


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

    with pages.drawing((5.2, 4.4), {**STYLE, "svg.hashsalt": key}) as (figure, text):
        _draw(figure.add_subplot(), values)
        _legend(figure, [values])
    return inline(text.getvalue(), f"{key}-plot", escape(values["title"]), escape(spoken(values)))


def together(panels: Sequence[Mapping[str, Any]]) -> str:
    """All panels side by side as an SVG file of its own, on white."""

    size = 4.6 * len(panels), 4.4
    with pages.drawing(size, {**STYLE, "svg.hashsalt": "compare"}, "#ffffff") as (figure, drawn):
        for axes, values in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, values)
            axes.set_title(values["title"], fontsize=9.5, loc="left", color=INK)
        _legend(figure, panels)
    text = drawn.getvalue()
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
    _styled(axes, "y")


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


ACCOUNTANTS = {
    "naive": "#9a6a00",
    "strong": "#c1442d",
    "moments": "#2a6f97",
    "rdp": "#5a8f3c",
    "pld": "#1b1b1b",
    "analytic_moments": "#7b4fa3",
}
OTHER_ACCOUNTANTS = ("#00798c", "#d1495b", "#66a182", "#8d96a3")
STROKES = {"naive": ":", "strong": "--"}
FAR = 3.0  # ratio of the largest to the least last value above which the axis is logarithmic


def save_comparison(
    path: Path, lines: Mapping[str, Sequence[tuple[int, float]]], title: str, across: str = "steps"
) -> None:
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
            colour = ACCOUNTANTS.get(name, OTHER_ACCOUNTANTS[number % len(OTHER_ACCOUNTANTS)])
            label = f"{name}: {(points[-1] if across == 'steps' else min(points, key=lambda point: point[1]))[1]:.4g}"
            axes.plot(*zip(*points, strict=True), color=colour, linestyle=STROKES.get(name, "-"), label=label)
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
