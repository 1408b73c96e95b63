"""UCI Adult (Becker & Kohavi 1996): 1994 census extract, 32,561 training and 16,281 test records.

`?` stays a category of its own: whether somebody named an occupation says much about their income, and the published
comparisons train on it.
"""

import csv
import io
from pathlib import Path

import pandas as pd

from synthdp.errors import BadInput
from synthdp.sets.files import Wanted, lacking_of

SUMMARY = "UCI Adult census extract: 32,561 training and 16,281 test records, income above 50K"
SOURCE = "UCI Machine Learning Repository, Adult (Becker & Kohavi 1996), CC BY 4.0: archive.ics.uci.edu/dataset/2/adult"
UNIT = None
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
TRAIN = Wanted(
    "adult", {"adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"}, SOURCE, packed=True
)  # fmt: skip
TEST = Wanted(
    "adult", {"adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"}, SOURCE, packed=True
)  # fmt: skip


def lacking(folder: Path) -> str:
    """What is missing for this data set, in words; empty if nothing is."""
    return lacking_of((TRAIN, TEST), folder)


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """The training records, the official test records, and what was done to them."""
    missing = lacking(folder)
    if missing:
        raise BadInput(f"data set adult is not here: {missing}")
    notes = ("? (not known) is a category of its own in workclass, occupation and native-country",)
    return _table(TRAIN.content(folder)[1]), _table(TEST.content(folder)[1]), notes


def _table(raw: bytes) -> pd.DataFrame:
    """No header; `, ` between cells; the test file has a first line to skip and a full stop after each label."""
    rows = list(csv.reader(io.StringIO(raw.decode("ascii")), skipinitialspace=True))
    frame = pd.DataFrame([row for row in rows if len(row) == len(COLUMNS)], columns=list(COLUMNS), dtype="str")
    frame["income"] = frame["income"].str.removesuffix(".")
    return frame.astype(dict.fromkeys(NUMBERS, "int64"))
