"""JSON of unknown origin, read within limits of size, depth and number, or refused in one line.

Python's own reader takes text of any size and depth, whole numbers of any length, numbers that are none, two values under one
name (the last one counts, elsewhere the first), and halves of characters that cannot be written again. None of it is in
what synthdp writes.
"""

import dataclasses
import itertools
import json
import math
import stat
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from synthdp.errors import BadInput

Made = TypeVar("Made")

MOST_BYTES = 256 << 20
MOST_VALUES = 4_000_000  # a value takes up to 200 bytes of memory, however short its text is
DEPTH = 64
DIGITS = 40  # of a whole number


def load(path: Path, *, infinite: bool = False) -> Any:
    """The content of a JSON file; see `parse`."""
    return parse(read(path), str(path), infinite=infinite)


def read(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a plain file of at most `most` bytes; raises `BadInput` for anything else."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path} is not a plain file")
        if found.st_size > most:
            raise BadInput(f"{path} has {found.st_size:,} bytes; at most {most:,} are read")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror or type(error).__name__})") from None


def parse(data: bytes, where: str, *, infinite: bool = False) -> Any:
    """The value that the bytes are the JSON of; `where` names them in the error.

    `infinite` admits `Infinity`, which is no JSON, but stands in ledgers of fits without a guarantee. Raises `BadInput`.
    """
    try:
        text = data.decode("utf-8")
        if sum(map(text.count, "[{,")) > MOST_VALUES:
            raise _Refused(f"it has more than {MOST_VALUES:,} values")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_infinite if infinite else _no_number,
        )
        _check_depth(value)
        if "\\u" in text:  # the only way in which half a character comes
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise BadInput(f"{where}: refused, because it is nested more than {DEPTH} levels deep") from None
    except _Refused as error:
        raise BadInput(f"{where}: refused, because {error}") from None
    except UnicodeEncodeError:
        raise BadInput(f"{where}: refused, because it contains half a character (a lone surrogate)") from None
    except ValueError as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadInput(f"{where}: not JSON{place}") from None
    return value


class _Refused(ValueError):
    """What is JSON, or nearly, and is not read all the same."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Refused("an object in it has the same name twice")
    return found


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise _Refused(f"it has a whole number of {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused("it has a number that is too large for a float")
    return value


def _infinite(text: str) -> float:
    return float(text) if text != "NaN" else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise _Refused(f"it has {text}, which is not a number")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = list(itertools.chain.from_iterable(map(_inside, level)))
        if not level:
            return
    raise RecursionError


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def made(kind: type[Made], values: Mapping[str, Any]) -> Made:
    """A dataclass from JSON values, each of the type that its field declares: text, truth values, finite numbers, tuples, or dataclasses
    of these. Fields with a default may be absent. Raises `TypeError`, `ValueError` or `LookupError` for anything else."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _made(hints[name], value) for name, value in values.items()})


def _made(hint: Any, value: Any) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:  # with None
        return None if value is None else _made(parts[0], value)
    if dataclasses.is_dataclass(hint):
        return made(typing.cast("type[Any]", hint), value)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = [parts[0]] * len(value) if parts[1:] == (...,) else parts
        return tuple(_made(each, item) for each, item in zip(kinds, value, strict=True))
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if origin is not None or type(value) is not hint:
        raise TypeError(f"expected {hint}")
    return value
