"""A first schema.yaml, drafted by looking at a table or at pictures: kinds for the data steward to confirm, and `learn` for all else."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from synthdp.errors import BadInput
from synthdp.schema import cells, yamlfile
from synthdp.schema.columns import LEARN, MAX_PIXELS, MICROSECONDS, TODO
from synthdp.schema.file_coding import NUMBERS, OF_KINDS, TIMES_OF_DAY
from synthdp.schema.guesses import (
    LISTED,
    NATIONAL,
    are_pairs,
    are_times,
    guessed,
    have_units,
    names_codes,
    outward,
    proposed,
)

if TYPE_CHECKING:
    from synthdp.images.picture_draft import Seen
    from synthdp.sets.dialect import Found

    Series = pd.Series[Any]

HEAD = """\
# DRAFT of a schema for {file}: what may be known to everyone about these records.
# The form was guessed from the cells: how the file is written, the kinds of the columns, the resolution of dates, the size of
# pictures. Nothing else here was read off them, except value labels that the file has. What stays at `learn` is bought with a part of
# the budget. What you declare instead, from a code book, a form or a round number, costs nothing and is not protected.
#
# 1. Go through `reading`, if it is there, and the columns. Once a part is right, delete its line `review: true`.
# 2. If a person may have several records, name in `unit` the column that says whose record it is, and give max_records_per_unit.
#    If you also give `order`, the column with the date or number of the visit, and `per_unit`, the columns about the person,
#    generator=histories keeps a person's records together; all other generators draw each record by itself.
# 3. Say in `declared_by` who vouches for this. Until 1 and 3 are done, `synthdp fit` refuses this file.
"""
SEEN = """\
# INTERNAL, not to be shared: what the columns of {file} were seen to hold, to compare with public knowledge.
# An entry that is copied from here into the schema keeps its mark `observed: true`. Its facts were read off the records at no
# charge: a release made with them says so, and says that it must not be shared.
"""
WHY = {
    "name": "of the table; a release shows it",
    "declared_by": 'such as "A. Meier, data protection office, May 2026"',
    "unit": "the column that says whose record it is; if you name one, add max_records_per_unit",
    "units": "or a public number or estimate of records; of persons if there is a unit",
    "targets": "the columns that users will predict",
    "rules": "what every record satisfies by its meaning, such as admitted <= discharged; without it synthetic records may break it",
    "columns": "are these all, and are all needed? Leave out what follows from others, such as age beside a date of birth (kind: ignore)",
    "categories": "or all that may occur, from the code book, such as [a, b, other]",
    "tree": "lengths of the beginnings under which rare codes count; or from a list: {file: codes.csv, column: code, parent: block}",
    "bounds": "or the least and the largest plausible value, such as [0, 120]",
    "missing": "may cells be empty? If not, delete this line, or noise will leave some empty",
    "step": "all values in the file are multiples of it; keep the line if that is how the score is defined",
    "resolution": "or day, hour, minute, second, microsecond",
    "height": "of most pictures; fewer pixels are learned with less noise, and resize: fit averages",
    "window": "the pixel values in the files that become black and white, from the protocol, such as [0, 4095]",
    "resize": "none refuses other sizes; fit averages or interpolates to this one",
    "reading": "how the file is written; synthetic records are written in the same way",
    "review": "delete this line once the column is right",
}
WHY_READ = {
    "newline": "how lines end: crlf as on Windows; lf is the default",
    "strip": "space around cells is removed",
    "columns": "missing: texts for a missing value (synthetic records have the first); words: for false and true; stored: the type",
}
KINDS = {
    "ignore": "left out, as free text is; it cannot be learned",
    "identifier": "dropped before the fit; synthetic records get new ones (S000000001, or by a pattern under reading). Is it the unit?",
    "categorical": "ordinal, if the categories have an order",
    "integer": "whole numbers, or categorical if they are codes",
    "continuous": "with `decimals` where the numbers are rounded",
}


DIGITS = (
    "or all that may occur; if rare codes should not become the text other, declare other: with digits that no code begins with: "
    '"99999"'
)
CODES = (
    "better declared, from the public list: {file: codes.csv, column: code}; then fewer of them are lost to the noise"
)
BY_NAME = (
    "if these are codes of a public list, better declared: categorical with a tree, such as tree: {prefix: [1, 3]}"
)
TARGETS_OF_TABLES = "the columns that users will predict, each with its table: visit.ward"
EMPTY = "left out: no cell holds anything"
NO_KIND = "left out: no kind of column can hold its type"
UNTIL = {
    "MM": "minutes since midnight, written as the time under reading",
    "SS": "seconds since midnight, written as the time under reading",
}
PAIRS = "two numbers in one text, such as a blood pressure: split it into two columns of numbers, or each pair counts as a category"
UNITS = (
    "numbers with a unit after them? To keep them as numbers, write the same unit in all cells, say under reading that it is the suffix, "
    'such as suffix: " mg", and declare kind: integer or continuous; or each text counts as a category'
)
TIMES = "times of day have no kind: store minutes since midnight as integers, bounds [0, 1439], to keep them"


class Draft(NamedTuple):
    """Two texts: `schema`, which holds no fact of the records but the kinds of their columns, and `seen`, which holds such facts."""

    schema: str
    seen: str


LABELLED = (
    "from the value labels of the file. Where a program made these of the cells (encode, AUTORECODE, factors), they are facts of the "
    "records: take them from a code book, or add observed: true"
)
# Which kinds have each key of a column's coding.
CODINGS = {
    **OF_KINDS,
    **dict.fromkeys(("decimal", "time"), NUMBERS),
    "width": ("categorical", "ordinal", "boolean", "identifier"),
}


def draft(frame: pd.DataFrame, path: str | Path, pictures: "Seen | None" = None, found: "Found | None" = None) -> Draft:
    """YAML that loads as a `Schema` to review and to declare, and YAML of what was seen, for the steward's eyes only.

    `path` is where the frame came from, `pictures` what was seen of pictures beside it. Kinds are guessed and marked for review (with
    them the resolution of instants, and the size of pictures); bounds, categories and the number of units are left to learn, cells may
    be missing. `found` is how a CSV file is written. Nothing is guessed about unit and targets. What was seen has bounds rounded
    outward and at most 30 categories.
    """
    guesses = {} if pictures is None else {pictures.name: _picture(pictures)}
    guesses |= _guesses(frame, found)
    if pictures is not None:
        guesses |= {name: _label(frame[name]) for name, guess in guesses.items() if guess["kind"] == "integer"}
    days = _days(found)
    if all(guess["kind"] in ("identifier", "ignore") for guess in guesses.values()):  # a schema needs a column to model
        guesses[frame.columns[-1]] = {"kind": "categorical", "categories": LEARN}
    file, name = Path(path).name, Path(path).name.split(".")[0]
    lines = [HEAD.format(file=file)]
    lines += [*_top(name, None, WHY["unit"]), _line(0, "rules", [], WHY["rules"])]
    patterns = {column: _pattern(frame[column]) for column, guess in guesses.items() if guess["kind"] == "identifier"}
    counted = [column for column, pattern in patterns.items() if pattern == "#"]
    if found is not None and (found.reading is not None or counted):
        kinds = {column: _proposed(column, guess, found)["kind"] for column, guess in guesses.items()}
        lines += _written(found, kinds, counted)
    lines.append(f"columns:  # {WHY['columns']}")
    for column, guess in guesses.items():
        lines.append(f"  {_scalar(str(column))}:")
        entry = _proposed(column, guess, found)
        labelled = found is not None and column in found.categories
        why = {key: _why(key, entry["kind"], pictures) for key in entry} | (
            {"categories": LABELLED} if labelled else {}
        )
        if column in days:
            why |= {"kind": UNTIL.get(days[column][-2:], ""), "bounds": "the whole day"}
        elif are_times(frame.get(column)):
            why["kind"] = TIMES
        elif are_pairs(frame.get(column)):
            why["kind"] = PAIRS
        elif _may_be_measured(entry["kind"], frame.get(column)):
            why["kind"] = UNITS
        elif entry.get("categories") == LEARN and _in_digits(frame[column]):
            why["categories"] = DIGITS
        elif entry.get("tree"):
            why["categories"] = CODES
        elif entry["kind"] == "ignore":
            why["kind"] = _why_left_out(frame[column], found)
        if (
            entry["kind"] in ("categorical", "integer")
            and not entry.get("tree")
            and not labelled
            and names_codes(column)
        ):
            why["kind"] = BY_NAME
        lines += [_line(4, key, value, why[key]) for key, value in entry.items()]
    seen = _shown({column: guess for column, guess in guesses.items() if column not in days})
    head = SEEN.format(file=file)
    if pictures is not None:
        head += f"# Of the pictures, {pictures.looked} of {pictures.count} were looked at.\n"
    for column, pattern in patterns.items():
        if pattern not in (None, "#"):
            head += f"# {_scalar(str(column))} is written as {_scalar({'pattern': pattern})}\n"
    head += "".join(
        _others(column, texts, guesses) for column, texts in ({} if found is None else found.others).items()
    )
    return Draft("\n".join(lines) + "\n", head + yamlfile.dump({"columns": seen}, width=math.inf))


def _top(name: str, unit: str | None, why: str) -> list[str]:
    """The first lines of a draft."""
    top: dict[str, Any] = {"name": name, "declared_by": None, "unit": unit, "units": LEARN, "targets": []}
    told = {**WHY, "unit": why, **({} if unit is None else {"targets": TARGETS_OF_TABLES})}
    return [_line(0, key, value, told[key]) for key, value in top.items()]


def _shown(guesses: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was seen in columns beside their kinds; what is a fact of the records is marked as one."""
    told = {str(column): guess for column, guess in guesses.items() if len(guess) > 1}
    return {column: {**guess, **({"observed": True} if _read_off(guess) else {})} for column, guess in told.items()}


def _others(column: str, texts: tuple[str, ...], guesses: dict[str, dict[str, Any]], table: str = "") -> str:
    """A line on the texts that stand where a column's numbers or dates should."""
    what = "dates" if guesses[column]["kind"] == "datetime" else "numbers"
    return f"# {_scalar(table + column)} has cells with other text than {what}: {_scalar(list(texts))}\n"


def _guesses(frame: pd.DataFrame, found: "Found | None") -> dict[str, dict[str, Any]]:
    """What each column seems to be, by its cells and by what the file says of it."""
    guesses = {name: guessed(frame[name]) for name in frame.columns}
    if found is None:
        return guesses
    for column, resolution in found.resolutions.items():
        if guesses[column].get("resolution") == "second":
            guesses[column]["resolution"] = resolution
    guesses |= {name: {"kind": "integer", "day": [0, TIMES_OF_DAY[form][2]]} for name, form in _days(found).items()}
    guesses |= {name: {"kind": "categorical"} for name in found.categories}
    return guesses | {name: {"kind": "ignore"} for name in found.left_out}


def _may_be_measured(kind: str, series: "Series | None") -> bool:
    """Whether what is proposed as categories or names reads as numbers with units."""
    return kind in ("categorical", "identifier") and have_units(series)


def _why_left_out(series: "Series", found: "Found | None") -> str:
    """Why a column is proposed as `kind: ignore`."""
    if series.isna().all():
        return EMPTY
    return NO_KIND if found is not None and series.name in found.left_out else KINDS["ignore"]


def _proposed(column: str, guess: dict[str, Any], found: "Found | None") -> dict[str, Any]:
    """`proposed`, with what the file says of the column. Whole numbers in a column called as codes are, such as DRG, count as codes, but
    not a questionnaire's numbered items."""
    entry = proposed(guess)
    numbered = re.fullmatch(r"item\W*[0-9]+", column, re.IGNORECASE)
    if entry["kind"] == "integer" and names_codes(column) and not numbered and not guess.get("coded"):
        entry = proposed({"kind": "categorical"})
    if found is None:
        return entry
    review = entry.pop("review")  # the last line of the column
    if column in found.categories:
        kind = "ordinal" if column in found.ordered else "categorical"
        entry = {**entry, "kind": kind, "categories": list(found.categories[column])}
    places = None if found.reading is None else found.reading.coding(column).places
    decimals = guess.get("decimals") if places is None else places
    if entry["kind"] == "continuous" and decimals is not None:
        entry["decimals"] = decimals
    if entry["kind"] == "integer" and "step" in guess:
        entry["step"] = guess["step"]
    return {**entry, "review": review}


def _days(found: "Found | None") -> dict[str, str]:
    """The form of each column of times of day."""
    codings = () if found is None or found.reading is None else found.reading.columns
    return {name: each.time for name, each in codings if each.time}


# ---- Linked tables.


HEAD_OF_TABLES = """\
# DRAFT of a schema for the linked tables in {folder}: what may be known to everyone about them (docs/linked.md).
# Links were guessed from the names of columns, and kinds from the cells. Nothing else here was read off the records. What stays at `learn`
# is bought with a part of the budget. What you declare instead, from a code book, a form or a round number, costs nothing and is not
# protected.
#
# 1. Go through the links (parent, key), then order and max_rows, then `reading`, if it is there, and the columns. Once a part is right,
#    delete its line `review: true`.
# 2. Replace TODO by the codes that may occur, and by the bounds between which numbers and dates lie.
# 3. Say in `declared_by` who vouches for this. Until all is done, `synthdp fit` refuses this file.
"""
KEY = re.compile(  # such as visit_id and FallNr, or id_patient and idPatient; the name without that sign is `stem` or `after`
    "(?P<stem>.+?)[_ .-]?(?:id|key|nr|no|num|number|nummer)|(?:id|num)[_ .-](?P<after>.+)|id(?P<capital>(?-i:[A-Z]).+)",
    re.IGNORECASE,
)
DEATH = re.compile(  # in names of dates
    "death|dead|died|deceas|sterbe|storben|exitus|overl[ei]|zgon|zmar|d[e\u00e9]c[e\u00e8]s|fallec|muert|mort[eo]|umrt|\u00famrt|avliden|"
    "(^|_)(tod|d[o\u00f6\u00f8]d)",
    re.IGNORECASE,
)
PEOPLE = re.compile("pati|pers|pasi|indiv|potil|henkil", re.IGNORECASE)  # begins of names of tables
LEAST_STEM = 3  # letters by which a key is called after a table
UMLAUTS = {"ä": "a", "ae": "a", "ö": "o", "oe": "o", "ü": "u", "ue": "u"}  # as in the key Fall of Fälle, or faelle
MOST_VISITS, MOST_BELOW = 10, 3
MOST_RENAMED = 4  # files that a refusal proposes to rename


def draft_tables(found: "dict[str, Found]", folder: str | Path) -> Draft:
    """The same of linked tables, by name. A column is a table's key if it is called by it, such as `visit_id` or `id_visit` of visit or
    visits, or, where other tables have it too, by its beginning, such as `FallNr` of faelle, or because this table alone of them is below
    another; a table that has the key of another is below it. Raises `BadInput` where names do not tell a tree of people,
    visits, and tables below visits."""
    keys, parents = _links({name: list(map(str, each.frame.columns)) for name, each in found.items()}, folder)
    root = next(name for name, parent in parents.items() if parent is None)
    lines = [HEAD_OF_TABLES.format(folder=Path(folder).name)]
    lines += _top(Path(folder).name, keys[root], "whose rows are protected together")
    lines.append("tables:")
    seen, guesses = {}, {name: _guesses(each.frame, each) for name, each in found.items()}
    for name in sorted(found, key=lambda name: (parents[name] is not None, parents[name] != root)):
        lines += _table(name, found[name], guesses, keys, parents, root)
        seen[name] = _shown(guesses[name])
    lines += _rules(guesses, parents, root)
    head = SEEN.format(file=Path(folder).name)
    for name, each in found.items():
        head += "".join(_others(column, texts, guesses[name], f"{name}.") for column, texts in each.others.items())
    return Draft("\n".join(lines) + "\n", head + yamlfile.dump({"tables": seen}, width=math.inf))


def _rules(guesses: dict[str, dict[str, dict[str, Any]]], parents: dict[str, str | None], root: str) -> Iterator[str]:
    """Rules about the order of dates that the tables could have, as comments: which of them hold is for the steward to say."""
    visits = next((name for name, parent in parents.items() if parent == root), None)
    order = None if visits is None else _order(guesses[visits])
    if order is None:
        return
    dates = {name: [c for c, guess in held.items() if guess["kind"] == "datetime"] for name, held in guesses.items()}
    first = f"{visits}.{order}"
    found = list[tuple[str, str, str, str]]()
    for name in dates[root]:
        if DEATH.search(name):
            found.append((first, "<=", f"{root}.{name}", f"if {name} is after all visits, as death is"))
        else:
            why = f"if {name} is before all visits, as birth is; <= if after them, as death is"
            found.append((first, ">=", f"{root}.{name}", why))
    found += [
        (f"{table}.{name}", ">=", first, "if it is never before the visit")
        for table, parent in parents.items()
        if parent == visits
        for name in dates[table]
    ]
    steps = {f"{name}.{c}": guesses[name][c]["resolution"] for name, held in dates.items() for c in held}
    asked, left = list[str](), list[str]()
    for one, op, other, why in found:
        later, earlier = (one, other) if op == ">=" else (other, one)
        if _comparable(steps[later], steps[earlier]):
            asked.append(f"#   - {_scalar(f'{one} {op} {other}')}  # {why}")
        else:
            step = steps[later]
            left.append(
                f"# Not proposed: {one} {op} {other}. {later} is recorded by {step} and {earlier} by {steps[earlier]}: rows of the same "
                f"{step} would break the rule, since a {step} counts as its beginning. If the rule holds {step} by {step}, declare both "
                f"with resolution: {step}, and add it"
            )
    if asked:
        yield "# rules:  # uncomment those that hold by their meaning; synthetic records are made to keep them"
    yield from (*asked, *left)


def _comparable(later: str, earlier: str) -> bool:
    """Whether a rule can say that dates of one resolution are no earlier than dates of another: none of them may be coarser, because a
    date counts as the beginning of its day, hour, minute or second."""
    return MICROSECONDS[later] <= MICROSECONDS[earlier]


def _links(columns: dict[str, list[str]], folder: str | Path) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """The key of each table, and its parent."""
    keys: dict[str, str | None] = {}
    for name, names in columns.items():
        own = [column for column in names if (form := KEY.fullmatch(column)) and _alike(_stem(form), name)]
        keys[name] = own[0] if own else None
    keys |= _keys_by_beginning(columns, keys)
    keys |= _keys_of_people(columns, keys)
    keys |= _keys_by_parent(columns, keys)
    above, roots = _above(columns, keys)
    if len(roots) != 1 or keys[roots[0]] is None:  # only then: a column may be called as a table is and be no key
        keys |= _keys_by_whole_name(columns, keys)
        keys |= {} if any(keys.values()) else _keys_by_shape(columns)
        above, roots = _above(columns, keys)
    if len(roots) != 1 or keys[roots[0]] is None:
        shared = [(key, _stem(form), holders) for key, form, holders in _shared(columns, keys)]
        if not shared and not any(keys.values()):
            held = {key: holders for key, holders in _held(columns).items() if len(holders) > 1}
            shared = [(key, key, holders) for key, holders in sorted(held.items(), key=lambda each: -len(each[1]))]
        files = [
            f"Of {' and '.join(holders)}, rename the one with one row for each {key} to {stem}. "
            for key, stem, holders in shared[:MOST_RENAMED]
        ]
        raise BadInput(
            f"{folder}: the names of columns do not tell how the tables are linked: a table's key begins as its name does, such as "
            "visit_id of visit, id_patient of patients, or FallNr of Fall or faelle, and is called the same in the tables below it. It is "
            "enough to rename the files; in a database, create views with such names in a schema of their own. "
            f"{''.join(files)}Tables without a parent are {', '.join(roots) or 'none'}. Or write the schema by hand (docs/linked.md)"
        )
    (root,) = roots
    deeper = {name: [each for each in held if each != root] for name, held in above.items()}
    return keys, {name: None if name == root else (deeper[name] or [root])[0] for name in columns}


def _above(columns: dict[str, list[str]], keys: dict[str, str | None]) -> tuple[dict[str, list[str]], list[str]]:
    """For each table the tables whose key it has, and the tables for which there are none."""
    owners = {key: name for name, key in keys.items() if key is not None}
    above = {
        name: [owners[each] for each in names if each in owners and owners[each] != name]
        for name, names in columns.items()
    }
    return above, [name for name in columns if not above[name]]


def _keys_by_beginning(columns: dict[str, list[str]], keys: dict[str, str | None]) -> dict[str, str]:
    """Of tables whose key is not known yet: a column that other tables have too, if it begins as this table alone does, and no other
    such column is there."""
    return _only(
        {
            key: [name for name in holders if _begin_alike(_stem(form), name)]
            for key, form, holders in _shared(columns, keys)
        },
        keys,
    )


def _keys_by_parent(columns: dict[str, list[str]], keys: dict[str, str | None]) -> dict[str, str]:
    """The same of a column that other tables have too, if this table alone of them is below a table whose key is known."""
    owners = {}
    for key, _, holders in _shared(columns, keys):
        below = [name for name in holders if any(each in columns[name] for each in keys.values() if each != keys[name])]
        if not any(keys[name] for name in holders if name not in below):
            owners[key] = below
    return _only(owners, keys)


def _keys_of_people(columns: dict[str, list[str]], keys: dict[str, str | None]) -> dict[str, str]:
    """The same of a number that a state gives to people, such as `Personnummer`, of the one table with it that is called after people or,
    if there is none, that has no other key in it."""
    known = {key for key in keys.values() if key is not None}
    owners = {}
    for key, holders in _held(columns).items():
        if len(holders) > 1 and key not in known and NATIONAL.fullmatch(key):
            people = [name for name in holders if PEOPLE.match(name)]
            owners[key] = people or [name for name in holders if known.isdisjoint(columns[name])]
    return _only(owners, keys)


def _keys_by_whole_name(columns: dict[str, list[str]], keys: dict[str, str | None]) -> dict[str, str]:
    """The same of a column that other tables have too, if it has this table's whole name: `MRN` of mrn."""
    return {
        name: key
        for key, holders in _held(columns).items()
        for name in holders
        if len(holders) > 1 and keys[name] is None and _alike(key, name)
    }


def _keys_by_shape(columns: dict[str, list[str]]) -> dict[str, str]:
    """The keys of people and visits, if only two tables have the one column and all tables but that of the people have the other, and no
    other two columns are like that. So `IPP` and `NDA` are told apart, although nothing is named after them."""
    found, held = list[dict[str, str]](), _held(columns)
    for visit, holders in held.items():
        people = [name for name in columns if name not in holders]
        if len(people) == 1 and len(holders) > 1:
            linking = [(key, two) for key, two in held.items() if len(two) == 2 and people[0] in two]
            found += [{people[0]: key, next(name for name in two if name in holders): visit} for key, two in linking]
    return found[0] if len(found) == 1 else {}


def _held(columns: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tables that have each column."""
    names = dict.fromkeys(column for held in columns.values() for column in held)
    return {column: [name for name, held in columns.items() if column in held] for column in names}


def _only(owners: dict[str, list[str]], keys: dict[str, str | None]) -> dict[str, str]:
    """The key of each table without one that alone may own it, if it is the only such key."""
    sure = [(names[0], key) for key, names in owners.items() if len(names) == 1]
    counts = Counter(name for name, _ in sure)
    return {name: key for name, key in sure if counts[name] == 1 and keys[name] is None}


def _shared(
    columns: dict[str, list[str]], keys: dict[str, str | None]
) -> Iterator[tuple[str, re.Match[str], list[str]]]:
    """Columns of several tables that are called as keys are, and of which it is not known whose key they are; with these tables."""
    for key, holders in _held(columns).items():
        form = KEY.fullmatch(key)
        if form is not None and len(holders) > 1 and key not in keys.values():
            yield key, form, holders


def _stem(key: re.Match[str]) -> str:
    """What a key is called after."""
    return key["stem"] or key["after"] or key["capital"]


def _begin_alike(stem: str, table: str) -> bool:
    plain = [re.sub("|".join(UMLAUTS), lambda sign: UMLAUTS[sign[0]], word.lower()) for word in (stem, table)]
    short, long = sorted(plain, key=len)
    return (len(short) >= LEAST_STEM and long.startswith(short)) or _alike(stem, table)


def _alike(stem: str, table: str) -> bool:
    """Whether both are one word, in the singular or the plural of English or Italian (`paziente` and `pazienti`, `visita` and `visite`)."""
    one, other = (word.lower().removesuffix("s") for word in (stem, table))
    italian = (
        one[-1:] + other[-1:] in ("ei", "ie", "ae", "ea", "oi", "io")
        and len(one) > LEAST_STEM
        and one[:-1] == other[:-1]
    )
    return one == other or italian


def _table(
    name: str,
    found: "Found",
    of_all: dict[str, dict[str, dict[str, Any]]],
    keys: dict[str, str | None],
    parents: dict[str, str | None],
    root: str,
) -> list[str]:
    """The lines of one table; `of_all` are the guesses about the columns of each."""
    parent, guesses = parents[name], of_all[name]
    linking = {key for key in (keys[name], None if parent is None else keys[parent], keys[root]) if key is not None}
    below = parent is not None and parent != root
    lines = [f"  {_scalar(name)}:"]
    lines += [] if parent is None else [_line(4, "parent", parent, "whose rows hold these")]
    lines += [] if keys[name] is None else [_line(4, "key", keys[name], "of its rows")]
    order = _order(guesses) if parent == root else None
    if parent == root:
        lines.append(_line(4, "order", order or TODO, "the date by which a person's visits follow one another"))
        lines.append(_line(4, "max_rows", MOST_VISITS, "visits of a person that count"))
    elif below:
        lines.append(_line(4, "max_rows", MOST_BELOW, "rows of one visit that count"))
    labels = [
        c for c, guess in guesses.items() if c not in linking and guess["kind"] in ("categorical", "ordinal", "boolean")
    ]
    numbered = [c for c, guess in guesses.items() if guess["kind"] == "integer" and c not in linking and names_codes(c)]
    if not any(map(names_codes, labels)):
        labels = numbered + labels  # a test's code, not the unit of its value
    first = labels[:1] if below else []  # says what a row is, and stands before all others but keys
    names = [c for c in guesses if c not in first]
    here = [*guesses].index(first[0]) if first else 0
    at = next((at for at, c in enumerate(names) if c not in linking), here)
    names[at:at] = first
    kinds, columns = dict.fromkeys(linking & set(guesses), "identifier"), list[str]()
    for column, guess in ((column, guesses[column]) for column in names):
        if column in linking:
            said = (
                "the person's key"
                if below and column == keys[root]
                else "a key; listed here to keep its place in the file"
            )
            columns.append(f"      {_scalar(column)}: {{kind: identifier}}  # {said}")
            continue
        entry = _proposed(column, guess, found)
        if entry["kind"] == "identifier" or (below and not first):
            entry = {"kind": "ignore", "review": True}
        elif column in first:
            known = list(found.categories.get(column, (TODO,)))
            entry = {"kind": "categorical", "categories": known, "review": True}
        elif below:  # where nothing is bought
            entry = {key: _asked(key, item) for key, item in entry.items() if key != "tree"}
        elif column == order:
            entry.pop("missing", None)
        kinds[column] = entry["kind"]
        columns.append(f"      {_scalar(column)}:")
        why = {key: _why(key, entry["kind"], None).removeprefix("or " if below else "") for key in entry}
        if below and entry["kind"] == "datetime":
            why["kind"] = "learned as a gap to the visit"
            visits = of_all[str(parent)]
            visit = _order(visits)
            if visit is not None and _comparable(guesses[column]["resolution"], visits[visit]["resolution"]):
                why["kind"] += f"; if no date is before the visit, say so: rules: [{name}.{column} >= {parent}.{visit}]"
        elif entry["kind"] == "ignore":
            why["kind"] = _why_left_out(found.frame[column], found)
        if are_pairs(found.frame[column]):
            why["kind"] = PAIRS
        elif _may_be_measured(entry["kind"], found.frame[column]):
            why["kind"] = UNITS
        if entry["kind"] == "categorical" and (column in first or parent == root) and names_codes(column):
            why["kind"] = BY_NAME
        columns += [_line(8, key, value, why[key]) for key, value in entry.items()]
    counted = [key for key in (keys[name],) if key is not None and _pattern(found.frame[key]) == "#"]
    if found.reading is not None or counted:
        lines += [f"    {line}" for line in _written(found, kinds, counted, [*first, *filter(None, [order])])]
    return [*lines, "    columns:", *columns]


def _order(guesses: dict[str, dict[str, Any]]) -> str | None:
    """The first date of a table."""
    return next((column for column, guess in guesses.items() if guess["kind"] == "datetime"), None)


def _asked(key: str, item: Any) -> Any:
    """What a draft leaves to the steward, in place of what is left to learn."""
    return item if item != LEARN else [TODO] if key == "categories" else TODO


def _in_digits(series: "Series") -> bool:
    """Whether all values are texts of digits alone."""
    texts = [text for text in cells.texts(series.dropna().drop_duplicates()) if text is not None]
    return bool(texts) and all(text.isascii() and text.isdecimal() for text in texts)


def _pattern(series: "Series") -> str | None:
    """What all identifiers of a column look like: # for whole numbers, digits in a frame of other signs, or nothing of the kind."""
    texts = [text for text in cells.texts(series.dropna()) if text is not None]
    if not texts:
        return None
    if all(re.fullmatch("0|[1-9][0-9]{0,14}", text) for text in texts):
        return "#"
    forms = {re.sub("[0-9]+", lambda digits: "#" * len(digits[0]), text) for text in texts}
    frames = {re.sub("[0-9]+", "", text) for text in texts}
    form = min(forms)
    return form if len(forms) == len(frames) == 1 and re.fullmatch("[^#]*#+[^#]*", form) else None


def _written(found: "Found", kinds: dict[str, str], counted: list[str], never: Collection[str] = ()) -> list[str]:
    """How the file is written, with what is left open for the steward. `counted`: identifiers that are whole numbers. `never`: columns
    that are never missing, so that a text such as NA is a code among others: sodium, among tests."""
    reading = {} if found.reading is None else found.reading.to_dict()
    review = reading.pop("review", True)
    codings, columns = reading.pop("columns", {}), {}
    for name, kind in kinds.items():
        each = {**codings.get(name, {}), **dict.fromkeys(found.open.get(name, ()), TODO)}
        each |= {"pattern": "#"} if name in counted else {}
        columns[name] = {
            key: item
            for key, item in each.items()
            if kind in CODINGS.get(key, (kind,)) and kind != "ignore" and not (key == "missing" and name in never)
        }
    lines = [f"reading:  # {WHY['reading']}"]
    lines += [_line(2, key, value, WHY_READ.get(key, "")) for key, value in reading.items()]
    if any(columns.values()):
        lines.append(f"  columns:  # {WHY_READ['columns']}")
    for name, each in columns.items():
        why = "; ".join(f"{key} is {text}" for key, text in found.open.get(name, {}).items() if key in each)
        if each:
            shown = ", ".join(f"{key}: {_scalar(item)}" for key, item in each.items())
            lines.append(f"    {_scalar(name)}: {{{shown}}}{why and f'  # {TODO}: {why}'}")
    return [*lines, _line(2, "review", review, "delete this line once you have checked the lines above it")]


def _read_off(guess: dict[str, Any]) -> bool:
    """Whether a fact in it is the records': neither its kind nor an item that is left to learn."""
    return any(value != LEARN for key, value in guess.items() if key not in ("kind", "tree"))


def _why(key: str, kind: str, pictures: "Seen | None") -> str:
    if key == "kind":
        return _tags(pictures) if kind == "image" and pictures is not None else KINDS.get(kind, "")
    if key == "window" and pictures is not None and pictures.tagged:
        return "rescaled intensities (in CT, Hounsfield units) that become black and white, from the protocol, such as [-1000, 400]"
    if (kind, key) == ("datetime", "bounds"):
        return "or the first and the last possible day, such as [2020-01-01, 2025-12-31]"
    return WHY.get(key, "")


def _picture(seen: "Seen") -> dict[str, Any]:
    """The commonest size, halved until a schema can hold it."""
    height, width, channels = seen.size
    while height * width * channels > MAX_PIXELS:
        height, width = max(1, height // 2), max(1, width // 2)
    found: dict[str, Any] = {"kind": "image", "height": height, "width": width, "channels": channels}
    if seen.span is not None:
        low, high = outward(seen.span[0]), 0.0 - outward(-seen.span[1])
        found["window"] = [low, high if high > low else low + 1]
    return {**found, "resize": "none" if seen.same and (height, width) == seen.size[:2] else "fit"}


def _label(series: "Series") -> dict[str, Any]:
    """Beside pictures few whole numbers are classes."""
    values = sorted({int(value) for value in series.dropna()})
    if len(values) > LISTED:
        return guessed(series)
    lacking: dict[str, Any] = {"missing": True} if series.isna().any() else {}
    return {"kind": "categorical", "categories": [str(value) for value in values], **lacking}


def _tags(pictures: "Seen") -> str:
    return "a column named as a DICOM keyword, such as PatientID, is read from the headers" if pictures.tagged else ""


def _line(indent: int, key: str, value: Any, why: str) -> str:
    text = "" if value is None else f" {_scalar(value)}"
    return f"{' ' * indent}{key}:{text}{why and f'  # {why}'}"


def _scalar(value: Any) -> str:
    """A value as YAML on one line."""
    if value in ("\u00a0", "\u202f"):  # spaces that nobody would see
        return f'"\\u{ord(value):04x}"'
    text = yamlfile.dump([value], width=math.inf).strip()
    if isinstance(value, dict) and not text.removeprefix("- ").startswith("{"):
        return f"{{{text.removeprefix('- ')}}}"
    return text[1:-1] if text.startswith("[") and not isinstance(value, list) else text.removeprefix("- ")
