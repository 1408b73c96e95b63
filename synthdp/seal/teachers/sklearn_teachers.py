"""Any scikit-learn classifier as a teacher: one clone per part (random forests in Papernot et al. 2017, section 4.4)."""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.noise.stream import derived
from synthdp.schema.codec import Codec
from synthdp.seal.records import Codes
from synthdp.seal.resume import State
from synthdp.seal.teachers.protocols import Parts, Scores, Votes, check_row_by_row, first_line, public_rows

Features = Callable[[Codes], NDArray[Any]]
Fitted = Any  # a classifier, or the class that a teacher gives whatever it is asked
Asked = Callable[[Fitted, NDArray[Any]], NDArray[Any]]  # of a classifier about features
REFUSALS = (ValueError, ArithmeticError)  # by which estimators say that they cannot learn from public rows
LOUD = ("verbose", "verbosity")  # parameters by which estimators print exact losses, some from below Python
KEPT = "memory"  # the parameter by which pipelines write what they were fitted to into a folder
CLOSE = 1e-4  # of scores, which threads and GPUs may round differently
SCORED = ("predict_proba", "decision_function")


@dataclass(frozen=True, kw_only=True)
class Estimators:
    """Clones of `estimator`, fitted to (`features(codes)`, the codes of column `target`).

    `features` maps codes (rows, columns) to numbers (rows, width), each row on its own, and must leave the target out. Every
    `random_state` among the estimator's parameters, also of splitters and the like, is set from the teacher's own seed, and so
    is global chance (numpy, random, torch) while it works; `verbose` is 0, and `memory` None. A part that is empty votes for class 0,
    one that holds a single class for that one, one on which the estimator fails for class 0.
    """

    functions: ClassVar[tuple[str, ...]] = ("features",)
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
            raise BadInput(f"target {self.target!r} has only one class, so there is nothing to learn")
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
        self._try(np.array(found), codes[:, place], scored=classes == 2)
        return classes

    def _try(self, features: NDArray[Any], labels: NDArray[np.int32], *, scored: bool) -> None:
        """Refuse, on public rows, an estimator that cannot be fitted, does not give one number per row, or has clones that share what they
        learn: one must predict the same after another was fitted, and so must a third that is fitted as the first one was."""
        name = type(self.estimator).__name__
        asked = {"predict": _prediction} | ({"its score": _score} if scored and _scores(self.estimator) else {})

        def fit(labels: NDArray[np.int32]) -> Fitted:
            with _alone(bytes(32)):
                return _fitted(self.estimator, features.copy(), labels, bytes(32))

        def said(fitted: Fitted) -> list[NDArray[Any]]:
            with _alone(bytes(32)):
                return [ask(fitted, features.copy()) for ask in asked.values()]

        try:
            first = fit(labels)
            before = said(first)
            fit(np.roll(labels, 1))
            after, twin = said(first), said(fit(labels))
        except REFUSALS as error:
            raise BadInput(f"estimator {name} cannot be fitted: {first_line(error)}") from error
        for what, found in zip(asked, before, strict=True):
            if found.shape != (len(features),):
                raise BadInput(f"{what} of estimator {name} must be one number per row, got shape {found.shape}")
        if not all(_alike(found, same) for found, same in zip(before, after, strict=True)):
            raise BadInput(
                f"estimator {name} must depend only on its own records and random_state: on made-up rows, predictions changed after "
                "another clone was fitted. Store nothing in the class or module"
            )
        if not _alike(before[0], twin[0]):
            raise BadInput(
                f"estimator {name} must depend only on its own records and random_state: on made-up rows, a clone that was fitted twice "
                "predicts different classes. Store nothing in the class or module, and draw chance from random_state alone"
            )

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
    def count(self) -> int:
        """As `Ensemble.count`."""
        return len(self._parts.sizes)

    @property
    def trained(self) -> bool:
        """As `Ensemble.trained`."""
        return bool(self._fitted)

    def train(self, public: Codes | None) -> None:
        """As `Ensemble.train`; raises `BadInput` for public rows, of which estimators know nothing."""
        if public is not None:
            raise BadInput("estimators are fitted once, on their own records: give train() no public rows")
        if not self._fitted:
            self._fitted = [self._fit(self._parts.of(teacher), teacher) for teacher in range(self.count)]

    def votes(self, queries: Codes) -> Votes:
        """As `Ensemble.votes`."""
        features = self._features(queries)
        return np.stack([self._predicted(teacher, features) for teacher in range(self.count)])

    def scores(self, queries: Codes) -> Scores:
        """As `Ensemble.scores`: the probability of class 1, less one half, or else the decision function.

        Raises `BadInput` where the estimator, as it was given, has neither.
        """
        if not _scores(self._kind.estimator):
            raise BadInput(f"estimator {type(self._kind.estimator).__name__} gives no scores; ask for votes")
        features = self._features(queries)
        return np.stack([self._leaning(teacher, features) for teacher in range(self.count)])

    def state(self) -> State:
        """Whether they were fitted: no estimator is written to disk."""
        return {"count": np.array([len(self._parts.sizes)]), "fitted": np.array([self.trained])}

    def restore(self, state: State) -> None:
        """Fit again what was fitted."""
        if bool(state["fitted"][0]):
            self.train(None)

    def _fit(self, codes: Codes, teacher: int) -> Fitted:
        labels = codes[:, self._target].copy()
        if len(labels) == 0:
            return None
        if (labels == labels[0]).all():
            return int(labels[0])
        seed = derived(self._seed, b"estimator %d" % teacher)
        try:
            with _alone(seed):
                return _fitted(self._kind.estimator, self._features(codes), labels, seed)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None
        except BaseException:  # as in `_said`
            return None

    def _features(self, codes: Codes) -> NDArray[Any]:
        return np.array(self._kind.features(codes))

    def _predicted(self, teacher: int, features: NDArray[Any]) -> Votes:
        fitted = self._fitted[teacher]
        if fitted is None or isinstance(fitted, int):
            return np.full(len(features), fitted or 0, np.int64)
        found = self._said(teacher, _prediction, features)
        return np.zeros(len(features), np.int64) if found is None else np.clip(found, 0, self.classes - 1)

    def _leaning(self, teacher: int, features: NDArray[Any]) -> Scores:
        fitted = self._fitted[teacher]
        if fitted is None or isinstance(fitted, int):
            return np.full(len(features), np.nan if fitted is None else fitted - 0.5)
        found = self._said(teacher, _score, features)
        return np.full(len(features), np.nan) if found is None else found

    def _said(self, teacher: int, asked: Asked, features: NDArray[Any]) -> NDArray[Any] | None:
        """One number per row, or None where the teacher fails or says anything else. It may spoil its copy of the features.

        Any exception of the user's estimator ends here: one that escaped would tell of the records, by its message and by
        being there. Here and in `_fit` alone is a broad except right: foreign code works on sealed records.
        """
        try:
            with _alone(derived(self._seed, b"asked %d" % teacher)):
                found = asked(self._fitted[teacher], features.copy())
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None
        except BaseException:
            return None
        return found if found.shape == (len(features),) else None


def _alike(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=CLOSE, atol=CLOSE, equal_nan=True)


def _scores(estimator: Any) -> bool:
    return any(hasattr(estimator, name) for name in SCORED)


def _prediction(fitted: Fitted, features: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(fitted.predict(features)).astype(np.int64)


def _score(fitted: Fitted, features: NDArray[Any]) -> NDArray[Any]:
    if hasattr(fitted, "predict_proba"):
        return np.asarray(fitted.predict_proba(features), np.float64)[:, -1] - 0.5
    return np.asarray(fitted.decision_function(features), np.float64)


def _fitted(estimator: Any, features: NDArray[Any], labels: NDArray[np.int32], seed: bytes) -> Fitted:
    """A clone, fitted: with chances of its own, and silent."""
    from sklearn.base import clone

    own = clone(estimator)
    settings = own.get_params()
    silent = {name: False if isinstance(value, bool) else 0 for name, value in settings.items() if _last(name) in LOUD}
    states = {name: _number(seed, name) for name in settings if _last(name) == "random_state"}
    for name, value in settings.items():  # splitters and the like, deep copies by `clone`; classes would be shared
        own_state = "random_state" in getattr(value, "__dict__", {})
        if own_state and not (hasattr(value, "get_params") or isinstance(value, type)):
            value.random_state = _number(seed, f"{name}.random_state")
    folders = {
        name for name, value in settings.items() if isinstance(value, str | os.PathLike) or hasattr(value, "cache")
    }
    forgotten = {name: None for name in folders if _last(name) == KEPT}
    own.set_params(**states, **silent, **forgotten)
    return own.fit(features, labels)


def _last(name: str) -> str:
    return name.split("__")[-1]


def _number(seed: bytes, name: str) -> int:
    return int.from_bytes(derived(seed, name.encode())[:4], "little")


@contextmanager
def _alone(seed: bytes) -> Iterator[None]:
    """Global chance is the teacher's own while it lasts, and as it was after; nothing is warned of or printed."""
    kept = np.random.get_state(), random.getstate(), torch.get_rng_state()
    np.random.seed(np.frombuffer(derived(seed, b"numpy"), np.uint32))
    random.seed(derived(seed, b"python"))
    torch.default_generator.manual_seed(_number(seed, "torch"))
    try:
        with ExitStack() as quiet:
            sink = quiet.enter_context(open(os.devnull, "w", encoding="utf-8"))
            quiet.enter_context(redirect_stdout(sink))
            quiet.enter_context(redirect_stderr(sink))
            quiet.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(kept[0])
        random.setstate(kept[1])
        torch.set_rng_state(kept[2])
