"""Noisy tables of a unit's records in their order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from synthdp.errors import BadInput
from synthdp.schema.history_view import BROAD, UNIT_WEIGHT, View
from synthdp.schema.number_levels import LEVELS
from synthdp.schema.rows_below import AGAIN, LAST, PREVIOUS, ROW
from synthdp.seal.marginals import StackedTables, Table
from synthdp.seal.records import Records


@dataclass(frozen=True)
class HistoryTables(StackedTables):
    """One table per clique of a history's columns, every cell plus N(0, deviation^2) noise.

    With `clip` a record counts. A unit's records add up to one vector, stacked over all m tables, whose entries are how many of them lie in
    each cell; its norm is at least sqrt(m) and at most sqrt(m) times their number. All records of a unit weigh the same, min(1, C / n)
    with C = clip * sqrt(m), rounded down to whole millionths, where n is no less than that norm: so a unit more or less moves the tables by
    a vector of norm (C / n) * norm <= C. The square of n is a whole number, and so is what it is held against (`history_view.squares`,
    `weights`): nothing of this hangs on rounding, and the weighted counts add up exactly. n is a function of that unit's records alone. It
    takes cells that differ only in a target, or in what one was before, for one (`View.apart`), and those of at least half of the pairs of
    records too, which makes n larger, never less: squares of counts add up to no more than the square of their sum.

    Where a column has several codes of a record, they share its weight, rounded down; n takes the number of records for the norm of what a
    unit adds to such a table. With `rows` the rows of that table below records count. Each table then has its own bound, clip, so all m
    together have the bound C: a row weighs min(1, clip / n), rounded down in the same way. If the table holds the rows' code, n^2 is the
    sum over codes of the unit's squared number of rows, since rows of different codes lie in different cells. In any other table, where
    all may lie in one cell, n is the unit's number of rows (`history_view.row_squares`). Where `levels` says from which values of each code
    on the parts of a number begin, (column, its starts), rows of these have a column more. Where `broad` says which codes of a record's own
    column are taken together, (column, a place for each code), a record has a column more, `broad c`. Without `clip` a unit counts,
    once: as its first record tells it, with its number of records and the time from the last one to a date such as death: sqrt(m).
    """

    view: View
    cliques: tuple[tuple[str, ...], ...]
    noise: float
    clip: float | None = None
    rows: str = ""
    levels: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = field(default=(), metadata={"later": True})
    broad: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), metadata={"later": True})

    def __post_init__(self) -> None:
        ending = self.view.ending  # known of a unit alone
        of_records = tuple(name for name in self.view.sizes if name not in ending)
        known = (*self.view.of_unit, *ending) if self.clip is None else of_records
        every = {name for each in self.view.below for name in each.levels} - {name for name, _ in self.levels}
        every |= {each.table + of for each in self.view.below if each.table != self.rows for of in (ROW, LAST, AGAIN)}
        known = tuple(name for name in known if name.removeprefix(PREVIOUS) not in every)
        if any(not self._are_places(name, places) for name, places in self.broad):
            raise BadInput(
                "the places of broad columns must be whole numbers, one for each code of a record's own column"
            )
        known += tuple(BROAD + name for name, _ in self.broad)
        wrong = sorted({name for clique in self.cliques for name in clique} - set(known))
        if wrong or not all(self.cliques):
            raise BadInput(f"a history has no column {', '.join(map(repr, wrong))}; known: {', '.join(known)}")
        several = {
            start + name
            for each in self.view.below
            for name in (*each.columns, each.predictor)
            for start in ("", PREVIOUS)
            if each.table != self.rows or name not in each.columns or start + name == PREVIOUS + each.code
        }
        if any(sum(name in several for name in clique) > 1 for clique in self.cliques):
            raise BadInput("one column of a table may have several codes of a record")
        if self.rows and (self.clip is None or self.rows not in [each.table for each in self.view.below]):
            raise BadInput(f"a history has no rows of a table {self.rows!r} to be weighed")
        codes = {name: each.none for each in self.view.below if each.table == self.rows for name in each.levels}
        if any(not _are_starts(starts, codes.get(name)) for name, starts in self.levels):
            raise BadInput(
                "the starts of levels must be whole numbers, with the right number of them for each code of the rows"
            )
        if self.clip is not None and not (1 / UNIT_WEIGHT <= self.clip <= UNIT_WEIGHT):
            raise BadInput(f"clip must be a positive number of records, got {self.clip}")

    def _are_places(self, name: str, places: Sequence[int]) -> bool:
        """Whether these are plain whole numbers, below the number of codes, for each code of a column of records that count."""
        codes = self.view.sizes[name] if name in self.view.own and self.clip is not None and not self.rows else 0
        return len(places) == codes and all(type(place) is int and 0 <= place < codes for place in places)

    @property
    def codes(self) -> dict[str, int]:
        """Codes of every column, and places of the broad ones."""
        return self.view.sizes | {BROAD + name: max(places) + 1 for name, places in self.broad}

    @property
    def sensitivity(self) -> float:
        """clip * sqrt(m), or sqrt(m)."""
        return (1.0 if self.clip is None else self.clip) * math.sqrt(len(self.cliques))

    @property
    def meaning(self) -> int:
        """A version, raised when the same question starts to count differently. Before 1, all tables of rows shared one bound; before 2,
        the rows of a record stood in the order of their codes, which told alike records of one time apart; before 3, rows of
        one person that differ in a date such as death, within one of its bins, were alike."""
        return 3 if self.view.until else 2 if self.view.below else 0

    def bounded(self, records: Records) -> list[Table]:
        """Weighted counts, exact: one array per clique with one axis per column."""
        histories = getattr(records, "histories", None)  # in memory, or those of an `OrderedTable` in a database
        if histories is None or histories.view != self.view:
            raise BadInput(
                "only all records of a schema with unit and order have histories, by the view that the schema makes"
            )
        scale = 1 if self.clip is None else UNIT_WEIGHT
        levels = {name: np.array(starts, np.int64) for name, starts in self.levels}
        broad = {name: np.array(places, np.int64) for name, places in self.broad}
        return [table / scale for table in histories.tables(self.cliques, self.clip, self.rows, levels, broad)]


def _are_starts(starts: Sequence[Sequence[int]], codes: int | None) -> bool:
    """Whether these are plain whole numbers, `LEVELS` for each of so many codes; None where a column is no number of the rows."""
    return len(starts) == codes and all(
        len(each) == LEVELS and all(type(start) is int for start in each) for each in starts
    )
