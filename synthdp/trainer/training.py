"""DP-SGD for any torch module: steps over the noisy clipped gradients of random samples (Abadi et al. 2016, algorithm 1).

Microbatches follow McMahan, Andrew et al. 2018; samples without replacement Wang, Balle & Kasiviswanathan 2019; what the
optimisers do with noisy gradients is post-processing.
"""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.generators import Progress, Tensors, Traits, silent
from synthdp.generators.adversarial import clipping_strategies
from synthdp.generators.adversarial.clipping_strategies import MOST_GROUPS, Clipper, Clipping
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.setting_checks import refuse_unused
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Plan, Sampled
from synthdp.options import check, not_negative, number, one_of, option, positive, several, text, whole
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import Buckets, Sensitive, first_line, public_rows, row_wise, tried
from synthdp.trainer.architecture import NAME, loaded
from synthdp.trainer.inputs import Inputs
from synthdp.trainer.losses import CLASSES, Function, check_target

SHOW_EVERY = 25
Optimizing = Callable[[Iterable[nn.Parameter], float, float], torch.optim.Optimizer]
SAMPLING = ("poisson", "without_replacement")
OPTIMIZERS: dict[str, Optimizing] = {
    **training_state.OPTIMIZERS,
    "adam": lambda parameters, rate, _: torch.optim.Adam(parameters, rate),
}
DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU)
TRIED = (ArithmeticError, AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)


def _code() -> Any:
    return field(repr=False, compare=False, metadata={"told": False})


@dataclass(frozen=True, kw_only=True)
class Training(Clipping):
    """The settings of a training, beside the module and the loss. `fit` is what a generator's is: it sees answers alone."""

    name: ClassVar[str] = NAME
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"), draws=False)

    module: nn.Module = _code()
    function: Function = _code()
    units: int = option(MISSING, "the public number of units, or an estimate: the schema's", whole(most=10**12))
    architecture: str = option(MISSING, "the module in words", text())
    own_code: tuple[str, ...] = option(
        MISSING, "the classes and functions that are not torch's", several(text(), 0, 1000)
    )
    loss: str = option(MISSING, "what is minimised", text())
    target: str | None = option(None, "the column that is learned; none: the inputs themselves", text())
    epochs: float = option(20.0, "expected passes over the records: steps = epochs x units / batch", positive(10**6))
    batch: int = option(256, "expected units a sample; in samples without replacement their number", whole(most=10**9))
    sampling: str = option(
        "poisson",
        "how a sample is drawn: poisson (each unit by a coin), or without_replacement (a fixed number; needs relation=replace_one "
        "and the exact number of units)",
        one_of(*SAMPLING),
    )
    optimizer: str = option("adam", f"what follows the noisy gradients: {', '.join(OPTIMIZERS)}", one_of(*OPTIMIZERS))
    learning_rate: float = option(1e-3, "learning rate", positive(1000))
    learning_rate_end: float = option(
        1.0, "ratio of the last step's learning rate to the first's; it falls along a line", number("[0, 1]")
    )
    momentum: float = option(0.9, "momentum, with optimizer=momentum", number("[0, 1)"))
    weight_decay: float = option(0.0, "each step takes learning_rate x weight_decay of every weight", not_negative())
    clip_groups: tuple[tuple[str, ...], ...] = option(
        (),
        "per_group, joint: names of each group's parameters, or their first parts; default: each layer is a group",
        several(several(text(), 1, MOST_GROUPS), 0, MOST_GROUPS),
    )
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self, "")
        clipping_strategies.check(self, where="")
        if self.clip_groups and self.clipping not in ("per_group", "joint"):
            raise BadInput(f"clip_groups applies to clipping=per_group or joint, not to {self.clipping}; leave it out")
        refuse_unused(self, "optimizer", {"momentum": "momentum"}, "")

    @property
    def rate(self) -> float:
        """The share of the units in a sample: expected or, without replacement, exact."""
        return min(1.0, self.batch / self.units)

    @property
    def expected(self) -> float:
        """Units in a sample, the public divisor."""
        return self.rate * self.units

    @property
    def steps(self) -> int:
        """How many samples are asked."""
        return max(1, round(self.epochs / self.rate))

    def validate(self, schema: Schema, budget: Budget) -> None:
        """Refuse, on made-up rows of the schema, what a fit of this module would refuse, before anything is opened or charged."""
        check_target(self.loss, None if self.target is None else schema.column(self.target, "target"))
        if self.sampling != "poisson" and budget.relation != "replace_one":
            raise BadInput(
                "sampling=without_replacement is private only under Budget(relation='replace_one'): use that, or sampling=poisson"
            )
        device = devices.place(self.device)
        codec = Codec(schema)
        _check_layers(self.module)
        self._check_outputs(codec, schema)
        descent = Descent(self, codec, 1.0, None, device)
        held, rows = self.module.state_dict(), torch.from_numpy(public_rows(codec)).to(device)
        try:
            with torch.no_grad():
                descent.loss(descent.module, rows)
            found = descent.module.state_dict()
            written = [name for name, value in found.items() if not torch.equal(value.cpu(), held[name])]
            if not written:
                tried(descent.clipper.question(descent.module, descent.loss, 0, self.expected), codec)
        except BadInput as error:
            raise BadInput(f"the module with loss={self.loss}: {error}") from None
        except TRIED as error:
            raise BadInput(f"the module's gradients cannot be taken on made-up rows: {first_line(error)}") from error
        if written:
            raise BadInput(
                f"the module changes its own {written[0]!r} while it looks at records: a release would hold what it wrote there"
            )

    def one_by_one(self, schema: Schema) -> bool:
        """Whether each unit goes through the module by itself, because rows of a batch may be mixed there."""
        codec, device = Codec(schema), devices.place(self.device)
        descent, rows = Descent(self, codec, 1.0, None, device), torch.from_numpy(public_rows(codec))
        many = rows[torch.arange(Buckets.of(self.expected).size) % len(rows)]  # as many as in the fit
        return not row_wise(descent.module, descent.loss, many.to(device))

    def _check_outputs(self, codec: Codec, schema: Schema) -> None:
        """Refuse a module that cannot take such inputs, or does not tell the target's classes apart."""
        rows = Inputs(codec, self.target).rows(torch.from_numpy(public_rows(codec)))
        try:
            with torch.no_grad():
                found = copy.deepcopy(self.module).eval()(rows)
        except TRIED as error:
            raise BadInput(
                f"the module cannot take inputs of shape {tuple(rows.shape)}: {first_line(error)}"
            ) from error
        if not isinstance(found, Tensor) or found.shape[:1] != rows.shape[:1]:
            raise BadInput("the module must return one tensor, a row for each record")
        column = None if self.target is None else schema.column(self.target)
        if self.loss != "cross_entropy" or not isinstance(column, CLASSES):
            return
        classes = codec.sizes[codec.names.index(column.name)]
        if found.shape[1:] != (classes,):
            raise BadInput(
                f"target {column.name!r} has {classes} classes, so the module must return (rows, {classes}) for cross_entropy; it "
                f"returns {tuple(found.shape)}"
            )

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002 - its units are here
        """`steps` sampled gradients, with each a count of units where the clip adapts."""
        return (Entry(self.event(noise), self.steps),)

    def event(self, noise: float) -> Sampled:
        """One step."""
        return Sampled(self.rate, clipping_strategies.events(noise, self._count_deviation(noise)), self.sampling)

    def _count_deviation(self, noise: float) -> float | None:
        return clipping_strategies.count_deviation(self, self.expected, noise)

    def fit(
        self,
        data: Sensitive,
        *,
        seed: int | None = None,  # noqa: ARG002 - all chance is the seal's
        progress: Progress = silent,
    ) -> "Weights":
        """The module after the last step."""
        device = devices.place(self.device)
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        descent = Descent(self, data.codec, noise, self._count_deviation(noise), device)
        saved = data.restored()
        if saved is not None:
            descent.restore(saved)
        for step in data.steps(self.event(noise), self.steps, descent.state):
            with data.sample(self.rate, self.sampling) as batch:
                sums = descent.clipper.gradient(batch, descent.module, descent.loss, step, self.expected)
            rate = self.learning_rate * (1 - (1 - self.learning_rate_end) * step / max(1, self.steps - 1))
            length = descent.follow(sums, self.microbatches or self.expected, rate)
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == self.steps:
                progress(step + 1, self.steps, {"noisy gradient": length, "clip": descent.clipper.clip})
        return Weights(schema, loaded(self.module, descent.weights(self.module)))

    def restore(self, schema: Schema, tensors: Tensors) -> "Weights":
        """The module with these weights; raises `BadInput` where names or shapes do not fit."""
        return Weights(schema, loaded(self.module, tensors))


def _check_layers(module: nn.Module) -> None:
    for name, layer in module.named_modules():
        if isinstance(layer, DRAWING) and getattr(layer, "p", None) != 0:
            raise BadInput(
                f"{type(layer).__name__} (layer {name!r}) draws random numbers of its own: leave it out; the noise regularises enough"
            )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise BadInput("the module has no parameter to train (requires_grad)")


@dataclass(frozen=True)
class Weights:
    """What a training learns: a module on the CPU, and the schema of what it sees."""

    schema: Schema
    module: nn.Module

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> Any:  # noqa: ARG002
        """A module draws no records: `BadInput`."""
        raise BadInput("a trained module draws no synthetic records: ask for its outputs or predictions")

    def tensors(self) -> Tensors:
        """Parameters and buffers by name."""
        return {name: value.detach().numpy() for name, value in self.module.state_dict().items()}


class Descent:
    """The state of one training: a copy of the module on the device, its optimiser, and the clip."""

    def __init__(
        self, settings: Training, codec: Codec, noise: float, deviation: float | None, device: torch.device
    ) -> None:
        self.module = copy.deepcopy(settings.module).eval().to(device)
        self._inputs, self._function = Inputs(codec, settings.target, device), settings.function
        trained = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        self._optimizer = OPTIMIZERS[settings.optimizer](trained, settings.learning_rate, settings.momentum)
        self._parts: dict[str, training_state.Part] = {"module": self.module, "optimizer": self._optimizer}
        self._weight_decay = settings.weight_decay
        self.clipper = Clipper(
            settings, self.module, noise, deviation, steps=settings.steps, groups=settings.clip_groups
        )

    def loss(self, module: nn.Module, codes: Tensor) -> Tensor:
        """One per record: the only place where records pass. A loss with attributes is copied, so that it keeps nothing of them."""
        rows = self._inputs.rows(codes)
        function = copy.deepcopy(self._function)
        return function(module(rows), self._inputs.targets(codes, rows))

    def follow(self, sums: Any, divisor: float, rate: float) -> float:
        """One step, at this learning rate, of the optimiser along the noisy sums over the public `divisor`; the length of that."""
        squares = 0.0
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                parameter.grad = sums[name].to(parameter) / divisor
                squares += float(parameter.grad.double().square().sum())
                parameter.data.mul_(1 - rate * self._weight_decay)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        return math.sqrt(squares)

    def weights(self, first: nn.Module) -> Tensors:
        """The trained weights, and all else as it was in `first`: nothing that the module or the loss wrote in the meantime leaves."""
        held = first.state_dict()
        named = (*first.named_parameters(remove_duplicate=False), *first.named_buffers(remove_duplicate=False))
        trained = {name for name, value in named if value.requires_grad}
        found = self.module.state_dict()
        return {name: (found if name in trained else held)[name].detach().cpu().numpy() for name in held}

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on."""
        return {**training_state.state_of(self._parts), **self.clipper.state()}

    def restore(self, state: training_state.State) -> None:
        training_state.restore(self._parts, state)
        self.clipper.restore(state)
