"""How many units there are, bought."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.records import Countable


@dataclass(frozen=True)
class Size:
    """The number of units plus N(0, noise^2): one unit moves it by one."""

    additive: ClassVar[bool] = True  # a sum over units
    counted: ClassVar[bool] = True  # asks for counts alone
    noise: float

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """One unit more or less."""
        return 1.0

    def bounded(self, records: Countable) -> float:
        """The exact number."""
        return float(records.units)

    def noised(self, bounded: float, noise: Noise) -> float:
        """The noisy number, at least 1."""
        return max(1.0, float(noise.added(np.array([bounded]), self.noise)[0]))

    def movement(self, one: float, other: float) -> float:
        """The difference."""
        return abs(one - other)
