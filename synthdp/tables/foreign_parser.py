"""A program of its own that parses one file of a foreign format and writes it to standard output as an Arrow stream.

The parsers are written in C and Rust, and the file may be made to break them: here one that ends the process, or asks for far more
memory than the file warrants, ends this process alone. `foreign` starts it and reads what it says. It imports nothing of the house.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BLANK, TEXT, NUMBER, TRUTH, DAY, INSTANT = range(6)  # what a cell of a workbook is
MOST_TITLES = 20  # rows above a header
EXACT = 1e15  # whole numbers up to here are written without a point
FIRST, LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
EPOCHS = {"sav": np.datetime64("1582-10-14", "us"), "stata": np.datetime64("1960-01-01", "us")}
SECOND, HOURS = 1_000_000, 86_400_000_000
SPSS_DAYS = re.compile("(DATE|ADATE|EDATE|JDATE|SDATE|QYR|MOYR|WKYR)[0-9.]*")
SPSS_INSTANTS = re.compile("(DATETIME|YMDHMS)[0-9.]*")
STATA_TIMES = re.compile("%-?t[cC][HhMSsaAmMpP.:_ ]+")  # instants that are shown without a day: times of day
SAS_INSTANTS = re.compile(
    "(DATETIME|DATEAMPM|MDYAMPM|NLDATM|E8601D[TNXZ]|B8601D[TNXZ]|IS8601D[TN]|DTDATE|DTMONYY|DTWKDATX|DTYEAR)"
)
SAS_DAYS = re.compile(
    "(DATE|DAY|DDMMYY|MMDDYY|YYMMDD|YYMM|MMYY|YYMON|MONYY|MONNAME|MONTH|WEEKDAT|WORDDAT|E8601DA|B8601DA|IS8601DA|JULIAN|JULDAY|EURDF|NLDATE"
    "|YYQ|QTR|YEAR)"
)


class RefusedError(Exception):
    """The file cannot be read; the reason holds nothing of its cells."""


def limit_memory(allowed: int) -> None:
    """Let this process take no more than `allowed` bytes beyond what it has; where the system knows such limits."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + allowed, resource.RLIM_INFINITY))


# ---- Workbooks: each cell as text, and beside it what it was.


def workbook(path: str, wanted: str, most_columns: int) -> pa.Table:
    """A sheet: columns 0, 1, ... of text, k0, k1, ... of kinds, and `line`, the row of the sheet."""
    import python_calamine as calamine

    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            sheet, further = _sheet(book, wanted)
            return _table(sheet, further, most_columns)
    except calamine.PasswordError:
        raise RefusedError("has a password; save it without one") from None
    except calamine.CalamineError as error:
        raise RefusedError(f"cannot be read as an Excel workbook ({type(error).__name__})") from None


def _sheet(book: Any, wanted: str) -> tuple[Any, dict[str, Any]]:
    """The sheet of that name, or the first one that is seen and holds a table, or else something. Of the others that hold something:
    their names, those of them that come before it, those that have more rows and, if none holds a table, why each of them does not."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    sheets = [each for each in book.sheets_metadata if each.typ == SheetTypeEnum.WorkSheet]
    seen = [each.name for each in sheets if each.visible == SheetVisibleEnum.Visible]
    if wanted:
        if wanted not in book.sheet_names:
            raise RefusedError(f"has no sheet {wanted!r}; its sheets are {', '.join(map(repr, seen[:20]))}")
        return book.get_sheet_by_name(wanted), {"others": [], "covers": [], "larger": [], "odd": {}}
    filled = [sheet for name in seen if (sheet := book.get_sheet_by_name(name)).end is not None]
    if not filled:
        raise RefusedError("holds no sheet with cells")
    names = [sheet.name for sheet in filled]
    odd = list[str]()
    for sheet in filled:
        odd.append(_no_table(sheet))
        if not odd[-1]:
            break
    place = 0 if all(odd) else len(odd) - 1
    whys = dict(zip(names[1:], odd[1:], strict=True)) if all(odd) else {}
    return filled[place], {
        "others": [*names[:place], *names[place + 1 :]],
        "covers": names[:place],
        "larger": [sheet.name for sheet in filled if sheet.height > filled[place].height],
        "odd": whys,
    }


def _no_table(sheet: Any) -> str:
    """Why a sheet is no table; empty if it is one. A table has a header of several names, all of them text, and a record below; a cover
    sheet has none."""
    first, top = list(islice(sheet.iter_rows(), MOST_TITLES + 2)), sheet.start[0] + 1
    titles = _titles(first[: MOST_TITLES + 1])
    header = [cell for cell in first[titles] if spelled(cell)[1] != BLANK]
    below = [sum(spelled(cell)[1] != BLANK for cell in row) for row in first[titles + 1 :]]
    if len(header) < 2 or not all(isinstance(cell, str) for cell in header):
        return f"row {top + titles} is no header of several names"
    if max(below, default=0) < 2:
        return "no record is below its header"
    return f"its header in row {top + titles} has fewer names than a row has cells" if max(below) > len(header) else ""


def _table(sheet: Any, further: dict[str, Any], most_columns: int) -> pa.Table:
    if sheet.end is None:
        raise RefusedError(f"its sheet {sheet.name!r} is empty")
    (top, left), (_, right) = sheet.start, sheet.end
    if right - left + 1 > most_columns:
        raise RefusedError(
            f"has {right - left + 1:,} columns; at most {most_columns:,} are read. Keep only the columns that are needed"
        )
    every: Iterator[list[Any]] = sheet.iter_rows()
    first = list(islice(every, MOST_TITLES + 1))
    titles = _titles(first)
    rows = chain(first[titles + 1 :], every)
    top += titles
    header = [spelled(cell)[0] for cell in first[titles]]
    texts: list[list[str | None]] = [[] for _ in header]
    kinds: list[bytearray] = [bytearray() for _ in header]
    lines = []
    for line, row in enumerate(rows, top + 2):
        if all(cell is None or (isinstance(cell, str) and not cell) for cell in row):
            continue
        lines.append(line)
        for place, cell in enumerate(row):
            text, kind = spelled(cell)
            texts[place].append(text)
            kinds[place].append(kind)
    arrays: dict[str, Any] = {"line": pa.array(lines, pa.int64())}
    names = list[str]()
    for name, column, seen in zip(header, texts, kinds, strict=True):
        if name is None and not any(seen):  # a column beside the table that only has a format
            continue
        arrays[str(len(names))] = pa.array(column, pa.string())
        arrays[f"k{len(names)}"] = pa.array(np.frombuffer(bytes(seen), np.int8))
        names.append(name or "")
    return told(
        pa.table(arrays),
        {
            "sheet": sheet.name,
            "names": names,
            **further,
            "line": top + 1,
            "titles": titles,
            "merged": _merged(sheet, top, left, header),
        },
    )


def _merged(sheet: Any, top: int, left: int, header: list[str | None]) -> list[str]:
    """The columns in which cells below the header, in row `top`, are merged with others: only the first of them holds the value."""
    ranges = [
        (first, last) for (_, first), (bottom, last) in sheet.merged_cell_ranges or () if bottom > top and last >= left
    ]
    return [name for place, name in enumerate(header, left) if name and any(a <= place <= b for a, b in ranges)]


def _titles(rows: list[list[Any]]) -> int:
    """How many rows above the header hold a title or nothing: rows of one cell at most, above one of texts that is as full as any."""
    filled = [[cell for cell in row if spelled(cell)[1] != BLANK] for row in rows]
    widest = max(map(len, filled))
    for place, cells in enumerate(filled):
        if len(cells) > 1 or widest < 2:
            header = len(cells) == widest and all(isinstance(cell, str) for cell in cells)
            return place if header else 0
    return 0


def spelled(cell: Any) -> tuple[str | None, int]:
    """A cell as text in the plain coding, and what it is."""
    if cell is None or (isinstance(cell, str) and not cell):
        return None, BLANK
    if isinstance(cell, bool):
        return str(cell).lower(), TRUTH
    if isinstance(cell, int | float):
        whole = isinstance(cell, int) or (cell.is_integer() and abs(cell) < EXACT)
        return str(int(cell)) if whole else repr(cell), NUMBER
    if isinstance(cell, datetime):
        day = cell.time() == time()
        return (cell.date().isoformat(), DAY) if day else (cell.isoformat(sep=" "), INSTANT)
    if isinstance(cell, date):
        return cell.isoformat(), DAY
    if isinstance(cell, time):
        return cell.isoformat(), TEXT
    return str(cell), TEXT if isinstance(cell, str | timedelta) else BLANK


# ---- Stata, SPSS and SAS: typed columns, and what the file says of them.


def statistics(path: str, ending: str, *, dictionary: bool = False, coded: bool = False) -> pa.Table:
    """The columns by their names (without a record, if the `dictionary` alone is wanted), null where a value is missing; dates as
    instants. In the metadata: value labels, formats, measures, titles, and codes for missing values that the file declares; `coded`:
    these stay in the cells of SPSS, and `.a` to `.z` of Stata are told apart, row by row (`extended`)."""
    import pyreadstat

    read: Callable[..., Any] = {
        ".dta": pyreadstat.read_dta, ".sav": pyreadstat.read_sav, ".zsav": pyreadstat.read_sav,
        ".sas7bdat": pyreadstat.read_sas7bdat, ".xpt": pyreadstat.read_xport,
    }[ending]  # fmt: skip
    try:
        spss = ending in (".sav", ".zsav")
        kept = {"user_missing": True} if coded and (spss or ending == ".dta") else {}
        columns, meta = read(
            path, disable_datetime_conversion=True, output_format="dict", metadataonly=dictionary, **kept
        )
        declared: Any = meta
        if spss:
            declared = read(path, metadataonly=True, user_missing=True)[1]
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        raise RefusedError(f"cannot be read as a {ending} file ({type(error).__name__})") from None
    names = list(meta.column_names)
    if dictionary:
        types = {"string": object, "double": float, "float": float}
        columns = {name: np.array([], types.get(meta.readstat_variable_types[name], int)) for name in names}
    formats = {name: meta.original_variable_types.get(name) or "" for name in names}
    extended = {name: _extended(columns, name) for name in meta.missing_user_values if name in columns}
    arrays = [_column(columns[name], formats[name], ending) for name in names]
    rows = {len(array) for array in arrays}
    if len(rows) > 1 or len(set(names)) < len(names) or len(columns) < len(names):
        raise RefusedError("has columns of different lengths, or of the same name")
    labels = {name: _labels(found) for name, found in meta.variable_value_labels.items() if name in formats}
    return told(
        pa.Table.from_arrays(arrays, names=names),
        {
            "labels": {name: found for name, found in labels.items() if found},
            "formats": formats,
            "measures": {name: found for name, found in meta.variable_measure.items() if found != "unknown"},
            "titles": {name: found for name, found in meta.column_names_to_labels.items() if found},
            "missing": {name: [_ends(each) for each in found] for name, found in declared.missing_ranges.items()},
            "extended": {name: found for name, found in extended.items() if found},
        },
    )


def _extended(columns: dict[str, Any], name: str) -> list[tuple[int, str]]:
    """Which rows of a column of numbers hold which of Stata's extended missing values; in the column they become plain ones."""
    held = list(columns[name])
    found = [(row, each) for row, each in enumerate(held) if isinstance(each, str) and re.fullmatch("[a-z]", each)]
    if any(isinstance(each, str) for each in held) and len(found) == sum(isinstance(each, str) for each in held):
        letters = {row for row, _ in found}
        columns[name] = [None if row in letters else each for row, each in enumerate(held)]
        return found
    return []


def _column(values: Any, form: str, ending: str) -> pa.Array:
    # NumPy would make each text as long as the longest, which may be one person's.
    if any(isinstance(each, str) for each in values):
        texts = [None if each is None or each == "" or each != each else str(each) for each in values]
        return pa.array(texts, pa.string())
    listed = np.asarray(values)
    if listed.dtype.kind in "iuf":
        dated = _dated(listed.astype(np.float64), form, ending)
        plain = pa.array(listed.astype(np.int64 if listed.dtype.kind in "iu" else np.float64), from_pandas=True)
        return plain if dated is None else dated
    held = [None if each is None or each != each else each for each in listed.tolist()]
    if not any(each is not None for each in held):
        return pa.array(held, pa.string())
    numbers = np.array([np.nan if each is None else float(each) for each in held])
    dated = _dated(numbers, form, ending)
    if dated is None and all(each is None or isinstance(each, int) for each in held):
        return pa.array(held, pa.int64())
    return pa.array(numbers, from_pandas=True) if dated is None else dated


def _dated(values: Any, form: str, ending: str) -> pa.Array | None:
    """Numbers that the file shows as dates, as instants: the nearest in the years 1 to 9999."""
    units = _microseconds(form.upper().lstrip("%-"), form, ending)
    if units is None:
        return None
    epoch = EPOCHS["sav" if ending.endswith("sav") else "stata"]
    least, most = (float((end - epoch).astype(np.int64)) for end in (FIRST, LAST))
    gone = ~np.isfinite(values)
    since = np.clip(np.where(gone, 0.0, np.rint(units(np.where(gone, 0.0, values)))), least, most)
    stamps = np.clip(epoch + since.astype(np.int64).astype("timedelta64[us]"), FIRST, LAST)
    return pa.array(np.where(gone, np.datetime64("NaT"), stamps).astype("datetime64[us]"), pa.timestamp("us"))


def _microseconds(shown: str, form: str, ending: str) -> Callable[[Any], Any] | None:
    """From a number to microseconds since the epoch, by the format that shows it; None where that is no date."""
    if ending.endswith("sav"):
        dated = SPSS_INSTANTS.fullmatch(shown) or SPSS_DAYS.fullmatch(shown)
        return (lambda values: values * SECOND) if dated else None
    if ending == ".dta":
        kind = None if STATA_TIMES.fullmatch(form) else re.match("%-?(t[a-zA-Z]|d)", form)
        return STATA.get(kind[1]) if kind else None
    if SAS_INSTANTS.match(shown):
        return lambda values: values * SECOND
    return (lambda values: values * HOURS) if SAS_DAYS.match(shown) else None


def _months(values: Any) -> Any:
    """From months since January 1960 to microseconds."""
    most = 12 * 10_000
    months = np.clip(np.floor(values), -most, most).astype(np.int64).astype("timedelta64[M]")
    days = (np.datetime64("1960-01", "M") + months).astype("datetime64[D]") - np.datetime64("1960-01-01")
    return days.astype(np.float64) * HOURS


STATA: dict[str, Callable[[Any], Any]] = {
    "td": lambda values: values * HOURS, "d": lambda values: values * HOURS, "tc": lambda values: values * 1_000,
    "tC": lambda values: values * 1_000, "tm": _months, "tq": lambda values: _months(3 * np.floor(values)),
    "th": lambda values: _months(6 * np.floor(values)), "ty": lambda values: _months(12 * (np.floor(values) - 1960)),
    "tw": lambda values: _months(12 * np.floor(values / 52)) + 7 * HOURS * (np.floor(values) % 52),
}  # fmt: skip


def _labels(found: Any) -> list[tuple[str, str]]:
    """Codes with their labels, in the order of the codes; `.a` of Stata is no code of a value."""
    numeric = [code for code in found if not isinstance(code, str)]
    codes = sorted(numeric) if numeric else list(found)
    return [(_code(code), str(found[code]).strip()) for code in codes if _code(code) and str(found[code]).strip()]


def _code(value: Any) -> str:
    text = spelled(value)[0] if not isinstance(value, np.generic) else spelled(value.item())[0]
    return (text or "").strip()


def _ends(found: Any) -> list[str]:
    return [_code(found["lo"]), _code(found["hi"])] if isinstance(found, dict) else [_code(found)] * 2


def told(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """The table with facts about it, in its metadata."""
    return table.replace_schema_metadata({"facts": json.dumps(facts)})


def main(path: str, ending: str, sheet: str, most_columns: str, allowed: str) -> int:
    """Write the stream; in the place of a table that cannot be read an empty one with the reason."""
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a parser may print is none of ours
    try:
        import_parser(ending)
        limit_memory(int(allowed))
        table = (
            workbook(path, sheet, int(most_columns))
            if ending == ".xlsx"
            else statistics(path, ending, dictionary=sheet == "dictionary", coded=sheet == "coded")
        )
    except RefusedError as refused:
        table = told(pa.table({}), {"refused": str(refused)})
    except ImportError as lacking:
        table = told(pa.table({}), {"lacking": str(lacking.name)})
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return 0


def import_parser(ending: str) -> None:
    """Its own memory comes before the limit."""
    if ending == ".xlsx":
        import python_calamine  # noqa: F401
    else:
        import pyreadstat  # noqa: F401


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
