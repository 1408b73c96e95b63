"""Networks of diffusion models, F(x; c_noise, y): from scaled noisy records to scaled residuals of the same shape.

All of them take x (rows, K, width): K noisy draws of each row's record, in a dimension of their own, so that a record's gradient
is the sum over its draws and costs one pass (`seal/gradients`). Nothing is shared between rows, nor between draws: K = 1 gives
the same values. The last layer begins at zero.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

FREQUENCIES = 8  # of the features of c_noise
GROUPS = 8  # channels of a U-Net are normalised in so many groups


def features(c_noise: Tensor) -> Tensor:
    """Cosines and sines of c_noise (rows, K) at `FREQUENCIES` frequencies from 1/2 to 64: (rows, K, 2 x FREQUENCIES)."""
    angles = c_noise.unsqueeze(-1) * (2.0 ** torch.arange(-1, FREQUENCIES - 1, device=c_noise.device))
    return torch.cat([angles.cos(), angles.sin()], -1)


class MLP(nn.Module):
    """A residual MLP: `depth` blocks of two layers of `hidden` units."""

    def __init__(self, width: int, labels: int, hidden: int, depth: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.enter = nn.Linear(width, hidden)
        self.time = nn.Linear(2 * FREQUENCIES, hidden, bias=False)
        self.label = nn.Embedding(labels, hidden)
        self.first = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.second = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.out = nn.Linear(hidden, width)
        initialise(self, [self.out], generator)

    def forward(self, x: Tensor, c_noise: Tensor, y: Tensor) -> Tensor:
        """x (rows, K, width), c_noise (rows, K), y (rows,) label codes -> (rows, K, width)."""
        hidden = self.enter(x) + self.time(features(c_noise)) + self.label(y).unsqueeze(1)
        for first, second in zip(self.first, self.second, strict=True):
            inner = functional.silu(first(_normalised(functional.silu(hidden))))
            hidden = hidden + second(inner)
        found: Tensor = self.out(_normalised(functional.silu(hidden)))
        return found


def _normalised(hidden: Tensor) -> Tensor:
    return functional.layer_norm(hidden, hidden.shape[-1:])


class UNet(nn.Module):
    """A small U-Net: `depth` levels, the channels doubling from `hidden`; scale and shift by noise level and label (FiLM).

    Convolutions are nn.Conv3d with kernels (1, 3, 3): the first of the three dimensions holds the K draws, which stay apart.
    `shape` is (height, width, channels); with a `basis` (pixels, width) x are coordinates in it.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        labels: int,
        hidden: int,
        depth: int,
        generator: torch.Generator | None,
        basis: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("_basis", basis, persistent=False)  # goes where the network goes
        widths = [hidden * 2**level for level in range(depth)]
        embedded = 4 * hidden
        self.time, self.label = nn.Linear(2 * FREQUENCIES, embedded), nn.Embedding(labels, embedded)
        self.enter = _convolution(shape[2], hidden)
        before = [hidden, *widths[:-1]]
        self.down = nn.ModuleList(Block(a, b, embedded) for a, b in zip(before, widths, strict=True))
        self.middle = Block(widths[-1], widths[-1], embedded)
        after = [*widths[1:], widths[-1]]
        self.up = nn.ModuleList(
            Block(above + skipped, skipped, embedded) for above, skipped in zip(after, widths, strict=True)
        )
        self.out = _convolution(hidden, shape[2])
        initialise(self, [self.out, *(block.second for block in self.modules() if isinstance(block, Block))], generator)

    def forward(self, x: Tensor, c_noise: Tensor, y: Tensor) -> Tensor:
        """x (rows, K, width), c_noise (rows, K), y (rows,) label codes -> (rows, K, width)."""
        if isinstance(self._basis, Tensor):
            x = x @ self._basis.to(x).T
        hidden = self.enter(
            x.reshape(*x.shape[:-1], *self.shape).permute(0, 4, 1, 2, 3)
        )  # rows, channels, K, height, width
        embedded = functional.silu(self.time(features(c_noise)) + self.label(y).unsqueeze(1))
        kept = []
        for place, block in enumerate(self.down):
            if place:
                hidden = functional.avg_pool3d(hidden, (1, 2, 2), ceil_mode=True)
            hidden = block(hidden, embedded)
            kept.append(hidden)
        hidden = self.middle(hidden, embedded)
        for block, skipped in zip(reversed(self.up), reversed(kept), strict=True):
            hidden = functional.interpolate(hidden, skipped.shape[2:], mode="nearest")
            hidden = block(torch.cat([hidden, skipped], 1), embedded)
        found: Tensor = self.out(functional.silu(_groups_normalised(hidden))).permute(0, 2, 3, 4, 1).flatten(2)
        return found @ self._basis.to(found) if isinstance(self._basis, Tensor) else found


class Block(nn.Module):
    """Two convolutions beside a shortcut; the second one's input is scaled and shifted by the embedding."""

    def __init__(self, inner: int, outer: int, embedded: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(inner, outer), _convolution(outer, outer)
        self.film = nn.Linear(embedded, 2 * outer)
        self.short = nn.Conv3d(inner, outer, 1, bias=False) if inner != outer else None

    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """(rows, inner, K, height, width), (rows, K, embedded) -> (rows, outer, K, height, width)."""
        scale, shift = self.film(embedded).permute(0, 2, 1)[..., None, None].chunk(2, 1)
        inner = self.first(functional.silu(_groups_normalised(hidden)))
        inner = self.second(functional.silu(_groups_normalised(inner) * (1 + scale) + shift))
        short: Tensor = hidden if self.short is None else self.short(hidden)
        return short.add(inner)


def _convolution(inner: int, outer: int) -> nn.Conv3d:
    return nn.Conv3d(inner, outer, (1, 3, 3), padding=(0, 1, 1))


def _groups_normalised(hidden: Tensor) -> Tensor:
    """Group normalisation of each draw on its own, without weights: FiLM has them."""
    rows, channels, draws = hidden.shape[:3]
    apart = hidden.transpose(1, 2).flatten(0, 1)
    normed = functional.group_norm(apart, math.gcd(GROUPS, channels))
    return normed.reshape(rows, draws, *normed.shape[1:]).transpose(1, 2)


def initialise(module: nn.Module, zeros: list[nn.Module], generator: torch.Generator | None) -> None:
    """Weights of variance 1 / fan-in, biases zero; the layers in `zeros` wholly zero."""
    with torch.no_grad():
        for layer in module.modules():
            for name, value in layer.named_parameters(recurse=False):
                if name == "bias" or layer in zeros:
                    value.zero_()
                else:
                    fan = 1 if isinstance(layer, nn.Embedding) else value[0].numel()
                    value.normal_(0, fan**-0.5, generator=generator)


# architecture -> (width, shape, labels, hidden, depth, generator, basis)
ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "mlp": lambda width, shape, labels, hidden, depth, generator, basis: MLP(width, labels, hidden, depth, generator),  # noqa: ARG005
    "unet": lambda width, shape, labels, hidden, depth, generator, basis: UNet(  # noqa: ARG005
        shape, labels, hidden, depth, generator, basis
    ),
}
