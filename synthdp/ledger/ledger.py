"""The ledger, which books events before they are answered."""

import fcntl
import hashlib
import json
import os
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.files import strict_json
from synthdp.ledger import parsing
from synthdp.ledger.events import Capped, Entry, Event, Plan, Revealed, Sampled, canonical, from_json, merged, to_json

GENESIS = "0" * 64
START = '{"count":'  # how a line that charges begins
TELLING = 4  # characters by which a line that charges is told from one that does not
MOST_BYTES = 1 << 28  # of a ledger that is read: a million lines
UNSEALS = "unseals"  # the field of a line that holds the key to a kept answer
BLOCKS = 32  # lines that a loop of equal questions is charged in


class Ledger:
    """An append-only list of entries, hash-chained, on disk when it has a path.

    The file is made by the first charge. Every line is durable (fsync) before `append` returns. A line is never changed, and
    nothing is ever given back. One ledger is one fit: its file is held (a lock
    of the operating system's) until `close`, or the end of the process, so that no other fit can go on with it meanwhile.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lines: list[dict[str, Any]] = []
        self._place = 0
        self.samples = 0  # repetitions of sampled events that were ever charged: the place of the next sample's coins
        self._head = GENESIS
        self._process = os.getpid()
        self._path = path
        self._file: int | None = None  # open, and held, from the first line on
        self.torn: str | None = None
        if path is not None and path.exists():
            raise BadInput(f"a ledger exists at {path}, and a ledger is never overwritten; choose another path")

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Ledger":
        """A ledger in memory that holds `entries`."""
        ledger = cls()
        for entry in entries:
            ledger.append(entry.event, entry.count)
        return ledger

    @classmethod
    def read(cls, path: Path) -> "Ledger":
        """Read a ledger back, checking its chain; raises `BadInput` where a line was changed, removed or is unreadable.

        A torn last line (a crash in the middle of a write) that may have charged something is kept as `Revealed`: what it
        charged cannot be known.
        """
        ledger = cls._read(path)
        if ledger.torn is not None and not ledger._free(ledger.torn):
            ledger.append(Revealed("torn last line"))
        return ledger

    @classmethod
    def resume(cls, path: Path) -> "Ledger":
        """Read a ledger back to write on at its end; a torn last line waits for `mend`."""
        if not path.is_file():
            raise BadInput(f"no ledger at {path}")
        file = _held(path, os.O_WRONLY | os.O_APPEND)
        try:
            ledger = cls._read(path)
        except BaseException:
            os.close(file)
            raise
        ledger._path = path
        ledger._hold(file)
        if ledger.torn is None and not path.read_bytes().endswith(b"\n") and ledger._lines:
            _append(file, "\n")  # all but the line's end was written
        return ledger

    @classmethod
    def _read(cls, path: Path) -> "Ledger":
        if not path.is_file():
            raise BadInput(f"no ledger at {path}")
        ledger = cls()
        rows = strict_json.read(path, MOST_BYTES).decode("utf-8", "surrogateescape").splitlines(keepends=True)
        for number, row in enumerate(rows, 1):
            line = _parsed(row)
            if line is None:
                if number == len(rows):
                    ledger.torn = row
                    break
                raise BadInput(f"{path}: line {number} of the ledger is not a JSON object")
            body = {name: value for name, value in line.items() if name not in ("previous", "hash")}
            if line.get("previous") != ledger._head or line.get("hash") != _digest(ledger._head, body):
                raise BadInput(
                    f"{path}: line {number} of the ledger does not follow from the line before it; it was altered"
                )
            _check(body, number, path)
            ledger._take(body)
            ledger._head = line["hash"]
        ledger.entries()
        return ledger

    @property
    def head(self) -> str:
        """The hash of the last line: kept elsewhere, it detects truncation."""
        return self._head

    def close(self) -> None:
        """Let the file go; nothing can be written any more."""
        if self._file is not None:
            self._let_go()

    @property
    def path(self) -> Path | None:
        """Its file; None where it is kept in memory alone."""
        return self._path

    @property
    def claims(self) -> tuple[str, ...]:
        """The tokens under which this fit was entered in an account, or was to be: oldest first."""
        return tuple(str(line["token"]) for line in self._lines if "token" in line)

    def claim(self, token: str) -> None:
        """Write down, durably, the token that the account is told next. Two copies of a ledger cannot both go on: see
        `AccountFile.go_on`."""
        self._write({"token": token})

    def holds(self, head: str) -> bool:
        """Whether one of its lines has this hash."""
        found = GENESIS
        return any(head == (found := _digest(found, line)) for line in self._lines)

    @property
    def begun(self) -> bool:
        """Whether any line was written but claims."""
        return any("token" not in line for line in self._lines)

    def begin(self, cap: Capped | None) -> None:
        """The first line: under which filter, order and cap this fit may be planned anew if answers are lost (law 11); None
        where it may not."""
        self._write({"cap": None if cap is None else to_json(cap)})

    @property
    def cap(self) -> Capped | None:
        """What the first line says; None for ledgers of older versions, too."""
        first = next((line["cap"] for line in self._lines if "cap" in line), None)
        found = None if first is None else from_json(first)
        return found if isinstance(found, Capped) else None

    def replan(self) -> None:
        """Say, durably, that answers were lost and the fit is planned anew under its cap: from here on that is its charge."""
        if self.cap is None:
            raise BadInput("this ledger fixed no cap before its first charge, so its fit cannot be planned anew")
        self._write({"replanned": True})

    @property
    def replanned(self) -> int:
        """Number of lines up to the one that planned the fit anew after answers were lost, the last time; 0 where none did."""
        return max((number for number, line in enumerate(self._lines, 1) if "replanned" in line), default=0)

    def discard(self, *, refused: bool = False) -> None:
        """Remove the file if nothing was charged: a fit that its account `refused` leaves none. Otherwise a file with a claim stays, since
        the claim may have reached an account, and without the file nobody could continue the fit that is charged there."""
        if self._path is not None and self._file is not None and not self.charges and (refused or not self.claims):
            self._path.unlink(missing_ok=True)
            self.close()

    @property
    def charges(self) -> int:
        """Number of lines that charge something."""
        return sum("event" in line for line in self._lines)

    @property
    def place(self) -> int:
        """Number of lines that charge something or say that an answer is given: no two answers outside a block share it."""
        return self._place

    @property
    def resumed(self) -> frozenset[str]:
        """The checkpoints from which this ledger was continued."""
        return frozenset(line["resumed"] for line in self._lines if "resumed" in line)

    @property
    def kept(self) -> bool:
        """Whether a checkpoint of this fit was kept: steps were, or may have been, answered since."""
        return any("kept" in line for line in self._lines)

    def keep(self) -> None:
        """Say, durably and once, that a checkpoint is kept from here on."""
        if not self.kept:
            self._write({"kept": True})

    def resume_from(self, checkpoint: str) -> None:
        """Say, durably, that a checkpoint is continued now: it cannot be continued again."""
        self._write({"resumed": checkpoint})

    def mend(self, plan: Plan) -> None:
        """Replace a torn last line by the charges of `plan` that it may have been meant for.

        The append that it comes from never returned, so nothing was answered for it; it counts all the same. The first line of a
        ledger, and lines that do not begin as charges do, charge nothing. Raises `BadInput` where it is the beginning of no line.
        """
        if self.torn is None or self._path is None:
            return
        left = Counter({entry.event: entry.count for entry in plan})
        left.subtract({entry.event: entry.count for entry in self.booked()})
        meant: list[Entry] = []
        if not self._free(self.torn):
            meant = [Entry(event, _meant(self.torn, event, most)) for event, most in left.items() if most > 0]
            meant = [entry for entry in meant if entry.count]
            if not meant and left.total() > 0:
                raise BadInput(
                    f"{self._path}: the torn last line belongs to no question of this fit's plan; start a new fit"
                )
        os.truncate(self._path, self._path.stat().st_size - len(self.torn.encode("utf-8", "surrogateescape")))
        self.torn = None
        for entry in meant:
            self.append(entry.event, entry.count)

    def _free(self, torn: str) -> bool:
        """Whether a torn line charged nothing: the first of a ledger, or one that does not begin as charges do."""
        return (
            torn.startswith('{"') and not torn.startswith(START[:TELLING]) and (len(torn) >= TELLING or not self.begun)
        )

    def asking(self, what: str = "question", inner: Iterable[Event] = (), key: str = "") -> int:
        """Say, durably, that what was charged last is answered now; returns the line's number.

        `what` is a "question", a "block" of a loop, a "cap" that is opened, or an "inner" question under it with its events. `key` opens
        the answer that was kept before. It stands last: a torn line holds all of it only where the line's end alone is missing.
        """
        events = [to_json(event) for event in inner]
        said = {"asked": what, **({"events": events} if events else {}), **({UNSEALS: key} if key else {})}
        return self._write(said)

    def asked(self, since: int = 0) -> "dict[int, tuple[str, tuple[Event, ...], str]]":
        """The lines from `since` on that say that an answer is given, outside of blocks: kind, inner events, and key."""
        return {
            number: (line["asked"], tuple(from_json(event) for event in line.get("events", ())), line.get(UNSEALS, ""))
            for number, line in enumerate(self._lines)
            if number >= since and line.get("asked", "block") != "block"
        }

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self._lines)

    @property
    def unasked(self) -> Plan:
        """What was charged last and never answered: the fit was stopped before. Older ledgers do not tell."""
        if not self._lines or "cap" not in self._lines[0]:
            return ()
        places = [number for number, line in enumerate(self._lines) if "asked" in line or "replanned" in line]
        rest = self._lines[places[-1] + 1 if places else 0 :]
        return merged(Entry(from_json(line["event"]), line["count"]) for line in rest if "event" in line)

    def append(self, event: Event, count: int = 1) -> int:
        """Charge `count` repetitions; returns the line's number (from 0) once it is durable."""
        Entry(event, count)
        return self._write({"event": to_json(event), "count": count})

    def entries(self) -> Plan:
        """What the fit costs: what was booked or, where it was planned anew, its whole cap, which is never accounted below
        (law 11). Records that were handed out stand beside it."""
        booked = self.booked()
        if not self.replanned or self.cap is None:
            return booked
        return (Entry(self.cap), *(entry for entry in booked if isinstance(entry.event, Revealed)))

    def __iter__(self) -> Iterator[Entry]:
        """Over `entries`, as over a plan."""
        return iter(self.entries())

    def booked(self) -> Plan:
        """Every event as it was charged, equal neighbours merged. (Ledgers of older versions hold lines that give back what was
        not asked.)"""
        counts = [int(line.get("count", 0)) for line in self._lines]
        for line in self._lines:
            if "unused" in line:
                counts[line["line"]] -= int(line["unused"])
        if any(count < 0 for count in counts):
            raise BadInput("the ledger takes back more than it charged; it was altered")
        return merged(
            Entry(from_json(line["event"]), count)
            for line, count in zip(self._lines, counts, strict=True)
            if "event" in line
        )

    def write(self, path: Path) -> None:
        """Write the canonical copy: merged events only, no times, paths or free text (law 22)."""
        copy = Ledger.of(canonical(self.entries()))
        head, rows = GENESIS, []
        for body in copy._lines:
            rows.append(_row(head, body))
            head = _digest(head, body)
        path.write_text("".join(rows), encoding="utf-8")

    def _hold(self, file: int) -> int:
        self._let_go = weakref.finalize(self, os.close, file)
        self._file = file  # last: whenever a Ctrl-C comes, `close` can release what is held
        return file

    def _write(self, body: dict[str, Any]) -> int:
        if os.getpid() != self._process:
            raise BadInput("this fit was forked, and only the process that began it may write its ledger")
        if self._path is not None:
            file = self._file
            if file is None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                try:
                    file = self._hold(_held(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    raise BadInput(
                        f"{self._path}: another fit began this ledger meanwhile; choose another path"
                    ) from None
                sync_folder(self._path.parent)
            _append(file, _row(self._head, body))
        self._head = _digest(self._head, body)
        self._take(body)
        return len(self._lines) - 1

    def _take(self, body: dict[str, Any]) -> None:
        self._lines.append(body)
        self._place += "event" in body or "asked" in body
        if body.get("event", {}).get("type") == Sampled.__name__:
            self.samples += int(body["count"])


def block(count: int) -> int:
    """How many of `count` equal questions are charged by one durable line: what a crash can cost at most."""
    return max(1, -(-count // BLOCKS))


def _meant(torn: str, event: Event, most: int) -> int:
    """How many of an event a torn line may have been about to charge; 0 where it is not the beginning of such a line."""
    given = re.match(r'\{"count":(\d+),', torn)
    count = int(given[1]) if given else min(most, block(most))
    row = _canonical({"count": count, "event": to_json(event)})[:-1]  # what follows are the hashes
    own = min(len(torn), len(row))
    if given:
        return min(most, count) if torn[:own] == row[:own] else 0
    return count if torn.startswith(START) or START.startswith(torn) else 0


def _parsed(row: str) -> dict[str, Any] | None:
    try:
        line = strict_json.parse(row.encode("utf-8", "surrogateescape"), "a line of a ledger", infinite=True)
    except BadInput:
        return None
    return line if isinstance(line, dict) else None


def _check(body: Mapping[str, Any], number: int, path: Path) -> None:
    """Raise `BadInput` where a line that hangs together with the others is none that a ledger writes."""
    try:
        if "event" in body or "count" in body:
            parsing.entry(body)
        for event in (*body.get("events", ()), *filter(None, [body.get("cap")])):
            parsing.event(event)
        of_lines = [body[name] for name in ("line", "unused") if name in body]
        if (
            len(of_lines) == 1
            or not all(type(value) is int and value >= 0 for value in of_lines)
            or body.get("line", 0) >= number
        ):
            raise BadInput("it gives back what no line charged")
        told = [body[name] for name in ("asked", "resumed", "token", UNSEALS) if name in body]
        if not all(isinstance(value, str) for value in told):
            raise BadInput("its words are not text")
    except (BadInput, TypeError) as error:
        raise BadInput(f"{path}: line {number} of the ledger does not belong to a fit ({error})") from None


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _digest(previous: str, body: Mapping[str, Any]) -> str:
    return hashlib.sha256((previous + _canonical(body)).encode()).hexdigest()


def _row(previous: str, body: Mapping[str, Any]) -> str:
    return _canonical({**body, "previous": previous, "hash": _digest(previous, body)}) + "\n"


def check_free(path: Path) -> None:
    """Raise `BadInput` where a running fit writes this ledger."""
    if path.exists():
        os.close(_held(path, os.O_WRONLY | os.O_APPEND))


def _held(path: Path, flags: int) -> int:
    """The file, opened to write on, under an exclusive lock; raises `BadInput` where another fit holds it."""
    file = os.open(path, flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise BadInput(f"{path}: another fit is writing this ledger; wait until it ends, or stop it") from error
    return file


def _append(file: int, row: str) -> None:
    rest = row.encode()
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Make names that were added to a folder, or renamed in it, durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
