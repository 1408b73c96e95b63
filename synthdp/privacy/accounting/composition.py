"""Epsilon of many composed losses: one exponentially tilted Fourier transform.

Without a tilt, round-off in the transform limits delta to about steps * 1e-16; weighted by e^(t loss), with t near the order
that Renyi accounting would choose, the mass sits where epsilon is, and delta keeps its relative accuracy. What the window
cuts off above is bounded by Chernoff and charged; what wraps around from below only raises delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.privacy.accounting.losses import Array, Loss, Masses

Composed = Sequence[tuple[Loss, int]]

TOLERANCE = 1e-5  # relative change of epsilon expected from one more refinement at which the grid is accepted
NEGLIGIBLE = 1e-7  # share of delta that truncation may cost
FINER = 4
MAX_BINS = 1_000_000
MAX_WINDOW = 1 << 21
ALLOWANCE = 1e-8  # relative round-off allowed for in delta


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The events on one grid: masses, their losses, and how often each occurs."""

    h: float
    parts: tuple[tuple[Masses, int], ...]

    def cumulant(self, t: float) -> float:
        """log E exp(t loss) of the whole composition (finite part)."""
        return math.fsum(count * self._tilted(masses, t)[1] for masses, count in self.parts)

    def moments(self, t: float) -> tuple[float, float]:
        """Mean and standard deviation of the composition, tilted by t."""
        mean = variance = 0.0
        for masses, count in self.parts:
            weights, _ = self._tilted(masses, t)
            losses = self._losses(masses)
            own = float(weights @ losses)
            mean += count * own
            variance += count * float(weights @ (losses - own) ** 2)
        return mean, math.sqrt(variance)

    def infinite(self) -> float:
        """Probability that some loss is infinite."""
        return -math.expm1(math.fsum(count * math.log1p(-masses.infinite) for masses, count in self.parts))

    def _losses(self, masses: Masses) -> Array:
        return (masses.first + np.arange(len(masses.probs))) * self.h

    def _tilted(self, masses: Masses, t: float) -> tuple[Array, float]:
        with np.errstate(divide="ignore"):
            logs = np.log(masses.probs) + t * self._losses(masses)
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        return weights / total, top + math.log(total)

    def composed(self, t: float, window: int) -> tuple[int, Array]:
        """The tilted composition on `window` grid points around its mean: index of the first point, weights."""
        log_size = np.zeros(window // 2 + 1)
        angle = np.zeros(window // 2 + 1)
        shift, rest = 0, 0.0
        for masses, count in self.parts:
            weights, _ = self._tilted(masses, t)
            index = masses.first + np.arange(len(weights))
            mean = float(weights @ index)
            centre = round(mean)  # centred, so that a power of the transform turns through small angles only
            folded = np.bincount((index - centre) % window, weights, window)
            transform = np.fft.rfft(folded)
            log_size += count * np.log(np.maximum(np.abs(transform), 1e-300))
            angle += count * np.angle(transform)
            shift += count * centre
            rest += count * (mean - centre)
        alive = log_size > -60
        spectrum = np.zeros(window // 2 + 1, dtype=complex)
        spectrum[alive] = np.exp(log_size[alive] + 1j * angle[alive])
        weights = np.maximum(np.fft.irfft(spectrum, window), 0.0)
        start = round(rest) - window // 2
        return shift + start, np.roll(weights, -start)


def epsilon_of(composed: Composed, delta: float) -> float:
    """An upper bound on the least epsilon with delta(epsilon) <= delta, close to it; both directions of the relation."""
    removed = _one_direction(composed, delta, True, 0.0)
    return max(removed, _one_direction(composed, delta, False, removed))


def _one_direction(composed: Composed, delta: float, removed: bool, enough: float) -> float:
    """Refine the grid until epsilon settles, is at most `enough`, or the grid is as fine as it may be."""
    tail = NEGLIGIBLE * delta / sum(count for _, count in composed) / 4
    total = math.sqrt(math.fsum(count * loss.deviation**2 for loss, count in composed))
    finest = min(loss.deviation for loss, _ in composed) / 4
    h = 2.0 ** round(math.log2(min(max(finest, total / 2000), total / 50)))
    best, tilt, before = math.inf, None, math.inf
    while True:
        parts = tuple((loss.on_grid(h, tail, removed), count) for loss, count in composed)
        grid = Grid(h=h, parts=parts)
        if tilt is None:
            tilt = _tilt(grid, delta)
        found, width = _on_grid(grid, delta, tilt)
        change = best - found
        # The error falls by FINER^2 once the grid resolves one loss, by FINER before; the next change is then known.
        coming = change * min(1.0, change / before) if math.isfinite(before) else change
        settled = found <= enough or coming <= TOLERANCE * found
        best, before = min(best, found), change
        bins = max(len(masses.probs) for masses, _ in parts)
        if math.isfinite(best) and (settled or FINER * bins > MAX_BINS or FINER * width > MAX_WINDOW):
            return best
        if math.isinf(best) and width > MAX_WINDOW:
            h *= FINER
        else:
            h /= FINER


def _tilt(grid: Grid, delta: float) -> float:
    """Half of the t > 0 that minimises (K(t) - log delta) / t, the best Renyi order less one.

    Half of it keeps enough digits and tilts less mass into the far tail of rare large losses, which would need a wide window.
    """
    from scipy.optimize import minimize_scalar

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return (grid.cumulant(t) - math.log(delta)) / t

    _, deviation = grid.moments(0.0)
    centre = math.log(math.sqrt(-2 * math.log(delta) + 1e-3) / max(deviation, 1e-300))
    found = minimize_scalar(
        bound, bounds=(centre - 12, centre + 3), method="bounded", options={"xatol": 0.02, "maxiter": 40}
    )
    return math.exp(float(found.x)) / 2


def _on_grid(grid: Grid, delta: float, t: float) -> tuple[float, int]:
    """Epsilon on one grid, and the window that it took; inf where the window would be too wide."""
    from scipy.fft import next_fast_len

    left = delta * (1 - ALLOWANCE) - grid.infinite()
    cumulant = grid.cumulant(t)
    mean, deviation = grid.moments(t)
    reach = 9 * deviation + 4 * grid.h
    support = sum(count * len(masses.probs) for masses, count in grid.parts)
    while True:
        window = next_fast_len(min(2 * math.ceil(reach / grid.h) + 2, 2 * support + 2), real=True)
        if window > MAX_WINDOW:
            return math.inf, window
        if window > 2 * support:
            above = 0.0
            break
        above, below = _cut(grid, t, cumulant, mean, deviation, (window // 2 - 2) * grid.h)
        if above <= NEGLIGIBLE * delta and below <= NEGLIGIBLE:
            break
        reach *= 1.4
    first, weights = grid.composed(t, window)
    losses = (first + np.arange(window)) * grid.h
    return _solve(losses, weights, t, cumulant, left - above), window


def _cut(grid: Grid, t: float, cumulant: float, mean: float, deviation: float, reach: float) -> tuple[float, float]:
    """Chernoff bounds: delta of losses above mean + reach, and tilted mass below mean - reach."""
    shifts = [share / max(deviation, 1e-300) for share in (0.5, 1.0, 2.0, 4.0, 8.0)]
    above = min(grid.cumulant(t + s) - (t + s) * (mean + reach) for s in shifts)
    below = min(grid.cumulant(t - s) - cumulant + s * (mean - reach) for s in shifts)
    return math.exp(min(above, 0.0)), math.exp(min(below, 0.0))


def _solve(losses: Array, weights: Array, t: float, cumulant: float, left: float) -> float:
    """Least epsilon >= 0 with sum of (1 - e^(epsilon - loss)) mass(loss) over loss > epsilon at most `left`."""
    if left <= 0:
        return math.inf
    centre = float(losses @ weights) / float(weights.sum())
    kept = (t * (centre - losses) < 600) & (centre - losses < 600)
    losses, weights = losses[kept][::-1], weights[kept][::-1]  # from the top down
    mass = weights * np.exp(-t * (losses - centre))
    upper = np.cumsum(mass)  # P-mass at or above each loss
    lower = np.cumsum(mass * np.exp(centre - losses))  # its Q-mass times e^centre
    target = math.exp(min(math.log(left) - cumulant + t * centre, 700.0))
    over = upper - np.exp(np.minimum(losses - centre, 600.0)) * lower > target
    if not over.any():
        return max(0.0, float(losses[-1]))
    # Between the last grid point that is within the target and the first beyond it, delta is upper - e^epsilon lower.
    place = int(np.argmax(over)) - 1
    if place < 0:
        return math.inf
    if upper[place] <= target or lower[place] == 0:
        return max(0.0, float(losses[place]))
    return max(0.0, centre + math.log((upper[place] - target) / lower[place]))
