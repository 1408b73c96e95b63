"""Curves and points of the internal page: calibration, precision and recall of supports, attacks beside their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.evaluation_plots import FLOOR, INK, REAL, SYNTHETIC, svg
from synthdp.evaluate.figures import middle, said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES = (0, (2, 2))
ARMS = (("trtr", "trained on real rows", REAL, "D"), ("tstr", "trained on synthetic rows", SYNTHETIC, "o"))


def calibration_plot(curves: Mapping[str, Sequence[Mapping[str, Any]]], target: str, key: str) -> str:
    """Observed share of the class against the predicted chance, a line per arm; larger points hold more rows."""
    arms = [arm for arm in ARMS if curves.get(arm[0])]

    def draw(figure: Figure) -> None:
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
    return svg(draw, (4.0, 3.9), f"Calibration of the models that predict {target}. {told}.", key)


def manifold_plot(found: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """Alpha-precision and beta-recall per level of the support; on the diagonal both sets are alike (Alaa et al. 2022)."""
    lines = [
        (name, label, colour)
        for name, label, colour in (
            ("alpha_precision", "alpha-precision (synthetic rows inside the real support)", SYNTHETIC),
            ("beta_recall", "beta-recall (real rows that synthetic ones cover)", FLOOR),
        )
        if found.get(name, {}).get("curve")
    ]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for name, label, colour in lines:
            x, y = zip(*found[name]["curve"], strict=True)
            axes.plot(x, y, color=colour, linewidth=1.6, marker="o", markersize=3, label=label)
        _diagonal(axes, "share of the support", "share of rows")
        figure.legend(loc="outside lower left", ncols=1, fontsize=8.5, handlelength=1.4)

    told = "; ".join(
        f"{label}: " + ", ".join(f"{y:.2f} at {x:.2f}" for x, y in found[name]["curve"]) for name, label, _ in lines
    )
    return svg(draw, (4.6, 4.2), f"Precision and recall of the synthetic support. {told}.", key)


def attack_plot(attacks: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """A row per figure between -1 and 1: value with interval, baseline as a line, bound as the end of a bar."""
    rows = [
        (f"{attack['title']}: {item['label']}", item)
        for attack in attacks
        for item in attack["figures"]
        if all(-1 <= end <= 1 for end in _ends(item))
    ]
    if not rows:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        labelled: set[str] = set()

        def once(label: str) -> str:
            fresh = label not in labelled
            labelled.add(label)
            return label if fresh else "_nolegend_"

        for place, (_, item) in enumerate(rows):
            value = middle(item)
            if item.get("bound") is not None:
                start = item["baseline"] if item.get("baseline") is not None else 0.0
                label = once("what the guarantee allows")
                axes.barh(place, item["bound"] - start, left=start, height=0.4, color=REAL, alpha=0.3, label=label)
            if item.get("baseline") is not None:
                axes.vlines(
                    item["baseline"], place - 0.22, place + 0.22, color=INK, linewidth=1.4, label=once("baseline")
                )
            low, high = item.get("interval") or (value, value)
            error = [[max(0.0, value - low)], [max(0.0, high - value)]]
            axes.errorbar(
                value, place, xerr=error, fmt="o", color=SYNTHETIC, markersize=6, capsize=3, label=once("attack")
            )
        low = min(0.0, *(end for _, item in rows for end in _ends(item)))
        axes.set(xlim=(low, 1), ylim=(len(rows) - 0.6, -0.8))
        for place, (label, _) in enumerate(rows):  # above the bars: names are long, telephones narrow
            axes.text(low, place - 0.28, label, va="bottom", fontsize=8)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        figure.legend(loc="outside lower left", ncols=3, fontsize=8.5, handlelength=1.4)

    told = "; ".join(_told(label, item) for label, item in rows)
    return svg(draw, (4.8, 0.9 + 0.44 * len(rows)), f"Attacks beside baseline and bound. {told}.", key)


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
