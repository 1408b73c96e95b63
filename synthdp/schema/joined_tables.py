"""Frames of linked tables, joined to the one table of histories that a model sees (`schema.linked_tables`).

A visit belongs to the person whose key it holds; a row below visits to every visit that has its parent's key, of whichever person, and
where it names a person to visits of that person alone. Nobody else's rows decide which are one's own: a row that several people hold is
each one's, and a row whose parent is not there is nobody's.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import cells
from synthdp.schema.coders import NumericCoder, coder_of
from synthdp.schema.columns import Datetime, Numeric
from synthdp.schema.linked_tables import Table, ends, learned_of, modelled
from synthdp.schema.schema import Schema

Frames = Mapping[str, pd.DataFrame]
Texts = NDArray[Any]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Joined:
    """`frame` has the schema's columns and a row for each visit of somebody; whoever has none has one row too, in which all but the columns
    of people are missing. `there` (rows,) tells the visits. `rows`: by table, which of its rows each one holds, (rows,) with -1 for
    none; of a table below visits such an array for each place."""

    frame: pd.DataFrame
    there: NDArray[np.bool_]
    rows: Mapping[str, Sequence[Whole]]


def joined(frames: Frames, schema: Schema, key: bytes = b"") -> Joined:
    """The tables as one. The rows below a visit are in the order of a hash, under `key`, of their content and of the visit's key, so that a
    row's place tells nothing of its code; the first `max_rows` are kept. If a person has several rows in the table of people, one is kept
    in the same way, which depends on that person's rows alone. A database that counts the tables chooses the same rows
    (`seal.counted_histories`)."""
    people, visits, *items = schema.tables
    names = _texts(frames[people.name][people.key])
    first = _one_each(frames[people.name], dict(modelled(schema, people)), names, ends(schema), key)
    index, named = pd.Index(names[first], dtype=object), frames[visits.name]
    whose = index.get_indexer(pd.Index(_texts(named[people.key]), dtype=object)).astype(np.int64)
    rows = np.flatnonzero(whose >= 0)
    alone = np.setdiff1d(np.arange(len(first)), whose[rows])
    member = np.concatenate([whose[rows], alone])
    place = np.concatenate([rows, np.full(len(alone), -1, np.int64)])
    made: dict[str, Any] = {str(schema.unit): pd.Series(names[first][member], dtype=object)}
    origin = {people.name: [first[member]], visits.name: [place]}
    for table, at in ((people, first[member]), (visits, place)):
        for name, column in modelled(schema, table):
            made[column.name] = _taken(frames[table.name][name], at)
    if items:
        of_visit = _texts(named[visits.key])[rows]
        for table in items:
            columns = dict(modelled(schema, table))
            own = list(columns)
            found = _places(table, columns, frames[table.name], of_visit, names[first][whose[rows]], schema, key)
            origin[table.name] = [np.append(values, np.full(len(alone), -1, np.int64)) for values in found]
            codes = {own[0]: pd.Series(_categories(cells.texts(frames[table.name][own[0]])))}
            for number, below in enumerate(origin[table.name]):
                for name in own:
                    series = codes.get(name, frames[table.name][name])
                    made[f"{table.name}.{name} {number + 1}"] = _taken(series, below)
    frame = pd.DataFrame({name: made[name] for name in schema.names})
    return Joined(frame, place >= 0, origin)


def rows_of(visits: pd.DataFrame, schema: Schema, table: Table, names: Iterable[str]) -> pd.DataFrame:
    """The rows that a table has below these visits of the joined table. `names`: their columns, or columns of their visit or its person
    (`linked_tables.of_rows`)."""
    code = f"{table.name}.{learned_of(schema, table)[0]}"
    parts, own = [], set(visits.columns)
    for at in range(1, (table.max_rows or 0) + 1):
        there = visits[f"{code} {at}"].notna()
        parts.append(pd.DataFrame({name: visits[name if name in own else f"{name} {at}"][there] for name in names}))
    return pd.concat(parts, ignore_index=True)


def _texts(series: "pd.Series[Any]") -> Texts:
    """Keys as text, so that 7 and "7" are one; empty where there is none, which links to nothing."""
    return np.array(cells.keys(series), object)


def _content(series: "pd.Series[Any]", column: Any, *, points: bool = False) -> tuple[Whole, list[str]]:
    """What is read of each cell, (rows,) each: numbers that order the cells, and texts that are hashed. Of a declared column both are its
    codes, or the `points` of dates. The type that a file's column was read as does not matter: one unreadable cell turns a whole column
    into text, and that must not change how other people's rows are chosen."""
    if not _declared(column):
        texts = _texts_of(series, column)
        same, every = cells.numbered(texts)
        return np.argsort(np.argsort(every))[same].astype(np.int64), texts
    coder = coder_of(column)
    if points and isinstance(column, Datetime) and isinstance(coder, NumericCoder):
        found, gone = coder.read(series)
        codes = np.where(gone, coder.span[0] - 1, found).astype(np.int64)
    else:
        codes = coder.encode(series).astype(np.int64)
    return codes, [str(code) for code in codes.tolist()]


def _declared(column: Any) -> bool:
    """Whether the codes of a column are public, so that its cells can be told by them."""
    facts = (getattr(column, name, None) for name in ("categories", "bounds", "bins"))
    return getattr(column, "tree", None) is None and not any(isinstance(fact, str) for fact in facts)


def _texts_of(series: "pd.Series[Any]", column: Any) -> list[str]:
    """Each cell as text by what its column is declared to be."""
    if isinstance(column, Datetime | Numeric):
        read = cells.instants(series) if isinstance(column, Datetime) else cells.numbers(series)
        values = [str(value) for value in (read.cells + 0).tolist()]  # -0.0 is 0.0
        gone = read.wrong & (read.cells == 0) if isinstance(column, Datetime) else np.isnan(read.cells) & ~read.missing
        return ["" if no else "?" if odd else text for no, odd, text in zip(read.missing, gone, values, strict=True)]
    spelling = cells.spelling(column)
    return ["" if text is None else spelling(text) if spelling else text for text in cells.texts(series)]


def _one_each(
    frame: pd.DataFrame, columns: Mapping[str, Any], names: Texts, by_points: Sequence[str], key: bytes
) -> Whole:
    """The row of each person, in the order of their first rows. Values of columns `by_points` differ even within a bin."""
    places, index = cells.numbered(names)
    order = np.argsort(places, kind="stable")
    several = np.bincount(places, minlength=len(index))[places] > 1
    if several.any():
        lots, alike = np.full(len(names), "", object), np.zeros(len(names), np.int64)
        contents = [
            _content(frame[name][several], each, points=each.name in by_points) for name, each in columns.items()
        ]
        texts = zip(*(texts for _, texts in contents), strict=True)
        for row, content in zip(np.flatnonzero(several), texts, strict=True):
            lots[row] = lot(lot(key.hex(), names[row]), ",".join(content))
        alike[several] = _ranked([placed for placed, _ in contents])  # a cell may hold what stands between two
        order = np.lexsort((alike, pd.factorize(lots, sort=True)[0], places))
    first = order[np.flatnonzero(np.diff(places[order], prepend=-1))]
    return np.asarray(first[names[first] != ""], np.int64)


def lot(*parts: str) -> str:
    """A keyed hash, the key among the parts: 32 hexadecimal digits, alike in memory and in every database."""
    text = "/".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def _categories(texts: Sequence[str | None]) -> pd.Categorical:
    """Texts, each held once."""
    places, held = cells.numbered(texts)
    return pd.Categorical.from_codes(places, pd.Index(held, dtype=object))


def _taken(series: Any, place: Whole) -> "pd.Series[Any]":
    """Cells of a column, missing where the place is -1. Whole numbers and truth values get a type that has room for that, in any case: no
    cell is read otherwise for another one's sake."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iub":
        series = series.astype({"i": "Int64", "u": "UInt64", "b": "boolean"}[series.dtype.kind])
    found: pd.Series[Any] = pd.Series(series.array.take(place, allow_fill=True), dtype=series.dtype)
    return found


def _places(
    table: Table,
    columns: Mapping[str, Any],
    frame: pd.DataFrame,
    of_visit: Texts,
    of_person: Texts,
    schema: Schema,
    key: bytes,
) -> list[Whole]:
    """The rows below each visit in `max_rows` places, in the order of their hashes: (visits,) each, -1 where there are fewer."""
    parent, most = next(str(each.key) for each in schema.tables if each.name == table.parent), int(table.max_rows or 0)
    own, theirs = [_texts(frame[parent])], [of_visit]
    if table.with_unit:
        own, theirs = [*own, _texts(frame[schema.unit])], [*theirs, of_person]
    there = np.array([text is not None for text in cells.texts(frame[next(iter(columns))])], np.bool_)
    rows = np.flatnonzero((own[0] != "") & there)
    own = [each[rows] for each in own]
    contents = [_content(frame[name].iloc[rows], column, points=True) for name, column in columns.items()]
    content = _ranked([places for places, _ in contents])
    group, holder = _numbered(own, theirs)
    # Chosen once for each key, and not for each of its holders: visits under one key, such as that of an unknown visit, may be many.
    lots = np.full(len(rows), "", object)
    for row in np.flatnonzero(np.bincount(group, minlength=1)[group] > 1):
        names = (lot(key.hex(), each[row]) for each in own)
        lots[row] = lot(*names, ",".join(texts[row] for _, texts in contents))
    kept = np.lexsort((content, pd.factorize(lots, sort=True)[0], group))
    kept = kept[_rank(group[kept]) < most]
    rank, found = _rank(group[kept]), []
    for number in range(most):
        place = np.full(max(group.max(initial=0), holder.max(initial=0)) + 1, -1)
        place[group[kept[rank == number]]] = rows[kept[rank == number]]
        found.append(place[holder])
    return found


def _numbered(own: list[Texts], theirs: list[Texts]) -> tuple[Whole, Whole]:
    """A number for each row, the same where all texts of two rows are."""
    found = np.zeros(len(own[0]) + len(theirs[0]), np.int64)
    for one, other in zip(own, theirs, strict=True):
        texts, _ = cells.numbered(np.concatenate([one, other]))
        found = pd.factorize(found * (int(texts.max(initial=0)) + 1) + texts)[0]
    return found[: len(own[0])], found[len(own[0]) :]


def _ranked(columns: Sequence[Whole]) -> Whole:
    """Numbers that order rows by several columns, the first before all others; the same for rows that are alike."""
    order = np.lexsort(columns[::-1])
    found = np.zeros(len(order), np.int64)
    found[order[1:]] = np.cumsum(np.any([np.diff(column[order]) != 0 for column in columns], axis=0))
    return found


def _rank(groups: Whole) -> Whole:
    """The place of each row within its group, of groups that ascend."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups, side="left")
