"""Judges synthetic rows against real ones, whoever made them; knows no generator and no budget.

Everything here reads real records, so every figure is outside epsilon: internal, never part of a release. Only `combine` does
not: it is for whoever analyses synthetic sets.
"""

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.combine import Combined, combine
from synthdp.evaluate.evaluation_page import write
from synthdp.evaluate.run import evaluate

if TYPE_CHECKING:
    from synthdp.evaluate.linked import evaluate_tables

__all__ = ["Combined", "combine", "evaluate", "evaluate_tables", "write"]


def __getattr__(name: str) -> Any:
    if name != "evaluate_tables":
        raise AttributeError(f"module 'synthdp.evaluate' has no attribute {name!r}")
    from synthdp.evaluate.linked import evaluate_tables  # with pandas, for which the package does not wait

    return evaluate_tables
