"""Students: they see public records and noisy labels only, so whatever they do is post-processing.

A student is a frozen dataclass of settings; `learn` returns what it learned. It may be any torch network or scikit-learn classifier.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSet:
    """What a student may see: all of it is public or was charged.

    `rows` (answers, width) are the features of the answered queries and `targets` (answers, classes) their noisy labels as
    weights that sum to 1 (one-hot, or noisy vote shares); `pool` (records, width) are all public records, without labels.
    """

    rows: NDArray[np.float32]
    targets: NDArray[np.float32]
    pool: NDArray[np.float32]

    @property
    def classes(self) -> int:
        """How many classes are declared; not all of them need occur."""
        return int(self.targets.shape[1])


class Learned(Protocol):
    """A student that has learned."""

    def probabilities(self, rows: NDArray[np.float32]) -> Probabilities:
        """(rows, width) features -> (rows, classes), each row sums to 1."""
        ...

    def tensors(self) -> Tensors | None:
        """The arrays that it is made of; None where it is made of something else (a scikit-learn object)."""
        ...


class Student(Protocol):
    """Settings of a student."""

    name: ClassVar[str]

    def learn(self, training: TrainingSet, seed: int) -> Learned:
        """What it makes of a training. All its randomness comes from `seed`."""
        ...

    def restore(self, width: int, classes: int, tensors: Tensors) -> Learned:
        """The student that `tensors` are of; raises `BadInput` where names or shapes do not fit."""
        ...


@dataclass(frozen=True, eq=False)
class Constant:
    """Predicts one class whatever it is shown: what there is to learn from labels of one class only."""

    place: int
    classes: int

    def probabilities(self, rows: NDArray[np.float32]) -> Probabilities:
        """One for that class."""
        found = np.zeros((len(rows), self.classes))
        found[:, self.place] = 1
        return found

    def tensors(self) -> None:
        """Not stored: it learns again in no time."""
        return


def margins(probabilities: Probabilities) -> NDArray[np.float64]:
    """(rows,): how far the likeliest class is ahead of the next; small where a student is unsure."""
    highest = np.sort(probabilities, axis=1)
    return highest[:, -1] - highest[:, -2]
