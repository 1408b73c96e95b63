"""NIST Diverse Communities excerpt of the American Community Survey 2019, national part: 27,253 people in 20 areas (PUMAs).

The benchmark table of NIST's Collaborative Research Cycle. `N` (not applicable, such as the income of children) is read as a
missing value, so that ordered columns stay ordered.
"""

import io
from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "27,253 people of the American Community Survey 2019 in 20 areas: household, work, income decile"
SOURCE = (
    "US Census ACS PUMS 2019, Diverse Communities excerpt by NIST (SDNist), public domain: "
    "github.com/usnistgov/SDNist, national2019.csv"
)
UNIT = None
TABLE = Wanted(
    "nist_acs",
    {"national2019.csv": "9e039c8e47c9e998d60f66fd50ec620fc2d0703decdc21f3069c9844fbef979b"},
    SOURCE,
    packed=True,
)
DERIVED = ("DENSITY", "INDP", "PINCP")
WEIGHTS = ("PWGTP", "WGTP")
COUNTS = ("NOC", "NPF", "POVPIP")
NOT_APPLICABLE = "N"
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The people, no official test part, and what was done to them."""
    return typed(pd.read_csv(io.BytesIO(TABLE.content(folder)[1]), dtype="str", keep_default_na=False))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Codes as text, `N` as missing, age, counts and the ratio of income to poverty as numbers."""
    frame = raw.drop(columns=[*DERIVED, *WEIGHTS])
    frame = frame.mask(frame == NOT_APPLICABLE).astype({"AGEP": "int64"} | dict.fromkeys(COUNTS, "Int64"))
    notes = (
        f"{NOT_APPLICABLE} (not applicable) is a missing value",
        "DENSITY (a figure of the area), INDP (INDP_CAT gives its sector) and PINCP (the target is its decile) were dropped",
        f"{', '.join(WEIGHTS)} were dropped: survey weights describe the design, not the people",
    )
    return frame, None, notes
