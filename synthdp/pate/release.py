"""Reading a classifier's folder back: every part is checked before any of it is used."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators import distributions
from synthdp.pate.classifier import ANSWERS, KIND, STUDENT, Answers, Classifier, limits
from synthdp.pate.code_features import ENCODINGS, classes, feature_map
from synthdp.pate.students import Learned, Student, TrainingSet
from synthdp.pate.students.named_students import of_name, student_of
from synthdp.report.folder import RELEASE, Opened, Verified, opened
from synthdp.report.folder import STUDENT as MODEL
from synthdp.schema.codec import Codec, Codes
from synthdp.schema.schema import Schema


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
