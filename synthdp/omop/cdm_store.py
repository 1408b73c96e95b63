"""A CDM where it lies: a folder of CSV or Parquet files, a DuckDB file, or a schema of PostgreSQL, names in whatever letter case."""

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from synthdp.errors import BadInput
from synthdp.files.private_folder import private_folder
from synthdp.omop import cdm
from synthdp.schema import cells
from synthdp.sets import record_files
from synthdp.tables import csvfile, database_url, source
from synthdp.tables.database_url import quoted

DUCKDB = (".duckdb", ".db")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PART = 1 << 25  # bytes of a database's answer that are read at a time
WHOLE = r"^([+-]?[0-9]+)\.0*$"
FLOATS = {"real": "f4", "float": "f4", "double": "f8", "double precision": "f8"}  # as databases call them


@dataclass(frozen=True)
class Cdm:
    """`where` as it was given. Tables and fields go by their names in small letters."""

    where: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files."""
        return self._url is None

    @property
    def ending(self) -> str:
        """How a part of it is written: CSV files as such, everything else as Parquet."""
        written = [path.name.lower() for path in self._files.values()] if self.is_folder else []
        return ".csv" if written and all(name.endswith(CSV) for name in written) else ".parquet"

    @cached_property
    def _url(self) -> str | None:
        """The database's URL without the schema; None for a folder. Raises `BadInput` where there is neither."""
        plain, _, _ = self.where.partition("#")
        if database_url.is_url(self.where):
            return plain
        path = Path(plain)
        if path.is_file() and path.suffix.lower() in DUCKDB:
            return f"duckdb:///{quote(str(path.resolve()))}"
        if not Path(self.where).is_dir():
            wrong = "is neither a folder nor a DuckDB file" if path.exists() else "does not exist"
            raise BadInput(
                f"{self.where} {wrong}. Name a folder with a CSV or Parquet file for each table, a DuckDB file (.duckdb or .db), or a "
                "schema of PostgreSQL: postgresql://user@host/name#schema"
            )
        return None

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        found: dict[str, Path] = {}
        for path in sorted(Path(self.where).iterdir()):
            name = path.name.lower()
            ending = next((each for each in (*CSV, ".parquet") if name.endswith(each)), None)
            if ending is None or name.startswith(".") or not path.is_file():
                continue
            name = name[: -len(ending)]
            if name in found:
                raise BadInput(f"{self.where}: has several files of the table {name!r}; keep one")
            found[name] = path
        return found

    @property
    def paths(self) -> list[Path]:
        """The files that hold it; none for a database's server."""
        if self._url is None:
            return list(self._files.values())
        return [Path(database_url.file_of(self._url))] if self._url.startswith("duckdb:") else []

    def shares(self, other: "Cdm") -> bool:
        """Whether both have a file in common, by whatever name, lie in one folder, or in one database."""
        if self._url is not None and self._url == other._url:
            return True
        here = Path(self.where).resolve()
        if self.is_folder and other.is_folder and Path(other.where).resolve() in (here, *here.parents):
            return True
        return bool({*map(record_files.identity, self.paths)} & {*map(record_files.identity, other.paths)})

    def fields(self) -> dict[str, tuple[str, ...]]:
        """The fields of every table that is there. No record is read."""
        if self._url is None:
            return {name: tuple(each.lower() for each in _names(path)) for name, path in self._files.items()}
        with self._database() as database:
            return {name: tuple(columns) for name, (_, columns) in database.tables.items()}

    def shows(self, name: str) -> bool:
        """Whether a database has a view of that name, which may show what lies elsewhere."""
        if self._url is None:
            return False
        with self._database() as database:
            return name in database.views

    def texts(self, wanted: Mapping[str, Sequence[str] | None], numbered: Collection[str] = ()) -> dict[str, pa.Table]:
        """Fields of tables as text, null where they are blank, all of one moment; None means all fields. What is not there is left out.
        Fields that are integers in the CDM, and those in `numbered`, are read as whole numbers."""
        return dict(self.each(wanted, numbered))

    def each(
        self, wanted: Mapping[str, Sequence[str] | None], numbered: Collection[str] = ()
    ) -> Iterator[tuple[str, pa.Table]]:
        """The same, one table after another, so that none needs to be held for the next one's sake."""
        if self._url is None:
            for name in filter(self._files.__contains__, wanted):
                yield name, _clean(name, _from_file(self._files[name], wanted[name]), numbered)
            return
        with self._database() as database:
            for name in filter(database.tables.__contains__, wanted):
                yield name, _clean(name, pa.concat_tables(database.parts(name, wanted[name], numbered)), numbered)

    def views(
        self, connection: Any, wanted: Mapping[str, Sequence[str] | None], prefix: str
    ) -> dict[str, tuple[str, ...]]:
        """Make a view of each wanted table in a DuckDB of our own, called by its name behind `prefix`, with its fields (all, where None)
        as they are stored; return the fields of each. Tables of PostgreSQL are copied, some rows at a time."""
        made: dict[str, tuple[str, ...]] = {}
        if self._url is None:
            for name in wanted:
                if name in self._files:
                    made[name] = _view(connection, self._files[name], f"{prefix}{name}")
        elif self._url.startswith("duckdb:"):
            place, schema = database_url.file_of(self._url), self._schema or "main"
            connection.execute(f"ATTACH {_literal(place)} AS {prefix}database (READ_ONLY)")
            with self._database() as database:
                for name, (table, columns) in database.tables.items():
                    if name in wanted:
                        chosen = ", ".join(f"{quoted(written)} AS {quoted(each)}" for each, written in columns.items())
                        connection.execute(
                            f"CREATE VIEW {prefix}{name} AS SELECT {chosen} FROM {prefix}database.{quoted(schema)}.{quoted(table)}"
                        )
                        made[name] = tuple(columns)
        else:
            with self._database() as database:
                for name in filter(database.tables.__contains__, wanted):
                    for number, part in enumerate(database.parts(name, wanted[name])):
                        connection.register("part", _clean(name, part))
                        into = f"INSERT INTO {prefix}{name}" if number else f"CREATE TABLE {prefix}{name} AS"
                        connection.execute(f"{into} SELECT * FROM part")
                        connection.unregister("part")
                        made[name] = tuple(part.column_names)
        return made

    @property
    def is_server(self) -> bool:
        """Whether it lies in PostgreSQL, which answers queries itself."""
        return self._url is not None and not self._url.startswith("duckdb:")

    @contextmanager
    def server(self) -> "Iterator[tuple[Callable[[str], list[tuple[Any, ...]]], dict[str, Stored]]]":
        """What answers a query on the server, all queries at one moment, and how each table is stored there. An error's words, which may
        hold cells, are not repeated."""
        with self._database() as database:

            def ask(query: str) -> list[tuple[Any, ...]]:
                import psycopg

                try:
                    found: list[tuple[Any, ...]] = database.ask(query)
                except psycopg.Error as error:
                    raise BadInput(
                        f"{self.where}: the server ended a query ({type(error).__name__}, SQLSTATE {error.sqlstate})"
                    ) from None
                return found

            yield ask, database.stored

    @property
    def _schema(self) -> str:
        return self.where.partition("#")[2]

    @contextmanager
    def _database(self) -> Iterator["_Database"]:
        with database_url.snapshot(str(self._url)) as connection:
            yield _Database(connection, self._schema, postgres=not str(self._url).startswith("duckdb:"))


@dataclass(frozen=True)
class Stored:
    """A table of a database: its quoted name, and its fields by their names in small letters, each as it is quoted, and its type."""

    name: str
    fields: Mapping[str, tuple[str, str]]


class _Database:
    """A database of which all is read at one moment."""

    def __init__(self, connection: Any, schema: str, *, postgres: bool) -> None:
        self._connection, self._postgres = connection, postgres
        self._schema = schema or ("public" if postgres else "main")

    @cached_property
    def tables(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Each table's name and fields as they are written, by their names in small letters."""
        found: dict[str, tuple[str, dict[str, str]]] = {}
        for table, column, _ in self._columns:
            found.setdefault(table.lower(), (table, {}))[1][column.lower()] = column
        return found

    @property
    def stored(self) -> dict[str, Stored]:
        """Each table, by its name in small letters."""
        types = {(table, column): kind for table, column, kind in self._columns}
        return {
            name: Stored(
                f"{quoted(self._schema)}.{quoted(table)}",
                {each: (quoted(column), types[table, column]) for each, column in columns.items()},
            )
            for name, (table, columns) in self.tables.items()
        }

    @cached_property
    def _columns(self) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = self._connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            f"WHERE {self._here} ORDER BY table_name, ordinal_position",
            (self._schema,),
        ).fetchall()
        return found

    @property
    def _here(self) -> str:
        """The condition for what lies in the schema. To DuckDB, `cdm` and `CDM` are one name."""
        return "table_schema = %s" if self._postgres else "lower(table_schema) = lower(?)"

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        found: list[tuple[Any, ...]] = self._connection.execute(query).fetchall()
        return found

    @property
    def views(self) -> set[str]:
        """The names of views, in lower case."""
        query = f"SELECT table_name FROM information_schema.tables WHERE {self._here} AND table_type <> 'BASE TABLE'"
        return {name.lower() for (name,) in self._connection.execute(query, (self._schema,)).fetchall()}

    def parts(self, name: str, fields: Sequence[str] | None, numbered: Collection[str] = ()) -> Iterator[pa.Table]:
        """The fields as text, one part of the rows after another, at least one."""
        table, columns = self.tables[name]
        types = {column: kind.lower() for held, column, kind in self._columns if held == table}
        wanted, texts = [each for each in columns if fields is None or each in fields], {}
        for each in wanted:
            field, kind = quoted(columns[each]), types[columns[each]]
            texts[each] = f"CAST({field} AS VARCHAR)"
            if kind in FLOATS and _is_integer(name, each, numbered):  # as `_clean` reads columns of Parquet files
                whole = f"CASE WHEN {field} = floor({field}) THEN CAST(CAST({field} AS BIGINT) AS VARCHAR) ELSE {texts[each]} END"
                texts[each] = f"CASE WHEN abs({field}) <= {cells.longest(np.dtype(FLOATS[kind])):.0f} THEN {whole} END"
        chosen = ", ".join(f"{text} AS {quoted(each)}" for each, text in texts.items())
        query = f"SELECT {chosen} FROM {quoted(self._schema)}.{quoted(table)}"
        if not self._postgres:
            yield self._connection.execute(query).to_arrow_table()
            return
        yield pa.table({each: pa.array([], pa.string()) for each in wanted})
        held = bytearray()
        with self._connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as copied:
            for row in copied:  # the protocol has one for each row
                held += row
                if len(held) >= PART:
                    yield _parsed(held, wanted)
                    held.clear()
        if held:
            yield _parsed(held, wanted)


def _parsed(data: bytearray, names: list[str]) -> pa.Table:
    """Arrow's words may hold cells: none of them is repeated."""
    try:
        return pacsv.read_csv(
            cast("Any", csvfile.Blocks(io.BytesIO(data), "utf-8")),
            read_options=pacsv.ReadOptions(column_names=names),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowException as error:
        raise BadInput(f"the database's answer cannot be read ({type(error).__name__})") from None


def _names(path: Path) -> list[str]:
    if path.name.lower().endswith(".parquet"):
        with record_files.reading_parquet(path):
            names: list[str] = pq.read_schema(path).names
            return names
    return csvfile.header(path)[0]


def _from_file(path: Path, fields: Sequence[str] | None) -> pa.Table:
    names = _names(path)
    lower = csvfile.names_of(path, [name.lower() for name in names], None)
    chosen = [place for place, name in enumerate(lower) if fields is None or name in fields]
    if not path.name.lower().endswith(".parquet"):
        _, delimiter = csvfile.header(path)
        table = csvfile.texts(path, names, delimiter)
        return pa.table({lower[place]: table.column(place) for place in chosen})
    with record_files.reading_parquet(path):
        record_files.check_parquet(path)
        table = pq.read_table(path, columns=[names[place] for place in chosen])
        return pa.table({lower[place]: table.column(names[place]) for place in chosen})


def _is_integer(name: str, column: str, numbered: Collection[str]) -> bool:
    field = cdm.field(name, column) if name in cdm.tables() else None
    return column in numbered or (field is not None and field.type == "integer")


def _clean(name: str, table: pa.Table, numbered: Collection[str] = ()) -> pa.Table:
    """Text without spaces around it; dates without a time; whole numbers without decimals, since programs that know no missing whole
    number write 7.0."""
    made: dict[str, pa.ChunkedArray] = {}
    for column in table.column_names:
        values = table.column(column)
        if isinstance(values.type, pa.DictionaryType):
            values = values.cast(values.type.value_type)
        field = cdm.field(name, column) if name in cdm.tables() else None
        try:
            text = pc.utf8_trim_whitespace(values.cast(pa.string()))
        except pa.ArrowException:
            raise BadInput(
                f"{name}.{column}: is stored as {values.type}, and not every cell can be read as text; store it as text, a number or a date"
            ) from None
        integer = _is_integer(name, column, numbered)
        if pa.types.is_floating(values.type) and integer:
            # Each cell is read by itself, so that one person's key never changes how another's is written. A longer float may stand for
            # the keys of two people, who would be one unit: such a cell counts as missing.
            held = pc.less_equal(pc.abs(values), cells.longest(np.dtype(values.type.to_pandas_dtype())))
            whole = pc.and_(pc.equal(pc.floor(values), values), held)
            text = pc.if_else(whole, pc.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.string()), text)
            text = pc.if_else(held, text, pa.scalar(None, pa.string()))
        if integer:
            text = pc.replace_substring_regex(text, WHOLE, r"\1")
        if field is not None and field.type == "date":
            text = pc.utf8_slice_codeunits(text, 0, 10)
        absent = pc.is_in(text, value_set=pa.array(csvfile.ABSENT))
        made[column] = pc.if_else(absent, pa.scalar(None, pa.string()), text)
    return pa.table(made)


def _view(connection: Any, path: Path, name: str) -> tuple[str, ...]:
    """A view of a file; its cells are text where it is CSV. Athena's vocabularies are separated by tabs, and quote nothing."""
    names = _names(path)
    lower = csvfile.names_of(path, [each.lower() for each in names], None)
    chosen = ", ".join(f"{quoted(written)} AS {quoted(each)}" for written, each in zip(names, lower, strict=False))
    if path.name.lower().endswith(".parquet"):
        with record_files.reading_parquet(path):
            record_files.check_parquet(path)
        read = f"read_parquet({_literal(path)})"
    else:
        _, delimiter = csvfile.header(path)
        quote = "" if delimiter == "\t" else '"'
        types = ", ".join(f"{_literal(each)}: 'VARCHAR'" for each in names)
        scan = source.scanned([path], delimiter, len(names)) if quote else {"parallel": True}
        options = ", ".join(f"{option}={_literal(str(value))}" for option, value in scan.items())
        read = (
            f"read_csv({_literal(path)}, columns={{{types}}}, header=true, auto_detect=false, delim={_literal(delimiter)}, "
            f"quote={_literal(quote)}, escape={_literal(quote)}, nullstr='', allow_quoted_nulls=false, "
            f"{options})"
        )
        if names[-1] == csvfile.NO_COLUMN:
            beyond = f"SELECT 1 FROM {read} WHERE trim({quoted(csvfile.NO_COLUMN)}) <> '' LIMIT 1"
            if connection.execute(beyond).fetchone():
                raise BadInput(f"{path}: a row {csvfile.AFTER_THE_LAST}; name this column in the header")
    connection.execute(f"CREATE VIEW {name} AS SELECT {chosen} FROM {read}")
    return tuple(lower)


def _literal(text: str | Path) -> str:
    return "'" + str(text).replace("'", "''") + "'"


@contextmanager
def duck(memory: str = source.MEMORY) -> Iterator[Any]:
    """A DuckDB of our own that holds its tables in memory, up to a limit, and beyond it, encrypted, in a private folder. Raises
    `BadInput` where it is not installed, or cannot do what it is asked."""
    source.check_installed()
    files = source.Files(path=Path(), format="csv", memory=memory)
    with private_folder(None) as folder, source.connected(files, folder, encrypted=True) as connection, source.asking():
        yield connection.con


@contextmanager
def vocabulary(where: str, *tables: str) -> Iterator[tuple[Any, Mapping[str, tuple[str, ...]]]]:
    """A DuckDB of our own with a view v_* of each of these tables of a vocabulary that is there, and their fields. Raises `BadInput` where
    the first is not."""
    with duck() as connection:
        there = Cdm(where).views(connection, dict.fromkeys(tables), "v_")
        if tables[0] not in there:
            raise BadInput(f"{where}: has no table {tables[0]!r}")
        yield connection, there
