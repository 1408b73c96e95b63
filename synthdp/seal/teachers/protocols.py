"""What a kind of teachers is: settings that anyone may read, and what is trained from them, which stays sealed."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from synthdp.schema.codec import Codec
from synthdp.seal.checkpoint import State
from synthdp.seal.records import Codes
from synthdp.seal.teachers.partition import Parts

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

    def train(self, public: Codes | None, steps: int | None) -> None:
        """Train each teacher on its part, from where it stands; `public` are rows for its other half, if it has one."""
        ...

    def votes(self, queries: Codes) -> Votes:
        """The class that each teacher gives each query, (teachers, queries); an empty teacher gives a constant."""
        ...

    def scores(self, queries: Codes) -> Scores:
        """How far each teacher leans to class 1 of two, (teachers, queries); an empty one has NaN in its row."""
        ...

    def state(self) -> State:
        """What `restore` goes on from. It was made without noise: internal, as records are."""
        ...

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        ...


class Kind(Protocol):
    """Public settings of teachers."""

    def check(self, codec: Codec) -> int:
        """The number of classes, found on public rows; raises `BadInput` where the settings cannot work on such codes."""
        ...

    def begin(self, parts: Parts, codec: Codec, classes: int, seed: bytes) -> Ensemble:
        """Untrained teachers of as many classes as `check` found; teacher t's chances come of (seed, t) alone."""
        ...
