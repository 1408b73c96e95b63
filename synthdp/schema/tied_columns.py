"""Which declared rules are kept by construction, and the columns that a model sees because of it.

Rules over labels make compounds (`compounds`), orders of two numbers or two instants make gaps (`gaps`). The others are counted
by evaluation and no more: those of other forms, those that touch a target (a label stays a column of its own) or a column of which
something is still to be learned, those of too many combinations, and those that contradict an earlier one. It is a function of
the declared schema, and a fit writes it into the schema of its release (`Schema.honoured`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.columns import Boolean, Categorical, Column, Ordinal
from synthdp.schema.ordered_columns import Gaps, numeric, tied
from synthdp.schema.rule_rows import Rows, breaking
from synthdp.schema.rules import Order, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from synthdp.schema.schema import Schema


# ---- Columns of labels that rules tie, coded together: one code per combination that the rules allow.
#
# Structural zeros and fixed combinations cannot come out of a model that has no code for them. A missing value is a label like any
# other here, and breaks no rule (`schema.rules`). Encoding is total: a combination that is not allowed becomes the allowed one that agrees
# with it in the most first columns.


Mask = NDArray[np.bool_]
MOST_CELLS = 1 << 18  # combinations that are looked through
MOST_CODES = 4_096  # combinations that are allowed
JOINT = " + "  # between the names of a compound's columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Compound:
    """`combinations` (codes, columns): the allowed codes of each column, in lexicographic order; `sizes`: of each column."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    combinations: NDArray[np.int32]

    @property
    def column(self) -> Categorical:
        """The column that a model sees in the place of all."""
        numbers = tuple(str(number) for number in range(len(self.combinations)))
        return Categorical(name=JOINT.join(self.names), categories=numbers)

    def encode(self, codes: NDArray[Any]) -> NDArray[np.int32]:
        """(rows,) for the codes (rows, columns) of the single columns."""
        known = np.ravel_multi_index(tuple(self.combinations.T), self.sizes)
        wanted = np.ravel_multi_index(tuple(np.asarray(codes).T), self.sizes)
        after = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        before = np.maximum(after - 1, 0)
        # Neighbours in lexicographic order agree in the most first columns.
        alike = [np.cumprod(self.combinations[place] == codes, axis=1).sum(axis=1) for place in (before, after)]
        found: NDArray[np.int32] = np.where(alike[0] >= alike[1], before, after).astype(np.int32)
        return found

    def decode(self, codes: NDArray[Any]) -> NDArray[np.int32]:
        """Codes (rows, columns) of the single columns."""
        found: NDArray[np.int32] = self.combinations[codes]
        return found


def compound(schema: Schema, rules: Sequence[Rule]) -> Compound | None:
    """The columns of these rules together; None where they are too many or leave nothing."""
    wanted = {name for rule in rules for name in rule.columns}
    columns = [column for column in schema.modelled if column.name in wanted]
    names, sizes = tuple(c.name for c in columns), tuple(_size(c) for c in columns)
    if math.prod(sizes) > MOST_CELLS or (len(names) > 1 and JOINT.join(names) in schema.names):
        return None
    kept = np.ones(sizes, np.bool_)
    for rule in rules:
        places = [names.index(name) for name in rule.columns]
        order = np.argsort(places)
        shape = [sizes[place] if place in places else 1 for place in range(len(names))]
        kept &= ~forbidden(rule, schema).transpose(order).reshape(shape)
    count = int(kept.sum())
    if not 1 <= count <= MOST_CODES:
        return None
    return Compound(names=names, sizes=sizes, combinations=np.argwhere(kept).astype(np.int32))


def labelled(column: Column) -> bool:
    """Whether a compound can hold it: its categories are declared."""
    return isinstance(column, Boolean) or (
        isinstance(column, Categorical | Ordinal) and not isinstance(column.categories, str)
    )


def forbidden(rule: Rule, schema: Schema, values: Mapping[str, pd.DataFrame] | None = None) -> Mask:
    """Which combinations of codes break the rule, one axis for each of its columns; as `rule_rows.broken` of their rows. `values`: by
    column, a frame with one value of each code; by default, its labels."""
    values = {name: _values(schema.column(name)) for name in rule.columns} if values is None else values
    return breaking(rule, Rows({name: values[name][name] for name in rule.columns}, schema, rule.columns))


def _values(column: Any) -> pd.DataFrame:
    labels = [False, True] if isinstance(column, Boolean) else list(column.categories)
    return pd.DataFrame({column.name: pd.Series([*labels, *[None] * column.missing], dtype=object)})


def _size(column: Any) -> int:
    return len(_values(column))


Edge = tuple[str, str, bool]  # lower, larger, whether it must be exceeded


@dataclass(frozen=True, kw_only=True, eq=False)
class Ties:
    """`honoured`: places of the rules that are kept; `columns`: what a model sees in the place of the modelled columns."""

    honoured: tuple[int, ...]
    compounds: tuple[Compound, ...]
    gaps: Gaps | None
    columns: tuple[Column, ...]


@lru_cache(maxsize=64)
def ties(schema: Schema) -> Ties:
    """The ties of a schema. Raises `BadInput` where a rule that its `honoured` names cannot be kept."""
    found = _Search(schema)
    for place in range(len(schema.rules)) if schema.honoured is None else schema.honoured:
        if not found.keep(place) and schema.honoured is not None:
            raise BadInput(
                f"schema: honoured names the rule {schema.rules[place].text!r}, which cannot be kept by construction; remove it "
                "from that list"
            )
    return Ties(
        honoured=tuple(found.held),
        compounds=tuple(made for _, made in found.parts),
        gaps=found.gaps,
        columns=tuple(found.columns()),
    )


class _Search:
    """Takes rules one by one, in the order in which they are declared."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.held: list[int] = []
        self.parts: list[tuple[tuple[Rule, ...], Compound]] = []
        self.edges: list[Edge] = []
        self.gaps: Gaps | None = None

    def keep(self, place: int) -> bool:
        """Whether the rule can be kept beside those that are; then it is."""
        rule = self.schema.rules[place]
        columns = [self.schema.column(name) for name in rule.columns]
        if set(rule.columns) & set(self.schema.targets):
            return False
        kept = False
        if all(map(labelled, columns)):
            kept = self._together(rule)
        elif isinstance(rule, Order) and rule.op != "=" and all(map(numeric, columns)):
            kept = self._ordered(rule)
        if kept:
            self.held.append(place)
        return kept

    def _together(self, rule: Rule) -> bool:
        near = [part for part in self.parts if set(part[1].names) & set(rule.columns)]
        rules = (*(each for part in near for each in part[0]), rule)
        made = compound(self.schema, rules)
        if made is None:
            return False
        self.parts = [part for part in self.parts if part not in near] + [(rules, made)]
        return True

    def _ordered(self, rule: Order) -> bool:
        up = rule.op in ("<", "<=")
        edge = (rule.left if up else rule.right, rule.right if up else rule.left, rule.op in ("<", ">"))
        columns: Any = {name: self.schema.column(name) for edge in (*self.edges, edge) for name in edge[:2]}
        made = tied(columns, (*self.edges, edge))
        if made is None:
            return False
        self.edges.append(edge)
        self.gaps = made
        return True

    def columns(self) -> Sequence[Column]:
        firsts = {made.names[0]: made.column for _, made in self.parts}
        inside = {name for _, made in self.parts for name in made.names}
        gaps = {} if self.gaps is None else {name: gap.column for name, gap in self.gaps.gaps.items()}
        found: list[Column] = []
        for column in self.schema.modelled:
            if column.name in firsts:
                found.append(firsts[column.name])
            elif column.name not in inside:
                found.append(gaps.get(column.name, column))
        return found
