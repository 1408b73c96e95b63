"""MNIST (LeCun, Cortes & Burges): 70,000 handwritten digits of 28x28 pixels, in the official split.

The arrays are those of the published idx files and of the mnist.npz that Keras hands out.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.packed_pictures import Packed, frame

SUMMARY = "70,000 pictures of handwritten digits, 28x28"
SOURCE = (
    "LeCun, Cortes & Burges, MNIST, CC BY-SA 3.0, as mnist.npz with x_train, y_train, x_test, y_test: "
    "storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
)
UNIT = None
FILE = Packed(
    "mnist",
    "mnist.npz",
    {
        "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
    SOURCE,
)
lacking = FILE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Training and test pictures, and what was done to them: nothing."""
    held = FILE.arrays(folder)
    parts = [frame(held[f"x_{part}"], "digit", held[f"y_{part}"].astype(str).tolist()) for part in ("train", "test")]
    notes = ("writers are not named here: about 250 wrote the training part, and each picture is a unit",)
    return parts[0], parts[1], notes
