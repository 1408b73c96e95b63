"""Reading a classifier's folder back: every part is checked before any of it is used."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from synthdp.data.codec import Codec, Codes
from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.pate.classifier import ANSWERS, FORMAT, KIND, LEDGER, MODEL, RELEASE, STUDENT, Answers, Classifier
from synthdp.pate.features import ENCODINGS, classes, feature_map
from synthdp.pate.students import Lesson, Student
from synthdp.pate.students.choice import of_name
from synthdp.report import claim
from synthdp.report.statement import Statement


def load(
    folder: Path | str, *, student: Student | None = None, features: Callable[[Codes], Any] | None = None
) -> Classifier:
    """Read a release folder; every part is checked before any of it is used, and `BadInput` says which is not right.

    A student that is not stored (scikit-learn, or a module of your own) is given as `student` and learns from the stored
    answers again, with the same randomness; a `features` function of your own is given again too.
    """
    folder = Path(folder)
    description, tensors = _parts(folder)
    try:
        name, settings, stored = (description["student"][key] for key in ("name", "settings", "stored"))
        draw, mapping, target = int(description["draw"]), description["features"], description["target"]
        schema, statement = (
            Schema.from_dict(description["schema"]).as_released(),
            Statement.from_json(description["statement"]),
        )
        answers = Answers(**{name: tensors.pop(f"{ANSWERS}{name}") for name in ("codes", "places", "targets")})
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{folder / RELEASE} lacks a part, or it has the wrong form") from error
    ledger = claim.checked(folder / LEDGER, statement)
    if features is None and mapping not in ENCODINGS:
        raise BadInput(f"{folder} was made with a function for its features; pass the same one as features=")
    _check_answers(folder, answers, schema, target)
    own = of_name(name, settings) if student is None else student
    if own is None or (student is None and not stored):
        raise BadInput(f"{folder} holds answers, but no student ({name} is not stored); pass one like it as student=")
    fields: dict[str, Any] = {"answers": answers, "schema": schema, "target": target, "statement": statement}
    fields |= {"features": features or mapping, "ledger": ledger, "draw": draw}
    if student is not None:
        rows = feature_map(fields["features"], Codec(schema), target)(answers.codes)
        learned = own.learn(Lesson(rows=rows, targets=answers.targets, pool=rows), draw)
    else:
        width = feature_map(fields["features"], Codec(schema), target)(answers.codes[:0]).shape[1]
        arrays = {key.removeprefix(STUDENT): array for key, array in tensors.items()}
        learned = own.restore(width, answers.targets.shape[1], arrays)
    return Classifier(student=own, learned=learned, **fields)


def _parts(folder: Path) -> tuple[Mapping[str, Any], dict[str, NDArray[Any]]]:
    for name in (MODEL, RELEASE, LEDGER):
        if not (folder / name).is_file():
            raise BadInput(f"{folder} is not a release of PATE: it holds no {name}")
    try:
        description = json.loads((folder / RELEASE).read_text(encoding="utf-8"))
        tensors = load_file(folder / MODEL)
    except (json.JSONDecodeError, UnicodeDecodeError, SafetensorError) as error:
        raise BadInput(f"{folder} is not a release: {type(error).__name__} while reading it") from error
    if not isinstance(description, dict) or (description.get("kind"), description.get("format")) != (KIND, FORMAT):
        raise BadInput(f"{folder / RELEASE} is not a release of PATE of format {FORMAT}")
    return description, tensors


def _check_answers(folder: Path, answers: Answers, schema: Schema, target: str) -> None:
    sizes, codes = np.array(Codec(schema).sizes), answers.codes
    fits = codes.ndim == 2 and codes.shape[1] == len(sizes) and codes.dtype == np.int32
    fits = fits and answers.places.shape == (len(codes),)
    fits = fits and answers.targets.shape == (len(codes), len(classes(schema, target)))
    if not fits or (codes < 0).any() or (codes >= sizes).any() or not np.isfinite(answers.targets).all():
        raise BadInput(f"{folder}: the stored answers do not fit the schema; the release was altered")
