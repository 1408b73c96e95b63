"""The distribution of a column of few codes given others, fitted to noisy tables of it: a mixed model whose variances the tables tell.

The model is that of `conditional_fit.py`, with other penalties. What a table changes is normally distributed about zero, and how much
is estimated: a table that tells nothing adds no noise. Along an ordered column, neighbouring codes change alike: there a second part
follows a random walk, with a variance of its own. What mostly stays has one parameter for being as before: see `staying`. Counts are
normal about the model's, with the variances of their noise and of sampling (penalised quasi-likelihood, Breslow & Clayton 1993). The
variances are those under which the tables are likeliest, by the steps of Zhou, Hu, Zhou & Lange 2019. All of it is a function of noisy
tables and of drawn histories.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals import conditional_fit
from synthdp.generators.marginals.conditional_fit import (
    CLOSED,
    LEAST_ORDERED,
    Clique,
    Conditional,
    Whole,
    indicators,
    matched,
    softmax,
)
from synthdp.generators.marginals.staying import Stay

Array = NDArray[np.float64]
MOST_CODES = 4  # of the column
MOST_CELLS = 2500  # of all tables together: work grows as codes times the third power of cells
PASSES, FIRST_STEPS, STEPS = 8, 15, 3  # over all codes; of the variances, in the first pass and in later ones
FARTHEST, NEAR = 2.0, 0.05  # change of a row's logarithm in one pass; below which nothing changes any more
LEAST_VARIANCE, MOST_VARIANCE = 1e-8, 9.0
MOST_ATTAINED = 0.99  # of the rows that can have a code: noise may ask for more rows than there are
LEAST_VARIED = 0.02  # a chance times that of all other codes: certain rows make no step too long
ROUNDING = 1e-8  # of the largest variance: cells of one table add up to another's, so that some differences are zero
SOLVED = 2.4  # nanoseconds that a whole fit takes for each triple of cells
COUNTED = 100.0  # and for each row and pair of tables
NEGLIGIBLE = 0.01  # of the variance of sampling: with less noise, the fit of `conditional_fit` stays


def suits(cliques: Sequence[Clique], sizes: Mapping[str, int], codes: int) -> bool:
    """Whether a column with so many codes, told by these, is small enough."""
    return codes <= MOST_CODES and sum(math.prod(sizes[name] for name in clique) for clique in cliques) <= MOST_CELLS


def work(rows: int, cliques: Sequence[Clique], sizes: Mapping[str, int], codes: int, *, again: bool) -> float:
    """About how many nanoseconds a fit takes to solve for the cells and to count the rows that lie in two of them. A fit that goes on from
    an earlier one takes a third of the time."""
    cells = sum(math.prod(sizes[name] for name in clique) for clique in cliques)
    whole = max(1, codes - 1) * (SOLVED * cells**3 + COUNTED * rows * len(cliques) ** 2)
    return whole / 3 if again else whole


@dataclass(frozen=True)
class _Part:
    """Some of the parameters, [start, end), and their covariance up to a factor; None for that of independent ones."""

    start: int
    end: int
    covariance: Array | None

    def times(self, rows: Array) -> Array:
        """(rows, parameters of this part) times the covariance."""
        return rows if self.covariance is None else rows @ self.covariance


def fit(
    cells: Mapping[str, Whole],
    weights: Array,
    cliques: Sequence[Clique],
    sizes: Mapping[str, int],
    tables: Sequence[Array],
    deviations: Sequence[float],
    alone: Array,
    *,
    ordered: Mapping[str, tuple[int, int]],
    spread: float,
    iterations: int,
    start: Conditional | None = None,
    variances: dict[int, Array] | None = None,
    offset: Array | None = None,
    before: str = "",
) -> Conditional:
    """The conditional of which the noisy `tables` (cells, codes) are likeliest. `cells`, `weights`, `alone` and `before` are those of
    `conditional_fit.fit`; `ordered` has the codes [first, end) of each column that stand in their order. `spread` is where the deviations
    of the parameters begin, after a fit of `conditional_fit` in so many iterations. A later fit of the same cliques goes on from `start`
    and from the `variances` of an earlier one, by code, which it improves in place. `offset` (rows, codes) is `CLOSED` for codes that a row
    cannot have, and 0 for all others.
    """
    rows = indicators(cells, cliques, sizes)
    columns = rows.T.tocsr()
    mass = columns @ weights
    held = np.flatnonzero(mass > 0)
    noisy = np.concatenate(tables)
    noise = np.repeat(deviations, [len(table) for table in tables])[held]
    parts = _parts(cliques, sizes, ordered)
    codes = len(alone)
    moved = [code for code in (range(1, 2) if codes == 2 else range(codes)) if alone[code] > CLOSED]
    variances = {} if variances is None else variances
    wanted = softmax(alone[None, :])[0]
    known = start is not None and start.cliques == tuple(cliques)
    certain = codes * (noise @ noise) <= NEGLIGIBLE * mass.sum() * (wanted * (1 - wanted)).sum()
    if start is None or not known or certain:  # from afar, steps would go astray where a relation is all but certain
        settings: Any = {"spread": spread, "iterations": iterations, "start": start, "offset": offset, "before": before}
        start = conditional_fit.fit(cells, weights, cliques, sizes, tables, deviations, alone, **settings)
    if certain:
        return start
    theta, margin = start.theta.copy(), start.margin.copy()
    if codes == 2:
        theta -= theta[:, :1]
    for code in moved:
        variances.setdefault(code, np.full(len(parts), spread**2 / 2))
    closed, free = np.zeros((1, codes)), np.ones((1, codes), np.bool_)
    if offset is not None:
        closed, open_ = offset, offset > CLOSED
        free = open_ & (open_.sum(1, keepdims=True) > 1)
        if not free.any():  # such as of a column with one code
            return start
        wanted = np.minimum(wanted, MOST_ATTAINED * (weights @ open_) / weights.sum())
    noisy_tables = {each[0]: each[1:] for each in zip(cliques, tables, deviations, strict=True)}
    stay = Stay.of(before, cells, weights, noisy_tables, wanted, None)
    same = stay.parameter(start.gains)
    if stay.count:
        closed = np.tile(closed, (len(weights) // len(closed), 1))
        stay.add(closed, same)
    for turn in range(PASSES):
        farthest = 0.0
        if stay.count:
            more = stay.step(softmax(margin + rows @ theta + closed), weights, same)
            stay.add(closed, more)
            same = same + more
            margin = matched(margin, rows @ theta + closed, weights, wanted)
            farthest = abs(float(more[0]))
        for code in moved:
            chances = softmax(margin + rows @ theta + closed)[:, code]
            varied = weights * free[:, code] * np.maximum(chances * (1 - chances), LEAST_VARIED)
            told = (columns.multiply(varied[None, :]).tocsr() @ rows).toarray()[held]
            share = (columns @ (weights * chances))[held] / mass[held]
            count = noisy[held]
            seen = count[:, code] - share * count.sum(1) + told @ theta[:, code]
            spoilt = noise**2 * ((1 - share) ** 2 + share**2 * (codes - 1))
            always = (columns @ varied)[held]  # what a change of all rows alike would add
            rest = told[:, held] + np.diag(spoilt) + np.outer(always, always)
            found = _likeliest(seen, told, rest, parts, variances[code], STEPS if turn or known else FIRST_STEPS)
            changed = found - theta[:, code]
            far = float(np.abs(rows @ changed).max())
            theta[:, code] += changed * min(1.0, FARTHEST / max(far, NEAR))
            margin = matched(margin, rows @ theta + closed, weights, wanted)
            farthest = max(farthest, far)
        if farthest < NEAR:
            break
    return Conditional(margin, tuple(cliques), theta, stay.of_parameter(same))


def _parts(cliques: Sequence[Clique], sizes: Mapping[str, int], ordered: Mapping[str, tuple[int, int]]) -> list[_Part]:
    """Of each table one part of independent parameters, and one for each ordered column."""
    found: list[_Part] = []
    start = 0
    for clique in cliques:
        end = start + math.prod(sizes[name] for name in clique)
        found.append(_Part(start, end, None))
        for place, name in enumerate(clique):
            low, high = ordered.get(name, (0, 0))
            if high - low >= LEAST_ORDERED:
                outer, inner = (
                    math.prod(sizes[each] for each in some) for some in (clique[:place], clique[place + 1 :])
                )
                walk = np.zeros((sizes[name], sizes[name]))
                walk[low:high, low:high] = _walk(high - low)
                found.append(_Part(start, end, np.kron(np.kron(np.eye(outer), walk), np.eye(inner))))
        start = end
    return found


def _walk(codes: int) -> Array:
    """The covariance of a random walk about its mean, (codes, codes), of mean variance 1."""
    steps = np.arange(float(codes))
    centred = np.eye(codes) - 1 / codes
    walk = centred @ np.minimum.outer(steps, steps) @ centred
    scaled: Array = walk * (codes / np.trace(walk))
    return scaled


def _likeliest(seen: Array, told: Array, rest: Array, parts: Sequence[_Part], variances: Array, steps: int) -> Array:
    """The parameters' means given `seen`, which is normal about told @ parameters with covariance `rest`; `variances` of the parts are
    improved in place."""
    from scipy.linalg import cholesky, solve_triangular

    found = np.zeros(told.shape[1])
    for step in range(steps + 1):
        spread = rest.copy()
        for part, variance in zip(parts, variances, strict=True):
            if variance > LEAST_VARIANCE:
                own = told[:, part.start : part.end]
                spread += variance * part.times(own) @ own.T
        spread.flat[:: len(spread) + 1] += ROUNDING * spread.diagonal().max()
        root = cholesky(spread, lower=True, check_finite=False)
        solved = solve_triangular(root, np.column_stack([seen, told]), lower=True, check_finite=False)
        slope = solved[:, 1:].T @ solved[:, 0]
        for place, part in enumerate(parts):
            own, here = solved[:, 1 + part.start : 1 + part.end], slope[part.start : part.end]
            if step == steps:
                found[part.start : part.end] += variances[place] * part.times(here[None, :])[0]
            elif variances[place] > LEAST_VARIANCE:
                gained = part.times(here[None, :])[0] @ here
                expected = (part.times(own) * own).sum()
                better = variances[place] * (math.sqrt(gained / expected) if expected > 0 else 0.0)
                variances[place] = min(better, MOST_VARIANCE)
    return found
