"""The classifiers of the evaluation: one entry each. A new one is one function and one line of `CLASSIFIERS`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.features import Features

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table


class Estimator(Protocol):
    """What scikit-learn's classifiers promise."""

    classes_: NDArray[np.int64]

    def fit(self, X: Any, y: NDArray[np.int64]) -> Any: ...
    def predict_proba(self, X: Any) -> NDArray[np.float64]: ...


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a fit may depend on besides its rows: the fitted features, the seed and the number of threads."""

    features: Features
    seed: int
    jobs: int


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """id: the key in the JSON. form: the features it wants. seeded: whether another seed gives another fit."""

    id: str
    label: str
    form: Literal["codes", "one_hot"]
    seeded: bool
    make: Callable[[Setting], Estimator]


def hist_gradient_boosting(setting: Setting) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # No early stopping: it splits off rows by class and so refuses a class of one row.
    return HistGradientBoostingClassifier(
        max_iter=100,
        learning_rate=0.1,
        max_features=0.5,
        categorical_features=setting.features.nominal,
        early_stopping=False,
        random_state=setting.seed,
    )


def logistic_regression(_: Setting) -> Any:
    from sklearn.linear_model import LogisticRegression

    # On thousands of one-hot columns later steps cost minutes and fit noise; on Adult it converges in 76.
    return LogisticRegression(C=1.0, max_iter=200)


def random_forest(setting: Setting) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=100, min_samples_leaf=3, max_features="sqrt", n_jobs=setting.jobs, random_state=setting.seed
    )


CLASSIFIERS: dict[str, Classifier] = {
    entry.id: entry
    for entry in (
        Classifier(id="hgb", label="Gradient boosting", form="codes", seeded=True, make=hist_gradient_boosting),
        Classifier(id="lr", label="Logistic regression", form="one_hot", seeded=False, make=logistic_regression),
        Classifier(id="rf", label="Random forest", form="codes", seeded=True, make=random_forest),
    )
}


def classifiers(ids: Sequence[str]) -> tuple[Classifier, ...]:
    """The registered classifiers by id, in the order given. Raises BadInput for an unknown id or none at all."""
    unknown = [name for name in ids if name not in CLASSIFIERS]
    if unknown or not ids:
        what = ", ".join(repr(name) for name in unknown) or "none given"
        raise BadInput(f"models: {what}; known are {', '.join(CLASSIFIERS)}.")
    return tuple(CLASSIFIERS[name] for name in dict.fromkeys(ids))


def chances(
    classifier: Classifier, train: Table, labels: NDArray[np.int64], test: Table, classes: int, *, seed: int, jobs: int
) -> NDArray[np.float64]:
    """(test rows, classes): class probabilities after training on (train, labels).

    A class without a training row gets probability 0 everywhere; one class alone gets probability 1.
    """
    out = np.zeros((test.rows, classes))
    occur = np.unique(labels)
    if len(occur) == 1:
        out[:, occur[0]] = 1.0
        return out
    features = Features.fit(train)
    encode = features.codes if classifier.form == "codes" else features.one_hot
    estimator = classifier.make(Setting(features=features, seed=seed, jobs=jobs))
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # One OpenMP and BLAS thread: on cores that others use too, their spinning cost minutes (Adult: 265 s against 33 s).
    # jobs goes to the estimators that spread trees over plain threads.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(encode(train), labels)
        out[:, estimator.classes_] = estimator.predict_proba(encode(test))
    return out
