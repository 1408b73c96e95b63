"""Frames as plain arrays that all metrics share: one float64 matrix, level codes for categories, NaN for missing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import LEARN, OTHER, microseconds
from synthdp.schema.schema import Column, Schema
from synthdp.schema.trees import Tree

# From so many rows on, a column without one known category is taken for another coding and not for bad luck.
ENOUGH_ROWS = 10
SECONDS_PER_DAY = 86_400.0
BOOLEAN = ("False", "True")
UNLISTED = "(not listed)"
SYNTHETIC = "synthetic"
FEW_UNREAD = (
    0.05  # of a real column's cells: so many that cannot be read are faults of the records, more are another coding
)
CLAMPING = " If the fit took such cells as missing (invalid=clamp), name its release: release=FOLDER."
Codes = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
TRUE, FALSE = {"true", "yes", "t", "y", "1"}, {"false", "no", "f", "n", "0"}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One column as the metrics see it.

    kind: `category` (codes into levels; len(levels) stands for any value outside them), `ordinal` (codes whose
    order matters) or `number` (as is; datetimes in days since 1970). low and high are the declared bounds; values
    outside them stay. other: the word that a fit writes for categories that are not listed. Real values that are not listed have a
    level of their own (`UNLISTED`), so that what the fit merged counts as wrong.
    """

    name: str
    kind: Literal["category", "ordinal", "number"]
    levels: tuple[str, ...] = ()
    other: str | None = None
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    date: bool = False
    tree: Tree | None = None  # above the levels: a word belongs to the finest level on its chain

    @property
    def is_classes(self) -> bool:
        """Whether a classifier can predict this column."""
        return self.kind != "number"


@dataclass(frozen=True, kw_only=True)
class Table:
    """values: (rows, columns) float64, one column per axis; codes are stored as floats so that NaN is missing."""

    axes: tuple[Axis, ...]
    values: NDArray[np.float64]

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def names(self) -> list[str]:
        return [axis.name for axis in self.axes]

    def index(self, name: str) -> int:
        return self.names.index(name)

    def column(self, name: str) -> NDArray[np.float64]:
        return self.values[:, self.index(name)]

    def without(self, name: str) -> Self:
        return self.pick([i for i, axis in enumerate(self.axes) if axis.name != name])

    def pick(self, columns: Sequence[int] | NDArray[np.int64]) -> Self:
        return replace(self, axes=tuple(self.axes[i] for i in columns), values=self.values[:, columns])

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        return replace(self, values=self.values[rows])


def axes_of(schema: Schema, train: pd.DataFrame) -> tuple[Axis, ...]:
    """The axes of a schema: identifiers and the unit column are left out.

    An item that is still marked `learn` is read off the real training rows: allowed here, for all of this is internal.
    """
    columns = [column for column in schema.modelled if column.name != schema.unit]
    check_columns(train, [column.name for column in columns], "real training")
    return tuple(_axis(column, train) for column in columns)


def table_of(frame: pd.DataFrame, axes: Sequence[Axis], role: str) -> Table:
    """The frame's columns as one matrix; columns that are not in the schema are left out.

    Raises BadInput where a column is missing or cannot be read as its kind. role words the message: `synthetic`.
    """
    check_columns(frame, [axis.name for axis in axes], role)
    values = np.empty((len(frame), len(axes)), dtype=np.float64)
    for i, axis in enumerate(axes):
        series = frame[axis.name]
        values[:, i] = _numbers(series, axis, role) if axis.kind == "number" else _codes(series, axis, role)
    return Table(axes=tuple(axes), values=values)


def check_columns(frame: pd.DataFrame, names: Sequence[str], role: str) -> None:
    if not frame.columns.is_unique:
        raise BadInput(f"The {role} rows have two columns of the same name; rename or drop one of them.")
    absent = [name for name in names if name not in frame.columns]
    if absent:
        some = ", ".join(repr(name) for name in absent[:5]) + (", ..." if len(absent) > 5 else "")
        raise BadInput(
            f"The {role} rows lack {len(absent)} of the schema's {len(names)} columns: {some}. "
            "Synthetic, training and test rows must share one schema."
        )


def _axis(column: Column, train: pd.DataFrame) -> Axis:
    name, kind = column.name, column.kind
    if kind == "boolean":
        return Axis(name=name, kind="category", levels=BOOLEAN)
    if kind in ("categorical", "ordinal"):
        declared, other = getattr(column, "categories", LEARN), getattr(column, "other", None)
        if declared == LEARN:
            levels, other = tuple(words_of(train[name])), other or OTHER
        else:
            levels = (*declared, *(() if other is None else (UNLISTED,)))
        ordinal: Literal["category", "ordinal"] = "ordinal" if kind == "ordinal" else "category"
        return Axis(name=name, kind=ordinal, levels=levels, other=other, tree=getattr(column, "tree", None))
    date = kind == "datetime"
    bounds = getattr(column, "bounds", LEARN)
    if bounds == LEARN:
        known = _numbers(train[name], Axis(name=name, kind="number", date=date), "real training")
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    else:
        low, high = (microseconds(end) / 1e6 / SECONDS_PER_DAY if date else float(end) for end in bounds)
    if kind == "integer" and high - low == 1:  # two values, such as 0 and 1, are classes in all but name
        return Axis(name=name, kind="category", levels=(str(int(low)), str(int(high))))
    return Axis(name=name, kind="number", low=low, high=high, whole=kind == "integer", date=date)


def words_of(*columns: pd.Series) -> list[str]:
    """The distinct values of columns as the schema writes them, sorted and without missing ones."""
    return sorted({text for column in columns for value in column.unique() if (text := cells.text(value))})


def _codes(series: pd.Series, axis: Axis, role: str) -> NDArray[np.float64]:
    place = {level: float(code) for code, level in enumerate(axis.levels)}
    unknown = float(len(axis.levels)) if axis.kind == "category" else np.nan
    if UNLISTED in place and role != SYNTHETIC:
        unknown = place[UNLISTED]
    numbers, distinct = pd.factorize(series, use_na_sentinel=True)
    words = [cells.text(value) or "" for value in distinct]
    if axis.levels == BOOLEAN:
        words = [BOOLEAN[word.lower() in TRUE] if word.lower() in TRUE | FALSE else word for word in words]
    if axis.tree is not None:
        words = [axis.tree.finest(word, place) or word for word in words]
    known = np.array([place.get(word, unknown) for word in words] + [np.nan])
    # A column that noise left nothing of is all `other`: it is judged, and wrong.
    found = UNLISTED in place or any(word in place or word == axis.other for word in words)
    if len(distinct) and not found and (numbers >= 0).sum() >= ENOUGH_ROWS:
        raise BadInput(
            f"Column {axis.name!r} of the {role} rows has none of the {len(axis.levels)} categories that the schema declares. Use "
            "the schema that the rows were made with."
        )
    return known[numbers]  # the sentinel -1 reads the last entry: NaN


def unread_of(frame: pd.DataFrame, axes: Sequence[Axis], role: str) -> dict[str, str]:
    """By column of real rows, how many cells `table_of` takes as missing because they cannot be read."""
    found = {}
    for axis in axes:
        unread = int(_unread(frame[axis.name], _parsed(frame[axis.name], axis)).sum()) if axis.kind == "number" else 0
        if unread:
            kind = "date" if axis.date else "number"
            found[axis.name] = (
                f"{unread:,} of {len(frame):,} {role} rows hold something else than a {kind}: it counts as missing"
            )
    return found


def clamped(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Real rows as a fit with invalid=clamp took them: cells that cannot be read as numbers or dates are missing."""
    kinds = {column.name: column.kind for column in schema.modelled if column.name in frame.columns}
    axes = [
        Axis(name=name, kind="number", date=kind == "datetime")
        for name, kind in kinds.items()
        if kind in ("integer", "continuous", "datetime")
    ]
    unread = {axis.name: _unread(frame[axis.name], _parsed(frame[axis.name], axis)) for axis in axes}
    return frame.assign(**{name: frame[name].mask(wrong) for name, wrong in unread.items() if wrong.any()})


def _unread(series: pd.Series, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isnan(values) & series.notna().to_numpy()


def _parsed(series: pd.Series, axis: Axis) -> NDArray[np.float64]:
    """NaN where a cell is missing or cannot be read."""
    if axis.date:
        parsed = pd.to_datetime(series, errors="coerce", format="ISO8601")
        if getattr(parsed.dtype, "tz", None) is not None:
            parsed = parsed.dt.tz_convert(None)
        seconds = parsed.to_numpy(dtype="datetime64[us]").astype(np.int64).astype(np.float64) / 1e6
        return np.where(parsed.isna().to_numpy(), np.nan, seconds / SECONDS_PER_DAY)
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan).copy()


def _numbers(series: pd.Series, axis: Axis, role: str) -> NDArray[np.float64]:
    values = _parsed(series, axis)
    unread = int(_unread(series, values).sum())
    if unread > (0 if role == SYNTHETIC else FEW_UNREAD * int(series.notna().sum())):
        kind = "dates" if axis.date else "numbers"
        raise BadInput(
            f"Column {axis.name!r} of the {role} rows: {unread} of {len(series)} values are not {kind}, although the schema "
            "declares that kind. Correct the column or its kind in the schema."
            f"{CLAMPING * (role != SYNTHETIC)}"
        )
    values[~np.isfinite(values)] = np.nan
    return np.asarray(values, dtype=np.float64)


def target_of(name: str, axes: Sequence[Axis], schema: Schema) -> Axis:
    """The axis of that name. Raises BadInput for a column that nothing can predict."""
    for axis in axes:
        if axis.name == name:
            return axis
    column = schema.column(name, "targets")  # raises for a name that the schema does not know
    raise BadInput(f"targets: {name!r} is a column of kind {column.kind}, which nothing can predict; name another.")


def unit_codes(train: pd.DataFrame, test: pd.DataFrame, name: str) -> Codes:
    """(rows,) codes of the unit column of both frames, the same for the same unit; a missing one is a unit of its own."""
    # As words, for 7 in one file may be "7" or, beside a missing one, 7.0 in the other.
    words = pd.concat([frame[name].convert_dtypes().astype("string") for frame in (train, test)])
    codes = pd.factorize(words)[0]
    own = np.where(codes < 0, len(codes) + np.arange(len(codes)), codes).astype(np.int64)
    return own[: len(train)], own[len(train) :]


# ---- All tables of one evaluation: the columns that all rows share and can be read, and why the others are left out.


CHANCE = 0.05  # of the held-out rows: as many more than of the training rows may equal a training row by chance
LEFT_OUT = "it is left out of every metric"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The tables of one evaluation, all with the same axes. units: (rows,) codes of the patients of the training and of
    the test rows, where the schema names them and both frames hold them. log: columns that were left out."""

    samples: tuple[Table, ...]
    train: Table
    test: Table
    units: Codes | None
    log: tuple[dict[str, str], ...]

    @property
    def overlap(self) -> dict[str, Any] | None:
        """How many of the held-out units are training units too; without units, of the rows, where rows alike are more than chance
        explains. None where the parts are apart."""
        if self.units is not None:
            fitted, held = (np.unique(codes) for codes in self.units)
            shared = int(np.isin(held, fitted).sum())
            return {"of": "units", "shared": shared, "all": len(held)} if shared else None
        train, test = (np.nan_to_num(part.values, nan=-np.inf) for part in (self.train, self.test))
        codes, sizes = np.unique(np.concatenate([train, test]), axis=0, return_inverse=True, return_counts=True)[1:]
        own = np.bincount(codes[: len(train)], minlength=len(sizes))
        found, twins = own[codes[len(train) :]] > 0, own[codes[: len(train)]] > 1
        if not len(train) or not len(test) or found.mean() <= twins.mean() + CHANCE:
            return None
        return {"of": "rows", "shared": int(found.sum()), "all": len(test)}

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.train.axes

    @property
    def three(self) -> tuple[Table, Table, Table]:
        """The first synthetic sample, training and test rows."""
        return self.samples[0], self.train, self.test


def parts_of(
    samples: Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    given: Sequence[pd.DataFrame] = (),
) -> Parts:
    """Read everything; `given` are training and test rows before clamping, if they were clamped. Raises BadInput where the real rows do not
    fit the schema, or no synthetic column does."""
    axes = axes_of(schema, train)
    check_columns(test, [axis.name for axis in axes], "real test")
    for frame in samples:
        check_columns(frame, [], "synthetic")
    read: list[list[Table]] = []
    kept, log = [], []
    for axis in axes:
        try:
            for frame in samples:
                if axis.name not in frame.columns:
                    raise BadInput(f"The synthetic rows lack the column {axis.name!r} of the schema.")
            read.append([table_of(frame, [axis], SYNTHETIC) for frame in samples])
            kept.append(axis)
        except BadInput as error:
            log.append({"metric": f"columns.{axis.name}", "reason": f"{error} So {LEFT_OUT}."})
    if axes and not kept:
        raise BadInput(
            f"The synthetic rows have none of the schema's {len(axes)} columns in a readable form. Synthetic, training and test "
            "rows must share one schema."
        )
    for frame, role in zip(given or (train, test), ("real training", "real test"), strict=True):
        log += [{"metric": f"unread.{name}", "reason": reason} for name, reason in unread_of(frame, kept, role).items()]
    made = [[np.empty((len(frame), 0)), *(tables[i].values for tables in read)] for i, frame in enumerate(samples)]  # noqa: PD011
    return Parts(
        samples=tuple(Table(axes=tuple(kept), values=np.concatenate(each, axis=1)) for each in made),
        train=table_of(train, kept, "real training"),
        test=table_of(test, kept, "real test"),
        units=units_of(train, test, schema.unit),
        log=tuple(log),
    )


def units_of(train: pd.DataFrame, test: pd.DataFrame, unit: str | None) -> Codes | None:
    """(rows,) codes of the patients of both frames; None where no column names them, or one of the frames lacks it."""
    if unit is None or unit not in train.columns or unit not in test.columns:
        return None
    return unit_codes(train, test, unit)
