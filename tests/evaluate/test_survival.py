"""Kaplan-Meier curves of histories: the estimate against a loop, events and following against the tables, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from histories_of import histories_of
from linked_clinic import VISIT, clinic, finer, labs, schema, with_labs, with_tree

from synthdp.cli.evaluations import headline
from synthdp.errors import BadInput
from synthdp.evaluate import survival
from synthdp.evaluate.survival import curve, events_of, followed
from synthdp.schema.joined_tables import joined
from synthdp.schema.rule_rows import broken


def alive_by_hand(lengths, happened, when):
    alive = 1.0
    for time in sorted(set(lengths[happened])):
        if time <= when:
            at_risk = sum(length >= time for length in lengths)
            alive *= 1 - sum((lengths == time) & happened) / at_risk
    return alive


def test_a_curve_is_the_product_limit_estimate():
    rng = np.random.default_rng(0)
    lengths, happened = rng.integers(0, 12, 60).astype(float), rng.random(60) < 0.5
    found = curve(lengths, happened)
    for when in (0.0, 0.5, 3.0, 7.9, 11.0, 20.0):
        assert found.at(np.array([when]))[0] == pytest.approx(alive_by_hand(lengths, happened, when))
        assert found.at_risk(np.array([when]))[0] == (lengths >= when).sum()
    assert curve(lengths, np.zeros(60, bool)).at(np.array([5.0]))[0] == 1
    assert curve(np.zeros(3), np.ones(3, bool)).at(np.array([0.0]))[0] == 0, (
        "an event at the first visit counts at once"
    )


@pytest.fixture(scope="module")
def frames():
    return labs(clinic(90, seed=5), seed=5)


@pytest.fixture(scope="module")
def people(frames):
    return histories_of(frames, with_labs())


def by_person(frames, rows):
    """The days from the first visit to the first of these visits and to the last one, by person; NaN where there is none."""
    visits = frames["visit"].groupby("person_id", sort=False)["start"]
    hit = frames["visit"][rows].groupby("person_id")["start"].min().reindex(visits.min().index)
    return (hit - visits.min()).dt.days.to_numpy(float), (visits.max() - visits.min()).dt.days.to_numpy(float)


CONDITIONS = {
    "a column of visits": ({"visit.no_show": True}, lambda f: f["visit"]["no_show"]),
    "columns of a person and of visits": (
        {"person.sex": "F", "visit.ward": ["a"]},
        lambda f: (
            (f["visit"]["ward"] == "a")
            & f["visit"]["person_id"].isin(f["person"][f["person"]["sex"] == "F"]["person_id"])
        ),
    ),
    "two columns of one row": (
        {"lab.test": "Hb", "lab.value": ">= 50"},
        lambda f: f["visit"]["visit_id"].isin(
            f["lab"][(f["lab"]["test"] == "Hb") & (f["lab"]["value"] >= 50)]["visit_id"]
        ),
    ),
}


@pytest.mark.parametrize(("condition", "rows"), CONDITIONS.values(), ids=CONDITIONS)
def test_an_event_is_the_first_visit_at_which_its_condition_holds(frames, condition, rows):
    few = {**frames, "lab": frames["lab"].groupby("visit_id").head(3).reset_index(drop=True)}  # as many as count
    (event,) = events_of([condition], with_labs())
    lengths, happened = followed(histories_of(few, with_labs()), event, with_labs())
    hit, last = by_person(few, rows(few))
    assert happened.sum() > 5
    assert (happened == ~np.isnan(hit)).all()
    assert (lengths == np.where(happened, hit, last)).all()


def test_a_date_of_people_is_followed_to_the_end_of_the_dates_of_visits(frames, people):
    (event,) = events_of(None, with_labs())
    assert event.label == "person.death", "which no visit is after, by a rule"
    lengths, happened = followed(people, event, with_labs())
    first = frames["visit"].groupby("person_id", sort=False)["start"].min()
    death = frames["person"].set_index("person_id")["death"].reindex(first.index)
    end = pd.Timestamp("2023-12-31")
    assert (happened == (death <= end).to_numpy()).all()
    assert (lengths == (death.where(death <= end, end) - first).dt.days.to_numpy()).all()


def test_curves_are_compared_where_enough_people_are_followed(monkeypatch):
    parts = {
        name: histories_of(clinic(number, seed=seed))
        for name, number, seed in (("synthetic", 120, 1), ("train", 120, 2), ("test", 80, 3))
    }
    (found,), lacking = survival.judge(parts, events_of([{"visit.ward": "a"}], schema()), schema())
    assert not lacking
    (event,) = events_of([{"visit.ward": "a"}], schema())
    pairs = {name: followed(each, event, schema()) for name, each in parts.items()}
    assert min((lengths >= found["until"]).sum() for lengths, _ in pairs.values()) >= 10
    days = np.arange(found["until"] + 1)
    far = {name: np.array([alive_by_hand(*pairs[name], day) for day in days]) for name in pairs}
    assert found["distance"] == pytest.approx(np.abs(far["synthetic"] - far["test"]).max())
    assert found["real"] == pytest.approx(np.abs(far["train"] - far["test"]).max())
    assert found["at_risk"]["synthetic"][0] == found["people"]["synthetic"] == len(pairs["synthetic"][0])
    few = {**parts, "test": histories_of(clinic(10, seed=3))}
    assert survival.judge(few, (event,), schema())[1][0]["metric"] == "survival.visit.ward = a"


REFUSED = {
    "no date": (["person.sex"], "'person.sex' is not a date of people"),
    "no column of people": (["visit.start"], "'visit.start' is not a date of people"),
    "no such date": (["person.dead"], "did you mean 'person.death'"),
    "a date without its table": (["death"], "did you mean 'person.death'"),
    "no such column": ([{"diagnosis.kode": "E11"}], "did you mean 'diagnosis.code'"),
    "a place": ([{"diagnosis.code 1": "E11"}], "'diagnosis.code 1' is not one of the columns"),
    "no such code": ([{"diagnosis.code": "E99"}], "'E99' is not one of its categories"),
    "two tables": ([{"diagnosis.code": "E11", "lab.test": "K"}], "only one table below visits"),
    "no event": ([5], "5 is not an event"),
}


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_event_is_refused(given, said):
    with pytest.raises(BadInput, match=said) as refusal:
        events_of(given, with_labs())
    assert str(refusal.value).startswith("evaluate.survival: ")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("e11.4", "'e11.4' is neither one of its codes nor above one; did you mean 'E11.4'"),
        ("I1O.4", "did you mean 'I10.4'?"),
        (["E11.4", "E99"], "'E99' is neither one of its codes nor above one"),
    ],
)
def test_a_code_that_is_not_declared_is_refused_under_a_tree_too(code, said):
    """Nobody had it, so its curves were 0.000 apart."""
    with pytest.raises(BadInput, match=re.escape(said)):
        events_of([{"diagnosis.code": code}], with_tree())
    assert events_of([{"diagnosis.code": ["E11.4", "K22.0"]}], with_tree())


def test_a_coarser_code_stands_for_all_below_it():
    (coarse,), (fine,) = (
        events_of([{"diagnosis.code": code}], with_tree()) for code in ("E11", [f"E11.{digit}" for digit in range(5)])
    )
    frame = joined(finer(clinic(60, seed=1)), with_tree()).frame
    hits = [np.logical_or.reduce([broken(rule, frame, with_tree()) for rule in each.held]) for each in (coarse, fine)]
    assert hits[0].any()
    assert (hits[0] == hits[1]).all()


def test_a_code_beside_a_category_for_others_is_refused_and_one_that_is_learned_is_not():
    ward = {"kind": "categorical", "categories": ["a", "b", "other"], "other": "other", "missing": True}
    columns = {**VISIT["columns"], "ward": ward}
    with pytest.raises(BadInput, match=r"'visit.ward': 'A' is not one of its categories; did you mean 'a'"):
        events_of([{"visit.ward": "A"}], schema(tables={"visit": {"columns": columns}}))
    columns["ward"] = {"kind": "categorical", "categories": "learn", "missing": True}
    assert events_of([{"visit.ward": "A"}], schema(tables={"visit": {"columns": columns}}))


@pytest.mark.parametrize("real", [True, False])
def test_an_event_that_no_real_person_has_is_said_to_be_so(real):
    parts = {name: histories_of(clinic(120, seed=seed)) for name, seed in (("train", 2), ("test", 3))}
    made = clinic(120, seed=1)
    made["visit"]["ward"] = "c" if real else "a"
    learned = {"kind": "categorical", "categories": "learn", "missing": True}
    one = schema(tables={"visit": {"columns": {**VISIT["columns"], "ward": learned}}})
    parts["synthetic"] = histories_of(made, one)
    (found,), _ = survival.judge(parts, events_of([{"visit.ward": "a" if real else "c"}], one), one)
    result = {"about": {}, "targets": {}, "not_computed": [], "fidelity": {}, "histories": {"survival": [found]}}
    (line,) = [line for line in headline(result) if line.startswith("until visit.ward")]
    assert ("no real person has this event; synthetic people who have it: 0" in line) != real
    assert ("held-out and training people" in line) == real


def test_events_need_histories():
    from clinic import make_schema

    assert events_of(None, make_schema()) == ()
    with pytest.raises(BadInput, match="has no order"):
        events_of(["age"], make_schema())
