"""Figures of the page on images, drawn in the manner of the tables' page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.evaluation_plots import INK, REAL, SYNTHETIC, svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CLASSES = 20
MOST_LETTERS = 18


def accuracy_plot(entry: Mapping[str, Any], metric: str, label: str, names: Mapping[str, str], key: str) -> str:
    """One target and metric: a row per classifier with real and synthetic, whiskers over the seeds, and the floor."""
    arms = (("trained on real pictures", "trtr", REAL, "D"), ("trained on synthetic pictures", "tstr", SYNTHETIC, "o"))
    models = [model for model in names if any(metric in entry[arm].get(model, {}) for _, arm, _, _ in arms)]
    floor = entry["floors"]["majority"][metric]["mean"]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, (words, arm, colour, marker) in enumerate(arms):
            found = [(i, entry[arm][m][metric]) for i, m in enumerate(models) if metric in entry[arm].get(m, {})]
            if not found:
                continue
            x, y = [v["mean"] for _, v in found], [i + (place - 0.5) * 0.25 for i, _ in found]
            low = [max(0.0, v["mean"] - min(v["values"])) for _, v in found]  # rounding may go below zero
            high = [max(0.0, max(v["values"]) - v["mean"]) for _, v in found]
            axes.hlines(y, 0, x, color=colour, alpha=0.35, linewidth=6)
            axes.errorbar(x, y, xerr=[low, high], fmt=marker, color=colour, markersize=6, capsize=3, label=words)
        axes.axvline(floor, color=INK, linewidth=0.8, linestyle=(0, (2, 2)), label="floor: always the majority class")
        axes.set(xlim=(0, 1.02), ylim=(len(models) - 0.5, -0.5), xlabel=label)
        axes.set_yticks(range(len(models)), [names[m] for m in models])
        axes.tick_params(axis="y", length=0)
        handles, labels = axes.get_legend_handles_labels()
        order = np.argsort([text.startswith("floor") for text in labels], kind="stable")
        shown = [handles[i] for i in order], [labels[i] for i in order]
        figure.legend(*shown, loc="outside lower left", ncols=1, fontsize=8.5, handlelength=1.4)

    said = "; ".join(
        f"{names[m]} {words} {entry[arm][m][metric]['mean']:.3f}"
        for m in models
        for words, arm, _, _ in arms
        if metric in entry[arm].get(m, {})
    )
    return svg(draw, (4.6, 1.4 + 0.55 * len(models)), f"{label} on real held-out pictures. {said}.", key)


def share_plot(name: str, labels: Sequence[str], real: Sequence[float], made: Sequence[float], key: str) -> str:
    """Bars per class in the schema's order, at most 20: real training records above synthetic ones."""
    shown = range(min(len(labels), MOST_CLASSES))

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        axes = figure.add_subplot()
        place = np.arange(len(shown))
        axes.barh(place - 0.19, [real[i] for i in shown], height=0.36, color=REAL, alpha=0.8)
        axes.barh(place + 0.19, [made[i] for i in shown], height=0.36, color=SYNTHETIC)
        axes.set_yticks(place, [_short(labels[i]) for i in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))

    worst = int(np.argmax(np.abs(np.array(real) - np.array(made))))
    alt = (
        f"Shares of the classes of {name}. Largest difference in {labels[worst]}: {100 * real[worst]:.1f} % of real "
        f"training records, {100 * made[worst]:.1f} % of synthetic ones."
    )
    return svg(draw, (3.6, 0.7 + 0.24 * max(len(shown), 4)), alt, key)


def intensity_plot(real: Sequence[float], made: Sequence[float], key: str) -> str:
    """Shares of grey levels, both roots taken, since most medical pictures are mostly black."""
    edges = np.linspace(0, 256, len(real) + 1)

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.stairs(np.sqrt(real), edges, fill=True, color=REAL, alpha=0.55)
        axes.stairs(np.sqrt(made), edges, color=SYNTHETIC, linewidth=1.6)
        _root_percent(axes, max(*real, *made))
        axes.set(xlim=(0, 256), xlabel="pixel value (0 black, 255 white)")
        axes.set_xticks([0, 64, 128, 192, 255])

    worst = int(np.argmax(np.abs(np.array(real) - np.array(made))))
    alt = (
        f"Shares of pixel values. Largest difference from {edges[worst]:.0f} to {edges[worst + 1] - 1:.0f}: "
        f"{100 * real[worst]:.1f} % of real training pixels, {100 * made[worst]:.1f} % of synthetic ones."
    )
    return svg(draw, (3.6, 2.2), alt, key)


def nearness_plot(found: Mapping[str, Any], label: str, key: str) -> str:
    """Quantiles of the distance to the nearest training record: a box from 25 to 75 %, a line from 5 to 95 %."""
    rows = (("real held-out", found["test"], REAL), ("synthetic", found["synthetic"], SYNTHETIC))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, (_, entry, colour) in enumerate(rows):
            q = entry["quantiles"]
            axes.hlines(place, q["0.05"], q["0.95"], color=colour, linewidth=2)
            axes.barh(place, q["0.75"] - q["0.25"], left=q["0.25"], height=0.44, color=colour, alpha=0.8)
            axes.vlines(q["0.5"], place - 0.22, place + 0.22, color=INK, linewidth=1.2)
        axes.set_yticks(range(2), [name for name, _, _ in rows])
        axes.set(ylim=(1.5, -0.5), xlabel=label)
        axes.set_xlim(left=0)
        axes.tick_params(axis="y", length=0)

    medians = ", ".join(f"{name} {entry['quantiles']['0.5']:.3g}" for name, entry, _ in rows)
    return svg(draw, (4.6, 1.5), f"{label}; medians: {medians}.", key)


def _root_percent(axes: Axes, top: float) -> None:
    marks = [m for m in (0.01, 0.1, 0.3, 0.6, 1.0) if m <= top * 1.2] or [top]
    axes.set_yticks(np.sqrt([0.0, *marks]), ["0 %", *(f"{100 * m:.3g} %" for m in marks)])
    axes.set_ylim(0, np.sqrt(top * 1.1))


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
