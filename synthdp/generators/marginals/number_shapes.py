"""How often numbers and other codes that stand in order occur, from noisy counts: with one peak, or as few as noise allows.

In a table of laboratory tests by their values most cells hold few rows or none, since each test has a scale of its own, and noise fills
all of them.
"""

import functools
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from synthdp.schema.learned import nearest_counts

Array = NDArray[np.float64]
MOST_PEAKS = 3
FAINT = 10.0  # if noise would have to be so many times as large to explain what one peak leaves, few peaks would gain little
CLEAR = 2.0  # deviations that noise alone is expected to stay within
LEAST_WIDTH = 1e-6  # of a bin, in mean widths
PART = 0.5  # of the least positive edge: from there the logarithm of a bin that starts at 0 is taken


def shares(table: Array, deviation: float, edges: Array) -> Array:
    """(codes, numbers): how often each code has each number, from noisy counts; each row adds up to 1. The first numbers are bins between
    these `edges`. The others, atoms and missing cells, stand in no order, and are kept if they stand clear of the noise. If noise explains
    all differences between codes, each code gets the shares of all codes together."""
    bins, total = len(edges) - 1, np.maximum(table.sum(1, keepdims=True), deviation)
    every = np.maximum(table.sum(0), 0)
    expected = total * every / max(every.sum(), deviation)
    farthest = ((table - expected) ** 2).sum(1).max(initial=0)
    if noise_explains(table - expected, deviation) and farthest <= deviation**2 * _expected(table.shape[1], 2 * CLEAR):
        table, deviation = expected, deviation / math.sqrt(len(table))
    widths = even_widths(edges)
    found = np.where(table > CLEAR * deviation, table, 0.0)
    for code, row in enumerate(table[:, :bins]):
        found[code, :bins] = smoothed(row, widths, deviation)
    nearest: Array = np.array([nearest_counts(*each) for each in zip(found, total[:, 0], strict=True)]) / total
    return nearest


def smoothed(counts: Array, widths: Array, deviation: float) -> Array:
    """Among counts of bins of these widths with as few peaks as leave no more than noise explains, those nearest to the noisy ones. If
    `MOST_PEAKS` peaks leave more, or if noise is faint, the noisy counts themselves. Further peaks are found one by one, each in a stretch
    of its own."""

    @functools.cache
    def left(start: int, end: int) -> float:
        return float(_sides(counts[start:end] / widths[start:end], widths[start:end] ** 2).min())

    def lacking(ends: Sequence[int]) -> float:
        return sum(left(*each) for each in pairwise(ends))

    ends = [0, len(counts)]
    if lacking(ends) > (FAINT * deviation) ** 2 * _expected(len(counts)):
        return counts
    for peaks in range(1, MOST_PEAKS + 1):
        found = np.concatenate([single_peaked(counts[start:end], widths[start:end]) for start, end in pairwise(ends)])
        if noise_explains(counts - found, deviation):
            return found
        cuts = [sorted([*ends, cut]) for cut in range(1, len(counts)) if cut not in ends]
        if peaks < MOST_PEAKS and cuts:
            ends = min(cuts, key=lacking)
    return counts


def noise_explains(rest: Array, deviation: float) -> bool:
    """Whether neither the sum of squares of `rest` nor its largest number is larger than noise leads one to expect."""
    largest = math.sqrt(2 * math.log(max(rest.size, 2))) + 1  # of so many normal numbers the largest is seldom larger
    return bool(
        (rest**2).sum() <= deviation**2 * _expected(rest.size) and np.abs(rest).max(initial=0) <= deviation * largest
    )


def _expected(numbers: int, clear: float = CLEAR) -> float:
    """Of the sum of squares of so many normal numbers, chi-squared: its mean, and so many deviations."""
    return numbers + clear * math.sqrt(2 * numbers)


def even_widths(edges: Array) -> Array:
    """Widths of bins, or of their logarithms, whichever differ less; their mean is 1. All 1 where a bin has no width."""
    found = [np.diff(edges)]
    if edges[0] >= 0 and len(edges) > 2 and edges[1] > 0:
        found.append(np.diff(np.log(np.append(edges[0] or PART * edges[1], edges[1:]))))
    scaled = [each / each.mean() for each in found if np.isfinite(each).all() and (each > 0).all()]
    kept = [each for each in scaled if (each > LEAST_WIDTH).all()]
    return min(kept, key=lambda each: float(each.std()), default=np.ones(len(edges) - 1))


def single_peaked(counts: Array, widths: Array) -> Array:
    """Among counts of bins of these widths that, per width, rise up to one bin and fall from there, those nearest to the given ones by
    least squares: isotonic regression of both sides, for each place of the peak (Frisen 1986)."""
    from sklearn.isotonic import isotonic_regression

    density, weights = counts / widths, widths**2
    peak = int(np.argmin(_sides(density, weights)))  # bins before it rise, all others fall
    rising = isotonic_regression(density[:peak], sample_weight=weights[:peak]) if peak else density[:0]
    if peak == len(density):
        return rising * widths
    rest = isotonic_regression(density[peak:], sample_weight=weights[peak:], increasing=False)
    return np.concatenate([rising, rest]) * widths


def _sides(values: Array, weights: Array) -> Array:
    """(values + 1,) what is left by least squares if the first 0, 1, 2, ... values rise and all others fall."""
    return _errors(values, weights) + _errors(values[::-1], weights[::-1])[::-1]


def _errors(values: Array, weights: Array) -> Array:
    """(values + 1,) sums of squares that the nearest rising numbers leave of the first 0, 1, 2, ... values (pool adjacent violators)."""
    found, pools = [0.0], list[tuple[float, float, float]]()  # of each pool the weight, the mean and the error
    for mean, weight in zip(values.tolist(), weights.tolist(), strict=True):
        error, left = 0.0, found[-1]
        while pools and pools[-1][1] >= mean:
            other, before, lacking = pools.pop()
            left -= lacking
            error += lacking + weight * other / (weight + other) * (mean - before) ** 2
            mean, weight = (weight * mean + other * before) / (weight + other), weight + other
        pools.append((weight, mean, error))
        found.append(left + error)
    return np.array(found)
