"""PATE-GAN as published: Jordon, Yoon & van der Schaar 2019, algorithm 1, with what it asks counted as it is.

A round is that of the algorithm: `teacher_steps` (n_T) steps of k teachers, networks on disjoint parts of the records that tell
them from generated rows; `student_steps` (n_S) steps of a student, each on `queries` (n) freshly generated rows that the
teachers label by noisy majority (Laplace noise of scale lambda = 1 / gamma on both counts); one step of the generator, which
lowers the mean of log(1 - S) over its rows.

Unlike the paper, a fit stops by the bound that does not depend on the votes: how many votes agree is the records' doing, and so
would be a length that follows from it. Other departures: the generator that is kept has the moving average of its weights
(`average`), and its learning rate falls along a cosine; teachers take 10 steps a round instead of 5, have weight decay, and go
through their records in cycles; where there is noise, there are more teachers than units / 1000.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import table_generator_network
from synthdp.generators.adversarial.table_generator_network import TableGeneratorNetwork
from synthdp.generators.parts import devices, gan_model, training_state
from synthdp.generators.parts.noisy_tables import STARTS
from synthdp.generators.parts.setting_checks import check_teachers, refuse_dear, refuse_ignored
from synthdp.generators.parts.table_networks import SLOPE, WIDTH, Discriminator, draw_weights, random
from synthdp.generators.parts.training_state import BETAS
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Plan
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import LNMax, Sensitive, Stacked

# Where neither rounds nor gamma are given: so many, and below how many each asks for fewer labels.
ROUNDS, FEWEST_ROUNDS = 400, 30
MOST_RECORDS, FEWEST_RECORDS = 1000, 50  # of a teacher: the paper's number, and where the noise calls for many teachers
FEWEST_TEACHERS = 10
CLEAR = 2.0  # teachers over the scale of the noise: below it fewer labels are bought, and not noisier ones
STEEP = 8.0  # power by which labels become fewer
CENTRED_OVER = 1024  # generated rows
SHOW_EVERY = 25


@dataclass(frozen=True, kw_only=True)
class PATEGANOriginal:
    """Settings of the PATE-GAN as published."""

    name: ClassVar[str] = "pategan_original"
    traits: ClassVar[Traits] = Traits()

    teachers: int | None = option(
        None,
        f"number of teachers; default: units / {MOST_RECORDS} as in the paper but at least {FEWEST_TEACHERS}, or as many more as the "
        f"noise calls for, up to units / {FEWEST_RECORDS}",
        whole(),
    )
    rounds: int | None = option(
        None,
        f"rounds of the algorithm; default: {ROUNDS}, fewer where the noise would drown the votes, or what the budget buys at gamma",
        whole(),
    )
    queries: int = option(
        128,
        "generated rows that teachers label for a step of the student; fewer where the noise would drown the votes",
        whole(),
    )
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
    condition: str | None = gan_model.label_option(default=f"none, or with a start {gan_model.FIRST_TARGET}")
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
    teacher_steps: int = option(10, "steps of each teacher in a round", whole())
    teacher_batch: int = option(64, "records in a teacher's step, and as many generated rows", whole())
    teacher_rate: float = option(3e-2, "learning rate of the teachers (Adam)", positive(100))
    teacher_decay: float = option(
        3e-2,
        "weight decay of the teachers (Adam). With 0 they memorise their records, call every generated row a fake, and the "
        "student sees only one class; the paper does not mention it",
        not_negative(),
    )
    student_steps: int = option(5, "steps of the student in a round, each on freshly labelled rows", whole())
    student_rate: float = option(1e-2, "learning rate of the student (Adam)", positive(100))
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
        """The label is a column, the number of teachers follows from something, the budget buys a round of votes at `gamma`, and
        the device is there."""
        gan_model.check_label(self.condition, schema)
        check_teachers(self.teachers, schema, "pategan_original")
        if self.gamma is not None and self.rounds is None and math.isinf(budget.epsilon):
            raise BadInput("generator.gamma with an infinite budget: give generator.rounds, which nothing else bounds")
        if self.gamma is not None:
            refuse_dear("gamma", self.plan(schema, 1.0), schema, budget)
        devices.place(self.device)

    @property
    def labels_a_round(self) -> int:
        """Rows that the teachers label in a round: as many votes."""
        return self.student_steps * self.queries

    def teachers_of(self, schema: Schema, noise: float) -> int:
        """`teachers`, or the default for the declared number of units at a noise multiplier: the fewest whose votes the noise leaves
        clear, within bounds. While units are still to be bought, 2."""
        if self.teachers is not None:
            return self.teachers
        units = schema.units if isinstance(schema.units, int) else 0
        most = max(2, round(units / FEWEST_RECORDS))
        fewest = min(most, max(FEWEST_TEACHERS, round(units / MOST_RECORDS)))
        return min(most, max(fewest, math.ceil(min(most, 2 * CLEAR * noise))))

    def student_steps_at(self, schema: Schema, noise: float) -> tuple[int, int]:
        """Steps of the student in the whole fit, and votes that each asks for, at a noise multiplier, 1 / (2 gamma).

        A label says something as long as the noise does not drown the votes. So where `rounds` are not given, there are
        `ROUNDS` of them up to the noise at which its scale is the number of teachers over `CLEAR`; beyond it labels grow
        fewer so fast that a smaller budget buys fewer labels rather than noisier ones, as the paper's loop does: fewer rounds
        down to `FEWEST_ROUNDS`, then fewer than `queries` a step. At a given `gamma` there is one round, until the budget has
        said how many.
        """
        rounds = self.rounds or (ROUNDS if self.gamma is None else 1)
        steps = rounds * self.student_steps
        if self.rounds is not None or self.gamma is not None or noise <= 0:
            return steps, self.queries
        clear = self.teachers_of(schema, math.inf) / (2 * CLEAR)
        votes = max(1, math.floor(steps * self.queries * min(1.0, float((clear / noise) ** STEEP))))
        each = min(self.queries, max(1, votes // (self.student_steps * FEWEST_ROUNDS)))
        return votes // each, each

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns; the paper's own generator has none."""
        if self.condition is None and self.start == "none":
            return None
        return gan_model.label_place(self.condition, schema)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, one Gaussian for all tables; then one vote a labelled row. With `gamma` and without `rounds` those of one
        round, of which a fit asks as many as the budget buys."""
        votes = math.prod(self.student_steps_at(schema, noise))
        start = table_generator_network.plan(self.start, schema, self.table_noise(noise, votes))
        return (*start, Entry(self.vote(noise), votes))

    def aggregator(self, noise: float) -> LNMax:
        """Of noise multiplier 1 / (2 gamma)."""
        return LNMax(self.gamma or (1 / (2 * noise) if noise > 0 else math.inf))

    def vote(self, noise: float) -> Event:
        """What one labelled row costs."""
        return self.aggregator(noise).events(1)[0]

    def table_noise(self, noise: float, votes: int) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2. A Laplace vote of this
        multiplier counts as a Gaussian of the same."""
        return float(noise / math.sqrt(votes) * math.sqrt((1 - self.tables) / self.tables))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then the rounds; the biases are made to agree with noisy tables once more."""
        device = devices.place(self.device)
        if self.gamma is not None and self.rounds is None:
            return self._affordable(data).fit(data, seed=seed, progress=progress)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        (total, each), count = self.student_steps_at(data.declared, noise), self.teachers_of(data.declared, noise)
        schema = data.resolve()
        label = self.label(schema)
        rounds = math.ceil(total / self.student_steps)
        network = TableGeneratorNetwork(self, data.codec, label, rounds * self.steps, random(seed), device)
        saved = data.restored()
        if saved is None:
            table_generator_network.begin(data, self.start, network, self.table_noise(noise, total * each))
        game = Original(self, data, count, (total, each), self.aggregator(noise), network, saved)
        for step in data.steps(self.vote(noise), total, game.state, times=each):
            game.step(step)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == total:
                progress(step + 1, total, {"generator loss": network.loss, "labelled real": game.real})
        return gan_model.NetworkModel(schema, network.finish(), network.labels, label, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        return gan_model.restored(self, schema, tensors, self.label(schema))

    def _affordable(self, data: Sensitive) -> "PATEGANOriginal":
        """With as many rounds as the budget buys at this gamma, by the bound that does not depend on the votes."""
        votes = data.most(lambda count: (Entry(self.vote(0.0), count),))
        if votes < self.labels_a_round:
            raise BadInput(
                f"at generator.gamma={self.gamma:g} the budget buys {votes} votes, fewer than the {self.labels_a_round} of a "
                "round: lower gamma (more noise), queries or student_steps"
            )
        return dataclasses.replace(self, rounds=votes // self.labels_a_round)


class Original:
    """The state of one training. A step is one of the student; `size` says how many there are, and freshly labelled rows in each."""

    def __init__(
        self,
        settings: PATEGANOriginal,
        data: Sensitive,
        teachers: int,
        size: tuple[int, int],
        aggregator: LNMax,
        network: TableGeneratorNetwork,
        saved: training_state.State | None,
    ) -> None:
        self.settings, self.network, self.aggregator = settings, network, aggregator
        self.total, self.queries = size
        self.real = 0.0  # share of the step's rows that the teachers took for real, by the noisy labels
        blocks, columns = network.blocks, len(data.codec.sizes)
        self.student = Discriminator(blocks.width, settings.hidden, columns, network.random).to(network.device)
        self.optimizer = torch.optim.Adam(self.student.parameters(), settings.student_rate, betas=BETAS)
        self.parts: dict[str, training_state.Part] = {"student": self.student, "student_optimizer": self.optimizer}
        template = teacher(blocks.width, settings.teacher_hidden, network.random).to(network.device)
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
            weight_decay=settings.teacher_decay,
        )
        self.teachers = data.partition(teachers, kind)

    def step(self, number: int) -> None:
        """Fresh rows are labelled and the student learns from them; before the first such step of a round the teachers learn,
        after the last one the generator."""
        settings, network = self.settings, self.network
        number_of_round, place = divmod(number, settings.student_steps)
        if place == 0:
            rows = settings.teacher_batch * settings.teacher_steps
            self.teachers.train(network.fakes(rows).cpu().numpy())
        if number == 0:
            self.student.recentre(network.fake_rows(CENTRED_OVER), 1.0)
        asked = network.fakes(self.queries)
        said = self.teachers.ask(asked.cpu().numpy(), self.aggregator)
        real = torch.from_numpy(np.asarray(said)).float().to(network.device)
        self.real = float(np.mean(said))
        loss = functional.binary_cross_entropy_with_logits(self.student(network.rows(asked)), real)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        if place == settings.student_steps - 1 or number == self.total - 1:
            for step in range(number_of_round * settings.steps, (number_of_round + 1) * settings.steps):
                network.step(self._passed, step)

    def _passed(self, rows: Tensor, label: Tensor) -> Tensor:  # noqa: ARG002
        """Mean of log(1 - S(x)) over generated rows, which the generator lowers (the paper's equation for its loss)."""
        return -functional.softplus(self.student(rows)).mean()

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, beside the teachers' own."""
        return {**self.network.state(), **training_state.state_of(self.parts)}

    def restore(self, state: training_state.State) -> None:
        self.network.restore(state)
        training_state.restore(self.parts, state)


def teacher(width: int, hidden: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    """A teacher's network: one-hot rows to one score; without hidden layers a logistic regression."""
    sizes = [width, *hidden]
    layers: list[nn.Module] = []
    for place, size in enumerate(hidden):
        layers += [nn.Linear(sizes[place], size), nn.LeakyReLU(SLOPE)]
    layers.append(nn.Linear(sizes[-1], 1))
    for layer, inputs in zip(layers[::2], sizes, strict=True):
        draw_weights(layer, inputs**-0.5, generator)
    return nn.Sequential(*layers)


GENERATOR = PATEGANOriginal
