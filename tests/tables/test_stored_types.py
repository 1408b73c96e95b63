"""Columns whose types are not the usual ones come back as they were stored: in Parquet, DuckDB and PostgreSQL, from the draft on."""

from dataclasses import replace

import databases
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweeps import heavy

from synthdp import Budget, Schema, Synthesizer
from synthdp.errors import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.file_coding import Reading
from synthdp.schema.schema import Categorical, Continuous, Datetime, Integer
from synthdp.seal.database import CountedTable
from synthdp.seal.records import seal
from synthdp.sets import record_files, stored_types
from synthdp.sets.draft import draft
from synthdp.tables import database_url, source

ROWS = 200
NARROW = {
    "born": pa.date32(), "seen": pa.timestamp("s"), "sent": pa.timestamp("ms"), "read": pa.timestamp("ns"), "beds": pa.int16(),
    "stars": pa.uint8(), "sex": pa.int8(), "weight": pa.float32(), "cost": pa.decimal128(9, 2), "whole": pa.decimal128(6, 0),
    "usual": pa.int64(), "long": pa.float64(), "told": pa.timestamp("us"), "ward": pa.string(),
}  # fmt: skip


def table(narrow=NARROW):
    rng = np.random.default_rng(3)
    moments = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700 * 86_400, ROWS), unit="s")
    amounts = np.round(rng.normal(5000, 900, ROWS), 2)
    drawn = {
        "born": moments.floor("D"), "seen": moments, "sent": moments, "read": moments, "beds": rng.integers(0, 900, ROWS),
        "stars": rng.integers(0, 60, ROWS), "sex": rng.choice([1, 2], ROWS), "weight": rng.normal(75, 9, ROWS), "cost": amounts,
        "whole": np.floor(amounts), "usual": rng.integers(0, 90, ROWS), "long": rng.random(ROWS), "told": moments,
        "ward": rng.choice(["medicine", "surgery"], ROWS),
    }  # fmt: skip
    arrays = {}
    for name, kind in narrow.items():
        plain = pa.array(drawn[name])
        if pa.types.is_decimal(kind):
            plain = pa.array([f"{cell:.2f}" for cell in drawn[name]]).cast(pa.decimal128(12, 2))
        arrays[name] = plain.cast(kind, safe=False)
    return pa.table(arrays)


def declared(found, path):
    """The draft with what only a person can say of it: where numbers end."""
    facts = yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")
    for name, column in facts["columns"].items():
        column.pop("review", None)
        column.pop("missing", None)
        if column["kind"] in ("integer", "continuous"):
            column["bounds"] = [0, 200_000 if name in ("cost", "whole") else 900]
    facts["reading"].pop("review", None)
    return Schema.from_dict(facts | {"declared_by": "the tests", "units": ROWS})


def released(frame, schema):
    """Synthetic records, and the schema with the bounds that were learned."""
    release = Synthesizer("independent", schema=schema, budget=Budget(50.0, 1e-5)).fit(frame, seed=1)
    return release.sample(ROWS, seed=2), release.schema


def test_in_parquet(tmp_path):
    real, made = tmp_path / "real.parquet", tmp_path / "made.parquet"
    pq.write_table(table(), real)
    schema = declared(record_files.look(real), real)
    drawn, schema = released(record_files.read(real, schema), schema)
    record_files.write([drawn], made, schema)
    held = pq.read_schema(real).remove_metadata()
    assert pq.read_schema(made).remove_metadata() == held
    assert {held.field(name).type for name in ("born", "beds", "cost")} == {
        pa.date32(),
        pa.int16(),
        pa.decimal128(9, 2),
    }
    assert dict(record_files.read(made, schema).dtypes) == dict(record_files.read(real, schema).dtypes)


def test_in_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="needs the extra database")
    real = table()  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect(tmp_path / "clinic.db") as connection:
        connection.execute("create table visits as select * from real")
    known = table_of(f"duckdb:///{tmp_path}/clinic.db")
    with duckdb.connect(tmp_path / "clinic.db") as connection:
        held, made = (connection.execute(f"describe {name}").fetchall() for name in ("visits", "made"))
    assert held == made
    assert {"DATE", "SMALLINT", "UTINYINT", "FLOAT", "DECIMAL(9,2)", "TIMESTAMP_MS"} < {row[1] for row in held}
    assert known["columns"]["born"]["stored"] == "date"


@pytest.mark.heavy
def test_in_postgresql():
    import psycopg

    plain = ("born", "beds", "weight", "cost", "whole", "usual", "long", "told", "ward")
    with databases.postgres() as server:
        url = f"postgresql://{databases.USER}@/postgres?host={server}"
        database_url.write(
            [table({name: NARROW[name] for name in plain})],
            pa.schema({name: NARROW[name] for name in plain}),
            database_url.address(f"{url}#visits"),
            replace=False,
        )
        table_of(url)
        asked = "select column_name, data_type, numeric_precision, numeric_scale from information_schema.columns where table_name = %s"
        with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
            held, made = (sorted(connection.execute(asked, (name,)).fetchall()) for name in ("visits", "made"))
    assert held == made
    assert ("cost", "numeric", 9, 2) in held


def table_of(url):
    """The visits of a database, made anew as the table `made`; what the schema says of their coding."""
    real = database_url.address(f"{url}#visits")
    schema = declared(record_files.look_into(real), "draft")
    made, schema = released(record_files.from_database(real, schema), schema)
    record_files.write_to_database([made], database_url.address(f"{url}#made"), schema, replace=False)
    return schema.to_dict()["reading"]


def coded(column, **facts):
    return Reading.from_dict({"columns": {"a": facts}}).of(column)


INTEGER = Integer(name="a", bounds=(0, 900))
DAY = Datetime(name="a", bounds=("2020-01-01", "2021-01-01"), resolution="day")


@pytest.mark.parametrize(
    ("column", "stored", "says"),
    [
        (INTEGER, "int7", "stored must be"),
        (INTEGER, "decimal(2, 3)", "stored must be"),
        (INTEGER, 8, "stored must be"),
        (INTEGER, "date", "no type of a column of kind integer"),
        (DAY, "int8", "no type of a column of kind datetime"),
        (Datetime(name="a", bounds=("2020-01-01", "2021-01-01"), resolution="minute"), "date", "resolution: day"),
    ],
)
def test_types_that_no_such_column_has_are_refused(column, stored, says):
    with pytest.raises(BadInput, match=says):
        Reading.from_dict({"columns": {"a": {"stored": stored}}}).check((column,))


@pytest.mark.parametrize(
    ("column", "facts", "usual", "taken"),
    [
        (Categorical(name="a", categories=(1, 300)), {"stored": "int8"}, pa.int64(), pa.int64()),
        (Categorical(name="a", categories=(1, 2)), {"stored": "int8"}, pa.int64(), pa.int8()),
        (Datetime(name="a", bounds=("1500-01-01", "2021-01-01")), {"stored": "timestamp_ns"}, pa.timestamp("us"), pa.timestamp("us")),
        (Datetime(name="a", bounds=("1900-01-01", "2021-01-01")), {"stored": "timestamp_ns"}, pa.timestamp("us"), pa.timestamp("ns")),
        (Continuous(name="a", bounds=(0, 1)), {"stored": "int8"}, pa.float64(), pa.float64()),
        (Continuous(name="a", bounds=(0.001, 0.002)), {"stored": "decimal(3, 2)"}, pa.float64(), pa.float64()),
        (Integer(name="a", bounds=(0, 200), missing=True), {"stored": "uint8", "missing": ["-9"]}, pa.int64(), pa.int64()),
        (Integer(name="a", bounds=(0, 200), missing=True), {"stored": "uint8", "missing": ["255"]}, pa.int64(), pa.uint8()),
        (Continuous(name="a", bounds=(0, 9), missing=True), {"stored": "decimal(3, 2)", "missing": ["-99"]}, pa.float64(), pa.float64()),
        (replace(DAY, resolution="microsecond"), {"stored": "timestamp_ms"}, pa.timestamp("us"), pa.timestamp("us")),
        (replace(DAY, resolution="second"), {"stored": "timestamp_ms"}, pa.timestamp("us"), pa.timestamp("ms")),
    ],
)  # fmt: skip
def test_the_usual_type_is_taken_where_cells_would_not_fit(column, facts, usual, taken):
    assert stored_types.fitting(coded(column, **facts), usual) == taken


def test_numbers_beyond_a_type_are_stored_as_its_ends():
    drawn = pd.Series([-5, 40, 300, None], dtype="Int64")
    assert stored_types.within(drawn, pa.uint8()).tolist()[:3] == [0, 40, 255]
    exact = stored_types.within(pd.Series([1.005, np.nan, 1e9]), pa.decimal128(4, 2)).tolist()
    assert [None if cell is None else str(cell) for cell in exact] == ["1.00", None, "99.99"]


@pytest.mark.parametrize(
    "stored",
    ["float32", *map(heavy, ["decimal(2, 2)", "decimal(4, 2)", "decimal(5, 0)", "decimal(20, 3)"]), "decimal(38, 9)"],
)
def test_any_number_within_bounds_is_written_and_read_within_them(tmp_path, stored):
    """Whatever is drawn: it is off by no more than the grain of its type."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        size = 10.0 ** rng.integers(-3, 19)
        low, high = sorted(rng.normal(0, size, 2).tolist())
        drawn = np.concatenate([[low, high, np.nan], rng.uniform(low, high, 20)])
        declared = {"kind": "continuous", "bounds": [low, high], "missing": True}
        schema = Schema.from_dict({"columns": {"a": declared}, "reading": {"columns": {"a": {"stored": stored}}}})
        record_files.write([pd.DataFrame({"a": drawn})], tmp_path / "a.parquet", schema, force=True)
        read = schema.validate(record_files.read(tmp_path / "a.parquet", schema))["a"]
        numbers = np.array([np.nan if pd.isna(each) else float(each) for each in read])
        kind = pq.read_schema(tmp_path / "a.parquet").field("a").type
        if kind != pa.float64():
            digits = kind.precision - kind.scale if pa.types.is_decimal(kind) else 38
            grain = 10.0**-kind.scale if pa.types.is_decimal(kind) else 3e-7 * max(-low, high)
            nearest = np.clip(drawn, -(10.0**digits) + grain, 10.0**digits - grain)
            np.testing.assert_allclose(numbers, nearest, rtol=1e-15, atol=grain * (1 + 1e-6))
        else:
            np.testing.assert_array_equal(numbers, drawn)


@pytest.mark.parametrize("missing", ["NaN", "inf", "-9.5"])
def test_a_code_for_missing_values_that_is_no_whole_number_leaves_its_cells_empty(tmp_path, missing):
    declared = {"kind": "integer", "bounds": [0, 9], "missing": True}
    schema = Schema.from_dict({"columns": {"a": declared}, "reading": {"columns": {"a": {"missing": [missing]}}}})
    record_files.write([pd.DataFrame({"a": pd.array([5, None], "Int64")})], tmp_path / "a.parquet", schema)
    assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == [5, None]


@pytest.mark.parametrize(
    ("kind", "values", "categories"),
    [
        (pa.float32(), [0.1, 1.5, None], ["0.1", "1.5"]),  # the nearest float32 to 0.1 is another number than 0.1
        (pa.uint64(), [0, 2, 7], ["0", "2", "-1", "--5"]),  # no such number is stored
    ],
)
def test_labels_that_are_numbers_have_the_same_codes_in_memory_and_in_duckdb(tmp_path, kind, values, categories):
    column = {"kind": "categorical", "categories": categories, "missing": True}
    schema = Schema.from_dict({"units": 3, "declared_by": "us", "columns": {"a": column}}).settled()
    pq.write_table(pa.table({"a": pa.array(values, kind)}), tmp_path / "a.parquet")
    codec = Codec(schema)
    memory = seal(record_files.read(tmp_path / "a.parquet", schema), schema, b"k" * 32).encoded_by(codec)
    with source.opened(source.files(tmp_path / "a.parquet")) as opened:
        counted = CountedTable.of(opened, schema, b"k" * 32).encoded_by(codec).counts([(0,)], codec.sizes)
    assert counted[0].tolist() == memory.counts([(0,)], codec.sizes)[0].tolist()
