"""Arrays in .npz files, read without trust: no pickled object, and no more memory than the file's own size explains."""

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.files.limits import FREE, RATIO, faults_of

Array = NDArray[Any]
ENDING = ".npy"
HEADER = 10_000  # bytes; numpy's own bound
READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}  # by version
BLOCK = 1 << 24  # bytes read at a time
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class Header:
    """What an array is, before it is unpacked."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int  # bytes before its values

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def headers(path: Path) -> dict[str, Header]:
    """Every array of a file, in the file's order; no value is read.

    Raises `BadInput` for what is no .npz file of plain arrays, and for one that would unpack to far more than it is.
    """
    with _opened(path) as packed:
        members = packed.infolist()
        names = [member.filename.removesuffix(ENDING) for member in members]
        if len(set(names)) < len(names) or not all(member.filename.endswith(ENDING) for member in members):
            raise BadInput(f"{path}: is not an .npz file with distinct arrays; save it with numpy.savez_compressed")
        unpacked = sum(member.file_size for member in members)
        if unpacked > FREE and unpacked > RATIO * path.stat().st_size:
            raise BadInput(
                f"{path}: would unpack to {unpacked:,} bytes, over {RATIO} times its size; save it without compression"
            )
        return {name: _header(packed, member, name, path) for name, member in zip(names, members, strict=True)}


def blocks(path: Path, header: Header) -> Iterator[Array]:
    """The array in parts along its first axis, of about 16 MB each; each is the caller's own."""
    if header.fortran and len(header.shape) > 1:  # its rows do not lie one after the other
        yield array(path, header)
        return
    step = max(1, BLOCK // max(1, header.bytes // max(1, header.shape[0])))
    with _opened(path) as packed, packed.open(header.name + ENDING) as stream:
        stream.read(header.start)
        for start in range(0, header.shape[0], step):
            yield _filled(stream, (min(step, header.shape[0] - start), *header.shape[1:]), header.dtype, path)


def array(path: Path, header: Header) -> Array:
    with _opened(path) as packed, packed.open(header.name + ENDING) as stream:
        stream.read(header.start)
        if header.fortran:
            return _filled(stream, header.shape[::-1], header.dtype, path).T
        return _filled(stream, header.shape, header.dtype, path)


def write(path: Path, arrays: Mapping[str, tuple[Array, IO[bytes] | None]]) -> None:
    """A compressed .npz file; beside an array may stand a stream of the values in its place (its dtype and shape then count).

    The same values give the same bytes.
    """
    with zipfile.ZipFile(path, "w") as packed:
        for name, (values, stream) in arrays.items():
            member = zipfile.ZipInfo(name + ENDING)
            member.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(member, "w", force_zip64=True) as out:
                if stream is None:
                    np.lib.format.write_array(out, np.ascontiguousarray(values), allow_pickle=False)
                    continue
                np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(values))
                while block := stream.read(BLOCK):
                    out.write(block)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with faults_of(path, BROKEN, " as .npz"), zipfile.ZipFile(path) as packed:
        yield packed


def _header(packed: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, path: Path) -> Header:
    if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadInput(f"{path}: array {name!r} is encrypted or packed in a way that numpy does not write")
    with packed.open(member) as stream:
        text = io.BytesIO(stream.read(HEADER))
    try:
        shape, fortran, dtype = READERS[np.lib.format.read_magic(text)](text)
    except (LookupError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
        raise BadInput(f"{path}: {name!r} is not an array that numpy wrote") from None
    if dtype.hasobject or dtype.kind not in "buifUM":
        raise BadInput(f"{path}: array {name!r} has {dtype} values; save numbers, text or dates (never objects)")
    header = Header(name, shape, dtype, bool(fortran), text.tell())
    if any(side < 0 for side in shape) or header.bytes + header.start != member.file_size:
        raise BadInput(f"{path}: array {name!r} does not have the size that its header gives; the file is broken")
    return header


def _filled(stream: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any], path: Path) -> Array:
    values = np.empty(shape, dtype)
    if not values.nbytes:
        return values
    view, done = values.reshape(-1).view(np.uint8).data, 0
    while done < len(view):
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise BadInput(f"{path}: ends too early; the file is broken")
        done += count
    return values
