"""A person's whole history as one record, so that the attacks on records are attacks on people.

The columns are those of the person, the number of visits, the dates of the first and of the last one, the share of visits and of rows
below them that have each code, means of numbers, and the mean number of rows below a visit. A target is a column of its own at
the last visit, beside its shares before that, so that it can be guessed from the rest of the history.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.courses import Histories, own_axes, rows_below, run
from synthdp.evaluate.tables import BOOLEAN, Axis, Table
from synthdp.schema.history_view import LONGEST
from synthdp.schema.schema import Schema

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


MOST_SHARES = 16  # of one column; of more codes, neighbours in the order of their declaration share one
LAST = "last "


def of_people(people: Histories, schema: Schema) -> Table:
    """(people, columns) of one set; all sets of one schema have the same axes."""
    found = [*zip(people.people.axes, people.people.values.T, strict=True), *_visits(people, schema)]
    return Table(axes=tuple(axis for axis, _ in found), values=np.stack([column for _, column in found], axis=1))


def secrets(table: Table, targets: Sequence[str]) -> list[str]:
    """What these targets are called among a person's columns."""
    names = table.names
    return [found for name in targets for found in (name, LAST + name) if found in names]


def _visits(people: Histories, schema: Schema) -> Iterator[tuple[Axis, Numbers]]:
    table, owner, size = people.table, people.owner, people.people.rows
    number = np.bincount(owner, minlength=size)
    most = LONGEST * schema.max_records_per_unit
    yield Axis(name="number of visits", kind="number", low=0, high=most, whole=True), number.astype(np.float64)
    order = table.axes[table.index(str(schema.order))]
    for name, places in (("first", people.starts), ("last", people.ends)):
        yield replace(order, name=f"{name} {order.name}"), _placed(people.when[places], owner[places], size)
    earlier = np.ones(len(owner), np.bool_)
    earlier[people.ends] = False
    for axis in own_axes(schema, table.axes):
        values = table.column(axis.name)
        if axis.name not in schema.targets:
            yield from _means(axis, values, owner, size)
            continue
        last = _placed(values[people.ends], owner[people.ends], size)
        yield replace(axis, name=LAST + axis.name), last
        for each, column in _means(axis, values[earlier], owner[earlier], size):
            yield replace(each, name=f"earlier {each.name}"), column
    for below in schema.tables[2:]:
        rows = rows_below(people.frame, below)
        counts = rows.sum(axis=1).to_numpy(np.float64)
        yield from _means(Axis(name=f"rows of {below.name}", kind="number", high=rows.shape[1]), counts, owner, size)
        held = [(table.axes[table.index(name)], table.column(name)) for name in rows.columns if name in table.names]
        if held:
            codes, whose = np.concatenate([values for _, values in held]), np.tile(owner, len(held))
            there = ~np.isnan(codes)
            axis = replace(held[0][0], name=held[0][0].name.removesuffix(" 1"))
            yield from _means(axis, codes[there], whose[there], size)


def _means(axis: Axis, values: Numbers, owner: Whole, size: int) -> Iterator[tuple[Axis, Numbers]]:
    """The mean of a number over a person's rows, or the share of each class; missing where a person has no row."""
    if not axis.is_classes:
        known = ~np.isnan(values)
        yield axis, _mean(values[known], owner[known], size)
        return
    levels = len(axis.levels)
    codes = np.where(np.isnan(values), -1, run(np.nan_to_num(values).astype(np.int64), levels, MOST_SHARES))
    for code in range(min(levels, MOST_SHARES))[axis.levels == BOOLEAN :]:
        name = f"{axis.name} = {axis.levels[-(-code * levels // MOST_SHARES) if levels > MOST_SHARES else code]}"
        yield Axis(name=name, kind="number"), _mean((codes == code).astype(np.float64), owner, size)


def _mean(values: Numbers, owner: Whole, size: int) -> Numbers:
    number = np.bincount(owner, minlength=size)
    total = np.bincount(owner, weights=values, minlength=size)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _placed(values: Numbers, owner: Whole, size: int) -> Numbers:
    found = np.full(size, np.nan)
    found[owner] = values
    return found
