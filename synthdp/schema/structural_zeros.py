"""Structural zeros: combinations of codes that rules exclude from linked tables, for a model that draws one column after another.

A rule such as {never: {person.sex: M, diagnosis.code: O80}} is kept at the last of its columns that is drawn: the codes that the rule
excludes there, given the other columns, have no chance. Two conditions must hold:

- All values of a code satisfy a condition of the rule, or none does. The limits of a number or a date must therefore be edges of its bins,
  and a single value must be alone in its bin.
- Whatever codes the other columns have, all rules together leave the last column a code.

Evaluation counts how often rows break the other rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import linked_tables
from synthdp.schema.columns import LEARN, OTHER, Boolean, Categorical, Column, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.rule_rows import Rows
from synthdp.schema.rules import Implies, Order, Rule, Term
from synthdp.schema.tied_columns import forbidden

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from synthdp.schema.history_view import View
    from synthdp.schema.linked_tables import Table
    from synthdp.schema.schema import Schema

Mask = NDArray[np.bool_]
MOST_CELLS = 1 << 25  # combinations of codes; rules that need a larger mask are not kept
TOO_MANY = "it has too many combinations of codes"


class Excluded(NamedTuple):
    """The codes of a column that the codes of other columns exclude."""

    others: tuple[str, ...]
    mask: Mask  # (codes of each of the others..., codes of the column): true where they exclude the code


@dataclass(frozen=True, eq=False)
class Zeros:
    """The codes that rules exclude: by the last of a rule's columns that the model draws. The masks have as many codes as the model."""

    by_last: Mapping[str, tuple[Excluded, ...]]

    @classmethod
    def of(cls, schema: Schema, view: View) -> Zeros:
        """What the kept rules of linked tables exclude when columns are drawn in the order of this view; of other schemas, nothing."""
        if not schema.tables:
            return cls({})
        drawn = [*view.unit, view.order, *view.drawn]  # the targets last
        found: dict[str, tuple[Excluded, ...]] = {}
        of_visits = _Kept.of_people_and_visits(schema)
        for place in schema.settled().honoured or ():
            of_visits.keep(schema.rules[place])
        for kept in (of_visits, *(_Kept.of_rows(schema, table) for table in schema.tables[2:])):
            for name, excluded in kept.by_last.items():
                for others, mask in excluded:
                    names = (*others, name)
                    if max(names, key=drawn.index) == name:
                        # The model has more codes for rows below visits: those of rows and cells that are not there. No row has one.
                        more = [(0, view.sizes[each] - size) for each, size in zip(names, mask.shape, strict=True)]
                        none = [(False, False)] * len(others) + [(True, True)]
                        found[name] = (*found.get(name, ()), Excluded(others, np.pad(mask, more, constant_values=none)))
        return cls(found)

    def others(self, name: str) -> set[str]:
        """The columns whose codes exclude some of this column's codes."""
        return {other for others, _ in self.by_last.get(name, ()) for other in others}

    def closed(self, name: str, cells: Mapping[str, NDArray[Any]], rows: int) -> Mask | None:
        """(rows, codes): true where a row cannot have a code of this column, given the codes (rows,) of the columns drawn before, `cells`.
        None if no rule excludes any code of this column."""
        found: Mask | None = None
        for others, mask in self.by_last.get(name, ()):
            each = np.broadcast_to(mask[tuple(cells[other] for other in others)], (rows, mask.shape[-1]))
            found = each if found is None else found | each
        return found


def kept_of_people_and_visits(schema: Schema, places: Iterable[int]) -> tuple[int, ...]:
    """Those of the rules at these places that can be kept together, an earlier rule before a later one."""
    kept = _Kept.of_people_and_visits(schema)
    return tuple(place for place in places if kept.keep(schema.rules[place]))


def kept_of_rows(schema: Schema, table: Table) -> tuple[int, ...]:
    """The places of the rules of a table below visits that can be kept together: of those that it honours, or of all if it does not say."""
    kept = _Kept.of_rows(schema, table).rules
    return tuple(place for place, rule in enumerate(table.rules) if rule in kept)


def why_counted(schema: Schema) -> dict[Rule, str]:
    """Why the rules of linked tables that are only counted cannot be kept, in a few words each; if a schema says which rules it honours, of
    these."""
    kept = _Kept.of_people_and_visits(schema)
    for place in range(len(schema.rules)) if schema.honoured is None else schema.honoured:
        kept.keep(schema.rules[place])
    found = dict(kept.refused)
    for table in schema.tables[2:]:
        found |= _Kept.of_rows(schema, table).refused
    return found


class _Kept:
    """Rules that are kept together. They are added one by one, as they are declared, and a rule that cannot be kept beside the earlier
    ones is left out; `refused` says why.

    `turns` says in which order columns are drawn, as far as that is known before anything is learned. Columns of one turn, such as those of
    a visit, may come in any order. `own` are the columns of a table below visits, if the rules are about one. `by_last` has each rule under
    every column that may be drawn last.
    """

    def __init__(self, linked: Schema, schema: Schema, turns: Sequence[Sequence[str]], own: Sequence[str] = ()) -> None:
        self.linked, self.schema, self.turns, self.own = linked, schema, turns, own
        self.by_last: dict[str, list[Excluded]] = {}
        self.rules: list[Rule] = []
        self.refused: dict[Rule, str] = {}

    @classmethod
    def of_people_and_visits(cls, schema: Schema) -> _Kept:
        """No rule yet. Rules on people and visits may be added."""
        return cls(schema, schema, [*_turns(schema), *([name] for name in reversed(schema.targets))])

    @classmethod
    def of_rows(cls, schema: Schema, table: Table) -> _Kept:
        """The rules of a table below visits that can be kept. Its rows are drawn before the targets of their visit, so a rule that names a
        target is not among them."""
        own = [f"{table.name}.{name}" for name in linked_tables.learned_of(schema, table)]
        found = cls(schema, linked_tables.of_rows(schema, table), [*_turns(schema), *([name] for name in own)], own)
        for place, rule in enumerate(table.rules):
            if table.honoured is None or place in table.honoured:
                found.keep(rule)
        return found

    def keep(self, rule: Rule) -> bool:
        """Add the rule, if it can be kept beside the others, and say whether it was added. A rule that puts all visits after a date of the
        person, or before it, needs no mask: visits are drawn between such dates."""
        if self.schema is self.linked and linked_tables.limit(self.linked, rule) is not None:
            self.rules.append(rule)
            return True
        before = self.by_last
        for part in _parts(rule):
            changed = self._with(part)
            if isinstance(changed, str):
                self.by_last = before
                self.refused[rule] = changed
                return False
            self.by_last = self.by_last | changed
        self.rules.append(rule)
        return True

    def _with(self, rule: Rule) -> dict[str, list[Excluded]] | str:
        """By each column of this rule that may be drawn last: what rules exclude there, this one included; or why it cannot be kept."""
        turns = {name: place for place, turn in enumerate(self.turns) for name in turn}
        later = [name for name in rule.columns if name not in turns]
        if later:
            return f"the target {later[0]} is drawn after the rows of its visit"
        turn = max(turns[name] for name in rule.columns)
        last = [name for name in self.turns[turn] if name in rule.columns]
        if self.own and last[0] not in self.own:
            return f"{last[0]} is drawn before the rows that would restrict it"
        if self.linked.order in last:
            return "it restricts the date of a visit"
        codes = _Codes.of(self.schema, rule)
        if isinstance(codes, str):
            return codes
        found = {}
        for name in last:
            others = tuple(each for each in rule.columns if each != name)
            found[name] = [*self.by_last.get(name, ()), Excluded(others, codes.excluded([*others, name]))]
            if why := _hindrance(name, found[name], codes.certain[name]):
                return why
        return found


def _parts(rule: Rule) -> list[Rule]:
    """Rules with one column as their consequence, which together say the same."""
    if not isinstance(rule, Implies):
        return [rule]
    by_column = {name: tuple(each for each in rule.then if each.column == name) for name in rule.columns}
    return [replace(rule, then=then) for then in by_column.values() if then]


def _turns(schema: Schema) -> list[list[str]]:
    """The columns of people in their order, the date of the visit, and all other columns of visits but the targets."""
    own = [name for name in linked_tables.of_visits(schema) if name not in schema.targets and name != schema.order]
    return [*([name] for name in schema.per_unit), [str(schema.order)], own]


def _hindrance(name: str, rules: Sequence[Excluded], certain: Mask) -> str | None:
    """Why the last of these rules on a column cannot be kept beside the others; None if it can."""
    sizes: dict[str, int] = {}
    for others, mask in rules:
        sizes |= dict(zip(others, mask.shape, strict=False))
    if math.prod(sizes.values()) * len(certain) > MOST_CELLS:
        return f"{TOO_MANY}, those of earlier rules included"
    if _leave_a_code(sizes, rules, certain):
        return None
    if len(rules) > 1 and _hindrance(name, rules[-1:], certain) is None:
        return f"with the rules before it, it could leave {name} no value"
    return f"it could leave {name} no value{'' if certain.all() else ' once noise hides codes'}"


def _leave_a_code(sizes: Mapping[str, int], rules: Sequence[Excluded], certain: Mask) -> bool:
    """Whether these rules leave a column one of the codes that it is `certain` (codes,) to have, whatever codes the others have."""
    names = list(sizes)
    closed = np.zeros((*sizes.values(), len(certain)), np.bool_)
    for others, mask in rules:
        order = sorted(range(len(others)), key=lambda place: names.index(others[place]))
        shape = [sizes[name] if name in others else 1 for name in names]
        closed |= mask.transpose([*order, len(others)]).reshape(*shape, len(certain))
    return not (closed | ~certain).all(-1).any()


@dataclass(frozen=True, eq=False)
class _Codes:
    """The combinations of codes that a rule excludes."""

    rule: Rule
    mask: Mask  # one axis for each of the rule's columns
    certain: Mapping[str, Mask]  # by column (codes,): those that it has whatever a fit learns

    @classmethod
    def of(cls, schema: Schema, rule: Rule) -> _Codes | str:
        """Or why there are none: only some values of a code satisfy a condition, `_values` has none of a column, the rule compares numbers
        or dates of two columns or lists combinations of them, or there are too many combinations of codes."""
        return _codes(type(schema)(columns=tuple(schema.column(name) for name in rule.columns)), rule)

    def excluded(self, names: Sequence[str]) -> Mask:
        """The mask with its axes in the order of these names."""
        return self.mask.transpose([self.rule.columns.index(name) for name in names])


@lru_cache(maxsize=32)
def _codes(schema: Schema, rule: Rule) -> _Codes | str:
    """See `_Codes.of`; of a schema of the rule's columns. For a list of 100,000 codes it takes seconds, and a fit asks again and again."""
    columns = {name: schema.column(name) for name in rule.columns}
    plain = all(isinstance(each, Boolean | Categorical | Ordinal) for each in columns.values())
    trees = any(isinstance(each, Categorical) and each.tree is not None for each in columns.values())
    if isinstance(rule, Order) and (trees or not plain):
        return f"it compares two columns of {'codes with a tree' if trees else 'numbers or dates'}"
    values = {name: _values(column) for name, column in columns.items()}
    found = {name: each for name, each in values.items() if each is not None}
    if len(found) < len(values):
        name = next(name for name in values if name not in found)
        leaves = getattr(getattr(columns[name], "tree", None), "leaves", False)
        return f"{name} has {'leaves: true in its tree' if leaves else 'something to learn'}"
    if math.prod(len(each.least) for each in found.values()) > MOST_CELLS:
        return TOO_MANY
    least, greatest = ({name: getattr(each, end) for name, each in found.items()} for end in ("least", "greatest"))
    if not plain:
        terms = (*rule.given, *rule.then) if isinstance(rule, Implies) else getattr(rule, "terms", None)
        if terms is None:
            return "it lists combinations of numbers or dates"
        for term in terms:
            for limit in _limits(term, columns[term.column]):
                low, high = (Rows(ends[term.column], schema).holds(limit)[0] for ends in (least, greatest))
                if (low != high).any():
                    return f"{term.column} has no edge of its bins there"
    mask = forbidden(rule, schema, least)
    shape = [len(least[name]) for name in rule.columns]
    return _Codes(rule, np.broadcast_to(mask, shape), {name: each.certain for name, each in found.items()})


def _limits(term: Term, column: Column) -> list[Term]:
    """The conditions that the least and the greatest value of a code must answer alike if all its values are to answer `term` alike. A
    number or a date that must be one of several values may lie between the two, unless it is an atom, which has a code of its own."""
    if term.op != "in" or not isinstance(column, Integer | Continuous | Datetime):
        return [term]
    inside = [each for each in term.constants if each not in getattr(column, "atoms", ())]
    return [term, *(Term(column=term.column, op=op, constants=(each,)) for each in inside for op in (">=", ">"))]


@dataclass(frozen=True, eq=False)
class _Values:
    """The least and the greatest value of each code of a column, as frames of that column."""

    least: pd.DataFrame
    greatest: pd.DataFrame
    certain: Mask  # (codes,): those that the column has whatever a fit learns


def _values(column: Column) -> _Values | None:
    """None if its codes are still to be learned, or if it has a tree below whose nodes codes are drawn at the end (`leaves`)."""
    if isinstance(column, Integer | Continuous | Datetime):
        return None if LEARN in (column.bounds, column.bins) else _numbers(column)
    if isinstance(column, Boolean):
        return _labels(column, [False, True], {False, True})
    if not isinstance(column, Categorical | Ordinal):
        return None
    tree = column.tree if isinstance(column, Categorical) else None
    if tree is not None and tree.leaves:
        return None
    labels = [] if column.categories == LEARN else list(column.categories)
    if labels:
        return _labels(column, labels, set(labels))
    if tree is None or not tree.declared:
        return None
    other = getattr(column, "other", None) or OTHER
    labels = list(dict.fromkeys([*tree.nodes, other]))
    return _labels(column, labels, {other})  # noise may hide every node, or show all codes of one under finer ones


def _labels(column: Boolean | Categorical | Ordinal, labels: Sequence[Any], certain: Collection[Any]) -> _Values:
    """Each label is a code of one value. If cells may be missing, that is the last code; no rule excludes it."""
    frame = pd.DataFrame({column.name: pd.Series([*labels, *[None] * column.missing], dtype=object)})
    return _Values(frame, frame, np.array([*(each in certain for each in labels), *[True] * column.missing]))


def _numbers(column: Integer | Continuous | Datetime) -> _Values:
    """Each bin is a code whose values go from its lower edge to its upper one. If cells may be missing, that is the last code."""
    from synthdp.schema.bins import bins_of
    from synthdp.schema.coders import NumericCoder

    bins, coder = bins_of(column), NumericCoder(column)
    step = 1 if bins.scale is not None else 0
    ends = [
        bins.lowest(np.arange(bins.size, dtype=np.int32)),
        np.append(bins.edges[1 : bins.count + 1] - step, bins.atoms),
    ]
    if bins.scale is None:  # of intervals of real numbers, only the last holds its upper edge
        ends[1][: bins.count - 1] = np.nextafter(ends[1][: bins.count - 1], -np.inf)
    gone = np.arange(coder.size) >= bins.size
    frames = []
    for points in ends:
        points = np.append(points, points[:1].repeat(column.missing))
        frames.append(pd.DataFrame({column.name: pd.Series(coder.cells(points, gone))}))
    return _Values(frames[0], frames[1], np.ones(coder.size, np.bool_))
