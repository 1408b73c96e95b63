"""How one unit's contribution is bounded, and how noise is shared among groups of vectors: numbers and names, no records.

Groups follow McMahan, Andrew et al. 2018 (arXiv 1812.06210), sections 2 to 4. Asked of one sample, groups of clips S_g and
deviations sigma_g are, each divided by its sigma_g, one Gaussian query of sensitivity (sum (S_g / sigma_g)^2)^(1/2) and
deviation 1: with z_g = sigma_g / S_g the noise of all together is z = (sum z_g^-2)^(-1/2).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput

# ---- Rows clipped to an L2 norm, whatever they hold: without overflow, underflow, or a word about it.


Rows = NDArray[np.float64]
MARGIN = 1 - 1e-4  # contributions are clipped a little below the bound, so that rounding cannot carry them past it
LEAST_CLIP = 1e-100  # of smaller ones the squares, and the noise of second moments, would underflow to zero
MOST_CLIP = 1e100  # of larger ones sums, and second moments, would overflow
FAR = 2.0**512  # longer rows are divided by it first: clip / norm must not be a denormal number, which has few bits
MOST_SHARE = 1e50  # factor between two groups: with LEAST_CLIP, so that squares of bounds do not vanish


def clipped(rows: Rows, clip: float) -> Rows:
    """Rows (n, dimension) scaled down to L2 norm `clip` x `MARGIN` where they are longer; a row that is not finite, or whose norm is
    not, becomes zero. Norms are taken in units of the row's largest magnitude, since squares of tiny numbers vanish."""
    with np.errstate(all="ignore"):  # a warning would tell of a record
        peaks = np.abs(rows).max(axis=1, initial=0.0)
        norms = peaks * np.linalg.norm(rows / np.where(peaks > 0, peaks, 1.0)[:, None], axis=1)
    finite = np.isfinite(norms)
    long, far = finite & (norms > clip * MARGIN), finite & (norms > FAR)
    found: Rows = np.where(finite[:, None], rows, 0.0)
    found[far], norms[far] = found[far] / FAR, norms[far] / FAR
    scale = np.ones(len(rows))
    scale[long] = clip * MARGIN / norms[long]
    return found * scale[:, None]


def check_clip(clip: float) -> None:
    """Raises `BadInput` for a clip that is not a positive finite number, or whose squares or sums float64 cannot hold."""
    if not 0 < clip < math.inf:
        raise BadInput(f"clip must be a finite number greater than 0, got {clip}")
    if not LEAST_CLIP <= clip <= MOST_CLIP:
        raise BadInput(f"clip must be between {LEAST_CLIP:g} and {MOST_CLIP:g}, got {clip}; scale the vectors instead")


FARTHEST = 1000.0  # factor by which an adaptive clip may leave its first value


def proportional(noise: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """z_g for a total of `noise`, deviations in proportion to the clips: all z_g are equal, noise * sqrt(groups)."""
    return (noise * math.sqrt(len(sizes)),) * len(sizes)


def by_dimension(noise: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """z_g for a total of `noise`, adjusted to the groups' dimensions `sizes`.

    The expected L2 norm of a group's noise is about sigma_g sqrt(d_g); here it is the same multiple of S_g in every
    group: z_g = noise * sqrt(sum of d / d_g), since the z_g^-2 then add up to noise^-2.
    """
    total = sum(sizes)
    return tuple(noise * math.sqrt(total / size) if size else math.inf for size in sizes)


ALLOCATIONS: dict[str, Callable[[float, Sequence[int]], tuple[float, ...]]] = {
    "proportional": proportional,
    "dimension": by_dimension,
}


@dataclass(frozen=True, kw_only=True)
class Flat:
    """g min(1, C / |g|): all parameters together (Abadi et al. 2016). One unit moves the sum by at most C."""


@dataclass(frozen=True, kw_only=True)
class Automatic:
    """C g / (|g| + gamma): automatic clipping (Bu, Wang, Zha & Karypis 2022). Its norm is below C whatever g is."""

    gamma: float = 0.01

    def __post_init__(self) -> None:
        # A weight of 1 / gamma must be a number, or a gradient of zero is none
        if not LEAST_CLIP <= self.gamma < math.inf:
            raise BadInput(f"gamma must be a finite number of {LEAST_CLIP:g} or more, got {self.gamma}")


@dataclass(frozen=True, kw_only=True)
class PerGroup:
    """Groups of parameters, each clipped to a bound C_g of its own: a part of C, with C = (sum C_g^2)^(1/2).

    `groups` lists the names, or first parts of names, of each group's parameters; None: every layer is a group. `shares`
    are the bounds' proportions, None: equal ones, so that C_g = C / sqrt(groups). `noise` says how the noise is shared
    among groups (`ALLOCATIONS`), or holds the z_g in proportion. One unit moves the sums, each group in units of its z_g C_g, by at
    most 1 / z.
    """

    groups: tuple[tuple[str, ...], ...] | None = None
    shares: tuple[float, ...] | None = None
    noise: str | tuple[float, ...] = "proportional"

    def __post_init__(self) -> None:
        if isinstance(self.noise, str) and self.noise not in ALLOCATIONS:
            raise BadInput(f"noise of groups must be one of {', '.join(ALLOCATIONS)}, got {self.noise!r}")
        for given in (self.shares or (), () if isinstance(self.noise, str) else self.noise):
            if not all(0 < each < math.inf for each in given):
                raise BadInput(f"shares and noises of groups must be finite numbers greater than 0, got {given}")
            if given and max(given) / MOST_SHARE > min(given):
                raise BadInput(f"shares and noises of groups must lie within a factor {MOST_SHARE:g}, got {given}")


Rule = Flat | Automatic | PerGroup


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A rule said for one module: the group of each parameter, and per group, for C = 1, its bound and the scale of its
    noise, z_g C_g / z. The sum of (bound / scale)^2 over groups is 1."""

    places: Mapping[str, int]
    bounds: tuple[float, ...]
    scales: tuple[float, ...]


def layout(rule: Rule, sizes: Mapping[str, int]) -> Layout:
    """The layout for parameters of these names and sizes; raises `BadInput` where they do not fall into the groups."""
    if not isinstance(rule, PerGroup) or not sizes:
        return Layout(places=dict.fromkeys(sizes, 0), bounds=(1.0,), scales=(1.0,))
    places = _by_layer(sizes) if rule.groups is None else {name: _place(name, rule.groups) for name in sizes}
    count = max(places.values()) + 1 if rule.groups is None else len(rule.groups)
    shares = rule.shares or (1.0,) * count
    given = rule.noise
    noises = shares if isinstance(given, str) else given
    if {len(shares), len(noises)} != {count}:
        raise BadInput(
            f"there are {count} groups and {len(shares)} shares, {len(noises)} noises; give one for each group"
        )
    bounds = tuple(share / math.hypot(*shares) for share in shares)
    dimensions = [sum(size for name, size in sizes.items() if places[name] == place) for place in range(count)]
    if rule.noise == "proportional":  # in one factor, so that equal shares are exactly the noise of no groups at all
        equal = len(set(shares)) == 1
        scales = (1.0,) * count if equal else tuple(math.sqrt(count) * bound for bound in bounds)
    else:
        total = math.hypot(*(1 / noise for noise in noises))
        weights = ALLOCATIONS[given](1.0, dimensions) if isinstance(given, str) else tuple(z * total for z in given)
        scales = tuple(weight * bound for weight, bound in zip(weights, bounds, strict=True))
    return Layout(places=places, bounds=bounds, scales=scales)


def _by_layer(names: Mapping[str, int]) -> dict[str, int]:
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    return {name: layers.index(name.rpartition(".")[0]) for name in names}


def _place(name: str, groups: tuple[tuple[str, ...], ...]) -> int:
    found = [
        place
        for place, prefixes in enumerate(groups)
        if any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)
    ]
    if len(found) != 1:
        raise BadInput(f"parameter {name!r} is in {len(found)} of the groups; each must be in exactly one")
    return found[0]


def adapted(clip: float, share: float, *, quantile: float, rate: float, first: float) -> float:
    """The next clip of adaptive clipping: C exp(-rate (b - quantile)), where `share` b is the noisy share of units whose
    norm is within C (Andrew, Thakkar, McMahan & Ramaswamy 2021, equation 2); kept within a factor 1000 of the `first`."""
    step = min(max(rate * (share - quantile), -50.0), 50.0)  # no overflow, whatever the noise was
    return min(max(clip * math.exp(-step), first / FARTHEST), first * FARTHEST)


def decayed(clip: float, step: int, steps: int, last: float) -> float:
    """A clip that falls over time (after Frigerio et al. 2019) along an exponential: clip * last^(step / steps), so that it
    ends at `last` times where it began. A public function of the step."""
    return float(clip * last ** (step / steps))
