"""When the records of drawn histories lie: between which points, and on which of them how often."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LEAST_SHARE = 1e-4  # of a point, against an even share
LEAST_ROOM = 1e-9  # of the time, for records to come
MOST_CROWDED = -300.0  # logarithm of the least chance that records to come leave to a gap


@dataclass(frozen=True)
class Spans:
    """Between which points of the order column all records of a unit lie, (units,) each, and for the dates of units that say so their
    points; `first` and `last` are the codes of the ends. The model keeps rules such as birth <= visit <= death by this."""

    low: Whole
    high: Whole
    first: Whole
    last: Whole
    codes: int
    points: dict[str, Whole]
    gone: dict[str, NDArray[np.bool_]]
    limited: bool

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Units for whose records there is no time."""
        return self.low > self.high

    def closed(self, units: Whole) -> NDArray[np.bool_]:
        """(rows, codes): the order column's codes that lie outside, of these units."""
        codes = np.arange(self.codes)[None, :]
        if not self.limited:
            return np.zeros((len(units), self.codes), np.bool_)
        return (codes < self.first[units][:, None]) | (codes > self.last[units][:, None])


@dataclass(frozen=True)
class PointShares:
    """On which points records lie: shares of all points up to each one, of a unit's first records within a code and of later ones, by the
    least point; and the first point of each code."""

    low: int
    firsts: Array
    laters: Array
    starts: Whole

    def share(self, first: Whole, last: Whole, none: NDArray[np.bool_]) -> Array:
        """The mean share of the points from `first` to `last`, 0 where there are none."""
        ends, begin = np.where(none, 0, last + 1 - self.low), np.where(none, 0, first - self.low)
        found: Array = (self.laters[ends] - self.laters[begin]) / np.maximum(ends - begin, 1)
        return found

    def sum(self, first: Whole, last: Whole) -> Array:
        """The sum of the shares of the points from `first` to `last`."""
        found: Array = self.laters[last + 1 - self.low] - self.laters[first - self.low]
        return found

    def draw(self, first: Whole, last: Whole, rng: np.random.Generator) -> Whole:
        """A point from `first` to `last`, of a record that follows another."""
        return self._drawn(self.laters, first, last, rng)

    def start(self, codes: Whole, low: Whole, high: Whole, rng: np.random.Generator) -> Whole:
        """A point of each code from `low` to `high`, of a first record."""
        first, last = np.maximum(self.starts[codes], low), np.minimum(self.starts[codes + 1] - 1, high)
        return self._drawn(self.firsts, first, last, rng)

    def _drawn(self, shares: Array, first: Whole, last: Whole, rng: np.random.Generator) -> Whole:
        begin, end = shares[first - self.low], shares[last + 1 - self.low]
        found = np.searchsorted(shares, begin + (end - begin) * rng.random(len(first)), side="right") - 1 + self.low
        return np.clip(found, first, last)


def crowded(room: Array, left: Whole) -> Array:
    """Logarithms of the chance that so many records, each anywhere, lie in a share of the time, (rows, codes)."""
    found: Array = np.maximum(left[:, None] * np.log(np.clip(room, LEAST_ROOM, 1)), MOST_CROWDED)
    return found
