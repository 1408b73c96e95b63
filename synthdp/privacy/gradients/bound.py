"""How a unit's contribution is bounded, and where the bounded contributions are added up."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

MARGIN = 1e-4  # what float32 may move a sum by, in clips (GUARANTEE 12)
CHUNK, LARGE_CHUNK = 256, 1024  # units that one float32 product sums over; the large one where there are at most FEW
FEW = 1 << 16  # a sum's rounding grows with the square root of units x chunk; at both ends it is half of MARGIN at most
CANCEL = 300.0  # parts of a unit may exceed its norm by this before it is scaled down further


def factors(squares: Tensor, spread: Tensor | None, clip: float) -> tuple[Tensor, Tensor | None]:
    """(weights, bad): what each unit's gradient is multiplied by, and which units are left out (None: no unit).

    `squares` (units,) are squared norms; `spread` bounds (sum of the norms of the parts that make the unit's
    gradient)^2. The error of a float32 sum is relative to the parts, not to what is left after they cancel.
    """
    if spread is not None:
        squares = torch.maximum(squares, spread.mul(CANCEL**-2))
    bound = clip * (1 - MARGIN)
    weights = squares.clamp_min(bound * bound).rsqrt_().mul_(bound)
    if math.isfinite(squares.sum().item()):  # the sum is finite only if each of them is
        return weights, None
    finite = torch.isfinite(squares)
    return torch.where(finite, weights, 0.0), ~finite


class Gradients(dict[str, Tensor]):
    """One tensor per parameter, by name; all of them are views of `flat`, so that one call can serve them all."""

    def __init__(self, flat: Tensor, like: Mapping[str, Tensor]) -> None:
        self.flat = flat
        parts: list[Tensor] = torch._C._nn.unflatten_dense_tensors(flat, list(like.values()))
        super().__init__(zip(like, parts, strict=True))


class Sums:
    """Where weighted sums are added up: float64, or the parameters' own type where one product holds all units."""

    def __init__(self, trained: Mapping[str, Tensor], units: int) -> None:
        types = {parameter.dtype for parameter in trained.values()}
        own = types.pop() if len(types) == 1 and units <= LARGE_CHUNK else torch.float64
        self.chunk = LARGE_CHUNK if units <= FEW else CHUNK
        self.dtype = own if own == torch.float32 else torch.float64
        device = next(iter(trained.values())).device if trained else None
        size = sum(parameter.numel() for parameter in trained.values())
        flat = torch.empty(size, dtype=self.dtype, device=device)
        self._named = Gradients(flat, trained)
        self._fresh = set(trained)
        self._turned: dict[str, Tensor] = {}  # transposed sums, until the end

    def add(self, name: str, value: Tensor) -> None:
        """Add a sum of at most `chunk` units."""
        target = self._named[name]
        if value.shape != target.shape:
            value = value.view(target.shape)
        if name in self._fresh:
            self._fresh.discard(name)
            target.copy_(value)
        else:
            target.add_(value)

    def add_product(self, name: str, left: Tensor, right: Tensor) -> None:
        """Add left^T right."""
        if name in self._fresh and left.dtype == self.dtype:
            self._fresh.discard(name)
            torch.mm(left.t(), right, out=self._named[name])
        elif right.shape[1] < left.shape[1]:  # a product is faster with its long side last
            product = torch.mm(right.t(), left)
            known = self._turned.get(name)
            self._turned[name] = product.to(self.dtype) if known is None else known.add_(product)
        else:
            self.add(name, torch.mm(left.t(), right))

    def add_column_sums(self, name: str, rows: Tensor) -> None:
        """Add the sum of the rows."""
        if name in self._fresh and rows.dtype == self.dtype:
            self._fresh.discard(name)
            torch.sum(rows, 0, out=self._named[name])
        else:
            self.add(name, rows.sum(0))

    def add_rows(self, name: str, index: Tensor, rows: Tensor) -> None:
        """Add rows[i] to row index[i]."""
        if name in self._fresh:
            self._fresh.discard(name)
            self._named[name].zero_()
        self._named[name].index_add_(0, index, rows.to(self.dtype))

    def finished(self) -> Gradients:
        """The sums; zeros where nothing was added."""
        for name, value in self._turned.items():
            self.add(name, value.t())
        self._turned.clear()
        for name in self._fresh:
            self._named[name].zero_()
        self._fresh.clear()
        return self._named
