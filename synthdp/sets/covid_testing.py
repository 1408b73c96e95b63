"""SARS-CoV-2 tests at the Children's Hospital of Philadelphia in 2020: 15,524 tests of 12,344 subjects (medicaldata).

The names in the file are made up and are dropped all the same; so is the PCR's cycle threshold, which the result is read
off.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "15,524 COVID-19 tests of 12,344 subjects at a children's hospital: clinic, payer, times, result"
SOURCE = (
    "R package medicaldata, covid_testing (donor A. Obstfeld, de-identified), MIT: "
    "github.com/higgi13425/medicaldata, as a Parquet file"
)
UNIT = "subject_id"
TABLE = Wanted(
    "covid_testing",
    {"covid_testing.parquet": "a8570e3ca985a0a5fd683cd5969e3490f2603c67fb63217339f3e4d572a11d68"},
    SOURCE,
)
DROPPED = ("fake_first_name", "fake_last_name", "test_id", "ct_result")
FLAGS = ("drive_thru_ind", "orderset")
CLAMPED = {"age": (0, 100), "col_rec_tat": (0, 48), "rec_ver_tat": (0, 48)}
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The tests, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Flags as true or false, ages and hours clamped to public bounds and rounded to a tenth."""
    frame = raw.drop(columns=list(DROPPED)).astype(dict.fromkeys(FLAGS, "bool"))
    notes = [
        "one test of each subject counts; train and test hold different subjects",
        f"{', '.join(DROPPED)} were dropped: names, a constant, and the measurement that the result is read off",
    ]
    for column, (low, high) in CLAMPED.items():
        outside = int(((frame[column] < low) | (frame[column] > high)).sum())
        frame[column] = frame[column].clip(low, high).round(1)
        notes.append(f"{outside} values of {column} were clamped to the public bounds [{low:g}, {high:g}]")
    return frame, None, tuple(notes)
