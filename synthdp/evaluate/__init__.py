"""Judges synthetic rows against real ones, whoever made them; knows no generator and no budget.

Everything here reads real records, so every figure is outside epsilon: internal, never part of a release. Only `combine` does
not: it is for whoever analyses synthetic sets.
"""

from synthdp.evaluate.combine import Combined, combine
from synthdp.evaluate.evaluation_page import write
from synthdp.evaluate.linked import evaluate_tables
from synthdp.evaluate.run import evaluate

__all__ = ["Combined", "combine", "evaluate", "evaluate_tables", "write"]
