"""Every option that `--help` names can be given."""

import pytest
from sweeps import sweep

from synthdp.cli import COMMANDS, compose, settings
from synthdp.cli.settings import GROUPS, KINDS, OPTIONS

GIVEN = {True: "true", False: "false", None: "null"}


def word(name, value):
    if isinstance(value, str):
        return f"{name}='{value}'"
    return f"{name}={GIVEN[value] if value is None or isinstance(value, bool) else value}"


@pytest.mark.parametrize(
    ("command", "group", "chosen"),
    sweep(
        [
            (command, group, chosen)
            for command, groups in GROUPS.items()
            for group, default in groups.items()
            if group in KINDS
            for chosen in sorted({default, *compose._options(group)})
        ],
        lambda case: case[2] == GROUPS[case[0]][case[1]],
    ),
)
def test_options_of_groups(command, group, chosen):
    """Whatever file of the group is chosen."""
    required = [f"{name}=1" for name, value, _ in settings.helps(OPTIONS[command]) if value == "???"]
    given = [word(f"{group}.{name}", value) for name, value, _ in settings.helps(KINDS[group]) if value != "???"]
    (config,) = compose.compose(command, [*required, f"{group}={chosen}", *given])
    assert isinstance(config[group], KINDS[group])


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_commands(command):
    required = [f"{name}=1" for name, value, _ in settings.helps(OPTIONS[command]) if value == "???"]
    given = [word(name, value) for name, value, _ in settings.helps(OPTIONS[command]) if value != "???"]
    assert compose.compose(command, [*required, *given])
