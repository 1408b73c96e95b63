"""How strongly every two columns are related, from all noisy tables about them: which relations to believe, and which to ask again.

The relation of a noisy table (rows, columns) is what no change of its margins explains. Near independence, changing a margin moves the
table by some vector times the other margin; what is orthogonal to all such changes has (rows - 1) (columns - 1) coordinates, its
freedom. Noise has the same variance in each, and so has, about, what chance makes of records whose columns are unrelated: of n records
n (1 - |first margin|^2) (1 - |second margin|^2) over the freedom. So has the relation in this model: (n strength)^2 |first margin|^2
|second margin|^2 over the freedom, where strength^2 is about the mean square contingency (Pearson 1904).

Strengths lie on a grid, and their distribution over the pairs of a data set is fitted by EM (empirical Bayes; Kiefer & Wolfowitz
1956). A pair's chances of the strengths then follow by Bayes' rule from the tables of the two columns, alone, with the label and in
broad groups: where most pairs are noise, a vague one is taken for noise, and where most are related, it is not.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[str, str]
STRENGTHS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])  # of 2 x 2 tables at most 1, of 16 x 16 ones 3.9
BELIEVED = 5.0  # see `Coordinates.kept`; chosen on made-up tables, as was the share of what is asked again
ROUNDS = 200  # of EM


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTable:
    """A noisy table (rows, columns) of two columns, their shares, the variance of the noise of a cell, and the share of the records
    that the table counts."""

    table: Array
    first: Array
    second: Array
    variance: float
    part: float = 1.0

    @cached_property
    def freedom(self) -> int:
        """Coordinates of its relation; 0 if a column is constant or its shares are not known."""
        return (len(self.first) - 1) * (len(self.second) - 1) if self.first.any() and self.second.any() else 0

    @property
    def relation(self) -> Array:
        """What no change of a margin explains."""
        return relation_of(self.table, self.first, self.second)

    def signals(self, records: float) -> Array:
        """(strengths,): the variance of a coordinate at each strength."""
        size = float((self.first @ self.first) * (self.second @ self.second))
        return np.asarray((self.part * records * STRENGTHS) ** 2 * size / self.freedom)

    def chance(self, records: float) -> float:
        """The variance of a coordinate that unrelated columns have, if all tables together count so many records."""
        return float(
            self.part * records * (1 - self.first @ self.first) * (1 - self.second @ self.second) / self.freedom
        )

    def logs(self, records: float) -> Array:
        """(strengths,): the logarithm of the likelihood of each, but for a constant."""
        variances = self.signals(records) + self.chance(records) + self.variance
        return np.asarray(-self.freedom / 2 * np.log(variances) - (self.relation**2).sum() / (2 * variances))


def relation_of(table: Array, first: Array, second: Array) -> Array:
    """(rows, columns), orthogonal to `first` (rows,) times any vector and to any vector times `second` (columns,)."""
    relation = table - np.outer(first, first @ table) / (first @ first)
    return np.asarray(relation - np.outer(relation @ second, second) / (second @ second))


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Of the relations of pairs in tables of one kind: `signals` (pairs, strengths), the variance of a coordinate; `noise` (pairs,), that
    of its noise; `chance` (pairs,), what chance adds; `freedom` (pairs,), 0 where there is no such table."""

    signals: Array
    noise: Array
    chance: Array
    freedom: Array

    @classmethod
    def of(cls, tables: Sequence[NoisyTable | None], records: float) -> "Coordinates":
        """Of these tables."""
        known = [None if each is None or not each.freedom else each for each in tables]
        none = np.zeros(len(STRENGTHS))
        return cls(
            signals=np.array([none if each is None else each.signals(records) for each in known]).reshape(
                -1, len(none)
            ),
            noise=np.array([0.0 if each is None else each.variance for each in known]),
            chance=np.array([0.0 if each is None else each.chance(records) for each in known]),
            freedom=np.array([0.0 if each is None else each.freedom for each in known]),
        )

    def at(self, places: list[int]) -> "Coordinates":
        """Of these pairs."""
        return Coordinates(
            signals=self.signals[places],
            noise=self.noise[places],
            chance=self.chance[places],
            freedom=self.freedom[places],
        )

    def kept(self, chances: Array) -> Array:
        """(pairs,): how much of each relation to believe, in [0, 1]: half where its expected sum of squares is 1 / `BELIEVED` of what is
        just told from noise, whose sum of squares varies by about the root of the freedom."""
        told = (BELIEVED * self.signals * np.sqrt(self.freedom)[:, None]) ** 2
        other = (self.noise + self.chance)[:, None] ** 2
        return np.asarray((chances * _share(told, other)).sum(1))

    def worth_asking(self, chances: Array, noise: float, besides: int) -> NDArray[np.int64]:
        """The pairs that are to be asked again together with `besides` others: as many of those with the largest expected squared errors
        as lower the sum of errors most, half the number of the others at most; `noise` is the deviation of a cell if one pair is asked,
        and noise grows as the square root of their number. None where no relation is expected."""
        error = self._errors(chances, self.noise)
        ranked = np.argsort(-error, kind="stable")
        ranked = ranked[self.freedom[ranked] > 0][: besides // 2]
        best, most = 0, 0.0
        for count in range(1, len(ranked) + 1):
            second = float((besides + count) * noise**2)
            left = np.divide(
                self.noise * second, self.noise + second, out=np.zeros_like(self.noise), where=self.noise + second > 0
            )
            gain = float((error - self._errors(chances, left))[ranked[:count]].sum())
            if gain > most:
                best, most = count, gain
        return ranked[:best]

    def _errors(self, chances: Array, noise: Array) -> Array:
        """(pairs,): the expected squared error of each relation, if its noise had these variances."""
        other = (noise + self.chance)[:, None]
        return np.asarray(self.freedom * (chances * _share(self.signals, other) * other).sum(1))


def _share(one: Array, other: Array) -> Array:
    """Of the sum."""
    return np.divide(one, one + other, out=np.zeros_like(one), where=one > 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Relations:
    """What is known of the strength of pairs of columns: `chances` (pairs, strengths), from their tables as the fit counts them, `whole`,
    and those in broad groups, `broad`."""

    pairs: tuple[Pair, ...]
    chances: Array
    whole: Coordinates
    broad: Coordinates

    @classmethod
    def of(
        cls, seen: Mapping[Pair, tuple[NoisyTable, NoisyTable | None]], records: float, again: Collection[Pair] = ()
    ) -> "Relations":
        """From both tables of each pair. Strengths of the pairs that were asked `again` have a distribution of their own: they were
        chosen for them."""
        pairs = tuple(pair for pair, (whole, _) in seen.items() if whole.freedom)
        logs = np.zeros((len(pairs), len(STRENGTHS)))
        for place, pair in enumerate(pairs):
            logs[place] = sum(each.logs(records) for each in seen[pair] if each is not None and each.freedom)
        whole, broad = (Coordinates.of([seen[pair][kind] for pair in pairs], records) for kind in (0, 1))
        chances = np.empty_like(logs)
        apart = np.array([pair in again for pair in pairs], np.bool_)
        for part in (apart, ~apart):
            chances[part] = _chances(logs[part])
        return cls(pairs=pairs, chances=chances, whole=whole, broad=broad)

    def kept(self) -> dict[Pair, tuple[float, float]]:
        """How much to believe of each relation in the whole table and in the broad one."""
        both = (each.kept(self.chances).tolist() for each in (self.whole, self.broad))
        return dict(zip(self.pairs, zip(*both, strict=True), strict=True))

    def worth_asking(self, noise: float, besides: Collection[Pair]) -> list[Pair]:
        """The pairs of which broad tables are to be asked again, besides these: see `Coordinates.worth_asking`."""
        places = [place for place, pair in enumerate(self.pairs) if pair not in besides]
        asked = self.broad.at(places).worth_asking(self.chances[places], noise, len(besides))
        return [self.pairs[places[place]] for place in asked]


def _chances(logs: Array) -> Array:
    """(pairs, strengths), from the logarithms of likelihoods; the strengths share the weight of one pair in addition."""
    likelihood = np.exp(logs - logs.max(1, keepdims=True))
    prior = np.full(len(STRENGTHS), 1 / len(STRENGTHS))
    for _ in range(ROUNDS):
        chances = likelihood * prior
        chances /= chances.sum(1, keepdims=True)
        prior = (chances.sum(0) + 1 / len(STRENGTHS)) / (len(chances) + 1)
    return np.asarray(chances)
