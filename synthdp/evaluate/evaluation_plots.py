"""Figures of the internal page as inline SVG: Figure objects only, colours that hold on white and on black."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Mid tones, apart in lightness and for the colour-blind; ink is a marker that becomes the page's own text colour.
SYNTHETIC, REAL, FLOOR, INK = "#1b9aaa", "#7f8ea3", "#d98e04", "#010203"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a column's name is a dollar sign
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
}
PIXELS = 96
CONSTANT = {"majority": "majority class", "mean": "mean"}  # the floor without a model
MOST_BARS = 8  # categories in a small multiple
COLOURS = 48  # more, and matplotlib would embed the colour bar as a bitmap
WORST_HEAT = 40  # columns in a heat map


def utility_plot(entry: dict[str, Any], metric: str, label: str, names: dict[str, str], key: str) -> str:
    """One target and metric (at most 1): a row per model with real, synthetic and floor; whiskers are the intervals, or
    the range over the seeds where there is none."""
    arms = (
        ("trained on real rows", entry["trtr"], REAL, "D"),
        ("trained on synthetic rows", entry["tstr"], SYNTHETIC, "o"),
        ("floor: columns without relations", entry["floors"]["independent"], FLOOR, "s"),
    )
    models = [m for m in names if any(metric in arm.get(m, {}) for _, arm, _, _ in arms)]
    guess = next(key for key in CONSTANT if key in entry["floors"])
    constant, guess = entry["floors"][guess].get(metric), CONSTANT[guess]
    step = 0.62 if len(models) < 6 else 0.46

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, (arm_label, arm, colour, marker) in enumerate(arms):
            found = [(i, arm[m][metric]) for i, m in enumerate(models) if metric in arm.get(m, {})]
            if not found:
                continue
            x, y = [v["mean"] for _, v in found], [i + (place - 1) * 0.2 for i, _ in found]
            ends = [v.get("interval") or (min(v["values"]), max(v["values"])) for _, v in found]
            low = [max(0.0, mean - end[0]) for mean, end in zip(x, ends, strict=True)]  # rounding may go below zero
            high = [max(0.0, end[1] - mean) for mean, end in zip(x, ends, strict=True)]
            axes.hlines(y, 0, x, color=colour, alpha=0.35, linewidth=6)
            axes.errorbar(x, y, xerr=[low, high], fmt=marker, color=colour, markersize=6, capsize=3, label=arm_label)
        if constant is not None:
            axes.axvline(constant["mean"], color=INK, linewidth=0.8, linestyle=(0, (2, 2)), label=f"floor: {guess}")
        axes.set_xlim(min(0.0, axes.get_xlim()[0]), 1)
        axes.set(ylim=(len(models) - 0.5, -0.5), xlabel=label)
        axes.set_yticks(range(len(models)), [names[m] for m in models])
        axes.tick_params(axis="y", length=0)
        handles, labels = axes.get_legend_handles_labels()
        if constant is not None:  # lines come first by default; the floors belong together, at the end
            handles, labels = [*handles[1:], handles[0]], [*labels[1:], labels[0]]
        figure.legend(handles, labels, loc="outside lower left", ncols=1, fontsize=8.5, handlelength=1.4)

    said = "; ".join(
        f"{names[m]} {arm_label} {arm[m][metric]['mean']:.3f}"
        for m in models
        for arm_label, arm, _, _ in arms
        if metric in arm.get(m, {})
    )
    return svg(draw, (4.6, 1.5 + step * len(models)), f"{label} on real held-out rows. {said}.", key)


def marginal_plot(name: str, column: dict[str, Any], key: str) -> str:
    """One column: shares per cell, real training rows as a filled shape and synthetic rows as an outline on it."""
    labels, real, made = column["labels"], column["train"], column["synthetic"]
    ordered = column["kind"] in ("number", "datetime")

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        cells = np.arange(len(labels))
        if ordered:
            edges = np.arange(len(labels) + 1) - 0.5
            axes.stairs(real, edges, fill=True, color=REAL, alpha=0.55)
            axes.stairs(made, edges, color=SYNTHETIC, linewidth=1.6)
            ends = column["edges"]
            last = len(ends) - 2
            axes.set_xticks([-0.5, last + 0.5], [_tick(labels[0], first=True), _tick(labels[last], first=False)])
            left, right = axes.get_xticklabels()
            left.set_horizontalalignment("left")
            right.set_horizontalalignment("right")
            if len(labels) > last + 1:  # missing values stand apart, at the right end
                axes.text(last + 1, max(real[-1], made[-1]), "missing", ha="right", va="bottom", fontsize=8)
            axes.set_ylim(bottom=0)
            _percent(axes, "y")
        else:
            shown = (
                cells if len(cells) <= MOST_BARS else [*cells[: MOST_BARS - 1], cells[-1]]
            )  # the last may be missing
            place = np.arange(len(shown))
            axes.barh(place - 0.19, [real[i] for i in shown], height=0.36, color=REAL, alpha=0.8)
            axes.barh(place + 0.19, [made[i] for i in shown], height=0.36, color=SYNTHETIC)
            axes.set_yticks(place, [_short(labels[i], 16) for i in shown])
            axes.set_ylim(max(len(shown), 3) - 0.4, -0.6)
            axes.tick_params(axis="y", length=0)
            _percent(axes, "x")

    worst = int(np.argmax(np.abs(np.array(real) - np.array(made))))
    alt = (
        f"Distribution of {name}. Largest difference in {labels[worst]}: "
        f"{100 * real[worst]:.1f} % of real training rows, {100 * made[worst]:.1f} % of synthetic rows."
    )
    return svg(draw, (3.0, 1.9), alt, key)


def heat_map(names: Sequence[str], matrix: Sequence[Sequence[float]], label: str, key: str, *, signed: bool) -> str:
    """A square of columns x columns, the worst 40 columns where there are more; strength is opacity, so that it reads
    on any background."""
    values = np.array(matrix, dtype=np.float64)
    keep = np.sort(np.argsort(-np.abs(values).sum(axis=1), kind="stable")[:WORST_HEAT])
    values, shown = values[np.ix_(keep, keep)], [names[i] for i in keep]
    top = max(float(np.abs(values).max()), 1e-9)

    def draw(figure: Figure) -> None:
        from matplotlib.colors import LinearSegmentedColormap, to_rgb

        low = [(*to_rgb(FLOOR), 1.0), (*to_rgb(REAL), 0.08)] if signed else [(*to_rgb(REAL), 0.08)]
        colours = LinearSegmentedColormap.from_list("opacity", [*low, (*to_rgb(SYNTHETIC), 1.0)], N=COLOURS)
        axes = figure.add_subplot()
        drawn = np.ma.masked_where(np.eye(len(values), dtype=bool), values)
        mesh = axes.pcolormesh(drawn, cmap=colours, vmin=-top if signed else 0.0, vmax=top)
        ticks = np.arange(len(shown)) + 0.5
        axes.set_xticks(ticks, [_short(n, 18) for n in shown], rotation=90)
        axes.set_yticks(ticks, [_short(n, 18) for n in shown])
        axes.set(ylim=(len(shown), 0), aspect="equal")
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        bar = figure.colorbar(mesh, ax=axes, shrink=0.7, aspect=30, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)

    a, b = np.unravel_index(int(np.abs(values - np.diag(np.diag(values))).argmax()), values.shape)
    alt = f"{label}, {len(shown)} columns. Largest: {shown[a]} and {shown[b]}, {values[a, b]:+.3f}."
    side = max(3.6, 2.0 + 0.24 * len(shown))
    return svg(draw, (side + 0.7, side), alt, key)


def svg(draw: Any, size: tuple[float, float], alt: str, key: str) -> str:
    """Draw into a fresh figure (inches) and return its SVG element: transparent, scalable, labelled by alt.

    alt: a first sentence, which becomes the title, and the details after it, which become the description.
    key: prefixes the ids inside, which would clash between several figures of one page.
    """
    from html import escape

    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**STYLE, "svg.hashsalt": key}
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = text.replace("url(#", f"url(#{key}-").replace('href="#', f'href="#{key}-').replace(INK, "currentColor")
    box = f"0 0 {size[0] * 72:g} {size[1] * 72:g}"
    title, _, details = alt.partition(". ")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" '
        f'width="{size[0] * PIXELS:.0f}" role="img" aria-label="{escape(alt)}"><title>{escape(title)}</title>'
        f"<desc>{escape(details)}</desc>"
    )
    return head + text[text.index(">") + 1 :]


def _tick(label: str, *, first: bool) -> str:
    return label.split(" to ")[0 if first else -1]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _percent(axes: Axes, which: str) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(3))
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None))
