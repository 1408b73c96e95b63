"""Clipping that no record can overflow, underflow or provoke a word from."""

import math
import warnings

import numpy as np
import pytest
from torch import nn

from synthdp.errors import BadInput
from synthdp.seal.clipping import LEAST_CLIP, MARGIN, Automatic, Flat, PerGroup, check_clip, clipped
from synthdp.seal.gradients.question import Gradient
from synthdp.seal.marginals import Distance
from synthdp.seal.records import Records
from synthdp.seal.teachers.vote_aggregation import Shares
from synthdp.seal.vectors import Group, GroupMoments, GroupSums, Joint, Scaled, Sums


@pytest.mark.parametrize("clip", [LEAST_CLIP, 1e-30, 1.0, 5.0, 1e12])
@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-200, 1e-162, 1e-3, 1.0, 1e9, 1e160, 1e300])
def test_no_row_is_longer_than_the_clip_and_short_ones_are_left(clip, size):
    if size > 0 and clip / size < 1e-300:
        pytest.skip("the ratio itself is no number: such rows become zero")
    rows = np.random.default_rng(0).standard_normal((40, 7)) * size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clipped(rows, clip)
    for before, after in zip(rows.tolist(), found.tolist(), strict=True):
        norm = math.hypot(*before)
        assert math.hypot(*after) <= clip * MARGIN * (1 + 1e-12)
        if norm <= clip * MARGIN:
            assert after == before
        else:
            assert np.allclose(np.array(after) / (clip * MARGIN), np.array(before) / norm, rtol=1e-9, atol=1e-12)


def far(codes):
    return 1e9 * codes.astype(float)


def far_loss(module, codes):
    return 1e9 * module(codes.double()).squeeze(1)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 40.0])
def test_what_a_unit_adds_stays_a_ten_thousandth_below_the_sensitivity(clip):
    """Laws 12 and 47: however long its vector or gradient is. A larger margin is as good, a smaller one is none."""
    unit = Records(1, np.zeros(1, int), None, np.array([[1, 2]], np.int32), 1, np.ones(1, np.uint64))
    deep = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    for question in (
        Sums((Group(far, 2, clip, 1.0), Group(far, 2, 3 * clip, 1.0))),
        Joint((Scaled(far, 2), Scaled(far, 2, alpha=3.0)), clip, 1.0),
        GroupSums(far, 2, clip, 1.0),
        GroupMoments(far, 2, clip, 1.0),
        *(Gradient(deep, far_loss, clip, 1.0, rule) for rule in (Flat(), PerGroup(), Automatic())),
    ):
        nobody, added = (question.bounded(rows) for rows in (unit.take(np.zeros(1, bool)), unit))
        moved = question.movement(nobody, added)
        assert 0.99 < moved / question.sensitivity <= (1 - 1e-4) * (1 + 1e-9)


def test_what_is_not_finite_is_zero_without_a_word():
    rows = np.array([[math.nan, 1.0], [math.inf, -math.inf], [1.7e308, 1.7e308], [0.0, 0.0], [3.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clipped(rows, 5.0 / MARGIN)
    assert found.tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [3, 4]]


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan, 1e-180, 1e154, 1e308])
def test_clips_that_are_none_are_refused(clip):
    """Two units of length 1e308 add up to infinity, and so do two moments of length 1e154: that would tell one from two."""
    with pytest.raises(BadInput, match="clip must be"):
        check_clip(clip)
    for ask in (lambda: GroupMoments(len, 1, clip, 1.0), lambda: Shares(1.0, "margins", clip)):
        with pytest.raises(BadInput, match="clip must be"):
            ask()


def test_a_distance_to_more_units_than_float64_can_tell_apart_is_refused():
    with pytest.raises(BadInput, match="rounded too coarsely"):
        Distance(((0,),), (2,), (np.array([2.0**60, 0.0]),), 1.0)


def test_shares_of_many_records_are_added_up_without_drift():
    """A third added 900,000 times was 300,000.00001: sums of shares are counts divided once."""
    units = 300_000
    owner = np.append(np.repeat(np.arange(units), 3), units)
    codes = np.zeros((len(owner), 1), np.int32)
    records = Records(units + 1, owner, None, codes, 3, np.arange(units + 1, dtype=np.uint64))
    assert records.weights([(0,)], [1])[0].tolist() == [units + 1]
