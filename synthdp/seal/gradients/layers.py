"""One rule per layer: from its input and output gradient to squared norms per unit, and to the weighted sum.

A unit is a sum over positions (its records, and a record's places in a sequence or an image): its gradient for a
linear map is sum_p g_p a_p^T. With one position the norm is |g| |a| and nothing is formed (Goodfellow 2015); with several
it is the sum of (a_p . a_q)(g_p . g_q) over pairs, or the product itself in small blocks, whichever is cheaper.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from synthdp.seal.gradients.bound import CHUNK, TINY, Batch, Sums, square_norms, weighted, without

Trained = dict[str, nn.Parameter]
Owners = dict[nn.Module, dict[str, str]]  # layer -> its parameter's short name -> the full name


class Visit(NamedTuple):
    """What a layer saw when it was called."""

    layer: nn.Module
    input: Tensor
    version: int
    edge: GradientEdge | None


# Each visit with the gradient of the summed losses by the layer's output; None: it has no part in them.
Seen = list[tuple[Visit, Tensor | None]]


def at_once(device: torch.device) -> int:
    """How many numbers one block of explicit products or unfolded inputs holds. On a CPU the allocator gives blocks of this size back after
    each step, and longer ones are no faster; on a GPU each block costs a wait, so blocks are longer."""
    return 1 << (26 if device.type == "cuda" else 20)


class Linear:
    """y = a W^T + b on the last dimension; a (rows, ..., in), g (rows, ..., out)."""

    def __init__(self, _: nn.Linear, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        self.a, self.g = (a, g) if a.dim() == 2 else (a.flatten(1, -2), g.flatten(1, -2))
        self._batch, self._names = batch, names
        self._places = 1 if a.dim() == 2 else self.a.shape[1]
        if a.dim() > 2 and self._places == 1:
            self.a, self.g = self.a[:, 0], self.g[:, 0]
        self.weight, self.bias = float("weight" in names), float("bias" in names)  # 1.0: trained
        self.single = batch.place is None and batch.size * self._places == 1

    def squares(self) -> tuple[Tensor, Tensor | None]:
        if self.single:
            return single_squares([self]).double(), None
        a, g = self._per_unit(self.a), self._per_unit(self.g)
        if not self.weight:
            a = a.new_zeros(*a.shape[:2], 1)
        spread = square_norms(a, TINY + self.bias * a.shape[1]) * square_norms(g, TINY)
        return position_squares(a, g, self.bias), spread

    def _per_unit(self, rows: Tensor) -> Tensor:
        return self._batch.padded(rows).reshape(self._batch.units, -1, rows.shape[-1])

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        bad_rows = None if bad is None else self._batch.spread(bad)
        a, g = without(self.a, bad_rows), without(self.g, bad_rows)
        by_row = self._batch.spread(weights).to(g.dtype).view(-1, *(1,) * (g.dim() - 1))
        step = max(1, min(CHUNK, 4096 // self._places))  # a chunk's scaled copy stays in the cache
        for start in range(0, len(g), step):
            rows = slice(start, start + step)
            self._add_chunk(a[rows], g[rows] * by_row[rows], sums)

    def _add_chunk(self, a: Tensor, g: Tensor, sums: Sums) -> None:
        if g.dim() > 2:
            a, g = a.reshape(-1, a.shape[-1]), g.reshape(-1, g.shape[-1])
        if self.weight:
            sums.add_product(self._names["weight"], g, a)
        if self.bias:
            sums.add_column_sums(self._names["bias"], g)


def single_squares(parts: Sequence[Linear]) -> Tensor:
    """Squared norms over several linear layers that see one position per unit, (units,): few calls for all of them.

    In the layers' own type: a square that overflows leaves its unit out, and one that is lost is less than the floor.
    """
    norms = torch.stack([torch.linalg.vector_norm(side, dim=1) for part in parts for side in (part.a, part.g)])
    squares = norms.mul_(norms).view(len(parts), 2, -1)
    if all(part.weight for part in parts):
        floors = _floors(tuple(part.bias for part in parts), squares.dtype, squares.device)
        return squares.add_(floors).prod(1).sum(0)
    pairs = zip(parts, squares.add_(TINY), strict=True)
    return torch.stack([(a * part.weight + part.bias) * g for part, (a, g) in pairs]).sum(0)


@functools.lru_cache(maxsize=64)
def _floors(biases: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """(layers, 2, 1): (|a|^2 + 1) |g|^2, without the 1 where there is no bias."""
    return torch.tensor([[[bias + TINY], [TINY]] for bias in biases], dtype=dtype, device=device)


def position_squares(a: Tensor, g: Tensor, bias: float) -> Tensor:
    """|sum_p g_p a_p^T|^2 + bias |sum_p g_p|^2 for a (units, P, in), g (units, P, out), as float64 (units,).

    The pairs are taken in float64: what they lose is relative to the sum before it cancels, squared.
    """
    units, places, width = a.shape
    pairs = 2 * places * (width + g.shape[2]) <= width * g.shape[2]
    block = max(1, at_once(a.device) // (places * places if pairs else width * g.shape[2]))
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
        block = max(1, at_once(g.device) // index.shape[1] ** 2)
        found = []
        for start in range(0, units, block):
            part, wide = index[start : start + block], g[start : start + block].double()
            same = part.unsqueeze(1) == part.unsqueeze(2)
            # Not a product with `same`: infinities of other places must not turn into NaN here, the spread sees them.
            found.append(torch.bmm(wide, wide.mT).masked_fill_(~same, 0.0).sum((1, 2)))
        return torch.cat(found), square_norms(g).mul_(index.shape[1])

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        bad_rows = None if bad is None else self._batch.spread(bad)
        g = weighted(self._g, self._batch.spread(weights), bad_rows)
        sums.add_rows(self._name, self._index.flatten(), g.reshape(-1, g.shape[-1]))


class Scale:
    """y = x W + b elementwise after a normalisation: per unit, sum_p g_p x_p and sum_p g_p, as small as the layer."""

    def __init__(self, layer: Any, a: Tensor, g: Tensor, batch: Batch, names: Mapping[str, str]) -> None:
        product = g * normalised(layer, a)
        channels = isinstance(layer, nn.GroupNorm | nn.modules.instancenorm._InstanceNorm)
        # Sum over everything that the weight is shared over: places of an image, or positions before the normalised ones.
        first, last = (2, a.dim()) if channels else (1, a.dim() - len(layer.normalized_shape))
        self.values: dict[str, Tensor] = {}  # by name, a row for each unit
        self._parts: list[Tensor] = []
        for short, positions in (("weight", product), ("bias", g)):
            if short in names:
                self._parts.append(_unit_sum(positions.abs(), first, last, batch))
                self.values[names[short]] = _unit_sum(positions, first, last, batch)

    def squares(self) -> tuple[Tensor, Tensor | None]:
        squares = torch.stack([square_norms(value) for value in self.values.values()]).sum(0)
        return squares, torch.stack([square_norms(part) for part in self._parts]).sum(0)

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        for name, value in self.values.items():
            sums.add(name, weights @ without(value, bad).double().flatten(1))


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


# ---- Convolutions: the product of unfolded input and output gradient, in small blocks, for the norms; torch's own weight
# gradient of the weighted output gradients for the sum.


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
        block = max(1, at_once(g.device) // per_row // batch.size)
        found, spread = [], []
        for start in range(0, batch.units, block):
            rows = slice(start * batch.size, (start + block) * batch.size)
            places = self._unfolded(a[rows])  # rows, groups, in / groups * kernel, places
            # The axes: rows, groups, out / groups, places.
            part = g[rows].reshape(-1, layer.groups, g.shape[1] // layer.groups, g.shape[2])
            norms = torch.zeros(len(part) // batch.size, dtype=torch.float64, device=g.device)
            if "weight" in self._names:
                norms += square_norms(self._unit_sum(torch.matmul(part, places.mT)))
            if "bias" in self._names:
                norms += square_norms(self._unit_sum(part.sum(-1)))
            wide = square_norms(self._by_unit(places), TINY + part.shape[-1] * batch.size)
            spread.append(wide * square_norms(self._by_unit(part), TINY))
            found.append(norms)
        return torch.cat(found), torch.cat(spread)

    def rows(self, numbers: int) -> Iterator[Tensor]:
        """The weight's gradient of each record, (records, ...), in blocks of about so many numbers."""
        layer, weight = self._layer, self._layer.weight
        a = F.pad(self._a, layer._reversed_padding_repeated_twice) if self._padding != 0 else self._a
        g = self._g.flatten(2)
        block = max(1, numbers // max(weight.numel(), layer.groups * weight[0].numel() * g.shape[2]))
        for own, part in zip(torch.split(a, block), torch.split(g, block), strict=True):
            grouped = part.reshape(len(part), layer.groups, -1, part.shape[2])
            yield torch.matmul(grouped, self._unfolded(own).mT)

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
        for start in range(0, len(g), CHUNK):
            rows, part = a[start : start + CHUNK], g[start : start + CHUNK]
            if "weight" in self._names:
                shape, rest = layer.weight.shape, (layer.stride, self._padding, layer.dilation, layer.groups)
                sums.add(self._names["weight"], gradient(rows, shape, part, *rest))
            if "bias" in self._names:
                sums.add(self._names["bias"], part.flatten(2).sum(2).sum(0))


# ---- Which layers book-keeping knows; everything else goes by `fallback`.


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
