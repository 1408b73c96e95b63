"""What columns go together, as features, as a kernel, and as a student who learns it from noisy votes.

Features of a row, centred under the noisy tables of its label: orthonormal polynomials of an ordered column's rank, whitened
one-hot codes of any other column, and a constant. The interactions of a row are the products of features of two different
columns; two rows are compared by k(x, x') = sum over such products, for rows of the same label (a centred relative of the
chi-square kernel). The witness function between records and generated rows is linear in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from synthdp.generators.parts.devices import moved
from synthdp.generators.parts.table_networks import Blocks
from synthdp.schema.schema import Schema

ORDERED = ("integer", "continuous", "ordinal", "datetime")
LEAST_LABEL = 0.05  # share of a label below which it gets no more weight
TINY = 1e-4  # probability that a code of a noisy table has at least
PRIORS = tuple(4.0**power for power in range(-3, 2))  # scales of the prior that the student tries


@dataclass(frozen=True)
class Interactions:
    """`maps` (labels, width, features): from the one-hot row of a label to its features, the constant last, left at zero;
    `owner` (features,): the column that each comes of; `weights` (labels,)."""

    blocks: Blocks
    label: int | None
    maps: Tensor
    owner: Tensor
    weights: Tensor

    @property
    def apart(self) -> Tensor:
        """(features, features): 1 where two features are of different columns."""
        return (self.owner[:, None] != self.owner[None, :]).float()

    def to(self, device: torch.device) -> "Interactions":
        maps, owner, weights = (values.to(device) for values in (self.maps, self.owner, self.weights))
        return replace(self, maps=maps, owner=owner, weights=weights)

    def labels_of(self, codes: Tensor) -> Tensor:
        """(rows,) the label of each row; 0 where there is none."""
        return codes[:, self.label].long() if self.label is not None else torch.zeros(len(codes), dtype=torch.int64)

    def features(self, rows: Tensor, label: int) -> Tensor:
        """(rows, width) one-hot rows of one label, maybe soft, to (rows, features)."""
        found = rows @ self.maps[label]
        return torch.cat([found[:, :-1], torch.ones(len(rows), 1, device=rows.device)], 1)

    def kernel(self, codes: Tensor, queries: Tensor) -> Tensor:
        """k of every row and query, (rows, queries). Each row's numbers are its own: sums of entries of one table."""
        found = torch.zeros(len(codes), len(queries))
        rows, asked = self.labels_of(codes), self.labels_of(queries)
        hot = self.blocks.one_hot(queries)
        places = codes.long() + self.blocks.starts
        for label in range(len(self.weights)):
            own, other = (rows == label).nonzero()[:, 0], (asked == label).nonzero()[:, 0]
            if not len(own) or not len(other):
                continue
            # Of all queries, whatever their labels: a product of another shape may round in another way.
            table = (self.maps[label, :, :-1] @ self.features(hot, label)[:, :-1].T)[:, other].contiguous()
            matches = functional.embedding_bag(places[own], table, mode="sum")
            within = functional.embedding_bag(places[own], table.square(), mode="sum")
            # (m + 1)^2 less the squares of single columns and of the constant: all products of two different ones, twice
            kernel = ((matches + 1).square() - within - 1) * (self.weights[label] ** 2 / 2)
            if self.label is None:  # nothing to put in its place, which costs as much as all the rest
                return kernel
            found[own[:, None], other] = kernel
        return found

    def moments(self, rows: Tensor, labels: Tensor, scale: Tensor) -> Tensor:
        """Sums over rows of `scale` times their interactions, (labels, features, features), on the device of the rows, `scale` and
        the space; `labels` are on the CPU, so that how many rows are of each is known without waiting."""
        sums = []
        for label in range(len(self.weights)):
            chosen = moved((labels == label).nonzero()[:, 0], rows.device)
            found = self.features(rows[chosen], label)
            sums.append((found * (scale[chosen] * self.weights[label])[:, None]).T @ found)
        return torch.stack(sums) * self.apart


def interactions(
    schema: Schema, blocks: Blocks, label: int | None, columns: Tensor, labels: Tensor, *, degree: int, floor: float
) -> Interactions:
    """Features under the distributions `columns` (labels, width) of each label, whose shares are `labels`. `degree`: of the
    polynomials; `floor`: probability below which a rare code's weight grows no more."""
    names = schema.coded
    kept = [place for place in range(len(names)) if place != label]
    maps = []
    for row in columns.double():
        made = []
        for place in kept:
            shares = row[blocks.slices[place]].clamp_min(TINY)
            shares = shares / shares.sum()
            ordered = names[place].kind in ORDERED and degree > 0 and len(shares) > 2
            made.append(polynomials(shares, degree) if ordered else whitened(shares, floor))
        maps.append(_side_by_side(made, [blocks.slices[place] for place in kept], blocks.width))
    widths = [block.shape[1] for block in made]
    owner = torch.repeat_interleave(torch.arange(len(kept) + 1), torch.tensor([*widths, 1]))
    return Interactions(blocks, label, torch.stack(maps).float(), owner, labels.clamp_min(LEAST_LABEL).rsqrt())


def polynomials(shares: Tensor, degree: int) -> Tensor:
    """(codes, features) polynomials of the codes' midranks, orthonormal under `shares`, without the constant one."""
    degree = min(degree, len(shares) - 1)
    ranks = 2 * (shares.cumsum(0) - shares / 2) - 1
    powers = torch.stack([ranks**power for power in range(degree + 1)], 1)
    basis, _ = torch.linalg.qr(powers * shares.sqrt()[:, None])
    found: Tensor = (basis / shares.sqrt()[:, None])[:, 1:]
    return found


def whitened(shares: Tensor, floor: float) -> Tensor:
    """(codes, codes) one-hot codes less their mean, over the root of their shares."""
    return (torch.eye(len(shares), dtype=shares.dtype) - shares) / shares.clamp_min(floor).sqrt()


def _side_by_side(made: Sequence[Tensor], places: Sequence[slice], width: int) -> Tensor:
    whole = torch.zeros(width, sum(block.shape[1] for block in made) + 1, dtype=torch.float64)
    start = 0
    for block, place in zip(made, places, strict=True):
        whole[place, start : start + block.shape[1]] = block
        start += block.shape[1]
    return whole


def learnt(
    space: Interactions, queries: Tensor, answers: Tensor, deviations: Tensor, device: torch.device | None = None
) -> Tensor:
    """The student: mean interactions of the records, (labels, features, features), from noisy evaluations, computed on the
    `device`; all that is given is on the CPU.

    `answers` (queries,) are mean k(x, q) over records plus independent N(0, deviation^2).
    """
    device = device or queries.device
    asked = space.kernel(queries, queries), answers, deviations
    weights = weights_of(*(values.to(device) for values in asked))
    rows = space.blocks.one_hot(queries).to(device)
    return space.to(device).moments(rows, space.labels_of(queries), weights.float())


def weights_of(kernel: Tensor, answers: Tensor, deviations: Tensor) -> Tensor:
    """(queries,) w with sum of w k(., q) the expected embedding, given its evaluations plus independent N(0, deviation^2).

    Under a normal prior on the mean features that is a Gaussian process of covariance `kernel` (queries, queries) (Rasmussen &
    Williams 2006, section 2.2); the prior's scale is the one of a few under which the answers are likeliest (ibid., section
    5.4).
    """
    covariance = kernel.double()
    covariance = (covariance + covariance.T) / 2
    noise = deviations.double().square()
    scale = float(((answers.square() - noise) / covariance.diagonal().clamp_min(1e-12)).mean().clamp_min(1e-8))
    jitter = 1e-6 * scale * float(covariance.diagonal().mean())
    best, weights = -np.inf, torch.zeros_like(answers)
    for prior in PRIORS:
        whole = scale * prior * covariance + torch.diag(noise + jitter)
        factor, failed = torch.linalg.cholesky_ex(whole)
        if failed:
            continue
        solved = torch.cholesky_solve(answers[:, None], factor)[:, 0]
        evidence = float(-answers @ solved / 2 - factor.diagonal().log().sum())
        if evidence > best:
            best, weights = evidence, solved * (scale * prior)
    return weights


def distance(space: Interactions, rows: Tensor, labels: Tensor, taught: Tensor) -> Tensor:
    """Squared distance of generated rows' mean interactions from `taught`; the two halves make the square unbiased. `labels` as
    in `moments`."""
    half = len(rows) // 2
    one, other = (
        space.moments(part, own, torch.full((len(part),), 1 / max(1, len(part)), device=rows.device)) - taught
        for part, own in ((rows[:half], labels[:half]), (rows[half:], labels[half:]))
    )
    return (one * other).sum() / 2


# ---- The hidden layer of `pategan`'s discriminators: public units, each of which looks at two columns of a row.
#
# A unit is a product (u . z_c)(v . z_d), where z_c are a column's features, centred and whitened under the noisy tables of the row's
# label (`interactions`), and u and v are directions drawn at random. Under the tables with independent columns it has mean 0 and
# variance 1. Linear units u . z_c beside them see single columns, where no joint table has fixed those.


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
    return PairUnits(space, torch.stack(left, 1), torch.stack(right, 1))


def _direction(owner: Tensor, column: int, generator: torch.Generator) -> Tensor:
    """A random direction of length 1 among the features of a column."""
    places = (owner == column).nonzero()[:, 0]
    drawn = torch.randn(len(places), generator=generator) * FALL ** torch.arange(len(places))
    found = torch.zeros(len(owner))
    found[places] = drawn / drawn.norm().clamp_min(1e-12)
    return found
