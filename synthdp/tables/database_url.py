"""Tables of databases that a URL names: `postgresql://user@host/name#visits`, `duckdb:///file.db#visits`.

A URL has no password. The environment has (PGPASSWORD), or the driver's files (~/.pgpass, a service file and `?service=NAME`).
"""

import dataclasses
import hashlib
import os
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.tables import source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import ibis
    import pyarrow as pa

SCHEMES = ("postgresql", "postgres", "duckdb")
FORM = "postgresql://user@host/name or duckdb:///file.db"
# What is said of a field whose texts are numbers: its digits and decimals, where these are limited.
DECIMAL = b"decimal"
MOST_LETTERS = 1 << 20  # of a query
LONGEST = 63  # bytes of a name in PostgreSQL
# What a URL may say to the driver of PostgreSQL; none of it is a secret.
WORDS = (
    "service", "host", "port", "user", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "passfile", "gssencmode",
    "target_session_attrs", "application_name",
)  # fmt: skip


def is_url(text: object) -> bool:
    """Whether a path is the URL of a database."""
    return re.match(rf"({'|'.join(SCHEMES)}):", str(text)) is not None


@dataclass(frozen=True)
class Address:
    """A table of a database, or what a query of it comes to (`query`, SQL of that database); one of them."""

    url: str
    table: str | None = None
    query: str | None = None

    @property
    def name(self) -> str:
        """What an account knows it by, on whatever machine the database is: its name, with the table or a hash of the query."""
        what = self.table if self.query is None else f"query {hashlib.sha256(self.query.encode()).hexdigest()[:16]}"
        return f"{what} of {self.database}"

    @property
    def database(self) -> str:
        """Its name: that of the file, or what the server calls it."""
        path = unquote(urlsplit(self.url).path)
        return Path(path).name or dict(parse_qsl(urlsplit(self.url).query)).get("service", "")

    @property
    def place(self) -> str:
        """Which database it is on this machine: of DuckDB the path of its file, whatever links and folders lead there."""
        return os.path.realpath(file_of(self.url)) if self.url.startswith("duckdb:") else self.url

    def __str__(self) -> str:
        return f"{self.url}#{self.table}" if self.query is None else f"{self.url} (query)"


def address(url: str, table: str | None = None, query_file: str | None = None) -> Address:
    """The table that is named, behind # or by `table`, or the query in a file. Raises `BadInput` where none is, or several are."""
    plain, _, named = str(url).partition("#")
    try:
        urlsplit(plain)
    except ValueError:  # a bracket that is not closed
        raise BadInput(f"a database is named by a URL such as {FORM}") from None
    given = [each for each in (named, table, query_file) if each]
    if len(given) != 1:
        raise BadInput(
            f"{plain}: name the table in {'one way only' if given else 'one of these ways'}: #NAME after the URL or, where the command has "
            "them, data.table=NAME or data.query_file=FILE.sql. Of linked tables, name the database's schema, such as #main or #public"
        )
    if not query_file:
        return Address(plain, table=given[0])
    with limits.faults_of(query_file, (OSError, UnicodeDecodeError)):
        text = Path(query_file).read_bytes()[: MOST_LETTERS + 1].decode("utf-8-sig")
    query = text.strip().rstrip(";").strip()
    if not query or len(text) > MOST_LETTERS:
        raise BadInput(f"{query_file}: expected one SELECT of at most {MOST_LETTERS:,} characters")
    return Address(plain, query=query)


def same_database(out: Address, real: Address) -> bool:
    """Whether two addresses lead to the same database. Servers are asked who they are, since many URLs may lead to one. Raises `BadInput`
    if one does not answer, unless the names of the databases differ."""
    if out.place == real.place or any(each.url.startswith("duckdb:") for each in (out, real)):
        return out.place == real.place
    silent: tuple[type[BaseException], ...] = (BadInput, *_faults())
    try:
        return _server(out.url) == _server(real.url)
    except silent:
        names = {urlsplit(each.url).path.strip("/") for each in (out, real)}
        if len(names) > 1 and "" not in names:
            return False
        raise BadInput(
            f"{out}: may hold the records that were fitted, which force=true does not replace: their database cannot be asked whether it "
            "is this one. Name another table, or leave force=true out"
        ) from None


def _server(url: str) -> tuple[int, int]:
    """What PostgreSQL says of itself: its cluster, and the number of the database there."""
    with snapshot(url) as connection:
        cluster, database = connection.execute(
            "SELECT system_identifier, oid FROM pg_control_system(), pg_database WHERE datname = current_database()"
        ).fetchone()
        return int(cluster), int(database)


def known_as(given: Address) -> source.Query:
    """The table as its account knows it, without a connection."""
    return source.Query(expression=cast("ibis.Table", None), name=given.name)


@source.quiet()
def query(given: Address) -> source.Query:
    """The table, where it is. Raises `BadInput` where the database does not answer, or has no such table."""
    connection = _connected(given.url)
    try:
        if given.query is not None:
            return source.Query(expression=connection.sql(given.query), name=given.name)
        schema, _, name = (given.table or "").rpartition(".")
        return source.Query(expression=connection.table(name, database=schema or None), name=given.name)
    except _faults() as error:
        with suppress(*_faults()):
            connection.disconnect()
        what = "the query" if given.query is not None else f"table {given.table!r}"
        why = _unusable(str(given.table).rpartition(".")[0]) or "is it there, and may you read it?"
        raise BadInput(f"{given.url}: {what} cannot be read ({type(error).__name__}); {why}") from None


def linked(given: Address, names: "Iterable[str]", memory: str | None = None) -> source.Query:
    """The named tables, where they are: see `read_tables` for the address. `memory` is what DuckDB may hold."""
    if given.query is not None:
        raise BadInput(
            "linked tables are found by their names: name the database's schema after #, and leave data.query_file out"
        )
    with source.quiet():
        connection = _connected(given.url)
        try:
            tables = {name: _table(given, connection, name) for name in names}
        except BadInput:
            with suppress(*_faults()):
                connection.disconnect()
            raise
    duckdb = given.url.startswith("duckdb:")
    return dataclasses.replace(source.linked(tables, name=given.name), memory=memory if duckdb else None)


def _table(given: Address, connection: Any, name: str) -> "ibis.Table":
    try:
        return connection.table(name, database=given.table)
    except _faults() as error:
        why = _unusable(given.table) or "name the schema of the tables after #, such as #main or #public"
        raise BadInput(f"{given}: has no table {name!r} that can be read ({type(error).__name__}); {why}") from None


def _unusable(schema: str | None) -> str:
    """Why a schema cannot be used, and the remedy; empty if it can. Ibis would take `a.b` for the schema b of a database a."""
    if re.search(r'^[0-9]|[."]', schema or "") is None:
        return ""
    return (
        f"a schema whose name has a dot or a quotation mark, or begins with a digit, such as {schema!r}, cannot be used: name another one "
        "(to read, one that has views of these tables)"
    )


def read(given: Address) -> "pa.Table":
    """All records of the table, in memory."""
    with closing(query(given)) as found, source.asking():
        return _fetched(found.expression)


def _fetched(table: "ibis.Table") -> "pa.Table":
    """All records. PostgreSQL's numeric is fetched as text (`DECIMAL`): Arrow's decimals hold neither NaN nor more than 38 digits, so one
    such cell would keep all others from being read. So would a date beyond the years 1 to 9999, of which the nearest is fetched, and a
    cell of many another type (times, arrays, ranges, UUIDs), which is fetched as text. Texts lack the blanks that fill a char(n)."""
    from ibis.expr import datatypes

    kinds, server = table.schema().items(), table.get_backend().name == "postgres"
    marked = {name: kind for name, kind in kinds if server and kind.is_decimal()}
    dates = {
        name: _in_the_calendar(table[name])
        for name, kind in kinds
        if server and (kind.is_date() or kind.is_timestamp())
    }
    odd = [name for name, kind in kinds if kind.is_unknown() or kind.is_interval()]
    plain = (datatypes.Boolean, datatypes.Integer, datatypes.Floating, datatypes.String, datatypes.Binary)
    others = [name for name, kind in kinds if server and not (name in dates or isinstance(kind, plain))]
    texts = {name: table[name].concat("") for name, kind in kinds if server and kind.is_string()}
    made = {**texts, **dates, **{name: table[name].cast("string") for name in (*odd, *others)}}
    found = (table.mutate(*(cell.name(name) for name, cell in made.items())) if made else table).to_pyarrow()
    for place, field in enumerate(found.schema):
        if field.name in marked:
            kind: Any = marked[field.name]
            limited = kind.precision is not None and kind.scale is not None
            digits = f"decimal({kind.precision}, {kind.scale})" if limited else ""
            found = found.set_column(place, field.with_metadata({DECIMAL: digits.encode()}), found.column(place))
    return found


def _in_the_calendar(cell: "ibis.Value") -> "ibis.Value":
    import ibis

    last = "9999-12-31" if cell.type().is_date() else "9999-12-31T23:59:59"
    ends = [ibis.literal(end, cell.type()) for end in ("0001-01-01", last)]
    return ibis.ifelse(cell < ends[0], ends[0], ibis.ifelse(cell > ends[1], ends[1], cell))


@contextmanager
def closing(found: source.Query) -> "Iterator[source.Query]":
    """The table, and its connection closed at the end."""
    try:
        yield found
    finally:
        with suppress(*_faults()):
            found.expression.get_backend().disconnect()


@contextmanager
def snapshot(url: str) -> "Iterator[Any]":
    """The driver's own connection to a database: everything that is read through it in the block shows one moment. Raises `BadInput` where
    the database does not answer."""
    with _snapshot(url) as connection:
        yield connection.con


@contextmanager
def _snapshot(url: str) -> "Iterator[Any]":
    with _asking(url) as connection:
        if url.startswith("duckdb:"):
            connection.con.execute("BEGIN TRANSACTION")
        else:
            from psycopg import IsolationLevel

            connection.con.rollback()
            connection.con.autocommit = False
            connection.con.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.con.read_only = True
            connection.con.execute("SELECT 1")  # begins the transaction, within which Ibis begins others
        yield connection


@contextmanager
def _asking(url: str, *, write: bool = False) -> "Iterator[Any]":
    """A connection, closed at the end. Its errors become one line without the database's words, which may hold cells."""
    with source.quiet():
        connection = _connected(url, write=write)
    try:
        with source.asking():
            yield connection
    finally:
        with suppress(*_faults()):
            connection.disconnect()


@contextmanager
def transaction(url: str) -> "Iterator[Any]":
    """The driver's own connection to a PostgreSQL to write to: all that is done by it in the block is done, or nothing. Raises `BadInput`
    where the database does not answer, or refuses; its words, which may hold cells, are not repeated."""
    with _asking(url, write=True) as connection:
        connection.con.rollback()
        connection.con.autocommit = False
        yield connection.con
        connection.con.commit()


def read_tables(given: Address, names: "Iterable[str]") -> "dict[str, pa.Table]":
    """All records of the named tables, in memory, from one snapshot. The address names their schema in place of a table."""
    found: dict[str, pa.Table] = {}
    with source.quiet(), _snapshot(given.url) as connection:
        for name in names:
            found[name] = _fetched(_table(given, connection, name))
    return found


def tables_in(given: Address) -> "dict[str, pa.Table]":
    """All records of all tables of the database's schema that the address names, as `read_tables`; none where it names a table."""
    with source.quiet(), _snapshot(given.url) as connection:
        if given.table in connection.list_tables() or given.table not in connection.list_databases():
            return {}
        if why := _unusable(given.table):
            raise BadInput(f"{given}: {why}")
        names = sorted(connection.list_tables(database=given.table))
        return {name: _fetched(connection.table(name, database=given.table)) for name in names}


def write(parts: "Iterable[pa.Table]", types: "pa.Schema", given: Address, *, replace: bool) -> int:
    """Make the table of these records, whole or not at all, and return their number. Raises `BadInput` where it is there, unless it is
    to be replaced."""
    if given.table is None:
        raise BadInput(f"{given.url}: records are written into a table: name it after #")
    schema, _, name = given.table.rpartition(".")
    return write_tables({name: (parts, types)}, dataclasses.replace(given, table=schema), replace=replace)[name]


@source.quiet()
def write_tables(
    tables: "Mapping[str, tuple[Iterable[pa.Table], pa.Schema]]", given: Address, *, replace: bool
) -> dict[str, int]:
    """Create these tables, by name, all or none. The address names a schema of the database instead of a table. Raises `BadInput` if one of
    them exists, unless `replace`; other tables are left as they are."""
    # All in one transaction: a writer that stops keeps the older tables, and leaves nothing.
    connection = _connected(given.url, write=True)
    try:
        # PostgreSQL would cut longer names: the shorter one may be that of another table.
        names = [name for table, (_, types) in tables.items() for name in (table, *types.names)]
        long = [each for each in names if len(each.encode()) > LONGEST]
        if connection.name == "postgres" and long:
            raise BadInput(f"{long[0]!r}: a name in PostgreSQL has at most {LONGEST} bytes; choose a shorter one")
        with source.transaction(connection.con):
            return {name: _made(connection, given, name, *each, replace=replace) for name, each in tables.items()}
    except _faults() as error:
        why = _unusable(given.table) or (
            "check that the schema is there, that you may write there, and that no view has a table's name"
        )
        raise BadInput(f"{given}: cannot be written ({type(error).__name__}); {why}") from None
    finally:
        connection.disconnect()


def _made(
    connection: Any, given: Address, name: str, parts: "Iterable[pa.Table]", types: "pa.Schema", *, replace: bool
) -> int:
    """Make a table, and return its number of records."""
    import ibis

    # The table and its columns have other names until it is whole: Ibis takes a `%` or a bracket in one for a place of its own.
    place: dict[str, Any] = {"database": given.table or None}
    unfinished, rows = f"unfinished_{secrets.token_hex(8)}", 0
    there = name in connection.list_tables(**place)
    if there and not replace:
        raise BadInput(f"{given}: the table {name} exists; name another, or pass force=true (in Python force=True)")
    meanwhile = [f"{number}__unfinished" for number in range(len(types))]
    made = types.empty_table().rename_columns(meanwhile).schema
    connection.create_table(unfinished, schema=ibis.schema(made), **place)
    for part in parts:
        if len(part):
            connection.insert(unfinished, ibis.memtable(part.rename_columns(meanwhile)), **place)
        rows += len(part)
    where = f"{quoted(given.table)}." if given.table else ""
    for known, column in zip(meanwhile, types.names, strict=True):
        renamed = f"RENAME COLUMN {quoted(known)} TO {quoted(column)}"
        connection.con.execute(f"ALTER TABLE {where}{quoted(unfinished)} {renamed}")
    if there:
        connection.con.execute(f"DROP TABLE {where}{quoted(name)}")
    connection.con.execute(f"ALTER TABLE {where}{quoted(unfinished)} RENAME TO {quoted(name)}")
    return rows


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _connected(url: str, *, write: bool = False) -> Any:
    source.check_installed()
    import ibis

    parts = urlsplit(url)
    if parts.scheme == "duckdb":
        file = file_of(url)
        if parts.netloc or not file or (not write and not Path(file).is_file()):
            raise BadInput(
                f"{url}: no such database; write duckdb:///file.db, or duckdb:////folder/file.db for a path from the root"
            )
        connect, options = ibis.duckdb.connect, {"database": file, "read_only": not write}
    elif parts.scheme in SCHEMES:
        connect, options = _postgres(), _words(url)
    else:
        raise BadInput(f"{url}: expected {FORM}")
    try:
        return connect(**options)
    except _faults() as error:
        raise BadInput(
            f"{url}: the database cannot be opened ({type(error).__name__}): check the host, the user and the database's name. Passwords "
            "come from PGPASSWORD, ~/.pgpass or a service file (?service=NAME)"
        ) from None


def file_of(url: str) -> str:
    """The path in the URL of a DuckDB."""
    return unquote(url.partition("://")[2].removeprefix("/"))


def _postgres() -> Any:
    import ibis

    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise BadInput(
            "PostgreSQL is read by psycopg, which is not installed: pip install 'synthdp[postgres]'"
        ) from None
    return ibis.postgres.connect


def _words(url: str) -> dict[str, Any]:
    """What the driver is told; the rest it takes from its environment and files."""
    parts = urlsplit(url)
    try:
        said: dict[str, Any] = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        port = parts.port
    except ValueError:
        raise BadInput(f"a PostgreSQL URL must look like {FORM.split()[0]}") from None
    unknown = sorted(set(said) - set(WORDS))
    if unknown:
        raise BadInput(f"a PostgreSQL URL takes no {unknown[0]!r}; known: {', '.join(WORDS)}")
    own = {"user": parts.username, "host": parts.hostname, "database": parts.path.strip("/")}
    said |= {name: unquote(value) for name, value in own.items() if value}
    return {"port": port, **said}


def _faults() -> tuple[type[BaseException], ...]:
    from ibis.common.exceptions import TableNotFound
    from sqlglot.errors import SqlglotError

    return (*source.faults(), TableNotFound, SqlglotError)
