"""MST: McKenna, Miklau & Sheldon 2021, "Winning the NIST contest: a scalable and general approach to differentially private synthetic
data".

A third of the precision each, as in the paper: noisy counts of every column alone; pairs of columns that span them all, a tree,
chosen by the exponential mechanism where the pair's table lies far from what the columns say alone; and the tables of these
pairs. A graphical model is fitted to all of it, and records are drawn from it.

Where the paper merges values of small noisy counts into one, codes here are grouped (`marginals/grouping.py`: bins join their
neighbours), and pairs are counted by groups. A choice compares at most 2,000 pairs, drawn anew each time, so that the cost of all
choices grows with the number of columns and not with its cube.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.marginals.grouping import Binned, binned, least_option
from synthdp.generators.marginals.inference import Measured, check_engine, engine_option, fitter
from synthdp.generators.marginals.junction_tree import nearest
from synthdp.generators.marginals.network_model import NetworkModel, restored
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Choice, Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, option, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Misfit

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

MOST_PAIRS = 2_000  # of one choice: all pairs of 63 columns
Pair = tuple[int, int]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class MST:
    """Settings of MST."""

    name: ClassVar[str] = "mst"
    traits: ClassVar[Traits] = Traits(counted=True, conditional=True, chooses=True)

    share: float = option(1 / 3, "share of the precision spent on single columns, in (0, 1)", fraction())
    structure: float = option(1 / 3, "share of the precision spent on choosing pairs, in (0, 1)", fraction())
    least: float = least_option(3.0)
    iterations: int = option(3000, "largest number of mirror descent steps", whole())
    engine: str = engine_option()

    def __post_init__(self) -> None:
        check(self)
        if self.share + self.structure >= 1:
            raise BadInput(
                "the sum of generator.share and generator.structure must be below 1, to leave something for the pairs"
            )

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The engine is there."""
        check_engine(self.engine)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """Single columns, a choice for every pair of the tree, and the pairs."""
        columns = len(schema.coded)
        if columns < 2:
            return (Entry(Gaussian(noise)),)
        first, epsilon, second = self.noises(noise, columns)
        return merged((Entry(Gaussian(first)), Entry(Choice(epsilon), columns - 1), Entry(Gaussian(second))))

    def noises(self, noise: float, columns: int) -> tuple[float, float, float]:
        """Noise of the single columns, epsilon of a choice, noise of the pairs: rho, 1 / (2 noise^2) or epsilon^2 / 8, adds up to
        that of `noise`."""
        epsilon = 2 * math.sqrt(self.structure / (columns - 1)) / noise if noise > 0 else math.inf
        return noise / math.sqrt(self.share), epsilon, noise / math.sqrt(1 - self.share - self.structure)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:  # noqa: ARG002
        """Single columns, the tree pair by pair, the pairs' tables, the model."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        names = data.codec.names
        first, epsilon, second = self.noises(noise, len(names)) if len(names) > 1 else (noise, 0.0, 0.0)
        alone = data.tables([(name,) for name in names], first)
        seen = binned(data, data.ask(alone), alone, self.least)
        tree = spanning(data, seen, epsilon, progress)
        evidence = single(seen)
        if tree:
            question = data.tables([[names[place] for place in pair] for pair in tree], second, seen.of)
            tables = data.ask(question)
            evidence += [
                Measured(clique=pair, table=table, deviation=question.deviation)
                for pair, table in zip(tree, tables, strict=True)
            ]
        fitted = fitter(self.engine)(seen.sizes, evidence, seen.total, iterations=self.iterations)
        progress(len(names), len(names), {})
        return NetworkModel(schema, seen.groups, fitted.network)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The network, and groups of every column's codes."""
        return restored(schema, tensors)


def single(seen: Binned) -> list[Measured]:
    """The noisy columns, as they were measured: a group's count has the noise of all its codes."""
    return [
        Measured(clique=(place,), table=counts, deviation=seen.deviation * math.sqrt(seen.codes(place).mean()))
        for place, counts in enumerate(seen.columns)
    ]


def spanning(data: "Sensitive", seen: Binned, epsilon: float, progress: Progress = silent) -> list[Pair]:
    """Pairs of columns that span them all: one choice after another among the pairs that join two parts (Kruskal 1956, with the
    exponential mechanism in place of the largest: the paper's algorithm 2)."""
    names = data.codec.names
    part = list(range(len(names)))
    alone = [nearest(counts, seen.total) for counts in seen.columns]
    found: list[Pair] = []
    for step in range(1, len(names)):
        apart = [(a, b) for a, b in combinations(range(len(names)), 2) if part[a] != part[b]]
        pairs = compared(apart, MOST_PAIRS, step)
        score = Misfit(
            expected=tuple(seen.total * np.outer(alone[a], alone[b]) for a, b in pairs),
            weights=(1.0,) * len(pairs),
            offsets=(0.0,) * len(pairs),
        )
        a, b = pairs[data.choose([(names[a], names[b]) for a, b in pairs], score, epsilon, seen.of)]
        found.append((a, b))
        part = [part[a] if each == part[b] else each for each in part]
        progress(step, len(names), {})
    return found


def compared(candidates: Sequence[_T], most: int, step: int) -> list[_T]:
    """At most `most` candidates, in their order. If there are more, a random subset is drawn with the public step number as seed, so that
    the cost of one choice is bounded."""
    if len(candidates) <= most:
        return list(candidates)
    drawn = np.random.default_rng(step).choice(len(candidates), most, replace=False)
    return [candidates[place] for place in np.sort(drawn)]


GENERATOR = MST
