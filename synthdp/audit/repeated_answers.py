"""White-box audits of answers that have no coordinates: choices, votes, thresholds, sizes, the best of several runs.

Both tables of a neighbouring pair are sealed once, and then asked the same question again and again. Each answer draws its own noise,
so answers are independent replicas of one attack. A run is one answer or a few, and is judged against what these alone are charged.
(Categories over a threshold are replicas in the way of the canaries of `vectors`: each has its own units and its own noise.)
"""

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.ledger.budget import Budget, Relation
from synthdp.ledger.events import RECORD, Choice, Entry, Gaussian, Plan, Selection, Threshold, merged, scoped
from synthdp.schema.schema import Schema
from synthdp.seal import Estimators, GNMax, LNMax, Misfit, Sensitive, best_of
from synthdp.seal.charging import Account
from synthdp.seal.learn import Domain, Size

DELTA = 1e-5  # of budgets without a bound: the plan is given, not its price
UNIT = "patient"
UNITS = 40
TOGETHER = 1000  # categories of one sealed table
PASSING = 0.5  # how far the units of a category fall short of the threshold

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """`times` choices between two columns by the exponential mechanism; the pair's unit speaks for the one that is behind, by log-odds
    of `behind`."""

    epsilon: float
    behind: float = 2.0
    times: int = 4
    records: int = 1
    relation: Relation = "add_remove"

    @property
    def name(self) -> str:
        """What is asked."""
        return f"choices, epsilon {self.epsilon:g}, times {self.times}{_of(self.records, self.relation)}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        plan = (Entry(Choice(self.epsilon), self.times),)
        return scoped(plan, relation=self.relation, unit=_unit(self.records))

    def halved(self) -> "Choices":
        """At half the noise: twice the epsilon."""
        return replace(self, epsilon=2 * self.epsilon)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """How often the one that is behind was chosen in each run."""
        held = UNITS * self.records
        moved = 2 * self.records if self.relation == "replace_one" else self.records
        offset = 2.0 * held - self.behind * 2 * moved / self.epsilon
        score = Misfit(
            expected=(np.array([held, 0.0]), np.array([0.0, held])), weights=(1.0, 1.0), offsets=(0.0, offset)
        )
        columns = {"one": {"kind": "boolean"}, "other": {"kind": "boolean"}}

        def chosen(inside: bool) -> Array:
            values = [False] * (UNITS - 1 if inside and self.relation == "replace_one" else UNITS) + [True] * inside
            frame = pd.DataFrame({"one": values, "other": values}).loc[np.repeat(np.arange(len(values)), self.records)]
            frame[UNIT] = [f"p{place}" for place in frame.index]
            data = _opened(frame, columns, self.plan, runs, self.relation, self.records)
            data.resolve()
            found = [data.choose([("one",), ("other",)], score, self.epsilon) == 0 for _ in range(runs * self.times)]
            return _sums(found, runs)

        return chosen(False), chosen(True)


@dataclass(frozen=True, kw_only=True)
class Votes:
    """`times` noisy plurality votes of two teachers, one of which the pair's unit makes change its mind."""

    aggregator: str
    noise: float  # scale of LNMax's noise, deviation of GNMax's
    times: int = 6

    @property
    def name(self) -> str:
        """What is asked."""
        return f"votes, {self.aggregator}, noise {self.noise:g}, times {self.times}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return merged(Entry(event) for event in self._made.events(self.times))

    def halved(self) -> "Votes":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """How many labels of each run are those of the unit's teacher."""
        from sklearn.neighbors import KNeighborsClassifier

        nearest = Estimators(estimator=KNeighborsClassifier(1), features=lambda codes: codes[:, :1], target="y")
        columns = {"x": {"kind": "boolean"}, "y": {"kind": "boolean"}}

        def told(inside: bool) -> Array:
            values = [False] * 4 + [True] * inside
            data = _opened(pd.DataFrame({"x": values, "y": values}), columns, self.plan, runs)
            teachers = data.partition(2, nearest)
            teachers.train()
            labels = teachers.ask(np.tile([[1, 0]], (runs * self.times, 1)), self._made)
            return _sums(labels, runs)

        return told(False), told(True)

    @property
    def _made(self) -> LNMax | GNMax:
        return LNMax(1 / self.noise) if self.aggregator == "LNMax" else GNMax(self.noise)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Which categories enough units hold. The pair's unit holds `records` categories that lack one unit to the threshold."""

    noise: float
    delta: float
    records: int = 1

    @property
    def name(self) -> str:
        """What is asked."""
        return f"thresholds, noise {self.noise:g}, delta {self.delta:g}{_of(self.records)}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return scoped(
            (Entry(Threshold(self.noise, self.delta, self.records)),), relation="add_remove", unit=_unit(self.records)
        )

    def halved(self) -> "Thresholds":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """How many of each unit's categories passed."""
        found: list[tuple[Array, Array]] = []
        for start in range(0, runs, TOGETHER // self.records // 2):
            inside = np.arange(2 * min(TOGETHER // self.records // 2, runs - start)) % 2 == 1
            passed = self._passed(inside)
            found.append((passed[~inside], passed[inside]))
        without, with_ = zip(*found, strict=True)
        return np.concatenate(without), np.concatenate(with_)

    def _passed(self, inside: NDArray[np.bool_]) -> Array:
        question = Domain("held", self.noise, self.delta, self.records)
        others = max(0, round(question.threshold - PASSING))
        categories = np.arange(len(inside) * self.records)
        owner = np.repeat(np.arange(len(inside)), self.records)
        held = np.concatenate([np.repeat(categories, others), categories[inside[owner]]])
        units = [
            *(f"o{place}" for place in range(len(categories) * others)),
            *(f"c{unit}" for unit in owner[inside[owner]]),
        ]
        frame = pd.DataFrame({"held": [f"k{category}" for category in held], UNIT: units})
        columns = {"held": {"kind": "categorical", "categories": ["k0"]}}
        passed = _opened(frame, columns, self.plan, 1, records=self.records).ask(question)
        kept = np.isin([f"k{category}" for category in categories], passed)
        return _sums(kept, len(inside))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many units there are."""

    noise: float

    @property
    def name(self) -> str:
        """What is asked."""
        return f"size, noise {self.noise:g}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return (Entry(Gaussian(self.noise)),)

    def halved(self) -> "Sizes":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """What was said."""

        def told(units: int) -> Array:
            data = _units(units, self.plan, runs)
            return np.array([data.ask(Size(self.noise)) for _ in range(runs)])

        return told(UNITS), told(UNITS + 1)


@dataclass(frozen=True, kw_only=True)
class Selections:
    """The best of several runs, `mean` of them on average. A run says how many units there are, and the more the better its score."""

    noise: float
    mean: float = 5.0

    @property
    def name(self) -> str:
        """What is asked."""
        return f"selection, noise {self.noise:g}, mean runs {self.mean:g}"

    @property
    def plan(self) -> Plan:
        """Of one selection."""
        return (Entry(Selection(self.mean, 1.0, ((Entry(Gaussian(self.noise)),),))),)

    def halved(self) -> "Selections":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """What the best run of each selection said."""
        budget = Budget(math.inf, DELTA)
        terms = [best_of.Terms(noise=self.noise, score=(), budget=budget)]

        def run(place: int, door: Sensitive) -> tuple[float, float]:  # noqa: ARG001
            door.commit(lambda z: (Entry(Gaussian(z)),))
            said = door.ask(Size(self.noise))
            return said, said

        def told(units: int) -> Array:
            data, event = _units(units, self.plan, runs), cast("Selection", self.plan[0].event)
            return np.array([data.select(event, terms, run) for _ in range(runs)])

        return told(UNITS), told(UNITS + 1)


def _sums(answers: Any, runs: int) -> Array:
    """Of each run's answers, (runs,)."""
    sums: Array = np.reshape(answers, (runs, -1)).sum(axis=1).astype(np.float64)
    return sums


def _unit(records: int) -> str:
    return UNIT if records > 1 else RECORD


def _of(records: int, relation: Relation = "add_remove") -> str:
    several = f", records {records}" if records > 1 else ""
    return several + (f", {relation}" if relation != "add_remove" else "")


def _units(number: int, plan: Plan, runs: int) -> Sensitive:
    """So many units, of which nothing else is known."""
    return _opened(pd.DataFrame({"x": [False] * number}), {"x": {"kind": "boolean"}}, plan, runs)


def _opened(
    frame: pd.DataFrame,
    columns: dict[str, Any],
    plan: Plan,
    runs: int,
    relation: Relation = "add_remove",
    records: int = 1,
) -> Sensitive:
    """The records behind the door, where `runs` times the plan may be asked."""
    declared: dict[str, Any] = {"units": UNITS, "columns": columns}
    if records > 1:
        declared |= {"unit": UNIT, "max_records_per_unit": records}
        declared["columns"] = {**columns, UNIT: {"kind": "identifier"}}
    schema, budget = Schema.from_dict(declared), Budget(math.inf, DELTA, relation)
    data = Sensitive(frame, schema, Account(budget, unit=schema.unit or RECORD))
    data.commit(lambda _: tuple(Entry(entry.event, entry.count * runs) for entry in plan))
    return data
