"""PATE-GAN made worth using: the game of Jordon, Yoon & van der Schaar 2019 (see `pategan_original`), each change a setting.

Teacher-discriminators on disjoint parts of the records are trained, round by round, to tell them from rows of the current
generator. They are asked about a batch of generated rows, and only noisy answers come out. A student-discriminator sees
generated rows and noisy answers alone; the generator is trained against the student. What differs from the paper:

- The first layer of all discriminators is public and shared: units that look at two columns each (`adversarial/pair_kernel.py`).
  What teachers and student train is the output layer. `units=0` leaves single columns, which is logistic regression on rows.
- An answer is the mean over teachers of what they say of a whole batch, with Gaussian noise: one Gaussian mechanism a round.
  `answers` says what: their scores, clipped as one vector, ranks, or votes. The paper: the majority's vote on each row.
- Teachers are many and small: what noise does to a mean falls with their number. The paper: one for a thousand records.
- The student keeps all answers (`replay`). A teacher's score is, to first order in its steps, the difference of the mean hidden
  activations of its records and of the generated rows; the second is public and is added back, so that no answer grows old.
- The generator starts at the fit of `mixture`, for three quarters of the precision, which its network then retouches; or at noisy
  tables, for half. The paper: `start=none`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import table_generator_network
from synthdp.generators.adversarial.kernel_rounds import AnsweredRounds, units_of
from synthdp.generators.adversarial.pair_kernel import PairUnits, pair_units
from synthdp.generators.adversarial.table_generator_network import (
    TableGeneratorNetwork,
    features_of,
    start_option,
    tables_option,
)
from synthdp.generators.parts import devices, gan_model, training_state
from synthdp.generators.parts.setting_checks import check_teachers, refuse_ignored
from synthdp.generators.parts.table_networks import WIDTH, random
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Plan
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive, Shares, Stacked

RECORDS = 4  # of a teacher
SHARES = {"mixture": 0.75, "label": 0.5, "columns": 0.5}  # of the precision, for the start
ANSWERS = ("margins", "ranks", "votes")
# Mean of what is said of a query whose score moves by one deviation, for normal scores: density of the normal at 0, and over root 2.
SLOPES = {"votes": (2 * math.pi) ** -0.5, "ranks": (4 * math.pi) ** -0.5}
GENERATED = 4096  # rows that teachers are trained against in a round
MOCK_TEACHERS = 256  # on generated rows, from which the clip is read off
DEGREE = 4
FLOOR = 0.02  # a category rarer than this share gets no more weight
MOST_STEPS = 2.0**20  # of the student


@dataclass(frozen=True, kw_only=True)
class PATEGAN:
    """Settings of the PATE-GAN."""

    name: ClassVar[str] = "pategan"
    traits: ClassVar[Traits] = Traits(chooses=True)

    teachers: int | None = option(
        None, f"number of teachers; default: units / {RECORDS}; the paper: units / 1000", whole()
    )
    teacher_steps: int = option(2, "steps of each teacher in a round (SGD); the paper: 5", whole())
    teacher_batch: int = option(4, "records in a teacher's step, and as many generated rows; the paper: 64", whole())
    teacher_rate: float = option(
        0.1, "learning rate of the teachers, over the mean squared norm of the hidden layer", positive(100)
    )
    units: int = option(500, "products of two columns in the discriminators' hidden layer", whole(0, 20_000))
    rounds: int = option(2, "how often teachers are trained and asked", whole())
    queries: int = option(4000, "generated rows that teachers judge in a round", whole())
    answers: str = option(
        "margins",
        "what a teacher says about a batch: margins (its scores, clipped as one vector), ranks or votes",
        one_of(*ANSWERS),
    )
    clip_quantile: float = option(
        0.5, "margins: share of mock teachers, on generated rows, that the clip should leave unchanged", fraction()
    )
    replay: int = option(
        1000, "number of latest rounds whose answers the student is trained on; the paper: 1, the round itself", whole()
    )
    start: str = start_option("mixture", "; the paper: none")
    tables: float | None = tables_option(SHARES)
    condition: str | None = gan_model.label_option(
        default=f"{gan_model.FIRST_TARGET}; with start=none: none, as in the paper"
    )
    steps: int = option(1000, "generator steps in a round; the paper: 1", whole())
    hidden: tuple[int, ...] = option((128, 128), "widths of the generator's hidden layers", several(WIDTH, 1))
    latent: int = option(32, "latent values per row", WIDTH)
    fake_batch: int = option(512, "generated rows per generator step", whole())
    generator_rate: float = option(
        3e-3, "learning rate of the generator (Adam); it falls to zero along a cosine", positive(100)
    )
    student_weight: float = option(1.0, "weight of the student in the generator's loss", positive())
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    average: float = option(0.99, "decay of the moving average of the generator's weights", number("[0, 1)"))
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())
    device: str = option("auto", f"{devices.HELP}; teachers stay on the CPU", devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        refuse_ignored(self, ("tables", "table_weight") if self.start == "none" else (), "generator.start=none")
        if self.answers != "margins":
            refuse_ignored(self, ("clip_quantile",), f"generator.answers={self.answers}")

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, the number of teachers follows from something, and the device is there."""
        gan_model.check_label(self.condition, schema)
        check_teachers(self.teachers, schema, "pategan without tables", told=self.start != "none")
        devices.place(self.device)

    def teachers_of(self, units: float) -> int:
        """`teachers`, or the default for this many units (declared, bought, or the noisy total of the tables)."""
        return self.teachers or max(2, round(units / RECORDS))

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns; without tables, which tell its distribution, it is a column like any
        other."""
        if self.condition is None and self.start == "none":
            return None
        return gan_model.label_place(self.condition, schema)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, which costs as much as one Gaussian; then one Gaussian vote a round."""
        start = table_generator_network.plan(self.start, schema, self.table_noise(noise))
        return (*start, Entry(self.vote(noise), self.rounds))

    def vote(self, noise: float) -> Event:
        """What one round costs."""
        return Shares(noise, self.answers).events(1)[0]

    def table_noise(self, noise: float) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2."""
        share = self.tables or SHARES.get(self.start, 1.0)
        return float(noise / math.sqrt(self.rounds) * math.sqrt((1 - share) / share))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then the rounds; the biases are made to agree with the noisy tables once more."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        label = self.label(schema)
        network = TableGeneratorNetwork(self, data.codec, label, self.rounds * self.steps, random(seed), device)
        saved = data.restored()
        if saved is None:
            table_generator_network.begin(data, self.start, network, self.table_noise(noise))
        game = Game(self, data, noise, network, saved, progress)
        game.run()
        return gan_model.NetworkModel(schema, network.finish(), network.labels, label, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights and the label's distribution."""
        return gan_model.restored(self, schema, tensors, self.label(schema), mixed=self.start == "mixture")


class Game(AnsweredRounds):
    """The state of one training: teachers, student, generator. A step is a round."""

    kept = ("learnt_rounds", "query_codes", "query_answers", "query_deviations")
    settings: PATEGAN
    network: TableGeneratorNetwork

    def __init__(
        self,
        settings: PATEGAN,
        data: Sensitive,
        noise: float,
        network: TableGeneratorNetwork,
        saved: training_state.State | None,
        progress: Progress,
    ) -> None:
        super().__init__(settings, data, noise, network, progress)
        self.fakes: Tensor | None = (
            None  # mean hidden activations of what teachers were trained against, summed over rounds
        )
        self.drawn = network.random.get_state() if saved is None else training_state.tensor(saved["units_random"])
        if saved is not None:
            self.restore(saved)
        self.units = self._units()
        self.there = self.units.to(network.device)
        rows = self._public_rows()
        self.size = float(self.units.of_codes(rows).square().sum(1).mean().clamp_min(1e-6))
        self.rate = settings.teacher_rate / self.size
        self.known = units_of(data, network.tables)
        output = nn.Linear(self.units.width, 1, bias=False)
        with torch.no_grad():
            output.weight.zero_()
        self.teachers = data.partition(
            settings.teachers_of(self.known),
            Stacked(
                module=output,
                features=self.units.of_codes,
                loss=lambda scores, _: functional.softplus(-scores.squeeze(-1)),
                public_loss=lambda scores, _: functional.softplus(scores.squeeze(-1)),
                steps=settings.teacher_steps,
                batch=settings.teacher_batch,
                learning_rate=self.rate,
                optimizer="sgd",
                start="template",
            ),
        )

    def _units(self) -> PairUnits:
        """The hidden layer: from the noisy tables, or from even ones where none were asked for, and from chance of its own."""
        tables = self.network.tables
        space = features_of(self.network, self.data.schema, degree=DEGREE, floor=FLOOR)
        chance = torch.Generator()
        chance.set_state(self.drawn)
        linear = tables is None or not tables.joint or self.settings.units == 0
        return pair_units(space, self.settings.units, linear=linear, generator=chance)

    def _public_rows(self) -> Tensor:
        """Rows over which the layer's size is measured, evenly drawn or from the tables: the same in a fit that is resumed."""
        chance = torch.Generator()
        chance.set_state(self.drawn)
        network, tables = self.network, self.network.tables
        label = torch.multinomial(network.labels, GENERATED, replacement=True, generator=chance)
        columns = torch.zeros(1, network.blocks.width) if tables is None else (tables.columns.cpu() + 1e-5).log()
        codes = network.blocks.draw(columns[label if len(columns) > 1 else torch.zeros_like(label)], chance)
        if network.label is not None:
            codes[:, network.label] = label
        return codes

    def ask(self) -> None:
        """One noisy mean of what teachers say of freshly generated rows, as the mean activation of records at each row's own."""
        settings, asked = self.settings, self.asked
        queries, generated = self.network.fakes(settings.queries).cpu(), self.network.fakes(GENERATED).cpu()
        hidden, against = self.units.of_codes(queries), self.units.of_codes(generated)
        mean = against.double().mean(0)
        self.fakes = mean if self.fakes is None else self.fakes + mean
        slope = self.rate * settings.teacher_steps / 2 * (asked + 1)  # of logistic losses at 0, over all steps so far
        self.teachers.train(generated.numpy())
        mocks = self._mocks(against, hidden) * slope
        norms = mocks.norm(dim=1)
        clip = float(norms.quantile(settings.clip_quantile))
        clip = clip if 0 < clip < math.inf else 1.0
        shares = Shares(self.noise, settings.answers, clip)
        said = torch.from_numpy(self.teachers.ask(queries.numpy(), shares))
        spread = torch.full_like(said, shares.deviation(len(queries), self.teachers.count))
        if settings.answers == "margins":
            gain = slope * float((clip / norms.clamp_min(1e-12)).clamp(max=1).mean())
            scale, centre = torch.full_like(said, 1 / gain), 0.0
        elif settings.answers == "votes":
            scale, centre = mocks.std(0).clamp_min(1e-12) / (SLOPES["votes"] * slope), 0.5
        else:
            scale, centre = (
                mocks.std(0).mean().clamp_min(1e-12) / (SLOPES["ranks"] * slope) * torch.ones_like(said),
                0.5,
            )
        public = hidden.double() @ self.fakes / (asked + 1)
        self.codes = torch.cat([self.codes, queries])
        self.answers = torch.cat([self.answers, (said - centre) * scale + public])
        self.deviations = torch.cat([self.deviations, spread * scale])

    def _mocks(self, against: Tensor, hidden: Tensor) -> Tensor:
        """(mock teachers, queries) scores, over the slope, of teachers whose records were generated rows: public."""
        records = max(1, round(self.known / self.teachers.count))
        beside = self.settings.teacher_batch * self.settings.teacher_steps
        count = max(2, min(MOCK_TEACHERS, len(against) // max(records, beside)))
        own, other = (
            against[torch.arange(count * size) % len(against)].reshape(count, size, -1).mean(1)
            for size in (records, beside)
        )
        return ((own - other.roll(1, 0)) @ hidden.T).double()

    def student(self) -> Callable[[Tensor, Tensor], Tensor]:
        """Who has learnt from the answers of the last `replay` rounds, as what the generator descends on."""
        kept = self.settings.replay * self.settings.queries
        hidden = self.units.of_codes(self.codes[-kept:]).double()
        begin = hidden.mean(0)  # of generated rows: a student who learns nothing finds nothing wrong with them
        taught = student(hidden, self.answers[-kept:], self.deviations[-kept:], begin)
        return self._judge(taught.float().to(self.network.device))

    def _judge(self, taught: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """The student's mean score of generated rows, lowered: its output layer is `taught` less the mean activations of the
        generator as it is, from the other half of the rows, so that its fake half is exact and never old."""

        def judged(rows: Tensor, label: Tensor) -> Tensor:
            hidden, half = self.there.of(rows, label.argmax(1)), len(rows) // 2
            one, other = hidden[:half].mean(0) - taught, hidden[half:].mean(0) - taught
            return (one * other).sum() / 2 * self.settings.student_weight

        return judged

    def state(self) -> training_state.Arrays:
        """All that the next rounds depend on, beside the teachers' own."""
        fakes = np.zeros(0) if self.fakes is None else self.fakes.numpy().copy()
        return {**super().state(), "units_random": self.drawn.numpy().copy(), "fakes": fakes}

    def restore(self, state: training_state.State) -> None:
        super().restore(state)
        self.fakes = training_state.tensor(np.asarray(state["fakes"])) if len(state["fakes"]) else None


def student(hidden: Tensor, answers: Tensor, deviations: Tensor, begin: Tensor) -> Tensor:
    """(width,) output weights w, from `begin`, by gradient descent on the mean squared error of `hidden` @ w, (queries, width), from
    noisy `answers` (queries,) of standard `deviations`.

    The noise is known, so that the number of steps is the one at which Stein's unbiased estimate of the risk is least (Stein
    1981). Descent is followed in the axes of the Gram matrix, where each step shrinks every error by a factor of its own.
    """
    weights = 1 / deviations.clamp_min(1e-9 * float(answers.abs().max()) + 1e-12)
    inputs, targets = hidden * weights[:, None], (answers - hidden @ begin) * weights
    values, axes = torch.linalg.eigh(inputs.T @ inputs)
    values = values.clamp_min(0)
    seen = axes.T @ (inputs.T @ targets)
    found = values > 1e-10 * values.max().clamp_min(1e-300)
    whitened = torch.where(found, seen / values.clamp_min(1e-300).sqrt(), 0.0)  # signal plus standard normal noise
    shrunk = torch.where(found, (1 - values / values.max().clamp_min(1e-300)).clamp_min(0), 1.0)
    best, least = torch.zeros_like(seen), math.inf
    for steps in np.geomspace(1, MOST_STEPS, 81):
        share = 1 - shrunk**steps
        risk = float((((1 - share) * whitened).square() + 2 * share).sum())
        if risk < least:
            best, least = share, risk
    if float(whitened.square().sum()) < least:
        return begin
    learnt: Tensor = begin + axes @ torch.where(found, best * seen / values.clamp_min(1e-300), 0.0)
    return learnt


GENERATOR = PATEGAN
