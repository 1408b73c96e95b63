"""Histories that are counted in DuckDB and PostgreSQL are those in memory, cell for cell; one person's rows move nothing but that person's cells."""

import databases
import duckdb
import ibis
import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from linked_clinic import LAB, clinic, labs, schema, tangled, with_labs, without

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import View
from synthdp.schema.schema import Schema
from synthdp.seal import HistoryTables
from synthdp.seal.counted_histories import OrderedTable
from synthdp.seal.history_records import ordered
from synthdp.tables import source
from synthdp.testing.made_up import ORDERED

KEY = b"k" * 32
ENGINES = ("duckdb", "postgres")


@pytest.fixture(scope="module")
def server():
    with databases.postgres() as folder:
        yield folder


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
    rows = {f"{each.table}{ending}" for each in view.below for ending in (" row", " last")}
    plain = [name for name in view.sizes if name not in bags | rows]
    pairs = [*zip(plain, plain[1:] + plain[:1], strict=True), *((name, plain[3]) for name in bags)]
    yield HistoryTables(view, tuple((name, "number of records") for name in view.of_unit), 1.0)
    yield HistoryTables(view, (*((name,) for name in plain), *pairs), 1.0, clip)
    for each in view.below:
        told = [(name,) for name in each.columns]
        told += [(other, name) for name in each.columns for other in view.before(name) if other != name]
        yield HistoryTables(view, tuple(told), 1.0, clip, each.table)


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
    differing = [
        name for name, one, other in zip(names, found, expected, strict=True) if not np.array_equal(one, other)
    ]
    assert not differing, differing


def nasty():
    """The tangled tables with rows that several people hold and more of them than count, cells that are missing, and values out of bounds."""
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
    return {**frames, "lab": lab.astype({"urgent": "boolean"}), "visit": visit}


@pytest.mark.parametrize("clip", [1.0, 3.0])
def test_tables_of_nasty_people_are_those_in_memory(load, clip):
    compare(load, nasty(), with_labs().settled(), clip)


SINGLE = make_schema(**ORDERED).settled()


def single(rows=90):
    """Records of one table, some of one time and alike but for a column, and some without a unit or a time."""
    frame = make_frame(rows, repeats=5)
    frame.loc[10:14, "patient"] = None
    frame.loc[20:39, "seen"] = frame["seen"][20]
    frame.loc[40:44] = frame.loc[[40] * 5].to_numpy()
    frame.loc[[50, 51], "seen"] = pd.NaT
    return frame


def test_tables_of_one_table_are_those_in_memory(load):
    compare(load, single(), SINGLE)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_tables_of_files_are_those_in_memory(tmp_path, ending):
    frame, path = single(), tmp_path / f"records.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    compare(lambda _: source.files(path), frame, SINGLE)
