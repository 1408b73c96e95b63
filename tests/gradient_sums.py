"""Sums of clipped gradients: without the count that comes from the same pass, and by their definition."""

import torch

from synthdp.seal.clipping import Automatic, layout
from synthdp.seal.gradients import FLAT, MARGIN, sum_and_count


def clipped_gradient_sum(*given, **options):
    return sum_and_count(*given, counting=False, **options)[0]


def per_unit_reference(module, loss, records, mask, clip, rule=FLAT, counts=None):
    """The definition: what `sum_and_count` promises of sums, by a loop over units and ordinary autograd."""
    return clipped_by_definition(unit_gradients(module, loss, records, mask, counts), module, clip, rule)


def unit_gradients(module, loss, records, mask, counts=None):
    """Of each unit that has records, by the names of parameters."""
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    found = []
    for unit in range(len(records)):
        rows = records[unit : unit + 1] if mask is None else records[unit][mask[unit].bool()]
        if len(rows) == 0:
            continue
        with torch.enable_grad():
            total = loss(module, rows).sum()
        parts = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
        divisor = 1.0 if counts is None else float(counts[unit])
        found.append(
            {name: part.double() / divisor for name, part in zip(trained, parts, strict=True) if part is not None}
        )
    return found


def clipped_by_definition(gradients, module, clip, rule=FLAT):
    """The sum of units' gradients, each clipped by itself."""
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    groups = layout(rule, {name: parameter.numel() for name, parameter in trained.items()})
    sums = {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in trained.items()}
    for gradient in gradients:
        squares = {name: part.square().sum() for name, part in gradient.items()}
        if not bool(torch.isfinite(torch.stack(list(squares.values())).sum())):
            continue
        for name, part in gradient.items():
            mine = [square for key, square in squares.items() if groups.places[key] == groups.places[name]]
            norm = torch.stack(mine).sum().sqrt()
            limit = clip * groups.bounds[groups.places[name]] * (1 - MARGIN)
            longest = norm + rule.gamma if isinstance(rule, Automatic) else norm.clamp_min(limit)
            sums[name] += part * (limit / longest)
    return sums
