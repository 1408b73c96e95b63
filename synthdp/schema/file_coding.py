"""How the files of a table are written (`reading:` of a schema): a cell in the file's coding, and in the plain one, both ways.

The plain coding is what schemas without `reading` read: UTF-8, a decimal point, dates as in ISO 8601, true and false. A cell is
brought to it alone, by the schema and by nothing else (`Coded.plain`), and back when synthetic records are written (`csvfile.written`).
"""

import codecs
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from synthdp.errors import BadInput, about, check_keys
from synthdp.schema.columns import (
    MICROSECONDS,
    OTHER,
    TODO,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Integer,
    Ordinal,
    in_numbers,
    microseconds,
)
from synthdp.schema.date_formats import DateFormat

ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "cp1250", "iso8859-2", "utf-16")
SEPARATORS = (",", ";", "\t", "|")
NEWLINES = {"lf": "\n", "crlf": "\r\n"}  # how lines end: as on Linux and macOS, or as on Windows
POINTS = (".", ",")
THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")  # signs between thousands
_HOUR, _SIXTY = "([01]?[0-9]|2[0-3])", "([0-5][0-9])"
TIMES_OF_DAY = {  # by format: the cells, in which hours may lack their zero; what each part counts; the last number of a day
    **dict.fromkeys(("HH:MM", "H:MM"), (f"{_HOUR}:{_SIXTY}(?::00)?", (60, 1), 1439)),
    **dict.fromkeys(("HHhMM", "HhMM"), (f"{_HOUR}h{_SIXTY}", (60, 1), 1439)),
    **dict.fromkeys(("HH:MM:SS", "H:MM:SS"), (f"{_HOUR}:{_SIXTY}:{_SIXTY}", (3600, 60, 1), 86_399)),
}
SPACE = " \t\n\r\f\v\u00a0"  # around cells: what `strip` takes away
MOST_DECIMALS = 15
MOST_TITLE = 255  # letters; Stata keeps 80, SPSS 255, SAS 40
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)")
# After a number.
_SUFFIX = re.compile(
    rf"([{SPACE}][^0-9.,+\-'{SPACE}\x00]|[^0-9.,+\-'eE{SPACE}\x00]|[eE](?=[^\W\d_]))([^0-9.,+\-'\x00]{{0,10}}[^0-9.,+\-'{SPACE}\x00])?"
)
FORMULA = re.compile(r"'*[=+\-@\t\r\x00]")  # what a spreadsheet would run: see `csvfile.neutral`
STORED = re.compile(r"date|timestamp_(?:s|ms|ns)|u?int(?:8|16|32)|float32|decimal\(([0-9]{1,2}), ?([0-9]{1,2})\)")
NUMBERS = ("integer", "continuous")
OF_KINDS = {  # which parts of a column's coding belong to which kinds
    **dict.fromkeys(("date", "latest"), ("datetime",)),
    **dict.fromkeys(("places", "thousands", "suffix", "numbers"), NUMBERS),
    "words": ("boolean",),
    "labels": ("categorical", "ordinal"),
    "pattern": ("identifier",),
}
PARTS: dict[
    str, tuple[Callable[[Any], object], str]
] = {  # of a column's coding: whether a value fits, and what it must be
    "decimal": (lambda value: value in POINTS, " or ".join(map(repr, POINTS))),
    "time": (lambda value: value in tuple(TIMES_OF_DAY), " or ".join(map(repr, TIMES_OF_DAY))),
    "width": (lambda value: _is_whole(value) and 1 <= value <= MOST_TITLE, f"a whole number from 1 to {MOST_TITLE}"),
    "stored": (
        lambda value: is_stored(value),
        "date, timestamp_s, timestamp_ms, timestamp_ns, int8, int16, int32, uint8, uint16, uint32, float32, or decimal(10, 2) with up to "
        "38 digits, of which 2 are decimals",
    ),
    "places": (
        lambda value: _is_whole(value) and 0 <= value <= MOST_DECIMALS,
        f"a whole number from 0 to {MOST_DECIMALS}",
    ),
    "title": (
        lambda value: isinstance(value, str) and 0 < len(value) <= MOST_TITLE and value.isprintable(),
        f"text of at most {MOST_TITLE} characters on one line",
    ),
    "thousands": (lambda value: value in THOUSANDS, "a point, a comma, an apostrophe or a space"),
    "suffix": (
        lambda value: isinstance(value, str) and _SUFFIX.fullmatch(value),
        "text without digits or signs, such as % or ' mg'",
    ),
    "pattern": (
        lambda value: isinstance(value, str) and re.fullmatch("[^#]*#+[^#]*", value),
        "text with one run of #, which stands for digits, such as P#####",
    ),
}
DIGITS_OF_A_ROW = 4  # in the number of a key: which of a person's records it is
MOST_DIGITS = 38  # of a decimal type


@dataclass(frozen=True, kw_only=True)
class Coding:
    """How the cells of one column are written.

    `missing`: texts that say that a value is missing, beside the blank cell; synthetic records have the first of them. `date`: see
    `DateFormat`; `latest` with it. `words`: what is written for false and for true. `decimal`: the sign before decimals where it
    is not that of the file. `places`: so many decimals are always written. `thousands`: the sign between thousands, which a number
    may do without. `suffix`: what follows every number, such as % or " mg"; it is no part of the number, which stays as it is
    written. `pattern` of an identifier: what fresh ones look like, such as P#####, where # are digits. `labels`: (code, category)
    where cells hold codes, such as 1 for male; a mapping will do. `numbers`: (text, number) where cells hold texts in the place of
    numbers, such as <5 for 2.5; each number is an atom of its column. `time`: HH:MM, HHhMM or HH:MM:SS, where cells are times of
    day (H for hours without their zero); the numbers are minutes, or seconds, since midnight. `title`: what files of Stata, SPSS and
    SAS call the column. `width`: texts are padded with spaces to this many characters, as databases export CHAR(20). `stored`: the type of
    the column in Parquet files and databases (`STORED`), where it is not the usual one of its kind. `rows` of a key of linked tables, which
    files of schemas do not have: how many rows may be drawn of one row of the table above, table by table.
    """

    missing: tuple[str, ...] = ()
    date: str | None = None
    latest: int | None = None
    words: tuple[str, str] | None = None
    decimal: str | None = None
    places: int | None = None
    thousands: str | None = None
    suffix: str | None = None
    pattern: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, float], ...] = ()
    time: str | None = None
    title: str | None = None
    width: int | None = None
    stored: str | None = None
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing", _codes(self.missing))
        object.__setattr__(self, "labels", _labels(self.labels))
        for key in ("date", "latest", "decimal", "thousands", "numbers"):
            if getattr(self, key) == TODO:
                raise BadInput(f"{key} is still {TODO}: the cells do not decide it, so write it yourself")
        object.__setattr__(self, "numbers", _numbers(self.numbers))
        if self.date is not None and not isinstance(self.date, str):
            raise BadInput("date must be a format such as dd.mm.yyyy")
        if self.latest is not None and (self.date is None or not _is_whole(self.latest)):
            raise BadInput("latest is a year, and belongs to a date with years of two digits")
        if self.date is not None:
            DateFormat(self.date, self.latest)
        if self.words is not None:
            object.__setattr__(self, "words", _words(self.words))
        for key, (fits, rule) in PARTS.items():
            value = getattr(self, key)
            if value is not None and not fits(value):
                raise BadInput(f"{key} must be {rule}")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a table's files are written. It is public, and synthetic records are written the same way.

    `separator`, `encoding` (one of `ENCODINGS`) and `newline` (lf, crlf; either is read) apply to CSV files, `sheet` is the
    sheet of an Excel workbook (the first one by default). `decimal` is the sign before decimals. With `strip` the space around cells is
    taken away. `missing`: texts that say in every column that a value is missing, where they are not one of its categories. `columns`:
    (name, `Coding`) of columns that are written otherwise. `review` as that of columns.
    """

    encoding: str = "utf-8"
    separator: str = ","
    newline: str = "lf"
    sheet: str | None = None
    decimal: str = "."
    strip: bool = False
    missing: tuple[str, ...] = ()
    columns: tuple[tuple[str, Coding], ...] = ()
    review: bool = False

    def __post_init__(self) -> None:
        name = self.encoding.lower() if isinstance(self.encoding, str) else self.encoding
        object.__setattr__(self, "encoding", name)
        _one_of("reading: encoding", name, ENCODINGS)
        separator = "\t" if self.separator in ("tab", "\\t") else self.separator
        object.__setattr__(self, "separator", separator)
        _one_of("reading: separator", separator, SEPARATORS, "comma, semicolon, bar or tab")
        _one_of("reading: newline", self.newline, tuple(NEWLINES))
        if self.sheet is not None and (not isinstance(self.sheet, str) or not self.sheet):
            raise BadInput("reading: sheet must be the name of a sheet, as text")
        _one_of("reading: decimal", self.decimal, POINTS)
        for key in ("strip", "review"):
            if not isinstance(getattr(self, key), bool):
                raise BadInput(f"reading: {key} must be true or false")
        with about("reading"):
            object.__setattr__(self, "missing", _codes(self.missing))

    def coding(self, name: str) -> Coding:
        """How a column is written."""
        return next((coding for column, coding in self.columns if column == name), PLAIN_CODING)

    def of(self, column: Column) -> "Coded":
        """The way of a column's cells from the file and back."""
        return Coded(self, self.coding(column.name), column)

    def only(self, names: tuple[str, ...]) -> "Reading":
        """The same of a table with these columns."""
        return replace(self, columns=tuple(each for each in self.columns if each[0] in names))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form that `from_dict` reads back without loss."""
        found = _changed(self, "columns")
        return {
            **found,
            **({"columns": {name: _changed(coding) for name, coding in self.columns}} if self.columns else {}),
        }

    @classmethod
    def from_dict(cls, values: Any) -> "Reading":
        """Raises `BadInput` for what no reading has."""
        _check_keys("reading", values, cls)
        columns = values.get("columns") or {}
        if not isinstance(columns, Mapping):
            raise BadInput("reading: columns must map names of columns to how they are written")
        made = []
        for name, given in columns.items():
            _check_keys(f"reading: column {name!r}", given, Coding)
            with about(f"reading: column {name!r}"):
                made.append((name, Coding(**{key: _tuple(value) for key, value in given.items() if value is not None})))
        rest = {key: _tuple(value) for key, value in values.items() if key != "columns" and value is not None}
        return cls(columns=tuple(made), **rest)

    def check(self, columns: tuple[Column, ...], *, values: bool = False) -> None:
        """Raises `BadInput` where it does not fit the kinds of its schema's columns, or (`values`) what is declared of them."""
        for column in columns:
            coded = self.of(column)
            for fault in coded.faults_of_values() if values else coded.faults():
                raise BadInput(f"reading: column {column.name!r}: {fault}")


@dataclass(frozen=True)
class Coded:
    """The cells of a column in the file's coding and in the plain one."""

    reading: Reading
    coding: Coding
    column: Column

    @property
    def decimal(self) -> str:
        """The sign before decimals."""
        return self.coding.decimal or self.reading.decimal

    @property
    def missing(self) -> tuple[str, ...]:
        """The texts that say that a value is missing, beside those that always do."""
        known = getattr(self.column, "categories", ())
        files = [code for code in self.reading.missing if isinstance(known, str) or code not in known]
        files = [code for code in files if code not in self.labels]
        if isinstance(self.column, Boolean):
            files = [code for code in files if not self._is_truth(code)]
        return tuple(dict.fromkeys([*self.coding.missing, *files]))

    @property
    def numeric(self) -> bool:
        """Whether cells are read as numbers."""
        return isinstance(self.column, Integer | Continuous)

    @property
    def whole(self) -> bool:
        """Whether cells are labels that may be whole numbers, and are read so."""
        return isinstance(self.column, Boolean) or in_numbers(self.column) or bool(self.labels)

    @cached_property
    def date(self) -> DateFormat | None:
        """The format of dates, None for ISO 8601."""
        return None if self.coding.date is None else DateFormat(self.coding.date, self.coding.latest)

    @property
    def words(self) -> dict[str, str]:
        """The words for truth values, as `cells.truth` spells them, and their plain ones."""
        if self.coding.words is None:
            return {}
        return dict(zip(map(self._truth, self.coding.words), ("false", "true"), strict=True))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The category of each code."""
        return dict(self.coding.labels)

    @cached_property
    def _code_of(self) -> dict[str, str]:
        return {label: code for code, label in reversed(self.coding.labels)}

    def code(self, category: str) -> str:
        """What is written for a category: the first code of that label, or the category itself."""
        return self._code_of.get(category, category)

    @cached_property
    def numbers(self) -> dict[str, str]:
        """The number, in the plain coding, of each text that stands for one."""
        return {text: repr(number) for text, number in self.coding.numbers}

    @cached_property
    def text_of(self) -> dict[float, str]:
        """The text that is written in the place of a number: the first one that stands for it."""
        return {float(number): text for text, number in reversed(self.coding.numbers)}

    @property
    def expected(self) -> str | None:
        """What cells that hold something are, where the form of them is declared; None in the plain coding."""
        if self.coding.date is not None:
            return f"dates written {self.coding.date}"
        if self.coding.time is not None:
            return f"times of day written {self.coding.time}"
        if isinstance(self.column, Boolean):
            return None if self.coding.words is None else " or ".join(map(repr, self.coding.words))
        if not self.numeric or not (self.decimal == "," or self.coding.thousands or self.coding.suffix):
            return None
        decimals = f"{self.decimal}5" if isinstance(self.column, Continuous) else ""
        return f"numbers written 1{self.coding.thousands or ''}234{decimals}{self.coding.suffix or ''}"

    @property
    def is_plain(self) -> bool:
        """Whether every cell is in the plain coding already."""
        signs = self.coding.thousands or self.coding.suffix or self.coding.numbers or self.coding.time
        changed = self.reading.strip or self.missing or self.date or self.words or self.labels or signs
        return not changed and not (self.decimal == "," and (self.numeric or self.whole))

    def plain(self, text: str) -> str | None:
        """A cell in the plain coding; None where it says that the value is missing, `cells.UNREADABLE` where it is not as declared."""
        from synthdp.schema.cells import UNREADABLE

        if self.reading.strip:
            text = text.strip(SPACE)
        if text in self.missing or not text:
            return None if text in self.missing else text
        if self.numeric:
            number = self.numbers.get(text) or self._number(text)
            return UNREADABLE if number is None else number
        if self.date is not None:
            return self.date.iso(text) or UNREADABLE
        if isinstance(self.column, Boolean) and self.words:
            return self.words.get(self._truth(text), text)
        if self.labels:
            return self.labels.get(text) or self.labels.get(_spelled(self._whole(text)), text)
        return self._whole(text) if self.whole else text

    def _number(self, text: str) -> str | None:
        """A number with a point before its decimals and nothing else; None where it is not written as declared."""
        if self.coding.time is not None:
            return self._since_midnight(text, self.coding.time)
        suffix, sign = self.coding.suffix, self.coding.thousands
        if suffix is not None:
            if not text.endswith(bare := suffix.strip(SPACE)):
                return None
            text = text[: -len(bare)].rstrip(SPACE)
            if not text:
                return None
        if sign is not None and sign in text:
            if not re.fullmatch(self.in_thousands, text):
                return None
            text = text.replace(sign, "")
        if self.decimal == ",":
            return None if "." in text else text.replace(",", ".")
        return text

    def _since_midnight(self, text: str, form: str) -> str | None:
        """A time of day as minutes, or as seconds where its format has them."""
        pattern, units, _ = TIMES_OF_DAY[form]
        match = re.fullmatch(pattern, text)
        return (
            None
            if match is None
            else str(sum(int(part) * unit for part, unit in zip(match.groups(), units, strict=True)))
        )

    @property
    def in_thousands(self) -> str:
        """A regular expression of the numbers that have signs between their thousands."""
        sign, point = re.escape(self.coding.thousands or ""), re.escape(self.decimal)
        return f"[+-]?[0-9]{{1,3}}({sign}[0-9]{{3}})+({point}[0-9]*)?"

    def number(self, text: str) -> str:
        """What is written for a number in the plain coding."""
        if self.coding.time is not None:
            (hour, *finer), number = TIMES_OF_DAY[self.coding.time][1], int(float(text))
            first = f"{number // hour:02d}" if self.coding.time.startswith("HH") else str(number // hour)
            return ("h" if "h" in self.coding.time else ":").join(
                [first, *(f"{number // unit % 60:02d}" for unit in finer)]
            )
        sign, suffix = self.coding.thousands, self.coding.suffix or ""
        whole, point, rest = text.partition(".")
        if sign is not None and (digits := whole.lstrip("-")).isdecimal():
            whole = whole[: len(whole) - len(digits)] + f"{int(digits):,}".replace(",", sign)
        return whole + (self.decimal if point else "") + rest + suffix

    def of_number(self) -> "Coded":
        """The same of cells that are numbers already: no sign belongs to them."""
        plain = replace(self.coding, decimal=None, thousands=None, suffix=None, time=None)
        return replace(self, reading=replace(self.reading, decimal="."), coding=plain)

    def _whole(self, text: str) -> str:
        return text.replace(",", ".") if self.decimal == "," and re.fullmatch("[+-]?[0-9]+,0*", text) else text

    def _truth(self, text: str) -> str:
        from synthdp.schema.cells import truth

        return truth(self._whole(text))

    def _is_truth(self, text: str) -> bool:
        from synthdp.schema.cells import TRUTHS

        return self._truth(text) in (self.words or TRUTHS)

    def named(self, text: Any) -> Any:
        """A fresh identifier (S000000001, or S000000001-02 of its second record) in the declared pattern; anything else as it is."""
        if (
            self.coding.pattern is None
            or not isinstance(text, str)
            or not re.fullmatch("S[0-9]{9,}(-[0-9]{2,})*", text)
        ):
            return text
        first, *further = text[1:].split("-")
        number = str(int(first)) + "".join(place.zfill(DIGITS_OF_A_ROW) for place in further)
        if len(further) == len(self.coding.rows):  # as few digits as tell all keys apart
            counted = int(first)
            for place, most in zip(further, self.coding.rows, strict=True):
                counted = (counted - 1) * most + int(place)
            number = str(counted)
        return re.sub("#+", lambda digits: number.zfill(len(digits[0])), self.coding.pattern)

    @property
    def absent(self) -> str:
        """What is written for a missing value."""
        return next(iter(self.missing), "")

    def faults(self) -> Iterator[str]:
        """Why the coding is not one of the column's kind."""
        from synthdp.schema import cells

        column, coding = self.column, self.coding
        for key, kinds in OF_KINDS.items():
            if getattr(coding, key) not in (None, ()) and (column.kind not in kinds or in_numbers(column)):
                texts = " whose categories are text" if key == "labels" else ""
                verb = "belong" if key.endswith("s") else "belongs"
                yield f"{key} {verb} to columns of kind {' or '.join(kinds)}{texts}, but this column is {column.kind}"
        if twice := [code for code in coding.missing if code in self.labels]:
            yield f"{twice[0]!r} has a label and is a code for missing values; it can mean only one of them"
        if coding.width is not None and (self.numeric or self.date is not None or not self.reading.strip):
            yield "width pads texts with spaces, which strip: true removes again; numbers and dates cannot have it"
        times = coding.stored is not None and coding.stored.startswith(("date", "timestamp"))
        if coding.stored is not None and times != isinstance(column, Datetime):
            yield f"stored: {coding.stored} is no type of a column of kind {column.kind}"
        if coding.stored == "date" and isinstance(column, Datetime) and column.resolution != "day":
            yield "stored: date belongs to a column with resolution: day; otherwise its times would be lost"
        if coding.time is not None and not isinstance(column, Integer):
            yield f"time belongs to columns of kind integer, which count minutes or seconds from midnight; this column is {column.kind}"
        if coding.time is not None and (coding.places or coding.thousands or coding.suffix or coding.decimal):
            yield "a time of day has no decimal, places, thousands or suffix; leave them out"
        for text, _ in coding.numbers:
            if (number := self._number(text)) is not None and cells.number(number) is not None:
                yield f"numbers: {text!r} is a number already; list only texts that are not numbers, such as <5"
        if twice := [text for text, _ in coding.numbers if text in self.missing]:
            yield f"{twice[0]!r} stands for a number and for a missing value; it can mean only one of them"
        if coding.thousands == self.decimal:
            yield f"{self.decimal!r} cannot stand both between thousands and before decimals"
        declared = MOST_DECIMALS + 1 if getattr(column, "decimals", 0) is None else getattr(column, "decimals", 0)
        if coding.places is not None and declared > coding.places:
            yield f"places: {coding.places} cuts numbers off; declare decimals: {coding.places} in columns too"
        if coding.missing and column.kind != "identifier" and not getattr(column, "missing", False):
            yield "missing lists codes, but the column allows no missing values; set missing: true in columns"
        if self.date is not None and isinstance(column, Datetime):  # noqa: SIM102
            if MICROSECONDS[column.resolution] < MICROSECONDS[self.date.resolution]:
                finest = self.date.resolution
                yield f"{self.date.text} cannot hold the declared resolution, {column.resolution}; declare resolution: {finest}"
        if coding.words is not None and len(self.words) < 2:
            yield "words must be two texts that differ in more than capitals, for false and for true"
        if isinstance(column, Boolean) and any(map(self._is_truth, coding.missing)):
            yield "missing lists a code that says true or false; it can mean only one of them"

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number that a cell can hold, given its two-digit years (microseconds since 1970), that it is a time of
        day, or its stored type."""
        column, coding = self.column, self.coding
        if isinstance(column, Datetime):
            if coding.latest is None:
                return -math.inf, math.inf
            first, last = microseconds(f"{coding.latest - 99:04d}-01-01"), microseconds(f"{coding.latest:04d}-12-31")
            return float(first), float(last + MICROSECONDS["day"] - MICROSECONDS[column.resolution])
        kind, step = STORED.fullmatch(coding.stored or "float32"), getattr(column, "step", 1)
        if coding.time is not None:
            low, high = 0, TIMES_OF_DAY[coding.time][2]
        elif kind is not None and "int" in kind[0]:
            sign, _, bits = kind[0].partition("int")
            low, high = (0, 2 ** int(bits) - 1) if sign else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1) - 1)
        elif kind is not None and kind[1] is not None:
            decimals = getattr(column, "decimals", 0)
            places = int(kind[2]) if decimals is None else min(int(kind[2]), decimals)
            most = 10.0 ** (int(kind[1]) - int(kind[2])) - (step if places == 0 else 10.0**-places)
            return -most, most
        else:
            return -math.inf, math.inf
        return -(-low // step) * step, high // step * step

    def faults_of_values(self) -> Iterator[str]:
        """How declared values contradict the coding: asked before a fit, since what it buys may be anything."""
        column = self.column
        if self.date is not None and isinstance(column, Datetime) and not isinstance(column.bounds, str):
            last = self.date.latest
            if last is not None and not all(last - 99 <= int(end[:4]) <= last for end in column.bounds):
                yield (
                    f"{self.date.text} with latest: {last} means the years {last - 99} to {last}, and the declared bounds lie beyond; "
                    "set latest to the last year that two digits mean, or declare bounds within these years"
                )
        if self.coding.time is not None:
            last = TIMES_OF_DAY[self.coding.time][2]
            bounds = getattr(column, "bounds", (0, last))
            if not isinstance(bounds, str) and not 0 <= bounds[0] <= bounds[1] <= last:
                yield f"times of day written as {self.coding.time} count from 0 to {last}; declare bounds: [0, {last}] or within"
        lacking_atoms = [number for _, number in self.coding.numbers if number not in getattr(column, "atoms", ())]
        if lacking_atoms:
            listed = ", ".join(repr(number) for number in lacking_atoms)
            yield f"numbers: a number for which texts stand needs a bin of its own; declare atoms: [{listed}] in columns too"
        known = getattr(column, "categories", ())
        for category in () if isinstance(known, str) else known:
            if self.reading.strip and category != category.strip(SPACE):
                yield f"category {category!r} has space around it, but strip: true removes the space around cells"
            try:
                codecs.encode(category, self.reading.encoding)
            except UnicodeError:
                yield f"category {category!r} cannot be written in {self.reading.encoding}"
        if self.labels and not isinstance(known, str):
            lacking = [category for category in known if category not in self._code_of]
            if lacking:
                yield f"labels have no code for the category {lacking[0]!r}; give each category one"
        for code in self.missing:
            if self._is_value(code):
                yield f"{code!r} is a value that the column may have and a code for missing values; it can mean only one of them"

    def _is_value(self, code: str) -> bool:
        """Whether a code for missing values would be one of the declared values."""
        from synthdp.schema import cells

        column = self.column
        if isinstance(column, Categorical) and isinstance(column.categories, str):  # what is learned may be anything
            return code == (column.other or OTHER)
        if isinstance(column, Categorical | Ordinal):
            return code in column.categories or (
                in_numbers(column) and cells.whole(self._whole(code)) in column.categories
            )
        if isinstance(column, Datetime):
            return cells.instant(code if self.date is None else self.date.iso(code) or "") is not None
        if not isinstance(column, Integer | Continuous):
            return False
        number = self._number(code)
        found = None if number is None else cells.number(number)
        return (
            found is not None and not isinstance(column.bounds, str) and column.bounds[0] <= found <= column.bounds[1]
        )


def _codes(given: Any) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str | int) and not isinstance(given, bool) else given
    if not isinstance(listed, list | tuple):
        raise BadInput("missing must be a list of texts, such as [NA, -9]")
    codes = []
    for code in listed:
        text = str(code) if _is_whole(code) else code
        if not isinstance(text, str):
            raise BadInput("missing must be a list of texts; put quotes around decimals, true, false and null")
        if text != text.strip(SPACE):
            raise BadInput("missing: no code may begin or end with a space")
        if FORMULA.match(text) and not _NUMBER.fullmatch(text) and text.strip("-"):
            raise BadInput(
                "missing: codes must not begin with = + - @ or ', unless they are numbers or consist of dashes"
            )
        codes.append(text)
    return tuple(dict.fromkeys(codes))


def _pairs(given: Any, rule: str) -> list[tuple[Any, Any]]:
    """What maps one thing to another, as a mapping or as pairs of a list."""
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise BadInput(rule)
    return [(one, other) for one, other in pairs]


def _labels(given: Any) -> tuple[tuple[str, str], ...]:
    rule = "labels must map codes to categories, such as {1: male, 2: female}"
    found: dict[str, str] = {}
    for code, label in _pairs(given, rule):
        text, said = (str(each) if _is_whole(each) else each for each in (code, label))
        if not isinstance(text, str) or not isinstance(said, str) or not text or not said:
            raise BadInput(f"{rule}; put quotes around decimals, true, false and null")
        if text != text.strip(SPACE) or (FORMULA.match(text) and not _NUMBER.fullmatch(text)):
            raise BadInput(
                "labels: no code may begin or end with a space, or begin with = + - @ or ', unless it is a number"
            )
        if text in found:
            raise BadInput(f"labels: the code {text!r} appears twice; keep one")
        found[text] = said
    return tuple(found.items())


def _numbers(given: Any) -> tuple[tuple[str, float], ...]:
    rule = 'numbers must map texts to the numbers that they stand for, such as {"<5": 2.5}'
    found: dict[str, float] = {}
    for text, number in _pairs(given, rule):
        fits = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < float("inf")
        if not fits or not isinstance(text, str) or not text:
            raise BadInput(rule)
        if text != text.strip(SPACE) or FORMULA.match(text):
            raise BadInput("numbers: no text may begin or end with a space, or begin with = + - @ or '")
        if text in found:
            raise BadInput(f"numbers: the text {text!r} appears twice; keep one")
        found[text] = number
    return tuple(found.items())


def _spelled(text: str) -> str:
    from synthdp.schema.cells import whole

    return whole(text)


def _words(given: Any) -> tuple[str, str]:
    listed = [str(word) if _is_whole(word) else word for word in given] if isinstance(given, list | tuple) else []
    if len(listed) != 2 or not all(isinstance(word, str) and word and word == word.strip(SPACE) for word in listed):
        raise BadInput('words must be two texts, for false and for true, such as ["No", "Yes"]')
    return listed[0], listed[1]


def _one_of(key: str, value: Any, allowed: tuple[str, ...], shown: str = "") -> None:
    if value not in allowed:
        raise BadInput(f"{key} must be {shown or ' or '.join(map(repr, allowed))}")


def is_stored(name: object) -> bool:
    """Whether it is the name of a type as `Coding.stored` has it."""
    found = STORED.fullmatch(name) if isinstance(name, str) else None
    if found is None or found[1] is None:
        return found is not None
    return 1 <= int(found[1]) <= MOST_DIGITS and int(found[2]) <= int(found[1])


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _changed(value: Any, *but: str) -> dict[str, Any]:
    found = {
        f.name: getattr(value, f.name)
        for f in fields(value)
        if f.name not in (*but, "rows") and getattr(value, f.name) != f.default
    }
    listed = {name: list(item) if isinstance(item, tuple) else item for name, item in found.items()}
    return {name: dict(item) if name in ("labels", "numbers") else item for name, item in listed.items()}


def _check_keys(where: str, values: Any, made: Any) -> None:
    known = [f.name for f in fields(made) if f.name != "rows"]
    if not isinstance(values, Mapping):
        raise BadInput(f"{where}: expected a mapping of {', '.join(known)}")
    check_keys(where, values, known)


PLAIN_CODING = Coding()
PLAIN = Reading()
