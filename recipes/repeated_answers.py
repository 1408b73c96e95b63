"""White-box audits of answers that have no coordinates: choices, votes, thresholds, grids, single numbers, the best of several runs.

Both tables of a neighbouring pair are sealed once, and then asked the same question again and again. Each answer draws its own noise,
so answers are independent replicas of one attack. A run is one answer or a few, and is judged against what these alone are charged.
(Categories over a threshold and cells of a grid are replicas in the way of the canaries of `vectors`: each has its own units and its
own noise.)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import binom, norm
from torch import Tensor, nn
from white_box import Noisy, side_by_side

from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import (
    RECORD,
    Capped,
    Choice,
    Entry,
    Event,
    Gaussian,
    Plan,
    Relation,
    Sampled,
    Selection,
    merged,
    scoped,
)
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal import Estimators, GNMax, Gradient, LNMax, Misfit, Safe, Sensitive, best_of
from synthdp.seal.charging import Account
from synthdp.seal.gradients.question import Counted
from synthdp.seal.learn import Domain, Grid, Size
from synthdp.seal.marginals import Distance
from synthdp.seal.teachers.vote_aggregation import Confident, Counts, Interactive, Shares

DELTA = 1e-5  # of budgets without a bound: the plan is given, not its price
UNIT = "patient"
UNITS = 40
TOGETHER = 1000  # categories of one sealed table
LENGTH = 8  # of the node above a category, in a tree
PASSING = 0.5  # how far the units of a category fall short of the threshold

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """`times` choices between two columns by the exponential mechanism, in `phases` loops where these are 2 or more, or `capped`: under a
    cap, which is charged. The pair's unit speaks for the one that is behind, by log-odds of `behind`."""

    epsilon: float
    behind: float = 2.0
    times: int = 4
    records: int = 1
    relation: Relation = "add_remove"
    phases: int = 1
    capped: bool = False

    def __post_init__(self) -> None:
        if self.capped and self.phases > 1:
            raise BadInput("a cap holds what is asked outside of loops")

    @property
    def name(self) -> str:
        """What is asked."""
        rest = _of(self.records, self.relation, self.phases) + (", under a cap" if self.capped else "")
        return f"choices, epsilon {self.epsilon:g}, times {self.times}{rest}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        plan: Plan = (Entry(Choice(self.epsilon), self.times),)
        if self.capped:
            plan = (Entry(Capped("zcdp", self.times * self.epsilon**2 / 8)),)  # what they are under bounded range
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
            places = _places(data, [Choice(self.epsilon)], runs * self.times, self.phases)
            said = (
                self._capped(data, score, runs) if self.capped else (_choice(data, data, score, self) for _ in places)
            )
            return _sums(list(said), runs, self.phases)

        return chosen(False), chosen(True)

    def _capped(self, data: Sensitive, score: Misfit, runs: int) -> Iterator[bool]:
        """A cap for each run; the last choice takes what is left of it."""
        (entry,) = self.plan
        for _ in range(runs):
            with data.cap(cast("Capped", entry.event)) as safe:
                for _ in range(self.times):
                    yield _choice(safe, data, score, self)


def _choice(asked: Sensitive | Safe, data: Sensitive, score: Misfit, attack: Choices) -> bool:
    """Whether the one that is behind was chosen."""
    return asked.ask(data.choice([("one",), ("other",)], score, attack.epsilon)) == 0


@dataclass(frozen=True, kw_only=True)
class Votes(Noisy):
    """`times` questions to teachers, in `phases` loops where these are 2 or more. Two teachers agree until the pair's unit makes one
    of them change its mind. Of ranks there is one teacher alone, whose order the unit turns round.

    Shares are charged for a batch: there `times` is the size of a batch, and each loop has one.
    """

    aggregator: str
    noise: (
        float  # scale of LNMax's, deviation of each check's and of each vote's, or multiple of a sensitivity (Shares)
    )
    times: int = 6
    records: int = 1
    relation: Relation = "add_remove"
    phases: int = 1

    @property
    def name(self) -> str:
        """What is asked."""
        rest = _of(self.records, self.relation, self.phases)
        return f"votes, {self.aggregator}, noise {self.noise:g}, times {self.times}{rest}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        batch, asked = (self.times, self.phases) if self._by_batch else (1, self.times)
        events = [*self._made(batch).events(batch)] * asked
        return scoped(merged(map(Entry, events)), relation=self.relation, unit=_unit(self.records))

    def sides(self, runs: int) -> tuple[Array, Array]:
        """For each run how much its answers, as `_read`, speak for the unit."""
        batch, asked = (self.times, runs * self.phases) if self._by_batch else (runs, self.times)
        ranked = self.aggregator == "ranks"
        queries = np.zeros((batch, 2), np.int32)
        queries[:, 0] = np.arange(batch) if ranked else 1

        def told(inside: bool) -> Array:
            data = _opened(*self._table(inside), self.plan, runs, self.relation, self.records)
            teachers = data.partition(1 if ranked else 2, _line(self.times) if ranked else _nearest())
            teachers.train()
            aggregator = self._made(batch)
            places = _places(data, aggregator.events(batch), asked, self.phases)
            found = [self._read(teachers.ask(queries, aggregator)) for _ in places]
            return _sums(found, runs, self.phases) if self._by_batch else np.sum(found, axis=0)

        return told(False), told(True)

    @property
    def _by_batch(self) -> bool:
        return self.aggregator in BY_BATCH

    def _table(self, inside: bool) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Others, and the pair's unit, which is left out or says the contrary on the other side."""
        ranked, replaced = self.aggregator == "ranks", self.relation == "replace_one"
        last = self.times - 1
        own = [("far" if ranked else "1", not inside if ranked else inside)] * (inside or replaced)
        units = [*([("0", False), (str(last), True)] * 4 if ranked else [("0", False)] * OTHERS), *own]
        frame = pd.DataFrame(units, columns=["x", "y"]).loc[np.repeat(np.arange(len(units)), self.records)]
        frame[UNIT] = [f"p{place}" for place in frame.index]
        kinds = [*(str(place) for place in range(max(2, self.times))), "far"]
        return frame, {"x": {"kind": "categorical", "categories": kinds}, "y": {"kind": "boolean"}}

    def _made(self, queries: int) -> Any:
        vote = self.noise * math.sqrt(2)
        check = vote / math.sqrt(2)  # to the last bit the event of a vote: a loop holds one event
        found: dict[str, Callable[[], Any]] = {
            "LNMax": lambda: LNMax(1 / self.noise),
            "GNMax": lambda: GNMax(self.noise),
            "Counts": lambda: Counts(self.noise),
            "Shares": lambda: Shares(self.noise),
            "ranks": lambda: Shares(self.noise, "ranks"),
            "margins": lambda: Shares(self.noise, "margins", CLIP),
            "Confident": lambda: Confident(1.5, check, vote, queries),
            "Interactive": lambda: Interactive(0.5, check, vote, queries, np.tile([[1.0, 0.0]], (queries, 1))),
        }
        return found[self.aggregator]()

    def _read(self, answer: Any) -> Array:
        """What speaks for the unit, (queries,) or of a batch one number: votes for its class, ranks that fall, or the
        log-likelihood ratio of silence (or the student's own class) and of either label."""
        if self.aggregator == "Counts":
            lead: Array = answer[:, 1] - answer[:, 0]
            return lead
        if self.aggregator in ("Confident", "Interactive"):
            off, ahead = (
                (0.5, -0.5) if self.aggregator == "Confident" else (-0.5, 0.5)
            )  # of the threshold, by the checked peaks
            one, other = (self._chances(*pair) for pair in ((ahead, 0.0), (off, -2.0)))
            ratios: Array = np.log(one / other)[np.where(answer.confirmed, -1, answer.labels)]
            return ratios
        if self.aggregator == "ranks":
            return np.array(answer @ (np.arange(self.times)[::-1] - (self.times - 1) / 2))
        found: Array = np.asarray(answer, np.float64)
        return found.sum() if self._by_batch else found

    def _chances(self, above: float, lead: float) -> Array:
        """Of labels 0 and 1, and of a check that fails, where a peak is so far above the threshold and class 1 leads by so much."""
        passed, second = ndtr(above / self.noise), ndtr(lead / self.noise / 2)
        return np.array([passed * (1 - second), passed * second, 1 - passed])


def _nearest() -> Estimators:
    """Whoever has the pair's unit answers as it does, whatever the others are."""
    from sklearn.neighbors import KNeighborsClassifier

    return Estimators(estimator=KNeighborsClassifier(1), features=lambda codes: codes[:, :1] == 1, target="y")


def _line(last: int) -> Estimators:
    """Scores along a line, whose slope has the sign that a unit far out gives it."""
    from sklearn.linear_model import RidgeClassifier

    features = lambda codes: np.where(codes[:, :1] == last, FAR, codes[:, :1])  # noqa: E731 - as a generator hands them in
    return Estimators(estimator=RidgeClassifier(), features=features, target="y")


@dataclass(frozen=True, kw_only=True)
class Thresholds(Noisy):
    """Which categories enough units hold, asked in each of `phases` loops. The pair's unit holds `records` categories that lack one
    unit to the threshold, or under replace_one else as many others; with `codes`, "learned" or "public", each has a node of a tree
    above it that lacks one too."""

    noise: float
    delta: float
    records: int = 1
    relation: Relation = "add_remove"
    phases: int = 1
    codes: str | None = None

    def __post_init__(self) -> None:
        if self.codes is not None and self.relation == "replace_one":
            raise BadInput("a tree of codes is asked about one unit more")

    @property
    def name(self) -> str:
        """What is asked."""
        tree = "" if self.codes is None else f" of a tree of {self.codes} codes"
        rest = _of(self.records, self.relation, self.phases)
        return f"thresholds{tree}, noise {self.noise:g}, delta {self.delta:g}{rest}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        plan = [Entry(event, self.phases) for event in self._asked(["k"]).events]
        return scoped(plan, relation=self.relation, unit=_unit(self.records))

    def _asked(self, names: list[str]) -> Domain:
        if self.codes is None:
            return Domain("held", self.noise, self.delta, self.records)
        tree = Tree(prefix=(LENGTH,), codes="learn" if self.codes == "learned" else tuple(names))
        return Domain("held", self.noise, self.delta, self.records * 2, tree)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """How many of each unit's categories passed, less those of the others that it may hold."""
        return side_by_side(self._passed, runs, TOGETHER // self.records // 2)

    def _passed(self, inside: NDArray[np.bool_]) -> Array:
        replaced = self.relation == "replace_one"
        kinds = 2 if replaced else 1  # of categories: those that a unit holds when it is out, and when it is in
        names = np.array([f"k{category:07}x" for category in range(len(inside) * kinds * self.records)])
        of_unit = np.arange(len(names)).reshape(len(inside), kinds, self.records)
        question = self._asked(list(names))
        others = max(0, round(question.threshold - PASSING))
        there = np.flatnonzero(inside | replaced)
        own = of_unit[there, inside[there].astype(int) if replaced else 0]
        held = np.concatenate([np.repeat(np.arange(len(names)), others), own.ravel()])
        units = [
            *(f"o{place}" for place in range(len(names) * others)),
            *(f"c{unit}" for unit in np.repeat(there, self.records)),
        ]
        frame = pd.DataFrame({"held": names[held], UNIT: units})
        columns = {"held": {"kind": "categorical", "categories": ["k0"]}}
        data = _opened(frame, columns, self.plan, 1, self.relation, self.records)
        kept = np.zeros(len(names))
        for _ in _places(data, question.events, self.phases, self.phases):
            passed = _above(question, data.ask(question))
            kept += np.isin(names, passed)
            if self.codes is not None:
                kept += np.isin([name[:-1] for name in names], passed)
        counts = kept.reshape(len(inside), kinds, self.records).sum(axis=2)
        found: Array = counts[:, 1] - counts[:, 0] if replaced else counts[:, 0]
        return found


def _above(question: Domain, answer: Any) -> tuple[str, ...]:
    """What passed; of a public tree each node by itself, since what a fit keeps of it depends on all nodes together."""
    if isinstance(answer, tuple) or question.tree is None:
        return question.passed(answer)
    return tuple(node for node, count in zip(question.tree.nodes, answer, strict=True) if count > question.threshold)


@dataclass(frozen=True, kw_only=True)
class Grids(Noisy):
    """Counts on a public grid, asked in each of `phases` loops. The records of the pair's unit lie in a cell of its own, or else in the
    cell before it."""

    noise: float
    records: int = 1
    relation: Relation = "add_remove"
    phases: int = 1

    @property
    def name(self) -> str:
        """What is asked."""
        return f"grid, noise {self.noise:g}{_of(self.records, self.relation, self.phases)}"

    @property
    def plan(self) -> Plan:
        """Of one run."""
        return scoped((Entry(Gaussian(self.noise), self.phases),), relation=self.relation, unit=_unit(self.records))

    def sides(self, runs: int) -> tuple[Array, Array]:
        """The count of each unit's own cell, less that of the cell before it where the unit may lie there."""
        return side_by_side(self._counted, runs, TOGETHER // 2)

    def _counted(self, inside: NDArray[np.bool_]) -> Array:
        replaced = self.relation == "replace_one"
        own = np.repeat(np.flatnonzero(inside | replaced), self.records)
        frame = pd.DataFrame({"x": 2.0 * own + inside[own], UNIT: [f"c{place}" for place in own]})
        columns = {"x": {"kind": "continuous", "bounds": [0, 1]}}
        question = Grid("x", tuple(map(float, range(2 * len(inside) + 1))), self.noise, self.records)
        data = _opened(frame, columns, self.plan, 1, self.relation, self.records)
        said = [data.ask(question) for _ in _places(data, question.events, self.phases, self.phases)]
        counts = np.sum(said, axis=0).reshape(-1, 2)
        found: Array = counts[:, 1] - counts[:, 0] if replaced else counts[:, 1]
        return found


@dataclass(frozen=True, kw_only=True)
class Numbers(Noisy):
    """An answer that is read as one number, which the pair's unit moves by 1 and the noise by `noise`; `steps` times in each of
    `phases` loops, of a Poisson sample of `rate` or of all units where that is 1.

    Under replace_one the unit is, or is one of the others. With `coins` the adversary holds it as likely that answers at the same
    place of two loops are of one sample as that they are not.
    """

    noise: float
    question: str = "size"
    records: int = 1
    relation: Relation = "add_remove"
    rate: float = 1.0
    steps: int = 1
    phases: int = 1
    coins: bool = False

    @property
    def name(self) -> str:
        """What is asked."""
        sampled = f", rate {self.rate:g}, steps {self.steps}" if self.rate < 1 else ""
        supposed = ", supposed coins" if self.coins else ""
        return (
            f"{self.question}, noise {self.noise:g}{_of(self.records, self.relation, self.phases)}{sampled}{supposed}"
        )

    @property
    def plan(self) -> Plan:
        """Of one run."""
        events, count = tuple(self._asked.events), self.steps * self.phases
        entries = [Entry(event, count) for event in events]
        plan = merged(entries) if self.rate == 1 else (Entry(Sampled(self.rate, events), count),)
        return scoped(plan, relation=self.relation, unit=_unit(self.records))

    def sides(self, runs: int) -> tuple[Array, Array]:
        """A score for each run: the log-likelihood ratio of its answers, or what it is a monotone function of."""
        others = UNITS if self.rate == 1 else self._number.sampled

        def told(inside: bool) -> Array:
            units = [False] * others + [inside] * (inside or self.relation == "replace_one")
            frame = pd.DataFrame({"x": np.repeat(np.array(units, np.bool_), self.records)})
            frame[UNIT] = [f"p{place // self.records}" for place in frame.index]
            data = _opened(frame, BOOLEAN, self.plan, runs, self.relation, self.records)
            data.resolve()
            said = [self._number.read(answer) for answer in self._said(data, runs)]
            return self._evidence(np.reshape(said, (self.phases, runs, self.steps)))

        return told(False), told(True)

    def _said(self, data: Sensitive, runs: int) -> Iterator[Any]:
        """All answers, loop by loop."""
        asked, each = self._asked, runs * self.steps
        if self.rate == 1:
            for _ in _places(data, asked.events, each * self.phases, self.phases):
                yield data.ask(asked)
            return
        for _ in range(self.phases):
            for _ in data.steps(Sampled(self.rate, tuple(asked.events)), each, dict):
                with data.sample(self.rate) as batch:
                    answer = batch.ask(asked)
                yield answer

    def _evidence(self, said: Array) -> Array:
        """Scores, (runs,), of answers (phases, runs, steps)."""
        if self.rate == 1:
            return _sums(said, said.shape[1], self.phases)
        apart = self._apart(said.transpose(1, 0, 2).reshape(1, said.shape[1], -1))
        if self.coins:
            with_, without = (np.logaddexp(*both) for both in zip(apart, self._apart(said), strict=True))
        else:
            with_, without = apart
        found: Array = with_ - without
        return found

    def _apart(self, said: Array) -> tuple[Array, Array]:
        """Log-likelihoods, (runs,), with the unit and without it, where each step has one sample for all loops."""
        with_, without = (self._likely(said, self._number.counted + more).sum(axis=1) for more in (1, 0))
        return with_, without

    def _likely(self, said: Array, units: int) -> Array:
        """Log-likelihoods, (runs, steps), of answers (loops of one sample, runs, steps) that count each of so many units by a coin."""
        number, drawn = self._number, np.arange(units + 1)
        means = (number.base + drawn)[:, None, None, None]
        exact, cut = norm.logpdf(said, means, self.noise), norm.logcdf(said, means, self.noise)
        chances = binom.logpmf(drawn, units, self.rate)[:, None, None]
        found: Array = logsumexp(np.where(said <= number.least, cut, exact).sum(axis=1) + chances, axis=0)
        return found

    @property
    def _number(self) -> "Number":
        return NUMBERS[self.question]

    @property
    def _asked(self) -> Any:
        return self._number.ask(self)


@dataclass(frozen=True, kw_only=True)
class Number:
    """How a number is asked, and read. Of a sample of `sampled` other units `counted` move the answer as the pair's unit does; without
    any it is `base`, and it is never below `least`."""

    ask: Callable[[Numbers], Any]
    read: Callable[[Any], float]
    sampled: int = 0
    counted: int = 0
    base: float = 0.0
    least: float = -math.inf


def _distance(attack: Numbers) -> Distance:
    """To a table without a unit: how many there are. Of another unit: to one where all are alike, which it is not."""
    if attack.relation == "replace_one":
        return Distance(((0,),), (2,), (np.array([UNITS + 1.0, 0.0]),), attack.noise)
    return Distance(((0,),), (2,), (np.zeros(2),), attack.noise)


def _turned(attack: Numbers) -> Gradient:
    """One microbatch, whose mean gradient the pair's unit turns round."""
    return Gradient(nn.Linear(1, 1, bias=False), _pulling(-1.0), CLIP, attack.noise, microbatches=1)


def _counted(attack: Numbers) -> Counted:
    """A gradient that the pair's unit alone has, beyond the clip; together as precise as one question of `noise`."""
    each = attack.noise * math.sqrt(2)
    return Counted(Gradient(nn.Linear(1, 1, bias=False), _pulling(0.0), CLIP, each), each / 2)


def _batches_counted(attack: Numbers) -> Counted:
    """One microbatch, which the pair's unit turns round and carries beyond the clip; the same precision."""
    each = attack.noise * math.sqrt(2)
    module, pulling = nn.Linear(1, 1, bias=False), _pulling(-WITHIN * CLIP / attack.records)
    return Counted(Gradient(module, pulling, CLIP, each, microbatches=1), each)


def _pulling(others: float) -> Callable[[nn.Module, Tensor], Tensor]:
    def loss(module: nn.Module, codes: Tensor) -> Tensor:
        values: Tensor = module(torch.where(codes[:, :1] == 1, FAR, others))
        return values.squeeze(1)

    return loss


def _of_counted(answer: Any) -> float:
    """The gradient in units of its clip, and how many units lie beyond it; those within, which are always as many, are a constant."""
    sums, within = answer
    return (float(sums["weight"]) / CLIP - 2 * float(within)) / 2


def _of_batches(answer: Any) -> float:
    """The gradient in units of two clips, and whether the microbatch lies beyond one."""
    sums, within = answer
    return (float(sums["weight"]) / (2 * CLIP) - float(within)) / 2


CLIP, FAR = 0.5, 1e3  # of a gradient, and the length of that of the pair's unit
WITHIN = (
    0.95  # of the clip: the mean gradient of the others; from here on their count is a ramp down to that of one beyond
)
BOOLEAN = {"x": {"kind": "boolean"}}
OTHERS = 24  # units beside the pair's: a side has one partition for all of its runs, and with few of them a teacher may have none
BY_BATCH = ("Shares", "ranks", "margins")  # aggregators that are charged for a batch of queries as a whole
NUMBERS = {
    "size": Number(ask=lambda attack: Size(attack.noise), read=float, sampled=2, counted=2, least=1.0),
    "distance": Number(ask=_distance, read=float),
    "gradient of a microbatch": Number(
        ask=_turned, read=lambda answer: float(answer["weight"]) / (2 * CLIP), sampled=UNITS, base=-0.5
    ),
    "gradient with a count": Number(ask=_counted, read=_of_counted),
    "gradient with a count of microbatches": Number(ask=_batches_counted, read=_of_batches, sampled=UNITS, base=-0.5),
}


@dataclass(frozen=True, kw_only=True)
class Selections(Noisy):
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


def _places(data: Sensitive, events: Sequence[Event], asked: int, phases: int) -> Iterator[int]:
    """So many places for a question of these events: in `phases` loops, or outside of any where that is 1."""
    if phases == 1:
        yield from range(asked)
        return
    (event,) = set(events)
    for _ in range(phases):
        yield from data.steps(event, asked // phases, dict, times=len(events))


def _sums(answers: Any, runs: int, phases: int = 1) -> Array:
    """Of each run's answers, (runs,): a run has as many in each loop."""
    sums: Array = np.reshape(answers, (phases, runs, -1)).sum(axis=(0, 2)).astype(np.float64)
    return sums


def _unit(records: int) -> str:
    return UNIT if records > 1 else RECORD


def _of(records: int, relation: Relation, phases: int) -> str:
    several = f", records {records}" if records > 1 else ""
    return several + (f", {relation}" if relation != "add_remove" else "") + (f", loops {phases}" if phases > 1 else "")


def _units(number: int, plan: Plan, runs: int) -> Sensitive:
    """So many units; nothing else is known of them."""
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
