"""RON-Gauss: unit vectors projected at random, and one Gaussian per class (Chanyaswad, Liu & Mittal 2019, Algorithms 1 to 3).

Records are centred at a noisy mean, scaled to length 1 and projected onto a few random orthonormal axes, which are public: most
such projections look nearly Gaussian. Noisy counts, sums and second moments of each class in the projection are the Gaussians.
Three things differ from the paper. The noise is Gaussian, not Laplace. Categories are one-hot vectors. And rows are mapped back to
the columns of the table, where the paper leaves them in the projection: off the axes they lie at the mean, and of each column's
entries the largest is the category. Offsets make categories as frequent as the first question says, at no further charge.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.generators import Model, Progress, Tensors, Traits, probabilities, silent
from synthdp.generators.gaussians import one_shot
from synthdp.generators.gaussians.class_mixture import Mixture, agreed, plain_greys, restored
from synthdp.generators.gaussians.one_shot import Moments
from synthdp.generators.parts.gan_model import CLASSES, check_label, label_option, label_place
from synthdp.generators.parts.record_vectors import Array, Vectors
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, option, whole
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

QUESTIONS = 2


class Projection(one_shot.Basis):
    """Centred records of length 1 on random axes."""

    def of(self, codes: NDArray[Any]) -> Array:
        """Projections (rows, k); a record at the centre itself is zero."""
        rows = self.vectors.of(codes) - self.centre
        lengths = np.sqrt(np.square(rows).sum(1, keepdims=True))
        found: Array = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0) @ self.axes.T
        return found


@dataclass(frozen=True, kw_only=True)
class RONGauss:
    """Settings of RON-Gauss."""

    name: ClassVar[str] = "rongauss"
    traits: ClassVar[Traits] = Traits()

    dimensions: int = option(64, "number of random axes; all of the space if that is smaller", whole(most=1000))
    agreement_rows: int = option(
        4000, "rows drawn per label to make categories as frequent as the noisy tables say", whole()
    )
    mean: float = option(0.3, "share of the precision spent on the mean that records are centred at", fraction())
    condition: str | None = label_option(CLASSES)

    def __post_init__(self) -> None:
        check(self)

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, and there is another one."""
        check_label(self.condition, schema, beside=True)

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One Gaussian for the mean, one for the moments of all classes."""
        return merged(tuple(Entry(Gaussian(each)) for each in self.noises(noise)))

    def noises(self, noise: float) -> tuple[float, float]:
        """Of the mean and of the moments."""
        return noise / math.sqrt(self.mean), noise / math.sqrt(1 - self.mean)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Two questions, then the Gaussians."""
        of_mean, of_moments = self.noises(data.commit(lambda z: self.plan(data.declared, z)))
        schema = data.resolve()
        vectors = Vectors(data.codec, label_place(self.condition, schema))
        middle = one_shot.middle(data, vectors, of_mean)
        progress(1, QUESTIONS, {})
        rng = np.random.default_rng(seed)
        axes = random_axes(vectors.width, self.axes(vectors), rng)
        inside = Projection(vectors, middle.centre, axes, np.zeros(len(axes)), 0.0, 1.0)
        moments = one_shot.moments(data, inside, vectors.label_of, vectors.labels, of_moments)
        means, factors = gaussians(moments)
        # What one-hot vectors, which are all of one length, have left around a mean: the root of their mean squared distance.
        length = math.sqrt(max(0.0, vectors.scale**2 * len(vectors.blocks) - float(np.square(middle.centre).sum())))
        progress(QUESTIONS, QUESTIONS, {})
        mixture = Mixture(
            schema=schema,
            vectors=vectors,
            labels=probabilities(moments.counts),
            weights=np.ones((vectors.labels, 1)),
            means=length * means[:, None],
            factors=length * factors[:, None],
            axes=axes,
            centre=middle.centre,
            greys=plain_greys(),
            offsets=np.zeros((vectors.labels, vectors.width)),
        )
        return agreed(mixture, np.zeros(0), middle.tables, self.agreement_rows, rng)

    def axes(self, vectors: Vectors) -> int:
        """How many: a public number."""
        return min(self.dimensions, vectors.width)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The arrays of the Gaussians."""
        vectors = Vectors(Codec(schema), label_place(self.condition, schema))
        return restored(schema, vectors, self.axes(vectors), 1, tensors)


def random_axes(width: int, count: int, rng: np.random.Generator) -> Array:
    """(count, width), orthonormal, of uniform direction: the Q of a Gaussian matrix, with the signs of R's diagonal."""
    q, r = np.linalg.qr(rng.standard_normal((width, count)))
    return (q * np.sign(np.diag(r))).T


def gaussians(moments: Moments) -> tuple[Array, Array]:
    """Means (classes, k), and factors F (classes, k, k) with covariance F F^T: the nearest to the noisy one that has no negative
    eigenvalue."""
    counts = np.maximum(moments.counts, 1.0)
    means = moments.sums / counts[:, None]
    covariances = moments.squares / counts[:, None, None] - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(covariances)
    return means, vectors * np.sqrt(np.maximum(values, 0))[:, None, :]


GENERATOR = RONGauss
