"""Layers and losses that the torch students share."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class WeightNorm(nn.Module):
    """A dense layer y = g (v / |v|) x + b, one gain per output (Salimans & Kingma 2016)."""

    def __init__(self, width: int, out: int, generator: torch.Generator | None, scale: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(out, width, generator=generator) * 0.05)
        self.gain = nn.Parameter(torch.full((out,), float(scale)))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, width) -> (rows, out)."""
        # The gain goes to the outputs: they are fewer than the weights.
        out: Tensor = functional.linear(rows, self.direction) * (self.gain / self.direction.norm(dim=1)) + self.bias
        return out

    @torch.no_grad()
    def settle(self, rows: Tensor) -> Tensor:
        """Set gain and bias so that the outputs on public `rows` have mean 0 and deviation 1; returns those outputs."""
        out = self(rows)
        deviation, mean = torch.std_mean(out, 0)
        scale = 1 / deviation.clamp_min(1e-6) if len(rows) > 1 else torch.ones_like(mean)
        self.gain.mul_(scale)
        self.bias.sub_(mean).mul_(scale)
        settled: Tensor = (out - mean) * scale
        return settled


class Normal:
    """Standard normals from a stream of their own, added while training."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator

    def add(self, rows: Tensor, deviation: float) -> Tensor:
        """The rows with noise of that deviation."""
        return rows if deviation == 0 else rows + deviation * torch.randn(rows.shape, generator=self._generator)


def dense(sizes: Sequence[int], generator: torch.Generator | None) -> nn.ModuleList:
    """Plain layers of these widths, initialised from `generator` (He et al. 2015)."""
    layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.weight.normal_(0, (2 / layer.in_features) ** 0.5, generator=generator)
                layer.bias.zero_()
    return layers


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of - sum_k target_k log softmax(logits)_k, scalar; linear in the targets."""
    return -(targets * logits.log_softmax(1)).sum(1).mean()
