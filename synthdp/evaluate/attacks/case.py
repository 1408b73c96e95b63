"""What every attack is given: whose records are attacked, what the attacker has, and what is promised."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.attacks.distances import Points, points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.attacks.bounds import Claim
    from synthdp.evaluate.tables import Axis, Table

# Below so many rows of any kind a rate says nothing.
MIN_ROWS = 30
# Attacked records per side: an interval of +- 2 points. The synthetic rows are (nearly) all searched, or copies would be missed.
MOST_ATTACKED, MOST_REFERENCE, MOST_SYNTHETIC, MOST_REAL = 2_000, 10_000, 50_000, 20_000
# Without targets or sensitive columns, so many categorical columns have their values guessed.
MOST_SECRETS = 3
STREAM = 23


@dataclass(frozen=True, kw_only=True)
class Figure:
    """value against baseline, what an attacker without the training records gets. better: `lower` and `chance` are a concern
    where the interval lies above the baseline, `higher` where it lies below."""

    label: str
    value: float
    interval: tuple[float, float]
    baseline: float
    bound: float | None = None
    better: Literal["lower", "higher", "chance"] = "lower"


@dataclass(frozen=True, kw_only=True)
class Found:
    """An attack's figures, whose intervals hold together at 95 %, and what was done and counted, in words."""

    figures: tuple[Figure, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Why an attack cannot be made on these tables."""

    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """The tables after subsampling by fixed streams.

    members: training rows; outsiders: as many held-out rows; reference: hold-out rows that are not attacked; train and test:
    equally many of both, for what looks at the release as a whole. All share the synthetic rows' axes.
    """

    synthetic: Table
    members: Table
    outsiders: Table
    reference: Table
    train: Table
    test: Table
    secrets: tuple[str, ...]
    claim: Claim | None
    jobs: int

    @cached_property
    def made(self) -> Points:
        return self.points(self.synthetic)

    def points(self, table: Table) -> Points:
        """The rows of a table with the case's axes, as points of its distance."""
        return points(table, self.synthetic)

    @staticmethod
    def stream(name: str) -> np.random.Generator:
        """A stream of an attack's own, the same in every run."""
        return stream(name)


def stream(name: str) -> np.random.Generator:
    return np.random.default_rng((STREAM, zlib.crc32(name.encode())))


def refusal(synthetic: Table, train: Table, test: Table) -> str | None:
    """Why no attack can be made, or None."""
    if not train.axes:
        return "there is no column"
    least = (("synthetic", synthetic, MIN_ROWS), ("real training", train, MIN_ROWS), ("real test", test, 2 * MIN_ROWS))
    for role, table, rows in least:
        if table.rows < rows:
            return f"there are {table.rows} {role} rows; at least {rows} are needed"
    real = np.concatenate([train.values, test.values])
    if not any(_varies(column) for column in real.T):
        return "no column varies among the real rows"
    return None


def case_of(
    synthetic: Table, train: Table, test: Table, *, secrets: Sequence[str], claim: Claim | None, jobs: int
) -> Case:
    """Draws who is attacked. The tables are such that `refusal` has nothing against them."""
    order, held = (stream(name).permutation(part.rows) for name, part in (("train", train), ("test", test)))
    attacked = min(train.rows, test.rows // 2, MOST_ATTACKED)
    both = min(train.rows, test.rows, MOST_REAL)
    return Case(
        synthetic=synthetic.take(np.sort(stream("synthetic").permutation(synthetic.rows)[:MOST_SYNTHETIC])),
        members=train.take(order[:attacked]),
        outsiders=test.take(held[:attacked]),
        reference=test.take(held[attacked:][:MOST_REFERENCE]),
        train=train.take(order[:both]),
        test=test.take(held[:both]),
        secrets=tuple(secrets),
        claim=claim,
        jobs=jobs,
    )


def secrets_of(axes: Sequence[Axis], targets: Sequence[str], sensitive: Sequence[str]) -> tuple[str, ...]:
    """Columns whose values are guessed: targets, then sensitive ones; else the first three with classes."""
    names = [axis.name for axis in axes]
    wanted = list(dict.fromkeys([*targets, *sensitive]))
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise BadInput(
            f"sensitive: {unknown[0]!r} is not a column that the attacks can read; name one of the schema's."
        )
    return tuple(wanted or [axis.name for axis in axes if axis.is_classes][:MOST_SECRETS])


def _varies(column: NDArray[np.float64]) -> bool:
    known = column[~np.isnan(column)]
    return bool(len(known)) and (len(known) < len(column) or bool((known != known[0]).any()))
