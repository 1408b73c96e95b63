"""The codes of one column: from cells to codes and back, each kind in its own way. `Codec` puts them side by side."""

from copy import copy
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.bins import Bins, bins_of
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Image,
    Integer,
    Ordinal,
    in_numbers,
    spoken,
)
from synthdp.schema.trees import Codes as CodesOfTree

Series: TypeAlias = "pd.Series[Any]"


Codes = NDArray[Any]  # int32, or uint8 for images: see `Codec`


class LabelCoder:
    """Categories or truth values, then missing."""

    width = 1

    def __init__(self, column: Categorical | Ordinal | Boolean) -> None:
        self._boolean = isinstance(column, Boolean)
        categories = ("false", "true") if isinstance(column, Boolean) else tuple(column.categories)
        self._missing = len(categories) if column.missing else None
        self.size = len(categories) + column.missing
        self._spelling = cells.spelling(column)
        self._table = cells.TRUTHS if self._boolean else cells.table_of(categories)
        # First and number of each category's codes.
        self._leaves: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        tree = column.tree if isinstance(column, Categorical) else None
        if tree is not None:
            self._table = CodesOfTree(self._table, tree)
            if tree.leaves:
                sizes = np.array([len(codes) for codes in tree.below(categories)])
                self._leaves = np.cumsum(sizes) - sizes, sizes
        self._dtype: Any = None
        if not isinstance(column, Boolean):
            held = pd.Index(spoken(column), dtype="str").astype("int64" if in_numbers(column) else "str")
            self._dtype = pd.CategoricalDtype(held, ordered=isinstance(column, Ordinal))
        other = column.other if isinstance(column, Categorical) else None
        self._unknown = categories.index(other) if other is not None else self._missing or 0
        self._absent = self._unknown if self._missing is None else self._missing

    def encode(self, series: Series) -> Codes:
        found = cells.labels(series, self._table, self._spelling)
        found[found == cells.UNKNOWN] = self._unknown
        found[found == cells.MISSING] = self._absent
        return found.astype(np.int32)

    def decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        gone = codes == -1 if self._missing is None else codes == self._missing
        if self._leaves is not None:
            first, sizes = (each[np.where(gone, 0, codes)] for each in self._leaves)
            codes = first + rng.integers(0, sizes)
        if not self._boolean:
            return pd.Categorical.from_codes(np.where(gone, -1, codes), dtype=self._dtype)
        return codes == 1 if self._missing is None else pd.arrays.BooleanArray(codes == 1, gone)


class NumericCoder:
    """Bins and atoms, then missing."""

    width = 1

    def __init__(self, column: Integer | Continuous | Datetime, cells: int = 0) -> None:
        self._column = column
        self._bins: Bins = bins_of(column, cells)
        self._missing = self._bins.size if column.missing else None
        self.size = self._bins.size + column.missing

    def encode(self, series: Series) -> Codes:
        points, gone = self.read(series)
        return self.or_missing(self._bins.codes(points), gone)

    def read(self, series: Series) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Points of the grid, and which are missing; where that is not allowed it is the lower bound."""
        read = cells.instants(series) if isinstance(self._column, Datetime) else cells.numbers(series)
        unread = read.missing | (read.wrong if isinstance(self._column, Datetime) else np.isnan(read.cells))
        low = (
            self._bins.edges[0] * self._bins.period if self._bins.scale is None or self._bins.scale == 1.0 else -np.inf
        )
        return self._bins.points(np.where(unread, low, read.cells)), unread & self._column.missing

    def or_missing(self, codes: Codes, gone: NDArray[np.bool_]) -> Codes:
        """Codes, or that of missing."""
        return codes if self._missing is None else np.where(gone, self._missing, codes).astype(np.int32)

    def known(self, codes: Codes) -> tuple[Codes, NDArray[np.bool_]]:
        """Codes with 0 in the place of missing, and which those are."""
        gone = np.zeros(len(codes), np.bool_) if self._missing is None else codes == self._missing
        return np.where(gone, 0, codes).astype(np.int32), gone

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last point of a whole number's or a date's grid."""
        return int(self._bins.edges[0]), int(self._bins.edges[-1]) - 1

    def coded(self, points: NDArray[Any]) -> Codes:
        """Codes of points."""
        return self._bins.codes(points)

    def draw(self, codes: Codes, rng: np.random.Generator) -> NDArray[Any]:
        """Points within the bins of codes, none of them missing."""
        return self._bins.draw(codes, rng)

    def between(
        self, codes: Codes, low: NDArray[np.int64], high: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Points of a date within the bins of codes, from `low` to `high` (rows,), of which each bin must hold one."""
        edges = self._bins.edges
        return rng.integers(np.maximum(edges[codes], low), np.minimum(edges[codes + 1] - 1, high) + 1)

    def decode(self, codes: Codes, rng: np.random.Generator) -> Any:
        inside, gone = self.known(codes)
        return self.cells(self._bins.draw(inside, rng), gone)

    def cells(self, points: NDArray[Any], gone: NDArray[np.bool_]) -> Any:
        """What a frame holds for points of the grid, missing where they are gone."""
        values = self._bins.values(points)
        if isinstance(self._column, Integer):
            return values if self._missing is None else pd.arrays.IntegerArray(values.astype(np.int64), gone)
        if isinstance(self._column, Continuous):
            return np.where(gone, np.nan, values)
        return np.where(gone, np.datetime64("NaT", "us"), values.astype(np.int64).astype("datetime64[us]"))

    def cut(self, bins: Bins) -> "NumericCoder":
        """The same codes, decoded from these bins."""
        other = copy(self)
        other._bins = bins
        return other

    def onto(self, other: "NumericCoder") -> NDArray[np.int64]:
        """The other's code of each code; its bins are made of whole bins of these."""
        found = np.searchsorted(other._bins.edges[1:-1], self._bins.edges[:-1], side="right")
        atoms = other._bins.count + np.arange(len(self._bins.atoms))
        return np.concatenate([found, atoms, [other.size - 1] * self._column.missing]).astype(np.int64)

    def grid(self) -> NDArray[np.float64]:
        """Edges of bins (bins + 1,) in steps of the grid on which values lie, the last one a step above the last value; plain numbers where
        there is no grid."""
        return self._bins.edges.astype(np.float64)

    def edges(self) -> NDArray[Any]:
        edges = self._bins.edges
        if isinstance(self._column, Integer):
            return np.append(self._bins.values(edges[:-1]), self._bins.values(edges[-1:] - 1) + 1)
        if self._bins.scale is None:
            return edges.copy()
        whole = np.append(edges[:-1], edges[-1] - 1)
        if isinstance(self._column, Datetime):
            return (whole * self._bins.period).astype("datetime64[us]")
        return whole / self._bins.scale

    def atoms(self) -> NDArray[Any]:
        return self._bins.values(self._bins.atoms)


class ImageCoder:
    """The pixels of an image, one code each; what is not a picture of the declared size is black."""

    size = 256

    def __init__(self, column: Image) -> None:
        self._shape, self.width = column.shape, column.pixels

    def encode(self, series: Series) -> Codes:
        codes = np.zeros((len(series), self.width), np.uint8)
        for row, cell in enumerate(series):
            if is_picture(cell, self._shape):
                codes[row] = cell.reshape(-1)
        return codes

    def decode(self, codes: Codes, rng: np.random.Generator) -> Any:  # noqa: ARG002
        cells = np.empty(len(codes), object)
        for row, values in enumerate(codes):
            cells[row] = values.astype(np.uint8).reshape(self._shape)
        return cells


Coder = LabelCoder | NumericCoder | ImageCoder


def cut(coder: Coder, bins: Bins | None) -> Coder:
    """The coder with these bins in the place of its own, where there are any."""
    return coder if bins is None or not isinstance(coder, NumericCoder) else coder.cut(bins)


def is_picture(cell: Any, shape: tuple[int, ...]) -> bool:
    """Whether a cell is a uint8 array of that shape; (height, width, 1) also stands for (height, width)."""
    if not isinstance(cell, np.ndarray) or cell.dtype != np.uint8:
        return False
    return cell.shape == shape or (len(shape) == 2 and cell.shape == (*shape, 1))


def coder_of(column: Column, cells: int = 0) -> Coder:
    """The coder of a column; `BadInput` for an identifier."""
    if isinstance(column, Image):
        return ImageCoder(column)
    if isinstance(column, Integer | Continuous | Datetime):
        return NumericCoder(column, cells)
    if isinstance(column, Categorical | Ordinal | Boolean):
        return LabelCoder(column)
    raise BadInput(f"column {column.name!r}: {column.kind} columns have no codes")
