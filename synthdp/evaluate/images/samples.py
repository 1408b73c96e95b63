"""The pictures that the page shows: per class synthetic beside real, and synthetic beside their nearest neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.images.neighbours import MOST_ROWS, nearest
from synthdp.evaluate.images.pictures import drawn
from synthdp.evaluate.images.pixel_marginals import class_means
from synthdp.evaluate.images.sample_grid import strip

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from synthdp.evaluate.images.pictures import Pictures
    from synthdp.evaluate.tables import Axis

PER_CLASS, MOST_CLASSES, SHOWN = 8, 20, 10


def by_class(axis: Axis | None, synthetic: Pictures, train: Pictures, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Per class (at most 20; without axis all together) {"label", "synthetic", "train"}: each a strip of random
    pictures and one of their class's mean picture, or absent where the class has none."""
    names = [""] if axis is None else list(axis.levels[:MOST_CLASSES])
    parts = {"synthetic": synthetic, "train": train}
    means = {role: class_means(part, axis) for role, part in parts.items()}
    found: list[dict[str, Any]] = []
    for code, name in enumerate(names):
        entry: dict[str, Any] = {"label": name}
        for role, part in parts.items():
            rows = np.arange(part.rows) if axis is None else np.flatnonzero(part.labels(axis) == code)
            if len(rows):
                mean = np.rint(means[role][name]).astype(np.uint8)
                chosen = rows[rng.permutation(len(rows))[:PER_CLASS]]
                entry[role] = {"sample": strip(part.pixels[chosen]), "mean": strip(mean[None])}
        if len(entry) > 1:
            found.append(entry)
    return found


def beside_neighbours(
    synthetic: NDArray[np.uint8],
    train: NDArray[np.uint8],
    space: Callable[[NDArray[np.uint8]], NDArray[Any]],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """{"random", "closest"}: ten synthetic pictures each, of 1,000 drawn, above their nearest training records in space.

    "closest" are those with the smallest distance.
    """
    chosen = synthetic[drawn(len(synthetic), MOST_ROWS, rng)]
    place, apart = nearest(space(chosen), space(train))
    picks = {"random": rng.permutation(len(chosen))[:SHOWN], "closest": np.argsort(apart, kind="stable")[:SHOWN]}
    return {
        name: {
            "synthetic": strip(chosen[rows]),
            "train": strip(train[place[rows]]),
            "distances": [float(value) for value in apart[rows]],
        }
        for name, rows in picks.items()
    }
