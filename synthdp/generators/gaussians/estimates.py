"""Gaussians of classes from noisy moments: how far each noisy number is believed follows from its public deviation.

Entries of a class's covariance are drawn towards the pooled one by empirical Bayes (James & Stein 1961; Efron & Morris 1973):
with prior variance theta c_i c_j, where c are the pooled variances and theta is the one that all noisy entries together
suggest, an entry of deviation s keeps the share theta c_i c_j / (theta c_i c_j + s^2) of its distance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
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


def principal(moment: Array, count: int, deviation: float) -> tuple[Array, Array]:
    """The first `count` eigenvectors (d, count) of a noisy symmetric matrix, and what the matrix without its noise has along
    them, (count,), zero where noise may be all.

    Noise of deviation s on the diagonal and s / sqrt(2) off it (d x d) turns an eigenvalue l into l + d s^2 / (2 l), and the
    vector so far that the matrix has l - d s^2 / (2 l) along it (Capitaine, Donati-Martin & Feral 2009; Benaych-Georges &
    Nadakuditi 2011, section 3.1); below s sqrt(d / 2) nothing can be found.
    """
    values, vectors = np.linalg.eigh(moment)
    top, basis = values[::-1][:count], vectors[:, ::-1][:, :count]
    noise = len(moment) * deviation**2 / 2
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
    found: Array = towards + prior / np.maximum(prior + noise, 1e-300) * apart
    return found


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
