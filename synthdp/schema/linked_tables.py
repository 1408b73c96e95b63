"""Linked tables as a schema declares them: people, their visits in order, and what belongs to a visit, such as diagnoses.

    tables:
      person:    {key: person_id, columns: {sex: {...}, birth: {...}}}
      visit:     {parent: person, key: visit_id, order: start, max_rows: 10, columns: {start: {...}, ward: {...}}}
      diagnosis: {parent: visit, max_rows: 3, columns: {code: {...}, severity: {...}, found: {kind: datetime, ...}}}

A model sees them as one table of histories: a row for each visit, with the columns of its person repeated (`person.sex`, constant per
unit), its own (`visit.ward`), and those of the rows below it in as many places as may count (`diagnosis.code 1` to `3` and
`diagnosis.severity 1` to `3`, missing where there are fewer). `synthdp.schema.joined_tables` joins frames in this way. The first column of
a table below visits says what a row is; the others are predicted from it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput, about, check_keys, nearest
from synthdp.schema.columns import TODO, Column, Datetime, Identifier, Ignored
from synthdp.schema.rules import Order, Rule, rule_places

if TYPE_CHECKING:
    from synthdp.schema.file_coding import Reading
    from synthdp.schema.schema import Schema

NO_PLACE = {
    "columns": "each table lists its own",
    "order": "the table of visits says it",
    "per_unit": "these are the columns of the table of people",
    "max_records_per_unit": "max_rows of the table of visits says it",
    "reading": "each table says how its own files are written",
}
LINKS = ("parent", "key", "order", "max_rows")
KNOWN = (*LINKS, "reading", "columns")
LABELS = ("categorical", "ordinal", "boolean")
MOST_NUMBERED = 4_999  # rows of a person whose keys may follow a pattern: twice as many may be drawn, and their numbers have four digits
MOST_PLACES = 12  # rows below one visit
MOST_SHOWN = 120  # characters of a rule in a message
SHAPE = "a table of people, one of their visits below it, and tables below the visits"
FEWER_ROWS = (
    "Of measurements that are taken every hour, keep one number for each test before the fit, such as the first, the last or the worst "
    "one; or declare a visit for each day"
)
REMEDY = (
    "Join other tables to one of these, or leave them out. A draft takes every table in the folder, or in the database's schema: put the "
    "ones you want into a separate folder, or create views of them in a separate schema"
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One of several linked tables. `key` names its rows, `parent` the table whose rows hold them, `order` the column by which the visits
    of a person follow one another. At most `max_rows` rows of one parent count. `with_unit`: it has the column of people besides its
    parent's key, and is joined by both. Of a table below visits, `optional` are the columns in which cells may be missing. `orders` are the
    rules by which a date of its rows is not before another date, or not after it; all of them are kept by construction. `rules` are all
    other rules that name its columns; those at the places `honoured` are kept (`structural_zeros`; None: all that can be). `reading`: how
    its files are written. `names`: the columns of a file in their order, if they were declared with keys among them."""

    name: str
    key: str | None = None
    parent: str | None = None
    order: str | None = None
    max_rows: int | None = None
    with_unit: bool = False
    optional: tuple[str, ...] = ()
    orders: tuple[Order, ...] = ()
    rules: tuple[Rule, ...] = ()
    honoured: tuple[int, ...] | None = None
    reading: "Reading | None" = None
    names: tuple[str, ...] = ()

    @property
    def below(self) -> bool:
        """Whether its rows are those of visits."""
        return self.parent is not None and self.order is None


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
    people, visits, *items = _in_order({name: _read(name, entry, given, unit) for name, entry in given.items()}, unit)
    columns: dict[str, Any] = {unit: {"kind": "identifier"}}
    for table in (people, visits):
        columns |= {f"{table.name}.{name}": column for name, column in _columns(given, table, unit).items()}
    if visits.order not in (own := _columns(given, visits, unit)):
        hint = nearest(str(visits.order), own) or "; name the date of a visit"
        raise BadInput(f"table {visits.name!r}: order {visits.order!r} is not one of its columns{hint}")
    for place, table in enumerate(items):
        own = _columns(given, table, unit)
        items[place] = replace(
            table, optional=tuple(name for name, column in own.items() if column.get("missing") is True)
        )
        for name, column in own.items():
            if column["kind"] == "ignore":
                columns[f"{table.name}.{name}"] = column
                continue
            facts = {**column, "missing": True}  # one for all places
            columns |= dict.fromkeys(places_of(table, name), facts)
    whole = (people, visits, *items)
    rules, honoured, orders, others = _rules_apart(values, columns, whole)
    listed = isinstance(values.get("honoured"), list | tuple)
    return {
        **values,
        "columns": columns,
        "tables": tuple(
            replace(
                table,
                orders=tuple(orders.get(table.name, ())),
                rules=tuple(rule for _, rule in others.get(table.name, ())),
                honoured=tuple(
                    place for place, (at, _) in enumerate(others.get(table.name, ())) if at in values["honoured"]
                )
                if listed
                else None,
            )
            for table in whole
        ),
        "rules": rules,
        "honoured": honoured,
        "order": f"{visits.name}.{visits.order}",
        "per_unit": [
            f"{people.name}.{name}"
            for name, column in _columns(given, people, unit).items()
            if column["kind"] != "ignore"
        ],
        "max_records_per_unit": visits.max_rows,
    }


def _read(name: Any, entry: Any, given: Mapping[Any, Any], unit: str) -> Table:
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise BadInput(
            f"schema: the name of table {name!r} must be letters, digits and underscores: the table's files are named after it"
        )
    check_keys(f"table {name!r}", entry if isinstance(entry, Mapping) else (), KNOWN)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("columns"), Mapping) or not entry["columns"]:
        raise BadInput(f"table {name!r}: needs a mapping with columns, which maps each column's name to its kind")
    for fault in _faults(entry, given, unit):
        raise BadInput(f"table {name!r}: {fault}")
    keys = _linking(entry, given)
    from synthdp.schema.file_coding import Reading

    links: dict[str, Any] = {key: entry.get(key) for key in LINKS}
    with about(f"table {name!r}"):
        reading = None if entry.get("reading") is None else Reading.from_dict(entry["reading"])
    return Table(
        name=name,
        reading=reading,
        **links,
        with_unit=unit in entry["columns"] and unit not in keys.values(),
        names=tuple(map(str, entry["columns"])) if any(key in entry["columns"] for key in keys.values()) else (),
    )


def _linking(entry: Mapping[str, Any], given: Mapping[Any, Any]) -> dict[str, str | None]:
    above = given.get(entry.get("parent"))
    return {"its key": entry.get("key"), "its parent's key": above.get("key") if isinstance(above, Mapping) else None}


def _faults(entry: Mapping[str, Any], given: Mapping[Any, Any], unit: str) -> Iterator[str]:
    """How what a table declares contradicts itself, or the other tables."""
    for key in ("parent", "key", "order"):
        if entry.get(key) is not None and not isinstance(entry[key], str):
            yield f"{key} must be text; put quotes around it"
    most = entry.get("max_rows")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        yield "max_rows must be a whole number of at least 1"
    if entry.get("parent") is not None and entry["parent"] not in given:
        meant = nearest(entry["parent"], given) or f": {', '.join(map(str, given))}"
        yield f"parent {entry['parent']!r} is not one of the tables{meant}"
    keys = _linking(entry, given)
    for column, facts in entry["columns"].items():
        kind = facts.get("kind") if isinstance(facts, Mapping) else None
        if kind == "image":
            yield f"column {column!r} is an image; linked tables have none"
        if kind == "identifier" and column not in keys.values() and (column != unit or entry.get("parent") is None):
            yield f"column {column!r} is an identifier: say key for the one that names its rows, and kind: ignore for others"
        for which in (which for which, key in keys.items() if key == column and kind != "identifier"):
            yield (
                f"{column!r} is {which}, and a fit learns nothing from keys: leave it out of columns, or declare it as kind: identifier "
                "to keep its place in synthetic files"
            )


def _in_order(tables: Mapping[str, Table], unit: str) -> list[Table]:
    """People, visits, and the tables below visits as they stand."""
    people = [table for table in tables.values() if table.parent is None]
    if len(people) != 1 or people[0].key != unit:
        found = ", ".join(f"{table.name} (key: {table.key})" for table in people) or "none"
        raise BadInput(
            f"schema: tables: exactly one table, that of the people, must have no parent, and its key must be the unit, {unit!r}; "
            f"tables without a parent: {found}"
        )
    (root,) = people
    visits = [table for table in tables.values() if table.parent == root.name]
    if len(visits) != 1:
        found = ", ".join(table.name for table in visits) or "none"
        raise BadInput(
            f"schema: tables: exactly one table, that of the visits, must have the parent {root.name!r}, found {found}: "
            f"histories takes {SHAPE}{f'. {REMEDY}' if visits else ''}"
        )
    (visit,) = visits
    items = [table for table in tables.values() if table not in (root, visit)]
    deeper = next((table for table in items if table.parent != visit.name), None)
    if deeper is not None:
        raise BadInput(
            f"table {deeper.name!r}: its parent {deeper.parent!r} is neither the table of people nor that of visits: histories takes "
            f"{SHAPE}. {REMEDY}"
        )
    if root.max_rows is not None or root.order is not None:
        raise BadInput(f"table {root.name!r}: a person has one row there: max_rows and order belong to {visit.name!r}")
    if visit.order is None or visit.max_rows is None:
        raise BadInput(
            f"table {visit.name!r}: needs order, the column that orders a person's visits, and max_rows, how many visits of a person count"
        )
    if items and visit.key is None:
        raise BadInput(f"table {visit.name!r}: needs key, the column that links {items[0].name!r} to its visits")
    if len({name.casefold() for name in tables}) < len(tables):
        raise BadInput("schema: tables: two names differ in capitals alone, which some file systems take for one file")
    for table in items:
        if table.order is not None:
            raise BadInput(f"table {table.name!r}: order belongs to {visit.name!r}: the rows of a visit have no order")
        if table.max_rows is None:
            raise BadInput(
                f"table {table.name!r}: needs max_rows, how many rows of one visit count, at most {MOST_PLACES}"
            )
        if table.max_rows > MOST_PLACES:
            raise BadInput(f"table {table.name!r}: max_rows must be at most {MOST_PLACES}. {FEWER_ROWS}")
    keys = [table.key for table in (root, visit, *items) if table.key is not None]
    if len(set(keys)) < len(keys):
        raise BadInput("schema: tables: two tables have keys of one name: rename one of them in schema and file")
    return [root, visit, *items]


def _columns(given: Mapping[str, Any], table: Table, unit: str) -> dict[str, Any]:
    """What a table declares of its columns, without its keys and that of people."""
    keys = (unit, table.key, None if table.parent is None else given[table.parent].get("key"))
    columns = {name: column for name, column in given[table.name]["columns"].items() if name not in keys}
    kinds = [column.get("kind") if isinstance(column, Mapping) else None for column in columns.values()]
    if not [kind for kind in kinds if kind != "ignore"]:
        raise BadInput(f"table {table.name!r}: columns must name at least one column to learn")
    if not table.below:
        return columns
    (name, column), *_ = (each for each in columns.items() if each[1]["kind"] != "ignore")
    if column["kind"] not in LABELS:
        raise BadInput(
            f"table {table.name!r}: its first column, {name!r}, says what a row is, and must be of kind {', '.join(LABELS)}: put the "
            "codes first; further columns may be of any kind"
        )
    tree = column.get("tree")
    held = tree.get("codes") if isinstance(tree, Mapping) else None  # of a schema that was written by itself
    if column.get("missing"):
        raise BadInput(
            f"table {table.name!r}: its first column, {name!r}, says what a row is, so no cell of it can be missing: leave out rows "
            "that lack it, and remove missing: true"
        )
    if column.get("categories") == "learn" and held in (None, "learn"):
        raise BadInput(
            f"table {table.name!r}: column {name!r} needs declared categories; a tree whose codes are declared learns which of them occur"
        )
    for other, facts in columns.items():
        learned = [key for key in ("categories", "bounds", "bins") if facts.get(key) in ("learn", TODO)]
        if facts.get("review") is True:  # a draft, which is not fitted
            columns[other] = {**facts, **dict.fromkeys(learned, "learn")}
        elif other != name and (learned or facts.get("tree") is not None):
            raise BadInput(
                f"table {table.name!r}: column {other!r}: {(learned or ['tree'])[0]} of a table below visits cannot be bought: declare them"
            )
    return columns


def _rules_apart(
    values: Mapping[Any, Any], columns: Mapping[str, Any], tables: tuple[Table, ...]
) -> tuple[Any, Any, dict[str, list[Order]], dict[str, list[tuple[int, Any]]]]:
    """The rules on people and visits; which of these are to be honoured; and by table below visits, the orders of dates, which its rows
    keep in any case, and the other rules of its rows as they were given, each with its place."""
    given = values.get("rules")
    if not isinstance(given, list | tuple):
        return given, values.get("honoured"), {}, {}
    kinds = {name: column["kind"] for name, column in columns.items()}
    people, visits = tables[:2]
    dates: dict[str, str] = {
        name: ""
        for name, kind in kinds.items()
        if kind == "datetime" and (name.startswith(f"{people.name}.") or name == f"{visits.name}.{visits.order}")
    }
    below: dict[str, str] = {}
    for table in tables[2:]:
        names = [name for name in columns if name.startswith(f"{table.name}.")]
        below |= {name.removesuffix(" 1"): table.name for name in names if name.endswith(" 1")}
        dates |= {name[:-2]: table.name for name in names if name.endswith(" 1") and kinds[name] == "datetime"}
    rest: list[Any] = []
    orders, others, moved = dict[str, list[Order]](), dict[str, list[tuple[int, Any]]](), dict[int, int]()
    for place, rule in enumerate(given):
        told = {name for name in below if re.search(rf"(?<!\w){re.escape(name)}(?![\w.])", str(_plain(rule)))}
        of = {below[name] for name in told}
        if not of:
            moved[place] = len(rest)
            rest.append(rule)
            continue
        if len(of) > 1:
            raise BadInput(
                f"schema: rule {_shown(rule)} names two tables below visits, {' and '.join(sorted(of))}. No row of one belongs to a row "
                "of the other, so a rule between them can be neither kept nor counted: leave it out"
            )
        (name,) = of
        order = _order(rule)
        ends = () if order is None else (dates.get(order.left), dates.get(order.right))
        if order is not None and None not in ends and order.left != order.right:
            orders.setdefault(name, []).append(order)
        elif told & set(dates):
            raise BadInput(
                f"schema: rule {_shown(rule)}: a date below visits is ordered by >= or <= and no more: against the visit's order, a date "
                "of the person, or another date of the same row. Leave out other rules about this date"
            )
        else:
            others.setdefault(name, []).append((place, rule))
    honoured = values.get("honoured")
    if honoured is not None:
        honoured = [moved[place] for place in rule_places(honoured, len(given)) if place in moved]
    return rest, honoured, orders, others


def _shown(rule: Any) -> str:
    text = repr(_plain(rule))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _plain(rule: Any) -> Any:
    return rule.plain() if isinstance(rule, Rule) else rule


def _order(rule: Any) -> Order | None:
    """`left >= right`, as a value."""
    parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=)\s*(.+?)\s*", str(_plain(rule)))
    if parts is None or not isinstance(_plain(rule), str):
        return None
    return Order(left=parts[1], op=">=" if parts[2] == ">=" else "<=", right=parts[3])


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
            "schema: a schema has tables or columns, not both: make a schema of linked tables with Schema.from_dict or Schema.load"
        )
    for table in schema.tables:
        with about(f"table {table.name!r}"):
            numbered = table.reading is not None and table.key is not None and table.reading.coding(table.key).pattern
            if numbered and (table.max_rows or 0) > MOST_NUMBERED:
                raise BadInput(
                    f"keys can follow a pattern only if max_rows is at most {MOST_NUMBERED:,}: leave the pattern out, or lower max_rows"
                )
            known = {*keys_of(schema, table), *(name for name, _ in held(schema, table))}
            for name, _ in () if table.reading is None else table.reading.columns:
                if name not in known:
                    meant = nearest(str(name), known)
                    raise BadInput(f"reading: column {name!r} is not one of its columns or keys{meant}")
            of_table(schema, table)


def parsed(schema: "Schema", table: Table) -> Table:
    """The table with its rules as values instead of text. Raises `BadInput` that names the rule."""
    from synthdp.schema.rule_text import parse

    if not table.rules:
        return table
    of = of_rows(schema, table)
    return replace(table, rules=parse(table.rules, of.columns, of.names))


def of_rows(schema: "Schema", table: Table) -> "Schema":
    """The columns that rules of a table below visits may name: its own, each once for all places, and those of people and visits."""
    below = [(column, at) for column, at in once(schema) if column.name.startswith(f"{table.name}.")]
    above = [schema.column(name) for name in (*schema.per_unit, *of_visits(schema))]
    return type(schema)(columns=(*above, *(column for column, _ in below)))


def of_visits(schema: "Schema") -> list[str]:
    """The columns of the table of visits."""
    return [name for name in schema.names if name.startswith(f"{schema.tables[1].name}.")]


def learned_of(schema: "Schema", table: Table) -> list[str]:
    """The columns of a table that a model learns, by the names that its file has."""
    return [name for name, _ in modelled(schema, table)]


def modelled(schema: "Schema", table: Table) -> Iterator[tuple[str, Column]]:
    """The same, each with the column of the joined table: the first of several places."""
    for name, column in held(schema, table):
        if not isinstance(column, Ignored):
            yield name, column


def limit(schema: "Schema", rule: Rule) -> tuple[str, bool] | None:
    """The date of people that all visits are not before, or (False) not after, by the rule; None where it says something else."""
    if not isinstance(rule, Order) or schema.order not in (rule.left, rule.right):
        return None
    since = (rule.op == ">=") == (rule.left == schema.order)
    other = rule.right if rule.left == schema.order else rule.left
    dates = all(isinstance(schema.column(name), Datetime) for name in (rule.left, rule.right))
    return (other, since) if dates and other in schema.per_unit and rule.op in ("<=", ">=") else None


def ends(schema: "Schema") -> list[str]:
    """The dates of people that rules put after all visits, such as death."""
    limits = [limit(schema, rule) for rule in schema.rules]
    return list(dict.fromkeys(each[0] for each in limits if each is not None and not each[1]))


def _table_of(schema: "Schema", column: str) -> Table | None:
    return next((table for table in schema.tables if table.name == column.partition(".")[0]), None)


def held(schema: "Schema", table: Table) -> Iterator[tuple[str, Column | Ignored]]:
    """The columns of a table by the names that its file has, each with the column of the joined table: the first of several places."""
    for column in (*schema.columns, *schema.ignored):
        if column.name != schema.unit and _table_of(schema, column.name) == table:
            name = column.name.partition(".")[2]
            if not table.below or isinstance(column, Ignored):
                yield name, column
            elif name.endswith(" 1"):
                yield name[:-2], column


def keys_of(schema: "Schema", table: Table) -> tuple[str, ...]:
    """The identifiers of a table's file: its key, that of people where it has it, and its parent's."""
    parent = next((each.key for each in schema.tables if each.name == table.parent), None)
    return tuple(str(key) for key in (table.key, schema.unit if table.with_unit else None, parent) if key is not None)


def placed(table: Table, names: Iterable[str]) -> list[str]:
    """Columns in the order of the table's file, as far as it is declared; others, such as keys, before them."""
    return sorted(names, key=lambda name: table.names.index(name) if name in table.names else -1)


def of_table(schema: "Schema", table: Table) -> "Schema":
    """What is public of one table: a schema by which its file is read, checked and written."""
    columns: list[Any] = [Identifier(name=key) for key in keys_of(schema, table)]
    for name, column in held(schema, table):
        changed: dict[str, Any] = {"name": name}
        if table.below and not isinstance(column, Ignored):
            changed["missing"] = name in table.optional
        columns.append(replace(column, **changed))
    order = placed(table, [column.name for column in columns])
    return type(schema)(
        columns=tuple(sorted(columns, key=lambda column: order.index(column.name))),
        name=table.name,
        declared_by=schema.declared_by,
        reading=_reading(schema, table),
    )


def _reading(schema: "Schema", table: Table) -> "Reading | None":
    """How a table's files are written; its keys as in the tables whose keys they are, so that fresh ones are linked."""
    from synthdp.schema.file_coding import Coding, Reading

    found = Reading() if table.reading is None else table.reading
    of = {each.key: each for each in schema.tables}
    codings = dict(found.columns)
    for key in keys_of(schema, table):
        owner = of[key].reading
        pattern = None if owner is None else owner.coding(key).pattern
        if pattern is not None or key in codings:  # a number that tells the person and the place may need all 64 bits
            coding = codings.get(key, Coding())
            stored = coding.stored if key == schema.unit else None
            above = [] if key == schema.unit else [schema.tables[1], *[of[key]] * of[key].below]
            rows = tuple(2 * (each.max_rows or 0) for each in above)
            codings[key] = replace(coding, pattern=pattern, stored=stored, rows=rows)
    made = replace(found, columns=tuple(codings.items()))
    return None if made == Reading() else made


def alone(schema: "Schema") -> "Schema":
    """The joined table's schema, as that of one table of histories, without what is told by codes below visits."""
    further = {
        name for table in schema.tables[2:] for each in learned_of(schema, table)[1:] for name in places_of(table, each)
    }
    columns = tuple(column for column in schema.columns if column.name not in further)
    return replace(schema, tables=(), columns=columns, honoured=() if schema.rules else None)


def told_by(schema: "Schema", table: Table) -> str | None:
    """The column that says what a row of a table below visits is; None for the other tables."""
    return next(iter(learned_of(schema, table)), None) if table.below else None


def whole(schema: "Schema", name: str) -> str:
    """The name of a column of the joined table; one below visits without its place."""
    below = any(table.below and name.startswith(f"{table.name}.") for table in schema.tables)
    return name.rpartition(" ")[0] if below else name


def once(schema: "Schema") -> Iterator[tuple[Column, int]]:
    """Each column of the joined table, with 0; each column below visits once, named by `whole`, with the number of its places."""
    below = {table.name: table for table in schema.tables if table.below}
    for column in schema.columns:
        name = whole(schema, column.name)
        if name == column.name:
            yield column, 0
        elif column.name == f"{name} 1":
            table, _, own = name.partition(".")
            changed: dict[str, Any] = {"name": name, "missing": own in below[table].optional}
            yield replace(column, **changed), below[table].max_rows or 0


def named(schema: "Schema") -> tuple[str, ...]:
    """The columns by the names that a schema file has for them."""
    return tuple(dict.fromkeys(whole(schema, name) for name in schema.names))


def column_of(schema: "Schema", name: str) -> Column:
    """The column of that name, one below visits without its place."""
    return next(column for column, _ in once(schema) if column.name == name)


def places_of(table: Table, name: str) -> list[str]:
    """What a column of a table below visits is called in the joined table."""
    return [f"{table.name}.{name} {place + 1}" for place in range(table.max_rows or 0)]


def nested(schema: "Schema", facts: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The tables as a schema file has them; `facts` are those of the joined columns."""
    found = {}
    for table in schema.tables:
        links = {key: getattr(table, key) for key in LINKS if getattr(table, key) is not None}
        keys = [key for key in keys_of(schema, table) if key in table.names or (table.with_unit and key == schema.unit)]
        columns: dict[str, Any] = {key: {"kind": "identifier"} for key in keys}
        for name, column in held(schema, table):
            kept = not table.below or name in table.optional or isinstance(column, Ignored)
            columns[name] = {key: fact for key, fact in facts[column.name].items() if key != "missing" or kept}
        read = {} if table.reading is None else {"reading": table.reading.to_dict()}
        found[table.name] = {**links, **read, "columns": {name: columns[name] for name in placed(table, columns)}}
    return found
