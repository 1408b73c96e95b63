"""PneumoniaMNIST (MedMNIST v2, Yang et al. 2023): 5,856 chest X-rays of children, 28x28; pneumonia or not (Kermany et al. 2018).

Training and validation pictures are for training, the official test pictures for testing. Copies of the file differ in the order of
their records: the sums here do not depend on it, and records come in the order of their own sums.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.images import npz
from synthdp.sets.packed_pictures import Packed, frame

SUMMARY = "5,856 chest X-rays of children, 28x28: pneumonia or not"
SOURCE = (
    "MedMNIST v2 (Yang et al. 2023) from Kermany et al. (2018), CC BY 4.0: medmnist.com, pneumoniamnist.npz with "
    "train_images, train_labels, and so on for val and test"
)
UNIT = None
FILE = Packed("pneumoniamnist", "pneumoniamnist.npz", {}, SOURCE)
FINDINGS = ("normal", "pneumonia")
PARTS = {  # sha256 over the sorted sums of (picture, label)
    "train": "6f4f175d8f284b761e4bac8adbbc53909ab5bf726091ff048df60e31b0285e79",
    "val": "96fd11f8a8ae3d1112cc8a9eb5228b9dd9d012f03b065853d718c1e0b0a7b046",
    "test": "76775cc8c143ecff72cb3bcb0a321228f0926dbed65082df8a321d5ea26be326",
}
lacking = FILE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Training and test pictures, and what was done to them."""
    missing = lacking(folder)
    if missing:
        raise BadInput(f"data set pneumoniamnist is not here: {missing}")
    path = folder / FILE.folder / FILE.file
    found = npz.headers(path)
    if not {f"{part}_{what}" for part in PARTS for what in ("images", "labels")} <= set(found):
        raise BadInput(f"{path}: lacks some of the published arrays; fetch it again")
    parts = {}
    for part, published in PARTS.items():
        pictures, labels = (npz.array(path, found[f"{part}_{what}"]) for what in ("images", "labels"))
        parts[part], total = ordered(pictures, labels.reshape(-1))
        if total != published:
            raise BadInput(
                f"{path}: {part} does not contain the published pictures (their sha256 differs); fetch it again"
            )
    train = pd.concat([parts["train"], parts["val"]], ignore_index=True)
    notes = (
        "the official training and validation parts together are used for training, the official test part for testing",
        "children are not named in the published file: pictures of one child may repeat, and each is a unit",
    )
    return train, parts["test"], notes


def ordered(pictures: NDArray[Any], labels: NDArray[Any]) -> tuple[pd.DataFrame, str]:
    """The records in the order of their sums, and the sum of these."""
    sums = [
        hashlib.sha256(cell.tobytes() + bytes([label])).digest() for cell, label in zip(pictures, labels, strict=True)
    ]
    order = np.array(sorted(range(len(sums)), key=sums.__getitem__), dtype=np.int64)
    total = hashlib.sha256(b"".join(sorted(sums))).hexdigest()
    return frame(pictures[order], "finding", [FINDINGS[min(int(labels[place]), 1)] for place in order]), total
