"""Matrices of votes: (queries, classes) counts, each row adding up to the number of teachers."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from synthdp.errors import BadInput

Array = np.ndarray


def checked(votes: ArrayLike) -> Array:
    """The counts as float64 (queries, classes); raises `BadInput` for anything that cannot be a matrix of votes."""
    found = np.asarray(votes)
    if found.dtype.kind not in "iuf":
        raise BadInput("votes must be numbers: one row per query, one column per class, each a count of teachers")
    found = found.astype(float)
    if found.ndim != 2:
        raise BadInput(f"votes must have two dimensions (queries, classes), got {found.ndim}")
    if found.shape[1] < 2:
        raise BadInput(f"votes must have a column for each of 2 classes or more, got {found.shape[1]}")
    if not bool(np.all(np.isfinite(found) & (found >= 0) & (found == np.floor(found)))):
        raise BadInput("votes must be whole numbers, 0 or more: how many teachers chose the class")
    if len(found) and not (found[0].sum() > 0 and bool(np.all(found.sum(1) == found[0].sum()))):
        raise BadInput("every row of votes must add up to the same number of teachers, which is 1 or more")
    return found


def load(path: Path) -> Array:
    """The votes in a file, .npy (never pickled) or .csv (a header is allowed); raises `BadInput` where it holds none."""
    if not path.is_file():
        raise BadInput(f"no file of votes at {path}")
    if path.suffix.lower() == ".npy":
        try:
            return checked(np.load(path, allow_pickle=False))
        except (ValueError, EOFError) as error:
            if isinstance(error, BadInput):
                raise
            raise BadInput(f"{path} is not a plain .npy array of numbers") from error
    if path.suffix.lower() == ".csv":
        return checked(_numbers(path))
    raise BadInput(f"votes={path} must end in .npy or .csv")


def gaps(votes: Array) -> tuple[Array, Array]:
    """By how many votes the winner leads each class (queries, classes), and a mask that leaves the winner out."""
    others = np.ones(votes.shape, dtype=bool)
    others[np.arange(len(votes)), votes.argmax(1)] = False
    return votes.max(1, keepdims=True) - votes, others


def _numbers(path: Path) -> Array:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path} is not a text file of comma-separated numbers") from error
    if rows and not _is_number(rows[0][0]):
        rows = rows[1:]
    if len({len(row) for row in rows}) > 1:
        raise BadInput(f"{path}: the rows have different numbers of columns")
    try:
        return np.array([[float(cell) for cell in row] for row in rows], dtype=float)
    except ValueError:
        raise BadInput(f"{path} has a cell that is not a number; votes are counts of teachers") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


# ---- The two kinds of answer, and the tail bounds that turn moments and divergences into epsilon.


@dataclass(frozen=True, kw_only=True)
class DataIndependent:
    """Epsilon at `delta`, whatever the teachers say; `order` is the one at which the bound was least. Free to publish."""

    epsilon: float
    delta: float
    order: float


@dataclass(frozen=True, kw_only=True)
class DataDependent:
    """Epsilon at `delta` for the votes that were cast. INTERNAL: this number is itself a function of the records and has no
    privacy of its own. It may not be published, stop a training, choose a parameter or enter a ledger. It bounds the loss of these records
    against their neighbours only.

    `answered` is how many queries were, or are expected to be, answered.
    """

    epsilon: float
    delta: float
    order: float
    answered: float
    internal: Literal[True] = True


def from_moments(whole: Array, orders: Array, delta: float) -> tuple[float, float]:
    """(epsilon, order) from log-moments (orders,): the least (alpha(l) + log(1 / delta)) / l (Abadi et al. 2016, theorem 2)."""
    _check_delta(delta)
    return _least((whole - math.log(delta)) / orders, orders)


def from_divergences(whole: Array, orders: Array, delta: float) -> tuple[float, float]:
    """(epsilon, order) from Renyi divergences (orders,): Mironov 2017, proposition 3, which the papers' figures used."""
    _check_delta(delta)
    return _least(whole - math.log(delta) / (orders - 1), orders)


def _least(bounds: Array, orders: Array) -> tuple[float, float]:
    best = int(np.argmin(bounds))
    return max(0.0, float(bounds[best])), float(orders[best])


def checked_orders(orders: Sequence[float] | Array, above: float) -> Array:
    """The orders as an array; raises `BadInput` where there are none, or where one is not finite and greater than `above`."""
    found = np.asarray(orders, dtype=float)
    if found.ndim != 1 or not len(found) or not bool(np.all((found > above) & np.isfinite(found))):
        raise BadInput(f"orders must be finite numbers greater than {above:g}, at least one")
    return found


def positive(name: str, value: float) -> float:
    """The value; raises `BadInput` where it is no finite number above 0."""
    if not 0 < value < math.inf:
        raise BadInput(f"{name} must be a finite number greater than 0, got {value}")
    return value


def whole_number(name: str, value: int) -> int:
    """The value; raises `BadInput` where it is no whole number, 0 or more."""
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise BadInput(f"{name} must be a whole number, 0 or more, got {value}")
    return int(value)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise BadInput(f"delta must lie strictly between 0 and 1, got {delta}")
