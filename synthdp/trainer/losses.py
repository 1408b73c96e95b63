"""The losses that a module may be trained by: of outputs (rows, ...) and targets (rows,) or (rows, ...), one number per row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Integer, Ordinal

Function = Callable[[Tensor, Tensor], Tensor]
CLASSES = (Categorical, Ordinal, Boolean)
NUMBERS = (Integer, Continuous)


@dataclass(frozen=True)
class Loss:
    """A declared loss, and the kinds of columns that it can have as its target. `inputs`: it can be of the inputs themselves."""

    function: Function
    targets: tuple[type[Column], ...]
    inputs: bool = True


def _mean(error: Callable[..., Tensor]) -> Function:
    """The mean of an elementwise error over a row's entries."""

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        found, wanted = _entries(outputs), _entries(targets)
        if found.shape != wanted.shape:
            raise BadInput(
                f"the module's outputs have {found.shape[1]} entries a record, but its target has {wanted.shape[1]}"
            )
        return error(found, wanted.to(found.dtype), reduction="none").mean(1)

    return loss


def _entries(values: Tensor) -> Tensor:
    return values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)


LOSSES = {
    "cross_entropy": Loss(
        lambda outputs, targets: functional.cross_entropy(outputs, targets.long(), reduction="none"),
        CLASSES,
        inputs=False,
    ),
    "binary_cross_entropy": Loss(_mean(functional.binary_cross_entropy_with_logits), (Boolean,)),
    "squared_error": Loss(_mean(functional.mse_loss), NUMBERS),
    "absolute_error": Loss(_mean(functional.l1_loss), NUMBERS),
    "huber": Loss(_mean(functional.huber_loss), NUMBERS),
}


def loss_of(given: Any) -> tuple[str, Function]:
    """A declared loss by its name, or a function of outputs and targets, with what to call it."""
    if callable(given):
        kind: Any = given if hasattr(given, "__qualname__") else type(given)
        return f"{kind.__module__}.{kind.__qualname__}", given
    if not isinstance(given, str) or given not in LOSSES:
        raise BadInput(
            f"loss must be one of {', '.join(LOSSES)}, or a function of outputs and targets that returns one number per record, got "
            f"{given!r}"
        )
    return given, LOSSES[given].function


def check_target(loss: str, column: Column | None) -> None:
    """Refuse a column that the loss cannot have as its target; None: the inputs themselves."""
    known = LOSSES.get(loss)
    if column is not None and not isinstance(column, CLASSES + NUMBERS):
        raise BadInput(f"target {column.name!r} is {column.kind}: name a column of classes, truth values or numbers")
    if column is not None and getattr(column, "missing", False):
        raise BadInput(f"target {column.name!r} may be missing; drop those records and declare missing: false")
    if known is None:
        return
    if column is None and not known.inputs:
        raise BadInput(f"loss={loss} needs a target: name a column of the schema as target=")
    if column is not None and not isinstance(column, known.targets):
        able = [name for name, each in LOSSES.items() if isinstance(column, each.targets)]
        raise BadInput(
            f"target {column.name!r} is {column.kind}, which loss={loss} cannot learn: use {', '.join(able)}"
        )
