"""DP-GAN: a generative adversarial network whose discriminator sees records through DP-SGD (Xie et al. 2018).

A row is one one-hot block per column. The generator is conditional on a label column and starts at noisy tables (label x
column). The discriminator minimises E_real[-D] + E_fake[D + penalty D^2 / 2]; only its real half touches records, so only that half
is clipped and noised (law 14): generated rows and their labels are functions of earlier noisy answers. Many
discriminator steps per generator step and averaged weights follow Bie, Kamath & Zhang 2023.

Of images (Torkzadehmahani, Kairouz & Paten 2019 condition them on labels) it starts at class Gaussians and learns what is to be
added to their pictures; see `images/image_networks.py`, `adversarial/clipping_strategies.py` and `adversarial/gan_settings.py` for what is
different there.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from synthdp.errors import BadInput
from synthdp.generators import IMAGES, TABLE, Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import clipping_strategies, gan_settings
from synthdp.generators.adversarial.game import ImageGame, TableGame
from synthdp.generators.images import image_player
from synthdp.generators.parts import devices
from synthdp.generators.parts.gan_model import label_place, restored
from synthdp.generators.parts.setting_checks import refuse_dear, refuse_ignored, refuse_unused
from synthdp.generators.parts.table_networks import WIDTH, random
from synthdp.generators.parts.training_state import OPTIMIZERS
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, Sampled
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, text, whole
from synthdp.schema.schema import LEARN, Schema
from synthdp.seal import ALLOCATIONS

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

SHOW_EVERY = 25


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public numbers of one fit, fixed before its first answer. `noise` is the gradients'."""

    rate: float
    noise: float
    table_noise: float
    count_deviation: float | None  # of the count of units within the clip; None: there is none


def _default(name: str) -> str:
    table, images = (gan_settings.DEFAULTS[kind][name] for kind in (TABLE, IMAGES))
    return f"default: {table} for tables, {images} for images"


@dataclass(frozen=True, kw_only=True)
class DPGAN:
    """Settings of the DP-GAN."""

    name: ClassVar[str] = "dpgan"
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"))

    steps: int | None = option(
        None,
        f"discriminator steps, each charged as one sample; {_default('steps')}, but for images at most {gan_settings.PASSES} passes over "
        "the records",
        whole(),
    )
    batch: int | None = option(
        None, f"expected units per sample, so that the rate is batch / units; {_default('batch')}", whole(most=10**9)
    )
    rate: float | None = option(
        None,
        "Poisson sampling probability, instead of batch; required where the schema does not declare units",
        number("[1e-9, 1]"),
    )
    clip: float = option(
        1.0, "L2 bound on a unit's gradient; where the bound changes during training, its first value", positive()
    )
    clipping: str = option(
        "flat",
        "; ".join(f"{name}: {meaning}" for name, meaning in clipping_strategies.STRATEGIES.items()),
        one_of(*clipping_strategies.STRATEGIES),
    )
    clip_quantile: float = option(
        0.5, "adaptive: share of the units whose gradients the clip should leave unchanged", fraction()
    )
    clip_speed: float = option(
        0.2, "adaptive: each step multiplies the clip by exp(-clip_speed x (share - quantile))", positive()
    )
    clip_count_noise: float | None = option(
        None,
        "adaptive: standard deviation of the noise on the count; default: batch / 20, or 5 x the gradient's noise if that"
        " is larger",
        positive(),
    )
    clip_decay: float = option(
        0.1, "decay: ratio of the clip's last value to its first; it falls exponentially", number("(0, 1]")
    )
    clip_gamma: float = option(
        0.01, "automatic: what is added to the norm that each gradient is divided by", positive()
    )
    clip_shares: tuple[float, ...] = option(
        (), "per_group: proportions of the layers' bounds; default: equal", several(positive())
    )
    clip_allocation: str = option(
        "proportional",
        "per_group: noise in proportion to the bounds (proportional), or so that its norm is (by_dimension)",
        one_of(*ALLOCATIONS),
    )
    start: str | None = option(
        None,
        "noisy answers to start at. Tables: label (label x column), columns (one-way) or none; images: gauss (those of "
        f"classgauss, whose pictures are retouched), label (its counts) or none; {_default('start')}",
        one_of(*gan_settings.STARTS),
    )
    tables: float | None = option(
        None, f"share of the precision spent on the start, in (0, 1); {_default('tables')}", fraction()
    )
    architecture: str | None = option(
        None,
        "images only. " + "; ".join(f"{name}: {meaning}" for name, meaning in gan_settings.ARCHITECTURES.items()),
        one_of(*gan_settings.ARCHITECTURES),
    )
    condition: str | None = option(
        None,
        "label column that the generator is conditioned on; default: the first target, if it has at most 64 codes",
        text(),
    )
    hidden: tuple[int, ...] | None = option(
        None,
        "widths of the hidden layers of both networks; default: 128, 128 (tables), "
        + ", ".join(f"{' and '.join(map(str, own))} ({name})" for name, own in gan_settings.WIDTHS.items()),
        several(WIDTH, 1),
    )
    latent: int = option(32, "latent values per row", WIDTH)
    generator_every: int = option(5, "discriminator steps per generator step", whole())
    fake_batch: int = option(256, "generated rows per step", whole())
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
    penalty: float | None = option(
        None,
        "what keeps the discriminator bounded: weight of the squared scores of generated rows, of images that of their squared "
        f"gradients; {_default('penalty')}",
        not_negative(),
    )
    weight_clip: float | None = option(
        None,
        "tables only: bound on each weight of the discriminator, kept after every step (Arjovsky et al. 2017); with penalty=0 and "
        "start=none this is the DPGAN of Xie et al. 2018, also known as DP-WGAN",
        positive(),
    )
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    average: float = option(0.995, "decay of the moving average of the generator's weights", number("[0, 1)"))
    discriminator_average: float = option(
        0.0,
        "decay of the moving average of the discriminator's weights that teaches the generator; 0 means none",
        number("[0, 1)"),
    )
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        for name in gan_settings.overruled(self):
            object.__setattr__(self, name, None)
        clipping_strategies.check(self)
        refuse_unused(self, "optimizer", {"momentum": "momentum"})
        refuse_ignored(self, ("batch",) if self.rate is not None else (), f"generator.rate={self.rate}")
        refuse_ignored(self, ("tables", "table_weight") if self.start == "none" else (), "generator.start=none")

    def validate(self, schema: Schema, budget: Budget) -> None:
        """The settings go with each other and with the columns, the expected batch is known, and so is the device."""
        gan_settings.check(self, schema)
        terms = self.terms(schema, 1.0)
        if self.clip_count_noise is not None:
            counts = Sampled(terms.rate, (Gaussian(2 * self.clip_count_noise),))
            refuse_dear("clip_count_noise", (Entry(counts, gan_settings.settled(self, schema).steps),), schema, budget)
        devices.place(self.device)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, for tables one Gaussian; then `steps` sampled gradients, with each a count of units where the clip adapts."""
        own, terms = gan_settings.settled(self, schema), self.terms(schema, noise)
        steps = Entry(self.event(terms), own.steps)
        if schema.image is not None:
            return (*image_player.plan(own, schema, terms.table_noise), steps)
        return (steps,) if own.start == "none" else (Entry(Gaussian(terms.table_noise)), steps)

    def terms(self, schema: Schema, noise: float) -> Terms:
        """What a fit at this noise asks with."""
        own, rate = gan_settings.settled(self, schema), self.sampling_rate(schema)
        units = schema.units if isinstance(schema.units, int) else None
        expected = None if units is None else rate * units
        deviation = clipping_strategies.count_deviation(own, expected, noise)
        together = clipping_strategies.together(noise, deviation)
        tables = math.inf if own.tables is None else table_noise(own.tables, own.steps, rate, together)
        return Terms(rate=rate, noise=noise, table_noise=tables, count_deviation=deviation)

    def event(self, terms: Terms) -> Sampled:
        """One step."""
        return Sampled(terms.rate, clipping_strategies.events(terms.noise, terms.count_deviation))

    def sampling_rate(self, schema: Schema) -> float:
        """`rate`, or batch / units; raises `BadInput` where the schema declares no units."""
        own = gan_settings.settled(self, schema)
        if self.rate is not None:
            if schema.units is None and (own.start == "none" or schema.image is not None):
                raise BadInput(
                    "dpgan of images or without tables needs units in the schema: a count, an estimate, or learn"
                )
            return self.rate
        if schema.units is None or schema.units == LEARN:
            raise BadInput(
                "dpgan needs the expected batch size: declare units in the schema (a public count or estimate of "
                "units), or give generator.rate"
            )
        return min(1.0, own.batch / schema.units)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then the adversarial game; of tables the biases are made to agree with the noisy ones once more."""
        device = devices.place(self.device)
        terms = self.terms(data.declared, data.commit(lambda z: self.plan(data.declared, z)))
        schema = data.resolve()
        own = gan_settings.settled(self, schema)
        kind = TableGame if schema.image is None else ImageGame
        game = kind(own, self.label(schema), data, terms, random(seed), device)
        saved = data.restored()
        if saved is None:
            game.start()
        else:
            game.restore(saved)
        for step in data.steps(self.event(terms), own.steps, game.state):
            game.discriminator_step(step)
            if (step + 1) % own.generator_every == 0:
                game.generator_step(step // own.generator_every)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == own.steps:
                progress(step + 1, own.steps, {"generator loss": game.player.loss})
        return game.finish()

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns."""
        return label_place(self.condition, schema)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution; of images the start's arrays too."""
        gan_settings.check(self, schema)
        own, label = gan_settings.settled(self, schema), self.label(schema)
        if schema.image is not None:
            return image_player.restored(own, schema, tensors, label)
        return restored(own, schema, tensors, label)


def table_noise(share: float, steps: int, rate: float, noise: float) -> float:
    """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2 (a sampled step counts as a
    Gaussian of noise / rate)."""
    return noise / (rate * math.sqrt(steps)) * math.sqrt((1 - share) / share)


GENERATOR = DPGAN
