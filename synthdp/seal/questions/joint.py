"""Private statistics gathered beside gradients: further groups of the same sample (McMahan, Andrew et al. 2018, section 2)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.callbacks import ByRow
from synthdp.seal.gradients import Gradients
from synthdp.seal.questions.gradient import Gradient
from synthdp.seal.questions.sums import Joint, Sums
from synthdp.seal.records import Records


@dataclass(frozen=True)
class Counted:
    """A gradient, and how many units had a norm within its clip: sum of -1/2 and +1/2, plus N(0, deviation^2).

    One unit moves that sum by at most 1/2 (Andrew, Thakkar, McMahan & Ramaswamy 2021, section 2), so its noise is 2 * deviation;
    the norms are those that the gradient is clipped by, from the same pass. With microbatches it counts those, and one unit
    moves it by 1: the noise is `deviation`.
    """

    gradient: Gradient
    deviation: float

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise BadInput(f"deviation of the count's noise must be greater than 0, got {self.deviation}")

    @property
    def events(self) -> Sequence[Event]:
        """The gradient's, and the count's Gaussian."""
        return [*self.gradient.events, Gaussian(self.deviation / self._bit)]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """The gradient's."""
        return self.gradient.by_row

    @property
    def additive(self) -> bool:
        """As the gradient is."""
        return self.gradient.additive

    @property
    def sensitivity(self) -> float:
        """Gradient and count stacked, each in units of its own sensitivity."""
        return math.sqrt(2)

    def bounded(self, records: Records) -> tuple[Gradients, float]:
        """The clipped sum and the exact count."""
        return self.gradient.measured(records, counting=True)

    def noised(self, bounded: tuple[Gradients, float], noise: Noise) -> tuple[Gradients, float]:
        """The noisy sum and the noisy count."""
        sums, within = bounded
        return self.gradient.noised(sums, noise), float(noise.added(np.array([within]), self.deviation)[0])

    def movement(self, one: tuple[Gradients, float], other: tuple[Gradients, float]) -> float:
        """Gradient and count stacked, each in units of its own sensitivity."""
        moved = self.gradient.movement(one[0], other[0]) / self.gradient.sensitivity
        return math.hypot(moved, (one[1] - other[1]) / self._bit)

    @property
    def _bit(self) -> float:
        return 0.5 if self.gradient.microbatches is None else 1.0


Part = Gradient | Counted | Sums | Joint
KINDS = (Gradient, Counted, Sums, Joint)


@dataclass(frozen=True)
class Together:
    """Several questions of one and the same sample, such as a gradient and the sum of clipped losses.

    Their values stacked, each in units of its sensitivity and divided by its noise, are one Gaussian vector: of one sample it
    is `Sampled(rate, (Gaussian(z_1), Gaussian(z_2), ...))`, with the noise (sum z_i^-2)^(-1/2) of all together.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        foreign = [type(part).__name__ for part in self.parts if type(part) not in KINDS]
        if foreign or not self.parts:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise BadInput(f"parts must be one or more of {known}; got {', '.join(foreign) or 'none'}")

    @property
    def events(self) -> Sequence[Event]:
        """The events of all parts."""
        return [event for part in self.parts for event in part.events]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """All parts'."""
        return [each for part in self.parts for each in part.by_row]

    @property
    def additive(self) -> bool:
        """If all parts are."""
        return all(part.additive for part in self.parts)

    @property
    def sensitivity(self) -> float:
        """All parts stacked, each in units of its own sensitivity."""
        return math.sqrt(len(self.parts))

    def bounded(self, records: Records) -> list[Any]:
        """One exact value per part."""
        return [part.bounded(records) for part in self.parts]

    def noised(self, bounded: list[Any], noise: Noise) -> list[Any]:
        """One answer per part."""
        return [part.noised(value, noise) for part, value in zip(self.parts, bounded, strict=True)]

    def movement(self, one: list[Any], other: list[Any]) -> float:
        """All parts stacked, each in units of its own sensitivity."""
        triples = zip(self.parts, one, other, strict=True)
        return math.sqrt(sum((part.movement(a, b) / part.sensitivity) ** 2 for part, a, b in triples))
