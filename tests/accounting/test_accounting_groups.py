"""Law 6: all k units of one person at once."""

import itertools
import math

import pytest
from plans import capped, choice, gaussian, known_to, laplace, sampled, threshold, without_replacement
from scipy.stats import binom

from synthdp.accounting import ACCOUNTANTS, Unproven, best, epsilon, epsilons, group_epsilon
from synthdp.accounting.charges import charges
from synthdp.accounting.groups import Together, from_profile, mixture, moved
from synthdp.errors import BadInput

KINDS = {
    "gaussian": gaussian(4.0, 3),
    "laplace": laplace(6.0, 3),
    "choice": choice(0.1, 3),
    "threshold": threshold(6.0, 1e-8, 3),
    "sampled": sampled(0.02, 3.0, 30),
    "zcdp": capped("zcdp", 0.01),
    "renyi": capped("renyi", 0.1, order=12.0),
}


@pytest.mark.heavy
@pytest.mark.parametrize("entries", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_more_units_are_never_cheaper(entries, accountant):
    entries = known_to(accountant, entries)
    if accountant not in epsilons(entries, 1e-5):
        with pytest.raises(Unproven):
            group_epsilon(entries, 1e-5, 2, accountant)
        return
    found = [group_epsilon(entries, 1e-5, k, accountant) for k in (1, 2, 3, 5)]
    assert found[0] == epsilon(entries, 1e-5, accountant)
    assert all(few <= many * (1 + 1e-4) for few, many in itertools.pairwise(found))


def test_k_epsilon_at_the_same_delta_is_refuted():
    """A Gaussian's exact epsilon for k units is that of k times the sensitivity: above k epsilon."""
    for k in (2, 3):
        exact = epsilon(gaussian(10.0 / k), 1e-5)
        assert group_epsilon(gaussian(10.0), 1e-5, k) == pytest.approx(exact, rel=1e-12)
        assert exact > k * epsilon(gaussian(10.0), 1e-5) * 1.01
    assert group_epsilon(choice(0.1, 1), 1e-12, 3) == pytest.approx(0.3, rel=1e-4)  # pure epsilon does add up


@pytest.mark.heavy
@pytest.mark.parametrize("entries", [gaussian(3.0, 2), sampled(0.01, 1.5, 100), laplace(4.0, 5)])
def test_the_profile_is_above_the_exact_way(entries):
    for k in (2, 4):
        through = from_profile(lambda delta, entries=entries: epsilon(entries, delta), 1e-6, k)
        assert group_epsilon(entries, 1e-6, k, "pld") <= through < math.inf


def test_the_profile_s_answer_solves_its_equation():
    def bound(delta):
        return epsilon(gaussian(8.0), delta)

    for k in (2, 3, 7):
        total = from_profile(bound, 1e-6, k)
        each = total / k
        own = 1e-6 / sum(math.exp(i * each) for i in range(k))
        assert each == pytest.approx(bound(own), rel=1e-4)
        assert bound(own * (1 - 1e-4)) >= each >= bound(own * (1 + 1e-4)) * (1 - 1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize(("rate", "noise", "k"), [(0.0064, 1.0, 3), (0.2, 0.5, 4), (0.9, 2.0, 2), (1e-4, 3.0, 5)])
def test_the_mixture_against_dp_accounting(rate, noise, k):
    from dp_accounting.pld import privacy_loss_distribution as theirs

    ours = mixture(Together(rate, noise, k)).distribution(1e-2)
    chances = binom.pmf(range(k + 1), k, rate)
    chances[0] += 1 - chances.sum()
    reference = theirs.from_mixture_gaussian_mechanism(
        noise, list(range(k + 1)), list(chances), value_discretization_interval=1e-2
    )
    for count, delta in [(1, 1e-6), (1, 1e-3), (20, 1e-6), (20, 1e-3)]:
        expected = reference.self_compose(count).get_epsilon_for_delta(delta)
        assert ours.self_compose(count).get_epsilon_for_delta(delta) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_one_unit_of_the_mixture_is_the_sampled_gaussian():
    ours = mixture(Together(0.05, 1.2, 1)).distribution(1e-3).self_compose(10)
    assert ours.get_epsilon_for_delta(1e-5) == pytest.approx(epsilon(sampled(0.05, 1.2, 10), 1e-5), rel=1e-3)


def test_what_has_no_form_goes_through_the_profile():
    for entries in (threshold(30.0, 1e-9), without_replacement(0.01, 20.0, 10)):
        assert best(entries, 1e-5)[1] < group_epsilon(entries, 1e-5, 2) < math.inf
    assert group_epsilon(threshold(30.0, 4e-6), 1e-5, 3) == math.inf  # three units need more than the delta there is
    with pytest.raises(Unproven, match="no accountant"):
        group_epsilon(sampled(0.01, 1.0, 10, sampler="shuffle"), 1e-5, 2)


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_the_number_of_units_is_whole(k):
    with pytest.raises(BadInput, match="group"):
        group_epsilon(gaussian(1.0), 1e-5, k)


@pytest.mark.parametrize("k", [2, 5])
def test_a_zcdp_cap_costs_a_group_no_less_than_the_gaussian_that_may_have_filled_it(k):
    """For k units the divergence grows with the square of k (Bun & Steinke 2016, proposition 1.9)."""
    rho = 0.02
    exact = group_epsilon(gaussian(1 / math.sqrt(2 * rho)), 1e-6, k, "pld")
    assert (
        exact
        <= group_epsilon(capped("zcdp", rho), 1e-6, k)
        <= epsilon(capped("zcdp", k * k * rho), 1e-6, "rdp") * (1 + 1e-9)
    )


@pytest.mark.parametrize("sampler", ["poisson", "without_replacement"])
def test_several_replaced_units_of_a_sample_have_no_form_of_their_own(sampler):
    """The result for the coins of k units is known only if units are added (Ganesh 2024)."""
    charged = charges(sampled(0.02, 1.2, 30, sampler=sampler, relation="replace_one"))
    with pytest.raises(Unproven, match="no form for k units"):
        moved(charged, 2)
