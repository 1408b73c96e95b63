"""How a unit's contribution is bounded, and where the bounded contributions are added up."""

from collections.abc import Mapping

import torch
from torch import Tensor

MARGIN = 1e-4  # what float32 may move a sum by, in clips (GUARANTEE 12)
CHUNK = 256  # units that one float32 product sums over
CANCEL = 300.0  # parts of a unit may exceed its norm by this before it is scaled down further


def factors(squares: Tensor, spread: Tensor | None, clip: float) -> tuple[Tensor, Tensor | None]:
    """(weights, bad): what each unit's gradient is multiplied by, and which units are left out (None: no unit).

    `squares` (units,) float64 are squared norms; `spread` bounds (sum of the norms of the parts that make the unit's
    gradient)^2. The error of a float32 sum is relative to the parts, not to what is left after they cancel.
    """
    size = squares.clamp_min(0.0).sqrt_()
    if spread is not None:
        size = torch.maximum(size, spread.sqrt().mul_(1 / CANCEL))
    bound = clip * (1 - MARGIN)
    weights = bound / size.clamp_min(bound)
    finite = torch.isfinite(size)
    if bool(finite.all()):
        return weights, None
    return torch.where(finite, weights, 0.0), ~finite


class Sums:
    """Float64 sums by parameter name, views of one flat tensor, so that all can be handled at once."""

    def __init__(self, trained: Mapping[str, Tensor]) -> None:
        sizes = [parameter.numel() for parameter in trained.values()]
        device = next(iter(trained.values())).device if trained else None
        self.flat = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
        parts = zip(trained.items(), self.flat.split_with_sizes(sizes), strict=True)
        self.named = {name: part.view(parameter.shape) for (name, parameter), part in parts}
