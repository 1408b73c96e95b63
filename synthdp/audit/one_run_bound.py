"""Auditing with one training run (Steinke, Nasr & Jagielski 2023, arXiv 2305.08846).

Each of m canaries is in the training set by a fair coin of its own. Whoever sees the model guesses the coins of some of
them and abstains on the rest. Were the model (epsilon, delta)-DP, the correct guesses could hardly outnumber those of
randomised response.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from synthdp.errors import BadInput

TOP = 64.0  # no bound above this is looked for
BISECTIONS = 60


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The probability, at most, of `correct` or more right among `guesses` on `canaries` under (epsilon, delta)-DP.

    Theorem 5.2: P[W >= v] + 2 m delta max over i of P[v > W >= v - i] / i, for W binomial (r, e^epsilon / (1 + e^epsilon)).
    The number of guesses is fixed beforehand, not chosen by how well they do.
    """
    if not 0 <= correct <= guesses <= canaries:
        raise BadInput(f"needs 0 <= correct <= guesses <= canaries, got {correct}, {guesses}, {canaries}")
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise BadInput(f"epsilon must be 0 or more and delta in [0, 1], got {epsilon} and {delta}")
    if correct == 0:
        return 1.0
    q = 1 / (1 + math.exp(-epsilon))
    tail = float(bdtrc(correct - 1, guesses, q))
    steps = np.arange(1, correct + 1)
    below = np.where(correct - steps >= 1, bdtr(np.maximum(correct - steps - 1, 0), guesses, q), 0.0)
    extra = float(np.max((bdtr(correct - 1, guesses, q) - below) / steps))
    return min(1.0, tail + 2 * canaries * delta * max(0.0, extra))


def epsilon_bound(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The lower bound on epsilon at `delta`, wrong with probability at most `error`; 0 where nothing is excluded."""
    if not 0 < error < 1:
        raise BadInput(f"error must lie strictly between 0 and 1, got {error}")
    if p_value(canaries, guesses, correct, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, TOP
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(canaries, guesses, correct, middle, delta) <= error else (low, middle)
    return low


def guess(scores: NDArray[np.float64], each: int) -> NDArray[np.int8]:
    """+1 ("in") for the `each` highest scores, -1 ("out") for the `each` lowest, 0 (no guess) between, (canaries,).

    Equal scores are told apart by their place, which knows nothing of the coins.
    """
    if not 0 <= 2 * each <= len(scores):
        raise BadInput(f"{each} guesses of each kind need {2 * each} canaries or more, but there are {len(scores)}")
    order = np.argsort(scores, kind="stable")
    guesses = np.zeros(len(scores), np.int8)
    guesses[order[:each]] = -1
    guesses[order[len(order) - each :]] = 1
    return guesses


def correct(guesses: NDArray[np.int8], included: NDArray[np.bool_]) -> int:
    """How many guesses were right."""
    return int(((guesses == 1) & included).sum() + ((guesses == -1) & ~included).sum())
