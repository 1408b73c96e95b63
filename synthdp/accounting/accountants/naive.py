"""Basic composition: the epsilons and the deltas added up (Dwork, Kenthapadi, McSherry, Mironov & Naor 2006, theorem 1).

Every repetition of an event that needs a delta gets the same share of it; pure events need none. What one event costs at its
share is exact for Gaussians (Balle & Wang 2018); a sample lowers it by the amplification lemma.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.accounting.charges import Charges, Unproven, contributions
from synthdp.ledger.events import Capped, Choice, Event, Gaussian, Laplace, Revealed, Sampled


@dataclass(frozen=True)
class Single:
    """What one repetition costs: epsilon as a function of its own delta (0 only where `pure`)."""

    pure: bool
    epsilon: Callable[[float], float]


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta: each of k repetitions that are not pure at delta / k."""
    singles = unbounded_or(charges)
    if singles is None:
        return math.inf
    shares = sum(count for single, count in singles if not single.pure)
    return math.fsum(count * single.epsilon(delta / shares if shares else 0.0) for single, count in singles)


def provenance() -> dict[str, Any]:
    """No version and no grid decides a digit here."""
    return {
        "composition": "basic",
        "delta": "equal shares",
        "sampling": "Balle, Barthe & Gaboardi 2018, theorems 8 and 9",
    }


def unbounded_or(charges: Charges) -> list[tuple[Single, int]] | None:
    """Each event with its count; None where some event has no finite epsilon. Refuses what has no proof in either case."""
    singles = [(rule(entry.event), entry.count) for entry in charges.entries if not isinstance(entry.event, Revealed)]
    return None if charges.unbounded else singles


@singledispatch
def rule(event: Event) -> Single:
    """What one repetition of an event costs; raises `Unproven` where no bound is known."""
    raise Unproven(f"naive has no proof for the event {type(event).__name__}; register one with `naive.rule.register`")


@rule.register
def _(event: Gaussian) -> Single:
    return Single(False, lambda delta: gaussian_epsilon(contributions(event) / event.noise, delta))


@rule.register
def _(event: Laplace) -> Single:
    return Single(True, lambda _: contributions(event) / event.noise)


@rule.register
def _(event: Choice) -> Single:
    return Single(True, lambda _: event.epsilon)


@rule.register
def _(event: Capped) -> Single:
    """zCDP: Bun & Steinke 2016, proposition 1.3. One Renyi order: Mironov 2017, proposition 3."""
    if event.filter == "zcdp":
        return Single(False, lambda delta: event.bound + 2 * math.sqrt(event.bound * -math.log(delta)))
    return Single(False, lambda delta: event.bound - math.log(delta) / (event.order - 1))


@rule.register
def _(event: Sampled) -> Single:
    """(log(1 + rate (e^epsilon - 1)), rate delta) for a mechanism that is (epsilon, delta)-DP on the sample: Balle, Barthe &
    Gaboardi 2018, theorem 8 (Poisson, add_remove) and 9 (without replacement, replace_one)."""
    if (event.sampler, event.relation) not in (("poisson", "add_remove"), ("without_replacement", "replace_one")):
        raise Unproven(f"naive has no proof for the sampler {event.sampler!r} under {event.relation}")
    inner = [rule(query) for query in event.queries]
    shares = sum(not single.pure for single in inner)

    def amplified(delta: float) -> float:
        share = delta / event.rate / shares if shares else 0.0
        # On the sample a delta of 1 or more is kept by anything: then epsilon 0 is, and sampled it still is.
        whole = 0.0 if share >= 1 else math.fsum(single.epsilon(share) for single in inner)
        if whole < 1:
            return math.log1p(event.rate * math.expm1(whole))
        return math.log(event.rate) + whole + math.log1p((1 - event.rate) / event.rate * math.exp(-whole))

    return Single(not shares, amplified)
