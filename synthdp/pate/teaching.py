"""What PATE's teachers are made of: a scikit-learn classifier, networks trained side by side, or a kind of teachers as it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec, Codes

if TYPE_CHECKING:
    from torch import Tensor, nn

Map = Callable[[Codes], NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Networks:
    """Teachers that are networks, trained as one stacked computation: see `synthdp.seal.teachers.Stacked`.

    `hidden` are the widths of an MLP; a `module` of your own, (rows, width) -> (rows, classes) logits, takes its place.
    """

    hidden: tuple[int, ...] = (64,)
    module: "nn.Module | None" = None
    steps: int = 200
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.0

    def kind(self, codec: Codec, target: str, mapping: Map) -> Any:
        """The trusted base's teachers with these settings: cross entropy on the target's codes."""
        import torch
        from torch.nn import functional

        from synthdp.pate.students.network import MLP
        from synthdp.seal import Stacked

        place = codec.names.index(target)
        width = mapping(np.zeros((1, len(codec.sizes)), np.int32)).shape[1]

        def inputs(codes: "Tensor") -> "Tensor":
            return torch.from_numpy(mapping(codes.cpu().numpy())).to(codes.device)

        def loss(logits: "Tensor", codes: "Tensor") -> "Tensor":
            return functional.cross_entropy(logits, codes[:, place].long(), reduction="none")

        module = self.module
        if module is None:
            module = MLP(width, tuple(self.hidden), codec.sizes[place], torch.Generator().manual_seed(0))
        rest = {name: getattr(self, name) for name in ("steps", "batch", "learning_rate", "weight_decay")}
        return Stacked(module=module, features=inputs, loss=loss, **rest)


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
