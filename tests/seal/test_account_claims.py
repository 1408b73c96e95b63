"""Of all copies of a stopped fit one goes on, whenever it was killed; a ledger that is gone, emptied or cut is no new start.

Ledger and account share a token, the claim. `run` is a fit in miniature: it is entered, commits its plan and asks four questions.
"""

import os
import secrets
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier, Event

import pandas as pd
import pytest
from clinic import make_frame, make_schema
from sweeps import heavy, sweep
from test_resume import Walk

from synthdp import Synthesizer
from synthdp.accounting import calibrate
from synthdp.budgets import AccountFile, Cap, chain
from synthdp.budgets import Entry as Entry_
from synthdp.budgets.entry import entered
from synthdp.errors import BadInput
from synthdp.ledger import ledger as ledgers
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.resume import Checkpoint

ONE = Budget(1.0, 1e-6)
TIMES = 4
ABOUT = {"generator": "four questions", "settings": {}, "rehearsal": False}
FRAME = pd.DataFrame({"age": [40, 50]})


def plan(noise):
    return (Entry(Gaussian(noise), TIMES),)


NOISE = calibrate(plan, ONE, "pld")


def nothing():
    pass


def run(folder, account, *, resume=False, stop=None, before=nothing, entered_then=nothing, halfway=nothing):
    """Ask what is left to ask; stopped after `stop` questions. Returns how many were asked."""
    path, asked = folder / "ledger.jsonl", 0
    book = Ledger.resume(path) if resume and path.exists() else Ledger(path)
    with closing(book), entered(account, FRAME, ONE, "record", ledger=book, resume=resume, **ABOUT) as entry:
        before()
        charged = Account(ONE, book, noise=NOISE, enter=entry.enter)
        charged.commit(plan)
        if resume:  # as `Sensitive` does: who goes on is settled before anything is drawn
            charged.enter()
        entered_then()
        while charged.left(Gaussian(NOISE)):
            if asked == stop:
                raise KeyboardInterrupt
            charged.book(Gaussian(NOISE))
            book.asking()
            asked += 1
            if asked == TIMES // 2:
                halfway()
    return asked


def stopped(folder, account, after=2, **options):
    folder.mkdir(exist_ok=True)
    with pytest.raises(KeyboardInterrupt):
        run(folder, account, stop=after, **options)
    return folder


@pytest.fixture
def account(tmp_path):
    return AccountFile(path=tmp_path / "a", cap=Cap(epsilon=3.0, delta=1e-5))


def of_ours(key):
    return f"ours-{key.hex()[:4]}"


def spent(account):
    return account.read().spent.loss


def is_refused(folder, account, says):
    before = account.read()
    with pytest.raises(BadInput, match=says) as caught:
        run(folder, account, resume=True)
    assert "\n" not in str(caught.value)
    assert account.read() == before, "what is refused changes nothing"


STALE = "another copy of this fit has been resumed .* charged separately"


def test_interrupted_right_after_its_charge_a_fit_goes_on_and_is_charged_once(account, tmp_path, monkeypatch):
    """Ctrl-C, and SIGTERM, may come when the account is charged and the fit does not know it yet: the ledger was removed then."""
    enter = AccountFile.enter

    def interrupted(*arguments, **options):
        enter(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(AccountFile, "enter", interrupted)
        folder = stopped(tmp_path / "folder", account, None)
    assert spent(account) == 1.0
    assert run(folder, account, resume=True) == TIMES
    assert spent(account) == 1.0
    assert [fit.state for fit in account.read().fits] == ["finished"]


def unsure(account, patch):
    """The account's file is found to be locked, or replaced, when what was committed is read back."""
    patch.setattr(chain, "_check_kept", lambda _, book: book.added and refuses())


def unread(account, patch):
    """It cannot be read once the fit is entered."""
    enter, read, entries = AccountFile.enter, AccountFile.read, []

    def entered(*given, **options):
        entries.append(enter(*given, **options))
        return entries[0]

    patch.setattr(AccountFile, "enter", entered)
    patch.setattr(AccountFile, "read", lambda self: refuses() if entries else read(self))


def changed(account, patch):
    """The files of the table are found to be others than those that were opened (`Synthesizer.fit`)."""
    enter = Entry_.enter
    patch.setattr(Entry_, "enter", lambda *given: (enter(*given), refuses()))


def refuses(*_):
    raise BadInput("after the charge")


@pytest.mark.parametrize("how", [unsure, unread, changed])
def test_refused_once_it_is_charged_a_fit_keeps_its_ledger(account, tmp_path, monkeypatch, how):
    """Else the charge would be of a fit that nobody can go on with."""
    account.open()
    folder = tmp_path / "folder"
    folder.mkdir()
    with monkeypatch.context() as patch:
        how(account, patch)
        with pytest.raises(BadInput, match="after the charge"):
            run(folder, account)
    assert spent(account) == 1.0
    assert run(folder, account, resume=True) == TIMES
    assert spent(account) == 1.0


# Copies


def test_a_copy_of_a_fit_that_finishes_while_the_copy_is_read_is_refused(account, tmp_path):
    """The account looks at the fit before the table is read, which takes minutes, and again when the copy would go on: else both would
    have a model, with different answers, at one charge."""
    folder, copy = tmp_path / "folder", tmp_path / "copy"
    folder.mkdir()
    half, whole = Event(), Event()

    def halfway():
        half.set()
        assert whole.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, folder, account, halfway=halfway)
        assert half.wait(60)
        shutil.copytree(folder, copy)

        def finish():
            whole.set()
            assert first.result() == TIMES

        with pytest.raises(BadInput, match="finished, so there is nothing to resume"):
            run(copy, account, resume=True, before=finish)
    assert [fit.state for fit in account.read().fits] == ["finished"]
    assert spent(account) == 1.0


def test_of_two_copies_one_goes_on_in_turn(account, tmp_path):
    first = stopped(tmp_path / "first", account)
    second = shutil.copytree(first, tmp_path / "second")
    stopped(first, account, 1, resume=True)
    is_refused(second, account, STALE)
    assert run(first, account, resume=True) == 1
    is_refused(second, account, STALE)
    assert spent(account) == 1.0
    assert [fit.state for fit in account.read().fits] == ["finished"]


def test_a_copy_that_is_put_back_in_the_place_of_what_went_on_is_refused(account, tmp_path):
    folder = stopped(tmp_path / "folder", account)
    old = shutil.copytree(folder, tmp_path / "old")
    stopped(folder, account, 1, resume=True)
    shutil.rmtree(folder)
    old.rename(folder)
    is_refused(folder, account, STALE)


def test_of_several_copies_one_goes_on_together(account, tmp_path):
    first = stopped(tmp_path / "0", account)
    copies = [first, *(shutil.copytree(first, tmp_path / str(number)) for number in range(1, 6))]
    begin = Barrier(len(copies))

    def one(folder):
        try:
            return run(folder, account, resume=True, before=begin.wait)
        except BadInput as error:
            return str(error)

    with ThreadPoolExecutor(len(copies)) as pool:
        answers = list(pool.map(one, copies))
    assert [answer for answer in answers if isinstance(answer, int)] == [TIMES - 2]
    assert all("another copy" in answer for answer in answers if isinstance(answer, str))
    assert spent(account) == 1.0
    assert [fit.state for fit in account.read().fits] == ["finished"], "the losers say nothing of the winner's fit"


def test_a_copy_made_between_the_ledger_s_claim_and_the_account_s_is_one_of_two(account, tmp_path, monkeypatch):
    first = stopped(tmp_path / "first", account)
    with monkeypatch.context() as patch:
        patch.setattr(AccountFile, "go_on", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(first, account, resume=True)
    second = shutil.copytree(first, tmp_path / "second")
    assert run(second, account, resume=True) == 2
    is_refused(first, account, STALE)


def test_a_moved_fit_goes_on_at_no_further_charge(account, tmp_path):
    moved = stopped(tmp_path / "here", account).rename(tmp_path / "there")
    assert run(moved, account, resume=True) == 2
    assert spent(account) == 1.0


def test_a_process_that_was_overtaken_does_not_let_its_model_leave(account, tmp_path):
    """It was frozen, or runs on a snapshot of its machine, while a copy of its folder was resumed and finished."""
    folder, copy = stopped(tmp_path / "folder", account), tmp_path / "copy"

    def overtaken():
        shutil.copytree(folder, copy)
        assert run(copy, account, resume=True) == 2

    with pytest.raises(BadInput, match="another copy of this fit"):
        run(folder, account, resume=True, entered_then=overtaken)
    assert [fit.state for fit in account.read().fits] == ["finished"], "the copy's"
    assert spent(account) == 1.0


def test_a_process_that_was_overtaken_and_fails_says_nothing_of_the_copy_s_fit(account, tmp_path):
    folder, copy = stopped(tmp_path / "folder", account), tmp_path / "copy"

    def overtaken():
        shutil.copytree(folder, copy)
        assert run(copy, account, resume=True) == 2

    stopped(folder, account, 1, resume=True, entered_then=overtaken)
    assert [fit.state for fit in account.read().fits] == ["finished"]


# Killed


def killed(folder, account, number, how, resume):
    """A fit in a process that dies at its n-th write to the ledger or the account; whether there were so many."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    seen = 0

    def dies(write, torn=lambda: None):
        nonlocal seen
        seen += 1
        if seen == number:
            if how == "after":
                write()
            elif how == "torn":
                torn()
            os._exit(9)
        return write()

    append, enter, go_on = ledgers._append, AccountFile.enter, AccountFile.go_on
    ledgers._append = lambda file, row: dies(
        lambda: append(file, row), lambda: os.write(file, row[: 2 + 11 * number % len(row)].encode())
    )
    AccountFile.enter = lambda *given, **options: dies(lambda: enter(*given, **options))
    AccountFile.go_on = lambda *given, **options: dies(lambda: go_on(*given, **options))
    try:
        run(folder, account, resume=resume)
    except BaseException:
        os._exit(3)
    os._exit(0)


@pytest.mark.parametrize("how", sweep(["before", "torn", "after"], lambda how: how == "torn"))
@pytest.mark.parametrize("resume", [heavy(False), True])
def test_killed_at_any_write_it_goes_on_and_is_charged_once(tmp_path, how, resume):
    """The ledger's claim, the account's entry, the ledger's first line, each charge."""
    number = 1
    while True:
        folder, account = tmp_path / str(number), AccountFile(path=tmp_path / f"{number}.account")
        folder.mkdir()
        if resume:
            stopped(folder, account, after=1)
        if not killed(folder, account, number, how, resume):
            break
        left = run(folder, account, resume=True)
        assert 0 <= left <= TIMES
        assert Ledger.read(folder / "ledger.jsonl").entries() == plan(NOISE)
        assert spent(account) == 1.0
        assert [fit.state for fit in account.read().fits] == ["finished"]
        number += 1
    assert number > TIMES + (1 if resume else 3)


def test_a_claim_that_was_never_entered_is_no_fit(account, tmp_path):
    """Killed before the account's entry, beside an earlier fit of the same folder that was given up: it is entered now."""
    folder = stopped(tmp_path / "folder", account)
    (folder / "ledger.jsonl").unlink()
    book = Ledger(folder / "ledger.jsonl")
    book.claim(secrets.token_hex(16))
    book.close()
    assert run(folder, account, resume=True) == TIMES
    assert spent(account) == 2.0


# Ledgers that are gone, emptied, cut


@pytest.mark.parametrize("how", ["removed", "emptied", "replaced"])
def test_a_ledger_that_is_gone_is_no_new_start(account, tmp_path, how):
    folder = stopped(tmp_path / "folder", account)
    path = folder / "ledger.jsonl"
    path.unlink()
    if how == "emptied":
        path.touch()
    if how == "replaced":
        other = Ledger(path)
        other.append(Gaussian(NOISE), 1)
        other.close()
    is_refused(
        folder,
        account,
        r"is gone, was emptied or was replaced.*Leave resume out to start a new fit, which is charged separately",
    )
    path.unlink(missing_ok=True)
    assert run(folder, account) == TIMES
    assert spent(account) == 2.0


def test_a_ledger_that_lost_lines_after_the_fit_stopped_is_refused(account, tmp_path):
    folder = stopped(tmp_path / "folder", account)
    path = folder / "ledger.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    is_refused(folder, account, "lacks lines that the account .* records")
    path.write_bytes(whole)
    assert run(folder, account, resume=True) == 2


def test_a_fit_that_its_account_refuses_leaves_no_ledger(account, tmp_path):
    account.open()
    only = AccountFile(path=account.path)
    for number in range(3):
        stopped(tmp_path / str(number), only)
    (tmp_path / "late").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AccountFile, "check", lambda *_, **__: None)  # another fit came between the check and the entry
        with pytest.raises(BadInput, match="is left"):
            run(tmp_path / "late", only)
    assert not list((tmp_path / "late").iterdir())


# Of older versions


@pytest.fixture
def old(account, tmp_path):
    """A stopped fit as versions without claims left it: (folder, account)."""
    folder = tmp_path / "old"
    folder.mkdir()
    path = folder / "ledger.jsonl"
    book = Ledger(path)
    book.begin(None)
    book.append(Gaussian(NOISE), 2)
    book.close()
    about = {**ABOUT, "ledger": str(path)}
    account.enter(about, plan(NOISE), ONE, "record", of_ours)
    with closing(sqlite3.connect(account.path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM states")
    return folder, AccountFile(path=account.path, add_version=True)


def test_a_fit_of_an_older_version_gets_its_first_claim(old, tmp_path):
    folder, account = old
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert account.read().fits[0].claims == ()
    stopped(folder, account, 1, resume=True)
    assert len(account.read().fits[0].claims) == 1
    shutil.rmtree(folder)
    copy.rename(folder)
    is_refused(folder, account, "is gone, was emptied or was replaced")
    assert spent(account) == 1.0


def test_copies_of_an_older_fit_go_on_once_together(old, tmp_path):
    """Put in the same place one after another, each read before the first was entered."""
    _, account = old
    number = account.read().fits[0].number
    account.go_on(number, plan(NOISE), ONE, ledger=Ledger(), held=(), claim="a")
    with pytest.raises(BadInput, match="another copy"):
        account.go_on(number, plan(NOISE), ONE, ledger=Ledger(), held=(), claim="b")


def test_an_emptied_ledger_of_an_older_fit_is_refused(old):
    folder, account = old
    (folder / "ledger.jsonl").write_bytes(b"")
    is_refused(folder, account, "is gone, was emptied or was replaced")


# Through the API


@pytest.mark.heavy
def test_of_two_copies_of_a_fit_with_a_checkpoint_one_goes_on(account, tmp_path, monkeypatch):
    """In turn, and whichever comes first."""
    synthesizer = Synthesizer(Walk(), schema=make_schema(), budget=ONE, trust=Walk.__module__)

    def fit(folder, **options):
        files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
        return synthesizer.fit(make_frame(50), account=account, **files, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", dies_after(Checkpoint.save, 4))
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "first")
    second = shutil.copytree(tmp_path / "first", tmp_path / "second")
    assert fit(second, resume=True).statement.epsilon <= 1.0
    with pytest.raises(BadInput, match=STALE):
        fit(tmp_path / "first", resume=True)
    assert spent(account) == 1.0
    assert [fit.state for fit in account.read().fits] == ["fitted"]


def dies_after(write, times):
    left = iter([False] * times + [True])

    def writes(*given):
        write(*given)
        if next(left):
            raise KeyboardInterrupt

    return writes


# The account's half


def test_a_claim_is_swapped_by_whoever_holds_the_last_one(account):
    number = account.enter({**ABOUT, "ledger": "l"}, plan(NOISE), ONE, "record", of_ours, claim="a")

    def swap(held, claim):
        account.go_on(number, plan(NOISE), ONE, ledger=Ledger(), held=held, claim=claim)

    swap(("a",), "b")
    for held in ((), ("a",), ("z",)):
        with pytest.raises(BadInput, match="another copy"):
            swap(held, "c")
    swap(("a", "b", "never swapped"), "d")
    fit = account.read().fit(number)
    assert (fit.claims, fit.state, account.read().spent.loss) == (("a", "b", "d"), "running", 1.0)


def test_a_fit_that_the_account_does_not_hold_cannot_go_on(account):
    account.open()
    with pytest.raises(BadInput, match="does not contain fit 7"):
        account.go_on(7, plan(NOISE), ONE, ledger=Ledger(), held=("a",), claim="b")
