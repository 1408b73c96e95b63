"""Law 43: what was paid for is not lost. Answers are on disk before anyone sees them, and a stopped fit goes on from them."""

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import killing
import numpy as np
import pytest
from clinic import make_frame, make_schema
from sweeps import sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.budgets import AccountFile
from synthdp.budgets.entry import entered
from synthdp.generators import Traits
from synthdp.ledger.events import Capped, Choice, Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.options import option
from synthdp.schema.codec import Codec
from synthdp.schema.trees import Tree
from synthdp.seal.charging import Account
from synthdp.seal.choice import Dependence
from synthdp.seal.door import Sensitive
from synthdp.seal.learn import Domain
from synthdp.seal.marginals import Marginals
from synthdp.seal.resume import LEAST_TEXT, Answers, _record, digest
from synthdp.seal.vectors import Group, Sums

BUDGET = Budget(2.0, 1e-5)
PAIRS = (("sex", "ill"), ("stage", "ill"), ("age", "ill"))


@dataclass(frozen=True)
class Counted:
    schema: object
    found: np.ndarray

    def sample(self, rows, *, seed=None, first_row=0):
        raise NotImplementedError

    def tensors(self):
        return {"found": self.found}


@dataclass(frozen=True, kw_only=True)
class Asker:
    """A generator in miniature that keeps no checkpoint: tables, a choice, then questions under a cap; it draws chance of its own."""

    name: ClassVar[str] = "asker"
    traits: ClassVar[Traits] = Traits()
    told: ClassVar[list] = []
    seen: ClassVar[object] = None  # a file that outlives the process
    first: str = option("sex", "the column that is asked first")
    inner: int = option(4, "questions under the cap")

    def validate(self, schema, budget):
        pass

    def cap(self, noise):
        return Capped("zcdp", self.inner / 2 / (4 * noise) ** 2)

    def plan(self, schema, noise):  # noqa: ARG002
        return Entry(Gaussian(2 * noise)), Entry(Gaussian(noise)), Entry(Choice(0.1)), Entry(self.cap(noise))

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema, chance = data.resolve(), np.random.default_rng(seed)
        found = [data.marginals([(self.first,)], 2 * noise)[0].ravel()]
        self.tell("single", found[-1])
        found += [table.ravel() for table in data.marginals(PAIRS, noise)]
        self.tell("pairs", *found[1:])
        chosen = data.choose([("sex", "ill"), ("age", "ill")], Dependence(), 0.1)
        self.tell("choice", np.array([chosen]))
        with data.cap(self.cap(noise)) as safe:
            for _ in range(self.inner):
                pair = PAIRS[int(chance.integers(3))]  # another process draws the same: its seed is kept
                if safe.left < 0.99 / 2 / (4 * noise) ** 2:
                    break  # an answer was lost, and counts as spent
                (table,) = safe.marginals([pair], 4 * noise)
                found.append(table.ravel())
                self.tell("inner", table)
        return Counted(schema, np.concatenate(found))

    def tell(self, what, *tables):
        self.told.append((what, b"".join(np.ascontiguousarray(table).tobytes() for table in tables).hex()))
        if self.seen:
            with self.seen.open("a") as file:
                file.write(f"{self.told[-1][0]} {self.told[-1][1]}\n")


pytestmark = pytest.mark.filterwarnings("ignore:another account knows the same table")


LEARNED = {"sex": {"kind": "categorical", "categories": "learn"}}


def fit(folder, *, resume=False, seed=None, account=True, rows=200, learned=False, **settings):
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    schema = make_schema(columns=LEARNED if learned else {})
    synth = Synthesizer(Asker(**settings), schema=schema, budget=BUDGET, trust=__name__)
    where = folder / "account" if account else None
    return synth.fit(make_frame(rows), seed=seed, resume=resume, account=where, **files)


class Stop(Exception):
    pass


def stopped(folder, after, monkeypatch, **options):
    """A fit whose process ends right after its n-th answer was kept; what it was told."""
    plain, kept = Answers.keep, 0
    Asker.told.clear()

    def keep(self, *arguments):
        nonlocal kept
        plain(self, *arguments)
        kept += 1
        if kept == after:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "keep", keep)
        with pytest.raises(Stop):
            fit(folder, **options)
    return list(Asker.told)


@pytest.mark.parametrize("after", sweep(range(1, 8), [1, 2, 5].__contains__))
def test_a_stopped_fit_goes_on_from_its_answers_at_no_charge(after, tmp_path, monkeypatch):
    told = stopped(tmp_path, after, monkeypatch)
    assert len(told) == after - 1  # an answer is kept before the generator sees it
    before = Ledger.read(tmp_path / "ledger.jsonl").booked()
    Asker.told.clear()
    release = fit(tmp_path, resume=True)
    assert Asker.told[: len(told)] == told
    assert [what for what, _ in Asker.told] == ["single", "pairs", "choice", *["inner"] * 4]
    assert len({answer for _, answer in Asker.told}) == 7
    counts = Counter({entry.event: entry.count for entry in release.ledger.entries()})
    assert set(counts.values()) == {1}
    assert len(counts) == 4  # the plan, each question charged once
    assert set(before) <= set(release.ledger.entries())
    assert 1.9 < release.statement.epsilon <= 2.0
    (entered,) = AccountFile(path=tmp_path / "account").read().fits
    assert entered.state == "fitted"  # it is finished when it is saved


def test_a_rehearsal_that_was_stopped_equals_one_that_was_not(tmp_path, monkeypatch):
    whole = fit(tmp_path / "whole", seed=5)
    for after in (1, 3, 5):
        folder = tmp_path / str(after)
        stopped(folder, after, monkeypatch, seed=5)
        resumed = fit(folder, resume=True, seed=5)
        np.testing.assert_array_equal(resumed.model.found, whole.model.found)


def test_an_answer_is_given_to_its_own_question_only(tmp_path, monkeypatch):
    stopped(tmp_path, 2, monkeypatch)
    schema = make_schema(columns={"ill": {"kind": "boolean", "missing": True}})
    synth = Synthesizer(Asker(), schema=schema, budget=BUDGET, trust=__name__)
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.safetensors"}
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(BadInput, match="another fit, which differs in schema:"):
        synth.fit(make_frame(200), resume=True, account=tmp_path / "account", **files)
    with pytest.raises(BadInput, match="another fit, which differs in generator:"):
        fit(tmp_path, resume=True, first="ill")
    with pytest.raises(BadInput, match="another fit, which differs in account, records:"):
        fit(tmp_path, resume=True, rows=201, account=False)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before
    monkeypatch.setattr(Asker, "fit", asks_something_else)
    with pytest.raises(BadInput, match=r"asked a different question here: Marginals differs in cliques\. Its answers"):
        fit(tmp_path, resume=True)


def asks_something_else(self, data, *, seed=None, progress=None):
    noise = data.commit(lambda z: self.plan(data.declared, z))
    return Counted(data.resolve(), data.marginals([("ill",)], 2 * noise)[0])


def losing(monkeypatch, number, asks, folder):
    """A fit that is stopped when it has an answer, before that is kept."""
    plain, asked = Answers.keep, 0

    def keep(self, *arguments):
        nonlocal asked
        asked += 1
        if asked == number:
            raise Stop
        plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "keep", keep)
        with pytest.raises(Stop):
            asks(folder)


def test_an_inner_answer_that_is_lost_counts_as_spent(tmp_path, monkeypatch):
    """Under a cap the question was on disk before its noise was drawn; its answer was not kept."""
    losing(monkeypatch, 6, fit, tmp_path)  # single, pairs, choice, and two inner ones are kept
    Asker.told.clear()
    release = fit(tmp_path, resume=True)
    assert [what for what, _ in Asker.told] == ["single", "pairs", "choice", *["inner"] * 3]  # four are paid for
    assert sum(entry.count for entry in release.ledger.entries()) == 4


def adaptive(folder, *, resume=False):
    """A fit all of whose questions are chosen under a cap, by what is left of it."""
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    synth = Synthesizer("aim", schema=make_schema(), budget=BUDGET, rounds=2, iterations=5, last=5)
    return synth.fit(make_frame(60), resume=resume, account=folder / "account", **files)


@pytest.mark.parametrize("lost", sweep(range(1, 6), [1, 5].__contains__))
def test_a_loop_under_a_cap_comes_to_its_end_whichever_answer_was_lost(lost, tmp_path, monkeypatch):
    """The last table takes all that is left. Where its answer was lost, it did not fit again, and the fit could never end."""
    losing(monkeypatch, lost, adaptive, tmp_path)
    release = adaptive(tmp_path, resume=True)
    assert release.statement.epsilon <= BUDGET.epsilon
    assert [entry.count for entry in release.ledger.entries()] == [1]


@pytest.mark.parametrize(
    ("after", "lines"),
    sweep([*((5, lines) for lines in range(1, 5)), (1, 1), (2, 1), (3, 2)], [(2, 1), (5, 4)].__contains__),
)
def test_answers_of_lines_that_were_cut_off_are_noticed(after, lines, tmp_path, monkeypatch):
    """Also where no account says where the ledger ended: a question would be answered twice for one charge."""
    stopped(tmp_path, after, monkeypatch, account=False)
    ledger = tmp_path / "ledger.jsonl"
    held = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(held[:-lines]))
    with pytest.raises(BadInput, match="answers of which the ledger has no line"):
        fit(tmp_path, resume=True, account=False)
    ledger.write_bytes(b"".join(held))
    fit(tmp_path, resume=True, account=False)


def between(folder, monkeypatch, number=3, **options):
    """A fit that is stopped when its third question, `pairs`, was answered and kept, and before the ledger has the line that says so."""
    plain, asked = Ledger.asking, 0

    def asking(self, *arguments, **named):
        nonlocal asked
        asked += 1
        if asked == number:
            raise Stop
        return plain(self, *arguments, **named)

    Asker.told.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "asking", asking)
        with pytest.raises(Stop):
            fit(folder, learned=True, **options)
    assert [what for what, _ in Asker.told] == ["single"]


def test_an_answer_without_its_line_can_be_read_by_nobody_and_is_given_to_nobody(tmp_path, monkeypatch):
    """Else whoever kills fits would see two answers for one charge: the one that is on disk, and the one that is drawn on resuming."""
    drawn, noised = [], Marginals.noised
    with monkeypatch.context() as patch:
        patch.setattr(Marginals, "noised", lambda *given: drawn.append(noised(*given)) or drawn[-1])
        between(tmp_path, monkeypatch)
    held = (tmp_path / "checkpoint.safetensors.answers").read_bytes()
    assert len(held) > LEAST_TEXT  # it is there
    assert not any(table.tobytes() in held for table in drawn[-1])
    before = Ledger.read(tmp_path / "ledger.jsonl").booked()
    Asker.told.clear()
    release = fit(tmp_path, learned=True, resume=True)
    assert Asker.told[1][0] == "pairs"
    assert Asker.told[1][1] != b"".join(table.tobytes() for table in drawn[-1]).hex()
    assert {entry.count for entry in release.ledger.entries()} == {1}
    assert set(before) < set(release.ledger.entries())
    assert not Ledger.read(tmp_path / "ledger.jsonl").replanned


def test_a_rehearsal_that_was_stopped_before_a_line_equals_one_that_was_not(tmp_path, monkeypatch):
    whole = fit(tmp_path / "whole", learned=True, seed=5)
    folder = tmp_path / "stopped"
    between(folder, monkeypatch, seed=5, account=False)
    between(folder, monkeypatch, 1, seed=5, account=False, resume=True)  # what the first one left lies before it
    resumed = fit(folder, learned=True, resume=True, seed=5, account=False)
    np.testing.assert_array_equal(resumed.model.found, whole.model.found)
    assert resumed.ledger.entries() == whole.ledger.entries()


def test_a_line_without_its_answer_is_a_lost_answer_that_counts(tmp_path, monkeypatch):
    """No kill leaves one; somebody who takes the file away does, and gets no second answer for the charge."""
    stopped(tmp_path, 1, monkeypatch)
    (tmp_path / "checkpoint.safetensors.answers").unlink()
    with pytest.warns(UserWarning, match="some answers of the stopped fit are lost"):
        release = fit(tmp_path, resume=True)
    assert release.ledger.entries() == (Entry(Ledger.read(tmp_path / "ledger.jsonl").cap),)


def test_a_fit_that_finds_its_ledger_begun_by_another_takes_nothing_of_it(tmp_path, monkeypatch):
    """Two fits with the same files, between the look whether the ledger is free and its first line."""
    answers = tmp_path / "checkpoint.safetensors.answers"
    commit = Account.commit

    def later(account, plan):
        other = Ledger(account.ledger.path)
        other.begin(None)
        answers.write_text("the other's")
        return commit(account, plan)

    monkeypatch.setattr(Account, "commit", later)
    with pytest.raises(BadInput, match="another fit began this ledger meanwhile"):
        fit(tmp_path)
    assert answers.read_text() == "the other's"


@pytest.mark.parametrize(
    ("answer", "other"),
    [(("a",), ('"', "b" * 1000)), (1.0, 0.1), (3, 41), ((), tuple(f"code {number}" for number in range(60)))],
)
def test_the_length_of_an_answer_without_its_line_says_nothing_of_it(answer, other, tmp_path):
    sizes = set()
    for number, each in enumerate((answer, other)):
        kept = Answers(tmp_path / str(number), {}, 1)
        kept.begin({"noise": 1.0})
        kept.keep(Ledger(), None, Marginals(((0,),), (3,), 2.0, 1), None, None, each)
        sizes.add((tmp_path / str(number)).stat().st_size)
    assert len(sizes) == 1


@pytest.mark.parametrize("facts", [{"of": [[None, []]]}, {"of": 1}, {}, []], ids=str)
def test_a_file_that_holds_no_answers_is_refused(facts, tmp_path):
    path = tmp_path / "answers"
    path.write_bytes(_record(json.dumps(facts), {}))
    with pytest.raises(BadInput, match="in the form that synthdp keeps"):
        Answers(path, {}).load(Ledger())


def test_a_question_is_known_bit_for_bit():
    plain = Marginals(((0,), (1, 2)), (3, 3, 3), 2.0, 1)
    assert digest(plain, None, None) == digest(Marginals(((0,), (1, 2)), (3, 3, 3), 2.0, 1), None, None)
    others = {
        "cliques": Marginals(((0,), (2, 1)), (3, 3, 3), 2.0, 1),
        "sizes": Marginals(((0,), (1, 2)), (3, 3, 4), 2.0, 1),
        "noise": Marginals(((0,), (1, 2)), (3, 3, 3), np.nextafter(2.0, 3.0), 1),
        "groups": Marginals(((0,), (1, 2)), (3, 3, 3), 2.0, 1, (np.arange(3), None, None)),
    }
    for name, other in others.items():
        differ = {each for each, value in digest(other, None, None).items() if value != digest(plain, None, None)[each]}
        assert differ == {name}
    assert digest(plain, 0.5, None)["rate"] != digest(plain, None, None)["rate"]


def test_a_question_is_known_by_what_its_functions_say_of_made_up_rows():
    """Nothing noticed when functions were left out of it: another function would have been given the answer."""
    codec = Codec(make_schema())

    def asked(function):
        return digest(Sums((Group(function, 1, 1.0, 1.0),)), None, codec)

    plain = asked(lambda codes: codes[:, :1] * 1.0)
    assert plain == asked(lambda codes: codes[:, :1].astype(float))
    other = asked(lambda codes: codes[:, 1:2] * 1.0)
    assert {name for name, value in other.items() if value != plain[name]} == {"vectors of group 0"}


def test_a_question_that_got_another_field_is_the_one_that_an_older_version_asked():
    plain = Domain("code", 1.0, 1e-6, 3, Tree(prefix=(1,), codes=("A1", "B2")))
    assert set(digest(plain, None, None)) == {"its type", "rate", "column", "noise", "delta", "categories", "tree"}
    assert "places" in digest(replace(plain, places=3), None, None)


KILLS = """
import shutil, sys
from pathlib import Path
import killing, test_answers

home, apart = Path(sys.argv[1]), int(sys.argv[2])
test_answers.fit(home / "whole", learned=True)  # what it imports and calibrates, the forks need not again
for how in killing.HOWS:
    for number in range(1 + (3 - killing.HOWS.index(how)) % apart, 99, apart):
        folder = home / f"{how}-{number}"
        folder.mkdir(parents=True)
        test_answers.Asker.seen = folder / "seen"
        status = killing.killed(lambda: test_answers.fit(folder, learned=True), number, how)
        if status == 0:  # it came to its end
            shutil.rmtree(folder)
            break
        assert status == 9, folder
"""


@pytest.fixture(scope="module")
def wrecks(tmp_path_factory):
    """Fits that were killed at every sixth write, before, after or in the middle of it."""
    home = tmp_path_factory.mktemp("killed")
    killing.in_a_process(KILLS, str(home), "6")
    found = sorted(folder for folder in home.glob("*-*") if (folder / "ledger.jsonl").exists())
    assert len(found) > 10
    return found


@pytest.mark.heavy
def test_killed_at_any_write_a_fit_goes_on_at_no_further_charge(wrecks):
    """With facts that were learned, too. What was seen is seen again, and the account is charged once."""
    inner = Counter()
    for folder in wrecks:
        seen = (folder / "seen").read_text().splitlines() if (folder / "seen").exists() else []
        if AccountFile(path=folder / "account").read() is not None:
            (entered,) = AccountFile(path=folder / "account").read().fits
            assert entered.state == "running"
        Asker.told.clear()
        release = fit(folder, resume=True, learned=True)
        assert not Ledger.read(folder / "ledger.jsonl").replanned
        assert release.statement.epsilon <= 2.0
        assert [f"{what} {answer}" for what, answer in Asker.told][: len(seen)] == seen
        assert [what for what, _ in Asker.told[:3]] == ["single", "pairs", "choice"]
        assert {entry.count for entry in release.ledger.entries()} == {1}
        assert len(release.ledger.entries()) == 5
        inner[len(Asker.told) - 3] += 1
        (entered,) = AccountFile(path=folder / "account").read().fits
        assert entered.state == "fitted"  # it is finished when it is saved
        assert AccountFile(path=folder / "account").read().spent.loss == 2.0
    assert set(inner) <= {3, 4}  # under the cap a question that was on disk counts as spent
    assert inner[4] > inner[3]


def in_a_fork(act):
    """What `act` raised in a forked process, by its name; "" where nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        said = b""
        try:
            act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}".encode()
        os.write(writing, said)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        return told.read()


def test_a_forked_fit_is_answered_in_the_process_that_began_it_alone(tmp_path):
    """One charge pays for one answer: the fork would draw another."""
    book = Ledger(tmp_path / "ledger.jsonl")
    data = Sensitive(make_frame(50), make_schema(), Account(BUDGET, ledger=book), seed=None)
    data.commit(lambda noise: (Entry(Gaussian(noise), 4),))
    noise = data.account.plan[0].event.noise
    data.resolve()
    for _ in data.steps(Gaussian(noise), 2, dict):
        said = in_a_fork(lambda: data.marginals([("sex",)], noise))
        assert "BadInput: this fit was forked" in said
        assert "BadInput: this fit was forked" in in_a_fork(lambda: book.append(Gaussian(noise)))
        data.marginals([("sex",)], noise)
    assert Ledger.read(tmp_path / "ledger.jsonl").booked() == (Entry(data.account.plan[0].event, 2),)


def test_a_forked_fit_marks_and_charges_no_account(tmp_path):
    account = tmp_path / "account"
    about = {"generator": "a", "settings": {}, "rehearsal": False}
    with entered(account, make_frame(20), BUDGET, "record", ledger=Ledger(), **about) as entry:
        entry.enter((Entry(Gaussian(9.0)),), BUDGET)
        assert "BadInput: this fit was forked" in in_a_fork(lambda: entry.mark("finished"))
        assert in_a_fork(lambda: entry.mark("failed")) == ""
        assert AccountFile(path=account).read().fits[0].state == "running"
        spent = AccountFile(path=account).read().spent
        assert "BadInput: this fit was forked" in in_a_fork(lambda: entry.enter((Entry(Gaussian(9.0)),), BUDGET))
        assert AccountFile(path=account).read().spent == spent
    assert AccountFile(path=account).read().fits[0].state == "finished"
