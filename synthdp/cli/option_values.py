"""Classes of options: their defaults and helps as plain values, and one of them made from values that are checked."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from typing import Any, Literal, TypeVar

from synthdp.errors import BadInput
from synthdp.options import HELP, check

Made = TypeVar("Made")


def defaults(kind: Any) -> dict[str, Any]:
    """A settings class as plain values; "???" where a value is required."""
    return {field.name: _default(field) for field in dataclasses.fields(kind)}


def helps(kind: Any) -> Iterator[tuple[str, Any, str]]:
    """Name, default and help of each field; those of a group within by their full name."""
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.default):
            yield from ((f"{field.name}.{name}", value, text) for name, value, text in helps(type(field.default)))
            continue
        yield field.name, _default(field), field.metadata.get(HELP, "")


def made(kind: type[Made], values: Mapping[str, Any], where: str = "") -> Made:
    """The dataclass with these values, each checked against its type and its rule; raises `BadInput` that names the option."""
    hints = typing.get_type_hints(kind)
    for name in values:
        if name not in hints:
            close = difflib.get_close_matches(str(name), hints, 1)
            hint = f"; did you mean {where}{close[0]}?" if close else ""
            raise BadInput(f"no option {f'{where}{name}'!r}{hint} (a file of --config-dir may set it)")
    found = kind(**{name: _checked(value, hints[name], where + name) for name, value in values.items()})
    check(found, where)
    return found


def _default(field: "dataclasses.Field[Any]") -> Any:
    if dataclasses.is_dataclass(field.default):
        return defaults(type(field.default))
    if field.default is not MISSING:
        return list(field.default) if isinstance(field.default, tuple) else field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    return "???"


def _checked(value: Any, hint: Any, name: str) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        rest = [part for part in parts if part is not type(None)]
        return _checked(value, rest[0], name) if len(rest) == 1 else value
    if origin is Literal:
        if value not in parts:
            raise BadInput(f"{name} must be one of {', '.join(map(str, parts))}, got {value!r}")
        return value
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_checked(item, parts[0], name) for item in items)
    if dataclasses.is_dataclass(hint):
        return made(typing.cast("type[Any]", hint), value, f"{name}.")
    return _plain(value, hint, name)


def _plain(value: Any, hint: Any, name: str) -> Any:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if hint in (int, bool, str) and type(value) is not hint:
        raise BadInput(f"{name} must be {_A[hint]}, got {value!r}")
    if hint is float:
        raise BadInput(f"{name} must be a number, got {value!r}")
    return value


_A = {int: "a whole number", bool: "true or false", str: "text"}
