"""Medical Expenditure Panel Survey: 10,391 people of 65 and over, their health, income, insurance and drug expenses.

Agency for Healthcare Research and Quality, public use file, as in Cameron & Trivedi (2010), Microeconometrics using Stata,
chapter 6; it travels inside the package linearmodels.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp.errors import BadInput

SUMMARY = "10,391 people aged 65 and over: health, income, insurance, drug expenses (embedded default)"
SOURCE = "AHRQ Medical Expenditure Panel Survey (public use), inside the Python package linearmodels (NCSA licence)"
REMEDY = "it comes with the package linearmodels: pip install synthdp[demo]"
UNIT = None

# Flags in the order of the schema's categories; where none is set, the last category holds.
HEALTH = {"poor": "poor", "fair": "fair", "good": "good", "vegood": "very good", None: "excellent"}
INCOME = {"poverty": "poor", "lowincome": "low", "midincome": "middle", None: "high"}
DERIVED = ("ldrugexp", "linc", "age2", "vgh", "fph", "blhisp")
NEAR_TARGET = "private"  # nearly a copy of hi_empunion
FLAGS = ("female", "hisp", "black", "marry", "msa", "multlc", "priolist", "hi_empunion")
CLAMPED = {"income": (0.0, 200.0), "ssiratio": (0.0, 1.0)}


def lacking(folder: Path) -> str:  # noqa: ARG001
    """What is missing for this data set, in words; empty if nothing is."""
    return "" if _file() is not None else REMEDY


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:  # noqa: ARG001
    """The records, no official test part, and what was done to them."""
    file = _file()
    if file is None:
        raise BadInput(f"data set meps is not here: {REMEDY}")
    return decoded(pd.read_csv(file))


def decoded(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """One-hot health and income as ordered categories (of two health flags the worse), derived columns dropped."""
    flags = [flag for flag in HEALTH if flag is not None]
    doubled = int((raw[flags].sum(axis=1) > 1).sum())
    frame = raw.drop(columns=[*DERIVED, NEAR_TARGET, *flags, *(flag for flag in INCOME if flag is not None)])
    frame["health"] = _first_set(raw, HEALTH)
    frame["income_class"] = _first_set(raw, INCOME)
    notes = [f"{doubled} records have two health flags; the worse one counts"]
    for column, (low, high) in CLAMPED.items():
        outside = int(((frame[column] < low) | (frame[column] > high)).sum())
        frame[column] = frame[column].clip(low, high).round(3)
        notes.append(f"{outside} values of {column} were clamped to the public bounds [{low:g}, {high:g}]")
    frame["firmsz"] = frame["firmsz"].round(1)
    frame = frame.astype(dict.fromkeys(FLAGS, "bool"))
    notes.append(f"derived columns ({', '.join(DERIVED)}) and {NEAR_TARGET}, nearly a copy of the target, were dropped")
    return frame, None, tuple(notes)


def _first_set(raw: pd.DataFrame, names: dict[str | None, str]) -> "pd.Series[Any]":
    flags = [flag for flag in names if flag is not None]
    held = np.column_stack([raw[flags].to_numpy() == 1, np.ones(len(raw), np.bool_)])
    dtype = pd.CategoricalDtype(list(names.values()), ordered=True)
    return pd.Series(pd.Categorical.from_codes(held.argmax(axis=1), dtype=dtype))


def _file() -> Path | None:
    spec = importlib.util.find_spec("linearmodels")  # found, not imported: its import takes seconds
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "datasets" / "meps" / "meps.csv.bz2"
    return file if file.is_file() else None
