"""The two kinds of answer, and the tail bounds that turn moments and divergences into epsilon."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthdp.errors import BadInput

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class DataIndependent:
    """Epsilon at `delta` whatever the teachers say; `order` is where the bound was least. Free to publish."""

    epsilon: float
    delta: float
    order: float


@dataclass(frozen=True, kw_only=True)
class DataDependent:
    """Epsilon at `delta` for the votes that were cast. INTERNAL: this number is itself a function of the records and has no
    privacy of its own. It may not be published, stop a training, choose a parameter or enter a ledger;
    `smooth_release` says what a noisy copy of it costs. It is a bound on the loss of these records against their neighbours only.

    `answered` is how many queries were, or are expected to be, answered.
    """

    epsilon: float
    delta: float
    order: float
    answered: float
    internal: Literal[True] = True


def from_moments(whole: Array, orders: Array, delta: float) -> tuple[float, float]:
    """(epsilon, order) from log-moments (orders,): the least (alpha(l) + log(1 / delta)) / l (Abadi et al. 2016, theorem 2)."""
    _check_delta(delta)
    found = (whole - math.log(delta)) / orders
    best = int(np.argmin(found))
    return max(0.0, float(found[best])), float(orders[best])


def from_divergences(whole: Array, orders: Array, delta: float) -> tuple[float, float]:
    """(epsilon, order) from Renyi divergences (orders,): Mironov 2017, proposition 3, which the papers' figures used."""
    _check_delta(delta)
    found = whole - math.log(delta) / (orders - 1)
    best = int(np.argmin(found))
    return max(0.0, float(found[best])), float(orders[best])


def checked_orders(orders: Sequence[float] | Array, above: float) -> Array:
    """The orders as an array; raises `BadInput` where there are none, or where one is not finite and greater than `above`."""
    found = np.asarray(orders, dtype=float)
    if found.ndim != 1 or not len(found) or not bool(np.all((found > above) & np.isfinite(found))):
        raise BadInput(f"orders must be finite numbers greater than {above:g}, at least one")
    return found


def positive(name: str, value: float) -> float:
    """The value; raises `BadInput` where it is no finite number above 0."""
    if not 0 < value < math.inf:
        raise BadInput(f"{name} must be a finite number greater than 0, got {value}")
    return value


def whole_number(name: str, value: int) -> int:
    """The value; raises `BadInput` where it is no whole number, 0 or more."""
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise BadInput(f"{name} must be a whole number, 0 or more, got {value}")
    return int(value)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise BadInput(f"delta must lie strictly between 0 and 1, got {delta}")
