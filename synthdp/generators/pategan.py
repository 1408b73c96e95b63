"""PATE-GAN: a generative adversarial network whose student learns from teachers' noisy votes (Jordon, Yoon & van der Schaar 2019).

Teachers on disjoint parts of the records, sealed, judge generated rows; only noisy answers come out. Two ways:

- `mode=shares`: every teacher says by how much it would rather see a generated row among its own records than among generated
  ones; the clipped answers are averaged under Gaussian noise, all queries are accounted exactly as one Gaussian mechanism, and
  a student that keeps every noisy answer teaches the generator (`adversarial/shares_mode.py`).
  Of images it starts at class Gaussians, and learns what is to be added to their pictures (`images/image_shares_mode.py`).
- `mode=original`: the paper's algorithm 1 with Laplace votes (`adversarial/original_mode.py`), stopped by the bound that does not depend on
  the votes. At epsilon 1 that buys some hundred noisy labels: it hardly learns, whatever it is given.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, silent
from synthdp.generators.adversarial.original_mode import Original
from synthdp.generators.adversarial.shares_mode import Lessons, space_of, units_of
from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.images import image_shares_mode as image_lessons
from synthdp.generators.parts import devices, noisy_tables
from synthdp.generators.parts.gan_model import NetworkModel, check_label, label_place, restored
from synthdp.generators.parts.noisy_tables import STARTS
from synthdp.generators.parts.setting_checks import refuse_dear, refuse_ignored, refuse_unused
from synthdp.generators.parts.table_networks import WIDTH, random
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, text, whole
from synthdp.schema.schema import Schema
from synthdp.seal import LNMax, Sensitive, Shares

DEFAULTS: dict[str, dict[str, Any]] = {  # what None stands for
    "shares": {"rounds": 2, "queries": 2000, "steps": 1000, "start": "label", "teachers": None, "tables": 0.5},
    "original": {"rounds": 10, "queries": 10, "steps": 1, "start": "none", "teachers": 10, "tables": 0.5},
}
GAUSS = "gauss"  # what images start at
IMAGES: dict[str, Any] = {"rounds": 2, "queries": 1000, "steps": 500, "start": GAUSS, "tables": 0.8, "degree": 3}
FOR_TABLES = ("latent", "table_weight", "temperature", "rare_floor")
RECORDS = 8  # of a teacher in mode shares: few teach more, since noise falls with the number of teachers
IMAGE_RECORDS = 4
MOST_POWER = 10  # of polynomials: beyond it they overflow
MOST_ASKED = 20_000  # queries of a whole fit whose covariances are inverted
SHOW_EVERY = 25


@dataclass(frozen=True, kw_only=True)
class PATEGAN:
    """Settings of the PATE-GAN."""

    name: ClassVar[str] = "pategan"
    data_kinds: ClassVar[tuple[str, ...]] = ("table", "images")
    contract_settings: ClassVar[dict[str, Any]] = {"steps": 40, "queries": 60, "teachers": 8, "hidden": (32,)}
    contract_modes: ClassVar[dict[str, dict[str, Any]]] = {
        "original": {"mode": "original", "rounds": 2, "queries": 12, "teachers": 16, "hidden": (16,)}
    }
    contract_settings_images: ClassVar[dict[str, Any]] = {
        "steps": 20,
        "queries": 60,
        "teachers": 8,
        "hidden": (16,),
        "fake_batch": 64,
    }
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

    mode: str = option(
        "shares",
        "shares: noisy means of the teachers' margins; original: the paper's noisy majority votes, for tables only",
        one_of(*DEFAULTS),
    )
    teachers: int | None = option(
        None,
        f"number of teachers; default: units / {RECORDS} for tables, units / {IMAGE_RECORDS} for images, 10 in mode original",
        whole(),
    )
    rounds: int | None = option(
        None,
        "how often the teachers are asked; default: 2, or in mode original 10, or what the budget buys at gamma",
        whole(),
    )
    queries: int | None = option(
        None,
        f"generated rows that teachers judge in a round; default: 2000 for tables, {IMAGES['queries']} for images, 10 in mode original",
        whole(),
    )
    steps: int | None = option(
        None,
        f"generator steps in a round; default: 1000 for tables, {IMAGES['steps']} for images, 1 in mode original",
        whole(),
    )
    start: str | None = option(
        None,
        "noisy answers that the generator starts from: label (label x column), columns (one-way) or none; for images also"
        " gauss (those of classgauss); default: label for tables, gauss for images, none in mode original",
        one_of(*STARTS, GAUSS),
    )
    tables: float | None = option(
        None,
        f"share of the precision spent on the start, in (0, 1); default: 0.5 for tables, {IMAGES['tables']} for images",
        fraction(),
    )
    condition: str | None = option(
        None,
        "label column that the generator is conditioned on; default: the first target, if it has at most 64 codes; none "
        "in mode original",
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
    witness_weight: float = option(1.0, "shares: weight of the student in the generator's loss", positive())
    degree: int | None = option(
        None,
        "shares: degree of the polynomials in ordered columns, or in pictures' coefficients; default: 4, less where there are "
        f"more than 32 columns; {IMAGES['degree']} for images",
        whole(most=MOST_POWER),
    )
    rare_floor: float = option(
        0.02, "shares: a category rarer than this share gets no more weight than one of this share", fraction()
    )
    clip_quantile: float = option(
        0.5, "shares: share of mock teachers, on generated rows, that the clip should leave unchanged", fraction()
    )
    gamma: float | None = option(
        None,
        "original: 1 / gamma is the scale of the noise on each count; default: what the budget requires",
        number("[1e-9, 1000]"),
    )
    teacher_hidden: tuple[int, ...] = option((16,), "original: widths of a teacher's hidden layers", several(WIDTH))
    teacher_steps: int = option(5, "original: steps of each teacher in a round", whole())
    teacher_batch: int = option(64, "original: records in a teacher's step, and as many generated rows", whole())
    teacher_rate: float = option(1e-2, "original: learning rate of the teachers (Adam)", positive(100))
    student_steps: int = option(5, "original: steps of the student in a round", whole())
    student_rate: float = option(1e-3, "original: learning rate of the student (Adam)", positive(100))
    device: str = option("auto", f"{devices.HELP}; teachers of mode shares stay on the CPU", devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        shares = ("witness_weight", "degree", "rare_floor", "clip_quantile")
        original = (
            "gamma",
            "teacher_hidden",
            "teacher_steps",
            "teacher_batch",
            "teacher_rate",
            "student_steps",
            "student_rate",
        )
        refuse_unused(self, "mode", {**dict.fromkeys(shares, "shares"), **dict.fromkeys(original, "original")})
        none = self.started == "none"
        refuse_ignored(self, ("tables", "table_weight") if none else (), "generator.start=none")
        if self.gamma is not None and not none:
            raise BadInput(
                "generator.gamma fixes the noise, and so needs start=none: tables would have to share the budget with it"
            )
        if self.mode == "shares" and self.total_rounds * self.queries_a_round > MOST_ASKED:
            raise BadInput(f"generator.rounds x generator.queries must be at most {MOST_ASKED:,} in mode shares")

    def _chosen(self, name: str) -> Any:
        given = getattr(self, name)
        return DEFAULTS[self.mode][name] if given is None else given

    def validate(self, schema: Schema, budget: Budget) -> None:
        """The settings go with tables or with images, the label is a column, the number of teachers follows from something, the
        budget buys a round of votes at `gamma`, and the device is there."""
        self._check_kind(schema)
        own = self.settled(schema)
        check_label(self.condition, schema)
        if schema.units is None and own.teachers is None and own.mode == "shares" and own.started in ("none", GAUSS):
            raise BadInput(
                "generator.teachers: pategan without tables needs the number of units to choose that of its teachers: declare "
                "units in the schema (a public count or estimate), or give generator.teachers"
            )
        if self.gamma is not None and self.rounds is None and math.isinf(budget.epsilon):
            raise BadInput("generator.gamma with an infinite budget: give generator.rounds, which nothing else bounds")
        if self.gamma is not None:
            refuse_dear("gamma", self.plan(schema, 1.0), schema, budget)
        devices.place(self.device)

    def _check_kind(self, schema: Schema) -> None:
        """Refuse what would not be read, of tables or of images."""
        if schema.image is None:
            if self.start == GAUSS:
                raise BadInput("generator.start=gauss is for images: of tables choose label, columns or none")
            return
        if self.mode == "original":
            raise BadInput("generator.mode=original learns tables alone: of images choose shares")
        if self.start not in (None, GAUSS):
            raise BadInput(f"generator.start of images must be gauss, got {self.start}")
        refuse_ignored(self, FOR_TABLES, "images, which have no tables of columns")

    def settled(self, schema: Schema) -> "PATEGAN":
        """With what None stands for on images, where the schema has one."""
        if schema.image is None:
            return self
        chosen = {name: value for name, value in IMAGES.items() if getattr(self, name) is None}
        return dataclasses.replace(self, **chosen)

    @property
    def architecture(self) -> str:
        """Of the network that retouches pictures: the one that reads and moves their coefficients."""
        return "basis"

    @property
    def started(self) -> str:
        """`start`, or the mode's own."""
        return str(self._chosen("start"))

    @property
    def total_rounds(self) -> int:
        """`rounds`, or the mode's own; at a given `gamma` one, until the budget has said how many."""
        return 1 if self.rounds is None and self.gamma is not None else int(self._chosen("rounds"))

    @property
    def queries_a_round(self) -> int:
        """`queries`, or the mode's own."""
        return int(self._chosen("queries"))

    @property
    def votes(self) -> int:
        """Votes of the whole fit: one a round, or in mode original one a labelled row."""
        return self.total_rounds * (self.queries_a_round if self.mode == "original" else 1)

    def teachers_of(self, units: float | None) -> int:
        """`teachers`, or the mode's own, for so many units (declared, bought, or the noisy total of the tables)."""
        given, records = self._chosen("teachers"), IMAGE_RECORDS if self.start == GAUSS else RECORDS
        return max(2, round((units or 0) / records)) if given is None else int(given)

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns; the paper's own generator has none."""
        if self.condition is None and self.started == "none" and self.mode == "original":
            return None
        return label_place(self.condition, schema)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, one Gaussian for all tables; then the votes: one event a round, or in mode original one a labelled row. With
        `gamma` and without `rounds` those of one round, of which a fit asks as many as the budget buys."""
        own = self.settled(schema)
        votes = Entry(own.vote(noise), own.votes)
        if own.started == GAUSS:
            return (*image_lessons.plan(own, schema, own.table_noise(noise)), votes)
        return (votes,) if self.started == "none" else (Entry(Gaussian(self.table_noise(noise))), votes)

    def aggregator(self, noise: float) -> LNMax:
        """Mode original's, whose noise multiplier is 1 / (2 gamma)."""
        return LNMax(self.gamma or (1 / (2 * noise) if noise > 0 else math.inf))

    def vote(self, noise: float) -> Event:
        """What one round, or one labelled row, costs."""
        if self.mode == "original":
            return self.aggregator(noise).events(1)[0]
        return Shares(noise, "margins").events(1)[0]

    def table_noise(self, noise: float) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2. A Laplace vote of this
        multiplier counts as a Gaussian of the same."""
        share = float(self._chosen("tables"))
        return noise / math.sqrt(self.votes) * math.sqrt((1 - share) / share)

    def fit(
        self, data: Sensitive, schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """The start, then rounds of votes and lessons; of tables the biases are made to agree with the noisy ones once more."""
        device = devices.place(self.device)
        if self.gamma is not None and self.rounds is None:
            return self._affordable(data, budget).fit(data, schema, budget, seed=seed, progress=progress)
        noise = data.commit(lambda z: self.plan(schema, z), budget)
        schema = data.resolve()
        if schema.image is not None:
            return image_lessons.fit(self.settled(schema), data, noise, seed, progress, device)
        label = self.label(schema)
        settings = dataclasses.replace(self, steps=int(self._chosen("steps")))
        steps = self.total_rounds * int(settings.steps or 1)
        player = Player(settings, data.codec, label, steps, random(seed), device)
        saved = data.restored()
        if saved is None and self.started != "none":
            deviation = self.table_noise(noise)
            player.start(noisy_tables.ask(data, player.blocks, label, self.started, player.labels, deviation))
        game: Lessons | Original
        if self.mode == "shares":
            game = Lessons(
                settings,
                data,
                noise,
                player,
                lambda: space_of(settings, data, player),
                lambda: units_of(data, player.tables),
                saved,
                progress,
            )
        else:
            game = Original(settings, data, self.aggregator(noise), player, saved)
        total = self.votes
        if isinstance(game, Lessons):
            game.catch_up(game.asked())
        for step in data.steps(self.vote(noise), total, game.state):
            game.step(step)
            if self.mode == "original" and ((step + 1) % SHOW_EVERY == 0 or step + 1 == total):
                progress(step + 1, total, {"generator loss": player.loss})
        if isinstance(game, Lessons):
            game.catch_up(total)
        return NetworkModel(schema, player.finish(), player.labels, label, self.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights, the label's distribution and, of images, the start."""
        self._check_kind(schema)
        if schema.image is not None:
            return image_lessons.restored(self.settled(schema), schema, tensors)
        return restored(self, schema, tensors, self.label(schema))

    def _affordable(self, data: Sensitive, budget: Budget) -> "PATEGAN":
        """With as many rounds as the budget buys at this gamma, by the bound that does not depend on the votes."""
        votes = data.most(lambda count: (Entry(self.vote(0.0), count),), budget)
        if votes < self.queries_a_round:
            raise BadInput(
                f"at generator.gamma={self.gamma:g} the budget buys {votes} votes, fewer than generator.queries="
                f"{self.queries_a_round}: lower gamma (more noise) or queries"
            )
        return dataclasses.replace(self, rounds=votes // self.queries_a_round)


GENERATOR = PATEGAN
