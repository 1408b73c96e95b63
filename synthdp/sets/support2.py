"""SUPPORT2 (Knaus et al. 1995): 9,105 seriously ill adults in five US hospitals, physiology, costs, function and survival.

The target is death in hospital. What is known only afterwards (follow-up and the state two months later) tells it and is
left out, as are the predictions of the study's own models and of the physicians.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "9,105 seriously ill hospital patients: diagnoses, physiology, costs, death in hospital"
SOURCE = (
    "Vanderbilt Biostatistics, SUPPORT2 (Knaus et al. 1995; UCI 880), CC BY 4.0: hbiostat.org/data, as a Parquet file"
)
UNIT = None
TABLE = Wanted(
    "support2", {"support2.parquet": "4157fca7edeeee874c4b12abb96e5ecaa562b055db42658a6ecc3fb8c291f3a0"}, SOURCE
)
PREDICTIONS = ("sps", "aps", "surv2m", "surv6m", "prg2m", "prg6m")
AFTERWARDS = ("death", "d.time", "sfdm2")
FLAGS = ("hospdead", "diabetes", "dementia")
WHOLE = ("edu", "scoma", "dnrday", "resp", "sod", "adlp", "adls")
PLACES = {
    "age": 1, "charges": 0, "totcst": 0, "totmcst": 0, "avtisst": 1, "meanbp": 0, "wblc": 1, "hrt": 0, "temp": 1, "pafi": 0,
    "alb": 1, "bili": 1, "crea": 1, "ph": 2, "glucose": 0, "bun": 0, "urine": 0, "adlsc": 1,
}  # fmt: skip
CLAMPED = {"totmcst": (0, 1_000_000), "alb": (0, 10)}
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The patients, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Flags as true or false; measurements rounded to the places that they are read off with."""
    frame = raw.drop(columns=["id", *PREDICTIONS, *AFTERWARDS]).astype(dict.fromkeys(FLAGS, "bool"))
    frame = frame.astype(dict.fromkeys(WHOLE, "Int64"))
    notes = [
        f"{', '.join(PREDICTIONS)} were dropped: scores and predictions that were computed from the other columns",
        f"{', '.join(AFTERWARDS)} were dropped: the follow-up tells who died in hospital",
    ]
    for column, (low, high) in CLAMPED.items():
        outside = int(((frame[column] < low) | (frame[column] > high)).sum())
        frame[column] = frame[column].clip(low, high)
        notes.append(f"{outside} values of {column} were clamped to the public bounds [{low:g}, {high:g}]")
    for column, places in PLACES.items():
        rounded = frame[column].round(places)
        frame[column] = rounded.astype("Int64") if places == 0 else rounded
    return frame, None, tuple(notes)
