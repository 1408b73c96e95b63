"""Which public records are asked about: at random, or those that the student so far is least sure of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.pate.students import Probabilities, margins


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Queries are asked in `rounds`; the first is drawn at random from the public records.

    With `active`, a student learns from the answers after each round and the next one asks where the margin between its two
    likeliest classes is smallest, but for a share `explore`, which is drawn at random. It sees noisy answers and public records
    alone: choosing costs nothing, since the number of queries and the noise were fixed before.
    """

    rounds: int = 1
    active: bool = False
    explore: float = 0.25

    def __post_init__(self) -> None:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise BadInput(f"selection.rounds must be a whole number of 1 or more, got {self.rounds!r}")
        if not 0 <= self.explore <= 1:
            raise BadInput(f"selection.explore must lie in [0, 1], got {self.explore}")
        if self.active and self.rounds == 1:
            raise BadInput("selection.active needs rounds=2 or more: the first is asked before there is a student")

    def choose(
        self, size: int, left: NDArray[np.int64], guess: Probabilities | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """`size` of the places in `left`; `guess` (left, classes) is what the student makes of them, None in round one."""
        if guess is None or not self.active:
            return np.sort(rng.choice(left, size, replace=False))
        unsure = left[np.lexsort((rng.random(len(left)), margins(guess)))]  # ties in random order
        sure = round(size * (1 - self.explore))
        explored = rng.choice(unsure[sure:], size - sure, replace=False)
        return np.sort(np.concatenate([unsure[:sure], explored]))
