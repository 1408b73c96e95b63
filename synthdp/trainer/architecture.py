"""A module with stored weights, and its description in words, which a release holds in place of its code."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from synthdp.errors import BadInput
from synthdp.generators import Tensors
from synthdp.generators.parts import training_state
from synthdp.schema.codec import Codec
from synthdp.seal import first_line, public_rows
from synthdp.trainer.inputs import Inputs
from synthdp.trainer.losses import LOSSES

NAME = "trainer"  # the kind of the release


def prepared(module: Any, codec: Codec, target: str | None) -> nn.Module:
    """A copy of the module on the CPU; lazy layers get their widths from made-up rows of the schema."""
    if not isinstance(module, nn.Module):
        raise BadInput(f"module must be a torch.nn.Module, got {type(module).__name__}")
    made = _copied(module).cpu()
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in made.parameters()):
        rows = Inputs(codec, target).rows(torch.from_numpy(public_rows(codec)))
        try:
            made(rows)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise BadInput(
                f"the module cannot take inputs of shape {tuple(rows.shape)}: {first_line(error)}"
            ) from error
    return made


def _copied(module: nn.Module) -> nn.Module:
    for layer in module.modules():
        if isinstance(layer, torch.jit.ScriptModule):
            raise BadInput("layers of torch.jit cannot be trained here: give the module that was scripted or traced")
        if "_orig_mod" in layer._modules:
            raise BadInput("torch.compile hides a module's layers: give the module as it was before torch.compile")
    try:
        return copy.deepcopy(module)
    except Exception as error:  # of a foreign object
        raise BadInput(
            f"the module cannot be copied (copy.deepcopy raises {type(error).__name__}): leave locks, open files and tensors with a "
            "grad_fn out of it; in place of the old torch.nn.utils.weight_norm take torch.nn.utils.parametrizations.weight_norm"
        ) from error


def loaded(module: nn.Module, tensors: Tensors) -> nn.Module:
    """A copy of the module with these weights, which sees records one by one (`eval`)."""
    made = copy.deepcopy(module).eval()
    held = made.state_dict()
    if {name: tuple(value.shape) for name, value in held.items()} != {
        name: value.shape for name, value in tensors.items()
    }:
        raise BadInput("the stored weights are not those of this module: give the module that was trained")
    made.load_state_dict({name: training_state.tensor(value) for name, value in tensors.items()})
    return made


def words(module: nn.Module) -> str:
    """Class, layers as torch prints them, and the number of trained weights."""
    trained = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
    return f"{_name(type(module))}: {' '.join(repr(module).split())}, {trained:,} trained weights"


def own_code(module: nn.Module, loss: str) -> tuple[str, ...]:
    """Classes of layers, the functions that layers hold (hooks, activations), and the loss, where they come from neither torch nor
    synthdp."""
    names = [_name(each) for layer in module.modules() for each in (type(layer), *_functions(layer))]
    named = dict.fromkeys([*names, *(() if loss in LOSSES else (loss,))])
    return tuple(name for name in named if name.partition(".")[0] not in ("torch", "synthdp", "builtins"))


def _functions(layer: nn.Module) -> Iterator[Any]:
    for name, value in vars(layer).items():
        held = value.values() if name.endswith("_hooks") else (value,)
        yield from (each if hasattr(each, "__qualname__") else type(each) for each in held if callable(each))


def _name(kind: Any) -> str:
    return f"{kind.__module__ or 'builtins'}.{kind.__qualname__}"
