"""The steward's pre-check of a table before it is sealed. Its outcome is outside epsilon and stays in the hospital."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from synthdp import errors
from synthdp.errors import BadInput
from synthdp.schema import cells, linked_tables
from synthdp.schema.cells import Mask
from synthdp.schema.coders import is_picture
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Image,
    Integer,
    microseconds,
)
from synthdp.schema.linked_tables import Table
from synthdp.schema.schema import CLAMPED, Schema

Series: TypeAlias = "pd.Series[Any]"


UNFIT = "the table does not fit the schema"
UNKNOWN, UNTRUE = "not one of the declared categories", "not true or false"
TOO_LONG = "numbers so long that the type in which they are stored does not tell them apart (store codes as text or whole numbers)"
OUTSIDE = "outside the declared bounds"
NO_NUMBERS, NOT_WHOLE, OFF_STEP = "not numbers", "not whole", "not multiples of the declared step"
AS_TEXT = "numbers that are stored as text"
NO_INSTANTS = "not dates or times such as 2020-01-31 or 2020-01-31T08:00:00+01:00"
MISSING = "missing, which the schema does not allow (missing: true would allow it)"
# Of the first column of a table below visits.
NO_ROW = "missing, though the column says what a row is (leave such rows out)"
NO_ORDER = "missing, though the column says what follows what (leave such records out)"  # of the order column
NOBODY = "missing in the unit column, so nobody knows whose records these are"
ONE_FILE = "synthdp.read(path, schema) reads a file"
TABLES_IN_FILES = "synthdp.read_tables(folder, schema) reads the files of linked tables"
READ_AS = {
    NO_NUMBERS: "Numbers are read in the form 1234.5",
    AS_TEXT: "pandas.to_numeric makes numbers of a frame's column of text",
    UNTRUE: "Truth values are read as true/false, yes/no or 1/0",
}


def check(schema: Schema, frame: pd.DataFrame, invalid: str) -> pd.DataFrame:
    """See `Schema.validate`."""
    if invalid not in ("error", "clamp"):
        raise BadInput(f"invalid must be error or clamp, got {invalid!r}")
    if schema.tables:
        names = ", ".join(table.name for table in schema.tables)
        raise BadInput(
            f"the schema describes the linked tables {names}: give generator=histories a frame of each, as a mapping, or a folder with a "
            "file for each. Everything else takes a single table: join them, and describe the joined one"
        )
    if not isinstance(frame, pd.DataFrame):
        raise BadInput(f"expected a pandas DataFrame, got {type(frame).__name__}; {ONE_FILE} as one")
    problems = list(schema.column_problems(frame.columns)) or list(unit(schema, frame))
    if problems:
        raise BadInput(f"{UNFIT}: {'; '.join(problems)}")
    if invalid == "error":
        found = [
            (column.name, rule) for column in schema.columns for rule, _ in broken(schema, column, frame[column.name])
        ]
        if schema.reading is not None and any(_is_unread(schema, frame[name], name) for name, _ in found):
            names = ", ".join(map(repr, dict.fromkeys(name for name, _ in found)))
            raise BadInput(
                f"{UNFIT}: the cells of {names} are written in the way that `reading` declares for files, but frames must have "
                f"plain cells: {ONE_FILE} by its schema"
            )
        refuse(found)
    for column in schema.columns:
        warn_of_zone(column, zone_of(frame[column.name]))
    return frame[list(schema.names)]


def zone_of(series: Series) -> str | None:
    """The time zone of a column of instants; None where it has none."""
    zone = getattr(series.dtype, "tz", None) or getattr(getattr(series.dtype, "pyarrow_dtype", None), "tz", None)
    return None if zone is None else str(zone)


def warn_of_zone(column: Column, zone: str | None, remedy: str = "pandas: .dt.tz_localize(None)") -> None:
    """Warn where instants with a time zone are read as days: in UTC, midnight there may fall on the day before."""
    if isinstance(column, Datetime) and column.resolution == "day" and zone not in (None, "UTC"):
        warnings.warn(
            f"column {column.name!r}: days are counted in UTC, so midnight in {zone} may fall on another day. To keep local dates, "
            f"store the column without a time zone ({remedy})",
            UserWarning,
            stacklevel=errors.outside(),
        )


def warn_of_database_zone(column: Column) -> None:
    """Warn in the same way about a database type that keeps instants in UTC, but not the zone in which they were written."""
    warn_of_zone(column, "another time zone", f"SQL, for example: {column.name} AT TIME ZONE 'Europe/Berlin'")


def check_tables(schema: Schema, frames: Mapping[str, pd.DataFrame], invalid: str) -> dict[str, pd.DataFrame]:
    """See `Schema.validate_tables`."""
    wanted = [table.name for table in schema.tables]
    if not wanted:
        raise BadInput("the schema describes one table: give its frame, or declare linked tables under tables")
    if set(frames) != set(wanted):
        raise BadInput(
            f"{UNFIT}: it describes the tables {', '.join(map(repr, wanted))}, and those given are {', '.join(map(repr, frames))}"
        )
    found = {}
    for table in schema.tables:
        frame = frames[table.name]
        if isinstance(frame, pd.DataFrame):
            for key in linked_tables.keys_of(schema, table):
                if key in frame and cells.in_floats(frame[key].dtype):
                    raise BadInput(
                        f"table {table.name!r}: the key {key!r} is stored as {frame[key].dtype}, which cannot tell long numbers apart: "
                        "store text or whole numbers (pandas: Int64)"
                    )
        try:
            found[table.name] = check(linked_tables.of_table(schema, table), frame, invalid)
        except BadInput as error:
            raise BadInput(f"table {table.name!r}: {reworded(str(error), schema, table)}") from None
    return found


def never_missing(schema: Schema, table: Table) -> tuple[str | None, str]:
    """The column of a linked table for which a schema refuses missing: true, and the rule that its missing cells break."""
    return (table.order, NO_ORDER) if table.order is not None else (linked_tables.told_by(schema, table), NO_ROW)


def reworded(text: str, schema: Schema, table: Table) -> str:
    """A message about one table, changed to suit a linked one: it names the function that reads all of them, and does not advise
    missing: true where the schema refuses it."""
    name, rule = never_missing(schema, table)
    for how in ("as one", "by its schema"):
        text = text.replace(f"{ONE_FILE} {how}", TABLES_IN_FILES)
    return text.replace(of_column(name, MISSING), of_column(name, rule))


def of_column(name: str | None, rule: str) -> str:
    """What is said of a column in which some cells break a rule."""
    return f"column {name!r}: some values are {rule}"


def _is_unread(schema: Schema, series: Series, name: str) -> bool:
    """Whether most of a column is still in the coding of its file. Of what was read by it, few cells mean something else: bad ones."""
    if schema.reading is None or pd.api.types.is_numeric_dtype(series.dtype):
        return False
    coded = schema.reading.of(schema.column(name))
    held = series.dropna().unique()
    other = sum(isinstance(cell, str) and coded.plain(cell) not in (cell, None, cells.UNREADABLE) for cell in held)
    return 2 * other > len(held)


def refuse(broken: Iterable[tuple[str, str]]) -> None:
    """Raise `BadInput` that names the columns and the rules that they break, but neither how many cells do so nor which: the
    message may end in a pipeline's log."""
    found = list(broken)
    if not found:
        return
    problems = "; ".join(of_column(name, rule) for name, rule in found)
    rules = {rule for _, rule in found}
    said = [
        f"{UNFIT}: {problems}",
        "Correct the cells or the schema; the command synthdp check lists the records",
    ]
    said += [form for rule, form in READ_AS.items() if rule in rules]
    if all(rule == UNKNOWN or rule.startswith((OUTSIDE, OFF_STEP)) for rule in rules):
        said.append(f"To fit anyway, give invalid=clamp (in Python invalid='clamp'): {CLAMPED}")
    raise BadInput(". ".join(said))


def unit(schema: Schema, frame: pd.DataFrame) -> Iterator[str]:
    """A unit is named by text or whole numbers: two long numbers can be one float, and two patients one unit."""
    if schema.unit is not None and schema.unit in frame and cells.in_floats(frame[schema.unit].dtype):
        yield (
            f"the unit column {schema.unit!r} is stored as {frame[schema.unit].dtype}, which cannot tell long numbers apart (store "
            'text or whole numbers; pandas: dtype={"' + schema.unit + '": "Int64"} when reading)'
        )


def broken(schema: Schema, column: Column, series: Series) -> Iterator[tuple[str, Mask]]:
    """The rules that some cells of the column break, and which cells do."""
    return ((rule, cells_of) for rule, cells_of in _faults(schema, column, series) if cells_of.any())


def _faults(schema: Schema, column: Column, series: Series) -> Iterator[tuple[str, Mask]]:
    if isinstance(column, Identifier):
        if column.name == schema.unit:
            named = cells.texts(series)
            yield NOBODY, np.array([text is None or text == cells.UNREADABLE for text in named], np.bool_)
    elif isinstance(column, Image):
        absent = np.array([cell is None or cell is pd.NA or isinstance(cell, float) for cell in series], np.bool_)
        wrong = np.array([not is_picture(cell, column.shape) for cell in series], np.bool_)
        yield "missing", absent
        yield f"not uint8 arrays of {' x '.join(map(str, column.shape))}", wrong & ~absent
    elif isinstance(column, Integer | Continuous | Datetime):
        yield from _numeric(schema, column, series)
    else:
        yield from _labelled(schema, column, series)


def _labelled(schema: Schema, column: Any, series: Series) -> Iterator[tuple[str, Mask]]:
    found = _labels(column, series)
    if cells.in_floats(series.dtype):
        yield TOO_LONG, cells.labels(series, {cells.UNREADABLE: 0}) == 0
    if getattr(column, "other", None) is None:
        yield unread(schema, column) if isinstance(column, Boolean) else UNKNOWN, found == cells.UNKNOWN
    if not column.missing:
        yield MISSING, found == cells.MISSING


def merged(column: Categorical, series: Series) -> Mask:
    """The cells that count as `other`, since they are none of the declared categories."""
    found = _labels(column, series)
    return np.asarray(found == cells.UNKNOWN) & (column.other is not None)


def unread(schema: Schema, column: Column) -> str:
    """The rule that a cell breaks which is no number, date or truth value: it names the form that the schema's `reading` declares."""
    expected = None if schema.reading is None else schema.reading.of(column).expected
    if expected is not None:
        return f"not {expected}, as reading says"
    return NO_INSTANTS if isinstance(column, Datetime) else UNTRUE if isinstance(column, Boolean) else NO_NUMBERS


def _labels(column: Any, series: Series) -> Any:
    """What each cell says."""
    if isinstance(column, Boolean):
        return cells.labels(series, cells.TRUTHS, cells.truth)
    if isinstance(column, Categorical) and column.tree is not None and not isinstance(column.tree.codes, str):
        return cells.labels(series, cells.table_of(column.tree.codes or ()), cells.spelling(column))
    if isinstance(column, Categorical) and column.categories == "learn":
        return np.where(cells.missing(series), cells.MISSING, 0)
    return cells.labels(series, cells.table_of(column.categories), cells.spelling(column))


def _numeric(schema: Schema, column: Integer | Continuous | Datetime, series: Series) -> Iterator[tuple[str, Mask]]:
    dates = isinstance(column, Datetime)
    read = cells.instants(series) if dates else cells.numbers(series)
    there = ~read.missing & ~read.wrong
    values = np.where(there, read.cells, 0)
    as_text = (
        read.wrong & np.isfinite(read.cells) if unread(schema, column) == NO_NUMBERS else np.zeros_like(read.wrong)
    )
    yield unread(schema, column), read.wrong & ~as_text
    yield AS_TEXT, as_text
    if not column.missing:
        yield lacking(schema, column), read.missing
    if isinstance(column, Integer):
        finite = there & np.isfinite(values)
        yield NOT_WHOLE, finite & (values != np.rint(values))
        if column.step > 1:
            yield (
                between(column),
                finite & (values == np.rint(values)) & (np.where(finite, values, 0) % column.step != 0),
            )
    if not isinstance(column.bounds, str):
        low, high = (microseconds(end) for end in column.bounds) if isinstance(column, Datetime) else column.bounds
        yield outside(column), there & ((values < low) | (values > high))


def lacking(schema: Schema, column: Column) -> str:
    """The rule that a missing cell breaks in a column that allows none."""
    return NO_ORDER if column.name == schema.order else MISSING


def between(column: Integer) -> str:
    """The words of the rule that a declared step makes."""
    return f"{OFF_STEP} {column.step}"


def outside(column: Integer | Continuous | Datetime) -> str:
    """The rule that bounds are."""
    return f"{OUTSIDE} [{column.bounds[0]}, {column.bounds[1]}]"
