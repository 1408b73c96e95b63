"""A table against its schema, for the steward's eyes: what is wrong, where, and what kind of remedy there is.

Nothing in it could be pasted into a schema as a bound, a bin, a category or a number of units: what a look at the records says would
become a declaration that nobody paid for (law 21). It names columns and rows, and says what to look up elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from synthdp.schema import cells, history_view, odd_cells
from synthdp.schema.check import (
    MISSING,
    NO_ORDER,
    NO_ROW,
    NOBODY,
    OFF_STEP,
    OUTSIDE,
    UNKNOWN,
    UNTRUE,
    broken,
    check,
    merged,
    never_missing,
)
from synthdp.schema.columns import (
    LEARN,
    MICROSECONDS,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Image,
    Integer,
    Numeric,
    Ordinal,
)
from synthdp.schema.file_coding import SPACE
from synthdp.schema.guesses import DAY_AS_TEXT
from synthdp.schema.joined_tables import Joined, joined, rows_of
from synthdp.schema.linked_tables import FEWER_ROWS, MOST_PLACES, Table, keys_of, of_rows, of_table
from synthdp.schema.rule_rows import broken as breaking
from synthdp.schema.rules import Rule
from synthdp.schema.schema import Schema

ROWS = 20  # that are named of each rule
# A column that predicts the target of this share of records is a copy, if it has at most this many values.
COPY, MOST_VALUES = 0.99, 1_000
# Up to this many different values could be categories; of more, this share says of what kind they are.
LISTABLE, MOSTLY = 50, 0.9
UNLINKED = 0.9  # of the rows with a key: if the keys of so many are not in the table above, and of its rows as many have none, they are
# probably written differently there
NUMBER = re.compile("[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)")
ELSEWHERE = "look it up outside of the records"
REMEDIES = {
    MISSING: "write missing: true where it may be, or correct the cells",
    NO_ROW: "take these rows out, as invalid=clamp does",
    NO_ORDER: "correct the cells, or take these records out",
    NOBODY: "say whose records they are, or take them out",
    UNTRUE: "write yes and no, true and false, or 1 and 0; or declare the column categorical",
}
EITHER_WAY = "a fit accepts these records: correct them, or take the rule out if they are right"
AT_MIDNIGHT = f"{EITHER_WAY}; dates are compared at their declared resolution, and a day counts as its midnight"
PUBLIC_STEP = f"correct the cells, or declare another step ({ELSEWHERE})"
UNREAD = "correct the cells, declare how the file writes them, or declare another kind"
UNREAD_DATE = (
    f"{UNREAD}. A column can have one form of dates only: if the file mixes several, write all its dates alike"
)
UNREAD_LABEL = "correct the cells, or declare another kind"  # beside pictures, where `reading` is refused


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing about a column, or about the table where `column` is empty. `rows` are numbers of records from 1, the first
    `ROWS` of `count`; `cells` what stands there, where that was asked for. A fit refuses what is `refused`, unless it clamps."""

    column: str
    what: str
    remedy: str
    count: int | None = None
    rows: tuple[int, ...] = ()
    every: bool = False  # no cell of the column that holds anything is as declared
    unlinked: bool = False  # nearly no key of the column is in the table above
    refused: bool = False
    cells: tuple[str, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ((), None, False)}


EMPTY = Finding(
    column="",
    what="the table has no records",
    remedy="a fit accepts it, and learns nothing from it; if it should have some, export the file again",
)


def _of_rows(
    column: str, what: str, remedy: str, wrong: Any, written: pd.DataFrame | None = None, **more: Any
) -> Finding:
    """A finding about the rows that are `wrong`; with cells of the column where `written`, the table as its file has it, is given."""
    rows = np.flatnonzero(np.asarray(wrong, np.bool_))
    shown: Any = [] if written is None else written[column].iloc[rows[:ROWS]]
    return Finding(
        column=column,
        what=what,
        remedy=remedy,
        count=len(rows),
        rows=tuple(int(row) + 1 for row in rows[:ROWS]),
        cells=tuple(cells.text(cell, np.inf) or "" for cell in shown),
        **more,
    )


def left_out(tables: Iterable[str]) -> list[Finding]:
    """What is said of tables that are there, but that the schema does not describe."""
    names = ", ".join(sorted(tables))
    what = f"tables that are left out, since the schema does not describe them: {names}"
    return [Finding(column="", what=what, remedy="synthetic records lack them")] if names else []


def review(schema: Schema, frame: pd.DataFrame, written: pd.DataFrame, *, values: bool = False) -> list[Finding]:
    """What a fit of this table would meet. `written` has the same records, each cell as the file has it; with `values` these cells are
    given. Raises `BadInput` for a table whose columns are not the schema's."""
    frame = check(schema, frame, "clamp")
    told = written if values else None
    found = [] if len(frame) else [EMPTY]
    found += [*_total(written, "record"), *_spellings(schema, frame)]
    found += [finding for column in schema.columns for finding in _cells(schema, column, frame[column.name], told)]
    found += [*_never_empty(schema, frame), *_zeros(schema, written), *_times(schema, frame)]
    found += [each for column in schema.columns for each in _learned(column, frame[column.name])]
    found += [*_rules(schema, frame), *_units(schema, frame), *_bins(schema, frame), *_copies(schema, frame)]
    return [*found, *_doubles(schema, frame)]


def review_tables(
    schema: Schema, frames: Mapping[str, pd.DataFrame], written: Mapping[str, pd.DataFrame], *, values: bool = False
) -> list[Finding]:
    """The same of linked tables: columns are named with their table, and links that lead to nothing or to several rows are listed."""
    frames = schema.validate_tables(frames, "clamp")
    found: list[Finding] = []
    for table in schema.tables:
        own, frame = of_table(schema, table), frames[table.name]
        told = written[table.name] if values else None
        several = [
            _never_missing(schema, table, find)
            for column in own.columns
            for find in _cells(own, column, frame[column.name], told, below=table.below)
        ]
        several += [
            *_zeros(own, written[table.name]),
            *_times(own, frame),
            *_spellings(own, frame),
            *_doubles(own, frame),
        ]
        found += _total(written[table.name], f"row of {table.name}")
        found += _never_empty(own, frame, table.name)
        several += [find for column in own.columns for find in _learned(column, frame[column.name])]
        several += _bins(own, frame, below=table.below)
        found += [replace(each, column=f"{table.name}.{each.column}") for each in several]
        found += [] if len(frame) else [replace(EMPTY, what=f"the table {table.name} has no rows")]
        if table.parent is None and schema.unit is not None:
            found += _names(f"{table.name}.{schema.unit}", frame, schema.unit)
        found += _links(schema, table, frames, told)
    whole = joined(frames, schema)
    found += _rules_of_tables(schema, whole)
    return [*found, *_windows(schema, whole), *_number(schema, whole.frame[schema.unit].nunique())]


def _never_missing(schema: Schema, table: Table, found: Finding) -> Finding:
    """The finding, with another rule and remedy if it concerns cells that a schema cannot allow to be missing."""
    name, rule = never_missing(schema, table)
    lacks = found.column == name and found.what == f"some values are {MISSING}"
    return replace(found, what=f"some values are {rule}", remedy=REMEDIES[rule]) if lacks else found


def _links(
    schema: Schema, table: Table, frames: Mapping[str, pd.DataFrame], written: pd.DataFrame | None
) -> Iterator[Finding]:
    """Keys of a table that are missing or stand twice, and rows whose parent is not there, or is there for several people. If `written`,
    the table as its file has it, is given, the findings show cells of it."""
    frame = frames[table.name]

    def told(column: str, what: str, remedy: str, wrong: Any, *, unlinked: bool = False) -> Iterator[Finding]:
        if np.any(wrong):
            found = _of_rows(column, what, remedy, wrong, written, unlinked=unlinked)
            yield replace(found, column=f"{table.name}.{column}")

    if table.key is not None:
        own = pd.Series(cells.texts(frame[table.key]), dtype=object)
        if table.parent is None or any(each.parent == table.name for each in schema.tables):
            yield from told(
                table.key,
                "some keys are missing, so no rows of other tables belong to these rows",
                "give them keys",
                own.isna() | (own == ""),
            )
        one = "one of a person's rows counts, by a hash of its content"
        then = one if table.parent is None else "what belongs to the key counts for each of its rows"
        yield from told(
            table.key,
            f"some keys occur in several rows: {then}",
            "correct the keys",
            own.duplicated(keep=False) & own.notna(),
        )
    parent = next((each for each in schema.tables if each.name == table.parent), None)
    if parent is None:
        return
    name = keys_of(schema, table)[-1]
    linked = pd.Series(cells.texts(frame[name]), dtype=object)
    above = pd.Series(cells.texts(frames[parent.name][name]), dtype=object)
    nothing = linked.isna() | (linked == "")
    orphan = ~nothing & ~linked.isin(above)
    reached = above.isin(linked[~nothing]).mean() if len(above) else 0.0
    unlinked = bool(orphan.sum() >= UNLINKED * (~nothing).sum() and reached <= 1 - UNLINKED)
    yield from told(
        name,
        f"{'all' if nothing.all() else 'some'} rows have no key of {parent.name}, and count for nobody",
        "complete the cells, or accept that synthetic records lack such rows",
        nothing,
    )
    yield from told(
        name,
        f"{'all' if orphan.all() else 'nearly all' if unlinked else 'some'} rows have a key that is not in {parent.name}, and count for "
        "nobody",
        "write keys alike in both files, with the same leading zeros and no .0 at the end; complete the table; or take these rows out",
        orphan,
        unlinked=unlinked,
    )
    if table.below:
        of = frame[~(orphan | nothing).to_numpy()].groupby(
            list(keys_of(schema, table)[-1 - table.with_unit :]), sort=False
        )
        sizes, most = of.size(), int(table.max_rows or 0)
        left = int((sizes - most).clip(lower=0).sum())
        if left:
            more = f"a larger number, up to {MOST_PLACES}, uses more rows and adds no noise: {_weighed(schema, table)}"
            share = f"{left / sizes.sum():.0%}" if 100 * left >= sizes.sum() else "less than 1%"
            few = most == MOST_PLACES or sizes.median() > MOST_PLACES
            yield Finding(
                column=f"{table.name}.{name}",
                what=f"some rows of {parent.name} have more rows here than max_rows: {most}; further rows are left out, "
                f"{share} of the table",
                remedy=f"max_rows can be at most {MOST_PLACES}. {FEWER_ROWS}" if few else more,
                count=left,
            )
    if parent.parent is None:
        return
    of_people = pd.Series(cells.texts(frames[parent.name][schema.unit]), dtype=object)
    if table.with_unit:
        held = set(zip(of_people, above, strict=True))
        pairs = zip(cells.texts(frame[schema.unit]), linked, strict=True)
        other = np.array([pair not in held for pair in pairs], np.bool_) & ~(orphan | nothing).to_numpy()
        yield from told(
            str(schema.unit),
            f"some rows name a person who has no such key in {parent.name}, and count for nobody",
            "correct the keys",
            other,
        )
        return
    shared = above[of_people.groupby(above).transform("nunique") > 1]
    yield from told(
        name,
        "some rows belong to several people, since their keys do, and count once for each",
        f"correct the keys, or declare {schema.unit} in {table.name}, if it says whose they are",
        linked.isin(shared),
    )


def _rules_of_tables(schema: Schema, whole: Joined) -> Iterator[Finding]:
    """Rows of each table that break a rule: one on columns of people alone is counted in their table."""
    people, visits, *below = schema.tables
    for rule in schema.rules:
        of_people = set(rule.columns) <= set(schema.per_unit)
        chosen = ~whole.frame[schema.unit].duplicated().to_numpy() if of_people else whole.there
        table = people if of_people else visits
        held = whole.rows[table.name][0][chosen]
        yield from _rows_breaking(rule, schema, whole.frame[chosen], held, schema, table)
    there = whole.frame[whole.there]
    for table in below:
        held = np.concatenate([each[whole.there] for each in whole.rows[table.name]])
        for rule in (*table.orders, *table.rules):
            rows = rows_of(there, schema, table, rule.columns)
            yield from _rows_breaking(rule, of_rows(schema, table), rows, held[held >= 0], schema, table)


def _rows_breaking(
    rule: Rule, of: Schema, rows: pd.DataFrame, held: Any, schema: Schema, table: Table
) -> Iterator[Finding]:
    """`held` (rows,) says which rows of the table these are; one may belong to several people."""
    wrong = np.bincount(held[breaking(rule, rows, of)])
    yield from _breaking(rule, schema, of, wrong, "rows", f" of {table.name}")


def _breaking(
    rule: Rule, schema: Schema, of: Schema, wrong: Any, rows: str = "records", where: str = ""
) -> Iterator[Finding]:
    """Rows that break a rule: most rules a fit makes synthetic records keep all the same."""
    if wrong.any():
        then = "are made to keep" if rule in schema.rules_apart()[0] else "may break as well"
        what = f"some {rows}{where} break the rule {rule.text!r}, which synthetic {rows} {then}"
        dates = any(isinstance(of.column(name), Datetime) for name in rule.columns)
        yield _of_rows("", what, AT_MIDNIGHT if dates else EITHER_WAY, wrong)


def _windows(schema: Schema, whole: Joined) -> Iterator[Finding]:
    numbers = whole.frame[schema.unit][whole.there].value_counts()
    left = int((numbers - schema.max_records_per_unit).clip(lower=0).sum())
    if left:
        table = schema.tables[1]
        yield Finding(
            column=f"{table.name}.{table.order}",
            what=f"some people have more visits than max_rows: {schema.max_records_per_unit}; further visits are left out",
            remedy=f"a larger number uses more visits and, from generator.clip on, adds no noise: {_weighed(schema)}",
            count=left,
        )


def _weighed(schema: Schema, below: Table | None = None) -> str:
    """What `histories` does instead of adding noise if more rows count: rows of the table `below` visits or, without one, visits. Only what
    must be bought of them (`learn`, trees of codes) holds more noise."""
    tables = tuple(f"{table.name}." for table in schema.tables if table.below)
    of = [name for name, _ in schema.learned if name.startswith(tables) == (below is not None)]
    bought = ", ".join(dict.fromkeys(name for name in of if below is None or name.startswith(f"{below.name}.")))
    also = f". Only what is learned of {bought} then holds more noise" if bought else ""
    return f"the more of them a person has, the less each one weighs; tables by their number get more cells{also}"


def _number(schema: Schema, held: int) -> Iterator[Finding]:
    """A number of units that is clearly another than declared."""
    if isinstance(schema.units, int) and not 0.9 <= held / max(1, schema.units) <= 1.1:
        more = "more" if held > schema.units else "fewer"
        yield Finding(
            column=schema.unit or "",
            what=f"the table holds clearly {more} units than `units:` declares; the fit is planned for the declared number",
            remedy=f"declare the number of units that will be fitted, from a public source ({_look(False)}); a split leaves about 80%",
        )


def _learned(column: Column, series: "pd.Series[Any]") -> Iterator[Finding]:
    """Columns whose values would be bought one by one, and should not be."""
    if not (isinstance(column, Identifier) or (isinstance(column, Categorical) and column.categories == LEARN)):
        return
    distinct = {text for text in cells.texts(series.dropna().drop_duplicates()) if text is not None}
    whole = sum(text.isascii() and text.isdecimal() for text in distinct)
    days = sum(not text.isdecimal() and bool(DAY_AS_TEXT.fullmatch(text) or cells.instant(text)) for text in distinct)
    numbers = sum(NUMBER.fullmatch(text) is not None for text in distinct)
    if len(distinct) > LISTABLE and days >= MOSTLY * len(distinct):
        then = "each of them would be learned as a category; most would be lost"
        if isinstance(column, Identifier):
            then = "an identifier is made anew for every record"
        yield Finding(
            column=column.name,
            what=f"holds dates for the most part, and {then}",
            remedy="declare it datetime, with the form of its dates under reading, and write all cells in this form",
        )
    if isinstance(column, Identifier) or not len(series):
        return
    if not distinct:
        yield Finding(
            column=column.name,
            what="has no value in any record, but noise may make up values",
            remedy="leave it out by kind: ignore",
        )
    elif whole == len(distinct) and column.other is None:
        yield Finding(
            column=column.name,
            what="holds digits alone, but categories that noise hides become the text `other`, so programs would take the whole "
            "column for text",
            remedy='say other: with digits that no code begins with, such as other: "99999"',
        )
    elif column.tree is not None and any(column.other in column.tree.chain(text)[1:] for text in distinct):
        yield Finding(
            column=column.name,
            what="has an `other` with which codes in the records begin, or which is a code above them, so that both become one category",
            remedy="say other: with a text that no code begins with",
        )
    elif column.tree is None and len(distinct) > LISTABLE and whole < numbers >= MOSTLY * len(distinct):
        yield Finding(
            column=column.name,
            what="holds numbers for the most part, and each of them would be learned as a category; most would be lost",
            remedy="declare it continuous; for texts such as <5 see numbers under reading",
        )


def _cells(
    schema: Schema, column: Column, series: "pd.Series[Any]", told: pd.DataFrame | None, *, below: bool = False
) -> Iterator[Finding]:
    """Cells that break a rule. `below` says that the table is below visits, where `learn` is refused."""
    found = [(rule, wrong, _remedy(rule, column, below), True) for rule, wrong in broken(schema, column, series)]
    if isinstance(column, Categorical) and (wrong := merged(column, series)).any():
        then = f"nothing, if that is intended; otherwise complete its code list ({_look(below)})"
        found.append((f"{UNKNOWN}, and count as {column.other!r}", wrong, then, False))
    bad = np.logical_or.reduce([wrong for _, wrong, _, _ in found]) if found else np.zeros(0, np.bool_)
    for rule, wrong, remedy, refused in found:
        if rule.startswith(UNKNOWN) and any(text != text.strip(SPACE) for text in map(str, series[wrong].dropna())):
            removed = ", which strip: true under reading removes" * (schema.image is None)
            remedy = f"{remedy}; some have space around them{removed}"
        if (
            rule == UNKNOWN
            and isinstance(column, Categorical | Ordinal)
            and odd_cells.recased(series[wrong], column.categories)
        ):
            remedy = (
                f"{remedy}; some differ from a declared category only in capitals or in spaces: write them as declared"
            )
        if remedy in (UNREAD, UNREAD_DATE) and schema.image is not None:
            remedy = UNREAD_LABEL
        every = bool((bad | cells.missing(series)).all())
        yield _of_rows(column.name, f"some values are {rule}", remedy, wrong, told, every=every, refused=refused)


def _never_empty(schema: Schema, frame: pd.DataFrame, table: str = "") -> Iterator[Finding]:
    """The columns that may be empty but never are, in one finding, since a draft lets every column be empty."""
    full = [
        f"{table}.{column.name}" if table else column.name
        for column in schema.modelled
        if getattr(column, "missing", False) and len(frame) and not cells.missing(frame[column.name]).any()
    ]
    if full:
        yield Finding(
            column="",
            what=f"missing: true allows empty cells, but there are none in {', '.join(full)}",
            remedy="noise will leave some synthetic cells empty; delete missing: true where the form or the code book says that a value "
            "must be given",
        )


def _zeros(schema: Schema, written: pd.DataFrame) -> Iterator[Finding]:
    """Columns of numbers that are codes: a number has no leading zero."""
    for column in schema.columns:
        timed = schema.reading is not None and schema.reading.coding(column.name).time is not None
        if timed or not isinstance(column, Integer | Continuous):
            continue
        if any(text is not None and re.match(" *[+-]?0[0-9]", text) for text in cells.texts(written[column.name])):
            yield Finding(
                column=column.name,
                what="some values have leading zeros, which numbers in synthetic records lack",
                remedy="if they are codes, such as postcodes, declare the column categorical",
            )


def _spellings(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    """Cells that may mean a category and are written otherwise: learned as one more, or counted as `other`."""
    for column in schema.modelled:
        if not isinstance(column, Categorical) or column.tree is not None:
            continue
        if column.categories != LEARN and column.other is None:
            continue  # whatever is not declared is refused
        places = odd_cells.respelled(frame[column.name])
        if column.categories != LEARN:
            texts = cells.texts(frame[column.name])
            places = np.array([place for place in places if texts[place] not in column.categories], np.int64)
        if len(places):
            counted = "a category of its own" if column.categories == LEARN else repr(column.other)
            remedy = f"write them alike in the file; as they are, each counts as {counted}"
            yield _of_rows(column.name, odd_cells.RESPELLED, remedy, np.isin(np.arange(len(frame)), places))


def _total(written: pd.DataFrame, which: str) -> Iterator[Finding]:
    if odd_cells.ends_in_total(written):
        yield Finding(
            column="",
            what=f"the last {which} {odd_cells.TOTAL}",
            remedy="take it out of the file, or it counts like all others, and as a person where rows name persons",
            rows=(len(written),),
            count=1,
        )


def _times(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    """Dates that are declared by the day, and whose cells have a time too: a fit goes on without it."""
    for column in schema.modelled:
        if not isinstance(column, Datetime) or column.resolution != "day":
            continue
        read = cells.instants(frame[column.name])
        timed = ~read.missing & ~read.wrong & (read.cells % MICROSECONDS["day"] != 0)
        if timed.any():
            what = "some values have a time of day, which resolution: day drops"
            remedy = "nothing, if that is intended; otherwise declare a finer resolution, such as minute"
            yield _of_rows(column.name, what, remedy, timed)


def _remedy(rule: str, column: Column, below: bool) -> str:
    if rule in REMEDIES:
        return REMEDIES[rule]
    if rule == UNKNOWN and isinstance(column, Ordinal):
        return f"correct the cells, or complete its categories ({ELSEWHERE})"
    if rule == UNKNOWN:
        return f"correct the cells, give the column a category `other:`, or complete its code list ({_look(below)})"
    if rule.startswith(OUTSIDE):
        edges = isinstance(getattr(column, "bins", None), tuple)  # which need declared bounds
        return f"correct the cells, or widen the bounds ({_look(below or edges)})"
    return PUBLIC_STEP if rule.startswith(OFF_STEP) else UNREAD_DATE if isinstance(column, Datetime) else UNREAD


def _look(declared: bool) -> str:
    """Where to find a public fact. If it need not be `declared`, `learn` can buy it."""
    return ELSEWHERE if declared else f"{ELSEWHERE}, or use `learn`"


def _rules(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    for rule in schema.rules:
        yield from _breaking(rule, schema, schema, breaking(rule, frame, schema))


def _names(column: str, frame: pd.DataFrame, unit: str) -> Iterator[Finding]:
    """Units that seem to be written in two ways: each of them is bounded and protected by itself."""
    places = odd_cells.renamed(frame[unit])
    if len(places):
        yield _of_rows(
            column,
            odd_cells.RENAMED,
            "if they do, write them alike: each spelling counts as a patient of its own, so the guarantee protects such a patient "
            "less than it says",
            np.isin(np.arange(len(frame)), places),
        )


def _units(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    if schema.unit is None:
        for column in schema.columns:
            if isinstance(column, Identifier) and frame[column.name].duplicated().any():
                yield Finding(
                    column=column.name,
                    what="some values occur in several records, and the schema has no unit",
                    remedy=f"if it names patients, declare unit: {column.name} and max_records_per_unit: one patient's records are "
                    "then protected together",
                )
        held = len(frame)
    else:
        yield from _names(schema.unit, frame, schema.unit)
        names = pd.Series(cells.texts(frame[schema.unit]))
        sizes = names.value_counts(dropna=False)
        held = len(sizes)
        dropped = int((sizes - schema.max_records_per_unit).clip(lower=0).sum())
        if dropped:
            yield Finding(
                column=schema.unit,
                what=f"some units have more records than max_records_per_unit: {schema.max_records_per_unit}; further records are left out",
                remedy="a larger number uses more records, and each answer holds more noise"
                if history_view.hindrance(schema)
                else "a larger number uses more records. With histories it adds no noise from generator.clip on: "
                f"{_weighed(schema)}. With other generators each answer holds more noise",
                count=dropped,
            )
        if held == 1 < len(frame):
            yield Finding(
                column=schema.unit,
                what="is the same in all records",
                remedy="name the column that tells patients apart",
            )
    yield from _number(schema, held)


def _bins(schema: Schema, frame: pd.DataFrame, *, below: bool = False) -> Iterator[Finding]:
    """Columns whose records all lie in one of several declared bins, unless most cells are refused: the few others then show nothing."""
    for column in schema.modelled:
        if (
            not isinstance(column, Numeric)
            or not isinstance(column.bins, tuple)
            or not column.bins
            or column.bounds == LEARN
        ):
            continue
        read = cells.instants(frame[column.name]) if column.kind == "datetime" else cells.numbers(frame[column.name])
        edges = [cells.instant(edge) if isinstance(edge, str) else edge for edge in column.bins]
        low, high = (cells.instant(bound) if isinstance(bound, str) else bound for bound in column.bounds)
        held = read.cells[~read.missing & ~read.wrong]
        if 2 * ((held >= low) & (held <= high)).sum() < (~read.missing).sum():
            continue
        if len(held) and len(np.unique(np.searchsorted(np.array(edges, dtype=np.float64), held, side="right"))) == 1:
            yield Finding(
                column=column.name,
                what="all records lie in one of its bins",
                remedy=f"choose other bins ({_look(below)})",
            )


def _copies(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    """Columns that tell a target of nearly every record, though they say little more than it does."""
    for target in schema.targets if len(frame) else ():
        of = _codes(frame[target])
        share = np.bincount(of).max() / max(1, len(of))
        if share > COPY:
            continue
        for column in schema.modelled:
            if column.name == target or isinstance(column, Image):
                continue
            by = _codes(frame[column.name])
            if len(by) == 0 or by.max() >= min(MOST_VALUES, len(by) / 10):
                continue
            joint = pd.crosstab(by, of).to_numpy()
            if joint.max(axis=1).sum() >= COPY * len(of):
                yield Finding(
                    column=column.name,
                    what=f"gives away {target!r} for nearly every record, so that a model of it learns nothing else",
                    remedy="leave it out, or drop it from the records, if it is only known after the target",
                )


def _doubles(schema: Schema, frame: pd.DataFrame) -> Iterator[Finding]:
    """Columns that are modelled twice, under two names."""
    modelled = [column.name for column in schema.modelled if not isinstance(column, Image)]
    for name, other in odd_cells.copies(frame[modelled]).items():
        yield Finding(column=name, what=odd_cells.COPIED.format(repr(other)), remedy=odd_cells.LEAVE_OUT)


def _codes(series: "pd.Series[Any]") -> Any:
    codes, _ = pd.factorize(np.array(["" if text is None else text for text in cells.texts(series)], dtype=object))
    return codes
