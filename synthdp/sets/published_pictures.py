"""Published pictures: digits, and pictures of radiology."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.images import npz
from synthdp.sets.files import Packed, Published, Records, pictures_frame, pictures_of

Arrays = dict[str, NDArray[Any]]


def read_digits(_folder: Path) -> Records:
    """1,797 handwritten digits of 8x8 pixels (Alpaydin & Kaynak 1998, the test part), inside scikit-learn.

    Ink is counted on blocks of 4x4: 0 to 16.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    pictures = np.rint(found.images * (255 / 16)).astype(np.uint8)
    notes = (
        "grey levels 0 to 16 are scaled to 0 to 255",
        "writers are not named: digits of one person may stand on both sides of the split, and each picture is a unit",
    )
    return pictures_frame(pictures, "digit", [str(digit) for digit in found.target]), None, notes


def mnist(held: Arrays) -> Records:
    """The official split."""
    train, test = (
        pictures_frame(held[f"x_{part}"], "digit", held[f"y_{part}"].astype(str).tolist()) for part in ("train", "test")
    )
    return train, test, ("writers are not named here: about 250 wrote the training part, and each picture is a unit",)


def usps(held: Arrays) -> Records:
    """The official split; grey levels as bytes."""
    for part in ("train", "test"):
        held[f"x_{part}"] = np.rint(held[f"x_{part}"].astype(np.float64) * 255).astype(np.uint8)
    train, test, _ = mnist(held)
    return train, test, ("grey levels in [0, 1] are scaled to 0 to 255 and rounded; each picture is a unit",)


def mednist(held: Arrays) -> Records:
    """The split of the file's own mask."""
    train, test = (
        pictures_frame(held["images"][chosen], "region", held["classes"][held["labels"][chosen]].tolist())
        for chosen in (~held["is_test"], held["is_test"])
    )
    notes = (
        "there is no official split: the file's own mask holds a sixth out for testing and keeps exact duplicates on one side",
        "patients are not named: pictures of one person may be on both sides of the split, and each is a unit",
        "440 pictures are exact duplicates of another at this size: membership tests on them show little",
    )
    return train, test, notes


# PneumoniaMNIST (MedMNIST v2, Yang et al. 2023): 5,856 chest X-rays of children, 28x28; pneumonia or not (Kermany et al.
# 2018). Training and validation pictures are for training, the official test pictures for testing. Copies of the file
# differ in the order of their records: the sums here do not depend on it, and records come in the order of their own sums.
PNEUMONIA = Packed(
    "pneumoniamnist",
    "pneumoniamnist.npz",
    {},
    "MedMNIST v2 (Yang et al. 2023) from Kermany et al. (2018), CC BY 4.0: medmnist.com, pneumoniamnist.npz with "
    "train_images, train_labels, and so on for val and test",
)
FINDINGS = ("normal", "pneumonia")
PARTS = {  # sha256 over the sorted sums of (picture, label)
    "train": "6f4f175d8f284b761e4bac8adbbc53909ab5bf726091ff048df60e31b0285e79",
    "val": "96fd11f8a8ae3d1112cc8a9eb5228b9dd9d012f03b065853d718c1e0b0a7b046",
    "test": "76775cc8c143ecff72cb3bcb0a321228f0926dbed65082df8a321d5ea26be326",
}


def read_pneumonia(folder: Path) -> Records:
    """Training and test pictures, and what was done to them."""
    missing = PNEUMONIA.lacking(folder)
    if missing:
        raise BadInput(f"data set pneumoniamnist is not here: {missing}")
    path = folder / PNEUMONIA.folder / PNEUMONIA.file
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
    findings = [FINDINGS[min(int(labels[place]), 1)] for place in order]
    return pictures_frame(pictures[order], "finding", findings), total


SETS = {
    "digits": Published(
        summary="1,797 pictures of handwritten digits, 8x8 (embedded default of images)",
        source="UCI Machine Learning Repository, Optical Recognition of Handwritten Digits, CC BY 4.0, "
        "inside the Python package scikit-learn",
        lacking=lambda _folder: "",  # scikit-learn is a dependency
        read=read_digits,
    ),
    "mnist": pictures_of(
        Packed(  # the arrays of the published idx files and of the mnist.npz that Keras hands out
            "mnist",
            "mnist.npz",
            {
                "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            },
            "LeCun, Cortes & Burges, MNIST, CC BY-SA 3.0, as mnist.npz with x_train, y_train, x_test, y_test: "
            "storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
        ),
        "70,000 pictures of handwritten digits, 28x28",
        mnist,
    ),
    "pneumoniamnist": Published(
        summary="5,856 chest X-rays of children, 28x28: pneumonia or not",
        source=PNEUMONIA.source,
        lacking=PNEUMONIA.lacking,
        read=read_pneumonia,
    ),
    "mednist": pictures_of(
        Packed(
            "mednist",
            "mednist28.npz",
            {
                "images": "b5d3c95594ba9ac27fd8f54251ba09c661cc48e056b86b1de600b71254efa54b",
                "labels": "c4f6837d60f1b1e996a0581523b9022c25aa1b3575e1e74552ade59e40a6c8a9",
                "is_test": "61426f9259dfd06c8c7f7257880c76eb200f7594dd761c29c8de3edc59d96010",
                "classes": "4d432faa9a2857fa0914c8195158d6cc99a39e9d0b4a92128a0d5f79ccc5c3db",
            },
            "MedNIST, put together by B. J. Erickson (Mayo Clinic) from TCIA, RSNA Bone Age and NIH ChestX-ray, CC BY-SA 4.0, averaged "
            "from 64x64 to 28x28, as mednist28.npz with images, labels, is_test, classes",
        ),
        "58,954 radiological pictures in six classes (abdomen CT, breast MRI, chest X-ray, ...), 28x28",
        mednist,
    ),
    "usps": pictures_of(
        Packed(
            "usps",
            "usps.npz",
            {
                "x_train": "a5facc7dea2dff335ea771cee5ea1179d90a25b307fe51fffd03293786c4913a",
                "y_train": "ee5027fd47b76715ac18ca27e72fa1332bde98e0b8ce593b503bb2bdb6c03da0",
                "x_test": "a13227ce51400bfd1f9dff0d4c8eafdf8692958514ac093db43bf6981eea73cb",
                "y_test": "0b8b792b8ca1c5c704fd9d5bbd1b261623a359e6c8c65b23db428257beea7800",
            },
            "Hull (1994), the digits of Hastie, Tibshirani & Friedman's book site (zip.train, zip.test), no stated licence, as usps.npz "
            "with x_train, x_test (float32 in [0, 1]), y_train, y_test",
        ),
        "9,298 pictures of handwritten digits from envelopes, 16x16",
        usps,
    ),
}
