"""From raw intensities to the 8-bit picture that a schema declares: one picture at a time, by public parameters alone."""

import struct
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.schema.coders import is_picture
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image as Picture


Array = NDArray[Any]
MAX_SIZE = 1 << 26  # pixels of one picture in a file: 8,192 x 8,192


def column_of(schema: Schema) -> Image:
    """The image column of a schema that must have one."""
    if schema.image is None:
        raise BadInput("schema: there is no column of kind image")
    return schema.image


def picture(cell: Any, column: Image) -> NDArray[np.uint8]:
    """A frame's cell as an array of `column.shape`, to be written."""
    if not is_picture(cell, column.shape):
        raise BadInput(f"column {column.name!r}: a record has no picture of the schema's size; validate the records")
    return np.ascontiguousarray(cell).reshape(column.shape)


def prepared(raw: Array, column: Image, where: str, *, inverted: bool = False) -> NDArray[np.uint8]:
    """The picture `raw`, (height, width) or (height, width, channels), as `column` declares it: uint8, `column.shape`.

    Intensities are mapped by the window, turned round where `inverted` (0 is then white), averaged or interpolated to the
    declared size, and rounded. `where` names the file in errors. Raises `BadInput` where the size or the depth is not the
    declared one and no rule of the schema leads to it.
    """
    check_size(raw.shape[:2], column, where)
    levels = windowed(raw if raw.ndim == 3 else raw[:, :, None], column, where)
    if levels.shape[2] != column.channels:
        raise BadInput(f"{where}: has {levels.shape[2]} channels, but the schema declares {column.channels}")
    if inverted:
        levels = 255 - levels
    if levels.shape[:2] != (column.height, column.width):
        levels = resized(levels, column.height, column.width)
    return levels.reshape(column.shape) if levels.dtype == np.uint8 else _bytes(levels).reshape(column.shape)


def windowed(raw: Array, column: Image, where: str) -> Array:
    """Any number of raw values on the scale 0 .. 255: uint8 as they are, or float32 by the window, cut off at both ends."""
    if column.window is None:
        if raw.dtype != np.uint8:
            raise BadInput(
                f"{where}: has {raw.dtype} values, not 8 bits; declare window: [low, high] for column {column.name!r}: the pixel values "
                "in the files that become black and white, such as [0, 4095]"
            )
        return raw
    if raw.dtype.kind not in "buif":
        raise BadInput(f"{where}: has {raw.dtype} values, not real numbers")
    if raw.dtype.kind == "f" and not np.isfinite(raw).all():
        raise BadInput(f"{where}: has NaN or infinite values, which are not intensities")
    low, high = column.window
    levels = (raw.astype(np.float64) - low) * (255 / (high - low))
    return np.clip(levels, 0, 255).astype(np.float32)


def whole(raw: Array, column: Image, where: str) -> NDArray[np.uint8]:
    """Pictures (n, *column.shape) of the declared size as uint8, by the window alone."""
    levels = windowed(raw, column, where)
    return levels if levels.dtype == np.uint8 else _bytes(levels)


def resized(levels: Array, height: int, width: int) -> NDArray[np.float64]:
    """(height, width, channels) from (any, any, channels): along each axis the average of the area that a pixel covers where
    there are fewer, linear interpolation between pixel centres where there are more."""
    tall = _along(levels.astype(np.float64), height)
    return _along(tall.swapaxes(0, 1), width).swapaxes(0, 1)


def _along(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The first axis brought to `size`."""
    count = len(values)
    if size == count:
        return values
    if size > count:
        places = np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)
        low = np.minimum(places.astype(np.int64), max(0, count - 2))
        share = (places - low)[:, None, None]
        between: NDArray[np.float64] = values[low] * (1 - share) + values[np.minimum(low + 1, count - 1)] * share
        return between
    sums = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    edges = np.arange(size + 1) * count / size
    low = np.minimum(edges.astype(np.int64), count - 1)
    upto = sums[low] + (edges - low)[:, None, None] * values[low]  # the integral from 0 to each edge
    averages: NDArray[np.float64] = np.diff(upto, axis=0) * (size / count)
    return averages


def check_size(size: tuple[int, ...], column: Image, where: str) -> None:
    """Refuse a picture in a file by its (height, width), before it is unpacked."""
    height, width = size
    if height < 1 or width < 1 or height * width > MAX_SIZE:
        raise BadInput(f"{where}: has {height} x {width} pixels; from 1 to {MAX_SIZE:,} can be read")
    if column.resize == "none" and (height, width) != (column.height, column.width):
        raise BadInput(
            f"{where}: has {height} x {width} pixels, but the schema declares {column.height} x {column.width}; resize: fit for "
            f"column {column.name!r} would scale it"
        )


def _bytes(levels: Array) -> NDArray[np.uint8]:
    rounded: NDArray[np.uint8] = np.rint(np.clip(levels, 0, 255)).astype(np.uint8)
    return rounded


# ---- PNG and JPEG files, through Pillow.


ENDINGS = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's, by channels
BROKEN = (OSError, SyntaxError, ValueError, TypeError, IndexError, OverflowError, EOFError, struct.error, zlib.error)


def read(path: Path, column: Image) -> tuple[NDArray[np.uint8], bool]:
    """The picture in a file as `column` declares it, and whether the file holds more than 8 bits of grey.

    Colours become grey by the luma of ITU-R BT.601 where one channel is declared, and grey is repeated where three are; an
    alpha channel that hides nothing is dropped. Marks of orientation (EXIF) are not followed. Raises `BadInput` that names the file.
    """
    with opened(path) as picture:
        check_size((picture.height, picture.width), column, str(path))
        raw, more = np.asarray(_channels(picture, column, path)), deep(path, picture)
    return prepared(raw, column, str(path)), more


@contextmanager
def opened(path: Path) -> "Iterator[Picture]":
    """The file with its header read and nothing unpacked. What goes wrong within the block is the file's fault."""
    from PIL import Image as Pillow

    try:
        with limits.faults_of(path, BROKEN, " as PNG or JPEG"), warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            with Pillow.open(path, formats=("PNG", "JPEG")) as picture:
                if getattr(picture, "n_frames", 1) != 1:
                    raise BadInput(f"{path}: has several pictures; each file must have one")
                yield picture
    except (Pillow.DecompressionBombWarning, Pillow.DecompressionBombError):
        raise BadInput(f"{path}: has too many pixels; at most {MAX_SIZE:,} can be read") from None


def write(picture: NDArray[np.uint8], path: Path) -> None:
    """A PNG file of a picture (height, width) or (height, width, channels)."""
    from PIL import Image as Pillow

    Pillow.fromarray(picture).save(path, format="PNG")


def deep(path: Path, picture: "Picture") -> bool:
    """Whether the file holds more than 8 bits of grey. Raises `BadInput` for more than 8 bits of colour, which Pillow would cut off."""
    with path.open("rb") as file:
        start = file.read(26)
    if picture.format == "PNG" and start[24:25] == b"\x10" and start[25:26] != b"\x00":
        raise BadInput(f"{path}: pictures with 16 bits per channel must be grey; save it as grey, or with 8 bits")
    return picture.mode.startswith("I") or picture.mode == "F"


def _channels(picture: "Picture", column: Image, path: Path) -> "Picture":
    """The picture with the declared number of channels."""
    if deep(path, picture):
        return picture
    wanted = MODES.get(column.channels)
    if wanted is None:
        raise BadInput(f"{path}: PNG and JPEG allow 1 to 4 channels, but the schema declares {column.channels}")
    if wanted in ("L", "RGB") and _has_alpha(picture):
        alpha: Any = picture.convert("RGBA").getchannel("A").getextrema()
        if alpha[0] < 255:
            raise BadInput(f"{path}: is transparent in places; save it without an alpha channel")
        picture = picture.convert("RGBA").convert("RGB")
    elif wanted in ("LA", "RGBA") and not _has_alpha(picture):
        raise BadInput(f"{path}: has no alpha channel, but the schema declares {column.channels} channels")
    return picture.convert(wanted)


def _has_alpha(picture: "Picture") -> bool:
    return picture.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in picture.info
