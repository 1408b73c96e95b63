"""Which rows of a frame break a declared rule."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import Boolean, Categorical, Datetime, Ordinal, microseconds, on_grid
from synthdp.schema.rules import Implies, Never, Order, Rule, Term, Together, Value
from synthdp.schema.trees import Codes as CodesOfTree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    return breaking(rule, Rows(frame, schema))


def breaking(rule: Rule, rows: Rows) -> Mask:
    """Which rows break the rule, or which combinations of the rows of its columns: see `Rows`."""
    if isinstance(rule, Order):
        return rows.disordered(rule)
    if isinstance(rule, Never):
        return rows.all_hold(rule.terms)
    if isinstance(rule, Implies):
        fails = np.zeros(1, np.bool_)
        for term in rule.then:
            holds, known = rows.holds(term)
            fails = fails | (known & ~holds)
        return fails & rows.all_hold(rule.given)
    return rows.not_among(rule)


class Rows:
    """A frame's cells as the schema reads them. With `axes` each of these columns has rows of its own, and what is told of several columns
    is told of all combinations of their rows, one axis for each column."""

    def __init__(
        self, frame: pd.DataFrame | Mapping[str, pd.Series[Any]], schema: Schema, axes: Sequence[str] = ()
    ) -> None:
        self.frame, self.schema, self.axes = frame, schema, axes

    def all_hold(self, terms: Sequence[Term]) -> Mask:
        """(rows,): whether every term is known to hold."""
        found: Mask = np.ones(1, np.bool_)
        for term in terms:
            holds, known = self.holds(term)
            found = found & holds & known
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
            texts = (np.array(cells.texts(self.frame[name]), dtype=object) for name in rule.columns)
            a, b = (self._along(name, each) for name, each in zip(rule.columns, texts, strict=True))
            differ: Mask = (a != None) & (b != None) & (a != b)  # noqa: E711 (cell by cell)
            return differ
        (a, known), (b, too) = (self._numbers(name) for name in rule.columns)
        return known & too & ~COMPARE[rule.op](a, b)

    def not_among(self, rule: Together) -> Mask:
        """(rows,): whether all cells are known and their combination is none that is allowed."""
        firsts = [list(dict.fromkeys(row[i] for row in rule.allowed)) for i in range(len(rule.columns))]
        found = [self.places(name, values) for name, values in zip(rule.columns, firsts, strict=True)]
        lookup = [{value: place for place, value in enumerate(values)} for values in firsts]
        wanted = np.array([[lookup[i][value] for i, value in enumerate(row)] for row in rule.allowed], dtype=np.int64)
        known: Mask = reduce(np.logical_and, (known for _, known in found))
        if self.axes:
            allowed = np.zeros([len(values) + 1 for values in firsts], np.bool_)  # the last place: none of them
            allowed[tuple(wanted.T)] = True
            return known & ~allowed[tuple(place for place, _ in found)]
        rows = np.stack([place for place, _ in found], axis=1)
        _, number = np.unique(np.concatenate([wanted, rows]), axis=0, return_inverse=True)
        return known & ~np.isin(number[len(wanted) :], number[: len(wanted)])

    def places(self, name: str, values: Sequence[Value]) -> tuple[NDArray[np.int64], Mask]:
        """As `_places`, along the column's axis."""
        place, known = self._places(name, values)
        return self._along(name, place), self._along(name, known)

    def _along(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape([-1 if each == name else 1 for each in self.axes]) if self.axes else values

    def _places(self, name: str, values: Sequence[Value]) -> tuple[NDArray[np.int64], Mask]:
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
        found, known = self._read(name)
        wanted = [microseconds(value) if isinstance(column, Datetime) else float(value) for value in values]
        distinct = np.array(list(dict.fromkeys(wanted)), dtype=found.dtype)
        order = np.argsort(distinct)
        at = order[np.minimum(np.searchsorted(distinct, found, sorter=order), len(distinct) - 1)]
        return np.where(known & (distinct[at] == found), at, -1), known

    def _numbers(self, name: str) -> tuple[NDArray[Any], Mask]:
        """As `_read`, along the column's axis."""
        found, known = self._read(name)
        return self._along(name, found), self._along(name, known)

    def _read(self, name: str) -> tuple[NDArray[Any], Mask]:
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
