"""Any scikit-learn classifier as a teacher: one clone per part (random forests in Papernot et al. 2017, section 4.4)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.data.codec import Codec
from synthdp.errors import BadInput
from synthdp.privacy.checkpoint import State
from synthdp.privacy.store import Codes
from synthdp.privacy.stream import derived
from synthdp.privacy.teachers.checks import check_row_by_row, first_line, public_rows
from synthdp.privacy.teachers.parts import Parts
from synthdp.privacy.teachers.protocols import Scores, Votes

Features = Callable[[Codes], NDArray[Any]]
Fitted = Any  # a classifier, or the class that a teacher gives whatever it is asked
REFUSALS = (ValueError, ArithmeticError)  # by which estimators say that they cannot learn from such rows


@dataclass(frozen=True, kw_only=True)
class Estimators:
    """Clones of `estimator`, fitted to (`features(codes)`, the codes of column `target`).

    `features` maps codes (rows, columns) to numbers (rows, width), each row on its own, and must leave the target out. Every
    `random_state` among the estimator's parameters is set from the teacher's own seed. A part that is empty votes for class 0,
    one that holds a single class for that one, one from which the estimator refuses to learn for class 0.
    """

    estimator: Any
    features: Features
    target: str

    def check(self, codec: Codec) -> int:
        """The number of codes of the target; fits once on public rows, so that settings fail before records are read."""
        if self.target not in codec.names:
            raise BadInput(f"no modelled column named {self.target!r}; known: {', '.join(codec.names)}")
        place = codec.names.index(self.target)
        classes = codec.sizes[place]
        if classes < 2:
            raise BadInput(f"target {self.target!r} has one class only: there is nothing to learn")
        codes = np.repeat(public_rows(codec), 2, axis=0)
        codes[:, place] = np.arange(len(codes)) % classes
        check_row_by_row(self.features, codes)
        found = np.asarray(self.features(codes))
        if found.ndim != 2:
            raise BadInput(f"features must give one row of numbers per record, got shape {found.shape}")
        changed = codes.copy()
        changed[:, place] = (codes[:, place] + 1) % classes
        if not np.array_equal(found, np.asarray(self.features(changed)), equal_nan=True):
            raise BadInput(f"features depend on the target {self.target!r}; leave it out")
        try:
            _fitted(self.estimator, found, codes[:, place], bytes(32)).predict(found)
        except REFUSALS as error:
            raise BadInput(
                f"estimator {type(self.estimator).__name__} cannot be fitted: {first_line(error)}"
            ) from error
        return classes

    def begin(self, parts: Parts, codec: Codec, classes: int, seed: bytes) -> "Clones":
        """Teachers yet to be fitted."""
        return Clones(self, parts, codec.names.index(self.target), classes, seed)


class Clones:
    """Teachers of one `Estimators`. Fitting is a function of part and seed: it is done once, and again after a resume."""

    def __init__(self, kind: Estimators, parts: Parts, target: int, classes: int, seed: bytes) -> None:
        self.classes = classes
        self._kind, self._parts, self._target, self._seed = kind, parts, target, seed
        self._fitted: list[Fitted] = []

    @property
    def trained(self) -> bool:
        """As `Ensemble.trained`."""
        return bool(self._fitted)

    def train(self, public: Codes | None, steps: int | None) -> None:
        """As `Ensemble.train`; raises `BadInput` for public rows or steps, of which estimators know nothing."""
        if public is not None or steps is not None:
            raise BadInput("estimators are fitted once, on their own records: they take neither public rows nor steps")
        if not self._fitted:
            count = len(self._parts.sizes)
            self._fitted = [self._fit(self._parts.of(teacher), teacher) for teacher in range(count)]

    def votes(self, queries: Codes) -> Votes:
        """As `Ensemble.votes`."""
        features = self._features(queries)
        return np.stack([self._predicted(fitted, features) for fitted in self._fitted])

    def scores(self, queries: Codes) -> Scores:
        """As `Ensemble.scores`: the probability of class 1, less one half, or else the decision function."""
        features = self._features(queries)
        return np.stack([self._leaning(fitted, features) for fitted in self._fitted])

    def state(self) -> State:
        """Whether they were fitted: no estimator is written to disk."""
        return {"count": np.array([len(self._parts.sizes)]), "fitted": np.array([self.trained])}

    def restore(self, state: State) -> None:
        """Fit again what was fitted."""
        if bool(state["fitted"][0]):
            self.train(None, None)

    def _fit(self, codes: Codes, teacher: int) -> Fitted:
        labels = codes[:, self._target]
        if len(labels) == 0:
            return None
        if (labels == labels[0]).all():
            return int(labels[0])
        try:
            seed = derived(self._seed, b"estimator %d" % teacher)
            return _fitted(self._kind.estimator, self._features(codes), labels, seed)
        except REFUSALS:
            return None

    def _features(self, codes: Codes) -> NDArray[Any]:
        return np.asarray(self._kind.features(codes))

    def _predicted(self, fitted: Fitted, features: NDArray[Any]) -> Votes:
        if fitted is None or isinstance(fitted, int):
            return np.full(len(features), fitted or 0, np.int64)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = np.asarray(fitted.predict(features)).astype(np.int64)
        except REFUSALS:
            return np.zeros(len(features), np.int64)
        return np.clip(found, 0, self.classes - 1)

    def _leaning(self, fitted: Fitted, features: NDArray[Any]) -> Scores:
        if fitted is None or isinstance(fitted, int):
            return np.full(len(features), np.nan if fitted is None else fitted - 0.5)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if hasattr(fitted, "predict_proba"):
                    return np.asarray(fitted.predict_proba(features), np.float64)[:, -1] - 0.5
                return np.asarray(fitted.decision_function(features), np.float64)
        except REFUSALS:
            return np.full(len(features), np.nan)


def _fitted(estimator: Any, features: NDArray[Any], labels: NDArray[np.int32], seed: bytes) -> Fitted:
    """A clone, fitted; what it warns of stays in the seal."""
    from sklearn.base import clone

    own = clone(estimator)
    states = sorted(name for name in own.get_params() if name.split("__")[-1] == "random_state")
    own.set_params(**{name: int.from_bytes(derived(seed, name.encode())[:4], "little") for name in states})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return own.fit(features, labels)
