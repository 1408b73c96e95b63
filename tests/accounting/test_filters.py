"""Law 11: caps for adaptive questions, and what they cost."""

import math
from fractions import Fraction

import numpy as np
import pytest
from plans import capped, gaussian
from sweeps import sweep

from synthdp import Budget
from synthdp.accounting import Unproven, best, epsilon, epsilons
from synthdp.accounting.caps import Filter, cap_of, largest, least_noise
from synthdp.errors import BadInput
from synthdp.ledger.events import Capped, Choice, Entry, Gaussian, Laplace, Revealed, Sampled, Threshold

FILTERS = ("gaussian", "zcdp", "renyi")
RELATIONS = ("add_remove", "replace_one")


def widest(filter, budget, **more):
    """The largest cap; of a Renyi filter at an order that suits the budget."""
    order = min(max(30 / budget.epsilon, 2.0), 256.0) if filter == "renyi" else 0.0
    return largest(filter, budget, order, **more)


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("target", [0.1, 1.0, 10.0])
def test_the_largest_cap_costs_the_budget(filter, target):
    cap = widest(filter, Budget(epsilon=target, delta=1e-6))
    assert target * (1 - 1e-9) <= best([Entry(cap)], 1e-6)[1] <= target
    with_delta = widest(filter, Budget(epsilon=target, delta=1e-6), delta=4e-7)
    assert with_delta.bound < cap.bound
    assert target * (1 - 1e-9) <= best([Entry(with_delta)], 1e-6)[1] <= target
    assert best([Entry(with_delta)], 3e-7)[1] == math.inf


def test_a_gaussian_cap_costs_one_gaussian_under_both_relations():
    for relation in RELATIONS:
        cap = capped("gaussian", 0.5, relation=relation)
        same = gaussian(2.0 if relation == "add_remove" else 4.0, relation=relation)
        assert epsilons(cap, 1e-5) == pytest.approx(epsilons(same, 1e-5), rel=1e-9)


def test_zcdp_and_renyi_caps_cost_their_conversion():
    zcdp = capped("zcdp", 0.125)
    assert epsilon(zcdp, 1e-5, "rdp") == pytest.approx(epsilon(gaussian(2.0), 1e-5, "rdp"), rel=1e-9)
    assert epsilon(zcdp, 1e-5, "naive") == pytest.approx(0.125 + 2 * math.sqrt(0.125 * math.log(1e5)), rel=1e-9)
    renyi = capped("renyi", 0.5, order=20.0)
    tail = 0.5 + math.log1p(-1 / 20) - (math.log(1e-5) + math.log(20)) / 19
    assert epsilon(renyi, 1e-5, "rdp") == pytest.approx(tail, rel=1e-9)
    assert epsilon(renyi, 1e-5, "moments") == pytest.approx(0.5 + math.log(1e5) / 19, rel=1e-3)
    for cap in (zcdp, renyi):
        with pytest.raises(Unproven, match="filter"):
            epsilon(cap, 1e-5, "pld")
        assert all(value >= best(cap, 1e-5)[1] for value in epsilons(cap, 1e-5).values())


@pytest.mark.parametrize(
    ("cap", "named"),
    [
        (Capped(filter="nobody", bound=1.0), "filter"),
        (Capped(filter="gaussian", bound=-1.0), "bound"),
        (Capped(filter="zcdp", bound=math.nan), "bound"),
        (Capped(filter="zcdp", bound=1.0, delta=1.0), "delta"),
        (Capped(filter="renyi", bound=1.0), "order"),
        (Capped(filter="renyi", bound=1.0, order=math.inf), "order"),
    ],
)
def test_impossible_caps(cap, named):
    with pytest.raises(BadInput, match=named):
        epsilon([Entry(cap)], 1e-5)
    with pytest.raises(BadInput, match=named):
        Filter(cap)


def test_the_ends():
    for name in FILTERS:
        assert epsilons(capped(name, 0.0, order=2.0), 1e-5) == dict.fromkeys(epsilons([], 1e-05), 0)
        assert set(epsilons(capped(name, math.inf, order=2.0), 1e-5).values()) == {math.inf}
        unbounded = widest(name, Budget(epsilon=math.inf, delta=1e-6))
        assert Filter(unbounded).admits(Gaussian(noise=0.0))
        assert not Filter(Capped(filter=name, bound=1.0, order=2.0)).admits(Revealed(reason="all"))
        assert not Filter(Capped(filter=name, bound=1.0, order=2.0)).admits(Gaussian(noise=0.0))
    with pytest.raises(BadInput, match="raise"):
        largest("renyi", Budget(epsilon=0.01, delta=1e-9), order=2.0)
    with pytest.raises(Unproven, match="cap inside a sample"):
        epsilon([Entry(Sampled(rate=0.1, queries=(Capped(filter="zcdp", bound=1.0),)))], 1e-5)


def test_what_each_filter_takes_and_at_which_price():
    def price(filter, event, **more):
        meter = Filter(Capped(filter=filter, bound=100.0, delta=1e-3, relation=event.relation, **more))
        meter.spend(event)
        return meter.spent

    assert price("gaussian", Gaussian(noise=2.0)) == 0.25
    assert price("gaussian", Gaussian(noise=2.0, relation="replace_one")) == 1.0
    assert price("gaussian", Threshold(noise=2.0, delta=1e-9, categories=3)) == 0.25
    assert price("zcdp", Gaussian(noise=2.0)) == 0.125
    assert price("zcdp", Laplace(noise=2.0)) == 0.125
    assert price("zcdp", Choice(epsilon=0.5)) == 0.5**2 / 8
    assert price("renyi", Gaussian(noise=2.0), order=8.0) == pytest.approx(8 * 0.125)
    between = price("renyi", Gaussian(noise=2.0), order=8.05)
    assert between == pytest.approx(8.1 * 0.125), "an order that rdp does not have counts as the next higher one"
    assert 0 < price("renyi", Sampled(rate=0.1, queries=(Gaussian(noise=2.0),)), order=8.0) < 1.0
    sampled = Sampled(rate=0.1, queries=(Gaussian(noise=2.0),))
    for name, event in [("gaussian", Laplace(noise=1.0)), ("gaussian", sampled), ("zcdp", sampled)]:
        with pytest.raises(Unproven, match=type(event).__name__):
            Filter(Capped(filter=name, bound=1.0)).admits(event)
    meter = Filter(Capped(filter="zcdp", bound=1.0))
    for other in (Gaussian(noise=9.0, relation="replace_one"), Gaussian(noise=9.0, unit="patient")):
        with pytest.raises(Unproven, match="use the same for both"):
            meter.spend(other)
    with pytest.raises(Unproven, match="cap inside a cap"):
        meter.spend(Capped(filter="zcdp", bound=0.1))
    assert meter.spent == 0


def test_the_exponential_mechanism_s_price_holds_for_its_worst_case():
    """Bounded range: D_a <= a epsilon^2 / 8, here for two candidates whose scores move apart by the sensitivity, by its sum."""
    for e in (0.1, 0.5, 2.0, 5.0):
        for base in [0.1 * place - 5 for place in range(101)]:
            p = [1 / (1 + math.exp(-(base + shift))) for shift in (-e / 2, e / 2)]
            for order in (1.5, 2.0, 5.0, 20.0):
                terms = [(b / a) ** order * a for a, b in (p, [1 - chance for chance in p])]
                assert math.log(sum(terms)) / (order - 1) <= order * e * e / 8 + 1e-12


def test_thresholds_stop_at_the_caps_delta():
    meter = Filter(Capped(filter="zcdp", bound=100.0, delta=1e-7))
    event = Threshold(noise=5.0, delta=1e-8, categories=1)
    meter.spend(event, 10)  # ten times 1e-8 is the whole delta, whatever the round-off
    assert not meter.admits(event)
    replaced = Filter(Capped(filter="zcdp", bound=100.0, delta=1e-7, relation="replace_one"))
    assert not replaced.admits(Threshold(noise=5.0, delta=1e-8, categories=1, relation="replace_one"), 6)


def test_no_noise_helps_a_plan_whose_thresholds_claim_more_than_the_caps_delta():
    """As when a plan is made anew after lost answers: the delta of its thresholds was fixed before the first charge."""
    cap = Capped(filter="gaussian", bound=0.5, delta=1e-7)
    for delta in (5e-8, 6e-8):

        def plan(noise, delta=delta):
            return (Entry(Threshold(noise=noise, delta=delta, categories=1), 2),)

        if delta == 5e-8:
            assert least_noise(plan, cap) == pytest.approx(math.sqrt(2) / 0.5, rel=1e-3)
        else:
            with pytest.raises(BadInput):
                least_noise(plan, cap)
    fixed = cap_of((Entry(Threshold(noise=5.0, delta=5e-8, categories=1), 2),), Budget(epsilon=9.0, delta=1e-6))
    assert (fixed.filter, fixed.delta) == ("gaussian", 1e-7)


def test_what_is_left_may_be_spent_to_the_last():
    """A plan in equal parts, and a last question sized by `left`, are not refused for round-off."""
    for parts in (3, 7, 10, 49):
        meter = Filter(Capped(filter="gaussian", bound=0.3))
        for _ in range(parts):
            meter.spend(Gaussian(noise=math.sqrt(parts) / 0.3))
        assert meter.left < 1e-12
        assert not meter.admits(Gaussian(noise=1e4))
    meter = Filter(Capped(filter="zcdp", bound=0.1))
    meter.spend(Gaussian(noise=4.0))
    meter.spend(Gaussian(noise=math.sqrt(1 / (2 * meter.left))))
    assert meter.left < 1e-12


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", sweep(range(5), lambda seed: seed < 2))
def test_an_adversary_who_adapts_never_gets_past_it(filter, relation, seed):
    """The analyst sees what is left, probes with counts and sizes around it, and tries on after each refusal."""
    draw = np.random.default_rng(seed)
    cap = widest(filter, Budget(epsilon=float(draw.choice([0.3, 1.0, 5.0])), delta=1e-6, relation=relation))
    meter, moved = Filter(cap), 2.0 if relation == "replace_one" else 1.0
    limit = cap.bound**2 if filter == "gaussian" else cap.bound
    total, refused = Fraction(0), 0
    for _ in range(400):
        count = int(draw.choice([1, 1, 1, 2, 50]))
        aim = (
            max(meter.left, 1e-9 * limit) * float(draw.choice([0.01, 0.3, 0.999999, 1.0, 1.0 + 1e-9, 1.1, 5.0])) / count
        )
        half = {"gaussian": 1.0, "zcdp": 0.5, "renyi": cap.order / 2}[filter]  # price = half (moved / noise)^2
        event = Gaussian(noise=moved * math.sqrt(half / aim), relation=relation)
        before = meter.spent
        try:
            meter.spend(event, count)
        except BadInput:
            refused += 1
            assert meter.spent == before
            continue
        total += count * Fraction(half) * (Fraction(moved) / Fraction(event.noise)) ** 2
        assert float(total) <= limit * (1 + 1e-12)
    assert refused > 50
    assert meter.spent == pytest.approx(float(total), rel=1e-12)
    assert meter.spent > 0.99 * limit
    assert best([Entry(cap)], 1e-6)[1] >= epsilon(gaussian(math.sqrt(half / meter.spent)), 1e-6) * (1 - 1e-9)
