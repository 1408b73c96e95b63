"""Rows clipped to an L2 norm, whatever they hold: without overflow, underflow, or a word about it."""

import math

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput

Rows = NDArray[np.float64]
MARGIN = 1 - 1e-4  # contributions are clipped a little below the bound, so that rounding cannot carry them past it
LEAST_CLIP = 1e-100  # of smaller ones the squares, and the noise of second moments, would underflow to zero


def clipped(rows: Rows, clip: float) -> Rows:
    """Rows (n, dimension) scaled down to L2 norm `clip` x `MARGIN` where they are longer; a row that is not finite, or whose norm is
    not, becomes zero. Norms are taken in units of the row's largest magnitude, since squares of tiny numbers vanish."""
    with np.errstate(all="ignore"):  # a warning would tell of a record
        peaks = np.abs(rows).max(axis=1, initial=0.0)
        norms = peaks * np.linalg.norm(rows / np.where(peaks > 0, peaks, 1.0)[:, None], axis=1)
    finite = np.isfinite(norms)
    long = finite & (norms > clip * MARGIN)
    scale = np.ones(len(rows))
    scale[long] = clip * MARGIN / norms[long]
    found: Rows = np.where(finite[:, None], rows, 0.0) * scale[:, None]
    return found


def check_clip(clip: float) -> None:
    """Raises `BadInput` for a clip that is none, or too small to be told from zero."""
    if not 0 < clip < math.inf:
        raise BadInput(f"clip must be a finite number greater than 0, got {clip}")
    if clip < LEAST_CLIP:
        raise BadInput(f"clip must be {LEAST_CLIP:g} or more, got {clip}: scale what is clipped")
