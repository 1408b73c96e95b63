"""A module in float64, so that rounding cannot tell who else is in the sample.

In float32 a product's rounding depends on how many rows it has. One unit more then moves every other unit's contribution a
little, all in one direction where records are alike, and a sum over thousands of them by more than its clip allows. In float64
the same shift is below 1e-14 of a contribution, and a sum over a hundred million units keeps within law 12's margin.
"""

import copy
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

OWN = (torch.float32, torch.float64)


def in_float64(module: nn.Module) -> nn.Module:
    """The module with float64 parameters and buffers of the same values and names; everything else is the module's own, shared.

    A module that is float64 already is returned as it is. Nothing is written to `module`.
    """
    tensors = [*module.parameters(), *module.buffers()]
    if all(tensor.dtype == torch.float64 or not tensor.is_floating_point() for tensor in tensors):
        return module
    if any(isinstance(layer, nn.RNNBase) for layer in module.modules()):
        return copy.deepcopy(module).double()  # it keeps its parameters in a second place
    return _twin(module, {})


def take_float32(module: nn.Module) -> None:
    """Let the layers of a twin take float32 inputs: a loss may build its rows in that type, they are exact in both."""
    for layer in module.modules():
        if layer._parameters:
            layer.register_forward_pre_hook(_widened)


def _widened(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    return tuple(
        value.double() if isinstance(value, Tensor) and value.dtype == torch.float32 else value for value in inputs
    )


def _twin(layer: nn.Module, made: dict[int, Any]) -> nn.Module:
    """A layer's twin; shared layers and parameters stay shared."""
    if id(layer) not in made:
        twin = made[id(layer)] = layer.__class__.__new__(layer.__class__)
        twin.__dict__.update(layer.__dict__)
        twin.__dict__["_parameters"] = {name: _double(value, made) for name, value in layer._parameters.items()}
        twin.__dict__["_buffers"] = {name: _double(value, made) for name, value in layer._buffers.items()}
        children = {name: None if child is None else _twin(child, made) for name, child in layer._modules.items()}
        twin.__dict__["_modules"] = children
        twin.__dict__["_forward_pre_hooks"] = OrderedDict(layer._forward_pre_hooks)
    found: nn.Module = made[id(layer)]
    return found


def _double(value: Tensor | None, made: dict[int, Any]) -> Tensor | None:
    if value is None or value.dtype not in OWN:
        return value
    if id(value) not in made:
        double = value.detach().double()
        made[id(value)] = nn.Parameter(double, value.requires_grad) if isinstance(value, nn.Parameter) else double
    found: Tensor = made[id(value)]
    return found
