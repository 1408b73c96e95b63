"""A CDM as it is read, joined and coded: whatever one person's rows hold, every other person's codes stay the same, bit for bit.

The whole way is run again with one more person, from files and databases, so that what a reader decides by a column counts too (laws 12
and 46)."""

import databases
import duckdb
import omop_hospital
import pandas as pd
import pytest
from sweeps import sweep

from synthdp import Schema
from synthdp.omop import cdm, cdm_draft, cdm_tables
from synthdp.omop.quality_checks import checked
from synthdp.schema.codec import Codec
from synthdp.schema.linked_tables import column_of
from synthdp.seal.history_records import ordered

KEY, NEW, PEOPLE = bytes(range(32)), 900_001, 60
KINDS = {"integer": "BIGINT", "float": "DOUBLE PRECISION", "date": "DATE", "datetime": "TIMESTAMP"}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """A folder with a vocabulary and a schema that learns dates, values and a code below visits; frames; what each person's codes are."""
    folder = tmp_path_factory.mktemp("omop")
    omop_hospital.write_vocabulary(folder)
    frames = omop_hospital.tables(PEOPLE)
    lists = cdm_draft.concept_lists(str(folder / "vocabulary"), folder / "schema.concepts")
    text = omop_hospital.answered(cdm_draft.draft(None, lists))
    asked = "kind: ignore}  # question: "
    text = text.replace(f"{asked}in which range? {{", "").replace(f"{asked}to be learned? {{", "")
    (folder / "schema.yaml").write_text(text, encoding="utf-8")
    return folder, Schema.load(folder / "schema.yaml"), frames


def seen(where, schema):
    """By each person's keyed name: everything that questions are asked of."""
    resolved = schema
    for name, item in schema.learned:
        resolved = resolved.with_learned(name, **{item: column_of(schema, name).tree.codes})
    made = ordered(schema.validate_tables(cdm_tables.read(str(where), schema), "clamp"), schema, KEY)
    found = made.encoded_by(Codec(resolved))
    held, told = found.histories, {}
    for number, name in enumerate(found.keys.tolist()):
        rows = held.owner == number
        cells = {each: values[rows].tolist() for each, values in held.cells.items()}
        firsts = {each: int(values[number]) for each, values in held.firsts.items()}
        told[name] = (found.codes[found.owner == number].tolist(), cells, firsts, int(held.count[number]))
    return told


def row(table, **cells):
    return {field.name: cells.get(field.name) for field in cdm.tables()[table]}


def somebody(frames, text):
    """Rows of one more person; with `text` also cells that no typed column would hold."""
    visits = frames["visit_occurrence"]
    other, theirs = visits["visit_occurrence_id"].tolist(), visits["person_id"].tolist()

    def odd(cell, otherwise):
        return cell if text else otherwise

    people = [
        row(cdm.PERSON, person_id=NEW, gender_concept_id=8507, year_of_birth=1950),
        row(cdm.PERSON, person_id=NEW, gender_concept_id=odd("8532.0", 8532), year_of_birth=odd("nineteen", 0)),
        row(cdm.PERSON, person_id=NEW, gender_concept_id=odd("Ü\n;\"',", -1), year_of_birth=odd("1e400", 9999), month_of_birth=99),
        row(cdm.PERSON, person_id=odd(f" {NEW}.0 ", NEW), birth_datetime=odd("10000-01-01", pd.Timestamp("1600-01-01"))),
    ]  # fmt: skip
    stays = [
        row(cdm.VISIT, visit_occurrence_id=each, person_id=NEW, visit_concept_id=odd("9e3", 0), visit_start_date=date, visit_end_date=end)
        for each in (other[0], other[0], other[-1], None, 10**9, odd("", None), odd("x" * 9, 10**9 + 1))
        for date, end in (
            (pd.Timestamp("2023-05-05"), pd.Timestamp("1700-01-01")),
            (odd("2023-02-30", None), odd("yesterday", pd.Timestamp("2200-01-01"))),
        )
    ]  # fmt: skip
    days = (pd.Timestamp("1900-01-01"), odd("NaT", None), odd("zz", None))
    deaths = [row(cdm.DEATH, person_id=NEW, death_date=day) for day in days]
    made = {cdm.PERSON: people, cdm.VISIT: stays, cdm.DEATH: deaths}
    for name in cdm.BELOW:
        cells = {
            cdm.CONCEPT[name]: odd("0x1F", 2**31 - 1),
            cdm.START[name]: odd("2023-13-01", pd.Timestamp("2250-01-01")),
        }
        more = {"measurement": {"value_as_number": odd("1e999", -1e300)}}.get(name, {})
        made[name] = [
            row(name, **{cdm.key(name): frames[name][cdm.key(name)].iloc[0], "person_id": who, "visit_occurrence_id": visit}, **extra)
            for who, visit in ((NEW, other[0]), (NEW, 10**9), (NEW, None), (None, None), (None, 10**9), (NEW, other[len(other) // 2]))
            for extra in (cells | more, {}, {cdm.CONCEPT[name]: 1_900_000_003})
        ]  # fmt: skip
    assert NEW not in theirs
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


def placed(frame, extra, where):
    """With more rows: at the end, at the start, or in between. Whole numbers are held as such beside missing ones."""
    parts = {"after": (frame, extra), "before": (extra, frame), "between": (frame.iloc[:7], extra, frame.iloc[7:])}[
        where
    ]
    return pd.concat([each.astype(object) for each in parts], ignore_index=True)


def typed(name, frame):
    """With the model's types, as a database would hold them."""
    made = {}
    for field in cdm.tables()[name]:
        cells = frame[field.name]
        if field.type == "integer":
            made[field.name] = pd.array([None if pd.isna(each) else int(each) for each in cells], "Int64")
        elif field.type == "float":
            made[field.name] = pd.to_numeric(cells).astype("float64")
        elif field.type in ("date", "datetime"):
            made[field.name] = pd.Series(
                [None if pd.isna(each) else pd.Timestamp(each) for each in cells], dtype="datetime64[us]"
            )
        else:
            made[field.name] = pd.Series([None if pd.isna(each) else str(each) for each in cells], dtype=object)
    return pd.DataFrame(made)


def as_text(frame):
    day = lambda cell: cell.date().isoformat() if isinstance(cell, pd.Timestamp) else str(cell)  # noqa: E731
    return pd.DataFrame(
        {name: [None if pd.isna(each) else day(each) for each in frame[name]] for name in frame}, dtype=object
    )


def csv(frames, place):
    place.mkdir()
    for name, frame in frames.items():
        as_text(frame).to_csv(place / f"{name}.csv", index=False)
    return place


def parquet_of_text(frames, place):
    place.mkdir()
    for name, frame in frames.items():
        as_text(frame).to_parquet(place / f"{name}.parquet", index=False)
    return place


def parquet(frames, place):
    place.mkdir()
    for name, frame in frames.items():
        typed(name, frame).to_parquet(place / f"{name}.parquet", index=False)
    return place


def parquet_of_floats(frames, place):
    """As pandas writes whole numbers beside missing ones."""
    place.mkdir()
    for name, frame in frames.items():
        made = typed(name, frame)
        whole = [each for each in made if str(made[each].dtype) == "Int64"]
        made.astype(dict.fromkeys(whole, "float64")).to_parquet(place / f"{name}.parquet", index=False)
    return place


def in_duckdb(frames, place):
    with duckdb.connect(f"{place}.duckdb") as connection:
        for name, frame in frames.items():
            held = typed(name, frame)  # noqa: F841
            columns = ", ".join(f"{each.name} {KINDS.get(each.type, 'VARCHAR')}" for each in cdm.tables()[name])
            connection.execute(f"CREATE TABLE {name} ({columns})")
            connection.execute(f"INSERT INTO {name} FROM held")
    return f"{place}.duckdb"


STORES = {
    "csv": (csv, True),
    "text": (parquet_of_text, True),
    "parquet": (parquet, False),
    "floats": (parquet_of_floats, False),
    "duckdb": (in_duckdb, False),
}


@pytest.mark.parametrize(
    ("store", "held"),
    sweep(
        [
            *((store, cdm.RECORDS) for store in STORES),
            ("csv", (cdm.PERSON,)),
            ("duckdb", (cdm.PERSON,)),
            ("parquet", ()),
        ],
        lambda case: case == ("csv", cdm.RECORDS),
    ),
)
def test_nobody_s_rows_move_another_one_s_codes(hospital, tmp_path, store, held):
    """Also where nobody else has rows in other tables, or there is nobody else."""
    _, schema, whole = hospital
    write, text = STORES[store]
    frames = {name: frame if name in held else frame.iloc[:0] for name, frame in whole.items()}
    before = seen(write(frames, tmp_path / "alone"), schema)
    assert len(before) == len(frames[cdm.PERSON])
    for where in ("after", "before", "between"):
        extra = somebody(whole, text)
        more = {name: placed(frame, extra[name], where) if name in extra else frame for name, frame in frames.items()}
        after = seen(write(more, tmp_path / where), schema)
        assert len(after) == len(before) + 1
        for name, told in before.items():
            assert after[name] == told


NASTY = (
    "visit_occurrence (visit_occurrence_id, person_id, visit_start_date, visit_end_date) VALUES (1, {0}, 'infinity', '-infinity'), "
    "(2, {0}, '0044-03-15 BC', '5874897-12-31'), (9223372036854775807, {0}, '2022-01-01', '2022-01-01')",
    "measurement (measurement_id, person_id, visit_occurrence_id, measurement_concept_id, value_as_number, measurement_date) VALUES "
    "(1, {0}, 1, 0, 'NaN', 'infinity'), (1, {0}, 1, 0, 'Infinity', '0044-03-15 BC'), (1, {0}, 1, 7, 1e300, '2022-01-01')",
    "death (person_id, death_date) VALUES ({0}, 'infinity'), ({0}, '-infinity'), ({0}, '5874897-12-31')",
    "observation_period (person_id, observation_period_start_date, observation_period_end_date) VALUES ({0}, '2022-01-01', 'infinity')",
    "person (person_id, birth_datetime) VALUES ({0}, 'infinity')",
)  # what only PostgreSQL holds


@pytest.mark.heavy
def test_nobody_s_rows_in_postgresql_move_another_one_s_codes_or_end_the_checks(hospital):
    import psycopg

    folder, schema, frames = hospital
    with databases.postgres() as server:
        with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres", autocommit=True) as connection:
            for name in ("alone", "beside"):
                connection.execute(f"CREATE SCHEMA {name}")
                for table, frame in frames.items():
                    kinds = {**KINDS, "integer": "bigint", "float": "numeric"}
                    fields = [f"{each.name} {kinds.get(each.type, 'varchar')}" for each in cdm.tables()[table]]
                    connection.execute(f"CREATE TABLE {name}.{table} ({', '.join(fields)})")
                    with connection.cursor().copy(f"COPY {name}.{table} FROM STDIN") as copy:
                        for cells in as_text(typed(table, frame)).itertuples(index=False):
                            copy.write_row(cells)
            for rows in NASTY:
                connection.execute(f"INSERT INTO beside.{rows.format(NEW)}")
        url = f"postgresql://{databases.USER}@/postgres?host={server}"
        before, after = (seen(f"{url}#{name}", schema) for name in ("alone", "beside"))
        assert len(before) == PEOPLE
        assert len(after) == PEOPLE + 1
        assert all(after[name] == told for name, told in before.items())
        failed = {each.name for each in checked(f"{url}#beside", str(folder / "vocabulary")) if each.status == "failed"}
        assert {"plausibleValueHigh", "isRequired"} <= failed
