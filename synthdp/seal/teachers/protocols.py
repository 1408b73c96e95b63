"""What a kind of teachers is: settings that anyone may read, and what is trained from them, which stays sealed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.seal.records import Codes, Records

if TYPE_CHECKING:
    from synthdp.seal.resume import State


# ---- The records dealt to teachers: each unit to one of them, by its own secret key alone (law 19).


@dataclass(frozen=True)
class Parts:
    """The encoded records (records, columns), teacher by teacher: those of teacher t are `sizes[t]` rows from `starts[t]` on."""

    codes: Codes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def of(self, teacher: int) -> Codes:
        """The records of one teacher."""
        start = int(self.starts[teacher])
        return self.codes[start : start + int(self.sizes[teacher])]


def dealt(records: Records, count: int) -> Parts:
    """All records of a unit to teacher (key of the unit) mod `count`.

    No unit's place depends on the others, so one unit more changes one part: its records are put in where their key belongs
    (parts are ordered by key, which is a random order), and every other part stays as it is. Over neighbours the secret keys
    are the same, so that the parts are disjoint and fixed.
    """
    keys = records.keys[records.owner]
    teacher = (keys % np.uint64(count)).astype(np.int64)
    order = np.lexsort((keys, teacher))  # stable: a unit's records stay in their own order
    sizes = np.bincount(teacher, minlength=count).astype(np.int64)
    return Parts(records.encoded()[order], np.cumsum(sizes) - sizes, sizes)


Votes = NDArray[np.int64]
Scores = NDArray[np.float64]


class Ensemble(Protocol):
    """Teachers on disjoint parts. Each is a function of its own part, of its own seed and of public input alone.

    That is the whole of their privacy: whatever a teacher makes of its part, a unit more changes what one teacher says. Shapes
    and control flow depend on public numbers; content never raises (law 32).
    """

    classes: int

    @property
    def count(self) -> int:
        """The number of teachers: public."""
        ...

    @property
    def trained(self) -> bool:
        """Whether `train` was called, ever: public."""
        ...

    def train(self, public: Codes | None) -> None:
        """Train each teacher on its part, from where it stands; `public` are rows for its other half, if it has one."""
        ...

    def votes(self, queries: Codes) -> Votes:
        """The class that each teacher gives each query, (teachers, queries); an empty teacher gives a constant."""
        ...

    def scores(self, queries: Codes) -> Scores:
        """How far each teacher leans to class 1 of two, (teachers, queries); an empty one has NaN in its row."""
        ...

    def state(self) -> "State":
        """What `restore` goes on from. It was made without noise: internal, as records are."""
        ...

    def restore(self, state: "State") -> None:
        """The inverse of `state`."""
        ...


class Kind(Protocol):
    """Public settings of teachers; a frozen dataclass. `functions` names the fields that hold functions, which see records."""

    functions: ClassVar[tuple[str, ...]]

    def check(self, codec: Codec) -> int:
        """The number of classes, found on public rows; raises `BadInput` where the settings cannot work on such codes."""
        ...

    def begin(self, parts: Parts, codec: Codec, classes: int, seed: bytes) -> Ensemble:
        """Untrained teachers of as many classes as `check` found; teacher t's chances come of (seed, t) alone."""
        ...


# ---- What teachers refuse, found on public rows before any record is read.


ROWS = 32
MIXING = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)
CHANCE = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def public_rows(codec: Codec) -> Codes:
    """Some rows that are nobody's, (ROWS, columns): codes from all over every column's domain, always the same."""
    return np.random.default_rng(0).integers(0, codec.sizes, (ROWS, len(codec.sizes))).astype(np.int32)


def check_module(module: nn.Module) -> None:
    """Refuse what mixes rows, keeps a state or draws chance that copies would share, and what has nothing to train."""
    for name, layer in module.named_modules():
        where = name or "module"
        if isinstance(layer, MIXING) or (
            isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats
        ):
            raise BadInput(f"{where} ({type(layer).__name__}) mixes records; use LayerNorm or GroupNorm in teachers")
        if isinstance(layer, CHANCE) and getattr(layer, "p", 1.0) > 0:
            raise BadInput(
                f"{where} ({type(layer).__name__}) draws random numbers that all copies would share; leave it out of teachers"
            )
    if not any(value.requires_grad for value in module.parameters()):
        raise BadInput("module of teachers has no parameters to train")
    if any(not value.is_floating_point() for value in module.parameters()):
        raise BadInput("module of teachers must have floating-point parameters")


def check_row_by_row(features: Callable[[Any], Any], codes: Any, *, exact: bool = False) -> None:
    """Refuse features that say of a row what depends on the others; `exact`: also by rounding, as matrix products do. What rounding
    leaves of a number near zero is as large as the feature's other numbers make it.

    `codes` are an array or a tensor, as features take them.
    """
    together = np.asarray(features(codes))
    if together.shape[:1] != codes.shape[:1]:
        raise BadInput(f"features must give one row of numbers per record, got shape {together.shape}")
    alone = np.concatenate([np.asarray(features(codes[place : place + 1])) for place in range(len(codes))])
    largest = np.max(np.abs(alone), axis=0, initial=1.0, where=np.isfinite(alone))
    same = np.array_equal if exact else partial(np.allclose, rtol=1e-4, atol=1e-6 * largest)
    if not same(together, alone, equal_nan=True):
        raise BadInput("features must treat each record on its own; these depend on the other records of the batch")


def first_line(error: Exception) -> str:
    """What a library says of public rows, in one line."""
    return (str(error).splitlines() or [""])[0]
