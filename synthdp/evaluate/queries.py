"""Random range queries: how wrong are the shares that an analyst would count in synthetic rows?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.fidelity import no_rows, over_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Axis, Table

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
    """(queries,): the share of the table's rows, of which there is at least one, that satisfy each."""
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
    the reason where a set is empty or no column can be asked for.
    """
    reason = no_rows(synthetic, train, test)
    queries = draw(train.axes, QUERIES) if reason is None else []
    if not queries:
        return None, reason or "no column has a domain to draw ranges from"
    s, t, v = (shares(queries, table) for table in (synthetic, train, test))
    worst = int(np.argmax(np.abs(s - t)))
    entry = over_sets([float(x) for x in np.abs(s - t)])
    entry["floor"] = over_sets([float(x) for x in np.abs(v - t)])
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
