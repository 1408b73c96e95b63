"""Files of the data folder: found, and checked against the sum that says they are the published ones."""

import gzip
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from synthdp.errors import BadInput


@dataclass(frozen=True)
class Wanted:
    """One file in `folder`, under any of its `names` (name -> sha256 of the content), and where to get it; `packed`: or as NAME.gz."""

    folder: str
    names: Mapping[str, str]
    source: str
    packed: bool = False

    def found(self, root: Path) -> tuple[str, Path] | None:
        """The name and the path of the first that is there."""
        for name in self.names:
            for ending in ("", ".gz") if self.packed else ("",):
                path = root / self.folder / (name + ending)
                if path.is_file():
                    return name, path
        return None

    def lacking(self, root: Path) -> str:
        """What is missing for this data set, in words; empty if nothing is."""
        return lacking_of((self,), root)

    def content(self, root: Path) -> tuple[str, bytes]:
        """Name and content of the file, unpacked. Raises `BadInput` where it is absent, or not the published one."""
        found = self.found(root)
        if found is None:
            raise BadInput(f"data set {self.folder} is not here: {self.lacking(root)}")
        name, path = found
        try:
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.name.endswith(".gz") and not name.endswith(".gz") else raw
        except (OSError, EOFError):
            raise BadInput(f"{path}: cannot be read; fetch it again") from None
        if hashlib.sha256(raw).hexdigest() != self.names[name]:
            raise BadInput(f"{path}: is not the published file (its sha256 differs); fetch it again")
        return name, raw

    def parquet(self, root: Path) -> pd.DataFrame:
        """The table of a Parquet file."""
        return pd.read_parquet(io.BytesIO(self.content(root)[1]))


def lacking_of(wanted: Iterable[Wanted], root: Path) -> str:
    """Which files of one data set are not in the data folder, where they were looked for, and where to get them; empty if none."""
    lost = [item for item in wanted if item.found(root) is None]
    if not lost:
        return ""
    names = ", ".join(" or ".join(item.names) for item in lost)
    return f"put {names} into {root / lost[0].folder} (SYNTHDP_DATA names the data folder); source: {lost[0].source}"
