"""MedNIST: 58,954 radiological pictures in six classes, 28x28, as B. J. Erickson (Mayo Clinic) put them together."""

from pathlib import Path

import pandas as pd

from synthdp.sets.packed_pictures import Packed, frame

SUMMARY = "58,954 radiological pictures in six classes (abdomen CT, breast MRI, chest X-ray, ...), 28x28"
SOURCE = (
    "MedNIST, put together by B. J. Erickson (Mayo Clinic) from TCIA, RSNA Bone Age and NIH ChestX-ray, CC BY-SA 4.0, averaged "
    "from 64x64 to 28x28, as mednist28.npz with images, labels, is_test, classes"
)
UNIT = None
FILE = Packed(
    "mednist",
    "mednist28.npz",
    {
        "images": "b5d3c95594ba9ac27fd8f54251ba09c661cc48e056b86b1de600b71254efa54b",
        "labels": "c4f6837d60f1b1e996a0581523b9022c25aa1b3575e1e74552ade59e40a6c8a9",
        "is_test": "61426f9259dfd06c8c7f7257880c76eb200f7594dd761c29c8de3edc59d96010",
        "classes": "4d432faa9a2857fa0914c8195158d6cc99a39e9d0b4a92128a0d5f79ccc5c3db",
    },
    SOURCE,
)
lacking = FILE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Training and test pictures, and what was done to them."""
    held = FILE.arrays(folder)
    parts = [
        frame(held["images"][chosen], "region", held["classes"][held["labels"][chosen]].tolist())
        for chosen in (~held["is_test"], held["is_test"])
    ]
    notes = (
        "there is no official split: the file's own mask holds a sixth out for testing and keeps exact duplicates on one side",
        "patients are not named: pictures of one person may be on both sides of the split, and each is a unit",
        "440 pictures are exact duplicates of another at this size: membership tests on them show little",
    )
    return parts[0], parts[1], notes
