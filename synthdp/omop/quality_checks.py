"""A CDM checked by the names, the rules and the thresholds of OHDSI's DataQualityDashboard, in SQL by DuckDB.

Every check counts the rows that break a rule, and fails where they are a larger share of the rows that it applies to than its threshold.
One that needs a vocabulary (`concept`, `concept_ancestor`), or a table that is not there, is not run, which is no pass. One without a row
to apply to is empty. Each table is copied, without its free text, into a DuckDB of our own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Literal

from synthdp.errors import BadInput
from synthdp.omop import cdm
from synthdp.omop.cdm_store import Cdm, duck

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
RARE, NEAR, OF_VISIT, GENDER = (
    1.0,
    1.0,
    5.0,
    2.0,
)  # per cent: implausible values and dates; dates beside visits; genders
STRICT = (cdm.PERIOD, "cdm_source")  # where no start may come after its end
AFTER_DEATH = 60  # days
GENDERED = (
    ("condition_occurrence", "Male", (4090861, 4025213)),
    ("condition_occurrence", "Female", (4095793, 443343, 4024004, 4172857, 444094, 197810, 4158481)),
    ("procedure_occurrence", "Female", (4041261,)),
    ("procedure_occurrence", "Male", (4250917, 4077750, 4043199, 4040577)),
)
CODE_OF = {"Male": cdm.MALE, "Female": cdm.FEMALE}
TYPES = {"integer": "BIGINT", "float": "DOUBLE", "date": "DATE", "datetime": "TIMESTAMP"}
FORMS = {"integer": r"\s*[+-]?[0-9]+(\.0*)?\s*"}


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
        """Plain values."""
        return {name: value for name, value in asdict(self).items() if value != ""}


def checked(where: str, vocabulary: str | None = None, memory: str = "2GiB") -> list[Check]:
    """Every check of a CDM, in the order of `NAMES`. `vocabulary`: where the tables concept and concept_ancestor lie, as a CDM does. Raises
    `BadInput` where something cannot be read, or DuckDB is not installed."""
    with duck(memory) as connection:
        of_tables = {name: _needed(name) for name in CHECKED}
        there = Cdm(where).views(connection, of_tables, "raw_", records=True)
        concepts: dict[str, tuple[str, ...]] = {}
        if vocabulary is not None:
            concepts = Cdm(vocabulary).views(connection, {"concept": None, "concept_ancestor": None}, "v_")
        others = set(Cdm(where).fields())
        found = list(_Checking(connection, there, tuple(concepts), others).run())
    return sorted(found, key=lambda check: NAMES.index(check.name))


def gendered(vocabulary: str) -> dict[tuple[str, int], set[int]]:
    """Concepts by the field's table and the gender of those who may have them, by `GENDERED` and the vocabulary's ancestors. Raises
    `BadInput` for a vocabulary without concept_ancestor."""
    found: dict[tuple[str, int], set[int]] = {}
    with duck() as connection:
        if not Cdm(vocabulary).views(connection, {"concept_ancestor": None}, "v_"):
            raise BadInput(f"{vocabulary}: has no table 'concept_ancestor'")
        for table, gender, ancestors in GENDERED:
            rows = connection.execute(f"SELECT DISTINCT {_below(ancestors)}").fetchall()
            found.setdefault((table, CODE_OF[gender]), set()).update({row[0] for row in rows}, ancestors)
    return found


def _below(ancestors: Sequence[int]) -> str:
    return (
        "CAST(descendant_concept_id AS BIGINT) FROM v_concept_ancestor WHERE CAST(ancestor_concept_id AS BIGINT) IN "
        f"({', '.join(map(str, ancestors))})"
    )


def _needed(name: str) -> Sequence[str]:
    return [field.name for field in cdm.tables()[name]]


@dataclass(frozen=True)
class _Checking:
    connection: Any
    there: dict[str, tuple[str, ...]]  # tables, and their fields
    vocabulary: tuple[str, ...]  # its tables that are there
    others: set[str]  # every table of the CDM

    def run(self) -> Iterator[Check]:
        """All checks."""
        for name in CHECKED:
            if name not in self.there:
                if name not in OPTIONAL:
                    yield _of("cdmTable", name, "", 1, 1)
                continue
            yield _of("cdmTable", name, "", 0, 1)
            for field in cdm.tables()[name]:
                yield _of("cdmField", name, field.name, int(field.name not in self.there[name]), 1)
        if "concept" in self.vocabulary:
            self._read_concepts()
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
        return tuple(int(each or 0) for each in self.connection.execute(query).fetchone())

    def _read(self, table: str) -> Iterator[Check]:
        """Copy a table with the model's types; cells that are not of them are told, and empty from then on."""
        fields = self._fields(table)
        typed = ["row_number() OVER () AS row_"]
        wrong: list[tuple[cdm.Field, str]] = []
        for field in fields:
            text = f"nullif(trim(CAST({field.name} AS VARCHAR)), '')"
            kind = TYPES.get(field.type)
            if field.type == "integer":
                fits = f"regexp_full_match({text}, '{FORMS['integer']}')"
                typed.append(f"CASE WHEN {fits} THEN TRY_CAST({text} AS BIGINT) END AS {field.name}")
                wrong.append((field, f"{text} IS NOT NULL AND NOT {fits}"))
            elif kind is not None:
                typed.append(f"TRY_CAST({text} AS {kind}) AS {field.name}")
                wrong.append((field, f"{text} IS NOT NULL AND TRY_CAST({text} AS {kind}) IS NULL"))
            else:
                typed.append(f"CASE WHEN {text} IS NOT NULL THEN 'x' END AS {field.name}")
                most = field.type.partition("(")[2].rstrip(")")
                if most:
                    wrong.append((field, f"length({text}) > {most}"))
        self.connection.execute(f"CREATE TABLE t_{table} AS SELECT {', '.join(typed)} FROM raw_{table}")
        counts = self._one(
            f"SELECT count(*), {', '.join(f'count(*) FILTER ({each})' for _, each in wrong)} FROM raw_{table}"
        )
        for (field, _), count in zip(wrong, counts[1:], strict=True):
            yield _of("cdmDatatype", table, field.name, count, counts[0])

    def _read_lives(self) -> None:
        """When people were born, and died, one row each; when visits began and ended."""
        have = {name: set(fields) for name, fields in self.there.items()}
        born = [f"CAST({each} AS DATE)" for each in ("birth_datetime",) if each in have.get(cdm.PERSON, ())]
        if "year_of_birth" in have.get(cdm.PERSON, ()):
            month, day = (
                f"coalesce({each}, 1)" if each in have[cdm.PERSON] else "1"
                for each in ("month_of_birth", "day_of_birth")
            )
            text = f"printf('%04d-%02d-%02d', year_of_birth, {month}, {day})"
            born.append(f"TRY_CAST({text} AS DATE)")
        if born and "person_id" in have[cdm.PERSON]:
            self.connection.execute(
                f"CREATE TABLE born AS SELECT person_id, min(coalesce({', '.join(born)})) AS born FROM t_person GROUP BY person_id"
            )
        if {"person_id", "death_date"} <= have.get(cdm.DEATH, set()):
            self.connection.execute(
                "CREATE TABLE died AS SELECT person_id, min(death_date) AS died FROM t_death GROUP BY person_id"
            )
        if {"visit_occurrence_id", "visit_start_date", "visit_end_date"} <= have.get(cdm.VISIT, set()):
            self.connection.execute(
                "CREATE TABLE visits AS SELECT visit_occurrence_id, min(visit_start_date) AS began, max(visit_end_date) AS ended "
                "FROM t_visit_occurrence GROUP BY visit_occurrence_id"
            )

    def _has(self, name: str) -> bool:
        return bool(self._one(f"SELECT count(*) FROM duckdb_tables() WHERE table_name = '{name}'")[0])

    def _rows(self, table: str) -> Iterator[Check]:
        """What a row tells by itself, its person's life and its visit: all in one pass."""
        asked: list[
            tuple[str, str, str, str, float]
        ] = []  # check, field, which rows it applies to, which break it, threshold
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
            if key not in self.there[table] or not self._has(source):
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
                f"count(*) FILTER ({applies}), count(*) FILTER (({applies}) AND ({broken}))"
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
                    f"SELECT sum(n), sum(n) FILTER (n > 1) FROM (SELECT count(*) AS n FROM t_{table} GROUP BY {field.name})"
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

    def _read_concepts(self) -> None:
        self.connection.execute(
            "CREATE TABLE concepts AS SELECT CAST(concept_id AS BIGINT) AS id, domain_id, concept_class_id, "
            "standard_concept = 'S' AND coalesce(CAST(invalid_reason AS VARCHAR), '') = '' AS standard FROM v_concept"
        )

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
        sums = ", ".join(f"sum(n) FILTER ({broken})" for broken in asked.values())
        counts = self._one(
            f"SELECT sum(n), {sums} FROM (SELECT {name} AS id, count(*) AS n FROM t_{table} WHERE {name} IS NOT NULL GROUP BY 1) "
            "AS used LEFT JOIN concepts AS c ON used.id = c.id"
        )
        for check, count in zip(asked, counts[1:], strict=True):
            yield _of(check, table, name, count, counts[0])

    def _gendered(self) -> Iterator[Check]:
        check = "plausibleGenderUseDescendants"
        for table, gender, ancestors in GENDERED:
            field = cdm.CONCEPT[table]
            if not {field, "person_id"} <= set(self.there.get(table, ())) or "gender_concept_id" not in self.there.get(
                cdm.PERSON, ()
            ):
                continue
            if "concept_ancestor" not in self.vocabulary:
                yield _unrun(check, table, field, "it needs data.vocabulary=, with the table concept_ancestor")
                continue
            rows, broken = self._one(
                f"SELECT count(*), count(*) FILTER (p.gender_concept_id <> {CODE_OF[gender]}) FROM t_{table} AS t JOIN t_person AS p "
                f"USING (person_id) WHERE t.{field} IN (SELECT {_below(ancestors)})"
            )
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
                "SELECT count(DISTINCT person_id), count(DISTINCT person_id) FILTER (observation_period_start_date <= before + 1) FROM "
                "(SELECT *, max(observation_period_end_date) OVER (PARTITION BY person_id ORDER BY observation_period_start_date, row_ "
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM t_observation_period)"
            )
            yield _of("measureObservationPeriodOverlap", cdm.PERIOD, "", broken, rows)


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
