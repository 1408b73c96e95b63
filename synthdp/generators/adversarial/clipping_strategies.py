"""How a discriminator's gradients on records are clipped, as settings `clipping` and `clip_...` of a generator.

The noise *multipliers* are fixed by the plan; a clip that moves does so by the step or by earlier noisy answers, so ledger and
plan are the same whatever the strategy (law 11). Why each is private: `seal/clipping.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from synthdp.accounting.charges import combined
from synthdp.errors import BadInput
from synthdp.generators.parts.setting_checks import refuse_unused
from synthdp.ledger.events import Event, Gaussian
from synthdp.seal import Automatic, Batch, Counted, Flat, Gradient, PerGroup, Rule, adapted, decayed, layout

# ---- What a discriminator minimises: over records one loss each, and over generated rows, whose gradients are exact, its slope.
#
# Both losses separate over records, and nothing in the generated half comes from them (law 14).


STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient


class Loss(Protocol):
    """The two halves of a discriminator's loss."""

    def real(self, scores: Tensor) -> Tensor:
        """One per record, (rows,)."""
        ...

    def slope(self, scores: Tensor) -> Tensor:
        """Derivative of a generated row's loss by its score, (rows,)."""
        ...

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:
        """Squared norms (layers, rows) that generated rows' clips are taken by, from those of the scores' gradients."""
        ...


@dataclass(frozen=True)
class Linear:
    """-D of records, D + penalty D^2 / 2 of generated rows: at its best D is (p / q - 1) / penalty, so that the square keeps
    the scores near zero where the generator q is close to the records' p, as from noisy tables of few columns."""

    penalty: float

    def real(self, scores: Tensor) -> Tensor:
        return -scores

    def slope(self, scores: Tensor) -> Tensor:
        return (1 + self.penalty * scores).clamp(-STRONGEST, STRONGEST)

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:  # noqa: ARG002
        return squares


@dataclass(frozen=True)
class Logistic:
    """log(1 + e^-D) of records, log(1 + e^D) of generated rows (Goodfellow et al. 2014, with the generator's loss -D): pictures
    that are easily told from records, where p / q has no bound, pull no harder than others."""

    def real(self, scores: Tensor) -> Tensor:
        return functional.softplus(-scores)

    def slope(self, scores: Tensor) -> Tensor:
        return torch.sigmoid(scores)

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:
        return squares * slope.square()


STRATEGIES = {
    "flat": "the whole gradient is clipped to clip",
    "per_layer": "each layer is clipped to clip / sqrt(layers)",
    "per_group": "each layer is clipped to its share of clip (clip_shares), and noise is shared by clip_allocation",
    "adaptive": "clip follows a quantile of the norms, by a noisy count",
    "decay": "clip falls over the steps to clip_decay times its first value",
    "automatic": "each gradient is scaled to nearly clip: clip * g / (|g| + clip_gamma)",
}
APPLIES = {  # setting -> the only strategy that reads it
    "clip_quantile": "adaptive",
    "clip_speed": "adaptive",
    "clip_count_noise": "adaptive",
    "clip_decay": "decay",
    "clip_gamma": "automatic",
    "clip_shares": "per_group",
    "clip_allocation": "per_group",
}
# The deviation of an adaptive clip's count, unless given: the expected batch over 20 (Andrew et al. 2021), or 5 times the
# gradient's noise where that is more, so that the count never takes more than 1 % of a step's precision.
COUNT_SHARE, COUNT_LEAST = 20, 5.0


class Rules(Protocol):
    """What a generator lets its user choose."""

    @property
    def clipping(self) -> str: ...
    @property
    def clip(self) -> float: ...
    @property
    def clip_quantile(self) -> float: ...
    @property
    def clip_speed(self) -> float: ...
    @property
    def clip_count_noise(self) -> float | None: ...
    @property
    def clip_decay(self) -> float: ...
    @property
    def clip_gamma(self) -> float: ...
    @property
    def clip_shares(self) -> tuple[float, ...]: ...
    @property
    def clip_allocation(self) -> str: ...


class Settings(Rules, Protocol):
    """The same, with the number of steps that it is chosen for."""

    @property
    def steps(self) -> int: ...


def check(settings: Rules, layers: int) -> None:
    """Refuse settings that the chosen strategy would not read, and shares that are not one a layer."""
    refuse_unused(settings, "clipping", APPLIES)
    if settings.clip_shares and len(settings.clip_shares) != layers:
        raise BadInput(f"generator.clip_shares must hold one number greater than 0 for each of the {layers} layers")


def rule(settings: Rules) -> Rule:
    """What happens to one gradient in one step."""
    if settings.clipping == "automatic":
        return Automatic(gamma=settings.clip_gamma)
    if settings.clipping == "per_layer":
        return PerGroup()
    if settings.clipping == "per_group":
        return PerGroup(shares=settings.clip_shares or None, noise=settings.clip_allocation)
    return Flat()


def count_deviation(settings: Rules, expected: float | None, noise: float) -> float | None:
    """sigma_b, the standard deviation of the count's noise beside a gradient of this noise; None where nothing is counted.

    `expected` is the public expected batch size, None where the schema does not say.
    """
    if settings.clipping != "adaptive" or settings.clip_count_noise is not None:
        return settings.clip_count_noise
    if expected is None:
        raise BadInput(
            "clipping=adaptive needs generator.clip_count_noise, or units in the schema: its default is a twentieth of the "
            "expected batch"
        )
    return max(expected / COUNT_SHARE, COUNT_LEAST * noise)


def events(noise: float, deviation: float | None) -> tuple[Event, ...]:
    """What one step asks of its sample, with `noise` for the gradient: the gradient, and the count if there is one."""
    return (Gaussian(noise),) if deviation is None else (Gaussian(noise), Gaussian(2 * deviation))


def together(noise: float, deviation: float | None) -> float:
    """The noise of all that one step asks."""
    return noise if deviation is None else combined([noise, 2 * deviation])


class Clipper:
    """The clip of one training, from step to step."""

    def __init__(
        self,
        settings: Settings,
        module: nn.Module,
        noise: float,
        deviation: float | None,
        *,
        groups: tuple[tuple[str, ...], ...] = (),
        microbatches: int | None = None,
    ) -> None:
        """`groups` are names of parameters for `per_group`, by default each layer is one; `microbatches`: see `Gradient`."""
        self._settings, self._multiplier, self._deviation = settings, noise, deviation
        self._rule, self._microbatches = rule(settings), microbatches
        if groups and isinstance(self._rule, PerGroup):
            self._rule = replace(self._rule, groups=groups)
        trained = {name: value.numel() for name, value in module.named_parameters() if value.requires_grad}
        self._bounds = layout(self._rule, trained).bounds
        self.clip = self._next = settings.clip

    def gradient(
        self, batch: Batch, module: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor], step: int, expected: float
    ) -> Mapping[str, Tensor]:
        """The noisy clipped gradient sum of a sample of `expected` units, by parameter name."""
        settings = self._settings
        self.clip = self._next
        if settings.clipping == "decay":
            self.clip = decayed(settings.clip, step, settings.steps, settings.clip_decay)
        question = self.question(module, loss, step, expected)
        if self._deviation is None:
            return batch.ask(question)
        sums, within = batch.ask(Counted(question, self._deviation))
        share = 0.5 + within / expected
        self._next = adapted(
            self.clip, share, quantile=settings.clip_quantile, rate=settings.clip_speed, first=settings.clip
        )
        return sums

    def question(
        self, module: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor], step: int, expected: float
    ) -> Gradient:
        """The gradient that a step asks for."""
        return Gradient(
            module, loss, self.clip, self._multiplier, self._rule, self._microbatches, step, expected=expected
        )

    def weights(self, squares: Tensor) -> Sequence[Tensor]:
        """What generated rows' gradients are multiplied by, to be bounded as records' are: one (rows,) for all layers, or one
        for each. `squares` are squared norms, (layers, rows)."""
        if isinstance(self._rule, Automatic):
            return [self.clip / (squares.sum(0).sqrt() + self._rule.gamma)]
        if len(self._bounds) == 1:
            return [_shrink(self.clip, squares.sum(0).sqrt())]
        return [_shrink(self.clip * bound, own.sqrt()) for bound, own in zip(self._bounds, squares, strict=True)]

    def state(self) -> dict[str, NDArray[np.float64]]:
        """What the next step depends on."""
        return {"clip": np.array([self.clip, self._next])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `state`."""
        self.clip, self._next = (float(value) for value in state["clip"])


def _shrink(bound: float, norms: Tensor) -> Tensor:
    return (bound / norms.clamp_min(1e-12)).clamp_max(1.0)
