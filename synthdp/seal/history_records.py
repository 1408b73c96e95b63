"""Records with their histories: what came before stands beside each record."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import history_view
from synthdp.schema.history_view import MANY, NUMBER, View, Whole, hindrance
from synthdp.schema.joined_tables import joined, lot
from synthdp.seal import records
from synthdp.seal.records import Records, lots

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.codec import Codec
    from synthdp.schema.schema import Schema


@dataclass(frozen=True, repr=False)
class Histories:
    """The columns of `view` for every record that counts, unit by unit. `firsts` has them for the first record of every unit, which
    tells of the unit; `owner` (records,) says whose a record is, and `count` (units,) how many of a unit count, which of linked
    tables may be none."""

    view: View
    cells: dict[str, Whole]
    firsts: dict[str, Whole]
    owner: Whole
    count: Whole

    @classmethod
    def of(
        cls,
        frame: "pd.DataFrame",
        coded: NDArray[Any],
        member: Whole,
        names: Sequence[str],
        codec: "Codec",
        there: NDArray[np.bool_] | None = None,
    ) -> "Histories":
        """Of all records and their codes, `member` (records,) says whose they are. Columns that look back see a unit's whole history; of
        its records at most `max_records_per_unit` count, that follow one another. Where they begin is told by the unit's keyed name, one of
        `names`, and in which order records of one time stand by a hash of what is counted of them under it: by that unit's own records
        alone (law 18)."""
        schema = codec.schema
        order = codec.numeric(str(schema.order))
        points = order.read(frame[schema.order])[0].astype(np.int64)
        view = View.of(codec)
        dates = {name: codec.numeric(name).read(frame[name]) for name in (*view.placed_dates, *view.until[:1])}
        found = {name: (each.astype(np.int64), gone) for name, (each, gone) in dates.items()}
        rank = np.lexsort((_lots(view, coded, points, member, names, found), points, member))
        coded, points, owner = coded[rank], points[rank], np.asarray(member[rank], np.int64)
        is_record = np.ones(len(owner), np.bool_) if there is None else there[rank]
        found = {name: (each[rank], gone[rank]) for name, (each, gone) in found.items()}
        cells = view.cells(coded, points, owner, found)
        rows, number = np.bincount(owner, minlength=len(names)), np.bincount(owner[is_record], minlength=len(names))
        starts = np.cumsum(rows) - rows
        cells[NUMBER] = view.number(number)[owner]
        cells[MANY] = view.many(cells[NUMBER])
        of_units = {name: cells[name][starts] for name in view.of_unit}
        of_units |= {name: np.where(number > 0, cells.pop(name)[starts], 0) for name in view.ending}
        place, most = np.arange(len(owner)) - starts[owner], schema.max_records_per_unit
        first = np.array([int(name[:8], 16) for name in names], np.int64) % np.maximum(1, number - most + 1)
        counts, sizes = is_record & (place >= first[owner]) & (place < first[owner] + most), view.sizes
        return cls(
            view=view,
            cells={name: _narrow(cells[name][counts], sizes[name]) for name in cells},
            firsts=of_units,
            owner=owner[counts],
            count=np.minimum(number, most),
        )

    def tables(
        self,
        cliques: Sequence[tuple[str, ...]],
        clip: float | None,
        rows: str,
        levels: Mapping[str, Whole],
        broad: Mapping[str, Whole],
    ) -> list[Whole]:
        """Exact sums of weights, in millionths with `clip`, one array for each clique: see `HistoryTables`."""
        sizes = self.view.sizes | history_view.broad_sizes(broad)
        cells = self.firsts if clip is None else self.cells | history_view.broadly(self.cells, broad)
        code, by_code = None, np.zeros(0, np.int64)
        weights = np.ones(len(self.count), np.int64)
        if rows:
            below = next(each for each in self.view.below if each.table == rows)
            code, named = below.code, dict.fromkeys(name for clique in cliques for name in clique)
            cells, record = below.rows(
                cells, sizes, [code, *(name for name in named if name != code)], levels, self.owner
            )
            owner, most = self.owner[record], history_view.largest(clip or 0, 1)
            by_code, weights = (
                history_view.weights(squares, most)[owner]
                for squares in history_view.row_squares(cells[code], owner, len(self.count))
            )
        elif clip is not None:
            squares = history_view.squares(cells, self.owner, self.count, self.view.apart(cliques))
            weights = history_view.weights(squares, history_view.largest(clip, len(cliques)))[self.owner]
        found = []
        for clique in cliques:
            shape, weighed = [sizes[name] for name in clique], by_code if code in clique else weights
            place, share = history_view.cell(cells, clique, sizes), weighed
            if place.ndim == 2:
                several = (place >= 0).sum(1)
                place, share = place[place >= 0], np.repeat(weighed // np.maximum(several, 1), several)
            table = np.bincount(place, weights=share, minlength=math.prod(shape))  # exact: whole numbers below 2^53
            found.append(table.astype(np.int64).reshape(shape))
        return found


@dataclass(frozen=True, repr=False)
class Ordered(Records):
    """Records of a schema that says in which order a unit's records stand. `whole` are all of them, which rows these records are, whose
    each is, each unit's keyed name, and of linked tables whether a row is a record, until they are encoded; `histories` what is counted of
    them from then on, where the schema tells enough (`history_view.hindrance`)."""

    whole: "tuple[pd.DataFrame, Whole, Whole, list[str], NDArray[np.bool_] | None] | None" = None
    histories: Histories | None = None

    def encoded_by(self, codec: "Codec") -> "Ordered":
        """The same records with their codes and their histories; the raw frames are let go."""
        if self.whole is None:
            return replace(self, codes=super().encoded_by(codec).codes, raw=None)
        frame, kept, member, names, there = self.whole
        coded, found = codec.encode(frame), None
        if not hindrance(codec.schema):
            found = Histories.of(frame, coded, member, names, codec, there)
        return replace(self, codes=coded[kept], raw=None, whole=None, histories=found)

    def take(self, chosen: NDArray[np.bool_]) -> Records:
        """Of a sample there are records, and no histories."""
        return Records.take(replace(self, histories=None), chosen)


def ordered(
    given: "pd.DataFrame | Mapping[str, pd.DataFrame]", schema: "Schema", key: bytes, place: int = 0, of: int = 1
) -> Ordered:
    """As `records.seal`, of one of `of` shards (`records.shard`), with histories of the units: the schema has a unit and an order.
    Linked tables are joined here."""
    there, drawn = None, lots(key)
    if isinstance(given, Mapping):
        frame, there = linked(given, schema, drawn)
    else:
        frame = given
    every, kept = records.bounded(frame, schema, key)
    member, units = records.members(frame, str(schema.unit))
    names = [lot(drawn.hex(), name.decode("utf-8", "surrogatepass")) for name in units]
    if of > 1:  # unit to shard as in `records.shard`
        mine = every.keys % np.uint64(of) == place
        number, rows, counted = np.cumsum(mine) - 1, mine[member], mine[every.owner]
        kept = (np.cumsum(rows) - 1)[kept[counted]]
        frame, member = frame[rows], number[member[rows]]
        there = None if there is None else there[rows]
        names = [name for name, here in zip(names, mine, strict=True) if here]
        every = replace(every, units=int(mine.sum()), owner=number[every.owner[counted]], keys=every.keys[mine])
    held = {field.name: getattr(every, field.name) for field in fields(Records)}
    held["raw"] = frame.iloc[kept].reset_index(drop=True)
    return Ordered(**held, whole=(frame, kept, member, names, there))


def _narrow(codes: NDArray[Any], size: int) -> NDArray[Any]:
    """Codes below `size`, and -1, in the least type that holds every one of them: the schema alone says which."""
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if size <= np.iinfo(kind).max)
    return codes.astype(kind, copy=False)


def linked(
    frames: "Mapping[str, pd.DataFrame]", schema: "Schema", key: bytes
) -> "tuple[pd.DataFrame, NDArray[np.bool_]]":
    """Linked tables as one, and which of its rows are records: each unit's rows by its own rows in all tables alone (law 46)."""
    if not schema.tables:
        raise BadInput("several tables need a schema with tables, which says how they are linked")
    found = joined(frames, schema, key)
    return found.frame, found.there


def _lots(
    view: View,
    coded: NDArray[Any],
    points: Whole,
    member: Whole,
    names: Sequence[str],
    dates: Mapping[str, tuple[Whole, NDArray[np.bool_]]],
) -> Whole:
    """What decides the order of a unit's records of one time; 0 where there is nothing to decide."""
    rank = np.lexsort((points, member))
    same = (np.diff(points[rank]) == 0) & (np.diff(member[rank]) == 0)
    beside = np.concatenate([[False], same, [False]])[: len(points) + 1]
    rows, found = rank[beside[1:] | beside[:-1]], np.zeros(len(points), np.int64)
    bags = view.bags(
        coded[rows], points[rows], {name: (each[rows], gone[rows]) for name, (each, gone) in dates.items()}
    )
    texts = [lot(names[member[row]], text) for row, text in zip(rows, view.told_apart(coded[rows], bags), strict=True)]
    found[rows] = np.unique(np.array(texts, "U32"), return_inverse=True)[1]
    return found
