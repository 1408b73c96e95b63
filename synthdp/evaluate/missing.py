"""Which cells are missing together: the pattern of missing values as a distribution of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.fidelity import no_rows, over_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table


def patterns(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """Total variation distance, in [0, 1], of the missing patterns; each row's pattern is the set of its missing columns.

    {"mean", "sd", "n", "max"} as of the other distances (here over one set: all columns, so mean is max), "floor" (the real test
    rows as if synthetic), "columns": |share missing in synthetic - in training rows| for each column with a missing
    value in any set, and "shares": those of (synthetic, train, test). 0 where no value is missing anywhere.
    None and the reason where a set is empty.
    """
    reason = no_rows(synthetic, train, test)
    if reason is not None:
        return None, reason
    s, t, v = (np.isnan(table.values) for table in (synthetic, train, test))
    names = [axis.name for axis in train.axes]
    shares = {
        name: [float(x[:, i].mean()) for x in (s, t, v)]
        for i, name in enumerate(names)
        if s[:, i].any() or t[:, i].any() or v[:, i].any()
    }
    entry = over_sets([distance(s, t)])
    entry["floor"] = over_sets([distance(v, t)])
    entry["columns"] = {name: abs(share[0] - share[1]) for name, share in shares.items()}
    entry["shares"] = shares
    return entry, None


def distance(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> float:
    """Half the L1 distance of the shares of each distinct row of two (rows, columns) masks with a row each at least."""
    both = np.packbits(np.concatenate([left, right]), axis=1)
    _, place = np.unique(both, axis=0, return_inverse=True)
    a, b = (np.bincount(x, minlength=int(place.max()) + 1) / len(x) for x in (place[: len(left)], place[len(left) :]))
    return float(0.5 * np.abs(a - b).sum())
