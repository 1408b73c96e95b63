"""The moments of PATE-GAN (Jordon, Yoon & van der Schaar 2019, section 4): two counts, Laplace noise of scale 1 / gamma on each.

It is LNMax with two classes, at orders 1 to 100. The bound belongs to TWO independent noises, whose difference makes up for a
gap with probability (2 + gamma gap) / (4 e^(gamma gap)). A mechanism that adds one Laplace noise to one count and compares it
with half of the teachers is another one, for which this bound is too small: 10 teachers of one opinion, gamma 1, 10^4
queries, delta 1e-5: 28.9 here, 45.4 in truth (law 9).
"""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from synthdp.accounting.pate import lnmax
from synthdp.accounting.pate.vote_counts import DataDependent, DataIndependent, checked
from synthdp.errors import BadInput

ORDERS: tuple[float, ...] = tuple(float(order) for order in range(1, 101))


def independent(gamma: float, queries: int, delta: float, orders: Sequence[float] = ORDERS) -> DataIndependent:
    """Epsilon of `queries` noisy labels, whatever the votes are: what may stop a training."""
    return lnmax.independent(gamma, queries, delta, orders)


def dependent(votes: ArrayLike, gamma: float, delta: float, orders: Sequence[float] = ORDERS) -> DataDependent:
    """Epsilon for these votes (queries, 2): a private number. (The paper stops by it, which leaks.)"""
    counts = checked(votes)
    if counts.shape[1] != 2:
        raise BadInput(f"votes on real or generated must have 2 columns, got {counts.shape[1]}")
    return lnmax.dependent(counts, gamma, delta, orders)
