"""What a user hears: `quiet=true` and `log=FILE`, which every command takes, help, interrupts, and which command comes next."""

import os
import stat
import subprocess
import sys

import pytest

from synthdp import Schema
from synthdp.cli import run

TABLE = "age,ill\n" + "".join(f"{20 + row % 50},{row % 2}\n" for row in range(200))
LINES = TABLE.splitlines(keepends=True)
SCHEMA = {
    "declared_by": "the tests",
    "units": 200,
    "columns": {"age": {"kind": "integer", "bounds": [0, 110]}, "ill": {"kind": "boolean"}},
}
FIT = [
    "fit",
    "data.path=t.csv",
    "data.schema=s.yaml",
    "generator=independent",
    "budget.epsilon=1",
    "budget.delta=1e-5",
    "out=run",
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE)
    Schema.from_dict(SCHEMA).save(tmp_path / "s.yaml")
    return tmp_path


@pytest.mark.parametrize("most", [1, 4])
def test_a_fit_says_that_rows_are_records_where_a_unit_may_have_several(table, output_of, most):
    """The proposed number is that of the declared units: with four records each it draws a quarter of the people."""
    (table / "t.csv").write_text("who," + "".join(f"{row // 2}," * bool(row) + line for row, line in enumerate(LINES)))
    columns = {"who": {"kind": "identifier"}, **SCHEMA["columns"]}
    facts = {"unit": "who", "max_records_per_unit": most, "units": 100, "columns": columns}
    Schema.from_dict({**SCHEMA, **facts}).save(table / "s.yaml")
    said = output_of(*FIT).out
    told = (
        "rows       sample counts records, not units: 100 units of 'who' are declared, with up to 4 records each\nnext "
    )
    assert (told in said) == (most > 1)
    assert ("rows       " in said) == (most > 1)


def test_a_log_has_all_that_was_said_and_is_the_owner_s(table, capsys, output_of):
    said, log = output_of(*FIT, "log=fit.log"), (table / "fit.log").read_text()
    assert "next       synthdp sample release=run/release rows=200 out=synthetic.csv" in said.out
    assert all(line in log for line in (said.out + said.err).splitlines())
    assert stat.S_IMODE((table / "fit.log").stat().st_mode) == 0o600
    assert run(["sample", "release=run/release", "rows=nothing", "out=x.csv", "log=fit.log"]) == 2
    more = (table / "fit.log").read_text().removeprefix(log)
    assert capsys.readouterr().err in more, "added to"
    assert "synthdp: " in more
    assert more.splitlines()[0].endswith(" synthdp sample")


@pytest.mark.heavy
def test_sample_leads_to_the_evaluation_where_it_knows_what_was_held_out(table, capsys, output_of):
    (table / "t.csv").rename("train.csv")
    assert run([word.replace("t.csv", "train.csv") for word in FIT]) == 0
    sample = ["sample", "release=run/release", "rows=5", "force=true", "out=x.csv"]
    capsys.readouterr()
    assert "next " not in output_of(*sample).out
    (table / "held_out.csv").write_text(TABLE)
    assert output_of(*sample).out.splitlines()[-1] == (
        "next       synthdp evaluate synthetic=x.csv release=run/release data.train=train.csv data.test=held_out.csv "
        "data.schema=s.yaml out=run/evaluation"
    )
    assert run([*sample[:4], "out=duckdb:///made.db#x"]) == 0
    assert "evaluate 'synthetic=duckdb:///made.db#x' release=run/release" in capsys.readouterr().out.splitlines()[-1]
    assert "next " not in output_of(*sample, "where={ill: true}").out


def test_a_quiet_command_says_only_what_is_amiss(table, capfd):
    assert run([*FIT, "quiet=true"]) == 0
    assert capfd.readouterr() == ("", "")
    assert run([*FIT, "quiet=true"]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err.startswith("synthdp: ")) == ("", 1, True)
    assert run(["sample", "release=run/release", "rows=5", "out=-", "quiet=true"]) == 0
    out, err = capfd.readouterr()
    assert (out.count("\n"), err) == (6, ""), "records are no message"


def test_a_quiet_command_still_warns_of_what_speaks_against_a_release(table, capfd):
    """Each would be missed otherwise: a large epsilon, a rehearsal, facts that were read off, an account that there is none of."""
    facts = {**SCHEMA, "columns": {**SCHEMA["columns"], "age": {**SCHEMA["columns"]["age"], "observed": True}}}
    Schema.from_dict(facts).save(table / "s.yaml")
    loud = [*FIT, "budget.epsilon=11", "seed=1", "account=none"]
    assert run([*loud, "quiet=true"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert all(line.startswith("synthdp: warning: ") for line in err.splitlines())
    for said in ("epsilon 11 is large", "rehearsal", "read off the records", "entered in no account"):
        assert said in err
    assert run([*loud, "force=true"]) == 0
    assert set(err.splitlines()) <= set(capfd.readouterr().err.splitlines()), (
        "the same warnings, and on the same stream, without quiet"
    )
    assert run(["sample", "release=run/release", "rows=5", "out=x.csv", "quiet=true"]) == 0
    out, err = capfd.readouterr()
    assert (out, "rehearsal" in err) == ("", True)


def test_a_quiet_command_that_writes_no_file_still_answers(table, capfd):
    assert run(["epsilon", "noise=1", "format=json", "quiet=true"]) == 0
    assert capfd.readouterr().out.startswith("{")
    assert run(["plan", *FIT[1:-1], "quiet=true"]) == 0
    out = capfd.readouterr().out
    assert "columns " in out
    assert "next " not in out
    assert run(["schema", "path=t.csv", "quiet=true"]) == 0
    assert "columns:" in capfd.readouterr().out
    assert run(["schema", "path=t.csv", "out=draft.yaml", "quiet=true"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("word", "said"),
    [("quiet=yes", "true or false"), ("log=", "name a file"), ("log=no/such/folder", "cannot be written")],
)
def test_what_is_no_such_option_is_refused_before_anything_else(table, output_of, word, said):
    assert said in output_of(*FIT, word, status=2).err
    assert not (table / "run").exists()


@pytest.mark.heavy
def test_a_sweep_ends_with_the_command_that_compares_its_releases(table, output_of):
    (table / "t.csv").rename("train.csv")
    sweep = [word.replace("t.csv", "train.csv").replace("epsilon=1", "epsilon=1,2") for word in FIT]
    assert "compare" not in output_of(*sweep, "--multirun").out, "nothing says by which records"
    (table / "held_out.csv").write_text(TABLE)
    assert output_of(*sweep, "--multirun", "force=true").out.splitlines()[-1] == (
        "next       synthdp compare runs=run data.train=train.csv data.test=held_out.csv data.schema=s.yaml"
    )


def test_a_check_of_a_draft_says_that_plan_and_fit_refuse_it(table, output_of):
    check = ["check", "data.path=t.csv", "data.schema=s.yaml"]
    assert "open " not in output_of(*check).out
    Schema.from_dict({**SCHEMA, "declared_by": None}).save(table / "s.yaml")
    assert output_of(*check).out.splitlines()[-2] == (
        "open       plan and fit refuse a draft: delete its review marks as you go through it, and fill in declared_by"
    )


def test_help_of_a_command_may_be_asked_for_in_either_order(output_of):
    told = output_of("help", "sample").out
    assert told.startswith("usage: synthdp sample key=value")
    assert output_of("sample", "--help").out == told
    assert "did you mean 'sample'?" in output_of("help", "sampel", status=2).err


@pytest.mark.parametrize("word", ["help", "--help", "--version"])
def test_help_that_nobody_reads_ends_as_other_output_does(word):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "synthdp", word], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_second_interrupt_while_python_ends_shows_no_traceback():
    code = """
import atexit, os, signal, sys
import synthdp.cli
signal.signal(signal.SIGINT, signal.default_int_handler)
synthdp.cli.run = lambda words: 130
atexit.register(os.kill, os.getpid(), signal.SIGINT)
from synthdp.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_notebook_completes_the_names_that_are_offered():
    code = "import synthdp; print(set(synthdp.__all__) <= set(dir(synthdp)), 'pandas' in __import__('sys').modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.heavy
def test_rooms_with_functions_of_their_own_need_no_second_import():
    code = "import synthdp as s; print(*(each.__name__ for each in (s.evaluate.evaluate, s.trainer.load, s.testing.check_generator)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["evaluate", "load", "check_generator"]
