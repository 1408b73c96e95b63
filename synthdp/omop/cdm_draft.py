"""The draft of a schema by which a CDM is fitted: what is public of the model is filled in, what is a hospital's own is asked. No record
is read: of a CDM that is there only the names of its tables and fields."""

import csv
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.omop import cdm
from synthdp.omop.cdm_store import Cdm, duck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TODO = "TODO"
HEAD = """\
# DRAFT of a schema for a CDM of OMOP 5.4 (docs/omop.md): what may be known to everyone about it. No record was read.
# What the model itself says is filled in. Yours to answer is every line with a question: from a code book, a public report or a round
# number, never from the records. `learn` is bought with a part of the budget; what you declare instead costs nothing and is not protected.
#
# 1. Answer the questions, and replace every TODO.
# 2. Where a column is as you declare it, delete its line `review: true`.
# 3. Say in `declared_by` who stands for this. Until all is done, `synthdp fit` refuses this file.
"""
NAMES = {
    "condition_occurrence": "conditions",
    "procedure_occurrence": "procedures",
    "drug_exposure": "drugs",
    "measurement": "measurements",
}


def draft(where: str | None, lists: "Mapping[str, str] | None" = None) -> str:
    """The schema as YAML, of the tables that the CDM has; of all, where `where` is None. `lists`: for fields of concepts the file beside
    the schema that lists them (`concept_lists`)."""
    there = None if where is None else Cdm(where).fields()
    if there is not None and not {cdm.PERSON, cdm.VISIT} <= set(there):
        raise BadInput(f"{where}: has no tables person and visit_occurrence, to which everything else belongs")
    below = [name for name in cdm.BELOW if there is None or name in there]
    dead = there is None or cdm.DEATH in there
    lines = [HEAD.rstrip()]
    lines += [
        "name: omop",
        "declared_by:  # who answers for it, such as: A. Meier, data protection office, May 2026",
        "unit: person_id  # all rows of a person are protected together",
        "units: learn  # question: how many people, about, by a public source?",
        "targets: []  # question: which columns will be predicted? Such as visit_occurrence.visit_concept_id",
        "tables:",
        *_person(dead=dead),
        *_visits(),
    ]
    for name in below:
        lines += _below(name, (lists or {}).get(cdm.CONCEPT[name]))
    start = f"{cdm.VISIT}.{cdm.START[cdm.VISIT]}"
    lines.append("rules:  # kept by construction: nobody comes before birth or after death")
    lines.append(f"  - {start} >= {cdm.PERSON}.{cdm.BIRTH}")
    lines += [f"  - {start} <= {cdm.PERSON}.{cdm.DEATH_DATE}"] if dead else []
    return "\n".join(lines) + "\n"


def _person(*, dead: bool) -> Iterator[str]:
    this = date.today().year
    decades = ", ".join(f"{year}-01-01" for year in range(1920, this, 10))
    yield "  person:"
    yield "    key: person_id"
    yield "    columns:"
    yield f"      gender_concept_id: {{kind: categorical, categories: [{_listed(cdm.GENDERS)}, 0], other: 0}}  # 0: unknown"
    yield f"      {cdm.BIRTH}:  # of year, month and day of birth where it is empty"
    yield "        kind: datetime"
    yield f"        bounds: [1900-01-01, {this}-12-31]"
    yield f"        bins: [{decades}]"
    if dead:
        yield f"      {cdm.DEATH_DATE}:  # of the table death; missing: nobody knows that they died"
        yield "        kind: datetime"
        yield f"        bounds: {_years()}  # question: from which day to which? Or learn"
        yield "        bins: 10"
        yield "        missing: true"
        yield "        review: true"
    for name, codes in (("race_concept_id", cdm.RACES), ("ethnicity_concept_id", cdm.ETHNICITIES)):
        yield f"      {name}: {{kind: ignore}}  # or {{kind: categorical, categories: [{_listed(codes)}, 0], other: 0}}"


def _visits() -> Iterator[str]:
    yield f"  {cdm.VISIT}:"
    yield "    parent: person"
    yield "    key: visit_occurrence_id"
    yield f"    order: {cdm.START[cdm.VISIT]}"
    yield "    max_rows: 10  # question: how many visits of a person count? More of them need more noise"
    yield "    columns:"
    yield f"      {cdm.START[cdm.VISIT]}:"
    yield "        kind: datetime"
    yield f"        bounds: {_years()}  # question: from which day to which? Or learn"
    yield "        bins: 20"
    yield "        review: true"
    yield "      visit_concept_id:  # question: which kinds of visit are there?"
    yield "        kind: categorical"
    yield f"        categories: [{_listed(cdm.VISITS)}]"
    yield "        review: true"
    yield f"      {cdm.DAYS}:  # no field of the CDM: whole days from visit_start_date to visit_end_date"
    yield "        kind: integer"
    yield "        bounds: [0, 365]  # question: how long may a visit last?"
    yield "        bins: [1, 2, 3, 5, 8, 15, 31, 91]"
    yield "        review: true"


def _below(name: str, file: str | None) -> Iterator[str]:
    field = cdm.CONCEPT[name]
    yield f"  {name}:"
    yield f"    parent: {cdm.VISIT}"
    yield f"    max_rows: 3  # question: how many {NAMES[name]} of a visit count? At most 12"
    yield "    columns:"
    yield "      person_id: {kind: identifier}  # whose a row is, too"
    yield f"      {field}:"
    yield "        kind: categorical"
    if file is None:
        yield f"        categories: [{TODO}]  # question: which may occur? Numbers of concepts, or {{file: list.csv, column: concept_id}}"
    else:
        yield f"        categories: {{file: {file}, column: concept_id}}  # question: delete those from the file that do not occur"
    yield "        review: true"
    if name == "measurement":
        yield "      value_as_number: {kind: ignore}  # question: in which range? {kind: continuous, bounds: [0, 500], missing: true}"


def _years() -> str:
    """The ten whole years before this one: a range to correct."""
    this = date.today().year
    return f"[{this - 10}-01-01, {this - 1}-12-31]"


def _listed(codes: "Sequence[int]") -> str:
    return ", ".join(map(str, codes))


def check_apart(vocabulary: str, *records: str | None) -> None:
    """Refuse a vocabulary that is a CDM, or shares a file or a database with one of `records`: its table of concepts may hold what occurs
    there and nothing else."""
    lists = Cdm(vocabulary)
    of_records = [Cdm(each) for each in records if each is not None]
    if cdm.PERSON in lists.fields() or any(lists.shares(each) for each in of_records):
        raise BadInput(
            "data.vocabulary lies in the CDM itself, or is one: its table of concepts may hold just those that a patient has. Name a "
            "public version of the vocabulary, such as a folder that Athena gave you"
        )


def concept_lists(vocabulary: str, folder: Path) -> dict[str, str]:
    """Write a file of the standard and valid concepts of its domain for each field of concepts below visits, with the name of each; the
    files by field, relative to the schema beside `folder`. Concepts of a hospital's own (above `cdm.LOCAL`) are left out."""
    found = {}
    with duck() as connection:
        if "concept" not in Cdm(vocabulary).views(connection, {"concept": None}, "v_"):
            raise BadInput(f"{vocabulary}: has no table 'concept'")
        for name, field in cdm.CONCEPT.items():
            known = cdm.field(name, field)
            rows = connection.execute(
                "SELECT CAST(concept_id AS BIGINT) AS id, concept_name FROM v_concept WHERE domain_id = ? AND standard_concept = 'S' "
                f"AND coalesce(invalid_reason, '') = '' AND CAST(concept_id AS BIGINT) BETWEEN 1 AND {cdm.LOCAL} ORDER BY id",
                [known.domain if known else ""],
            ).fetchall()
            if rows:
                _write(folder / f"{field}.csv", rows)
                found[field] = f"{folder.name}/{field}.csv"
    return found


def _write(path: Path, rows: "Sequence[tuple[Any, ...]]") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["concept_id", "concept_name"])
        writer.writerows(rows)


def check_known(schema: Any, vocabulary: str) -> None:
    """Raise `BadInput` for a concept that a schema declares, that is not a hospital's own, and that the vocabulary does not have."""
    from synthdp.omop.cdm_tables import is_local

    declared: dict[str, str] = {}
    for column in schema.columns:
        codes = getattr(column, "categories", ())
        tree = getattr(column, "tree", None)
        codes = tree.codes if tree is not None and tree.codes else codes
        if "_concept_id" in column.name and not isinstance(codes, str):
            declared |= {code: column.name for code in codes if code != "0" and not is_local(code)}
    with duck() as connection:
        if "concept" not in Cdm(vocabulary).views(connection, {"concept": None}, "v_"):
            raise BadInput(f"{vocabulary}: has no table 'concept'")
        known = {row[0] for row in connection.execute("SELECT CAST(concept_id AS VARCHAR) FROM v_concept").fetchall()}
    lacking = [code for code in declared if code not in known]
    if lacking:
        raise BadInput(
            f"column {declared[lacking[0]]!r}: {len(lacking)} declared concepts are not in {vocabulary}, such as {lacking[0]}: "
            f"take them out, or name the version that has them. A hospital's own concepts are above {cdm.LOCAL:,}"
        )
