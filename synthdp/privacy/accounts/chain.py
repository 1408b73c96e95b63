"""Rows that are only ever added: two hash chains in one SQLite file, `charges` (what decides the budget) and `states`.

A row's hash covers its body and the hash before it, so a row that is changed, removed or put in between is detected. The file
holds no secret against whoever can write it: only a head kept elsewhere tells of rows cut off at the end (GUARANTEE 25). States
have a chain of their own, so that the head of the charges moves when something is charged and not when a fit ends.

One writer at a time (BEGIN IMMEDIATE), each transaction whole and on disk before it returns, or not there at all. Tables and
types are such as any SQL database has.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from synthdp.errors import BadInput
from synthdp.privacy.ledger import GENESIS

VERSION = 1
PATIENCE = 60.0  # seconds to wait for another process's transaction, which takes milliseconds
Table = Literal["charges", "states"]
TABLES = (
    "CREATE TABLE IF NOT EXISTS account (version INTEGER NOT NULL, fingerprint_key TEXT NOT NULL)",
    *(
        f"CREATE TABLE IF NOT EXISTS {table} "
        "(number INTEGER PRIMARY KEY, body TEXT NOT NULL, previous TEXT NOT NULL UNIQUE, hash TEXT NOT NULL UNIQUE)"
        for table in ("charges", "states")
    ),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a chain: its number (from 1), what it says, and its hash."""

    number: int
    body: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, kw_only=True)
class Rows:
    """All that an account file holds, its chains checked."""

    key: bytes
    charges: tuple[Row, ...]
    states: tuple[Row, ...]


class Book:
    """An account file inside one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def rows(self) -> Rows:
        """Read everything; raises `BadInput` where a row does not follow from the one before it."""
        found = self._connection.execute("SELECT version, fingerprint_key FROM account").fetchall()
        if len(found) != 1 or found[0][0] != VERSION:
            raise BadInput(f"{self._path} is not an account of version {VERSION}")
        return Rows(key=bytes.fromhex(found[0][1]), charges=self._chain("charges"), states=self._chain("states"))

    def append(self, table: Table, body: Mapping[str, Any]) -> Row:
        """Add a row at the end of a chain."""
        last = self._connection.execute(f"SELECT number, hash FROM {table} ORDER BY number DESC LIMIT 1").fetchone()  # noqa: S608 - a Literal
        number, previous = (last[0] + 1, last[1]) if last else (1, GENESIS)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        row = Row(number=number, body=json.loads(text), hash=_digest(previous, text))
        self._connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", (number, text, previous, row.hash))  # noqa: S608
        return row

    def make(self) -> None:
        """Make the tables and the key where there is nothing yet; a key that was taken out is not replaced."""
        for table in TABLES:
            self._connection.execute(table)
        filled = "SELECT COUNT(*) FROM account UNION ALL SELECT COUNT(*) FROM charges"
        if not any(count for (count,) in self._connection.execute(filled).fetchall()):
            self._connection.execute("INSERT INTO account VALUES (?, ?)", (VERSION, secrets.token_hex(32)))

    def _chain(self, table: Table) -> tuple[Row, ...]:
        rows: list[Row] = []
        head = GENESIS
        query = f"SELECT number, body, previous, hash FROM {table} ORDER BY number"  # noqa: S608
        for number, text, previous, digest in self._connection.execute(query):
            if number != len(rows) + 1 or previous != head or digest != _digest(head, text):
                raise BadInput(
                    f"{self._path}: row {len(rows) + 1} of the account's {table} does not follow from the row before it; "
                    "the account was altered"
                )
            rows.append(Row(number=number, body=json.loads(text), hash=digest))
            head = digest
        return tuple(rows)


@contextmanager
def transaction(path: Path, *, make: bool = False) -> Iterator[Book]:
    """Hold the account alone: what the block appends is durable when it ends well, and nothing of it stays otherwise.

    With `make` the file is made where there is none. Raises `BadInput` where it is no account, cannot be opened, or stays
    locked.
    """
    if not make and not path.is_file():
        raise BadInput(f"no account at {path}")
    try:
        if make:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path.absolute(), timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            book = Book(connection, path)
            if make:
                book.make()
            yield book  # what is raised here skips the commit, and closing rolls back
            connection.execute("COMMIT")
    except (sqlite3.Error, FileExistsError, PermissionError) as error:
        raise BadInput(_reason(path, error)) from error


def read(path: Path) -> Rows | None:
    """What the file holds; None where there is none, or an empty one (its maker was stopped before the first commit)."""
    if _is_empty(path):
        return None
    try:
        with closing(sqlite3.connect(path.absolute(), timeout=PATIENCE, isolation_level=None)) as connection:
            connection.execute("BEGIN")  # one snapshot
            return Book(connection, path).rows()
    except sqlite3.Error as error:
        if _is_empty(path):  # now that half a first commit was rolled back
            return None
        raise BadInput(_reason(path, error)) from error


def _is_empty(path: Path) -> bool:
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _reason(path: Path, error: Exception) -> str:
    if "locked" in str(error):
        return f"{path} is in use by another process for more than {PATIENCE:.0f} seconds; try again"
    if isinstance(error, OSError | sqlite3.OperationalError) and "no such table" not in str(error):
        return f"the account {path} cannot be opened or written ({error}); choose another file with account=FILE"
    return f"{path} is not an account ({error}); account=FILE needs one that synthdp made, or a new name"


def _digest(previous: str, text: str) -> str:
    return hashlib.sha256((previous + text).encode()).hexdigest()
