"""Settings are frozen dataclasses; each field carries the sentence that `--help` prints."""

import dataclasses
from typing import Any

HELP = "help"


def option(default: Any, help: str) -> Any:
    """A dataclass field with a default and its help text; pass `dataclasses.MISSING` for a required one."""
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata={HELP: help})
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata={HELP: help})
    return dataclasses.field(default=default, metadata={HELP: help})
