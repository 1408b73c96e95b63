"""How well drawn records remember a canary: a score per canary, higher for "was trained on"."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
HALF = 0.5  # added to each cell's count, so that an empty one has a logarithm


def remembered(canaries: Codes, drawn: Codes, sizes: Sequence[int]) -> NDArray[np.float64]:
    """Sum over pairs of columns of the log frequency of the canary's cell among drawn records, (canaries,).

    A canary of uniform codes falls into cells that are rare, and a model that was trained on it holds a little more of
    them. For one column that column alone counts.
    """
    pairs = list(combinations(range(len(sizes)), 2)) or [(0, 0)]
    total = np.zeros(len(canaries))
    for one, other in pairs:
        shape = sizes[one] * sizes[other]
        counts = np.bincount(drawn[:, one].astype(np.int64) * sizes[other] + drawn[:, other], minlength=shape)
        cells = canaries[:, one].astype(np.int64) * sizes[other] + canaries[:, other]
        total += np.log(counts[cells] + HALF) - np.log(len(drawn) + HALF * shape)
    return total
