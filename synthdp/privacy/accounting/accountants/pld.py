"""Privacy loss distributions: the near-exact epsilon, from the distribution of the composed loss (Koskela et al. 2020).

Gaussians that are not sampled are one Gaussian, whose epsilon is exact (Balle & Wang 2018). Everything else is discretised
upwards (`losses`) and composed by Fourier transform (`composition`); the grid is refined until epsilon settles.
"""

import math
from functools import singledispatch
from typing import Any

from synthdp.privacy.accounting.charges import Charges, Unproven
from synthdp.privacy.accounting.composition import ALLOWANCE, FINER, NEGLIGIBLE, TOLERANCE, epsilon_of
from synthdp.privacy.accounting.gaussian import gaussian_epsilon
from synthdp.privacy.accounting.losses import (
    MAX_BINS,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    ReplacedGaussianLoss,
    SampledGaussianLoss,
)
from synthdp.privacy.ledger import Choice, Event, Gaussian, Laplace, Sampled

LEAST_SAMPLED_NOISE = 0.01


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta (what the events claim for themselves is already taken off)."""
    composed = [(rule(entry.event), entry.count) for entry in charges.entries if not charges.unbounded]
    if charges.unbounded:
        return math.inf
    squares = [count * loss.mu * loss.mu for loss, count in composed if isinstance(loss, GaussianLoss)]
    others = [(loss, count) for loss, count in composed if not isinstance(loss, GaussianLoss)]
    mu = math.sqrt(math.fsum(squares))
    if not others:
        return gaussian_epsilon(mu, delta)
    if math.isinf(mu):
        return math.inf
    return epsilon_of([*([(GaussianLoss(mu=mu), 1)] if mu else []), *others], delta)


def provenance() -> dict[str, Any]:
    """What decides the last digits: the grid's rule and the versions it was computed with."""
    import numpy
    import scipy

    import synthdp

    return {
        "implementation": f"synthdp {synthdp.__version__}",
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "grid": {
            "method": "connect the dots, tilted Fourier transform",
            "refined_by": FINER,
            "until_relative_change_below": TOLERANCE,
            "most_grid_points": MAX_BINS,
            "truncation_share_of_delta": NEGLIGIBLE,
            "round_off_share_of_delta": ALLOWANCE,
        },
    }


@singledispatch
def rule(event: Event) -> Loss:
    """The loss that dominates an event; raises `Unproven` where none is known."""
    raise Unproven(f"pld has no proof for the event {type(event).__name__}; register one with `pld.rule.register`")


def _twice(event: Event) -> float:
    """Replacing a unit moves a sum by two contributions."""
    return 2.0 if event.relation == "replace_one" else 1.0


@rule.register
def _(event: Gaussian) -> Loss:
    return GaussianLoss(mu=_twice(event) / event.noise)


@rule.register
def _(event: Laplace) -> Loss:
    return LaplaceLoss(epsilon=_twice(event) / event.noise)


@rule.register
def _(event: Choice) -> Loss:
    return PureLoss(epsilon=event.epsilon)


@rule.register
def _(event: Sampled) -> Loss:
    if event.sampler != "poisson":
        raise Unproven(f"pld has no proof for the sampler {event.sampler!r}; only 'poisson' is accounted")
    if len(event.queries) != 1 or not isinstance(event.queries[0], Gaussian):
        names = ", ".join(type(query).__name__ for query in event.queries)
        raise Unproven(f"pld has no proof for a Poisson sample that is asked: {names}; only joint Gaussian queries are")
    noise = event.queries[0].noise
    if noise < LEAST_SAMPLED_NOISE:  # sampling only lowers epsilon; at such noise it hardly does
        return GaussianLoss(mu=_twice(event) / noise)
    if event.relation == "replace_one":
        return ReplacedGaussianLoss(rate=event.rate, noise=noise)
    return SampledGaussianLoss(rate=event.rate, noise=noise)
