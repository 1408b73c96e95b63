"""How mode `shares` of PATE-GAN compares pictures: by whitened coefficients in axes of pictures that are public.

A picture's coefficients z are those along the principal axes of the start's pictures around their label's mean, each of unit
variance within its label. Pictures of the same label compare by k(x, x') = (1 + <z, z'> / sqrt(axes))^degree - 1, whose features
are all products of up to `degree` coefficients: of degree 3 they hold what class Gaussians cannot. Teachers must answer with
the same bits wherever a record is in a batch: the products are sums of whole numbers below 2^53, exact in any order.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from synthdp.generators.images.image_networks import principal_axes
from synthdp.generators.images.pixel_rows import WHITE, Canvas

AXES = 24
BITS = 24  # of an entry of the lens: with a picture's values below 2^53 for up to 2^21 of them
FINE, MOST = 1024.0, 32.0  # whole steps in 1, and the largest coefficient
LEAST_LABEL = 0.05  # share of a label below which it gets no more weight
PSEUDO = 10  # pictures of a label that its coefficients' unit variance counts for


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """`lens` (pixels, axes): whole numbers; `unit`: what they are to be multiplied by; `centres` and `inverses` (labels, axes):
    means, and one over deviations; `weights` (labels,): of comparisons."""

    canvas: Canvas
    lens: Tensor
    unit: float
    centres: Tensor
    inverses: Tensor
    weights: Tensor
    degree: int

    def to(self, device: torch.device) -> "Coefficients":
        """What `seen` reads elsewhere; the weights stay, since they are read one by one."""
        lens, centres, inverses = (values.to(device) for values in (self.lens, self.centres, self.inverses))
        return replace(self, lens=lens, centres=centres, inverses=inverses)

    def labels_of(self, codes: Tensor) -> Tensor:
        """(rows,) the label of each row; 0 where there is none."""
        place = self.canvas.label
        return codes[:, place].long() if place is not None else torch.zeros(len(codes), dtype=torch.int64)

    def of(self, codes: Tensor) -> Tensor:
        """(rows, axes) coefficients of codes, whole numbers of steps, float64."""
        start = self.canvas.start
        found = codes[:, start : start + self.canvas.pixels].double() @ self.lens
        labels = self.labels_of(codes)
        scaled = (found * (self.unit / WHITE) - self.centres[labels]) * self.inverses[labels]
        return (scaled * FINE).round().clamp(-MOST * FINE, MOST * FINE)

    def seen(self, values: Tensor, labels: Tensor) -> Tensor:
        """(rows, axes) coefficients of values in [0, 1], float32, to be descended on."""
        found = values @ (self.lens * self.unit).float()
        return ((found - self.centres[labels].float()) * self.inverses[labels].float()).clamp(-MOST, MOST)

    def alike(self, products: Tensor) -> Tensor:
        """The kernel, but for labels, from inner products of coefficients."""
        base = 1 + products * torch.tensor(self.lens.shape[1], dtype=products.dtype).rsqrt()
        power = base
        for _ in range(self.degree - 1):  # the same roundings wherever an entry is
            power = power * base
        return power - 1

    def kernel(self, codes: Tensor, queries: Tensor) -> Tensor:
        """k of every row and query, (rows, queries) float64."""
        found = self.alike((self.of(codes) @ self.of(queries).T) / FINE**2)
        rows, asked = self.labels_of(codes), self.labels_of(queries)
        return torch.where(rows[:, None] == asked[None, :], found * self.weights[asked][None, :], 0.0)


def coefficients(canvas: Canvas, values: Tensor, labels: Tensor, shares: Tensor, degree: int) -> Coefficients:
    """Of generated pictures `values` (rows, pixels) in [0, 1] and their labels (rows,), whose distribution is `shares`."""
    counts = torch.bincount(labels, minlength=canvas.labels).double()[:, None]
    sums = torch.zeros(canvas.labels, canvas.pixels, dtype=torch.float64).index_add_(0, labels, values.double())
    means = torch.where(counts > 0, sums / counts.clamp_min(1), values.double().mean(0))
    around = values.double() - means[labels]
    axes = principal_axes(around, min(AXES, canvas.pixels))[0].double()
    unit = float(axes.abs().max().clamp_min(1e-12)) / 2**BITS
    lens = (axes / unit).round()
    squares = torch.zeros(canvas.labels, axes.shape[1], dtype=torch.float64)
    squares.index_add_(0, labels, (around @ (lens * unit)).square())
    return Coefficients(
        canvas=canvas,
        lens=lens,
        unit=unit,
        centres=means @ (lens * unit),
        inverses=((squares + PSEUDO) / (counts + PSEUDO)).rsqrt(),
        weights=1 / shares.double().clamp_min(LEAST_LABEL),
        degree=degree,
    )
