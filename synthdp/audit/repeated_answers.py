"""White-box audits of answers that have no coordinates: choices, votes, thresholds, grids, single numbers, the best of several runs.

Both tables of a neighbouring pair are sealed once, and then asked the same question again and again. Each answer draws its own noise,
so answers are independent replicas of one attack. A run is one answer or a few, and is judged against what these alone are charged.
(Categories over a threshold and cells of a grid are replicas in the way of the canaries of `vectors`: each has its own units and its
own noise.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor, nn

from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Choice, Entry, Gaussian, Plan, Relation, Selection, merged, scoped
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal import Estimators, GNMax, Gradient, LNMax, Misfit, Sensitive, best_of
from synthdp.seal.charging import Account
from synthdp.seal.gradients.question import Counted
from synthdp.seal.learn import Domain, Grid, Size
from synthdp.seal.marginals import Distance
from synthdp.seal.teachers.vote_aggregation import Confident, Counts, Interactive, Shares
from synthdp.seal.teachers.vote_cost import Cost

DELTA = 1e-5  # of budgets without a bound: the plan is given, not its price
UNIT = "patient"
UNITS = 40
TOGETHER = 1000  # categories of one sealed table
LENGTH = 8  # of the node above a category, in a tree
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
    """`times` questions to two teachers, who agree until the pair's unit makes one of them change its mind."""

    aggregator: str
    noise: float  # scale of LNMax's, deviation of each vote's and each check's, or multiple of a sensitivity (Shares, Cost)
    times: int = 6

    @property
    def name(self) -> str:
        """What is asked."""
        return f"votes, {self.aggregator}, noise {self.noise:g}, times {self.times}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return merged(Entry(event) for event in self._made(self.times).events(self.times))

    def halved(self) -> "Votes":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """For each run how much its answers, as `_read`, speak for the unit."""
        from sklearn.neighbors import KNeighborsClassifier

        nearest = Estimators(estimator=KNeighborsClassifier(1), features=lambda codes: codes[:, :1], target="y")
        columns = {"x": {"kind": "boolean"}, "y": {"kind": "boolean"}}
        together, apart = (runs, 1) if self.aggregator not in BY_BATCH else (1, runs)

        def told(inside: bool) -> Array:
            values = [False] * 4 + [True] * inside
            data = _opened(pd.DataFrame({"x": values, "y": values}), columns, self.plan, runs)
            teachers = data.partition(2, nearest)
            teachers.train()
            queries = np.tile([[1, 0]], (together * self.times, 1))
            asked = self._made(len(queries))
            return _sums([self._read(teachers.ask(queries, asked)) for _ in range(apart)], runs)

        return told(False), told(True)

    def _made(self, queries: int) -> Any:
        found: dict[str, Callable[[], Any]] = {
            "LNMax": lambda: LNMax(1 / self.noise),
            "GNMax": lambda: GNMax(self.noise),
            "Counts": lambda: Counts(self.noise),
            "Shares": lambda: Shares(self.noise),
            "Confident": lambda: Confident(1.5, self.noise, self.noise, queries),
            "Interactive": lambda: Interactive(
                0.5, self.noise, self.noise, queries, np.tile([[1.0, 0.0]], (queries, 1))
            ),
            "Cost": lambda: Cost(sigma=0.5, order=2.0, beta=0.01, noise=self.noise, delta=DELTA),
        }
        return found[self.aggregator]()

    def _read(self, answer: Any) -> Array:
        """Numbers that speak for the unit: votes for its class, a cost that grows when teachers differ, or the log-likelihood ratio of
        silence (or the student's own class) and of either label."""
        if self.aggregator == "Counts":
            lead: Array = answer[:, 1] - answer[:, 0]
            return lead
        if self.aggregator == "Cost":
            return np.array([answer.divergence])
        if self.aggregator in ("Confident", "Interactive"):
            off, ahead = (
                (0.5, -0.5) if self.aggregator == "Confident" else (-0.5, 0.5)
            )  # of the threshold, by the checked peaks
            one, other = (self._chances(*pair) for pair in ((ahead, 0.0), (off, -2.0)))
            ratios: Array = np.log(one / other)[np.where(answer.confirmed, -1, answer.labels)]
            return ratios
        return np.asarray(answer, np.float64)

    def _chances(self, above: float, lead: float) -> Array:
        """Of labels 0 and 1, and of a check that fails, where a peak is so far above the threshold and class 1 leads by so much."""
        passed, second = ndtr(above / self.noise), ndtr(lead / self.noise / math.sqrt(2))
        return np.array([passed * (1 - second), passed * second, 1 - passed])


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Which categories enough units hold. The pair's unit holds `records` categories that lack one unit to the threshold; with `codes`,
    "learned" or "public", each has a node of a tree above it that lacks one too."""

    noise: float
    delta: float
    records: int = 1
    codes: str | None = None

    @property
    def name(self) -> str:
        """What is asked."""
        tree = "" if self.codes is None else f" of a tree of {self.codes} codes"
        return f"thresholds{tree}, noise {self.noise:g}, delta {self.delta:g}{_of(self.records)}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return scoped(map(Entry, self._asked(["k"]).events), relation="add_remove", unit=_unit(self.records))

    def _asked(self, names: list[str]) -> Domain:
        if self.codes is None:
            return Domain("held", self.noise, self.delta, self.records)
        tree = Tree(prefix=(LENGTH,), codes="learn" if self.codes == "learned" else tuple(names))
        return Domain("held", self.noise, self.delta, self.records * 2, tree)

    def halved(self) -> "Thresholds":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """How many of each unit's categories passed."""
        return _side_by_side(self._passed, runs, TOGETHER // self.records // 2)

    def _passed(self, inside: NDArray[np.bool_]) -> Array:
        categories = np.arange(len(inside) * self.records)
        names = np.array([f"k{category:07}x" for category in categories])
        question = self._asked(list(names))
        others = max(0, round(question.threshold - PASSING))
        owner = np.repeat(np.arange(len(inside)), self.records)
        held = np.concatenate([np.repeat(categories, others), categories[inside[owner]]])
        units = [
            *(f"o{place}" for place in range(len(categories) * others)),
            *(f"c{unit}" for unit in owner[inside[owner]]),
        ]
        frame = pd.DataFrame({"held": names[held], UNIT: units})
        columns = {"held": {"kind": "categorical", "categories": ["k0"]}}
        passed = _opened(frame, columns, self.plan, 1, records=self.records).ask(question)
        kept = np.isin(names, passed).astype(int)
        if self.codes is not None:
            kept += np.isin([name[:-1] for name in names], passed)
        return _sums(kept, len(inside))


@dataclass(frozen=True, kw_only=True)
class Grids:
    """Counts on a public grid. The records of the pair's unit lie in a cell of its own, or else in the cell before it."""

    noise: float
    records: int = 1
    relation: Relation = "add_remove"

    @property
    def name(self) -> str:
        """What is asked."""
        return f"grid, noise {self.noise:g}{_of(self.records, self.relation)}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return scoped((Entry(Gaussian(self.noise)),), relation=self.relation, unit=_unit(self.records))

    def halved(self) -> "Grids":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """The count of each unit's own cell, less that of the cell before it where the unit may lie there."""
        return _side_by_side(self._counted, runs, TOGETHER // 2)

    def _counted(self, inside: NDArray[np.bool_]) -> Array:
        replaced = self.relation == "replace_one"
        own = np.repeat(np.flatnonzero(inside | replaced), self.records)
        frame = pd.DataFrame({"x": 2.0 * own + inside[own], UNIT: [f"c{place}" for place in own]})
        columns = {"x": {"kind": "continuous", "bounds": [0, 1]}}
        question = Grid("x", tuple(map(float, range(2 * len(inside) + 1))), self.noise, self.records)
        counts = _opened(frame, columns, self.plan, 1, self.relation, self.records).ask(question).reshape(-1, 2)
        found: Array = counts[:, 1] - counts[:, 0] if replaced else counts[:, 1]
        return found


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """An answer that is read as one number, which the pair's unit moves by 1 and the noise by `noise`."""

    noise: float
    question: str = "size"

    @property
    def name(self) -> str:
        """What is asked."""
        return f"{self.question}, noise {self.noise:g}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return merged(Entry(event) for event in self._asked.events)

    def halved(self) -> "Numbers":
        """The same at half the noise."""
        return replace(self, noise=self.noise / 2)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """What was said."""
        read = NUMBERS[self.question][1]

        def told(inside: int) -> Array:
            data = _opened(pd.DataFrame({"x": [False] * UNITS + [True] * inside}), BOOLEAN, self.plan, runs)
            data.resolve()
            return np.array([read(data.ask(self._asked)) for _ in range(runs)])

        return told(0), told(1)

    @property
    def _asked(self) -> Any:
        return NUMBERS[self.question][0](self.noise)


def _distance(noise: float) -> Distance:
    """To a table without a unit: how many there are."""
    return Distance(((0,),), (2,), (np.zeros(2),), noise)


def _turned(noise: float) -> Gradient:
    """One microbatch, whose mean gradient the pair's unit turns round."""
    return Gradient(nn.Linear(1, 1, bias=False), _pulling(-1.0), CLIP, noise, microbatches=1)


def _counted(noise: float) -> Counted:
    """A gradient that the pair's unit alone has, beyond the clip; together as precise as one question of `noise`."""
    each = noise * math.sqrt(2)
    return Counted(Gradient(nn.Linear(1, 1, bias=False), _pulling(0.0), CLIP, each), each / 2)


def _pulling(others: float) -> Callable[[nn.Module, Tensor], Tensor]:
    def loss(module: nn.Module, codes: Tensor) -> Tensor:
        values: Tensor = module(torch.where(codes[:, :1] == 1, FAR, others))
        return values.squeeze(1)

    return loss


def _of_counted(answer: Any) -> float:
    """The gradient in units of its clip, and how many units beyond those that were there lie beyond it."""
    sums, within = answer
    return (float(sums["weight"]) / CLIP + UNITS - 2 * float(within)) / 2


CLIP, FAR = 0.5, 1e3  # of a gradient, and the length of that of the pair's unit
BOOLEAN = {"x": {"kind": "boolean"}}
BY_BATCH = ("Shares", "Cost")  # aggregators that are charged for a batch of queries as a whole
NUMBERS: dict[str, tuple[Callable[[float], Any], Callable[[Any], float]]] = {  # question -> how it is asked, and read
    "size": (Size, float),
    "distance": (_distance, float),
    "gradient of a microbatch": (_turned, lambda answer: float(answer["weight"]) / (2 * CLIP)),
    "gradient with a count": (_counted, _of_counted),
}


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


def _side_by_side(ask: Callable[[NDArray[np.bool_]], Array], runs: int, most: int) -> tuple[Array, Array]:
    """Scores of `runs` replicas without their unit and with it, of at most `most` pairs in one table."""
    found: list[tuple[Array, Array]] = []
    for start in range(0, runs, most):
        inside = np.arange(2 * min(most, runs - start)) % 2 == 1
        scores = ask(inside)
        found.append((scores[~inside], scores[inside]))
    without, with_ = zip(*found, strict=True)
    return np.concatenate(without), np.concatenate(with_)


def _unit(records: int) -> str:
    return UNIT if records > 1 else RECORD


def _of(records: int, relation: Relation = "add_remove") -> str:
    several = f", records {records}" if records > 1 else ""
    return several + (f", {relation}" if relation != "add_remove" else "")


def _units(number: int, plan: Plan, runs: int) -> Sensitive:
    """So many units, of which nothing else is known."""
    return _opened(pd.DataFrame({"x": [False] * number}), BOOLEAN, plan, runs)


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
