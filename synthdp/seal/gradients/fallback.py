"""Per-unit gradients in full, for modules that book-keeping cannot follow: any layer, at a price in time and memory."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from synthdp.errors import BadInput
from synthdp.seal.gradients.bound import CHUNK, Bound, Sums
from synthdp.seal.gradients.rows import Batch

FLOATS = 1 << 25  # per-unit gradients held at a time: 128 MiB


class _Callback(nn.Module):
    """The loss as a module, so that `functional_call` can lend it other parameters."""

    def __init__(self, module: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.module = module
        self._loss = (loss,)  # in a tuple: a loss that is a module must not become a part of this one

    def forward(self, records: Tensor) -> Tensor:
        return self._loss[0](self.module, records)


def add(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    batch: Batch,
    bound: Bound,
    trained: Mapping[str, Tensor],
    sums: Sums,
) -> None:
    """Add the clipped gradients of a batch to `sums`: `torch.func.vmap`, or one unit at a time where that cannot go."""
    if len(batch.rows) == 0:
        bound.count(torch.zeros(batch.units))
        return
    callback = _Callback(module, loss)
    parameters = {f"module.{name}": parameter.detach() for name, parameter in trained.items()}
    records, held = _slots(batch)

    def unit_loss(parameters: dict[str, Tensor], records: Tensor, held: Tensor) -> Tensor:
        losses = functional_call(callback, parameters, (records,))
        if losses.shape != held.shape:
            raise BadInput(f"loss must return one value per record, of shape (n,); got {losses.dim()} dimensions")
        return torch.where(held, losses, 0.0).sum()

    one = grad(unit_loss)
    many = vmap(one, in_dims=(None, 0, 0), randomness="different")
    chunk = max(1, min(CHUNK, FLOATS // max(1, sum(parameter.numel() for parameter in trained.values()))))
    for start in range(0, batch.units, chunk):
        part, mask = records[start : start + chunk], held[start : start + chunk]
        try:
            gradients = many(parameters, part, mask)
        except RuntimeError:  # an operation without a batching rule, or control flow that reads values
            each = [one(parameters, unit, slots) for unit, slots in zip(part, mask, strict=True)]
            gradients = {name: torch.stack([unit[name] for unit in each]) for name in parameters}
        counts = None if batch.counts is None else batch.counts[start : start + chunk]
        _add_clipped({name: gradients[f"module.{name}"] for name in trained}, counts, bound, sums)


def _slots(batch: Batch) -> tuple[Tensor, Tensor]:
    """(units, R, ...) and which slots are held; an empty slot repeats a real record, so that its loss is finite."""
    if batch.place is None:
        rows = batch.rows.reshape(batch.units, batch.size, *batch.rows.shape[1:])
        return rows, torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
    source = torch.zeros(batch.units * batch.size, dtype=torch.long, device=batch.rows.device)
    held = torch.zeros_like(source, dtype=torch.bool)
    source[batch.place] = torch.arange(len(batch.place), device=source.device)
    held[batch.place] = True
    source = source.view(batch.units, batch.size)
    own = source.amax(1, keepdim=True)  # the unit's own last record (any record, where the unit has none)
    held = held.view(batch.units, batch.size)
    return batch.rows[torch.where(held, source, own)], held


def _add_clipped(gradients: dict[str, Tensor], counts: Tensor | None, bound: Bound, sums: Sums) -> None:
    squares: dict[int, Tensor] = {}
    for name, gradient in gradients.items():
        own = torch.linalg.vector_norm(gradient.flatten(1), dim=1, dtype=torch.float64).square_()
        place = bound.group([name])
        squares[place] = squares[place] + own if place in squares else own
    weights, bad = bound.factors({place: (own, None) for place, own in squares.items()}, counts)
    for name, gradient in gradients.items():
        part = gradient.flatten(1)
        kept = part if bad is None else part.masked_fill(bad.unsqueeze(1), 0.0)
        sums.add(name, weights[bound.group([name])].to(kept.dtype) @ kept)
