import sys

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from threadpoolctl import threadpool_info

from synthdp.errors import BadInput
from synthdp.evaluate import estimators, scores, tasks, utility
from synthdp.evaluate.features import CUT, Features
from synthdp.evaluate.tables import axes_of, table_of
from synthdp.schema.schema import Categorical, Continuous, Schema


def work(schema, synthetic, train, test, target="ill"):
    axes = axes_of(schema, train)
    s, t, v = (table_of(frame, axes, "synthetic") for frame in (synthetic, train, test))
    return tasks.task(next(axis for axis in axes if axis.name == target), s, t, v)


def run(task, seeds=1, models=("hgb", "lr", "rf")):
    return utility.judge(task, estimators.classifiers(models), seeds, 1, lambda _: None)[0]


def test_binary_scores_against_sklearn():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 80)
    chance = np.clip(0.3 * truth + 0.7 * rng.random(80), 0, 1)
    both = np.column_stack([1 - chance, chance])
    found = scores.score(truth, both, 1)
    assert found["auroc"] == pytest.approx(roc_auc_score(truth, chance))
    assert found["auprc"] == pytest.approx(average_precision_score(truth, chance))
    assert found["f1"] == pytest.approx(f1_score(truth, chance > 0.5))
    flipped = scores.score(truth, both, 0)
    assert flipped["auroc"] == pytest.approx(found["auroc"])
    assert flipped["auprc"] == pytest.approx(average_precision_score(1 - truth, 1 - chance))


def test_many_classes_against_sklearn():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 200)
    chances = rng.dirichlet(np.ones(4), 200) + 0.4 * np.eye(4)[truth]
    chances /= chances.sum(axis=1, keepdims=True)
    found = scores.score(truth, chances, None)
    assert found["auroc"] == pytest.approx(roc_auc_score(truth, chances, multi_class="ovr", average="macro"))
    assert found["auprc"] == pytest.approx(average_precision_score(np.eye(4)[truth], chances, average="macro"))
    assert found["f1"] == pytest.approx(f1_score(truth, chances.argmax(axis=1), average="macro"))
    assert found["accuracy"] == pytest.approx((truth == chances.argmax(axis=1)).mean())
    # A class without a test row is left out of the means instead of making them NaN.
    seen = truth < 3
    assert np.isfinite(list(scores.score(truth[seen], chances[seen], None).values())).all()


def test_one_class_has_no_ranking():
    assert set(scores.score(np.zeros(5, dtype=np.int64), np.full((5, 2), 0.5), 1)) == {
        "accuracy", "f1", "brier", "ece",
    }  # fmt: skip


def test_summary_by_hand():
    assert scores.summary([1.0, 2.0, 3.0]) == {"mean": 2.0, "sd": 1.0, "n": 3, "values": [1.0, 2.0, 3.0]}
    assert scores.summary([0.25])["sd"] == 0.0


@pytest.mark.heavy
def test_real_rows_as_synthetic_reach_the_ceiling(schema, train, test):
    entry = run(work(schema, train, train, test), seeds=2)
    assert entry["tstr"] == entry["trtr"]
    assert entry["average"]["trtr"]["auroc"]["mean"] > 0.75
    assert entry["trtr"]["lr"]["auroc"]["sd"] == 0.0
    assert entry["trtr"]["rf"]["auroc"]["sd"] > 0.0


@pytest.mark.heavy
def test_shuffled_target_and_floors_are_at_chance(schema, train, test):
    shuffled = train.assign(ill=train["ill"].sample(frac=1.0, random_state=3).to_numpy())
    entry = run(work(schema, shuffled, train, test), seeds=3, models=("hgb", "lr"))
    # Three independent noise models vary about 0.5, hardly beyond this with 400 test rows.
    assert entry["average"]["independent"]["auroc"]["mean"] == pytest.approx(0.5, abs=0.15)
    assert entry["average"]["tstr"]["auroc"]["mean"] == pytest.approx(0.5, abs=0.2)
    constant, share = entry["floors"]["majority"], (test["ill"] == "yes").mean()
    assert constant["auroc"]["mean"] == 0.5
    assert constant["accuracy"]["mean"] == pytest.approx(max(share, 1 - share))
    assert constant["auprc"]["mean"] == pytest.approx(share if entry["positive"] == "yes" else 1 - share)


def test_independent_floor_keeps_marginals_and_drops_relations(schema, train):
    table = table_of(train, axes_of(schema, train), "real training")
    drawn = utility.independent(table, np.random.default_rng(0))
    age, stage = (drawn.column(name) for name in ("age", "stage"))
    assert set(age) <= set(table.column("age"))
    assert abs(np.corrcoef(age, stage)[0, 1]) < 0.15 < np.corrcoef(table.column("age"), table.column("stage"))[0, 1]


@pytest.mark.parametrize("target", ["stage", "smoker", "site"])
def test_targets_of_every_kind_with_classes(schema, train, test, target):
    entry = run(work(schema, train, train, test, target), models=("lr",))
    assert set(entry["tstr"]["lr"]) == set(scores.METRICS)
    assert (entry["positive"] == "True") == (target == "smoker")
    assert entry["rows"]["test"] == int(test[target].notna().sum())


@pytest.mark.heavy
def test_a_class_that_the_synthetic_rows_lack_is_scored_and_listed(schema, train, test):
    task = work(schema, train[train["stage"] != "III"], train, test, "stage")
    assert [entry["metric"] for entry in tasks.shortfalls(task)] == ["tstr.stage.absent_classes"]
    entry = run(task, models=("hgb", "rf"))
    assert entry["tstr"]["hgb"]["auroc"]["mean"] < entry["trtr"]["hgb"]["auroc"]["mean"]


def test_one_synthetic_class_scores_as_a_constant(schema, train, test):
    entry = run(work(schema, train[train["ill"] == "no"], train, test), models=("lr",))
    assert entry["tstr"]["lr"]["auroc"]["mean"] == 0.5


def test_features_depend_on_the_training_rows_only(schema, train, test):
    axes = axes_of(schema, train)
    t, v = table_of(train, axes, "real training"), table_of(test, axes, "real test")
    features = Features.fit(t)
    dense = features.one_hot(t).toarray()
    # Three numbers and one ordinal code with a flag each; three categories with their levels, unknown and missing.
    assert dense.shape == (len(train), 4 * 2 + (3 + 2) + (2 + 2) + (2 + 2))
    assert dense[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    assert dense[:, 0].std() == pytest.approx(1.0)
    assert dense[:, 3].sum() == train["weight $kg$"].isna().sum()
    part = features.one_hot(v.take(np.arange(5))).toarray()
    assert np.array_equal(part, features.one_hot(v).toarray()[:5])


def test_an_almost_constant_training_column_does_not_blow_up():
    schema = Schema(columns=(Continuous(name="x", bounds=(0.0, 1e9)), Categorical(name="y", categories=("a", "b"))))
    import pandas as pd

    frame = pd.DataFrame({"x": [1.0] * 99 + [1.0001], "y": ["a", "b"] * 50})
    wide = pd.DataFrame({"x": [1e9], "y": ["a"]})
    axes = axes_of(schema, frame)
    features = Features.fit(table_of(frame, axes, "synthetic"))
    assert np.abs(features.one_hot(table_of(wide, axes, "real test")).toarray()).max() == CUT


def test_threads_are_limited_and_given_back():
    """Also those of a library that was loaded since the libraries were last looked for."""

    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = threads()
    with estimators.limited(2):
        assert threads() == {2}
        with estimators.limited(1, "openmp"):
            assert threads() == {2}
        with estimators.limited(1, "blas"):
            assert threads() == {1}
        assert threads() == {2}
    assert threads() == before
    known = estimators._libraries(len(sys.modules))
    assert estimators._libraries(len(sys.modules)) is known
    assert estimators._libraries(len(sys.modules) + 1) is not known


def test_unknown_model_is_named():
    with pytest.raises(BadInput, match=r"'gbm'.*hgb, lr, rf.*quick, paper"):
        estimators.classifiers(["hgb", "gbm"])
