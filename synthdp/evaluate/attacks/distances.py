"""Distance of mixed records after Gower 1971 (Biometrics 27): the mean over columns of a difference in [0, 1].

A category differs by 0 or 1; an ordinal by its steps over the most steps; a number by its gap over the width of the synthetic
rows' middle 90 % (over the declared bounds where that is nothing), 1 at most, so that a long tail does not make all others
equal. A missing value equals a missing value and differs from any other by 1. The widths come from the synthetic rows, which
every attacker has: real rows of both kinds are measured alike.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.tables import Axis, Table

T = TypeVar("T")
# Pairs per block: two float32 buffers of this size stay in the processor's cache.
BLOCK = 1 << 17
# What int16 holds; beyond so many categories the last are one.
MOST_CODES = 32_000
# Where missing numbers lie: further than 1 from every known one, at no distance from each other.
FAR = np.float32(1e9)


@dataclass(frozen=True, kw_only=True)
class Points:
    """numbers (columns, rows) float32 in units of width; codes (columns, rows) of categories. The columns come first."""

    numbers: NDArray[np.float32]
    codes: NDArray[np.int16]

    @property
    def rows(self) -> int:
        return int(self.codes.shape[1])

    def take(self, rows: NDArray[np.int64]) -> "Points":
        return Points(
            numbers=np.ascontiguousarray(self.numbers[:, rows]), codes=np.ascontiguousarray(self.codes[:, rows])
        )


def width(axis: Axis, column: NDArray[np.float64]) -> float:
    """The difference that counts as 1, of a number or an ordinal; column: the synthetic rows' values."""
    if axis.kind == "ordinal":
        return float(max(len(axis.levels) - 1, 1))
    known = column[~np.isnan(column)]
    low, high = np.quantile(known, [0.05, 0.95]) if len(known) else (0.0, 0.0)
    found = float(high - low) or float(axis.high - axis.low)
    return found if found > 0 else 1.0


def points(table: Table, synthetic: Table) -> Points:
    """A table's rows as points of the distance that the synthetic rows set; both have the same axes."""
    numbers, codes = [], []
    for axis, column, made in zip(table.axes, table.values.T, synthetic.values.T, strict=True):
        missing = np.isnan(column)
        if axis.kind == "category":
            codes.append(np.where(missing, -1, np.minimum(column, MOST_CODES)).astype(np.int16))
        else:
            scaled = (np.where(missing, 0.0, column) - axis.low) / width(axis, made)
            numbers.append(np.where(missing, FAR, scaled).astype(np.float32))
    shape = (0, table.rows)
    return Points(
        numbers=np.array(numbers, dtype=np.float32) if numbers else np.empty(shape, np.float32),
        codes=np.array(codes, dtype=np.int16) if codes else np.empty(shape, np.int16),
    )


def nearest(of: Points, among: Points, jobs: int = 1) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(rows,) place in among of each point's nearest row, the first of equals, and the distance to it."""

    def least(block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        place = block.argmin(axis=1)
        return place, block[np.arange(len(block)), place].astype(np.float64)

    found = _over_blocks(of, among, jobs, least)
    return np.concatenate([place for place, _ in found]), np.concatenate([gap for _, gap in found])


def paired(of: Points, among: Points, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """(rows,) distance of each point to one row of among; bit by bit what `nearest` finds for that pair."""
    total = np.zeros(of.rows, np.float32)
    for own, other in zip(of.numbers, among.numbers, strict=True):
        total += np.minimum(np.abs(own - other[places]), np.float32(1))
    total += (of.codes != among.codes[:, places]).sum(axis=0, dtype=np.uint16)
    total /= np.float32(max(len(of.numbers) + len(of.codes), 1))
    return total.astype(np.float64)


def two_nearest(of: Points, among: Points, jobs: int = 1) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(rows,) place of the nearest and (rows, 2) distances to the nearest and the second nearest of at least two rows."""

    def least(block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        every, place = np.arange(len(block)), block.argmin(axis=1)
        first = block[every, place].copy()
        block[every, place] = np.inf
        return place, np.stack([first, block.min(axis=1)], axis=1).astype(np.float64)

    found = _over_blocks(of, among, jobs, least)
    return np.concatenate([place for place, _ in found]), np.concatenate([gap for _, gap in found])


def log_density(of: Points, among: Points, bandwidth: float, jobs: int = 1) -> NDArray[np.float64]:
    """(rows,) log of the mean of exp(-distance / bandwidth) over among, which is not empty: a kernel density but for a
    constant. Shifted by the nearest distance first, so that a far point has a finite one too."""

    def summed(block: NDArray[np.float32]) -> NDArray[np.float64]:
        least = block.min(axis=1, keepdims=True)
        np.subtract(least, block, out=block)
        block /= np.float32(bandwidth)
        np.exp(block, out=block)
        found: NDArray[np.float64] = np.log(block.mean(axis=1, dtype=np.float64)) - least[:, 0] / bandwidth
        return found

    return np.concatenate(_over_blocks(of, among, jobs, summed))


def _over_blocks(of: Points, among: Points, jobs: int, each: Callable[[NDArray[np.float32]], T]) -> list[T]:
    size = max(1, BLOCK // max(among.rows, 1))
    starts = range(0, of.rows, size)

    def one(start: int) -> T:
        return each(_block(of, among, slice(start, start + size)))

    if jobs == 1:
        return [one(start) for start in starts]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, starts))


def _block(of: Points, among: Points, rows: slice) -> NDArray[np.float32]:
    """(rows, among.rows) distances."""
    left, right = of.numbers[:, rows], of.codes[:, rows]
    shape = (right.shape[1], among.rows)
    total, gap = np.zeros(shape, np.float32), np.empty(shape, np.float32)
    for own, other in zip(left, among.numbers, strict=True):
        np.subtract(own[:, None], other[None, :], out=gap)
        np.abs(gap, out=gap)
        np.minimum(gap, np.float32(1), out=gap)
        total += gap
    unequal, counted = np.empty(shape, np.bool_), np.zeros(shape, np.uint16)
    for mine, its in zip(right, among.codes, strict=True):
        np.not_equal(mine[:, None], its[None, :], out=unequal)
        counted += unequal
    total += counted
    total /= np.float32(max(len(left) + len(right), 1))
    return total
