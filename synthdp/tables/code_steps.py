"""Codes of a numeric column as steps: from which number on which code holds. What a database can compare, and nothing to round."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.schema.bins import Bins

Numbers = NDArray[Any]  # float64, or int64 microseconds of a datetime


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The code of x is codes[i], i the number of `starts` (ascending) that are at most y = x * scale.

    Equal to `Bins.encode` for every number, infinite ones too (datetimes: int64 microseconds up to 2^53, scale 1): rounding half to even
    and clipping are in the starts, so that y, one product of doubles, is all that is computed.
    """

    starts: Numbers
    codes: NDArray[np.int64]  # one more than starts
    scale: float

    def of(self, values: Numbers) -> NDArray[np.int64]:
        """The codes of values, here and not in a database."""
        scaled = values if self.scale == 1.0 else values * self.scale
        return self.codes[np.searchsorted(self.starts, scaled, side="right")]


def steps_of(bins: Bins, *, dates: bool = False) -> Steps:
    """The steps of a column's bins and atoms; those of `dates` are whole microseconds, without rounding."""
    inner = bins.edges[1:-1]
    if dates:
        return _merged(inner * bins.period, np.arange(len(inner) + 1), 1.0)
    first, last = bins.edges[0], bins.edges[-1] - (bins.scale is not None)
    start, after = (_rounded_to, _rounded_beyond) if bins.scale is not None else (float, _next)
    starts = np.array([start(edge) for edge in inner], np.float64)
    marks = {point: int(np.searchsorted(starts, point, side="right")) for point in (-math.inf, *starts)}
    for place, atom in enumerate(bins.atoms):
        low = -math.inf if atom <= first else start(atom)
        high = math.inf if atom >= last else after(atom)
        if high < math.inf:
            marks.setdefault(high, int(np.searchsorted(starts, high, side="right")))
        marks[low] = bins.count + place
    ordered = sorted(marks)
    return _merged(np.array(ordered[1:], np.float64), np.array([marks[point] for point in ordered]), bins.scale or 1.0)


def _merged(starts: Numbers, codes: NDArray[Any], scale: float) -> Steps:
    """Steps that change nothing are left out."""
    kept = np.flatnonzero(codes[1:] != codes[:-1])
    return Steps(starts=starts[kept], codes=np.append(codes[:1], codes[kept + 1]).astype(np.int64), scale=scale)


def _rounded_to(point: int) -> float:
    """The least double that rounds (half to even) to `point` or more. Beyond 2^52 there are no halves, and the difference rounds
    to a whole number: to `point` where that is even, else to the one below it."""
    half = float(point) - 0.5
    return half if point % 2 == 0 else _next(half)


def _rounded_beyond(point: int) -> float:
    """The least double that rounds to more than `point`."""
    return _rounded_to(int(point) + 1)


def _next(value: float) -> float:
    return math.nextafter(float(value), math.inf)
