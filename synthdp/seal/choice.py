"""One of several sets of columns, chosen by a score that the seal knows: the exponential mechanism.

Which scores there are is decided here, and so is how far one unit moves them (law 20): a generator hands in candidates and
public numbers, never a function of records.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.events import Choice, Event, Relation
from synthdp.noise.exponential import drawn
from synthdp.seal.clipping import MARGIN
from synthdp.seal.marginals import Grouping, Marginals, Table
from synthdp.seal.records import Countable, shape_of

if TYPE_CHECKING:
    from synthdp.noise.noise import Noise


MOST_RECORDS = 2**30  # of a table: rounding of sums of so many stays far below what `MARGIN` leaves
MOST_OFFSET = 2.0**36  # in records: beside more, rounding would move a distance by more than `MARGIN` leaves
LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100  # beyond them scores, and what they are divided by, would overflow
MOST_SCALE = 1e300  # less is more private, and a best score's 0 stays 0
TOGETHER = 1 << 21  # cells of tables that are counted at once: they share a look at the records
Cliques = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Misfit:
    """How far the records' table lies from an expected one, the more the better: weight * (L1 distance - offset).

    McKenna, Miklau & Sheldon 2021 choose pairs of columns by it (weight 1, offset 0), McKenna et al. 2022, equation 1, any cliques;
    there the offset is the error that measuring would leave. `expected` holds an array per candidate, in numbers of records. A
    record more or less moves a table by 1 in L1, and so the distance by at most 1 (triangle inequality).
    """

    expected: tuple[Table, ...]
    weights: tuple[float, ...]
    offsets: tuple[float, ...]

    @property
    def moves(self) -> float:
        """The most that a record more or less moves a candidate's score."""
        return max(self.weights)

    def check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raises `BadInput` where a number is lacking or is none, or a table is not of its candidate's shape."""
        if not len(shapes) == len(self.expected) == len(self.weights) == len(self.offsets):
            raise BadInput("a misfit needs an expected table, a weight and an offset for each candidate")
        if not all(LEAST_WEIGHT <= weight <= MOST_WEIGHT for weight in self.weights):
            raise BadInput(f"weights of candidates must lie in [{LEAST_WEIGHT:g}, {MOST_WEIGHT:g}]")
        if not all(abs(offset) <= MOST_OFFSET for offset in self.offsets):
            raise BadInput(
                "offsets of candidates must be numbers of at most 2^36 records, or rounding would move a score too far"
            )
        for shape, table in zip(shapes, self.expected, strict=True):
            if table.shape != shape or not np.isfinite(table).all() or np.abs(table).sum() > MOST_RECORDS:
                raise BadInput(f"an expected table must have shape {shape}, be finite and count at most 2^30 records")

    def of(self, place: int, table: Table) -> float:
        """The score of one candidate, up to rounding."""
        apart = float(np.abs(table - self.expected[place]).sum())
        return self.weights[place] * (apart - self.offsets[place])


@dataclass(frozen=True, kw_only=True, eq=False)
class Dependence:
    """How far the last column of a candidate is from independent of its other columns together, in numbers of records:
    half of the L1 distance of their table from the product of its margins, n times the score R of Zhang et al. 2017.

    A record more or less moves the table by 1 in L1, and the product n_a n_b / n by at most (3 n + 1) / (n + 1) < 3, and so the
    score by less than 2. Unlike mutual information it needs no public n.
    """

    @property
    def moves(self) -> float:
        """The most that a record more or less moves a candidate's score."""
        return 2.0

    def check(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Any table will do."""

    def of(self, place: int, table: Table) -> float:  # noqa: ARG002
        """The score of one candidate, up to rounding."""
        flat = table.reshape(-1, table.shape[-1]) if table.ndim else table.reshape(1, 1)
        product = flat.sum(1, keepdims=True) * flat.sum(0, keepdims=True) / max(1.0, float(flat.sum()))
        return 0.5 * float(np.abs(flat - product).sum())


Score = Misfit | Dependence
SCORES = (Misfit, Dependence)  # what subclasses would say of themselves is not believed


@dataclass(frozen=True)
class Chosen:
    """The place of one candidate, drawn with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    `moves` of a score is said for one record; a unit has up to R of them, which come or go one after another. Scores are taken
    times `MARGIN`, which leaves room for rounding. Under replace_one a unit goes and another comes: twice the sensitivity.
    """

    counted: ClassVar[bool] = True  # it needs counts, and no record
    of_counts: ClassVar[bool] = True  # a function of the counts of all records
    candidates: Cliques  # columns of the code table
    sizes: tuple[int, ...]  # codes per column
    score: Score
    epsilon: float
    max_records: int
    groups: tuple[Grouping | None, ...] | None = None
    relation: Relation = "add_remove"
    _tables: tuple[Marginals, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.score) not in SCORES:
            raise BadInput(f"a choice needs a score that the seal knows: {', '.join(kind.__name__ for kind in SCORES)}")
        if not self.candidates:
            raise BadInput("a choice needs at least one candidate")
        if not self.epsilon >= 0:
            raise BadInput(f"epsilon of a choice must be 0 or more, got {self.epsilon}")
        shapes = [shape_of(clique, self.sizes, self.groups) for clique in self.candidates]
        self.score.check(shapes)
        lots = np.cumsum([math.prod(shape) for shape in shapes], dtype=np.float64) // TOGETHER
        starts = [0, *(np.flatnonzero(np.diff(lots)) + 1).tolist(), len(shapes)]
        asked = tuple(
            Marginals(self.candidates[start:end], self.sizes, 0.0, self.max_records, self.groups)
            for start, end in pairwise(starts)
        )
        object.__setattr__(self, "_tables", asked)

    @property
    def events(self) -> Sequence[Event]:
        """One choice."""
        return [Choice(self.epsilon, relation=self.relation)]

    @property
    def sensitivity(self) -> float:
        """The most that a candidate's score moves when a unit is added or removed."""
        return self.max_records * self.score.moves

    def bounded(self, records: Countable) -> NDArray[np.float64]:
        """The exact scores (candidates,); tables of about `TOGETHER` cells are held at a time."""
        scores: list[float] = []
        for asked in self._tables:
            scores += [self.score.of(len(scores) + place, table) for place, table in enumerate(asked.bounded(records))]
        return MARGIN * np.array(scores)

    def noised(self, bounded: NDArray[np.float64], noise: "Noise") -> int:
        """The chosen place; with infinite epsilon the first of the best."""
        if math.isinf(self.epsilon):
            return int(np.argmax(bounded))
        moved = self.sensitivity * (2 if self.relation == "replace_one" else 1)
        scale = min(self.epsilon / (2 * moved), MOST_SCALE)
        with np.errstate(over="ignore"):  # what is that far below the best counts as `exponential.DEPTH` below it
            return drawn(scale * (bounded - bounded.max()), noise.bits)

    def movement(self, one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        """How far the score that moved most did."""
        return float(np.abs(one - other).max())
