"""Events, and the ledger that books them before they are answered.

An event is a frozen value: what was asked, with the mathematics of why it is private in its docstring and no behaviour
(McMahan & Andrew 2018, section 5). An accountant is a pure function of the events; it lives in `accounting/`.
"""

import dataclasses
import fcntl
import hashlib
import json
import os
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.privacy.budget import Relation

RECORD = "record"
GENESIS = "0" * 64
START = '{"count":'  # how a line that charges begins
BLOCKS = 32  # lines that a loop of equal questions is charged in


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every event says of its neighbours: the relation, and the unit that is added, removed or replaced."""

    relation: Relation = "add_remove"
    unit: str = RECORD


@dataclass(frozen=True)
class Gaussian(Event):
    """A vector of L2 sensitivity s, plus independent N(0, (noise * s)^2) on each coordinate.

    Under add_remove the trade-off curve is that of N(0, 1) against N(1 / noise, 1) (Balle & Wang 2018; Dong, Roth & Su
    2019). s is the bound on one unit's contribution; under replace_one two contributions change and the means lie 2 / noise
    apart.
    """

    noise: float


@dataclass(frozen=True)
class Laplace(Event):
    """A vector of L1 sensitivity s, plus independent Laplace noise of scale noise * s: (1 / noise)-DP under add_remove,
    (2 / noise)-DP under replace_one (Dwork, McSherry, Nissim & Smith 2006)."""

    noise: float


@dataclass(frozen=True)
class Choice(Event):
    """One candidate drawn with probability proportional to exp(epsilon * score / (2 * sensitivity)): epsilon-DP
    (McSherry & Talwar 2007). `epsilon` holds for the event's own relation."""

    epsilon: float


@dataclass(frozen=True)
class Threshold(Event):
    """Noisy counts over an unknown domain; only those above a threshold are published.

    A unit touches at most `categories` of them, by one each: a Gaussian of L2 sensitivity sqrt(categories). `delta` bounds
    the probability that a category which one unit alone holds passes the threshold (Korolova et al. 2009), and is charged
    beside the Gaussian's own loss.
    """

    noise: float
    delta: float
    categories: int


@dataclass(frozen=True)
class Vote(Event):
    """Teachers trained on disjoint parts of the units answered a question together: what they say is added up, with noise.

    A unit is in one teacher's part, and that teacher may change arbitrarily: the sum then moves by at most s. The other
    teachers stay as they are. `noise` is the Gaussian deviation over the L2 sensitivity s or, with law "laplace", the Laplace
    scale over the L1 sensitivity s, so that the privacy is that of a `Gaussian` or `Laplace` of this noise, whatever was voted;
    under replace_one two teachers may change. A vote that goes from one class to another moves two counts by one: GNMax of
    deviation sigma has noise sigma / sqrt(2) (Papernot et al. 2018, section 4.1), LNMax of scale 1 / gamma has noise
    1 / (2 gamma) (Papernot et al. 2017, section 3.1).
    """

    noise: float
    law: str = "gaussian"


@dataclass(frozen=True)
class SmoothGaussian(Event):
    """A number f plus N(0, (noise * S)^2), where S depends on the records too: a beta-smooth bound of the sensitivity of f.

    Adding or removing a unit changes f by at most S, and S by a factor of at most e^beta (Nissim, Raskhodnikova & Smith 2007,
    definition 2.1). Its Renyi divergence is that of two Gaussians of different deviations, finite below order
    1 / (1 - e^(-2 beta)); under replace_one the two changes come one after another.
    """

    noise: float
    beta: float


@dataclass(frozen=True)
class Sampled(Event):
    """`queries`, all asked of one random sample of units that contains each unit with probability `rate`.

    With sampler "poisson" the coins are independent and amplification by Poisson sampling applies (Mironov, Talwar & Zhang
    2019; Zhu, Dong & Wang 2022). Accountants refuse a sampler for which they have no proof.
    """

    rate: float
    queries: tuple[Event, ...]
    sampler: str = "poisson"


@dataclass(frozen=True)
class Capped(Event):
    """A block of queries whose parameters were chosen from earlier answers, stopped before their total passed a bound that
    was fixed beforehand: a privacy filter. The whole bound is charged, whatever was spent (GUARANTEE 11).

    `filter` says what was added up: "gaussian", unsampled Gaussians only, the sum of 1 / noise^2 up to bound^2, which is no
    worse than one Gaussian of noise 1 / bound (Smith & Thakurta 2022, theorem 4; Koskela, Tobaben & Honkela 2023); "zcdp",
    the sum of rho up to `bound` (Feldman & Zrnic 2021); "renyi", the sum of the Renyi divergences at `order` alone up to
    `bound` (ibid.). What is added up are the events' own divergences under their own relation: under replace_one a Gaussian adds
    (2 / noise)^2 and the cap is a Gaussian whose means lie `bound` apart; nothing is doubled again. `delta` bounds the sum of
    what thresholds in the block claim for themselves.
    """

    filter: str
    bound: float
    order: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True)
class Revealed(Event):
    """The records themselves were handed out: no finite epsilon."""

    reason: str


@dataclass(frozen=True)
class Entry:
    """`count` independent repetitions of an event; a plan is a tuple of entries."""

    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 0:
            raise BadInput(f"an event's count must be 0 or more, got {self.count}")


Plan = tuple[Entry, ...]

EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Gaussian, Laplace, Choice, Threshold, Vote, SmoothGaussian, Sampled, Capped, Revealed)
}


def register(kind: type[Event]) -> type[Event]:
    """Make an event of a plug-in readable from disk (a class decorator)."""
    EVENTS[kind.__name__] = kind
    return kind


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values; `from_json` is its inverse."""
    values: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        values[field.name] = [to_json(query) for query in value] if field.name == "queries" else value
    return values


def from_json(values: Mapping[str, Any]) -> Event:
    """Read back an event; raises `BadInput` for an unknown type or field."""
    kind = EVENTS.get(str(values.get("type")))
    if kind is None:
        raise BadInput(f"unknown event {values.get('type')!r} in a ledger; known: {', '.join(sorted(EVENTS))}")
    fields = {name: value for name, value in values.items() if name != "type"}
    if "queries" in fields:
        fields["queries"] = tuple(from_json(query) for query in fields["queries"])
    try:
        return kind(**fields)
    except TypeError as error:
        raise BadInput(f"event {kind.__name__} in a ledger has wrong fields: {sorted(fields)}") from error


def scoped(plan: Iterable[Entry], *, relation: Relation, unit: str) -> Plan:
    """The same plan with every event, inner ones too, said for this relation and unit."""
    return tuple(Entry(scoped_event(entry.event, relation=relation, unit=unit), entry.count) for entry in plan)


def scoped_event(event: Event, *, relation: Relation, unit: str) -> Event:
    """The same event said for this relation and unit."""
    if isinstance(event, Sampled):
        queries = tuple(scoped_event(query, relation=relation, unit=unit) for query in event.queries)
        event = dataclasses.replace(event, queries=queries)
    return dataclasses.replace(event, relation=relation, unit=unit)


def canonical(entries: Iterable[Entry]) -> Plan:
    """What may be released of a ledger: equal neighbours merged, a reason's free text left out (GUARANTEE 22)."""
    return merged(
        Entry(dataclasses.replace(entry.event, reason=""), entry.count) if isinstance(entry.event, Revealed) else entry
        for entry in entries
    )


def merged(entries: Iterable[Entry]) -> Plan:
    """Equal neighbours added up, empty entries dropped: the same ledger, shorter."""
    result: list[Entry] = []
    for entry in entries:
        if entry.count == 0:
            continue
        if result and result[-1].event == entry.event:
            result[-1] = Entry(entry.event, result[-1].count + entry.count)
        else:
            result.append(entry)
    return tuple(result)


class Ledger:
    """An append-only list of entries, hash-chained, on disk when it has a path.

    The file is made by the first charge. Every line is durable (fsync) before `append` returns. A line is never changed: a
    block of which part was not used is corrected by a later line (`unused`). One ledger is one fit: its file is held (a lock
    of the operating system's) until `close`, or the end of the process, so that no other fit can go on with it meanwhile.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lines: list[dict[str, Any]] = []
        self._head = GENESIS
        self._path = path
        self._file: int | None = None  # open, and held, from the first line on
        self.torn: str | None = None
        if path is not None and path.exists():
            raise BadInput(f"a ledger exists at {path}; a ledger is never written over")

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

        A torn last line (a crash in the middle of a write) is kept as `Revealed`: what it charged cannot be known.
        """
        ledger = cls._read(path)
        if ledger.torn is not None:
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
        rows = path.read_bytes().decode("utf-8", "surrogateescape").splitlines(keepends=True)
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
            ledger._lines.append(body)
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
    def charges(self) -> int:
        """Number of lines that charge something."""
        return sum("event" in line for line in self._lines)

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

        The append that it comes from never returned, so nothing was answered for it; it counts all the same. Raises
        `BadInput` where it is the beginning of no line of the plan.
        """
        if self.torn is None or self._path is None:
            return
        left = Counter({entry.event: entry.count for entry in plan})
        left.subtract({entry.event: entry.count for entry in self.entries()})
        meant = [Entry(event, _meant(self.torn, event, most)) for event, most in left.items() if most > 0]
        meant = [entry for entry in meant if entry.count]
        if not meant and left.total() > 0:
            raise BadInput(f"{self._path}: the torn last line is of no question of this fit's plan; start a new fit")
        os.truncate(self._path, self._path.stat().st_size - len(self.torn.encode("utf-8", "surrogateescape")))
        self.torn = None
        for entry in meant:
            self.append(entry.event, entry.count)

    def append(self, event: Event, count: int = 1) -> int:
        """Charge `count` repetitions; returns the line's number (from 0) once it is durable."""
        Entry(event, count)
        return self._write({"event": to_json(event), "count": count})

    def unused(self, line: int, count: int) -> None:
        """Say that the last `count` repetitions of an earlier line were never answered."""
        if not 0 <= count <= self._lines[line].get("count", 0):
            raise ValueError(f"line {line} did not charge {count} repetitions")
        if count:
            self._write({"unused": count, "line": line})

    def entries(self) -> Plan:
        """What was charged and not proven unused, equal neighbours merged."""
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
        """Write the canonical copy: merged events only, no times, paths or free text (GUARANTEE 22)."""
        copy = Ledger.of(canonical(self.entries()))
        head, rows = GENESIS, []
        for body in copy._lines:
            rows.append(_row(head, body))
            head = _digest(head, body)
        path.write_text("".join(rows), encoding="utf-8")

    def _hold(self, file: int) -> int:
        self._file = file
        self._let_go = weakref.finalize(self, os.close, file)
        return file

    def _write(self, body: dict[str, Any]) -> int:
        if self._path is not None:
            file = self._file
            if file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                file = self._hold(_held(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL))
                _sync_folder(self._path.parent)
            _append(file, _row(self._head, body))
        self._head = _digest(self._head, body)
        self._lines.append(body)
        return len(self._lines) - 1


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
    return count if START.startswith(torn) or torn.startswith(START) else 0


def _parsed(row: str) -> dict[str, Any] | None:
    try:
        line = json.loads(row)
    except json.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def _digest(previous: str, body: Mapping[str, Any]) -> str:
    return hashlib.sha256((previous + _canonical(body)).encode()).hexdigest()


def _row(previous: str, body: Mapping[str, Any]) -> str:
    return _canonical({**body, "previous": previous, "hash": _digest(previous, body)}) + "\n"


def _held(path: Path, flags: int) -> int:
    """The file, opened to write on, under an exclusive lock; raises `BadInput` where another fit holds it."""
    file = os.open(path, flags, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise BadInput(f"{path}: another fit is writing this ledger; wait for its end, or stop it") from error
    return file


def _append(file: int, row: str) -> None:
    rest = row.encode()
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
