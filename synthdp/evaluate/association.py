"""Pairwise association of columns of any kind, and how far synthetic rows are from real ones in it."""

# ruff: noqa: PD011 - the values are those of a `Table`

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from synthdp.evaluate.fidelity import over_sets
from synthdp.evaluate.figures import CHANCE, CHANCE_OF_LOSS, excess, is_invented, is_lost, loss
from synthdp.evaluate.tables import Axis, Table

T = TypeVar("T")

LEAST_ROWS = 50  # with both values, for an association of two columns; or all rows, if there are fewer
GROUPS = 20  # of people, each of which is left out in turn
LEAST_PEOPLE = 10  # of a category that may show that an association is invented
MOST_TRIED = 100  # pairs that are compared with chance, those farthest from the real rows
TAILS = (0.05, 0.95)  # quantiles
SPREAD_OF_TAILS = 2.1  # their standard deviation in one row of a normal distribution, in standard deviations of that
LEAST_SHIFT = 0.1  # of a mean or a tail, in standard deviations of the training values
LEAST_SHARE = 0.01  # of the training rows with a value, for a category to count by itself in an association
MEASURES = {
    "number, number": "Spearman's rank correlation",
    "category, category": "Cramer's V, bias-corrected (Bergsma 2013)",
    "category, number": "correlation ratio of ranks, bias-corrected (Kelley 1935)",
}


def associations(table: Table) -> NDArray[np.float64]:
    """(columns, columns), symmetric, diagonal 1: the measures above; ordinals count as numbers.

    Rows with a missing value are left out pair by pair, after each column was ranked once. The corrections matter:
    without them small tables look more dependent than large ones. A pair with a constant column has association 0.
    """
    nominal = np.array([axis.kind == "category" for axis in table.axes])
    out = np.eye(len(table.axes))
    ordered = np.flatnonzero(~nominal)
    ranks = _ranks(table.values[:, ordered])
    out[np.ix_(ordered, ordered)] = _correlations(ranks)
    np.fill_diagonal(out, 1.0)
    codes = {j: _codes(table.values[:, j]) for j in np.flatnonzero(nominal)}
    for i, own in codes.items():
        for place, j in enumerate(ordered):
            out[i, j] = out[j, i] = correlation_ratio(own, ranks[:, place])
    for (i, first), (j, second) in combinations(codes.items(), 2):
        out[i, j] = out[j, i] = cramers_v(second, first)
    return out


def with_first(table: Table) -> NDArray[np.float64]:
    """The association of the first column, a number, with each of the others, as in `associations`."""
    values, nominal = ranked(table).values, np.array([axis.kind == "category" for axis in table.axes])
    out = np.zeros(len(table.axes))
    out[~nominal] = _correlations(values[:, ~nominal])[0]
    for place in np.flatnonzero(nominal):
        out[place] = correlation_ratio(_codes(values[:, place]), values[:, 0])
    return out[1:]


def difference(synthetic: Table, train: Table, test: Table) -> dict[str, Any] | None:
    """{"mean", "sd", "n", "max"} of |synthetic - train| over pairs, "floor" (test for synthetic), and the matrices.

    Columns that are constant in the training rows are left out, and so are pairs that are not `enough`: these are 0 in the matrices. None
    where no pair is left.
    """
    keep = [i for i, column in enumerate(train.values.T) if len(np.unique(column[~np.isnan(column)])) > 1]
    known = enough(train)[np.ix_(keep, keep)]
    upper = np.nonzero(np.triu(known, k=1))
    if not len(upper[0]):
        return None
    s, t, v = (associations(table)[np.ix_(keep, keep)] * known for table in alike(synthetic, train, test))
    result = over_sets(np.abs(s - t)[upper], np.abs(v - t)[upper])
    result["names"] = [train.axes[i].name for i in keep]
    result |= {"train": t.tolist(), "synthetic": s.tolist(), "test": v.tolist()}
    result["measures"] = dict(MEASURES)
    return result


def alike(synthetic: Table, train: Table, test: Table) -> tuple[Table, Table, Table]:
    """The three tables with categories of less than `LEAST_SHARE` of the training rows as one, which is missing if it is as rare itself:
    Cramer's V depends on the number of categories, so that it would change where synthetic rows lack a rare one. A column of which fewer
    than two categories would be left stays as it is."""
    values = [table.values.copy() for table in (synthetic, train, test)]
    for place, axis in enumerate(train.axes):
        column = train.values[:, place]
        codes, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        common = codes[counts >= LEAST_SHARE * counts.sum()]
        pooled = 1 - counts[np.isin(codes, common)].sum() / max(1, counts.sum()) >= LEAST_SHARE
        if axis.kind != "category" or len(common) + pooled < 2:
            continue
        rest = len(axis.levels) + 1 if pooled else np.nan
        for each in values:
            held = each[:, place]
            held[~np.isnan(held) & ~np.isin(held, common)] = rest
    made, real, held_out = (Table(axes=train.axes, values=each) for each in values)
    return made, real, held_out


def enough(train: Table) -> NDArray[np.bool_]:
    """(columns, columns): which pairs have enough complete training rows. In a few rows, such as visits with a third diagnosis of people
    who died, chance alone makes large associations."""
    known = (~np.isnan(train.values)).astype(np.float64)
    return np.asarray(known.T @ known >= min(LEAST_ROWS, train.rows))


class Rows(NamedTuple):
    """A figure, as a function of which rows count (rows,), and whose each row is. `spread`: about its deviation in one row."""

    figure: Callable[[NDArray[np.bool_]], float]
    owner: NDArray[np.int64]
    spread: float = 1.0

    @property
    def value(self) -> float:
        return self.figure(np.ones(len(self.owner), np.bool_))

    @property
    def people(self) -> int:
        """0 where rows or people are too few to tell chance from anything else."""
        people = len(np.unique(self.owner))
        return people if len(self.owner) >= LEAST_ROWS and people >= GROUPS else 0

    @property
    def deviation(self) -> float:
        """How far chance moves the figure: its standard deviation by the jackknife that leaves out one group of people at a time (Kott
        2001), however alike the rows of a person are, but at least that of one row of each. Infinite where rows or people are too few."""
        people = self.people
        if not people:
            return math.inf
        person = np.unique(self.owner, return_inverse=True)[1]
        without = [self.figure(person % GROUPS != each) for each in range(GROUPS)]
        return float(max(((GROUPS - 1) * np.var(without)) ** 0.5, self.spread / people**0.5))


def ranked(table: Table) -> Table:
    """The table with ranks for its numbers and ordinals."""
    ordered = [place for place, axis in enumerate(table.axes) if axis.kind != "category"]
    values = table.values.copy()
    values[:, ordered] = _ranks(values[:, ordered])
    return Table(axes=table.axes, values=values)


def pair_of(table: Table, i: int, j: int, owner: NDArray[np.int64]) -> Rows:
    """The association of two columns, of a table that is `ranked`, in their complete rows. Categories of few people are left out: where two
    of them coincide, they alone would make a strong one."""
    known = ~np.isnan(table.values[:, [i, j]]).any(1)
    nominal = [table.axes[place].kind == "category" for place in (i, j)]
    whole: list[Any] = []
    size = int(owner.max(initial=-1)) + 1
    for place, coded in zip((i, j), nominal, strict=True):
        column = table.values[:, place]
        whole.append(_codes(column) if coded else column)
        if coded:
            held = np.sort(whole[-1][known] * size + owner[known])
            people = np.bincount(held[np.diff(held, prepend=-1) > 0] // max(1, size), minlength=1)
            known &= np.isin(whole[-1], np.flatnonzero(people >= LEAST_PEOPLE))
    one, other = (column[known] for column in whole)
    if all(nominal):
        return Rows(lambda rows: cramers_v(one[rows], other[rows]), owner[known])
    if any(nominal):
        codes, ranks = (one, other) if nominal[0] else (other, one)
        return Rows(lambda rows: correlation_ratio(codes[rows], ranks[rows]), owner[known])
    both = np.stack([one, other], 1)
    return Rows(lambda rows: float(_correlations(both[rows])[0, 1]), owner[known])


def agreement(same: NDArray[np.bool_], chance: NDArray[np.float64], owner: NDArray[np.int64]) -> Rows:
    """The share of rows in which two values are the `same`, beyond the `chance` (rows,) of that (Cohen's kappa, 1960)."""

    def figure(rows: NDArray[np.bool_]) -> float:
        if not rows.any():
            return 0.0
        by_chance = float(chance[rows].mean())
        return (float(same[rows].mean()) - by_chance) / max(1 - by_chance, 1e-9)

    return Rows(figure, owner, spread=0.5)


def invented(told: Iterable[tuple[T, Mapping[str, float]]], rows: Callable[[T, str], Rows]) -> list[T]:
    """The figures (synthetic, train, test) that synthetic rows exceed real ones in, beyond chance, the worst first; of very many, those
    among the worst `MOST_TRIED`. `rows` gives those behind the figure of a set."""
    worst = sorted(((name, each) for name, each in told if is_invented(each)), key=lambda pair: -excess(pair[1]))
    found: list[T] = []
    for name, each in worst[:MOST_TRIED]:
        made, real = rows(name, "synthetic"), rows(name, "train")
        beyond = min(excess(each), excess({**each, "synthetic": made.value}))
        if beyond > CHANCE * math.hypot(made.deviation, real.deviation):
            found.append(name)
    return found


def by_chance(told: Iterable[tuple[T, Mapping[str, float]]], rows: Callable[[T, str], Rows]) -> list[T]:
    """Those of the lost figures (synthetic, train, test) that chance may have moved so far. `rows` as in `invented`. Chance moves that of
    synthetic rows as far as that of as many real people: where nothing is related, the jackknife of a figure that cannot be below 0
    tells too much. Of very many figures, those that lost most are compared with chance, and the rest is chance if most of these are."""
    worst = sorted(((name, each) for name, each in told if is_lost(each)), key=lambda pair: -loss(pair[1]))
    found: list[T] = []
    for name, each in worst[:MOST_TRIED]:
        made, real = rows(name, "synthetic"), rows(name, "train")
        beyond = min(loss(each), loss({**each, "synthetic": made.value, "train": real.value}))
        larger = (1 + real.people / made.people) ** 0.5 if made.people else math.inf
        if beyond <= CHANCE_OF_LOSS * larger * real.deviation:
            found.append(name)
    rest = worst[MOST_TRIED:] if 2 * len(found) > MOST_TRIED else []
    return found + [name for name, _ in rest]


def shift(column: Mapping[str, tuple[NDArray[np.float64], NDArray[np.int64]]]) -> dict[str, Any] | None:
    """The mean or tail of a column that lies farthest from that of training and of held-out rows, at least by `LEAST_SHIFT` and by more
    than chance explains; None if none does. column: by set, its known values and whose each is.

    {"of": "mean" or a quantile of `TAILS`, "distance" in standard deviations of the training values, "synthetic", "train", "test"}.
    """
    values = {role: values for role, (values, _) in column.items()}
    if not all(map(len, values.values())):
        return None
    unit, found = float(values["train"].std()), list[dict[str, Any]]()
    for of in ("mean", *TAILS):
        told = {role: _mean_or_tail(of, each) for role, each in values.items()}
        off = [told["synthetic"] - told[role] for role in ("train", "test")]
        beyond = min(map(abs, off))
        if off[0] * off[1] <= 0 or beyond < LEAST_SHIFT * unit:
            continue
        spread = unit if of == "mean" else SPREAD_OF_TAILS * unit
        deviations = [
            Rows(partial(_mean_or_tail, of, held), owner, spread).deviation
            for held, owner in (column["synthetic"], column["train"])
        ]
        if beyond > CHANCE * math.hypot(*deviations):
            found.append({"of": of, "distance": beyond / unit if unit else beyond, **told})
    return max(found, key=lambda each: each["distance"], default=None)


def _mean_or_tail(of: str | float, values: NDArray[np.float64], rows: NDArray[np.bool_] | slice = slice(None)) -> float:
    held = values[rows]
    return float(held.mean() if isinstance(of, str) else np.quantile(held, of))


def of_numbers(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """Correlations and means of the numeric columns (datetimes too) against the training rows.

    "pearson" and "spearman": {"mean", "sd", "n", "max"} of |r in synthetic - r in training rows| over pairs. "means": the same of
    |mean in synthetic - in training rows| over columns, in standard deviations of the training rows, and "columns". Each with
    "floor", the real test rows as if they were synthetic. Missing values are left out pair by pair; columns without spread in the
    training rows are left out. None and the reason where fewer than two columns are left. No table may be empty.
    """
    spread = np.array([_spread(column) for column in train.values.T])
    keep = [i for i, axis in enumerate(train.axes) if axis.kind == "number" and spread[i] > 0]
    if len(keep) < 2:
        return None, "fewer than two numeric columns vary in the real training rows"
    s, t, v = (
        (table.values[:, keep] - np.nanmean(train.values[:, keep], 0)) / spread[keep]
        for table in (synthetic, train, test)
    )
    upper = np.triu_indices(len(keep), k=1)
    found: dict[str, Any] = {}
    for name, prepare in (("pearson", np.asarray), ("spearman", _ranks)):
        made, real, held = (_correlations(prepare(values))[upper] for values in (s, t, v))
        found[name] = over_sets(np.abs(made - real), np.abs(held - real))
    off, floor = (np.abs(_means(values)) for values in (s, v))  # those of the training rows are 0
    found["means"] = over_sets(off, floor)
    found["means"]["columns"] = {train.axes[i].name: float(x) for i, x in zip(keep, off, strict=True)}
    return found, None


def _spread(column: NDArray[np.float64]) -> float:
    known = column[~np.isnan(column)]
    return float(known.std()) if len(known) else 0.0


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the known values, 0 where there is none."""
    known = np.maximum((~np.isnan(values)).sum(axis=0), 1)
    return np.asarray(np.nansum(values, axis=0) / known, dtype=np.float64)


def _codes(column: NDArray[np.float64]) -> NDArray[np.int64]:
    """-1 for missing."""
    return np.nan_to_num(column, nan=-1.0).astype(np.int64)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not values.size:
        return values
    return np.asarray(rankdata(values, axis=0, nan_policy="omit"), dtype=np.float64)


def _correlations(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's correlation of each pair's complete rows; 0 where one of the two does not vary there."""
    return pd.DataFrame(ranks).corr().fillna(0.0).to_numpy(np.float64)


def cramers_v(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Bias-corrected Cramer's V in [0, 1] of two code columns, -1 for missing (Bergsma 2013, equation 4)."""
    known = (first >= 0) & (second >= 0)
    n = int(known.sum())
    if n < 2:
        return 0.0
    rows, columns = int(first.max()) + 1, int(second.max()) + 1
    counts = np.bincount(first[known] * columns + second[known], minlength=rows * columns).reshape(rows, columns)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    r, k = counts.shape
    if min(r, k) < 2:
        return 0.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / n
    phi2 = float(((counts - expected) ** 2 / expected).sum()) / n
    phi2 = max(0.0, phi2 - (r - 1) * (k - 1) / (n - 1))
    low = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(min(1.0, np.sqrt(phi2 / low))) if low > 0 else 0.0


def correlation_ratio(codes: NDArray[np.int64], values: NDArray[np.float64]) -> float:
    """Square root of the share of the variance of values between the groups of codes, corrected for their number."""
    known = (codes >= 0) & ~np.isnan(values)
    group, y = codes[known], values[known]
    counts = np.bincount(group)
    n, k = len(y), int((counts > 0).sum())
    if k < 2 or n <= k:
        return 0.0
    y = y - y.mean()
    total = float((y**2).sum())
    if total <= 0:
        return 0.0
    sums = np.bincount(group, weights=y)
    within = total - float((sums[counts > 0] ** 2 / counts[counts > 0]).sum())
    return float(np.sqrt(max(0.0, 1.0 - (within / (n - k)) / (total / (n - 1)))))


# ---- Random range queries: how wrong are the shares that an analyst would count in synthetic rows?


QUERIES = 1_000
MOST_COLUMNS = 3
STREAM = 17
MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One column within [low, high], both included; or, of categories, among the codes for which `among` is true."""

    column: int
    low: float = 0.0
    high: float = 0.0
    among: tuple[bool, ...] = ()

    def holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(rows,): a missing or undeclared value never satisfies a condition."""
        if not self.among:
            return (values >= self.low) & (values <= self.high)
        # One more place for undeclared values and one for missing ones.
        codes = np.where(np.isnan(values), len(self.among) + 1, values).astype(np.int64)
        return np.array([*self.among, False, False])[codes]

    def text(self, axis: Axis) -> str:
        if self.among:
            names = [level for level, wanted in zip(axis.levels, self.among, strict=True) if wanted]
            return f"{axis.name} in {{{', '.join(names[:MOST_NAMED])}{', ...' if len(names) > MOST_NAMED else ''}}}"
        if axis.kind == "ordinal":
            return f"{axis.name} from {axis.levels[int(self.low)]} to {axis.levels[int(self.high)]}"
        if axis.date:
            first, last = (str(np.datetime64(int(np.floor(end)), "D")) for end in (self.low, self.high))
            return f"{axis.name} from {first} to {last}"
        return f"{axis.name} from {self.low:g} to {self.high:g}"


def draw(axes: tuple[Axis, ...], count: int) -> list[tuple[Condition, ...]]:
    """Conjunctions of 1 to 3 columns, each number of columns equally likely; the same for the same axes.

    Ends of ranges are two independent uniform draws from the declared domain (bounds, categories), put in order; sets of
    categories hold each with chance 1/2, at least one and, of several, never all. Nothing depends on the rows.
    """
    rng = np.random.default_rng(STREAM)
    usable = [i for i, axis in enumerate(axes) if axis.kind == "number" or axis.levels]
    if not usable:
        return []
    made = []
    for _ in range(count):
        ways = int(rng.integers(1, min(MOST_COLUMNS, len(usable)) + 1))
        made.append(tuple(_condition(int(i), axes[i], rng) for i in rng.choice(usable, size=ways, replace=False)))
    return made


def shares(queries: list[tuple[Condition, ...]], table: Table) -> NDArray[np.float64]:
    """(queries,): the share of the table's rows that satisfy each. The table has at least one row."""
    columns = [np.ascontiguousarray(column) for column in table.values.T]
    found = np.empty(len(queries))
    for i, query in enumerate(queries):
        inside = query[0].holds(columns[query[0].column])
        for condition in query[1:]:
            inside &= condition.holds(columns[condition.column])
        found[i] = np.count_nonzero(inside) / table.rows
    return found


def range_error(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """{"mean", "sd", "n", "max"} of |share in synthetic - share in training rows| over 1,000 fixed queries (see `draw`).

    "floor": the same of the real test rows as if they were synthetic; "share": the mean share that the queries ask
    for, against which the error is to be read; "worst": the query of the largest error {"query", "synthetic", "train"}. None and
    the reason where no column can be asked for. No table may be empty.
    """
    queries = draw(train.axes, QUERIES)
    if not queries:
        return None, "no column has a domain to draw ranges from"
    s, t, v = (shares(queries, table) for table in (synthetic, train, test))
    worst = int(np.argmax(np.abs(s - t)))
    entry = over_sets(np.abs(s - t), np.abs(v - t))
    entry["share"] = float(t.mean())
    words = " and ".join(condition.text(train.axes[condition.column]) for condition in queries[worst])
    entry["worst"] = {"query": words, "synthetic": float(s[worst]), "train": float(t[worst])}
    return entry, None


def _condition(column: int, axis: Axis, rng: np.random.Generator) -> Condition:
    if axis.kind == "category":
        among = rng.random(len(axis.levels)) < 0.5
        if among.all() or not among.any():  # asks for nothing
            among[rng.integers(len(among))] ^= len(among) > 1 or not among.any()
        return Condition(column=column, among=tuple(bool(x) for x in among))
    if axis.kind == "ordinal":
        ends = rng.integers(0, len(axis.levels), size=2).astype(np.float64)
    elif axis.whole:
        ends = rng.integers(int(axis.low), int(axis.high) + 1, size=2).astype(np.float64)
    else:
        ends = rng.uniform(axis.low, axis.high, size=2)
    return Condition(column=column, low=float(ends.min()), high=float(ends.max()))
