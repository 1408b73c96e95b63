"""A CDM as linked tables, and in two parts: people held out, and people to fit."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from synthdp.errors import BadInput
from synthdp.files import atomic
from synthdp.omop import cdm
from synthdp.omop.cdm_store import Cdm
from synthdp.schema import cells
from synthdp.schema.check import MISSING, OUTSIDE
from synthdp.schema.columns import Categorical, Numeric
from synthdp.schema.history_view import DAY
from synthdp.schema.linked_tables import Table, held, keys_of, learned_of
from synthdp.schema.schema import Schema
from synthdp.schema.table_review import Finding, left_out

Frames = Mapping[str, pd.DataFrame]


KEYS = ("person_id", "visit_occurrence_id")  # of which nearly every row has another one
BORN = ("birth_datetime", "year_of_birth", "month_of_birth", "day_of_birth")


def read(where: str, schema: Schema) -> dict[str, pd.DataFrame]:
    """The tables of a CDM that a schema describes, as linked ones: a frame for each by its name, of the schema's columns, as text but for
    `visit_days`. All are of one moment. Of several deaths of a person the first one counts; a month or a day of birth that is empty is
    the first one. Raises `BadInput` where a table or a field is not there."""
    cdm.check(schema)
    wanted = {table.name: _fields(schema, table) for table in schema.tables}
    if f"{cdm.PERSON}.{cdm.DEATH_DATE}" in schema.names:
        wanted[cdm.DEATH] = ("person_id", cdm.DEATH_DATE)
    frames = {name: framed(table, KEYS) for name, table in Cdm(where).each(wanted)}
    for name, fields in wanted.items():
        if name not in frames:
            remedy = "name the schema of a database after #, and see that you may read it"
            if name not in (cdm.PERSON, cdm.VISIT):
                remedy = "take it out of the schema"
            raise BadInput(f"{where}: has no readable table {name!r}, which the schema describes: {remedy}")
        optional = BORN if name == cdm.PERSON else ()
        lacking = [each for each in fields if each not in frames[name] and each not in optional]
        if lacking:
            raise BadInput(f"{where}: table {name!r} has no field {lacking[0]!r}, which the schema describes")
    person = frames[cdm.PERSON]
    person[cdm.BIRTH] = _births(person, where)
    if cdm.DEATH in frames:
        death = frames.pop(cdm.DEATH)
        days = death[cdm.DEATH_DATE].astype("string").str.slice(0, 10)
        person[cdm.DEATH_DATE] = person["person_id"].map(days.groupby(death["person_id"]).min()).astype("category")
    visits = frames[cdm.VISIT]
    visits[cdm.DAYS] = days_between(visits[cdm.START[cdm.VISIT]], visits["visit_end_date"])
    for table in schema.tables:
        for name, column in held(schema, table):
            if isinstance(column, Numeric) and column.kind != "datetime" and name != cdm.DAYS:
                frames[table.name][name] = numbers(frames[table.name][name])
    return {table.name: frames[table.name][columns_of(schema, table)] for table in schema.tables}


def columns_of(schema: Schema, table: Table) -> list[str]:
    """The keys of a table, and its columns that are learned."""
    return [*keys_of(schema, table), *learned_of(schema, table)]


def _fields(schema: Schema, table: Table) -> tuple[str, ...]:
    """The fields of the CDM that a table's columns are made of."""
    names = [name for name in columns_of(schema, table) if name not in (cdm.DEATH_DATE, cdm.DAYS)]
    extra = {cdm.PERSON: BORN, cdm.VISIT: (cdm.START[cdm.VISIT], "visit_end_date")}.get(table.name, ())
    return tuple(dict.fromkeys((*names, *extra)))


def framed(table: pa.Table, keys: Collection[str]) -> pd.DataFrame:
    """Keys as text, and other texts as categories, which hold each text once; missing where a cell is blank."""
    texts: Any = pd.StringDtype(na_value=np.nan)
    columns = {name: table.column(name) for name in table.column_names}
    return pd.DataFrame(
        {name: texts.__from_arrow__(each) if name in keys else _categories(each) for name, each in columns.items()}
    )


def _categories(texts: pa.ChunkedArray) -> pd.Categorical:
    coded = texts.combine_chunks().dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return pd.Categorical.from_codes(codes, pd.Index(coded.dictionary.to_pylist(), dtype=object))


def _births(person: pd.DataFrame, where: str) -> Any:
    """Dates of birth as text, of whole days."""
    if cdm.BIRTH not in person and "year_of_birth" not in person:
        raise BadInput(f"{where}: table 'person' has neither birth_datetime nor year_of_birth; one is needed")
    nothing = pd.Series(None, index=person.index, dtype=object)
    year, month, day = (person.get(name, nothing).astype("string") for name in BORN[1:])
    made = year.str.zfill(4) + "-" + month.fillna("1").str.zfill(2) + "-" + day.fillna("1").str.zfill(2)
    given = person.get(cdm.BIRTH, nothing).astype("string").str.slice(0, 10)
    return given.fillna(made).astype("category")


def numbers(texts: Any, *, strict: bool = True) -> Any:
    """Text as numbers; what is none stays text, for the check to tell, or (not `strict`) is missing. Floats in any case: with whole
    numbers pandas would round the cells of some people where another one's is missing."""
    texts = texts.astype(object)
    found = pd.to_numeric(texts, errors="coerce").astype("float64")
    return (
        found if not strict or found.notna().equals(texts.notna()) else found.astype(object).where(found.notna(), texts)
    )


def days_between(start: Any, end: Any) -> Any:
    """Whole days from the first date to the second; missing where one of them is none."""
    first, last = cells.instants(start), cells.instants(end)
    gone = first.missing | first.wrong | last.missing | last.wrong
    return pd.Series(last.cells // DAY - first.cells // DAY, dtype="Int64").mask(gone)


def reworded(found: list[Finding]) -> list[Finding]:
    """The findings of a review, with a remedy that a CDM allows for visits that have no end, and for those that end before they start."""
    days, other = f"{cdm.VISIT}.{cdm.DAYS}", f"some values are {MISSING}"
    open_, outside = "some visits have no end", f"some values are {OUTSIDE}"
    return [
        replace(each, what=open_, remedy=cdm.OPEN_VISITS)
        if each.column == days and each.what == other
        else replace(each, remedy=f"{each.remedy}. A visit that ends before it starts has a negative number of days")
        if each.column == days and each.what.startswith(outside)
        else each
        for each in found
    ]


def findings(where: str, schema: Schema, frames: Frames) -> list[Finding]:
    """What the review of linked tables does not say of a CDM: concepts of the hospital's own, and tables that are left out."""
    found: list[Finding] = []
    for table in schema.tables:
        for name, column in held(schema, table):
            if isinstance(column, Categorical) and name.endswith("_concept_id"):
                found += _local(f"{table.name}.{name}", column, frames[table.name][name])
    return found + left_out(
        set(Cdm(where).fields()) - {table.name for table in schema.tables} - {cdm.DEATH, *NOT_LEARNED}
    )


NOT_LEARNED = (cdm.PERIOD, "cdm_source")  # made anew


def _local(name: str, column: Categorical, series: Any) -> Iterator[Finding]:
    declared = column.categories if column.tree is None else (column.tree.codes or ())
    known = set() if isinstance(declared, str) else set(declared)
    values = series.dropna().astype(object)
    own = values[values.map(is_local).astype(bool) & ~values.isin(known)]
    if len(own):
        yield Finding(
            column=name,
            what=f"some concepts are the hospital's own (above {cdm.LOCAL:,}) and are not declared",
            remedy="add those to its categories that everyone may know, or map them to standard concepts",
            count=len(own),
        )


def is_local(concept: Any) -> bool:
    """Whether a concept's number, also as text, is a hospital's own."""
    text = str(concept)
    return text.isascii() and text.isdecimal() and int(text) > cdm.LOCAL


def split(where: str, held_out: Callable[[str], bool], targets: tuple[Path, Path]) -> None:
    """Write the people of a CDM who are not held out into the first folder, and those who are into the second, all their rows with them;
    rows that name nobody into the first. All fields of `cdm.RECORDS` are kept, as text in Parquet files of a database."""
    store = Cdm(where)
    tables = store.texts(dict.fromkeys(cdm.RECORDS))
    if cdm.PERSON not in tables:
        raise BadInput(f"{where}: has no table 'person'")
    sides: dict[str | None, bool] = {None: False}
    for name, table in tables.items():
        if "person_id" not in table.column_names:
            raise BadInput(f"{where}: table {name!r} has no field 'person_id', so nobody knows whose its rows are")
        for each in table.column("person_id").unique().to_pylist():
            sides.setdefault(each, each is not None and held_out(each))
    for place, target in enumerate(targets):
        with atomic.folder(target) as part:
            for name, table in tables.items():
                out = np.array([sides[each] for each in table.column("person_id").to_pylist()], np.bool_)
                rows = table.filter(pa.array(out if place else ~out))
                file = part / f"{name}{store.ending}"
                pacsv.write_csv(rows, file) if store.ending == ".csv" else pq.write_table(rows, file)
