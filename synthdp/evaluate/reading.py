"""Frames to tables: the columns that all rows share and can be read, and why the others are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from synthdp.errors import BadInput
from synthdp.evaluate.attacks.case import Codes, unit_codes
from synthdp.evaluate.tables import SYNTHETIC, Axis, Table, axes_of, check_columns, table_of, unread_of
from synthdp.schema.schema import Schema

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
            read.append([_column(frame, axis) for frame in samples])
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


def _column(frame: pd.DataFrame, axis: Axis) -> Table:
    if axis.name not in frame.columns:
        raise BadInput(f"The synthetic rows lack the column {axis.name!r} of the schema.")
    return table_of(frame, [axis], SYNTHETIC)


def units_of(train: pd.DataFrame, test: pd.DataFrame, unit: str | None) -> Codes | None:
    """(rows,) codes of the patients of both frames; None where no column names them, or one of the frames lacks it."""
    if unit is None or unit not in train.columns or unit not in test.columns:
        return None
    return unit_codes(train, test, unit)
