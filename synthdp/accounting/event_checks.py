"""Which arguments of an event are possible, and which events may stand in one ledger."""

import math
from collections.abc import Iterable
from functools import singledispatch

from synthdp.errors import BadInput
from synthdp.ledger.events import (
    Capped,
    Choice,
    Entry,
    Event,
    Gaussian,
    Laplace,
    Revealed,
    Sampled,
    Selection,
    SmoothGaussian,
    Threshold,
    Vote,
    inner,
)

FILTERS = ("gaussian", "zcdp", "renyi")
VOTE_LAWS = ("gaussian", "laplace")


class Unproven(BadInput):
    """No proof is known here for this event, sampler or relation: an accountant refuses it by name."""


def check_neighbours(events: Iterable[Event]) -> None:
    """Refuse a ledger that mixes relations or units."""

    def nested(event: Event) -> Iterable[Event]:
        yield event
        for query in inner(event):
            yield from nested(query)

    found = {(each.relation, each.unit) for event in events for each in nested(event)}
    for position, name in enumerate(("relation", "unit")):
        values = sorted({pair[position] for pair in found})
        if len(values) > 1:
            raise Unproven(
                f"the ledger mixes {name}s ({', '.join(values)}): no accountant adds those up; use one {name} for all events"
            )


def check_count(entry: Entry) -> None:
    """Refuse a count that is no whole number."""
    if isinstance(entry.count, bool) or not isinstance(entry.count, int) or entry.count < 0:
        raise BadInput(f"an event's count (steps) must be a whole number, 0 or more, got {entry.count!r}")


@singledispatch
def check(event: Event) -> None:
    """Refuse impossible arguments of an event."""
    if event.relation not in ("add_remove", "replace_one"):
        raise BadInput(f"relation must be add_remove or replace_one, got {event.relation!r}")


@check.register(Gaussian)
@check.register(Laplace)
def _(event: Gaussian | Laplace) -> None:
    check(Revealed(reason="", relation=event.relation))
    _at_least_zero("noise", event.noise)


@check.register
def _(event: Vote) -> None:
    check(Gaussian(noise=event.noise, relation=event.relation))
    if event.law not in VOTE_LAWS:
        raise BadInput(f"a vote's law must be one of {', '.join(VOTE_LAWS)}, got {event.law!r}")


@check.register
def _(event: SmoothGaussian) -> None:
    check(Gaussian(noise=event.noise, relation=event.relation))
    _at_least_zero("beta", event.beta)


@check.register
def _(event: Choice) -> None:
    check(Revealed(reason="", relation=event.relation))
    _at_least_zero("epsilon", event.epsilon)


@check.register
def _(event: Threshold) -> None:
    check(Gaussian(noise=event.noise, relation=event.relation))
    if not 0 <= event.delta < 1:
        raise BadInput(f"a threshold's delta must lie in [0, 1), got {event.delta}")
    if event.categories < 1:
        raise BadInput(f"a threshold's categories must be 1 or more, got {event.categories}")


@check.register
def _(event: Capped) -> None:
    check(Revealed(reason="", relation=event.relation))
    if event.filter not in FILTERS:
        raise BadInput(f"a cap's filter must be one of {', '.join(FILTERS)}, got {event.filter!r}")
    _at_least_zero("a cap's bound", event.bound)
    if not 0 <= event.delta < 1:
        raise BadInput(f"a cap's delta must lie in [0, 1), got {event.delta}")
    if event.filter == "renyi" and not 1 < event.order < math.inf:
        raise BadInput(f"a cap's order must be finite and greater than 1 for the filter renyi, got {event.order}")


@check.register
def _(event: Selection) -> None:
    check(Revealed(reason="", relation=event.relation))
    if not 1 <= event.mean < math.inf:
        raise BadInput(f"a selection's mean number of runs must be finite and 1 or more, got {event.mean}")
    if not 0 <= event.shape < math.inf:
        raise BadInput(f"a selection's shape must be finite and 0 or more, got {event.shape}")
    if not event.candidates:
        raise BadInput("a selection needs one candidate or more")
    for entry in (entry for plan in event.candidates for entry in plan):
        check_count(entry)
        if any(isinstance(each, Selection) for each in (entry.event, *inner(entry.event))):
            raise Unproven("no accountant has a proof for a selection inside a selection")
        check(entry.event)


@check.register
def _(event: Sampled) -> None:
    check(Revealed(reason="", relation=event.relation))
    if not 0 <= event.rate <= 1:
        raise BadInput(f"rate must lie in [0, 1], got {event.rate}")
    if any(isinstance(query, Capped) for query in event.queries):
        raise Unproven("no accountant has a proof for a cap inside a sample; ask under the cap of all units")
    if any(isinstance(query, Selection) for query in event.queries):
        raise Unproven("no accountant has a proof for a selection inside a sample; select over runs on all units")
    for query in event.queries:
        check(query)


def _at_least_zero(name: str, value: float) -> None:
    if not value >= 0:
        raise BadInput(f"{name} must be 0 or more, got {value}")
