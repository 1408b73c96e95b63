"""Which rows of a frame break a declared rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import Boolean, Categorical, Datetime, Ordinal, microseconds, on_grid
from synthdp.schema.rules import Implies, Never, Order, Rule, Term, Value
from synthdp.schema.trees import Codes as CodesOfTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from synthdp.schema.schema import Schema

    Mask = NDArray[np.bool_]

COMPARE: dict[str, Callable[[Any, Any], Mask]] = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    ">=": np.greater_equal,
    ">": np.greater,
}


def broken(rule: Rule, frame: pd.DataFrame, schema: Schema) -> Mask:
    """(rows,): whether each row breaks the rule. A missing or unreadable cell never does; see `rules`.

    Raises `BadInput` where the frame lacks a column of the rule.
    """
    absent = [name for name in rule.columns if name not in frame.columns]
    if absent:
        raise BadInput(f"rule {rule.text!r}: the rows have no column {absent[0]!r}")
    rows = Rows(frame, schema)
    if isinstance(rule, Order):
        return rows.disordered(rule)
    if isinstance(rule, Never):
        return rows.all_hold(rule.terms)
    if isinstance(rule, Implies):
        fails = np.zeros(len(frame), dtype=np.bool_)
        for term in rule.then:
            holds, known = rows.holds(term)
            fails |= known & ~holds
        return fails & rows.all_hold(rule.given)
    places = [rows.places(name, [row[i] for row in rule.allowed]) for i, name in enumerate(rule.columns)]
    whole: Mask = np.logical_and.reduce([known for _, known in places])
    return whole & ~_among(np.stack([place for place, _ in places], axis=1), rule.allowed)


class Rows:
    """A frame's cells as the schema reads them."""

    def __init__(self, frame: pd.DataFrame, schema: Schema) -> None:
        self.frame, self.schema = frame, schema

    def all_hold(self, terms: Sequence[Term]) -> Mask:
        """(rows,): whether every term is known to hold."""
        found = np.ones(len(self.frame), dtype=np.bool_)
        for term in terms:
            holds, known = self.holds(term)
            found &= holds & known
        return found

    def holds(self, term: Term) -> tuple[Mask, Mask]:
        """(rows,) twice: whether the term holds, and whether the cell is known."""
        if term.op == "in":
            place, known = self.places(term.column, term.constants)
            return place >= 0, known
        values, known = self._numbers(term.column)
        limit = term.constants[0]
        edge = microseconds(limit) if isinstance(self.schema.column(term.column), Datetime) else limit
        return COMPARE[term.op](values, edge), known

    def disordered(self, rule: Order) -> Mask:
        if isinstance(self.schema.column(rule.left), Categorical):
            a, b = (np.array(cells.texts(self.frame[name]), dtype=object) for name in rule.columns)
            differ: Mask = (a != None) & (b != None) & (a != b)  # noqa: E711 (cell by cell)
            return differ
        (a, known), (b, too) = (self._numbers(name) for name in rule.columns)
        return known & too & ~COMPARE[rule.op](a, b)

    def places(self, name: str, values: Sequence[Value]) -> tuple[NDArray[np.int64], Mask]:
        """(rows,) twice: the first place in values of each cell's value, -1 for none; whether the cell is known. For a code of a tree,
        it is the place of the finest value at or above the code."""
        column = self.schema.column(name)
        if isinstance(column, Categorical) and column.tree is not None:
            of_values = CodesOfTree(cells.table_of(tuple(dict.fromkeys(map(str, values)))), column.tree)
            codes = cells.labels(self.frame[name], of_values, cells.spelling(column))
            return np.maximum(codes, -1), codes != cells.MISSING
        if isinstance(column, Categorical | Ordinal):
            declared = () if column.categories == "learn" else column.categories
            words = tuple(dict.fromkeys([*map(str, values), *declared]))  # the first len(distinct) are of values
            codes = cells.labels(self.frame[name], cells.table_of(words), cells.spelling(column))
            other = getattr(column, "other", None)
            if other in words:
                codes = np.where(codes == cells.UNKNOWN, words.index(other), codes)
            known = codes != cells.MISSING
            return np.where(codes < len(set(values)), np.maximum(codes, -1), -1), known
        found, known = self._numbers(name)
        wanted = [microseconds(value) if isinstance(column, Datetime) else float(value) for value in values]
        distinct = np.array(list(dict.fromkeys(wanted)), dtype=found.dtype)
        order = np.argsort(distinct)
        at = order[np.minimum(np.searchsorted(distinct, found, sorter=order), len(distinct) - 1)]
        return np.where(known & (distinct[at] == found), at, -1), known

    def _numbers(self, name: str) -> tuple[NDArray[Any], Mask]:
        """(rows,) twice: the cells of a column whose values are numbers or have an order, dates at its resolution; whether each is
        known."""
        column, series = self.schema.column(name), self.frame[name]
        if isinstance(column, Boolean):
            codes = cells.labels(series, cells.TRUTHS, cells.truth)
            return codes.astype(np.float64), codes >= 0
        if isinstance(column, Ordinal):
            codes = cells.labels(series, cells.table_of(column.categories), cells.spelling(column))
            return codes.astype(np.float64), codes >= 0
        read = cells.instants(series) if isinstance(column, Datetime) else cells.numbers(series)
        known = ~(read.missing | read.wrong) if isinstance(column, Datetime) else ~np.isnan(read.cells)
        return on_grid(column, read.cells), known


def _among(rows: NDArray[np.int64], allowed: Sequence[Sequence[Value]]) -> Mask:
    """(rows,): whether each row of places is one of the allowed combinations, whose values the places count."""
    firsts = [list(dict.fromkeys(row[i] for row in allowed)) for i in range(rows.shape[1])]
    lookup = [{value: place for place, value in enumerate(values)} for values in firsts]
    wanted = np.array([[lookup[i][value] for i, value in enumerate(row)] for row in allowed], dtype=np.int64)
    _, number = np.unique(np.concatenate([wanted, rows]), axis=0, return_inverse=True)
    return np.isin(number[len(wanted) :], number[: len(wanted)])
