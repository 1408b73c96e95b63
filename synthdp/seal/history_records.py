"""Records with their histories: what came before stands beside each record."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.history_view import NUMBER, View, Whole, hindrance
from synthdp.seal import records
from synthdp.seal.records import Records

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.codec import Codec
    from synthdp.schema.schema import Schema


@dataclass(frozen=True)
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
        keys: NDArray[np.uint64],
        codec: "Codec",
        there: NDArray[np.bool_] | None = None,
    ) -> "Histories":
        """Of all records and their codes, `member` (records,) says whose they are. Columns that look back see a unit's whole history; of
        its records at most `max_records_per_unit` count, that follow one another. Where they begin is told by the unit's keyed name, and
        in which order records of one time stand by a hash of their codes under it: by that unit's own records alone (law 18)."""
        schema = codec.schema
        order = codec.numeric(str(schema.order))
        points = order.read(frame[schema.order])[0].astype(np.int64)
        rank = np.lexsort((_lots(coded, points, member, keys), points, member))
        coded, points, owner = coded[rank], points[rank], np.asarray(member[rank], np.int64)
        is_record = np.ones(len(owner), np.bool_) if there is None else there[rank]
        view = View.of(codec)
        dates = {name: codec.numeric(name).read(frame[name]) for name in view.placed_dates}
        found = {name: (each.astype(np.int64)[rank], gone[rank]) for name, (each, gone) in dates.items()}
        cells = view.cells(coded, points, owner, found)
        rows, number = np.bincount(owner, minlength=len(keys)), np.bincount(owner[is_record], minlength=len(keys))
        starts = np.cumsum(rows) - rows
        cells[NUMBER] = view.number(number)[owner]
        place, most = np.arange(len(owner)) - starts[owner], schema.max_records_per_unit
        first = (keys >> np.uint64(32)).astype(np.int64) % np.maximum(1, number - most + 1)
        counts, sizes = is_record & (place >= first[owner]) & (place < first[owner] + most), view.sizes
        return cls(
            view=view,
            cells={name: _narrow(cells[name][counts], sizes[name]) for name in cells},
            firsts={name: cells[name][starts] for name in view.of_unit},
            owner=owner[counts],
            count=np.minimum(number, most),
        )


@dataclass(frozen=True)
class Ordered(Records):
    """Records of a schema that says in which order a unit's records stand. `whole` are all of them, which rows these records are, whose
    each is, and of linked tables whether it is one, until they are encoded; `histories` what is counted of them from then on, where the
    schema tells enough (`history_view.hindrance`)."""

    whole: "tuple[pd.DataFrame, Whole, Whole, NDArray[np.bool_] | None] | None" = None
    histories: Histories | None = None

    def encoded_by(self, codec: "Codec") -> "Ordered":
        """The same records with their codes and their histories; the raw frames are let go."""
        if self.whole is None:
            return replace(self, codes=super().encoded_by(codec).codes, raw=None)
        frame, kept, member, there = self.whole
        coded, found = codec.encode(frame), None
        if not hindrance(codec.schema):
            found = Histories.of(frame, coded, member, self.keys, codec, there)
        return replace(self, codes=coded[kept], raw=None, whole=None, histories=found)

    def take(self, chosen: NDArray[np.bool_]) -> Records:
        """Of a sample there are records, and no histories."""
        return replace(self, histories=None)._taken(chosen)

    def _taken(self, chosen: NDArray[np.bool_]) -> Records:
        return super().take(chosen)


def ordered(
    given: "pd.DataFrame | Mapping[str, pd.DataFrame]", schema: "Schema", key: bytes, place: int = 0, of: int = 1
) -> Ordered:
    """As `records.seal`, of one of `of` shards (`records.shard`), with histories of the units: the schema has a unit and an order.
    Linked tables are joined here."""
    there = None
    if isinstance(given, Mapping):
        frame, there = linked(given, schema, key)
    else:
        frame = given
    every, kept = records.bounded(frame, schema, key)
    member, _ = records.members(frame, str(schema.unit))
    if of > 1:  # unit to shard as in `records.shard`
        mine = every.keys % np.uint64(of) == place
        number, rows, counted = np.cumsum(mine) - 1, mine[member], mine[every.owner]
        kept = (np.cumsum(rows) - 1)[kept[counted]]
        frame, member = frame[rows], number[member[rows]]
        there = None if there is None else there[rows]
        every = replace(every, units=int(mine.sum()), owner=number[every.owner[counted]], keys=every.keys[mine])
    held = {field.name: getattr(every, field.name) for field in fields(Records)}
    held["raw"] = frame.iloc[kept].reset_index(drop=True)
    return Ordered(**held, whole=(frame, kept, member, there))


def _narrow(codes: NDArray[Any], size: int) -> NDArray[Any]:
    """Codes below `size`, and -1, in the least type that holds every one of them: the schema alone says which."""
    kind = next(kind for kind in (np.int8, np.int16, np.int32) if size <= np.iinfo(kind).max)
    return codes.astype(kind, copy=False)


def linked(
    frames: "Mapping[str, pd.DataFrame]", schema: "Schema", key: bytes
) -> "tuple[pd.DataFrame, NDArray[np.bool_]]":
    """Linked tables as one, and which of its rows are records: each unit's rows by its own rows in all tables alone (law 46)."""
    from synthdp.schema.joined_tables import joined

    if not schema.tables:
        raise BadInput("several tables need a schema with tables, which says how they are linked")
    found = joined(frames, schema, key)
    return found.frame, found.there


def _lots(coded: NDArray[Any], points: Whole, member: Whole, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What decides the order of a unit's records of one time; 0 where there is nothing to decide."""
    lots = np.zeros(len(points), np.uint64)
    rank = np.lexsort((points, member))
    same = (np.diff(points[rank]) == 0) & (np.diff(member[rank]) == 0)
    beside = np.concatenate([[False], same, [False]])[: len(points) + 1]
    for row in rank[beside[1:] | beside[:-1]]:
        key = int(keys[member[row]]).to_bytes(8, "little")
        lots[row] = int.from_bytes(hashlib.blake2b(coded[row].tobytes(), key=key, digest_size=8).digest(), "little")
    return lots
