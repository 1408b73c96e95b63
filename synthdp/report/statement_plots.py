"""The plots of the statement, as SVG text to stand inside a page."""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from synthdp.report import meaning
from synthdp.report.words import percent, scientific

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

    with drawn() as (axes, text):
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
    most = [meaning.detection(points, rate) for rate in rates]
    with drawn() as (axes, text):
        axes.plot(rates, most, color=ACCENT, linewidth=1.6, label="any attack, at most")
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1.0, linestyle=(0, (3, 3)), label="guessing")
        axes.legend(loc="lower right", frameon=False, labelcolor=INK)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("false alarms", color=INK)
        axes.set_ylabel("found", color=INK)
    told = "A rising curve above the diagonal of guessing: " + "; ".join(
        f"at {percent(rate)} false alarms at most {percent(meaning.detection(points, rate))} are found"
        for rate in (0.01, 0.1, 0.5)
    )
    return inline(text.getvalue(), "tradeoff", "What any attacker can find", f"{told}.")


@contextmanager
def drawn() -> Iterator[tuple[Any, io.StringIO]]:
    """Axes in the page's style to draw on; at the end of the block the text buffer holds the SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "synthdp",
        "font.family": "sans-serif",
        "font.size": 10,
    }
    text = io.StringIO()
    with mpl.rc_context(style):
        figure = Figure(figsize=(5.0, 3.1))
        axes = figure.add_axes((0.115, 0.165, 0.86, 0.805))
        yield axes, text
        axes.grid(color=FAINT, linewidth=0.6)
        axes.tick_params(colors=INK, length=0)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(INK)
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)


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
