"""The schema: what is public about a table. Everything else about it must be bought with budget."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput, about, check_keys, closest, listed, nearest
from synthdp.files.limits import check_width
from synthdp.schema import linked_tables
from synthdp.schema.columns import (
    KINDS,
    LEARN,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Ignored,
    Image,
    Integer,
    Learn,
    Ordinal,
)
from synthdp.schema.file_coding import Reading
from synthdp.schema.learned import settle
from synthdp.schema.linked_tables import Table
from synthdp.schema.rule_text import parse
from synthdp.schema.rules import Rule, rule_places
from synthdp.schema.trees import Tree

if TYPE_CHECKING:
    import pandas as pd
    from pandas import DataFrame

__all__ = [
    "LEARN",
    "Boolean",
    "Categorical",
    "Column",
    "Continuous",
    "Datetime",
    "Identifier",
    "Ignored",
    "Image",
    "Integer",
    "Ordinal",
    "Reading",
    "Schema",
]


CALLER = "the calling program"
MOST = 10**12  # of units and of records of one; no accountant could tell more from infinitely many
# What invalid=clamp does.
CLAMPED = (
    "a number or date outside its bounds becomes the nearest bound, a number that is not whole or not a multiple of the declared "
    "step becomes the nearest one that is, an unknown category becomes `other` where the column has that, and any other cell that breaks "
    "the schema counts as missing or, where none may be missing, as the lower bound or the first category"
)
CLAMPED_BELOW = (
    "in tables below visits it always counts as missing, and a row whose first column is missing or unknown is left out"
)
MARKS = ("review", "observed")
OLD_MARK = "# REVIEW:"  # of drafts that held what they had seen


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The public facts of a table, or of a set of images: a table with one image column, labels and patients beside it.

    `unit` names the patient column (an identifier); without it every record is a unit. At most
    `max_records_per_unit` records of a unit count. `units` is a public number or estimate of units, or `learn`.
    `order` names the column, a datetime or whole number, that orders a unit's records, and `per_unit` the columns that describe the
    unit itself and are read from its first record: generators of histories use them, others ignore them.
    `targets` are the columns that users will predict. `declared_by` says who vouches that these facts are public: a schema that is made in
    a program is declared by that program, and one that is read from a file (or a mapping) has to say it itself. Raises `BadInput`
    where the parts contradict each other.

    `rules`: what every record satisfies by its meaning, such as `admission <= discharge`, `{if: {sex: M}, then: {pregnant:
    false}}` or `{together: [city, postcode], allowed: [...]}`; the grammar is in `schema.rules`, and `rules` may be given in
    these plain forms. They are declared public like bounds. Those that can be are honoured by construction, since the codec has
    no code for what they forbid (`schema.tied_columns` says which; a fit's charges are the same without them); evaluation counts the rows
    that break any. `honoured`: positions, from 0, of the rules that are to be kept by construction; by default all that can be.

    `reading`: how the table's files are written, and synthetic ones too; the default is `Reading()`, but the separator of a CSV file is
    then taken from its header. `ignored`: columns that a table may have and that are left out (`kind: ignore`).

    `tables`: the linked tables (`schema.linked_tables`) whose columns are joined in `columns`. `from_dict` makes both from a mapping.
    """

    columns: tuple[Column, ...]
    name: str = ""
    unit: str | None = None
    max_records_per_unit: int = 1
    units: int | Learn | None = None
    targets: tuple[str, ...] = ()
    declared_by: str | None = CALLER
    notes: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    honoured: tuple[int, ...] | None = None
    reading: Reading | None = None
    ignored: tuple[Ignored, ...] = ()
    order: str | None = None
    per_unit: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()

    def __post_init__(self) -> None:
        for key in ("columns", "targets", "notes", "ignored", "per_unit"):
            if isinstance(getattr(self, key), list):  # equal schemas are equal, and can be hashed
                object.__setattr__(self, key, tuple(getattr(self, key)))
        given: tuple[Any, ...] = self.columns
        left_out = tuple(column for column in given if isinstance(column, Ignored))
        if left_out:
            object.__setattr__(self, "columns", tuple(column for column in given if column not in left_out))
            object.__setattr__(self, "ignored", (*self.ignored, *left_out))
        check_width("schema", len(self.names) + len(self.ignored))
        for fault in self._faults():
            raise BadInput(f"schema: {fault}")
        if self.tables:
            linked_tables.check(self)
            object.__setattr__(self, "tables", tuple(linked_tables.parsed(self, each) for each in self.tables))
        if self.rules != ():
            object.__setattr__(self, "rules", parse(self.rules, self.columns, linked_tables.named(self)))
        if self.honoured is not None:
            object.__setattr__(self, "honoured", rule_places(self.honoured, len(self.rules)))
            rows = all(each.honoured == self._kept_of_rows(each) for each in self.tables if each.honoured is not None)
            if self.tables and not (rows and self._kept(self.honoured) == self.honoured):
                from synthdp.schema.structural_zeros import why_counted

                told = "; ".join(f"{rule.text!r} ({why})" for rule, why in why_counted(self).items())
                raise BadInput(
                    f"schema: honoured names rules that cannot be kept by construction: {told}. Take them out of that list"
                )
        if self.reading is not None:
            if self.image is not None:
                raise BadInput(
                    "schema: reading describes files of tables; labels beside pictures are UTF-8, with decimal points and ISO dates"
                )
            object.__setattr__(self, "reading", self.reading.only(self.names))
            self.reading.check(self.columns)

    def _faults(self) -> Iterator[str]:
        """How its parts contradict each other, but for tables, rules and reading."""
        names = (*self.names, *(column.name for column in self.ignored))
        if not self.modelled:
            yield "columns must name at least one column that is not an identifier"
        if not all(isinstance(name, str) and name for name in names):
            yield "every column needs a name that is text; put quotes around numbers"
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
        if repeated:
            yield f"columns declared twice: {', '.join(map(repr, repeated))}; keep one of each"
        if self.unit == "record":
            yield "a unit column named 'record' would be confused with the unit record; rename the column"
        if self.unit is not None and self.column(self.unit, "unit").kind != "identifier":
            yield f"unit column {self.unit!r} must be of kind identifier, since it is never modelled"
        for target in self.targets:
            kind = self.column(target, "targets").kind
            if kind in ("identifier", "image"):
                yield f"target {target!r} is an {kind}, which no model can predict; name another"
        if sum(column.kind == "image" for column in self.columns) > 1:
            yield "at most one column may be an image; put each image into a data set of its own"
        if len(set(self.targets)) < len(self.targets):
            yield "targets names a column twice; keep one of each"
        yield from _not_counted("max_records_per_unit", self.max_records_per_unit)
        if self.unit is None and self.max_records_per_unit != 1:
            yield "max_records_per_unit needs unit, the column that says whose record a row is"
        if self.units is not None and self.units != LEARN:
            yield from _not_counted("units", self.units)
        for key, given in (("order", self.order), ("per_unit", self.per_unit)):
            if given and self.unit is None:
                yield f"{key} needs unit, the column that says whose record a row is"
        if self.order is not None:
            column = self.column(self.order, "order")
            if not isinstance(column, Datetime | Integer) or column.missing:
                yield (
                    f"order {self.order!r} must be a datetime or an integer that is never missing: records without it "
                    f"would have no place in the order"
                )
        for name in self.per_unit:
            if self.column(name, "per_unit").kind in ("identifier", "image") or name == self.order:
                yield f"per_unit {name!r} must be a modelled column other than order; leave it out"
        if len(set(self.per_unit)) < len(self.per_unit):
            yield "per_unit names a column twice; keep one of each"

    @property
    def names(self) -> tuple[str, ...]:
        """Every column's name, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def modelled(self) -> tuple[Column, ...]:
        """The columns that a model learns: all but the identifiers, in order."""
        return tuple(column for column in self.columns if column.kind != "identifier")

    @property
    def coded(self) -> tuple[Column, ...]:
        """The columns that a model sees, in the codec's order: the modelled ones, but for those that honoured rules tie. Of
        these a compound of labels is one column, in the place of the first, and a larger number is its gap."""
        if not self.rules or self.tables:
            return self.modelled
        from synthdp.schema.tied_columns import ties

        return ties(self).columns

    @property
    def image(self) -> Image | None:
        """The column of pictures, where the records have one."""
        return next((column for column in self.columns if isinstance(column, Image)), None)

    @property
    def learned(self) -> list[tuple[str, str]]:
        """(column, item) still marked learn, in order, a column's bounds before its bins; one below visits once for all of its places.
        `units` stands apart."""
        items = ("categories", "bounds", "bins")
        return [
            (c.name, item) for c, _ in linked_tables.once(self) for item in items if getattr(c, item, None) == LEARN
        ]

    def column(self, name: str, asked_by: str = "column") -> Column:
        """The column of that name; `BadInput` names the nearest one where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        if name in (column.name for column in self.ignored):
            raise BadInput(
                f"schema: {asked_by} {name!r} is of kind ignore, so no model sees it; declare another kind, or name another column"
            )
        if name in linked_tables.named(self):
            raise BadInput(
                f"schema: {asked_by} {name!r} is a column of a table below visits; name one of the visits or of the people"
            )
        known = [each for each in linked_tables.named(self) if each in self.names]
        raise BadInput(f"schema: {asked_by} {name!r} is not one of its columns{nearest(name, known)}")

    def check_declared(self) -> None:
        """Raise `BadInput` if nobody has confirmed what a draft guessed, or if nobody declares the schema: such a schema is not fitted."""
        marked = [column.name for column, _ in linked_tables.once(self) if column.review]
        marked += [column.name for column in self.ignored if column.review]
        marked += ["reading"] * (self.reading is not None and self.reading.review)
        marked += [
            f"reading of {each.name}" for each in self.tables if each.reading is not None and each.reading.review
        ]
        problems = []
        if marked:
            named = listed([*map(repr, marked)], others="others")
            problems.append(
                f"{named} {'was guessed, and is' if len(marked) == 1 else 'were guessed, and are'} marked for review: check "
                f"{'it' if len(marked) == 1 else 'each of them'}, correct it if need be, and delete its line `review: true`"
            )
        if not (self.declared_by or "").strip():
            problems.append(
                "nobody declares it. Its facts are taken as known to everyone, so name in declared_by who answers for them, such as "
                'declared_by: "A. Meier, data protection office, May 2026"'
            )
        if problems:
            raise BadInput(
                f"schema: {'; '.join(problems)}. The command synthdp check shows, at no charge, what a fit with this schema would run into"
            )
        self.check_reading()

    def check_reading(self) -> None:
        """Raise `BadInput` where what is declared of a column contradicts how its file is written: such a schema is not fitted."""
        if self.reading is not None:
            self.reading.check(self.columns, values=True)
        for table in self.tables:
            with about(f"table {table.name!r}"):
                linked_tables.of_table(self, table).check_reading()

    def with_targets(self, *targets: str) -> "Schema":
        """The same schema with other targets."""
        return replace(self, targets=targets)

    def rules_apart(self) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        """The rules that are honoured by construction, and those that are counted and no more."""
        settled = self.settled()
        kept, counted = list[Rule](), list[Rule]()
        for rules, places in (
            (self.rules, settled.honoured or ()),
            *((each.rules, each.honoured or ()) for each in settled.tables),
        ):
            kept += [rule for place, rule in enumerate(rules) if place in places]
            counted += [rule for place, rule in enumerate(rules) if place not in places]
        return (*kept, *(order for table in self.tables for order in table.orders)), tuple(counted)

    def _kept(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """Which of these rules on people and visits can be kept together by construction."""
        from synthdp.schema.structural_zeros import kept_of_people_and_visits

        return kept_of_people_and_visits(self, places)

    def _kept_of_rows(self, table: linked_tables.Table) -> tuple[int, ...]:
        from synthdp.schema.structural_zeros import kept_of_rows

        return kept_of_rows(self, table) if table.rules else ()

    @property
    def _ruled(self) -> bool:
        return bool(self.rules) or any(table.rules for table in self.tables)

    def settled(self) -> "Schema":
        """The same schema, which says which of its rules are honoured: as declared, before anything is learned."""
        if not self._ruled or self.honoured is not None:
            return self
        if self.tables:
            tables = tuple(replace(each, honoured=self._kept_of_rows(each)) for each in self.tables)
            return replace(self, honoured=self._kept(tuple(range(len(self.rules)))), tables=tables)
        from synthdp.schema.tied_columns import ties

        return replace(self, honoured=ties(self).honoured)

    def counting(self) -> "Schema":
        """The same schema, with no rule honoured by construction."""
        if not self._ruled:
            return self
        return replace(self, honoured=(), tables=tuple(replace(each, honoured=()) for each in self.tables))

    def as_released(self) -> "Schema":
        """The schema of a release as it was fitted: releases of before rules were honoured do not say which are."""
        return self if self.honoured is not None else self.counting()

    def with_learned(self, name: str, **items: Any) -> "Schema":
        """The same schema with bought items of one column (categories, bounds, bins, atoms) in the place of `learn`; of one below visits in
        all of its places.

        Total, since a charged fit never refuses on content: see `learn.settle`.
        """
        columns = tuple(
            settle(c, items, self._sayable(c)) if name in (c.name, linked_tables.whole(self, c.name)) else c
            for c in self.columns
        )
        return replace(self.settled(), columns=columns)

    def _sayable(self, column: Column) -> tuple[float, float]:
        """The numbers between which the cells of a column lie, given how its files are written: no file could hold anything beyond."""
        table = next((each for each in self.tables if column.name.startswith(f"{each.name}.")), None)
        reading = self.reading if table is None else table.reading
        if reading is None:
            return -math.inf, math.inf
        own = column.name if table is None else column.name.removeprefix(f"{table.name}.")
        return reading.of(replace(column, name=own)).ends

    def column_problems(self, columns: Iterable[str]) -> Iterator[str]:
        """What is wrong with the names of a table's columns."""
        held = list(columns)
        if not set(held) & set(self.names):
            # Without a header row the names would be a record's values: do not repeat them.
            yield "it has none of the schema's columns (is the header row missing?)"
            return
        lacking = [name for name in self.names if name not in held]
        if lacking:
            yield f"missing columns: {', '.join(map(repr, lacking))} (add them, or take them out of the schema)"
        known = {*self.names, *(column.name for column in self.ignored)}
        extra = [name for name in dict.fromkeys(held) if name not in known]
        if extra:
            names = ", ".join(
                f"{name!r} (perhaps {meant!r})" if (meant := closest(str(name), lacking)) else repr(name)
                for name in extra
            )
            yield f"columns that the schema does not know: {names} (drop them from the file, or declare them, such as kind: ignore)"
        repeated = [name for name in dict.fromkeys(held) if held.count(name) > 1]
        if repeated:
            yield f"duplicate columns: {', '.join(map(repr, repeated))} (keep one of each)"

    def validate(self, frame: "DataFrame", invalid: str = "error") -> "DataFrame":
        """The frame's schema columns in schema order, after the steward's pre-check (outside epsilon).

        Raises one `BadInput` that lists every problem: column and rule, neither a cell's value nor a count. With
        `invalid="clamp"` problems of content pass, since every encoding is total; those of structure still raise.
        """
        from synthdp.schema.check import check

        return check(self, frame, invalid)

    def validate_tables(self, frames: "Mapping[str, DataFrame]", invalid: str = "error") -> "dict[str, DataFrame]":
        """The frames of linked tables by their names, each as `validate` gives it. Raises one `BadInput` as that does, for the first
        table with problems. Rows whose parent is not there, or whose key stands twice, are no problem: `synthdp check` lists them."""
        from synthdp.schema.check import check_tables

        return check_tables(self, frames, invalid)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form that `from_dict` reads back without loss. The order of `columns` matters."""
        apart = ("columns", "ignored", "reading", "tables")
        plain = {field.name: _plain(getattr(self, field.name)) for field in fields(self) if field.name not in apart}
        kept = {k: value for k, value in plain.items() if value not in (None, "", []) or (k, value) == ("honoured", [])}
        if self.reading is not None:
            kept["reading"] = self.reading.to_dict()
        if self.tables:
            rest = {key: value for key, value in kept.items() if key not in linked_tables.NO_PLACE}
            rules, honoured = rest.pop("rules", []), rest.get("honoured")
            for table in self.tables:
                rules += [rule.plain() for rule in table.orders]
                if honoured is not None:
                    honoured += [len(rules) + place for place in table.honoured or ()]
                rules += [rule.plain() for rule in table.rules]
            return {**rest, **({"rules": rules} if rules else {}), "tables": linked_tables.nested(self, self.facts())}
        return {**kept, "columns": self.facts()}

    def facts(self) -> dict[str, dict[str, Any]]:
        """By the name of each column, those left out among them, what is declared or bought of it, JSON-able."""
        return {column.name: facts_of(column) for column in (*self.columns, *self.ignored)}

    def __repr__(self) -> str:
        tables = f"{len(self.tables)} tables with " if self.tables else ""
        unit = f", per {self.unit}" if self.unit else ""
        return f"Schema({self.name + ': ' if self.name else ''}{tables}{len(self.facts())} columns{unit})"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each column, with its facts."""
        rows = []
        for column in (*self.columns, *self.ignored):
            facts = {key: value for key, value in facts_of(column).items() if key != "kind"}
            told = ", ".join(f"{key}: {_short(value)}" for key, value in facts.items())
            rows.append(f"<tr><th>{escape(column.name)}</th><td>{column.kind}</td><td>{escape(told)}</td></tr>")
        head = f"Schema {self.name}".strip() + (f", per {self.unit}" if self.unit else "")
        return f"<table><caption>{escape(head)}</caption>{''.join(rows)}</table>"

    @classmethod
    def from_dict(cls, values: Any) -> "Schema":
        """Raises `BadInput` for unknown keys (with the nearest known one), missing ones and contradictions. With a `unit` the
        mapping must say `max_records_per_unit`, which decides how many records are left out."""
        if not isinstance(values, Mapping):
            raise BadInput("schema: expected a mapping with the key columns")
        values = _of_python(values)
        known = [field.name for field in fields(cls) if field.name != "ignored"]
        check_keys("schema", values, known)
        if values.get("tables") is not None:
            values = linked_tables.flattened(values)
        given = values.get("columns")
        if not isinstance(given, Mapping) or not given:
            raise BadInput("schema: columns must map each column's name to its kind, such as age: {kind: integer, ...}")
        rest = {key: value for key, value in values.items() if key != "columns" and value is not None}
        for key in ("targets", "notes", "per_unit"):
            if key in rest:
                rest[key] = _texts(key, rest[key])
        for key in ("name", "unit", "declared_by", "order"):
            if key in rest and not isinstance(rest[key], str):
                raise BadInput(f"schema: {key} must be text; put quotes around it")
        rest.setdefault("declared_by", None)
        if "reading" in rest:
            rest["reading"] = Reading.from_dict(rest["reading"])
            for name, _ in rest["reading"].columns:
                if name not in given:
                    raise BadInput(
                        f"schema: reading: column {name!r} is not one of its columns{nearest(str(name), given)}"
                    )
        columns: tuple[Any, ...] = tuple(_columns(given, rest.get("tables", ())))
        made = cls(columns=columns, **rest)
        if "unit" in rest and "max_records_per_unit" not in rest:
            raise BadInput(
                f"schema: max_records_per_unit is missing. It says how many records of one {rest['unit']} a fit uses; the others are left "
                f"out. 1 keeps one record of each {rest['unit']}; a larger number keeps more of them, and every generator "
                "except histories then needs that many times the noise"
            )
        return made

    @classmethod
    def draft(cls, frame: "pd.DataFrame", *, name: str = "table") -> "Schema":
        """A schema to review, guessed by looking at a frame: kinds, each marked for review, and `learn` for all else, as `synthdp schema`
        drafts it from a file. No fit accepts it until the marks are gone and somebody has declared it: `save` it, edit the file and
        `load` that. Warns of columns whose dates, times or numbers are text in a national form, such as 31.12.2025 or 1,5:
        they are drafted as what they stand for, and a fit accepts the frame once they are converted. Raises `BadInput` for a frame
        without columns, or with two of one name."""
        from synthdp.schema.guesses import guessed, proposed, stands_for

        if not hasattr(frame, "columns"):
            raise BadInput(
                f"a draft needs a frame, got {type(frame).__name__}: synthdp.read(path) reads one from a file. For linked "
                "tables, the command synthdp schema path=FOLDER writes one"
            )
        names = [str(column) for column in frame.columns]
        if not names or len(set(names)) < len(names):
            raise BadInput("a draft needs a frame with at least one column, and no two of the same name")
        texts = {str(column): stands_for(frame[column]) for column in frame.columns}
        found = {str(column): texts[str(column)] or guessed(frame[column]) for column in frame.columns}
        if coded := [column for column, guess in texts.items() if guess.pop("coded", False)]:
            warnings.warn(
                f"{', '.join(map(repr, coded))}: dates, times of day or numbers as text. They are drafted as what they stand for; "
                "before a fit, convert them (pandas.to_datetime with format=, str.replace and pandas.to_numeric, minutes or seconds since "
                "midnight), or save the frame as CSV: synthdp schema path= finds how each is written, and synthdp.read then reads it",
                UserWarning,
                stacklevel=2,
            )
        if all(guess["kind"] in ("identifier", "ignore") for guess in found.values()):
            found[names[-1]] = {"kind": "categorical"}  # a schema needs a column to model
        return cls.from_dict(
            {"name": name, "units": LEARN, "columns": {column: proposed(guess) for column, guess in found.items()}}
        )

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a YAML file, with the lists of codes beside it that it names (`code_lists`). Raises `BadInput` that names
        the file and what is wrong."""
        from synthdp.schema import code_lists, yamlfile

        where = Path(path)
        text = yamlfile.read_text(where)
        if OLD_MARK in text:
            raise BadInput(
                f"{where}: lines marked {OLD_MARK} were read off the records by a draft of an earlier version; draft again (synthdp "
                "schema), or replace them by public knowledge and remove the marks"
            )
        try:
            return cls.from_dict(code_lists.resolved(yamlfile.parse(text, str(where)), where.parent))
        except BadInput as error:
            raise BadInput(f"{where}: {error}" if str(where) not in str(error) else str(error)) from None

    def save(self, path: str | Path) -> None:
        """Write the schema as a YAML file, whole or not at all."""
        from synthdp.schema import yamlfile

        yamlfile.save(self.to_dict(), Path(path))


def _columns(given: Mapping[Any, Any], tables: Iterable[linked_tables.Table]) -> Iterator[Column | Ignored]:
    """Each column; places of rows below visits, which have the same facts, share what is made of them, such as a tree. A mistake is told
    of the column as the schema's file names it, without a place."""
    made: dict[int, Column | Ignored] = {}
    first = {name for table in tables if table.below for name in given if name.startswith(f"{table.name}.")}
    for name, values in given.items():
        if id(values) not in made:
            placed = name in first and values["kind"] != "ignore"
            made[id(values)] = _column(name.removesuffix(" 1") if placed else name, values)
        yield replace(made[id(values)], name=name)


def _column(name: Any, values: Any) -> Column | Ignored:
    if not isinstance(values, Mapping) or "kind" not in values:
        raise BadInput(f"column {name!r}: needs a mapping with kind, one of {', '.join(KINDS)}")
    kind = values["kind"]
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadInput(f"column {name!r}: unknown kind {kind!r}{nearest(str(kind), KINDS)}; kinds: {', '.join(KINDS)}")
    made = KINDS[kind]
    known = [field for field in _in_order(made) if field.name not in ("name", "numbers")]
    check_keys(f"column {name!r} ({kind})", values, ["kind", *(field.name for field in known)])
    lacking = [field.name for field in known if field.default is MISSING and values.get(field.name) is None]
    if lacking:
        raise BadInput(
            f"column {name!r} ({kind}): {', '.join(map(repr, lacking))} must be declared, or be learn where that is allowed"
        )
    items = {k: _item(name, k, v) for k, v in values.items() if k != "kind" and v is not None}
    if "tree" in items:
        with about(f"column {name!r}"):
            items["tree"] = Tree.from_dict(items["tree"])
    return made(name=name, **items)


def _in_order(column: Any) -> "list[Field[Any]]":
    """The fields of a kind of column, its marks last."""
    return sorted(fields(column), key=lambda field: field.name in MARKS)


def _item(column: str, key: str, value: Any) -> Any:
    if key in ("missing", *MARKS) and not isinstance(value, bool):
        raise BadInput(f"column {column!r}: {key} must be true or false")
    if key in ("bounds", "atoms", "categories", "window") and value != LEARN and not isinstance(value, list | tuple):
        such = {
            "bounds": ", such as [0, 110], or learn",
            "categories": ", such as [low, high], or learn",
            "window": " or learn",
        }
        raise BadInput(f"column {column!r}: {key} must be a list{such.get(key, ', such as [0]')}")
    return tuple(value) if isinstance(value, list) else value


def facts_of(column: Column | Ignored) -> dict[str, Any]:
    """What is declared or bought of a column, JSON-able."""
    changed = {f.name: getattr(column, f.name) for f in _in_order(column) if getattr(column, f.name) != f.default}
    if changed.pop("numbers", False):
        changed |= {key: _numbers(changed[key]) for key in ("categories", "other") if key in changed}
    return {"kind": column.kind, **{k: _plain(v) for k, v in changed.items() if k != "name"}}


def _numbers(texts: str | tuple[str, ...]) -> int | tuple[int, ...]:
    return int(texts) if isinstance(texts, str) else tuple(map(int, texts))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item.plain() if isinstance(item, Rule) else item for item in value]
    return value.to_dict() if isinstance(value, Tree) else value


def _short(value: Any) -> str:
    """A fact in few words: of long lists how long they are."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_short(item)}" for key, item in value.items())
    return f"{len(value)} of them" if isinstance(value, list) and len(value) > 8 else str(value)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(item, str) for item in listed):
        raise BadInput(f"schema: {key} must be a list of texts")
    return tuple(listed)


def _not_counted(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
        yield f"{key} must be a whole number of at least 1 and at most {MOST:,}"


def clamping(*, below: bool) -> str:
    """What invalid=clamp does, where there are tables `below` visits or none."""
    return f"{CLAMPED}; {CLAMPED_BELOW}" if below else CLAMPED


def _of_python(value: Any) -> Any:
    """Numbers and arrays of NumPy and pandas, which programs write schemas with, as Python's own."""
    if isinstance(value, Mapping):
        return {key: _of_python(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_of_python, value))
    return value.tolist() if hasattr(value, "dtype") and hasattr(value, "tolist") else value
