"""DPDM: a diffusion model by DP-SGD with noise multiplicity (Dockhorn, Cao, Vahdat & Kreis 2023).

The denoiser D(x; sigma, y) is preconditioned, trained and sampled as in Karras et al. 2022 (`images/diffusion.py`). A record's loss is
the mean over K noise levels and vectors (the paper's equation 6), inside one clipped gradient: K lowers the variance of that
gradient and costs time, not privacy. The paper's networks and hours of eight GPUs are out of reach of two cores. So by
default (start=gauss) a share of the precision buys the class Gaussians of `classgauss.py`; the diffusion runs along their
principal axes, and D begins as the ideal denoiser of those Gaussians, so that the steps learn only what is not Gaussian.
start=none is the paper: pixels, EDM's own preconditioning, and no more than the label's table is bought.
"""

import copy
import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.classgauss import ClassGauss
from synthdp.generators.gaussians.class_mixture import Mixture, restored
from synthdp.generators.images.diffusion import ARCHITECTURES, Draws, Levels, Sampler, losses
from synthdp.generators.images.diffusion_model import DiffusionModel, blank, prior_of, rows_of
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import check_label, label_name, label_option, label_place, surely_label
from synthdp.generators.parts.poisson_samples import Sampling
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.generators.parts.setting_checks import refuse_ignored, refuse_unused
from synthdp.generators.parts.table_networks import WIDTH, average, random
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, Sampled, merged
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, whole
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import Gradient, Sensitive

SHOW_EVERY = 10
MOST_CHANNELS = 4096  # of a U-Net
WIDTHS = {"mlp": 64, "unet": 32}  # default of `hidden`
DEPTHS = {"mlp": 1, "unet": 3}  # default of `depth`
# Default of P_mean and P_std; EDM's, and the paper's, without a start
LEVELS = {"gauss": (0.3, 0.8), "none": (-1.2, 1.2)}
HIGHEST = {"gauss": 20.0, "none": 80.0}  # default of sigma_max


@dataclass(frozen=True, kw_only=True)
class DPDM(Sampling):
    """Settings of the diffusion model."""

    name: ClassVar[str] = "dpdm"
    traits: ClassVar[Traits] = Traits(kinds=("images",))

    steps: int = option(100, "steps of DP-SGD, each charged as one sample", whole())
    batch: int = option(2048, "expected units per sample, so that the rate is batch / units", whole(most=10**9))
    clip: float = option(1.0, "L2 bound on a unit's gradient", positive())
    multiplicity: int = option(
        8, "noise multiplicity K: noise levels and noise vectors per record and step", whole(most=10_000)
    )
    learning_rate: float = option(1e-3, "learning rate of Adam; it falls to zero along a cosine", number("(0, 1]"))
    average: float = option(
        0.98, "decay of the moving average of the weights; the average is the model (EMA)", number("[0, 1)")
    )
    start: str = option(
        "gauss",
        "gauss: class Gaussians and their principal axes, bought first; none: pixels, as in the paper",
        one_of(*LEVELS),
    )
    share: float | None = option(
        None,
        "share of the precision spent on the start, in (0, 1); default: 0.8 for gauss, 0.02 (labels) for none",
        fraction(),
    )
    dimensions: int | None = option(
        None, "start=gauss: number of principal axes kept; default: as classgauss, or all if there are fewer", whole()
    )
    architecture: str = option("mlp", "network F: mlp, or unet, which needs a GPU", one_of(*ARCHITECTURES))
    hidden: int | None = option(
        None, f"units of its hidden layers ({WIDTHS['mlp']}), or channels of its first level ({WIDTHS['unet']})", WIDTH
    )
    depth: int | None = option(
        None,
        f"blocks of the mlp ({DEPTHS['mlp']}), or levels of the unet ({DEPTHS['unet']}), each at half the resolution",
        whole(most=64),
    )
    P_mean: float | None = option(
        None, "mean of ln(sigma) in training; default: 0.3 for gauss, -1.2 for none", number("[-20, 20]")
    )
    P_std: float | None = option(
        None, "standard deviation of ln(sigma) in training; default: 0.8 for gauss, 1.2 for none", number("(0, 20]")
    )
    sigma_data: float = option(
        0.5, "start=none: standard deviation of pixels in [-1, 1] for which D is preconditioned", positive()
    )
    sampler_steps: int = option(18, "noise levels of the sampler (Heun, with two evaluations each)", whole())
    sigma_min: float = option(0.02, "lowest noise level of the sampler, for pixels in [-1, 1]", positive())
    sigma_max: float | None = option(
        None, "highest noise level of the sampler; default: 20 for gauss, 80 for none", positive()
    )
    rho: float = option(
        7.0, "spacing of the noise levels; a larger value puts more of them at the low end", number("[0.1, 1000]")
    )
    churn: float = option(0.0, "S_churn of EDM's stochastic sampler; 0 makes it deterministic", not_negative())
    condition: str | None = label_option("that the model is conditioned on")
    device: str = option("auto", f"{devices.HELP}; it samples there too", devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        if not self.sigma_min < self.highest:
            raise BadInput(
                f"generator.sigma_min must be less than generator.sigma_max, {self.highest:g}, got {self.sigma_min:g}"
            )
        refuse_unused(self, "start", {"dimensions": "gauss", "sigma_data": "none"})
        refuse_ignored(self, ("batch",) if self.rate is not None else (), f"generator.rate={self.rate}")

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, the expected batch is known, the network can draw all columns, and the device is there."""
        check_label(self.condition, schema)
        self.sampling_rate(schema)
        self._check_network(schema)
        devices.place(self.device)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The questions of the start, then `steps` sampled gradients of this noise."""
        start = (Entry(Gaussian(each)) for each in self.start_noises(schema, noise))
        return merged((*start, Entry(self.event(schema, noise), self.steps)))

    def _check_network(self, schema: Schema) -> None:
        """Refuse what a U-Net cannot draw, or would be too large for."""
        if self.architecture != "unet":
            return
        hidden, depth = self.hidden or WIDTHS["unet"], self.depth or DEPTHS["unet"]
        if hidden * 2 ** (depth - 1) > MOST_CHANNELS:
            raise BadInput(
                f"generator.depth={depth} and generator.hidden={hidden}: channels double from level to level, and the last level "
                f"would have more than {MOST_CHANNELS:,}; lower one of the two"
            )
        label = surely_label(self.condition, schema)
        extra = [column.name for column in schema.coded if column.kind != "image" and column.name != label]
        if self.start == "none" and extra:
            raise BadInput(
                f"generator.architecture=unet draws images only, but the schema has column {extra[0]!r} beside image "
                "and label: use start=gauss or architecture=mlp, name it in generator.condition, or declare it an identifier"
            )

    def event(self, schema: Schema, noise: float) -> Sampled:
        """One step."""
        return Sampled(self.sampling_rate(schema), (Gaussian(noise),))

    def start_noises(self, schema: Schema, noise: float) -> list[float]:
        """Noises at which the start holds its share of the precision, sum of 1 / noise^2 (a sampled step counts as a
        Gaussian of noise / rate)."""
        share = self.share if self.share is not None else 0.8 if self.start == "gauss" else 0.02
        whole = noise / (self.sampling_rate(schema) * math.sqrt(self.steps)) * math.sqrt((1 - share) / share)
        if self.start == "gauss":
            return self.gaussians.noises(schema, whole)
        return [] if label_name(self.condition, schema) is None else [whole]

    def drowned(self, schema: Schema, noise: float) -> float:
        """That of the start, if it is class Gaussians; otherwise 0."""
        if self.start != "gauss":
            return 0.0
        together = sum(each**-2 for each in self.start_noises(schema, noise) if each)
        return self.gaussians.drowned(schema, together**-0.5 if together else 0.0)

    @property
    def gaussians(self) -> ClassGauss:
        """What start=gauss begins at."""
        return ClassGauss(dimensions=self.dimensions, components=1, align=False, condition=self.condition)

    @property
    def highest(self) -> float:
        """sigma_max."""
        return self.sigma_max if self.sigma_max is not None else HIGHEST.get(self.start, math.inf)

    @property
    def sampler(self) -> Sampler:
        """How noise becomes pictures."""
        return Sampler(
            steps=self.sampler_steps, sigma_min=self.sigma_min, sigma_max=self.highest, rho=self.rho, churn=self.churn
        )

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then DP-SGD on the denoiser."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        noises, event = self.start_noises(data.declared, noise), self.event(data.declared, noise)
        schema = data.resolve()
        saved = data.restored()
        if saved is None:
            start = self.begin(data, noises, seed)
        else:
            start = self.mixture(
                schema, {name.partition("/")[2]: saved[name] for name in saved if name[:6] == "start/"}
            )
        training = Training(self, data, start, event, random(seed), device)
        if saved is not None:
            training.restore(saved)
        for step in data.steps(event, self.steps, training.state):
            training.step(step)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == self.steps:
                progress(step + 1, self.steps, {})
        return DiffusionModel(start, training.finished(), self.sampler, self.sigma_data, device)

    def begin(self, data: Sensitive, noises: list[float], seed: int | None) -> Mixture:
        """The class Gaussians; without them the label's noisy distribution, uniform where there is no label."""
        if self.start == "gauss":
            return self.gaussians.learn(data, noises, seed=seed)
        label = label_place(self.condition, data.schema)
        counts = np.ones(1) if label is None else data.marginals([(data.codec.names[label],)], noises[0])[0]
        return blank(data.schema, Vectors(data.codec, label), counts)

    def network(self, start: Mixture, generator: torch.Generator | None) -> nn.Module:
        """F for these shapes."""
        vectors = start.vectors
        picture = vectors.codec.picture
        if picture is None:
            raise BadInput("dpdm learns images, but the schema has no image column")
        basis = torch.from_numpy(start.axes[:, : vectors.pixels].T.copy()) if len(start.axes) else None
        width = len(start.axes) or vectors.width
        hidden, depth = self.hidden or WIDTHS[self.architecture], self.depth or DEPTHS[self.architecture]
        make = ARCHITECTURES[self.architecture]
        return make(width, picture.shape, vectors.labels, hidden, depth, generator, basis)

    def mixture(self, schema: Schema, tensors: Tensors) -> Mixture:
        """The start of these arrays."""
        vectors = Vectors(Codec(schema), label_place(self.condition, schema))
        axes = self.gaussians.held_axes(vectors, tensors) if self.start == "gauss" else 0
        return restored(schema, vectors, axes, 1, tensors)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The start, and the network's weights."""
        apart: dict[str, Tensors] = {"start": {}, "network": {}}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            if kind not in apart:
                raise BadInput("the model holds arrays beside its start and its network; the release was altered")
            apart[kind][rest] = value
        start = self.mixture(schema, apart["start"])
        if (self.depth or 0) > len(apart["network"]):  # before so many layers are made
            raise BadInput(
                f"the model has fewer layers than its settings give (depth={self.depth}); the release was altered"
            )
        network = training_state.rebuilt(partial(self.network, start), apart["network"])
        return DiffusionModel(start, network, self.sampler, self.sigma_data, devices.opened(self.device))


class Training:
    """Algorithm 1 of the paper: Poisson samples, clipped noisy gradients, Adam, and an average of the weights."""

    def __init__(
        self,
        settings: DPDM,
        data: Sensitive,
        start: Mixture,
        event: Sampled,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.settings, self.data, self.start, self.random, self.device = settings, data, start, generator, device
        self.rate, (gradient,) = event.rate, event.queries
        self.noise = gradient.noise if isinstance(gradient, Gaussian) else math.nan
        self.network = settings.network(start, generator).to(device)
        self.averaged, self.first = copy.deepcopy(self.network), copy.deepcopy(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), settings.learning_rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, settings.steps)
        self.parts: dict[str, training_state.Part] = {
            "network": self.network,
            "averaged": self.averaged,
            "optimizer": self.optimizer,
            "schedule": self.schedule,
            "random": generator,
        }
        self.prior = prior_of(start, settings.sigma_data).to(device, torch.float64)
        units = data.schema.units
        # Public: never the batch that came
        self.expected = max(1.0, self.rate * (units if isinstance(units, int) else 1))
        default = LEVELS[settings.start]
        self.levels = Levels(
            default[0] if settings.P_mean is None else settings.P_mean,
            default[1] if settings.P_std is None else settings.P_std,
        )

    def step(self, step: int) -> None:
        """One noisy gradient of the records' losses, one step of Adam."""
        seed = int(torch.randint(2**62, (1,), generator=self.random))
        draws = Draws(
            len(self.data.codec.sizes),
            self.prior.means.shape[1],
            self.levels,
            self.settings.multiplicity,
            seed,
            self.device,
        )

        def loss(network: nn.Module, codes: Tensor) -> Tensor:
            """The mean over K of lambda(sigma) |D(x + sigma n; sigma, y) - x|^2, one per record."""
            x, y = rows_of(self.start.vectors, codes)
            sigma, n = draws.of(codes)
            return losses(network, self.prior, self.prior.coordinates(x, y), sigma, n, y).mean(1)

        with self.data.sample(self.rate) as batch:
            sums = batch.ask(Gradient(self.network, loss, self.settings.clip, self.noise, expected=self.expected))
        for name, parameter in self.network.named_parameters():
            parameter.grad = (sums[name] / self.expected).to(parameter)
        self.optimizer.step()
        self.schedule.step()
        average(self.averaged, self.network, self.settings.average, step)

    def finished(self) -> nn.Module:
        """The averaged network, on the CPU; what diverged is dropped."""
        return training_state.kept_of(self.averaged, self.first).cpu()

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on."""
        arrays: training_state.Arrays = {f"start/{name}": value for name, value in self.start.tensors().items()}
        return {**arrays, **training_state.state_of(self.parts)}

    def restore(self, state: training_state.State) -> None:
        training_state.restore(self.parts, state)


GENERATOR = DPDM
