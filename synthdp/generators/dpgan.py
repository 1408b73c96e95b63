"""DP-GAN: a generative adversarial network whose discriminator sees records through DP-SGD (Xie et al. 2018).

A row is one one-hot block per column. The generator is conditional on a label column and starts at noisy tables (label x
column). The discriminator minimises E_real[-D] + E_fake[D + penalty D^2 / 2]; only its real half touches records, so only that half
is clipped and noised (GUARANTEE 14): generated rows and their labels are functions of earlier noisy answers. Many
discriminator steps per generator step and averaged weights follow Bie, Kamath & Zhang 2023.
"""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.data.codec import Codec
from synthdp.data.schema import LEARN, Schema
from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, check_tensors, silent
from synthdp.generators.networks import (
    Blocks,
    Discriminator,
    Network,
    average,
    draw_latent,
    nearest_distribution,
    random,
    with_label,
)
from synthdp.options import option
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import Entry, Gaussian, Plan, Sampled
from synthdp.privacy.sensitive import Sensitive

if TYPE_CHECKING:
    import pandas as pd

RECENTRE_EVERY = 10
SHOW_EVERY = 25
ROWS = 4096  # sampled at a time
STARTS = ("label", "columns", "none")
MOST_LABELS = 64  # a target with more codes than this is a column like any other
CALIBRATION_ROUNDS, CALIBRATION_ROWS = 8, 8192
STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient
SMALL = 2e-5  # of a probability: what a cell keeps though its noisy count is zero


@dataclass(frozen=True, kw_only=True)
class DPGAN:
    """Settings of the DP-GAN."""

    name: ClassVar[str] = "dpgan"
    contract_settings: ClassVar[dict[str, Any]] = {"steps": 30, "batch": 64, "hidden": (32,)}

    steps: int = option(3000, "discriminator steps, each one charged sample")
    batch: int = option(384, "expected units per sample; the rate is batch / units")
    rate: float | None = option(
        None, "Poisson sampling probability, in place of batch; needed where units is not declared"
    )
    clip: float = option(1.0, "L2 bound on a unit's gradient")
    start: str = option("label", "noisy tables to start at: label (label x column), columns (one-way) or none")
    tables: float = option(0.25, "share of the precision spent on these tables, in (0, 1)")
    condition: str | None = option(
        None, "label column that the generator is conditional on; default: the first target, up to 64 codes"
    )
    hidden: tuple[int, ...] = option((128, 128), "widths of the hidden layers of both networks")
    latent: int = option(32, "latent values per row")
    generator_every: int = option(5, "discriminator steps per generator step")
    fake_batch: int = option(256, "generated rows per step")
    discriminator_rate: float = option(1e-3, "learning rate of the discriminator (Adam)")
    generator_rate: float = option(1e-3, "learning rate of the generator (Adam), falling to zero along a cosine")
    penalty: float = option(5.0, "weight of the squared scores of generated rows: what keeps the discriminator bounded")
    table_weight: float = option(2.0, "weight of the tables in the generator's loss")
    average: float = option(0.995, "decay of the average of the generator's weights")
    discriminator_average: float = option(
        0.0, "decay of the average of the discriminator's weights that teaches the generator"
    )
    temperature: float = option(1.0, "of the straight-through Gumbel draws")

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "latent", "generator_every", "fake_batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise BadInput(f"generator.{name} must be a whole number of 1 or more, got {value!r}")
        for name in ("clip", "discriminator_rate", "generator_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise BadInput(f"generator.{name} must be greater than 0, got {getattr(self, name)}")
        for name in ("average", "discriminator_average"):
            if not 0 <= getattr(self, name) < 1:
                raise BadInput(f"generator.{name} must lie in [0, 1), got {getattr(self, name)}")
        if not 0 < self.tables < 1:
            raise BadInput(f"generator.tables must lie in (0, 1), got {self.tables}; start=none asks for no tables")
        if self.start not in STARTS:
            raise BadInput(f"generator.start must be one of {', '.join(STARTS)}, got {self.start!r}")
        if self.rate is not None and not 0 < self.rate <= 1:
            raise BadInput(f"generator.rate must lie in (0, 1], got {self.rate}")
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if not self.hidden or min(self.hidden) < 1:
            raise BadInput("generator.hidden must hold at least one width of 1 or more")

    def plan(self, schema: Schema, noise: float) -> Plan:
        """One Gaussian for all tables, then `steps` sampled gradients."""
        rate = self.sampling_rate(schema)
        steps = Entry(Sampled(rate, (Gaussian(noise),)), self.steps)
        if self.start == "none":
            return (steps,)
        return Entry(Gaussian(self.table_noise(rate, noise))), steps

    def sampling_rate(self, schema: Schema) -> float:
        """`rate`, or batch / units; raises `BadInput` where the schema declares no units."""
        if self.rate is not None:
            if schema.units is None and self.start == "none":
                raise BadInput("dpgan without tables needs units in the schema: a count, an estimate, or learn")
            return self.rate
        if schema.units is None or schema.units == LEARN:
            raise BadInput(
                "dpgan needs the expected batch size: declare units in the schema (a public count or estimate of "
                "units), or give generator.rate"
            )
        return min(1.0, self.batch / schema.units)

    def table_noise(self, rate: float, noise: float) -> float:
        """Noise at which the tables hold their share of the plan's precision, sum of 1 / noise^2 (a sampled step counts
        as a Gaussian of noise / rate)."""
        return noise / (rate * math.sqrt(self.steps)) * math.sqrt((1 - self.tables) / self.tables)

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """Tables, then the adversarial game, then the biases made to agree with the tables once more."""
        noise = data.commit(lambda z: self.plan(schema, z), budget)
        rate = self.sampling_rate(schema)
        schema = data.resolve()
        game = Game(self, data, schema, rate, noise, random(seed))
        game.start()
        event = Sampled(rate, (Gaussian(noise),))
        with data.reserve(event, self.steps):
            for step in range(self.steps):
                game.discriminator_step(step)
                if (step + 1) % self.generator_every == 0:
                    game.generator_step(step // self.generator_every)
                if (step + 1) % SHOW_EVERY == 0 or step + 1 == self.steps:
                    progress(step + 1, self.steps, {"generator loss": game.generator_loss})
        return game.finish()

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns; raises `BadInput` for one that is not there."""
        names = [column.name for column in schema.modelled]
        if self.condition is None:
            if not schema.targets:
                return None
            place = names.index(schema.targets[0])
            return place if Codec(schema).sizes[place] <= MOST_LABELS else None
        if self.condition not in names:
            raise BadInput(
                f"generator.condition: no modelled column named {self.condition!r}; known: {', '.join(names)}"
            )
        return names.index(self.condition)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        sizes = Codec(schema).sizes
        label = self.label(schema)
        widths = tuple(tensors[f"layers.{place}.weight"].shape[0] for place in range(len(self.hidden)))
        if widths != self.hidden:  # before anything of these widths is allocated
            raise BadInput(f"the model's layers have widths {widths}, its settings say {self.hidden}")
        network = self.network(sizes, label, random(0))
        shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        check_tensors(tensors, {**shapes, "labels": (1 if label is None else sizes[label],)})
        weights = {name: torch.from_numpy(np.array(tensors[name], dtype=np.float32)) for name in shapes}
        network.load_state_dict(weights)
        return DPGANModel(
            schema, network, torch.from_numpy(np.array(tensors["labels"], dtype=np.float32)), label, self.latent
        )

    def network(self, sizes: Sequence[int], label: int | None, generator: torch.Generator) -> Network:
        """The generator's network for columns of these sizes."""
        labels = 1 if label is None else sizes[label]
        return Network(self.latent, labels, self.hidden, sum(sizes), generator)


class Game:
    """The state of one training: two networks, their averages and optimisers, and the noisy tables."""

    def __init__(
        self, settings: DPGAN, data: Sensitive, schema: Schema, rate: float, noise: float, generator: torch.Generator
    ) -> None:
        self.settings, self.data, self.schema, self.rate, self.noise = settings, data, schema, rate, noise
        self.random = generator
        self.units = schema.units if isinstance(schema.units, int) else None
        sizes = data.codec.sizes
        self.blocks, self.label = Blocks(sizes), settings.label(schema)
        self.g = settings.network(sizes, self.label, generator)
        self.d = Discriminator(self.blocks.width, settings.hidden, len(sizes), generator)
        self.g_average, self.d_average = copy.deepcopy(self.g), copy.deepcopy(self.d)
        self.g_optimizer = torch.optim.Adam(self.g.parameters(), settings.generator_rate, betas=(0.5, 0.999))
        self.d_optimizer = torch.optim.Adam(self.d.parameters(), settings.discriminator_rate, betas=(0.5, 0.999))
        self.g_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.g_optimizer, max(1, settings.steps // settings.generator_every)
        )
        labels = self.g.bias.shape[0]
        self.labels = torch.full((labels,), 1 / labels)
        self.tables: Tensor | None = None  # P(column | label), (labels, width)
        self.joint = True  # whether the tables tell labels apart
        self.generator_loss = 0.0

    def start(self) -> None:
        """Ask for the tables; the generator's biases begin at their logarithms."""
        self.beginning = copy.deepcopy(self.g)
        if self.settings.start == "none":
            return
        names, label = self.data.codec.names, self.label
        joint = label is not None and self.settings.start == "label" and len(names) > 1
        columns = [place for place in range(len(names)) if not (joint and place == label)]
        cliques = [
            (names[label], names[place]) if joint and label is not None else (names[place],) for place in columns
        ]
        noise = self.settings.table_noise(self.rate, self.noise)
        answers = [torch.from_numpy(table) for table in self.data.marginals(cliques, noise)]
        total = torch.stack([table.sum() for table in answers]).mean().clamp_min(1.0)
        if self.units is None:
            self.units = round(float(total))
        if joint:
            self.labels = nearest_distribution(torch.stack([table.sum(1) for table in answers]).mean(0)).float()
        elif label is not None:
            self.labels = nearest_distribution(answers[label]).float()
        expected = total * (self.labels.double().clamp_min(1e-3) if joint else torch.ones(1, dtype=torch.float64))
        self.tables = torch.zeros(len(self.labels), self.blocks.width)
        for place, table in zip(columns, answers, strict=True):
            rows = zip(table.reshape(len(expected), -1), expected, strict=True)
            shares = torch.stack([nearest_distribution(row / count) for row, count in rows])
            self.tables[:, self.blocks.slices[place]] = shares.float()  # one row serves all labels where it is one-way
        if label is not None:
            self.tables[:, self.blocks.slices[label]] = torch.eye(len(self.labels))
        self.joint = joint or label is None
        with torch.no_grad():
            for network in (self.g, self.g_average):
                network.bias.copy_((self.tables + SMALL).log())

        self.beginning = copy.deepcopy(self.g)

    def latent(self, rows: int) -> tuple[Tensor, Tensor]:
        """Latent values and one-hot labels, (rows, latent) and (rows, labels)."""
        return draw_latent(rows, self.settings.latent, self.labels, self.random)

    @torch.no_grad()
    def fakes(self, rows: int) -> Tensor:
        """Generated codes, (rows, columns)."""
        latent, label = self.latent(rows)
        codes = self.blocks.draw(self.g(latent, label), self.random)
        return with_label(codes, label, self.label)

    def discriminator_step(self, step: int) -> None:
        """One noisy step: the real half through the seal, the fake half exactly."""
        settings = self.settings
        fakes = self.fakes(settings.fake_batch)
        if step % RECENTRE_EVERY == 0:
            self.d.recentre(self.blocks.one_hot(fakes), 1.0 if step == 0 else 0.3, self.d_average)
        with self.data.sample(self.rate) as batch:
            real = batch.gradient(self.d, self.real_loss, settings.clip, self.noise)
        self.d_optimizer.zero_grad()
        self.fake_loss(self.blocks.one_hot(fakes)).backward()  # type: ignore[no-untyped-call]
        expected = self.expected_batch()
        for name, parameter in self.d.named_parameters():
            if parameter.grad is not None:
                parameter.grad.add_(real[name], alpha=1 / expected)
        self.d_optimizer.step()
        average(self.d_average, self.d, settings.discriminator_average, step)

    def real_loss(self, module: nn.Module, codes: Tensor) -> Tensor:
        """-D(x), one per record: the only place where records pass."""
        scores: Tensor = module(self.blocks.one_hot(codes))
        return -scores

    def fake_loss(self, rows: Tensor) -> Tensor:
        """Mean of D(x) + penalty D(x)^2 / 2 over generated rows, exact. At its best D is (p / q - 1) / penalty, so the
        square keeps the scores near zero. Each row's gradient of D is clipped as a record's is, to balance the halves."""
        settings = self.settings
        weights = (settings.clip / self.d.norms(rows).clamp_min(1e-12)).clamp_max(1.0)
        scores: Tensor = self.d(rows)
        weights = weights * (1 + settings.penalty * scores.detach()).clamp(-STRONGEST, STRONGEST)
        return (weights * scores).mean()

    def expected_batch(self) -> float:
        """The public divisor: rate x units, declared, bought, or the noisy total of the tables."""
        return max(1.0, self.rate * (self.units or 1))

    def generator_step(self, step: int) -> None:
        """Descend on -D of generated rows and on the distance to the noisy tables."""
        settings = self.settings
        latent, label = self.latent(settings.fake_batch)
        logits = self.g(latent, label)
        rows = self.blocks.soft_draw(logits, settings.temperature, self.random)
        if self.label is not None:
            block = self.blocks.slices[self.label]
            rows = torch.cat([rows[:, : block.start], label, rows[:, block.stop :]], 1)
        loss = -self.d_average(rows).mean()
        if self.tables is not None and settings.table_weight > 0:
            loss = loss + settings.table_weight * self.table_loss(logits, label, self.tables)
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        self.g_schedule.step()
        self.generator_loss = float(loss.detach())
        average(self.g_average, self.g, settings.average, step)

    def table_loss(self, logits: Tensor, label: Tensor, tables: Tensor) -> Tensor:
        """Squared distance of the joint (label x column) tables, relative to each cell; the two halves of the rows make
        the square unbiased."""
        shares = self.blocks.probabilities(logits)
        target = tables * self.labels[:, None]
        half = len(label) // 2
        halves = [label[:half], label[half:]], [shares[:half], shares[half:]]
        one, other = (y.T @ p / max(1, len(y)) - target for y, p in zip(*halves, strict=True))
        if not self.joint:  # one-way tables say nothing of the labels apart
            one, other, target = one.sum(0, keepdim=True), other.sum(0, keepdim=True), target.sum(0, keepdim=True)
        cells = one * other / (target + 1e-3)
        if self.label is not None:
            block = self.blocks.slices[self.label]
            cells = torch.cat([cells[:, : block.start], cells[:, block.stop :]], 1)
        return cells.sum()

    @torch.no_grad()
    def finish(self) -> "DPGANModel":
        """The averaged generator, its biases moved until its tables are the noisy ones; a game that diverged is dropped."""
        network = self.g_average
        if not all(bool(torch.isfinite(value).all()) for value in network.state_dict().values()):
            warnings.warn(
                "the adversarial game diverged; the model is what it started from: lower the learning rates",
                stacklevel=3,
            )
            network = self.beginning
        if self.tables is not None:
            latent, label = self.latent(CALIBRATION_ROWS)
            weights = label if self.joint else torch.ones(len(label), 1)
            tables = self.tables if self.joint else self.tables[:1]
            for _ in range(CALIBRATION_ROUNDS):
                shares = weights.T @ self.blocks.probabilities(network(latent, label))
                shares = shares / weights.sum(0)[:, None].clamp_min(1)
                network.bias.add_(((tables + SMALL) / (shares + SMALL)).log().clamp(-1, 1))
        return DPGANModel(self.schema, network, self.labels, self.label, self.settings.latent)


@dataclass(frozen=True)
class DPGANModel:
    """The averaged generator and the distribution of its label."""

    schema: Schema
    network: Network
    labels: Tensor
    label: int | None
    latent: int

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """Latent values and a label per row, then one category per column."""
        codec, generator = Codec(self.schema), random(seed)
        blocks = Blocks(codec.sizes)
        parts = [torch.zeros((0, len(codec.sizes)), dtype=torch.int64)]
        for start in range(0, rows, ROWS):
            latent, label = draw_latent(min(ROWS, rows - start), self.latent, self.labels, generator)
            codes = blocks.draw(self.network(latent, label), generator)
            parts.append(with_label(codes, label, self.label))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        return codec.decode(torch.cat(parts).numpy().astype(np.int32), rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """The weights, and the label's distribution."""
        weights = {name: value.numpy() for name, value in self.network.state_dict().items()}
        return {**weights, "labels": self.labels.numpy()}


GENERATOR = DPGAN
