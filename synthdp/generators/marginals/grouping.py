"""Codes of a column put together until the noise is small against their counts, and told apart again when records are drawn.

The counts are noisy answers, so all of this is post-processing. Bins join their neighbours, from low to high; atoms that are
frequent and the missing value stay by themselves; rare categories become one group.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synthdp.data.codec import Codec
from synthdp.data.columns import Column, Continuous, Datetime, Integer, Ordinal
from synthdp.generators.parts.networks import nearest_distribution

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """`of` (codes,) is each code's group, 0 .. count - 1; `within` (codes,) its share of that group."""

    of: NDArray[np.int64]
    within: Array

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.of.max(initial=0)) + 1

    def ungrouped(self, groups: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """A code of each group (rows,), drawn by the codes' shares."""
        order = np.argsort(self.of, kind="stable")
        ends = np.cumsum(self.within[order])
        first = np.searchsorted(self.of[order], np.arange(self.count))
        last = np.append(first[1:], len(order)) - 1
        below = np.append(0.0, ends)[first]
        lots = below[groups] + rng.random(len(groups)) * (ends[last] - below)[groups]
        places = np.clip(np.searchsorted(ends, lots, side="right"), first[groups], last[groups])
        codes: NDArray[np.int32] = order[places].astype(np.int32)
        return codes


def grouped(counts: Array, column: Column, codec: Codec, least: float, most: int) -> Groups:
    """Groups whose noisy counts are at least `least`, at most about `most` of them; `counts` (codes,) are noisy. With `least` 0
    every code is a group, unless there are more than `most`."""
    size = len(counts)
    known = size - bool(getattr(column, "missing", False))
    if least == 0 and known <= most:
        return Groups(of=np.arange(size), within=np.ones(size))
    if known > most:
        least = max(least, float(np.clip(counts[:known], 0, None).sum()) / most)
    of = np.zeros(size, np.int64)
    ordered = isinstance(column, Integer | Continuous | Datetime | Ordinal)
    of[:known] = (
        _neighbours(counts, _by_value(column, codec, known), least) if ordered else _rare(counts[:known], least)
    )
    if known < size:
        of[known] = of[:known].max(initial=-1) + 1
    return Groups(of=of, within=_shares(counts, of))


def _by_value(column: Column, codec: Codec, known: int) -> list[tuple[int, bool]]:
    """Codes from low to high, and whether each is an atom."""
    if isinstance(column, Ordinal):
        return [(code, False) for code in range(known)]
    atoms: Any = codec.atoms(column.name)
    edges: Any = codec.edges(column.name)[: known - len(atoms)]
    keyed = [(value, 0, code, False) for code, value in enumerate(edges)]
    keyed += [(value, 1, len(edges) + place, True) for place, value in enumerate(atoms)]
    return [(code, atom) for _, _, code, atom in sorted(keyed, key=lambda item: item[:2])]


def _neighbours(counts: Array, order: list[tuple[int, bool]], least: float) -> NDArray[np.int64]:
    """Runs of codes, each closed when it holds `least`; what is left over joins the last run."""
    runs: list[list[int]] = [[]]
    alone = {code for code, atom in order if atom and counts[code] >= least}
    held = 0.0
    for code, _ in order:
        if code in alone:
            continue
        runs[-1].append(code)
        held += counts[code]
        if held >= least:
            runs.append([])
            held = 0.0
    if len(runs) > 1:  # what is left over
        rest = runs.pop()
        runs[-1] += rest
    of = np.zeros(len(order), np.int64)
    for group, codes in enumerate([*(run for run in runs if run), *([code] for code in sorted(alone))]):
        of[codes] = group
    return of


def _rare(counts: Array, least: float) -> NDArray[np.int64]:
    """Frequent categories by themselves, the others together."""
    frequent = counts >= least
    if (~frequent).sum() <= 1:
        return np.arange(len(counts))
    of = np.full(len(counts), int(frequent.sum()), np.int64)
    of[frequent] = np.arange(int(frequent.sum()))
    return of


def _shares(counts: Array, of: NDArray[np.int64]) -> Array:
    within = np.zeros(len(counts))
    for group in range(int(of.max(initial=-1)) + 1):
        codes = np.flatnonzero(of == group)
        within[codes] = nearest_distribution(torch.from_numpy(counts[codes])).numpy()
    return within
