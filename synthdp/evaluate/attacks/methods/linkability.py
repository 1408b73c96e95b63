"""Linkability: two sources hold different columns of one person; do the synthetic rows tell which belong together?

The idea of Giomi et al. 2023, section 4.2, in an implementation of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.attacks.bounds import difference
from synthdp.evaluate.attacks.case import Case, Figure, Found, Lacking
from synthdp.evaluate.attacks.distances import nearest, paired, points
from synthdp.evaluate.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

TITLE = "Linkability"
QUESTION = "Do the synthetic rows join two halves of a training record?"
SOURCE = "Giomi, Boenisch, Wehmeyer & Tasnádi, PoPETs 2023"
ORDER = 5
ERROR = 0.05


def attack(case: Case) -> Found | Lacking:
    """Share of training records whose two halves share a nearest synthetic row minus that of held-out records.

    The columns are dealt to the halves in turn, so that both have some of what a schema lists side by side.
    """
    columns = len(case.synthetic.axes)
    if columns < 2:
        return Lacking(reason="the table has fewer than two columns to link")
    halves = [np.arange(start, columns, 2) for start in (0, 1)]
    ours, theirs = (linked(case, table, halves) for table in (case.members, case.outsiders))
    rows = case.members.rows
    figure = Figure(
        label="linked training minus held-out records",
        value=(ours - theirs) / rows,
        interval=difference((ours, rows), (theirs, rows), ERROR),
        baseline=0.0,
        bound=case.claim.advantage if case.claim else None,
    )
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
    made = [_part(case.synthetic, half) for half in halves]
    among = [points(part, part) for part in made]
    own = [points(_part(table, half), part) for half, part in zip(halves, made, strict=True)]
    found = [nearest(of, rows, case.jobs) for of, rows in zip(own, among, strict=True)]
    agree = [paired(own[1 - i], among[1 - i], found[i][0]) <= found[1 - i][1] for i in (0, 1)]
    return int((agree[0] | agree[1]).sum())


def _part(table: Table, columns: NDArray[np.int64]) -> Table:
    return Table(axes=tuple(table.axes[c] for c in columns), values=table.values[:, columns])
