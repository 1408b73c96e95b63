"""The adversarial game of the DP-GAN: noisy discriminator steps, exact generator steps, and what a stopped game goes on from."""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.generators import states
from synthdp.generators import tables as noisy_tables
from synthdp.generators.networks import Discriminator, Network, average
from synthdp.generators.optimizers import OPTIMIZERS
from synthdp.generators.player import Player
from synthdp.generators.strategies import Clipper
from synthdp.privacy.sensitive import Sensitive

if TYPE_CHECKING:
    from synthdp.generators.dpgan import DPGAN, Terms

RECENTRE_EVERY = 10
STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient
MODULES = ("d", "d_average")


class Game:
    """The state of one training: the generator's side, a discriminator, its average and its optimiser."""

    def __init__(self, settings: "DPGAN", data: Sensitive, terms: "Terms", generator: torch.Generator) -> None:
        self.settings, self.data, self.terms = settings, data, terms
        schema = data.schema
        self.units = schema.units if isinstance(schema.units, int) else None
        codec = data.codec
        self.player = Player(
            settings, codec, settings.label(schema), settings.steps // settings.generator_every, generator
        )
        self.blocks = self.player.blocks
        self.d = Discriminator(self.blocks.width, settings.hidden, len(codec.sizes), generator)
        self.d_average = copy.deepcopy(self.d)
        self.clipper = Clipper(settings, self.d, terms.noise, terms.count_deviation)
        self.d_optimizer = OPTIMIZERS[settings.optimizer](
            self.d.parameters(), settings.discriminator_rate, settings.momentum
        )

    def start(self) -> None:
        """Ask for the tables; the generator's biases begin at their logarithms."""
        if self.settings.start == "none":
            return
        tables = noisy_tables.ask(
            self.data,
            self.blocks,
            self.player.label,
            self.settings.start,
            self.player.labels,
            self.terms.table_noise,
        )
        self.player.start(tables)
        if self.units is None:
            self.units = round(tables.total)

    def discriminator_step(self, step: int) -> None:
        """One noisy step: the real half through the seal, the fake half exactly."""
        settings = self.settings
        fakes = self.blocks.one_hot(self.player.fakes(settings.fake_batch))
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
        self.player.step(lambda rows, _: -self.d_average(rows).mean(), step)

    def finish(self) -> Network:
        """The generator that is kept."""
        return self.player.finish()

    def state(self) -> states.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new game of the same settings goes on from there."""
        arrays = {**self.player.state(), "units": np.array([self.units or 0], np.float64)}
        for name in MODULES:
            arrays.update(states.module_state(name, getattr(self, name)))
        arrays.update(states.optimizer_state("d_optimizer", self.d_optimizer))
        arrays.update(self.clipper.state())
        return arrays

    def restore(self, state: states.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)
        self.units = int(state["units"][0]) or None
        for name in MODULES:
            states.restore_module(name, getattr(self, name), state)
        states.restore_optimizer("d_optimizer", self.d_optimizer, state)
        self.clipper.restore(state)
