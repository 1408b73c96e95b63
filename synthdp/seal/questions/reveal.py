"""The records themselves, at the price of every promise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from synthdp.ledger.events import Event, Revealed
from synthdp.noise.noise import Noise
from synthdp.seal.records import Records

if TYPE_CHECKING:
    import pandas as pd


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

    def noised(self, bounded: "pd.DataFrame", noise: Noise) -> "pd.DataFrame":  # noqa: ARG002
        """The records, without noise."""
        return bounded.copy()

    def movement(self, one: object, other: object) -> float:  # noqa: ARG002
        """Not bounded."""
        return float("inf")
