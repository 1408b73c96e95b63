"""Teachers and student tried on made-up records, so that what they refuse is refused before anything is charged."""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.pate.code_features import feature_map
from synthdp.pate.students import Lesson, Student
from synthdp.pate.teaching import Networks, kind_of
from synthdp.schema.codec import Codec
from synthdp.schema.learned import supposed
from synthdp.schema.schema import Schema
from synthdp.seal import checked, first_line, public_rows

if TYPE_CHECKING:
    from synthdp.pate.fit import PATE

MOST_ROWS = 256  # that a student is tried on
REFUSALS = (ValueError, TypeError, IndexError, RuntimeError, ArithmeticError)  # of estimators and modules


def tried(settings: "PATE", schema: Schema, target: str, classes: int, queries: int) -> None:
    """Raise `BadInput` for teachers, features or a student that cannot work on codes of this schema."""
    _refuse_unknown_codes(settings, schema)
    codec = Codec(supposed(schema))
    features = feature_map(settings.features, codec, target)
    found = checked(kind_of(settings.teacher, codec, target, features), codec)
    if found != classes:
        raise BadInput(f"the teachers tell {found} classes apart, the target has {classes}")
    rows = features(np.resize(public_rows(codec), (min(queries, MOST_ROWS), len(codec.sizes))))
    _taught(settings.student, rows, classes)


def _refuse_unknown_codes(settings: "PATE", schema: Schema) -> None:
    """What a user made for certain codes fits no others, and which there will be is bought only after the charge."""
    if not schema.learned:
        return
    student = getattr(settings.student, "module", None)
    own = {"features": callable(settings.features), "teacher": _own(settings.teacher), "student": student is not None}
    for name, made in own.items():
        if made:
            column, item = schema.learned[0]
            raise BadInput(
                f"{name} of your own needs codes that are known, and column {column!r} leaves its {item} to learn: declare it, or "
                f"take {name} of synthdp.pate"
            )


def _own(teacher: Any) -> bool:
    """Whether a teacher is made for inputs of one width: a module, or a kind of teachers as it is."""
    module = teacher.module if isinstance(teacher, Networks) else None
    return module is not None or hasattr(teacher, "begin") or hasattr(teacher, "state_dict")


def _taught(student: Student, rows: NDArray[np.float32], classes: int) -> None:
    """Refuse a student that cannot learn all classes from such rows; one that learns by steps makes one."""
    kind: Any = student
    by_steps = dataclasses.is_dataclass(kind) and hasattr(kind, "steps")
    targets = np.eye(classes, dtype=np.float32)[np.arange(len(rows)) % classes]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one: Student = dataclasses.replace(kind, steps=1) if by_steps else kind
            found = one.learn(Lesson(rows=rows, targets=targets, pool=rows), 0).probabilities(rows)
    except BadInput:
        raise
    except REFUSALS as error:
        raise BadInput(f"student {student.name} cannot learn {classes} classes: {first_line(error)}") from error
    if found.shape != (len(rows), classes):
        raise BadInput(f"student {student.name} must give (rows, {classes}) probabilities, got {found.shape}")
