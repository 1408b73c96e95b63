"""A device that is not the CPU, without one: tensors that say they lie elsewhere, and compute here.

`Away` tensors report another device and hold ordinary ones. Inside of `Elsewhere()` an operation on them runs on what they hold,
so that a whole fit can be run "on the device" and compared, bit for bit, with one on the CPU; one that mixes them with tensors
of the CPU raises, as on a GPU, and so does `.numpy()`. Wherever the CPU would have to wait for the device (a number that is read,
a copy back, a shape that depends on values) the innermost line of the package is noted.
"""

import importlib
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import synthdp
from synthdp.generators.parts import devices

DEVICE = torch.device("meta")  # any but the CPU; this one is compiled into every build of torch
HOME = str(Path(synthdp.__file__).parent)
ATEN = torch.ops.aten
SHAPED = {  # their results' shapes depend on values: a GPU has to say how many there are
    ATEN.nonzero.default,
    ATEN.masked_select.default,
    ATEN.bincount.default,
    ATEN._unique2.default,
    ATEN.equal.default,
    ATEN.repeat_interleave.Tensor,
}
INDEXED = {ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default, ATEN._index_put_impl_.default}
RESHAPED = {ATEN.squeeze_.dim, ATEN.squeeze_.default, ATEN.unsqueeze_.default, ATEN.t_.default, ATEN.transpose_.default}


class Mixed(RuntimeError):
    """Tensors of two devices in one operation."""


class Away(torch.Tensor):
    """A tensor elsewhere; `held` is what it holds."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), held.stride(), held.storage_offset(), dtype=held.dtype, device=DEVICE
        )

    def __init__(self, held):
        self.held = held

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("a tensor elsewhere was used outside of `Elsewhere()`")


class Elsewhere(TorchDispatchMode):
    """`waits` counts the places of the package, as file:function, at which the CPU waited for the device; `sent` the bytes that
    were copied there."""

    def __init__(self):
        super().__init__()
        self.waits = Counter()
        self.operations = self.sent = 0
        self._seeds = set()  # of generators that lie elsewhere: an operation is not given the same object

    def chance(self, device, seed):
        """As `devices.chance`."""
        if device.type != "cpu":
            self._seeds.add(seed)
        return torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
        away = [each for each in given if isinstance(each, Away)]
        asked = kwargs.get("device")
        there = bool(away) if asked is None else torch.device(asked).type == DEVICE.type
        if asked is not None and there:
            kwargs["device"] = torch.device("cpu")
        self._check(func, given, away, args, kwargs, there)
        self.operations += there
        known = {id(each.held): each for each in away}
        if func in RESHAPED and away:
            with no_dispatch():
                func(*args, **kwargs)  # of the shape that the tensor reports
        args, kwargs = tree_map(_held, (args, kwargs))
        found = func(*args, **kwargs)
        if func is ATEN._to_copy.default and away and not there:
            return found
        return tree_map(lambda leaf: _away(leaf, known), found) if there else found

    def _check(self, func, given, away, args, kwargs, there):
        if func is ATEN._to_copy.default:
            if away and not there:
                self._wait()
            if there and not away:
                self.sent += args[0].nbytes
            return
        if func is ATEN.copy_.default:
            if isinstance(args[1], Away) and not isinstance(args[0], Away):
                self._wait()
            if isinstance(args[0], Away) and not isinstance(args[1], Away):
                self.sent += args[1].nbytes
            return
        if len(away) < len(given) and away and any(each.dim() for each in given if not isinstance(each, Away)):
            raise Mixed(f"{func}: tensors of two devices")
        chance = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Generator)]
        if any((each.initial_seed() in self._seeds) != there for each in chance):
            raise Mixed(f"{func}: the generator is on another device")
        if away and (func in SHAPED or func is ATEN._local_scalar_dense.default):
            self._wait()
        if func in INDEXED and any(isinstance(each, Away) and each.dtype == torch.bool for each in args[1]):
            self._wait()

    def _wait(self):
        frame = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(HOME):
            frame = frame.f_back
        place = "tests" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
        self.waits[place] += 1


def _held(leaf):
    return leaf.held if isinstance(leaf, Away) else leaf


def _away(leaf, known):
    """What came out, elsewhere: an argument that was written to is itself."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return known.get(id(leaf)) if id(leaf) in known else Away(leaf)


@contextmanager
def elsewhere(monkeypatch):
    """Every generator's `place` is there; gives the `Elsewhere`."""
    with monkeypatch.context() as patch:
        patch.setattr(devices, "place", lambda device: torch.device("cpu") if device == "cpu" else DEVICE)
        mode = Elsewhere()
        patch.setattr(devices, "chance", mode.chance)
        patch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # it knows no such device
        patch.setattr(torch, "is_autocast_enabled", lambda *_: False)
        patch.setattr(
            importlib.import_module("torch.optim.optimizer"),
            "_get_fused_kernels_supported_devices",
            lambda: ["cpu", DEVICE.type],
        )
        plain = torch.tensor
        patch.setattr(
            torch, "tensor", lambda *args, device=None, **rest: plain(*args, **rest).to(device)
        )  # goes past modes
        with mode:
            yield mode
