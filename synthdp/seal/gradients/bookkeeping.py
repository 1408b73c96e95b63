"""Book-keeping: one forward pass, one backward pass, and no gradient of any single unit (Bu et al. 2022, algorithm 1).

Hooks keep each layer's input; the backward pass stops at the layers' outputs and never forms a parameter's gradient.
Input and output gradient give each unit's squared norm, then, weighted, the clipped sum.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from synthdp.errors import BadInput
from synthdp.seal.gradients.bound import Batch, Bound, Sums, to_step
from synthdp.seal.gradients.layers import (
    CHANNELS_FIRST,
    PARTS,
    Linear,
    Owners,
    Part,
    Seen,
    Trained,
    Visit,
    single_squares,
)
from synthdp.seal.gradients.module_state import plain

# ---- One walk over a module: what is trained, which layers can be followed, and which layers are refused by name.


SHORT = {"weight", "bias"}


def survey(module: nn.Module) -> tuple[Trained, Owners | None]:
    """The trained parameters, named and ordered as by `named_parameters`, and the layers that own them.

    The layers are None where a trained parameter belongs to a layer without a rule, to two layers, or to one with hooks
    of its own (weight normalisation and the like add parameters, hooks or a type). Raises `BadInput` where a layer mixes
    records, or writes records into the module. Once per step, hence by hand.
    """
    trained: Trained = {}
    owners: Owners = {}
    known: set[int] = set()
    followed = True
    waiting = [("", module)]
    while waiting:
        prefix, layer = waiting.pop()
        if id(layer) in known:
            continue
        known.add(id(layer))
        reason = _reason(layer)
        if reason:
            place = f"layer {prefix[:-1]!r}" if prefix else "the module itself"
            raise BadInput(f"{type(layer).__name__} ({place}) {reason}")
        mine = {}
        for short, parameter in layer._parameters.items():
            if parameter is not None and parameter.requires_grad:
                followed = followed and id(parameter) not in known
                if id(parameter) not in known:
                    known.add(id(parameter))
                    mine[short] = prefix + short
                    trained[prefix + short] = parameter
        if mine:
            owners[layer] = mine
            followed = followed and type(layer) in PARTS and plain(layer) and mine.keys() <= SHORT
        if layer._modules:
            children = [(f"{prefix}{name}.", child) for name, child in layer._modules.items() if child is not None]
            waiting += reversed(children)
    return trained, owners if followed else None


def _reason(layer: nn.Module) -> str:
    if isinstance(layer, _InstanceNorm):
        return (
            "keeps running statistics of the records; set track_running_stats=False"
            if layer.track_running_stats
            else ""
        )
    if isinstance(layer, _BatchNorm):
        return "mixes the records of a batch, so no unit's gradient is its own; use GroupNorm or LayerNorm"
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if layer.max_norm is not None:
            return "rewrites its weights when it reads them (max_norm); leave max_norm out"
        if layer.scale_grad_by_freq:
            return "scales gradients by counts over the batch; leave scale_grad_by_freq out"
    return ""


# The node where a graph ends in a parameter; torch has it, its type stubs do not.
_LEAF: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]


def add(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    batch: Batch,
    bound: Bound,
    layers: Owners,
    sums: Sums,
) -> bool:
    """Add the clipped gradients of a batch to `sums`; False, and nothing added, where the module cannot be followed.

    That is where a layer is called twice, a parameter is used outside its layer, an input is changed in place, or a layer's output has
    another type than its parameters (autocast).
    """
    if len(batch.rows) == 0:
        bound.count(torch.zeros(batch.units))
        return True
    count = len(batch.rows)
    seen = backward(module, loss, to_step(batch.rows), layers, count=count)
    if seen is None:
        return False
    seen = [(visit._replace(input=visit.input[:count]), None if g is None else g[:count]) for visit, g in seen]
    with torch.no_grad():
        parts: dict[int, list[Part]] = {}  # by group
        for visit, gradient in seen:
            if gradient is not None:
                names = layers[visit.layer]
                part = PARTS[type(visit.layer)](visit.layer, visit.input, gradient, batch, names)
                parts.setdefault(bound.group(names.values()), []).append(part)
        _add_parts(parts, batch, bound, sums)
    return True


def backward(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    rows: Tensor,
    layers: Owners,
    *,
    known: bool = False,
    count: int | None = None,
) -> Seen | None:
    """What each layer saw, and its output's gradient; None where the module cannot be followed, unless it is `known` to be. Only the
    losses of the first `count` rows are added up; None: of all."""
    visits: list[Visit] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        node = output.grad_fn  # kept now: what an in-place operation makes of the output later is not the layer's
        own = layer._parameters[next(iter(layers[layer]))]
        followed = bool(args) and node is not None and own is not None and output.dtype == own.dtype
        seen = args[0] if followed else output
        visits.append(Visit(layer, seen, seen._version, GradientEdge(node, output.output_nr) if followed else None))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            losses = loss(module, rows)
            total = losses[:count].sum()
    finally:
        for handle in handles:
            handle.remove()
    if losses.shape != (len(rows),):
        raise BadInput(f"loss must return one value per record, of shape (n,); got {losses.dim()} dimensions")
    if not known and not _followed(losses, len(rows), layers, visits):
        return None
    if not visits or total.grad_fn is None:
        return []
    edges = [visit.edge for visit in visits if visit.edge is not None]
    return list(zip(visits, torch.autograd.grad(total, edges, allow_unused=True), strict=True))


def _add_parts(parts: dict[int, list[Part]], batch: Batch, bound: Bound, sums: Sums) -> None:
    if not parts:
        bound.count(torch.zeros(batch.units))
        return
    weights, bad = bound.factors({place: _measured(group) for place, group in parts.items()}, batch.counts)
    for place, group in parts.items():
        for part in group:
            part.add(weights[place], bad, sums)


def _measured(parts: list[Part]) -> tuple[Tensor, Tensor | None]:
    single = [part for part in parts if isinstance(part, Linear) and part.single]
    if len(single) == len(parts):
        return single_squares(single), None
    bounds = [part.squares() for part in parts]
    squares = torch.stack([square for square, _ in bounds]).sum(0)
    return squares, torch.stack([square if wide is None else wide for square, wide in bounds]).sum(0)


def _followed(losses: Tensor, rows: int, layers: Owners, visits: list[Visit]) -> bool:
    """Whether the layers' outputs account for every use of every trained parameter, each layer called at most once."""
    called = {visit.layer for visit in visits}
    if len(called) < len(visits) or not all(_plain(visit, rows) for visit in visits):
        return False
    trained = {id(layer._parameters[short]) for layer, mine in layers.items() for short in mine}
    # Their gradients follow from those of the outputs. So every way to a trained parameter, from the losses or from a layer's input,
    # must lead through an output.
    known: set[Any] = {visit.edge.node for visit in visits if visit.edge is not None}
    waiting: list[Any] = [losses.grad_fn, *(visit.input.grad_fn for visit in visits)]
    while waiting:
        node = waiting.pop()
        if type(node) is _LEAF and id(node.variable) in trained:
            return False
        if node is not None and node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions]
    return True


def _plain(visit: Visit, rows: int) -> bool:
    """Whether the input is still what the layer saw, and its first dimension can only be the records."""
    if visit.edge is None or visit.input._version != visit.version or visit.input.shape[:1] != (rows,):
        return False
    between = visit.input.shape[1:] if isinstance(visit.layer, nn.Embedding) else visit.input.shape[1:-1]
    return isinstance(visit.layer, CHANNELS_FIRST) or rows not in between
