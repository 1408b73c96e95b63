import numpy as np
import pandas as pd
import pytest
from attack_tables import population
from scipy.stats import binom

from synthdp.errors import BadInput
from synthdp.evaluate import attacks
from synthdp.evaluate.attacks import bounds
from synthdp.evaluate.attacks.case import one_per_unit
from synthdp.evaluate.tables import unit_codes


def test_patients_are_attacked_once_and_never_on_both_sides():
    train, test = population(90, 1), population(90, 2)
    own, other = np.arange(90) // 3, 25 + np.arange(90) // 3
    keep, rest = one_per_unit((own, other), 90, 90)
    assert sorted(own[keep]) == list(range(30))
    assert sorted(other[rest]) == list(range(30, 55))  # units 25 to 29 are in the training rows too
    with pytest.raises(BadInput, match="units"):
        attacks.run(train, train, test, units=(own[1:], other))


def test_codes_of_patients():
    train, test = pd.DataFrame({"who": [7, 8, 8]}), pd.DataFrame({"who": ["8", "9", None, None]})
    own, other = unit_codes(train, test, "who")
    assert own[1] == own[2] == other[0]
    assert len({*own, *other}) == 5  # 7, 8, 9 and two that are unknown
    own, other = unit_codes(train, pd.DataFrame({"who": [8.0, np.nan]}), "who")
    assert own[1] == other[0]


@pytest.mark.heavy
def test_patients_records_that_repeat_do_not_alarm(monkeypatch):
    """Each patient has eight equal records: taken for independent they would narrow the intervals by a factor of 2.8."""
    monkeypatch.setattr(bounds, "RESAMPLES", 200)
    alarms = 0
    for seed in range(8):
        made, train, test = (population(n, (seed, n)) for n in (300, 60, 120))
        parts = [x.take(np.repeat(np.arange(x.rows), 8)) for x in (train, test)]
        codes = np.repeat(np.arange(60), 8), 60 + np.repeat(np.arange(120), 8)
        alarms += sum(x["verdict"] == "concern" for x in attacks.run(made, *parts, units=codes)[0])
    assert alarms <= binom.ppf(0.9999, 8 * len(attacks.NAMES), 0.025)


@pytest.mark.parametrize(
    ("shared", "words"), [(60, "every patient of the test records has training records too"), (40, "only 20 patients")]
)
def test_test_patients_that_are_all_in_training_are_said_to_be(shared, words):
    """A split by record, where nobody or hardly anybody is left to compare with."""
    made, train, test = (population(60, seed) for seed in range(3))
    codes = np.arange(60), np.r_[np.arange(shared), np.arange(100, 160 - shared)]
    found, lacking = attacks.run(made, train, test, units=codes)
    assert {entry["verdict"] for entry in found} == {"not computed"}
    assert all(words in entry["reason"] and "split the records by patient" in entry["reason"] for entry in lacking)


def test_too_few_records_of_new_patients_are_no_matter_of_the_split():
    made, train, test = (population(rows, rows) for rows in (60, 61, 5))
    _, lacking = attacks.run(made, train, test, units=(np.arange(61), 100 + np.arange(5)))
    assert lacking[0]["reason"] == "there are 5 real test rows; at least 60 are needed"
