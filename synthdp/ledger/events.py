"""Events: what was asked, as frozen values, and plans, which are lists of them.

An event is a frozen value: what was asked, with the mathematics of why it is private in its docstring and no behaviour
(McMahan & Andrew 2018, section 5). An accountant is a pure function of the events; it lives in `accounting/`.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from synthdp.errors import BadInput

Relation = Literal["add_remove", "replace_one"]
RELATIONS: tuple[str, ...] = get_args(Relation)
RECORD = "record"
PLAIN = (str, float, int, bool, tuple)


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every event says of its neighbours: the relation, and the unit that is added, removed or replaced."""

    relation: Relation = "add_remove"
    unit: str = RECORD

    def __post_init__(self) -> None:
        """Make every number and text a plain one: a subclass of float could say one thing to the accountant and another to the noise."""
        for name, value in vars(self).items():
            if type(value) not in PLAIN:
                object.__setattr__(self, name, _plain(value))


@dataclass(frozen=True)
class Gaussian(Event):
    """A vector of L2 sensitivity s, plus independent N(0, (noise * s)^2) on each coordinate.

    Under add_remove the trade-off curve is that of N(0, 1) against N(1 / noise, 1) (Balle & Wang 2018; Dong, Roth & Su
    2019). s is the bound on one unit's contribution; under replace_one two contributions change and the means lie 2 / noise
    apart.
    """

    noise: float


@dataclass(frozen=True)
class Laplace(Event):
    """A vector of L1 sensitivity s, plus independent Laplace noise of scale noise * s: (1 / noise)-DP under add_remove,
    (2 / noise)-DP under replace_one (Dwork, McSherry, Nissim & Smith 2006)."""

    noise: float


@dataclass(frozen=True)
class Choice(Event):
    """One candidate drawn with probability proportional to exp(epsilon * score / (2 * sensitivity)): epsilon-DP
    (McSherry & Talwar 2007). `epsilon` holds for the event's own relation."""

    epsilon: float


@dataclass(frozen=True)
class Threshold(Event):
    """Noisy counts over an unknown domain; only those above a threshold are published.

    A unit touches at most `categories` of them, by one each: a Gaussian of L2 sensitivity sqrt(categories). `delta` bounds
    the probability that a category which one unit alone holds passes the threshold (Korolova et al. 2009), and is charged
    beside the Gaussian's own loss.
    """

    noise: float
    delta: float
    categories: int


@dataclass(frozen=True)
class Vote(Event):
    """Teachers, each with a part of the units of its own, answered a question together: what they say is added up, with noise.

    A unit is in one teacher's part, and that teacher may change arbitrarily: the sum then moves by at most s. The other
    teachers stay as they are. `noise` is the Gaussian deviation over the L2 sensitivity s or, with law "laplace", the Laplace
    scale over the L1 sensitivity s, so that the privacy is that of a `Gaussian` or `Laplace` of this noise, whatever was voted;
    under replace_one two teachers may change. A vote that goes from one class to another moves two counts by one: GNMax of
    deviation sigma has noise sigma / sqrt(2) (Papernot et al. 2018, section 4.1), LNMax of scale 1 / gamma has noise
    1 / (2 gamma) (Papernot et al. 2017, section 3.1).
    """

    noise: float
    law: str = "gaussian"


@dataclass(frozen=True)
class SmoothGaussian(Event):
    """A number f plus N(0, (noise * S)^2), where S depends on the records too: a beta-smooth bound of the sensitivity of f.

    Adding or removing a unit changes f by at most S, and S by a factor of at most e^beta (Nissim, Raskhodnikova & Smith 2007,
    definition 2.1). Its Renyi divergence is that of two Gaussians of different deviations, finite below order
    1 / (1 - e^(-2 beta)); under replace_one the two changes come one after another.
    """

    noise: float
    beta: float


@dataclass(frozen=True)
class Sampled(Event):
    """`queries`, all asked of one random sample of units that contains each unit with probability `rate`.

    With sampler "poisson" the coins are independent and amplification by Poisson sampling applies (Mironov, Talwar & Zhang
    2019; Zhu, Dong & Wang 2022). Accountants refuse a sampler for which they have no proof.
    """

    rate: float
    queries: tuple[Event, ...]
    sampler: str = "poisson"


@dataclass(frozen=True)
class Capped(Event):
    """A block of queries whose parameters were chosen from earlier answers, stopped before their total passed a bound that
    was fixed beforehand: a privacy filter. The whole bound is charged, whatever was spent (law 11).

    `filter` says what was added up: "gaussian", unsampled Gaussians only, the sum of 1 / noise^2 up to bound^2, which is no
    worse than one Gaussian of noise 1 / bound (Smith & Thakurta 2022, theorem 4; Koskela, Tobaben & Honkela 2023); "zcdp",
    the sum of rho up to `bound` (Feldman & Zrnic 2021); "renyi", the sum of the Renyi divergences at `order` alone up to
    `bound` (ibid.). What is added up are the events' own divergences under their own relation: under replace_one a Gaussian adds
    (2 / noise)^2 and the cap is a Gaussian whose means lie `bound` apart; nothing is doubled again. `delta` bounds the sum of
    what thresholds in the block claim for themselves.
    """

    filter: str
    bound: float
    order: float = 0.0
    delta: float = 0.0


@dataclass(frozen=True)
class Selection(Event):
    """The best of K runs by a score that every run's own answers give; K and all other runs stay hidden.

    A run draws one of `candidates` with equal chances and asks what that plan holds, its score included; runs are independent
    of each other. K has the truncated negative binomial distribution of mean `mean` and shape eta: P(K = k) is proportional to
    (1 - gamma)^k eta (eta + 1) ... (eta + k - 1) / k! for k = 1, 2, ..., and gamma is what gives that mean. Shape 1 is the
    geometric distribution, 0 the logarithmic one. If no candidate has a Renyi divergence above d(a) at order a, the selection
    has at most d(a) + log(mean) / (a - 1) + (1 + eta) min over b of ((1 - 1 / b) d(b) - log(gamma) / b) (Papernot & Steinke
    2022, definition 1 and theorem 2).
    """

    mean: float
    shape: float
    candidates: "tuple[Plan, ...]"


@dataclass(frozen=True)
class Revealed(Event):
    """The records themselves were handed out: no finite epsilon."""

    reason: str


@dataclass(frozen=True)
class Entry:
    """`count` independent repetitions of an event; a plan is a tuple of entries."""

    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        if type(self.count) is not int:
            object.__setattr__(self, "count", _plain(self.count))
        if self.count < 0:
            raise BadInput(f"an event's count must be 0 or more, got {self.count}")


Plan = tuple[Entry, ...]

EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Gaussian, Laplace, Choice, Threshold, Vote, SmoothGaussian, Sampled, Capped, Selection, Revealed)
}


def register(kind: type[Event]) -> type[Event]:
    """Make an event of a plug-in readable from disk (a class decorator)."""
    EVENTS[kind.__name__] = kind
    return kind


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values; `from_json` is its inverse."""
    values: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name == "queries":
            value = [to_json(query) for query in value]
        elif field.name == "candidates":
            value = [[{"event": to_json(entry.event), "count": entry.count} for entry in plan] for plan in value]
        values[field.name] = value
    return values


def from_json(values: Mapping[str, Any]) -> Event:
    """Read back an event; raises `BadInput` for an unknown type or field."""
    kind = EVENTS.get(str(values.get("type")))
    if kind is None:
        raise BadInput(f"unknown event {values.get('type')!r} in a ledger; known: {', '.join(sorted(EVENTS))}")
    fields = {name: value for name, value in values.items() if name != "type"}
    try:
        if "queries" in fields:
            fields["queries"] = tuple(from_json(query) for query in fields["queries"])
        if "candidates" in fields:
            fields["candidates"] = tuple(
                tuple(Entry(from_json(each["event"]), each["count"]) for each in plan) for plan in fields["candidates"]
            )
        return kind(**fields)
    except (TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"event {kind.__name__} in a ledger has wrong fields: {sorted(fields)}") from error


def _plain(value: Any) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a number of numpy's, which is not imported for it
        return value.item()
    kinds: tuple[Any, ...] = (float, int, str)
    kind = next((kind for kind in kinds if isinstance(value, kind)), None)
    if kind is None:
        return value
    return str.__str__(value) if kind is str else kind.__pos__(value)


def inner(event: Event) -> tuple[Event, ...]:
    """The events that an event is made of: what is asked of a sample, or in a run of a selection."""
    if isinstance(event, Selection):
        return tuple(entry.event for plan in event.candidates for entry in plan)
    return tuple(getattr(event, "queries", ()))


def scoped(plan: Iterable[Entry], *, relation: Relation, unit: str) -> Plan:
    """The same plan with every event, inner ones too, said for this relation and unit."""
    return tuple(Entry(scoped_event(entry.event, relation=relation, unit=unit), entry.count) for entry in plan)


def scoped_event(event: Event, *, relation: Relation, unit: str) -> Event:
    """The same event said for this relation and unit."""
    if isinstance(event, Sampled):
        queries = tuple(scoped_event(query, relation=relation, unit=unit) for query in event.queries)
        event = dataclasses.replace(event, queries=queries)
    if isinstance(event, Selection):
        candidates = tuple(scoped(plan, relation=relation, unit=unit) for plan in event.candidates)
        event = dataclasses.replace(event, candidates=candidates)
    return dataclasses.replace(event, relation=relation, unit=unit)


def canonical(entries: Iterable[Entry]) -> Plan:
    """What may be released of a ledger: equal neighbours merged, a reason's free text left out (law 22)."""
    return merged(
        Entry(dataclasses.replace(entry.event, reason=""), entry.count) if isinstance(entry.event, Revealed) else entry
        for entry in entries
    )


def merged(entries: Iterable[Entry]) -> Plan:
    """Equal neighbours added up, empty entries dropped: the same ledger, shorter."""
    result: list[Entry] = []
    for entry in entries:
        if entry.count == 0:
            continue
        if result and result[-1].event == entry.event:
            result[-1] = Entry(entry.event, result[-1].count + entry.count)
        else:
            result.append(entry)
    return tuple(result)
