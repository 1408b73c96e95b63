"""The hidden layer of `pategan`'s discriminators: public units, each of which looks at two columns of a row.

A unit is a product (u . z_c)(v . z_d), where z_c are a column's features, centred and whitened under the noisy tables of the row's
label (`pair_kernel.interactions`), and u and v are directions drawn at random. Under the tables with independent columns it has
mean 0 and variance 1. Linear units u . z_c beside them see single columns, where no joint table has fixed those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor
from torch.nn import functional

from synthdp.generators.adversarial.pair_kernel import Interactions
from synthdp.generators.parts.devices import moved

FALL = 0.5  # of a direction's size from one feature of a column to the next: the first polynomials hang together most


@dataclass(frozen=True)
class PairUnits:
    """`left`, `right` (features, units): the directions of products; a linear unit's `right` is the constant. A row's units stand
    in the block of its label: the layer gives (rows, labels x units)."""

    space: Interactions
    left: Tensor
    right: Tensor

    @property
    def width(self) -> int:
        """Of the layer's output."""
        return len(self.space.weights) * self.left.shape[1]

    def to(self, device: torch.device) -> "PairUnits":
        return PairUnits(self.space.to(device), self.left.to(device), self.right.to(device))

    def of(self, rows: Tensor, labels: Tensor) -> Tensor:
        """(rows, width) one-hot rows, maybe soft, and their labels (rows,) -> the layer's output."""
        found = torch.zeros(len(rows), self.width, device=rows.device)
        units, there = self.left.shape[1], moved(labels, rows.device)
        for label in range(len(self.space.weights)):
            features = self.space.features(rows, label)
            products = (features @ self.left) * (features @ self.right) * self.space.weights[label]
            here = there[:, None] == label
            found[:, label * units : (label + 1) * units] = torch.where(here, products, 0.0)
        return found

    def of_codes(self, codes: Tensor) -> Tensor:
        """(rows, columns) codes -> the layer's output."""
        return self.of(self.space.blocks.one_hot(codes), self.space.labels_of(codes))


def pair_units(space: Interactions, count: int, *, linear: bool, generator: torch.Generator) -> PairUnits:
    """About `count` products, as many of every two columns, which weigh alike together.

    With `linear` there is also one unit per feature of every column.
    """
    owner = space.owner
    features, constant = len(owner), int(owner.max())  # the last one is the constant, a column of its own
    pairs = list(combinations(range(constant), 2))
    each = max(1, round(count / max(1, len(pairs)))) if count else 0
    left, right = [], []
    sizes = torch.bincount(owner)
    for one, other in pairs:
        several = min(each, int(sizes[one] * sizes[other]))
        for _ in range(several):
            left.append(_direction(owner, one, generator) * several**-0.5)
            right.append(_direction(owner, other, generator))
    if linear or not left:
        for place in range(max(1, features - 1)):  # where the label is the only column, the constant by itself
            left.append(functional.one_hot(torch.tensor(place), features).float())
            right.append(functional.one_hot(torch.tensor(features - 1), features).float())
    return PairUnits(space, _stacked(left), _stacked(right))


def _direction(owner: Tensor, column: int, generator: torch.Generator) -> Tensor:
    """A random direction of length 1 among the features of a column."""
    places = (owner == column).nonzero()[:, 0]
    drawn = torch.randn(len(places), generator=generator) * FALL ** torch.arange(len(places))
    found = torch.zeros(len(owner))
    found[places] = drawn / drawn.norm().clamp_min(1e-12)
    return found


def _stacked(directions: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(directions), 1)
