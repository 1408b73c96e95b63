"""What a schema leaves to be learned: its price as a plan, and the purchase through the seal."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from synthdp import accounting
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, Threshold, scoped
from synthdp.schema.columns import LEARN, Categorical, Column, Datetime, Integer, Numeric, microseconds
from synthdp.schema.schema import Schema
from synthdp.seal.questions import Question
from synthdp.seal.questions.domain import Domain
from synthdp.seal.questions.histogram import (
    SIGNED_POWERS,
    Grid,
    Numbers,
    clear,
    fine_edges,
    occupied,
    quantiles,
    tightened,
    widened,
)
from synthdp.seal.questions.size import Size

SHARE = 0.2  # of epsilon, for all that is learned together
DELTA_SHARE = 0.1  # of delta, for all thresholds together
BINS = 32  # quantile bins of a column whose bins are learned
MONTHS = tuple(
    float(microseconds(datetime(year, month, 1))) for year in range(1900, 2101) for month in range(1, 13)
)  # the public grid on which bounds of dates are looked for

Ask = Callable[[Question[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Purchase:
    """The noise and the threshold's delta that every bought item of one fit shares."""

    noise: float
    delta: float


class Asks(Protocol):
    """The sealed door, as far as buying needs it."""

    def ask(self, question: Question[Any]) -> Any: ...


def purchase(schema: Schema, budget: Budget, unit: str) -> Purchase:
    """The least noise at which all that is to learn costs at most SHARE of epsilon; fixed before any answer is seen."""
    thresholds = sum(isinstance(column, Categorical) and column.categories == LEARN for column in schema.columns)
    delta = DELTA_SHARE * budget.delta / max(1, thresholds)
    if not schema.learned and schema.units != LEARN:
        return Purchase(0.0, delta)
    part = Budget(budget.epsilon * SHARE, budget.delta, budget.relation)

    def plan(noise: float) -> Plan:
        return scoped(prices(schema, Purchase(noise, delta)), relation=budget.relation, unit=unit)

    return Purchase(accounting.calibrate(plan, part), delta)


def prices(schema: Schema, terms: Purchase) -> Plan:
    """The events that `resolve` will book, in its order."""
    entries: list[Entry] = []
    if schema.units == LEARN:
        entries.append(Entry(Gaussian(terms.noise)))
    for column in schema.columns:
        if isinstance(column, Categorical) and column.categories == LEARN:
            entries.append(Entry(Threshold(terms.noise, terms.delta, schema.max_records_per_unit)))
        elif isinstance(column, Numeric):
            entries += [Entry(Gaussian(terms.noise))] * grids(column)
    return tuple(entries)


def grids(column: Numeric) -> int:
    """How many grids a numeric column needs: a coarse one for bounds, a fine one for bins (and to tighten bounds)."""
    return 2 if column.bounds == LEARN else int(column.bins == LEARN)


def resolve(schema: Schema, terms: Purchase, data: Asks) -> Schema:
    """The schema with every `learn` item bought. Total: whatever the noisy answers say, a usable schema comes back."""
    resolved = schema
    if schema.units == LEARN:
        resolved = dataclasses.replace(schema, units=max(1, round(data.ask(Size(terms.noise)))))
    for column in schema.columns:
        items = _bought(column, schema.max_records_per_unit, terms, data.ask)
        if items:
            resolved = resolved.with_learned(column.name, **items)
    return resolved


def _bought(column: Column, most: int, terms: Purchase, ask: Ask) -> dict[str, Any]:
    if isinstance(column, Categorical) and column.categories == LEARN:
        found = ask(Domain(column.name, terms.noise, terms.delta, most))
        if not found:
            warnings.warn(
                f"column {column.name!r}: at this budget noise hides every category; declare the categories in the schema",
                stacklevel=2,
            )
        return {"categories": found}
    if isinstance(column, Numeric) and grids(column):
        return _bought_number(column, most, terms, ask)
    return {}


def _bought_number(column: Numeric, most: int, terms: Purchase, ask: Ask) -> dict[str, Any]:
    dates, integers = isinstance(column, Datetime), isinstance(column, Integer)
    bounds_too = column.bounds == LEARN
    if bounds_too:
        coarse = Grid(column.name, MONTHS if dates else SIGNED_POWERS, terms.noise, most, dates)
        seen: Numbers = ask(coarse)
        cells = clear(seen, coarse.deviation)
        if len(cells) == 0:
            warnings.warn(
                f"column {column.name!r}: at this budget noise hides the bounds; declare them in the schema",
                stacklevel=2,
            )
        low, high = occupied(coarse.edges, seen, coarse.deviation)
        low, high = widened(coarse.edges, low, high, seen, coarse.deviation)
        records = float(seen[cells].sum())
    else:
        low, high = (microseconds(end) if dates else float(end) for end in column.bounds)
    if integers:
        low, high = math.floor(low), math.ceil(high)
    fine = Grid(column.name, fine_edges(low, high, integers=integers), terms.noise, most, dates)
    counts: Numbers = ask(fine)
    items: dict[str, Any] = {}
    if bounds_too:
        low, high = tightened(fine.edges, counts, fine.deviation, records)
        counts = counts * [low <= edge < high for edge in fine.edges[:-1]]
        items["bounds"] = (
            low,
            max(low, high - 1) if integers else high,
        )  # a cell of integers ends before its upper edge
    if column.bins == LEARN or (bounds_too and column.bins is None):
        shares = [place / BINS for place in range(1, BINS)]
        edges = quantiles(fine.edges, counts, shares)
        items["bins"] = [float(round(edge)) for edge in edges] if integers else edges
    return items
