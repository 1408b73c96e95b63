"""One-shot class Gaussians: private principal axes, then Gaussians per class (RON-Gauss, Chanyaswad, Liu & Mittal 2019, is a
relative).

A handful of questions, each one Gaussian of a share of the precision that is fixed beforehand. Of pictures first the mean place,
slant and size, to which all are moved (`align`); then the mean vector and the label's tables; how long vectors around the mean are,
and how grey pictures are; their second moment, whose principal axes are the basis; with several components a class, rounds of
k-means (Lloyd 1982); and the second moments of all components in the basis. Where RON-Gauss projects at random, the axes are
learned. Everything else is post-processing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, probabilities, silent
from synthdp.generators.gaussians import one_shot
from synthdp.generators.gaussians.class_mixture import Mixture, agreed, plain_greys, restored, standard_of
from synthdp.generators.gaussians.one_shot import estimated
from synthdp.generators.parts.gan_model import CLASSES, check_label, label_option, label_place, surely_label
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, merged
from synthdp.options import check, flag, fraction, option, whole
from synthdp.schema.codec import Codec
from synthdp.schema.coders import coder_of
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

TABLE_AXES, IMAGE_AXES = 64, 100
SPLIT = 1.5  # the most noise at which pictures get several components by default
MOST_COMPONENTS = 20
TOLD = 0.002  # noise / (units of a component) up to which its moments tell it from others
TABLES = 0.2  # default share of the first question for tables, whose columns it tells about
IMAGES = 0.02
LEAST_QUESTIONS = 4  # without rounds of k-means
LEAST_SIDE = 12  # of pictures that are aligned by default
FRAMES = 0.005  # share of the precision for the place, slant and size that pictures are moved to
# At this value of noise / units x (pixels x labels)^(1/4) and above, noise hides what pictures show. Measured in 224 fits: five kinds of
# made-up pictures, 8 to 48 pixels a side, 1 and 3 channels, 1 to 10 labels, 100 to 20,000 units, epsilon 0.3 to 10. Of the 51 fits whose
# synthetic pictures looked like noise, 50 had at least this value; of the 130 whose pictures were useful, 4 had.
DROWNED = 0.025


@dataclass(frozen=True, kw_only=True)
class ClassGauss:
    """Settings of the class Gaussians."""

    name: ClassVar[str] = "classgauss"
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"))

    dimensions: int | None = option(
        None,
        f"number of principal axes kept; default: {IMAGE_AXES} for images, {TABLE_AXES} for tables, or all if there are fewer",
        whole(),
    )
    components: int | None = option(
        None,
        f"Gaussians per class; default: 1 for tables or for noise above {SPLIT}, otherwise up to {MOST_COMPONENTS}, depending on units",
        whole(most=1000),
    )
    rounds: int = option(3, "rounds of k-means that find the components, if there are several", whole(most=1000))
    middle: float | None = option(
        None,
        f"share of the precision spent on means and the label's tables; default: {IMAGES} for images, {TABLES} for tables",
        fraction(),
    )
    lengths: float = option(0.02, "share of the precision spent on the clip and the grey values", fraction())
    basis: float = option(0.3, "share of the precision spent on the principal axes", fraction())
    kmeans: float = option(0.15, "share of the precision spent on all rounds of k-means together", fraction())
    quantile: float = option(0.8, "share of the vectors that the clip should leave unchanged", fraction())
    align: bool | None = option(
        None,
        "move every picture to a common place, slant and size first, and synthetic ones back, by places, slants and sizes learned with "
        f"them; default: for pictures of {LEAST_SIDE} x {LEAST_SIDE} pixels or more",
        flag(),
    )
    match: bool = option(
        True, "adjust samples so that they agree with the noisy shares of grey values and categories", flag()
    )
    agreement_rows: int = option(4000, "number of rows drawn for that adjustment; for tables, per label", whole())
    condition: str | None = label_option(CLASSES)

    def __post_init__(self) -> None:
        check(self)
        rounds = 0.0 if self.components == 1 else self.kmeans
        if (TABLES if self.middle is None else self.middle) + self.lengths + self.basis + rounds >= 1 - FRAMES:
            raise BadInput(
                f"generator.middle, generator.lengths, generator.basis and generator.kmeans must add up to less than {1 - FRAMES}, "
                "because the rest goes to the classes"
            )

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, and there is another one; only pictures are aligned."""
        check_label(self.condition, schema, beside=True)
        if self.align is not None and schema.image is None:
            raise BadInput("generator.align moves pictures, but the schema has no image column: leave it out")

    def plan(self, schema: Schema, noise: float) -> Plan:
        """One Gaussian per question, each with its share of 1 / noise^2."""
        return merged(tuple(Entry(Gaussian(each)) for each in self.noises(schema, noise)))

    def aligns(self, schema: Schema) -> bool:
        """Whether pictures are moved first."""
        image = schema.image
        return image is not None and (
            min(image.height, image.width) >= LEAST_SIDE if self.align is None else self.align
        )

    def noises(self, schema: Schema, noise: float) -> list[float]:
        """Of the frames of pictures that are aligned; of the middle, the lengths, the basis, the rounds (the first finds the classes'
        means) and the moments."""
        frames = [FRAMES] if self.aligns(schema) else []
        middle = self.middle if self.middle is not None else IMAGES if schema.image is not None else TABLES
        several = schema.image is not None and noise <= SPLIT if self.components is None else self.components > 1
        rounds = [self.kmeans / (self.rounds + 1)] * (self.rounds + 1) if several else []
        parts = [*frames, middle, self.lengths, self.basis, *rounds]
        return [noise / math.sqrt(part) for part in (*parts, 1 - sum(parts))]

    def count(self, schema: Schema, noises: Sequence[float], labels: int) -> int:
        """Components per class of a fit at `noises`: a public number."""
        if len(noises) == LEAST_QUESTIONS + self.aligns(schema) or self.components is not None:
            return self.components or 1
        noise, units = sum(each**-2 for each in noises if each) ** -0.5 if noises[0] else 0.0, schema.units
        if noise == 0 or not isinstance(units, int | float):
            return MOST_COMPONENTS
        return int(min(max(TOLD * units / (noise * labels), 2), MOST_COMPONENTS))

    def drowned(self, schema: Schema, noise: float) -> float:
        """How large the noise is relative to what pictures show: see `synthdp.generators.drowned`."""
        if schema.image is None or not isinstance(schema.units, int | float):
            return 0.0
        label = surely_label(self.condition, schema)
        labels = 1 if label is None else coder_of(schema.column(label)).size
        return float(noise / schema.units * (schema.image.pixels * labels) ** 0.25 / DROWNED)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """The questions one after another, then the Gaussians, then tables that make draws agree with what was asked first."""
        noises = self.noises(data.declared, data.commit(lambda z: self.plan(data.declared, z)))
        return self.learn(data, noises, seed=seed, progress=progress)

    def learn(
        self, data: "Sensitive", noises: Sequence[float], *, seed: int | None = None, progress: Progress = silent
    ) -> Mixture:
        """The questions and what follows, at noises that were committed: other generators start here."""
        schema = data.resolve()
        rng, steps = np.random.default_rng(seed), len(noises) + 1
        standard = one_shot.standard(data, data.codec, noises[0]) if self.aligns(schema) else None
        vectors = Vectors(data.codec, label_place(self.condition, schema), standard)
        components = self.count(schema, noises, vectors.labels)
        noises = noises[int(self.aligns(schema)) :]
        middle = one_shot.middle(data, vectors, noises[0])
        progress(1, steps, {})
        sizes = one_shot.sizes(data, vectors, middle, self.quantile, noises[1])
        progress(2, steps, {})
        found = one_shot.basis(data, vectors, middle, sizes.clip, self.axes(vectors), noises[2])
        progress(3, steps, {})
        grouping: one_shot.Grouping = vectors.label_of
        if len(noises) > LEAST_QUESTIONS:
            grouping = one_shot.split(data, found, components, noises[3:-1], rng)
        groups = (vectors.labels, components)
        moments = one_shot.moments(data, found, grouping, math.prod(groups), noises[-1])
        progress(steps - 1, steps, {})
        means, factors = estimated(moments, components, np.diag(found.variances), found.deviation)
        counts = np.clip(moments.counts, 0, None).reshape(groups)
        k = len(found.axes)
        mixture = Mixture(
            schema=schema,
            vectors=vectors,
            labels=probabilities(counts.sum(1)),
            weights=np.stack([probabilities(each) for each in counts]),
            means=means.reshape(*groups, k),
            factors=factors.reshape(*groups, k, k),
            axes=found.axes,
            centre=middle.centre,
            greys=plain_greys(),
            offsets=np.zeros((vectors.labels, vectors.width - vectors.pixels)),
        )
        if self.match:
            mixture = agreed(mixture, sizes.greys, middle.tables, self.agreement_rows, rng)
        progress(steps, steps, {})
        return mixture

    def axes(self, vectors: Vectors) -> int:
        """How many: a public number."""
        return min(self.dimensions or (IMAGE_AXES if vectors.pixels else TABLE_AXES), vectors.width)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The arrays of the mixture."""
        standard = standard_of(tensors)
        if (self.align and standard is None) or (standard is not None and not self.aligns(schema)):
            raise BadInput(
                "the model and generator.align differ about whether pictures are moved; the release was altered"
            )
        vectors = Vectors(Codec(schema), label_place(self.condition, schema), standard)
        components = self.components or held(tensors, "weights", -1, MOST_COMPONENTS)
        return restored(schema, vectors, self.held_axes(vectors, tensors), components, tensors)

    def held_axes(self, vectors: Vectors, tensors: Tensors) -> int:
        """How many axes a model of these settings has: by default as its arrays say, since the default was another one once."""
        return self.axes(vectors) if self.dimensions else held(tensors, "axes", 0, self.axes(vectors))


def held(tensors: Tensors, name: str, axis: int, most: int) -> int:
    """The length of an array along an axis, where it is 1 to `most`; else 1, which no array then fits."""
    shape = tensors[name].shape if name in tensors else ()
    return shape[axis] if shape and 1 <= shape[axis] <= most else 1


GENERATOR = ClassGauss
