"""Checks of settings that several generators share."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from synthdp.errors import BadInput
from synthdp.generators import afford
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan
from synthdp.schema.schema import Schema


def refuse_ignored(settings: Any, names: Sequence[str], given: str, where: str = "generator.") -> None:
    """Raise `BadInput` where a setting was changed that is not read because of another one, `given` as the user wrote it."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in names:
        if getattr(settings, name) != defaults[name]:
            raise BadInput(f"{where}{name} would be ignored with {given}: leave one of them out")


def refuse_unused(settings: Any, choice: str, applies: Mapping[str, str], where: str = "generator.") -> None:
    """Raise `BadInput` where a setting was changed that the chosen value of `choice` would not read.

    `settings` is a dataclass; `applies` maps a setting to the one value of `choice` that reads it; `where` stands before its name.
    """
    chosen = getattr(settings, choice)
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name, reader in applies.items():
        if chosen != reader and getattr(settings, name) != defaults[name]:
            raise BadInput(
                f"{where}{name} applies to {choice}={reader} and would be ignored with {choice}={chosen}; leave it out"
            )


def refuse_dear(name: str, plan: Plan, schema: Schema, budget: Budget) -> None:
    """Raise `BadInput` where what a setting of fixed noise asks is more than the whole budget allows."""
    try:
        afford(lambda _: plan, schema, budget)
    except BadInput as error:
        raise BadInput(f"generator.{name} fixes the noise: {error}") from None
