"""What stays as it was from record to record, such as an insurance or a chronic diagnosis, and what does not come twice in a visit.

Of a table of a column by its previous value, the cells that say "as before" are few of many, and one by one noise hides them. Together they
tell how often a column stays; which codes do so more than others is told as far as the noise leaves it.
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
LEAST_CHANCE = 1e-300  # of a code that a rule leaves: something is drawn
LEAST_TOLD = 1.0  # of a cell's variance in records: below it, only the noise is heard
LIKELY_STAY = 3.0  # what is expected of the parameter for being as before
LEAST_STAY, MOST_STAY = 0.01, 0.95  # shares that stay, by which it is told how much more rare codes gain
LEAST_STAYING = 1e-4  # chance of a code, in what it gains
LEAST_OFTEN = 1e-3  # records that had a code, where the noise is told against them
NEARLY_ALL = 1 - 1e-6  # of a column that is nearly constant, nothing is asked about staying
LEAST_REPEATED = 1e-6  # of a code's chance, in a visit that already has it
MOST_ERRORS, UNSURE = 5.0, 100.0  # how far a factor lies outside of what it can be; an error that tells nothing


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
    """A parameter for being as before; none where no table says how often that is so. `gains` (codes,) is what it multiplies: of a rare
    code as large a part stays as of a common one, so that a rare one gains more. `places`, among all of (rows, codes), are where a row had
    a code before, which gains `gained`; and of `target`, `penalty` and `scale` there is one each, or none."""

    before: str
    places: Whole
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
        """`tables` are noisy ones (cells, codes) by clique, with their deviations; `known` are chances (rows, codes) by the fit before this
        one, if there was one.

        A row with several codes before it counts the mean in its table, but each of them gains as much as a single one would, so that what
        stays does not depend on how much else there was. The drawn rows tell how a sum of means goes with one of whole rows. The noise
        leaves little of a single code, so the share that stays beyond chance is drawn towards that of all: see `shrunk`.
        """
        if (before,) not in tables or margin @ margin > NEARLY_ALL:
            nothing, none = np.zeros(0), np.zeros(0, np.int64)
            return cls(before, none, nothing, nothing, nothing, nothing, nothing)
        codes, (table, noise) = len(margin), tables[before,]
        held = cells[before] if cells[before].ndim > 1 else cells[before][:, None]
        rows, had = as_before(held, codes)
        rows, had = rows[margin[had] > 0], had[margin[had] > 0]  # not the code of none
        shares = weights[rows] / (held >= 0).sum(1)[rows]
        often = shares.sum() * margin  # had each code before: the drawn rows tell that better than a noisy table
        most = np.maximum(often * (1 - margin), LEAST_OFTEN)
        stayed, of_noise = shrunk((table.diagonal() - often * margin) / most, noise / most)
        stayed = np.clip(stayed, LEAST_STAY, MOST_STAY)
        odds = stayed / (1 - stayed) * (margin > 0)
        gains = np.log1p(odds / np.maximum(margin, LEAST_STAYING))
        gains /= margin @ gains
        if known is None:
            chances = gains[had] * (margin + odds)[had] / (1 + np.bincount(rows, odds[had], len(held)))[rows]
        else:
            chances = gains[had] * known[rows, had]
        whole = float(weights[rows] @ chances) / max(float(shares @ chances), LEAST_CHANCE)
        target = whole * (gains * often) @ (margin + stayed * (1 - margin))
        target_noise = whole * np.linalg.norm(of_noise(gains * most) * noise / most)
        told = weights[rows] @ (gains**2 * margin)[had]
        penalty = (1 + float(target_noise) ** 2 / max(float(told), LEAST_TOLD)) / LIKELY_STAY**2
        found = (np.array([each]) for each in (target, penalty, 1 / math.sqrt(penalty + 3 * told)))
        return cls(before, rows * codes + had, gains[had], gains, *found)

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
            logits.reshape(-1)[self.places] += same[0] * self.gained

    def sums(self, chances: Array) -> Array:
        """(parameters,) the sum of what it multiplies, over weighted chances (rows, codes)."""
        return np.full(self.count, chances.reshape(-1)[self.places] @ self.gained if self.count else 0.0)


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
    """By which factor codes are rarer that a visit already has: of noisy numbers (codes,) of rows that have the code of the row before, and
    of how many would have it by chance: least squares over all codes. Before, that none ever comes twice was as likely as that some do,
    by any factor from 0 to 1 (posterior mean)."""
    clear = math.sqrt(max(float(often @ often), LEAST_CHANCE))
    error = min(deviation / clear, UNSURE)
    found = min(max(float(often @ repeated) / clear**2, -MOST_ERRORS * error), 1 + MOST_ERRORS * error)
    likely = NormalDist(found, error)
    some = likely.cdf(1) - likely.cdf(0)
    mean = found + error**2 * (likely.pdf(0) - likely.pdf(1)) / some
    return max(mean * some / (some + likely.pdf(0)), LEAST_REPEATED)
