"""Sealed teachers: a generator can train them and ask them, and has nothing else of them (Papernot et al. 2017)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Event
from synthdp.noise.noise import Noise
from synthdp.schema.codec import Codec
from synthdp.seal.callbacks import Guarded
from synthdp.seal.questions import Answer, is_own
from synthdp.seal.records import Codes, Records, Sealed, reading
from synthdp.seal.teachers.protocols import Kind, dealt

if TYPE_CHECKING:
    from synthdp.seal.door import Sensitive
    from synthdp.seal.resume import State
    from synthdp.seal.teachers.protocols import Ensemble


# ---- What teachers on disjoint parts say together: one question, whatever the way in which their votes are added up.


Said = TypeVar("Said", covariant=True)
DEALT = "dealt"


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
    """The sealed part of teachers: the teachers themselves, the records that they were made from, and a keyed digest of how these were
    dealt to them."""

    records: Records
    ensemble: "Ensemble"
    dealt: NDArray[np.uint8]

    def state(self) -> "State":
        """What `partitioned` goes on from."""
        return {**self.ensemble.state(), DEALT: self.dealt}


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
                f"{type(self.aggregator).__name__} is not one of synthdp's own aggregators (seal/teachers/vote_aggregation.py)"
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
                "teachers answer only for all of the records that they were made from, not for a sample or for other records"
            )
        return self.aggregator.bounded(ballot.ensemble, self.queries)

    def noised(self, bounded: Any, noise: Noise) -> Said:
        """The aggregator's answer."""
        return self.aggregator.noised(bounded, noise, self.teachers)

    def movement(self, one: Any, other: Any) -> float:
        """The aggregator's."""
        return self.aggregator.movement(one, other)


class Teachers:
    """`count` teachers on disjoint parts of the units, made by `Sensitive.partition`.

    Nothing of them can be read but noisy answers to questions that are charged first: `ask`.
    """

    def __init__(self, data: "Sensitive", sealed: Sealed[Ballot], count: int, classes: int) -> None:
        self._data, self._sealed = data, sealed
        self.count = count
        self.classes = classes

    def train(self, public: NDArray[Any] | None = None) -> None:
        """Train every teacher on its own part, inside the seal; called again, it goes on from where it was.

        `public` are generated rows, codes (rows, columns), for teachers that tell real rows from them. Costs nothing: nothing leaves.
        """
        rows = None if public is None else self._checked(public, "public")
        with reading():
            self._sealed.read().ensemble.train(rows)

    def ask(self, queries: NDArray[Any], aggregator: Aggregator[Answer]) -> Answer:
        """Charge the aggregator's events, then let all teachers vote on public `queries`, codes (queries, columns)."""
        return self._data.ask(self.question(queries, aggregator))

    def question(self, queries: NDArray[Any], aggregator: Aggregator[Answer]) -> Voted[Answer]:
        """The question behind `ask`, for who asks under a cap."""
        rows = self._checked(queries, "queries")
        aggregator.check(len(rows), self.classes)
        with reading():
            trained = self._sealed.read().ensemble.trained
        if not trained:
            raise BadInput("teachers were asked before they were trained: call train() first")
        return Voted(self._sealed, self.count, rows, aggregator)

    def _checked(self, rows: NDArray[Any], name: str) -> Codes:
        found, sizes = np.asarray(rows), np.array(self._data.codec.sizes)
        if found.ndim != 2 or found.shape[1] != len(sizes) or len(found) == 0:
            raise BadInput(
                f"{name} must be codes of shape (rows, {len(sizes)}) with at least one row, got {found.shape}"
            )
        if not np.issubdtype(found.dtype, np.integer):
            raise BadInput(
                f"{name} must be codes, that is whole numbers, got {found.dtype}; encode the rows with data.codec"
            )
        if found.min() < 0 or (found.max(axis=0) >= sizes).any():
            raise BadInput(f"{name} must have codes between 0 and the size of their column minus 1")
        return np.array(found, np.int32)


def checked(kind: Kind, codec: Codec) -> int:
    """The number of classes that teachers of this kind tell apart. Raises `BadInput` for a kind that is not the house's own, and for
    settings that cannot work on such codes; reads no record."""
    if not is_own(type(kind)):  # a kind of teachers sees records: it is trusted code
        raise BadInput(
            f"{type(kind).__name__} is not one of synthdp's own kinds of teachers: Stacked, Estimators, MeanEmbeddings"
        )
    return kind.check(codec)


def partitioned(
    data: "Sensitive", sealed: Sealed[Any], count: int, kind: Kind, seed: bytes, state: "State | None"
) -> tuple[Teachers, Sealed[Ballot]]:
    """The handle, and what it holds sealed; for `Sensitive.partition`. The kind's functions run guarded (`callbacks`)."""
    if not isinstance(count, int | np.integer) or count < 1:
        raise BadInput(f"count of teachers must be a whole number of 1 or more, got {count!r}")
    classes, kind = checked(kind, data.codec), _guarded(kind)
    with reading():
        records = sealed.read()
        parts = dealt(records, count)
        mark = hashlib.blake2b(np.ascontiguousarray(parts.codes).data, digest_size=16, key=seed)
        mark.update(parts.sizes.data)
        ballot = Ballot(records, kind.begin(parts, data.codec, classes, seed), np.frombuffer(mark.digest(), np.uint8))
        if state is not None:
            if int(state["count"][0]) != count:
                raise BadInput(f"the fit to resume has {state['count'][0]} teachers, not {count}")
            if not np.array_equal(state.get(DEALT, ballot.dealt), ballot.dealt):  # older checkpoints did not say
                raise BadInput(
                    "the rows of the table now stand in another order than when the fit began, and teachers would learn from each other's "
                    "records: put the rows back in that order and resume again, or start a new fit, which is charged in addition"
                )
            ballot.ensemble.restore(state)
    kept = Sealed(ballot)
    return Teachers(data, kept, count, classes), kept


def _guarded(kind: Any) -> Any:
    given = {name: getattr(kind, name) for name in kind.functions}
    return replace(kind, **{name: Guarded(function) for name, function in given.items() if function is not None})
