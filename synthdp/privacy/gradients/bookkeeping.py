"""Book-keeping: one forward pass, one backward pass, and no gradient of any single unit (Bu et al. 2022, algorithm 1).

Hooks keep each layer's input; the backward pass stops at the layers' outputs and never forms a parameter's gradient.
Input and output gradient give each unit's squared norm, then, weighted, the clipped sum.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from synthdp.errors import BadInput
from synthdp.privacy.gradients.bound import Sums, factors
from synthdp.privacy.gradients.rows import Batch
from synthdp.privacy.gradients.rules import CHANNELS_FIRST, PARTS, Part

Owners = dict[nn.Module, dict[str, str]]  # layer -> its parameter's short name -> the full name


@dataclass(frozen=True)
class Visit:
    """What a layer saw when it was called."""

    layer: nn.Module
    input: Tensor
    version: int
    edge: GradientEdge | None


def owners(module: nn.Module, trained: Mapping[str, nn.Parameter]) -> Owners | None:
    """The layers that own the trained parameters, or None where one belongs to a layer without a rule, or to two."""
    names = {id(parameter): name for name, parameter in trained.items()}
    found: Owners = {}
    owned = 0
    for layer in module.modules():
        mine = {short: names[id(p)] for short, p in layer._parameters.items() if p is not None and id(p) in names}
        if not mine:
            continue
        # Weight normalisation and the like add parameters, hooks or a type of their own.
        if type(layer) not in PARTS or layer._forward_hooks or layer._forward_pre_hooks or not mine.keys() <= _SHORT:
            return None
        found[layer] = mine
        owned += len(mine)
    return found if owned == len(trained) else None


_SHORT = {"weight", "bias"}


def add(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    batch: Batch,
    clip: float,
    layers: Owners,
    sums: Sums,
) -> bool:
    """Add the clipped gradients of a batch to `sums`; False, and nothing added, where the module cannot be followed.

    That is where a layer is called twice, a parameter is used outside its layer, or an input is changed in place.
    """
    if len(batch.rows) == 0:
        return True
    visits: list[Visit] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not args or not output.requires_grad:
            visits.append(Visit(layer, output, -1, None))
        else:
            visits.append(Visit(layer, args[0].detach(), args[0]._version, get_gradient_edge(output)))

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            losses = loss(module, batch.rows)
    finally:
        for handle in handles:
            handle.remove()
    if losses.shape != (len(batch.rows),):
        raise BadInput(f"loss must return one value per record, of shape (n,); got {losses.dim()} dimensions")
    if not _followed(losses, len(batch.rows), layers, visits):
        return False
    if not visits:
        return True
    edges = [visit.edge for visit in visits if visit.edge is not None]
    gradients = torch.autograd.grad(losses.sum(), edges, allow_unused=True)
    with torch.no_grad():
        parts = [
            PARTS[type(visit.layer)](visit.layer, visit.input, gradient, batch, layers[visit.layer])
            for visit, gradient in zip(visits, gradients, strict=True)
            if gradient is not None
        ]
        _add_parts(parts, clip, sums)
    return True


def _add_parts(parts: list[Part], clip: float, sums: Sums) -> None:
    if not parts:
        return
    bounds = [part.squares() for part in parts]
    squares = torch.stack([square for square, _ in bounds]).sum(0)
    several = any(spread is not None for _, spread in bounds)
    spread = torch.stack([s if wide is None else wide for s, wide in bounds]).sum(0) if several else None
    weights, bad = factors(squares, spread, clip)
    for part in parts:
        part.add(weights, bad, sums.named)


def _followed(losses: Tensor, rows: int, layers: Owners, visits: list[Visit]) -> bool:
    """Whether the layers' outputs account for every use of every trained parameter, each layer called at most once."""
    called = {visit.layer for visit in visits}
    if len(called) < len(visits) or not all(_plain(visit, rows) for visit in visits):
        return False
    uses: dict[int, int] = {}
    waiting: list[Any] = [losses.grad_fn] if losses.grad_fn is not None else []
    known = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is None:
                continue
            variable = getattr(node, "variable", None)  # an accumulator: a leaf of the graph
            if variable is not None:
                uses[id(variable)] = uses.get(id(variable), 0) + 1
            elif node not in known:
                known.add(node)
                waiting.append(node)
    # Once is the layer's own call.
    return all(
        uses.get(id(layer._parameters[short]), 0) <= (layer in called)
        for layer, mine in layers.items()
        for short in mine
    )


def _plain(visit: Visit, rows: int) -> bool:
    """Whether the input is still what the layer saw, and its first dimension can only be the records."""
    if visit.edge is None or visit.input._version != visit.version or visit.input.shape[:1] != (rows,):
        return False
    between = visit.input.shape[1:] if isinstance(visit.layer, nn.Embedding) else visit.input.shape[1:-1]
    return isinstance(visit.layer, CHANNELS_FIRST) or rows not in between
