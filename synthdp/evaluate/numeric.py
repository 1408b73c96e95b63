"""Wasserstein-1 distance of each numeric column: how far its values must move, on average, to become the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.fidelity import no_rows, over_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Axis, Table

INNER = (0.05, 0.95)
# What a column's distance is divided by: the first of these that is above 0 in the real training rows.
SCALES = ("5 to 95 % range", "range", "declared bounds")


def wasserstein(synthetic: Table, train: Table, test: Table) -> tuple[dict[str, Any] | None, str | None]:
    """{"mean", "sd", "n", "max"} over the numeric columns (datetimes too), "columns", "scales" and "floor"; and why not all.

    Each distance is in units of the 5 to 95 % range of the column's real training values: 1 means that values are off by
    about the whole spread of the data. Where that range is 0 (a column that is nearly always one value), it is the whole range,
    and where that is 0 too the declared one: "scales" says which. Missing values are left out on both sides
    (`missing.patterns` judges them). "floor" is the same of the real test rows as if they were synthetic.

    The second value is the reason for columns that could not be judged, or for None where there are none to judge.
    """
    reason = no_rows(synthetic, train, test)
    if reason is not None:
        return None, reason
    found: dict[str, float] = {}
    floor: list[float] = []
    scales: dict[str, str] = {}
    left_out: list[str] = []
    for i, axis in enumerate(train.axes):
        if axis.kind != "number":
            continue
        s, t, v = (column[~np.isnan(column)] for column in (x.values[:, i] for x in (synthetic, train, test)))
        scale, name = _scale(t, axis)
        if not (len(s) and len(t) and len(v)) or scale <= 0:
            left_out.append(axis.name)
            continue
        found[axis.name], scales[axis.name] = distance(s, t) / scale, name
        floor.append(distance(v, t) / scale)
    if not found and not left_out:
        return None, "there is no numeric column"
    shortfall = (
        f"no known values, or no spread even of the declared bounds: {', '.join(left_out)}" if left_out else None
    )
    if not found:
        return None, shortfall
    entry = over_sets(list(found.values()))
    return {**entry, "floor": over_sets(floor), "columns": found, "scales": scales}, shortfall


def distance(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Wasserstein-1 distance of two samples of any sizes above 0: the area between their distribution functions."""
    left, right = np.sort(left), np.sort(right)
    ends = np.sort(np.concatenate([left, right]))
    shares = [np.searchsorted(side, ends[:-1], side="right") / len(side) for side in (left, right)]
    return float(np.sum(np.abs(shares[0] - shares[1]) * np.diff(ends)))


def _scale(real: NDArray[np.float64], axis: Axis) -> tuple[float, str]:
    if not len(real):
        return 0.0, ""
    low, high = np.quantile(real, INNER)
    spreads = (float(high - low), float(real.max() - real.min()), axis.high - axis.low)
    return next(((spread, name) for spread, name in zip(spreads, SCALES, strict=True) if spread > 0), (0.0, ""))
