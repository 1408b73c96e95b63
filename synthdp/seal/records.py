"""The store of the records: bounded per unit, grouped by unit, and read only by questions."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.seal.to_device import moved

if TYPE_CHECKING:
    import torch

    from synthdp.schema.codec import Codec
    from synthdp.schema.schema import Schema


# ---- Contingency tables of encoded records, counted a part of the records at a time: a part's columns stay in the cache, where every
# table that is asked for finds them.


Codes = NDArray[Any]
Grouping = NDArray[np.int64]
PART = 1 << 16  # records


def contingency_counts(
    codes: Codes,
    cliques: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    groups: Sequence[Grouping | None] | None = None,
    rows: NDArray[np.int64] | None = None,
) -> list[NDArray[np.float64]]:
    """How many records each cell holds, one array per clique with one axis per column.

    `codes` is (records, columns), column i below `sizes[i]`; `groups[i]` says what is counted in the place of its codes. Of
    `rows` alone where they are given.
    """
    shapes = [shape_of(clique, sizes, groups) for clique in cliques]
    found = [np.zeros(math.prod(shape)) for shape in shapes]
    used = {column for clique in cliques for column in clique}
    for part in _parts(codes, rows, max(PART, *(len(table) for table in found)) if found else PART):
        seen = {column: _column(part[:, column], column, groups) for column in used}
        for clique, shape, table in zip(cliques, shapes, found, strict=True):
            cells = np.zeros(len(part), np.int64)
            for column, size in zip(clique, shape, strict=True):
                cells *= size
                cells += seen[column]
            table += np.bincount(cells, minlength=len(table))
    return [table.reshape(shape) for table, shape in zip(found, shapes, strict=True)]


def shape_of(clique: Sequence[int], sizes: Sequence[int], groups: Sequence[Grouping | None] | None) -> tuple[int, ...]:
    """The shape of a clique's table."""
    held = [(sizes[column], None if groups is None else groups[column]) for column in clique]
    return tuple(size if group is None else int(group.max(initial=0)) + 1 for size, group in held)


def _column(codes: Codes, column: int, groups: Sequence[Grouping | None] | None) -> NDArray[np.int64]:
    group = None if groups is None else groups[column]
    return codes.astype(np.int64) if group is None else group[codes]


def _parts(codes: Codes, rows: NDArray[np.int64] | None, size: int) -> Iterator[Codes]:
    for start in range(0, len(codes) if rows is None else len(rows), size):
        yield codes[start : start + size] if rows is None else codes[rows[start : start + size]]


Cliques = Sequence[tuple[int, ...]]
Groupings = Sequence["NDArray[np.int64] | None"] | None
Counts = NDArray[np.float64]
RESIDENT = 2 << 30  # bytes of a table that is kept on a device; of a larger one, samples are copied there


class Countable(Protocol):
    """What questions about counts need of a store: `Records` in memory, or a `CountedTable` in a database."""

    @property
    def units(self) -> int:
        """How many units there are."""
        ...

    @property
    def max_records(self) -> int:
        """How many records of a unit there are at most."""
        ...

    def counts(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """How many records each cell holds, one array per clique with one axis per column. `sizes` are the codes of every column,
        `groups` what is counted in their place: see `questions.marginals`."""
        ...

    def weights(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """The same where every unit weighs one: its records share its weight."""
        ...


@dataclass(frozen=True, repr=False)  # who prints one, such as a log of local variables, prints no record
class Records:
    """Records of some units. `owner[i]` is the unit (0 .. units - 1, ascending) that record i belongs to.

    `codes` is the encoded table, (records, columns), once the schema has nothing left to learn; `raw` the sealed frame;
    `keys` (units,) names each unit by a keyed hash: what a coin or a dealing of units may depend on. Of a sample, `codes` is
    the whole table still, and record i is its row `rows[i]`; None: all rows as they are. `copies` holds, by device, a table and its
    copy there, which all samples of it share.
    """

    units: int
    owner: NDArray[np.int64]
    raw: pd.DataFrame | None
    codes: Codes | None
    max_records: int
    keys: NDArray[np.uint64]
    rows: NDArray[np.int64] | None = None
    copies: "dict[torch.device, tuple[Codes, torch.Tensor]]" = field(default_factory=dict, compare=False, repr=False)

    def encoded(self) -> Codes:
        """The codes, (records, columns); raises where the schema was not resolved yet."""
        whole = self._whole()
        return whole if self.rows is None else whole[self.rows]

    def encoded_on(self, device: "torch.device") -> "torch.Tensor":
        """`encoded` on a device: gathered there of a copy of the table that stays, so that a sample costs the places of its
        rows and no more. Whoever reads it must not write to it."""
        import torch

        whole = self._whole()
        if device.type == "cpu" or whole.nbytes > RESIDENT:
            return moved(torch.from_numpy(np.ascontiguousarray(self.encoded())), device)
        of, kept = self.copies.get(device, (None, None))
        if kept is None or of is not whole:
            kept = torch.from_numpy(np.ascontiguousarray(whole)).to(device)
            self.copies[device] = whole, kept
        return kept if self.rows is None else kept[moved(torch.from_numpy(self.rows), device)]

    def _whole(self) -> Codes:
        if self.codes is None:
            raise BadInput("the schema still has items to learn: call resolve() before asking about encoded records")
        return self.codes

    def encoded_by(self, codec: "Codec") -> "Records":
        """The same records with their codes; the raw frame is let go."""
        if self.raw is None:
            raise BadInput("the records have been encoded already")
        return replace(self, codes=codec.encode(self.raw), raw=None, copies={})

    def counts(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """See `Countable`."""
        return contingency_counts(self.encoded(), cliques, sizes, groups)

    def weights(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """See `Countable`."""
        codes, kept = self.encoded(), np.bincount(self.owner, minlength=self.units)[self.owner]
        found = contingency_counts(codes[:0], cliques, sizes, groups)
        for number in np.unique(kept):  # counts are exact, and few divisions are rounded, however many units there are
            part = contingency_counts(codes, cliques, sizes, groups, np.flatnonzero(kept == number))
            for weighed, count in zip(found, part, strict=True):
                weighed += count / number
        return found

    def column(self, name: str) -> "pd.Series[Any]":
        """One raw column, for the questions that buy what was not declared."""
        if self.raw is None or name not in self.raw.columns:
            raise BadInput(f"column {name!r} is not in the sealed table")
        return self.raw[name]

    def take(self, chosen: NDArray[np.bool_]) -> "Records":
        """The records of the chosen units, renumbered; `chosen` is (units,)."""
        self._whole()
        # Every unit holds just one record: skip the regrouping
        if self.max_records == 1 and len(self.owner) == self.units:
            rows = np.flatnonzero(chosen)
            owner = np.arange(len(rows))
        else:
            rows = np.flatnonzero(chosen[self.owner])
            owner = (np.cumsum(chosen) - 1)[self.owner[rows]]
        keys = self.keys[chosen]
        places = rows if self.rows is None else self.rows[rows]
        return replace(self, units=len(keys), owner=owner, raw=None, rows=places, keys=keys)

    def padded(self) -> tuple[Codes, NDArray[np.bool_]]:
        """Codes as (units, max_records, columns) and the mask (units, max_records) of the places that hold a record."""
        codes, (place, mask) = self.encoded(), self.slots()
        table = np.zeros((*mask.shape, codes.shape[1]), codes.dtype)
        table[self.owner, place] = codes
        return table, mask

    def slots(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Which of its unit's places each record has, (records,), and the mask of `padded`."""
        place = np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner, side="left")
        mask = np.zeros((self.units, self.max_records), np.bool_)
        mask[self.owner, place] = True
        return place, mask

    def padded_on(self, device: "torch.device") -> "tuple[torch.Tensor, torch.Tensor]":
        """`padded` on a device, by `encoded_on`; the mask stays on the CPU, where it can be looked at without waiting."""
        import torch

        if device.type == "cpu":
            table, held = self.padded()
            return torch.from_numpy(table), torch.from_numpy(held)
        (place, mask), codes = self.slots(), self.encoded_on(device)
        slots = moved(torch.from_numpy(self.owner * self.max_records + place), device)
        flat = codes.new_zeros(mask.size, codes.shape[1]).index_copy_(0, slots, codes)
        return flat.reshape(*mask.shape, -1), torch.from_numpy(mask)


_READING: ContextVar[bool] = ContextVar("reading", default=False)


Kept = TypeVar("Kept")


def is_open() -> bool:
    """Whether records are open: a question is being answered."""
    return _READING.get()


class Sealed(Generic[Kept]):
    """Records, or what was trained on them, that open only while a question is answered: a read at any other time raises,
    whoever reads."""

    def __init__(self, records: Kept) -> None:
        self.__records = records

    def read(self) -> Kept:
        """What is sealed; raises `RuntimeError` outside `reading()`."""
        if not _READING.get():
            raise RuntimeError("sealed records were read outside a question: ask `Sensitive` instead")
        return self.__records


@contextmanager
def reading() -> Iterator[None]:
    """While a question is answered. For `Sensitive` alone. NumPy says nothing of a division by zero: it would tell of a record."""
    token = _READING.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _READING.reset(token)


def seal(frame: pd.DataFrame, schema: "Schema", key: bytes) -> Records:
    """Group a frame by unit, keep at most `max_records_per_unit` of each, and give every unit a keyed 64-bit name.

    Which records of a unit are kept depends on that unit and the key alone (law 18). Records whose unit is missing
    count as one unit.
    """
    records, kept = bounded(frame, schema, key)
    return replace(records, raw=frame.iloc[kept].reset_index(drop=True))


def bounded(frame: pd.DataFrame, schema: "Schema", key: bytes) -> tuple[Records, NDArray[np.int64]]:
    """What `seal` makes, but for the raw frame, and which rows of the frame the records are."""
    if schema.unit is None:
        names = [b"%d" % position for position in range(len(frame))]
        owner, kept = np.arange(len(frame)), np.arange(len(frame))
    else:
        member, names = members(frame, schema.unit)
        kept = _bounded(member, names, key, schema.max_records_per_unit)
        owner = member[kept]
    keys = np.array([_keyed(key, name) for name in names], dtype=np.uint64)
    most = schema.max_records_per_unit if schema.unit else 1
    return Records(len(names), owner.astype(np.int64), None, None, most, keys), kept


def members(frame: pd.DataFrame, unit: str) -> tuple[NDArray[np.int64], list[bytes]]:
    """Which unit each record belongs to, and the units' names, in the order of their first records."""
    if unit not in frame.columns:
        raise BadInput(f"the unit column {unit!r} is not in the table")
    member, unique = cells.numbered(cells.keys(frame[unit]))
    return member, [name.encode("utf-8", "surrogatepass") for name in unique]


def shard(records: Records, place: int, of: int) -> Records:
    """The units of one of `of` shards, before they are encoded: unit to shard by its keyed name, so that no unit's place depends
    on the others."""
    if of == 1:
        return records
    if records.raw is None:
        raise BadInput("records must be sharded before they are encoded")
    mine = records.keys % np.uint64(of) == place
    rows = mine[records.owner]
    owner = (np.cumsum(mine) - 1)[records.owner[rows]]
    raw = records.raw[rows].reset_index(drop=True)
    return replace(records, units=int(mine.sum()), owner=owner, raw=raw, keys=records.keys[mine])


def lots(key: bytes) -> bytes:
    """What a database draws by: the seal's key stays here, and the database sees this one. Histories in memory draw by it, too."""
    return hashlib.blake2b(b"lots", key=key, digest_size=16).digest()


def within(records: Countable, bound: int) -> None:
    """Refuse a question whose sensitivity assumes fewer records of a unit than the seal lets in. Both numbers are public."""
    if records.max_records > bound:
        raise BadInput(
            f"the question assumes at most {bound} records per unit, but the schema allows {records.max_records}"
        )


def _bounded(member: NDArray[np.int64], names: list[bytes], key: bytes, most: int) -> NDArray[np.int64]:
    """Rows to keep, grouped by unit: in each unit those whose keyed lot is lowest, in their own order."""
    order = np.argsort(member, kind="stable")
    counts = np.bincount(member, minlength=len(names))
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    lots = np.zeros(len(order), dtype=np.uint64)
    for position in np.flatnonzero(counts[member[order]] > most):
        lots[position] = _keyed(key, names[member[order[position]]] + b"/%d" % place[position])
    ranked = np.lexsort((lots, member[order]))
    first = ranked[place < most]
    return order[np.sort(first)]


def _keyed(key: bytes, name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, key=key, digest_size=8).digest(), "little")
