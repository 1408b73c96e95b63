"""Many small networks trained side by side: one computation for all copies of a template (torch.func).

Shapes are public: every teacher sees `batch` rows a step, its own ones over and over where it has fewer, and those weigh
nothing. So what one teacher computes does not change, not by a bit, when another's part grows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import SGD, Adam, Optimizer

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.seal.callbacks import Guarded
from synthdp.seal.records import Codes
from synthdp.seal.resume import State
from synthdp.seal.teachers.protocols import (
    Parts,
    Scores,
    Votes,
    check_module,
    check_row_by_row,
    first_line,
    public_rows,
)

Weights = dict[str, Tensor]
OPTIMIZERS = ("adam", "sgd")
STARTS = ("own", "template")
SIDE_BY_SIDE = 100  # teachers of one stack: their weights stay in the processor's cache
ASKED = 256  # queries answered at a time


@dataclass(frozen=True, kw_only=True)
class Stacked:
    """Copies of `module`, trained on (records, columns) codes by minimising the mean of `loss`.

    - `features(codes)`: codes (rows, columns) to the module's input (rows, ...), each row on its own.
    - `module`: input to (rows,) or (rows, 1) scores, above 0 for class 1 of two, or (rows, classes) logits. No layer with a
      state of its own or with chance (BatchNorm, Dropout).
    - `loss(outputs, codes)`: (rows,) losses of a teacher's own records.
    - `public_loss(outputs, codes)`: the same for the rows that `train` is given, for a discriminator's other half; both means
      are added.

    Each call of `train` makes `steps` steps on `batch` records, which go round the teacher's part. `start`: "own" draws every
    teacher's first weights anew, normal, with the template's mean and deviation (parameters of one axis are kept); "template"
    copies them. Parameters that want no gradient stay the template's. Everything happens on the template's device, in
    stacks of `side_by_side` teachers (default: 100, on a GPU all of them).
    """

    functions: ClassVar[tuple[str, ...]] = ("features", "loss", "public_loss")
    module: nn.Module
    features: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    public_loss: Callable[[Tensor, Tensor], Tensor] | None = None
    steps: int = 100
    batch: int = 64
    learning_rate: float = 1e-2
    optimizer: str = "adam"
    weight_decay: float = 0.0
    start: str = "own"
    side_by_side: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "side_by_side"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadInput(f"{name} of teachers must be 1 or more, got {value}")
        if not self.learning_rate > 0:
            raise BadInput(f"learning_rate of teachers must be greater than 0, got {self.learning_rate}")
        if self.optimizer not in OPTIMIZERS:
            raise BadInput(f"optimizer of teachers must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.start not in STARTS:
            raise BadInput(f"start of teachers must be one of {', '.join(STARTS)}, got {self.start!r}")
        check_module(self.module)

    def check(self, codec: Codec) -> int:
        """The number of classes that the module tells apart, from its output on public rows."""
        codes = torch.from_numpy(public_rows(codec)).to(_device(self.module))
        check_row_by_row(lambda rows: self.features(rows).cpu(), codes)
        weights = _first_weights(self.module, 2, torch.Generator(), self.start)
        with torch.no_grad():
            try:
                outputs = _outputs(self.module, weights, self.features(codes), shared=True)
            except RuntimeError as error:  # of public rows: shapes, types, chance, what vmap cannot do
                raise BadInput(
                    f"module cannot be stacked, or cannot take the output of features: {first_line(error)}"
                ) from error
        if outputs.shape[:2] != (2, len(codes)) or outputs.ndim > 3:
            raise BadInput(f"module must give one row of outputs per record, got shape {tuple(outputs.shape[1:])}")
        for name, loss in (("loss", self.loss), ("public_loss", self.public_loss)):
            if loss is not None and tuple(loss(outputs[0], codes).shape) != (len(codes),):
                raise BadInput(f"{name} must give one number per record")
        last = 1 if outputs.ndim == 2 else outputs.shape[2]
        return max(2, last)

    def begin(self, parts: Parts, codec: Codec, classes: int, seed: bytes) -> "Stacks":  # noqa: ARG002
        """Teachers at their first weights."""
        return Stacks(self, parts, classes, seed)


class Stacks:
    """Teachers of one `Stacked`, in stacks of `side_by_side`, each trained on its own."""

    def __init__(self, kind: Stacked, parts: Parts, classes: int, seed: bytes) -> None:
        self.classes = classes
        self._kind, self._device = kind, _device(kind.module)
        empty = np.zeros((1, parts.codes.shape[1]), np.int32)  # the row of those who have none; it weighs nothing
        self._codes = torch.from_numpy(np.concatenate([parts.codes, empty])).to(self._device)
        self._sizes = torch.from_numpy(parts.sizes).to(self._device)
        self._starts = torch.from_numpy(parts.starts).to(self._device)
        self._done = 0
        chance = torch.Generator().manual_seed(int.from_bytes(seed[:7], "little"))
        count = len(parts.sizes)
        self._wide = kind.side_by_side or (SIDE_BY_SIDE if self._device.type == "cpu" else count)
        self._stacks = [_Stack(kind, min(self._wide, count - first), chance) for first in range(0, count, self._wide)]

    @property
    def count(self) -> int:
        """As `Ensemble.count`."""
        return len(self._sizes)

    @property
    def trained(self) -> bool:
        """As `Ensemble.trained`."""
        return self._done > 0

    def train(self, public: Codes | None) -> None:
        """As `Ensemble.train`; raises `BadInput` where `public` does not fit `public_loss`."""
        kind = self._kind
        if (public is None) != (kind.public_loss is None):
            raise BadInput(
                "teachers with a public_loss are trained against public rows: call train(public)"
                if public is None
                else "these teachers have no public_loss, so they cannot use public rows"
            )
        rows = None if public is None else torch.from_numpy(public).to(self._device)
        until = self._done + kind.steps
        for place, stack in enumerate(self._stacks):
            teachers = slice(place * self._wide, place * self._wide + stack.count)
            for step in range(self._done, until):
                own, weight = self._batch(teachers, step)
                stack.step(
                    self._codes[own], weight, None if rows is None else _window(rows, teachers, step, kind.batch)
                )
        self._done = until

    def votes(self, queries: Codes) -> Votes:
        """As `Ensemble.votes`: what is not finite, or of an empty teacher, is a vote for class 0."""
        outputs = self._asked(queries)
        finite = torch.isfinite(outputs).all(2) & (self._sizes > 0).cpu()[:, None]
        chosen = (outputs[..., 0] > 0).long() if outputs.shape[2] == 1 else outputs.argmax(2)
        return torch.where(finite, chosen, 0).numpy()

    def scores(self, queries: Codes) -> Scores:
        """As `Ensemble.scores`."""
        outputs = self._asked(queries).double()
        leaning = outputs[..., 0] if outputs.shape[2] == 1 else outputs[..., 1] - outputs[..., 0]
        leaning[self._sizes.cpu() == 0] = torch.nan
        return leaning.numpy()

    def state(self) -> State:
        """Weights and what the optimisers remember, by stack."""
        arrays = {f"{place}/{name}": value for place, stack in enumerate(self._stacks) for name, value in stack.state()}
        return {
            "count": np.array([len(self._sizes)]),
            "done": np.array([self._done]),
            **{name: value.cpu().numpy().copy() for name, value in arrays.items()},
        }

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        self._done = int(state["done"][0])
        for place, stack in enumerate(self._stacks):
            mark = f"{place}/"
            own = {name.removeprefix(mark): value for name, value in state.items() if name.startswith(mark)}
            stack.restore({name: torch.from_numpy(np.array(value)) for name, value in own.items()})

    def _batch(self, teachers: slice, step: int) -> tuple[Tensor, Tensor]:
        """Places (teachers, batch) of the records of one step, and their weights, which add up to 1 or, without records, 0."""
        sizes, batch = self._sizes[teachers, None], self._kind.batch
        place = torch.arange(batch, device=self._device)
        held = sizes.clamp(max=batch)
        own = self._starts[teachers, None] + (step * held + place) % sizes.clamp(min=1)
        weight = (place < held) / held.clamp(min=1)
        return torch.where(sizes > 0, own, len(self._codes) - 1), weight.float()

    @torch.no_grad()
    def _asked(self, queries: Codes) -> Tensor:
        """(teachers, queries, outputs) float32, on the CPU."""
        codes = torch.from_numpy(queries).to(self._device)
        parts = []
        for start in range(0, len(codes), ASKED):
            inputs = self._kind.features(codes[start : start + ASKED])
            found = [_outputs(self._kind.module, stack.weights, inputs, shared=True) for stack in self._stacks]
            parts.append(torch.cat(found).reshape(len(self._sizes), len(inputs), -1).float().cpu())
        return torch.cat(parts, 1)


class _Stack:
    """Some teachers, one computation: each weight is a tensor with one more axis, teachers first."""

    def __init__(self, kind: Stacked, count: int, chance: torch.Generator) -> None:
        self.count = count
        self._kind = kind
        self.weights = _first_weights(kind.module, count, chance, kind.start)
        self._optimizer = _optimizer(kind, self.weights)

    def step(self, codes: Tensor, weight: Tensor, others: Tensor | None) -> None:
        """One step on codes (teachers, batch, columns). The losses of all are added up: no teacher's gradient sees another's."""
        kind, batch = self._kind, codes.shape[1]
        rows = codes if others is None else torch.cat([codes, others], 1)
        inputs = kind.features(rows.flatten(0, 1))
        inputs = inputs.reshape(*rows.shape[:2], *inputs.shape[1:])
        outputs = _outputs(kind.module, self.weights, inputs, shared=False)
        own = vmap(kind.loss)(outputs[:, :batch], codes)
        total = (torch.where(weight > 0, own, 0.0) * weight).sum()
        if others is not None and kind.public_loss is not None:
            total = total + vmap(kind.public_loss)(outputs[:, batch:], others).mean(1).sum()
        self._optimizer.zero_grad()
        torch.autograd.backward(total)
        self._optimizer.step()

    def state(self) -> list[tuple[str, Tensor]]:
        """Weights, and the optimiser's memory of each."""
        kept = [(f"weights/{name}", value.detach()) for name, value in self.weights.items()]
        for place, memory in self._optimizer.state_dict()["state"].items():
            kept += [(f"memory/{place}/{key}", value) for key, value in memory.items() if value is not None]
        return kept

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(state[f"weights/{name}"])
        whole = self._optimizer.state_dict()
        for path, value in state.items():
            if path.startswith("memory/"):
                _, place, key = path.split("/")
                whole["state"].setdefault(int(place), {})[key] = value
        self._optimizer.load_state_dict(whole)


def _outputs(module: nn.Module, weights: Weights, inputs: Tensor, *, shared: bool) -> Tensor:
    """Each copy's outputs (teachers, rows, ...) on its own inputs (teachers, rows, ...) or, shared, on the same."""
    fixed: Weights = dict(module.named_buffers())
    fixed |= {name: value for name, value in module.named_parameters() if not value.requires_grad}

    def one(own: Weights, rows: Tensor) -> Tensor:
        found: Tensor = functional_call(module, {**own, **fixed}, (rows,))
        return found

    outputs: Tensor = vmap(Guarded(one), in_dims=(0, None if shared else 0))(weights, inputs)
    return outputs


def _first_weights(module: nn.Module, count: int, chance: torch.Generator, start: str) -> Weights:
    weights = {}
    for name, value in module.named_parameters():
        if not value.requires_grad:
            continue
        own = value.detach().expand(count, *value.shape).clone()
        if start == "own" and value.ndim > 1:
            drawn = torch.randn(own.shape, generator=chance).to(own)
            own = value.detach().mean() + value.detach().std(correction=0) * drawn
        weights[name] = own.requires_grad_()
    return weights


def _optimizer(kind: Stacked, weights: Weights) -> Optimizer:
    values = list(weights.values())
    made = Adam if kind.optimizer == "adam" else SGD
    return made(values, kind.learning_rate, weight_decay=kind.weight_decay, fused=True)


def _window(public: Tensor, teachers: slice, step: int, batch: int) -> Tensor:
    """The public rows of one step, codes (teachers, batch, columns): each teacher another window of them."""
    teacher = torch.arange(teachers.start, teachers.stop, device=public.device)[:, None]
    place = torch.arange(batch, device=public.device)
    return public[((teacher + step) * batch + place) % len(public)]


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
