"""Figures of histories as inline SVG: timelines of synthetic people, which type of visit follows which, and survival curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from synthdp.errors import closed
from synthdp.evaluate.evaluation_plots import FLOOR, INK, INVENTED, REAL, SYNTHETIC, plotted, short, square

# Of types of visits: told apart by form too, and mid tones that hold on white and on black.
FORMS = (
    ("o", SYNTHETIC), ("s", FLOOR), ("^", INVENTED), ("D", "#c8553d"), ("v", "#5b8c3e"),
    ("P", "#4a78c9"), ("X", "#b5679b"), ("*", "#8c7a3e"), ("p", REAL), ("h", REAL),
)  # fmt: skip
MOST_TABLES = 4  # below visits, with a line of their own below a person's
MOST_WRITTEN = 9  # types whose shares are written into the cells
MONTHS, MOST_TICKS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600), 7  # between dates at an axis
LINE = 0.14  # of a person's row, for a table below visits


def part(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a result's `histories`, with the plots; empty where there is none. What an older result lacks is None."""
    if not found:
        return {}
    types, people = found.get("types") or {}, found.get("timelines") or []
    labels, drawn = types.get("labels", []), dict[str, Any](timelines=None, steps=[])
    unit = "days" if any(isinstance(each["visits"][0]["at"], str) for each in people) else "steps"
    if people:
        drawn["timelines"] = timelines(people, labels, "timelines")
    if found.get("steps"):
        shares = {name: followed(each) for name, each in found["steps"]["shares"].items()}
        most = max(float(shares[name].max()) for name in ("train", "synthetic"))
        drawn["steps"] = [
            (label, steps(shares[name], labels, most, label, f"steps-{name}", real=name == "train"))
            for name, label in (("train", "Real training people"), ("synthetic", "Synthetic people"))
        ]
    drawn["survival"] = [
        (each, survival(each, unit, f"survival{place}")) for place, each in enumerate(found.get("survival") or [])
    ]
    return {
        **dict.fromkeys(("types", "steps", "orders", "survival")),
        "ever": [],
        **found,
        "plots": drawn,
        "unit": unit,
    }


def timelines(people: Sequence[Mapping[str, Any]], labels: Sequence[str], key: str) -> str:
    """A row per person: visits as marks by type, below them a small mark for each row, and the dates that end a history."""
    tables = sorted({name for person in people for visit in person["visits"] for name in visit["rows"]})[:MOST_TABLES]
    ends = sorted({name for person in people for name in person["ends"]})
    dated = any(isinstance(visit["at"], str) for person in people for visit in person["visits"])

    def place(at: str | float) -> float:
        return float(np.datetime64(at, "D").astype(np.int64)) if isinstance(at, str) else at

    legend = 0.22 * (1 + (len(labels) + len(tables) + len(ends)) // 3)
    height = 0.5 + legend + len(people) * (0.3 + 0.09 * len(tables))
    with plotted((7.4, height), key) as (figure, element):
        axes = figure.add_subplot()
        marks: dict[str, list[tuple[float, float]]] = {}
        for row, person in enumerate(people):
            when = [place(visit["at"]) for visit in person["visits"]]
            last = max(when + [place(at) for at in person["ends"].values()])
            axes.hlines(row, when[0], last, color=REAL, alpha=0.5, linewidth=1)
            for visit, at in zip(person["visits"], when, strict=True):
                marks.setdefault(visit.get("type", "visit"), []).append((at, row))
                for line, name in enumerate(tables):
                    for number in range(visit["rows"].get(name, 0)):
                        shift = ScaledTranslation(number * 4 / 72, 0, figure.dpi_scale_trans)
                        form = "|" if line % 2 else "."
                        axes.plot(
                            at,
                            row + 0.27 + LINE * line,
                            form,
                            color=INK,
                            alpha=0.75,
                            markersize=4,
                            transform=axes.transData + shift,
                        )
        for (form, colour), label in zip(FORMS, labels or ["visit"], strict=False):
            if found := marks.get(label):
                x, y = zip(*found, strict=True)
                axes.plot(x, y, form, color=colour, markersize=7, label=short(label, 28))
        for line, name in enumerate(tables):
            axes.plot([], [], "|" if line % 2 else ".", color=INK, alpha=0.75, markersize=5, label=f"a row of {name}")
        for form, name in zip("x+12", ends, strict=False):
            found = [(place(person["ends"][name]), row) for row, person in enumerate(people) if name in person["ends"]]
            axes.plot(*zip(*found, strict=True), form, color=INK, markersize=8, markeredgewidth=1.6, label=name)
        axes.set_yticks(range(len(people)), [str(row + 1) for row in range(len(people))])
        axes.set_ylim(len(people) - 0.4 + LINE * len(tables), -0.5)
        axes.tick_params(axis="y", length=0)
        if dated:
            axes.set_xticks(*ticks(*axes.get_xlim()))
        figure.legend(loc="outside lower left", ncols=3, fontsize=8.5, handlelength=1.2)
    told = "; ".join(
        f"{row + 1}: "
        + ", ".join(" ".join([str(visit["at"]), visit.get("type", "")]).strip() for visit in person["visits"])
        + "".join(f", {name} {at}" for name, at in person["ends"].items())
        for row, person in enumerate(people)
    )
    return element(f"Histories of {len(people)} synthetic people. {told}.")


def ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """At most seven days since 1970 between two, beginnings of months or years where there are two of them, and their names."""
    first, last = np.array([low, high]).round().astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    for step in MONTHS:
        found = np.arange((first // step + 1) * step, last + 1, step).astype("datetime64[M]")
        if 2 <= len(found) <= MOST_TICKS:
            days = found.astype("datetime64[D]").astype(np.float64)
            return days.tolist(), [str(each)[: 4 if step % 12 == 0 else None] for each in found]
    days = np.unique(np.linspace(low, high, 4).round())
    return days.tolist(), [str(each) for each in days.astype("datetime64[D]")]


def followed(shares: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """The shares of the types that follow each type (a row), from the shares of pairs."""
    joint = np.array(shares)
    whole = joint.sum(axis=1, keepdims=True)
    found: NDArray[np.float64] = np.divide(joint, whole, out=np.zeros_like(joint), where=whole > 0)
    return found


def steps(values: NDArray[np.float64], labels: Sequence[str], most: float, label: str, key: str, *, real: bool) -> str:
    """Type of a visit by that of the next one: `followed` as a chart. Strength is opacity, and `most` the share of the strongest."""
    names = [short(name, 16) for name in labels]
    side = max(2.6, 1.5 + 0.3 * len(names))
    with plotted((side + 0.3, side), key) as (figure, element):
        colour = REAL if real else SYNTHETIC
        colours = LinearSegmentedColormap.from_list("opacity", [(*to_rgb(colour), 0.04), (*to_rgb(colour), 0.85)], N=48)
        axes = figure.add_subplot()
        axes.pcolormesh(values, cmap=colours, vmin=0.0, vmax=most)
        if len(names) <= MOST_WRITTEN:
            for (row, column), value in np.ndenumerate(values):
                axes.text(column + 0.5, row + 0.5, f"{100 * value:.0f}", ha="center", va="center", fontsize=8.5)
        square(axes, names)
        axes.set(xlabel="next visit", ylabel="visit")
    told = "; ".join(
        f"after {one} {100 * values[i, j]:.0f} % {other}"
        for i, one in enumerate(labels)
        for j, other in enumerate(labels)
    )
    return element(f"{label}, in percent. {told}.")


def survival(found: Mapping[str, Any], unit: str, key: str) -> str:
    """The shares without the event, of synthetic and of held-out people."""
    curves = found["curves"]
    with plotted((4.4, 3.1), key) as (figure, element):
        axes = figure.add_subplot()
        for name, label, colour, width in (
            ("test", "real held-out people", REAL, 3.0),
            ("synthetic", "synthetic people", SYNTHETIC, 1.8),
        ):
            axes.step(curves["at"], curves[name], where="post", color=colour, linewidth=width, label=label)
        axes.set(
            xlim=(0, max(curves["at"][-1], 1e-9)),
            ylim=(0, 1.02),
            xlabel=f"{unit} since the first visit",
            ylabel="share without it",
        )
        figure.legend(loc="outside lower left", ncols=2, fontsize=8.5, handlelength=1.6)
    told = ", ".join(
        f"after {at:.0f} {unit} {made:.2f} of synthetic and {real:.2f} of real people"
        for at, made, real in list(zip(curves["at"], curves["synthetic"], curves["test"], strict=True))[::25]
    )
    without = closed(f"People without {found['event']}")
    return element(f"{without} {told}.")
