"""One-run audits: guesses about many canaries of a single fit (Steinke, Nasr & Jagielski 2023)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthdp.audit import one_run_bound, word
from synthdp.audit.canaries import Canaries, encoded, per_canary, remembered
from synthdp.errors import BadInput
from synthdp.generators import Model
from synthdp.schema.codec import Codec

SHARE = 0.1  # of the canaries guessed "in", and as many "out", fixed beforehand; the rest are abstentions
FEWEST = 10  # canaries: fewer can say nothing


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
    right = one_run_bound.correct(one_run_bound.guess(scores, each), included)
    p_value = one_run_bound.p_value(number, 2 * each, right, claimed, delta)
    return OneRun(
        claimed=claimed,
        delta=delta,
        canaries=number,
        guesses=2 * each,
        correct=right,
        epsilon=one_run_bound.epsilon_bound(number, 2 * each, right, delta, error),
        error=error,
        p_value=p_value,
        contradicted=p_value <= gate_error,
        gate_error=gate_error,
    )
