"""Every model of the registries on one small table, in every form of features, and what is awkward about each."""

import numpy as np
import pytest
from ward import make_frame, make_schema

from synthdp.errors import BadInput
from synthdp.evaluate import classifiers, features, pictured, regressors, scores, tasks
from synthdp.evaluate.classifiers import CLASSIFIERS, PRESETS, chances
from synthdp.evaluate.regressors import REGRESSORS, guesses
from synthdp.evaluate.tables import Axis, Table, axes_of, table_of

# Three standard deviations above chance: an AUROC of 100 rows against 100 that knows nothing has 0.041.
LEAST = 0.62
# The mean over three classes, each against the rest (0.043), which are not alike: at most 0.043 / sqrt(3).
LEAST_OF_THREE = 0.575


def work_of(target, rows=300):
    train, test = make_frame(rows, 1), make_frame(200, 2)
    axes = axes_of(make_schema(), train)
    t, v = table_of(train, axes, "real training"), table_of(test, axes, "real test")
    return tasks.task(next(axis for axis in axes if axis.name == target), t, t, v)


@pytest.fixture(scope="module")
def ill():
    return work_of("ill")


@pytest.fixture(scope="module")
def stage():
    return work_of("stage")


def here(name):
    why = classifiers.absent(CLASSIFIERS[name])
    if why:
        pytest.skip(why)
    return CLASSIFIERS[name]


def test_the_paper_has_twelve():
    assert len(PRESETS["paper"]) == len(set(PRESETS["paper"])) == 12
    assert set(PRESETS["paper"]) == set(CLASSIFIERS)
    assert [m.id for m in classifiers.classifiers(None)] == ["hgb", "lr", "rf"]
    assert [m.id for m in classifiers.classifiers("quick")] == ["hgb"]
    assert [m.id for m in classifiers.classifiers(["svm", "quick", "svm"])] == ["svm", "hgb"]


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_each_classifier_learns_and_gives_probabilities(name, ill, stage):
    model = here(name)
    found = chances(model, *ill.train, ill.test[0], 2, seed=0, jobs=1)
    assert found.shape == (200, 2)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found.min() >= 0
    assert scores.score(ill.test[1], found, 1)["auroc"] > LEAST
    again = chances(model, *ill.train, ill.test[0], 2, seed=0, jobs=1)
    assert np.array_equal(found, again)
    three = chances(model, *stage.train, stage.test[0], 3, seed=0, jobs=1)
    assert three.sum(axis=1) == pytest.approx(1.0)
    assert scores.score(stage.test[1], three, None)["auroc"] > LEAST_OF_THREE


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_a_class_of_one_row_and_a_class_of_none(name, stage):
    """Codes 0 and 2 with one row of 2 and no row of 1: its column is 0, and nothing is lost."""
    table, labels = stage.train
    rows = np.r_[np.flatnonzero(labels == 0)[:30], np.flatnonzero(labels == 2)[:1]]
    found = chances(here(name), table.take(rows), labels[rows], stage.test[0], 3, seed=0, jobs=1)
    assert (found[:, 1] == 0).all()
    assert found.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_training_columns_that_say_nothing(name, ill):
    """Constant and wholly missing columns, in training rows only."""
    values = ill.train[0].values.copy()
    values[:, 0], values[:, 1], values[:, 2] = 3.0, np.nan, np.nan
    flat = Table(axes=ill.train[0].axes, values=values)
    found = chances(here(name), flat, ill.train[1], ill.test[0], 2, seed=0, jobs=1)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_each_regressor_learns(name):
    work = work_of("age")
    found = guesses(REGRESSORS[name], *work.train, work.test[0], seed=0, jobs=1)
    assert found.shape == (200,)
    assert scores.errors(work.test[1], found)["r2"] > 0.4
    constant = guesses(REGRESSORS[name], work.train[0], np.full(300, 7.0), work.test[0], seed=0, jobs=1)
    assert constant == pytest.approx(7.0)


def test_regressors_are_those_of_the_chosen_ids():
    assert [m.id for m in regressors.regressors(classifiers.classifiers(["svm", "rf", "lr"]))] == ["rf", "lr"]
    assert regressors.regressors(classifiers.classifiers(["svm"])) == ()


def test_svm_probabilities_come_true(ill):
    found = chances(CLASSIFIERS["svm"], *ill.train, ill.test[0], 2, seed=0, jobs=1)
    plain = chances(CLASSIFIERS["lr"], *ill.train, ill.test[0], 2, seed=0, jobs=1)
    assert scores.score(ill.test[1], found, 1)["brier"] < scores.score(ill.test[1], plain, 1)["brier"] + 0.02


def test_full_matrices_stay_narrow():
    levels = tuple(f"d{i}" for i in range(500))
    axis = Axis(name="diagnosis", kind="category", levels=levels)
    column = np.r_[np.repeat(np.arange(100.0), 3), 499.0, 500.0, np.nan]
    table = Table(axes=(axis,), values=column[:, None])
    fitted = features.Features.fit(table)
    dense = fitted.dense(table)
    assert dense.shape == (303, features.MOST_DENSE + 2)
    assert (dense.sum(axis=1) == 1).all()
    assert dense[-1, -1] == 1
    assert fitted.one_hot(table).shape == (303, 502)
    assert not np.isnan(fitted.filled(table)).any()


def test_an_absent_library_is_told(monkeypatch):
    monkeypatch.setattr(classifiers.importlib.util, "find_spec", lambda _: None)
    assert "pip install 'synthdp[xgboost]'" in classifiers.absent(CLASSIFIERS["xgb"])
    assert classifiers.absent(CLASSIFIERS["lr"]) is None


def test_sets_of_image_models():
    assert pictured.chosen(None) == pictured.chosen("paper") == pictured.chosen(["default"]) == ("lr", "mlp", "cnn")
    assert pictured.chosen(["quick"]) == ("lr",)
    assert pictured.chosen(["cnn", "quick"]) == ("cnn", "lr")
    with pytest.raises(BadInput):
        classifiers.classifiers(pictured.chosen(["cnn"]))
