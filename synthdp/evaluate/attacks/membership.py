"""What both membership attacks make of their scores: how well members are told from as many non-members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.attacks.bounds import auroc, auroc_interval, proportion
from synthdp.evaluate.attacks.case import Figure, stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.attacks.bounds import Claim

SUREST = 0.05
ERROR = 0.05


def figures(
    inside: NDArray[np.float64], outside: NDArray[np.float64], claim: Claim | None, name: str
) -> tuple[Figure, ...]:
    """AUROC, the advantage of guessing `member` above the median of all scores, and the share of members among the 5 % of
    highest scores (Carlini et al. 2022: an attack that is right on a few records is a breach too).

    inside, outside: (n,) scores, higher for likelier members. Ties are broken by a fixed stream. All three are chance where
    the scores know nothing of membership.
    """
    rng, rows, each = stream(name), len(inside), ERROR / 3
    scores = np.concatenate([inside, outside])
    order = np.lexsort((rng.random(2 * rows), -scores))
    member = order < rows
    hits, top = int(member[:rows].sum()), max(1, round(SUREST * 2 * rows))
    low, high = proportion(2 * hits, 2 * rows, each)  # as many right among the lower half
    best = int(member[:top].sum())
    return (
        Figure(
            label="AUROC",
            value=auroc(inside, outside),
            interval=auroc_interval(inside, outside, rng, each),
            baseline=0.5,
            bound=claim.auroc if claim else None,
            better="chance",
        ),
        Figure(
            label="advantage at the median",
            value=2 * hits / rows - 1,
            interval=(2 * low - 1, 2 * high - 1),
            baseline=0.0,
            bound=claim.advantage if claim else None,
        ),
        Figure(
            label="members among the surest 5 %",
            value=best / top,
            interval=proportion(best, top, each),
            baseline=0.5,
            bound=claim.surest(top / (2 * rows)) if claim else None,
            better="chance",
        ),
    )
