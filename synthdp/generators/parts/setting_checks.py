"""Checks of settings that several generators share."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synthdp.errors import BadInput
from synthdp.generators import afford
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan
from synthdp.schema.schema import Schema


def changed(settings: Any, names: Iterable[str]) -> list[str]:
    """Which of these settings are not at their defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    return [name for name in names if getattr(settings, name) != defaults[name]]


def refuse_ignored(settings: Any, names: Sequence[str], given: str, where: str = "generator.") -> None:
    """Raise `BadInput` where a setting was changed that is not read because of another one, `given` as the user wrote it."""
    for name in changed(settings, names):
        raise BadInput(f"{where}{name} would be ignored with {given}: leave one of them out")


def refuse_unused(settings: Any, choice: str, applies: Mapping[str, str], where: str = "generator.") -> None:
    """Raise `BadInput` where a setting was changed that the chosen value of `choice` would not read.

    `settings` is a dataclass; `applies` maps a setting to the one value of `choice` that reads it; `where` stands before its name.
    """
    chosen = getattr(settings, choice)
    for name in changed(settings, [name for name, reader in applies.items() if reader != chosen]):
        raise BadInput(
            f"{where}{name} applies to {choice}={applies[name]} and would be ignored with {choice}={chosen}; leave it out"
        )


def refuse_dear(name: str, plan: Plan, schema: Schema, budget: Budget) -> None:
    """Raise `BadInput` where what a setting of fixed noise asks is more than the whole budget allows."""
    try:
        afford(lambda _: plan, schema, budget)
    except BadInput as error:
        raise BadInput(f"generator.{name} fixes the noise: {error}") from None


def check_teachers(
    teachers: int | None, schema: Schema, name: str, *, told: bool = False, where: str = "generator."
) -> None:
    """Raise `BadInput` for a number of teachers that follows from nothing, unless tables tell it (`told`), or that exceeds the units."""
    if teachers is None and schema.units is None and not told:
        raise BadInput(
            f"{where}teachers: {name} needs the number of units to choose its number of teachers: declare units in the schema (a public "
            f"count or estimate), or give {where}teachers"
        )
    if teachers is not None and isinstance(schema.units, int) and teachers > schema.units:
        raise BadInput(
            f"{where}teachers={teachers}: each teacher learns from its own part of the records, and the schema declares only "
            f"{schema.units:,} units; lower the number of teachers"
        )
