"""PATE-GAN as published: Jordon, Yoon & van der Schaar 2019, algorithm 1, with what it asks counted as it is.

k teachers on disjoint parts tell records from generated rows; a student, who sees generated rows alone, learns to tell them
apart from the teachers' noisy majority; the generator tries to pass the student. Each labelled row is one vote with Laplace
noise of scale 1 / gamma on both counts. Unlike the paper it stops by the bound that does not depend on the votes: how many
votes agree is the records' doing, and so is a fit's length that follows from it.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, silent
from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.parts import devices, noisy_tables, training_state
from synthdp.generators.parts.gan_model import NetworkModel, check_label, label_place, restored
from synthdp.generators.parts.noisy_tables import STARTS
from synthdp.generators.parts.setting_checks import refuse_dear, refuse_ignored
from synthdp.generators.parts.table_networks import SLOPE, WIDTH, Discriminator, random
from synthdp.generators.parts.training_state import BETAS
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, text, whole
from synthdp.schema.schema import Schema
from synthdp.seal import LNMax, Sensitive, Stacked

ROUNDS = 10  # where neither they nor gamma are given
CENTRED_OVER = 1024  # generated rows
SHOW_EVERY = 25


@dataclass(frozen=True, kw_only=True)
class PATEGANOriginal:
    """Settings of the PATE-GAN as published."""

    name: ClassVar[str] = "pategan_original"
    contract_settings: ClassVar[dict[str, Any]] = {"rounds": 2, "queries": 12, "teachers": 16, "hidden": (16,)}
    marginals_settings: ClassVar[dict[str, Any]] = {"start": "label"}
    audit_settings: ClassVar[dict[str, Any]] = {
        "steps": 2,
        "queries": 8,
        "rounds": 1,
        "teachers": 2,
        "hidden": (4,),
        "latent": 2,
        "fake_batch": 8,
    }

    teachers: int = option(10, "number of teachers", whole())
    rounds: int | None = option(
        None, f"how often the teachers are asked; default: {ROUNDS}, or what the budget buys at gamma", whole()
    )
    queries: int = option(10, "generated rows that teachers judge in a round", whole())
    steps: int = option(1, "generator steps in a round", whole())
    gamma: float | None = option(
        None,
        "1 / gamma is the scale of the noise on each count; default: what the budget requires",
        number("[1e-9, 1000]"),
    )
    start: str = option(
        "none",
        "noisy answers that the generator starts from: label (label x column), columns (one-way) or none, as in the paper",
        one_of(*STARTS),
    )
    tables: float = option(0.5, "share of the precision spent on the start, in (0, 1)", fraction())
    condition: str | None = option(
        None,
        "label column that the generator is conditioned on; default: none, or with a start the first target, if it has at "
        "most 64 codes",
        text(),
    )
    hidden: tuple[int, ...] = option(
        (128, 128), "widths of the hidden layers of generator and student", several(WIDTH, 1)
    )
    latent: int = option(32, "latent values per row", WIDTH)
    fake_batch: int = option(512, "generated rows per generator step", whole())
    generator_rate: float = option(
        3e-3, "learning rate of the generator (Adam); it falls to zero along a cosine", positive(100)
    )
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    average: float = option(0.99, "decay of the moving average of the generator's weights", number("[0, 1)"))
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())
    teacher_hidden: tuple[int, ...] = option((16,), "widths of a teacher's hidden layers", several(WIDTH))
    teacher_steps: int = option(5, "steps of each teacher in a round", whole())
    teacher_batch: int = option(64, "records in a teacher's step, and as many generated rows", whole())
    teacher_rate: float = option(1e-2, "learning rate of the teachers (Adam)", positive(100))
    student_steps: int = option(5, "steps of the student in a round", whole())
    student_rate: float = option(1e-3, "learning rate of the student (Adam)", positive(100))
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        none = self.start == "none"
        refuse_ignored(self, ("tables", "table_weight") if none else (), "generator.start=none")
        if self.gamma is not None and not none:
            raise BadInput(
                "generator.gamma fixes the noise, and so needs start=none: tables would have to share the budget with it"
            )

    def validate(self, schema: Schema, budget: Budget) -> None:
        """The label is a column, the budget buys a round of votes at `gamma`, and the device is there."""
        check_label(self.condition, schema)
        if self.gamma is not None and self.rounds is None and math.isinf(budget.epsilon):
            raise BadInput("generator.gamma with an infinite budget: give generator.rounds, which nothing else bounds")
        if self.gamma is not None:
            refuse_dear("gamma", self.plan(schema, 1.0), schema, budget)
        devices.place(self.device)

    @property
    def total_rounds(self) -> int:
        """`rounds`, or the default; at a given `gamma` one, until the budget has said how many."""
        if self.rounds is not None:
            return self.rounds
        return ROUNDS if self.gamma is None else 1

    @property
    def votes(self) -> int:
        """Votes of the whole fit: one a labelled row."""
        return self.total_rounds * self.queries

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns; the paper's own generator has none."""
        if self.condition is None and self.start == "none":
            return None
        return label_place(self.condition, schema)

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """The start, one Gaussian for all tables; then one vote a labelled row. With `gamma` and without `rounds` those of one
        round, of which a fit asks as many as the budget buys."""
        votes = Entry(self.vote(noise), self.votes)
        return (votes,) if self.start == "none" else (Entry(Gaussian(self.table_noise(noise))), votes)

    def aggregator(self, noise: float) -> LNMax:
        """Of noise multiplier 1 / (2 gamma)."""
        return LNMax(self.gamma or (1 / (2 * noise) if noise > 0 else math.inf))

    def vote(self, noise: float) -> Event:
        """What one labelled row costs."""
        return self.aggregator(noise).events(1)[0]

    def table_noise(self, noise: float) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2. A Laplace vote of this
        multiplier counts as a Gaussian of the same."""
        return float(noise / math.sqrt(self.votes) * math.sqrt((1 - self.tables) / self.tables))

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """The start, then rounds of votes and learning; the biases are made to agree with noisy tables once more."""
        device = devices.place(self.device)
        if self.gamma is not None and self.rounds is None:
            return self._affordable(data, budget).fit(data, schema, budget, seed=seed, progress=progress)
        noise = data.commit(lambda z: self.plan(schema, z), budget)
        schema = data.resolve()
        label = self.label(schema)
        player = Player(self, data.codec, label, self.total_rounds * self.steps, random(seed), device)
        saved = data.restored()
        if saved is None and self.start != "none":
            deviation = self.table_noise(noise)
            player.start(noisy_tables.ask(data, player.blocks, label, self.start, player.labels, deviation))
        game = Original(self, data, self.aggregator(noise), player, saved)
        for step in data.steps(self.vote(noise), self.votes, game.state):
            game.step(step)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == self.votes:
                progress(step + 1, self.votes, {"generator loss": player.loss})
        return NetworkModel(schema, player.finish(), player.labels, label, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        return restored(self, schema, tensors, self.label(schema))

    def _affordable(self, data: Sensitive, budget: Budget) -> "PATEGANOriginal":
        """With as many rounds as the budget buys at this gamma, by the bound that does not depend on the votes."""
        votes = data.most(lambda count: (Entry(self.vote(0.0), count),), budget)
        if votes < self.queries:
            raise BadInput(
                f"at generator.gamma={self.gamma:g} the budget buys {votes} votes, fewer than generator.queries="
                f"{self.queries}: lower gamma (more noise) or queries"
            )
        return dataclasses.replace(self, rounds=votes // self.queries)


class Original:
    """The state of one training. A step is one generated row that teachers label; `queries` steps are a round."""

    def __init__(
        self,
        settings: PATEGANOriginal,
        data: Sensitive,
        aggregator: LNMax,
        player: Player,
        saved: training_state.State | None,
    ) -> None:
        self.settings, self.player, self.aggregator = settings, player, aggregator
        blocks, columns = player.blocks, len(data.codec.sizes)
        self.student = Discriminator(blocks.width, settings.hidden, columns, player.random).to(player.device)
        self.optimizer = torch.optim.Adam(self.student.parameters(), settings.student_rate, betas=BETAS)
        self.asked = torch.zeros((0, columns), dtype=torch.int64)
        self.votes = torch.zeros(0, dtype=torch.int64)
        template = teacher(blocks.width, settings.teacher_hidden, player.random).to(player.device)
        if saved is not None:  # the stream of chances goes on from there
            self.restore(saved)
        kind = Stacked(
            module=template,
            features=blocks.one_hot,
            loss=lambda scores, _: functional.softplus(-scores.squeeze(-1)),
            public_loss=lambda scores, _: functional.softplus(scores.squeeze(-1)),
            steps=settings.teacher_steps,
            batch=settings.teacher_batch,
            learning_rate=settings.teacher_rate,
        )
        self.teachers = data.partition(settings.teachers, kind)

    def step(self, number: int) -> None:
        """One labelled row; at the end of a round the student and the generator learn."""
        queries = self.settings.queries
        place = number % queries
        if place == 0:
            rows = self.settings.teacher_batch * self.settings.teacher_steps
            self.teachers.train(self.player.fakes(rows).cpu().numpy())
            self.asked = self.player.fakes(queries).cpu()
            self.votes = torch.zeros(0, dtype=torch.int64)
        said = self.teachers.ask(self.asked[place : place + 1].numpy(), self.aggregator)
        self.votes = torch.cat([self.votes, torch.from_numpy(np.asarray(said))])
        if place == queries - 1:
            self._learn(number // queries)

    def _learn(self, number: int) -> None:
        there = self.player.device
        rows, real = self.player.blocks.one_hot(self.asked.to(there)), self.votes.float().to(there)
        if number == 0:
            self.student.recentre(self.player.blocks.one_hot(self.player.fakes(CENTRED_OVER)), 1.0)
        for _ in range(self.settings.student_steps):
            loss = functional.binary_cross_entropy_with_logits(self.student(rows), real)
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            self.optimizer.step()
        steps = self.settings.steps
        for step in range(number * steps, (number + 1) * steps):
            self.player.step(self._passed, step)

    def _passed(self, rows: Tensor, label: Tensor) -> Tensor:  # noqa: ARG002
        """Mean of log(1 - S(x)) over generated rows, which the generator lowers (the paper's equation for its loss)."""
        return -functional.softplus(self.student(rows)).mean()

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, beside the teachers' own."""
        return {
            **self.player.state(),
            **training_state.module_state("student", self.student),
            **training_state.optimizer_state("student_optimizer", self.optimizer),
            "asked": self.asked.numpy().copy(),
            "votes": self.votes.numpy().copy(),
        }

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)
        training_state.restore_module("student", self.student, state)
        training_state.restore_optimizer("student_optimizer", self.optimizer, state)
        self.asked = training_state.tensor(np.asarray(state["asked"]))
        self.votes = training_state.tensor(np.asarray(state["votes"]))


def teacher(width: int, hidden: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    """A teacher's network: one-hot rows to one score; without hidden layers a logistic regression."""
    sizes = [width, *hidden]
    layers: list[nn.Module] = []
    for place, size in enumerate(hidden):
        layers += [nn.Linear(sizes[place], size), nn.LeakyReLU(SLOPE)]
    layers.append(nn.Linear(sizes[-1], 1))
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.weight.normal_(0, layer.in_features**-0.5, generator=generator)
                layer.bias.zero_()
    return nn.Sequential(*layers)


GENERATOR = PATEGANOriginal
