"""The first look that generators on tables take: every column alone, with noise, and the groups of codes that the noise allows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals.grouping import Counts, Groups, grouped
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import MOST_RECORDS, Marginals

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Binned:
    """`columns` are the noisy counts of each column's groups; a group of c codes has a deviation of sqrt(c) times `deviation`."""

    groups: tuple[Groups, ...]
    columns: tuple[Array, ...]
    deviation: float
    total: float  # noisy number of records, from 1 to what a choice can score

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Groups of each column."""
        return tuple(each.count for each in self.groups)

    @property
    def of(self) -> list[NDArray[np.int64]]:
        """What questions count by."""
        return [each.of for each in self.groups]

    def codes(self, column: int) -> NDArray[np.int64]:
        """How many codes each group of a column holds."""
        return np.bincount(self.groups[column].of, minlength=self.groups[column].count)


def binned(counts: list[Array], question: Marginals, schema: Schema, codec: Codec, least: float, most: int) -> Binned:
    """From the answer to `question`, every column alone: groups that hold at least `least` deviations of its noise each, at most
    about `most` of a column."""
    total = float(np.average([each.sum() for each in counts], weights=[1 / len(each) for each in counts]))
    total = min(max(1.0, total), MOST_RECORDS / 2)
    floor = min(least * question.deviation, total / 2)
    groups = tuple(
        grouped(Counts.of(each, question.deviation), column, codec, floor, most)
        for each, column in zip(counts, schema.coded, strict=True)
    )
    columns = tuple(
        np.bincount(group.of, each, group.count).astype(np.float64) for group, each in zip(groups, counts, strict=True)
    )
    return Binned(groups=groups, columns=columns, deviation=question.deviation, total=total)
