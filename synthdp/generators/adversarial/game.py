"""The adversarial game of the DP-GAN: noisy discriminator steps, exact generator steps, and what a stopped game goes on from."""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.generators import Model
from synthdp.generators.adversarial import clipping_strategies, gan_settings
from synthdp.generators.adversarial.clipping_strategies import Clipper
from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.images import image_player
from synthdp.generators.images.image_networks import Critic
from synthdp.generators.images.image_player import ImagePlayer, lens_of
from synthdp.generators.parts import noisy_tables, training_state
from synthdp.generators.parts.gan_model import NetworkModel
from synthdp.generators.parts.table_networks import Discriminator, average
from synthdp.generators.parts.training_state import OPTIMIZERS
from synthdp.seal import Sensitive

if TYPE_CHECKING:
    from synthdp.generators.dpgan import DPGAN, Terms

CPU = torch.device("cpu")
RECENTRE_EVERY = 10
MODULES = ("d", "d_average")


class Game:
    """The state of one training: the generator's side, a discriminator, its average and its optimiser; networks on the `device`."""

    def __init__(
        self,
        settings: "DPGAN",
        data: Sensitive,
        terms: "Terms",
        generator: torch.Generator,
        device: torch.device = CPU,
    ) -> None:
        schema, codec = data.schema, data.codec
        self.settings = gan_settings.settled(settings, schema)
        self.data, self.terms = data, terms
        self.units = schema.units if isinstance(schema.units, int) else None
        label, steps = settings.label(schema), self.settings.steps // self.settings.generator_every
        self.player: Player | ImagePlayer
        self.d: Discriminator | Critic
        self.loss: clipping_strategies.Loss
        if schema.image is None:
            self.player = Player(self.settings, codec, label, steps, generator, device)
            self.d = Discriminator(self.player.blocks.width, self.settings.hidden, len(codec.sizes), generator)
            self.d = self.d.to(device)
            self.loss = clipping_strategies.Linear(self.settings.penalty)
        else:
            self.player = ImagePlayer(self.settings, codec, label, steps, generator, device)
            canvas, convolutional = self.player.canvas, self.settings.architecture == "conv"
            self.d = Critic(canvas, convolutional, self.settings.hidden, lens_of(self.settings, canvas), generator)
            self.d = self.d.to(device)
            self.loss = clipping_strategies.Logistic(self.settings.penalty)
        self.d_average = copy.deepcopy(self.d)
        self.clipper = Clipper(self.settings, self.d, terms.noise, terms.count_deviation)
        self.d_optimizer = OPTIMIZERS[self.settings.optimizer](
            self.d.parameters(), self.settings.discriminator_rate, self.settings.momentum
        )

    def start(self) -> None:
        """Ask for the tables or the class Gaussians, and begin at them."""
        if self.settings.start == "none":
            return
        if isinstance(self.player, ImagePlayer):
            image_player.begin(self.data, self.settings, self.player, self.terms.table_noise)
            for network in (self.d, self.d_average):
                if isinstance(network, Critic) and network.lens is not None:
                    network.focus(self.player.g.get_buffer("lens"))
            return
        tables = noisy_tables.ask(
            self.data,
            self.player.blocks,
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
        fakes = self.player.fake_rows(settings.fake_batch)
        if step % RECENTRE_EVERY == 0:
            self.d.recentre(fakes, 1.0 if step == 0 else 0.3, self.d_average)  # type: ignore[arg-type]
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
        """One per record: the only place where records pass."""
        scores: Tensor = module(self.player.rows(codes))
        return self.loss.real(scores)

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
        if isinstance(self.d, Critic):
            critic = self.d
            smoothing = self.loss.smoothing(lambda: critic.steepness(rows))
            if smoothing is not None:
                torch.autograd.backward(smoothing)

    def expected_batch(self) -> float:
        """The public divisor: rate x units, declared, bought, or the noisy total of the tables."""
        return max(1.0, self.terms.rate * (self.units or 1))

    def generator_step(self, step: int) -> None:
        """Descend on -D of generated rows, and on what else holds the player."""
        self.player.step(lambda rows, _: -self.d_average(rows).mean(), step)

    def finish(self) -> Model:
        """The model of the generator that is kept."""
        player = self.player
        if isinstance(player, ImagePlayer):
            return player.finish()
        return NetworkModel(self.data.schema, player.finish(), player.labels, player.label, self.settings.latent)

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new game of the same settings goes on from there."""
        arrays = {**self.player.state(), "units": np.array([self.units or 0], np.float64)}
        for name in MODULES:
            arrays.update(training_state.module_state(name, getattr(self, name)))
        arrays.update(training_state.optimizer_state("d_optimizer", self.d_optimizer))
        arrays.update(self.clipper.state())
        return arrays

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)
        self.units = int(state["units"][0]) or None
        for name in MODULES:
            training_state.restore_module(name, getattr(self, name), state)
        training_state.restore_optimizer("d_optimizer", self.d_optimizer, state)
        self.clipper.restore(state)
