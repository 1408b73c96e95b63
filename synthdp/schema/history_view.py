"""What is counted of a unit's records in their order: columns that say what came before, and grids for numbers and gaps.

All of it follows from the schema, so it is public; the cells of one unit follow from that unit's records alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import linked_tables
from synthdp.schema.columns import MICROSECONDS, Boolean, Datetime
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec

Cells = Mapping[str, NDArray[np.int64]]
Whole = NDArray[np.int64]

NUMBER, PLACE, LEFT, FIRST, GAP = "number of records", "place", "records left", "first", "gap"
PACE, WEEKDAY = "pace", "weekday"
PREVIOUS, EARLIER = "previous ", "earlier "
LONGEST = 2  # times max_records_per_unit: the most records that a drawn unit has
EXACT_GAPS, MOST_GAPS = 8, 20  # gaps of so few steps are told apart; codes of gaps beside these
MOST_RECORDS = 10_000  # max_records_per_unit
MOST_LEFT = 2  # from which on records to come are no longer counted
MOST_EARLIER = 3  # from which on earlier records are no longer counted
TOLD = 4  # columns whose earlier values are counted where the schema has no target
UNIT_WEIGHT = 1 << 20
DAY, WEEK, THURSDAY = 86_400_000_000, 7, 3  # microseconds; the first day of 1970, counted from Monday


@dataclass(frozen=True)
class View:
    """The columns of a history and their numbers of codes, by the resolved schema.

    `unit` are the coded columns of the unit and `own` those of each record but for `order`, its targets last. Beside them stand:
    `number of records`; `place`, a record's place in its history; `records left`, how many follow it, 2 for more; `first`, the order
    column's code, or one more for later records;
    `gap` to the previous record, 0 for the first; `pace`, the gap by which the records that are left would reach the order column's upper
    bound; `weekday`; `previous c`, one more where there is none; and `earlier c`, how many
    earlier records have a value of a target, from 0 to 3 or more. `numbers` and `gaps` are the least values of their codes; numbers begin
    at 1, and of linked tables, where a unit may have no record, at 0.
    """

    order: str
    unit: tuple[str, ...]
    own: tuple[str, ...]
    target: str | None
    told: tuple[str, ...]  # columns whose earlier values are counted
    numbers: tuple[int, ...]
    gaps: tuple[int, ...]
    last: int  # the order column's upper bound, a point of its grid
    period: int  # microseconds per step of the order column, 0 where it is no date
    codes: tuple[tuple[str, int], ...]  # of the coded columns
    since: tuple[str, ...] = ()  # dates of the unit that no record is before, by rules that are kept
    until: tuple[str, ...] = ()  # and that none is after

    @classmethod
    def of(cls, codec: "Codec") -> "View":
        """Raises `BadInput` where the schema does not say in which order records stand, or ties their columns."""
        schema = codec.schema
        check(schema)
        codes = dict(zip(codec.names, codec.sizes, strict=True))
        order = str(schema.order)
        own = [name for name in codes if name not in schema.per_unit and name != order]
        targets = [name for name in schema.targets if name in own]
        flags = [name for name in own if isinstance(schema.column(name), Boolean)]
        told = [name for name in targets if codes[name] <= TOLD] or ([] if targets else flags[:TOLD])
        column, most = schema.column(order), schema.max_records_per_unit
        low, high = codec.numeric(order).span
        limits = [linked_tables.limit(schema, rule) for rule in schema.rules_apart()[0]] if schema.tables else []
        return cls(
            order=order,
            unit=tuple(name for name in codes if name in schema.per_unit),
            own=(*(name for name in own if name not in targets), *reversed(targets)),
            target=targets[0] if targets else None,
            told=tuple(told),
            numbers=tuple(range(0 if schema.tables else 1, most + 2)),
            gaps=grid(0, EXACT_GAPS, max(1, high - low), MOST_GAPS),
            last=high,
            period=MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 0,
            codes=tuple(codes.items()),
            since=tuple(limit[0] for limit in limits if limit is not None and limit[1]),
            until=tuple(limit[0] for limit in limits if limit is not None and not limit[1]),
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Codes of every column."""
        codes = dict(self.codes)
        sizes = {name: codes[name] for name in (*self.unit, *self.own)}
        sizes |= {
            NUMBER: len(self.numbers),
            PLACE: len(self.numbers) - self.numbers.index(1),
            LEFT: MOST_LEFT + 1,
            GAP: len(self.gaps) + 1,
            self.order: codes[self.order],
        }
        sizes |= {PACE: len(self.gaps) + 1, FIRST: codes[self.order] + 1, PREVIOUS + self.order: codes[self.order] + 1}
        sizes |= {WEEKDAY: WEEK} if self.period else {}
        sizes |= {PREVIOUS + name: codes[name] + 1 for name in self.own}
        return sizes | {f"{EARLIER}{name} {code}": MOST_EARLIER + 1 for name, code in self.counted}

    @property
    def counted(self) -> list[tuple[str, int]]:
        """Columns and codes whose earlier records are counted."""
        codes = dict(self.codes)
        return [(name, code) for name in self.told for code in range(1, codes[name])]

    @property
    def of_unit(self) -> tuple[str, ...]:
        """What is drawn of a unit, in order."""
        return (*self.unit, NUMBER)

    @property
    def drawn(self) -> tuple[str, ...]:
        """What is drawn of a record, in order: `first` of the first one and `gap` of all others."""
        return (FIRST, GAP, *self.own)

    def before(self, name: str) -> tuple[str, ...]:
        """What a drawn column is told by: the unit, the record's place, how many follow it, what this record has so far, and of the records
        before it the targets and the column itself; all columns tell a target."""
        if name == FIRST:
            return self.of_unit
        past = [PREVIOUS + each for each in self.own if name in (each, self.target) or each in self.told]
        past += [f"{EARLIER}{each} {code}" for each, code in self.counted]
        past = [*self.of_unit, PLACE, LEFT, *past]
        if name == GAP:
            return (*past, PREVIOUS + self.order, PACE)
        here = [GAP, self.order, *([WEEKDAY] if self.period else [])]
        return (*past, *here, *self.own[: self.own.index(name)])

    def number(self, count: Whole) -> Whole:
        """Codes of numbers of records."""
        found: Whole = np.searchsorted(self.numbers, count, side="right") - 1
        return found

    def place(self, place: Whole) -> Whole:
        """Codes of places, counted from 0."""
        return self.number(place + 1) - self.numbers.index(1)

    def cells(self, coded: NDArray[Any], points: Whole, owner: Whole) -> dict[str, Whole]:
        """The columns of every record, (records,) each: of records in order, unit by unit (`owner` ascends), with their codes and their
        order column's points."""
        names = [name for name, _ in self.codes]
        found = {
            name: np.asarray(coded[:, names.index(name)], np.int64) for name in (*self.unit, *self.own, self.order)
        }
        starts = np.searchsorted(owner, owner, side="left")
        place, number = np.arange(len(owner)) - starts, np.bincount(owner, minlength=1)[owner]
        sizes, later = self.sizes, place > 0
        for name in self.unit:  # the unit's first record tells
            found[name] = found[name][starts]
        before = np.maximum(np.arange(len(owner)) - 1, 0)
        for name in (*self.own, self.order):
            found[PREVIOUS + name] = np.where(later, found[name][before], sizes[PREVIOUS + name] - 1)
        for name, code in self.counted:
            held = found[name] == code
            so_far = np.cumsum(held) - held
            found[f"{EARLIER}{name} {code}"] = np.minimum(so_far - so_far[starts], MOST_EARLIER)
        found |= {NUMBER: self.number(number), PLACE: self.place(place)}
        found[LEFT] = np.minimum(number - place - 1, MOST_LEFT)
        found[FIRST] = np.where(later, sizes[FIRST] - 1, found[self.order])
        found[GAP] = np.where(later, self.gap(points - points[before]), 0)
        found[PACE] = np.where(later, self.pace(points[before], number - place), 0)
        return found | self.calendar(points)

    def gap(self, steps: Whole) -> Whole:
        """Codes of gaps to the previous record."""
        found: Whole = np.searchsorted(self.gaps, np.maximum(steps, 0), side="right")
        return found

    def pace(self, before: Whole, left: Whole) -> Whole:
        """Codes of the gaps by which so many records, this one among them, would reach the upper bound from the previous one."""
        return self.gap((self.last - before) // np.maximum(left, 1))

    def calendar(self, points: Whole) -> dict[str, Whole]:
        """The day of the week, where the order column is a date."""
        return {WEEKDAY: (points * self.period // DAY + THURSDAY) % WEEK} if self.period else {}


def check(schema: Schema) -> None:
    """Raise `BadInput` where a schema does not tell how records follow one another."""
    hindered = hindrance(schema)
    if hindered:
        raise BadInput(hindered)


def hindrance(schema: Schema) -> str:
    """Why records of a schema have no histories; empty where they have. A fit of another generator goes on without."""
    if schema.unit is None or schema.order is None:
        return "histories needs unit and order in the schema, which tell whose a record is and what came before it"
    if schema.image is not None:
        return "histories learns tables, and the schema has a column of images: use a generator of images"
    if not [column for column in schema.modelled if column.name not in (*schema.per_unit, schema.order)]:
        return "histories needs a column that is neither order nor per_unit; use generator=mixture without it"
    if schema.max_records_per_unit > MOST_RECORDS:  # each number has a code of its own
        return f"histories counts at most {MOST_RECORDS:,} records of a unit: lower max_records_per_unit"
    if schema.rules and not schema.tables and schema.settled().honoured:
        return "histories keeps no rules by construction: give honoured: [] in the schema, and evaluate counts how often they break"
    made = {NUMBER, PLACE, LEFT, FIRST, GAP, PACE, WEEKDAY}
    taken = [name for name in schema.names if name in made or name.startswith((PREVIOUS, EARLIER))]
    return f"column {taken[0]!r} has a name that histories gives to one of its own: rename it" if taken else ""


def grid(first: int, exact: int, last: int, most: int) -> tuple[int, ...]:
    """Whole numbers from `first`: each up to `exact`, then about `most` at growing distances up to `last`."""
    found = list(range(first, min(exact, last) + 1))
    growth = max(1.25, (last / max(1, exact)) ** (1 / most))
    step = float(max(1, exact))
    while step * growth < last:
        step = max(step * growth, step + 1)
        if step <= last:
            found.append(int(step))
    return tuple(found)


def cell(cells: Cells, clique: Sequence[str], sizes: Mapping[str, int]) -> Whole:
    """Which cell of a clique's table each record lies in, (records,)."""
    found = np.zeros(len(cells[clique[0]]), np.int64)
    for name in clique:
        found = found * sizes[name] + cells[name]
    return found


def weights(numbers: Whole, clip: float) -> Whole:
    """What a record of a unit with so many records weighs, in millionths (2^-20): a unit weighs at most `clip`, rounded down."""
    found: Whole = np.floor(np.minimum(1.0, clip / np.maximum(numbers, 1)) * UNIT_WEIGHT).astype(np.int64)
    return found
