"""The classifiers of the evaluation: one entry each. A new one is one entry of `CLASSIFIERS`.

The twelve of the PATE-GAN paper (Jordon, Yoon & van der Schaar 2019, section 5); histogram gradient boosting stands for
gradient boosting, which it repeats in a twentieth of the time.
"""

import importlib
import importlib.util
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.estimators import QUIET, Margins, Model, Passes, Setting, boosting, chosen, limited, model
from synthdp.evaluate.features import Features
from synthdp.evaluate.tables import Table

Classifier = Model
XGBOOST = Model(
    id="xgb",
    label="XGBoost",
    form="codes",
    seeded=True,
    make=lambda setting: importlib.import_module("xgboost").XGBClassifier(
        tree_method="hist", n_jobs=1, random_state=setting.seed
    ),
    note="100 trees over histograms",
    needs="xgboost",
)
CLASSIFIERS: dict[str, Classifier] = {
    entry.id: entry
    for entry in (
        boosting("ensemble.HistGradientBoostingClassifier"),
        # On thousands of one-hot columns later steps cost minutes and fit noise; on Adult it converges in 76.
        model(
            "lr",
            "Logistic regression",
            "one_hot",
            "linear_model.LogisticRegression",
            "at most 200 steps",
            C=1.0,
            max_iter=200,
        ),
        model(
            "rf",
            "Random forest",
            "codes",
            "ensemble.RandomForestClassifier",
            "100 trees with at least 3 rows a leaf",
            seeded=True,
            threads=True,
            n_estimators=100,
            min_samples_leaf=3,
            max_features="sqrt",
        ),
        model("gnb", "Gaussian naive Bayes", "dense", "naive_bayes.GaussianNB"),
        model("bnb", "Bernoulli naive Bayes", "one_hot", "naive_bayes.BernoulliNB"),  # numbers: above their mean or not
        Model(
            id="svm",
            label="Linear SVM",
            form="one_hot",
            seeded=False,
            make=lambda _: Margins(dual=False, max_iter=200),
            note="primal, at most 200 steps; probabilities by Platt's logistic curve on the training rows",
        ),
        model(
            "tree",
            "Decision tree",
            "codes",
            "tree.DecisionTreeClassifier",
            "at least 3 rows a leaf",
            seeded=True,
            min_samples_leaf=3,
        ),
        model(
            "lda",
            "Linear discriminant analysis",
            "dense",
            "discriminant_analysis.LinearDiscriminantAnalysis",
            "covariance shrunk by 0.001, so that collinear columns have a solution",
            solver="lsqr",
            shrinkage=1e-3,
        ),
        model("ada", "AdaBoost", "filled", "ensemble.AdaBoostClassifier", "50 stumps", seeded=True, n_estimators=50),
        model(
            "bag",
            "Bagging",
            "codes",
            "ensemble.BaggingClassifier",
            "10 trees of unlimited depth",
            seeded=True,
            threads=True,
            n_estimators=10,
        ),
        Model(
            id="mlp",
            label="Multi-layer perceptron",
            form="dense",
            seeded=True,
            make=lambda setting: Passes(hidden_layer_sizes=(100,), random_state=setting.seed),
            note="one layer of 100 units; 15 to 200 passes, so that it sees about 500,000 rows",
        ),
        XGBOOST,
    )
}
# What a name stands for where `models` is given as one.
PRESETS: dict[str, tuple[str, ...]] = {
    "default": ("hgb", "lr", "rf"),
    "quick": ("hgb",),
    "paper": ("lr", "rf", "gnb", "bnb", "svm", "tree", "lda", "ada", "bag", "hgb", "mlp", "xgb"),
}


def classifiers(ids: str | Sequence[str] | None) -> tuple[Classifier, ...]:
    """The registered classifiers with these ids; see `chosen`."""
    return chosen(ids, CLASSIFIERS, PRESETS, "those known")


def absent(model: Model) -> str | None:
    """Why a model cannot run here, or None."""
    if model.needs is None or importlib.util.find_spec(model.needs) is not None:
        return None
    return f"{model.needs} is not installed; pip install 'synthdp[{model.needs}]' adds it"


def chances(
    classifier: Classifier, train: Table, labels: NDArray[np.int64], test: Table, classes: int, *, seed: int, jobs: int
) -> NDArray[np.float64]:
    """(test rows, classes): class probabilities after training on (train, labels).

    A class without a training row gets probability 0 everywhere; one class alone gets probability 1. jobs: threads. Raises
    ValueError where a model has no answer for these rows.
    """
    out = np.zeros((test.rows, classes))
    occur, dense = np.unique(labels, return_inverse=True)
    if len(occur) == 1:
        out[:, occur[0]] = 1.0
        return out
    features = Features.fit(train)
    estimator = classifier.make(Setting(features=features, seed=seed, jobs=jobs))
    with QUIET, limited(jobs, "openmp"):
        estimator.fit(features.encode(train, classifier.form), dense)
        found = estimator.predict_proba(features.encode(test, classifier.form))
    if not np.isfinite(found).all():
        raise ValueError("probabilities that are not numbers")
    out[:, occur[np.asarray(estimator.classes_, dtype=np.int64)]] = found
    return out
