"""Cervical cancer risk factors (Fernandes, Cardoso & Fernandes 2017): 858 patients of a hospital in Caracas, one record each.

The target is Biopsy; the three other examinations (Hinselmann, Schiller, Cytology) stay among the columns, as in the 35
features of the PATE-GAN paper (Jordon et al. 2019).
"""

import io
from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "858 patients, habits, contraception and diseases: biopsy for cervical cancer"
SOURCE = (
    "UCI Machine Learning Repository, Cervical Cancer (Risk Factors) (Fernandes et al. 2017), CC BY 4.0: "
    "archive.ics.uci.edu/dataset/383"
)
UNIT = None
TABLE = Wanted(
    "cervical_cancer",
    {"risk_factors_cervical_cancer.csv": "f749419274544950bdb971781b26187bc16440b0a86ad96f932854ac7dc530a7"},
    SOURCE,
)
YEARS = ("Smokes (years)", "Hormonal Contraceptives (years)", "IUD (years)")
PACKS = "Smokes (packs/year)"
KNOWN_COUNTS = ("Age", "STDs: Number of diagnosis")
ASKED_COUNTS = (
    "Number of sexual partners", "First sexual intercourse", "Num of pregnancies", "STDs (number)",
    "STDs: Time since first diagnosis", "STDs: Time since last diagnosis",
)  # fmt: skip
KNOWN_FLAGS = ("Dx:Cancer", "Dx:CIN", "Dx:HPV", "Dx", "Hinselmann", "Schiller", "Cytology", "Biopsy")
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The patients, no official test part, and what was done to them."""
    return typed(pd.read_csv(io.BytesIO(TABLE.content(folder)[1]), na_values="?"))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Counts and years as numbers, every other column as yes or no; `?` as missing."""
    frame = raw.astype("float64")
    frame = frame.assign(**{name: frame[name].round(2) for name in YEARS}, **{PACKS: frame[PACKS].round(3)})
    counts = dict.fromkeys(KNOWN_COUNTS, "int64") | dict.fromkeys(ASKED_COUNTS, "Int64")
    flags = {name: "boolean" for name in frame.columns if name not in (*counts, *YEARS, PACKS)}
    frame = frame.astype({**counts, **flags, **dict.fromkeys(KNOWN_FLAGS, "bool")})
    notes = (
        "questions that a patient did not answer are missing values",
        "years are rounded to two decimals, packs per year to three",
    )
    return frame, None, notes
