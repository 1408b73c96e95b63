"""The models of the evaluation, scikit-learn's (and XGBoost's) with what time and awkward rows ask for: one entry each.

The classifiers are the twelve of the PATE-GAN paper (Jordon, Yoon & van der Schaar 2019, section 5); histogram gradient boosting stands
for gradient boosting, which it repeats in a twentieth of the time. A new one is one entry of `CLASSIFIERS`.
"""

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from synthdp.errors import BadInput
from synthdp.evaluate.features import Features, Form
from synthdp.evaluate.tables import Table

Kind = TypeVar("Kind")

# ---- One OpenMP and BLAS thread and no remarks of convergence while models are fitted, also from several threads.


def limited(threads: int, kind: str | None = None) -> AbstractContextManager[Any]:
    """At most this many threads of the "openmp" or "blas" libraries, or of both; afterwards as many as before."""
    return cast("AbstractContextManager[Any]", _libraries(len(sys.modules)).limit(limits=threads, user_api=kind))


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:  # noqa: ARG001
    """The loaded libraries that have threads. To find them takes 6 ms, as long as a small fit: they are looked for again only
    where modules were imported since."""
    return ThreadpoolController()


class Quiet:
    """A context that may be entered by several threads: both switches belong to the process, so the first one in sets
    them and the last one out puts back what was.

    One thread a fit: on cores that others use too, the spinning of OpenMP cost minutes (Adult: 265 s against 33 s).
    The remarks (no convergence, collinear or constant columns) are about ordinary synthetic rows.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._stack = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._stack.enter_context(limited(1))
                self._stack.enter_context(warnings.catch_warnings())
                for kind in (UserWarning, RuntimeWarning, FutureWarning):  # ConvergenceWarning is a UserWarning
                    warnings.simplefilter("ignore", kind)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._stack.close()


QUIET = Quiet()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a fit may depend on besides its rows: the fitted features, the seed and the number of threads."""

    features: Features
    seed: int
    jobs: int


@dataclass(frozen=True, kw_only=True)
class Model:
    """id: the key in the JSON. form: the features it wants. seeded: whether another seed gives another fit. note: what
    its settings leave out, for the JSON. needs: a module that is no dependency."""

    id: str
    label: str
    form: Form
    seeded: bool
    make: Callable[[Setting], Any]
    note: str = "the library's defaults"
    needs: str | None = None


def of_sklearn(path: str, **settings: Any) -> Any:
    """An estimator of scikit-learn, of whose modules only those are imported that are needed."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"sklearn.{module}"), name)(**settings)


def model(
    id: str,
    label: str,
    form: Form,
    path: str,
    note: str = "the library's defaults",
    *,
    seeded: bool = False,
    threads: bool = False,
    **settings: Any,
) -> Model:
    """A model of scikit-learn with these settings; one that is `seeded` gets the seed too, one with `threads` their number."""

    def make(setting: Setting) -> Any:
        more = {"random_state": setting.seed} if seeded else {}
        return of_sklearn(path, **settings, **more, **({"n_jobs": setting.jobs} if threads else {}))

    return Model(id=id, label=label, form=form, seeded=seeded, make=make, note=note)


def boosting(path: str) -> Model:
    """Gradient boosting over histograms, of classes or of numbers."""

    def make(setting: Setting) -> Any:
        return of_sklearn(
            path,
            max_iter=100,
            learning_rate=0.1,
            max_features=0.5,
            categorical_features=setting.features.nominal,
            early_stopping=False,  # which splits off rows by class and so refuses a class of one row
            random_state=setting.seed,
        )

    note = "100 trees over histograms, half of the columns per split"
    return Model(id="hgb", label="Gradient boosting", form="codes", seeded=True, make=make, note=note)


class Passes(MLPClassifier):  # type: ignore[misc]
    """A network that sees about ROWS_SEEN rows while it learns, in LEAST to MOST passes: few rows need more of them."""

    ROWS_SEEN, LEAST, MOST = 500_000, 15, 200

    def fit(self, X: Any, y: NDArray[np.int64]) -> "Passes":
        self.max_iter = min(max(self.ROWS_SEEN // len(y), self.LEAST), self.MOST)
        super().fit(X, y)
        return self


class Margins(LinearSVC):  # type: ignore[misc]
    """A linear model with probabilities: one logistic curve per class (Platt 1999), fitted on the training rows' own
    decision values, which a linear model of few columns hardly overfits; more than two classes are each taken against
    the rest and normalised (Zadrozny & Elkan 2002)."""

    def fit(self, X: Any, y: NDArray[np.int64]) -> "Margins":
        """Train, then fit the curves."""
        super().fit(X, y)
        against = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        self.curves_ = [
            LogisticRegression(C=1e3).fit(margin[:, None], y == code)
            for margin, code in zip(self._margins(X), against, strict=True)
        ]
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(rows, classes)."""
        found = [
            curve.predict_proba(margin[:, None])[:, 1]
            for curve, margin in zip(self.curves_, self._margins(X), strict=True)
        ]
        if len(found) == 1:
            return np.column_stack([1 - found[0], found[0]])
        every = np.column_stack(found) + 1e-12
        shares: NDArray[np.float64] = every / every.sum(axis=1, keepdims=True)
        return shares

    def _margins(self, X: Any) -> list[NDArray[np.float64]]:
        values = self.decision_function(X)
        return [values] if values.ndim == 1 else list(values.T)


def chosen(
    ids: str | Sequence[str] | None, known: Mapping[str, Kind], presets: Mapping[str, tuple[str, ...]], words: str
) -> tuple[Kind, ...]:
    """The `known` models with these ids, in the order given. A preset's name stands for its ids, and None for the preset `default`.

    Raises BadInput for an unknown id, or if there is no id; `words` introduce the known ones in the message.
    """
    wanted = [ids] if isinstance(ids, str) else ["default"] if ids is None else list(ids)
    names = [name for item in wanted for name in presets.get(item, (item,))]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = ", ".join(repr(name) for name in unknown) or "none given"
        raise BadInput(f"models: {what}; {words} are {', '.join(known)}, and the sets {', '.join(presets)}.")
    return tuple(known[name] for name in dict.fromkeys(names))


# ---- The models that predict a class.


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


# ---- The models that predict a number. Their ids are those of the classifiers they resemble.


REGRESSORS: dict[str, Model] = {
    entry.id: entry
    for entry in (
        boosting("ensemble.HistGradientBoostingRegressor"),
        model("lr", "Ridge regression", "one_hot", "linear_model.Ridge", "penalty 1", alpha=1.0),
        # A third of the columns per split (Breiman 2001 for regression), and leaves that keep wide targets quick.
        model(
            "rf",
            "Random forest",
            "codes",
            "ensemble.RandomForestRegressor",
            "100 trees with at least 5 rows a leaf, a third of the columns per split",
            seeded=True,
            threads=True,
            n_estimators=100,
            min_samples_leaf=5,
            max_features=1 / 3,
        ),
    )
}


def regressors(chosen: Sequence[Model]) -> tuple[Model, ...]:
    """The regressors that resemble the chosen classifiers; none where nothing does."""
    return tuple(REGRESSORS[model.id] for model in chosen if model.id in REGRESSORS)


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
    estimator, found = _answers(classifier, train, dense, test, "predict_proba", seed, jobs)
    out[:, occur[np.asarray(estimator.classes_, dtype=np.int64)]] = found
    return out


def guesses(
    regressor: Model, train: Table, values: NDArray[np.float64], test: Table, *, seed: int, jobs: int
) -> NDArray[np.float64]:
    """(test rows,): predicted numbers after training on (train, values). jobs: threads. Raises ValueError where there is no
    answer."""
    # Scaled, so that days since 1970 are no harder than a share.
    centre, spread = float(values.mean()), float(values.std()) or 1.0
    return centre + spread * _answers(regressor, train, (values - centre) / spread, test, "predict", seed, jobs)[1]


def _answers(
    model: Model, train: Table, target: NDArray[Any], test: Table, method: str, seed: int, jobs: int
) -> tuple[Any, NDArray[np.float64]]:
    """The estimator after training on (train, target), and what this method of it says of the test rows."""
    features = Features.fit(train)
    estimator = model.make(Setting(features=features, seed=seed, jobs=jobs))
    with QUIET, limited(jobs, "openmp"):
        estimator.fit(features.encode(train, model.form), target)
        found = np.asarray(getattr(estimator, method)(features.encode(test, model.form)), dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError("predictions that are not numbers")
    return estimator, found
