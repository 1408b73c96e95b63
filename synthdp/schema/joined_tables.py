"""Frames of linked tables, joined to the one table of histories that a model sees (`schema.linked_tables`).

A visit belongs to the person whose key it holds; a row below visits to every visit that has its parent's key, of whichever person, and
where it names a person to visits of that person alone. Nobody else's rows decide which are one's own: a row that several people hold is
each one's, and a row whose parent is not there is nobody's.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import cells
from synthdp.schema.linked_tables import Table, held

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

Frames = Mapping[str, pd.DataFrame]
Texts = NDArray[Any]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Joined:
    """`frame` has the schema's columns and a row for each visit of somebody; whoever has none has one row too, in which all but the columns
    of people are missing. `there` (rows,) tells the visits."""

    frame: pd.DataFrame
    there: NDArray[np.bool_]


def joined(frames: Frames, schema: "Schema", key: bytes = b"") -> Joined:
    """The tables as one. Of the rows below a visit at most `max_rows` are kept, by a hash of their content under `key` and the person's
    name, and of several rows of a person in the table of people one, in the same way: by that person's rows alone."""
    people, visits, *items = schema.tables
    names = _texts(frames[people.name][people.key])
    first = _one_each(frames[people.name], names, key)
    index, named = pd.Index(names[first], dtype=object), frames[visits.name]
    whose = index.get_indexer(pd.Index(_texts(named[people.key]), dtype=object)).astype(np.int64)
    rows = np.flatnonzero(whose >= 0)
    alone = np.setdiff1d(np.arange(len(first)), whose[rows])
    member = np.concatenate([whose[rows], alone])
    place = np.concatenate([rows, np.full(len(alone), -1, np.int64)])
    made: dict[str, Any] = {str(schema.unit): pd.Series(names[first][member], dtype=object)}
    for name, column in held(schema, people):
        made[column.name] = _taken(frames[people.name], name, first[member])
    for name, column in held(schema, visits):
        made[column.name] = _taken(named, name, place)
    if items:
        of_visit = _texts(named[visits.key])[rows]
        for table in items:
            ((name, _),) = (each for each in held(schema, table) if each[1].kind != "ignore")
            found = _places(table, name, frames[table.name], of_visit, names[first][whose[rows]], schema, key)
            for number, values in enumerate(found):
                whole = np.concatenate([values, np.full(len(alone), None)])
                made[f"{table.name}.{name} {number + 1}"] = pd.Series(whole, dtype=object)
    frame = pd.DataFrame({name: made[name] for name in schema.names})
    return Joined(frame, place >= 0)


def _texts(series: "pd.Series[Any]") -> Texts:
    """Keys as text, so that 7 and "7" are one; empty where there is none, which links to nothing."""
    return np.array([text or "" for text in cells.texts(series)], object)


def _one_each(frame: pd.DataFrame, names: Texts, key: bytes) -> Whole:
    """The row of each person, in the order of their first rows."""
    places, index = pd.factorize(names)
    order = np.argsort(places, kind="stable")
    several = np.bincount(places, minlength=len(index))[places] > 1
    if several.any():
        lots = np.zeros(len(names), np.uint64)
        texts = {name: cells.texts(frame[name][several]) for name in frame.columns}
        for row, content in zip(np.flatnonzero(several), zip(*texts.values(), strict=True), strict=True):
            lots[row] = _lot(key, names[row], "\0".join(f"{text}" for text in content))
        order = np.lexsort((lots, places))
    first = order[np.flatnonzero(np.diff(places[order], prepend=-1))]
    return np.asarray(first[names[first] != ""], np.int64)


def _lot(key: bytes, name: str, content: str) -> int:
    text = f"{name}\0{content}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "little")


def _taken(frame: pd.DataFrame, name: str, place: Whole) -> "pd.Series[Any]":
    """Cells of a column, missing where the place is -1. Whole numbers and truth values get a type that has room for that, in any case: no
    cell is read otherwise for another one's sake."""
    series: Any = frame[name]
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iub":
        series = series.astype({"i": "Int64", "u": "UInt64", "b": "boolean"}[series.dtype.kind])
    return pd.Series(series.array.take(place, allow_fill=True)).reset_index(drop=True)


def _places(
    table: Table, name: str, frame: pd.DataFrame, of_visit: Texts, of_person: Texts, schema: "Schema", key: bytes
) -> list[Texts]:
    """The cells of the rows below each visit, in `max_rows` places and in the order of their texts: (visits,) each."""
    parent = next(str(each.key) for each in schema.tables if each.name == table.parent)
    visits = pd.DataFrame({"key": of_visit, "person": of_person, "visit": np.arange(len(of_visit))})
    below = pd.DataFrame({"key": _texts(frame[parent]), "cell": cells.texts(frame[name])}, dtype=object)
    by = ["key"]
    if table.with_unit:
        below["person"], by = _texts(frame[schema.unit]), ["key", "person"]
    pairs = visits[visits["key"] != ""].merge(below[below["cell"].notna()], on=by)
    most = int(table.max_rows or 0)
    many = pairs.groupby("visit")["cell"].transform("size").to_numpy(np.int64) > most
    lots = np.zeros(len(pairs), np.uint64)
    people, texts = pairs["person"].to_numpy(), pairs["cell"].to_numpy()
    for row in np.flatnonzero(many):
        lots[row] = _lot(key, people[row], texts[row])
    visit, cell = pairs["visit"].to_numpy(np.int64), pd.factorize(texts, sort=True)[0]
    found = [np.full(len(of_visit), None, object) for _ in range(most)]
    kept = np.lexsort((cell, lots, visit))
    kept = kept[_rank(visit[kept]) < most]
    kept = kept[np.lexsort((cell[kept], visit[kept]))]
    rank = _rank(visit[kept])
    for number, values in enumerate(found):
        here = kept[rank == number]
        values[visit[here]] = texts[here]
    return found


def _rank(groups: Whole) -> Whole:
    """The place of each row within its group, of groups that ascend."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups, side="left")
