"""Independent noisy marginals: each column on its own. The floor that every other generator must beat.

One stacked Gaussian query over all one-way tables (law 18); columns are then drawn independently.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.generators import (
    Model,
    Progress,
    Tensors,
    Traits,
    check_distributions,
    check_tensors,
    probabilities,
    silent,
)
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.schema.where import EVERYTHING, Allowed

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.seal import Sensitive


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Noisy one-way marginals; it has no settings."""

    name: ClassVar[str] = "independent"
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"), counted=True, conditional=True)

    def validate(self, schema: Schema, budget: Budget) -> None:
        """Whatever the schema: there is nothing to refuse."""

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One Gaussian query over all columns together."""
        return (Entry(Gaussian(noise)),)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:  # noqa: ARG002
        """Ask once, normalise, done."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        tables = data.marginals([(name,) for name in data.codec.names], noise)
        progress(1, 1, {})
        return IndependentModel(schema, tuple(probabilities(table) for table in tables))

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """One array of probabilities per column."""
        sizes = Codec(schema).sizes
        check_tensors(tensors, {f"column.{place}": (size,) for place, size in enumerate(sizes)})
        check_distributions(tensors, tensors)
        return IndependentModel(schema, tuple(tensors[f"column.{place}"] for place in range(len(sizes))))


@dataclass(frozen=True)
class IndependentModel:
    """One categorical distribution per modelled column."""

    schema: Schema
    columns: tuple[NDArray[np.float64], ...]

    @property
    def codec(self) -> Codec:
        """The codec of the distributions' codes."""
        return Codec(self.schema)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """Every column drawn on its own."""
        return self.sample_where(rows, EVERYTHING, seed=seed, first_row=first_row)

    def sample_where(
        self, rows: int, allowed: Allowed, *, seed: int | None = None, first_row: int = 0
    ) -> "pd.DataFrame":
        """A condition on one column says nothing of the others."""
        rng, codec = np.random.default_rng(seed), self.codec
        codes = np.empty((rows, len(self.columns)), np.int32)
        for place, (name, column) in enumerate(zip(codec.names, self.columns, strict=True)):
            kept = column if name not in allowed.shares else probabilities(column) * allowed.shares[name]
            if name in allowed.shares and not kept.any():
                raise allowed.impossible()
            codes[:, place] = rng.choice(len(column), size=rows, p=probabilities(kept))
        return codec.decode(codes, rng, first_row=first_row, within=allowed.within)

    def tensors(self) -> Tensors:
        """The probabilities."""
        return {f"column.{place}": column for place, column in enumerate(self.columns)}


GENERATOR = Independent
