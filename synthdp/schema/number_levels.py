"""Levels of numbers in rows below visits: in which part of its code's numbers, such as the values of a laboratory test, each one lies.

The starts of the levels of each code follow from a noisy answer, so they are public. The level of a row, and which row before it had the
same code, follow from these starts and one unit's records.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
LEVEL = "level of "
LEVELS = 5  # of a number below visits: in which part of its code's numbers it lies
LEAST_SHARE = 1e-4  # of a number among those of its code, against an even share
LEAST_HELD = 1e-9  # of a code's numbers: in a level with fewer there are none


def level(starts: Whole, codes: Whole, values: Whole) -> Whole:
    """In which part of its code's numbers each value lies: `starts` (codes, LEVELS) are the least values of all parts but the first."""
    found: Whole = (values[:, None] >= starts[codes]).sum(1)
    return found


def earlier(owner: Whole, record: Whole, code: Whole) -> Whole:
    """Of rows record by record: the place of the first row of the owner's last record before this one that has the same code, or -1."""
    rank = np.lexsort((np.arange(len(code)), code, owner))
    starts = np.ones(len(code), np.bool_)  # of those of one owner and code
    starts[1:] = (np.diff(owner[rank]) != 0) | (np.diff(code[rank]) != 0)
    first = starts.copy()  # of those of one record, too
    first[1:] |= np.diff(record[rank]) != 0
    every = np.arange(len(code))
    here = np.maximum.accumulate(np.where(first, every, 0))
    found = np.full(len(code), -1)
    found[rank] = np.where(starts[here], -1, rank[here[here - 1]])
    return found


def level_before(levels: Whole, owner: Whole, record: Whole, code: Whole) -> Whole:
    """The level that `earlier` finds for each row, or one code more where there is none."""
    before = earlier(owner, record, code)
    return np.where(before < 0, LEVELS + 1, levels[before])


def levels_of(starts: Whole, values: int) -> Whole:
    """(codes, values): the level of each of so many values of each code, as `level`."""
    found: Whole = (np.arange(values)[None, :, None] >= starts[:, None, :]).sum(2)
    return found


def held_levels(in_levels: Whole, shares: Array) -> NDArray[np.bool_]:
    """(codes, levels): in which levels numbers of each code lie at all. `in_levels` (codes, values) are those of `levels_of`, `shares` how
    often a code has each value. Where a code has few different numbers, some levels have none."""
    sums = [np.where(in_levels == each, shares, 0).sum(1) for each in range(LEVELS + 1)]
    found: NDArray[np.bool_] = np.stack(sums, 1) > LEAST_HELD
    return found


def starts_of(shares: Array, end: int) -> Whole:
    """Where the parts of each code's numbers begin, (codes, LEVELS), so that about as many rows lie in each; the last part are all that
    stand in no order."""
    held = shares[:, :end] + LEAST_SHARE / end
    middle = (np.cumsum(held, 1) - held / 2) / held.sum(1, keepdims=True)
    starts = (middle[:, None, :] < (np.arange(1, LEVELS) / LEVELS)[None, :, None]).sum(2)
    return np.column_stack([starts, np.full(len(starts), end)])


def ascend(starts: Array, end: int) -> bool:
    """Whether these are whole numbers that ascend from 0 or more to `end`, the first code that stands in no order."""
    whole = (starts == np.floor(starts)).all() and (starts[:, -1] == end).all()
    return bool(whole and (np.diff(starts, prepend=0) >= 0).all())


@dataclass
class Last:
    """The last value of each key, all of them whole numbers."""

    keys: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    values: Whole = field(default_factory=lambda: np.zeros(0, np.int64))

    def find(self, keys: Whole) -> Whole:
        """Their values, or -1."""
        place, known = self._place(keys)
        found = np.full(len(keys), -1)
        found[known] = self.values[place[known]]
        return found

    def keep(self, keys: Whole, values: Whole) -> None:
        """From now on these are the last ones, of different keys in ascending order."""
        place, known = self._place(keys)
        self.values[place[known]] = values[known]
        self.keys, self.values = (
            np.insert(held, place[~known], new[~known]) for held, new in ((self.keys, keys), (self.values, values))
        )

    def _place(self, keys: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        place = np.searchsorted(self.keys, keys)
        return place, np.append(self.keys, -1)[place] == keys
