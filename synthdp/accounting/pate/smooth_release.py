"""A data-dependent figure with noise scaled to its smooth sensitivity: what may be said of it aloud, at a charge of its own.

Papernot et al. 2018, appendix B. It describes a run. It never replaces the statement's epsilon, which is the data-independent
one and grows by what this release costs: book `event` before the noise is drawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from synthdp.accounting.pate.smooth_sensitivity import Smooth
from synthdp.accounting.pate.tail_bounds import from_divergences
from synthdp.accounting.smooth_gaussian import divergence
from synthdp.errors import BadInput
from synthdp.ledger.events import SmoothGaussian

GRAIN = 2.0**-20  # the divergence is released as a multiple of it: digits beyond would betray the noise's scale


@dataclass(frozen=True, kw_only=True)
class Sanitised:
    """A noisy data-dependent figure. `divergence` is at `order`; `epsilon` at `delta` includes what the release itself costs.

    The noise makes it too small about as often as too large, so it is no bound: it says roughly what these votes cost.
    """

    divergence: float
    order: float
    epsilon: float
    delta: float
    event: SmoothGaussian


def event(noise: float, beta: float) -> SmoothGaussian:
    """What the release is charged as. `noise` is the deviation over the smooth sensitivity."""
    if not 0 < noise < math.inf:
        raise BadInput(f"noise must be a finite number greater than 0, got {noise}")
    return SmoothGaussian(noise=noise, beta=beta)


def sanitised(smooth: Smooth, noise: float, delta: float, draw: Callable[[float], float]) -> Sanitised:
    """The figure with noise; `draw(deviation)` returns one number from N(0, deviation^2). Raises `BadInput` where the charge is
    infinite at the figure's order: beta must be below log(order / (order - 1)) / 2."""
    charged = event(noise, smooth.beta)
    order = np.array([smooth.order])
    cost = float(divergence(noise, smooth.beta, order)[0])
    if math.isinf(cost):
        most = -math.log1p(-1 / smooth.order) / 2
        raise BadInput(f"beta must be less than {most:.3g} at order {smooth.order:g}, got {smooth.beta:g}")
    noisy = smooth.value + draw(noise * smooth.sensitivity)
    told = max(0.0, math.ceil(noisy / GRAIN) * GRAIN)
    epsilon, _ = from_divergences(np.array([told + cost]), order, delta)
    return Sanitised(divergence=told, order=smooth.order, epsilon=epsilon, delta=delta, event=charged)
