"""The command line: words of every command, files of --config-dir, and one line on stderr with status 0 or 2."""

import contextlib
import io
import os

import pytest
from fuzzing import NUMBERS, TEXTS, WRONG, edited, fuzz
from hypothesis import strategies as st

from synthdp.cli import COMMANDS, compose, option_values, run, settings

OPTIONS = {
    command: sorted(
        {
            *(name for name, _, _ in option_values.helps(settings.OPTIONS[command])),
            *settings.GROUPS.get(command, {}),
            *(
                f"{g}.{n}"
                for g in settings.GROUPS.get(command, {})
                if g in settings.KINDS
                for n, _, _ in option_values.helps(settings.KINDS[g])
            ),
        }
    )
    for command in COMMANDS
}
MECHANISM = (
    "rate",
    "noise",
    "steps",
    "sampler",
    "delta",
    "accountant",
    "relation",
    "group",
    "format",
    "gamma",
    "queries",
    "aggregator",
)
VALUES = st.one_of(
    TEXTS, NUMBERS.map(str), WRONG.map(str), st.sampled_from(["true", "null", "[1,2]", "{a: 1}", "1,2", "range(1,9)",
     "choice(a,b)", "meps", "independent", "poisson", "pld", "rdp"])
)  # fmt: skip
pytestmark = pytest.mark.fuzz


def words(names):
    keys = st.one_of(st.sampled_from(names), st.sampled_from(names), TEXTS)
    pairs = st.builds("{}={}".format, keys, VALUES)
    return st.lists(
        st.one_of(pairs, pairs, pairs, TEXTS, st.sampled_from(["--multirun", "--config-dir=."])), max_size=6
    )


def test_words():
    def prop(drawn):
        command, given = drawn
        compose.compose(command, given)

    commands = st.sampled_from(sorted(COMMANDS))
    fuzz(prop, drawn=commands.flatmap(lambda command: st.tuples(st.just(command), words(OPTIONS[command]))))


def test_mechanisms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def prop(command, given):
        said, told = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(told):
            status = run([command, *given])
        lines = said.getvalue().splitlines()
        assert status in (0, 2)
        assert status == 0 or len([line for line in lines if not line.startswith("synthdp: warning:")]) == 1
        assert all(line.isprintable() for line in lines)

    given = st.lists(st.builds("{}={}".format, st.sampled_from(MECHANISM), VALUES), max_size=6)
    fuzz(prop, command=st.sampled_from(["epsilon", "calibrate"]), given=given)


def test_files_of_groups(tmp_path, monkeypatch):
    import yaml

    monkeypatch.chdir(tmp_path)
    for group in ("budget", "data", "generator", "experiment"):
        os.mkdir(group)
    valid = {
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "data": {"path": "x.csv", "schema": "x.yaml"},
        "generator": {"name": "dpgan", "steps": 10},
        "experiment": {"generator": {"steps": 3}, "budget": {"epsilon": 2.0}},
    }

    def prop(drawn, head):
        group, values = drawn
        with open(f"{group}/mine.yaml", "w", encoding="utf-8", errors="replace") as file:
            file.write(head + (values if isinstance(values, str) else yaml.safe_dump(values)))
        compose.compose("fit", [f"{group}=mine", "out=o", "--config-dir=."])

    groups = st.sampled_from(sorted(valid))
    texts = st.one_of(TEXTS, st.text(alphabet="a: -[]{}&*!?|>'\"%@`,\n#$", max_size=30))
    drawn = groups.flatmap(lambda group: st.tuples(st.just(group), st.one_of(edited(valid[group]), texts)))
    fuzz(prop, drawn=drawn, head=st.sampled_from(["", "", "# @package _global_\n", "# @package hydra\n"]))
