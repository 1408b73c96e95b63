"""Random Fourier features of vectors, and the networks that are trained to have the same mean features as records."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators.parts.record_vectors import Array, Vectors
from synthdp.generators.parts.table_networks import Blocks

CHANNELS = 16  # of a picture's network, at a quarter of its size
KERNEL = 5
SLOPE = 0.1


class Features:
    """sqrt(2 / D) (cos Wx, sin Wx), with W (D / 2, width) drawn from N(0, 1 / sigma^2): their inner products approach the
    Gaussian kernel exp(-|x - y|^2 / (2 sigma^2)) (Rahimi & Recht 2007). Their L2 norm is 1 whatever x is."""

    def __init__(self, width: int, count: int, sigma: float, rng: np.random.Generator) -> None:
        self.count = count
        self.frequencies: Array = rng.standard_normal((width, count // 2)) / sigma
        self._tensors: dict[torch.device, Tensor] = {}

    def of(self, rows: Array) -> Array:
        """(rows, width) -> (rows, D), float64."""
        angles = rows @ self.frequencies
        found: Array = np.concatenate([np.cos(angles), np.sin(angles)], 1)
        found *= math.sqrt(2 / self.count)
        return found

    def of_tensor(self, rows: Tensor) -> Tensor:
        """The same in float32, differentiable, on the rows' device."""
        if rows.device not in self._tensors:
            self._tensors[rows.device] = torch.from_numpy(self.frequencies.astype(np.float32)).to(rows.device)
        angles = rows @ self._tensors[rows.device]
        return torch.cat([angles.cos(), angles.sin()], 1) * math.sqrt(2 / self.count)


class Sketcher(nn.Module):
    """Latent values and a one-hot label -> pixels (rows, pixels) in -1/2 .. 1/2, and logits (rows, width - pixels) of the
    blocks. A picture is drawn small and doubled twice: by interpolation, then by a convolution to four values per place (Shi et al.
    2016), which costs a quarter of Harder et al.'s two convolutions."""

    def __init__(self, vectors: Vectors, latent: int, hidden: Sequence[int], generator: torch.Generator | None) -> None:
        super().__init__()
        picture = vectors.codec.picture
        self._pixels, self._shape = vectors.pixels, (0, 0, 0) if picture is None else picture.shape
        self._small = (math.ceil(self._shape[0] / 4), math.ceil(self._shape[1] / 4))
        sizes = [latent + vectors.labels, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.beside = nn.Linear(sizes[-1], vectors.width - vectors.pixels) if vectors.blocks else None
        self.picture = nn.ModuleList()
        if vectors.pixels:
            first = nn.Linear(sizes[-1], CHANNELS * math.prod(self._small))
            last = nn.Conv2d(CHANNELS, 4 * self._shape[2], KERNEL, padding=KERNEL // 2)
            self.picture = nn.ModuleList([first, last])
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Linear | nn.Conv2d):
                    module.weight.normal_(0, (2 / module.weight[0].numel()) ** 0.5, generator=generator)
                    nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, latent: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and logits."""
        values = torch.cat([latent, label], 1)
        for layer in self.layers:
            values = functional.leaky_relu(_normalised(layer(values)), SLOPE)
        pixels, logits = values.new_zeros(len(values), 0), values.new_zeros(len(values), 0)
        if len(self.picture):
            pixels = torch.sigmoid(self._drawn(values)) - 0.5
        if self.beside is not None:
            logits = self.beside(values)
        return pixels, logits

    def _drawn(self, values: Tensor) -> Tensor:
        first, last = self.picture
        values = _normalised(first(values))  # or steps of Adam drive the grey values to an end
        values = functional.leaky_relu(values, SLOPE).reshape(len(values), -1, *self._small)
        values = functional.interpolate(values, scale_factor=2.0, mode="bilinear", align_corners=False)
        values = functional.pixel_shuffle(last(values), 2)
        height, width, _ = self._shape
        return values[:, :, :height, :width].permute(0, 2, 3, 1).flatten(1)


def _normalised(values: Tensor) -> Tensor:
    return functional.layer_norm(values, values.shape[1:])


def rows_of(
    vectors: Vectors, blocks: Blocks, pixels: Tensor, logits: Tensor, temperature: float, generator: torch.Generator
) -> Tensor:
    """Vectors (rows, width) as `Vectors.of` makes them: pixels, and categories, those of `blocks`, drawn with gradients that
    pass straight through (Jang, Gu & Poole 2017)."""
    if not vectors.blocks:
        return pixels
    return torch.cat([pixels, vectors.scale * blocks.soft_draw(logits, temperature, generator)], 1)
