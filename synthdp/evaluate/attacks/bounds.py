"""The most that a guarantee leaves each attack, to stand beside what the attack reached.

A guarantee is a set of (delta, epsilon) points that all hold: the promised one, and those of its privacy curve. Each bounds every
attack, and the least bound counts, as in the statement.

Two kinds. An attack on one unit's presence (membership, attribute, linkage, copies) asks the same question of the same
release about a record that was used and about one that was not. These are add-remove neighbours or, under replace_one (where the
number of units is public), a held-out record takes the place of the unused one. Either way the claim's own numbers apply. Shares
of the release that go to training rather than held-out rows compare a record with the one that takes its place: that is two
steps of add-remove, (2 epsilon, delta (1 + e^epsilon)), and one of replace_one. All hold on average over the release's noise, for the
random split of the real records that the attacks assume; a guarantee for patients bounds an attack on any one of their records too.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.evaluate.error_region import clopper_pearson

# exp overflows near 709; from here on every bound is 1.
MOST_EPSILON = 350.0
RELATIONS = ADD_REMOVE, REPLACE_ONE = "add_remove", "replace_one"


Point = tuple[float, float]  # (delta, epsilon)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the release promises. epsilon >= 0, may be inf; delta in [0, 1]; unit and relation as the statement names them; curve the
    further (delta, epsilon) points that hold."""

    epsilon: float
    delta: float
    unit: str = "record"
    curve: tuple[Point, ...] = ()
    relation: str = ADD_REMOVE

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise BadInput(f"claim: relation {self.relation!r}; give {' or '.join(RELATIONS)}.")
        for delta, epsilon in self.points:
            if not (epsilon >= 0 and 0 <= delta <= 1):
                raise BadInput(
                    f"claim: epsilon {epsilon!r} and delta {delta!r}; give epsilon of 0 or more and delta in 0 to 1."
                )

    @property
    def points(self) -> tuple[Point, ...]:
        """All points that hold."""
        return ((self.delta, self.epsilon), *self.curve)

    @property
    def swaps(self) -> tuple[Point, ...]:
        """All points that hold where one unit takes the place of another: two steps of add-remove."""
        if self.relation == REPLACE_ONE:
            return self.points
        finite = (point for point in self.points if point[1] <= MOST_EPSILON)
        return tuple((min(1.0, delta * (1 + math.exp(epsilon))), 2 * epsilon) for delta, epsilon in finite)

    @property
    def advantage(self) -> float:
        """The most that the true minus the false positive rate can be: (e^eps - 1 + 2 delta) / (e^eps + 1), Kairouz et al. 2015."""
        pure = ((delta, math.tanh(epsilon / 2)) for delta, epsilon in self.points)
        return min(1.0, *(rate + delta * (1 - rate) for delta, rate in pure))

    @property
    def auroc(self) -> float:
        """The area under the best ROC curve that the trade-off region of a point leaves. The curve is delta + e^eps a up to
        a* = (1 - delta) / (1 + e^eps), then 1 - e^-eps (1 - delta - a) to a = 1 - delta, then 1; its area is a* (e^eps + delta) + delta."""
        return _least(self.points, lambda delta, grown: (1 - delta) * (grown + delta) / (1 + grown) + delta)

    def surest(self, share: float) -> float:
        """The largest share of members among the `share` of records that an attack is surest of, if half of all are members: true plus
        false positive rate are 2 share; each of the two lines of the trade-off region bounds the first."""
        both = 2 * share

        def bound(delta: float, grown: float) -> float:
            rising = (grown * both + delta) / (1 + grown)
            falling = (1 - (1 - delta - both) / grown) / (1 + 1 / grown)
            return min(rising, falling) / both

        return _least(self.points, bound)

    def nearer(self, records: int) -> float:
        """The most that the share of synthetic rows nearer to training than to held-out rows can be.

        A record's share of the release is a figure in [0, 1], so its mean where the record was used is at most e^e times its
        mean where the record was held out, plus d; e, d of a swap; summed over as many `records` of both sides.
        """
        return _least(self.swaps, lambda delta, grown: (grown + records * delta) / (1 + grown))

    def isolation(self, records: int, matches: float) -> float:
        """How often, at most, a predicate from the release can single out one of `records` training records.

        matches: how many of as many fresh records satisfy it on average. Cohen & Nissim 2020 (PNAS 117), section 3: every
        record is swapped for a fresh one in turn, e^e matches + records d.
        """
        return _least(self.swaps, lambda delta, grown: grown * matches + records * delta)


def _least(points: Iterable[Point], bound: Callable[[float, float], float]) -> float:
    """The least bound by (delta, e^epsilon) of any point; 1 where none says less."""
    return min([1.0, *(bound(delta, math.exp(epsilon)) for delta, epsilon in points if epsilon <= MOST_EPSILON)])


def claim_of(given: Mapping[str, Any] | None) -> Claim | None:
    """A claim from its plain form {"epsilon", "delta", "unit", "relation", "curve"}; None where none is made. unit, relation
    (add_remove) and curve may be absent.

    Raises BadInput where a number is absent, none or out of range. An epsilon of None or "inf" is infinite.
    """
    if given is None:
        return None
    try:
        epsilon = math.inf if given["epsilon"] is None else float(given["epsilon"])
        delta = float(given["delta"])
        curve = tuple((float(one), float(other)) for one, other in given.get("curve", ()))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            "claim: give a mapping with the numbers epsilon and delta, and as curve pairs (delta, epsilon)."
        ) from error
    unit, relation = given.get("unit", "record"), given.get("relation", ADD_REMOVE)
    return Claim(epsilon=epsilon, delta=delta, unit=str(unit), curve=curve, relation=relation)


# ---- Rates of success with their intervals; every interval is two-sided and holds with confidence 1 - error.


RESAMPLES = 1_000
Interval = tuple[float, float]


def proportion(count: float, trials: float, error: float) -> Interval:
    """Of a binomial rate (Clopper & Pearson 1934). A trials number that is not whole is an effective one."""
    low = 1.0 - float(clopper_pearson(trials - count, trials, error / 2))
    return low, float(clopper_pearson(count, trials, error / 2))


def difference(first: tuple[float, float], second: tuple[float, float], error: float) -> Interval:
    """Of the first rate minus the second, both (count, trials) and independent.

    Newcombe 1998 (Statistics in Medicine 17, method 10: limits squared and added), with Clopper-Pearson limits.
    """
    a, b = first[0] / first[1], second[0] / second[1]
    (a_low, a_high), (b_low, b_high) = proportion(*first, error), proportion(*second, error)
    gap = a - b
    low, high = np.hypot(a - a_low, b_high - b), np.hypot(a_high - a, b - b_low)
    return float(max(-1.0, gap - low)), float(min(1.0, gap + high))


def auroc(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    """The chance that a member scores above a non-member; ties count half."""
    codes, own = _ranked(inside, outside)
    return _area(codes[:own], codes[own:], int(codes.max()) + 1)


def auroc_interval(
    inside: NDArray[np.float64], outside: NDArray[np.float64], rng: np.random.Generator, error: float
) -> Interval:
    """Percentile bootstrap over members and over non-members (Efron & Tibshirani 1993, chapter 13)."""
    codes, own = _ranked(inside, outside)
    members, others, size = codes[:own], codes[own:], int(codes.max()) + 1

    def one() -> float:
        return _area(rng.choice(members, len(members)), rng.choice(others, len(others)), size)

    return percentiles(one, error)


def percentiles(one: Callable[[], float], error: float) -> Interval:
    """The percentile interval of 1,000 draws of a resampled figure."""
    found = np.quantile([one() for _ in range(RESAMPLES)], [error / 2, 1 - error / 2])
    return float(found[0]), float(found[1])


def _ranked(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    codes = np.unique(np.concatenate([inside, outside]), return_inverse=True)[1]
    return codes, len(inside)


def _area(members: NDArray[np.int64], others: NDArray[np.int64], size: int) -> float:
    below = np.bincount(others, minlength=size)
    wins = np.cumsum(below) - 0.5 * below
    return float(wins[members].mean() / len(others))
