"""Resume (GUARANTEE 23): killed at every durable write, a fit goes on, and its ledger never says less than the truth."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget, Synthesizer
from synthdp.options import option
from synthdp.privacy import accounting
from synthdp.privacy.checkpoint import Checkpoint
from synthdp.privacy.events import Entry, Gaussian, Sampled
from synthdp.privacy.ledger import Ledger

STEPS, RATE = 64, 0.2
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
    steps: int = option(STEPS, "steps")
    rate: float = option(RATE, "rate")
    told: str = option("", "file to which every answer is reported")

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):  # noqa: ARG002
        return Entry(Gaussian(5 * noise)), Entry(Sampled(self.rate, (Gaussian(noise),)), self.steps)

    def fit(self, data, schema, budget, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(schema, z), budget)
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
    synth = Synthesizer(Walk(**settings), schema=make_schema(), budget=BUDGET)
    return synth.fit(
        make_frame(200),
        seed=seed,
        ledger=folder / "ledger.jsonl",
        checkpoint=folder / "checkpoint.safetensors",
        resume=resume,
    )


# Runs fits in forked children and kills each at its n-th durable write, before or after, or in the middle of the line.
KILLER = """
import os, sys
from pathlib import Path
import test_resume
from synthdp.privacy import checkpoint, ledger

def killed(folder, number, how, resume):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    seen = 0
    plain_append, plain_replace = ledger._append, os.replace
    def count(write, torn=None):
        nonlocal seen
        seen += 1
        if seen == number:
            if how == "torn" and torn is not None:
                torn()
            elif how == "after":
                write()
            os._exit(9)
        return write()
    def append(file, row):
        def torn():
            os.write(file, row[: 5 + 7 * number % len(row)].encode())
        return count(lambda: plain_append(file, row), torn)
    def replace(*paths):
        return count(lambda: plain_replace(*paths))
    ledger._append, os.replace = append, replace
    try:
        test_resume.fit(folder, resume=resume, rate=1.0, told=str(folder / "told"))
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr)
        os._exit(3)
    os._exit(0)

home = Path(sys.argv[1])
for how in ("before", "after", "torn"):
    number = 1
    while True:
        folder = home / f"{how}-{number}"
        folder.mkdir(parents=True)
        status = killed(folder, number, how, False)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        killed(folder, 3 + number % 5, how, True)  # killed again in the resumed part
        (folder / "twice").touch()
        number += 5
"""


@pytest.fixture(scope="module")
def wrecks(tmp_path_factory):
    home = tmp_path_factory.mktemp("wrecks")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])]),
    }
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(home)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = sorted(folder for folder in home.iterdir() if (folder / "twice").exists())
    assert len(folders) > 40
    return folders


def told(folder):
    file = folder / "told"
    return file.read_text().splitlines() if file.exists() else []


def charged(folder, torn_counts=True):
    file = folder / "ledger.jsonl"
    if not file.exists():
        return Counter()
    entries = (Ledger.read(file) if torn_counts else Ledger._read(file)).entries()
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


def test_a_rehearsal_resumed_before_its_first_redone_step_equals_an_uninterrupted_one(tmp_path):
    whole = fit(tmp_path / "whole")
    for blocks in (0, 1, 5, 32):
        folder = tmp_path / str(blocks)
        stopped(folder, blocks)
        resumed = fit(folder, resume=True)
        np.testing.assert_array_equal(resumed.model.total, whole.model.total)
        assert resumed.ledger.entries() == whole.ledger.entries()


def stopped(folder, blocks=4):
    """A fit that was stopped right after its n-th block was kept, before the next one is charged."""

    class Stop(Exception):
        pass

    plain, saves = Checkpoint.save, 0

    def save(self, facts, state):
        nonlocal saves
        plain(self, facts, state)
        saves += 1
        if saves == blocks + 1:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        with pytest.raises(Stop):
            fit(folder)


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
    assert set(facts) == {"noise", "most", "schema", "step", "of", "name"}  # all of them public


def test_redone_steps_are_charged_again_and_leave_fewer(tmp_path):
    stopped(tmp_path, blocks=4)
    ledger = Ledger.resume(tmp_path / "ledger.jsonl")
    event = next(entry.event for entry in ledger.entries() if isinstance(entry.event, Sampled))
    ledger.append(event, 10)  # ten more were charged, and lost with the process
    ledger.close()
    release = fit(tmp_path, resume=True)
    assert release.model.done == STEPS - 4 * STEPS // 32 - 10
    assert release.statement.epsilon <= BUDGET.epsilon
    counts = charged(tmp_path)
    assert counts["Sampled"] == STEPS


def test_resume_needs_both_files_and_starts_anew_where_nothing_was_asked(tmp_path):
    synth = Synthesizer(Walk(), schema=make_schema(), budget=BUDGET)
    with pytest.raises(BadInput, match="resume needs"):
        synth.fit(make_frame(50), resume=True)
    with pytest.raises(BadInput, match="a checkpoint needs ledger="):
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


def lost(folder, share):
    """A fit of `independent` whose ledger holds an answer of an earlier start, at this share of the precision of the plan's own."""
    schema, budget = make_schema(), Budget(1.0, 1e-5)
    noise = accounting.calibrate(lambda z: (Entry(Gaussian(z)),), budget, "pld")
    book = Ledger(folder / "ledger.jsonl")
    book.append(Gaussian(noise / share**0.5), 1)
    book.close()
    synthesizer = Synthesizer("independent", schema=schema, budget=budget)
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    return synthesizer.fit(make_frame(200), resume=True, **files)


def test_what_lost_answers_left_must_be_worth_a_fit(tmp_path):
    for share in (0.9, 0.25):
        (tmp_path / str(share)).mkdir()
    with pytest.raises(BadInput, match="3 times that of a new fit"):
        lost(tmp_path / "0.9", 0.9)
    assert len(Ledger.read(tmp_path / "0.9" / "ledger.jsonl").entries()) == 1
    with pytest.warns(UserWarning, match=r"are lost, and charged: this one has 1\.15 times the noise"):
        release = lost(tmp_path / "0.25", 0.25)
    assert 0.99 < release.statement.epsilon <= 1.0
