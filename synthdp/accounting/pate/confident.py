"""Confident-GNMax: a query is answered by GNMax(sigma2) only where the largest count plus N(0, sigma1^2) reaches a threshold.

Papernot et al. 2018, sections 4.1 and 4.2 (algorithms 1 and 2). One teacher moves the largest count by one: the threshold is
the event `Vote(sigma1)`, an answer `Vote(sigma2 / sqrt(2))`.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from synthdp.accounting.pate import gnmax
from synthdp.accounting.pate.vote_counts import (
    DataDependent,
    DataIndependent,
    checked,
    checked_orders,
    from_divergences,
    positive,
    whole_number,
)
from synthdp.errors import BadInput

Array = np.ndarray


def independent(
    sigma1: float, sigma2: float, queries: int, answers: int, delta: float, orders: Sequence[float] = gnmax.ORDERS
) -> DataIndependent:
    """Epsilon of `queries` thresholds and at most `answers` answers, both declared beforehand."""
    grid = checked_orders(orders, 1)
    asked, answered = whole_number("queries", queries), whole_number("answers", answers)
    each = asked / (2 * positive("sigma1", sigma1) ** 2) + answered / positive("sigma2", sigma2) ** 2
    epsilon, order = from_divergences(each * grid, grid, delta)
    return DataIndependent(epsilon=epsilon if each else 0.0, delta=delta, order=order)


def expected(
    votes: ArrayLike,
    threshold: float,
    sigma1: float,
    sigma2: float,
    delta: float,
    orders: Sequence[float] = gnmax.ORDERS,
) -> DataDependent:
    """Epsilon at the expected divergence: each answer counts with its probability. A forecast, which the papers report before
    a run."""
    grid, counts = checked_orders(orders, 1), checked(votes)
    chance = np.exp(log_answered(counts, threshold, sigma1))
    each = gnmax.divergences(gnmax.log_error_bound(counts, sigma2), sigma2, grid)
    whole = threshold_divergences(counts.max(1) - threshold, sigma1, grid).sum(0) + chance @ each
    epsilon, order = from_divergences(whole, grid, delta)
    answered = math.fsum(chance)
    return DataDependent(epsilon=epsilon if len(counts) else 0.0, delta=delta, order=order, answered=answered)


def log_answered(votes: ArrayLike, threshold: float, sigma1: float) -> Array:
    """log of the probability (queries,) that the noisy largest count reaches the threshold."""
    from scipy.special import log_ndtr

    if not math.isfinite(threshold):
        raise BadInput(f"threshold must be a finite number of votes, got {threshold}")
    found: Array = log_ndtr((checked(votes).max(1) - threshold) / positive("sigma1", sigma1))
    return found


def threshold_divergences(lead: Array, sigma1: float, orders: Array) -> Array:
    """Renyi divergence of each threshold (queries, orders), never above order / (2 sigma1^2). `lead` (queries,) is by how much
    the largest count passes the threshold; the likelier outcome is missed with probability Phi(-|lead| / sigma1)."""
    from scipy.special import log_ndtr

    log_q = log_ndtr(-np.abs(lead) / positive("sigma1", sigma1))
    return gnmax.divergences(log_q, math.sqrt(2) * sigma1, orders)
