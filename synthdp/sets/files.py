"""Files of the data folder: found, and checked against the sum that says they are the published ones."""

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from synthdp.errors import BadInput


@dataclass(frozen=True)
class Wanted:
    """One file in `folder`, under any of its `names` (name -> sha256 of the content); `packed`: or as NAME.gz."""

    folder: str
    names: Mapping[str, str]
    packed: bool = False

    def found(self, root: Path) -> tuple[str, Path] | None:
        """The name and the path of the first that is there."""
        for name in self.names:
            for ending in ("", ".gz") if self.packed else ("",):
                path = root / self.folder / (name + ending)
                if path.is_file():
                    return name, path
        return None


def lacking_of(wanted: Iterable[Wanted], root: Path, source: str) -> str:
    """Which files are not in the data folder, where they were looked for, and where to get them; empty if none."""
    lost = [" or ".join(item.names) for item in wanted if item.found(root) is None]
    if not lost:
        return ""
    folder = next(iter(wanted)).folder
    return f"put {', '.join(lost)} into {root / folder} (SYNTHDP_DATA names the data folder); source: {source}"


def content(wanted: Wanted, root: Path) -> tuple[str, bytes]:
    """Name and content of a file, unpacked. Raises `BadInput` where it is not the published one."""
    found = wanted.found(root)
    if found is None:
        raise BadInput(f"{root / wanted.folder}: has none of the files {', '.join(wanted.names)}")
    name, path = found
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if path.name.endswith(".gz") and not name.endswith(".gz") else raw
    except (OSError, EOFError):
        raise BadInput(f"{path}: cannot be read; fetch it again") from None
    if hashlib.sha256(raw).hexdigest() != wanted.names[name]:
        raise BadInput(f"{path}: is not the published file (its sha256 differs); fetch it again")
    return name, raw
