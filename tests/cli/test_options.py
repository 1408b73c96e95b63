"""Every option that `--help` names can be given."""

import dataclasses
import json
import re
import shlex
import subprocess
import typing

import pytest
from clinic import in_files
from sweeps import sweep

from synthdp.cli import COMMANDS, compose, option_values, settings
from synthdp.cli.settings import GROUPS, KINDS, OPTIONS
from synthdp.ledger.ledger import Ledger
from synthdp.sets.named import NAMES

GIVEN = {True: "true", False: "false", None: "null"}


def word(name, value):
    if isinstance(value, str):
        return f"{name}='{value}'"
    return f"{name}={GIVEN[value] if value is None or isinstance(value, bool) else value}"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("command", "group", "chosen"),
    sweep(
        [
            (command, group, chosen)
            for command, groups in GROUPS.items()
            for group, default in groups.items()
            if group in KINDS
            for chosen in sorted({default, *compose.choices(group)[::8]})
        ],
        lambda case: case[2] == GROUPS[case[0]][case[1]],
    ),
)
def test_options_of_groups(command, group, chosen):
    """Whatever file of the group is chosen."""
    required = [f"{name}=1" for name, value, _ in option_values.helps(OPTIONS[command]) if value == "???"]
    given = [word(f"{group}.{name}", value) for name, value, _ in option_values.helps(KINDS[group]) if value != "???"]
    (config,) = compose.compose(command, [*required, f"{group}={chosen}", *given])
    assert isinstance(config[group], KINDS[group])


@pytest.mark.heavy
def test_a_data_set_is_chosen_by_its_name():
    found = {name: compose.compose("check", [f"data={name}"])[0]["data"] for name in compose.choices("data")}
    assert found == {name: settings.Data(name=name if name in NAMES else None) for name in ("files", *NAMES)}


@pytest.mark.heavy
@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_commands(command):
    required = [f"{name}=1" for name, value, _ in option_values.helps(OPTIONS[command]) if value == "???"]
    given = [word(name, value) for name, value, _ in option_values.helps(OPTIONS[command]) if value != "???"]
    assert compose.compose(command, [*required, *given])


def literals(kind):
    """(option, its help, its allowed names) of each option that takes one of several names."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from literals(hints[field.name])
        parts = (hints[field.name], *typing.get_args(hints[field.name]))
        names = [name for part in parts if typing.get_origin(part) is typing.Literal for name in typing.get_args(part)]
        yield field.name, field.metadata["help"], [name for name in names if isinstance(name, str)]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_names_every_value_of_an_option(command):
    for option, said, names in literals(OPTIONS[command]):
        assert [name for name in names if name not in said] == [], option


def completed(script, *words, part=True):
    """What bash offers for the last word; `part`: = is a word of its own, as in bash."""
    typed = [each for word in words for each in (re.split("(=)", word) if part and "=" in word else [word])]
    typed = [word for place, word in enumerate(typed) if word or place == len(typed) - 1]
    line = " ".join(shlex.quote(word) for word in ["synthdp", *typed])
    shell = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(typed)}; _synthdp; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", shell], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.heavy
def test_a_shell_completes_commands_options_and_values(output_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.csv").touch()
    script = output_of("completion", "bash").out
    assert {"sample", "schema", "split", "sign"} == set(completed(script, "s"))
    assert completed(script, "fit", "budget.e") == ["budget.epsilon="]
    assert "generator.components=" in completed(script, "fit", "generator.c")
    for part in (True, False):
        before = "" if part else "generator="
        assert completed(script, "fit", "generator=mi", part=part) == [f"{before}mixture"]
        assert set(completed(script, "fit", "invalid=", part=part)) == {
            f"{'' if part else 'invalid='}{each}" for each in ("error", "clamp")
        }
        assert completed(script, "fit", "data.path=pat", part=part) == [f"{'' if part else 'data.path='}patients.csv"]
    script = output_of("completion", "zsh").out
    assert "bashcompinit" in script
    assert 'compgen -P "$before" -f' not in script, "zsh's own completes no file with something before it"
    assert script.endswith("complete -o nospace -F _synthdp_spaced synthdp\n")
    assert "shell" in output_of("completion", "fish", status=2).err


VECTORS = {  # how McMahan & Andrew 2018 bound vectors, as words; questions of a step, in multiples of the gradient's noise
    "joint": (["clipping=joint", "clip_alphas=[0.5,2]", "microbatches=8"], [1]),
    "by dimension": (["clipping=per_group", "clip_bounds=dimension", "clip_noises=[1,3]"], [1]),
    "statistics": (["start=none", "statistics=[classes,apart]", "statistics_noise=4"], [1, 4, 4]),
}


@pytest.mark.heavy
@pytest.mark.parametrize("way", VECTORS)
def test_groups_of_vectors_are_clipped_and_asked_for_from_the_command_line(way, tmp_path, output_of):
    data = (*in_files(tmp_path, 60), "account=none")
    small = ("generator=dpgan", "generator.steps=2", "generator.batch=32", "generator.hidden=[4]", "seed=1")
    words, asked = VECTORS[way]
    output_of("fit", *data, *small, *(f"generator.{each}" for each in words), f"out={tmp_path / 'out'}")
    *_, step = Ledger.read(tmp_path / "out" / "internal" / "ledger.jsonl").entries()
    (first, *_), noises = step.event.queries, [query.noise for query in step.event.queries]
    assert noises == pytest.approx([first.noise * times for times in asked])
    settings = json.loads((tmp_path / "out" / "release" / "release.json").read_text())["generator"]["settings"]
    assert settings["clipping"] == (words[0].partition("=")[2] if "clipping" in words[0] else "flat")
