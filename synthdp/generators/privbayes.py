"""PrivBayes: Zhang, Cormode, Procopiuc, Srivastava & Xiao 2017, "PrivBayes: private data release via Bayesian networks".

Greedily, one column after another joins the network together with its parents, by the exponential mechanism on how much the
column depends on them (the paper's score R); then the tables of every column with its parents are measured, and records are drawn
from the conditional distributions that these imply.

As in the paper parent sets are as large as their table stays useful (theta, section 5), at most `degree`. Unlike in the paper,
whose guarantee is a pure epsilon, noise is Gaussian; codes are first grouped by noisy counts of every column alone; and a number of
records is nowhere assumed: the score counts records, and usefulness goes by the noisy total.
"""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.marginals.grouping import Binned, binned, least_option
from synthdp.generators.marginals.junction_tree import Array, Network, cells, conditional, nearest
from synthdp.generators.marginals.network_model import NetworkModel, restored
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Choice, Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, not_negative, option, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Dependence

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

MOST_PARENTS = 1_000_000  # sets of a column's parents that are looked through
Pair = tuple[int, tuple[int, ...]]  # a column and its parents


@dataclass(frozen=True, kw_only=True)
class PrivBayes:
    """Settings of PrivBayes."""

    name: ClassVar[str] = "privbayes"
    traits: ClassVar[Traits] = Traits(counted=True, conditional=True, chooses=True)

    degree: int = option(3, "largest number of parents of a column", whole())
    usefulness: float = option(
        4.0,
        "least ratio of a table's mean count to the standard deviation of its noise: the paper's theta",
        not_negative(),
    )
    share: float = option(0.1, "share of the precision spent on single columns, in (0, 1)", fraction())
    structure: float = option(
        0.3, "share of the remaining precision spent on choosing parents, in (0, 1): the paper's beta", fraction()
    )
    least: float = least_option(2.0)
    candidates: int = option(
        1000,
        "largest number of (column, parents) pairs in one choice; if there are more, some are picked at random",
        whole(),
    )

    def __post_init__(self) -> None:
        check(self)

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """There are not too many sets of parents to look through."""
        others = len(schema.coded) - 1
        if sum(math.comb(others, count) for count in range(1, min(self.degree, others) + 1)) > MOST_PARENTS:
            raise BadInput(
                f"generator.degree={self.degree}: {others + 1} columns have more than {MOST_PARENTS:,} sets of that many parents "
                "or fewer; lower it, or leave columns out of the schema"
            )

    def plan(self, schema: Schema, noise: float) -> Plan:
        """Single columns, a choice for every column but the first, and their tables."""
        columns = len(schema.coded)
        if columns < 2:
            return (Entry(Gaussian(noise)),)
        first, epsilon, second = self.noises(noise, columns)
        return merged((Entry(Gaussian(first)), Entry(Choice(epsilon), columns - 1), Entry(Gaussian(second))))

    def noises(self, noise: float, columns: int) -> tuple[float, float, float]:
        """Noise of the single columns, epsilon of a choice, noise of the tables: rho, 1 / (2 noise^2) or epsilon^2 / 8, adds up to
        that of `noise`."""
        rest = 1 - self.share
        epsilon = 2 * math.sqrt(rest * self.structure / (columns - 1)) / noise if noise > 0 else math.inf
        return noise / math.sqrt(self.share), epsilon, noise / math.sqrt(rest * (1 - self.structure))

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Single columns, the network column by column, tables."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        names = data.codec.names
        first, epsilon, second = self.noises(noise, len(names)) if len(names) > 1 else (noise, 0.0, 0.0)
        alone = data.tables([(name,) for name in names], first)
        seen = binned(data, data.ask(alone), alone, self.least)
        rng = np.random.default_rng(seed)
        chosen: list[Pair] = [(int(rng.integers(len(names))), ())]
        deviation = data.tables([(name,) for name in names[1:]], second).deviation if len(names) > 1 else 0.0
        for step in range(1, len(names)):
            pairs = self._candidates(chosen, seen, deviation, rng)
            cliques = [[names[place] for place in (*parents, column)] for column, parents in pairs]
            chosen.append(pairs[data.choose(cliques, Dependence(), epsilon, seen.of)])
            progress(step, len(names), {})
        measured = [[names[place] for place in (*parents, column)] for column, parents in chosen[1:]]
        tables = data.ask(data.tables(measured, second, seen.of)) if measured else []
        progress(len(names), len(names), {})
        return NetworkModel(schema, seen.groups, _network(chosen, tables, seen))

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The network, and groups of every column's codes."""
        return restored(schema, tensors)

    def _candidates(self, chosen: list[Pair], seen: Binned, deviation: float, rng: np.random.Generator) -> list[Pair]:
        """Every column that is left, with each largest set of parents whose table is useful (the paper's algorithms 4 to 6)."""
        inside = sorted(column for column, _ in chosen)
        most = seen.total / (self.usefulness * deviation) if self.usefulness * deviation > 0 else math.inf
        found: list[Pair] = []
        for column in range(len(seen.sizes)):
            if column in inside:
                continue
            kept: list[tuple[int, ...]] = []
            inner: set[tuple[int, ...]] = set()  # parents that lie in a larger set that is kept
            for count in range(min(self.degree, len(inside)), 0, -1):
                for parents in combinations(inside, count):
                    useful = parents in inner or cells(seen.sizes, (*parents, column)) <= most
                    if useful and parents not in inner:
                        kept.append(parents)
                    if useful:
                        inner.update(combinations(parents, count - 1))
            found += [(column, parents) for parents in kept or [()]]
        if len(found) <= self.candidates:
            return found
        return [found[place] for place in sorted(rng.choice(len(found), self.candidates, replace=False))]


def _network(chosen: list[Pair], tables: list[Array], seen: Binned) -> Network:
    """Conditional distributions of the measured tables; those of the first column are its own."""
    alone = [nearest(counts, seen.total) for counts in seen.columns]
    first = chosen[0][0]
    parents: dict[int, tuple[int, ...]] = {first: ()}
    found = {first: alone[first]}
    for (column, above), table in zip(chosen[1:], tables, strict=True):
        parents[column] = above
        found[column] = conditional(nearest(table, max(1.0, seen.total)), alone[column])
    places = range(len(chosen))
    return Network(
        order=tuple(column for column, _ in chosen),
        parents=tuple(parents[place] for place in places),
        tables=tuple(found[place] for place in places),
    )


GENERATOR = PrivBayes
