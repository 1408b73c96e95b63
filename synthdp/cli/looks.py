"""Looks at real records that come before a fit (drafts and checks), kept in `internal/` beside the schema.

What a look shows may become a declaration: a bound that was seen, a category that was missing. A schema whose public facts were edited
after a look is therefore said to be so in the statement. The log holds a digest of the schema and nothing of the records.
"""

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.files import atomic, strict_json
from synthdp.schema.schema import Schema

DRAFT, CHECK, VALUES = "a draft", "a check", "a check that showed cells"
NO_FACTS = ("declared_by", "name", "notes", "targets")  # keys of a schema that no look at records says anything about


def log_of(schema: Path) -> Path:
    """Where looks that concern a schema's file are kept."""
    return schema.parent / "internal" / f"{schema.stem}.looks.json"


def keep(schema: Path, what: str, held: Schema) -> None:
    """Note a look at real records under this schema."""
    path = log_of(schema)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    looks = [*_read(path), {"look": what, "schema": digest(held), "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")}]
    atomic.write(path, json.dumps(looks, indent=1) + "\n", private=True)


def carry(schema: Path, held: Schema, copy: Path, copied: Schema) -> None:
    """Enter the looks that concern a schema's file in the log of its copy too. A look under the facts that the schema has now is entered as
    one under `copied`, the facts that the copy should have: so the copy does not count as edited."""
    now, known = {digest(held): digest(copied)}, _read(log_of(copy))
    looks = [{**look, "schema": now.get(look["schema"], look["schema"])} for look in _read(log_of(schema))]
    if new := [look for look in looks if look not in known]:
        atomic.write(log_of(copy), json.dumps([*known, *new], indent=1) + "\n", private=True)


def edited_after(schema: Path, held: Schema) -> tuple[str, ...]:
    """The kinds of looks since which the public facts of this schema were edited; of checks the kind that shows most."""
    now = digest(held)
    found = dict.fromkeys(str(look["look"]) for look in _read(log_of(schema)) if look["schema"] != now)
    return tuple(look for look in found if look != CHECK or VALUES not in found)


def digest(schema: Schema) -> str:
    """The hash of the public facts, without who declares them and without marks for review."""
    facts = {name: value for name, value in schema.to_dict().items() if name not in NO_FACTS}
    facts["columns"] = {name: _unmarked(column) for name, column in schema.facts().items()}
    facts["tables"] = [asdict(table) for table in schema.tables]
    if not schema.tables:  # what older versions noted still holds
        del facts["tables"]
    if "reading" in facts:
        facts["reading"] = _unmarked(facts["reading"])
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()


def _unmarked(facts: dict[str, Any]) -> dict[str, Any]:
    """Without the mark itself: a column that is called `review` is a column like any other."""
    return {name: value for name, value in facts.items() if name != "review"}


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    looks = strict_json.load(path)
    if not isinstance(looks, list) or not all(
        isinstance(look, dict) and {"look", "schema"} <= set(look) for look in looks
    ):
        raise BadInput(
            f"{path}: is not a log of drafts and checks, as synthdp writes it: somebody edited it, and what it said is lost"
        )
    return looks
