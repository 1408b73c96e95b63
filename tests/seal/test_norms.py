"""Clipping that no record can overflow, underflow or provoke a word from."""

import math
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from sweeps import heavy, sweep
from torch import nn

from synthdp.errors import BadInput
from synthdp.seal.clipping import LEAST_CLIP, MARGIN, MOST_CLIP, Automatic, Flat, PerGroup, check_clip, clipped
from synthdp.seal.gradients.question import Gradient
from synthdp.seal.marginals import Distance
from synthdp.seal.records import Records
from synthdp.seal.teachers.vote_aggregation import Shares
from synthdp.seal.vectors import Group, GroupMoments, GroupSums, Joint, Scaled, Sums


@pytest.mark.parametrize("clip", [LEAST_CLIP, 1e-30, 1.0, 5.0, 1e12])
@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-200, 1e-162, 1e-3, 1.0, 1e9, 1e153, 1e155, 1e160, 1e300])
def test_no_row_is_longer_than_the_clip_and_short_ones_are_left(clip, size):
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


@pytest.mark.parametrize("seed", sweep(range(20), lambda seed: seed < 5))
def test_clips_and_rows_of_any_magnitude_keep_the_bound_and_the_direction(seed):
    """A factor of clip / norm was a denormal number where rows are long and the clip is small: rounded up, by a factor of up to 1.96."""
    random = np.random.default_rng(seed)
    clip = 10.0 ** random.uniform(math.log10(LEAST_CLIP), math.log10(MOST_CLIP))
    rows = random.uniform(-1.99, 1.99, (2000, 3)) * 2.0 ** random.integers(-1074, 1024, (2000, 1))
    rows[::3] *= 2.0 ** random.integers(-300, 1, (len(rows[::3]), 3))  # numbers of unlike magnitude in one row
    found = clipped(rows, clip)
    for before, after in zip(rows.tolist(), found.tolist(), strict=True):
        exact = [Fraction(value) for value in before] if all(map(math.isfinite, before)) else [Fraction(0)] * 3
        square, bound = sum(value**2 for value in exact), Fraction(clip * MARGIN) ** 2
        if square > Fraction(sys.float_info.max) ** 2:
            assert after == [0.0] * 3
            continue
        assert sum(Fraction(value) ** 2 for value in after) <= bound * (1 + Fraction(1, 10**12))
        if square <= bound:
            assert after == before
        else:  # as long as the bound allows, in the same direction
            along = sum(Fraction(value) * own for value, own in zip(after, exact, strict=True))
            assert along > 0
            assert along**2 >= bound * square * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("clip", [LEAST_CLIP, 1.0, 3e5])
def test_rows_just_below_the_clip_are_shortened_to_the_margin_too(clip):
    """Otherwise rounding could carry a unit's contribution past the clip."""
    rows = np.eye(5) * clip * (1 - 1e-4 * np.array([0.0, 0.01, 0.5, 0.99, 1.01]))[:, None]
    found = np.linalg.norm(clipped(rows, clip) / clip, axis=1)
    assert found == pytest.approx([MARGIN] * 4 + [1 - 1.01e-4], rel=1e-12)


class Own(nn.Module):
    """A module that book-keeping cannot follow: gradients in full."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(2, 1)), nn.Parameter(torch.ones(1))

    def forward(self, rows):
        return rows @ self.weight + self.bias


@pytest.mark.parametrize(
    "size", [1e-300, heavy(1e-160), 1e-40, 1.0, heavy(1e40), 1e150, heavy(1e153), heavy(1e160), 1e300]
)
@pytest.mark.parametrize("clip", [LEAST_CLIP, 1e-30, 1.0, MOST_CLIP])
@pytest.mark.parametrize(
    "rule", [Flat(), PerGroup(groups=(("weight",), ("bias",)), shares=(1.0, 1e-50)), Automatic(gamma=LEAST_CLIP)]
)
@pytest.mark.parametrize("module", [nn.Linear(2, 1), Own()], ids=["one pass", "in full"])
def test_no_gradient_of_any_magnitude_is_longer_than_the_clip(module, rule, clip, size):
    """A norm whose square overflows leaves its unit out, so no factor is a denormal number."""
    for records in (1, 3):
        codes = np.array([[1, 2]] * records, np.int32)
        unit = Records(1, np.zeros(records, int), None, codes, 3, np.ones(1, np.uint64))
        question = Gradient(module, lambda own, rows: size * own(rows.double()).squeeze(1), clip, 1.0, rule)
        nobody, added = (question.bounded(rows) for rows in (unit.take(np.zeros(1, bool)), unit))
        moved = question.movement(nobody, added)
        assert moved / question.sensitivity <= (1 - 1e-4) * (1 + 1e-9)
        assert moved > 0 or not 1e-40 <= size <= 1e150


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
