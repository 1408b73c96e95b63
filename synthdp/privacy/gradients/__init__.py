"""Sums of clipped per-unit gradients at nearly the price of an ordinary gradient (Abadi et al. 2016, algorithm 1).

`clipped_gradient_sum` is the whole of it: book-keeping (Bu, Wang, Zha & Karypis 2022) where every parameter belongs to a
layer that `layers` knows, `torch.func.vmap` elsewhere. `add_noise` is where sums meet noise.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.privacy.gradients import bookkeeping, fallback
from synthdp.privacy.gradients.bound import MARGIN, Gradients, Sums
from synthdp.privacy.gradients.memory import keep_freed_memory
from synthdp.privacy.gradients.reference import per_unit_reference
from synthdp.privacy.gradients.rows import Batch
from synthdp.privacy.gradients.survey import Owners, Trained, survey

__all__ = ["MARGIN", "Gradients", "add_noise", "clipped_gradient_sum", "per_unit_reference"]

Loss = Callable[[nn.Module, Tensor], Tensor]


class Draws(Protocol):
    """Where sums meet noise, such as `noise.Noise`."""

    def added_flat(self, sums: Tensor, deviation: float) -> Tensor:
        """`sums` (n,) plus independent N(0, deviation^2), float32."""
        ...


def clipped_gradient_sum(
    module: nn.Module,
    loss: Loss,
    records: Tensor,
    mask: Tensor | None,
    clip: float,
    *,
    microbatch: int = 4096,
) -> Gradients:
    """Sum over units of the gradient of the unit's loss, each scaled down to L2 norm `clip` * (1 - 1e-4) at most.

    `records` is (units, ...), one record each, or with a `mask` (units, R) it is (units, R, ...), and unit u holds the
    records where mask[u]; a unit's loss is the sum over its records, so its *summed* gradient is clipped.
    `loss(module, flat)` maps (n, ...) to n losses, and loss i may depend on record i alone: no statistics of the batch.
    That cannot be read off a function; compare with `per_unit_reference`, which takes one unit at a time.

    Returns sums by the name of each parameter that requires a gradient (0 units: zeros), views of one flat tensor. They
    do not depend on `microbatch`, the units per forward pass, beyond rounding. Products of at most 256 units (1,024 where
    there are at most 65,536) are taken in the parameters' type and added up in float64, so one unit more moves the result
    by at most `clip` (GUARANTEE 12); up to 1,024 units in all there is nothing to add up, and the result keeps the
    parameters' type. Units with
    a non-finite gradient, or a norm that overflows, contribute zero. A unit whose positions cancel more than 300-fold
    is scaled down further: float32 cannot vouch for its norm.

    Nothing is written to `module`. Raises `BadInput` for layers that mix records or keep statistics of them (BatchNorm).
    """
    if not 0 < clip < float("inf"):
        raise BadInput(f"clip must be a finite number greater than 0, got {clip}")
    if microbatch < 1:
        raise BadInput(f"microbatch must be 1 or more, got {microbatch}")
    if mask is not None and mask.shape != records.shape[:2]:
        raise BadInput(f"mask must have the shape (units, R) = {tuple(records.shape[:2])}, got {tuple(mask.shape)}")
    keep_freed_memory()
    trained, layers = survey(module)
    if any(parameter.dtype not in (torch.float32, torch.float64) for parameter in trained.values()):
        raise BadInput("parameters must be float32 or float64: in fewer bits a clipped gradient may exceed its bound")
    with torch.autocast(records.device.type, enabled=False):
        return _clipped_sum(module, loss, records, mask, clip, microbatch, trained, layers)


def _clipped_sum(
    module: nn.Module,
    loss: Loss,
    records: Tensor,
    mask: Tensor | None,
    clip: float,
    microbatch: int,
    trained: Trained,
    layers: Owners | None,
) -> Gradients:
    sums = Sums(trained, len(records))
    for start in range(0, len(records), microbatch):
        batch = Batch.of(
            records[start : start + microbatch], None if mask is None else mask[start : start + microbatch]
        )
        if layers is None or not bookkeeping.add(module, loss, batch, clip, layers, sums):
            layers = None  # what one pass could not follow, the next will not either
            fallback.add(module, loss, batch, clip, trained, sums)
    return sums.finished()


def add_noise(sums: Gradients, deviation: float, noise: Draws) -> Gradients:
    """The sums plus independent N(0, deviation^2) on every coordinate, rounded to float32: one draw for all parameters."""
    return Gradients(noise.added_flat(sums.flat, deviation), sums)
