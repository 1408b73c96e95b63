"""LNMax: the class with most votes after Laplace noise of scale 1 / gamma on each count (Papernot et al. 2017, section 3.1).

One teacher moves two counts by one, so a query is 2 gamma-DP. The moments accountant adds up alpha(l) over queries; orders l
are integers in the paper (its code took 1 to 8), and any l > 0 is valid. With two classes and orders 1 to 100 these are the moments of
PATE-GAN (Jordon, Yoon & van der Schaar 2019, section 4), which stops by the figure that depends on the votes, and so leaks.

The bound belongs to independent noises, one on each count. A mechanism that adds one Laplace noise to one count and compares it with
half of the teachers is another one, for which it is too small: 10 teachers of one opinion, gamma 1, 10^4 queries, delta 1e-5: 28.9 here,
45.4 in truth (law 9).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from synthdp.accounting.pate.vote_counts import (
    DataDependent,
    DataIndependent,
    checked,
    checked_orders,
    from_moments,
    gaps,
    positive,
    whole_number,
)

Array = np.ndarray

ORDERS: tuple[float, ...] = tuple(float(order) for order in range(1, 9))


def independent(gamma: float, queries: int, delta: float, orders: Sequence[float] = ORDERS) -> DataIndependent:
    """Epsilon of `queries` answers, whatever the votes are."""
    grid = checked_orders(orders, 0)
    whole = whole_number("queries", queries) * independent_log_moments(gamma, grid)
    epsilon, order = from_moments(whole, grid, delta)
    return DataIndependent(epsilon=epsilon if queries else 0.0, delta=delta, order=order)


def dependent(votes: ArrayLike, gamma: float, delta: float, orders: Sequence[float] = ORDERS) -> DataDependent:
    """Epsilon for these votes (queries, classes): a private number."""
    grid, counts = checked_orders(orders, 0), checked(votes)
    whole = log_moments(log_error_bound(counts, gamma), gamma, grid).sum(0)
    epsilon, order = from_moments(whole, grid, delta)
    return DataDependent(epsilon=epsilon if len(counts) else 0.0, delta=delta, order=order, answered=len(counts))


def independent_log_moments(gamma: float, orders: Array) -> Array:
    """alpha(l) of one query (orders,): theorem 2, 2 gamma^2 l (l + 1), or 2 gamma l, since no loss exceeds 2 gamma."""
    least: Array = np.minimum(2 * positive("gamma", gamma) ** 2 * orders * (orders + 1), 2 * gamma * orders)
    return least


def log_error_bound(votes: ArrayLike, gamma: float) -> Array:
    """log q (queries,), q at least the probability that another class than the winner comes out (lemma 4):

    q = sum over other classes of (2 + gamma gap) / (4 exp(gamma gap)), each term the probability that its noise makes up for
    the gap. The class with most votes is the likeliest, so that 1 - 1 / classes bounds it too.
    """
    counts = checked(votes)
    lead, others = gaps(counts)
    lead = positive("gamma", gamma) * lead
    terms = np.where(others, np.log((2 + lead) / 4) - lead, -np.inf)
    bound: Array = np.minimum(np.logaddexp.reduce(terms, axis=1), math.log1p(-1 / counts.shape[1]))
    return bound


def log_moments(log_q: Array, gamma: float, orders: Array) -> Array:
    """alpha(l) of each query (queries, orders): theorem 3 where it applies, never above the data-independent bound.

    Theorem 3, for q < (e^(2 gamma) - 1) / (e^(4 gamma) - 1) = 1 / (e^(2 gamma) + 1):
    alpha(l) <= log((1 - q) ((1 - q) / (1 - e^(2 gamma) q))^l + q e^(2 gamma l)).
    """
    loss = 2 * positive("gamma", gamma)
    applies = log_q < -np.logaddexp(loss, 0.0)
    # Where it does not apply, any value at which the formula is a number.
    log_q = np.where(applies, log_q, -1.0 - loss)[:, None]
    stays = np.log1p(-np.exp(log_q))
    likely = (orders + 1) * stays - orders * np.log1p(-np.exp(loss + log_q))
    theorem3 = np.logaddexp(likely, log_q + loss * orders)
    least: Array = np.minimum(np.where(applies[:, None], theorem3, np.inf), independent_log_moments(gamma, orders))
    return least
