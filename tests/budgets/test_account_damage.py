"""An account that is empty, cut, stripped, or carries what synthdp did not put there is damaged, never new (law 44)."""

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
from clinic import rewrite
from sweeps import sweep

from synthdp.budgets import AccountFile, Cap, chain
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian

ONE = Budget(1.0, 1e-6)
PLAN = (Entry(Gaussian(5.0), 3),)
ABOUT = {"generator": "independent", "settings": {}, "rehearsal": False, "ledger": None}
PLACES = 400  # bytes of the file that are flipped
FIRST = 3  # number of the first fit, after the opening and the version of the table


def of_ours(key):
    return f"ours-{key.hex()[:4]}"


def enter(account):
    return account.enter(ABOUT, PLAN, ONE, "record", of_ours)


@pytest.fixture
def account(tmp_path):
    return AccountFile(path=tmp_path / "a", cap=Cap(epsilon=30.0, delta=1e-3))


@pytest.fixture
def used(account):
    """Two fits, of which the first ended."""
    account.mark(enter(account), "finished")
    enter(account)
    return account


def edit(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def texts(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return [text for (text,) in connection.execute(f"SELECT body FROM {table} ORDER BY number")]  # noqa: S608


def refused(account, says="is damaged"):
    """Whoever asks is refused, in one line, and nothing is made in its place."""
    before = account.path.read_bytes()
    asked = (account.read, account.open, lambda: account.check(ONE, "record"), lambda: enter(account))
    for ask in (*asked, lambda: account.mark(FIRST, "finished")):
        with pytest.raises(BadInput, match=says) as caught:
            ask()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 600
    assert account.path.read_bytes() == before


# Empty, cut, stripped


def test_an_empty_file_is_damaged_and_never_new(account):
    account.path.touch()
    refused(account, "is empty")


def test_cut_anywhere_it_is_damaged(used):
    whole = used.path.read_bytes()
    for length in (
        1,
        15,
        16,
        99,
        100,
        511,
        512,
        4095,
        4096,
        5000,
        8192,
        len(whole) // 2,
        len(whole) - 4096,
        len(whole) - 1,
    ):
        used.path.write_bytes(whole[:length])
        refused(used, "damaged|not an account")


def test_stripped_of_all_charges_it_is_damaged(used):
    edit(used.path, "DELETE FROM charges", "DELETE FROM states")
    refused(used, "no charges")


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_charges_cut_off_behind_the_back_of_the_states_are_missed(account, kept):
    enter(account)
    account.mark(enter(account), "finished")
    edit(account.path, f"DELETE FROM charges WHERE number > {kept}")  # noqa: S608
    refused(account)


def test_the_key_is_the_one_that_the_account_was_opened_with(used):
    edit(used.path, f"UPDATE account SET fingerprint_key = '{'0' * 64}'")  # noqa: S608
    refused(used)


# What synthdp did not put there

FOREIGN = {
    "a trigger that swallows": "CREATE TRIGGER t BEFORE INSERT ON charges BEGIN SELECT RAISE(IGNORE); END",
    "a trigger that removes": "CREATE TRIGGER t AFTER INSERT ON charges BEGIN DELETE FROM charges WHERE number = new.number; END",
    "a trigger on states": "CREATE TRIGGER t AFTER INSERT ON states BEGIN DELETE FROM charges WHERE number > 2; END",
    "a view": "CREATE VIEW t AS SELECT * FROM charges",
    "a table": "CREATE TABLE t (x)",
    "an index": "CREATE INDEX t ON charges (body)",
    "a column": "ALTER TABLE charges ADD COLUMN t TEXT",
}


@pytest.mark.parametrize("statement", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_synthdp_did_not_make_is_refused_by_name(used, statement):
    edit(used.path, statement)
    refused(used, "'t'|table 'charges'")


def test_a_view_in_the_place_of_the_charges_is_refused(used):
    edit(used.path, "ALTER TABLE charges RENAME TO t", "CREATE VIEW charges AS SELECT * FROM t WHERE number < 3")
    refused(used)


def test_a_table_of_another_form_is_refused(used):
    rows = "number INTEGER PRIMARY KEY, body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL"
    edit(used.path, "DROP TABLE states", f"CREATE TABLE states ({rows})")
    refused(used, "table 'states'")


def test_a_row_that_is_not_there_when_it_is_read_back_is_no_charge(used, monkeypatch):
    """As if the file had swallowed it, whoever did that."""
    connect = sqlite3.connect

    class Swallows(sqlite3.Connection):
        def execute(self, statement, *values):
            swallowed = statement.startswith("INSERT INTO charges")
            return super().execute("SELECT 1") if swallowed else super().execute(statement, *values)

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=Swallows))
    with pytest.raises(BadInput, match="did not keep"):
        enter(used)
    monkeypatch.undo()
    assert len(used.read().fits) == 2


def test_a_charge_that_is_gone_after_the_commit_is_no_charge(used, monkeypatch):
    """As if another file had been put in the place of the account meanwhile, or the file system lied."""
    before, read = used.path.read_bytes(), chain.read

    def replaced(path, **options):
        path.with_name("old").write_bytes(before)
        path.with_name("old").replace(path)
        return read(path, **options)

    monkeypatch.setattr(chain, "read", replaced)
    with pytest.raises(BadInput, match="did not keep"):
        used.mark(FIRST, "failed")


# Broken and hostile content

CELLS = {
    "a body that is no text": "UPDATE charges SET body = CAST(body AS BLOB) WHERE number = 2",
    "a body of bytes that are no UTF-8": "UPDATE charges SET body = CAST(x'7bfffe7d' AS TEXT) WHERE number = 2",
    "a body that is a number": "UPDATE states SET body = 7",
    "a hash that is no text": "UPDATE charges SET hash = CAST(hash AS BLOB) WHERE number = 2",
    "a key that is no text": "UPDATE account SET fingerprint_key = x'00ff'",
    "a key that is no hexadecimal number": "UPDATE account SET fingerprint_key = 'zz'",
    "a key of another length": "UPDATE account SET fingerprint_key = '00'",
    "a version that is no number": "UPDATE account SET version = 'one'",
    "two accounts": "INSERT INTO account SELECT * FROM account",
    "another number": "UPDATE charges SET number = 9223372036854775807 WHERE number = 3",
}


@pytest.mark.parametrize("statement", CELLS.values(), ids=CELLS.keys())
def test_a_cell_of_another_kind_is_damage(used, statement):
    edit(used.path, statement)
    refused(used, "damaged|does not have version")


DEEP = 200_000
BODIES = {
    "no JSON": "{",
    "no object": "[1]",
    "nested": "[" * DEEP + "]" * DEEP,
    "nested within what Python reads": '{"kind":"fit","settings":' + "[" * 800 + "]" * 800 + "}",
    "many digits": '{"kind":"fit","delta":' + "9" * 4301 + "}",
    "bytes that are no UTF-8": '{"kind":"\udcff"}',
    "nothing": "{}",
    "a kind that is a list": '{"kind":["fit"]}',
}


@pytest.mark.parametrize("text", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("table", ["charges", "states"])
def test_a_body_that_synthdp_does_not_write_is_damage_however_well_hashed(used, table, text):
    rewrite(used.path, table, [*texts(used.path, table), text])
    start = time.monotonic()
    refused(used)
    assert time.monotonic() - start < 2.5  # five questions


HUGE = 10**400
FIELDS = {
    "kind": ["other", None, 1, "opened"],
    "price": [
        None,
        [],
        {},
        {"loss": 1.0},
        {"loss": "1", "delta": 0.1},
        {"loss": -1.0, "delta": 0.0},
        {"loss": HUGE, "delta": 0},
    ],
    "epsilon": [None, "nan", "-inf", -1, True, HUGE, float("nan"), float("inf")],
    "delta": [None, "much", -1e-9, float("-inf")],
    "relation": [None, 1, []],
    "unit": [None, {}],
    "by": [None, 1],
    "time": [None, 0],
    "generator": [None, 3],
    "settings": [None, []],
    "rehearsal": [None, 0],
    "ledger": [0, []],
    "plan": [None, {}],
    "fingerprint": [None, 5],
}


@pytest.mark.parametrize("field", sweep(FIELDS, [*FIELDS][::4].__contains__))
def test_a_fit_s_field_of_another_kind_is_damage(used, field):
    *others, last = texts(used.path, "charges")
    for value in ("left out", *FIELDS[field]):
        body = json.loads(last)
        if value == "left out":
            del body[field]
        else:
            body[field] = value
        rewrite(used.path, "charges", [*others, json.dumps(body)])
        edit(used.path, "DELETE FROM states")  # which names the old hashes
        refused(used)


OPENINGS = {
    "filter": ["strong", None, [], {}],
    "order": ["2", 0.5, float("nan"), HUGE, True],
    "cap": [
        {},
        [],
        {"epsilon": "1", "delta": 0.1},
        {"epsilon": 1},
        {"epsilon": 0, "delta": 0.1},
        {"epsilon": 1, "delta": 0.1, "x": 1},
    ],
}


@pytest.mark.parametrize("field", OPENINGS)
def test_terms_of_another_kind_are_damage(used, field):
    first, *_ = texts(used.path, "charges")
    for value in OPENINGS[field]:
        body = {**json.loads(first), field: value}
        rewrite(used.path, "charges", [json.dumps(body)])
        edit(used.path, "DELETE FROM states")
        refused(used)


@pytest.mark.parametrize("fit", [99, 0, 1, True, "3", None, [3], HUGE])
def test_states_and_additions_name_fits_that_are_there(used, fit):
    *_, last = texts(used.path, "states")
    rewrite(used.path, "states", [json.dumps({**json.loads(last), "fit": fit})])
    refused(used)
    rewrite(used.path, "states", [])
    more = {"kind": "more", "fit": fit, "price": {"loss": 0.1, "delta": 0.0}, "plan": [], "by": "x", "time": "y"}
    rewrite(used.path, "charges", [*texts(used.path, "charges"), json.dumps(more)])
    refused(used)


def test_a_row_of_many_megabytes_is_damage(used):
    rewrite(used.path, "charges", [*texts(used.path, "charges"), json.dumps({"kind": "x" * (5 << 20)})])
    start = time.monotonic()
    refused(used)
    assert time.monotonic() - start < 2.5


def standing_of(account):
    """None where it is refused."""
    try:
        return account.read()
    except BadInput:
        return None
    finally:
        for left in ("-journal", "-wal", "-shm"):
            account.path.with_name(account.path.name + left).unlink(missing_ok=True)


def same(one, other):
    return (one.key, one.cap, one.fits, one.fingerprints, one.changes, one.hashes) == (
        other.key,
        other.cap,
        other.fits,
        other.fingerprints,
        other.changes,
        other.hashes,
    )


def test_flipped_anywhere_it_stands_as_it_stood_or_is_refused(used, tmp_path):
    """Bits of the whole header, of each page's first bytes, and at places all over the file."""
    whole, expected = used.path.read_bytes(), used.read()
    pages = [page + byte for page in range(0, len(whole), 4096) for byte in range(12)]
    spread = range(0, len(whole), max(1, len(whole) // PLACES))
    written = [place for place in spread if whole[place]]
    other = AccountFile(path=tmp_path / "flipped")
    refusals = 0
    for place in sorted({*range(100), *pages, *written}):
        for bits in (0x01, 0x80):
            flipped = bytearray(whole)
            flipped[place] ^= bits
            other.path.write_bytes(flipped)
            found = standing_of(other)
            refusals += found is None
            assert found is None or same(found, expected), place
    assert refusals > 50


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is not an account"):
        AccountFile(path=tmp_path / "pipe").read()


# Makers that were killed


def test_a_maker_killed_at_any_moment_leaves_nothing_or_an_account(tmp_path):
    """Killed before and after each call to the operating system by which the file appears."""
    calls = ("fsync", "link", "unlink")
    for name in calls:
        for when in ("before", "after"):
            folder = tmp_path / f"{name}-{when}"
            folder.mkdir()
            account = AccountFile(path=folder / "a")
            child = os.fork()
            if child == 0:
                plain = getattr(os, name)

                def dies(*given, plain=plain, when=when, **options):
                    if when == "after":
                        plain(*given, **options)
                    os._exit(9)

                setattr(os, name, dies)
                enter(account)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, "the call is not made"
            standing = account.read()
            assert standing is None or not standing.fits
            enter(account)
            assert len(account.read().fits) == 1


def test_where_files_cannot_be_linked_they_are_renamed(account, monkeypatch):
    def link(*_, **__):
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", link)
    enter(account)
    assert [path.name for path in account.path.parent.iterdir()] == ["a"]
    enter(account)
    assert len(account.read().fits) == 2


def test_an_account_that_appears_meanwhile_is_not_written_over(account, tmp_path, monkeypatch):
    other = AccountFile(path=tmp_path / "other")
    number = enter(other)
    link = os.link

    def slow(source, target, **options):
        shutil.copy(other.path, account.path)
        link(source, target, **options)

    monkeypatch.setattr(os, "link", slow)
    assert enter(AccountFile(path=account.path)) > number


def test_a_journal_of_an_account_that_is_gone_is_not_played_into_a_new_one(account, tmp_path):
    account.path.with_name("a-journal").write_bytes(b"of another file")
    with pytest.raises(BadInput, match="a-journal"):
        enter(account)
    assert not account.path.exists()
