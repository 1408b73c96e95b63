"""One-run audits: guesses about many canaries of a single fit (Steinke, Nasr & Jagielski 2023, arXiv 2305.08846).

Each of m canaries is in the training set by a fair coin of its own. Whoever sees the model guesses the coins of some of
them and abstains on the rest. Were the model (epsilon, delta)-DP, the correct guesses could hardly outnumber those of
randomised response.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from synthdp.audit import word
from synthdp.audit.canaries import Canaries, encoded, per_canary, remembered
from synthdp.errors import BadInput
from synthdp.generators import Model
from synthdp.schema.codec import Codec

SHARE = 0.1  # of the canaries guessed "in", and as many "out", fixed beforehand; the rest are abstentions
FEWEST = 10  # canaries: fewer can say nothing
TOP = 64.0  # no bound above this is looked for
BISECTIONS = 60


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """What the guesses say. `epsilon` is a lower bound at `delta`, wrong with probability at most `error`; `p_value` is the
    probability, at most, of guesses as good as these under the claim."""

    claimed: float
    delta: float
    canaries: int
    guesses: int
    correct: int
    epsilon: float
    error: float
    p_value: float
    contradicted: bool
    gate_error: float

    @property
    def word(self) -> str:
        """ "contradicted", "stands" or "no power"."""
        return word(self.epsilon, self.claimed, contradicted=self.contradicted)


def audit_model(
    model: Model,
    canaries: Canaries,
    claimed: float,
    delta: float,
    *,
    rows: int = 100_000,
    error: float = 0.05,
    gate_error: float = 1e-3,
) -> OneRun:
    """Guess a fit's canaries from `rows` records that its model draws, at no further cost in privacy.

    Raises `BadInput` for canaries that are not of this model's schema, or too few.
    """
    codes = encoded(canaries, model.schema)
    codec = Codec(model.schema)
    drawn = codec.encode(model.sample(rows))
    scores = per_canary(remembered(codes, drawn), canaries)
    return verdict(scores, canaries.included, claimed, delta, error=error, gate_error=gate_error)


def verdict(
    scores: NDArray[np.float64],
    included: NDArray[np.bool_],
    claimed: float,
    delta: float,
    *,
    error: float,
    gate_error: float,
) -> OneRun:
    """Guess by the scores, count what was right, and bound epsilon."""
    number = len(included)
    if number < FEWEST:
        raise BadInput(f"{number} canaries are too few for any bound; plant {FEWEST} or more, or better a thousand")
    each = max(1, round(SHARE * number))
    right = correct(guess(scores, each), included)
    chance = p_value(number, 2 * each, right, claimed, delta)
    return OneRun(
        claimed=claimed,
        delta=delta,
        canaries=number,
        guesses=2 * each,
        correct=right,
        epsilon=epsilon_bound(number, 2 * each, right, delta, error),
        error=error,
        p_value=chance,
        contradicted=chance <= gate_error,
        gate_error=gate_error,
    )


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
