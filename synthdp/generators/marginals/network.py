"""A Bayesian network over groups of codes: what generators that choose relations leave, whatever they fitted in between."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthdp.data.codec import Codec
from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.generators import Tensors, check_tensors
from synthdp.generators.marginals.grouping import Groups

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
ROWS = 200_000  # sampled at a time


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


@dataclass(frozen=True)
class NetworkModel:
    """The network over groups, and which codes a group stands for."""

    schema: Schema
    groups: tuple[Groups, ...]
    network: Network

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """Groups from the network, then codes of the groups."""
        rng, codec = np.random.default_rng(seed), Codec(self.schema)
        codes = np.empty((rows, len(codec.names)), np.int32)
        for start in range(0, rows, ROWS):
            drawn = self.network.draw(min(ROWS, rows - start), rng)
            for column, groups in enumerate(self.groups):
                codes[start : start + ROWS, column] = groups.ungrouped(drawn[:, column], rng)
        return codec.decode(codes, rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """`order`; `parents` (columns, columns), 1 + the place of each column among the parents of the first, or 0; tables; groups."""
        places = np.zeros((len(self.groups), len(self.groups)))
        for column, parents in enumerate(self.network.parents):
            places[column, list(parents)] = np.arange(1, len(parents) + 1)
        arrays: Tensors = {"order": np.array(self.network.order, np.float64), "parents": places}
        for column, (groups, table) in enumerate(zip(self.groups, self.network.tables, strict=True)):
            arrays |= {f"of.{column}": groups.of.astype(np.float64), f"within.{column}": groups.within}
            arrays[f"table.{column}"] = table
        return arrays


def restored(schema: Schema, tensors: Tensors) -> NetworkModel:
    """The model that `tensors` are of; raises `BadInput` where names, shapes or numbers do not fit."""
    sizes = Codec(schema).sizes
    d = len(sizes)
    shapes: dict[str, tuple[int, ...]] = {"order": (d,), "parents": (d, d)}
    for column, size in enumerate(sizes):
        shapes |= {f"of.{column}": (size,), f"within.{column}": (size,)}
    check_tensors({name: value for name, value in tensors.items() if not name.startswith("table.")}, shapes)
    groups = tuple(
        Groups(of=_whole(tensors[f"of.{column}"], size), within=np.asarray(tensors[f"within.{column}"], np.float64))
        for column, size in enumerate(sizes)
    )
    order = tuple(_whole(tensors["order"], d).tolist())
    places = _whole(tensors["parents"], d + 1)
    parents = tuple(tuple(np.flatnonzero(row)[np.argsort(row[row > 0])].tolist()) for row in places)
    before = {column: set(order[: order.index(column)]) for column in order}
    if sorted(order) != list(range(d)) or any(not before[column].issuperset(parents[column]) for column in range(d)):
        raise BadInput("the model's network does not name every column once, parents first")
    counts = [each.count for each in groups]
    shapes |= {f"table.{column}": (*(counts[p] for p in parents[column]), counts[column]) for column in range(d)}
    check_tensors(tensors, shapes)
    tables = tuple(np.asarray(tensors[f"table.{column}"], np.float64) for column in range(d))
    if any((table < 0).any() or (table.sum(-1) <= 0).any() for table in tables):
        raise BadInput("a table of the model's network is no distribution")
    return NetworkModel(schema, groups, Network(order=order, parents=parents, tables=tables))


def conditional(table: Array, otherwise: Array) -> Array:
    """P(last axis | the others) from a table of 0 or more; `otherwise` where the others have no mass."""
    mass = table.sum(-1, keepdims=True)
    found: Array = np.where(mass > 0, table / np.where(mass > 0, mass, 1.0), otherwise)
    return found


def nearest(counts: Array, total: float) -> Array:
    """The distribution nearest to noisy counts over a number of records: Euclidean projection onto the simplex (Duchi et al. 2008)."""
    flat = np.sort(counts.ravel() / total)[::-1]
    over = (np.cumsum(flat) - 1) / np.arange(1, flat.size + 1)
    found: Array = np.maximum(counts / total - over[np.flatnonzero(flat > over)[-1]], 0.0)
    return found


def cells(sizes: tuple[int, ...], clique: tuple[int, ...]) -> int:
    """Cells of a table of these columns."""
    return math.prod(sizes[column] for column in clique)


def _whole(values: NDArray[np.generic], most: int) -> NDArray[np.int64]:
    found = np.asarray(values, np.int64)
    if (found != values).any() or found.min(initial=0) < 0 or found.max(initial=0) >= max(most, 1):
        raise BadInput("the model's groups or network do not fit the columns of its schema")
    return found
