"""What stays the same from record to record, such as an insurer or a chronic diagnosis, and codes that a visit does not have twice.

In a table of a column by its previous value, only a few of many cells say "as before", and noise hides each of them. Together they show how
often the column keeps its value, and, as far as the noise allows, which codes are kept more often than others.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Clique = tuple[str, ...]
LEAST_CHANCE = 1e-300  # so that nothing is divided by zero
LEAST_TOLD = 1.0  # the least variance of a count, in records, that noise is divided by
LIKELY_STAY = 3.0  # the deviation that is expected of the parameter for being as before
MOST_STAY = 0.999  # the largest share of a code that stays beyond chance
LEAST_LIKELY, MOST_LIKELY = 0.01, 0.95  # bounds on that share where the gain of a code follows from it
LEAST_STAYING = 1e-4  # the least chance of a code, in its gain
LEAST_OFTEN = 1e-3  # the least number of records that had a code, which noise is divided by
NEARLY_ALL = 1 - 1e-6  # a column that is nearly constant has no parameter for staying
LEAST_AGAIN = 0.05  # the least chance of a code that the unit had before, as a multiple of its share
LIKELY_AGAIN = 1.0  # the deviation that is expected of a code's parameter for recurring
LEAST_REPEATED = 1e-6  # the least factor on the chance of a code that the visit already has
MOST_ERRORS, UNSURE = 5.0, 100.0  # in errors, how far a factor may lie outside [0, 1]; an error that tells nothing


def as_before(before: Whole, codes: int) -> tuple[Whole, Whole]:
    """Rows, and which codes below `codes` they had before, (entries,) each; a code that a row had twice comes once. `before` is (rows,), or
    (rows, places) with -1 where there is none."""
    held = before if before.ndim > 1 else before[:, None]
    rows, place = np.nonzero((held >= 0) & (held < codes))
    found = np.unique(rows * codes + held[rows, place])
    return found // codes, found % codes


@dataclass(frozen=True)
class Stay:
    """The parameter for being as before, if a table says how often that is so. It multiplies `gains` (codes,): a rare code gains more,
    because the same share of it stays as of a common one. `places` are rows, and the codes that they had
    before, and `gained` the gains there. `target`, `penalty` and `scale` have one entry, or none if there is no parameter."""

    least: ClassVar[float] = 0.0  # the least value of the parameter
    before: str
    places: tuple[Whole, Whole]
    gained: Array
    gains: Array
    target: Array
    penalty: Array
    scale: Array

    @classmethod
    def of(
        cls,
        before: str,
        cells: Mapping[str, Whole],
        weights: Array,
        tables: Mapping[Clique, tuple[Array, float]],
        margin: Array,
        known: Array | None,
    ) -> "Stay":
        """`tables` are noisy tables (cells, codes) by clique, with their deviations; `margin` (codes,) are the shares of the column alone;
        `known` (rows, codes) are the chances of the previous fit, if there was one.

        A row with several previous codes counts their mean in its table, but each of them gains as much as a single one would, so that what
        stays does not depend on how much else there was. The drawn rows show how a sum of means relates to a sum over whole rows. Noise
        hides most of what a single code shows, so its share that stays beyond chance is drawn towards that of all codes: see `shrunk`.
        """
        held = cells[before] if before in cells else np.zeros((0, 1), np.int64)
        rows, had = as_before(held, len(margin))
        rows, had = rows[margin[had] > 0], had[margin[had] > 0]  # not the code of none
        if not len(rows) or (before,) not in tables or margin @ margin > NEARLY_ALL:
            nothing = np.zeros(0)
            return cls(before, (rows[:0], had[:0]), nothing, nothing, nothing, nothing, nothing)
        table, noise = tables[before,]
        table, held = table[: len(margin)], held if held.ndim > 1 else held[:, None]
        shares = weights[rows] * (held[rows] == had[:, None]).sum(1) / (held >= 0).sum(1)[rows]
        often = shares.sum() * margin  # had each code before
        heard = _heard(shares.sum(), table[margin > 0], noise)
        possible, noise = np.maximum(often * (1 - margin), LEAST_OFTEN), noise * heard
        stayed, of_noise = shrunk((table.diagonal() * heard - often * margin) / possible, noise / possible)
        stayed = np.minimum(stayed, MOST_STAY)
        likely = np.clip(stayed, LEAST_LIKELY, MOST_LIKELY)
        odds = likely / (1 - likely) * (margin > 0)
        gains = np.log1p(odds / np.maximum(margin, LEAST_STAYING))
        gains /= margin @ gains
        if known is None:
            chances = gains[had] * (margin + odds)[had] / (1 + np.bincount(rows, odds[had], len(held)))[rows]
        else:
            chances = gains[had] * known[rows, had]
        whole = float(weights[rows] @ chances) / max(float(shares @ chances), LEAST_CHANCE)
        target = whole * gains @ (often * margin + stayed * possible)
        target_noise = whole * np.linalg.norm(of_noise(gains * possible) * noise / possible)
        told = weights[rows] @ (gains**2 * margin)[had]
        penalty = (1 + float(target_noise) ** 2 / max(float(told), LEAST_TOLD)) / LIKELY_STAY**2
        found = (np.array([each]) for each in (target, penalty, 1 / math.sqrt(penalty + 3 * told)))
        return cls(before, (rows, had), gains[had], gains, *found)

    @property
    def count(self) -> int:
        """How many parameters there are."""
        return len(self.target)

    def parameter(self, gains: Mapping[str, Array]) -> Array:
        """The parameter that these gains, by column, are of, (parameters,)."""
        return np.full(self.count, gains.get(self.before, np.zeros(1)).sum() / max(self.gains.sum(), LEAST_CHANCE))

    def of_parameter(self, same: Array) -> dict[str, Array]:
        """The gains that these parameters make, by column."""
        return {self.before: float(same[0]) * self.gains} if self.count else {}

    def add(self, logits: Array, same: Array) -> None:
        """What it changes, in place."""
        if self.count:
            logits[self.places] += same[0] * self.gained

    def step(self, chances: Array, weights: Array, same: Array) -> Array:
        """(parameters,): a step of Newton's method from `same`, 1 at most; `chances` (rows, codes) are those with it."""
        there, held = chances[self.places], weights[self.places[0]]
        lacking = self.target - (held * there) @ self.gained - self.penalty * same
        curved = (held * there * (1 - there)) @ self.gained**2 + self.penalty
        found: Array = np.maximum(np.clip(lacking / curved, -1, 1), self.least - same)
        return found

    def sums(self, chances: Array) -> Array:
        """(parameters,) the sum of what it multiplies, over weighted chances (rows, codes)."""
        return np.full(self.count, chances[self.places] @ self.gained if self.count else 0.0)


@dataclass(frozen=True)
class Again:
    """Parameters for codes that recur. They change the odds of each code that the unit's last record has, and of each that only earlier
    records have; `columns` names the two cases. For each of them, `places` are rows and the codes that they had. `conditional_fit.fit` fits
    one parameter for each column and code, which is added to `expected` (columns, codes)."""

    least: ClassVar[float] = -np.inf
    columns: tuple[str, ...]
    places: tuple[tuple[Whole, Whole], ...]
    expected: Array
    target: Array
    penalty: Array
    scale: Array

    @classmethod
    def of(
        cls,
        columns: tuple[str, ...],
        cells: Mapping[str, Whole],
        weights: Array,
        table: Array,
        noise: float,
        margin: Array,
    ) -> "Again":
        """`table` (2 + columns, codes) holds noisy counts of rows by code: where it is new, for each of `columns`, and where the record
        already has it. `noise` is their deviation; `margin` (codes,) are the shares of the column alone.

        A code's share is its count divided by the number of drawn rows that had the code before. As in `Stay`, noise hides most of what one
        code shows, so the share beyond chance is drawn towards that of all codes."""
        codes = len(margin)
        places = tuple(as_before(cells[name], codes) for name in columns)
        heard = _heard(float(weights.sum()), table[:, margin > 0], noise)
        expected, target, told = (np.zeros((len(columns), codes)) for _ in range(3))
        for place, (rows, had) in enumerate(places):
            often = np.bincount(had, weights[rows], codes)
            possible = np.maximum(often * (1 - margin), LEAST_OFTEN)
            error = max(noise * heard, LEAST_OFTEN) / possible
            share, _ = shrunk((table[1 + place] * heard - often * margin) / possible, error)
            chance = np.clip(margin + share * (1 - margin), LEAST_AGAIN * margin, MOST_STAY)
            chance = np.where(margin > 0, chance, 0.0)
            target[place], told[place] = often * chance, often * chance * (1 - chance)
            held = np.clip(margin, LEAST_STAYING, MOST_STAY)
            expected[place] = np.where(
                margin > 0, np.log(np.maximum(chance, LEAST_CHANCE) / (1 - chance) * (1 - held) / held), 0.0
            )
        penalty = np.full(target.shape, 1 / LIKELY_AGAIN**2)
        return cls(
            columns, places, expected, target.ravel(), penalty.ravel(), (1 / np.sqrt(penalty + 3 * told)).ravel()
        )

    @property
    def count(self) -> int:
        """How many parameters there are."""
        return self.target.size

    def parameter(self, gains: Mapping[str, Array]) -> Array:
        """See `Stay`."""
        held = [gains.get(name, each) - each for name, each in zip(self.columns, self.expected, strict=True)]
        return np.concatenate(held)

    def of_parameter(self, same: Array) -> dict[str, Array]:
        """See `Stay`."""
        return dict(zip(self.columns, self.expected + same.reshape(self.expected.shape), strict=True))

    def add(self, logits: Array, same: Array) -> None:
        """See `Stay`."""
        for gains, (rows, had) in zip(self.of_parameter(same).values(), self.places, strict=True):
            logits[rows, had] += gains[had]

    def sums(self, chances: Array) -> Array:
        """See `Stay`."""
        codes = self.expected.shape[1]
        return np.concatenate([np.bincount(had, chances[rows, had], codes) for rows, had in self.places])


def _heard(drawn: float, table: Array, noise: float) -> float:
    """By what to multiply a noisy table so that it is of as many rows as were drawn, as far as noise does not explain that they differ
    (James & Stein 1961)."""
    lacking = float(table.sum()) - drawn
    clear = max(0.0, 1 - noise**2 * table.size / max(lacking**2, LEAST_CHANCE))
    return drawn / max(drawn + clear * lacking, LEAST_OFTEN)


def shrunk(found: Array, deviations: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Numbers (codes,) with noise of these deviations, drawn towards their mean as far as noise explains that they differ (random effects;
    DerSimonian & Laird 1986). And, for a sum of the results with weights, what each number weighs in it."""
    weights = 1 / deviations**2
    differ = weights @ (found - weights @ found / weights.sum()) ** 2 - (len(found) - 1)
    between = max(0.0, float(differ / (weights.sum() - weights @ weights / weights.sum())))
    kept, weights = between / (between + deviations**2), 1 / (between + deviations**2)
    weights /= weights.sum()
    return kept * found + (1 - kept) * (weights @ found), lambda each: each * kept + (each @ (1 - kept)) * weights


def repeats(often: Array, repeated: Array, deviation: float) -> float:
    """The factor by which codes that a visit already has are rarer. `repeated` (codes,) are noisy numbers of rows that have the code of the
    row before, with this `deviation`; `often` (codes,) is how many would have it by chance. Least squares over all codes, then the
    posterior median: a priori the factor is 0 with probability 1/2, and otherwise uniform from 0 to 1. So it is 0 unless repetition stands
    clear: among few codes, a small factor lets many visits have one twice."""
    clear = math.sqrt(max(float(often @ often), LEAST_CHANCE))
    error = min(deviation / clear, UNSURE)
    found = min(max(float(often @ repeated) / clear**2, -MOST_ERRORS * error), 1 + MOST_ERRORS * error)
    likely = NormalDist(found, error)
    none, some = likely.pdf(0), likely.cdf(1) - likely.cdf(0)
    half = likely.cdf(0) + (some - none) / 2  # of the chance lies below it: the median's, if that is not 0
    return max(likely.inv_cdf(half), LEAST_REPEATED) if some > none else LEAST_REPEATED
