"""Do predicted probabilities come true? The curve and the expected calibration error (Naeini, Cooper & Hauskrecht 2015;
Guo et al. 2017), over equally wide bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BINS = 10


def bins(chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """(rows,): the bin of each probability, 0 to BINS - 1."""
    found: NDArray[np.int64] = np.clip((chance * BINS).astype(np.int64), 0, BINS - 1)
    return found


def sums(hit: NDArray[np.bool_], chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, BINS): rows, sum of probabilities and number of hits in each bin. Sums of several models add up."""
    place = bins(chance)
    return np.stack([np.bincount(place, weights=w, minlength=BINS) for w in (np.ones(len(hit)), chance, hit)])


def ece(hit: NDArray[np.bool_], chance: NDArray[np.float64]) -> float:
    """Mean over rows of |share of hits - mean probability| of the row's bin."""
    rows, predicted, observed = sums(hit, chance)
    return float(np.abs(observed - predicted).sum() / max(rows.sum(), 1.0))


def curve(parts: Sequence[NDArray[np.float64]]) -> list[dict[str, Any]]:
    """The calibration curve of pooled predictions, a point per bin that holds any: mean probability, share of hits, and
    the rows in it per model (a mean over models and runs). parts: `sums` of each."""
    rows, predicted, observed = np.sum(parts, axis=0)
    return [
        {
            "predicted": float(predicted[i] / rows[i]),
            "observed": float(observed[i] / rows[i]),
            "rows": float(rows[i] / len(parts)),
        }
        for i in range(BINS)
        if rows[i] > 0
    ]
