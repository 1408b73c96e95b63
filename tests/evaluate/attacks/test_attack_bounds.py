import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq

from synthdp.cli import evaluations
from synthdp.errors import BadInput
from synthdp.evaluate.attacks.bounds import Claim, claim_of
from synthdp.report import promise

CLAIMS = [(0.0, 0.0), (0.5, 0.0), (1.0, 1e-5), (3.0, 0.01), (10.0, 0.2)]


def curve(epsilon, delta, alarms):
    """Least upper bound on the true positive rate at a false positive rate (Kairouz, Oh & Viswanath 2015)."""
    rising = math.exp(epsilon) * alarms + delta
    return np.minimum(1.0, np.minimum(rising, 1 - math.exp(-epsilon) * np.maximum(0, 1 - delta - alarms)))


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_bounds_are_those_of_the_trade_off_curve(epsilon, delta):
    claim = Claim(epsilon=epsilon, delta=delta)
    alarms = np.linspace(0, 1, 2_000_001)
    best = curve(epsilon, delta, alarms)
    assert claim.advantage == pytest.approx((best - alarms).max(), abs=1e-5)
    assert claim.auroc == pytest.approx(np.trapezoid(best, alarms), abs=1e-5)
    for share in (0.05, 0.3, 0.5):
        if delta < 2 * share:  # with fewer, all of the surest can be members
            at = brentq(lambda a, both=2 * share: curve(epsilon, delta, a) + a - both, 0, 1, xtol=1e-15)
            assert claim.surest(share) == pytest.approx(1 - at / (2 * share), abs=1e-6)
        else:
            assert claim.surest(share) == 1


def test_closed_forms():
    assert Claim(epsilon=1, delta=0).advantage == pytest.approx(math.tanh(0.5))
    assert Claim(epsilon=1, delta=0.1).advantage == pytest.approx(math.tanh(0.5) + 0.1 * (1 - math.tanh(0.5)))
    assert Claim(epsilon=1, delta=0).auroc == pytest.approx(1 / (1 + math.exp(-1)))
    assert Claim(epsilon=0.5, delta=0).nearer(100) == pytest.approx(math.e / (1 + math.e))  # a swap is two steps
    assert Claim(epsilon=0.5, delta=0).isolation(100, 0.1) == pytest.approx(0.1 * math.e)
    grown = 1e-4 * (1 + math.exp(0.5))
    assert Claim(epsilon=0.5, delta=1e-4).isolation(100, 0.1) == pytest.approx(0.1 * math.e + 100 * grown)


def test_replacing_one_unit_by_another_is_one_step_of_replace_one():
    points = {"epsilon": 1.0, "delta": 1e-4, "curve": ((1e-2, 0.4),)}
    replaced, added = (claim_of({**points, "relation": relation}) for relation in ("replace_one", "add_remove"))
    assert replaced.swaps == ((1e-4, 1.0), (1e-2, 0.4))
    assert replaced.nearer(10) == pytest.approx(1 / (1 + math.exp(-0.4)) + 10 * 1e-2 / (1 + math.exp(0.4)))
    assert replaced.isolation(10, 0.01) == pytest.approx(0.01 * math.e + 10 * 1e-4)
    assert replaced.nearer(10) < added.nearer(10)
    assert replaced.isolation(10, 0.01) < added.isolation(10, 0.01)
    assert (replaced.advantage, replaced.auroc) == (added.advantage, added.auroc), (
        "a member against whoever took its place"
    )
    assert claim_of(points) == added
    with pytest.raises(BadInput, match="claim: relation 'replace'; give add_remove or replace_one"):
        claim_of({**points, "relation": "replace"})


def test_the_least_bound_of_the_privacy_curve_counts_as_in_the_statement():
    """One release allowed an advantage of 26 % by its statement and 90 % by its evaluation."""
    statement = SimpleNamespace(
        epsilon=3.0, delta=1e-6, unit="record", relation="add_remove", curve=((0.3, 0.0), (1e-3, 1.4)), declared={}
    )
    claim = claim_of(evaluations.claim_of(statement))
    assert claim.advantage == promise.attack(statement)["advantage"] == pytest.approx(0.3)
    alone = [Claim(epsilon=epsilon, delta=delta) for delta, epsilon in claim.points]
    assert claim.auroc == min(each.auroc for each in alone) < alone[0].auroc
    assert claim.surest(0.05) == min(each.surest(0.05) for each in alone) == alone[2].surest(0.05)
    assert claim.nearer(100) == min(each.nearer(100) for each in alone)
    assert claim.isolation(100, 0.01) == min(each.isolation(100, 0.01) for each in alone)


@pytest.mark.parametrize("epsilon", [400.0, 1e6, math.inf])
def test_no_guarantee_bounds_nothing_and_overflows_nowhere(epsilon):
    claim = Claim(epsilon=epsilon, delta=0)
    assert claim.advantage == claim.auroc == claim.surest(0.05) == claim.nearer(10) == claim.isolation(10, 0.1) == 1


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"epsilon": 1},
        {"epsilon": "x", "delta": 0},
        {"epsilon": -1, "delta": 0},
        {"epsilon": 1, "delta": 2},
        {"epsilon": 1, "delta": 0, "curve": [1]},
    ],
)
def test_bad_claims_are_refused(given):
    with pytest.raises(BadInput, match="claim"):
        claim_of(given)


def test_plain_claims():
    assert claim_of(None) is None
    assert claim_of({"epsilon": None, "delta": 0}).advantage == 1
    assert claim_of({"epsilon": "inf", "delta": 0.0}).advantage == 1
    assert claim_of({"epsilon": 1, "delta": 1e-6, "unit": "patient_id"}).unit == "patient_id"
