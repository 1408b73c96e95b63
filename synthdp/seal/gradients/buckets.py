"""Per-unit gradients in float32, a bucket of units at a time, so that rounding cannot tell who else is there (law 47).

In float32 a product's rounding depends on how many rows it has. One more unit would move every other unit's contribution a little,
and all in one direction where records are alike. So rounding is *localised*. A unit goes to one of `count` buckets by its key; both
`count` and the `size` m of a bucket are public. Each bucket is padded to m rows and computed alone; buckets add up in float64. A
bucket of more than m units splits by the next bit of its keys until every part fits. u = 2^-24, C is the clip, and unit i contributes
c_i, |c_i| <= C (1 - margin), computed in float64 from the float32 values a_i, g_i (or explicit rows r_i) that are then summed.

**Outside one bucket nothing moves.** A unit's own key decides where it goes, and the units under the same bits decide whether
a part splits. One more unit therefore changes one part of at most m units (which it joins, or which becomes two). All others hold the
same rows in the same order and go through the same kernels at the same shape, so their sums are the same bits, and float64 adds them.

**Inside it the values that are summed do not move either.** a_i, g_i, r_i are the same bits in whatever place and company, at the one
shape m: no theorem of floating point, but a property of kernels that treat rows alike. It is pinned (`kernels`), probed in every
place before a charge (`probed`), and listed in the statement as taken on trust. Without it, float64 is used.

**The sum moves by at most C.** Entries of a bucket's sum are sums over i of w_i g_ij a_ik (w_i r_ij). Whatever the kernel's order of
summation, with or without fused multiply-adds, each of n <= m products passes at most n + 2 roundings: of the weight, of the scaled
gradient, of product and additions. So the computed entry errs by at most gamma_(m+2) sum_i |w_i g_ij a_ik|, with
gamma_k = k u / (1 - k u) (Higham 2002, theorem 3.1 and lemma 3.1), and the whole sum, by Minkowski, by gamma_(m+2) sum_i |c_i|: the
matmul over rows is covered, and the order of rows does not matter. At most m units before, and after it at most m, or m + 1 in two parts
that hold k and m + 1 - k: both errors together are at most u ((m + 2) m + (m + 2) m + 3) C = u (2 (m + 1)^2 + 1) C, times 1 - margin, which
outweighs the denominators of gamma. Hence |sum' - sum| <= |c| + 2 (m + 1)^2 u C + u C <= C (1 - 1e-4) + u C: what is left of
law 12's 1e-4 is for float64. That holds for each group of parameters with its own bound, and for automatic clipping, whose
contributions are shorter.

**Where float32 ends.** A unit with a factor, a row or a norm of 2^64 or more counts as not finite and contributes zero, replaced and not
multiplied; from 2^63 on it fades, so that no last bit of a norm decides. Clips of which any group's part lies outside [2^-20, 2^20], and
a gamma of automatic clipping below 2^-64, take float64 (`short`). Then a weight, before it fades, is at least 2^-84 and at most 2^84, and
what underflow takes from a product of a factor of at most 2^64 is below 2^-126 2^64 2^20 sqrt(d) C: nothing.
"""

import contextlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from synthdp.errors import BadInput, InFloat64
from synthdp.seal.callbacks import source
from synthdp.seal.clipping import Automatic, Layout, Rule
from synthdp.seal.gradients import bookkeeping, explicit
from synthdp.seal.gradients.bound import MARGIN, Bound, Gradients
from synthdp.seal.gradients.layers import Owners, Seen, Trained
from synthdp.seal.gradients.module_state import state
from synthdp.seal.gradients.rows import Contributions, Lookup
from synthdp.seal.gradients.rows_apart import row_wise
from synthdp.seal.to_device import moved

Loss = Callable[[nn.Module, Tensor], Tensor]

MEAN = 312  # units expected in a bucket, at most
ROW, FEW = 4, 16
STEP = 32  # sizes are multiples of it: the last rows of a product then go through the same code as the others, and no value of a sigmoid is
# left over for scalar code, which rounds differently (torch takes 32 values at a time with AVX-512, 16 with AVX2)
CLIPS = (2.0**-20, 2.0**20)
LEAST_GAMMA = 2.0**-64
WORTH = 4  # numbers in a linear layer's explicit rows for each that they are made of: beyond, float64 pairs of positions are faster
EXPLICIT = 1 << 26  # numbers in the explicit rows of a bucket, at most: 256 MiB
EXPLICIT_ON_GPU = 1 << 29  # the same on a GPU: 2 GiB; there rows are formed whatever they are made of
# Compute capabilities of GPUs that compute in float64 at half the rate of float32
FAST_DOUBLES = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}


def short(clip: float, rule: Rule, groups: Layout | None) -> bool:
    """Whether float32 holds the weights of every unit, by public numbers alone."""
    least = clip if groups is None else clip * min(groups.bounds)
    gamma = rule.gamma if isinstance(rule, Automatic) else LEAST_GAMMA
    return least >= CLIPS[0] and clip <= CLIPS[1] and gamma >= LEAST_GAMMA


@dataclass(frozen=True)
class Buckets:
    """`count` buckets of at most `size` units each: public numbers."""

    count: int
    size: int

    @classmethod
    def of(cls, expected: float) -> "Buckets":
        """Buckets for a sample of `expected` units, a public number: two standard deviations of a Poisson sample are room enough,
        since what is overfull splits."""
        count = max(1, math.ceil(expected / MEAN))
        mean = max(1.0, expected) / count
        return cls(count, STEP * math.ceil((mean + 2 * math.sqrt(mean)) / STEP))

    @property
    def margin(self) -> float:
        """How far below its clip a unit's contribution stays, in clips."""
        return MARGIN + 2 * (self.size + 1) ** 2 * 2.0**-24

    def parts(self, keys: NDArray[np.uint64]) -> list[NDArray[np.int64]]:
        """Which units are computed together, in their own order; `keys` (units,) name them, and should be distinct."""
        if len(keys) <= self.size and self.count == 1:
            return [np.arange(len(keys))] if len(keys) else []
        names = mixed(keys, DEAL)
        place = names % np.uint64(self.count)
        if self.count == 1:
            found = [np.arange(len(keys))]
        else:
            order = np.argsort(place, kind="stable")
            found = np.split(order, np.cumsum(np.bincount(place.astype(np.int64), minlength=self.count))[:-1])
        bits = names // np.uint64(self.count)
        return [part for units in found for part in self._fitting(units, bits, 0) if len(part)]

    def _fitting(self, units: NDArray[np.int64], bits: NDArray[np.uint64], bit: int) -> Iterator[NDArray[np.int64]]:
        if len(units) <= self.size:
            yield units
        elif bit == 64:  # equal keys of 64 bits, m times over
            yield from np.split(units, range(self.size, len(units), self.size))
        else:
            ones = (bits[units] >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)
            yield from self._fitting(units[~ones], bits, bit + 1)
            yield from self._fitting(units[ones], bits, bit + 1)


DEAL = 1 << 63  # the number under which keys are mixed for buckets; microbatches take the numbers of steps
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: keeps the deals of consecutive numbers apart


def mixed(keys: NDArray[np.uint64], number: int) -> NDArray[np.uint64]:
    """Another name for each unit, a function of its own secret key and of a public number alone: the finaliser of SplitMix64
    (Steele, Lea & Flood 2014) mixes both. Coins come of the same keys by a cipher, under a key of its own."""
    found = keys ^ np.uint64((number * GOLDEN) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


@dataclass(frozen=True)
class Prepared:
    """A module whose contributions were found to be their units' own (`probed`), and how they are computed. Its layers, and which
    parameters are trained, must stay as they are."""

    module: nn.Module
    buckets: Buckets
    trained: Trained
    layers: Owners
    given: Collection[nn.Module]  # layers whose inputs are made float32, with aligned rows

    def sums(self, module: nn.Module, loss: Loss, records: Tensor, keys: NDArray[np.uint64], bound: Bound) -> Gradients:
        """The clipped gradients of `records` (units, ...), each bucket computed by itself, added up in float64. The sum of a single
        bucket stays in float32, which holds the same numbers: noise is the same whichever type they come in."""
        if module is not self.module:
            raise BadInput("another module was prepared than the one whose gradients are asked for")
        total: Tensor | None = None
        lookups: list[Lookup] = []
        with kernels(records.device):
            for units in self.buckets.parts(keys):
                rows = records.new_empty(self.buckets.size, *records.shape[1:])  # one shape, in aligned memory
                rows[len(units) :] = 0
                own = records
                if len(units) < len(records):
                    own = records[moved(torch.from_numpy(units), records.device)]
                rows[: len(units)] = own
                seen = self.seen(module, loss, rows)
                with torch.no_grad():
                    found, tables = Contributions(seen or [], self.layers).sums(len(units), bound)
                    lookups += tables
                    flat = torch.cat([self._piece(name, found) for name in self.trained])
                    total = flat if total is None else total.double().add_(flat)
        if total is None:  # of no units
            bound.count(torch.zeros(0))
            numbers = sum(parameter.numel() for parameter in self.trained.values())
            total = torch.zeros(numbers, dtype=torch.float64, device=records.device)
        sums = Gradients(total.double() if lookups else total, self.trained)
        for table in lookups:
            sums[table.name].index_add_(0, table.index, table.rows.double())
        return sums

    def _piece(self, name: str, found: Mapping[str, Tensor]) -> Tensor:
        like = self.trained[name]
        return found[name].reshape(-1) if name in found else like.detach().new_zeros(like.numel())

    def seen(self, module: nn.Module, loss: Loss, rows: Tensor, *, known: bool = True) -> Seen | None:
        """What the layers saw of a bucket; None where the module cannot be followed, which is not looked at where it is `known`."""
        handles = [layer.register_forward_pre_hook(_aligned) for layer in self.given]
        try:
            return bookkeeping.backward(module, loss, rows, self.layers, known=known)
        finally:
            for handle in handles:
                handle.remove()


# ---- What rests on trust, as far as it can be pinned and tried.


def kernels(device: torch.device) -> contextlib.ExitStack:
    """From this call to the end of its `with`: full float32, no autocast; on a GPU also deterministic algorithms, none chosen by trying.
    Afterwards as it was before. On a GPU an operation that has none raises RuntimeError, which the probe meets first."""
    # Usually empty on the CPU: setting what is already set slows a small network's step.
    stack = contextlib.ExitStack()
    if torch.is_autocast_enabled(device.type):
        stack.enter_context(torch.autocast(device.type, enabled=False))
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":
        stack.callback(torch.set_float32_matmul_precision, precision)
        torch.set_float32_matmul_precision("highest")
    if device.type == "cuda":
        stack.enter_context(
            torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        )
        stack.callback(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled())
        torch.use_deterministic_algorithms(True)
    return stack


def _aligned(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Float32 layers take float64 inputs, a loss may build its rows in that type; and where `_slanted` says so, rows begin at
    multiples of 16 bytes."""
    found = tuple(value.float() if _wide(value) else value for value in inputs)
    if not isinstance(layer, nn.Linear) or not _slanted(layer):
        return found
    width = layer.in_features
    return tuple(functional.pad(value, (0, -width % ROW))[..., :width] for value in found)


def _slanted(layer: nn.Module) -> bool:
    """Whether a product with few columns would round rows by how they are aligned: a BLAS may take them four numbers at a time."""
    return isinstance(layer, nn.Linear) and layer.in_features % ROW > 0 and layer.out_features < FEW


def _wide(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float64


class Moved(Exception):
    """Rows of a bucket are other bits in another place or company."""


EXTREMES = (math.nan, math.inf, -math.inf, 3e38, 1e30, 1e-40)
TRIED = 4  # made-up rows that go to every place
# Draws of weights, with as many rows as a bucket has, and orders of these rows: a kernel may round few values by their place.
DRAWS, ORDERS = 4, 3


def probed(module: nn.Module, loss: Loss, rows: Tensor, buckets: Buckets) -> Prepared | None:
    """The module, if made-up `rows` contribute, at made-up weights, the same bits in every place of a bucket, whoever else is there:
    themselves in turn and in another order, padding, and rows whose activations and losses are not finite, huge or denormal. Rows that
    are mixed of them, a bucketful for each of several weights, change places at random.

    None where buckets are not for this module: a layer without a rule or in float64, explicit rows of more than `EXPLICIT`
    numbers (on a GPU `EXPLICIT_ON_GPU`), or no explicit rows at all on a GPU that is fast in float64. Raises `Moved` where bits do move.
    """
    trained, layers = bookkeeping.survey(module)
    if layers is None or len(rows) == 0 or any(each.dtype != torch.float32 for each in trained.values()):
        return None
    if not row_wise(module, loss, rows[torch.arange(buckets.size, device=rows.device) % len(rows)], source(loss)):
        return None
    given = {layer for layer in layers if _slanted(layer)}

    def note(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if any(map(_wide, inputs)):
            given.add(layer)

    handles = [layer.register_forward_pre_hook(note) for layer in layers]
    try:
        with kernels(rows.device):
            fit = _tried(Prepared(module, buckets, trained, layers, layers), module, loss, rows)
    finally:
        for handle in handles:
            handle.remove()
    return Prepared(module, buckets, trained, layers, given) if fit else None


KEPT = 4  # modules whose probe is remembered
_PROBES: OrderedDict[tuple[Any, ...], tuple[nn.Module, Prepared | None, bool]] = OrderedDict()


def prepared(module: nn.Module, loss: Loss, expected: float, rows: Tensor | None = None) -> Prepared | None:
    """What `probed` found of this very module, and of losses made of the same lines, for samples of `expected` units. With made-up
    `rows` it is found out now. None means float64, and warns once where the reason is the machine."""
    key = (id(module), state(module), source(loss), Buckets.of(expected), torch.get_num_threads())
    if key not in _PROBES and rows is not None:
        found, moves = None, False
        try:
            found = probed(module, loss, rows, Buckets.of(expected))
        except Moved:
            moves = True
        except RuntimeError as error:  # a loss that cannot take float32, or an operation without a fixed order on GPUs
            moves = "deterministic" in str(error)
        _PROBES[key] = (module, found, moves)
        while len(_PROBES) > KEPT:
            _PROBES.popitem(last=False)
    _, found, moves = _PROBES.get(key, (module, None, False))
    if moves and rows is None:
        _PROBES[key] = (module, None, False)
        warnings.warn(
            "on this machine a row's rounding depends on its place in the batch, or an operation has no fixed order, so gradients are "
            "computed in float64, which is as private, and slower",
            InFloat64,
            stacklevel=2,
        )
    return found


def _tried(made: Prepared, module: nn.Module, loss: Loss, every: Tensor) -> bool:
    size, rows = made.buckets.size, every[:TRIED]
    place = torch.arange(size, device=rows.device)
    others = place[place % 3 != 1]
    own = made.seen(module, loss, rows[place % len(rows)], known=False)
    if own is None or not _fit(own, size, rows.device):
        return False

    def values(asked: Loss, bucket: Tensor, kept: Tensor = place) -> list[Tensor]:
        with torch.no_grad():
            return Contributions(made.seen(module, asked, bucket) or [], made.layers).values(kept)

    lent = stirred(loss, made.trained, 0)
    known: list[Tensor] = []
    for turn in range(len(rows) + 3):
        order = (place + turn if turn <= len(rows) else place * place // 3 + place) % len(rows)
        bucket, kept, asked = rows[order], place, lent
        if turn == len(rows):
            kept, asked = others, _Spoiled(lent, place[1::3])
        elif turn == len(rows) + 2:
            kept = place[: size // 2 + 1]
            bucket[len(kept) :] = 0
        found = values(asked, bucket, kept)
        known = known or [bits[: len(rows)] for bits in found]
        _same(found, known, order[kept])
    flat = every.flatten(1)
    for draw in range(DRAWS):
        lent, random = stirred(loss, made.trained, draw), torch.Generator().manual_seed(draw)
        chosen = torch.randint(len(flat), (size, flat.shape[1]), generator=random).to(rows.device)
        mixed = flat.gather(0, chosen).view(size, *every.shape[1:])
        known = values(lent, mixed)
        for _ in range(ORDERS):
            order = torch.randperm(size, generator=random).to(rows.device)
            _same(values(lent, mixed[order]), known, order)
    return True


def _same(found: list[Tensor], known: list[Tensor], order: Tensor) -> None:
    if not all(torch.equal(bits, first[order]) for bits, first in zip(found, known, strict=True)):
        raise Moved


def stirred(loss: Loss, trained: Trained, seed: int) -> Loss:
    """The loss of a module with made-up weights: before a layer that is zero at first every gradient is zero, alike in all places."""
    random = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for name, value in trained.items():
        drawn = torch.randn(value.shape, generator=random) * max(1, math.prod(value.shape[1:])) ** -0.5
        weights[f"module.{name}"] = nn.Parameter(value.detach() + moved(drawn, value.device))

    def lent(module: nn.Module, rows: Tensor) -> Tensor:
        found: Tensor = functional_call(explicit.Callback(module, loss), weights, (rows,))
        return found

    return lent


class _Spoiled:
    """A loss that is called with the inputs of layers, and the losses, of some rows replaced by extremes."""

    def __init__(self, loss: Loss, rows: Tensor) -> None:
        self._loss, self._rows = loss, rows

    def __call__(self, module: nn.Module, records: Tensor) -> Tensor:
        layers = [layer for layer in module.modules() if layer._parameters]
        handles = [layer.register_forward_pre_hook(self._input, prepend=True) for layer in layers]
        try:
            losses = self._loss(module, records)
        finally:
            for handle in handles:
                handle.remove()
        return losses * self._put(torch.ones_like(losses))

    def _input(self, layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG002
        return tuple(
            self._put(value) if isinstance(value, Tensor) and value.is_floating_point() else value for value in inputs
        )

    def _put(self, value: Tensor) -> Tensor:
        extremes = torch.tensor(EXTREMES, dtype=torch.float64, device=value.device).to(value.dtype)
        put = extremes[torch.arange(len(self._rows), device=value.device) % len(EXTREMES)]
        return value.index_put((self._rows,), put.view(-1, *(1,) * (value.dim() - 1)).expand(-1, *value.shape[1:]))


def _fit(seen: Seen, size: int, device: torch.device) -> bool:
    """Whether rows in float32 are worth their memory and time, by shapes and device alone. An embedding that is asked at several places has
    no rule."""
    gpu = device.type == "cuda"
    most, numbers = EXPLICIT_ON_GPU if gpu else EXPLICIT, 0
    for visit, gradient in seen:
        layer, width = visit.layer, math.prod(visit.input.shape[1:])
        if gradient is None:
            continue
        if isinstance(layer, nn.Embedding):
            numbers += 0 if width == 1 else most
        elif not isinstance(layer, nn.Linear):
            numbers += sum(parameter.numel() for parameter in layer.parameters(recurse=False))
        elif width > layer.in_features:
            places = width // layer.in_features
            worth = layer.weight.numel() <= WORTH * places * (layer.in_features + layer.out_features)
            numbers += layer.weight.numel() if worth or gpu else most
    return numbers * size <= most and not (gpu and numbers == 0 and _fast_doubles(device))


def _fast_doubles(device: torch.device) -> bool:
    """Whether the GPU computes a whole batch in float64 about as fast as its buckets in float32, one after another."""
    return torch.cuda.get_device_capability(device) in FAST_DOUBLES
