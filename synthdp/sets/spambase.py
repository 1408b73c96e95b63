"""Spambase (Hopkins et al. 1999): 4,601 messages, percentages of words and characters, runs of capitals; spam or not."""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "4,601 e-mail messages as percentages of words and characters: spam or not"
SOURCE = (
    "UCI Machine Learning Repository, Spambase (Hopkins et al. 1999), CC BY 4.0: archive.ics.uci.edu/dataset/94, as a "
    "Parquet file with the column names of spambase.names"
)
UNIT = None
TABLE = Wanted(
    "spambase", {"spambase.parquet": "39ed78014e2da9dce700a5b10dc84c40c2182f9d349ffa39329c4a9e8f42ddc7"}, SOURCE
)
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The messages, no official test part, and what was done to them."""
    frame = TABLE.parquet(folder)
    return frame.astype({"spam": "bool"}), None, ("391 rows repeat others, as published; each is a unit",)
