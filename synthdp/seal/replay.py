"""Replay (law 12): feed the answers of a run on D to a run on a neighbour, and see what moves.

A right run asks the same questions in the same order, whatever the records are, and every bounded value moves by at most
its sensitivity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from synthdp.seal.questions import Answer, Question


@dataclass
class Recorder:
    """Without `of`, it records; with `of`, it hands out the recorded answers and measures how far each question moved."""

    of: "Recorder | None" = None
    asked: list[tuple[Question[Any], Any, Any]] = field(default_factory=list)  # question, bounded value, answer
    movements: list[tuple[float, float]] = field(default_factory=list)  # (moved, sensitivity)

    def answer(self, question: Question[Answer], bounded: Any, draw: Callable[[], Answer]) -> Answer:
        """The answer of this run, or the recorded one."""
        if self.of is None:
            answer = draw()
        else:
            first, before, answer = self.of.asked[len(self.asked)]
            if list(first.events) != list(question.events):
                raise RuntimeError(f"the runs diverged: {list(first.events)} became {list(question.events)}")
            self.movements.append((question.movement(before, bounded), question.sensitivity))
        self.asked.append((question, bounded, answer))
        return answer
