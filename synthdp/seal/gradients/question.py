"""The noisy clipped gradient sum of a network: the fast path of `sum`, under the same event (Abadi et al. 2016)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.ledger.events import Event, Gaussian
from synthdp.noise.noise import Noise
from synthdp.seal.callbacks import ByRow
from synthdp.seal.clipping import Layout, Rule, check_clip, layout
from synthdp.seal.gradients import FLAT, Gradients, add_noise, losses, sum_and_count
from synthdp.seal.gradients.bookkeeping import survey
from synthdp.seal.gradients.buckets import mixed, prepared, stirred
from synthdp.seal.records import Codes, Records
from synthdp.seal.vectors import Joint, Sums

STIRRED = 1 << 23  # parameters of a module that is tried at made-up weights, at most


@dataclass(frozen=True)
class Gradient:
    """Sum over units of the gradient of the unit's loss, clipped to `clip` by `rule`, plus N(0, (noise * clip)^2).

    `loss(module, codes)` maps codes (records, columns) to one loss per record and must treat each record on its own; a
    unit's loss is the sum over its records. One unit more moves the sum by at most `clip`.

    With `microbatches` = M (McMahan, Andrew et al. 2018, table 1) units are dealt into M microbatches by their keys and the
    public number `deal`, and the *mean* gradient of each is clipped. No unit's place depends on the others, so one unit more
    changes one clipped mean: a vector of norm at most `clip` becomes another, the sum moves by at most 2 * clip, and the
    deviation is noise * 2 * clip for the same event.

    `expected` is how many units there will be, a public number, as far as it is known: with it the gradients of single records are
    computed in float32, in buckets of about so many units (`buckets`), if the module allows it and its rows do not move when probed.
    Otherwise, with several records a unit and in microbatches, everything is float64.
    """

    module: nn.Module
    loss: Callable[[nn.Module, Tensor], Tensor]
    clip: float
    noise: float
    rule: Rule = FLAT
    microbatches: int | None = None
    deal: int = 0
    expected: float | None = None

    def __post_init__(self) -> None:
        check_clip(self.clip)
        if self.expected is not None and not 0 <= self.expected < math.inf:
            raise BadInput(f"expected must be a finite number of 0 or more, got {self.expected}")
        if not self.noise >= 0:
            raise BadInput(f"noise must be 0 or more, got {self.noise}")
        if self.microbatches is not None and self.microbatches < 1:
            raise BadInput(f"microbatches must be 1 or more, got {self.microbatches}")

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian: groups of parameters share its noise, see `PerGroup`."""
        return [Gaussian(self.noise)]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """The loss, which must answer for each record alone, at these weights and at made-up ones, since a layer that starts at zero hides
        the layers before it; then its rounding, which is probed (`prepared`)."""
        return [
            ("loss", self.loss, self._losses),
            ("loss at made-up weights", self.loss, self._losses_elsewhere),
            ("rounding of the loss", self.loss, self._probed),
        ]

    def _losses(self, codes: Codes) -> NDArray[np.float64]:
        if len(codes) == 0:
            return np.zeros(0)  # no loss is ever asked about no record
        return losses(self.module, self.loss, torch.from_numpy(codes).to(self._device)).cpu().numpy()

    def _losses_elsewhere(self, codes: Codes) -> NDArray[np.float64]:
        """The same at made-up weights; zeros for very large modules, and where the module cannot have such weights (a scale below 0)."""
        numbers = sum(parameter.numel() for parameter in self.module.parameters())
        if len(codes) == 0 or numbers > STIRRED:
            return np.zeros(len(codes))

        def elsewhere(module: nn.Module, rows: Tensor) -> Tensor:
            return stirred(self.loss, survey(module)[0], 0)(module, rows)

        try:
            found: NDArray[np.float64] = (
                losses(self.module, elsewhere, torch.from_numpy(codes).to(self._device)).cpu().numpy()
            )
        except (ArithmeticError, RuntimeError, ValueError):
            return np.zeros(len(codes))
        return found

    def _probed(self, codes: Codes) -> NDArray[np.float64]:
        """Zeros. The first codes, which are made up, are what a module's rounding is probed on."""
        if self.expected is not None and self.microbatches is None and len(codes):
            prepared(self.module, self.loss, self.expected, torch.from_numpy(codes).to(self._device))
        return np.zeros(len(codes))

    @property
    def _device(self) -> torch.device:
        return next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))

    @property
    def additive(self) -> bool:
        """A sum over units, unless microbatches take means over several."""
        return self.microbatches is None

    @property
    def sensitivity(self) -> float:
        """The clip; with microbatches twice the clip."""
        return self.clip if self.microbatches is None else 2 * self.clip

    def bounded(self, records: Records) -> Gradients:
        """The clipped sum, by parameter name."""
        return self.measured(records, counting=False)[0]

    def measured(self, records: Records, *, counting: bool) -> tuple[Gradients, float]:
        """The clipped sum, and the count of `sum_and_count` (0 unless `counting`) from the same pass."""
        device = self._device
        counts = None
        if self.microbatches is not None:
            records, sizes = dealt(records, self.microbatches, self.deal)
            counts = torch.from_numpy(sizes).to(device)
        if records.max_records > 1 or counts is not None:
            codes, mask = records.padded_on(device)
            return sum_and_count(
                self.module, self.loss, codes, mask, self.clip, rule=self.rule, counts=counts, counting=counting
            )
        known = None if self.expected is None else prepared(self.module, self.loss, self.expected)
        codes = records.encoded_on(device)
        return sum_and_count(
            self.module,
            self.loss,
            codes,
            None,
            self.clip,
            rule=self.rule,
            counting=counting,
            keys=records.keys,
            prepared=known,
        )

    def noised(self, bounded: Gradients, noise: Noise) -> Gradients:
        """The noisy sum, by parameter name; one draw for all parameters."""
        deviation = self.noise * self.sensitivity
        groups = self._layout(bounded)
        if set(groups.scales) == {1.0}:
            return add_noise(bounded, deviation, noise)
        noisy = add_noise(_scaled(Gradients(bounded.flat.double(), bounded), groups, -1), deviation, noise)
        return _scaled(noisy, groups, 1)  # post-processing

    def movement(self, one: Gradients, other: Gradients) -> float:
        """L2 distance over all parameters, each in units of the scale of its group's noise."""
        scales = self._layout(one)
        apart = Gradients(one.flat.double() - other.flat.double(), one)
        return float(_scaled(apart, scales, -1).flat.norm())

    def _layout(self, sums: Mapping[str, Tensor]) -> Layout:
        return layout(self.rule, {name: value.numel() for name, value in sums.items()})


def _scaled(sums: Gradients, groups: Layout, power: int) -> Gradients:
    scaled = Gradients(sums.flat.clone(), sums)
    for name, value in scaled.items():
        value.mul_(groups.scales[groups.places[name]] ** power)
    return scaled


def dealt(records: Records, microbatches: int, deal: int) -> tuple[Records, NDArray[np.int64]]:
    """Microbatches in the place of units, and how many units each holds.

    Where a unit goes is a function of its own secret key and of `deal` alone.
    """
    place = (mixed(records.keys, deal) % np.uint64(microbatches)).astype(np.int64)
    order = np.argsort(place[records.owner], kind="stable")
    owner = place[records.owner][order]
    most = int(np.bincount(owner, minlength=1).max())
    together = Records(
        units=microbatches,
        owner=owner,
        raw=None,
        codes=records.encoded()[order],
        max_records=max(1, most),
        keys=np.zeros(0, np.uint64),
    )
    return together, np.bincount(place, minlength=microbatches)


# ---- Private statistics gathered beside gradients: further groups of the same sample (McMahan, Andrew et al. 2018, section 2).


@dataclass(frozen=True)
class Counted:
    """A gradient, and how many units had a norm within its clip: sum of -1/2 and +1/2, plus N(0, deviation^2).

    One unit moves that sum by at most 1/2 (Andrew, Thakkar, McMahan & Ramaswamy 2021, section 2), so its noise is 2 * deviation;
    the norms are those that the gradient is clipped by, from the same pass. With microbatches it counts those, and one unit
    moves it by 1: the noise is `deviation`.
    """

    gradient: Gradient
    deviation: float

    def __post_init__(self) -> None:
        if not self.deviation > 0:
            raise BadInput(f"the standard deviation of the count's noise must be greater than 0, got {self.deviation}")

    @property
    def events(self) -> Sequence[Event]:
        """The gradient's, and the count's Gaussian."""
        return [*self.gradient.events, Gaussian(self.deviation / self._bit)]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """The gradient's."""
        return self.gradient.by_row

    @property
    def additive(self) -> bool:
        """As the gradient is."""
        return self.gradient.additive

    @property
    def sensitivity(self) -> float:
        """Gradient and count stacked, each in units of its own sensitivity."""
        return math.sqrt(2)

    def bounded(self, records: Records) -> tuple[Gradients, float]:
        """The clipped sum and the exact count."""
        return self.gradient.measured(records, counting=True)

    def noised(self, bounded: tuple[Gradients, float], noise: Noise) -> tuple[Gradients, float]:
        """The noisy sum and the noisy count."""
        sums, within = bounded
        return self.gradient.noised(sums, noise), float(noise.added(np.array([within]), self.deviation)[0])

    def movement(self, one: tuple[Gradients, float], other: tuple[Gradients, float]) -> float:
        """Gradient and count stacked, each in units of its own sensitivity."""
        moved = self.gradient.movement(one[0], other[0]) / self.gradient.sensitivity
        return math.hypot(moved, (one[1] - other[1]) / self._bit)

    @property
    def _bit(self) -> float:
        return 0.5 if self.gradient.microbatches is None else 1.0


Part = Gradient | Counted | Sums | Joint
KINDS = (Gradient, Counted, Sums, Joint)


@dataclass(frozen=True)
class Together:
    """Several questions of one and the same sample, such as a gradient and the sum of clipped losses.

    Their values stacked, each in units of its sensitivity and divided by its noise, are one Gaussian vector: of one sample it
    is `Sampled(rate, (Gaussian(z_1), Gaussian(z_2), ...))`, with the noise (sum z_i^-2)^(-1/2) of all together.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        foreign = [type(part).__name__ for part in self.parts if type(part) not in KINDS]
        if foreign or not self.parts:
            known = ", ".join(kind.__name__ for kind in KINDS)
            raise BadInput(f"parts must be one or more of {known}; got {', '.join(foreign) or 'none'}")

    @property
    def events(self) -> Sequence[Event]:
        """The events of all parts."""
        return [event for part in self.parts for event in part.events]

    @property
    def by_row(self) -> Sequence[tuple[str, Callable[..., Any], ByRow]]:
        """All parts'."""
        return [each for part in self.parts for each in part.by_row]

    @property
    def additive(self) -> bool:
        """If all parts are."""
        return all(part.additive for part in self.parts)

    @property
    def sensitivity(self) -> float:
        """All parts stacked, each in units of its own sensitivity."""
        return math.sqrt(len(self.parts))

    def bounded(self, records: Records) -> list[Any]:
        """One exact value per part."""
        return [part.bounded(records) for part in self.parts]

    def noised(self, bounded: list[Any], noise: Noise) -> list[Any]:
        """One answer per part."""
        return [part.noised(value, noise) for part, value in zip(self.parts, bounded, strict=True)]

    def movement(self, one: list[Any], other: list[Any]) -> float:
        """All parts stacked, each in units of its own sensitivity."""
        triples = zip(self.parts, one, other, strict=True)
        return math.sqrt(sum((part.movement(a, b) / part.sensitivity) ** 2 for part, a, b in triples))
