"""How a unit's contribution is bounded, and where the bounded contributions are added up."""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from synthdp.seal.clipping import Automatic, Flat, Layout, Rule
from synthdp.seal.to_device import moved

# ---- Rows of records and the units that they belong to, and what every layer does with them.


TINY = 1.2e-38  # below this float32 may flush to zero: a floor for squares that are multiplied with large ones


@dataclass(frozen=True)
class Batch:
    """Units of up to `size` records each, and their records in one row after another.

    `place` says where each row belongs in the padded layout, unit * size + slot; None where no unit is short of records.
    `counts` (units,) makes the gradient of a unit a mean: it is divided by so many before it is bounded; None: a sum.
    """

    units: int
    size: int
    rows: Tensor
    place: Tensor | None
    counts: Tensor | None = None

    @classmethod
    def of(cls, records: Tensor, mask: Tensor | None, counts: Tensor | None = None) -> "Batch":
        """From (units, ...), or from (units, R, ...) with its mask: the padding is dropped. A mask on the CPU is looked at
        there, and nobody waits for the device of the records."""
        if mask is None:
            return cls(len(records), 1, records, None, counts)
        units, size = mask.shape
        flat, held = records.flatten(0, 1), mask.flatten().bool()
        if bool(held.all()):
            return cls(units, size, flat, None, counts)
        place = moved(held.nonzero().squeeze(1), records.device)
        return cls(units, size, flat[place], place, counts)

    def padded(self, rows: Tensor) -> Tensor:
        """(rows, ...) -> (units * size, ...), zeros where a unit is short of records."""
        if self.place is None:
            return rows
        return rows.new_zeros(self.units * self.size, *rows.shape[1:]).index_copy_(0, self.place, rows)

    def spread(self, values: Tensor) -> Tensor:
        """(units,) -> (rows,): each row gets its unit's value."""
        if self.size == 1 and self.place is None:
            return values
        if self.place is None:
            return values.repeat_interleave(self.size)
        return values[self.place // self.size]


STEP = 64  # rows: kernels round the last rows of a product otherwise, unless they are a multiple of so many


def to_step(rows: Tensor, step: int = STEP) -> Tensor:
    """The rows, and zeros up to a multiple of `step`."""
    padded = rows.new_zeros(-(-len(rows) // step) * step, *rows.shape[1:])
    padded[: len(rows)] = rows
    return padded


def square_norms(rows: Tensor, floor: float = 0.0) -> Tensor:
    """(n, ...) -> (n,) float64."""
    norms: Tensor = torch.linalg.vector_norm(rows.flatten(1), dim=1)
    return norms.double().square_().add_(floor)


def weighted(rows: Tensor, weights: Tensor, bad: Tensor | None) -> Tensor:
    """Each row times its weight, in the rows' type; bad rows zero, whatever they hold."""
    scaled = rows * weights.to(rows.dtype).view(-1, *(1,) * (rows.dim() - 1))
    return scaled if bad is None else scaled.masked_fill_(bad.view(-1, *(1,) * (rows.dim() - 1)), 0.0)


def without(rows: Tensor, bad: Tensor | None) -> Tensor:
    """Bad rows zero: zero times infinity would not be."""
    return rows if bad is None else rows.masked_fill(bad.view(-1, *(1,) * (rows.dim() - 1)), 0.0)


FLAT = Flat()
MARGIN = 1e-4  # what rounding may move a sum by, in clips (law 12); float64 needs far less
# Magnitude of factors, rows and norms in float32 at which a unit is left out; from half of it on it fades
LARGEST = 2.0**64
CHUNK = 1024  # units whose scaled copies are held at a time
CANCEL = 300.0  # parts of a unit may exceed its norm by this before it is scaled down further
RAMP = 0.05  # of the clip, to either side: where a count of units within the clip goes from 1/2 to -1/2


class Bound:
    """How the gradients of one sum are bounded: `clip` by a `rule`, whose groups are `layout`'s.

    Contributions stay by `margin` below their bound, in clips. With `counting`, `within` adds up 1/2 for each unit whose norm is
    within the clip and -1/2 for each other one. Between 0.95 and 1.05 clips it is a ramp, times 1 - MARGIN: a step would let another
    unit's rounding, which the company it is in may change, move the count by a whole bit. A unit without a finite norm counts as
    outside.
    """

    def __init__(
        self,
        clip: float,
        rule: Rule = FLAT,
        layout: Layout | None = None,
        *,
        counting: bool = False,
        margin: float = MARGIN,
    ) -> None:
        self.clip, self.rule, self.counting = clip, rule, counting
        self._counts: list[Tensor] = []
        bounds: tuple[float, ...] = (1.0,)
        self._places: Mapping[str, int] | None = None
        if layout is not None and len(layout.bounds) > 1:
            bounds, self._places = layout.bounds, layout.places
        self._limits = [clip * (1 - margin) * bound for bound in bounds]

    def group(self, names: Iterable[str]) -> int:
        """The group of a layer, by the names of its parameters."""
        return 0 if self._places is None else self._places[next(iter(names))]

    def splits(self, names: Iterable[str]) -> bool:
        """Whether these parameters of one layer are in several groups."""
        return self._places is not None and len({self._places[name] for name in names}) > 1

    def factors(
        self, measured: Mapping[int, tuple[Tensor, Tensor | None]], counts: Tensor | None, longest: Tensor | None = None
    ) -> tuple[dict[int, Tensor], Tensor | None]:
        """(weights, bad): by group, what each unit's gradient is multiplied by, and which units are left out (None: none).

        `measured` holds by group `squares` (units,), squared norms, and `spread`, a bound on (sum of the norms of the parts
        that make the unit's gradient)^2. The error of a float32 sum is relative to the parts, not to what is left after
        they cancel. `counts` (units,): each gradient is a sum over so many, and its mean is what is bounded.
        `longest` (units,): norms of what the gradients are products of. Up to `LARGEST` they leave their unit out, as its norm does, by
        and by: at an edge the last bit of a norm, which the company may change, would move a whole contribution.
        """
        squares = {
            place: own if spread is None else torch.maximum(own, spread.mul(CANCEL**-2))
            for place, (own, spread) in measured.items()
        }
        if counts is not None:
            divisors = counts.double().clamp_min(1.0)
            squares = {place: own.double() / divisors.square() for place, own in squares.items()}
        if len(squares) == 1:
            (total,) = squares.values()
        else:
            total = torch.stack([own.double() for own in squares.values()]).sum(0)
        left = None
        small = (
            longest is not None
            and total.device.type == "cpu"
            and bool(longest.max() <= LARGEST / 2)
            and bool(total.max() <= LARGEST**2 / 4)
        )
        if longest is not None and not small:
            left = (2 - torch.maximum(longest, total.sqrt()) / (LARGEST / 2)).nan_to_num_(0.0).clamp_(0.0, 1.0)
            total = torch.where(left > 0, total, math.inf)
        self.count(total, left)
        weights = {place: self._weights(own, self._limits[place]) for place, own in squares.items()}
        if left is not None:
            weights = {place: weight.mul_(left) for place, weight in weights.items()}
        if counts is not None:
            weights = {place: weight.div_(divisors) for place, weight in weights.items()}
        # If `small`, no norm can be infinite. The sum of norms is finite only if each of them is.
        # That saves a pass over all gradients on the CPU, where it can be looked at
        # at once; a GPU would have to be waited for, and left units out are left out either way.
        if small or (total.device.type == "cpu" and math.isfinite(total.sum().item())):
            return weights, None
        finite = torch.isfinite(total)
        return {place: torch.where(finite, weight, 0.0) for place, weight in weights.items()}, ~finite

    def _weights(self, squares: Tensor, limit: float) -> Tensor:
        if isinstance(self.rule, Automatic):
            return squares.sqrt().add_(self.rule.gamma).reciprocal_().mul_(limit)
        return squares.clamp_min(limit * limit).rsqrt_().mul_(limit)

    def count(self, squares: Tensor, left: Tensor | None = None) -> None:
        """Count units of these squared norms, (units,), of which so much is `left` in."""
        if not self.counting:
            return
        inside = (1 + RAMP - squares.double().sqrt() / self.clip) / (2 * RAMP)
        bits = torch.nan_to_num(inside, nan=0.0, posinf=1.0, neginf=0.0).clamp(0.0, 1.0)
        self._counts.append(((bits if left is None else bits * left) - 0.5).sum())

    @property
    def within(self) -> float:
        """The count; read from the device here, once."""
        total = 0.0
        for count in self._counts:
            total += float(count) * (1 - MARGIN)
        return total


class Gradients(Mapping[str, Tensor]):
    """One tensor per parameter, by name: views of `flat`, made on first access, so that one call on `flat` serves them all."""

    def __init__(self, flat: Tensor, like: Mapping[str, Tensor]) -> None:
        self.flat = flat
        self._shapes: dict[str, torch.Size] = (
            like._shapes if isinstance(like, Gradients) else {name: value.shape for name, value in like.items()}
        )

    @functools.cached_property
    def _views(self) -> dict[str, Tensor]:
        parts = torch.split(self.flat, [shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def __getitem__(self, name: str) -> Tensor:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


class Sums:
    """Where weighted sums are added up, in float64."""

    def __init__(self, trained: Mapping[str, Tensor]) -> None:
        device = next(iter(trained.values())).device if trained else None
        size = sum(parameter.numel() for parameter in trained.values())
        flat = torch.empty(size, dtype=torch.float64, device=device)
        self._named = Gradients(flat, trained)
        self._fresh = set(trained)
        self._turned: dict[str, Tensor] = {}  # transposed sums, until the end

    def add(self, name: str, value: Tensor) -> None:
        """Add a sum of at most `CHUNK` units."""
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
        if name in self._fresh and left.dtype == torch.float64:
            self._fresh.discard(name)
            torch.mm(left.t(), right, out=self._named[name])
        elif right.shape[1] < left.shape[1]:  # a product is faster with its long side last
            product = torch.mm(right.t(), left)
            known = self._turned.get(name)
            self._turned[name] = product.double() if known is None else known.add_(product)
        else:
            self.add(name, torch.mm(left.t(), right))

    def add_column_sums(self, name: str, rows: Tensor) -> None:
        """Add the sum of the rows."""
        if name in self._fresh and rows.dtype == torch.float64:
            self._fresh.discard(name)
            torch.sum(rows, 0, out=self._named[name])
        else:
            self.add(name, rows.sum(0))

    def add_rows(self, name: str, index: Tensor, rows: Tensor) -> None:
        """Add rows[i] to row index[i]."""
        if name in self._fresh:
            self._fresh.discard(name)
            self._named[name].zero_()
        self._named[name].index_add_(0, index, rows.double())

    def finished(self) -> Gradients:
        """The sums; zeros where nothing was added."""
        for name, value in self._turned.items():
            self.add(name, value.t())
        self._turned.clear()
        for name in self._fresh:
            self._named[name].zero_()
        self._fresh.clear()
        return self._named
