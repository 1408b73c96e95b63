"""The draft of a schema for a CDM: what is public about the model is filled in, and what is particular to a hospital is asked. No record is
read, and of a CDM that is there only the names of its tables and fields."""

import csv
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.omop import cdm, cdm_store
from synthdp.omop.cdm_store import Cdm, duck
from synthdp.omop.cdm_tables import is_local
from synthdp.schema.columns import TODO

RANKS = 4
ONLY = {"Female": "only_women", "Male": "only_men"}  # columns of a list: the concepts that only they have
# A row of a list that is no tree, so that concepts that are not on the list may become 0.
UNMAPPED = (0, "No matching concept", None)
# The concepts of the table `listed`, their names, and which lies above each.
ABOVE = f"""
WITH pairs AS (
  SELECT DISTINCT CAST(ancestor_concept_id AS BIGINT) AS above, CAST(descendant_concept_id AS BIGINT) AS below FROM v_concept_ancestor
  WHERE above <> below AND above IN (SELECT id FROM listed) AND below IN (SELECT id FROM listed)
), sizes AS (
  SELECT id, count(below) + 1 AS size FROM listed LEFT JOIN pairs ON above = id GROUP BY id
), ranks AS (
  SELECT id, size, ceil(ln(size) / greatest(ln(2), ln(max(size) OVER ()) / {RANKS}) - 1e-9) AS rank FROM sizes
), parents AS (
  SELECT below, above FROM pairs JOIN ranks AS lower ON lower.id = below JOIN ranks AS upper ON upper.id = above
  WHERE upper.rank > lower.rank QUALIFY row_number() OVER (PARTITION BY below ORDER BY upper.size, above) = 1
)
SELECT id, name, above FROM listed LEFT JOIN parents ON below = id ORDER BY id
"""
HEAD = """\
# DRAFT of a schema for a CDM of OMOP 5.4 (docs/omop.md): what may be known to everyone about it. No record was read.
# What the model itself says is filled in. Answer every line with a question from a code book, a public report or a round
# number, never from the records. `learn` is bought with a part of the budget; what you declare instead costs nothing and is not protected.
#
# 1. Answer the questions, and replace every TODO.
# 2. Once a column is right, delete its line `review: true`.
# 3. Say in `declared_by` who vouches for this. Until all is done, `synthdp fit` refuses this file.
"""
NAMES = {
    "condition_occurrence": "conditions",
    "procedure_occurrence": "procedures",
    "drug_exposure": "drugs",
    "measurement": "measurements",
}


@dataclass(frozen=True)
class Listed:
    """A list of concepts in a file whose name is relative to the schema. `rolls_up`: it says which concepts lie above others. `number`: how
    many it has. `genders`: some of them only people of this gender have."""

    file: str
    rolls_up: bool
    number: int
    genders: tuple[str, ...] = ()


def draft(where: str | None, lists: Mapping[str, Listed] | None = None, version: str | None = None) -> str:
    """The schema as YAML, of the tables that the CDM has; of all, where `where` is None. `lists`: for fields of concepts those that lie
    beside the schema (`concept_lists`), and the `version` of the vocabulary that they are from."""
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
        *(
            []
            if version is None
            else [f"notes: [{json.dumps(f'OMOP CDM: concepts are from the vocabularies, version {version}')}]"]
        ),
        "tables:",
        *_person(dead=dead),
        *_visits(),
    ]
    for name in below:
        lines += _below(name, (lists or {}).get(cdm.CONCEPT[name]))
    start = f"{cdm.VISIT}.{cdm.START[cdm.VISIT]}"
    orders: list[str] = []
    for name in below:
        first, last = _dates(name)
        orders += [f"{name}.{first} >= {start}", *([f"{name}.{last} >= {name}.{first}"] if last else [])]
    lines.append("rules:  # kept by construction: nobody comes before birth or after death")
    lines.append(f"  - {start} >= {cdm.PERSON}.{cdm.BIRTH}")
    lines += [f"  - {start} <= {cdm.PERSON}.{cdm.DEATH_DATE}"] if dead else []
    lines += _of_genders(below, lists or {})
    kinds = f"{{{cdm.VISIT}.visit_concept_id: [{', '.join(map(str, cdm.ONE_DAY))}]}}"
    lines.append(
        "  # question: do visits of these kinds always end on the day on which they start? Noise makes stays of rare ones"
    )
    lines.append(f"  # - {{if: {kinds}, then: {{{cdm.VISIT}.{cdm.DAYS}: '< 1'}}}}")
    lines.append("  # and, where dates below visits are learned:")
    lines += [f"  # - {each}" for each in orders]
    return "\n".join(lines) + "\n"


def _of_genders(below: Sequence[str], lists: Mapping[str, Listed]) -> Iterator[str]:
    """Rules: only women have some of the listed concepts, only men others."""
    listed = [(name, lists[cdm.CONCEPT[name]]) for name in below if cdm.CONCEPT[name] in lists]
    if any(each.genders for _, each in listed):
        yield "  # question: do these hold in your hospital? They are from OHDSI's DataQualityDashboard"
    for name, each in listed:
        for gender in each.genders:
            concepts = f"{{{name}.{cdm.CONCEPT[name]}: {{file: {each.file}, column: {ONLY[gender]}}}}}"
            yield f"  - {{if: {concepts}, then: {{{cdm.PERSON}.gender_concept_id: {cdm.CODE_OF[gender]}}}}}"


def _person(*, dead: bool) -> Iterator[str]:
    this = date.today().year
    # Every decade from the first on: numbers are drawn evenly within a bin, so a wide first one would make up people of 110.
    decades = ", ".join(f"{year}-01-01" for year in range(1910, this, 10))
    yield "  person:"
    yield "    key: person_id"
    yield "    columns:"
    yield f"      gender_concept_id: {{kind: categorical, categories: [{_listed(cdm.GENDERS)}, 0], other: 0}}  # 0: unknown"
    yield f"      {cdm.BIRTH}:  # of year, month and day of birth where it is empty"
    yield "        kind: datetime"
    yield f"        bounds: [1900-01-01, {this}-12-31]  # question: how old may anybody be? Noise puts a few people in every bin"
    yield f"        bins: [{decades}]"
    if dead:
        yield f"      {cdm.DEATH_DATE}:  # of the table death; missing: nobody knows that they died"
        yield "        kind: datetime"
        yield f"        bounds: {_years()}  # question: from which day to which? Or learn, if hundreds die each month"
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
    yield "    max_rows: 10  # question: how many visits of a person count? The more count, the less each weighs"
    yield "    columns:"
    yield f"      {cdm.START[cdm.VISIT]}:"
    yield "        kind: datetime"
    yield f"        bounds: {_years()}  # question: from which day to which? Or learn, if thousands come each month"
    yield "        bins: 20"
    yield "        review: true"
    yield "      visit_concept_id:  # question: which kinds of visit are there?"
    yield "        kind: categorical"
    yield f"        categories: [{_listed(cdm.VISITS)}]"
    yield "        # other: 0  # if 0 (no matching concept) is listed, every kind that is not listed becomes 0"
    yield "        review: true"
    yield f"      {cdm.DAYS}:  # no field of the CDM: whole days from visit_start_date to visit_end_date"
    yield "        kind: integer"
    yield "        bounds: [0, 365]  # question: how long may a visit last?"
    yield f"        bins: {cdm.STAYS}"
    yield "        review: true"


def _below(name: str, listed: Listed | None) -> Iterator[str]:
    field = cdm.CONCEPT[name]
    yield f"  {name}:"
    yield f"    parent: {cdm.VISIT}"
    yield f"    max_rows: 3  # question: how many {NAMES[name]} of a visit count? At most 12"
    yield "    columns:"
    yield "      person_id: {kind: identifier}  # the person's key"
    yield f"      {field}:"
    yield "        kind: categorical"
    if listed is None:
        yield f"        categories: [{TODO}]  # question: which may occur? {{file: list.csv, column: concept_id}}, or numbers of concepts"
        yield "        # other: 0  # if 0 (no matching concept) is listed, every concept that is not listed becomes 0"
    else:
        yield f"        categories: {{file: {listed.file}, column: concept_id}}  # question: delete those from the file that do not occur"
        if listed.rolls_up:
            yield f"        tree: {{file: {listed.file}, column: concept_id, parent: parent}}  # a rare one becomes one above it"
            yield "        other: 0  # what noise hides altogether, and what is not listed: no matching concept"
        else:
            yield "        other: 0  # what is not listed: no matching concept; keep 0 in the file"
    yield "        review: true"
    for each in filter(None, _dates(name)):
        yield f"      {each}: {{kind: ignore}}  # question: to be learned? {{kind: datetime, resolution: day, bounds: {_years()}}}"
    if name == "measurement":
        yield "      value_as_number: {kind: ignore}  # question: in which range? {kind: continuous, bounds: [0, 500], missing: true}"


def _dates(name: str) -> tuple[str, str]:
    """The date of a row below visits, and that of its end, or nothing."""
    found = cdm.field(name, cdm.START[name])
    return cdm.START[name], "" if found is None else found.until


def _years() -> str:
    """The ten whole years before this one: a range to correct."""
    this = date.today().year
    return f"[{this - 10}-01-01, {this - 1}-12-31]"


def _listed(codes: Sequence[int]) -> str:
    return ", ".join(map(str, codes))


def check_apart(vocabulary: str, *records: str | None) -> None:
    """Refuse a vocabulary that is a CDM, or shares a file or a database with one of `records`: its table of concepts may hold what occurs
    there and nothing else."""
    lists = Cdm(vocabulary)
    of_records = [Cdm(each) for each in records if each is not None]
    shown = [name for name in ("concept", "concept_ancestor", "vocabulary") if lists.shows(name)]
    if shown:
        raise BadInput(f"data.vocabulary: {shown[0]} is a view, which may show what lies in the CDM: name a table")
    if cdm.PERSON in lists.fields() or any(lists.shares(each) for each in of_records):
        raise BadInput(
            "data.vocabulary lies in the CDM itself, or is one: its table of concepts may hold just those that a patient has. Name a "
            "public version of the vocabulary, such as a folder that Athena gave you"
        )


def version_of(vocabulary: str) -> str | None:
    """Which version a vocabulary says that it is, in the row None of its table `vocabulary`; None where it does not say."""
    with duck() as connection:
        there = Cdm(vocabulary).views(connection, {"vocabulary": None}, "v_").get("vocabulary", ())
        if not {"vocabulary_id", "vocabulary_version"} <= set(there):
            return None
        found = connection.execute(
            "SELECT CAST(vocabulary_version AS VARCHAR) FROM v_vocabulary WHERE vocabulary_id = 'None'"
        ).fetchall()
        return found[0][0] if found else None


def concept_lists(vocabulary: str, folder: Path) -> dict[str, Listed]:
    """Write a file of the standard and valid concepts of its domain for each field of concepts below visits, with the name of each, the
    one above it, and columns of those that only women or only men have. Returns the files by field. Concepts of a hospital's own (above
    `cdm.LOCAL`) are left out. Where none lies above another, 0 is on the list.

    `concept_ancestor` is no tree, and too deep for one. Concepts are of so many ranks, `RANKS` at most besides the lowest, by how many
    others lie below them on a scale of powers; above a concept lies, of its ancestors of a higher rank, the one with the fewest below it.
    """
    found = {}
    with cdm_store.vocabulary(vocabulary, "concept", "concept_ancestor") as (connection, there):
        gendered = cdm.gendered(connection) if "concept_ancestor" in there else {}
        for name, field in cdm.CONCEPT.items():
            known = cdm.field(name, field)
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE listed AS SELECT CAST(concept_id AS BIGINT) AS id, concept_name AS name FROM v_concept WHERE "
                "domain_id = ? AND standard_concept = 'S' AND coalesce(invalid_reason, '') = '' AND CAST(concept_id AS BIGINT) BETWEEN 1 "
                f"AND {cdm.LOCAL}",
                [known.domain if known else ""],
            )
            if "concept_ancestor" in there:
                rows = connection.execute(ABOVE).fetchall()
            else:
                rows = connection.execute("SELECT id, name, NULL FROM listed ORDER BY id").fetchall()
            if rows:
                rolls_up = any(row[2] is not None for row in rows)
                own = {gender: those for (table, gender), those in gendered.items() if table == name}
                only = {gender: those for gender, those in own.items() if not those.isdisjoint(row[0] for row in rows)}
                _write(folder / f"{field}.csv", rows if rolls_up else [UNMAPPED, *rows], only)
                found[field] = Listed(f"{folder.name}/{field}.csv", rolls_up, len(rows), tuple(only))
    return found


def _write(path: Path, rows: Sequence[tuple[Any, ...]], only: Mapping[str, Collection[int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["concept_id", "concept_name", "parent", *(ONLY[gender] for gender in only)])
        writer.writerows((*row, *(row[0] if row[0] in those else None for those in only.values())) for row in rows)


def check_known(schema: Any, vocabulary: str) -> None:
    """Raise `BadInput` for a concept that a schema declares, that is not a hospital's own, and that the vocabulary does not have."""
    declared: dict[str, str] = {}
    for column in schema.columns:
        codes = getattr(column, "categories", ())
        tree = getattr(column, "tree", None)
        codes = tree.codes if tree is not None and tree.codes else codes
        if "_concept_id" in column.name and not isinstance(codes, str):
            declared |= {code: column.name for code in codes if code != "0" and not is_local(code)}
    with cdm_store.vocabulary(vocabulary, "concept") as (connection, _):
        known = {row[0] for row in connection.execute("SELECT CAST(concept_id AS VARCHAR) FROM v_concept").fetchall()}
    lacking = [code for code in declared if code not in known]
    if lacking:
        raise BadInput(
            f"column {declared[lacking[0]]!r}: {len(lacking)} declared concepts are not in {vocabulary}, such as {lacking[0]}: "
            f"take them out, or name the version that has them. A hospital's own concepts are above {cdm.LOCAL:,}"
        )
