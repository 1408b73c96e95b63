"""The mathematics of Karras et al. 2022 ("EDM"): preconditioning, the distribution of noise levels, and the sampler.

Preconditioning (their table 1) is generalised from one number to a Gaussian per label. Their c_skip, c_out and c_in are what makes
D the ideal denoiser of N(0, sigma_data^2 I) where the network F says zero; here it is that of N(mean_y, covariance_y), in the
coordinates where each covariance is diagonal. With mean 0 and variance sigma_data^2 everywhere it is theirs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators.parts import devices
from synthdp.seal import following

# ---- Networks of diffusion models, F(x; c_noise, y): from scaled noisy records to scaled residuals of the same shape.
#
# All of them take x (rows, K, width): K noisy draws of each row's record, in a dimension of their own, so that a record's gradient
# is the sum over its draws and costs one pass (`seal/gradients`). Nothing is shared between rows, nor between draws: K = 1 gives
# the same values. The last layer begins at zero.


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
        # The axes: rows, channels, K, height, width.
        hidden = self.enter(x.reshape(*x.shape[:-1], *self.shape).permute(0, 4, 1, 2, 3))
        embedded = functional.silu(self.time(features(c_noise)) + self.label(y).unsqueeze(1))
        kept = []
        for place, block in enumerate(self.down):
            if place:
                hidden = _each_picture(functional.avg_pool2d, hidden, 2, ceil_mode=True)
            hidden = block(hidden, embedded)
            kept.append(hidden)
        hidden = self.middle(hidden, embedded)
        for block, skipped in zip(reversed(self.up), reversed(kept), strict=True):
            hidden = _each_picture(functional.interpolate, hidden, skipped.shape[3:], mode="nearest")
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


def _each_picture(scaled: Callable[..., Tensor], hidden: Tensor, *settings: Any, **named: Any) -> Tensor:
    """(rows, channels, K, height, width), scaled in two dimensions: no GPU has a deterministic backward pass for scaling in three."""
    found = scaled(hidden.flatten(1, 2), *settings, **named)
    return found.reshape(*hidden.shape[:3], *found.shape[2:])


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


SIGN = 2**64  # int64 wraps around: numbers of 2^63 or more are written less this
GOLDEN = 0x9E3779B97F4A7C15 - SIGN  # 2^64 / golden ratio
FACTORS = (0xBF58476D1CE4E5B9 - SIGN, 0x94D049BB133111EB - SIGN)  # of SplitMix64's finaliser (Steele, Lea & Flood 2014)
BANK = 8192  # noise vectors of a step
# Rows of a label that one product turns; rows of zeros after them; and what widths are multiples of. Kernels may round the last rows, and
# rows of an odd width, otherwise than others.
TURNED, TAIL, WIDE = 64, 32, 16


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Where pixels lie, and the Gaussian of each label that the denoiser begins at. All float64, and public.

    Pixels x (in [-1, 1]) of label y have coordinates w = R_y^T (B^T (x - centre) - mean_y), with B orthonormal. None: the
    identity.
    """

    centre: Tensor  # (pixels,)
    means: Tensor  # (labels, width)
    variances: Tensor  # (labels, width)
    basis: Tensor | None = None  # B (pixels, width)
    rotations: Tensor | None = None  # R (labels, width, width)

    def coordinates(self, x: Tensor, y: Tensor) -> Tensor:
        """(rows, pixels), (rows,) -> (rows, width)."""
        seen = x - self.centre
        seen = seen if self.basis is None else seen @ self.basis
        return self.turned((seen - self.means[y]).unsqueeze(1), y).squeeze(1)

    def pixels(self, w: Tensor, y: Tensor) -> Tensor:
        """The way back; what B does not span is the centre's."""
        seen = self.turned(w.unsqueeze(1), y, back=True).squeeze(1) + self.means[y]
        return self.centre + (seen if self.basis is None else seen @ self.basis.T)

    def turned(self, values: Tensor, y: Tensor, *, back: bool = False) -> Tensor:
        """(rows, K, width) times each label's rotation, or, `back`, its transpose. Rows of a label are turned together, by products of one
        public shape, so that how a row is rounded does not tell how many others have its label."""
        if self.rotations is None or not len(values):
            return values
        if following():  # each row is turned by itself, those of a label together
            return torch.empty_like(values)
        width = values.shape[-1]
        wide = -width % WIDE
        places, found = [], []
        for label, rotation in enumerate(self.rotations.to(values)):
            rows = (y == label).nonzero().squeeze(1)
            turn = functional.pad(rotation.T if back else rotation, (0, wide, 0, wide))
            for part in torch.split(rows, TURNED) if len(rows) else ():
                padded = functional.pad(values[part], (0, wide, 0, 0, 0, TURNED + TAIL - len(part)))
                places.append(part)
                found.append((padded @ turn)[: len(part), :, :width])
        return torch.cat(found)[torch.cat(places).argsort()]

    def to(self, device: torch.device, dtype: torch.dtype) -> "Prior":
        held: dict[str, Any] = {name: each.to(device, dtype) for name, each in vars(self).items() if each is not None}
        return Prior(**held)


def isotropic(pixels: int, labels: int, deviation: float) -> Prior:
    """EDM's own: N(0, deviation^2 I) for every label; deviation is their sigma_data."""
    means = torch.zeros(labels, pixels, dtype=torch.float64)
    return Prior(centre=means.new_zeros(pixels), means=means, variances=torch.full_like(means, deviation**2))


def residual(network: nn.Module, prior: Prior, w: Tensor, sigma: Tensor, y: Tensor) -> Tensor:
    """F of noisy coordinates w (rows, K, width) at levels sigma (rows, K): what c_out multiplies."""
    c_in = (prior.variances[y].unsqueeze(1) + sigma.square().unsqueeze(-1)).rsqrt()
    said: Tensor = network(prior.turned(c_in * w, y, back=True), sigma.log() / 4, y)
    return prior.turned(said, y)


def denoised(network: nn.Module, prior: Prior, w: Tensor, sigma: Tensor, y: Tensor) -> Tensor:
    """D(w; sigma, y) = c_skip w + c_out F(c_in w; c_noise, y), (rows, K, width)."""
    variances, square = prior.variances[y].unsqueeze(1), sigma.square().unsqueeze(-1)
    total = variances + square
    return variances / total * w + (variances * square / total).sqrt() * residual(network, prior, w, sigma, y)


def losses(network: nn.Module, prior: Prior, w: Tensor, sigma: Tensor, n: Tensor, y: Tensor) -> Tensor:
    """lambda(sigma) |D(w + sigma n; sigma, y) - w|^2 with lambda = 1 / c_out^2: (rows, K), the mean over coordinates.

    In terms of F it is |F - (w - c_skip (w + sigma n)) / c_out|^2, where (..) / c_out has variance 1 if the prior is right.
    """
    level, sigma = sigma, sigma.unsqueeze(-1)
    variances = prior.variances[y].unsqueeze(1)
    clean = w.unsqueeze(1)
    target = (clean * sigma / variances.sqrt() - variances.sqrt() * n) / (variances + sigma.square()).sqrt()
    return (residual(network, prior, clean + sigma * n, level, y) - target).square().mean(-1)


@dataclass(frozen=True)
class Levels:
    """ln(sigma) ~ N(P_mean, P_std^2)."""

    P_mean: float
    P_std: float


class Draws:
    """The noise of one step: K levels and K Gaussian vectors for a record, as a function of its codes and of public numbers.

    A record's loss may depend on no other record and not on its place in the sample, or one unit more would change every other
    unit's contribution (law 12). So the codes are hashed by the step's public factors (sum of codes x factors mod
    2^64: a universal family, Carter & Wegman 1979), and the hash, mixed by SplitMix64's finaliser, picks K vectors of the
    step's public bank, and the levels. To whoever draws the factors and the bank at random, independently of the records,
    each vector is N(0, I) and the loss is an unbiased estimate; whoever knows them learns nothing, for clipping and noise
    bound and hide a record's contribution whatever its loss was. Equal records get equal noise. The K levels of a record are
    stratified: one from each K-th of their distribution.
    """

    def __init__(
        self, columns: int, width: int, levels: Levels, multiplicity: int, seed: int, device: torch.device
    ) -> None:
        generator = devices.chance(device, seed)
        self._factors = (
            torch.randint(-(2**62), 2**62, (columns,), generator=generator, device=device, dtype=torch.int64)
            .mul_(2)
            .add_(1)
        )  # odd: no code is lost
        self._bank = torch.randn(BANK, width, generator=generator, device=device)
        self._levels, self._count = levels, multiplicity

    def of(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """codes (rows, columns) -> sigma (rows, K) and n (rows, K, width), float64."""
        keys = mixed((codes.long() * self._factors).sum(1))
        steps = torch.arange(1, self._count + 2, device=codes.device)
        lots = mixed(keys.unsqueeze(1) + steps * GOLDEN)
        start = uniform(lots[:, :1])
        shares = (start + steps[:-1] - 1) / self._count
        sigma = (self._levels.P_mean + self._levels.P_std * torch.special.ndtri(shares)).exp()
        return sigma, self._bank[(lots[:, 1:] >> 20) & (BANK - 1)].double()


def mixed(keys: Tensor) -> Tensor:
    """The finaliser of SplitMix64, on int64 tensors that wrap around."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        keys = (keys ^ ((keys >> shift) & (2 ** (64 - shift) - 1))) * factor
    return keys ^ ((keys >> 31) & (2**33 - 1))


def uniform(lots: Tensor) -> Tensor:
    """53 bits of each lot as a number strictly within (0, 1), float64."""
    return (((lots >> 11) & (2**53 - 1)).double() + 0.5) * 2.0**-53


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """EDM's algorithm 2: Heun steps from sigma_max to sigma_min; `churn` adds noise before each of them (0: deterministic)."""

    steps: int
    sigma_min: float
    sigma_max: float
    rho: float
    churn: float

    def sigmas(self) -> list[float]:
        """Their equation 5, and then 0."""
        high, low, last = self.sigma_max ** (1 / self.rho), self.sigma_min ** (1 / self.rho), max(1, self.steps - 1)
        return [*((high + place / last * (low - high)) ** self.rho for place in range(self.steps)), 0.0]

    @torch.no_grad()
    def run(self, network: nn.Module, prior: Prior, y: Tensor, generator: torch.Generator) -> Tensor:
        """Coordinates (rows, width) of labels y (rows,), in the prior's own type and on its device."""

        def slope(w: Tensor, sigma: float) -> Tensor:
            level = torch.full((len(w), 1), sigma, dtype=w.dtype, device=w.device)
            return (w - denoised(network, prior, w.unsqueeze(1), level, y).squeeze(1)) / sigma

        def normal() -> Tensor:
            return torch.randn(len(y), prior.means.shape[1], generator=generator).to(prior.means)

        sigmas, gamma = self.sigmas(), min(self.churn / self.steps, math.sqrt(2) - 1)
        w = normal() * (prior.variances[y] + sigmas[0] ** 2).sqrt()
        for sigma, after in pairwise(sigmas):
            raised = sigma * (1 + gamma)
            if gamma > 0:
                w = w + math.sqrt(raised**2 - sigma**2) * normal()
            first = slope(w, raised)
            moved = w + (after - raised) * first
            if after > 0:
                moved = w + (after - raised) * (first + slope(moved, after)) / 2
            w = moved
        return w
