"""Attribute inference: a column of a known record guessed from the synthetic row that is most like it in the others.

Guessing well is what useful synthetic rows do, for anyone; guessing *better for the records that were used* is the leak
(Giomi et al. 2023, section 4.3; Stadler, Oprisanu & Troncoso 2022, section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.attacks.bounds import difference
from synthdp.evaluate.attacks.case import MIN_ROWS, Case, Figure, Found, Lacking
from synthdp.evaluate.attacks.distances import nearest, points, width

if TYPE_CHECKING:
    from synthdp.evaluate.tables import Table

TITLE = "Attribute inference"
QUESTION = "Is a hidden value guessed better for records that were used?"
SOURCE = "Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023; Stadler, Oprisanu & Troncoso, USENIX Security 2022"
ORDER = 3
ERROR = 0.05
# A guessed number is right within this share of the middle 90 % of the synthetic values.
NEAR = 0.05

Count = tuple[int, int]


def attack(case: Case) -> Found | Lacking:
    """Per column: the share of right guesses on training records minus that on held-out ones."""
    if len(case.synthetic.axes) < 2:
        return Lacking(reason="there is no column to guess another from")
    if not case.secrets:
        return Lacking(reason="no target or sensitive column is named and no column has classes")
    counts = {name: guessed(case, name) for name in case.secrets}
    usable = {name: found for name, found in counts.items() if found is not None}
    if not usable:
        return Lacking(reason=f"fewer than {MIN_ROWS} known values, or only one value, in each column to guess")
    each = ERROR / len(usable)
    figures = tuple(
        Figure(
            label=f"{name}: right for training minus held-out records",
            value=ours[0] / ours[1] - theirs[0] / theirs[1],
            interval=difference(ours, theirs, each),
            baseline=0.0,
            bound=case.claim.advantage if case.claim else None,
        )
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
