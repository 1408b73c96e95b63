"""Credit card fraud (Dal Pozzolo et al. 2015), a fifth of it: 56,962 payments of two days in 2013, 98 of them frauds.

V1 to V28 are principal components, whose meaning the donors withhold. This part came without the column Time and through
16-bit numbers (three digits): for trials, not for comparisons with published figures.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "56,962 card payments (a fifth of the published ones), 28 principal components: fraud or not"
SOURCE = (
    "Credit Card Fraud Detection, Machine Learning Group of ULB (Dal Pozzolo et al. 2015), DbCL 1.0: "
    "kaggle.com/datasets/mlg-ulb/creditcardfraud; this part: github.com/spalabucr/pategan-audit, as a Parquet file"
)
UNIT = None
TABLE = Wanted(
    "creditcard_sample",
    {"creditcard_20pct.parquet": "f2162319ba356f0f28662060f02a54dbdfecef03855836000082daacefa3b501"},
    SOURCE,
)
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The payments, no official test part, and what was done to them."""
    raw = TABLE.parquet(folder)
    components = raw.drop(columns="Class").astype("float64")
    # Cents again, after 16 bits: beyond 2,048 they had been rounded to whole units and more.
    frame = components.assign(Amount=components["Amount"].round(2), Class=raw["Class"].astype("bool"))
    notes = (
        "a fifth of the published payments, with numbers of three digits and without Time: figures cannot be compared with "
        "published ones",
        "cards are not named: payments of one card may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes
