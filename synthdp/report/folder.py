"""The folder of a release: written whole or not at all, and read back with every part checked before any of it is used."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as dump

from synthdp.errors import BadInput
from synthdp.files import CHECKPOINT, atomic, strict_json
from synthdp.ledger import parsing
from synthdp.ledger.ledger import Ledger
from synthdp.report import facts, manifest, signature
from synthdp.report.facts import Held, Limits
from synthdp.report.manifest import MANIFEST, SIGNATURE, TABLES
from synthdp.report.statement import Statement
from synthdp.report.words import upper
from synthdp.schema.schema import Schema

FORMAT = 2
OLD = 1  # without a manifest
MODEL, STUDENT, MODULE = "model.safetensors", "student.safetensors", "module.safetensors"
RELEASE, LEDGER = "release.json", "ledger.jsonl"
READERS = {
    MODEL: "it is a release of synthetic data, which synthdp.load(folder) reads",
    STUDENT: "it is a classifier by PATE, which synthdp.pate.load(folder) reads",
    MODULE: "it is a trained module, which synthdp.trainer.load(folder, module) reads, and synthdp.trainer.verify(folder) checks",
}
PARTS = frozenset({MODEL, STUDENT, MODULE, RELEASE, LEDGER, MANIFEST, SIGNATURE, TABLES})
OF_TABLES = (".csv", ".parquet", ".csv.neutralised.json")  # endings of what lies in the folder of tables
LINE = {"count", "event", "previous", "hash"}  # of the canonical copy of a ledger


def check_replaced(folder: Path) -> None:
    """Refuse to replace what is no release."""
    atomic.recover(folder)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file, but a release is a folder; choose another name")
    other = sorted({path.name for path in folder.iterdir()} - PARTS) if folder.is_dir() else []
    if (folder / TABLES).is_dir():
        other += sorted(
            f"{TABLES}/{path.name}" for path in (folder / TABLES).iterdir() if not path.name.endswith(OF_TABLES)
        )
    if other:
        raise BadInput(f"{folder}: {other[0]!r} is not part of a release and would be lost; choose another folder")


def put(
    folder: Path,
    file: str,
    tensors: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
    schema: Schema,
    statement: Statement,
    ledger: Ledger,
) -> None:
    """The parts of every release: its arrays in `file`, the description with what is `about` its kind, and the ledger."""
    (folder / file).write_bytes(dump({name: np.ascontiguousarray(array) for name, array in tensors.items()}))
    description = {"format": FORMAT, **about, "schema": schema.to_dict(), "statement": statement.to_json()}
    text = json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / RELEASE).write_text(text + "\n", encoding="utf-8")
    ledger.write(folder / LEDGER)


def written(folder: Path | str, write: Callable[[Path], None], *, force: bool) -> Path:
    """The folder, filled by `write(new)` under another name first, with a manifest of what it holds.

    It is there as a whole or not at all, also after a power cut. Raises `BadInput` where it exists, unless with `force` an older
    release is replaced, and where it cannot be written.
    """
    folder = Path(folder)
    check_replaced(folder)
    if folder.exists() and not force:
        raise BadInput(f"{folder} exists; choose another folder, or pass force=true (in Python force=True)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic.folder(folder) as new:
        write(new)
        manifest.write(new)
    return folder


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was found of a release: `checked` and `claimed` are facts with a word on each (see `facts`)."""

    folder: Path
    format: int
    statement: Statement
    signer: str | None  # the fingerprint that the signature names
    signed: bool  # whether that signature was checked with a public key from elsewhere
    checked: Mapping[str, str]
    claimed: Mapping[str, str]

    def __repr__(self) -> str:
        facts = f"{len(self.checked)} facts checked, {len(self.claimed)} only claimed"
        return f"Verified({self.folder}: {self.promise}; {facts}; {self.binding})"

    @property
    def promise(self) -> str:
        """The guarantee in a line."""
        said = self.statement
        return f"epsilon {upper(said.epsilon)} at delta {said.delta:g} per {said.unit} (by {said.accountant})"

    @property
    def binding(self) -> str:
        """What holds the folder together, in a sentence."""
        if self.signed:
            return f"signed by {self.signer}"
        if self.format == OLD:
            return f"format {OLD}, which has no manifest and no signature: only contradictions are detected"
        if self.signer is None:
            return "unsigned: this detects damage, not forgery"
        return f"a signature names {self.signer}, but no public key was given to check it: this detects damage, not forgery"


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The parts of a release, each checked by itself; `check` holds the statement against the others."""

    folder: Path
    format: int
    description: Mapping[str, Any]
    tensors: dict[str, NDArray[Any]]
    schema: Schema
    statement: Statement
    ledger: Ledger
    signer: str | None
    signed: bool

    def check(
        self,
        generator: str,
        settings: Mapping[str, Any] | None,
        limits: Limits = tuple,
        *,
        package: str | None = None,
        costly: bool,
    ) -> Verified:
        """See `facts.check`."""
        held = Held(
            folder=self.folder,
            statement=self.statement,
            events=self.ledger.entries(),
            schema=self.schema,
            generator=generator,
            settings=settings,
            old=self.format == OLD,
            package=package,
            limits=limits,
            tables=(self.folder / TABLES).is_dir(),
        )
        checked, claimed = facts.check(held, costly=costly)
        return Verified(
            folder=self.folder,
            format=self.format,
            statement=self.statement,
            signer=self.signer,
            signed=self.signed,
            checked=checked,
            claimed=claimed,
        )


def opened(folder: Path, model: str, kind: str | None = None, public: Path | str | None = None) -> Opened:
    """Read a release whose tensors are in the file `model`. With `public`, the file of a public key, it must be signed by that key.

    Raises `BadInput` that names the file which is missing, not listed, not what was listed, or not what it should be.
    """
    what = "a release" if kind is None else f"a release of {kind.upper()}"
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder{_waiting(folder)}")
    for name in (model, RELEASE, LEDGER):
        if not (folder / name).is_file():
            if (folder / "release" / name).is_file():
                raise BadInput(f"{folder} is not {what}, but the folder of a fit; give {folder / 'release'}")
            raise BadInput(
                f"{folder} is not {what}: it has no {name}{_waiting(folder)}{_of_another_kind(folder, model)}"
            )
    bound = manifest.check(folder)
    signer = signature.signer(folder)
    if public is not None:
        signer = signature.check(folder, bound, Path(public))
    description = strict_json.load(folder / RELEASE)
    if not isinstance(description, dict) or description.get("kind") != kind:
        raise BadInput(f"{folder / RELEASE} is not {what}")
    found = description.get("format")
    if found != (OLD if bound is None else FORMAT) or isinstance(found, bool):
        raise BadInput(_wrong_format(folder, found))
    try:
        tensors = load_file(folder / model)
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"{folder / model} is not safetensors ({type(error).__name__}); {facts.ALTERED}") from None
    if not {"schema", "statement"} <= set(description):
        raise BadInput(f"{folder / RELEASE} lacks its generator, schema or statement")
    return Opened(
        folder=folder,
        format=found,
        description=description,
        tensors=tensors,
        schema=_schema(folder, description["schema"]),
        statement=Statement.from_json(description["statement"]),
        ledger=_ledger(folder / LEDGER),
        signer=signer,
        signed=public is not None,
    )


def _schema(folder: Path, values: Any) -> Schema:
    try:
        return Schema.from_dict(values).as_released()
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"{folder / RELEASE}: its schema has the wrong form; {facts.ALTERED}") from error


def _wrong_format(folder: Path, found: Any) -> str:
    known = found in (OLD, FORMAT) and not isinstance(found, bool)
    if not known:
        return f"{folder / RELEASE} is not of format {OLD} or {FORMAT}"
    if found == OLD:
        return f"{folder}: {RELEASE} says format {OLD}, which has no {MANIFEST}, but there is one; {facts.ALTERED}"
    return f"{folder}: {MANIFEST} is missing; {facts.ALTERED}"


def _of_another_kind(folder: Path, model: str) -> str:
    """What reads a folder whose tensors are in a file of another name than `model`."""
    for name, reader in READERS.items():
        if name != model and (folder / name).is_file():
            return f"; {reader}"
    return ""


def _waiting(folder: Path) -> str:
    """How to go on where a fit has not written its release yet."""
    new = atomic.interrupted(folder)
    if new is not None:
        return f"; the machine stopped while it was written: rename {new} to {folder.name}"
    for place in (folder, folder.parent):
        if any((place / "internal").glob(f"{CHECKPOINT}*")):
            return (
                f"; the fit in {place} is running or was stopped: its command with resume=true continues a stopped one at no further "
                "charge, and writes the release"
            )
    return ""


def _ledger(path: Path) -> Ledger:
    """The canonical copy of a ledger: whole lines, each an event and a count."""
    data = strict_json.read(path)
    for number, row in enumerate(data.splitlines(), 1):
        values = strict_json.parse(row, f"{path}, line {number}", infinite=True)
        if not isinstance(values, dict) or set(values) != LINE:
            raise BadInput(f"{path}: line {number} of the ledger is not an event with a count; {facts.ALTERED}")
        parsing.entry(values)
    return Ledger.read(path)
