"""Figures of the internal page as inline SVG: Figure objects only, colours that hold on white and on black."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from synthdp import pages
from synthdp.errors import closed
from synthdp.evaluate.figures import middle, said

# Mid tones, apart in lightness and for the colour-blind; ink is a marker that becomes the page's own text colour.
SYNTHETIC, REAL, FLOOR, INK = "#1b9aaa", "#7f8ea3", "#d98e04", "#010203"
INVENTED = "#8a63b8"  # what synthetic rows show and real ones do not
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
MOST_LETTERS = 78  # of an attack's name above its bar
WORST_HEAT = 40  # columns in a heat map


def utility_plot(
    entry: Mapping[str, Any], metric: str, label: str, names: Mapping[str, str], key: str, *, records: str = "rows"
) -> str:
    """One target and metric (at most 1): a line per model with real, synthetic and, where it was computed, the floor of unrelated
    columns; whiskers are the intervals, or the range over the seeds where there is none. `records`: what they are called."""
    arms = [
        (f"trained on real {records}", entry["trtr"], REAL, "D"),
        (f"trained on synthetic {records}", entry["tstr"], SYNTHETIC, "o"),
    ]
    if "independent" in entry["floors"]:
        arms.append(("floor: unrelated columns", entry["floors"]["independent"], FLOOR, "s"))
    models = [m for m in names if any(metric in arm.get(m, {}) for _, arm, _, _ in arms)]
    guess = next(key for key in CONSTANT if key in entry["floors"])
    constant, guess = entry["floors"][guess].get(metric), CONSTANT[guess]
    step = 0.62 if len(models) < 6 else 0.46
    with plotted((4.6, 1.5 + step * len(models)), key) as (figure, element):
        axes = figure.add_subplot()
        for place, (arm_label, arm, colour, marker) in enumerate(arms):
            found = [(i, arm[m][metric]) for i, m in enumerate(models) if metric in arm.get(m, {})]
            if not found:
                continue
            x, y = [v["mean"] for _, v in found], [i + (place - (len(arms) - 1) / 2) * 0.2 for i, _ in found]
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
    return element(f"{label} on real held-out {records}. {said}.")


def marginal_plot(name: str, column: dict[str, Any], key: str) -> str:
    """One column: shares per cell, real training rows as a filled shape and synthetic rows as an outline on it."""
    labels, real, made = column["labels"], column["train"], column["synthetic"]
    ordered = column["kind"] in ("number", "datetime")
    with plotted((3.0, 1.9), key) as (figure, element):
        axes = figure.add_subplot()
        cells = np.arange(len(labels))
        if ordered:
            edges = np.arange(len(labels) + 1) - 0.5
            axes.stairs(real, edges, fill=True, color=REAL, alpha=0.55)
            axes.stairs(made, edges, color=SYNTHETIC, linewidth=1.6)
            ends = column["edges"]
            last = len(ends) - 2
            ticks, names = [-0.5, last + 0.5], [_tick(labels[0], first=True), _tick(labels[last], first=False)]
            if len(labels) > last + 1:  # missing values stand at the right end, and their name below the numbers
                ticks, names = [*ticks, last + 1.0], [*names, "\nmissing"]
            axes.set_xticks(ticks, names)
            for number, tick in enumerate(axes.get_xticklabels()):
                tick.set_horizontalalignment("right" if number else "left")
            axes.set_ylim(bottom=0)
            _percent(axes, "y")
        else:
            # Where synthetic rows have most is shown too: it may be what a fit merged, or missing.
            largest = np.argsort(-np.maximum(real, made), kind="stable")[:MOST_BARS]
            shown = cells if len(cells) <= MOST_BARS else np.sort(largest)
            bars(axes, [labels[i] for i in shown], [real[i] for i in shown], [made[i] for i in shown])
    return element(f"{closed(f'Distribution of {name}')} {largest_difference(labels, real, made, 'rows')}")


def bars(axes: Axes, labels: Sequence[str], real: Sequence[float], made: Sequence[float]) -> None:
    """Shares of categories, from the top down, each with the real one above the synthetic one."""
    place = np.arange(len(labels))
    axes.barh(place - 0.19, real, height=0.36, color=REAL, alpha=0.8)
    axes.barh(place + 0.19, made, height=0.36, color=SYNTHETIC)
    axes.set_yticks(place, [short(label, 16) for label in labels])
    axes.set_ylim(max(len(labels), 3) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    _percent(axes, "x")


def largest_difference(cells: Sequence[str], real: Sequence[float], made: Sequence[float], records: str) -> str:
    """In words, the cell whose shares of real and synthetic `records` are farthest apart."""
    worst = int(np.argmax(np.abs(np.array(real) - np.array(made))))
    return (
        f"Largest difference in {cells[worst]}: {100 * real[worst]:.1f} % of real training {records}, "
        f"{100 * made[worst]:.1f} % of synthetic {records}."
    )


def heat_map(names: Sequence[str], matrix: Sequence[Sequence[float]], label: str, key: str, *, signed: bool) -> str:
    """A square of columns x columns, the worst 40 columns where there are more; strength is opacity, so that it reads
    on any background."""
    values = np.array(matrix, dtype=np.float64)
    keep = np.sort(np.argsort(-np.abs(values).sum(axis=1), kind="stable")[:WORST_HEAT])
    values, shown = values[np.ix_(keep, keep)], [names[i] for i in keep]
    top = max(float(np.abs(values).max()), 1e-9)
    side = max(3.6, 2.0 + 0.24 * len(shown))
    with plotted((side + 0.7, side), key) as (figure, element):
        low = [(*to_rgb(FLOOR), 1.0), (*to_rgb(REAL), 0.08)] if signed else [(*to_rgb(REAL), 0.08)]
        colours = LinearSegmentedColormap.from_list(
            "opacity", [*low, (*to_rgb(INVENTED if signed else SYNTHETIC), 1.0)], N=COLOURS
        )
        axes = figure.add_subplot()
        drawn = np.ma.masked_where(np.eye(len(values), dtype=bool), values)
        mesh = axes.pcolormesh(drawn, cmap=colours, vmin=-top if signed else 0.0, vmax=top)
        square(axes, [short(n, 18) for n in shown])
        bar = figure.colorbar(mesh, ax=axes, shrink=0.7, aspect=30, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
    a, b = np.unravel_index(int(np.abs(values - np.diag(np.diag(values))).argmax()), values.shape)
    alt = f"{label}, {len(shown)} columns. Largest: {shown[a]} and {shown[b]}, {values[a, b]:+.3f}."
    return element(alt)


def square(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows and the columns of a chart of cells, which stands without a frame."""
    ticks = np.arange(len(names)) + 0.5
    axes.set_xticks(ticks, names, rotation=90)
    axes.set_yticks(ticks, names)
    axes.set(ylim=(len(names), 0), aspect="equal")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


@contextmanager
def plotted(size: tuple[float, float], key: str) -> Iterator[tuple[Figure, Callable[[str], str]]]:
    """A fresh figure (inches) to draw on, and what makes of it, after the block, an SVG element: transparent, scalable, labelled by alt.

    alt: a first sentence, which becomes the title, and the details after it, which become the description.
    key: prefixes the ids inside, which would clash between several figures of one page.
    """
    with pages.drawing(size, {**STYLE, "svg.hashsalt": key}) as (figure, buffer):
        yield figure, lambda alt: _element(buffer.getvalue(), size, alt, key)


def _element(text: str, size: tuple[float, float], alt: str, key: str) -> str:
    text = text[text.index("<svg") :]
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


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _percent(axes: Axes, which: str) -> None:
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(3))
    axis.set_major_formatter(PercentFormatter(1.0, decimals=None))


# ---- Curves and points of the internal page: calibration, precision and recall of supports, attacks beside their bounds.


DASHES = (0, (2, 2))
ARMS = (("trtr", "trained on real rows", REAL, "D"), ("tstr", "trained on synthetic rows", SYNTHETIC, "o"))


def calibration_plot(curves: Mapping[str, Sequence[Mapping[str, Any]]], target: str, key: str) -> str:
    """Observed share of the class against the predicted chance, a line per arm; larger points hold more rows."""
    arms = [arm for arm in ARMS if curves.get(arm[0])]
    with plotted((4.0, 3.9), key) as (figure, element):
        axes = figure.add_subplot()
        most = max(point["rows"] for arm, *_ in arms for point in curves[arm])
        for arm, label, colour, marker in arms:
            x = [point["predicted"] for point in curves[arm]]
            y = [point["observed"] for point in curves[arm]]
            sizes = [10 + 70 * point["rows"] / most for point in curves[arm]]
            axes.plot(x, y, color=colour, linewidth=1.4, alpha=0.7)
            axes.scatter(x, y, s=sizes, color=colour, marker=marker, label=label)
        _diagonal(axes, "predicted chance", "observed share")
        figure.legend(loc="outside lower left", ncols=1, fontsize=8.5, handlelength=1.4)
    told = "; ".join(
        f"{label}: " + ", ".join(f"{p['predicted']:.2f} gives {p['observed']:.2f}" for p in curves[arm])
        for arm, label, _, _ in arms
    )
    return element(f"{closed(f'Calibration of the models that predict {target}')} {told}.")


def manifold_plot(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Alpha-precision and beta-recall per level of the support; on the diagonal both sets are alike (Alaa et al. 2022)."""
    lines = [
        (name, label, colour)
        for name, label, colour in (
            ("alpha_precision", "alpha-precision (synthetic rows inside the real support)", SYNTHETIC),
            ("beta_recall", "beta-recall (real rows that synthetic ones cover)", FLOOR),
        )
        if found.get(name, {}).get("curve")
    ]
    with plotted((4.6, 4.2), "manifold") as (figure, element):
        axes = figure.add_subplot()
        for name, label, colour in lines:
            x, y = zip(*found[name]["curve"], strict=True)
            axes.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=3, label=label)
        _diagonal(axes, "share of the support", "share of rows")
        figure.legend(loc="outside lower left", ncols=1, fontsize=8.5, handlelength=1.4)
    told = "; ".join(
        f"{label}: " + ", ".join(f"{y:.2f} at {x:.2f}" for x, y in found[name]["curve"]) for name, label, _ in lines
    )
    return element(f"Precision and recall of the synthetic support. {told}.")


def attack_plot(attacks: Sequence[Mapping[str, Any]]) -> str | None:
    """A row per figure between -1 and 1: value with interval, baseline as a line, bound as the end of a bar."""
    rows = [
        (f"{attack['title']}: {item['label']}", item)
        for attack in attacks
        for item in attack["figures"]
        if all(-1 <= end <= 1 for end in _ends(item))
    ]
    if not rows:
        return None
    with plotted((4.8, 0.9 + 0.44 * len(rows)), "attacks-plot") as (figure, element):
        axes = figure.add_subplot()
        for place, (_, item) in enumerate(rows):
            value = middle(item)
            if item.get("bound") is not None:
                start = item["baseline"] if item.get("baseline") is not None else 0.0
                label = "what the guarantee allows"
                axes.barh(place, item["bound"] - start, left=start, height=0.4, color=REAL, alpha=0.3, label=label)
            if item.get("baseline") is not None:
                axes.vlines(item["baseline"], place - 0.22, place + 0.22, color=INK, linewidth=1.4, label="baseline")
            low, high = item.get("interval") or (value, value)
            error = [[max(0.0, value - low)], [max(0.0, high - value)]]
            axes.errorbar(value, place, xerr=error, fmt="o", color=SYNTHETIC, markersize=6, capsize=3, label="attack")
        low = min(0.0, *(end for _, item in rows for end in _ends(item)))
        axes.set(xlim=(low, 1), ylim=(len(rows) - 0.6, -0.8))
        for place, (label, _) in enumerate(rows):  # above the bars: names are long, telephones narrow
            axes.text(low, place - 0.28, short(label, MOST_LETTERS), va="bottom", fontsize=8)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        figure.legend(once.values(), once.keys(), loc="outside lower left", ncols=3, fontsize=8.5, handlelength=1.4)
    told = "; ".join(_told(label, item) for label, item in rows)
    return element(f"Attacks beside baseline and bound. {told}.")


def _told(label: str, item: Mapping[str, Any]) -> str:
    parts = [f"{label} {said(item)}"]
    parts += [f"{name} {said(item[name])}" for name in ("baseline", "bound") if item.get(name) is not None]
    return ", ".join(parts)


def _ends(item: Mapping[str, Any]) -> list[float]:
    ends = [item["value"], *(item.get("interval") or ())]
    return [end for end in (*ends, item.get("baseline"), item.get("bound")) if end is not None]


def _diagonal(axes: Axes, x: str, y: str) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=DASHES)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x, ylabel=y, aspect="equal")
