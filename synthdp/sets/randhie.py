"""RAND Health Insurance Experiment (Newhouse 1993): 20,190 person-years of 5,912 people on 18 insurance plans.

As in Deb & Trivedi (2002). The target, visits to a physician in a year, is a number. Transforms of other columns (logarithms,
sums, products) are left out, and values that were imputed by a mean are read as missing.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "20,190 years of 5,912 people in an insurance experiment: plan, health, spending, visits to a physician"
SOURCE = (
    "RAND Health Insurance Experiment (Newhouse 1993; Deb & Trivedi 2002), public domain: "
    "github.com/statsmodels/statsmodels, randhie.csv, as a Parquet file"
)
UNIT = "zper"
TABLE = Wanted(
    "randhie", {"randhie.parquet": "9f4728f3aeeaf92cc16502091fa4520233ea50bc1b7c035d980433260ee9bef2"}, SOURCE
)
DERIVED = (
    "meddol", "lnmeddol", "binexp", "linc", "lnum", "lfam", "lpi", "logc", "fmde", "fchild", "xghindx",
)  # fmt: skip
HEALTH = {"hlthp": "poor", "hlthf": "fair", "hlthg": "good", None: "excellent"}
FLAGS = ("tookphys", "female", "inpmis", "idp", "child")
IMPUTED = ("black", "physlm")
ROUNDED = {
    "income": 0, "xage": 1, "educdec": 1, "time": 2, "outpdol": 2, "drugdol": 2, "suppdol": 2, "mentdol": 2, "inpdol": 2,
    "mhi": 1, "disea": 1, "ghindx": 1, "mdeoff": 0, "pioff": 0,
}  # fmt: skip
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The person-years, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Health as one ordered answer, flags as true or false, money in cents."""
    flags = [flag for flag in HEALTH if flag is not None]
    frame = raw.drop(columns=[*DERIVED, *flags]).astype(dict.fromkeys(FLAGS, "bool"))
    held = np.column_stack([raw[flags].to_numpy() == 1, np.ones(len(raw), np.bool_)])
    dtype = pd.CategoricalDtype(list(HEALTH.values()), ordered=True)
    frame["health"] = pd.Series(pd.Categorical.from_codes(held.argmax(axis=1), dtype=dtype))
    imputed = {name: ~frame[name].isin([0, 1]) for name in IMPUTED}
    frame = frame.assign(**{name: frame[name].mask(where).astype("boolean") for name, where in imputed.items()})
    for column, places in ROUNDED.items():
        rounded = frame[column].round(places)
        frame[column] = rounded.astype("Int64") if places == 0 else rounded
    frame["zper"] = frame["zper"].astype("str")
    notes = (
        "one year of each person counts; train and test hold different people",
        f"{', '.join(DERIVED)} were dropped: they are computed from other columns",
        *(
            f"{int(where.sum())} values of {name} that are a mean, not an answer, are missing"
            for name, where in imputed.items()
        ),
    )
    return frame, None, notes
