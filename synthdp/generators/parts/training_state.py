"""The state of a training as named arrays, and back: what a stopped fit goes on from (law 23)."""

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.overrides import TorchFunctionMode

from synthdp.generators import Tensors, check_tensors
from synthdp.generators.parts.table_networks import average, random

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
Network = TypeVar("Network", bound=nn.Module)
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


def rebuilt(
    make: Callable[[torch.Generator | None], Network],
    tensors: Tensors,
    beside: Mapping[str, tuple[int, ...]] | None = None,
) -> Network:
    """The network that `make` makes, with the weights among a model's `tensors`, which also hold arrays of the shapes `beside`. Raises
    `BadInput` where names, shapes or numbers do not fit, before the memory that a network takes is asked for."""
    shapes = implied(lambda: make(None))
    check_tensors(tensors, {**shapes, **(beside or {})})
    network = make(random(0))
    network.load_state_dict({name: torch.from_numpy(np.array(tensors[name], np.float32)) for name in shapes})
    return network


Part = nn.Module | Optimizer | LRScheduler | torch.Generator  # an optimiser stands before its schedule


def state_of(parts: Mapping[str, Part]) -> Arrays:
    """What the parts of a training continue from: parameters and buffers; what an optimiser remembers, and its learning rates, which a
    schedule moves; a schedule's step; a stream."""
    arrays: Arrays = {}
    for name, part in parts.items():
        if isinstance(part, nn.Module):
            held = part.state_dict().items()
            arrays |= {f"{name}/{key}": value.detach().cpu().numpy().copy() for key, value in held}
        elif isinstance(part, Optimizer):
            arrays[f"{name}/rates"] = np.array([group["lr"] for group in part.param_groups])
            for place, kept in part.state_dict()["state"].items():
                for key, value in kept.items():
                    if value is not None:
                        arrays[f"{name}/{place}/{key}"] = torch.as_tensor(value).cpu().numpy().copy()
        elif isinstance(part, LRScheduler):
            arrays[name] = np.array([part.last_epoch])
        else:
            arrays[name] = part.get_state().numpy().copy()
    return arrays


def restore(parts: Mapping[str, Part], state: State) -> None:
    """The inverse of `state_of`."""
    for name, part in parts.items():
        if isinstance(part, nn.Module):
            part.load_state_dict({key: tensor(state[f"{name}/{key}"]) for key in part.state_dict()})
        elif isinstance(part, Optimizer):
            _restore_optimizer(name, part, state)
        elif isinstance(part, LRScheduler):
            step, rates = int(state[name][0]), [group["lr"] for group in part.optimizer.param_groups]
            part.load_state_dict({**part.state_dict(), "last_epoch": step, "_step_count": step + 1, "_last_lr": rates})
        else:
            part.set_state(tensor(state[name]))


def _restore_optimizer(name: str, optimizer: Optimizer, state: State) -> None:
    whole = optimizer.state_dict()
    whole["state"] = {}
    for path, value in state.items():
        parts = path.split("/")
        if parts[0] == name and len(parts) == 3:
            whole["state"].setdefault(int(parts[1]), {})[parts[2]] = tensor(value)
    for group, rate in zip(whole["param_groups"], state[f"{name}/rates"], strict=True):
        group["lr"] = float(rate)
    optimizer.load_state_dict(whole)


DIVERGED = "the training diverged, so the model is only its starting point; lower the learning rate"


def kept_of(network: nn.Module, beginning: nn.Module, warning: str = DIVERGED) -> nn.Module:
    """The network or, if its training diverged, what it began at, with a warning."""
    if all(bool(torch.isfinite(value).all()) for value in network.state_dict().values()):
        return network
    warnings.warn(warning, stacklevel=4)
    return beginning


class Training:
    """A generator network in training: `g`, its average and where it began, its optimiser and its randomness."""

    g: nn.Module
    g_average: nn.Module
    beginning: nn.Module
    optimizer: Optimizer
    schedule: LRScheduler
    random: torch.Generator
    latest: torch.Tensor | float = 0.0  # the loss of the last step, wherever it was computed

    def begin_at(self, network: nn.Module, rate: float, steps: int) -> None:
        """A network, its average and its optimiser, as none has trained yet; the learning rate falls to zero over so many steps."""
        self.g, self.g_average, self.beginning = network, copy.deepcopy(network), copy.deepcopy(network)
        self.optimizer = torch.optim.Adam(network.parameters(), rate, betas=BETAS)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, max(1, steps))

    @property
    def loss(self) -> float:
        """Of the last step. Whoever asks waits for the device."""
        return float(self.latest)

    def follow(self, loss: torch.Tensor, decay: float, step: int) -> None:
        """One step on a loss of what `g` made, and of the average, which has this decay."""
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.schedule.step()
        self.latest = loss.detach()
        average(self.g_average, self.g, decay, step)

    @property
    def parts(self) -> dict[str, Part]:
        """Networks, optimiser, schedule and randomness."""
        networks: dict[str, Part] = {name: getattr(self, name) for name in NETWORKS}
        return {**networks, "g_optimizer": self.optimizer, "g_schedule": self.schedule, "random": self.random}

    def state(self) -> Arrays:
        """All that the next steps depend on: `restore` in a new training of the same settings goes on from there."""
        return {**state_of(self.parts), "loss": np.array([self.loss])}

    def restore(self, state: State) -> None:
        self.latest = float(state["loss"][0])
        restore(self.parts, state)


def tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor of its own memory."""
    return torch.from_numpy(np.array(array))
