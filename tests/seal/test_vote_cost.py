"""The data-dependent cost of votes, released: charged, noised to its smooth sensitivity, never in place of the statement's."""

import numpy as np
import pytest
from clinic import make_frame, make_schema
from sklearn.tree import DecisionTreeClassifier

from synthdp import BadInput, Budget, accounting
from synthdp.ledger.events import Entry, SmoothGaussian
from synthdp.ledger.ledger import Ledger
from synthdp.noise.noise import Noise
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.teachers import Estimators
from synthdp.seal.teachers.vote_aggregation import GNMax
from synthdp.seal.teachers.vote_cost import Cost

COST = Cost(sigma=4.0, order=8.0, beta=0.02, noise=6.0, delta=1e-5)


class Said:
    """Teachers that say what they are told to."""

    classes = 3

    def __init__(self, votes):
        self.said, self.count = votes, len(votes)

    def votes(self, queries):  # noqa: ARG002
        return self.said


def test_one_teacher_moves_the_figure_by_at_most_its_smooth_sensitivity():
    rng, moved = np.random.default_rng(0), []
    for _ in range(60):
        votes = rng.choice(3, p=(0.7, 0.2, 0.1), size=(40, 6))
        other = votes.copy()
        other[rng.integers(40)] = rng.integers(0, 3, 6)
        one, two = (COST.bounded(Said(said), np.zeros((6, 3), np.int32)) for said in (votes, other))
        moved.append(COST.movement(one, two))
    assert 0 < max(moved) <= 1 + 1e-9


def test_the_noise_has_the_deviation_of_the_smooth_sensitivity():
    bounded = COST.bounded(Said(np.repeat(np.repeat([[0, 1, 0, 2]], 30, 0), 5, 1)), np.zeros((20, 3), np.int32))
    noise = Noise(3)
    drawn = np.array([COST.noised(bounded, noise, 30).divergence for _ in range(4000)])
    kept = drawn[drawn > 0]  # a divergence is never said to be negative
    above = (kept > bounded.value).mean() * len(kept) / len(drawn)
    assert above == pytest.approx(0.5, abs=4 * 0.5 / 4000**0.5)
    upper = np.quantile(drawn, 0.841345) - bounded.value
    assert upper == pytest.approx(COST.noise * bounded.sensitivity, rel=0.08)


def test_it_is_charged_on_top_and_asked_of_sealed_teachers():
    schema, budget = make_schema(), Budget(8.0, 1e-5)
    account = Account(budget, Ledger())
    data = Sensitive(make_frame(200), schema, account, seed=1)
    queries = np.zeros((3, len(schema.modelled)), np.int32)
    votes, event = GNMax(30.0).events(3), COST.events(3)[0]
    data.commit(lambda _: (*(Entry(vote) for vote in votes), Entry(event)))
    data.resolve()
    target = [column.name for column in schema.modelled].index("ill")

    def features(codes):
        return np.delete(np.asarray(codes), target, axis=1).astype(float)

    kind = Estimators(estimator=DecisionTreeClassifier(max_depth=2), features=features, target="ill")
    teachers = data.partition(20, kind)
    teachers.train()
    teachers.ask(queries, GNMax(30.0))
    told = teachers.ask(queries, COST)
    booked = account.ledger.entries()
    assert booked[-1].event == data.account.scoped_event(SmoothGaussian(COST.noise, COST.beta))
    assert told.divergence >= 0
    assert accounting.best(booked, 1e-5)[1] > accounting.best(booked[:-1], 1e-5)[1]


@pytest.mark.parametrize("bad", [{"sigma": 0.0}, {"order": 1.0}, {"beta": 0.07}, {"noise": 0.0}, {"delta": 1.0}])
def test_what_makes_no_sense_is_refused_by_name(bad):
    settings = {"sigma": 4.0, "order": 8.0, "beta": 0.02, "noise": 6.0, "delta": 1e-5, **bad}
    with pytest.raises(BadInput, match=next(iter(bad))):
        Cost(**settings)
