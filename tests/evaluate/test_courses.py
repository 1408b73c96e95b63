"""Timelines, types of visits, and which follows which: against loops over the visits of each person."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from histories_of import histories_of
from linked_clinic import clinic, declared, labs, schema, with_labs

from synthdp import Schema
from synthdp.evaluate import answers, courses, figures, findings, history_plots, survival
from synthdp.evaluate.association import cramers_v
from synthdp.evaluate.courses import Histories, Types
from synthdp.evaluate.linked import _broken_by_rows
from synthdp.evaluate.tables import axes_of
from synthdp.schema.joined_tables import joined


@pytest.fixture(scope="module")
def frames():
    return {
        name: clinic(people, seed=seed)
        for name, seed, people in (("synthetic", 3, 80), ("train", 1, 90), ("test", 2, 60))
    }


@pytest.fixture(scope="module")
def sets(frames):
    return {name: histories_of(each) for name, each in frames.items()}


def wards(frames):
    """The wards of each person's visits in order."""
    ordered = frames["visit"].sort_values("start", kind="stable")
    return [list(each) for _, each in ordered.groupby("person_id", sort=False)["ward"]]


@pytest.mark.parametrize(("length", "key"), [(2, "steps"), (3, "orders")])
def test_runs_of_visits_are_those_of_each_person(frames, sets, length, key):
    types = Types.of(schema(), sets["train"].table.axes)
    found = courses.judge(sets, schema(), types)[key]
    shares = {}
    for name, each in frames.items():
        runs = Counter(tuple(of[at : at + length]) for of in wards(each) for at in range(len(of) - length + 1))
        shares[name] = {run: count / runs.total() for run, count in runs.items()}
    every = set().union(*shares.values())
    for figure, one in (("tvd", "synthetic"), ("real", "test")):
        expected = sum(abs(shares[one].get(run, 0) - shares["train"].get(run, 0)) for run in every) / 2
        assert found[figure] == pytest.approx(expected)
    if key == "orders":
        first = found["common"][0]
        assert first["train"] == max(shares["train"].values())
        assert first["synthetic"] == pytest.approx(shares["synthetic"].get(tuple(first["types"]), 0))
    else:
        assert found["shares"]["train"][0][1] == pytest.approx(shares["train"][("a", "b")])


def test_what_goes_on_from_visit_to_visit_is_counted_person_by_person(frames, sets):
    """A ward with the one before, and a missed visit with the ward before: against loops over the visits of each person."""
    found = courses.judge(sets, schema(), None)["onward"]
    pairs = {(each["last"], each["present"]): each for each in found["pairs"]}
    assert list(pairs)[:2] == [("visit.ward", "visit.ward"), ("visit.no_show", "visit.no_show")]
    for role, each in frames.items():
        ordered = each["visit"].sort_values("start", kind="stable")
        for name in ("ward", "no_show"):
            last = ordered.groupby("person_id", sort=False)[name].shift()
            both = pd.DataFrame({"last": last, "present": ordered[name]}).dropna()
            codes = [pd.factorize(both[side], sort=True)[0] for side in ("last", "present")]
            assert pairs[f"visit.{name}", f"visit.{name}"][role] == pytest.approx(cramers_v(*codes))
    assert pairs["visit.no_show", "visit.no_show"]["train"] > 0.2 > pairs["visit.ward", "visit.ward"]["train"]
    assert found["mean"] > 0 < found["real"]


def test_values_that_follow_nothing_are_found():
    """A value that goes on from visit to visit in the records and not in the synthetic ones, and one that follows another's last value."""

    def made(loose):
        rng = np.random.default_rng(0)
        own, owner = rng.normal(size=300), np.repeat(np.arange(300), 4)
        value = own[owner] + 0.3 * rng.normal(size=1200)
        after = np.where(np.arange(1200) % 4 == 0, rng.normal(size=1200), np.roll(value, 1))
        order = rng.permutation(1200) if loose else np.arange(1200)
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(1200) % 4, "D")
        frame = pd.DataFrame({"who": owner.astype(str), "day": days, "value": value[order], "after": after[order]})
        return Histories.of(frame, np.ones(1200, np.bool_), declared_values, axes_of(declared_values, frame), "real")

    number = {"kind": "continuous", "bounds": [-9, 9]}
    columns = {
        "who": {"kind": "identifier"},
        "day": {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"], "resolution": "day"},
        "value": number,
        "after": number,
    }
    keys = {"name": "values", "declared_by": "tests", "unit": "who", "order": "day", "max_records_per_unit": 4}
    declared_values = Schema.from_dict({**keys, "units": 300, "columns": columns})
    real, loose = made(loose=False), made(loose=True)
    found = courses.onward({"synthetic": loose, "train": real, "test": real}, real.table.axes[1:])
    pairs = {(each["last"], each["present"]): each for each in found["pairs"]}
    assert set(pairs) == {("value", "value"), ("after", "after"), ("value", "after"), ("after", "value")}
    for pair, least in ((("value", "value"), 0.85), (("value", "after"), 0.99)):
        assert pairs[pair]["train"] == pairs[pair]["test"] > least
        assert abs(pairs[pair]["synthetic"]) < 0.1
    assert found["real"] == 0 < found["mean"]
    turned = courses.onward({"synthetic": real, "train": loose, "test": loose}, real.table.axes[1:])
    assert {(each["last"], each["present"]) for each in turned["pairs"] if each.get("invented")} >= {
        ("value", "value"),
        ("after", "after"),
        ("value", "after"),
    }
    single = {**real.__dict__, "owner": np.arange(1200)}
    assert courses.onward(dict.fromkeys(("synthetic", "train", "test"), Histories(**single)), real.table.axes) is None


def discharges(people, seed, returned=0.0):
    """Stays that end at home, in care or by death, after which nobody comes again but the `returned`; some have two stays on the day."""
    rng, rows = np.random.default_rng(seed), []
    for person in range(people):
        day = pd.Timestamp("2020-01-01") + pd.Timedelta(int(rng.integers(300)), "D")
        for _ in range(1 + rng.poisson(1.5)):
            end = str(rng.choice(["home", "care", "died"], p=[0.5, 0.35, 0.15]))
            rows.append((str(person), day, end, end == "home"))
            if end == "died" and rng.random() >= returned:
                rows += [(str(person), day, "care", False)] * int(rng.integers(2))
                break
            day += pd.Timedelta(int(rng.integers(1, 60)), "D")
    frame = pd.DataFrame(rows, columns=["who", "day", "end", "well"])
    return Histories.of(frame, np.ones(len(frame), np.bool_), STAYS, axes_of(STAYS, frame), "real")


STAYS = Schema.from_dict(
    {
        "name": "stays",
        "declared_by": "tests",
        "unit": "who",
        "order": "day",
        "max_records_per_unit": 9,
        "units": 300,
        "columns": {
            "who": {"kind": "identifier"},
            "day": {"kind": "datetime", "bounds": ["2020-01-01", "2023-01-01"], "resolution": "day"},
            "end": {"kind": "categorical", "categories": ["home", "care", "died"]},
            "well": {"kind": "boolean"},
        },
    }
)


def test_visits_after_a_value_that_ends_real_histories_are_named():
    """Whoever died has no later stay, whatever else stands on that day; of synthetic people, many do."""
    sets = {"synthetic": discharges(300, 3, returned=0.7), "train": discharges(300, 1), "test": discharges(150, 2)}
    (found,) = courses.final(sets, courses.own_axes(STAYS, sets["train"].table.axes))
    assert (found["column"], found["value"], found["train"], found["test"]) == ("end", "died", 0.0, 0.0)
    later = []
    for _, each in sets["synthetic"].frame.groupby("who"):
        died = each.loc[each["end"] == "died", "day"]
        later += [bool((each["day"] > died.min()).any())] if len(died) else []
    assert (found["people"]["synthetic"], found["synthetic"]) == (len(later), pytest.approx(np.mean(later)))
    told = {"final": [found]}
    worst = findings.worst({}, told)
    said = f"{100 * np.mean(later):.1f} % of synthetic people with end = died have a later visit; 0.0 % of real ones do"
    assert dict(answers.brief({"about": {}, "fidelity": {}, "targets": {}, "histories": told}))["last visits"] == said
    answer = answers.faithful({"tvd_1way": {"mean": 0, "floor": {"mean": 0}}}, worst)
    assert f"{said}." in answer.text
    assert answer.verdict.words.endswith(", and has visits after values that end real histories")
    several = findings.worst({}, {"final": [found, {**found, "value": "left"}]})
    assert (
        "After one more value that ends real histories"
        in answers.faithful({"tvd_1way": {"mean": 0, "floor": {"mean": 0}}}, several).text
    )
    rare = {**found, "people": {**found["people"], "synthetic": 25, "train": 25}, "synthetic": 0.2}
    assert not findings.worst({}, {"final": [rare]}), "chance may explain 5 of 25"


def test_histories_that_end_as_real_ones_do_raise_nothing():
    for seed in range(0, 30, 3):
        sets = {name: discharges(120, seed + part) for part, name in enumerate(("synthetic", "train", "test"))}
        assert not findings.worst({}, {"final": list(courses.final(sets, sets["train"].table.axes[1:]))})
    few = {name: discharges(40, seed) for seed, name in enumerate(("synthetic", "train", "test"))}
    assert not list(courses.final(few, few["train"].table.axes[1:])), "fewer than 20 people died"


def test_a_gap_that_no_longer_follows_from_the_visit_before_is_found():
    """Readmissions within days of a bad stay, which synthetic patients lack: no figure showed it."""

    def made(loose):
        rng = np.random.default_rng(int(loose))
        bad = rng.random((300, 4)) < 0.3
        soon = rng.permuted(bad) if loose else bad
        gaps = np.where(soon, rng.integers(2, 20, bad.shape), rng.integers(60, 300, bad.shape))
        days = np.cumsum(np.hstack([np.zeros((300, 1), np.int64), gaps[:, :-1]]), axis=1).ravel()
        start = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")
        frame = pd.DataFrame({"who": np.repeat(np.arange(300), 4).astype(str), "day": start, "bad": bad.ravel()})
        return Histories.of(frame, np.ones(1200, np.bool_), stays, axes_of(stays, frame), "real")

    columns = {
        "who": {"kind": "identifier"},
        "day": {"kind": "datetime", "bounds": ["2020-01-01", "2023-01-01"], "resolution": "day"},
        "bad": {"kind": "boolean"},
    }
    keys = {"name": "stays", "declared_by": "tests", "unit": "who", "order": "day", "max_records_per_unit": 4}
    stays = Schema.from_dict({**keys, "units": 300, "columns": columns})
    real, loose = made(loose=False), made(loose=True)
    axes = [axis for axis in real.table.axes if axis.name == "bad"]
    *_, found = courses.onward({"synthetic": loose, "train": real, "test": real}, axes)["pairs"]
    assert (found["last"], found["present"]) == ("bad", "gap")
    assert found["train"] == found["test"] > 0.7 > 0.1 > found["synthetic"]
    same = courses.onward(dict.fromkeys(("synthetic", "train", "test"), real), axes)
    assert [(each["last"], each["present"]) for each in same["pairs"]] == [("bad", "bad")]
    assert "invented" not in str(same)
    *_, turned = courses.onward({"synthetic": real, "train": loose, "test": loose}, axes)["pairs"]
    assert (turned["last"], turned["present"], turned["invented"]) == ("bad", "gap", True)
    assert [each.what for each in findings.invented_associations({}, {"onward": {"pairs": [turned]}})] == [
        "gap and the last bad"
    ]


def test_the_type_of_a_visit_is_told_by_the_schema_alone(sets):
    axes = sets["train"].table.axes
    assert Types.of(schema(), axes).axis.name == "visit.ward"
    target = schema(targets=["visit.ward"])
    assert Types.of(target, axes).axis.name == "visit.no_show"
    assert Types.of(schema(), [axis for axis in axes if axis.name != "visit.ward"]).axis.name == "visit.no_show"
    assert Types.of(schema(), [axis for axis in axes if axis.name == "visit.start"]) is None
    codes = [f"{each:02d}" for each in range(20)]
    many = Schema.from_dict(
        declared(
            tables={
                "visit": {
                    "columns": {
                        **declared()["tables"]["visit"]["columns"],
                        "ward": {"kind": "categorical", "categories": codes},
                    }
                }
            }
        )
    )
    drawn = clinic(40)
    drawn["visit"]["ward"] = np.random.default_rng(0).choice(codes, len(drawn["visit"]))
    people = histories_of(drawn, many)
    types = Types.of(many, people.table.axes)
    assert types.labels[:3] == ("00 to 02", "03 to 04", "05 to 07")
    assert len(types.labels) == 10
    named = [types.labels[code] for code in types.codes(people.table)]
    assert all(name[:2] <= ward <= name[-2:] for name, ward in zip(named, people.frame["visit.ward"], strict=True))


def test_timelines_are_of_the_first_ten_people_with_a_visit(frames, sets):
    types, made = Types.of(schema(), sets["train"].table.axes), dict(frames["synthetic"])
    died = made["person"]["death"].where(made["person"].index % 2 == 1, pd.Timestamp("2023-12-31"))
    made["person"] = made["person"].assign(death=died)
    found = courses.timelines(histories_of(made), schema(), types)
    some = made["person"][made["person"]["person_id"].isin(made["visit"]["person_id"])]
    assert len(found) == 10
    for line, (_, person) in zip(found, some.iterrows(), strict=False):
        visits = made["visit"][made["visit"]["person_id"] == person["person_id"]].sort_values("start")
        assert [each["at"] for each in line["visits"]] == visits["start"].dt.strftime("%Y-%m-%d").tolist()
        assert [each["type"] for each in line["visits"]] == visits["ward"].tolist()
        below = [min(2, int((made["diagnosis"]["visit_id"] == key).sum())) for key in visits["visit_id"]]
        assert [each["rows"].get("diagnosis", 0) for each in line["visits"]] == below
        death = {} if pd.isna(person["death"]) else {"person.death": person["death"].strftime("%Y-%m-%d")}
        assert line["ends"] == death
    assert 0 < sum(len(line["ends"]) for line in found) < 10


def test_who_ever_has_a_code_is_counted_by_person(frames, sets):
    (found,) = courses.judge(sets, schema(), None)["ever"]
    shares = {}
    for name, each in frames.items():
        rows = joined(each, schema()).frame
        held = rows.melt("person_id", [f"diagnosis.code {at}" for at in (1, 2)], value_name="code").dropna()
        shares[name] = held.groupby("code")["person_id"].nunique() / len(each["person"])
    assert found["column"] == "diagnosis.code"
    assert [each["code"] for each in found["codes"]] == shares["train"].sort_values(
        ascending=False, kind="stable"
    ).index.tolist()
    for each in found["codes"]:
        assert {name: each[name] for name in shares} == pytest.approx({k: v[each["code"]] for k, v in shares.items()})
    assert found["distance"] == pytest.approx((shares["synthetic"] - shares["train"]).abs().max())
    assert found["real"] == pytest.approx((shares["test"] - shares["train"]).abs().max())


def test_who_ever_has_a_code_is_counted_by_age_at_the_first_visit(frames, sets, monkeypatch):
    """By the rule that no visit is before birth; a band with few people in one of the sets is left out."""
    monkeypatch.setattr(courses, "LEAST_PEOPLE", 6)
    (found,) = courses.judge(sets, schema(), None)["ever"]
    assert found["by_age"]["farthest"] == [], "these are three draws of one clinic"
    monkeypatch.setattr(figures, "CHANCE", 0.0)
    (found,) = courses.judge(sets, schema(), None)["ever"]
    rows, shares = found["by_age"]["rows"], {}
    bands = {"18 to 39": (18, 40), "40 to 59": (40, 60), "60 to 79": (60, 80), "80 and over": (80, 150)}
    for name, each in frames.items():
        first = each["visit"].groupby("person_id")["start"].min()
        birth = each["person"].set_index("person_id")["birth"].reindex(first.index)
        age = (first - birth).dt.days / 365.25
        whole = joined(each, schema()).frame
        held = whole.melt("person_id", [f"diagnosis.code {at}" for at in (1, 2)], value_name="code").dropna()
        for code in held["code"].unique():
            has = age.index.isin(held.loc[held["code"] == code, "person_id"])
            for band, (low, high) in bands.items():
                shares[name, code, band] = has[(age >= low) & (age < high)].mean()
    assert rows
    assert {row["ages"] for row in rows} <= set(bands)
    for row in rows:
        for name in frames:
            assert row[name] == pytest.approx(shares.get((name, row["code"], row["ages"]), 0))
    apart = [abs(row["synthetic"] - row["train"]) for row in rows]
    assert found["by_age"]["distance"] == pytest.approx(max(apart))
    beyond = {
        (code, band): abs(shares["synthetic", code, band] - shares["train", code, band])
        - abs(shares["test", code, band] - shares["train", code, band])
        for code, band in {(code, band) for _, code, band in shares}
        if band in {row["ages"] for row in rows} and all((name, code, band) in shares for name in frames)
    }
    farthest = [beyond[row["code"], row["ages"]] for row in found["by_age"]["farthest"]]
    assert farthest == pytest.approx(
        sorted((each for each in beyond.values() if each > 0), reverse=True)[: len(farthest)]
    )
    assert farthest
    monkeypatch.setattr(courses, "LEAST_PEOPLE", 60)
    assert courses.judge(sets, schema(), None)["ever"][0]["by_age"] is None
    without = schema(rules=[])
    assert courses.judge(sets, without, None)["ever"][0]["by_age"] is None


def test_dates_at_an_axis_are_few_and_within_it():
    rng = np.random.default_rng(0)
    for _ in range(200):
        low = float(rng.uniform(-40_000, 30_000))
        high = low + float(np.exp(rng.uniform(-2, 10)))
        days, names = history_plots.ticks(low, high)
        assert 1 <= len(days) == len(names) <= 7
        assert low - 0.5 <= min(days) <= max(days) <= high + 0.5


def test_broken_by_rows_of_dates_below_visits_are_counted():
    made = labs(clinic(60, seed=1), seed=1)
    late = {
        **made,
        "lab": made["lab"].assign(
            taken=made["lab"]["taken"] - pd.to_timedelta([1, 0, 0] * len(made["lab"]), unit="D")[: len(made["lab"])]
        ),
    }
    none = {**made, "lab": made["lab"].iloc[:0]}
    whole = [joined(each, with_labs()) for each in (late, made, none)]
    found = {each["rule"]: each for each in _broken_by_rows(with_labs(), [each.frame[each.there] for each in whole])}
    assert set(found) == {"lab.taken >= visit.start", "lab.taken <= person.death"}
    rows = late["lab"].merge(late["visit"], on="visit_id")
    broke = rows["taken"] < rows["start"]
    counted = (
        whole[0]
        .frame[[f"lab.taken {at}" for at in (1, 2, 3)]]
        .lt(whole[0].frame["visit.start"], axis=0)
        .to_numpy()
        .sum()
    )
    of = whole[0].frame[[f"lab.test {at}" for at in (1, 2, 3)]].notna().to_numpy().sum()
    assert found["lab.taken >= visit.start"]["synthetic"] == pytest.approx(counted / of)
    assert abs(counted / of - broke.mean()) < 0.1
    assert found["lab.taken >= visit.start"]["train"] == 0
    assert found["lab.taken >= visit.start"]["test"] is None


def test_records_that_are_ordered_by_a_number_are_followed_in_its_steps():
    columns = {"who": {"kind": "identifier"}, "year": {"kind": "integer", "bounds": [1, 9]}, "ill": {"kind": "boolean"}}
    one = Schema.from_dict({"unit": "who", "max_records_per_unit": 9, "order": "year", "columns": columns})
    whose = np.repeat(np.arange(30), 3)
    frame = pd.DataFrame({"who": whose, "year": np.tile([5, 1, 3], 30), "ill": np.tile([True, False, False], 30)})
    people = courses.Histories.of(frame, np.ones(90, bool), one, axes_of(one, frame), "real training")
    sets = dict.fromkeys(("synthetic", "train", "test"), people)
    found = courses.judge(sets, one, Types.of(one, people.table.axes))
    assert [visit["at"] for visit in found["timelines"][0]["visits"]] == [1, 3, 5]
    assert found["orders"]["common"] == [{"types": ["False", "False", "True"], **dict.fromkeys(sets, 1.0)}]
    found["survival"], _ = survival.judge(sets, survival.events_of([{"ill": True}], one), one)
    shown = history_plots.part(found)
    assert shown["unit"] == "steps"
    assert "steps since the first visit" in shown["plots"]["survival"][0][1]
    assert found["survival"][0]["curves"]["synthetic"][-2:] == [1.0, 0.0]
    assert history_plots.part({}) == {}
    older = history_plots.part({"told": {}})
    assert older["survival"] is None
    assert older["plots"]["timelines"] is None
