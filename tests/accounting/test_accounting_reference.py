"""Laws 1, 2, 5: epsilon against published figures, dp-accounting, closed forms and certified lower bounds."""

import csv
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from plans import Pure
from published_figures import abadi_figure, as_published, integer_epsilon
from scipy.special import ndtr
from sweeps import heavy, sweep

from synthdp.accounting import (
    ACCOUNTANTS,
    Unproven,
    answers,
    best,
    charges,
    combined,
    epsilon,
    epsilons,
    group_epsilon,
)
from synthdp.accounting.accountants import analytic_moments, moments, pld, rdp
from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.ledger.events import Choice, Entry, Gaussian, Laplace, Sampled


def rows():
    text = (Path(__file__).parent / "accounting_reference.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in text if not line.startswith("#")))


def plan(row):
    count, relation = int(row["steps"]), row["adjacency"]
    if row["id"].startswith("pure_"):
        return [Entry(Pure(epsilon=0.1), count)]
    if row["mechanism"].startswith("Laplace"):
        return [Entry(Laplace(noise=float(row["noise"])), count)]
    query = Gaussian(noise=float(row["noise"]), relation=relation)
    if row["sampling"] == "none":
        return [Entry(query, count)]
    sampler = "without_replacement" if row["id"].startswith("wor_") else "poisson"
    return [
        Entry(Sampled(rate=float(Fraction(row["rate"])), queries=(query,), sampler=sampler, relation=relation), count)
    ]


ANSWERED = [row for row in rows() if not row["id"].startswith(("user_", "chua_"))]
GROUPS = [row for row in rows() if row["id"].startswith("user_")]
SLOW = {  # published rows of many steps, or high rates; the others stand for them in `make test`
    "msr_prv_s1.5_q0.05_T50000",
    "msr_prv_s0.8_q0.2_T100",
    "msr_prv_s0.8_q0.001_T20000",
    "tfp_mnist_45ep",
    "tfp_mnist_60ep",
    "tfp_ex_sub",
    "abadi_mnist_large",
}


def test_every_row_is_answered_or_refused():
    left = [row["id"] for row in rows() if row not in ANSWERED and row not in GROUPS]
    assert sorted(left) == ["chua_shuffle_s0.4_T10000", "chua_shuffle_s0.5_T10000"]
    assert len(GROUPS) == 3


@pytest.mark.parametrize(
    "row", sweep(ANSWERED, lambda row: row["published"] and row["id"] not in SLOW), ids=lambda row: row["id"]
)
def test_reference_rows(row):
    entries, delta = plan(row), float(row["delta"])
    found = epsilons(entries, delta)
    if row["eps_pld"]:
        assert found["pld"] <= float(row["eps_pld"]) + 1e-3
    if row["eps_exact"]:
        assert all(value >= float(row["eps_exact"]) * (1 - 1e-12) for value in found.values())
        assert found["pld"] == pytest.approx(float(row["eps_exact"]), rel=1e-5)
    if row["id"].startswith("wor_"):  # "halved": replacing moves two contributions, so the theorem's noise is half
        assert set(found) == {"analytic_moments", "naive", "strong"}
        assert found["analytic_moments"] == pytest.approx(float(row["eps_rdp"]), rel=1e-6)
    elif row["eps_rdp"]:
        assert found["rdp"] <= 1.01 * float(row["eps_rdp"])
        assert found["rdp"] >= found["pld"] * (1 - 1e-3)  # PLD is within 1e-3 of exact on every such row
    if row["eps_classic_conversion"] and int(row["steps"]) and float(row["rate"]):
        assert found["rdp"] <= classic(entries, delta) <= 1.01 * float(row["eps_classic_conversion"])
        assert found["pld"] * (1 - 1e-3) <= found["moments"] <= 1.01 * float(row["eps_classic_conversion"])
    for accountant in {"naive", "strong", "moments"} & set(found):
        assert found[accountant] >= min(found.get("pld", 0.0), found.get("rdp", math.inf)) * (1 - 1e-9)


@pytest.mark.parametrize("row", sweep(GROUPS, lambda row: row["id"] != "user_k10_rdp"), ids=lambda row: row["id"])
def test_group_privacy_rows(row):
    k, delta, exact = int(row["id"].split("_")[1][1:]), float(row["delta"]), float(row["eps_exact"])
    assert group_epsilon(plan(row), delta, k, "rdp") <= 1.01 * float(row["eps_rdp"])
    assert group_epsilon(plan(row), delta, k, "rdp") >= exact * (1 - 1e-6)
    assert group_epsilon(plan(row), delta, k, "pld") == pytest.approx(exact, abs=1e-3)
    assert group_epsilon(plan(row), delta, k) == group_epsilon(plan(row), delta, k, "pld")


@pytest.mark.parametrize(
    ("row_id", "published"),
    [("tfp_test0", 0.7242234026109595), ("tfp_ex_sub", 3.2392676), ("tfp_ex_nosub_micro", 26.2880374)],
)
def test_published_renyi_figures_to_their_digits(row_id, published):
    row = next(row for row in rows() if row["id"] == row_id)
    assert epsilon(plan(row), float(row["delta"]), "rdp") == pytest.approx(published, rel=2e-8)


def test_the_classic_conversion_gives_the_figures_that_papers_print():
    for row_id, printed in {"tfp_mnist_lr15": 1.19, "tfp_mnist_60ep": 3.01, "abadi_fig2": 1.26}.items():
        row = next(row for row in rows() if row["id"] == row_id)
        assert classic(plan(row), 1e-5) == pytest.approx(printed, abs=0.006)


def classic(entries, delta):
    """By the conversion of Mironov 2017, proposition 3."""
    orders = np.array(rdp.WIDE_ORDERS)
    return float((rdp.divergences(charges(entries)) - math.log(delta) / (orders - 1)).min())


def test_a_huge_loss_and_a_tiny_rate_have_orders_and_grids_of_their_own():
    huge = [Entry(Sampled(rate=1.024e-5, queries=(Gaussian(noise=0.1),)), 976563)]
    assert epsilon(huge, 1e-7, "rdp") < 7801.06
    assert epsilon(huge, 1e-7, "pld") < epsilon(huge, 1e-7, "rdp")
    tiny = [Entry(Sampled(rate=1e-6, queries=(Gaussian(noise=1.0),)), 10**6)]
    assert 0.0036 < epsilon(tiny, 1e-6) < 0.0044
    wide = [Entry(Sampled(rate=1e-4, queries=(Gaussian(noise=20.0),)), 10**6)]
    # Nearly Gaussian of mu = rate sqrt(steps) / noise = 0.005, a little above for its skew.
    assert 1 < epsilon(wide, 1e-6) / gaussian_epsilon(0.005, 1e-6) < 1.006
    assert epsilon(wide, 1e-6) <= epsilon(wide, 1e-6, "rdp") < 0.0186 * 1.001


@pytest.mark.parametrize(("noise", "exact"), [(1, 4.377178), (2, 1.993091), (0.1, 91.817290)])
def test_one_gaussian_is_exact_and_nobody_reports_less(noise, exact):
    found = epsilons([Entry(Gaussian(noise=noise))], 1e-5)
    assert found["pld"] == pytest.approx(exact, abs=1e-6)
    assert min(found.values()) == found["pld"] <= found["rdp"]


@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.02, 0.1, 1.0, 7.0, 60.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.6])
def test_gaussian_epsilon_with_sixty_digits(mu, delta):
    found = gaussian_epsilon(mu, delta)
    with mpmath.workdps(60):

        def exact(epsilon):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

        assert exact(found) <= delta
        if found > 0:
            assert exact(found * (1 - 1e-9)) > delta * (1 - 1e-15)


def sampled_delta(rate, noise, epsilon):
    """Delta of one sampled Gaussian, both directions, straight from its definition."""
    odds = math.expm1(epsilon) / rate
    cut = noise**2 * math.log1p(odds) + 0.5
    upper = (1 - rate) * ndtr(-cut / noise) + rate * ndtr((1 - cut) / noise)
    removed = upper - math.exp(epsilon) * ndtr(-cut / noise)
    if epsilon >= -math.log1p(-rate):
        return removed
    cut = noise**2 * math.log1p(math.expm1(-epsilon) / rate) + 0.5
    lower = (1 - rate) * ndtr(cut / noise) + rate * ndtr((cut - 1) / noise)
    return max(removed, ndtr(cut / noise) - math.exp(epsilon) * lower)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rate", "noise"), [(0.01, 0.6), (0.2, 1.0), heavy((0.9, 0.5)), heavy((0.999, 2.0)), heavy((1e-3, 0.3))]
)
def test_one_sampled_gaussian_against_its_definition(rate, noise):
    for delta in (1e-3, 1e-6):
        found = epsilon([Entry(Sampled(rate=rate, queries=(Gaussian(noise=noise),)))], delta)
        if found > 0:
            assert sampled_delta(rate, noise, found) <= delta * (1 + 1e-7)
            assert sampled_delta(rate, noise, found * 0.999) > delta


def test_one_laplace_against_its_definition():
    for noise, delta in [(1.0, 1e-3), (0.2, 1e-5), (5.0, 0.05)]:
        exact = 1 / noise + 2 * math.log1p(-delta)  # delta = 1 - e^((epsilon - 1/noise) / 2)
        found = epsilon([Entry(Laplace(noise=noise))], delta)
        assert exact <= found <= exact * 1.0001
        replaced = epsilon([Entry(Laplace(noise=2 * noise, relation="replace_one"))], delta)
        assert replaced == pytest.approx(found, rel=1e-9)


def composed_pure(epsilon_0, count, delta):
    """The optimal composition of pure mechanisms (Kairouz, Oh & Viswanath 2015, theorem 3.3), by bisection."""
    j = np.arange(count + 1)
    logs = np.array([math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in j])
    losses = (2 * j - count) * epsilon_0
    masses = np.exp(logs + j * epsilon_0 - count * np.log1p(np.exp(epsilon_0)))
    low, high = 0.0, count * epsilon_0
    for _ in range(100):
        middle = (low + high) / 2
        over = (masses * -np.expm1(np.minimum(middle - losses, 0))).sum() > delta
        low, high = (middle, high) if over else (low, middle)
    return high


@pytest.mark.parametrize(("epsilon_0", "count"), [(0.1, 100), (0.37, 10), (1.0, 3), (0.01, 1000)])
def test_pure_mechanisms_against_the_optimal_composition(epsilon_0, count):
    exact = composed_pure(epsilon_0, count, 1e-5)
    found = epsilons([Entry(Pure(epsilon=epsilon_0), count)], 1e-5)
    assert exact * (1 - 1e-9) <= found["pld"] <= exact * 1.0005
    assert found["rdp"] >= exact
    # The losses of the exponential mechanism have half the range.
    chosen = epsilons([Entry(Choice(epsilon=epsilon_0), count)], 1e-5)
    assert composed_pure(epsilon_0 / 2, count, 1e-5) < chosen["pld"] < exact
    assert chosen["rdp"] <= found["rdp"]


def test_dp_accounting_agrees_within_its_grid():
    """The same events through Google's PLD accountant: it is pessimistic, and so are we, by less."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant(value_discretization_interval=5e-4)
    theirs.compose(dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.5)), 300)
    theirs.compose(dp_accounting.LaplaceDpEvent(8.0), 5)
    theirs.compose(dp_accounting.GaussianDpEvent(6.0), 2)
    ours = [
        Entry(Sampled(rate=0.02, queries=(Gaussian(noise=1.5),)), 300),
        Entry(Laplace(noise=8.0), 5),
        Entry(Gaussian(noise=6.0), 2),
    ]
    reference = theirs.get_epsilon(1e-6)
    assert reference - 5e-3 <= epsilon(ours, 1e-6) <= reference + 1e-5


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [
        heavy((0.3, 0.7, 20, 1e-4)),
        (0.05, 2.0, 500, 1e-8),
        heavy((0.001, 0.6, 3000, 1e-6)),
        heavy((0.5, 8.0, 1000, 1e-5)),
        heavy((0.95, 1.0, 4, 1e-3)),
    ],
)
def test_never_below_a_certified_lower_bound(rate, noise, steps, delta):
    """dp-accounting's optimistic estimate (losses rounded down) is below the exact value; both accountants are above it."""
    from dp_accounting.pld import privacy_loss_distribution as theirs

    optimistic = theirs.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=1e-3,
        pessimistic_estimate=False,
        use_connect_dots=False,
    )
    lower = optimistic.self_compose(steps).get_epsilon_for_delta(delta) * (1 - 1e-6)  # it adds 1e-15 to delta
    found = epsilons([Entry(Sampled(rate=rate, queries=(Gaussian(noise=noise),)), steps)], delta)
    assert lower <= found["pld"] <= found["rdp"]


def test_a_sampler_without_a_proof_is_refused_by_name():
    for row in rows():
        if row["id"].startswith("chua_"):
            rate, noise = float(Fraction(row["rate"])), float(row["noise"])
            event = Sampled(rate=rate, queries=(Gaussian(noise=noise),), sampler="shuffled")
            entries = [Entry(event, int(row["steps"]))]
            for accountant in ACCOUNTANTS:
                with pytest.raises(Unproven, match="'shuffled'"):
                    epsilon(entries, 1e-6, accountant)
            assert epsilons(entries, 1e-6) == {}
            assert set(answers(entries, 0.5)[1]) == set(ACCOUNTANTS)
            with pytest.raises(Unproven, match="no accountant"):
                best(entries, 1e-6)


@pytest.mark.parametrize(
    "event",
    [
        # (basic and advanced composition have the amplification lemma, which holds for any question)
        Sampled(rate=0.1, queries=(Laplace(noise=1.0),)),
        Sampled(rate=0.1, queries=(Gaussian(noise=1.0), Choice(epsilon=0.1))),
        Sampled(rate=0.1, queries=(Sampled(rate=0.5, queries=(Gaussian(noise=1.0),)),)),
        Sampled(rate=1.0, queries=(Gaussian(noise=1.0),), sampler="fixed"),
    ],
)
def test_pairs_without_a_proof_are_refused(event):
    with_lemma = {"naive", "strong"} if event.sampler == "poisson" else set()
    assert set(epsilons([Entry(event)], 1e-5)) == with_lemma


def test_replace_one_doubles_the_sensitivity():
    found = epsilons([Entry(Gaussian(noise=2.0, relation="replace_one"))], 1e-5)
    assert found["pld"] == pytest.approx(4.377178, abs=1e-6)
    assert found["rdp"] == pytest.approx(4.7285, abs=1e-3)  # not 2.1657
    event = Sampled(rate=0.01, queries=(Gaussian(noise=1.0, relation="replace_one"),), relation="replace_one")
    assert set(epsilons([Entry(event, 100)], 1e-5)) == {"pld"}
    assert "replace_one" in answers([Entry(event)], 0.5)[1]["rdp"]


@pytest.mark.heavy
def test_replace_one_sampling_against_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as theirs
    from dp_accounting.privacy_accountant import NeighboringRelation

    event = Sampled(rate=0.1, queries=(Gaussian(noise=0.8, relation="replace_one"),), relation="replace_one")
    reference = theirs.from_gaussian_mechanism(
        0.8, sampling_prob=0.1, value_discretization_interval=1e-3, neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    one = reference.get_epsilon_for_delta(1e-5)
    assert epsilon([Entry(event)], 1e-5) == pytest.approx(one, rel=1e-4)
    many = reference.self_compose(30).get_epsilon_for_delta(1e-5)
    assert many * 0.999 < epsilon([Entry(event, 30)], 1e-5) <= many * (1 + 3e-5)


def test_groups_of_one_sample_combine():
    assert combined([2.0, 3.0, 6.0]) == pytest.approx(1.6035674514, abs=1e-9)
    one = [Entry(Sampled(rate=0.01, queries=(Gaussian(noise=combined([2.0, 3.0, 6.0])),)), 1000)]
    three = [Entry(Sampled(rate=0.01, queries=tuple(Gaussian(noise=z) for z in (6.0, 2.0, 3.0))), 1000)]
    assert epsilons(three, 1e-5) == pytest.approx(epsilons(one, 1e-5), rel=1e-12)
    # Adaptive clipping (Andrew et al. 2021): gradient noise 1.106716 beside a count of noise 2 * 5 is noise 1.1.
    assert combined([1.106716, 10.0]) == pytest.approx(1.1, abs=1e-6)


@pytest.mark.parametrize(("rate", "noise", "steps"), [(1e-6, 1.0, 10**6), (1e-9, 1.0, 10**7), (1e-7, 3.0, 10**8)])
def test_renyi_orders_near_1_never_vanish_in_round_off(rate, noise, steps):
    """The divergence of order 1.001 is 1e-15 and less here: an accountant that loses it reports 0."""
    entries = [Entry(Sampled(rate=rate, queries=(Gaussian(noise=noise),)), steps)]
    divergence = rdp.divergences(charges(entries))
    second = steps * math.log1p(rate**2 * math.expm1(noise**-2))  # order 2, in closed form
    for order, value in zip(rdp.WIDE_ORDERS, divergence, strict=True):
        if order >= 2:
            assert value >= second * (1 - 1e-6)
        else:  # order / 2 of the second to leading order in the rate
            assert value >= 0.99 * second * order / 2


def test_published_figures_of_strong_composition_and_moments():
    """Abadi et al. 2016, figure 2: 1.26 and 9.34; Papernot et al. 2017: 5.80; Waites 2019 (PyVacy): 3.0."""
    assert abadi_figure(0.01, 4.0, 10**4, 1e-5) == pytest.approx(9.34, abs=0.005)
    assert as_published(0.1, 100, 1e-5) == pytest.approx(5.7985, abs=5e-5)
    hundred = [Entry(Pure(epsilon=0.1), 100)]
    assert epsilon(hundred, 1e-5) < epsilon(hundred, 1e-5, "strong") < as_published(0.1, 100, 1e-5)
    abadi = [Entry(Sampled(rate=0.01, queries=(Gaussian(noise=4.0),)), 10**4)]
    pyvacy = [Entry(Sampled(rate=256 / 60000, queries=(Gaussian(noise=1.1),)), 14063)]
    for entries, printed in ((abadi, 1.26), (pyvacy, 3.01)):
        at_integers = integer_epsilon(charges(entries), 1e-5)
        assert at_integers == pytest.approx(printed, abs=0.005)
        assert epsilon(entries, 1e-5) < epsilon(entries, 1e-5, "moments") < at_integers
    # The figure is of no valid accountant: the amplification lemma gives more than rate * epsilon.
    assert epsilon(abadi, 1e-5, "strong") > 9.34


@pytest.mark.parametrize(
    ("rate", "noise"),
    sweep(
        [(0.01, 4.0), (0.0043, 1.1), (0.5, 1.0), (1e-5, 0.3), (0.9, 0.2), (1e-3, 0.1), (0.01, 30.0)],
        lambda case: case[1] in (4.0, 1.1, 0.2),
    ),
)
def test_two_sources_of_a_sampled_gaussian_s_moments(rate, noise):
    """`rdp` asks dp-accounting's series; `moments` sums and integrates the definition.

    At integer orders they agree but for `rdp`'s allowance for round-off. At real orders dp-accounting's series is an upper
    bound that is loose where the rate is high or the order low (by 0.48 at rate 0.5, noise 1): never below `moments`.
    """
    event = Sampled(rate=rate, queries=(Gaussian(noise=noise),))
    orders = np.array(rdp.WIDE_ORDERS)
    chosen = (orders >= 1.5) & (orders <= 200)
    theirs = rdp.rule(event)[chosen] * (orders[chosen] - 1)
    # One call for integers (summed), one for the others (integrated).
    whole = orders[chosen] == np.floor(orders[chosen])
    ours = np.empty(len(theirs))
    for part in (whole, ~whole):
        ours[part] = moments.rule(event)(orders[chosen][part] - 1)
    assert np.all(np.isfinite(theirs))
    allowance = 2 * rdp.ROUND_OFF * (1 + orders[chosen])
    assert np.all(ours <= theirs * (1 + 2e-10) + allowance)
    assert np.all(ours[whole] >= theirs[whole] * (1 - 2e-10) - allowance[whole])


@pytest.mark.parametrize(
    ("rate", "noise", "order"),
    [(1e-6, 1.0, 1.5), heavy((0.01, 30.0, 1.1)), heavy((0.3, 0.2, 7.7)), heavy((1e-3, 0.1, 1.001))],
)
def test_moments_at_real_orders_with_thirty_digits(rate, noise, order):
    # Fifty digits, and pieces a quarter as wide, agree with it in 23 digits and take ten times as long.
    with mpmath.workdps(30):
        q, s = mpmath.mpf(rate), mpmath.mpf(noise)

        def integrand(z):
            w = q * mpmath.expm1((2 * z - 1) / (2 * s**2))
            return mpmath.npdf(z, 0, s) * ((1 + w) ** order - 1 - order * w)

        pieces = [-20 * noise + place * noise * 2 for place in range(int((order + 40 * noise) / noise / 2) + 2)]
        exact = float(mpmath.log1p(mpmath.quad(integrand, pieces)))
    event = Sampled(rate=rate, queries=(Gaussian(noise=noise),))
    assert exact <= moments.rule(event)(np.array([order - 1]))[0] <= exact * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rate", "noise"), [(0.0064, 0.5), (0.01, 1.0), (0.3, 2.0), (0.001, 0.3), (0.9, 5.0), (0.01, 20.0)]
)
def test_two_sources_of_the_analytic_moments(rate, noise):
    """dp-accounting takes alternating sums of moments, `analytic_moments` integrals of a positive function."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    orders = [2, 3, 4, 5, 8, 20, 60]
    theirs = RdpAccountant(orders, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    size = round(rate * 10**4)
    theirs.compose(dp_accounting.SampledWithoutReplacementDpEvent(10**4, size, dp_accounting.GaussianDpEvent(noise)))
    ours = analytic_moments.log_moments(rate, noise)
    for order, divergence in zip(orders, theirs.rdp, strict=True):
        assert ours[order - 2] / (order - 1) == pytest.approx(divergence, rel=1e-9)


SIDES = ("_pmf_remove", "_pmf_add")


@pytest.mark.parametrize(
    ("noise", "rate", "grid"),
    [
        *((0.05, 1.0, 1e-2), (3.7, 1.0, 1e-4), heavy((250.0, 1.0, 1e-6)), (1e-2, 1.0, 10.0)),
        *(
            heavy((0.06, 1e-12, 1e-2)),
            (0.6, 1e-3, 1e-3),
            heavy((0.8, 0.01, 1e-4)),
            heavy((2.0, 0.3, 1e-4)),
            (0.8, 0.9999, 1e-2),
            (1e4, 0.5, 1e-4),
        ),
    ],
)
def test_a_gaussian_is_that_of_dp_accounting_bit_for_bit(noise, rate, grid):
    from dp_accounting.pld import privacy_loss_distribution

    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=grid
    )
    ours = pld._gaussian(noise, rate=rate)(grid)
    assert ours._symmetric == (rate == 1)
    for side in SIDES:
        held, expected = vars(getattr(ours, side)), vars(getattr(theirs, side))
        assert held.keys() == expected.keys()
        assert all(np.array_equal(held[name], expected[name]) for name in held)


@pytest.mark.parametrize(
    ("noise", "rate", "grid"),
    [(2.0, 1.0, 1e-3), (0.6, 1e-3, 1e-3), heavy((0.8, 0.01, 1e-4)), (2.0, 0.3, 1e-3), heavy((30.0, 0.9999, 1e-4))],
)
def test_a_gaussian_under_replace_one_is_that_of_dp_accounting_but_for_round_off(noise, rate, grid):
    from dp_accounting.pld import privacy_loss_distribution
    from dp_accounting.privacy_accountant import NeighboringRelation

    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=grid,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    ours = pld._gaussian(noise, rate=rate, replace=True)(grid)
    for loss in (-1.0, 0.0, 0.01, 0.3, 2.0):
        expected = theirs.get_delta_for_epsilon(loss)
        assert ours.get_delta_for_epsilon(loss) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(
    ("rate", "noise", "steps"), [(0.001, 0.5, 100), (0.01, 1.0, 1000), (0.3, 5.0, 60), (1.0, 30.0, 9)]
)
def test_the_rough_bound_is_one_and_lies_near_the_true_one(rate, noise, steps):
    charged = charges([Entry(Sampled(rate=rate, queries=(Gaussian(noise=noise),)), steps), Entry(Laplace(noise=20.0))])
    assert rdp.epsilon(charged, 1e-5) <= rdp.rough(charged, 1e-5) <= 1.2 * rdp.epsilon(charged, 1e-5)


def test_the_rough_bound_of_a_sample_under_replace_one_is_a_guess_near_the_answer():
    event = Sampled(rate=0.01, queries=(Gaussian(noise=1.0, relation="replace_one"),), relation="replace_one")
    guess = rdp.rough(charges([Entry(event, 1000)]), 1e-5)
    assert 0.9 <= guess / epsilon([Entry(event, 1000)], 1e-5) <= 2
