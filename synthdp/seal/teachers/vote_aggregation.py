"""Sums over teachers of bounded vectors with Gaussian noise: unbiased shares of votes, mean ranks, mean margins."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Vote
from synthdp.noise.noise import Noise
from synthdp.seal.clipping import check_clip, clipped
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
        check_clip(self.clip)

    def check(self, queries: int, classes: int) -> None:  # noqa: ARG002
        """Two classes."""
        if classes != 2:
            raise BadInput(f"shares need exactly 2 classes, but these teachers know {classes}: ask for Counts or GNMax")

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
        return noise.added(bounded, self.noise * self.sensitivity(len(bounded))) / teachers

    def movement(self, one: Floats, other: Floats) -> float:
        """L2 distance."""
        return float(np.linalg.norm(one - other))


def verified(said: NDArray[Any], ensemble: "Ensemble", queries: Codes) -> NDArray[Any]:
    """What teachers said, if it is one number per teacher and query; both numbers are public, and so is the refusal."""
    if said.shape != (ensemble.count, len(queries)):
        raise RuntimeError(
            f"{ensemble.count} teachers must give one number for each of {len(queries)} queries, got shape {said.shape}"
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


# ---- Noisy plurality votes of teachers: LNMax (Papernot et al. 2017), GNMax, Confident- and Interactive-GNMax (2018).
#
# A tally counts, per query, how many teachers chose each class. One teacher that changes moves one vote from one class to another:
# two counts by one, so 2 in L1 and sqrt(2) in L2, and the largest count by at most 1. Tallies are whole numbers: adding them
# up is exact, in any order.


Tallies = NDArray[np.float64]
Classes = NDArray[np.int64]
ROOT2 = math.sqrt(2.0)
GRID = 2.0**-20  # of a student's expectation, in votes


def tallied(ensemble: "Ensemble", queries: Codes) -> Tallies:
    """(queries, classes) counts of votes."""
    votes = verified(ensemble.votes(queries), ensemble, queries)
    return np.stack([(votes == label).sum(axis=0) for label in range(ensemble.classes)], axis=1).astype(np.float64)


def winners(counts: Tallies) -> Classes:
    """(queries,) the class of the largest count, the first of equal ones."""
    found: Classes = counts.argmax(axis=1)
    return found


def _by_query(moved: Tallies) -> Tallies:
    """(queries, everything that moved of one): however many numbers a query's tally is, none goes unseen."""
    return moved.reshape(len(moved), -1)


def positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a finite number above 0."""
    if not 0 < value < math.inf:
        raise BadInput(f"{name} must be a finite number greater than 0, got {value}")


class _Tallied:
    """What is common to aggregators of votes on classes."""

    def check(self, queries: int, classes: int) -> None:  # noqa: ARG002
        """Two classes at least."""
        if classes < 2:
            raise BadInput(
                f"teachers must know 2 classes or more, but these know {classes}, so there is nothing to learn"
            )

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> Any:
        """(queries, classes) counts."""
        return tallied(ensemble, queries)


@dataclass(frozen=True)
class LNMax(_Tallied):
    """argmax_j n_j + Laplace(1 / gamma), noise on every count (Papernot et al. 2017, section 3.1). Answer: classes (queries,).

    Each query is a vote of its own, (2 gamma)-DP; see `Noise.added_laplace` for how the noise is drawn.
    """

    gamma: float

    def __post_init__(self) -> None:
        if not self.gamma > 0:
            raise BadInput(f"gamma must be greater than 0, got {self.gamma}; inf means no noise, for infinite budgets")

    def events(self, queries: int) -> Sequence[Event]:
        """One Laplace vote per query: scale 1 / gamma over the L1 sensitivity 2."""
        return [Vote(1 / (2 * self.gamma), "laplace")] * queries

    def sensitivity(self, queries: int) -> float:  # noqa: ARG002
        """Of each query's tally, in L1."""
        return 2.0

    def noised(self, bounded: Tallies, noise: Noise, teachers: int) -> Classes:  # noqa: ARG002
        """The class whose noisy count is largest."""
        return winners(bounded if math.isinf(self.gamma) else noise.added_laplace(bounded, 1 / self.gamma))

    def movement(self, one: Tallies, other: Tallies) -> float:
        """The largest L1 distance of a query's tally."""
        return float(np.abs(_by_query(one - other)).sum(axis=1).max())


@dataclass(frozen=True)
class _GaussianCounts(_Tallied):
    """n_j + N(0, sigma^2) for every class: `Counts` answers with all of them, `GNMax` with the largest."""

    sigma: float

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)

    def events(self, queries: int) -> Sequence[Event]:
        """One Gaussian vote per query: sigma over the L2 sensitivity sqrt(2)."""
        return [Vote(self.sigma / ROOT2)] * queries

    def sensitivity(self, queries: int) -> float:  # noqa: ARG002
        """Of each query's tally, in L2."""
        return ROOT2

    def movement(self, one: Tallies, other: Tallies) -> float:
        """The largest L2 distance of a query's tally."""
        return float(np.linalg.norm(_by_query(one - other), axis=1).max())


@dataclass(frozen=True)
class Counts(_GaussianCounts):
    """n_j + N(0, sigma^2) for every class, as such. Answer: (queries, classes).

    It costs what `GNMax` does where the bound does not depend on the votes, and tells more: shares of votes to distil from.
    """

    def noised(self, bounded: Tallies, noise: Noise, teachers: int) -> Tallies:  # noqa: ARG002
        """The noisy counts."""
        return noise.added(bounded, self.sigma)


@dataclass(frozen=True)
class GNMax(_GaussianCounts):
    """argmax_j n_j + N(0, sigma^2), noise on every count (Papernot et al. 2018, section 4.1). Answer: classes (queries,)."""

    def noised(self, bounded: Tallies, noise: Noise, teachers: int) -> Classes:  # noqa: ARG002
        """The class whose noisy count is largest."""
        return winners(noise.added(bounded, self.sigma))


@dataclass(frozen=True, eq=False)
class Labels:
    """Answers of teachers who may keep silent. `labels` (queries,), -1 without an answer; `answered` (queries,): where
    there is one; `confirmed` (queries,): where it is the student's own, which the teachers did not contradict."""

    labels: Classes
    answered: NDArray[np.bool_]
    confirmed: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Checked(_Tallied):
    """Where a largest number + N(0, sigma1^2) >= threshold, the GNMax of deviation sigma2, for the first `answers` such
    queries. What is bounded: (queries,) largest numbers, each of which one teacher moves by at most 1, and (queries, classes) counts.

    How many pass the check depends on the votes, so the check of every query and all `answers` are charged, whatever they are.
    """

    threshold: float
    sigma1: float
    sigma2: float
    answers: int

    def __post_init__(self) -> None:
        positive("sigma1", self.sigma1)
        positive("sigma2", self.sigma2)
        if not math.isfinite(self.threshold):
            raise BadInput(f"threshold must be a finite number of votes, got {self.threshold}")
        if self.answers < 1:
            raise BadInput(f"answers must be a whole number of 1 or more, got {self.answers}")

    def events(self, queries: int) -> Sequence[Event]:
        """A check per query, sigma1 over the sensitivity 1 of a maximum, and `answers` votes."""
        return [*[Vote(self.sigma1)] * queries, *[Vote(self.sigma2 / ROOT2)] * self.answers]

    def sensitivity(self, queries: int) -> float:
        """All checks, and all answers that there can be, each in units of its own sensitivity, stacked."""
        return math.sqrt(queries + min(queries, self.answers))

    def asked(self, bounded: tuple[Tallies, Tallies], noise: Noise) -> tuple[Classes, NDArray[np.bool_]]:
        """(queries,) labels, -1 without one, and which queries passed the noisy check."""
        peaks, counts = bounded
        passed = noise.added(peaks, self.sigma1) >= self.threshold
        chosen = np.flatnonzero(passed)[: self.answers]
        labels = np.full(len(peaks), -1, np.int64)
        labels[chosen] = winners(noise.added(counts[chosen], self.sigma2))
        return labels, passed

    def movement(self, one: tuple[Tallies, Tallies], other: tuple[Tallies, Tallies]) -> float:
        """As `sensitivity` measures it, for the `answers` queries that moved most."""
        votes = np.sort(np.square(_by_query(one[1] - other[1]) / ROOT2).sum(axis=1))[::-1]
        return math.sqrt(float(np.square(one[0] - other[0]).sum() + votes[: self.answers].sum()))


@dataclass(frozen=True)
class Confident(_Checked):
    """Confident-GNMax (Papernot et al. 2018, algorithm 1): where max_j n_j + N(0, sigma1^2) >= threshold, the GNMax of
    deviation sigma2, for the first `answers` such queries. Answer: `Labels`."""

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> tuple[Tallies, Tallies]:
        """(queries,) largest counts and (queries, classes) counts."""
        counts = tallied(ensemble, queries)
        return counts.max(axis=1), counts

    def noised(self, bounded: tuple[Tallies, Tallies], noise: Noise, teachers: int) -> Labels:  # noqa: ARG002
        """The labels of the queries that passed."""
        labels, _ = self.asked(bounded, noise)
        return Labels(labels, labels >= 0, np.zeros(len(labels), np.bool_))


@dataclass(frozen=True, eq=False)
class Interactive(_Checked):
    """Interactive-GNMax (Papernot et al. 2018, algorithm 2): the teachers answer where they contradict the student.

    `predictions` (queries, classes) are the student's probabilities p_j, public; `PATE` gives its own student's. Where
    max_j (n_j - k p_j) + N(0, sigma1^2) >= threshold, k teachers, the GNMax of deviation sigma2, for the first `answers` such
    queries; else, where max_j p_j > `sure`, the student's own class is confirmed. Answer: `Labels`. Each n_j - k p_j moves by at most
    one, and so does their maximum.
    """

    predictions: Tallies = field(default_factory=lambda: np.empty((0, 0)))
    sure: float = 0.9

    def __post_init__(self) -> None:
        found = np.asarray(self.predictions)
        if found.ndim != 2 or not np.isfinite(found).all() or found.min(initial=0) < 0 or found.max(initial=0) > 1:
            raise BadInput("predictions must be probabilities of shape (queries, classes), each within [0, 1]")
        super().__post_init__()

    def check(self, queries: int, classes: int) -> None:
        """One row of predictions per query, one column per class."""
        super().check(queries, classes)
        if not self.predictions.size:
            raise BadInput("predictions must be given: the teachers answer where they contradict the student")
        if self.predictions.shape != (queries, classes):
            raise BadInput(f"predictions must have shape ({queries}, {classes}), got {self.predictions.shape}")

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> tuple[Tallies, Tallies]:
        """(queries,) largest surpluses of votes over the student's expectation, and (queries, classes) counts."""
        counts = tallied(ensemble, queries)
        expected = np.rint(ensemble.count * self.predictions / GRID) * GRID  # so that no surplus is rounded
        return (counts - expected).max(axis=1), counts

    def noised(self, bounded: tuple[Tallies, Tallies], noise: Noise, teachers: int) -> Labels:  # noqa: ARG002
        """The teachers' labels where they contradict, the student's own where it was sure and they do not."""
        labels, passed = self.asked(bounded, noise)
        confirmed = ~passed & (self.predictions.max(axis=1) > self.sure)
        labels = np.where(confirmed, self.predictions.argmax(axis=1), labels)
        return Labels(labels, labels >= 0, confirmed)
