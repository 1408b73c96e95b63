"""The report of `make audit` (law 45): which rows there are, what a row says, and that a run that was stopped goes on."""

import dataclasses
import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import white_box
from repeated_answers import Numbers
from vector_canaries import KINDS, Vectors, audit_in_one_run

from synthdp import Budget, generators
from synthdp.seal.questions import HOUSE

HOME = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("audit_recipe", HOME / "recipes" / "audit.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules["audit_recipe"] = made  # where its dataclasses look for their names
    spec.loader.exec_module(made)
    yield made
    del sys.modules["audit_recipe"]


def test_there_is_a_row_for_everything(recipe):
    tasks = list(recipe.everything())
    assert len({task.name for task in tasks}) == len(tasks)
    at_door = {(task.what, task.how) for task in tasks if task.part == "door"}
    assert {
        (question, way)
        for question, kind in KINDS.items()
        for way, settings in recipe.WAYS.items()
        if not (kind.ordered and "rate" in settings)
    } <= at_door
    ways = [Vectors(**settings) for settings in recipe.WAYS.values()]
    for needed in (
        lambda way: way.relation == "replace_one",
        lambda way: way.records == 4,
        lambda way: way.records == 4 and way.relation == "replace_one",
        lambda way: way.rate < 1,
        lambda way: way.phases > 1 and way.alone and way.supposed == "coins",
        lambda way: way.stopped,
        lambda way: way.capped,
        lambda way: way.selected,
    ):
        assert any(map(needed, ways))
    assert set(recipe.DRAWS) == {what for what, _ in at_door} - set(KINDS)
    assert {task.how for task in tasks if task.what == "PrivateTrainer"} == set(recipe.TRAININGS.values())
    audited = {task.what for task in tasks if task.part == "generator"}
    for name in generators.names():
        kinds = generators.find(name).traits.kinds
        assert not {"table", "histories"} & set(kinds) or name in audited
        assert "images" not in kinds or f"{name} (images)" in audited


def test_another_row_leaves_the_error_of_the_others_as_it_is(recipe):
    """The error is shared among a fixed number, and there are no more rows than that."""
    assert len(list(recipe.everything())) <= recipe.AUDITS
    errors = [row["gate_error"] for row in REPORT["rows"] if row["verdict"] != "not run"]
    assert len(set(errors)) == 1
    assert sum(errors) <= recipe.GATE * (1 + 1e-9)


def test_every_question_is_asked_in_every_way_that_there_is_or_the_page_says_why_not(recipe):
    at_door = {(task.what, task.how) for task in recipe.everything() if task.part == "door"}
    ways = ("another unit", "units of 4 records", "4 records, another unit", "samples", "loops")
    excused = {(what, way) for whats, way in recipe.audit_page.NOT_ASKED for what in whats.split(", ") if way in ways}
    lacking, asked = set(), set()
    for what in {what for what, _ in at_door}:
        kind = "votes" if what.startswith("votes") else what
        for way in ways:
            there = any(how == way or (way == "loops" and how.endswith("loops")) for _, how in at_door if _ == what)
            (asked if there else lacking).add((kind, way))
    assert lacking == excused
    assert not asked & excused


@pytest.mark.heavy
@pytest.mark.parametrize(("relation", "other"), [("add_remove", 0.0), ("replace_one", -1.0)])
def test_trainings_of_a_worst_case_pair_move_the_weight_by_just_a_clip(recipe, relation, other):
    """Through the public class, and without noise, so that the samples alone tell trainings apart."""
    attack = recipe.Trainings(budget=Budget(math.inf, 1e-5, relation))
    (entry,) = attack.plan
    assert (entry.count, entry.event.rate, entry.event.relation) == (2, 0.75, relation)
    assert entry.event.sampler == sys.modules[recipe.Trainings.__module__].SAMPLING[relation]
    step = 1e-3 * 0.1 / 6  # learning rate, clip, units in a sample
    moved = np.array(attack.sides(6)) / step
    np.testing.assert_allclose(moved, np.rint(moved), atol=0.05)
    assert set(np.rint(moved[0])) <= {0.0, other, 2 * other}
    assert {1.0, 2.0} & set(np.rint(moved[1])) <= set(np.rint(moved[1])) <= {0.0, 1.0, 2.0}


PARTS = {  # classes of the house that answer nothing by themselves
    "scores of a choice": {"Dependence", "Misfit"},
    "vectors of a question": {"Group", "Scaled"},
    "rules of a gradient's clip": {"Automatic", "Flat", "PerGroup"},
    "an answer": {"Labels"},
    "the levels of codes": {"Tree"},
    "the columns of a history": {"Below", "View"},
    "teachers, who answer votes": {"Estimators", "Stacked", "MeanEmbeddings"},
}


def test_every_question_has_a_row_at_the_door_or_is_named(recipe, monkeypatch):
    kinds = [getattr(importlib.import_module(where), name) for where, name in (each.split(":") for each in HOUSE)]
    asked = set()

    def watched(kind, honest):
        def noised(own, *arguments):
            asked.add(kind.__name__)
            return honest(own, *arguments)

        return noised

    for kind in kinds:
        if hasattr(kind, "noised"):
            monkeypatch.setattr(kind, "noised", watched(kind, kind.noised))
    monkeypatch.setattr(recipe.white_box, "audit", lambda attack, *_, **__: attack.sides(1))
    rows = [task for task in recipe.everything() if task.part == "door"]
    for task in {task.what: task for task in reversed(rows)}.values():  # the first of each
        task.run(0.5, 1.0, 1)
    named = set(recipe.audit_page.NO_ROW).union(*PARTS.values())
    unheard = {kind.__name__ for kind in kinds} - asked - named
    assert not unheard, f"{unheard}: give each question a row in recipes/audit.py, or a reason in audit_page.NO_ROW"
    assert not asked & named
    assert {kind.__name__ for kind in kinds} >= asked | named


@pytest.mark.parametrize(("noise", "verdict"), [(1.0, "stands"), (0.5, "contradicted"), (1000.0, "no power")])
def test_a_row_names_every_figure_s_estimator_error_and_delta(recipe, noise, verdict):
    attack = Vectors(question="tables", noise=1.0)
    found = white_box.audit(
        attack, recipe.DELTA, runs=1000, tuning_runs=300, drawn=dataclasses.replace(attack, noise=noise)
    )
    half = white_box.audit(attack, recipe.DELTA, runs=1000, tuning_runs=300, drawn=attack.halved())
    row = recipe.row(recipe.at_door("tables", "one unit more", attack), found, half)
    assert row["verdict"] == verdict
    assert row["at_half_the_noise"] > row["claimed"] == pytest.approx(4.377, abs=1e-3)
    bounds = {figure["estimator"]: figure for figure in row["figures"]}
    assert set(bounds) == {"Clopper-Pearson bound", "Gaussian-DP bound", "Gaussian-DP point estimate"}
    for figure in [*row["figures"], *row["figures_at_half_the_noise"]]:
        assert figure["delta"] == recipe.DELTA
        assert figure["valid"] is True
        assert ("error" in figure) != ("one standard error" in figure)
    assert row["found"] == max(bounds[name]["epsilon"] for name in bounds if "bound" in name)
    once = recipe.row(recipe.at_door("tables", "", attack), *[audit_in_one_run(Vectors(noise=1.0), 100, 1e-5)] * 2)
    assert [figure["estimator"] for figure in once["figures"]] == ["one-run bound"]
    page = recipe.audit_page.report(result_of([{**row, "cpu_seconds": 60.0}]), list(recipe.WAYS))
    assert f"| tables | {'**' * (verdict != 'stands')}{row['found']:.1f} of 4.4" in page
    assert "| **no power** |" in page or verdict != "no power"
    assert "stands" not in page.partition("## At the door")[2] or verdict == "stands"
    recipe.audit_page.plot([row], 4.0)


def result_of(rows):
    provenance = {"processor": "one", "cores": 1, "synthdp": "abc", "uncommitted_changes": False}
    config = {
        "delta": 1e-5,
        "epsilon": 4.0,
        "error": 0.05,
        "gate_error": 1e-3,
        "audits": len(rows),
        "shared_among": 250,
    }
    config["limited"] = False
    return {"config": config, "rows": rows, "provenance": provenance}


def test_rows_are_kept_for_the_code_that_they_are_of(recipe, monkeypatch, tmp_path):
    made = []

    def task(name):
        def run(gate_error, share, runs):
            made.append((name, share))
            return white_box.audit(Numbers(noise=1.0), 1e-5, runs=20, tuning_runs=20, gate_error=gate_error)

        return recipe.Task(part="door", what=name, how="", run=run)

    tasks = [task("one"), task("other")]
    monkeypatch.setattr(recipe, "everything", lambda: tasks)
    monkeypatch.setattr(recipe, "KEPT", tmp_path / "outputs" / "audit.jsonl")
    terms = recipe.Terms(commit="abc", uncommitted=False, gate_error=1e-5, quick=True)
    first = recipe.made(tasks[:1], terms, 1)
    assert made == [("one", 1.0), ("one", 0.5)]
    both = recipe.made(tasks, terms, 1)
    assert [row["what"] for row in both] == ["one", "other"]
    assert both[0] == json.loads(json.dumps(first[0]))
    assert [name for name, _ in made] == ["one"] * 2 + ["other"] * 2
    for changed in ({"commit": "abd"}, {"uncommitted": True}, {"quick": False}):
        made.clear()
        recipe.made(tasks[:1], dataclasses.replace(terms, **changed), 1)
        assert len(made) == 2


def test_a_budget_of_time_thins_rows_and_drops_none(recipe, monkeypatch, tmp_path):
    """The cheapest first; what has too little time says so, on the page too."""
    done, now = [], [0.0]

    def task(what, seconds, asked=1000):
        def run(gate_error, share, runs):
            now[0] += 2 * (runs + recipe.tuning_of(runs)) * (seconds or 0.01)
            done.append((what, runs))
            return white_box.audit(Numbers(noise=1.0), 1e-5, runs=20, tuning_runs=20, gate_error=gate_error)

        measured = None if seconds is None else lambda: seconds
        return recipe.Task(part="generator", what=what, how="its own", run=run, runs=asked, seconds=measured)

    tasks = [task("slow", 0.1), task("door", None), task("quick", 0.01), task("hopeless", 100.0, 200)]
    monkeypatch.setattr(recipe, "everything", lambda: tasks)
    monkeypatch.setattr(recipe, "KEPT", tmp_path / "audit.jsonl")
    monkeypatch.setattr(recipe.time, "monotonic", lambda: now[0])
    terms = recipe.Terms(commit="abc", uncommitted=False, gate_error=1e-5, quick=False)
    rows = recipe.made(tasks, terms, 1, 700.0)
    assert [row["what"] for row in rows] == ["slow", "door", "quick", "hopeless"]
    assert [what for what, _ in done[::2]] == ["door", "quick", "slow"]
    runs = dict(done)
    assert runs["door"] == runs["quick"] == 1000
    left = (700.0 - 4 * 1300 * 0.02) / 2  # for each of the last two
    assert left * 0.97 < 4 * (runs["slow"] + recipe.tuning_of(runs["slow"])) * 0.1 <= left
    assert rows[-1]["verdict"] == "not run"
    result = result_of(rows)
    result["config"]["limited"] = True
    page = recipe.audit_page.report(result, list(recipe.WAYS))
    assert "| hopeless | its own | 0 of 200 |" in page
    assert "**not run**: too little of the time was left for it" in page
    assert "CPU minutes of one core" in page
    recipe.audit_page.plot(rows, 4.0)


def test_every_reason_is_of_a_row_and_every_weak_row_has_one(recipe):
    assert set(recipe.audit_page.WEAK) <= {task.name for task in recipe.everything()}
    assert "not looked into yet" not in (HOME / "reports" / "audit.md").read_text(encoding="utf-8")


REPORT = json.loads((HOME / "reports" / "audit.json").read_text(encoding="utf-8"))


def test_the_committed_report_contradicts_no_claim():
    """A bound of the gate above its claim stays a failure until it is explained."""
    assert [row["name"] for row in REPORT["rows"] if row["verdict"] == "contradicted"] == []
    assert REPORT["config"]["gate_error"] <= 1e-3


def test_the_committed_report_says_what_each_figure_is_and_of_which_code(recipe):
    rows = REPORT["rows"]
    assert len(rows) == REPORT["config"]["audits"] == len({row["name"] for row in rows})
    for row in rows:
        assert row["verdict"] in ("stands", "no power", "not run")
        assert row["verdict"] != "not run" or row["why"]
        for figure in [*row.get("figures", []), *row.get("figures_at_half_the_noise", [])]:
            assert {"estimator", "epsilon", "delta"} < set(figure)
            assert ("error" in figure) != ("one standard error" in figure)
    commits = {row["synthdp"] for row in rows if row["verdict"] != "not run"}
    assert REPORT["provenance"]["synthdp"] in commits
    page = (HOME / "reports" / "audit.md").read_text(encoding="utf-8")
    assert all(commit in page for commit in commits)
    assert page == recipe.audit_page.report(REPORT, [*recipe.WAYS, recipe.LOOPS], recipe.questions())
