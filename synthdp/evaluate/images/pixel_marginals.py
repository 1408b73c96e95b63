"""What can be said without a network: shares of classes, intensities of pixels, mean pictures per class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.images.pictures import Pictures
    from synthdp.evaluate.tables import Axis

BINS = 32  # of 8 grey levels each
MISSING = "(missing or undeclared)"
WHITE = 255.0

Parts = tuple["Pictures", "Pictures", "Pictures"]


def class_shares(axis: Axis, parts: Parts) -> dict[str, Any]:
    """Shares of the classes in synthetic, real training and real test records, and their total variation distances."""
    size = len(axis.levels)
    labels = [np.where((found := part.labels(axis)) < 0, size, found) for part in parts]
    shares = [np.bincount(each, minlength=size + 1) / max(len(each), 1) for each in labels]
    shown = [i for i in range(size + 1) if i < size or any(share[size] > 0 for share in shares)]
    return {
        "mean": _apart(shares[0], shares[1]),
        "floor": {"mean": _apart(shares[2], shares[1])},
        "labels": [(*axis.levels, MISSING)[i] for i in shown],
        **{
            role: [float(share[i]) for i in shown]
            for role, share in zip(("synthetic", "train", "test"), shares, strict=True)
        },
    }


def intensities(parts: Parts) -> dict[str, Any]:
    """Shares of pixel values in 32 bins of 8 grey levels, all channels together; total variation distances."""
    counts = [np.bincount(part.pixels.reshape(-1) >> 3, minlength=BINS) for part in parts]
    shares = [count / count.sum() for count in counts]
    return {
        "mean": _apart(shares[0], shares[1]),
        "floor": {"mean": _apart(shares[2], shares[1])},
        **{role: share.tolist() for role, share in zip(("synthetic", "train", "test"), shares, strict=True)},
    }


def mean_pictures(axis: Axis | None, parts: Parts) -> dict[str, Any]:
    """Root mean square difference of the mean pictures, black 0 to white 1, averaged over the classes that all three
    sets hold (without axis: one class). Absent ("mean") where there is no such class."""
    found = [class_means(part, axis) for part in parts]
    shared = [name for name in found[1] if all(name in means for means in found)]
    if not shared:
        return {}
    gaps = [
        [float(np.sqrt(np.mean((other[name] - found[1][name]) ** 2)) / WHITE) for name in shared]
        for other in (found[0], found[2])
    ]
    return {
        "mean": float(np.mean(gaps[0])),
        "floor": {"mean": float(np.mean(gaps[1]))},
        "classes": dict(zip(shared, gaps[0], strict=True)),
    }


def class_means(part: Pictures, axis: Axis | None) -> dict[str, NDArray[np.float64]]:
    """Per class that occurs, its mean picture (height, width, channels), 0 to 255. Without axis one mean, named ""."""
    if axis is None:
        return {"": part.pixels.mean(axis=0)} if part.rows else {}
    labels = part.labels(axis)
    return {axis.levels[c]: part.pixels[labels == c].mean(axis=0) for c in np.unique(labels) if c >= 0}


def _apart(left: Sequence[float] | NDArray[np.float64], right: Sequence[float] | NDArray[np.float64]) -> float:
    return float(np.abs(np.asarray(left) - np.asarray(right)).sum() / 2)
