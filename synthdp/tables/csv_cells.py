"""The cells of a CSV file in DuckDB, read as `csvfile` reads them: marks of absence, harmless spellings, numbers, instants."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import Categorical, Column, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.tables.csvfile import ABSENT, neutral
from synthdp.tables.csvfile import restored as plain

if TYPE_CHECKING:
    import ibis
    from ibis import Value

    from synthdp.tables.source import Opened

NUMBER, INSTANT = rf"^{cells.NUMBER}$", rf"^{cells.INSTANT}$"
HOUR, SECOND = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", r"[0-5][0-9](?:\.[0-9]{1,6})?Z?"
PLAIN = (
    rf"^{cells.YEAR}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{HOUR}(?::{SECOND})?)?$"  # instants that the engine reads as they are
)
PARTS = (
    r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:.([0-9:]+(?:\.[0-9]{1,6})?)[0-9]*(?:Z|([+-])([0-9]{2}):?([0-9]{2})?)?)?$"
)
HARMLESS, HARMLESS_NUMBER = r"^''*[=+\-@\t\r\x00]", r"^'[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def typed(table: "Opened", schema: Schema) -> "ibis.Table":
    """The table with its columns as what they are; of a CSV file those of the schema, and beside them the texts of their cells (under
    `written`). Each cell is read once, however often it is compared."""
    if not table.text:
        return table.expression
    raw = table.expression
    made = {column.name: read(raw[column.name], column) for column in schema.columns}
    beside = {written(column.name): present(raw[column.name], column) for column in schema.columns}
    if set(made) & set(beside):
        raise BadInput(f"columns named {written('NAME')!r} cannot be read from a database: rename them")
    return table.view(raw.select(**made, **beside))


def written(name: str) -> str:
    """Where the texts of a column are."""
    return f"text of {name}"


def read(cell: "Value", column: Column) -> "Value":
    """A cell as what its column is: text, float64 or an instant; null where it is missing, or not readable as such."""
    cell = present(cell, column)
    if isinstance(column, Integer | Continuous):
        return _where(cell.re_search(NUMBER), cell).try_cast("float64")
    return _instant(cell) if isinstance(column, Datetime) else cell


def present(cell: "Value", column: Column) -> "Value":
    """The text of a cell; null where it is missing."""
    if isinstance(column, Identifier):
        harmless = cell.re_search(HARMLESS) & ~cell.re_search(HARMLESS_NUMBER)
        return _without(harmless.ifelse(cell.substr(1), cell), ABSENT[:1])
    if not isinstance(column, Categorical | Ordinal):
        return _without(cell, ABSENT)
    known = () if column.categories == "learn" else column.categories
    return _without(cell, [mark for mark in (ABSENT if column.missing and known else ABSENT[:1]) if mark not in known])


def spellings(known: Sequence[str]) -> list[str]:
    """The texts that may stand for categories: themselves, and as `neutral` makes them harmless."""
    return list(dict.fromkeys(text for each in known for text in (each, neutral(each))))


def restored(text: str, known: Sequence[str]) -> str:
    """What a spelling stands for; a file of someone else may hold a category that only looks like one made harmless."""
    return text if text in known and plain(text) not in known else plain(text)


def _instant(cell: "Value") -> "Value":
    """As `cells.instant`: what the engine reads otherwise, or not at all, is brought to a form that it reads."""
    import ibis

    odd = _where(cell.re_search(INSTANT), cell)
    local = odd.re_replace(PARTS, r"\1-\2-\3 \4").rstrip().try_cast("timestamp")
    hours, minutes = (odd.re_replace(PARTS, rf"\5\{part}").try_cast("int32").fill_null(0) for part in (6, 7))
    ahead = (hours * 60 + minutes).as_interval("m")
    return ibis.ifelse(cell.re_search(PLAIN), cell.try_cast("timestamp"), local - ahead)


def _without(cell: "Value", marks: Sequence[str]) -> "Value":
    return _where(~cell.isin(marks), cell) if marks else cell


def _where(held: "Value", cell: "Value") -> "Value":
    import ibis

    return ibis.ifelse(held, cell, ibis.null("string"))
