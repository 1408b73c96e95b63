"""White-box audits at the sealed door: an adversary who chooses records and questions, and sees every answer.

What is asked, and why its replicas are independent, is said by each `Attack`: `vectors` and `draws`. Answers take the production path,
from the sealed table to the noise, which comes from the operating system.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from synthdp.audit.claims import Audit, judged
from synthdp.errors import BadInput
from synthdp.ledger.events import Plan

Scores = NDArray[np.float64]
Coins = NDArray[np.bool_]


class Noisy:
    """What attacks on an answer with `noise` share."""

    noise: float

    def halved(self) -> Self:
        """The same at half the noise."""
        made: Self = replace(cast("Any", self), noise=self.noise / 2)
        return made


def side_by_side(ask: Callable[[Coins], Scores], runs: int, most: int) -> tuple[Scores, Scores]:
    """Scores of `runs` replicas without their unit and with it, of at most `most` pairs in one table."""
    found: list[tuple[Scores, Scores]] = []
    for start in range(0, runs, most):
        inside = np.arange(2 * min(most, runs - start)) % 2 == 1
        scores = ask(inside)
        found.append((scores[~inside], scores[inside]))
    without, with_ = zip(*found, strict=True)
    return np.concatenate(without), np.concatenate(with_)


class Attack(Protocol):
    """Questions to a pair of neighbouring tables, asked of many replicas at once."""

    @property
    def name(self) -> str:
        """What is asked, and how."""
        ...

    @property
    def plan(self) -> Plan:
        """What one replica is charged, said for its relation and unit."""
        ...

    def halved(self) -> "Attack":
        """The same at half the noise."""
        ...

    def sides(self, runs: int) -> tuple[Scores, Scores]:
        """A score for each of `runs` replicas without the unit, and with it; higher for "with"."""
        ...


def audit(
    attack: Attack,
    delta: float,
    *,
    runs: int = 20_000,
    tuning_runs: int = 2000,
    error: float = 0.05,
    gate_error: float = 1e-3,
    drawn: Attack | None = None,
) -> Audit:
    """The attack's claim, judged by `runs` replicas a side; thresholds come from `tuning_runs` others.

    With `drawn`, it is run in place of the attack, whose claim is judged: `attack.halved()` tells what is found at half the noise.
    """
    if runs < 1 or tuning_runs < 1:
        raise BadInput(f"runs and tuning_runs must be 1 or more, got {runs} and {tuning_runs}")
    without, with_ = (drawn or attack).sides(runs + tuning_runs)
    return judged(
        attack.name, attack.plan, delta, without, with_, tuning_runs=tuning_runs, error=error, gate_error=gate_error
    )
