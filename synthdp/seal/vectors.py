"""Noisy sums of clipped per-unit vectors: several groups from one sample, clipped separately or jointly (McMahan, Andrew et
al. 2018, sections 2 to 4). How to share noise among groups: `proportional` and `by_dimension` in `seal/clipping.py`."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.clipping import check_clip, clipped
from synthdp.seal.records import Codes, Records

if TYPE_CHECKING:
    from synthdp.seal.callbacks import ByRow

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """One group: `vectors` maps codes (records, columns) to one vector per record, (records, dimension).

    A unit's vector is the sum over its records, clipped to L2 norm `clip`; the answer's deviation is `noise * clip`. What
    `vectors` says of a record must not depend on the others, not even by rounding: compute it row by row, or in float64.
    """

    vectors: Callable[[Codes], Any]
    dimension: int
    clip: float
    noise: float

    def __post_init__(self) -> None:
        check_clip(self.clip)
        if not self.noise >= 0:
            raise BadInput(f"noise must be 0 or more, got {self.noise}")


@dataclass(frozen=True)
class Sums:
    """Several groups, each clipped on its own; together one Gaussian of noise (sum of 1 / noise^2)^(-1/2)."""

    additive: ClassVar[bool] = True  # a sum over units
    groups: tuple[Group, ...]

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian per group."""
        return [Gaussian(group.noise) for group in self.groups]

    @property
    def by_row(self) -> "Sequence[tuple[str, Callable[..., Any], ByRow]]":
        """The groups' vectors."""
        return [(f"vectors of group {place}", group.vectors, group.vectors) for place, group in enumerate(self.groups)]

    @property
    def sensitivity(self) -> float:
        """In units of each group's clip, stacked."""
        return math.sqrt(len(self.groups))

    def bounded(self, records: Records) -> list[Vector]:
        """The clipped sums, float64."""
        return [clipped_sum(records, group) for group in self.groups]

    def noised(self, bounded: list[Vector], noise: "Noise") -> list[Vector]:
        """One noisy vector per group."""
        pairs = zip(bounded, self.groups, strict=True)
        return [noise.added(total, group.noise * group.clip) for total, group in pairs]

    def movement(self, one: list[Vector], other: list[Vector]) -> float:
        """L2 distance with each group in units of its clip."""
        triples = zip(one, other, self.groups, strict=True)
        return math.sqrt(sum(float(np.linalg.norm(a - b) / group.clip) ** 2 for a, b, group in triples))


@dataclass(frozen=True)
class Scaled:
    """One group of a `Joint` question: like `Group`, but with an alpha, which its vectors are divided by, in place
    of a clip and a noise of its own."""

    vectors: Callable[[Codes], Any]
    dimension: int
    alpha: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise BadInput(f"alpha must be a finite number greater than 0, got {self.alpha}")


@dataclass(frozen=True)
class Joint:
    """Several groups clipped together (McMahan & Andrew 2018): a unit's vectors v_g, each divided by its alpha_g, are clipped as
    one vector to `clip`.

    That concatenation is one vector per unit of norm at most S = `clip`, so its sum is one Gaussian query of sensitivity S
    and deviation noise * S, whatever the alphas are; multiplying group g of the answer by alpha_g is post-processing, and leaves
    it with the deviation noise * S * alpha_g.
    """

    additive: ClassVar[bool] = True  # a sum over units
    groups: tuple[Scaled, ...]
    clip: float
    noise: float

    def __post_init__(self) -> None:
        if not self.groups:
            raise BadInput("groups must have at least one group")
        Group(self._together, self._dimension, self.clip, self.noise)  # its checks of clip and noise

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all groups together."""
        return [Gaussian(self.noise)]

    @property
    def by_row(self) -> "Sequence[tuple[str, Callable[..., Any], ByRow]]":
        """The groups' vectors."""
        return [(f"vectors of group {place}", group.vectors, group.vectors) for place, group in enumerate(self.groups)]

    @property
    def sensitivity(self) -> float:
        """S, of the scaled groups stacked."""
        return self.clip

    def bounded(self, records: Records) -> Vector:
        """The clipped sum of the scaled groups, one after another, float64."""
        return clipped_sum(records, Group(self._together, self._dimension, self.clip, self.noise))

    def noised(self, bounded: Vector, noise: "Noise") -> list[Vector]:
        """One noisy vector per group, in the group's own scale."""
        noisy = noise.added(bounded, self.noise * self.clip)
        ends = np.cumsum([group.dimension for group in self.groups])[:-1]
        return [part * group.alpha for part, group in zip(np.split(noisy, ends), self.groups, strict=True)]

    def movement(self, one: Vector, other: Vector) -> float:
        """L2 distance of the scaled groups, stacked."""
        return float(np.linalg.norm(one - other))

    @property
    def _dimension(self) -> int:
        return sum(group.dimension for group in self.groups)

    def _together(self, codes: Codes) -> Vector:
        return np.hstack(
            [_checked(group.vectors(codes), codes, group.dimension) / group.alpha for group in self.groups]
        )


def _checked(vectors: Any, codes: Codes, dimension: int) -> Vector:
    found: Vector = np.asarray(vectors, dtype=np.float64)
    if found.shape != (len(codes), dimension):
        raise BadInput(f"vectors must return one row of length {dimension} per record")
    return found


def clipped_sum(records: Records, group: Group) -> Vector:
    """Sum over units of the unit's vector clipped to `clip`; what is not finite counts as zero."""
    codes = records.encoded()
    vectors = _checked(group.vectors(codes), codes, group.dimension)
    per_unit = np.zeros((records.units, group.dimension))
    with np.errstate(all="ignore"):  # overflow and nan are bounded just below
        np.add.at(per_unit, records.owner, vectors)
    # Along its last axis numpy adds up in pairs. One by one, the rounding of millions of units would pass `MARGIN`.
    total: Vector = np.ascontiguousarray(clipped(per_unit, group.clip).T).sum(axis=1)
    return total


# ---- Noisy sums and second moments of clipped vectors, group by group: what one-shot generators learn from.
#
# Both stream over the records, so that 60,000 images of 784 values need the memory of a few thousand. A unit counts once,
# whatever the number of its records: it says the mean over them. So a patient of many images weighs as much as one of a single
# image, and what is estimated is a mean over patients.


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
    def by_row(self) -> "Sequence[tuple[str, Callable[..., Any], ByRow]]":
        """The vectors, and the groups where there are several."""
        vectors = ("vectors", self.vectors, self.vectors)
        return [vectors] if self.groups is None else [vectors, ("groups", self.groups, self.groups)]

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all groups together."""
        return [Gaussian(self.noise)]

    def movement(self, one: Vector, other: Vector) -> float:
        """L2 distance over all groups; of moments, that of the vectors that the noise is added to (Frobenius)."""
        return float(np.linalg.norm(one - other))

    def _chunks(self, records: Records) -> Iterator[tuple[Vector, Vector, NDArray[np.int64]]]:
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

    def bounded(self, records: Records) -> Vector:
        """The exact sums, float64."""
        total = np.zeros((self.count, self.dimension))
        for rows, weights, member in self._chunks(records):
            present = np.arange(self.count)[:, None] == member
            total += (present * weights) @ rows
        return total

    def noised(self, bounded: Vector, noise: Noise) -> Vector:
        """The noisy sums."""
        return noise.added(bounded, self.noise * self.sensitivity)


@dataclass(frozen=True)
class GroupMoments(_Grouped):
    """(groups, dimension, dimension): for each group the sum over units of the mean over the unit's records of [in the
    group] x x^T, as `GroupSums` otherwise.

    The Frobenius norm of x x^T is the square of that of x, at most C^2 for C = `clip`; again a mean over a unit's records has no
    more. So one unit moves the answer by at most C^2 in Frobenius norm (over all groups, stacked). A symmetric matrix is told by
    its upper triangle; with the off-diagonal entries times sqrt(2) that vector's L2 norm is the Frobenius norm. So independent noise of
    deviation noise * C^2 on the diagonal and noise * C^2 / sqrt(2) off it is one Gaussian of `noise`.
    """

    @property
    def sensitivity(self) -> float:
        """C^2."""
        return self.clip**2

    def bounded(self, records: Records) -> Vector:
        """The exact moments, float64."""
        total = np.zeros((self.count, self.dimension, self.dimension))
        for rows, weights, member in self._chunks(records):
            for group in np.unique(member[(member >= 0) & (member < self.count)]):
                inside = member == group
                part = rows[inside]
                total[group] += (part * weights[inside, None]).T @ part
        return total

    def noised(self, bounded: Vector, noise: Noise) -> Vector:
        """The noisy moments, symmetric."""
        scale = np.where(np.eye(self.dimension, dtype=np.bool_), 1.0, math.sqrt(2))
        upper = np.triu_indices(self.dimension)
        noisy = noise.added((bounded * scale)[:, upper[0], upper[1]], self.noise * self.sensitivity)
        answer = np.zeros_like(bounded)
        answer[:, upper[0], upper[1]] = noisy / scale[upper]
        answer[:, upper[1], upper[0]] = noisy / scale[upper]
        return answer
