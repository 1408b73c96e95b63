"""The rounds of `kernel_teachers`: teachers' margins on generated rows, a student who keeps them all, a generator that follows.

Round by round the generator draws rows, every teacher says how much rather it would see them among its own records, and the
mean of the clipped answers comes out with Gaussian noise: an unbiased evaluation of the witness function at these rows. What
generated rows contribute to it is public, so each answer, less that, tells of the records alone, whatever generator asked;
none grows old, and the student learns from all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from synthdp.generators import Progress
from synthdp.generators.adversarial.pair_kernel import ORDERED, Interactions, distance, interactions, learnt
from synthdp.generators.adversarial.table_player import Judgement, Player
from synthdp.generators.parts import training_state
from synthdp.generators.parts.noisy_tables import Tables
from synthdp.seal import Kernel, Shares, Witness, against

if TYPE_CHECKING:
    from synthdp.generators.kernel_teachers import KernelTeachers
    from synthdp.seal import Sensitive

GENERATED, LEAST_GENERATED, MOST_GENERATED = 2, 1024, 4096  # rows to compare records with, per query; bounds on all
MOCK_TEACHERS = 256  # of generated rows, from which the clip is read off
SHOW_EVERY = 25
MOST_FEATURES, MOST_DEGREE = 128, 4  # of ordered columns


class Learner(Protocol):
    """Who generates, and learns lessons of some kind."""

    @property
    def loss(self) -> float: ...
    def fakes(self, rows: int) -> Tensor: ...
    def step(self, judged: Any, step: int) -> None: ...
    def state(self) -> training_state.Arrays: ...
    def restore(self, state: training_state.State) -> None: ...


class Space(Protocol):
    """What rows are compared by, and the student, who turns all answers into what a learner takes for a lesson."""

    @property
    def kernel(self) -> Kernel: ...
    def lesson(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> Any: ...
    def state(self) -> training_state.Arrays: ...


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

    def lesson(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> Judgement:
        """The distance of generated rows' mean interactions from those that the student learnt."""
        taught = learnt(self.space, codes, answers, deviations, self.device)
        there = self.space.to(self.device)
        return lambda rows, label: distance(there, rows, label.argmax(1), taught) * self.weight

    def state(self) -> training_state.Arrays:
        """It follows from the player's."""
        return {}


class Rounds:
    """The state of one training. `spaced` gives the space once the player is where it begins, or goes on."""

    def __init__(
        self,
        settings: "KernelTeachers",
        data: "Sensitive",
        noise: float,
        player: Learner,
        spaced: Callable[[], Space],
        units: Callable[[], float],
        saved: training_state.State | None,
        progress: Progress,
    ) -> None:
        self.settings, self.data, self.player, self.noise = settings, data, player, noise
        self.learnt_rounds = 0
        self.progress = progress
        self.codes = torch.zeros((0, len(data.codec.sizes)), dtype=torch.int64)
        self.answers = torch.zeros(0, dtype=torch.float64)
        self.deviations = torch.zeros(0, dtype=torch.float64)
        if saved is not None:
            self.restore(saved)
        self.units, self.space = units(), spaced()
        self.teachers = data.partition(settings.teachers_of(self.units), Witness(kernel=self.space.kernel))

    def step(self, number: int) -> None:
        """Ask, keep the answer, learn, follow."""
        self._ask()
        self.data.keep(number, self.state)
        self._learn()

    def catch_up(self, rounds: int) -> None:
        """Learn for so many rounds in all: what a stopped fit had left to do, or, where answers were lost, again from those
        that there are."""
        while self.learnt_rounds < rounds and len(self.answers):
            self._learn()

    def asked(self) -> int:
        """Rounds whose answers there are."""
        return len(self.answers) // self.settings.queries_a_round

    def taught(self) -> Any:
        """By all answers that there are."""
        return self.space.lesson(self.codes, self.answers, self.deviations)

    def _learn(self) -> None:
        lesson = self.taught()
        steps = int(self.settings.steps or 1)
        total = self.settings.total_rounds * steps
        first = self.learnt_rounds * steps
        for step in range(first, first + steps):
            self.player.step(lesson, step)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == total:
                self.progress(step + 1, total, {"generator loss": self.player.loss})
        self.learnt_rounds += 1

    def _ask(self) -> None:
        """One noisy evaluation of the witness function at freshly generated rows."""
        queries = self.player.fakes(self.settings.queries_a_round).cpu()
        generated = self.player.fakes(min(max(GENERATED * len(queries), LEAST_GENERATED), MOST_GENERATED)).cpu()
        mean, deviation = against(self.space.kernel, generated, queries)
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
        return {
            **self.player.state(),
            **self.space.state(),
            "lesson_rounds": np.array([self.learnt_rounds]),
            "lesson_codes": self.codes.numpy().copy(),
            "lesson_answers": self.answers.numpy().copy(),
            "lesson_deviations": self.deviations.numpy().copy(),
        }

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)
        self.learnt_rounds = int(state["lesson_rounds"][0])
        self.codes = training_state.tensor(np.asarray(state["lesson_codes"]))
        self.answers = training_state.tensor(np.asarray(state["lesson_answers"]))
        self.deviations = training_state.tensor(np.asarray(state["lesson_deviations"]))


def units_of(data: "Sensitive", tables: Tables | None) -> float:
    """Declared or bought, or else the noisy total of the tables."""
    if isinstance(data.schema.units, int):
        return data.schema.units
    return 1.0 if tables is None else tables.total


def space_of(settings: "KernelTeachers", data: "Sensitive", player: Player) -> Columns:
    """The features of the noisy tables; of even tables where none were asked for."""
    blocks, tables = player.blocks, player.tables
    even = torch.cat([torch.full((size,), 1 / size) for size in blocks.sizes]).expand(len(player.labels), -1)
    columns = even if tables is None else tables.columns.cpu()
    ordered = sum(column.kind in ORDERED for column in data.schema.coded)
    degree = settings.degree or max(1, min(MOST_DEGREE, MOST_FEATURES // max(1, ordered)))
    found = interactions(
        data.schema, blocks, player.label, columns, player.labels, degree=degree, floor=settings.rare_floor
    )
    return Columns(found, settings.witness_weight, player.device)
