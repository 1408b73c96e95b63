"""Per-unit gradients in full, for modules that book-keeping cannot follow: any layer, at a price in time and memory."""

import contextlib
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OperatorBase, OpOverloadPacket
from torch.func import functional_call, grad, vmap

from synthdp.errors import BadInput
from synthdp.seal.gradients.bound import CHUNK, STEP, Batch, Bound, Sums, to_step
from synthdp.seal.gradients.module_state import copied
from synthdp.seal.gradients.rows_apart import READS, Failures

FLOATS = 1 << 25  # per-unit gradients held at a time: 128 MiB


class Callback(nn.Module):
    """The loss as a module, so that `functional_call` can lend it other parameters."""

    def __init__(self, module: nn.Module, loss: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.module = module
        self._loss = (loss,)  # in a tuple: a loss that is a module must not become a part of this one

    def forward(self, records: Tensor) -> Tensor:
        return self._loss[0](self.module, records)


class _Batched(Failures):
    """Refuses operations that could see several units under vmap: those with a rule of their own for that (`torch.autograd.Function.vmap`,
    custom ones), and those that read values."""

    def look(self, func: Any) -> None:
        """Only torch's own operations pass."""
        own = isinstance(func, OperatorBase | OpOverloadPacket) and not str(func).startswith("aten.")
        if own or getattr(func, "__name__", "") in READS:
            raise NotImplementedError(str(func))


def add(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    batch: Batch,
    bound: Bound,
    trained: Mapping[str, Tensor],
    sums: Sums,
) -> None:
    """Add the clipped gradients of a batch to `sums`: `torch.func.vmap`, or one unit at a time where that fails.

    Each pass is through a copy of the module. Under vmap nothing may draw random numbers: a draw would depend on a unit's place.
    """
    if len(batch.rows) == 0:
        bound.count(torch.zeros(batch.units))
        return
    records, held = _slots(batch)
    full = held.any(1)

    def unit_loss(parameters: dict[str, Tensor], records: Tensor, held: Tensor) -> Tensor:
        losses = functional_call(callback, parameters, (records,))  # that of the chunk
        if losses.shape != held.shape:
            raise BadInput(f"loss must return one value per record, of shape (n,); got {losses.dim()} dimensions")
        return torch.where(held, losses, 0.0).sum()

    many = vmap(grad(unit_loss), in_dims=(None, 0, 0), randomness="error")
    chunk = max(1, min(CHUNK, FLOATS // max(1, sum(parameter.numel() for parameter in trained.values()))))
    step = min(STEP, chunk)
    for start in range(0, len(records), chunk):
        part, mask = records[start : start + chunk], held[start : start + chunk]
        callback = Callback(copied(module), loss)
        parameters = {f"module.{name}": value.detach() for name, value in _named(callback.module, trained).items()}
        gradients: dict[str, Tensor] | None = None
        failures = _Batched()
        # An operation without a batching rule, or what reads values, raises RuntimeError; a slow rule of torch's warns.
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError), failures:
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            found = many(parameters, to_step(part, step), to_step(mask, step))
            if not failures.failed:  # of one unit, such as a matrix that cannot be decomposed, which all would hear of
                gradients = {name: found[f"module.{name}"][: len(part)] for name in trained}
        if gradients is None:
            each = [_alone(copied(module), loss, unit, slots, trained) for unit, slots in zip(part, mask, strict=True)]
            gradients = {name: torch.stack([unit[name] for unit in each]) for name in trained}
        own = None if batch.counts is None else batch.counts[start : start + chunk]
        _add_clipped({name: _of(full[start : start + chunk], gradients[name]) for name in trained}, own, bound, sums)


def _alone(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    records: Tensor,
    held: Tensor,
    names: Collection[str],
) -> dict[str, Tensor]:
    """The gradient of one unit by these parameters, by ordinary autograd."""
    trained = _named(module, names)
    with torch.enable_grad():
        total = torch.where(held, loss(module, records), 0.0).sum()
    zeros = {name: torch.zeros_like(parameter) for name, parameter in trained.items()}
    if total.grad_fn is None:
        return zeros
    found = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    dense = [each.to_dense() if each is not None and each.is_sparse else each for each in found]
    return {name: zeros[name] if each is None else each for name, each in zip(trained, dense, strict=True)}


def _named(module: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    own = dict(module.named_parameters())
    return {name: own[name] for name in names}


def _of(full: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of units that have a record. One without is shown another's, whose gradient may be infinite: its own is zero."""
    return torch.where(full.view(-1, *[1] * (gradient.dim() - 1)), gradient, 0.0)


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
    own = source.amax(1, keepdim=True)  # the unit's own last record
    held = held.view(batch.units, batch.size)
    return batch.rows[torch.where(held, source, own)], held


def _add_clipped(gradients: dict[str, Tensor], counts: Tensor | None, bound: Bound, sums: Sums) -> None:
    squares: dict[int, Tensor] = {}
    for name, gradient in gradients.items():
        rows = gradient.reshape(len(gradient), -1)  # of one number for each unit, too
        own = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).square_()
        place = bound.group([name])
        squares[place] = squares[place] + own if place in squares else own
    weights, bad = bound.factors({place: (own, None) for place, own in squares.items()}, counts)
    for name, gradient in gradients.items():
        part = gradient.reshape(len(gradient), -1)
        kept = part if bad is None else part.masked_fill(bad.unsqueeze(1), 0.0)
        sums.add(name, weights[bound.group([name])].to(kept.dtype) @ kept)
