"""Tables that stay where they are: files and databases whose records are counted there, and never read into memory.

`parquet` and `csv` name files, which DuckDB reads a part at a time; `table` takes an Ibis expression of a table in DuckDB,
PostgreSQL or Spark. What is made of them is asked for in one place (`Opened`), in expressions that the library turns into SQL.
"""

import ctypes
import glob
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.files.private_folder import private_folder
from synthdp.schema.file_coding import Reading
from synthdp.tables import csv_lines

if TYPE_CHECKING:
    import ibis
    import pyarrow as pa


# ---- What goes wrong in a database, told without its words.


class DidNotAnswer(BadInput):
    """A database could not do what it was asked."""


INTERRUPTED = "Query interrupted"  # what DuckDB may make of Ctrl-C, and of a signal that asks to end


@contextmanager
def asking() -> Iterator[None]:
    """Errors of a database as one line without its words, which may hold cells."""
    with quiet():
        try:
            yield
        except faults() as error:
            raise DidNotAnswer(
                f"the database did not answer ({type(error).__name__}); what was charged before stays charged. Its log, if it keeps one, "
                "says why"
            ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """What Ibis calls that pandas 3 or DuckDB will drop is none of a steward's business; and what DuckDB makes of Ctrl-C is Ctrl-C."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"fetch_arrow_table\(\) is deprecated")
        warnings.filterwarnings("ignore", "The 'future.infer_string' option", module=r"ibis\.")
        warnings.filterwarnings("ignore", "The copy keyword is deprecated", module=r"ibis\.|pyspark\.")
        try:
            yield
        except RuntimeError as error:
            if str(error) == INTERRUPTED:
                raise KeyboardInterrupt from None
            raise


def faults() -> tuple[type[BaseException], ...]:
    """The errors of those databases whose library is in use."""
    import duckdb
    import pyarrow as pa
    from ibis.common.exceptions import IbisError

    kinds: list[type[BaseException]] = [duckdb.Error, IbisError, pa.ArrowException, OSError]
    for module, name in (("psycopg", "Error"), ("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


@contextmanager
def transaction(connection: Any) -> Iterator[None]:
    """All statements of the block or none, on a connection that otherwise commits each by itself; of DuckDB, all of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(*faults()):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _repeatable(connection: Any) -> Iterator[None]:
    """One of PostgreSQL. The driver refuses where one was begun already, whose moment might be anew at each statement."""
    from psycopg import IsolationLevel

    before, connection.isolation_level = connection.isolation_level, IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction():
            yield
    finally:
        with suppress(*faults()):
            connection.isolation_level = before


# ---- Files as tables of a DuckDB of our own: Parquet of one schema, CSV as text.


OPTIONS = "DUCKDB_JE_MALLOC_CONF"  # of the allocator (jemalloc) in DuckDB's wheels for Linux, which reads it when it is loaded


OF_TABLES: dict[str, Any] = {
    "preserve_insertion_order": False,
    "perfect_ht_threshold": 24,  # bits of a cell's number up to which counts lie in an array
    "enable_external_file_cache": False,  # parts of the files, in buffers that are used again
}


def load() -> None:
    """Import DuckDB, with memory that is cleared before it is used again: see `_clears_memory`. Raises `ImportError`."""
    os.environ.setdefault(OPTIONS, "zero:true")
    import duckdb  # noqa: F401


@contextmanager
def connected(source: "Files", folder: Path, *, encrypted: bool = False) -> Iterator[Any]:
    """A DuckDB of our own that holds its tables in memory, up to the limit, and beyond it in `folder`, `encrypted` in any case or
    where it must be.

    DuckDB writes whole blocks, with whatever its memory held before in the places that it did not fill: pieces of the files that
    it read. Where its allocator does not clear memory the blocks are encrypted, which costs several times the CPU; the key is in
    memory alone (DuckDB calls its own cipher unsafe, since its key is drawn from 64 bits of chance).
    """
    import ibis

    with asking():
        connection = ibis.duckdb.connect(
            ":memory:",
            memory_limit=source.memory,
            temp_directory=str(folder),
            threads=source.threads or len(os.sched_getaffinity(0)),
            **OF_TABLES,
            **_hidden(encrypted=encrypted),
        )
    try:
        yield connection
    finally:
        with asking():
            connection.disconnect()


def _hidden(*, encrypted: bool = False) -> dict[str, Any]:
    """What hides the blocks that DuckDB writes: see `connected`."""
    clear = _clears_memory() and not encrypted
    return {} if clear else {"force_mbedtls_unsafe": True, "temp_file_encryption": True}


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


def read(source: "Files", files: list[Path], connection: Any, reading: Reading | None = None) -> "ibis.Table":
    """The files as one table. Raises `BadInput` where they are not alike, or written as the engine does not read them."""
    if source.format == "parquet":
        _check_parquet(files)
        with asking():
            return connection.read_parquet([str(path) for path in files], hive_partitioning=False)
    for path in files:
        if path.name.lower().endswith(".gz"):
            limits.check_unpacked(path)
    if reading is not None and reading.encoding not in ("utf-8", "utf-8-sig"):
        raise BadInput(
            f"{source.path}: the database reads only UTF-8, but the schema's reading says {reading.encoding}; give data.engine=memory, or "
            "save the files as UTF-8 and declare that"
        )
    from synthdp.tables import csvfile

    names, delimiter = _header(files, reading)
    scan = scanned(files, delimiter, len(names))
    with asking():
        table = connection.read_csv(
            [str(path) for path in files],
            columns=dict.fromkeys(names, "VARCHAR"),
            header=True,
            auto_detect=False,
            delim=delimiter,
            quote='"',
            escape='"',
            nullstr="",
            allow_quoted_nulls=False,
            **scan,
        )
        if names[-1] != csvfile.NO_COLUMN:
            return table
        held = table[csvfile.NO_COLUMN].strip() != ""  # no cell of the header's nameless end is lost in silence
        more = table.filter(held).count().execute()
    if more:
        raise BadInput(
            f"{source.path}: a row {csvfile.AFTER_THE_LAST}; name this column in the header, or delete titles above the header"
        )
    return table.drop(csvfile.NO_COLUMN)


def scanned(files: list[Path], delimiter: str, width: int) -> dict[str, Any]:
    """The options with which DuckDB finds the records of CSV files that `csvfile` finds. Raises `BadInput` with the number of a line that
    it would read in another way.

    With several threads it guesses where a record begins: depending on their place in the file, it takes lines within quotes for
    records of their own, or refuses them. A quote that is left open ends with the file for a single scan. A file whose lines do not
    all end alike it refuses, unless it may be lenient: it then drops cells too many, and text after a quote.
    """
    held = {path: csv_lines.held(path, b'"\r') for path in files}
    quoted = [path for path in files if b'"' in held[path]]
    # Within quotes too, since a single quote inside of a cell would hide the ends of other lines.
    ends = {path: csv_lines.ends(path, "latin-1", everywhere=width > 1) for path in files if b"\r" in held[path]}
    mixed = [path for path, found in ends.items() if sum(map(bool, found.values())) > 1]
    if mixed and width == 1:  # it would take what is between CR and LF for a record
        raise BadInput(
            f"{mixed[0]}: a database reads a file of one column only if all of its lines end alike; save it so, or give data.engine=memory"
        )
    for path in files if mixed else quoted:
        csv_lines.check(path, "utf-8-sig", delimiter, width, strict=True)
    # A line break is spelled as DuckDB does, and stands for CR too.
    return {"strict_mode": False, "new_line": "\\n", "parallel": False} if mixed else {"parallel": not quoted}


def _check_parquet(files: list[Path]) -> None:
    """All files have the columns and the types of the first one, and none that the engine takes for something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first: pa.Schema | None = None
    for path in files:
        with limits.faults_of(path, (pa.ArrowException, OSError), " as Parquet"):
            limits.check_footer(path)
            found = pq.read_schema(path).remove_metadata()
        limits.check_width(path, len(found.names))
        odd = [field for field in found if pa.types.is_decimal256(field.type) or pa.types.is_duration(field.type)]
        if odd:
            raise BadInput(
                f"{path}: column {odd[0].name!r} is stored as {odd[0].type}, which the database misreads; cast it"
            )
        if first is not None and not found.equals(first):
            raise BadInput(f"{path}: its columns or their types are not those of {files[0]}; write all files alike")
        first = found


def _neutralised(files: list[Path]) -> bool:
    """Whether identifiers are restored. Raises `BadInput` where they would be in some files only: '=A here may be the person =A there."""
    from synthdp.tables import csvfile

    ours = [csvfile.neutralised(path) for path in files]
    if any(ours) and not all(ours):
        path, other = files[ours.index(True)], files[ours.index(False)]
        raise BadInput(
            f"{csvfile.listing(path)} lists the texts in {path.name} that were given a leading ', but {other} has no such list beside it. "
            "A database reads all files alike, so one person could count as two. Save the files as Parquet, or as one CSV file"
        )
    return all(ours)


def _header(files: list[Path], reading: Reading | None) -> tuple[list[str], str]:
    from synthdp.tables import csvfile

    first = csvfile.header(files[0], reading)
    for path in files[1:]:
        if csvfile.header(path, reading) != first:
            raise BadInput(f"{path}: its header is not that of {files[0]}; write all files alike")
    return first


Format = Literal["parquet", "csv"]
FORMATS: dict[Format, tuple[str, ...]] = {"parquet": (".parquet",), "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz")}
MEMORY = "2GiB"  # what DuckDB may hold; beyond it, it writes codes and keyed hashes to the private folder
KNOWN = ("duckdb", "postgres", "pyspark")
GLOB = frozenset("*?[")
SIZE = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Files:
    """Files of one format and the same columns: one, those in a folder, or those that a pattern such as `visits/*.parquet` finds.

    `memory` is what DuckDB may hold of them, `threads` how many it uses (default: all cores), `folder` where its private folder
    for what does not fit is made (default: the system's for temporary files; a fit of the command line: `internal/`).
    """

    path: Path
    format: Format
    memory: str = MEMORY
    threads: int | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        if not SIZE.fullmatch(self.memory):
            raise BadInput(f"memory must be a size such as 2GiB, got {self.memory!r}")

    def found(self) -> list[Path]:
        """The files, sorted. Raises `BadInput` where there is none."""
        text, endings = str(self.path), FORMATS[self.format]
        if self.path.is_dir():
            inside = (path.relative_to(self.path) for path in sorted(self.path.rglob("*")))
            kept = (place for place in inside if not any(part.startswith((".", "_")) for part in place.parts))
            files = [self.path / place for place in kept if place.name.lower().endswith(endings)]
        elif GLOB & set(text) and not self.path.exists():
            files = sorted(Path(name) for name in glob.glob(text, recursive=True))
        else:
            files = [self.path]
        files = [path for path in files if path.is_file()]
        if not files:
            raise BadInput(f"{self.path}: no such file, or no {' or '.join(endings)} file in it")
        odd = next((path for path in files if not path.name.lower().endswith(endings)), None)
        if odd is not None:
            raise BadInput(f"{odd}: the name must end in {' or '.join(endings)}")
        return files


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """An Ibis expression of a table in DuckDB, PostgreSQL or Spark. `name` is the public name by which an account knows it. Of linked
    tables, `tables` has them by their names in the schema, and the expression is one of them."""

    expression: "ibis.Table"
    name: str | None = None
    tables: "Mapping[str, ibis.Table]" = field(default_factory=dict)
    memory: str | None = None
    """What DuckDB may hold, where its connection was made for this table alone; it gets a private folder for the rest."""


Source = Files | Query


def parquet(path: Path | str, **options: Any) -> Files:
    """Parquet files: see `Files`."""
    return Files(path=Path(path), format="parquet", **options)


def csv(path: Path | str, **options: Any) -> Files:
    """CSV files with a header, as `sources.read` reads them: see `Files`."""
    return Files(path=Path(path), format="csv", **options)


def files(path: Path | str, **options: Any) -> Files:
    """Files whose format their names tell; of a folder, the names in it."""
    where = Path(path)
    for form, endings in FORMATS.items():
        if where.name.lower().endswith(endings):
            return Files(path=where, format=form, **options)
    if not where.is_dir():
        raise BadInput(f"{where}: the name must end in {', '.join(sum(FORMATS.values(), ()))}, or be that of a folder")
    held = [
        form
        for form, endings in FORMATS.items()
        if any(path.name.lower().endswith(endings) for path in where.rglob("*"))
    ]
    if len(held) != 1:
        raise BadInput(
            f"{where}: holds {'Parquet and CSV files; keep one kind' if held else 'no Parquet or CSV files'}"
        )
    return Files(path=where, format=held[0], **options)


def folder_of(out: Path) -> tuple[Path, str]:
    """The folder that is written to, and the ending of the files there: `out` is it (CSV), or such as `FOLDER/*.parquet`."""
    return (out.parent, out.name[1:]) if out.name.startswith("*.") else (out, ".csv")


def table(expression: "ibis.Table", *, name: str | None = None) -> Query:
    """A table of a database: see `Query`. `name`, such as "visits of 2025", is public, and what its account recognises it by."""
    return Query(expression=expression, name=name)


def linked(tables: "Mapping[str, ibis.Table]", *, name: str | None = None) -> Query:
    """Linked tables of one DuckDB or PostgreSQL, Ibis tables of one connection by their names in the schema: see `table`."""
    if not tables or len({id(each.get_backend()) for each in tables.values()}) > 1:
        raise BadInput("linked tables are counted in one database: make their Ibis tables from one connection")
    return Query(expression=next(iter(tables.values())), name=name, tables=dict(tables))


def engine_of(given: Source) -> str:
    """The kind of the database that counts a table, as Ibis has it."""
    return "duckdb" if isinstance(given, Files) else str(_asked(given).engine)


def source_of(given: Any) -> Source | None:
    """The table that is meant, also by a bare Ibis expression; None where `given` is none (a frame)."""
    if isinstance(given, Files | Query):
        return given
    expressions = sys.modules.get("ibis")  # who holds an expression has imported it
    if expressions is not None and isinstance(given, expressions.Table):
        return Query(expression=given)
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """A table that can be asked. `text` tells that its cells are text as in a CSV file, and `neutralised` that its identifiers are so, too
    (`csvfile.neutralised`)."""

    expression: "ibis.Table"
    tables: "Mapping[str, ibis.Table]" = field(default_factory=dict)
    text: bool = False
    neutralised: bool = False
    check_unchanged: Callable[[], None] = field(default=lambda: None, repr=False)
    """Raises `BadInput` where the files are no longer those that were opened."""
    _numbers: Iterator[int] = field(default_factory=count, repr=False)
    _held: list[Any] = field(default_factory=list, repr=False)

    @property
    def engine(self) -> str:
        """Name of the database's kind, as Ibis has it."""
        return str(self.expression.get_backend().name)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """As `asking`; and a statement that Ctrl-C broke off is stopped, which DuckDB's threads would go on with."""
        try:
            with asking():
                yield
        except KeyboardInterrupt:
            if self.engine == "duckdb":
                self.expression.get_backend().con.interrupt()
            raise

    def rows(self, expression: "ibis.Table") -> "pa.Table":
        """What an expression comes to. Raises `BadInput` where the database does not answer."""
        with self._asking():
            return expression.to_pyarrow()

    def keep(self, expression: "ibis.Table") -> "ibis.Table":
        """The same table, computed once and kept in the database until `drop`: a temporary table, one snapshot."""
        with self._asking():
            kept = expression.cache()
        self._held.append(kept)
        return kept

    def sql(self, text: str, **types: str) -> "ibis.Table":
        """What a statement comes to, of the engine's own SQL; of these types, where they are given."""
        with self._asking():
            return self.expression.get_backend().sql(text, schema=types or None)

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Within, all that is read is of one moment: a transaction, in PostgreSQL one of repeatable reads."""
        connection = self.expression.get_backend().con
        with self._asking(), transaction(connection) if self.engine == "duckdb" else _repeatable(connection):
            yield

    def view(self, expression: "ibis.Table") -> "ibis.Table":
        """The same table under a name of its own in a database that is ours, so that its columns are computed once where they
        are used often."""
        with self._asking():
            return expression.get_backend().create_view(f"view{next(self._numbers)}", expression)

    def drop(self, *kept: Any) -> None:
        """Let go of what `keep` made, all of it by default. Raises `BadInput` where the database does not answer: what is temporary
        goes with its connection then."""
        for each in [held for held in self._held if not kept or any(held is one for one in kept)]:
            self._held[:] = [held for held in self._held if held is not each]
            with self._asking():
                each.release()


@contextmanager
def opened(source: Source, reading: Reading | None = None) -> Iterator[Opened]:
    """The table, while the block runs; nothing of it is left behind, however the block ends. `reading` says how CSV files are written.

    Files are read by a DuckDB of their own that holds its tables in memory, up to the limit, and beyond it in a private folder
    (mode 0700) which is removed at the end, also where a signal asks the process to end. Where it is killed, or the power fails,
    that folder stays until the next table is opened there. It holds codes and keyed hashes of units (`CountedTable`), no names.
    """
    check_installed()
    if isinstance(source, Query):
        with _limited(source), _dropping(_asked(source)) as table:
            yield table
        return
    with private_folder(source.folder) as folder, connected(source, folder) as connection:
        before, files = _known(source), source.found()

        def check_unchanged() -> None:
            now = None
            with suppress(OSError, BadInput):  # one is gone
                now = _known(source)
            if now != before:
                raise BadInput(
                    f"{source.path}: the files changed while they were read, so that these may not be the records of this account; "
                    "what was charged stays charged. Fit again when nobody writes there"
                )

        made = Opened(
            expression=read(source, files, connection, reading),
            text=source.format == "csv",
            neutralised=source.format == "csv" and _neutralised(files),
            check_unchanged=check_unchanged,
        )
        with _dropping(made) as table:
            yield table


@contextmanager
def _limited(source: Query) -> Iterator[None]:
    """A DuckDB of our own spills into a private folder, as `connected` has it."""
    if source.memory is None:
        yield
        return
    with private_folder(None) as folder:
        options = {"memory_limit": source.memory, "temp_directory": str(folder), **OF_TABLES, **_hidden()}
        with asking():
            for name, value in options.items():
                source.expression.get_backend().con.execute(f"SET {name} = {value!r}")
        yield


def check_lines(source: Files, reading: Reading | None) -> None:
    """Raises `BadInput` with the number of the first line of CSV files that is not as its header."""
    from synthdp.tables import csv_lines, csvfile

    for path in source.found() if source.format == "csv" else ():
        names, separator = csvfile.header(path, reading)
        csv_lines.check(path, "utf-8-sig", separator, len(names))


def _known(source: Files) -> list[tuple[Path, int, int, int]]:
    """What tells whether a file was replaced or written to."""
    found = [(path, path.stat()) for path in source.found()]
    return [(path, each.st_ino, each.st_size, each.st_mtime_ns) for path, each in found]


def check_installed() -> None:
    """Raises `BadInput` where the libraries are not there."""
    try:
        load()
        import ibis  # noqa: F401
    except ImportError as error:
        raise BadInput(
            f"counting tables where they are needs Ibis and DuckDB, but {error.name} is not installed: pip install 'synthdp[database]'"
        ) from None


def _asked(source: Query) -> Opened:
    try:
        table = Opened(expression=source.expression, tables=source.tables)
        engine = table.engine
    except Exception as error:
        from ibis.common.exceptions import IbisError

        if not isinstance(error, IbisError):
            raise
        raise BadInput(
            "the Ibis expression belongs to no database: make it from a connection, as con.table('visits')"
        ) from None
    if engine not in KNOWN:
        raise BadInput(f"tables are counted in {', '.join(KNOWN)}, not in {engine}: copy the table to one of them")
    return table


@contextmanager
def _dropping(table: Opened) -> Iterator[Opened]:
    """The table, and what it keeps dropped at the end; where the block failed, why it did is what is told."""
    try:
        yield table
    except BaseException:
        with suppress(BadInput):
            table.drop()
        raise
    table.drop()
