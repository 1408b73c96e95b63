"""Histories of linked tables: a fit asks what it planned, whoever shares keys, and gives people with fresh, linked rows."""

import json
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from clinic import reseal
from linked_clinic import (
    BY_FILE,
    DECLARED,
    IN_ORDER,
    LAB,
    TREE,
    clinic,
    finer,
    labs,
    schema,
    with_keys_among_columns,
    with_labs,
    with_tree,
    without,
)
from sweeps import heavy, sweep

from synthdp import Budget, Schema, Synthesizer, generators, load, verify
from synthdp.errors import BadInput
from synthdp.generators import histories
from synthdp.generators.histories import GENERATOR, HistoriesSettings
from synthdp.generators.marginals import history_fit, history_model
from synthdp.generators.marginals.conditional_fit import Conditional
from synthdp.generators.marginals.staying import repeats
from synthdp.ledger.events import merged
from synthdp.ledger.ledger import Ledger
from synthdp.planning import planned
from synthdp.report import information_loss, promise
from synthdp.schema import rows_below
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import FIRST, GAP, View
from synthdp.seal import Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.replay import Recorder

SMALL = HistoriesSettings(rounds=1, iterations=10, pairs=2)
BUDGET = Budget(3.0, 1e-5)


def fitted(budget, frames, settings=SMALL, declared=None, **more):
    declared = declared or (with_labs if "lab" in frames else schema)(units=len(frames["person"]))
    return Synthesizer(settings, schema=declared, budget=budget).fit(frames, **more)


def hospital(people, seed):
    return labs(clinic(people, seed=seed), seed=seed)


@pytest.fixture(scope="module")
def release():
    """A short fit; what it has learned well is another one's."""
    return fitted(Budget(math.inf, 1e-5), hospital(200, seed=1), HistoriesSettings(rounds=1, iterations=4), seed=3)


@pytest.mark.heavy
def test_synthetic_tables_have_keys_where_they_are_declared(tmp_path):
    made = fitted(
        Budget(math.inf, 1e-5), clinic(200, seed=1), declared=schema(tables=with_keys_among_columns()), seed=1
    )
    made.save(tmp_path / "release")
    found = load(tmp_path / "release").sample_tables(20, seed=1)
    assert {name: list(frame.columns) for name, frame in found.items()} == {
        name: list(c) for name, c in BY_FILE.items()
    }
    usual = fitted(Budget(math.inf, 1e-5), clinic(200, seed=1), seed=1, declared=schema()).sample_tables(20, seed=1)
    for name, frame in found.items():
        pd.testing.assert_frame_equal(frame, usual[name][list(frame.columns)])


def run(frames, recorder, declared=None):
    account = Account(BUDGET, Ledger(), unit="person_id")
    data = Sensitive(frames, declared or with_labs(), account, seed=1, recorder=recorder)
    return SMALL.fit(data, seed=1), account


def colliding(frames):
    """The tables, in which P0003 has the visits' keys of others, and the diagnoses of others' visits with them."""
    visit = frames["visit"].copy()
    mine, others = visit["person_id"] == "P0003", visit["person_id"] != "P0003"
    more = visit[others].iloc[:9].assign(person_id="P0003", no_show=True)  # whose rows below are P0003's as well
    visit.loc[mine, "visit_id"] = visit["visit_id"][others].iloc[-1]
    return {**frames, "visit": pd.concat([visit, more], ignore_index=True)}


@pytest.mark.parametrize("tree", sweep([False, True], bool))
def test_replay_with_a_person_whose_keys_collide_with_others(tree):
    """The answers of one run are given to another without the person: the same questions, the same model, and no value moves too far."""
    frames, declared = colliding(hospital(60, seed=2)), with_tree(with_labs) if tree else with_labs()
    frames, declared = finer(frames) if tree else frames, replace(declared, units=1_000)  # of whom more is asked
    for name in ("diagnosis", "lab"):
        assert len(without(frames, "P0003")[name]) == len(frames[name]), "all are shared"
    first = Recorder()
    model, account = run(frames, first, declared)
    second = Recorder(of=first)
    again, _ = run(without(frames, "P0003"), second, declared)
    assert len(second.movements) == len(first.asked) == 11 + tree
    assert all(moved <= bound * (1 + 1e-12) for moved, bound in second.movements)
    assert all(moved > 0 for moved, _ in second.movements)
    one, other = model.sample_tables(30, seed=0), again.sample_tables(30, seed=0)
    for name in one:
        pd.testing.assert_frame_equal(one[name], other[name])
    assert account.plan == merged(account.ledger.entries())


@pytest.mark.heavy
def test_rare_codes_below_visits_are_kept_under_their_parents_and_may_be_drawn_as_leaves(tmp_path):
    """What was kept is one list for all places of a row; the plan, the statement and what was lost tell of it once."""
    frames, release = finer(clinic(800, seed=1)), {}
    for leaves in (False, True):
        declared = schema(
            units=800, tables={"diagnosis": {"columns": {"code": {**TREE, "tree": {**TREE["tree"], "leaves": leaves}}}}}
        )
        made = Synthesizer(SMALL, schema=declared, budget=Budget(1.0, 1e-5))
        release[leaves] = made.fit(frames, seed=1)
        if not leaves:
            whole = made
    kept = set(release[False].schema.column("diagnosis.code 1").categories)
    assert kept == set(release[False].schema.column("diagnosis.code 2").categories)
    assert {"E11.0", "I10.0", "J45.0", "K21.0"} <= kept, "the frequent ones"
    assert kept & {"E", "E11", "I", "I10", "J", "J45", "K", "K21"}, "the rare ones, under these"
    assert len(kept & set(TREE["categories"])) < 12
    sampled, drawn = (release[leaves].sample_tables(400, seed=0)["diagnosis"]["code"] for leaves in (False, True))
    assert kept >= set(sampled)
    assert {"E", "I", "J", "K"} >= {code[0] for code in sampled if code != "other"}
    assert set(drawn) <= {*TREE["categories"], "other"}
    assert set(drawn) - kept, "leaves of what was kept"
    share = frames["diagnosis"]["code"].isin(["E11.0", "I10.0", "J45.0", "K21.0"]).mean()
    others = [whole.fit(frames, seed=seed).sample_tables(400, seed=0)["diagnosis"]["code"] for seed in (2, 3, 4, 5)]
    shares = [codes.isin(["E11.0", "I10.0", "J45.0", "K21.0"]).mean() for codes in (sampled, *others)]
    assert np.mean(shares) == pytest.approx(share, abs=0.1), "of one fit it has a deviation of 0.07"
    loaded = load(release[True].save(tmp_path / "release"))
    verify(tmp_path / "release")
    pd.testing.assert_series_equal(loaded.sample_tables(400, seed=0)["diagnosis"]["code"], drawn)
    said = "\n".join(information_loss.brief(loaded.statement))
    assert "diagnosis.code 1" not in said
    assert re.search(r"diagnosis\.code [\d.]+% at level 3 of 3", said)
    assert "Synthetic codes of diagnosis.code were drawn uniformly" in said
    assert any(
        "which codes are kept depends on how many person_id" in each for each in loaded.statement.declared["tables"]
    )
    assert promise.asked_for(loaded.statement) == promise.bought(loaded.statement) == ["diagnosis.code"]


@pytest.mark.parametrize(("count", "share"), [(29.9, 1 / 201), (30.1, 30.1 / 230.1), (-5.0, 1 / 201)])
def test_other_of_learned_codes_is_empty_until_it_is_clear_of_the_noise(count, share):
    declared = with_tree(with_labs)
    resolved = declared.with_learned("diagnosis.code 1", categories=("E", "I")).with_learned(
        "diagnosis.code 2", categories=("E", "I")
    )
    view = View.of(Codec(resolved))
    others = histories._others(declared, resolved, view)
    assert others == {"diagnosis.code": 2}
    counts = np.array([120.0, 80.0, count, 40.0])  # the last: there is no such row
    answer = history_fit.NoisyTables({("diagnosis.code",): counts}, 10.0)
    chances = np.exp(
        history_fit._alone([answer], "diagnosis.code", view, (slice(0, 0), np.zeros(0)), others["diagnosis.code"])
    )
    np.testing.assert_allclose(chances[2] / chances[:3].sum(), share)
    plain = np.exp(history_fit._alone([answer], "diagnosis.code", view, (slice(0, 0), np.zeros(0))))
    np.testing.assert_allclose(plain[2] / plain[:3].sum(), max(count, 1.0) / (200 + max(count, 1.0)))


@pytest.mark.heavy
def test_a_row_is_not_drawn_for_a_visit_without_what_it_follows():
    # A test is taken where the visit has the code E11, and nowhere else.
    frames = clinic(400, seed=2)
    coded = frames["diagnosis"].groupby("visit_id").head(2)
    of_code = coded["visit_id"][coded["code"] == "E11"].drop_duplicates()
    frames |= {"diagnosis": coded, "lab": pd.DataFrame({"visit_id": of_code, "test": "CRP"})}
    tables = {"lab": {"parent": "visit", "max_rows": 1, "columns": {"test": LAB["columns"]["test"]}}}
    settings = HistoriesSettings(rounds=1, iterations=40)
    made = fitted(Budget(math.inf, 1e-5), frames, settings, declared=schema(tables=tables), seed=0)
    sample = made.sample_tables(1000, seed=0)
    with_code = set(sample["diagnosis"]["visit_id"][sample["diagnosis"]["code"] == "E11"])
    assert len(sample["lab"]) / len(sample["visit"]) == pytest.approx(len(of_code) / len(frames["visit"]), abs=0.04)
    assert sample["lab"]["visit_id"].isin(with_code).mean() > 0.8


def test_keys_are_fresh_and_linked_and_rules_are_kept(release):
    frames = clinic(200, seed=1)
    sample = release.sample_tables(400, seed=0)
    assert list(sample) == ["person", "visit", "diagnosis", "lab"]
    release.schema.validate_tables(sample, "error")
    person, visit, diagnosis, lab = sample.values()
    assert len(person) == 400
    assert person["person_id"].is_unique
    assert visit["visit_id"].is_unique
    assert visit["person_id"].isin(person["person_id"]).all()
    assert diagnosis["visit_id"].isin(visit["visit_id"]).all()
    for table, key in (("person", "person_id"), ("visit", "visit_id")):
        assert not set(sample[table][key]) & set(frames[table][key]), "keys are fresh"
    assert visit.groupby("person_id")["start"].is_monotonic_increasing.all()
    whole = visit.merge(person, on="person_id")
    assert (whole["start"] >= whole["birth"]).all()
    assert not (whole["start"] > whole["death"]).any()
    assert whole["death"].notna().any(), "there is something to keep"
    assert diagnosis.groupby("visit_id").size().max() <= 2
    taken = lab.merge(whole, on="visit_id")
    assert len(taken) == len(lab) > 100
    assert (taken["taken"] >= taken["start"]).all()
    assert not (taken["taken"] > taken["death"]).any()
    assert (taken["death"].notna() & (taken["taken"] > taken["start"])).any(), "there is something to keep"
    pd.testing.assert_frame_equal(visit, release.sample_tables(400, seed=0)["visit"])


@pytest.mark.heavy
def test_nobody_dies_before_birth_however_much_noise_there_is():
    """Visits are not before birth and not after death, so that who dies before birth has no time for any."""
    person = DECLARED["tables"]["person"]
    dates = {name: {**person["columns"][name], "bounds": ["1900-01-01", "2024-03-01"]} for name in ("birth", "death")}
    tables = {"person": {**person, "columns": {**person["columns"], **dates}}}
    declared, parts = schema(units=200, tables=tables), []
    for seed in (1, 2, 3):  # noise alone says how many die
        made = fitted(Budget(0.2, 1e-5), clinic(200), declared=declared, seed=seed)
        parts.append(made.sample_tables(1500, seed=0)["person"])
        assert len(parts[-1]) == 1500
    people = pd.concat(parts, ignore_index=True)
    assert people["death"].notna().sum() > 100, "there is something to keep"
    assert not (people["death"] < people["birth"]).any()


def test_in_parts_no_key_comes_twice_and_the_same_seed_gives_the_same(release):
    parts = list(release.stream_tables(50, seed=3, chunk=20))
    assert [len(part["person"]) for part in parts] == [20, 20, 10]
    whole = {name: pd.concat([part[name] for part in parts]) for name in parts[0]}
    assert whole["person"]["person_id"].is_unique
    assert whole["visit"]["visit_id"].is_unique
    assert whole["visit"]["person_id"].isin(whole["person"]["person_id"]).all()
    for part, again in zip(parts, release.stream_tables(50, seed=3, chunk=20), strict=True):
        pd.testing.assert_frame_equal(part["visit"], again["visit"])
    assert not parts[0]["visit"]["start"].head(20).equals(parts[1]["visit"]["start"].head(20))
    assert [len(part["person"]) for part in release.stream_tables(0)] == [0]


@pytest.mark.heavy
def test_people_are_drawn_under_conditions_on_their_columns(release):
    """As often as among all people, with their histories: those of people who satisfy the condition, out of many."""
    where = {"person.sex": "F", "person.birth": ["1950-01-01", "1969-12-31"], "person.death": None}
    made = release.sample_tables(1500, where=where, seed=0)
    person, visit = made["person"], made["visit"]
    assert len(person) == 1500
    assert person["person_id"].is_unique
    assert set(person["sex"]) == {"F"}
    assert person["birth"].between("1950-01-01", "1969-12-31").all()
    assert person["death"].isna().all()
    release.schema.validate_tables(made, "error")
    every = release.sample_tables(12_000, seed=1)
    alike = every["person"]
    alike = alike[(alike["sex"] == "F") & alike["birth"].between("1950-01-01", "1969-12-31") & alike["death"].isna()]
    numbers = [
        frame["person_id"].map(rows["person_id"].value_counts()).fillna(0)
        for frame, rows in ((person, visit), (alike, every["visit"]))
    ]
    error = math.sqrt(numbers[0].var() / len(person) + numbers[1].var() / len(alike))
    assert abs(numbers[0].mean() - numbers[1].mean()) < 4 * error
    years = [frame["birth"].dt.year for frame in (person, alike)]
    error = math.sqrt(years[0].var() / len(person) + years[1].var() / len(alike))
    assert abs(years[0].mean() - years[1].mean()) < 4 * error
    again = [part["person"] for part in release.stream_tables(30, where=where, seed=3, chunk=20)]
    assert [len(part) for part in again] == [20, 10]
    assert all((part["sex"] == "F").all() for part in again)
    assert len(release.sample_tables(0, where=where)["person"]) == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"visit.ward": "A"}, "is not a column of people"),
        ({"sex": "F"}, "did you mean 'person.sex'"),
        ({"person.sex": "X"}, "'X' is not one of its categories"),
        ({"person.birth": "1870-01-01"}, "none of its possible values"),
        ({"person.sex": ["F", None]}, "null cannot be one of several values"),
        ({}, "person.sex: F"),
    ],
)
def test_conditions_that_fit_no_people_are_refused(release, where, words):
    with pytest.raises(BadInput, match=re.escape(words)):
        release.sample_tables(5, where=where)


def test_a_condition_that_hardly_anybody_satisfies_is_refused(release, monkeypatch):
    monkeypatch.setattr(history_model, "MOST_TRIED", 1)
    with pytest.raises(
        BadInput,
        match=r"only [0-9] of 1000 people that the model drew satisfy the condition, but 9 were asked for; widen it",
    ):
        release.sample_tables(9, where={"person.birth": "1961-07-05", "person.sex": "F"}, seed=0)


@pytest.mark.heavy
def test_without_noise_what_hangs_together_is_kept():
    """People without visits, who misses visits again, and which ward has which codes: without noise, and with the loss of a short fit."""
    frames = hospital(500, seed=1)
    release = fitted(Budget(math.inf, 1e-5), frames, HistoriesSettings(rounds=2, iterations=40), seed=3)
    sample = release.sample_tables(2000, seed=1)

    def told(tables):
        person, visit, diagnosis, lab = tables.values()
        numbers = person["person_id"].map(visit["person_id"].value_counts()).fillna(0)
        again = visit.assign(before=visit.groupby("person_id")["no_show"].shift()).dropna(subset="before")
        rates = again.groupby(again["before"].astype(bool))["no_show"].mean()
        coded = visit.merge(diagnosis, on="visit_id")
        measured = lab.merge(visit, on="visit_id")
        late = (measured["taken"] - measured["start"]).dt.days
        return {
            "labs": len(lab) / len(visit),
            "high": lab["value"][lab["test"] == "CRP"].mean(),
            "low": lab["value"][lab["test"] == "K"].mean(),
            "unknown": lab["value"].isna().mean(),
            "at once": (late == 0).mean(),
            "late": (late == 4).mean(),
            "urgent in a": measured["urgent"][measured["ward"] == "a"].mean(),
            "urgent in b": measured["urgent"][measured["ward"] == "b"].mean(),
            "nobody": (numbers == 0).mean(),
            "visits": numbers.mean(),
            "again": rates[True] - rates[False],
            "codes": len(diagnosis) / len(visit),
            "of ward a": coded["code"].isin(["E11", "I10"])[coded["ward"] == "a"].mean(),
        }

    # at most two codes of a visit count
    frames["diagnosis"] = frames["diagnosis"].groupby("visit_id").head(2)
    frames["lab"] = frames["lab"].groupby("visit_id").head(3)
    real, made = told(frames), told(sample)
    assert made["nobody"] == pytest.approx(real["nobody"], abs=0.04)
    assert made["visits"] == pytest.approx(real["visits"], rel=0.15)
    assert min(real["again"], made["again"]) > 0.25
    assert made["codes"] == pytest.approx(real["codes"], rel=0.15)
    assert made["of ward a"] > 0.8
    assert made["labs"] == pytest.approx(real["labs"], rel=0.15)
    assert made["high"] - made["low"] > 0.8 * (real["high"] - real["low"]) > 50
    for name in ("unknown", "at once", "late"):
        assert made[name] == pytest.approx(real[name], abs=0.06)
    assert made["urgent in a"] - made["urgent in b"] > 0.7


def test_a_release_is_saved_and_read_back(release, tmp_path):
    loaded = load(release.save(tmp_path / "release"))
    verify(tmp_path / "release")
    assert loaded.schema == release.schema
    for name, frame in release.sample_tables(50, seed=4).items():
        pd.testing.assert_frame_equal(loaded.sample_tables(50, seed=4)[name], frame)
    told = loaded.statement.declared["tables"]
    assert "at most 3 that follow one another" in told[1]
    assert "counts once for each of them" in told[2]
    assert any("keys are fresh" in line for line in loaded.statement.not_covered)
    assert not any("no row follows a real unit over time" in line for line in loaded.statement.not_covered)


def test_levels_that_were_altered_are_refused(release):
    """They are whole numbers that ascend, the last one the first code that stands in no order; nothing is drawn by others."""
    tensors = release.model.tensors()
    starts, end = tensors["levels.0"], 5
    assert starts.shape == (3, 5)
    assert (starts[:, -1] == end).all()
    GENERATOR().restore(release.schema, tensors)

    def other(place, value):
        found = starts.copy()
        found[place] = value
        return found

    for changed in (
        starts[:-1],
        starts[:, :-1],
        starts.ravel(),
        other((0, 0), -1),
        other((0, 4), end + 1),
        other((0, 4), end - 1),
        other((1, 1), starts[1, 1] + 0.5),
        other((2, slice(0, 2)), [4, 3]),
        other((0, 0), np.nan),
        other((0, 0), -np.inf),
        np.array(starts, str),
    ):
        with pytest.raises(BadInput, match="altered"):
            GENERATOR().restore(release.schema, {**tensors, "levels.0": changed})
    stripped = {name: tensor for name, tensor in tensors.items() if name != "levels.0"}
    moved = {**stripped, "levels.1": starts}
    for changed in (stripped, moved, {**tensors, "levels.1": starts}):
        with pytest.raises(BadInput, match="altered"):
            GENERATOR().restore(release.schema, changed)
    view = release.model.view
    place = list(release.model.of_record).index("lab.value")
    by = np.full_like(tensors[f"record.{place}.by"], -1)
    by[:, 0] = list(view.sizes).index("lab.value")
    with pytest.raises(BadInput, match="altered"):  # levels are those of a code, which must tell the number
        GENERATOR().restore(release.schema, {**tensors, f"record.{place}.by": by})


@pytest.mark.parametrize(
    "change",
    [
        lambda tables: tables.pop(),
        lambda tables: tables.__setitem__(1, tables[1].replace("at most 3", "at most 1")),
        lambda tables: tables.__setitem__(2, tables[2].replace("counts once for each of them", "counts once")),
    ],
    ids=["table", "window", "shared"],
)
def test_what_a_statement_says_of_linked_tables_is_worked_out_again(release, tmp_path, change):
    """Also where a forger makes the manifest anew."""
    folder = release.save(tmp_path / "release")
    body = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    before = json.dumps(body["statement"]["declared"]["tables"])
    change(body["statement"]["declared"]["tables"])
    assert json.dumps(body["statement"]["declared"]["tables"]) != before
    (folder / "release.json").write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(BadInput, match=r"release\.json"):
        verify(folder)
    reseal(folder)
    with pytest.raises(BadInput, match=r"declared\.tables"):
        verify(folder)


def test_without_anybody_s_visit_there_are_people():
    frames = clinic(40)
    empty = {**frames, "visit": frames["visit"].iloc[:0], "diagnosis": frames["diagnosis"].iloc[:0]}
    sample = fitted(Budget(math.inf, 1e-5), empty, seed=0).sample_tables(30, seed=0)
    assert len(sample["person"]) == 30
    assert sample["visit"]["person_id"].isin(sample["person"]["person_id"]).all()
    assert [len(frame) for frame in fitted(BUDGET, frames, seed=0).sample_tables(0).values()] == [0, 0, 0]


def test_codes_that_nothing_relates_are_named_as_lost():
    """A drug given for a disease came out at random in small hospitals, and the statement did not say so."""
    many = {"kind": "categorical", "categories": ["E11", "I10", "J45", "K21", *(f"Z{each:03d}" for each in range(40))]}
    declared = schema(units=200, tables={"diagnosis": {"columns": {"code": many}}})
    frames = clinic(60, seed=6)

    def lost(epsilon):
        settings = HistoriesSettings(rounds=1, iterations=1)
        return Synthesizer(settings, schema=declared, budget=Budget(epsilon, 1e-5)).fit(frames, seed=1).statement

    assert not lost(50.0).lost.apart
    drowned = lost(0.5)
    assert {(each.column, each.other, each.earlier) for each in drowned.lost.apart} >= {
        ("diagnosis.code", "diagnosis.code", True)
    }
    (said,) = (each for each in information_loss.sentences(drowned) if each.startswith("Too much noise"))
    assert "diagnosis.code and another diagnosis.code of the visit before" in said, "a code still comes again"


@pytest.mark.heavy
def test_a_table_whose_rows_belong_to_no_visit_is_named_as_lost():
    """Its keys are written differently, so each of its rows is an orphan."""
    frames = hospital(300, seed=6)
    much = Budget(50.0, 1e-5)
    assert not fitted(much, frames, seed=1).statement.lost.bare
    orphans = frames["lab"].assign(visit_id=frames["lab"]["visit_id"].astype(str) + ".0")
    release = fitted(much, {**frames, "lab": orphans}, seed=1)
    (bare,) = release.statement.lost.bare
    assert bare.table == "lab"
    assert bare.share < 0.1
    said = " ".join(information_loss.sentences(release.statement))
    assert f"Few synthetic visits have rows in these tables: lab ({bare.share:.1%})." in said


@pytest.mark.heavy
@pytest.mark.parametrize(
    "value",
    sweep(
        [
            {"kind": "continuous", "bounds": [2.0, 5.1], "decimals": 1},
            {"kind": "continuous", "bounds": [5, 5]},
            {"kind": "continuous", "bounds": [5, 5], "atoms": [5]},
        ],
        lambda value: "atoms" in value,
    ),
    ids=["bins of one number", "one number", "an atom alone"],
)
def test_bins_that_hold_one_value_are_fitted(value):
    """For some the last edge is the last value, so that their last bin seems to have no width."""
    columns = {"test": LAB["columns"]["test"], "value": value}
    frames = hospital(60, seed=6)
    frames["lab"] = frames["lab"][["visit_id", "test"]].assign(value=5.0)
    declared = with_labs(rules=None, units=60, tables={"lab": {**LAB, "columns": columns}})
    release = fitted(BUDGET, frames, SMALL, declared, seed=1)
    release.schema.validate_tables(release.sample_tables(20, seed=0), "error")


@pytest.mark.heavy
def test_many_codes_are_fitted_round_after_round(monkeypatch):
    """If there are more codes than `MOST_RELATED`, only whether a code comes again relates them to the visit before: a second round must
    not look for more."""
    monkeypatch.setattr(rows_below, "MOST_RELATED", 2)
    release = fitted(BUDGET, hospital(60, seed=6), replace(SMALL, rounds=2), with_labs(units=60))
    found = release.model.of_record["diagnosis.code"]
    assert set(found.gains) == {"diagnosis had last", "diagnosis had", "diagnosis so far"}
    assert not [name for clique in found.cliques for name in clique if name.startswith("previous")]
    release.schema.validate_tables(release.sample_tables(20, seed=0), "error")


@pytest.mark.parametrize("people", [0, heavy(1)])
def test_nobody_and_one_person_fit_like_any_other_number(people):
    frames = hospital(1, seed=6)
    frames = frames if people else {name: frame.iloc[:0] for name, frame in frames.items()}
    release = Synthesizer(SMALL, schema=with_labs(units=300), budget=BUDGET).fit(frames, seed=0)
    release.schema.validate_tables(release.sample_tables(20, seed=0), "error")


NUMBERS = {  # tables below visits by what their columns are, whose first one is the code; and what cells hold
    "a number alone": {"value": {"kind": "integer", "bounds": [0, 9]}},
    "one of few codes": {"value": {"kind": "integer", "bounds": [0, 1], "bins": 1, "missing": True}},
    "atoms": {"value": {"kind": "continuous", "bounds": [0, 9], "bins": 4, "atoms": [0, 9]}},
    "two numbers": {
        "value": {"kind": "continuous", "bounds": [0, 9], "bins": 6, "missing": True},
        "other": {"kind": "integer", "bounds": [0, 9], "atoms": [3], "missing": True},
    },
    "a unit before it and a flag after it": {
        "unit": {"kind": "categorical", "categories": ["g", "mol"]},
        "value": {"kind": "continuous", "bounds": [0, 9], "bins": 6},
        "high": {"kind": "boolean", "missing": True},
    },
    "dates around it": {
        "taken": LAB["columns"]["taken"],
        "value": {"kind": "continuous", "bounds": [0, 9], "bins": 6},
        "told": {**LAB["columns"]["taken"], "missing": True},
    },
    "names of derived columns": {
        "level of value": {"kind": "integer", "bounds": [0, 9]},
        "previous level of value": {"kind": "boolean"},
        "value": {"kind": "integer", "bounds": [0, 9]},
        "last": {"kind": "ordinal", "categories": ["low", "high"]},
        "so far": {"kind": "categorical", "categories": ["a", "b", "c", "d", "e"]},
    },
}


def numbered(name, people, most=3):
    """The schema with such a table, and frames."""
    columns = {"test": LAB["columns"]["test"], **NUMBERS[name]}
    declared = with_labs(rules=None, units=60, tables={"lab": {**LAB, "max_rows": most, "columns": columns}})
    frames = hospital(max(people, 1), seed=6)
    frames = frames if people else {table: frame.iloc[:0] for table, frame in frames.items()}
    rng, lab = np.random.default_rng(1), frames["lab"]
    cells = {
        "integer": rng.integers(0, 2, len(lab)),
        "continuous": rng.choice([0.0, 1.5, 3.2, 9.0], len(lab)),
        "boolean": rng.random(len(lab)) < 0.5,
        "datetime": lab["taken"],
    }
    made = {
        column: cells[facts["kind"]] if facts["kind"] in cells else rng.choice(facts["categories"], len(lab))
        for column, facts in NUMBERS[name].items()
    }
    made = pd.DataFrame({"visit_id": lab["visit_id"], "test": lab["test"], **made})
    for column, facts in NUMBERS[name].items():
        if facts.get("missing") and facts["kind"] != "boolean":
            made[column] = made[column].mask(rng.random(len(made)) < 0.2)
    return declared, {**frames, "lab": made}


@pytest.mark.heavy
@pytest.mark.parametrize("name", sweep(NUMBERS, lambda name: name == "a number alone"))
def test_numbers_below_visits_among_all_kinds_of_columns(name, tmp_path):
    """With much noise, which may fill any cell, and with one row of a visit."""
    for people, most in (
        ((60, 3), (60, 1), (1, 3), (0, 3)) if name in ("two numbers", "dates around it") else ((60, 3),)
    ):
        declared, frames = numbered(name, people, most)
        release = fitted(
            Budget(0.5, 1e-5), frames, HistoriesSettings(rounds=2, iterations=3, pairs=1), declared, seed=1
        )
        sample = release.sample_tables(40, seed=0)
        release.schema.validate_tables(sample, "error")
        if (people, most) != (60, 3):
            continue
        assert len(sample["lab"]) > 10
        loaded = load(release.save(tmp_path / "release"))
        pd.testing.assert_frame_equal(loaded.sample_tables(40, seed=0)["lab"], sample["lab"])
        for column, facts in NUMBERS[name].items():
            assert sample["lab"][column].notna().all() or facts.get("missing")


def test_no_level_is_drawn_in_which_a_code_has_no_numbers(release):
    """All of K lie in one bin, so that four levels have none of it: if one were drawn, the number would be that of another code."""
    model = release.model
    level, even = "level of lab.value", Conditional(np.zeros(6), (), np.zeros((1, 6)))
    assert model.held_levels("lab.value").sum(1).tolist() == [3, 2, 2], "and missing ones"
    lab = replace(model, of_record={**model.of_record, level: even}).sample_tables(300, seed=0)["lab"]
    for test, (low, high) in {"CRP": (60, 100), "Hb": (40, 60), "K": (0, 20)}.items():
        values = lab["value"][lab["test"] == test].dropna()
        assert len(values) > 20
        assert values.between(low, high).all()


def test_the_precision_of_rows_is_divided_among_their_questions():
    """All of it, and without numbers none is kept for them."""
    one = {"parent": "visit", "max_rows": 2, "columns": {"test": LAB["columns"]["test"]}}
    for declared, share in ((with_labs(), 0.45), (with_labs(rules=None, tables={"lab": one}), 1.0), (schema(), None)):
        found = SMALL.noises(declared, 2.0)
        assert sum(1 / noise**2 for noise in found.values()) == pytest.approx(1 / 4)
        rows = {name: 4 / noise**2 for name, noise in found.items() if name.split()[0] in ("lab", "diagnosis")}
        assert sum(rows.values()) == pytest.approx(0.4)
        assert rows["diagnosis rows"] == pytest.approx(0.4 if share is None else 0.2)
        assert rows.get("lab rows") == (None if share is None else pytest.approx(0.2 * share))
        assert ("lab levels" in rows) == ("lab numbers" in rows) == (share == 0.45)


RANGES = {"CRP": (85.0, 5.0), "Hb": (50.0, 6.0), "K": (8.0, 2.0)}  # means and deviations


def measured(people, seed, bins):
    """Frames of people who are measured at each visit, alike from visit to visit in each test; and their schema."""
    rng = np.random.default_rng(seed)
    number = 1 + rng.binomial(3, 0.6, people)
    owner = np.repeat(np.arange(people), number)
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    person = pd.DataFrame(
        {"person_id": [f"P{each:05d}" for each in range(people)], "sex": rng.choice(["F", "M"], people)}
    )
    start = pd.Timestamp("2020-01-05") + pd.to_timedelta(rng.integers(0, 200, people)[owner] + 100 * place, unit="D")
    keys = np.array([f"V{each:06d}" for each in range(len(owner))])
    visit = pd.DataFrame({"visit_id": keys, "person_id": person["person_id"].to_numpy()[owner], "start": start})
    parts = []
    for test, (mean, deviation) in RANGES.items():
        own = 0.8 * rng.normal(size=people)[owner] + 0.6 * rng.normal(size=len(owner))
        there = rng.random(len(owner)) < 0.8
        value = np.clip(mean + deviation * own[there], 0, 100).round(1)
        parts.append(pd.DataFrame({"visit_id": keys[there], "test": test, "value": value}))
    lab = pd.concat(parts, ignore_index=True)
    lab["value"] = lab["value"].mask(rng.random(len(lab)) < 0.05)
    value = {"kind": "continuous", "bounds": [0, 100], "bins": bins, "decimals": 1, "missing": True}
    sexes, start = DECLARED["tables"]["person"]["columns"]["sex"], DECLARED["tables"]["visit"]["columns"]["start"]
    person_of, visit_of = DECLARED["tables"]["person"], DECLARED["tables"]["visit"]
    tables = {
        "person": {**person_of, "columns": {"sex": sexes}},
        "visit": {**visit_of, "max_rows": 4, "columns": {"start": start, "no_show": {"kind": "boolean"}}},
        "diagnosis": None,
        "lab": {"parent": "visit", "max_rows": 3, "columns": {"test": LAB["columns"]["test"], "value": value}},
    }
    visit["no_show"] = rng.random(len(visit)) < 0.2
    frames = {"person": person, "visit": visit, "lab": lab}
    return frames, schema(tables=tables, rules=None, units=people)


def from_visit_to_visit(tables, test):
    """Values of a test by visit, and the last ones of the same person."""
    rows = tables["lab"][tables["lab"]["test"] == test].drop_duplicates("visit_id")
    rows = rows.merge(tables["visit"], on="visit_id").sort_values(["person_id", "start", "visit_id"])
    return rows["value"], rows.groupby("person_id")["value"].shift()


@pytest.mark.heavy
def test_without_noise_a_number_follows_the_last_one_of_its_code():
    """Where each code has a range of its own: by the value of the previous visit alone it followed nothing. Values drawn at random within
    real levels would have a correlation of 0.55."""
    frames, declared = measured(1200, seed=0, bins=[*range(1, 16), *range(16, 100, 2)])
    settings = HistoriesSettings(rounds=2, iterations=60)
    sample = fitted(Budget(math.inf, 1e-5), frames, settings, declared, seed=0).sample_tables(4000, seed=0)
    for test in RANGES:
        (real, last), (made, before) = from_visit_to_visit(frames, test), from_visit_to_visit(sample, test)
        assert real.corr(last) > 0.55, "there is something to keep"
        assert made.corr(before) == pytest.approx(0.55, abs=0.12)
        quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
        assert np.abs(made.quantile(quantiles) - real.quantile(quantiles)).max() < 1.5
        assert made.isna().mean() == pytest.approx(real.isna().mean(), abs=0.02)
        assert not (np.abs(made - RANGES[test][0]) > 25).any(), "no other code's"


@pytest.mark.heavy
def test_at_epsilon_1_a_number_lies_in_the_range_of_its_code():
    frames, declared = measured(3000, seed=0, bins=20)
    settings = HistoriesSettings(rounds=1, iterations=30)
    sample = fitted(Budget(1.0, 1e-5), frames, settings, declared, seed=0).sample_tables(3000, seed=0)
    shares = []
    for test, (mean, _) in RANGES.items():
        made, before = from_visit_to_visit(sample, test)
        strays = [abs(made - other) < abs(made - mean) for code, (other, _) in RANGES.items() if code != test]
        shares.append(np.any(strays, axis=0).mean())
        if test != "K":  # of which most lie in one or two bins
            assert made.corr(before) > 0.1
    assert np.mean(shares) < 0.07, "0.11 if the code changes what all numbers are"


def test_what_people_and_visits_leave_to_learn_is_bought():
    """By the records that there are: the row of a person without a visit has no cell of a visit that could be counted."""
    learned = {
        "person": {"columns": {"sex": {"kind": "categorical", "categories": "learn"}}},
        "visit": {
            "columns": {
                "start": {"kind": "datetime", "bounds": "learn"},
                "ward": {"kind": "categorical", "categories": "learn"},
                "no_show": {"kind": "boolean"},
            }
        },
    }
    made, frames = schema(units="learn", rules=None, tables=learned), clinic(300, seed=4)
    frames["person"] = frames["person"][["person_id", "sex"]]
    account = Account(Budget(math.inf, 1e-5), Ledger(), unit="person_id")
    data = Sensitive(frames, made, account, seed=1)
    model = SMALL.fit(data, seed=1)
    assert account.plan == merged(account.ledger.entries())
    assert model.schema.units == 300
    assert model.schema.column("visit.ward").categories == ("a", "b", "other")
    assert model.schema.column("person.sex").categories == ("F", "M", "other")
    low, high = (pd.Timestamp(end) for end in model.schema.column("visit.start").bounds)
    start = frames["visit"]["start"]
    assert abs(low - start.min()) < pd.Timedelta(100, "D") > abs(high - start.max())
    assert Schema.from_dict(model.schema.to_dict()) == model.schema
    model.schema.validate_tables(model.sample_tables(50, seed=0), "error")


def test_a_plan_shows_the_tables_that_a_fit_asks_for(monkeypatch):
    """With the noise of each, from public facts alone; which columns tell a target together with its last value is chosen by answers."""
    asked, asking = [], Sensitive.ask

    def kept(self, question):
        asked.append(question)
        return asking(self, question)

    monkeypatch.setattr(Sensitive, "ask", kept)
    monkeypatch.delattr("synthdp.generators.histories.HistoryFit")  # all is asked by then
    with pytest.raises(NameError):
        fitted(BUDGET, hospital(60, seed=1), seed=1)
    monkeypatch.undo()
    found = planned(Synthesizer(SMALL, schema=with_labs(units=60), budget=BUDGET)).tables
    noises = {clique: question.deviation for question in asked for clique in question.cliques}
    fixed = {table.columns: table for table in found if len(table.columns) < 3}
    assert {len(clique) for clique in set(noises) ^ {table.columns for table in found}} <= {3}
    for columns, table in fixed.items():
        assert table.noise == pytest.approx(noises[columns])
        assert table.cells == np.prod([asked[0].view.sizes[name] for name in columns])
    assert {table.of for table in found} == {"each person_id", "records", "rows of diagnosis", "rows of lab"}
    assert fixed["lab.test", "lab.value"].expected == 60 / fixed["lab.test", "lab.value"].cells


@pytest.mark.heavy
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 50.0])
def test_a_table_of_codes_by_codes_that_noise_would_hide_is_not_asked_for(epsilon):
    """All others have less noise then. How often codes come again, and whether a visit has one twice, is asked at any budget; codes of the
    same visit, of which a few may belong together, where those of the previous one are not."""
    plan = planned(Synthesizer(SMALL, schema=with_labs(units=60), budget=Budget(epsilon, 1e-5)))
    found = {table.columns for table in plan.tables}
    before = ("diagnosis.code", "previous diagnosis.code", "previous lab.test")
    assert [(name, "lab.test") in found for name in before] == [epsilon > 0.1, epsilon > 1, epsilon > 1]
    assert {("diagnosis again", "diagnosis.code"), ("lab last", "lab.test")} <= found
    release = fitted(Budget(epsilon, 1e-5), hospital(60, seed=1), SMALL, with_labs(units=60), seed=1)
    assert (("previous lab.test",) in release.model.of_record["lab.test"].cliques) == (epsilon > 1)
    release.schema.validate_tables(release.sample_tables(20, seed=0), "error")


@pytest.mark.heavy
def test_a_stopped_fit_goes_on_and_the_account_knows_the_tables(tmp_path, monkeypatch):
    frames, places = hospital(80, seed=3), {"ledger": tmp_path / "ledger", "checkpoint": tmp_path / "checkpoint"}
    asking, times = Sensitive.ask, []

    def stopped(self, question):
        times.append(question)
        if len(times) == 9:  # the levels of laboratory values, which follow from the answer before
            raise KeyboardInterrupt
        return asking(self, question)

    monkeypatch.setattr(Sensitive, "ask", stopped)
    account = tmp_path / "clinic.account"
    with pytest.raises(KeyboardInterrupt):
        fitted(BUDGET, frames, seed=4, account=account, **places)
    monkeypatch.setattr(Sensitive, "ask", asking)
    release = fitted(BUDGET, frames, seed=4, account=account, resume=True, **places)
    assert release.statement.epsilon <= 3.0
    whole = fitted(BUDGET, frames, seed=4).sample_tables(20, seed=0)
    for name, frame in release.sample_tables(20, seed=0).items():
        pd.testing.assert_frame_equal(frame, whole[name])
    with pytest.raises(BadInput, match="table"):
        fitted(BUDGET, hospital(80, seed=4), account=account)


@pytest.mark.parametrize("name", [name for name in generators.names() if name != "histories"])
def test_every_other_generator_refuses_linked_tables_by_name(name):
    with pytest.raises(
        BadInput, match="histories" if generators.find(name).traits.kinds != ("images",) else "linked ones"
    ):
        Synthesizer(name, schema=schema(), budget=BUDGET)


def test_what_takes_one_table_refuses_linked_ones_before_any_charge(tmp_path):
    made = Synthesizer(schema=schema(), budget=BUDGET)
    assert made.generator.name == "histories"
    frames, ledger = clinic(30), tmp_path / "ledger"
    with pytest.raises(BadInput, match="fitness"):
        made.fit(frames, fitness=0.1, ledger=ledger)
    with pytest.raises(BadInput, match="mapping from their names to frames"):
        made.fit(frames["visit"], ledger=ledger)
    one = Schema.from_dict({"declared_by": "x", "columns": {"a": {"kind": "boolean"}}})
    with pytest.raises(BadInput, match="one table"):
        Synthesizer("independent", schema=one, budget=BUDGET).fit(frames, ledger=ledger)
    assert not ledger.exists()


def test_rows_of_one_table_are_not_drawn_of_linked_ones(release):
    with pytest.raises(BadInput, match="sample_tables"):
        release.sample(10)


@pytest.mark.heavy
@pytest.mark.parametrize("missing", [False, True])
def test_a_row_for_whose_date_there_is_no_time_is_left_out_and_does_not_stop_a_fit_that_was_paid_for(missing):
    """Visits go on for years after the last day that the dates below them may have, and rows are in order all the same."""
    frames = hospital(60, seed=1)
    frames["lab"] = frames["lab"][frames["lab"]["taken"] < "2020-07-01"]
    taken = {**LAB["columns"]["taken"], "bounds": ["2020-01-01", "2020-06-30"], "missing": missing}
    lab = {**LAB, "columns": {**LAB["columns"], "taken": taken}}
    declared = with_labs(units=60, rules=["lab.taken >= visit.start"], tables={"lab": lab})
    sample = fitted(BUDGET, frames, declared=declared, seed=1).sample_tables(60, seed=0)
    declared.validate_tables(sample, "error")
    rows = sample["lab"].merge(sample["visit"], on="visit_id")
    assert not (rows["taken"] < rows["start"]).any()
    after = rows[rows["start"] > "2020-06-30"]
    assert len(after) > 0 if missing else len(after) == 0
    assert after["taken"].isna().all()


@pytest.mark.heavy
def test_several_dates_of_a_row_and_dates_before_a_visit_keep_their_orders():
    """Also where a date may be missing or has another resolution; categories that hold all others are looked at in drawn records."""
    again = {"kind": "datetime", "bounds": ["2020-01-01", "2024-06-01"], "missing": True, "resolution": "second"}
    tests = {"kind": "categorical", "categories": ["CRP", "Hb", "other"], "other": "other"}
    columns = {**LAB["columns"], "test": tests, "again": again, "n": {"kind": "integer", "bounds": [0, 5]}}
    frames = hospital(200, seed=1)
    number = np.arange(len(frames["lab"]))
    later = (frames["lab"]["taken"] + pd.Timedelta("30h")).where(number % 3 > 0)
    rules = [*IN_ORDER, "lab.again >= lab.taken"]
    for declared, lab in (
        (
            with_labs(units=200, rules=rules, tables={"lab": {**LAB, "columns": columns}}),
            {"again": later, "n": number % 6},
        ),
        (with_labs(units=200, rules=["lab.taken <= visit.start"]), {}),
    ):
        made = Synthesizer(SMALL, schema=declared, budget=BUDGET).fit(
            {**frames, "lab": frames["lab"].assign(**lab)}, seed=1
        )
        sample = made.sample_tables(200, seed=0)
        made.schema.validate_tables(sample, "error")
        rows = sample["lab"].merge(sample["visit"], on="visit_id").merge(sample["person"], on="person_id")
        assert len(rows) > 50
        if lab:
            assert not (rows["again"] < rows["taken"]).any()
            assert 0.1 < rows["again"].isna().mean() < 0.7
            assert not (rows["taken"] < rows["start"]).any()
        else:
            assert not (rows["taken"] > rows["start"]).any()
            assert (rows["taken"] < rows["start"]).any()


@pytest.mark.heavy
def test_a_diagnosis_comes_again_at_the_next_visit():
    """One in six came again by chance alone, in place of six in ten, and some stood twice in a visit."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(3000), 1 + rng.poisson(1.5, 3000))
    visit, chances = np.arange(len(person)), rng.dirichlet(np.full(40, 1.0))
    held, rows = list[int](), []
    for at, first in enumerate(np.diff(person, prepend=-1) > 0):
        kept = [] if first else [each for each in held if rng.random() < 0.7]
        held = list(dict.fromkeys([*kept, *rng.choice(40, rng.integers(0, 3), p=chances)]))[:4]
        rows += [(at, f"d{each:02d}") for each in held]
    days = rng.integers(0, 500, 3000)[person] + 7 * (visit - np.searchsorted(person, person))
    tables = {
        "person": pd.DataFrame({"pid": range(3000), "sex": rng.choice(["f", "m"], 3000)}),
        "visit": pd.DataFrame({"pid": person, "vid": visit, "day": days}),
        "diagnosis": pd.DataFrame(rows, columns=["vid", "code"]),
    }
    sex = {"sex": {"kind": "categorical", "categories": ["f", "m"]}}
    day = {"day": {"kind": "integer", "bounds": [0, 700], "bins": 12}}
    code = {"code": {"kind": "categorical", "categories": [f"d{each:02d}" for each in range(40)]}}
    declared = {
        "person": {"key": "pid", "columns": sex},
        "visit": {"parent": "person", "key": "vid", "order": "day", "max_rows": 6, "columns": day},
        "diagnosis": {"parent": "visit", "max_rows": 4, "columns": code},
    }
    schema = Schema.from_dict({"declared_by": "tests", "unit": "pid", "units": 3000, "tables": declared})
    made = Synthesizer("histories", schema=schema, budget=Budget(30.0, 1e-6)).fit(tables, seed=0)

    def again(frames):
        visits = frames["visit"].sort_values(["pid", "day"], kind="stable")
        following = dict(zip(visits["vid"], visits.groupby("pid")["vid"].shift(-1), strict=True))
        had = frames["diagnosis"].drop_duplicates()
        pairs = set(zip(had["vid"], had["code"], strict=True))
        following = [(following[visit], code) for visit, code in pairs if not pd.isna(following[visit])]
        return np.mean([each in pairs for each in following])

    assert again(tables) > 0.6, "there is something to keep"
    sample = made.sample_tables(3000, seed=0)
    assert again(sample) > 0.45
    assert sample["diagnosis"].duplicated().mean() < 0.05


@pytest.mark.heavy
def test_a_diagnosis_comes_again_although_most_visits_before_it_do_not_count():
    """Of eight visits three count, and the table takes the codes of the first of these for new: two in five came again, of two in three."""
    rng, people, visits = np.random.default_rng(0), 500, 8
    person, codes = np.repeat(np.arange(people), visits), [f"c{each}" for each in range(12)]
    days = np.tile(np.arange(visits) * 30, people) + rng.integers(0, 20, people)[person]
    there, own = rng.random(len(person)) < 0.7, rng.integers(0, 12, people)[person]
    code = np.where(rng.random(len(person)) < 0.8, own, rng.integers(0, 12, len(person)))
    tables = {
        "person": pd.DataFrame({"pid": range(people), "sex": rng.choice(["f", "m"], people)}),
        "visit": pd.DataFrame({"pid": person, "vid": np.arange(len(person)), "day": days}),
        "diagnosis": pd.DataFrame({"vid": np.flatnonzero(there), "code": [codes[each] for each in code[there]]}),
    }
    day = {"day": {"kind": "integer", "bounds": [0, 400], "bins": 8}}
    declared = {
        "person": {"key": "pid", "columns": {"sex": {"kind": "categorical", "categories": ["f", "m"]}}},
        "visit": {"parent": "person", "key": "vid", "order": "day", "max_rows": 3, "columns": day},
        "diagnosis": {
            "parent": "visit",
            "max_rows": 1,
            "columns": {"code": {"kind": "categorical", "categories": codes}},
        },
    }
    schema = Schema.from_dict({"declared_by": "tests", "unit": "pid", "units": people, "tables": declared})
    made = Synthesizer("histories", schema=schema, budget=Budget(100.0, 1e-6)).fit(tables, seed=0)

    def again(frames):
        visits = frames["visit"].merge(frames["diagnosis"].astype({"code": str}), on="vid", how="left")
        visits = visits.sort_values(["pid", "day"], kind="stable")
        before = visits.groupby("pid")["code"].shift()
        return (visits["code"] == before)[before.notna() & visits["code"].notna()].mean()

    assert again(tables) > 0.65, "there is something to keep"
    assert again(made.sample_tables(people, seed=0)) > 0.46


@pytest.mark.heavy
def test_a_chronic_diagnosis_stays_and_who_has_many_is_told_by_sex_and_age_together():
    """Visits without any diagnosis did not know of it, so one in four lost it; and young women, of whom some are pregnant, had as many
    diagnoses as men and old people allow."""
    rng, people = np.random.default_rng(0), 4000
    sex, old = rng.choice(["f", "m"], people), rng.random(people) < 0.5
    chronic = np.where(rng.random(people) < 0.2, rng.integers(0, 5, people), -1)
    person = np.repeat(np.arange(people), 1 + rng.poisson(1.5, people))
    first = np.searchsorted(person, person)
    place, rows = np.arange(len(person)) - first, list[tuple[int, str]]()
    since = rng.integers(0, 3, people)
    for at, each in enumerate(person):
        if chronic[each] >= 0 and place[at] >= since[each]:
            rows.append((at, f"c{chronic[each]}"))
        if rng.random() < (0.8 if sex[each] == "f" and not old[each] else 0.2):
            rows.append((at, f"a{rng.integers(0, 10)}"))
    tables = {
        "person": pd.DataFrame({"pid": range(people), "sex": sex, "old": old}),
        "visit": pd.DataFrame(
            {"pid": person, "vid": np.arange(len(person)), "day": rng.integers(0, 500, people)[person] + 7 * place}
        ),
        "diagnosis": pd.DataFrame(rows, columns=["vid", "code"]),
    }
    codes = [*(f"c{each}" for each in range(5)), *(f"a{each}" for each in range(10))]
    declared = {
        "person": {
            "key": "pid",
            "columns": {"sex": {"kind": "categorical", "categories": ["f", "m"]}, "old": {"kind": "boolean"}},
        },
        "visit": {
            "parent": "person",
            "key": "vid",
            "order": "day",
            "max_rows": 6,
            "columns": {"day": {"kind": "integer", "bounds": [0, 700], "bins": 12}},
        },
        "diagnosis": {
            "parent": "visit",
            "max_rows": 2,
            "columns": {"code": {"kind": "categorical", "categories": codes}},
        },
    }
    schema = Schema.from_dict({"declared_by": "tests", "unit": "pid", "units": people, "tables": declared})
    made = Synthesizer("histories", schema=schema, budget=Budget(30.0, 1e-6)).fit(tables, seed=0)

    def told(frames):
        visits = frames["visit"].merge(frames["person"], on="pid").sort_values(["pid", "day"], kind="stable")
        had = frames["diagnosis"].astype({"code": str})
        number = had.groupby("vid").size().reindex(visits["vid"], fill_value=0).to_numpy()
        held = had[had["code"].str.startswith("c")].groupby("vid")["code"].first().reindex(visits["vid"]).to_numpy()
        before = pd.Series(held, index=visits.index).groupby(visits["pid"]).shift()
        stays = (held == before)[before.notna()].mean()
        return stays, pd.Series(number, index=visits.index).groupby([visits["sex"].astype(str), visits["old"]]).mean()

    (stays, number), (kept, drawn) = told(tables), told(made.sample_tables(people, seed=0))
    assert stays == 1, "there is something to keep"
    assert kept > 0.85
    assert number.max() - number.drop(("f", False)).max() > 0.4, "there is something to keep"
    assert (drawn - number).abs().max() < 0.07, drawn - number


def dying(people=2000, seed=0):
    """The clinic, in which a quarter of those with visits die within five days of the last one, and others long after."""
    frames, rng = clinic(people, seed=seed), np.random.default_rng(seed)
    last = frames["visit"].groupby("person_id")["start"].max().reindex(frames["person"]["person_id"])
    soon = (rng.random(people) < 0.25) & last.notna().to_numpy()
    death = (last + pd.to_timedelta(rng.integers(0, 6, people), unit="D")).to_numpy()
    frames["person"]["death"] = frames["person"]["death"].where(~soon, death)
    return frames


def left(frames):
    """(people who have visits and died,): days from the last visit to death."""
    last = frames["visit"].groupby("person_id")["start"].max()
    death = frames["person"].set_index("person_id")["death"].dropna()
    return (death - last.dt.normalize()).dropna().dt.days


@pytest.mark.heavy
def test_people_die_as_soon_after_their_last_visit_as_real_ones():
    """They died anywhere between it and the end of the years in which people die."""
    frames = dying()
    release = fitted(Budget(30.0, 1e-6), frames, HistoriesSettings(rounds=1, iterations=20), seed=0)
    made = release.sample_tables(2000, seed=0)
    real, drawn = left(frames), left(made)
    assert (real <= 5).mean() > 0.5, "there is something to keep"
    assert (drawn <= 5).mean() == pytest.approx((real <= 5).mean(), abs=0.07)
    assert len(drawn) == pytest.approx(len(real), rel=0.15)
    assert drawn.min() >= 0
    again = release.sample_tables(100, seed=1, where={"person.death": ["2021-01-01", "2021-12-31"]})
    assert (again["person"]["death"].dt.year == 2021).all(), "conditions on the date that ends visits hold"
    assert left(again).min() >= 0


def test_a_model_that_knows_nothing_of_the_time_before_the_end_is_read(release):
    """As those that were made before."""
    place = len(release.model.view.of_unit)
    tensors = {name: each for name, each in release.model.tensors().items() if not name.startswith(f"unit.{place}")}
    older = GENERATOR().restore(release.schema, tensors)
    assert len(older.sample_tables(50, seed=0)["person"]) == 50
    assert not any(name.startswith(f"unit.{place}") for name in older.tensors())


@pytest.mark.heavy
def test_codes_that_are_too_common_are_put_right(monkeypatch):
    """What a code depends on is drawn anew after its fit, so shares drift. Here a code is made ten times as likely before the others are
    adjusted."""
    frames, honest, missed = clinic(600, seed=4), history_fit.HistoryFit._adjust_codes, {}
    real = frames["diagnosis"]["code"].value_counts(normalize=True)

    def spoilt(fit, cells):
        calls.append(len(calls))
        if calls[-1] > 0:
            honest(fit, cells)
        else:
            name = fit.view.below[0].code
            found = fit.model.of_record[name]
            more = np.where(np.arange(len(found.margin)) == 0, math.log(10), 0.0)
            fit.model.of_record[name] = replace(found, margin=found.margin + more)

    monkeypatch.setattr(history_fit.HistoryFit, "_adjust_codes", spoilt)
    for adjusted in (1, 4):
        calls = []
        monkeypatch.setattr(history_fit, "ADJUSTED", adjusted)
        made = fitted(Budget(math.inf, 1e-5), frames, HistoriesSettings(rounds=1, iterations=20), seed=3)
        drawn = made.sample_tables(4000, seed=1)["diagnosis"]["code"].astype(str).value_counts(normalize=True)
        missed[len(calls)] = drawn.sub(real, fill_value=0).abs().sum() / 2
    assert missed[1] > 0.1, missed
    assert missed[4] < missed[1] / 3, missed


@pytest.mark.parametrize(
    ("value", "warned"),
    [
        ({"bounds": [0, 40000]}, True),
        ({"bounds": [0, 40000], "bins": 20}, True),
        ({"bounds": [0, 40000], "bins": [1, 10, 100, 1000]}, False),
        ({"bounds": [0, 300]}, False),
        ({"bounds": [0, 40000], "codes": ["K"]}, False),
    ],
    ids=["even", "even too", "declared", "narrow", "of one code"],
)
def test_even_bins_for_tests_of_all_scales_are_warned_of(value, warned):
    """Creatinine of about 1 came out as 589 on average, from the first of 32 bins up to 40,000, without a word."""
    value = dict(value)
    codes = value.pop("codes", ["K", "creatinine"])
    of_labs = {
        "parent": "visit",
        "max_rows": 2,
        "columns": {"test": {"kind": "categorical", "categories": codes}, "value": {"kind": "continuous", **value}},
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        generators.warn_of_shared_bins(schema(units=60, tables={"lab": of_labs}))
    assert [str(each.message).startswith("column 'lab.value': all codes share even bins") for each in caught] == [
        True
    ] * warned


@pytest.mark.heavy
def test_a_release_of_tables_with_a_single_row_of_each_visit_is_read_back(tmp_path):
    """As many names as places was taken for an older statement, which names each place of a column."""
    declared = schema(units=60, tables={"diagnosis": {"max_rows": 1}})
    made = fitted(Budget(1.0, 1e-5), clinic(60), HistoriesSettings(rounds=1, iterations=3, pairs=1), declared, seed=1)
    sample = made.sample_tables(20, seed=0)
    for name, frame in load(made.save(tmp_path / "release")).sample_tables(20, seed=0).items():
        pd.testing.assert_frame_equal(frame, sample[name])


@pytest.mark.heavy
def test_in_long_lists_of_people_with_one_visit_no_code_comes_twice_in_it(monkeypatch):
    """No other table relates such codes to one another."""
    monkeypatch.setattr(rows_below, "MOST_RELATED", 2)
    rng, people = np.random.default_rng(0), 1500
    rows = [(visit, f"d{code}") for visit in range(people) for code in rng.choice(8, 3, replace=False)]
    tables = {
        "person": pd.DataFrame({"pid": range(people), "sex": rng.choice(["f", "m"], people)}),
        "visit": pd.DataFrame({"pid": range(people), "vid": range(people), "day": rng.integers(0, 90, people)}),
        "diagnosis": pd.DataFrame(rows, columns=["vid", "code"]),
    }
    code = {"kind": "categorical", "categories": [f"d{each}" for each in range(8)]}
    declared = {
        "person": {"key": "pid", "columns": {"sex": {"kind": "categorical", "categories": ["f", "m"]}}},
        "visit": {
            "parent": "person",
            "key": "vid",
            "order": "day",
            "max_rows": 1,
            "columns": {"day": {"kind": "integer", "bounds": [0, 90], "bins": 6}},
        },
        "diagnosis": {"parent": "visit", "max_rows": 3, "columns": {"code": code}},
    }
    schema = Schema.from_dict({"declared_by": "tests", "unit": "pid", "units": people, "tables": declared})
    made = Synthesizer(HistoriesSettings(rounds=1), schema=schema, budget=Budget(20.0, 1e-6)).fit(tables, seed=0)
    sample = made.sample_tables(people, seed=0)["diagnosis"]
    assert len(sample) > 3000
    assert sample.duplicated(["vid", "code"]).mean() < 0.02


@pytest.mark.heavy
def test_codes_of_a_long_list_are_related_by_the_groups_of_their_tree(monkeypatch, tmp_path):
    """A list of more than `MOST_RELATED` codes was taken for codes that have nothing to do with one another."""
    monkeypatch.setattr(rows_below, "MOST_RELATED", 8)
    monkeypatch.setattr(rows_below, "MOST_GROUPS", 4)
    rng, people = np.random.default_rng(0), 3000
    chapters = np.array(list("ABC"))
    visits = np.repeat(np.arange(people), 2)
    of_person = rng.choice(chapters, people)  # of one chapter in most rows
    rows = [
        (visit, f"{of_person[who] if rng.random() < 0.9 else rng.choice(chapters)}{code}")
        for visit, who in enumerate(visits)
        for code in rng.choice(4, 2, replace=False)
    ]
    drugs = [(visit, f"drug {rows[2 * visit][1][0]}") for visit in range(len(visits)) if rng.random() < 0.8]
    tables = {
        "person": pd.DataFrame({"pid": range(people), "sex": rng.choice(["f", "m"], people)}),
        "visit": pd.DataFrame({"pid": visits, "vid": range(len(visits)), "day": rng.integers(0, 90, len(visits))}),
        "diagnosis": pd.DataFrame(rows, columns=["vid", "code"]),
        "drug": pd.DataFrame(drugs, columns=["vid", "what"]),
    }
    codes = [f"{chapter}{each}" for chapter in chapters for each in range(4)]
    declared = {
        "person": {"key": "pid", "columns": {"sex": {"kind": "categorical", "categories": ["f", "m"]}}},
        "visit": {
            "parent": "person",
            "key": "vid",
            "order": "day",
            "max_rows": 2,
            "columns": {"day": {"kind": "integer", "bounds": [0, 90], "bins": 6}},
        },
        "diagnosis": {
            "parent": "visit",
            "max_rows": 2,
            "columns": {"code": {"kind": "categorical", "categories": codes, "tree": {"prefix": [1]}}},
        },
        "drug": {
            "parent": "visit",
            "max_rows": 1,
            "columns": {"what": {"kind": "categorical", "categories": [f"drug {each}" for each in chapters]}},
        },
    }
    schema = Schema.from_dict({"declared_by": "tests", "unit": "pid", "units": people, "tables": declared})
    release = Synthesizer("histories", schema=schema, budget=Budget(20.0, 1e-6)).fit(tables, seed=0)
    found = release.model.of_record["diagnosis.code"]
    assert {("diagnosis last",), ("previous diagnosis group",)} <= set(found.cliques)
    assert ("diagnosis group",) in release.model.of_record["drug.what"].cliques

    def told(frames):
        had = (
            frames["diagnosis"]
            .astype({"code": str})
            .assign(chapter=frames["diagnosis"]["code"].astype(str).str[0])
            .sort_values("vid", kind="stable")
        )
        pairs = had.merge(had, on="vid").query("code_x < code_y")
        visit = frames["visit"].sort_values(["pid", "day"], kind="stable")
        first = had.groupby("vid")["chapter"].first().reindex(visit["vid"]).to_numpy()
        before = pd.Series(first, index=visit.index).groupby(visit["pid"]).shift()
        given = frames["drug"].merge(had, on="vid")
        return (
            (pairs["chapter_x"] == pairs["chapter_y"]).mean(),
            (first == before)[before.notna()].mean(),
            (given["what"].astype(str).str[-1] == given["chapter"]).mean(),
        )

    loaded = load(release.save(tmp_path / "release"))
    for real, made in zip(told(tables), told(loaded.sample_tables(people, seed=0)), strict=True):
        assert real > 0.7, "there is something to keep"
        assert made == pytest.approx(real, abs=0.1)


def test_gains_that_no_fit_gives_are_refused(release):
    """A visit's column that stays gains, a code that a visit already has loses, and only columns with a table of their previous values have
    gains, and only codes of rows for what a person had long ago."""
    declared, tensors = release.schema, release.model.tensors()
    drawn = View.of(Codec(declared)).drawn
    repeats = next(name for name in tensors if name.endswith(".repeat"))
    stays = f"record.{drawn.index('visit.no_show')}.stay"
    like = np.ones_like(tensors[stays.replace("stay", "alone")])
    histories.restored(declared, {**tensors, stays: like})
    for name, gains in ((stays, -like), (repeats, 1 + 0 * tensors[repeats])):
        with pytest.raises(BadInput, match="altered"):
            histories.restored(declared, {**tensors, name: gains})
    for column, what in ((FIRST, "stay"), (GAP, "stay"), ("visit.ward", "stay"), ("visit.no_show", "again")):
        place = drawn.index(column)
        size = tensors[f"record.{place}.alone"].shape
        with pytest.raises(BadInput, match="altered"):
            histories.restored(declared, {**tensors, f"record.{place}.{what}": np.ones(size)})


def test_whether_rows_owe_their_codes_to_one_cause_is_told_in_one_way_alone(release):
    declared, tensors = release.schema, release.model.tensors()
    owed = [name for name in tensors if name.endswith(".by_cause")]
    assert owed
    histories.restored(declared, tensors)
    place = View.of(Codec(declared)).drawn.index("visit.no_show")
    one = {f"record.{place}.by_cause": np.ones(1)}
    for changed in (one, *({owed[0]: np.array(value)} for value in ([0.0], [2.0], [np.nan], [1.0, 1.0]))):
        with pytest.raises(BadInput, match="altered"):
            histories.restored(declared, {**tensors, **changed})


@pytest.mark.parametrize(
    ("share", "deviation", "least", "most"),
    [(0.0, 60.0, 0, 1e-5), (0.0, 1e6, 0, 1e-5), (1.0, 5.0, 0.95, 1.0), (0.3, 5.0, 0.25, 0.35), (0.1, 60.0, 0, 1e-5)],
)
def test_a_visit_gets_a_code_twice_only_where_that_stands_clear_of_the_noise(share, deviation, least, most):
    often = np.array([400.0, 300.0, 200.0])
    assert least <= repeats(often, share * often, deviation) <= most


def test_a_visit_with_few_codes_has_none_of_them_twice():
    """Every visit has one to three of three tests, each once."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"person_id": range(400), "old": rng.random(400) < 0.5})
    visits = pd.DataFrame(
        {"visit_id": range(800), "person_id": np.repeat(range(400), 2), "urgent": rng.random(800) < 0.3}
    )
    visits["start"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, 800), unit="D")
    rows = [
        (visit, name) for visit in range(800) for name in rng.permutation(["crp", "hb", "na"])[: rng.integers(1, 4)]
    ]
    tests = pd.DataFrame(rows, columns=["visit_id", "test"])
    schema = Schema.from_dict(
        {
            "declared_by": "a test",
            "unit": "person_id",
            "units": 400,
            "tables": {
                "person": {"key": "person_id", "columns": {"old": {"kind": "boolean"}}},
                "visit": {
                    "parent": "person",
                    "key": "visit_id",
                    "order": "start",
                    "max_rows": 2,
                    "columns": {
                        "start": {"kind": "datetime", "bounds": ["2020-01-01", "2022-12-31"], "bins": 4},
                        "urgent": {"kind": "boolean"},
                    },
                },
                "test": {
                    "parent": "visit",
                    "max_rows": 3,
                    "columns": {"test": {"kind": "categorical", "categories": ["crp", "hb", "na"]}},
                },
            },
        }
    )
    made = Synthesizer("histories", schema=schema, budget=Budget(2.0, 1e-5))
    drawn = made.fit({"person": people, "visit": visits, "test": tests}, seed=0).sample_tables(400, seed=0)["test"]
    assert len(drawn) > 800
    assert drawn.duplicated().sum() < 0.02 * len(drawn)
