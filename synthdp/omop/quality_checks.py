"""A CDM checked by the names, the rules and the thresholds of OHDSI's DataQualityDashboard, in SQL.

Every check counts the rows that break a rule, and fails where they are a larger share of the rows that it applies to than its threshold.
One that needs a vocabulary (`concept`, `concept_ancestor`), or a table that is not there, is not run, which is no pass. One without a row
to apply to is empty. DuckDB copies each table of a folder or a DuckDB file, without its free text. A CDM in PostgreSQL is checked there:
numbers of rows leave the server, and how many rows each concept has, which is looked up in the vocabulary here.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Literal

import pyarrow as pa

from synthdp.errors import BadInput
from synthdp.omop import cdm, cdm_store
from synthdp.omop.cdm_store import Cdm, Stored, duck

NAMES = (
    "cdmTable", "cdmField", "cdmDatatype", "isRequired", "isPrimaryKey", "isForeignKey", "fkDomain", "fkClass", "isStandardValidConcept",
    "standardConceptRecordCompleteness", "plausibleValueLow", "plausibleValueHigh", "plausibleAfterBirth", "plausibleBeforeDeath",
    "plausibleStartBeforeEnd", "plausibleGenderUseDescendants", "withinVisitDates", "measureObservationPeriodOverlap",
    "measurePersonCompleteness",
)  # fmt: skip
Status = Literal["passed", "failed", "not run", "empty"]
CHECKED = (*cdm.RECORDS, "drug_era", "cdm_source")
OPTIONAL = ("drug_era",)
WITHOUT = {cdm.PERIOD: 0.0, cdm.DEATH: 100.0}  # per cent of people who may have no row; of other tables 95
# Per cent of rows that may fail: implausible values; implausible dates; dates outside the visit; genders.
RARE, NEAR, OF_VISIT, GENDER = 1.0, 1.0, 5.0, 2.0
STRICT = (cdm.PERIOD, "cdm_source")  # where no start may come after its end
AFTER_DEATH = 60  # days
LEAST, MOST, LONG = -(2**63), 2**63 - 1, 1_000  # whole numbers that are read from text, and their letters
FIRST, LAST = "DATE '0001-01-01'", "DATE '9999-12-31'"  # so that days can be added to a date
TYPES = {"integer": "BIGINT", "float": "DOUBLE", "date": "DATE", "datetime": "TIMESTAMP"}
# PostgreSQL: types that need no look at the cells, forms of texts that can be cast, and to what.
STORED = {
    "integer": ("smallint", "integer", "bigint"),
    "float": ("smallint", "integer", "bigint", "numeric", "real", "double precision"),
    "date": ("date", "timestamp without time zone", "timestamp with time zone"),
    "datetime": ("date", "timestamp without time zone", "timestamp with time zone"),
}
OF_SERVER = {"integer": "BIGINT", "float": "DOUBLE PRECISION", "date": "DATE", "datetime": "TIMESTAMP"}
MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?)?"
SERVER_FORMS = {
    "integer": r"[+-]?[0-9]+(\.0*)?",
    "float": r"[+-]?(([0-9]{1,200}\.?[0-9]{0,200}|\.[0-9]{1,200})([eE][+-]?[0-9]{1,2})?|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])",
    "date": MOMENT,
    "datetime": MOMENT,
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check of a table, or of a field: how many rows it applies to, how many of them break it, and why it was not run."""

    name: str
    table: str
    field: str = ""
    status: Status
    violated: int = 0
    rows: int = 0
    why: str = ""

    @property
    def where(self) -> str:
        """The field with its table, or the table."""
        return f"{self.table}.{self.field}" if self.field else self.table

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value != ""}


def checked(where: str, vocabulary: str | None = None, memory: str = "2GiB") -> list[Check]:
    """Every check of a CDM, in the order of `NAMES`. `vocabulary`: where the tables concept and concept_ancestor lie, as a CDM does. Raises
    `BadInput` where something cannot be read, or DuckDB is not installed."""
    store, wanted = Cdm(where), {name: _needed(name) for name in CHECKED}
    with duck(memory) as connection, ExitStack() as opened:
        concepts: dict[str, tuple[str, ...]] = {}
        if vocabulary is not None:
            concepts = Cdm(vocabulary).views(connection, {"concept": None, "concept_ancestor": None}, "v_")
        if store.is_server:
            ask, stored = opened.enter_context(store.server())
            engine: _Local | _Server = _Server(ask, {name: stored[name] for name in wanted if name in stored})
        else:
            engine = _Local(connection, store.views(connection, wanted, "raw_"))
        if not engine.there:
            raise BadInput(
                f"{where}: holds no table of a CDM that can be read; name the schema of a database after #, and see that you may read it"
            )
        found = list(_Checking(engine, connection, tuple(concepts)).run())
    return sorted(found, key=lambda check: NAMES.index(check.name))


def gendered(vocabulary: str) -> dict[tuple[str, int], set[int]]:
    """Concepts by the field's table and the gender of those who may have them, by `cdm.GENDERED` and the vocabulary's ancestors. Raises
    `BadInput` for a vocabulary without concept_ancestor."""
    with cdm_store.vocabulary(vocabulary, "concept_ancestor") as (connection, _):
        return {(table, cdm.CODE_OF[gender]): those for (table, gender), those in cdm.gendered(connection).items()}


def _needed(name: str) -> Sequence[str]:
    return [field.name for field in cdm.tables()[name]]


@dataclass
class _Local:
    """Tables in a DuckDB of our own, behind views raw_*; what is made of them is kept there."""

    connection: Any
    there: dict[str, tuple[str, ...]]  # tables, and their fields

    def make(self, name: str, query: str) -> None:
        """What the query gives, as a table of that name."""
        self.connection.execute(f"CREATE TABLE {name} AS {query}")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        found: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return found

    def typed(self, field: cdm.Field) -> tuple[str, str]:
        """A field's cell with the model's type, empty where it is not of that, and whether it is not; "" where none can be."""
        text = f"nullif(trim(CAST({field.name} AS VARCHAR)), '')"
        kind = TYPES.get(field.type)
        if field.type == "integer":
            fits = rf"regexp_full_match({text}, '\s*{SERVER_FORMS['integer']}\s*')"
            value = f"CASE WHEN {fits} THEN TRY_CAST({text} AS BIGINT) END"
            return value, f"{text} IS NOT NULL AND {value} IS NULL"
        if kind is not None:
            return f"TRY_CAST({text} AS {kind})", f"{text} IS NOT NULL AND TRY_CAST({text} AS {kind}) IS NULL"
        return _text(field, text)


class _Server:
    """Tables of PostgreSQL. Nothing is written there: what is made of them is a part of each query."""

    def __init__(self, ask: Callable[[str], list[tuple[Any, ...]]], stored: Mapping[str, Stored]) -> None:
        self._ask, self._stored = ask, stored
        self.there = {name: tuple(table.fields) for name, table in stored.items()}
        self._made: dict[str, str] = {}
        for name, table in stored.items():
            chosen = [f"{written} AS {each}" for each, (written, _) in table.fields.items() if each in _needed(name)]
            self.make(f"raw_{name}", f"SELECT {', '.join(chosen) or 'NULL'} FROM {table.name}")

    def make(self, name: str, query: str) -> None:
        """What the query gives, under that name."""
        self._made[name] = query

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of an answer."""
        made = ", ".join(f"{name} AS NOT MATERIALIZED ({told})" for name, told in self._made.items())
        return self._ask(f"WITH {made} {query}")

    def typed(self, field: cdm.Field) -> tuple[str, str]:
        """See `_Local.typed`."""
        kind, text = OF_SERVER.get(field.type), f"nullif(trim(CAST({field.name} AS VARCHAR)), '')"
        if kind is None:
            return _text(field, text)
        if self._stored[field.table].fields[field.name][1] in STORED[field.type]:
            return (field.name if field.type == "float" else f"CAST({field.name} AS {kind})"), ""
        fits = rf"{text} ~ '^\s*{SERVER_FORMS[field.type]}\s*$'"
        if field.type in ("date", "datetime"):
            parts = [f"CAST(substr(trim({text}), {at}, {size}) AS INTEGER)" for at, size in ((1, 4), (6, 2), (9, 2))]
            fits = f"CASE WHEN {fits} THEN {_is_day(*parts)} ELSE false END"
        if field.type == "integer":
            digits = f"regexp_replace({text}, '\\..*', '')"
            small = f"CAST({digits} AS NUMERIC) BETWEEN {LEAST} AND {MOST}"
            fits = f"CASE WHEN {fits} AND length({digits}) < {LONG} THEN {small} ELSE false END"
            return f"CASE WHEN {fits} THEN CAST({digits} AS {kind}) END", f"{text} IS NOT NULL AND NOT ({fits})"
        return f"CASE WHEN {fits} THEN CAST({text} AS {kind}) END", f"{text} IS NOT NULL AND NOT ({fits})"


def _text(field: cdm.Field, text: str) -> tuple[str, str]:
    most = field.type.partition("(")[2].rstrip(")")
    return f"CASE WHEN {text} IS NOT NULL THEN 'x' END", f"length({text}) > {most}" if most else ""


def _is_day(year: str, month: str, day: str) -> str:
    """Whether three numbers are a day of the calendar."""
    leap = f"{year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0)"
    last = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
    return f"({year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last})"


@dataclass(frozen=True)
class _Checking:
    engine: _Local | _Server
    connection: Any  # where the vocabulary is
    vocabulary: tuple[str, ...]  # its tables that are there
    made: set[str] = dataclasses.field(default_factory=set)

    @property
    def there(self) -> dict[str, tuple[str, ...]]:
        """Tables, and their fields."""
        return self.engine.there

    def _make(self, name: str, query: str) -> None:
        self.engine.make(name, query)
        self.made.add(name)

    def run(self) -> Iterator[Check]:
        for name in CHECKED:
            if name not in self.there:
                if name not in OPTIONAL:
                    yield _of("cdmTable", name, "", 1, 1)
                continue
            yield _of("cdmTable", name, "", 0, 1)
            for field in cdm.tables()[name]:
                yield _of("cdmField", name, field.name, int(field.name not in self.there[name]), 1)
        if "concept" in self.vocabulary:
            self.connection.execute(
                "CREATE TABLE concepts AS SELECT CAST(concept_id AS BIGINT) AS id, domain_id, concept_class_id, "
                "standard_concept = 'S' AND coalesce(CAST(invalid_reason AS VARCHAR), '') = '' AS standard FROM v_concept"
            )
        for name in self.there:
            yield from self._read(name)
        self._read_lives()
        for name in self.there:
            yield from self._rows(name)
            yield from self._twice_and_lost(name)
            for field in self._fields(name):
                if field.refers == "concept":
                    yield from self._concepts(field)
        yield from self._gendered()
        yield from self._people()

    def _fields(self, table: str) -> list[cdm.Field]:
        return [field for field in cdm.tables()[table] if field.name in self.there[table]]

    def _one(self, query: str) -> tuple[int, ...]:
        return tuple(int(each or 0) for each in self.engine.ask(query)[0])

    def _read(self, table: str) -> Iterator[Check]:
        """Copy a table with the model's types; cells that are not of them are told, and empty from then on."""
        typed = ["row_number() OVER () AS row_"]
        wrong: list[tuple[cdm.Field, str]] = []
        for each in self._fields(table):
            value, odd = self.engine.typed(each)
            typed.append(f"{value} AS {each.name}")
            wrong += [(each, odd)] if odd else []
        self._make(f"t_{table}", f"SELECT {', '.join(typed)} FROM raw_{table}")
        sums = "".join(f", count(*) FILTER (WHERE {odd})" for _, odd in wrong)
        counts = self._one(f"SELECT count(*){sums} FROM raw_{table}")
        held = dict(zip((each.name for each, _ in wrong), counts[1:], strict=True))
        for each in self._fields(table):
            if TYPES.get(each.type) is not None or each.name in held:
                yield _of("cdmDatatype", table, each.name, held.get(each.name, 0), counts[0])

    def _read_lives(self) -> None:
        """When people were born, and died, one row each; when visits began and ended."""
        have = {name: set(fields) for name, fields in self.there.items()}
        born = [f"CAST({each} AS DATE)" for each in ("birth_datetime",) if each in have.get(cdm.PERSON, ())]
        if "year_of_birth" in have.get(cdm.PERSON, ()):
            month, day = (
                f"coalesce({each}, 1)" if each in have[cdm.PERSON] else "1"
                for each in ("month_of_birth", "day_of_birth")
            )
            made = ", ".join(f"CAST({each} AS INTEGER)" for each in ("year_of_birth", month, day))
            born.append(f"CASE WHEN {_is_day('year_of_birth', month, day)} THEN make_date({made}) END")
        if born and "person_id" in have[cdm.PERSON]:
            self._make(
                "born", f"SELECT person_id, min(coalesce({', '.join(born)})) AS born FROM t_person GROUP BY person_id"
            )
        if {"person_id", "death_date"} <= have.get(cdm.DEATH, set()):
            self._make("died", f"SELECT person_id, {_near('min(death_date)')} AS died FROM t_death GROUP BY person_id")
        if {"visit_occurrence_id", "visit_start_date", "visit_end_date"} <= have.get(cdm.VISIT, set()):
            self._make(
                "visits",
                f"SELECT visit_occurrence_id, {_near('min(visit_start_date)')} AS began, {_near('max(visit_end_date)')} AS ended "
                "FROM t_visit_occurrence GROUP BY visit_occurrence_id",
            )

    def _rows(self, table: str) -> Iterator[Check]:
        """What a row tells by itself, its person's life and its visit: all in one pass."""
        # Check, field, which rows it applies to, which break it, threshold.
        asked: list[tuple[str, str, str, str, float]] = []
        joins, lacking = [], []
        for name, source, key in (
            ("birth", "born", "person_id"),
            ("death", "died", "person_id"),
            ("visit", "visits", "visit_occurrence_id"),
        ):
            fields = [field for field in self._fields(table) if name in field.near]
            if not fields:
                continue
            check = {"birth": "plausibleAfterBirth", "death": "plausibleBeforeDeath", "visit": "withinVisitDates"}[name]
            if key not in self.there[table] or source not in self.made:
                lacking += [(check, field.name, name) for field in fields]
                continue
            joins.append(f"LEFT JOIN {source} USING ({key})")
            for field in fields:
                day = f"CAST({field.name} AS DATE)"
                applies, broken, most = {
                    "birth": (f"{field.name} IS NOT NULL", f"{day} < born", NEAR),
                    "death": (f"{field.name} IS NOT NULL AND died IS NOT NULL", f"{day} > died + {AFTER_DEATH}", NEAR),
                    "visit": (
                        "began IS NOT NULL",
                        f"{day} < began - {cdm.AROUND_VISIT} OR {day} > ended + {cdm.AROUND_VISIT}",
                        OF_VISIT,
                    ),
                }[name]
                asked.append((check, field.name, applies, broken, most))
        for field in self._fields(table):
            asked += _alone(field, self.there[table])
        for check, name, what in lacking:
            yield _unrun(check, table, name, f"there is no date of {what} to compare with")
        if asked:
            sums = ", ".join(
                f"count(*) FILTER (WHERE {applies}), count(*) FILTER (WHERE ({applies}) AND ({broken}))"
                for _, _, applies, broken, _ in asked
            )
            counts = self._one(f"SELECT {sums} FROM t_{table} {' '.join(joins)}")
            for place, (check, name, _, _, most) in enumerate(asked):
                yield _of(check, table, name, counts[2 * place + 1], counts[2 * place], most)

    def _twice_and_lost(self, table: str) -> Iterator[Check]:
        """Keys that stand twice, and keys of other tables that are not there."""
        for field in self._fields(table):
            if field.key:
                rows, broken = self._one(
                    f"SELECT sum(n), sum(n) FILTER (WHERE n > 1) FROM (SELECT count(*) AS n FROM t_{table} GROUP BY {field.name}) AS held"
                )
                yield _of("isPrimaryKey", table, field.name, broken, rows)
            if not field.refers or field.refers == "concept":
                continue
            rows = self._one(f"SELECT count({field.name}) FROM t_{table}")[0]
            own = cdm.key(field.refers) if field.refers in cdm.tables() else None
            if rows and (own is None or own not in self.there.get(field.refers, ())):
                yield _unrun("isForeignKey", table, field.name, f"there is no table {field.refers}")
                continue
            broken = 0
            if rows:
                broken = self._one(
                    f"SELECT count(*) FROM t_{table} AS a WHERE a.{field.name} IS NOT NULL AND NOT EXISTS "
                    f"(SELECT 1 FROM t_{field.refers} AS b WHERE b.{own} = a.{field.name})"
                )[0]
            yield _of("isForeignKey", table, field.name, broken, rows)

    def _concepts(self, field: cdm.Field) -> Iterator[Check]:
        """What the vocabulary says of the concepts of a field."""
        table, name = field.table, field.name
        wanted = {
            "isForeignKey": "c.id IS NULL",
            "fkDomain": f"c.id <> 0 AND c.domain_id <> '{field.domain}'" if field.domain else "",
            "fkClass": f"c.id <> 0 AND c.concept_class_id <> '{field.concept_class}'" if field.concept_class else "",
            "isStandardValidConcept": "c.id <> 0 AND c.standard IS NOT TRUE" if field.standard else "",
        }
        asked = {check: broken for check, broken in wanted.items() if broken}
        if "concept" not in self.vocabulary:
            for check in asked:
                yield _unrun(check, table, name, "it needs data.vocabulary=, with the table concept")
            return
        sums = ", ".join(f"sum(n) FILTER (WHERE {broken})" for broken in asked.values())
        used = self.engine.ask(f"SELECT {name}, count(*) FROM t_{table} WHERE {name} IS NOT NULL GROUP BY 1")
        self.connection.register("used", _counted(used))
        found = self.connection.execute(f"SELECT sum(n), {sums} FROM used LEFT JOIN concepts AS c ON used.id = c.id")
        counts = [int(each or 0) for each in found.fetchone()]
        self.connection.unregister("used")
        for check, count in zip(asked, counts[1:], strict=True):
            yield _of(check, table, name, count, counts[0])

    def _gendered(self) -> Iterator[Check]:
        check = "plausibleGenderUseDescendants"
        told = "concept_ancestor" in self.vocabulary
        gendered = cdm.gendered(self.connection) if told else {(table, of): set() for table, of, _ in cdm.GENDERED}
        for (table, gender), concepts in gendered.items():
            field = cdm.CONCEPT[table]
            if not {field, "person_id"} <= set(self.there.get(table, ())) or "gender_concept_id" not in self.there.get(
                cdm.PERSON, ()
            ):
                continue
            if not told:
                yield _unrun(check, table, field, "it needs data.vocabulary=, with the table concept_ancestor")
                continue
            counts = self.engine.ask(
                f"SELECT t.{field}, count(*), count(*) FILTER (WHERE p.gender_concept_id <> {cdm.CODE_OF[gender]}) FROM t_{table} AS t "
                "JOIN t_person AS p USING (person_id) GROUP BY 1"
            )
            rows, broken = (sum(each[place] for each in counts if each[0] in concepts) for place in (1, 2))
            yield _of(check, table, field, broken, rows, GENDER)

    def _people(self) -> Iterator[Check]:
        if "person_id" in self.there.get(cdm.PERSON, ()):
            people = self._one("SELECT count(*) FROM t_person")[0]
            for table, fields in self.there.items():
                if "person_id" not in fields or table == cdm.PERSON:
                    continue
                without = self._one(
                    f"SELECT count(*) FROM t_person AS p WHERE NOT EXISTS (SELECT 1 FROM t_{table} AS t WHERE t.person_id = p.person_id)"
                )[0]
                rows = people if self._one(f"SELECT count(*) FROM t_{table}")[0] else 0
                yield _of("measurePersonCompleteness", table, "", without, rows, WITHOUT.get(table, 95.0))
        wanted = {"person_id", "observation_period_id", "observation_period_start_date", "observation_period_end_date"}
        if wanted <= set(self.there.get(cdm.PERIOD, ())):
            rows, broken = self._one(
                "SELECT count(DISTINCT person_id), count(DISTINCT person_id) FILTER (WHERE observation_period_start_date <= before + 1) "
                f"FROM (SELECT *, max({_near('observation_period_end_date')}) OVER "
                "(PARTITION BY person_id ORDER BY observation_period_start_date, "
                "row_ ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM t_observation_period) AS periods"
            )
            yield _of("measureObservationPeriodOverlap", cdm.PERIOD, "", broken, rows)


def _near(day: str) -> str:
    """A date, or the nearest one to which days can be added."""
    return f"CASE WHEN {day} > {LAST} THEN {LAST} WHEN {day} < {FIRST} THEN {FIRST} ELSE {day} END"


def _counted(rows: Sequence[tuple[Any, ...]]) -> "pa.Table":
    """Numbers of rows by concept."""
    ids, counts = ([int(row[place]) for row in rows] for place in (0, 1))
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array(counts, pa.int64())})


def _alone(field: cdm.Field, there: Sequence[str]) -> Iterator[tuple[str, str, str, str, float]]:
    """What a value tells without another row: check, field, where it applies, where it breaks, threshold."""
    name, held = field.name, f"{field.name} IS NOT NULL"
    if field.required:
        yield "isRequired", name, "true", f"{name} IS NULL", 0.0
    if field.low:
        yield "plausibleValueLow", name, held, f"{name} < {_end(field.low)}", RARE
    if field.high:
        yield "plausibleValueHigh", name, held, f"{name} > {_end(field.high)}", RARE
    if field.until in there:
        most = 0.0 if field.table in STRICT else RARE
        broken = f"CAST({name} AS DATE) > CAST({field.until} AS DATE)"
        yield "plausibleStartBeforeEnd", name, f"{held} AND {field.until} IS NOT NULL", broken, most
    if field.zeros is not None:
        source = name.replace("_concept_id", "_source_value")
        empty = f"{name} IS NULL AND {source} IS NOT NULL" if not field.required and source in there else "false"
        yield "standardConceptRecordCompleteness", name, f"{held} OR {empty}", f"{name} = 0 OR {empty}", field.zeros


def _end(value: str) -> str:
    today = date.today()
    text = {"tomorrow": (today + timedelta(days=1)).isoformat(), "next year": str(today.year + 1)}.get(value, value)
    return f"DATE '{text}'" if "-" in text[1:] and "e" not in text else text


def _of(name: str, table: str, field: str, violated: int, rows: int, most: float = 0.0) -> Check:
    status: Status = "empty" if not rows else "failed" if 100 * violated > most * rows else "passed"
    return Check(name=name, table=table, field=field, status=status, violated=violated, rows=rows)


def _unrun(name: str, table: str, field: str, why: str) -> Check:
    return Check(name=name, table=table, field=field, status="not run", why=why)
