"""The README is true: its commands and its Python run, its schema loads, its tables are the ones that recipes wrote."""

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from clinic import make_frame, make_schema

from synthdp import Schema
from synthdp.cli import run

HOME = Path(__file__).parents[1]
README = (HOME / "README.md").read_text(encoding="utf-8")
QUICK = {
    "fit": ["generator.steps=40", "generator.batch=128"],
    "evaluate": ["evaluate=quick", "evaluate.models=[lr]"],
    "compare": ["evaluate.models=[lr]"],
}  # the same commands, sooner


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_commands_run_in_order(tmp_path, monkeypatch, capsys):
    """In this process (tests/cli starts them in processes of their own), but torchrun."""
    pytest.importorskip("linearmodels", reason="the embedded data set comes with the extra `demo`")
    monkeypatch.chdir(tmp_path)
    make_frame(200).to_csv("patients.csv", index=False)
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command)
        assert words[0] in ("synthdp", "torchrun")
        quick = QUICK["fit"] if "generator=dpgan" in words else []
        quick = QUICK["evaluate"] if words[1] == "evaluate" and "data=meps" in words else quick
        quick = QUICK["compare"] if words[1] == "compare" else quick
        if words[0] == "torchrun":
            together(command, words[1:] + quick)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # the command line shows them
                status = run([*words[1:], *quick])
            assert status == 0, f"{command}\n{capsys.readouterr().err}"
        if words[1] == "schema":
            declare(Path("schema.yaml"))


def declare(draft):
    """What the README asks of the steward."""
    text = re.sub(r"\n *review: true[^\n]*", "", draft.read_text(encoding="utf-8"))
    draft.write_text(text.replace("\ndeclared_by:", "\ndeclared_by: the tests"), encoding="utf-8")


def together(command, words):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_the_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_schema().save("schema.yaml")
    for block in blocks("python"):
        quick = (
            block.replace("teachers=250", "teachers=10")
            .replace("queries=500", "queries=30")
            .replace('"readmitted"', '"ill"')
        )
        unlabelled = make_frame(60, seed=1).drop(columns="ill")
        frames = {"df": make_frame(300), "public": unlabelled, "new": unlabelled}
        exec(compile(quick, "README.md", "exec"), frames)  # noqa: S102
    assert float(capsys.readouterr().out) <= 1.0


def test_the_schema_loads():
    import yaml

    pictures, table = (Schema.from_dict(yaml.safe_load(text)) for text in blocks("yaml") if "columns:" in text)
    assert table.unit == pictures.unit == "patient"
    assert table.learned == [("creatinine", "bounds")]
    assert pictures.image.shape == (64, 64)
    for schema in (table, pictures):
        schema.check_declared()


@pytest.mark.parametrize("marker", re.findall(r"<!-- (reports/\S+\.md.*?) -->", README))
def test_the_tables_are_those_of_the_reports(marker):
    """Of the whole report, or of the section whose heading follows its name."""
    match = re.search(rf"<!-- {re.escape(marker)} -->\n(.*?)<!-- end -->", README, flags=re.DOTALL)
    report, _, heading = marker.partition(": ")
    text = (HOME / report).read_text(encoding="utf-8")
    if heading:
        text = re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert table
    assert match[1].strip().splitlines() == table


def test_links_lead_somewhere():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (HOME / link).exists(), link
