"""PATE for classification: what is charged, what leaves, what is refused."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import untouched
from pate.pate_tables import BUDGET, accuracy, fitted, problem, problem_schema, without_labels
from sklearn.linear_model import LogisticRegression
from sweeps import heavy

from synthdp import BadInput, Budget, accounting
from synthdp.budgets import AccountFile
from synthdp.ledger.events import Vote
from synthdp.ledger.ledger import Ledger
from synthdp.pate import PATE, Confident, GNMax, Interactive, LNMax, Network, Networks, Selection, SemiSupervised, load
from synthdp.pate.fit import _check_apart
from synthdp.seal.replay import Recorder
from synthdp.seal.teachers import Teachers

LEARN = {"kind": "categorical", "categories": "learn"}
AGGREGATORS = {
    "lnmax": {"aggregator": "lnmax"},
    "gnmax": {"aggregator": "gnmax"},
    "counts": {"aggregator": "counts", "distillation": True},
    "shares": {"aggregator": "shares", "distillation": True},
    "fixed": {"aggregator": GNMax(20.0)},
    "confident": {"aggregator": lambda noise: Confident(60, 3 * noise, 1.5 * noise, 40), "queries": 100},
    "interactive": {
        "aggregator": lambda noise: Interactive(25, 3 * noise, 1.5 * noise, 40),
        "queries": 100,
        "selection": Selection(rounds=2),
    },
    "active": {"selection": Selection(rounds=3, active=True)},
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", AGGREGATORS)
def test_every_aggregator_teaches_within_its_budget(name):
    made = fitted(budget=Budget(6.0, 1e-5), **AGGREGATORS[name])
    said = made.statement
    assert accuracy(made) > 0.85
    assert said.epsilon <= 6.0
    if name != "fixed":
        assert said.epsilon >= 0.95 * 6.0
    assert said.epsilon == pytest.approx(accounting.epsilon(made.ledger, 1e-5, said.accountant), abs=1e-12)
    assert said.epsilon == pytest.approx(said.recompute(), abs=1e-12)
    assert {type(entry.event) for entry in made.ledger.entries()} == {Vote}


@pytest.mark.heavy
def test_what_a_batch_of_votes_costs_is_known_in_closed_form():
    """60 Gaussian votes of multiplier sigma / sqrt(2) are one of sigma / sqrt(120): noise 2 costs 1.993091 (law 2)."""
    made = fitted(aggregator=GNMax(2 * math.sqrt(120)))
    assert made.statement.epsilon == pytest.approx(1.993091, abs=1e-3)
    assert made.ledger.entries()[0].count == 60
    replaced = Budget(4.0, 1e-5, "replace_one")  # a record that is replaced may change two teachers
    assert fitted(aggregator=GNMax(4 * math.sqrt(120)), budget=replaced).statement.epsilon == pytest.approx(
        1.993091, abs=1e-3
    )


@pytest.mark.heavy
def test_laplace_votes_are_charged_two_gamma_each():
    made = fitted(aggregator=LNMax(0.05), queries=10)
    (entry,) = made.ledger.entries()
    assert (entry.event.law, entry.event.noise, entry.count) == ("laplace", 10.0, 10)
    assert made.statement.epsilons["naive"] == pytest.approx(10 * 0.1)


@pytest.mark.heavy
def test_the_most_queries_that_a_budget_buys():
    pate = PATE(teachers=40, aggregator=GNMax(20.0), queries=None)
    most = pate.plan_queries(BUDGET)
    made = fitted(aggregator=GNMax(20.0), queries=None, public=without_labels(problem(most + 5, 1)))
    assert len(made.answers.codes) == most
    assert made.statement.epsilon <= BUDGET.epsilon
    more = accounting.epsilon([*made.ledger.entries(), dataclasses.replace(made.ledger.entries()[0], count=1)], 1e-5)
    assert more > BUDGET.epsilon


@pytest.mark.heavy
def test_labels_leave_by_charged_votes_alone():
    """Fed the answers of a run on D, a run on quite other records asks the same and learns the same student (replay)."""
    first = Recorder()
    one = fitted(recorder=first, selection=Selection(rounds=3, active=True))
    second = Recorder(of=first)
    other = fitted(problem(1, 9), recorder=second, selection=Selection(rounds=3, active=True))
    assert len(first.asked) == 3
    assert one.ledger.entries() == other.ledger.entries()
    np.testing.assert_array_equal(one.answers.codes, other.answers.codes)
    np.testing.assert_array_equal(one.answers.targets, other.answers.targets)
    test = problem(200, 5)
    np.testing.assert_array_equal(one.predict_proba(test), other.predict_proba(test))


def test_one_record_more_moves_the_tallies_by_what_is_charged_for():
    frame, recorders = problem(400, 0), []
    odd = pd.DataFrame({"x": [math.inf], "y": [math.nan], "side": ["left"], "group": ["yes"]})
    for records in (frame, pd.concat([frame, odd], ignore_index=True)):
        recorders.append(Recorder(of=recorders[0] if recorders else None))
        fitted_clamped(records, recorders[-1])
    assert all(moved <= limit * (1 + 1e-9) for moved, limit in recorders[1].movements)


def fitted_clamped(records, recorder):
    return PATE(teachers=7, teacher=LogisticRegression(), queries=60, student=LogisticRegression()).fit(
        records,
        schema=problem_schema(),
        target="group",
        public=without_labels(problem(300, 1)),
        budget=BUDGET,
        seed=3,
        invalid="clamp",
        recorder=recorder,
    )


@pytest.mark.heavy
def test_the_same_seed_gives_the_same_predictions_and_a_rehearsal():
    test = problem(300, 5)
    one, same, other, free, again = (fitted(seed=seed, teachers=20) for seed in (3, 3, 4, None, None))
    np.testing.assert_array_equal(one.predict_proba(test), same.predict_proba(test))
    assert not np.array_equal(one.predict_proba(test), other.predict_proba(test))
    assert one.statement.rehearsal
    assert not free.statement.rehearsal
    assert not np.array_equal(free.predict_proba(test), again.predict_proba(test))


@pytest.mark.heavy
def test_teachers_may_be_networks_and_units_may_be_patients():
    schema = problem_schema(unit="patient", max_records_per_unit=2, columns={"patient": {"kind": "identifier"}})
    frame = problem(3000, 0).assign(patient=[f"p{row // 2}" for row in range(3000)])
    made = fitted(frame, schema, teacher=Networks(hidden=(8,), steps=60, learning_rate=0.03))
    assert made.statement.unit == "patient"
    assert accuracy(made) > 0.8


@pytest.mark.heavy
def test_an_interrupted_fit_stays_charged(tmp_path):
    def stop(step, steps, figures):
        if step == 2:
            raise KeyboardInterrupt

    path = tmp_path / "ledger.jsonl"
    account = AccountFile(path=tmp_path / "account.jsonl")
    with pytest.raises(KeyboardInterrupt):
        fitted(ledger=path, progress=stop, selection=Selection(rounds=3))
    charged = Ledger.read(path).entries()
    assert sum(entry.count for entry in charged) == 40  # two of three rounds were asked
    assert 0 < accounting.epsilon(charged, 1e-5) < BUDGET.epsilon
    with pytest.raises(KeyboardInterrupt):
        fitted(account=account, progress=stop, selection=Selection(rounds=3))
    (entered,) = account.read().fits
    assert (entered.state, entered.price.loss > 0) == ("interrupted", True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"teachers": 0}, "teachers must be a whole number"),
        ({"queries": 0}, "queries must be a whole number"),
        ({"queries": 400}, "400 queries need as many public records, but there are 300"),
        ({"queries": None}, "queries=None needs an aggregator with its noise"),
        ({"aggregator": "max"}, "aggregator must be one of"),
        ({"aggregator": 3}, "aggregator must be a name"),
        ({"aggregator": LNMax}, "aggregator must come with its noise"),
        ({"selection": "active"}, "selection must be a Selection"),
        ({"public": {"x": [1]}}, "public must be a pandas DataFrame, got dict"),
        ({"distillation": True}, "distillation needs noisy counts"),
        ({"teacher": "forest"}, "teacher must be"),
        ({"student": "forest"}, "student: expected"),
        ({"features": "hot"}, "features must be one of"),
        ({"aggregator": GNMax(1.0)}, "above the budget"),
        ({"public": without_labels(problem(300, 1)).drop(columns="x")}, "public: .*missing columns: 'x'"),
        ({"public": problem(300, 1)}, "public: drop the column 'group'"),
        ({"schema": problem_schema(("no",))}, "only one class"),
        ({"schema": problem_schema(columns={"group": {"kind": "integer", "bounds": [0, 3]}})}, "PATE votes on classes"),
        ({"teacher": Networks(channels=(4,))}, "convolutions need a picture"),
        ({"teacher": Networks(steps=0)}, "steps of teachers must be 1 or more"),
        ({"teacher": torch.nn.Linear(3, 2)}, "module cannot be stacked"),
        ({"teacher": torch.nn.Linear(4, 3)}, "the teachers distinguish 3 classes, but the target has 2"),
        ({"teacher": LogisticRegression(C=-1)}, "LogisticRegression cannot be fitted"),
        ({"features": lambda codes: codes[:3]}, "features"),
        ({"features": lambda codes: codes}, "features depend on the target"),
        ({"schema": problem_schema(("a", "b", "c")), "aggregator": "shares"}, "shares need exactly 2 classes"),
        ({"student": LogisticRegression(C=-1)}, "student estimator cannot learn 2 classes"),
        ({"student": Network(module=torch.nn.Linear(3, 2))}, "student network cannot learn 2 classes"),
        ({"student": Network(module=torch.nn.Linear(4, 3))}, "student network cannot learn 2 classes"),
        ({"schema": problem_schema(columns={"side": LEARN}), "teacher": torch.nn.Linear(4, 2)}, "teacher of your own"),
        (
            {"schema": problem_schema(columns={"side": LEARN}), "features": lambda codes: codes[:, :2]},
            "features of your",
        ),
    ],
)
def test_bad_input_is_one_clear_line_and_opens_nothing(settings, words, tmp_path):
    with pytest.raises(BadInput, match=words) as refusal:
        fitted(untouched(), ledger=tmp_path / "ledger.jsonl", account=tmp_path / "a", **settings)
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_the_sensitive_records_are_no_public_ones(tmp_path):
    """Labelled public records leave the hospital as they are."""
    records = problem(300, 1)
    shuffled = without_labels(records).sample(frac=1, random_state=1)
    with pytest.raises(BadInput, match="public: these are the sensitive records, without their labels"):
        fitted(records, public=shuffled, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
    _check_apart(shuffled.iloc[1:], records)
    _check_apart(without_labels(problem(300, 2)), records)


def test_as_many_queries_as_the_budget_buys_beside_what_is_learned():
    pate, budget = PATE(teachers=40, aggregator=GNMax(20.0), queries=None), Budget(2.0, 1e-5)
    schema = problem_schema(columns={"side": LEARN})
    most = pate.plan_queries(budget)
    made = fitted(
        schema=schema, public=without_labels(problem(most, 1)), budget=budget, aggregator=GNMax(20.0), queries=None
    )
    assert 0.7 * most < len(made.answers.codes) < most
    assert made.statement.epsilon <= budget.epsilon


@pytest.mark.heavy
def test_columns_that_are_learned_do_not_hide_what_is_wrong(tmp_path):
    """Teachers and student are tried on codes that are made up."""
    schema = problem_schema(columns={"side": LEARN, "x": {"kind": "continuous", "bounds": "learn"}})
    public = without_labels(problem(300, 1))
    with pytest.raises(BadInput, match="LogisticRegression cannot be fitted"):
        fitted(untouched(), schema, public, teacher=LogisticRegression(C=-1), ledger=tmp_path / "ledger.jsonl")
    made = fitted(schema=schema, public=public, budget=Budget(50.0, 1e-5))
    assert made.predict_proba(public).shape == (300, 2)


def test_a_table_too_small_for_what_is_left_to_learn_is_refused_before_the_charge(tmp_path):
    schema = problem_schema(units="learn", columns={"side": LEARN, "x": {"kind": "continuous", "bounds": "learn"}})
    with pytest.raises(BadInput, match="noise would hide what is to be learned"):
        fitted(problem(40, 0), schema, budget=Budget(1.0, 1e-5), ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


@pytest.mark.parametrize("make", [lambda: LNMax(0), lambda: LNMax(-1.0), lambda: GNMax(0), lambda: Selection(rounds=0)])
def test_noise_and_rounds_must_be_above_zero(make):
    with pytest.raises(BadInput):
        make()


def test_more_teachers_than_declared_units_are_refused_before_the_charge(tmp_path):
    with pytest.raises(
        BadInput, match=r"teachers=40: .* the schema declares only 20 units; lower the number of teachers"
    ):
        fitted(problem(50, 0), problem_schema(units=20), teachers=40, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()


def test_teachers_so_many_that_a_fit_would_not_end_are_refused_whatever_is_declared():
    with pytest.raises(BadInput, match="teachers must be at most 100,000, got 10000000"):
        PATE(teachers=10**7)


def test_a_fit_says_that_its_teachers_learn_before_they_do(monkeypatch):
    """Teachers may take minutes, and nothing was said before they had all learned."""
    said, train = [], Teachers.train
    monkeypatch.setattr(Teachers, "train", lambda *words: (said.append("train"), train(*words))[1])
    fitted(teachers=10, progress=lambda step, *_: said.append(step))
    assert said[:2] == [0, "train"]


def test_records_of_one_class_make_a_student_of_one_class():
    """The content of a table is never refused; that all votes agree is known from the noisy labels."""
    frame = problem(2000, 0).assign(group="yes")
    with pytest.warns(UserWarning, match="noisy labels are of one class"):
        made = fitted(frame, aggregator=GNMax(0.5), budget=Budget(math.inf, 1e-5))
    assert set(made.predict(problem(50, 2))) == {"yes"}


def test_a_recorder_needs_a_rehearsal():
    with pytest.raises(BadInput, match="recorder"):
        fitted(seed=None, recorder=Recorder())


class Fails:
    """A student whose probabilities are none."""

    name = "fails"

    def learn(self, training, seed):  # noqa: ARG002
        return self

    def probabilities(self, rows):
        return np.resize([np.nan, 2.0, -1.0, np.inf], (len(rows), 2))


@pytest.mark.parametrize(
    "student", [Fails(), Network(hidden=(8,), steps=30, learning_rate=1e12)], ids=["own", "network"]
)
@pytest.mark.filterwarnings("ignore:the student diverged")
def test_a_student_that_diverged_ends_no_fit_that_is_charged(student):
    """Its probabilities tell an interactive aggregator what to ask."""
    rounds = {"selection": Selection(rounds=3, active=True), "queries": 60}
    made = fitted(
        student=student, aggregator=lambda noise: Interactive(5, 3 * noise, 2 * noise, 5), teachers=10, **rounds
    )
    assert sum(entry.count for entry in made.ledger.entries()) == 60 + 3 * 5


@pytest.mark.parametrize("kind", [Network, heavy(SemiSupervised)])
def test_a_student_that_diverged_is_as_it_began(kind, tmp_path):
    """Weights that are no numbers would be refused when the release is loaded."""
    with pytest.warns(UserWarning, match="the student diverged, so it is only its starting point"):
        made = fitted(student=kind(hidden=(8, 8, 8), steps=60, learning_rate=1e12), teachers=10)
    assert np.isfinite(made.predict_proba(without_labels(problem(20, 1)))).all()
    assert load(made.save(tmp_path / "release")).relearn(LogisticRegression()) is not None
