"""Stroke prediction (fedesoriano): 5,110 patients, their habits and diseases, 249 of whom had a stroke.

`Unknown` stays a category of smoking_status, as published; a body mass index that is not known is a missing value.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "5,110 patients: age, habits, diseases, glucose, body mass index; who had a stroke"
SOURCE = (
    "Stroke Prediction Dataset (fedesoriano 2021), educational use only: "
    "kaggle.com/datasets/fedesoriano/stroke-prediction-dataset, as a Parquet file"
)
UNIT = None
TABLE = Wanted("stroke", {"stroke.parquet": "201ca36992a080cbd7d68432d36a51d16dd90fb29e75b5a7ced9e947160fe652"}, SOURCE)
FLAGS = ("hypertension", "heart_disease", "stroke")
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The patients, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Flags and marriage as true or false; the identifier is dropped, since every patient has one record."""
    frame = raw.drop(columns="id").astype(dict.fromkeys(FLAGS, "bool"))
    frame["ever_married"] = frame["ever_married"] == "Yes"
    return frame, None, ("id was dropped: one record is one patient", "Unknown is a category of smoking_status")
