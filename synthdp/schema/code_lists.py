"""What a schema takes from public lists of codes beside it: `categories: {file: icd10.csv, column: code}`, the codes above them,
`tree: {file: icd10.csv, parent: block}`, and those of a rule, `{never: {sex: M, code: {file: icd10.csv, column: of_women}}}`."""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput

MOST_BYTES = 64 << 20
MOST_CODES = 200_000
KEYS = ("file", "column")
CONDITIONS = ("if", "then", "never", "always")  # of rules


def resolved(values: Any, folder: Path, of: str = "") -> Any:
    """What a schema file holds, with the codes in the place of each list's name. Names of files are relative to `folder`; `of` stands
    before names of columns in errors."""
    if isinstance(values, Mapping) and isinstance(values.get("rules"), list):
        values = {**values, "rules": [_rule(rule, folder) for rule in values["rules"]]}
    if isinstance(values, Mapping) and isinstance(values.get("tables"), Mapping):
        return {
            **values,
            "tables": {name: resolved(table, folder, f"{name}.") for name, table in values["tables"].items()},
        }
    columns = values.get("columns") if isinstance(values, Mapping) else None
    if not isinstance(columns, Mapping):
        return values
    made = {name: _column(f"{of}{name}", column, folder) for name, column in columns.items()}
    return {**values, "columns": made}


def named(values: Any, folder: Path) -> list[tuple[str, Path]]:
    """The files from which columns take their categories or trees, and rules their codes, each with the column."""
    rules = values.get("rules") if isinstance(values, Mapping) else None
    of_rules = [
        (str(name), folder / str(wanted["file"]))
        for rule in (rules if isinstance(rules, list) else ())
        for _, name, wanted in _listed(rule)
        if "file" in wanted
    ]
    if isinstance(values, Mapping) and isinstance(values.get("tables"), Mapping):
        tables = {table: named(each, folder) for table, each in values["tables"].items()}
        return [*((f"{table}.{name}", file) for table, files in tables.items() for name, file in files), *of_rules]
    columns = values.get("columns") if isinstance(values, Mapping) else None
    given = {str(name): column for name, column in (columns or {}).items() if isinstance(column, Mapping)}
    lists = [(name, column.get(of)) for name, column in given.items() for of in ("categories", "tree")]
    found = [(name, folder / str(each["file"])) for name, each in lists if isinstance(each, Mapping) and "file" in each]
    return [*found, *of_rules]


def _listed(rule: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """The lists that a rule names: the key of the condition, the column that it is about, and `{file: ..., column: ...}`."""
    for key in CONDITIONS:
        condition = rule.get(key) if isinstance(rule, Mapping) else None
        for name, wanted in condition.items() if isinstance(condition, Mapping) else ():
            if isinstance(wanted, Mapping):
                yield key, name, wanted


def _rule(rule: Any, folder: Path) -> Any:
    """The rule with the codes of each list in the place of its name."""
    for key, name, wanted in [*_listed(rule)]:
        where = f"rule on column {name!r}"
        if set(wanted) != set(KEYS) or not all(isinstance(wanted[each], str) for each in KEYS):
            raise BadInput(
                f"{where}: expected a value, a list of them, or the name of a list such as {{file: icd10.csv, column: code}}"
            )
        rule = {**rule, key: {**rule[key], name: codes(folder / wanted["file"], wanted["column"], where)}}
    return rule


def _column(name: str, column: Any, folder: Path) -> Any:
    given = column.get("categories") if isinstance(column, Mapping) else None
    if isinstance(column, Mapping) and isinstance(column.get("tree"), Mapping) and "file" in column["tree"]:
        column = {**column, "tree": _tree(f"column {name!r}: tree", dict(column["tree"]), given, folder)}
    if not isinstance(given, Mapping):
        return column
    if set(given) != set(KEYS) or not all(isinstance(given[key], str) for key in KEYS):
        raise BadInput(
            f"column {name!r}: categories must be a list, learn, or the name of a list such as {{file: icd10.csv, column: code}}"
        )
    return {**column, "categories": codes(folder / given["file"], given["column"], f"column {name!r}: categories")}


def _tree(asked_by: str, tree: dict[str, Any], categories: Any, folder: Path) -> dict[str, Any]:
    """The same tree with the pairs of its file, whose column of codes is that of the categories unless it says another."""
    of_codes = categories.get("column") if isinstance(categories, Mapping) else None
    file, parent, column = tree.pop("file"), tree.pop("parent", None), tree.pop("column", of_codes)
    if not all(isinstance(each, str) for each in (file, parent, column)) or "parents" in tree:
        raise BadInput(
            f"{asked_by} needs the columns of its file, such as {{file: icd10.csv, column: code, parent: block}}"
        )
    above = pairs(folder / file, column, parent, asked_by)
    return {**tree, "parents": above}


def pairs(path: Path, column: str, parent: str, asked_by: str) -> dict[str, str]:
    """The parent of each code of a CSV file; rows without one hold the coarsest codes. Raises `BadInput`."""
    rows, (code, above) = _rows(path, (column, parent), asked_by)
    found: dict[str, str] = {}
    for row in rows:
        one, other = (row[place].strip() if len(row) > place else "" for place in (code, above))
        if one and other and one != other and found.setdefault(one, other) != other:
            raise BadInput(f"{asked_by}: {path} gives the code {one!r} two parents; keep one of each")
    return found


def codes(path: Path, column: str, asked_by: str) -> list[str]:
    """The different texts of a column of a CSV file (UTF-8 or Windows-1252; comma, semicolon or tab), in order. Raises `BadInput`."""
    rows, (place,) = _rows(path, (column,), asked_by)
    found = dict.fromkeys(row[place].strip() for row in rows if len(row) > place and row[place].strip())
    if not found:
        raise BadInput(
            f"{asked_by}: column {column!r} of {path} is empty: complete the file, name another column, or leave the entry out"
        )
    if len(found) > MOST_CODES:
        raise BadInput(
            f"{asked_by}: column {column!r} of {path} holds {len(found):,} codes; expected at most {MOST_CODES:,}"
        )
    return list(found)


def _rows(path: Path, columns: tuple[str, ...], asked_by: str) -> tuple[list[list[str]], list[int]]:
    """The rows below the header of a file, and where the columns are in them."""
    try:
        if not path.exists():
            raise BadInput(f"{asked_by}: {path}: no such file; its name is relative to the folder of the schema")
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{asked_by}: {path} is not a file of at most {MOST_BYTES:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{asked_by}: {path} cannot be read ({type(error).__name__})") from None
    rows = table(data, f"{asked_by}: {path}")
    for column in columns:
        if column not in rows[0]:
            raise BadInput(
                f"{asked_by}: {path} has no column {column!r}; its columns are {', '.join(map(repr, rows[0][:20]))}"
            )
    return rows[1:], [rows[0].index(column) for column in columns]


def table(data: bytes, where: str) -> list[list[str]]:
    """The rows of a CSV file, its header first; separated by the one of , ; TAB that is most frequent in it. Raises `BadInput`."""
    if b"\0" in data[:1024]:
        raise BadInput(f"{where} is not text: expected a CSV file that is not compressed")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    first = text.lstrip("\r\n").split("\n", 1)[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True))
    except csv.Error:
        raise BadInput(f"{where} cannot be read as CSV") from None
    rows = [[cell.strip() for cell in row] for row in rows[:1]] + rows[1:]
    if not rows or not any(rows[0]):
        raise BadInput(f"{where} has no header")
    return rows
