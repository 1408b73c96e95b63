"""Noisy sums of clipped per-unit vectors: several groups from one sample, clipped separately or jointly (McMahan, Andrew et
al. 2018, sections 2 to 4). How to share noise among groups: `proportional` and `by_dimension` in `seal/clipping.py`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.seal.callbacks import ByRow
from synthdp.seal.norms import check_clip, clipped
from synthdp.seal.records import Codes, Records

if TYPE_CHECKING:
    from synthdp.noise.noise import Noise

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
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
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
    """One group of a `Joint` question: as `Group`, with a scale alpha in place of a clip and a noise of its own."""

    vectors: Callable[[Codes], Any]
    dimension: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise BadInput(f"scale must be a finite number greater than 0, got {self.scale}")


@dataclass(frozen=True)
class Joint:
    """Several groups clipped together: a unit's vectors v_g, each times its alpha_g, are clipped as one vector to `clip`.

    That concatenation is one vector per unit of norm at most S = `clip`, so its sum is one Gaussian query of sensitivity S
    and deviation noise * S, whatever the scales are; dividing group g of the answer by alpha_g is post-processing, and leaves
    it with the deviation noise * S / alpha_g.
    """

    additive: ClassVar[bool] = True  # a sum over units
    groups: tuple[Scaled, ...]
    clip: float
    noise: float

    def __post_init__(self) -> None:
        if not self.groups:
            raise BadInput("groups must hold at least one group")
        Group(self._together, self._dimension, self.clip, self.noise)  # its checks of clip and noise

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all groups together."""
        return [Gaussian(self.noise)]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
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
        return [part / group.scale for part, group in zip(np.split(noisy, ends), self.groups, strict=True)]

    def movement(self, one: Vector, other: Vector) -> float:
        """L2 distance of the scaled groups, stacked."""
        return float(np.linalg.norm(one - other))

    @property
    def _dimension(self) -> int:
        return sum(group.dimension for group in self.groups)

    def _together(self, codes: Codes) -> Vector:
        return np.hstack(
            [group.scale * _checked(group.vectors(codes), codes, group.dimension) for group in self.groups]
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
    total: Vector = clipped(per_unit, group.clip).sum(axis=0)
    return total
