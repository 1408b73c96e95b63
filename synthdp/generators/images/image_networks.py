"""The networks of a GAN on images: discriminators whose gradients a clip can bound, and generators, which never see a record.

No layer mixes rows. Labels condition the discriminator through one output per label, added to a common one: the projection
discriminator of Miyato & Koyama 2018 with a bias per label.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators.images.pixel_rows import PixelLayout, in_range
from synthdp.generators.parts.table_networks import SLOPE, Scorer, draw_weights

KERNEL, STRIDE, PADDING = 4, 2, 1


class Critic(Scorer):
    """A discriminator of pictures, (rows, pixels + labels) -> (rows,) scores: convolutions of stride 2, or linear layers on
    values, or on their coefficients in a public basis (`lens`), then one linear layer to the common output and the labels'.

    Inputs of linear layers are centred by means over *generated* rows (public), as in `table_networks.Discriminator`.
    """

    def __init__(
        self,
        layout: PixelLayout,
        convolutional: bool,
        hidden: Sequence[int],
        lens: int | None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._layout, self._convolutional = layout, convolutional
        height, width, channels = layout.shape
        self.register_buffer("lens", None if lens is None else torch.zeros(layout.pixels, lens))
        layers: list[nn.Module] = []
        if convolutional:
            layers = [nn.Conv2d(a, b, KERNEL, STRIDE, PADDING) for a, b in pairwise([channels, *hidden])]
            last = hidden[-1] * math.prod(_shrunk(side, len(hidden)) for side in (height, width))
        else:
            layers = [nn.Linear(a, b) for a, b in pairwise([lens or layout.pixels, *hidden])]
            last = hidden[-1]
        self.layers = nn.ModuleList([*layers, nn.Linear(last, 1 + layout.labels)])
        self._flat = [isinstance(layer, nn.Linear) for layer in self.layers]
        for place, layer in enumerate(self.known()):
            inputs = layout.pixels if convolutional and place == 0 else layer.weight[0].numel()
            if self._centred(place):
                self.register_buffer(f"centre{place}", torch.zeros(inputs))
        _begin(self.known(), generator, last=0.1)

    def steepness(self, rows: Tensor) -> Tensor:
        """Squared norm of the gradient of each row's score by what the first layer sees, (rows,), to be descended on."""
        rows = rows.detach().requires_grad_()
        scores, inputs, _ = self.passed(rows)
        (gradient,) = torch.autograd.grad(scores.sum(), inputs[:1], create_graph=True)
        return gradient.flatten(1).square().sum(1)

    @torch.no_grad()
    def focus(self, lens: Tensor) -> None:
        """See pictures through this lens, (pixels, coefficients)."""
        self.get_buffer("lens").copy_(lens)

    @torch.no_grad()
    def recentre(self, rows: Tensor, share: float, *others: "Critic") -> None:
        """Move the centres towards the means over generated `rows`, of `others` alike. Scores stay what they are, but for
        those of convolutions, whose input is therefore centred once, before the first step."""
        _, inputs, _ = self.passed(rows)
        for place, x in enumerate(inputs):
            first = self._convolutional and place == 0
            if not self._centred(place) or (first and share < 1):
                continue
            mean = self._layout.flat(x.mean(0, keepdim=True))[0] if first else x.mean(0)
            for network in (self, *others):
                layer = network.known()[place]
                if not first:
                    layer.bias.add_(layer.weight @ (share * mean))
                network.get_buffer(f"centre{place}").add_(share * mean)

    def _centred(self, place: int) -> bool:
        return place == 0 or self._flat[place]

    def passed(self, rows: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Scores, and what went into and came out of each layer."""
        values, label = self._layout.split(rows)
        if isinstance(self.lens, Tensor):
            values = values.to(self.lens.dtype) @ self.lens
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        for place, layer in enumerate(self.known()):
            if outputs:
                values = functional.leaky_relu(outputs[-1], SLOPE)
            if self._flat[place]:
                values = values.flatten(1)
            if self._centred(place):
                values = values - self.get_buffer(f"centre{place}")
            if self._convolutional and place == 0:
                values = self._layout.image(values)
            inputs.append(values)
            outputs.append(layer(values))
        scores = outputs[-1]
        return scores[:, 0] + (scores[:, 1:] * label).sum(1), inputs, outputs

    def squares(self, layer: Any, x: Tensor, gradient: Tensor) -> Tensor:
        """Also of convolutions."""
        if isinstance(layer, nn.Linear):
            return super().squares(layer, x, gradient)
        places = functional.unfold(x, KERNEL, padding=PADDING, stride=STRIDE)  # rows, in * kernel, places
        gradient = gradient.flatten(2)  # rows, out, places
        return torch.bmm(gradient, places.mT).square().sum((1, 2)) + gradient.sum(2).square().sum(1)


class LatentGenerator(nn.Module):
    """A generator from latent values and a one-hot label to values (rows, pixels) in [0, 1]: linear layers with layer
    normalisation (Waites 2019), or a small picture that convolutions double twice."""

    def __init__(
        self,
        layout: PixelLayout,
        convolutional: bool,
        hidden: Sequence[int],
        latent: int,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._layout, self._convolutional = layout, convolutional
        height, width, channels = layout.shape
        self._small = (math.ceil(height / 4), math.ceil(width / 4))
        inputs = latent + layout.labels
        if convolutional:
            narrow, wide = hidden[0], hidden[-1]
            first = nn.Linear(inputs, wide * math.prod(self._small))
            widths = [wide, narrow, narrow, channels]
            self.layers = nn.ModuleList([first, *(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(widths))])
        else:
            self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([inputs, *hidden, layout.pixels]))
            self.norms = nn.ModuleList(nn.LayerNorm(size) for size in hidden[1:])
        _begin(list(self.layers), generator, last=1.0)

    def forward(self, latent: Tensor, label: Tensor) -> Tensor:
        """Values."""
        given = torch.cat([latent, label], 1)
        return torch.sigmoid(self._convolved(given) if self._convolutional else self._linear(given))

    def _linear(self, given: Tensor) -> Tensor:
        for place, layer in enumerate(self.layers[:-1]):
            given = layer(given)
            if place:
                given = self.norms[place - 1](given)
            given = functional.leaky_relu(given, SLOPE)
        values: Tensor = self.layers[-1](given)
        return values

    def _convolved(self, given: Tensor) -> Tensor:
        first, *middle, last = self.layers
        image = functional.leaky_relu(first(given), SLOPE).reshape(len(given), -1, *self._small)
        for layer in middle:
            image = functional.leaky_relu(layer(functional.interpolate(image, scale_factor=2.0)), SLOPE)
        height, width, _ = self._layout.shape
        return self._layout.flat(last(image[:, :, :height, :width]))


class ResidualGenerator(nn.Module):
    """A generator that adds a residual to a picture of the start, 0 at first: (rows, pixels) and a one-hot label -> (rows,
    pixels) in [0, 1]. Convolutions at half size between two at full size, or linear layers; with a `lens` these read and move
    the coefficients in the start's basis alone."""

    def __init__(
        self,
        layout: PixelLayout,
        convolutional: bool,
        hidden: Sequence[int],
        lens: int | None,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self._layout, self._convolutional = layout, convolutional
        self.register_buffer("lens", None if lens is None else torch.zeros(layout.pixels, lens))
        self.register_buffer("back", None if lens is None else torch.zeros(lens, layout.pixels))
        if convolutional:
            channels, narrow, wide = layout.shape[2], hidden[0], hidden[-1]
            widths = [(channels, narrow, 1), (narrow, wide, 2), (wide, wide, 1), (wide, narrow, 1)]
            widths.append((2 * narrow, channels, 1))
            self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, stride, padding=1) for a, b, stride in widths)
            own = [nn.Linear(layout.labels, width, bias=False) for width in (narrow, wide, wide)]
        else:
            inputs = lens or layout.pixels
            sizes = [inputs + layout.labels, *hidden, inputs]
            self.layers, own = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes)), []
        self.classes = nn.ModuleList(own)
        _begin([*own, *self.layers], generator, last=0.0)

    @torch.no_grad()
    def focus(self, lens: Tensor, back: Tensor) -> None:
        """Read and move pictures through this lens, (pixels, coefficients), and its way back."""
        self.get_buffer("lens").copy_(lens)
        self.get_buffer("back").copy_(back)

    def forward(self, values: Tensor, label: Tensor) -> Tensor:
        """Values."""
        if self._convolutional:
            return in_range(values + self._convolved(self._layout.image(values), label))
        if isinstance(self.lens, Tensor):
            return in_range(values + self._linear(values @ self.lens, label) @ self.get_buffer("back"))
        return in_range(values + self._linear(values, label))

    def _linear(self, given: Tensor, label: Tensor) -> Tensor:
        given = torch.cat([given, label], 1)
        for layer in self.layers[:-1]:
            given = functional.leaky_relu(layer(given), SLOPE)
        moved: Tensor = self.layers[-1](given)
        return moved

    def _convolved(self, image: Tensor, label: Tensor) -> Tensor:
        *down, up, last = self.layers
        seen: list[Tensor] = [image]
        for layer, own in zip(down, self.classes, strict=True):
            seen.append(functional.leaky_relu(layer(seen[-1]) + own(label)[:, :, None, None], SLOPE))
        large = functional.leaky_relu(functional.interpolate(up(seen[-1]), size=image.shape[2:]), SLOPE)
        return self._layout.flat(last(torch.cat([large, seen[1]], 1)))


def principal_axes(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """A lens (pixels, count) from values to coefficients of unit variance, and the way back (count, pixels)."""
    centred = (values - values.mean(0)).double()
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(values))
    largest = variances.flip(0)[:count].clamp_min(1e-6).sqrt()
    axes = axes.flip(1)[:, :count]
    return (axes / largest).float(), (largest[:, None] * axes.T).float()


def _shrunk(side: int, times: int) -> int:
    """What that many convolutions leave of a side."""
    for _ in range(times):
        side = (side + 2 * PADDING - KERNEL) // STRIDE + 1
    return side


def _begin(layers: Sequence[Any], generator: torch.Generator | None, last: float) -> None:
    for place, layer in enumerate(layers):
        scale = last if place == len(layers) - 1 else 2**0.5
        draw_weights(layer, scale * layer.weight[0].numel() ** -0.5, generator)
