"""Epileptic Seizure Recognition: 11,500 one-second windows of EEG, 178 samples each (Andrzejak et al. 2001).

As in the PATE-GAN paper (Jordon et al. 2019) the question is seizure (class 1 of the five published ones) or not. The published
table cut 23 windows out of each of 500 recordings without saying which: what can be protected here is a window,
not a person.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "11,500 one-second EEG windows of 178 samples: seizure or not"
SOURCE = (
    "Epileptic Seizure Recognition, once in the UCI Machine Learning Repository and since withdrawn, as a Parquet file of "
    "X1 to X178 and y; made from the recordings of Andrzejak et al. (2001), Phys. Rev. E 64, 061907; licence unclear"
)
UNIT = None
TABLE = Wanted(
    "epileptic_seizure",
    {"epileptic_seizure.parquet": "521c322cd865192b05a8febfa7e3f69d30edf5a2fe7bbec4039f15c1e71d322d"},
    SOURCE,
)
SEIZURE = 1  # the class of the windows recorded during a seizure
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The windows, no official test part, and what was done to them."""
    return decided(TABLE.parquet(folder))


def decided(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The five classes as one question."""
    seizure = (raw["y"] == SEIZURE).rename("seizure")
    frame = pd.concat([raw.drop(columns="y").astype("int64"), seizure], axis=1)
    notes = (
        "seizure is class 1 of the published classes 1 to 5; the other four are recordings without a seizure",
        "the file does not tell which windows belong to one person: they may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes
