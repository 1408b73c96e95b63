"""A fit that is killed, and the same command with resume=true."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
from clinic import in_files, make_frame, make_schema
from hydra.errors import HydraException
from sweeps import heavy

from synthdp import NotEntered, Release, Schema, load
from synthdp.budgets import AccountFile, Entry
from synthdp.cli import compose, output_paths, run
from synthdp.errors import BadInput
from synthdp.generators.independent import Independent
from synthdp.ledger.events import Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.seal.resume import Answers


def command(folder, *more):
    words = ["fit", f"data.path={folder / 'train.csv'}", f"data.schema={folder / 'schema.yaml'}", "generator=dpgan"]
    words += [
        "generator.start=label",
        "generator.steps=1600",
        "generator.batch=64",
        "generator.hidden=[16]",
        "budget.delta=1e-5",
    ]
    return [*words, f"out={folder / 'run'}", *more]


def test_warnings_that_are_errors_end_no_fit_that_is_charged(tmp_path, monkeypatch, capsys):
    """Under `python -W error`, a library's warning lost a model that was paid for."""
    words = ["fit", *in_files(tmp_path)]
    monkeypatch.setattr("synthdp.errors.ENDING", ("error",))

    def warning(done):
        def warned(*given, **named):
            found = done(*given, **named)
            warnings.warn(f"of {done.__name__}", UserWarning, stacklevel=1)
            return found

        return warned

    monkeypatch.setattr(Independent, "fit", warning(Independent.fit))
    monkeypatch.setattr(Release, "save", warning(Release.save))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=NotEntered)
        assert run([*words, "generator=independent", "budget.delta=1e-5", f"out={tmp_path / 'run'}"]) == 0
        with pytest.raises(UserWarning, match="as before"):
            warnings.warn("as before", UserWarning, stacklevel=1)
    said = capsys.readouterr().err
    assert "warning: of fit" in said
    assert "warning: of save" in said
    assert load(tmp_path / "run" / "release")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_while_options_are_composed_ends_like_any_other(number, times, monkeypatch, output_of, request):
    """OmegaConf makes an error of its own of whatever interrupts it, which said nothing or was shown with its traceback."""
    if number == signal.SIGINT:  # which a shell's background job, such as a CI's, ignores
        first = signal.signal(number, signal.default_int_handler)
        request.addfinalizer(lambda: signal.signal(number, first))
    before = signal.getsignal(number)

    def interrupted(*_, **__):
        try:
            for _ in range(times):
                signal.raise_signal(number)
        except KeyboardInterrupt:
            raise HydraException from None
        raise AttributeError("lost")

    monkeypatch.setattr(compose, "hydra_compose", interrupted)
    assert output_of("epsilon", "noise=1", status=130).err == "synthdp: interrupted\n"
    assert signal.getsignal(number) == before


@pytest.mark.heavy
def test_kill_9_and_resume(tmp_path, capsys, output_of):
    in_files(tmp_path)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    internal = tmp_path / "run" / "internal"
    words = [sys.executable, "-m", "synthdp", *command(tmp_path)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            ledger = internal / "ledger.new.jsonl"
            if ledger.exists() and len(ledger.read_text().splitlines()) > 6:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    charged = sum(entry.count for entry in Ledger.read(internal / "ledger.new.jsonl").entries())
    assert 0 < charged < 1601
    assert not (tmp_path / "run" / "release").exists()

    # Without resume the folder is refused; another budget is another fit; with resume the same command goes on.
    assert "resume=true with the same arguments continues" in output_of(*command(tmp_path), status=2).err
    assert "another fit" in output_of(*command(tmp_path, "resume=true", "budget.epsilon=2"), status=2).err
    output_of(*command(tmp_path, "resume=true"))
    release = load(tmp_path / "run" / "release")
    assert release.statement.epsilon <= 1.0
    assert sum(entry.count for entry in release.ledger.entries()) == 1601  # tables and steps: what was planned
    assert sorted(path.name for path in internal.iterdir()) == ["config.yaml", "ledger.jsonl", "training.json"]
    assert run(["budget", f"account={tmp_path / 'train.csv.account'}", "format=json"]) == 0
    assert [fit["state"] for fit in json.loads(capsys.readouterr().out)["fits"]] == ["finished"]

    assert "nothing to resume" in output_of(*command(tmp_path, "resume=true"), status=2).err


@pytest.mark.heavy
def test_nothing_is_resumed_where_nothing_was_stopped(tmp_path, output_of):
    assert "nothing to resume" in output_of("fit", "data=meps", f"out={tmp_path / 'none'}", "resume=true", status=2).err
    assert not (tmp_path / "none").exists()


def test_a_fit_beside_a_running_one_in_the_same_folder_is_refused_and_takes_nothing(tmp_path, output_of):
    internal = tmp_path / "run" / "internal"
    internal.mkdir(parents=True)
    saved = internal / "checkpoint.safetensors.answers"
    with contextlib.closing(Ledger(internal / "ledger.new.jsonl")) as running:
        running.append(Gaussian(3.0))
        saved.write_text("{}")
        words = ["fit", "data=meps", "generator=independent", f"out={tmp_path / 'run'}", "account=null", "force=true"]
        assert "another fit is writing this ledger" in output_of(*words, status=2).err
        told = output_of(*words[:-1], status=2).err
        assert "running or was stopped; resume=true with the same arguments continues a stopped one" in told
        assert "force=true, and is charged again" in told
        assert saved.exists()
    assert [entry.event for entry in Ledger.read(internal / "ledger.new.jsonl").entries()] == [Gaussian(3.0)]


@pytest.mark.parametrize("command", [heavy("fit"), "pate"])
def test_a_folder_is_one_fit_s_before_it_has_a_ledger_and_after(tmp_path, output_of, command):
    """While a fit reads its table, and while it saves its release, nobody writes its ledger. Another fit took its answers then, or its
    canaries, or archived its ledger, or replaced the release that had come meanwhile."""
    out = tmp_path / "run"
    words = [command, "data=meps", f"out={out}", "account=null"]
    words += ["generator=independent", "force=true"] if command == "fit" else [f"public={tmp_path / 'public.csv'}"]
    with output_paths.claimed(str(out), force=False):
        for name in ("checkpoint.safetensors.answers", "canaries.json", "ledger.new.jsonl"):
            (out / "internal" / name).write_text("{}")
            assert "another fit is working in this folder" in output_of(*words, status=2).err
        assert len([*(out / "internal").iterdir()]) == 4
    assert not (out / "internal" / "lock").exists()


def test_a_lock_that_a_kill_left_stands_in_nobody_s_way(tmp_path):
    out = tmp_path / "run"
    (out / "internal").mkdir(parents=True)
    (out / "internal" / "lock").touch()
    with output_paths.claimed(str(out), force=False):
        pass
    assert not (out / "internal").exists()
    (out / "note.txt").touch()
    with pytest.raises(BadInput, match="is not empty"), output_paths.claimed(str(out), force=False):
        pass


def test_a_fit_that_is_refused_leaves_no_folder(tmp_path):
    words = ["fit", "data=meps", "generator=independent", "account=null", f"out={tmp_path / 'new' / 'run'}"]
    assert run([*words, "resume=true"]) == 2
    assert not (tmp_path / "new").exists()


def test_what_a_fit_without_a_ledger_left_stands_in_nobody_s_way(tmp_path):
    internal = tmp_path / "run" / "internal"
    internal.mkdir(parents=True)
    for name in ("checkpoint.safetensors.answers", "checkpoint.safetensors.next", "canaries.json"):
        (internal / name).write_text("{}")
    assert run(["fit", "data=meps", "generator=independent", f"out={tmp_path / 'run'}", "account=null"]) == 0
    (internal / "ledger.jsonl").rename(internal / "ledger.1.jsonl")
    (internal / "note.txt").write_text("a steward's")
    assert run(["fit", "data=meps", "generator=independent", f"out={tmp_path / 'run'}", "account=null"]) == 2
    assert (internal / "note.txt").exists()


@pytest.mark.heavy
def test_canaries_of_another_fit_are_refused_and_the_account_knows_the_table(tmp_path, capsys, output_of):
    words = [*in_files(tmp_path, 120), "generator=independent"]
    for name in ("a", "b"):
        assert run(["fit", *words, "audit.canaries=20", f"out={tmp_path / name}"]) == 0
    output_of("fit", *words, f"out={tmp_path / 'plain'}")
    mixed = [f"release={tmp_path / 'a' / 'release'}", f"canaries={tmp_path / 'b' / 'internal' / 'canaries.json'}"]
    assert "belongs to another fit" in output_of("audit", *mixed, status=2).err
    own = [mixed[0], f"canaries={tmp_path / 'a' / 'internal' / 'canaries.json'}"]
    assert run(["audit", *own]) == 0
    said = load(tmp_path / "a" / "release").statement.declared["audit"]
    assert "for each of 20 made-up records whether it was added" in said
    assert "audit" not in load(tmp_path / "plain" / "release").statement.declared
    capsys.readouterr()
    for words, ignored in [([*own, "runs=50"], "runs="), (["generator=independent", "rows=7"], "rows=")]:
        assert ignored in output_of("audit", *words, status=2).err


@pytest.mark.parametrize("number", [signal.SIGTERM, heavy(signal.SIGHUP)])
def test_a_signal_that_asks_for_the_end_is_as_ctrl_c_and_the_fit_goes_on_from_its_answers(
    tmp_path, capsys, output_of, monkeypatch, number
):
    words = ["fit", *in_files(tmp_path)]
    words += ["generator=mixture", "generator.components=5", "generator.iterations=20", f"out={tmp_path / 'run'}"]
    plain, before = (
        Answers.keep,
        signal.signal(number, signal.SIG_DFL),
    )  # nohup's processes ignore SIGHUP, and a fit does then

    def keep(self, *arguments):
        plain(self, *arguments)
        monkeypatch.setattr(Answers, "keep", plain)
        signal.raise_signal(number)

    monkeypatch.setattr(Answers, "keep", keep)
    try:
        assert run(words) == 130
    finally:
        signal.signal(number, before)
    said = capsys.readouterr()
    assert "interrupted" in said.err
    assert "resume=true to continue from the answers that were kept, at no further charge" in said.err
    internal = tmp_path / "run" / "internal"
    assert {path.name for path in internal.iterdir()} == {"ledger.new.jsonl", "checkpoint.safetensors.answers"}
    assert internal.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in internal.iterdir())
    for missing in ("run/release", "run"):
        assert run(["sample", f"release={tmp_path / missing}", "rows=5", f"out={tmp_path / 'made.csv'}"]) == 2
        told = f"the fit in {tmp_path / 'run'} is running or was stopped: its command with resume=true continues"
        assert told in capsys.readouterr().err
    charged = Ledger.read(internal / "ledger.new.jsonl").entries()
    assert run([*words, "resume=true"]) == 0
    release = load(tmp_path / "run" / "release")
    assert release.ledger.entries()[: len(charged)] == charged
    assert release.statement.epsilon <= 1.0
    assert sorted(path.name for path in internal.iterdir()) == ["config.yaml", "ledger.jsonl", "training.json"]
    capsys.readouterr()
    (fit,) = json.loads(output_of("budget", f"account={tmp_path / 'train.csv.account'}", "format=json").out)["fits"]
    assert fit["state"] == "finished"


def test_a_fit_that_cannot_go_on_says_what_it_lost_and_not_to_go_on(tmp_path, capsys, output_of, monkeypatch):
    """A threshold's delta is spent with the first lost answer after it, however little of epsilon was."""
    make_frame(300).to_csv(tmp_path / "train.csv", index=False)
    schema = make_schema()
    changed = {**schema.to_dict()["columns"], "sex": {"kind": "categorical", "categories": "learn"}}
    Schema.from_dict({**schema.to_dict(), "columns": changed}).save(tmp_path / "schema.yaml")
    words = ["fit", f"data.path={tmp_path / 'train.csv'}", f"data.schema={tmp_path / 'schema.yaml'}"]
    words += ["generator=independent", "budget.epsilon=4", f"out={tmp_path / 'run'}"]
    plain, kept = Answers.keep, []

    def keep(self, *arguments):
        plain(self, *arguments)
        kept.append(arguments)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Answers, "keep", keep)
    assert run(words) == 130
    monkeypatch.setattr(Answers, "keep", plain)
    capsys.readouterr()
    (answers,) = tmp_path.rglob("*.answers")
    answers.unlink()
    said = output_of(*words, "resume=true", status=2).err
    assert "answers of the stopped fit are lost but stay charged" in said
    assert "no question can be asked. Start a new fit" in said
    assert "charged so far: epsilon" in said
    assert "to continue" not in said
    assert "nearly the whole budget" not in said


@pytest.mark.parametrize("read", [True, heavy(False)])
def test_a_fit_that_is_refused_right_after_its_charge_says_what_its_account_holds(tmp_path, capsys, monkeypatch, read):
    """Its ledger holds no charge yet; the account holds the whole plan."""
    words = ["fit", *in_files(tmp_path)]
    words += ["generator=independent", "budget.epsilon=0.5", "budget.delta=1e-5", f"out={tmp_path / 'run'}"]

    def refuses(*_):
        raise BadInput("after the charge")

    enter = Entry.enter
    with monkeypatch.context() as patch:

        def entered(*given):
            enter(*given)
            if not read:
                patch.setattr(AccountFile, "read", refuses)
            refuses()

        patch.setattr(Entry, "enter", entered)
        assert run(words) == 2
    said = capsys.readouterr().err
    account = tmp_path / "train.csv.account"
    assert "after the charge" in said
    if read:
        assert (
            f"The account {account} holds its whole plan, for epsilon 0.5 at delta 1e-05. Run the same command" in said
        )
    else:
        assert f"The account {account} cannot be read now, and may hold the fit's whole plan" in said
    assert run([*words, "resume=true"]) == 0
    (fit,) = AccountFile(path=account).read().fits
    assert fit.budget == (0.5, 1e-5)
