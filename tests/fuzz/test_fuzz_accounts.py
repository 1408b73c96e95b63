"""Accounts: bytes flipped, rows edited with their chains made anew, tables and triggers added."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from clinic import rewrite
from fuzzing import edited, flipped, fuzz
from hypothesis import strategies as st

from synthdp.budgets import AccountFile
from synthdp.cli import budgets

KEPT = sorted((Path(__file__).parents[1] / "compat" / "format1" / "accounts").glob("*.account"))
pytestmark = pytest.mark.fuzz


def use(path):
    account = AccountFile(path=path)
    standing = account.read()
    budgets.lines(path, standing)
    json.dumps(budgets.told(path, standing), default=str)


def test_flipped_bytes(tmp_path):
    def prop(data):
        path = tmp_path / "a.account"
        path.write_bytes(data)
        use(path)

    fuzz(prop, data=st.sampled_from(KEPT).flatmap(lambda path: flipped(path.read_bytes())))


def bodies(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return [json.loads(text) for (text,) in connection.execute(f"SELECT body FROM {table} ORDER BY number")]  # noqa: S608


def test_edited_rows(tmp_path):
    held = {(path, table): bodies(path, table) for path in KEPT for table in ("charges", "states")}

    def prop(drawn):
        (kept, table), rows = drawn
        path = tmp_path / "b.account"
        shutil.copy(kept, path)
        rewrite(path, table, [json.dumps(body) for body in (rows if isinstance(rows, list) else [rows])])
        use(path)

    places = st.sampled_from(sorted(held))
    fuzz(prop, drawn=places.flatmap(lambda at: st.tuples(st.just(at), edited(held[at]))))


def test_cells_of_other_types(tmp_path):
    cells = st.one_of(
        st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.binary(max_size=40), st.just(b"\xff" * 64)
    )
    columns = st.sampled_from(
        [
            "account.version",
            "account.fingerprint_key",
            *(f"{t}.{c}" for t in ("charges", "states") for c in ("body", "previous", "hash", "number")),
        ]
    )

    def prop(kept, column, cell):
        path = tmp_path / "c.account"
        shutil.copy(kept, path)
        table, name = column.split(".")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            try:
                connection.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = 1", (cell,))  # noqa: S608
            except sqlite3.IntegrityError:
                return
        use(path)

    fuzz(prop, kept=st.sampled_from(KEPT), column=columns, cell=cells)
