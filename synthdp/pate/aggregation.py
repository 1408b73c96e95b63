"""Which aggregator the teachers answer through, and what an answer says to a student."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Entry, Plan
from synthdp.pate.students import Probabilities
from synthdp.schema.learned import nearest_counts
from synthdp.seal import Counts, GNMax, Interactive, Labels, LNMax, Shares

# Noise multiplier -> aggregator: a multiplier is Gaussian deviation or Laplace scale over the sensitivity (`Vote`).
SOLVED: dict[str, Callable[[float], Any]] = {
    "lnmax": lambda noise: LNMax(1 / (2 * noise)),
    "gnmax": lambda noise: GNMax(math.sqrt(2) * noise),
    "counts": lambda noise: Counts(math.sqrt(2) * noise),
    "shares": Shares,
}
LEAST = 1e-3  # of multipliers: an infinite budget asks for none, and noise this small changes no vote


def maker(aggregator: Any) -> Callable[[float], Any]:
    """Noise multiplier -> aggregator, from a name, a function or an aggregator that has its noise. Raises `BadInput` else."""
    if isinstance(aggregator, str):
        if aggregator not in SOLVED:
            raise BadInput(f"aggregator must be one of {', '.join(SOLVED)}, or an aggregator, got {aggregator!r}")
        return lambda noise: SOLVED[aggregator](max(noise, LEAST))
    if isinstance(aggregator, type):
        raise BadInput(
            f"aggregator must come with its noise: give {aggregator.__name__}(...) rather than the class, or give a name"
        )
    if hasattr(aggregator, "events"):
        return lambda _: aggregator
    if callable(aggregator):
        return lambda noise: aggregator(max(noise, LEAST))
    raise BadInput(
        f"aggregator must be a name, an aggregator or a function of the noise, got {type(aggregator).__name__}"
    )


def fixed(aggregator: Any) -> bool:
    """Whether it has its noise already, so that there is nothing to solve but the number of queries."""
    return hasattr(aggregator, "events")


def planned(aggregator: Any, rounds: Sequence[int]) -> Plan:
    """The events of all rounds; a round asks so many queries."""
    counted = Counter(event for size in rounds for event in aggregator.events(size))
    return tuple(Entry(event, count) for event, count in counted.items())


def shown(aggregator: Any, predictions: Probabilities) -> Any:
    """The aggregator, told what the student expects (queries, classes) where it wants to know."""
    return replace(aggregator, predictions=predictions) if isinstance(aggregator, Interactive) else aggregator


def described(aggregator: Any) -> dict[str, Any]:
    """Its name and numbers, for the statement."""
    known = fields(aggregator) if is_dataclass(aggregator) else ()
    numbers = {field.name: getattr(aggregator, field.name) for field in known if field.name != "predictions"}
    return {"name": type(aggregator).__name__, **numbers}


def targets(answer: Any, teachers: int, classes: int, *, soft: bool) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """An answer as labels (queries, classes) that sum to 1, and which queries (queries,) were answered at all.

    With `soft` (distillation; Hinton et al. 2015) noisy counts or shares become the nearest distribution; else all goes to the
    likeliest class.
    """
    if isinstance(answer, Labels):
        labels, answered = np.where(answer.answered, answer.labels, 0), answer.answered
    else:
        found = np.asarray(answer)
        if found.ndim == 1 and np.issubdtype(found.dtype, np.floating):  # shares of class 1 of two
            found = teachers * np.stack([1 - found, found], axis=1)
        answered = np.ones(len(found), np.bool_)
        if found.ndim == 2 and soft:
            return np.array([nearest_counts(row, 1.0) for row in found / teachers], np.float32), answered
        labels = found.argmax(1) if found.ndim == 2 else found
    if soft:
        raise BadInput("distillation needs noisy counts: take aggregator='counts' (or 'shares' for two classes)")
    return np.eye(classes, dtype=np.float32)[labels], answered


def split(queries: int, rounds: int) -> list[int]:
    """`queries` in `rounds` parts that differ by one at most; empty parts are left out."""
    return [len(part) for part in np.array_split(np.arange(queries), rounds) if len(part)]
