"""Contingency tables of encoded records, counted a part of the records at a time: a part's columns stay in the cache, where every
table that is asked for finds them."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[Any]
Grouping = NDArray[np.int64]
PART = 1 << 16  # records


def counts(
    codes: Codes,
    cliques: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    groups: Sequence[Grouping | None] | None = None,
    rows: NDArray[np.int64] | None = None,
) -> list[NDArray[np.float64]]:
    """How many records each cell holds, one array per clique with one axis per column.

    `codes` is (records, columns), column i below `sizes[i]`; `groups[i]` says what is counted in the place of its codes. Of
    `rows` alone where they are given.
    """
    shapes = [tuple(_size(column, sizes, groups) for column in clique) for clique in cliques]
    found = [np.zeros(math.prod(shape)) for shape in shapes]
    used = {column for clique in cliques for column in clique}
    for part in _parts(codes, rows, max(PART, *(len(table) for table in found)) if found else PART):
        seen = {column: _column(part[:, column], column, groups) for column in used}
        for clique, shape, table in zip(cliques, shapes, found, strict=True):
            cells = np.zeros(len(part), np.int64)
            for column, size in zip(clique, shape, strict=True):
                cells *= size
                cells += seen[column]
            table += np.bincount(cells, minlength=len(table))
    return [table.reshape(shape) for table, shape in zip(found, shapes, strict=True)]


def _size(column: int, sizes: Sequence[int], groups: Sequence[Grouping | None] | None) -> int:
    group = None if groups is None else groups[column]
    return sizes[column] if group is None else int(group.max(initial=0)) + 1


def _column(codes: Codes, column: int, groups: Sequence[Grouping | None] | None) -> NDArray[np.int64]:
    group = None if groups is None else groups[column]
    return codes.astype(np.int64) if group is None else group[codes]


def _parts(codes: Codes, rows: NDArray[np.int64] | None, size: int) -> Iterator[Codes]:
    for start in range(0, len(codes) if rows is None else len(rows), size):
        yield codes[start : start + size] if rows is None else codes[rows[start : start + size]]
