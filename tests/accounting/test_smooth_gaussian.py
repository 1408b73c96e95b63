"""The event of a number whose noise follows a smooth sensitivity: what it costs, against integrals. No question of today books it;
ledgers of earlier versions hold it."""

import itertools
import math

import numpy as np
import pytest

from synthdp.accounting import Unproven, epsilon
from synthdp.accounting.analytic_gaussian import divergence
from synthdp.accounting.caps import Filter
from synthdp.errors import BadInput
from synthdp.ledger.events import Capped, Entry, Gaussian, Sampled, SmoothGaussian, from_json, to_json


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
