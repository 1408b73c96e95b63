"""What every accountant does first: check a ledger's events and bring them to one canonical, order-free form.

Counts are added up per event, so that "counting = repeating" and "order is irrelevant" hold before any theorem is applied
(dp-accounting drops the repeat count of some events; here a count is never inside an event).
"""

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
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
    to_json,
)

# ---- Which arguments of an event are possible, and which events may stand in one ledger.


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
                f"the ledger mixes {name}s ({', '.join(values)}), which no accountant can add up; use one {name} for all events"
            )


def check_count(entry: Entry) -> None:
    """Refuse a count that is no whole number."""
    if isinstance(entry.count, bool) or not isinstance(entry.count, int) or entry.count < 0:
        raise BadInput(f"an event's count (steps) must be a whole number of 0 or more, got {entry.count!r}")


def check(event: Event) -> None:
    """Refuse impossible arguments of an event."""
    if event.relation not in ("add_remove", "replace_one"):
        raise BadInput(f"relation must be add_remove or replace_one, got {event.relation!r}")
    if isinstance(event, Gaussian | Laplace | SmoothGaussian | Threshold | Vote):
        _at_least_zero("noise", event.noise)
    _check_own(event)


@singledispatch
def _check_own(event: Event) -> None:
    """The same of what only events of its kind have."""


@_check_own.register
def _(event: Vote) -> None:
    if event.law not in VOTE_LAWS:
        raise BadInput(f"a vote's law must be one of {', '.join(VOTE_LAWS)}, got {event.law!r}")


@_check_own.register
def _(event: SmoothGaussian) -> None:
    _at_least_zero("beta", event.beta)


@_check_own.register
def _(event: Choice) -> None:
    _at_least_zero("epsilon", event.epsilon)


@_check_own.register
def _(event: Threshold) -> None:
    if not 0 <= event.delta < 1:
        raise BadInput(f"a threshold's delta must lie in [0, 1), got {event.delta}")
    if event.categories < 1:
        raise BadInput(f"a threshold's categories must be 1 or more, got {event.categories}")


@_check_own.register
def _(event: Capped) -> None:
    if event.filter not in FILTERS:
        raise BadInput(f"a cap's filter must be one of {', '.join(FILTERS)}, got {event.filter!r}")
    _at_least_zero("a cap's bound", event.bound)
    if not 0 <= event.delta < 1:
        raise BadInput(f"a cap's delta must lie in [0, 1), got {event.delta}")
    if event.filter == "renyi" and not 1 < event.order < math.inf:
        raise BadInput(f"a cap's order must be finite and greater than 1 for the filter renyi, got {event.order}")


@_check_own.register
def _(event: Selection) -> None:
    if not 1 <= event.mean < math.inf:
        raise BadInput(f"a selection's mean number of runs must be finite and 1 or more, got {event.mean}")
    if not 0 <= event.shape < math.inf:
        raise BadInput(f"a selection's shape must be finite and 0 or more, got {event.shape}")
    if not event.candidates:
        raise BadInput("a selection needs at least one candidate")
    for entry in (entry for plan in event.candidates for entry in plan):
        check_count(entry)
        if any(isinstance(each, Selection) for each in (entry.event, *inner(entry.event))):
            raise Unproven("no accountant has a proof for a selection inside a selection")
        check(entry.event)


@_check_own.register
def _(event: Sampled) -> None:
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


CAP_ALLOWANCE = 1e-12  # relative: what a filter lets pass for round-off, and what its cap is charged beyond its bound
MOST_DIFFERENT, MOST_COSTLY = 5_000, 64  # events of a ledger, in canonical form
ANY_SAMPLER = ("poisson", "without_replacement")  # samplers whose joint Gaussian queries are one Gaussian query


@dataclass(frozen=True, kw_only=True)
class Charges:
    """A ledger in canonical form: distinct events with their counts, and the delta that they claim for themselves."""

    entries: tuple[Entry, ...]
    own_delta: float

    @property
    def unbounded(self) -> bool:
        """True where some event has no finite epsilon."""
        return any(isinstance(entry.event, Revealed) for entry in self.entries)


def charges(ledger: Iterable[Entry]) -> Charges:
    """The canonical form of a ledger or plan; raises `BadInput` for impossible arguments and `Unproven` for mixtures.

    Events that reveal nothing (count 0, rate 0, infinite noise) are dropped; noise 0 is `Revealed`.
    """
    entries = tuple(ledger)
    counts: dict[Event, int] = {}
    claimed = 0.0
    for entry in entries:
        check_count(entry)
        if entry.count == 0:
            continue
        check(entry.event)
        claimed += entry.count * own_delta(entry.event)
        for event in canonical(entry.event):
            counts[event] = counts.get(event, 0) + entry.count
    check_neighbours(entry.event for entry in entries if entry.count)
    _check_different(counts)
    ordered = sorted(counts, key=lambda event: json.dumps(to_json(event), sort_keys=True, default=str))
    return Charges(entries=tuple(Entry(event, counts[event]) for event in ordered), own_delta=claimed)


def _check_different(events: Iterable[Event]) -> None:
    """Each event that is no plain Gaussian costs an accountant up to a tenth of a second, and no fit asks hundreds of different ones."""
    held = [each for event in events for each in _candidates(event)]
    plain = sum(isinstance(event, Gaussian) for event in held)
    for name, count, most in (("", len(held), MOST_DIFFERENT), (" beside Gaussians", len(held) - plain, MOST_COSTLY)):
        if count > most:
            raise BadInput(
                f"the ledger has {count:,} different events{name}; at most {most:,} can be accounted together"
            )


def _candidates(event: Event) -> Iterable[Event]:
    return (entry.event for plan in event.candidates for entry in plan) if isinstance(event, Selection) else (event,)


@singledispatch
def own_delta(event: Event) -> float:  # noqa: ARG001
    """The delta that one repetition of an event claims for itself, whatever epsilon is (law 10)."""
    return 0.0


@own_delta.register
def _(event: Threshold) -> float:
    # Outside an event of probability `delta` the categories that only one unit holds stay hidden, and what is published is
    # post-processing of the Gaussian counts. Those categories' noise is independent of the rest, so the other direction loses
    # a factor 1 - delta, that is at most `delta` again in epsilon, which delta(epsilon) - of slope above -1 - absorbs.
    return event.delta * (2 if event.relation == "replace_one" else 1)  # replaced: both directions at once


@own_delta.register
def _(event: Capped) -> float:
    return event.delta


@own_delta.register
def _(event: Sampled) -> float:
    return math.fsum(own_delta(query) for query in event.queries) if event.rate > 0 else 0.0


@singledispatch
def canonical(event: Event) -> tuple[Event, ...]:
    """Events that together have the same privacy as `event`, in the fewest forms; a plug-in's event stands as it is."""
    return (event,)


@canonical.register(Gaussian)
@canonical.register(Laplace)
def _(event: Gaussian | Laplace) -> tuple[Event, ...]:
    if event.noise == 0 or math.isinf(contributions(event) / event.noise):
        return (_revealed(event, "noise 0"),)
    return () if math.isinf(event.noise) else (event,)


@canonical.register
def _(event: Choice) -> tuple[Event, ...]:
    if math.isinf(event.epsilon):
        return (_revealed(event, "epsilon infinite"),)
    return () if event.epsilon == 0 else (event,)


@canonical.register
def _(event: Threshold) -> tuple[Event, ...]:
    return canonical(Gaussian(noise=event.noise, relation=event.relation, unit=event.unit))


@canonical.register
def _(event: Vote) -> tuple[Event, ...]:
    """One teacher's part of the sum moves, as one unit's part of any sum does."""
    kind = Gaussian if event.law == "gaussian" else Laplace
    return canonical(kind(noise=event.noise, relation=event.relation, unit=event.unit))


@canonical.register
def _(event: SmoothGaussian) -> tuple[Event, ...]:
    """With beta 0 the deviation is the same everywhere. Infinite noise would still show S, up to a factor."""
    if event.beta == 0:
        return canonical(Gaussian(noise=event.noise, relation=event.relation, unit=event.unit))
    return (_revealed(event, "noise 0"),) if event.noise == 0 or math.isinf(event.beta) else (event,)


@canonical.register
def _(event: Capped) -> tuple[Event, ...]:
    """A Gaussian filter is a Gaussian whose means lie `bound` apart, whatever the relation. Its delta is `own_delta`."""
    bound = event.bound * (1 + CAP_ALLOWANCE)
    if math.isinf(bound):
        return (_revealed(event, "bound infinite"),)
    if bound == 0:
        return ()
    if event.filter == "gaussian":
        return canonical(Gaussian(noise=contributions(event) / bound, relation=event.relation, unit=event.unit))
    return (dataclasses.replace(event, bound=bound, delta=0.0, order=event.order if event.filter == "renyi" else 0.0),)


@canonical.register
def _(event: Selection) -> tuple[Event, ...]:
    """Candidates in canonical form, each once: what counts is the dearest. A delta that an event claims for itself would hold
    once a run, for a number of runs that has no bound: refused."""
    found = [charges(plan) for plan in event.candidates]
    if any(each.own_delta for each in found):
        raise Unproven(
            "no accountant has a proof for a selection over runs in which an event claims a delta of its own (thresholds, caps "
            "with a delta): buy categories before the selection, or declare them"
        )
    if any(each.unbounded for each in found):
        return (_revealed(event, "noise 0"),)
    plans = sorted({each.entries for each in found}, key=repr)
    return (dataclasses.replace(event, candidates=tuple(plans)),) if any(plans) else ()


@canonical.register
def _(event: Revealed) -> tuple[Event, ...]:
    return (_revealed(event, ""),)


@canonical.register
def _(event: Sampled) -> tuple[Event, ...]:
    """Joint Gaussians of one sample are one Gaussian of noise (sum noise^-2)^-1/2, since their concatenation, each scaled to
    unit deviation, is one Gaussian vector of that sensitivity (McMahan et al. 2018, section 3)."""
    if event.rate == 0:
        return ()
    queries = tuple(query for asked in event.queries for query in canonical(asked))
    if not queries:
        return ()
    if any(isinstance(query, Revealed) for query in queries):
        return (_revealed(event, "noise 0"),)
    if event.sampler not in ANY_SAMPLER:
        return (event,)
    if event.rate == 1:
        return queries
    if all(isinstance(query, Gaussian) for query in queries) and not any(own_delta(query) for query in event.queries):
        noise = combined(query.noise for query in queries if isinstance(query, Gaussian))
        joint = Gaussian(noise=noise, relation=event.relation, unit=event.unit)
        return (dataclasses.replace(event, queries=(joint,)),)
    plain = tuple(
        form for asked in event.queries for form in (canonical(asked) if isinstance(asked, Vote) else (asked,))
    )
    return (dataclasses.replace(event, queries=plain),)


def contributions(event: Event) -> float:
    """How many units' contributions change between neighbours: replacing a unit moves a sum by two."""
    return 2.0 if event.relation == "replace_one" else 1.0


def joint_gaussian(event: Sampled, accountant: str) -> float:
    """The noise multiplier of a sample's only query, a Gaussian. Raises `Unproven`, with the accountant's name, for any other sample."""
    if len(event.queries) == 1 and isinstance(event.queries[0], Gaussian):
        return event.queries[0].noise
    names = ", ".join(type(query).__name__ for query in event.queries)
    raise Unproven(
        f"{accountant} has no proof for these queries of a sample: {names}; it has one for joint Gaussian queries alone"
    )


def combined(noises: Iterable[float]) -> float:
    """(sum z^-2)^-1/2: the noise multiplier of Gaussians that are answered together; infinite for none (law 7)."""
    smallest, *others = sorted(noises) or [math.inf]
    if smallest == 0 or math.isinf(smallest) or not others:
        return smallest
    return smallest / math.sqrt(1 + math.fsum((smallest / other) ** 2 for other in others))


def _revealed(event: Event, reason: str) -> Revealed:
    return Revealed(reason=reason, relation=event.relation, unit=event.unit)
