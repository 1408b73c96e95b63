"""The junction tree of a graphical model, and the model's marginals by two passes over it.

Columns are eliminated one after another, each time the one whose neighbours' table is smallest. What is left of a column's
neighbours are its parents, and column and parents one scope; the scope's own parent is that of the parent which is eliminated first.
Upward, in the order of elimination, each column is summed out of its scope, which leaves its conditional distribution given the
parents; downward, conditionals times the parents' marginal are the joint distributions (Koller & Friedman 2009, chapter 10).
"""

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.learned import nearest_counts

# ---- A Bayesian network over groups of codes: what generators that choose relations leave, whatever they fitted in between.


Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """`order` names every column once; `parents[j]` are columns before j in it; `tables[j]` is P(j | parents), one axis for each
    parent and the last for j."""

    order: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[Array, ...]

    def draw(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Groups, (rows, columns): ancestral sampling."""
        found = np.zeros((rows, len(self.order)), np.int64)
        for column in self.order:
            table = self.tables[column]
            flat = np.zeros(rows, np.int64)
            for parent, size in zip(self.parents[column], table.shape[:-1], strict=True):
                flat = flat * size + found[:, parent]
            ends = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
            ends = ends / ends[:, -1:] + np.arange(len(ends))[:, None]
            lots = np.searchsorted(ends.ravel(), flat + rng.random(rows), side="right") - flat * table.shape[-1]
            found[:, column] = np.clip(lots, 0, table.shape[-1] - 1)
        return found


def conditional(table: Array, otherwise: Array) -> Array:
    """P(last axis | the others) from a table of 0 or more; `otherwise` where the others have no mass."""
    mass = table.sum(-1, keepdims=True)
    return np.where(mass > 0, table / np.where(mass > 0, mass, 1.0), otherwise)


def nearest(counts: Array, total: float) -> Array:
    """The distribution nearest to noisy counts over a number of records."""
    return nearest_counts(counts / total, 1.0)


def cells(sizes: tuple[int, ...], clique: tuple[int, ...]) -> int:
    """Cells of a table of these columns."""
    return math.prod(sizes[column] for column in clique)


Clique = tuple[int, ...]
CELL = 8  # bytes
MOST_CELLS = 50_000_000  # of a model under a condition
LEAST_LOG = -1e300  # so that nothing is subtracted from minus infinity


@dataclass(frozen=True, kw_only=True)
class Tree:
    """`order` in which columns are eliminated; `parents[j]` ascending. A scope is (*parents, column)."""

    sizes: tuple[int, ...]
    order: tuple[int, ...]
    parents: tuple[Clique, ...]

    def scope(self, column: int) -> Clique:
        """The parents, then the column."""
        return (*self.parents[column], column)

    @cached_property
    def place(self) -> dict[int, int]:
        """When each column is eliminated."""
        return {column: place for place, column in enumerate(self.order)}

    def above(self, column: int) -> int | None:
        """The column whose scope holds all parents of this one; None where there are none."""
        return min(self.parents[column], key=self.place.__getitem__, default=None)

    def holder(self, clique: Collection[int]) -> int:
        """The column whose scope holds a clique that the tree was made for: the one that is eliminated first."""
        return min(clique, key=self.place.__getitem__)

    @property
    def cells(self) -> int:
        """Cells of all scopes that lie in no other one. A scope lies in another one if it is just the parents of a column below it."""
        inside = {
            self.above(column)
            for column, parents in enumerate(self.parents)
            if parents and len(parents) == len(self.scope(self.holder(parents)))
        }
        return sum(
            math.prod(self.sizes[each] for each in self.scope(column)) for column in self.order if column not in inside
        )


def tree_of(sizes: Sequence[int], cliques: Iterable[Collection[int]]) -> Tree:
    """The tree whose scopes hold every clique."""
    near: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for clique in cliques:
        for column in clique:
            near[column].update(clique)
    for column, others in near.items():
        others.discard(column)
    order: list[int] = []
    parents: list[Clique] = [()] * len(sizes)

    def cost(column: int) -> int:
        return math.prod(sizes[other] for other in near[column]) * sizes[column]

    costs = {column: cost(column) for column in near}
    waiting = [(costs[column], column) for column in near]
    heapq.heapify(waiting)
    while near:
        paid, column = heapq.heappop(waiting)
        if column not in near or paid != costs[column]:  # its cost has changed since
            continue
        others = near.pop(column)
        for other in others:
            near[other] |= others
            near[other] -= {other, column}
        for other in others:
            costs[other] = cost(other)
            heapq.heappush(waiting, (costs[other], other))
        order.append(column)
        parents[column] = tuple(sorted(others))
    return Tree(sizes=tuple(sizes), order=tuple(order), parents=tuple(parents))


def megabytes(sizes: Sequence[int], cliques: Iterable[Collection[int]]) -> float:
    """What a model of these cliques takes: the size that AIM bounds."""
    return tree_of(sizes, cliques).cells * CELL / 2**20


def conditionals(tree: Tree, potentials: Mapping[Clique, Array]) -> tuple[Array, ...]:
    """P(column | parents) for each column, of the distribution in proportion to the exponential of the potentials' sum."""
    return _upward(tree, potentials)[0]


def given(network: Network, events: Mapping[int, Array]) -> Network | None:
    """The network's distribution given an event that is independent over columns: `events` (groups,) of some columns are its
    probability given each group, in [0, 1]. None where it has probability 0.

    Exact: the network's tables times the events are potentials of a tree that holds every column with its parents. Raises
    `BadInput` where that takes more than `MOST_CELLS` cells.
    """
    scopes = [(*parents, column) for column, parents in enumerate(network.parents)]
    tree = tree_of([table.shape[-1] for table in network.tables], scopes)
    if tree.cells > MOST_CELLS:
        raise BadInput(
            f"where: the columns of this model depend on each other too densely to condition it exactly ({tree.cells:,} cells, at "
            f"most {MOST_CELLS:,}); use a model of generator mixture, or draw more rows and keep those that satisfy the condition"
        )
    with np.errstate(divide="ignore"):
        logs = {
            scope: np.log(table / table.sum(-1, keepdims=True) * events.get(column, 1.0))
            for column, (scope, table) in enumerate(zip(scopes, network.tables, strict=True))
        }
        tables, mass = _upward(tree, logs)
    return network_of(tree, tables) if mass > -math.inf else None


def _upward(tree: Tree, potentials: Mapping[Clique, Array]) -> tuple[tuple[Array, ...], float]:
    """The conditional distributions, even where their parents have probability 0, and the logarithm of what all adds up to."""
    held: list[Array] = [
        np.zeros([tree.sizes[each] for each in tree.scope(column)]) for column in range(len(tree.sizes))
    ]
    for clique, potential in potentials.items():
        column = tree.holder(clique)
        held[column] += spread(potential, clique, tree.scope(column))
    found: list[Array] = [np.ones(1)] * len(held)
    total = 0.0
    for column in tree.order:
        logs, held[column] = held[column], np.zeros(0)
        peak = np.maximum(logs.max(-1, keepdims=True), LEAST_LOG)
        shares = np.exp(logs - peak)
        mass = shares.sum(-1, keepdims=True)
        found[column] = (
            shares / mass if mass.all() else conditional(shares, np.full(shares.shape, 1 / shares.shape[-1]))
        )
        message = (peak + np.log(mass))[..., 0]
        above = tree.above(column)
        if above is None:
            total += float(message)
        else:
            held[above] += spread(message, tree.parents[column], tree.scope(above))
    return tuple(found), total


def joints(tree: Tree, given: Sequence[Array]) -> list[Array]:
    """P(column, parents) for each column, axes as in its scope."""
    found: list[Array] = [np.zeros(0)] * len(tree.sizes)
    for column in reversed(tree.order):
        above = tree.above(column)
        if above is None:
            found[column] = given[column]
        else:
            found[column] = given[column] * gathered(found[above], tree.scope(above), tree.parents[column])[..., None]
    return found


def network_of(tree: Tree, given: Sequence[Array]) -> Network:
    """The same distribution, drawn from against the order of elimination."""
    return Network(order=tree.order[::-1], parents=tree.parents, tables=tuple(given))


def marginal(network: Network, clique: Clique) -> Array:
    """The table of any columns, in shares: columns that come after all of them in the network's order are left out, the others
    summed out one after another, the last in the order first."""
    needed = set(clique)
    for column in reversed(network.order):
        if column in needed:
            needed.update(network.parents[column])
    factors = [((*network.parents[column], column), network.tables[column]) for column in sorted(needed)]
    for column in reversed(network.order):
        if column in needed and column not in clique:
            touched = [factor for factor in factors if column in factor[0]]
            factors = [factor for factor in factors if column not in factor[0]]
            scope, table = _product(touched)
            left = tuple(each for each in scope if each != column)
            factors.append((left, gathered(table, scope, left)))
    scope, table = _product(factors)
    return gathered(table, scope, clique)


def _product(factors: Sequence[tuple[Clique, Array]]) -> tuple[Clique, Array]:
    scope = tuple(sorted({each for clique, _ in factors for each in clique}))
    table: Array = np.ones([1] * len(scope))
    for clique, factor in factors:
        table = table * spread(factor, clique, scope)
    return scope, table


def spread(table: Array, clique: Clique, scope: Clique) -> Array:
    """A table with its axes where `scope` has them, of size 1 where the clique lacks one."""
    order = sorted(range(len(clique)), key=lambda axis: scope.index(clique[axis]))
    sizes = iter(table.shape[axis] for axis in order)
    return table.transpose(order).reshape([next(sizes) if each in clique else 1 for each in scope])


def gathered(table: Array, scope: Clique, clique: Clique) -> Array:
    """The table of `scope` summed to that of `clique`."""
    out = tuple(axis for axis, each in enumerate(scope) if each not in clique)
    left = [each for each in scope if each in clique]
    found: Array = table.sum(axis=out).transpose([left.index(each) for each in clique])
    return found
