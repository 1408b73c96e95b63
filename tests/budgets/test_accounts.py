"""The account of a data set: charged before anything is asked, never passed, never altered unseen (laws 11, 22 to 26)."""

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from sweeps import heavy

from synthdp import Budget, Synthesizer, generators
from synthdp.accounting import epsilon
from synthdp.budgets import AccountFile, Cap, chain, filters, fingerprint, registry
from synthdp.budgets.entry import entered
from synthdp.budgets.filters import Price
from synthdp.errors import BadInput
from synthdp.ledger.events import Entry, Gaussian, Sampled, Threshold
from synthdp.ledger.ledger import Ledger

ONE = Budget(1.0, 1e-6)
PLAN = (Entry(Gaussian(5.0), 3),)
ABOUT = {"generator": "independent", "settings": {}, "rehearsal": False, "ledger": None}


def table(name="ours"):
    """A fingerprint of a table that is only a name."""
    return lambda key: f"{name}-{key.hex()[:4]}"


def enter(account, budget=ONE, *, plan=PLAN, unit="record", of="ours"):
    return account.enter(ABOUT, plan, budget, unit, table(of))


def edit(path, statement):
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def refused(says, *acts):
    for act in acts:
        with pytest.raises(BadInput, match=says):
            act()


@pytest.fixture
def account(tmp_path):
    return AccountFile(path=tmp_path / "patients.csv.account", cap=Cap(epsilon=3.0, delta=1e-5))


# What is charged, and what is refused


def test_fits_add_up_and_the_one_too_many_is_refused(account):
    for number in range(3):
        assert account.read() is None or account.read().spent.loss == number
        account.check(ONE, "record")
        enter(account)
    standing = account.read()
    assert standing.spent == Price(loss=3.0, delta=3e-6)
    assert standing.left == Price(loss=0.0, delta=7e-6)
    refused(
        r"asks for epsilon 1, .*epsilon 0, .* is left.* epsilon 3, .* epsilon 3, .* is spent",
        lambda: account.check(ONE, "record"),
        lambda: enter(account),
    )
    assert account.read().head == standing.head, "a refused fit leaves no trace"


def test_ten_times_a_tenth_is_one(tmp_path):
    account = AccountFile(path=tmp_path / "a", cap=Cap(epsilon=1.0, delta=1e-5))
    for _ in range(10):
        enter(account, Budget(0.1, 1e-6))
    assert account.read().left == Price(loss=0.0, delta=0.0)
    with pytest.raises(BadInput, match="is left"):
        enter(account, Budget(1e-9, 1e-12))


def test_delta_is_a_budget_too(account):
    with pytest.raises(BadInput, match="delta 1e-05"):
        enter(account, Budget(0.1, 1e-4))


def test_without_a_cap_all_is_recorded_and_nothing_refused(tmp_path):
    account = AccountFile(path=tmp_path / "a")
    for _ in range(50):
        enter(account, Budget(100.0, 0.5))
    enter(account, Budget(math.inf, 1e-6))
    standing = account.read()
    assert standing.left is None
    assert standing.spent.loss == math.inf
    assert standing.spent.delta > 25
    assert len(standing.fits) == 51


def test_an_infinite_budget_is_not_within_a_cap(account):
    with pytest.raises(BadInput, match="epsilon inf"):
        account.check(Budget(math.inf, 1e-6), "record")


def test_whatever_became_of_a_fit_it_is_charged(account):
    numbers = [enter(account) for _ in range(3)]
    for number, state in zip(numbers, ("finished", "failed", "interrupted"), strict=True):
        account.mark(number, state)
    assert [fit.state for fit in account.read().fits] == ["finished", "failed", "interrupted"]
    assert account.read().spent.loss == 3.0


def test_what_is_written_says_who_when_and_on_what(account):
    enter(replace(account, by="Dr. Ada"))
    (fit,) = account.read().fits
    assert fit.by == "Dr. Ada"
    assert fit.time.endswith("+00:00")
    event = {"type": "Gaussian", "noise": 5.0, "relation": "add_remove", "unit": "record"}
    assert fit.body["plan"] == [{"event": event, "count": 3}]
    assert fit.state == "running", "a fit that was killed stays so"


@pytest.mark.parametrize(
    ("budget", "unit", "says"),
    [
        (
            Budget(0.1, 1e-7, "replace_one"),
            "record",
            r"relation is 'replace_one'.* Give budget\.relation=add_remove, or",
        ),
        (Budget(0.1, 1e-7), "patient", r"unit is 'patient'.* Take unit out of the schema, or"),
    ],
)
def test_another_relation_or_unit_is_refused_by_name(account, budget, unit, says):
    enter(account)
    refused(says, lambda: account.check(budget, unit), lambda: enter(account, budget, unit=unit))


# The terms


def test_a_cap_changes_only_when_told_to_and_leaves_a_row(account):
    enter(account)
    other = replace(account, cap=Cap(epsilon=9.0, delta=1e-5))
    refused(r"account.change_cap=true", lambda: other.check(ONE, "record"), lambda: enter(other))
    enter(replace(other, change_cap=True, by="the board"))
    standing = replace(account, cap=None).read()
    assert standing.cap == Cap(epsilon=9.0, delta=1e-5)
    assert [(row["kind"], row["by"]) for row in standing.changes if row["kind"] == "cap"] == [("cap", "the board")]
    with pytest.raises(BadInput, match=r"account.change_cap=true"):
        enter(account)


def test_a_cap_may_be_put_below_what_is_spent(account):
    enter(account)
    lower = replace(account, cap=Cap(epsilon=0.5, delta=1e-5), change_cap=True)
    assert lower.open().left == Price(loss=0.0, delta=9e-6)
    with pytest.raises(BadInput, match="is left"):
        enter(replace(account, cap=None), Budget(0.01, 1e-9))


def test_a_filter_is_fixed_for_good(account):
    account.open()
    with pytest.raises(BadInput, match="cannot be changed"):
        replace(account, filter="renyi").check(ONE, "record")


@pytest.mark.parametrize("values", [(0.0, 1e-6), (math.inf, 1e-6), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.5)])
def test_impossible_caps_are_refused(values):
    with pytest.raises(BadInput, match=r"account.cap"):
        Cap(epsilon=values[0], delta=values[1])


@pytest.mark.parametrize("cap", [Budget(3.0, 1e-5), 3.0])
def test_a_cap_of_another_kind_is_refused_before_the_account_is_made(tmp_path, cap):
    """That of a budget was written with its relation, which made the account a damaged one."""
    with pytest.raises(
        BadInput, match=r"must be Cap\(epsilon=\.\.\., delta=\.\.\.\) of synthdp\.budgets, got (Budget|float)"
    ):
        AccountFile(path=tmp_path / "a", cap=cap)


# Renyi


@pytest.mark.heavy
def test_renyi_holds_more_gaussian_fits_and_is_never_below_the_exact_value(tmp_path):
    cap = Cap(epsilon=3.0, delta=1e-5)
    renyi = AccountFile(path=tmp_path / "renyi", cap=cap, filter="renyi")
    plan = (Entry(Gaussian(20.0)),)  # epsilon about 0.17 at delta 1e-6 each
    budget = Budget(epsilon(plan, 1e-6) + 1e-3, 1e-6)
    with pytest.raises(BadInput, match="is left"):
        [enter(renyi, budget, plan=plan) for _ in range(1000)]
    held = len(renyi.read().fits)
    exact = epsilon((Entry(Gaussian(20.0), held),), cap.delta)
    assert exact <= cap.epsilon < exact * 1.5
    assert renyi.read().left.loss < renyi.read().fits[0].price.loss
    assert held > 2 * cap.epsilon / budget.epsilon, "the additive filter holds 3 / 0.17"


def test_renyi_s_limit_is_the_conversion_of_the_cap():
    cap = Cap(epsilon=2.0, delta=1e-6)
    chosen = filters.Renyi.of(cap)
    limit, a = chosen.limit(cap), chosen.order
    delta = math.exp((a - 1) * (limit.loss - cap.epsilon + math.log1p(-1 / a))) / a  # Canonne et al., proposition 12
    assert delta == pytest.approx(cap.delta / 2, rel=1e-9)
    assert limit.delta == cap.delta / 2


def test_renyi_counts_a_threshold_s_own_delta_and_refuses_what_has_no_bound(tmp_path):
    account = AccountFile(path=tmp_path / "a", cap=Cap(epsilon=3.0, delta=1e-5), filter="renyi")
    enter(account, plan=(Entry(Threshold(40.0, 4e-6, 1)),))
    with pytest.raises(BadInput, match="is left"):
        enter(account, plan=(Entry(Threshold(40.0, 4e-6, 1)),))
    with pytest.raises(BadInput, match="no proof"):
        enter(account, plan=(Entry(Sampled(0.1, (Gaussian(9.0),), "shuffled")),))
    assert len(account.read().fits) == 1


def test_renyi_needs_a_cap_and_keeps_it(tmp_path):
    with pytest.raises(BadInput, match=r"needs account.cap"):
        AccountFile(path=tmp_path / "a", filter="renyi").check(ONE, "record")
    account = AccountFile(path=tmp_path / "a", cap=Cap(epsilon=3.0, delta=1e-5), filter="renyi")
    account.open()
    for other in (Cap(epsilon=4.0, delta=1e-5), Cap(epsilon=2.0, delta=1e-5)):
        with pytest.raises(BadInput, match="cannot be changed"):
            replace(account, cap=other, change_cap=True).open()


# Which table


def test_another_table_is_refused_and_a_newer_version_is_recorded(account):
    enter(account)
    refused(
        r"belongs to another table.*account.add_version=true "
        r"\(in Python account=AccountFile\(path=..., add_version=True\), from synthdp.budgets\)",
        lambda: account.check_table(table("theirs")),
        lambda: enter(account, of="theirs"),
    )
    enter(replace(account, add_version=True), of="theirs")
    enter(account, of="theirs")
    assert len(account.read().fingerprints) == 2
    assert account.read().spent.loss == 3.0, "the same people: what is spent adds up over versions"


HOT, COLD = b"\xd9what a kill leaves", bytes(512)  # SQLite writes a journal's header last


def test_a_journal_under_another_name_stops_every_charge(account):
    """What it takes back would take the charges with it that were made by the other name meanwhile (law 25)."""
    enter(account)
    journal = account.path.with_name(account.path.name + "-journal")
    other = AccountFile(path=account.path.with_name("renamed"))
    account.path.rename(other.path)
    enter(other)  # a new name alone harms nothing
    other.path.rename(account.path)
    for give, back in ((os.link, lambda: other.path.unlink()), (os.rename, lambda: other.path.rename(account.path))):
        give(account.path, other.path)
        journal.write_bytes(HOT)
        with pytest.raises(BadInput, match=f"{journal} has not been rolled back yet. Rename the account back"):
            other.check(ONE, "record")
        with pytest.raises(BadInput, match="has not been rolled back yet"):
            enter(other)
        assert len(other.read().fits) == 2
        journal.write_bytes(COLD)
        other.check(ONE, "record")
        journal.unlink()
        back()
        assert account.path.exists()
        assert not other.path.exists()
    enter(account)
    assert len(account.read().fits) == 3


def test_a_journal_beside_a_name_that_no_row_knows_yet_is_found_by_the_list(account):
    enter(account)
    other = account.path.with_name("linked")
    os.link(account.path, other)
    registry.add(other)
    Path(f"{other}-journal").write_bytes(HOT)
    with pytest.raises(BadInput, match="linked-journal has not been rolled back yet"):
        enter(account)


def test_a_journal_of_another_account_under_an_earlier_name_stops_nothing(account):
    enter(account)
    archived = AccountFile(path=account.path.with_name("archived"))
    account.path.rename(archived.path)
    enter(account)  # a new one
    Path(f"{account.path}-journal").write_bytes(HOT)
    enter(archived)
    assert len(archived.read().fits) == 2


def test_an_account_that_is_mounted_as_a_single_file_is_refused(account, monkeypatch):
    enter(account)
    place = os.path.realpath(account.path).replace("patients", "\\160atients")  # the kernel writes spaces in this way
    lines = f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\nodd\n23 22 8:1 /a {place} rw\x85 - ext4 /dev/sda1 rw\n"
    read = Path.read_text

    def told(path, **how):
        return lines if str(path) == "/proc/self/mountinfo" else read(path, **how)

    monkeypatch.setattr(Path, "read_text", told)
    refused("mounted as a single file", lambda: account.check(ONE, "record"), lambda: enter(account))
    lines = lines.replace("atients", "erson")
    enter(account)
    assert len(account.read().fits) == 2


def test_a_fingerprint_is_of_the_content(tmp_path):
    frame, key = make_frame(200), b"k" * 32
    of = fingerprint.of_frame(frame)(key)
    moved = frame.sample(frac=1, random_state=3)[list(frame.columns)[::-1]]
    wider = frame.astype({"age": "Int64", "ill": "boolean", "sex": "category", "dose": "float64"})
    assert fingerprint.of_frame(moved)(key) == fingerprint.of_frame(wider)(key) == of
    changed = frame.copy()
    changed.loc[7, "age"] += 1
    swapped = frame.assign(age=frame["age"].to_numpy()[::-1])
    others = [changed, swapped, frame.iloc[1:], frame.rename(columns={"age": "years"}), make_frame(200, seed=1)]
    assert (
        len({of, fingerprint.of_frame(frame)(b"l" * 32), *(fingerprint.of_frame(other)(key) for other in others)}) == 7
    )
    frame.to_csv(tmp_path / "t.csv")
    assert fingerprint.of(tmp_path / "t.csv")(key) == fingerprint.of(tmp_path / "t.csv")(key)
    with pytest.raises(BadInput, match="cannot be read"):
        fingerprint.of(tmp_path / "gone.csv")(key)


def test_equal_tables_have_different_fingerprints_in_two_accounts(tmp_path):
    found = set()
    for name in "ab":
        account = AccountFile(path=tmp_path / name)
        account.enter(ABOUT, PLAN, ONE, "record", fingerprint.of_frame(make_frame(20)))
        found |= set(account.read().fingerprints)
    assert len(found) == 2


# Altered, rolled back, killed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET body = replace(body, '\"epsilon\":1.0', '\"epsilon\":0.1') WHERE number = 3",
        "UPDATE charges SET body = replace(body, '\"loss\":1.0', '\"loss\":0.1') WHERE number = 4",
        "DELETE FROM charges WHERE number = 3",
        "DELETE FROM charges WHERE number = 1",
        "UPDATE charges SET number = 9 WHERE number = 4",
        "UPDATE charges SET hash = 'x' WHERE number = 4",
        "UPDATE charges SET previous = 'x' WHERE number = 4",
        "UPDATE states SET body = replace(body, 'failed', 'finished')",
        "UPDATE account SET version = 2",
        "DELETE FROM account",
    ],
)
def test_an_edit_inside_is_detected(account, statement):
    account.mark(enter(account), "failed")
    enter(account)
    edit(account.path, statement)
    refused(
        r"altered|does not have version", account.read, lambda: account.check(ONE, "record"), lambda: enter(account)
    )


def test_only_a_kept_head_tells_of_rows_cut_off(account):
    enter(account)
    early = account.read().head
    late_fit = enter(account)
    late = account.read().head
    account.mark(late_fit, "finished")
    assert account.read().head == late, "the head moves with charges alone"
    for head in (early, late, late.upper() + "\n"):
        replace(account, head=head).check(ONE, "record")
    edit(account.path, "DELETE FROM charges WHERE number = (SELECT MAX(number) FROM charges)")
    with pytest.raises(BadInput, match="cut off"):  # the states name it
        account.check(ONE, "record")
    edit(account.path, "DELETE FROM states WHERE number > 1")
    account.check(ONE, "record")  # nobody can tell
    replace(account, head=early).check(ONE, "record")
    refused(
        r"account.head is not among the charges",
        lambda: replace(account, head=late).check(ONE, "record"),
        lambda: enter(replace(account, head=late)),
    )


def test_a_head_of_a_file_that_is_gone_is_refused(account):
    with pytest.raises(BadInput, match=r"account.head"):
        replace(account, head="0" * 64).check(ONE, "record")
    with pytest.raises(BadInput, match=r"account.head"):
        enter(replace(account, head="0" * 64))


def test_what_is_no_account_is_refused_and_left_as_it_is(tmp_path):
    data = tmp_path / "patients.csv"
    make_frame(300).to_csv(data)
    before = data.read_bytes()
    account = AccountFile(path=data)
    refused("is not an account", account.read, lambda: enter(account))
    assert data.read_bytes() == before
    with pytest.raises(BadInput, match="account=FILE"):
        AccountFile(path=tmp_path).check(ONE, "record")
    with pytest.raises(BadInput, match="account=FILE"):
        AccountFile(path=data / "below").check(ONE, "record")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(BadInput, match="account=FILE"):
        AccountFile(path=tmp_path / "a").check(ONE, "record")


WRITER = """
from synthdp.budgets import AccountFile
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian
account = AccountFile(path={path!r})
about = dict(generator="independent", settings=dict(), rehearsal=False, ledger=None)
while True:
    number = account.enter(about, (Entry(Gaussian(5.0)),), Budget(1.0, 1e-9), "record", lambda key: "ours")
    print(number, flush=True)
    account.mark(number, "finished")
"""


@pytest.mark.parametrize("steps", [[0, 4, 9], heavy([*range(12)])], ids=["few", "many"])
def test_kill_9_at_any_moment_leaves_all_that_was_promised(tmp_path, steps):
    path, promised = tmp_path / "a", 0
    code = WRITER.format(path=str(path))
    for delay in (0.0005 * step**2 for step in steps):  # up to 60 ms, dozens of transactions
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            first = process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read()
        assert first, "the writer could not go on from what its predecessor left"
        promised += 1 + len(rest.splitlines())
        standing = AccountFile(path=path).read()
        assert len(standing.fits) >= promised, "a charge that was said to be durable is gone"
        promised = len(standing.fits)
    assert {fit.state for fit in standing.fits} <= {"finished", "running"}
    assert standing.spent.loss == promised


def test_a_transaction_that_fails_leaves_nothing(account):
    enter(account)
    before = account.read().head
    with pytest.raises(TypeError), chain.transaction(account.path) as book:
        book.append("charges", book.append("charges", {"kind": "fit"}))  # a row is no JSON
    assert account.read().head == before


# Many at once


def test_twenty_at_once_on_a_budget_for_five(tmp_path):
    account = AccountFile(path=tmp_path / "a", cap=Cap(epsilon=5.0, delta=1e-4))

    def one(_):
        try:
            return enter(account)
        except BadInput as error:
            return str(error)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(one, range(20)))
    assert sum(isinstance(answer, int) for answer in answers) == 5
    assert all("is left" in answer for answer in answers if isinstance(answer, str))
    assert len(account.read().fits) == 5


# Through the API


@pytest.fixture
def synth():
    return Synthesizer("independent", schema=make_schema(), budget=ONE)


def test_a_fit_is_charged_and_its_statement_says_so(synth, account, frame):
    statement = synth.fit(frame, account=account).statement
    assert statement.account.cap == account.cap
    assert statement.account.filter == "additive"
    assert not statement.account.head_checked
    head = account.read().head
    second = synth.fit(frame.sample(frac=1, random_state=1), account=replace(account, head=head)).statement
    assert second.account.head_checked
    assert [fit.state for fit in account.read().fits] == ["finished", "finished"]
    assert any("epsilon 3" in line for line in statement.not_covered)
    assert synth.fit(frame).statement.account is None
    with pytest.raises(BadInput, match="belongs to another table"):
        synth.fit(make_frame(30, seed=5), account=account)


def test_a_path_will_do(synth, frame, tmp_path):
    synth.fit(frame, account=tmp_path / "a")
    synth.fit(frame, account=str(tmp_path / "a"), seed=3)
    assert [fit.body["rehearsal"] for fit in AccountFile(path=tmp_path / "a").read().fits] == [False, True]


def test_no_digest_place_or_name_of_the_account_is_in_a_release(synth, account, frame, tmp_path):
    account = replace(account, by="Dr. Ada")
    synth.fit(frame, account=account).save(tmp_path / "release")
    standing = account.read()
    texts = "".join(file.read_bytes().decode("latin-1") for file in (tmp_path / "release").iterdir())
    for secret in (
        *standing.hashes,
        *standing.fingerprints,
        standing.key.hex(),
        "Dr. Ada",
        str(tmp_path),
        "patients.csv",
    ):
        assert secret not in texts


class Breaks:
    """A generator that commits its plan and then does what it is told to."""

    name = "breaks"

    def __init__(self, act):
        self.act = act

    def fit(self, data, *, seed, progress):  # noqa: ARG002
        data.noise = data.commit(lambda noise: (Entry(Gaussian(noise)),))
        return self.act(data)


def broken(act, frame, account):
    from synthdp.seal.charging import Account
    from synthdp.seal.door import Sensitive

    ledger = Ledger()
    with entered(
        account, frame, ONE, "record", ledger=ledger, generator="breaks", settings={}, rehearsal=False
    ) as entry:
        data = Sensitive(frame, make_schema(), Account(ONE, ledger, enter=entry.enter))
        Breaks(act).fit(data, seed=None, progress=None)


def raises(error, *, asked=True):
    def act(data):
        if asked:
            data.marginals([("sex",)], data.noise)
        raise error

    return act


@pytest.mark.parametrize(("error", "state"), [(KeyboardInterrupt, "interrupted"), (MemoryError, "failed")])
def test_a_fit_that_ends_badly_says_so_and_is_charged(error, state, account, frame):
    with pytest.raises(error):
        broken(raises(error), frame, account)
    assert [fit.state for fit in account.read().fits] == [state]
    assert account.read().spent.loss == 1.0


def test_a_fit_that_ends_before_its_first_question_is_not_charged(account, frame):
    """What it builds before may fail at no cost: it is entered with its first question."""
    with pytest.raises(MemoryError):
        broken(raises(MemoryError, asked=False), frame, account)
    assert account.read() is None


def test_a_refused_frame_makes_no_account(synth, account, frame):
    with pytest.raises(BadInput):
        synth.fit(frame.assign(age=4711), account=account)
    assert not account.path.exists()


def test_the_charge_is_there_before_the_first_question(account, frame):
    seen = []

    def spy(codes):
        if len(codes) == len(frame):  # before, it is asked about made-up rows
            seen.append((account.read().spent.loss, len(data.account.ledger.entries())))
        return np.zeros((len(codes), 1))

    def act(sealed):
        nonlocal data
        data = sealed
        sealed.sum(spy, 1, 1.0, sealed.noise)

    data = None
    broken(act, frame, account)
    assert seen == [(1.0, 1)]


def test_records_handed_out_cost_everything_and_a_cap_forbids_it(account, frame, tmp_path):
    with pytest.raises(BadInput, match="epsilon inf"):
        broken(lambda data: data.reveal("a look"), frame, account)
    assert account.read().spent.loss == 1.0
    free = AccountFile(path=tmp_path / "free")
    broken(lambda data: data.reveal("a look"), frame, free)
    assert math.isinf(free.read().spent.loss)
    assert math.isinf(free.read().fits[0].budget[0])
    assert "a look" in json.dumps([dict(row.body) for row in chain.read(free.path).charges])


def test_what_a_fit_asks_for_beside_its_plan_is_charged_beside_it(account, frame):
    about = {"generator": "independent", "settings": {}, "rehearsal": False}
    with entered(account, frame, ONE, "record", ledger=Ledger(), **about) as entry:
        entry.enter(PLAN, ONE)
        entry.enter(PLAN, ONE)
    assert account.read().spent.loss == 2.0
    assert len(account.read().fits) == 1


def start(account, frame, path, plan, *, resume):
    about = {"generator": "independent", "settings": {}, "rehearsal": False}
    book = Ledger.resume(path) if resume and path.exists() else Ledger(path)
    with closing(book), entered(account, frame, ONE, "record", ledger=book, resume=resume, **about) as entry:
        entry.enter(plan, ONE)
        book.append(Gaussian(50.0))
        raise KeyboardInterrupt


def start_and_stop(*given, **options):
    with pytest.raises(KeyboardInterrupt):
        start(*given, **options)


def test_a_resumed_fit_is_not_charged_twice(account, frame, tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for path, resume, spent in ((first, False, 1.0), (first, True, 1.0), (first, True, 1.0), (second, False, 2.0)):
        start_and_stop(account, frame, path, PLAN, resume=resume)
        assert account.read().spent.loss == spent
    start_and_stop(account, frame, second, PLAN, resume=True)
    assert account.read().spent.loss == 2.0
    assert [fit.state for fit in account.read().fits] == ["interrupted"] * 2
    account.mark(account.read().fits[-1].number, "finished")
    with pytest.raises(BadInput, match=r"finished, so there is nothing to resume.*charged separately"):
        start(account, frame, second, PLAN, resume=True)


@dataclass(frozen=True)
class Late:
    """Another fit is entered between this one's first check and its plan."""

    account: AccountFile
    name = "late"
    traits = generators.Traits()

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):
        return generators.make("independent", {}).plan(schema, noise)

    def fit(self, data, **more):
        enter(self.account)
        return generators.make("independent", {}).fit(data, **more)


def test_a_fit_that_lost_the_race_has_asked_and_written_nothing(account, frame, tmp_path):
    only = replace(account, cap=Cap(epsilon=1.0, delta=1e-6), add_version=True)
    synth = Synthesizer(Late(only), schema=make_schema(), budget=ONE, trust=__name__)
    with pytest.raises(BadInput, match="is left"):
        synth.fit(frame, account=only, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
    assert len(only.read().fits) == 1


def test_a_resumed_plan_that_costs_more_is_charged_for_it(tmp_path, frame):
    ledger = tmp_path / "ledger.jsonl"
    account = AccountFile(path=tmp_path / "a", cap=Cap(epsilon=3.0, delta=1e-5), filter="renyi")
    totals = []
    for resume, count in ((False, 3), (True, 5), (True, 4)):
        plan = (Entry(Gaussian(20.0), count),)
        start_and_stop(account, frame, ledger, plan, resume=resume)
        totals.append(account.read().spent.loss)
    order = account.read().filter.order
    assert totals == pytest.approx([count * order / 800 for count in (3, 5, 5)])


RACER = """
import sys
sys.path[:0] = {tests!r}
from clinic import make_frame, make_schema
from synthdp import Budget, Synthesizer, generators
from synthdp.errors import BadInput
from synthdp.budgets import AccountFile, Cap
sys.stdin.readline()
account = AccountFile(path={path!r}, cap=Cap(epsilon=5.0, delta=1e-4))
try:
    Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-6)).fit(make_frame(50), account=account)
    print("fitted")
except BadInput as error:
    print(error)
"""


@pytest.mark.heavy
def test_ten_processes_at_once_on_a_budget_for_five(tmp_path):
    folder = os.path.dirname(__file__)
    code = RACER.format(tests=[os.path.dirname(folder)], path=str(tmp_path / "a"))
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        made = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(10)]
        for process in made:
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=600) for process in made]
    fitted = [out for out, _ in answers if out == "fitted\n"]
    assert len(fitted) == 5, answers
    assert all("is left" in out for out, _ in answers if out != "fitted\n")
    assert [fit.state for fit in AccountFile(path=tmp_path / "a").read().fits] == ["finished"] * 5


def test_a_whole_number_that_no_double_holds_is_told_from_its_neighbour():
    key = bytes(32)
    frames = [pd.DataFrame({"patient": [2**60, 2**60 + each, 5]}) for each in (0, 1)]
    one, other = (fingerprint.of_frame(frame)(key) for frame in frames)
    assert one != other
    assert fingerprint.of_frame(frames[1].astype("Int64"))(key) == other
    small = pd.DataFrame({"patient": [1, 2]})
    assert fingerprint.of_frame(small)(key) == fingerprint.of_frame(small.astype(float))(key)
