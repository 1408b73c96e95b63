"""The options of Poisson samples, and the rate that follows from them and the schema."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from synthdp.errors import BadInput
from synthdp.options import number, option
from synthdp.schema.schema import LEARN, Schema


@dataclass(frozen=True, kw_only=True)
class Sampling(ABC):
    """How many samples there are, and how large. Generators give `steps` and `batch` defaults of their own, and have a `start`."""

    name: ClassVar[str]

    steps: int
    batch: int
    rate: float | None = option(
        None,
        "Poisson sampling probability, instead of batch; required where the schema does not declare units",
        number("[1e-9, 1]"),
    )
    start: str

    @property
    def tells_units(self) -> bool:
        """Whether the start tells a noisy number of units."""
        return False

    def sampling_rate(self, schema: Schema) -> float:
        """`rate`, or batch / units; raises `BadInput` where the schema does not say what it needs."""
        if self.rate is not None:
            if schema.units is None and not self.tells_units:
                raise BadInput(
                    f"{self.name} with generator.start={self.start} needs units in the schema: a count, an estimate, or learn"
                )
            return self.rate
        if schema.units is None or schema.units == LEARN:
            raise BadInput(
                f"{self.name} needs the expected batch size: declare units in the schema (a public count or estimate of "
                "units), or give generator.rate"
            )
        return min(1.0, self.batch / schema.units)
