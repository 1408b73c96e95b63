"""Noise on a public grid: exact, whatever the sum is, and the same as a recomputation from the bits (laws 9, 15)."""

import itertools
import os

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from synthdp.errors import BadInput
from synthdp.noise import gaussian
from synthdp.noise.gaussian import ERROR, ERROR_DOUBLE, LEAST, MOST, WIDTH, Grid
from synthdp.noise.noise import Noise
from synthdp.noise.stream import PAIRS, Stream

REJECT = 1e-4  # seeds are fixed: a test either always passes or never
TYPES = [torch.float32, torch.float64]


def recomputed(value, deviation, step, words, further, *, sine):
    """The step nearest to value + noise, from the first 287 bits of both uniforms, with 400 bits of precision."""
    with mpmath.workprec(400):
        word, turn = int(words[0]), int(words[1])
        radius_bits, angle_bits = (word if word >= 0 else -1 - word), turn
        for more in further:
            radius_bits, angle_bits = radius_bits * 2**64 + int(more[0]), angle_bits * 2**64 + int(more[1])
        width = mpmath.mpf(2) ** (-31 - 64 * len(further))
        radius = mpmath.sqrt(-2 * mpmath.log((radius_bits + mpmath.mpf(0.5)) * width))
        angle = mpmath.pi * (angle_bits + mpmath.mpf(0.5)) * width
        normal = radius * (mpmath.sin(angle) if sine else mpmath.cos(angle))
        return int(mpmath.nint((mpmath.mpf(value) + mpmath.mpf(deviation) * normal) / mpmath.mpf(step)))


def all_recomputed(values, deviation, dtype, seed):
    """What `Noise(seed)` must answer to at most 2 * PAIRS values, in steps."""
    stream, half = Noise(seed)._stream, (len(values) + 1) // 2
    words = stream.words(half).reshape(2, -1)
    further = [stream.further(np.arange(half, dtype=np.uint64), depth) for depth in range(1, 5)]
    step = Grid.of(deviation, dtype).step
    return [
        recomputed(value, deviation, step, words[:, i % half], [more[i % half] for more in further], sine=i >= half)
        for i, value in enumerate(values)
    ]


def sums_of_all_sizes(count, dtype, seed):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=count) * 10.0 ** rng.integers(-12, 5, count)).to(dtype)


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("deviation", [1.0, 0.37, 3e-7, 41_000.0])
def test_answers_are_those_of_a_recomputation_in_high_precision(dtype, deviation):
    values = sums_of_all_sizes(1501, dtype, 3) * deviation
    answers = gaussian.rounded(values, deviation, Noise(8)._stream)
    steps = all_recomputed(values.double().numpy(), deviation, dtype, 8)
    assert (answers.double() / Grid.of(deviation, dtype).step).tolist() == steps


def test_deviations_too_small_for_a_finer_grid_are_exact_too():
    """The grid ends at 2^-1022; beside a boundary the sum alone fills float32, and must not hide the noise."""
    deviation, step = 2.0**-1049, 2.0**-1022
    assert Grid.of(deviation, torch.float64) == Grid(step=step, scale=2.0**-27)
    values = (0.5 + np.arange(-500, 500) * 2.0**-29) * step
    answers = gaussian.rounded(torch.from_numpy(values), deviation, Noise(8)._stream)
    assert (answers.numpy() / step).tolist() == all_recomputed(values, deviation, torch.float64, 8)
    assert 0.3 < (answers > 0).double().mean() < 0.7


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bound", ["ERROR", "ERROR_DOUBLE"])
def test_every_precision_gives_the_same_answers(dtype, bound, monkeypatch):
    """All pairs in float64, then all in interval arithmetic: not one answer changes."""
    values = sums_of_all_sizes(40_001 if bound == "ERROR" else 1_501, dtype, 4)
    fast = gaussian.rounded(values, 1.7, Noise(9)._stream)
    monkeypatch.setattr(gaussian, "ERROR", 1.0)
    monkeypatch.setattr(gaussian, bound, 1.0)
    assert torch.equal(gaussian.rounded(values, 1.7, Noise(9)._stream), fast)


class Scripted:
    """A source that says what it is told to."""

    def __init__(self, radius, angle, further=0):
        self.pairs, self._pair, self._further = 0, (radius, angle), further

    def words(self, pairs):
        return np.repeat(np.array(self._pair, np.int32), pairs)

    def further(self, pairs, depth):  # noqa: ARG002
        return np.full((len(pairs), 2), self._further, np.uint64)


EXTREMES = [0, 1, -1, -2, 2**20, 2**20 - 1, 2**30, 2**31 - 1, -(2**31), 2**31 - 2**20, 715827882]


@pytest.mark.parametrize("further", [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
def test_the_rarest_words_are_answered_exactly(further):
    for radius, angle in itertools.product(EXTREMES, EXTREMES):
        if further == 0 and radius in (0, -1):
            continue  # the uniform is zero: infinitely many zero bits, which has probability 0
        if angle in (-(2**31), 2**30) and further == 0:
            continue  # a sine or cosine of exactly 0, likewise: from sum 0.5 steps no bits could decide
        answers = gaussian.rounded(torch.zeros(2, dtype=torch.float64), 1.0, Scripted(radius, angle, further))
        for sine in (False, True):
            expected = recomputed(0.0, 1.0, 2.0**-6, (radius, angle), [(further, further)] * 4, sine=sine)
            assert float(answers[int(sine)]) * 64 == expected, (radius, angle, sine)


def test_sums_at_a_boundary_are_decided_by_more_bits(monkeypatch):
    """Sums from which the noise leads to within 2^-50 of a boundary between two steps: float64 cannot tell."""
    asked = []
    nearest = gaussian.nearest
    monkeypatch.setattr(gaussian, "nearest", lambda *a, **k: asked.append(a) or nearest(*a, **k))
    rng = np.random.default_rng(5)
    for turn in range(200):
        source = Scripted(
            *(int(word) for word in rng.integers(-(2**31), 2**31, 2)), int(rng.integers(0, 2**64, dtype=np.uint64))
        )
        words = np.array(source._pair, np.int32)[:, None]
        radius, angle, _ = gaussian.polar_double(words, source.further(np.zeros(1, np.uint64), 1), 64.0)
        for sine, wave in ((0, np.cos), (1, np.sin)):
            sums = np.zeros(2)
            sums[sine] = (0.5 - (radius * wave(angle))[0] % 1.0) / 64 + turn % 3 * 2.0**-58
            answer = gaussian.rounded(torch.from_numpy(sums), 1.0, source)[sine]
            further = [(source._further, source._further)] * 4
            assert float(answer) * 64 == recomputed(sums[sine], 1.0, 2.0**-6, words[:, 0], further, sine=bool(sine))
    assert len(asked) >= 400


class Deep(Scripted):
    """Its further bits are zero at first."""

    def further(self, pairs, depth):
        return np.full((len(pairs), 2), 0 if depth < 3 else self._further, np.uint64)


def test_bits_are_read_until_they_decide():
    """An angle of a quarter turn and 2^-159 or more of it: the cosine is below zero, which 128 further bits do not show."""
    for sums, steps in ((0.5, 0), (-0.5, -1), (1.5, 1)):
        answers = gaussian.rounded(torch.full((2,), sums / 64), 1.0, Deep(715827882, 2**30, 12345))
        assert float(answers[0]) * 64 == steps
    with pytest.raises(ArithmeticError, match="do not decide"):
        gaussian.rounded(torch.full((2,), 0.5 / 64), 1.0, Deep(715827882, 2**30))


def test_no_pair_s_further_bits_are_another_s(monkeypatch):
    monkeypatch.setattr(gaussian, "ERROR", 1.0)  # every pair asks
    noise = Noise(22)
    for place in (1, 2):
        noise.turn(place)
        stream, asked = noise._stream, []
        further = stream.further
        stream.further = lambda pairs, depth, asked=asked, further=further: (
            asked.append(pairs),
            further(pairs, depth),
        )[1]
        for count in (1, 7, 2 * PAIRS + 9, 100):
            noise.added(np.zeros(count), 1.0)
        pairs = np.concatenate(asked)
        assert np.array_equal(pairs, np.arange(len(pairs)))
        assert len(pairs) == 1 + 4 + PAIRS + 5 + 50
    streams = [Stream(b"a secret", purpose) for purpose in (b"one", b"two")]
    blocks = [stream.further(np.arange(9, dtype=np.uint64), depth) for stream in streams for depth in (1, 2)]
    words = [stream.words(36).view(np.uint64) for stream in streams]
    everything = np.concatenate([*(block.ravel() for block in blocks), *words])
    assert len(np.unique(everything)) == len(everything)


def test_the_error_of_float32_is_half_of_what_is_allowed_for():
    """Both ends of what the unread bits may be, at random words and at the awkward ones."""
    rng = np.random.default_rng(6)
    edge, far = round(2**31 * (1 - np.exp(-(LEAST**2) / 2))), int(2**31 * np.exp(-(MOST**2) / 2))
    places = np.concatenate(
        [rng.integers(far, 2**31 - edge, 1_000_000), far + np.arange(5000), 2**31 - edge - np.arange(5000)]
    )
    turns = rng.integers(-(2**31), 2**31, len(places))
    turns[::3] = np.resize([0, -1, 2**30, -(2**30), 2**31 - 1, -(2**31), 2**29], len(turns[::3]))
    places[1::2] = ~places[1::2]
    words = np.stack([places, turns]).astype(np.int32)
    radius, angle = gaussian.polar(torch.from_numpy(words.reshape(-1).copy()), 1.0)
    held = ((radius > LEAST) & (radius < MOST)).numpy()
    assert held.mean() > 0.99
    worst = 0.0
    for bits in (0, 2**64 - 1):
        further = np.full((len(places), 2), bits, np.uint64)
        precise, turned, _ = gaussian.polar_double(words, further, 1.0)
        for wave, exact in ((torch.cos, np.cos), (torch.sin, np.sin)):
            error = np.abs((radius * wave(angle)).double().numpy() - precise * exact(turned))
            worst = max(worst, float(error[held].max()))
    assert ERROR / 20 < worst < ERROR / 2


def test_the_error_of_float64_is_far_below_what_is_allowed_for():
    rng = np.random.default_rng(7)
    words = np.concatenate(
        [np.array(list(itertools.product(EXTREMES, EXTREMES))).T, rng.integers(-(2**31), 2**31, (2, 300))], 1
    ).astype(np.int32)
    further = rng.integers(0, 2**64, (words.shape[1], 2), np.uint64)
    radius, angle, sure = gaussian.polar_double(words, further, 128.0)
    with mpmath.workprec(200):
        for i in np.flatnonzero(sure):
            word, turn = (int(value) for value in words[:, i])
            below = ((word if word >= 0 else ~word) + int(further[i, 0]) * mpmath.mpf(2) ** -64) * WIDTH
            exact = 128 * mpmath.sqrt(-2 * mpmath.log(below))
            turned = mpmath.pi * (turn + int(further[i, 1]) * mpmath.mpf(2) ** -64) * WIDTH
            assert abs(exact * mpmath.cos(turned) - radius[i] * np.cos(angle[i])) < ERROR_DOUBLE / 16
            assert abs(exact * mpmath.sin(turned) - radius[i] * np.sin(angle[i])) < ERROR_DOUBLE / 16
    assert sure.mean() > 0.9


@pytest.mark.parametrize("dtype", TYPES)
def test_what_can_be_reached_is_the_grid_whatever_the_sum_is(dtype):
    noise = Noise(10)
    for deviation in (1.0, 0.1, 7.3e4):
        step = Grid.of(deviation, dtype).step
        assert deviation / 128 < step <= deviation / 64
        for value in (0.0, -0.0, 1.0, -1 / 3, 1e-30, 12_345.678):
            answers = gaussian.rounded(torch.full((20_001,), value * deviation, dtype=dtype), deviation, noise._stream)
            steps = answers.double() / step
            assert torch.equal(steps, steps.round())
            assert not bool((torch.signbit(answers) & (answers == 0)).any()), "the sign of a zero tells the sum's"


def test_plain_noise_tells_what_the_hardened_one_hides():
    """Mironov 2012: beside 1, float64 holds no bits below 2^-53; beside 0 it does."""

    def fine(answers):
        return float(np.mean(np.ldexp(answers, 53) % 1 != 0))

    noise, rng, values = Noise(11), np.random.default_rng(11), (np.zeros(50_000), np.ones(50_000))
    plain = [fine(value + rng.normal(size=len(value))) for value in values]
    assert plain[0] > plain[1] + 0.2
    assert [fine(noise.added(value, 1.0)) for value in values] == [0, 0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("offset", [0.0, 0.3, -0.5])
def test_each_step_has_its_exact_probability(dtype, offset):
    step = Grid.of(1.0, dtype).step
    answers = gaussian.rounded(torch.full((2_000_000,), offset * step, dtype=dtype), 1.0, Noise(12)._stream)
    steps, counts = np.unique(np.rint(answers.double().numpy() / step).astype(int), return_counts=True)
    edges = (np.arange(-210, 211) + 0.5 - offset) * step  # 3.3 deviations; the tails are one cell each
    probabilities = np.diff(np.concatenate([[0.0], stats.norm.cdf(edges), [1.0]]))
    cells = np.zeros(len(probabilities))
    np.add.at(cells, np.clip(steps + 210, 0, 421), counts)
    assert stats.chisquare(cells, len(answers) * probabilities).pvalue > REJECT


@pytest.mark.parametrize(
    "add",
    [lambda noise, n: noise.added(np.zeros(n), 2.5), lambda noise, n: noise.added_flat(torch.zeros(n), 2.5).numpy()],
)
def test_the_noise_added_is_the_noise_accounted(add):
    """A rounded normal plus a uniform of one step's width is normal to 1e-6 in distribution."""
    count = 1_000_001
    draws = add(Noise(13), count).astype(np.float64)
    smooth = draws + np.random.default_rng(0).uniform(-0.5, 0.5, count) * Grid.of(2.5, torch.float64).step
    assert stats.kstest(smooth / 2.5, "norm").pvalue > REJECT
    assert np.var(draws) == pytest.approx(2.5**2, rel=5 * (2 / count) ** 0.5)
    for bound in (3.0, 4.0, 4.5):
        expected = count * 2 * stats.norm.sf(bound)
        assert abs(np.sum(np.abs(smooth) > bound * 2.5) - expected) < 5 * expected**0.5


def test_zero_sums_get_noise_that_is_independent_across_steps_places_and_streams():
    noise, other, count = Noise(14), Noise(), 2 * PAIRS + 7  # more than one block
    draws = [noise.added_flat(torch.zeros(count), 1.0) for _ in range(2)]
    for place in (1, 2):
        noise.turn(place)
        draws.append(noise.added_flat(torch.zeros(count), 1.0))
    draws += [other.added_flat(torch.zeros(count), 1.0), Noise().added_flat(torch.zeros(count), 1.0)]
    resumed = Noise(14)
    resumed.turn(2)
    assert torch.equal(resumed.added_flat(torch.zeros(count), 1.0), draws[3])
    # Nine of them with fresh noise: together they fail once in 5 * 10^7 runs
    for one, two in itertools.combinations(draws, 2):
        assert abs(np.corrcoef(one, two)[0, 1]) < 6 / count**0.5
    half, first = (count + 1) // 2, draws[0].numpy()
    for shape in (lambda x: x, np.square, np.abs):  # cosine and sine of a pair; neighbours
        assert abs(np.corrcoef(shape(first[: half - 1]), shape(first[half:]))[0, 1]) < 5 / half**0.5
        assert abs(np.corrcoef(shape(first[1:]), shape(first[:-1]))[0, 1]) < 5 / count**0.5


def test_the_sum_moves_nothing_in_the_stream():
    one, two = Noise(15), Noise(15)
    one.added(np.zeros(9999), 1.0)
    two.added(np.linspace(-3, 3, 9999), 1.0)
    assert one.bits(32) == two.bits(32)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_adds_other_noise_than_its_parent():
    noise = Noise()
    noise.added(np.zeros(3), 1.0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, noise.added(np.zeros(64), 1.0).tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() not in (b"", noise.added(np.zeros(64), 1.0).tobytes())


@pytest.mark.parametrize("deviation", [5e-324, 1e-310, 1e-200, 1e-38, 1e-3, 1e30, 1e38, 1e200, 1.7e308])
def test_every_deviation_and_every_sum_is_answered(deviation):
    values = np.array([0.0, 5e-324, -1e-310, 1e-40, 1.0, -1e16, 1e30, 1.7e308, -1.7e308])
    noise = Noise(16)
    answers = noise.added(np.tile(values, 50), deviation).reshape(50, -1)
    assert not np.isnan(answers).any()
    if deviation <= 1e200:
        assert np.isfinite(answers).all()
        assert (np.abs(answers - values) <= 8 * deviation + 2.0**-1022 + np.spacing(np.abs(values))).all()
    small = noise.added_flat(torch.tensor([0.0, 1e-45, -3.0, 3e38]), deviation)
    assert small.dtype == torch.float32
    assert not bool(torch.isnan(small).any())


@pytest.mark.parametrize(
    "deviation", [5e-324, 1e-40, 2.0**-119, 1e-30, 1e-3, 1.0, 1.99, 1e6, 1e30, 2.0**120, 1e38, 1e200]
)
def test_noise_is_the_same_whichever_type_the_sums_come_in(deviation):
    """The type of a sum of gradients depends on how many parts the units fell into, so it must not show."""
    bits = np.random.default_rng(20).integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32)  # every exponent
    # A signalling one is no result of arithmetic, and numpy warns of it
    bits = np.where(np.isnan(bits), np.float32(np.nan), bits)
    near = np.random.default_rng(21).normal(size=60_000) * min(deviation, 1e30)
    sums = torch.from_numpy(np.concatenate([bits, near.astype(np.float32), np.float32([0.0, -0.0, 1e-45, 3.4e38])]))
    short, wide = (Noise(22).added_flat(each, deviation).numpy().tobytes() for each in (sums, sums.double()))
    assert short == wide


@pytest.mark.parametrize("dtype", TYPES)
def test_a_sum_that_is_not_finite_says_nothing(dtype):
    broken = torch.tensor([float("nan"), float("inf"), -float("inf")] * 200, dtype=dtype)
    assert torch.equal(
        gaussian.rounded(broken, 1.0, Noise(17)._stream),
        gaussian.rounded(torch.zeros_like(broken), 1.0, Noise(17)._stream),
    )


def test_shapes_and_zero_deviation():
    noise = Noise(18)
    for shape in ((), (0,), (1,), (2,), (3, 5), (2, 0)):
        values = np.ones(shape)
        assert noise.added(values, 1.0).shape == shape
        kept = noise.added(values, 0.0)
        assert np.array_equal(kept, values)
        assert not np.shares_memory(kept, values)
    for count in (0, 1, 2, 3):
        assert noise.added_flat(torch.zeros(count, dtype=torch.float64), 1.0).shape == (count,)
    sums = torch.tensor([0.1, -0.0])
    assert torch.equal(noise.added_flat(sums, 0.0), sums)
    for deviation in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="deviation"):
            noise.added(np.ones(3), deviation)
        with pytest.raises(BadInput, match="deviation"):
            noise.added_flat(torch.ones(3), deviation)


def test_sums_are_not_written_to():
    flat, table = torch.linspace(-1, 1, 999), np.linspace(-1, 1, 999)
    before = flat.clone(), table.copy()
    Noise(19).added_flat(flat, 1.0)
    Noise(19).added(table, 1.0)
    assert torch.equal(flat, before[0])
    assert np.array_equal(table, before[1])


def test_few_pairs_need_a_second_look(monkeypatch):
    looked = []
    precise = gaussian.polar_double
    monkeypatch.setattr(
        gaussian, "polar_double", lambda words, *rest: looked.append(words.shape[1]) or precise(words, *rest)
    )
    Noise(20).added_flat(torch.zeros(1_000_000), 1.99)  # the widest bound in steps
    assert 0 < sum(looked) / 500_000 < 0.008


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_the_noise_is_the_same():
    sums = torch.linspace(-3, 3, 10_001)
    there = Noise(21).added_flat(sums.cuda(), 1.0)
    assert there.is_cuda
    assert torch.equal(there.cpu(), Noise(21).added_flat(sums, 1.0))
