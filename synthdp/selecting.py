"""Choosing a generator or its settings on private data, charged for (Papernot & Steinke 2022): the best of K hidden runs.

Looking at several fits of private records and keeping the best one is a use of the records (law 26). Here the number of
runs K is drawn from a geometric distribution and told to nobody, each run fits one of the candidates, drawn at random, and
measures its samples by a noisy distance to the records' tables, and only the best run comes out, its score not. The price does
not depend on the number of candidates (at epsilon 1, delta 1e-5 and three runs on average each run may spend epsilon 0.56); the
ledger holds one event for all of it.
"""

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp import accounting, generators
from synthdp.api import Release, settings_of
from synthdp.budgets import AccountFile, entered, warn_of_no_account, warn_of_others
from synthdp.errors import BadInput
from synthdp.fitness import counts
from synthdp.generators import Generator, Model
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Entry, Gaussian, Plan, Selection, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.report.statement import state
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive
from synthdp.seal.best_of import Terms
from synthdp.seal.charging import Account

GEOMETRIC = 1.0  # shape of the distribution of K, which then is 1 or more
SCORE_SHARE = 0.1  # of a run's precision (1 / noise^2, were all of it Gaussian) for its score
LEAST_ROWS, MOST_ROWS = 1000, 50_000  # synthetic rows that are scored
MOST_UNITS = 2**29  # of which a distance can be scored
MOST_PAIRS, MOST_CELLS = 300, 100_000  # tables of two columns that are scored, and cells of one
CLOSE = 1e-6  # relative, to the price of a run

Candidate = Generator | str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What the candidates would ask, as a function of one noise: a run costs as much as one Gaussian answer of it."""

    generators: tuple[Generator, ...]
    schema: Schema
    budget: Budget
    mean_runs: float
    _found: dict[float, tuple[Selection, tuple[Terms, ...]]] = field(default_factory=dict, repr=False, compare=False)

    def at(self, noise: float) -> tuple[Selection, tuple[Terms, ...]]:
        """The event of the selection, and each candidate's terms."""
        if noise not in self._found:
            each = self.price(noise)
            score = (Entry(Gaussian(noise / math.sqrt(SCORE_SHARE), relation=self.budget.relation)),)
            terms = tuple(
                Terms(noise=self._calibrated(one, score, each), score=score, budget=each) for one in self.generators
            )
            plans = tuple(
                (*one.plan(self.schema, its.noise), *its.score) for one, its in zip(self.generators, terms, strict=True)
            )
            event = Selection(self.mean_runs, GEOMETRIC, tuple(self._scoped(plan) for plan in plans))
            self._found[noise] = event, terms
        return self._found[noise]

    def price(self, noise: float) -> Budget:
        """What one run may spend."""
        if noise == 0:
            return Budget(math.inf, self.budget.delta, self.budget.relation)
        cost = self._cost((Entry(Gaussian(noise)),))
        if cost == 0:
            raise BadInput("the budget is too small for a selection: raise epsilon or delta, or lower mean_runs")
        return Budget(cost, self.budget.delta, self.budget.relation)

    def _calibrated(self, one: Generator, score: Plan, each: Budget) -> float:
        """The least noise at which a candidate's run keeps its price, found more exactly than `calibrate` has it, so that the
        price of the whole falls smoothly."""
        from scipy.optimize import brentq

        def plan(noise: float) -> Plan:
            return self._scoped((*one.plan(self.schema, noise), *score))

        found = accounting.calibrate(plan, each, "rdp")
        if found == 0:
            return 0.0

        def above(log_noise: float) -> float:
            return math.log(self._cost(plan(math.exp(log_noise))) / each.epsilon) + CLOSE

        high, low = math.log(found), math.log(found) - 0.01
        if above(high) >= 0 or above(low) <= 0:
            return found
        refined = math.exp(brentq(above, low, high, xtol=CLOSE / 10))
        return refined if self._cost(plan(refined)) <= each.epsilon else found

    def _cost(self, plan: Plan) -> float:
        return accounting.epsilon(self._scoped(plan), self.budget.delta, "rdp")

    def _scoped(self, plan: Plan) -> Plan:
        return scoped(plan, relation=self.budget.relation, unit=self.schema.unit or RECORD)


def select(
    candidates: Sequence[Candidate],
    frame: pd.DataFrame,
    schema: Schema,
    budget: Budget,
    *,
    mean_runs: float = 5.0,
    seed: int | None = None,
    invalid: str = "error",
    ledger: Path | str | None = None,
    account: AccountFile | Path | str | None = None,
    trust: str | None = None,
    edited_after: Sequence[str] = (),
) -> Release:
    """The best of K fits, where K has the geometric distribution of mean `mean_runs` and each fit draws one of `candidates`:
    generators, names, or (name, settings).

    All of it, scores included, keeps `budget`: each run gets the same part of it. A candidate may be run several times, or not
    at all: give more `mean_runs` than candidates where each should have its chance. The score is the mean over pairs
    of columns of the L1 distance between records and samples, every unit weighing one, measured with noise inside the seal;
    the schema must say how many `units` there are (or `learn`: what is to learn is bought once, before the runs).
    `seed`, `invalid`, `ledger`, `account`, `trust` and `edited_after` are as in `Synthesizer.fit`; the account is charged before
    the first run, and a selection that is stopped stays charged and starts anew.

    The statement and the ledger hold one event, `Selection`; neither K, nor how the other runs fared, nor the score is kept or
    shown. How long it took tells about how many runs there were, which the statement says is not covered. Raises `BadInput`
    for candidates that cannot be held to a share of the budget, and as `Synthesizer.fit` does.
    """
    offer = offered(candidates, schema, budget, mean_runs=mean_runs, trust=trust)
    made = offer.generators
    schema.check_declared()
    generators.warn_of_large_delta(budget, schema)
    generators.check_seed(seed)
    warn_of_others()
    unit = schema.unit or RECORD
    about = {"candidates": [[one.name, settings_of(one)] for one in made], "mean_runs": float(mean_runs)}
    book = Ledger(None if ledger is None else Path(ledger))
    entry_of = entered(
        account, frame, budget, unit, ledger=book, generator="select", settings=about, rehearsal=seed is not None
    )
    with contextlib.closing(book), entry_of as entry:
        valid = schema.validate(frame, invalid=invalid)
        entry.check_table()
        generators.check_units(schema, budget, valid, invalid)
        if account is None and seed is None:
            warn_of_no_account()
        charged = Account(budget, book, unit=unit, enter=entry.enter)
        data = Sensitive(valid, schema, charged, seed=seed)
        noise = data.commit(lambda z: (Entry(offer.at(z)[0]),))
        place, model = best(data, offer, noise, seed)
        charged.settle()
        statement = state(
            ledger=book,
            budget=budget,
            declared=schema,
            resolved=model.schema,
            generator=made[place].name,
            settings=settings_of(made[place]),
            package=generators.origin(made[place]),
            rehearsal=data.rehearsal,
            account=entry.statement,
            invalid=invalid,
            edited_after=edited_after,
        )
    return Release(made[place], model, statement, book)


def offered(
    candidates: Sequence[Candidate],
    schema: Schema,
    budget: Budget,
    *,
    mean_runs: float = 5.0,
    trust: str | None = None,
) -> Offer:
    """What a selection would ask. Raises `BadInput` for candidates, or a budget, that `select` cannot use; opens and
    charges nothing."""
    made = tuple(_made(candidate, schema, budget) for candidate in candidates)
    _check(made, schema, budget, mean_runs)
    generators.check_trust(made, trust)
    offer = Offer(generators=made, schema=schema, budget=budget, mean_runs=float(mean_runs))
    generators.afford(lambda noise: (Entry(offer.at(noise)[0]),), schema, budget)
    return offer


def best(data: Sensitive, offer: Offer, noise: float, seed: int | None) -> tuple[int, Model]:
    """Run the selection that was committed at `noise`: the place of the best run's candidate, and its model."""
    event, terms = offer.at(noise)
    seeds = itertools.repeat(None) if seed is None else _seeds(seed)
    cliques = pairs(data.resolve(), data.codec.names, data.codec.sizes)

    def run(place: int, door: Sensitive) -> tuple[tuple[int, Model], float]:
        own = next(seeds)
        model = offer.generators[place].fit(door, seed=own)
        expected = tables(model, door, cliques, own)
        return (place, model), -door.distance(cliques, expected, noise / math.sqrt(SCORE_SHARE))

    return data.select(event, terms, run)


def tables(
    model: Model, data: Sensitive, cliques: Sequence[Sequence[str]], seed: int | None
) -> list[NDArray[np.float64]]:
    """The tables of a model's samples, in numbers of units."""
    codec, units = data.codec, data.schema.units
    units = min(units, MOST_UNITS) if isinstance(units, int) else 1  # bought ones may be anything
    codes = codec.encode(model.sample(min(max(units, LEAST_ROWS), MOST_ROWS), seed=seed))
    return [units * (table / len(codes)) for table in counts(codes, codec, cliques)]


def pairs(schema: Schema, names: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """The tables that are scored, a function of public facts: every pair of columns, those with a target first, up to a limit;
    single columns where there is no pair."""
    size = dict(zip(names, sizes, strict=True))
    found = [pair for pair in itertools.combinations(names, 2) if size[pair[0]] * size[pair[1]] <= MOST_CELLS]
    found.sort(key=lambda pair: not set(pair) & set(schema.targets))
    return [*found[:MOST_PAIRS]] or [(name,) for name in names]


def _made(candidate: Candidate, schema: Schema, budget: Budget) -> Generator:
    if isinstance(candidate, str):
        candidate = generators.make(candidate, {})
    elif isinstance(candidate, tuple):
        name, settings = candidate
        candidate = generators.make(name, settings)
    generators.check(candidate, schema, budget)
    return candidate


def _check(made: Sequence[Generator], schema: Schema, budget: Budget, mean_runs: float) -> None:
    """Refuse, before anything is charged, what a selection cannot do."""
    if not made:
        raise BadInput("candidates must name one generator or more")
    if isinstance(mean_runs, bool) or not isinstance(mean_runs, int | float) or not 1 <= mean_runs < math.inf:
        raise BadInput(f"mean_runs must be a finite number of 1 or more, got {mean_runs!r}")
    if schema.tables:
        raise BadInput("a selection has scores for one table, and the schema describes linked ones: fit one generator")
    if schema.image is not None:
        raise BadInput("a selection has scores for tables only, and the schema has an image column: fit one generator")
    if schema.units is None:
        raise BadInput(
            "a selection scores samples against the number of units: declare `units` in the schema, or let it be learned"
        )
    if isinstance(schema.units, int) and schema.units > MOST_UNITS:
        raise BadInput(
            f"a selection scores samples against at most {MOST_UNITS:,} units, but the schema declares {schema.units:,}"
        )
    for one in made:
        if one.plan(schema, 1.0) == one.plan(schema, 2.0):
            raise BadInput(
                f"candidate {one.name} fixes its own noise, so it cannot be fitted with a share of the budget: leave that setting out"
            )
    if math.isinf(budget.epsilon):
        raise BadInput(
            "budget.epsilon is inf, so the selection would hide nothing; fit the candidates one by one and compare them"
        )


def _seeds(seed: int) -> "itertools.chain[int]":
    """A seed for each run of a rehearsal."""
    return itertools.chain.from_iterable(
        [int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0] >> np.uint64(2))]
        for number in itertools.count()
    )
