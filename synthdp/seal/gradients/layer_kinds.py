"""Which layers book-keeping knows; everything else goes by `fallback`."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from synthdp.seal.gradients.bound import Sums
from synthdp.seal.gradients.convolution import Convolution
from synthdp.seal.gradients.layer_rules import Embedding, Linear, Scale


class Part(Protocol):
    """One layer's share of the gradients of a batch."""

    def squares(self) -> tuple[Tensor, Tensor | None]:
        """(units,) float64: squared norms, and a bound on (sum of the norms of the positions)^2; None: one position."""
        ...

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        """Add the weighted sum over units to `sums`; units marked `bad` are left out."""
        ...


PARTS: dict[type[nn.Module], Callable[..., Part]] = {
    nn.Linear: Linear,
    nn.Embedding: Embedding,
    nn.Conv1d: Convolution,
    nn.Conv2d: Convolution,
    nn.Conv3d: Convolution,
    nn.GroupNorm: Scale,
    nn.LayerNorm: Scale,
    nn.RMSNorm: Scale,
    nn.InstanceNorm1d: Scale,
    nn.InstanceNorm2d: Scale,
    nn.InstanceNorm3d: Scale,
}

# The batch comes first in these by definition; in others a second dimension of its length could be the batch instead.
CHANNELS_FIRST = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.GroupNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)
