"""Total variation distance of low-way marginals in fixed public cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from synthdp.evaluate.figures import beyond_chance
from synthdp.evaluate.tables import Axis, Table

Shares = NDArray[np.float64]
Values = Sequence[float] | Shares


BINS = 20
TRIPLES = 64
# Larger joint tables are counted over the cells that occur, which needs a sort instead of memory.
DENSE_CELLS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Cells:
    """codes: (rows, columns) int64, column j below sizes[j]; the last code of each column is the missing value."""

    codes: NDArray[np.int64]
    sizes: tuple[int, ...]


def cells_of(table: Table) -> Cells:
    """Categories as they are; numbers in 20 bins of equal width over the declared bounds (fewer for an integer of
    fewer values; values outside go to the end bins). Nothing depends on the rows."""
    codes = np.empty(table.values.shape, dtype=np.int64)
    sizes = []
    for i, axis in enumerate(table.axes):
        column = table.values[:, i]
        missing = np.isnan(column)
        size = cell_count(axis)
        found = np.where(missing, axis.low, column)
        if axis.kind == "number":
            found = np.clip(np.searchsorted(cell_edges(axis)[1:-1], found, side="right"), 0, size - 1)
        codes[:, i] = np.where(missing, size, found)
        sizes.append(size + 1)
    return Cells(codes=codes, sizes=tuple(sizes))


def cell_count(axis: Axis) -> int:
    """How many cells a column has, the missing value apart."""
    if axis.kind != "number":
        return len(axis.levels) + (axis.kind == "category")
    return min(BINS, int(axis.high - axis.low) + 1) if axis.whole else BINS


def cell_edges(axis: Axis) -> NDArray[np.float64]:
    """(cells + 1,): the edges of a number's cells. An integer of few values has a cell around each value."""
    size = cell_count(axis)
    if axis.whole and size == int(axis.high - axis.low) + 1:
        return np.arange(size + 1, dtype=np.float64) + (axis.low - 0.5)
    return np.linspace(axis.low, axis.high, size + 1)


def distance(left: Cells, right: Cells, columns: Sequence[int]) -> float:
    """Total variation distance, in [0, 1], of the joint marginal of columns: half the L1 distance of the shares."""
    a, b = (
        np.ravel_multi_index([cells.codes[:, c] for c in columns], [cells.sizes[c] for c in columns])
        for cells in (left, right)
    )
    size = int(np.prod([float(left.sizes[c]) for c in columns]))
    if size > DENSE_CELLS:
        both, place = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, size = place[: len(a)], place[len(a) :], len(both)
    shares = np.bincount(a, minlength=size) / len(a) - np.bincount(b, minlength=size) / len(b)
    return float(0.5 * np.abs(shares).sum())


def apart(synthetic: Shares, train: Shares, test: Shares) -> dict[str, float]:
    """Total variation distances of shares from those of the training records: of the synthetic and, beside them, of the held-out ones."""
    return {name: float(np.abs(each - train).sum() / 2) for name, each in (("tvd", synthetic), ("real", test))}


def sets_of(columns: int, ways: int, target: int | None) -> list[tuple[int, ...]]:
    """The column sets of one order: all of them; of triples 64 drawn at random (a fixed draw), with the target."""
    if ways < 3:
        return list(combinations(range(columns), ways))
    if target is None:
        every: list[tuple[int, ...]] = list(combinations(range(columns), 3))
    else:
        every = [(a, b, target) for a, b in combinations([c for c in range(columns) if c != target], 2)]
    if len(every) <= TRIPLES:
        return every
    chosen = np.random.default_rng(0).choice(len(every), size=TRIPLES, replace=False)
    return [every[i] for i in sorted(chosen)]


def total_variation(synthetic: Table, train: Table, test: Table, target: str | None) -> dict[str, Any]:
    """tvd_1way, tvd_2way and tvd_3way of the synthetic against the real training rows.

    Each {"mean", "sd", "n", "max"} over the column sets and "floor", the same of the held-out real rows as if they
    were synthetic: what sampling alone costs. Also "columns" (1-way) and "matrix" (2-way, columns x columns).
    """
    s, t, v = cells_of(synthetic), cells_of(train), cells_of(test)
    names, result = train.names, {}
    for ways in (1, 2, 3):
        sets = sets_of(len(names), ways, None if target is None else names.index(target))
        if not sets:
            continue
        values = [distance(s, t, columns) for columns in sets]
        entry = over_sets(values, [distance(v, t, columns) for columns in sets])
        if ways == 1:
            entry["columns"] = dict(zip(names, values, strict=True))
        if ways == 2:
            square, (rows, others) = np.zeros((len(names), len(names))), np.transpose(sets)
            square[rows, others] = square[others, rows] = values
            entry["names"], entry["matrix"] = names, square.tolist()
        result[f"tvd_{ways}way"] = entry
    return result


def over_sets(values: Values, floor: Values | None = None) -> dict[str, Any]:
    """Mean, spread, number and worst over column sets; and of the `floor`, the same sets of the held-out rows."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    found = {"mean": float(np.mean(values)), "sd": spread, "n": len(values), "max": float(np.max(values))}
    return found if floor is None else {**found, "floor": over_sets(floor)}


def no_rows(synthetic: Table, train: Table, test: Table) -> str | None:
    """Why nothing can be compared, where one of the sets is empty."""
    for role, table in (("synthetic", synthetic), ("real training", train), ("real test", test)):
        if not table.rows:
            return f"there are no {role} rows"
    return None


# ---- One-way marginals in the cells of the total variation distance: the figures behind the page's small multiples.


# More categories than this do not fit a small plot: the rest, by frequency in the training rows, is one cell.
MOST_SHOWN = 20
MISSING, UNKNOWN, REST = "(missing)", "(undeclared)", "(all others)"


def columns(synthetic: Table, train: Table, test: Table) -> dict[str, dict[str, Any]]:
    """Per column {"kind", "labels", "synthetic", "train", "test"}: shares of rows per cell, each set summing to 1.

    Numbers have "edges" too, one more than their cells; a last cell for missing or undeclared values is there only
    where a row of any set is in it.
    """
    parts = {"synthetic": cells_of(synthetic), "train": cells_of(train), "test": cells_of(test)}
    result: dict[str, dict[str, Any]] = {}
    for i, axis in enumerate(train.axes):
        size = parts["train"].sizes[i]
        shares = {
            role: np.bincount(cells.codes[:, i], minlength=size) / len(cells.codes) for role, cells in parts.items()
        }
        result[axis.name] = _column(axis, shares)
    return result


def _column(axis: Axis, shares: dict[str, np.ndarray[Any, np.dtype[np.float64]]]) -> dict[str, Any]:
    regular = cell_count(axis) if axis.kind == "number" else len(axis.levels)
    labels = _labels(axis, regular)
    extra = [cell for cell in range(regular, len(labels)) if any(share[cell] > 0 for share in shares.values())]
    keep = [*range(regular), *extra]
    rest: list[int] = []
    if axis.kind == "category":
        keep = sorted(keep, key=lambda cell: (cell in extra, -shares["train"][cell], cell))
        regulars = [cell for cell in keep if cell not in extra]
        rest = regulars[MOST_SHOWN:]
        keep = [cell for cell in keep if cell not in set(rest)]
    entry: dict[str, Any] = {"kind": "datetime" if axis.date else axis.kind, "labels": [labels[cell] for cell in keep]}
    if rest:
        entry["labels"].append(REST)
    for role, share in shares.items():
        tail = [float(share[rest].sum())] if rest else []
        entry[role] = [float(share[cell]) for cell in keep] + tail
    if axis.kind == "number":
        entry["edges"] = [float(edge) for edge in cell_edges(axis)]
    return entry


def _labels(axis: Axis, regular: int) -> list[str]:
    if axis.kind == "category":
        return [*axis.levels, UNKNOWN, MISSING]
    if axis.kind == "ordinal":
        return [*axis.levels, MISSING]
    edges = cell_edges(axis)
    if axis.date:
        days = [str(np.datetime64(0, "D") + np.timedelta64(int(edge), "D")) for edge in edges]
        return [*(f"{a} to {b}" for a, b in pairwise(days)), MISSING]
    if axis.whole and regular == int(axis.high - axis.low) + 1:
        return [*(f"{axis.low + k:.0f}" for k in range(regular)), MISSING]
    return [*(f"{plain(a)} to {plain(b)}" for a, b in pairwise(edges)), MISSING]


def plain(number: float) -> str:
    """A number as people read it: four digits, thousands grouped from 10,000 on."""
    if abs(number) < 1000 and number != round(number):
        return f"{number:.4g}"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:.0f}"  # 2010 may be a year


def clock(number: float, form: str) -> str:
    """A time of day, to the minute. number: seconds since midnight where the `form` of cells has them, else minutes."""
    hours, minutes = divmod(round(number / 60 if form.endswith("SS") else number), 60)
    return f"{hours:02d}:{minutes:02d}"


# ---- Wasserstein-1 distance of each numeric column: how far its values must move, on average, to become the real ones.


INNER = (0.05, 0.95)
# What a column's distance is divided by: the first of these that is above 0 in the real training rows.
SCALES = ("5 to 95 % range", "range", "declared bounds")


def wasserstein(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """{"mean", "sd", "n", "max"} over the numeric columns (datetimes too), "columns", "scales" and "floor"; and why not all.

    Each distance is in units of the 5 to 95 % range of the column's real training values: 1 means that values are off by
    about the whole spread of the data. Where that range is 0 (a column that is nearly always one value), it is the whole range,
    and where that is 0 too the declared one: "scales" says which. Missing values are left out on both sides
    (`missing.patterns` judges them); a column that is empty in all synthetic rows has distance 1. "floor" is the same of
    the real test rows as if they were synthetic.

    The second value is the reason for columns that could not be judged, or for None where there are none to judge. No table may be empty.
    """
    found: dict[str, float] = {}
    floor: list[float] = []
    scales: dict[str, str] = {}
    left_out: list[str] = []
    for i, axis in enumerate(train.axes):
        if axis.kind != "number":
            continue
        s, t, v = (column[~np.isnan(column)] for column in (x.values[:, i] for x in (synthetic, train, test)))
        scale, name = _scale(t, axis)
        if not (len(t) and len(v)) or scale <= 0:
            left_out.append(axis.name)
            continue
        found[axis.name], scales[axis.name] = float(wasserstein_distance(s, t)) / scale if len(s) else 1.0, name
        floor.append(float(wasserstein_distance(v, t)) / scale)
    if not found and not left_out:
        return None, "there is no numeric column"
    shortfall = (
        f"columns without known values, or without any spread even in their declared bounds: {', '.join(left_out)}"
        if left_out
        else None
    )
    if not found:
        return None, shortfall
    return {**over_sets([*found.values()], floor), "columns": found, "scales": scales}, shortfall


QUANTILES = (0.01, 0.5, 0.95, 0.99)


def numbers(synthetic: Table, train: Table, test: Table) -> dict[str, dict[str, Any]]:
    """For each numeric column (no dates) with values in synthetic and training rows: "real" and "synthetic", each the `QUANTILES`, then
    the mean; "beyond" and "held_out", the share of synthetic and of held-out values (None if there are none) below the least or above the
    greatest of the real training values, and "known", how many these are; and "constant", whether synthetic rows hold one value where real
    ones hold several."""
    found: dict[str, dict[str, Any]] = {}
    for i, axis in enumerate(train.axes):
        s, t, v = (column[~np.isnan(column)] for column in (x.values[:, i] for x in (synthetic, train, test)))
        if axis.kind != "number" or axis.date or not len(s) or not len(t):
            continue
        found[axis.name] = {
            **{
                name: [*(float(each) for each in np.quantile(values, QUANTILES)), float(values.mean())]
                for name, values in (("real", t), ("synthetic", s))
            },
            "beyond": float(((s < t.min()) | (s > t.max())).mean()),
            "held_out": float(((v < t.min()) | (v > t.max())).mean()) if len(v) else None,
            "known": len(t),
            "constant": bool(s.min() == s.max() and t.min() < t.max()),
        }
    return found


def _scale(real: NDArray[np.float64], axis: Axis) -> tuple[float, str]:
    if not len(real):
        return 0.0, ""
    low, high = np.quantile(real, INNER)
    spreads = (float(high - low), float(real.max() - real.min()), axis.high - axis.low)
    return next(((spread, name) for spread, name in zip(spreads, SCALES, strict=True) if spread > 0), (0.0, ""))


# ---- Weekdays and hours of dates, which no bin of a date shows: elective admissions are on weekdays, in the morning.


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST_DAY, SECONDS = 3, 86_400  # 1970-01-01 was a Thursday


def calendar(
    column: str, dates: Mapping[str, tuple[NDArray[np.float64], NDArray[np.int64]]], *, hours: bool
) -> Iterator[dict[str, Any]]:
    """How dates are spread over the week and, if they have `hours`, over the day. dates: of the synthetic, training and held-out records,
    in days since 1970, and whose each is.

    {"column", "of": "weekdays" or "hours", "tvd", "real", "part", "shares"}: total variation distances from the training records; and, in
    words, the day, weekend, hour or quarter of the day that is farthest off beyond chance, with its share of synthetic and of training
    dates. Both are empty where chance explains all. Nothing where a set has no date.
    """
    known = {role: (days[~np.isnan(days)], owner[~np.isnan(days)]) for role, (days, owner) in dates.items()}
    if not all(len(days) for days, _ in known.values()):
        return
    people = {role: len(np.unique(owner)) for role, (_, owner) in known.items()}
    week = [(f"on a {day}", [place]) for place, day in enumerate(DAYS)]
    clock_hours = [(f"between {hour:02d}:00 and {hour:02d}:59", [hour]) for hour in range(24)]
    quarters = [(f"between {hour:02d}:00 and {hour + 5:02d}:59", [*range(hour, hour + 6)]) for hour in range(0, 24, 6)]
    parts = {"weekdays": [*week, ("on a Saturday or Sunday", [5, 6])], "hours": [*clock_hours, *quarters]}
    for of in ("weekdays", "hours")[: 1 + hours]:
        shares = {}
        for role, (days, _) in known.items():
            seconds = np.round(days * SECONDS).astype(np.int64)
            code = (seconds // SECONDS + FIRST_DAY) % 7 if of == "weekdays" else seconds % SECONDS // 3600
            shares[role] = np.bincount(code, minlength=7 if of == "weekdays" else 24) / len(code)
        part, shown, farthest = "", list[float](), 0.0
        for words, places in parts[of]:
            made, real = (float(shares[role][places].sum()) for role in ("synthetic", "train"))
            if abs(made - real) > farthest and beyond_chance(made, people["synthetic"], real, people["train"]):
                part, shown, farthest = words, [made, real], abs(made - real)
        yield {
            "column": column,
            "of": of,
            **apart(*(shares[role] for role in ("synthetic", "train", "test"))),
            "part": part,
            "shares": shown,
        }


# ---- Which cells are missing together: the pattern of missing values as a distribution of its own.


def patterns(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """Total variation distance, in [0, 1], of the missing patterns; each row's pattern is the set of its missing columns.

    {"mean", "sd", "n", "max"} as of the other distances (here over one set: all columns, so mean is max), "floor" (the real test
    rows as if synthetic), "columns": |share missing in synthetic - in training rows| for each column with a missing
    value in any set, and "shares": those of (synthetic, train, test). 0 where no value is missing anywhere.
    No table may be empty.
    """
    s, t, v = (np.isnan(table.values) for table in (synthetic, train, test))
    names = train.names
    shares = {
        name: [float(x[:, i].mean()) for x in (s, t, v)]
        for i, name in enumerate(names)
        if s[:, i].any() or t[:, i].any() or v[:, i].any()
    }
    entry = over_sets([pattern_distance(s, t)], [pattern_distance(v, t)])
    entry["columns"] = {name: abs(share[0] - share[1]) for name, share in shares.items()}
    entry["shares"] = shares
    return entry, None


def pattern_distance(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """Half the L1 distance of the shares of each distinct row of two (rows, columns) masks with a row each at least."""
    both = np.packbits(np.concatenate([left, right]), axis=1)
    _, place = np.unique(both, axis=0, return_inverse=True)
    a, b = (np.bincount(x, minlength=int(place.max()) + 1) / len(x) for x in (place[: len(left)], place[len(left) :]))
    return float(0.5 * np.abs(a - b).sum())
