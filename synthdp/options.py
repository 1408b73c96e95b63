"""Settings are frozen dataclasses; each field carries the sentence that `--help` prints, and the rule that its values keep."""

import dataclasses
import math
import operator
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from synthdp.errors import BadInput

HELP, RULE = "help", "rule"
MOST = 10**6  # of a whole number, where nothing else is said
LARGE = 1e12


@dataclass(frozen=True)
class Rule:
    """The values that an option takes.

    `says` completes "the option must ...". `kept` returns a value as it is kept, a plain one of Python's own, and raises
    `TypeError`, `ValueError` or `OverflowError` for any other. `choices` are all values, where they can be listed.
    """

    says: str
    kept: Callable[[Any], Any]
    choices: tuple[str, ...] = ()


def option(default: Any, help: str, rule: Rule | None = None) -> Any:
    """A dataclass field with a default, its help text and its rule; pass `dataclasses.MISSING` for a required one.

    Where the default is None, None keeps the rule too.
    """
    metadata = {HELP: help, RULE: rule}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def check(settings: Any, where: str = "generator.") -> None:
    """Check every option of a frozen dataclass by its rule, and keep its plain value; for `__post_init__`.

    Raises `BadInput` that names the option, as `where` and its name, and says the rule.
    """
    for field in dataclasses.fields(settings):
        rule, value = field.metadata.get(RULE), getattr(settings, field.name)
        if rule is None or (value is None and field.default is None):
            continue
        try:
            kept = rule.kept(value)
        except (TypeError, ValueError, OverflowError):
            raise BadInput(f"{where}{field.name} must {rule.says}, got {shown(value)}") from None
        object.__setattr__(settings, field.name, kept)


def whole(least: int = 1, most: int = MOST) -> Rule:
    """A whole number of `least` to `most`, both included, such as `whole(1, 100)`."""
    if not (isinstance(least, int) and isinstance(most, int)):
        raise TypeError(
            f"whole takes two whole numbers, such as whole(1, 100), got {least!r}; number takes an interval"
        )

    def kept(value: Any) -> int:
        found = operator.index(_no_truth(value))
        return found if least <= found <= most else _refused()

    return Rule(f"be a whole number from {least:,} to {most:,}", kept)


def number(interval: str) -> Rule:
    """A number in an interval, as mathematics writes it: "(0, 1]" holds 1 and not 0. Never infinite, never NaN."""
    low, high = (float(end) for end in interval[1:-1].split(","))

    def kept(value: Any) -> float:
        found = float(value) if isinstance(_no_truth(value), Real) else _refused()
        above = low <= found if interval[0] == "[" else low < found
        below = found <= high if interval[-1] == "]" else found < high
        return found if above and below and math.isfinite(found) else _refused()

    return Rule(f"be a number in {interval}", kept)


def positive(most: float = LARGE) -> Rule:
    """A number above 0 that float32 can compute with."""
    return number(f"[{1 / LARGE:g}, {most:g}]")


def not_negative() -> Rule:
    """0, or as `positive`."""
    return number(f"[0, {LARGE:g}]")


def fraction() -> Rule:
    """A part of a whole: neither nothing nor all of it, nor so little that it is lost in rounding."""
    return Rule("be a number in (0, 1), and not within 1e-9 of either end", number("[1e-9, 0.999999999]").kept)


def one_of(*names: str) -> Rule:
    """One of these names."""

    def kept(value: Any) -> str:
        return value if isinstance(value, str) and value in names else _refused()

    return Rule(f"be one of {', '.join(names)}", kept, names)


def text() -> Rule:
    """Text that is not empty, such as a column's name."""
    return Rule("be text", lambda value: value if isinstance(value, str) and value else _refused())


def flag() -> Rule:
    """True or false."""
    return Rule("be true or false", lambda value: value if isinstance(value, bool) else _refused())


def several(each: Rule, least: int = 0, most: int = 16) -> Rule:
    """A list of values that each keep a rule, kept as a tuple."""

    def kept(value: Any) -> tuple[Any, ...]:
        listed = value if isinstance(value, list | tuple) and least <= len(value) <= most else _refused()
        return tuple(map(each.kept, listed))

    return Rule(f"be a list of {least} to {most} values, each of which must {each.says}", kept)


def _no_truth(value: Any) -> Any:
    return _refused() if isinstance(value, bool) else value


def _refused() -> Any:
    raise ValueError


def shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # a number of too many digits
        return f"a value of type {type(value).__name__}"
