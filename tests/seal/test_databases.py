"""PostgreSQL and Spark count as DuckDB does, keep nothing, and may go away."""

import awkward
import databases
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clinic import make_frame, make_schema
from sweeps import heavy

from synthdp import BadInput, Budget, Synthesizer
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Categorical, Continuous
from synthdp.schema.schema import Schema
from synthdp.seal.database import CountedTable
from synthdp.tables import source as database_errors
from synthdp.tables import source as tables

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
BUDGET = Budget(epsilon=2, delta=1e-5)
NAMES = {
    "postgres": tuple(name for name in awkward.COLUMNS if name != "more"),  # it has no unsigned numbers
    "pyspark": ("code", "letters", "dose", "age", "share", "money", "admitted", "zoned"),
}
# Py4J leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]
CLIQUES = [(0,), (1, 2), (4, 3)]


@pytest.fixture(scope="module")
def cluster():
    with databases.spark() as (_, connection):
        yield connection


@pytest.fixture(params=["postgres", heavy("pyspark")])
def loaded(request, tmp_path):
    """The engine's name, and what puts an Arrow table into it and gives its expression."""
    if request.param == "postgres":
        connection = databases.to_postgres(request.getfixturevalue("server"))

        def load(held):
            with database_errors.asking():
                return connection.create_table("records", held, overwrite=True)

        yield request.param, load
        connection.disconnect()
        return
    connection = request.getfixturevalue("cluster")

    def read(held):
        pq.write_table(held, tmp_path / "records.parquet")
        with database_errors.asking():
            return connection.read_parquet(tmp_path / "records.parquet")

    yield request.param, read


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def kept(store, codec):
    """What is kept of every unit, sorted, and three tables of it."""
    store = store.encoded_by(codec)
    found = store.table.rows(store.codes).to_pandas().astype(np.int64)
    columns = sorted(found.columns)
    rows = found[columns].sort_values(columns).reset_index(drop=True)
    return rows, store.counts(CLIQUES, codec.sizes), store.weights(CLIQUES, codec.sizes), store.units


@pytest.mark.heavy
def test_typed_cells_have_the_codecs_codes(loaded):
    engine, load = loaded
    names = NAMES[engine]
    held, schema = awkward.table(90, names=names), awkward.schema_of(names)
    frame, codec = held.to_pandas(), Codec(schema)
    with tables.opened(tables.table(load(held))) as opened:
        found = awkward.codes_in(opened, schema)
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}


@pytest.mark.heavy
def test_the_records_of_a_unit_that_count_are_the_same_in_every_engine(loaded, tmp_path):
    _, load = loaded
    frame, codec = make_frame(60, repeats=6), Codec(SCHEMA)
    frame.loc[:2, "patient"] = None
    frame.to_parquet(tmp_path / "there.parquet", index=False)
    found = []
    for source in (tables.parquet(tmp_path / "there.parquet"), tables.table(load(arrow(frame)))):
        with tables.opened(source) as opened:
            found.append(kept(CountedTable.of(opened, SCHEMA, b"key"), codec))
    pd.testing.assert_frame_equal(found[0][0], found[1][0])
    for one, other in zip(
        (*found[0][1], *found[0][2], found[0][3]), (*found[1][1], *found[1][2], found[1][3]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_fit_is_the_fit_of_the_frame(loaded):
    _, load = loaded
    columns = {"sex": {"kind": "categorical", "categories": ["female", "male"]}}
    schema, frame = make_schema(columns=columns), make_frame(80)
    synthesizer = Synthesizer("independent", schema=schema, budget=BUDGET)
    there = synthesizer.fit(tables.table(load(arrow(frame))), seed=3)
    pd.testing.assert_frame_equal(there.sample(50, seed=1), synthesizer.fit(frame, seed=3).sample(50, seed=1))


def other_sessions(server, words):
    """Run a statement of a test's own, in a session of its own."""
    import psycopg

    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as session:
        return session.execute(words).fetchall()


def test_a_database_that_goes_away_leaves_the_charge_and_one_line(server, tmp_path, monkeypatch):
    connection = databases.to_postgres(server)
    with database_errors.asking():
        table = connection.create_table("visits", arrow(make_frame(40).assign(sex="male")), overwrite=True)
    asked = CountedTable.counts

    def stopped(self, *words):
        other_sessions(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return asked(self, *words)

    monkeypatch.setattr(CountedTable, "counts", stopped)
    synthesizer = Synthesizer("independent", schema=make_schema(), budget=BUDGET)
    with pytest.raises(BadInput, match=r"the database did not answer .*stays charged") as caught:
        synthesizer.fit(table, ledger=tmp_path / "ledger")
    assert "\n" not in str(caught.value)
    assert "male" not in str(caught.value)
    assert [entry.count for entry in Ledger.read(tmp_path / "ledger").entries()] == [1]


def test_nothing_is_left_in_postgres(server):
    connection = databases.to_postgres(server)
    with database_errors.asking():
        table = connection.create_table("mine", arrow(make_frame(40)), overwrite=True)
    before = other_sessions(server, "SELECT relname FROM pg_class ORDER BY relname")
    Synthesizer("independent", schema=SCHEMA, budget=BUDGET).fit(table)
    assert other_sessions(server, "SELECT relname FROM pg_class ORDER BY relname") == before
    connection.disconnect()


@pytest.mark.parametrize("declared", ["numeric", "numeric(1000, 500)"])
def test_no_decimal_is_too_long_for_a_fit_that_is_charged(server, declared):
    """PostgreSQL raises where a decimal is no float64: one record could have ended a fit that was charged."""
    schema = Schema(columns=(Continuous(name="x", bounds=(-10.0, 10.0), bins=4, missing=True),))
    codec = Codec(schema)
    values = {"1e400": 3, "-1e400": 0, "1e-400": 2, "-1e-400": 2, "9.99": 3, "-7": 0, "'NaN'": 4, "NULL": 4}
    connection = databases.to_postgres(server)
    with database_errors.asking():
        connection.raw_sql(f"DROP TABLE IF EXISTS decimals; CREATE TABLE decimals (x {declared})").close()
        rows = ", ".join(f"({value})" for value in values)
        connection.raw_sql(f"INSERT INTO decimals VALUES {rows}").close()  # noqa: S608 - of this test
        expression = connection.table("decimals")
    with tables.opened(tables.table(expression)) as opened:
        (found,) = CountedTable.of(opened, schema, b"key").encoded_by(codec).counts([(0,)], codec.sizes)
    assert found.tolist() == np.bincount(list(values.values()), minlength=5).tolist()
    connection.disconnect()


def test_an_enum_of_postgres_is_counted_as_text(server):
    """Ibis takes it for text, but PostgreSQL has no bytes of it, by which texts are told apart."""
    few, many = ("A", "B", "none"), tuple(f"v{number}" for number in range(70))  # compared one by one, and looked up
    schema = Schema(columns=(Categorical(name="few", categories=few), Categorical(name="many", categories=many)))
    connection = databases.to_postgres(server)
    with database_errors.asking():
        for name, values in (("few", few), ("many", many)):
            connection.raw_sql(f"CREATE TYPE {name} AS ENUM ({', '.join(map(repr, values))})").close()
        connection.raw_sql("CREATE TABLE enums (few few, many many)").close()
        connection.raw_sql("INSERT INTO enums VALUES ('A', 'v1'), ('none', 'v69'), ('A', 'v1')").close()
        expression = connection.table("enums")
    codec = Codec(schema)
    with tables.opened(tables.table(expression)) as opened:
        few, many = CountedTable.of(opened, schema, b"key").encoded_by(codec).counts([(0,), (1,)], codec.sizes)
    assert few.tolist() == [2, 0, 1]
    assert {place: count for place, count in enumerate(many.tolist()) if count} == {1: 2, 69: 1}
    connection.disconnect()
