"""A person's whole history as one record: its columns against the tables, and people who were copied are found."""

from collections import Counter

import numpy as np
import pytest
from histories_of import histories_of
from linked_clinic import clinic, schema
from scipy.stats import binom

from synthdp.evaluate import attacks
from synthdp.evaluate.attacks import bounds, whole_histories
from synthdp.evaluate.tables import unit_codes
from synthdp.sets import made_up_clinic

CLAIM = {"epsilon": 0.1, "delta": 1e-6, "unit": "person_id"}


def test_the_columns_of_a_person_are_those_of_the_whole_history():
    frames = clinic(40, seed=4)
    people = histories_of(frames)
    table = whole_histories.of_people(people, schema())
    visits, rows = frames["visit"], frames["diagnosis"].groupby("visit_id").head(2)
    assert set(people.names["person_id"]) == set(frames["person"]["person_id"])
    for place, name in enumerate(people.names["person_id"]):
        own = visits[visits["person_id"] == name].sort_values("start")
        found = {axis.name: value for axis, value in zip(table.axes, table.values[place], strict=True)}
        assert found["number of visits"] == len(own)
        if not len(own):
            assert np.isnan(found["first visit.start"])
            assert np.isnan(found["last visit.no_show"])
            continue
        days = own["start"].astype("datetime64[s]").astype("int64") / 86_400
        assert [found["first visit.start"], found["last visit.start"]] == [days.iloc[0], days.iloc[-1]]
        assert found["visit.ward = a"] == pytest.approx((own["ward"] == "a").mean())
        assert found["last visit.no_show"] == own["no_show"].iloc[-1]
        earlier = own["no_show"].iloc[:-1]
        told = found["earlier visit.no_show = True"]
        assert np.isnan(told) if len(earlier) == 0 else told == pytest.approx(earlier.mean())
        below = own["visit_id"].map(rows["visit_id"].value_counts()).fillna(0)
        assert found["rows of diagnosis"] == pytest.approx(below.mean())
    assert whole_histories.secrets(table, ["visit.no_show", "person.sex"]) == ["last visit.no_show", "person.sex"]


def test_people_who_were_copied_are_found_and_others_are_not():
    parts = [clinic(people, seed=seed) for people, seed in ((150, 1), (150, 2), (150, 3))]
    sets = [histories_of(each) for each in parts]
    train, test, other = (whole_histories.of_people(each, schema()) for each in sets)
    units = unit_codes(sets[0].names.assign(person_id=lambda f: "t" + f["person_id"]), sets[1].names, "person_id")
    verdicts = {}
    for name, made in (("copied", train), ("other", other)):
        found, lacking = attacks.run(
            made, train, test, targets=["last visit.no_show"], claim=CLAIM, units=units, of_people=True
        )
        assert not lacking
        assert [each["id"] for each in found] == list(attacks.NAMES_OF_PEOPLE)
        verdicts[name] = [each["verdict"] for each in found]
        assert all("whole history" in each["text"] for each in found)
    assert verdicts == {"copied": ["concern"] * 3, "other": ["pass"] * 3}


@pytest.mark.heavy
def test_false_alarms_are_rare(monkeypatch):
    """People of the same making who were not used: each attack alarms in at most 2.5 % of cases, over 40 of them."""
    monkeypatch.setattr(bounds, "RESAMPLES", 200)
    alarms = Counter()
    for case in range(40):
        sets = [
            histories_of(made_up_clinic.tables(people, 3 * case + place), made_up_clinic.schema(300))
            for place, people in enumerate((300, 300, 200))
        ]
        made, train, test = (whole_histories.of_people(each, made_up_clinic.schema(300)) for each in sets)
        units = unit_codes(sets[1].names, sets[2].names, "person_id")
        found, _ = attacks.run(made, train, test, targets=["last visit.no_show"], units=units, of_people=True)
        alarms.update(each["id"] for each in found if each["verdict"] == "concern")
    assert max(alarms.values(), default=0) <= binom.ppf(0.999, 40, 0.025)
