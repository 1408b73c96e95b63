"""DICOM files, through pydicom: the pixels and the tags that the schema names are read, and no other element.

Modality rescale (slope, intercept) and MONOCHROME1 follow DICOM PS3.3, C.11.1 and C.7.6.3.1.2.
"""

import importlib
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.images import pixels
from synthdp.schema.columns import Image

ENDING = ".dcm"
LABELS = "labels.csv"
MAX_FILE = 1 << 29  # bytes; the largest picture that is read has 2^26 pixels
PACKED = "1.2.840.10008.1.2.4."  # what JPEG and its kin begin with
DEFLATED = "1.2.840.10008.1.2.1.99"
NEEDED = (
    "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames", "BitsAllocated",
    "BitsStored", "HighBit", "PixelRepresentation", "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "PixelData",
)  # fmt: skip
GREY = ("MONOCHROME1", "MONOCHROME2")
COLOUR = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
TEXT = frozenset(["AE", "AS", "CS", "DA", "DT", "LO", "LT", "PN", "SH", "ST", "TM", "UC", "UI", "UR", "UT"])
NUMBERS = frozenset(["DS", "FD", "FL", "IS", "SL", "SS", "SV", "UL", "US", "UV"])
BROKEN = (
    AttributeError, LookupError, ValueError, TypeError, ArithmeticError, NotImplementedError, RuntimeError, OSError, EOFError,
    struct.error,
)  # fmt: skip


def read(path: Path, column: Image, keywords: Sequence[str]) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """The picture in a file as `column` declares it, and the values (text, number or None) of the tags with these keywords.

    Raises `BadInput` that names the file: not DICOM, no pixel data, several frames, grey levels without a window.
    """
    with _reading(path) as pydicom:
        data = _dataset(pydicom, path, keywords)
        raw = _levels(data, column, path)
        values = {keyword: _value(data, keyword, path) for keyword in keywords}
        inverted = data.PhotometricInterpretation == "MONOCHROME1"
    return pixels.prepared(raw, column, str(path), inverted=inverted), values


def is_one(path: Path) -> bool:
    """Whether a file begins as DICOM files do, and is not a DICOMDIR, which only lists others."""
    if path.name == "DICOMDIR" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def span(path: Path) -> tuple[tuple[int, int, int], float, float]:
    """(height, width, channels), and the least and greatest rescaled intensity: for the draft of a schema."""
    with _reading(path) as pydicom:
        data = _dataset(pydicom, path, ())
        size = (int(data.Rows), int(data.Columns), int(data.SamplesPerPixel))
        anything = Image(name="image", height=1, width=1, channels=max(1, size[2]), window=(0, 1), resize="fit")
        raw = _levels(data, anything, path)
        return size, float(raw.min()), float(raw.max())


def check_keywords(names: Sequence[str], where: Path) -> None:
    """Refuse columns that neither a list of labels nor a DICOM header can hold."""
    dictionary = _pydicom(where, "pydicom.datadict")
    for name in names:
        tag = dictionary.tag_for_keyword(name)
        if tag is None or dictionary.dictionary_VR(tag) not in TEXT | NUMBERS:
            raise BadInput(
                f"{where}: column {name!r} is neither in {LABELS} nor the keyword of a DICOM tag with text or a number"
            )


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """pydicom; what it raises within the block, on elements read lazily too, is the file's fault."""
    pydicom = _pydicom(path, "pydicom")
    broken = (*BROKEN, pydicom.errors.InvalidDicomError, pydicom.errors.BytesLengthException)
    with limits.faults_of(path, broken, " as DICOM"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its warnings may hold values
        yield pydicom


def _dataset(pydicom: Any, path: Path, keywords: Sequence[str]) -> Any:
    if path.stat().st_size > MAX_FILE:
        raise BadInput(f"{path}: has more than {MAX_FILE:,} bytes, too many for one picture")
    meta = pydicom.filereader.read_file_meta_info(path)
    if meta.get("TransferSyntaxUID") == DEFLATED:
        raise BadInput(f"{path}: is deflated, so it may unpack to any size; save it with another transfer syntax")
    return pydicom.dcmread(path, specific_tags=[*NEEDED, *keywords])


def _levels(data: Any, column: Image, path: Path) -> NDArray[Any]:
    """The rescaled intensities, (height, width) or (height, width, 3)."""
    if "PixelData" not in data:
        raise BadInput(f"{path}: has no pixel data")
    try:
        _check(data, column, path)
        raw: NDArray[Any] = data.pixel_array
        if data.PhotometricInterpretation not in GREY:
            return raw
        slope, intercept = (
            _number(data.get(name), usual) for name, usual in (("RescaleSlope", 1.0), ("RescaleIntercept", 0.0))
        )
        return raw.astype(np.float64) * slope + intercept
    except BROKEN as error:
        if isinstance(error, BadInput):
            raise
        packed = data.file_meta.get("TransferSyntaxUID", "").startswith(PACKED)
        remedy = "; it is compressed: save it uncompressed, or install a decoder for pydicom" if packed else ""
        raise BadInput(f"{path}: its pixel data cannot be read ({type(error).__name__}){remedy}") from None


def _check(data: Any, column: Image, path: Path) -> None:
    """Refuse by the header what cannot be read, before pixels are unpacked."""
    pixels.check_size((int(data.Rows), int(data.Columns)), column, str(path))
    if int(data.get("NumberOfFrames") or 1) != 1:
        raise BadInput(f"{path}: has several frames; each file must have one picture")
    samples, photometric = int(data.SamplesPerPixel), data.PhotometricInterpretation
    if (samples, photometric) not in [*((1, kind) for kind in GREY), *((3, kind) for kind in COLOUR)]:
        raise BadInput(f"{path}: its photometric interpretation is neither grey nor plain colour; convert it")
    if samples == 1 and "ModalityLUTSequence" in data:
        raise BadInput(
            f"{path}: has a modality look-up table, which synthdp does not read; save it with rescale slope and intercept"
        )
    if samples == 1 and column.window is None:
        raise BadInput(
            f"{path}: DICOM grey levels need window: [low, high] for column {column.name!r}, in rescaled units (CT: Hounsfield)"
        )


def _value(data: Any, keyword: str, path: Path) -> Any:
    if keyword not in data:
        return None
    element = data[keyword]
    if element.VR not in TEXT | NUMBERS:
        raise BadInput(f"{path}: {keyword} is neither text nor a number; give that column in {LABELS}")
    value = element.value
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) > 1:
            raise BadInput(f"{path}: {keyword} has several values; give that column in {LABELS}")
        value = value[0] if value else None
    if isinstance(value, int | float):
        return float(value)
    return None if value is None else str(value).strip() or None


def _number(value: Any, usual: float) -> float:
    return usual if value is None or value == "" else float(value)


def _pydicom(where: Path, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise BadInput(f"{where}: DICOM files need the package pydicom: pip install synthdp[dicom]") from None
