"""Histories that are counted in DuckDB and PostgreSQL are those in memory, cell for cell."""

from itertools import combinations
from types import SimpleNamespace

import databases
import ibis
import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from linked_clinic import DECLARED, LAB, clinic, labs, schema, tangled, with_labs, without
from sweeps import heavy, sweep

from synthdp import Budget, Synthesizer
from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import View
from synthdp.schema.number_levels import LEVELS
from synthdp.seal import HistoryTables
from synthdp.seal.counted_histories import OrderedTable
from synthdp.seal.database import CountedTable
from synthdp.seal.history_records import ordered
from synthdp.sets import record_files
from synthdp.tables import database_url, source
from synthdp.testing.made_up import ORDERED

KEY = b"k" * 32
ENGINES = ("duckdb", "postgres")
IN_DUCKDB = pytest.mark.parametrize("load", sweep(ENGINES, lambda engine: engine == "duckdb"), indirect=True)


@pytest.fixture(params=ENGINES)
def load(request):
    """What puts frames into an engine and gives the linked tables, or the one table, there."""
    with source.asking():
        connection = (
            ibis.duckdb.connect()
            if request.param == "duckdb"
            else databases.to_postgres(request.getfixturevalue("server"))
        )

    def loaded(frames):
        with source.asking():
            tables = {
                name: connection.create_table(name, ibis.memtable(frame), overwrite=True)
                for name, frame in (frames if isinstance(frames, dict) else {"records": frames}).items()
            }
        return source.linked(tables) if isinstance(frames, dict) else source.table(tables["records"])

    yield loaded
    connection.disconnect()


def questions(view, clip=2.0):
    """Every column with another one, of units, of records, and of the rows of each table below records."""
    bags = {name for each in view.below for name in (*each.columns, *("previous " + name for name in each.columns))}
    leveled = {start + name for each in view.below for name in each.levels for start in ("", "previous ")}
    rows = {f"{each.table}{ending}" for each in view.below for ending in (" row", " last", " again")}
    plain = [name for name in view.sizes if name not in bags | rows | leveled | {*view.ending}]
    pairs = [*zip(plain, plain[1:] + plain[:1], strict=True), *((name, plain[3]) for name in sorted(bags))]
    yield HistoryTables(view, tuple((name, "number of records") for name in (*view.of_unit, *view.ending)), 1.0)
    yield HistoryTables(view, (*((name,) for name in plain), *pairs), 1.0, clip)
    yield broadly(view, clip)
    for each in view.below:
        told = [(name,) for name in each.columns]
        told += [(other, name) for name in each.columns for other in view.before(name) if other not in {name, *leveled}]
        told += [tuple(f"previous {name}" for name in each.further[:2])] if each.further else []
        told += [(f"{each.table} again", name) for name in each.columns]
        yield HistoryTables(view, tuple(told), 1.0, clip, each.table)
        if each.leveled:
            yield HistoryTables(view, tuple(of_levels(view, each)), 1.0, clip, each.table, starts(each))


def broadly(view, clip):
    """Every two of a record's own columns with their codes in made-up places, one of them beside codes as they are."""
    rng = np.random.default_rng(3)
    places = {name: tuple(rng.integers(0, min(3, view.sizes[name]), view.sizes[name]).tolist()) for name in view.own}
    cliques = [
        *combinations(("broad " + name for name in view.own), 2),
        (f"broad {view.own[0]}", view.own[-1], "place"),
    ]
    return HistoryTables(view, tuple(cliques), 1.0, clip, broad=tuple(places.items()))


def starts(below, seed=0):
    """Made-up ones, other for each code, some of which are alike."""
    rng, found = np.random.default_rng(seed), []
    for name, (_, end) in zip(below.levels, below.leveled, strict=True):
        of_codes = np.sort(rng.integers(0, end + 1, (below.none, LEVELS - 1)), 1)
        found.append((name, tuple((*each, end) for each in of_codes.tolist())))
    return tuple(found)


def of_levels(view, below):
    """Tables of levels and of previous ones with all that may stand beside them."""
    for name in below.levels:
        before = "previous " + name
        yield from ((name,), (before,), (before, name), (below.code, before, name))
        yield from ((*clique, name) for clique in view.cliques(name))
        yield from (
            (f"{below.table} row", before),
            (f"{below.table} again", before),
            ("previous " + below.further[0], before, "place"),
        )
        yield from ((before, "previous " + other) for other in below.levels if other != name)
        yield from ((code, before) for code in view.sizes if code == "diagnosis.code" and below.code != code)
    for name in below.columns:
        yield from ((other, name) for other in view.before(name) if other in below.levels)


def in_memory(frames, of, key=KEY):
    return ordered(frames, of, key).encoded_by(Codec(of))


def everything(store, of, clip=2.0):
    return [table for question in questions(View.of(Codec(of)), clip) for table in question.bounded(store)]


def there(loaded, of, ask, key=KEY):
    with source.opened(loaded) as opened:
        return ask(OrderedTable.of(opened, of, key).encoded_by(Codec(of)))


def compare(load, frames, of, clip=2.0):
    found, units = there(load(frames), of, lambda store: (everything(store, of, clip), store.units))
    memory = in_memory(frames, of)
    assert units == memory.units
    expected = everything(memory, of, clip)
    assert len(found) == len(expected) > 20
    names = [clique for question in questions(View.of(Codec(of)), clip) for clique in question.cliques]
    assert (
        sum(table.sum() for name, table in zip(names, expected, strict=True) if "level of" in name[0]) > 0
        or not of.tables
    )
    differing = [
        name for name, one, other in zip(names, found, expected, strict=True) if not np.array_equal(one, other)
    ]
    assert not differing, differing


def nasty():
    """The tangled tables with more rows than count that several people hold, missing cells, and values out of bounds."""
    frames = labs(tangled(), seed=4)
    visit = frames["visit"]
    shared = visit["visit_id"][7]
    more = pd.DataFrame({"visit_id": [shared] * 6, "test": "K", "value": [3.5, 3.5, 1e9, -1e9, None, 60.0]})
    more = more.assign(taken=pd.Timestamp("2023-01-01") + pd.to_timedelta(range(6), unit="D"), urgent=True)
    more.loc[1, "taken"] = pd.NaT
    lab = pd.concat(
        [frames["lab"], more, more.assign(visit_id=visit["visit_id"][9], test="no such")], ignore_index=True
    )
    lab.loc[3, "test"] = None
    visit["no_show"] = visit["no_show"].astype("boolean")
    visit.loc[2:4, ["ward", "no_show"]] = None
    visit.loc[[5, 6], "start"] = [pd.NaT, pd.Timestamp("1960-01-01 12:34")]
    person = frames["person"]
    ends = pd.Timestamp("2021-02-01") + pd.to_timedelta(range(0, 60, 6), unit="D")  # all in one bin of the schema
    several = [person.iloc[10:20].assign(death=end) for end in ends]
    return {
        **frames,
        "person": pd.concat([person, *several], ignore_index=True),
        "lab": lab.astype({"urgent": "boolean"}),
        "visit": visit,
    }


@pytest.mark.parametrize("clip", sweep([1.0, 3.0], lambda clip: clip == 1))
@IN_DUCKDB
def test_tables_of_nasty_people_are_those_in_memory(load, clip):
    compare(load, nasty(), with_labs().settled(), clip)


@pytest.mark.heavy
@IN_DUCKDB
def test_an_empty_cell_of_a_date_that_is_never_missing_is_its_lower_bound(load):
    """As in memory: it took part in the choice of a person's row, and in the time from the last visit, as if it could be missing."""
    columns = DECLARED["tables"]["person"]["columns"]
    death = {**columns["death"], "missing": False, "resolution": "hour"}
    of = with_labs(tables={"person": {"columns": {**columns, "death": death}}}).settled()
    frames = nasty()
    assert frames["person"]["death"].isna().any()
    compare(load, frames, of)


SINGLE = make_schema(**ORDERED).settled()


def single(rows=90):
    """Records of one table, some of one time and alike but for a column, and some without a unit or a time."""
    frame = make_frame(rows, repeats=5)
    frame.loc[10:14, "patient"] = None
    frame.loc[20:39, "seen"] = frame["seen"][20]
    frame.loc[40:44] = frame.loc[[40] * 5].to_numpy()
    frame.loc[[50, 51], "seen"] = pd.NaT
    return frame


@IN_DUCKDB
def test_tables_of_one_table_are_those_in_memory(load):
    compare(load, single(), SINGLE)


@IN_DUCKDB
def test_tables_of_people_with_thousands_of_records_are_those_in_memory(load):
    """Their squares in all tables together are no small numbers."""
    count = (1, 30, 40, 300, 10_001)
    frame = make_frame(sum(count)).assign(patient=np.repeat([f"P{each}" for each in count], count))
    of = make_schema(**{**ORDERED, "max_records_per_unit": 10_000}).settled()
    view = View.of(Codec(of))
    few = [name for name, size in view.sizes.items() if size < 100]
    question = HistoryTables(
        view, tuple((name, other) for name in few for other in ("stage", "ill", "gap")), 1.0, 1000.0
    )
    assert len(question.cliques) * 10_000**2 > 2**31
    found = there(load(frame), of, question.bounded)
    for one, other in zip(found, question.bounded(in_memory(frame, of)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("ending", ["parquet", heavy("csv")])
def test_tables_of_files_are_those_in_memory(tmp_path, ending):
    frame, path = single(), tmp_path / f"records.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    compare(lambda _: source.files(path), frame, SINGLE)


CODES = [f"c{code:02d}" for code in range(90, 0, -1)]  # so many are looked up in a table of their own, and not in order


LONG = "measured_by_a_device_whose_name_fills_all_that_postgres_reads_"
DAYS = {"kind": "datetime", "bounds": ["1950-01-01 06:00", "1970-01-01 11:00"], "resolution": "hour", "missing": True}
GRADE = {"kind": "ordinal", "categories": ["low", "middle", "high"], "missing": True}  # not in the order of their texts


def odd():
    """Another schema of such tables, and frames: rows that name their person, many codes, whole numbers as keys, seconds before 1970, days
    after the last instant within bounds, and names of columns of which only the end differs."""
    own = {"person_id": {"kind": "identifier"}, "code": {"kind": "categorical", "categories": CODES}}
    visit = {"start": {"kind": "datetime", "bounds": ["1950-01-01", "1975-01-01"], "resolution": "second", "bins": 8}}
    taken = {"kind": "datetime", "bounds": ["1949-01-01", "1976-01-01"], "resolution": "microsecond", "missing": True}
    score = {"kind": "integer", "bounds": [-5, 5], "bins": 4, "atoms": [0, 3]}
    dose = {"kind": "continuous", "bounds": [0, 9], "bins": 3, "atoms": [9], "missing": True}
    columns = {
        f"{LONG}test": LAB["columns"]["urgent"],
        "grade": GRADE,
        f"{LONG}score": score,
        f"{LONG}dose": dose,
        "taken": taken,
        "day": DAYS,
    }
    tables = {
        "visit": {"columns": {**visit, "ward": LAB["columns"]["test"], "no_show": {"kind": "boolean"}}},
        "diagnosis": {"columns": own},
        "lab": {**LAB, "columns": columns},
    }
    rng, people = np.random.default_rng(5), 30
    person = clinic(people)["person"].assign(person_id=range(people))
    count = 4 * people
    start = pd.Timestamp("1950-06-01 11:59:59.75") + pd.to_timedelta(rng.integers(0, 24 * 366, count), unit="D")
    start = start.where(rng.random(count) < 0.7, pd.Timestamp("1969-12-31 23:59:59.999999"))
    named = {"visit_id": rng.integers(0, 60, count), "person_id": rng.integers(0, people + 2, count)}
    visits = pd.DataFrame({**named, "start": start, "ward": "K", "no_show": rng.random(count) < 0.5})
    rows = {"visit_id": rng.integers(0, 65, 400)}
    whose = pd.Series(rng.integers(0, people, 400), dtype="Int64").mask(rng.random(400) < 0.1)
    diagnosis = pd.DataFrame({**rows, "person_id": whose, "code": rng.choice([*CODES, "no such"], 400)})
    moment = pd.Timestamp("1962-01-01 05:00:00.000001") + pd.to_timedelta(rng.integers(-5000, 5000, 400), unit="D")
    score, grade = rng.integers(-9, 9, 400), rng.choice([*GRADE["categories"], "no such"], 400)
    dose = pd.Series(rng.choice([0.0, 1.5, 4.0, 9.0, 99.0], 400)).mask(rng.random(400) < 0.2)
    read = {f"{LONG}test": rng.random(400) < 0.5, f"{LONG}score": score, f"{LONG}dose": dose, "taken": moment}
    lab = pd.DataFrame({**rows, **read, "day": moment.date, "grade": grade})
    lab.loc[lab["visit_id"] < 20, "taken"] = pd.NaT
    return schema(tables=tables, rules=None).settled(), {
        "person": person,
        "visit": visits,
        "diagnosis": diagnosis,
        "lab": lab,
    }


@pytest.mark.heavy
@IN_DUCKDB
def test_tables_of_odd_kinds_are_those_in_memory(load):
    of, frames = odd()
    compare(load, frames, of)


@pytest.mark.heavy
def test_keys_that_postgres_fills_with_blanks_are_read_without_them(server):
    """Of a `char(n)` the server compares and hashes a key as if the blanks were not there; so does memory, and an empty one is none."""
    of, frames = with_labs().settled(), nasty()
    url = f"postgresql:///postgres?host={server}&user={databases.USER}"
    with source.asking():
        connection = databases.to_postgres(server)
        for name, frame in frames.items():
            connection.create_table(name, ibis.memtable(frame), overwrite=True)
            for key in {"person_id", "visit_id"} & set(frame):
                connection.con.execute(f"ALTER TABLE {name} ALTER COLUMN {key} TYPE char(9)")
        connection.disconnect()
    address = database_url.address(url, "public")
    with database_url.closing(database_url.linked(address, frames)) as loaded:
        found = there(loaded, of, lambda store: everything(store, of))
    read = record_files.tables_from_database(address, of)
    assert set(read["visit"]["person_id"].dropna().str.len()) >= {0, 5}
    for other in (read, frames):
        for one, expected in zip(found, everything(in_memory(other, of), of), strict=True):
            np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("people", [["alike"], heavy(["P0003", "P0011"])], ids=str)
def test_no_person_moves_the_tables_by_more_than_the_sensitivity(people):
    of, frames = with_labs().settled(), nasty()
    with source.asking():
        connection = ibis.duckdb.connect()

    def bounded(frames):
        with source.asking():
            made = {name: connection.create_table(name, ibis.memtable(f), overwrite=True) for name, f in frames.items()}
        asked = list(questions(View.of(Codec(of))))
        return there(source.linked(made), of, lambda store: [(each, each.bounded(store)) for each in asked])

    whole = bounded(frames)
    for person in people:
        for (question, one), (_, other) in zip(whole, bounded(without(frames, person)), strict=True):
            assert question.movement(one, other) <= question.sensitivity * (1 + 1e-15)
            assert question.movement(one, other) > 0 or (person != "alike" and question.clip is not None)
    connection.disconnect()


def test_linked_tables_are_read_at_one_moment(server, monkeypatch):
    """Law 18: what somebody else writes after the first table was read is in none that is read later."""
    import psycopg

    of, frames, kept = with_labs().settled(), nasty(), source.Opened.keep
    with source.asking():
        connection = databases.to_postgres(server)
        made = {
            name: connection.create_table(name, ibis.memtable(frame), overwrite=True) for name, frame in frames.items()
        }

    def keep(self, expression):
        found = kept(self, expression)
        with psycopg.connect(host=str(server), user=databases.USER, dbname="postgres") as other:
            for name in frames:
                other.execute(f"DELETE FROM {name}")  # noqa: S608
        return found

    monkeypatch.setattr(source.Opened, "keep", keep)
    found = there(source.linked(made), of, lambda store: everything(store, of))
    for one, other in zip(found, everything(in_memory(frames, of), of), strict=True):
        np.testing.assert_array_equal(one, other)
    assert connection.con.execute("SELECT count(*) FROM visit").fetchone() == (0,)
    assert connection.con.isolation_level is None
    connection.disconnect()


@IN_DUCKDB
def test_only_sums_of_cells_leave_the_database_and_nothing_stays(load, monkeypatch):
    of, left, rows = with_labs().settled(), set(), source.Opened.rows
    loaded = load(nasty())
    backend = loaded.expression.get_backend()

    def names():
        with source.asking():
            return {name for name in backend.list_tables() if "memtable" not in name}  # those hold the frames

    before = names()

    def watched(self, expression):
        found = rows(self, expression)
        left.add(tuple(found.column_names))
        return found

    monkeypatch.setattr(source.Opened, "rows", watched)
    there(loaded, of, lambda store: (everything(store, of), store.units))
    assert left == {("cell", "number"), ("number",)}
    assert names() == before


@pytest.mark.heavy
def test_a_fit_is_the_fit_of_the_frames(load):
    of, frames = with_labs(), labs(clinic(60, seed=1), seed=1)
    synthesizer = Synthesizer("histories", schema=of, budget=Budget(3.0, 1e-5), rounds=1, iterations=5)
    made = [synthesizer.fit(given, seed=3).sample_tables(40, seed=1) for given in (load(frames), frames)]
    for name in frames:
        pd.testing.assert_frame_equal(made[0][name], made[1][name])


def test_what_cannot_be_counted_is_refused_by_name_before_anything_is_charged(tmp_path):
    of, frames = with_labs(), labs(clinic(20))
    fit = Synthesizer("histories", schema=of, budget=Budget(3.0, 1e-5)).fit
    spark = SimpleNamespace(get_backend=lambda: SimpleNamespace(name="pyspark"))
    book = tmp_path / "ledger"
    with pytest.raises(
        BadInput, match=r"counted in DuckDB and PostgreSQL\. Spark cannot read linked tables at one moment"
    ):
        fit(source.linked(dict.fromkeys(frames, spark)), ledger=book)
    with source.asking():
        connection = ibis.duckdb.connect()
        made = {name: connection.create_table(name, ibis.memtable(frame)) for name, frame in frames.items()}
    with pytest.raises(BadInput, match="schema describes linked tables"):
        fit(made["visit"], ledger=book)
    with pytest.raises(BadInput, match="links the tables person, visit, diagnosis, lab"):
        fit(source.linked({**made, "other": made["lab"]}), ledger=book)
    wrong = made["visit"].mutate(visit_id=made["visit"].start)
    with pytest.raises(
        BadInput, match="table 'visit': column 'visit_id' is declared identifier and stored as timestamp"
    ):
        fit(source.linked({**made, "visit": wrong}), ledger=book)
    with pytest.raises(BadInput, match=r"table 'visit': .*ward"):
        fit(source.linked({**made, "visit": made["visit"].mutate(ward=ibis.literal("a secret"))}), ledger=book)
    untimed = made["visit"].mutate(start=made["visit"].start.nullif(made["visit"].start.min()))
    with pytest.raises(BadInput, match=r"table .visit.: .*though the column says what follows what") as refusal:
        fit(source.linked({**made, "visit": untimed}), ledger=book)
    assert "missing: true" not in str(refusal.value)
    coded = made["diagnosis"].mutate(code=made["diagnosis"].code.nullif("E11"))
    with pytest.raises(BadInput, match=r"table .diagnosis.: .*though the column says what a row is"):
        fit(source.linked({**made, "diagnosis": coded}), ledger=book)
    numbered = make_schema(**{**ORDERED, "order": "age"})
    with pytest.raises(BadInput, match=r"order is a date, but column 'age' is integer: read the tables into memory"):
        Synthesizer("histories", schema=numbered, budget=Budget(3.0, 1e-5)).fit(made["visit"], ledger=book)
    assert not book.exists()
    connection.disconnect()


@IN_DUCKDB
def test_one_table_answers_about_its_records_as_without_an_order(load):
    cliques, codec = [(0,), (1, 2)], Codec(SINGLE)
    found = []
    for kind in (OrderedTable, CountedTable):
        with source.opened(load(single())) as opened:
            store = kind.of(opened, SINGLE, KEY).encoded_by(codec)
            found.append([*store.counts(cliques, codec.sizes), *store.weights(cliques, codec.sizes), store.units])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
