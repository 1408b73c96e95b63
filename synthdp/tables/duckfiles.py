"""Files as tables of a DuckDB of our own: Parquet of one schema, CSV as text."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.tables.database_errors import asking

if TYPE_CHECKING:
    import ibis

    from synthdp.tables.source import Files

OPTIONS = "DUCKDB_JE_MALLOC_CONF"  # of the allocator (jemalloc) in DuckDB's wheels for Linux, which reads it when it is loaded


def load() -> None:
    """Import DuckDB, with memory that is cleared before it is used again: see `_clears_memory`. Raises `ImportError`."""
    os.environ.setdefault(OPTIONS, "zero:true")
    import duckdb  # noqa: F401


@contextmanager
def connected(source: "Files", folder: Path) -> Iterator[Any]:
    """A DuckDB of our own that holds its tables in memory, up to the limit, and beyond it in `folder`.

    DuckDB writes whole blocks, with whatever its memory held before in the places that it did not fill: pieces of the files that
    it read. Where its allocator does not clear memory the blocks are encrypted, which costs several times the CPU; the key is in
    memory alone (DuckDB calls its own cipher unsafe, since its key is drawn from 64 bits of chance).
    """
    import ibis

    hidden = {} if _clears_memory() else {"temp_file_encryption": True, "force_mbedtls_unsafe": True}
    with asking():
        connection = ibis.duckdb.connect(
            ":memory:",
            memory_limit=source.memory,
            temp_directory=str(folder),
            threads=source.threads or len(os.sched_getaffinity(0)),
            preserve_insertion_order=False,
            perfect_ht_threshold=24,  # bits of a cell's number up to which counts lie in an array
            enable_external_file_cache=False,  # parts of the files, in buffers that are used again
            **hidden,
        )
    try:
        yield connection
    finally:
        with asking():
            connection.disconnect()


def _clears_memory() -> bool:
    """Whether DuckDB's allocator zeroes what it hands out. It does not where there is no jemalloc in it (macOS), and where the
    program loaded DuckDB before `load` could ask for it."""
    import _duckdb

    zeroes, size = ctypes.c_bool(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_bool))
    try:
        option = ctypes.CDLL(_duckdb.__file__).duckdb_je_mallctl
    except (OSError, AttributeError):
        return False
    failed = option(b"opt.zero", ctypes.byref(zeroes), ctypes.byref(size), None, ctypes.c_size_t(0))
    return not failed and zeroes.value


def read(source: "Files", files: list[Path], connection: Any) -> "ibis.Table":
    """The files as one table. Raises `BadInput` where they are not alike."""
    if source.format == "parquet":
        _check_parquet(files)
        with asking():
            return connection.read_parquet([str(path) for path in files], hive_partitioning=False)
    names, delimiter = _header(files)
    with asking():
        return connection.read_csv(
            [str(path) for path in files],
            columns=dict.fromkeys(names, "VARCHAR"),
            header=True,
            auto_detect=False,
            delim=delimiter,
            quote='"',
            escape='"',
            nullstr="",
            allow_quoted_nulls=False,
        )


def _check_parquet(files: list[Path]) -> None:
    """All files have the columns and the types of the first one, and none that the engine takes for something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first: pa.Schema | None = None
    for path in files:
        try:
            limits.check_footer(path)
            found = pq.read_schema(path).remove_metadata()
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{path}: cannot be read as Parquet ({type(error).__name__})") from None
        limits.check_width(path, len(found.names))
        odd = [field for field in found if pa.types.is_decimal256(field.type) or pa.types.is_duration(field.type)]
        if odd:
            raise BadInput(
                f"{path}: column {odd[0].name!r} is stored as {odd[0].type}, which the database misreads; cast it"
            )
        if first is not None and not found.equals(first):
            raise BadInput(f"{path}: its columns or their types are not those of {files[0]}; write all files alike")
        first = found


def _header(files: list[Path]) -> tuple[list[str], str]:
    from synthdp.tables import csvfile

    first = csvfile.header(files[0])
    for path in files[1:]:
        if csvfile.header(path) != first:
            raise BadInput(f"{path}: its header is not that of {files[0]}; write all files alike")
    return first
