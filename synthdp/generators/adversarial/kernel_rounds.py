"""What kernel teachers of tables and of images share: their settings, and the rounds.

Teachers' margins on generated rows, a student who keeps them all, a generator that follows.

Round by round the generator draws rows, every teacher says how much rather it would see them among its own records, and the
mean of the clipped answers comes out with Gaussian noise: an unbiased evaluation of the witness function at these rows. What
generated rows contribute to it is public, so each answer, less that, tells of the records alone, whatever generator asked;
none grows old, and the student learns from all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from synthdp.errors import BadInput
from synthdp.generators import Progress, Traits
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import check_label, label_option, label_place
from synthdp.generators.parts.noisy_tables import Tables
from synthdp.generators.parts.setting_checks import check_teachers
from synthdp.generators.parts.table_networks import WIDTH
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Event
from synthdp.options import check, fraction, number, option, positive, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Kernel, MeanEmbeddings, Sensitive, Shares, public_embedding

GENERATED, LEAST_GENERATED, MOST_GENERATED = 2, 1024, 4096  # rows to compare records with, per query; bounds on all
MOCK_TEACHERS = 256  # of generated rows, from which the clip is read off
SHOW_EVERY = 25
MOST_ASKED = 20_000  # queries of a whole fit whose covariances are inverted


@dataclass(frozen=True, kw_only=True)
class KernelSettings:
    """The options that kernel teachers of tables and of images both have. Those without a default here have one of their own in each
    of them."""

    name: ClassVar[str]
    traits: ClassVar[Traits]
    records: ClassVar[int]  # of a teacher, by default: few are best, since noise falls with the number of teachers

    teachers: int | None
    rounds: int = option(2, "how often the teachers are asked", whole())
    queries: int
    steps: int
    tables: float
    condition: str | None = label_option()
    hidden: tuple[int, ...] = option((128, 128), "widths of the generator's hidden layers", several(WIDTH, 1))
    fake_batch: int = option(512, "generated records per generator step", whole())
    generator_rate: float = option(
        3e-3, "learning rate of the generator (Adam); it falls to zero along a cosine", positive(100)
    )
    average: float = option(0.99, "decay of the moving average of the generator's weights", number("[0, 1)"))
    student_weight: float = option(1.0, "weight of the student in the generator's loss", positive())
    clip_quantile: float = option(
        0.5, "share of mock teachers, on generated records, that the clip should leave unchanged", fraction()
    )
    device: str = option("auto", f"{devices.HELP}; teachers stay on the CPU", devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        if self.rounds * self.queries > MOST_ASKED:
            raise BadInput(f"generator.rounds x generator.queries must be at most {MOST_ASKED:,}")

    @property
    def tells_units(self) -> bool:
        """Whether the start gives a noisy number of units; class Gaussians do not."""
        return False

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, the number of teachers follows from something, and the device is there."""
        check_label(self.condition, schema)
        check_teachers(self.teachers, schema, f"{self.name} without tables", told=self.tells_units)
        devices.place(self.device)

    def teachers_of(self, units: float | None) -> int:
        """`teachers`, or the default for so many units (declared, bought, or the noisy total of the tables)."""
        return self.teachers or max(2, round((units or 0) / self.records))

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns."""
        return label_place(self.condition, schema)

    def vote(self, noise: float) -> Event:
        """What one round costs."""
        return Shares(noise, "margins").events(1)[0]

    def table_noise(self, noise: float) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2."""
        return float(noise / self.rounds**0.5 * ((1 - self.tables) / self.tables) ** 0.5)


class GeneratorNetwork(Protocol):
    """Generates rows, and descends on what a student of some kind tells of them."""

    @property
    def loss(self) -> float: ...
    def fakes(self, rows: int) -> Tensor: ...
    def step(self, judged: Any, step: int) -> None: ...
    def state(self) -> training_state.Arrays: ...
    def restore(self, state: training_state.State) -> None: ...


class Space(Protocol):
    """What rows are compared by; `student` learns from all answers, and is what the generator network descends on."""

    @property
    def kernel(self) -> Kernel: ...
    def student(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> Any: ...
    def state(self) -> training_state.Arrays: ...


class RoundSettings(Protocol):
    """The settings that a training in rounds reads."""

    @property
    def rounds(self) -> int: ...
    @property
    def queries(self) -> int: ...
    @property
    def steps(self) -> int: ...
    def vote(self, noise: float) -> Event: ...


class AnsweredRounds(ABC):
    """Rounds in which teachers answer, a student learns from all answers, and the generator follows it. Held: the codes that were asked
    about, noisy answers, and their deviations. `kept` are the names of the numbers and arrays in a checkpoint."""

    kept: ClassVar[tuple[str, str, str, str]]

    def __init__(
        self, settings: RoundSettings, data: Sensitive, noise: float, network: GeneratorNetwork, progress: Progress
    ) -> None:
        self.settings, self.data, self.noise, self.network, self.progress = settings, data, noise, network, progress
        self.learnt_rounds = 0
        self.codes = torch.zeros((0, len(data.codec.sizes)), dtype=torch.int64)
        self.answers = torch.zeros(0, dtype=torch.float64)
        self.deviations = torch.zeros(0, dtype=torch.float64)

    def run(self) -> None:
        """All rounds, or those that a stopped fit had left."""
        self.catch_up(self.asked)
        for step in self.data.steps(self.settings.vote(self.noise), self.settings.rounds, self.state):
            self.step(step)
        self.catch_up(self.settings.rounds)

    @property
    def asked(self) -> int:
        """Rounds whose answers there are."""
        return len(self.answers) // self.settings.queries

    def step(self, number: int) -> None:
        """Ask, keep the answer, learn, follow."""
        self.ask()
        self.data.keep(number, self.state)
        self.learn()

    def catch_up(self, rounds: int) -> None:
        """Learn for so many rounds in all: what a stopped fit had left to do, or, where answers were lost, again from those
        that there are."""
        while self.learnt_rounds < rounds and len(self.answers):
            self.learn()

    @abstractmethod
    def ask(self) -> None:
        """Put one noisy answer about freshly generated rows beside the others."""

    @abstractmethod
    def student(self) -> Any:
        """What the generator network descends on, learnt from the answers that there are."""

    def learn(self) -> None:
        """The student, and then the generator."""
        student, steps = self.student(), self.settings.steps
        total, first = self.settings.rounds * steps, self.learnt_rounds * steps
        for step in range(first, first + steps):
            self.network.step(student, step)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == total:
                self.progress(step + 1, total, {"generator loss": self.network.loss})
        self.learnt_rounds += 1

    def state(self) -> training_state.Arrays:
        """All that the next rounds depend on, beside the teachers' own."""
        arrays = (self.codes, self.answers, self.deviations)
        held = (np.array([self.learnt_rounds]), *(each.numpy().copy() for each in arrays))
        return {**self.network.state(), **dict(zip(self.kept, held, strict=True))}

    def restore(self, state: training_state.State) -> None:
        self.network.restore(state)
        rounds, *arrays = (np.asarray(state[name]) for name in self.kept)
        self.learnt_rounds = int(rounds[0])
        self.codes, self.answers, self.deviations = map(training_state.tensor, arrays)


class Rounds(AnsweredRounds):
    """The state of one training. `spaced` gives the space once the network is where it begins, or goes on."""

    kept = ("lesson_rounds", "lesson_codes", "lesson_answers", "lesson_deviations")  # as in earlier checkpoints
    settings: KernelSettings

    def __init__(
        self,
        settings: KernelSettings,
        data: Sensitive,
        noise: float,
        network: GeneratorNetwork,
        spaced: Callable[[], Space],
        units: Callable[[], float],
        saved: training_state.State | None,
        progress: Progress,
    ) -> None:
        super().__init__(settings, data, noise, network, progress)
        if saved is not None:
            self.restore(saved)
        self.units, self.space = units(), spaced()
        self.teachers = data.partition(settings.teachers_of(self.units), MeanEmbeddings(kernel=self.space.kernel))

    def student(self) -> Any:
        """Who has learnt from all answers that there are."""
        return self.space.student(self.codes, self.answers, self.deviations)

    def ask(self) -> None:
        """One noisy evaluation of the witness function at freshly generated rows."""
        queries = self.network.fakes(self.settings.queries).cpu()
        generated = self.network.fakes(min(max(GENERATED * len(queries), LEAST_GENERATED), MOST_GENERATED)).cpu()
        mean, deviation = public_embedding(self.space.kernel, generated, queries)
        shares = Shares(self.noise, "margins", self._clip(generated, queries, mean, deviation))
        self.teachers.train(generated.numpy())
        found = torch.from_numpy(self.teachers.ask(queries.numpy(), shares))
        spread = shares.deviation(len(queries), self.teachers.count)
        self.codes = torch.cat([self.codes, queries])
        self.answers = torch.cat([self.answers, found * deviation + mean])
        self.deviations = torch.cat([self.deviations, spread * deviation])

    def _clip(self, generated: Tensor, queries: Tensor, mean: Tensor, deviation: Tensor) -> float:
        """The norm that a teacher's answers would have in the middle case, if its records were generated ones: public."""
        records = max(1, round(self.units / self.teachers.count))
        count = max(1, min(MOCK_TEACHERS, len(generated) // records))
        own = self.space.kernel(generated[: count * records], queries).double()
        margins = (own.reshape(count, -1, len(queries)).mean(1) - mean) / deviation
        norm = float(margins.norm(dim=1).quantile(self.settings.clip_quantile))
        return norm if norm > 0 and math.isfinite(norm) else 1.0

    def state(self) -> training_state.Arrays:
        """All that the next rounds depend on, beside the teachers' own."""
        return {**super().state(), **self.space.state()}


def units_of(data: Sensitive, tables: Tables | None) -> float:
    """Declared or bought, or else the noisy total of the tables."""
    if isinstance(data.schema.units, int):
        return data.schema.units
    return 1.0 if tables is None else tables.total
