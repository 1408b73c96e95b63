"""Sums over teachers of bounded vectors with Gaussian noise: unbiased shares of votes, mean ranks, mean margins."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Vote
from synthdp.noise.noise import Noise
from synthdp.seal.norms import clipped
from synthdp.seal.records import Codes

if TYPE_CHECKING:
    from synthdp.seal.teachers.protocols import Ensemble

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """The mean over all teachers of one bounded number per query, of two classes. Answer: (queries,) float64.

    What a teacher says of a batch of M queries, and how far its vector moves at most when it changes arbitrarily:
    - "votes": 1 where it votes for class 1, else 0: sqrt(M). The answer is an unbiased share of votes.
    - "ranks": (i - 1/2) / M where its score is the i-th lowest of the batch, midranks for ties, 1/2 where it has nothing to say.
      Any two such vectors lie within sqrt((M^2 - 1) / (3 M)) < sqrt(M / 3), the distance of an order and its reverse.
    - "margins": its scores, clipped as one vector to L2 norm `clip`; not finite: zeros. One vector becomes another: 2 clip.

    The sum over teachers gets N(0, (noise * sensitivity)^2) on each query and is then divided by their public number: see
    `deviation`. Noise 0 is for infinite budgets.
    """

    noise: float
    form: str = "votes"
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.noise < math.inf:
            raise BadInput(f"noise must be a finite number of 0 or more, got {self.noise}")
        if self.form not in FORMS:
            raise BadInput(f"form of shares must be one of {', '.join(FORMS)}, got {self.form!r}")
        if not 0 < self.clip < math.inf:
            raise BadInput(f"clip must be a finite number greater than 0, got {self.clip}")

    def check(self, queries: int, classes: int) -> None:  # noqa: ARG002
        """Two classes."""
        if classes != 2:
            raise BadInput(f"shares are of 2 classes, and these teachers know {classes}: ask for Counts or GNMax")

    def events(self, queries: int) -> Sequence[Event]:  # noqa: ARG002
        """One Gaussian vote for the whole batch."""
        return [Vote(self.noise)]

    def sensitivity(self, queries: int) -> float:
        """Of the sum over teachers, in L2."""
        return {"votes": math.sqrt(queries), "ranks": math.sqrt(queries / 3), "margins": 2 * self.clip}[self.form]

    def deviation(self, queries: int, teachers: int) -> float:
        """Standard deviation of each number of the answer."""
        return self.noise * self.sensitivity(queries) / teachers

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> Floats:
        """(queries,) sums over teachers."""
        return FORMS[self.form](ensemble, queries, self.clip)

    def noised(self, bounded: Floats, noise: Noise, teachers: int) -> Floats:
        """The noisy means."""
        means: Floats = noise.added(bounded, self.noise * self.sensitivity(len(bounded))) / teachers
        return means

    def movement(self, one: Floats, other: Floats) -> float:
        """L2 distance."""
        return float(np.linalg.norm(one - other))


def verified(said: NDArray[Any], ensemble: "Ensemble", queries: Codes) -> NDArray[Any]:
    """What teachers said, if it is one number per teacher and query; both numbers are public, and so is the refusal."""
    if said.shape != (ensemble.count, len(queries)):
        raise RuntimeError(
            f"{ensemble.count} teachers must say one number of each of {len(queries)} queries, not {said.shape}"
        )
    return said


def _votes(ensemble: "Ensemble", queries: Codes, clip: float) -> Floats:  # noqa: ARG001
    total: Floats = (verified(ensemble.votes(queries), ensemble, queries) == 1).sum(axis=0).astype(np.float64)
    return total


def _ranks(ensemble: "Ensemble", queries: Codes, clip: float) -> Floats:  # noqa: ARG001
    """Sums of (i - 1/2) / M; a row of equal scores is 1/2 throughout. Twice a midrank is whole, so that sums are exact."""
    from scipy.stats import rankdata

    scores = verified(ensemble.scores(queries), ensemble, queries)
    silent = ~np.isfinite(scores).all(axis=1, keepdims=True)
    twice = np.rint(2 * rankdata(np.where(silent, 0.0, scores), axis=1)) - 1
    total: Floats = twice.sum(axis=0) / (2 * len(queries))
    return total


def _margins(ensemble: "Ensemble", queries: Codes, clip: float) -> Floats:
    """Sums of rows clipped a little below `clip`, so that rounding cannot carry their sum past it."""
    scores = verified(ensemble.scores(queries), ensemble, queries)
    total: Floats = clipped(scores, clip).sum(axis=0)
    return total


FORMS: dict[str, Callable[["Ensemble", Codes, float], Floats]] = {"votes": _votes, "ranks": _ranks, "margins": _margins}
