"""Laplace noise for whole numbers that floating point cannot betray: an ideal real Laplace variable, rounded to a public grid.

As in `gaussian.py` the answer to a count x is the multiple of g nearest to x + L, L a *real* Laplace variable, and g a power of
two chosen from the public scale alone: a rounding of what the ideal mechanism says. Since g is at most 1, x is a multiple of g
and the rounding is that of L: the noise does not depend on x at all. (Where float64 cannot hold the sum it is rounded once more:
a function of the exact answer.)

|L| is -scale * ln U, for a uniform U that is an infinite string of bits. Its first 63 are read at once, and -ln U evaluated in
float64; where the nearest multiple is not certain from that (about one number in 10^6), the same string is read further, in
interval arithmetic. `error` bounds what is unknown or rounded: with the first 63 bits k, U lies in (k, k + 1) * 2^-63 and is
taken in the middle, so for U > 2^-20 the relative error of U is below 2^-43, and that of the logarithm's value, at most 44 in all,
below 2^-43 + 44 * 2^-52; beside U = 1 the complement is exact likewise. 2^-40 in units of the scale is asked for.
"""

import math

import numpy as np
from numpy.typing import NDArray

from synthdp.noise.gaussian import DEEPEST, FINE
from synthdp.noise.stream import PAIRS, Stream

Floats = NDArray[np.float64]
ERROR = 2.0**-40  # of -ln U from its first 63 bits, where they are at least LEAST
LEAST = 2**43  # of 2^63
MOST_SCALE = 2.0**40  # beyond it 63 bits never suffice


def grid(scale: float) -> float:
    """The step of the grid: the largest power of two that is at most 1 and at most scale / 64."""
    return math.ldexp(1.0, min(0, math.frexp(scale)[1] - FINE))


def rounded(counts: Floats, scale: float, source: Stream) -> Floats:
    """`counts` (n,), whole numbers, plus Laplace noise of `scale`, to the grid: (n,) float64."""
    step = grid(scale)
    steps = np.concatenate(
        [_steps(min(PAIRS, len(counts) - start), scale / step, source) for start in range(0, len(counts), PAIRS)]
        or [np.zeros(0)]
    )
    return counts + steps * step + 0.0


def _steps(count: int, scale: float, source: Stream) -> Floats:
    """`count` <= PAIRS Laplace variables of `scale`, rounded to whole numbers."""
    first = source.pairs
    words = source.words(count).reshape(2, -1).astype(np.int64)
    negative = words[0] < 0
    top = np.where(negative, ~words[0], words[0])  # 31 bits; the sign is the variable's own
    bits = (top << 32) | (words[1] & 0xFFFFFFFF)  # 63 bits
    below = (bits + 0.5) * 2.0**-63
    above = ((2**63 - 1 - bits) + 0.5) * 2.0**-63  # 1 - below, without the loss
    real = -scale * np.where(below < 0.5, np.log(below), np.log1p(-np.minimum(above, 0.5)))
    steps = np.rint(real)
    sure = (bits >= LEAST) & (np.abs(real - steps) < 0.5 - scale * ERROR)
    for place in np.flatnonzero(~sure):
        steps[place] = _nearest(first + int(place), int(bits[place]), scale, source)
    signed: Floats = np.where(negative, -steps, steps)
    return signed


def _nearest(pair: int, bits: int, scale: float, source: Stream) -> int:
    """The whole number nearest to -scale * ln U, by interval arithmetic on ever more bits of U."""
    from mpmath.ctx_iv import MPIntervalContext

    exact = MPIntervalContext()
    for depth in range(1, DEEPEST):
        bits = bits << 64 | int(source.further(np.array([pair], np.uint64), depth)[0, 0])
        if bits == 0:
            continue  # its logarithm has no bound yet
        exact.prec = 64 * depth + 128
        unit = exact.mpf(2) ** -(63 + 64 * depth)
        real = -exact.mpf(scale) * exact.log(exact.mpf([bits, bits + 1]) * unit)
        floor = math.floor(float(real.mid))
        for guess in (floor - 1, floor, floor + 1):
            if real - guess > -0.5 and real - guess < 0.5:  # of the whole interval
                return guess
    raise ArithmeticError("further bits do not decide: the stream of noise is broken")
