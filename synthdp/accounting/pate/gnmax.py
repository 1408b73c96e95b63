"""GNMax: the class with most votes after Gaussian noise of deviation sigma on each count (Papernot et al. 2018, section 4.1).

One teacher moves two counts by one, so a query is (a, a / sigma^2)-RDP (proposition 8): the event `Vote(sigma / sqrt(2))`.
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
    from_divergences,
    gaps,
    positive,
    whole_number,
)

Array = np.ndarray

# 2, 2.5, ..., 99.5, then 200 orders up to 1,000: the grid of the paper's own figures.
ORDERS: tuple[float, ...] = (*(order / 2 for order in range(4, 200)), *np.geomspace(100, 1000, 200).tolist())


def independent(sigma: float, queries: int, delta: float, orders: Sequence[float] = ORDERS) -> DataIndependent:
    """Epsilon of `queries` answers, whatever the votes are."""
    grid = checked_orders(orders, 1)
    whole = whole_number("queries", queries) * grid / positive("sigma", sigma) ** 2
    epsilon, order = from_divergences(whole, grid, delta)
    return DataIndependent(epsilon=epsilon if queries else 0.0, delta=delta, order=order)


def dependent(votes: ArrayLike, sigma: float, delta: float, orders: Sequence[float] = ORDERS) -> DataDependent:
    """Epsilon for these votes (queries, classes): a private number."""
    grid, counts = checked_orders(orders, 1), checked(votes)
    whole = divergences(log_error_bound(counts, sigma), sigma, grid).sum(0)
    epsilon, order = from_divergences(whole, grid, delta)
    return DataDependent(epsilon=epsilon if len(counts) else 0.0, delta=delta, order=order, answered=len(counts))


def log_error_bound(votes: ArrayLike, sigma: float) -> Array:
    """log q (queries,), q at least the probability that another class than the winner comes out (proposition 7):

    q = 1/2 sum over other classes of erfc(gap / (2 sigma)); the difference of two noises has deviation sqrt(2) sigma. The
    class with most votes is the likeliest, so that 1 - 1 / classes bounds it too.
    """
    counts = checked(votes)
    bound: Array = np.minimum(log_union(counts, sigma), math.log1p(-1 / counts.shape[1]))
    return bound


def log_union(votes: Array, sigma: float) -> Array:
    """The sum of `log_error_bound` before it is cut at 1 - 1 / classes."""
    from scipy.special import log_ndtr

    lead, others = gaps(votes)
    terms = np.where(others, log_ndtr(-lead / (math.sqrt(2) * positive("sigma", sigma))), -np.inf)
    total: Array = np.logaddexp.reduce(terms, axis=1)
    return total


def divergences(log_q: Array, sigma: float, orders: Array) -> Array:
    """Renyi divergence of each query (queries, orders): theorem 6 where it applies, never above order / sigma^2.

    mu2 = sigma sqrt(log(1 / q)) and mu1 = mu2 + 1, which proposition 10 finds to be nearly the best.
    """
    mu2 = positive("sigma", sigma) * np.sqrt(-log_q)
    theorem6 = likely_outcome(log_q[:, None], orders, mu2[:, None] + 1, mu2[:, None], sigma)
    least: Array = np.minimum(theorem6, orders / sigma**2)
    return least


def likely_outcome(log_q: Array, orders: Array, mu1: Array, mu2: Array, sigma: float) -> Array:
    """Theorem 6, for a mechanism that is (mu, mu / sigma^2)-RDP at mu1 and mu2 and whose likeliest outcome is missed with
    probability at most q; inf where it does not apply. All arguments broadcast.

    D <= log((1 - q) A^(a - 1) + q B^(a - 1)) / (a - 1), A = (1 - q) / (1 - (q e^e2)^((mu2 - 1) / mu2)), B = e^e1 /
    q^(1 / (mu1 - 1)), for orders 1 < a <= mu1 and q <= e^((mu2 - 1) e2) / (mu1 / (mu1 - 1) mu2 / (mu2 - 1))^mu2.
    """
    applies = (mu2 > 1) & (mu1 > 1) & (orders <= mu1)
    mu1, mu2 = np.where(applies, mu1, 2.0), np.where(applies, mu2, 2.0)
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    most = (mu2 - 1) * e2 - mu2 * (np.log(mu1 / (mu1 - 1)) + np.log(mu2 / (mu2 - 1)))
    applies = applies & (log_q <= most) & (log_q + e2 < 0)
    log_q = np.where(applies, log_q, -1.0 - e2)
    stays = _log1mexp(log_q)
    a = stays - _log1mexp((log_q + e2) * (mu2 - 1) / mu2)
    b = e1 - log_q / (mu1 - 1)
    found = np.logaddexp(stays + (orders - 1) * a, log_q + (orders - 1) * b) / (orders - 1)
    return np.where(applies, np.maximum(found, 0.0), np.inf)


def _log1mexp(x: Array) -> Array:
    """log(1 - e^x) for x < 0."""
    near = x > -math.log(2)
    return np.where(near, np.log(-np.expm1(np.where(near, x, -1.0))), np.log1p(-np.exp(np.where(near, -1.0, x))))
