"""The state of a fit on disk, from which a stopped fit continues (law 23). Internal: never part of a release.

A checkpoint holds what earlier noisy answers made of the generator, and the public facts of the fit; no record and no state of
the noise. It is one file, replaced whole. It can be continued once: its name is then written into the ledger.

Of a fit with teachers it also holds, under names that no generator is handed, what they learned (without noise: as secret as the
records) and the key by which units were dealt to them, so that the partition stays what it was.
"""

import hashlib
import json
import os
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from synthdp.errors import BadInput
from synthdp.files import strict_json
from synthdp.ledger.events import Event
from synthdp.ledger.ledger import Ledger, sync_folder
from synthdp.noise.stream import Stream
from synthdp.schema.codec import Codec
from synthdp.seal.callbacks import made_up

State = Mapping[str, NDArray[Any]]
FACTS = "synthdp"


@dataclass(frozen=True)
class Kept:
    """One checkpoint: its name, the facts of the fit (noise, schema, step) and the generator's state."""

    name: str
    facts: Mapping[str, Any]
    state: State


class Checkpoint:
    """The file `path` of one fit; `of` says which fit: a digest of each thing that it is made of, by name."""

    def __init__(self, path: Path, of: Mapping[str, str]) -> None:
        self._path = path
        self._next = path.with_name(path.name + ".next")
        self._of = dict(of)

    def save(self, facts: Mapping[str, Any], state: State) -> None:
        """Replace the checkpoint, whole and durably."""
        self._write(self._next, facts, state)
        os.replace(self._next, self._path)
        sync_folder(self._path.parent)

    def load(self, ledger: Ledger) -> Kept | None:
        """The checkpoint to continue; None where the fit was stopped before its first.

        Raises `BadInput` where it was continued before, belongs to another fit, or is gone: then answers may have been seen,
        and a plan made anew on what they left would have been chosen by them (law 11).
        """
        found = [self._read(path) for path in (self._path, self._next) if path.exists()]
        kept = [each for each in found if each is not None]
        for each in kept:
            _check_same(self._path, each.facts.get("of", {}), self._of)
            if each.name not in ledger.resumed:
                return each
        if kept:
            raise BadInput(
                f"{self._path} was resumed already, and a checkpoint can be resumed only once; start a new fit"
            )
        if ledger.kept:
            raise BadInput(
                f"{self._path} is gone, and without its checkpoint this fit cannot continue; start a new one"
            )
        return None

    def take(self, kept: Kept, ledger: Ledger) -> None:
        """Continue it: an equal one of another name is made, then this one is marked in the ledger as used."""
        self._write(self._next, kept.facts, kept.state)
        ledger.resume_from(kept.name)
        os.replace(self._next, self._path)
        sync_folder(self._path.parent)

    def _write(self, path: Path, facts: Mapping[str, Any], state: State) -> None:
        said = json.dumps({**facts, "of": self._of, "name": secrets.token_hex(8)})
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(save({name: np.ascontiguousarray(value) for name, value in state.items()}, {FACTS: said}))
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path) -> Kept | None:
        """None for a file that was not written to its end."""
        try:
            with safe_open(path, "numpy") as file:
                facts = strict_json.parse((file.metadata() or {})[FACTS].encode(), str(path), infinite=True)
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, BadInput, TypeError, ValueError):
            return None
        if (
            not isinstance(facts, dict)
            or not isinstance(facts.get("name"), str)
            or not isinstance(facts.get("of"), dict)
        ):
            return None
        return Kept(str(facts.pop("name")), facts, state)


def _check_same(path: Path | None, kept: Mapping[str, str], of: Mapping[str, str]) -> None:
    """Refuse a file of another fit."""
    if other := _differing(kept, of):
        raise BadInput(
            f"{path} belongs to another fit, which differs in {', '.join(other)}: resume with what it began with"
        )


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


# ---- Noisy answers on disk, kept before anyone sees them: a stopped fit is given them again, at no charge.
#
# An answer is post-processing of what was charged, so that giving it again costs nothing; to ask anew would. It is given to the
# very question that it answered, and to no other: a question is known by a digest of its type, its arguments and what its functions
# say of made-up rows, bit for bit. Internal: what has been answered says more than the model that is made of it.
#
# The file is a list of records, appended and synced one by one: length, SHA-256, and a safetensors blob whose metadata say the
# rest. A torn last record was shown to nobody. The first record holds the public facts of the fit (its noise, its own seed).
#
# Answer and ledger are two files, and a fit may be killed between any two writes. The answer comes first, encrypted; then the line of the
# ledger that says that it is given, with the key; then a mark here that this line was written; then the answer is given. So an answer
# without its line is one that nobody can read, whoever copied the file: it is ignored, and its charge pays for the same question with other
# noise. A line without its answer, which no kill leaves, means a lost answer, which counts. A mark without its line means a ledger that was
# cut. (Of an answer without its line the length can be seen. Where it depends on the answer it is rounded up to a power of two.)


SAID, SEALED = "synthdp", "sealed"
LENGTH = 8  # bytes that say how long a record is
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, SafetensorError)
LEAST_TEXT = 4096  # characters to which the text of an answer is filled up
Digest = Mapping[str, str]  # of each thing that a question is made of, by name


@dataclass(frozen=True)
class Stored:
    """One answer, and the digest of its question."""

    question: Digest
    answer: Any


@dataclass(frozen=True)
class Lost:
    """Events inside a cap whose answer was drawn, or may have been, and is not there: they count as spent."""

    events: Sequence[Event]


class Opened:
    """A cap that was charged already."""


class Answers:
    """The file `path` of one fit; `of` says which fit, as in `Checkpoint`, and `seed` is the generator's own: with another one it
    would ask other questions. Without a path nothing is kept."""

    def __init__(self, path: Path | None = None, of: Mapping[str, str] | None = None, seed: int | None = None) -> None:
        self._path = path
        self._of, self._seed = dict(of or {}), seed
        self.facts: Mapping[str, Any] | None = None
        self._waiting: deque[Stored | Lost | Opened] = deque()

    def load(self, ledger: Ledger, since: int = 0) -> bool:
        """Read what was kept, as far as it is of the `ledger`'s lines from `since` on. False where an answer is missing that was
        drawn: then this fit cannot go on from its answers. Raises `BadInput` where they are of another fit."""
        asked = ledger.asked(since)
        found = [] if self._path is None else _whole(self._path)
        if not found:
            return not asked
        try:
            facts, of, kept, shown = _read(found, {line: key for line, (_, _, key) in ledger.asked().items()})
        except UNREADABLE as error:
            raise BadInput(
                f"{self._path} does not contain answers in the form that synthdp keeps ({type(error).__name__}); it was altered"
            ) from None
        _check_same(self._path, of, self._of)
        if not shown <= ledger.asked().keys():  # it was written when their lines were on disk
            raise BadInput(
                f"{self._path} holds answers of which the ledger has no line: some were cut off. Put that ledger back to continue the fit"
            )
        waiting: deque[Stored | Lost | Opened] = deque()
        for line, (what, events, _) in asked.items():
            if what == "cap":
                waiting.append(Opened())
            elif line in kept:
                waiting.append(kept[line])
            elif what == "inner":
                waiting.append(Lost(events))
            else:
                return False
        for line in sorted(kept.keys() - shown):
            self._mark(line)
        self.facts, self._waiting = facts, waiting
        return True

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Say, durably and before the first charge, what the fit is; what an earlier start left is dropped."""
        if self._path is None or self.facts is not None:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        next_ = self._path.with_name(self._path.name + ".next")
        _append(next_, _record(json.dumps({**facts, "seed": self._seed, "of": self._of}), {}), fresh=True)
        os.replace(next_, self._path)
        sync_folder(self._path.parent)
        self.facts = {**facts, "seed": self._seed}

    def opened(self) -> bool:
        """Whether the cap that is asked for now was charged already."""
        found = bool(self._waiting) and isinstance(self._waiting[0], Opened)
        if found:
            self._waiting.popleft()
        return found

    def lost(self) -> Sequence[Event]:
        """The events inside a cap that count as spent before the next answer is given."""
        found: list[Event] = []
        while self._waiting and isinstance(first := self._waiting[0], Lost):
            found += first.events
            self._waiting.popleft()
        return found

    @property
    def waiting(self) -> bool:
        """Whether the next question was answered already."""
        return bool(self._waiting)

    def again(self, question: Any, rate: float | None, codec: Codec | None) -> Any:
        """The stored answer of the next question. Raises `BadInput` where that is not this one, and names what differs."""
        stored, asked = self._waiting.popleft(), digest(question, rate, codec)
        if not isinstance(stored, Stored) or dict(stored.question) != asked:
            differ = _differing(stored.question if isinstance(stored, Stored) else {}, asked)
            raise BadInput(
                f"the stopped fit asked a different question here: {type(question).__name__} differs in {', '.join(differ)}. Its "
                "answers cannot serve another question; resume with the same version, settings, machine and number of threads, or "
                "start a new fit, which is charged in addition"
            )
        return stored.answer

    def keep(
        self, ledger: Ledger, line: int | None, question: Any, rate: float | None, codec: Codec | None, answer: Any
    ) -> None:
        """Keep an answer durably, before anyone sees it, under its `line`. Where there is none, that line is written in here, after the
        answer. What cannot be stored (records that were revealed) is lost if the fit stops."""
        said = None if self._path is None or self.facts is None else _told(question, rate, codec, answer)
        if self._path is None or said is None:
            if line is None:
                ledger.asking()
        elif line is not None:
            _append(self._path, _record(json.dumps({"line": line, **said[0]}), said[1]))
        else:
            key, text = secrets.token_bytes(32), json.dumps(said[0])
            size = len(json.dumps(text))  # within the blob
            text += " " * (max(LEAST_TEXT, 1 << (size - 1).bit_length()) - size)
            blob = _ciphered(save(said[1], {SAID: text}), key)
            _append(self._path, _record(json.dumps({"line": ledger.lines}), {SEALED: blob}))
            self._mark(ledger.asking(key=key.hex()))

    def _mark(self, line: int) -> None:
        """Say, durably, that the ledger has this line."""
        if self._path is not None:
            _append(self._path, _record(json.dumps({"line": line}), {}))


def digest(question: Any, rate: float | None, codec: Codec | None) -> dict[str, str]:
    """What a question is, by name of what it is made of: equal digests are equal questions, bit for bit."""
    found = {"its type": _hashed(type(question).__qualname__), "rate": _hashed(rate)}
    found |= {name: _hashed(value) for name, value in _given(question).items()}
    if meaning := getattr(question, "meaning", 0):  # answers that were kept under an earlier meaning are not reused
        found["what it counts"] = _hashed(meaning)
    rows = None if codec is None else made_up(codec)
    for name, _, answer in getattr(question, "by_row", ()):
        found[name] = _hashed(None if rows is None else np.asarray(answer(rows)))
    return found


def _given(value: Any) -> dict[str, Any]:
    """The fields of a question, or of what it holds, without later ones at their default: a fit that a version without them began asks the
    same question."""
    held = {field: getattr(value, field.name) for field in fields(value)}
    return {
        field.name: each for field, each in held.items() if not (field.metadata.get("later") and each == field.default)
    }


def _hashed(value: Any) -> str:
    found = hashlib.sha256()
    _fed(found, value)
    return found.hexdigest()


def _fed(found: Any, value: Any) -> None:
    """Everything that a question may hold. Functions are known by what they say of made-up rows."""
    if isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        found.update(b"map ")
        for name in sorted(value):
            _fed(found, (name, value[name]))
    elif isinstance(value, tuple | list):
        found.update(f"list {len(value)} ".encode())
        for each in value:
            _fed(found, each)
    elif is_dataclass(value) and not isinstance(value, type):
        _fed(found, (type(value).__qualname__, [*_given(value).values()]))
    elif isinstance(value, float):
        found.update(f"float {value.hex()} ".encode())
    elif isinstance(value, bool | int | str | None):
        found.update(f"{type(value).__name__} {value!r} ".encode())
    elif hasattr(value, "state_dict"):
        _fed(found, {name: tensor.detach().cpu().numpy() for name, tensor in value.state_dict().items()})
    else:
        found.update(b"other ")


def _told(
    question: Any, rate: float | None, codec: Codec | None, answer: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """What is kept of an answer, as JSON, and its arrays; None where it cannot be stored."""
    tensors: dict[str, NDArray[Any]] = {}
    try:
        told = _packed(answer, tensors)
    except TypeError:
        return None
    return {"question": digest(question, rate, codec), "answer": told}, tensors


def _ciphered(blob: bytes, key: bytes) -> NDArray[np.uint8]:
    """The bytes under a key that is used once; a second time they are in the clear again."""
    pad = Stream(key, b"synthdp answer").bits(len(blob))
    return np.frombuffer(blob, np.uint8) ^ np.frombuffer(pad, np.uint8)


def _packed(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    """The value as JSON, its arrays put among the `tensors`."""
    if isinstance(value, bool | int | str | None):
        return {"plain": value}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(each, tensors) for each in value]}
    if type(value) is not np.ndarray or value.dtype.kind not in "fiub":
        raise TypeError(f"answers of type {type(value).__name__} cannot be kept")
    name = str(len(tensors))
    tensors[name] = np.ascontiguousarray(value)
    return {"array": name}


def _unpacked(told: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Any:
    ((kind, value),) = told.items()
    if kind == "plain":
        return value
    if kind == "float":
        return float.fromhex(value)
    if kind in ("list", "tuple"):
        found = [_unpacked(each, tensors) for each in value]
        return found if kind == "list" else tuple(found)
    return tensors[value].copy()


def _record(said: str, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    blob: bytes = save(dict(tensors), {SAID: said})
    return len(blob).to_bytes(LENGTH, "little") + hashlib.sha256(blob).digest() + blob


def _read(
    found: list[tuple[str, bytes]], keys: Mapping[int, str]
) -> tuple[dict[str, Any], dict[str, str], dict[int, Stored], set[int]]:
    """What the fit is, in two parts; the answers by their ledger's line, as far as `keys` open them; and the lines that were surely
    written."""
    facts = strict_json.parse(found[0][0].encode(), "answers", infinite=True)
    of = {name: str(value) for name, value in facts.pop("of").items()}
    kept: dict[int, Stored] = {}
    sealed: dict[int, NDArray[Any]] = {}  # the last one of a line: those before were asked again
    shown: set[int] = set()
    for said, blob in found[1:]:
        told, tensors = strict_json.parse(said.encode(), "an answer", infinite=True), load(blob)
        if SEALED in tensors:
            sealed[told["line"]] = tensors[SEALED]
            continue
        shown.add(told["line"])
        if "answer" in told:
            kept[told["line"]] = _stored(told, tensors)
    for line in sealed.keys() & keys.keys():
        if keys[line]:
            blob = _ciphered(sealed[line].tobytes(), bytes.fromhex(keys[line])).tobytes()
            kept[line] = _stored(strict_json.parse(_said(blob).encode(), "an answer", infinite=True), load(blob))
    return facts, of, kept, shown


def _stored(told: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Stored:
    return Stored(dict(told["question"]), _unpacked(told["answer"], tensors))


def _said(blob: bytes) -> str:
    """What the metadata of a safetensors blob say."""
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return str(header["__metadata__"][SAID])


def _whole(path: Path) -> list[tuple[str, bytes]]:
    """What each whole record of the file says, and its blob. What follows from a torn one on is cut off: it was shown to nobody,
    and what is appended from now on must be readable."""
    if not path.exists():
        return []
    held = path.read_bytes()
    found, at = [], 0
    while at < len(held):
        size = int.from_bytes(held[at : at + LENGTH], "little")
        start = at + LENGTH + 32
        blob = held[start : start + size]
        if len(blob) < size or hashlib.sha256(blob).digest() != held[at + LENGTH : start]:
            break
        try:
            found.append((_said(blob), blob))
        except (KeyError, RecursionError, TypeError, ValueError):
            break
        at = start + size
    if at < len(held):
        os.truncate(path, at)
    return found


def _append(path: Path, record: bytes, *, fresh: bool = False) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND)
    file = os.open(path, flags, 0o600)
    try:
        rest = memoryview(record)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
