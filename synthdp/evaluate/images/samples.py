"""The pictures that the page shows: per class synthetic beside real, and synthetic beside their nearest neighbours."""

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.evaluate.images.neighbours import MOST_ROWS, nearest
from synthdp.evaluate.images.pictures import Pictures, drawn, shrunk
from synthdp.evaluate.tables import Axis

# ---- What can be said without a network: shares of classes, intensities of pixels, mean pictures per class.


BINS = 32  # of 8 grey levels each
MISSING = "(missing or undeclared)"
WHITE = 255.0

Parts = tuple[Pictures, Pictures, Pictures]


def class_shares(axis: Axis, parts: Parts) -> dict[str, Any]:
    """Shares of the classes in synthetic, real training and real test records, and their total variation distances."""
    size = len(axis.levels)
    labels = [np.where((found := part.labels(axis)) < 0, size, found) for part in parts]
    shares = [np.bincount(each, minlength=size + 1) / max(len(each), 1) for each in labels]
    shown = size + any(share[size] > 0 for share in shares)
    return {"labels": [*axis.levels, MISSING][:shown], **_compared(*(share[:shown] for share in shares))}


def intensities(parts: Parts) -> dict[str, Any]:
    """Shares of pixel values in 32 bins of 8 grey levels, all channels together; total variation distances."""
    counts = [np.bincount(part.pixels.reshape(-1) >> 3, minlength=BINS) for part in parts]
    return _compared(*(count / count.sum() for count in counts))


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


def _compared(synthetic: NDArray[np.float64], train: NDArray[np.float64], test: NDArray[np.float64]) -> dict[str, Any]:
    mean, floor = (float(np.abs(shares - train).sum() / 2) for shares in (synthetic, test))
    shown = {"synthetic": synthetic.tolist(), "train": train.tolist(), "test": test.tolist()}
    return {"mean": mean, "floor": {"mean": floor}, **shown}


# ---- Sheets of pictures as PNG: small, lossless, one pixel a pixel; the page enlarges them without smoothing.


MOST_SIDE = 64  # larger pictures are averaged down, so that the page stays small


def sheet(pictures: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], columns: int, *, gap: int = 0) -> bytes:
    """A PNG of equal pictures, row by row, gap clear pixels between pictures.

    pictures: at least one, uint8, (height, width) or (height, width, channels); the places that the last row lacks
    stay clear. Two channels, or more than three, show their mean.
    """
    cells = np.asarray(pictures)
    if cells.ndim == 3:
        cells = cells[..., None]
    if cells.ndim != 4 or not len(cells) or cells.dtype != np.uint8:
        raise BadInput("pictures: give at least one uint8 array of (height, width) or (height, width, channels)")
    if columns < 1 or gap < 0:
        raise BadInput(f"columns must be at least 1 and gap at least 0, got {columns} and {gap}")
    if cells.shape[3] not in (1, 3):
        cells = np.rint(cells.mean(axis=3, keepdims=True)).astype(np.uint8)
    count, height, width, channels = cells.shape
    rows = -(-count // columns)
    clear = np.zeros((rows * columns, height + gap, width + gap, channels + 1), dtype=np.uint8)
    clear[:count, :height, :width, :channels], clear[:count, :height, :width, channels] = cells, 255
    whole = clear.reshape(rows, columns, height + gap, width + gap, -1).transpose(0, 2, 1, 3, 4)
    flat = whole.reshape(rows * (height + gap), columns * (width + gap), -1)
    flat = flat[: len(flat) - gap, : flat.shape[1] - gap]
    return _png(flat if (flat[..., channels] == 0).any() else flat[..., :channels])


def strip(pictures: NDArray[np.uint8]) -> dict[str, Any]:
    """One row of pictures (count, height, width, channels) for the page: PNG as a data URI, and its size in pixels."""
    small = shrunk(pictures, MOST_SIDE)
    picture = base64.b64encode(sheet(small, len(small), gap=1)).decode("ascii")
    return {
        "png": f"data:image/png;base64,{picture}",
        "count": len(small),
        "width": (small.shape[2] + 1) * len(small) - 1,
        "height": small.shape[1],
    }


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, 1 to 4): grey, grey and alpha, colour, colour and alpha."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


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
