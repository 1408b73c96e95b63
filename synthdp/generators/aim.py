"""AIM: McKenna, Mullins, Sheldon & Miklau 2022, "AIM: an adaptive and iterative mechanism for differentially private synthetic data".

Round after round one table is chosen, by the exponential mechanism, that the graphical model fits worst beyond the error that
measuring it would leave (the paper's equation 1); it is measured, the model is fitted to all tables so far, and where it hardly moved,
later rounds measure with less noise (algorithm 4). How many rounds there are, and at which noise, follows from noisy answers, so all
of it runs under a cap of zCDP (law 11); the last round spends what is left.

Two things differ from the paper. Single columns are given a `share` of the budget, since they also say how codes are grouped
(`marginals/grouping.py`); they are no candidates in later rounds, whereas the paper's downward closure includes them. If there are
more than 400 tables, each round compares 400 of them, different ones each time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.marginals.grouping import Binned, binned, least_option
from synthdp.generators.marginals.inference import Fitted, Measured, check_engine, engine_option, fitter
from synthdp.generators.marginals.junction_tree import Array, Clique, marginal, megabytes
from synthdp.generators.marginals.network_model import NetworkModel, restored
from synthdp.generators.mst import compared, single
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Capped, Entry, Plan
from synthdp.options import check, fraction, not_negative, one_of, option, whole
from synthdp.schema.schema import Schema
from synthdp.seal import MOST_OFFSET, Misfit

if TYPE_CHECKING:
    from synthdp.seal import Safe, Sensitive

MOST_CANDIDATES = 20_000  # all pairs and triples of 49 columns
MOST_ROUNDS = 10_000
MOST_COMPARED = 400  # candidates of a round: all pairs of 28 columns
MEASURE = 0.9  # of a round's budget: the paper's alpha
ERROR = math.sqrt(2 / math.pi)  # mean of |N(0, 1)|


@dataclass(frozen=True, kw_only=True)
class AIM:
    """Settings of AIM."""

    name: ClassVar[str] = "aim"
    traits: ClassVar[Traits] = Traits(counted=True, conditional=True, chooses=True)

    workload: str = option(
        "all",
        "tables that the model should get right: all tables of `degree` columns, or those with a target (all, if there is"
        " no target)",
        one_of("all", "target"),
    )
    degree: int = option(2, "columns in each table of the workload; 3 takes longer and needs model_size=40", whole())
    rounds: int | None = option(
        None,
        "number of rounds for which the first noise is chosen; default: 16 per column, as in the paper",
        whole(most=MOST_ROUNDS),
    )
    share: float = option(0.1, "share of the budget spent on single columns, in (0, 1)", fraction())
    least: float = least_option(2.0)
    model_size: float = option(
        8.0,
        "largest size of the model's tables in megabytes; each round may use more of it than the one before",
        not_negative(),
    )
    iterations: int = option(100, "largest number of mirror descent steps in a round", whole())
    last: int = option(1000, "largest number of mirror descent steps after the last round", whole())
    engine: str = engine_option()

    def __post_init__(self) -> None:
        check(self)

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The engine is there, and there are not too many tables."""
        check_engine(self.engine)
        self.candidates(schema)

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One cap, whose bound is the rho of a Gaussian of `noise`."""
        return (Entry(Capped("zcdp", _rho(noise))),)

    def candidates(self, schema: Schema) -> dict[Clique, float]:
        """Tables of two columns and more that may be measured, with their weights: all that lie in a table of the workload; the weight
        is how many columns a table shares with those of the workload, added up."""
        names = [column.name for column in schema.coded]
        targets = {place for place, name in enumerate(names) if name in schema.targets}
        degree = min(self.degree, len(names))
        if sum(math.comb(len(names), size) for size in range(2, degree + 1)) > MOST_CANDIDATES:
            raise BadInput(
                f"generator.degree={self.degree}: {len(names)} columns have more than {MOST_CANDIDATES:,} tables of that many "
                "columns or fewer; lower it, or leave columns out of the schema"
            )
        work = list(combinations(range(len(names)), degree))
        if self.workload == "target" and targets:
            work = [clique for clique in work if targets.intersection(clique)]
        holds = [sum(place in clique for clique in work) for place in range(len(names))]
        inside = {
            part for clique in work for count in range(2, len(clique) + 1) for part in combinations(clique, count)
        }
        return {clique: float(sum(holds[place] for place in clique)) for clique in sorted(inside)}

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:  # noqa: ARG002
        """Single columns, rounds, the model."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        candidates = self.candidates(schema)
        moves = 2.0 if data.relation == "replace_one" else 1.0
        with data.cap(Capped("zcdp", _rho(noise))) as safe:
            names = data.codec.names
            alone = data.tables(
                [(name,) for name in names], _noise(self.share * _rho(noise), moves) if candidates else moves * noise
            )
            seen = binned(data, safe.ask(alone), alone, self.least)
            rounds = _Rounds(self, data, safe, seen, candidates, moves)
            rounds.run(_rho(noise), progress)
        return NetworkModel(schema, seen.groups, rounds.fitted(self.last).network)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The network, and groups of every column's codes."""
        return restored(schema, tensors)


class _Rounds:
    """What has been measured, and the model of it."""

    def __init__(
        self,
        settings: AIM,
        data: "Sensitive",
        safe: "Safe",
        seen: Binned,
        candidates: dict[Clique, float],
        moves: float,
    ) -> None:
        self._settings, self._data, self._safe, self._seen = settings, data, safe, seen
        self._candidates, self._moves = candidates, moves
        self._evidence = single(seen)
        self._model = self._fitted(settings.iterations, None)

    def fitted(self, iterations: int) -> Fitted:
        """The model of all tables so far, from where the last one ended."""
        return self._fitted(iterations, self._model.potentials)

    def _fitted(self, iterations: int, start: Mapping[Clique, Array] | None) -> Fitted:
        return fitter(self._settings.engine)(
            self._seen.sizes, self._evidence, self._seen.total, iterations=iterations, start=start
        )

    def run(self, rho: float, progress: Progress) -> None:
        """Until the cap is spent, or, without one, until every table was measured (algorithm 1 of the paper)."""
        count = self._settings.rounds or 16 * len(self._seen.sizes)
        each = (1 - self._settings.share) * rho / count
        step = 0
        while self._candidates and (
            self._safe.left > 1e-9 * rho if math.isfinite(rho) else step < len(self._candidates)
        ):
            if math.isfinite(rho) and self._safe.left < 2 * each:
                each = self._safe.left * (1 - 1e-9)
            used = 1 - self._safe.left / rho if math.isfinite(rho) else 1.0
            each = 4 * each if self._round(step, each, used) else each
            step += 1
            progress(step, max(step, count), {"spent": used})

    def _round(self, step: int, rho: float, used: float) -> bool:
        """Choose a table, measure it, fit; whether that moved the model by less than the noise, so that less noise is due."""
        names = self._data.codec.names
        cliques = self._small_enough(compared(list(self._candidates), MOST_COMPARED, step), used)
        question = self._data.tables([[names[place] for place in cliques[0]]], _noise(MEASURE * rho, self._moves))
        error = ERROR * question.deviation
        expected = [self._seen.total * marginal(self._model.network, clique) for clique in cliques]
        score = Misfit(
            expected=tuple(expected),
            weights=tuple(self._candidates[clique] for clique in cliques),
            offsets=tuple(min(error * table.size, MOST_OFFSET) for table in expected),
        )
        named = [[names[place] for place in clique] for clique in cliques]
        choice = self._data.choice(named, score, math.sqrt(8 * (1 - MEASURE) * rho), self._seen.of)
        place = self._safe.ask(choice)
        if self._safe.left < MEASURE * rho:
            return False  # a fit that was stopped lost this table: what is left is for another round, or there is none
        asked = self._data.tables([named[place]], question.noise, self._seen.of)
        table = self._safe.ask(asked)[0]
        self._evidence.append(Measured(clique=cliques[place], table=table, deviation=asked.deviation))
        self._model = self.fitted(self._settings.iterations)
        moved = np.abs(self._seen.total * marginal(self._model.network, cliques[place]) - expected[place]).sum()
        return bool(moved <= error * table.size)

    def _small_enough(self, cliques: list[Clique], used: float) -> list[Clique]:
        """Tables with which the model stays within its size, in proportion to the budget used; the smallest one where there is none."""
        sizes, held = self._seen.sizes, [each.clique for each in self._evidence]
        size = {clique: megabytes(sizes, [*held, clique]) for clique in cliques}
        kept = [clique for clique in size if size[clique] <= used * self._settings.model_size]
        return kept or [min(size, key=lambda clique: size[clique])]


def _rho(noise: float) -> float:
    return 1 / (2 * noise * noise) if noise > 0 else math.inf


def _noise(rho: float, moves: float) -> float:
    """The noise of a Gaussian that costs rho, where this many units' contributions change."""
    return moves / math.sqrt(2 * rho)


GENERATOR = AIM
