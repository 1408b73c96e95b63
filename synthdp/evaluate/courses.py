"""What people look at in histories: a few timelines, which type of visit follows which, and sequences of three visits.

A visit is a record of the table that has an `order`, and a person its unit. The type of a visit is one of its columns, by a rule that reads
the schema alone (`Types.of`), so that the figures of several releases can be compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.evaluate.association import Rows, agreement, associations, by_chance, enough, invented, pair_of, ranked
from synthdp.evaluate.fidelity import apart
from synthdp.evaluate.figures import beyond_chance
from synthdp.evaluate.tables import BOOLEAN, Axis, Table, table_of, unit_codes
from synthdp.schema.linked_tables import Table as Linked
from synthdp.schema.linked_tables import ends as ends_of
from synthdp.schema.linked_tables import limit, places_of
from synthdp.schema.schema import Schema

Whole = NDArray[np.int64]
Numbers = NDArray[np.float64]


MOST_TYPES = 8  # of more codes, neighbours in the order of their declaration are one type
TIMELINES = 10
COMMON = 8  # orders of three visits, or codes, that are listed
AGES, YEAR = (18, 40, 60, 80), 365.25  # years at which another band of ages begins; days
MOST_LOST = 5  # associations of two columns from visit to visit that are listed
LEAST_PEOPLE = 20  # of a band of ages, or with a value that ends histories, in each set: with fewer it is left out
FINAL = 0.02  # most of the people with a value who have a later visit, if the value ends histories
MISSING = "missing"
GAP = Axis(name="gap", kind="number")  # from a visit to the next one


@dataclass(frozen=True, kw_only=True, eq=False)
class Histories:
    """One set of records. `frame` are its visits, person by person in their order, and `table` the same as the metrics see them; `owner`
    (visits,) is whose each is, a place in `people`, where everybody has one row, also without a visit. `when` (visits,) it was: days
    since 1970 for dates. `names` is the unit column of `people`."""

    frame: pd.DataFrame
    table: Table
    owner: Whole
    people: Table
    names: pd.DataFrame
    when: Numbers

    @classmethod
    def of(
        cls, frame: pd.DataFrame, there: NDArray[np.bool_], schema: Schema, axes: Sequence[Axis], role: str
    ) -> "Histories":
        """`there` tells which rows are visits; the others stand for people without any. The axes hold the order column."""
        order = str(schema.order)
        owner = np.unique(unit_codes(frame, frame.iloc[:0], str(schema.unit))[0], return_inverse=True)[1]
        whole, visits = table_of(frame, axes, role), np.flatnonzero(there)
        visits = visits[np.lexsort((whole.column(order)[visits], owner[visits]))]
        first = np.unique(owner, return_index=True)[1]
        own = [place for place, axis in enumerate(axes) if axis.name in schema.per_unit]
        table = whole.take(visits)
        return cls(
            frame=frame.iloc[visits].reset_index(drop=True),
            table=table,
            owner=owner[visits].astype(np.int64),
            people=whole.take(first).pick(own),
            names=frame[[str(schema.unit)]].iloc[first],
            when=table.column(order),
        )

    @property
    def starts(self) -> Whole:
        """Where the visits of each person who has any begin."""
        return np.flatnonzero(np.diff(self.owner, prepend=-1))

    @property
    def ends(self) -> Whole:
        """The last visit of each person who has any."""
        return np.append(self.starts[1:], len(self.owner)) - 1 if len(self.owner) else self.starts

    def runs(self, codes: Whole, length: int) -> Whole:
        """(runs, length): the codes of so many visits of a person that follow one another."""
        count = max(0, len(codes) - length + 1)
        same = self.owner[:count] == self.owner[len(codes) - count :]
        found: Whole = np.stack([codes[step : step + count] for step in range(length)], axis=1)[same]
        return found


@dataclass(frozen=True, kw_only=True)
class Types:
    """How the types of visits are told apart: by a column, and under which names."""

    axis: Axis
    labels: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, axes: Sequence[Axis]) -> "Types | None":
        """The first categorical column of visits that is no target, else the first ordinal or boolean one, else a target; None where there
        is none. More than 8 codes are joined into 8 runs in the declared order."""
        found = [axis for axis in own_axes(schema, axes) if axis.is_classes]
        if not found:
            return None
        axis = min(
            found, key=lambda axis: (axis.name in schema.targets, axis.levels == BOOLEAN, axis.kind == "ordinal")
        )
        size = min(len(axis.levels), MOST_TYPES)
        of = [
            [level for place, level in enumerate(axis.levels) if run(place, len(axis.levels)) == each]
            for each in range(size)
        ]
        labels = [levels[0] if len(levels) == 1 else f"{levels[0]} to {levels[-1]}" for levels in of]
        return cls(axis=axis, labels=(*labels, axis.other or "not listed", MISSING))

    def codes(self, table: Table) -> Whole:
        """(rows,) the type of each."""
        values, levels = table.column(self.axis.name), len(self.axis.levels)
        known = np.where(np.isnan(values), 0, values).astype(np.int64)
        size = len(self.labels)
        found = np.where(known < levels, run(known, levels), size - 2)
        return np.where(np.isnan(values), size - 1, found)


def run(place: Any, levels: int, most: int = MOST_TYPES) -> Any:
    """Which of at most `most` runs of equal length a level belongs to."""
    return place if levels <= most else place * most // levels


def own_axes(schema: Schema, axes: Sequence[Axis]) -> list[Axis]:
    """The axes of a visit itself: not those of its person, of the order or of rows below it."""
    below = tuple(f"{table.name}." for table in schema.tables[2:])
    return [
        axis
        for axis in axes
        if axis.name not in (*schema.per_unit, schema.order) and not (below and axis.name.startswith(below))
    ]


def ages(people: Histories, schema: Schema) -> Whole | None:
    """(people,) the band of each person's age at the first visit, -1 where it is not known. Age is counted from the first date of
    people that, by a rule, no visit precedes, such as that of birth. None where there is no such date."""
    found = [limit(schema, rule) for rule in schema.rules]
    births = [each[0] for each in found if each is not None and each[1] and each[0] in people.people.names]
    if not births:
        return None
    years = np.full(people.people.rows, np.nan)
    whose = people.owner[people.starts]
    years[whose] = (people.when[people.starts] - people.people.column(births[0])[whose]) / YEAR
    return np.where(np.isnan(years), -1, np.searchsorted(AGES, np.nan_to_num(years), side="right"))


def rows_below(frame: pd.DataFrame, table: Linked) -> pd.DataFrame:
    """Which of the places of a table below visits hold a row, (visits, places)."""
    first = next(name for name in frame.columns if name.startswith(f"{table.name}.") and name.endswith(" 1"))
    return frame[places_of(table, first.partition(".")[2].removesuffix(" 1"))].notna()


def unpivoted(frame: pd.DataFrame, table: Linked, names: Sequence[str]) -> pd.DataFrame:
    """Columns of a table below these visits, by their own names: a row for each place of a visit, even if empty; the index is the visit."""
    frame = frame.reset_index(drop=True)
    return pd.DataFrame({name: pd.concat([frame[place] for place in places_of(table, name)]) for name in names})


def judge(sets: Mapping[str, Histories], schema: Schema, types: Types | None) -> dict[str, Any]:
    """`timelines` of ten synthetic people; for each table below visits, the shares of people who `ever` had each code, also by age; and,
    by `types` of visits, the shares of (type, next type) in `steps` and of three types in a row in `orders`. `onward` says how columns are
    associated with those of the next visit, and `final` after which values real people have no visit. `sets` are synthetic, train and test.
    Beside shares are total variation distances from the training people: of the synthetic people and, as "real", of the held-out ones.
    What nobody has enough visits for is None."""
    found: dict[str, Any] = {"timelines": timelines(sets["synthetic"], schema, types)}
    bands = {name: band for name, each in sets.items() if (band := ages(each, schema)) is not None}
    found["ever"] = [each for below in schema.tables[2:] for each in ever(sets, below, bands)]
    found["onward"] = onward(sets, own_axes(schema, sets["train"].table.axes))
    found["final"] = list(final(sets, own_axes(schema, sets["train"].table.axes)))
    if types is None:
        return found
    size, codes = len(types.labels), {name: types.codes(each.table) for name, each in sets.items()}
    used = [code for code in range(size) if any((each == code).any() for each in codes.values())]
    shares = {length: _shares(sets, codes, size, length) for length in (2, 3)}
    coarse = len(types.axis.levels) > MOST_TYPES
    found["types"] = {"column": types.axis.name, "labels": [types.labels[code] for code in used], "coarse": coarse}
    steps, orders = shares[2], shares[3]
    found["steps"] = steps and {
        **apart(*steps.values()),
        "shares": {name: each.reshape(size, size)[np.ix_(used, used)].tolist() for name, each in steps.items()},
    }
    found["orders"] = orders and {**apart(*orders.values()), "common": list(_common(orders, types.labels))}
    return found


def onward(sets: Mapping[str, Histories], axes: Sequence[Axis]) -> dict[str, Any] | None:
    """How each column of a visit is associated with each column of the next one (see `association`): mean distances from the training
    people over all pairs, and `pairs` {"last", "present", "synthetic", "train", "test"}: each column with itself, then at most five others
    that lost 0.1 or more, not by chance, and five that are `invented`, among them those of a column with the `GAP` to the next visit.
    `same`, of a column with itself: how often both values are equal, beyond chance. Columns that are constant among training people are
    left out, and pairs that are not `enough` have 0. None where none is left, or where a set has no visit that follows another."""
    from synthdp.evaluate.figures import is_clearly_lost, kept

    varied = [axis for axis in axes if len(np.unique(_present(sets["train"].table.column(axis.name)))) > 1]
    tables: dict[str, Table] = {}
    owners: dict[str, Whole] = {}
    for name, each in sets.items():
        later = np.flatnonzero(np.diff(each.owner) == 0) + 1
        if not len(later) or not varied:
            return None
        own = np.stack([each.table.column(axis.name) for axis in varied], 1)
        gaps = (each.when[later] - each.when[later - 1])[:, None]
        tables[name] = Table(axes=(*varied, *varied, GAP), values=np.hstack([own[later - 1], own[later], gaps]))
        owners[name] = each.owner[later]
    known = enough(tables["train"])
    held = {name: (associations(both) * known)[: len(varied), len(varied) :] for name, both in tables.items()}
    names = [axis.name for axis in varied]
    columns = {name: each[:, :-1] for name, each in held.items()}
    pairs: list[dict[str, Any]] = [
        {"last": last, "present": present, **{name: float(each[row, column]) for name, each in held.items()}}
        for row, last in enumerate(names)
        for column, present in enumerate([*names, GAP.name])
    ]
    order = {name: ranked(each) for name, each in tables.items()}

    def rows(place: int, role: str) -> Rows:
        return pair_of(order[role], place // (len(names) + 1), len(names) + place % (len(names) + 1), owners[role])

    for place in by_chance(enumerate(pairs), rows):
        pairs[place]["by_chance"] = True
    same, others = ([pair for pair in pairs if (pair["last"] == pair["present"]) is of] for of in (True, False))
    lost = sorted(filter(is_clearly_lost, others), key=lambda pair: kept(pair["train"], pair["synthetic"]))[:MOST_LOST]
    found = [pairs[place] for place in invented(enumerate(pairs), rows)]
    for pair in found:
        pair["invented"] = True
    for i, pair in enumerate(same):
        equal = {
            role: _equal(each.values[:, [i, len(names) + i]], owners[role])  # noqa: PD011
            for role, each in tables.items()
        }
        pair["same"] = repeated(equal)
    return {
        "mean": float(np.abs(columns["synthetic"] - columns["train"]).mean()),
        "real": float(np.abs(columns["test"] - columns["train"]).mean()),
        "pairs": [*same, *lost, *[pair for pair in found if pair["last"] != pair["present"]][:MOST_LOST]],
    }


def final(sets: Mapping[str, Histories], axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    """The values of visits after which hardly any real people have a later visit, and fewer than chance explains, such as a discharge by
    death: {"column", "value", "people"}, the number of people with the value in each set, and the share of them with a later visit by set.
    Values with fewer than `LEAST_PEOPLE` people in a set are left out."""
    later = {
        name: each.when < np.repeat(each.when[each.ends], each.ends - each.starts + 1) for name, each in sets.items()
    }
    people_of_all = len(sets["train"].ends)
    share_of_all = len(np.unique(sets["train"].owner[later["train"]])) / max(1, people_of_all)
    for axis in (axis for axis in axes if axis.is_classes):
        size, counts = len(axis.levels), {}
        for name, each in sets.items():
            value = each.table.column(axis.name)
            known = value < size  # not what is missing
            both = [value[rows].astype(np.int64) + size * each.owner[rows] for rows in (known, known & later[name])]
            counts[name] = [np.bincount(np.unique(pairs) % size, minlength=size) for pairs in both]
        for place, level in enumerate(axis.levels):
            people = {name: int(each[0][place]) for name, each in counts.items()}
            if min(people.values()) < LEAST_PEOPLE:
                continue
            shares = {name: float(each[1][place] / people[name]) for name, each in counts.items()}
            if max(shares["train"], shares["test"]) <= FINAL and beyond_chance(
                shares["train"], people["train"], share_of_all, people_of_all
            ):
                yield {"column": axis.name, "value": level, "people": people, **shares}


def repeated(sets: Mapping[str, Rows]) -> dict[str, Any]:
    """A figure of each set, and whether that of synthetic rows is `invented`, or was lost `by_chance`."""
    told: dict[str, Any] = {name: rows.value for name, rows in sets.items()}
    if invented([("", told)], lambda _, role: sets[role]):
        told["invented"] = True
    if by_chance([("", told)], lambda _, role: sets[role]):
        told["by_chance"] = True
    return told


def _equal(both: Numbers, owner: Whole) -> Rows:
    """How often the present value, the second one, is the last one. By chance it is as often as the last one is among all present ones."""
    known = ~np.isnan(both).any(1)
    last, present = both[known].T
    held, counts = np.unique(present, return_counts=True)
    at = np.minimum(np.searchsorted(held, last), max(len(held) - 1, 0))
    chance = np.where(held[at] == last, counts[at] / max(1, len(present)), 0.0) if len(held) else np.zeros(0)
    return agreement(last == present, chance, owner[known])


def _present(values: Numbers) -> Numbers:
    return values[~np.isnan(values)]


def _shares(
    sets: Mapping[str, Histories], codes: Mapping[str, Whole], size: int, length: int
) -> dict[str, Numbers] | None:
    found = {}
    for name, each in sets.items():
        runs = each.runs(codes[name], length)
        if not len(runs):
            return None
        place = runs @ (size ** np.arange(length)[::-1])
        found[name] = np.bincount(place, minlength=size**length) / len(runs)
    return found


def _common(orders: Mapping[str, Numbers], labels: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The most frequent orders of the training people."""
    for place in np.argsort(-orders["train"], kind="stable")[:COMMON]:
        if orders["train"][place] > 0:
            types = np.unravel_index(int(place), (len(labels),) * 3)
            yield {"types": [labels[int(each)] for each in types], **{k: float(v[place]) for k, v in orders.items()}}


def ever(sets: Mapping[str, Histories], below: Linked, bands: Mapping[str, Whole]) -> Iterator[dict[str, Any]]:
    """For a table below visits, unless it was left out: the shares of people who ever have a row of each code, the largest distance
    from the training people of the synthetic ones and, as "real", of the held-out ones, and the most frequent codes; and the same
    `by_age`, where `bands` tell it of each set."""
    had: dict[str, NDArray[np.bool_]] = {}
    levels: tuple[str, ...] = ()
    column = ""
    for name, each in sets.items():
        places = [place for place in rows_below(each.frame, below) if place in each.table.names]
        if not places:
            return
        axis = each.table.axes[each.table.index(places[0])]
        levels, column = axis.levels, axis.name.removesuffix(" 1")
        held = np.zeros((each.people.rows, len(levels) + 1), np.bool_)
        for place in places:
            codes = each.table.column(place)
            there = ~np.isnan(codes)
            held[each.owner[there], codes[there].astype(np.int64)] = True
        had[name] = held[:, : len(levels)]
    shares = {name: held.mean(axis=0) if len(held) else np.zeros(len(levels)) for name, held in had.items()}
    frequent = np.argsort(-shares["train"], kind="stable")[:COMMON]
    yield {
        "column": column,
        **_farthest(shares),
        "codes": [{"code": levels[place], **{k: float(v[place]) for k, v in shares.items()}} for place in frequent],
        "by_age": _by_age(had, bands, levels, [int(place) for place in frequent]),
    }


def _farthest(shares: Mapping[str, Numbers]) -> dict[str, float]:
    return {
        "distance": float(np.abs(shares["synthetic"] - shares["train"]).max()),
        "real": float(np.abs(shares["test"] - shares["train"]).max()),
    }


def _by_age(
    had: Mapping[str, NDArray[np.bool_]], bands: Mapping[str, Whole], levels: Sequence[str], frequent: Sequence[int]
) -> dict[str, Any] | None:
    """Of each band of ages with enough people, the shares of the `frequent` codes; and, of all codes and bands, those `farthest` from the
    training people, beyond held-out ones and beyond chance. None where there is no such band."""
    if len(bands) < len(had):
        return None
    kept = [band for band in range(len(AGES) + 1) if all((of == band).sum() >= LEAST_PEOPLE for of in bands.values())]
    if not kept:
        return None
    shares = {name: np.stack([held[bands[name] == band].mean(axis=0) for band in kept]) for name, held in had.items()}
    ends = [f"under {AGES[0]}", *(f"{low} to {high - 1}" for low, high in pairwise(AGES)), f"{AGES[-1]} and over"]

    def row(place: int, at: int) -> dict[str, Any]:
        told = {name: float(each[at, place]) for name, each in shares.items()}
        return {"code": levels[place], "ages": ends[kept[at]], **told}

    people = {name: np.array([[int((of == band).sum())] for band in kept]) for name, of in bands.items()}
    beyond = np.abs(shares["synthetic"] - shares["train"]) - np.abs(shares["test"] - shares["train"])
    beyond *= beyond_chance(shares["synthetic"], people["synthetic"], shares["train"], people["train"])
    farthest = np.argsort(-beyond, axis=None, kind="stable")[:COMMON]
    pairs = [divmod(int(place), beyond.shape[1]) for place in farthest if beyond.flat[place] > 0]
    return {
        **_farthest(shares),
        "farthest": [row(place, at) for at, place in pairs],
        "rows": [row(place, at) for place in frequent for at in range(len(kept))],
    }


def timelines(made: Histories, schema: Schema, types: Types | None) -> list[dict[str, Any]]:
    """The first ten synthetic people who have a visit: for each visit its time, its type and the number of rows below it in each table; and
    the person's dates that no visit is after."""
    date = made.table.axes[made.table.index(str(schema.order))].date
    codes = np.zeros(len(made.when), np.int64) if types is None else types.codes(made.table)
    rows = {table.name: rows_below(made.frame, table).sum(axis=1).to_numpy() for table in schema.tables[2:]}
    found = []
    for start, end in zip(made.starts[:TIMELINES], made.ends[:TIMELINES], strict=True):
        visits = [
            {
                "at": _told(made.when[place], date),
                **({} if types is None else {"type": types.labels[codes[place]]}),
                "rows": {name: int(counts[place]) for name, counts in rows.items() if counts[place]},
            }
            for place in range(start, end + 1)
        ]
        person = made.people.take(made.owner[[start]])
        held = {name: float(person.column(name)[0]) for name in ends_of(schema) if name in person.names}
        ends = {name: _told(value, True) for name, value in held.items() if not np.isnan(value)}
        found.append({"visits": visits, "ends": ends})
    return found


def _told(at: float, date: bool) -> str | float:
    return str(np.datetime64(round(at * 86_400), "s").astype("datetime64[D]")) if date else float(at)
