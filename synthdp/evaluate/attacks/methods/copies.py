"""Exact copies: records that a synthetic row repeats in every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.attacks.bounds import difference
from synthdp.evaluate.attacks.case import Case, Figure, Found, Lacking

if TYPE_CHECKING:
    from synthdp.evaluate.tables import Table

TITLE = "Exact copies"
QUESTION = "Are training records repeated more often than records that were never seen?"
SOURCE = "Identical match share, with held-out records as the control"
ORDER = 7
ERROR = 0.05


def attack(case: Case) -> Found | Lacking:
    """Share of training records with an equal synthetic row minus the same of held-out records.

    In small domains many records are repeated by chance; held-out ones are then repeated as often.
    """
    made = set(_keys(case.synthetic))
    ours, theirs = (sum(key in made for key in _keys(table)) for table in (case.train, case.test))
    counts = (ours, case.train.rows), (theirs, case.test.rows)
    figure = Figure(
        label="copied training minus held-out records",
        value=ours / case.train.rows - theirs / case.test.rows,
        interval=difference(*counts, ERROR),
        baseline=0.0,
        bound=case.claim.advantage if case.claim else None,
    )
    text = (
        f"A synthetic row equals {ours:,} of {case.train.rows:,} training records and {theirs:,} of {case.test.rows:,} "
        "held-out records in every column."
    )
    return Found(figures=(figure,), text=text)


def _keys(table: Table) -> list[bytes]:
    """One key a row; equal rows have equal keys (missing is one value, and so are 0 and -0)."""
    plain = np.where(np.isnan(table.values), np.nan, table.values) + 0.0
    return [row.tobytes() for row in plain]
