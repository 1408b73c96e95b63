"""Completion for a shell: a text of the shell's own that names all words, so that a key costs no start of Python."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from synthdp import generators
from synthdp.cli import COMMANDS, compose, settings
from synthdp.options import RULE

FUNCTION = r"""# synthdp completion: commands, options and their values. Written by `synthdp completion {shell}`.
{before}_synthdp() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" key="" before="" keys="" values=""
    if [[ $word == *=* && $word != "=" ]]; then  # one word in shells that do not part it
        key="${{word%%=*}}" before="${{word%%=*}}=" word="${{word#*=}}"
    elif [[ $word == "=" ]]; then
        key="${{COMP_WORDS[COMP_CWORD-1]}}" word=""
    elif (( COMP_CWORD > 2 )) && [[ ${{COMP_WORDS[COMP_CWORD-1]}} == "=" ]]; then
        key="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{keys}
    esac
    if [[ -z $key ]]; then
        COMPREPLY=($(compgen -W "$keys quiet= log= --help" -- "$word"))
        [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null
        return
    fi
    case "${{COMP_WORDS[1]}} $key" in
{values}
    *" quiet") values="true false" ;;
    esac
    if [[ -n $values ]]; then
        COMPREPLY=($(compgen -P "$before" -W "$values" -- "$word"))
    else
        {files}
    fi
}}
{after}
"""
BEFORE = {"bash": "", "zsh": "autoload -U +X bashcompinit && bashcompinit\n"}
FILES = {
    "bash": """COMPREPLY=($(compgen -P "$before" -f -- "$word"))
        compopt -o filenames 2>/dev/null""",
    "zsh": """setopt localoptions bareglobqual
        COMPREPLY=("$word"*(NM))  # folders end with /
        COMPREPLY=("${(@q)COMPREPLY}")
        COMPREPLY=("${COMPREPLY[@]/#/$before}")""",
}
AFTER = {
    "bash": "complete -F _synthdp synthdp",
    # zsh knows no compopt: a space follows what is complete, and neither an option nor a folder.
    "zsh": """_synthdp_spaced() {
    _synthdp
    COMPREPLY=("${COMPREPLY[@]/%/ }")
    COMPREPLY=("${COMPREPLY[@]/%= /=}")
    COMPREPLY=("${COMPREPLY[@]/%\\/ //}")
}
complete -o nospace -F _synthdp_spaced synthdp""",
}


def text(shell: str) -> str:
    """What a shell reads to complete synthdp's words."""
    options = {command: dict(_options(command)) for command in COMMANDS}
    keys = [f'    {name}) keys="{" ".join(f"{key}=" for key in known)}" ;;' for name, known in options.items()]
    values = [
        f'    "{name} {key}") values="{" ".join(choices)}" ;;'
        for name, known in options.items()
        for key, choices in known.items()
        if choices
    ]
    return FUNCTION.format(
        shell=shell,
        before=BEFORE[shell],
        files=FILES[shell],
        after=AFTER[shell],
        commands=" ".join(COMMANDS),
        keys="\n".join(keys),
        values="\n".join(values),
    )


def _options(command: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each option of a command, those of all its generators too, and the values that it may have where they can be listed."""
    yield from _fields(settings.OPTIONS[command])
    for group in settings.GROUPS.get(command, {}):
        yield group, tuple(compose.choices(group))
        kinds = [settings.KINDS[group]] if group in settings.KINDS else map(generators.find, generators.names())
        for kind in kinds:
            yield from ((f"{group}.{name}", choices) for name, choices in _fields(kind))


def _fields(kind: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    hints: Mapping[str, Any] = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        rule = field.metadata.get(RULE)
        kinds = [hints[field.name], *typing.get_args(hints[field.name])]  # of Literal[...] | None the parts
        listed = tuple(
            str(name) for kind in kinds if typing.get_origin(kind) is typing.Literal for name in typing.get_args(kind)
        )
        flag = ("true", "false") if bool in kinds else ()
        if field.init:
            yield field.name, (rule.choices if rule is not None and rule.choices else listed or flag)
