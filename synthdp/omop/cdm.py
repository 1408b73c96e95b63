"""What is public about OMOP CDM 5.4: tables, fields, types, keys, the domains of concepts (`cdm_5_4.csv`), and constants of the
vocabularies.

A linked schema of a CDM (`check`) has the CDM's tables under their names; columns are the CDM's fields and three that combine several:
person has `birth_datetime` (of year, month and day where it is empty) and `death_date` (of the table death), and visit_occurrence
`visit_days`, from its first day to its last.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from synthdp.errors import BadInput, about
from synthdp.schema.columns import LEARN, Categorical
from synthdp.schema.linked_tables import Table, held, learned_of
from synthdp.schema.schema import Schema

PERSON, VISIT, DEATH, PERIOD = "person", "visit_occurrence", "death", "observation_period"
BELOW = ("condition_occurrence", "procedure_occurrence", "drug_exposure", "measurement")
RECORDS = (PERSON, PERIOD, VISIT, *BELOW, DEATH)  # of people; written, and read but for the periods, which are derived
BIRTH, DEATH_DATE, DAYS = "birth_datetime", "death_date", "visit_days"
STAYS = [1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 22, 31, 91]  # bins of days: each of the first week, in which most stays end
START = {
    VISIT: "visit_start_date",
    "condition_occurrence": "condition_start_date",
    "procedure_occurrence": "procedure_date",
    "drug_exposure": "drug_exposure_start_date",
    "measurement": "measurement_date",
}
CONCEPT = {
    "condition_occurrence": "condition_concept_id",
    "procedure_occurrence": "procedure_concept_id",
    "drug_exposure": "drug_concept_id",
    "measurement": "measurement_concept_id",
}
MALE, FEMALE = 8507, 8532
GENDERS = (FEMALE, MALE)
CODE_OF = {"Male": MALE, "Female": FEMALE}
# From OHDSI's DataQualityDashboard, plausibleGenderUseDescendants: only people of this gender have these concepts and those below them.
GENDERED = (
    ("condition_occurrence", "Male", (4090861, 4025213)),
    ("condition_occurrence", "Female", (4095793, 443343, 4024004, 4172857, 444094, 197810, 4158481)),
    ("procedure_occurrence", "Female", (4041261,)),
    ("procedure_occurrence", "Male", (4250917, 4077750, 4043199, 4040577)),
)
RACES = (8515, 8516, 8527, 8557, 8657)  # Asian, Black, White, Pacific Islander, American Indian
ETHNICITIES = (38003563, 38003564)  # Hispanic or Latino, or not
VISITS = (262, 9201, 9202, 9203, 581477, 42898160)  # ER and inpatient, inpatient, outpatient, ER, office, non-hospital
ONE_DAY = (9202, 581477)  # kinds of visits that seldom last overnight
OF_RECORD = 32817  # the type concept "EHR"
VERSION, VERSION_CONCEPT = "v5.4", 756265
AROUND_VISIT = 7  # days that a row may lie before or after its visit
LOCAL = 2_000_000_000  # concepts above it are a hospital's own
# A note of every schema of a CDM, for the statement.
NOTE = (
    "OMOP CDM: observation periods, and dates and other fields that this schema does not list, are not learned. In a CDM drawn from it a "
    "period lasts from a person's first date to the last, a row below a visit whose date is not listed has that on which the visit starts, "
    "and other fields are 0 (no matching concept) or empty"
)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a table. `type`: integer, float, date, datetime, or varchar with the most letters in brackets. `refers`: the table whose
    key it holds. `domain`, `concept_class`, `standard`: of the concept that it names; `zeros`: per cent of values that may be 0. `low`,
    `high`: plausible ends, also `tomorrow` and `next year`. `until`: the field that must not come before; `near`: what its date is
    compared with (birth, death, visit)."""

    table: str
    name: str
    type: str
    required: bool
    key: bool
    refers: str
    domain: str
    concept_class: str
    standard: bool
    zeros: float | None
    low: str
    high: str
    until: str
    near: tuple[str, ...]


@cache
def tables() -> Mapping[str, tuple[Field, ...]]:
    """The fields of each table, in the order of the model."""
    text = files("synthdp.omop").joinpath("cdm_5_4.csv").read_text(encoding="utf-8")
    found: dict[str, list[Field]] = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        told: dict[str, Any] = {
            **row,
            "name": row["field"],
            "concept_class": row["class"],
            "near": tuple(row["near"].split()),
        }
        told |= {name: row[name] == "yes" for name in ("required", "key", "standard")}
        told["zeros"] = float(row["zeros"]) if row["zeros"] else None
        made = Field(**{each.name: told[each.name] for each in fields(Field)})
        found.setdefault(made.table, []).append(made)
    return {name: tuple(each) for name, each in found.items()}


def field(table: str, name: str) -> Field | None:
    """The field of that name, or None."""
    return next((each for each in tables()[table] if each.name == name), None)


def key(table: str) -> str:
    """The field that names the rows of a table."""
    return next((each.name for each in tables()[table] if each.key), "person_id")


def noted(schema: Schema) -> Schema:
    """The schema with the note that its statement tells. Raises `BadInput` where it is not that of a CDM."""
    check(schema)
    return schema if NOTE in schema.notes else replace(schema, notes=(*schema.notes, NOTE))


OPEN_VISITS = (
    "every visit of a CDM needs a visit_end_date. Give open visits one in a view or a copy of the CDM, such as the day of the export; or "
    "fit with invalid=clamp, which counts their days as the lower bound"
)


def check(schema: Schema) -> None:
    """Raise `BadInput` for a schema that is not one of a CDM's tables, and name the table or the column."""
    names = [table.name for table in schema.tables]
    if names[:2] != [PERSON, VISIT] or not set(names[2:]) <= set(BELOW):
        raise BadInput(
            f"data.format=omop: the schema must describe the linked tables {PERSON}, {VISIT} below it, and below that any of "
            f"{', '.join(BELOW)}; synthdp schema data.format=omop drafts one"
        )
    for table in schema.tables:
        with about(f"table {table.name!r}"):
            _check_table(schema, table)
    for dated, name in ((PERSON, BIRTH), (PERSON, DEATH_DATE), (VISIT, START[VISIT])):
        days = [each for each in schema.columns if each.name == f"{dated}.{name}"]
        if days and (days[0].kind != "datetime" or getattr(days[0], "resolution", "day") != "day"):
            raise BadInput(f"table {dated!r}: column {name!r} must be a datetime of whole days")
    stay = schema.column(f"{VISIT}.{DAYS}")
    if stay.kind != "integer" or getattr(stay, "missing", False):
        raise BadInput(f"table {VISIT!r}: column {DAYS!r} must be an integer without missing cells: {OPEN_VISITS}")


def _check_table(schema: Schema, table: Table) -> None:
    made = {PERSON: (DEATH_DATE,), VISIT: (DAYS,)}.get(table.name, ())
    known = [each.name for each in tables()[table.name]]
    columns = learned_of(schema, table)
    if table.reading is not None:
        raise BadInput("a CDM is read and written as OMOP prescribes: leave reading out")
    if table.key not in (None, key(table.name)):
        raise BadInput(f"its key in the CDM is {key(table.name)!r}")
    if odd := [name for name in columns if name not in (*known, *made)]:
        raise BadInput(f"column {odd[0]!r} is no field of OMOP CDM 5.4; leave it out")
    if table.order not in (None, START[VISIT]):
        raise BadInput(f"order must be {START[VISIT]!r}, from which other dates are made")
    needed = {PERSON: ("gender_concept_id", BIRTH), VISIT: ("visit_concept_id", DAYS)}
    if lacking := [name for name in needed.get(table.name) or (CONCEPT[table.name],) if name not in columns]:
        raise BadInput(f"needs the column {lacking[0]!r}, without which no CDM can be written")
    for name, column in held(schema, table):
        hides = isinstance(column, Categorical) and column.categories == LEARN and name.endswith("_concept_id")
        if hides and not (getattr(column, "other", None) or "").isdecimal():
            raise BadInput(
                f"column {name!r}: what noise hides becomes the text 'other', which is not a concept: say other: 0"
            )
        told = field(table.name, name)
        if told is None:
            continue
        if table.below and column.kind != "ignore":
            if told.type == "datetime":
                raise BadInput(f"column {name!r} is derived from {name.replace('_datetime', '_date')!r}: list that")
            if told.type == "date" and getattr(column, "resolution", None) != "day":
                raise BadInput(f"column {name!r} must be a datetime with resolution: day")
        if told.required and getattr(column, "missing", False) and table.name in (PERSON, VISIT):
            raise BadInput(f"column {name!r} is required in the CDM, and cannot have missing: true")


def gendered(connection: Any) -> dict[tuple[str, str], set[int]]:
    """By table and gender, the concepts that only people of that gender have: those of `GENDERED`, and those below them by the view of
    `concept_ancestor`."""
    found = {}
    for table, gender, ancestors in GENDERED:
        rows = connection.execute(
            "SELECT DISTINCT CAST(descendant_concept_id AS BIGINT) FROM v_concept_ancestor WHERE CAST(ancestor_concept_id AS BIGINT) IN "
            f"({', '.join(map(str, ancestors))})"
        ).fetchall()
        found[table, gender] = {row[0] for row in rows} | set(ancestors)
    return found
