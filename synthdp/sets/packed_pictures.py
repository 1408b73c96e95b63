"""Published pictures in .npz files of the data folder, known by the sums of their arrays: how a file was packed does not matter."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.images import npz


@dataclass(frozen=True)
class Packed:
    """A file in `folder` with these arrays: name -> sha256 of its bytes in C order."""

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


def frame(pictures: NDArray[np.uint8], name: str, labels: list[str]) -> pd.DataFrame:
    """The columns `image` and `name`."""
    cells = np.empty(len(pictures), object)
    cells[:] = list(pictures)
    return pd.DataFrame({"image": cells, name: pd.Series(labels, dtype="str")})
