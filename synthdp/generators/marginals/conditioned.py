"""A condition on codes as an event of their groups, and codes of groups as the condition leaves them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals.grouping import Groups
from synthdp.schema.where import Allowed, Shares

Array = NDArray[np.float64]


def events(allowed: Allowed, names: Sequence[str], groups: Sequence[Groups]) -> dict[str, Array]:
    """By name, for the columns that the condition is about: how often each group satisfies it, (groups,), by its codes' shares."""
    return {
        name: np.bincount(each.of, weights=each.within * allowed.shares[name], minlength=each.count)
        / np.maximum(np.bincount(each.of, weights=each.within, minlength=each.count), np.finfo(float).tiny)
        for name, each in zip(names, groups, strict=True)
        if name in allowed.shares
    }


def code_of(
    groups: Groups, chosen: NDArray[np.int64], shares: Shares | None, rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of each chosen group (rows,), of those that the condition leaves; `shares` None: of all."""
    if shares is None:
        return groups.ungrouped(chosen, rng)
    within = groups.within * shares
    kept = np.flatnonzero(within > 0)
    left = Groups(of=groups.of[kept], within=within[kept])
    codes: NDArray[np.int32] = kept[left.ungrouped(chosen, rng)].astype(np.int32)
    return codes
