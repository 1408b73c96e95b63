"""The distribution of one column given others, fitted to noisy tables of it with each of them, or with several.
A row that lies in several cells of a table, such as a visit with several codes, has their mean.

P(y | x) is proportional to P(y) exp(sum_q theta_q[x_q, y]), where P(y) is what the tables say of the column by itself: of all
conditional distributions with the same tables the one that is nearest to it (Berger, Della Pietra & Della Pietra 1996). The tables are
noisy, so a parameter pays for its size as much as its cell's noise outweighs what the cell can tell (Dudik, Phillips & Schapire 2007,
with an L2 penalty). The `x` are drawn, not records: what a model has drawn so far.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthdp.schema.history_view import cell

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Clique = tuple[str, ...]
ROWS, CHANCES = 50_000, 10_000_000  # of which probabilities are made at a time
CLOSED = -1e6  # the logarithm of a chance that is none
LEAST_CHANCE = 1e-300  # of a code that a rule leaves: something is drawn
ALIKE = 2.0**30  # of a code's place: means that differ by less than a part of so many are alike
IN_RANGE = 600.0  # logarithms of numbers that float64 holds beside each other
LEAST_TOLD = 1.0  # of a cell's variance in records: below it, only the noise is heard


@dataclass(frozen=True, eq=False)
class Conditional:
    """`margin` (codes,): logarithms of the column by itself. `theta` (cells of all cliques end to end, codes): what they change."""

    margin: Array
    cliques: tuple[Clique, ...]
    theta: Array

    def probabilities(self, cells: Mapping[str, Whole], sizes: Mapping[str, int], offset: Array | None = None) -> Array:
        """(rows, codes). `offset` (rows, codes) are logarithms of what multiplies the chances."""
        logits = np.tile(self.margin, (len(next(iter(cells.values()))), 1))
        start = 0
        for clique in self.cliques:
            found = cell(cells, clique, sizes)
            if found.ndim == 1:
                logits += self.theta[start + found]
            else:
                for place, share in zip(found.T, _shares(found).T, strict=True):
                    there = np.flatnonzero(place >= 0)
                    logits[there] += self.theta[start + place[there]] * share[there, None]
            start += math.prod(sizes[name] for name in clique)
        return softmax(logits if offset is None else logits + offset)

    def draw(self, cells: Mapping[str, Whole], sizes: Mapping[str, int], rng: np.random.Generator) -> Whole:
        """A code for each row of `cells`."""
        rows = len(next(iter(cells.values())))
        found = np.empty(rows, np.int64)
        step = max(1, min(ROWS, CHANCES // len(self.margin)))
        for start in range(0, rows, step):
            part = {name: values[start : start + step] for name, values in cells.items()}
            found[start : start + step] = drawn(self.probabilities(part, sizes), rng)
        return found


def halfway(one: Conditional, other: Conditional) -> Conditional:
    """The conditional between two of the same cliques."""
    return Conditional((one.margin + other.margin) / 2, other.cliques, (one.theta + other.theta) / 2)


def _shares(found: Whole) -> Array:
    """What each place of rows that lie in several cells weighs, (rows, places)."""
    there = found >= 0
    shares: Array = there / np.maximum(there.sum(1, keepdims=True), 1)
    return shares


def drawn(chances: Array, rng: np.random.Generator) -> Whole:
    """A place of each row's distribution, (rows, codes). Rows are not independent of each other: among rows of like chances every code
    comes nearly as often as its chances say."""
    ends = chances.cumsum(1)
    means = ends.sum(1) / np.maximum(ends[:, -1], LEAST_CHANCE)  # of places, counted from the end
    numbers = np.empty(len(ends))
    alike = np.rint(means * ALIKE)  # so that rounding, which differs between machines, does not order rows
    numbers[np.argsort(alike, kind="stable")] = evenly(len(ends), rng)
    found: Whole = (ends > numbers[:, None] * ends[:, -1:]).argmax(1)
    return found


def evenly(count: int, rng: np.random.Generator) -> Array:
    """Numbers between 0 and 1, (count,), each of them uniform: of the first 2^k, of the next 2^k and so on, one lies in each 2^k-th part
    (a scrambled net in one dimension; Owen 1995)."""
    parts = np.arange(1 << max(0, count - 1).bit_length(), dtype=np.int32)[None, :]
    while parts.shape[1] > 1:  # neighbours part: one into the first half of the rows, one into the second
        pairs = parts.reshape(len(parts), -1, 2)
        first = rng.integers(0, 2, pairs.shape[:2])[:, :, None]
        halves = [np.take_along_axis(pairs, each, 2)[:, :, 0] for each in (first, 1 - first)]
        parts = np.stack(halves, 1).reshape(2 * len(parts), -1)
    return (parts[:count, 0] + rng.random(count)) / len(parts)


def softmax(logits: Array) -> Array:
    """Along the last axis, of (rows, codes)."""
    found, sums, _ = _exponentials(logits)
    found /= sums
    return found


def _exponentials(logits: Array) -> tuple[Array, Array, Array]:
    """Exponentials of (rows, codes) less a number that keeps them in range, their sums (rows, 1), and that number: one for all rows where
    this is enough, since what is largest in each short row takes long to find."""
    most = np.max(logits, initial=-np.inf, keepdims=True)
    if not most.item() - np.min(logits, initial=np.inf) < IN_RANGE:
        most = logits.max(1, keepdims=True)
    found = np.exp(logits - most)
    return found, (found @ np.ones(found.shape[1]))[:, None], most


def fit(
    cells: Mapping[str, Whole],
    weights: Array,
    cliques: Sequence[Clique],
    sizes: Mapping[str, int],
    tables: Sequence[Array],
    deviations: Sequence[float],
    alone: Array,
    *,
    spread: float | Sequence[float],
    iterations: int,
    start: Conditional | None = None,
    offset: Array | None = None,
) -> Conditional:
    """The conditional that has, in every cell of a clique, the shares of the codes that the noisy `tables` (cells, codes) have there.

    `alone` (codes,) are logarithms of the column by itself. Tables are held against the rows `cells`, weighted: a table's cell counts as
    much as the rows in it. `spread` is the deviation of parameters that is expected, of all or of each table: a parameter's penalty is
    (1 + deviation^2 / h) / spread^2 / 2 times its square, where h is the variance of its count among the rows. `offset` (rows, codes) are
    logarithms of what multiplies the chances, `CLOSED` of codes that a row cannot have. By L-BFGS, from `start` where its cliques are the
    same.
    """
    from scipy.optimize import minimize

    rows = indicators(cells, cliques, sizes)
    columns = rows.T.tocsr()
    base, margin = alone, softmax(alone[None, :])[0]
    mass = (columns @ weights)[:, None]
    noisy = np.concatenate(tables)
    noise = np.concatenate(
        [np.full(len(table), deviation) for table, deviation in zip(tables, deviations, strict=True)]
    )[:, None]
    held = np.maximum(noisy.sum(1, keepdims=True), noise)  # of the records in a cell; no fewer than the noise hides
    target = mass * (noisy + (held - noisy.sum(1, keepdims=True)) * margin) / held
    noise = noise * mass / held
    told = mass * (margin * (1 - margin))[None, :]
    spreads = np.repeat(np.broadcast_to(spread, len(tables)), [len(table) for table in tables])[:, None]
    penalty = (1 + noise**2 / np.maximum(told, LEAST_TOLD)) / spreads**2
    scale = 1 / np.sqrt(penalty + 3 * told)  # 3: a row lies in a cell of every table, which share what they tell

    def objective(scaled: Array) -> tuple[float, Array]:
        theta = scaled.reshape(target.shape) * scale
        logits = base + rows @ theta if offset is None else base + rows @ theta + offset
        shares, sums, most = _exponentials(logits)
        value = weights @ (np.log(sums) + most)[:, 0] - (theta * target).sum() + (penalty * theta**2).sum() / 2
        slope = columns @ (shares * (weights[:, None] / sums)) - target + penalty * theta
        return float(value), (slope * scale).ravel()

    known = start is not None and start.cliques == tuple(cliques)
    first = start.theta / scale if known and start is not None else np.zeros(target.shape)
    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-3}
    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    return Conditional(base, tuple(cliques), found.x.reshape(target.shape) * scale)


def indicators(cells: Mapping[str, Whole], cliques: Sequence[Clique], sizes: Mapping[str, int]) -> "csr_matrix":
    """(rows, cells of all cliques): 1 where a row lies in a cell, and its share where it lies in several."""
    from scipy.sparse import csr_matrix

    starts = np.cumsum([0, *(math.prod(sizes[name] for name in clique) for clique in cliques)])
    found, shares = [], []
    for clique, first in zip(cliques, starts[:-1], strict=True):
        each = cell(cells, clique, sizes)
        each = each[:, None] if each.ndim == 1 else each
        found.append(np.where(each >= 0, each + first, -1))
        shares.append(_shares(each))
    places, parts = np.concatenate(found, 1), np.concatenate(shares, 1)
    there = places >= 0
    ends = np.cumsum([0, *there.sum(1)])
    return csr_matrix((parts[there], places[there], ends), shape=(len(places), int(starts[-1])))
