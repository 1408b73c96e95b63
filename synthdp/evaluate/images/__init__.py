"""Judges synthetic images against real ones, whoever made them; `synthdp.evaluate.evaluate` comes here by the schema.

Everything here reads real records, so every figure and picture is outside epsilon: internal, never part of a release.
"""

from synthdp.evaluate.images.accuracy import accuracies
from synthdp.evaluate.images.classifiers import MODELS
from synthdp.evaluate.images.grid import sheet
from synthdp.evaluate.images.run import evaluate

__all__ = ["MODELS", "accuracies", "evaluate", "sheet"]
