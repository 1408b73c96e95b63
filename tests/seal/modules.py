"""Networks with every layer that clipping offers, and what their sums are compared by."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Sequence(nn.Module):
    """Embedding and layers with a sequence dimension, pooled at the end."""

    def __init__(self, padding=None):
        super().__init__()
        self.embed = nn.Embedding(7, 6, padding_idx=padding)
        self.norm = nn.LayerNorm(6)
        self.lift = nn.Linear(6, 5)
        self.out = nn.Linear(5, 1)

    def forward(self, x):
        index = (x.abs() * 4).long() % 7
        return self.out(torch.tanh(self.lift(self.norm(self.embed(index)))).mean(1))


class Mixed(nn.Module):
    """Convolution, group norm, embedding and linear layers side by side."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.label = nn.Embedding(3, 4)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        image = F.leaky_relu(self.norm(self.conv(x.unflatten(1, (1, 3, 4))))).flatten(1)
        return self.out(torch.cat([image, self.label((x[:, 0].abs() * 9).long() % 3), x], 1))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.out = nn.Linear(12, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.lin(torch.tanh(self.lin(x)))))


class Tied(nn.Module):
    """A weight used by its layer and once more outside."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(12, 1)

    def forward(self, x):
        return self.lin(x) + torch.tanh(F.linear(x.flip(1), self.lin.weight))


class SequenceFirst(nn.Module):
    """The batch is the second dimension of the layer's input; with 5 records both are 5 long."""

    def __init__(self):
        super().__init__()
        self.lin, self.out = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        steps = x[:, :10].unflatten(1, (5, 2)).transpose(0, 1)
        return self.out(torch.tanh(self.lin(steps)).sum(0))


class Own(nn.Module):
    """A parameter that no layer owns."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(12))
        self.lin = nn.Linear(12, 1)

    def forward(self, x):
        return self.lin(x * self.scale)


def image(*shape):
    return nn.Unflatten(1, shape)


FOLLOWED = {
    "linear": lambda: nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 1)),
    "linear without bias": lambda: nn.Sequential(nn.Linear(12, 9, bias=False), nn.Tanh(), nn.Linear(9, 1)),
    "in-place activation": lambda: nn.Sequential(nn.Linear(12, 9), nn.ReLU(inplace=True), nn.Linear(9, 1)),
    "linear over positions": lambda: nn.Sequential(
        image(4, 3), nn.Linear(3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1)
    ),
    "linear over few positions": lambda: nn.Sequential(
        image(2, 6), nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 30), nn.Flatten(), nn.Linear(60, 1)
    ),
    "sequence": Sequence,
    "padding index": lambda: Sequence(padding=2),
    "conv1d": lambda: nn.Sequential(
        image(2, 6), nn.Conv1d(2, 3, 3, stride=2, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(9, 1)
    ),
    "conv1d same": lambda: nn.Sequential(
        image(2, 6), nn.Conv1d(2, 4, 3, dilation=2, padding="same", groups=2), nn.Flatten(), nn.Linear(24, 1)
    ),
    "conv2d": lambda: nn.Sequential(
        image(1, 3, 4),
        nn.Conv2d(1, 3, 2),
        nn.LeakyReLU(),
        nn.Conv2d(3, 2, (2, 1), bias=False),
        nn.Flatten(),
        nn.Linear(6, 1),
    ),
    "conv3d": lambda: nn.Sequential(
        image(1, 2, 2, 3), nn.Conv3d(1, 2, 2, padding=(1, 0, 0)), nn.Flatten(), nn.Linear(12, 1)
    ),
    "layer norm": lambda: nn.Sequential(image(4, 3), nn.LayerNorm((4, 3)), nn.Flatten(), nn.Linear(12, 1)),
    "layer norm, one position": lambda: nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 1)),
    "rms norm": lambda: nn.Sequential(image(4, 3), nn.RMSNorm(3), nn.Flatten(), nn.Linear(12, 1)),
    "group norm": lambda: nn.Sequential(image(4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(12, 1)),
    "instance norm": lambda: nn.Sequential(
        image(4, 3), nn.InstanceNorm1d(4, affine=True), nn.Tanh(), nn.Flatten(), nn.Linear(12, 1)
    ),
    "mixed": Mixed,
}
FALLEN_BACK = {
    "layer used twice": Twice,
    "weight used outside its layer": Tied,
    "own parameter": Own,
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 4)), nn.Linear(4, 1)),
    "transposed convolution": lambda: nn.Sequential(
        image(2, 6), nn.ConvTranspose1d(2, 2, 2), nn.Flatten(), nn.Linear(14, 1)
    ),
    "sequence first": SequenceFirst,
}
MODULES = FOLLOWED | FALLEN_BACK


def loss(module, rows):
    return F.softplus(module(rows).squeeze(1)) * (1 + rows[:, 0].square())


def make(name, units, size=None, seed=0):
    """(module, records, mask); parameters drawn without touching the global generator."""
    generator = torch.Generator().manual_seed(seed)
    module = MODULES[name]()
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5
    if size is None:
        return module, torch.randn(units, 12, generator=generator), None
    mask = torch.rand(units, size, generator=generator) < 0.6
    return module, torch.randn(units, size, 12, generator=generator), mask


def gap(one, other):
    """Largest difference over all parameters, in units of the largest entry."""
    assert list(one) == list(other)
    scale = max([float(value.abs().max()) for value in other.values()] + [1e-30])
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one) / scale


def norm(sums):
    return float(torch.stack([value.double().square().sum() for value in sums.values()]).sum().sqrt())
