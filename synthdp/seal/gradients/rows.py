"""What each unit of a bucket contributes, in the very float32 values that are summed (law 47).

A linear layer that sees one position per unit contributes g a^T, whose norm is |g| |a|: nothing is formed (Goodfellow 2015).
Wherever a unit's gradient is itself a sum, over the places of an image or a sequence, its row is formed: what that sum loses belongs
to the unit, and its norm is that of the row. Norms are taken in float64.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from synthdp.seal.gradients.bookkeeping import Owners, Seen
from synthdp.seal.gradients.bound import TINY, Batch, Bound, Sums
from synthdp.seal.gradients.layers import Convolution, Scale, without

BLOCK = 1 << 20  # numbers in one block of explicit rows: blocks stay below what the allocator gives back after each step


def norms(rows: Tensor) -> Tensor:
    """(n, ...) -> (n,) L2 norms, in float64."""
    found: Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1, dtype=torch.float64)
    return found


class Outer:
    """A linear layer, one position per unit: g a^T and g."""

    def __init__(self, a: Tensor, g: Tensor, names: Mapping[str, str]) -> None:
        self.values, self._names = [a.flatten(1), g.flatten(1)], names

    def squares(self, n: int) -> tuple[Tensor, Tensor]:
        a, g = (norms(side[:n]) for side in self.values)
        width = a.square() * float("weight" in self._names) + (float("bias" in self._names) + TINY)
        return width.mul_(g).mul_(g), torch.maximum(a, g)

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        a, g = (without(side[: len(weights)], bad) for side in self.values)
        g = g * weights.unsqueeze(1)
        if "weight" in self._names:
            sums.add_product(self._names["weight"], g, a)
        if "bias" in self._names:
            sums.add_column_sums(self._names["bias"], g)


class Lookup:
    """An embedding, one index per unit: g, at its row of the table."""

    def __init__(self, index: Tensor, g: Tensor, names: Mapping[str, str]) -> None:
        self.values, self._name = [g.flatten(1), index.flatten()], names["weight"]

    def squares(self, n: int) -> tuple[Tensor, Tensor]:
        g = norms(self.values[0][:n])
        return g.square(), g

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        g = without(self.values[0][: len(weights)], bad) * weights.unsqueeze(1)
        sums.add_rows(self._name, self.values[1][: len(weights)], g)


class Explicit:
    """The gradient of one parameter in full, a row for each unit, in blocks of rows."""

    def __init__(self, name: str, blocks: Sequence[Tensor]) -> None:
        self.values, self._name = [block.flatten(1) for block in blocks], name

    def squares(self, n: int) -> tuple[Tensor, Tensor]:
        found = torch.cat([norms(block) for block in self.values])[:n]
        return found.square(), found

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        start = 0
        for block in self.values:
            own = weights[start : start + len(block)]
            rows = without(block[: len(own)], None if bad is None else bad[start : start + len(block)])
            if len(own):
                sums.add(self._name, own @ rows)
            start += len(block)


class Part(Protocol):
    """A parameter's or a layer's share of the units' gradients."""

    values: list[Tensor]  # all that is summed, a row for each unit: what must not depend on who else is there

    def squares(self, n: int) -> tuple[Tensor, Tensor]:
        """Of the first n units, float64: squared norms, and the largest norm of what they are made of."""
        ...

    def add(self, weights: Tensor, bad: Tensor | None, sums: Sums) -> None:
        """Add the weighted sum over as many units as there are weights, float32; those marked `bad` are left out."""
        ...


def _linear(layer: nn.Linear, a: Tensor, g: Tensor, names: Mapping[str, str]) -> list[Part]:  # noqa: ARG001
    if a[0, ..., 0].numel() == 1:
        return [Outer(a, g, names)]
    a, g = a.flatten(1, -2), g.flatten(1, -2)
    found: list[Part] = []
    if "weight" in names:
        step = max(1, BLOCK // (a.shape[-1] * g.shape[-1]))
        blocks = [torch.bmm(right.mT, left) for left, right in zip(a.split(step), g.split(step), strict=True)]
        found.append(Explicit(names["weight"], blocks))
    if "bias" in names:
        found.append(Explicit(names["bias"], [g.sum(1)]))
    return found


def _embedding(layer: nn.Embedding, index: Tensor, g: Tensor, names: Mapping[str, str]) -> list[Part]:
    if layer.padding_idx is not None:
        g = g.masked_fill((index == layer.padding_idx).unsqueeze(-1), 0.0)
    return [Lookup(index, g, names)]


def _scale(layer: Any, a: Tensor, g: Tensor, names: Mapping[str, str]) -> list[Part]:
    whole = Scale(layer, a, g, Batch(len(a), 1, a, None), names)
    return [Explicit(name, [rows]) for name, rows in whole.values.items()]


def _convolution(layer: Any, a: Tensor, g: Tensor, names: Mapping[str, str]) -> list[Part]:
    whole = Convolution(layer, a, g, Batch(len(a), 1, a, None), names)
    found: list[Part] = []
    if "weight" in names:
        found.append(Explicit(names["weight"], list(whole.rows(BLOCK))))
    if "bias" in names:
        found.append(Explicit(names["bias"], [g.flatten(2).sum(2)]))
    return found


MADE: dict[type[nn.Module], Callable[..., list[Part]]] = {
    nn.Linear: _linear,
    nn.Embedding: _embedding,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.GroupNorm: _scale,
    nn.LayerNorm: _scale,
    nn.RMSNorm: _scale,
    nn.InstanceNorm1d: _scale,
    nn.InstanceNorm2d: _scale,
    nn.InstanceNorm3d: _scale,
}


class Contributions:
    """The contributions of a bucket of units, by layer."""

    def __init__(self, seen: Seen, layers: Owners) -> None:
        self.parts: list[tuple[Part, str]] = []
        for visit, g in seen:
            names = layers[visit.layer]
            if g is not None:
                made = MADE[type(visit.layer)](visit.layer, visit.input, g, names)
                self.parts += [(part, next(iter(names.values()))) for part in made]

    def values(self, row: Tensor) -> list[Tensor]:
        """All that is summed of the units at these places, bit for bit."""
        return [_bits(part.values)[row] for part, _ in self.parts]

    def add(self, n: int, bound: Bound, sums: Sums) -> None:
        """Add the sum over the first n units, each bounded."""
        if not self.parts:
            bound.count(torch.zeros(n))
            return
        found = [part.squares(n) for part, _ in self.parts]
        by_group: dict[int, list[Tensor]] = {}
        for (squares, _), (_, name) in zip(found, self.parts, strict=True):
            by_group.setdefault(bound.group([name]), []).append(squares)
        measured = {place: (torch.stack(squares).sum(0), None) for place, squares in by_group.items()}
        longest = torch.stack([each for _, each in found]).amax(0)  # NaN wins
        weights, bad = bound.factors(measured, None, longest)
        short = {place: weight.float() for place, weight in weights.items()}
        for part, name in self.parts:
            part.add(short[bound.group([name])], bad, sums)


def _bits(values: Sequence[Tensor]) -> Tensor:
    """(rows, bytes)."""
    if len({len(value) for value in values}) > 1 or len(values) > 2:  # blocks
        values = [torch.cat([value.flatten(1) for value in values])]
    return torch.cat([value.contiguous().view(len(value), -1).view(torch.uint8) for value in values], 1)
