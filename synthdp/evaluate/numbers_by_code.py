"""Do numbers in rows below visits, such as laboratory values, lie where they should for each code, such as a test, and do they go with the
visit and the person as they should, such as with whether a patient died?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.evaluate.association import Rows, by_chance, invented, pair_of, ranked, with_first
from synthdp.evaluate.courses import unpivoted
from synthdp.evaluate.faithfulness import time_of_day
from synthdp.evaluate.fidelity import clock, plain
from synthdp.evaluate.figures import is_lost
from synthdp.evaluate.tables import BOOLEAN, Axis, axes_of, table_of
from synthdp.evaluate.tables import Table as Columns
from synthdp.schema import cells
from synthdp.schema.coders import Coder, coder_of
from synthdp.schema.columns import Continuous, Integer
from synthdp.schema.linked_tables import Table, ends, of_table
from synthdp.schema.schema import Schema

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


QUANTILES = (0.1, 0.5, 0.9)
MOST_CODES = 20  # those with the most real training rows
LEAST_ROWS = 50  # of a code in the training records: fewer rows, or fewer numbers, are no basis for quantiles
LEAST_NUMBERS = 10  # of a code in the synthetic or the held-out records
KNOWN = "whether {} is known"


def numbers_by_code(
    visits: Sequence[pd.DataFrame], table: Table, schema: Schema
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """For each number column of a table below visits, how its numbers lie within the codes that have the most training rows; and what
    could not be judged, with the reason. `visits` are the joined synthetic, training and held-out ones.

    {"column", "by", "distance", "real", "codes"}, and "time" for times of day (as in `fidelity.numbers`). Of each code "rows" and
    "missing" (the share of rows without a number) and "quantiles" (`QUANTILES`; None where there are too few numbers), each by "synthetic"
    and "train"; "distance", the mean over the quantiles of how far the synthetic one is from the training one, in units of the training
    numbers' range from the 10 % to the 90 % quantile; "real", the same of held-out records; and "outside", by "synthetic" and "test" the
    share of numbers that lie outside the whole range of the training numbers (None where there are too few numbers). The column's own
    "distance" and "real" are the means over its codes. They are None where they cannot be told.
    """
    own = of_table(schema, table)
    first = own.modelled[0]
    labels = tuple(map(str, getattr(first, "categories", ("false", "true"))))
    names = [column.name for column in own.modelled if isinstance(column, (Integer, Continuous))]
    if not names:
        return [], []
    three = [_held(frame, table, first.name, names, coder_of(first)) for frame in visits]
    counts = [np.bincount(codes, minlength=len(labels))[: len(labels)] for codes, _ in three]
    frequent = [int(place) for place in np.argsort(-counts[1], kind="stable")[:MOST_CODES]]
    frequent = [place for place in frequent if counts[1][place] >= LEAST_ROWS]
    if not frequent:
        reason = f"no code of {table.name}.{first.name} has {LEAST_ROWS} real training rows"
        return [], [{"metric": f"linked.numbers.{table.name}.{name}", "reason": reason} for name in names]
    found = []
    for name in names:
        codes = [
            {"code": labels[place], **_compared([numbers[name][codes == place] for codes, numbers in three])}
            for place in frequent
        ]
        form = time_of_day(schema, f"{table.name}.{name}")
        found.append(
            {
                "column": f"{table.name}.{name}",
                "by": f"{table.name}.{first.name}",
                **({} if form is None else {"time": form}),
                **{key: _mean([code[key] for code in codes]) for key in ("distance", "real")},
                "codes": codes,
            }
        )
    return found, []


def said(column: Mapping[str, Any], code: Mapping[str, Any], which: str) -> list[str]:
    """The quantiles of one code as people read them; none where there are too few numbers. which: "synthetic" or "train"."""
    form = column.get("time")
    return [plain(each) if form is None else clock(each, form) for each in code["quantiles"][which] or ()]


class Visits(NamedTuple):
    """The joined visits of a set, as a frame and as numbers, and whose each is."""

    frame: pd.DataFrame
    columns: Columns
    owner: Whole


class Below(NamedTuple):
    """Rows below visits, sorted by their codes, the first column; then come the other columns of the table, and those of the visit and the
    person. `owner` (rows,): whose each is."""

    columns: Columns
    owner: Whole

    def of(self, code: int, places: Sequence[int]) -> "Below":
        """These columns of the rows of a code."""
        rows = slice(*np.searchsorted(self.columns.values[:, 0], (code, code + 1)))  # noqa: PD011
        return Below(self.columns.take(rows).pick(places), self.owner[rows])


def related(sets: Mapping[str, Visits], schema: Schema) -> list[dict[str, Any]]:
    """How numbers below visits (synthetic, train and test) go, within each code, with the other columns of their row, with those of their
    visit and person, and with whether a date such as death is known: the associations that synthetic rows lost, and those that they
    invented.

    {"number", "by", "code", "with", "synthetic", "train", "test"}, and "by_chance" or "invented" where that is so (`association.by_chance`,
    `association.invented`). Pairs for which fewer than `LEAST_ROWS` training rows of the code have both values are left out.
    """
    pairs: list[dict[str, Any]] = []
    behind: list[tuple[Mapping[str, Below], int, list[int]]] = []
    for table in schema.tables[2:]:
        names = [
            f"{table.name}.{column.name}"
            for column in of_table(schema, table).modelled[1:]
            if isinstance(column, (Integer, Continuous))
        ]
        if not names:
            continue
        rows_of = _below(sets, table, schema)
        axes = rows_of["train"].columns.axes
        numbers = [place for place, axis in enumerate(axes) if axis.name in names and axis.kind == "number"]
        for number in numbers:
            places = [number, *(place for place in range(1, len(axes)) if place not in numbers or place > number)]
            for code, label in enumerate(axes[0].levels):
                part = {role: each.of(code, places).columns for role, each in rows_of.items()}
                known = ~np.isnan(part["train"].values)
                enough = (known & known[:, :1]).sum(axis=0) >= LEAST_ROWS
                if not enough[0]:
                    continue
                figures = {role: with_first(each) for role, each in part.items()}
                what = {"number": axes[number].name, "by": axes[0].name, "code": label}
                for at in np.flatnonzero(enough[1:]):
                    told = {role: float(each[at]) for role, each in figures.items()}
                    pairs.append({**what, "with": axes[places[at + 1]].name, **told})
                    behind.append((rows_of, code, [number, places[at + 1]]))

    def rows(place: int, role: str) -> Rows:
        rows_of, code, places = behind[place]
        columns, owner = rows_of[role].of(code, places)
        return pair_of(ranked(columns), 0, 1, owner)

    for place in invented(enumerate(pairs), rows):
        pairs[place]["invented"] = True
    for place in by_chance(enumerate(pairs), rows):
        pairs[place]["by_chance"] = True
    return [pair for pair in pairs if is_lost(pair) or "invented" in pair]


def _below(sets: Mapping[str, Visits], table: Table, schema: Schema) -> dict[str, Below]:
    """The rows of a table below the visits of each set."""
    own, tables = of_table(schema, table), tuple(f"{each.name}." for each in schema.tables[2:])
    names = [column.name for column in own.modelled]
    rows = {role: unpivoted(each.frame, table, names) for role, each in sets.items()}
    rows = {role: each[each[names[0]].notna()] for role, each in rows.items()}
    axes = axes_of(own, rows["train"])
    found = {}
    for role, (_, visits, owner) in sets.items():
        read = table_of(rows[role], axes, role).values  # noqa: PD011
        order = np.argsort(read[:, 0], kind="stable")
        visit = rows[role].index.to_numpy()[order]
        above = [place for place, name in enumerate(visits.names) if not name.startswith(tables)]
        dates = [name for name in ends(schema) if name in visits.names]
        every = (
            *(replace(axis, name=f"{table.name}.{axis.name}") for axis in axes),
            *(visits.axes[place] for place in above),
            *(Axis(name=KNOWN.format(name), kind="category", levels=BOOLEAN) for name in dates),
        )
        known = [~np.isnan(visits.column(name)[visit]) for name in dates]
        values = np.column_stack([read[order], visits.values[visit][:, above], *known])  # noqa: PD011
        found[role] = Below(Columns(axes=every, values=values), owner[visit])
    return found


def _held(
    frame: pd.DataFrame, table: Table, first: str, names: Sequence[str], coder: Coder
) -> tuple[Whole, dict[str, Numbers]]:
    """Of the rows below these visits that count the codes, and by column the numbers; NaN where one is missing."""
    rows = unpivoted(frame, table, [first, *names])
    there = rows[first].notna().to_numpy()
    numbers = {}
    for name in names:
        read = cells.numbers(rows[name][there])
        numbers[name] = np.where(read.missing | read.wrong, np.nan, np.asarray(read.cells, float))
    return coder.encode(rows[first][there]).astype(np.int64), numbers


def _compared(numbers: Sequence[Numbers]) -> dict[str, Any]:
    """Of one code: synthetic, training and held-out numbers."""
    synthetic, train, test = (each[~np.isnan(each)] for each in numbers)
    made, real, held_out = (
        _quantiles(each, least)
        for each, least in ((synthetic, LEAST_NUMBERS), (train, LEAST_ROWS), (test, LEAST_NUMBERS))
    )
    rows = {"synthetic": len(numbers[0]), "train": len(numbers[1])}
    known = {"synthetic": len(synthetic), "train": len(train)}
    return {
        "rows": rows,
        "missing": {name: 1 - known[name] / count if count else None for name, count in rows.items()},
        "quantiles": {"synthetic": made, "train": real},
        "distance": _distance(made, real, train),
        "real": _distance(held_out, real, train),
        "outside": {
            name: None if few is None or real is None else float(((each < train.min()) | (each > train.max())).mean())
            for name, few, each in (("synthetic", made, synthetic), ("test", held_out, test))
        },
    }


def _quantiles(numbers: Numbers, least: int) -> list[float] | None:
    return [float(each) for each in np.quantile(numbers, QUANTILES)] if len(numbers) >= least else None


def _distance(made: list[float] | None, real: list[float] | None, numbers: Numbers) -> float | None:
    """Where the range is 0, in units of the whole one; where all `numbers` are equal, in units of their size."""
    if made is None or real is None:
        return None
    low, middle, high = real
    units = (high - low, float(np.ptp(numbers)), abs(middle), 1.0)
    return float(np.abs(np.subtract(made, real)).mean() / next(unit for unit in units if unit > 0))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
