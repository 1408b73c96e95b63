"""Privacy losses of single events, put on a grid so that the result dominates the event.

The loss is log(P/Q) under P. On the grid {k h} every point of mass p at loss l between two grid points is split between them
so that both its P- and its Q-mass are kept ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022, algorithm
1), hence delta(epsilon) is kept at the grid points and only raised between them, also after composition (Zhu, Dong & Wang
2022, theorem 10). The masses are sums of positive terms (Gauss-Legendre nodes within cells that never cross a grid point):
differences of delta, which dp-accounting uses, lose all digits on the fine grids that small rates need.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import expit, log_ndtr, ndtri_exp

Array = np.ndarray
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
SQRT_2PI = math.sqrt(2 * math.pi)


MAX_BINS = 1_000_000


class TooFine(ArithmeticError):
    """A loss would need more than `MAX_BINS` grid points."""


@dataclass(frozen=True, kw_only=True)
class Masses:
    """P-mass `probs[i]` at loss (first + i) * h, and `infinite` at an infinite loss."""

    first: int
    probs: Array
    infinite: float

    @cached_property
    def logs(self) -> Array:
        """log of `probs`; -inf where there is no mass."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probs))


class Loss(Protocol):
    """One event's privacy loss for a direction: `removed` (P holds the unit) or its converse (Q holds it)."""

    @property
    def deviation(self) -> float:
        """A rough standard deviation of the loss, from which the first grid is chosen."""

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:
        """The loss on the grid of width h; at most `tail` of the mass is counted as infinite loss."""


@dataclass(frozen=True, kw_only=True)
class GaussianLoss:
    """N(0, 1) against N(mu, 1): the loss is N(mu^2 / 2, mu^2) in either direction."""

    mu: float

    @property
    def deviation(self) -> float:
        return self.mu

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:  # noqa: ARG002
        z = _quantile(tail)
        return _continuous(
            density=lambda u: np.exp(-u * u / 2) / SQRT_2PI,
            loss=lambda u: self.mu * (u + self.mu / 2),
            inverse=lambda losses: losses / self.mu - self.mu / 2,
            cells=_cells(-z, z, 0.25),
            infinite=math.exp(log_ndtr(-z)),
            h=h,
        )


@dataclass(frozen=True, kw_only=True)
class SampledGaussianLoss:
    """(1 - rate) N(0, s^2) + rate N(1, s^2) against N(0, s^2): one unit more or less, Poisson sampling."""

    rate: float
    noise: float

    @property
    def deviation(self) -> float:
        return min(self.rate * math.sqrt(math.expm1(min(self.noise**-2, 50.0))), 1 / self.noise)

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:
        q, s, z = self.rate, self.noise, _quantile(tail)
        sign = 1.0 if removed else -1.0

        def density(x: Array) -> Array:
            absent = np.exp(-((x / s) ** 2) / 2)
            mixed = (1 - q) * absent + q * np.exp(-(((x - 1) / s) ** 2) / 2) if removed else absent
            return mixed / (s * SQRT_2PI)

        low, high = -z * s, z * s + (1.0 if removed else 0.0)
        return _continuous(
            density=density,
            loss=lambda x: sign * _log_mixture(q, (x - 0.5) / s**2),
            inverse=lambda losses: s**2 * _inverse_log_mixture(q, sign * losses) + 0.5,
            cells=_cells(low, high, min(s / 4, s * s)),
            infinite=math.exp(log_ndtr(-z)),
            h=h,
        )


@dataclass(frozen=True, kw_only=True)
class ReplacedGaussianLoss:
    """(1 - rate) N(0, s^2) + rate N(1, s^2) against (1 - rate) N(0, s^2) + rate N(-1, s^2): one unit replaced.

    Given everybody else's coins the two outputs are such mixtures, and the two contributions are farthest apart when they
    are opposite (dp-accounting's REPLACE_ONE pair, its supplementary note).
    """

    rate: float
    noise: float

    @property
    def deviation(self) -> float:
        return min(2 * self.rate * math.sqrt(math.expm1(min(self.noise**-2, 50.0))), 2 / self.noise)

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:  # noqa: ARG002
        q, s, z = self.rate, self.noise, _quantile(tail)

        def density(x: Array) -> Array:
            return ((1 - q) * np.exp(-((x / s) ** 2) / 2) + q * np.exp(-(((x - 1) / s) ** 2) / 2)) / (s * SQRT_2PI)

        def inverse(losses: Array) -> Array:
            # With y = x / s^2 the ratio is (a + e^y) / (a + e^-y); solving for y: l / 2 + arsinh(a sinh(l / 2)).
            half = np.maximum(np.abs(losses) / 2, 1e-300)
            log_a = 1 / (2 * s * s) + math.log1p(-q) - math.log(q)
            log_term = log_a + half + np.log(-np.expm1(-2 * half)) - math.log(2)
            large = log_term > 30
            arsinh = np.where(large, log_term + math.log(2), np.arcsinh(np.exp(np.where(large, 0.0, log_term))))
            x: Array = s * s * np.sign(losses) * (half + arsinh)
            return x

        return _continuous(
            density=density,
            loss=lambda x: _log_mixture(q, (x - 0.5) / s**2) - _log_mixture(q, (-x - 0.5) / s**2),
            inverse=inverse,
            cells=_cells(-z * s, z * s + 1, min(s / 4, s * s)),
            infinite=math.exp(log_ndtr(-z)),
            h=h,
        )


@dataclass(frozen=True, kw_only=True)
class LaplaceLoss:
    """Laplace noise of scale 1 / epsilon on a value that moves by 1: atoms at +-epsilon, density e^((l - epsilon)/2) / 4."""

    epsilon: float

    @property
    def deviation(self) -> float:
        return self.epsilon

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:  # noqa: ARG002
        e = self.epsilon
        bottom = max(-e, e - 150)  # below that lies less than e^-75: raised to the bottom
        inside = _continuous(
            density=lambda l: np.exp((l - e) / 2) / 4,
            loss=lambda l: l,
            inverse=lambda losses: losses,
            cells=_cells(bottom, e, 0.25),
            infinite=0.0,
            h=h,
            total=-math.expm1(-e) / 2,
        )
        return _joined(inside, _atoms(np.array([-e, e]), np.array([math.exp(-e) / 2, 0.5]), h))


@dataclass(frozen=True, kw_only=True)
class PureLoss:
    """Randomised response: the pair that dominates every epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015)."""

    epsilon: float

    @property
    def deviation(self) -> float:
        return self.epsilon

    def on_grid(self, h: float, tail: float, removed: bool) -> Masses:  # noqa: ARG002
        e = self.epsilon
        return _atoms(np.array([-e, e]), expit(np.array([-e, e])), h)


def _quantile(tail: float) -> float:
    return -float(ndtri_exp(math.log(tail)))


def _cells(low: float, high: float, width: float) -> Array:
    return np.linspace(low, high, max(2, math.ceil((high - low) / width) + 1))


def _log_mixture(q: float, y: Array) -> Array:
    """log(1 - q + q e^y), accurate near y = 0 and without overflow."""
    big = y > 30
    small = np.log1p(q * np.expm1(np.where(big, 0.0, y)))
    return np.where(big, math.log(q) + y + np.log1p((1 - q) / q * np.exp(-np.where(big, y, 30.0))), small)


def _inverse_log_mixture(q: float, losses: Array) -> Array:
    """y with log(1 - q + q e^y) = loss, for losses above log(1 - q); -inf elsewhere."""
    big = losses > 1
    excess = np.expm1(np.where(big, 0.0, losses)) / q
    small = np.where(excess > -1, np.log1p(np.maximum(excess, -1 + 1e-16)), -np.inf)
    return np.where(big, losses - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.where(big, losses, 1.0))), small)


def _continuous(
    *,
    density: Callable[[Array], Array],
    loss: Callable[[Array], Array],
    inverse: Callable[[Array], Array],
    cells: Array,
    infinite: float,
    h: float,
    total: float = 1.0,
) -> Masses:
    """A monotone loss of a variable with a density: nodes in cells that are smooth and never cross a grid point.

    Mass that no cell holds, beyond what is `infinite`, had losses below the lowest cell: it is raised to it.
    """
    ends = np.sort(loss(cells[[0, -1]]))
    _check_size(ends, h)
    grid = np.arange(math.floor(ends[0] / h), math.ceil(ends[1] / h) + 1) * h
    edges = inverse(grid)
    edges = edges[(edges > cells[0]) & (edges < cells[-1])]
    breaks = np.unique(np.concatenate([cells, edges]))
    middle, half = (breaks[1:] + breaks[:-1]) / 2, np.diff(breaks) / 2
    bins = np.floor(loss(middle) / h)
    first = int(bins.min())
    probs = np.zeros(int(bins.max()) - first + 2)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        u = middle + half * node
        _split(probs, bins, first, loss(u), half * weight * density(u), h)
    probs[1] += max(0.0, total - infinite - float(probs.sum()))
    return Masses(first=first, probs=probs, infinite=infinite)


def _atoms(losses: Array, masses: Array, h: float) -> Masses:
    _check_size(losses, h)
    bins = np.floor(losses / h)
    first = int(bins.min())
    probs = np.zeros(int(bins.max()) - first + 2)
    _split(probs, bins, first, losses, masses, h)
    return Masses(first=first, probs=probs, infinite=0.0)


def _check_size(losses: Array, h: float) -> None:
    if losses.max() - losses.min() > MAX_BINS * h:
        raise TooFine


def _split(probs: Array, bins: Array, first: int, losses: Array, masses: Array, h: float) -> None:
    """Add masses at losses within [bin h, (bin + 1) h] to the two grid points, keeping P- and Q-mass."""
    above = masses * np.clip(np.expm1(-(losses - bins * h)) / math.expm1(-h), 0.0, 1.0)
    place = (bins - first).astype(np.int64)
    size = len(probs)
    probs += np.bincount(place, masses - above, size) + np.bincount(place + 1, above, size)


def _joined(one: Masses, other: Masses) -> Masses:
    first = min(one.first, other.first)
    probs = np.zeros(max(one.first + len(one.probs), other.first + len(other.probs)) - first)
    for part in (one, other):
        probs[part.first - first : part.first - first + len(part.probs)] += part.probs
    return Masses(first=first, probs=probs, infinite=one.infinite + other.infinite)
