"""When the records of drawn histories, and the dates of rows below them, lie: between which points, and how often on each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals.conditional_fit import CLOSED, Conditional, drawn
from synthdp.generators.marginals.staying import LEAST_CHANCE
from synthdp.schema.codec import Codec
from synthdp.schema.columns import MICROSECONDS, Datetime
from synthdp.schema.history_view import AFTER, FIRST, NUMBER, WEEKDAY, View
from synthdp.schema.rows_below import Below

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
POINTS = "points of "  # dates below visits, as drawn
MOST_POINTS = 100_000  # of the order column's grid: with more, all points of a code are equally likely
LARGEST = 1 << 62  # no gap is larger
LEAST_SHARE = 1e-4  # of a point, against an even share
MOST_SHARE = 50.0  # of a point, against an even share
LEAST_ROOM = 1e-9  # of the time, for records to come
MOST_CROWDED = -300.0  # logarithm of the least chance that records to come leave to a gap


@dataclass(frozen=True)
class Spans:
    """Between which points of the order column all records of a unit lie, (units,) each, and for the dates of units that say so their
    points; `first` and `last` are the codes of the ends. The model keeps rules such as birth <= visit <= death by this. The last record
    of an `ended` unit lies at `high`, so that the time from it to death is the one that was drawn."""

    low: Whole
    high: Whole
    first: Whole
    last: Whole
    codes: int
    points: dict[str, Whole]
    gone: dict[str, NDArray[np.bool_]]
    limited: bool
    ended: NDArray[np.bool_]

    @classmethod
    def of(cls, view: View, codec: Codec, people: Mapping[str, Whole], rng: np.random.Generator) -> "Spans":
        """When records of these units may lie; dates of units that limit this are drawn here, unless `people` has their points."""
        order, units = codec.numeric(view.order), len(people[NUMBER])
        (low, high), points = (np.full(units, end) for end in order.span), dict[str, Whole]()
        missing: dict[str, NDArray[np.bool_]] = {}
        for name in dict.fromkeys((*view.since, *view.until, *view.ends)):
            coder, column = codec.numeric(name), codec.schema.column(name)
            inside, gone = coder.known(people[name].astype(np.int32))
            points[name] = people[POINTS + name] if POINTS + name in people else coder.draw(inside, rng)
            missing[name] = gone
            period = MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 0
            if name in view.since:
                low = np.where(gone, low, np.maximum(low, -(-points[name] * period // view.period)))
            if name in view.until:
                high = np.where(gone, high, np.minimum(high, points[name] * period // view.period))
        ended = np.zeros(units, np.bool_)
        if view.until and AFTER in people:
            ended = (people[AFTER] > 0) & (low <= high)
            at, ends = np.maximum(people[AFTER] - 1, 0), view.steps(points[view.until[0]])
            starts, after = np.array(view.gaps), np.array([*view.gaps[1:], LARGEST])
            most = np.where(ended, np.clip(ends - starts[at], low, high), high)
            least = np.where(ended, np.clip(ends - after[at] + 1, low, most), high)
            high = points[AFTER] = people[POINTS + AFTER] if POINTS + AFTER in people else rng.integers(least, most + 1)
        first, last = (np.asarray(order.coded(each), np.int64) for each in (low, high))
        limited = bool(view.since or view.until)
        return cls(low, high, first, last, view.sizes[view.order], points, missing, limited, ended)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Units for whose records there is no time."""
        return self.low > self.high

    def of_date(
        self, view: View, codec: Codec, below: Below, name: str, row: Mapping[str, Whole], visits: Whole, units: Whole
    ) -> tuple[Whole, Whole]:
        """The first and the last point that a date of each row may have, by its column's bounds and the orders that it keeps."""
        period = dict(below.periods)[name]
        low, high = (np.full(len(visits), end) for end in codec.numeric(f"{name} 1").span)
        for own, since, other in below.orders:
            if own != name:
                continue
            if other == view.order:
                at, gone = visits * view.period, np.zeros(len(visits), np.bool_)
            elif other in self.points:
                column = codec.schema.column(other)
                step = MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 0
                at, gone = self.points[other][units] * step, self.gone[other][units]
            elif POINTS + other in row and row[other].ndim == 1:  # of the same row, and drawn before
                at, gone = row[POINTS + other] * dict(below.periods)[other], row[other] >= view.sizes[other] - 1
            else:
                continue
            low = np.where(since & ~gone, np.maximum(low, -(-at // period)), low)
            high = np.where(~np.bool_(since) & ~gone, np.minimum(high, at // period), high)
        return low, high

    def closed(self, units: Whole) -> NDArray[np.bool_]:
        """(rows, codes): the order column's codes that lie outside, of these units."""
        codes = np.arange(self.codes)[None, :]
        if not self.limited:
            return np.zeros((len(units), self.codes), np.bool_)
        return (codes < self.first[units][:, None]) | (codes > self.last[units][:, None])


@dataclass(frozen=True)
class PointShares:
    """On which points records lie: shares of all points up to each one, of a unit's first records within a code and of later ones, by the
    least point; and the first point of each code."""

    low: int
    firsts: Array
    laters: Array
    starts: Whole

    @classmethod
    def of(cls, view: View, codec: Codec, seasons: Array, days: Array) -> "PointShares | None":
        """How often records lie on each point, by the shares of the order column's codes and of days of the week; None where there are too
        many points, or some that stand apart."""
        low, high = codec.numeric(view.order).span
        if high - low >= MOST_POINTS or len(codec.atoms(view.order)):
            return None
        points = np.arange(low, high + 1)
        codes = np.asarray(codec.numeric(view.order).coded(points), np.int64)
        shares = days[view.calendar(points)[WEEKDAY]] if view.period else np.ones(len(points))
        starts = low + np.searchsorted(codes, np.arange(len(seasons) + 1))
        return cls(low, np.append(0, shares.cumsum()), np.append(0, (shares * seasons[codes]).cumsum()), starts)

    def share(self, first: Whole, last: Whole, none: NDArray[np.bool_]) -> Array:
        """The mean share of the points from `first` to `last`, 0 where there are none."""
        ends, begin = np.where(none, 0, last + 1 - self.low), np.where(none, 0, first - self.low)
        found: Array = (self.laters[ends] - self.laters[begin]) / np.maximum(ends - begin, 1)
        return found

    def sum(self, first: Whole, last: Whole) -> Array:
        """The sum of the shares of the points from `first` to `last`."""
        found: Array = self.laters[last + 1 - self.low] - self.laters[first - self.low]
        return found

    def draw(self, first: Whole, last: Whole, rng: np.random.Generator) -> Whole:
        """A point from `first` to `last`, of a record that follows another."""
        return self._drawn(self.laters, first, last, rng)

    def start(self, codes: Whole, low: Whole, high: Whole, rng: np.random.Generator) -> Whole:
        """A point of each code from `low` to `high`, of a first record."""
        first, last = np.maximum(self.starts[codes], low), np.minimum(self.starts[codes + 1] - 1, high)
        return self._drawn(self.firsts, first, last, rng)

    def _drawn(self, shares: Array, first: Whole, last: Whole, rng: np.random.Generator) -> Whole:
        begin, end = shares[first - self.low], shares[last + 1 - self.low]
        found = np.searchsorted(shares, begin + (end - begin) * rng.random(len(first)), side="right") - 1 + self.low
        return np.clip(found, first, last)


def adjust_shares(share: Array, lacking: Array, here: Array, deviation: float) -> None:
    """Change the shares (codes,) of drawn records in place: `here` is how many were drawn on each code, weighted, and `lacking` how many
    more are wanted. Differences that noise of this deviation explains change nothing (James & Stein 1961). A step takes a share to almost
    nothing only where there is hardly any noise, since a share of nothing would not come back."""
    clear = max(0.0, 1 - len(share) * deviation**2 / max(1.0, float(lacking @ lacking)))
    there = np.maximum(here + clear * lacking, 0.0)
    share *= np.maximum(there + deviation, LEAST_SHARE) / np.maximum(here + deviation, 1)
    share /= np.average(share, weights=here + 1)
    np.clip(share, LEAST_SHARE, MOST_SHARE, out=share)


def crowded(room: Array, left: Whole) -> Array:
    """Logarithms of the chance that so many records, each anywhere, lie in a share of the time, (rows, codes)."""
    found: Array = np.maximum(left[:, None] * np.log(np.clip(room, LEAST_ROOM, 1)), MOST_CROWDED)
    return found


def first_offsets(on_points: PointShares | None, codes: int, low: Whole, high: Whole, left: Whole) -> Array:
    """(rows, codes): logarithms of the chance that `left` records, each anywhere from `low` to `high`, all come after a first one in each
    of the order column's codes; 0 if points have no shares."""
    if on_points is None:
        return np.zeros((len(left), codes))
    low, high = low[:, None], np.maximum(low, high)[:, None]
    first, last = np.maximum(on_points.starts[:-1], low), np.minimum(on_points.starts[1:] - 1, high)
    middle = np.clip(first + (last - first) // 2, low, high)
    return crowded(on_points.sum(middle, high) / np.maximum(on_points.sum(low, high), LEAST_SHARE), left)


def gap_offsets(on_points: PointShares | None, gaps: Sequence[int], points: Whole, high: Whole, left: Whole) -> Array:
    """(rows, codes): logarithms of how often a record lies where a gap of each code leads from these points, against an even share, times
    the chance that `left` more records, each anywhere from these points to `high`, all come after it. `CLOSED` for a gap that leads past
    `high`, and for the code that says there is no gap."""
    starts, ends = np.array(gaps)[None, :], np.array([*gaps[1:], LARGEST])[None, :]
    points, high = points[:, None], high[:, None]
    far = starts > high - points
    first, last = points + np.where(far, 0, starts), points + np.minimum(ends - 1, high - points)
    last = np.maximum(first, last)
    middle = first + (last - first) // 2
    if on_points is None:
        found, room = np.zeros(far.shape), (high - middle + 1) / (high - points + 1)
    else:
        found = np.log(np.maximum(on_points.share(first, last, far), LEAST_SHARE))
        room = on_points.sum(middle, high) / np.maximum(on_points.sum(points, high), LEAST_SHARE)
    found += crowded(room, left)
    return np.column_stack([np.full(len(points), CLOSED), np.where(far, CLOSED, found)])


def draw_first(
    conditional: Conditional,
    view: View,
    codec: Codec,
    on_points: PointShares | None,
    spans: Spans,
    units: Whole,
    cells: Mapping[str, Whole],
    left: Whole,
    rng: np.random.Generator,
) -> tuple[Whole, Whole]:
    """The order column's codes and points of the first records of these units; `left` more records follow each."""
    order, low, high = codec.numeric(view.order), spans.low[units], spans.high[units]
    offset = np.zeros((len(units), view.sizes[FIRST]))
    offset[:, :-1] = first_offsets(on_points, view.sizes[view.order], low, high, left)
    chances = conditional.probabilities(cells, view.sizes, offset)[:, :-1]
    codes = drawn(np.where(spans.closed(units), 0, np.maximum(chances, LEAST_CHANCE)), rng)
    if on_points is not None:
        return codes, on_points.start(codes, low, high, rng)
    if spans.limited:
        return codes, order.between(codes, low, high, rng)
    return codes, order.draw(codes.astype(np.int32), rng)


def draw_gap(
    conditional: Conditional,
    view: View,
    on_points: PointShares | None,
    points: Whole,
    high: Whole,
    cells: Mapping[str, Whole],
    left: Whole,
    rng: np.random.Generator,
) -> Whole:
    """How many steps after these points the next records lie; `left` more records follow each, up to `high`."""
    offset = gap_offsets(on_points, view.gaps, points, high, left)
    chances = np.maximum(conditional.probabilities(cells, view.sizes, offset), LEAST_CHANCE)
    codes = drawn(np.where(offset <= CLOSED, 0, chances), rng) - 1
    starts, ends = np.array(view.gaps), np.array([*view.gaps[1:], LARGEST])
    least, most = starts[codes], np.minimum(ends[codes] - 1, high - points)
    if on_points is None:
        return rng.integers(least, most + 1)
    return on_points.draw(points + least, points + most, rng) - points


def draw_date(
    conditional: Conditional,
    view: View,
    below: Below,
    name: str,
    row: Mapping[str, Whole],
    visits: Whole,
    low: Whole,
    high: Whole,
    rng: np.random.Generator,
) -> tuple[Whole, Whole]:
    """A code and a point, from `low` to `high`, for a date of each row; the code is -1 where there is no time for it."""
    starts, period = np.array(dict(below.starts)[name]), dict(below.periods)[name]
    base = visits * view.period // period
    least, most = starts[None, :] + base[:, None], np.append(starts[1:] - 1, LARGEST)[None, :]
    most = np.where(most < LARGEST, most + base[:, None], LARGEST)
    least[:, 0] = -LARGEST
    closed = np.maximum(least, low[:, None]) > np.minimum(most, high[:, None])  # also where low > high: no time at all
    closed = np.column_stack([closed, np.full(len(visits), name not in below.optional)])
    chances = np.maximum(conditional.probabilities(row, view.sizes), LEAST_CHANCE)
    codes = np.where(closed.all(1), -1, drawn(np.where(closed, 0, chances), rng)) if len(visits) else visits
    dated = (codes >= 0) & (codes < len(starts))
    at, every = np.where(dated, codes, 0), np.arange(len(visits))
    first, last = np.maximum(least[every, at], low), np.minimum(most[every, at], high)
    points = np.where(dated, rng.integers(np.where(dated, first, 0), np.where(dated, last, 0) + 1), 0)
    return codes, points


def never_after(view: View, codec: Codec, people: Mapping[str, Whole]) -> NDArray[np.bool_]:
    """(units,): whether a unit lacks the date that ends records, or has no record."""
    _, gone = codec.numeric(view.until[0]).known(people[view.until[0]].astype(np.int32))
    found: NDArray[np.bool_] = gone | (people[NUMBER] < view.numbers.index(1))
    return found


def draw_after(
    conditional: Conditional, view: View, codec: Codec, people: Mapping[str, Whole], rng: np.random.Generator
) -> Whole:
    """Codes of the time from the last record to the date that ends records."""
    never = never_after(view, codec, people)
    chances = np.maximum(conditional.probabilities(people, view.sizes), LEAST_CHANCE)
    chances[:, 0] = 0
    return np.where(never, 0, drawn(chances, rng))
