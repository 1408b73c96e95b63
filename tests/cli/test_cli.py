"""The command line as a user meets it: a process, its exit status, what it prints and what it leaves on disk."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import linked_clinic
import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema, refused
from sweeps import heavy, sweep

from synthdp import Schema, load
from synthdp.cli import COMMANDS, evaluations, output_paths, run
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec

FAST = ["generator=dpgan", "generator.steps=20", "generator.batch=64", "budget.epsilon=1", "budget.delta=1e-5"]


def synthdp(*arguments, cwd=None, timeout=120):
    return subprocess.run(
        [sys.executable, "-m", "synthdp", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"},
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files with spaces = (1)")
    make_frame(300).to_csv(folder / "train a=b (1).csv", index=False)
    make_frame(200, seed=7).to_csv(folder / "test.csv", index=False)
    make_schema().save(folder / "schema.yaml")
    return folder


def of(files, *more):
    return [f"data.path={files / 'train a=b (1).csv'}", f"data.schema={files / 'schema.yaml'}", *more]


@pytest.fixture(scope="module")
def fitted(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "run"
    assert run(["fit", *map(str, of(files)), *FAST, f"out={out}"]) == 0
    return out


def test_a_fit_without_memory_does_not_say_how_many_records_there_are(files, tmp_path, monkeypatch, capsys):
    """NumPy's words hold the shape of the array that did not fit."""
    monkeypatch.setattr(Codec, "encode", lambda _, frame: np.empty((len(frame), 1 << 50)))
    told = refused(capsys, "fit", *of(files), "generator=independent", "budget.epsilon=1", f"out={tmp_path / 'run'}")
    assert "there is not enough memory" in told
    assert "300" not in told


def test_help_is_quick_and_lists_every_command():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = synthdp("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)
    assert seconds < 1.0  # of the processor's time: 0.1 s on a quiet machine, and over 2 s with torch


@pytest.mark.heavy
def test_who_only_reads_a_release_does_not_wait_for_torch(files, tmp_path):
    assert (
        run(
            ["fit", *of(files, "generator=mixture", "budget.epsilon=1", "budget.delta=1e-5", f"out={tmp_path / 'run'}")]
        )
        == 0
    )
    release = f"release={tmp_path / 'run/release'}"
    for command in (["verify", release], ["sample", release, "rows=5", f"out={tmp_path / 'synthetic.csv'}"]):
        code = f"import sys; from synthdp.cli import run; sys.exit(run({command!r}) or 'torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_version():
    assert synthdp("--version").stdout.startswith("synthdp 0.")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_shows_options_with_defaults(command, output_of):
    text = output_of(command, "--help").out
    assert f"usage: synthdp {command}" in text
    if command == "fit":
        for option in ("budget.epsilon", "generator.components", "data.schema", "out", "seed"):
            assert option in text
        assert "[required]" in text


def test_fit_leaves_a_release_and_internal_files(fitted):
    assert sorted(path.name for path in (fitted / "release").iterdir()) == [
        "ledger.jsonl",
        "manifest.json",
        "model.safetensors",
        "release.json",
    ]
    assert {"ledger.jsonl", "config.yaml", "training.json"} <= {path.name for path in (fitted / "internal").iterdir()}
    statement = load(fitted / "release").statement
    assert 0.95 <= statement.epsilon <= 1.0
    assert not statement.rehearsal
    assert Ledger.read(fitted / "internal" / "ledger.jsonl").entries() == statement.events


def test_no_hydra_folders_appear(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["fit", *of(files), "generator=independent", "out=run"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_sample_writes_what_was_asked(fitted, tmp_path, ending):
    out = tmp_path / f"synthetic.{ending}"
    assert run(["sample", f"release={fitted / 'release'}", "rows=123", f"out={out}", "seed=4"]) == 0
    frame = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert len(frame) == 123
    assert list(frame.columns) == list(make_schema().names)


def test_sample_to_standard_output_is_the_table_and_nothing_else(fitted, tmp_path, capfdbinary):
    asked = ["sample", f"release={fitted / 'release'}", "rows=50", "seed=4"]
    assert run([*asked, f"out={tmp_path / 's.csv'}"]) == 0
    capfdbinary.readouterr()
    assert run([*asked, "out=-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == (tmp_path / "s.csv").read_bytes()
    assert b"50 synthetic records" in err


@pytest.mark.heavy
def test_whoever_reads_the_first_lines_alone_hears_no_complaint(fitted):
    """As in `synthdp sample out=- | head`: the status is that of a program which SIGPIPE ends."""
    command = [sys.executable, "-m", "synthdp", "sample", f"release={fitted / 'release'}", "rows=200000", "out=-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read().decode()
    assert running.returncode == 141
    assert "pipe" not in said
    assert "Traceback" not in said


def test_closing_lines_name_the_columns_that_synthetic_files_lack(files, tmp_path, capsys, output_of):
    values = make_schema().to_dict()
    more = {f"note{each}": {"kind": "ignore"} for each in range(9)}
    Schema.from_dict({**values, "columns": {**values["columns"], **more}}).save(tmp_path / "schema.yaml")
    made = [f"data.path={files / 'train a=b (1).csv'}", f"data.schema={tmp_path / 'schema.yaml'}"]
    assert run(["fit", *made, "generator=independent", f"out={tmp_path / 'run'}"]) == 0
    line = f"synthetic files lack ignored columns: {', '.join(list(more)[:8])} and 1 more"
    assert line in capsys.readouterr().out
    drawn = ["sample", f"release={tmp_path / 'run' / 'release'}", "rows=5"]
    assert line in output_of(*drawn, f"out={tmp_path / 's.csv'}").out
    assert line in output_of(*drawn, "out=-").err


def test_a_refused_sample_makes_no_folder(fitted, tmp_path, capsys):
    assert "seed" in refused(
        capsys, "sample", f"release={fitted / 'release'}", "rows=3", "seed=-1", f"out={tmp_path / 'a' / 's.csv'}"
    )
    assert not (tmp_path / "a").exists()


@pytest.mark.heavy
def test_evaluate_and_report(fitted, files, tmp_path):
    synthetic = tmp_path / "synthetic.parquet"
    assert run(["sample", f"release={fitted / 'release'}", "rows=300", f"out={synthetic}"]) == 0
    words = [
        f"synthetic={synthetic}",
        f"data.train={files / 'train a=b (1).csv'}",
        f"data.test={files / 'test.csv'}",
        f"data.schema={files / 'schema.yaml'}",
        "evaluate.seeds=1",
        "evaluate.models=[lr]",
        f"out={tmp_path / 'judged'}",
    ]
    assert run(["evaluate", *words]) == 0
    result = json.loads((tmp_path / "judged" / "evaluation.json").read_text())
    assert result["schema_version"] == 2
    assert 0 <= result["targets"]["ill"]["tstr"]["lr"]["auroc"]["mean"] <= 1
    assert "do not release" in (tmp_path / "judged" / "evaluation.html").read_text().lower()
    assert run(["report", f"release={fitted / 'release'}", f"out={tmp_path / 'report'}"]) == 0
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"statement.html", "statement.json"}


def test_evaluate_refuses_the_release_of_other_columns(fitted, files, tmp_path, capsys):
    """Its guarantee stood beside what attacks found in records that it was not fitted to."""
    values = make_schema().to_dict()
    values["columns"] = {"ward_nr" if name == "sex" else name: each for name, each in values["columns"].items()}
    other = Schema.from_dict(values)
    other.save(tmp_path / "other.yaml")
    for name, part in (("train", "train a=b (1).csv"), ("test", "test.csv")):
        pd.read_csv(files / part).rename(columns={"sex": "ward_nr"}).to_csv(tmp_path / f"{name}.csv", index=False)
    words = [f"data.{part}={tmp_path / part}.csv" for part in ("train", "test")]
    words += [
        f"data.schema={tmp_path / 'other.yaml'}",
        f"synthetic={tmp_path / 'test.csv'}",
        f"out={tmp_path / 'page'}",
    ]
    error = refused(capsys, "evaluate", *words, f"release={fitted / 'release'}")
    assert "has other columns than data.schema: it has no 'ward_nr'; the schema has no 'sex'" in error
    assert not (tmp_path / "page").exists()


def test_what_a_fit_learns_and_what_a_schema_leaves_out_may_differ_from_the_release():
    declared = make_schema(units=300)
    learned = {"sex": {"kind": "categorical", "categories": "learn"}, "dose": {"kind": "ignore"}}
    evaluations.check_same(make_schema(columns=learned, units=100), declared, "release")
    visits = {**linked_clinic.VISIT, "max_rows": 7}
    evaluations.check_same(linked_clinic.schema(tables={"visit": visits}), linked_clinic.schema(), "release")


def test_epsilon_of_a_ledger_is_the_statement_s_epsilon(fitted, capsys):
    statement = load(fitted / "release").statement
    ledger = fitted / "release" / "ledger.jsonl"
    assert run(["epsilon", f"ledger={ledger}", f"delta={statement.delta}", "accountant=pld", "format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"]["pld"] == pytest.approx(statement.recompute(), abs=1e-9)


def test_calibrate_json(output_of):
    answer = json.loads(output_of("calibrate", "epsilon=1", "delta=1e-5", "rate=1", "steps=200", "format=json").out)
    assert set(answer) == {"noise", "epsilon", "accountant"}
    assert 0.995 <= answer["epsilon"] <= 1.0


@pytest.mark.heavy
def test_data_lists_the_named_sets(output_of):
    text = output_of("data").out
    assert all(name in text for name in ("meps", "adult", "diabetes130"))


def test_multirun_writes_one_folder_per_value(files, tmp_path):
    words = [*of(files), "generator=independent", "budget.epsilon=0.5,2", f"out={tmp_path / 'sweep'}"]
    assert run(["fit", "--multirun", *words]) == 0
    folders = sorted((tmp_path / "sweep").iterdir())
    assert [folder.name for folder in folders] == ["budget.epsilon=0.5", "budget.epsilon=2"]
    assert [load(folder / "release").statement.budget.epsilon for folder in folders] == [0.5, 2.0]


@pytest.mark.parametrize("command", [heavy("fit"), "plan"])
def test_a_sweep_says_before_each_run_which_one_it_is(command, files, tmp_path, output_of):
    words = [*of(files), "generator=independent", f"out={tmp_path / 'sweep'}"]
    lines = output_of(command, "--multirun", *words, "budget.epsilon=0.5,1").out.splitlines()
    at = [lines.index(f"run        budget.epsilon={epsilon}") for epsilon in ("0.5", "1")]
    begin = "release" if command == "fit" else "plan"
    assert at[0] == 0
    assert at[0] < next(place for place, line in enumerate(lines) if line.startswith(begin)) < at[1] < len(lines) - 1
    assert "run  " not in output_of(command, *words[:-1], f"out={tmp_path / 'one'}", "budget.epsilon=1").out


def test_a_config_dir_adds_groups(files, tmp_path):
    (tmp_path / "conf" / "budget").mkdir(parents=True)
    (tmp_path / "conf" / "budget" / "ours.yaml").write_text("defaults: [default, _self_]\nepsilon: 0.25\n")
    words = ["generator=independent", "budget=ours", f"out={tmp_path / 'run'}", "--config-dir", str(tmp_path / "conf")]
    assert run(["fit", *of(files), *words]) == 0
    assert load(tmp_path / "run" / "release").statement.budget.epsilon == 0.25


@pytest.mark.heavy
def test_ctrl_c_leaves_a_ledger_that_says_what_was_asked(files, tmp_path):
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "synthdp",
        "fit",
        *of(files),
        "generator=dpgan",
        "generator.steps=20000",
        "generator.batch=64",
        f"out={out}",
    ]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    ledger = out / "internal" / "ledger.new.jsonl"
    try:
        deadline = time.monotonic() + 90
        while not (ledger.exists() and b'"event"' in ledger.read_bytes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "warning: charged so far" in stderr
    charged = sum(entry.count for entry in Ledger.read(ledger).entries())
    assert 0 < charged < 20000
    assert not (out / "release").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "out="),
        (["out={tmp}/x", "budget.epsilon=0"], "budget.epsilon must be greater than 0"),
        heavy((["out={tmp}/x", "budget.epsilon=high"], "budget.epsilon must be a number")),
        heavy((["out={tmp}/x", "budget.delta=1"], "budget.delta must lie strictly between 0 and 1")),
        (["out={tmp}/x", "budget.epsilom=1"], "did you mean 'budget.epsilon'"),
        (["out={tmp}/x", "generator=dpgam"], "generator"),
        heavy((["out={tmp}/x", "generator.starts=many"], "generator.starts must be a whole number")),
        (["out={tmp}/x", "data=nowhere"], "data=nowhere: unknown name; known: adult"),
        (["out={tmp}/x", "data=mep"], "did you mean 'meps'"),
        (["out={tmp}/x", "data.path=/nowhere/file.csv"], "data.schema"),
        (["out={tmp}/x", "data.path=/nowhere/file.csv", "data.schema={files}/schema.yaml"], "file.csv"),
        (["out={tmp}/x", "stray"], "key=value"),
        (["out={tmp}/x", "+bogus=1"], "key=value"),
        (["out={tmp}/x", "experiment=nope"], "no experiment named 'nope'"),
        (["out={tmp}/x", "data=meps", "data.schema={files}/schema.yaml"], "contradict"),
        heavy((["out={tmp}/x", "budget.epsilon=nan"], "budget.epsilon")),
        (["out={tmp}/x", "budget.epsilon=[1"], "budget.epsilon"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(files, tmp_path, capsys, arguments, says):
    words = [word.replace("{tmp}", str(tmp_path)).replace("{files}", str(files)) for word in arguments]
    assert says in refused(capsys, "fit", *words)
    assert not (tmp_path / "x").exists()


def test_an_unknown_command_names_the_nearest(capsys):
    assert "did you mean 'sample'" in refused(capsys, "sampel")


def test_an_existing_out_is_refused_and_force_keeps_the_old_ledger(files, tmp_path, capsys, output_of):
    out = tmp_path / "run"
    words = ["fit", *of(files), "generator=independent", f"out={out}"]
    output_of(*words)
    assert "force=true" in refused(capsys, *words)
    assert run([*words, "force=true"]) == 0
    assert sorted(path.name for path in (out / "internal").glob("ledger*")) == ["ledger.1.jsonl", "ledger.jsonl"]


def test_force_replaces_samples_and_never_the_records_that_were_fitted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_schema().save("schema.yaml")
    make_frame(300).to_csv("real.csv", index=False)
    (tmp_path / "parts").mkdir()
    make_frame(300).to_parquet("parts/1.parquet")
    os.symlink("real.csv", "link.csv")
    for path, places in (("real.csv", ("real.csv", "link.csv")), ("parts", ("parts/1.parquet",))):
        fit = ["fit", f"data.path={path}", "data.schema=schema.yaml", "generator=independent", "account=none"]
        assert run([*fit, "out=run", "force=true"]) == 0
        for place in places:
            before = Path(place).read_bytes()
            told = refused(capsys, "sample", "release=run/release", "rows=5", f"out={place}", "force=true")
            assert "holds the records that were fitted" in told
            assert Path(place).read_bytes() == before
        for rows in (5, 6):
            assert run(["sample", "release=run/release", f"rows={rows}", "out=made.csv", "force=true"]) == 0
            assert len(pd.read_csv("made.csv")) == rows


def test_records_that_break_the_schema_are_refused_by_rule_and_never_shown(files, tmp_path, capsys, output_of):
    frame = make_frame(50)
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[:2, "sex"] = "secret-value"
    frame.loc[5, "age"] = 4711
    frame.to_csv(tmp_path / "bad.csv", index=False)
    words = [f"data.path={tmp_path / 'bad.csv'}", f"data.schema={files / 'schema.yaml'}", "generator=independent"]
    error = refused(capsys, "fit", *words, f"out={tmp_path / 'run'}")
    assert "column 'sex': some values are not one of the declared categories" in error
    assert "column 'age': some values are outside the declared bounds [" in error
    assert "secret-value" not in error
    assert "4711" not in error
    assert not (tmp_path / "run").exists()
    capsys.readouterr()
    said = output_of("fit", *words, "invalid=clamp", f"out={tmp_path / 'run'}")
    assert not any(word in said.out + said.err for word in ("column '", "secret-value", "4711", "warning"))


WRONG = {
    "a column": (
        ["generator=dpgan", "generator.condition=nosuch"],
        "generator.condition: no modelled column named 'nosuch'",
    ),
    "a number": (["generator.starts=0"], "generator.starts must be a whole number"),
    "a name": (
        ["generator=kernel_teachers", "generator.start=gauss"],
        "generator.start must be one of mixture, label, columns, none",
    ),
    "a generator of images": (["generator=dpdm"], "generator dpdm does not learn tables"),
    "gamma": (["generator=pategan_original", "generator.gamma=9"], "generator.gamma fixes the noise"),
    "a share": (["generator=independent", "fitness=0.6"], "fitness must be a share"),
    "a decimal comma": (
        ["budget.epsilon=1,5"],
        "budget.epsilon has several values: decimals have a point, as in budget.epsilon=1.5; --multirun",
    ),
    "several values": (
        ["budget.relation=add_remove,replace_one"],
        "budget.relation has several values: --multirun runs once for each of them",
    ),
    "a candidate": (
        ["select=private", "candidates=[independent,{name:classgauss,condition:nosuch}]"],
        "generator.condition",
    ),
    "no budget": (["select=private", "candidates=[independent]", "budget.epsilon=inf"], "budget.epsilon is inf"),
    "one of a sweep": (["--multirun", "generator=dpgan", "generator.condition=ill,nosuch"], "generator.condition"),
}


@pytest.mark.parametrize("wrong", sweep(WRONG, ["a number", "a share", "several values", "a candidate"].__contains__))
def test_a_wrong_setting_is_refused_before_anything_is_opened(files, tmp_path, capsys, wrong):
    """Law 36: the records of these fits are not even there."""
    words = [f"data.path={tmp_path / 'nowhere.csv'}", f"data.schema={files / 'schema.yaml'}", f"out={tmp_path / 'run'}"]
    more, said = WRONG[wrong]
    assert said in refused(capsys, "fit", *words, *more)
    assert not list(tmp_path.iterdir())


def test_a_sweep_is_refused_before_its_first_fit(files, tmp_path, capsys):
    votes = ["generator=pategan_original", "generator.gamma=0.01", "generator.rounds=1", "generator.queries=16"]
    sweep = ["--multirun", "budget.epsilon=2,0.001", f"out={tmp_path / 'runs'}", f"account={tmp_path / 'a'}"]
    assert "above the budget's 0.001" in refused(capsys, "fit", *of(files), *votes, *sweep)
    assert not list(tmp_path.iterdir())


def test_a_demo_with_a_wrong_setting_is_refused_before_anything_is_opened(tmp_path, capsys):
    words = [f"out={tmp_path / 'demo'}", f"account={tmp_path / 'a'}", "generator.starts=0"]
    assert "generator.starts" in refused(capsys, "demo", *words)
    assert not list(tmp_path.iterdir())


def test_a_refused_fit_leaves_the_earlier_one_as_it_was(files, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["fit", *of(files), "generator=independent", f"out={out}"]) == 0
    before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    make_frame(20).assign(age=4711).to_csv(tmp_path / "bad.csv", index=False)
    bad = [f"data.path={tmp_path / 'bad.csv'}", f"data.schema={files / 'schema.yaml'}"]
    capsys.readouterr()
    refused(capsys, "fit", *bad, "generator=independent", f"out={out}", "force=true")
    assert {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()} == before


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")
def test_a_diverged_game_still_gives_a_release(files, tmp_path, output_of):
    fast = ["generator=dpgan", "generator.steps=5", "generator.batch=64"]
    wild = ["generator.optimizer=sgd", "generator.discriminator_rate=100", "generator.clip=1e12"]
    assert "diverged" in output_of("fit", *of(files), *fast, *wild, f"out={tmp_path / 'run'}").err
    assert len(load(tmp_path / "run" / "release").sample(5)) == 5


@pytest.mark.heavy
def test_a_fit_in_a_process_of_its_own_warns_of_a_large_delta(files, tmp_path):
    done = synthdp("fit", *of(files), "generator=independent", "budget.delta=0.01", f"out={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "run" / "release").statement.delta == 0.01
    assert "warning" in done.stderr
    assert "1 / units" in done.stderr


def test_the_wheel_carries_conf():
    text = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()
    assert 'conf = "synthdp/conf"' in text


def test_time_left_does_not_count_what_was_set_up_before_the_first_step(monkeypatch, capsys):
    now = iter([0.0, 100.0, 101.0, 102.0, 105.0, 110.0])
    monkeypatch.setattr(output_paths.time, "monotonic", lambda: next(now))
    with output_paths.progress("fit") as show:
        for step in (0, 1, 2, 5, 10):
            show(step, 10)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("about ")[2] for line in lines] == ["", "", "8 s left", "5 s left", ""]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data.schema=x.yaml"], "'--data.schema=x.yaml': leave the dashes out, as in 'data.schema=x.yaml'"),
        (["evaluate.subgroups=[Alter (J.)]"], "put quotes around text with ( ) [ ]"),
        (["evaluate.subgroups=[Größe]"], 'letters other than a to z, as in ["Größe (cm)"]'),
    ],
)
def test_words_that_are_no_options_are_explained(words, said, capsys):
    assert said in refused(capsys, "evaluate", *words)


@pytest.mark.parametrize("out", ["taken", "taken/run"])
def test_a_fit_into_a_file_is_refused(out, files, tmp_path, capsys):
    (tmp_path / "taken").touch()
    error = refused(capsys, "fit", *of(files), "generator=independent", f"out={tmp_path / out}")
    assert error.endswith("is a file; give a folder")
    assert f"out={tmp_path / out}" in error
