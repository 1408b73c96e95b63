"""Events of unknown origin: read back from JSON values, every field of its own type, or refused.

`events.from_json` makes an event of whatever fields it is given; here the fields are looked at first. Whether the numbers are
possible (a rate above 1, a negative noise) is the accountants' question: `accounting.charges`.
"""

import dataclasses
import math
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from synthdp.errors import BadInput
from synthdp.ledger.events import EVENTS, RELATIONS, Entry, Event, from_json

EXACT = 2**53  # up to here a whole number is a float, too; beyond it numpy would take it for an object
MOST = 10**9  # repetitions of an event: more are no fit's, and no accountant's grid holds them


def entry(values: Any) -> Entry:
    """An event and its count, from `{"event": ..., "count": ...}`; raises `BadInput` where it is none."""
    if not isinstance(values, Mapping) or not {"event", "count"} <= set(values):
        raise BadInput("an entry of a ledger must be an object with an event and a count")
    count = values["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST:
        raise BadInput(f"an event's count must be a whole number from 0 to {MOST:,}")
    return Entry(event(values["event"]), count)


def event(values: Any) -> Event:
    """An event from its JSON values; raises `BadInput` where it is none."""
    _check(values)
    return from_json(values)


def _check(values: Any) -> None:
    """Refuse what is no event by the types of its fields; `from_json` refuses unknown and missing ones."""
    if not isinstance(values, Mapping) or not isinstance(values.get("type"), str):
        raise BadInput("an event of a ledger must be an object with a type")
    types = _types(values["type"]) if values["type"] in EVENTS else {}
    for name, value in values.items():
        if name == "relation" and value not in RELATIONS:
            raise BadInput(f"an event's relation must be one of {', '.join(RELATIONS)}")
        if name == "queries":
            for query in _listed(name, value):
                _check(query)
        elif name == "candidates":
            for plan in _listed(name, value):
                for each in _listed(name, plan):
                    entry(each)
        elif not _fits(value, types.get(name)):
            raise BadInput(f"{values['type']} of a ledger: {name} is not {_A[types[name]]}")


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BadInput(f"an event of a ledger: {name} must be a list")
    return list(value)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of one of the plain types that fields have; a plug-in's others are its own."""
    if kind is float:
        exact = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= EXACT
        return exact or (isinstance(value, float) and not math.isnan(value))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(kind, type) or isinstance(value, kind)


_A = {float: "a number", int: "a whole number", str: "text"}


@lru_cache
def _types(name: str) -> dict[str, Any]:
    kind = EVENTS[name]
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if hints[field.name] in _A}
