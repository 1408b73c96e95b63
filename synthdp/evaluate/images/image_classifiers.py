"""The classifiers that images are judged by: one entry each. A new one is one function and one line of `CLASSIFIERS`."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from synthdp.evaluate.estimators import chosen, limited
from synthdp.evaluate.images.pictures import drawn, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.images.feature_networks import Network

    # (training pixels, labels below classes, each of which occurs, classes, seed)
    Learn = Callable[[NDArray[np.uint8], NDArray[np.int64], int, int], "Learnt"]

# Larger pictures are averaged down to these sides first, so that time and memory stay bounded.
FLAT_SIDE, CNN_SIDE = 32, 64
# Training pictures of up to 32 x 32; of larger ones fewer, in proportion to their area, but not below the second.
MOST_ROWS, LEAST_ROWS = 60_000, 15_000
LR_STEPS = 100
ROWS_STREAM = 13


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """judge: pixels (rows, height, width, channels) -> chances (rows, classes). network: what is behind it, if it is one."""

    judge: Callable[[NDArray[np.uint8]], NDArray[np.float64]]
    network: Network | None = None


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """id: the key in the JSON. seeded: whether another seed gives another fit. side: pictures are shrunk to it."""

    id: str
    label: str
    seeded: bool
    side: int
    learn: Learn


def logistic_regression(x: NDArray[np.uint8], y: NDArray[np.int64], _classes: int, _seed: int) -> Learnt:
    """Multinomial, on centred pixels of unit scale; 100 steps of L-BFGS (on MNIST 92.6 %, 50 steps give 92.2 %)."""
    mean, scale = x.mean(axis=0, dtype=np.float64).astype(np.float32), np.float32(255.0)

    def flat(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        centred: NDArray[np.float32] = (pixels - mean) / scale
        return centred.reshape(len(pixels), -1)

    model: Any = LogisticRegression(C=1.0, max_iter=LR_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(flat(x), y)
    return Learnt(judge=lambda pixels: model.predict_proba(flat(pixels)))


def network(kind: str) -> Learn:
    """How the network learns that the function `kind` of `feature_networks` makes."""

    def learn(x: NDArray[np.uint8], y: NDArray[np.int64], classes: int, seed: int) -> Learnt:
        from synthdp.evaluate.images import feature_networks

        made = getattr(feature_networks, kind)(x.shape[1:], classes)
        feature_networks.train(made, x, y, seed)
        return Learnt(judge=lambda pixels: feature_networks.chances(made, pixels), network=made)

    return learn


CLASSIFIERS: dict[str, Classifier] = {
    entry.id: entry
    for entry in (
        Classifier(id="lr", label="Logistic regression", seeded=False, side=FLAT_SIDE, learn=logistic_regression),
        Classifier(id="mlp", label="MLP", seeded=True, side=FLAT_SIDE, learn=network("perceptron")),
        Classifier(id="cnn", label="CNN", seeded=True, side=CNN_SIDE, learn=network("convolutional")),
    )
}
MODELS = tuple(CLASSIFIERS)
PRESETS = {"default": MODELS, "quick": ("lr",), "paper": MODELS}


def classifiers(ids: str | Sequence[str] | None) -> tuple[Classifier, ...]:
    """The registered classifiers with these ids; see `chosen`."""
    return chosen(ids, CLASSIFIERS, PRESETS, "those known for images")


def most_rows(shape: tuple[int, ...]) -> int:
    """How many training pictures of (height, width, channels) a classifier is given at most."""
    area = shape[0] * shape[1] / FLAT_SIDE**2
    return max(LEAST_ROWS, min(MOST_ROWS, int(MOST_ROWS / area)))


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A classifier after its training. occur: the classes it has seen, of `classes`."""

    learnt: Learnt | None
    occur: NDArray[np.int64]
    classes: int
    side: int

    def chances(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """(rows, classes): a class without a training row has probability 0; one class alone has probability 1."""
        out = np.zeros((len(pixels), self.classes))
        if self.learnt is None:
            out[:, self.occur] = 1.0
        else:
            with threads():
                out[:, self.occur] = self.learnt.judge(shrunk(pixels, self.side))
        return out


def fitted(
    classifier: Classifier, pixels: NDArray[np.uint8], labels: NDArray[np.int64], classes: int, seed: int
) -> Fitted:
    """The classifier trained on pixels (rows, height, width, channels) and labels (rows,) below classes; at least one row.

    Of very many rows a sample is used: see `most_rows`.
    """
    occur = np.unique(labels)
    learnt = None
    if len(occur) > 1:
        chosen = drawn(len(pixels), most_rows(pixels.shape[1:]), np.random.default_rng((ROWS_STREAM, seed)))
        occur = np.unique(labels[chosen])
        with threads():
            x, y = shrunk(pixels[chosen], classifier.side), np.searchsorted(occur, labels[chosen])
            learnt = classifier.learn(x, y, len(occur), seed) if len(occur) > 1 else None
    return Fitted(learnt=learnt, occur=occur, classes=classes, side=classifier.side)


@contextmanager
def threads(most: int = 1) -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to `most` threads within the block. Models learn in one thread: on cores that others use too, spinning
    threads cost minutes, and sums in another order would give other figures for the same seed."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(most)
    try:
        with limited(most):
            yield
    finally:
        torch.set_num_threads(before)
