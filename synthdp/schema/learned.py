"""Bought items enter the schema here. Total: whatever a noisy answer says becomes a column that holds together."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.schema.columns import (
    EXACT,
    LEARN,
    MICROSECONDS,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Integer,
    Numeric,
    iso,
    microseconds,
)

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

OTHER = "other"
FIRST, LAST = microseconds("0001-01-02"), microseconds("9999-12-30")


def supposed(schema: "Schema") -> "Schema":
    """The schema with something made up in the place of what is to be learned, for checks that hold whatever is learned."""
    for column in schema.columns:
        if isinstance(column, Categorical) and column.categories == LEARN:
            schema = schema.with_learned(column.name, categories=("a", "b"))
        elif isinstance(column, Integer | Continuous | Datetime):
            bounds = {"bounds": (0, 1)} if column.bounds == LEARN else {}
            bins = {"bins": ()} if column.bins == LEARN else {}
            schema = schema.with_learned(column.name, **bounds, **bins) if bounds or bins else schema
    return schema


def settle(column: Column, items: Mapping[str, Any]) -> Column:
    """The column with `items` (categories, bounds, bins) in the place of `learn`.

    Categories: a declared `other`, else the category "other", takes what the answer left out. Bounds: put in order,
    widened outward to the column's grid and to hold the atoms. Bins: edges put in order, clipped to the bounds.
    Datetimes take numbers: microseconds since 1970-01-01 UTC.
    """
    if isinstance(column, Categorical) and set(items) == {"categories"}:
        other = OTHER if column.other is None else column.other
        listed = tuple(dict.fromkeys(str(category) for category in items["categories"]))
        return replace(column, other=other, categories=listed if other in listed else (*listed, other))
    if isinstance(column, Integer | Continuous | Datetime) and items and set(items) <= {"bounds", "bins"}:
        if "bounds" in items:
            # Edges that wait for their bounds would be refused.
            bins = None if "bins" in items or isinstance(column.bins, tuple) else column.bins
            column = replace(column, bins=bins)
            column = _bounded(column, [0.0 if math.isnan(end) else float(end) for end in items["bounds"]])
        return _binned(column, items["bins"]) if "bins" in items else column
    raise BadInput(f"column {column.name!r} ({column.kind}): cannot learn {', '.join(items) or 'nothing'}")


def _bounded(column: Numeric, ends: list[float]) -> Numeric:
    low, high = min(ends), max(ends)
    if isinstance(column, Datetime):
        step = MICROSECONDS[column.resolution]
        low, high = (min(max(end, FIRST), LAST) for end in (low, high))
        return replace(column, bounds=(iso(math.floor(low / step) * step), iso(math.ceil(high / step) * step)))
    low, high = min(low, *column.atoms, high), max(high, *column.atoms, low)
    if isinstance(column, Integer):
        low, high = max(low, -EXACT), min(high, EXACT)
        return replace(column, bounds=(math.floor(min(low, EXACT)), math.ceil(max(high, -EXACT))))
    limit = 1e307 if column.decimals is None else EXACT / 4 / 10.0**column.decimals
    low, high = (min(max(end, -limit), limit) for end in (low, high))
    if column.decimals is not None:
        scale = 10.0**column.decimals
        low, high = math.floor(round(low * scale, 6)) / scale, math.ceil(round(high * scale, 6)) / scale
    return replace(column, bounds=(low, high))


def _binned(column: Numeric, edges: Iterable[float]) -> Numeric:
    if isinstance(column.bounds, str):
        raise BadInput(
            f"column {column.name!r}: its bins cannot be learned before its bounds; declare the bounds, or mark both learn"
        )
    if isinstance(column, Datetime):
        first, last = (microseconds(end) for end in column.bounds)
        instants = sorted({round(edge) for edge in edges if first < edge < last})
        return replace(column, bins=tuple(iso(edge) for edge in instants if first < edge < last) or 1)
    low, high = column.bounds
    return replace(column, bins=tuple(sorted({float(edge) for edge in edges if low < edge < high})) or 1)
