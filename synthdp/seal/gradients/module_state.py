"""What a module is beside its numbers: whether a pass changed it, whether a layer is as torch made it, and copies."""

import copy
from collections import deque
from typing import Any

import torch
from torch import nn

from synthdp.errors import BadInput

PLAIN = {bool, int, float, complex, str, bytes, type(None)}
# What torch keeps in each module beside these does not change in a pass.
CHANGING = {"training", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks"}
FIXED = vars(nn.Module()).keys() - CHANGING


def state(module: nn.Module) -> tuple[Any, ...]:
    """All attributes of all layers. Lists, dictionaries and sets count by their content; other objects, tensors among them, by which they
    are, not by what they hold."""
    return tuple([layer_state(layer) for layer in module.modules()])


def layer_state(layer: nn.Module) -> Any:
    """The same of one layer alone."""
    return tuple([(name, _held(value)) for name, value in vars(layer).items() if name not in FIXED])


def _held(value: Any) -> Any:
    kind = type(value)
    if kind in PLAIN or kind is torch.Size:
        return value
    if isinstance(value, dict):
        return tuple([(_held(key), _held(each)) for key, each in value.items()]) if value else kind
    if isinstance(value, list | tuple | deque):
        return tuple([_held(each) for each in value])
    return frozenset(map(_held, value)) if isinstance(value, set) else _Thing(value)


class _Thing:
    """An object that equals itself alone. It is kept, so that no other gets its place in memory."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Thing) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def plain(layer: nn.Module) -> bool:
    """Whether a layer does what its type does: no hook but the house's, and no method of its own."""
    hooks = (*layer._forward_pre_hooks.values(), *layer._forward_hooks.values())
    house = all((getattr(hook, "__module__", None) or "").startswith("synthdp.") for hook in hooks)
    return house and not any(map(callable, layer.__dict__.values()))


def copied(module: nn.Module) -> nn.Module:
    """A copy that shares nothing: what it keeps of the records it sees is gone with it."""
    try:
        found = copy.deepcopy(module)
    except Exception as error:  # of a foreign object; its text could hold what the object holds
        why = f"copy.deepcopy raises {type(error).__name__}"
        remedy = "leave locks, open files and tensors with a grad_fn out of the module"
    else:
        if not {*map(id, module.modules())} & {*map(id, found.modules())}:
            return found
        why, remedy = (
            "copy.deepcopy returns layers of the module itself",
            "remove the __deepcopy__ methods of its layers",
        )
    raise BadInput(
        f"{type(module).__name__} cannot be copied ({why}), so what it keeps of one unit could reach another: {remedy}"
    )
