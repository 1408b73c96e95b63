"""Where this user's accounts are: a list of paths in the user's data folder, and never a word about the records.

Each account of the list can tell, by its own key, whether a table is the one that it is kept for. So a copy of a table under
another name is noticed when it is fitted in an account of its own. What is not in the list is not noticed: accounts of other users
and machines, and accounts that no fit used since the list was first kept.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from synthdp.budgets import chain
from synthdp.budgets.standing import Standing, standing
from synthdp.errors import BadInput

HOME = "SYNTHDP_HOME"
NAME = "accounts.jsonl"
PATIENCE = 1.0  # seconds to wait for an account that is another fit's


def home() -> Path:
    """$SYNTHDP_HOME, else synthdp in $XDG_DATA_HOME, else in ~/.local/share."""
    chosen = os.environ.get(HOME)
    if chosen:
        return Path(chosen)
    data = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "synthdp"
    except RuntimeError as error:  # a user without a home
        raise BadInput(
            "there is no home folder in which to keep accounts; give account=FILE or set SYNTHDP_HOME"
        ) from error


def holds(path: Path) -> bool:
    """Whether the account is in the list."""
    return _real(path) in listed()


def add(path: Path) -> None:
    """Put the account into the list. Raises `OSError` or `BadInput` where the list cannot be written."""
    if holds(path):
        return
    file = home() / NAME
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # A newline before it, too: the line of a process that was killed may have no end.
        os.write(descriptor, f"\n{json.dumps(str(_real(path)))}\n".encode())
    finally:
        os.close(descriptor)


def others(path: Path | None = None) -> Iterator[tuple[Path, Standing]]:
    """The listed accounts but `path`, as they stand. One that is gone, unreadable or damaged is left out."""
    own = None if path is None else _real(path)
    for other in listed():
        if other == own:
            continue
        try:
            rows = chain.read(other, patience=PATIENCE)
            found = None if rows is None else standing(rows)
        except BadInput:
            continue
        if found is not None:
            yield other, found


def listed() -> dict[Path, None]:
    """The paths, each once, in their order; none where there is no list that can be read."""
    try:
        lines = (home() / NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, BadInput):
        return {}
    return {Path(path): None for path in map(_path, lines) if path}


def _path(line: str) -> str | None:
    try:
        path = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return path if isinstance(path, str) and "\0" not in path else None


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
