"""One fit in several processes: each holds a shard of the units, exact sums are added up inside the seal, noise is drawn once.

Every unit lies in one shard, by its secret keyed name, and the sum over units is the sum of the shards' sums; so what is
noised, how it is noised and what is charged are those of a single process. A question that is a function of counts, such as a
choice, is asked of the counts of all shards in every process. The processes trust each other (they pass on exact
sums), which the statement says. Between W processes that distrust each other each would have to add noise of its own, of
variance sigma^2 / (W - 1), and the sum would need secure aggregation: not built here.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.ledger.events import Capped, Event, Plan, Revealed, Threshold, Vote, inner
from synthdp.seal.records import Cliques, Countable, Counts, Groupings

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

NO_SUMS: dict[type[Event], str] = {  # events of questions that no shard can answer a part of -> what to do about it
    Threshold: "categories can be learned in one process only: declare them in the schema, or fit without torchrun",
    Vote: "teachers learn in one process only: fit without torchrun",
    Revealed: "records can be revealed in one process only: fit without torchrun",
    Capped: "questions under a cap, such as a choice, can be asked in one process only: fit without torchrun",
}


class Ranks:
    """The processes of one fit, numbered from 0; the first one charges, draws the noise and writes. This is a fit in one process, which
    passes nothing on."""

    rank, world = 0, 1

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """After a fit. One that failed leaves the group: the others fail, too, rather than wait for a sum, or take what belongs to the next
        fit of this process for theirs."""

    def wait(self) -> None:
        """Until all have come here: what the first one has charged may now be read."""

    def total(self, values: Any) -> Any:
        """The sum over all processes of numbers, arrays, gradients, or lists of them."""
        return values

    def told(self, values: Any) -> Any:
        """What the first process holds; bytes, or as for `total`, of the same shapes everywhere."""
        return values


class Together(Ranks):
    """The processes of an initialised `torch.distributed` group (gloo: numbers travel as CPU tensors; nccl: on the device)."""

    def __init__(self) -> None:
        from torch import distributed

        if not distributed.is_initialized():
            raise BadInput("torch.distributed has no process group: call init_process_group, or start with torchrun")
        self._group = distributed
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()
        self._device = "cuda" if distributed.get_backend() == "nccl" else "cpu"

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._group.destroy_process_group()

    def wait(self) -> None:
        """A barrier."""
        with _others():
            self._group.barrier()

    def total(self, values: Any) -> Any:
        """One all-reduce, in float64, which real sums stay in; each leaf's sum is on the leaf's device."""
        import torch

        leaves: list[torch.Tensor] = []
        _walk(values, lambda leaf: _kept(leaves, leaf))
        flat = torch.cat([torch.zeros(0, dtype=torch.float64), *(leaf.reshape(-1).double().cpu() for leaf in leaves)])
        flat = flat.to(self._device)
        with _others():
            self._group.all_reduce(flat)
        parts = iter(torch.split(flat.cpu(), [leaf.numel() for leaf in leaves]))

        def summed(leaf: "torch.Tensor") -> "torch.Tensor":
            kept = torch.float64 if leaf.is_floating_point() else leaf.dtype
            return next(parts).to(leaf.device, kept).reshape(leaf.shape)

        return _walk(values, summed)

    def told(self, values: Any) -> Any:
        """One broadcast per array."""

        def heard(leaf: "torch.Tensor") -> "torch.Tensor":
            here = leaf.detach().clone().to(self._device)
            with _others():
                self._group.broadcast(here, 0)
            return here.to(leaf.device)

        return _walk(values, heard)


@contextmanager
def _others() -> Iterator[None]:
    try:
        yield
    except RuntimeError:  # of torch, which tells of addresses
        raise BadInput(
            "another process of this fit has ended, and its own message says why; what was charged stays charged"
        ) from None


ALONE = Ranks()


def joined() -> Ranks:
    """The processes that torchrun started with this one, or this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return ALONE
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return Together()


def check_plan(plan: Plan, ranks: Ranks) -> None:
    """Refuse a plan that holds a question that shards cannot answer together, while nothing is charged yet."""
    if ranks.world > 1:
        for entry in plan:
            for event in (entry.event, *inner(entry.event)):
                if type(event) in NO_SUMS:
                    raise BadInput(NO_SUMS[type(event)])


def check_shared(question: Any, ranks: Ranks) -> None:
    """Refuse a question whose exact value is neither the sum of its values on the shards nor a function of counts."""
    if ranks.world > 1 and not (getattr(question, "additive", False) or getattr(question, "of_counts", False)):
        raise BadInput(
            f"{type(question).__name__} cannot be asked of records that {ranks.world} processes share: fit in one process, or "
            "declare in the schema what would be learned"
        )


@dataclass(frozen=True, repr=False)
class AllShards:
    """What questions about counts need of a store: the counts of all shards."""

    records: Countable
    ranks: Ranks

    @property
    def units(self) -> int:
        """Those of all shards."""
        return int(self.ranks.total(self.records.units))

    @property
    def max_records(self) -> int:
        """The same in every shard."""
        return self.records.max_records

    def counts(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """One sum over the processes."""
        found: list[Counts] = self.ranks.total(self.records.counts(cliques, sizes, groups))
        return found

    def weights(self, cliques: Cliques, sizes: Sequence[int], groups: Groupings = None) -> list[Counts]:
        """One sum over the processes."""
        found: list[Counts] = self.ranks.total(self.records.weights(cliques, sizes, groups))
        return found


def _kept(leaves: "list[torch.Tensor]", leaf: "torch.Tensor") -> "torch.Tensor":
    leaves.append(leaf)
    return leaf


def _walk(value: Any, change: "Callable[[torch.Tensor], torch.Tensor]") -> Any:
    """The same structure with every number or array changed."""
    import torch

    from synthdp.seal.gradients.bound import Gradients

    if isinstance(value, Gradients):
        return Gradients(change(value.flat), value)
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, np.ndarray):
        return change(torch.from_numpy(np.asarray(value, order="C"))).numpy()
    if isinstance(value, bytes):
        return change(torch.frombuffer(bytearray(value), dtype=torch.uint8)).numpy().tobytes()
    if isinstance(value, int | float):
        return type(value)(change(torch.tensor([value], dtype=torch.float64)).item())
    if isinstance(value, list | tuple):
        return type(value)(_walk(item, change) for item in value)
    raise BadInput(f"a {type(value).__name__} cannot pass between the processes of a fit")
