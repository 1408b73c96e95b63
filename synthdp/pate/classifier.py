"""What a fit of PATE returns: a classifier that may leave the hospital, with the statement of its guarantee; and how it is read back."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import distributions
from synthdp.ledger.ledger import Ledger
from synthdp.pate.code_features import ENCODINGS, check_frame, classes, feature_map, public_codes, public_schema
from synthdp.pate.students import Learned, Probabilities, Student, TrainingSet
from synthdp.pate.students.named_students import called, of_name, settings_of, student_of
from synthdp.report.folder import RELEASE, Opened, Verified, opened, put, written
from synthdp.report.folder import STUDENT as MODEL
from synthdp.report.statement import CLASSIFIER, TEACHERS, Statement
from synthdp.schema.codec import Codec, Codes
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema

KIND = CLASSIFIER  # of a release
INDEPENDENT = "Synthetic rows are independent"  # the line of a statement that is about generators
PUBLIC = (
    "The public records that the teachers were asked about, {count} of {all}: the steward declared them public. They and their noisy "
    "labels are part of the release; of somebody who is in both tables, only the sensitive record is protected."
)
STUDENT, ANSWERS = "student/", "answers/"


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """All that the teachers ever said: codes (answers, columns) of public records, where these stood in the public table
    (answers,), and their noisy labels (answers, classes).

    Whatever is learned from them is post-processing: another student may learn from them again, at no charge.
    """

    codes: Codes
    places: NDArray[np.int64]
    targets: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Classifier:
    """A student, the noisy answers that it learned from, the schema, and the statement of the guarantee."""

    student: Student
    learned: Learned
    answers: Answers
    schema: Schema
    target: str
    features: str | Callable[[Codes], Any]
    draw: int  # the student's own randomness
    statement: Statement
    ledger: Ledger

    def __repr__(self) -> str:
        said = self.statement
        promise = f"epsilon {said.epsilon:.4g} at delta {said.delta:g} per {said.unit}"
        learned = f"{self.student.name} from {len(self.answers.codes)} noisy labels"
        return f"Classifier({self.target}: {promise}, {learned}{', rehearsal' * said.rehearsal})"

    @property
    def classes(self) -> tuple[str, ...]:
        """The declared classes, in the order of `predict_proba`'s columns."""
        return classes(self.schema, self.target)

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        """The likeliest class of each record, (rows,): text, or truth values for a boolean target."""
        boolean = isinstance(self.schema.column(self.target), Boolean)
        names: NDArray[Any] = np.array([False, True]) if boolean else np.array(self.classes, dtype=object)
        found: NDArray[Any] = names[self.predict_proba(frame).argmax(1)]
        return found

    def predict_proba(self, frame: pd.DataFrame) -> Probabilities:
        """(rows, classes). `frame` holds the schema's columns; target and identifiers are not needed, nor looked at.

        Raises `BadInput` where a column is absent; cells that the schema does not allow are mapped as in a fit.
        """
        check_frame("frame", frame)
        wanted = public_schema(self.schema, self.target)
        known = frame[[name for name in frame.columns if name in wanted.names]]
        codes = public_codes(Codec(self.schema), self.target, wanted.validate(known, "clamp"))
        return self.learned.probabilities(feature_map(self.features, Codec(self.schema), self.target)(codes))

    def relearn(self, student: Any, *, draw: int | None = None) -> "Classifier":
        """The same answers with another student, for free; public records that were not asked about are not kept, so it
        learns from the answered ones alone."""
        draw = self.draw if draw is None else draw
        rows = feature_map(self.features, Codec(self.schema), self.target)(self.answers.codes)
        student = student_of(student)
        learned = student.learn(TrainingSet(rows=rows, targets=self.answers.targets, pool=rows), draw)
        settings = {**self.statement.settings, "student": {"name": student.name, **settings_of(student)}}
        return replace(
            self, student=student, learned=learned, draw=draw, statement=replace(self.statement, settings=settings)
        )

    def save(self, folder: Path | str, *, force: bool = False) -> Path:
        """Write the release folder, whole or not at all. An existing one is refused unless `force`.

        It holds the answers (codes of the queried public records, noisy labels), the student where it is a network, the
        statement and the ledger. A scikit-learn student is not stored, since that would take pickle: see `load`.
        """
        return written(folder, self._write, force=force)

    def _write(self, folder: Path) -> None:
        student = self.learned.tensors()
        tensors: dict[str, NDArray[Any]] = {f"{STUDENT}{name}": array for name, array in (student or {}).items()}
        tensors |= {f"{ANSWERS}{name}": getattr(self.answers, name) for name in ("codes", "places", "targets")}
        about = {
            "kind": KIND,
            "student": {
                "name": self.student.name,
                "settings": settings_of(self.student),
                "stored": student is not None,
            },
            "draw": self.draw,
            "features": called(self.features),
            "target": self.target,
        }
        put(folder, MODEL, tensors, about, self.schema, self.statement, self.ledger)


def limits(statement: Statement, lines: Iterable[str]) -> tuple[str, ...]:
    """What the statement of a classifier does not cover, from the sentences on a fit in general."""
    public = PUBLIC.format(count=statement.settings["queries"], all=statement.declared["public_records"])
    return (*(line for line in lines if not line.startswith(INDEPENDENT)), public, TEACHERS)


# ---- Reading a classifier's folder back: every part is checked before any of it is used.


def load(
    folder: Path | str,
    *,
    student: Any = None,
    features: Callable[[Codes], Any] | None = None,
    public: Path | str | None = None,
) -> Classifier:
    """Read a release folder; every part is checked before any of it is used, and `BadInput` says which is not right.

    A student that is not stored (scikit-learn, or a module of your own) is given as `student` and learns from the stored
    answers again, with the same randomness; a `features` function of your own is given again too. `public` is the file of a
    public key; the release must be signed by it.
    """
    found = opened(Path(folder), MODEL, KIND, public)
    said, answers, _ = _parts(found, costly=False)
    return _restored(found, said, answers, student, features)


def verify(folder: Path | str, *, public: Path | str | None = None) -> Verified:
    """As `synthdp.verify`, for a classifier. A student is read where it is stored."""
    found = opened(Path(folder), MODEL, KIND, public)
    said, answers, verified = _parts(found, costly=True)
    if said["student"]["stored"] and said["features"] in ENCODINGS:
        _restored(found, said, answers, None, None)
    return verified


def _parts(found: Opened, *, costly: bool) -> tuple[Mapping[str, Any], Answers, Verified]:
    """What release.json says besides, the answers, and what was checked."""
    said = found.description
    try:
        student = {name: said["student"][name] for name in ("name", "settings", "stored")}
        parts = {"student": student, "draw": int(said["draw"]), "features": said["features"], "target": said["target"]}
        stored = {name: found.tensors[f"{ANSWERS}{name}"] for name in ("codes", "places", "targets")}
        if not isinstance(said["target"], str):
            raise TypeError("the target must be a column name, given as text")
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{found.folder / RELEASE} lacks a part or has a part of the wrong form; the release was altered"
        ) from error
    verified = found.check(KIND, None, partial(limits, found.statement), costly=costly)
    answers = Answers(**stored)
    _check_answers(found.folder, answers, found.schema, parts["target"])
    return parts, answers, verified


def _restored(
    found: Opened, said: Mapping[str, Any], answers: Answers, student: Any, features: Callable[[Codes], Any] | None
) -> Classifier:
    folder, schema, target, draw = found.folder, found.schema, said["target"], said["draw"]
    if features is None and said["features"] not in ENCODINGS:
        raise BadInput(f"{folder} was made with a function for its features; pass the same one as features=")
    mapped = feature_map(features or said["features"], Codec(schema), target)
    if student is None:
        student, learned = _stored(found, said["student"], mapped(answers.codes[:0]).shape[1], answers)
    else:
        rows = mapped(answers.codes)
        student = student_of(student)
        learned = student.learn(TrainingSet(rows=rows, targets=answers.targets, pool=rows), draw)
    return Classifier(
        student=student,
        learned=learned,
        answers=answers,
        schema=schema,
        target=target,
        features=features or said["features"],
        draw=draw,
        statement=found.statement,
        ledger=found.ledger,
    )


def _stored(found: Opened, said: Mapping[str, Any], width: int, answers: Answers) -> tuple[Student, Learned]:
    """The student that release.json names, and what it had learned."""
    arrays = {key.removeprefix(STUDENT): array for key, array in found.tensors.items() if not key.startswith(ANSWERS)}
    try:
        own = of_name(said["name"], said["settings"])
        if own is not None and said["stored"] is True:
            return own, own.restore(width, answers.targets.shape[1], arrays)
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise BadInput(f"{found.folder}: the settings do not fit the student; the release was altered") from error
    raise BadInput(
        f"{found.folder} contains answers, but no student ({said['name']} is not stored); pass a student of that kind as student="
    )


def _check_answers(folder: Path, answers: Answers, schema: Schema, target: str) -> None:
    sizes, codes, labels = np.array(Codec(schema).sizes), answers.codes, answers.targets
    fits = codes.ndim == 2 and codes.shape[1] == len(sizes) and codes.dtype == Codec(schema).dtype
    fits = fits and answers.places.shape == (len(codes),) and answers.places.dtype == np.int64
    fits = fits and labels.shape == (len(codes), len(classes(schema, target))) and labels.dtype == np.float32
    if not fits or (codes < 0).any() or (codes >= sizes).any() or not distributions(labels):
        raise BadInput(f"{folder}: the stored answers do not fit the schema; the release was altered")
