"""The model that `aim`, `mst` and `privbayes` leave: a network over groups of codes, which it draws from and can be conditioned."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from synthdp.errors import BadInput
from synthdp.generators import Tensors, check_distributions, check_tensors
from synthdp.generators.marginals.grouping import Groups, code_of, events, groups_of, tensors_of, whole_numbers
from synthdp.generators.marginals.junction_tree import Network, given
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.schema.where import EVERYTHING, Allowed

ROWS = 200_000  # sampled at a time


@dataclass(frozen=True)
class NetworkModel:
    """The network over groups, and which codes a group stands for."""

    schema: Schema
    groups: tuple[Groups, ...]
    network: Network

    @property
    def codec(self) -> Codec:
        """Of the codes that groups are made of."""
        return Codec(self.schema)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """Groups from the network, then codes of the groups."""
        return self.sample_where(rows, EVERYTHING, seed=seed, first_row=first_row)

    def sample_where(self, rows: int, allowed: Allowed, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """Groups from the network given the condition, then codes and values as the condition leaves them."""
        rng, codec = np.random.default_rng(seed), self.codec
        network = self._given(allowed, codec) if allowed.shares else self.network
        codes = np.empty((rows, len(codec.names)), np.int32)
        for start in range(0, rows, ROWS):
            drawn = network.draw(min(ROWS, rows - start), rng)
            for column, (name, groups) in enumerate(zip(codec.names, self.groups, strict=True)):
                codes[start : start + ROWS, column] = code_of(groups, drawn[:, column], allowed.shares.get(name), rng)
        return codec.decode(codes, rng, first_row=first_row, within=allowed.within)

    def _given(self, allowed: Allowed, codec: Codec) -> Network:
        chances = events(allowed, codec.names, self.groups)
        found = given(self.network, {codec.names.index(name): event for name, event in chances.items()})
        if found is None:
            raise allowed.impossible()
        return found

    def tensors(self) -> Tensors:
        """`order`; `parents` (columns, columns), 1 + the place of each column among the parents of the first, or 0; tables; groups."""
        places = np.zeros((len(self.groups), len(self.groups)))
        for column, parents in enumerate(self.network.parents):
            places[column, list(parents)] = np.arange(1, len(parents) + 1)
        arrays: Tensors = {"order": np.array(self.network.order, np.float64), "parents": places}
        tables = {f"table.{column}": table for column, table in enumerate(self.network.tables)}
        return {**arrays, **tensors_of(self.groups), **tables}


def restored(schema: Schema, tensors: Tensors) -> NetworkModel:
    """The model that `tensors` are of; raises `BadInput` where names, shapes or numbers do not fit."""
    sizes = Codec(schema).sizes
    d = len(sizes)
    groups = groups_of(tensors, sizes)
    shapes: dict[str, tuple[int, ...]] = {"order": (d,), "parents": (d, d)}
    check_tensors({name: tensors[name] for name in shapes if name in tensors}, shapes)
    order = tuple(whole_numbers(tensors["order"], d).tolist())
    places = whole_numbers(tensors["parents"], d + 1)
    parents = tuple(tuple(np.flatnonzero(row)[np.argsort(row[row > 0])].tolist()) for row in places)
    before = {column: set(order[: order.index(column)]) for column in order}
    if sorted(order) != list(range(d)) or any(not before[column].issuperset(parents[column]) for column in range(d)):
        raise BadInput("the model's network does not name every column once, parents first; the release was altered")
    counts = [each.count for each in groups]
    names = {f"table.{column}": (*(counts[p] for p in parents[column]), counts[column]) for column in range(d)}
    known = {*shapes, *tensors_of(groups)}
    check_tensors({name: value for name, value in tensors.items() if name not in known}, names)
    tables = tuple(np.asarray(tensors[name], np.float64) for name in names)
    check_distributions(tensors, names)
    return NetworkModel(schema, groups, Network(order=order, parents=parents, tables=tables))
