"""How a file is written, found by looking at all of it, for the draft of a schema: what cannot be decided is refused or left open.

What the cells of a column tell is found by `column_format.py`, by public lists: nothing that a record holds gets into a draft by
itself.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from synthdp.errors import BadInput
from synthdp.files import limits
from synthdp.schema import cells, odd_cells
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Integer
from synthdp.schema.file_coding import MOST_TITLE, NEWLINES, SEPARATORS, SPACE, Coding, Reading
from synthdp.schema.guesses import are_times
from synthdp.sets.column_format import MAY_BE_CODE, TEXTS, ColumnFormat, decimal_sign, values_of
from synthdp.tables import csv_lines, csvfile, excel, foreign
from synthdp.tables.foreign_parser import BLANK, DAY, INSTANT, NUMBER, TEXT


@dataclass(frozen=True, kw_only=True)
class Found:
    """A table as it was read, how it is written, and what the steward must look at. `open` has, of some columns, what is left `TODO`
    with the choices. `categories` of columns whose codes the file labels: they are the file's dictionary, and no fact of its records;
    those of `ordered` have an order. `others`: texts such as <5 among the numbers, dates or times of a column, at most 20 of each kind,
    which only the steward's eyes may see. `left_out`: columns whose types no kind can hold."""

    frame: "pd.DataFrame"
    reading: Reading | None
    said: str = ""
    mind: tuple[str, ...] = ()
    open: dict[str, dict[str, str]] = field(default_factory=dict)
    resolutions: dict[str, str] = field(default_factory=dict)
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()
    others: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()

    def lines(self) -> list[str]:
        """What is said of it on a terminal."""
        left = [
            f"open      column {name!r}: {key} is {text}"
            for name, each in self.open.items()
            for key, text in each.items()
        ]
        said = [f"reading   {self.said}"] if self.said else []
        mind = dict.fromkeys((*self.mind, *odd_cells.told(self.frame.drop(columns=[*self.left_out]))))
        return [*said, *(f"look at   {text}" for text in mind), *left]


def look(path: Path) -> Found:
    """The records of a CSV file, and how it is written. Raises `BadInput` with the number of the line that tells why it cannot be read."""
    if path.name.lower().endswith(".gz"):
        limits.check_unpacked(path)
    encoding, doubt = _encoding(path)
    separator = _separator(path, encoding)
    ends = csv_lines.ends(path, encoding)
    newline = max(NEWLINES, key=lambda name: ends[NEWLINES[name]])  # lf where there is neither
    reading = Reading(encoding=encoding, separator=separator, newline=newline)
    names, _ = csvfile.header(path, reading)
    table = csvfile.texts(path, names, separator, encoding)
    strip = any(name != name.strip(SPACE) for name in names) or any(_padded(column) for column in table.columns)
    names = csvfile.names_of(path, [name.strip(SPACE) for name in names] if strip else names, None)
    columns = [values_of(column, strip=strip) for column in table.columns]
    decimal = decimal_sign(columns)
    looks = [
        ColumnFormat(path, replace(reading, strip=strip, decimal=decimal), name, values)
        for name, values in zip(names, columns, strict=True)
    ]
    for each, column in zip(looks, table.columns, strict=True):
        if isinstance(each.column, Categorical):
            each.coding = replace(each.coding, width=_width(column))
    codings = tuple((each.name, each.coding) for each in looks if each.coding != Coding())
    whole = replace(reading, strip=strip, decimal=decimal, columns=codings)
    texts = [csvfile.plain_texts(table.column(place), whole.of(each.column)) for place, each in enumerate(looks)]
    found = _found(path, whole, looks, texts, _said(whole, looks))
    if doubt:
        found = replace(found, mind=(doubt, *found.mind))
    mixed = sum(count > 0 for count in ends.values()) > 1
    if mixed or ends["\r"]:
        how = "do not all end alike" if mixed else "end with a carriage return alone"
        text = f"lines {how}; synthetic files end every line with {newline.upper()}"
        found = replace(found, mind=(text, *found.mind))
    return found


def typed(path: Path, frame: "pd.DataFrame", facts: Mapping[str, Any] | None = None) -> Found:
    """The same of a table whose columns have types: whole numbers and texts that say true and false, and codes for missing values.
    `facts`: what a file of Stata or SPSS says of its columns (`foreign_parser.statistics`), or how those of a Parquet file or a database
    are `stored`."""
    facts = facts or {}
    beyond = facts.get("left_out", {})
    mind = [
        f"column {name!r}: left out, since no kind of column can hold its type ({kind}); if it is needed, store it as numbers or text"
        for name, kind in beyond.items()
    ]
    mind += [f"column {name!r}: is stored as {kind}" for name, kind in facts.get("lost", {}).items()]
    looks = {
        str(name): _of_type(path, str(name), frame[name], foreign.labels(facts, str(name)))
        for name in frame.columns.difference(list(beyond), sort=False)
    }
    mind += [text for look in looks.values() for text in look.mind]
    made = frame.assign(**{name: look.cells for name, look in looks.items() if look.cells is not None})
    codings = {name: look.coding for name, look in looks.items() if look.coding is not None}
    categories = {name: look.categories for name, look in looks.items() if look.categories is not None}
    left = {name: look.open for name, look in looks.items() if look.open is not None}
    for name, title in facts.get("titles", {}).items():
        plain = "".join(each if each.isprintable() else " " for each in title).strip()[:MOST_TITLE]
        if plain and name in made:
            codings[name] = replace(codings.get(name, Coding()), title=plain)
    for name, kind in facts.get("stored", {}).items():
        codings[name] = replace(codings.get(name, Coding()), stored=kind)
    codings = {name: coding for name, coding in codings.items() if coding != Coding()}
    strip = any(look.padded for look in looks.values())
    if not codings and not left and not strip:
        return Found(frame=made, reading=None, mind=tuple(mind), left_out=frozenset(beyond))
    reading = Reading(strip=strip, columns=tuple(codings.items()), review=True)
    codes = dict.fromkeys(code for coding in codings.values() for code in coding.missing if code)
    said = ["columns with types of their own"]
    said += [f"missing values as {', '.join(codes)} too"] if codes else []
    said += ["true and false as words or as 0 and 1"] if any(coding.words for coding in codings.values()) else []
    titles = sum(coding.title is not None for coding in codings.values())
    said += [f"labels of {titles} column{'s' * (titles > 1)}"] if titles else []
    said += [f"value labels of {len(categories)} column{'s' * (len(categories) > 1)}"] if categories else []
    said += ["space around cells"] if strip else []
    ordinal = {name for name, measure in facts.get("measures", {}).items() if measure == "ordinal"}
    return Found(
        frame=made,
        reading=reading,
        said="; ".join(said),
        mind=tuple(mind),
        categories=categories,
        ordered=frozenset(ordinal & categories.keys()),
        open=left,
        resolutions={name: look.resolution for name, look in looks.items() if look.resolution},
        others={name: look.others for name, look in looks.items() if look.others is not None},
        left_out=frozenset(beyond),
    )


@dataclass(kw_only=True)
class _Typed:
    """What is found of a column with a type, as in `Found`; None where nothing is."""

    cells: "pd.Series[Any] | None" = None
    coding: Coding | None = None
    mind: list[str] = field(default_factory=list)
    categories: tuple[str, ...] | None = None
    others: tuple[str, ...] | None = None
    open: dict[str, str] | None = None
    resolution: str = ""
    padded: bool = False


def _of_type(path: Path, name: str, series: "pd.Series[Any]", labels: Mapping[str, str]) -> _Typed:
    found = _Typed()
    if series.dtype == object and any(isinstance(cell, Decimal) for cell in series):  # of a database or of Parquet
        found.cells = series = series.astype("float64")
    textual = pd.api.types.is_string_dtype(series.dtype) or isinstance(series.dtype, pd.CategoricalDtype)
    array = _texts(series) if textual else None
    if array is not None and _padded(array):  # as a char(n) is in some databases
        found.padded, array = True, pc.utf8_trim(array, characters=SPACE)
        found.cells = series = pd.Series(array.to_pylist(), dtype="str", index=series.index)
    if labels:
        texts = cells.texts(series)
        if {text for text in texts if text is not None} <= set(labels):
            found.coding, found.categories = Coding(labels=tuple(labels.items())), tuple(dict.fromkeys(labels.values()))
            named = [None if text is None else labels[text] for text in texts]
            found.cells = pd.Series(named, dtype="str", index=series.index)
            return found
        listed = ", ".join([*labels][:8])
        found.mind.append(
            f"column {name!r}: the file has labels for {listed}, and not for all of its values; where such a code says that a value "
            "is missing, list it under missing"
        )
    number = pd.api.types.is_numeric_dtype(series.dtype)
    if pd.api.types.is_bool_dtype(series.dtype) or not (
        number or pd.api.types.is_string_dtype(series.dtype) or are_times(series)
    ):
        return found
    array = _texts(series) if array is None else array
    look = ColumnFormat(path, Reading(), name, values_of(array, strip=False), typed=True, in_lines=False)
    _count_blank(look, array)
    boolean = isinstance(look.column, Boolean)
    if not boolean and not look.limits and not number:
        full, coding = _in_text(path, name, array)
        # Whole numbers alone may be codes; with points, or texts for a missing value among them, they are numbers.
        pointed = isinstance(full.column, Continuous) and (
            full.coding.missing or pc.any(pc.match_substring(array, ".")).as_py()
        )
        odd = coding.time or coding.date or coding.decimal == "," or coding.thousands or coding.suffix or full.others
        if pointed or (odd and isinstance(full.column, Continuous | Integer | Datetime)):
            found.coding, found.open, found.resolution = coding, full.open or None, full.resolution
            found.others = full.limits + full.others or None
            if coding.time is None and not full.limits:
                what = "dates" if isinstance(full.column, Datetime) else "numbers"
                found.mind.append(f"column {name!r}: holds {what} as text; synthetic files of this kind hold {what}")
            found.mind += [full.mind] if full.mind else []
            found.cells = _read(_plain(array, full, coding), full).set_axis(series.index)
            return found
        if full.coding.missing and isinstance(full.column, Categorical):
            look = full
    if look.limits:
        found.coding, found.others, found.open = look.coding, look.limits + look.others, look.open
        found.cells = _read(_plain(array, look, look.coding), look).set_axis(series.index)
    elif boolean or (look.coding.missing and (number or isinstance(look.column, Categorical))):
        found.coding = Coding(missing=look.coding.missing, words=look.coding.words)
        plain = _plain(array, look, found.coding)
        found.cells = csvfile.guessed(plain, text=boolean or not number).set_axis(series.index)
    return found


def _texts(series: "pd.Series[Any]") -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells.texts(series, math.inf), pa.string())])


def _in_text(path: Path, name: str, array: pa.ChunkedArray) -> tuple[ColumnFormat, Coding]:
    """How a column of texts would be read if they stood in a CSV file."""
    values = values_of(array, strip=False)
    decimal = decimal_sign([values])
    full = ColumnFormat(path, Reading(decimal=decimal), name, values, in_lines=False)
    _count_blank(full, array)
    coding = full.coding
    if coding.time is not None:
        return full, replace(coding, decimal=None)
    return full, replace(coding, decimal="," if decimal == "," and coding.decimal is None else coding.decimal)


def _plain(array: pa.ChunkedArray, look: ColumnFormat, coding: Coding) -> pa.ChunkedArray:
    return csvfile.plain_texts(array, Reading(columns=((look.name, coding),)).of(look.column))


def _count_blank(look: ColumnFormat, array: pa.ChunkedArray) -> None:
    """Empty texts of a typed column, which are no nulls, count as missing, as blank cells of CSV files do."""
    if not look.coding.missing and look.values.blank > array.null_count:  # noqa: PD011 - no frame
        look.coding = replace(look.coding, missing=("",))


def sheet(path: Path, wanted: str | None) -> Found:
    """The same of a sheet of a workbook, whose cells have types, or are text as in a CSV file."""
    found = excel.opened(path, wanted)
    words = [
        pc.if_else(pa.array(kind == TEXT), text, NONE) for text, kind in zip(found.texts, found.kinds, strict=True)
    ]
    strip = any(name != name.strip(SPACE) for name in found.names) or any(map(_padded, words))
    names = csvfile.names_of(path, [name.strip(SPACE) for name in found.names] if strip else found.names, None)
    name = found.name if found.others or wanted else None
    reading = Reading(sheet=name, strip=strip)
    looks = [
        _of_sheet(path, reading, column, found.texts[place], words[place], found.kinds[place], found.lines)
        for place, column in enumerate(names)
    ]
    whole = replace(reading, columns=tuple((each.name, each.coding) for each in looks if each.coding != Coding()))
    made = _found(
        path,
        whole,
        looks,
        [
            excel.plain_texts(found.texts[place], found.kinds[place], whole.of(each.column))
            for place, each in enumerate(looks)
        ],
        said="; ".join(filter(None, [f"sheet {found.name!r}", _said_of_cells(whole, looks)])),
    )
    if found.titles:
        rows = "row 1 is" if found.titles == 1 else f"rows 1 to {found.titles} are"
        made = replace(made, mind=(f"{rows} taken as titles above the header", *made.mind))
    if found.merged:
        text = (
            f"cells are merged in {', '.join(map(repr, found.merged))}: only the first cell of a merged range holds its value, and the "
            "others count as missing; unmerge them, and fill in each cell"
        )
        made = replace(made, mind=(*made.mind, text))
    if not found.others:
        return made
    if found.covers:
        before = ", ".join(map(repr, found.covers))
        text = (
            f"the sheet {found.name!r} is taken, since {before} before it hold{'s' * (len(found.covers) == 1)} no table"
        )
        made = replace(made, mind=(text, *made.mind))
    others = ", ".join(map(repr, found.others))
    left = f"the sheet {others} is" if len(found.others) == 1 else f"the sheets {others} are"
    larger = ", ".join(map(repr, () if found.odd else found.larger))
    more = f"; more rows than in the one taken: {larger}" if larger else ""
    why = [f"the sheet {name!r} was not taken for a table: {text}" for name, text in found.odd.items()]
    return replace(made, mind=(f"{left} left out; sheet= names another one{more}", *why, *made.mind))


NONE = pa.scalar(None, pa.string())


def _of_sheet(path: Path, reading: Reading, name: str, texts: Any, words: Any, kinds: Any, lines: Any) -> ColumnFormat:
    """A column whose text cells are of the same family as its typed ones; else what all of its cells tell as texts."""
    there = set(kinds.tolist()) - {BLANK, TEXT}
    look = ColumnFormat(path, reading, name, values_of(words, strip=reading.strip), lines=lines)
    dates = there <= {DAY, INSTANT}
    family = Datetime if dates else Continuous
    # If all texts may be codes, such as -99, they are judged together with the numbers.
    codes = look.values.but(TEXTS).matching(MAY_BE_CODE.fullmatch) == 1  # noqa: PD011 - no frame
    numbers = there == {NUMBER} and not codes
    if not there or (isinstance(look.column, family) and (dates or numbers)):
        return look
    if dates and not look.values.but(TEXTS).texts:  # noqa: PD011 - no frame
        look.resolution = "second" if INSTANT in there else "day"
        look.column = Datetime(name=name, bounds="learn", missing=True, resolution=look.resolution)  # type: ignore[arg-type]
        return look
    look = ColumnFormat(path, reading, name, values_of(texts, strip=reading.strip), lines=lines)
    look.coding = replace(look.coding, places=None)
    return look


def _encoding(path: Path) -> tuple[str, str]:
    """The encoding, and what the steward must look at because of it."""
    with csv_lines.opened(path) as file:
        start = file.read(4)
    byte_mark = start.startswith(b"\xef\xbb\xbf")
    chosen = "utf-16" if start.startswith(csvfile.UTF_16) else "utf-8-sig" if byte_mark else "utf-8"
    try:
        for _ in csv_lines.lines(path, chosen):
            pass
    except BadInput as refused:
        if chosen == "utf-16" or "expected" not in str(refused):
            raise
        found = _one_byte(path)
        if found is None:
            *others, last = csv_lines.ONE_BYTE.values()
            raise BadInput(f"{refused}; nor is it {', '.join(others)} or {last}") from None
        return found
    return chosen, ""


def _one_byte(path: Path) -> tuple[str, str] | None:
    """The encoding in which bytes within words are letters, and what to say if several are as good but differ; None if none is possible."""
    there, within = np.zeros(256, np.int64), np.zeros(256, np.int64)
    with csv_lines.opened(path) as file:
        while block := file.read(csv_lines.BLOCK):
            sign = np.frombuffer(block, np.uint8)
            beyond = sign >= 128
            letter = beyond | ((sign | 32) >= ord("a")) & ((sign | 32) <= ord("z"))
            there += np.bincount(sign[beyond], minlength=256)
            within += np.bincount(sign[1:-1][beyond[1:-1] & letter[:-2] & letter[2:]], minlength=256)
    odd: dict[str, int] = {}
    letters: dict[str, list[str]] = {}
    for encoding in csv_lines.ONE_BYTE:
        signs = [bytes([byte]).decode(encoding, "replace") for byte in np.flatnonzero(there)]
        if not any(sign == "\ufffd" or "\x80" <= sign <= "\x9f" for sign in signs):
            odd[encoding] = sum(
                int(within[byte]) for byte, sign in zip(np.flatnonzero(there), signs, strict=True) if not sign.isalpha()
            )
            letters[encoding] = signs
    if not odd:
        return None
    chosen = min(odd, key=lambda encoding: odd[encoding])  # the first of those that are as good
    for other, signs in letters.items():
        pairs = zip(letters[chosen], signs, strict=True)
        unlike = [pair for pair in pairs if pair[0] != pair[1] and "".join(pair).isalpha()]
        if odd[other] == odd[chosen] and unlike:
            read, else_read = (" ".join(each) for each in zip(*unlike[:3], strict=True))
            return chosen, (
                f"letters read as {read} would be {else_read} in {csv_lines.NAMES[other]}; if that is right, save the file as UTF-8 and "
                f"draft again, or write encoding: {other} under reading and correct these letters in the draft"
            )
    return chosen, ""


def _separator(path: Path, encoding: str) -> str:
    """The one that gives every line as many cells as the header; the one with more cells where several do."""
    declared = csvfile.separator(path, None)
    names = {sign: len(csvfile.header(path, Reading(encoding=encoding, separator=sign))[0]) for sign in SEPARATORS}
    widths = {sign: width for sign, width in names.items() if width > 1 and declared in (None, sign)}
    if not widths:
        sign = declared or ","
        csv_lines.check(path, encoding, sign, 1)
        return sign
    even, refusals = {}, {}
    for sign, width in widths.items():
        try:
            csv_lines.check(path, encoding, sign, width)
            even[sign] = width
        except BadInput as refused:
            refusals[sign] = refused
    if not even:
        raise refusals[max(widths, key=lambda sign: widths[sign])]
    best = max(even.values())
    chosen = [sign for sign, width in even.items() if width == best]
    if len(chosen) > 1:
        shown = " and ".join(repr(sign) for sign in chosen)
        raise BadInput(f"{path}: line 1: {shown} both cut every line into {best} cells; expected one separator")
    return chosen[0]


def _padded(array: pa.ChunkedArray) -> bool:
    trimmed = pc.utf8_trim(array, characters=SPACE)
    return bool(pc.any(pc.not_equal(trimmed, array)).as_py())


def _width(array: pa.ChunkedArray) -> int | None:
    """The number of characters to which the texts of a column are padded with spaces; None where they are not."""
    ends = pc.min_max(pc.utf8_length(array)).as_py()
    same = ends["min"] is not None and ends["min"] == ends["max"] <= MOST_TITLE
    return ends["max"] if same and pc.any(pc.ends_with(array, " ")).as_py() else None


def _found(path: Path, whole: Reading, looks: list[ColumnFormat], texts: list[pa.ChunkedArray], said: str) -> Found:
    """What the looks tell, with the cells' texts in the plain coding."""
    made = {each.name: _read(plain, each) for each, plain in zip(looks, texts, strict=True)}
    plain = Reading(separator="\t") if csvfile.separator(path, None) else Reading()
    return Found(
        frame=pd.DataFrame(made),
        reading=None
        if whole in (plain, Reading()) and not any(each.open for each in looks)
        else replace(whole, review=True),
        said=said,
        mind=tuple(each.mind for each in looks if each.mind),
        open={each.name: each.open for each in looks if each.open},
        resolutions={each.name: each.resolution for each in looks if each.resolution},
        others={each.name: each.limits + each.others for each in looks if each.limits or each.others},
    )


def _read(plain: pa.ChunkedArray, look: ColumnFormat) -> Any:
    """The cells as a draft guesses kinds by them; what does not fit a column of numbers or dates is missing there."""
    if isinstance(look.column, Categorical):
        return csvfile.guessed(plain, text=True)
    if isinstance(look.column, Continuous | Integer):
        plain = pc.if_else(pc.match_substring_regex(plain, csvfile.NUMBER), plain, pa.scalar(None, pa.string()))
        return csvfile.guessed(plain)
    if isinstance(look.column, Datetime):
        texts = [None if text is None or cells.instant(text) is None else text for text in plain.to_pylist()]
        return pd.Series(texts, dtype="str")
    return csvfile.guessed(plain, text=True)


def _said(reading: Reading, looks: list[ColumnFormat]) -> str:
    """What was found, in a line."""
    separator = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}[reading.separator]
    mark = " with a byte order mark" if reading.encoding == "utf-8-sig" else ""
    parts = [
        f"{csv_lines.NAMES[reading.encoding]}{mark}, separated by {separator}, decimal {'comma' if reading.decimal == ',' else 'point'}"
    ]
    return "; ".join([*parts, *filter(None, [_said_of_cells(reading, looks)])])


def _said_of_cells(reading: Reading, looks: list[ColumnFormat]) -> str:
    parts = []
    dates = Counter(each.coding.date for each in looks if each.coding.date is not None and "date" not in each.open)
    if dates:
        parts.append("dates " + ", ".join(str(form) for form, _ in dates.most_common()))
    codes = dict.fromkeys(code for each in looks for code in each.coding.missing if code)
    if codes:
        parts.append("missing values as " + ", ".join(codes) + " and blank")
    times = dict.fromkeys(each.coding.time for each in looks if each.coding.time is not None)
    if times:
        parts.append("times of day " + ", ".join(map(str, times)))
    if reading.strip:
        parts.append("space around cells")
    return "; ".join(parts)
