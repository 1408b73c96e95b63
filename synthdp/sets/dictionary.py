"""Schemas from data dictionaries: REDCap (CSV), Frictionless and CSVW (JSON), and the labels in a file of SPSS or Stata.

A dictionary is public knowledge. No record is looked at, not even where the dictionary lies in the file of the records. (What a program
made value labels of, nobody can see: the draft says so.)
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from synthdp.errors import BadInput
from synthdp.files import limits, strict_json
from synthdp.schema import code_lists, yamlfile
from synthdp.schema.columns import LEARN
from synthdp.schema.file_coding import TIMES_OF_DAY, Reading
from synthdp.schema.guesses import names_codes, names_somebody
from synthdp.schema.schema import Schema
from synthdp.tables import foreign

HEAD = """\
# DRAFT of a schema from the dictionary {file}. No record was looked at.
# 1. Go through `reading` and the columns. Once a part is right, delete its line `review: true`.
# 2. If a person may have several records, name in `unit` the column that says whose record it is, and give max_records_per_unit.
# 3. Say in `declared_by` who vouches for this. Until 1 and 3 are done, `synthdp fit` refuses this file.
"""
MADE = """\
# Where a program made value labels of the cells (encode, AUTORECODE, factors), they are facts of the records: take a code book's.
"""
CODED = """\
# Columns whose names suggest codes of a public list: {names}.
# Declare them rather than learn them, as in tree: {{prefix: [1, 3]}} with categories: {{file: codes.csv, column: code}}.
"""
LEFT_OUT = """\
# Left out (kind: ignore), since the dictionary calls them identifiers, free text or files, or does not say how they are written: {names}.
"""
MOST_BYTES = 16 << 20
TAG = re.compile("<[^>]*>")
Entry = tuple[str, dict[str, Any], dict[str, Any]]  # name, what is declared, how it is written


def schema_text(path: Path) -> str:
    """YAML that loads as a `Schema` to review and to declare. Raises `BadInput` for what is no dictionary."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    if ending in foreign.STATISTICS:
        entries, reading = list(_statistics(path, ending)), dict[str, Any]()
    elif path.stat().st_size > MOST_BYTES:
        raise BadInput(f"{path}: has {path.stat().st_size:,} bytes; dictionaries have at most {MOST_BYTES:,}")
    elif ending == ".json":
        entries, reading = _json(path)
    elif ending == ".csv":
        entries, reading = list(_redcap(path)), {}
    else:
        raise BadInput(
            f"{path}: a dictionary is a .csv of REDCap, a .json of Frictionless or CSVW, or a file of SPSS or Stata"
        )
    if not entries:
        raise BadInput(f"{path}: the dictionary names no columns")
    coded = [name for name, column, _ in entries if LEARN in column.values() and names_codes(name)]
    left = [name for name, column, _ in entries if column["kind"] == "ignore"]
    return (
        HEAD.format(file=path.name)
        + MADE * (ending in foreign.STATISTICS)
        + (LEFT_OUT.format(names=", ".join(map(repr, left))) if left else "")
        + (CODED.format(names=", ".join(map(repr, coded))) if coded else "")
        + yamlfile.dump(_values(path, entries, reading))
    )


def _values(path: Path, entries: list[Entry], reading: dict[str, Any]) -> dict[str, Any]:
    columns = {name: {**column, "review": True} for name, column, _ in entries}
    limits.check_width(path, len(columns))
    codings = {name: coding for name, _, coding in entries if coding}
    values: dict[str, Any] = {"name": path.stem, "declared_by": None, "unit": None, "units": LEARN, "targets": []}
    if reading or codings:
        values["reading"] = {**reading, **({"columns": codings} if codings else {}), "review": True}
    values["columns"] = columns
    try:
        made = Schema.from_dict(values)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    if made.reading is not None:  # as it will be read: in plain values
        values["reading"] = Reading.from_dict(values["reading"]).to_dict()
    return values


def _open(kind: str, **rest: Any) -> dict[str, Any]:
    """A column with what the dictionary leaves open to be learned, and missing cells allowed unless it says otherwise."""
    item = {"categorical": "categories", "integer": "bounds", "continuous": "bounds", "datetime": "bounds"}.get(kind)
    given = {key: value for key, value in rest.items() if value is not None and key != "missing"}
    learned = {item: LEARN} if item is not None and item not in given else {}
    missing = {} if kind in ("ignore", "identifier") or rest.get("missing") is False else {"missing": True}
    return {"kind": kind, **learned, **given, **missing}


def _bounds(low: Any, high: Any, kind: Any = float) -> list[Any] | None:
    """Both ends as numbers of a kind; None where one is not there or is no such number."""
    try:
        ends = [kind(str(low).strip()), kind(str(high).strip())]
    except ValueError:
        return None
    return ends if all(abs(end) < 1e300 for end in ends) and ends[0] <= ends[1] else None


def _dates(low: Any, high: Any) -> list[str] | None:
    found = [str(end).strip() for end in (low, high)]
    return found if all(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}.*", end) for end in found) else None


# ---- REDCap: one row a field.

VARIABLE = {"Variable / Field Name": "name", "field_name": "name", "Form Name": "form", "form_name": "form", "Field Type": "type",
            "field_type": "type", "Choices, Calculations, OR Slider Labels": "choices", "select_choices_or_calculations": "choices",
            "Text Validation Type OR Show Slider Number": "check", "text_validation_type_or_show_slider_number": "check",
            "Text Validation Min": "low", "text_validation_min": "low", "Text Validation Max": "high", "text_validation_max": "high",
            "Identifier?": "identifier", "identifier": "identifier", "Required Field?": "required", "required_field": "required",
            "Branching Logic (Show field only if...)": "branch", "branching_logic": "branch"}  # fmt: skip
DONE = {"0": "Incomplete", "1": "Unverified", "2": "Complete"}  # of a form
TRUTH = {"words": ["0", "1"]}


def _redcap(path: Path) -> Iterator[Entry]:
    """The columns of a raw export (codes, not labels): checkboxes are one column a choice, and each form has one that says how
    complete it is."""
    header, *rows = code_lists.table(path.read_bytes(), str(path))
    places = {VARIABLE[name]: place for place, name in enumerate(header) if name in VARIABLE}
    if not {"name", "type"} <= set(places):
        raise BadInput(
            f"{path}: is no dictionary of REDCap, whose first columns are Variable / Field Name, Form Name, ..."
        )
    form, first = None, True
    for row in rows:
        field = {key: row[place].strip() if place < len(row) else "" for key, place in places.items()}
        if not field["name"]:
            continue
        if form not in (None, field.get("form")):
            yield _complete(str(form))
        form = field.get("form") or None
        if field["type"] != "descriptive":
            yield from [(field["name"], _open("identifier"), {})] if first else _field(path, field)
            first = False
    if form is not None:
        yield _complete(form)


def _complete(form: str) -> Entry:
    return f"{form}_complete", _open("categorical", categories=list(DONE.values())), {"labels": dict(DONE)}


def _field(path: Path, field: Mapping[str, str]) -> Iterator[Entry]:
    name, kind = field["name"], field["type"]
    required = field.get("required", "").lower() == "y" and not field.get("branch")
    missing = not required
    if field.get("identifier", "").lower() == "y" or kind in ("notes", "file", "sql", "signature"):
        yield name, _open("ignore"), {}
    elif kind in ("radio", "dropdown"):
        labels = _choices(path, field)
        known = list(dict.fromkeys(labels.values()))
        yield name, _open("categorical", categories=known, missing=missing), {"labels": labels}
    elif kind == "checkbox":
        for code in _choices(path, field):
            yield f"{name}___{re.sub('[^a-z0-9]', '_', code.lower())}", _open("boolean", missing=False), dict(TRUTH)
    elif kind in ("yesno", "truefalse"):
        yield name, _open("boolean", missing=missing), dict(TRUTH)
    elif kind == "slider":
        bounds = _bounds(field.get("low"), field.get("high"), int) or [0, 100]
        yield name, _open("integer", bounds=bounds, missing=missing), {}
    elif kind == "calc":
        yield name, _open("continuous"), {}
    else:
        yield name, *_validated(field, missing=missing)


def _validated(field: Mapping[str, str], *, missing: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A field of text and how it is written, by how REDCap validates it; text that it does not validate is left out."""
    check, ends = field.get("check", ""), (field.get("low", ""), field.get("high", ""))
    if check == "integer":
        return _open("integer", bounds=_bounds(*ends, int), missing=missing), {}
    if number := re.fullmatch("number(?:_([1-4])dp)?(_comma_decimal)?", check):
        bounds = _bounds(*(end.replace(",", ".") if number[2] else end for end in ends))
        column = _open("continuous", bounds=bounds, decimals=int(number[1]) if number[1] else None, missing=missing)
        return column, {"decimal": ","} if number[2] else {}
    if check.startswith(("date_", "datetime_")):
        resolution = "day" if check.startswith("date_") else "second" if "seconds" in check else "minute"
        return _open("datetime", bounds=_dates(*ends), resolution=resolution, missing=missing), {}
    if form := {"time": "HH:MM", "time_hh_mm_ss": "HH:MM:SS"}.get(check):
        return _open("integer", bounds=[0, TIMES_OF_DAY[form][2]], missing=missing), {"time": form}
    return _open("ignore"), {}


def _choices(path: Path, field: Mapping[str, str]) -> dict[str, str]:
    """`1, Male | 2, Female` as codes and labels."""
    pairs = [choice.partition(",") for choice in field.get("choices", "").split("|") if choice.strip()]
    found = {code.strip(): TAG.sub("", label).strip() or code.strip() for code, _, label in pairs if code.strip()}
    if not found:
        raise BadInput(f"{path}: field {field['name']!r} has no choices, such as 1, Male | 2, Female")
    return found


# ---- JSON: Frictionless table schemas, and CSVW.

NUMERIC = {"integer": "integer", "year": "integer", "number": "continuous"}
ENCODED = {"windows-1252": "cp1252", "windows-1250": "cp1250", "iso-8859-2": "iso8859-2"}  # as CSVW names them
CSVW = {
    **dict.fromkeys(
        ("integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "gYear"), "integer"
    ),
    **dict.fromkeys(("number", "decimal", "double", "float"), "continuous"),
    **dict.fromkeys(("boolean",), "boolean"),
    **dict.fromkeys(("date", "dateTime", "datetime", "dateTimeStamp"), "datetime"),
    **dict.fromkeys(("string", "normalizedString", "token", "Name", "any", "anyAtomicType"), "categorical"),
}
STRFTIME = {"%Y": "yyyy", "%m": "mm", "%d": "dd", "%H": "HH", "%M": "MM", "%S": "SS", "%b": "mmm"}
UNICODE = {"MM": "mm", "M": "m", "mm": "MM", "ss": "SS"}  # CSVW's parts of dates whose letters mean something else here


def _json(path: Path) -> tuple[list[Entry], dict[str, Any]]:
    found = strict_json.load(path)
    if isinstance(found, Mapping):
        if isinstance(found.get("tables"), list) and found["tables"] and isinstance(found["tables"][0], Mapping):
            found = {**found, **found["tables"][0]}
        if isinstance(found.get("tableSchema"), Mapping):
            return _csvw(path, found)
        resources = found.get("resources")
        if isinstance(resources, list) and resources and isinstance(resources[0], Mapping):
            found = resources[0].get("schema")
        if isinstance(found, Mapping) and isinstance(found.get("fields"), list):
            return _frictionless(path, found)
    raise BadInput(f"{path}: is neither a table schema of Frictionless (fields) nor CSVW (tableSchema)")


def _named(path: Path, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not isinstance(given.get("name", ""), str):
        raise BadInput(f"{path}: each column is a mapping with a name")
    return given


def _keys(given: Any) -> tuple[str, ...]:
    """Columns of a primary key that is one column: of several, each alone tells nobody apart."""
    listed = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return tuple(str(each) for each in listed) if len(listed) == 1 else ()


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _listed(given: Any) -> list[str]:
    return [str(each) for each in given if isinstance(each, str | int | float)] if isinstance(given, list) else []


def _frictionless(path: Path, found: Mapping[str, Any]) -> tuple[list[Entry], dict[str, Any]]:
    keys = _keys(found.get("primaryKey"))
    entries = [_frictionless_field(_named(path, field), keys) for field in found["fields"]]
    missing = [code for code in _listed(found.get("missingValues")) if code]
    return entries, {"missing": missing} if missing else {}


def _frictionless_field(field: Mapping[str, Any], keys: tuple[str, ...]) -> Entry:
    name, kind, rules = str(field.get("name", "")), str(field.get("type", "string")), _mapping(field.get("constraints"))
    missing, low, high = rules.get("required") is not True, rules.get("minimum"), rules.get("maximum")
    choices = field.get("categories") or rules.get("enum")
    if name in keys:
        return name, _open("identifier"), {}
    if isinstance(choices, list) and kind in ("string", "integer", "any"):
        labels = {
            str(each["value"]): str(each.get("label", each["value"]))
            for each in choices
            if isinstance(each, Mapping) and "value" in each
        }
        known: list[Any] = list(dict.fromkeys(labels.values()))
        known = known or [each for each in choices if isinstance(each, str | int)]
        ordered = "ordinal" if field.get("categoriesOrdered") is True else "categorical"
        coded = labels if any(code != label for code, label in labels.items()) else {}
        return name, _open(ordered, categories=known, missing=missing), {"labels": coded} if coded else {}
    if kind in NUMERIC:
        comma = {"decimal": ","} if field.get("decimalChar") == "," else {}
        whole = NUMERIC[kind] == "integer"
        return name, _open(NUMERIC[kind], bounds=_bounds(low, high, int if whole else float), missing=missing), comma
    if kind == "boolean":
        words = [_listed(field.get(key))[:1] for key in ("falseValues", "trueValues")]
        return name, _open("boolean", missing=missing), {"words": [words[0][0], words[1][0]]} if all(words) else {}
    if kind in ("date", "datetime"):
        form = re.sub("%[A-Za-z]", lambda part: STRFTIME.get(part[0], part[0]), str(field.get("format", "default")))
        coding = {} if form in ("default", "any", "yyyy-mm-dd") else {"date": form}
        resolution = "day" if kind == "date" else "second"
        return name, _open("datetime", bounds=_dates(low, high), resolution=resolution, missing=missing), coding
    plain = kind in ("string", "any") and field.get("format") is None
    return name, _open("categorical" if plain else "ignore", missing=missing), {}


def _csvw(path: Path, found: Mapping[str, Any]) -> tuple[list[Entry], dict[str, Any]]:
    table = found["tableSchema"]
    keys, usual = _keys(table.get("primaryKey")), table.get("null", found.get("null"))
    given = table.get("columns")
    columns = [_named(path, column) for column in given] if isinstance(given, list) else []
    entries = [_csvw_column(column, keys) for column in columns if column.get("virtual") is not True]
    dialect, reading = _mapping(found.get("dialect")), dict[str, Any]()
    if isinstance(dialect.get("delimiter"), str):
        reading["separator"] = dialect["delimiter"]
    if str(dialect.get("encoding", "utf-8")).lower() not in ("utf-8", "utf8"):
        reading["encoding"] = ENCODED.get(str(dialect["encoding"]).lower(), str(dialect["encoding"]))
    missing = [code for code in _listed([usual] if isinstance(usual, str) else usual) if code]
    return entries, {**reading, **({"missing": missing} if missing else {})}


def _csvw_column(column: Mapping[str, Any], keys: tuple[str, ...]) -> Entry:
    titles: Any = column.get("titles")
    named: list[Any] = _listed([titles] if isinstance(titles, str) else titles)
    name = str((named or [column.get("name", "")])[0])  # what the header says
    given = column.get("datatype", "string")
    kind = _mapping(given) or {"base": given}
    missing, low, high = column.get("required") is not True, kind.get("minimum"), kind.get("maximum")
    form, found = kind.get("format"), CSVW.get(str(kind.get("base", "string")), "ignore")
    nulls = column.get("null")
    absent = [code for code in _listed([nulls] if isinstance(nulls, str) else nulls) if code]
    coding: dict[str, Any] = {"missing": absent} if absent and missing else {}
    if column.get("name") in keys or name in keys:
        return name, _open("identifier"), {}
    if found in ("integer", "continuous"):
        if _mapping(form).get("decimalChar") == ",":
            coding["decimal"] = ","
        bounds = _bounds(low, high, int if found == "integer" else float)
        return name, _open(found, bounds=bounds, missing=missing), coding
    if found == "boolean" and isinstance(form, str) and form.count("|") == 1:
        coding["words"] = form.split("|")[::-1]
    if found == "datetime":
        if isinstance(form, str) and form != "yyyy-MM-dd":
            coding["date"] = re.sub("MM|M|mm|ss", lambda part: UNICODE[part[0]], form)
        resolution = "day" if kind.get("base") == "date" else "second"
        return name, _open(found, bounds=_dates(low, high), resolution=resolution, missing=missing), coding
    return name, _open(found, missing=missing), {} if found == "ignore" else coding


# ---- The labels in a file of SPSS or Stata, without its records.


def _statistics(path: Path, ending: str) -> Iterator[Entry]:
    found = foreign.parsed(path, ending, "dictionary")
    for field in found.table.schema:
        name, measure = field.name, found.facts["measures"].get(field.name)
        labels = foreign.labels(found.facts, name)
        if len(labels) > 1 and measure != "scale":
            ordered = "ordinal" if measure == "ordinal" else "categorical"
            yield name, _open(ordered, categories=list(dict.fromkeys(labels.values()))), {"labels": labels}
        elif pa.types.is_timestamp(field.type):
            shown = found.facts["formats"][name].upper()
            fine = "TC" in shown or shown.startswith(("DATETIME", "YMDHMS", "%-TC", "%TC"))
            yield name, _open("datetime", resolution="second" if fine else "day"), {}
        elif pa.types.is_string(field.type):
            yield name, _open("identifier" if names_somebody(name) else "categorical"), {}
        else:
            whole = pa.types.is_integer(field.type) or re.fullmatch(r"F[0-9]+(\.0)?", found.facts["formats"][name])
            yield name, _open("integer" if whole else "continuous"), {}
