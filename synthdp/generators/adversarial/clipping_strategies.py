"""How a network's gradients on records are clipped, as settings `clipping` and `clip_...` of a generator or a trainer.

The noise *multipliers* are fixed by the plan; a clip that changes follows the step or earlier noisy answers, so the ledger
and the plan are the same whatever the strategy (law 11). Why each is private: `seal/clipping.py`. Groups of vectors, joint clipping,
microbatches and statistics beside gradients follow McMahan, Andrew et al. 2018 (arXiv 1812.06210).
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators.parts.setting_checks import refuse_ignored, refuse_unused
from synthdp.ledger.events import Gaussian
from synthdp.options import fraction, number, one_of, option, positive, several, whole
from synthdp.seal import (
    ALLOCATIONS,
    Automatic,
    Batch,
    Counted,
    Flat,
    Gradient,
    PerGroup,
    Rule,
    Sums,
    Together,
    adapted,
    decayed,
    layout,
)

Groups = tuple[tuple[str, ...], ...]  # names of parameters, or their first parts

# ---- What a discriminator minimises: over records one loss each, and over generated rows, whose gradients are exact, its slope.
#
# Both losses separate over records, and nothing in the generated half comes from them (law 14).


STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient


@dataclass(frozen=True)
class Linear:
    """-D of records, D + penalty D^2 / 2 of generated rows: at its best D is (p / q - 1) / penalty, so that the square keeps
    the scores near zero where the generator q is close to the records' p, as from noisy tables of few columns."""

    penalty: float

    def real(self, scores: Tensor) -> Tensor:
        """One per record, (rows,)."""
        return -scores

    def slope(self, scores: Tensor) -> Tensor:
        """Derivative of a generated row's loss by its score, (rows,)."""
        return (1 + self.penalty * scores).clamp(-STRONGEST, STRONGEST)

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:  # noqa: ARG002
        """Squared norms (layers, rows) that generated rows' clips are taken by, from those of the scores' gradients."""
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


Loss = Linear | Logistic


STRATEGIES = {
    "flat": "the whole gradient is clipped to clip",
    "per_layer": "each layer is clipped to clip / sqrt(layers)",
    "per_group": "each layer is clipped to its share of clip (clip_shares or clip_bounds), and noise is shared by clip_allocation "
    "or clip_noises",
    "joint": "each layer is divided by its alpha (clip_alphas), and all together are clipped to clip x sqrt(layers)",
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
    "clip_bounds": "per_group",
    "clip_allocation": "per_group",
    "clip_noises": "per_group",
    "clip_alphas": "joint",
}
BOUNDS = {"equal": "alike", "dimension": "in proportion to the square root of the number of weights"}
# The deviation of an adaptive clip's count, unless given: the expected batch over 20 (Andrew et al. 2021), or 5 times the
# gradient's noise where that is more, so that the count never takes more than 1 % of a step's precision.
COUNT_SHARE, COUNT_LEAST = 20, 5.0
MOST_GROUPS = 1000


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """The options of generators and trainers that say how gradients on records are clipped."""

    clip: float = option(
        1.0, "L2 bound on a unit's gradient; where the bound changes during training, its first value", positive()
    )
    clipping: str = option(
        "flat", "; ".join(f"{name}: {meaning}" for name, meaning in STRATEGIES.items()), one_of(*STRATEGIES)
    )
    clip_quantile: float = option(
        0.5, "adaptive: share of the units whose gradients the clip should leave unchanged", fraction()
    )
    clip_speed: float = option(
        0.2, "adaptive: each step multiplies the clip by exp(-clip_speed x (share - quantile))", positive()
    )
    clip_count_noise: float | None = option(
        None,
        "adaptive: standard deviation of the noise on the count; default: batch / 20, or 5 x the gradient's noise if that"
        " is larger",
        positive(),
    )
    clip_decay: float = option(
        0.1, "decay: ratio of the clip's last value to its first; it falls exponentially", number("(0, 1]")
    )
    clip_gamma: float = option(
        0.01, "automatic: number added to the norm by which each gradient is divided", positive()
    )
    clip_shares: tuple[float, ...] = option(
        (), "per_group: proportions of the layers' bounds; default: equal", several(positive(), 0, MOST_GROUPS)
    )
    clip_bounds: str = option(
        "equal",
        f"per_group: the bounds where there are no clip_shares: {'; '.join(f'{a} ({b})' for a, b in BOUNDS.items())}",
        one_of(*BOUNDS),
    )
    clip_allocation: str = option(
        "proportional",
        "per_group: what is proportional to a group's bound: its noise (proportional) or the norm of its noise (dimension)",
        one_of(*ALLOCATIONS),
    )
    clip_noises: tuple[float, ...] = option(
        (),
        "per_group: the noise of each layer in proportion to its bound, in place of clip_allocation; such as [1,2,4]",
        several(positive(), 0, MOST_GROUPS),
    )
    clip_alphas: tuple[float, ...] = option(
        (),
        "joint: divisor of each layer's gradient, best about its norm; default: proportional to the square root of the number of "
        "weights, with mean square 1",
        several(positive(), 0, MOST_GROUPS),
    )
    microbatches: int | None = option(
        None,
        "number of groups into which keyed coins deal the units of a sample; each group's mean gradient is clipped, and one unit then "
        "moves the sum by two clips",
        whole(),
    )


def check(settings: Clipping, layers: int | None = None, where: str = "generator.") -> None:
    """Refuse settings that the chosen strategy would not read, two that say the same, and lists without one number for each of the
    `layers`, where their number is known."""
    refuse_unused(settings, "clipping", APPLIES, where)
    for name, other in (("clip_shares", "clip_bounds"), ("clip_noises", "clip_allocation")):
        if getattr(settings, name):
            refuse_ignored(settings, (other,), f"{where}{name}", where)
    for name in ("clip_shares", "clip_noises", "clip_alphas"):
        if layers is not None and getattr(settings, name) and len(getattr(settings, name)) != layers:
            raise BadInput(f"{where}{name} must hold one number greater than 0 for each of the {layers} layers")
    if settings.microbatches is not None and settings.clipping == "adaptive":
        raise BadInput(
            f"clipping=adaptive counts units, not microbatches: leave {where}microbatches out, or take another clipping"
        )


def rule(settings: Clipping, trained: Mapping[str, int], groups: Groups = ()) -> Rule:
    """What happens to one gradient in one step; `trained` are the sizes of the parameters, `groups` as of `PerGroup`."""
    if settings.clipping == "automatic":
        return Automatic(gamma=settings.clip_gamma)
    if settings.clipping == "per_layer":
        return PerGroup()
    if settings.clipping != "per_group":
        return Flat()
    shares = settings.clip_shares or None
    if settings.clip_bounds == "dimension":
        shares = tuple(math.sqrt(size) for size in dimensions(trained, groups)[1])
    return PerGroup(groups=groups or None, shares=shares, noise=settings.clip_noises or settings.clip_allocation)


def dimensions(trained: Mapping[str, int], groups: Groups = ()) -> tuple[Mapping[str, int], list[int]]:
    """The group of each parameter, and the number of weights of each group; without `groups`, each layer is one."""
    places = layout(PerGroup(groups=groups or None), trained).places
    count = len(groups) or 1 + max(places.values(), default=0)
    return places, [sum(trained[name] for name in trained if places[name] == group) for group in range(count)]


def count_deviation(settings: Clipping, expected: float | None, noise: float) -> float | None:
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


def events(noise: float, deviation: float | None, beside: Sequence[float] = ()) -> tuple[Gaussian, ...]:
    """What one step asks of its sample: the gradient of this noise, the count of units within the clip if there is one, and statistics
    of the noises `beside`."""
    counts = () if deviation is None else (2 * deviation,)
    return tuple(Gaussian(each) for each in (noise, *counts, *beside))


class Apart(nn.Module):
    """A layer whose weights are alpha times those that it stands for: since its output is linear in them, that is divided by alpha."""

    def __init__(self, layer: nn.Module, alpha: float) -> None:
        super().__init__()
        self.layer, self.alpha = layer, alpha

    def forward(self, *inputs: Any) -> Any:
        return self.layer(*inputs) / self.alpha


LINEAR_IN_WEIGHTS = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding, nn.LayerNorm, nn.GroupNorm)


class Rescaled:
    """A network in other units: each layer g has the weights phi_g = alpha_g theta_g, and does the same.

    The gradient by phi is that by theta with each layer divided by its alpha_g. So joint clipping (McMahan & Andrew 2018) is flat
    clipping of this network: one vector a unit, and one Gaussian. Multiplying the answer by alpha_g is post-processing.
    """

    def __init__(self, module: nn.Module, places: Mapping[str, int], alphas: Sequence[float]) -> None:
        named = list(module.named_parameters(remove_duplicate=False))
        shared = {
            name for name, value in named if sum(value is other for _, other in named) > 1 and value.requires_grad
        }
        if shared:
            raise BadInput(
                f"clipping=joint needs weights that belong to one layer alone: {min(shared)!r} is used twice"
            )
        self._module = copy.deepcopy(module)
        self._alphas: dict[str, float] = {}  # by the parameter's name in the network as it was
        for name, layer in list(self._module.named_modules()):
            own = {f"{name}.{short}".lstrip(".") for short, _ in layer.named_parameters(recurse=False)}
            groups = {places[each] for each in own if each in places}
            if not groups:
                continue
            if not isinstance(layer, LINEAR_IN_WEIGHTS) or len(groups) > 1:
                raise BadInput(
                    f"clipping=joint needs layers whose output is linear in their weights, each in one group: layer {name or 'itself'!r} "
                    f"({type(layer).__name__}) is not"
                )
            alpha = alphas[groups.pop()]
            self._alphas |= dict.fromkeys(own, alpha)
            self._module = _put(self._module, name, Apart(layer, alpha))

    @torch.no_grad()
    def of(self, module: nn.Module) -> nn.Module:
        """The same network, with the weights and buffers that `module` has now."""
        for (name, value), own in zip(module.named_parameters(), self._module.parameters(), strict=True):
            own.copy_(value * self._alphas.get(name, 1.0))
        for held, kept in zip(module.buffers(), self._module.buffers(), strict=True):
            kept.copy_(held)
        return self._module

    def back(self, sums: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
        """Sums by the names and in the units of `module`."""
        pairs = zip(module.named_parameters(), self._module.named_parameters(), strict=True)
        return {name: sums[own] * self._alphas[name] for (name, _), (own, _) in pairs if own in sums}


def _put(module: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    """The module with a layer in the place of the one of this name."""
    if not name:
        return layer
    parent, _, short = name.rpartition(".")
    setattr(module.get_submodule(parent), short, layer)
    return module


class Clipper:
    """The clip of one training, from step to step."""

    def __init__(
        self,
        settings: Clipping,
        module: nn.Module,
        noise: float,
        deviation: float | None,
        *,
        steps: int,
        groups: Groups = (),
    ) -> None:
        """`groups` are names of parameters for `per_group` and `joint`, by default each layer is one."""
        self._settings, self._multiplier, self._deviation, self._steps = settings, noise, deviation, steps
        trained = {name: value.numel() for name, value in module.named_parameters() if value.requires_grad}
        self._rule = rule(settings, trained, groups)
        self._bounds = layout(self._rule, trained).bounds
        self._alphas: tuple[float, ...] = ()
        self._rescaled: Rescaled | None = None
        first = settings.clip
        if settings.clipping == "joint":
            places, sizes = dimensions(trained, groups)
            self._alphas = settings.clip_alphas or tuple(math.sqrt(len(sizes) * size / sum(sizes)) for size in sizes)
            if len(self._alphas) != len(sizes):
                raise BadInput(
                    f"there are {len(sizes)} groups and {len(self._alphas)} clip_alphas; give one for each group"
                )
            self._rescaled, first = Rescaled(module, places, self._alphas), settings.clip * math.sqrt(len(sizes))
        self.clip = self._next = first
        self.told: list[NDArray[np.float64]] = []

    def gradient(
        self,
        batch: Batch,
        module: nn.Module,
        loss: Callable[[nn.Module, Tensor], Tensor],
        step: int,
        expected: float,
        beside: Sums | None = None,
    ) -> Mapping[str, Tensor]:
        """The noisy clipped gradient sum of a sample of `expected` units, by parameter name. What is asked `beside` it, of the same
        sample, is answered in `told`."""
        settings = self._settings
        self.clip = self._next
        if settings.clipping == "decay":
            self.clip = decayed(settings.clip, step, self._steps, settings.clip_decay)
        question = self.question(module, loss, step, expected)
        if self._deviation is None:
            answer: Mapping[str, Tensor] = self._asked(batch, question, beside)
            return answer if self._rescaled is None else self._rescaled.back(answer, module)
        sums, within = self._asked(batch, Counted(question, self._deviation), beside)
        share = 0.5 + within / expected
        found: Mapping[str, Tensor] = sums
        self._next = adapted(
            self.clip, share, quantile=settings.clip_quantile, rate=settings.clip_speed, first=settings.clip
        )
        return found

    def _asked(self, batch: Batch, question: Gradient | Counted, beside: Sums | None) -> Any:
        if beside is None:
            return batch.ask(question)
        answer, self.told = batch.ask(Together((question, beside)))
        return answer

    def question(
        self, module: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor], step: int, expected: float
    ) -> Gradient:
        """The gradient that a step asks for."""
        asked, settings = module if self._rescaled is None else self._rescaled.of(module), self._settings
        return Gradient(
            asked, loss, self.clip, self._multiplier, self._rule, settings.microbatches, step, expected=expected
        )

    def weights(self, squares: Tensor) -> Sequence[Tensor]:
        """What generated rows' gradients are multiplied by, to be bounded as records' are: one (rows,) for all layers, or one
        for each. `squares` are squared norms, (layers, rows)."""
        if isinstance(self._rule, Automatic):
            return [self.clip / (squares.sum(0).sqrt() + self._rule.gamma)]
        if self._alphas:
            scaled = squares / squares.new_tensor(self._alphas).square()[:, None]
            return [_shrink(self.clip, scaled.sum(0).sqrt())]
        if len(self._bounds) == 1:
            return [_shrink(self.clip, squares.sum(0).sqrt())]
        return [_shrink(self.clip * bound, own.sqrt()) for bound, own in zip(self._bounds, squares, strict=True)]

    def state(self) -> dict[str, NDArray[np.float64]]:
        """What the next step depends on."""
        return {"clip": np.array([self.clip, self._next])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.clip, self._next = (float(value) for value in state["clip"])


def _shrink(bound: float, norms: Tensor) -> Tensor:
    return (bound / norms.clamp_min(1e-12)).clamp_max(1.0)
