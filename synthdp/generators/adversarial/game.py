"""The adversarial game of the DP-GAN: noisy discriminator steps, exact generator steps, and what a stopped game goes on from."""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.generators.adversarial import clipping_strategies
from synthdp.generators.adversarial.clipping_strategies import Clipper
from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.images import image_player
from synthdp.generators.images.image_networks import Critic
from synthdp.generators.images.image_player import ImagePlayer, lens_of
from synthdp.generators.parts import noisy_tables, training_state
from synthdp.generators.parts.gan_model import NetworkModel
from synthdp.generators.parts.table_networks import Discriminator, average
from synthdp.generators.parts.training_state import OPTIMIZERS

if TYPE_CHECKING:
    from synthdp.generators.adversarial.gan_settings import Settings
    from synthdp.generators.dpgan import Terms
    from synthdp.seal import Sensitive

CPU = torch.device("cpu")
RECENTRE_EVERY = 10
MODULES = ("d", "d_average")


class Game:
    """The state of one training: the generator's side, a discriminator, its average and its optimiser; networks on the `device`."""

    def __init__(
        self,
        settings: "Settings",
        data: "Sensitive",
        terms: "Terms",
        player: Player | ImagePlayer,
        d: Discriminator | Critic,
        loss: clipping_strategies.Loss,
    ) -> None:
        self.settings, self.data, self.terms = settings, data, terms
        self.units = data.schema.units if isinstance(data.schema.units, int) else None
        self.player, self.d, self.loss = player, d, loss
        self.d_average = copy.deepcopy(d)
        self.clipper = Clipper(settings, d, terms.noise, terms.count_deviation)
        self.d_optimizer = OPTIMIZERS[settings.optimizer](
            d.parameters(), settings.discriminator_rate, settings.momentum
        )

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
        if settings.weight_clip is not None:
            with torch.no_grad():
                for parameter in self.d.parameters():
                    parameter.clamp_(-settings.weight_clip, settings.weight_clip)
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

    def expected_batch(self) -> float:
        """The public divisor: rate x units, declared, bought, or the noisy total of the tables."""
        return max(1.0, self.terms.rate * (self.units or 1))

    def generator_step(self, step: int) -> None:
        """Descend on -D of generated rows, and on what else holds the player."""
        self.player.step(lambda rows, _: -self.d_average(rows).mean(), step)

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


class TableGame(Game):
    """On one-hot rows, from noisy tables."""

    player: Player

    def __init__(
        self,
        settings: "Settings",
        label: int | None,
        data: "Sensitive",
        terms: "Terms",
        generator: torch.Generator,
        device: torch.device = CPU,
    ) -> None:
        steps = settings.steps // settings.generator_every
        player = Player(settings, data.codec, label, steps, generator, device)
        d = Discriminator(player.blocks.width, settings.hidden, len(data.codec.sizes), generator).to(device)
        super().__init__(settings, data, terms, player, d, clipping_strategies.Linear(settings.penalty))

    def start(self) -> None:
        """Ask for the tables, and begin at them."""
        if self.settings.start == "none":
            return
        player, noise = self.player, self.terms.table_noise
        tables = noisy_tables.ask(self.data, player.blocks, player.label, self.settings.start, player.labels, noise)
        player.start(tables)
        if self.units is None:
            self.units = round(tables.total)

    def finish(self) -> NetworkModel:
        """The model of the generator that is kept; its biases are made to agree with the noisy tables once more."""
        player = self.player
        return NetworkModel(self.data.schema, player.finish(), player.labels, player.label, self.settings.latent)


class ImageGame(Game):
    """On pictures, from class Gaussians."""

    player: ImagePlayer
    d: Critic
    d_average: Critic

    def __init__(
        self,
        settings: "Settings",
        label: int | None,
        data: "Sensitive",
        terms: "Terms",
        generator: torch.Generator,
        device: torch.device = CPU,
    ) -> None:
        steps = settings.steps // settings.generator_every
        player = ImagePlayer(settings, data.codec, label, steps, generator, device)
        canvas, convolutional = player.canvas, settings.architecture == "conv"
        d = Critic(canvas, convolutional, settings.hidden, lens_of(settings, canvas), generator).to(device)
        super().__init__(settings, data, terms, player, d, clipping_strategies.Logistic())

    def start(self) -> None:
        """Ask for the class Gaussians, and begin at them."""
        if self.settings.start == "none":
            return
        image_player.begin(self.data, self.settings, self.player, self.terms.table_noise)
        for network in (self.d, self.d_average):
            if network.lens is not None:
                network.focus(self.player.g.get_buffer("lens"))

    def fake_gradient(self, rows: Tensor) -> None:
        """With the penalty on the squared gradients of D by its input, at generated pictures alone (R2 of Mescheder, Geiger & Nowozin
        2018)."""
        super().fake_gradient(rows)
        if self.settings.penalty > 0:
            torch.autograd.backward(self.settings.penalty / 2 * self.d.steepness(rows).mean())

    def finish(self) -> image_player.ImageModel:
        """The model of the generator that is kept."""
        return self.player.finish()
