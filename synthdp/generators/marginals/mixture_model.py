"""The model that `mixture` fits: a mixture over groups of codes, which it draws from and can be conditioned."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import Tensors, check_distributions, check_tensors
from synthdp.generators.marginals.grouping import Groups, code_of, events, groups_of, tensors_of
from synthdp.generators.marginals.product_mixture import Products
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.schema.where import EVERYTHING, Allowed

MOST_CELLS = 100_000  # of a grid
ROWS = 200_000  # sampled at a time


def beside(schema: Schema, labels: Sequence[str]) -> list[str]:
    """Names of the columns that are not in the label."""
    return [column.name for column in schema.coded if column.name not in labels]


@dataclass(frozen=True)
class MixtureModel:
    """The mixture over groups, and which codes a group stands for. `labels` are the targets that make the label together."""

    schema: Schema
    labels: tuple[str, ...]
    groups: tuple[Groups, ...]
    products: Products
    cells: int = 0

    @property
    def codec(self) -> Codec:
        """Of the codes that groups are made of."""
        return Codec(self.schema, self.cells)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """A component, then the label and every column by themselves, then codes of the groups."""
        return self.sample_where(rows, EVERYTHING, seed=seed, first_row=first_row)

    def sample_where(self, rows: int, allowed: Allowed, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """A component given the condition, then the rest as ever: groups, their codes and the values of those as the condition
        leaves them."""
        rng, codec = np.random.default_rng(seed), self.codec
        products = self._given(allowed, codec) if allowed.shares else self.products
        codes = np.empty((rows, len(codec.names)), np.int32)
        for start in range(0, rows, ROWS):
            codes[start : start + ROWS] = self._codes(min(ROWS, rows - start), products, allowed, codec, rng)
        return codec.decode(codes, rng, first_row=first_row, within=allowed.within)

    def _given(self, allowed: Allowed, codec: Codec) -> Products:
        """The mixture over groups, each of which satisfies the condition as often as its codes do by their shares."""
        event = events(allowed, codec.names, self.groups)
        together = np.ones(1)
        for name in self.labels:
            whole = np.ones(self.groups[codec.names.index(name)].count)
            together = np.outer(together, event.get(name, whole)).ravel()
        columns = {place: event[name] for place, name in enumerate(beside(self.schema, self.labels)) if name in event}
        found = self.products.given(together, columns)
        if found is None:
            raise allowed.impossible()
        return found

    def _codes(
        self, rows: int, products: Products, allowed: Allowed, codec: Codec, rng: np.random.Generator
    ) -> NDArray[np.int32]:
        label, columns = products.draw(rows, rng)
        chosen = dict(zip(beside(self.schema, self.labels), columns, strict=True))
        sizes = tuple(self.groups[codec.names.index(name)].count for name in self.labels)
        chosen |= dict(zip(self.labels, np.unravel_index(label, sizes), strict=True)) if self.labels else {}
        codes = [
            code_of(each, chosen[name], allowed.shares.get(name), rng)
            for name, each in zip(codec.names, self.groups, strict=True)
        ]
        return np.stack(codes, 1) if codes else np.empty((rows, 0), np.int32)

    def tensors(self) -> Tensors:
        """Distributions, and the groups."""
        arrays: Tensors = {"weights": self.products.weights, "label": self.products.label}
        arrays |= {"cells": np.array([self.cells])} if self.cells else {}
        features = beside(self.schema, self.labels)
        arrays |= {f"column.{name}": column for name, column in zip(features, self.products.columns, strict=True)}
        return {**arrays, **tensors_of(self.groups)}


def restored(schema: Schema, tensors: Tensors) -> "MixtureModel":
    """The model that `tensors` are of; raises `BadInput` where names, shapes or groups do not fit the schema."""
    cells = int(tensors["cells"][0]) if "cells" in tensors and tensors["cells"].shape == (1,) else 0
    codec = Codec(schema, min(max(cells, 0), MOST_CELLS))
    labels = tuple(column.name for column in schema.coded if f"column.{column.name}" not in tensors)
    if not set(labels) <= set(schema.targets):
        raise BadInput("the model lacks columns of its schema that are no targets")
    features, groups = beside(schema, labels), groups_of(tensors, codec.sizes)
    counts = {name: each.count for name, each in zip(codec.names, groups, strict=True)}
    weights = tensors["weights"].shape if "weights" in tensors else (0,)
    components = weights[0] if weights else 0
    shapes = {"weights": weights, "label": (components, math.prod(counts[name] for name in labels))}
    shapes |= {f"column.{name}": (components, counts[name]) for name in features}
    shapes |= {"cells": (1,)} if "cells" in tensors else {}
    known = tensors_of(groups)
    check_tensors({name: value for name, value in tensors.items() if name not in known}, shapes)
    check_distributions(tensors, ["weights", "label", *(f"column.{name}" for name in features)])
    columns = tuple(np.asarray(tensors[f"column.{name}"], np.float64) for name in features)
    products = Products(
        weights=np.asarray(tensors["weights"], np.float64),
        label=np.asarray(tensors["label"], np.float64),
        columns=columns,
    )
    return MixtureModel(schema, labels, groups, products, codec.cells)
