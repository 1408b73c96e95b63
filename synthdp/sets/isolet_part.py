"""ISOLET, the published test part (Cole & Fanty 1994): 1,559 spoken letters, 617 features each.

As in the PATE-GAN paper (Jordon et al. 2019) the question is vowel (A, E, I, O, U) or consonant. The training part
(6,238 letters of 120 other speakers) is not here: figures are not those of the whole data set.
"""

import io
from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "1,559 spoken letters (the test part of ISOLET), 617 features: vowel or consonant"
SOURCE = (
    "UCI Machine Learning Repository, ISOLET (Cole & Fanty 1994), CC BY 4.0: archive.ics.uci.edu/dataset/54, the test part "
    "isolet5 as a CSV file with the header f1 to f617, class"
)
UNIT = None
TABLE = Wanted(
    "isolet_part",
    {"isolet5_test.csv": "e14eb62addf13e4268e011929e2829e78fd21b7ebb07829ee477fd7daaf2c244"},
    SOURCE,
    packed=True,
)
VOWELS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(letter) + 1 for letter in "AEIOU")
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The letters, no official split within this part, and what was done to them."""
    return decided(pd.read_csv(io.BytesIO(TABLE.content(folder)[1])))


def decided(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The 26 letters as one question."""
    letters = raw["class"].isin(VOWELS).rename("vowel")
    frame = pd.concat([raw.drop(columns="class"), letters], axis=1)
    notes = (
        "only the published test part (isolet5) is here; it is split anew",
        "vowel is one of the letters A, E, I, O, U",
        "speakers are not named: letters of one speaker may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes
