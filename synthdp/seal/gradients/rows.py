"""What each unit of a bucket contributes, in the very float32 values that are summed (law 47).

A linear layer that sees one position per unit contributes g a^T, whose norm is |g| |a|: nothing is formed (Goodfellow 2015).
Wherever a unit's gradient is itself a sum, over the places of an image or a sequence, its row is formed: what that sum loses belongs
to the unit, and its norm is that of the row. Norms are taken in float64.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from synthdp.seal.gradients.bound import TINY, Batch, Bound, without
from synthdp.seal.gradients.layers import PARTS, Convolution, Embedding, Linear, Owners, Scale, Seen, at_once


class Outer:
    """A linear layer, one position per unit: g a^T and g."""

    def __init__(self, a: Tensor, g: Tensor, names: Mapping[str, str]) -> None:
        self.a, self.g, self.names = a.flatten(1), g.flatten(1), names
        self.weight, self.bias = float("weight" in names), float("bias" in names)  # 1.0: trained

    def held(self) -> list[Tensor]:
        return [self.a, self.g]

    def sums(self, weights: Tensor, bad: Tensor | None) -> dict[str, Tensor]:
        n = len(weights)
        g = without(self.g[:n], bad) * weights.unsqueeze(1)
        found = {self.names["bias"]: g.sum(0)} if self.bias else {}
        if self.weight:
            found[self.names["weight"]] = torch.mm(g.t(), without(self.a[:n], bad))
        return found


class Explicit:
    """The gradient of one parameter in full, a row for each unit, in blocks of units."""

    def __init__(self, name: str, blocks: Sequence[Tensor]) -> None:
        self.explicit, self.names = [block.flatten(1) for block in blocks], {"": name}

    def held(self) -> list[Tensor]:
        return [torch.cat(self.explicit)]

    def sums(self, weights: Tensor, bad: Tensor | None) -> dict[str, Tensor]:
        (name,), start = self.names.values(), 0
        total = self.explicit[0].new_zeros(self.explicit[0].shape[1])
        for block in self.explicit:
            own = weights[start : start + len(block)]
            rows = without(block[: len(own)], None if bad is None else bad[start : start + len(block)])
            total.addmv_(rows.t(), own)
            start += len(block)
        return {name: total}


class Lookup:
    """An embedding, one index per unit: g, at its row of the table. These are added to the table in float64, when all buckets are there."""

    def __init__(self, index: Tensor, g: Tensor, names: Mapping[str, str]) -> None:
        self.explicit, self.index, self.names = [g.flatten(1)], index.flatten(), names
        self.name, self.rows = names["weight"], self.explicit[0]

    def held(self) -> list[Tensor]:
        return [self.rows, self.index]

    def sums(self, weights: Tensor, bad: Tensor | None) -> dict[str, Tensor]:
        n = len(weights)
        self.index, self.rows = self.index[:n], without(self.rows[:n], bad) * weights.unsqueeze(1)
        return {}


Part = Outer | Lookup | Explicit


def _linear(layer: nn.Linear, a: Tensor, g: Tensor, names: Mapping[str, str]) -> list[Part]:  # noqa: ARG001
    if a.dim() == 2 or a[0, ..., 0].numel() == 1:
        return [Outer(a, g, names)]
    a, g = a.flatten(1, -2), g.flatten(1, -2)
    found: list[Part] = []
    if "weight" in names:
        step = max(1, at_once(a.device) // (a.shape[-1] * g.shape[-1]))
        blocks = [
            torch.bmm(right.mT, left) for left, right in zip(torch.split(a, step), torch.split(g, step), strict=True)
        ]
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
        found.append(Explicit(names["weight"], list(whole.rows(at_once(g.device)))))
    if "bias" in names:
        found.append(Explicit(names["bias"], [g.flatten(2).sum(2)]))
    return found


RULES: dict[Any, Callable[..., list[Part]]] = {
    Linear: _linear,
    Embedding: _embedding,
    Convolution: _convolution,
    Scale: _scale,
}


class Contributions:
    """The contributions of a bucket of units, by layer."""

    def __init__(self, seen: Seen, layers: Owners) -> None:
        self.parts: list[Part] = []
        if len({visit.layer for visit, _ in seen}) < len(seen):  # rows_apart.py lets no such module pass
            raise RuntimeError("a layer was called twice")
        for visit, g in seen:
            if g is not None:
                self.parts += RULES[PARTS[type(visit.layer)]](visit.layer, visit.input, g, layers[visit.layer])

    def values(self, places: Tensor) -> list[Tensor]:
        """All that is summed of the units at these places, byte by byte."""
        return [_bytes(value[places]) for part in self.parts for value in part.held()]

    def sums(self, n: int, bound: Bound) -> tuple[dict[str, Tensor], list[Lookup]]:
        """The sums over the first n units, each bounded, by parameter, float32; and what tables are to be added row by row."""
        groups: dict[int, list[Part]] = {}
        for part in self.parts:
            groups.setdefault(bound.group(part.names.values()), []).append(part)
        found = {place: _measured(group, n) for place, group in groups.items()}
        if not found:
            bound.count(torch.zeros(n))
            return {}, []
        longest = [each for _, each in found.values()]
        measured = {place: (squares, None) for place, (squares, _) in found.items()}
        weights, bad = bound.factors(measured, None, longest[0] if len(longest) == 1 else torch.stack(longest).amax(0))
        sums: dict[str, Tensor] = {}
        for place, group in groups.items():
            short = weights[place].float()
            for part in group:
                sums.update(part.sums(short, bad))
        return sums, [part for part in self.parts if isinstance(part, Lookup)]


def _measured(parts: Sequence[Part], n: int) -> tuple[Tensor, Tensor]:
    """Of the first n units, float64: squared norms over all parts, and the largest norm of what they are made of (NaN wins)."""
    outer = [part for part in parts if isinstance(part, Outer)]
    sides = [[side] for side in (*(part.a for part in outer), *(part.g for part in outer))]
    sides += [part.explicit for part in parts if not isinstance(part, Outer)]
    norms = torch.stack([_norms(blocks, n) for blocks in sides])
    squares, count = norms.square(), len(outer)
    if not outer:
        return squares.sum(0), norms.amax(0)
    scale, floor = _widths(tuple((part.weight, part.bias) for part in outer), norms.device)
    total = squares[:count].mul_(scale).add_(floor).mul_(squares[count : 2 * count]).sum(0)
    return total if len(norms) == 2 * count else total.add_(squares[2 * count :].sum(0)), norms.amax(0)


def _norms(blocks: Sequence[Tensor], n: int) -> Tensor:
    """(n,) L2 norms of the first n rows, in float64."""
    found = [torch.linalg.vector_norm(block[:n], dim=1, dtype=torch.float64) for block in blocks]
    return found[0] if len(found) == 1 else torch.cat(found)[:n]


@functools.lru_cache(maxsize=64)
def _widths(trained: tuple[tuple[float, float], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """(layers, 1) each: |a|^2 where the weight is trained, and 1 where the bias is."""
    made = torch.tensor(trained, dtype=torch.float64, device=device)
    return made[:, :1], made[:, 1:] + TINY


def _bytes(values: Tensor) -> Tensor:
    return values.contiguous().view(len(values), -1).view(torch.uint8)
