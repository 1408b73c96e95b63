"""Which declared rules are kept by construction, and the columns that a model sees because of it.

Rules over labels make compounds (`compounds`), orders of two numbers or two instants make gaps (`gaps`). The others are counted
by evaluation and no more: those of other forms, those that touch a target (a label stays a column of its own) or a column of which
something is still to be learned, those of too many combinations, and those that contradict an earlier one. It is a function of
the declared schema, and a fit writes it into the schema of its release (`Schema.honoured`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.schema.columns import Column
from synthdp.schema.compounds import Compound, compound, labelled
from synthdp.schema.gaps import Gaps, numeric, tied
from synthdp.schema.rules import Order, Rule

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

Edge = tuple[str, str, bool]  # lower, larger, whether it must be exceeded


@dataclass(frozen=True, kw_only=True, eq=False)
class Ties:
    """`honoured`: places of the rules that are kept; `columns`: what a model sees in the place of the modelled columns."""

    honoured: tuple[int, ...]
    compounds: tuple[Compound, ...]
    gaps: Gaps | None
    columns: tuple[Column, ...]


@lru_cache(maxsize=64)
def ties(schema: "Schema") -> Ties:
    """The ties of a schema. Raises `BadInput` where a rule that its `honoured` names cannot be kept."""
    found = _Search(schema)
    for place in range(len(schema.rules)) if schema.honoured is None else schema.honoured:
        if not found.keep(place) and schema.honoured is not None:
            raise BadInput(
                f"schema: honoured names the rule {schema.rules[place].text!r}, which cannot be kept by construction (see "
                "data.ties for what can); take it off that list"
            )
    return Ties(
        honoured=tuple(found.held),
        compounds=tuple(made for _, made in found.parts),
        gaps=found.gaps,
        columns=tuple(found.columns()),
    )


class _Search:
    """Takes rules one by one, in the order in which they are declared."""

    def __init__(self, schema: "Schema") -> None:
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
