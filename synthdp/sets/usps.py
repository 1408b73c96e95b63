"""USPS (Hull 1994): 9,298 handwritten digits of 16x16 pixels, read off envelopes, in the official split."""

from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.sets.packed_pictures import Packed, frame

SUMMARY = "9,298 pictures of handwritten digits from envelopes, 16x16"
SOURCE = (
    "Hull (1994), the digits of Hastie, Tibshirani & Friedman's book site (zip.train, zip.test), no stated licence, as usps.npz with "
    "x_train, x_test (float32 in [0, 1]), y_train, y_test"
)
UNIT = None
FILE = Packed(
    "usps",
    "usps.npz",
    {
        "x_train": "a5facc7dea2dff335ea771cee5ea1179d90a25b307fe51fffd03293786c4913a",
        "y_train": "ee5027fd47b76715ac18ca27e72fa1332bde98e0b8ce593b503bb2bdb6c03da0",
        "x_test": "a13227ce51400bfd1f9dff0d4c8eafdf8692958514ac093db43bf6981eea73cb",
        "y_test": "0b8b792b8ca1c5c704fd9d5bbd1b261623a359e6c8c65b23db428257beea7800",
    },
    SOURCE,
)
lacking = FILE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Training and test pictures, and what was done to them."""
    held = FILE.arrays(folder)
    parts = []
    for part in ("train", "test"):
        pictures = np.rint(held[f"x_{part}"].astype(np.float64) * 255).astype(np.uint8)
        parts.append(frame(pictures, "digit", held[f"y_{part}"].astype(str).tolist()))
    return parts[0], parts[1], ("grey levels in [0, 1] are scaled to 0 to 255 and rounded; each picture is a unit",)
