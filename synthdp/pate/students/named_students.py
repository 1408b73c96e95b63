"""Students by name, and as a statement shows them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.pate.students import Constant, Learned, Probabilities, Student, Tensors, TrainingSet

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin


# ---- Any scikit-learn classifier as a student.


@dataclass(frozen=True)
class Estimator:
    """Learns the labels with a clone of a scikit-learn classifier.

    Soft targets become weights: each record is shown once per class, as heavy as its share (for a log loss that is the cross
    entropy with the shares). A classifier without `sample_weight` takes the likeliest class.
    """

    estimator: "ClassifierMixin"

    name: ClassVar[str] = "estimator"

    def __post_init__(self) -> None:
        if not all(hasattr(self.estimator, method) for method in ("fit", "predict", "get_params")):
            raise BadInput(
                f"student: expected a scikit-learn classifier or one of synthdp.pate's students, got {type(self.estimator)}"
            )

    def learn(self, training: TrainingSet, seed: int) -> Learned:
        """See `Student`. Labels of one class only make a constant."""
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        hard = training.targets.argmax(1)
        model: Any = clone(self.estimator)
        states = [key for key in model.get_params() if key.split("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(states, seed))
        soft = not np.isin(training.targets, (0, 1)).all() and has_fit_parameter(model, "sample_weight")
        if len(np.flatnonzero(training.targets.any(0)) if soft else np.unique(hard)) < 2:
            return Constant(int(training.targets.sum(0).argmax()), training.classes)
        if soft:
            record, label = np.nonzero(training.targets > 0)
            model.fit(training.rows[record], label, sample_weight=training.targets[record, label])
        else:
            model.fit(training.rows, hard)
        return Fitted(model, training.classes)

    def restore(self, width: int, classes: int, tensors: Tensors) -> Learned:  # noqa: ARG002
        """Nothing to restore: scikit-learn's objects are not stored, since that would take pickle."""
        raise BadInput(
            "a release does not store a scikit-learn student: pass one as student=, and it learns again from the answers"
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted scikit-learn classifier, its columns put where the declared classes are."""

    model: Any
    classes: int

    def probabilities(self, rows: NDArray[np.float32]) -> Probabilities:
        """See `Learned`; a classifier without probabilities gives all to its answer."""
        found = np.zeros((len(rows), self.classes))
        if not len(rows):
            return found
        if hasattr(self.model, "predict_proba"):
            found[:, self.model.classes_] = self.model.predict_proba(rows)
            found /= found.sum(axis=1, keepdims=True)  # some estimators compute in float32
        else:
            found[np.arange(len(rows)), self.model.predict(rows)] = 1
        return found

    def tensors(self) -> None:
        """See `Learned`."""
        return


def student_of(given: Any) -> Student:
    """A student as it is; a scikit-learn classifier or a torch module in a student that trains it."""
    if hasattr(given, "learn"):
        found: Student = given
        return found
    if hasattr(given, "state_dict"):
        from synthdp.pate.students.network import Network

        return Network(module=given)
    return Estimator(given)


def of_name(name: Any, settings: Any) -> Student | None:
    """The student that a release describes, None where its file alone does not say what it was; `BadInput` for nonsense."""
    from synthdp.pate.students.network import Network
    from synthdp.pate.students.semi_supervised import SemiSupervised

    kinds: dict[str, Any] = {kind.name: kind for kind in (Network, SemiSupervised)}
    if name == Estimator.name:
        return None
    if name not in kinds or not isinstance(settings, Mapping):
        raise BadInput("the release names a student that is not known; it was altered")
    if settings.get("module") is not None:
        return None
    try:
        made: Student = kinds[name](**settings)
    except TypeError as error:
        raise BadInput("the release's student has settings that are not known; it was altered") from error
    return made


def settings_of(student: Any) -> dict[str, Any]:
    """The settings as JSON has them; what is no plain value by what it is called."""
    known = dataclasses.fields(student) if dataclasses.is_dataclass(student) else ()
    return {field.name: called(getattr(student, field.name)) for field in known}


def called(value: Any) -> Any:
    """Plain values as they are; of anything else its name, or how it shows itself (scikit-learn: its changed settings)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [called(item) for item in value]
    if hasattr(value, "get_params"):
        return " ".join(str(value).split())
    return getattr(value, "__qualname__", type(value).__qualname__)
