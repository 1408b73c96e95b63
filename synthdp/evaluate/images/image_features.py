"""The space in which clouds of pictures are compared: learnt here, from the real training records, never downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate.images.image_classifiers import CNN_SIDE, ROWS_STREAM, Fitted, one_thread
from synthdp.evaluate.images.pictures import drawn, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

COMPONENTS = 64
PIXEL_SIDE = 16  # pictures are averaged down to it before their components are sought


@dataclass(frozen=True, kw_only=True)
class Features:
    """words: which features these are, for the reader. map: pixels (rows, h, w, c) -> (rows, dimensions), unscaled.

    centre and scale come from the real training records: one number for all dimensions, so that the mean variance is 1
    and distances of different data sets can be read side by side. scale is 0 where these records do not vary.
    """

    words: str
    map: Callable[[NDArray[np.uint8]], NDArray[np.float64]]
    centre: NDArray[np.float64]
    scale: float

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(rows, dimensions). Only where scale is not 0."""
        with one_thread():
            return (self.map(pixels) - self.centre) / self.scale


def of_classifier(target: str, ceiling: Fitted, train: NDArray[np.uint8]) -> Features | None:
    """The penultimate layer of the evaluation's CNN, trained (seed 0) on the real training records to tell the target's
    classes apart; None where it has seen one class only."""
    from synthdp.evaluate.images import feature_networks

    network = ceiling.learnt.network if ceiling.learnt is not None else None
    if network is None:
        return None
    words = (
        f"penultimate layer ({feature_networks.FEATURES} units) of the evaluation's CNN, trained on the real training records to "
        f"predict {target}; they are internal, and not comparable with figures on other features such as Inception's"
    )
    return _scaled(words, lambda x: feature_networks.features(network, shrunk(x, CNN_SIDE)), train)


def of_pixels(train: NDArray[np.uint8]) -> Features:
    """Principal components of the real training pixels, where there is no target to train a network on."""
    x = _flat(train[drawn(len(train), 10_000, np.random.default_rng((ROWS_STREAM, 0)))])
    mean = x.mean(axis=0)
    _, vectors = np.linalg.eigh((x - mean).T @ (x - mean))
    kept = vectors[:, ::-1][:, :COMPONENTS]
    words = (
        f"first {kept.shape[1]} principal components of the pixels of the real training records (there is no target)"
    )
    return _scaled(words, lambda pixels: (_flat(pixels) - mean) @ kept, train)


def _scaled(words: str, map: Callable[[NDArray[np.uint8]], NDArray[np.float64]], train: NDArray[np.uint8]) -> Features:
    with one_thread():
        found = map(train)
    variance = float(found.var(axis=0).mean())
    return Features(words=words, map=map, centre=found.mean(axis=0), scale=variance**0.5 if variance > 1e-12 else 0.0)


def _flat(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    return shrunk(pixels, PIXEL_SIDE).reshape(len(pixels), -1) / 255.0
