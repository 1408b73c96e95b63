"""The mathematics of Karras et al. 2022 ("EDM"): preconditioning, the distribution of noise levels, and the sampler.

Preconditioning (their table 1) is generalised from one number to a Gaussian per label. Their c_skip, c_out and c_in are what makes
D the ideal denoiser of N(0, sigma_data^2 I) where the network F says zero; here it is that of N(mean_y, covariance_y), in the
coordinates where each covariance is diagonal. With mean 0 and variance sigma_data^2 everywhere it is theirs.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from synthdp.generators.parts import devices

SIGN = 2**64  # int64 wraps around: numbers of 2^63 or more are written less this
GOLDEN = 0x9E3779B97F4A7C15 - SIGN  # 2^64 / golden ratio
FACTORS = (0xBF58476D1CE4E5B9 - SIGN, 0x94D049BB133111EB - SIGN)  # of SplitMix64's finaliser (Steele, Lea & Flood 2014)
BANK = 8192  # noise vectors of a step


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
        """(rows, K, width) times each label's rotation, or, `back`, its transpose."""
        if self.rotations is None:
            return values
        found = torch.empty_like(values)
        for label, rotation in enumerate(self.rotations.to(values)):
            rows = (y == label).nonzero().squeeze(1)
            found = found.index_copy(0, rows, values[rows] @ (rotation.T if back else rotation))
        return found

    def to(self, device: torch.device, dtype: torch.dtype) -> "Prior":
        """The same elsewhere."""
        return Prior(
            centre=self.centre.to(device, dtype),
            means=self.means.to(device, dtype),
            variances=self.variances.to(device, dtype),
            basis=None if self.basis is None else self.basis.to(device, dtype),
            rotations=None if self.rotations is None else self.rotations.to(device, dtype),
        )


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
        for sigma, following in pairwise(sigmas):
            raised = sigma * (1 + gamma)
            if gamma > 0:
                w = w + math.sqrt(raised**2 - sigma**2) * normal()
            first = slope(w, raised)
            moved = w + (following - raised) * first
            if following > 0:
                moved = w + (following - raised) * (first + slope(moved, following)) / 2
            w = moved
        return w
