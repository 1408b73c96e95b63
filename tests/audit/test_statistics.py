"""The auditor itself is audited (law 28): bounds against exact binomials, power and false alarms on known Gaussians."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from synthdp import BadInput
from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.audit import Claim, clopper_pearson, judge, one_run, region, tune, word
from synthdp.audit.claims import claim_of, gaussian_mu
from synthdp.ledger.events import Capped, Choice, Entry, Gaussian, Sampled, Threshold, Vote

DELTA = 1e-5
RUNS, TUNING, REPETITIONS = 1000, 500, 300
NOISE_1 = 4.377178  # epsilon at delta 1e-5 (law 2)
DELTAS = (1e-5, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.3)


def gaussian_claim(mu):
    return Claim(curve=tuple((delta, gaussian_epsilon(mu, delta)) for delta in DELTAS), mu=mu)


def verdicts(rng, shift, claim, repetitions=REPETITIONS, **errors):
    """Judgements of a mechanism N(0, 1) against N(shift, 1)."""
    for _ in range(repetitions):
        without, with_ = rng.normal(size=RUNS + TUNING), rng.normal(shift, size=RUNS + TUNING)
        cuts = tune(without[:TUNING], with_[:TUNING], DELTA, RUNS)
        yield judge(cuts, without[TUNING:], with_[TUNING:], claim, delta=DELTA, **errors)


@pytest.fixture
def rng():
    return np.random.default_rng(20230530)


def test_clopper_pearson_covers_and_is_exact():
    for trials, error in ((20, 0.05), (1000, 1e-4)):
        bounds = clopper_pearson(np.arange(trials + 1), trials, error)
        assert bounds[-1] == 1
        for count in range(trials):  # the definition: at the bound, so few successes have probability `error`
            assert stats.binom.cdf(count, trials, bounds[count]) == pytest.approx(error, rel=1e-6)
        for rate in (0.01, 0.3, 0.9):  # misses add up to the error or less
            missed = bounds < rate
            assert stats.binom.pmf(np.flatnonzero(missed), trials, rate).sum() <= error * (1 + 1e-9)


def test_the_gaussian_bound_is_strong_and_honest(rng):
    """Law 28: epsilon 4.377, 1,000 test runs a side: median at least 3.2, at most 5 % above the truth."""
    found = list(verdicts(rng, 1.0, gaussian_claim(1.0), error=0.05))
    gaussian = np.array([gaussian_epsilon(verdict.mu, DELTA) for verdict in found])
    plain = np.array([verdict.epsilon for verdict in found])
    assert np.median(gaussian) >= 3.2
    assert (gaussian < 2).mean() <= 0.01  # no luck is needed
    assert at_most(int((gaussian > NOISE_1).sum()), REPETITIONS, 0.05)
    assert 1.0 <= np.median(plain) <= 1.6  # what Clopper-Pearson alone reaches
    assert (plain <= NOISE_1).all()


@pytest.mark.heavy
@pytest.mark.parametrize("gate_error", [0.05, 0.2])
def test_false_alarms_of_the_gate_come_at_most_at_the_promised_rate(rng, gate_error):
    alarms = sum(v.contradicted for v in verdicts(rng, 1.0, gaussian_claim(1.0), gate_error=gate_error))
    assert at_most(alarms, REPETITIONS, gate_error)


def test_the_gate_sees_halved_noise_and_twice_the_sensitivity(rng):
    """Claimed mu 1, true mu 2, at the error of CI."""
    found = list(verdicts(rng, 2.0, gaussian_claim(1.0), 50, gate_error=1e-3 / 20))
    assert all(verdict.contradicted for verdict in found)


def test_laplace_is_not_called_a_liar_for_not_being_gaussian(rng):
    """A correct Laplace mechanism at epsilon 1 reads far more by the Gaussian bound, which therefore does not gate it."""
    claim = Claim(curve=((1e-5, 1.0), (0.1, 1.0)))
    without, with_ = rng.laplace(size=60_000), rng.laplace(1.0, size=60_000)
    cuts = tune(without[:TUNING], with_[:TUNING], DELTA, RUNS)
    found = judge(cuts, without[TUNING:], with_[TUNING:], claim, delta=DELTA)
    assert gaussian_epsilon(found.mu, DELTA) > 3
    assert found.epsilon <= 1.0
    assert not found.contradicted


def test_a_region_excludes_just_what_the_definition_excludes():
    found = region(0, 1000, 300, 1000, 0.05)
    a, b = found.false_positive, found.false_negative
    epsilon = found.epsilon(DELTA)
    assert math.exp(epsilon) * a + b == pytest.approx(1 - DELTA)
    assert Claim(curve=((DELTA, epsilon - 1e-9),)).contradicted(found)
    assert not Claim(curve=((DELTA, epsilon + 1e-9),)).contradicted(found)
    assert region(500, 1000, 500, 1000, 0.05).epsilon(DELTA) == 0


def test_thresholds_do_not_depend_on_the_scale_of_scores_and_constant_scores_say_nothing(rng):
    without, with_ = rng.normal(size=400), rng.normal(1, size=400)
    one, ten = tune(without, with_, DELTA, RUNS), tune(10 * without, 10 * with_, DELTA, RUNS)
    assert ten[0] == pytest.approx(10 * one[0])
    same = np.zeros(400)
    assert judge(tune(same, same, DELTA, RUNS), same, same, gaussian_claim(1.0), delta=DELTA).epsilon == 0


def test_claims_of_plans():
    twice = (Entry(Gaussian(2.0), 4),)
    epsilon, claim = claim_of(twice, DELTA)
    assert claim.mu == 1.0
    assert epsilon == pytest.approx(NOISE_1, abs=1e-5)
    for delta, value in claim.curve:  # the curve is the exact one
        assert value == pytest.approx(gaussian_epsilon(1.0, delta), abs=2e-3)
    with pytest.raises(BadInput, match="pairs"):
        Claim(curve=())


@pytest.mark.parametrize(
    ("event", "mu"),
    [
        (Gaussian(2.0), 0.5),
        (Gaussian(2.0, relation="replace_one"), 1.0),
        (Sampled(1.0, (Gaussian(2.0),)), 0.5),
        (Vote(2.0), 0.5),
        (Capped("gaussian", 0.5), 0.5),
        (Capped("gaussian", 0.5, relation="replace_one"), 0.5),
        (Sampled(0.5, (Gaussian(2.0),)), None),
        (Vote(2.0, "laplace"), None),
        (Choice(1.0), None),
        (Capped("zcdp", 0.5), None),
        (Threshold(2.0, 1e-6, 1), None),
    ],
)
def test_the_gaussian_bound_gates_gaussian_claims_alone(event, mu):
    """Four times the same: twice the mu of one."""
    assert gaussian_mu((Entry(event, 4),)) == (None if mu is None else pytest.approx(2 * mu, rel=1e-9))
    assert gaussian_mu((Entry(event), Entry(Choice(1.0, relation=event.relation)))) is None


@pytest.mark.heavy
def test_the_point_estimate_is_right_within_its_error(rng):
    found = list(verdicts(rng, 1.0, gaussian_claim(1.0)))
    estimates, errors = (np.array([getattr(v, name) for v in found]) for name in ("mu_estimate", "mu_error"))
    assert abs(estimates.mean() - 1.0) < 0.02
    assert np.std(estimates) == pytest.approx(errors.mean(), rel=0.15)


def test_a_verdict_of_nothing_is_no_power():
    assert word(1.0, 2.0, contradicted=True) == "contradicted"
    assert word(0.0, 2.0, contradicted=False) == word(0.05, 2.0, contradicted=False) == "no power"
    assert word(0.0, 0.0, contradicted=False) == "no power"
    assert word(0.2, 2.0, contradicted=False) == "stands"


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "epsilon", "delta"),
    [
        (1000, 200, 175, 1.5, 1e-5),
        (1000, 1000, 600, 0.2, 1e-3),
        (10, 10, 10, 1, 1e-2),
        (5, 3, 1, 0, 0.1),
        (7, 7, 0, 1, 0),
    ],
)
def test_one_run_p_values_are_the_theorem(canaries, guesses, correct, epsilon, delta):
    q = math.exp(epsilon) / (1 + math.exp(epsilon))

    mass = [math.comb(guesses, w) * q**w * (1 - q) ** (guesses - w) for w in range(guesses + 1)]

    def tail(v):
        return math.fsum(mass[max(0, v) :])

    steps = [(tail(correct - i) - tail(correct)) / i for i in range(1, canaries + 1)]
    expected = min(1.0, tail(correct) + 2 * canaries * delta * max(steps))
    assert one_run.p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(expected, rel=1e-6)


def test_one_runs_hold_on_randomised_response(rng):
    """Where each coin is told truly with the odds e^1 : 1, the bound passes 1 at most at the promised rate."""
    bounds = []

    @functools.cache  # 1,000 audits come to some sixty counts
    def bound(right):
        return one_run.epsilon_bound(200, 200, right, 0.0, 0.05)

    for _ in range(1000):
        coins = rng.random(200) < 0.5
        told = np.where(rng.random(200) < math.e / (1 + math.e), coins, ~coins)
        guesses = np.where(told, 1, -1).astype(np.int8)
        bounds.append(bound(one_run.correct(guesses, coins)))
    assert at_most(int((np.array(bounds) > 1.0).sum()), 1000, 0.05)
    assert 0.6 < np.median(bounds) < 1


def test_one_run_guesses_and_bounds_follow_the_scores():
    scores = np.arange(10.0)
    assert one_run.guess(scores, 2).tolist() == [-1, -1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert one_run.epsilon_bound(1000, 100, 50, DELTA, 0.05) == 0
    rising = [one_run.epsilon_bound(1000, 100, right, DELTA, 0.05) for right in (70, 80, 90, 100)]
    assert rising == sorted(rising)
    assert one_run.p_value(1000, 100, 100, rising[-1], DELTA) == pytest.approx(0.05, rel=1e-6)
    with pytest.raises(BadInput, match="correct"):
        one_run.p_value(10, 5, 6, 1.0, DELTA)


def at_most(count, trials, rate):
    """Whether a count is compatible with a rate of `rate` or less: a one-sided test at 1e-4."""
    return stats.binom.sf(count - 1, trials, rate) > 1e-4
