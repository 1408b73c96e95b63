"""What the DP-GANs of tables and of images share: their settings, and the adversarial game.

Noisy discriminator steps, exact generator steps, and what a stopped game goes on from. Only the discriminator's loss on records
touches them, so only that half of its gradient is clipped and noised (law 14).
"""

import copy
import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synthdp.accounting.charges import combined
from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import clipping_strategies
from synthdp.generators.adversarial.clipping_strategies import Clipper, Clipping
from synthdp.generators.adversarial.table_generator_network import TableGeneratorNetwork
from synthdp.generators.images.image_generator_network import ImageGeneratorNetwork
from synthdp.generators.images.image_networks import Critic
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import check_label, label_option, label_place, surely_label
from synthdp.generators.parts.poisson_samples import Sampling
from synthdp.generators.parts.setting_checks import refuse_dear, refuse_ignored, refuse_unused
from synthdp.generators.parts.table_networks import Discriminator, average, nearest_distribution, random
from synthdp.generators.parts.training_state import OPTIMIZERS
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, Sampled
from synthdp.options import check, number, one_of, option, positive, several, whole
from synthdp.schema.codec import Codes
from synthdp.schema.schema import Schema
from synthdp.seal import Group, Sensitive, Sums

Array = NDArray[np.float64]
CPU = torch.device("cpu")
RECENTRE_EVERY = 10
SHOW_EVERY = 25
CLASSES, APART = "classes", "apart"
STATISTICS = {  # McMahan, Andrew et al. 2018, section 1: metrics and statistics of the training data, of the same sample
    CLASSES: "how many records have each label, from which generated rows draw theirs (with start=none)",
    APART: "how well the discriminator tells records from generated rows, where 0.5 means not at all; shown while the fit runs",
}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public numbers of one fit, fixed before its first answer. `noise` is the gradients'."""

    rate: float
    noise: float
    table_noise: float
    count_deviation: float | None  # of the count of units within the clip; None: there is none
    beside: tuple[float, ...] = ()  # noises of the statistics


@dataclass(frozen=True, kw_only=True)
class GanSettings(Clipping, Sampling):
    """The options that both DP-GANs have, those of `Sampling` first. Each GAN gives its own default to those that have none here."""

    traits: ClassVar[Traits]

    statistics: tuple[str, ...] = option(
        (),
        "what is asked of each sample beside the gradient: "
        + "; ".join(f"{name}: {meaning}" for name, meaning in STATISTICS.items()),
        several(one_of(*STATISTICS)),
    )
    statistics_noise: float = option(10.0, "noise of each statistic, as a multiple of the gradient's", positive())
    tables: float | None
    condition: str | None = label_option()
    hidden: tuple[int, ...]
    latent: int
    generator_every: int = option(5, "discriminator steps per generator step", whole())
    fake_batch: int = option(256, "generated records per step", whole())
    optimizer: str = option(
        "adam",
        f"optimiser of the discriminator, which sees noisy gradients: {', '.join(OPTIMIZERS)}",
        one_of(*OPTIMIZERS),
    )
    momentum: float = option(0.9, "momentum, with optimizer=momentum", number("[0, 1)"))
    discriminator_rate: float = option(1e-3, "learning rate of the discriminator", positive(100))
    generator_rate: float = option(
        1e-3, "learning rate of the generator (Adam); it falls to zero along a cosine", positive(100)
    )
    penalty: float
    average: float = option(0.995, "decay of the moving average of the generator's weights", number("[0, 1)"))
    discriminator_average: float = option(
        0.0,
        "decay of the moving average of the discriminator's weights that teaches the generator; 0 means none",
        number("[0, 1)"),
    )
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        clipping_strategies.check(self, len(self.widths) + 1)
        refuse_unused(self, "optimizer", {"momentum": "momentum"})
        refuse_ignored(self, ("batch",) if self.rate is not None else (), f"generator.rate={self.rate}")
        refuse_ignored(self, ("tables",) if self.start == "none" else (), "generator.start=none")
        refuse_ignored(self, () if self.statistics else ("statistics_noise",), "no generator.statistics")
        if len(set(self.statistics)) < len(self.statistics):
            raise BadInput("generator.statistics names one of them twice")
        if CLASSES in self.statistics and self.start != "none":
            raise BadInput(
                f"generator.statistics=classes needs generator.start=none: start={self.start} asks for the labels' counts itself"
            )

    # What each of the two says for itself.

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the discriminator's hidden layers."""
        return self.hidden

    @property
    @abstractmethod
    def start_share(self) -> float:
        """Of the precision."""

    def steps_on(self, schema: Schema) -> int:  # noqa: ARG002
        """How many discriminator steps there are on records of this schema."""
        return self.steps

    @abstractmethod
    def starting(self, schema: Schema, noise: float) -> Plan:
        """What the start asks, all of it together one Gaussian of this noise."""

    @abstractmethod
    def game(self, data: Sensitive, terms: Terms, generator: torch.Generator, device: torch.device = CPU) -> "Game":
        """The game of one fit, once the schema is resolved."""

    @abstractmethod
    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The model that `tensors` are of; raises `BadInput` where names or shapes do not fit."""

    # What they share.

    def validate(self, schema: Schema, budget: Budget) -> None:
        """The settings go with each other and with the columns, the expected batch is known, and so is the device."""
        check_label(self.condition, schema)
        terms = self.terms(schema, 1.0)
        if CLASSES in self.statistics and surely_label(self.condition, schema) is None:
            raise BadInput(
                "generator.statistics=classes needs a label column: name it by generator.condition or, where its categories are declared, "
                "by targets"
            )
        if self.clip_count_noise is not None:
            counts = Sampled(terms.rate, (Gaussian(2 * self.clip_count_noise),))
            refuse_dear("clip_count_noise", (Entry(counts, self.steps_on(schema)),), schema, budget)
        devices.place(self.device)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start; then sampled gradients, with each a count of units where the clip adapts."""
        terms = self.terms(schema, noise)
        return (*self.starting(schema, terms.table_noise), Entry(self.event(terms), self.steps_on(schema)))

    def terms(self, schema: Schema, noise: float) -> Terms:
        """What a fit at this noise asks with."""
        rate = self.sampling_rate(schema)
        units = schema.units if isinstance(schema.units, int) else None
        expected = None if units is None else rate * units
        deviation = clipping_strategies.count_deviation(self, expected, noise)
        beside = (self.statistics_noise * noise,) * len(self.statistics)
        together = combined(each.noise for each in clipping_strategies.events(noise, deviation, beside))
        none = self.start == "none"
        tables = math.inf if none else table_noise(self.start_share, self.steps_on(schema), rate, together)
        return Terms(rate=rate, noise=noise, table_noise=tables, count_deviation=deviation, beside=beside)

    def event(self, terms: Terms) -> Sampled:
        """One step."""
        return Sampled(terms.rate, clipping_strategies.events(terms.noise, terms.count_deviation, terms.beside))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then the adversarial game."""
        device = devices.place(self.device)
        terms = self.terms(data.declared, data.commit(lambda z: self.plan(data.declared, z)))
        steps = self.steps_on(data.resolve())
        game = dataclasses.replace(self, steps=steps).game(data, terms, random(seed), device)
        saved = data.restored()
        if saved is None:
            game.start()
        else:
            game.restore(saved)
        for step in data.steps(self.event(terms), steps, game.state):
            game.discriminator_step(step)
            if (step + 1) % self.generator_every == 0:
                game.generator_step(step // self.generator_every)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == steps:
                progress(step + 1, steps, {"generator loss": game.network.loss, **game.shown()})
        return game.finish()

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns."""
        return label_place(self.condition, schema)


def table_noise(share: float, steps: int, rate: float, noise: float) -> float:
    """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2 (a sampled step counts as a
    Gaussian of noise / rate)."""
    return noise / (rate * math.sqrt(steps)) * math.sqrt((1 - share) / share)


class Game(ABC):
    """The state of one training: the generator's side, a discriminator, its average and its optimiser; networks on the `device`."""

    def __init__(
        self,
        settings: GanSettings,
        data: Sensitive,
        terms: Terms,
        network: TableGeneratorNetwork | ImageGeneratorNetwork,
        d: Discriminator | Critic,
        loss: clipping_strategies.Loss,
        weight_clip: float | None = None,
    ) -> None:
        """`weight_clip` bounds each weight of the discriminator after every step."""
        self.settings, self.data, self.terms = settings, data, terms
        self.units = data.schema.units if isinstance(data.schema.units, int) else None
        self.network, self.d, self.loss, self.weight_clip = network, d, loss, weight_clip
        self.d_average = copy.deepcopy(d)
        self.clipper = Clipper(settings, d, terms.noise, terms.count_deviation, steps=settings.steps)
        self.d_optimizer = OPTIMIZERS[settings.optimizer](
            d.parameters(), settings.discriminator_rate, settings.momentum
        )
        self.classes = np.zeros(len(network.labels))  # noisy records of each label, over all steps
        self.apart: list[float] = []  # noisy shares, since they were shown

    def discriminator_step(self, step: int) -> None:
        """One noisy step: the real half through the seal, the fake half exactly."""
        settings = self.settings
        fakes = self.network.fake_rows(settings.fake_batch)
        if step % RECENTRE_EVERY == 0:
            self.d.recentre(fakes, 1.0 if step == 0 else 0.3, self.d_average)  # type: ignore[arg-type]
        expected = max(1.0, self.terms.rate * (self.units or 1))  # public: declared, bought, or the tables' noisy total
        with self.data.sample(self.terms.rate) as batch:
            real = self.clipper.gradient(batch, self.d, self.real_loss, step, expected, self.beside(fakes))
        self.learn_beside(expected)
        divisor = settings.microbatches or expected
        self.d_optimizer.zero_grad()
        self.fake_gradient(fakes)
        for name, parameter in self.d.named_parameters():
            if parameter.grad is not None:
                parameter.grad.add_(real[name], alpha=1 / divisor)
        self.d_optimizer.step()
        if self.weight_clip is not None:
            with torch.no_grad():
                for parameter in self.d.parameters():
                    parameter.clamp_(-self.weight_clip, self.weight_clip)
        average(self.d_average, self.d, settings.discriminator_average, step)

    def real_loss(self, module: nn.Module, codes: Tensor) -> Tensor:
        """One per record: the only place where records pass."""
        scores: Tensor = module(self.network.rows(codes))
        return self.loss.real(scores)

    def beside(self, fakes: Tensor) -> Sums | None:
        """The statistics of a step, each of vectors of norm 1 at most; None: there are none."""
        if not self.settings.statistics:
            return None
        labels = len(self.network.labels)
        with torch.no_grad():
            middle = float(self.d(fakes).mean())
            # In float64 no record's score depends on its company, not even by rounding.
            judge = copy.deepcopy(self.d).double()

        def classes(codes: Codes) -> Array:
            return self.network.labels_of(torch.from_numpy(codes)).double().numpy()

        def apart(codes: Codes) -> Array:
            with torch.no_grad():
                scores = judge(self.network.rows(torch.from_numpy(codes).to(self.network.device)))
            return 2 * torch.sigmoid(scores.double() - middle).cpu().numpy()[:, None] - 1

        known = {CLASSES: (classes, labels), APART: (apart, 1)}
        asked = (known[name] for name in self.settings.statistics)
        pairs = zip(asked, self.terms.beside, strict=True)
        return Sums(tuple(Group(vectors, dimension, 1.0, noise) for (vectors, dimension), noise in pairs))

    def learn_beside(self, expected: float) -> None:
        """What the statistics of a step say: the labels' distribution, and what is shown."""
        for name, answer in zip(self.settings.statistics, self.clipper.told, strict=True):
            if name == CLASSES:
                self.classes += answer
                self.network.relabel(nearest_distribution(torch.from_numpy(self.classes).float()))
            else:
                self.apart.append(0.5 + float(answer[0]) / expected / 2)

    def shown(self) -> dict[str, float]:
        """What was learned of the training since it was last shown."""
        found = {"told apart": float(np.mean(self.apart))} if self.apart else {}
        self.apart.clear()
        return found

    def fake_gradient(self, rows: Tensor) -> None:
        """Of the mean loss of generated rows, exact. Each row's gradient is clipped as a record's is, to balance the halves."""
        squares = self.d.layer_squares(rows)
        scores: Tensor = self.d(rows)
        slope = self.loss.slope(scores.detach())
        weights = self.clipper.weights(self.loss.squares(squares, slope))
        if len(weights) == 1:
            (weights[0] * slope * scores).mean().backward()  # type: ignore[no-untyped-call]
        else:
            for own, parameters in zip(weights, self.d.layer_parameters(), strict=True):
                loss = (own * slope * scores).mean()
                found = torch.autograd.grad(loss, parameters, retain_graph=True)
                for parameter, gradient in zip(parameters, found, strict=True):
                    parameter.grad = gradient

    def generator_step(self, step: int) -> None:
        """Descend on -D of generated rows, and on what else holds the network."""
        self.network.step(lambda rows, _: -self.d_average(rows).mean(), step)

    @property
    def parts(self) -> dict[str, training_state.Part]:
        """The discriminator, its average and its optimiser."""
        return {"d": self.d, "d_average": self.d_average, "d_optimizer": self.d_optimizer}

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new game of the same settings goes on from there."""
        arrays = {**self.network.state(), "units": np.array([self.units or 0], np.float64)}
        arrays |= {**training_state.state_of(self.parts), **self.clipper.state()}
        return arrays if CLASSES not in self.settings.statistics else {**arrays, CLASSES: self.classes.copy()}

    def restore(self, state: training_state.State) -> None:
        self.network.restore(state)
        self.units = int(state["units"][0]) or None
        training_state.restore(self.parts, state)
        self.clipper.restore(state)
        self.classes = np.array(state.get(CLASSES, self.classes), np.float64)

    @abstractmethod
    def start(self) -> None:
        """Ask for what the settings start at, and begin there."""

    @abstractmethod
    def finish(self) -> Model:
        """The model of the generator that is kept."""
