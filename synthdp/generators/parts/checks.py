"""Checks of settings that several generators share."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from synthdp.errors import BadInput


def refuse_ignored(settings: Any, names: Sequence[str], given: str) -> None:
    """Raise `BadInput` where a setting was changed that is not read because of another one, `given` as the user wrote it."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in names:
        if getattr(settings, name) != defaults[name]:
            raise BadInput(f"generator.{name} would be ignored with generator.{given}: leave one of them out")


def refuse_unused(settings: Any, choice: str, applies: Mapping[str, str]) -> None:
    """Raise `BadInput` where a setting was changed that the chosen value of `choice` would not read.

    `settings` is a dataclass; `applies` maps a setting to the one value of `choice` that reads it.
    """
    chosen = getattr(settings, choice)
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name, reader in applies.items():
        if chosen != reader and getattr(settings, name) != defaults[name]:
            raise BadInput(f"generator.{name} is for {choice}={reader} and would be ignored with {choice}={chosen}")


def whole(name: str, value: Any) -> None:
    """Raise `BadInput` for a setting that is not a whole number of 1 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadInput(f"generator.{name} must be a whole number of 1 or more, got {value!r}")
