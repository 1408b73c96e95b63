"""Judges synthetic rows against real ones, whoever made them; knows no generator and no budget.

Everything here reads real records, so every figure is outside epsilon: internal, never part of a release. Only `combine` does
not: it is for whoever analyses synthetic sets.
"""

import importlib
from typing import TYPE_CHECKING, Any

from synthdp.evaluate.combine import Combined, combine

if TYPE_CHECKING:
    from synthdp.evaluate.evaluation_page import write
    from synthdp.evaluate.linked import evaluate_tables
    from synthdp.evaluate.run import evaluate

__all__ = ["Combined", "combine", "evaluate", "evaluate_tables", "write"]
# These import pandas, so they are loaded when they are first used.
_HOMES = {"evaluate": "run", "evaluate_tables": "linked", "write": "evaluation_page"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'synthdp.evaluate' has no attribute {name!r}")
    return getattr(importlib.import_module(f"synthdp.evaluate.{_HOMES[name]}"), name)
