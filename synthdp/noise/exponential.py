"""One of several candidates, drawn in proportion to the exponential of a number, by a draw that floating point cannot betray.

Cumulated float64 chances, and Gumbel noise in float64, both give some candidates a chance of zero or one that is off by more than
rounding allows (Ilvento 2020). Here each exponential is a whole number, of which the likeliest has `BITS` + `DEPTH` / ln 2 bits;
a candidate is drawn by a uniform whole number below their sum, so that the chances are those numbers' shares, exactly. A
truncated exponential is off by less than 2^-BITS of itself.

Exponents more than `DEPTH` below the largest count as that far below it. The largest of several numbers moves no further than the
farthest of them, so that clamped exponents move no further than they did before; what they lose is a chance of e^-DEPTH.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 128  # of the least likely candidate
DEPTH = 128.0  # nats
WIDTH = BITS + 192  # of the likeliest: 128 nats are below 185 bits


def drawn(exponents: NDArray[np.float64], bits: Callable[[int], bytes]) -> int:
    """The place of one of the `exponents` (candidates,), finite numbers; `bits(n)` are n random bytes."""
    sums: list[int] = []
    total = 0
    for weight in weights(exponents):
        total += weight
        sums.append(total)
    size = (total.bit_length() + 7) // 8
    excess = 8 * size - total.bit_length()
    while True:
        lot = int.from_bytes(bits(size), "little") >> excess
        if lot < total:
            return next(place for place, end in enumerate(sums) if lot < end)


def weights(exponents: NDArray[np.float64]) -> list[int]:
    """Whole numbers in proportion to the exponentials, of at least `BITS` bits each."""
    exact = _context()
    below = np.maximum(exponents - exponents.max(), -DEPTH)
    return [int(exact.ldexp(exact.exp(float(each)), WIDTH)) for each in below]


@lru_cache(maxsize=1)
def _context() -> Any:
    from mpmath.ctx_mp import MPContext

    exact = MPContext()
    exact.prec = WIDTH + 32
    return exact
