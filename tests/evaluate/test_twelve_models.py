"""Every model of the registries on small tables, in every form of features, and what is awkward about each."""

import numpy as np
import pandas as pd
import pytest
from patients import make_frame, make_schema
from scipy.stats import norm

from synthdp.errors import BadInput
from synthdp.evaluate import estimators, features, scores, tasks
from synthdp.evaluate.estimators import CLASSIFIERS, PRESETS, REGRESSORS, chances, guesses
from synthdp.evaluate.images import image_classifiers
from synthdp.evaluate.tables import Axis, Table, axes_of, table_of
from synthdp.schema.schema import Categorical, Continuous, Schema

# Fixed before any model ran: chance is refuted at p < 1e-4, and at least half of what the Bayes rule has above it is found.
Z = 3.72  # P(N(0, 1) > 3.72) = 1e-4
SHIFT = 2.0  # between neighbouring classes, in standard deviations of each class
EACH = {2: (300, 500), 3: (200, 300)}  # training and test rows of each class


def work_of(target, rows=300):
    """The ward's, with every kind of column."""
    train, test = make_frame(rows, 1), make_frame(200, 2)
    axes = axes_of(make_schema(), train)
    t, v = table_of(train, axes, "real training"), table_of(test, axes, "real test")
    return tasks.task(next(axis for axis in axes if axis.name == target), (t,), t, v)


def drawn(classes, each, seed):
    """Normal classes with means on a regular polygon of side SHIFT, beside a category that says nothing and `size`, which
    is x + N(0, 1)."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(classes), each)
    points = rng.normal(size=(len(truth), 2)) + means(classes)[truth]
    site = rng.choice(np.array(["north", "south", None], dtype=object), len(truth))
    size = points[:, 0] + rng.normal(size=len(truth))
    return pd.DataFrame(
        {"x": points[:, 0], "y": points[:, 1], "site": site, "size": size, "kind": [f"k{i}" for i in truth]}
    )


def means(classes):
    angle = 2 * np.pi * np.arange(classes) / classes
    return SHIFT / (2 * np.sin(np.pi / classes)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def normal_work(classes, target):
    columns = [Continuous(name=name, bounds=(-9.0, 9.0)) for name in ("x", "y", "size")]
    columns.append(Categorical(name="site", categories=("north", "south"), missing=True))
    columns.append(Categorical(name="kind", categories=tuple(f"k{i}" for i in range(classes))))
    used = [column for column in columns if target == "size" or column.name != "size"]
    schema = Schema(name="normal", targets=(target,), columns=tuple(used))
    train, test = (
        drawn(classes, each, seed)[[column.name for column in used]] for seed, each in enumerate(EACH[classes], 1)
    )
    axes = axes_of(schema, train)
    t, v = table_of(train, axes, "real training"), table_of(test, axes, "real test")
    return test, tasks.task(next(axis for axis in axes if axis.name == target), (t,), t, v)


def bayes(test, classes):
    """(rows, classes) true posterior chances; the classes have equally many rows."""
    gaps = test[["x", "y"]].to_numpy()[:, None, :] - means(classes)[None]
    weight = np.exp(-0.5 * (gaps**2).sum(axis=2))
    return weight / weight.sum(axis=1, keepdims=True)


def deviation(classes, auroc=None):
    """An upper bound of the standard deviation of an AUROC on the test rows: without knowledge (Mann & Whitney 1947; ties
    and the mean over classes make it smaller), or at a given value (Birnbaum & Klose 1957)."""
    own = EACH[classes][1]
    rest = own * (classes - 1)
    return np.sqrt((own + rest + 1) / (12 * own * rest) if auroc is None else auroc * (1 - auroc) / own)


@pytest.fixture(scope="module")
def ill():
    return work_of("ill")


@pytest.fixture(scope="module")
def stage():
    return work_of("stage")


def here(name):
    why = estimators.absent(CLASSIFIERS[name])
    if why:
        pytest.skip(why)
    return CLASSIFIERS[name]


def test_the_paper_has_twelve():
    assert len(PRESETS["paper"]) == len(set(PRESETS["paper"])) == 12
    assert set(PRESETS["paper"]) == set(CLASSIFIERS)
    assert [m.id for m in estimators.classifiers(None)] == ["hgb", "lr", "rf"]
    assert [m.id for m in estimators.classifiers("quick")] == ["hgb"]
    assert [m.id for m in estimators.classifiers(["svm", "quick", "svm"])] == ["svm", "hgb"]


def test_the_bayes_rule_of_two_normal_classes():
    """Its AUROC is Phi(SHIFT / sqrt 2) = 0.921."""
    test, work = normal_work(2, "kind")
    found = scores.score(work.test[1], bayes(test, 2), 1)["auroc"]
    exact = norm.cdf(SHIFT / np.sqrt(2))
    assert abs(found - exact) < Z * deviation(2, exact)


@pytest.mark.heavy
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_each_classifier_learns_what_the_bayes_rule_knows(name, classes):
    """Half of it at least, and no more than it: a score above would have seen the labels."""
    model = here(name)
    test, work = normal_work(classes, "kind")
    positive = 1 if classes == 2 else None
    found = chances(model, *work.train, work.test[0], classes, seed=0, jobs=1)
    assert found.shape == (classes * EACH[classes][1], classes)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert found.min() >= 0
    again = chances(model, *work.train, work.test[0], classes, seed=0, jobs=1)
    assert np.array_equal(found, again)
    reached = scores.score(work.test[1], found, positive)["auroc"]
    best = scores.score(work.test[1], bayes(test, classes), positive)["auroc"]
    assert best > 0.85
    assert reached > 0.5 + Z * deviation(classes)
    assert reached > 0.5 + (best - 0.5) / 2
    assert reached < best + Z * deviation(classes, best)


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
    values = ill.train[0].values.copy()  # noqa: PD011
    values[:, 0], values[:, 1], values[:, 2] = 3.0, np.nan, np.nan
    flat = Table(axes=ill.train[0].axes, values=values)
    found = chances(here(name), flat, ill.train[1], ill.test[0], 2, seed=0, jobs=1)
    assert np.isfinite(found).all()


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(REGRESSORS))
def test_each_regressor_learns(name):
    """At least half of the variance that x explains; the rest of `size` is noise."""
    test, work = normal_work(2, "size")
    found = guesses(REGRESSORS[name], *work.train, work.test[0], seed=0, jobs=1)
    assert found.shape == (len(test),)
    best = scores.errors(work.test[1], test["x"].to_numpy())["r2"]
    assert scores.errors(work.test[1], found)["r2"] > best / 2
    constant = guesses(REGRESSORS[name], work.train[0], np.full(work.train[0].rows, 7.0), work.test[0], seed=0, jobs=1)
    assert constant == pytest.approx(7.0)


def test_regressors_are_those_of_the_chosen_ids():
    assert [m.id for m in estimators.regressors(estimators.classifiers(["svm", "rf", "lr"]))] == ["rf", "lr"]
    assert estimators.regressors(estimators.classifiers(["svm"])) == ()


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
    monkeypatch.setattr(estimators.importlib.util, "find_spec", lambda _: None)
    assert "pip install 'synthdp[xgboost]'" in estimators.absent(CLASSIFIERS["xgb"])
    assert estimators.absent(CLASSIFIERS["lr"]) is None


def test_sets_of_image_models():
    def ids(models):
        return [model.id for model in image_classifiers.classifiers(models)]

    assert ids(None) == ids("paper") == ids(["default"]) == ["lr", "mlp", "cnn"]
    assert ids(["quick"]) == ["lr"]
    assert ids(["cnn", "quick"]) == ["cnn", "lr"]
    with pytest.raises(BadInput):
        estimators.classifiers(["cnn"])
