"""`synthdp compare` as a user meets it: stopped half way, gone on with, on releases that are whole, broken and unfinished."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from clinic import in_files, make_frame, make_schema, refused

from synthdp import accounting, load
from synthdp.cli import run
from synthdp.ledger.ledger import Ledger

QUICK = ["evaluate.models=[lr]", "evaluate.seeds=1", "evaluate.bootstrap=20", "evaluate.attacks=false"]
GOOD, REHEARSED = "budget.epsilon=2", "rehearsed"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Tables, and a sweep of a fit, a rehearsal, a broken release and a fit that was stopped."""
    folder = tmp_path_factory.mktemp("clinic")
    make_frame(120, seed=7).to_csv(folder / "test.csv", index=False)
    words = [*in_files(folder, 200), "generator=independent"]
    words += ["budget.delta=1e-5", "budget.epsilon=2", "account=none"]
    sweep = folder / "sweep"
    assert run(["fit", *words, f"out={sweep / GOOD}"]) == 0
    assert run(["fit", *words, "seed=1", f"out={sweep / REHEARSED}"]) == 0
    shutil.copytree(sweep / GOOD, sweep / "broken")
    (sweep / "broken" / "release" / "model.safetensors").write_bytes(b"no")
    (sweep / "stopped" / "internal").mkdir(parents=True)
    shutil.copy(sweep / GOOD / "internal" / "ledger.jsonl", sweep / "stopped" / "internal" / "ledger.new.jsonl")
    return folder


def command(clinic, *more):
    return ["compare", f"runs={clinic / 'sweep'}", f"data.test={clinic / 'test.csv'}", *QUICK, *more]


def started(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "synthdp", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )


def ended(process, seconds=240):
    try:
        return process.communicate(timeout=seconds)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def stopped_and_finished(clinic):
    """(what Ctrl-C left, its output, what the second call made, its output, when the first evaluation was written)."""
    out = clinic / "compared"
    first = out / "evaluations" / GOOD
    process = started(*command(clinic, f"out={out}"))
    deadline = time.monotonic() + 200
    while not (first / "kept.json").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    told = (*ended(process), process.returncode)
    left = json.loads((out / "compare.json").read_text())
    written = (first / "evaluation.json").stat().st_mtime_ns
    process = started(*command(clinic, f"out={out}", "force=true"))
    again = (*ended(process), process.returncode)
    return left, told, json.loads((out / "compare.json").read_text()), again, written


@pytest.mark.heavy
def test_ctrl_c_leaves_what_was_done(stopped_and_finished):
    left, (stdout, stderr, status), *_ = stopped_and_finished
    assert status == 130, stderr
    assert "Traceback" not in stderr
    assert left["stopped"]
    assert [row["run"] for row in left["runs"]] == [GOOD]
    assert "force=true continues" in stdout


@pytest.mark.heavy
def test_a_second_call_goes_on_and_judges_nothing_twice(stopped_and_finished, clinic):
    *_, found, (stdout, stderr, status), written = stopped_and_finished
    assert status == 0, stderr
    assert not found["stopped"]
    assert [row["run"] for row in found["runs"]] == [GOOD, REHEARSED]
    first = clinic / "compared" / "evaluations" / GOOD
    assert (first / "evaluation.json").stat().st_mtime_ns == written
    assert GOOD not in stderr  # no progress of a release that was judged already
    assert REHEARSED in stderr
    assert "compare.html (internal: do not release)" in stdout


@pytest.mark.heavy
def test_broken_and_unfinished_runs_are_listed_with_the_reason(stopped_and_finished):
    found = stopped_and_finished[2]
    reasons = {entry["run"]: entry["reason"] for entry in found["not_compared"]}
    assert set(reasons) == {"broken", "stopped"}
    assert "'model.safetensors' is not the file" in reasons["broken"]
    assert "not finished" in reasons["stopped"]


@pytest.mark.heavy
def test_the_sweep_costs_what_all_its_ledgers_cost_together(stopped_and_finished, clinic):
    found, (stdout, *_) = stopped_and_finished[2:4]
    sweep = clinic / "sweep"
    ledgers = [sweep / name / "internal" / "ledger.jsonl" for name in (GOOD, "broken")]
    ledgers.append(sweep / "stopped" / "internal" / "ledger.new.jsonl")
    events = [entry for path in ledgers for entry in Ledger.read(path).entries()]
    expected = accounting.epsilon(events, 1e-5, "pld")
    assert found["cost"]["epsilon"] == pytest.approx(expected, abs=1e-3)
    assert 2 < expected < 3 * 2
    assert (found["cost"]["runs"], found["cost"]["others"], found["cost"]["rehearsals"]) == (1, 2, 1)
    assert "The whole sweep cost epsilon" in stdout
    assert "1 rehearsal is not in the sum" in stdout


@pytest.mark.heavy
def test_the_figures_are_those_of_evaluate(stopped_and_finished, clinic):
    """The mean of a point with several releases is that of their evaluations; rehearsals are marked."""
    found = stopped_and_finished[2]
    kept = clinic / "compared" / "evaluations"
    judged = {row["run"]: json.loads((kept / row["run"] / "evaluation.json").read_text()) for row in found["runs"]}
    values = [judged[name]["targets"]["ill"]["average"]["tstr"]["auroc"]["mean"] for name in (GOOD, REHEARSED)]
    utility = next(panel for panel in found["panels"] if panel["id"] == "utility-ill")
    points = {point["epsilon"]: point for point in utility["lines"][0]["points"]}
    assert points[2.0]["values"] == values
    assert points[2.0]["mean"] == pytest.approx(sum(values) / 2)
    assert {row["run"]: row["rehearsal"] for row in found["runs"]} == {GOOD: False, REHEARSED: True}
    page = (clinic / "compared" / "compare.html").read_text()
    assert "contains statistics of real records. Do not release" in page
    assert "ranks of models (ill): only one model" in page
    assert "ranks.ill" not in page


@pytest.mark.heavy
def test_bad_input_gets_one_line(clinic, tmp_path, capsys):
    sweep = clinic / "sweep"
    make_schema(columns={"stage": {"kind": "categorical", "categories": ["I", "II", "III"]}}).save(
        tmp_path / "kinds.yaml"
    )
    assert "not a folder" in refused(capsys, "compare", f"runs={tmp_path / 'nowhere'}")
    assert "no readable release" in refused(capsys, "compare", f"runs={tmp_path}", f"out={tmp_path / 'a'}")
    assert "data.test=FILE" in refused(capsys, "compare", f"runs={sweep}", f"out={tmp_path / 'a'}")
    assert "evaluate.samples" in refused(capsys, *command(clinic, "evaluate.samples=0", f"out={tmp_path / 'a'}"))
    assert "different schemas" in refused(
        capsys, *command(clinic, f"data.schema={tmp_path / 'kinds.yaml'}", f"out={tmp_path / 'a'}")
    )
    assert "model" in refused(capsys, *command(clinic, "evaluate.models=[nope]", f"out={tmp_path / 'a'}"))
    assert not (tmp_path / "a").exists()


@pytest.mark.heavy
def test_releases_of_other_schemas_or_data_are_refused(clinic, tmp_path, capsys, output_of):
    sweep = tmp_path / "mixed"
    shutil.copytree(clinic / "sweep" / GOOD, sweep / "a")
    make_frame(60).to_csv(tmp_path / "other.csv", index=False)
    make_schema(columns={"age": {"kind": "integer", "bounds": [0, 120], "bins": 4}}).save(tmp_path / "wide.yaml")
    words = [f"data.path={tmp_path / 'other.csv'}", "generator=independent", "account=none", f"out={sweep / 'b'}"]
    output_of("fit", *words, f"data.schema={clinic / 'schema.yaml'}")
    error = refused(capsys, "compare", f"runs={sweep}", f"data.test={clinic / 'test.csv'}", f"out={tmp_path / 'x'}")
    assert "different data" in error
    output_of("fit", *words, f"data.schema={tmp_path / 'wide.yaml'}", "force=true")
    error = refused(capsys, "compare", f"runs={sweep}", f"data.test={clinic / 'test.csv'}", f"out={tmp_path / 'x'}")
    assert "different schemas (column 'age')" in error


@pytest.mark.heavy
def test_a_sweep_is_judged_where_the_fits_were_told_their_data(clinic):
    """Held-out records apart, nothing has to be said again."""
    from synthdp.cli import settings
    from synthdp.cli.compare import found, source_of

    runs = found(clinic / "sweep", clinic / "out")
    moved = source_of(settings.Data(train="moved.csv", test="held.csv"), runs)
    assert (moved.path, moved.train, moved.schema) == (None, "moved.csv", str(clinic / "schema.yaml"))
    source = source_of(settings.Data(test="held.csv"), runs)
    assert (source.path, source.test) == (str(clinic / "train.csv"), "held.csv")
    assert source.schema == str(clinic / "schema.yaml")
    assert len([entry for entry in runs if entry.release is not None]) == 2
    assert load(clinic / "sweep" / REHEARSED / "release").statement.rehearsal


def test_a_named_data_set_needs_no_words(tmp_path):
    from synthdp.cli import settings
    from synthdp.cli.compare import Found, source_of
    from synthdp.errors import BadInput

    named = Found(name="a", folder=tmp_path, release=None, data={"name": "adult", "path": None, "target": "income"})
    assert source_of(settings.Data(), [named]) == settings.Data(name="adult", target="income")
    assert source_of(settings.Data(name="meps"), [named]) == settings.Data(name="meps")
    with pytest.raises(BadInput, match=r"data\.test=FILE"):
        source_of(settings.Data(), [Found(name="a", folder=tmp_path, release=None)])
