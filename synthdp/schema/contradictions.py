"""Rules that no record with values in their columns can keep, alone or together, within the declared bounds and categories.

Found are contradictions between orders of columns, limits and lists of values, as far as intervals and sets of values tell: each
column has an interval, or a set of labels, which rules narrow until nothing changes. What is found is certain; not all is found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from synthdp.schema.columns import (
    LEARN,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Integer,
    Ordinal,
    microseconds,
)
from synthdp.schema.linked_tables import once
from synthdp.schema.rules import Implies, Never, Order, Rule, Term, Together, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from synthdp.schema.schema import Schema

MOST_RULES = 200  # of more nothing is told
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Contradiction(NamedTuple):
    """Rules that cannot hold together, none of which is needless for that. `given`: in records for which these terms hold."""

    rules: tuple[Rule, ...]
    given: tuple[Term, ...] = ()


def contradictions(schema: Schema) -> list[Contradiction]:
    """Those of all rules of a schema, of linked tables too; no rule is in two of them."""
    rules: list[Rule] = [*schema.rules]
    for table in schema.tables:
        rules += [*table.orders, *table.rules]
    columns = {column.name: column for column, _ in once(schema)}
    found: list[Contradiction] = []
    if len(rules) > MOST_RULES:
        return found
    givens = [rule.given for rule in rules if isinstance(rule, Implies) and rule.given]
    for given in dict.fromkeys([(), *givens]):
        if given and not _Narrowed.by((), given, columns).possible:
            continue  # there are no such records, which is nobody's mistake
        while not _Narrowed.by(rules, given, columns).possible:
            core = list(rules)
            for rule in rules:
                fewer = [each for each in core if each != rule]
                if not _Narrowed.by(fewer, given, columns).possible:
                    core = fewer
            found.append(Contradiction(tuple(core), given))
            rules = [rule for rule in rules if rule not in core]
    return found


@dataclass
class _Narrowed:
    """What rules leave of each column: `low` and `high` are the ends of numbers, dates and places of ordinals, each with whether it is
    excluded; `labels` are those of other columns, where they are known."""

    columns: Mapping[str, Column]
    low: dict[str, tuple[float, bool]] = field(default_factory=dict)
    high: dict[str, tuple[float, bool]] = field(default_factory=dict)
    labels: dict[str, set[Value]] = field(default_factory=dict)
    possible: bool = True

    @classmethod
    def by(cls, rules: Iterable[Rule], given: Sequence[Term], columns: Mapping[str, Column]) -> _Narrowed:
        found = cls(columns)
        for name, column in columns.items():
            found._begin(name, column)
        excluded = [rule.terms for rule in rules if isinstance(rule, Never)]
        orders: list[tuple[str, str, bool]] = []  # lower, larger, whether it must be exceeded
        equal: list[Order] = []
        for rule in rules:
            if isinstance(rule, Order):
                up = rule.op in ("<", "<=", "=")
                pair = (rule.left, rule.right) if up else (rule.right, rule.left)
                orders += [(*pair, rule.op in ("<", ">")), *([(*pair[::-1], False)] if rule.op == "=" else [])]
                equal += [rule] if rule.op == "=" else []
            elif isinstance(rule, Implies) and set(rule.given) <= set(given):
                found._all(rule.then)
            elif isinstance(rule, Together):
                for place, name in enumerate(rule.columns):
                    found._one_of(name, [row[place] for row in rule.allowed])
        found._all(given)
        found._order(orders, equal)
        while found.possible and found._exclude(excluded):
            found._order(orders, equal)
        return found

    def _begin(self, name: str, column: Column) -> None:
        ends: tuple[float, float] = (-math.inf, math.inf)
        if isinstance(column, Integer | Continuous) and column.bounds != LEARN:
            ends = (float(column.bounds[0]), float(column.bounds[1]))
        elif isinstance(column, Datetime) and column.bounds != LEARN:
            ends = (microseconds(column.bounds[0]), microseconds(column.bounds[1]))
        elif isinstance(column, Ordinal):
            ends = (0, len(column.categories) - 1)
        elif isinstance(column, Boolean):
            self.labels[name] = {False, True}
        elif isinstance(column, Categorical) and not (column.categories == LEARN or column.tree or column.other):
            self.labels[name] = {*column.categories}
        self.low[name], self.high[name] = (ends[0], False), (ends[1], False)

    def _number(self, name: str, value: Value) -> float:
        column = self.columns[name]
        if isinstance(column, Ordinal):
            return column.categories.index(str(value))
        return float(microseconds(value) if isinstance(column, Datetime) else value)

    def _all(self, terms: Iterable[Term]) -> None:
        for term in terms:
            if term.op == "in":
                self._one_of(term.column, term.constants)
            else:
                self._limit(term.column, term.op, self._number(term.column, term.constants[0]))

    def _exclude(self, excluded: Iterable[tuple[Term, ...]]) -> bool:
        """Of terms that never hold together, one where the others hold for certain: whether that narrows a column."""
        changed = False
        for terms in excluded:
            left = [term for term in terms if not self._certain(term)]
            if not left:
                self.possible = False
            elif len(left) == 1:
                changed |= self._not(left[0])
        return changed

    def _certain(self, term: Term) -> bool:
        """Whether it holds for all that is left of its column."""
        if term.op == "in":
            left = self.labels.get(term.column)
            return left is not None and left <= {*term.constants}
        value = self._number(term.column, term.constants[0])
        (low, above), (high, under) = self.low[term.column], self.high[term.column]
        return {
            ">": low > value or (low == value and above),
            ">=": low >= value,
            "<": high < value or (high == value and under),
            "<=": high <= value,
        }.get(term.op, low == high == value)

    def _not(self, term: Term) -> bool:
        """Whether it narrows the column."""
        if term.op in OPPOSITE:
            return self._limit(term.column, OPPOSITE[term.op], self._number(term.column, term.constants[0]))
        if term.op == "in" and term.column in self.labels:
            return self._labels(term.column, self.labels[term.column] - {*term.constants})
        return False

    def _one_of(self, name: str, values: Sequence[Value]) -> None:
        column = self.columns[name]
        if isinstance(column, Boolean | Categorical):
            if not (isinstance(column, Categorical) and column.tree is not None):
                self._labels(name, {*values} & self.labels.get(name, {*values}))
            return
        numbers = [self._number(name, value) for value in values]
        self._limit(name, ">=", min(numbers))
        self._limit(name, "<=", max(numbers))

    def _labels(self, name: str, left: set[Value]) -> bool:
        """Whether fewer are left than before."""
        changed = self.labels.get(name) != left
        self.labels[name] = left
        self.possible &= bool(left)
        return changed

    def _limit(self, name: str, op: str, value: float, *, excluded: bool = False) -> bool:
        """Whether it narrows the column."""
        excluded |= op in ("<", ">")
        if isinstance(self.columns[name], Integer | Ordinal) and math.isfinite(value):  # the next whole number
            whole = math.floor(value) + 1 if op[0] == ">" else math.ceil(value) - 1
            value = whole if excluded else math.ceil(value) if op[0] == ">" else math.floor(value)
            excluded = False
        ends, sign = (self.low, 1) if op[0] == ">" else (self.high, -1)
        changed = (sign * value, excluded) > (sign * ends[name][0], ends[name][1])
        if changed:
            ends[name] = (value, excluded)
        (low, above), (high, under) = self.low[name], self.high[name]
        self.possible &= low < high or (low == high and not above and not under)
        return changed

    def _order(self, orders: Sequence[tuple[str, str, bool]], equal: Sequence[Order]) -> None:
        above: dict[str, set[str]] = {}
        for lower, larger, _ in orders:
            above.setdefault(lower, set()).add(larger)
        if any(strict and lower in _reached(larger, above) for lower, larger, strict in orders):
            self.possible = False
        changed = True
        while changed and self.possible:
            changed = False
            for rule in equal:
                if isinstance(self.columns[rule.left], Categorical | Boolean):
                    sets = [self.labels[name] for name in rule.columns if name in self.labels]
                    both = set.intersection(*sets) if sets else set()
                    for name in rule.columns if sets else ():
                        changed |= self._labels(name, both)
            # Both ways, so that a chain settles at once, whichever way it is declared.
            for lower, larger, strict in (*orders, *reversed(orders)):
                (low, out), (high, too) = self.low[lower], self.high[larger]
                changed |= self._limit(larger, ">=", low, excluded=out or strict)
                changed |= self._limit(lower, "<=", high, excluded=too or strict)


def _reached(start: str, above: Mapping[str, set[str]]) -> set[str]:
    found, left = {start}, [start]
    while left:
        new = above.get(left.pop(), set()) - found
        found |= new
        left += new
    return found
