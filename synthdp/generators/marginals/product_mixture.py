"""A mixture of product distributions, fitted to noisy tables by weighted least squares.

P(x, y) = sum_k w_k P_k(y) prod_j P_k(x_j): latent classes, as in Lazarsfeld & Henry 1968. Every table of the label with two columns
is then a block of sum_k w_k P_k(y) P_k P_k^T, one matrix product for all tables of a label together, where P stacks the
columns' probabilities. Fitting models to noisy tables by gradients is the idea of Aydore et al. 2021 and Liu et al. 2021.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
BETAS = (
    0.8,
    0.9,
)  # of Adam: gradients shrink by orders within the first steps, and a long memory of them stalls the fit
MOST_PULL = (
    300.0  # deviations of noise in all records from which on shrinkage grows no more, so that clear relations stand
)
CLEAR = 4.0  # weight of broad tables, and of those asked again: what stands clear of the noise must not be shrunk with what does not
CERTAIN = 30.0  # weight of triples: only those are fitted that the noise does not explain
SPREAD = 1.0  # of the logits of components at the start


@dataclass(frozen=True, kw_only=True, eq=False)
class Products:
    """`weights` (components,), `label` (components, labels), `columns` one (components, groups) each: distributions."""

    weights: Array
    label: Array
    columns: tuple[Array, ...]

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Whole, list[Whole]]:
        """Labels (rows,) and groups of every column, each (rows,)."""
        component = _drawn(self.weights[None, :], np.zeros(rows, np.int64), rng)
        return _drawn(self.label, component, rng), [_drawn(column, component, rng) for column in self.columns]

    def given(self, label: Array, columns: Mapping[int, Array]) -> "Products | None":
        """The mixture given an event that is independent over the columns within a component: `label` (labels,) and
        `columns` (groups,) of some columns have its probability given each value, in [0, 1]. None where it has probability 0.

        Components by Bayes' rule, in logarithms: w_k P_k(event), where P_k(event) is a product over the columns; then every
        column by itself within the component.
        """
        parts = {place: self.columns[place] * event for place, event in columns.items()}
        label = self.label * label
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + np.log(label.sum(1)) - np.log(self.label.sum(1))
            for place, part in parts.items():
                logs = logs + np.log(part.sum(1)) - np.log(self.columns[place].sum(1))
        alive = np.flatnonzero(logs > -np.inf)
        if not len(alive):
            return None
        posterior = np.exp(logs[alive] - logs[alive].max())
        columns_left = tuple(parts.get(place, column)[alive] for place, column in enumerate(self.columns))
        return Products(weights=posterior / posterior.sum(), label=label[alive], columns=columns_left)


def allotted(shares: Array, first: Whole, strata: Whole, rng: np.random.Generator) -> Whole:
    """A place in `shares` for each row's stratum (rows,): the shares of stratum s lie from `first[s]` to `first[s + 1]`; those of a
    stratum that has rows are not all 0.

    Of the n rows of a stratum one has its lot in every n-th part of [0, 1), in random order: each lot by itself is uniform;
    together they follow the shares more closely than independent ones (systematic sampling, Madow & Madow 1944). So every place
    has its number of rows before one is drawn, and nothing is searched for.
    """
    of = np.repeat(np.arange(len(first) - 1), np.diff(first))
    begins = np.arange(len(shares)) == first[of]
    rows = np.bincount(strata, minlength=len(first) - 1)[of]
    mass = np.bincount(of, weights=shares, minlength=len(first) - 1)[of]
    sums = np.append(0.0, np.cumsum(shares / np.maximum(mass, np.finfo(float).tiny)))
    below = sums[first[of]]
    ends = (sums[1:] - below) / np.maximum(sums[first[of + 1]] - below, 0.5)
    upto = np.ceil(rows * ends - rng.random(len(first) - 1)[of]).astype(np.int64)
    upto = np.where(ends >= 1, rows, np.clip(upto, 0, rows))  # also where rounding would lose the last row
    numbers = upto - np.where(begins, 0, np.roll(upto, 1))
    mixed = rng.permutation(len(strata))
    narrow = strata.astype(np.uint16) if len(first) <= 1 << 16 else strata  # sorted by radix, in a quarter of the time
    found = np.empty(len(strata), np.int64)
    found[mixed[np.argsort(narrow[mixed], kind="stable")]] = np.repeat(np.arange(len(shares)), numbers)
    return found


def _drawn(chances: Array, component: Whole, rng: np.random.Generator) -> Whole:
    """A place of each row's distribution."""
    count, wide = chances.shape
    found: Whole = allotted(chances.ravel(), np.arange(count + 1) * wide, component, rng) - component * wide
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Broad:
    """Noisy shares of every two ordered columns in a few places each: `of` (width, places) is 1 where a group lies in a place,
    `held` (places, places) are tables above the diagonal, `measured` (places, places) marks them, `precision` is 1 / deviation."""

    of: "Tensor"
    held: "Tensor"
    measured: "Tensor"
    precision: float

    def to(self, device: "torch.device") -> "Broad":
        of, held, measured = (each.to(device) for each in (self.of, self.held, self.measured))
        return Broad(of=of, held=held, measured=measured, precision=self.precision)

    def residual(self, w: "Tensor", p: "Tensor") -> "Tensor":
        """Sum of squared residuals, in deviations, of a mixture with weights `w` (components,) and columns `p` (components, width)."""
        wide = p @ self.of
        made = (wide * w.unsqueeze(1)).T @ wide
        return ((made - self.held) * self.measured).square().sum() * self.precision**2


@dataclass(frozen=True, kw_only=True, eq=False)
class Triples:
    """What three columns in halves tell beyond any two. `signs` (width, columns) is -1 or 1 for each group of a column, by its half, and
    0 for those of others; `of` (3, triples) are the columns of each triple; `held` (labels, triples) is the noisy mean over all records
    of the product of their signs where the label has this value; `precision` (triples,) is 1 / deviation."""

    signs: "Tensor"
    of: "Tensor"
    held: "Tensor"
    precision: "Tensor"

    def to(self, device: "torch.device") -> "Triples":
        signs, of, held, precision = (each.to(device) for each in (self.signs, self.of, self.held, self.precision))
        return Triples(signs=signs, of=of, held=held, precision=precision)

    def residual(self, w: "Tensor", y: "Tensor", p: "Tensor") -> "Tensor":
        """Sum of squared residuals, in deviations, of a mixture as in `Evidence.residual`."""
        means = p @ self.signs
        made = (y * w.unsqueeze(1)).T @ (means[:, self.of[0]] * means[:, self.of[1]] * means[:, self.of[2]])
        return ((made - self.held) * self.precision).square().sum()


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Noisy shares, and how many deviations of noise one share is. `tables` (labels, part, part): above the diagonal the tables of
    each measured pair of the first columns with the label, `measured` (part, part) marks them; `pairs` (wide, wide) and
    `pairs_measured` likewise without it, where the mark of a pair with less noise is larger than 1; `ones` (width,) each column
    alone, `labelled` (labels, width) each column with the label, where its precision is not 0; `label` (labels,) by itself."""

    sizes: tuple[int, ...]  # groups of each column
    tables: "Tensor"
    measured: "Tensor"
    precision: float  # 1 / deviation of a cell of `tables`
    pairs: "Tensor"
    pairs_measured: "Tensor"
    pairs_precision: float
    ones: "Tensor"
    ones_precision: "Tensor"  # (width,)
    labelled: "Tensor"
    labelled_precision: "Tensor"  # (width,)
    label: "Tensor"  # (labels,)
    label_precision: "Tensor"  # (labels,)
    broad: Broad | None = None
    triples: Triples | None = None

    @property
    def ends(self) -> list[int]:
        """Where each column begins in the width, and the width."""
        return [0, *np.cumsum(self.sizes).tolist()]

    def to(self, device: "torch.device") -> "Evidence":
        return replace(
            self,
            tables=self.tables.to(device),
            measured=self.measured.to(device),
            pairs=self.pairs.to(device),
            pairs_measured=self.pairs_measured.to(device),
            ones=self.ones.to(device),
            ones_precision=self.ones_precision.to(device),
            labelled=self.labelled.to(device),
            labelled_precision=self.labelled_precision.to(device),
            label=self.label.to(device),
            label_precision=self.label_precision.to(device),
            broad=None if self.broad is None else self.broad.to(device),
            triples=None if self.triples is None else self.triples.to(device),
        )

    @property
    def cells(self) -> float:
        """Measured cells of all tables."""
        return float(self.measured.sum()) * len(self.tables) + float((self.pairs_measured > 0).sum())

    def residual(self, w: "Tensor", y: "Tensor", p: "Tensor") -> "Tensor":
        """Mean squared residual of the cells, in deviations, of a mixture: weights `w` (components,), labels `y` (components,
        labels), columns `p` (components, width)."""
        total, part = p.new_zeros(()), p[:, : self.tables.shape[1]]
        for place in range(len(self.tables)):
            made = (part * (w * y[:, place]).unsqueeze(1)).T @ part
            total = total + ((made - self.tables[place]) * self.measured).square().sum()
        wide = p[:, : len(self.pairs)]
        apart = (((wide * w.unsqueeze(1)).T @ wide - self.pairs) * self.pairs_measured).square().sum()
        return (total * self.precision**2 + apart * self.pairs_precision**2) / max(1.0, self.cells)


def fit(evidence: Evidence, *, starts: int, progress: "Callable[[int, Tensor], None]", **settings: Any) -> Products:
    """The average of `starts` fits: their errors differ, and the tables of the average are the averages of the tables.

    `settings` and the rest as in `fit_once`; `progress` counts the steps of all.
    """

    def counted(start: int) -> "Callable[[int, Tensor], None]":
        return lambda step, residual: progress(start * int(settings["iterations"]) + step, residual)

    fits = [fit_once(evidence, progress=counted(start), **settings) for start in range(starts)]
    return Products(
        weights=np.concatenate([each.weights / starts for each in fits]),
        label=np.concatenate([each.label for each in fits]),
        columns=tuple(np.concatenate(parts) for parts in zip(*(each.columns for each in fits), strict=True)),
    )


def fit_once(
    evidence: Evidence,
    *,
    components: int,
    iterations: int,
    rate: float,
    shrinkage: float,
    generator: "torch.Generator",
    device: "torch.device",
    progress: "Callable[[int, Tensor], None]",
) -> Products:
    """Adam on the sum of squared residuals in deviations of the noise, plus `shrinkage` times the number of deviations in all records
    times the components' mean Kullback-Leibler divergence from the one-way distributions: what holds components back from fitting
    the noise. So weighed, one value of it serves many cells and few, and much noise and little; but it grows no more from
    `MOST_PULL` deviations on, else clear correlations would be shrunk on large tables. Both are divided by the cells.

    `progress` gets the step and the mean squared residual of the tables, about 1 where the model is right; it lies on the
    `device`, for whose work nobody waits who does not look at it.
    """
    import torch

    evidence = evidence.to(device)
    labels, width = len(evidence.tables), len(evidence.ones)
    common = evidence.ones.clamp_min(1e-6).log()
    drawn = (torch.randn(components, size, generator=generator).to(device) for size in (labels, width))
    weights, label, columns = torch.zeros(components, device=device), *drawn
    columns = SPREAD * columns + common
    parameters = [each.requires_grad_() for each in (weights, label, columns)]
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]
    cells, asked = max(1.0, evidence.cells), bool((evidence.labelled_precision > 0).any())
    pull = shrinkage * min(MOST_PULL, max(evidence.precision, evidence.pairs_precision)) / cells
    for step in range(iterations):
        w, y, p = _distributions(weights, label, columns, evidence.ends)
        residual = evidence.residual(w, y, p)
        alone = ((w @ p - evidence.ones) * evidence.ones_precision).square().sum() / cells
        alone = alone + ((w @ y - evidence.label) * evidence.label_precision).square().sum() / cells
        if asked:
            beside = (w.unsqueeze(1) * y).T @ p - evidence.labelled
            alone = alone + (beside * evidence.labelled_precision).square().sum() / cells
        if evidence.broad is not None:
            alone = alone + CLEAR * evidence.broad.residual(w, p) / cells
        if evidence.triples is not None:
            alone = alone + CERTAIN * evidence.triples.residual(w, y, p) / cells
        spread = (w * (p * ((p + 1e-9).log() - common)).sum(1)).sum()
        loss = residual + alone + pull * spread
        slopes = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            _adam(parameters, slopes, moments, step + 1, rate * (1 + math.cos(math.pi * step / iterations)) / 2)
        progress(step + 1, residual.detach())
    with torch.no_grad():
        found = [each.double().cpu().numpy() for each in _distributions(weights, label, columns, evidence.ends)]
    parts = tuple(found[2][:, a:b] for a, b in pairwise(evidence.ends))
    return Products(weights=found[0], label=found[1], columns=parts)


def _adam(
    parameters: "Sequence[Tensor]",
    slopes: "Sequence[Tensor]",
    moments: "Sequence[tuple[Tensor, Tensor]]",
    step: int,
    rate: float,
) -> None:
    """One step of Adam (Kingma & Ba 2015, algorithm 1), in place; the first is step 1. torch.optim would import torch._dynamo, which
    takes as long as the rest of torch."""
    mean, square = BETAS
    for parameter, slope, (first, second) in zip(parameters, slopes, moments, strict=True):
        first.lerp_(slope, 1 - mean)
        second.mul_(square).addcmul_(slope, slope, value=1 - square)
        scale = second.sqrt().div_(math.sqrt(1 - square**step)).add_(1e-8)
        parameter.addcdiv_(first, scale, value=-rate / (1 - mean**step))


def _distributions(
    weights: "Tensor", label: "Tensor", columns: "Tensor", ends: Sequence[int]
) -> "tuple[Tensor, Tensor, Tensor]":
    import torch

    parts = [columns[:, start:end].softmax(1) for start, end in pairwise(ends)]
    return weights.softmax(0), label.softmax(1), torch.cat(parts, 1) if parts else columns


def components_of(records: float, deviation: float) -> int:
    """How many components the noise lets be told apart: 300 on 32,561 records at a deviation of 38, 100 to 800 elsewhere."""
    return int(np.clip(10 * math.sqrt(max(records, 1.0) / max(deviation, 1e-3)), 100, 800))
