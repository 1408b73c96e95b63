"""Noisy tables of a unit's records in their order: what came before stands beside each of them."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.schema import history_view
from synthdp.schema.history_view import UNIT_WEIGHT, View, Whole
from synthdp.seal.marginals import Table, apart, noisy

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.noise.noise import Noise
    from synthdp.schema.codec import Codec
    from synthdp.seal.records import Records


@dataclass(frozen=True)
class Histories:
    """The columns of `view` for every record that counts, unit by unit. `firsts` has them for the first record of every unit, which
    tells of the unit; `owner` (records,) says whose a record is, and `count` (units,) how many of a unit count."""

    view: View
    cells: dict[str, Whole]
    firsts: dict[str, Whole]
    owner: Whole
    count: Whole

    @classmethod
    def of(cls, frame: "pd.DataFrame", member: Whole, keys: NDArray[np.uint64], codec: "Codec") -> "Histories":
        """Of all records, `member` (records,) says whose they are. Columns that look back see a unit's whole history; of its records at
        most `max_records_per_unit` count, that follow one another. Where they begin is told by the unit's keyed name, and in which
        order records of one time stand by a hash of their codes under it: by that unit's own records alone (law 18)."""
        schema = codec.schema
        order = codec.numeric(str(schema.order))
        coded, points = codec.encode(frame), order.read(frame[schema.order])[0].astype(np.int64)
        rank = np.lexsort((_lots(coded, points, member, keys), points, member))
        coded, points, owner = coded[rank], points[rank], np.asarray(member[rank], np.int64)
        view = View.of(codec)
        cells = view.cells(coded, points, owner)
        number = np.bincount(owner, minlength=len(keys))
        starts = np.cumsum(number) - number
        place, most = np.arange(len(owner)) - starts[owner], schema.max_records_per_unit
        first = (keys >> np.uint64(32)).astype(np.int64) % np.maximum(1, number - most + 1)
        counts = (place >= first[owner]) & (place < first[owner] + most)
        return cls(
            view=view,
            cells={name: values[counts] for name, values in cells.items()},
            firsts={name: cells[name][starts] for name in view.of_unit},
            owner=owner[counts],
            count=np.minimum(number, most),
        )


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


@dataclass(frozen=True)
class HistoryTables:
    """One table per clique of a history's columns, every cell plus N(0, deviation^2) noise.

    With `clip` a record counts, and each one of a unit with r records that count weighs min(1, clip / r), rounded down to a public
    grid: a unit adds at most `clip` to the cells of a table, whatever they are, so that the stacked vector of m tables moves by at
    most clip * sqrt(m) in L2. The weights are whole numbers of millionths and add up exactly. Without `clip` a unit counts, once, as its
    first record tells it: sqrt(m).
    """

    view: View
    cliques: tuple[tuple[str, ...], ...]
    noise: float
    clip: float | None = None

    def __post_init__(self) -> None:
        known = self.view.of_unit if self.clip is None else tuple(self.view.sizes)
        wrong = sorted({name for clique in self.cliques for name in clique} - set(known))
        if wrong or not all(self.cliques):
            raise BadInput(f"a history has no column {', '.join(map(repr, wrong))}; known: {', '.join(known)}")
        if self.clip is not None and not (1 / UNIT_WEIGHT <= self.clip <= UNIT_WEIGHT):
            raise BadInput(f"clip must be a positive number of records, got {self.clip}")

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian for all tables together."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """clip * sqrt(m), or sqrt(m)."""
        return (1.0 if self.clip is None else self.clip) * math.sqrt(len(self.cliques))

    @property
    def deviation(self) -> float:
        """Standard deviation of each cell."""
        return self.noise * self.sensitivity

    def bounded(self, records: "Records") -> list[Table]:
        """Weighted counts, exact: one array per clique with one axis per column."""
        histories = getattr(records, "histories", None)
        if histories is None or histories.view != self.view:
            raise BadInput(
                "only all records of a schema with unit and order have histories, by the view that the schema makes"
            )
        sizes = self.view.sizes
        cells = histories.firsts if self.clip is None else histories.cells
        found = []
        for clique in self.cliques:
            shape = [sizes[name] for name in clique]
            place = history_view.cell(cells, clique, sizes)
            if self.clip is None:
                table = np.bincount(place, minlength=math.prod(shape)).astype(np.float64)
            else:
                weights = history_view.weights(histories.count, self.clip)[histories.owner]
                table = np.bincount(place, weights=weights, minlength=math.prod(shape)) / UNIT_WEIGHT
            found.append(table.reshape(shape))
        return found

    def noised(self, bounded: list[Table], noise: "Noise") -> list[Table]:
        """The noisy counts."""
        return noisy(bounded, self.deviation, noise)

    def movement(self, one: list[Table], other: list[Table]) -> float:
        """L2 distance of the stacked tables."""
        return apart(one, other)
