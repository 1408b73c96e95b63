"""Diabetes 130-US hospitals, 1999-2008: 101,766 inpatient encounters of 71,518 patients (Strack et al. 2014).

Diagnoses (ICD-9) become the nine groups of the paper's table 2 and specialties its groups, since 700 rare codes teach a
generator little. The unit is the patient and one encounter of each counts, as in the paper: R encounters would cost R
times the noise, and three of four patients have one.
"""

import io
from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "101,766 hospital encounters of 71,518 diabetic patients: diagnoses, medication, readmission"
SOURCE = (
    "UCI Machine Learning Repository, Diabetes 130-US hospitals (Strack et al. 2014), CC BY 4.0: "
    "archive.ics.uci.edu/dataset/296"
)
UNIT = "patient_nbr"
CSV, PARQUET = "diabetic_data.csv", "diabetic_data.parquet"
TABLE = Wanted(
    "diabetes130",
    {
        PARQUET: "40593d6f4fbd687c5e138a8eb44f646c2494622e419e75be2cc5d7fb18662a52",
        CSV: "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
    },
    SOURCE,
)
DROPPED = ("encounter_id", "weight", "examide", "citoglipton")
DIAGNOSES = ("diag_1", "diag_2", "diag_3")
COUNTS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
# First and last ICD-9 code of each group, three digits (Strack et al. 2014, table 2).
GROUPS = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}
SPECIALTIES = ("InternalMedicine", "Emergency/Trauma", "Family/GeneralPractice", "Cardiology")
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The encounters, no official test part, and what was done to them."""
    name, raw = TABLE.content(folder)
    if name == PARQUET:
        return grouped(pd.read_parquet(io.BytesIO(raw)))
    return grouped(pd.read_csv(io.BytesIO(raw), dtype="str", keep_default_na=False))


def grouped(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Codes as text, `?` as missing, diagnoses and specialties in their published groups."""
    frame = raw.drop(columns=list(DROPPED)).astype("str")
    for column in DIAGNOSES:
        frame[column] = frame[column].map({code: diagnosis_group(code) for code in frame[column].unique()})
    column = "medical_specialty"
    frame[column] = frame[column].map({name: specialty_group(name) for name in frame[column].unique()})
    frame = frame.mask(frame == "?").astype(dict.fromkeys(COUNTS, "int64"))
    notes = (
        "one encounter per patient counts; train and test hold different patients",
        "diag_1 to diag_3 are the nine groups of Strack et al. (2014), medical_specialty their groups",
        f"{', '.join(DROPPED)} were dropped: an identifier, 97 % missing, and two drugs that nobody was given",
    )
    return frame, None, notes


def diagnosis_group(code: str) -> str:
    """The group of an ICD-9 code; `?` stays `?`. Codes that begin with E or V (causes, contacts) are `other`."""
    whole = code.split(".", 1)[0]
    if code == "?" or not whole.isdecimal():
        return "?" if code == "?" else "other"
    number = int(whole)
    for group, ranges in GROUPS.items():
        if any(first <= number <= last for first, last in ranges):
            return group
    return "other"


def specialty_group(name: str) -> str:
    """Four specialties by name, all of surgery as one, the rest `Other`; `?` stays `?`."""
    if name.startswith("Surg"):
        return "Surgery"
    return name if name in (*SPECIALTIES, "?") else "Other"
