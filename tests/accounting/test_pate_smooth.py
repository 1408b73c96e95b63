"""The release of a data-dependent figure: its smooth sensitivity against enumeration of all votes, its noise against integrals."""

import itertools
import math

import numpy as np
import pytest

from synthdp.accounting import Unproven, epsilon, pate
from synthdp.accounting.analytic_gaussian import divergence
from synthdp.accounting.caps import Filter
from synthdp.accounting.pate import gnmax, smooth_sensitivity
from synthdp.errors import BadInput
from synthdp.ledger.events import Capped, Entry, Gaussian, Sampled, SmoothGaussian, from_json, to_json


def splits(teachers, classes):
    """Every vector of votes."""
    if classes == 1:
        return [(teachers,)]
    return [(first, *rest) for first in range(teachers + 1) for rest in splits(teachers - first, classes - 1)]


def neighbours(row):
    """Every vector of votes that one teacher can make of this one."""
    for i, j in itertools.permutations(range(len(row)), 2):
        if row[i]:
            moved = list(row)
            moved[i] -= 1
            moved[j] += 1
            yield tuple(moved)


def enumerated(figures, beta):
    """For each vector of votes: the local sensitivity, and max over d of e^(-beta d) times the largest one d moves away, all by
    enumeration. `figures` maps vectors to the released figure."""
    local = {row: max(abs(figures[row] - figures[other]) for other in neighbours(row)) for row in figures}
    found = {}
    for row in figures:
        reached, shell, best, distance = {row}, {row}, local[row], 0
        while shell:
            distance += 1
            shell = {other for each in shell for other in neighbours(each)} - reached
            reached |= shell
            best = max([best, *(math.exp(-beta * distance) * local[other] for other in shell)])
        found[row] = best
    return local, found


def released(rows, sigma, order, beta):
    return {row: smooth_sensitivity.of_gnmax([row], sigma, order, beta) for row in rows}


CASES = [(12, 2, 1.0, 2.0), (12, 2, 0.7, 3.0), (9, 3, 0.8, 2.0), (9, 3, 1.2, 4.0), (6, 4, 0.6, 2.5), (9, 3, 5.0, 8.0)]


@pytest.mark.parametrize("beta", [0.05, 0.4])
@pytest.mark.parametrize(("teachers", "classes", "sigma", "order"), CASES)
def test_the_sensitivity_is_a_smooth_bound_of_what_enumeration_finds(teachers, classes, sigma, order, beta):
    rows = splits(teachers, classes)
    found = released(rows, sigma, order, beta)
    local, best = enumerated({row: found[row].value for row in rows}, beta)
    for row in rows:
        assert local[row] <= best[row] <= found[row].sensitivity * (1 + 1e-12)
        for other in neighbours(row):
            assert found[row].sensitivity <= math.exp(beta) * found[other].sensitivity * (1 + 1e-12)
    # What is relaxed: positions between whole votes (all there is with two classes), and equal gaps for unequal ones.
    most = 1.1 if classes == 2 else 1.7
    assert all(found[row].sensitivity <= most * best[row] for row in rows)


def test_cases_have_something_to_find():
    """The enumeration would be idle where every figure is the data-independent one."""
    for teachers, classes, sigma, order in CASES[:-1]:
        values = [each.value for each in released(splits(teachers, classes), sigma, order, 0.1).values()]
        assert min(values) < 0.75 * max(values)
        assert max(values) == pytest.approx(order / sigma**2)


@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_the_released_figure_is_the_analysis_s_up_to_its_grid(sigma):
    rng, order = np.random.default_rng(5), 3.0
    votes = np.array([rng.multinomial(30, rng.dirichlet([0.2] * 4)) for _ in range(40)])
    exact = gnmax.divergences(gnmax.log_error_bound(votes, sigma), sigma, np.array([order])).sum()
    found = smooth_sensitivity.of_gnmax(votes, sigma, order, 0.1).value
    assert exact * (1 - 1e-12) <= found <= exact * 1.01 + 1e-9


def test_one_teacher_moves_all_queries_at_once():
    """Two queries: all pairs of moves, and the explicit maximum over both distances."""
    beta, sigma, order = 0.2, 0.8, 2.0
    rows = splits(5, 3)
    one = {row: smooth_sensitivity.of_gnmax([row], sigma, order, beta).value for row in rows}
    for pair in itertools.product(rows[::4], rows[::3]):
        found = smooth_sensitivity.of_gnmax(pair, sigma, order, beta)
        assert found.value == pytest.approx(one[pair[0]] + one[pair[1]])
        stays = [(row, *neighbours(row)) for row in pair]
        for other in itertools.product(*stays):
            assert abs(one[other[0]] + one[other[1]] - found.value) <= found.sensitivity * (1 + 1e-12)
            near = smooth_sensitivity.of_gnmax(other, sigma, order, beta)
            assert near.sensitivity <= math.exp(beta) * found.sensitivity * (1 + 1e-12)


def test_the_sum_is_maximised_over_one_distance():
    """Not more than the sum of each query's own smooth bound, nor less than explicit maximisation over the distance."""
    beta, sigma, order = 0.1, 1.0, 2.0
    pair = [(12, 0), (7, 5)]
    parts = [smooth_sensitivity.answer_terms(np.array([row], dtype=float), sigma, order) for row in pair]
    whole = smooth_sensitivity.smoothed(parts, order, beta).sensitivity
    by_hand = 0.0
    for distance in range(40):
        away = 0.0
        for part in parts:
            local, cell, reach = part.local(), int(part.cells[0]), distance * smooth_sensitivity.STEP
            away += local[max(0, cell - reach) : cell + reach + 1].max()
        by_hand = max(by_hand, math.exp(-beta * distance) * away)
    assert whole == pytest.approx(by_hand, rel=1e-12)
    assert whole <= sum(smooth_sensitivity.smoothed([part], order, beta).sensitivity for part in parts)


def test_bad_input_is_named():
    for call, named in (
        (lambda: smooth_sensitivity.of_gnmax([[3, 1]], 1.0, 1.0, 0.1), "orders"),
        (lambda: smooth_sensitivity.of_gnmax([[3, 1]], 1.0, 2.0, 0.0), "beta"),
        (lambda: smooth_sensitivity.of_gnmax([[3, 1]], 0.0, 2.0, 0.1), "sigma"),
        (lambda: smooth_sensitivity.of_gnmax(np.zeros((0, 2)), 1.0, 2.0, 0.1), "no query"),
        (lambda: smooth_sensitivity.event(0.0, 0.1), "noise"),
        (
            lambda: smooth_sensitivity.sanitised(
                smooth_sensitivity.of_gnmax([[3, 1]], 1.0, 5.0, 0.2), 3.0, 1e-5, lambda _: 0.0
            ),
            "beta",
        ),
    ):
        with pytest.raises(BadInput, match=named):
            call()


# The noise


def integrated(order, shift, ratio):
    """Renyi divergence of N(0, 1) against N(shift, ratio^2), by the trapezoidal rule."""
    v = order * ratio**2 + 1 - order
    middle, width = shift * (1 - order) / v, ratio / math.sqrt(v)
    z = np.linspace(middle - 12 * width, middle + 12 * width, 2001)
    log_p, log_q = -z * z / 2, -(((z - shift) / ratio) ** 2) / 2 - math.log(ratio)
    log_sum = np.logaddexp.reduce(order * log_p + (1 - order) * log_q) - math.log(2 * math.pi) / 2
    return float(log_sum + math.log(z[1] - z[0])) / (order - 1)


@pytest.mark.parametrize("moves", [1, 2])
@pytest.mark.parametrize(("noise", "beta"), [(2.0, 0.01), (5.0, 0.03), (30.0, 0.002)])
def test_the_divergence_is_the_largest_over_all_neighbours(noise, beta, moves):
    orders = np.array([1.5, 3.0, 8.0])
    bound = divergence(noise, beta, orders, moves)
    ratios = np.exp(np.linspace(-moves * beta, moves * beta, 41))
    for order, most in zip(orders, bound, strict=True):
        found = [integrated(order, (min(1.0, ratio) if moves == 1 else 1 + ratio) / noise, ratio) for ratio in ratios]
        assert max(found) <= most * (1 + 1e-9)
        assert found[0] == pytest.approx(most, rel=1e-7)


def test_the_divergence_ends_where_one_deviation_s_tail_is_too_long():
    beta = 0.1
    last = 1 / -math.expm1(-2 * beta)
    found = divergence(3.0, beta, np.array([last - 1e-3, last + 1e-3]))
    assert math.isfinite(found[0])
    assert math.isinf(found[1])


@pytest.mark.parametrize("accountant", ["rdp", "moments", "analytic_moments"])
def test_accountants_charge_it(accountant):
    event = SmoothGaussian(noise=4.0, beta=0.01)
    once, thrice = (epsilon([Entry(event, count)], 1e-5, accountant) for count in (1, 3))
    assert thrice == epsilon([Entry(event)] * 3, 1e-5, accountant) > once
    plain = epsilon([Entry(Gaussian(noise=4.0))], 1e-5, accountant)
    assert epsilon([Entry(SmoothGaussian(noise=4.0, beta=0.0))], 1e-5, accountant) == plain < once
    falling = [epsilon([Entry(SmoothGaussian(z, 0.01))], 1e-5, accountant) for z in (0.5, 2.0, 8.0, math.inf)]
    assert all(low > high > 0 for low, high in itertools.pairwise(falling))
    rising = [epsilon([Entry(SmoothGaussian(4.0, b))], 1e-5, accountant) for b in (0.0, 1e-4, 0.01, 0.05)]
    assert all(low < high for low, high in itertools.pairwise(rising))
    doubled = SmoothGaussian(noise=4.0, beta=0.01, relation="replace_one")
    assert epsilon([Entry(doubled)], 1e-5, accountant) > 1.9 * once
    for nothing_hidden in (SmoothGaussian(0.0, 0.01), SmoothGaussian(4.0, math.inf)):
        assert epsilon([Entry(nothing_hidden)], 1e-5, accountant) == math.inf


def test_a_cap_takes_it_by_its_divergence_and_others_refuse():
    event = SmoothGaussian(noise=4.0, beta=0.01)
    assert from_json(to_json(event)) == event
    cap = Filter(Capped(filter="renyi", bound=1.0, order=8.0))
    cap.spend(event)
    assert cap.spent == pytest.approx(divergence(4.0, 0.01, np.array([8.0]))[0])
    with pytest.raises(Unproven, match="SmoothGaussian"):
        epsilon([Entry(event)], 1e-5, "pld")
    with pytest.raises(Unproven, match="SmoothGaussian"):
        epsilon([Entry(Sampled(rate=0.1, queries=(event,)))], 1e-5, "rdp")
    for bad, named in ((SmoothGaussian(-1.0, 0.1), "noise"), (SmoothGaussian(1.0, -0.1), "beta")):
        with pytest.raises(BadInput, match=named):
            epsilon([Entry(bad)], 1e-5, "rdp")


def test_what_is_told_is_the_figure_with_noise_of_its_sensitivity_and_its_own_cost():
    votes = np.tile([40, 3, 2], (30, 1))
    order, beta, noise = 6.0, 0.02, 4.0
    found = smooth_sensitivity.of_gnmax(votes, 4.0, order, beta)
    asked = []
    told = smooth_sensitivity.sanitised(found, noise, 1e-5, lambda deviation: asked.append(deviation) or 0.25)
    assert asked == [noise * found.sensitivity]
    assert 0 <= told.divergence - (found.value + 0.25) <= smooth_sensitivity.GRAIN
    assert told.divergence / smooth_sensitivity.GRAIN == int(told.divergence / smooth_sensitivity.GRAIN)
    cost = divergence(noise, beta, np.array([order]))[0]
    assert told.epsilon == pytest.approx(told.divergence + cost + math.log(1e5) / (order - 1), rel=1e-12)
    assert told.event == SmoothGaussian(noise=noise, beta=beta) == smooth_sensitivity.event(noise, beta)
    assert smooth_sensitivity.sanitised(found, noise, 1e-5, lambda _: -100.0).divergence == 0
    assert "sensitivity" not in vars(told)
    assert found.internal is True
    assert pate.smooth_sensitivity is smooth_sensitivity
