"""What can be asked of sealed records: one question a file, with its event, its bound, its noise and its replay case."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from synthdp.privacy.events import Event
from synthdp.privacy.noise import Noise
from synthdp.privacy.store import Records

Answer = TypeVar("Answer", covariant=True)


class Question(Protocol[Answer]):
    """A frozen value. `bounded` is what the records say before noise: when one unit is added or removed it moves by at most
    `sensitivity` in the sense of `movement`; `noised` turns it into the answer.
    """

    @property
    def events(self) -> Sequence[Event]:
        """What is charged, one event per vector group."""
        ...

    @property
    def sensitivity(self) -> float:
        """The most that `bounded` moves when one unit is added or removed."""
        ...

    def bounded(self, records: Records) -> Any:
        """The exact value, every unit's contribution bounded."""
        ...

    def noised(self, bounded: Any, noise: Noise) -> Answer:
        """The answer: `bounded` with fresh noise."""
        ...

    def movement(self, one: Any, other: Any) -> float:
        """How far apart two bounded values are: what replay compares with `sensitivity`."""
        ...
