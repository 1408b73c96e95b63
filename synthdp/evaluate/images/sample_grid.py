"""Sheets of pictures as PNG: small, lossless, one pixel a pixel; the page enlarges them without smoothing."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.images.pictures import shrunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_SIDE = 64  # larger pictures are averaged down, so that the page stays small


def sheet(
    pictures: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], columns: int, *, scale: int = 1, gap: int = 0
) -> bytes:
    """A PNG of equal pictures, row by row, each pixel drawn scale x scale, gap clear pixels between pictures.

    pictures: at least one, uint8, (height, width) or (height, width, channels); the places that the last row lacks
    stay clear. Two channels, or more than three, show their mean.
    """
    cells = np.asarray(pictures)
    if cells.ndim == 3:
        cells = cells[..., None]
    if cells.ndim != 4 or not len(cells) or cells.dtype != np.uint8:
        raise BadInput("pictures: give at least one uint8 array of (height, width) or (height, width, channels)")
    if columns < 1 or scale < 1 or gap < 0:
        raise BadInput(f"columns and scale must be at least 1 and gap at least 0, got {columns}, {scale} and {gap}")
    cells = _shown(cells)
    count, height, width, channels = cells.shape
    rows = -(-count // columns)
    clear = np.zeros((rows * columns, height + gap, width + gap, channels + 1), dtype=np.uint8)
    clear[:count, :height, :width, :channels], clear[:count, :height, :width, channels] = cells, 255
    whole = clear.reshape(rows, columns, height + gap, width + gap, -1).transpose(0, 2, 1, 3, 4)
    flat = whole.reshape(rows * (height + gap), columns * (width + gap), -1)
    flat = flat[: len(flat) - gap, : flat.shape[1] - gap].repeat(scale, axis=0).repeat(scale, axis=1)
    return _png(flat if (flat[..., channels] == 0).any() else flat[..., :channels])


def strip(pictures: NDArray[np.uint8]) -> dict[str, Any]:
    """One row of pictures (count, height, width, channels) for the page: PNG as a data URI, and its size in pixels."""
    small = shrunk(pictures, MOST_SIDE)
    picture = base64.b64encode(sheet(small, len(small), gap=1)).decode("ascii")
    return {
        "png": f"data:image/png;base64,{picture}",
        "count": len(small),
        "width": (small.shape[2] + 1) * len(small) - 1,
        "height": small.shape[1],
    }


def _shown(cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if cells.shape[3] in (1, 3):
        return cells
    mean: NDArray[np.uint8] = np.rint(cells.mean(axis=3, keepdims=True)).astype(np.uint8)
    return mean


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, 1 to 4): grey, grey and alpha, colour, colour and alpha."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
