"""Linked tables that were drawn, written as a CDM: fresh ids, the types of its DDL, periods made of the visits, and everywhere that it is
synthetic: in `*_source_value`, in `cdm_source`, in the metadata of Parquet files and the comments of a database's tables."""

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
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
from synthdp.omop.cdm_store import DUCKDB
from synthdp.schema import cells
from synthdp.schema.history_view import DAY
from synthdp.schema.schema import Schema
from synthdp.tables import csvfile, database_url, source
from synthdp.tables.database_url import quoted

Frames = Mapping[str, pd.DataFrame]


# Concepts by their table and the gender of those who may have them.
Gendered = Mapping[tuple[str, int], Collection[int]]
SYNTHETIC = "synthetic"
SAID = f"{SYNTHETIC}: made by synthdp"  # how the comment of a table begins
MARKED = tuple(f"{name}_source_value" for name in ("person", "visit", "condition", "procedure", "drug", "measurement"))
README = "README.txt"
ARROW = {"integer": pa.int32(), "float": pa.float64(), "date": pa.date32(), "datetime": pa.timestamp("us")}
DDL = {"integer": "INTEGER", "float": "NUMERIC", "date": "DATE", "datetime": "TIMESTAMP"}
WRITTEN = (*cdm.RECORDS, "cdm_source")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a CDM says of itself: the guarantee in a line, the day on which it was drawn, and the version of the vocabulary."""

    name: str
    guarantee: str
    day: date
    vocabulary: str | None = None

    @property
    def sentence(self) -> str:
        return f"{SAID}, {self.guarantee}; no row is of a real person"


def check_target(out: str) -> None:
    """Raise `BadInput` for a name that is neither a folder, FOLDER/*.parquet or FOLDER/*.csv, nor a DuckDB file, nor a schema of
    PostgreSQL."""
    if is_server(out):
        return
    path, is_url = Path(out), re.match(r"[a-z]+:", out)
    if not is_url and (path.name in ("*.parquet", "*.csv") or path.suffix.lower() in DUCKDB or not path.suffix):
        return
    raise BadInput(
        f"out={out}: a CDM is written to a folder (out=FOLDER for CSV, out='FOLDER/*.parquet'), to a file of DuckDB (out=FILE.duckdb), or "
        "to a schema of PostgreSQL (out=URL#SCHEMA)"
    )


def is_server(out: str) -> bool:
    """Whether a name is that of a schema of PostgreSQL."""
    return re.match(r"postgres(ql)?://[^#]*#.+", out) is not None


def write(
    parts: Iterable[Frames], schema: Schema, out: str, told: Told, gendered: Gendered | None = None
) -> dict[str, int]:
    """Write the parts of linked tables, one after the other, as a CDM at `out` (`check_target`), whole or not at all; the number of rows of
    each table. Rows below visits whose concept belongs to people of another gender (`gendered`) are left out. Raises `BadInput` for
    a schema that is none of a CDM, and for a folder with other files, or a CDM that does not say that it is synthetic, in its place."""
    cdm.check(schema)
    rows = dict.fromkeys(WRITTEN, 0)
    with _writer(out, told) as add:
        of_cdm = _Parts(schema, gendered or {})
        for frames in parts:
            for name, table in of_cdm.tables(frames):
                add(name, table)
                rows[name] += len(table)
        about = _about(told)
        add("cdm_source", about)
        rows["cdm_source"] = len(about)
    return rows


@dataclass
class _Parts:
    """The rows of a CDM, part by part; `ids` are the last ones of each table."""

    schema: Schema
    gendered: Gendered
    ids: dict[str, int] = field(default_factory=dict)

    def fresh(self, table: str, count: int) -> Any:
        """So many ids that no row of the table has."""
        first = self.ids.get(table, 0) + 1
        self.ids[table] = first + count - 1
        return np.arange(first, first + count, dtype=np.int64)

    def tables(self, frames: Frames) -> Iterator[tuple[str, pa.Table]]:
        """Every table but `cdm_source`."""
        person, visit = frames[cdm.PERSON], frames[cdm.VISIT]
        people = self.fresh(cdm.PERSON, len(person))
        born, died = _day(person[cdm.BIRTH]), _day(person.get(cdm.DEATH_DATE, pd.Series(None, index=person.index)))
        died = np.where(np.isnat(died), died, np.maximum(born, died))
        yield cdm.PERSON, _made(cdm.PERSON, _learned(person) | _birth(born) | {"person_id": people}, len(person))
        dead = np.flatnonzero(~np.isnat(died))
        deaths = {"person_id": people[dead], "death_date": died[dead], "death_datetime": _midnight(died[dead])}
        yield cdm.DEATH, _made(cdm.DEATH, deaths, len(dead))
        whose = pd.Index(person["person_id"]).get_indexer(pd.Index(visit["person_id"]))
        start = _day(visit[cdm.START[cdm.VISIT]])
        end = start + visit[cdm.DAYS].to_numpy(np.int64).astype("timedelta64[D]")
        # A visit ends no later than life.
        end = np.where(np.isnat(died[whose]), end, np.maximum(start, np.minimum(end, died[whose])))
        visits = self.fresh(cdm.VISIT, len(visit))
        dates = {
            "visit_start_date": start,
            "visit_start_datetime": _midnight(start),
            "visit_end_date": end,
            "visit_end_datetime": _midnight(end),
        }
        ids = {"visit_occurrence_id": visits, "person_id": people[whose]}
        yield cdm.VISIT, _made(cdm.VISIT, _learned(visit) | dates | ids, len(visit))
        spans = [(whose, start, end)]
        index, gender = pd.Index(visit["visit_occurrence_id"]), person["gender_concept_id"].astype("int64").to_numpy()
        for name in cdm.BELOW:
            if name not in frames:
                yield name, _made(name, {}, 0)
                continue
            rows = frames[name]
            at = index.get_indexer(pd.Index(rows["visit_occurrence_id"]))
            kept = self._plausible(name, rows, gender[whose[at]])
            rows, at = rows[kept], at[kept]
            ids = {
                cdm.key(name): self.fresh(name, len(rows)),
                "person_id": people[whose[at]],
                "visit_occurrence_id": visits[at],
            }
            life = born[whose[at]], died[whose[at]]
            dates = _dates(name, rows, start[at], end[at], *life)
            spans += [(whose[at], each, each) for each in dates.values()]
            dates |= {each.replace("_date", "_datetime"): _midnight(days) for each, days in dates.items()}
            yield name, _made(name, _learned(rows) | dates | ids, len(rows))
        periods = self._periods(spans, born, died)
        ids = {"observation_period_id": self.fresh(cdm.PERIOD, len(person)), "person_id": people}
        yield cdm.PERIOD, _made(cdm.PERIOD, periods | ids, len(person))

    def _plausible(self, name: str, rows: pd.DataFrame, gender: Any) -> Any:
        """(rows,): whether a row's concept is none of another gender's."""
        kept = np.ones(len(rows), np.bool_)
        for (table, of), concepts in self.gendered.items():
            if table == name:
                kept &= (gender == of) | ~np.isin(rows[cdm.CONCEPT[name]].astype("int64").to_numpy(), list(concepts))
        return kept

    def _periods(self, spans: Sequence[tuple[Any, Any, Any]], born: Any, died: Any) -> dict[str, Any]:
        """From a person's first date to the last; who has none has the first day on which visits may start, within their life."""
        bounds: Any = getattr(self.schema.column(f"{cdm.VISIT}.{cdm.START[cdm.VISIT]}"), "bounds", None)
        least = np.datetime64(date.fromisoformat(str(bounds[0])[:10]), "D")
        first = np.full(len(born), np.datetime64(date.max, "D"))
        last = np.full(len(born), np.datetime64(date.min, "D"))
        for whose, start, end in spans:
            np.minimum.at(first, whose, np.where(np.isnat(start), np.datetime64(date.max, "D"), start))
            np.maximum.at(last, whose, np.where(np.isnat(end), np.datetime64(date.min, "D"), end))
        none = np.bincount(spans[0][0], minlength=len(born)) == 0
        alone = np.where(np.isnat(died), np.maximum(born, least), np.minimum(died, np.maximum(born, least)))
        return {
            "observation_period_start_date": np.where(none, alone, first),
            "observation_period_end_date": np.where(none, alone, last),
        }


def _learned(frame: pd.DataFrame) -> dict[str, Any]:
    return {name: frame[name].array for name in frame.columns if name not in (cdm.DEATH_DATE, cdm.DAYS)}


def _birth(born: Any) -> dict[str, Any]:
    months = born.astype("datetime64[M]")
    years = born.astype("datetime64[Y]").astype(np.int64) + 1970
    return {
        "year_of_birth": years,
        "month_of_birth": months.astype(np.int64) % 12 + 1,
        "day_of_birth": (born - months).astype(np.int64) + 1,
        cdm.BIRTH: _midnight(born),
    }


def _dates(name: str, rows: pd.DataFrame, start: Any, end: Any, born: Any, died: Any) -> dict[str, Any]:
    """The dates of rows below visits from `start` to `end` of people who live from `born` to `died`: those that were drawn, and where the
    model needs others the day on which the visit starts, or the row. None is before the row's first, or after death; the first one is
    within as many days of the visit as the dashboard allows."""
    first = cdm.START[name]
    begins = _day(rows[first]) if first in rows else start
    begins = np.where(np.isnat(begins), start, np.clip(begins, start - cdm.AROUND_VISIT, end + cdm.AROUND_VISIT))
    dead = ~np.isnat(died) & (died >= start)
    begins = np.maximum(np.where(dead, np.minimum(begins, died), begins), np.minimum(born, start))
    found = {first: begins}
    for each in cdm.tables()[name]:
        if each.type != "date" or each.name == first or not (each.required or each.name in rows):
            continue
        days = _day(rows[each.name]) if each.name in rows else begins
        days = np.where(np.isnat(days) & each.required, begins, days)
        found[each.name] = np.maximum(np.where(dead, np.minimum(days, died), days), begins)
    return found


def _day(series: "pd.Series[Any]") -> Any:
    """Dates as datetime64[D], NaT where there is none."""
    read = cells.instants(series)
    days = (read.cells // DAY).astype("datetime64[D]")
    return np.where(read.missing, np.datetime64("NaT", "D"), days)


def _midnight(days: Any) -> Any:
    return days.astype("datetime64[us]")


def _made(table: str, columns: Mapping[str, Any], rows: int) -> pa.Table:
    """A table of the model, of the columns that are known: type concepts say that rows are of health records, other required numbers are 0
    (no matching concept), everything else is empty."""
    made, types = [], _types(table)
    for each in cdm.tables()[table]:
        kind = types.field(each.name).type
        if each.name in columns:
            made.append(_array(columns[each.name], kind))
        elif each.name.endswith("_type_concept_id"):
            made.append(pa.array(np.full(rows, cdm.OF_RECORD), kind))
        elif each.name in MARKED:
            made.append(pa.array(np.full(rows, SYNTHETIC, dtype=object), kind))
        elif each.required and each.type == "integer":
            made.append(pa.array(np.zeros(rows, np.int64), kind))
        else:
            made.append(pa.nulls(rows, kind))
    return pa.table(made, schema=types)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    found = pa.array(values, from_pandas=True)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(found.type, pa.DictionaryType):
        found = found.cast(found.type.value_type)
    return found.cast(kind)


def _types(table: str) -> pa.Schema:
    return pa.schema([(each.name, ARROW.get(each.type, pa.string())) for each in cdm.tables()[table]])


def _about(told: Told) -> pa.Table:
    known = {
        "cdm_source_name": f"{SYNTHETIC} {told.name}"[:255],
        "cdm_source_abbreviation": SYNTHETIC,
        "cdm_holder": "synthdp",
        "source_description": f"{told.sentence}. {cdm.NOTE}.",
        "cdm_etl_reference": "synthdp",
        "source_release_date": told.day,
        "cdm_release_date": told.day,
        "cdm_version": cdm.VERSION,
        "cdm_version_concept_id": cdm.VERSION_CONCEPT,
        "vocabulary_version": (told.vocabulary or "unknown")[:20],
    }
    types = _types("cdm_source")
    return pa.table([pa.array([known.get(each.name)], each.type) for each in types], schema=types)


@contextmanager
def _writer(out: str, told: Told) -> Iterator[Any]:
    """A function that adds rows to a table."""
    if is_server(out):
        with _server(out, told) as add:
            yield add
        return
    path = Path(out)
    if path.suffix.lower() in DUCKDB:
        _check_replaced(path)
        with atomic.file(path) as part, _database(part, told) as add:
            yield add
        return
    folder, ending = source.folder_of(path)
    known = {README, *(f"{name}{each}" for name in WRITTEN for each in (".csv", ".parquet"))}
    if folder.is_dir() and (others := sorted(each.name for each in folder.iterdir() if each.name not in known)):
        raise BadInput(
            f"{folder}: holds {others[0]}, which is not a file of a CDM, so the folder is not replaced; choose another"
        )
    _check_replaced(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic.folder(folder) as part:
        with ExitStack() as stack:
            opened = {name: stack.enter_context(_file(part / f"{name}{ending}", name, told)) for name in WRITTEN}
            yield lambda name, table: opened[name].write_table(_harmless(table) if ending == ".csv" else table)
        text = f"This CDM is {told.sentence}.\n{cdm.NOTE}.\n\nSHA-256 of its files:\n{atomic.listed(part)}"
        (part / README).write_text(text, encoding="utf-8")


def _check_replaced(place: Path) -> None:
    """Refuse to write in the place of anything but a CDM that we wrote: it may be the hospital's own."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not (atomic.is_as_listed(place, README) if place.is_dir() else _is_synthetic(place)):
        raise BadInput(
            f"{place}: is not replaced, since it is not an unchanged synthetic CDM that synthdp wrote; choose another name"
        )


def _is_synthetic(path: Path) -> bool:
    """Whether a DuckDB file holds an unchanged synthetic CDM and nothing else."""
    source.check_installed()
    import duckdb

    with source.asking(), duckdb.connect(str(path), read_only=True) as connection:
        held = connection.execute("SELECT schema_name, table_name, comment FROM duckdb_tables()").fetchall()
        views = connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall()
        alone = {schema for schema, *_ in held} == {"main"} and views == [(0,)]
        return alone and _says_so(connection, "", {name: comment for _, name, comment in held})


def _file(path: Path, name: str, told: Told) -> Any:
    types = _types(name)
    if path.suffix == ".csv":
        return pacsv.CSVWriter(path, types, write_options=pacsv.WriteOptions(quoting_style="needed"))
    return pq.ParquetWriter(path, types.with_metadata({SYNTHETIC: told.sentence}), compression="zstd")


def _harmless(table: pa.Table) -> pa.Table:
    """Text that a spreadsheet would run is neutralised."""
    for place, each in enumerate(table.schema):
        if pa.types.is_string(each.type) and table.column(place).null_count < len(table):
            texts = table.column(place).to_pylist()
            table = table.set_column(
                place, each, pa.array([text and csvfile.neutral(text) for text in texts], each.type)
            )
    return table


@contextmanager
def _database(path: Path, told: Told) -> Iterator[Any]:
    source.check_installed()
    import duckdb

    with source.asking(), duckdb.connect(str(path)) as connection:
        for statement in _made_tables("", told):
            connection.execute(statement)

        def add(name: str, table: pa.Table) -> None:
            connection.register("part", table)
            connection.execute(f"INSERT INTO {name} SELECT * FROM part")
            connection.unregister("part")

        yield add


@contextmanager
def _server(out: str, told: Told) -> Iterator[Any]:
    """All tables in one transaction, which replaces those of a synthetic CDM."""
    url, _, schema = out.partition("#")
    prefix = f"{quoted(schema)}."
    with database_url.transaction(url) as connection:
        held = connection.execute(
            "SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'v', 'm', 'p', 'f')",
            (schema,),
        ).fetchall()
        if held and not _says_so(connection, prefix, dict(held)):
            raise BadInput(f"{out}: holds tables that are no unchanged synthetic CDM of synthdp, and are not replaced")
        for name, _ in held:
            connection.execute(f"DROP TABLE {prefix}{quoted(name)}")
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall():
            connection.execute(f"CREATE SCHEMA {quoted(schema)}")
        for statement in _made_tables(prefix, told):
            connection.execute(statement)

        def add(name: str, table: pa.Table) -> None:
            held = io.BytesIO()
            pacsv.write_csv(table, held, pacsv.WriteOptions(include_header=False))
            with connection.cursor().copy(f"COPY {prefix}{name} FROM STDIN (FORMAT csv)") as copied:
                copied.write(held.getvalue())

        yield add


def _says_so(connection: Any, prefix: str, held: Mapping[str, str | None]) -> bool:
    """Whether the tables of a database, with their comments, are ours, and every row that can say so is synthetic."""
    if set(held) != set(WRITTEN) or not all(str(said).startswith(SAID) for said in held.values()):
        return False
    queries = (
        f"SELECT count(*) FROM {prefix}{name} WHERE {mark} IS DISTINCT FROM '{SYNTHETIC}'" for name, mark in _marks()
    )
    return not any(connection.execute(query).fetchone()[0] for query in queries)


def _made_tables(prefix: str, told: Told) -> Iterator[str]:
    """Statements that make every table, with a comment that it is synthetic."""
    for name in WRITTEN:
        columns = [
            f"{each.name} {DDL.get(each.type, each.type.upper())}{' NOT NULL' if each.required else ''}"
            for each in cdm.tables()[name]
        ]
        yield f"CREATE TABLE {prefix}{name} ({', '.join(columns)})"
        said = told.sentence.replace("'", "''")
        yield f"COMMENT ON TABLE {prefix}{name} IS '{said}'"


def _marks() -> list[tuple[str, str]]:
    """Tables, and their fields in which every row says that it is synthetic."""
    found = [("cdm_source", "cdm_source_abbreviation")]
    return found + [(name, each.name) for name in cdm.RECORDS for each in cdm.tables()[name] if each.name in MARKED]
