"""Attacks by someone who holds some columns of a record: guess another one of it, or join the two halves of it.

Our own implementations, after Giomi et al. 2023, sections 4.2 and 4.3, and Stadler, Oprisanu & Troncoso 2022,
section 6. Guessing well is what useful synthetic rows do, for anyone; guessing *better for the records that were used* is
the leak.
"""

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.attacks.case import MIN_ROWS, Attack, Case, Count, Found
from synthdp.evaluate.attacks.distances import nearest, paired, points, width
from synthdp.evaluate.tables import Table

ERROR = 0.05
# A guessed number is right within this share of the middle 90 % of the synthetic values.
NEAR = 0.05


def attribute(case: Case) -> Found | str:
    """Per column: the share of right guesses on training records minus that on held-out ones."""
    if len(case.synthetic.axes) < 2:
        return "there is no column to guess another from"
    if not case.secrets:
        return "no target or sensitive column is named and no column has classes"
    counts = {name: guessed(case, name) for name in case.secrets}
    usable = {name: found for name, found in counts.items() if found is not None}
    if not usable:
        return f"fewer than {MIN_ROWS} known values, or only one value, in each column to guess"
    each = ERROR / len(usable)
    figures = tuple(
        case.gap(f"{name}: share right, training minus held-out records", ours, theirs, each)
        for name, (ours, theirs) in usable.items()
    )
    shares = "; ".join(
        f"{name} {100 * ours[0] / ours[1]:.1f} % and {100 * theirs[0] / theirs[1]:.1f} %"
        for name, (ours, theirs) in usable.items()
    )
    skipped = len(counts) - len(usable)
    more = (
        f" {skipped} more columns could not be judged, because they have too few known values or only one."
        if skipped
        else ""
    )
    text = f"Right guesses on training and on held-out records: {shares}. Only the difference is a leak.{more}"
    return Found(figures=figures, text=text)


def guessed(case: Case, name: str) -> tuple[Count, Count] | None:
    """(right, records) of members and of outsiders whose value is known; None where that says nothing."""
    place = case.synthetic.index(name)
    axis, made = case.synthetic.axes[place], _known(case.synthetic, place)
    sides = [_known(table, place) for table in (case.members, case.outsiders)]
    if min(made.rows, *(side.rows for side in sides)) < MIN_ROWS:
        return None
    if len(np.unique(np.concatenate([side.values[:, place] for side in sides]))) < 2:
        return None
    others = made.without(name)
    among = points(others, others)
    slack = NEAR * width(axis, made.values[:, place]) if axis.kind == "number" else 0.0
    right = []
    for side in sides:
        found = nearest(points(side.without(name), others), among, case.jobs)[0]
        off = np.abs(made.values[found, place] - side.values[:, place])
        right.append((int((off <= slack).sum()), side.rows))
    return right[0], right[1]


def _known(table: Table, place: int) -> Table:
    return table.take(~np.isnan(table.values[:, place]))


def linkability(case: Case) -> Found | str:
    """Share of training records whose two halves share a nearest synthetic row minus that of held-out records.

    The columns are dealt to the halves in turn, so that both have some of what a schema lists side by side.
    """
    columns = len(case.synthetic.axes)
    if columns < 2:
        return "the table has fewer than two columns to link"
    halves = [np.arange(start, columns, 2) for start in (0, 1)]
    ours, theirs = (linked(case, table, halves) for table in (case.members, case.outsiders))
    rows = case.members.rows
    figure = case.gap("share linked, training minus held-out records", (ours, rows), (theirs, rows), ERROR)
    text = (
        f"One synthetic row is nearest in both halves of the columns for {ours:,} of {rows:,} training and "
        f"{theirs:,} of as many held-out records."
    )
    return Found(figures=(figure,), text=text)


def linked(case: Case, table: Table, halves: list[NDArray[np.int64]]) -> int:
    """How many rows have a synthetic row that is nearest in one half of the columns and among the nearest in the other.

    Halves are dealt unevenly telling: one with a number of many values may point at one row, while many rows share the
    other; equals are therefore all nearest.
    """
    made = [case.synthetic.pick(half) for half in halves]
    among = [points(part, part) for part in made]
    own = [points(table.pick(half), part) for half, part in zip(halves, made, strict=True)]
    found = [nearest(of, rows, case.jobs) for of, rows in zip(own, among, strict=True)]
    agree = [paired(own[1 - i], among[1 - i], found[i][0]) <= found[1 - i][1] for i in (0, 1)]
    return int((agree[0] | agree[1]).sum())


ATTRIBUTE = Attack(
    title="Attribute inference",
    question="Is a hidden value guessed better for records that were used?",
    source="Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023; Stadler, Oprisanu & Troncoso, USENIX Security 2022",
    attack=attribute,
)

LINKABILITY = Attack(
    title="Linkability",
    question="Do the synthetic rows join two halves of a training record?",
    source="Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023",
    attack=linkability,
)
