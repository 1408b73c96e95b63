"""Rows that are only ever added: two hash chains in one SQLite file, `charges` (what decides the budget) and `states`.

A row's hash covers its body and the hash before it, so a row that is changed, removed or put in between is detected. The file
holds no secret against whoever can write it: only a head kept elsewhere tells of rows cut off at the end of both chains (law 25).
States have a chain of their own, so that the head of the charges moves when something is charged and not when a fit ends.

A file is there only once it holds its key and its first charge, and it holds three tables and nothing else. A file of another
form is damaged, never new, and is refused (law 44). One writer at a time (BEGIN IMMEDIATE), each transaction whole and on disk
before it returns, or not there at all.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn

from synthdp.errors import BadInput
from synthdp.ledger.ledger import GENESIS, sync_folder

VERSION = 1
PATIENCE = 60.0  # seconds to wait for another process's transaction, which takes milliseconds
LONGEST = 4 << 20  # bytes of a row: tens of thousands of different events in a plan
DEEPEST = 40  # levels of lists and objects in a row; plans of selections have about ten
PLACE = "place"  # of a row's body: the name of the file in which it was written
Table = Literal["charges", "states"]
TABLES = (
    "CREATE TABLE account (version INTEGER NOT NULL, fingerprint_key TEXT NOT NULL)",
    *(
        f"CREATE TABLE {table} "
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
    """All that an account file holds, its chains checked; there is at least one charge."""

    path: Path
    key: bytes
    charges: tuple[Row, ...]
    states: tuple[Row, ...]

    def damaged(self, what: str) -> BadInput:
        """The error that says so."""
        return damaged(self.path, what)


class Committed(BadInput):
    """An error during or after a commit: what was appended is in the account, or may be."""


class Book:
    """An account file inside one transaction. Raises `BadInput` where the file holds what synthdp did not put there."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self.added: list[tuple[Table, Row]] = []
        self._rows: Rows | None = None  # nobody else writes while the transaction lasts
        self._check()

    def rows(self) -> Rows:
        """Everything, with what was appended; raises `BadInput` where a row does not follow from the one before it."""
        if self._rows is None:
            self._rows = self._read()
        return self._rows

    def append(self, table: Table, body: Mapping[str, Any]) -> Row:
        """Add a row at the end of a chain, and read it back."""
        last = self._connection.execute(f"SELECT number, hash FROM {table} ORDER BY number DESC LIMIT 1").fetchone()  # noqa: S608 - a Literal
        number, previous = (last[0] + 1, last[1]) if last else (1, GENESIS)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
        kept = _body(text)
        if kept is None or len(text) > LONGEST // 2:
            raise BadInput(
                f"{self._path}: the fit's plan or settings are too long, or too deep, to be entered in an account"
            )
        row = Row(number=number, body=kept, hash=_digest(previous, text))
        written = (number, text, previous, row.hash)
        self._connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", written)  # noqa: S608
        read = f"SELECT number, body, previous, hash FROM {table} ORDER BY number DESC LIMIT 1"  # noqa: S608
        if self._connection.execute(read).fetchone() != written:
            raise _lost(self._path)
        self.added.append((table, row))
        if self._rows is not None:
            longer: dict[str, Any] = {table: (*getattr(self._rows, table), row)}
            self._rows = replace(self._rows, **longer)
        return row

    def _read(self) -> Rows:
        found = self._connection.execute("SELECT version, fingerprint_key FROM account LIMIT 2").fetchall()
        if len(found) != 1 or found[0][0] != VERSION:
            raise damaged(self._path, f"it does not have version {VERSION}")
        key = found[0][1]
        if not isinstance(key, str) or not re.fullmatch("[0-9a-f]{64}", key):
            raise damaged(self._path, "its key has the wrong form")
        charges, states = self._chain("charges"), self._chain("states")
        if not charges:
            raise damaged(self._path, "it has no charges, not even the one that opened it")
        return Rows(path=self._path, key=bytes.fromhex(key), charges=charges, states=states)

    def _check(self) -> None:
        """Three tables of our form, as SQLite left them, and nothing else: no trigger could swallow a charge, no view hide one."""
        expected, layout = _layout(), "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 100"
        found = set(self._connection.execute(layout).fetchall())
        for kind, name, *_ in sorted(expected ^ found, key=lambda part: (part[0] != "table", repr(part))):
            if any((kind, name) == part[:2] for part in expected):
                raise damaged(self._path, f"its {kind} {name!r} does not have the form that synthdp makes")
            raise damaged(
                self._path, f"it contains the {str(kind)[:20]} {str(name)[:40]!r}, which synthdp did not make"
            )
        if self._connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
            raise damaged(self._path, "its pages contradict each other")

    def _chain(self, table: Table) -> tuple[Row, ...]:
        rows: list[Row] = []
        head = GENESIS
        query = f"SELECT number, body, previous, hash FROM {table} ORDER BY number"  # noqa: S608
        for number, text, previous, digest in self._connection.execute(query):
            follows = number == len(rows) + 1 and isinstance(text, str) and previous == head
            if not follows or digest != _digest(head, text):
                raise damaged(
                    self._path,
                    f"row {len(rows) + 1} of its {table} does not follow from the row before it; it was altered",
                )
            body = _body(text)
            if body is None:
                raise damaged(self._path, f"row {number} of its {table} does not have the form that synthdp writes")
            rows.append(Row(number=number, body=body, hash=digest))
            head = digest
        return tuple(rows)


def make(path: Path, first: Mapping[str, Any]) -> None:
    """Make an account, with a new key and `first` as its first charge; one that another process made meanwhile stays.

    It is written under another name and given its own once all of it is on disk: a maker that is killed leaves nothing that
    could be taken for an account, and an empty account can only be a damaged one.
    """
    with _explained(path):
        path = Path(os.path.realpath(path))  # the file that a link leads to
        _make_folder(path.parent)
        _check_no_journal(path)
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        try:
            _write(new, first)
            _name(new, path)
        finally:
            new.unlink(missing_ok=True)
        sync_folder(path.parent)


@contextmanager
def transaction(path: Path) -> Iterator[Book]:
    """Hold the account alone: what the block appends is durable when it ends well, and nothing of it stays otherwise.

    Raises `BadInput` where it is no account, is damaged, cannot be opened, stays locked, or does not keep what was appended.
    """
    with _explained(path):
        if not path.exists():
            raise BadInput(f"no account at {path}")
        with _connected(path, PATIENCE) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            book = Book(connection, path)
            yield book  # what is raised here skips the commit, and closing rolls back
            with _committed(path):
                connection.execute("COMMIT")
        with _committed(path):
            _check_kept(path, book)


def read(path: Path, *, patience: float = PATIENCE) -> Rows | None:
    """What the file holds; None where there is none. Raises `BadInput` as `transaction` does."""
    with _explained(path):
        if not path.exists():
            return None
        with _connected(path, patience) as connection:
            connection.execute("BEGIN")  # one snapshot
            return Book(connection, path).rows()


def damaged(path: Path, what: str) -> BadInput:
    """The error of a file that was an account and is not whole any more."""
    return BadInput(
        f"the account {path} is damaged: {what}. Put a copy of it back, or find out what was spent before you fit anything else, "
        "since a new account would not know it"
    )


def _lost(path: Path) -> BadInput:
    return BadInput(f"the account {path} did not keep what was written to it, so nothing may be fitted with it")


@contextmanager
def _connected(path: Path, patience: float) -> Iterator[sqlite3.Connection]:
    """A connection to a file that is there: SQLite would make an empty one. What it reads is bounded, and never fails to decode."""
    if not path.is_file():
        raise BadInput(
            f"{path} is not an account, since it is not a file; account=FILE needs one that synthdp made, or a new name"
        )
    if path.stat().st_size == 0:
        raise damaged(path, "it is empty")
    name = path.absolute().as_uri() + "?mode=rw"
    with closing(sqlite3.connect(name, timeout=patience, isolation_level=None, uri=True)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        # Its hash then shows that it is not what was written.
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection


def _check_kept(path: Path, book: Book) -> None:
    """Whether the file that has the account's name now, read anew, holds what was appended."""
    if not book.added:
        return
    rows = read(path)
    if rows is None or not all(row in getattr(rows, table)[row.number - 1 : row.number] for table, row in book.added):
        raise _lost(path)


def _write(new: Path, first: Mapping[str, Any]) -> None:
    """A whole account under another name, on disk."""
    key = secrets.token_bytes(32)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its journals the same mode
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        for table in TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO account VALUES (?, ?)", (VERSION, key.hex()))
        Book(connection, new).append("charges", {**first, "key": hashlib.sha256(key).hexdigest()})
        connection.execute("COMMIT")
    sync_folder(new)


def _name(new: Path, path: Path) -> None:
    """Give the file its name, unless another process did so with its own."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:  # no hard links on this file system
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if not path.exists():
                new.rename(path)
        finally:
            os.close(folder)


def _check_no_journal(path: Path) -> None:
    """Of an account that was moved away without it: SQLite would play it into a new one, and the moved one may be torn."""
    journal = path.with_name(path.name + "-journal")
    if journal.exists() and not path.exists():
        raise BadInput(
            f"{journal} belongs to an account that is gone: put that account back beside it, or remove the file if nobody needs it"
        )


def is_hot(path: str) -> bool:
    """Whether SQLite would roll back a file of that name by its journal; one that a kill left before its first write has no header yet."""
    try:
        with open(f"{path}-journal", "rb") as journal:
            return journal.read(1) not in (b"", b"\0")
    except OSError:
        return False


def is_mounted(path: Path) -> bool:
    """Whether the file itself is mounted, on Linux: its journal would not lie in the folder that the file comes from."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return False
    places = {words[4] for line in lines if len(words := line.split(" ")) > 4}
    return os.path.realpath(path) in {
        re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place) for place in places
    }


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


@cache
def _layout() -> frozenset[tuple[Any, ...]]:
    """What SQLite itself says of a file with our tables."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for table in TABLES:
            connection.execute(table)
        return frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity, which are no JSON


DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _body(text: str) -> dict[str, Any] | None:
    """The JSON object of a row; None for what `append` does not write."""
    try:
        body = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return None if not isinstance(body, dict) or _too_deep(text, body) else body


def _too_deep(text: str, body: dict[str, Any]) -> bool:
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    level: list[Any] = [body]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [child for each in inner for child in each]
        if not level:
            return False
    return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What SQLite and the operating system say, for the steward."""
    try:
        yield
    except sqlite3.Error as error:
        raise _reason(path, error) from error
    except UnicodeDecodeError:  # of SQLite's own message, which repeats what the file holds
        raise damaged(path, "SQLite cannot read its pages") from None
    except OSError as error:
        raise BadInput(
            f"the account {path} cannot be opened or written ({error.strerror}); choose another file with account=FILE"
        ) from error


@contextmanager
def _committed(path: Path) -> Iterator[None]:
    """Make every error in the block a `Committed`, since it came with the commit, or after it."""
    try:
        with _explained(path):
            yield
    except BadInput as error:
        raise Committed(*error.args) from error


def _reason(path: Path, error: sqlite3.Error) -> BadInput:
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # without what extends it
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BadInput(f"{path} has been in use by another process for more than {PATIENCE:.0f} seconds; try again")
    if code == sqlite3.SQLITE_NOTADB:
        return BadInput(
            f"{path} is not an account ({error}); account=FILE needs one that synthdp made, or a new name. If it was one, it is damaged"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT):
        return damaged(path, "SQLite cannot read its pages")
    return BadInput(f"the account {path} cannot be opened or written ({error}); choose another file with account=FILE")


def _digest(previous: str, text: str) -> str:
    return hashlib.sha256((previous + text).encode()).hexdigest()
