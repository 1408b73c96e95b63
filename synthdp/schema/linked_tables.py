"""Linked tables as a schema declares them: people, their visits in order, and what belongs to a visit, such as diagnoses.

    tables:
      person:    {key: person_id, columns: {sex: {...}, birth: {...}}}
      visit:     {parent: person, key: visit_id, order: start, max_rows: 10, columns: {start: {...}, ward: {...}}}
      diagnosis: {parent: visit, max_rows: 3, columns: {code: {...}}}

A model sees them as one table of histories: a row for each visit, with the columns of its person repeated (`person.sex`, constant per
unit), its own (`visit.ward`), and those of the rows below it in as many places as may count (`diagnosis.code 1` to `3`, missing where there
are fewer). `synthdp.schema.joined_tables` joins frames in this way.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.schema.columns import Column, Datetime, Identifier, Ignored
from synthdp.schema.rules import Order, Rule

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

NO_PLACE = {
    "columns": "each table lists its own",
    "order": "the table of visits says it",
    "per_unit": "these are the columns of the table of people",
    "max_records_per_unit": "max_rows of the table of visits says it",
    "reading": "files of linked tables are in the plain coding",
}
KNOWN = ("parent", "key", "order", "max_rows", "columns")
LABELS = ("categorical", "ordinal", "boolean")
MOST_PLACES = 12  # rows below one visit
SHAPE = "a table of people, one of their visits below it, and tables below the visits"


@dataclass(frozen=True, kw_only=True)
class Table:
    """One of several linked tables. `key` names its rows, `parent` the table whose rows hold them, `order` the column by which the visits
    of a person follow one another. At most `max_rows` rows of one parent count. `with_unit`: it has the column of people besides its
    parent's key, and is joined by both."""

    name: str
    key: str | None = None
    parent: str | None = None
    order: str | None = None
    max_rows: int | None = None
    with_unit: bool = False


def flattened(values: Mapping[Any, Any]) -> dict[str, Any]:
    """What a schema with `tables` declares, as that of the table of histories which a model sees; `tables` are `Table`s. Raises `BadInput`
    that names the table, for a tree of another shape than people, visits, and tables below visits."""
    for key, why in NO_PLACE.items():
        if values.get(key) not in (None, [], ()):
            raise BadInput(f"schema: {key} has no place beside tables: {why}; leave it out")
    given, unit = values["tables"], values.get("unit")
    if not isinstance(given, Mapping) or not given:
        raise BadInput(f"schema: tables must map names to tables: {SHAPE}")
    if not isinstance(unit, str):
        raise BadInput("schema: tables need unit, the key of the table of people: their rows are protected together")
    people, visits, *items = _in_order({name: _read(name, entry, unit) for name, entry in given.items()}, unit)
    columns: dict[str, Any] = {unit: {"kind": "identifier"}}
    for table in (people, visits):
        columns |= {f"{table.name}.{name}": column for name, column in _columns(given, table, unit).items()}
    if visits.order not in _columns(given, visits, unit):
        raise BadInput(
            f"table {visits.name!r}: order {visits.order!r} is not one of its columns; name the date of a visit"
        )
    for table in items:
        ((name, column),) = _columns(given, table, unit).items()
        columns |= {
            f"{table.name}.{name} {place + 1}": {**column, "missing": True} for place in range(table.max_rows or 0)
        }
    return {
        **values,
        "columns": columns,
        "tables": (people, visits, *items),
        "order": f"{visits.name}.{visits.order}",
        "per_unit": [
            f"{people.name}.{name}"
            for name, column in _columns(given, people, unit).items()
            if column["kind"] != "ignore"
        ],
        "max_records_per_unit": visits.max_rows,
    }


def _read(name: Any, entry: Any, unit: str) -> Table:
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise BadInput(
            f"schema: the name of table {name!r} must be letters, digits and underscores: files are called by it"
        )
    if not isinstance(entry, Mapping) or not isinstance(entry.get("columns"), Mapping) or not entry["columns"]:
        raise BadInput(f"table {name!r}: needs a mapping with columns, which maps each column's name to its kind")
    if unknown := [key for key in entry if key not in KNOWN]:
        raise BadInput(f"table {name!r}: unknown key {unknown[0]!r}; known keys: {', '.join(KNOWN)}")
    for key in ("parent", "key", "order"):
        if entry.get(key) is not None and not isinstance(entry[key], str):
            raise BadInput(f"table {name!r}: {key} must be text; put quotes around it")
    most = entry.get("max_rows")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise BadInput(f"table {name!r}: max_rows must be a whole number of at least 1")
    for column, facts in entry["columns"].items():
        kind = facts.get("kind") if isinstance(facts, Mapping) else None
        if kind == "image":
            raise BadInput(f"table {name!r}: column {column!r} is an image; linked tables have none")
        if kind == "identifier" and (column != unit or entry.get("parent") is None):
            raise BadInput(
                f"table {name!r}: column {column!r} is an identifier: say key for the one that names its rows, and kind: ignore for others"
            )
        if column == entry.get("key"):
            raise BadInput(
                f"table {name!r}: {column!r} is its key, which is no column to declare: leave it out of columns"
            )
    return Table(
        name=name,
        key=entry.get("key"),
        parent=entry.get("parent"),
        order=entry.get("order"),
        max_rows=entry.get("max_rows"),
        with_unit=unit in entry["columns"],
    )


def _in_order(tables: Mapping[str, Table], unit: str) -> list[Table]:
    """People, visits, and the tables below visits as they stand."""
    for table in tables.values():
        if table.parent is not None and table.parent not in tables:
            raise BadInput(f"table {table.name!r}: parent {table.parent!r} is no table; tables: {', '.join(tables)}")
    people = [table for table in tables.values() if table.parent is None]
    if len(people) != 1 or people[0].key != unit:
        raise BadInput(
            f"schema: tables: just one table, that of the people, has no parent, and its key is the unit, {unit!r}"
        )
    (root,) = people
    visits = [table for table in tables.values() if table.parent == root.name]
    if len(visits) != 1:
        found = ", ".join(table.name for table in visits) or "none"
        raise BadInput(
            f"schema: tables: just one table has the parent {root.name!r}, that of the visits, found {found}: histories takes {SHAPE}"
        )
    (visit,) = visits
    items = [table for table in tables.values() if table not in (root, visit)]
    deeper = next((table for table in items if table.parent != visit.name), None)
    if deeper is not None:
        raise BadInput(
            f"table {deeper.name!r}: its parent {deeper.parent!r} is neither the table of people nor that of visits: histories takes "
            f"{SHAPE}. Join it to its parent, or leave it out"
        )
    if root.max_rows is not None or root.order is not None:
        raise BadInput(f"table {root.name!r}: a person has one row there: max_rows and order belong to {visit.name!r}")
    if visit.order is None or visit.max_rows is None:
        raise BadInput(
            f"table {visit.name!r}: needs order, its column by which visits follow one another, and max_rows, how many of a person count"
        )
    if visit.with_unit:
        raise BadInput(
            f"table {visit.name!r}: {unit!r} is its parent's key, which it has in any case: leave it out of columns"
        )
    if items and visit.key is None:
        raise BadInput(f"table {visit.name!r}: needs key, by which {items[0].name!r} tells its visits")
    if len({name.casefold() for name in tables}) < len(tables):
        raise BadInput("schema: tables: two names differ in capitals alone, which some file systems take for one file")
    for table in items:
        if table.order is not None or table.max_rows is None or table.max_rows > MOST_PLACES:
            raise BadInput(
                f"table {table.name!r}: needs max_rows, how many rows of one visit count, at most {MOST_PLACES}; it has no order"
            )
    keys = [table.key for table in (root, visit, *items) if table.key is not None]
    if len(set(keys)) < len(keys):
        raise BadInput("schema: tables: two tables have keys of one name: rename one of them in schema and file")
    return [root, visit, *items]


def _columns(given: Mapping[str, Any], table: Table, unit: str) -> dict[str, Any]:
    """What a table declares of its columns, without that of people."""
    columns = {name: column for name, column in given[table.name]["columns"].items() if name != unit}
    kinds = [column.get("kind") if isinstance(column, Mapping) else None for column in columns.values()]
    if not [kind for kind in kinds if kind != "ignore"]:
        raise BadInput(f"table {table.name!r}: columns must name at least one column to learn")
    if table.parent is None or table.order is not None:
        return columns
    parent = given[table.parent].get("key")
    if parent in columns:
        raise BadInput(
            f"table {table.name!r}: {parent!r} is its parent's key, which it has in any case: leave it out of columns"
        )
    (name, column), *more = columns.items()
    if more or kinds[0] not in LABELS:
        raise BadInput(
            f"table {table.name!r}: a table below visits has one column, of kind {', '.join(LABELS)}: the rows of a visit are a set of "
            "codes. Join codes that belong together to one column, or leave the others out"
        )
    if column.get("missing") or column.get("categories") == "learn":
        raise BadInput(
            f"table {table.name!r}: column {name!r} needs declared categories, and no cell is missing: leave such rows out"
        )
    return columns


def check(schema: "Schema") -> None:
    """Raise `BadInput` where tables do not go with the columns; `Schema.from_dict` makes both of one."""
    people, visits = schema.tables[:2]
    names = tuple(name for name in schema.names if name.startswith(f"{people.name}."))
    if (
        schema.order != f"{visits.name}.{visits.order}"
        or schema.max_records_per_unit != visits.max_rows
        or schema.per_unit != names
        or any(_table_of(schema, name) is None for name in schema.names if name != schema.unit)
        or schema.reading is not None
    ):
        raise BadInput(
            "schema: tables do not go with columns: make linked schemas of a mapping, by Schema.from_dict or Schema.load"
        )


def honoured(schema: "Schema") -> tuple[int, ...]:
    """Places of the rules that are kept by construction: those that put all visits of a person after a date of that person, or before."""
    found = [limit(schema, rule) for rule in schema.rules]
    return tuple(place for place, each in enumerate(found) if each is not None)


def limit(schema: "Schema", rule: Rule) -> tuple[str, bool] | None:
    """The date of people that all visits are not before, or (False) not after, by the rule; None where it says something else."""
    if not isinstance(rule, Order) or schema.order not in (rule.left, rule.right):
        return None
    since = (rule.op == ">=") == (rule.left == schema.order)
    other = rule.right if rule.left == schema.order else rule.left
    dates = all(isinstance(schema.column(name), Datetime) for name in (rule.left, rule.right))
    return (other, since) if dates and other in schema.per_unit and rule.op in ("<=", ">=") else None


def _table_of(schema: "Schema", column: str) -> Table | None:
    return next((table for table in schema.tables if table.name == column.partition(".")[0]), None)


def held(schema: "Schema", table: Table) -> Iterator[tuple[str, Column | Ignored]]:
    """The columns of a table by the names that its file has, each with the column of the joined table: the first of several places."""
    for column in (*schema.columns, *schema.ignored):
        if column.name != schema.unit and _table_of(schema, column.name) == table:
            name = column.name.partition(".")[2]
            if table.parent is None or table.order is not None or isinstance(column, Ignored):
                yield name, column
            elif name.endswith(" 1"):
                yield name[:-2], column


def keys_of(schema: "Schema", table: Table) -> tuple[str, ...]:
    """The identifiers of a table's file: its key, that of people where it has it, and its parent's."""
    parent = next((each.key for each in schema.tables if each.name == table.parent), None)
    return tuple(str(key) for key in (table.key, schema.unit if table.with_unit else None, parent) if key is not None)


def of_table(schema: "Schema", table: Table) -> "Schema":
    """What is public of one table: a schema by which its file is read, checked and written."""
    below = table.parent is not None and table.order is None
    columns: list[Any] = [Identifier(name=key) for key in keys_of(schema, table)]
    for name, column in held(schema, table):
        changed: dict[str, Any] = {"name": name} | (
            {"missing": False} if below and not isinstance(column, Ignored) else {}
        )
        columns.append(replace(column, **changed))
    return type(schema)(columns=tuple(columns), name=table.name, declared_by=schema.declared_by)


def alone(schema: "Schema") -> "Schema":
    """The joined table's schema, as that of one table of histories."""
    return replace(schema, tables=(), honoured=() if schema.rules else None)


def nested(schema: "Schema", facts: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The tables as a schema file has them; `facts` are those of the joined columns."""
    found = {}
    for table in schema.tables:
        links = {key: getattr(table, key) for key in KNOWN[:-1] if getattr(table, key) is not None}
        columns: dict[str, Any] = {str(schema.unit): {"kind": "identifier"}} if table.with_unit else {}
        below = table.parent is not None and table.order is None
        for name, column in held(schema, table):
            columns[name] = {key: fact for key, fact in facts[column.name].items() if key != "missing" or not below}
        found[table.name] = {**links, "columns": columns}
    return found
