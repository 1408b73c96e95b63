"""PNG and JPEG files, through Pillow."""

import struct
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.images import pixels
from synthdp.schema.columns import Image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image as Picture

ENDINGS = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's, by channels
BROKEN = (OSError, SyntaxError, ValueError, TypeError, IndexError, OverflowError, EOFError, struct.error, zlib.error)


def read(path: Path, column: Image) -> NDArray[np.uint8]:
    """The picture in a file as `column` declares it.

    Colours become grey by the luma of ITU-R BT.601 where one channel is declared, and grey is repeated where three are; an
    alpha channel that hides nothing is dropped. Marks of orientation (EXIF) are not followed. Raises `BadInput` that names the file.
    """
    with opened(path) as picture:
        pixels.check_size((picture.height, picture.width), column, str(path))
        raw = np.asarray(_channels(picture, column, path))
    return pixels.prepared(raw, column, str(path))


@contextmanager
def opened(path: Path) -> "Iterator[Picture]":
    """The file with its header read and nothing unpacked. What goes wrong within the block is the file's fault."""
    from PIL import Image as Pillow

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Pillow.DecompressionBombWarning)
            with Pillow.open(path, formats=("PNG", "JPEG")) as picture:
                if getattr(picture, "n_frames", 1) != 1:
                    raise BadInput(f"{path}: holds several pictures, one a file is needed")
                yield picture
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except (Pillow.DecompressionBombWarning, Pillow.DecompressionBombError):
        raise BadInput(f"{path}: has too many pixels, at most {pixels.MAX_SIZE:,} can be read") from None
    except BROKEN as error:
        raise BadInput(f"{path}: cannot be read as PNG or JPEG ({type(error).__name__})") from None


def write(picture: NDArray[np.uint8], path: Path) -> None:
    """A PNG file of a picture (height, width) or (height, width, channels)."""
    from PIL import Image as Pillow

    Pillow.fromarray(picture).save(path, format="PNG")


def deep(path: Path, picture: "Picture") -> bool:
    """Whether the file holds more than 8 bits of grey. Raises `BadInput` for more than 8 bits of colour, which Pillow would cut off."""
    with path.open("rb") as file:
        start = file.read(26)
    if picture.format == "PNG" and start[24:25] == b"\x10" and start[25:26] != b"\x00":
        raise BadInput(f"{path}: 16 bits a channel are read in grey only; save it as grey, or with 8 bits")
    return picture.mode.startswith("I") or picture.mode == "F"


def _channels(picture: "Picture", column: Image, path: Path) -> "Picture":
    """The picture with the declared number of channels."""
    if deep(path, picture):
        return picture
    wanted = MODES.get(column.channels)
    if wanted is None:
        raise BadInput(f"{path}: PNG and JPEG hold 1 to 4 channels, the schema declares {column.channels}")
    if wanted in ("L", "RGB") and _has_alpha(picture):
        alpha: Any = picture.convert("RGBA").getchannel("A").getextrema()
        if alpha[0] < 255:
            raise BadInput(f"{path}: is transparent in places; save it without an alpha channel")
        picture = picture.convert("RGBA").convert("RGB")
    elif wanted in ("LA", "RGBA") and not _has_alpha(picture):
        raise BadInput(f"{path}: has no alpha channel, the schema declares {column.channels} channels")
    return picture.convert(wanted)


def _has_alpha(picture: "Picture") -> bool:
    return picture.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in picture.info
