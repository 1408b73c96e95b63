"""Kernel teachers of images: they say through a kernel where records differ from pictures of class Gaussians; a network follows.

No published algorithm: `kernel_teachers`, but it starts at class Gaussians and learns what to add to their pictures
(`images/image_kernel_rounds.py`). The rounds are those of `adversarial/kernel_rounds.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial.kernel_rounds import KernelSettings, Rounds, units_of
from synthdp.generators.images import image_generator_network
from synthdp.generators.images.image_generator_network import ImageGeneratorNetwork
from synthdp.generators.images.image_kernel_rounds import MomentMatchingNetwork, pictures
from synthdp.generators.kernel_teachers import MOST_POWER
from synthdp.generators.parts import devices
from synthdp.generators.parts.table_networks import random
from synthdp.ledger.events import Entry, Plan
from synthdp.options import fraction, option, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

RECORDS = 4  # of a teacher


@dataclass(frozen=True, kw_only=True)
class KernelTeachersImages(KernelSettings):
    """Settings of the kernel teachers of images."""

    name: ClassVar[str] = "kernel_teachers_images"
    traits: ClassVar[Traits] = Traits(kinds=("images",))
    records: ClassVar[int] = RECORDS
    # What the networks that retouch pictures go by: see `image_generator_network.Settings`.
    architecture: ClassVar[str] = "basis"
    start: ClassVar[str] = "gauss"
    latent: ClassVar[int] = 32  # drawn, and not read

    teachers: int | None = option(None, f"number of teachers; default: units / {RECORDS}", whole())
    queries: int = option(1000, "generated pictures that teachers judge in a round", whole())
    steps: int = option(500, "generator steps in a round", whole())
    tables: float = option(0.8, "share of the precision spent on the class Gaussians, in (0, 1)", fraction())
    degree: int = option(3, "degree of the polynomials in pictures' coefficients", whole(most=MOST_POWER))

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the network that retouches pictures."""
        return self.hidden

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, all of it together one Gaussian; then one Gaussian vote a round."""
        start = image_generator_network.plan(self, schema, self.table_noise(noise))
        return (*start, Entry(self.vote(noise), self.rounds))

    def drowned(self, schema: Schema, noise: float) -> float:
        """That of the start."""
        return image_generator_network.starter(self).drowned(schema, self.table_noise(noise))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The answers of class Gaussians, then rounds of answers and learning."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        network = ImageGeneratorNetwork(
            self, data.codec, self.label(schema), self.rounds * self.steps, random(seed), device
        )
        saved = data.restored()
        if saved is None:
            image_generator_network.begin(data, self, network, self.table_noise(noise))
        matching = MomentMatchingNetwork(network, self.student_weight)
        rounds = Rounds(
            self,
            data,
            noise,
            matching,
            lambda: pictures(network, self.degree, saved),
            lambda: units_of(data, None),
            saved,
            progress,
        )
        rounds.run()
        return matching.finish(rounds.student())

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights, the label's distribution, and the start's arrays."""
        return image_generator_network.restored(self, schema, tensors, self.label(schema))


GENERATOR = KernelTeachersImages
