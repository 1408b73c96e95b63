"""The references of commands and generators, written from the options that the code declares."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from synthdp import generators
from synthdp.cli import COMMANDS, compose, option_values, settings

HOME = Path(__file__).parents[1]
MARK = (
    r"(?:\[[^\]]+\]\([^)]+\) )?<!-- (generated|whole): (\S+) -->"  # a link before it is for readers of the repository
)


def fill(app: Any, page: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx names the page
    """Put in what the marks of a page ask for (Sphinx's event `source-read`), and lead its links to where the site has them."""

    def put(match: re.Match[str]) -> str:
        if match[1] == "generated":
            return {"commands": commands, "generators": of_generators}[match[2]]()
        app.env.note_dependency(str(HOME / match[2]))
        return _from_home((HOME / match[2]).read_text(encoding="utf-8"))

    source[0] = _on_the_site(re.sub(MARK, put, source[0]))


def _from_home(text: str) -> str:
    """A document of the repository's top, with its links as they are seen from `docs`."""
    return re.sub(r"\]\((?!https?:|#)", "](../", text)


def _on_the_site(text: str) -> str:
    """Links that leave `docs`: PRIVACY.md is a page, a report is a file to fetch, and of all else the name is left."""

    def led(match: re.Match[str]) -> str:
        name, target = match[1], match[2]
        if target == "PRIVACY.md":
            return f"[{name}](guarantee.md)"
        return f"[{name}](<path:../{target}>)" if target.startswith("reports/") else f"`{name}`"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(\.\./([^)]+)\)", led, text)


def commands() -> str:
    """Every command with its groups and options."""
    return "\n\n".join(_command(name, summary) for name, summary in COMMANDS.items())


def of_generators() -> str:
    """Every generator of synthdp with its options."""
    return "\n\n".join(
        "\n".join(
            [
                f"## {name}",
                "",
                f"{_first(generators.find(name))}",
                "",
                *_table(option_values.helps(generators.find(name))),
            ]
        )
        for name in generators.names()
        if generators.origin(generators.make(name, {})) is None
    )


def _command(name: str, summary: str) -> str:
    lines = [f"## {name}", "", f"`synthdp {name}`: {summary}.", ""]
    lines += _table(option_values.helps(settings.OPTIONS[name]))
    for group in settings.GROUPS.get(name, {}):
        if group == "generator":
            lines += ["", "`generator=NAME` chooses a generator; see [their options](options.md)."]
            continue
        kind = settings.KINDS[group]
        lines += ["", f"Group `{group}`:", ""]
        lines += _table((f"{group}.{option}", value, text) for option, value, text in option_values.helps(kind))
    return "\n".join(lines)


def _table(options: Iterable[tuple[str, Any, str]]) -> list[str]:
    rows = [f"| `{name}` | {_cell(text)} | `{_cell(compose.shown(value))}` |" for name, value, text in options]
    return ["| option | what it does | default |", "|---|---|---|", *rows] if rows else ["It has no options."]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _first(kind: Any) -> str:
    """The first line of the generator's module, which names its paper."""
    module = __import__(kind.__module__, fromlist=["__doc__"])
    return (module.__doc__ or "").split("\n\n")[0].replace("\n", " ")
