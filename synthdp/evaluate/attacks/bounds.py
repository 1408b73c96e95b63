"""The most that an (epsilon, delta) guarantee leaves each attack, to stand beside what the attack reached.

Two kinds. An attack on one unit's presence (membership, attribute, linkage, copies) asks the same question of the same
release about a record that was used and about one that was not; add-remove neighbours, and the claim's own numbers. Shares
of the release that go to training rather than hold-out rows compare a record with the one that takes its place: that is two
steps of add-remove, (2 epsilon, delta (1 + e^epsilon)). All hold on average over the release's noise, for the random split
of the real records that the attacks assume; a guarantee for patients bounds an attack on any one of their records too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

# exp overflows near 709; from here on every bound is 1.
MOST_EPSILON = 350.0


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the release promises. epsilon >= 0, may be inf; delta in [0, 1]; unit as the statement names it."""

    epsilon: float
    delta: float
    unit: str = "record"

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise BadInput(
                f"claim: epsilon {self.epsilon!r} and delta {self.delta!r}; give epsilon of 0 or more and delta in 0 to 1."
            )

    @property
    def advantage(self) -> float:
        """Most that true minus false positive rate can be: (e^eps - 1 + 2 delta) / (e^eps + 1), Kairouz et al. 2015."""
        pure = math.tanh(self.epsilon / 2)
        return min(1.0, pure + self.delta * (1 - pure))

    @property
    def auroc(self) -> float:
        """The area under the best ROC curve that the trade-off region leaves.

        The curve is delta + e^eps a up to a* = (1 - delta) / (1 + e^eps), then 1 - e^-eps (1 - delta - a) to a = 1 - delta,
        then 1; its area is a* (e^eps + delta) + delta.
        """
        if self.epsilon > MOST_EPSILON:
            return 1.0
        grown = math.exp(self.epsilon)
        return min(1.0, (1 - self.delta) * (grown + self.delta) / (1 + grown) + self.delta)

    def surest(self, share: float) -> float:
        """Most members among the `share` of records, half of them members, that an attack is surest of.

        True plus false positive rate are 2 share; each of the two lines of the trade-off region bounds the first.
        """
        if self.epsilon > MOST_EPSILON:
            return 1.0
        grown, both = math.exp(self.epsilon), 2 * share
        rising = (grown * both + self.delta) / (1 + grown)
        falling = (1 - (1 - self.delta - both) / grown) / (1 + 1 / grown)
        return min(1.0, rising / both, falling / both)

    def nearer(self, records: int) -> float:
        """Most that the share of synthetic rows nearest to training rather than to hold-out rows can be.

        A record's share of the release is a figure in [0, 1], so its mean where the record was used is at most e^e times its
        mean where the record was held out, plus d; e, d of a swap; summed over as many `records` of both sides.
        """
        epsilon, delta = self._swap()
        if epsilon > MOST_EPSILON:
            return 1.0
        grown = math.exp(epsilon)
        return min(1.0, (grown + records * delta) / (1 + grown))

    def isolation(self, records: int, matches: float) -> float:
        """Most that a predicate from the release can single out one of `records` training records how often.

        matches: how many of as many fresh records satisfy it on average. Cohen & Nissim 2020 (PNAS 117), section 3: every
        record is swapped for a fresh one in turn, e^e matches + records d.
        """
        epsilon, delta = self._swap()
        if epsilon > MOST_EPSILON:
            return 1.0
        return min(1.0, math.exp(epsilon) * matches + records * delta)

    def _swap(self) -> tuple[float, float]:
        if self.epsilon > MOST_EPSILON:
            return math.inf, 1.0
        return 2 * self.epsilon, min(1.0, self.delta * (1 + math.exp(self.epsilon)))


def claim_of(given: Mapping[str, Any] | None) -> Claim | None:
    """A claim from its plain form {"epsilon", "delta", "unit"}; None where none is made.

    Raises BadInput where epsilon or delta is absent, no number or out of range. An epsilon of None or "inf" is infinite.
    """
    if given is None:
        return None
    try:
        epsilon = math.inf if given["epsilon"] is None else float(given["epsilon"])
        delta = float(given["delta"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput("claim: give a mapping with the numbers epsilon and delta.") from error
    return Claim(epsilon=epsilon, delta=delta, unit=str(given.get("unit", "record")))
