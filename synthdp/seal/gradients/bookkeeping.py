"""Book-keeping: one forward pass, one backward pass, and no gradient of any single unit (Bu et al. 2022, algorithm 1).

Hooks keep each layer's input; the backward pass stops at the layers' outputs and never forms a parameter's gradient.
Input and output gradient give each unit's squared norm, then, weighted, the clipped sum.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from synthdp.errors import BadInput
from synthdp.seal.gradients.bound import Bound, Sums
from synthdp.seal.gradients.layer_kinds import CHANNELS_FIRST, PARTS, Part
from synthdp.seal.gradients.layer_rules import Linear, single_squares
from synthdp.seal.gradients.rows import Batch
from synthdp.seal.gradients.survey import Owners


class Visit(NamedTuple):
    """What a layer saw when it was called."""

    layer: nn.Module
    input: Tensor
    version: int
    edge: GradientEdge | None


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

    That is where a layer is called twice, a parameter is used outside its layer, or an input is changed in place.
    """
    if len(batch.rows) == 0:
        bound.count(torch.zeros(batch.units))
        return True
    visits: list[Visit] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        node = output.grad_fn  # kept now: what an in-place operation makes of the output later is not the layer's
        followed = bool(args) and node is not None
        seen = args[0] if followed else output
        visits.append(Visit(layer, seen, seen._version, GradientEdge(node, output.output_nr) if followed else None))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            losses = loss(module, batch.rows)
            total = losses.sum()
    finally:
        for handle in handles:
            handle.remove()
    if losses.shape != (len(batch.rows),):
        raise BadInput(f"loss must return one value per record, of shape (n,); got {losses.dim()} dimensions")
    if not _followed(losses, len(batch.rows), layers, visits):
        return False
    if not visits or total.grad_fn is None:
        bound.count(torch.zeros(batch.units))
        return True
    edges = [visit.edge for visit in visits if visit.edge is not None]
    gradients = torch.autograd.grad(total, edges, allow_unused=True)
    with torch.no_grad():
        parts: dict[int, list[Part]] = {}  # by group
        for visit, gradient in zip(visits, gradients, strict=True):
            if gradient is not None:
                names = layers[visit.layer]
                part = PARTS[type(visit.layer)](visit.layer, visit.input, gradient, batch, names)
                parts.setdefault(bound.group(names.values()), []).append(part)
        _add_parts(parts, batch, bound, sums)
    return True


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
    uses: list[int] = []
    known: set[Any] = set()
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        if type(node) is _LEAF:
            uses.append(id(node.variable))
        elif node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions]
    # Once is the layer's own call.
    return all(
        uses.count(id(layer._parameters[short])) <= (layer in called)
        for layer, mine in layers.items()
        for short in mine
    )


def _plain(visit: Visit, rows: int) -> bool:
    """Whether the input is still what the layer saw, and its first dimension can only be the records."""
    if visit.edge is None or visit.input._version != visit.version or visit.input.shape[:1] != (rows,):
        return False
    between = visit.input.shape[1:] if isinstance(visit.layer, nn.Embedding) else visit.input.shape[1:-1]
    return isinstance(visit.layer, CHANNELS_FIRST) or rows not in between
