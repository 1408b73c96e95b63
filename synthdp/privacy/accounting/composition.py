"""Epsilon of many composed losses: one exponentially tilted Fourier transform.

Without a tilt, round-off in the transform limits delta to about steps * 1e-16; weighted by e^(t loss), with t near the order
that Renyi accounting would choose, the mass sits where epsilon is, and delta keeps its relative accuracy. What the window
cuts off above is bounded by Chernoff and charged; what wraps around from below only raises delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.privacy.accounting.losses import Array, Loss, Masses, TooFine

Composed = Sequence[tuple[Loss, int]]

TOLERANCE = 1e-5  # relative change of epsilon expected from one more refinement at which the grid is accepted
NEGLIGIBLE = 1e-7  # share of delta that truncation may cost
FINER = 4
TILT_BINS = 20_000  # the tilt is chosen again on grids up to this size
MOST_GRIDS = 40
MAX_WINDOW = 1 << 21
GROWTH = 1.5  # of a window that cuts off too much
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
        logs = masses.logs + t * self._losses(masses)
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
    h = 2.0 ** round(math.log2(math.sqrt(math.fsum(count * loss.deviation**2 for loss, count in composed)) / 50))
    best, tilt, reach = math.inf, 0.0, 0.0
    last = before = math.inf
    for _ in range(MOST_GRIDS):
        try:
            parts = tuple((loss.on_grid(h, tail, removed), count) for loss, count in composed)
        except TooFine:
            parts = ()
        if not parts and tilt == 0:
            h *= FINER
            continue
        if not parts:
            break
        grid = Grid(h=h, parts=parts)
        if grid.infinite() >= delta * (1 - ALLOWANCE):
            return math.inf
        if tilt == 0 or sum(len(masses.probs) for masses, _ in parts) <= TILT_BINS:
            tilt, bound = _tilt(grid, delta)
            best = min(best, bound)
        found, width, reach = _on_grid(grid, delta, tilt, reach)
        if width > MAX_WINDOW:
            break
        # The error falls by FINER^2 once the grid resolves one loss, by less before: two changes foretell the next.
        change = last - found
        coming = change * min(1.0, max(change / before, FINER**-2)) if math.isfinite(before) else change
        best, last, before = min(best, found), found, change
        settled = found <= enough or coming <= TOLERANCE * found
        if settled:
            break
        h /= FINER
    return best


def _tilt(grid: Grid, delta: float) -> tuple[float, float]:
    """Half of the t > 0 that minimises (K(t) - log delta) / t, the best Renyi order less one; and that least value, a bound.

    Half of it keeps enough digits and tilts less mass into the far tail of rare large losses, which would need a wide window.
    """
    from scipy.optimize import minimize_scalar

    log_delta = math.log(delta * (1 - ALLOWANCE) - grid.infinite())

    def bound(log_t: float) -> float:
        t = math.exp(log_t)
        return (grid.cumulant(t) - log_delta) / t

    _, deviation = grid.moments(0.0)
    centre = math.log(math.sqrt(-2 * math.log(delta) + 1e-3) / max(deviation, 1e-300))
    found = minimize_scalar(
        bound, bounds=(centre - 12, centre + 3), method="bounded", options={"xatol": 0.02, "maxiter": 40}
    )
    return math.exp(float(found.x)) / 2, max(0.0, float(found.fun))


def _on_grid(grid: Grid, delta: float, t: float, reach: float) -> tuple[float, int, float]:
    """Epsilon on one grid (inf where the window would be too wide), the window in grid points, and its half width.

    `reach` is the half width that a coarser grid took: where the search for this one starts.
    """
    from scipy.fft import next_fast_len

    left = delta * (1 - ALLOWANCE) - grid.infinite()
    cumulant = grid.cumulant(t)
    mean, deviation = grid.moments(t)
    reach = max(reach / GROWTH, 9 * deviation + 4 * grid.h)
    support = sum(count * len(masses.probs) for masses, count in grid.parts)
    while True:
        window = next_fast_len(min(2 * math.ceil(reach / grid.h) + 2, 2 * support + 2), real=True)
        if window > MAX_WINDOW:
            return math.inf, window, 0.0
        if window > 2 * support:
            above = 0.0
            break
        above, below = _cut(grid, t, cumulant, mean, deviation, (window // 2 - 2) * grid.h)
        if above <= NEGLIGIBLE * delta and below <= NEGLIGIBLE:
            break
        reach *= GROWTH
    first, weights = grid.composed(t, window)
    losses = (first + np.arange(window)) * grid.h
    return _solve(losses, weights, t, cumulant, left - above), window, reach


def _cut(grid: Grid, t: float, cumulant: float, mean: float, deviation: float, reach: float) -> tuple[float, float]:
    """Chernoff bounds: delta of losses above mean + reach, and tilted mass below mean - reach."""
    # Per deviation for nearly normal losses; per reach where rare large losses make the tail.
    per_deviation = [share / max(deviation, 1e-300) for share in (0.5, 2.0, 8.0)]
    shifts = [*per_deviation, *(share / reach for share in (12, 25, 50))]
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
