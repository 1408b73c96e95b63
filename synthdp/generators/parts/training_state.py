"""The state of a training as named arrays, and back: what a stopped fit goes on from (law 23)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.overrides import TorchFunctionMode

# ---- Optimisers by name, over gradients that are noisy already: whatever they do with them is post-processing.


BETAS = (0.5, 0.999)  # of Adam in adversarial games (Radford, Metz & Chintala 2016)

# name -> (parameters, learning rate, momentum)
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float, float], Optimizer]] = {
    "adam": lambda parameters, rate, _: torch.optim.Adam(parameters, rate, betas=BETAS),
    "sgd": lambda parameters, rate, _: torch.optim.SGD(parameters, rate),
    "momentum": lambda parameters, rate, momentum: torch.optim.SGD(parameters, rate, momentum=momentum),
    "adagrad": lambda parameters, rate, _: torch.optim.Adagrad(parameters, rate),
    "rmsprop": lambda parameters, rate, _: torch.optim.RMSprop(parameters, rate),
}


Arrays = dict[str, NDArray[Any]]
State = Mapping[str, NDArray[Any]]
NETWORKS = ("g", "g_average", "beginning")  # of a generator in training


class _Undrawn(TorchFunctionMode):
    """Weights stay as they are: drawing them where there is no memory makes torch import its compiler, which takes seconds."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        del types
        return None if function in (torch.Tensor.normal_, nn.init.normal_) else function(*arguments, **(options or {}))


def implied(make: Callable[[], nn.Module]) -> dict[str, tuple[int, ...]]:
    """The shapes of a network's parameters and buffers, without the memory that they take."""
    with torch.device("meta"), _Undrawn():
        return {name: tuple(value.shape) for name, value in make().state_dict().items()}


def module_state(name: str, module: nn.Module) -> Arrays:
    """Parameters and buffers."""
    return {f"{name}/{key}": value.detach().cpu().numpy().copy() for key, value in module.state_dict().items()}


def restore_module(name: str, module: nn.Module, state: State) -> None:
    """The inverse of `module_state`."""
    module.load_state_dict({key: tensor(state[f"{name}/{key}"]) for key in module.state_dict()})


def optimizer_state(name: str, optimizer: Optimizer) -> Arrays:
    """What it remembers of each parameter, and its learning rates, which a schedule moves."""
    arrays: Arrays = {f"{name}/rates": np.array([group["lr"] for group in optimizer.param_groups])}
    for place, kept in optimizer.state_dict()["state"].items():
        for key, value in kept.items():
            if value is not None:
                arrays[f"{name}/{place}/{key}"] = torch.as_tensor(value).cpu().numpy().copy()
    return arrays


def restore_optimizer(name: str, optimizer: Optimizer, state: State) -> None:
    """The inverse of `optimizer_state`."""
    whole = optimizer.state_dict()
    whole["state"] = {}
    for path, value in state.items():
        parts = path.split("/")
        if parts[0] == name and len(parts) == 3:
            whole["state"].setdefault(int(parts[1]), {})[parts[2]] = tensor(value)
    for group, rate in zip(whole["param_groups"], state[f"{name}/rates"], strict=True):
        group["lr"] = float(rate)
    optimizer.load_state_dict(whole)


def schedule_state(name: str, schedule: LRScheduler) -> Arrays:
    """Its step; the rates are the optimiser's."""
    return {name: np.array([schedule.last_epoch])}


def restore_schedule(name: str, schedule: LRScheduler, state: State) -> None:
    """The inverse of `schedule_state`, after the optimiser was restored."""
    schedule.load_state_dict(
        {
            **schedule.state_dict(),
            "last_epoch": int(state[name][0]),
            "_step_count": int(state[name][0]) + 1,
            "_last_lr": [group["lr"] for group in schedule.optimizer.param_groups],
        }
    )


class Training(Protocol):
    """A generator network in training: `g`, its average and where it began, its optimiser and its randomness."""

    latest: torch.Tensor | float  # the loss of the last step, wherever it was computed

    @property
    def g(self) -> nn.Module: ...
    @property
    def g_average(self) -> nn.Module: ...
    @property
    def beginning(self) -> nn.Module: ...
    @property
    def optimizer(self) -> Optimizer: ...
    @property
    def schedule(self) -> LRScheduler: ...
    @property
    def random(self) -> torch.Generator: ...


def training_state(training: Training) -> Arrays:
    """Networks, optimiser, schedule and randomness."""
    arrays: Arrays = {"random": training.random.get_state().numpy().copy(), "loss": np.array([float(training.latest)])}
    for name in NETWORKS:
        arrays.update(module_state(name, getattr(training, name)))
    arrays.update(optimizer_state("g_optimizer", training.optimizer))
    arrays.update(schedule_state("g_schedule", training.schedule))
    return arrays


def restore_training(training: Training, state: State) -> None:
    """The inverse of `training_state`."""
    training.random.set_state(tensor(state["random"]))
    training.latest = float(state["loss"][0])
    for name in NETWORKS:
        restore_module(name, getattr(training, name), state)
    restore_optimizer("g_optimizer", training.optimizer, state)
    restore_schedule("g_schedule", training.schedule, state)


def tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor of its own memory."""
    return torch.from_numpy(np.array(array))
