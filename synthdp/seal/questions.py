"""The questions that sealed records answer; each file has one kind of them with its event, bound, noise and replay case."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from synthdp.ledger.events import Event, Revealed
from synthdp.seal.records import Records

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.noise.noise import Noise


Answer = TypeVar("Answer", covariant=True)

# The classes that may read records, and those that such a question may be made of: trusted code, one by one. By name, so that a
# fit that asks for tables alone does not import torch; that the class is the very one is checked by identity.
HOUSE = frozenset(
    f"synthdp.{home}:{name}"
    for home, names in {
        "schema.history_view": ["View"],
        "schema.rows_below": ["Below"],
        "schema.trees": ["Tree"],
        "seal.choice": ["Chosen", "Dependence", "Misfit"],
        "seal.clipping": ["Automatic", "Flat", "PerGroup"],
        "seal.gradients.question": ["Counted", "Gradient", "Together"],
        "seal.history_tables": ["HistoryTables"],
        "seal.learn": ["Domain", "Grid", "Size"],
        "seal.marginals": ["Distance", "Marginals"],
        "seal.questions": ["Reveal"],
        "seal.teachers.mean_embeddings": ["MeanEmbeddings"],
        "seal.teachers.network_teachers": ["Stacked"],
        "seal.teachers.sealed_teachers": ["Voted"],
        "seal.teachers.sklearn_teachers": ["Estimators"],
        "seal.teachers.vote_aggregation": ["Confident", "Counts", "GNMax", "Interactive", "LNMax", "Labels", "Shares"],
        "seal.vectors": ["Group", "GroupMoments", "GroupSums", "Joint", "Scaled", "Sums"],
    }.items()
    for name in names
)


def is_own(kind: type) -> bool:
    """Whether it is one of the house's classes: the very object, not one that says so."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    return name in HOUSE and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


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

    def bounded(self, records: "Records") -> Any:
        """The exact value, every unit's contribution bounded."""
        ...

    def noised(self, bounded: Any, noise: "Noise") -> Answer:
        """The answer: `bounded` with fresh noise."""
        ...

    def movement(self, one: Any, other: Any) -> float:
        """How far apart two bounded values are: what replay compares with `sensitivity`."""
        ...


# ---- The records themselves, at the price of every promise.


@dataclass(frozen=True)
class Reveal:
    """The sealed records, for a steward who accepts an infinite epsilon."""

    reason: str

    @property
    def events(self) -> Sequence[Event]:
        """Revealed: no finite epsilon."""
        return [Revealed(self.reason)]

    @property
    def sensitivity(self) -> float:
        """Unbounded."""
        return float("inf")

    def bounded(self, records: Records) -> "pd.DataFrame | None":
        """The records as they were sealed."""
        return records.raw

    def noised(self, bounded: "pd.DataFrame", noise: "Noise") -> "pd.DataFrame":  # noqa: ARG002
        """The records, without noise."""
        return bounded.copy()

    def movement(self, one: object, other: object) -> float:  # noqa: ARG002
        """Not bounded."""
        return float("inf")
