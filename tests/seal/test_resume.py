"""Resume (law 23): killed at every durable write, a fit goes on, and its ledger never says less than the truth."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import ClassVar

import killing
import numpy as np
import pytest
from clinic import make_frame, make_schema
from stopping import stopped_after_saving
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer, accounting
from synthdp.accounting.caps import cap_of, least_noise
from synthdp.generators import Traits
from synthdp.ledger.events import Capped, Choice, Entry, Gaussian, Revealed, Sampled, Threshold, Vote
from synthdp.ledger.ledger import Ledger
from synthdp.options import option
from synthdp.seal.resume import digest

STEPS, RATE = 64, 1.0  # with everyone in every sample, epsilon has a closed form: a fit takes a quarter of the time
BUDGET = Budget(2.0, 1e-5)


@dataclass(frozen=True)
class Walked:
    schema: object
    total: np.ndarray
    done: int

    def sample(self, rows, *, seed=None, first_row=0):
        raise NotImplementedError

    def tensors(self):
        return {"total": self.total}


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A generator in miniature: one table, then a loop whose state is a running sum of noisy answers."""

    name: ClassVar[str] = "walk"
    traits: ClassVar[Traits] = Traits()
    steps: int = option(STEPS, "steps")
    rate: float = option(RATE, "rate")
    told: str = option("", "file to which every answer is reported")

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):  # noqa: ARG002
        return Entry(Gaussian(5 * noise)), Entry(Sampled(self.rate, (Gaussian(noise),)), self.steps)

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        saved = data.restored()
        if saved is None:
            total = data.marginals([("sex",)], 5 * noise)[0].copy()
            self.tell("table")
        else:
            total = saved["total"].copy()
        done = 0
        for step in data.steps(Sampled(self.rate, (Gaussian(noise),)), self.steps, lambda: {"total": total}):  # noqa: B023
            with data.sample(self.rate) as batch:
                answer = batch.sum(lambda codes: np.ones((len(codes), 8)), 8, 1.0, noise)
            total += answer[:2] * (1 + step)
            self.tell(f"step {step} {answer.tobytes().hex()}")
            done += 1
        return Walked(schema, total, done)

    def tell(self, line):
        if self.told:
            with Path(self.told).open("a") as file:
                file.write(line + "\n")


def fit(folder, *, resume=False, seed=3, **settings):
    synth = Synthesizer(Walk(**settings), schema=make_schema(), budget=BUDGET, trust=__name__)
    return synth.fit(
        make_frame(200),
        seed=seed,
        ledger=folder / "ledger.jsonl",
        checkpoint=folder / "checkpoint.safetensors",
        resume=resume,
    )


WRECKS = """
import sys
from pathlib import Path
import killing, test_resume

home = Path(sys.argv[1])
test_resume.fit(home)  # what it imports and calibrates, the forks need not again
for how in killing.HOWS:
    number = 1
    while True:
        folder = home / f"{how}-{number}"
        folder.mkdir()
        def fit(resume):
            return lambda: test_resume.fit(folder, resume=resume, rate=1.0, told=str(folder / "told"))
        if killing.killed(fit(False), number, how) == 0:
            break
        killing.killed(fit(True), 3 + number % 5, how)  # killed again in the resumed part
        (folder / "twice").touch()
        number += int(sys.argv[2])
"""


@pytest.fixture(scope="module", params=sweep([160, 10], lambda apart: apart == 160))
def wrecks(request, tmp_path_factory):
    """Fits that were killed at every n-th write, before, after or in the middle of it, and again when they were resumed."""
    home = tmp_path_factory.mktemp("wrecks")
    killing.in_a_process(WRECKS, str(home), str(request.param))
    folders = sorted(folder for folder in home.iterdir() if (folder / "twice").exists())
    assert len(folders) > 200 / request.param
    return folders


def told(folder):
    file = folder / "told"
    return file.read_text().splitlines() if file.exists() else []


def charged(folder, torn_counts=True):
    file = folder / "ledger.jsonl"
    if not file.exists():
        return Counter()
    entries = (Ledger.read(file) if torn_counts else Ledger._read(file)).booked()
    counts = Counter()
    for entry in entries:
        counts[type(entry.event).__name__] += entry.count
    return counts


def test_killed_anywhere_the_ledger_never_says_less_than_the_truth(wrecks):
    for folder in wrecks:
        answers = Counter("Gaussian" if line == "table" else "Sampled" for line in told(folder))
        counts = charged(folder, torn_counts=False)
        for kind, number in answers.items():
            assert counts[kind] >= number, folder.name


@pytest.mark.filterwarnings("ignore:some answers of the stopped fit are lost")
def test_killed_anywhere_the_fit_goes_on_within_its_budget(wrecks):
    for folder in wrecks:
        before = charged(folder)
        release = fit(folder, resume=True, rate=1.0, told=str(folder / "told"))
        assert release.statement.epsilon <= BUDGET.epsilon
        assert accounting.epsilon(release.ledger, BUDGET.delta) <= BUDGET.epsilon
        del before["Revealed"]
        after = charged(folder)
        assert all(after[kind] >= number for kind, number in before.items())
        lines = told(folder)
        answers = [line.split()[2] for line in lines if line.startswith("step")]
        assert len(set(answers)) == len(answers)  # a step that was done again had other noise


@pytest.fixture(scope="module", params=[0.2, 1.0])
def uninterrupted(request, tmp_path_factory):
    return request.param, fit(tmp_path_factory.mktemp("whole"), rate=request.param)


@pytest.mark.parametrize("blocks", [heavy(0), 1, heavy(5), heavy(32)])
def test_a_rehearsal_resumed_before_its_first_redone_step_equals_an_uninterrupted_one(tmp_path, uninterrupted, blocks):
    rate, whole = uninterrupted
    stopped(tmp_path, blocks, rate=rate)
    resumed = fit(tmp_path, resume=True, rate=rate)
    np.testing.assert_array_equal(resumed.model.total, whole.model.total)
    assert resumed.ledger.entries() == whole.ledger.entries()


def stopped(folder, blocks=4, **settings):
    """A fit that was stopped right after its n-th block was kept, before the next one is charged."""

    with stopped_after_saving(blocks + 1):
        fit(folder, **settings)


def test_a_checkpoint_is_resumed_once(tmp_path):
    stopped(tmp_path)
    old = (tmp_path / "checkpoint.safetensors").read_bytes()
    fit(tmp_path, resume=True)
    (tmp_path / "checkpoint.safetensors").write_bytes(old)
    (tmp_path / "checkpoint.safetensors.next").unlink(missing_ok=True)
    with pytest.raises(BadInput, match="resumed already"):
        fit(tmp_path, resume=True)


@pytest.mark.parametrize("change", [{"seed": 4}, {"steps": 65}])
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, change):
    stopped(tmp_path)
    with pytest.raises(BadInput, match="another fit"):
        fit(tmp_path, resume=True, **change)


def test_a_checkpoint_holds_no_record_and_no_state_of_the_noise(tmp_path):
    stopped(tmp_path)
    from safetensors import safe_open

    with safe_open(tmp_path / "checkpoint.safetensors", "numpy") as file:
        assert set(file.keys()) == {"total"}
        facts = json.loads(file.metadata()["synthdp"])
    assert set(facts) == {"noise", "most", "schema", "loop", "step", "line", "of", "name"}  # all of them public


def test_redone_steps_are_charged_again_and_leave_fewer(tmp_path):
    stopped(tmp_path, blocks=4)
    ledger = Ledger.resume(tmp_path / "ledger.jsonl")
    assert charged(tmp_path)["Sampled"] == 4 * STEPS // 32
    event = next(entry.event for entry in ledger.entries() if isinstance(entry.event, Sampled))
    ledger.append(event, 10)  # ten more were charged, and lost with the process
    ledger.close()
    release = fit(tmp_path, resume=True)
    assert release.model.done == STEPS - 4 * STEPS // 32 - 10
    assert release.statement.epsilon <= BUDGET.epsilon
    counts = charged(tmp_path)
    assert counts["Sampled"] == STEPS


def test_what_an_older_version_gave_back_is_charged_when_a_model_leaves(tmp_path):
    """Law 37: ledgers of older versions may hold lines that give back what was not asked before a Ctrl-C."""
    stopped(tmp_path, blocks=4)
    ledger = Ledger.resume(tmp_path / "ledger.jsonl")
    ledger._write({"unused": 2, "line": len(ledger._lines) - 2})
    ledger.close()
    assert charged(tmp_path)["Sampled"] == 4 * STEPS // 32 - 2
    release = fit(tmp_path, resume=True)
    assert charged(tmp_path)["Sampled"] == STEPS
    assert release.ledger.entries() == Ledger.read(tmp_path / "ledger.jsonl").entries()


def test_resume_needs_both_files_and_starts_anew_where_nothing_was_asked(tmp_path):
    synth = Synthesizer(Walk(), schema=make_schema(), budget=BUDGET, trust=__name__)
    with pytest.raises(BadInput, match="resume needs"):
        synth.fit(make_frame(50), resume=True)
    with pytest.raises(BadInput, match="checkpoint= needs ledger="):
        synth.fit(make_frame(50), checkpoint=tmp_path / "checkpoint.safetensors")
    assert fit(tmp_path, resume=True).model.done == STEPS


def test_a_fit_that_runs_cannot_be_resumed(tmp_path):
    """Two fits on one ledger would give two releases for one charge."""
    stopped(tmp_path)
    live = Ledger.resume(tmp_path / "ledger.jsonl")
    with pytest.raises(BadInput, match="another fit is writing"):
        fit(tmp_path, resume=True)
    live.close()
    assert fit(tmp_path, resume=True).model.done > 0


def test_without_its_checkpoint_a_fit_whose_answers_were_seen_does_not_go_on(tmp_path):
    stopped(tmp_path)
    (tmp_path / "checkpoint.safetensors").unlink()
    with pytest.raises(BadInput, match="is gone"):
        fit(tmp_path, resume=True)


def lost(folder, share, *, cap=True):
    """A fit of `independent` whose ledger holds an answer of an earlier start, at this share of the precision of the plan's own."""
    folder.mkdir()
    schema, budget = make_schema(), Budget(1.0, 1e-5)

    def plan(noise):
        return (Entry(Gaussian(noise)),)

    noise = accounting.calibrate(plan, budget, "pld")
    book = Ledger(folder / "ledger.jsonl")
    if cap:
        book.begin(cap_of(plan(noise), budget))
    book.append(Gaussian(noise / share**0.5), 1)
    book.close()
    synthesizer = Synthesizer("independent", schema=schema, budget=budget)
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    return synthesizer.fit(make_frame(200), resume=True, account=folder / "account", **files)


def test_what_lost_answers_left_must_be_worth_a_fit(tmp_path):
    with pytest.raises(BadInput, match="3 times that of a new fit"):
        lost(tmp_path / "much", 0.9)
    assert len(Ledger.read(tmp_path / "much" / "ledger.jsonl").entries()) == 1
    with pytest.raises(BadInput, match="no question can be asked"):
        lost(tmp_path / "all", 1.0)


def test_a_plan_made_anew_after_lost_answers_is_charged_the_whole_cap_that_the_first_line_fixed(tmp_path):
    """Law 11: what was lost and what is asked now add up to at most the cap, which is charged, never what was realised."""
    with pytest.warns(UserWarning, match=r"are lost but stay charged: the resumed fit has 1\.1[56] times the noise"):
        release = lost(tmp_path / "some", 0.25)
    ledger = Ledger.read(tmp_path / "some" / "ledger.jsonl")
    (entry,) = ledger.entries()
    assert entry == Entry(ledger.cap)
    assert release.statement.events == release.ledger.entries() == (entry,)
    realised = [each.event.noise for each in ledger.booked()]
    assert len(realised) == 2
    assert 0.99 * entry.event.bound <= math.hypot(*(1 / noise for noise in realised)) <= entry.event.bound * (1 + 1e-12)
    assert 0.99 < release.statement.epsilon <= 1.0
    assert release.statement.epsilon >= accounting.epsilon(ledger.booked(), 1e-5)
    assert release.statement.recompute() == pytest.approx(release.statement.epsilon, rel=1e-9)


def test_without_a_cap_in_its_first_line_no_plan_is_made_anew(tmp_path):
    """Ledgers of older versions fixed none, and no filter takes some plans."""
    with pytest.raises(BadInput, match="answers to 1 questions of the stopped fit are lost"):
        lost(tmp_path / "old", 0.25, cap=False)


@pytest.mark.parametrize(
    ("plan", "filter"),
    [
        ((Entry(Gaussian(4.0), 2), Entry(Vote(8.0))), "gaussian"),
        ((Entry(Gaussian(8.0)), Entry(Choice(0.1), 5)), "renyi"),
        ((Entry(Sampled(0.01, (Gaussian(1.1),)), 200),), "renyi"),
        ((Entry(Gaussian(8.0)), Entry(Threshold(8.0, 1e-7, 1))), "gaussian"),
        ((Entry(Capped("gaussian", 0.2)), Entry(Gaussian(8.0))), "gaussian"),
        ((Entry(Capped("zcdp", 0.02)), Entry(Gaussian(8.0))), "renyi"),
        ((Entry(Revealed("")),), None),
    ],
)
def test_the_cap_of_a_plan_keeps_the_budget_and_admits_a_plan_with_more_noise(plan, filter):
    budget = Budget(2.0, 1e-5)
    assert accounting.best(plan, 1e-5)[1] <= 2.0 or filter is None
    cap = cap_of(plan, budget)
    if filter is None:
        assert cap is None
        return
    assert cap.filter == filter
    assert accounting.best((Entry(cap),), 1e-5)[1] <= 2.0
    half = tuple(
        Entry(Gaussian(4 * entry.event.noise), entry.count) for entry in plan if isinstance(entry.event, Gaussian)
    )
    assert least_noise(lambda z: (*half, Entry(Gaussian(z))), cap) < 1e3
    if filter == "gaussian":  # the whole plan, to the last
        assert accounting.best((Entry(cap),), 1e-5)[1] == pytest.approx(accounting.best(plan, 1e-5)[1], rel=1e-9)


def test_a_later_field_at_its_default_changes_no_question_whether_it_is_its_own_or_that_of_what_it_holds():
    """Columns of histories gained fields, and fits that an earlier commit had begun were to be paid for again."""
    later = field(default=(), metadata={"later": True})
    held = [make_dataclass("View", [("order", str), *more]) for more in ((), [("groups", tuple, later)])]
    asked = make_dataclass("Asked", [("view", object), ("noise", float)])
    one, same = (digest(asked(each("day"), 1.0), None, None) for each in held)
    assert one == same
    assert digest(asked(held[1]("day", (0, 1)), 1.0), None, None)["view"] != one["view"]
