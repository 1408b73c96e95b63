"""What a fit of PATE returns: a classifier that may leave the hospital, with the statement of its guarantee."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.ledger.ledger import Ledger
from synthdp.pate.code_features import check_frame, classes, feature_map, public_codes, public_schema
from synthdp.pate.students import Learned, Probabilities, Student, TrainingSet
from synthdp.pate.students.named_students import called, settings_of, student_of
from synthdp.report.folder import STUDENT as MODEL
from synthdp.report.folder import put, written
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
