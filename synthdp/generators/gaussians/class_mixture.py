"""A mixture of Gaussians per class in a linear basis, and how records are drawn from it: grey values and categories by tables
that make the draws agree with noisy shares."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.generators import Tensors, check_distributions, check_tensors, probabilities
from synthdp.generators.parts.aligned_pictures import FRAME, nearest_standard
from synthdp.generators.parts.record_vectors import Array, Labels, Vectors
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

ROWS = 4096  # drawn at a time
FINE = 1024  # steps of 1 in the table of grey values
# Lower ends of the bins of grey values; black and white have their own
GREYS = np.array([0, *range(1, 250, 8), 255, 256])
LEVELS = np.searchsorted(GREYS, np.arange(256), side="right") - 1  # the bin of each grey value
ROUNDS = 8  # of the search for offsets
NEVER = 1e3  # beyond all values
STANDARD = "standard"


@dataclass(frozen=True)
class Mixture:
    """What a fit returns. A row: a label, a component of it, z ~ N(mean, factor factor^T), the vector centre + z axes; of it a
    grey value by the table `greys` (2 FINE,) of values -1 .. 1, and in each block the largest entry plus `offsets`."""

    schema: Schema
    vectors: Vectors
    labels: Array  # (labels,), the distribution of the label
    weights: Array  # (labels, components), that of the component
    means: Array  # (labels, components, k)
    factors: Array  # (labels, components, k, k)
    axes: Array  # (k, width)
    centre: Array  # (width,)
    greys: Array  # (2 FINE,)
    offsets: Array  # (labels, width - pixels)

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """Rows drawn independently."""
        rng, codec = np.random.default_rng(seed), self.vectors.codec
        parts = [np.zeros((0, len(codec.sizes)), codec.dtype)]
        for start in range(0, rows, ROWS):
            labels = rng.choice(len(self.labels), size=min(ROWS, rows - start), p=probabilities(self.labels))
            parts.append(self.codes(self.drawn(labels, rng), labels))
        return codec.decode(np.concatenate(parts), rng, first_row=first_row)

    def drawn(self, labels: Labels, rng: np.random.Generator) -> Array:
        """A vector (rows, width) for each label."""
        ends = np.cumsum(self.weights, axis=1)
        ends /= ends[:, -1:]
        component = (rng.random((len(labels), 1)) > ends[labels, :-1]).sum(1)
        z = rng.standard_normal((len(labels), len(self.axes)))
        place = labels * self.weights.shape[1] + component
        for each in np.unique(place):
            mine, one = place == each, np.divmod(each, self.weights.shape[1])
            z[mine] = self.means[one] + z[mine] @ self.factors[one].T
        return self.centre + z @ self.axes

    def codes(self, values: Array, labels: Labels) -> NDArray[Any]:
        """The codes that vectors stand for."""
        pixels = self.vectors.pixels
        greys = self.greys.astype(np.uint8)[_steps(self.vectors.placed(values))]
        offsets = self.offsets[labels]
        chosen = [
            (values[:, block] + offsets[:, block.start - pixels : block.stop - pixels]).argmax(1)
            for block in self.vectors.blocks
        ]
        return self.vectors.codes(greys, chosen, labels)

    def tensors(self) -> Tensors:
        """The arrays above, and the standard that pictures are moved to."""
        own = {name: getattr(self, name) for name in shapes(self.vectors, len(self.axes), self.weights.shape[1])}
        alignment = self.vectors.alignment
        return own if alignment is None else {**own, STANDARD: alignment.standard}


def shapes(vectors: Vectors, axes: int, components: int) -> dict[str, tuple[int, ...]]:
    """Of the arrays of a `Mixture`."""
    groups = (vectors.labels, components)
    return {
        "labels": (vectors.labels,),
        "weights": groups,
        "means": (*groups, axes),
        "factors": (*groups, axes, axes),
        "axes": (axes, vectors.width),
        "centre": (vectors.width,),
        "greys": (2 * FINE,),
        "offsets": (vectors.labels, vectors.width - vectors.pixels),
    }


def restored(schema: Schema, vectors: Vectors, axes: int, components: int, tensors: Tensors) -> Mixture:
    """The mixture of these arrays; raises `BadInput` where names, shapes or numbers do not fit."""
    implied = shapes(vectors, axes, components)
    check_tensors(tensors, implied if vectors.alignment is None else {**implied, STANDARD: (FRAME,)})
    check_distributions(tensors, ["labels", "weights"])
    return Mixture(schema, vectors, **{name: np.asarray(tensors[name], np.float64) for name in implied})


def standard_of(tensors: Tensors) -> Array | None:
    """What pictures were moved to, of the arrays of a mixture; None: they were not, or releases did not do so yet."""
    if STANDARD not in tensors:
        return None
    check_tensors({STANDARD: tensors[STANDARD]}, {STANDARD: (FRAME,)})
    return nearest_standard(np.asarray(tensors[STANDARD], np.float64))


def plain_greys() -> Array:
    """The table that turns v / 255 - 1/2 into v."""
    return np.clip(np.rint(((np.arange(2 * FINE) + 0.5) / FINE - 0.5) * 255), 0, 255)


def agreed(mixture: Mixture, greys: Array, tables: Array, rows: int, rng: np.random.Generator) -> Mixture:
    """The mixture with tables by which `rows` draws of it have the grey values' noisy shares, one for each bin of `GREYS`, and
    each label's noisy counts (labels, width - pixels) of categories."""
    vectors = mixture.vectors
    labels = rng.choice(len(mixture.labels), size=rows, p=probabilities(mixture.labels))
    if vectors.pixels:
        values = vectors.placed(mixture.drawn(labels, rng))
        mixture = replace(mixture, greys=_matched(values, greys))
    if not vectors.blocks:
        return mixture
    offsets = np.zeros_like(mixture.offsets)
    for label in range(vectors.labels):
        values = mixture.drawn(np.full(rows, label), rng)
        for block in vectors.blocks:
            inside = slice(block.start - vectors.pixels, block.stop - vectors.pixels)
            offsets[label, inside] = _offsets(values[:, block], probabilities(tables[label, inside]))
    return replace(mixture, offsets=offsets)


def _steps(values: Array) -> NDArray[np.intp]:
    return np.clip((values + 1) * FINE, 0, 2 * FINE - 1).astype(np.intp)


def _matched(values: Array, counts: Array) -> Array:
    """The rising table that gives values the distribution of `counts`."""
    own = np.bincount(_steps(values).ravel(), minlength=2 * FINE)
    rank = (np.cumsum(own) - own / 2) / own.sum()
    cumulative = np.concatenate([[0.0], np.cumsum(probabilities(counts))])
    found: Array = np.clip(np.floor(np.interp(rank, cumulative, GREYS)), 0, 255)
    return found


def _offsets(values: Array, shares: Array) -> Array:
    """What to add to the columns so that each is a row's largest as often as `shares` say.

    One column after the other: it wins a row where its offset exceeds by how much the best of the others leads, so its share of rows
    is met at that quantile of the leads. The others lose what it gains; a few rounds of all settle it.
    """
    offsets = np.where(shares > 0, 0.0, -NEVER)
    present = np.flatnonzero(shares > 0)
    if len(present) < 2:
        return offsets
    moved = values + offsets
    for _ in range(ROUNDS):
        for place in present:
            best = np.partition(moved, -2, axis=1)[:, -2:]
            others = np.where(moved[:, place] == best[:, 1], best[:, 0], best[:, 1])
            offsets[place] = np.quantile(others - values[:, place], shares[place])
            moved[:, place] = values[:, place] + offsets[place]
    return np.where(shares > 0, offsets - offsets[present].mean(), -NEVER)
