"""A published data set and its files in the data folder, whose checksums must be those of the published files."""

import gzip
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.images import npz

Records = tuple[pd.DataFrame, pd.DataFrame | None, tuple[str, ...]]
"""The records, the official test records or None, and what was done to them."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A data set: a line on it, where it comes from, and the column of its people where one may have several records.

    `lacking` says in words which of its files are missing from the data folder (empty if none is); `read` reads it from
    there. It raises `BadInput` where a file is absent, or not the published one.
    """

    summary: str
    source: str
    lacking: Callable[[Path], str]
    read: Callable[[Path], Records]
    unit: str | None = None


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

    def table(self, root: Path, **csv: Any) -> pd.DataFrame:
        """The table of a Parquet file, or of a CSV file, which is read by these options of pandas."""
        name, raw = self.content(root)
        if name.endswith(".parquet"):
            return pd.read_parquet(io.BytesIO(raw))
        found: pd.DataFrame = pd.read_csv(io.BytesIO(raw), **csv)
        return found


def lacking_of(wanted: Iterable[Wanted], root: Path) -> str:
    """Which files of one data set are not in the data folder, where they were looked for, and where to get them; empty if none."""
    lost = [item for item in wanted if item.found(root) is None]
    if not lost:
        return ""
    names = ", ".join(" or ".join(item.names) for item in lost)
    return f"put {names} into {root / lost[0].folder} (SYNTHDP_DATA names the data folder); source: {lost[0].source}"


@dataclass(frozen=True)
class Packed:
    """Pictures in an .npz file in `folder`, with these arrays: name -> sha256 of its bytes in C order.

    How a copy of the file was packed does not matter.
    """

    folder: str
    file: str
    sums: Mapping[str, str]
    source: str

    def lacking(self, root: Path) -> str:
        """What is missing for this data set, in words; empty if nothing is."""
        if (root / self.folder / self.file).is_file():
            return ""
        return f"put {self.file} into {root / self.folder} (SYNTHDP_DATA names the data folder); source: {self.source}"

    def arrays(self, root: Path) -> dict[str, NDArray[Any]]:
        """Every array, checked. Raises `BadInput` where the file is absent or holds something else."""
        missing = self.lacking(root)
        if missing:
            raise BadInput(f"data set {self.folder} is not here: {missing}")
        path = root / self.folder / self.file
        found = npz.headers(path)
        held = {name: npz.array(path, found[name]) for name in self.sums if name in found}
        if {name: total(values) for name, values in held.items()} != self.sums:
            raise BadInput(f"{path}: does not contain the published arrays (their sha256 differs); fetch it again")
        return held


def total(values: NDArray[Any]) -> str:
    """The sha256 of an array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def pictures_frame(pictures: NDArray[np.uint8], name: str, labels: list[str]) -> pd.DataFrame:
    """The columns `image` and `name`."""
    cells = np.empty(len(pictures), object)
    cells[:] = list(pictures)
    return pd.DataFrame({"image": cells, name: pd.Series(labels, dtype="str")})


def one_table(
    folder: str,
    summary: str,
    names: Mapping[str, str],
    source: str,
    typed: Callable[[pd.DataFrame], Records],
    *,
    packed: bool = False,
    unit: str | None = None,
    **csv: Any,
) -> Published:
    """A data set of one file, `Wanted`: `typed` makes records of its table, which is read by these options of pandas if it is CSV."""
    file = Wanted(folder, names, source, packed)
    return Published(
        summary=summary,
        source=source,
        lacking=file.lacking,
        read=lambda root: typed(file.table(root, **csv)),
        unit=unit,
    )


def pictures_of(file: Packed, summary: str, records: Callable[[dict[str, NDArray[Any]]], Records]) -> Published:
    """A data set of one .npz file: `records` makes records of its arrays."""
    return Published(
        summary=summary, source=file.source, lacking=file.lacking, read=lambda root: records(file.arrays(root))
    )


def clamped(frame: pd.DataFrame, bounds: Mapping[str, tuple[float, float]]) -> tuple[pd.DataFrame, list[str]]:
    """The columns within these public bounds, and a note on how many values of each lay outside."""
    notes = []
    for column, (low, high) in bounds.items():
        outside = int(((frame[column] < low) | (frame[column] > high)).sum())
        notes.append(f"{outside} values of {column} were clamped to the public bounds [{low:g}, {high:g}]")
    return frame.assign(**{column: frame[column].clip(*bounds[column]) for column in bounds}), notes


def rounded(frame: pd.DataFrame, places: Mapping[str, int]) -> pd.DataFrame:
    """The columns rounded to these decimal places; to none: whole numbers."""
    whole = [column for column, decimals in places.items() if decimals == 0]
    return frame.round(dict(places)).astype(dict.fromkeys(whole, "Int64"))


def first_set(raw: pd.DataFrame, names: Mapping[str | None, str]) -> "pd.Series[Any]":
    """The ordered category of the first flag that is 1; where none is, the last category, whose flag is None."""
    flags = [flag for flag in names if flag is not None]
    held = np.column_stack([raw[flags].to_numpy() == 1, np.ones(len(raw), np.bool_)])
    dtype = pd.CategoricalDtype(list(names.values()), ordered=True)
    return pd.Series(pd.Categorical.from_codes(held.argmax(axis=1), dtype=dtype))
