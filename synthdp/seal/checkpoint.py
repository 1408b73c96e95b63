"""The state of a fit on disk, from which a stopped one goes on (law 23). Internal: never part of a release.

A checkpoint holds what earlier noisy answers made of the generator, and the public facts of the fit; no record and no state of
the noise. It is one file, replaced whole. It can be continued once: its name is then written into the ledger.

Of a fit with teachers it also holds, under names that no generator is handed, what they learned (without noise: as secret as the
records) and the key by which units were dealt to them, so that the partition stays what it was.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from synthdp.errors import BadInput
from synthdp.files import strict_json
from synthdp.ledger.ledger import Ledger, sync_folder

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
            of = dict(each.facts.get("of", {}))
            other = sorted(name for name in {*self._of, *of} if of.get(name) != self._of.get(name))
            if other:
                raise BadInput(
                    f"{self._path} is of another fit ({', '.join(other)} differ): resume with what it began with"
                )
            if each.name not in ledger.resumed:
                return each
        if kept:
            raise BadInput(f"{self._path} was resumed already; a checkpoint is resumed once")
        if ledger.kept:
            raise BadInput(f"{self._path} is gone: without its checkpoint this fit cannot go on; start a new one")
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
