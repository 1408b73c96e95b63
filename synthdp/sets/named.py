"""Data sets by name: their records, their public schemas and their split into train and test."""

import hashlib
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput, nearest
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from pandas import DataFrame

    from synthdp.sets.files import Published

# Which module of this folder has a data set in its table SETS.
HOMES = {
    "meps": "survey_tables",
    "adult": "survey_tables",
    "diabetes130": "patient_tables",
    "epileptic_seizure": "pategan_paper_tables",
    "cervical_cancer": "pategan_paper_tables",
    "spambase": "pategan_paper_tables",
    "isolet_part": "pategan_paper_tables",
    "creditcard_sample": "pategan_paper_tables",
    "stroke": "patient_tables",
    "support2": "patient_tables",
    "noshow": "patient_tables",
    "covid_testing": "patient_tables",
    "nist_acs": "survey_tables",
    "randhie": "survey_tables",
    "nhanes_2017_2018": "survey_tables",
    "digits": "published_pictures",
    "mnist": "published_pictures",
    "pneumoniamnist": "published_pictures",
    "mednist": "published_pictures",
    "usps": "published_pictures",
}
NAMES = tuple(HOMES)
FOLDER = "SYNTHDP_DATA"
TEST_SHARE = 5  # one unit of five is for testing where no split is official


@dataclass(frozen=True, kw_only=True)
class Info:
    """What `synthdp data` says of a data set; `missing` tells what to do where it is not present."""

    name: str
    summary: str
    source: str
    present: bool
    missing: str
    target: str
    units: int | str | None
    columns: int


@dataclass(frozen=True, kw_only=True)
class Named:
    """A data set: public schema, records to learn from, held-out records, and what was done to both."""

    schema: Schema
    train: "DataFrame"
    test: "DataFrame"
    notes: tuple[str, ...]


def describe() -> list[Info]:
    """Every named data set, whether present or not. Reads no records."""
    infos = []
    for name in NAMES:
        one, schema = _set(name), schema_of(name)
        missing = one.lacking(folder())
        infos.append(
            Info(
                name=name,
                summary=one.summary,
                source=one.source,
                present=not missing,
                missing=missing,
                target=", ".join(schema.targets),
                units=schema.units,
                columns=len(schema.columns),
            )
        )
    return infos


def load(name: str) -> Named:
    """The data set of that name, the same on every machine.

    Raises `BadInput` for an unknown name, and where its files are absent or not the published ones.
    """
    one, schema = _set(name), schema_of(name)
    frame, test, notes = one.read(folder())
    if test is None:
        keys = frame[one.unit].astype(str) if one.unit else range(len(frame))
        held_out = _held_out(name, [str(key) for key in keys])
        frame, test = frame[~held_out].reset_index(drop=True), frame[held_out].reset_index(drop=True)
        notes = (*notes, "there is no official split: a fixed public hash holds one unit in five out for testing")
    names = list(schema.names)
    return Named(schema=schema, train=frame[names], test=test[names], notes=notes)


def schema_of(name: str) -> Schema:
    """The public schema of a named data set, from `conf/schemas`."""
    _set(name)
    return Schema.load(conf_dir() / "schemas" / f"{name}.yaml")


def folder() -> Path:
    """The data folder: what SYNTHDP_DATA says, else ./data."""
    return Path(os.environ.get(FOLDER) or "data")


def conf_dir() -> Path:
    """The folder of configurations: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for place in (package / "conf", package.parent / "conf"):
        if (place / "schemas").is_dir():
            return place
    raise BadInput(f"{package / 'conf'}: the installation lacks its folder conf; install synthdp again")


def _set(name: str) -> "Published":
    if name not in NAMES:
        raise BadInput(f"no data set is named {name!r}{nearest(name, NAMES)}; known: {', '.join(NAMES)}")
    found: Published = importlib.import_module(f"synthdp.sets.{HOMES[name]}").SETS[name]
    return found


def _held_out(name: str, keys: list[str]) -> Any:
    """A mask (records,): the fifth of the units whose hash is lowest, so that a unit is on one side as a whole."""
    lots = {key: hashlib.blake2b(f"{name}/{key}".encode(), digest_size=16).digest() for key in keys}
    chosen = set(sorted(lots, key=lots.__getitem__)[: len(lots) // TEST_SHARE])
    return np.array([key in chosen for key in keys], dtype=np.bool_)
