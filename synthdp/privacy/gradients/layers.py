"""One rule per layer: from its input and output gradient to squared norms per unit, and to the weighted sum.

A unit is a sum over positions (its records, and a record's places in a sequence or an image): its gradient for a
linear map is sum_p g_p a_p^T. With one position the norm is |g| |a| and nothing is formed (Goodfellow 2015); with several
it is the sum of (a_p . a_q)(g_p . g_q) over pairs, or the product itself in small blocks, whichever is cheaper.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from synthdp.privacy.gradients.bound import CHUNK
from synthdp.privacy.gradients.rows import TINY, Batch, square_norms, weighted, without

BLOCK = 1 << 20  # numbers in one block of explicit products


class Linear:
    """y = a W^T + b on the last dimension; a (rows, ..., in), g (rows, ..., out)."""

    def __init__(self, _: nn.Linear, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        self._a, self._g = (a, g) if a.dim() == 2 else (a.flatten(1, -2), g.flatten(1, -2))
        self._batch, self._names = batch, names
        self._places = 1 if a.dim() == 2 else self._a.shape[1]

    def squares(self) -> tuple[Tensor, Tensor | None]:
        has_weight, has_bias = float("weight" in self._names), float("bias" in self._names)
        if self._batch.size * self._places == 1 and self._batch.place is None:
            a = square_norms(self._a, has_bias + TINY) if has_weight else has_bias
            return square_norms(self._g, TINY).mul_(a), None
        a, g = self._per_unit(self._a), self._per_unit(self._g)
        if "weight" not in self._names:
            a = a.new_zeros(*a.shape[:2], 1)
        spread = square_norms(a, TINY + has_bias * a.shape[1]) * square_norms(g, TINY)
        return position_squares(a, g, has_bias), spread

    def _per_unit(self, rows: Tensor) -> Tensor:
        return self._batch.padded(rows).reshape(self._batch.units, -1, rows.shape[-1])

    def add(self, weights: Tensor, bad: Tensor | None, sums: Mapping[str, Tensor]) -> None:
        bad_rows = None if bad is None else self._batch.spread(bad)
        g = weighted(self._g, self._batch.spread(weights), bad_rows).reshape(-1, self._g.shape[-1])
        a = without(self._a, bad_rows).reshape(-1, self._a.shape[-1])
        chunk = min(CHUNK * self._places, 4096)
        for start in range(0, len(g), chunk):
            part = g[start : start + chunk]
            if "weight" in self._names:
                sums[self._names["weight"]].add_(torch.mm(part.t(), a[start : start + chunk]))
            if "bias" in self._names:
                sums[self._names["bias"]].add_(part.sum(0))


def position_squares(a: Tensor, g: Tensor, bias: float) -> Tensor:
    """|sum_p g_p a_p^T|^2 + bias |sum_p g_p|^2 for a (units, P, in), g (units, P, out), as float64 (units,).

    The pairs are taken in float64: what they lose is relative to the sum before it cancels, squared.
    """
    units, places, width = a.shape
    pairs = 2 * places * (width + g.shape[2]) <= width * g.shape[2]
    block = max(1, BLOCK // (places * places if pairs else width * g.shape[2]))
    found = []
    for start in range(0, units, block):
        left, right = a[start : start + block], g[start : start + block]
        if pairs:
            left, right = left.double(), right.double()
            both = torch.bmm(left, left.mT).add_(bias).mul_(torch.bmm(right, right.mT))
            found.append(both.sum((1, 2)))
        else:
            found.append(square_norms(torch.bmm(right.mT, left)) + bias * square_norms(right.sum(1)))
    return torch.cat(found)


class Embedding:
    """y = W[index]; index (rows, ...), g (rows, ..., width): gradients meet where indices are equal."""

    def __init__(self, layer: nn.Embedding, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        if layer.padding_idx is not None:
            g = g.masked_fill((a == layer.padding_idx).unsqueeze(-1), 0.0)
        self._index, self._g, self._batch, self._name = a, g, batch, names["weight"]

    def squares(self) -> tuple[Tensor, Tensor | None]:
        units = self._batch.units
        index = self._batch.padded(self._index).reshape(units, -1)
        g = self._batch.padded(self._g).reshape(units, -1, self._g.shape[-1])
        if index.shape[1] == 1:
            return square_norms(g), None
        block = max(1, BLOCK // index.shape[1] ** 2)
        found = []
        for start in range(0, units, block):
            part, wide = index[start : start + block], g[start : start + block].double()
            same = part.unsqueeze(1) == part.unsqueeze(2)
            # Not a product with `same`: infinities of other places must not turn into NaN here, the spread sees them.
            found.append(torch.bmm(wide, wide.mT).masked_fill_(~same, 0.0).sum((1, 2)))
        return torch.cat(found), square_norms(g).mul_(index.shape[1])

    def add(self, weights: Tensor, bad: Tensor | None, sums: Mapping[str, Tensor]) -> None:
        bad_rows = None if bad is None else self._batch.spread(bad)
        g = weighted(self._g, self._batch.spread(weights), bad_rows)
        sums[self._name].index_add_(0, self._index.flatten(), g.reshape(-1, g.shape[-1]).double())


class Scale:
    """y = x W + b elementwise after a normalisation: per unit, sum_p g_p x_p and sum_p g_p, as small as the layer."""

    def __init__(self, layer: Any, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        product = g * normalised(layer, a)
        channels = isinstance(layer, nn.GroupNorm | nn.modules.instancenorm._InstanceNorm)
        # Sum over everything that the weight is shared over: places of an image, or positions before the normalised ones.
        first, last = (2, a.dim()) if channels else (1, a.dim() - len(layer.normalized_shape))
        self._values: dict[str, Tensor] = {}
        self._parts: list[Tensor] = []
        for short, positions in (("weight", product), ("bias", g)):
            if short in names:
                self._parts.append(_unit_sum(positions.abs(), first, last, batch))
                self._values[names[short]] = _unit_sum(positions, first, last, batch)

    def squares(self) -> tuple[Tensor, Tensor | None]:
        squares = torch.stack([square_norms(value) for value in self._values.values()]).sum(0)
        return squares, torch.stack([square_norms(part) for part in self._parts]).sum(0)

    def add(self, weights: Tensor, bad: Tensor | None, sums: Mapping[str, Tensor]) -> None:
        for name, value in self._values.items():
            sums[name].add_((weights @ without(value, bad).double().flatten(1)).view_as(sums[name]))


def _unit_sum(positions: Tensor, first: int, last: int, batch: Batch) -> Tensor:
    summed = positions.sum(tuple(range(first, last))) if first < last else positions
    rows = batch.padded(summed)
    return rows.reshape(batch.units, batch.size, *rows.shape[1:]).sum(1)


def normalised(layer: Any, a: Tensor) -> Tensor:
    """What the layer multiplies by its weight."""
    if isinstance(layer, nn.GroupNorm):
        return F.group_norm(a, layer.num_groups, None, None, layer.eps)
    if isinstance(layer, nn.LayerNorm):
        return F.layer_norm(a, layer.normalized_shape, None, None, layer.eps)
    if isinstance(layer, nn.RMSNorm):
        return F.rms_norm(a, layer.normalized_shape, None, layer.eps)
    return F.instance_norm(a, eps=layer.eps)
