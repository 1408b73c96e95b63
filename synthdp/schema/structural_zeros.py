"""Combinations of codes that rules exclude from linked tables, for a model that draws one column after another: structural zeros.

A rule such as {never: {person.sex: M, diagnosis.code: O80}} is kept by drawing the last of its columns from what the others leave it. That
needs two things. Each code must satisfy a condition with all of its values or with none: for a number or a date, the condition's ends must
be edges of its bins. And whatever the other columns are, all rules together must leave the last one a code. Rules of which this is not so
are counted by evaluation and no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import linked_tables
from synthdp.schema.columns import LEARN, OTHER, Boolean, Categorical, Column, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.rule_rows import Rows
from synthdp.schema.rules import Implies, Order, Rule
from synthdp.schema.tied_columns import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from synthdp.schema.history_view import View
    from synthdp.schema.linked_tables import Table
    from synthdp.schema.schema import Schema

Mask = NDArray[np.bool_]
Excluded = tuple[tuple[str, ...], Mask]  # other columns, and (their codes..., codes): what they exclude
MOST_CELLS = 1 << 22  # combinations of codes that are looked through


@dataclass(frozen=True, eq=False)
class Zeros:
    """What rules exclude, by the column that is drawn last."""

    by_last: Mapping[str, tuple[Excluded, ...]]  # whose masks have as many codes as the model has

    @classmethod
    def of(cls, schema: Schema, view: View) -> Zeros:
        """Of linked tables whose columns are drawn in the order of this view: the rules that are kept. None of other schemas."""
        if not schema.tables:
            return cls({})
        drawn = [*view.unit, view.order, *view.drawn]  # the targets last
        found: dict[str, tuple[Excluded, ...]] = {}
        above = _Search.of(schema)
        for place in schema.settled().honoured or ():
            above.keep(schema.rules[place])
        for search in (above, *(_Search.of_rows(schema, table) for table in schema.tables[2:])):
            for name, others, mask in search.excluded():
                names = (*others, name)
                if max(names, key=drawn.index) == name:  # rows below visits have codes for what is not there
                    more = [(0, view.sizes[each] - size) for each, size in zip(names, mask.shape, strict=True)]
                    found[name] = (*found.get(name, ()), (others, np.pad(mask, more)))
        return cls(found)

    def told(self, name: str) -> set[str]:
        """The columns on which it depends what a column cannot be."""
        return {other for others, _ in self.by_last.get(name, ()) for other in others}

    def closed(self, name: str, cells: Mapping[str, NDArray[Any]], rows: int) -> Mask | None:
        """(rows, codes): what a column cannot be in each row, given its columns drawn so far, `cells` (rows,); None where no rule excludes
        anything."""
        found: Mask | None = None
        for others, mask in self.by_last.get(name, ()):
            each = np.broadcast_to(mask[tuple(cells[other] for other in others)], (rows, mask.shape[-1]))
            found = each if found is None else found | each
        return found


def kept_of_people_and_visits(schema: Schema, places: Iterable[int]) -> tuple[int, ...]:
    """Which of these rules, by their places among all, can be kept together."""
    search = _Search.of(schema)
    return tuple(place for place in places if search.keep(schema.rules[place]))


def kept_of_rows(schema: Schema, table: Table) -> tuple[int, ...]:
    """Which of the rules of a table below visits, by their places, can be kept together: of all, or of those that it has as honoured."""
    kept = _Search.of_rows(schema, table).kept
    return tuple(place for place, rule in enumerate(table.rules) if rule in kept)


class _Search:
    """Takes rules one by one, in the order in which they are declared. `turns`: in which order columns are drawn, as far as that is known
    before anything is learned; the columns of a visit come in any order."""

    def __init__(self, schema: Schema, of: Schema, turns: Sequence[Sequence[str]], own: Sequence[str] = ()) -> None:
        self.linked, self.schema, self.turns, self.own = schema, of, turns, own
        self.held: dict[str, list[tuple[Excluded, Mask]]] = {}
        self.kept: list[Rule] = []

    @classmethod
    def of(cls, schema: Schema) -> _Search:
        """For rules on people and visits."""
        return cls(schema, schema, [*_turns(schema), *([name] for name in reversed(schema.targets))])

    @classmethod
    def of_rows(cls, schema: Schema, table: Table) -> _Search:
        """With the rules of a table below visits that can be kept. Its rows come before their visit's targets, and are not told by them."""
        own = [f"{table.name}.{name}" for name in linked_tables.learned_of(schema, table)]
        found = cls(schema, linked_tables.of_rows(schema, table), [*_turns(schema), *([name] for name in own)], own)
        for place, rule in enumerate(table.rules):
            if table.honoured is None or place in table.honoured:
                found.keep(rule)
        return found

    def excluded(self) -> Iterator[tuple[str, tuple[str, ...], Mask]]:
        """Columns that may be drawn last of those of a rule, the others, and (their codes..., codes): what they exclude."""
        for name, held in self.held.items():
            yield from ((name, others, mask) for (others, mask), _ in held)

    def keep(self, rule: Rule) -> bool:
        """Whether the rule can be kept beside those that are; then it is. One that puts visits after a date of the person, or before it, is
        kept by how visits are drawn."""
        if self.schema is self.linked and linked_tables.limit(self.linked, rule) is not None:
            self.kept.append(rule)
            return True
        before = self.held
        for part in _parts(rule):
            found = self._with(part)
            if found is None:
                self.held = before
                return False
            self.held = self.held | found
        self.kept.append(rule)
        return True

    def _with(self, rule: Rule) -> dict[str, list[tuple[Excluded, Mask]]] | None:
        """What rules then exclude of the columns of this one that may be drawn last; None if that may leave nothing."""
        at = [place for name in rule.columns for place, turn in enumerate(self.turns) if name in turn]
        if len(at) < len(rule.columns):
            return None
        last = [name for name in self.turns[max(at)] if name in rule.columns]
        if self.own and last[0] not in self.own:  # what a row says of its visit comes too late for it
            return None
        codes = None if self.linked.order in last else _Codes.of(self.schema, rule)
        if codes is None:
            return None
        found = {}
        for name in last:
            others = [each for each in rule.columns if each != name]
            found[name] = [
                *self.held.get(name, ()),
                ((tuple(others), codes.excluded([*others, name])), codes.sure[name]),
            ]
        return found if all(map(_leaves_something, found.values())) else None


def _parts(rule: Rule) -> list[Rule]:
    """The rules of one consequence each that say the same together."""
    if not isinstance(rule, Implies):
        return [rule]
    by_column = {name: tuple(each for each in rule.then if each.column == name) for name in rule.columns}
    return [replace(rule, then=then) for then in by_column.values() if then]


def _turns(schema: Schema) -> list[list[str]]:
    own = [name for name in linked_tables.of_visits(schema) if name not in schema.targets and name != schema.order]
    return [*([name] for name in schema.per_unit), [str(schema.order)], own]


def _leaves_something(held: Sequence[tuple[Excluded, Mask]]) -> bool:
    """Whether rules about one column, with the codes that it has in any case, leave one of these whatever the others are."""
    sizes: dict[str, int] = {}
    for (others, mask), _ in held:
        sizes |= dict(zip(others, mask.shape, strict=False))
    names, sure = list(sizes), held[0][1]
    if math.prod(sizes.values()) * len(sure) > MOST_CELLS:
        return False
    closed = np.zeros((*sizes.values(), len(sure)), np.bool_)
    for (others, mask), _ in held:
        order = sorted(range(len(others)), key=lambda place: names.index(others[place]))
        shape = [sizes[name] if name in others else 1 for name in names]
        closed |= mask.transpose([*order, len(others)]).reshape(*shape, len(sure))
    return not (closed | ~sure).all(-1).any()


@dataclass(frozen=True, eq=False)
class _Codes:
    """What a rule excludes, one axis for each of its columns; and of each column, which codes (codes,) it has whatever is learned."""

    rule: Rule
    mask: Mask
    sure: Mapping[str, Mask]

    @classmethod
    def of(cls, schema: Schema, rule: Rule) -> _Codes | None:
        """None where a code may satisfy a condition with some of its values alone, where values are still to be learned, or where there
        are too many combinations."""
        columns = {name: schema.column(name) for name in rule.columns}
        plain = all(isinstance(each, Boolean | Categorical | Ordinal) for each in columns.values())
        trees = any(isinstance(each, Categorical) and each.tree is not None for each in columns.values())
        if isinstance(rule, Order) and (trees or not plain):
            return None
        values = {name: _values(column) for name, column in columns.items()}
        found = {name: each for name, each in values.items() if each is not None}
        if len(found) < len(values) or math.prod(len(each.least) for each in found.values()) > MOST_CELLS:
            return None
        least, greatest = ({name: getattr(each, end) for name, each in found.items()} for end in ("least", "greatest"))
        if not plain:
            terms = (*rule.given, *rule.then) if isinstance(rule, Implies) else getattr(rule, "terms", None)
            if terms is None:
                return None
            both = [[Rows(ends[term.column], schema).holds(term)[0] for ends in (least, greatest)] for term in terms]
            if any((low != high).any() for low, high in both):
                return None
        mask = forbidden(rule, schema, least)
        shape = [len(least[name]) for name in rule.columns]
        return cls(rule, np.broadcast_to(mask, shape), {name: each.sure for name, each in found.items()})

    def excluded(self, names: Sequence[str]) -> Mask:
        """The mask with its axes in the order of these names."""
        return self.mask.transpose([self.rule.columns.index(name) for name in names])


@dataclass(frozen=True, eq=False)
class _Values:
    """The least and the greatest value of each code of a column, as frames; and which codes it has whatever is learned."""

    least: pd.DataFrame
    greatest: pd.DataFrame
    sure: Mask


def _values(column: Column) -> _Values | None:
    """None for values that are still to be learned, and for codes below a tree's nodes that are drawn at the end."""
    if isinstance(column, Integer | Continuous | Datetime):
        return None if LEARN in (column.bounds, column.bins) else _numbers(column)
    if not isinstance(column, Boolean | Categorical | Ordinal):
        return None
    labels: list[Any] = [False, True]
    sure: set[Any] = {False, True}
    if not isinstance(column, Boolean):
        tree = column.tree if isinstance(column, Categorical) else None
        labels = [] if column.categories == LEARN else list(column.categories)
        sure = set(labels)
        if tree is not None and tree.leaves:
            return None
        if not labels and tree is not None and tree.declared:
            other = getattr(column, "other", None) or OTHER
            labels, sure = list(dict.fromkeys([*tree.nodes, other])), {*tree.coarsest, other}
        if not labels:
            return None
    frame = pd.DataFrame({column.name: pd.Series([*labels, *[None] * column.missing], dtype=object)})
    return _Values(frame, frame, np.array([*(each in sure for each in labels), *[True] * column.missing]))


def _numbers(column: Integer | Continuous | Datetime) -> _Values:
    from synthdp.schema.bins import bins_of
    from synthdp.schema.coders import NumericCoder

    bins, coder = bins_of(column), NumericCoder(column)
    step = 1 if bins.scale is not None else 0
    ends = [
        bins.lowest(np.arange(bins.size, dtype=np.int32)),
        np.append(bins.edges[1 : bins.count + 1] - step, bins.atoms),
    ]
    if bins.scale is None:  # an interval of real numbers holds its upper edge if it is the last
        ends[1][: bins.count - 1] = np.nextafter(ends[1][: bins.count - 1], -np.inf)
    gone = np.arange(coder.size) >= bins.size
    frames = []
    for points in ends:
        points = np.append(points, points[:1].repeat(column.missing))
        frames.append(pd.DataFrame({column.name: pd.Series(coder.cells(points, gone))}))
    return _Values(frames[0], frames[1], np.ones(coder.size, np.bool_))
