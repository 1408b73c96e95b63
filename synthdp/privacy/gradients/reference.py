"""The definition, one unit at a time: slow, plain, and what everything else is compared with."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from synthdp.privacy.gradients.bound import MARGIN


def per_unit_reference(
    module: nn.Module,
    loss: Callable[[nn.Module, Tensor], Tensor],
    records: Tensor,
    mask: Tensor | None,
    clip: float,
) -> dict[str, Tensor]:
    """What `clipped_gradient_sum` promises, by a loop over units and ordinary autograd.

    To check that a loss takes each record on its own, compare the two on a few batches.
    """
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    sums = {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in trained.items()}
    for unit in range(len(records)):
        rows = records[unit : unit + 1] if mask is None else records[unit][mask[unit].bool()]
        if len(rows) == 0:
            continue
        with torch.enable_grad():
            total = loss(module, rows).sum()
        parts = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
        gradient = {name: part.double() for name, part in zip(trained, parts, strict=True) if part is not None}
        norm = torch.stack([part.square().sum() for part in gradient.values()]).sum().sqrt()
        if bool(torch.isfinite(norm)):
            for name, part in gradient.items():
                sums[name] += part * (clip * (1 - MARGIN) / norm.clamp_min(clip * (1 - MARGIN)))
    return sums
