"""Students and the choice of queries: public inputs in, so that each can be tried by itself."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from synthdp import BadInput
from synthdp.pate import Estimator, Network, Selection, SemiSupervised
from synthdp.pate.aggregation import targets
from synthdp.pate.students import TrainingSet, margins
from synthdp.schema.learned import nearest_counts
from synthdp.seal.teachers.vote_aggregation import Labels

CENTRES = np.array([[0.2, 0.2, 0.8], [0.8, 0.2, 0.2], [0.5, 0.9, 0.5]])
STUDENTS = {
    "logistic": Estimator(LogisticRegression(C=10)),
    "forest": Estimator(RandomForestClassifier(n_estimators=20)),
    "neighbours": Estimator(KNeighborsClassifier(3)),  # takes no weights
    "margin": Estimator(LinearSVC()),  # has no probabilities
    "network": Network(hidden=(16,), steps=150, learning_rate=1e-2, smoothing=0.05, noise=0.01),
    "module": Network(module=torch.nn.Linear(3, 3), steps=200, learning_rate=3e-2),
    "semi_supervised": SemiSupervised(hidden=(32, 16), generator_hidden=(32,), latent=8, steps=120, batch=30),
}


def points(rows, seed, wide=0.08):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return np.clip(CENTRES[labels] + wide * rng.normal(size=(rows, 3)), 0, 1).astype(np.float32), labels


def training_set(soft=False, count=45):
    rows, labels = points(count, 0)
    weights = np.eye(3, dtype=np.float32)[labels]
    if soft:
        weights = (0.7 * weights + 0.1).astype(np.float32)
    return TrainingSet(rows=rows, targets=weights, pool=points(400, 1)[0])


@pytest.mark.heavy
@pytest.mark.parametrize("name", STUDENTS)
@pytest.mark.parametrize("soft", [False, True])
def test_every_student_learns_an_easy_problem(name, soft):
    learned = STUDENTS[name].learn(training_set(soft), 5)
    rows, labels = points(500, 2)
    found = learned.probabilities(rows)
    assert (found.argmax(1) == labels).mean() > 0.95
    np.testing.assert_allclose(found.sum(1), 1)
    assert learned.probabilities(rows[:0]).shape == (0, 3)


@pytest.mark.heavy
@pytest.mark.parametrize("name", STUDENTS)
def test_a_students_chances_come_from_its_seed(name):
    rows = points(100, 3, wide=0.3)[0]
    one, same = (STUDENTS[name].learn(training_set(), 5).probabilities(rows) for _ in range(2))
    np.testing.assert_array_equal(one, same)


@pytest.mark.heavy
def test_records_without_labels_help_the_semi_supervised_student():
    """Scikit-learn's 1,797 digits with 30 labels: the others teach what digits look like."""
    rows, label = load_digits(return_X_y=True)
    rows = (rows / 16).astype(np.float32)
    rng = np.random.default_rng(0)
    few = np.concatenate([rng.permutation(np.flatnonzero(label == digit))[:3] for digit in range(10)])
    weights = np.eye(10, dtype=np.float32)[label[few]]
    student = SemiSupervised(
        hidden=(100, 100), generator_hidden=(100,), latent=16, steps=600, batch=50, learning_rate=3e-3
    )
    right = [
        (
            student.learn(TrainingSet(rows=rows[few], targets=weights, pool=pool), 1).probabilities(rows).argmax(1)
            == label
        ).mean()
        for pool in (rows, rows[few])
    ]
    assert right[0] > right[1] + 0.015


def test_soft_targets_are_learned_as_shares():
    """One group of records whose votes are split 70 to 30: the student's probability is that share, not 1."""
    rows = np.zeros((40, 1), np.float32)
    shares = np.tile(np.array([[0.7, 0.3]], np.float32), (40, 1))
    for student in (Estimator(LogisticRegression(C=1e6)), Network(hidden=(4,), steps=400, learning_rate=1e-2)):
        learned = student.learn(TrainingSet(rows=rows, targets=shares, pool=rows), 0)
        assert learned.probabilities(rows[:1])[0, 0] == pytest.approx(0.7, abs=0.02)


def test_labels_of_one_class_and_no_labels_at_all():
    rows = points(10, 0)[0]
    only = np.tile(np.array([[0, 0, 1]], np.float32), (10, 1))
    for student in (STUDENTS["logistic"], STUDENTS["network"], STUDENTS["semi_supervised"]):
        learned = student.learn(TrainingSet(rows=rows, targets=only, pool=rows), 0)
        assert (learned.probabilities(rows).argmax(1) == 2).all()


def test_counts_become_the_nearest_distribution():
    rng = np.random.default_rng(0)
    noisy = rng.normal(0.3, 0.5, (50, 3))
    found = np.array([nearest_counts(row, 1.0) for row in noisy])
    soft, _ = targets(noisy, 1, 3, soft=True)
    np.testing.assert_array_equal(soft, found.astype(np.float32))
    np.testing.assert_allclose(found.sum(1), 1)
    assert (found >= 0).all()
    for _ in range(200):  # no other distribution is nearer
        other = rng.dirichlet(np.ones(3), 50)
        assert (np.linalg.norm(found - noisy, axis=1) <= np.linalg.norm(other - noisy, axis=1) + 1e-12).all()


def test_what_an_answer_says():
    hard, answered = targets(np.array([2, 0]), 10, 3, soft=False)
    np.testing.assert_array_equal(hard, np.eye(3)[[2, 0]])
    assert answered.all()
    soft, _ = targets(np.array([[7.0, 2.0, 1.0]]), 10, 3, soft=True)
    np.testing.assert_allclose(soft, [[0.7, 0.2, 0.1]], rtol=1e-6)
    likeliest, _ = targets(np.array([[7.0, 2.0, 1.0]]), 10, 3, soft=False)
    np.testing.assert_array_equal(likeliest, [[1, 0, 0]])
    shares, _ = targets(np.array([0.25]), 10, 2, soft=True)
    np.testing.assert_allclose(shares, [[0.75, 0.25]])
    silent = Labels(np.array([1, -1]), np.array([True, False]), np.array([False, False]))
    weights, answered = targets(silent, 10, 2, soft=False)
    np.testing.assert_array_equal(answered, [True, False])
    np.testing.assert_array_equal(weights[answered], [[0, 1]])
    with pytest.raises(BadInput, match="counts"):
        targets(np.array([2, 0]), 10, 3, soft=True)


def test_active_selection_asks_where_the_student_is_least_sure():
    left = np.arange(100, 200)
    sure = np.linspace(0.5, 1, 100)
    guess = np.stack([sure, 1 - sure], 1)
    rng = np.random.default_rng(0)
    chosen = Selection(rounds=2, active=True, explore=0.25).choose(20, left, guess, rng)
    assert set(range(100, 115)) <= set(chosen.tolist())
    assert len(set(chosen.tolist())) == 20
    assert max(chosen) > 130
    np.testing.assert_array_equal(np.argsort(margins(guess)), np.arange(100))
    assert len(set(Selection().choose(20, left, guess, rng).tolist())) == 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: Network(steps=0),
        lambda: Network(smoothing=1.0),
        lambda: SemiSupervised(hidden=()),
        lambda: SemiSupervised(average=1.0),
        lambda: Selection(active=True),
        lambda: Selection(explore=2.0),
        lambda: Estimator("forest"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(BadInput):
        make()


def test_convolutions_are_restored_and_refuse_what_they_would_ignore():
    rows = np.random.default_rng(0).random((30, 48), dtype=np.float32)
    targets = np.eye(2, dtype=np.float32)[(rows[:, 0] > 0.5).astype(int)]
    student = Network(picture=(4, 6, 2), channels=(3, 5), steps=3)
    learned = student.learn(TrainingSet(rows=rows, targets=targets, pool=rows), 1)
    again = student.restore(48, 2, learned.tensors())
    np.testing.assert_array_equal(again.probabilities(rows), learned.probabilities(rows))
    with pytest.raises(BadInput, match="one picture and nothing beside it"):
        student.learn(TrainingSet(rows=rows[:, :47], targets=targets, pool=rows[:, :47]), 1)
    for ignored in ({"channels": (3,)}, {"picture": (4, 6, 2), "hidden": (9,)}):
        with pytest.raises(BadInput, match="would be ignored"):
            Network(**ignored)
