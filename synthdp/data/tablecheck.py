# ruff: noqa: PD003 - Ibis has isnull, and no isna
"""The steward's pre-check of a table that stays in its database: as `check`, in one pass, and only counts come back."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from synthdp.data import texts
from synthdp.data.coded import EPOCH, cells_of, check, instant, real, spelled_of
from synthdp.data.columns import (
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
from synthdp.data.schema import Schema
from synthdp.data.tables import Files, Opened, Query, Source, opened
from synthdp.errors import BadInput

if TYPE_CHECKING:
    import ibis
    import pandas as pd
    from ibis import Value

Rule = tuple[str, str, "Value"]  # column, what is wrong with a cell, whether it is


@contextmanager
def validated(schema: Schema, given: "pd.DataFrame | Source", invalid: str) -> "Iterator[pd.DataFrame | Opened]":
    """The frame, or the table opened while the block runs, after the pre-check."""
    if not isinstance(given, Files | Query):
        yield schema.validate(given, invalid=invalid)
        return
    with opened(given) as table:
        validate(schema, table, invalid)
        yield table


def validate(schema: Schema, table: "Opened", invalid: str) -> None:
    """Raises one `BadInput` that lists every problem: column, rule and count, never a cell's value. As `Schema.validate`."""
    if invalid not in ("error", "clamp"):
        raise BadInput(f"invalid must be error or clamp, got {invalid!r}")
    check(schema, table.expression, text=table.text)
    cells = texts.typed(table, schema)
    rules = list(_unreadable(schema, cells)) if table.text else []
    if invalid == "error":
        rules += [rule for column in schema.columns for rule in _broken(schema, cells, column, text=table.text)]
    if not rules:
        return
    import ibis

    sums = {f"r{number}": ibis.ifelse(broken, 1, 0).sum() for number, (_, _, broken) in enumerate(rules)}
    (row,) = table.rows(cells.aggregate(**sums)).to_pylist()
    found = [(name, rule, row[f"r{number}"] or 0) for number, (name, rule, _) in enumerate(rules)]
    problems = [
        f"column {name!r}: {'1 value is' if count == 1 else f'{count} values are'} {rule}"
        for name, rule, count in found
        if count
    ]
    if problems:
        raise BadInput("the table does not fit the schema: " + "; ".join(problems))


def _unreadable(schema: Schema, table: "ibis.Table") -> Iterator[Rule]:
    """Text that the frame's reader may understand and the database does not: refused also where content is clamped."""
    for column in schema.columns:
        if isinstance(column, Numeric):
            written = table[texts.written(column.name)]
            kind = "an ISO 8601 date or time" if isinstance(column, Datetime) else "a number"
            yield (
                column.name,
                f"perhaps {kind} in a form that is not read here (load the file into memory)",
                texts.odd(written, column),
            )


def _broken(schema: Schema, table: "ibis.Table", column: Column, *, text: bool) -> Iterator[Rule]:
    raw = table[texts.written(column.name)] if text else table[column.name]
    if isinstance(column, Identifier):
        if column.name == schema.unit:
            yield column.name, "missing in the unit column (whose records are they?)", raw.isnull()
        return
    if isinstance(column, Image):
        return
    if isinstance(column, Categorical | Ordinal | Boolean):
        gone = raw.isnull() | raw.isnan() if raw.type().is_floating() else raw.isnull()
        if isinstance(column, Boolean) or column.categories != LEARN:
            yield from _unknown(column, raw, gone, text=text)
    else:
        cell, gone = cells_of(table, column)
        if text:
            yield (
                column.name,
                "not ISO 8601 dates or times" if isinstance(column, Datetime) else "not numbers",
                cell.isnull() & ~raw.isnull(),
            )
            gone = raw.isnull() | (gone & ~cell.isnull())
        yield from _beyond(column, cell, gone)
    if not column.missing:
        yield column.name, "missing, where the schema does not allow it (missing: true would)", gone


def _unknown(column: Categorical | Ordinal | Boolean, raw: "Value", gone: "Value", *, text: bool) -> Iterator[Rule]:
    if getattr(column, "other", None) is not None:
        return
    known = list(spelled_of(column, raw.type(), text=text).codes)
    read = raw.lower() if isinstance(column, Boolean) and raw.type().is_string() else raw
    rule = "not true or false" if isinstance(column, Boolean) else "not one of the declared categories"
    yield column.name, rule, ~gone & ~read.isin(known) if known else ~gone


def _beyond(column: Numeric, cell: "Value", gone: "Value") -> Iterator[Rule]:
    if isinstance(column, Integer):
        finite = ~(gone | cell.isinf())
        yield column.name, "not whole", finite & (cell != cell.floor())
    if isinstance(column.bounds, str):
        return
    outside = f"outside the declared bounds [{column.bounds[0]}, {column.bounds[1]}]"
    if isinstance(column, Datetime):
        first, last = (EPOCH + timedelta(microseconds=microseconds(end)) for end in column.bounds)
        if cell.type().is_date():  # the first day that begins within the bounds
            first = first if first.time() == datetime.min.time() else first + timedelta(days=1)
        low, high = instant(cell, first), instant(cell, last)
    else:
        low, high = (real(end) for end in column.bounds)
    yield column.name, outside, ~gone & ((cell < low) | (cell > high))
