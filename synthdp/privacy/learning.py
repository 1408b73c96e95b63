"""What a schema leaves to be learned: its price as a plan, and the purchase through the seal."""

import dataclasses
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np

from synthdp.data.schema import LEARN, Categorical, Column, Continuous, Datetime, Integer, Schema
from synthdp.privacy import accounting
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import Entry, Gaussian, Plan, Threshold, scoped
from synthdp.privacy.questions import Question
from synthdp.privacy.questions.domain import Domain
from synthdp.privacy.questions.grid import SIGNED_POWERS, TAIL, Grid, Numbers, fine_edges, occupied, quantiles
from synthdp.privacy.questions.size import Size

SHARE = 0.2  # of epsilon, for all that is learned together
DELTA_SHARE = 0.1  # of delta, for all thresholds together
BINS = 32  # quantile bins of a column whose bins are learned
MONTHS = tuple(
    datetime(year, month, 1, tzinfo=UTC).timestamp() for year in range(1900, 2101) for month in range(1, 13)
)  # the public grid on which bounds of dates are looked for

Numeric = Integer | Continuous | Datetime


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
    if not schema.learned:
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
    """The schema with every `learn` item bought."""
    units = schema.units
    if units == LEARN:
        units = max(1, round(data.ask(Size(terms.noise))))
    columns = tuple(_bought(column, schema, terms, data.ask) for column in schema.columns)
    return dataclasses.replace(schema, units=units, columns=columns)


def _bought(column: Column, schema: Schema, terms: Purchase, ask: Callable[[Question[Any]], Any]) -> Column:
    most = schema.max_records_per_unit
    if isinstance(column, Categorical) and column.categories == LEARN:
        found = ask(Domain(column.name, terms.noise, terms.delta, most))
        # A column of which nothing passed still needs a category to stand for its values.
        known = found or ("other",)
        if column.other is not None and column.other not in known:
            known = (*known, column.other)
        return dataclasses.replace(column, categories=known)
    if isinstance(column, Numeric) and grids(column):
        return _bought_number(column, most, terms, ask)
    return column


def _bought_number(column: Numeric, most: int, terms: Purchase, ask: Callable[[Question[Any]], Any]) -> Column:
    dates, integers = isinstance(column, Datetime), isinstance(column, Integer)
    whole = column.bounds == LEARN
    if whole:
        coarse = Grid(column.name, MONTHS if dates else SIGNED_POWERS, terms.noise, most, dates)
        low, high = occupied(coarse.edges, ask(coarse), coarse.deviation)
        if integers:
            low, high = math.floor(low), math.ceil(high)
    else:
        low, high = _declared(column)
    grid = Grid(column.name, fine_edges(low, high, integers=integers), terms.noise, most, dates)
    counts: Numbers = ask(grid)
    if whole:
        low, high = quantiles(grid.edges, counts, (TAIL, 1 - TAIL))
        if integers:
            low, high = math.floor(low), math.ceil(high)
        if not high > low:
            high = low + 1
    bins: Any = column.bins
    if column.bins == LEARN or (whole and column.bins is None):
        shares = np.linspace(0, 1, BINS + 1)[1:-1]
        inner = quantiles(grid.edges, counts, list(shares))
        bins = tuple(sorted({edge for edge in (_rounded(value, integers) for value in inner) if low < edge < high}))
        bins = (low, *bins, high)
    bounds: Any = (_moment(low), _moment(high)) if dates else (int(low), int(high)) if integers else (low, high)
    if dates and isinstance(bins, tuple):
        bins = tuple(_moment(edge) for edge in bins)
    return dataclasses.replace(column, bounds=bounds, bins=bins)


def _declared(column: Numeric) -> tuple[float, float]:
    low, high = column.bounds
    if isinstance(column, Datetime):
        return datetime.fromisoformat(str(low)).replace(tzinfo=UTC).timestamp(), datetime.fromisoformat(
            str(high)
        ).replace(tzinfo=UTC).timestamp()
    return float(low), float(high)


def _rounded(value: float, integers: bool) -> float:
    return float(round(value)) if integers else value


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None).isoformat(timespec="seconds")
