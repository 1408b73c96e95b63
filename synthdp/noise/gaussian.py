"""Gaussian noise that floating point cannot betray: an ideal real Gaussian, rounded to a public grid, sampled exactly.

The answer to a sum x is the multiple of g nearest to x + N, where N is a *real* N(0, deviation^2) and g, a power of two,
is chosen from the public deviation alone. Rounding what an ideal Gaussian mechanism says is post-processing, so its exact
accounting stays valid, and every multiple of g can be reached whatever x is: there are no low-order bits in which x could
be read (Mironov 2012; Jin, McMurtry, Rubinstein & Ohrimenko 2022, arXiv 2107.10138; Haney et al. 2022, arXiv 2207.13793,
whose interval refining is the same idea for the Laplace distribution). The rounding adds at most g^2 / 12 to the variance:
2e-5 of it.

How it is exact. Box & Muller (1958) makes two normals from two uniforms, which are infinite strings of bits of which
words of the stream are the beginning. In float32 an error of at most E covers everything that is unknown or rounded
(`ERROR`). Where x + N is further than E from each boundary between two multiples of g, the answer is that of the ideal
Gaussian. Elsewhere (about one pair in 250) the same strings are read 64 bits further and evaluated in float64, then in
interval arithmetic with ever more bits, until the answer is certain.

How E comes about, in units of u = 2^-24, with R the radius and 64 <= s = deviation / g < 128. Let log, sin and cos be right to 4
units in the last place, 8u; the vector libraries beneath torch (SLEEF, MKL) promise 1. The uniform's relative error is 2u,
plus 8u for the bits not read where it is least (2^-11); its logarithm's absolute error is as much. Hence R is wrong by
10u / R at R = 3.9 and by 2.1u / R at R = 1/32, and relatively by 8u / 2 + 2u for the rest; the angle, up to pi, by
3 pi u; products and the last sum by 5u. Together at most 103 s u < s * 2^-17. Outside of 1/32 < R < 3.9 nothing is
concluded from float32. In float64 the same sum is below s R * 2^-44 where both the uniform and its complement exceed
2^-40; 2^-30 is asked for.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthdp.noise.stream import PAIRS, Stream

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Places = NDArray[np.intp]

FINE = 7  # the grid is this many powers of two below the deviation's next one: deviation / 128 < g <= deviation / 64
NORMAL = {torch.float32: (-126, 120), torch.float64: (-1022, 1017)}  # exponents of g: g and 1 / g are normal numbers
ERROR = 2.0**-17  # of the float32 evaluation, in units of the deviation
LEAST_SCALE = 64.0  # a tinier deviation's scale is smaller, but not the error of the last sum
LEAST, MOST = 2.0**-5, 3.9  # radii for which that holds
WIDTH = 2.0**-31  # of the uniforms that share one word
ERROR_DOUBLE = 2.0**-30  # of the float64 evaluation, in units of g
LEAST_DOUBLE = 2.0**-40  # uniforms for which that holds, and their complements
DEEPEST = 64  # further words after which something is wrong: reached with a probability below 2^-4000


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Where answers can lie: multiples of `step`, a power of two; `scale` is the deviation in steps, below 128."""

    step: float
    scale: float

    @classmethod
    def of(cls, deviation: float, dtype: torch.dtype) -> "Grid":
        """The grid of a deviation > 0, for sums of that type."""
        least, most = NORMAL[dtype]
        step = math.ldexp(1.0, min(max(math.frexp(deviation)[1] - FINE, least), most))
        return cls(step=step, scale=deviation / step)


def fits(deviation: float) -> bool:
    """Whether float32 can hold the grid of this deviation, and the noise on it."""
    return 2.0**-119 <= deviation <= 2.0**120


def rounded(sums: Tensor, deviation: float, source: Stream) -> Tensor:
    """`sums` (n,), float32 or float64 on the CPU, plus N(0, deviation^2), to the grid: (n,), of the same type.

    `deviation` > 0, and for float32 `fits` it. An answer that the type cannot hold exactly (more than 2^24 or 2^53
    steps) is rounded to it once more; beyond its range it is infinite. A sum that is not finite counts as 0.
    """
    grid = Grid.of(deviation, sums.dtype)
    count = len(sums)
    half = (count + 1) // 2  # number i and number half + i are cosine and sine of one pair
    first = source.pairs
    answers = torch.empty_like(sums)
    doubts = []
    for start in range(0, half, PAIRS):
        stop = min(start + PAIRS, half)
        parts = slice(start, stop), slice(half + start, min(half + stop, count))
        words = source.words(stop - start)
        unsure = _in_float32(sums, answers, parts, grid, torch.from_numpy(words))
        doubts.append((unsure + start, words.reshape(2, -1)[:, unsure]))
    if any(len(places) for places, _ in doubts):
        places = np.concatenate([places for places, _ in doubts])
        bits = np.concatenate([words for _, words in doubts], 1), source.further(places.astype(np.uint64) + first, 1)
        _in_float64(sums.numpy(), answers.numpy(), half, places, bits, grid, source, first)
    return answers


def _in_float32(sums: Tensor, answers: Tensor, parts: tuple[slice, slice], grid: Grid, words: Tensor) -> Places:
    """Answer one block of pairs, and say which of them are in doubt."""
    radius, angle = polar(words, grid.scale)
    # How far each pair is from certainty: at `margin` or beyond, nothing is. First by its radius, then by its rests.
    margin = 0.5 - ERROR * max(grid.scale, LEAST_SCALE)
    centre, reach = (MOST + LEAST) / 2 * grid.scale, (MOST - LEAST) / 2 * grid.scale
    doubt = radius.sub(centre).abs_().mul_(margin / reach)
    for part, wave in zip(parts, (torch.cos, torch.sin), strict=True):
        whole = torch.mul(sums[part], 1.0 / grid.step, out=answers[part]).add_(0.0)  # no -0: its sign would tell
        rest = whole.frac()
        whole.sub_(rest)  # in steps, towards zero; both are exact
        held = len(rest)
        rest = rest.float().addcmul_(wave(angle[:held]), radius[:held])
        steps = rest.round()
        torch.maximum(doubt[:held], rest.sub_(steps).abs_(), out=doubt[:held])
        whole.add_(steps).mul_(grid.step)
    return np.flatnonzero(~(doubt.numpy() < margin))  # NaN is doubt


def polar(words: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The radii times `scale`, and the angles, of words of both uniforms, in float32."""
    half = len(words) // 2
    radius = words[:half].float().add_(0.5).abs_().mul_(WIDTH).log_().mul_(-2.0 * scale**2).sqrt_()
    return radius, words[half:].float().mul_(math.pi * WIDTH)


def _in_float64(
    sums: NDArray[Any],
    answers: NDArray[Any],
    half: int,
    places: Places,
    bits: tuple[NDArray[np.int32], Words],
    grid: Grid,
    source: Stream,
    first: int,
) -> None:
    """Answer again for the pairs at `places`, from further bits of the same uniforms, and if need be from more."""
    words, further = bits
    radius, angle, sure = polar_double(words, further, grid.scale)
    where = np.stack([places, places + half])
    held = where < len(sums)  # the last pair may have no second number
    where = np.where(held, where, places)
    exact = sums[where].astype(np.float64)
    whole, rest = _in_steps(exact, grid)
    real = rest + radius * np.stack([np.cos(angle), np.sin(angle)])
    steps = np.rint(real)
    for sine, index in np.argwhere(held & ~(sure & (np.abs(real - steps) < 0.5 - ERROR_DOUBLE))):
        pair = int(places[index]) + first
        steps[sine, index] = nearest(
            pair, words[:, index], float(rest[sine, index]), grid.scale, source, sine=bool(sine)
        )
    # x / g beyond the type's range: x is a multiple of g, and so large that noise cannot move it
    exact = np.where(np.isinf(whole), exact, (whole + steps) * grid.step)
    with np.errstate(over="ignore"):  # of float32; in float64 nothing is said either
        answers[where[held]] = exact[held]


def _in_steps(sums: Floats, grid: Grid) -> tuple[Floats, Floats]:
    """Whole steps of each sum, towards zero, and what is left, exactly; infinite where the quotient is."""
    with np.errstate(over="ignore"):
        steps = np.where(np.isfinite(sums), sums, 0.0) * (1.0 / grid.step)
    whole = np.trunc(steps) + 0.0  # never -0
    return whole, np.where(np.isinf(steps), 0.0, steps - np.where(np.isinf(steps), 0.0, whole))


def polar_double(words: NDArray[np.int32], further: Words, scale: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """`polar` in float64, of words (2, n) and further bits (n, 2), and whether ERROR_DOUBLE holds for them."""
    fractions = ((further.T >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    begin = magnitude(words[0].astype(np.int64))
    below = (begin + fractions[0]) * WIDTH
    above = ((2**31 - 1 - begin) + (1.0 - fractions[0])) * WIDTH  # 1 - below, without the loss
    logarithm = np.where(below < 0.5, np.log(below), np.log1p(-np.minimum(above, 0.5)))
    angle = (words[1] + fractions[1]) * (math.pi * WIDTH)
    return scale * np.sqrt(-2.0 * logarithm), angle, np.minimum(below, above) > LEAST_DOUBLE


def magnitude(word: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 31 bits with which the radius's uniform begins: a word's sign says nothing, w and -1 - w are one."""
    return np.where(word < 0, ~word, word)


def nearest(pair: int, word: NDArray[np.int32], rest: float, scale: float, source: Stream, *, sine: bool) -> int:
    """The whole number nearest to rest + scale * normal, by interval arithmetic on ever more bits of the uniforms.

    `word` holds the pair's two words. Each turn reads 64 further bits of both uniforms, and computes with as many more.
    """
    from mpmath.ctx_iv import MPIntervalContext

    exact = MPIntervalContext()
    below, turn = int(magnitude(word[:1].astype(np.int64))[0]), int(word[1])
    for depth in range(1, DEEPEST):
        bits = source.further(np.array([pair], np.uint64), depth)[0]
        below, turn = below << 64 | int(bits[0]), turn << 64 | int(bits[1])
        if below == 0:
            continue  # its logarithm has no bound yet
        exact.prec = 64 * depth + 96
        unit = exact.mpf(2) ** -(31 + 64 * depth)
        radius = exact.sqrt(-2 * exact.log(exact.mpf([below, below + 1]) * unit))
        angle = exact.mpf([turn, turn + 1]) * unit * exact.pi
        real = exact.mpf(rest) + exact.mpf(scale) * radius * (exact.sin(angle) if sine else exact.cos(angle))
        floor = math.floor(float(real.mid))
        for guess in (floor - 1, floor, floor + 1):  # float() may have rounded up to a whole number or a boundary
            if real - guess > -0.5 and real - guess < 0.5:  # of the whole interval
                return guess
    raise ArithmeticError("further bits do not decide: the stream of noise is broken")
