"""Roughly what these votes cost: the data-dependent divergence of GNMax answers, itself released privately.

Papernot et al. 2018, appendix B. The figure is a function of the votes, so it is an answer like any other: charged, and noised
to its smooth sensitivity. It describes a run; the statement's epsilon is the data-independent one, and this is on top.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from synthdp.accounting.pate import smooth_sensitivity
from synthdp.errors import BadInput
from synthdp.ledger.events import Event
from synthdp.noise.noise import Noise
from synthdp.seal.records import Codes
from synthdp.seal.teachers.vote_aggregation import labelled, positive, tallied

if TYPE_CHECKING:
    from synthdp.seal.teachers.protocols import Ensemble


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What GNMax answers of deviation `sigma` to the same queries cost by their votes, at Renyi order `order`; epsilon at
    `delta`. `noise`: deviation over the `beta`-smooth sensitivity. Answer: `release.Sanitised`, which is no bound."""

    sigma: float
    order: float
    beta: float
    noise: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("sigma", "beta", "noise"):
            positive(name, getattr(self, name))
        if not 1 < self.order < math.inf:
            raise BadInput(f"order must be a finite number greater than 1, got {self.order}")
        if not 0 < self.delta < 1:
            raise BadInput(f"delta must lie strictly between 0 and 1, got {self.delta}")
        most = -math.log1p(-1 / self.order) / 2
        if self.beta >= most:
            raise BadInput(f"beta must be less than {most:.3g} at order {self.order:g}, got {self.beta:g}")

    def check(self, queries: int, classes: int) -> None:  # noqa: ARG002
        """Two classes at least."""
        labelled(classes)

    def events(self, queries: int) -> Sequence[Event]:  # noqa: ARG002
        """One number, noised to its smooth sensitivity."""
        return [smooth_sensitivity.event(self.noise, self.beta)]

    def sensitivity(self, queries: int) -> float:  # noqa: ARG002
        """In units of the smooth sensitivity, whose logarithm moves by at most beta."""
        return 1.0

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> smooth_sensitivity.Smooth:
        """The figure and its smooth sensitivity."""
        return smooth_sensitivity.of_gnmax(tallied(ensemble, queries), self.sigma, self.order, self.beta)

    def noised(self, bounded: smooth_sensitivity.Smooth, noise: Noise, teachers: int) -> smooth_sensitivity.Sanitised:  # noqa: ARG002
        """The noisy figure, on a public grid: the noise's own scale is private, and so are digits that would betray it."""
        return smooth_sensitivity.sanitised(
            bounded, self.noise, self.delta, lambda deviation: float(noise.normal_array(1, deviation)[0])
        )

    def movement(self, one: smooth_sensitivity.Smooth, other: smooth_sensitivity.Smooth) -> float:
        """How far the figure moved in units of the lesser bound, or the bound's logarithm in units of beta."""
        least, most = sorted((one.sensitivity, other.sensitivity))
        apart = abs(one.value - other.value)
        if least == 0:
            return 0.0 if apart == most == 0 else math.inf
        return max(apart / least, math.log(most / least) / self.beta)
