"""What PATE's teachers are made of: a scikit-learn classifier, networks trained side by side, or a kind of teachers as it is."""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.pate.code_features import feature_map
from synthdp.pate.students import Student, TrainingSet
from synthdp.schema.codec import Codec, Codes
from synthdp.schema.learned import supposed
from synthdp.schema.schema import Schema
from synthdp.seal import checked, first_line, public_rows

if TYPE_CHECKING:
    from torch import Tensor, nn

    from synthdp.pate.fit import PATE


Map = Callable[[Codes], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Networks:
    """Teachers that are networks, trained as one stacked computation: see `synthdp.seal.teachers.Stacked`.

    `hidden` are the widths of an MLP. With `channels` convolutions of stride 2 take its place, where the schema has a picture and no
    other column; so does a `module` of your own, (rows, width) -> (rows, classes) logits.
    """

    hidden: tuple[int, ...] = (64,)
    channels: tuple[int, ...] = ()
    module: "nn.Module | None" = None
    steps: int = 200
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.0

    def kind(self, codec: Codec, target: str, mapping: Map) -> Any:
        """The trusted base's teachers with these settings: cross entropy on the target's codes."""
        import torch
        from torch.nn import functional

        from synthdp.pate.students.network import MLP, Convolutions
        from synthdp.seal import Stacked

        place = codec.names.index(target)
        width = mapping(np.zeros((1, len(codec.sizes)), np.int32)).shape[1]

        def inputs(codes: "Tensor") -> "Tensor":
            return torch.from_numpy(mapping(codes.cpu().numpy())).to(codes.device)

        def loss(logits: "Tensor", codes: "Tensor") -> "Tensor":
            return functional.cross_entropy(logits, codes[:, place].long(), reduction="none")

        module, first = self.module, torch.Generator().manual_seed(0)
        if module is None and self.channels:
            module = Convolutions(width, shape_of(codec.schema), self.channels, codec.sizes[place], first)
        if module is None:
            module = MLP(width, tuple(self.hidden), codec.sizes[place], first)
        rest = {name: getattr(self, name) for name in ("steps", "batch", "learning_rate", "weight_decay")}
        return Stacked(module=module, features=inputs, loss=loss, **rest)


def shape_of(schema: Schema) -> tuple[int, int, int]:
    """Height, width and channels of the schema's picture; raises `BadInput` where it has none."""
    if schema.image is None:
        raise BadInput("convolutions need a picture, but the schema has no image column: take a network or a forest")
    return schema.image.height, schema.image.width, schema.image.channels


def kind_of(teacher: Any, codec: Codec, target: str, mapping: Map) -> Any:
    """The kind of teachers that `Sensitive.partition` takes; raises `BadInput` for what cannot teach."""
    if hasattr(teacher, "begin"):
        return teacher
    if hasattr(teacher, "state_dict"):
        teacher = Networks(module=teacher)
    if hasattr(teacher, "kind"):
        return teacher.kind(codec, target, mapping)
    if not all(hasattr(teacher, method) for method in ("fit", "predict", "get_params")):
        raise BadInput(
            f"teacher must be a scikit-learn classifier, a torch module or Networks(...), got {type(teacher)}"
        )
    from synthdp.seal import Estimators

    return Estimators(estimator=teacher, features=mapping, target=target)


# ---- Teachers and student tried on made-up records, so that what they refuse is refused before anything is charged.


MOST_ROWS = 256  # that a student is tried on
REFUSALS = (ValueError, TypeError, IndexError, RuntimeError, ArithmeticError)  # of estimators and modules


def tried(settings: "PATE", schema: Schema, target: str, classes: int, queries: int) -> None:
    """Raise `BadInput` for teachers, features or a student that cannot work on codes of this schema."""
    _refuse_unknown_codes(settings, schema)
    codec = Codec(supposed(schema))
    features = feature_map(settings.features, codec, target)
    found = checked(kind_of(settings.teacher, codec, target, features), codec)
    if found != classes:
        raise BadInput(f"the teachers distinguish {found} classes, but the target has {classes}")
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
                f"{name} of your own needs known codes, but column {column!r} leaves its {item} to learn: declare them, or "
                f"use {name} of synthdp.pate"
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
            found = one.learn(TrainingSet(rows=rows, targets=targets, pool=rows), 0).probabilities(rows)
    except BadInput:
        raise
    except REFUSALS as error:
        raise BadInput(f"student {student.name} cannot learn {classes} classes: {first_line(error)}") from error
    if found.shape != (len(rows), classes):
        raise BadInput(f"student {student.name} must give (rows, {classes}) probabilities, got {found.shape}")
