"""Which modules treat row i of a batch as record i, from the first operation to the loss: only these get their gradients by book-keeping.

Book-keeping assumes that row i of every layer belongs to record i, and that one forward pass serves all records. A function's results do
not show this. A module that sorts its rows and puts them back, or calls a layer twice if any record needs it, gives every record the loss
that it would have alone; yet its layers see other records' rows (law 12). So before any record goes through a module, it is run once on
tensors that have a shape and no values. Whatever reads a value fails there, so at this shape the operations are the same whatever the
records hold; and each operation must be torch's own, and known to keep rows apart. A loss may not depend on how many rows there are: with
another number of rows, the operations, their numbers and the constants they take must be the same. Nothing of the module may change, and
nothing is drawn but dropout's chance for each number. All others see one unit at a time (`explicit`).
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from synthdp.seal.gradients.module_state import PLAIN, copied, layer_state, plain, state

Loss = Callable[[nn.Module, Tensor], Tensor]


class Mixes(Exception):
    """An operation that may mix rows, or is not known."""


_FOLLOWING = ContextVar("following", default=False)


def following() -> bool:
    """Whether rows without values are being followed. A function of synthdp's that treats rows one by one, but groups them for speed, then
    only returns a tensor of the right shape."""
    return _FOLLOWING.get()


class Failures(TorchFunctionMode):
    """Knows whether something failed, also where a module catches that and goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = False

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            self.look(func)
            return func(*args, **(kwargs or {}))
        except Exception:
            self.failed = True
            raise

    def look(self, func: Any) -> None:
        """What is looked at of each call before it is made."""


class _Calls(Failures):
    """Refuses hooks, which may do anything to gradients, and what reads values."""

    def look(self, func: Any) -> None:
        name = getattr(func, "__name__", "")
        if name.startswith("register_") or name in READS:
            raise Mixes(name)


# Past all operations.
READS = {
    "numpy", "tolist", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage", "__repr__", "__str__", "__format__",
    "__reduce_ex__",
}  # fmt: skip
REFERENCE = 67  # rows: a number that no width is likely to be a multiple of
ALIKE = 0  # of tensors whose rows are all the same, such as zeros; else how many rows of a tensor belong to each record
# Shapes alone tell whether rows stay apart: in the order of numbers, each record's lie together.
VIEWS = {"view", "_unsafe_view", "reshape", "_reshape_alias", "view_as"}
COPIES = {"fill_", "detach", "alias", "clone", "_to_copy", "contiguous", "lift_fresh", "copy_", "detach_", "positive"}
CHANCE = {"native_dropout", "bernoulli", "bernoulli_"}  # each number's own
MADE_ALIKE = {"zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}
# Along the dimensions that they name, of which the first is none.
ALONG = {
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "var", "std", "var_mean", "logsumexp",
    "linalg_vector_norm", "norm", "_softmax", "_safe_softmax", "_log_softmax", "cumsum", "cumprod", "sort", "topk", "median",
    "kthvalue", "cat", "stack", "split", "split_with_sizes", "unbind", "select", "slice", "unsqueeze", "squeeze", "flip", "roll",
    "gather", "scatter", "scatter_", "scatter_add", "index_select", "transpose", "glu", "_softmax_backward_data",
    "_log_softmax_backward_data", "select_backward", "slice_backward",
}  # fmt: skip
# Over the last dimensions, as many as the name says.
PLACES = {
    "max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "adaptive_max_pool2d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_linear1d", "upsample_bilinear2d", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d",
}  # fmt: skip
# torch itself marks those of the second line as pointwise only since 2.13.
POINTWISE = {
    "hardswish", "where", "masked_fill", "masked_fill_", "_prelu_kernel", "log_sigmoid_forward", "hardtanh", "addcmul",
    "leaky_relu", "leaky_relu_", "celu_", "elu_", "selu_", "hardsigmoid_", "hardtanh_",
}  # fmt: skip
REDUCED = {
    "binary_cross_entropy_with_logits", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "nll_loss_forward",
    "nll_loss2d_forward",
}  # fmt: skip
ATTENTION = {"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention"}
# Layers of torch that treat rows alike, and the fewest and most dimensions of their inputs.
LAYERS: dict[type[nn.Module], tuple[int, int]] = {
    nn.Linear: (2, 99),
    nn.Embedding: (1, 99),
    nn.Conv1d: (3, 3),
    nn.Conv2d: (4, 4),
    nn.Conv3d: (5, 5),
    nn.ConvTranspose1d: (3, 3),
    nn.ConvTranspose2d: (4, 4),
    nn.ConvTranspose3d: (5, 5),
    nn.GroupNorm: (2, 99),
    nn.LayerNorm: (2, 99),
    nn.RMSNorm: (2, 99),
    nn.InstanceNorm1d: (3, 3),
    nn.InstanceNorm2d: (4, 4),
    nn.InstanceNorm3d: (5, 5),
}


class _Rows(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the rows of `count` records through the operations of a module. `known` did that for another number of them."""

    def __init__(self, module: nn.Module, count: int, known: "_Rows | None") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count, self.known, self.within, self.failed = count, known, 0, False
        self.own = {id(each) for each in (*module.parameters(), *module.buffers())}
        self.states: dict[nn.Module, Any] = {}  # of the layers of torch
        self.made: dict[int, Tensor] = {}  # all of them, so that none comes from elsewhere
        self.held: dict[int, tuple[Tensor, int]] = {}  # tensors with rows, kept so that no other gets their place
        self.views: set[int] = set()  # those made that show what there was before
        self.alike: set[int] = set()  # after how many steps tensors were made whose rows are all the same
        self.constants: list[Tensor] = []  # with values, and not the module's
        self.done: list[Any] = []  # what was done

    def mark(self, tensor: Tensor, each: int) -> None:
        self.held[id(tensor)] = tensor, each

    def of(self, value: Any) -> int | None:
        """How many rows of it belong to each record; None if it depends on no record."""
        found = self.held.get(id(value))
        return None if found is None else found[1]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            found = self._followed(func, args, kwargs or {})
        except Exception:
            self.failed = True  # also where the module catches it, and does something else
            raise
        self.made |= {id(each): each for each in _tensors([found])}
        return found

    def _followed(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = func(*args, **kwargs)
        space, _, name = func._schema.name.partition("::")
        if space not in ("aten", "prim"):
            raise Mixes(func._schema.name)
        if self.within or space == "prim" or name.startswith("sym_"):
            return found
        wanted = func._schema.arguments
        named = {each.name: each.default_value for each in wanted if each.has_default_value()}
        named |= dict(zip((each.name for each in wanted), args, strict=False)) | dict(kwargs)
        tensors = list(_tensors(named.values()))
        made = list(_tensors([found]))
        drawn = torch.Tag.nondeterministic_seeded in func.tags and (name not in CHANCE or named.get("generator"))
        others = [each for each in tensors if not self._seen(each)]
        # A tensor without values that nobody saw being made may hold rows.
        if drawn or any(map(_is_fake, others)) or self._keeps(func, named, made):
            raise Mixes(name)
        self.constants += [each for each in others if id(each) not in self.own]
        known = [self.of(each) for each in tensors]
        if not any(known):  # no rows, or rows that are all the same
            told = [each for each in known if each is not None]
            if told and not (len(told) == len(known) and (torch.Tag.pointwise in func.tags or name in COPIES)):
                raise Mixes(name)
            alike = told or name in MADE_ALIKE or _spread(name, named)
            # A width may happen to be a multiple of the rows: of another number of rows it was none.
            if alike and (self.known is None or len(self.done) in self.known.alike):
                for each in made:
                    if each.dim() and each.shape[0] % self.count == 0:
                        self.alike.add(len(self.done))
                        self.mark(each, ALIKE)
        else:
            rows = self._kept(func, name, named, tensors, made)
            for each in made:
                self.mark(each, rows)
        rows, numbers = self._numbers(name, named)
        self.done.append((name, rows, numbers))
        return found

    def _seen(self, tensor: Tensor) -> bool:
        """Whether it was made meanwhile."""
        return id(tensor) in self.made or self.of(tensor) is not None

    def _keeps(self, func: Any, named: Mapping[str, Any], made: Sequence[Tensor]) -> bool:
        """Whether an operation writes into what was there before, where the next pass would find it. Views of that are noted."""
        there = {id(each) for each in _tensors(named.values()) if not self._seen(each)} | self.views
        written = [each.name for each in func._schema.arguments if each.alias_info and each.alias_info.is_write]
        views = any(each.alias_info and not each.alias_info.is_write for each in func._schema.returns)
        if views and any(id(each) in there for each in _tensors(named.values())):
            self.views |= set(map(id, made))
        return any(id(each) in there for each in _tensors(named[name] for name in written))

    def _numbers(self, name: str, named: Mapping[str, Any]) -> tuple[int, list[Any]]:
        """The number that may be one of rows, 0 if there is none, and all other numbers of an operation."""
        rows, found = 0, []
        for each, value in named.items():
            if (name, each) == ("native_group_norm", "N"):
                rows = value
            elif each in SHAPES and name in VIEWS | MADE_ALIKE | {"expand", "repeat"} and value:
                rows, *others = value
                found.append(others)
            elif not isinstance(value, Tensor):
                found.append(_plain_numbers(value))
        return rows, found

    def same(self, other: "_Rows") -> bool:
        """Whether the same was done as with another number of rows, in all but that number."""
        if len(self.done) != len(other.done) or len(self.constants) != len(other.constants):
            return False
        pairs = zip(self.done, other.done, strict=True)
        numbers = all(
            (name, numbers) == (known, others) and (rows == theirs or rows * other.count == theirs * self.count)
            for (name, rows, numbers), (known, theirs, others) in pairs
        )
        return numbers and all(map(_equal, self.constants, other.constants))

    def _kept(
        self, func: Any, name: str, named: Mapping[str, Any], tensors: Sequence[Tensor], made: Sequence[Tensor]
    ) -> int:
        """How many rows of the result belong to each record. Raises `Mixes`."""
        (each, *others) = {rows for tensor in tensors if (rows := self.of(tensor))}
        if others:
            raise Mixes(name)
        if name in MADE_ALIKE and not name.endswith("_like"):
            return ALIKE
        made = made[:1] if name.startswith("nll") else made
        if name in VIEWS:
            (result,) = made
            if result.dim() == 0 or result.shape[0] == 0 or result.shape[0] % self.count:
                raise Mixes(name)
            return int(result.shape[0]) // self.count
        if any(result.dim() == 0 or result.shape[0] != each * self.count for result in made):
            raise Mixes(name)
        first, deepest = tensors[0], max(result.dim() for result in made)
        if name.endswith("_like"):
            known = len(tensors) == 1
        elif name == "copy_":
            known = self._aligned(tensors, deepest)
        elif name in COPIES | CHANCE:
            known = True
        elif torch.Tag.pointwise in func.tags or name in POINTWISE:
            known = self._aligned(tensors, deepest)
        elif name in ALONG:
            known = self._along(name, named, first) and self._aligned(tensors, first.dim())
        elif name == "permute":
            known = int(named["dims"][0]) == 0
        elif name == "expand":
            known = first.dim() == deepest
        elif name == "repeat":
            known = first.dim() == len(named["repeats"]) and named["repeats"][0] == 1
        elif name in ("tril", "triu"):
            known = first.dim() > 2
        elif name == "convolution":
            known = first is named["input"] and sum(self.of(other) is not None for other in tensors) == 1
        elif name in PLACES:
            known = first.dim() > int(next(letter for letter in name if letter.isdigit()))
        elif name == "constant_pad_nd":
            known = first.dim() > len(named["pad"]) // 2
        elif name in REDUCED:
            weight = named.get("weight")
            classes = name.startswith("nll") and self.of(named["target"]) is not None
            classes = classes and (weight is None or self.of(weight) is None)
            known = named.get("reduction") == 0 and (classes or self._aligned(tensors, first.dim()))
        elif name in ATTENTION or name == "bmm":
            known = first.dim() > 2 and all(self.of(other) == each for other in tensors)
        elif name in ("mm", "addmm"):
            left, right = (named["self"], named["mat2"]) if name == "mm" else (named["mat1"], named["mat2"])
            known = self.of(left) == each and all(self.of(other) is None for other in tensors if other is not left)
            known = known and right.dim() == 2 and (name == "mm" or named["self"].dim() == 1)
        elif name == "mv":
            known = self.of(named["self"]) == each and self.of(named["vec"]) is None
        elif name == "embedding":
            known = self.of(named["weight"]) is None
        elif name == "index":
            known = self._looked_up(named)
        elif name in ("native_layer_norm", "native_group_norm"):
            known = first is named["input"] and sum(self.of(other) is not None for other in tensors) == 1
            known = known and first.dim() > len(named.get("normalized_shape", (0,)))
        else:
            known = False
        if not known:
            raise Mixes(name)
        return each

    def _aligned(self, tensors: Sequence[Tensor], deepest: int) -> bool:
        """Whether the rows of all tensors that have some stand at the same places, and all else is the same for every row."""
        for each in tensors:
            held = self.of(each)
            if held is not None and each.dim() != deepest:
                return False
            if held is None and each.dim() == deepest and deepest and each.shape[0] != 1:
                return False
        return True

    def _along(self, name: str, named: Mapping[str, Any], first: Tensor) -> bool:
        given = [named[each] for each in ("dim", "dims", "dim0", "dim1") if each in named]
        dims = [dim for each in given for dim in (each if isinstance(each, list | tuple) else [each])]
        if name.startswith("scatter"):  # which takes some rows, where there are fewer of these
            there = [named[each] for each in ("index", "src") if isinstance(named.get(each), Tensor)]
            if not all(self.of(each) and each.shape[0] == first.shape[0] for each in there):
                return False
        if name == "slice" or (name == "squeeze" and not dims):  # the first dimension is as long as before
            return self.count > 1
        deepest = first.dim() + (name in ("stack", "unsqueeze"))
        return bool(dims) and all(isinstance(dim, int) and dim % max(1, deepest) != 0 for dim in dims)

    def _looked_up(self, named: Mapping[str, Any]) -> bool:
        """Whether a table that depends on no record is looked up at each record's places, or every row gives the same columns."""
        table, places = named["self"], [place for place in named["indices"] if place is not None]
        if self.of(table) is None:
            there = len(places) == len(named["indices"]) or named["indices"][: len(places)] == places
            return there and self._aligned(places, max(place.dim() for place in places))
        return named["indices"][0] is None and len(places) == 1 and self.of(places[0]) is None

    def before(self, layer: nn.Module, args: Sequence[Any]) -> tuple[Tensor]:
        """Take a layer of torch as one operation. Its input gets the type of its weights, as it does in buckets and in float64."""
        each = self.of(args[0]) if len(args) == 1 else None
        least, most = LAYERS[type(layer)]
        if not each or not least <= args[0].dim() <= most:
            raise self._failure(layer)
        if isinstance(layer, nn.LayerNorm | nn.RMSNorm) and len(layer.normalized_shape) >= args[0].dim():
            raise self._failure(layer)
        if layer_state(layer) != self.states[layer]:  # such as `functional_call` lends it
            raise self._failure(layer)
        self.within += 1
        own = next((value for value in layer._parameters.values() if value is not None), args[0])
        given: Tensor = args[0].to(own.dtype) if args[0].is_floating_point() else args[0]
        self.mark(given, each)
        return (given,)

    def _failure(self, layer: nn.Module) -> Mixes:
        self.failed = True
        return Mixes(type(layer).__name__)

    def after(self, layer: nn.Module, args: Sequence[Any], output: Any) -> None:
        """The output of the layer has the rows of its input."""
        self.within -= 1
        self.mark(output, self.of(args[0]) or ALIKE)
        self.done.append((type(layer).__name__, 0, []))


def _spread(name: str, named: Mapping[str, Any]) -> bool:
    """Whether something that depends on no record is repeated for every row."""
    if name not in ("expand", "repeat"):
        return False
    value, size = named["self"], named["size" if name == "expand" else "repeats"]
    return bool(value.dim() < len(size) or value.shape[0] == 1) and (name == "expand" or value.dim() < len(size))


SHAPES = {"size", "shape", "repeats"}  # what operations call them


def _plain_numbers(value: Any) -> Any:
    """What can be compared of an argument."""
    if isinstance(value, list | tuple):
        return [_plain_numbers(each) for each in value]
    return value if type(value) in PLAIN or isinstance(value, torch.dtype) else type(value)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.dtype == other.dtype and torch.equal(one, other))


def _is_fake(tensor: Tensor) -> bool:
    return type(tensor).__name__ == "FakeTensor"


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _tried(module: nn.Module, loss: Loss, like: Tensor, count: int, known: _Rows | None) -> _Rows | None:
    """The operations of a module and its loss on `count` rows like these; None where rows may be mixed."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if any(layer._backward_hooks or layer._backward_pre_hooks for layer in module.modules()) or _hooks_of_all():
        return None
    token = _FOLLOWING.set(True)
    try:
        tried = copied(module)  # what it would keep is no tensor without values
        calls, mode = _Calls(), _Rows(tried, count, known)
        for layer in tried.modules():
            if type(layer) in LAYERS and plain(layer):
                layer.register_forward_pre_hook(mode.before)
                layer.register_forward_hook(mode.after)
                mode.states[layer] = layer_state(layer)
        before = state(tried)
        with (
            FakeTensorMode(allow_non_fake_inputs=True),
            torch.enable_grad(),
            torch.autograd.graph.disable_saved_tensors_hooks("they may mix rows"),
        ):
            rows = torch.empty((count, *like.shape[1:]), dtype=like.dtype, device=like.device)
            mode.mark(rows, 1)
            with calls, mode:
                losses = loss(tried, rows)
        kept = mode.of(losses) == 1 and losses.shape == (count,) and not _own_gradients(losses)
        whole = not (calls.failed or mode.failed or mode.within) and state(tried) == before
        return mode if kept and whole and (known is None or known.same(mode)) else None
    except Exception:  # whatever it is that fails without values
        return None
    finally:
        _FOLLOWING.reset(token)


def _hooks_of_all() -> bool:
    """Whether there are hooks of all modules."""
    held = nn.modules.module
    return bool(held._global_forward_hooks or held._global_forward_pre_hooks or held._global_backward_hooks)


def _own_gradients(losses: Tensor) -> bool:
    """Whether gradients go through a function whose backward pass is not torch's."""
    known: set[Any] = set()
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if isinstance(node, BackwardCFunction):
            return True
        if node is not None and node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions]
    return False


KEPT = 64  # modules, losses and shapes that are remembered
_KNOWN: OrderedDict[tuple[Any, ...], tuple[Any, bool]] = OrderedDict()


def row_wise(module: nn.Module, loss: Loss, rows: Tensor, lines: Any = None, own: nn.Module | None = None) -> bool:
    """Whether a module and its loss keep rows of this shape apart, and do the same with `REFERENCE` rows. The answer is remembered by
    loss and module. `lines` stands for the loss, and is shared by all losses made from the same lines of code (None: only this loss); `own`
    stands for a module that is made anew each time."""
    own = own or module
    owner = getattr(loss, "__self__", None)
    place = (id(own), module is own, state(own), id(owner), lines or loss, rows.dtype, rows.device, rows.shape)
    if place not in _KNOWN:
        first = _tried(module, loss, rows, REFERENCE, None)
        apart = first is not None and _tried(module, loss, rows, len(rows), first) is not None
        _KNOWN[place] = (own, owner), apart
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN[place][1]
