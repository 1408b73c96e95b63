# ruff: noqa: PD003 - Ibis has isnull, and no isna
"""The steward's pre-check of a table that stays in its database: as `check`, in one pass, and only counts come back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from synthdp.errors import BadInput
from synthdp.schema.check import (
    NOBODY,
    NOT_WHOLE,
    TOO_LONG,
    UNKNOWN,
    between,
    lacking,
    outside,
    refuse,
    reworded,
    unread,
    warn_of_database_zone,
)
from synthdp.schema.columns import (
    EXACT,
    LEARN,
    Boolean,
    Categorical,
    Column,
    Datetime,
    Identifier,
    Image,
    Integer,
    Numeric,
    Ordinal,
    microseconds,
)
from synthdp.schema.linked_tables import of_table
from synthdp.schema.schema import Schema
from synthdp.tables import csv_cells
from synthdp.tables.coded import EPOCH, cells_of, check, check_linked, exact, instant, longest, real, spelled_of
from synthdp.tables.source import DidNotAnswer, Files, Opened, Query, Source, check_lines, opened

if TYPE_CHECKING:
    import ibis
    import pandas as pd
    from ibis import Value

Rule = tuple[str, str, "Value"]  # column, what is wrong with its cells, of which cells it is true
ALLOWED = ""  # a rule that the schema allows to break


@contextmanager
def validated(
    schema: Schema, given: "pd.DataFrame | Mapping[str, pd.DataFrame] | Source", invalid: str
) -> "Iterator[pd.DataFrame | Mapping[str, pd.DataFrame] | Opened]":
    """The frame, or those of linked tables, or the table opened while the block runs, after the pre-check."""
    if isinstance(given, Mapping):
        yield schema.validate_tables(given, invalid)
        return
    if not isinstance(given, Files | Query):
        yield schema.validate(given, invalid=invalid)
        return
    with opened(given, schema.reading) as table:
        try:
            _validate_each(schema, table, invalid)
        except DidNotAnswer:
            if isinstance(given, Files):  # its own words may hold cells
                check_lines(given, schema.reading)
            raise
        yield table


def _validate_each(schema: Schema, table: "Opened", invalid: str) -> None:
    """The table, or each of several linked ones."""
    if not schema.tables:
        validate(schema, table, invalid)
        return
    check_linked(schema, table.tables)
    for each in schema.tables:
        try:
            validate(of_table(schema, each), replace(table, expression=table.tables[each.name]), invalid)
        except DidNotAnswer:
            raise
        except BadInput as error:
            raise BadInput(f"table {each.name!r}: {reworded(str(error), schema, each)}") from None


def validate(schema: Schema, table: "Opened", invalid: str) -> None:
    """Raises one `BadInput` that lists every problem: column and rule, never a cell's value or a count. As `Schema.validate`.

    Where content is clamped the records are read all the same, so that a file which cannot be read is refused before any charge.
    """
    if invalid not in ("error", "clamp"):
        raise BadInput(f"invalid must be error or clamp, got {invalid!r}")
    check(schema, table.expression, text=table.text)
    cells = csv_cells.typed(table, schema)
    rules = [rule for column in schema.columns for rule in _broken(schema, cells, column, text=table.text)]
    import ibis

    broken = {f"r{number}": ibis.ifelse(cell, 1, 0).max() for number, (_, _, cell) in enumerate(rules)}
    (row,) = table.rows(cells.aggregate(**broken)).to_pylist() if rules else ({},)
    if invalid == "error":
        refuse((name, rule) for number, (name, rule, _) in enumerate(rules) if rule and row[f"r{number}"])
    for column in () if table.text else schema.columns:
        kind = table.expression[column.name].type()
        if kind.is_timestamp() and kind.timezone:
            warn_of_database_zone(column)


def _broken(schema: Schema, table: "ibis.Table", column: Column, *, text: bool) -> Iterator[Rule]:
    raw = table[csv_cells.written(column.name)] if text else table[column.name]
    if isinstance(column, Identifier):
        if column.name == schema.unit:
            yield column.name, NOBODY, raw.isnull()
        return
    if isinstance(column, Image):
        return
    if isinstance(column, Categorical | Ordinal | Boolean):
        gone = raw.isnull() | raw.isnan() if raw.type().is_floating() else raw.isnull()
        if isinstance(column, Boolean) or column.categories != LEARN:
            yield from _unknown(schema, column, raw, gone, text=text)
        yield column.name, ALLOWED if column.missing else lacking(schema, column), gone
        return
    cell, gone = cells_of(table, column)
    if text:
        unreadable = cell.isnull() & ~raw.isnull()
        yield column.name, unread(schema, column), unreadable
        gone = raw.isnull() | (gone & ~cell.isnull())
    yield column.name, ALLOWED if column.missing else lacking(schema, column), gone
    yield from _beyond(column, cell, gone)


def _unknown(
    schema: Schema, column: Categorical | Ordinal | Boolean, raw: "Value", gone: "Value", *, text: bool
) -> Iterator[Rule]:
    known = list(spelled_of(column, raw.type(), text=text).codes)
    read = csv_cells.spelled(column, raw)
    rule = (
        unread(schema, column)
        if isinstance(column, Boolean)
        else UNKNOWN
        if getattr(column, "other", None) is None
        else ALLOWED
    )
    read, known = exact(read, known, text=text)
    yield column.name, rule, ~gone & ~read.isin(known) if known else ~gone
    if raw.type().is_floating():
        yield column.name, TOO_LONG, ~gone & (raw.abs() > real(longest(raw.type())))


def _beyond(column: Numeric, cell: "Value", gone: "Value") -> Iterator[Rule]:
    if isinstance(column, Integer):
        import ibis

        finite = ibis.ifelse(gone | cell.isinf(), 0.0, cell).clip(-EXACT, EXACT)  # engines floor to 64 bits, or raise
        yield column.name, NOT_WHOLE, finite != finite.floor()
        if column.step > 1:
            # PostgreSQL raises where a quotient is too small.
            whole = ibis.ifelse(finite == finite.floor(), finite, 0.0)
            steps = whole / real(column.step)
            yield column.name, between(column), steps != steps.floor()
    if isinstance(column.bounds, str):
        return
    if isinstance(column, Datetime):
        first, last = (EPOCH + timedelta(microseconds=microseconds(end)) for end in column.bounds)
        if cell.type().is_date():  # the first day that begins within the bounds
            first = first if first.time() == datetime.min.time() else first + timedelta(days=1)
        low, high = instant(cell, first), instant(cell, last)
    else:
        low, high = (real(end) for end in column.bounds)
    yield column.name, outside(column), ~gone & ((cell < low) | (cell > high))
