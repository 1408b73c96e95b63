"""White-box audits of DP-SGD: gradient canaries through `sample` and `gradient`, in many trainings and in one."""

import dataclasses

import numpy as np
import pytest
from gate import DELTA, GATE_ERROR
from scipy import stats

from synthdp.auditing import one_run, white_box
from synthdp.auditing.white_box import Training
from synthdp.privacy.questions.gradient import Gradient

RUNS, TUNING = 1000, 300
WHOLE = Training(noise=1.0)
SAMPLED = Training(noise=0.8, rate=0.3, steps=3)


def audited(training):
    return white_box.audit(training, DELTA, runs=RUNS, tuning_runs=TUNING, gate_error=GATE_ERROR, workers=1)


def halve(monkeypatch):
    honest = Gradient.noised

    def halved(self, bounded, noise):
        return honest(dataclasses.replace(self, noise=self.noise / 2), bounded, noise)

    monkeypatch.setattr(Gradient, "noised", halved)


def unclip(monkeypatch):
    honest = Gradient.bounded

    def unclipped(self, records):
        return honest(dataclasses.replace(self, clip=4 * self.clip), records)

    monkeypatch.setattr(Gradient, "bounded", unclipped)


def take_all(monkeypatch):
    honest = white_box.Sensitive.sample

    def sample(self, rate):
        batch = honest(self, rate)
        monkeypatch.setattr(self, "_sampled", lambda records, _: records)
        return batch

    monkeypatch.setattr(white_box.Sensitive, "sample", sample)


@pytest.mark.parametrize("training", [WHOLE, SAMPLED, Training(noise=2.0, steps=4)], ids=str)
def test_dp_sgd_keeps_its_claim_and_the_audit_comes_near_it(training):
    found = audited(training)
    assert not found.verdict.contradicted
    assert found.verdict.epsilon <= found.epsilon
    if found.claim.mu is not None:
        assert found.gaussian_epsilon >= 2.0 / 4.377 * found.epsilon


@pytest.mark.parametrize(
    ("broken", "training"),
    [(halve, WHOLE), (halve, SAMPLED), (unclip, WHOLE), (take_all, Training(noise=0.8, rate=0.1, steps=3))],
    ids=["halved noise", "halved noise, sampled", "no clip", "no sampling"],
)
def test_broken_dp_sgd_is_found(monkeypatch, broken, training):
    broken(monkeypatch)
    assert audited(training).verdict.contradicted


def test_the_evidence_is_the_log_likelihood_ratio():
    training = Training(noise=0.7, rate=0.2, steps=2)
    seen = np.array([[0.3, -1.0], [1.4, 0.2]])
    inside = 0.2 * stats.norm.pdf(seen, 1, 0.7) + 0.8 * stats.norm.pdf(seen, 0, 0.7)
    expected = np.log(inside / stats.norm.pdf(seen, 0, 0.7)).sum(axis=0)
    np.testing.assert_allclose(training.evidence(seen), expected)


def test_canaries_reach_the_gradient_clipped_and_alone():
    coins = np.array([True, False, True])
    seen = Training(noise=1e-6, steps=2).gradients(3, coins)
    np.testing.assert_allclose(seen, np.tile(coins, (2, 1)), atol=2e-4)


def test_one_training_with_many_canaries_keeps_the_claim_and_shows_some_of_it():
    found = one_run.audit_training(WHOLE, 1000, DELTA, gate_error=GATE_ERROR)
    assert not found.contradicted
    assert 0.8 <= found.epsilon <= found.claimed


def test_one_training_shows_a_claim_that_is_far_too_small(monkeypatch):
    """Noise 6 is claimed, 1 is drawn. (Delta is small since the theorem adds 2 x canaries x delta.)"""
    honest = Gradient.noised

    def sixth(self, bounded, noise):
        return honest(dataclasses.replace(self, noise=self.noise / 6), bounded, noise)

    monkeypatch.setattr(Gradient, "noised", sixth)
    assert one_run.audit_training(Training(noise=6.0), 1000, 1e-7, gate_error=GATE_ERROR).contradicted
