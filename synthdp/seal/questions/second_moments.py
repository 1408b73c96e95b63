"""Noisy sums and second moments of clipped vectors, group by group: what one-shot generators learn from.

Both stream over the records, so that 60,000 images of 784 values need the memory of a few thousand. A unit counts once,
whatever the number of its records: it says the mean over them. So a patient of many images weighs as much as one of a single
image, and what is estimated is a mean over patients.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.callbacks import ByRow
from synthdp.seal.norms import check_clip, clipped
from synthdp.seal.records import Codes, Records

Array = NDArray[np.float64]
Vectors = Callable[[Codes], Any]  # codes (records, columns) -> (records, dimension)
Groups = Callable[[Codes], Any]  # codes (records, columns) -> (records,) whole numbers
CHUNK = 2048  # records at a time


@dataclass(frozen=True)
class _Grouped:
    """Vectors of records, clipped, in groups."""

    additive: ClassVar[bool] = True  # a sum over units
    vectors: Vectors
    dimension: int
    clip: float
    noise: float
    groups: Groups | None = None
    count: int = 1

    def __post_init__(self) -> None:
        check_clip(self.clip)
        if not self.noise >= 0:
            raise BadInput(f"noise must be 0 or more, got {self.noise}")
        if self.dimension < 1 or self.count < 1:
            raise BadInput(f"dimension and count must be 1 or more, got {self.dimension} and {self.count}")

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """The vectors, and the groups where there are several."""
        vectors = ("vectors", self.vectors, self.vectors)
        return [vectors] if self.groups is None else [vectors, ("groups", self.groups, self.groups)]

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all groups together."""
        return [Gaussian(self.noise)]

    def movement(self, one: Array, other: Array) -> float:
        """L2 distance over all groups; of moments, that of the vectors that the noise is added to (Frobenius)."""
        return float(np.linalg.norm(one - other))

    def _chunks(self, records: Records) -> Iterator[tuple[Array, Array, NDArray[np.int64]]]:
        """Clipped vectors, weights (one over the number of the unit's records) and groups of a few thousand records at a time."""
        codes = records.encoded()
        shares = 1 / np.maximum(np.bincount(records.owner, minlength=records.units), 1)
        for start in range(0, len(codes), CHUNK):
            part = codes[start : start + CHUNK]
            rows = np.asarray(self.vectors(part), dtype=np.float64)
            if rows.shape != (len(part), self.dimension):
                raise BadInput(f"vectors must return one row of length {self.dimension} per record")
            member = np.zeros(len(part), np.int64) if self.groups is None else np.asarray(self.groups(part))
            if member.shape != (len(part),) or member.dtype.kind not in "iu":
                raise BadInput("groups must return one whole number per record")
            yield clipped(rows, self.clip), shares[records.owner[start : start + CHUNK]], member.astype(np.int64)


@dataclass(frozen=True)
class GroupSums(_Grouped):
    """(groups, dimension): for each group the sum over units of the mean over the unit's records of [in the group] x.

    `vectors` gives one x per record, clipped to L2 norm `clip`; `groups` gives the record's group, 0 .. count - 1, or without
    it there is one. A record of another group, or whose x is not finite, counts as zero. Each record is a vector e_group (x)
    x of norm at most C = `clip`, a unit adds the mean of such vectors, and a mean of vectors of norm at most C has norm at
    most C: one unit moves the answer by at most C in L2, however many records it has. The deviation is noise * C.

    What `vectors` and `groups` say of a record must not depend on the others, not even by rounding: compute them row by
    row, or in float64.
    """

    @property
    def sensitivity(self) -> float:
        """C."""
        return self.clip

    def bounded(self, records: Records) -> Array:
        """The exact sums, float64."""
        total = np.zeros((self.count, self.dimension))
        for rows, weights, member in self._chunks(records):
            present = np.arange(self.count)[:, None] == member
            total += (present * weights) @ rows
        return total

    def noised(self, bounded: Array, noise: Noise) -> Array:
        """The noisy sums."""
        return noise.added(bounded, self.noise * self.sensitivity)


@dataclass(frozen=True)
class GroupMoments(_Grouped):
    """(groups, dimension, dimension): for each group the sum over units of the mean over the unit's records of [in the
    group] x x^T, as `GroupSums` otherwise.

    x x^T has Frobenius norm |x|^2, at most C^2 for C = `clip`, and again a mean over a unit's records has no more: one unit
    moves the answer by at most C^2 in Frobenius norm (over all groups, stacked). A symmetric matrix is told by its upper
    triangle; with the off-diagonal entries times sqrt(2) that vector's L2 norm is the Frobenius norm. So independent noise of
    deviation noise * C^2 on the diagonal and noise * C^2 / sqrt(2) off it is one Gaussian of `noise`.
    """

    @property
    def sensitivity(self) -> float:
        """C^2."""
        return self.clip**2

    def bounded(self, records: Records) -> Array:
        """The exact moments, float64."""
        total = np.zeros((self.count, self.dimension, self.dimension))
        for rows, weights, member in self._chunks(records):
            for group in np.unique(member[(member >= 0) & (member < self.count)]):
                inside = member == group
                part = rows[inside]
                total[group] += (part * weights[inside, None]).T @ part
        return total

    def noised(self, bounded: Array, noise: Noise) -> Array:
        """The noisy moments, symmetric."""
        scale = self._scale()
        upper = np.triu_indices(self.dimension)
        noisy = noise.added((bounded * scale)[:, upper[0], upper[1]], self.noise * self.sensitivity)
        answer = np.zeros_like(bounded)
        answer[:, upper[0], upper[1]] = noisy / scale[upper]
        answer[:, upper[1], upper[0]] = noisy / scale[upper]
        return answer

    def _scale(self) -> Array:
        """1 on the diagonal, sqrt(2) off it."""
        return np.where(np.eye(self.dimension, dtype=np.bool_), 1.0, math.sqrt(2))
