"""Tables of databases on the command line: DuckDB and PostgreSQL, in and out, and no password anywhere."""

import math
import os
import subprocess
import sys
import warnings
from itertools import count

import databases
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from clinic import make_frame, make_schema

from synthdp.cli import evaluations
from synthdp.cli import run as main
from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.tables import database_url

duckdb = pytest.importorskip("duckdb", reason="needs the extra database")


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_frame(300)  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect("clinic.db") as connection:
        connection.execute("create table visits as select * from frame")
    make_schema().save(tmp_path / "schema.yaml")
    (tmp_path / "cohort.sql").write_text("select * from visits where age > 0;\n")
    return tmp_path


@pytest.fixture
def run(capsys):
    def ran(*words, status=0):
        capsys.readouterr()
        found = main(words)
        said = capsys.readouterr()
        assert found == status, said.err
        assert status == 0 or len(said.err.splitlines()) == 1, said.err
        return said.err if status else said.out

    return ran


CAP = ("account.cap.epsilon=3", "account.cap.delta=1e-5")
URL = "duckdb:///clinic.db"
FIT = ("fit", "data.schema=schema.yaml", "generator=independent", "budget.epsilon=1")


@pytest.mark.heavy
def test_a_table_goes_from_its_database_to_a_release_and_back(clinic, run):
    words = ("data.table=visits", f"data.path={URL}")
    run("schema", f"path={URL}", "table=visits", "out=draft.yaml")
    assert set(Schema.load("draft.yaml").names) == set(make_schema().names)
    assert "check" in run("check", *words, "data.schema=schema.yaml")
    assert "guarantee" in run(*FIT, *words, "account=a.account", "out=one")
    assert "guarantee" in run(*FIT, *words, "account=a.account", "out=two", "data.engine=memory")
    assert "2 fits" in run("budget", "account=a.account")
    run("sample", "release=one/release", "rows=50", "out=duckdb:///made.db#synthetic")
    assert "exists" in run("sample", "release=one/release", "rows=50", "out=duckdb:///made.db#synthetic", status=2)
    run("sample", "release=one/release", "rows=70", "out=duckdb:///made.db#synthetic", "force=true")
    os.symlink("clinic.db", "link.db")
    for real in (f"{URL}#visits", "duckdb:///link.db#main.Visits"):
        refusal = run("sample", "release=one/release", "rows=5", f"out={real}", "force=true", status=2)
        assert "holds the records that were fitted" in refusal
    run("sample", "release=one/release", "rows=5", f"out={URL}#beside", "force=true")
    back = record_files.from_database(database_url.address("duckdb:///made.db#synthetic"), make_schema())
    assert len(make_schema().validate(back)) == 70
    run("split", f"path={URL}#visits", "schema=schema.yaml", "out=parts")
    assert sum(len(pd.read_parquet(f"parts/{name}.parquet")) for name in ("train", "held_out")) == 300


def test_synthetic_records_in_a_database_are_judged(clinic, run, monkeypatch):
    seen = []
    monkeypatch.setattr(evaluations, "evaluated", lambda samples, *_, **__: seen.extend(samples) or {"targets": {}})
    monkeypatch.setattr(evaluations, "headline", lambda _: [])
    made = database_url.address("duckdb:///made.db#synthetic")
    record_files.write_to_database([make_frame(30)], made, make_schema(), replace=False)
    make_frame(40).to_csv("test.csv", index=False)
    words = (f"data.train={URL}", "data.table=visits", "data.test=test.csv", "data.schema=schema.yaml", "out=x")
    run("evaluate", "synthetic=duckdb:///made.db#synthetic", *words)
    (synthetic,) = seen
    assert len(make_schema().validate(synthetic)) == 30


@pytest.mark.parametrize(
    ("said", "kind"), [("the model broke", RuntimeError), ("Query interrupted", KeyboardInterrupt)]
)
def test_a_table_is_written_whole_or_not_at_all(clinic, said, kind):
    """Also where DuckDB makes an error of Ctrl-C."""
    address = database_url.address("duckdb:///made.db#main.synthetic")
    record_files.write_to_database([make_frame(30)], address, make_schema(), replace=False)

    def failing():
        yield make_frame(10)
        raise RuntimeError(said)

    with pytest.raises(kind):
        record_files.write_to_database(failing(), address, make_schema(), replace=True)
    assert database_url.read(address).num_rows == 30
    with duckdb.connect("made.db") as connection:
        assert connection.execute("show tables").fetchall() == [("synthetic",)]


@pytest.mark.heavy
def test_a_writer_that_stops_leaves_the_older_table_or_the_new_one(clinic, monkeypatch):
    """The older one was dropped before the new one had its name."""
    address = database_url.address("duckdb:///made.db#synthetic")
    record_files.write_to_database([make_frame(30)], address, make_schema(), replace=False)
    plain = database_url.quoted
    for last in count(1):
        left = iter(range(last))

        def quoted(name, left=left):
            """Stops before the n-th name that is put into a statement."""
            next(left)
            return plain(name)

        with monkeypatch.context() as patch:
            patch.setattr(database_url, "quoted", quoted)
            try:
                record_files.write_to_database([make_frame(10)], address, make_schema(), replace=True)
                break
            except StopIteration:
                pass
        assert database_url.read(address).num_rows == 30
        with duckdb.connect("made.db") as connection:
            assert connection.execute("show tables").fetchall() == [("synthetic",)]
    assert database_url.read(address).num_rows == 10
    assert last > 10


@pytest.mark.heavy
def test_a_query_is_fitted_and_is_another_data_set(clinic, run):
    words = (f"data.path={URL}", "account=a.account")
    run(*FIT, *words, *CAP, "data.query_file=cohort.sql", "out=one")
    assert "account" in run(*FIT, *words, "data.table=visits", "out=two", status=2)


@pytest.mark.heavy
def test_plan_refuses_what_a_fit_in_the_database_will_refuse(clinic, run):
    columns = {"age": {"kind": "integer", "bounds": "learn", "bins": "learn"}, "ill": {"kind": "boolean"}}
    Schema.from_dict({"units": 300, "declared_by": "the tests", "columns": columns}).save("learned.yaml")
    words = ("plan", "data.schema=learned.yaml", "generator=independent", "budget.epsilon=1", "account=a.account")
    (clinic / "parts").mkdir()
    (clinic / "parts" / "one.csv").write_text("age,ill\n1,true\n")
    for path in (f"{URL}#visits", "parts"):
        said = run(*words, f"data.path={path}", status=2)
        assert "'age' (bounds and bins)" in said
        assert "data.engine=memory" in said
        assert "plan" in run(*words, f"data.path={path}", "data.engine=memory")


def test_a_generator_that_needs_records_says_how(clinic, run):
    words = ("fit", f"data.path={URL}#visits", "data.schema=schema.yaml", "account=none", "out=one")
    assert "memory" in run(*words, "generator=dpgan", status=2)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((f"data.path={URL}",), "data.table=NAME"),
        ((f"data.path={URL}#visits", "data.table=visits"), "one way only"),
        ((f"data.path={URL}#nothing",), "table 'nothing' cannot be read"),
        (("data.path=duckdb:///nothing.db#visits",), "no such database"),
        (("data.path=clinic.csv", "data.table=visits"), "belong to data.path=URL"),
        ((f"data.path={URL}", "data.query_file=nothing.sql"), "nothing.sql: no such file"),
        (("data.path=postgresql://me:HUSH@host/visits", "data.table=visits"), "PGPASSWORD"),
        (("data.path=postgresql://me@host/db?password=HUSH", "data.table=visits"), "PGPASSWORD"),
        (("data.path=postgresql://me@host/db?options=x", "data.table=visits"), "takes no 'options'"),
        (("data.path=postgresql://me@host/db", "data.table=visits", "data.engine=duckdb"), "leave it out"),
        (("data.path=postgresql://me@127.0.0.1:9/db", "data.table=visits"), "cannot be opened"),
        (("data.path=postgresql://me@127.0.0.1:x/db", "data.table=visits"), "must look like postgresql://"),
        (("data.path=postgresql://me@[host/db", "data.table=visits"), "such as postgresql://"),
    ],
)
def test_what_is_refused_takes_a_line_without_a_password(clinic, run, monkeypatch, words, says):
    monkeypatch.setenv("PGPASSWORD", "HUSH")
    error = run(*FIT, *words, "account=none", "out=x", status=2)
    assert says in error
    assert "HUSH" not in error


def test_what_is_said_after_the_path_of_a_duckdb_file_is_no_password():
    said = "out=duckdb:///made.duckdb: write to a folder, or to a database (postgresql://user@host/name#schema)"
    assert str(BadInput(said)) == said
    assert str(BadInput(f"{said}, not to postgresql://me:HUSH@host")) == f"{said}, not to postgresql://me:***@host"


def test_without_an_account_it_asks_for_one(clinic, run):
    assert "account=FILE" in run(*FIT, f"data.path={URL}#visits", "out=x", status=2)


@pytest.mark.heavy
def test_postgresql(server, clinic, run, monkeypatch):
    import psycopg

    monkeypatch.setenv("PGPASSWORD", "HUSH")
    monkeypatch.setenv("PGSERVICEFILE", str(clinic / "services"))
    (clinic / "services").write_text(f"[hospital]\nhost={server}\nuser={databases.USER}\ndbname=postgres\n")
    make_frame(200).to_csv("clinic.csv", index=False)
    columns = ", ".join(f'"{name}" text' for name in make_frame(1).columns)
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
        connection.execute(f"create table raw ({columns})")
    run(*FIT, "data.path=clinic.csv", "account=none", "out=first")
    url = "postgresql:///?service=hospital"
    run("sample", "release=first/release", "rows=300", f"out={url}#visits")
    said = run(*FIT, f"data.path={url}", "data.table=visits", "account=a.account", "out=one")
    assert "guarantee" in said
    assert len(record_files.from_database(database_url.address(f"{url}#visits"), make_schema())) == 300
    (clinic / "services").write_text(f"[hospital]\nhost={server}\nuser=nobody_here\ndbname=postgres\n")
    run(*FIT, f"data.path={url}", "data.table=visits", "account=none", "out=two", status=2)
    written = [path for path in clinic.rglob("*") if path.is_file()]
    assert not [path for path in written if b"HUSH" in path.read_bytes()]


@pytest.mark.heavy
def test_records_in_postgresql_are_not_replaced_by_another_spelling_of_their_address(server, clinic, run, monkeypatch):
    """The guard compared URLs, so a port or a user in one of them was enough to lose the records."""
    import psycopg

    monkeypatch.setenv("PGSERVICEFILE", str(clinic / "services"))
    (clinic / "services").write_text(f"[hospital]\nhost={server}\nuser={databases.USER}\ndbname=postgres\n")
    real = f"postgresql://postgres@/postgres?host={server}#spelled"
    record_files.write_to_database([make_frame(200)], database_url.address(real), make_schema(), replace=False)
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres", autocommit=True) as connection:
        connection.execute("create database sharing")
    run(*FIT, f"data.path={real}", "account=none", "out=one")
    words = ("sample", "release=one/release", "rows=5", "force=true")
    for spelled in (
        f"postgres://postgres@/postgres?host={server}",
        f"postgresql:///postgres?host={server}&user=postgres",
        f"postgresql://postgres@/postgres?host={server}&port=5432",
        f"postgresql://postgres@/postgres?host={server}/",
        "postgresql:///?service=hospital",
    ):
        for table in ("spelled", "public.Spelled"):
            refusal = run(*words, f"out={spelled}#{table}", status=2)
            assert "holds the records that were fitted" in refusal
    assert database_url.read(database_url.address(real)).num_rows == 200
    for _ in range(2):
        run(*words, f"out=postgresql://postgres@/sharing?host={server}#spelled")
    told = clinic / "one/internal/config.yaml"  # as if their server had gone, or let nobody in
    told.write_text(told.read_text().replace(f"host={server}", "host=/nowhere"))
    assert "may hold the records" in run(*words, f"out={real}", status=2)
    assert "may hold the records" in run(*words, "out=postgresql:///?service=hospital#spelled", status=2)
    run(*words, f"out=postgresql://postgres@/sharing?host={server}#spelled")
    assert database_url.read(database_url.address(real)).num_rows == 200


@pytest.mark.heavy
def test_no_number_of_postgresql_keeps_others_from_being_read(server):
    import psycopg

    held = ["7", "7.25", "NaN", "Infinity", "1e30", "1e-300", None]
    numbers = [7, 7.25, math.nan, math.inf, 1e30, 1e-300, math.nan]
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
        connection.execute("create table numbers (x numeric, y numeric(38, 2))")
        for x in held:
            connection.execute("insert into numbers values (%s, %s)", (x, None if x == "Infinity" else x))
    schema = Schema.from_dict({"columns": {"x": {"kind": "continuous", "bounds": [0, 10]}, "y": {"kind": "ignore"}}})
    found = record_files.from_database(
        database_url.address(f"postgresql://postgres@/postgres?host={server}#numbers"), schema
    )
    np.testing.assert_array_equal([math.nan if cell is None else float(cell) for cell in found["x"]], numbers)


@pytest.mark.heavy
def test_no_date_or_time_of_postgresql_keeps_others_from_being_read(server):
    """Those that Python has no word for: an instant beyond the years 1 to 9999 is the nearest within them."""
    import psycopg

    kinds = {"a": "date", "b": "timestamp", "c": "timestamptz", "d": "timestamptz(0)"}
    held = ["2020-01-31", None, "infinity", "-infinity", "0044-03-15 BC", "294276-12-31"]
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
        columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        connection.execute(f"create table days ({columns}, e time, f interval)")
        for day in held:
            connection.execute("insert into days values (%s, %s, %s, %s, '24:00', '178000000 years')", [day] * 4)
        connection.execute("insert into days (c) values ('9999-12-31 23:59:59-14')")
    declared = {name: {"kind": "datetime", "bounds": ["2019-01-01", "2021-01-01"], "missing": True} for name in kinds}
    schema = Schema.from_dict({"columns": {**declared, "e": {"kind": "ignore"}, "f": {"kind": "ignore"}}})
    with pytest.warns(UserWarning, match="column '[cd]': days are counted in UTC") as told:
        found = record_files.from_database(
            database_url.address(f"postgresql://postgres@/postgres?host={server}#days"), schema
        )
    assert len(told) == 2
    (low, high), there = (cells.instant(day) for day in ("2019-01-01", "2021-01-01")), cells.instant("2020-01-31")
    for name in kinds:
        read = cells.instants(found[name])
        assert read.missing.tolist() == [False, True, False, False, False, False, name != "c"]
        clipped = np.clip(read.cells, low, high).tolist()
        assert clipped[:1] + clipped[2:6] == [there, high, low, low, high]


@pytest.mark.heavy
def test_no_type_of_postgresql_keeps_others_from_being_read(server):
    import psycopg

    held = {
        "uuid": "00000000-0000-0000-0000-000000000001",
        "daterange": "[2020-01-01,infinity)",
        "date[]": "{infinity}",
        "numeric[]": "{NaN}",
        "int[]": "{{1,2},{3,4}}",
        "money": "$1.00",
        "inet": "::1/64",
        "timetz": "24:00:00-15:59",
        "jsonb": "[1]",
    }
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(held))
        connection.execute(f"create table kinds ({columns})")
        with connection.cursor().copy("copy kinds from stdin") as copy:
            copy.write_row(list(held.values()))
            copy.write_row([None] * len(held))
    names = [f"c{number}" for number in range(len(held))]
    declared = {name: {"kind": "categorical", "categories": ["a"], "missing": True} for name in names}
    found = record_files.from_database(
        database_url.address(f"postgresql://postgres@/postgres?host={server}#kinds"),
        Schema.from_dict({"columns": {**declared, "c0": {"kind": "identifier"}}}),
    )
    assert [cells.texts(found[name]) for name in names] == [[text, None] for text in held.values()]


@pytest.mark.parametrize(
    ("kind", "cell"), [("BIT", "101"), ("BIGNUM", "5"), ("UHUGEINT", "5"), ("INTERVAL", "1 month")]
)
def test_no_type_of_duckdb_keeps_others_from_being_read(tmp_path, kind, cell):
    with duckdb.connect(tmp_path / "odd.duckdb") as connection:
        connection.execute(f"create table odd (c {kind})")
        connection.execute("insert into odd values (null), (?)", [cell])
    schema = Schema.from_dict({"columns": {"c": {"kind": "categorical", "categories": ["a"], "missing": True}}})
    found = record_files.from_database(database_url.address(f"duckdb:///{tmp_path}/odd.duckdb#odd"), schema)
    assert cells.texts(found["c"]) == [None, cell]


@pytest.mark.heavy
def test_columns_of_odd_names_are_written_and_read(server, tmp_path):
    names = ["share (%)", "%s", "count(*)", "{x}", 'q"x', "a;b", "?", "$1", ":p", "select", "a\nb", "0__unfinished"]
    schema = Schema.from_dict(
        {"columns": {name: {"kind": "integer", "bounds": [0, 20], "missing": True} for name in names}}
    )
    frame = pd.DataFrame({name: pd.array([number, None], "Int64") for number, name in enumerate(names)})
    for url in (f"postgresql://postgres@/postgres?host={server}#odd", f"duckdb:///{tmp_path}/odd.duckdb#odd"):
        record_files.write_to_database([frame], database_url.address(url), schema, replace=False)
        found = record_files.from_database(database_url.address(url), schema)
        pd.testing.assert_frame_equal(found.astype("Int64"), frame)


@pytest.mark.parametrize("kind", ["duckdb", pytest.param("postgresql", marks=pytest.mark.heavy)])
def test_a_schema_that_cannot_be_named_is_refused_by_its_name(request, tmp_path, kind):
    """What was said was to look for a view with a table's name, or whether the table is there."""
    types, names, part = pa.schema([("a", pa.int64())]), ["a.b", "50%", 'q"q'], pa.table({"a": [1]})
    url = f"duckdb:///{tmp_path}/odd.duckdb"
    if kind == "duckdb":
        with duckdb.connect(tmp_path / "odd.duckdb") as connection:
            for name in (*names, "per%s"):
                connection.execute(f"create schema {database_url.quoted(name)}")
    else:
        psycopg, server = pytest.importorskip("psycopg"), request.getfixturevalue("server")
        url = f"postgresql://postgres@/postgres?host={server}"
        with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
            for name in (*names, "per%s"):
                connection.execute(f"create schema {database_url.quoted(name)}")
    for name in names:
        one, all_of_it = (database_url.address(url, table) for table in (f"{name}.t", name))
        for refused in (
            lambda: database_url.write([part], types, one, replace=False),  # noqa: B023 - called at once
            lambda: database_url.write_tables({"t": ([part], types)}, all_of_it, replace=False),  # noqa: B023
            lambda: database_url.read(one),  # noqa: B023
            lambda: database_url.read_tables(all_of_it, ["t"]),  # noqa: B023
            lambda: database_url.tables_in(all_of_it),  # noqa: B023
        ):
            with pytest.raises(BadInput, match="a dot or a quotation mark, or begins with a digit") as refusal:
                refused()
            assert repr(name) in str(refusal.value)
            assert "view has a table's name" not in str(refusal.value)
    assert database_url.write([part], types, database_url.address(url, "per%s.t"), replace=False) == 1
    with pytest.raises(BadInput, match="check that the schema is there"):
        database_url.write([], types, database_url.address(url, "nowhere.t"), replace=False)


@pytest.mark.heavy
def test_no_name_that_postgresql_would_cut_loses_another_table(server):
    """A table of 63 letters, of which nobody said that it may be replaced, was dropped for one of 64 that begin alike."""
    import psycopg

    url, name = f"postgresql://postgres@/postgres?host={server}", "t" * 63
    with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as connection:
        connection.execute(f"create table {name} (patient text)")
    types, real = pa.schema([("a", pa.int64())]), pa.schema([("patient", pa.string())])
    for longer in ("t", "\u00e9"):
        for force in (False, True):
            with pytest.raises(BadInput, match="has at most 63 bytes; choose a shorter one"):
                database_url.write([], types, database_url.address(url, name[1:] + "\u00e9" + longer), replace=force)
            with pytest.raises(BadInput, match="has at most 63 bytes; choose a shorter one"):
                database_url.write([], types, database_url.address(url, name + longer), replace=force)
    with pytest.raises(BadInput, match="has at most 63 bytes; choose a shorter one"):
        database_url.write([], pa.schema([("c" * 64, pa.int64())]), database_url.address(url, name), replace=True)
    assert database_url.read(database_url.address(url, name)).schema.names == real.names
    one = pa.table({"a": [1]}, types)
    assert database_url.write([one], types, database_url.address(url, name), replace=True) == 1
    assert database_url.read(database_url.address(url, name)).to_pydict() == {"a": [1]}


KILLED = """
import os, sys
import pyarrow as pa
from synthdp.tables import database_url

url, table = sys.argv[1:]
types, part = pa.schema([("a", pa.int64())]), pa.table({"a": range(100)})

def killed():
    yield part
    if url.startswith("postgresql"):
        assert database_url.write([part, part, part], types, database_url.address(url, table), replace=True) == 300
    yield part
    os._exit(9)

database_url.write(killed(), types, database_url.address(url, table), replace=True)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["postgresql", "duckdb"])
def test_a_killed_writer_leaves_the_older_table_and_nothing_else(request, tmp_path, kind):
    """In PostgreSQL another one may write the same table meanwhile: their rows were mixed."""
    types, part = pa.schema([("a", pa.int64())]), pa.table({"a": range(100)})
    url = f"duckdb:///{tmp_path}/made.duckdb"
    if kind == "postgresql":
        url = f"postgresql://postgres@/postgres?host={request.getfixturevalue('server')}"
    address = database_url.address(f"{url}#main.made" if kind == "duckdb" else f"{url}#public.made")
    database_url.write([part, part], types, address, replace=True)

    done = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, url, address.table], timeout=120)
    assert done.returncode == 9
    assert database_url.read(address).num_rows == (200 if kind == "duckdb" else 300)
    tables = database_url.tables_in(database_url.address(f"{url}#{'main' if kind == 'duckdb' else 'public'}"))
    assert not [name for name in tables if "unfinished" in name]


@pytest.mark.heavy
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_days_in_a_database_are_warned_of_where_their_instants_are_kept_in_utc(engine, tmp_path, monkeypatch, capsys):
    """No midnight but that of UTC stays on its day, and a database does not keep the zone in which it was written."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("stays.db") as connection:
        connection.execute("create table stays (seen timestamptz, written timestamp)")
        connection.execute(
            "insert into stays select d, d from range(date '2024-01-01', date '2025-01-01', interval 1 day) t(d)"
        )
    day = {"kind": "datetime", "bounds": ["2020-01-01", "2029-12-31"], "resolution": "day"}
    columns = {"seen": day, "written": day}
    Schema.from_dict({"name": "stays", "declared_by": "the tests", "units": 366, "columns": columns}).save("s.yaml")
    words = ("data.path=duckdb:///stays.db#stays", "data.schema=s.yaml", f"data.engine={engine}")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["fit", *words, "generator=independent", "account=none", "out=fit"]) == 0
    (said,) = (line for line in capsys.readouterr().err.splitlines() if "time zone" in line)
    assert "column 'seen': days are counted in UTC, so midnight in another time zone may fall on another day" in said
    assert "SQL, for example: seen AT TIME ZONE" in said
