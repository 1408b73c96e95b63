"""The twelve predictive models of the PATE-GAN paper (Jordon, Yoon & van der Schaar 2019, section 5), for train on
synthetic, test on real.

Settings are the libraries' own, but for three that time asks for: gradient boosting looks at a random square root of the
columns per split, the perceptron stops after 50 passes, logistic regression after 200 steps. All twelve
see the same features: numbers scaled by the training rows, medians and a flag where missing, one column per category.
"""

import importlib.util
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from synthdp.evaluate.estimators import Classifier, Setting, chances
from synthdp.evaluate.scores import score
from synthdp.evaluate.tables import Table, axes_of, table_of
from synthdp.evaluate.tasks import Task, task

METRICS = ("auroc", "auprc")


class Dense:
    """A classifier on full matrices. One without class probabilities is given its decision value through a sigmoid:
    AUROC and AUPRC only ask for the order."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def classes_(self) -> Any:
        """The class codes, in the order of the columns of `predict_proba`."""
        return self._inner.classes_

    def fit(self, X: Any, y: Any) -> "Dense":
        """Train."""
        self._inner.fit(X.toarray(), y)
        return self

    def predict_proba(self, X: Any) -> Any:
        """(rows, classes)."""
        if hasattr(self._inner, "predict_proba"):
            return self._inner.predict_proba(X.toarray())
        second = 0.5 * (1 + np.tanh(0.5 * self._inner.decision_function(X.toarray())))
        return np.column_stack([1 - second, second])


def logistic_regression(_: Setting) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=200)


def random_forest(setting: Setting) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_jobs=setting.jobs, random_state=setting.seed)


def gaussian_naive_bayes(_: Setting) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def bernoulli_naive_bayes(_: Setting) -> Any:
    from sklearn.naive_bayes import BernoulliNB

    return BernoulliNB()


def linear_svm(setting: Setting) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=setting.seed)


def decision_tree(setting: Setting) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=setting.seed)


def linear_discriminant(_: Setting) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


def ada_boost(setting: Setting) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=setting.seed)


def bagging(setting: Setting) -> Any:
    from sklearn.ensemble import BaggingClassifier

    return BaggingClassifier(n_jobs=setting.jobs, random_state=setting.seed)


def gradient_boosting(setting: Setting) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(max_features="sqrt", random_state=setting.seed)


def perceptron(setting: Setting) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(max_iter=50, random_state=setting.seed)


def xg_boost(setting: Setting) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=setting.jobs, random_state=setting.seed)


def hist_gradient_boosting(setting: Setting) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(early_stopping=False, random_state=setting.seed)


def twelve() -> tuple[Classifier, ...]:
    """The twelve models; histogram gradient boosting, its near relative, stands in where xgboost is not installed."""
    has_xgboost = importlib.util.find_spec("xgboost") is not None
    last = ("xgb", "XGBoost", xg_boost) if has_xgboost else ("hgb", "Histogram boosting", hist_gradient_boosting)
    entries: tuple[tuple[str, str, Callable[[Setting], Any]], ...] = (
        ("lr", "Logistic regression", logistic_regression),
        ("rf", "Random forest", random_forest),
        ("gnb", "Gaussian naive Bayes", gaussian_naive_bayes),
        ("bnb", "Bernoulli naive Bayes", bernoulli_naive_bayes),
        ("svm", "Linear SVM", linear_svm),
        ("tree", "Decision tree", decision_tree),
        ("lda", "Linear discriminant analysis", linear_discriminant),
        ("ada", "AdaBoost", ada_boost),
        ("bag", "Bagging", bagging),
        ("gbm", "Gradient boosting", gradient_boosting),
        ("mlp", "Multi-layer perceptron", perceptron),
        last,
    )
    return tuple(
        Classifier(id=key, label=label, form="one_hot", seeded=True, make=dense(make)) for key, label, make in entries
    )


def dense(make: Callable[[Setting], Any]) -> Callable[[Setting], Dense]:
    """The same model on full matrices: half of the twelve take no sparse ones."""
    return lambda setting: Dense(make(setting))


def library() -> str:
    """What stands for XGBoost, with its version."""
    for name in ("xgboost", "xgboost-cpu"):
        try:
            return f"xgboost {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return f"HistGradientBoosting of scikit-learn {metadata.version('scikit-learn')} (xgboost is not installed)"


def tables(schema: Any, synthetic: Any, train: Any, test: Any) -> Task:
    """The task of predicting the schema's first target."""
    axes = axes_of(schema, train)
    made = [
        table_of(frame, axes, role) for frame, role in ((synthetic, "synthetic"), (train, "training"), (test, "test"))
    ]
    axis = next(axis for axis in axes if axis.name == schema.targets[0])
    return task(axis, *made)


def scores(train: tuple[Table, Any], work: Task, *, seed: int) -> dict[str, dict[str, float]]:
    """model -> auroc, auprc on the real test rows, after training on `train` (a table and its labels)."""
    found = {}
    for model in twelve():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # generated rows make collinear and constant columns, which LDA remarks on
            guess = chances(model, *train, work.test[0], len(work.classes), seed=seed, jobs=1)
        reached = score(work.test[1], guess, work.positive)
        found[model.id] = {metric: reached[metric] for metric in METRICS}
    return found
