"""Whose records are attacked: one record of each patient, so that the guarantee's unit and the attack's are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.attacks.case import stream

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table


def unit_codes(train: pd.DataFrame, test: pd.DataFrame, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows,) codes of the unit column of both frames, the same for the same unit; a missing one is a unit of its own."""
    import pandas as pd

    # As words, for 7 in one file may be "7" or, beside a missing one, 7.0 in the other.
    words = pd.concat([frame[name].convert_dtypes().astype("string") for frame in (train, test)])
    codes = pd.factorize(words)[0]
    own = np.where(codes < 0, len(codes) + np.arange(len(codes)), codes).astype(np.int64)
    return own[: len(train)], own[len(train) :]


def one_per_unit(train: Table, test: Table, units: tuple[NDArray[np.int64], NDArray[np.int64]]) -> tuple[Table, Table]:
    """One record of each unit, drawn; no hold-out record of a unit that has training records.

    units: (rows,) of each table, one code per unit, shared by both. An attack on these is an attack on patients.
    """
    own, other = units
    if (len(own), len(other)) != (train.rows, test.rows):
        raise BadInput("units: give one code for each real training row and one for each real test row.")
    keep = _one_each(own, stream("units of train"))
    rest = _one_each(other, stream("units of test"))
    return train.take(keep), test.take(rest[~np.isin(other[rest], own)])


def _one_each(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(units))
    first = np.unique(units[order], return_index=True)[1]
    return np.asarray(np.sort(order[first]))
