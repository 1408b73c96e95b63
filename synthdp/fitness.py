"""Figures of fitness that may be released: noisy tables of the records beside those of the samples, bought with budget.

A part of the budget, fixed before the first answer (law 11), pays for one question after the training: the tables of
every column, and of every column with each target, with noise. What is done with the answer is post-processing. The noise moves
a plain distance upwards (absolute values of noise do not cancel), so what is stated is an interval.

The derivation: let a table have K cells, counts n_c of n records, shares q_c of the samples, and answers y_c = n_c + N(0,
s^2), independent. The distance is T = sum |d_c| / (2 n) with d_c = n_c - n q_c. F = sum |y_c - n q_c| is a convex function of
the noise that moves by at most sqrt(K) of its length. So F passes its mean by z s sqrt(K) with probability at most
P(N(0, 1) > z) (Borell 1975 for the median, which is at most the mean for a convex function: Kwapien 1994), and falls t s sqrt(K)
below it with probability at most exp(-t^2 / 2) (Boucheron, Lugosi & Massart 2013, theorem 5.6). The mean is s sum h(|d_c| / s),
where h(u) = E|u + N(0, 1)| is convex and grows. By Jensen's inequality sum |d_c| <= K s h^-1(mean / (K s)); and since h - h(0) is
superadditive, sum |d_c| >= s h^-1(mean / s - (K - 1) h(0)). With n estimated from all totals as N within +-e, F lies between its
extremes over those n (it is convex in n), and 1 / n between 1 / (N + e) and 1 / (N - e). The three errors have 1, 2 and 2 % of
probability.

The mean of J distances is the same with all their cells together. That the largest distance is no larger than the largest upper
end needs no correction (the table that has it is not chosen by the noise); the lower ends are corrected for J.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, ndtri

from synthdp import accounting
from synthdp.errors import BadInput
from synthdp.generators import Model
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Entry, Gaussian, Plan, scoped
from synthdp.report.fitness_words import CONFIDENCE, Compared, Fitness, Group, Interval
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

MOST_SHARE = 0.5
ROWS, ROWS_OF_IMAGES = 100_000, 2_000  # synthetic records that are compared
CHUNK = 50_000  # sampled at a time
MOST_CELLS = 100_000  # of a table with a target; larger ones are left out
TOTAL, BELOW, ABOVE = 0.01, 0.02, 0.02  # probabilities that the number of records, a lower end, an upper end is wrong
GRID = 1 / 128  # an answer is rounded to a grid of at most 1/64 deviation: it moves by at most this many
BASE = math.sqrt(2 / math.pi)  # h(0)
LOST = "The noisy answer was charged, but the fit was stopped before the answer was written down. It is not asked a second time."

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Purchase:
    """A part of the budget that is set aside: `share` of its precision, which comes to one Gaussian answer of noise `noise`."""

    share: float
    noise: float

    @classmethod
    def of(cls, share: float, schema: Schema, budget: Budget) -> "Purchase":
        """Precision is 1 / noise^2, and all of it is that of the one Gaussian answer that the whole budget could buy. Public: a
        function of the arguments. Raises `BadInput` for a share that is none, and where there is no table to compare."""
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= MOST_SHARE:
            raise BadInput(f"fitness must be a share of the budget above 0 and up to {MOST_SHARE}, got {share!r}")
        if not _names(schema):
            raise BadInput("fitness compares columns other than the image, and this schema has none: leave fitness out")

        def plan(noise: float) -> Plan:
            return scoped((Entry(Gaussian(noise)),), relation=budget.relation, unit=schema.unit or RECORD)

        return cls(share=float(share), noise=accounting.calibrate(plan, budget) / math.sqrt(share))

    @property
    def plan(self) -> Plan:
        """What `measure` asks, to be committed beside the generator's plan."""
        return (Entry(Gaussian(self.noise)),)


def measure(data: "Sensitive", model: Model, bought: Purchase, *, seed: int | None = None) -> Fitness:
    """Ask once, last of all, and compare. A resumed fit whose answer was lost says so and does not ask again."""
    schema, codec = data.resolve(), data.codec
    rows = ROWS if schema.image is None else ROWS_OF_IMAGES
    about: dict[str, Any] = {"share": bought.share, "noise": bought.noise, "rows": rows, "confidence": CONFIDENCE}
    if data.account.left(Gaussian(bought.noise)) == 0:
        return Fitness(**about, reason=LOST)
    single, pairs = cliques(schema, codec)
    question = data.tables((*single, *pairs), bought.noise)
    answers = [answer.ravel() for answer in data.ask(question)]
    expected = [table.ravel() for table in sampled(model, codec, (*single, *pairs), rows, seed)]
    noisy = Noisy.of(answers, question.deviation)
    groups = [
        _group(names, answers[part], expected[part], noisy) if names else None
        for names, part in ((single, slice(0, len(single))), (pairs, slice(len(single), None)))
    ]
    return Fitness(**about, records=noisy.interval, single=groups[0], with_target=groups[1])


def cliques(schema: Schema, codec: Codec) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The tables of one column, and those of a column and a target: a function of public facts."""
    size = dict(zip(codec.names, codec.sizes, strict=True))
    names = _names(schema)
    found = (
        (name, target)
        for target, name in itertools.product(schema.targets, names)
        if name != target and size[name] * size[target] <= MOST_CELLS
    )
    pairs = {frozenset(pair): pair for pair in found}
    return [(name,) for name in names], list(pairs.values())


def _names(schema: Schema) -> list[str]:
    return [column.name for column in schema.coded if not isinstance(column, Image)]


def sampled(model: Model, codec: Codec, wanted: Sequence[Sequence[str]], rows: int, seed: int | None) -> list[Array]:
    """Tables of shares of `rows` synthetic records."""
    starts = range(0, rows, CHUNK)
    seeds = np.random.SeedSequence(seed).generate_state(len(starts), np.uint64)
    found = [np.zeros(())] * len(wanted)
    for start, part in zip(starts, seeds, strict=True):
        frame = model.sample(min(CHUNK, rows - start), seed=int(part), first_row=start)
        found = [
            before + table for before, table in zip(found, counts(codec.encode(frame), codec, wanted), strict=True)
        ]
    return [table / rows for table in found]


def counts(codes: NDArray[Any], codec: Codec, wanted: Sequence[Sequence[str]]) -> list[Array]:
    """Contingency tables of codes, one axis per column of the clique."""
    result = []
    for clique in wanted:
        places = [codec.names.index(name) for name in clique]
        shape = tuple(codec.sizes[place] for place in places)
        cells = np.ravel_multi_index(tuple(codes[:, place].astype(np.int64) for place in places), shape)
        result.append(np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64))
    return result


@dataclass(frozen=True, kw_only=True)
class Noisy:
    """What is known of the answers as a whole: the deviation of a cell, and the number of records +- `spread`."""

    deviation: float
    records: float
    spread: float

    @classmethod
    def of(cls, answers: Sequence[Array], deviation: float) -> "Noisy":
        """Every table's total is a noisy number of records, of variance K s^2: their weighted mean."""
        weights = np.array([1 / len(table) for table in answers])
        totals = np.array([table.sum() for table in answers])
        random = -ndtri(TOTAL / 2) * deviation / math.sqrt(weights.sum())
        rounding = GRID * deviation * len(answers) / weights.sum()
        return cls(
            deviation=deviation, records=float(weights @ totals / weights.sum()), spread=float(random + rounding)
        )

    @property
    def interval(self) -> Interval:
        """The interval of the number of records."""
        return max(0.0, self.records - self.spread), max(0.0, self.records + self.spread)


def interval(answer: Array, shares: Array, noisy: Noisy, *, tables: int = 1, corrected: int = 1) -> Interval:
    """The mean distance of `tables` tables, whose cells are all given. The lower end is corrected for the choice of the largest
    of `corrected`."""
    fewest, most = noisy.records - noisy.spread, noisy.records + noisy.spread
    (least, far), cells, unit = apart(answer, shares, fewest, most), len(answer), noisy.deviation
    if unit == 0:
        exact = far / (2 * tables * noisy.records) if noisy.records > 0 else 0.0
        return min(exact, 1.0), min(exact, 1.0) if noisy.records > 0 else 1.0
    rounding = GRID * cells
    below = least / unit - rounding + ndtri(BELOW / corrected) * math.sqrt(cells)
    above = far / unit + rounding + math.sqrt(2 * math.log(1 / ABOVE) * cells)
    low = unit * size(float(below) - (cells - 1) * BASE) / (2 * tables * most) if most > 0 else 0.0
    high = unit * cells * size(above / cells) / (2 * tables * fewest) if fewest > 0 else 1.0
    return min(low, 1.0), min(high, 1.0)


def apart(answer: Array, shares: Array, fewest: float, most: float) -> Interval:
    """The least and the largest sum of |answer - n * share| for n from `fewest` to `most`: the largest is at an end, the least at
    the median of answer / share, weighted by the shares, where that lies between."""
    held = shares > 0
    ratios, weights = answer[held] / shares[held], shares[held]
    order = np.argsort(ratios)
    middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    median = ratios[order][min(int(middle), len(ratios) - 1)]
    ends = [float(np.abs(answer - n * shares).sum()) for n in (fewest, most, min(max(median, fewest), most))]
    return min(ends), max(ends)


def size(mean: float) -> float:
    """h^-1: the u >= 0 with E|u + N(0, 1)| = `mean`; 0 where that is no more than h(0)."""
    from scipy.optimize import brentq

    if mean <= BASE:
        return 0.0
    if mean > 8:
        return mean  # equal to 15 digits

    def excess(u: float) -> float:
        return float(BASE * math.exp(-u * u / 2) + u * erf(u / math.sqrt(2)) - mean)

    return float(brentq(excess, 0.0, mean, xtol=1e-12))


def _group(names: Sequence[tuple[str, ...]], answers: list[Array], expected: list[Array], noisy: Noisy) -> Group:
    both = list(zip(answers, expected, strict=True))
    together = [interval(*each, noisy, corrected=len(names))[0] for each in both]  # lower ends that hold at once
    tables = tuple(
        Compared(columns=tuple(clique), cells=len(each[0]), interval=interval(*each, noisy))
        for clique, each in zip(names, both, strict=True)
    )
    return Group(
        tables=tables,
        mean=interval(np.concatenate(answers), np.concatenate(expected), noisy, tables=len(names)),
        worst=(max(together), max(table.interval[1] for table in tables)),
    )
