"""Kernel teachers: parts of the records say, through a kernel, where they differ from generated rows; a network follows.

No published algorithm. It grew out of PATE-GAN (Jordon, Yoon & van der Schaar 2019; see `pategan`), but its teachers and its
student are no networks:

- A teacher is a part of the records, and nothing is trained on it. It compares the mean embedding of its records with that of
  generated rows: the witness function (Gretton et al. 2012, section 2.3), clipped as one vector over all queries of a round.
- The mean over teachers comes out with Gaussian noise: one Gaussian mechanism a round.
- The student is a Gaussian process on all noisy answers; the generator descends on the distance from what it learnt
  (`adversarial/kernel_rounds.py`).
- The generator starts at noisy tables of label and column, or at the fit of `mixture`; either costs half of the precision.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import table_generator_network
from synthdp.generators.adversarial.kernel_rounds import KernelSettings, Rounds, units_of
from synthdp.generators.adversarial.pair_kernel import ORDERED, Interactions, distance, learnt
from synthdp.generators.adversarial.table_generator_network import (
    Judgement,
    TableGeneratorNetwork,
    features_of,
    start_option,
)
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import NetworkModel, restored
from synthdp.generators.parts.setting_checks import refuse_ignored
from synthdp.generators.parts.table_networks import WIDTH, random
from synthdp.ledger.events import Entry, Plan
from synthdp.options import fraction, not_negative, option, positive, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Kernel, Sensitive

RECORDS = 8  # of a teacher
MOST_POWER = 10  # of polynomials: beyond it they overflow
MOST_FEATURES, MOST_DEGREE = 128, 4  # of ordered columns


@dataclass(frozen=True, kw_only=True)
class KernelTeachers(KernelSettings):
    """Settings of the kernel teachers."""

    name: ClassVar[str] = "kernel_teachers"
    traits: ClassVar[Traits] = Traits(chooses=True)
    records: ClassVar[int] = RECORDS

    teachers: int | None = option(None, f"number of teachers; default: units / {RECORDS}", whole())
    queries: int = option(2000, "generated rows that teachers judge in a round", whole())
    steps: int = option(1000, "generator steps in a round", whole())
    start: str = start_option("label")
    tables: float = option(0.5, "share of the precision spent on the start, in (0, 1)", fraction())
    latent: int = option(32, "latent values per row", WIDTH)
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())
    degree: int | None = option(
        None,
        f"degree of the polynomials in ordered columns; default: {MOST_DEGREE}, less where there are more than "
        f"{MOST_FEATURES // MOST_DEGREE} such columns",
        whole(most=MOST_POWER),
    )
    rare_floor: float = option(
        0.02, "a category rarer than this share gets no more weight than one of this share", fraction()
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_ignored(self, ("tables", "table_weight") if self.start == "none" else (), "generator.start=none")

    @property
    def tells_units(self) -> bool:
        """Tables have a noisy total."""
        return self.start != "none"

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, which costs as much as one Gaussian; then one Gaussian vote a round."""
        start = table_generator_network.plan(self.start, schema, self.table_noise(noise))
        return (*start, Entry(self.vote(noise), self.rounds))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then rounds of answers and learning; the biases are made to agree with the noisy tables once more."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        label = self.label(schema)
        network = TableGeneratorNetwork(self, data.codec, label, self.rounds * self.steps, random(seed), device)
        saved = data.restored()
        if saved is None:
            table_generator_network.begin(data, self.start, network, self.table_noise(noise))
        rounds = Rounds(
            self,
            data,
            noise,
            network,
            lambda: space_of(self, data, network),
            lambda: units_of(data, network.tables),
            saved,
            progress,
        )
        rounds.run()
        return NetworkModel(schema, network.finish(), network.labels, label, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        return restored(self, schema, tensors, self.label(schema), mixed=self.start == "mixture")


@dataclass(frozen=True)
class Columns:
    """The `Space` of tables. `weight`: of the student in the generator's loss, which is computed on the `device`. Teachers, and so
    the kernel, stay on the CPU: what they answer must have the same bits wherever a record lies (`seal.teachers.mean_embeddings.py`)."""

    space: Interactions
    weight: float
    device: torch.device

    @property
    def kernel(self) -> Kernel:
        """Of codes."""
        return self.space.kernel

    def student(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> Judgement:
        """The distance of generated rows' mean interactions from those that the student learnt."""
        taught = learnt(self.space, codes, answers, deviations, self.device)
        there = self.space.to(self.device)
        return lambda rows, label: distance(there, rows, label.argmax(1), taught) * self.weight

    def state(self) -> training_state.Arrays:
        """It follows from the network's."""
        return {}


def space_of(settings: KernelTeachers, data: Sensitive, network: TableGeneratorNetwork) -> Columns:
    """The features of the noisy tables, in polynomials of a lower degree where many columns stand in order."""
    ordered = sum(column.kind in ORDERED for column in data.schema.coded)
    degree = settings.degree or max(1, min(MOST_DEGREE, MOST_FEATURES // max(1, ordered)))
    found = features_of(network, data.schema, degree=degree, floor=settings.rare_floor)
    return Columns(found, settings.student_weight, network.device)


GENERATOR = KernelTeachers
