"""The questions of a one-shot generator, one after another, and what their noisy answers say. Clips and axes follow from
earlier answers; the noise of every question is fixed beforehand.

How far each noisy number is believed follows from its public deviation. Entries of a class's covariance are drawn towards the
pooled one by empirical Bayes (James & Stein 1961; Efron & Morris 1973): with prior variance theta c_i c_j, where c are the
pooled variances and theta is the one that all noisy entries together suggest, an entry of deviation s keeps the share
theta c_i c_j / (theta c_i c_j + s^2) of its distance. Means and moments of pixels are shrunk towards zero by the same rule,
separately in each band of spatial frequencies (`Bands`): a few bands hold most of what pictures show, and all hold the same noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

from synthdp.errors import BadInput
from synthdp.generators.gaussians.class_mixture import GREYS, LEVELS
from synthdp.generators.parts.aligned_pictures import FRAME, HIGHEST, LOWEST, frames, nearest_standard
from synthdp.generators.parts.record_vectors import Array, Labels, Vectors
from synthdp.seal import GroupMoments, GroupSums

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec
    from synthdp.seal import Sensitive

LEAST = 0.02  # of the pooled variance: what a class keeps in any direction
STRONG = 0.25  # of the entries, those of least noise, tell how far groups lie apart


@dataclass(frozen=True)
class Moments:
    """Noisy moments of groups, (groups,), (groups, k), (groups, k, k), and the deviation of the noise in a sum of x, and in a
    diagonal entry of a sum of x x^T (off the diagonal it is 1 / sqrt(2) of that)."""

    counts: Array
    sums: Array
    squares: Array
    sum_deviation: float
    square_deviation: float


class Bands:
    """The spatial frequencies of pictures in vectors: a band holds those that round to the same whole number of half waves along the
    longer side, in every channel. The entries that are not pixels form one more band. The cosine transform is orthonormal, so it does not
    change the distribution of the noise."""

    def __init__(self, vectors: Vectors) -> None:
        picture = vectors.codec.picture
        self.shape, self.pixels = (0, 0, 0) if picture is None else picture.shape, vectors.pixels
        height, width, channels = self.shape
        down, right = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        longer = max(height, width)
        waves = np.rint(np.hypot(down * longer / max(height, 1), right * longer / max(width, 1))).astype(np.int64)
        found, beside = np.repeat(waves.ravel(), channels), vectors.width - self.pixels
        self.of: Labels = np.concatenate([found, np.full(beside, found.max(initial=-1) + 1)])

    def turned(self, rows: Array, turn: Callable[..., Any] = dctn) -> Array:
        """Vectors (rows, width) with their pixels turned into cosine coefficients, or with `idctn` back into pixels."""
        found: Array = rows.copy()
        pictures = rows[:, : self.pixels].reshape(-1, *self.shape)
        found[:, : self.pixels] = turn(pictures, axes=(1, 2), norm="ortho").reshape(-1, self.pixels)
        return found

    def mean(self, pixels: Array, deviation: float) -> Array:
        """Pixels (pixels,) that have noise of `deviation`, with most of that noise taken out."""
        waves, of = self.turned(pixels[None])[0], self.of[: self.pixels]
        size = np.bincount(of).astype(np.float64)
        kept = _kept(np.bincount(of, np.square(waves)).astype(np.float64), size * deviation**2)
        found: Array = self.turned((waves * kept[of])[None], idctn)[0]
        return found

    def moment(self, matrix: Array, deviation: float) -> tuple[Array, float]:
        """A symmetric matrix with noise as in `principal`, in cosine coefficients and with most of its noise taken out; and how many
        entries with all their noise would have as much of it as the row that keeps most."""
        turned = self.turned(self.turned(matrix).T)
        bands = np.eye(int(self.of.max()) + 1)[self.of]
        size = np.bincount(self.of).astype(np.float64)
        noise = deviation**2 / 2 * (np.outer(size, size) + np.diag(size))
        kept = _kept(bands.T @ np.square(turned) @ bands, noise)
        turned *= kept[self.of][:, self.of]
        return turned, float((np.square(kept) @ size).max())


def _kept(energy: Array, noise: Array) -> Array:
    """The share of its length that a noisy vector keeps, given its squared length (`energy`) and what noise adds to that on average."""
    return np.maximum(0, 1 - noise / np.maximum(energy, 1e-300))


def principal(moment: Array, count: int, deviation: float, noisy: float | None = None) -> tuple[Array, Array]:
    """The first `count` eigenvectors (d, count) of a noisy symmetric matrix, and what the matrix without its noise has along
    them, (count,), zero where noise may be all.

    Noise of deviation s on the diagonal and s / sqrt(2) off it (d x d) turns an eigenvalue l into l + d s^2 / (2 l), and the
    vector so far that the matrix has l - d s^2 / (2 l) along it (Capitaine, Donati-Martin & Feral 2009; Benaych-Georges &
    Nadakuditi 2011, section 3.1); below s sqrt(d / 2) nothing can be found. `noisy` replaces d where noise was taken out.
    """
    # All of them, by divide and conquer: LAPACK's routines for a few, evr and evx, fail where many eigenvalues are nearly equal.
    values, vectors = np.linalg.eigh(moment)
    top, basis = values[::-1][:count], vectors[:, ::-1][:, :count]
    noise = (len(moment) if noisy is None else noisy) * deviation**2 / 2
    inside = np.maximum(np.square(np.maximum(top, 0)) - 4 * noise, 0)
    plain = (top + np.sqrt(inside)) / 2
    found = np.where(inside > 0, plain - noise / np.maximum(plain, 1e-300), 0.0)
    return basis, np.maximum(found, 0.0)


def estimated(moments: Moments, components: int, total: Array, total_deviation: float) -> tuple[Array, Array]:
    """Means (groups, k) and factors F (groups, k, k) with covariance F F^T; every `components` groups are one class.

    A component's covariance is drawn towards that within its class's components, and this towards that within all. `total` is
    the second moment of all groups together, over the number of records, known apart with noise of `total_deviation`.
    """
    counts = np.maximum(moments.counts, 1.0)
    n, groups = float(counts.sum()), len(counts)
    means = _means(moments, counts)
    outer = np.einsum("g,gi,gj->gij", counts, means, means)
    own = moments.square_deviation * groups**0.5 / n
    belief = 1.0 if own == 0 else total_deviation**2 / (own**2 + total_deviation**2)
    whole = belief * moments.squares.sum(0) / n + (1 - belief) * total
    root, inverse = _roots(whole - outer.sum(0) / n)
    apart = inverse @ (moments.squares - outer) @ inverse.T  # sums of products whose pooled mean is the identity
    classes, heads = apart.reshape(-1, components, *total.shape).sum(1), counts.reshape(-1, components).sum(1)
    deviation, start = moments.square_deviation, np.eye(len(total))
    middle = _drawn(classes, heads, start, inverse, deviation * components**0.5)
    found = middle if components == 1 else _drawn(apart, counts, np.repeat(middle, components, 0), inverse, deviation)
    values, vectors = np.linalg.eigh(found)
    factors: Array = root @ vectors * np.sqrt(np.clip(values, LEAST, None))[:, None, :]
    return means, factors


def _drawn(sums: Array, counts: Array, towards: Array, inverse: Array, deviation: float) -> Array:
    """Means of products (groups, k, k) in whitened axes, `sums` over `counts`, each entry drawn `towards` another matrix.

    The whitened differences have prior variance theta off the diagonal and 2 theta on it; noise in the axes before has
    `deviation` on the diagonal and 1 / sqrt(2) of it off.
    """
    scales = np.square(inverse).sum(1)  # one over the pooled variances
    shape = (1 + np.eye(len(scales))) / 2
    noise = np.outer(scales, scales) * shape * np.square(deviation / counts)[:, None, None]
    apart = sums / counts[:, None, None] - towards
    strong = noise[0] <= np.quantile(noise[0], STRONG)
    weights = counts[:, None] / counts.sum()
    excess = (weights * (np.square(apart) - noise)[:, strong]).sum() / (2 * shape[strong]).sum()
    prior = max(0.0, float(excess)) * 2 * shape
    return towards + prior / np.maximum(prior + noise, 1e-300) * apart


def _means(moments: Moments, counts: Array) -> Array:
    """Means, each coordinate drawn towards the mean of all by the same rule as covariances."""
    raw = moments.sums / counts[:, None]
    centre = moments.sums.sum(0) / counts.sum()
    noise = np.square(moments.sum_deviation / counts)[:, None]
    share = (counts / counts.sum())[:, None]
    prior = np.maximum(0, (share * (np.square(raw - centre) - noise)).sum(0))
    kept = prior / np.maximum(prior + noise, 1e-300)
    found: Array = centre + kept * (raw - centre)
    return found


def _roots(matrix: Array) -> tuple[Array, Array]:
    """R with R R^T the matrix, its eigenvalues at least a small share of the largest, and the inverse of R."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.maximum(values, max(1e-4 * float(values[-1]), 1e-9))
    return vectors * np.sqrt(values), (vectors / np.sqrt(values)).T


ENDS = np.geomspace(0.04, 1, 33)[1:]  # upper ends of the bins of lengths, over the longest possible one
ONE = 0.5  # the constant beside a vector whose sums also count, over the vector's bound
SHORTEST = 0.05  # of the clip of whole vectors: the least clip of projected ones

Grouping = Callable[[NDArray[Any]], Labels]


@dataclass(frozen=True)
class Middle:
    """The noisy number of records, the mean vector (width,), and noisy counts (labels, width - pixels) of each label and
    category."""

    count: float
    centre: Array
    tables: Array


@dataclass(frozen=True)
class Sizes:
    """A clip that about the asked share of the centred vectors is within, and noisy shares of the grey values."""

    clip: float
    greys: Array


@dataclass(frozen=True)
class Basis:
    """Axes (k, width), orthonormal; the variance along each (k,), known with noise of `deviation`; a clip of projections."""

    vectors: Vectors
    centre: Array
    axes: Array
    variances: Array
    deviation: float
    clip: float

    def of(self, codes: NDArray[Any]) -> Array:
        """Projections (rows, k) of centred vectors."""
        return (self.vectors.of(codes) - self.centre) @ self.axes.T

    def counted(self, codes: NDArray[Any]) -> Array:
        """A constant, then the projections: sums of it also count, and so do its second moments."""
        return np.hstack([np.full((len(codes), 1), self.one), self.of(codes)])

    @property
    def one(self) -> float:
        """The constant."""
        return ONE * self.clip

    @property
    def whole(self) -> float:
        """The clip of both together."""
        return math.hypot(self.one, self.clip)


def standard(data: "Sensitive", codec: "Codec", noise: float) -> Array:
    """The mean frame of pictures: one sum of a constant and their frames, each entry brought to 0 to 1."""
    picture = codec.picture
    if picture is None:
        raise BadInput("pictures are aligned, but the schema has no image column")

    def told(codes: NDArray[Any]) -> Array:
        own = frames(codes[:, picture.places].astype(np.uint8).reshape(len(codes), *picture.shape))
        return np.hstack([np.ones((len(codes), 1)), (own - LOWEST) / (HIGHEST - LOWEST)])

    answer = data.ask(GroupSums(told, 1 + FRAME, math.sqrt(1 + FRAME), noise))[0]
    return nearest_standard(answer[1:] / max(1.0, float(answer[0])) * (HIGHEST - LOWEST) + LOWEST)


def middle(data: "Sensitive", vectors: Vectors, noise: float) -> Middle:
    """One sum of vectors: a constant, the pixels, and the blocks in the place of the record's label."""
    one, pixels, labels = ONE * vectors.bound, vectors.pixels, vectors.labels
    beside = vectors.width - pixels

    def told(codes: NDArray[Any]) -> Array:
        rows = vectors.of(codes)
        placed = np.zeros((len(codes), labels, beside))
        placed[np.arange(len(codes)), vectors.label_of(codes)] = rows[:, pixels:]
        return np.hstack([np.full((len(codes), 1), one), rows[:, :pixels], placed.reshape(len(codes), labels * beside)])

    question = GroupSums(told, 1 + pixels + labels * beside, math.hypot(one, vectors.bound), noise)
    answer = data.ask(question)[0]
    count = max(1.0, float(answer[0]) / one)
    tables = answer[1 + pixels :].reshape(labels, beside)
    centre = np.concatenate([answer[1 : 1 + pixels], tables.sum(0)]) / count
    if pixels:
        centre[:pixels] = Bands(vectors).mean(centre[:pixels], question.clip * noise / count)
    centre[:pixels] = np.clip(centre[:pixels], -0.5, 0.5)
    centre[pixels:] = np.clip(centre[pixels:], 0, vectors.scale)
    return Middle(count, centre, tables / vectors.scale)


def sizes(data: "Sensitive", vectors: Vectors, found: Middle, quantile: float, noise: float) -> Sizes:
    """One sum of two tables a record: the bin of its centred length, and the shares of its grey values. Both are of L2 norm
    at most 1."""
    ends, levels = ENDS * 2 * vectors.bound, len(GREYS) - 1 if vectors.pixels else 0

    def told(codes: NDArray[Any]) -> Array:
        lengths = np.sqrt(np.square(vectors.of(codes) - found.centre).sum(1))
        rows = np.zeros((len(codes), len(ends) + levels))
        rows[np.arange(len(codes)), np.searchsorted(ends[:-1], lengths)] = 1
        if levels:
            cells = LEVELS[codes[:, vectors.image]] + levels * np.arange(len(codes))[:, None]
            counts = np.bincount(cells.ravel(), minlength=levels * len(codes))
            rows[:, len(ends) :] = counts.reshape(len(codes), levels) / vectors.pixels
        return rows

    answer = data.ask(GroupSums(told, len(ends) + levels, math.sqrt(2 if levels else 1), noise))[0]
    within = np.cumsum(answer[: len(ends)]) >= quantile * found.count
    return Sizes(float(ends[within.argmax() if within.any() else -1]), answer[len(ends) :])


def basis(data: "Sensitive", vectors: Vectors, found: Middle, clip: float, count: int, noise: float) -> Basis:
    """The principal axes of the second moment of centred vectors."""
    question = GroupMoments(lambda codes: vectors.of(codes) - found.centre, vectors.width, clip, noise)
    moment = data.ask(question)[0] / found.count
    deviation = noise * clip**2 / found.count
    total = float(np.trace(moment))
    bands = Bands(vectors) if vectors.pixels else None
    moment, noisy = (moment, float(len(moment))) if bands is None else bands.moment(moment, deviation)
    turned, along = principal(moment, count, deviation, noisy)
    axes = turned.T if bands is None else bands.turned(turned.T, idctn)
    share = float(along.sum()) / max(total, float(along.sum()), 1e-9)
    return Basis(vectors, found.centre, axes, along, deviation, clip * max(SHORTEST, math.sqrt(share)))


def split(
    data: "Sensitive", found: Basis, components: int, noises: Sequence[float], rng: np.random.Generator
) -> Grouping:
    """Which of the label's components a record is nearest to: k-means, begun at random around the label's mean. Groups are
    numbered label by label."""
    vectors, k = found.vectors, len(found.axes)
    labels, starts = vectors.labels, rng.standard_normal((vectors.labels, components, k))
    grouping: Grouping = vectors.label_of
    count = labels
    mean, centres = np.zeros((labels, k)), starts
    for turn, noise in enumerate(noises):
        answer = data.ask(GroupSums(found.counted, k + 1, found.whole, noise, grouping, count))
        counts = np.maximum(answer[:, :1] / found.one, 1.0)
        means = answer[:, 1:] / counts
        if turn == 0:
            mean, centres = means, means[:, None] + 0.7 * np.sqrt(found.variances) * starts
        else:
            centres = mean[:, None] + _believed(
                means.reshape(labels, components, k) - mean[:, None],
                counts.reshape(labels, components, 1),
                noise * found.whole,
            )
        grouping, count = _nearest(found, centres), labels * components
    return grouping


def _believed(apart: Array, counts: Array, deviation: float) -> Array:
    """Distances of means, each coordinate drawn towards zero as its noise suggests."""
    noise = np.square(deviation / counts)
    prior = np.maximum(0, ((np.square(apart) - noise) * counts).sum((0, 1)) / counts.sum())
    found: Array = apart * prior / np.maximum(prior + noise, 1e-300)
    return found


FINE = 2.0**-24  # of the longest vector


def _on_grid(values: Array, longest: float) -> Array:
    """The nearest multiples of a step, of which a vector of norm `longest` has about 2^24 at most. Products of two such vectors are
    exact, in whatever order they are added up."""
    step = FINE * 2.0 ** math.ceil(math.log2(max(longest, 1e-100)))
    return np.rint(values / step) * step


def _nearest(found: Basis, centres: Array) -> Grouping:
    """The component of its label that a record is nearest to. All is on grids, so that records beside it, whose number tells how a product
    is rounded, have no say where two are equally near."""
    components = centres.shape[1]
    whole = found.vectors.bound + float(np.linalg.norm(found.centre))
    axes = _on_grid(found.axes, 1.0)
    held = _on_grid(centres, float(np.sqrt(np.square(centres).sum(2)).max(initial=0.0)))
    squares = np.square(held).sum(2)

    def grouping(codes: NDArray[Any]) -> Labels:
        labels = found.vectors.label_of(codes)
        z = _on_grid(_on_grid(found.vectors.of(codes) - found.centre, whole) @ axes.T, whole)
        apart = squares[labels] - 2 * np.einsum("rmk,rk->rm", held[labels], z)
        nearest: Labels = labels * components + apart.argmin(1)
        return nearest

    return grouping


def moments(data: "Sensitive", found: Basis, grouping: Grouping, count: int, noise: float) -> Moments:
    """Counts, sums and second moments of groups in the basis, all of them entries of one matrix a group."""
    answer = data.ask(GroupMoments(found.counted, len(found.axes) + 1, found.whole, noise, grouping, count))
    deviation = noise * found.whole**2
    return Moments(
        answer[:, 0, 0] / found.one**2,
        answer[:, 0, 1:] / found.one,
        answer[:, 1:, 1:],
        deviation / math.sqrt(2) / found.one,
        deviation,
    )
