"""Replay (law 12): feed the answers of a run on D to a run on a neighbour, and see what moves.

A right run asks the same questions in the same order, whatever the records are, and every bounded value moves by at most
its sensitivity.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.seal.callbacks import ROWS, check, made_up
from synthdp.seal.questions import Answer, Question
from synthdp.seal.records import Records


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


def tried(question: Any, codec: Codec) -> None:
    """Ask a whole question about made-up rows, before anything is charged. Refuses what `check` does, what cannot be answered, and
    a question that one of the rows moves by more than its sensitivity."""
    for name, function, answer in question.by_row:
        check(name, function, answer, codec)
    rows, keys, every = made_up(codec), np.arange(ROWS, dtype=np.uint64), np.arange(ROWS)
    found = [
        question.bounded(Records(len(kept), np.arange(len(kept)), None, rows[kept], 1, keys[kept]))
        for kept in (every, *(np.delete(every, row) for row in every))
    ]
    if not all(question.movement(found[0], other) <= question.sensitivity for other in found[1:]):
        raise BadInput(f"one of {ROWS} made-up rows moves the {type(question).__name__} by more than its sensitivity")
