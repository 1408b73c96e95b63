"""Sums and second moments by group: bounded movement, the noise that is charged, means over a unit's records, streaming."""

import math

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from scipy.stats import kstest, norm

from synthdp import BadInput, Budget
from synthdp.ledger.events import Entry, Gaussian
from synthdp.noise.noise import Noise
from synthdp.schema.codec import Codec
from synthdp.seal import vectors as second_moments
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.records import seal
from synthdp.seal.vectors import GroupMoments, GroupSums

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
CODEC = Codec(SCHEMA)
SIZES = np.array(CODEC.sizes, dtype=float)
WIDTH = len(SIZES)
CLIP = 1.5


def vectors(codes):
    """Codes around their middle: some shorter, some longer than the clip."""
    return 3 * (codes / SIZES - 0.4)


def ill(codes):
    return codes[:, CODEC.names.index("ill")].astype(np.int64)


def huge(codes):
    """Per record and by turns: too long to square, not a number, infinite, far too long."""
    kinds = np.array([1e200, math.nan, math.inf, 1e30])
    return np.ones((len(codes), 1)) * kinds[codes[:, 0] % 4][:, None]


QUESTIONS = {
    "sums": GroupSums(vectors, WIDTH, CLIP, 2.0, ill, 2),
    "moments": GroupMoments(vectors, WIDTH, CLIP, 2.0, ill, 2),
    "one sum": GroupSums(vectors, WIDTH, CLIP, 2.0),
    "one moment": GroupMoments(vectors, WIDTH, CLIP, 2.0),
    "huge sums": GroupSums(huge, 1, CLIP, 2.0, ill, 2),
    "huge moments": GroupMoments(huge, 1, CLIP, 2.0, ill, 2),
}


def sealed(frame):
    return seal(frame, SCHEMA, b"k" * 32).encoded_by(CODEC)


def by_hand(question, frame):
    """A Python loop over units and their records."""
    square = isinstance(question, GroupMoments)
    total = np.zeros((question.count, *(question.dimension,) * (2 if square else 1)))
    for _, mine in frame.groupby("patient", sort=False):
        codes = CODEC.encode(mine)
        for row, group in zip(question.vectors(codes), question.groups(codes), strict=True):
            x = row * min(1.0, question.clip * (1 - 1e-4) / np.linalg.norm(row))
            total[group] += (np.outer(x, x) if square else x) / len(mine)
    return total


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("rows", [0, 4, 90])
@pytest.mark.parametrize("extras", [1, 3, 5])
def test_one_unit_moves_the_answer_by_at_most_the_sensitivity(name, rows, extras):
    question, frame = QUESTIONS[name], make_frame(rows, repeats=2)
    new = make_frame(extras, seed=9).assign(patient="p-new", age=[30, 50, 99, 70, 5][:extras])
    more = pd.concat([frame, new], ignore_index=True) if rows else new
    moved = question.movement(question.bounded(sealed(frame)), question.bounded(sealed(more)))
    assert moved <= question.sensitivity * (1 + 1e-9)
    assert moved > 0 or name.startswith("huge")
    assert np.isfinite(question.bounded(sealed(more))).all()


@pytest.mark.parametrize("kind", [GroupSums, GroupMoments])
def test_a_long_vector_fills_the_sensitivity(kind):
    question = kind(lambda codes: 1e6 * (1 + codes), WIDTH, CLIP, 2.0)
    one = question.bounded(sealed(make_frame(1)))
    assert question.movement(np.zeros_like(one), one) == pytest.approx(question.sensitivity, rel=3e-4)


@pytest.mark.parametrize("name", ["sums", "moments"])
@pytest.mark.parametrize("chunk", [1, 7, 2048])
def test_bounded_values_are_those_of_a_loop_over_units(name, chunk, monkeypatch):
    monkeypatch.setattr(second_moments, "CHUNK", chunk)
    question, frame = QUESTIONS[name], make_frame(47, repeats=3)
    found = question.bounded(sealed(frame))
    np.testing.assert_allclose(found, by_hand(question, frame), rtol=0, atol=1e-12)
    assert np.abs(found[0]).sum() > 0 < np.abs(found[1]).sum()


def test_records_of_no_group_count_as_zero():
    question = GroupSums(vectors, WIDTH, CLIP, 2.0, lambda codes: np.where(ill(codes) == 1, 7, -1), 2)
    assert not question.bounded(sealed(make_frame(30))).any()
    assert not GroupMoments(vectors, WIDTH, CLIP, 2.0, question.groups, 2).bounded(sealed(make_frame(30))).any()


def test_the_noise_of_sums_is_what_is_charged():
    question, noise = QUESTIONS["sums"], Noise(1)
    exact = question.bounded(sealed(make_frame(30)))
    draws = np.stack([question.noised(exact, noise) - exact for _ in range(200)])
    assert question.events == [Gaussian(2.0)]
    assert kstest(draws.ravel(), norm(0, 2.0 * CLIP).cdf).pvalue > 1e-4
    assert np.abs(np.corrcoef(draws.reshape(200, -1).T) - np.eye(2 * WIDTH)).max() < 0.35


def test_the_noise_of_moments_is_what_is_charged():
    """As a vector of the upper triangle with off-diagonal entries times sqrt(2), whose L2 norm is the Frobenius norm, the
    noise is independent with deviation noise x clip^2."""
    question, noise = QUESTIONS["moments"], Noise(2)
    exact = question.bounded(sealed(make_frame(30)))
    draws = np.stack([question.noised(exact, noise) - exact for _ in range(200)])
    np.testing.assert_array_equal(draws + exact, np.swapaxes(draws + exact, 2, 3))
    diagonal = np.eye(WIDTH, dtype=bool)
    above = np.triu(~diagonal)
    assert question.events == [Gaussian(2.0)]
    assert kstest(draws[:, :, diagonal].ravel(), norm(0, 2.0 * CLIP**2).cdf).pvalue > 1e-4
    assert kstest(math.sqrt(2) * draws[:, :, above].ravel(), norm(0, 2.0 * CLIP**2).cdf).pvalue > 1e-4
    flat = np.concatenate([draws[:, 0][:, diagonal], draws[:, 0][:, above], draws[:, 1][:, above]], 1)
    assert np.abs(np.corrcoef(flat.T) - np.eye(flat.shape[1])).max() < 0.35


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_both_are_charged_as_one_gaussian_under_either_relation(relation):
    """Replacing a unit is removing one and adding one: at most twice the sensitivity, which is how the event is accounted."""
    budget = Budget(math.inf, 1e-5, relation)
    account = Account(budget, unit="patient")
    data = Sensitive(make_frame(40, repeats=2), SCHEMA, account, seed=1)
    data.commit(lambda _: (Entry(Gaussian(2.0), 2),))
    data.resolve()
    for name in ("sums", "moments"):
        data.ask(QUESTIONS[name])
    assert [(entry.event, entry.count) for entry in account.ledger.entries()] == [
        (Gaussian(2.0, relation=relation, unit="patient"), 2)
    ]


def test_bad_arguments_are_named():
    for kind in (GroupSums, GroupMoments):
        with pytest.raises(BadInput, match="clip"):
            kind(vectors, WIDTH, 0.0, 1.0)
        with pytest.raises(BadInput, match="clip"):
            kind(vectors, WIDTH, math.inf, 1.0)
        with pytest.raises(BadInput, match="noise"):
            kind(vectors, WIDTH, 1.0, -1.0)
        with pytest.raises(BadInput, match="dimension and count"):
            kind(vectors, WIDTH, 1.0, 1.0, ill, 0)
        with pytest.raises(BadInput, match="row of length"):
            kind(vectors, WIDTH + 1, 1.0, 1.0).bounded(sealed(make_frame(3)))
        with pytest.raises(BadInput, match="whole number per record"):
            kind(vectors, WIDTH, 1.0, 1.0, lambda codes: codes / 1.0, 2).bounded(sealed(make_frame(3)))
