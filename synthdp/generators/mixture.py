"""A mixture of products fitted to the noisy tables of the label with every two columns.

Two Gaussian questions, so that the plan is exactly accounted: first every column alone, which says how codes are grouped (the
noise of a table is small against its groups); then, with no selection, each table of (column, column, label). A mixture of product
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
from synthdp.data.schema import Schema
from synthdp.data.where import EVERYTHING, Allowed
from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, check_tensors, silent
from synthdp.generators.marginals.grouping import Groups, grouped
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
MOST_GROUPS = 64  # of a column
MOST_TABLES = 5_000  # of two columns: those of 100 columns; beyond it the noise leaves little of each
LEAST_NOISE = 0.5  # records: a noiseless fit is weighed as if it had so much
ROWS = 200_000  # sampled at a time


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Settings of the mixture."""

    name: ClassVar[str] = "mixture"
    counted: ClassVar[bool] = True  # asks for counts alone
    conditional: ClassVar[bool] = True
    contract_settings: ClassVar[dict[str, Any]] = {"iterations": 60, "components": 40}
    audit_settings: ClassVar[dict[str, Any]] = {"iterations": 3, "components": 4, "least": 0.0}  # models of one shape

    share: float = option(0.12, "share of the precision spent on single columns, in (0, 1)")
    least: float = option(
        2.0,
        "noisy records that a group of codes holds at least, in deviations of the noise of their count; 0: no grouping",
    )
    components: int | None = option(
        None, "product distributions; default: what the noise lets be told apart, 100 to 800"
    )
    iterations: int = option(300, "steps of Adam")
    rate: float = option(0.1, "learning rate of Adam, falling to zero along a cosine")
    shrinkage: float = option(0.03, "how strongly components are drawn to the single columns' distributions")

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise BadInput(f"generator.share must lie in (0, 1), got {self.share}")
        for name in ("iterations", "components"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        for name in ("rate", "shrinkage", "least"):
            value = getattr(self, name)
            if not 0 <= value < math.inf or (name == "rate" and value == 0):
                raise BadInput(f"generator.{name} must be a finite number of 0 or more, and rate above 0, got {value}")

    def plan(self, schema: Schema, noise: float) -> Plan:
        """One Gaussian for the single columns, one for all tables of columns with the label."""
        if not _cliques(schema):
            return (Entry(Gaussian(noise)),)
        return merged(Entry(Gaussian(each)) for each in self.noises(noise))

    def noises(self, noise: float) -> tuple[float, float]:
        """Noises whose precisions, 1 / noise^2, add up to that of `noise`."""
        return noise / math.sqrt(self.share), noise / math.sqrt(1 - self.share)

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """Single columns, groups, tables, mixture."""
        noise = data.commit(lambda z: self.plan(schema, z), budget)
        schema = data.resolve()
        codec, cliques = data.codec, _cliques(schema)
        first, second = self.noises(noise) if cliques else (noise, 0.0)
        alone = data.tables([(name,) for name in codec.names], first)
        counts = data.ask(alone)
        total = max(
            1.0, float(np.average([table.sum() for table in counts], weights=[1 / len(table) for table in counts]))
        )
        groups = self._grouped(counts, schema, codec, self.least * alone.deviation, total)
        labels, features = _parts(schema)
        if cliques:
            question = data.tables(cliques, second, [each.of for each in groups])
            tables, deviation = data.ask(question), max(question.deviation, LEAST_NOISE)
        else:
            tables, deviation = [], 1.0
        evidence = _evidence(counts, tables, groups, codec.names, (labels, features), total, deviation, alone.deviation)
        products = fit(
            evidence,
            components=self.components or components_of(total, deviation),
            iterations=self.iterations,
            rate=self.rate,
            shrinkage=self.shrinkage,
            generator=random(seed),
            progress=lambda step, residual: _show(progress, step, self.iterations, residual),
        )
        return MixtureModel(schema, tuple(groups), products)

    def _grouped(
        self, counts: list[NDArray[np.float64]], schema: Schema, codec: Codec, least: float, total: float
    ) -> list[Groups]:
        labels, _ = _parts(schema)
        each = max(2, int(MOST_LABELS ** (1 / max(1, len(labels)))))
        return [
            grouped(table, column, codec, min(least, total / 2), each if column.name in labels else MOST_GROUPS)
            for table, column in zip(counts, schema.coded, strict=True)
        ]

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """Groups of every column's codes, and the mixture over groups."""
        codec = Codec(schema)
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
        return MixtureModel(schema, groups, products)


@dataclass(frozen=True)
class MixtureModel:
    """The mixture over groups, and which codes a group stands for."""

    schema: Schema
    groups: tuple[Groups, ...]
    products: Products

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """A component, then the label and every column by themselves, then codes of the groups."""
        return self.sample_where(rows, EVERYTHING, seed=seed, first_row=first_row)

    def sample_where(
        self, rows: int, allowed: Allowed, *, seed: int | None = None, first_row: int = 0
    ) -> "pd.DataFrame":
        """A component given the condition, then the rest as ever: groups, their codes and the values of those as the condition
        leaves them."""
        rng, codec = np.random.default_rng(seed), Codec(self.schema)
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
    counts: list[NDArray[np.float64]],
    tables: list[NDArray[np.float64]],
    groups: list[Groups],
    names: tuple[str, ...],
    parts: tuple[list[str], list[str]],
    total: float,
    deviation: float,
    alone: float,
) -> Evidence:
    labels, features = parts
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
    sums = [np.bincount(groups[place].of, weights=counts[place], minlength=groups[place].count) for place in places]
    codes = [np.bincount(groups[place].of, minlength=groups[place].count) for place in places]
    ones = [nearest_distribution(torch.from_numpy(each / total)).float() for each in sums]
    codes += [np.ones(1, np.int64)] * (len(sizes) - len(places))
    noises = torch.from_numpy(np.sqrt(np.concatenate(codes))) * max(alone, LEAST_NOISE)
    return Evidence(
        sizes=sizes,
        tables=torch.from_numpy(held),
        measured=torch.from_numpy(measured),
        precision=total / deviation,
        ones=torch.cat([*ones, torch.ones(width - sum(map(len, ones)))]),
        ones_precision=(total / noises).float(),
    )


def _show(progress: Progress, step: int, steps: int, residual: float) -> None:
    if step % SHOW_EVERY == 0 or step == steps:
        progress(step, steps, {"residual": residual})


GENERATOR = Mixture
