"""Judges synthetic images against real ones, whoever made them; `synthdp.evaluate.evaluate` comes here by the schema.

Everything here reads real records, so every figure and picture is outside epsilon: internal, never part of a release.
"""

from synthdp.evaluate.images.image_classifiers import MODELS
from synthdp.evaluate.images.image_run import accuracies, evaluate
from synthdp.evaluate.images.samples import sheet

__all__ = ["MODELS", "accuracies", "evaluate", "sheet"]
