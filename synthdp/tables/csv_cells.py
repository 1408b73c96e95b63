"""The cells of a CSV file in DuckDB, read as `csvfile` reads them: marks of absence, harmless spellings, numbers, instants."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from synthdp.errors import BadInput
from synthdp.schema import cells, file_coding
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Integer,
    Ordinal,
    in_numbers,
)
from synthdp.schema.date_formats import MONTHS, DateFormat
from synthdp.schema.file_coding import TIMES_OF_DAY, Coded
from synthdp.schema.schema import Schema
from synthdp.tables.csvfile import ABSENT, known_and_marks, neutral

if TYPE_CHECKING:
    import ibis
    from ibis import Value

    from synthdp.tables.source import Opened

NUMBER, INSTANT = rf"^{cells.NUMBER}$", rf"^{cells.INSTANT}$"
HOUR, SECOND = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", r"[0-5][0-9](?:\.[0-9]{1,6})?Z?"
# Instants that the engine reads as they are.
PLAIN = rf"^{cells.YEAR}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{HOUR}(?::{SECOND})?)?$"
PARTS = (
    r"^([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:.([0-9:]+(?:\.[0-9]{1,6})?)[0-9]*(?:Z|([+-])([0-9]{2}):?([0-9]{2})?)?)?$"
)
WHOLE = (  # the spellings of whole numbers that `cells.whole` knows, and the plain one
    (r"^[+]?0*([0-9]+)([.]0*)?$", r"\1"),
    (r"^-0*([1-9][0-9]*)([.]0*)?$", r"-\1"),
    (r"^-0+([.]0*)?$", "0"),
)
HARMLESS, HARMLESS_NUMBER = r"^''*[=+\-@\t\r\x00]", r"^'[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


ODD = "unreadable"  # no number, no instant
EDGES_AFTER = r"[ \t\n\r\f\v\x{a0}]+$"
EDGES = r"^[ \t\n\r\f\v\x{a0}]+|[ \t\n\r\f\v\x{a0}]+$"  # `SPACE` at the ends of a cell


def typed(table: "Opened", schema: Schema) -> "ibis.Table":
    """The table with its columns as what they are; of a CSV file those of the schema, and beside them the texts of their cells (under
    `written`). Each cell is read once, however often it is compared."""
    if not table.text:
        return table.expression
    raw, reading = table.expression, schema.reading or file_coding.PLAIN
    texts = {column.name: present(raw[column.name], reading.of(column), table) for column in schema.columns}
    made = {column.name: read(texts[column.name], column) for column in schema.columns}
    beside = {written(name): cell for name, cell in texts.items()}
    if set(made) & set(beside):
        raise BadInput(f"columns named {written('NAME')!r} cannot be read from a database: rename them")
    return table.view(raw.select(**made, **beside))


def written(name: str) -> str:
    """Where the texts of a column are."""
    return f"text of {name}"


def read(cell: "Value", column: Column) -> "Value":
    """A text of `present` as what its column is: text, float64 or an instant; null where it is missing, or not readable as such."""
    if isinstance(column, Integer | Continuous):
        return _where(cell.re_search(NUMBER), cell).try_cast("float64")
    return _instant(cell) if isinstance(column, Datetime) else cell


def present(cell: "Value", coded: Coded, table: "Opened") -> "Value":
    """The text of a cell in the plain coding; null where it is missing."""
    column, cell = coded.column, _plain(cell, coded)
    if isinstance(column, Identifier):
        if table.neutralised:
            cell = _unmarked(cell)
        return _without(cell, ABSENT[:1])
    if not isinstance(column, Categorical | Ordinal):
        return _without(cell, ABSENT)
    return _without(cell, known_and_marks(column)[1])


def spelled(column: Categorical | Ordinal | Boolean, cell: "Value") -> "Value":
    """A cell of a label column in the spelling of its table: see `cells.spelling`."""
    if not cell.type().is_string() or not (isinstance(column, Boolean) or in_numbers(column)):
        return cell
    return _whole(cell).lower() if isinstance(column, Boolean) else _whole(cell)


def _whole(cell: "Value") -> "Value":
    """As `cells.whole`."""
    for pattern, canonical in WHOLE:
        cell = cell.re_replace(pattern, canonical)
    return cell


def _plain(cell: "Value", coded: Coded) -> "Value":
    """As `Coded.plain`, but what is not as declared is `ODD`."""
    import ibis

    if coded.is_plain:
        return cell
    if coded.reading.strip:
        cell = cell.re_replace(EDGES, "")
    cell = _without(cell, coded.missing)
    comma = coded.decimal == ","
    if coded.numeric:
        return _number(cell, coded)
    if coded.date is not None:
        return _iso(cell, coded.date)
    if coded.whole and comma:
        cell = ibis.ifelse(cell.re_search("^[+-]?[0-9]+,0*$"), cell.replace(",", "."), cell)
    harmless = _unmarked(cell)
    if coded.labels:
        whole = _whole(harmless)
        exact = ((harmless == code, label) for code, label in coded.labels.items())
        return ibis.cases(*exact, *((whole == code, label) for code, label in coded.labels.items()), else_=harmless)
    if coded.words and isinstance(coded.column, Boolean):
        found = spelled(coded.column, harmless)
        return ibis.cases(*((found == word, truth) for word, truth in coded.words.items()), else_=cell)
    return cell


def _unmarked(cell: "Value") -> "Value":
    """A cell as it was before it was made harmless: see `csvfile.restored`."""
    import ibis

    return ibis.ifelse(cell.re_search(HARMLESS) & ~cell.re_search(HARMLESS_NUMBER), cell.substr(1), cell)


def _number(cell: "Value", coded: Coded) -> "Value":
    """As `Coded.plain` of a number. Blank cells stay so."""
    import ibis

    blank, odd = cell == "", ibis.literal(ODD)
    wrong: list[Value] = []
    said = [(cell == text, ibis.literal(plain)) for text, plain in coded.numbers.items()]
    if coded.coding.time is not None:
        form, units, _ = TIMES_OF_DAY[coded.coding.time]
        pattern = f"^{form}$"
        parts = (cell.re_extract(pattern, place).try_cast("int64") * unit for place, unit in enumerate(units, 1))
        return ibis.cases((blank, cell), *said, (cell.re_search(pattern), sum(parts).cast("string")), else_=odd)
    sign, suffix = coded.coding.thousands, coded.coding.suffix
    number = cell
    if suffix is not None:
        bare = suffix.strip(file_coding.SPACE)
        wrong.append(~number.endswith(bare))
        number = number.substr(0, number.length() - len(bare)).re_replace(EDGES_AFTER, "")
        wrong.append(number == "")
    if sign is not None:
        wrong.append(number.contains(sign) & ~number.re_search(f"^{coded.in_thousands}$"))
        number = number.replace(sign, "")
    if coded.decimal == ",":
        wrong.append(number.contains("."))
        number = number.replace(",", ".")
    if not wrong and not said:
        return number
    return ibis.cases((blank, cell), *said, *((each, odd) for each in wrong), else_=number)


def _iso(cell: "Value", form: DateFormat) -> "Value":
    """A cell of a format of dates in ISO 8601; `ODD` where it is not of that format."""
    import ibis

    pattern = f"^{form.pattern}$"
    parts = {token: cell.re_extract(pattern, place) for place, token in enumerate(form.parts, 1)}
    if "mmm" in parts:
        named = parts["mmm"].upper()
        month = ibis.cases(*((named == name, f"{number:02d}") for number, name in enumerate(MONTHS, 1)), else_="00")
    else:
        month = parts["mm"] if "mm" in parts else parts["m"].lpad(2, "0")
    day = parts["dd"] if "dd" in parts else parts["d"].lpad(2, "0")
    if "yyyy" in parts:
        year = parts["yyyy"]
    else:
        last = form.latest or 0
        short = parts["yy"].try_cast("int64")
        year = (ibis.literal(last) - (ibis.literal(last + 100) - short) % 100).cast("string").lpad(4, "0")
    written: list[Value] = [year, ibis.literal("-"), month, ibis.literal("-"), day]
    for token, sign in (("HH", "T"), ("MM", ":"), ("SS", ":")):
        if "HH" in parts:
            written += [ibis.literal(sign), parts.get(token, ibis.literal("00"))]
    whole = written[0]
    for part in written[1:]:
        whole = whole.concat(part)
    return ibis.ifelse(
        cell.isnull() | (cell == ""), cell, ibis.ifelse(cell.re_search(pattern), whole, ibis.literal(ODD))
    )


def spellings(known: Sequence[str]) -> list[str]:
    """The texts that may stand for categories: themselves, and as `neutral` makes them harmless."""
    return list(dict.fromkeys(text for each in known for text in (each, neutral(each))))


def _instant(cell: "Value") -> "Value":
    """As `cells.instant`: what the engine reads otherwise, or not at all, is brought to a form that it reads."""
    import ibis

    odd = _where(cell.re_search(INSTANT), cell)
    local = odd.re_replace(PARTS, r"\1-\2-\3 \4").rstrip().try_cast("timestamp")
    hours, minutes = (odd.re_replace(PARTS, rf"\5\{part}").try_cast("int32").fill_null(0) for part in (6, 7))
    ahead = (hours * 60 + minutes).as_interval("m")
    return ibis.ifelse(cell.re_search(PLAIN), cell.try_cast("timestamp"), local - ahead)


def _without(cell: "Value", marks: Sequence[str]) -> "Value":
    """Looked up in a list: DuckDB would join a table of marks wherever the cell is used, which took most of the time of a query."""
    import ibis

    return _where(~ibis.array(list(marks)).contains(cell), cell) if marks else cell


def _where(held: "Value", cell: "Value") -> "Value":
    import ibis

    return ibis.ifelse(held, cell, ibis.null("string"))
