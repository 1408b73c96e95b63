"""What the page says of an attacker, against brute force over worst-case mechanisms."""

import itertools
import math

import pytest
from scipy.stats import norm

from synthdp.ledger.events import EVENTS, Entry, Event, Gaussian, Sampled
from synthdp.report import promise, words


def worst_case(epsilon, delta):
    """The pair that every (epsilon, delta) pair is a post-processing of (Kairouz, Oh & Viswanath 2015, theorem 2.1)."""
    half = (1 - delta) / (1 + math.exp(epsilon))
    return [delta, half * math.exp(epsilon), half, 0.0], [0.0, half, half * math.exp(epsilon), delta]


def rates_of(with_unit, without):
    """(false positive rate, true positive rate) of every deterministic test of four outcomes."""
    for chosen in itertools.product([0, 1], repeat=4):
        yield tuple(sum(p for p, take in zip(side, chosen, strict=True) if take) for side in (without, with_unit))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.1), (0.3, 1e-6), (1.0, 1e-5), (1.0, 0.2), (5.0, 0.01)]
)
def test_bounds_are_those_of_the_worst_mechanism(epsilon, delta):
    points = [*rates_of(*worst_case(epsilon, delta)), (0.0, 0.0), (1.0, 1.0)]
    assert promise.advantage([(delta, epsilon)]) == pytest.approx(max(tpr - fpr for fpr, tpr in points), abs=1e-12)
    formula = (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)
    assert promise.advantage([(delta, epsilon)]) == pytest.approx(formula, abs=1e-12)
    for rate in (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0):
        mixtures = [
            a[1] + (b[1] - a[1]) * (rate - a[0]) / (b[0] - a[0]) if b[0] > a[0] else max(a[1], b[1])
            for a, b in itertools.product(points, points)
            if a[0] <= rate <= b[0]
        ]
        assert promise.detection([(delta, epsilon)], rate) == pytest.approx(max(mixtures), abs=1e-9)


@pytest.mark.parametrize("prior", [0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.3, 1e-6), (1.0, 0.2), (5.0, 0.01)])
def test_the_best_guess_at_a_prior_is_that_of_the_worst_mechanism(epsilon, delta, prior):
    """Against all deterministic rules on its four outcomes; what one of them says changes the odds by e^epsilon at most."""
    best = max(prior * tpr + (1 - prior) * (1 - fpr) for fpr, tpr in rates_of(*worst_case(epsilon, delta)))
    assert promise.accuracy_at([(delta, epsilon)], prior) == pytest.approx(best, abs=1e-11)
    low, high = promise.belief(epsilon, prior)
    for with_unit, without in list(zip(*worst_case(epsilon, delta), strict=True))[1:3]:  # outcomes 0 and 3 are delta's
        after = prior * with_unit / (prior * with_unit + (1 - prior) * without)
        assert low - 1e-12 <= after <= high + 1e-12
    assert low == pytest.approx(prior / (prior + (1 - prior) * math.exp(epsilon)))


def test_a_curve_bounds_the_guess_at_a_prior_and_never_below_the_truth():
    """One Gaussian: the best rule is a threshold, its accuracy at a prior has a closed form."""
    mu = 0.5
    epsilons = [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    curve = [(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu), e) for e in epsilons]
    for prior in (0.01, 0.3, 0.5, 0.6, 0.9):
        cut = math.log((1 - prior) / prior) / mu + mu / 2
        truth = prior * norm.sf(cut - mu) + (1 - prior) * norm.cdf(cut)
        bound = promise.accuracy_at(curve, prior)
        assert truth - 1e-12 <= bound <= min(promise.accuracy_at([point], prior) for point in curve) + 1e-12
        assert bound <= truth + 0.005
    assert promise.accuracy_at(curve, 0.5) == pytest.approx(promise.accuracy(curve), abs=1e-11)


def test_guessing_is_always_allowed_and_no_promise_bounds_nothing_at_a_prior():
    for prior in (0.0, 0.2, 0.5, 1.0):
        assert promise.accuracy_at([(0.0, 0.0)], prior) == pytest.approx(max(prior, 1 - prior))
        assert promise.accuracy_at([(1e-6, math.inf)], prior) == 1
        assert promise.accuracy_at([(1e-6, 5000.0)], prior) == pytest.approx(1)
        assert promise.accuracy_at([], prior) == 1
    assert promise.belief(math.inf, 0.3) == (0.0, 1.0)
    assert promise.belief(0.0, 0.3) == pytest.approx((0.3, 0.3))
    assert promise.belief(5000.0, 0.3) == (0.0, 1.0)


def test_a_curve_is_tighter_than_its_points_and_never_below_the_truth():
    """One Gaussian of noise 2: delta(epsilon) and the total variation distance in closed form (Balle & Wang 2018)."""
    mu = 0.5
    epsilons = [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    curve = [(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu), e) for e in epsilons]
    truth = 2 * norm.cdf(mu / 2) - 1
    assert promise.advantage(curve) == pytest.approx(truth, abs=1e-12), "reached at epsilon 0"
    for points in (curve[2:], curve[-1:]):
        assert truth < promise.advantage(points) <= min(promise.advantage([point]) for point in points)
    for rate in (0.001, 0.01, 0.1, 0.5):
        exact = norm.cdf(norm.ppf(rate) + mu)
        assert exact <= promise.detection(curve, rate) <= min(promise.detection([point], rate) for point in curve)


def test_no_promise_bounds_nothing_and_no_leak_bounds_everything():
    assert promise.advantage([(1e-6, math.inf)]) == 1
    assert promise.advantage([]) == 1
    assert promise.accuracy([(1e-9, 0.0)]) == pytest.approx(0.5, abs=1e-8)
    assert promise.accuracy([(1e-6, 5000.0)]) == 1
    assert promise.detection([(1e-6, 5000.0)], 0.01) == 1
    assert promise.detection([(1e-6, math.inf)], 0.0) == 1
    assert promise.detection([(0.0, 0.0)], 0.25) == 0.25


def test_bounds_are_rounded_up():
    assert words.upper(0.99991) == "1"
    assert words.upper(0.998701) == "0.9988"
    assert words.upper(4.377178) == "4.378"
    assert words.upper(1.0) == "1"
    assert words.upper(0.0) == "0"
    assert words.upper(math.inf) == "∞"
    assert words.upper(12345.6) == "12,350"
    assert words.percent(0.59301) == "59.4 %"
    assert words.percent(0.5) == "50.0 %"
    assert words.percent(1.0) == "100.0 %"


def test_numbers_are_readable():
    assert words.scientific(1e-6) == "10⁻⁶"
    assert words.scientific(2.5e-7) == "2.5 × 10⁻⁷"
    assert words.scientific(0.01) == "0.01"
    assert words.one_in(1e-6) == "1 in 1,000,000"
    assert words.one_in(3e-6) == "1 in 333,333", "rounded towards the larger probability"
    assert words.one_in(0.1) == "1 in 10"
    assert words.one_in(0.9) == "90.0 %", "1 in 1 would be certain"
    assert [words.number(value) for value in (True, None, 1999, 10391, 2.0, 0.125, [1, 2], "x", math.inf)] == [
        "yes", "none", "1999", "10,391", "2", "0.125", "1, 2", "x", "∞",
    ]  # fmt: skip


def test_every_event_of_the_house_has_words_of_its_own():
    for kind in EVENTS.values():
        arguments = {"rate": 0.1, "queries": (Gaussian(1.0),), "noise": 1.0, "epsilon": 0.5, "delta": 1e-7}
        arguments |= {"categories": 3, "reason": "test", "filter": "gaussian", "bound": 1.0, "beta": 0.1}
        arguments |= {"mean": 10.0, "shape": 1.0, "candidates": ((Entry(Gaussian(1.0), 2),), (Entry(Gaussian(1.0)),))}
        if not kind.__module__.startswith("synthdp."):
            continue
        told = words.tell(
            kind(**{name: value for name, value in arguments.items() if name in kind.__dataclass_fields__})
        )
        assert told.title != kind.__name__, f"{kind.__name__} needs words in synthdp/report/words.py"
        assert len(told.sentence) > 40


def test_an_event_of_a_plug_in_is_told_by_its_docstring():
    class Vote(Event):
        """A noisy vote
        of teachers.

        More."""

    told = words.tell(Vote())
    assert (told.title, told.sentence, told.parameters) == ("Vote", "A noisy vote of teachers.", ())


def test_the_questions_inside_a_sample_are_told():
    told = words.tell(Sampled(0.01, (Gaussian(2.0), Gaussian(5.0))))
    assert dict(told.parameters) == {"rate": "0.01"}
    assert [dict(inner.parameters)["noise multiplier"] for inner in told.inner] == ["2", "5"]
    assert "shuffle" in words.tell(Sampled(0.01, (), "shuffle")).sentence
    assert "Poisson" not in words.tell(Sampled(0.01, (), "shuffle")).sentence
