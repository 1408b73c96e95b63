"""The best of K runs (Papernot & Steinke 2022): the seal draws K, holds every run to what was charged, lets the best one out.

What the theorem needs is kept here, whoever wrote the runs: K comes from the distribution of the event, out of the seal's own
noise, and is told to nobody; runs are independent and draw their candidate alike; no run asks for more than its candidate's
plan, all of which is in the charge; a score is made of the run's own answers, since a run is shown nothing else. What is not
hidden is time: a watcher of the clock learns about how many runs there were.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from synthdp.accounting.repetitions import runs
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan, Selection
from synthdp.noise.noise import Noise
from synthdp.seal.charging import Enter, counted

Result = TypeVar("Result")
Open = TypeVar("Open")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What one candidate's run may do: commit its plan at this noise, within this budget, and ask for its score beside it."""

    noise: float
    score: Plan
    budget: Budget


def only(plan: Plan) -> Enter:
    """Refuses what is not in the plan."""

    def enter(asked: Plan, budget: Budget) -> None:  # noqa: ARG001
        beyond = sorted({type(event).__name__ for event in counted(asked) - counted(plan)})
        if beyond:
            raise BadInput(
                f"a run asks for more than the selection was charged for ({', '.join(beyond)}): a candidate's fit must commit the "
                "plan that its `plan` returns, and must not hand out records"
            )

    return enter


def check(event: Selection, terms: Sequence[Terms]) -> None:
    """Refuse terms that are not those of the event's candidates."""
    if len(terms) != len(event.candidates):
        raise BadInput(f"the selection has {len(event.candidates)} candidates, but terms were given for {len(terms)}")


def best(
    event: Selection, noise: Noise, opened: Callable[[int], Open], run: Callable[[int, Open], tuple[Result, float]]
) -> Result:
    """The result of the run with the highest score; of equal ones the first.

    `opened(place)` is the door of one run of that candidate, `run(place, door)` its result and score; a score that is no
    number is the lowest. A run that raises ends the selection: its error is what comes out, as if it had the highest score of
    all, so that nothing is told of the others. Warnings of runs are not shown, for they would count them.
    """
    kept: tuple[Result, float] | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(runs(float(noise.uniform()), event.mean, event.shape)):
            place = int(float(noise.uniform()) * len(event.candidates))
            result, score = run(place, opened(place))
            score = -math.inf if math.isnan(score) else score
            if kept is None or score > kept[1]:
                kept = result, score
    if kept is None:
        raise ArithmeticError("a selection must make at least one run")
    return kept[0]
