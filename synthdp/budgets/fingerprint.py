"""Keyed fingerprints: is this the table that an account is kept for?

HMAC-SHA256 with a random key that only the account file holds, so that a fingerprint says nothing to who has not got the file.
It guards against mistakes, not against a steward who wants to deceive: they could keep two accounts.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.tables import source

if TYPE_CHECKING:
    import pandas as pd

    Records = Path | pd.DataFrame | Mapping[str, pd.DataFrame] | source.Source

Array = np.ndarray
Fingerprint = Callable[[bytes], str]  # key -> fingerprint as hexadecimal digits
CHUNK = 50_000  # records at a time
WIDTH = 16  # bytes per cell
MOST_WHOLE = 2**53  # up to which every whole number is a double of its own


def of(given: "Records") -> Fingerprint:
    """Of records, whatever holds them, which are read when the fingerprint is asked for. Of files the bytes count, and the names where they
    are several; of a folder of pictures those of its pictures and of their list, and no others; of linked tables their names, and each
    one's content. A table of a database is known by its public name: the steward's word that it is the same people's."""
    return lambda key: _of(given, key)


def _of(given: "Records", key: bytes) -> str:
    if isinstance(given, Path) and given.is_dir():
        from synthdp.images import picture_folder

        return _of_several(((name, _of_bytes(given / name, key)) for name in picture_folder.files(given)), key)
    if isinstance(given, Path | source.Files):
        paths = [given] if isinstance(given, Path) else given.found()
        if len(paths) == 1:
            return _of_bytes(paths[0], key).hex()
        return _of_several(((path.name, _of_bytes(path, key)) for path in paths), key)
    if isinstance(given, source.Query):
        return hmac.digest(key, b"table " + str(given.name).encode(errors="surrogateescape"), "sha256").hex()
    if isinstance(given, Mapping):
        return _of_several(((name, bytes.fromhex(of_frame(given[name])(key))) for name in sorted(given)), key)
    return of_frame(given)(key)


def of_frame(frame: "pd.DataFrame", *, ordered: bool = False) -> Fingerprint:
    """Of a frame's content: the names of its columns and the multiset of its rows.

    The order of rows (unless `ordered`) and columns, the index and the width of numbers do not matter; numbers count as doubles.
    """

    def fingerprint(key: bytes) -> str:
        names = [str(name) for name in frame.columns]
        order = sorted(range(len(names)), key=names.__getitem__)
        digests: list[bytes] = []
        for start in range(0, len(frame), CHUNK):
            part = frame.iloc[start : start + CHUNK]
            cells = [_cells(part.iloc[:, place], key) for place in order]
            rows = np.ascontiguousarray(np.hstack(cells)) if cells else np.zeros((len(part), 0), np.uint8)
            digests += [hashlib.blake2b(row.tobytes(), digest_size=WIDTH, key=key).digest() for row in rows]
        found = hmac.new(key, json.dumps([names[place] for place in order]).encode(), "sha256")
        for digest in digests if ordered else sorted(digests):
            found.update(digest)
        return found.hexdigest()

    return fingerprint


def _of_several(parts: Iterable[tuple[str, bytes]], key: bytes) -> str:
    """Of parts with a name each, in this order."""
    found = hmac.new(key, digestmod="sha256")
    for name, part in parts:
        found.update(hmac.digest(key, name.encode(errors="surrogateescape"), "sha256"))
        found.update(part)
    return found.hexdigest()


def _of_bytes(path: Path, key: bytes) -> bytes:
    found = hmac.new(key, digestmod="sha256")
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    return found.digest()


def _cells(column: "pd.Series[Any]", key: bytes) -> Array:
    """(records, bytes) of one column; equal values have equal bytes, whatever else the column holds."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
        if pd.api.types.is_integer_dtype(column) and _beyond_doubles(column):
            return _texts(column, key)
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0  # -0.0 is 0.0
        numbers[np.isnan(numbers)] = np.nan  # one of the many
        return numbers.astype("<f8").view(np.uint8).reshape(len(numbers), 8)
    if any(isinstance(cell, np.ndarray) for cell in column):
        return np.stack([_of_array(cell, key) for cell in column])
    return _texts(column, key)


def _beyond_doubles(column: "pd.Series[Any]") -> bool:
    """Whether a double would say the same of two whole numbers."""
    return bool(len(column.dropna())) and max(abs(int(column.min())), abs(int(column.max()))) > MOST_WHOLE


def _texts(column: "pd.Series[Any]", key: bytes) -> Array:
    import pandas as pd

    held = column.astype(object).to_numpy()
    try:
        codes, values = pd.factorize(held)
    except Exception:  # cells that cannot be told apart by a hash of their own
        codes, values = np.arange(len(held)), held
    texts = [hashlib.blake2b(_text(value), digest_size=WIDTH, key=key).digest() for value in values]
    table = np.frombuffer(b"".join([*texts, bytes(WIDTH)]), np.uint8).reshape(-1, WIDTH)
    return table[codes]  # code -1, missing, takes the last row


def _of_array(cell: Any, key: bytes) -> Array:
    """(bytes,) of one image, or of what stands in its place."""
    if isinstance(cell, np.ndarray):
        content = repr((cell.dtype.str, cell.shape)).encode() + np.ascontiguousarray(cell).tobytes()
    else:
        content = _text(cell)
    return np.frombuffer(hashlib.blake2b(content, digest_size=WIDTH, key=key).digest(), np.uint8)


def _text(cell: Any) -> bytes:
    try:
        return str(cell).encode(errors="surrogatepass")
    except Exception:  # an object of somebody's own, or a number too long to be written
        return f"{type(cell).__module__}.{type(cell).__qualname__}".encode(errors="surrogatepass")
