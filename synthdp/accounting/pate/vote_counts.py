"""Matrices of votes: (queries, classes) counts, each row adding up to the number of teachers."""

import csv
from pathlib import Path

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
        raise BadInput("each row of votes must add up to the same number of teachers, 1 or more")
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
        raise BadInput(f"{path} holds a cell that is no number; votes are counts of teachers") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
