"""Digits: 1,797 handwritten digits of 8x8 pixels (Alpaydin & Kaynak 1998, the test part), inside scikit-learn."""

from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.sets.packed_pictures import frame

SUMMARY = "1,797 pictures of handwritten digits, 8x8 (embedded default of images)"
SOURCE = "UCI Machine Learning Repository, Optical Recognition of Handwritten Digits, CC BY 4.0, inside the Python package scikit-learn"
UNIT = None
LEVELS = 16  # ink is counted on 4x4 blocks: 0 to 16


def lacking(folder: Path) -> str:  # noqa: ARG001
    """Nothing: scikit-learn is a dependency."""
    return ""


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:  # noqa: ARG001
    """The pictures, no official test part, and what was done to them."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pictures = np.rint(found.images * (255 / LEVELS)).astype(np.uint8)
    notes = (
        "grey levels 0 to 16 are scaled to 0 to 255",
        "writers are not named: digits of one person may stand on both sides of the split, and each picture is a unit",
    )
    return frame(pictures, "digit", [str(digit) for digit in found.target]), None, notes
