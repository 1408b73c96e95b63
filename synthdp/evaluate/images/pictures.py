"""Frames of images as plain arrays that all metrics share: uint8 pixels, and the columns beside them as a table."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.evaluate import tables
from synthdp.evaluate.tables import Axis, Table
from synthdp.schema.coders import is_picture
from synthdp.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Pictures(Table):
    """The columns beside the images, if there are any, and pixels: (rows, height, width, channels) uint8."""

    pixels: NDArray[np.uint8]

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        return replace(self, values=self.values[rows], pixels=self.pixels[rows])

    def labels(self, axis: Axis) -> NDArray[np.int64]:
        """(rows,): the class of each record, -1 where it is missing or undeclared."""
        column = self.column(axis.name)
        return np.where(column < len(axis.levels), column, -1).astype(np.int64)  # False for NaN too


def axes_of(schema: Schema, train: pd.DataFrame) -> tuple[Axis, ...]:
    """The axes of what stands beside the image: labels, and any other column that is no identifier."""
    rest = tuple(column for column in schema.columns if column.kind != "image")
    if not any(column.kind != "identifier" for column in rest):
        return ()
    return tables.axes_of(replace(schema, columns=rest), train)


def pictures_of(frame: pd.DataFrame, schema: Schema, axes: tuple[Axis, ...], role: str) -> Pictures:
    """The frame's images and the columns of axes. role words the message: `synthetic`.

    Raises BadInput where a column is missing, or an image is not a uint8 array of the schema's shape.
    """
    column = schema.image
    if column is None:
        raise BadInput("schema: no column is an image; judge tables with synthdp.evaluate.evaluate")
    tables.check_columns(frame, [column.name, *(axis.name for axis in axes)], role)
    cells = list(frame[column.name])
    wrong = sum(not is_picture(cell, column.shape) for cell in cells)
    if wrong:
        size = " x ".join(map(str, column.shape))
        raise BadInput(
            f"Column {column.name!r} of the {role} rows: {wrong} of {len(cells)} values are not uint8 arrays of {size}, "
            "the size that the schema declares. Convert them, or use the schema that the rows were made with."
        )
    shape = (len(cells), column.height, column.width, column.channels)
    pixels = np.stack(cells).reshape(shape) if cells else np.empty(shape, dtype=np.uint8)
    return Pictures(axes=axes, values=tables.table_of(frame, axes, role).values, pixels=pixels)


def shrunk(pixels: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """(rows, h, w, channels) uint8 with h, w <= side: means over equal windows; as they are where they fit already.

    A window is ceil(longer edge / side) pixels wide and high; the edge's last window is cut short. Rows are averaged in
    blocks, so that memory stays small.
    """
    step = -(-max(pixels.shape[1:3]) // side)
    if step <= 1:
        return pixels
    rows, cols = (np.arange(0, length, step) for length in pixels.shape[1:3])
    counts = np.outer(np.diff([*rows, pixels.shape[1]]), np.diff([*cols, pixels.shape[2]]))[:, :, None]
    out = np.empty((len(pixels), len(rows), len(cols), pixels.shape[3]), dtype=np.uint8)
    for start in range(0, len(pixels), 1_024):
        block = pixels[start : start + 1_024].astype(np.float64)
        sums = np.add.reduceat(np.add.reduceat(block, rows, axis=1), cols, axis=2)
        out[start : start + 1_024] = np.rint(sums / counts)
    return out


def drawn(rows: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places of `most` rows drawn without replacement, in order; every row where there are no more."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(rng.choice(rows, size=most, replace=False))
