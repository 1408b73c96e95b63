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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[str, str]
STRENGTHS = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
CLEAR = 2.0
ROUNDS = 200  # of EM
TRIED = 100  # numbers of tables, of which the best is taken


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """A noisy table (rows, columns) of two columns, their shares, and the variance of the noise of a cell."""

    table: Array
    first: Array
    second: Array
    variance: float

    @property
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
        return np.asarray((records * STRENGTHS) ** 2 * size / self.freedom)

    def chance(self, records: float) -> float:
        """The variance of a coordinate that unrelated columns of so many records have."""
        return float(records * (1 - self.first @ self.first) * (1 - self.second @ self.second) / self.freedom)

    def logs(self, records: float) -> Array:
        """(strengths,): the logarithm of the likelihood of each, but for a constant."""
        variances = self.signals(records) + self.chance(records) + self.variance
        return np.asarray(-self.freedom / 2 * np.log(variances) - (self.relation**2).sum() / (2 * variances))


def relation_of(table: Array, first: Array, second: Array) -> Array:
    """(rows, columns), orthogonal to `first` (rows,) times any vector and to any vector times `second` (columns,)."""
    relation = table - np.outer(first, first @ table) / (first @ first)
    return np.asarray(relation - np.outer(relation @ second, second) / (second @ second))


@dataclass(frozen=True, kw_only=True, eq=False)
class Relations:
    """What is known of the strength of pairs of columns: `chances` (pairs, strengths); `signals` (pairs, strengths), the variance of
    a coordinate of their table; `variances` (pairs,), that of its noise; `chance` (pairs,), what chance adds; `freedom` (pairs,)."""

    pairs: tuple[Pair, ...] = ()
    chances: Array
    signals: Array
    variances: Array
    chance: Array
    freedom: Array

    @classmethod
    def of(cls, seen: Mapping[Pair, list[Seen]], records: float) -> "Relations":
        """From the tables of each pair: the first counts it as the fit does, others may count it in other groups."""
        pairs = tuple(pair for pair, tables in seen.items() if tables[0].freedom)
        shape = (len(pairs), len(STRENGTHS))
        logs = [sum(each.logs(records) for each in seen[pair] if each.freedom) for pair in pairs]
        return cls(
            pairs=pairs,
            chances=_chances(np.reshape(np.array(logs, np.float64), shape)),
            signals=np.reshape(np.array([seen[pair][0].signals(records) for pair in pairs], np.float64), shape),
            variances=np.array([seen[pair][0].variance for pair in pairs], np.float64),
            chance=np.array([seen[pair][0].chance(records) for pair in pairs], np.float64),
            freedom=np.array([seen[pair][0].freedom for pair in pairs], np.float64),
        )

    def kept(self) -> dict[Pair, float]:
        """How much of each relation to believe, in [0, 1]: half where its expected sum of squares is 1 / `CLEAR` of what is just told
        from noise, whose sum of squares varies by about the root of the freedom."""
        told = CLEAR * self.signals * np.sqrt(self.freedom)[:, None]
        kept = (self.chances * told**2 / (told**2 + (self.variances + self.chance)[:, None] ** 2)).sum(1)
        return dict(zip(self.pairs, kept.tolist(), strict=True))

    def worth_asking(self, noise: float) -> list[Pair]:
        """The pairs that are to be asked again: those whose expected squared errors are largest, and as many as lower the sum of
        errors most, where `noise` is the deviation of a cell if one is asked, and noise grows as the square root of their number."""
        error = self._errors(self.variances)
        ranked = np.argsort(-error, kind="stable")
        best, most = 0, 0.0
        for count in np.unique(np.geomspace(1, max(1, len(ranked)), TRIED).astype(int))[: len(ranked)]:
            asked = ranked[:count]
            again = 1 / (1 / self.variances[asked] + 1 / (count * noise**2)) if noise else np.zeros(count)
            gain = float((error[asked] - self._errors(again, asked)).sum())
            if gain > most:
                best, most = int(count), gain
        return [self.pairs[place] for place in ranked[:best]]

    def _errors(self, variances: Array, places: NDArray[np.int64] | slice = slice(None)) -> Array:
        """(pairs,): the expected squared error of each relation, if its noise had these variances."""
        signals, noise = self.signals[places], (variances + self.chance[places])[:, None]
        share = np.divide(signals * noise, signals + noise, out=np.zeros_like(signals), where=signals > 0)
        return np.asarray(self.freedom[places] * (self.chances[places] * share).sum(1))


def _chances(logs: Array) -> Array:
    """(pairs, strengths), from the logarithms of likelihoods; each strength is counted as a pair of its own share more."""
    likelihood = np.exp(logs - logs.max(1, keepdims=True))
    prior = np.full(len(STRENGTHS), 1 / len(STRENGTHS))
    for _ in range(ROUNDS):
        chances = likelihood * prior
        chances /= chances.sum(1, keepdims=True)
        prior = (chances.sum(0) + 1 / len(STRENGTHS)) / (len(chances) + 1)
    return np.asarray(chances)
