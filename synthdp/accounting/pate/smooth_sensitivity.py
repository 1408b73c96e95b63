"""How much one teacher changes a data-dependent figure: a smooth bound (Nissim, Raskhodnikova & Smith 2007; Papernot et al.
2018, appendix B, for GNMax).

The figure is a sum over queries of a Renyi divergence at one order, a function F of a position x >= 0 that one teacher moves by
at most 1. For GNMax x solves q = (m - 1) / 2 erfc(x / sigma), half the lead if all m - 1 other classes were equally far behind.
Why one move suffices: moving a vote changes each lead by at most 2, and e -> Phi(Phi^-1(e) + sqrt(2) / sigma) is concave, so
that by Jensen's inequality no q leaves the interval between (m - 1) / 2 erfc((x + 1) / sigma) and (m - 1) / 2 erfc((x - 1) /
sigma); q is the least over all candidate winners, so a change of winner stays inside too.

F is taken on a grid of CELLS cells per move, at the cell's end nearer 0 (a larger q is valid in theorem 6), and as the least
value up to there: it falls in x by construction, whatever theorem 6 does. All maxima below are then over finitely many cells,
and exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from synthdp.accounting.analytic_gaussian import divergence
from synthdp.accounting.pate import gnmax
from synthdp.accounting.pate.vote_counts import checked, checked_orders, from_divergences, positive
from synthdp.errors import BadInput
from synthdp.ledger.events import SmoothGaussian

Array = np.ndarray

CELLS = 512  # per move: F is at most one cell (0.2 % of a vote) behind the exact bound
STEP = CELLS + 1  # cells that a move can cross; one more for round-off


@dataclass(frozen=True, kw_only=True)
class Smooth:
    """A data-dependent Renyi divergence and how much neighbours can change it. INTERNAL, both numbers: see `DataDependent`.

    `value` is the divergence at `order` over all queries. `sensitivity` is at least |value - value'| for all neighbours, and
    at neighbours at most e^beta times as large (a beta-smooth bound of the local sensitivity).
    """

    value: float
    sensitivity: float
    order: float
    beta: float
    internal: Literal[True] = True


@dataclass(frozen=True)
class Terms:
    """Queries of one kind: their cells (queries,), and F in each cell (cells,), which falls."""

    cells: Array
    table: Array

    @property
    def value(self) -> float:
        """Sum of F over the queries."""
        return math.fsum(self.table[self.cells])

    def local(self) -> Array:
        """In each cell, by how much one move can change F: local sensitivity at distance 0."""
        last = len(self.table) - 1
        place = np.arange(len(self.table))
        up = self.table[np.maximum(place - STEP, 0)] - self.table
        down = self.table - self.table[np.minimum(place + STEP, last)]
        least: Array = np.maximum(up, down)
        return least


def of_gnmax(votes: ArrayLike, sigma: float, order: float, beta: float) -> Smooth:
    """The divergence of GNMax answers to these votes (queries, classes), with its beta-smooth sensitivity."""
    return smoothed([answer_terms(checked(votes), sigma, order)], order, beta)


def smoothed(parts: Sequence[Terms], order: float, beta: float) -> Smooth:
    """max over d of e^(-beta d) times the local sensitivity at distance d: the largest that any data set d moves away has,
    where each query moves d cells' steps on its own (definition 2.2 of Nissim et al., relaxed upwards)."""
    positive("beta", beta)
    local = [part.local() for part in parts]
    most = math.fsum(len(part.cells) * found.max() for part, found in zip(parts, local, strict=True) if len(part.cells))
    found, distance = 0.0, 0
    while math.exp(-beta * distance) * most > found:
        away = math.fsum(
            math.fsum(_within(each, distance * STEP)[part.cells]) for part, each in zip(parts, local, strict=True)
        )
        found = max(found, math.exp(-beta * distance) * away)
        distance += 1
    return Smooth(value=math.fsum(part.value for part in parts), sensitivity=found, order=order, beta=beta)


def answer_terms(votes: Array, sigma: float, order: float) -> Terms:
    """GNMax queries; `votes` as `checked` returns them."""
    from scipy.special import log_ndtr, ndtri_exp

    others = votes.shape[1] - 1
    scale = math.sqrt(2) / positive("sigma", sigma)
    x = -ndtri_exp(gnmax.log_union(votes, sigma) - math.log(others)) / scale
    grid = np.arange(math.ceil(_most(votes) / 2 * CELLS) + 2) / CELLS
    log_q = np.minimum(math.log(others) + log_ndtr(-grid * scale), math.log1p(-1 / (others + 1)))
    return Terms(_cells(x), _falling(log_q, sigma, order))


def _falling(log_q: Array, sigma: float, order: float) -> Array:
    found = gnmax.divergences(log_q, sigma, checked_orders((order,), 1))[:, 0]
    least: Array = np.minimum.accumulate(found)
    return least


def _cells(x: Array) -> Array:
    found: Array = np.floor(np.maximum(x, 0.0) * CELLS).astype(int)
    return found


def _most(votes: Array) -> float:
    if not len(votes):
        raise BadInput("votes has no query, so there is nothing to release")
    return float(votes[0].sum())


def _within(local: Array, radius: int) -> Array:
    """In each cell, the largest value at most `radius` cells away."""
    from scipy.ndimage import maximum_filter1d

    if radius == 0:
        return local
    if radius >= len(local):
        return np.full(len(local), local.max())
    found: Array = maximum_filter1d(local, 2 * radius + 1, mode="nearest")
    return found


# ---- A data-dependent figure with noise scaled to its smooth sensitivity: what may be said of it aloud, at a charge of its own.
#
# Papernot et al. 2018, appendix B. It describes a run. It never replaces the statement's epsilon, which is the data-independent
# one and grows by what this release costs: book `event` before the noise is drawn.


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
