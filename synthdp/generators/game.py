"""The adversarial game of the DP-GAN: noisy discriminator steps, exact generator steps, and what a stopped game goes on from."""

import copy
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.generators import states
from synthdp.generators import tables as noisy_tables
from synthdp.generators.networks import Blocks, Discriminator, Network, average, draw_latent, with_label
from synthdp.generators.optimizers import BETAS, OPTIMIZERS
from synthdp.generators.strategies import Clipper
from synthdp.generators.tables import Tables
from synthdp.privacy.sensitive import Sensitive

if TYPE_CHECKING:
    from synthdp.generators.dpgan import DPGAN, Terms

RECENTRE_EVERY = 10
CALIBRATION_ROUNDS, CALIBRATION_ROWS = 8, 8192
STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient
MODULES = ("g", "d", "g_average", "d_average", "beginning")


class Game:
    """The state of one training: two networks, their averages and optimisers, and the noisy tables."""

    def __init__(self, settings: "DPGAN", data: Sensitive, terms: "Terms", generator: torch.Generator) -> None:
        self.settings, self.data, self.terms, self.random = settings, data, terms, generator
        schema = data.schema
        self.units = schema.units if isinstance(schema.units, int) else None
        sizes = data.codec.sizes
        self.blocks, self.label = Blocks(sizes), settings.label(schema)
        self.g = settings.network(sizes, self.label, generator)
        self.d = Discriminator(self.blocks.width, settings.hidden, len(sizes), generator)
        self.g_average, self.d_average, self.beginning = (
            copy.deepcopy(self.g),
            copy.deepcopy(self.d),
            copy.deepcopy(self.g),
        )
        self.clipper = Clipper(settings, self.d, terms.noise, terms.count_deviation)
        self.g_optimizer = torch.optim.Adam(self.g.parameters(), settings.generator_rate, betas=BETAS)
        self.d_optimizer = OPTIMIZERS[settings.optimizer](
            self.d.parameters(), settings.discriminator_rate, settings.momentum
        )
        self.g_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.g_optimizer, max(1, settings.steps // settings.generator_every)
        )
        labels = self.g.bias.shape[0]
        self.labels = torch.full((labels,), 1 / labels)
        self.tables: Tables | None = None
        self.generator_loss = 0.0

    def start(self) -> None:
        """Ask for the tables; the generator's biases begin at their logarithms."""
        if self.settings.start == "none":
            return
        self.tables = noisy_tables.ask(
            self.data, self.blocks, self.label, self.settings.start, self.labels, self.terms.table_noise
        )
        self.labels = self.tables.labels
        if self.units is None:
            self.units = round(self.tables.total)
        with torch.no_grad():
            for network in (self.g, self.g_average):
                network.bias.copy_(self.tables.logarithms())
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
        fakes = self.blocks.one_hot(self.fakes(settings.fake_batch))
        if step % RECENTRE_EVERY == 0:
            self.d.recentre(fakes, 1.0 if step == 0 else 0.3, self.d_average)
        expected = self.expected_batch()
        with self.data.sample(self.terms.rate) as batch:
            real = self.clipper.gradient(batch, self.d, self.real_loss, step, expected)
        self.d_optimizer.zero_grad()
        self.fake_gradient(fakes)
        for name, parameter in self.d.named_parameters():
            if parameter.grad is not None:
                parameter.grad.add_(real[name], alpha=1 / expected)
        self.d_optimizer.step()
        average(self.d_average, self.d, settings.discriminator_average, step)

    def real_loss(self, module: nn.Module, codes: Tensor) -> Tensor:
        """-D(x), one per record: the only place where records pass."""
        scores: Tensor = module(self.blocks.one_hot(codes))
        return -scores

    def fake_gradient(self, rows: Tensor) -> None:
        """Of the mean of D(x) + penalty D(x)^2 / 2 over generated rows, exact. At its best D is (p / q - 1) / penalty, so the
        square keeps the scores near zero. Each row's gradient of D is clipped as a record's is, to balance the halves."""
        weights = self.clipper.weights(self.d.layer_squares(rows))
        scores: Tensor = self.d(rows)
        slope = (1 + self.settings.penalty * scores.detach()).clamp(-STRONGEST, STRONGEST)
        if len(weights) == 1:
            (weights[0] * slope * scores).mean().backward()  # type: ignore[no-untyped-call]
            return
        for own, parameters in zip(weights, self.d.layer_parameters(), strict=True):
            loss = (own * slope * scores).mean()
            found = torch.autograd.grad(loss, parameters, retain_graph=True)
            for parameter, gradient in zip(parameters, found, strict=True):
                parameter.grad = gradient

    def expected_batch(self) -> float:
        """The public divisor: rate x units, declared, bought, or the noisy total of the tables."""
        return max(1.0, self.terms.rate * (self.units or 1))

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
            loss = loss + settings.table_weight * self.tables.distance(self.blocks, logits, label, self.label)
        self.g_optimizer.zero_grad()
        loss.backward()
        self.g_optimizer.step()
        self.g_schedule.step()
        self.generator_loss = float(loss.detach())
        average(self.g_average, self.g, settings.average, step)

    @torch.no_grad()
    def finish(self) -> Network:
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
            weights = label if self.tables.joint else torch.ones(len(label), 1)
            for _ in range(CALIBRATION_ROUNDS):
                shares = weights.T @ self.blocks.probabilities(network(latent, label))
                shares = shares / weights.sum(0)[:, None].clamp_min(1)
                network.bias.add_(self.tables.corrections(shares))
        return network

    def state(self) -> states.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new game of the same settings goes on from there."""
        arrays: states.Arrays = {
            "labels": self.labels.numpy().copy(),
            "random": self.random.get_state().numpy().copy(),
            "figures": np.array([self.generator_loss, self.units or 0], np.float64),
        }
        for name in MODULES:
            arrays.update(states.module_state(name, getattr(self, name)))
        arrays.update(states.optimizer_state("g_optimizer", self.g_optimizer))
        arrays.update(states.optimizer_state("d_optimizer", self.d_optimizer))
        arrays.update(states.schedule_state("g_schedule", self.g_schedule))
        arrays.update(self.clipper.state())
        if self.tables is not None:
            arrays["tables"] = self.tables.columns.numpy().copy()
            arrays["table_figures"] = np.array([self.tables.joint, self.tables.total], np.float64)
        return arrays

    def restore(self, state: states.State) -> None:
        """The inverse of `state`."""
        self.labels = states.tensor(state["labels"])
        self.random.set_state(states.tensor(state["random"]))
        self.generator_loss, self.units = float(state["figures"][0]), int(state["figures"][1]) or None
        for name in MODULES:
            states.restore_module(name, getattr(self, name), state)
        states.restore_optimizer("g_optimizer", self.g_optimizer, state)
        states.restore_optimizer("d_optimizer", self.d_optimizer, state)
        states.restore_schedule("g_schedule", self.g_schedule, state)
        self.clipper.restore(state)
        if "tables" in state:
            joint, total = (float(value) for value in state["table_figures"])
            columns = states.tensor(state["tables"])
            self.tables = Tables(columns=columns, labels=self.labels, joint=bool(joint), total=total)
