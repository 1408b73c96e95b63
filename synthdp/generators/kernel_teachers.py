"""Kernel teachers: parts of the records say, through a kernel, where they differ from generated rows; a network follows.

No published algorithm. It grew out of PATE-GAN (Jordon, Yoon & van der Schaar 2019; see `pategan`), but its teachers and its
student are no networks:

- A teacher is a part of the records, and nothing is trained on it. It compares the mean embedding of its records with that of
  generated rows: the witness function (Gretton et al. 2012, section 2.3), clipped as one vector over all queries of a round.
- The mean over teachers comes out with Gaussian noise: one Gaussian mechanism a round.
- The student is a Gaussian process on all noisy answers; the generator descends on the distance from what it learnt
  (`adversarial/kernel_rounds.py`).
- The generator starts at noisy tables, which cost half of the precision. For images it starts at class Gaussians and learns
  what to add to their pictures (`images/image_kernel_rounds.py`).
"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.adversarial.kernel_rounds import Rounds, space_of, units_of
from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.images import image_kernel_rounds
from synthdp.generators.parts import devices, noisy_tables
from synthdp.generators.parts.gan_model import NetworkModel, check_label, label_place, restored
from synthdp.generators.parts.noisy_tables import STARTS
from synthdp.generators.parts.setting_checks import refuse_ignored
from synthdp.generators.parts.table_networks import WIDTH, random
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Event, Gaussian, Plan
from synthdp.options import check, fraction, not_negative, number, one_of, option, positive, several, text, whole
from synthdp.schema.schema import Schema
from synthdp.seal import Shares

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

GAUSS = "gauss"  # what images start at
# What None stands for.
TABLES: dict[str, Any] = {"rounds": 2, "queries": 2000, "steps": 1000, "start": "label", "tables": 0.5}
IMAGES: dict[str, Any] = {"rounds": 2, "queries": 1000, "steps": 500, "start": GAUSS, "tables": 0.8, "degree": 3}
FOR_TABLES = ("latent", "table_weight", "temperature", "rare_floor")
RECORDS = 8  # of a teacher: few are best, since noise falls with the number of teachers
IMAGE_RECORDS = 4
MOST_POWER = 10  # of polynomials: beyond it they overflow
MOST_ASKED = 20_000  # queries of a whole fit whose covariances are inverted


@dataclass(frozen=True, kw_only=True)
class KernelTeachers:
    """Settings of the kernel teachers."""

    name: ClassVar[str] = "kernel_teachers"
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"))

    teachers: int | None = option(
        None,
        f"number of teachers; default: units / {RECORDS} for tables, units / {IMAGE_RECORDS} for images",
        whole(),
    )
    rounds: int | None = option(None, f"how often the teachers are asked; default: {TABLES['rounds']}", whole())
    queries: int | None = option(
        None,
        f"generated rows that teachers judge in a round; default: {TABLES['queries']} for tables, "
        f"{IMAGES['queries']} for images",
        whole(),
    )
    steps: int | None = option(
        None,
        f"generator steps in a round; default: {TABLES['steps']} for tables, {IMAGES['steps']} for images",
        whole(),
    )
    start: str | None = option(
        None,
        "noisy answers that the generator starts from: label (label x column), columns (one-way) or none; for images "
        "gauss (those of classgauss); default: label for tables, gauss for images",
        one_of(*STARTS, GAUSS),
    )
    tables: float | None = option(
        None,
        f"share of the precision spent on the start, in (0, 1); default: {TABLES['tables']} for tables, "
        f"{IMAGES['tables']} for images",
        fraction(),
    )
    condition: str | None = option(
        None,
        "label column that the generator is conditioned on; default: the first target, if it has at most 64 codes",
        text(),
    )
    hidden: tuple[int, ...] = option((128, 128), "widths of the generator's hidden layers", several(WIDTH, 1))
    latent: int = option(32, "latent values per row", WIDTH)
    fake_batch: int = option(512, "generated rows per generator step", whole())
    generator_rate: float = option(
        3e-3, "learning rate of the generator (Adam); it falls to zero along a cosine", positive(100)
    )
    table_weight: float = option(2.0, "weight of the tables in the generator's loss", not_negative())
    average: float = option(0.99, "decay of the moving average of the generator's weights", number("[0, 1)"))
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws", positive())
    witness_weight: float = option(1.0, "weight of the student in the generator's loss", positive())
    degree: int | None = option(
        None,
        "degree of the polynomials in ordered columns, or in pictures' coefficients; default: 4, less where there are "
        f"more than 32 columns; {IMAGES['degree']} for images",
        whole(most=MOST_POWER),
    )
    rare_floor: float = option(
        0.02, "a category rarer than this share gets no more weight than one of this share", fraction()
    )
    clip_quantile: float = option(
        0.5, "share of mock teachers, on generated rows, that the clip should leave unchanged", fraction()
    )
    device: str = option("auto", f"{devices.HELP}; teachers stay on the CPU", devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        refuse_ignored(self, ("tables", "table_weight") if self.start == "none" else (), "generator.start=none")
        own = self._with(TABLES)
        if own.total_rounds * own.queries_a_round > MOST_ASKED:
            raise BadInput(f"generator.rounds x generator.queries must be at most {MOST_ASKED:,}")

    def _with(self, defaults: dict[str, Any]) -> "KernelTeachers":
        """These settings; where one is None, that of `defaults`."""
        chosen = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        if (self.start or chosen.get("start")) == "none":
            chosen.pop("tables", None)
        return dataclasses.replace(self, **chosen) if chosen else self

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The settings go with tables or with images, the label is a column, the number of teachers follows from something, and
        the device is there."""
        self._check_kind(schema)
        check_label(self.condition, schema)
        own = self.settled(schema)
        if schema.units is None and own.teachers is None and own.start in ("none", GAUSS):
            raise BadInput(
                "generator.teachers: kernel_teachers without tables needs the number of units to choose that of its teachers: "
                "declare units in the schema (a public count or estimate), or give generator.teachers"
            )
        devices.place(self.device)

    def _check_kind(self, schema: Schema) -> None:
        """Refuse what would not be read, of tables or of images."""
        if schema.image is None:
            if self.start == GAUSS:
                raise BadInput("generator.start=gauss is for images: for tables choose label, columns or none")
            return
        if self.start not in (None, GAUSS):
            raise BadInput(f"generator.start of images must be gauss, got {self.start}")
        refuse_ignored(self, FOR_TABLES, "images, which have no tables of columns")

    def settled(self, schema: Schema) -> "KernelTeachers":
        """The settings with every None chosen for what the schema holds, but for the number of teachers, which may be bought, and
        the degree of tables, which goes by their columns."""
        return self._with(TABLES if schema.image is None else IMAGES)

    @property
    def architecture(self) -> str:
        """Of the network that retouches pictures: the one that reads and moves their coefficients."""
        return "basis"

    @property
    def total_rounds(self) -> int:
        """`rounds`, once settled."""
        return int(self.rounds or 1)

    @property
    def queries_a_round(self) -> int:
        """`queries`, once settled."""
        return int(self.queries or 1)

    def teachers_of(self, units: float | None) -> int:
        """`teachers`, or the default for so many units (declared, bought, or the noisy total of the tables)."""
        records = IMAGE_RECORDS if self.start == GAUSS else RECORDS
        return self.teachers or max(2, round((units or 0) / records))

    def label(self, schema: Schema) -> int | None:
        """Place of the label among the modelled columns."""
        return label_place(self.condition, schema)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The start, one Gaussian for all tables; then one Gaussian vote a round."""
        own = self.settled(schema)
        votes = Entry(own.vote(noise), own.total_rounds)
        if own.start == GAUSS:
            return (*image_kernel_rounds.plan(own, schema, own.table_noise(noise)), votes)
        return (votes,) if own.start == "none" else (Entry(Gaussian(own.table_noise(noise))), votes)

    def vote(self, noise: float) -> Event:
        """What one round costs."""
        return Shares(noise, "margins").events(1)[0]

    def table_noise(self, noise: float) -> float:
        """Noise at which the start holds its share of the plan's precision, sum of 1 / noise^2, once settled."""
        share = float(self.tables or 0.0)
        return float(noise / self.total_rounds**0.5 * ((1 - share) / share) ** 0.5)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The start, then rounds of answers and learning; the biases of tables are made to agree with the noisy ones once more."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        own = self.settled(schema)
        if schema.image is not None:
            return image_kernel_rounds.fit(own, data, noise, seed, progress, device)
        label, total = own.label(schema), own.total_rounds
        player = Player(own, data.codec, label, total * int(own.steps or 1), random(seed), device)
        saved = data.restored()
        if saved is None and own.start != "none":
            deviation = own.table_noise(noise)
            player.start(noisy_tables.ask(data, player.blocks, label, str(own.start), player.labels, deviation))
        game = Rounds(
            own,
            data,
            noise,
            player,
            lambda: space_of(own, data, player),
            lambda: units_of(data, player.tables),
            saved,
            progress,
        )
        game.catch_up(game.asked())
        for step in data.steps(own.vote(noise), total, game.state):
            game.step(step)
        game.catch_up(total)
        return NetworkModel(schema, player.finish(), player.labels, label, own.latent)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The generator's weights, the label's distribution and, of images, the start."""
        self._check_kind(schema)
        if schema.image is not None:
            return image_kernel_rounds.restored(self.settled(schema), schema, tensors)
        return restored(self, schema, tensors, self.label(schema))


GENERATOR = KernelTeachers
