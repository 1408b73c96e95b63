"""Sums of clipped per-unit gradients in one pass, with no gradient of any single unit (Abadi et al. 2016, algorithm 1).

`sum_and_count` is the whole of it: book-keeping (Bu, Wang, Zha & Karypis 2022) where every
parameter belongs to a layer that `layers` knows, `torch.func.vmap` elsewhere. `add_noise` is where sums meet noise.
"""

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from synthdp.errors import BadInput
from synthdp.noise.noise import Noise
from synthdp.seal.callbacks import source
from synthdp.seal.clipping import Layout, PerGroup, Rule, layout
from synthdp.seal.gradients import bookkeeping, explicit
from synthdp.seal.gradients.bookkeeping import survey
from synthdp.seal.gradients.bound import FLAT, MARGIN, Batch, Bound, Gradients, Sums, to_step
from synthdp.seal.gradients.buckets import Prepared, short
from synthdp.seal.gradients.layers import Trained
from synthdp.seal.gradients.module_state import copied
from synthdp.seal.gradients.rows_apart import row_wise

# ---- How a step's memory is kept for the next one.


LARGE = 31 << 20  # bytes; glibc learns from blocks up to 32 MiB


@functools.cache
def keep_freed_memory() -> None:
    """Let glibc's allocator keep up to 62 MiB of freed memory instead of handing it back after every step.

    Its thresholds follow the largest mapped block that was freed (mallopt(3), M_MMAP_THRESHOLD). The block is never
    touched, so this costs nothing, once; without it a step of this size spends a tenth of its time on page faults. Other
    allocators ignore it.
    """
    torch.empty(LARGE, dtype=torch.uint8)


# ---- A module in float64, so that rounding cannot tell who else is in the sample.
#
# In float32 a product's rounding depends on how many rows it has. One unit more then moves every other unit's contribution a
# little, all in one direction where records are alike, and a sum over thousands of them by more than its clip allows. In float64
# the same shift is below 1e-14 of a contribution; even if all errors point one way, half a million units keep within law 12's margin.


OWN = (torch.float32, torch.float64)


def in_float64(module: nn.Module) -> nn.Module:
    """The module with float64 parameters and buffers of the same values and names; everything else is the module's own, shared. Its
    layers also take float32 inputs: a loss may build its rows in that type, they are exact in both.

    A module that is float64 already is returned as it is. Nothing is written to `module`.
    """
    tensors = [*module.parameters(), *module.buffers()]
    if all(tensor.dtype == torch.float64 or not tensor.is_floating_point() for tensor in tensors):
        return module
    recurrent = any(
        isinstance(layer, nn.RNNBase) for layer in module.modules()
    )  # keeps its parameters in a second place
    made = copy.deepcopy(module).double() if recurrent else _twin(module, {})
    for layer in made.modules():
        if layer._parameters:
            layer.register_forward_pre_hook(_widened)
    return made


def _widened(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    return tuple(value.double() if _narrow(value) else value for value in inputs)


def _narrow(value: Any) -> bool:
    held = value.data if isinstance(value, PackedSequence) else value
    return isinstance(held, Tensor) and held.dtype == torch.float32


def _twin(layer: nn.Module, made: dict[int, Any]) -> nn.Module:
    """A layer's twin; shared layers and parameters stay shared."""
    if id(layer) not in made:
        twin = made[id(layer)] = layer.__class__.__new__(layer.__class__)
        twin.__dict__.update(layer.__dict__)
        twin.__dict__["_parameters"] = {name: _double(value, made) for name, value in layer._parameters.items()}
        twin.__dict__["_buffers"] = {name: _double(value, made) for name, value in layer._buffers.items()}
        children = {name: None if child is None else _twin(child, made) for name, child in layer._modules.items()}
        twin.__dict__["_modules"] = children
        twin.__dict__["_forward_pre_hooks"] = OrderedDict(layer._forward_pre_hooks)
    found: nn.Module = made[id(layer)]
    return found


def _double(value: Tensor | None, made: dict[int, Any]) -> Tensor | None:
    if value is None or value.dtype not in OWN:
        return value
    if id(value) not in made:
        double = value.detach().double()
        made[id(value)] = nn.Parameter(double, value.requires_grad) if isinstance(value, nn.Parameter) else double
    found: Tensor = made[id(value)]
    return found


__all__ = ["FLAT", "MARGIN", "Gradients", "add_noise", "losses", "sum_and_count"]

Loss = Callable[[nn.Module, Tensor], Tensor]


def sum_and_count(
    module: nn.Module,
    loss: Loss,
    records: Tensor,
    mask: Tensor | None,
    clip: float,
    *,
    rule: Rule = FLAT,
    counts: Tensor | None = None,
    microbatch: int = 4096,
    counting: bool = True,
    keys: NDArray[np.uint64] | None = None,
    prepared: Prepared | None = None,
) -> tuple[Gradients, float]:
    """Sum over units of the gradient of the unit's loss, each scaled down to L2 norm `clip` * (1 - 1e-4) at most.

    How it is scaled down is the `rule`'s matter (`seal/clipping.py`): as a whole, by groups of parameters, or automatically.
    With `counts` (units,) the gradient of unit u is divided by counts[u] first: the mean of a microbatch.

    `records` is (units, ...), one record each, or with a `mask` (units, R) it is (units, R, ...), and unit u holds the
    records where mask[u]; a unit's loss is the sum over its records, so its *summed* gradient is clipped.
    `loss(module, flat)` maps (n, ...) to n losses, and loss i may depend on record i alone: no statistics of the batch.
    That cannot be read off a function; compare with a loop that takes one unit at a time.

    Without `prepared` (law 47), everything is computed in float64, so one unit more moves the result by at most `clip` (law 12): the
    loss is given the module with float64 parameters, whose layers also take float32 inputs; float records are converted. Rows
    are padded with zeros to a multiple of 64, since kernels may round the last rows of a product otherwise than the others.

    Returns float64 sums (float32 of a single bucket) by the name of each parameter that requires a gradient (0 units: zeros), views of
    one flat tensor.
    They do not depend on `microbatch`, the units per forward pass, beyond rounding. Units with a non-finite gradient, or a
    norm that overflows, contribute zero. A unit whose positions cancel more than 300-fold is scaled down further.

    Nothing is written to `module`. Raises `BadInput` for layers that mix records or keep statistics of them (BatchNorm).

    Beside them, and from the same pass, stands the sum over units of 1/2 where the norm (of all parameters) is within `clip`, -1/2 where
    it is not, unless `counting` is off: one unit moves it by at most 1/2. See `Bound` for the units in between.
    """
    if not 0 < clip < float("inf"):
        raise BadInput(f"clip must be a finite number greater than 0, got {clip}")
    if microbatch < 1:
        raise BadInput(f"microbatch must be 1 or more, got {microbatch}")
    if mask is not None and mask.shape != records.shape[:2]:
        raise BadInput(f"mask must have the shape (units, R) = {tuple(records.shape[:2])}, got {tuple(mask.shape)}")
    if counts is not None and counts.shape != records.shape[:1]:
        raise BadInput(f"counts must have the shape (units,) = {tuple(records.shape[:1])}, got {tuple(counts.shape)}")
    keep_freed_memory()
    if prepared is not None and keys is not None and mask is None and counts is None:
        groups = _groups(rule, prepared.trained)
        bound = Bound(clip, rule, groups, counting=counting, margin=prepared.buckets.margin)
        split = any(bound.splits(mine.values()) for mine in prepared.layers.values())
        if not split and short(clip, rule, groups):
            return prepared.sums(module, loss, records, keys, bound), bound.within
    trained, _ = survey(module)
    if any(parameter.dtype not in (torch.float32, torch.float64) for parameter in trained.values()):
        raise BadInput("parameters must be float32 or float64: with fewer bits a clipped gradient may exceed its bound")
    own, module = module, in_float64(module)
    records = records.double() if records.is_floating_point() else records
    trained, layers = survey(module)
    bound = Bound(clip, rule, _groups(rule, trained), counting=counting)
    if layers is not None and any(bound.splits(mine.values()) for mine in layers.values()):
        layers = None
    sums = Sums(trained)
    with torch.autocast(records.device.type, enabled=False):
        for start in range(0, len(records), microbatch):
            part = slice(start, start + microbatch)
            batch = Batch.of(
                records[part], None if mask is None else mask[part], None if counts is None else counts[part]
            )
            kept = layers is not None and (
                not len(batch.rows) or row_wise(module, loss, to_step(batch.rows), source(loss), own)
            )
            if layers is None or not kept or not bookkeeping.add(module, loss, batch, bound, layers, sums):
                layers = None  # what one pass could not follow, the next will not either
                explicit.add(module, loss, batch, bound, trained, sums)
    return sums.finished(), bound.within


def _groups(rule: Rule, trained: Trained) -> Layout | None:
    if not isinstance(rule, PerGroup):
        return None
    return layout(rule, {name: parameter.numel() for name, parameter in trained.items()})


def losses(module: nn.Module, loss: Loss, records: Tensor) -> Tensor:
    """The loss of each record, (n,), as the sums see it: float64, layers checked, and without the chances of dropout, which
    belong to no record. A copy of the module is asked."""
    module = in_float64(copied(module))
    survey(module)
    for layer in module.modules():
        layer.training = False
    return loss(module, records.double() if records.is_floating_point() else records).detach()


def add_noise(sums: Gradients, deviation: float, noise: Noise) -> Gradients:
    """The sums plus independent N(0, deviation^2) on every coordinate, rounded to float32: one draw for all parameters."""
    return Gradients(noise.added_flat(sums.flat, deviation), sums)
