"""DP-GAN: a generative adversarial network whose discriminator sees records through DP-SGD (Xie et al. 2018).

A row is one one-hot block per column. The generator is conditional on a label column and starts at noisy tables (label x
column). The discriminator minimises E_real[-D] + E_fake[D + penalty D^2 / 2]; only its real half touches records, so only that half
is clipped and noised (law 14): generated rows and their labels are functions of earlier noisy answers. Many
discriminator steps per generator step and averaged weights follow Bie, Kamath & Zhang 2023.

`adversarial/game.py` holds the options and the game that it shares with `dpgan_images`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from synthdp.generators import Model, Tensors, Traits
from synthdp.generators.adversarial import table_generator_network
from synthdp.generators.adversarial.clipping_strategies import Linear
from synthdp.generators.adversarial.game import CPU, Game, GanSettings, Terms
from synthdp.generators.adversarial.table_generator_network import TableGeneratorNetwork, start_option, tables_option
from synthdp.generators.parts.gan_model import NetworkModel, restored
from synthdp.generators.parts.setting_checks import refuse_ignored
from synthdp.generators.parts.table_networks import WIDTH, Discriminator
from synthdp.ledger.events import Plan
from synthdp.options import not_negative, option, positive, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

SHARES = {"mixture": 0.5, "label": 0.25, "columns": 0.25}  # of the precision, for the start


@dataclass(frozen=True, kw_only=True)
class DPGAN(GanSettings):
    """Settings of the DP-GAN."""

    name: ClassVar[str] = "dpgan"
    traits: ClassVar[Traits] = Traits(chooses=True)

    steps: int = option(3000, "discriminator steps, each charged as one sample", whole())
    batch: int = option(384, "expected units per sample, so that the rate is batch / units", whole(most=10**9))
    start: str = start_option("mixture")
    tables: float | None = tables_option(SHARES)
    hidden: tuple[int, ...] = option((128, 128), "widths of the hidden layers of both networks", several(WIDTH, 1))
    latent: int = option(32, "latent values per row", WIDTH)
    penalty: float = option(
        5.0, "weight of the squared scores of generated rows, which keeps the discriminator bounded", not_negative()
    )
    weight_clip: float | None = option(
        None,
        "bound on each weight of the discriminator, kept after every step (Arjovsky et al. 2017); with penalty=0 and start=none this is "
        "the DPGAN of Xie et al. 2018, also known as DP-WGAN",
        positive(),
    )
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_ignored(self, ("table_weight",) if self.start == "none" else (), "generator.start=none")

    @property
    def tells_units(self) -> bool:
        """Tables have a noisy total."""
        return self.start != "none"

    @property
    def start_share(self) -> float:
        """`tables`, or the default of this start."""
        return SHARES[self.start] if self.tables is None else self.tables

    def starting(self, schema: Schema, noise: float) -> Plan:
        """What the start asks."""
        return table_generator_network.plan(self.start, schema, noise)

    def game(
        self, data: Sensitive, terms: Terms, generator: torch.Generator, device: torch.device = CPU
    ) -> "TableGame":
        """On one-hot rows."""
        return TableGame(self, data, terms, generator, device)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        return restored(self, schema, tensors, self.label(schema), mixed=self.start == "mixture")


class TableGame(Game):
    """On one-hot rows, from noisy tables."""

    network: TableGeneratorNetwork

    def __init__(
        self, settings: DPGAN, data: Sensitive, terms: Terms, generator: torch.Generator, device: torch.device
    ) -> None:
        steps, label = settings.steps // settings.generator_every, settings.label(data.schema)
        network = TableGeneratorNetwork(settings, data.codec, label, steps, generator, device)
        d = Discriminator(network.blocks.width, settings.hidden, len(data.codec.sizes), generator).to(device)
        super().__init__(settings, data, terms, network, d, Linear(settings.penalty), settings.weight_clip)

    def start(self) -> None:
        """Ask for the tables, and begin at them."""
        network = self.network
        table_generator_network.begin(self.data, self.settings.start, network, self.terms.table_noise)
        if self.units is None and network.tables is not None:
            self.units = round(network.tables.total)

    def finish(self) -> NetworkModel:
        """The model of the generator that is kept; its biases are made to agree with the noisy tables once more."""
        network = self.network
        return NetworkModel(self.data.schema, network.finish(), network.labels, network.label, self.settings.latent)


GENERATOR = DPGAN
