"""How wide a table of unknown origin may be, to how much a packed file may unpack, and what is said of a file that cannot be read."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synthdp.errors import BadInput

MOST_COLUMNS = 10_000
FREE = 1 << 30  # bytes that a file may unpack to whatever its own size
FREE_TEXT = 1 << 27  # the same of a CSV file, whose cells take several times their text in memory
RATIO = 200  # beyond that: so many times its own size. Deflate reaches 1,032 on a file that was made to.
BLOCK = 1 << 20
MOST_FOOTER = 1 << 25  # bytes of a Parquet footer, which takes 20 times as much once it is read
BROKEN = (gzip.BadGzipFile, EOFError, zlib.error)


@contextmanager
def faults_of(path: object, broken: type[Exception] | tuple[type[Exception], ...], form: str = "") -> Iterator[None]:
    """Errors of the types `broken` within the block mean that the file at `path` cannot be read (`form`: such as " as Parquet"). They
    become a `BadInput` without the library's own words, which may hold cells."""
    try:
        yield
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except broken as error:
        raise BadInput(f"{path}: cannot be read{form} ({type(error).__name__})") from None


def check_width(where: object, columns: int) -> None:
    """Raise `BadInput` for a table of more columns than are read."""
    if columns > MOST_COLUMNS:
        raise BadInput(
            f"{where}: has {columns:,} columns; at most {MOST_COLUMNS:,} are read. Keep only the columns that are needed"
        )


def check_footer(path: Path) -> None:
    """Raise `BadInput` for a Parquet file that describes itself at great length: it has far too many columns or row groups."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8))
        length = int.from_bytes(file.read(4), "little")
    if MOST_FOOTER < length < path.stat().st_size:
        raise BadInput(
            f"{path}: its footer has {length:,} bytes; at most {MOST_FOOTER:,} are read. Keep only the columns that are needed (at "
            f"most {MOST_COLUMNS:,}), and write fewer row groups"
        )


def check_unpacked(path: Path) -> None:
    """Raise `BadInput` for a gzip file that is broken, or unpacks to far more than it is. Files of usual sizes are not unpacked."""
    size = path.stat().st_size
    if size * 1_100 < FREE_TEXT:
        return
    most, done = max(FREE_TEXT, RATIO * size), 0
    try:
        with gzip.open(path) as file:
            while block := file.read(BLOCK):
                done += len(block)
                if done > most:
                    raise BadInput(
                        f"{path}: unpacks to over {RATIO} times its size; unpack it, check it, and give the .csv file"
                    )
    except BROKEN:
        raise BadInput(f"{path}: is not a complete gzip file") from None
