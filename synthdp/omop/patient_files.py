"""Synthea's CSV export and MIMIC-III as linked tables: person, visit, and below visits condition, procedure, drug and measurement.

What is public of both formats is here: which file a table is, what its keys are called, and a draft of its schema. A schema names a few
columns in the same way for both (`FORMATS`), and all others as the files do, in lower case. `days` of a visit are whole days from its
start to its end. Values of measurements that are not numbers count as missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from synthdp.errors import BadInput
from synthdp.omop.cdm import STAYS
from synthdp.omop.cdm_store import Cdm
from synthdp.omop.cdm_tables import columns_of, days_between, framed, numbers
from synthdp.schema import cells
from synthdp.schema.columns import Boolean, Column, Datetime, Ignored, Numeric
from synthdp.schema.linked_tables import modelled
from synthdp.schema.schema import Schema

PERSON, VISIT, DAYS, VALUE = "person", "visit", "days", "value"
SEX = "{kind: categorical, categories: [F, M]}"
CODES = "{kind: categorical, categories: [TODO]}  # question: which may occur? {file: list.csv, column: code} of a public list"
ICD = "{{kind: categorical, categories: [TODO], tree: {{prefix: [{0}]}}, other: '0'}}  # question: {{file: icd9.csv, column: code}}, public"
NUMBER = (
    "{kind: ignore}  # question: in which range, for all codes? {kind: continuous, bounds: [0, 500], missing: true}"
)
DATE = "{kind: ignore}  # question: should it be learned, with a rule below? {kind: datetime, resolution: day, bounds: [...]}"


@dataclass(frozen=True, kw_only=True)
class File:
    """One file: what its columns are called in the schema, and the draft of those that are learned."""

    name: str
    called: Mapping[str, str]
    draft: Mapping[str, str]


def _dated(years: str, more: str = "") -> str:
    return f"{{kind: datetime, resolution: day, bounds: {years}, bins: 20{more}, review: true}}  # question: from which day to which?"


def _synthea(file: str, **called: str) -> File:
    names = {"encounter": "visit_id", "patient": "person_id", **called}
    return File(name=file, called=names, draft={"code": CODES, **dict.fromkeys(called.values(), DATE)})


def _mimic(file: str, codes: str, **called: str) -> File:
    names = {"hadm_id": "visit_id", "subject_id": "person_id", **called}
    return File(name=file, called=names, draft={"code": codes})


YEARS, SHIFTED = "[2014-01-01, 2025-12-31]", "[2100-01-01, 2220-12-31]"
STAY = f"{{kind: integer, bounds: [0, 365], bins: {STAYS}, review: true}}  # question: how long may a visit last?"
FORMATS: dict[str, dict[str, File]] = {
    "synthea": {
        PERSON: File(
            name="patients",
            called={"id": "person_id", "birthdate": "birth", "deathdate": "death", "gender": "sex"},
            draft={
                "sex": SEX,
                "birth": _dated("[1900-01-01, 2025-12-31]"),
                "death": _dated(YEARS, ", missing: true"),
                "race": "{kind: categorical, categories: [asian, black, hawaiian, native, other, white]}",
                "ethnicity": "{kind: categorical, categories: [hispanic, nonhispanic]}",
            },
        ),
        VISIT: File(
            name="encounters",
            called={"id": "visit_id", "patient": "person_id", "encounterclass": "class", "stop": "end"},
            draft={
                "start": _dated(YEARS),
                "class": "{kind: categorical, categories: [ambulatory, emergency, home, hospice, inpatient, outpatient, snf, urgentcare, "
                "virtual, wellness]}",
                DAYS: STAY,
            },
        ),
        "condition": _synthea("conditions", start="began"),
        "procedure": _synthea("procedures", start="began"),
        "drug": _synthea("medications", start="began", stop="ended"),
        "measurement": File(
            name="observations",
            called={"encounter": "visit_id", "patient": "person_id", "date": "taken"},
            draft={"code": CODES, VALUE: NUMBER, "taken": DATE},
        ),
    },
    "mimic3": {
        PERSON: File(
            name="patients",
            called={"subject_id": "person_id", "dob": "birth", "dod": "death", "gender": "sex"},
            draft={
                "sex": SEX,
                "birth": _dated("[1800-01-01, 2220-12-31]"),
                "death": _dated(SHIFTED, ", missing: true"),
            },
        ),
        VISIT: File(
            name="admissions",
            called={
                "subject_id": "person_id",
                "hadm_id": "visit_id",
                "admittime": "start",
                "dischtime": "end",
                "admission_type": "class",
            },
            draft={
                "start": _dated(SHIFTED),
                "class": "{kind: categorical, categories: [ELECTIVE, EMERGENCY, NEWBORN, URGENT]}",
                DAYS: STAY,
                "hospital_expire_flag": "{kind: boolean}",
            },
        ),
        "condition": _mimic("diagnoses_icd", ICD.format(3), icd9_code="code"),
        "procedure": _mimic("procedures_icd", ICD.format(2), icd9_code="code"),
        "drug": _mimic("prescriptions", CODES, drug="code", startdate="began", enddate="ended"),
    },
}
HEAD = """\
# DRAFT of a schema for {where} (docs/omop.md): what may be known to everyone about it. No record was read. Answer every line with
# a question from a code book, a public report or a round number, never from the records. Then replace every TODO, delete the marks
# `review: true`, and say in `declared_by` who vouches for this. Until all is done, `synthdp fit` refuses this file.
"""
NAMES = {"synthea": "Synthea's CSV export", "mimic3": "MIMIC-III"}


def draft(kind: str, where: str | None) -> str:
    """The schema as YAML, of the files that are there; of all, where `where` is None."""
    there = None if where is None else set(Cdm(where).fields())
    files = {table: file for table, file in FORMATS[kind].items() if there is None or file.name in there}
    if not {PERSON, VISIT} <= set(files):
        needed = " and ".join(FORMATS[kind][table].name for table in (PERSON, VISIT))
        raise BadInput(f"{where}: needs the files {needed}, to which everything else belongs")
    return "\n".join(_lines(kind, files)) + "\n"


def _lines(kind: str, files: Mapping[str, File]) -> Iterator[str]:
    yield HEAD.format(where=NAMES[kind]).rstrip()
    yield f"name: {kind}"
    yield "declared_by:  # who answers for it, such as: A. Meier, data protection office, May 2026"
    yield "unit: person_id  # all rows of a person are protected together"
    yield "units: learn  # question: how many people, about, by a public source?"
    yield "targets: []  # question: which columns will be predicted? Such as visit.class"
    yield "tables:"
    for table, file in files.items():
        yield f"  {table}:  # {file.name}"
        if table == PERSON:
            yield "    key: person_id"
        elif table == VISIT:
            yield "    parent: person"
            yield "    key: visit_id"
            yield "    order: start"
            yield "    max_rows: 10  # question: how many visits of a person count? The more count, the less each weighs"
        else:
            yield "    parent: visit"
            yield "    max_rows: 3  # question: how many rows of a visit count? At most 12"
        yield "    columns:"
        if table not in (PERSON, VISIT):
            yield "      person_id: {kind: identifier}  # the person's key"
        for name, said in file.draft.items():
            yield f"      {name}: {said}"
    yield "rules: [visit.start >= person.birth, visit.start <= person.death]  # and, of a date below visits: drug.began >= visit.start"


def _typed(texts: "pd.Series[Any]", column: Column | Ignored, *, strict: bool) -> Any:
    """Numbers, dates and truth values of text, cell by cell; a date or truth value that cannot be read is missing."""
    if isinstance(column, Datetime):
        read = cells.instants(texts)
        return pd.Series(read.cells.astype("datetime64[us]")).mask(read.missing | read.wrong)
    if isinstance(column, Boolean):
        told = cells.labels(texts, cells.TRUTHS, cells.truth)
        return pd.Series(pd.array(told == 1, dtype="boolean")).mask(told < 0)
    return numbers(texts, strict=strict) if isinstance(column, Numeric) else texts


def read(kind: str, where: str, schema: Schema) -> dict[str, pd.DataFrame]:
    """The tables that a schema describes: a frame for each by its name. Raises `BadInput` where a table or a
    column does not belong to the format, or is not there."""
    known, wanted = FORMATS[kind], dict[str, dict[str, str]]()
    for table in schema.tables:
        if table.name not in known:
            raise BadInput(f"data.format={kind}: has no table {table.name!r}; its tables are {', '.join(known)}")
        own = {mine: theirs for theirs, mine in known[table.name].called.items()}
        names = [name for name in dict.fromkeys(columns_of(schema, table)) if name != DAYS]
        names += ["start", "end"] * (table.name == VISIT)
        wanted[table.name] = {own.get(name, name): name for name in names}
    keys = {theirs for columns in wanted.values() for theirs, mine in columns.items() if mine.endswith("_id")}
    found = Cdm(where).texts({known[name].name: tuple(columns) for name, columns in wanted.items()}, keys)
    frames = {}
    for table in schema.tables:
        file = known[table.name].name
        lacking = [each for each in wanted[table.name] if file not in found or each not in found[file].column_names]
        if lacking:
            raise BadInput(f"{where}: has no {file} with a column {lacking[0]!r}, which the schema describes")
        frame = framed(found[file], keys).rename(columns=wanted[table.name])
        if table.name == VISIT:
            frame[DAYS] = days_between(frame["start"], frame["end"])
        for name, column in modelled(schema, table):
            if name != DAYS:
                frame[name] = _typed(frame[name], column, strict=name != VALUE)
        frames[table.name] = frame[columns_of(schema, table)]
    return frames
