"""Privacy loss distributions by dp-accounting: the near-exact epsilon (Koskela et al. 2020; Doroshenko et al. 2022).

Gaussians that are not sampled are one Gaussian, whose epsilon is exact (Balle & Wang 2018). Everything else is discretised
upwards by "connect the dots" and composed by Fourier transforms, whose round-off is taken off delta. Any grid then gives a valid
upper bound, and the least of those tried is taken.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache, singledispatch
from typing import Any

import numpy as np

from synthdp.accounting.accountants import rdp
from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.accounting.charges import Charges, Unproven, contributions, joint_gaussian
from synthdp.ledger.events import Capped, Choice, Entry, Event, Gaussian, Laplace, Revealed, Sampled

GRID = 1e-4  # dp-accounting's own default
COARSE, FINEST = 1e4, 1e-6
FINER = 10.0
EVENT_POINTS, MOST_POINTS = 400_000, 2_000_000  # that one event and the whole may need on the first grid
CHEAP_POINTS = 60_000  # up to which a finer grid is worth trying
GAIN = 0.02  # relative gain of epsilon for which a finer grid is tried again
LEAST_SAMPLED_NOISE = 0.05  # below it sampling is not used: it hardly lowers epsilon and the grid would be huge
MOST_RANGE = (
    30.0  # of a choice: beyond it, or on a grid that is coarser, a bounded range gains little over a pure epsilon
)
MANY = 1000  # repetitions
ORDERS = 20  # of the Chernoff bounds on each side, as in dp-accounting
MOST_GRID = (
    100.0  # beyond it epsilon is over 10^8, no grid tells more than rdp, and dp-accounting's exponentials overflow
)
MOST_FFT = 1 << 23  # points that are transformed at once
TAIL = 1e-15  # dp-accounting's own truncation of a composition
# What a repetition may take off delta by the round-off of Fourier transforms: a test finds up to 1.1e-16, beside exact Gaussians.
ROUND_OFF = 2.0**-51
MOST_EXPONENT = 700.0  # of which dp-accounting takes the exponential
LEAST_RATE = 1e-200  # below it dp-accounting's logarithms do; a larger rate is never cheaper
MOST_SAMPLED_NOISE = 1e6  # above it dp-accounting's squares overflow at last; less noise is never cheaper

Array = np.ndarray
Loss = Callable[[float], Any]  # grid -> dp_accounting's PrivacyLossDistribution


def epsilon(charges: Charges, delta: float) -> float:
    """Upper bound on epsilon at this delta (what the events claim for themselves is already taken off)."""
    for entry in charges.entries:
        if not isinstance(entry.event, Revealed):
            rule(entry.event)  # what has no proof is refused, whatever else there is
    if charges.unbounded:
        return math.inf
    mu = math.sqrt(math.fsum(entry.count * (_mu(entry.event) * _mu(entry.event)) for entry in charges.entries))
    sampled = tuple((entry.event, entry.count) for entry in charges.entries if not _mu(entry.event))
    if not sampled or math.isinf(mu):
        return gaussian_epsilon(mu, delta)
    repetitions = sum(count for _, count in sampled) + (mu > 0) - 1
    if delta <= ROUND_OFF * repetitions:
        return _by_rdp(charges, delta)
    delta -= ROUND_OFF * repetitions
    grid = _grid(_range(mu, sampled), _composed_range(charges, delta))
    try:
        grid, least = _first(mu, sampled, delta, grid)
    except OverflowError:  # of e^epsilon, or of e^grid
        return _by_rdp(charges, delta)
    while grid > FINEST and max(_range(mu, sampled), 2 * least) * FINER / grid < CHEAP_POINTS:
        grid /= FINER
        try:
            finer = _on_grid(mu, sampled, delta, grid)
        except (_TooFine, OverflowError):
            break
        gained, least = finer < (1 - GAIN) * least, min(least, finer)
        if not gained:
            break
    return max(0.0, least)


def provenance() -> dict[str, Any]:
    """What decides the last digits: dp-accounting's version and the rule of the grid."""
    from importlib.metadata import version

    return {
        "dp_accounting": version("dp-accounting"),
        "grid": {"start": GRID, "finest": FINEST, "finer_by": FINER, "while_gain_above": GAIN},
        "estimate": "pessimistic, connect the dots",
        "round_off": ROUND_OFF,
    }


@singledispatch
def rule(event: Event) -> Loss:
    """The distribution that dominates an event, by grid; raises `Unproven` where none is known."""
    raise Unproven(f"pld has no proof for the event {type(event).__name__}; register one with `pld.rule.register`")


@rule.register
def _(event: Gaussian) -> Loss:
    return _gaussian(event.noise / contributions(event))


@rule.register
def _(event: Laplace) -> Loss:
    from dp_accounting.pld import privacy_loss_distribution as pld

    noise = event.noise / contributions(event)
    if noise * MOST_EXPONENT < 1:  # nothing is hidden, and the grid would be huge
        return pure(1 / noise)
    return lambda grid: pld.from_laplace_mechanism(noise, value_discretization_interval=grid)


@rule.register
def _(event: Choice) -> Loss:
    """Losses within a range of epsilon e that holds 0 (Durfee & Rogers 2019): of all pairs of distributions whose losses lie
    in [t - e, t], two points have the largest hockey-stick divergence, and of all t, t = (s + e) / 2 has it at s:

        delta(s) = (e^(e / 2) - e^(s / 2))^2 / (e^e - 1),  -e <= s <= e.

    It is convex in e^s, so that a pair of distributions has just these divergences, and dominates; dominating pairs compose
    adaptively (Zhu, Dong & Wang 2022, proposition 9 and theorem 10). Both directions are alike.
    """
    return lambda grid: _bounded_range(event.epsilon, grid)


def pure(epsilon: float) -> Loss:
    """Randomised response, which dominates every epsilon-DP mechanism."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if epsilon > MOST_EXPONENT:  # as good as certain to lose all of it
        return lambda grid: pld.PrivacyLossDistribution.create_from_rounded_probability(
            {math.ceil(epsilon / grid): 1.0}, 0.0, grid
        )
    parameters = common.DifferentialPrivacyParameters(epsilon, 0)
    return lambda grid: pld.from_privacy_parameters(parameters, value_discretization_interval=grid)


@rule.register
def _(event: Capped) -> Loss:
    raise Unproven(f"pld has no proof for the filter {event.filter!r}; only 'gaussian' bounds a whole distribution")


@rule.register
def _(event: Sampled) -> Loss:
    if event.sampler != "poisson":
        raise Unproven(f"pld has no proof for the sampler {event.sampler!r}; only 'poisson' is accounted")
    noise = joint_gaussian(event, "pld")
    if noise < LEAST_SAMPLED_NOISE:
        return _gaussian(noise / contributions(event))
    rate = max(event.rate, LEAST_RATE)
    return _gaussian(min(noise, MOST_SAMPLED_NOISE), rate=rate, replace=event.relation == "replace_one")


def _bounded_range(epsilon: float, grid: float) -> Any:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    end = math.ceil(epsilon / grid)
    if end < 2 or epsilon > MOST_RANGE:
        return pure(epsilon)(grid)
    places = np.arange(-end, end + 1)
    losses = np.clip(places * grid, -epsilon, epsilon)
    deltas = np.expm1((losses - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
    deltas = np.maximum(deltas, -np.expm1(np.minimum(places * grid, 0.0)))
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(grid, places, deltas))


def _gaussian(noise: float, *, rate: float = 1.0, replace: bool = False) -> Loss:
    """`from_gaussian_mechanism` of dp-accounting, which inverts the loss point by point, up to two million times. Here all points are
    inverted at once, to the same bits under add_remove (a test compares)."""
    names = ("REPLACE",) if replace else ("REMOVE", "ADD") if rate < 1 else ("REMOVE",)

    def loss(grid: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.PrivacyLossDistribution(*(_side(noise, rate, name, grid) for name in names))

    return loss


def _side(noise: float, rate: float, name: str, grid: float) -> Any:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    gaussian = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=AdjacencyType[name])
    bounds = gaussian.connect_dots_bounds()
    low, high = math.floor(bounds.epsilon_lower / grid), math.ceil(bounds.epsilon_upper / grid)
    losses = np.arange(low, high + 1) * grid
    with np.errstate(all="ignore"):
        outcomes = _outcomes(losses, noise, rate, name)
        deltas = gaussian.mu_upper_cdf(outcomes) - np.exp(losses + gaussian.mu_lower_log_cdf(outcomes))
    if name == "REMOVE" and rate < 1:  # no outcome loses less than log(1 - rate)
        deltas = np.where(losses > math.log1p(-rate), deltas, -np.expm1(losses))
    if np.isnan(deltas).any():  # no bound may be made of it
        raise OverflowError
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, np.clip(deltas, 0, 1))


def _outcomes(losses: Array, noise: float, rate: float, side: str) -> Array:
    """The largest outcome at which the loss is at least each of `losses`; infinite beyond the loss of no outcome."""
    if side == "REPLACE":
        if rate == 1:
            return -losses * noise**2 / 2
        most = 0.5 / noise**2 + math.log1p(-rate) - math.log(rate)
        sinh = most + np.abs(losses) / 2 + np.log1p(-np.exp(-np.abs(losses))) - math.log(2)  # its logarithm
        asinh = -np.sign(losses) * np.logaddexp(np.logaddexp(0, 2 * sinh) / 2, sinh)
        return np.where(losses == 0, 0.0, noise**2 * (asinh - losses / 2))
    if rate == 1:
        return -0.5 - losses * noise**2
    sign, edge = (1 if side == "REMOVE" else -1), math.log(1 - rate)
    losses = sign * losses
    near = np.abs(losses - edge) <= 1e-9 * np.maximum(np.abs(losses), abs(edge))
    above = losses + np.log(1 / rate)  # then the loss without sampling, log(1 + (e^loss - 1) / rate)
    whole = above + np.log1p(-np.exp(np.log(-(1 - 1 / rate)) - above))
    whole = np.where(losses == 0, 0.0, np.where(near | (losses < edge), -np.inf, whole))
    return (0 if sign > 0 else 1) + (-0.5 - sign * whole * noise**2)


def _mu(event: Event) -> float:
    """Distance of the two means of an unsampled Gaussian, 0 for any other event."""
    if isinstance(event, Gaussian):
        return contributions(event) / event.noise
    if isinstance(event, Sampled) and isinstance(event.queries[0], Gaussian):
        noise = event.queries[0].noise
        return contributions(event) / noise if noise < LEAST_SAMPLED_NOISE else 0.0
    return 0.0


@singledispatch
def reach(event: Event) -> float:  # noqa: ARG001
    """The largest loss of one event, ten deviations out: what its grid has to cover."""
    return 1.0


@reach.register
def _(event: Laplace) -> float:
    return contributions(event) / event.noise


@reach.register
def _(event: Choice) -> float:
    return event.epsilon


@reach.register
def _(event: Sampled) -> float:
    return sampled_reach(event.rate, contributions(event) / event.queries[0].noise)  # type: ignore[attr-defined]


def sampled_reach(rate: float, mu: float) -> float:
    """`reach` of a Gaussian of means mu apart that is asked of a sample."""
    exponent = mu * (mu / 2 + 10)
    return exponent if exponent > 700 else math.log1p(rate * math.expm1(exponent))


@singledispatch
def stand_in(event: Event) -> Event:
    """An event that `rdp` knows and that loses about as much, from which the range of the composed loss is guessed."""
    return event


@stand_in.register
def _(event: Sampled) -> Event:
    """Under replace_one `rdp` has no proof."""
    return dataclasses.replace(
        event,
        relation="add_remove",
        queries=tuple(dataclasses.replace(query, relation="add_remove") for query in event.queries),
    )


def _range(mu: float, events: tuple[tuple[Event, int], ...]) -> float:
    return max(mu * (mu / 2 + 10), *(reach(event) for event, _ in events))


def _composed_range(charges: Charges, delta: float) -> float:
    """The range of the composed loss: about twice the cheap accountant's epsilon, and an upper bound where every grid can afford it."""
    known = tuple(Entry(stand_in(entry.event), entry.count) for entry in charges.entries)
    guessed = Charges(entries=known, own_delta=0.0)
    try:
        roughly = 2 * rdp.rough(guessed, delta)
        return roughly if roughly / GRID <= MOST_POINTS else 2 * rdp.epsilon(guessed, delta)
    except Unproven:
        return 0.0


def _grid(widest: float, whole: float) -> float:
    """The finest power of ten, no finer than GRID, on which these ranges of loss are affordable."""
    grid = GRID
    while grid < COARSE and (widest / grid > EVENT_POINTS or whole / grid > MOST_POINTS):
        grid *= FINER
    return grid


def _first(mu: float, events: tuple[tuple[Event, int], ...], delta: float, grid: float) -> tuple[float, float]:
    """Epsilon on this grid, or on the next coarser one that fits in memory: any grid gives an upper bound."""
    while grid <= MOST_GRID:
        try:
            return grid, _on_grid(mu, events, delta, grid)
        except _TooFine:
            grid *= FINER
    raise OverflowError


def _by_rdp(charges: Charges, delta: float) -> float:
    """The bound where no grid has one; inf where rdp has no proof."""
    try:
        return rdp.epsilon(charges, delta)
    except Unproven:
        return math.inf


class _TooFine(Exception):
    """A composition on this grid would take more than `MOST_FFT` points."""


def _on_grid(mu: float, events: tuple[tuple[Event, int], ...], delta: float, grid: float) -> float:
    return float(_composed(mu, events, grid).get_epsilon_for_delta(delta))


def _repeated(part: Any, count: int) -> Any:
    """`count` of `part`. Of a sparse one dp-accounting takes the size to that power before it makes it dense: of 10^7 steps
    seconds each time. More than `MANY` are always dense.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    if count > MANY:
        sides = [
            side.to_dense_pmf()
            for side in ((part._pmf_remove,) if part._symmetric else (part._pmf_remove, part._pmf_add))
        ]
        part = pld.PrivacyLossDistribution(*sides)
        if any(_points(side, count) > MOST_FFT for side in sides):
            often, rest = divmod(count, MANY)
            whole = _repeated(_repeated(part, MANY), often)
            return whole.compose(_repeated(part, rest)) if rest else whole
    elif count > 1 and any(_points(side, count) > MOST_FFT for side in (part._pmf_remove, part._pmf_add)):
        raise _TooFine
    return part.self_compose(count) if count > 1 else part


def _points(side: Any, count: int) -> int:
    """Length of the Fourier transform by which `count` of a dense distribution are composed at once. The bound that decides it is far
    too wide where the distribution is short and the count is huge; a thousand at a time are composed quickly."""
    if not hasattr(side, "_probs"):  # a sparse one is short
        return 0
    size = len(side._probs)
    low, high, base = 0.0, float((size - 1) * count), np.exp(np.arange(size) / size)
    if high <= MOST_FFT:
        return int(high)
    # The bounds of `dp_accounting.pld.common.compute_self_convolve_bounds`, whose orders are whole multiples of 1 / size: one
    # power follows from the one before, in place of forty sums of exponentials.
    for sign, factor in ((1, base), (-1, 1 / base)):
        weights = np.array(side._probs, np.float64)
        for order in range(1, ORDERS + 1):
            weights *= factor
            if (total := float(weights.sum())) > 0:
                bound = sign * (count * math.log(total) + math.log(2 / TAIL)) * size / order
                low, high = (low, min(high, math.ceil(bound))) if sign > 0 else (max(low, math.floor(bound)), high)
    return int(high - low)


@lru_cache(maxsize=8)
def _composed(mu: float, events: tuple[tuple[Event, int], ...], grid: float) -> Any:
    """The composition; kept for a moment, since an epsilon(delta) curve asks the same one many times."""
    whole = None
    for event, count in events:
        part = _repeated(rule(event)(grid), count)
        whole = part if whole is None else whole.compose(part)
    if mu and whole is not None:
        whole = whole.compose(_gaussian(1 / mu)(grid))
    return whole
