"""Rows of records and the units that they belong to, and what every layer does with them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from synthdp.seal.records import moved

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
