"""A mixture of products fitted to the noisy tables of the label with every two columns.

Gaussian questions alone, so that the plan is exactly accounted: first every column by itself, numeric ones on a finer grid too,
which says how codes are grouped (the noise of a table is small against its groups); then each table of (column, column, label). A
mixture of product distributions is fitted to all of them at once (`marginals/products.py`), and records are drawn from it.

Marginal-based generators measure tables and fit a graphical model to them (McKenna, Miklau & Sheldon 2021; McKenna et al. 2022);
the mixture needs no choice of tables, since its tables cost one matrix product however many they are. Only where there are more
pairs than the noise leaves worth asking, each column is asked with the label, and the pairs are those of the columns that tell most
of it; of the others the model knows what they are by themselves and with the label.
"""

import math
import warnings
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, silent
from synthdp.generators.marginals.evidence import LEAST_NOISE, Look, evidence, look, numeric, told, varied
from synthdp.generators.marginals.mixed import MOST_CELLS, MixtureModel, parts, restored
from synthdp.generators.marginals.products import Products, components_of, fit
from synthdp.generators.parts.checks import refuse_ignored, whole
from synthdp.generators.parts.networks import random
from synthdp.options import option
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import Entry, Gaussian, Plan, merged
from synthdp.privacy.sensitive import Sensitive

Array = NDArray[np.float64]
SHOW_EVERY = 25
LEAST_ITERATIONS = 300
MOST_TABLES = 5_000  # of two columns, those of 100 columns
TOLD = 10  # names of columns that a warning lists
WORTH = 200.0  # records of all to one deviation of a cell, below which fewer tables are asked
LEAST_TABLES = 150  # but not fewer than these: many vague tables tell more than few clear ones


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
    label_share: float = option(
        0.1, "share of the precision spent on each column with the label, where not all pairs are asked, in (0, 1)"
    )
    tables: int | None = option(
        None, "most tables of two columns that are asked; default: as many as the noise leaves worth asking"
    )
    least: float = option(
        2.0,
        "noisy records that a group of codes holds at least, in deviations of the noise of their count; 0: no grouping",
    )
    components: int | None = option(
        None, "product distributions; default: what the noise lets be told apart, 100 to 800"
    )
    starts: int = option(2, "fits from different random starts, whose mixtures are averaged")
    iterations: int | None = option(
        None, "steps of Adam of each fit; default: three for every four components, 300 or more"
    )
    rate: float = option(0.1, "learning rate of Adam, falling to zero along a cosine")
    shrinkage: float = option(0.03, "how strongly components are drawn to the single columns' distributions")

    def __post_init__(self) -> None:
        for name in ("share", "grid_share", "label_share"):
            if not 0 < getattr(self, name) < 1:
                raise BadInput(f"generator.{name} must lie in (0, 1), got {getattr(self, name)}")
        if self.share + self.grid_share + self.label_share >= 1:
            raise BadInput("generator.share, grid_share and label_share together must leave something for the tables")
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or not 0 <= self.cells <= MOST_CELLS:
            raise BadInput(f"generator.cells must be a whole number of 0 to {MOST_CELLS:,}, got {self.cells!r}")
        refuse_ignored(self, () if self.cells else ("grid_share",), "cells=0")
        for name in ("starts", "iterations", "components", "tables"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        for name in ("rate", "shrinkage", "least"):
            value = getattr(self, name)
            if not 0 <= value < math.inf or (name == "rate" and value == 0):
                raise BadInput(f"generator.{name} must be a finite number of 0 or more, and rate above 0, got {value}")

    def plan(self, schema: Schema, noise: float) -> Plan:
        """A Gaussian for the single columns, one for their finer grids, one for columns with the label, one for the tables."""
        return merged(Entry(Gaussian(each)) for each in self.noises(schema, noise).values())

    def noises(self, schema: Schema, noise: float) -> dict[str, float]:
        """Noises of what is asked of this schema; their precisions, 1 / noise^2, add up to that of `noise`."""
        labels, features = parts(schema)
        shares = {"columns": self.share}
        if self.cells and numeric(schema):
            shares["grids"] = self.grid_share
        if labels and len(features) > self._columns(schema, noise, None):
            shares["labels"] = self.label_share
        if labels or len(features) > 1:
            shares["tables"] = 1 - sum(shares.values())
        whole = sum(shares.values())
        return {name: noise / math.sqrt(share / whole) for name, share in shares.items()}

    def _columns(self, schema: Schema, noise: float, records: float | None) -> int:
        """Of how many columns all pairs are asked, of so many records: of the declared number of units where that is None."""
        units, most = schema.units if records is None else records, schema.max_records_per_unit if schema.unit else 1
        tables = float(MOST_TABLES)
        if self.tables is not None:
            tables = self.tables
        elif isinstance(units, int | float) and noise > 0:
            tables = min(tables, max(LEAST_TABLES, (units / (WORTH * noise * most)) ** 2))
        return max(2, int((1 + math.sqrt(1 + 8 * tables)) / 2))  # m (m - 1) / 2 tables

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """Single columns, groups, tables, mixture."""
        noise = data.commit(lambda z: self.plan(schema, z), budget)
        noises, paired = (
            self.noises(schema, noise),
            self._columns(schema, noise, None),
        )  # as it was planned: nothing bought
        schema = data.resolve(cells=self.cells)
        seen = look(data, noises, self.least)
        labels, features = parts(schema)
        labelled, label_deviation = self._labelled(data, seen, noises.get("labels"))
        chosen = features
        if len(features) > paired:
            told_of = told(seen, labelled, label_deviation) if labels else varied(seen, features)
            kept = sorted(features, key=lambda name: -told_of[name])[: self._columns(schema, noise, seen.total)]
            chosen = [name for name in features if name in kept]
            _tell([name for name in features if name not in kept], len(features), bool(labels))
        tables, deviation = self._paired(data, seen, chosen, noises.get("tables"))
        found, order = evidence(seen, schema, chosen, tables, deviation, labelled, label_deviation)
        components = self.components or components_of(seen.total, deviation)
        iterations = self.iterations or max(LEAST_ITERATIONS, 3 * components // 4)
        products = fit(
            found,
            components=components,
            starts=self.starts,
            iterations=iterations,
            rate=self.rate,
            shrinkage=self.shrinkage,
            generator=random(seed),
            progress=lambda step, residual: _show(progress, step, self.starts * iterations, residual),
        )
        columns = dict(zip(order, products.columns, strict=True))
        inorder = Products(weights=products.weights, label=products.label, columns=tuple(columns[n] for n in features))
        return MixtureModel(schema, tuple(seen.groups.values()), inorder, data.fine.cells)

    def _labelled(self, data: Sensitive, seen: Look, noise: float | None) -> tuple[dict[str, Array], float]:
        """Noisy tables (groups, labels) of every column with the label, and their deviation; none without a noise."""
        if noise is None:
            return {}, 1.0
        labels, features = parts(data.schema)
        question = data.tables([(name, *labels) for name in features], noise, seen.of, fine=True)
        together = seen.size(labels)
        answers = data.ask(question)
        return {
            name: table.reshape(-1, together) for name, table in zip(features, answers, strict=True)
        }, question.deviation

    def _paired(self, data: Sensitive, seen: Look, chosen: list[str], noise: float | None) -> tuple[list[Array], float]:
        """Noisy tables of every two chosen columns with the label, or of what there is of them, and their deviation."""
        if noise is None:
            return [], 1.0
        labels, _ = parts(data.schema)
        pairs: list[tuple[str, ...]] = [*combinations(chosen, 2)] or [tuple(chosen)]
        question = data.tables([(*pair, *labels) for pair in pairs], noise, seen.of, fine=True)
        return data.ask(question), max(question.deviation, LEAST_NOISE)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """Groups of every column's codes, and the mixture over groups."""
        return restored(schema, tensors)


def _tell(left: list[str], features: int, labels: bool) -> None:
    """Say what the model does not know; which columns these are follows from noisy answers."""
    if left:
        names = ", ".join(map(repr, left[:TOLD])) + (f" and {len(left) - TOLD} more" if len(left) > TOLD else "")
        known = "with the label" if labels else "by themselves"
        warnings.warn(
            f"pairs of {features - len(left)} columns of {features} are asked, which is what noise and generator.tables leave; the "
            f"others are known only {known}: {names}. Leave columns that nobody needs out of the schema, or raise epsilon",
            UserWarning,
            stacklevel=3,
        )


def _show(progress: Progress, step: int, steps: int, residual: float) -> None:
    if step % SHOW_EVERY == 0 or step == steps:
        progress(step, steps, {"residual": residual})


GENERATOR = Mixture
