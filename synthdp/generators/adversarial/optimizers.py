"""Optimisers by name, over gradients that are noisy already: whatever they do with them is post-processing."""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.optim import Optimizer

BETAS = (0.5, 0.999)  # of Adam in adversarial games (Radford, Metz & Chintala 2016)

# name -> (parameters, learning rate, momentum)
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float, float], Optimizer]] = {
    "adam": lambda parameters, rate, _: torch.optim.Adam(parameters, rate, betas=BETAS),
    "sgd": lambda parameters, rate, _: torch.optim.SGD(parameters, rate),
    "momentum": lambda parameters, rate, momentum: torch.optim.SGD(parameters, rate, momentum=momentum),
    "adagrad": lambda parameters, rate, _: torch.optim.Adagrad(parameters, rate),
    "rmsprop": lambda parameters, rate, _: torch.optim.RMSprop(parameters, rate),
}
