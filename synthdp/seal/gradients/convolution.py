"""Convolutions: the product of unfolded input and output gradient, in small blocks, for the norms; torch's own weight
gradient of the weighted output gradients for the sum."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from synthdp.seal.gradients.bound import Sums
from synthdp.seal.gradients.rows import TINY, Batch, square_norms, weighted, without

BLOCK = 1 << 20  # numbers in one block of explicit products or unfolded inputs
WEIGHT_GRADIENTS: dict[int, Callable[..., Tensor]] = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}


class Convolution:
    """Conv1d, 2d, 3d, grouped, dilated and strided; a (rows, in, *space), g (rows, out, *space')."""

    def __init__(self, layer: Any, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        self._layer, self._g, self._batch, self._names = layer, g, batch, names
        zeros = layer.padding_mode == "zeros"
        self._padding: Any = layer.padding if zeros and not isinstance(layer.padding, str) else 0
        if self._padding == 0:
            a = F.pad(a, layer._reversed_padding_repeated_twice, mode="constant" if zeros else layer.padding_mode)
        self._a = a

    def squares(self) -> tuple[Tensor, Tensor | None]:
        """By the explicit product: with many places it beats the pairs that `layers.position_squares` has the choice of."""
        layer, batch = self._layer, self._batch
        a, g = batch.padded(self._a), batch.padded(self._g).flatten(2)
        if self._padding != 0:
            a = F.pad(a, layer._reversed_padding_repeated_twice)
        kernel = layer.weight[0].numel()
        per_row = max(layer.weight.numel(), layer.groups * kernel * g.shape[2])
        block = max(1, BLOCK // per_row // batch.size)
        found, spread = [], []
        for start in range(0, batch.units, block):
            rows = slice(start * batch.size, (start + block) * batch.size)
            places = self._unfolded(a[rows])  # rows, groups, in / groups * kernel, places
            part = g[rows].reshape(
                -1, layer.groups, g.shape[1] // layer.groups, g.shape[2]
            )  # rows, groups, out / groups, places
            norms = torch.zeros(len(part) // batch.size, dtype=torch.float64, device=g.device)
            if "weight" in self._names:
                norms += square_norms(self._unit_sum(torch.matmul(part, places.mT)))
            if "bias" in self._names:
                norms += square_norms(self._unit_sum(part.sum(-1)))
            wide = square_norms(self._by_unit(places), TINY + part.shape[-1] * batch.size)
            spread.append(wide * square_norms(self._by_unit(part), TINY))
            found.append(norms)
        return torch.cat(found), torch.cat(spread)

    def _unit_sum(self, rows: Tensor) -> Tensor:
        return rows if self._batch.size == 1 else self._by_unit(rows).sum(1)

    def _by_unit(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self._batch.size, *rows.shape[1:])

    def _unfolded(self, a: Tensor) -> Tensor:
        layer = self._layer
        space = len(layer.kernel_size)
        for dim, (size, step, gap) in enumerate(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True), 2):
            a = a.unfold(dim, gap * (size - 1) + 1, step)[..., ::gap]
        # rows, in, *places, *kernel -> rows, groups, in / groups * kernel, places
        order = (0, 1, *range(2 + space, 2 + 2 * space), *range(2, 2 + space))
        return a.permute(order).reshape(len(a), layer.groups, layer.weight[0].numel(), -1)

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        layer = self._layer
        bad_rows = None if bad is None else self._batch.spread(bad)
        g = weighted(self._g, self._batch.spread(weights), bad_rows)
        a = without(self._a, bad_rows)
        gradient = WEIGHT_GRADIENTS[len(layer.kernel_size)]
        for start in range(0, len(g), sums.chunk):
            rows, part = a[start : start + sums.chunk], g[start : start + sums.chunk]
            if "weight" in self._names:
                shape, rest = layer.weight.shape, (layer.stride, self._padding, layer.dilation, layer.groups)
                sums.add(self._names["weight"], gradient(rows, shape, part, *rest))
            if "bias" in self._names:
                sums.add(self._names["bias"], part.flatten(2).sum(2).sum(0))
