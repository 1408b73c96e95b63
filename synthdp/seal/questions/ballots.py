"""What teachers on disjoint parts say together: one question, whatever the way in which their votes are added up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from synthdp.errors import BadInput
from synthdp.ledger.events import Event
from synthdp.noise.noise import Noise
from synthdp.seal.questions import is_own
from synthdp.seal.records import Codes, Records, Sealed

if TYPE_CHECKING:
    from synthdp.seal.teachers.protocols import Ensemble

Said = TypeVar("Said", covariant=True)


class Aggregator(Protocol[Said]):
    """A frozen value: how teachers' answers to a batch of queries are added up and noised.

    `bounded` moves by at most `sensitivity`, in the sense of `movement`, when one teacher changes arbitrarily, which is what a
    unit more can do to it.
    """

    def check(self, queries: int, classes: int) -> None:
        """Raise `BadInput` where it cannot be asked of so many queries, of teachers that know so many classes."""
        ...

    def events(self, queries: int) -> Sequence[Event]:
        """What is charged for a batch of so many queries, always in full."""
        ...

    def sensitivity(self, queries: int) -> float:
        """The most that `bounded` moves."""
        ...

    def bounded(self, ensemble: "Ensemble", queries: Codes) -> Any:
        """What the teachers say, exactly."""
        ...

    def noised(self, bounded: Any, noise: Noise, teachers: int) -> Said:
        """The answer."""
        ...

    def movement(self, one: Any, other: Any) -> float:
        """How far apart two bounded values are."""
        ...


@dataclass(frozen=True)
class Ballot:
    """What is sealed of teachers: they, and the records that they were made of."""

    records: Records
    ensemble: "Ensemble"


@dataclass(frozen=True, eq=False)
class Voted(Generic[Said]):
    """Teachers asked about public `queries`, codes (queries, columns), through an aggregator.

    One unit is in one teacher's part, so that a unit more changes what one teacher says, arbitrarily, and nothing else. It is
    asked of all records; of a sample, or of other records than the teachers' own, it is refused.
    """

    sealed: Sealed[Ballot]
    teachers: int
    queries: Codes
    aggregator: Aggregator[Said]

    def __post_init__(self) -> None:
        if not is_own(type(self.aggregator)):
            raise BadInput(
                f"{type(self.aggregator).__name__} is not one of the house's aggregators (questions/votes.py)"
            )

    @property
    def events(self) -> Sequence[Event]:
        """The aggregator's."""
        return self.aggregator.events(len(self.queries))

    @property
    def sensitivity(self) -> float:
        """The aggregator's."""
        return self.aggregator.sensitivity(len(self.queries))

    def bounded(self, records: Records) -> Any:
        """What the teachers say, exactly."""
        ballot = self.sealed.read()
        if ballot.records is not records:
            raise BadInput(
                "teachers answer for all of the records that they were made of: not for a sample, nor for others"
            )
        return self.aggregator.bounded(ballot.ensemble, self.queries)

    def noised(self, bounded: Any, noise: Noise) -> Said:
        """The aggregator's answer."""
        return self.aggregator.noised(bounded, noise, self.teachers)

    def movement(self, one: Any, other: Any) -> float:
        """The aggregator's."""
        return self.aggregator.movement(one, other)
