"""The categories of a column, bought: those that enough units hold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from synthdp.ledger.events import Event, Threshold
from synthdp.noise.gaussian import Grid
from synthdp.noise.noise import Noise
from synthdp.schema import cells
from synthdp.seal.records import Records, within


@dataclass(frozen=True)
class Domain:
    """Every category whose noisy number of units passes a threshold.

    A unit adds one to at most `categories` counts: L2 sensitivity sqrt(categories). A category of one unit alone has a count
    of one and passes 1 + deviation * z with probability 1 - Phi(z), which is set so that none of the unit's `categories`
    passes but with probability `delta` (Korolova et al. 2009; Wilkins et al. 2024).
    """

    column: str
    noise: float
    delta: float
    categories: int

    @property
    def events(self) -> Sequence[Event]:
        """A thresholded Gaussian that carries its own delta."""
        return [Threshold(self.noise, self.delta, self.categories)]

    @property
    def sensitivity(self) -> float:
        """sqrt(categories)."""
        return math.sqrt(self.categories)

    @property
    def threshold(self) -> float:
        """What a noisy count must exceed: half a step more than for a Gaussian that is not rounded to a grid."""
        each = -math.expm1(math.log1p(-self.delta) / self.categories)
        deviation = self.noise * self.sensitivity
        step = Grid.of(deviation, torch.float64).step if deviation > 0 else 0.0
        return 1.0 + deviation * float(norm.isf(each)) + step / 2

    def bounded(self, records: Records) -> dict[str, float]:
        """Units per category; a category counts once for a unit."""
        within(records, self.categories)
        texts = cells.texts(records.column(self.column))
        pairs = {(int(unit), text) for unit, text in zip(records.owner, texts, strict=True) if text is not None}
        counts: dict[str, float] = {}
        for _, value in pairs:
            counts[value] = counts.get(value, 0.0) + 1.0
        return counts

    def noised(self, bounded: Mapping[str, float], noise: Noise) -> tuple[str, ...]:
        """The categories that passed, in alphabetical order, so that the order says nothing."""
        names = sorted(bounded)
        counts = np.array([bounded[name] for name in names], dtype=np.float64)
        noisy = noise.added(counts, self.noise * self.sensitivity)
        least = self.threshold if self.noise > 0 else 0.0
        return tuple(name for name, count in zip(names, noisy, strict=True) if count > least)

    def movement(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
        """L2 distance over the categories of both."""
        names = sorted({*one, *other})
        return float(np.linalg.norm([one.get(name, 0.0) - other.get(name, 0.0) for name in names]))
