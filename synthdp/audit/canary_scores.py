"""How well drawn records remember a canary: a score per canary, higher for "was trained on"."""

import math

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
PER_COLUMN = math.exp(-3)  # weight of a drawn record, for each column in which it differs
AT_ONCE = 1 << 22  # comparisons of records held in memory


def remembered(canaries: Codes, drawn: Codes) -> NDArray[np.float64]:
    """Kernel density of the drawn records at each canary, (canaries,): the mean of PER_COLUMN^(columns that differ).

    Nearly the nearest neighbour, with ties told apart by how many there are. Measured on canaries kept whole among drawn
    rows (AUROC: made-up 0.98, real 0.88; sums of log frequencies of pairs of columns 0.68 and 0.61) and on a DP-GAN without
    noise (0.57; all scores alike).
    """
    total = np.zeros(len(canaries))
    weights = PER_COLUMN ** np.arange(canaries.shape[1] + 1)
    step = max(1, AT_ONCE // max(1, len(canaries)))
    columns = [np.ascontiguousarray(canaries[:, place]) for place in range(canaries.shape[1])]
    for start in range(0, len(drawn), step):
        part = drawn[start : start + step]
        differing = np.zeros((len(canaries), len(part)), np.int16)
        for place, codes in enumerate(columns):
            differing += codes[:, None] != part[None, :, place]
        total += weights[differing].sum(axis=1)
    mean: NDArray[np.float64] = total / max(1, len(drawn))
    return mean
