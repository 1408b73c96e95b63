"""Records that stay in a database: counted there as in memory, bounded per unit, and nothing left behind."""

import math
import signal
import stat
import subprocess
import sys
import time

import ibis
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from clinic import contracts, kind_of, make_frame, make_schema, quick
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.budgets import AccountFile
from synthdp.ledger.events import Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema
from synthdp.seal.charging import Account
from synthdp.seal.database import CountedTable
from synthdp.seal.door import Sensitive
from synthdp.seal.learn import Size
from synthdp.seal.marginals import Distance, Marginals
from synthdp.seal.records import seal
from synthdp.seal.teachers import Estimators
from synthdp.seal.vectors import Group, Sums
from synthdp.tables import source as database_errors
from synthdp.tables import source as tables
from synthdp.tables import table_check

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
CODEC = Codec(SCHEMA)
CLIQUES = ((0,), (1, 2), (0, 1, 5), (4, 3))
GROUPS = (np.array([0, 1, 1, 0, 1]), None, np.array([1, 0, 2, 1]), None, np.arange(6) // 2, None)
KEY = b"k" * 32
BUDGET = Budget(epsilon=2, delta=1e-5)


def counted(frame, schema, tmp_path, key=KEY):
    """The table of codes of a frame that lies in a Parquet file, while it is open."""
    frame.to_parquet(tmp_path / "records.parquet", index=False)
    return tables.opened(tables.parquet(tmp_path / "records.parquet", folder=tmp_path)), schema, key


def answers(frame, schema, tmp_path, ask, key=KEY):
    opening, schema, key = counted(frame, schema, tmp_path, key)
    with opening as opened:
        return ask(CountedTable.of(opened, schema, key).encoded_by(Codec(schema)))


def in_memory(frame, schema):
    return seal(frame, schema, KEY).encoded_by(Codec(schema))


def everything(store):
    return [
        *store.counts(CLIQUES, CODEC.sizes),
        *store.counts(CLIQUES, CODEC.sizes, GROUPS),
        *store.weights(CLIQUES, CODEC.sizes),
        np.array(float(store.units)),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("rows", [0, 1, 500])
@pytest.mark.parametrize("unit", [None, "patient"])
def test_counts_are_those_of_the_same_records_in_memory(tmp_path, rows, unit):
    schema = SCHEMA if unit else make_schema()
    frame = make_frame(rows, repeats=3) if rows else make_frame(1).iloc[:0]
    if rows > 1 and unit:
        frame.loc[:1, "patient"] = None  # one unit together
    found = answers(frame, schema, tmp_path, everything)
    for one, other in zip(found, everything(in_memory(frame, schema)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def kept_of(frame, tmp_path, key=KEY):
    """The kept records (rows, codes) with what is known of their unit, sorted."""

    def ask(store):
        found = store.table.rows(store.codes).to_pandas()
        return found.sort_values(list(found.columns)).reset_index(drop=True)

    return answers(frame, SCHEMA, tmp_path, ask, key)


def test_which_records_of_a_unit_count_hangs_on_that_unit_and_the_key_alone(tmp_path):
    frame = make_frame(120, repeats=10)
    kept = kept_of(frame, tmp_path)
    assert len(kept) == 12 * 3
    assert (kept["kept"] == 3).all()
    pd.testing.assert_frame_equal(kept_of(frame.sample(frac=1, random_state=1), tmp_path), kept)
    for patient in ("p0", "p7"):
        alone, others = (
            kept_of(frame[mask], tmp_path) for mask in (frame["patient"] == patient, frame["patient"] != patient)
        )
        together = pd.concat([alone, others])
        pd.testing.assert_frame_equal(together.sort_values(list(kept.columns)).reset_index(drop=True), kept)
    assert not kept_of(frame, tmp_path, b"another key").equals(kept)


@pytest.mark.heavy
def test_each_record_of_a_unit_is_as_likely_to_count_as_any_other(tmp_path):
    """Nine records alike and one that is not, of each of 400 patients: three in ten keep the other one (binomial, 5 deviations)."""
    frame = pd.concat([make_frame(1, seed=2)] * 4000, ignore_index=True)
    frame["patient"] = [f"p{row // 10}" for row in range(4000)]
    frame["sex"] = ["male" if row % 10 else "female" for row in range(4000)]
    tables_ = answers(frame, SCHEMA, tmp_path, lambda store: store.counts([(1,)], CODEC.sizes))
    assert tables_[0].sum() == 1200
    assert abs(tables_[0][0] - 120) < 5 * math.sqrt(400 * 0.3 * 0.7)


@pytest.mark.parametrize(
    "question",
    [
        Marginals(CLIQUES, CODEC.sizes, 2.0, 3),
        Marginals(CLIQUES, CODEC.sizes, 2.0, 3, GROUPS),
        heavy(
            Distance(((0,), (1, 2)), CODEC.sizes, (np.full(CODEC.sizes[0], 2.0), np.full(CODEC.sizes[1:3], 0.1)), 2.0)
        ),
        heavy(Size(2.0)),
    ],
    ids=["tables", "groups", "distance", "size"],
)
def test_a_unit_more_or_less_moves_an_answer_by_at_most_its_sensitivity(tmp_path, question):
    frame = make_frame(60, repeats=20)
    alike = pd.concat([make_frame(1, seed=4)] * 20, ignore_index=True).assign(patient="p-new")
    awful = make_frame(8, seed=9).assign(
        patient=None, age=10**9, sex="never declared", dose=math.inf, seen=pd.NaT, stage=None
    )
    before = answers(frame, SCHEMA, tmp_path, question.bounded)
    for extra in (alike, awful):
        after = answers(pd.concat([frame, extra], ignore_index=True), SCHEMA, tmp_path, question.bounded)
        moved = question.movement(before, after)
        assert moved <= question.sensitivity * (1 + 1e-9)
        assert moved > 0 or isinstance(question, Distance)  # whose tables may move to and fro
    nothing = answers(frame.iloc[:0], SCHEMA, tmp_path, question.bounded)
    if isinstance(question, Marginals):  # twenty records alike fill the bound
        full = answers(alike, SCHEMA, tmp_path, question.bounded)
        assert question.movement(nothing, full) == pytest.approx(question.sensitivity)


def test_a_fit_from_a_file_is_the_fit_of_its_frame(tmp_path):
    schema, frame = make_schema(), make_frame(400)
    frame.to_parquet(tmp_path / "records.parquet")
    synthesizer = Synthesizer("independent", schema=schema, budget=BUDGET)
    there = synthesizer.fit(
        tables.parquet(tmp_path / "records.parquet"), seed=3, ledger=tmp_path / "ledger", fitness=0.1
    )
    here = synthesizer.fit(frame, seed=3, fitness=0.1)
    pd.testing.assert_frame_equal(there.sample(200, seed=1), here.sample(200, seed=1))
    assert there.statement.epsilon == here.statement.epsilon
    assert there.statement.fitness == here.statement.fitness
    assert there.statement.events == here.statement.events


COUNTED = [name for name in contracts() if kind_of(name).traits.counted]


@pytest.mark.heavy
@pytest.mark.parametrize("name", sweep(COUNTED, ("independent", "mst").__contains__))
def test_whoever_says_that_counts_suffice_asks_for_no_more(tmp_path, name):
    schema, frame = SCHEMA, make_frame(90, repeats=3)
    frame.to_parquet(tmp_path / "records.parquet", index=False)
    synthesizer = Synthesizer(quick(name), schema=schema, budget=BUDGET)
    there, here = (synthesizer.fit(given, seed=3) for given in (tables.parquet(tmp_path / "records.parquet"), frame))
    pd.testing.assert_frame_equal(there.sample(30, seed=1), here.sample(30, seed=1))
    assert there.statement.events == here.statement.events


@pytest.mark.heavy
def test_folders_patterns_and_csv_are_read_alike(tmp_path):
    schema, frame = make_schema(), make_frame(300)
    folder = tmp_path / "parts"
    folder.mkdir()
    frame.iloc[:100].to_parquet(folder / "a.parquet")
    frame.iloc[100:].to_parquet(folder / "b.parquet")
    (folder / "_SUCCESS").touch()
    frame.to_csv(tmp_path / "records.csv", index=False)
    fitted = [
        Synthesizer("independent", schema=schema, budget=BUDGET).fit(source, seed=3).sample(50, seed=1)
        for source in (
            tables.parquet(folder),
            tables.parquet(folder / "*.parquet"),
            tables.csv(tmp_path / "records.csv"),
            frame,
        )
    ]
    for each in fitted[:-1]:
        pd.testing.assert_frame_equal(each, fitted[-1])


def test_an_expression_is_counted_by_its_own_connection(tmp_path):
    schema, frame = make_schema(), make_frame(300)
    frame.to_parquet(tmp_path / "records.parquet")
    with database_errors.asking():
        connection = ibis.duckdb.connect()
        expression = connection.read_parquet(tmp_path / "records.parquet").filter(lambda t: t.age >= 30)
        before = connection.con.execute("SHOW TABLES").fetchall()
    synthesizer = Synthesizer("independent", schema=schema, budget=BUDGET)
    there = synthesizer.fit(expression, seed=3).sample(50, seed=1)
    pd.testing.assert_frame_equal(there, synthesizer.fit(frame[frame["age"] >= 30], seed=3).sample(50, seed=1))
    assert connection.con.execute("SHOW TABLES").fetchall() == before
    with pytest.raises(BadInput, match="public name"):
        synthesizer.fit(expression, account=tmp_path / "account")
    named = tables.table(expression, name="visits of 2025")
    synthesizer.fit(named, account=tmp_path / "account")
    with pytest.raises(BadInput, match="add_version"):
        synthesizer.fit(tables.table(expression, name="others"), account=tmp_path / "account")
    connection.disconnect()


def test_all_tables_are_of_one_snapshot():
    """Law 18: records that come, go or change while a fit runs are in none of its later answers."""
    schema, frame = make_schema(unit="patient", max_records_per_unit=2), make_frame(90, repeats=3)
    with database_errors.asking():
        connection = ibis.duckdb.connect()
        table = connection.create_table("records", frame)
    free = Account(Budget(math.inf, 1e-5), unit="patient")
    with tables.opened(tables.table(table, name="records")) as opened:
        data = Sensitive(opened, schema, free, seed=0)
        data.commit(lambda _: (Entry(Gaussian(0.0), 3),))
        data.resolve()
        cliques = [("sex",), ("age", "ill")]
        before = data.marginals(cliques, 0.0)
        connection.con.execute("DELETE FROM records WHERE sex = 'male'")
        connection.con.execute("INSERT INTO records SELECT * REPLACE ('p-new' AS patient) FROM records LIMIT 5")
        for one, other in zip(before, data.marginals(cliques, 0.0), strict=True):
            np.testing.assert_array_equal(one, other)
        assert before[0].sum() == before[1].sum() == 2 * 30
    connection.disconnect()


def test_what_asks_for_records_is_refused_before_anything_is_charged(tmp_path):
    source = tables.parquet(tmp_path / "absent.parquet")
    for generator in ("dpgan", "kernel_teachers"):
        with pytest.raises(BadInput, match=f"generator {generator} learns from records.*mixture.*into memory"):
            Synthesizer(generator, schema=SCHEMA, budget=BUDGET).fit(source, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()
    opening, _, _ = counted(make_frame(30), SCHEMA, tmp_path)
    with opening as opened:
        book = Ledger(None)
        data = Sensitive(opened, SCHEMA, Account(BUDGET, book, unit="patient"))
        with pytest.raises(BadInput, match="cannot leave a database"):
            data.ask(Sums((Group(lambda codes: codes[:, :1], 1, 1.0, 2.0),)))
        with pytest.raises(BadInput, match="cannot leave a database"), data.sample(0.1):
            pass
        with pytest.raises(BadInput, match="cannot leave a database"):
            data.partition(2, Estimators)
        assert book.entries() == ()


def test_nothing_is_left_behind_however_a_fit_ends(tmp_path):
    source = tables.parquet(tmp_path / "records.parquet", folder=tmp_path / "private")
    (tmp_path / "private").mkdir()
    make_frame(50).to_parquet(tmp_path / "records.parquet")

    def stopped_by(error):
        with tables.opened(source):
            (folder,) = (tmp_path / "private").iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            raise error

    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error):
            stopped_by(error)
        assert list((tmp_path / "private").iterdir()) == []
    Synthesizer("independent", schema=make_schema(), budget=BUDGET).fit(source)
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize(("said", "kind"), [("Query interrupted", KeyboardInterrupt), ("another", RuntimeError)])
def test_a_query_that_is_interrupted_is_no_fault_of_the_program(said, kind):
    """DuckDB makes an error of its own of Ctrl-C."""
    with pytest.raises(kind), tables.asking():
        raise RuntimeError(said)


@pytest.mark.heavy
def test_a_statement_without_an_end_is_stopped_by_ctrl_c():
    """DuckDB would raise at once, and then wait for its threads, which know nothing of it."""
    script = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
import ibis
from synthdp.tables import source as tables
from synthdp.tables import table_check
asked = ibis.duckdb.connect().sql("SELECT sum(hash(a.range * b.range) % 7) AS n FROM range(4000000) a, range(4000000) b")
table = tables.Opened(expression=asked)
try:
    print("asked", flush=True)
    table.rows(asked)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"asked\n"
            time.sleep(2)  # less, and its threads may end by themselves
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert said == b"stopped\n"


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_process_leaves_nothing_behind_either(tmp_path, number):
    """What does not fit in memory lies in the private folder: a signal's default would leave it there."""
    make_frame(50).to_parquet(tmp_path / "records.parquet")
    (tmp_path / "private").mkdir()
    script = """
import pathlib, signal, sys, time
for number in (signal.SIGHUP, signal.SIGTERM):  # whoever runs the tests may ignore them
    signal.signal(number, signal.SIG_DFL)
from synthdp.tables import source as tables
from synthdp.tables import table_check
here = pathlib.Path(sys.argv[1])
with tables.opened(tables.parquet(here / "records.parquet", folder=here / "private")):
    print("open", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"open\n"
        assert len(list((tmp_path / "private").iterdir())) == 1
        process.send_signal(number)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode not in (0, -signal.SIGKILL)
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize("change", ["other records", "another file"])
def test_files_that_change_between_the_look_at_them_and_the_count_are_refused(tmp_path, change):
    """The account recognised what lay there before."""
    folder = tmp_path / "parts"
    folder.mkdir()
    make_frame(50).to_parquet(folder / "a.parquet")
    synthesizer = Synthesizer("independent", schema=make_schema(), budget=BUDGET)
    account = tmp_path / "account"

    class Meanwhile(AccountFile):
        def enter(self, *given, **named):
            number = super().enter(*given, **named)
            make_frame(50, seed=7).to_parquet(folder / ("a.parquet" if change == "other records" else "b.parquet"))
            return number

    with pytest.raises(BadInput, match="changed while they were read"):
        synthesizer.fit(tables.parquet(folder), account=Meanwhile(path=account))
    assert [fit.state for fit in AccountFile(path=account).read().fits] == ["failed"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", 10**6, "outside the declared bounds"),
        ("sex", "CANARY", "not one of the declared categories"),
        ("dose", -1.0, "outside the declared bounds"),
        ("seen", pd.Timestamp("2031-01-01"), "outside the declared bounds"),
        ("ill", None, "missing"),
    ],
)
def test_the_pre_check_names_what_does_not_fit_and_clamp_lets_it_pass(tmp_path, column, value, message):
    frame = make_frame(40).astype({"ill": object})
    frame.loc[3, column] = value
    frame = frame.astype({"ill": "boolean"})
    frame.to_parquet(tmp_path / "records.parquet")
    synthesizer = Synthesizer("independent", schema=make_schema(), budget=BUDGET)
    said = []
    for given in (tables.parquet(tmp_path / "records.parquet"), frame):
        with pytest.raises(BadInput, match=message) as caught:
            synthesizer.fit(given)
        assert "CANARY" not in str(caught.value)
        said.append(str(caught.value))
    assert said[0] == said[1]
    synthesizer.fit(tables.parquet(tmp_path / "records.parquet"), invalid="clamp")


def test_errors_of_a_database_do_not_repeat_cells(tmp_path):
    lines = make_frame(40).to_csv(index=False).splitlines()
    (tmp_path / "records.csv").write_text("\n".join([*lines, "CANARY,1,2,3,4,5,6,7,8,9,CANARY"]) + "\n")
    with pytest.raises(BadInput, match="line 42: expected 7 cells") as caught:
        Synthesizer("independent", schema=make_schema(), budget=BUDGET).fit(tables.csv(tmp_path / "records.csv"))
    chain, error = [], caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "CANARY" not in "".join(chain)


def test_files_that_are_not_there_or_not_alike(tmp_path):
    synthesizer = Synthesizer("independent", schema=make_schema(), budget=BUDGET)
    with pytest.raises(BadInput, match="no such file"):
        synthesizer.fit(tables.parquet(tmp_path / "absent"))
    make_frame(5).to_parquet(tmp_path / "a.parquet")
    make_frame(5).astype({"age": "float64"}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(BadInput, match=r"b\.parquet: its columns or their types"):
        synthesizer.fit(tables.parquet(tmp_path))
    pq.write_table(
        pq.read_table(tmp_path / "a.parquet").rename_columns([f"x{place}" for place in range(7)]),
        tmp_path / "b.parquet",
    )
    with pytest.raises(BadInput, match="none of the schema's columns"):
        synthesizer.fit(tables.parquet(tmp_path / "b.parquet"))


@pytest.mark.parametrize("most", [40, 5])
@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_a_record_counts_once_whatever_its_column_s_collation_holds_to_be_equal(collation, most):
    """Three records counted as six because "c1" met the category "C1" too; among few categories, "C2" counted as "c2"."""
    marks = [f"{letter}{number}" for letter in "cC\u00e7" for number in range(most)]
    schema = Schema(columns=(Categorical(name="x", categories=tuple(marks)),))
    codec = Codec(schema)
    with database_errors.asking():
        connection = ibis.duckdb.connect()
        connection.con.execute(f"CREATE TABLE t (x VARCHAR COLLATE {collation})")
        connection.con.execute("INSERT INTO t VALUES ('c1'), ('C2'), ('\u00e73')")
        expression = connection.table("t")
    with tables.opened(tables.table(expression)) as opened:
        store = CountedTable.of(opened, schema, KEY).encoded_by(codec)
        (found,) = store.counts([(0,)], codec.sizes)
        assert store.units == 3
        assert [marks[place] for place in np.flatnonzero(found)] == ["c1", "C2", "\u00e73"]
        fewer = Schema(columns=(Categorical(name="x", categories=("C1", "C2", "\u00e73")),))
        with pytest.raises(BadInput, match="declared categories"):
            table_check.validate(fewer, opened, "error")
    connection.disconnect()
