"""The stream of noise: distribution, independence, processes, rehearsals, coins (laws 9, 12, 15, 33)."""

import copy
import itertools
import os
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from synthdp.errors import BadInput
from synthdp.noise.noise import Noise

REJECT = 1e-4  # seeds are fixed: a test either always passes or never


@pytest.fixture
def noise():
    return Noise(seed=11)


def test_shapes_of_uniforms_and_deviations_that_are_refused(noise):
    for shape in (0, 1, 5, (3, 5), (0, 4), ()):
        assert noise.uniform(shape).shape == ((shape,) if isinstance(shape, int) else shape)
    for deviation in (-1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="deviation"):
            noise.added(np.zeros(3), deviation)


def test_uniforms_and_bits(noise):
    draws = noise.uniform(200_000)
    assert draws.min() >= 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > REJECT
    assert len(noise.bits(33)) == 33
    assert noise.bits(16) != noise.bits(16)
    counts = np.bincount(np.frombuffer(noise.bits(256_000), np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > REJECT


def test_rehearsals_repeat_and_releases_do_not():
    zeros = np.zeros(99)
    assert np.array_equal(Noise(seed=7).added(zeros, 1.0), Noise(seed=7).added(zeros, 1.0))
    assert not np.array_equal(Noise(seed=7).added(zeros, 1.0), Noise(seed=8).added(zeros, 1.0))
    assert not np.array_equal(Noise().added(zeros, 1.0), Noise().added(zeros, 1.0))
    assert Noise(seed=0).rehearsal
    assert not Noise().rehearsal
    keys = np.arange(50, dtype=np.uint64)
    assert np.array_equal(Noise(seed=7).coins(keys, 3), Noise(seed=7).coins(keys, 3))
    assert not np.array_equal(Noise().coins(keys, 3), Noise().coins(keys, 3))


def test_a_place_has_a_stream_of_its_own_and_leaves_coins_alone():
    keys = np.arange(50, dtype=np.uint64)
    whole, resumed = Noise(seed=7), Noise(seed=7)
    unit = whole.bits(32)
    assert resumed.bits(32) == unit
    plain = Noise(seed=7)
    coins = plain.coins(keys, 3)
    drawn, zeros = [], np.zeros(99)
    for place in (0, 4, 9):
        whole.turn(place)
        drawn.append(whole.added(zeros, 1.0))
    resumed.turn(9)
    assert np.array_equal(resumed.added(zeros, 1.0), drawn[2])
    assert np.array_equal(whole.coins(keys, 3), coins)
    assert np.array_equal(resumed.coins(keys, 3), coins)
    fresh = Noise(seed=7).added(zeros, 1.0)
    for one, other in itertools.combinations([fresh, *drawn], 2):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / 99**0.5
    for place in (9, 3, -1):
        with pytest.raises(BadInput, match="place"):
            whole.turn(place)


def test_a_released_stream_turns_to_fresh_entropy():
    streams = [Noise() for _ in range(3)]
    keys = np.arange(50, dtype=np.uint64)
    halves = [stream.coins(keys, 2) for stream in streams]
    for stream in streams:
        stream.turn(5)
    assert len({stream.bits(32) for stream in streams}) == 3
    assert len({stream.coins(keys, 3).tobytes() for stream in streams} | {half.tobytes() for half in halves}) == 6
    assert streams[0]._master == b""  # nothing from which the past could be made again


def test_no_global_random_state_is_read_or_moved():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    Noise().added(np.zeros(100), 1.0)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def test_a_stream_cannot_be_copied():
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            clone(Noise())


def in_a_fork(action):
    """What `action` returns, as bytes, in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, action())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_never_repeats_its_parent():
    noise, keys = Noise(), np.arange(4, dtype=np.uint64)
    noise.bits(16)
    noise.coins(keys, 0)
    children = [in_a_fork(lambda: noise.bits(32) + noise.coins(keys, 1).tobytes()) for _ in range(2)]
    own = noise.bits(32) + noise.coins(keys, 1).tobytes()
    answers = [*children, own]
    assert len({answer[:32] for answer in answers}) == 3
    assert len({answer[32:] for answer in answers}) == 3

    def rehearse():
        try:
            seeded.bits(1)
        except BadInput:
            return b"refused"
        return b"repeated"

    seeded = Noise(seed=1)
    assert in_a_fork(rehearse) == b"refused"


def test_coins_belong_to_their_unit():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**64, 3000, dtype=np.uint64)
    alone, company, mixed = (Noise(seed=5) for _ in range(3))
    for step in (0, 1, 2, 7):
        coins = alone.coins(keys, step)
        company.added(np.zeros(10), 1.0)  # what else is drawn does not matter
        assert np.array_equal(company.coins(np.append(keys, np.uint64(5)), step)[:-1], coins)
        shuffled = rng.permutation(len(keys))
        assert np.array_equal(mixed.coins(keys[shuffled], step), coins[shuffled])
    assert alone.coins(keys[:0], 8).shape == (0,)
    with pytest.raises(BadInput, match="step"):
        alone.coins(keys, -1)


@pytest.mark.parametrize("count", [0.5, 3 + 2.0**-40, 2.0**41, np.nan, np.inf])
def test_laplace_noise_is_added_to_whole_numbers_alone(noise, count):
    """Its grid is whole numbers' own: what lies between would show in the last bits of an answer."""
    with pytest.raises(BadInput, match="whole numbers"):
        noise.added_laplace(np.array([1.0, count]), 2.0)


def test_coins_are_of_a_key_of_their_own():
    """With the stream's key, the coins of unit 0 would be the first words of the stream, and the noise would tell who was in a sample."""
    keys = np.zeros(1, np.uint64)
    coins = [int(Noise(seed=7).coins(keys, step)[0]) for step in (0, 1)]
    words = np.frombuffer(Noise(seed=7).bits(4096), np.uint64).tolist()
    assert not set(coins) & set(words)


def test_coins_see_keys_that_changed_in_place(noise):
    keys = np.arange(10, dtype=np.uint64)
    noise.coins(keys, 0)  # steps 0 and 1 share a block, which is kept
    keys += np.uint64(1)
    again = noise.coins(keys, 1)
    assert np.array_equal(again, Noise(seed=11).coins(np.arange(1, 11, dtype=np.uint64), 1))


def test_coins_are_uniform_and_independent_between_steps(noise):
    keys = np.arange(100_000, dtype=np.uint64)
    rows = [noise.coins(keys, step) / 2.0**64 for step in range(4)]
    for row in rows:
        assert stats.kstest(row, "uniform").pvalue > REJECT
    for one in range(4):
        for other in range(one):
            assert abs(np.corrcoef(rows[one], rows[other])[0, 1]) < 4.5 / len(keys) ** 0.5
    sampled = noise.coins(keys, 9) < np.uint64(0.01 * 2**64)
    assert abs(int(sampled.sum()) - 1000) < 5 * (1000 * 0.99) ** 0.5
