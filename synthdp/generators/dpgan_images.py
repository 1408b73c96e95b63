"""DP-GAN of images: pictures of class Gaussians, which a network retouches in a game (Torkzadehmahani, Kairouz & Paten 2019).

They condition on labels, as this one does. The generator starts at class Gaussians and learns what is to be added to their
pictures; `images/image_networks.py` has the networks. The discriminator's loss is the logistic one, with the penalty on its squared
gradients at generated pictures alone (law 14).

`adversarial/game.py` holds the options and the game that it shares with `dpgan`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from synthdp.errors import BadInput
from synthdp.generators import Model, Tensors, Traits
from synthdp.generators.adversarial.clipping_strategies import Logistic
from synthdp.generators.adversarial.game import CPU, Game, GanSettings, Terms
from synthdp.generators.images import image_generator_network
from synthdp.generators.images.image_generator_network import ImageGeneratorNetwork, lens_of
from synthdp.generators.images.image_networks import Critic
from synthdp.generators.parts.gan_model import MOST_LABELS, surely_label
from synthdp.generators.parts.setting_checks import refuse_ignored, refuse_unused
from synthdp.generators.parts.table_networks import WIDTH
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan
from synthdp.options import fraction, not_negative, one_of, option, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

ARCHITECTURES = {
    "basis": "linear layers on coefficients along principal axes of the start",
    "mlp": "linear layers on pixels (Waites 2019, with hidden=512,256)",
    "conv": "convolutions of stride 2",
}


@dataclass(frozen=True, kw_only=True)
class DPGANImages(GanSettings):
    """Settings of the DP-GAN of images."""

    name: ClassVar[str] = "dpgan_images"
    traits: ClassVar[Traits] = Traits(kinds=("images",))

    steps: int = option(300, "largest number of discriminator steps, each charged as one sample", whole())
    passes: int = option(
        25,
        "largest number of passes over the records: with few records, a longer game moves too far from its start",
        whole(),
    )
    batch: int = option(2048, "expected units per sample, so that the rate is batch / units", whole(most=10**9))
    start: str = option(
        "gauss",
        "noisy answers to start from: gauss (those of classgauss, whose pictures are retouched), label (its counts) or none",
        one_of(*image_generator_network.STARTS),
    )
    tables: float = option(0.8, "share of the precision spent on the start, in (0, 1)", fraction())
    architecture: str = option(
        "basis", "; ".join(f"{name}: {meaning}" for name, meaning in ARCHITECTURES.items()), one_of(*ARCHITECTURES)
    )
    hidden: tuple[int, ...] = option(
        (128, 128), "basis and mlp: widths of the hidden layers of both networks", several(WIDTH, 1)
    )
    channels: tuple[int, ...] = option(
        (16, 32), "conv: channels of the hidden layers of both networks", several(WIDTH, 1)
    )
    latent: int = option(32, "latent values per picture, with start=label or none", WIDTH)
    penalty: float = option(
        0.1,
        "weight of the squared gradients of the scores at generated pictures, which keeps the discriminator bounded",
        not_negative(),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unused(self, "architecture", {"channels": "conv"})
        if self.architecture == "conv":
            refuse_ignored(self, ("hidden",), "generator.architecture=conv, whose layers have generator.channels")
        if self.start == "gauss":
            refuse_ignored(self, ("latent",), "generator.start=gauss, whose pictures are what the network is given")
        elif self.architecture == "basis":
            raise BadInput(
                f"generator.architecture=basis sees pictures along the axes of start=gauss, and start is {self.start}: "
                "choose architecture=conv or mlp"
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the discriminator's hidden layers."""
        return self.channels if self.architecture == "conv" else self.hidden

    @property
    def start_share(self) -> float:
        """`tables`."""
        return self.tables

    def steps_on(self, schema: Schema) -> int:
        """`steps`, but at most `passes` over the records."""
        rate = self.rate
        if rate is None and isinstance(schema.units, int):
            rate = min(1.0, self.batch / max(1, schema.units))
        return self.steps if rate is None else min(self.steps, max(1, round(self.passes / rate)))

    def validate(self, schema: Schema, budget: Budget) -> None:
        """As of tables; and the networks fit the pictures, and the start the columns."""
        super().validate(schema, budget)
        self._check_columns(schema)

    def _check_columns(self, schema: Schema) -> None:
        image = schema.image
        least = 2 ** len(self.channels)
        if image is not None and self.architecture == "conv" and min(image.height, image.width) < least:
            raise BadInput(
                f"generator.channels: {len(self.channels)} convolutions need pictures of {least} x {least} pixels or more"
            )
        label = surely_label(self.condition, schema)
        if self.start == "label" and label is None:
            raise BadInput(
                "generator.start=label needs a label column: name it by generator.condition or, where its categories are declared "
                f"and at most {MOST_LABELS}, by targets; or choose start=none"
            )
        names = [column.name for column in schema.coded if column.kind != "image" and column.name != label]
        if self.start != "gauss" and names:
            raise BadInput(
                f"generator.start={self.start} learns the image and its label alone, and the schema also has "
                f"{', '.join(names)}: leave columns out, name the label by generator.condition, or start=gauss, which models all"
            )

    def starting(self, schema: Schema, noise: float) -> Plan:
        """The answers of class Gaussians, the label's counts, or nothing."""
        return image_generator_network.plan(self, schema, noise)

    def drowned(self, schema: Schema, noise: float) -> float:
        """That of the start, if it is class Gaussians; otherwise 0."""
        if self.start != "gauss":
            return 0.0
        return image_generator_network.starter(self).drowned(schema, self.terms(schema, noise).table_noise)

    def game(
        self, data: Sensitive, terms: Terms, generator: torch.Generator, device: torch.device = CPU
    ) -> "ImageGame":
        """On pictures."""
        return ImageGame(self, data, terms, generator, device)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights, the label's distribution, and the start's arrays."""
        self._check_columns(schema)
        return image_generator_network.restored(self, schema, tensors, self.label(schema))


class ImageGame(Game):
    """On pictures, from class Gaussians."""

    settings: DPGANImages
    network: ImageGeneratorNetwork
    d: Critic
    d_average: Critic

    def __init__(
        self, settings: DPGANImages, data: Sensitive, terms: Terms, generator: torch.Generator, device: torch.device
    ) -> None:
        steps, label = settings.steps // settings.generator_every, settings.label(data.schema)
        network = ImageGeneratorNetwork(settings, data.codec, label, steps, generator, device)
        layout, convolutional = network.layout, settings.architecture == "conv"
        d = Critic(layout, convolutional, settings.widths, lens_of(settings, layout), generator).to(device)
        super().__init__(settings, data, terms, network, d, Logistic())

    def start(self) -> None:
        """Ask for the class Gaussians, and begin at them."""
        if self.settings.start == "none":
            return
        image_generator_network.begin(self.data, self.settings, self.network, self.terms.table_noise)
        for network in (self.d, self.d_average):
            if network.lens is not None:
                network.focus(self.network.g.get_buffer("lens"))

    def fake_gradient(self, rows: Tensor) -> None:
        """With the penalty on the squared gradients of D by its input, at generated pictures alone (R2 of Mescheder, Geiger & Nowozin
        2018)."""
        super().fake_gradient(rows)
        if self.settings.penalty > 0:
            torch.autograd.backward(self.settings.penalty / 2 * self.d.steepness(rows).mean())

    def finish(self) -> image_generator_network.ImageModel:
        """The model of the generator that is kept."""
        return self.network.finish()


GENERATOR = DPGANImages
