"""A mixture of products fitted to the noisy tables of the label with every two columns.

Gaussian questions alone, so that the plan is exactly accounted: first every column by itself, numeric ones on a finer grid too,
which says how codes are grouped (the noise of a table is small against its groups); then, with no selection, each table of
(column, column, label). A mixture of product
distributions is fitted to all of them at once (`marginals/products.py`), and records are drawn from it.

Marginal-based generators measure tables and fit a graphical model to them (McKenna, Miklau & Sheldon 2021; McKenna et al. 2022);
the mixture needs no choice of tables, since its tables cost one matrix product however many they are.
"""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from synthdp.data.codec import Codec
from synthdp.data.columns import Continuous, Datetime, Integer
from synthdp.data.schema import Schema
from synthdp.data.where import EVERYTHING, Allowed
from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, check_tensors, silent
from synthdp.generators.marginals.grouping import Counts, Groups, agreed, grouped
from synthdp.generators.marginals.products import Evidence, Products, components_of, fit
from synthdp.generators.parts.checks import whole
from synthdp.generators.parts.networks import nearest_distribution, random
from synthdp.options import option
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import Entry, Gaussian, Plan, merged
from synthdp.privacy.sensitive import Sensitive

if TYPE_CHECKING:
    import pandas as pd

SHOW_EVERY = 25
MOST_LABELS = 16  # groups of all targets together: each is a table of its own for every pair of columns
MOST_GROUPS = 32  # of a column
MOST_TABLES = 5_000  # of two columns: those of 100 columns; beyond it the noise leaves little of each
MOST_CELLS = 100_000  # of a grid
LEAST_NOISE = 0.5  # records: a noiseless fit is weighed as if it had so much
ROWS = 200_000  # sampled at a time


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Settings of the mixture."""

    name: ClassVar[str] = "mixture"
    counted: ClassVar[bool] = True  # asks for counts alone
    conditional: ClassVar[bool] = True
    contract_settings: ClassVar[dict[str, Any]] = {"iterations": 40, "starts": 2, "components": 40, "cells": 200}
    audit_settings: ClassVar[dict[str, Any]] = {
        "iterations": 3,
        "starts": 1,
        "components": 4,
        "least": 0.0,
        "cells": 0,
    }  # models of one shape

    share: float = option(0.12, "share of the precision spent on single columns, in (0, 1)")
    cells: int = option(
        10_000,
        "cells of the public grid on which numeric columns are counted beside their bins; 0: in their bins alone",
    )
    grid_share: float = option(0.04, "share of the precision spent on these grids, in (0, 1)")
    least: float = option(
        2.0,
        "noisy records that a group of codes holds at least, in deviations of the noise of their count; 0: no grouping",
    )
    components: int | None = option(
        None, "product distributions; default: what the noise lets be told apart, 100 to 800"
    )
    starts: int = option(3, "fits from different random starts, whose mixtures are averaged")
    iterations: int = option(300, "steps of Adam of each fit")
    rate: float = option(0.1, "learning rate of Adam, falling to zero along a cosine")
    shrinkage: float = option(0.03, "how strongly components are drawn to the single columns' distributions")

    def __post_init__(self) -> None:
        for name in ("share", "grid_share"):
            if not 0 < getattr(self, name) < 1:
                raise BadInput(f"generator.{name} must lie in (0, 1), got {getattr(self, name)}")
        if self.share + self.grid_share >= 1:
            raise BadInput("generator.share and generator.grid_share together must leave something for the tables")
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or not 0 <= self.cells <= MOST_CELLS:
            raise BadInput(f"generator.cells must be a whole number of 0 to {MOST_CELLS:,}, got {self.cells!r}")
        for name in ("starts", "iterations", "components"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        for name in ("rate", "shrinkage", "least"):
            value = getattr(self, name)
            if not 0 <= value < math.inf or (name == "rate" and value == 0):
                raise BadInput(f"generator.{name} must be a finite number of 0 or more, and rate above 0, got {value}")

    def plan(self, schema: Schema, noise: float) -> Plan:
        """One Gaussian for the single columns, one for their finer grids, one for all tables of columns with the label."""
        return merged(Entry(Gaussian(each)) for each in self.noises(schema, noise).values())

    def noises(self, schema: Schema, noise: float) -> dict[str, float]:
        """Noises of what is asked of this schema; their precisions, 1 / noise^2, add up to that of `noise`."""
        shares = {"columns": self.share}
        if self.cells and _numeric(schema):
            shares["grids"] = self.grid_share
        if _cliques(schema):
            shares["tables"] = 1 - sum(shares.values())
        whole = sum(shares.values())
        return {name: noise / math.sqrt(share / whole) for name, share in shares.items()}

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """Single columns, groups, tables, mixture."""
        noises = self.noises(schema, data.commit(lambda z: self.plan(schema, z), budget))
        schema = data.resolve(cells=self.cells)
        codec, cliques = data.fine, _cliques(schema)
        alone = data.tables([(name,) for name in codec.names], noises["columns"])
        bins = data.ask(alone)
        total = max(1.0, float(np.average([table.sum() for table in bins], weights=[1 / len(table) for table in bins])))
        counts = _counts(data, schema, bins, alone.deviation, noises.get("grids"))
        groups = self._grouped(counts, schema, codec, alone.deviation, total)
        if cliques:
            question = data.tables(cliques, noises["tables"], [each.of for each in groups], fine=True)
            tables, deviation = data.ask(question), max(question.deviation, LEAST_NOISE)
        else:
            tables, deviation = [], 1.0
        evidence = _evidence(counts, tables, groups, schema, codec.names, total, deviation, alone.deviation)
        products = fit(
            evidence,
            components=self.components or components_of(total, deviation),
            starts=self.starts,
            iterations=self.iterations,
            rate=self.rate,
            shrinkage=self.shrinkage,
            generator=random(seed),
            progress=lambda step, residual: _show(progress, step, self.starts * self.iterations, residual),
        )
        return MixtureModel(schema, tuple(groups), products, codec.cells)

    def _grouped(
        self, counts: list[Counts], schema: Schema, codec: Codec, deviation: float, total: float
    ) -> list[Groups]:
        labels, _ = _parts(schema)
        each = max(2, int(MOST_LABELS ** (1 / max(1, len(labels)))))
        least = min(self.least * deviation, total / 2)
        return [
            grouped(table, column, codec, least, each if column.name in labels else MOST_GROUPS)
            for table, column in zip(counts, schema.coded, strict=True)
        ]

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """Groups of every column's codes, and the mixture over groups."""
        cells = int(tensors["cells"][0]) if "cells" in tensors and tensors["cells"].shape == (1,) else 0
        codec = Codec(schema, min(max(cells, 0), MOST_CELLS))
        labels, features = _parts(schema)
        shapes: dict[str, tuple[int, ...]] = (
            {"weights": tensors["weights"].shape} if "weights" in tensors else {"weights": (0,)}
        )
        components = shapes["weights"][0] if shapes["weights"] else 0
        for place, size in enumerate(codec.sizes):
            shapes |= {f"of.{place}": (size,), f"within.{place}": (size,)}
        counts = [
            int(tensors[f"of.{place}"].max(initial=0)) + 1 if f"of.{place}" in tensors else 0
            for place in range(len(codec.sizes))
        ]
        if any(not 0 < count <= size for count, size in zip(counts, codec.sizes, strict=True)):
            raise BadInput("the model's groups do not fit the columns of its schema")
        shapes |= {"cells": (1,)} if "cells" in tensors else {}
        together = math.prod(counts[codec.names.index(name)] for name in labels)
        shapes["label"] = (components, together)
        shapes |= {f"column.{name}": (components, counts[codec.names.index(name)]) for name in features}
        check_tensors(tensors, shapes)
        groups = tuple(
            Groups(
                of=np.asarray(tensors[f"of.{place}"], np.int64),
                within=np.asarray(tensors[f"within.{place}"], np.float64),
            )
            for place in range(len(codec.sizes))
        )
        if any(
            each.of.min(initial=0) < 0 or (each.of != tensors[f"of.{place}"]).any() for place, each in enumerate(groups)
        ):
            raise BadInput("the model's groups do not fit the columns of its schema")
        columns = tuple(np.asarray(tensors[f"column.{name}"], np.float64) for name in features)
        products = Products(
            weights=np.asarray(tensors["weights"], np.float64),
            label=np.asarray(tensors["label"], np.float64),
            columns=columns,
        )
        return MixtureModel(schema, groups, products, codec.cells)


@dataclass(frozen=True)
class MixtureModel:
    """The mixture over groups, and which codes a group stands for."""

    schema: Schema
    groups: tuple[Groups, ...]
    products: Products
    cells: int = 0

    @property
    def codec(self) -> Codec:
        """Of the codes that groups are made of."""
        return Codec(self.schema, self.cells)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """A component, then the label and every column by themselves, then codes of the groups."""
        return self.sample_where(rows, EVERYTHING, seed=seed, first_row=first_row)

    def sample_where(
        self, rows: int, allowed: Allowed, *, seed: int | None = None, first_row: int = 0
    ) -> "pd.DataFrame":
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
        labels, features = _parts(self.schema)
        event = {
            name: np.bincount(each.of, weights=each.within * allowed.shares[name], minlength=each.count)
            / np.maximum(np.bincount(each.of, weights=each.within, minlength=each.count), np.finfo(float).tiny)
            for name, each in zip(codec.names, self.groups, strict=True)
            if name in allowed.shares
        }
        together = np.ones(1)
        for name in labels:
            whole = np.ones(self.groups[codec.names.index(name)].count)
            together = np.outer(together, event.get(name, whole)).ravel()
        columns = {place: event[name] for place, name in enumerate(features) if name in event}
        found = self.products.given(together, columns)
        if found is None:
            raise allowed.impossible()
        return found

    def _codes(
        self, rows: int, products: Products, allowed: Allowed, codec: Codec, rng: np.random.Generator
    ) -> NDArray[np.int32]:
        labels, features = _parts(self.schema)
        label, columns = products.draw(rows, rng)
        chosen = dict(zip(features, columns, strict=False))  # beside them: a constant where there was no pair
        sizes = tuple(self.groups[codec.names.index(name)].count for name in labels)
        chosen |= dict(zip(labels, np.unravel_index(label, sizes), strict=True)) if labels else {}
        parts = [
            _code_of(each, chosen[name], allowed.shares.get(name), rng)
            for name, each in zip(codec.names, self.groups, strict=True)
        ]
        return np.stack(parts, 1) if parts else np.empty((rows, 0), np.int32)

    def tensors(self) -> Tensors:
        """Distributions, and the groups."""
        _, features = _parts(self.schema)
        arrays: Tensors = {"weights": self.products.weights, "label": self.products.label}
        arrays |= {"cells": np.array([self.cells])} if self.cells else {}
        arrays |= {f"column.{name}": column for name, column in zip(features, self.products.columns, strict=False)}
        for place, each in enumerate(self.groups):
            arrays |= {f"of.{place}": each.of.astype(np.float64), f"within.{place}": each.within}
        return arrays


def _code_of(
    groups: Groups, chosen: NDArray[np.int64], shares: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of each chosen group (rows,), of those that the condition leaves."""
    if shares is None:
        return groups.ungrouped(chosen, rng)
    within = groups.within * shares
    kept = np.flatnonzero(within > 0)
    left = Groups(of=groups.of[kept], within=within[kept])
    codes: NDArray[np.int32] = kept[left.ungrouped(chosen, rng)].astype(np.int32)
    return codes


def _parts(schema: Schema) -> tuple[list[str], list[str]]:
    """Names of the targets, which make the label, and of the other columns."""
    names = [column.name for column in schema.coded]
    labels = [name for name in names if name in schema.targets]
    return labels, [name for name in names if name not in labels]


def _numeric(schema: Schema) -> list[str]:
    """Names of the columns that have a finer grid."""
    return [column.name for column in schema.coded if isinstance(column, Integer | Continuous | Datetime)]


def _counts(
    data: Sensitive, schema: Schema, bins: list[NDArray[np.float64]], deviation: float, noise: float | None
) -> list[Counts]:
    """Counts of every column by the codes of `data.fine`; `noise` is that of the grids, if they are to be asked."""
    codec, names = data.fine, _numeric(schema)
    found = [Counts.of(table, deviation) for table in bins]
    if noise is None:
        return found
    question = data.tables([(name,) for name in names], noise, fine=True)
    ways = codec.coarse()
    for name, codes in zip(names, data.ask(question), strict=True):
        place = codec.names.index(name)
        way = ways[place]
        of = np.arange(len(codes)) if way is None else way
        found[place] = agreed(bins[place], deviation, codes, question.deviation, of)
    return found


def _cliques(schema: Schema) -> list[tuple[str, ...]]:
    """Every two columns with the label; what there is with the label where there are no two."""
    labels, features = _parts(schema)
    pairs: list[tuple[str, ...]] = list(combinations(features, 2))
    if not pairs and labels:
        pairs = [tuple(features)]
    if len(pairs) > MOST_TABLES:
        raise BadInput(
            f"mixture measures every two columns, and {len(features)} columns make {len(pairs):,} tables, more than {MOST_TABLES:,}: "
            "leave columns out of the schema"
        )
    return [(*pair, *labels) for pair in pairs]


def _evidence(
    counts: list[Counts],
    tables: list[NDArray[np.float64]],
    groups: list[Groups],
    schema: Schema,
    names: tuple[str, ...],
    total: float,
    deviation: float,
    alone: float,
) -> Evidence:
    labels, features = _parts(schema)
    places = [names.index(name) for name in features]
    sizes = (
        *(groups[place].count for place in places),
        *(1,) * (2 - len(places)),
    )  # a pair with a constant, if need be
    together = math.prod(groups[names.index(name)].count for name in labels)
    ends = np.cumsum([0, *sizes])
    width = int(ends[-1])
    held, measured = np.zeros((together, width, width), np.float32), np.zeros((width, width), np.float32)
    for (a, b), table in zip(combinations(range(len(sizes)), 2), tables, strict=bool(tables)):
        block = table.reshape(sizes[a], sizes[b], together).transpose(2, 0, 1) / total
        held[:, ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = block
        measured[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = 1
    sums = [
        np.bincount(groups[place].of, weights=counts[place].held, minlength=groups[place].count) for place in places
    ]
    noises = [_noise(counts[place], groups[place], alone) for place in places]
    ones = [nearest_distribution(torch.from_numpy(each / total)).float() for each in sums]
    noises += [np.array([alone])] * (len(sizes) - len(places))
    spread = torch.from_numpy(np.concatenate(noises)).clamp_min(LEAST_NOISE)
    return Evidence(
        sizes=sizes,
        tables=torch.from_numpy(held),
        measured=torch.from_numpy(measured),
        precision=total / deviation,
        ones=torch.cat([*ones, torch.ones(width - sum(map(len, ones)))]),
        ones_precision=(total / spread).float(),
    )


def _noise(counts: Counts, groups: Groups, alone: float) -> NDArray[np.float64]:
    """About the deviation of each group's count: of its codes together, and at most of the bins that they lie in."""
    codes = np.bincount(groups.of, minlength=groups.count)
    met = np.unique(groups.of * (int(counts.bins.max(initial=0)) + 1) + counts.bins)
    bins = np.bincount(met // (int(counts.bins.max(initial=0)) + 1), minlength=groups.count)
    noise: NDArray[np.float64] = np.minimum(counts.deviation * np.sqrt(codes), alone * np.sqrt(bins))
    return noise


def _show(progress: Progress, step: int, steps: int, residual: float) -> None:
    if step % SHOW_EVERY == 0 or step == steps:
        progress(step, steps, {"residual": residual})


GENERATOR = Mixture
