"""The privacy loss of a mixture of Gaussians: N(0, noise^2) against P = sum over j of chances[j] N(j, noise^2).

dp-accounting has this pair too (its figures are those of the tests), but inverts the loss point by point; the grids of a
composition over thousands of steps need hundreds of thousands of points, so it is done here on whole arrays.
"""

import math
from typing import Any

import numpy as np

Array = np.ndarray

TAIL = 1e-22  # of the upper distribution's mass, beyond the grid's ends: counted as an infinite loss
WIDTHS = 12.0  # standard deviations beyond the outermost means that the search for the ends covers
GUESSES = 4096  # points of the table from which Newton's method starts
NEWTON_STEPS = 4


class Mixture:
    """The pair of distributions, with `chances` of 0, 1, 2 ... units in the sample (they add up to 1)."""

    def __init__(self, noise: float, chances: Array) -> None:
        self._noise = noise
        self._chances = chances
        self._means = np.arange(float(len(chances)))
        with np.errstate(divide="ignore"):
            self._log_chances = np.log(chances)
        self._lowest = -WIDTHS * noise
        self._highest = self._tail()

    @property
    def greatest_loss(self) -> float:
        """The loss where the upper distribution's tail is cut."""
        return float(self._loss(np.array([self._highest]))[0])

    def distribution(self, grid: float) -> Any:
        """dp-accounting's PrivacyLossDistribution on this grid, by connecting the dots: never below the true loss."""
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

        return PrivacyLossDistribution(self._mass(grid, self.removed), self._mass(grid, self.added))

    def removed(self, epsilons: Array) -> Array:
        """delta(epsilon) of P against N(0, noise^2): the larger data set is the true one."""
        from scipy.special import ndtr

        found: Array = -np.expm1(np.minimum(epsilons, 0.0))
        inside = epsilons > self._log_chances[0]
        t = self._inverse(epsilons[inside])
        upper = sum(p * ndtr((j - t) / self._noise) for j, p in zip(self._means, self._chances, strict=True))
        found[inside] = upper - np.exp(epsilons[inside]) * ndtr(-t / self._noise)
        return found

    def added(self, epsilons: Array) -> Array:
        """delta(epsilon) of N(0, noise^2) against P: the smaller data set is the true one."""
        from scipy.special import ndtr

        found = np.zeros(len(epsilons))
        inside = epsilons < -self._log_chances[0]
        t = self._inverse(-epsilons[inside])
        lower = sum(p * ndtr((t - j) / self._noise) for j, p in zip(self._means, self._chances, strict=True))
        found[inside] = ndtr(t / self._noise) - np.exp(epsilons[inside]) * lower
        return found

    def _mass(self, grid: float, deltas: Any) -> Any:
        from dp_accounting.pld import pld_pmf

        ends = self._loss(np.array([self._lowest, self._highest]))
        low, high = math.floor(ends[0] / grid), math.ceil(ends[1] / grid)
        if deltas == self.added:
            low, high = -high, -low
        found = np.clip(deltas(np.arange(low, high + 1) * grid), 0.0, 1.0)
        falling = np.maximum.accumulate(found[::-1])[::-1]  # it is, but for round-off
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, falling)

    def _loss(self, z: Array) -> Array:
        """log(P(z) / Q(z)): rises and is convex in z."""
        return self._loss_and_slope(z)[0]

    def _loss_and_slope(self, z: Array) -> tuple[Array, Array]:
        variance = self._noise * self._noise
        highest = np.full(len(z), -np.inf)
        exponents = []
        for j, log_p in zip(self._means, self._log_chances, strict=True):
            exponents.append(log_p + j * (2 * z - j) / (2 * variance))
            highest = np.maximum(highest, exponents[-1])
        weights = [np.exp(exponent - highest) for exponent in exponents]
        total = np.add.reduce(weights)
        slope = sum(j * weight for j, weight in zip(self._means, weights, strict=True)) / (variance * total)
        return highest + np.log(total), slope

    def _inverse(self, losses: Array) -> Array:
        """Where the loss has these values. Its own error enters delta in second order only: there the derivative is 0."""
        table = np.linspace(self._lowest - self._noise, self._highest + self._noise, GUESSES)
        z: Array = np.interp(losses, self._loss(table), table)
        for _ in range(NEWTON_STEPS):
            loss, slope = self._loss_and_slope(z)
            z = np.clip(z + (losses - loss) / np.maximum(slope, 1e-300), table[0], table[-1])
        return z

    def _tail(self) -> float:
        """The least point above which both distributions have at most TAIL of their mass."""
        from scipy.special import ndtr

        low, high = 0.0, float(self._means[-1]) + WIDTHS * self._noise
        while high - low > 1e-3 * self._noise:
            middle = (low + high) / 2
            above = float(np.dot(self._chances, ndtr((self._means - middle) / self._noise)))
            low, high = (low, middle) if above <= TAIL else (middle, high)
        return high
