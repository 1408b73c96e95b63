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
LEAST_SHARE = 1e-4  # of a number among its code's numbers, as a multiple of an even share
LEAST_HELD = 1e-9  # of a code's numbers: a level with less of them counts as empty


def level(starts: Whole, codes: Whole, values: Whole) -> Whole:
    """In which part of its code's numbers each value lies: `starts` (codes, LEVELS) are the least values of all parts but the first."""
    found: Whole = (values[:, None] >= starts[codes]).sum(1)
    return found


def earlier(owner: Whole, record: Whole, code: Whole) -> Whole:
    """For each row, in the order of records: the place of the first row with the same code in the owner's last earlier record that has
    one, or -1."""
    rank = np.lexsort((np.arange(len(code)), code, owner))
    starts = np.ones(len(code), np.bool_)  # whether a row is the first of its owner and code
    starts[1:] = (np.diff(owner[rank]) != 0) | (np.diff(code[rank]) != 0)
    first = starts.copy()  # or the first of these in its record
    first[1:] |= np.diff(record[rank]) != 0
    every = np.arange(len(code))
    here = np.maximum.accumulate(np.where(first, every, 0))
    found = np.full(len(code), -1)
    found[rank] = np.where(starts[here], -1, rank[here[here - 1]])
    return found


def level_before(levels: Whole, owner: Whole, record: Whole, code: Whole) -> Whole:
    """For each row, the level in the row that `earlier` finds; LEVELS + 1, one code more than the levels, if it finds none."""
    before = earlier(owner, record, code)
    return np.where(before < 0, LEVELS + 1, levels[before])


def levels_of(starts: Whole, values: int) -> Whole:
    """(codes, values): the level of each value from 0 to `values` - 1, for each code; see `level`."""
    found: Whole = (np.arange(values)[None, :, None] >= starts[:, None, :]).sum(2)
    return found


def held_levels(in_levels: Whole, shares: Array) -> NDArray[np.bool_]:
    """(codes, levels): whether any numbers of a code lie in a level. `in_levels` (codes, values) is what `levels_of` returns, `shares` how
    often a code has each value. If a code has few different numbers, some of its levels are empty."""
    sums = [np.where(in_levels == each, shares, 0).sum(1) for each in range(LEVELS + 1)]
    return np.stack(sums, 1) > LEAST_HELD


def starts_of(shares: Array, end: int) -> Whole:
    """Where the parts of each code's numbers begin, (codes, LEVELS), so that about equally many rows lie in each. The last part holds all
    codes from `end` on, which stand in no order."""
    if end == 0:
        return np.zeros((len(shares), LEVELS), np.int64)
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
    """The last value of each key. Keys and values are whole numbers."""

    keys: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    values: Whole = field(default_factory=lambda: np.zeros(0, np.int64))

    def find(self, keys: Whole) -> Whole:
        """The last values of these keys, or -1."""
        place, known = self._place(keys)
        found = np.full(len(keys), -1)
        found[known] = self.values[place[known]]
        return found

    def keep(self, keys: Whole, values: Whole) -> None:
        """Make these the last values. No key occurs twice, and they ascend."""
        place, known = self._place(keys)
        self.values[place[known]] = values[known]
        self.keys, self.values = (
            np.insert(held, place[~known], new[~known]) for held, new in ((self.keys, keys), (self.values, values))
        )

    def _place(self, keys: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        place = np.searchsorted(self.keys, keys)
        return place, np.append(self.keys, -1)[place] == keys
