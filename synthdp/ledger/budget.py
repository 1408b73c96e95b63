"""What a fit may spend."""

import math
import sys
from dataclasses import dataclass

from synthdp.errors import BadInput
from synthdp.ledger.events import RELATIONS, Relation
from synthdp.options import option

LEAST_DELTA = 1e-300


@dataclass(frozen=True)
class Budget:
    """Epsilon and delta under a neighbouring relation.

    `epsilon` is positive (`math.inf` switches the noise off, and the statement says so), `delta` lies in [1e-300, 1).
    Raises `BadInput` otherwise.
    """

    epsilon: float = option(1.0, "privacy loss that the fit may spend, > 0")
    delta: float = option(1e-6, "probability of a larger loss, in (0, 1); keep it well below 1 / number of patients")
    relation: Relation = option(
        "add_remove", "neighbouring data sets: add_remove (one unit more or less) or replace_one"
    )

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise BadInput(f"budget.{name} must be a number, got {value!r}")
            if isinstance(value, int) and value.bit_length() > sys.float_info.max_exp:
                raise BadInput(f"budget.{name} must be a number that float64 holds; write inf for no privacy at all")
        if not self.epsilon > 0 or math.isnan(self.epsilon):
            raise BadInput(f"budget.epsilon must be greater than 0, got {self.epsilon}")
        if not 0 < self.delta < 1 or self.delta < LEAST_DELTA:
            raise BadInput(
                f"budget.delta must lie strictly between 0 and 1, and be at least {LEAST_DELTA:g}, got {self.delta}"
            )
        if self.relation not in RELATIONS:
            raise BadInput(f"budget.relation must be one of {', '.join(RELATIONS)}, got {self.relation!r}")
