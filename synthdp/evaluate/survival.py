"""Kaplan-Meier curves of histories: how long after the first visit an event comes, among synthetic and among real people.

Kaplan & Meier 1958 (JASA 53, 457-481). An event is a date of people, such as death, or a condition on visits or on rows below them, such as
a diagnosis: the first visit at which it holds. Whoever has no event is followed to the last visit; where the event is a date, which is
known without a visit too, to the end of the order column's bounds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput, nearest
from synthdp.evaluate.courses import Histories
from synthdp.schema.columns import LEARN, Categorical, Column, Datetime
from synthdp.schema.linked_tables import ends, learned_of, once, places_of, whole
from synthdp.schema.rule_rows import broken
from synthdp.schema.rule_text import parse
from synthdp.schema.rules import Never, Rule
from synthdp.schema.schema import Schema

Numbers = NDArray[np.float64]


LEAST_PEOPLE = 20  # with a visit, in each set
LEAST_AT_RISK = 10  # curves are compared up to where so few are followed in one of the sets
POINTS = 100  # of a curve that is drawn
TICKS = 4  # at which people at risk are counted
OPTION = "evaluate.survival"
EXAMPLE = "give a date of people, such as person.death, or a condition, such as {diagnosis.code: E11}"


@dataclass(frozen=True, kw_only=True)
class Event:
    """`date`: a date of people; else `held`, rules that a visit breaks where the event happens at it, one for each place below it."""

    label: str
    date: str | None = None
    held: tuple[Rule, ...] = ()


def events_of(given: Sequence[Any] | None, schema: Schema) -> tuple[Event, ...]:
    """What is followed: as given, by default the dates of people that no visit is after by a rule. A condition is one of the schema's
    rules: it maps columns to a value, a list of values or inequalities, all of which hold in one row. Raises `BadInput`."""
    if schema.order is None:
        if given:
            raise BadInput(
                f"{OPTION} needs histories, but the schema has no order, which says what follows a first record"
            )
        return ()
    dated = isinstance(schema.column(schema.order), Datetime)
    if given is None:
        return tuple(Event(label=name, date=name) for name in ends(schema)) if dated else ()
    return tuple(_event(item, schema, dated) for item in given)


def _event(item: Any, schema: Schema, dated: bool) -> Event:
    if not isinstance(item, str | Mapping) or not item:
        raise BadInput(f"{OPTION}: {item!r} is not an event; {EXAMPLE}")
    below = {f"{table.name}.{name}": table for table in schema.tables[2:] for name in learned_of(schema, table)}
    placed = {place for name, table in below.items() for place in places_of(table, name.partition(".")[2])}
    known = [*(name for name in schema.names if name not in placed), *below]
    if unknown := [name for name in ([item] if isinstance(item, str) else item) if name not in known]:
        raise BadInput(f"{OPTION}: {unknown[0]!r} is not one of the columns{nearest(str(unknown[0]), known)}")
    if isinstance(item, str):
        if item not in schema.per_unit or not isinstance(schema.column(item), Datetime) or not dated:
            raise BadInput(f"{OPTION}: {item!r} is not a date of people, or visits have no dates; {EXAMPLE}")
        return Event(label=item, date=item)
    tables = {below[name].name: below[name] for name in item if name in below}
    if len(tables) > 1:
        raise BadInput(f"{OPTION}: {' and '.join(tables)}: a condition can use columns of only one table below visits")
    places = 1 + max((int(table.max_rows or 1) for table in tables.values()), default=1)
    try:
        (said,) = parse([{"never": dict(item)}], [column for column, _ in once(schema)], known)
    except BadInput as error:
        why = re.sub(r"^schema: rule .*?(\}\}| \.\.\.): ", "", str(error))
        raise BadInput(f"{OPTION}: {why}") from None
    rules = [
        parse(
            [{"never": {f"{name} {at}" if name in below else name: wanted for name, wanted in item.items()}}],
            schema.columns,
            known,
        )[0]
        for at in range(1, places)
    ]
    for term in rules[0].terms if isinstance(rules[0], Never) else ():
        codes = _declared(schema.column(term.column))
        unknown = [] if codes is None else [str(code) for code in term.constants if code not in codes]
        if unknown:
            where = f"column {whole(schema, term.column)!r}"
            raise BadInput(
                f"{OPTION}: {where}: {unknown[0]!r} is not one of its categories{nearest(unknown[0], codes or ())}"
            )
    return Event(label=said.text.removeprefix("never "), held=tuple(rules))


def _declared(column: Column) -> Sequence[str] | None:
    """The values that cells of a categorical column may hold. None if they are not declared, or if the column is of another kind or has a
    tree; a rule checks the codes of a tree itself."""
    if not isinstance(column, Categorical):
        return None
    return None if column.categories == LEARN or column.tree is not None else column.categories


def followed(people: Histories, event: Event, schema: Schema) -> tuple[Numbers, NDArray[np.bool_]]:
    """(people with a visit,) twice: how long each is followed from the first visit, and whether the event ended that."""
    starts, ends = people.starts, people.ends
    begin = people.when[starts]
    if event.date is not None:
        order = people.table.axes[people.table.index(str(schema.order))]
        at = people.people.column(event.date)[people.owner[starts]]
        happened = ~np.isnan(at) & (at <= order.high)
        return np.maximum(np.where(happened, at, order.high) - begin, 0.0), happened
    hit = np.logical_or.reduce([broken(rule, people.frame, schema) for rule in event.held])
    first = np.minimum.reduceat(np.where(hit, np.arange(len(hit)), len(hit)), starts)
    happened = first < len(hit)
    return people.when[np.where(happened, first, ends)] - begin, happened


class Curve(NamedTuple):
    """`alive` is the share without the event from each of `times` on; `lengths` ascend."""

    times: Numbers
    alive: Numbers
    lengths: Numbers

    def at(self, when: Numbers) -> Numbers:
        """The share without the event."""
        return np.append(1.0, self.alive)[np.searchsorted(self.times, when, side="right")]

    def at_risk(self, when: Numbers) -> NDArray[np.int64]:
        """How many are followed until then, or longer."""
        return len(self.lengths) - np.searchsorted(self.lengths, when, side="left")


def curve(lengths: Numbers, happened: NDArray[np.bool_]) -> Curve:
    """The product-limit estimate."""
    ordered = np.sort(lengths)
    times, deaths = np.unique(lengths[happened], return_counts=True)
    at_risk = len(ordered) - np.searchsorted(ordered, times, side="left")
    return Curve(times, np.cumprod(1 - deaths / np.maximum(at_risk, 1)).astype(np.float64), ordered)


def judge(
    sets: Mapping[str, Histories], events: Sequence[Event], schema: Schema
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """For each event the curves of synthetic and of held-out people, their largest distance and, as "real", that between held-out and
    training people, up to where ten are at risk in each set; people at risk at four times; and numbers of events. Also what could not
    be computed."""
    found: list[dict[str, Any]] = []
    lacking: list[dict[str, str]] = []
    for event in events:
        metric = f"survival.{event.label}"
        try:
            pairs = {name: followed(each, event, schema) for name, each in sets.items()}
        except (BadInput, ValueError) as error:
            lacking.append({"metric": metric, "reason": str(error)})
            continue
        fewest = min(len(lengths) for lengths, _ in pairs.values())
        if fewest < LEAST_PEOPLE:
            reason = f"one of the sets has {fewest} people with a visit; at least {LEAST_PEOPLE} are needed"
            lacking.append({"metric": metric, "reason": reason})
            continue
        found.append({"event": event.label, "at_visits": event.date is None, **_compared(pairs)})
    return found, lacking


def _compared(pairs: Mapping[str, tuple[Numbers, NDArray[np.bool_]]]) -> dict[str, Any]:
    curves = {name: curve(*pair) for name, pair in pairs.items()}
    until = min(float(each.lengths[-LEAST_AT_RISK]) for each in curves.values())
    when = np.unique(np.concatenate([[0.0], *(each.times for each in curves.values())]))
    when = when[when <= until]

    def apart(one: str, other: str) -> float:
        return float(np.abs(curves[one].at(when) - curves[other].at(when)).max())

    drawn, ticks = np.linspace(0, until, POINTS + 1), np.linspace(0, until, TICKS)
    shown = {name: curves[name] for name in ("synthetic", "test")}
    return {
        "until": until,
        "distance": apart("synthetic", "test"),
        "real": apart("train", "test"),
        "people": {name: len(each.lengths) for name, each in curves.items()},
        "events": {name: int(happened.sum()) for name, (_, happened) in pairs.items()},
        "curves": {"at": drawn.tolist(), **{name: each.at(drawn).tolist() for name, each in shown.items()}},
        "at_risk": {"at": ticks.tolist(), **{name: each.at_risk(ticks).tolist() for name, each in shown.items()}},
    }
