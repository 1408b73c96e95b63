"""What stays the same from record to record, such as an insurer or a chronic diagnosis, and codes that a visit does not have twice.

In a table of a column by its previous value, only a few of many cells say "as before", and noise hides each of them. Together they show how
often the column keeps its value, and, as far as the noise allows, which codes are kept more often than others.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

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
LEAST_REPEATED = 1e-6  # the least factor on the chance of a code that the visit already has
MOST_ERRORS, UNSURE = 5.0, 100.0  # in errors, how far a factor may lie outside [0, 1]; an error that tells nothing


def as_before(before: Whole, codes: int) -> tuple[Whole, Whole]:
    """Rows, and which codes below `codes` they had before, (entries,) each; a code that a row had twice comes once. `before` is (rows,), or
    (rows, places) with -1 where there is none."""
    held, found = before if before.ndim > 1 else before[:, None], [np.zeros((2, 0), np.int64)]
    for place in range(held.shape[1]):
        each = held[:, place]
        rows = np.flatnonzero((each >= 0) & (each < codes) & (held[:, :place] != each[:, None]).all(1))
        found.append(np.stack([rows, each[rows]]).astype(np.int64))
    rows, had = np.concatenate(found, 1)
    return rows, had


@dataclass(frozen=True)
class Stay:
    """The parameter for being as before, if a table says how often that is so. It multiplies `gains` (codes,): a rare code gains more,
    because the same share of it stays as of a common one. `places` are rows, and the codes that they had
    before, and `gained` the gains there. `target`, `penalty` and `scale` have one entry, or none if there is no parameter."""

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

    def add(self, logits: Array, same: Array) -> None:
        """What it changes, in place."""
        if self.count:
            logits[self.places] += same[0] * self.gained

    def sums(self, chances: Array) -> Array:
        """(parameters,) the sum of what it multiplies, over weighted chances (rows, codes)."""
        return np.full(self.count, chances[self.places] @ self.gained if self.count else 0.0)


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
    row before, with this `deviation`; `often` (codes,) is how many would have it by chance. Least squares over all codes, then a posterior
    mean: a priori the factor is 0 with probability 1/2, and otherwise uniform from 0 to 1."""
    clear = math.sqrt(max(float(often @ often), LEAST_CHANCE))
    error = min(deviation / clear, UNSURE)
    found = min(max(float(often @ repeated) / clear**2, -MOST_ERRORS * error), 1 + MOST_ERRORS * error)
    likely = NormalDist(found, error)
    some = likely.cdf(1) - likely.cdf(0)
    mean = found + error**2 * (likely.pdf(0) - likely.pdf(1)) / some
    return max(mean * some / (some + likely.pdf(0)), LEAST_REPEATED)
